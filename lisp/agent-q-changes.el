;;; agent-q-changes.el --- What a turn changed, and undoing it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core keeps what each turn of a chat changed in files and buffers.

;;; Code:

(require 'agent-q)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)

(declare-function agent-q-core-changes "agent-q-core")
(declare-function agent-q-core-undo-turn "agent-q-core")

(defvar agent-q-chat--session)


(defun agent-q-changes--chat ()
  "Return the chat that is meant: this buffer, or the latest chat."
  (cond (agent-q-chat--session (current-buffer))
        ((seq-find (lambda (buffer)
                     (buffer-local-value 'agent-q-chat--session buffer))
                   (buffer-list)))
        (t (user-error "There is no chat; M-x agent-q-chat opens one"))))

;;;###autoload
(defun agent-q-undo-turn ()
  "Put back what the chat's latest turn changed in files and buffers.
What you have changed since is left alone; the chat says so.  While a
turn runs, this waits until it is over."
  (interactive)
  (require 'agent-q-chat)
  (with-current-buffer (agent-q-changes--chat)
    (agent-q-core-undo-turn agent-q-chat--session)))

;;;###autoload
(defun agent-q-changes ()
  "Show what the chat's latest turn changed in files and buffers, as one diff."
  (interactive)
  (require 'agent-q-chat)
  (let ((diff (with-current-buffer (agent-q-changes--chat)
                (agent-q-core-changes agent-q-chat--session)))
        (directory default-directory))
    (when (string-empty-p diff)
      (user-error "No turn of this chat changed a file or a buffer"))
    (with-current-buffer (get-buffer-create "*agent-q changes*")
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert diff))
      (diff-mode)
      (setq default-directory directory)
      (setq buffer-read-only t)
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer "*agent-q changes*")))

(provide 'agent-q-changes)
;;; agent-q-changes.el ends here
