;;; agent-q-attention.el --- Telling a user who is elsewhere  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; While a request waits in any chat, the mode line has a mark that leads there.  Who has
;; been elsewhere for a while is notified by the desktop, and what runs is not killed without
;; a question.  Nothing of this is there before a chat is, nor after the last one.

;;; Code:

(require 'agent-q)
(require 'agent-q-call)
(require 'agent-q-chat-view)
(require 'agent-q-events)
(require 'agent-q-review-place)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'seq)

(declare-function notifications-notify "notifications" (&rest params))

(defcustom agent-q-attention-notify t
  "Whether the desktop notifies you when a turn asks or ends.
It does so when you have been elsewhere for a while, on desktops that
Emacs reaches by D-Bus."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-attention--away 10
  "Seconds without a command in a chat after which its user counts as away.
What the chat says before is told then, if it still holds.")

(defvar-local agent-q-attention--here nil
  "Time of the user's last command in this chat.")

(defvar-local agent-q-attention--timer nil
  "The timer that notifies the user of what this chat has said, or nil.")

(defun agent-q-attention-setup ()
  "Make the current chat ask before it is killed, and notice its user."
  (setq agent-q-attention--here (current-time))
  (add-hook 'post-command-hook #'agent-q-attention--note nil t)
  (add-hook 'kill-buffer-query-functions #'agent-q-attention--kill-p nil t)
  (add-hook 'kill-emacs-query-functions #'agent-q-attention--quit-p))

(defun agent-q-attention--note ()
  "Note that the user is here."
  (setq agent-q-attention--here (current-time)))

;;;; The mark in the mode line

(defvar agent-q-attention-mark nil
  "What the mode line shows while a request waits in a chat.")
;; Without this, Emacs would show it without its face and keys.
(put 'agent-q-attention-mark 'risky-local-variable t)

(defconst agent-q-attention--element '(agent-q-attention-mark ("" agent-q-attention-mark))
  "The part of the mode line that shows the mark.")

(defvar agent-q-attention-map
  (let ((map (make-sparse-keymap)))
    (define-key map [mode-line mouse-1] #'agent-q-goto-approval)
    map)
  "Keymap on the mark in the mode line.")

(defun agent-q-attention--count (except)
  "Return how many requests wait for the user in all chats but EXCEPT."
  (seq-reduce (lambda (count buffer)
                (if (eq buffer except) count
                  (with-current-buffer buffer
                    (+ count
                       (if (eq agent-q-chat-view-header-state :paused) 1 0)
                       (if agent-q-call-table (length (agent-q-call-all-waiting)) 0)))))
              (agent-q-session-buffers) 0))

(defun agent-q-attention-update (&optional except)
  "Show in the mode line how many requests wait in all chats but EXCEPT."
  (let* ((count (agent-q-attention--count except))
         (mark (and (> count 0)
                    (propertize (if (= count 1) " [agent-q asks]" (format " [agent-q asks %d]" count))
                                'face 'agent-q-attention
                                'mouse-face 'mode-line-highlight
                                'help-echo "mouse-1: go to the pending request"
                                'local-map agent-q-attention-map))))
    (unless (equal-including-properties mark agent-q-attention-mark)
      (setq agent-q-attention-mark mark
            mode-line-misc-info (remove agent-q-attention--element mode-line-misc-info))
      (when mark
        ;; First, as what clients show there may reach the end of the window.
        (push agent-q-attention--element mode-line-misc-info))
      (force-mode-line-update t))))

(defun agent-q-attention--soon ()
  "Show how many requests wait, once the events at hand are applied.
Each of them may change that, and to look through all chats takes a while."
  (agent-q-events-afterwards #'agent-q-attention-update))

(defvar-local agent-q-attention--said nil
  "What the echo area was told last of the requests of this chat, or nil.")

(defun agent-q-attention--unsay ()
  "Clear the echo area if it still asks for this chat."
  (when (and agent-q-attention--said (equal agent-q-attention--said (current-message)))
    (message nil))
  (setq agent-q-attention--said nil))

(defun agent-q-attention--settled (_call)
  "Show that a call of this chat was decided or is over."
  (unless (agent-q-call-waiting)
    (when agent-q-attention--timer
      (agent-q-attention--cancel))
    (agent-q-attention--unsay))
  (agent-q-attention--soon))

(defun agent-q-attention-leave (chat)
  "Forget CHAT, which is going away."
  (with-current-buffer chat (agent-q-attention--unsay))
  (agent-q-attention-update chat)
  (unless (remq chat (agent-q-session-buffers))
    (remove-hook 'kill-emacs-query-functions #'agent-q-attention--quit-p)))

(add-hook 'agent-q-call-settled-functions #'agent-q-attention--settled)

;;;; Asking and ending

(defun agent-q-attention--watched-p ()
  "Whether the user is looking at the current chat."
  (and (eq (window-buffer (selected-window)) (current-buffer))
       ;; Nil is said only where it is known.
       (frame-focus-state (selected-frame))))

(defun agent-q-attention--how (call)
  "Return how the user gets to CALL, the next request of the current chat."
  (let ((here (window-buffer (selected-window))))
    (cond ((eq here (current-buffer))
           (if agent-q-session-mcp-client "y or n at the end of the buffer"
             "y or n at the empty prompt"))
          ((eq here (agent-q-review-place-shown (agent-q-call-review call)))
           "y or k on it")
          (t
           (let ((key (with-current-buffer here
                        (where-is-internal #'agent-q-goto-approval nil t))))
             (concat (if key (concat (key-description key) ", ") "")
                     "M-x agent-q-goto-approval"))))))

(defun agent-q-attention-asked (call)
  "Tell the user that CALL of the current chat waits for a decision."
  (agent-q-attention-update)
  (let* ((count (length (agent-q-call-all-waiting)))
         (question (cond ((> count 1) (format "%d pending requests" count))
                         ((agent-q-call-effect-p call)
                          (format "Allow %s?" (agent-q-call-name call)))
                         ((agent-q-call-change call)
                          (format "%s %s?" (agent-q-call-change-verb (agent-q-call-change call))
                                  (agent-q-call-change-summary call)))
                         (t (format "Run %s?" (agent-q-call-name call)))))
         (question (if agent-q-session-mcp-client
                       (format "%s asks: %s" (agent-q-text-visible-line agent-q-session-mcp-client 40) question)
                     question)))
    (setq agent-q-attention--said
          (message "agent-q: %s (%s)" question (agent-q-attention--how call)))
    (agent-q-attention--notify question)))

(defun agent-q-attention-tell (question)
  "Tell the user that the turn of the current chat waits, and asks QUESTION."
  (agent-q-attention-update)
  (message "agent-q: %s" question)
  (agent-q-attention--notify question))

(defun agent-q-attention-ended (outcome)
  "Tell the user that the turn of the current chat ended with OUTCOME."
  (agent-q-attention--soon)
  (pcase outcome
    (:finished (agent-q-attention--over "The turn is over"))
    (:limit (agent-q-attention--over "The turn was stopped"))
    ((or :failed :interrupted) (agent-q-attention--over "The turn failed"))))

(defun agent-q-attention--over (text)
  "Tell the user TEXT, how the turn of the current chat ended."
  (unless (get-buffer-window (current-buffer) 'visible)
    (message "agent-q: %s (%s)" text (buffer-name)))
  (agent-q-attention--notify text))

(defun agent-q-attention--left-to-wait ()
  "Return for how many seconds more the user of this chat doesn't count as away."
  (- agent-q-attention--away (float-time (time-since agent-q-attention--here))))

(defun agent-q-attention--notify (text)
  "Notify the user of TEXT about the current chat, once the user counts as away."
  (agent-q-attention--cancel)
  (when (and agent-q-attention-notify
             agent-q-attention--here
             (getenv "DBUS_SESSION_BUS_ADDRESS")
             (require 'notifications nil t))
    ;; The desktop may take its time, which is not the filter's.
    (setq agent-q-attention--timer
          (run-at-time (max 0 (agent-q-attention--left-to-wait)) nil
                       #'agent-q-attention--notify-now (current-buffer) text))))

(defun agent-q-attention--cancel ()
  "Notify the user of nothing that this chat has said before."
  (when agent-q-attention--timer
    (cancel-timer agent-q-attention--timer)
    (setq agent-q-attention--timer nil)))

(defun agent-q-attention--notify-now (chat text)
  "Notify the user of TEXT about CHAT, unless the user has been there since."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (setq agent-q-attention--timer nil)
      (unless (or (agent-q-attention--watched-p)
                  (> (agent-q-attention--left-to-wait) 0))
        (agent-q-attention--send chat text)))))

(defun agent-q-attention--silently (function &rest arguments)
  "Call FUNCTION with ARGUMENTS while messages are suppressed."
  (let ((inhibit-message t)
        (message-log-max nil))
    (apply function arguments)))

(defun agent-q-attention--send (chat text)
  "Show TEXT about CHAT on the desktop; where that can't be done, do nothing."
  (when (buffer-live-p chat)
    (ignore-errors
      ;; It demotes some errors to messages by itself.
      (agent-q-attention--silently
       #'notifications-notify
       :title (buffer-name chat) :body text :app-name "agent-q"
       :actions '("default" "Show")
       :on-action (lambda (&rest _) (agent-q-attention--show chat))))))

(defun agent-q-attention--show (chat)
  "Show CHAT, whose notification was clicked on."
  (when (buffer-live-p chat)
    (pop-to-buffer chat)
    (select-frame-set-input-focus (selected-frame))))

;;;; Killing what runs

(defun agent-q-attention--kill-p ()
  "Whether the current chat may be killed; in mid-turn, ask the user."
  (or noninteractive
      (not (agent-q-chat-view-header-busy-p))
      (yes-or-no-p (format "A turn is running in %s; kill the chat? " (buffer-name)))))

(defun agent-q-attention--quit-p ()
  "Whether Emacs may end; while a chat is in mid-turn, ask the user."
  (let ((busy (seq-filter (lambda (buffer)
                            (with-current-buffer buffer (agent-q-chat-view-header-busy-p)))
                          (agent-q-session-buffers))))
    (or noninteractive
        (not busy)
        (yes-or-no-p (if (cdr busy)
                         (format "Turns are running in %d chats; exit anyway? " (length busy))
                       (format "A turn is running in %s; exit anyway? "
                               (buffer-name (car busy))))))))

(provide 'agent-q-attention)
;;; agent-q-attention.el ends here
