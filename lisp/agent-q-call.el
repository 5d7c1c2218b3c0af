;;; agent-q-call.el --- Tool calls in the log of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is known of the tool calls of a chat, and which of them run or wait for an
;; answer.  agent-q-call-text.el shows them, agent-q-call-events.el changes them.

;;; Code:

(require 'agent-q-call-value)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-visible)
(require 'seq)

(cl-defstruct (agent-q-call (:include agent-q-render-item)
                            (:constructor agent-q-call-make))
  "A tool call.
KEY is the core's name for it, ARGUMENTS the JSON text, STATE one of
`proposed', `waiting', `running', `succeeded', `failed', `denied' and
`cancelled'.  LEVEL and REASON say why it needs approval; GROUNDS is `:usual' where each
call of its tool does, for that reason.  TARGET names the image it concerns.  ARMED is t while an answer counts, `seen' when it
did before another call was answered, `rule' before a rule came below; ENDED is t when its end was on the
screen after that, SINCE says when it began to be armed or to show its end, BELOW how many of
its lines didn't fit, TAIL how many characters of its end were on the screen
before its head; TIMER sees to that, and ANSWERED is the answer.
DRAWN is `full' or `folded', as the request was drawn last.  OFFER holds the
rules that were shown, an `agent-q-offer', and REVIEW the buffer of its
diff review.  BESIDE says that this is shown instead of the change itself.
CHANGE is what it makes of a file, an `agent-q-change'.
PARSED, SUMMARY and OUTCOME are what was made of ARGUMENTS or CONTENT last, a
cons with them.  OUTPUT is what it has printed while it runs, a
list of the end of that, the number of its characters, and when it came.
LAST is the last of the calls that it made itself."
  key tool arguments state content milliseconds started
  level reason grounds armed since ended below tail answered target timer drawn
  offer review beside change parsed summary outcome output last)

(defvar-local agent-q-call-table nil
  "The tool calls of this chat by key.")

(defvar-local agent-q-call-unfinished nil
  "The tool calls of this chat that have no result yet, by key.")

(defvar-local agent-q-call-active nil
  "The tool calls of this chat that run or wait for an answer.
The core lets few of a message do so, however many it has.")

(defvar agent-q-call-settled-functions nil
  "Functions called with a tool call when it was answered or is over.")

(defvar agent-q-call-left-functions nil
  "Functions called with the buffer of a chat that goes away.")

(defun agent-q-call-setup ()
  "Make the current buffer ready to show tools at work."
  (setq agent-q-call-table (make-hash-table)
        agent-q-call-unfinished (make-hash-table)
        agent-q-call-active nil))

;;;; Arguments

(defun agent-q-call-parsed-arguments (call)
  "Return the arguments of CALL as an alist, or nil; they are parsed once."
  (let ((arguments (agent-q-call-arguments call))
        (parsed (agent-q-call-parsed call)))
    ;; They come with several events, and may be megabytes.
    (if (equal arguments (car parsed))
        (when parsed (setcar parsed arguments))
      (setf (agent-q-call-parsed call)
            (cons arguments (agent-q-call-parse arguments))))
    (cdr (agent-q-call-parsed call))))

(defun agent-q-call-on-one-line (text)
  "Return the beginning of TEXT without its line breaks."
  (let ((line (string-trim (if (> (length text) 1000) (substring text 0 1000) text))))
    ;; Taking a text apart makes garbage, and most are one line already.
    (if (string-match-p "[\t\n]\\|  " line)
        (replace-regexp-in-string
         ;; The blanks within a string are what it is; a character may be written as a quote.
         "#\\\\.\\|\"\\(?:[^\"\\]\\|\\\\.\\)*\"\\|[ \t\n]+"
         (lambda (part)
           (cond ((eq (aref part 0) ?#) part)
                 ((eq (aref part 0) ?\") (replace-regexp-in-string "[ \t]*\n[ \t\n]*" " " part))
                 (t " ")))
         line t t)
      line)))

(defun agent-q-call-cut (text width)
  "Return TEXT, one line, cut to WIDTH columns."
  (if (<= (string-width text) width)
      text
    (truncate-string-to-width text width nil nil (agent-q-render-sign 'ellipsis))))

(defconst agent-q-call--denied "User denied tool execution"
  "How the result begins of what the user denied; the reason follows.")

(defun agent-q-call-verdict (text)
  "Return TEXT from its verdict on, where it begins with what was tested."
  (if (string-match "\\`Tests of .*?: \\(?:FAILED\\|PASSED\\|No test\\|The tests\\)" text)
      (substring text (+ 2 (string-search ": " text)))
    text))

(defun agent-q-call-trouble (call)
  "Return why CALL failed or was denied, one line; nil if that is not known."
  (when-let* ((content (and (memq (agent-q-call-state call) '(failed denied))
                            (agent-q-call-content call)))
              ;; It may be as long as what a program printed.
              (begins (substring content 0 (min 2000 (length content))))
              (said (string-trim-left (string-remove-prefix agent-q-call--denied begins)
                                      "[ \t\n:]+"))
              ;; The sign before it says that.
              (said (replace-regexp-in-string "\\`Error \\([^ ]+\\(?: at [^ ]+\\)?: \\)" "\\1" said)))
    (unless (string-empty-p said)
      (agent-q-visible
       (agent-q-call-on-one-line
        (agent-q-call-verdict (substring said 0 (string-search "\n" said))))))))

(defun agent-q-call-width ()
  "Return how many columns a line of this chat has in its narrowest window."
  (if-let ((windows (get-buffer-window-list nil nil t)))
      ;; One is for the sign of a line that goes on.  `window-max-chars-per-line'
      ;; would select the window, and so move point.
      (1- (apply #'min (mapcar #'window-body-width windows)))
    80))

(defconst agent-q-call-value-prefix "      "
  "What is in front of the lines of an argument but its first.
Such a line begins further right than an argument's name, and can't be
taken for one.")

;;;; Which of them wait, and run

(defun agent-q-call--in-state (state)
  "Return what is in STATE, `waiting' or `running', in this chat, as in its log."
  (sort (seq-filter (lambda (call) (eq (agent-q-call-state call) state))
                    agent-q-call-active)
        (lambda (one other)
          (< (agent-q-render-item-start one) (agent-q-render-item-start other)))))

(defun agent-q-call-running ()
  "Return what is running now, first one first."
  (agent-q-call--in-state 'running))

(defun agent-q-call-all-waiting ()
  "Return each call of this chat that waits for an answer, first one first."
  (seq-remove #'agent-q-call-answered (agent-q-call--in-state 'waiting)))

(defun agent-q-call-waiting ()
  "Return the first call of this chat that waits for an answer, or nil."
  (car (agent-q-call-all-waiting)))

(defun agent-q-call-open-p (call)
  "Whether CALL waits for an answer."
  (and (agent-q-call-p call)
       (eq (agent-q-call-state call) 'waiting)
       (not (agent-q-call-answered call))))

(defun agent-q-call-full-p (call)
  "Whether the request for CALL is shown in full.
That is so for the next one, and for those that were unfolded."
  (or (agent-q-render-item-expanded call)
      (eq call (agent-q-call-waiting))))

(defun agent-q-call-effect-p (call)
  "Whether CALL stands for an effect of running code."
  (agent-q-registry-effect-p (agent-q-call-tool call)))

(provide 'agent-q-call)
;;; agent-q-call.el ends here
