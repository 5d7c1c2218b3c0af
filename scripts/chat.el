;;; chat.el --- What `make chat' does inside Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loads SLY or SLIME, starts SBCL and opens the chat when it is connected, or the tour where no
;; model is found.

;;; Code:

(let ((root (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))))
  (push (expand-file-name "lisp" root) load-path)
  (require 'lisp-ide (expand-file-name "scripts/lisp-ide.el" root)))
(require 'agent-q-module)
(require 'agent-q-provider)

(declare-function agent-q-ide-use "lisp-ide")
(declare-function agent-q-chat-open "agent-q-chat")
(declare-function sly "ext:sly")
(declare-function slime-start "ext:slime")
(declare-function slime-setup "ext:slime")
(defvar inferior-lisp-program)
(defvar native-comp-async-report-warnings-errors)
(defvar sly-connected-hook)
(defvar slime-connected-hook)

(defun agent-q-try--start-lisp ()
  "Start SBCL through SLY, or else SLIME; return the hook of its connections."
  (cond ((agent-q-ide-use 'sly)
         (setq inferior-lisp-program "sbcl")
         (save-window-excursion (sly))
         'sly-connected-hook)
        ((agent-q-ide-use 'slime)
         (slime-setup)
         (slime-start :program "sbcl" :program-args nil :name 'sbcl
                      :buffer "*inferior-lisp*")
         'slime-connected-hook)))

(defun agent-q-try--chat ()
  "Open the chat in the whole frame."
  (agent-q-chat)
  (delete-other-windows)
  (goto-char (point-max)))

(defun agent-q-try--open ()
  "Open a chat, or the tour if no model is found."
  (agent-q-provider-choose
   (lambda (provider)
     (if (or provider (eq agent-q-provider 'none))
         (agent-q-try--chat)
       (condition-case nil
           (agent-q-tutorial)
         (quit (agent-q-try--chat)))))))

(defun agent-q-try ()
  "Start a Lisp and open a chat beside it."
  (setq inhibit-startup-screen t
        ;; What the compiler thinks of SLIME's code is nothing for the user's eyes.
        native-comp-async-report-warnings-errors nil)
  (agent-q-mode 1)
  (message "Starting Lisp...")
  (let ((hook (agent-q-try--start-lisp))
        (opened nil))
    (if (null hook)
        (agent-q-try--open)
      (add-hook hook
                (lambda ()
                  (unless opened
                    (setq opened t)
                    ;; After what SLY and SLIME themselves do when they connect.
                    (run-at-time 0 nil #'agent-q-try--open)))
                t))))

(provide 'chat)
;;; chat.el ends here
