;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The client's side of a call: messages that would make Emacs or another thread do something, and
;;; what the user evaluates in the debugger of a thread that is watched. That is the user's own.

(cl:in-package "AGENT-Q-IMAGE")

(defun effect-of-message (arguments)
  "Sending a message to a thread of the client's: some make it run code, or Emacs do something."
  (destructuring-bind (thread message) arguments
    (let ((kind (and (consp message) (first message))))
      (cond ((member kind '(:emacs-rex :emacs-interrupt :call))
             (make-effect :kind "stop-thread" :target (thread-text thread)
                          :words (format nil "have the thread ~A evaluate a form"
                                         (thread-text thread))))
            ((or (member kind '(:ed :eval :eval-no-wait :inspect :ed-rpc :ed-rpc-no-wait))
                 (and (eq kind :background-message)
                      (stringp (second message))
                      (eql 0 (search "agent-q effect" (second message)))))
             (make-effect :kind "write-to-client" :target (string-downcase (symbol-name kind))
                          :words (format nil "have Emacs do ~(~A~): ~A" kind
                                         (printed (rest message) :limit 300))))))))

;;; The user's forms come as messages, and go from there to where they are evaluated. Code of the
;;; program's can't send such a message unasked.

(defun call-awaiting (watch hold function arguments)
  "Wait for a message of the client's, and remember the form in it, if it has one."
  (declare (ignore hold))
  (let ((message (apply function arguments)))
    (when (and (consp message) (eq (first message) :emacs-rex) (consp (second message)))
      (hold-one (watch-forms watch) (second message)))
    message))

(defun call-evaluating (watch hold function arguments)
  "Evaluate a form as the client does: one that came in a message as if there were no watch."
  (declare (ignore hold))
  (let ((form (first arguments)))
    (cond ((member form (first (watch-forms watch)) :test #'eq)
           (drop-one (watch-forms watch) form)
           (funcall (watch-call-in watch) nil (lambda () (apply function arguments))))
          (t (apply function arguments)))))

;;; Descriptors

(defun client-descriptors ()
  "The descriptors of the connections to Emacs."
  (loop for client in '(:swank :slynk)
        for accessor = (or (client-symbol-named client "CONNECTION.SOCKET-IO")
                           (client-symbol-named client "CONNECTION-SOCKET-IO"))
        when (and accessor (fboundp accessor))
          append (loop for connection in (client-value client "*CONNECTIONS*")
                       for stream = (ignore-errors (funcall accessor connection))
                       for descriptor = (ignore-errors (internal "SB-SYS" "FD-STREAM-FD" stream))
                       when descriptor collect descriptor)))

(defun effect-of-writing (arguments)
  "Writing to a descriptor: that of the client, or a file that nobody in the call has opened."
  (let ((descriptor (first arguments)))
    (cond ((not (integerp descriptor)) nil)
          ((<= 0 descriptor 2) nil)
          ((member descriptor (client-descriptors))
           (make-effect :kind "write-to-client" :target "connection"
                        :words "write to the connection to Emacs"))
          (t (let ((name (descriptor-name descriptor)))
               (when (and name (char= (char name 0) #\/) (not (eql 0 (search "/dev/" name))))
                 (make-effect :kind "write-file" :files (list name) :target name
                              :texts (list name) :words (format nil "write ~A" name))))))))
