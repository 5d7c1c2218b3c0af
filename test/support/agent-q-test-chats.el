;;; agent-q-test-chats.el --- Tests of stored chats  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Chats in a directory of their own, with a scripted model, closed and read again.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-chats)

(defmacro agent-q-test-chats-with (turns &rest body)
  "Run BODY with an empty directory of chats and a model that plays TURNS.
TURNS are steps, lists of property lists."
  (declare (indent 1) (debug t))
  `(let* ((agent-q-chat-history-directory
           (file-name-as-directory
            (make-temp-file (expand-file-name "chats" agent-q-test-directory) t)))
          (default-directory
           (file-name-as-directory
            (file-truename (make-temp-file
                            (expand-file-name "project" agent-q-test-directory) t)))))
     (agent-q-test-with-model (agent-q-json-encode (list :turns (vconcat ,turns)))
       (unwind-protect
           (progn ,@body)
         (dolist (buffer (agent-q-session-buffers))
           (kill-buffer buffer))))))

(defun agent-q-test-chats-says (&rest texts)
  "Return steps of a model that answers with each of TEXTS in turn."
  (mapcar (lambda (text) `(:steps [(:text ,text) (:usage [100 50])])) texts))

(defun agent-q-test-chats-answer (what &rest more)
  "Ask the core WHAT with MORE of the stored chats; return the answer."
  (let ((answer nil))
    (apply #'agent-q-chat-history-ask what
           (lambda (value problem) (setq answer (list value problem))) more)
    (agent-q-test-until answer)
    (when (cadr answer) (ert-fail (cadr answer)))
    (car answer)))

(defun agent-q-test-chats-found (words)
  "Return the chats that have WORDS."
  (alist-get 'chats (agent-q-test-chats-answer "search" `(query . ,words) '(limit . 50))))

(defmacro agent-q-test-chats-resumed (id &rest body)
  "Run BODY in the chat ID, once it is read."
  (declare (indent 1) (debug t))
  `(let ((agent-q-provider (or agent-q-provider 'none)) (inhibit-message t))
     (save-window-excursion
       (switch-to-buffer (agent-q-chats-open ,id nil nil))
       (agent-q-test-until (agent-q-test-shows "Resumed:"))
       ,@body)))

(defun agent-q-test-chats-last-request ()
  "Return the last request that the model server got, as text."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (goto-char (point-max))
    (skip-chars-backward "\n")
    (buffer-substring (line-beginning-position) (point))))

(defun agent-q-test-chats-killed-in-mid-turn (settings text &rest written)
  "Send TEXT in a new chat of another Emacs that evaluates SETTINGS, and kill it.
Do that once its chat's file has a match of each regexp WRITTEN; return the id."
  (let* ((form `(progn
                  (require 'agent-q-module)
                  (require 'agent-q-chat)
                  (setq agent-q-chat-history-directory ,agent-q-chat-history-directory
                        agent-q-provider ',agent-q-provider
                        agent-q-project-root ,default-directory)
                  ,settings
                  (switch-to-buffer (agent-q-chat-open t))
                  (goto-char (point-max))
                  (insert ,text)
                  (agent-q-chat-send)
                  (while t (accept-process-output nil 1))))
         (other (start-process
                 "other-emacs" (generate-new-buffer " *other Emacs*")
                 (expand-file-name invocation-name invocation-directory)
                 "-Q" "--batch" "-L" (file-name-directory (locate-library "agent-q-module"))
                 "--eval" (prin1-to-string form)))
         (file nil))
    (set-process-query-on-exit-flag other nil)
    (unwind-protect
        (agent-q-test-until
         (and (setq file (car (directory-files agent-q-chat-history-directory t "\\.jsonl\\'")))
              (with-temp-buffer
                (insert-file-contents file)
                (seq-every-p (lambda (regexp)
                               (goto-char (point-min))
                               (re-search-forward regexp nil t))
                             written))))
      (signal-process other 'SIGKILL)
      (while (process-live-p other) (accept-process-output other 0.1))
      (kill-buffer (process-buffer other)))
    (file-name-base file)))

(provide 'agent-q-test-chats)
;;; agent-q-test-chats.el ends here
