;;; agent-q-image-feature.el --- What an image's reader passes over  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A form behind #+ or #- is in the text, but the reader of an image may not see it.
;; Here the feature expressions before a form are looked at.

;;; Code:

(require 'seq)
(require 'subr-x)

(defvar agent-q-image-feature-list nil
  "The features of the image whose sources are looked at, in lower case.
It is nil when they aren't known.")

(defun agent-q-image-feature--name (symbol)
  "Return the name of SYMBOL, a feature, without a package."
  (unless (symbolp symbol)
    (throw 'agent-q-image-feature 'unknown))
  (replace-regexp-in-string "\\`.*:" "" (symbol-name symbol)))

(defun agent-q-image-feature--holds-p (expression)
  "Whether EXPRESSION, a feature expression, is true in the image."
  (if (nlistp (or expression 'nil))
      (member (agent-q-image-feature--name expression) agent-q-image-feature-list)
    (pcase (and expression (agent-q-image-feature--name (car expression)))
      ('nil nil)
      ("or" (seq-some #'agent-q-image-feature--holds-p (cdr expression)))
      ("and" (seq-every-p #'agent-q-image-feature--holds-p (cdr expression)))
      ("not" (not (agent-q-image-feature--holds-p (cadr expression))))
      (_ (throw 'agent-q-image-feature 'unknown)))))

(defun agent-q-image-feature--off-p (sign text)
  "Whether SIGN, ?+ or ?-, and the expression TEXT hide what follows."
  (let ((holds (catch 'agent-q-image-feature
                 (condition-case nil
                     (and (agent-q-image-feature--holds-p (car (read-from-string (downcase text))))
                          t)
                   (error 'unknown)))))
    (and agent-q-image-feature-list
         (not (eq holds 'unknown))
         (eq holds (eq sign ?-)))))

(defun agent-q-image-feature--before ()
  "Go to the feature expression right before point and return its sign and text.
Return nil when there is none."
  (forward-comment (- (point)))
  (let* ((end (point))
         (start (ignore-errors (scan-sexps end -1))))
    (when start
      (goto-char start)
      (skip-chars-backward "#")
      (cond ((looking-at "#\\([-+]\\)[^ \t\n]")
             (list (char-after (1+ (point)))
                   (buffer-substring-no-properties (+ 2 (point)) end)))
            ((progn (skip-chars-backward " \t\n")
                    (memq (char-before) '(?+ ?-)))
             (backward-char)
             (when (eq (char-before) ?#)
               (backward-char)
               (list (char-after (1+ (point)))
                     (buffer-substring-no-properties start end))))))))

(defun agent-q-image-feature-skipped-p (start)
  "Whether the image's reader passes over the form at START, by what is before it."
  (save-excursion
    (goto-char start)
    (let ((skipped nil)
          (found nil))
      (while (and (not skipped) (setq found (agent-q-image-feature--before)))
        (setq skipped (apply #'agent-q-image-feature--off-p found)))
      skipped)))

(defun agent-q-image-feature-pass-over ()
  "Move over white space, comments and feature expressions."
  (while (progn (forward-comment (point-max))
                (and (looking-at "#[-+]")
                     (let ((end (ignore-errors (scan-sexps (+ 2 (point)) 1))))
                       (and end (goto-char end)))))))

(provide 'agent-q-image-feature)
;;; agent-q-image-feature.el ends here
