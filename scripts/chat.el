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

;;;; What is on the screen

(defconst agent-q-try--waiting
  "agent-q

A Lisp is starting: SBCL, through %s.  The first time, %s compiles
its half of it, which takes up to half a minute.  A chat opens beside
the Lisp's REPL then, or a tour where no model is found.

C-x C-c leaves Emacs.\n"
  "What is shown until there is a Lisp.")

(defun agent-q-try--wait (client)
  "Say that a Lisp is starting through CLIENT, in the whole frame."
  (with-current-buffer (get-buffer-create "*agent-q*")
    (erase-buffer)
    (insert (format agent-q-try--waiting client client))
    (special-mode))
  (switch-to-buffer "*agent-q*")
  (delete-other-windows))

(defun agent-q-try--repl ()
  "Return the buffer of the REPL, or nil."
  (seq-find (lambda (buffer)
              (with-current-buffer buffer (derived-mode-p 'sly-mrepl-mode 'slime-repl-mode)))
            (buffer-list)))

(defun agent-q-try--chat ()
  "Open a chat about the project of the tour, with the REPL beside it."
  (let ((default-directory (agent-q-try--project)))
    (agent-q-chat))
  (delete-other-windows)
  (let ((repl (agent-q-try--repl)))
    (when repl
      (set-window-buffer (if (< (frame-width) 160)
                             (split-window-below (- (max 8 (/ (frame-height) 4))))
                           (split-window-right))
                         repl)))
  (goto-char (point-max)))

(defvar agent-q-try-folder (locate-user-emacs-file "agent-q/tour-bank/")
  "The folder that the chat is about; the project of the tour, unless it is there.")

(defun agent-q-try--project ()
  "Return the folder of the project that the chat is about; write it if need be."
  (unless (file-directory-p agent-q-try-folder)
    ;; Into a name with a slash, the folder itself would be copied.
    (copy-directory (expand-file-name "tutorial/project" agent-q-module-directory)
                    (directory-file-name agent-q-try-folder) nil t))
  agent-q-try-folder)

(defun agent-q-try--open ()
  "Open a chat, or the tour if no model is found."
  (agent-q-provider-choose
   (lambda (provider)
     (if (or provider (eq agent-q-provider 'none))
         (agent-q-try--chat)
       (condition-case nil
           (agent-q-tutorial)
         (quit (agent-q-try--chat)))))))

;;;; The Lisp

(defun agent-q-try--start-lisp ()
  "Start SBCL through SLY, or else SLIME; return the hook of its connections."
  (cond ((agent-q-ide-use 'sly)
         (agent-q-try--wait "SLY")
         (setq inferior-lisp-program "sbcl")
         (save-window-excursion (sly))
         'sly-connected-hook)
        ((agent-q-ide-use 'slime)
         (agent-q-try--wait "SLIME")
         (slime-setup)
         ;; What its compiler says there is nothing for the user's eyes.
         (save-window-excursion
           (slime-start :program "sbcl" :program-args nil :name 'sbcl
                        :buffer "*inferior-lisp*"))
         'slime-connected-hook)))

(defun agent-q-try ()
  "Start a Lisp and open a chat beside it."
  (setq inhibit-startup-screen t
        ;; What the compiler thinks of SLIME's code is nothing for the user's eyes.
        native-comp-async-report-warnings-errors nil)
  (agent-q-mode 1)
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
