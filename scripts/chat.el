;;; chat.el --- What `make chat' does inside Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Loads SLY or SLIME, starts SBCL and opens the chat when it is connected.  Where no other model
;; is found, the demo model serves the chat if it is downloaded.

;;; Code:

(let ((root (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))))
  (push (expand-file-name "lisp" root) load-path)
  (require 'lisp-ide (expand-file-name "scripts/lisp-ide.el" root)))
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-doctor)

(declare-function agent-q-ide-use "lisp-ide")
(declare-function agent-q-chat-open "agent-q-chat")
(declare-function sly "ext:sly")
(declare-function slime-start "ext:slime")
(declare-function slime-setup "ext:slime")
(defvar inferior-lisp-program)
(defvar native-comp-async-report-warnings-errors)
(defvar sly-connected-hook)
(defvar slime-connected-hook)

(defun agent-q-try-model-p ()
  "Exit with 0 if a model is found, or if looking further means asking."
  (let ((found 'none-yet)
        (deadline (time-add nil 5)))
    ;; A key may be in a file that a passphrase opens; that is asked later, once.
    (when (seq-some (lambda (source)
                      (and (stringp source) (string-suffix-p ".gpg" source)
                           (file-exists-p source)))
                    auth-sources)
      (kill-emacs 0))
    (agent-q-provider-choose (lambda (provider) (setq found provider)))
    (while (and (eq found 'none-yet) (time-less-p nil deadline))
      (accept-process-output nil 0.05))
    (kill-emacs (if (memq found '(nil none-yet)) 1 0))))

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

(defun agent-q-try--model (continue)
  "Find out which model serves, start the demo model if need be, then CONTINUE."
  (if (and (not (seq-some #'agent-q-provider-key-of-environment
                          (mapcar #'cdr agent-q-providers)))
           (agent-q-doctor-demo-installed-p))
      (agent-q-provider-choose
       (lambda (provider)
         (if provider
             (funcall continue)
           (agent-q-doctor-demo-start (lambda (_provider) (funcall continue))))))
    (funcall continue)))

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
        (agent-q-try--model #'agent-q-try--chat)
      (add-hook hook
                (lambda ()
                  (unless opened
                    (setq opened t)
                    ;; After what SLY and SLIME themselves do when they connect.
                    (run-at-time 0 nil #'agent-q-try--model #'agent-q-try--chat)))
                t))))

(provide 'chat)
;;; chat.el ends here
