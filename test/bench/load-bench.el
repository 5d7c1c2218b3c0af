;;; load-bench.el --- Loading, memory and sending, in batch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One measurement in a fresh batch Emacs.  AGENT_Q_BENCH is load, history or
;; "memory chat|filter BYTES".

;;; Code:

(require 'agent-q-bench)

(declare-function agent-q-module-ensure "agent-q-module")
(declare-function agent-q-events-ensure "agent-q-events")
(declare-function agent-q-core-submit "agent-q-core")

(defun load-bench--load ()
  "Measure what the first uses cost."
  (let ((empty (expand-file-name "empty-library.elc" agent-q-bench-scratch)))
    (agent-q-bench-sample "load.empty" (agent-q-bench-seconds (load empty nil t)))
    (agent-q-bench-sample "load.require"
                          (agent-q-bench-seconds (require 'agent-q-module)))
    (let ((before (agent-q-bench-memory)))
      (agent-q-bench-sample "load.core"
                            (agent-q-bench-seconds (agent-q-module-ensure)))
      (agent-q-bench-sample-memory "memory.loaded" before (agent-q-bench-memory))
      (require 'agent-q-events)
      (agent-q-bench-sample "load.start"
                            (agent-q-bench-seconds (agent-q-events-ensure)))
      (agent-q-bench-sample-memory "memory.started" before (agent-q-bench-memory)))
    (let ((before (agent-q-bench-memory)))
      (agent-q-bench-serve '(((text . "Yes"))))
      (let (chat)
        (agent-q-bench-sample "load.chat"
                              (agent-q-bench-seconds
                                (setq chat (agent-q-bench-chat))))
        (agent-q-bench-ask-and-wait chat))
      (agent-q-bench-sample-memory "memory.turn" before (agent-q-bench-memory)))))

(defun load-bench--history ()
  "Measure what sending takes without a history, and with one of 2 MB."
  (agent-q-bench-serve (agent-q-bench-bulk-steps 20000))
  (let ((chat (agent-q-bench-chat)))
    (agent-q-bench-ask-and-wait chat)
    (dolist (name '("submit.short" "submit.long"))
      (when (equal name "submit.long")
        (while (< (buffer-size chat) 2000000)
          (agent-q-bench-ask-and-wait chat)))
      (dotimes (_ 7)
        (let ((submit (symbol-function 'agent-q-core-submit))
              (over nil)
              (began (float-time)))
          (cl-letf (((symbol-function 'agent-q-core-submit)
                     (lambda (session text context)
                       (agent-q-bench-sample
                        name (agent-q-bench-seconds (funcall submit session text context))))))
            (agent-q-bench-ask chat (lambda () (setq over t)))
            (agent-q-bench-sample (concat name ".send") (- (float-time) began)))
          (agent-q-bench-await (lambda () over))
          (agent-q-bench-sample (concat name ".turn") (- (float-time) began)))))))

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
    (let ((grown (float (buffer-size buffer))))
      (agent-q-bench-sample-memory (concat "text." way) before (agent-q-bench-memory))
      (agent-q-bench-sample (concat "text." way ".size") grown))))

(defun load-bench-main ()
  "Measure as AGENT_Q_BENCH says."
  (agent-q-bench-guard
    (pcase (split-string (getenv "AGENT_Q_BENCH"))
      ('("load") (load-bench--load))
      ('("history") (load-bench--history))
      (`("memory" ,way ,bytes) (load-bench--memory way (string-to-number bytes))))
    (agent-q-bench-end)))

(provide 'load-bench)
;;; load-bench.el ends here
