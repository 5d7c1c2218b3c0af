;;; agent-q-image.el --- Calls into the Lisp image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The one way from agent-q into a Lisp image: calls of the Common Lisp half
;; (directory image/) through the connection that the user already has, be it
;; SLY's or SLIME's.  Each call ends exactly once, whatever becomes of the Lisp.

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image-module)
(require 'agent-q-image-source)
(require 'agent-q-module)
(require 'agent-q-session)
(require 'cl-lib)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Questions of an image's watch

;; Where code of a call is about to reach outside of the program, the image stops
;; it and asks.  The question goes on to the core, which knows the user's rules
;; and asks the user; the answer goes back.  The time until then is not the call's.

(defconst agent-q-image--effect-mark "agent-q effect: "
  "Prefix of the messages of a watch.")

(defun agent-q-image-effect-p (message)
  "Whether MESSAGE, which an image sent for the echo area, is of its watch."
  (and (stringp message) (string-prefix-p agent-q-image--effect-mark message)))

(defun agent-q-image-effect (process message)
  "Take MESSAGE, which the watch of the image behind PROCESS sent."
  (let ((text (substring-no-properties message (length agent-q-image--effect-mark))))
    (condition-case err
        (agent-q-image--effect-take process text (agent-q-connection-reply-read text))
      (error (agent-q-module-log-line (format "Cannot parse a question from an image: %s"
                                              (error-message-string err)))))))

(defvar agent-q-image-event-functions nil
  "Functions called with the process of a connection and what happened on it.
That is the client's event by which the user's debugger opens; `other-tools'
when the program defined or removed tools; `closed'; (kept CALL KEPT), when
the stack of CALL, which failed, is kept or isn't any more; or (refused
CHAT THREAD WHAT) when the thread of that name wanted to do WHAT after
its call, which was of CHAT or of none.")

(defun agent-q-image--effect-take (process text data)
  "Take TEXT of the image behind PROCESS, which is DATA."
  (let* ((id (plist-get data :call))
         (question (plist-get data :question))
         (call (cl-find id (agent-q-connection-call-over process)
                        :key #'agent-q-connection-call-id)))
    (cond ((plist-get data :refused)
           (agent-q-module-log-run-hook
            'agent-q-image-event-functions process
            (list 'refused (agent-q-image--chat-buffer (plist-get data :chat))
                  (plist-get data :thread) (plist-get data :refused))))
          ((plist-get data :withdrawn)
           (when call
             (agent-q-core-effect (agent-q-image--effect-asker call) text)
             (agent-q-image--effect-go-on call question)))
          ((and call
                (agent-q-image--effect-asker call)
                (agent-q-core-effect (agent-q-image--effect-asker call) text))
           (agent-q-image--effect-wait call question))
          (t (agent-q-image--effect-decide process id question "deny"
                                           "the call has already ended")))))

(defun agent-q-image--effect-asker (call)
  "Return the core's number of the request that CALL is made for, or nil."
  (or (agent-q-connection-call-asker call)
      (pcase (agent-q-connection-call-request call)
        ((and number (pred integerp)) number)
        (`(restart ,number) number))))

(defun agent-q-image--effect-wait (call question)
  "Stop the clock of CALL until QUESTION is answered."
  (let ((time (car (agent-q-connection-call-due call))))
    (push question (agent-q-connection-call-questions call))
    (when time
      (setf (agent-q-connection-call-left call) (max 0.1 (- time (float-time))))
      (agent-q-connection-call-stop-clock call))))

(defun agent-q-image--effect-go-on (call question)
  "Let the clock of CALL go on, unless more than QUESTION is open."
  (when (memql question (agent-q-connection-call-questions call))
    (setf (agent-q-connection-call-questions call)
          (delete question (agent-q-connection-call-questions call)))
    (when (and (null (agent-q-connection-call-questions call))
               (null (agent-q-connection-call-stopping call))
               (agent-q-connection-call-left call))
      (agent-q-connection-call-start-clock call (agent-q-connection-call-left call)))))

(defun agent-q-image-effect-decided (event)
  "Pass the answer in EVENT, one of the core, on to the image."
  (let* ((request (plist-get event :request))
         (question (plist-get event :question))
         (call (cl-find-if
                (lambda (call)
                  (and (eql request (agent-q-image--effect-asker call))
                       (memql question (agent-q-connection-call-questions call))))
                (hash-table-values agent-q-connection-call-pending))))
    (when call
      (agent-q-image--effect-decide
       (agent-q-connection-process (agent-q-connection-call-connection call))
       (agent-q-connection-call-id call) question
       (plist-get event :decision) (plist-get event :reason))
      (agent-q-image--effect-go-on call question))))

(defun agent-q-image--effect-decide (process id question decision reason)
  "Answer QUESTION of the call ID in the image behind PROCESS with DECISION.
REASON is a text for the code that asked, or nil."
  (let ((connection (agent-q-connection-of-process process)))
    (when connection
      (agent-q-connection-ask
       connection :rex
       `(cl:funcall (cl:find-symbol "ANSWER" "AGENT-Q-IMAGE")
                    ,id ,question ,decision ,(and reason (substring-no-properties reason)))
       t #'ignore))))

(agent-q-events-subscribe :effect-decided #'agent-q-image-effect-decided)

;;;; Calls that wait in the debugger

;; A call whose arguments have :on-error "park" does not end with an error
;; alone: its thread waits in the client's debugger, which the user does not
;; see.  The call's reply says so, and from then on it can be resumed by a
;; restart, handed over to the user, or released.

(cl-defstruct (agent-q-image-parked
               (:constructor agent-q-image--park-make) (:copier nil))
  "A CALL that is parked under NAME.
THREAD is where it waits, or nil when a restart made it go on.  EVENT
and ACTIVATION are what the client would have shown its debugger for."
  name call thread event activation)

(defvar agent-q-image-park-swallowed nil
  "The debugger sessions that were kept from the user.
Each is (PROCESS . THREAD).")

(defvar agent-q-image--park-all nil
  "The calls that are parked, latest first.")

(defvar agent-q-image--park-count 0
  "Number of names given so far to calls that may be parked.")

(defun agent-q-image-park-list (&optional process)
  "Return what is parked over PROCESS, or over any, oldest first."
  (reverse
   (cl-remove-if-not (lambda (parked)
                       (or (null process)
                           (eq process (agent-q-image--park-process parked))))
                     agent-q-image--park-all)))

(defun agent-q-image--park-process (parked)
  "Return the process over which PARKED is."
  (agent-q-connection-process
   (agent-q-connection-call-connection (agent-q-image-parked-call parked))))

(defun agent-q-image-park-owner (parked)
  "Return the owner of PARKED."
  (agent-q-connection-call-owner (agent-q-image-parked-call parked)))

(defun agent-q-image-park-form (parked)
  "Return the text that was evaluated when PARKED was parked."
  (plist-get (agent-q-connection-call-arguments (agent-q-image-parked-call parked)) :form))

;;;;; Parking

(defcustom agent-q-image-keep-minutes 5
  "Minutes for which the stack of a failed evaluation is kept for your debugger.
[Debug] in the line of the call opens it.  On SBCL; nil keeps none.  It
isn't kept when its thread holds a lock, and is let go when another thread waits
for one, when the heap fills, and, if it has clean-up forms, before more code
runs."
  :type '(choice (const :tag "None" nil) number)
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defun agent-q-image-park-name (call arguments)
  "Return ARGUMENTS of CALL, with what is to become of its stack if it fails.
That is a name under which it is parked, or seconds for which it is kept."
  (cond ((equal "park" (plist-get arguments :on-error))
         (append arguments
                 (list :debugger
                       (format "d%d" (cl-incf agent-q-image--park-count)))))
        ((and (equal "eval-form" (agent-q-connection-call-operation call))
              agent-q-image-keep-minutes
              (null (plist-get arguments :restart))
              (buffer-live-p (agent-q-connection-call-owner call))
              (not (agent-q-connection-second-p (agent-q-connection-call-connection call)))
              (agent-q-image-threads-p call))
         (append arguments (list :keep (round (* 60 agent-q-image-keep-minutes)))))
        (t arguments)))

(defconst agent-q-image--kept-mark "agent-q kept: "
  "How the message of a call begins whose stack is kept; its id and reply follow.")

(defvar agent-q-image--kept nil
  "The calls that failed and whose stacks are kept, latest first.")

(defconst agent-q-image--most-kept 3
  "Most stacks that are kept in an image.")

(defun agent-q-image--keep (process message)
  "Answer the call over PROCESS that MESSAGE is about; its stack is kept."
  (when (string-match "\\`\\([0-9]+\\) " message)
    (let* ((id (string-to-number (match-string 1 message)))
           (call (cl-find id (agent-q-connection-call-over process) :key #'agent-q-connection-call-id))
           (older (nthcdr (1- agent-q-image--most-kept)
                          (cl-remove process agent-q-image--kept :key #'agent-q-image--call-process
                                     :test-not #'eq))))
      (when call
        (mapc #'agent-q-image--leave-kept older)
        (push call agent-q-image--kept)
        (agent-q-connection-call-stop-clock call)
        (agent-q-module-log-run-hook 'agent-q-image-event-functions process (list 'kept call t))
        (agent-q-image--replied call "done" (substring-no-properties message (match-end 0)))))))

(defun agent-q-image--call-process (call)
  "Return the process over which CALL is."
  (agent-q-connection-process (agent-q-connection-call-connection call)))

(defun agent-q-image--leave-kept (call &optional debug function)
  "Let the stack of CALL go that is kept, or into the user's debugger with DEBUG.
FUNCTION gets whether it was still there."
  (let ((connection (agent-q-connection-call-connection call)))
    (agent-q-connection-ask
     connection :rex
     `(cl:funcall (cl:find-symbol "LEAVE-KEPT" "AGENT-Q-IMAGE")
                  ,(agent-q-connection-client-get connection :wire)
                  ,(agent-q-connection-call-id call) ,(if debug "debug" "leave"))
     t (lambda (result)
         (when function (funcall function (equal result '(:ok t))))))))

(defun agent-q-image--kept-over (process calls)
  "Note that over PROCESS, some stacks are not kept any more.
They are those of CALLS."
  (dolist (call calls)
    (when (memq call agent-q-image--kept)
      (setq agent-q-image--kept (delq call agent-q-image--kept))
      (agent-q-module-log-run-hook 'agent-q-image-event-functions process (list 'kept call nil)))))

(defun agent-q-image--kept-here ()
  "Return this chat's latest call whose stack is kept, or nil."
  (cl-find (current-buffer) agent-q-image--kept :key #'agent-q-connection-call-owner))

(defun agent-q-image-held-p ()
  "Whether an error is held for this chat, parked by it or kept for its user."
  (or (agent-q-image-park-owned (current-buffer)) (agent-q-image--kept-here)))

(defun agent-q-image-debug-kept (&optional call)
  "Open the user's debugger on CALL, whose stack is kept, or on this chat's latest."
  (let ((call (or call (agent-q-image--kept-here))))
    (cond ((null call) (user-error "No error is held in this chat"))
          ((not (memq call agent-q-image--kept))
           (user-error "The stack of this error isn't held any more")))
    (agent-q-image--leave-kept call t
                               (lambda (there)
                                 (unless there
                                   (message "The stack of this error isn't held any more"))))))

(defun agent-q-image-park-asked-p (work)
  "Return non-nil when WORK is a call that asked to be parked."
  (and (agent-q-connection-call-p work)
       (plist-get (agent-q-connection-call-arguments work) :debugger)))

(defun agent-q-image-park-of (call)
  "Return what is parked for CALL, or nil."
  (cl-find call agent-q-image--park-all :key #'agent-q-image-parked-call))

(defun agent-q-image-park (call event)
  "Keep CALL, for which EVENT entered the debugger, from the user, and park it."
  (let* ((thread (nth 1 event))
         (parked (or (agent-q-image-park-of call)
                     (agent-q-image--park-make
                      :name (plist-get (agent-q-connection-call-arguments call) :debugger)
                      :call call)))
         (session (cons (agent-q-image--park-process parked) thread)))
    (unless (member session agent-q-image-park-swallowed)
      (push session agent-q-image-park-swallowed))
    (setf (agent-q-image-parked-thread parked) thread
          (agent-q-image-parked-event parked) event)
    (cl-pushnew parked agent-q-image--park-all)
    (when (agent-q-connection-call-pending-p call)
      (agent-q-connection-call-stop-clock call)
      (agent-q-connection-ask
       (agent-q-connection-call-connection call) :rex
       `(cl:funcall (cl:find-symbol "PARKED-REPLY" "AGENT-Q-IMAGE")
                    ,(agent-q-connection-call-id call))
       t
       (lambda (result)
         (pcase result
           (`(:ok ,(and reply (pred stringp)))
            (agent-q-image--replied call "done" reply))
           ;; It went on meanwhile, and ends as other calls do.
           (_ nil)))))))

(defun agent-q-image-park-activated (process event)
  "Remember EVENT, which would have shown a debugger over PROCESS."
  (let ((parked (agent-q-image--park-in process (nth 1 event))))
    (when parked
      (setf (agent-q-image-parked-activation parked) event))))

(defun agent-q-image--park-in (process thread)
  "Return what is parked in THREAD over PROCESS, or nil."
  (cl-find-if (lambda (parked)
                (and (eql thread (agent-q-image-parked-thread parked))
                     (eq process (agent-q-image--park-process parked))))
              agent-q-image--park-all))

(defun agent-q-image-park-left (process thread level)
  "Note that the debugger LEVEL in THREAD over PROCESS was left."
  (let ((parked (agent-q-image--park-in process thread)))
    (when (and parked (eql level 1))
      (setf (agent-q-image-parked-thread parked) nil))))

(defun agent-q-image-park-over (call)
  "Note that CALL is over in the image."
  (setq agent-q-image--park-all
        (cl-delete call agent-q-image--park-all :key #'agent-q-image-parked-call)))

(defun agent-q-image-park-abandon (process)
  "Forget what is parked over PROCESS, which is closed."
  (setq agent-q-image--park-all
        (cl-delete process agent-q-image--park-all :key #'agent-q-image--park-process)))

(defun agent-q-image-park-calls (process)
  "Return each call that is parked over PROCESS."
  (mapcar #'agent-q-image-parked-call (agent-q-image-park-list process)))

;;;;; Going on

(defun agent-q-image-release (parked)
  "Unwind the stack of PARKED."
  (let* ((call (agent-q-image-parked-call parked))
         (connection (agent-q-connection-call-connection call)))
    (cond ((not (agent-q-connection-live-p connection)))
          ((agent-q-connection-ask connection :threads-p)
           (agent-q-connection-ask
            connection :rex
            `(cl:if (cl:find-package "AGENT-Q-IMAGE")
                    (cl:funcall (cl:find-symbol "CANCEL" "AGENT-Q-IMAGE")
                                ,(agent-q-connection-call-id call)))
            t #'ignore))
          ((agent-q-image-parked-thread parked)
           ;; Without threads there is one stack: what was parked later is above it.
           (agent-q-connection-ask
            connection :rex
            (agent-q-connection-client-get
             connection
             (if (eq parked (car (last (agent-q-image-park-list
                                        (agent-q-image--park-process parked)))))
                 :abort-level
               :throw-to-toplevel))
            (agent-q-image-parked-thread parked) #'ignore)))))

(defun agent-q-image-park-owned (owner)
  "Return what is parked for OWNER."
  (cl-remove-if-not (lambda (parked) (eq owner (agent-q-image-park-owner parked)))
                    (agent-q-image-park-list)))

(defun agent-q-image-release-owned (owner)
  "Unwind the stacks of all that is parked or kept for OWNER."
  (mapc #'agent-q-image-release (agent-q-image-park-owned owner))
  (dolist (call agent-q-image--kept)
    (when (and (eq owner (agent-q-connection-call-owner call))
               (agent-q-connection-live-p (agent-q-connection-call-connection call)))
      (agent-q-image--leave-kept call))))

(defun agent-q-image-hand-over (parked)
  "Show PARKED in the debugger of the user's client; it is the user's now."
  (let* ((call (agent-q-image-parked-call parked))
         (connection (agent-q-connection-call-connection call))
         (process (agent-q-connection-process connection)))
    (unless (agent-q-image-parked-thread parked)
      (user-error "It is running, not stopped in the debugger"))
    (setq agent-q-image--park-all (delq parked agent-q-image--park-all)
          agent-q-image-park-swallowed
          (cl-delete (cons process (agent-q-image-parked-thread parked))
                     agent-q-image-park-swallowed :test #'equal))
    (agent-q-connection-ask connection :rex
                            `(cl:funcall (cl:find-symbol "UNPARK" "AGENT-Q-IMAGE")
                                         ,(agent-q-connection-client-get connection :wire)
                                         ,(agent-q-connection-call-id call))
                            t #'ignore)
    (agent-q-connection-ask connection :dispatch (agent-q-image-parked-event parked))
    (when (agent-q-image-parked-activation parked)
      (agent-q-connection-ask connection :dispatch
                              (agent-q-image-parked-activation parked)))))

;;;; Images without threads

;; Some Lisps have no threads: they do one thing after the other, and hear
;; nothing meanwhile.  Here is what calls into them ask.

(defun agent-q-image-threads-p (call)
  "Return non-nil when the image of CALL has a thread for each call."
  (agent-q-connection-ask (agent-q-connection-call-connection call) :threads-p))

(defun agent-q-image-threads-watched-p (connection)
  "Return non-nil when the image of CONNECTION has a watch.
Code there is asked about where it reaches outside."
  (and (agent-q-connection-ask connection :threads-p)
       (string-prefix-p "SBCL " (agent-q-connection-ask connection :implementation))))

(defun agent-q-image-threads-must-wait-p (call)
  "Return non-nil when the image of CALL does another call of ours.
Without threads it would hear nothing of CALL, nor of its end."
  (and (not (agent-q-image-threads-p call))
       (cl-some (lambda (other)
                  (and (agent-q-connection-call-continuation other)
                       (not (eq other call))
                       (not (agent-q-image-park-of other))))
                (agent-q-connection-call-over
                 (agent-q-connection-process (agent-q-connection-call-connection call))))))

(defun agent-q-image-threads-within-p (call)
  "Return non-nil when CALL is in a debugger of ours, for want of threads."
  (and (not (agent-q-image-threads-p call))
       (remq call (agent-q-image-park-calls
                   (agent-q-connection-process
                    (agent-q-connection-call-connection call))))))

(defun agent-q-image-threads-runs-p (call)
  "Return non-nil when the image of CALL, which has no threads, does it now.
An interrupt must not hit what the user evaluates there."
  (let* ((connection (agent-q-connection-call-connection call))
         (parked (mapcar (lambda (other)
                           (agent-q-connection-ask connection :rex-id
                                                   (agent-q-connection-call-continuation other)))
                         (agent-q-image-park-calls
                          (agent-q-connection-process connection))))
         (id (agent-q-connection-ask connection :rex-id
                                     (agent-q-connection-call-continuation call))))
    (and id
         (or (memql id parked)
             (eql id (apply #'min (cl-set-difference
                                   (agent-q-connection-ask connection :requests) parked)))))))

;;;; Calls into the Lisp image

;;;;; Calls

(defconst agent-q-image--grace 2.0
  "Seconds that a call may take to stop once it was asked to.")

(defmacro agent-q-image--guard (call &rest body)
  "Evaluate BODY; an error in it ends CALL."
  (declare (indent 1) (debug t))
  `(condition-case err
       (progn ,@body)
     (error (agent-q-connection-call-finish ,call "signalled" (error-message-string err)))))

(defun agent-q-image-call (connection request operation arguments seconds callback
                                      &optional owner thread asker)
  "Call OPERATION of the Common Lisp half behind CONNECTION.
REQUEST is what `agent-q-image-cancel' knows the call by.  ARGUMENTS
is a property list.  After SECONDS the call is stopped.  CALLBACK is
called exactly once, with two arguments, the status and a payload:

\"done\"           the reply of the Common Lisp half
\"timed-out\"      the same, when it stopped as asked; nil otherwise
\"deaf\"           nil; it did not stop, but the image answers other calls
\"unresponsive\"   the tail of the Lisp's own output; it did not stop
\"aborted\"        why the client gave the call up
\"disconnected\"   the tail of the Lisp's own output, or nil
\"ended\"          the last output of a second Lisp, which has ended
\"no-connection\"  nil
\"signalled\"      what went wrong here, in Emacs

The call runs in THREAD, a number of the client's; without it in one
of its own.  It is on behalf of OWNER, the buffer of a chat, to which
errors that are parked and changes in the image belong.  The watch of the
image asks the core's request ASKER; without it REQUEST, if that is one."
  (let ((call (agent-q-connection-call-make
               :request request :connection connection :operation operation
               :seconds seconds :callback callback
               :id (agent-q-connection-call-new-id) :owner owner :thread (or thread t)
               :asker asker :deadline #'agent-q-image--deadline)))
    (cond
     ((gethash request agent-q-connection-call-pending)
      (funcall callback "signalled" (format "Request %s is already running." request)))
     ((not (agent-q-connection-live-p connection))
      (funcall callback "no-connection" nil))
     ((agent-q-connection-crash connection)
      (funcall callback "disconnected" (agent-q-connection-crash connection)))
     (t
      (agent-q-connection-call-begin call)
      (agent-q-image--guard call
        (setf (agent-q-connection-call-arguments call)
              (agent-q-image-park-name
               call
               (agent-q-image--tagged
                connection operation owner
                (append (agent-q-image--with-place
                         connection operation
                         (agent-q-image--translated connection arguments))
                        (agent-q-image--chat-argument owner)))))
        (agent-q-image--install connection)
        (agent-q-image--prepare call))))))

(defun agent-q-image--with-place (connection operation arguments)
  "Return ARGUMENTS of OPERATION, fit for an image.
What compiles forms is given the place where the user can see them, unless
CONNECTION leads to a Lisp that the user doesn't see."
  (let ((arguments (agent-q-image--clean arguments)))
    (if (agent-q-connection-second-p connection)
        arguments
      (append arguments (agent-q-image-source-compiled-place operation arguments)))))

(defvar-local agent-q-image-chat-name nil
  "The name by which images know this chat, once it has called one.")

(defun agent-q-image-chat-name (buffer)
  "Return the name by which images know the chat in BUFFER, or nil.
Several Emacsen can be connected to one image, so a part is random."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (or agent-q-image-chat-name
          (setq agent-q-image-chat-name
                (format "%s %x" (buffer-name) (agent-q-connection-call-new-id)))))))

(defun agent-q-image--chat-buffer (name)
  "Return the chat that images know by NAME, or nil."
  (and name
       (cl-find name (buffer-list) :test #'equal
                :key (lambda (buffer) (buffer-local-value 'agent-q-image-chat-name buffer)))))

(defun agent-q-image--chat-argument (owner)
  "Return the argument by which an image knows the chat OWNER."
  (let ((name (agent-q-image-chat-name owner)))
    (and name (list :chat (agent-q-image--clean-text name)))))

(defconst agent-q-image--journaled '("eval-form" "compile-form" "compile-file" "load-system"
                                     "eval-in-frame" "invoke-restart" "restart-frame"
                                     "return-from-frame" "run-tests" "compare-forms"
                                     "profile-form")
  "The operations that the image keeps a journal of.")

(defun agent-q-image--tagged (connection operation owner arguments)
  "Return ARGUMENTS of OPERATION with the name of the turn of the chat OWNER.
Where CONNECTION leads to a Lisp that the user doesn't see, there is nothing to
undo, and no name."
  (if (and (member operation agent-q-image--journaled)
           (not (agent-q-connection-second-p connection))
           (buffer-live-p owner)
           (buffer-local-value 'agent-q-session-turn owner))
      (with-current-buffer owner
        (setq agent-q-session-turn-used t)
        (append arguments (list :turn agent-q-session-turn)))
    arguments))

(defun agent-q-image--translated (connection datum)
  "Return DATUM with files as they are called behind CONNECTION.
In property lists they are what :emacs-file has, which becomes :file."
  (cond ((not (proper-list-p datum)) datum)
        ((keywordp (car datum))
         (cl-loop for (key value) on datum by #'cddr
                  append (if (eq key :emacs-file)
                             (list :file (agent-q-connection-ask connection :to-lisp value))
                           (list key (agent-q-image--translated connection value)))))
        (t (mapcar (lambda (element) (agent-q-image--translated connection element))
                   datum))))

(defun agent-q-image--clean (datum)
  "Return DATUM with only what a Lisp image can read without harm.
Objects other than strings, integers, keywords and lists are errors."
  (cond ((memq datum '(nil t)) datum)
        ((or (keywordp datum) (integerp datum)) datum)
        ((stringp datum)
         (agent-q-image--clean-text (substring-no-properties datum)))
        ((proper-list-p datum) (mapcar #'agent-q-image--clean datum))
        (t (error "%S can't be sent to a Lisp image" datum))))

(defun agent-q-image--clean-text (text)
  "Return TEXT without what has no encoding, or ends some readers, as NUL does."
  ;; Emacs takes 5 ms to compile the set of all characters that are allowed.
  (if (string-match-p "[^\1-\177]" text)
      (replace-regexp-in-string "[^\u0001-\ud7ff\ue000-\U0010ffff]" "\ufffd" text t t)
    text))

(defun agent-q-image--prepare (call)
  "Send CALL as soon as the image has the modules of its operation."
  (agent-q-image-module-provide
   (agent-q-connection-call-connection call)
   (agent-q-connection-call-operation call)
   (lambda (status payload)
     (cond (status (agent-q-connection-call-finish call status payload))
           ((agent-q-connection-call-pending-p call) (agent-q-image--send call))))))

(defun agent-q-image--prepare-again (call)
  "Send CALL again: its image has lost its modules, by a restart for example."
  (agent-q-connection-call-stop-clock call)
  (setf (agent-q-connection-call-again call) t
        (agent-q-connection-call-continuation call) nil)
  (agent-q-image-module-forget (agent-q-connection-process
                                (agent-q-connection-call-connection call)))
  (agent-q-image--guard call
    (agent-q-image--prepare call)))

(defvar agent-q-image--queue nil
  "Calls for images without threads that wait for another call, oldest first.")

(defun agent-q-image--send (call)
  "Send CALL to its image, once it can be heard there."
  (if (agent-q-image-threads-must-wait-p call)
      (setq agent-q-image--queue (append agent-q-image--queue (list call)))
    (agent-q-image--send-now call)))

(defun agent-q-image--send-next ()
  "Send what need not wait any more."
  (let ((waiting agent-q-image--queue))
    (setq agent-q-image--queue nil)
    (dolist (call waiting)
      (when (agent-q-connection-call-pending-p call)
        (agent-q-image--send call)))))

(add-hook 'agent-q-connection-call-finished-hook #'agent-q-image--send-next)

(defun agent-q-image--send-now (call)
  "Send CALL to its image, and start its deadline."
  (agent-q-image--guard call
    (let ((continuation (lambda (result) (agent-q-image--returned call result))))
      (setf (agent-q-connection-call-continuation call) continuation
            (agent-q-connection-call-started call) (float-time))
      (agent-q-connection-call-start-clock call (agent-q-connection-call-seconds call))
      (agent-q-connection-ask
       (agent-q-connection-call-connection call) :rex
       `(cl:if (cl:find-package "AGENT-Q-IMAGE")
               (cl:funcall (cl:find-symbol "CALL" "AGENT-Q-IMAGE")
                           ,(agent-q-connection-client-get
                             (agent-q-connection-call-connection call) :wire)
                           ,(agent-q-connection-call-id call)
                           ,(agent-q-connection-call-operation call)
                           (cl:quote ,(agent-q-connection-call-arguments call)))
               :gone)
       (agent-q-connection-call-thread call) continuation))))

(defun agent-q-image--returned (call result)
  "Handle RESULT, with which the client reports the end of CALL."
  (agent-q-image-park-over call)
  (agent-q-image--kept-over (agent-q-image--call-process call) (list call))
  (pcase result
    ((and (guard (agent-q-connection-call-pending-p call))
          (guard (not (agent-q-connection-call-again call)))
          (or `(:ok :gone)
              `(:ok ,(and (pred stringp)
                          (pred (string-prefix-p "(:outcome :missed :unknown t"))))))
     (agent-q-image--prepare-again call))
    (`(:ok ,(and reply (pred stringp)))
     (if (string-prefix-p "(:outcome :cancelled" reply)
         (agent-q-image--replied call (or (agent-q-connection-call-stopping call) "done") reply
                                 :because (agent-q-connection-end-stop-reason call))
       (agent-q-image--replied call "done" reply)))
    (`(:ok ,other)
     (agent-q-connection-call-finish call "signalled" (format "The image answered %S." other)))
    ((and `(:abort . ,_) (guard (agent-q-connection-call-stopping call)))
     ;; It was interrupted, as we asked for, and its stack unwound by the client.
     (agent-q-connection-call-finish call (agent-q-connection-call-stopping call)
                                     "(:outcome :cancelled)"
                                     :because (agent-q-connection-end-stop-reason call)))
    (`(:abort . ,rest)
     (agent-q-connection-call-finish call "aborted"
                                     (or (agent-q-connection-call-condition call)
                                         (agent-q-connection-end-abort-reason (car rest)))))))

(defun agent-q-image--replied (call status reply &rest more)
  "End CALL, unless it is over, with STATUS and REPLY, and its places resolved.
MORE is as in `agent-q-connection-call-finish'."
  (when (agent-q-connection-call-pending-p call)
    (apply #'agent-q-connection-call-finish call status reply
           (append more (agent-q-image-source-resolve (agent-q-connection-call-connection call) reply
                                                      (agent-q-connection-call-owner call))))))

;;;;; Deadlines and cancelling

(defun agent-q-image--deadline (call)
  "Stop CALL, which has used up its time, or park it where it is."
  (if (and (agent-q-image-park-asked-p call)
           (agent-q-image-threads-p call)
           (agent-q-connection-call-pending-p call)
           (null (agent-q-connection-call-stopping call)))
      (agent-q-image--park-running call)
    (agent-q-image--out-of-time call)))

(defun agent-q-image--out-of-time (call)
  "Stop CALL, which has used up its time."
  (agent-q-image--stop call "timed-out"))

(defun agent-q-image--park-running (call)
  "Ask the image to park CALL where it is; if it doesn't, CALL is stopped."
  ;; Its frames are read first, in a new image by code that is still interpreted.
  (agent-q-connection-call-start-clock call (* 5 agent-q-image--grace) #'agent-q-image--out-of-time)
  (agent-q-image--guard call
    (agent-q-connection-ask
     (agent-q-connection-call-connection call) :rex
     `(cl:if (cl:find-package "AGENT-Q-IMAGE")
             (cl:funcall (cl:find-symbol "PARK-RUNNING" "AGENT-Q-IMAGE")
                         ,(agent-q-connection-client-get (agent-q-connection-call-connection call) :wire)
                         ,(agent-q-connection-call-id call)
                         ,(plist-get (agent-q-connection-call-arguments call) :debugger)
                         ,(format "%g" (agent-q-connection-call-seconds call))))
     t #'ignore)))

(defun agent-q-image-cancel (request)
  "Stop the call REQUEST.  It still ends as others do."
  (let ((call (gethash request agent-q-connection-call-pending)))
    (cond ((null call))
          ((agent-q-connection-call-continuation call)
           (agent-q-image--stop call "done"))
          ;; It waits for the Common Lisp half, nothing of it is in the image.
          (t (agent-q-connection-call-finish call "aborted" "It was cancelled before it started.")))))

(defun agent-q-image--resumed (call request seconds callback)
  "Wait again for the end of CALL, now as REQUEST, which CALLBACK takes.
It has SECONDS."
  (setf (agent-q-connection-call-request call) request
        (agent-q-connection-call-seconds call) seconds
        (agent-q-connection-call-started call) (float-time)
        (agent-q-connection-call-callback call) callback
        (agent-q-connection-call-stopping call) nil
        (agent-q-connection-call-condition call) nil
        (agent-q-connection-call-heard call) nil
        (agent-q-connection-call-patience call) 3)
  (agent-q-connection-call-begin call)
  (agent-q-connection-call-start-clock call seconds))

(defun agent-q-image-resume (parked request operation arguments seconds callback)
  "Continue PARKED by OPERATION with ARGUMENTS, a way out of its debugger.
REQUEST, SECONDS and CALLBACK are what `agent-q-image-call' takes; the
call ends once more, with its new result."
  (let ((call (agent-q-image-parked-call parked)))
    (agent-q-image--resumed call request seconds callback)
    (agent-q-image-call
     (agent-q-connection-call-connection call) (list 'restart request)
     operation arguments seconds
     (lambda (status payload)
       ;; What leaves the debugger leaves the operation, too.
       (unless (equal status "aborted")
         (when (agent-q-connection-call-pending-p call)
           (agent-q-connection-call-finish call status payload))))
     (agent-q-connection-call-owner call) (agent-q-image-parked-thread parked))))

(defun agent-q-image--stop (call status)
  "Ask the image to stop CALL; when it does, CALL ends with STATUS."
  (when (and (agent-q-connection-call-pending-p call)
             (null (agent-q-connection-call-stopping call)))
    (setf (agent-q-connection-call-stopping call) status)
    (agent-q-image--ask-to-stop call)))

(defun agent-q-image--way-to-stop (call)
  "Return the function that the image is to stop CALL by, in a list.
It is empty for a plain stop."
  (pcase (agent-q-connection-call-patience call)
    ((and 2 (guard (equal "timed-out" (agent-q-connection-call-stopping call))))
     ;; Should that hang, the next request does without.
     '("STOP-REPORTING"))
    (0 '("STOP-WITHOUT-CLEAN-UP"))))

(defun agent-q-image--ask-to-stop (call)
  "Send the request to stop CALL, a few times; then end it without the image.
A clean-up form that hangs takes a second request to stop, and the
last one leaves clean-up forms out."
  (cond
   ((not (agent-q-connection-live-p (agent-q-connection-call-connection call)))
    (agent-q-connection-call-finish call "disconnected" nil))
   ((agent-q-connection-crash (agent-q-connection-call-connection call))
    (agent-q-connection-call-finish
     call "disconnected" (agent-q-connection-crash (agent-q-connection-call-connection call))))
   ((and (zerop (agent-q-connection-call-patience call)) (agent-q-connection-call-heard call))
    (agent-q-connection-call-finish call "deaf" nil))
   ((zerop (agent-q-connection-call-patience call))
    (agent-q-connection-call-finish
     call "unresponsive"
     (agent-q-connection-silence (agent-q-connection-call-connection call))))
   (t
    (cl-decf (agent-q-connection-call-patience call))
    ;; The first one also finds out where it was.
    (agent-q-connection-call-start-clock call (if (= 2 (agent-q-connection-call-patience call))
                                                  agent-q-image--grace
                                                (/ agent-q-image--grace 3))
                                         #'agent-q-image--ask-to-stop)
    (agent-q-image--guard call
      (cond ((agent-q-image-threads-p call)
             (agent-q-connection-ask
              (agent-q-connection-call-connection call) :rex
              `(cl:if (cl:find-package "AGENT-Q-IMAGE")
                      (cl:funcall (cl:find-symbol "CANCEL" "AGENT-Q-IMAGE")
                                  ,(agent-q-connection-call-id call)
                                  ,@(agent-q-image--way-to-stop call)))
              t (lambda (_) (setf (agent-q-connection-call-heard call) t))))
            ;; It hears nothing before the call is over, but for a signal.  One more must not
            ;; come while it answers the first.
            ((and (agent-q-image-threads-runs-p call)
                  (null (agent-q-connection-call-condition call))
                  (cl-evenp (agent-q-connection-call-patience call)))
             (agent-q-connection-ask (agent-q-connection-call-connection call) :interrupt)))))))

;;;;; What happens on a connection

(defun agent-q-image--install (connection)
  "Listen to the events of CONNECTION's client, which need not log our replies."
  (agent-q-connection-log-without-replies connection)
  (funcall (agent-q-connection-client-get connection :install)
           #'agent-q-image--on-event #'agent-q-image--on-close))

(defun agent-q-image--on-close (process)
  "End all that awaits an answer over PROCESS, which is closed."
  (agent-q-image-module-abandon process)
  (setq agent-q-image-park-swallowed
        (cl-delete process agent-q-image-park-swallowed :key #'car))
  (agent-q-image-park-abandon process)
  (agent-q-image--kept-over
   process (cl-remove process agent-q-image--kept :key #'agent-q-image--call-process :test-not #'eq))
  (let* ((calls (agent-q-connection-call-over process))
         (tail (and calls (agent-q-connection-last-words
                           (agent-q-connection-call-connection (car calls))))))
    (dolist (call calls)
      (if (agent-q-connection-second-p (agent-q-connection-call-connection call))
          (agent-q-connection-call-finish call "ended" (string-trim (or tail "")))
        (agent-q-connection-call-finish call "disconnected" tail))))
  (agent-q-module-log-run-hook 'agent-q-image-event-functions process 'closed))

(defconst agent-q-image-other-tools "agent-q: the program offers other tools now"
  "The message of an image whose program has defined or removed tools.")

(defun agent-q-image--on-event (process event)
  "Handle EVENT on PROCESS when it is about a call of ours.
The value is non-nil when the client should not see it."
  (pcase event
    (`(:debug ,thread ,_level ,condition ,_restarts ,_frames ,requests)
     (let ((ours (agent-q-image--debugged process requests)))
       (cond ((and (null ours) (agent-q-connection-second process))
              ;; No call waits for this thread, so its error is nothing to the user.
              (agent-q-image--swallow process thread condition (agent-q-connection-second process))
              t)
             ((null ours)
              (agent-q-module-log-run-hook 'agent-q-image-event-functions process event)
              nil)
             (t (if (and (agent-q-image-park-asked-p ours)
                         (null (agent-q-connection-call-stopping ours)))
                    (agent-q-image-park ours event)
                  (agent-q-image--swallow process thread condition ours))
                t))))
    (`(,(or :write-string :inspect :ed) . ,_)
     (and (agent-q-connection-second process) t))
    (`(:background-message ,(and message (pred agent-q-image-effect-p)))
     (agent-q-image-effect process message)
     t)
    (`(:background-message ,(and message (pred stringp) (pred (string-prefix-p agent-q-image--kept-mark))))
     (agent-q-image--keep process (substring message (length agent-q-image--kept-mark)))
     t)
    (`(:background-message ,(pred (equal agent-q-image-other-tools)))
     (unless (agent-q-connection-second process)
       (agent-q-module-log-run-hook 'agent-q-image-event-functions process 'other-tools))
     t)
    (`(:debug-activate ,thread . ,_)
     (when (member (cons process thread) agent-q-image-park-swallowed)
       (agent-q-image-park-activated process event)
       t))
    (`(:debug-return ,thread ,level . ,_)
     (let ((session (member (cons process thread) agent-q-image-park-swallowed)))
       (when session
         (agent-q-image-park-left process thread level)
         (setq agent-q-image-park-swallowed (delq (car session) agent-q-image-park-swallowed))
         t)))))

(defun agent-q-image--debugged (process requests)
  "Return the call over PROCESS whose id is among REQUESTS, or nil.
The value is a connection when it is the Common Lisp half on its way."
  (or (cl-find-if (lambda (call)
                    (agent-q-image--among-p (agent-q-connection-call-connection call)
                                            (agent-q-connection-call-continuation call)
                                            requests))
                  (append (agent-q-connection-call-over process)
                          (agent-q-image-park-calls process)))
      (let ((shipping (cl-find-if (lambda (shipping)
                                    (agent-q-image--among-p
                                     (agent-q-image-module-shipping-connection shipping)
                                     (agent-q-image-module-shipping-continuation shipping)
                                     requests))
                                  (agent-q-image-module-shippings process))))
        (and shipping (agent-q-image-module-shipping-connection shipping)))))

(defun agent-q-image-debugged-p (process requests)
  "Return non-nil when a call of ours over PROCESS is among REQUESTS, ids."
  (and (agent-q-image--debugged process requests) t))

(defun agent-q-image--among-p (connection continuation requests)
  "Return non-nil when CONTINUATION's id on CONNECTION is among REQUESTS."
  (and continuation
       (memql (agent-q-connection-ask connection :rex-id continuation) requests)))

(defun agent-q-image--swallow (process thread condition work)
  "Abort the debugger that CONDITION opened in THREAD of PROCESS for WORK.
WORK is a call, or the connection of the Common Lisp half.  It was
not for the user: calls report their conditions themselves."
  (let ((connection (if (agent-q-connection-call-p work)
                        (agent-q-connection-call-connection work)
                      work)))
    (push (cons process thread) agent-q-image-park-swallowed)
    (when (agent-q-connection-call-p work)
      (setf (agent-q-connection-call-condition work)
            (string-trim (mapconcat (lambda (part) (if (stringp part) part ""))
                                    condition " "))))
    (agent-q-connection-ask connection :rex
                            (agent-q-connection-client-get
                             connection
                             ;; In a thread that is debugged, only our own level goes.
                             (if (and (agent-q-connection-call-p work)
                                      (or (not (eq t (agent-q-connection-call-thread work)))
                                          (agent-q-image-threads-within-p work)))
                                 :abort-level
                               :throw-to-toplevel))
                            thread #'ignore)))

(defun agent-q-image--cancelled (event)
  "Stop the call in EVENT, whose result is no longer needed."
  (agent-q-image-cancel (plist-get event :request)))

(agent-q-events-subscribe :emacs-cancelled #'agent-q-image--cancelled)

;;;; Calls of Emacs's own into an image

;; What Emacs itself wants to know of an image, beside the tool calls that the
;; core asks for: one call of the Common Lisp half, and its reply as Lisp data.

(defconst agent-q-image--query-seconds 15
  "Default for the seconds that an image may take to answer.")

(defvar agent-q-image--query-last 0
  "The number of the last call that was made from here.")

(defun agent-q-image-query (connection operation arguments function
                                       &optional seconds thread asker)
  "Call OPERATION in the image behind CONNECTION with ARGUMENTS, a property list.
FUNCTION gets three arguments: the reply of the Common Lisp half as Lisp
data, nil when there is none, then the status and the payload, which are
as for `agent-q-image-call'.  That call has SECONDS, 15 when nil,
and runs in THREAD, when nil one of its own.  ASKER is the core's request
that it is made for, if any.  Return the request, for
`agent-q-image-cancel'."
  (let ((request (list 'agent-q-image-query (cl-incf agent-q-image--query-last))))
    (agent-q-image-call connection request operation arguments
                        (or seconds agent-q-image--query-seconds)
                        (lambda (status payload)
                          (funcall function
                                   (and (equal status "done")
                                        (agent-q-connection-call-reply payload))
                                   status payload))
                        nil thread asker)
    request))

(provide 'agent-q-image)
;;; agent-q-image.el ends here
