;;; agent-q-chats-list.el --- The list of chats  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; All chats in one list: those that are open with what they do, and those that were
;; saved.  A key goes there, others rename, delete, fork and export.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-chats)
(require 'agent-q-chats-store)
(require 'agent-q-cost)
(require 'agent-q-header)
(require 'agent-q-image-connection)
(require 'agent-q-list)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'seq)
(require 'tabulated-list)

(defvar-local agent-q-chats-list--words ""
  "The words that the listed chats have; empty for all.")

(defvar-local agent-q-chats-list--stored nil
  "The stored chats, alists, the latest first.")

(defvar agent-q-chats-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-chats-list-go)
    (define-key map "s" #'agent-q-chats-list-search)
    (define-key map "r" #'agent-q-chats-list-rename)
    (define-key map "d" #'agent-q-chats-list-delete)
    (define-key map "f" #'agent-q-chats-list-fork)
    (define-key map "e" #'agent-q-chats-list-export)
    map)
  "Keymap of `agent-q-chats-list-mode'.")

(define-derived-mode agent-q-chats-list-mode tabulated-list-mode "agent-q chats"
  "Major mode of the list of chats, those that are open and those that were saved.

\\<agent-q-chats-list-mode-map>\\[agent-q-chats-list-go] goes to the chat at point, \
\\[agent-q-chats-list-search] lists those with words in their texts;
\\[agent-q-chats-list-rename] renames, \\[agent-q-chats-list-delete] deletes, \
\\[agent-q-chats-list-fork] forks, and \\[agent-q-chats-list-export] exports.

\\{agent-q-chats-list-mode-map}"
  (setq mode-line-process '(:eval (if (string-empty-p agent-q-chats-list--words)
                                      agent-q-list-hint
                                    (format " with \"%s\"" agent-q-chats-list--words)))
        revert-buffer-function #'agent-q-chats-list--refresh))

;;;###autoload
(defun agent-q-chats ()
  "List all chats: those that are open, and those that were saved."
  (interactive)
  (pop-to-buffer (get-buffer-create "*agent-q chats*"))
  (unless (derived-mode-p 'agent-q-chats-list-mode)
    (agent-q-chats-list-mode))
  (agent-q-chats-list--refresh))

(defun agent-q-chats-list--refresh (&rest _)
  "Ask the core for the stored chats and show all."
  (agent-q-chats-find
   agent-q-chats-list--words
   (lambda (chats problem)
     (setq agent-q-chats-list--stored chats)
     (agent-q-list-setup (agent-q-chats-list--columns) #'agent-q-chats-list--rows
                         (if (string-empty-p agent-q-chats-list--words)
                             "There is no chat yet; M-x agent-q-chat opens one.\n"
                           "No chat matches; \\[agent-q-chats-list-search] searches again.\n"))
     (agent-q-list-print)
     (force-mode-line-update)
     (when problem (message "%s" problem)))))

(defun agent-q-chats-list--columns ()
  "Return the columns of the list."
  '((10 "State" 12 t) (6 "When" 16 t) (8 "Project" 12 t) (4 "Image" 12 t)
    (3 "Model" 14 t) (2 "Turns" 5 nil :right-align t) (7 "Tokens" 7 nil :right-align t)
    (5 "Cost" 9 nil :right-align t) (11 "Chat" 0 nil)))

;;;; Rows

(defun agent-q-chats-list--rows ()
  "Return the rows: open chats, then those that are only stored."
  (let* ((open (agent-q-session-buffers))
         (stored (seq-remove (lambda (chat) (agent-q-chats-buffer (alist-get 'id chat)))
                             agent-q-chats-list--stored)))
    (append
     (delq nil (mapcar #'agent-q-chats-list--open-row open))
     (mapcar (lambda (chat) (agent-q-chats-list--row chat "")) stored))))

(defun agent-q-chats-list--open-row (buffer)
  "Return the row of the open chat BUFFER, or nil when it hasn't the words."
  (let ((chat (agent-q-chats-list--stored-one
               (buffer-local-value 'agent-q-chats-store-id buffer))))
    (when (or chat (string-empty-p agent-q-chats-list--words))
      (with-current-buffer buffer
        (let ((live `((id . ,buffer)
                      (name . ,agent-q-chats-past-name)
                      (project . ,agent-q-session-project)
                      (root . ,agent-q-session-root)
                      (image . ,(and (agent-q-image-live-p agent-q-session-connection)
                                     (agent-q-image-label agent-q-session-connection)))
                      (model . ,agent-q-header-model)
                      (input . ,agent-q-header-input)
                      (output . ,agent-q-header-output)
                      (cost . ,agent-q-header-cost)
                      (unpriced . ,agent-q-header-unpriced))))
          (agent-q-chats-list--row (append live chat) (agent-q-chats-list--state)))))))

(defun agent-q-chats-list--state ()
  "Return what the chat of this buffer does, as text."
  (cond ((agent-q-call-waiting)
         (propertize "needs you" 'face 'agent-q-attention))
        ((eq agent-q-header-state :paused) (propertize "go on?" 'face 'agent-q-attention))
        ((agent-q-header-busy-p) "works")
        (agent-q-chats-store-busy "read only")
        (t "open")))

(defun agent-q-chats-list--row (chat state)
  "Return the row of CHAT, an alist, whose STATE is a text."
  (let ((text (lambda (key)
                (agent-q-visible-line (or (alist-get key chat) "") 60))))
    (list (alist-get 'id chat)
          (vector state
                  (if (alist-get 'latest chat) (agent-q-chats-date chat) "")
                  (funcall text 'project)
                  (funcall text 'image)
                  (funcall text 'model)
                  (number-to-string (or (alist-get 'turns chat) 0))
                  (agent-q-header-tokens (+ (alist-get 'input chat) (alist-get 'output chat)))
                  (agent-q-cost-text (alist-get 'cost chat) (alist-get 'unpriced chat))
                  (agent-q-chats-list--chat-text chat)))))

(defun agent-q-chats-list--chat-text (chat)
  "Return the title of CHAT, an alist, and the words around what was found."
  (let ((waiting (and (bufferp (alist-get 'id chat))
                      (with-current-buffer (alist-get 'id chat) (agent-q-call-waiting))))
        (excerpt (alist-get 'excerpt chat)))
    (concat (if waiting (format "%s? " (agent-q-call-tool waiting)) "")
            (if (string-empty-p (agent-q-chats-title chat))
                (propertize "nothing said yet" 'face 'agent-q-dim)
              (agent-q-chats-title chat))
            (if excerpt
                (propertize (format "  %s" (agent-q-visible-line excerpt 100))
                            'face 'agent-q-dim)
              ""))))

;;;; Commands

(defun agent-q-chats-list--at-point ()
  "Return the chat at point as an alist; its id is that of its file, or nil."
  (let ((id (or (tabulated-list-get-id) (user-error "No chat here"))))
    (if (bufferp id)
        (append (with-current-buffer id
                  `((id . ,agent-q-chats-store-id) (buffer . ,id) (name . ,agent-q-chats-past-name)
                    (root . ,agent-q-session-root)))
                (agent-q-chats-list--stored-one
                 (buffer-local-value 'agent-q-chats-store-id id)))
      (agent-q-chats-list--stored-one id))))

(defun agent-q-chats-list--stored-one (id)
  "Return the stored chat ID as an alist, or nil if it isn't listed."
  (and id (seq-find (lambda (chat) (equal id (alist-get 'id chat)))
                    agent-q-chats-list--stored)))

(defun agent-q-chats-list--saved-at-point ()
  "Return the chat at point as an alist, which has to be saved."
  (let ((chat (agent-q-chats-list--at-point)))
    (unless (alist-get 'id chat)
      (user-error "This chat is not saved"))
    chat))

(defun agent-q-chats-list-go ()
  "Go to the chat at point."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats-list--at-point)))
    (if (alist-get 'buffer chat) (pop-to-buffer (alist-get 'buffer chat))
      (agent-q-chats-go chat))))

(defun agent-q-chats-list-search (words)
  "List the chats that have all WORDS in their names or texts; all without any."
  (interactive (list (read-string "Chats with the words: ")) agent-q-chats-list-mode)
  (setq agent-q-chats-list--words words)
  (agent-q-chats-list--refresh))

(defun agent-q-chats-list--afterwards ()
  "Return a function to draw the list again."
  (let ((buffer (current-buffer)))
    (lambda ()
      (when (buffer-live-p buffer)
        (with-current-buffer buffer (agent-q-chats-list--refresh))))))

(defun agent-q-chats-list-rename ()
  "Rename the chat at point."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats-list--saved-at-point)))
    (agent-q-chats-rename (alist-get 'id chat)
                          (read-string "Name of this chat: " (alist-get 'name chat))
                          (agent-q-chats-list--afterwards))))

(defun agent-q-chats-list-delete ()
  "Move the chat at point to the trash."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats-list--saved-at-point)))
    (agent-q-chats-delete (alist-get 'id chat) (agent-q-chats-title chat)
                          (agent-q-chats-list--afterwards))))

(defun agent-q-chats-list-fork ()
  "Continue in a new chat that begins like the one at point."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats-list--saved-at-point)))
    (agent-q-chats-fork (alist-get 'id chat) nil (alist-get 'name chat)
                        (agent-q-chats-root chat))))

(defun agent-q-chats-list-export ()
  "Write the chat at point to a file as Markdown."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats-list--saved-at-point)))
    (agent-q-chats-export (alist-get 'id chat) (agent-q-chats-read-file))))

(provide 'agent-q-chats-list)
;;; agent-q-chats-list.el ends here
