;;; idle-bench.el --- An Emacs that does nothing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tells the driver when it is idle, which then counts how often the process
;; wakes up.  In a terminal; AGENT_Q_BENCH is chat or bare.

;;; Code:

(require 'agent-q-bench)

(defun idle-bench--rest ()
  "Say that nothing happens from now on."
  ;; What Emacs itself does once after the last key is over by then.
  (run-at-time 2 nil (lambda ()
                       (write-region (number-to-string (emacs-pid)) nil
                                     (expand-file-name "idle" agent-q-bench-scratch)
                                     nil 'silent))))

(defun idle-bench--run ()
  "Come to rest, with a chat that had a turn or without."
  (if (equal (getenv "AGENT_Q_BENCH") "bare")
      (idle-bench--rest)
    (agent-q-bench-serve '(((text . "Yes"))))
    (agent-q-bench-ask (agent-q-bench-chat) #'idle-bench--rest)))

(defun idle-bench-main ()
  "Start as soon as Emacs reads commands."
  (run-at-time 0.2 nil (lambda () (agent-q-bench-guard (idle-bench--run)))))

(provide 'idle-bench)
;;; idle-bench.el ends here
