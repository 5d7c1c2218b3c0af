;;; first-byte-bench.el --- From the server's byte to the buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The server sends the time at which it sends; the age of that time is taken
;; when it is in the buffer, once a turn.  In a terminal Emacs; AGENT_Q_BENCH is chat or filter.

;;; Code:

(require 'agent-q-bench)

(defconst first-byte-bench--turns 40
  "How many turns are measured.")

(defvar first-byte-bench--left first-byte-bench--turns
  "How many turns are left.")

(defconst first-byte-bench--steps
  '(((pause_ms . 20)) ((stamp . t)) ((pause_ms . 20)))
  "A turn: a first byte.")

(defun first-byte-bench--note (name text)
  "Note the age of the time in TEXT as a sample of NAME.first."
  (let ((now (float-time)))
    (when (string-match "\\(?:\\`\\|[^0-9]\\)\\(1[0-9]\\{15\\}\\)\\(?:\\'\\|[^0-9]\\)" text)
      (agent-q-bench-sample (concat name ".first")
                            (- now (/ (string-to-number (match-string 1 text)) 1e6))))))

(defun first-byte-bench--chat (chat)
  "Measure a turn of CHAT, then the others."
  (if (zerop first-byte-bench--left)
      (agent-q-bench-end)
    (cl-decf first-byte-bench--left)
    (agent-q-bench-ask
     chat (lambda ()
            (run-at-time 0.03 nil #'first-byte-bench--chat chat)))))

(defun first-byte-bench--bare (buffer)
  "Measure a turn that a bare filter inserts into BUFFER, then the others."
  (if (zerop first-byte-bench--left)
      (agent-q-bench-end)
    (cl-decf first-byte-bench--left)
    (agent-q-bench-bare-request
     buffer
     (lambda () (run-at-time 0.03 nil #'first-byte-bench--bare buffer))
     (lambda (process text)
       (agent-q-bench--insert process text)
       (first-byte-bench--note "byte.filter" text)))))

(defun first-byte-bench--dispatched (event)
  "Measure the text of EVENT, which is in the buffer now."
  (when (eq (plist-get event :type) :text)
    (first-byte-bench--note "byte.chat" (plist-get event :text))))

(defun first-byte-bench--run ()
  "Measure as AGENT_Q_BENCH says."
  (agent-q-bench-serve first-byte-bench--steps)
  (if (equal (getenv "AGENT_Q_BENCH") "filter")
      (first-byte-bench--bare (agent-q-bench-bare-buffer))
    (let ((chat (agent-q-bench-chat)))
      ;; The first turn opens the connection.
      (agent-q-bench-ask
       chat
       (lambda ()
         (advice-add 'agent-q-events-dispatch :after #'first-byte-bench--dispatched)
         (run-at-time 0.1 nil #'first-byte-bench--chat chat))))))

(defun first-byte-bench-main ()
  "Start as soon as Emacs reads commands."
  (run-at-time 0.2 nil (lambda ()
                         (agent-q-bench-guard (first-byte-bench--run)))))

(provide 'first-byte-bench)
;;; first-byte-bench.el ends here
