;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What lasts no longer than the process. An image may be saved with all of this in it; when it
;;; starts again, its threads are gone, and nobody waits for what they did.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *of-the-process* '(*running* *handles* *compiling*)
  "Variables that are NIL when a process begins.")

(defun lasts-for-the-process (variable)
  (pushnew variable *of-the-process*))

(defun forget-connections ()
  "Have each client begin anew. It would take its thread that notes connections, which is gone, for one
that still does, and list none that came since: nobody could be asked about an effect, for one."
  (dolist (client '(:swank :slynk))
    (let* ((*client* client)
           (register (backend-function "REGISTER-THREAD"))
           (sentinel (client-symbol-named client "SENTINEL")))
      (when (and register sentinel)
        (funcall register sentinel nil))
      (dolist (name '("*CONNECTIONS*" "*SERVERS*"))
        (let ((variable (client-symbol-named client name)))
          (when (and variable (boundp variable))
            (setf (symbol-value variable) '())))))))

(defun forget-the-process ()
  (dolist (variable *of-the-process*)
    (setf (symbol-value variable) nil))
  (ignore-errors (forget-connections)))

;; Where there are none, no image can be saved, or nobody can be told that it starts.
(let* ((package (or (find-package "SB-EXT") (find-package "CUSTOM")))
       (hooks (and package (find-symbol "*INIT-HOOKS*" package))))
  (when (and hooks (boundp hooks))
    (pushnew 'forget-the-process (symbol-value hooks))))
