;;; agent-q-window.el --- What fills the window of a chat's model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows what a model has to read with each request, and has it write a summary in
;; place of the older part.  The log stays as it is: only the model reads the summary.

;;; Code:

(require 'agent-q)
(require 'agent-q-chat-send)
(require 'agent-q-events)
(require 'agent-q-header)
(require 'agent-q-json)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Summaries

(cl-defstruct (agent-q-window-summary (:include agent-q-render-item)
                                      (:constructor agent-q-window-summary--make)
                                      (:copier nil))
  "The line of the log about a summary; EVENT is what the core said of it."
  event)

(defun agent-q-window--draw-summary (item)
  "Return the text of ITEM: its head, or all of it when it is unfolded."
  (let ((event (agent-q-window-summary-event item)))
    (concat
     (propertize (format "%s Summarized %d message%s: %s tokens in place of %s"
                         (agent-q-render-fold-sign item)
                         (plist-get event :messages)
                         (if (eql 1 (plist-get event :messages)) "" "s")
                         (agent-q-header-tokens (plist-get event :after))
                         (agent-q-header-tokens (plist-get event :before)))
                 'face 'agent-q-dim 'mouse-face 'highlight)
     (when (agent-q-render-item-expanded item)
       (concat "\n" (agent-q-render-body (plist-get event :summary) #'agent-q-visible-prose))))))

(defvar-local agent-q-window--summaries nil
  "The summaries in the log that were not undone, the latest one first.")

(defun agent-q-window-summarized (event)
  "Show the summary of EVENT, which took the place of earlier messages."
  (let ((item (agent-q-window-summary--make :draw #'agent-q-window--draw-summary :event event)))
    (agent-q-render-add-item item)
    (push item agent-q-window--summaries)
    (agent-q-render-button "[Undo the summary]" #'agent-q-undo-compact item)))

(defconst agent-q-window--summarizing "The model summarizes the conversation..."
  "What the echo area says while a summary is written.")

;;;###autoload
(defun agent-q-compact ()
  "Make the model write a summary, and read it in place of all but the latest.
That makes room in its window.  The log of the chat stays as it is, and
\\[agent-q-undo-compact] makes the model read everything again.  While a turn runs,
this waits until it is over."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (agent-q-events-ensure)
  (agent-q-chat-configure)
  (agent-q-core-compact agent-q-session-number)
  (message (if (agent-q-header-busy-p)
               "The conversation is summarized when this turn is over"
             agent-q-window--summarizing)))

(defun agent-q-window--over (_event)
  "Clear the echo area when no summary is being written any more."
  (when (equal (current-message) agent-q-window--summarizing)
    (message nil)))

;;;###autoload
(defun agent-q-undo-compact ()
  "Make the model read again what its latest summary stands for."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (agent-q-core-undo-compaction agent-q-session-number)
  (agent-q-render-settle (pop agent-q-window--summaries)))

;;;; The window

(defvar agent-q-window--questions nil
  "The numbers of the questions that wait for an answer.")

;;;###autoload
(defun agent-q-window ()
  "Show what fills the window of this chat's model, and where a summary is due.
While a turn runs, it is shown when the turn is over."
  (interactive)
  (agent-q-session-check)
  (agent-q-events-ensure)
  (agent-q-chat-configure)
  (push (agent-q-core-show-window agent-q-session-number) agent-q-window--questions)
  (when (agent-q-header-busy-p)
    (message "The window is shown when this turn is over")))

(defun agent-q-window--answered (event)
  "Show the report in EVENT, if the user has asked for it."
  (when (memq (plist-get event :question) agent-q-window--questions)
    (setq agent-q-window--questions
          (delq (plist-get event :question) agent-q-window--questions))
    (if (plist-get event :problem)
        (message "%s" (plist-get event :problem))
      (let ((report (agent-q-json-parse (plist-get event :report))))
        (with-help-window "*agent-q window*"
          (princ (agent-q-window--text report)))))))

(defconst agent-q-window--bar 30
  "How many columns the whole window has as a bar.")

(defun agent-q-window--number (value)
  "Return VALUE, a number of tokens, with its digits in groups."
  (let ((text (number-to-string value)))
    (while (string-match "\\([0-9]\\)\\([0-9]\\{3\\}\\)\\(,\\|\\'\\)" text)
      (setq text (replace-match "\\1,\\2\\3" nil nil text)))
    text))

(defun agent-q-window--text (report)
  "Return REPORT, a hash table, as text for the user."
  (let ((tokens (gethash "tokens" report))
        (window (gethash "window" report))
        (limit (gethash "compacts_at" report))
        (summary (gethash "summary" report)))
    (concat
     (if (numberp window)
         (format "The model reads about %s tokens of the %s that it can take (%d%%).\n"
                 (agent-q-window--number tokens) (agent-q-window--number window)
                 (round (* 100.0 tokens) (max 1 window)))
       (format "The model reads about %s tokens.  How many it can take is not known; \
set agent-q-context-window to tell.\n"
               (agent-q-window--number tokens)))
     (cond ((numberp limit)
            (format "Older messages are summarized beyond %s tokens (agent-q-compact-at).\n"
                    (agent-q-window--number limit)))
           (t "Older messages are summarized when the host refuses more.\n"))
     "\n"
     (mapconcat (lambda (row) (agent-q-window--row row (if (numberp window) window tokens)))
                (gethash "rows" report) "")
     (agent-q-window--largest (append (gethash "largest" report) nil))
     (if (stringp summary)
         (concat "\nWhat it reads in place of what came before\n\n"
                 (agent-q-visible-prose summary) "\n")
       ""))))

(defun agent-q-window--row (row whole)
  "Return ROW of a report as a line, in a window of WHOLE tokens."
  (let ((tokens (gethash "tokens" row)))
    (format "%-14s %5d %12s  %s\n"
            (gethash "name" row) (gethash "count" row) (agent-q-window--number tokens)
            (make-string (max (if (> tokens 0) 1 0)
                              (min agent-q-window--bar
                                   (round (* (float agent-q-window--bar) tokens)
                                          (max 1 whole))))
                         ?#))))

(defun agent-q-window--largest (messages)
  "Return MESSAGES, the largest ones, as lines."
  (if (null messages) ""
    (concat
     "\nThe largest\n\n"
     (mapconcat (lambda (message)
                  (format "%-14s %5s %12s  %s\n"
                          (gethash "what" message)
                          (format "#%d" (gethash "turn" message))
                          (agent-q-window--number (gethash "tokens" message))
                          (agent-q-visible-line (gethash "text" message) 40)))
                messages ""))))

(agent-q-events-subscribe :turn-ended #'agent-q-window--over)
(agent-q-events-subscribe :window-shown #'agent-q-window--answered)

(provide 'agent-q-window)
;;; agent-q-window.el ends here
