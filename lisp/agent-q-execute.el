;;; agent-q-execute.el --- Calls of Emacs Lisp programs, and calls of their functions  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Programs make calls and take part in those of others; the core calls their handlers, and asks Emacs
;; and the image for what tools need.

;;; Code:

(require 'agent-q)
(require 'agent-q-activity)
(require 'agent-q-buffers)
(require 'agent-q-changes)
(require 'agent-q-connection)
(require 'agent-q-debugger)
(require 'agent-q-definitions)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-project)
(require 'agent-q-provider)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-scratch)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'agent-q-tool)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Functions of users, run for the core

;; Tool handlers, approval handlers, hooks and callbacks are written by users.
;; They run from a timer, in the order in which they came, and never in the
;; filter of the wake pipe: so they may wait, ask in the minibuffer, make calls
;; themselves, and be stopped by a quit.

;;;;; Tasks

(defconst agent-q-execute--handler-slice 0.005
  "Seconds for which tasks run before Emacs attends to other things.")

(defvar agent-q-execute--handler-tasks nil
  "The tasks, first one first: lists of a function and its arguments.")

(defvar agent-q-execute--handler-timer nil
  "The timer that runs the tasks, or nil.")

(defvar agent-q-execute-handler-waiting nil
  "Non-nil while a program waits for calls, which a quit then ends as well.")

(defun agent-q-execute-handler-later (function &rest arguments)
  "Call FUNCTION with ARGUMENTS soon, outside any filter."
  (setq agent-q-execute--handler-tasks
        (nconc agent-q-execute--handler-tasks (list (cons function arguments))))
  (agent-q-execute--handler-arm))

(defun agent-q-execute--handler-arm ()
  "Run the tasks when Emacs gets to its timers."
  (unless agent-q-execute--handler-timer
    (setq agent-q-execute--handler-timer (run-at-time 0 nil #'agent-q-execute--handler-work))))

(defun agent-q-execute--handler-work ()
  "Run tasks for a while."
  (setq agent-q-execute--handler-timer nil)
  (let ((start (float-time)))
    (while (and agent-q-execute--handler-tasks
                (< (- (float-time) start) agent-q-execute--handler-slice))
      (let ((task (pop agent-q-execute--handler-tasks)))
        ;; A task that waits for something lets the others run meanwhile, and
        ;; one that leaves by a throw doesn't take them along.
        (when agent-q-execute--handler-tasks
          (agent-q-execute--handler-arm))
        (agent-q-execute--handler-perform task))))
  (when agent-q-execute--handler-tasks
    (agent-q-execute--handler-arm)))

(defun agent-q-execute-handler-run-waiting ()
  "Run the tasks that wait now; return non-nil if there were any."
  (let ((count (length agent-q-execute--handler-tasks)))
    (dotimes (_ count)
      (when agent-q-execute--handler-tasks
        (agent-q-execute--handler-perform (pop agent-q-execute--handler-tasks))))
    (> count 0)))

(defun agent-q-execute--handler-perform (task)
  "Run TASK with quitting allowed, which timers forbid."
  (condition-case failure
      (let ((inhibit-quit nil))
        (apply (car task) (cdr task)))
    (quit (agent-q-execute-handler-quit))
    (error (agent-q-module-log-line
            (format "%S failed: %s" (car task) (error-message-string failure))))))

(defun agent-q-execute-handler-quit ()
  "Go on after the user's quit; a program that is waiting gets it too."
  (when agent-q-execute-handler-waiting
    (setq quit-flag t)))

;;;;; Handlers of tools

(cl-defstruct (agent-q-execute--handler-call (:constructor agent-q-execute--handler-make-call)
                                             (:copier nil))
  "A call of TOOL's handler with ARGUMENTS, JSON text, for REQUEST of the core.
CANCEL is a function to call when the value isn't needed any more;
TIMER ends the call when it takes too long.  WATCH says, printed, what an
image asks about during the call, if the tool is one of an image's."
  request tool arguments cancel timer watch)

(defvar agent-q-execute-handler-watch nil
  "While a handler runs, the core's request and its watch, a cons.")

(defvar agent-q-execute--handler-calls (make-hash-table)
  "The calls that the core waits for, by request.")

(defun agent-q-execute-handler-call (event)
  "Call the handler that EVENT wants, soon."
  (let* ((request (plist-get event :request))
         (tool (agent-q-registry-handler-tool (plist-get event :handler)))
         (call (agent-q-execute--handler-make-call
                :request request :tool tool
                :arguments (plist-get event :arguments)
                :watch (plist-get event :watch))))
    (puthash request call agent-q-execute--handler-calls)
    (when agent-q-handler-timeout
      (setf (agent-q-execute--handler-call-timer call)
            (run-at-time agent-q-handler-timeout nil #'agent-q-execute--handler-late
                         call agent-q-handler-timeout)))
    (if tool
        (agent-q-execute-handler-later #'agent-q-execute--handler-run call)
      (agent-q-execute--handler-finish
       call (agent-q-tool-failure "Tool error: this tool has been removed.")))))

(defun agent-q-execute-handler-cancel (event)
  "Forget the call that EVENT names: its value is no longer needed."
  (let ((call (gethash (plist-get event :request) agent-q-execute--handler-calls)))
    (when call
      (agent-q-execute--handler-forget call)
      (when (agent-q-execute--handler-call-cancel call)
        (agent-q-execute-handler-later (agent-q-execute--handler-call-cancel call))))))

(defun agent-q-execute--handler-forget (call)
  "Stop waiting for the value of CALL."
  (remhash (agent-q-execute--handler-call-request call) agent-q-execute--handler-calls)
  (when (agent-q-execute--handler-call-timer call)
    (cancel-timer (agent-q-execute--handler-call-timer call))))

(defun agent-q-execute--handler-late (call seconds)
  "End CALL, which has taken SECONDS, and tell its handler."
  (when (and (agent-q-execute--handler-fail
              call (format "no value within %s seconds (agent-q-handler-timeout)" seconds))
             (agent-q-execute--handler-call-cancel call))
    (agent-q-execute-handler-later (agent-q-execute--handler-call-cancel call))))

(defun agent-q-execute--handler-open-p (call)
  "Whether the core waits for the value of CALL."
  (eq call (gethash (agent-q-execute--handler-call-request call) agent-q-execute--handler-calls)))

(defun agent-q-execute--handler-run (call)
  "Run the handler of CALL and give the core its value.
However the handler ends, the call gets its result."
  (when (agent-q-execute--handler-open-p call)
    (let ((ended nil))
      (unwind-protect
          (progn
            (condition-case failure
                (agent-q-execute--handler-apply call)
              (quit
               (agent-q-execute--handler-fail call "the user quit it")
               (agent-q-execute-handler-quit))
              (error
               (agent-q-execute--handler-fail call (error-message-string failure))))
            (setq ended t))
        (unless ended
          (agent-q-execute--handler-fail call "its handler exited by a throw"))))))

(defun agent-q-execute--handler-apply (call)
  "Apply the handler of CALL to its arguments, in the user's buffer."
  (let* ((tool (agent-q-execute--handler-call-tool call))
         (handler (agent-q-tool-handler tool))
         (arguments (agent-q-json-parse (agent-q-execute--handler-call-arguments call)))
         (agent-q-execute-handler-watch (cons (agent-q-execute--handler-call-request call)
                                              (agent-q-execute--handler-call-watch call))))
    (with-current-buffer (or (agent-q-session-user-last-buffer) (current-buffer))
      (if (not (agent-q-tool-async tool))
          (agent-q-execute--handler-finish call (funcall handler arguments))
        (let ((value (funcall handler arguments
                              (lambda (value) (agent-q-execute--handler-finish call value)))))
          (when (functionp value)
            (setf (agent-q-execute--handler-call-cancel call) value)))))))

(defun agent-q-execute--handler-fail (call reason)
  "End CALL as failed for REASON."
  (agent-q-execute--handler-finish call (agent-q-tool-failure (concat "Tool error: " reason))))

(defun agent-q-execute--handler-finish (call value)
  "Give the core VALUE, the one of CALL.
Return non-nil if somebody waited for it; the first value is the one."
  (when (agent-q-execute--handler-open-p call)
    (pcase-let ((`(,failed . ,text) (agent-q-execute--handler-result value)))
      (agent-q-execute--handler-forget call)
      (agent-q-events-resolve (agent-q-execute--handler-call-request call)
                              (if failed "signalled" "done") text)
      t)))

(defun agent-q-execute--handler-result (value)
  "Return whether VALUE of a handler is a failure, and its text, as a cons.
What can't be sent is a failure, so that the call gets its result."
  (condition-case failure
      (cons (agent-q-tool-failure-value-p value) (agent-q-execute--handler-text value))
    (error (cons t (format "Tool error: its value can't be sent (%s)"
                           (error-message-string failure))))))

(defun agent-q-execute--handler-text (value)
  "Return VALUE of a handler as text for the model."
  (if (agent-q-tool-failure-value-p value)
      (let ((message (agent-q-format-tool-result (agent-q-tool-failure-value-message value)))
            (more (agent-q-tool-failure-value-value value)))
        (if more
            (concat message "\n" (agent-q-format-tool-result more))
          message))
    (agent-q-format-tool-result value)))

(agent-q-events-subscribe :tool-handler #'agent-q-execute-handler-call)
(agent-q-events-subscribe :emacs-cancelled #'agent-q-execute-handler-cancel)

;;;; What the core asks of Emacs for a tool

;; A tool may need the Lisp image, which only Emacs is connected to, or Emacs itself:
;; its buffers, and what it saw.  The core asks by an event; here it is answered.

;;;###autoload
(defun agent-q-execute-request (event connection owner)
  "Carry out the request in EVENT to Emacs or the image behind CONNECTION, if any.
OWNER is the buffer of the chat that asks, if any."
  (pcase (plist-get event :type)
    (:emacs-call (agent-q-events-operation-run event connection owner))
    (:image-call (agent-q-execute--image-call event connection owner))))

(defun agent-q-execute--image-call (event connection owner)
  "Do what EVENT asks of the image behind CONNECTION, which may be nil.
OWNER is the buffer of the chat that asks, if any.  EVENT may be about another
Lisp of OWNER's, by its name."
  (let ((request (plist-get event :request))
        (operation (plist-get event :operation))
        (arguments (car (read-from-string (plist-get event :arguments))))
        (second (plist-get event :image)))
    (when second
      (setq connection (agent-q-scratch-connection owner second)))
    (cond
     ((and second (null connection))
      (agent-q-core-resolve request "signalled" "The second Lisp has ended." nil nil))
     ((null connection) (agent-q-core-resolve request "no-connection" nil nil nil))
     ((agent-q-execute--met-later-p operation arguments connection)
      (agent-q-core-resolve request "done" "(:outcome :returned :value (:watched t))" nil nil))
     (t
      (agent-q-image-call connection request operation arguments (plist-get event :seconds)
                          (lambda (status payload)
                            (agent-q-execute--note-unguarded connection owner payload)
                            (agent-q-events-resolve
                             request status payload
                             (and (string-prefix-p "(:" (or payload ""))
                                  (agent-q-execute--note connection operation owner))))
                          owner)
      (when-let ((call (gethash request agent-q-connection-call-pending)))
        (setf (agent-q-connection-call-key call) (plist-get event :call)))))))

(defun agent-q-execute--note (connection operation owner)
  "Return the note under the reply of OPERATION, or nil.
CONNECTION leads to the image, and OWNER is the chat that asked."
  (let ((lines (append (agent-q-debugger-opened connection operation owner)
                       (and-let* ((note (or (and (not (equal "assess-form" operation))
                                                 (agent-q-scratch-first-note connection))
                                            (agent-q-connection-note connection))))
                         (list note)))))
    (and lines (string-join lines "\n"))))

(defun agent-q-execute--met-later-p (operation arguments connection)
  "Return non-nil when what OPERATION assesses is met later by CONNECTION's image.
Nothing has to be known before about the code in ARGUMENTS then: that saves a
trip to the image for each call."
  (and (equal "assess-form" operation)
       (agent-q-image-threads-watched-p connection)
       (null (plist-get arguments :before))))

(defun agent-q-execute--note-unguarded (connection owner payload)
  "Note what can't be guarded in the image of CONNECTION, by its reply PAYLOAD.
OWNER is the chat that asked, and is told once."
  (let* ((process (agent-q-connection-process connection))
         (names (and payload (string-search " :unguarded (" payload)
                     (plist-get (agent-q-connection-call-reply payload) :unguarded)))
         (text (string-join names ", ")))
    (when (and names (not (equal names (process-get process 'agent-q-unguarded))))
      (process-put process 'agent-q-unguarded names)
      (when (buffer-live-p owner)
        (with-current-buffer owner
          (agent-q-render-notice
           (format "agent-q can't stop calls of %s in %s.  Code there is looked at before it runs."
                   text (agent-q-connection-label connection))
           'agent-q-attention))))))

(defun agent-q-execute--tell-refused (_process event)
  "Tell of what was refused after a call, if EVENT is about that."
  (pcase event
    (`(refused ,chat ,thread ,words) (agent-q-execute--say-refused chat thread words))))

(defun agent-q-execute--say-refused (chat thread words)
  "Say in CHAT, or in the log, that THREAD was refused WORDS after its call."
  (let ((text (format "The thread %s wanted to %s.  It was refused: its call is over, and only while another one runs in this chat can you be asked."
                      (agent-q-text-visible-line thread 60) (agent-q-text-visible-line words 200))))
    (if (buffer-live-p chat)
        (with-current-buffer chat
          (agent-q-render-notice text 'agent-q-attention))
      (agent-q-module-log-line text))))

(add-hook 'agent-q-image-event-functions #'agent-q-execute--tell-refused)

;;;###autoload
(defun agent-q-execute-request-outside (event)
  "Carry out the request in EVENT, which belongs to a call outside all chats."
  (agent-q-execute-request event (agent-q-connection-default-connection) nil))

;;;; What programs that a model runs get of Emacs

(agent-q-events-operation-define "program-environment" (call)
  "Return where programs are found and their environment, for the chat of CALL.
No key of a provider is in it."
  (let ((owner (agent-q-events-operation-call-owner call)))
    (with-current-buffer (if (buffer-live-p owner) owner (current-buffer))
      (agent-q-json-serialize
       `((path . ,(vconcat (mapcar #'expand-file-name (seq-filter #'stringp exec-path))))
         (variables . ,(vconcat (agent-q-provider-environment))))))))

;;;; The way to a page that a model wants

(agent-q-events-operation-define "page-route" (call url)
  "Return the way to URL, as Emacs has it for the chat of CALL."
  (let ((owner (agent-q-events-operation-call-owner call)))
    (with-current-buffer (if (buffer-live-p owner) owner (current-buffer))
      (agent-q-json-serialize
       (agent-q-provider-route "fetch_url" (list :base-url url))))))

;;;; Tool calls of programs, approval and hooks

;; Calls that Emacs Lisp makes go through the same pipeline as those of models.
;; Here are also the functions by which programs take part in all calls:
;; `agent-q-approval-handler' and `agent-q-tool-execution-hooks'.

;;;;; Results

;; An interpreter looks a function up before it evaluates the call whose value that is about.
;;;###autoload (autoload 'agent-q-tool-result-p "agent-q-execute")
;;;###autoload (autoload 'agent-q-tool-result-id "agent-q-execute")
;;;###autoload (autoload 'agent-q-tool-result-success "agent-q-execute")
;;;###autoload (autoload 'agent-q-tool-result-content "agent-q-execute")
;;;###autoload (autoload 'agent-q-tool-result-error "agent-q-execute")
;;;###autoload (autoload 'agent-q-tool-result-metadata "agent-q-execute")

(cl-defstruct (agent-q-tool-result (:constructor agent-q-execute--make-result)
                                   (:copier nil))
  "The result of a tool call.
ID is the call's.  SUCCESS is t or nil.  CONTENT is the text for the model.
ERROR says what went wrong; it is nil exactly if SUCCESS is t.  METADATA is
a hash table: \"execution_time_ms\", \"safety_level\" (absent when the call
got no further than its validation), and where the call needed approval
\"approved\", t or `:false'."
  id success content error metadata)

(defun agent-q-execute--result (plist)
  "Return the result that PLIST, from an event of the core, describes."
  (let ((content (plist-get plist :content))
        (success (eq (plist-get plist :outcome) :succeeded))
        (metadata (agent-q-json-empty-object)))
    (puthash "execution_time_ms" (plist-get plist :milliseconds) metadata)
    (when (plist-get plist :level)
      (puthash "safety_level" (plist-get plist :level) metadata))
    (pcase (plist-get plist :consent)
      ((or :approved :modified) (puthash "approved" t metadata))
      ((or :denied :unfit :unavailable :unanswered) (puthash "approved" :false metadata)))
    (agent-q-execute--make-result :id (plist-get plist :id) :success success
                                  :content content :error (and (not success) content)
                                  :metadata metadata)))

;;;;; Calls

(defvar agent-q-execute--batches (make-hash-table)
  "The functions that want the results of the batches that run, by batch.")

;;;###autoload
(defun agent-q-execute-tool-calls (calls callback)
  "Run tools; when all are done, CALLBACK gets the list of the results.
CALLS is a list of tool calls.  Each is a property list:

  (:id \"call_1\" :name \"describe_symbol\" :arguments (:symbol \"car\"))

ARGUMENTS is a hash table, a property list, an association list or JSON
text.  A call without an id gets one.  The results are
`agent-q-tool-result's in the order of CALLS, one for each call, with its
id.  Dangerous calls run only when `agent-q-approval-handler'
approves them.

A call that JSON can't hold, such as one with a buffer in its arguments, has
failed; the others run.

Return the batch, for `agent-q-cancel-tool-calls'."
  (agent-q-json-expect #'functionp callback "CALLBACK" "a function")
  (agent-q-execute--start calls (lambda (results)
                                  (agent-q-execute-handler-later callback results))))

(defun agent-q-execute--start (wanted function)
  "Start the batch WANTED, and return its number.
FUNCTION gets the results, where Emacs is at the core's events.  That can be
before this returns."
  (agent-q-json-expect #'agent-q-execute--list-p wanted "CALLS" "a list of calls")
  (agent-q-registry-ensure)
  ;; The pipe may be gone although the core is there.
  (unless (agent-q-events-running-p)
    (agent-q-events-ensure))
  (let ((prepared (agent-q-execute--prepared wanted)))
    (agent-q-events-attend
     (lambda ()
       (let ((batch (agent-q-core-execute (vconcat (cl-remove-if-not #'vectorp prepared))
                                          (and agent-q-approval-handler t)
                                          (and agent-q-tool-execution-hooks t)
                                          (agent-q-execute--private-files))))
         (puthash batch
                  (lambda (results)
                    (funcall function (mapcar (lambda (call) (if (vectorp call) (pop results) call))
                                               prepared)))
                  agent-q-execute--batches)
         batch)))))

(defun agent-q-execute--private-files ()
  "Return the user's own globs of private files as a vector, or nil without any."
  (let ((globs (default-value 'agent-q-private-files)))
    (and globs (vconcat globs))))

;;;###autoload
(defun agent-q-execute-look-up (session name arguments function)
  "Run the safe tool NAME with ARGUMENTS for the user of SESSION, a core's number.
It is about the project and the image of that chat, which doesn't show it.
FUNCTION gets the result, an `agent-q-tool-result'.  Return the batch, for
`agent-q-cancel-tool-calls'."
  (agent-q-registry-ensure)
  (agent-q-events-attend
   (lambda ()
     (let ((batch (agent-q-core-look-up
                   session (vector (agent-q-execute--prepare
                                    (list :id "call" :name name :arguments arguments) "call")))))
       (puthash batch
                (lambda (results)
                  (agent-q-execute-handler-later function (car results)))
                agent-q-execute--batches)
       batch))))

;;;###autoload
(defun agent-q-cancel-tool-calls (batch)
  "Cancel what has no result yet in BATCH; this becomes its result."
  (agent-q-json-expect #'natnump batch "BATCH" "what `agent-q-execute-tool-calls' returned")
  (agent-q-core-cancel-batch batch "the program that made it cancelled it"))

;;;###autoload
(defun agent-q-execute-tool-calls-sync (calls &optional seconds)
  "Run tools as `agent-q-execute-tool-calls' would, and return the results.
CALLS is a list of tool calls.  After SECONDS, or when the user quits,
those without a result are cancelled.  Emacs can't be used until then, so
this is for batch use."
  (when seconds
    (agent-q-json-expect #'numberp seconds "SECONDS" "a number"))
  (let* ((results 'none)
         (agent-q-execute-handler-waiting (list 'agent-q-execute))
         (mine agent-q-execute-handler-waiting)
         (batch (agent-q-execute--start
                 calls
                 (lambda (them)
                   (setq results them)
                   (agent-q-execute-handler-later #'agent-q-execute--leave mine))))
         (deadline (and seconds (time-add nil seconds))))
    (unwind-protect
        (while (eq results 'none)
          (when (and deadline (time-less-p deadline nil))
            (setq deadline nil)
            (agent-q-core-cancel-batch
             batch (format "it gave no result within %s seconds" seconds)))
          (catch mine
            ;; What is due already need not wait for the timers.
            (unless (agent-q-execute-handler-run-waiting)
              (accept-process-output nil (if deadline 0.02 0.5)))))
      (when (eq results 'none)
        (remhash batch agent-q-execute--batches)
        (agent-q-core-cancel-batch batch "the user quit")))
    (setq agent-q-execute-handler-waiting nil)
    ;; The hooks of these calls come before what the caller does next.
    (agent-q-execute-handler-run-waiting)
    results))

(defun agent-q-execute--leave (waiting)
  "Leave `accept-process-output', if WAITING is the program that waits in it.
It would look for more output for another 10 ms."
  (when (eq waiting agent-q-execute-handler-waiting)
    (throw waiting nil)))

;; The registry can't know this file, whose calls look tools up.
;;;###autoload (defvar agent-q-registry-run-function #'agent-q-execute-one)
;;;###autoload
(defun agent-q-execute-one (name arguments)
  "Run the tool NAME with ARGUMENTS through the pipeline and return its content.
Signal `agent-q-error' when it fails.  The handlers of built-in tools do this."
  (let ((result (car (agent-q-execute-tool-calls-sync
                      (list (list :id "call" :name name :arguments arguments))))))
    (if (agent-q-tool-result-success result)
        (agent-q-tool-result-content result)
      (signal 'agent-q-error (list (agent-q-tool-result-error result))))))

(defun agent-q-execute--list-p (value)
  "Whether VALUE can be a batch, and is not a single call."
  (or (vectorp value)
      (and (proper-list-p value) (not (keywordp (car value))))))

(defun agent-q-execute--prepared (wanted)
  "Return the batch WANTED as a list, each call in it as the core wants it.
What the core can't be sent is a failed result instead."
  (let ((number 0))
    (mapcar (lambda (call)
              (setq number (1+ number))
              (agent-q-execute--prepare call (format "call_%d" number)))
            wanted)))

(defun agent-q-execute--prepare (call id)
  "Return CALL as a vector [ID NAME ARGUMENTS] of strings, or a failed result.
It gets ID when it has none.  Its arguments are JSON text."
  (condition-case failure
      (let* ((call (agent-q-execute--call call))
             (arguments (plist-get call :arguments)))
        ;; First, so that whatever is wrong besides is said under the call's id.
        (setq id (agent-q-execute--id (plist-get call :id) id))
        (vector id
                (agent-q-execute--name (plist-get call :name))
                ;; JSON text is for the core to read, as that of a model.
                (cond ((stringp arguments) (agent-q-json-text arguments))
                      ((memq arguments '(nil :null)) "{}")
                      (t (agent-q-json-encode-object arguments)))))
    (agent-q-error (agent-q-execute--failed-result id (cadr failure)))
    (error (agent-q-execute--failed-result id (error-message-string failure)))))

(defun agent-q-execute--call (call)
  "Return CALL, an object, as a property list."
  (if (agent-q-json-plist-p call)
      call
    (let ((members (or (agent-q-json-members call)
                       (signal 'agent-q-error
                               (list "A tool call must be an object")))))
      (list :id (gethash "id" members)
            :name (gethash "name" members)
            :arguments (gethash "arguments" members)))))

(defun agent-q-execute--id (given otherwise)
  "Return the id that a call was GIVEN as a string, or OTHERWISE if it has none."
  (cond ((memq given '(nil :null)) otherwise)
        ((stringp given) (agent-q-json-text given))
        (t (agent-q-json-text (format "%s" given)))))

(defun agent-q-execute--name (name)
  "Return NAME, the one of a call, as a string."
  (if (or (stringp name)
          (and name (symbolp name) (not (keywordp name))))
      (agent-q-json-text (format "%s" name))
    (signal 'agent-q-error (list (format "A tool call has no name: %S" name)))))

(defun agent-q-execute--failed-result (id reason)
  "Return the result of the call ID, which can't be made for REASON."
  (let ((message (concat "The call can't be made: " reason))
        (metadata (agent-q-json-empty-object)))
    (puthash "execution_time_ms" 0.0 metadata)
    (agent-q-execute--make-result :id id :success nil :content message :error message
                                  :metadata metadata)))

(defun agent-q-execute-finished (event)
  "Hand the results in EVENT to whom they are for."
  (let* ((batch (plist-get event :batch))
         (function (gethash batch agent-q-execute--batches)))
    (remhash batch agent-q-execute--batches)
    (when function
      (funcall function (mapcar #'agent-q-execute--result
                                (plist-get event :results))))))

;;;;; Hooks

(defvar agent-q-execute--started (make-hash-table)
  "The tool and the arguments of the calls that run, by the core's key.")

(defun agent-q-execute-started (event)
  "Run the hooks before the call of EVENT."
  (when (and agent-q-tool-execution-hooks
             (not (agent-q-execute--effect-p event)))
    (let ((key (plist-get event :call))
          (arguments (plist-get event :arguments)))
      (puthash key t agent-q-execute--started)
      (agent-q-execute-handler-later
       (lambda ()
         (let ((started (cons (agent-q-registry-called event)
                              (agent-q-json-parse arguments))))
           (puthash key started agent-q-execute--started)
           (agent-q-execute--run-hooks :before started nil)))))))

(defun agent-q-execute-ended (event)
  "Run the hooks after the call of EVENT, if it did run."
  (let ((key (plist-get event :call)))
    (when (gethash key agent-q-execute--started)
      (agent-q-execute-handler-later
       (lambda ()
         (let ((started (gethash key agent-q-execute--started))
               (result (agent-q-execute--result event)))
           (remhash key agent-q-execute--started)
           (agent-q-execute--run-hooks
            (if (agent-q-tool-result-success result) :after :error)
            started result)))))))

(defun agent-q-execute--run-hooks (phase started result)
  "Run the hooks with PHASE, the tool and arguments in STARTED, and RESULT.
An error in one of them changes nothing."
  (dolist (hook (if (functionp agent-q-tool-execution-hooks)
                    (list agent-q-tool-execution-hooks)
                  agent-q-tool-execution-hooks))
    (condition-case failure
        (funcall hook phase (car started) (cdr started) result)
      ((error quit)
       (agent-q-module-log-line (format "A function of agent-q-tool-execution-hooks failed: %s"
                                        (error-message-string failure)))))))

;;;;; Approval

(defun agent-q-execute-approve (event)
  "Ask `agent-q-approval-handler' about the call of EVENT, soon."
  (agent-q-execute-handler-later #'agent-q-execute--ask agent-q-approval-handler event))

(defun agent-q-execute--ask (handler event)
  "Ask HANDLER about the call of EVENT and pass its answer on.
If anything goes wrong, the tool is not run."
  (let ((asked nil))
    (unwind-protect
        (condition-case failure
            (let* ((tool (agent-q-registry-called event))
                   (arguments (agent-q-json-parse (plist-get event :arguments)))
                   (answered nil)
                   (answer (lambda (decision)
                             (unless answered
                               (setq answered t)
                               (agent-q-execute--decide event decision)))))
              (if (agent-q-execute--takes-function-p handler)
                  (funcall handler tool arguments answer)
                (funcall answer (funcall handler tool arguments)))
              (setq asked t))
          (quit (agent-q-execute--fail event "The user quit the approval handler")
                (setq asked t)
                (agent-q-execute-handler-quit))
          (error (agent-q-execute--fail event (format "The approval handler failed (%s)"
                                                      (error-message-string failure)))
                 (setq asked t)))
      (unless asked
        (agent-q-execute--fail event "The approval handler exited by a throw")))))

(defun agent-q-execute--takes-function-p (handler)
  "Whether the approval HANDLER requires a third argument, the function to answer."
  (>= (car (func-arity handler)) 3))

(defun agent-q-execute--decide (event decision)
  "Pass DECISION, an approval handler's answer about EVENT, to the core.
With an answer that is none, what was asked about doesn't happen."
  (pcase decision
    (:approved (agent-q-execute--tell event "approved" nil))
    ((or :denied '(:denied)) (agent-q-execute--deny event nil))
    (`(:denied ,(and (pred stringp) reason)) (agent-q-execute--deny event reason))
    ((and :stopped (guard (agent-q-execute--effect-p event)))
     (agent-q-execute--tell event "stopped" nil))
    (:stopped
     (agent-q-execute--fail event "The approval handler can't stop a call that is not running yet"))
    ((and `(:modified . ,_) (guard (agent-q-execute--effect-p event)))
     (agent-q-execute--fail event "The approval handler can't modify an effect"))
    (`(:modified ,arguments)
     (condition-case failure
         (agent-q-execute--tell event "modified"
                                (agent-q-json-encode-object arguments))
       (error (agent-q-execute--unusable event (cadr failure)))))
    (_ (agent-q-execute--fail event "The approval handler gave no answer"))))

(defun agent-q-execute--effect-p (event)
  "Whether EVENT is about an effect of running code, and not about a tool."
  (agent-q-registry-effect-p (plist-get event :tool)))

(defun agent-q-execute--deny (event reason)
  "Deny what EVENT asks about, for REASON if that is a string."
  (agent-q-execute--tell event "denied" (and reason (agent-q-json-text reason))))

(defun agent-q-execute--fail (event problem)
  "Refuse what EVENT asks about.
No decision was made because of PROBLEM."
  (agent-q-execute--tell event "unanswered"
                         (agent-q-json-text
                          (concat problem
                                  (if (agent-q-execute--effect-p event)
                                      ", so it was not allowed."
                                    ", so the tool was not run.")))))

(defun agent-q-execute--unusable (event problem)
  "Refuse the call of EVENT.
PROBLEM is what is wrong with the arguments that it was given."
  (agent-q-execute--fail
   event (format "The approval handler's arguments can't be used (%s)" problem)))

(defun agent-q-execute--tell (event decision payload)
  "Give the core DECISION about the call of EVENT, with PAYLOAD.
If it isn't waiting any more, nothing happens."
  (condition-case failure
      (agent-q-core-decide-by-handler (plist-get event :call) decision payload)
    (agent-q-error
     ;; The core may refuse arguments; the call must not wait for ever.
     (when (equal decision "modified")
       (agent-q-execute--unusable event (cadr failure))))))

;;;;; Calls outside all chats

(defun agent-q-execute--outside (event)
  "Apply EVENT, if it is of a call outside all chats, which a program made."
  (when (eql 0 (plist-get event :session))
    (if (eq :approval (plist-get event :type))
        (agent-q-execute-approve event)
      (agent-q-execute-request-outside event))))

(agent-q-events-subscribe :approval #'agent-q-execute--outside)
(agent-q-events-subscribe :emacs-call #'agent-q-execute--outside)
(agent-q-events-subscribe :image-call #'agent-q-execute--outside)
(agent-q-events-subscribe :batch-finished #'agent-q-execute-finished)
(agent-q-events-subscribe :call-started #'agent-q-execute-started)
(agent-q-events-subscribe :call-finished #'agent-q-execute-ended)

(provide 'agent-q-execute)
;;; agent-q-execute.el ends here
