;;; agent-q-image-effect.el --- Questions of an image's watch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Where code of a call is about to reach outside of the program, the image stops
;; it and asks.  The question goes on to the core, which knows the user's rules
;; and asks the user; the answer goes back.  The time until then is not the call's.

;;; Code:

(require 'agent-q-events)
(require 'cl-lib)
(require 'agent-q-image-calls)
(require 'agent-q-image-connection)
(require 'agent-q-image-reply)
(require 'agent-q-log)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defconst agent-q-image-effect--mark "agent-q effect: "
  "Prefix of the messages of a watch.")

(defun agent-q-image-effect-p (message)
  "Whether MESSAGE, which an image sent for the echo area, is of its watch."
  (and (stringp message) (string-prefix-p agent-q-image-effect--mark message)))

(defun agent-q-image-effect (process message)
  "Take MESSAGE, which the watch of the image behind PROCESS sent."
  (let ((text (substring-no-properties message (length agent-q-image-effect--mark))))
    (condition-case err
        (agent-q-image-effect--take process text (agent-q-image-reply-read text))
      (error (agent-q-log-line (format "Cannot parse a question from an image: %s"
                                       (error-message-string err)))))))

(defun agent-q-image-effect--take (process text data)
  "Take TEXT of the image behind PROCESS, which is DATA."
  (let* ((id (plist-get data :call))
         (question (plist-get data :question))
         (call (cl-find id (agent-q-image-calls-over process)
                        :key #'agent-q-image-call-id)))
    (cond ((plist-get data :withdrawn)
           (when call
             (agent-q-core-effect (agent-q-image-effect--asker call) text)
             (agent-q-image-effect--go-on call question)))
          ((and call
                (agent-q-image-effect--asker call)
                (agent-q-core-effect (agent-q-image-effect--asker call) text))
           (agent-q-image-effect--wait call question))
          (t (agent-q-image-effect--answer process id question "deny"
                                           "the call has already ended")))))

(defun agent-q-image-effect--asker (call)
  "Return the core's number of the request that CALL is made for, or nil."
  (or (agent-q-image-call-asker call)
      (pcase (agent-q-image-call-request call)
        ((and number (pred integerp)) number)
        (`(restart ,number) number))))

(defun agent-q-image-effect--wait (call question)
  "Stop the clock of CALL until QUESTION is answered."
  (let ((timer (agent-q-image-call-timer call)))
    (push question (agent-q-image-call-questions call))
    (when (timerp timer)
      (setf (agent-q-image-call-left call)
            (max 0.1 (float-time (time-subtract (timer--time timer) nil))))
      (agent-q-image-calls-cancel-timer call))))

(defun agent-q-image-effect--go-on (call question)
  "Let the clock of CALL go on, unless more than QUESTION is open."
  (when (memql question (agent-q-image-call-questions call))
    (setf (agent-q-image-call-questions call)
          (delete question (agent-q-image-call-questions call)))
    (when (and (null (agent-q-image-call-questions call))
               (null (agent-q-image-call-stopping call))
               (agent-q-image-call-left call))
      (agent-q-image-calls-start-timer call (agent-q-image-call-left call)))))

(defun agent-q-image-effect-decided (event)
  "Pass the answer in EVENT, one of the core, on to the image."
  (let* ((request (plist-get event :request))
         (question (plist-get event :question))
         (call (cl-find-if
                (lambda (call)
                  (and (eql request (agent-q-image-effect--asker call))
                       (memql question (agent-q-image-call-questions call))))
                (hash-table-values agent-q-image-calls-pending))))
    (when call
      (agent-q-image-effect--answer
       (agent-q-image-connection-process (agent-q-image-call-connection call))
       (agent-q-image-call-id call) question
       (plist-get event :decision) (plist-get event :reason))
      (agent-q-image-effect--go-on call question))))

(defun agent-q-image-effect--answer (process id question decision reason)
  "Answer QUESTION of the call ID in the image behind PROCESS with DECISION.
REASON is a text for the code that asked, or nil."
  (let ((connection (cl-find process (agent-q-image-connections)
                             :key #'agent-q-image-connection-process)))
    (when connection
      (agent-q-image-ask
       connection :rex
       `(cl:funcall (cl:find-symbol "ANSWER" "AGENT-Q-IMAGE")
                    ,id ,question ,decision ,(and reason (substring-no-properties reason)))
       t #'ignore))))

(agent-q-events-subscribe :effect-decided #'agent-q-image-effect-decided)

(provide 'agent-q-image-effect)
;;; agent-q-image-effect.el ends here
