;;; agent-q-chat-send.el --- What a chat sends  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The settings of the session of a chat, its image and its model as far as the core
;; has to know them, and sending and cancelling messages.

;;; Code:

(require 'agent-q)
(require 'agent-q-agent)
(require 'agent-q-approve)
(require 'agent-q-console)
(require 'agent-q-context)
(require 'agent-q-events)
(require 'agent-q-header)
(require 'agent-q-host)
(require 'agent-q-image-connection)
(require 'agent-q-image-tools)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-queue)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'agent-q-welcome)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar-local agent-q-chat-settings nil
  "The settings that the session has, as JSON.")

(defvar-local agent-q-chat--choosing nil
  "Non-nil while a provider is looked for.")

(defvar-local agent-q-chat--unsent nil
  "Messages that wait until a provider is found, latest first.")

(defun agent-q-chat-make-settings (&rest more)
  "Return the settings of this chat as JSON, with MORE, an alist, first."
  (agent-q-json-serialize
   `(,@more
     ,@(agent-q-agent-settings)
     ,@(agent-q-project-settings)
     (project_instructions . ,(if (default-value 'agent-q-read-project-instructions)
                                  "read" "ignore"))
     (instructions . ,(agent-q-text-clean agent-q-instructions))
     (max_iterations . ,agent-q-max-iterations)
     (max_turn_tokens . ,(or agent-q-max-turn-tokens :null))
     (max_turn_seconds . ,(or agent-q-max-turn-seconds :null))
     (max_turn_cost . ,(or agent-q-max-turn-cost :null))
     (context_window . ,(or agent-q-context-window :null))
     (compact_at . ,(or agent-q-compact-at :null))
     (tools . ,(agent-q-registry-selection))
     (tool_choice . ,(if (stringp agent-q-tool-choice)
                         `((tool . ,agent-q-tool-choice))
                       (symbol-name agent-q-tool-choice)))
     ,@(agent-q-approve-place (agent-q-chat--image-name))
     (approval . "ask")
     (eval_seconds . ,agent-q-eval-timeout)
     (eval_policy . ,(symbol-name agent-q-eval-policy)))))

(defun agent-q-chat-configure ()
  "Send the session the settings that have changed since the last time."
  (agent-q-chat-find-image)
  (agent-q-image-tools-ensure agent-q-session-connection)
  (agent-q-registry-apply-levels)
  (let ((settings (agent-q-chat-make-settings)))
    (unless (equal settings agent-q-chat-settings)
      (agent-q-core-configure agent-q-session-number settings)
      (setq agent-q-chat-settings settings))))

(defun agent-q-chat-connected-p ()
  "Whether the image of this chat is connected."
  (and agent-q-session-connection
       (agent-q-image-live-p agent-q-session-connection)))

(defun agent-q-chat--image-name ()
  "Return the name of this chat's connection while it is alive, or nil."
  (and (agent-q-chat-connected-p)
       (agent-q-image-name agent-q-session-connection)))

(defvar-local agent-q-chat-images nil
  "The connections that were open when this chat last used its own.")

(defun agent-q-chat-find-image ()
  "Switch this chat to a new connection if its own is gone.
The images that were there already are other programs, which the user
has to choose."
  (if (agent-q-chat-connected-p)
      (setq agent-q-chat-images (agent-q-image-connections))
    (let* ((had agent-q-session-connection)
           (connections (agent-q-image-connections))
           (new (seq-find (lambda (connection)
                            (not (member connection agent-q-chat-images)))
                          connections)))
      (when (or new connections)
        (setq agent-q-session-connection new)
        (when had
          (agent-q-render-notice
           (if new
               (format "The connection of this chat was closed; it uses %s now."
                       (agent-q-image-label new))
             "The connection of this chat was closed; M-x agent-q-set-image chooses \
another image.")))
        (agent-q-header-update)))))

(defun agent-q-chat-choose-provider ()
  "Look for a provider, unless that is being done already."
  (unless agent-q-chat--choosing
    (setq agent-q-chat--choosing t)
    (let ((buffer (current-buffer)))
      (condition-case err
          (agent-q-provider-choose
           (lambda (provider)
             (when (buffer-live-p buffer)
               (with-current-buffer buffer
                 (when agent-q-chat--choosing
                   (agent-q-chat-use-provider provider))))))
        (error
         (agent-q-chat-use-provider nil)
         (agent-q-render-notice (error-message-string err)
                                'agent-q-failure))))))

;;;###autoload
(defun agent-q-chat-use-provider (provider)
  "Use PROVIDER in the current chat from now on; nil means no model."
  (agent-q-session-check)
  (setq agent-q-chat--choosing nil)
  (agent-q-core-configure
   agent-q-session-number
   (agent-q-json-serialize
    `((provider . ,(or (if agent-q-session-effort
                           (agent-q-provider-with-effort provider agent-q-session-effort)
                         provider)
                       :null)))))
  (setq agent-q-session-provider (agent-q-provider-public provider)
        agent-q-header-model (concat (agent-q-provider-label provider)
                                     (if (and provider agent-q-session-effort)
                                         (format ", %s effort" agent-q-session-effort)
                                       "")))
  (let ((messages (nreverse agent-q-chat--unsent)))
    (setq agent-q-chat--unsent nil)
    (if provider
        (mapc #'agent-q-queue-add messages)
      (when messages
        (agent-q-chat--without-model (mapcar #'agent-q-queue-message-text messages)))))
  (agent-q-header-update)
  (agent-q-welcome-update))

(defun agent-q-chat--without-model (texts)
  "Explain why TEXTS were not sent, and put them back at the prompt."
  (agent-q-render-notice
   (concat (agent-q-provider-advice)
           "\nTools work without a model: /describe_symbol mapcar")
   'agent-q-failure)
  (when (string-empty-p (agent-q-prompt-text))
    (save-excursion
      (goto-char (point-max))
      (insert (string-join texts "\n")))
    (when (= (point) agent-q-prompt-start)
      (goto-char (point-max)))))

(defun agent-q-chat-context (&optional excerpts)
  "Return as JSON what the model is told with a message that is sent now.
EXCERPTS, as of `agent-q-look-excerpts', are sent along."
  (agent-q-context-json (and (agent-q-chat-connected-p) agent-q-session-connection)
                        excerpts))

(defun agent-q-chat--message (text &optional look excerpts review)
  "Return the message TEXT, with where the user is now.
LOOK names what is sent along, EXCERPTS are its texts, and REVIEW is as in
`agent-q-queue-message'."
  (let* ((console (agent-q-console-line-p text))
         ;; No model reads it then.
         (context (and (not console) (agent-q-chat-context excerpts))))
    (agent-q-queue-message
     :text text :look look :review review
     :send (lambda ()
             (agent-q-chat-configure)
             (if console
                 (agent-q-core-console agent-q-session-number (agent-q-text-clean text))
               (agent-q-core-submit agent-q-session-number (agent-q-text-clean text)
                                    context))))))

(defun agent-q-chat-submit (text &optional look excerpts review)
  "Send TEXT from this chat, whatever is at its prompt.
LOOK names what is sent along and EXCERPTS are its texts; with REVIEW, changes
of files in its turn are reviewed as diffs.  While a turn runs, it waits."
  (agent-q-session-check)
  (agent-q-events-ensure)
  (let ((message (agent-q-chat--message text look excerpts review)))
    (cond ((or agent-q-session-provider (agent-q-console-line-p text))
           (when (agent-q-queue-add message)
             (if (eq agent-q-header-state :paused)
                 ;; Who sends something else doesn't want the turn to go on.
                 (agent-q-core-stop-at-limit agent-q-session-number)
               (message "Queued: sent when this turn ends"))))
          (t
           (push message agent-q-chat--unsent)
           (agent-q-chat-choose-provider)))))

(defun agent-q-chat-send ()
  "Send the text at the prompt.
While a turn runs, the text waits until it is over."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (agent-q-events-ensure)
  (let ((text (string-trim (agent-q-prompt-text))))
    (cond ((string-empty-p text) (message "Type a message first"))
          ((agent-q-approve-mistyped text)
           (message "%s" (agent-q-approve-mistyped text))
           (agent-q-prompt-replace ""))
          ((or agent-q-session-provider (agent-q-console-line-p text))
           ;; What can't be sent stays at the prompt.
           (agent-q-chat-submit text)
           (agent-q-prompt-take))
          (t
           (agent-q-prompt-take)
           (agent-q-chat-submit text)))))

(defun agent-q-chat-steer ()
  "Put the text at the prompt into the running turn.
The model reads it once the tools that run now are done.  Where no turn runs,
it is sent as usual."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (let ((text (string-trim (agent-q-prompt-text))))
    (if (or (null agent-q-header-since) (string-empty-p text) (agent-q-console-line-p text)
            (agent-q-approve-mistyped text))
        (agent-q-chat-send)
      (agent-q-core-steer agent-q-session-number (agent-q-text-clean text)
                          (agent-q-chat-context))
      (agent-q-queue-steer (agent-q-queue-message :text text))
      (agent-q-prompt-take))))

(defun agent-q-chat-cancel ()
  "End the running turn and drop the messages that wait behind it."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (cond ((agent-q-header-busy-p)
         (agent-q-core-cancel agent-q-session-number)
         (agent-q-queue-clear)
         (message "Cancelled"))
        (agent-q-chat--unsent
         (setq agent-q-chat--unsent nil)
         (message "Not sent"))
        (t (message "Nothing is running"))))

(defun agent-q-chat-send-or-cancel ()
  "Send the text at the prompt; without one, end the running turn.
What is sent while a turn runs waits for its end."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (if (and (agent-q-header-busy-p) (string-blank-p (agent-q-prompt-text)))
      (agent-q-chat-cancel)
    (agent-q-chat-send)))

(defun agent-q-chat-host-call (event)
  "Carry out the request in EVENT to Emacs or the Lisp image of this chat."
  (agent-q-chat-find-image)
  (agent-q-host-answer
   event (and (agent-q-chat-connected-p) agent-q-session-connection) (current-buffer)))

(provide 'agent-q-chat-send)
;;; agent-q-chat-send.el ends here
