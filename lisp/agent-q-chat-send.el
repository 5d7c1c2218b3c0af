;;; agent-q-chat-send.el --- What a chat sends  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The settings of the session of a chat, its image and its model as far as the core
;; has to know them, and sending and cancelling messages.

;;; Code:

(require 'agent-q)
(require 'agent-q-agent)
(require 'agent-q-approve)
(require 'agent-q-chats-store)
(require 'agent-q-console)
(require 'agent-q-context)
(require 'agent-q-context-items)
(require 'agent-q-events)
(require 'agent-q-excerpt)
(require 'agent-q-header)
(require 'agent-q-host)
(require 'agent-q-image-connection)
(require 'agent-q-image-tools)
(require 'agent-q-json)
(require 'agent-q-mention)
(require 'agent-q-plan)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-queue)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-slash)
(require 'agent-q-text)
(require 'agent-q-welcome)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar-local agent-q-chat-settings nil
  "The settings that the session has, an alist.")

(defvar-local agent-q-chat--choosing nil
  "Non-nil while a provider is looked for.")

(defvar-local agent-q-chat--unsent nil
  "Messages that wait until a provider is found, latest first.")

(defun agent-q-chat-make-settings ()
  "Return the settings of this chat as an alist."
  `(,@(agent-q-agent-settings)
   ,@(agent-q-project-settings)
   (project_instructions . ,(if (default-value 'agent-q-read-project-instructions)
                                "read" "ignore"))
   (instructions . ,(agent-q-text-clean agent-q-instructions))
   (max_iterations . ,agent-q-max-iterations)
   (max_turn_tokens . ,(or agent-q-max-turn-tokens :null))
   (max_turn_seconds . ,(or agent-q-max-turn-seconds :null))
   (max_turn_cost . ,(or agent-q-max-turn-cost :null))
   (plan . ,(agent-q-plan-setting))
   (skills_directory . ,(if agent-q-skills-directory
                            (expand-file-name agent-q-skills-directory)
                          :null))
   (context_window . ,(or agent-q-context-window :null))
   (compact_at . ,(or agent-q-compact-at :null))
   (tools . ,(agent-q-registry-selection))
   (tool_choice . ,(if (stringp agent-q-tool-choice)
                       `((tool . ,agent-q-tool-choice))
                     (symbol-name agent-q-tool-choice)))
   ,@(agent-q-approve-place (agent-q-chat--image-name))
   (approval . "ask")
   (eval_seconds . ,agent-q-eval-timeout)
   (eval_policy . ,(symbol-name agent-q-eval-policy))))

(defun agent-q-chat-configure ()
  "Send the session the settings that have changed since the last time."
  (agent-q-chat-find-image)
  (agent-q-image-tools-ensure agent-q-session-connection)
  (agent-q-registry-apply-levels)
  (let ((settings (agent-q-chat-make-settings)))
    (unless (equal settings agent-q-chat-settings)
      (agent-q-core-configure agent-q-session-number (agent-q-json-serialize settings))
      (setq agent-q-chat-settings settings)))
  ;; Not kept: it may hold a proxy's password.
  (when agent-q-session-provider
    (agent-q-core-configure
     agent-q-session-number
     (agent-q-json-serialize
      `((route . ,(agent-q-provider-route-now agent-q-session-provider))))))
  (agent-q-chats-store-note))

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
  (agent-q-chats-store-note)
  (agent-q-welcome-hint-about provider)
  (let ((messages (nreverse agent-q-chat--unsent)))
    (setq agent-q-chat--unsent nil)
    (if provider
        (mapc #'agent-q-queue-add messages)
      (when messages
        (agent-q-chat--without-model messages))))
  (agent-q-header-update)
  (agent-q-welcome-update))

(defun agent-q-chat--without-model (messages)
  "Explain why MESSAGES were not sent, and put their texts back at the prompt."
  (agent-q-render-notice
   (concat (agent-q-provider-advice)
           (if (agent-q-chat-connected-p)
               "\nTools work without a model: /describe_symbol mapcar"
             "")
           (if (seq-some #'agent-q-queue-message-look messages)
               (format "\nNot sent: %s.  Ask from there again when there is a model."
                       (string-join (delq nil (mapcar #'agent-q-queue-message-look messages))
                                    ", "))
             ""))
   'agent-q-failure)
  (when (string-empty-p (agent-q-prompt-text))
    (save-excursion
      (goto-char (point-max))
      (insert (string-join (mapcar #'agent-q-queue-message-text messages) "\n")))
    (when (= (point) agent-q-prompt-start)
      (goto-char (point-max)))))

(defun agent-q-chat-context (&optional pairs)
  "Return as JSON what the model is told with a message that is sent now.
PAIRS, as of `agent-q-look-excerpts', are sent along."
  (agent-q-context-json (and (agent-q-chat-connected-p) agent-q-session-connection)
                        pairs))

(defun agent-q-chat--message (text look pairs review excerpts)
  "Return the message TEXT, with where the user is now.
LOOK names what is sent along, PAIRS are its texts, and REVIEW and EXCERPTS
are as in `agent-q-queue-message'."
  (let* ((console (agent-q-console-line-p text))
         ;; No model reads it then.
         (context (and (not console)
                       (agent-q-chat-context (append pairs (agent-q-excerpt-pairs excerpts))))))
    (agent-q-queue-message
     :text text :look look :review review :excerpts excerpts
     :send (lambda ()
             (agent-q-chat-configure)
             (if console
                 (agent-q-core-console agent-q-session-number (agent-q-text-clean text))
               (agent-q-core-submit agent-q-session-number (agent-q-text-clean text)
                                    context))))))

(defun agent-q-chat--message-again (text)
  "Return the message TEXT, the latest of this chat, to be sent again.
What was attached to it is attached again, as it was then."
  (let ((begun (agent-q-queue-begun text)))
    (agent-q-queue-message
     :text text
     :look (agent-q-queue-message-look begun)
     :review (agent-q-queue-message-review begun)
     :excerpts (agent-q-queue-message-excerpts begun)
     :send (lambda ()
             (agent-q-chat-configure)
             (agent-q-core-submit-again agent-q-session-number (agent-q-text-clean text)
                                        (agent-q-chat-context))))))

(defun agent-q-chat-submit (text &optional look pairs review)
  "Send TEXT from this chat, not what is at its prompt.
LOOK names what is sent along and PAIRS are its texts, each (WHERE . TEXT);
with REVIEW, changes of files in its turn are reviewed as diffs.  What TEXT
mentions is fetched first, as is what the chat has in its context.  While a
turn runs, the message waits.  Signal an error if it can't be sent."
  (agent-q-chat--check)
  (if (agent-q-console-line-p text)
      (agent-q-chat--submit (agent-q-chat--message text look pairs review nil))
    (agent-q-chat--gather
     text
     (lambda (excerpts)
       (agent-q-chat--submit
        (agent-q-chat--message text look pairs review excerpts))))))

(defun agent-q-chat-submit-again (text)
  "Send TEXT, the latest message of this chat, once more.
A model that has not answered it reads it once."
  (agent-q-chat--check)
  (agent-q-chat--submit (if (agent-q-console-line-p text)
                            (agent-q-chat--message text nil nil nil nil)
                          (agent-q-chat--message-again text))))

(defun agent-q-chat--check ()
  "Signal an error unless messages can be sent from here."
  (agent-q-session-check)
  (when agent-q-chats-store-busy
    (user-error "%s" agent-q-chats-store-busy))
  (unless (agent-q-events-running-p)
    (agent-q-events-ensure)))

(defun agent-q-chat--submit (message)
  "Hand MESSAGE to the core when its time has come."
  (cond ((or agent-q-session-provider
             (agent-q-console-line-p (agent-q-queue-message-text message)))
         (when (agent-q-queue-add message)
           (if (eq agent-q-header-state :paused)
               ;; Who sends something else doesn't want the turn to go on.
               (agent-q-core-stop-at-limit agent-q-session-number)
             (message "Queued: sent when this turn ends"))))
        (t
         (push message agent-q-chat--unsent)
         (agent-q-chat-choose-provider))))

;;;; What is attached

(defconst agent-q-chat--fetching "Fetching what the message mentions..."
  "What is said while mentions are fetched.")

(defvar-local agent-q-chat--gathering nil
  "The message whose mentions are being fetched, or nil.
It is a cons of a function that cancels it and the text.")

;;;###autoload (put 'agent-q-send-image-map 'risky-local-variable t)
(defcustom agent-q-send-image-map nil
  "Whether a map of the project is attached to the first message of a chat.
That is what \"@map\" mentions: the packages of the project that the image has
and what they export with its arguments, in at most about 1,000 tokens."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defvar-local agent-q-chat--map-sent nil
  "Whether the map of the project was sent from this chat, or tried to be.")

(defun agent-q-chat--fetch-map (function)
  "Call FUNCTION with the map of the project, a list of an excerpt, or nil.
It is sent with the first message if `agent-q-send-image-map' says so."
  (if (or agent-q-chat--map-sent (not (default-value 'agent-q-send-image-map))
          (not (agent-q-chat-connected-p)))
      (funcall function nil)
    (setq agent-q-chat--map-sent t)
    (agent-q-mention-fetch-all (agent-q-mention-find "@map")
                               (lambda (excerpts _problem) (funcall function excerpts)))))

(defun agent-q-chat--gather (text send)
  "Fetch what TEXT mentions and what is kept in the context and has changed.
Then SEND is called with the excerpts.  Signal an error if something that TEXT
mentions is missing; if that turns out later, TEXT is put back to the prompt,
and the log says why."
  (when agent-q-chat--gathering
    (user-error "Still fetching what your last message mentions; C-c C-k cancels"))
  (let* ((returned nil) (problem nil) (over nil)
         (finish
          (lambda (trouble items excerpts)
            ;; Who gave it up has the text back.
            (unless over
              (setq over t
                    agent-q-chat--gathering nil)
              (when (equal (current-message) agent-q-chat--fetching)
                (message nil))
              (cond ((and trouble returned) (agent-q-chat--not-sent text trouble))
                    (trouble (setq problem trouble))
                    ((not returned) (agent-q-chat--send-along items excerpts send))
                    (t (condition-case failure
                           (agent-q-chat--send-along items excerpts send)
                         (error (agent-q-chat--not-sent
                                 text (error-message-string failure))))))))))
    (agent-q-context-items-fetch
     (lambda (items troubles)
       (dolist (trouble troubles)
         (agent-q-render-notice (format "Kept in the context, but not sent: %s" trouble)))
       (agent-q-chat--fetch-map
        (lambda (map)
          (agent-q-mention-fetch-all
           (agent-q-mention-find text)
           (lambda (excerpts trouble) (funcall finish trouble items (append map excerpts))))))))
    (setq returned t)
    (cond (problem (user-error "Not sent.  %s" problem))
          ((not over)
           (setq agent-q-chat--gathering (cons (lambda () (setq over t)) text))
           (message "%s" agent-q-chat--fetching)))))

(defun agent-q-chat--give-up ()
  "Cancel fetching what a message mentions, and return non-nil if one was.
The message is at the prompt again."
  (when agent-q-chat--gathering
    (let ((gathering agent-q-chat--gathering))
      (setq agent-q-chat--gathering nil)
      (funcall (car gathering))
      (agent-q-prompt-give-back (cdr gathering))
      t)))

(defun agent-q-chat--send-along (items excerpts send)
  "Call SEND with EXCERPTS and those of ITEMS, pairs of item and excerpt."
  (let ((all (agent-q-excerpt-fit (append (mapcar #'cdr items) excerpts))))
    (funcall send all)
    (when all
      (agent-q-context-note-sent items all))))

(defun agent-q-chat--not-sent (text trouble)
  "Put TEXT, which can't be sent because of TROUBLE, back to the prompt."
  (agent-q-render-notice (format "Not sent.  %s" trouble) 'agent-q-failure)
  (agent-q-prompt-give-back text))

(defun agent-q-chat-send ()
  "Send the text at the prompt.
While a turn runs, the text is queued until it ends."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (unless (agent-q-events-running-p)
    (agent-q-events-ensure))
  (let ((text (string-trim (agent-q-prompt-text))))
    (cond ((string-empty-p text) (message "Type a message first"))
          ((agent-q-approve-mistyped text)
           (message "%s" (agent-q-approve-mistyped text))
           (agent-q-prompt-replace ""))
          ((agent-q-chat--answer-limit text) (agent-q-prompt-replace ""))
          (t (pcase (agent-q-slash-action text)
               (`(command . ,command)
                (agent-q-prompt-take)
                (call-interactively command))
               (`(place . ,prompt)
                (agent-q-prompt-take)
                (agent-q-prompt-replace prompt)
                (message "A prompt of this project: read it, RET sends it"))
               ;; The space keeps a prompt from being a call of a tool.
               (`(send . ,prompt)
                (agent-q-chat--send-typed
                 (if (agent-q-console-line-p prompt) (concat " " prompt) prompt)))
               (_ (agent-q-chat--send-typed text)))))))

(defun agent-q-chat--answer-limit (text)
  "Answer the turn of this chat that met a limit, if one did and TEXT is an answer.
Return whether that is so."
  (when (eq agent-q-header-state :paused)
    (pcase (downcase text)
      ((or "y" "yes") (agent-q-core-go-on agent-q-session-number) t)
      ((or "n" "no") (agent-q-core-stop-at-limit agent-q-session-number) t))))

(defun agent-q-chat--at-once (text function)
  "Call FUNCTION, which sends TEXT.
Where that is a call of a tool, what the core does about it is taken at once,
as nothing of it waits for a server."
  (if (agent-q-console-line-p text)
      (agent-q-events-attend function)
    (funcall function)))

(defun agent-q-chat--send-typed (text)
  "Send TEXT for what is at the prompt, and keep the latter in the history."
  (if (or agent-q-session-provider (agent-q-console-line-p text))
      (agent-q-chat--at-once
       text
       (lambda ()
         ;; What can't be sent stays at the prompt.
         (agent-q-chat-submit text)
         (agent-q-prompt-take)))
    (let ((typed (string-trim (agent-q-prompt-text))))
      (agent-q-prompt-take)
      (condition-case failure
          (agent-q-chat-submit text)
        ((error quit)
         (agent-q-prompt-give-back typed)
         (signal (car failure) (cdr failure)))))))

(defun agent-q-chat-steer ()
  "Send the text at the prompt into the running turn.
The model reads it once the tools that run now are done.  If no turn runs, it
is sent as usual."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (let ((text (string-trim (agent-q-prompt-text))))
    (if (or (null agent-q-header-since) (string-empty-p text) (agent-q-console-line-p text)
            (agent-q-approve-mistyped text))
        (agent-q-chat-send)
      (agent-q-chat--gather
       text
       (lambda (excerpts)
         (agent-q-core-steer agent-q-session-number (agent-q-text-clean text)
                             (agent-q-chat-context (agent-q-excerpt-pairs excerpts)))
         (agent-q-queue-steer (agent-q-queue-message :text text :excerpts excerpts))))
      (agent-q-prompt-take))))

(defun agent-q-chat--kept-words (count)
  "Return where COUNT queued messages went that are not sent."
  (if (zerop count)
      ""
    (concat (if (= count 1)
                "; the queued message is in the history"
              (format "; the %d queued messages are in the history" count))
            (substitute-command-keys
             " (\\<agent-q-chat-mode-map>\\[agent-q-prompt-previous])"))))

(defun agent-q-chat-cancel ()
  "End the running turn and drop the messages queued after it.
They stay in the history."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (cond ((agent-q-chat--give-up)
         (message "Not sent"))
        ((agent-q-header-busy-p)
         (let ((waiting (length (agent-q-queue-texts))))
           (agent-q-core-cancel agent-q-session-number)
           (agent-q-queue-clear)
           (message "Cancelled%s" (agent-q-chat--kept-words waiting))))
        (agent-q-chat--unsent
         (setq agent-q-chat--unsent nil)
         (message "Not sent"))
        (t (message "Nothing is running"))))

(defun agent-q-chat-send-or-cancel ()
  "Send the text at the prompt; without one, end the running turn.
A message sent while a turn runs is queued until it ends."
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
