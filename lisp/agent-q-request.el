;;; agent-q-request.el --- What a chat would send  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows the very request that a chat would send now: address, headers and body, as JSON
;; and without secrets.  The core makes it just as if it were sent.

;;; Code:

(require 'agent-q-chat-send)
(require 'agent-q-events)
(require 'agent-q-header)
(require 'agent-q-prompt)
(require 'agent-q-render-body)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar agent-q-request--questions nil
  "The questions that wait for an answer, an alist from numbers to windows.
The window is the one that the user asked from, or nil where the answer takes
until a turn is over.")

;;;###autoload
(defun agent-q-show-request ()
  "Show what this chat would send to the model now, with the text at its prompt.
Keys are left out, and so are the values of headers of your own.  While a turn
runs, it is shown when the turn is over."
  (interactive)
  (agent-q-session-check)
  (agent-q-events-ensure)
  (agent-q-chat-configure)
  (let ((text (string-trim (agent-q-prompt-text))))
    (push (cons (agent-q-core-show-request agent-q-session-number
                                           (and (not (string-empty-p text))
                                                (agent-q-text-clean text))
                                           (agent-q-chat-context))
                (and (not (agent-q-header-busy-p)) (selected-window)))
          agent-q-request--questions))
  (when (agent-q-header-busy-p)
    (message "The request is shown when this turn is over")))

;;;###autoload
(defun agent-q-sync-instructions ()
  "Make this chat's model read `agent-q-instructions' as they are now.
A chat keeps those that its model has read first, because a change of them
costs the provider's cache of the whole conversation."
  (interactive)
  (agent-q-session-check)
  (agent-q-core-sync-instructions agent-q-session-number)
  (message "The next message takes over agent-q-instructions"))

(defun agent-q-request--answered (event)
  "Show the request in EVENT, if the user has asked for it."
  (when-let ((asked (assq (plist-get event :question) agent-q-request--questions)))
    (setq agent-q-request--questions (delq asked agent-q-request--questions))
    (if (plist-get event :problem)
        (message "%s" (plist-get event :problem))
      (agent-q-request--show (plist-get event :request) (cdr asked)))))

(define-derived-mode agent-q-request-mode agent-q-page-mode "agent-q request"
  "Major mode of what would be sent to a model, as JSON."
  ;; Strings get their face by the syntax.
  (setq-local font-lock-defaults
              '((("^ *\\(\"[^\"\n]+\"\\):" 1 font-lock-keyword-face t)))))

(defun agent-q-request--show (json asked)
  "Show JSON, the text of a request, in a buffer of its own.
Go there if it was asked for in the window ASKED, which is nil if a turn ran."
  (let ((text (concat json "\n")))
    (if asked
        (agent-q-render-visit "*agent-q request*" text #'agent-q-request-mode asked)
      (agent-q-render-show "*agent-q request*" text #'agent-q-request-mode))))

(agent-q-events-subscribe :request-shown #'agent-q-request--answered)

(provide 'agent-q-request)
;;; agent-q-request.el ends here
