;;; load-bench.el --- Loading, memory and sending, in batch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One measurement in a fresh batch Emacs.  AGENT_Q_BENCH is load, history, turns, resume or
;; "memory chat|filter BYTES".

;;; Code:

(require 'agent-q-bench)

(declare-function agent-q-module-ensure "agent-q-module")
(declare-function agent-q-events-ensure "agent-q-events")
(declare-function agent-q-core-submit "agent-q-core")
(defvar agent-q-chat-history-directory)
(defvar agent-q-chat-history-turns)
(defvar agent-q-chat-history-past-turns)
(declare-function agent-q-chats-open "agent-q-chats")

(defun load-bench--load ()
  "Measure what the first uses cost."
  (let ((empty (expand-file-name "empty-library.elc" agent-q-bench-scratch)))
    (agent-q-bench-sample "load.empty" (agent-q-bench-seconds (load empty nil t)))
    (agent-q-bench-sample "load.require"
                          (agent-q-bench-seconds (require 'agent-q-module)))
    (let ((before (agent-q-bench-memory)))
      (agent-q-bench-sample "load.core"
                            (agent-q-bench-seconds (agent-q-module-ensure)))
      (require 'agent-q-events)
      (agent-q-events-ensure)
      (agent-q-bench-sample-memory "memory.started" before (agent-q-bench-memory)))))

(defun load-bench--fill (chat bytes)
  "Have the model of CHAT answer until the chat has BYTES of text."
  (while (< (buffer-size chat) bytes)
    (agent-q-bench-ask-and-wait chat)))

(defun load-bench--send (chat name)
  "Measure sending in CHAT as samples of NAME."
  (let ((submit (symbol-function 'agent-q-core-submit)))
    (cl-letf (((symbol-function 'agent-q-core-submit)
               (lambda (session text context)
                 (agent-q-bench-sample
                  name (agent-q-bench-seconds (funcall submit session text context))))))
      (agent-q-bench-ask-and-wait chat))))

(defun load-bench--history ()
  "Measure what sending takes without a history, with one of 2 MB and one of 10 MB."
  (agent-q-bench-serve (agent-q-bench-bulk-steps 20000))
  (let ((chat (agent-q-bench-chat)))
    (pcase-dolist (`(,name . ,bytes) '(("submit.short" . 20000) ("submit.long" . 2000000)
                                       ("submit.huge" . 10000000)))
      (load-bench--fill chat bytes)
      (garbage-collect)
      (dotimes (_ 7)
        (load-bench--send chat name)))))

(defun load-bench--turns ()
  "Measure the memory of a chat of 1,000 turns, beside its text."
  (agent-q-bench-serve (agent-q-bench-text-steps
                        (split-string (apply #'concat (agent-q-bench-markdown 400)) "^" t)))
  (let* ((chat (agent-q-bench-chat)) before size)
    ;; By then as much garbage has accumulated as may (agent-q-events.el).
    (dotimes (_ 200)
      (agent-q-bench-ask-and-wait chat))
    (setq before (agent-q-bench-memory)
          size (buffer-size chat))
    (dotimes (_ 1000)
      (agent-q-bench-ask-and-wait chat))
    (agent-q-bench-sample-memory "turns.chat" before (agent-q-bench-memory))
    (agent-q-bench-sample "turns.text" (float (- (buffer-size chat) size)))))

(defun load-bench--resume ()
  "Measure the memory of a stored chat that is resumed, beside its file."
  (agent-q-bench-serve '(((text . "Yes"))))
  (agent-q-bench-ask-and-wait (agent-q-bench-chat))
  (require 'agent-q-chats)
  (setq agent-q-chat-history-directory (getenv "AGENT_Q_BENCH_CHATS"))
  (let* ((file (expand-file-name "chat-1.jsonl" agent-q-chat-history-directory))
         (before (agent-q-bench-memory))
         (chat (agent-q-chats-open "chat-1" nil nil)))
    (agent-q-bench-await
     (lambda () (= agent-q-chat-history-turns
                   (length (buffer-local-value 'agent-q-chat-history-past-turns chat)))))
    (agent-q-bench-sample-memory "resume.memory" before (agent-q-bench-memory))
    (agent-q-bench-sample "resume.file" (float (file-attribute-size (file-attributes file))))))

(defun load-bench--memory (way bytes)
  "Measure the memory of BYTES of text, received in the WAY chat or filter."
  (agent-q-bench-serve '(((text . "Yes"))) (agent-q-bench-bulk-steps bytes))
  (let* ((over nil)
         (ended (lambda () (setq over t)))
         (chat (and (equal way "chat") (agent-q-bench-chat)))
         (buffer (or chat (agent-q-bench-bare-buffer)))
         before)
    (dotimes (turn 2)
      (when (= turn 1)
        (setq before (agent-q-bench-memory)))
      (setq over nil)
      (if chat
          (agent-q-bench-ask chat ended)
        (agent-q-bench-bare-request buffer ended))
      (agent-q-bench-await (lambda () over)))
    (agent-q-bench-sample-memory (concat "text." way) before (agent-q-bench-memory))))

(defun load-bench-main ()
  "Measure as AGENT_Q_BENCH says."
  (agent-q-bench-guard
    (pcase (split-string (getenv "AGENT_Q_BENCH"))
      ('("load") (load-bench--load))
      ('("history") (load-bench--history))
      ('("turns") (load-bench--turns))
      ('("resume") (load-bench--resume))
      (`("memory" ,way ,bytes) (load-bench--memory way (string-to-number bytes))))
    (agent-q-bench-end)))

(provide 'load-bench)
;;; load-bench.el ends here
