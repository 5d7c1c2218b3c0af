;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What lasts no longer than the process. An image may be saved with all of this in it; when it
;;; starts again, its threads are gone, and nobody waits for what they did.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *of-the-process* '(*running* *handles* *compiling*)
  "Variables that are NIL when a process begins.")

(defun lasts-for-the-process (variable)
  (pushnew variable *of-the-process*))

(defun forget-the-process ()
  (dolist (variable *of-the-process*)
    (setf (symbol-value variable) nil)))

;; Where there are none, no image can be saved, or nobody can be told that it starts.
(let* ((package (or (find-package "SB-EXT") (find-package "CUSTOM")))
       (hooks (and package (find-symbol "*INIT-HOOKS*" package))))
  (when (and hooks (boundp hooks))
    (pushnew 'forget-the-process (symbol-value hooks))))
