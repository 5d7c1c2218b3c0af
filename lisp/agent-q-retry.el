;;; agent-q-retry.el --- Going on after a turn that failed  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Under a turn that failed or stopped there is a button that sends the message
;; again, or asks the model to go on.  What stands at the prompt stays there.

;;; Code:

(require 'agent-q-chat-send)
(require 'agent-q-prompt)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'cl-lib)
(require 'subr-x)

(defun agent-q-retry--send (text)
  "Send TEXT in this chat; the draft at the prompt stays."
  (let ((draft (agent-q-prompt-text)))
    (save-excursion
      (agent-q-prompt-replace text)
      (unwind-protect
          (agent-q-chat-send)
        (agent-q-prompt-replace draft)))))

(defun agent-q-retry ()
  "Send your last message again."
  (interactive)
  (agent-q-session-check)
  (agent-q-retry--send (or agent-q-render-message
                           (user-error "There is no message to send again"))))

(defun agent-q-continue ()
  "Ask the model to go on where it stopped."
  (interactive)
  (agent-q-session-check)
  (agent-q-retry--send "Go on."))

(defun agent-q-retry-offer (outcome)
  "Show the button that fits a turn that ended with OUTCOME."
  (let ((buffer (current-buffer)))
    (cl-flet ((button (label function)
                (agent-q-render-button
                 label (lambda ()
                         (with-current-buffer buffer
                           (funcall function))))))
      (pcase outcome
        (:failed (when agent-q-render-message
                   (button "[Try again]" #'agent-q-retry)))
        (:limit (button "[Continue]" #'agent-q-continue))))))

(provide 'agent-q-retry)
;;; agent-q-retry.el ends here
