;;; cancel-bench.el --- How soon a cancelled turn has ended, in batch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; In each thing that a turn may be doing, the time from the user's command until the chat shows
;; that the turn has ended.  Calls into an image are measured where one is, in image-bench.

;;; Code:

(require 'agent-q-bench)

(require 'agent-q-tool)

(declare-function agent-q-chat-send-cancel "agent-q-chat-send")

(defconst cancel-bench--rounds 7 "How often each is measured.")

(defvar cancel-bench--awaited nil "The type of event after which the turn is cancelled, or nil.")
(defvar cancel-bench--ready nil "Non-nil when the turn is where it is to be cancelled.")

(defun cancel-bench--see (event)
  "Notice whether EVENT is what is awaited."
  (when (eq (plist-get event :type) cancel-bench--awaited)
    (setq cancel-bench--ready t)))

(defun cancel-bench--server (answer)
  "Start a server that answers each request with ANSWER; return its port.
Without ANSWER it is silent, and the turn is to be cancelled when it has heard
of it."
  (process-contact
   (make-network-process :name "server" :server t :host "127.0.0.1" :service t :noquery t
                         :filter (lambda (process _)
                                   (cond ((null answer) (setq cancel-bench--ready t))
                                         ;; A request may come in pieces.
                                         ((not (process-get process 'answered))
                                          (process-put process 'answered t)
                                          (process-send-string process answer)))))
   :service))

(defun cancel-bench--measure (what chat awaited)
  "Cancel turns of CHAT after the event AWAITED, as samples of WHAT."
  (dotimes (_ cancel-bench--rounds)
    (let ((over nil) began)
      (setq cancel-bench--awaited awaited
            cancel-bench--ready nil)
      (agent-q-bench-ask chat (lambda () (setq over (float-time))) :cancelled)
      (agent-q-bench-await (lambda () cancel-bench--ready))
      (setq began (float-time))
      (with-current-buffer chat (agent-q-chat-send-cancel))
      (agent-q-bench-await (lambda () over))
      (agent-q-bench-sample (concat "cancel." what) (- over began))))
  (kill-buffer chat))

(defun cancel-bench--with-server (what scheme answer awaited)
  "Measure cancelling WHAT with a server that SCHEME leads to.
It gives ANSWER; the turn is cancelled after the event AWAITED."
  (cancel-bench--measure
   what (agent-q-bench-chat (format "%s://127.0.0.1:%d/v1" scheme (cancel-bench--server answer)))
   awaited))

(defun cancel-bench--with-script (what steps awaited)
  "Measure cancelling WHAT, where the server follows STEPS.
The turn is cancelled after the event AWAITED."
  (agent-q-bench-serve steps)
  (cancel-bench--measure what (agent-q-bench-chat) awaited))

(defun cancel-bench--call (name arguments)
  "Return steps that call the tool NAME with ARGUMENTS, an alist."
  `(((tool_calls . [((id . "c") (name . ,name) (arguments . ,arguments))]))))

(defconst cancel-bench--half-a-call
  (concat "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes\",\"tool_calls\":[{\"index\":0,"
          "\"id\":\"c\",\"function\":{\"name\":\"write_file\",\"arguments\":\"{\\\"pa\"}}]}}]}\n\n")
  "The beginning of a call, behind text that can't begin a call written as text.
An a can, as in \"assistantcommentary to=functions.\", so it isn't shown at once.")

(defun cancel-bench-main ()
  "Measure everything."
  (agent-q-bench-guard
    (agent-q-bench-chat "http://127.0.0.1:1/v1")
    (advice-add 'agent-q-events-dispatch :after #'cancel-bench--see)
    (cancel-bench--with-server "connecting" "https" nil nil)
    (cancel-bench--with-server "first-byte" "http" nil nil)
    (cancel-bench--with-server
     "backing-off" "http"
     "HTTP/1.1 503 Busy\r\nretry-after: 60\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" :retrying)
    (cancel-bench--with-script "text" '(((text . "Yes")) ((stall . t))) :text)
    (cancel-bench--with-script "call" `(((raw . ,cancel-bench--half-a-call)) ((stall . t))) :text)
    (cancel-bench--with-script
     "approval" (cancel-bench--call "write_file" '((path . "never.txt") (content . "x")))
     :approval)
    (let ((default-directory "/usr/"))
      (cancel-bench--with-script
       "rust" (cancel-bench--call "grep_project" '((pattern . "q[^z]*zq{40}"))) :call-started))
    (agent-q-register-tool
     agent-q-registry
     (agent-q-define-tool "dawdle" "Never answers." nil
                          :async t :handler (lambda (_arguments _callback) #'ignore)))
    (cancel-bench--with-script "emacs" (cancel-bench--call "dawdle" (make-hash-table)) :call-started)
    (agent-q-bench-end)))

(provide 'cancel-bench)
;;; cancel-bench.el ends here
