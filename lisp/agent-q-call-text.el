;;; agent-q-call-text.el --- Tool calls as text  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the log of a chat shows of a call: a line with its state, and below it its
;; arguments and its result.  agent-q-approve.el draws a call that waits for an answer.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-call-change)
(require 'agent-q-call-value)
(require 'agent-q-effect)
(require 'agent-q-render)
(require 'agent-q-visible)
(require 'seq)
(require 'subr-x)

(defconst agent-q-call-text-limit 60
  "Most characters of an effect's arguments in its name.")

(defconst agent-q-call--summary-limit 300
  "How many characters of its arguments the line of a call has in a wide window.")

(defun agent-q-call-name (call)
  "Return a sentence for the user on what CALL is."
  (if (agent-q-call-effect-p call)
      (format "\"%s\"" (agent-q-call-cut (agent-q-effect-words call)
                                         agent-q-call-text-limit))
    (agent-q-call-tool call)))

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
    (agent-q-call--short text)))

(defun agent-q-call--short (text)
  "Return TEXT, of arguments, on one line that is not too long."
  (agent-q-visible
   (agent-q-call-cut (agent-q-call-on-one-line text) agent-q-call--summary-limit)))

(defun agent-q-call--subject (call trouble)
  "Return what CALL, which ended by TROUBLE, was about, as a short text.
It is empty where TROUBLE names it."
  (let* ((parsed (agent-q-call-parsed-arguments call))
         (main (or (assq 'form parsed) (assq 'path parsed) (car parsed)))
         (text (if main (agent-q-call--short (agent-q-call-value-string (cdr main) 1000))
                 (agent-q-call--summary call))))
    (if (string-search (format "'%s'" text) trouble) "" text)))

(defun agent-q-call--duration (call)
  "Return how long CALL took as a short text; empty when that is not known."
  (let ((milliseconds (agent-q-call-milliseconds call)))
    (cond ((null milliseconds) "")
          ((< milliseconds 1000) (format " %d ms" milliseconds))
          (t (format " %.1f s" (/ milliseconds 1000.0))))))

(defun agent-q-call-text-sign (name)
  "Return the sign NAME, `value' or `dash', as this terminal can show it."
  (let ((plain (equal (agent-q-render-sign 'dot) "|")))
    (pcase name
      ('value (if plain "=>" "⇒"))
      ('dash (if plain "-" "—")))))

(defun agent-q-call--outcome (call)
  "Return what CALL came to as a part of its line, or nil; made once.
That is a cons of `value', `failure', `unknown' or `headline' and a text."
  (let ((content (agent-q-call-content call)))
    (when (and content (eq (agent-q-call-state call) 'succeeded))
      (unless (eq content (car (agent-q-call-outcome call)))
        (setf (agent-q-call-outcome call)
              (cons content (agent-q-call--make-outcome
                             content (string-prefix-p "eval_" (agent-q-call-tool call))))))
      (cdr (agent-q-call-outcome call)))))

(defconst agent-q-call--outcome-limit 4000
  "Most characters of a result that are searched for what it came to.")

(defun agent-q-call--make-outcome (content evaluates)
  "Return what the result CONTENT came to, as `agent-q-call--outcome' does.
EVALUATES says that it is one of evaluating forms."
  (let* ((begins (substring content 0 (min (length content) agent-q-call--outcome-limit)))
         (single (string-prefix-p "=> " begins))
         (evaluated (and (or single evaluates) (agent-q-call--evaluated begins (not single))))
         (headline (and (not evaluated)
                        (agent-q-call-verdict (agent-q-call--headline begins))))
         (outcome (or evaluated (agent-q-call--tested headline content)
                      (cons 'headline headline)))
         (text (agent-q-visible (agent-q-call-on-one-line (cdr outcome)))))
    (unless (string-empty-p text)
      (cons (car outcome) text))))

(defun agent-q-call--tested (headline content)
  "Return how the run ended of which CONTENT is the result; nil if all passed.
HEADLINE is its first line.  The value is as that of `agent-q-call--outcome'."
  (let ((unfinished (string-search "\nThe run did not finish:" content)))
    (cond ((string-match "\\`FAILED: [0-9]+ of \\([0-9]+\\) checks passed, \\([0-9]+\\) failed" headline)
           (let ((all (match-string 1 headline)) (failed (match-string 2 headline)))
             (cons 'failure
                   (if (and (equal failed "0") (not unfinished)) headline
                     (format "%s of %s failed%s" failed all
                             (if unfinished ", did not finish" ""))))))
          ((string-prefix-p "FAILED" headline)
           (cons 'failure headline))
          ((string-match-p "\\`The tests returned normally, but their results can't be counted" headline)
           ;; What they printed comes last.
           (cons 'unknown (car (last (split-string content "\n" t "[ \t\r]+"))))))))

(defun agent-q-call--evaluated (content several)
  "Return what the last form evaluated in CONTENT came to, or nil.
That is a cons of `value' and its values, or of `headline' and the first line
of what was printed where it gave nothing else.  SEVERAL says that there may be
more forms, each above its values."
  (let ((values nil) (printed nil) (in nil))
    (dolist (line (split-string content "\n"))
      (cond ((and (string-prefix-p "=> " line) (or several (not (eq in 'output))))
             (setq values (cons (substring line 3) (and (eq in 'value) values))
                   in 'value))
            ((string-prefix-p "Output:" line)
             (setq in 'output
                   printed (string-trim (string-remove-prefix "Output:" line))))
            ((eq in 'output)
             (when (string-empty-p printed)
               (setq printed (string-trim line))))
            ((not (eq in 'value)))
            ;; A line that goes on is the rest of a value; after it come notes, or the next form.
            ((or (string-empty-p line) (string-prefix-p "(" line)
                 (and several (not (string-prefix-p " " line))))
             (setq in nil))
            (t (setcar values (concat (car values) " " (string-trim line))))))
    (cond ((null values) nil)
          ((and (member values '(("NIL") ("no values"))) printed (not (string-empty-p printed)))
           (cons 'headline printed))
          (t (cons 'value (string-join (nreverse values) ", "))))))

(defun agent-q-call--headline (content)
  "Return the first line of CONTENT; all of it where that announces the rest."
  (let* ((text (string-trim-left content))
         (end (string-search "\n" text)))
    (if (and end (> end 0) (eq (aref text (1- end)) ?:))
        text
      (substring text 0 end))))

(defconst agent-q-call--quiet 20
  "Seconds without output after which a call that has printed counts as silent.")

(defun agent-q-call-text-running (call)
  "Return for how long CALL has been running, and for how long it has been silent."
  (let* ((since (lambda (time) (if time (floor (float-time (time-since time))) 0)))
         (seconds (funcall since (agent-q-call-started call)))
         (printed (nth 2 (agent-q-call-output call)))
         (silent (if printed (funcall since printed) seconds)))
    (concat (if (< seconds 1) "running" (format "running %d s" seconds))
            (cond ((< silent agent-q-call--quiet) "")
                  (printed (format ", silent for %d s" silent))
                  (t ", no output")))))

(defun agent-q-call-text-output (call)
  "Return the last line that the running CALL has printed, or nil."
  (when-let* ((text (car (agent-q-call-output call)))
              (line (car (last (split-string text "[\n\r]+" t "[ \t]+")))))
    (agent-q-visible (agent-q-call-on-one-line line))))

(defun agent-q-call--state-text (call)
  "Return the state of CALL as the end of its line."
  (pcase (agent-q-call-state call)
    ('proposed (propertize (agent-q-render-sign 'ellipsis)
                           'face 'agent-q-dim))
    ('waiting (propertize (agent-q-call-answered call) 'face 'agent-q-dim))
    ('running
     (propertize (if (agent-q-effect-waited-for-p call) "waits for your answer below"
                   (agent-q-call-text-running call))
                 'face 'agent-q-attention))
    ('succeeded (concat (propertize (agent-q-render-sign 'done)
                                    'face 'agent-q-success)
                        (propertize (agent-q-call--duration call)
                                    'face 'agent-q-dim)))
    ('failed (propertize (concat (agent-q-render-sign 'failed) " failed"
                                 (agent-q-call--duration call))
                         'face 'agent-q-failure))
    ('denied (propertize "denied" 'face 'agent-q-failure))
    ('cancelled (propertize "cancelled" 'face 'agent-q-failure))))

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

(defun agent-q-call--line (head summary tail width)
  "Return HEAD, SUMMARY and TAIL as a line of WIDTH columns; SUMMARY is cut to fit."
  (let* ((left (- width (string-width head) (string-width tail) 1))
         (shown (if (< left 4) "" (agent-q-call-cut summary left))))
    (concat head shown (if (string-empty-p shown) "" " ") tail)))

(defun agent-q-call--done-line (head summary call width)
  "Return the line of WIDTH columns of CALL, which is done: HEAD and SUMMARY.
It ends with what CALL came to, which gets what SUMMARY leaves."
  (let* ((outcome (agent-q-call--outcome call))
         (time (propertize (agent-q-call--duration call) 'face 'agent-q-dim))
         (sign (pcase (car outcome)
                 ('value (agent-q-call-text-sign 'value))
                 ('failure (agent-q-render-sign 'failed))
                 ('unknown "?")
                 (_ (agent-q-render-sign 'done))))
         (sign (propertize sign 'face (pcase (car outcome)
                                        ('failure 'agent-q-failure)
                                        ('unknown 'agent-q-attention)
                                        (_ 'agent-q-success))))
         (room (- width (string-width head) (string-width sign) (length time) 2))
         ;; Half for each; what one doesn't need is the other's.
         (for-outcome (max 4 (- room (string-width summary)) (/ room 2)))
         (text (and outcome (concat " " (agent-q-call-cut (cdr outcome) for-outcome)))))
    (agent-q-call--line
     head summary
     (concat sign
             (if (memq (car outcome) '(headline unknown)) (propertize text 'face 'agent-q-dim) text)
             time)
     width)))

(defun agent-q-call-text-line (call)
  "Return the line that stands for CALL, no wider than the window if possible."
  (let* ((head (concat (agent-q-render-fold-sign call) " "
                       (propertize (agent-q-call-cut (agent-q-call-tool call)
                                                     (max 10 (/ (agent-q-call-width) 2)))
                                   'face 'agent-q-tool)
                       " "))
         (width (agent-q-call-width))
         (room (- width (string-width head)))
         (done (agent-q-call-change-done call))
         (change (agent-q-call-change call))
         (summary (cond (done)
                        (change (agent-q-call-change-summary call))
                        (t (agent-q-call--summary call))))
         (trouble (agent-q-call-trouble call)))
    (cond
     (trouble
      ;; What went wrong matters more than with which arguments.
      (unless (or change
                  (<= (+ (string-width summary) (string-width trouble) 12) room))
        (setq summary (agent-q-call--subject call trouble)))
      (agent-q-call--line
       head summary
       (agent-q-call--trouble-text call trouble
                                   (if (< room 40) room
                                     (max (- room (string-width summary) 1)
                                          (/ (* 2 room) 3))))
       width))
     ((and (eq (agent-q-call-state call) 'succeeded) (not done))
      (agent-q-call--done-line head summary call width))
     ((and (eq (agent-q-call-state call) 'running) (agent-q-call-text-output call))
      (agent-q-call--line
       head summary
       (concat (agent-q-call--state-text call)
               (propertize (concat ": " (agent-q-call-cut (agent-q-call-text-output call)
                                                          (max 8 (/ room 3))))
                           'face 'agent-q-dim))
       width))
     (t (agent-q-call--line head summary (agent-q-call--state-text call) width)))))

(defun agent-q-call-text-waiting (call)
  "Return the line of CALL, which waits while another request is answered first."
  (if (agent-q-call-effect-p call)
      (agent-q-call--line "? " (agent-q-effect-words call) "waits" (agent-q-call-width))
    (agent-q-call--line (concat "? " (agent-q-call-tool call) " ")
                        (if (agent-q-call-change call)
                            (agent-q-call-change-summary call)
                          (agent-q-call--summary call))
                        "waits" (agent-q-call-width))))

(defun agent-q-call-text-body (call)
  "Return the arguments and the result of CALL as the body of an item.
What went wrong comes first."
  (let* ((diff (agent-q-call-change-done-body call))
         (arguments (and (not diff) (agent-q-call-arguments-body call)))
         (result (or diff (agent-q-call--result-body call) (agent-q-call--output-body call))))
    (string-join
     (delq nil (if (memq (agent-q-call-state call) '(succeeded running))
                   (list arguments result)
                 (list result arguments)))
     "\n")))

(defun agent-q-call-arguments-body (call)
  "Return all arguments of CALL as the body of an item."
  (let ((parsed (agent-q-call-parsed-arguments call))
        (arguments (agent-q-call-arguments call)))
    (cond (parsed
           (mapconcat (pcase-lambda (`(,name . ,value))
                        (agent-q-call--argument-body name value))
                      parsed "\n"))
          ((string-match-p "\\`[ \t\n]*\\(?:{[ \t\n]*}\\)?[ \t\n]*\\'" arguments)
           (agent-q-render-body "(no arguments)"))
          (t (agent-q-render-body arguments #'agent-q-visible)))))

(defun agent-q-call--argument-body (name value)
  "Return the argument NAME with VALUE as part of the body of an item."
  (let* ((text (if (stringp value) value
                 (agent-q-call-value-string value (1+ agent-q-render-body-limit))))
         (long (and (not (stringp value))
                    (> (length text) agent-q-render-body-limit)))
         (body (cond (long (agent-q-render-cut-body
                            (agent-q-visible
                             (substring text 0 agent-q-render-body-limit))
                            nil
                            (lambda ()
                              (agent-q-visible (agent-q-call-value-string value)))))
                     ((memq name '(form new_source source))
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
  "Return TEXT, a Lisp form, with the faces of `lisp-mode'.
The keys of Lisp code work on it, as in an answer."
  (if (> (length text) agent-q-render-body-limit)
      text
    (with-temp-buffer
      (insert text)
      (delay-mode-hooks (lisp-mode))
      (font-lock-ensure)
      (add-text-properties (point-min) (point-max) '(agent-q-form t agent-q-language "lisp"))
      (buffer-string))))

(defun agent-q-call--result-body (call)
  "Return the result of CALL as the body of an item, or nil."
  (when-let ((content (agent-q-call-content call)))
    (concat (propertize (pcase (agent-q-call-state call)
                          ('succeeded "result:")
                          ('denied "denied:")
                          (_ "error:"))
                        'face 'agent-q-dim 'line-prefix "    ")
            "\n" (agent-q-render-body content #'agent-q-visible-prose))))

(defconst agent-q-call-text--most-output 12
  "Most lines shown of what a running call has printed, the latest ones.")

(defun agent-q-call--output-body (call)
  "Return what the running CALL has printed as the body of an item, or nil."
  (when-let ((text (and (eq (agent-q-call-state call) 'running)
                        (car (agent-q-call-output call)))))
    (let* ((all (split-string (string-trim-right text "[\n\r]+") "\n"))
           ;; The image keeps the end of a long output, which may begin within a line.
           (cut (> (nth 1 (agent-q-call-output call)) (length text)))
           (lines (last (if (and cut (cdr all)) (cdr all) all) agent-q-call-text--most-output)))
      (concat (propertize "output so far:" 'face 'agent-q-dim 'line-prefix "    ")
              (if (or cut (nthcdr (length lines) all))
                  (propertize (format " its last %d lines" (length lines)) 'face 'agent-q-dim)
                "")
              "\n" (agent-q-render-body (string-join lines "\n") #'agent-q-visible-prose)))))

(provide 'agent-q-call-text)
;;; agent-q-call-text.el ends here
