;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What lasts no longer than the process. An image may be saved with all of this in it; when it
;;; starts again, its threads are gone, and nobody waits for what they did.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *of-the-process* '(*running* *handles* *compiling*)
  "Variables that are NIL when a process begins.")

(defun lasts-for-the-process (variable)
  (pushnew variable *of-the-process*))

(defun forget-connections ()
  "Reset the clients' lists of connections and servers. The thread that kept them is not in a saved
image, but is still registered, so no other would be started: new connections would not be listed, and
nobody could be asked about an effect."
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
