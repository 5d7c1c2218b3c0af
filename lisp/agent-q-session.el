;;; agent-q-session.el --- Whose a buffer is: chats, and the user's own  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The variables of a chat's buffer that other files need, and which buffer is the user's own.

;;; Code:

(require 'agent-q-text)
(require 'seq)
(require 'subr-x)

;;;; What a chat is

;; What others have to know of a chat, or of the buffer of a program that calls tools: its number in the core, the image that it is
;; about, its provider and its turn.  They are variables of its buffer.
;; agent-q-chat.el sets them.

(defvar-local agent-q-session-chat-p nil
  "Non-nil in the buffers of chats.")

(defvar-local agent-q-session-number nil
  "The core's number for the session of this chat.")

(defvar-local agent-q-session-provider nil
  "The provider that the session uses, without its secrets, or nil.")

(defvar-local agent-q-session-effort nil
  "How hard this chat's model thinks, a symbol; nil is as its provider says.")

(defvar-local agent-q-session-connection nil
  "The connection to the Lisp image of this chat, or nil.")

(defvar-local agent-q-session-project nil
  "The name of this chat's project, as in its buffer's name and header line.")

(defvar-local agent-q-session-root nil
  "The root directory of the project of this chat, or nil.")

(defvar-local agent-q-session-turn nil
  "In a chat: the name of its turn for the journals of images.")

(defvar-local agent-q-session-turn-used nil
  "In a chat: whether a turn of it can have changed anything in an image.")

(defvar-local agent-q-session-mcp-client nil
  "The name of the program that calls here, in place of a chat's model, or nil.")

(defvar-local agent-q-session-mcp-state nil
  "Whether the program that calls here is `connected', `paused' or `gone'.")

(defun agent-q-session-chats ()
  "Return the buffers of all chats with a model, the latest one first."
  (seq-remove (lambda (buffer) (buffer-local-value 'agent-q-session-mcp-client buffer))
              (agent-q-session-buffers)))

(defun agent-q-session-buffers ()
  "Return the buffers of all chats and MCP clients, the latest one first."
  (seq-filter (lambda (buffer)
                (and (buffer-local-value 'agent-q-session-number buffer) t))
              (buffer-list)))

(defun agent-q-session-check ()
  "Signal an error unless the current buffer is a chat."
  (unless agent-q-session-number
    (user-error "This buffer is not a chat; M-x agent-q-chat opens one")))

(defun agent-q-session-command-p (_command buffer)
  "Whether commands of chats are offered in BUFFER.
For completing commands, where `read-extended-command-predicate' asks."
  (buffer-local-value 'agent-q-session-chat-p buffer))

;;;; The buffer that the user works in

;; Which buffer is the user's own, as tools and messages mean it, and what file and
;; package its text belongs to.  The core asks this by the names at the end.

(defun agent-q-session-user-visited-file (buffer)
  "Return the file that BUFFER visits, or the one that it is indirect to, or nil.
It is a cons of the name and whether that is on another machine, of which
nothing is asked.  Called by the core before a tool uses BUFFER."
  (when-let ((file (buffer-local-value 'buffer-file-name
                                       (or (buffer-base-buffer buffer) buffer))))
    (let ((remote (file-remote-p file)))
      (cons (agent-q-text-clean (if remote file (expand-file-name file)))
            (and remote t)))))

(defun agent-q-session-user-buffer-p (buffer)
  "Whether BUFFER is one that a user works in, and not a chat."
  (and (buffer-live-p buffer)
       (not (minibufferp buffer))
       (not (string-match-p "\\`\\(?: \\|\\*\\(?:agent-q\\|Completions\\*\\)\\)"
                            (buffer-name buffer)))
       (not (buffer-local-value 'agent-q-session-chat-p buffer))))

(defun agent-q-session-user-last-buffer (&optional predicate)
  "Return the buffer that the user last worked in, or nil.
Chats, the minibuffer and hidden buffers don't count, nor those that
PREDICATE, a function of a buffer, returns nil for.  Called by the core when
a tool reads a buffer without naming one."
  (let ((selected (window-buffer (or (minibuffer-selected-window)
                                     (selected-window)))))
    (seq-find (lambda (buffer)
                (and (agent-q-session-user-buffer-p buffer)
                     (or (null predicate) (funcall predicate buffer))))
              ;; A frame lists its buffers in the order in which they were selected.
              (cons selected (buffer-list (selected-frame))))))

(defconst agent-q-session-user-in-package
  "^[ \t]*(\\(?:cl:\\|common-lisp:\\)?in-package[ \t\n]+\\(?:#?:\\|'\\|\"\\)?\\([^ \t\n()\"]+\\)"
  "Regexp of a form that enters a package, whose name is the first group.")

(defun agent-q-session-user-package ()
  "Return the package that the text at point is read in, or nil."
  (let ((case-fold-search t))
    (save-excursion
      (save-restriction
        (widen)
        (when (or (re-search-backward agent-q-session-user-in-package nil t)
                  (progn (goto-char (point-min))
                         (re-search-forward agent-q-session-user-in-package nil t)))
          (upcase (match-string-no-properties 1)))))))

(provide 'agent-q-session)
;;; agent-q-session.el ends here
