;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The socket of the client's connection. A reply of more than 8 KB leaves in pieces, and the last waits
;;; for Emacs's system to acknowledge the one before, which takes some 40 ms, unless the socket is told
;;; not to delay it. SBCL only.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *undelayed* nil
  "The connection whose socket was told last.")

(lasts-for-the-process '*undelayed*)

(defun send-undelayed (descriptor)
  "Make the socket of DESCRIPTOR send without delay."
  ;; Not MAKE-INSTANCE: that closes the descriptor once what it made is garbage.
  (let ((socket (allocate-instance (find-class (find-symbol "INET-SOCKET" "SB-BSD-SOCKETS")))))
    (setf (slot-value socket (find-symbol "FILE-DESCRIPTOR" "SB-BSD-SOCKETS")) descriptor)
    (funcall (fdefinition (list 'setf (find-symbol "SOCKOPT-TCP-NODELAY" "SB-BSD-SOCKETS")))
             t socket)))

(defun ensure-undelayed ()
  "Make this call's connection send without delay, where that is possible."
  (let ((connection (and (implementation-p "SBCL") (client-value *client* "*EMACS-CONNECTION*"))))
    (unless (or (null connection) (eq connection *undelayed*))
      (setf *undelayed* connection)
      (ignore-errors
       (send-undelayed
        (funcall (find-symbol "FD-STREAM-FD" "SB-SYS")
                 (funcall (or (client-symbol-named *client* "CONNECTION.SOCKET-IO")
                              (client-symbol-named *client* "CONNECTION-SOCKET-IO"))
                          connection)))))))
