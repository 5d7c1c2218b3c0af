;;; agent-q-context.el --- Where the user is when they send a message  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The project, the image, the package of the user's REPL and their source
;; buffer, as the core is given it with each message.  The system prompt stays the
;; same within a chat, so what changes is not in it.

;;; Code:

(require 'agent-q-image-connection)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-text)
(require 'agent-q-user)

(defun agent-q-context-json (connection &optional excerpts)
  "Return as JSON where the user is now.
CONNECTION is the one of the current buffer, a chat, or nil.  EXCERPTS are
texts that are sent along, each as (WHERE . TEXT)."
  (let ((root (agent-q-project-directory)))
    (agent-q-json-serialize
     `((date . ,(format-time-string "%Y-%m-%d"))
       (project . ,(agent-q-context--text root))
       (image . ,(agent-q-context--text
                  (and connection (agent-q-image-facts connection))))
       (repl_package . ,(agent-q-context--text
                         (and connection (agent-q-image-repl-package connection))))
       (source . ,(let ((buffer (agent-q-context--source-buffer root)))
                    (if buffer (agent-q-context--source buffer) :null)))
       (along . ,(vconcat
                  (mapcar (pcase-lambda (`(,where . ,text))
                            `((what . ,(agent-q-text-clean where))
                              (text . ,(agent-q-text-clean text))))
                          excerpts)))))))

(defun agent-q-context--text (text)
  "Return TEXT as JSON takes it; it may be nil."
  (if text (agent-q-text-clean text) :null))

(defun agent-q-context--source-buffer (root)
  "Return the buffer of source code that the user last worked in, or nil.
It is one of Lisp, or visits a file of the project at ROOT: what else the
user has open is not sent unasked."
  (agent-q-user-last-buffer
   (lambda (buffer)
     (with-current-buffer buffer
       (or (derived-mode-p 'lisp-mode)
           ;; By their names alone: to look at all files of all buffers takes time.
           (and root buffer-file-name
                (string-prefix-p (file-name-as-directory root)
                                 (expand-file-name buffer-file-name))))))))

(defun agent-q-context--source (buffer)
  "Return what is sent about BUFFER, as an alist."
  (with-current-buffer buffer
    (save-excursion
      (let ((window (get-buffer-window buffer t)))
        (when window (goto-char (window-point window)))
        `((name . ,(agent-q-text-clean (or buffer-file-name (buffer-name))))
          (line . ,(line-number-at-pos nil t))
          (package . ,(agent-q-context--text
                       (and (derived-mode-p 'lisp-mode) (agent-q-user-package))))
          (unsaved . ,(if (and buffer-file-name (buffer-modified-p)) t :false)))))))

(provide 'agent-q-context)
;;; agent-q-context.el ends here
