;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; State that must not outlive the process. An image may be saved with all of this in it; when it
;;; starts again, its threads are gone, and nobody waits for their results.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *of-the-process* '(*running* *handles* *compiling*)
  "Variables to set to NIL when a process starts.")

(defun lasts-for-the-process (variable)
  (pushnew variable *of-the-process*))

(defun forget-connections ()
  "Reset the clients' lists of connections and servers. In a saved image, the thread that kept them
is gone but still registered, so the client wouldn't start another: new connections wouldn't be
listed, and nobody could be asked about an effect."
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

;; Other implementations can't save an image, or have no hook for its start.
(let* ((package (or (find-package "SB-EXT") (find-package "CUSTOM")))
       (hooks (and package (find-symbol "*INIT-HOOKS*" package))))
  (when (and hooks (boundp hooks))
    (pushnew 'forget-the-process (symbol-value hooks))))
