;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The client's side of a call: messages that would make Emacs or another thread do something, and
;;; forms that the user evaluates in the debugger of a watched thread, which are the user's own.

(cl:in-package "AGENT-Q-IMAGE")

(defun free-message-p (kind)
  "Whether code sends messages of KIND to Emacs just by printing, reading and failing."
  (member kind
          '(:write-string :write-image :presentation-start :presentation-end :new-package :new-features
            :background-message :debug :debug-activate :debug-return :debug-condition :read-string
            :read-aborted :read-from-minibuffer :y-or-n-p :ping :indentation-update :channel-send)))

(defun effect-of-message (arguments)
  "The effect of sending a message to one of the client's threads. Some make it run code, make Emacs
do something, or pass off the code's answer as one of the image's."
  (destructuring-bind (thread message) arguments
    (let ((kind (and (consp message) (first message))))
      (cond ((not (keywordp kind)) (effect-of-odd-message thread message))
            ;; The client's own hooks send these, even if a call has added one of its own.
            ((and (member kind '(:sync-indentation :update-indentation-information))
                  (search "indentation" (thread-text thread)))
             nil)
            ((member kind '(:emacs-rex :emacs-interrupt :call))
             (make-effect :kind "stop-thread" :target (thread-text thread)
                          :words (format nil "evaluate a form in the thread ~A"
                                         (thread-text thread))))
            ((or (not (free-message-p kind))
                 (not (readable-message-p message))
                 (not (this-debugger-p message))
                 (and (eq kind :indentation-update) (not (plain-indentation-p (rest message))))
                 (and (eq kind :background-message)
                      (stringp (second message))
                      (eql 0 (search "agent-q effect" (second message)))))
             (make-effect :kind "write-to-client" :target (string-downcase (symbol-name kind))
                          :words (format nil "make Emacs do ~(~A~): ~A" kind
                                         (printed (rest message) :limit 300))))))))

(defun this-debugger-p (message)
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
  "The effect of sending one of the client's threads a message that no client sends, over which it
would close the connection."
  (unless (or (eq thread (backend "CURRENT-THREAD"))
              ;; Printing does this, so that output appears soon.
              (and (eq message t) (equal (thread-text thread) "auto-flush-thread")))
    (make-effect :kind "write-to-client" :target (thread-text thread)
                 :words (format nil "send the thread ~A the message ~A"
                                (thread-text thread) (printed message :limit 300)))))

(defun whole-list-p (object)
  (and (listp object) (ignore-errors (list-length object)) (null (cdr (last object)))))

(defun readable-message-p (message)
  "Whether Emacs can read MESSAGE. If it can't, it closes the connection."
  (typecase message
    (cons (and (whole-list-p message) (every #'readable-message-p message)))
    (symbol (or (null message)
                (every (lambda (it) (or (alphanumericp it) (find it "-*+/&%<>=:")))
                       (symbol-name message))))
    ((or string integer float) t)))

(defun plain-indentation-p (message)
  "Whether MESSAGE about indentation has only numbers: Emacs would call a function in it."
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
  "The effect of writing a message to Emacs, which is another thread's job. Denying only the flush
would let it go out with the next message."
  (declare (ignore arguments))
  (make-effect :kind "write-to-client" :target "connection" :words "write to the connection to Emacs"))

;;; The user's forms arrive as messages, and pass from there to where they are evaluated. What a
;;; call's code puts among the messages hasn't come over the connection.

(defun call-decoding (watch hold function arguments)
  "Read a message from Emacs, and remember the form or the text of a REPL in it, if any."
  (let ((message (apply function arguments)))
    (when (and (null hold) (consp message))
      (let ((came (case (first message)
                    (:emacs-rex (second message))
                    (:emacs-channel-send
                     (let ((sent (third message)))
                       (and (consp sent) (eq (first sent) :process) (second sent)))))))
        (when (typep came '(or cons string)) (hold-one (watch-forms watch) came))))
    message))

(defun call-evaluating (watch hold function arguments)
  "Evaluate a form for the client: one that came in a message, as if there were no watch."
  (declare (ignore hold))
  (call-as-user watch (first arguments) function arguments))

(defun call-evaluating-text (watch hold function arguments)
  "The same for the text that a REPL of SLY's evaluates."
  (if hold
      (apply function arguments)
      (call-as-user watch (second arguments) function arguments)))

(defun call-as-user (watch code function arguments)
  "Call FUNCTION, which evaluates CODE."
  (cond ((member code (first (watch-forms watch)) :test #'eq)
         (drop-one (watch-forms watch) code)
         (funcall (watch-call-in watch) nil (lambda () (apply function arguments))))
        (t (apply function arguments))))

;;; Descriptors

(defun client-descriptors ()
  "The descriptors of the connections to Emacs. Every file that is closed is compared with them."
  (loop for (connections . accessor) in (client-accessors)
        nconc (loop for connection in (symbol-value connections)
                    for stream = (ignore-errors (funcall accessor connection))
                    for descriptor = (and (directly "SB-SYS" "FD-STREAM-P" stream)
                                          (directly "SB-SYS" "FD-STREAM-FD" stream))
                    when descriptor collect descriptor)))

(defun client-accessors ()
  "For each client that is loaded, the variable with its connections, and the function that returns
the stream of one."
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
  "Whether DESCRIPTOR, even under another number, belongs to a connection to Emacs."
  (let ((descriptors (client-descriptors)))
    (or (member descriptor descriptors)
        (let ((name (and (integerp descriptor) (descriptor-name descriptor))))
          (and name (prefixed-p "socket:" name)
               (member name descriptors :key #'descriptor-name :test #'equal))))))

(defun effect-on-client (descriptor what)
  "The effect of doing WHAT to DESCRIPTOR, if that belongs to a connection to Emacs."
  (when (client-descriptor-p descriptor)
    (make-effect :kind "write-to-client" :target "connection"
                 :words (format nil "~A the connection to Emacs" what))))

(defun socket-descriptor (socket)
  (ignore-errors (internal "SB-BSD-SOCKETS" "SOCKET-FILE-DESCRIPTOR" socket)))

(defun effect-of-writing (arguments)
  "The effect of writing to a descriptor: the client's, or that of a file that the call hasn't
opened."
  (let ((descriptor (first arguments)))
    (cond ((not (integerp descriptor)) nil)
          ((<= 0 descriptor 2) nil)
          ((effect-on-client descriptor "write to"))
          (t (let ((name (descriptor-name descriptor)))
               (when (and name (char= (char name 0) #\/) (not (eql 0 (search "/dev/" name))))
                 (make-effect :kind "write-file" :files (list name) :target name
                              :texts (list name) :words (format nil "write ~A" name))))))))

(defun effect-of-closing (arguments)
  "The effect of closing the connection to Emacs."
  (let ((stream (first arguments)))
    (when (and (directly "SB-SYS" "FD-STREAM-P" stream)
               (null (directly "SB-IMPL" "FD-STREAM-FILE" stream))
               (member (internal "SB-SYS" "FD-STREAM-FD" stream) (client-descriptors)))
      (make-effect :kind "write-to-client" :target "connection"
                   :words "close the connection to Emacs"))))

(defun effect-of-closing-descriptor (arguments)
  ;; Closing a duplicate closes nothing.
  (cond ((member (first arguments) (client-descriptors))
         (effect-on-client (first arguments) "close"))
        ((member (first arguments) '(0 1 2))
         (effect-of-taking-over (format nil "the standard descriptor ~D: close it" (first arguments))))))

(defun effect-of-closing-socket (arguments)
  (effect-of-closing-descriptor (list (socket-descriptor (first arguments)))))
