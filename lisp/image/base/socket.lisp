;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The socket of the client's connection. A reply of more than 8 KB leaves in pieces, and the last
;;; piece waits until Emacs's system has acknowledged the one before, some 40 ms, unless TCP_NODELAY
;;; is set. SBCL only.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *undelayed* nil
  "The last connection whose socket was set up.")

(lasts-for-the-process '*undelayed*)

(defun send-undelayed (descriptor)
  "Set TCP_NODELAY on the socket with DESCRIPTOR."
  ;; Not MAKE-INSTANCE: the finalizer of its instance would close the descriptor.
  (let ((socket (allocate-instance (find-class (find-symbol "INET-SOCKET" "SB-BSD-SOCKETS")))))
    (setf (slot-value socket (find-symbol "FILE-DESCRIPTOR" "SB-BSD-SOCKETS")) descriptor)
    (funcall (fdefinition (list 'setf (find-symbol "SOCKOPT-TCP-NODELAY" "SB-BSD-SOCKETS")))
             t socket)))

(defun ensure-undelayed ()
  "Set TCP_NODELAY on this call's connection, where possible."
  (let ((connection (and (implementation-p "SBCL") (client-value *client* "*EMACS-CONNECTION*"))))
    (unless (or (null connection) (eq connection *undelayed*))
      (setf *undelayed* connection)
      (ignore-errors
       (send-undelayed
        (funcall (find-symbol "FD-STREAM-FD" "SB-SYS")
                 (funcall (or (client-symbol-named *client* "CONNECTION.SOCKET-IO")
                              (client-symbol-named *client* "CONNECTION-SOCKET-IO"))
                          connection)))))))
