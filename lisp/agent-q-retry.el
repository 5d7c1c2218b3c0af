;;; agent-q-retry.el --- Going on after a turn that failed  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Under a turn that failed or stopped there is a button that sends the message
;; again, or asks the model to go on, after making room where the conversation may be
;; too long.  A turn that met a limit waits until its user lets
;; it go on or stops it.

;;; Code:

(require 'agent-q-attention)
(require 'agent-q-chat-send)
(require 'agent-q-header)
(require 'agent-q-prompt)
(require 'agent-q-queue)
(require 'agent-q-render)
(require 'agent-q-session)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-retry ()
  "Send your last message again, with all that was attached to it."
  (interactive)
  (agent-q-session-check)
  (agent-q-chat-submit-again (or agent-q-render-message
                                 (user-error "There is no message to send again")))
  (agent-q-retry--follow))

(defun agent-q-retry--follow ()
  "Leave a button of this chat, as it is done with, for where the answer comes."
  (unless (agent-q-prompt-p)
    (goto-char (point-max))))

(defun agent-q-continue ()
  "Continue a turn that met a limit, or ask the model to continue where it stopped."
  (interactive)
  (agent-q-session-check)
  (if (eq agent-q-header-state :paused)
      (agent-q-core-go-on agent-q-session-number)
    (agent-q-retry--ask-for-more))
  (agent-q-retry--follow))

(defun agent-q-retry--ask-for-more ()
  "Ask the model to go on where it stopped.
Its changes of files are reviewed as before."
  (agent-q-chat-submit "Go on." nil nil
                       (agent-q-queue-message-review
                        (agent-q-queue-begun agent-q-render-message))))

(defun agent-q-retry--go-on ()
  "Let the turn go on that met a limit."
  (agent-q-retry--check-paused)
  (agent-q-core-go-on agent-q-session-number)
  (agent-q-retry--follow))

(defun agent-q-retry--stop ()
  "End the turn that met a limit."
  (agent-q-retry--check-paused)
  (agent-q-core-stop-at-limit agent-q-session-number))

(defun agent-q-retry--check-paused ()
  "Signal an error unless the turn of this chat waits at a limit."
  (unless (eq agent-q-header-state :paused)
    (user-error "This question was already answered")))

(defun agent-q-retry-ask (text)
  "Ask the user whether a turn may go on that met a limit, which TEXT names.
A message that waits behind the turn is an answer: it is sent now."
  (if (agent-q-queue-held)
      (agent-q-core-stop-at-limit agent-q-session-number)
    (agent-q-render-notice (concat text " Continue? (y or n, then RET)") 'agent-q-attention)
    (agent-q-render-button "[Go on]" #'agent-q-retry--go-on 'limit)
    (agent-q-render-button "[Stop]" #'agent-q-retry--stop 'limit)
    (agent-q-attention-tell "The turn met a limit; continue?")))

(defun agent-q-retry--choose-model ()
  "Choose another model for this chat; the last message can be sent to it then."
  (call-interactively #'agent-q-set-model))

(defun agent-q-retry--make-room ()
  "Have the model summarize all but the latest of this chat."
  (agent-q-session-check)
  (agent-q-chat-configure)
  (agent-q-core-compact agent-q-session-number))

(defun agent-q-retry--shorter ()
  "Make room in the conversation, then send the last message again."
  (agent-q-retry--make-room)
  (agent-q-retry))

(defun agent-q-retry--continue-shorter ()
  "Make room in the conversation, then ask the model to go on where it stopped."
  (agent-q-retry--make-room)
  (agent-q-continue))

(defun agent-q-retry-offer (outcome why)
  "Show the buttons that fit a turn that ended with OUTCOME, because of WHY."
  (pcase outcome
    (:failed
     (when agent-q-render-message
       (when (eq why :long)
         (agent-q-render-button "[Make room and try again]" #'agent-q-retry--shorter 'turn))
       (agent-q-render-button "[Try again]" #'agent-q-retry 'turn))
     (when (eq why :no-such-model)
       (agent-q-render-button "[Choose another model]" #'agent-q-retry--choose-model 'turn)))
    ((or :limit :interrupted)
     (when (eq why :long)
       (agent-q-render-button "[Make room and continue]"
                              #'agent-q-retry--continue-shorter 'turn))
     (agent-q-render-button "[Continue]" #'agent-q-continue 'turn))))

(provide 'agent-q-retry)
;;; agent-q-retry.el ends here
