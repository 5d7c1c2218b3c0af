;;; agent-q-chat.el --- Chats with the agent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The chat buffer: its mode and keys, its session in the core, what it sends,
;; and what it does with each event.  Drawing is the job of the files below.

;;; Code:

(require 'agent-q-agent)
(require 'agent-q-approve)
(require 'agent-q-chat-move)
(require 'agent-q-console)
(require 'agent-q-context)
(require 'agent-q-debugger)
(require 'agent-q-diff)
(require 'agent-q-echo)
(require 'agent-q-events)
(require 'agent-q-header)
(require 'agent-q-image)
(require 'agent-q-changes)
(require 'agent-q-image-tools)
(require 'agent-q-operations)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-record)
(require 'agent-q-sight)

(declare-function agent-q-core-open-session "agent-q-core")
(declare-function agent-q-core-configure "agent-q-core")
(declare-function agent-q-core-submit "agent-q-core")
(declare-function agent-q-core-console "agent-q-core")
(declare-function agent-q-core-cancel "agent-q-core")
(declare-function agent-q-core-close-session "agent-q-core")
(declare-function agent-q-core-system-prompt "agent-q-core")

(defvar-local agent-q-chat--session nil
  "The core's number for the session of this chat.")

(defvar-local agent-q-chat--settings nil
  "The settings that the session has, as JSON.")

(defvar-local agent-q-chat--provider nil
  "The provider that the session uses, without its secrets, or nil.")

(defvar-local agent-q-chat--choosing nil
  "Non-nil while a provider is looked for.")

(defvar-local agent-q-chat--unsent nil
  "Messages that wait until a provider is found, latest first.")

(defvar-local agent-q-chat--timer nil
  "The timer that shows the passing time of the running turn, or nil.")

;;;; The mode

(defvar agent-q-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-chat-return)
    (define-key map (kbd "S-<return>") #'newline)
    (define-key map (kbd "M-j") #'newline)
    (define-key map (kbd "C-j") #'newline)
    (define-key map (kbd "TAB") #'agent-q-chat-tab)
    (define-key map (kbd "<backtab>") #'agent-q-chat-previous-item)
    (define-key map (kbd "M-p") #'agent-q-prompt-previous)
    (define-key map (kbd "M-n") #'agent-q-prompt-next)
    (define-key map (kbd "C-c C-c") #'agent-q-chat-send-or-cancel)
    (define-key map (kbd "C-c C-k") #'agent-q-chat-cancel)
    (define-key map (kbd "C-c C-n") #'agent-q-chat-next-turn)
    (define-key map (kbd "C-c C-p") #'agent-q-chat-previous-turn)
    (define-key map (kbd "C-c C-a") #'agent-q-call-goto-waiting)
    (define-key map (kbd "C-c C-v") #'agent-q-set-model)
    (define-key map (kbd "C-c C-d") #'agent-q-chat-hand-over)
    map)
  "Keymap of `agent-q-chat-mode'.")

(define-derived-mode agent-q-chat-mode text-mode "agent-q"
  "Major mode of chats with an agent that looks into a running Lisp.

Type at the prompt and press \\[agent-q-chat-return] to send.  A line that
begins with a slash and the name of a tool calls this tool without a model.
Each tool call is a line that \\[agent-q-chat-tab] unfolds.  When one waits
for your answer, \\[agent-q-call-goto-waiting] goes there; y runs it, n denies it,
SPC shows more of a long one.

\\{agent-q-chat-mode-map}"
  (setq-local bidi-paragraph-direction 'left-to-right
              bidi-inhibit-bpa t
              word-wrap t
              truncate-lines nil
              ;; The end of a line must not be out of sight in a narrow window.
              truncate-partial-width-windows nil
              ;; Follow the output line by line instead of by half windows.
              scroll-conservatively 101
              filter-buffer-substring-function #'agent-q-render-copy
              require-final-newline nil
              agent-q-events-handler #'agent-q-chat--handle)
  (add-hook 'completion-at-point-functions
            #'agent-q-console-completion-at-point nil t)
  (add-hook 'post-command-hook #'agent-q-sight-watch nil t)
  (add-hook 'kill-buffer-hook #'agent-q-chat--close nil t)
  (add-hook 'change-major-mode-hook #'agent-q-chat--close nil t))

;;;; Opening and closing

(defun agent-q-chat-buffers ()
  "Return the buffers of all chats, the latest one first."
  (seq-filter (lambda (buffer)
                (and (buffer-local-value 'agent-q-chat--session buffer) t))
              (buffer-list)))

(defun agent-q-chat-open (&optional new)
  "Return the buffer of the latest chat, or of a new one.
NEW non-nil means a new one."
  (or (and (not new) (car (agent-q-chat-buffers)))
      (agent-q-chat--make)))

(defun agent-q-chat--make ()
  "Make a chat and return its buffer."
  (agent-q-events-ensure)
  (agent-q-record-start)
  (add-hook 'agent-q-image-ended-functions #'agent-q-echo-call)
  (let ((buffer (generate-new-buffer "*agent-q chat*"))
        (made nil))
    (unwind-protect
        (with-current-buffer buffer
          (agent-q-chat--set-up (agent-q-image-default-connection))
          (setq made t)
          (agent-q-chat--choose-provider))
      (unless made
        (kill-buffer buffer)))
    buffer))

(defun agent-q-chat--set-up (connection)
  "Make the current buffer a chat about the image of CONNECTION."
  (agent-q-chat-mode)
  (setq agent-q-header-connection connection)
  (agent-q-render-setup)
  (agent-q-call-setup)
  (agent-q-render-notice
   "Ask about the Lisp you are connected to, or type / for the tools.")
  (agent-q-prompt-setup)
  (agent-q-header-setup)
  (setq agent-q-chat--settings (agent-q-chat--make-settings)
        agent-q-chat--session (agent-q-core-open-session agent-q-chat--settings))
  (agent-q-events-register agent-q-chat--session (current-buffer))
  (agent-q-image-tools-ensure connection))

(defun agent-q-chat--close ()
  "End the session of this chat."
  (agent-q-chat--stop-timer)
  (when agent-q-chat--session
    (let ((session agent-q-chat--session))
      (setq agent-q-chat--session nil)
      (agent-q-call-leave)
      (agent-q-image-release-owned (current-buffer))
      (agent-q-events-forget session)
      (agent-q-core-close-session session))))

(defun agent-q-chat--check ()
  "Signal an error unless the current buffer is a chat."
  (unless agent-q-chat--session
    (user-error "This buffer is not a chat; M-x agent-q-chat opens one")))

;;;; Settings

(defun agent-q-chat--make-settings (&rest more)
  "Return the settings of this chat as JSON, with MORE, an alist, first."
  (agent-q-json-serialize
   `(,@more
     ,@(agent-q-agent-settings)
     ,@(agent-q-project-settings)
     (instructions . ,(agent-q--clean agent-q-instructions))
     (max_iterations . ,agent-q-max-iterations)
     (tools . ,(let ((offered (agent-q-registry-offered)))
                 (if (eq offered t) :null (vconcat offered))))
     (unoffered . ,(if (agent-q-registry-left-out-p) "left_out_by_user" "callable"))
     (tool_choice . ,(if (stringp agent-q-tool-choice)
                         `((tool . ,agent-q-tool-choice))
                       (symbol-name agent-q-tool-choice)))
     ,@(agent-q-approve-place (agent-q-chat--image-name))
     (approval . "ask")
     (eval_seconds . ,agent-q-eval-timeout)
     (eval_policy . ,(symbol-name agent-q-eval-policy)))))

(defun agent-q-chat--configure ()
  "Tell the session the settings that changed since the last time."
  (agent-q-chat--find-image)
  (agent-q-image-tools-ensure agent-q-header-connection)
  (agent-q-registry-apply-levels)
  (let ((settings (agent-q-chat--make-settings)))
    (unless (equal settings agent-q-chat--settings)
      (agent-q-core-configure agent-q-chat--session settings)
      (setq agent-q-chat--settings settings))))

;;;; The image

(defun agent-q-chat--connected-p ()
  "Whether the image of this chat is connected."
  (and agent-q-header-connection
       (agent-q-image-live-p agent-q-header-connection)))

(defun agent-q-chat--image-name ()
  "Return the name of this chat's connection while it is alive, or nil."
  (and (agent-q-chat--connected-p)
       (agent-q-image-name agent-q-header-connection)))

(defvar-local agent-q-chat--images nil
  "The connections that there were when this chat last used its own.")

(defun agent-q-chat--find-image ()
  "Have this chat use a connection that is new if its own one is gone.
The images that were there already are other programs, which the user
has to choose."
  (if (agent-q-chat--connected-p)
      (setq agent-q-chat--images (agent-q-image-connections))
    (let* ((had agent-q-header-connection)
           (connections (agent-q-image-connections))
           (new (seq-find (lambda (connection)
                            (not (member connection agent-q-chat--images)))
                          connections)))
      (when (or new connections)
        (setq agent-q-header-connection new)
        (when had
          (agent-q-render-notice
           (if new
               (format "The connection of this chat was closed; it uses %s now."
                       (agent-q-image-label new))
             "The connection of this chat was closed; M-x agent-q-chat-set-connection chooses \
another image.")))
        (agent-q-header-update)))))

;;;###autoload
(defun agent-q-chat-set-connection (connection)
  "Have the current chat look into the image behind CONNECTION."
  (interactive
   (let ((choices (mapcar (lambda (connection)
                            (cons (agent-q-image-label connection) connection))
                          (agent-q-image-connections))))
     (unless choices
       (user-error "No Lisp is connected; M-x sly or M-x slime starts one"))
     (list (cdr (assoc (completing-read "Lisp image: " choices nil t)
                       choices)))))
  (agent-q-chat--check)
  (setq agent-q-header-connection connection
        agent-q-chat--images (agent-q-image-connections))
  (agent-q-image-tools-ensure connection)
  (agent-q-header-update))

(defun agent-q-chat--image-call (event)
  "Do what EVENT asks of the Lisp image of this chat."
  (agent-q-chat--find-image)
  (agent-q-events-image-call
   event (and (agent-q-chat--connected-p) agent-q-header-connection) (current-buffer)))

;;;; The model

(defun agent-q-chat--choose-provider ()
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

(defun agent-q-chat-use-provider (provider)
  "Have the current chat talk to PROVIDER from now on; nil means no model."
  (agent-q-chat--check)
  (setq agent-q-chat--choosing nil)
  (agent-q-core-configure agent-q-chat--session
                          (agent-q-json-serialize
                           `((provider . ,(or provider :null)))))
  (setq agent-q-chat--provider (agent-q-provider-public provider)
        agent-q-header-model (agent-q-provider-label provider))
  (let ((texts (nreverse agent-q-chat--unsent)))
    (setq agent-q-chat--unsent nil)
    (if provider
        (mapc (lambda (text)
                (agent-q-chat--start #'agent-q-chat--submit text))
              texts)
      (when texts
        (agent-q-chat--without-model texts))))
  (agent-q-header-update))

(defun agent-q-chat--without-model (texts)
  "Say why TEXTS were not sent, and give them back to the user."
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

;;;; Sending

(defun agent-q-chat--busy-p ()
  "Whether a turn is running or about to."
  (or agent-q-header-since (> agent-q-header-queued 0)))

(defun agent-q-chat--submit (session text)
  "Send TEXT to the model of SESSION, with where the user is now."
  (agent-q-core-submit session text (agent-q-chat--context)))

(defun agent-q-chat--context ()
  "Return as JSON what the model is told with a message that is sent now."
  (agent-q-context-json (and (agent-q-chat--connected-p) agent-q-header-connection)))

(defun agent-q-chat--start (function text)
  "Call FUNCTION, an entry point of the core, with the session and TEXT."
  (agent-q-chat--configure)
  (let ((busy (agent-q-chat--busy-p)))
    (funcall function agent-q-chat--session (agent-q--clean text))
    (cl-incf agent-q-header-queued)
    (agent-q-header-update)
    (when busy
      (message "Queued; it is sent when the turn that runs is over"))))

(defun agent-q-chat-send ()
  "Send the text at the prompt.
While a turn runs, the text waits until it is over."
  (interactive)
  (agent-q-chat--check)
  (agent-q-events-ensure)
  (let ((text (string-trim (agent-q-prompt-text))))
    (cond ((string-empty-p text) (message "Input is empty"))
          ((agent-q-approve-mistyped text)
           (message "%s" (agent-q-approve-mistyped text))
           (agent-q-prompt-replace ""))
          ((agent-q-console-line-p text)
           (agent-q-chat--start #'agent-q-core-console text)
           (agent-q-prompt-take))
          (agent-q-chat--provider
           (agent-q-chat--start #'agent-q-chat--submit text)
           (agent-q-prompt-take))
          (t
           (agent-q-prompt-take)
           (push text agent-q-chat--unsent)
           (agent-q-chat--choose-provider)))))

(defun agent-q-chat-cancel ()
  "End the running turn and drop the messages that wait behind it."
  (interactive)
  (agent-q-chat--check)
  (cond ((agent-q-chat--busy-p)
         (agent-q-core-cancel agent-q-chat--session)
         (setq agent-q-header-queued 0)
         (agent-q-header-update)
         (message "Cancelled"))
        (agent-q-chat--unsent
         (setq agent-q-chat--unsent nil)
         (message "Not sent"))
        (t (message "Nothing runs"))))

(defun agent-q-chat-send-or-cancel ()
  "Send the text at the prompt, or end the running turn."
  (interactive)
  (if (agent-q-chat--busy-p)
      (agent-q-chat-cancel)
    (agent-q-chat-send)))

(defun agent-q-chat-return ()
  "Send the text at the prompt; in the log, act on what point is on."
  (interactive)
  (cond ((agent-q-prompt-p) (agent-q-chat-send))
        ((agent-q-chat--item-of-line)
         (goto-char (agent-q-render-item-start (agent-q-chat--item-of-line)))
         (agent-q-render-toggle))
        (t (goto-char (point-max)))))

;;;; Events

(defun agent-q-chat--handle (event)
  "Apply EVENT to this chat."
  (pcase (plist-get event :type)
    (:text (agent-q-render-text (plist-get event :text)))
    (:reasoning (agent-q-render-reasoning (plist-get event :text)))
    (:state (setq agent-q-header-state (plist-get event :state)))
    (:turn-started (setq agent-q-image-turn (agent-q-changes-turn (plist-get event :turn)))
                   (agent-q-chat--turn-started (plist-get event :text)))
    (:image-changed (agent-q-changes-offer (plist-get event :turn)
                                           (plist-get event :definitions)))
    (:turn-ended (agent-q-chat--turn-ended (plist-get event :outcome)
                                           (plist-get event :message)))
    (:call-proposed (agent-q-call-proposed event))
    (:approval (agent-q-chat--approval event))
    (:approval-settled (agent-q-call-settled-elsewhere event))
    (:call-started (agent-q-call-started-event event))
    (:call-finished (agent-q-call-finished event))
    (:usage (cl-incf agent-q-header-input (plist-get event :input-tokens))
            (cl-incf agent-q-header-output (plist-get event :output-tokens)))
    (:retrying (agent-q-render-notice
                (format "%s Trying again in %.1f s (%d of %d)."
                        (plist-get event :reason) (plist-get event :seconds)
                        (plist-get event :attempt) (plist-get event :attempts))))
    (:notice (agent-q-render-notice (plist-get event :text)))
    (:image-call (agent-q-chat--image-call event))
    (:emacs-call (agent-q-chat--find-image)
                 (agent-q-operations-run event agent-q-header-connection (current-buffer))))
  (unless (eq (plist-get event :type) :text)
    (agent-q-events-afterwards #'agent-q-header-update)))

(defun agent-q-chat--approval (event)
  "Have the call of EVENT approved, by `agent-q-approval-handler' or the user."
  (if agent-q-approval-handler
      (progn (agent-q-call-approval-elsewhere event)
             (agent-q-execute-approve event))
    (agent-q-call-approval
     event (agent-q-approve-target (plist-get event :arguments)
                                   (and (agent-q-chat--connected-p)
                                        (agent-q-image-label agent-q-header-connection))))
    (unless (agent-q-registry-effect-p (plist-get event :tool))
      (agent-q-diff-review event))))

(defun agent-q-chat--turn-started (text)
  "Show the user's message TEXT, with which a turn begins."
  (agent-q-render-user text)
  (setq agent-q-header-queued (max 0 (1- agent-q-header-queued))
        agent-q-header-since (current-time))
  (agent-q-chat--stop-timer)
  (setq agent-q-chat--timer
        (run-at-time 1 1 #'agent-q-chat--tick (current-buffer))))

(defun agent-q-chat--turn-ended (outcome message)
  "Show that a turn ended with OUTCOME, and MESSAGE if there is one."
  (agent-q-render-finish)
  (agent-q-call-abandon)
  (pcase outcome
    (:cancelled (agent-q-render-notice "Cancelled.")
                (agent-q-image-release-owned (current-buffer)))
    ((or :failed :limit)
     (agent-q-render-notice (or message "The turn failed.")
                            'agent-q-failure)))
  (setq agent-q-header-since nil
        agent-q-header-state :idle)
  (agent-q-chat--stop-timer))

(defun agent-q-chat--tick (buffer)
  "Show the time that passes in the running turn of the chat BUFFER."
  (with-current-buffer buffer
    (agent-q-call-tick)
    (agent-q-header-update)))

(defun agent-q-chat--stop-timer ()
  "Stop showing the passing time."
  (when agent-q-chat--timer
    (cancel-timer agent-q-chat--timer)
    (setq agent-q-chat--timer nil)))

;;;; Looking behind the scene

;;;###autoload
(defun agent-q-show-system-prompt ()
  "Show what the current chat sends to the model besides your words.
That is the system prompt and the context in front of each message."
  (interactive)
  (agent-q-chat--check)
  (agent-q-chat--configure)
  (pcase-let ((`(,prompt ,context) (agent-q-core-system-prompt agent-q-chat--session
                                                               (agent-q-chat--context))))
    (with-help-window "*agent-q system prompt*"
      (princ prompt)
      (princ "\n\n----- In front of a message that you send now -----\n\n")
      (princ context))))

(provide 'agent-q-chat)
;;; agent-q-chat.el ends here
