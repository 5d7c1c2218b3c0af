;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Asking about an effect. The thread that is about to cause it waits until Emacs answers, nobody
;;; is left to answer, or the call is stopped.

(cl:in-package "AGENT-Q-IMAGE")

(define-condition effect-denied (error)
  ((words :initarg :words :initform "an effect" :reader denied-words)
   (reason :initarg :reason :initform nil :reader denied-reason))
  (:report (lambda (condition stream)
             (format stream "Not allowed: ~A.~@[ ~A~]"
                     (denied-words condition) (denied-reason condition))))
  (:documentation "What a program gets for an effect that the user hasn't allowed."))

(define-condition file-effect-denied (effect-denied file-error) ()
  (:documentation "The same for files, as programs handle their errors specially."))

;;; The question

(defstruct (question (:type vector) (:copier nil))
  number id signal answer reason)

(defun question-text (plist)
  (concatenate '(simple-array character (*)) "agent-q effect: " (reply-text plist)))

(defun program-frames-now ()
  "Some frames of the program in this thread, innermost first, as lists of text and operator."
  (let ((frames '()))
    (loop for frame in (backend "COMPUTE-BACKTRACE" 0 200)
          for text = (frame-text frame)
          for operator = (and text (frame-operator text))
          until (or (= (length frames) 10)
                    (equal operator "(AGENT-Q-IMAGE::PERFORM"))
          do (unless (or (null text) (internal-frame-p operator) (search "SB-THREAD::" text))
               (push (list text operator) frames)))
    (nreverse frames)))

(defun shown-program-frames ()
  (guarded (lambda ()
             (let ((frames '()))
               (backend "CALL-WITH-DEBUGGING-ENVIRONMENT"
                        (lambda () (setf frames (program-frames-now))))
               frames))
           (constantly '())))

(defun function-of-frames (frames)
  "The innermost function of the program in FRAMES, by name, or NIL. What runs tests is called for
all of them."
  (loop for (nil operator) in frames
        for word = (operator-name operator)
        for package = (and word (word-package word))
        when (and package (program-package-p package)
                  (not (test-framework-package-p package))
                  (not (prefixed-p "UIOP" (package-name package)))
                  (not (prefixed-p "ASDF" (package-name package))))
          return word))

(defun question-plist (watch consent effect number)
  "What to send to Emacs about EFFECT. Printing calls the program's printers, which must have no
effects; that those were denied is nothing to tell."
  (funcall (watch-call-in watch) (list (unheard consent))
           (lambda ()
             (let ((frames (shown-program-frames)))
               (list :call (consent-id consent) :question number
                     :effect (effect-kind effect) :words (effect-words effect)
                     :files (effect-files effect) :target (effect-target effect)
                     :program (getf (effect-more effect) :program)
                     :directory (getf (effect-more effect) :directory)
                     :function (function-of-frames frames)
                      ;; Not the value of -, which any code can set.
                      :form (or (getf (effect-more effect) :form)
                                (and (eq (backend "CURRENT-THREAD") (consent-thread consent))
                                     (consent-text consent)))
                     :frames (mapcar #'first frames)
                     :thread (thread-text (backend "CURRENT-THREAD")))))))

(defun unheard (consent)
  "CONSENT with nobody to ask, and nobody to be told what was denied."
  (let ((unheard (quiet consent)))
    (setf (consent-denials unheard) (list '()))
    unheard))

(defun tell-emacs (watch consent plist)
  "Send PLIST over the connection of CONSENT's call, without running any code of the program."
  (let ((client (consent-client consent)) (text (question-text plist)))
    (call-without-handlers
     (lambda ()
       (funcall (watch-call-in watch) nil
                (lambda ()
                  ;; The program's own threads have no message counter.
                  (progv (list (client-symbol-named client "*EMACS-CONNECTION*")
                               (client-symbol-named client "*SEND-COUNTER*"))
                      (list (consent-connection consent) 0)
                    (funcall (client-symbol-named client "SEND-TO-EMACS")
                             (list :background-message text)))))))))

(defun somebody-there-p (consent)
  "Whether the connection of CONSENT's call is open and can bring an answer while this thread waits."
  (let* ((client (consent-client consent))
         (type (client-symbol-named client "MULTITHREADED-CONNECTION")))
    (and (consent-connection consent)
         (member (consent-connection consent) (client-value client "*CONNECTIONS*"))
         (or (null type) (null (find-class type nil)) (typep (consent-connection consent) type)))))

(defun wait-for-answer (consent question effect)
  ;; Once the call is over, no answer comes.
  (let ((end (+ (get-internal-real-time)
                (* (consent-patience consent) internal-time-units-per-second))))
    (progv (list (find-symbol "*DEADLINE*" "SB-IMPL")) (list nil)
      (loop until (or (internal "SB-THREAD" "WAIT-ON-SEMAPHORE" (question-signal question)
                                :timeout 0.25)
                      (question-answer question)
                      (consent-mode consent)
                      (moot-p effect)
                      (> (get-internal-real-time) end)
                      (not (somebody-there-p consent)))))))

(defun new-number ()
  "A number that code can't guess: it could answer for the user."
  (random (expt 2 48) (make-random-state t)))

(defun put-question (watch consent effect)
  "Ask about EFFECT. Returns \"allow\", \"deny\" or \"stop\", the user's reason, and true if the
user answered."
  (let ((question (make-question :number (new-number) :id (consent-id consent)
                                 :signal (internal "SB-THREAD" "MAKE-SEMAPHORE"))))
    (unwind-protect
         (let ((plist (question-plist watch consent effect (question-number question))))
           (hold-one (watch-questions watch) question)
           (tell-emacs watch consent plist)
           (wait-for-answer consent question effect))
      (drop-one (watch-questions watch) question)
      (unless (question-answer question)
        (ignore-errors
         (tell-emacs watch consent (list :call (consent-id consent)
                                         :question (question-number question) :withdrawn t)))))
    (if (question-answer question)
        (values (question-answer question) (question-reason question) t)
        (values (if (moot-p effect) "allow" "deny") "There was no answer."))))

(defun moot-p (effect)
  "Whether EFFECT no longer matters: all threads that it would leave running have ended."
  (and (equal (effect-kind effect) "outlive")
       (notany (lambda (thread) (internal "SB-THREAD" "THREAD-ALIVE-P" thread))
               (effect-detail effect))))

(defun asker-for (watch consent)
  "The consent through which to ask for CONSENT: once its call is over, that of another running call
of the same chat, or NIL."
  (if (first (consent-over consent))
      (find-if (lambda (it)
                 (and (null (consent-mode it))
                      (eq (consent-connection it) (consent-connection consent))
                      (equal (consent-chat it) (consent-chat consent))))
               (first (watch-consents watch)))
      consent))

(defun ask (watch consent effect)
  "Decide about EFFECT, returning what PUT-QUESTION does; a call asks one question at a time."
  (let ((*client* (consent-client consent)) (asker (asker-for watch consent)) (mark (list effect))
        ;; At the end of a call no guard has bound it.
        (*macroexpand-hook* #'funcall))
    (if (or (null asker)
            (eq (consent-mode consent) :deny)
            (consent-mode asker)
            (not (somebody-there-p asker))
            ;; An interrupt in the middle of a question.
            (eq (internal "SB-THREAD" "MUTEX-OWNER" (consent-lock asker)) (backend "CURRENT-THREAD")))
        (values "deny" nil)
        (let ((answer '()))
          (unwind-protect
               (progn (hold-one (consent-asking asker) mark)
                      (backend "CALL-WITH-LOCK-HELD" (consent-lock asker)
                               (lambda ()
                                 (unless (consent-mode asker)
                                   (setf answer (multiple-value-list
                                                 (ask-once watch consent asker effect)))))))
            (drop-one (consent-asking asker) mark))
          (if answer
              (values-list answer)
              ;; It has ended meanwhile.
              (ask watch consent effect))))))

(defun ask-once (watch consent asker effect)
  "As PUT-QUESTION of ASKER, but don't ask again about what the user has denied to CONSENT's call."
  (let* ((key (list (effect-kind effect) (effect-identity effect) (effect-files effect)))
         (before (assoc key (first (consent-denied consent)) :test #'equal)))
    (if before
        (values "deny" (rest before))
        (multiple-value-bind (decision reason answered) (put-question watch asker effect)
          (when (and answered (equal decision "deny"))
            (push (cons key reason) (first (consent-denied consent))))
          (values decision reason)))))

(defun take-answer (watch id number decision reason)
  "Answer the question NUMBER of the call ID. Code of a call can't answer anything."
  (let ((question (find number (first (watch-questions watch)) :key #'question-number :test #'eql)))
    (cond ((funcall (watch-state watch)) "not from here")
          ((not (and question (eql id (question-id question))
                     (member decision '("allow" "deny" "stop") :test #'equal)))
           "not open")
          (t (setf (question-reason question) reason
                   (question-answer question) decision)
             (internal "SB-THREAD" "SIGNAL-SEMAPHORE" (question-signal question))
             "answered"))))

;;; Forms of the call

(defun put-form-question (watch start reasons form)
  "Ask whether FORM, of this thread's call, may run in spite of REASONS; START says what it is.
Returns \"allow\" or \"deny\" and the user's reason, or NIL if nobody can be asked."
  (let* ((consent (first (funcall (watch-state watch)))) (*client* (and consent (consent-client consent)))
         (effect (make-effect :kind "run-form" :words (format nil "~A ~A" start reasons)
                              :target reasons :more (list :form (printed form :limit 1000)))))
    (when (and consent (not (consent-mode consent)) (somebody-there-p consent))
      (multiple-value-bind (decision reason) (ask watch consent effect)
        (unless (equal decision "allow")
          (note-denial consent effect))
        (when (equal decision "stop")
          (stop-call consent effect))
        (values decision reason)))))

;;; The outcome

(defun note-late-denial (watch consent effect)
  "Note that EFFECT, of a thread or a timer that CONSENT's call has left, was denied: for the next
reply in its chat, and for the user unless it was the user's answer."
  (let ((*client* (consent-client consent)) (asker (asker-for watch consent))
        (words (effect-words effect)) (known (first (consent-denials consent))))
    (cond (asker (note-denial asker (make-effect :words (late-words words))))
          ;; It may try again and again.
          ((or (member words known :test #'equal) (nthcdr 20 known)))
          (t (hold-one (watch-late watch) (cons (consent-chat consent) words))
             (when (somebody-there-p consent)
               (tell-emacs watch consent (list :call (consent-id consent) :refused words
                                               :chat (consent-chat consent)
                                               :thread (thread-text (backend "CURRENT-THREAD")))))))
    (note-denial consent effect)))

(defun late-words (words)
  (format nil "~A, after the call that started it" words))

(defun take-late-denials (watch consent)
  "What was refused after earlier calls in the chat of CONSENT's call, in words; each is told once."
  (let ((*client* (consent-client consent)) (taken '()))
    (call-with-lock
     (lambda ()
       (setf (first (watch-late watch))
             (remove-if (lambda (late)
                          (when (equal (car late) (consent-chat consent))
                            (push (late-words (cdr late)) taken)))
                        (first (watch-late watch))))))
    taken))

(defun note-denial (consent effect)
  (let ((*client* (consent-client consent)))
    (call-with-lock (lambda ()
                      (pushnew (effect-words effect) (first (consent-denials consent))
                               :test #'equal)))))

(defun stop-call (consent effect)
  "Unwind this thread instead of causing EFFECT, if it is the call's or was made by the call. The
program's own threads continue."
  (cond ((eq (backend "CURRENT-THREAD") (consent-thread consent))
         (setf (first (consent-stopped-at consent)) (effect-words effect))
         (throw 'stopped nil))
        ((member (backend "CURRENT-THREAD") (first (consent-threads consent)) :test #'eq)
         (internal "SB-THREAD" "ABORT-THREAD"))))

(defun deny (effect reason)
  (let ((condition (if (effect-files effect)
                       (make-condition 'file-effect-denied
                                       :words (effect-words effect) :reason reason
                                       :pathname (effect-pathname effect))
                       (make-condition 'effect-denied :words (effect-words effect) :reason reason)))
        (*macroexpand-hook* *program-hook*)
        (*looking-up* nil))
    ;; The program's handlers run now.
    (error condition)))

(defun settle-effect (watch consent effect &optional (before-denial (constantly nil)))
  "Ask about EFFECT. Returns true if it may happen; otherwise NIL and the values to return in its
place."
  (loop
    (multiple-value-bind (decision reason) (ask watch consent effect)
      (when (equal decision "allow") (return t))
      (if (first (consent-over consent))
          (note-late-denial watch consent effect)
          (note-denial consent effect))
      (when (equal decision "stop") (stop-call consent effect))
      (funcall before-denial)
      (restart-case (deny effect reason)
        (ask-again ()
          :report "Try it again.")
        (use-value (&rest values)
          :report "Return values instead."
          (return (values nil values)))))))
