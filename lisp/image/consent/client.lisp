;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The client's side of a call: messages that would make Emacs or another thread do something, and
;;; what the user evaluates in the debugger of a thread that is watched. That is the user's own.

(cl:in-package "AGENT-Q-IMAGE")

(defun free-message-p (kind)
  "Whether a message of KIND is what code sends to Emacs by printing, reading and failing."
  (member kind
          '(:write-string :write-image :presentation-start :presentation-end :new-package :new-features
            :background-message :debug :debug-activate :debug-return :debug-condition :read-string
            :read-aborted :read-from-minibuffer :y-or-n-p :ping :indentation-update :channel-send)))

(defun effect-of-message (arguments)
  "Sending a message to a thread of the client's: some make it run code, or Emacs do something, or
take an answer of the code's for one of the image's."
  (destructuring-bind (thread message) arguments
    (let ((kind (and (consp message) (first message))))
      (cond ((not (keywordp kind)) (effect-of-odd-message thread message))
            ;; The client's own hooks do this, also where a call has added one of its own to them.
            ((and (member kind '(:sync-indentation :update-indentation-information))
                  (search "indentation" (thread-text thread)))
             nil)
            ((member kind '(:emacs-rex :emacs-interrupt :call))
             (make-effect :kind "stop-thread" :target (thread-text thread)
                          :words (format nil "evaluate a form in the thread ~A"
                                         (thread-text thread))))
            ((or (not (free-message-p kind))
                 (not (readable-message-p message))
                 (not (own-debugger-p message))
                 (and (eq kind :indentation-update) (not (plain-indentation-p (rest message))))
                 (and (eq kind :background-message)
                      (stringp (second message))
                      (eql 0 (search "agent-q effect" (second message)))))
             (make-effect :kind "write-to-client" :target (string-downcase (symbol-name kind))
                          :words (format nil "make Emacs do ~(~A~): ~A" kind
                                         (printed (rest message) :limit 300))))))))

(defun own-debugger-p (message)
  "Whether MESSAGE, if it is about a debugger, is about the one that this thread is in."
  (or (not (member (first message) '(:debug :debug-activate :debug-return :debug-condition)))
      (loop for (client variable) in '((:swank "*SLDB-LEVEL*") (:slynk "*SLY-DB-LEVEL*"))
            for id = (client-symbol-named client "CURRENT-THREAD-ID")
            for level = (client-value client variable)
              thereis (and id level (fboundp id)
                           (eql (second message) (funcall id))
                           (plusp level)
                           (or (eq (first message) :debug-condition)
                               (eql (third message) level))))))

(defun effect-of-odd-message (thread message)
  "Sending one of the client's threads what no client sends: it closes the connection over that."
  (unless (or (eq thread (backend "CURRENT-THREAD"))
              ;; Printing does this, so that what was printed is seen soon.
              (and (eq message t) (equal (thread-text thread) "auto-flush-thread")))
    (make-effect :kind "write-to-client" :target (thread-text thread)
                 :words (format nil "send the thread ~A the message ~A"
                                (thread-text thread) (printed message :limit 300)))))

(defun whole-list-p (object)
  (and (listp object) (ignore-errors (list-length object)) (null (cdr (last object)))))

(defun readable-message-p (message)
  "Whether Emacs can read MESSAGE. It closes the connection over one that it can't."
  (typecase message
    (cons (and (whole-list-p message) (every #'readable-message-p message)))
    (symbol (or (null message)
                (every (lambda (it) (or (alphanumericp it) (find it "-*+/&%<>=:")))
                       (symbol-name message))))
    ((or string integer float) t)))

(defun plain-indentation-p (message)
  "Whether MESSAGE about indentation has nothing but numbers: Emacs would call a function in it."
  (labels ((plain-p (it)
             (typecase it
               (cons (and (whole-list-p it) (every #'plain-p it)))
               (symbol (or (null it) (prefixed-p "&" (symbol-name it))))
               (integer t))))
    (and (whole-list-p message)
         (every (lambda (entries)
                  (and (whole-list-p entries)
                       (every (lambda (entry) (and (consp entry) (consp (cdr entry))
                                                   (plain-p (second entry))))
                              entries)))
                message))))

(defun effect-of-writing-message (arguments)
  "Writing a message to Emacs where another thread of the client's does that: what is denied only when
the stream is flushed goes with the next message."
  (declare (ignore arguments))
  (make-effect :kind "write-to-client" :target "connection" :words "write to the connection to Emacs"))

;;; The user's forms come as messages, and go from there to where they are evaluated. What code of a
;;; call puts among the messages has not come from the connection.

(defun call-decoding (watch hold function arguments)
  "Read a message of Emacs, and remember the form in it, if it has one."
  (let ((message (apply function arguments)))
    (when (and (null hold)
               (consp message) (eq (first message) :emacs-rex) (consp (second message)))
      (hold-one (watch-forms watch) (second message)))
    message))

(defun call-evaluating (watch hold function arguments)
  "Evaluate a form as the client does: one that came in a message as if there were no watch."
  (let* ((form (first arguments))
         (came (member form (first (watch-forms watch)) :test #'eq)))
    (when came (drop-one (watch-forms watch) form))
    (if (and came hold)
        (funcall (watch-call-in watch) nil (lambda () (apply function arguments)))
        (apply function arguments))))

;;; Descriptors

(defun client-descriptors ()
  "The descriptors of the connections to Emacs. Each file that is closed is compared with them."
  (loop for (connections . accessor) in (client-accessors)
        nconc (loop for connection in (symbol-value connections)
                    for stream = (ignore-errors (funcall accessor connection))
                    for descriptor = (and (directly "SB-SYS" "FD-STREAM-P" stream)
                                          (directly "SB-SYS" "FD-STREAM-FD" stream))
                    when descriptor collect descriptor)))

(defun client-accessors ()
  "For each client that is here, the variable of its connections, and what gives the stream of one."
  (let ((known (load-time-value (list nil nil))))
    (loop for place on known
          for client in '(:swank :slynk)
          for found = (or (car place) (setf (car place) (client-accessor client)))
          when found collect found)))

(defun client-accessor (client)
  (let ((connections (client-symbol-named client "*CONNECTIONS*"))
        (accessor (or (client-symbol-named client "CONNECTION.SOCKET-IO")
                      (client-symbol-named client "CONNECTION-SOCKET-IO"))))
    (and connections (boundp connections) accessor (fboundp accessor)
         (cons connections accessor))))

(defun client-descriptor-p (descriptor)
  "Whether DESCRIPTOR, under whatever number, is of a connection to Emacs."
  (let ((descriptors (client-descriptors)))
    (or (member descriptor descriptors)
        (let ((name (and (integerp descriptor) (descriptor-name descriptor))))
          (and name (prefixed-p "socket:" name)
               (member name descriptors :key #'descriptor-name :test #'equal))))))

(defun effect-on-client (descriptor what)
  "The effect of WHAT is done to DESCRIPTOR, if that is of a connection to Emacs."
  (when (client-descriptor-p descriptor)
    (make-effect :kind "write-to-client" :target "connection"
                 :words (format nil "~A the connection to Emacs" what))))

(defun socket-descriptor (socket)
  (ignore-errors (internal "SB-BSD-SOCKETS" "SOCKET-FILE-DESCRIPTOR" socket)))

(defun effect-of-writing (arguments)
  "Writing to a descriptor: that of the client, or a file that nobody in the call has opened."
  (let ((descriptor (first arguments)))
    (cond ((not (integerp descriptor)) nil)
          ((<= 0 descriptor 2) nil)
          ((effect-on-client descriptor "write to"))
          (t (let ((name (descriptor-name descriptor)))
               (when (and name (char= (char name 0) #\/) (not (eql 0 (search "/dev/" name))))
                 (make-effect :kind "write-file" :files (list name) :target name
                              :texts (list name) :words (format nil "write ~A" name))))))))

(defun effect-of-closing (arguments)
  "Closing the connection to Emacs."
  (let ((stream (first arguments)))
    (when (and (directly "SB-SYS" "FD-STREAM-P" stream)
               (null (directly "SB-IMPL" "FD-STREAM-FILE" stream))
               (member (internal "SB-SYS" "FD-STREAM-FD" stream) (client-descriptors)))
      (make-effect :kind "write-to-client" :target "connection"
                   :words "close the connection to Emacs"))))

(defun effect-of-closing-descriptor (arguments)
  ;; Closing a copy closes nothing.
  (when (member (first arguments) (client-descriptors))
    (effect-on-client (first arguments) "close")))

(defun effect-of-closing-socket (arguments)
  (effect-of-closing-descriptor (list (socket-descriptor (first arguments)))))
