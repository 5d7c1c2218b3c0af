;;; agent-q-chat-choose.el --- Choosing what a chat talks to  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The commands that choose the image of a chat, its model, and the agent that it
;; follows.

;;; Code:

(require 'agent-q-agent)
(require 'agent-q-chat-send)
(require 'agent-q-header)
(require 'agent-q-image-connection)
(require 'agent-q-image-tools)
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-provider-form)
(require 'agent-q-provider-list)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-specifications)
(require 'agent-q-welcome)
(require 'seq)

;;;###autoload
(defun agent-q-set-image (connection)
  "Connect the current chat to the image behind CONNECTION."
  (interactive
   (let ((choices (mapcar (lambda (connection)
                            (cons (agent-q-image-label connection) connection))
                          (agent-q-image-connections))))
     (unless choices
       (user-error "No Lisp is connected; M-x sly or M-x slime starts one"))
     (list (cdr (assoc (completing-read "Lisp image: " choices nil t)
                       choices)))))
  (agent-q-session-check)
  (setq agent-q-session-connection connection
        agent-q-chat-images (agent-q-image-connections))
  (agent-q-image-tools-ensure connection)
  (agent-q-header-update)
  (agent-q-welcome-update))

;; With the autoloads, as an autoload of its own could not be told from this.
;;;###autoload (define-obsolete-function-alias 'agent-q-chat-set-connection #'agent-q-set-image "0.1.0")

;;;###autoload
(defun agent-q-set-model (provider)
  "Use the model of PROVIDER in the current chat, from its next request on.
Interactively, choose among the models that the hosts with a key and the
servers on this machine list; what is known of each, such as its window and its
price, stands beside it.  Another model of a listed host can be typed
after its name."
  (interactive
   (let ((candidates (agent-q-provider-candidates)))
     (unless candidates
       (user-error "%s" (agent-q-provider-advice)))
     (list (agent-q-provider-chosen (agent-q-provider-read candidates) candidates))))
  (unless agent-q-session-chat-p
    (user-error "Not in a chat; `agent-q-provider' and `agent-q-model' are for new ones"))
  (agent-q-chat-use-provider provider)
  ;; From here on, the answers are another model's.
  (unless (agent-q-welcome-shown-p)
    (agent-q-render-notice (format "Model: %s" (agent-q-provider-label provider))))
  (message "Model: %s" (agent-q-provider-label provider)))

(defconst agent-q-chat-choose--own-effort "the provider's own"
  "What no effort of the chat itself is called.")

(defun agent-q-chat-choose--read-effort ()
  "Ask the user for an effort and return it; the present one is the default."
  (let* ((present (format "%s" (or agent-q-session-effort agent-q-chat-choose--own-effort)))
         (efforts (cons agent-q-chat-choose--own-effort
                        (mapcar #'symbol-name agent-q-provider-form-efforts)))
         (choice (completing-read
                  (format-prompt "Effort" present)
                  (lambda (string predicate action)
                    (if (eq action 'metadata)
                        ;; As they are: from little to much.
                        '(metadata (display-sort-function . identity)
                                   (cycle-sort-function . identity))
                      (complete-with-action action efforts string predicate)))
                  nil t nil nil present)))
    (unless (equal choice agent-q-chat-choose--own-effort)
      (intern choice))))

;;;###autoload
(defun agent-q-set-effort (effort)
  "Make the model of the current chat think with EFFORT from its next request on.
That is a symbol: none, minimal, low, medium, high, xhigh or max.  nil is the
provider's own or `agent-q-effort'."
  (interactive (list (agent-q-chat-choose--read-effort)))
  (agent-q-session-check)
  (unless agent-q-session-provider
    (user-error "This chat has no model; M-x agent-q-set-model chooses one"))
  (when (and effort (not (agent-q-provider-thinks-p agent-q-session-provider)))
    (user-error "%s doesn't think" (agent-q-provider-label agent-q-session-provider)))
  (setq agent-q-session-effort effort)
  (agent-q-chat-use-provider (agent-q-provider-again agent-q-session-provider))
  (message "Effort: %s" (or effort agent-q-chat-choose--own-effort)))

(defvar-local agent-q-chat-choose--model nil
  "What the agent of the current chat did to its model, (BEFORE . SINCE), or nil.
Both are providers without their secrets; nil means no model.")

;;;###autoload
(defun agent-q-chat-use-agent (file &optional libraries)
  "Make the current chat follow the agent in FILE, a gram file.
The agent's instruction, model and tools count from the next message on.
LIBRARIES are the names of the tool libraries that its tools are bound to,
used in turn; with one the chat stays with it.  Interactively, choose them
among those of `agent-q-tool-libraries'.  When FILE is nil or empty, the chat
follows no agent any more, and has the model that it had before."
  (interactive
   (let ((file (read-file-name "Agent (empty for none): " nil "" t)))
     (list file
           (and (not (string-empty-p file))
                (agent-q-chat-choose--read-libraries)))))
  (unless agent-q-session-chat-p
    (user-error "Not in a chat; M-x agent-q-chat opens one"))
  (if (member file '(nil ""))
      (progn (setq agent-q-agent-current nil)
             (message "This chat follows no agent%s"
                      (if (agent-q-chat-choose--restore-model)
                          (format "; its model is %s again"
                                  (agent-q-provider-label agent-q-session-provider))
                        "")))
    (agent-q-chat-choose--use (agent-q-chat-choose--read file) libraries)))

(defun agent-q-chat-choose--read (file)
  "Return the agent in FILE."
  (agent-q-agent-from-gram
   (with-temp-buffer
     (let ((coding-system-for-read 'utf-8))
       (insert-file-contents file))
     (buffer-string))))

(defun agent-q-chat-choose--read-libraries ()
  "Ask for the names of tool libraries, if there is a choice."
  (let ((names (mapcar #'car agent-q-tool-libraries)))
    (if (cdr names)
        (completing-read-multiple "Libraries, used in turn: " names nil t)
      names)))

(defun agent-q-chat-choose--use (agent libraries)
  "Make the current chat follow AGENT with the LIBRARIES of these names."
  (let ((unknown (seq-remove (lambda (name) (assoc name agent-q-tool-libraries))
                             libraries)))
    (when unknown
      (user-error "No tool library is named %s; `agent-q-tool-libraries' lists them"
                  (car unknown))))
  (when (and (agent-q-agent-tools agent) (null libraries))
    (user-error "The agent %s has tools, but `agent-q-tool-libraries' has no library for them"
                (agent-q-agent-name agent)))
  (dolist (name libraries)
    (agent-q-chat-choose--check agent name))
  (setq agent-q-agent-current
        (agent-q-agent-make-choice :agent agent :libraries libraries))
  (let ((problem (agent-q-chat-choose--use-model agent)))
    (message "This chat follows the agent %s%s" (agent-q-agent-name agent)
             (if problem (concat "; " problem) ""))))

(defun agent-q-chat-choose--check (agent name)
  "Signal a `user-error' unless the library NAME has all tools of AGENT."
  (dolist (specification (agent-q-agent-tools agent))
    (let ((problem (agent-q-bind-tool-explain specification
                                              (agent-q-agent-library name))))
      (when problem
        (user-error "The library %s does not match the agent: %s" name problem)))))

(defun agent-q-chat-choose--use-model (agent)
  "Make the current chat use the model of AGENT.
Return nil, or why it keeps the one that it has."
  (let* ((model (agent-q-agent-model agent))
         (provider (agent-q-provider-named (plist-get model :provider)
                                           (plist-get model :id))))
    (if provider
        (let ((before (if (agent-q-chat-choose--model-p) (car agent-q-chat-choose--model)
                        agent-q-session-provider)))
          (agent-q-chat-use-provider provider)
          (setq agent-q-chat-choose--model (cons before agent-q-session-provider))
          nil)
      (agent-q-chat-choose--restore-model)
      (format "`agent-q-providers' has no key or no host for %s, so it keeps its model"
              (plist-get model :provider)))))

(defun agent-q-chat-choose--model-p ()
  "Whether the current chat talks to the model that its agent brought."
  (and agent-q-chat-choose--model
       (eq (cdr agent-q-chat-choose--model) agent-q-session-provider)))

(defun agent-q-chat-choose--restore-model ()
  "Make the current chat use the model that it had before its agent.
One that the user chose since then stays.  Return non-nil if it does again."
  (let ((brought (agent-q-chat-choose--model-p))
        (before (car agent-q-chat-choose--model)))
    (setq agent-q-chat-choose--model nil)
    (cond ((not brought) nil)
          (before (agent-q-chat-use-provider (agent-q-provider-again before))
                  t)
          ;; It had none, or was still looking for one.
          (t (agent-q-chat-choose-provider)
             nil))))

(provide 'agent-q-chat-choose)
;;; agent-q-chat-choose.el ends here
