;;; agent-q-chat-file.el --- A chat stays a chat when it is saved  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Saving the buffer of a chat writes a transcript: what its log shows, answers in Markdown as
;; they came.  The buffer visits no file afterwards, and keeps its name and folder.  Another major
;; mode is refused while the session is open, as the mode is what handles its events.

;;; Code:

(require 'agent-q-render)
(require 'agent-q-session)

(defvar-local agent-q-chat-file--transcript nil
  "The file of the latest transcript of this chat, or nil.")

(defvar-local agent-q-chat-file--place nil
  "The name and the folder of this buffer before it is saved: (NAME . FOLDER).")

(defun agent-q-chat-file-setup ()
  "Let saving the current buffer write a transcript, and let it keep its mode."
  (setq-local change-major-mode-with-file-name nil)
  (agent-q-chat-file--note)
  (add-hook 'pre-command-hook #'agent-q-chat-file--note nil t)
  (add-hook 'after-set-visited-file-name-hook #'agent-q-chat-file--leave nil t)
  (add-hook 'write-contents-functions #'agent-q-chat-file--write nil t)
  (add-hook 'change-major-mode-hook #'agent-q-chat-file--keep-mode nil t))

(defun agent-q-chat-file--note ()
  "Note what this buffer is called, and its folder."
  (setq agent-q-chat-file--place (cons (buffer-name) default-directory)))

(defun agent-q-chat-file--leave ()
  "Visit no file any more; it is the one of the transcript from now on.
For `after-set-visited-file-name-hook'."
  (when buffer-file-name
    (setq agent-q-chat-file--transcript buffer-file-name)
    (set-visited-file-name nil t)
    (pcase agent-q-chat-file--place
      (`(,name . ,folder)
       (rename-buffer name t)
       (setq default-directory folder)))
    (message "A chat visits no file; C-x C-s writes a transcript to %s"
             (abbreviate-file-name agent-q-chat-file--transcript))))

(defun agent-q-chat-file--ask ()
  "Ask for the file of a transcript, and return its name."
  (let ((file (expand-file-name (read-file-name "Write a transcript to: "))))
    (when (file-directory-p file)
      (user-error "%s is a folder" file))
    (unless (or (not (file-exists-p file))
                (y-or-n-p (format "File %s exists; overwrite? " file)))
      (user-error "No transcript was written"))
    file))

(defun agent-q-chat-file--write ()
  "Write a transcript of this chat and return t.
For `write-contents-functions'."
  (let ((file (or agent-q-chat-file--transcript (agent-q-chat-file--ask)))
        (coding-system-for-write 'utf-8-unix))
    (write-region (agent-q-render-copy (point-min) agent-q-render-end) nil file nil 'silent)
    (setq agent-q-chat-file--transcript file)
    (set-buffer-modified-p nil)
    (message "Transcript written to %s" (abbreviate-file-name file))
    t))

(defun agent-q-chat-file-save ()
  "Write a transcript of this chat, again to the file of the last one."
  (interactive nil agent-q-chat-mode)
  (set-buffer-modified-p t)
  (save-buffer))

(defun agent-q-chat-file--keep-mode ()
  "Signal an error, as another major mode would end this chat.
For `change-major-mode-hook'."
  (when agent-q-session-number
    (user-error "A chat keeps its mode; C-x C-w writes a transcript, C-x k ends the chat")))

(provide 'agent-q-chat-file)
;;; agent-q-chat-file.el ends here
