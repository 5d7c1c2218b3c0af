;;; agent-q-handlers.el --- Functions of users, run for the core  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tool handlers, approval handlers, hooks and callbacks are written by users.
;; They run from a timer, in the order in which they came, and never in the
;; filter of the wake pipe: so they may wait, ask in the minibuffer, make calls
;; themselves, and be stopped by a quit.

;;; Code:

(require 'agent-q)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-log)
(require 'agent-q-registry)
(require 'agent-q-tools)
(require 'agent-q-user)

;;;; Tasks

(defconst agent-q-handlers--slice 0.005
  "Seconds for which tasks run before Emacs attends to other things.")

(defvar agent-q-handlers--tasks nil
  "The tasks, first one first: lists of a function and its arguments.")

(defvar agent-q-handlers--timer nil
  "The timer that runs the tasks, or nil.")

(defvar agent-q-handlers-waiting nil
  "Non-nil while a program waits for calls, which a quit then ends as well.")

(defun agent-q-handlers-later (function &rest arguments)
  "Call FUNCTION with ARGUMENTS soon, outside any filter."
  (setq agent-q-handlers--tasks
        (nconc agent-q-handlers--tasks (list (cons function arguments))))
  (agent-q-handlers--arm))

(defun agent-q-handlers--arm ()
  "Run the tasks when Emacs gets to its timers."
  (unless agent-q-handlers--timer
    (setq agent-q-handlers--timer (run-at-time 0 nil #'agent-q-handlers--work))))

(defun agent-q-handlers--work ()
  "Run tasks for a while."
  (setq agent-q-handlers--timer nil)
  (let ((start (float-time)))
    (while (and agent-q-handlers--tasks
                (< (- (float-time) start) agent-q-handlers--slice))
      (let ((task (pop agent-q-handlers--tasks)))
        ;; A task that waits for something lets the others run meanwhile, and
        ;; one that leaves by a throw doesn't take them along.
        (when agent-q-handlers--tasks
          (agent-q-handlers--arm))
        (agent-q-handlers--perform task))))
  (when agent-q-handlers--tasks
    (agent-q-handlers--arm)))

(defun agent-q-handlers-run-waiting ()
  "Run the tasks that wait now; return non-nil if there were any."
  (let ((count (length agent-q-handlers--tasks)))
    (dotimes (_ count)
      (when agent-q-handlers--tasks
        (agent-q-handlers--perform (pop agent-q-handlers--tasks))))
    (> count 0)))

(defun agent-q-handlers--perform (task)
  "Run TASK with quitting allowed, which timers forbid."
  (condition-case failure
      (let ((inhibit-quit nil))
        (apply (car task) (cdr task)))
    (quit (agent-q-handlers-quit))
    (error (agent-q-log-line
            (format "%S failed: %s" (car task) (error-message-string failure))))))

(defun agent-q-handlers-quit ()
  "Go on after the user's quit; a program that is waiting gets it too."
  (when agent-q-handlers-waiting
    (setq quit-flag t)))

;;;; Handlers of tools

(cl-defstruct (agent-q-handlers--call (:constructor agent-q-handlers--make-call)
                                      (:copier nil))
  "A call of TOOL's handler with ARGUMENTS, JSON text, for REQUEST of the core.
CANCEL is a function to call when the value isn't needed any more;
TIMER ends the call when it takes too long.  WATCH says, printed, what an
image asks about during the call, if the tool is one of an image's."
  request tool arguments cancel timer watch)

(defvar agent-q-handlers-watch nil
  "While a handler runs, the core's request and its watch, a cons.")

(defvar agent-q-handlers--calls (make-hash-table)
  "The calls that the core waits for, by request.")

(defun agent-q-handlers-call (event)
  "Call the handler that EVENT wants, soon."
  (let* ((request (plist-get event :request))
         (tool (agent-q-registry-handler-tool (plist-get event :handler)))
         (call (agent-q-handlers--make-call
                :request request :tool tool
                :arguments (plist-get event :arguments)
                :watch (plist-get event :watch))))
    (puthash request call agent-q-handlers--calls)
    (when agent-q-handler-timeout
      (setf (agent-q-handlers--call-timer call)
            (run-at-time agent-q-handler-timeout nil #'agent-q-handlers--late
                         call agent-q-handler-timeout)))
    (if tool
        (agent-q-handlers-later #'agent-q-handlers--run call)
      (agent-q-handlers--finish
       call (agent-q-tool-failure "Tool error: this tool has been removed.")))))

(defun agent-q-handlers-cancel (event)
  "Forget the call that EVENT names: its value is no longer needed."
  (let ((call (gethash (plist-get event :request) agent-q-handlers--calls)))
    (when call
      (agent-q-handlers--forget call)
      (when (agent-q-handlers--call-cancel call)
        (agent-q-handlers-later (agent-q-handlers--call-cancel call))))))

(defun agent-q-handlers--forget (call)
  "Stop waiting for the value of CALL."
  (remhash (agent-q-handlers--call-request call) agent-q-handlers--calls)
  (when (agent-q-handlers--call-timer call)
    (cancel-timer (agent-q-handlers--call-timer call))))

(defun agent-q-handlers--late (call seconds)
  "End CALL, which has taken SECONDS, and tell its handler."
  (when (and (agent-q-handlers--fail
              call (format "no value within %s seconds (agent-q-handler-timeout)" seconds))
             (agent-q-handlers--call-cancel call))
    (agent-q-handlers-later (agent-q-handlers--call-cancel call))))

(defun agent-q-handlers--open-p (call)
  "Whether the core waits for the value of CALL."
  (eq call (gethash (agent-q-handlers--call-request call) agent-q-handlers--calls)))

(defun agent-q-handlers--run (call)
  "Run the handler of CALL and give the core its value.
However the handler ends, the call gets its result."
  (when (agent-q-handlers--open-p call)
    (let ((ended nil))
      (unwind-protect
          (progn
            (condition-case failure
                (agent-q-handlers--apply call)
              (quit
               (agent-q-handlers--fail call "the user quit it")
               (agent-q-handlers-quit))
              (error
               (agent-q-handlers--fail call (error-message-string failure))))
            (setq ended t))
        (unless ended
          (agent-q-handlers--fail call "its handler exited by a throw"))))))

(defun agent-q-handlers--apply (call)
  "Apply the handler of CALL to its arguments, in the user's buffer."
  (let* ((tool (agent-q-handlers--call-tool call))
         (handler (agent-q-tool-handler tool))
         (arguments (agent-q-json-parse (agent-q-handlers--call-arguments call)))
         (agent-q-handlers-watch (cons (agent-q-handlers--call-request call)
                                       (agent-q-handlers--call-watch call))))
    (with-current-buffer (or (agent-q-user-last-buffer) (current-buffer))
      (if (not (agent-q-tool-async tool))
          (agent-q-handlers--finish call (funcall handler arguments))
        (let ((value (funcall handler arguments
                              (lambda (value) (agent-q-handlers--finish call value)))))
          (when (functionp value)
            (setf (agent-q-handlers--call-cancel call) value)))))))

(defun agent-q-handlers--fail (call reason)
  "End CALL as failed for REASON."
  (agent-q-handlers--finish call (agent-q-tool-failure (concat "Tool error: " reason))))

(defun agent-q-handlers--finish (call value)
  "Give the core VALUE, the one of CALL.
Return non-nil if somebody waited for it; the first value is the one."
  (when (agent-q-handlers--open-p call)
    (pcase-let ((`(,failed . ,text) (agent-q-handlers--result value)))
      (agent-q-handlers--forget call)
      (agent-q-events-resolve (agent-q-handlers--call-request call)
                              (if failed "signalled" "done") text)
      t)))

(defun agent-q-handlers--result (value)
  "Return whether VALUE of a handler is a failure, and its text, as a cons.
What can't be sent is a failure, so that the call gets its result."
  (condition-case failure
      (cons (agent-q-tools-failure-p value) (agent-q-handlers--text value))
    (error (cons t (format "Tool error: its value can't be sent (%s)"
                           (error-message-string failure))))))

(defun agent-q-handlers--text (value)
  "Return VALUE of a handler as text for the model."
  (if (agent-q-tools-failure-p value)
      (let ((message (agent-q-format-tool-result (agent-q-tools-failure-message value)))
            (more (agent-q-tools-failure-value value)))
        (if more
            (concat message "\n" (agent-q-format-tool-result more))
          message))
    (agent-q-format-tool-result value)))

(agent-q-events-subscribe :tool-handler #'agent-q-handlers-call)
(agent-q-events-subscribe :host-cancelled #'agent-q-handlers-cancel)

(provide 'agent-q-handlers)
;;; agent-q-handlers.el ends here
