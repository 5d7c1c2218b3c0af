;;; agent-q-chat.el --- Chats with the agent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The chat buffer: its mode and keys, opening, closing and saving it, and what it does with
;; each event.  What it sends is in agent-q-chat-send.el, what it draws in agent-q-render.el
;; and agent-q-call.el.

;;; Code:

(require 'agent-q-approval)
(require 'agent-q-approval-gate)
(require 'agent-q-attach)
(require 'agent-q-attach-kinds)
(require 'agent-q-attention)
(require 'agent-q-call)
(require 'agent-q-call-events)
(require 'agent-q-changes)
(require 'agent-q-chat-commands)
(require 'agent-q-chat-history)
(require 'agent-q-chat-send)
(require 'agent-q-chat-view)
(require 'agent-q-code)
(require 'agent-q-completion)
(require 'agent-q-connection)
(require 'agent-q-debugger)
(require 'agent-q-drift)
(require 'agent-q-events)
(require 'agent-q-execute)
(require 'agent-q-image)
(require 'agent-q-image-history)
(require 'agent-q-image-tools)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-names)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-review)
(require 'agent-q-review-draft)
(require 'agent-q-review-place)
(require 'agent-q-session)
(require 'agent-q-text)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Chats follow the connections of Lisp

;; While there is a chat, the hooks of SLY and SLIME tell when a Lisp connects or goes
;; away, so that the chats show it at once.

(defconst agent-q-chat--follow-hooks
  '(sly-connected-hook slime-connected-hook
    sly-net-process-close-hooks slime-net-process-close-hooks)
  "The hooks of the clients that tell of a connection.")

(defun agent-q-chat-follow-start ()
  "Have the chats follow the connections."
  (dolist (hook agent-q-chat--follow-hooks)
    (add-hook hook #'agent-q-chat--follow-later)))

(defun agent-q-chat-follow-stop ()
  "Stop following the connections, unless there is a chat left."
  (unless (agent-q-session-buffers)
    (dolist (hook agent-q-chat--follow-hooks)
      (remove-hook hook #'agent-q-chat--follow-later))))

(defun agent-q-chat--follow-later (&rest _)
  "Look at the connections once the client is done with its own work."
  (run-at-time 0 nil #'agent-q-chat-follow-look))

(defun agent-q-chat-follow-look ()
  "Update each chat for the connections that are open now.
One without an image takes the image that has come, unless a turn runs."
  (dolist (chat (agent-q-session-buffers))
    (with-current-buffer chat
      (unless (or agent-q-session-connection (agent-q-chat-view-header-busy-p))
        (agent-q-chat-send-find-image))
      (agent-q-chat-view-header-update)
      (agent-q-chat-view-welcome-update))))

;;;; Windows that follow an answer

;; A window whose point is at the prompt follows the log.  Redisplay scrolls it line by
;; line, and looks at each line on the way: where more came than the window shows, most
;; of its time goes into lines that nobody sees.  So long ways are jumped here.

(defun agent-q-chat-scroll ()
  "Bring the windows of this chat near its end, if they follow and are far away.
Redisplay does the last few lines."
  (dolist (window (get-buffer-window-list nil 'no-minibuffer t))
    (let ((point (window-point window))
          (height (window-body-height window)))
      (when (>= point agent-q-render-end)
        (save-excursion
          (goto-char point)
          (forward-line (- (* 2 height)))
          ;; Nothing that was on the screen can stay there.
          (when (> (point) (window-start window))
            (goto-char point)
            (forward-line (- 2 height))
            (set-window-start window (point) t)))))))

(defun agent-q-chat-scroll-fill (window)
  "Show more of the log in WINDOW of this chat if it has become larger.
Emacs leaves its start where that was, so that the prompt would stand above
an empty half.  For `window-size-change-functions'."
  ;; Emacs 28 calls this wherever it is.
  (with-current-buffer (window-buffer window)
    (when (and agent-q-render-end (>= (window-point window) agent-q-render-end))
      (with-selected-window window
        (save-excursion
          (goto-char (point-max))
          (vertical-motion (- 1 (window-body-height)))
          (when (< (point) (window-start))
            (set-window-start window (point) t)))))))

;;;; A chat stays a chat when it is saved

;; Saving the buffer of a chat writes a transcript: what its log shows, answers in Markdown as
;; they came.  The buffer visits no file afterwards, and keeps its name and folder.  Another major
;; mode is refused while the session is open, as the mode is what handles its events.

(defvar-local agent-q-chat--file-transcript nil
  "The file of the latest transcript of this chat, or nil.")

(defvar-local agent-q-chat--file-place nil
  "The name and the folder of this buffer before it is saved: (NAME . FOLDER).")

(defun agent-q-chat-file-setup ()
  "Let saving the current buffer write a transcript, and let it keep its mode."
  (setq-local change-major-mode-with-file-name nil)
  (agent-q-chat--file-note)
  (add-hook 'pre-command-hook #'agent-q-chat--file-note nil t)
  (add-hook 'after-set-visited-file-name-hook #'agent-q-chat--file-leave nil t)
  (add-hook 'write-contents-functions #'agent-q-chat--file-write nil t)
  (add-hook 'change-major-mode-hook #'agent-q-chat--file-keep-mode nil t))

(defun agent-q-chat--file-note ()
  "Note what this buffer is called, and its folder."
  (setq agent-q-chat--file-place (cons (buffer-name) default-directory)))

(defun agent-q-chat--file-leave ()
  "Visit no file any more; it is the one of the transcript from now on.
For `after-set-visited-file-name-hook'."
  (when buffer-file-name
    (setq agent-q-chat--file-transcript buffer-file-name)
    (set-visited-file-name nil t)
    (pcase agent-q-chat--file-place
      (`(,name . ,folder)
       (rename-buffer name t)
       (setq default-directory folder)))
    (message "A chat visits no file; C-x C-s writes a transcript to %s"
             (abbreviate-file-name agent-q-chat--file-transcript))))

(defun agent-q-chat--file-ask ()
  "Ask for the file of a transcript, and return its name."
  (let ((file (expand-file-name (read-file-name "Write a transcript to: "))))
    (when (file-directory-p file)
      (user-error "%s is a folder" file))
    (unless (or (not (file-exists-p file))
                (y-or-n-p (format "File %s exists; overwrite? " file)))
      (user-error "No transcript was written"))
    file))

(defun agent-q-chat--file-write ()
  "Write a transcript of this chat and return t.
For `write-contents-functions'."
  (let ((file (or agent-q-chat--file-transcript (agent-q-chat--file-ask)))
        (coding-system-for-write 'utf-8-unix))
    (write-region (agent-q-render-copy (point-min) agent-q-render-end) nil file nil 'silent)
    (setq agent-q-chat--file-transcript file)
    (set-buffer-modified-p nil)
    (message "Transcript written to %s" (abbreviate-file-name file))
    t))

(defun agent-q-chat-file-save ()
  "Write a transcript of this chat, again to the file of the last one."
  (interactive nil agent-q-chat-mode)
  (set-buffer-modified-p t)
  (save-buffer))

(defun agent-q-chat--file-keep-mode ()
  "Signal an error, as another major mode would end this chat.
For `change-major-mode-hook'."
  (when agent-q-session-number
    (user-error "A chat keeps its mode; C-x C-w writes a transcript, C-x k ends the chat")))

;;;; Chats with the agent

;; The chat buffer: its mode and keys, its opening and closing, and what it does with
;; each event.  What it sends is in agent-q-chat-send.el; drawing is the job of the
;; files below.

(defconst agent-q-chat--commands
  '((model . agent-q-set-model) (image . agent-q-set-image)
    (waiting . agent-q-goto-approval) (parked . agent-q-debugger-hand-over)
    (unguarded . agent-q-list-tools) (paused . agent-q-continue) (window . agent-q-context-usage)
    (plan . agent-q-plan-mode) (drift . agent-q-drift))
  "Commands for clicks on the parts of the header line.")

(defvar-local agent-q-chat--timer nil
  "The timer that shows the passing time of the running turn, or nil.")

(defvar-local agent-q-chat--reviewing nil
  "Whether the running turn's changes of files are reviewed because it asks so.")

;;;;; The mode

(defvar agent-q-chat-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-chat-return)
    (define-key map (kbd "S-<return>") #'newline)
    (define-key map (kbd "M-RET") #'agent-q-chat-send-steer)
    (define-key map (kbd "M-j") #'newline)
    (define-key map (kbd "C-j") #'newline)
    (define-key map (kbd "TAB") #'agent-q-chat-view-tab)
    (define-key map (kbd "C-M-i") #'completion-at-point)
    (define-key map (kbd "<backtab>") #'agent-q-chat-view-previous-item)
    (define-key map (kbd "M-p") #'agent-q-prompt-previous)
    (define-key map (kbd "M-n") #'agent-q-prompt-next)
    (define-key map (kbd "M-r") #'agent-q-prompt-search)
    (define-key map [remap save-buffer] #'agent-q-chat-file-save)
    (define-key map (kbd "C-c C-c") #'agent-q-chat-send-or-cancel)
    (define-key map (kbd "C-c C-k") #'agent-q-chat-send-cancel)
    (define-key map (kbd "C-c C-n") #'agent-q-chat-view-next-turn)
    (define-key map (kbd "C-c C-p") #'agent-q-chat-view-previous-turn)
    (define-key map (kbd "C-c C-f") #'agent-q-chat-view-toggle-all)
    (define-key map (kbd "C-c C-a") #'agent-q-goto-approval)
    (define-key map [remap keyboard-quit] #'agent-q-approval-quit)
    (define-key map (kbd "C-c C-v") #'agent-q-set-model)
    (define-key map (kbd "C-c C-t") #'agent-q-set-effort)
    (agent-q-names-define-keys map)
    (define-key map (kbd "C-c C-b") #'agent-q-debugger-hand-over)
    (agent-q-approval-prompt-define-keys map)
    (define-key map (kbd "C-c C-e") 'agent-q-compose)
    (define-key map (kbd "C-c C-q") #'agent-q-chat-send-queue-edit)
    (define-key map (kbd "C-c C-r") #'agent-q-rewind)
    (define-key map (kbd "C-c C-s") #'agent-q-plan-mode)
    (agent-q-code-block-define-keys map)
    map)
  "Keymap of `agent-q-chat-mode'.")

;;;###autoload
(define-derived-mode agent-q-chat-mode text-mode "agent-q"
  "Major mode of chats with an agent that looks into a running Lisp.

\\<agent-q-chat-mode-map>Type at the prompt and press \\[agent-q-chat-return]
to send.  A line that begins with a slash and the name of a tool calls this
tool without a model.  Each tool call is a line that \\[agent-q-chat-view-tab]
unfolds.  When one needs your approval, y runs it and n denies it, at the empty
prompt or on the call, to which \\[agent-q-goto-approval] goes; SPC shows more
of a long one.

\\{agent-q-chat-mode-map}"
  (setq-local bidi-paragraph-direction 'left-to-right
              bidi-inhibit-bpa t
              word-wrap t
              truncate-lines nil
              ;; Lines of prose are wrapped, and arrows beside each of them say nothing.
              fringe-indicator-alist (cons '(continuation nil nil) fringe-indicator-alist)
              ;; The end of a line must not be out of sight in a narrow window.
              truncate-partial-width-windows nil
              ;; Follow the output line by line instead of by half windows.
              scroll-conservatively 101
              imenu-create-index-function #'agent-q-chat-view-index
              filter-buffer-substring-function #'agent-q-render-copy
              require-final-newline nil
              agent-q-events-handler #'agent-q-chat-handle
              agent-q-session-chat-p t)
  (add-hook 'completion-at-point-functions
            #'agent-q-completion-console-at-point nil t)
  (agent-q-completion-setup)
  (agent-q-attach-setup)
  ;; Emacs 30's words of a dictionary, which is an error where there is none.
  (remove-hook 'completion-at-point-functions 'ispell-completion-at-point t)
  (add-hook 'post-command-hook #'agent-q-approval-gate-watch nil t)
  (agent-q-approval-prompt-setup)
  (agent-q-attention-setup)
  (add-hook 'pre-command-hook #'agent-q-prompt-come nil t)
  (add-hook 'window-size-change-functions #'agent-q-chat-scroll-fill nil t)
  (add-hook 'window-size-change-functions #'agent-q-chat-view-fit nil t)
  (add-hook 'completion-at-point-functions #'agent-q-names-complete 10 t)
  (add-hook 'agent-q-code-highlight-closed-functions #'agent-q-code-block-show-buttons nil t)
  (add-hook 'agent-q-code-highlight-closed-functions #'agent-q-code-proofread-later nil t)
  (add-hook 'eldoc-documentation-functions #'agent-q-names-eldoc nil t)
  (add-hook 'eldoc-documentation-functions #'agent-q-code-proofread-eldoc nil t)
  (add-hook 'eldoc-documentation-functions #'agent-q-markdown-table-eldoc nil t)
  (agent-q-names-setup)
  (add-hook 'kill-buffer-hook #'agent-q-chat--close nil t)
  (agent-q-chat-file-setup))

;; A copy would share the session, and end it when it is killed.
(put 'agent-q-chat-mode 'no-clone t)
(put 'agent-q-chat-mode 'no-clone-indirect t)

;;;;; Opening and closing

;;;###autoload
(defun agent-q-chat (&optional new)
  "Go to the latest chat of this project, or open one.
Outside of projects it is the latest chat of all.  With prefix argument NEW,
open another one."
  (interactive "P")
  (pop-to-buffer (agent-q-chat-open-here new))
  (agent-q-prompt-offer-draft))

(defun agent-q-chat-open (&optional new)
  "Return the buffer of the latest chat, or of a new one.
NEW non-nil means a new one."
  (or (and (not new) (seq-find #'agent-q-chat--open-p (agent-q-session-chats)))
      (agent-q-chat--make)))

(defun agent-q-chat--open-p (chat)
  "Whether CHAT can be gone to by those who look for any chat.
The tour's isn't one once there is a model."
  (or (memq agent-q-provider '(nil none))
      (not (agent-q-provider-scripted-p (buffer-local-value 'agent-q-session-provider chat)))))

(defun agent-q-chat-open-here (&optional new)
  "Return the buffer of the latest chat of this project, or of a new one.
NEW non-nil means a new one."
  (cond (new (agent-q-chat--make))
        ((and agent-q-session-number (not agent-q-session-mcp-client)
              (agent-q-chat--open-p (current-buffer)))
         (current-buffer))
        ((not (agent-q-project-known-p)) (agent-q-chat-open))
        (t (let ((root (agent-q-project-directory)))
             (or (seq-find (lambda (chat)
                             (and (equal root (buffer-local-value 'agent-q-session-root chat))
                                  (agent-q-chat--open-p chat)))
                           (agent-q-session-chats))
                 (agent-q-chat--make))))))

(defun agent-q-chat-resume (id name root)
  "Return the buffer of a new chat, the continuation of the stored one of ID.
NAME is what it is called, or nil, and ROOT the root of its project, or nil.
That may be gone."
  (let ((default-directory (if (and root (file-directory-p root))
                               (file-name-as-directory root)
                             default-directory)))
    (agent-q-chat--make id name)))

(defun agent-q-chat--make (&optional id called)
  "Make a chat and return its buffer.
ID is that of the stored chat that it continues, or nil, and CALLED what that
is called, or nil."
  (agent-q-chat-watch)
  (let* ((root (agent-q-project-directory))
         (name (agent-q-project-name root))
         (buffer (generate-new-buffer
                  (format "*agent-q: %s*" (agent-q-text-visible-line name 40))))
         (made nil))
    (unwind-protect
        (with-current-buffer buffer
          (agent-q-chat--set-up (agent-q-connection-default-connection) root name id)
          (when called
            (agent-q-chat-history-titled called nil))
          (setq made t)
          (agent-q-chat-send-provider)
          (agent-q-chat-view-welcome-update))
      (unless made
        (kill-buffer buffer)))
    buffer))

(defun agent-q-chat--set-up (connection root name id)
  "Make the current buffer a chat about the image of CONNECTION.
ROOT is the root of its project, or nil, and NAME what that is called.  ID is
that of the stored chat that it goes on with, or nil."
  (agent-q-chat-mode)
  (agent-q-chat-begin connection root name
                      (lambda ()
                        (unless id
                          (setq agent-q-chat-view-welcome-first (agent-q-chat-history-none-p))
                          (agent-q-chat-view-welcome-setup))
                        (agent-q-prompt-setup))
                      (agent-q-chat-history-settings id))
  ;; A chat that is resumed has its own once it is read.
  (setq agent-q-chat-history-id (or id (agent-q-core-chat-id agent-q-session-number))))

(defun agent-q-chat-begin (connection root name below &optional store)
  "Open a session in the current buffer, whose mode is set, about CONNECTION.
ROOT and NAME are those of its project.  BELOW is called to put what stands
there before the session begins into the empty buffer.  STORE says where the
core saves it, as JSON, or is nil."
  (setq agent-q-session-connection connection
        agent-q-session-root root
        agent-q-session-project name)
  (agent-q-render-setup)
  (agent-q-call-setup)
  (funcall below)
  (setq agent-q-chat-view-header-commands agent-q-chat--commands)
  (agent-q-chat-view-header-setup)
  (agent-q-registry-ensure)
  (setq agent-q-chat-send-settings (agent-q-chat-send-make-settings)
        agent-q-session-number (agent-q-core-open-session
                                (agent-q-json-serialize agent-q-chat-send-settings) store))
  (agent-q-events-register agent-q-session-number (current-buffer))
  (agent-q-image-tools-ensure connection))

(defun agent-q-chat-watch ()
  "Start what the buffers of sessions need, however many there are."
  (agent-q-events-ensure)
  (agent-q-image-history-record-start)
  (agent-q-chat-follow-start)
  (add-hook 'agent-q-connection-call-ended-functions #'agent-q-image-history-echo-call))

(defun agent-q-chat--close ()
  "End the session of this chat."
  (agent-q-chat-stop-clock)
  (agent-q-events-garbage-let-go (current-buffer))
  (when agent-q-session-number
    (let ((session agent-q-session-number))
      (agent-q-prompt-keep-draft (agent-q-chat-send-queue-texts))
      (setq agent-q-session-number nil)
      (agent-q-chat-follow-stop)
      (agent-q-review-forget-drafts)
      (agent-q-call-events-leave)
      (agent-q-image-release-owned (current-buffer))
      (agent-q-events-forget session)
      (agent-q-core-close-session session))))

(defun agent-q-chat-return ()
  "Send the text at the prompt; in the log, act on the thing at point."
  (interactive nil agent-q-chat-mode)
  (cond ((agent-q-prompt-p) (agent-q-chat-send))
        ;; Under Evil, the keys of a place are not those of its text.
        ((get-text-property (point) 'agent-q-live) (agent-q-names-follow))
        ((get-text-property (point) 'agent-q-link) (agent-q-markdown-link-follow))
        ((and (agent-q-chat-view-item-of-line)
              (not (agent-q-chat-view-welcome-p (agent-q-chat-view-item-of-line))))
         (goto-char (agent-q-render-item-start (agent-q-chat-view-item-of-line)))
         (agent-q-render-toggle))
        ((agent-q-names-follow-written))
        ;; Where a key from below arrives that looks for the button.
        ((and (eolp) (not (bobp)) (button-at (1- (point)))) (push-button (1- (point))))
        (t (goto-char (point-max))
           (message "Nothing to open there; this is the prompt"))))

;;;;; Events

(defun agent-q-chat-handle (event)
  "Apply EVENT to this chat."
  (pcase (plist-get event :type)
    ((or :text :reasoning :call-drafted :call-proposed :turn-started)
     (agent-q-chat-commands-backoff-begin))
    (:turn-ended (agent-q-chat-commands-backoff-over (plist-get event :outcome))))
  (pcase (plist-get event :type)
    (:text (agent-q-chat--streams :streaming)
           (agent-q-render-text (plist-get event :text))
           (agent-q-names-later)
           (agent-q-events-afterwards #'agent-q-chat-scroll))
    (:reasoning (agent-q-chat--streams :reasoning)
                (agent-q-render-reasoning (plist-get event :text)))
    (:call-drafted (agent-q-chat--drafted event))
    (:state (setq agent-q-chat-view-header-state (plist-get event :state))
            (when (eq agent-q-chat-view-header-state :waiting)
              (agent-q-chat-view-header-forget-draft)
              (agent-q-review-forget-drafts))
            (unless (eq agent-q-chat-view-header-state :paused)
              (agent-q-render-settle 'limit))
            (when (and (eq agent-q-chat-view-header-state :summarizing) (null agent-q-chat-view-header-since))
              (agent-q-chat-start-clock))
            (agent-q-chat--keep-garbage))
    (:chat-resumed (let ((about (agent-q-json-alist (plist-get event :about) t)))
                     (agent-q-chat-history-past-resumed about)
                     (agent-q-chat-history-rewind-resumed (alist-get 'rewind about))))
    (:past-turn (agent-q-chat-history-past-show event))
    (:turn-begins (agent-q-chat--note-turn (plist-get event :turn)))
    (:turn-started (agent-q-chat--turn-started event))
    (:rewound (agent-q-chat-history-rewind-hide (plist-get event :turn) (plist-get event :rewind)))
    (:unwound (agent-q-chat-history-rewind-show (plist-get event :rewind))
              (agent-q-render-settle 'turn))
    (:turn-undone (agent-q-changes-line-undone (plist-get event :turn) (plist-get event :left))
                  (agent-q-changes-offer (plist-get event :turn)
                                         (plist-get event :definitions)
                                         (plist-get event :systems)))
    (:turn-ended (agent-q-chat--turn-ended (plist-get event :outcome)
                                           (plist-get event :message)
                                           (plist-get event :why)))
    (:call-proposed (agent-q-chat-send-plan-note)
                    (agent-q-review-draft-stop)
                    (agent-q-call-events-proposed event))
    (:approval (agent-q-chat--approval event))
    (:approval-changed (agent-q-chat--approval-changed event))
    (:approval-settled (agent-q-call-events-settled-elsewhere event))
    (:call-started (agent-q-call-events-started-event event))
    (:call-progress (agent-q-call-events-progress event))
    (:call-finished (agent-q-call-events-finished event)
                    (agent-q-review-place-again))
    (:usage (agent-q-chat-view-header-usage event))
    (:retrying (agent-q-chat-commands-backoff-show event))
    (:cache-lost (setq agent-q-chat-view-header-cache-lost (plist-get event :why)))
    (:window-filled (setq agent-q-chat-view-header-filled
                          (cons (plist-get event :tokens) (plist-get event :window))))
    (:summarized (agent-q-chat-commands-usage-summarized event)
                 ;; The model has no more of it than the summary says.
                 (agent-q-attach-forget-sent))
    (:steered (agent-q-chat--show-message event))
    (:limit-reached (agent-q-chat-commands-retry-ask (plist-get event :text)))
    (:notice (agent-q-render-notice (plist-get event :text)))
    ((or :image-call :emacs-call) (agent-q-chat-send-emacs-call event)))
  (unless (eq (plist-get event :type) :text)
    (agent-q-events-afterwards #'agent-q-chat-view-header-update)))

(defun agent-q-chat--keep-garbage ()
  "Put off garbage collection while an answer is on its way or tools are running."
  (if (memq agent-q-chat-view-header-state '(:waiting :streaming :reasoning :drafting :running))
      (agent-q-events-garbage-keep (current-buffer))
    (agent-q-events-garbage-let-go (current-buffer))))

(defun agent-q-chat--streams (state)
  "Note that what is streamed now is the one that STATE names."
  (when (and (memq agent-q-chat-view-header-state '(:streaming :reasoning :drafting))
             (not (eq state agent-q-chat-view-header-state)))
    (setq agent-q-chat-view-header-state state)
    (agent-q-events-afterwards #'agent-q-chat-view-header-update)))

(defun agent-q-chat--drafted (event)
  "Show that the model is writing the call of EVENT."
  (agent-q-chat--streams :drafting)
  (agent-q-chat-view-header-drafted event)
  (unless agent-q-approval-handler
    (agent-q-review-drafted event #'agent-q-chat-send-cancel)))

(defun agent-q-chat--approval (event)
  "Have the call of EVENT approved, by `agent-q-approval-handler' or the user."
  (if agent-q-approval-handler
      (progn (agent-q-call-events-approval-elsewhere event)
             (agent-q-execute-approve event))
    (agent-q-call-events-approval
     event (lambda (call)
             (let ((arguments (agent-q-call-parsed-arguments call)))
               ;; Its own argument of that name is shown with the others.
               (unless (assq 'image arguments)
                 (agent-q-approval-target
                  arguments
                  (and (agent-q-registry-about-image-p event)
                       (or (agent-q-call-second-lisp call)
                           (and (agent-q-chat-send-connected-p)
                                (agent-q-connection-label agent-q-session-connection)))))))))
    (unless (agent-q-registry-effect-p (plist-get event :tool))
      (agent-q-review-review event #'agent-q-review-place-or-diff))
    (agent-q-attention-asked (gethash (plist-get event :call) agent-q-call-table))))

(defun agent-q-chat--approval-changed (event)
  "Show what the request of EVENT is about now, as its file was changed."
  (let ((call (gethash (plist-get event :call) agent-q-call-table)))
    (when (agent-q-call-open-p call)
      (agent-q-review-review-again call)
      (agent-q-approval-gate-redraw call)
      (message "agent-q: The file of a request was changed; it shows the edit as it fits now (%s)"
               (buffer-name)))))

(defun agent-q-chat--note-turn (turn)
  "Note that the turn of the number TURN begins."
  (agent-q-changes-line-begin)
  (setq agent-q-session-turn (agent-q-changes-turn turn))
  (setf (alist-get turn agent-q-chat-history-past-turns) agent-q-session-turn))

(defun agent-q-chat--turn-started (event)
  "Show the user's message of EVENT, with which a turn begins."
  (agent-q-chat-view-welcome-finish)
  (setq agent-q-chat-view-header-cache-lost nil
        agent-q-chat-view-header-turn-cost nil
        agent-q-chat-view-header-turn nil)
  (agent-q-render-settle 'turn)
  (agent-q-chat--withdraw-echo)
  (agent-q-chat-history-titled (plist-get event :text) (plist-get event :along))
  (agent-q-chat--file-note)
  (when (agent-q-chat-send-queue-message-review (agent-q-chat--show-message event))
    (setq-local agent-q-review-edits t
                agent-q-chat--reviewing t))
  (agent-q-chat-start-clock))

(defun agent-q-chat-start-clock ()
  "Show the time that passes from now on."
  (setq agent-q-chat-view-header-since (current-time))
  (agent-q-chat-stop-clock)
  (setq agent-q-chat--timer
        (run-at-time 1 1 #'agent-q-chat--tick (current-buffer))))

(defun agent-q-chat--show-message (event)
  "Show the user's message of EVENT with what is attached, and return it."
  (let* ((text (plist-get event :text))
         (message (agent-q-chat-send-queue-read (plist-get event :message-id) text)))
    (agent-q-render-user text (plist-get event :turn))
    (when (agent-q-chat-send-queue-message-look message)
      (agent-q-render-notice (concat "  about " (agent-q-chat-send-queue-message-look message))))
    (mapc #'agent-q-attach-kinds-excerpt-show (agent-q-chat-send-queue-message-excerpts message))
    message))

(defun agent-q-chat--turn-ended (outcome message why)
  "Show that a turn ended with OUTCOME, for the reason WHY, and MESSAGE, if any."
  (agent-q-render-finish)
  (agent-q-chat-send-plan-note)
  (agent-q-call-events-abandon)
  (agent-q-review-forget-drafts)
  (pcase outcome
    (:cancelled (agent-q-render-notice "Cancelled.")
                (agent-q-image-release-owned (current-buffer)))
    ((or :failed :limit :interrupted)
     (agent-q-render-notice (or message "The turn failed.")
                            'agent-q-failure)
     ;; Its message may not be in the conversation.
     (agent-q-attach-forget-sent)
     (agent-q-chat-commands-retry-offer outcome why)))
  (setq agent-q-chat-view-header-since nil
        agent-q-chat-view-header-state :idle)
  (agent-q-render-settle 'limit)
  (agent-q-chat--keep-garbage)
  (when agent-q-chat--reviewing
    (setq agent-q-chat--reviewing nil)
    (kill-local-variable 'agent-q-review-edits))
  (agent-q-chat-stop-clock)
  (agent-q-changes-line-tell #'agent-q-drift-tell)
  (when (eq outcome :finished)
    (when (and (not (agent-q-provider-scripted-p agent-q-session-provider))
               (agent-q-image-history-echo-offer-p))
      (agent-q-chat--offer-echo))
    (agent-q-chat-send-plan-offer))
  (agent-q-attention-ended outcome))

(defvar-local agent-q-chat--echo-offer nil
  "Where the offer of the echo is in this log, a cons of markers, or nil.")

(defun agent-q-chat--offer-echo ()
  "Offer the echo of evaluations in the REPL, until the next turn."
  (let ((start (copy-marker agent-q-render-end)))
    (agent-q-render-notice "Show what the agent evaluates in your REPL, as comments?")
    (pcase-dolist (`(,label . ,value) '(("[Show it]" . t) ("[Don't]" . nil)))
      (agent-q-render-button label
                             (lambda ()
                               (agent-q-image-history-echo-choose value)
                               (agent-q-chat--withdraw-echo))
                             'echo))
    (setq agent-q-chat--echo-offer (cons start (copy-marker agent-q-render-end)))))

(defun agent-q-chat--withdraw-echo ()
  "Remove the offer of the echo, which is about all chats, not about a turn."
  (pcase agent-q-chat--echo-offer
    (`(,start . ,end)
     (setq agent-q-chat--echo-offer nil)
     (agent-q-render-settle 'echo)
     (agent-q-render-remove start end))))

(defun agent-q-chat--tick (buffer)
  "Show the time that passes in the running turn of the chat BUFFER."
  (with-current-buffer buffer
    (agent-q-call-events-tick)
    (agent-q-chat-commands-backoff-tick)
    (agent-q-chat-view-header-update)))

(defun agent-q-chat-stop-clock ()
  "Stop showing the passing time."
  (when agent-q-chat--timer
    (cancel-timer agent-q-chat--timer)
    (setq agent-q-chat--timer nil)))

;;;;; Looking behind the scene

;;;###autoload
(defun agent-q-show-system-prompt ()
  "Show what the current chat sends to the model, apart from your messages.
That is the system prompt and the context in front of each message."
  (interactive)
  (agent-q-session-check)
  (agent-q-chat-send-configure)
  (pcase-let ((`(,prompt ,context) (agent-q-core-system-prompt agent-q-session-number
                                                               (agent-q-chat-send-context))))
    (agent-q-text-with-page "*agent-q system prompt*"
      (princ prompt)
      (princ "\n\n----- In front of a message that you send now -----\n\n")
      (princ context))))

(provide 'agent-q-chat)
;;; agent-q-chat.el ends here
