;;; agent-q-compose.el --- Writing a message in a buffer of its own  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; For messages that are too long for the prompt.  Such a buffer begins with what stands at
;; the prompt; what is left of it when it is closed goes back there.

;;; Code:

(require 'agent-q-chat-send)
(require 'agent-q-mention-complete)
(require 'agent-q-prompt)
(require 'agent-q-session)
(require 'subr-x)

(defvar-local agent-q-compose--chat nil
  "The chat that this message is for.")

(defvar agent-q-compose-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'agent-q-compose-send)
    (define-key map (kbd "C-c C-k") #'agent-q-compose-leave)
    map)
  "Keymap of `agent-q-compose-mode'.")

(define-derived-mode agent-q-compose-mode text-mode "agent-q message"
  "Major mode for writing a message to a chat.

\\{agent-q-compose-mode-map}"
  (setq header-line-format
        (substitute-command-keys
         "\\<agent-q-compose-mode-map> \\[agent-q-compose-send] sends, \
\\[agent-q-compose-leave] puts it back at the prompt"))
  ;; TAB completes mentions.
  (setq-local tab-always-indent 'complete)
  (add-hook 'kill-buffer-hook #'agent-q-compose--give-back nil t))

;;;###autoload
(defun agent-q-compose ()
  "Write the message at the prompt in a buffer of its own."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (let* ((chat (current-buffer))
         (text (agent-q-prompt-text))
         (buffer (get-buffer-create (format "*agent-q message for %s*" (buffer-name)))))
    (agent-q-prompt-replace "")
    (pop-to-buffer buffer)
    (unless (derived-mode-p 'agent-q-compose-mode)
      (agent-q-compose-mode))
    ;; What was written for a chat that is closed now goes to the one in its place.
    (unless (eq chat agent-q-compose--chat)
      (setq agent-q-compose--chat chat)
      (agent-q-mention-complete-setup chat))
    (goto-char (point-max))
    (unless (or (bolp) (string-empty-p text))
      (insert "\n"))
    (insert text)))

(defun agent-q-compose--take ()
  "Return the text of this buffer, and erase it."
  (prog1 (string-trim (buffer-string))
    (erase-buffer)))

(defun agent-q-compose--give-back ()
  "Put what is written here back to the prompt of its chat.
Where that is closed, it can be yanked."
  (let ((text (agent-q-compose--take)))
    (cond ((string-empty-p text))
          ((buffer-live-p agent-q-compose--chat)
           (with-current-buffer agent-q-compose--chat
             (agent-q-prompt-replace (string-trim (concat (agent-q-prompt-text) "\n" text)))))
          (t (kill-new text)
             (message "The chat is closed; the text is in the kill ring")))))

(defun agent-q-compose--close ()
  "Close this buffer and go to its chat."
  (let ((chat agent-q-compose--chat))
    (quit-window t)
    (when (buffer-live-p chat)
      (pop-to-buffer chat))))

(defun agent-q-compose-send ()
  "Send what is written here."
  (interactive nil agent-q-compose-mode)
  (unless (buffer-live-p agent-q-compose--chat)
    (user-error "The chat is closed; the text stays here"))
  (when (string-blank-p (buffer-string))
    (user-error "Type a message first"))
  (let ((text (agent-q-compose--take))
        (chat agent-q-compose--chat))
    (agent-q-compose--close)
    (with-current-buffer chat
      (agent-q-compose--send text))))

(defun agent-q-compose--send (text)
  "Send TEXT as if it was typed at the prompt of this chat.
What is there already stays there."
  (let ((typed (agent-q-prompt-text))
        (chat (current-buffer)))
    (agent-q-prompt-replace text)
    (unwind-protect
        (agent-q-chat-send)
      (when (and (buffer-live-p chat) (not (string-blank-p typed)))
        (with-current-buffer chat
          (save-excursion
            (goto-char (point-max))
            (insert (if (string-blank-p (agent-q-prompt-text)) "" "\n") typed)))))))

(defun agent-q-compose-leave ()
  "Put what is written here back at the prompt."
  (interactive nil agent-q-compose-mode)
  (agent-q-compose--close))

(provide 'agent-q-compose)
;;; agent-q-compose.el ends here
