;;; agent-q-call-live.el --- Calls in the image while they run  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a call prints is shown while it runs.  The image is asked for it soon after the call
;; began, often while it prints and else with the clock of the turn, one question at a
;; time, and answers beside the call.  A key shows where the call is; nothing is stopped for that.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-call-text)
(require 'agent-q-header)
(require 'agent-q-image-calls)
(require 'agent-q-image-connection)
(require 'agent-q-image-query)
(require 'agent-q-render)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defconst agent-q-call-live--operations
  '("eval-form" "compile-form" "compile-file" "load-system" "run-tests" "eval-in-frame"
    "invoke-restart" "restart-frame" "return-from-frame" "call-tool")
  "The operations that run code, of which a chat has one at a time.")

(defconst agent-q-call-live--seconds 5
  "Seconds that the image may take to answer.")

(defconst agent-q-call-live--pace 0.15
  "Seconds until the image is asked again what a call that prints has printed.")

(defvar-local agent-q-call-live--timer nil
  "The timer that asks the image soon, or nil.")

(defvar-local agent-q-call-live--asked nil
  "The call of this chat of which the image is asked now, or nil.")

(defun agent-q-call-live--image-call ()
  "Return this chat's call of code in the image, an image call, or nil."
  (cl-loop for call being the hash-values of agent-q-image-calls-pending
           when (and (eq (agent-q-image-call-owner call) (current-buffer))
                     (agent-q-image-call-id call)
                     (member (agent-q-image-call-operation call)
                             agent-q-call-live--operations))
           return call))

(defun agent-q-call-live--running ()
  "Return the only call of this chat that is running, or nil."
  (let ((running (seq-remove #'agent-q-call-effect-p (agent-q-call-running))))
    (and (null (cdr running)) (car running))))

;;;; Output

(defun agent-q-call-live-tick ()
  "Ask the image for what this chat's running call has printed.
The answer comes later; while one is awaited, there is no other question."
  (let ((call (agent-q-call-live--running))
        (running (agent-q-call-live--image-call))
        (chat (current-buffer)))
    (when (and call running
               (not (eq call agent-q-call-live--asked))
               (agent-q-image-ask (agent-q-image-call-connection running) :threads-p))
      (setq agent-q-call-live--asked call)
      (agent-q-image-query
       (agent-q-image-call-connection running) "call-output"
       (list :call (agent-q-image-call-id running))
       (lambda (reply &rest _)
         (when (buffer-live-p chat)
           (with-current-buffer chat
             (setq agent-q-call-live--asked nil)
             (pcase reply
               (`(:outcome :returned :value ,value . ,_)
                (agent-q-call-live--take call value))))))
       agent-q-call-live--seconds))))

(defun agent-q-call-live-soon ()
  "Ask the image soon what this chat's running call has printed."
  (unless agent-q-call-live--timer
    (setq agent-q-call-live--timer
          (run-at-time agent-q-call-live--pace nil #'agent-q-call-live--ask-in
                       (current-buffer)))))

(defun agent-q-call-live--ask-in (chat)
  "Ask the image what the running call of CHAT has printed."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (setq agent-q-call-live--timer nil)
      (agent-q-call-live-tick))))

(defun agent-q-call-live--take (call value)
  "Show VALUE, what CALL has printed according to the image.
While it prints, the next question comes soon."
  (let ((text (plist-get value :text))
        (printed (plist-get value :printed)))
    (when (and text printed (> printed 0)
               (eq (agent-q-call-state call) 'running)
               (not (eql printed (nth 1 (agent-q-call-output call)))))
      (setf (agent-q-call-output call) (list text printed (current-time)))
      (agent-q-render-update-item call)
      (agent-q-header-update)
      (agent-q-call-live-soon))))

(defun agent-q-call-live-ask (function)
  "Ask the image for what this chat's code has printed so far.
FUNCTION gets that, a text, or nil when nothing is known."
  (let ((running (agent-q-call-live--image-call)))
    (if (not (and running (agent-q-image-ask (agent-q-image-call-connection running)
                                             :threads-p)))
        (funcall function nil)
      (agent-q-image-query
       (agent-q-image-call-connection running) "call-output"
       (list :call (agent-q-image-call-id running))
       (lambda (reply &rest _)
         (funcall function (pcase reply
                             (`(:outcome :returned :value ,value . ,_)
                              (plist-get value :text)))))
       agent-q-call-live--seconds))))

;;;; Where it is

(defvar agent-q-call-live-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map agent-q-render-item-map)
    (define-key map "b" #'agent-q-call-live-backtrace)
    map)
  "Keymap on a call that runs.")

(defun agent-q-call-live-backtrace ()
  "Show where this chat's running code is in the image, without stopping it."
  (interactive nil agent-q-chat-mode)
  (let ((running (or (agent-q-call-live--image-call)
                     (user-error "No code of this chat runs in the image")))
        (words (agent-q-call-live--words))
        (asked (selected-window)))
    (message "Asking the image...")
    (agent-q-image-query
     (agent-q-image-call-connection running) "call-backtrace"
     (list :call (agent-q-image-call-id running))
     (lambda (reply &rest _) (agent-q-call-live--show words reply asked))
     agent-q-call-live--seconds)))

(defun agent-q-call-live--words ()
  "Return the running call of this chat as a line."
  (if-let ((call (agent-q-call-live--running))) (agent-q-call-text-line call) ""))

(defun agent-q-call-live--show (words reply asked)
  "Show where the call described by WORDS is, by REPLY of the image.
It was asked for in the window ASKED."
  (pcase reply
    (`(:outcome :returned :value ,value . ,_)
     (with-current-buffer
         (agent-q-render-visit
          "*agent-q backtrace*"
          (concat (propertize words 'face 'agent-q-attention) "\n\n"
                  (mapconcat (lambda (frame) (agent-q-visible-line frame))
                             (plist-get value :frames) "\n")
                  "\n")
          nil asked)
       (setq truncate-lines t)))
    (_ (message "%s" (or (plist-get reply :message) "The image did not answer")))))

(provide 'agent-q-call-live)
;;; agent-q-call-live.el ends here
