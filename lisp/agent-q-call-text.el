;;; agent-q-call-text.el --- Tool calls as text  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the log of a chat shows of a call: a line with its state, and below it its
;; arguments and its result.  agent-q-approve.el draws a call that waits for an answer.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-call-value)
(require 'agent-q-effect)
(require 'agent-q-render)
(require 'agent-q-visible)
(require 'seq)
(require 'subr-x)

(defconst agent-q-call-text-limit 60
  "How many characters of its arguments the line of a call shows.")

(defun agent-q-call-name (call)
  "Return what the user is told that CALL is, in a sentence."
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
    (agent-q-visible
     (agent-q-call-cut (agent-q-call-on-one-line text)
                       agent-q-call-text-limit))))

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

(defun agent-q-call-text-line (call)
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

(defun agent-q-call-text-body (call)
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

(provide 'agent-q-call-text)
;;; agent-q-call-text.el ends here
