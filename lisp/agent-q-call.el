;;; agent-q-call.el --- Tool calls in the log of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One foldable line for each tool call, with its state and duration.  While
;; the call waits for an answer, agent-q-approve.el draws it.

;;; Code:

(require 'agent-q-log)
(require 'agent-q-call-value)
(require 'agent-q-render)
(require 'agent-q-visible)
(require 'seq)

(declare-function agent-q-approve-draw "agent-q-approve")
(declare-function agent-q-effect-p "agent-q-effect")
(declare-function agent-q-effect-line "agent-q-effect")
(declare-function agent-q-effect-waited-for-p "agent-q-effect")
(declare-function agent-q-effect-words "agent-q-effect")
(declare-function agent-q-sight-expect "agent-q-sight")
(declare-function agent-q-sight-forget "agent-q-sight")
(declare-function agent-q-sight-reveal "agent-q-sight")

(defconst agent-q-call-summary-limit 60
  "How many characters of its arguments the line of a call shows.")

(cl-defstruct (agent-q-call (:include agent-q-render-item)
                            (:constructor agent-q-call--make))
  "A tool call.
KEY is the core's name for it, ARGUMENTS the JSON text, STATE one of
`proposed', `waiting', `running', `succeeded', `failed', `denied' and
`cancelled'.  LEVEL and REASON say why it needs approval, TARGET names
the image it concerns.  ARMED is t while an answer counts, `seen' when it
did before another call was answered; ENDED is t when its end was on the
screen after that, BELOW how many of its lines didn't fit; TIMER sees to
that, and ANSWERED is the answer.  OFFER is the rule that was shown, a list (SCOPE RULE
DESCRIPTION), and REVIEW the buffer of its diff review.  PARSED and SUMMARY
are what was made of ARGUMENTS last, a cons with them."
  key tool arguments state content milliseconds started
  level reason armed ended below answered target timer
  offer review parsed summary)

(defvar-local agent-q-call-table nil
  "The tool calls of this chat by key.")

(defvar-local agent-q-call--open nil
  "The tool calls of this chat that have no result yet, by key.")

(defvar-local agent-q-call--active nil
  "The tool calls of this chat that run or wait for an answer.
The core lets few of a message do so, however many it has.")

(defvar agent-q-call-settled-functions nil
  "Functions called with a tool call when it was answered or is over.")

(defvar agent-q-call-left-functions nil
  "Functions called with the buffer of a chat that goes away.")

(defun agent-q-call-setup ()
  "Make the current buffer ready to show tools at work."
  (setq agent-q-call-table (make-hash-table)
        agent-q-call--open (make-hash-table)
        agent-q-call--active nil))

;;;; Names

(defun agent-q-call-name (call)
  "Return what the user is told that CALL is, in a sentence."
  (if (agent-q-effect-p call)
      (format "\"%s\"" (agent-q-call-cut (agent-q-effect-words call)
                                         agent-q-call-summary-limit))
    (agent-q-call-tool call)))

;;;; Arguments

(defun agent-q-call-parsed-arguments (call)
  "Return the arguments of CALL as an alist, or nil; they are parsed once."
  (let ((arguments (agent-q-call-arguments call)))
    (unless (eq arguments (car (agent-q-call-parsed call)))
      (setf (agent-q-call-parsed call)
            (cons arguments (agent-q-call-parse arguments))))
    (cdr (agent-q-call-parsed call))))

(defun agent-q-call--summary (call)
  "Return the arguments of CALL as a short text on one line; it is made once."
  (let ((arguments (agent-q-call-arguments call)))
    (unless (eq arguments (car (agent-q-call-summary call)))
      (setf (agent-q-call-summary call)
            (cons arguments (agent-q-call--make-summary call))))
    (cdr (agent-q-call-summary call))))

(defun agent-q-call--make-summary (call)
  "Return the arguments of CALL as a short text on one line."
  (let* ((parsed (agent-q-call-parsed-arguments call))
         (room 1000)
         (text (if parsed
                   (mapconcat
                    (lambda (argument)
                      (let ((value (agent-q-call-value-string (cdr argument) room)))
                        (if (eq argument (car parsed))
                            value
                          (format "%s=%s" (car argument) value))))
                    (seq-take parsed 20) " ")
                 (let ((raw (agent-q-call-arguments call)))
                   (string-trim (substring raw 0 (min room (length raw))) "{" "}")))))
    (agent-q-visible
     (agent-q-call-cut (agent-q-call-on-one-line text)
                        agent-q-call-summary-limit))))

(defun agent-q-call-on-one-line (text)
  "Return the beginning of TEXT without its line breaks."
  (replace-regexp-in-string
   "[ \t\n]+" " "
   (string-trim (if (> (length text) 1000) (substring text 0 1000) text))))

(defun agent-q-call-cut (text width)
  "Return TEXT, one line, cut to WIDTH columns."
  (truncate-string-to-width text width nil nil (agent-q-render-sign 'ellipsis)))

;;;; Drawing

(defun agent-q-call--duration (call)
  "Return how long CALL took as a short text; empty when that is not known."
  (let ((milliseconds (agent-q-call-milliseconds call)))
    (cond ((null milliseconds) "")
          ((< milliseconds 1000) (format " %d ms" milliseconds))
          (t (format " %.1f s" (/ milliseconds 1000.0))))))

(defun agent-q-call--state-text (call)
  "Return the state of CALL as the end of its line."
  (pcase (agent-q-call-state call)
    ('proposed (propertize (agent-q-render-sign 'ellipsis)
                           'face 'agent-q-dim))
    ('waiting (propertize (agent-q-call-answered call) 'face 'agent-q-dim))
    ('running
     (let ((seconds (floor (float-time
                            (time-since (agent-q-call-started call))))))
       (propertize (cond ((agent-q-effect-waited-for-p call) "waits for your answer below")
                         ((< seconds 1) "running")
                         (t (format "running %d s" seconds)))
                   'face 'agent-q-attention)))
    ('succeeded (concat (propertize (agent-q-render-sign 'done)
                                    'face 'agent-q-success)
                        (propertize (agent-q-call--duration call)
                                    'face 'agent-q-dim)))
    ('failed (propertize (concat (agent-q-render-sign 'failed) " failed"
                                 (agent-q-call--duration call))
                         'face 'agent-q-failure))
    ('denied (propertize "denied" 'face 'agent-q-failure))
    ('cancelled (propertize "cancelled" 'face 'agent-q-failure))))

(defconst agent-q-call--denied "User denied tool execution"
  "How the result begins of what the user denied; the reason follows.")

(defun agent-q-call-trouble (call)
  "Return why CALL failed or was denied, one line; nil if that is not known."
  (when-let* ((content (and (memq (agent-q-call-state call) '(failed denied))
                            (agent-q-call-content call)))
              ;; It may be as long as what a program printed.
              (begins (substring content 0 (min 2000 (length content))))
              (said (string-trim-left (string-remove-prefix agent-q-call--denied begins)
                                      "[ \t\n:]+")))
    (unless (string-empty-p said)
      (agent-q-visible
       (agent-q-call-on-one-line (substring said 0 (string-search "\n" said)))))))

(defun agent-q-call--trouble-text (call trouble width)
  "Return TROUBLE, which ended CALL, as the end of its line of WIDTH columns."
  (let* ((denied (eq (agent-q-call-state call) 'denied))
         (sign (if denied "denied: "
                 (concat (agent-q-render-sign 'failed) " ")))
         (duration (if (or denied (< width 25)) ""
                     (agent-q-call--duration call))))
    (propertize (concat sign
                        (agent-q-call-cut trouble (max 10 (- width (string-width sign)
                                                              (length duration))))
                        duration)
                'face 'agent-q-failure)))

(defun agent-q-call-width ()
  "Return how many columns a line of this chat has."
  (if-let ((window (get-buffer-window nil t)))
      ;; One is for the sign of a line that goes on.  `window-max-chars-per-line'
      ;; would select the window, and so move point.
      (1- (window-body-width window))
    80))

(defun agent-q-call--line (call)
  "Return the line that stands for CALL, no wider than the window if possible."
  (let* ((head (concat (agent-q-render-fold-sign call) " "
                       (propertize (agent-q-call-tool call) 'face 'agent-q-tool)
                       " "))
         (room (- (agent-q-call-width) (string-width head)))
         (summary (agent-q-call--summary call))
         (trouble (agent-q-call-trouble call))
         ;; What went wrong matters more than with which arguments.
         (tail (if trouble
                   (agent-q-call--trouble-text
                    call trouble (if (< room 40) room
                                   (max (- room (string-width summary) 1)
                                        (/ (* 2 room) 3))))
                 (agent-q-call--state-text call)))
         (left (- room (string-width tail) 1))
         (shown (cond ((not trouble) (agent-q-call-cut summary (max 10 left)))
                      ((< left 4) "")
                      (t (agent-q-call-cut summary left)))))
    (concat head shown (if (string-empty-p shown) "" " ") tail)))

(defun agent-q-call--draw (call)
  "Return the text of CALL."
  (if (and (eq (agent-q-call-state call) 'waiting)
           (not (agent-q-call-answered call)))
      (agent-q-approve-draw call)
    (let ((line (if (agent-q-effect-p call) (agent-q-effect-line call)
                  (agent-q-call--line call))))
      (add-text-properties 0 (length line)
                           '(mouse-face highlight
                             help-echo "TAB or mouse: show the whole call")
                           line)
      (if (agent-q-render-item-expanded call)
          (concat line "\n" (agent-q-call--body call))
        line))))

(defun agent-q-call--body (call)
  "Return the arguments and the result of CALL as the body of an item.
What went wrong comes first."
  (let ((arguments (agent-q-call-arguments-body call))
        (result (agent-q-call--result-body call)))
    (string-join
     (delq nil (if (eq (agent-q-call-state call) 'succeeded)
                   (list arguments result)
                 (list result arguments)))
     "\n")))

(defconst agent-q-call-head '(3 . 240)
  "How many lines, and characters, are shown of a text that a review shows.")

(defun agent-q-call--head (text)
  "Return the head of TEXT, if it is long, with how much there is."
  (pcase-let* ((`(,most-lines . ,most) agent-q-call-head)
               (start (substring text 0 (min (1+ most) (length text))))
               (head (string-join (seq-take (split-string start "\n") most-lines) "\n")))
    (if (and (<= (length text) most)
             (<= (length (split-string text "\n")) (1+ most-lines)))
        (agent-q-visible text)
      (concat (agent-q-visible (substring head 0 (min most (length head))))
              (propertize (format "\n[%d lines, %d characters; v shows all, d the diff]"
                                  (length (split-string text "\n")) (length text))
                          'face 'agent-q-dim)))))

(defconst agent-q-call-value-prefix "      "
  "What is in front of the lines of an argument but its first.
Such a line begins further right than an argument's name, and can't be
taken for one.")

(defun agent-q-call-arguments-body (call &optional briefly)
  "Return all arguments of CALL as the body of an item.
If BRIEFLY is non-nil, only the head of long texts."
  (let ((parsed (agent-q-call-parsed-arguments call))
        (arguments (agent-q-call-arguments call)))
    (cond (parsed
           (mapconcat (pcase-lambda (`(,name . ,value))
                        (agent-q-call--argument-body name value briefly))
                      parsed "\n"))
          ((string-match-p "\\`[ \t\n]*\\(?:{[ \t\n]*}\\)?[ \t\n]*\\'" arguments)
           (agent-q-render-body "(no arguments)"))
          (t (agent-q-render-body arguments #'agent-q-visible)))))

(defun agent-q-call--argument-body (name value briefly)
  "Return the argument NAME with VALUE as part of the body of an item.
If BRIEFLY is non-nil, only the head of a long text."
  (let* ((text (agent-q-call-value-string value (1+ agent-q-render-body-limit)))
         (long (and (not (stringp value))
                    (> (length text) agent-q-render-body-limit)))
         (text (if (stringp value) value text))
         (body (cond ((and briefly (stringp value)) (agent-q-call--head value))
                     (long (agent-q-render-cut-body
                            (agent-q-visible
                             (substring text 0 agent-q-render-body-limit))
                            nil
                            (lambda ()
                              (agent-q-visible (agent-q-call-value-string value)))))
                     ((eq name 'form)
                      (agent-q-render-body text (lambda (text)
                                                  (agent-q-call--fontify
                                                   (agent-q-visible text)))))
                     (t (agent-q-render-body text #'agent-q-visible)))))
    (concat (propertize (concat (agent-q-visible-line (symbol-name name) 80) ":")
                        'face 'agent-q-dim 'line-prefix "    ")
            (if (string-search "\n" text) "\n" " ")
            (propertize body 'line-prefix agent-q-call-value-prefix
                        'wrap-prefix agent-q-call-value-prefix))))

(defun agent-q-call--fontify (text)
  "Return TEXT, a Lisp form, with the faces of `lisp-mode'."
  (if (> (length text) agent-q-render-body-limit)
      text
    (with-temp-buffer
      (insert text)
      (delay-mode-hooks (lisp-mode))
      (font-lock-ensure)
      (buffer-string))))

(defun agent-q-call--result-body (call)
  "Return the result of CALL as the body of an item, or nil."
  (when-let ((content (agent-q-call-content call)))
    (concat (propertize (pcase (agent-q-call-state call)
                          ('succeeded "result:")
                          (_ "error:"))
                        'face 'agent-q-dim 'line-prefix "    ")
            "\n" (agent-q-render-body content #'agent-q-visible-prose))))

;;;; What happens to a call

(defun agent-q-call--get (event)
  "Return the call that EVENT is about, new if it was not proposed before."
  (let ((key (plist-get event :call)))
    (or (gethash key agent-q-call-table)
        (let ((call (agent-q-call--make
                     :draw #'agent-q-call--draw :key key :state 'proposed
                     :tool (agent-q-visible-line (or (plist-get event :tool) "?") 80)
                     :arguments (or (plist-get event :arguments) "{}")
                     :reason (plist-get event :reason))))
          (puthash key call agent-q-call-table)
          (puthash key call agent-q-call--open)
          (agent-q-render-add-item call)
          call))))

(defun agent-q-call--activate (call state)
  "Note that CALL is in STATE, `waiting' or `running'."
  (setf (agent-q-call-state call) state)
  (unless (memq call agent-q-call--active)
    (push call agent-q-call--active)))

(defun agent-q-call--in-state (state)
  "Return what is in STATE, `waiting' or `running', in this chat, first one first."
  (sort (seq-filter (lambda (call) (eq (agent-q-call-state call) state))
                    agent-q-call--active)
        (lambda (one other) (< (agent-q-call-key one) (agent-q-call-key other)))))

(defun agent-q-call-proposed (event)
  "Show the call that EVENT proposes."
  (agent-q-call--get event))

(defun agent-q-call-approval (event target)
  "Ask about the call of EVENT, which concerns TARGET (an image or nil)."
  (let ((call (agent-q-call--get event)))
    (agent-q-call--activate call 'waiting)
    (setf (agent-q-call-arguments call) (plist-get event :arguments)
          (agent-q-call-level call) (plist-get event :level)
          (agent-q-call-reason call) (plist-get event :reason)
          (agent-q-call-target call) target
          (agent-q-call-offer call) nil
          (agent-q-call-answered call) nil)
    (agent-q-sight-forget call)
    (agent-q-render-update-item call)
    (agent-q-call-draw-waiting call)
    (agent-q-call--draw-running call)
    (agent-q-sight-expect call)
    (message "agent-q: %s waits for your answer (C-c C-a in the chat)"
             (agent-q-call-name call))))

(defun agent-q-call-draw-waiting (except)
  "Draw anew whatever waits but EXCEPT; some keys are about all of it."
  (let ((waiting (agent-q-call-all-waiting)))
    (when (<= (length waiting) 2)
      (mapc #'agent-q-render-update-item (delq except waiting)))))

(defun agent-q-call--draw-running (call)
  "Redraw what is running if CALL is an effect, as it may wait for that."
  (when (agent-q-effect-p call)
    (mapc #'agent-q-render-update-item (agent-q-call-running))))

(defun agent-q-call-settled (call)
  "Draw and tell that CALL was answered."
  (agent-q-render-update-item call)
  (agent-q-call-draw-waiting call)
  (agent-q-call--draw-running call)
  (agent-q-log-run-hook 'agent-q-call-settled-functions call))

(defun agent-q-call-approval-elsewhere (event)
  "Show that the call of EVENT waits for what a program answers."
  (let ((call (agent-q-call--get event)))
    (agent-q-call--activate call 'waiting)
    (setf (agent-q-call-arguments call) (plist-get event :arguments)
          (agent-q-call-reason call) (plist-get event :reason)
          (agent-q-call-answered call) "waits for agent-q-approval-handler")
    (agent-q-render-update-item call)))

(defun agent-q-call-settled-elsewhere (event)
  "Show that the call of EVENT waits no more, because of a rule."
  (let ((call (agent-q-call--get event)))
    (when (eq (agent-q-call-state call) 'waiting)
      (setf (agent-q-call-answered call) (plist-get event :outcome)
            (agent-q-call-armed call) nil)
      (agent-q-call-settled call))))

(defun agent-q-call-started-event (event)
  "Show that the call of EVENT is running."
  (let ((call (agent-q-call--get event)))
    (agent-q-call--activate call 'running)
    (setf ;; The user may have changed them.
          (agent-q-call-arguments call) (or (plist-get event :arguments)
                                            (agent-q-call-arguments call))
          (agent-q-call-started call) (current-time))
    (agent-q-render-update-item call)))

(defun agent-q-call-finished (event)
  "Show the result of the call of EVENT."
  (let ((call (agent-q-call--get event)))
    (setf (agent-q-call-state call)
          (intern (substring (symbol-name (plist-get event :outcome)) 1))
          (agent-q-call-content call) (plist-get event :content)
          (agent-q-call-milliseconds call) (plist-get event :milliseconds))
    (unless agent-q-fold-results
      (setf (agent-q-render-item-expanded call) t))
    (agent-q-call--close call)))

(defun agent-q-call--close (call)
  "Draw CALL, which is over."
  (setf (agent-q-call-armed call) nil)
  (agent-q-log-run-hook 'agent-q-call-settled-functions call)
  (remhash (agent-q-call-key call) agent-q-call--open)
  (setq agent-q-call--active (delq call agent-q-call--active))
  (agent-q-render-update-item call)
  (agent-q-call--draw-running call))

(defun agent-q-call-abandon ()
  "Show whatever call is still open as cancelled: the turn is over."
  (dolist (call (hash-table-values agent-q-call--open))
    (setf (agent-q-call-state call) 'cancelled)
    (agent-q-call--close call)))

(defun agent-q-call-leave ()
  "Close each other view of a call of this chat, which is being killed."
  (dolist (call (and agent-q-call--open (hash-table-values agent-q-call--open)))
    (agent-q-log-run-hook 'agent-q-call-settled-functions call))
  (agent-q-log-run-hook 'agent-q-call-left-functions (current-buffer)))

(defun agent-q-call-running ()
  "Return what is running now, first one first."
  (agent-q-call--in-state 'running))

(defun agent-q-call-tick ()
  "Draw again, with the time that has passed, whatever call is seen to run."
  (let ((windows (get-buffer-window-list nil t t)))
    (dolist (call (agent-q-call-running))
      (when (and (not (agent-q-render-item-expanded call))
                 (seq-some (lambda (window)
                             (agent-q-call--near-p call window))
                           windows))
        (agent-q-render-update-item call)))))

(defun agent-q-call--near-p (call window)
  "Whether CALL may be seen in WINDOW.
To know it exactly takes longer than drawing."
  (<= (window-start window)
      (marker-position (agent-q-render-item-end call))
      (+ (window-start window) (* (window-total-height window)
                                  (1+ (window-total-width window))))))

;;;; Going to what waits

(defun agent-q-call-all-waiting ()
  "Return each call of this chat that waits for an answer, first one first."
  (seq-remove #'agent-q-call-answered (agent-q-call--in-state 'waiting)))

(defun agent-q-call-waiting ()
  "Return the first call of this chat that waits for an answer, or nil."
  (car (agent-q-call-all-waiting)))

(defun agent-q-call-goto-waiting ()
  "Go to the tool call that waits for your answer.
The current chat comes first, then the other ones."
  (interactive)
  (let ((buffer (seq-find (lambda (buffer)
                            (with-current-buffer buffer
                              (and agent-q-call-table (agent-q-call-waiting))))
                          (cons (current-buffer) (buffer-list)))))
    (unless buffer
      (user-error "No tool call waits for your answer"))
    (unless (eq buffer (window-buffer))
      (pop-to-buffer buffer))
    (with-current-buffer buffer
      (let ((call (agent-q-call-waiting)))
        (push-mark nil t)
        (goto-char (agent-q-render-item-start call))
        (agent-q-sight-reveal call)))))

(provide 'agent-q-call)
;;; agent-q-call.el ends here
