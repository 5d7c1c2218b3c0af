;;; agent-q-chat-backoff.el --- Requests to a model that are tried again  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; However often a request fails before its answer begins, the log has one line about it,
;; with the latest failure and how long it takes until the request is sent again.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-render)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'subr-x)

(cl-defstruct (agent-q-chat-backoff (:include agent-q-render-item)
                                    (:constructor agent-q-chat-backoff--make)
                                    (:copier nil))
  "The line about a request that is tried again.
EVENT is the latest of its events, and DUE the time at which the request is
sent again, nil once that happened, or `never' if the turn ended before."
  event due)

(defvar-local agent-q-chat-backoff--last nil
  "The line about the request that runs, or nil if it has not failed.")

(defun agent-q-chat-backoff--reason (text)
  "Return TEXT, the core's sentences on a failure, without markup and advice.
To try again is what happens anyway."
  (string-trim
   (replace-regexp-in-string
    "[ \t\n]+" " "
    (replace-regexp-in-string
     " \\(?:Try again later\\|Wait, then try again\\|Try again\\)\\." ""
     (replace-regexp-in-string "</?[a-zA-Z!][^<>]*>" " " text)))))

(defun agent-q-chat-backoff--left (line)
  "Return in how many seconds the request of LINE is sent again, or nil."
  (let ((due (agent-q-chat-backoff-due line)))
    (and due
         (not (eq due 'never))
         (let ((left (float-time (time-subtract due nil))))
           (and (> left 0) left)))))

(defun agent-q-chat-backoff--next (line)
  "Return as text what comes of the request of LINE."
  (let* ((event (agent-q-chat-backoff-event line))
         (left (agent-q-chat-backoff--left line))
         (count (format "(%d of %d)" (plist-get event :attempt) (plist-get event :attempts))))
    (cond ((eq 'never (agent-q-chat-backoff-due line)) "not sent again")
          ((null left) (format "sent again %s" count))
          ((< left 1) (format "sending again %s" count))
          (t (format (substitute-command-keys
                      "\\<agent-q-chat-mode-map>sending again in %d s %s, \\[agent-q-chat-cancel] stops")
                     (ceiling left) count)))))

(defun agent-q-chat-backoff--draw (line)
  "Return the text of LINE: its head, or all of it when it is unfolded."
  (let* ((event (agent-q-chat-backoff-event line))
         (next (concat (agent-q-render-fold-sign line) " " (agent-q-chat-backoff--next line)))
         (reason (agent-q-visible-line
                  (agent-q-chat-backoff--reason (or (plist-get event :reason) "")) 1000)))
    (propertize
     (if (agent-q-render-item-expanded line)
         (concat next "\n" (agent-q-render-body (or (plist-get event :reason) "")
                                                #'agent-q-visible-prose))
       (concat next ": "
               (agent-q-call-cut reason (max 10 (- (agent-q-call-width) (length next) 2)))))
     'face 'agent-q-dim 'mouse-face 'highlight)))

(defun agent-q-chat-backoff--finish (due)
  "Forget earlier failures; DUE is what becomes of the request that failed last."
  (when agent-q-chat-backoff--last
    (setf (agent-q-chat-backoff-due agent-q-chat-backoff--last) due)
    (agent-q-render-update-item agent-q-chat-backoff--last)
    (setq agent-q-chat-backoff--last nil)))

(defun agent-q-chat-backoff-begin ()
  "Forget earlier failures: another request begins, or this one is being answered."
  (agent-q-chat-backoff--finish nil))

(defun agent-q-chat-backoff-over (outcome)
  "Forget earlier failures: the turn ended with OUTCOME.
Its request may have waited then, if it was cancelled; else it was sent again,
and its answer came before its time as it is counted here."
  (agent-q-chat-backoff--finish
   (and (eq outcome :cancelled)
        agent-q-chat-backoff--last
        (agent-q-chat-backoff--left agent-q-chat-backoff--last)
        'never)))

(defun agent-q-chat-backoff-tick ()
  "Show how long it takes until the request is sent again, as time has passed."
  (let ((line agent-q-chat-backoff--last))
    (when (and line (agent-q-chat-backoff-due line))
      (unless (agent-q-chat-backoff--left line)
        (setf (agent-q-chat-backoff-due line) nil))
      (agent-q-render-update-item line))))

(defun agent-q-chat-backoff-show (event)
  "Show EVENT: a request failed and is tried again."
  (let ((due (time-add nil (plist-get event :seconds))))
    (if agent-q-chat-backoff--last
        (progn (setf (agent-q-chat-backoff-event agent-q-chat-backoff--last) event
                     (agent-q-chat-backoff-due agent-q-chat-backoff--last) due)
               (agent-q-render-update-item agent-q-chat-backoff--last))
      (setq agent-q-chat-backoff--last
            (agent-q-chat-backoff--make :draw #'agent-q-chat-backoff--draw :event event :due due))
      (agent-q-render-add-item agent-q-chat-backoff--last))))

(provide 'agent-q-chat-backoff)
;;; agent-q-chat-backoff.el ends here
