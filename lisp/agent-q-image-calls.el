;;; agent-q-image-calls.el --- The calls that run in an image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is known of a call that has not ended, its clock, and its end.

;;; Code:

(require 'agent-q-image-connection)
(require 'agent-q-log)
(require 'cl-lib)

(cl-defstruct (agent-q-image-calls-call (:constructor agent-q-image-calls-make)
                                        (:conc-name agent-q-image-call-)
                                        (:predicate agent-q-image-call-p) (:copier nil))
  "A call that has not ended.
ID is its number in the image.  CONTINUATION is known to the client.
STOPPING is nil, or the status with which a reply ends the call.
THREAD is the client's for a thread of the image, t for a new one.
OWNER is whom an error that is parked belongs to.  STARTED is when the
image was asked.  QUESTIONS are those of the image's watch that wait for an
answer, LEFT the seconds that the call has when they are answered, and
ASKER is the core's request that it is made for, unless REQUEST is.
DEADLINE is a function that is called with the call when its time is over.
HEARD is non-nil once the image has answered a request to stop the call."
  request connection operation arguments seconds callback started
  id continuation timer stopping (patience 3) condition again
  (thread t) owner questions left asker deadline heard)

(defvar agent-q-image-calls-pending (make-hash-table :test #'equal)
  "The calls that have not ended, by request.")

(defvar agent-q-image-calls--next-id nil
  "The next number of a call in an image.
Several Emacsen can be connected to one image, so where each starts
is random.")

(defun agent-q-image-calls-new-id ()
  "Return a number that no other call in any image has."
  (setq agent-q-image-calls--next-id
        (1+ (or agent-q-image-calls--next-id (ash (random (ash 1 28)) 30)))))

(defun agent-q-image-pending ()
  "Return how many requests have not ended."
  (hash-table-count agent-q-image-calls-pending))

(defun agent-q-image-calls-pending-p (call)
  "Return non-nil when CALL has not ended."
  (eq call (gethash (agent-q-image-call-request call) agent-q-image-calls-pending)))

(defvar agent-q-image-call-begun-functions nil
  "Functions called with each call that begins, or is waited for once more.")

(defvar agent-q-image-call-over-functions nil
  "Functions called with each call that ended, its status and its payload.")

(defun agent-q-image-calls-begin (call)
  "Wait for the end of CALL from now on."
  (puthash (agent-q-image-call-request call) call agent-q-image-calls-pending)
  (when agent-q-image-call-begun-functions
    (agent-q-log-run-hook 'agent-q-image-call-begun-functions call)))

(defvar agent-q-image-calls-finished-hook nil
  "Functions called when a call has ended and that was taken.")

(defvar agent-q-image-ended-functions nil
  "Functions called with each call that ended.
Their arguments are the connection's process, the operation, its
arguments, the status and the payload.")

(defvar agent-q-image-calls-ended-owner nil
  "The owner of the call that ended, for `agent-q-image-ended-functions'.")

(defun agent-q-image-calls-finish (call status payload)
  "End CALL with STATUS and PAYLOAD, unless it has ended."
  (when (agent-q-image-calls-pending-p call)
    (remhash (agent-q-image-call-request call) agent-q-image-calls-pending)
    (agent-q-image-calls-cancel-timer call)
    (when agent-q-image-call-over-functions
      (agent-q-log-run-hook 'agent-q-image-call-over-functions call status payload))
    (let ((agent-q-image-calls-ended-owner (agent-q-image-call-owner call)))
      (agent-q-log-run-hook 'agent-q-image-ended-functions
                            (agent-q-image-connection-process
                             (agent-q-image-call-connection call))
                            (agent-q-image-call-operation call)
                            (agent-q-image-call-arguments call)
                            status payload))
    ;; This can run in a process filter of the client's: it must return there.
    (condition-case err
        (save-current-buffer
          (funcall (agent-q-image-call-callback call) status
                   (and payload (substring-no-properties payload))))
      (error (message "agent-q: the end of a call was not taken: %s"
                      (error-message-string err))))
    (run-hooks 'agent-q-image-calls-finished-hook)))

(defun agent-q-image-calls-cancel-timer (call)
  "Forget the deadline of CALL."
  (when (timerp (agent-q-image-call-timer call))
    (cancel-timer (agent-q-image-call-timer call)))
  (setf (agent-q-image-call-timer call) nil))

(defun agent-q-image-calls-start-timer (call seconds &optional function)
  "Call FUNCTION with CALL in SECONDS; without one, CALL's deadline is then."
  (agent-q-image-calls-cancel-timer call)
  (setf (agent-q-image-call-timer call)
        (run-at-time seconds nil (or function (agent-q-image-call-deadline call)) call)))

(defun agent-q-image-calls-over (process)
  "Return a list of what awaits an answer over PROCESS."
  (cl-loop for call being the hash-values of agent-q-image-calls-pending
           when (eq process (agent-q-image-connection-process
                             (agent-q-image-call-connection call)))
           collect call))

(provide 'agent-q-image-calls)
;;; agent-q-image-calls.el ends here
