;;; agent-q-plan.el --- Planning before anything is changed  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; In plan mode the agent looks and thinks, and presents a plan; calls that could change
;; something are refused by the core.  "Do it" switches it off and lets the plan be
;; carried out.

;;; Code:

(require 'agent-q)
(require 'agent-q-header)
(require 'agent-q-render)
(require 'agent-q-session)

(defcustom agent-q-plan-evaluates nil
  "Whether code may be evaluated in plan mode.
It then runs if nothing dangerous is found in it."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload
(define-minor-mode agent-q-plan-mode
  "Make the agent of this chat look and plan, and change nothing.
It is told so with your next message.  Calls that could change something are
refused; \\[agent-q-plan-do] ends this and makes the agent carry out the plan."
  :init-value nil
  :lighter nil
  (if agent-q-session-chat-p
      (progn (setq agent-q-header-planning agent-q-plan-mode)
             (agent-q-header-update)
             (message (if agent-q-plan-mode
                          "Plan mode is on: the agent looks and plans, and changes nothing"
                        "Plan mode is off")))
    (setq agent-q-plan-mode nil)
    (user-error "Not in a chat")))

(defun agent-q-plan-setting ()
  "Return what the core has to know of plan mode in this chat."
  (cond ((not agent-q-plan-mode) "off")
        (agent-q-plan-evaluates "evaluate")
        (t "look")))

(defvar agent-q-plan-send-function nil
  "Function that sends a text from the current chat, not what is at its prompt.")

;;;###autoload
(defun agent-q-plan-do ()
  "Switch plan mode off and make the agent carry out its plan."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (unless agent-q-plan-mode
    (user-error "Plan mode is off"))
  (agent-q-plan-mode -1)
  (funcall agent-q-plan-send-function "Do it."))

(defun agent-q-plan-offer ()
  "Show under a turn in plan mode the button that has the plan carried out."
  (when agent-q-plan-mode
    (agent-q-render-button "[Do it]" #'agent-q-plan-do 'turn)))

(provide 'agent-q-plan)
;;; agent-q-plan.el ends here
