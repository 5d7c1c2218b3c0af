;;; idle-bench.el --- An Emacs that does nothing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tells the driver when it is idle, which then counts how often the process
;; wakes up.  In a terminal; AGENT_Q_BENCH is chat, servers (a chat, while 20 MCP servers
;; run) or bare.

;;; Code:

(require 'agent-q-bench)
(require 'seq)

(declare-function agent-q-core-tool-servers "agent-q-core-functions")
(declare-function agent-q-core-tool-server-start "agent-q-core-functions")
(defvar agent-q-tool-servers)

(defun idle-bench--rest ()
  "Say that nothing happens from now on."
  ;; What Emacs itself does once after the last key is over by then.
  (run-at-time 2 nil (lambda ()
                       (write-region (number-to-string (emacs-pid)) nil
                                     (expand-file-name "idle" agent-q-bench-scratch)
                                     nil 'silent))))

(defun idle-bench--servers (number)
  "Start NUMBER MCP servers, and wait until they run."
  (let ((program (expand-file-name "tool-server" (file-name-directory (getenv "AGENT_Q_BENCH_SERVER"))))
        (names (mapcar (lambda (it) (format "server%d" it)) (number-sequence 1 number))))
    (customize-set-variable 'agent-q-tool-servers
                            (mapcar (lambda (name) `(,name :command (,program))) names))
    (mapc #'agent-q-core-tool-server-start names)
    (agent-q-bench-await
     (lambda () (seq-every-p (lambda (server) (equal "running" (plist-get server :state)))
                             (agent-q-core-tool-servers))))))

(defun idle-bench--run ()
  "Come to rest, with a chat that had a turn or without."
  (let ((what (getenv "AGENT_Q_BENCH")))
    (if (equal what "bare")
        (idle-bench--rest)
      (agent-q-bench-serve '(((text . "Yes"))))
      (agent-q-bench-ask (agent-q-bench-chat)
                         (lambda ()
                           (when (equal what "servers")
                             (agent-q-bench-guard (idle-bench--servers 20)))
                           (idle-bench--rest))))))

(defun idle-bench-main ()
  "Start as soon as Emacs reads commands."
  (run-at-time 0.2 nil (lambda () (agent-q-bench-guard (idle-bench--run)))))

(provide 'idle-bench)
;;; idle-bench.el ends here
