;;; agent-q-pretty.el --- Lists over lines, as programmers write them  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Emacs's own printer breaks lines differently from version to version, before
;; Emacs 30 behind nearly every opening parenthesis.  This one fills lines, keeps
;; a keyword beside its value, and writes code with the body below its head.

;;; Code:

(require 'seq)
(require 'subr-x)

(defconst agent-q-pretty--line 70
  "Longest text, in characters, that is kept on one line.")

(defconst agent-q-pretty--limit 20000
  "How many characters of a list are printed over lines; more takes too long.")

(defconst agent-q-pretty--depth 40
  "How many lists in lists are printed over lines.")

(defun agent-q-pretty (value)
  "Return VALUE as text that `read' understands, over lines when it is long."
  (let* ((print-circle t) (print-quoted t)
         (plain (prin1-to-string value)))
    (cond ((> (length plain) agent-q-pretty--limit) plain)
          ((not (string-match-p "#[0-9]+=" plain))
           (agent-q-pretty--value value 0 agent-q-pretty--depth))
          ;; What is in several places has a label, which its parts would lose.
          ((agent-q-pretty--tree-p value)
           (condition-case nil
               (let ((print-circle nil))
                 (agent-q-pretty--value value 0 agent-q-pretty--depth))
             ;; Such as one that is too deep to be printed so.
             (error plain)))
          (t plain))))

(defun agent-q-pretty--tree-p (value)
  "Whether VALUE comes to an end, and soon, when what is in it twice counts twice."
  (let ((left agent-q-pretty--limit)
        (stack (list value)))
    (while (and stack (< 0 left))
      (let ((part (pop stack)))
        (setq left (1- left))
        (cond ((consp part) (push (cdr part) stack) (push (car part) stack))
              ((vectorp part) (seq-doseq (element part) (push element stack)))
              ;; Whatever may be in there, such as in a record or a hash table.
              ((not (or (symbolp part) (stringp part) (numberp part)))
               (setq left 0)))))
    (null stack)))

(defun agent-q-pretty--value (value column depth)
  "Return VALUE, printed from COLUMN on, with lists up to DEPTH over lines."
  (let ((plain (prin1-to-string value)))
    (cond ((or (<= (+ column (length plain)) agent-q-pretty--line)
               (zerop depth))
           plain)
          ((and (vectorp value) (< 0 (length value)))
           (concat "[" (agent-q-pretty--parts (agent-q-pretty--units (append value nil))
                                              nil (1+ column) (1- depth))
                   "]"))
          ((and (memq (car-safe value) '(quote function \`)) (consp (cdr value)))
           (agent-q-pretty--quoted value plain column depth))
          ((consp value)
           (concat "(" (agent-q-pretty--parts (agent-q-pretty--units value)
                                              (agent-q-pretty--before-body value)
                                              (1+ column) (1- depth))
                   ")"))
          (t plain))))

(defun agent-q-pretty--quoted (value plain column depth)
  "Return VALUE, such as a quoted list, which is PLAIN on one line.
COLUMN and DEPTH are as for `agent-q-pretty--value'."
  (let* ((inner (prin1-to-string (cadr value)))
         (mark (and (string-suffix-p inner plain) (string-remove-suffix inner plain))))
    (if mark
        (concat mark (agent-q-pretty--value (cadr value) (+ column (length mark)) (1- depth)))
      plain)))

(defun agent-q-pretty--units (list)
  "Return the parts of LIST that stay together, each one a list of values.
These are its elements; in a property list a keyword and its value; and of a
dotted list the dot and the end."
  (let ((plist (keywordp (car list)))
        (units nil))
    (while (consp list)
      (push (if (and plist (keywordp (car list)) (consp (cdr list)))
                (list (pop list) (pop list))
              (list (pop list)))
            units))
    (when list
      (push (list '\. list) units))
    (nreverse units)))

(defun agent-q-pretty--before-body (list)
  "Return how many elements of LIST stand before its body, or nil if it has none."
  (let ((indent (and (car list) (symbolp (car list))
                     (function-get (car list) 'lisp-indent-function))))
    (cond ((eq indent 'defun) 3)
          ((natnump indent) (1+ indent)))))

(defun agent-q-pretty--parts (units before-body column depth)
  "Return UNITS of a list or vector, printed from COLUMN on and with DEPTH.
The first BEFORE-BODY of them stay on the first line, if there is a body."
  (let ((pieces nil)
        (at column)
        (number 0)
        (margin (if before-body (1+ column) column))
        ;; As in a list of entries.
        (lined (consp (car (car units))))
        (lines nil))
    (dolist (unit units)
      (let ((plain (mapconcat #'agent-q-pretty--atom unit " ")))
        (cond ((zerop number))
              ((and before-body (< number before-body))
               (push " " pieces)
               (setq at (1+ at)))
              ((or lined before-body lines
                   (> (+ at 1 (length plain)) agent-q-pretty--line))
               (push (concat "\n" (make-string margin ?\s)) pieces)
               (setq at margin))
              (t (push " " pieces)
                 (setq at (1+ at))))
        (let ((printed (agent-q-pretty--unit unit at depth)))
          (push printed pieces)
          (setq lines (string-search "\n" printed)
                at (if lines
                       (- (length printed) (string-match-p "[^\n]*\\'" printed))
                     (+ at (length printed)))
                number (1+ number)))))
    (apply #'concat (nreverse pieces))))

(defun agent-q-pretty--atom (value)
  "Return VALUE printed on one line; the dot of a dotted list is itself."
  (if (eq value '\.) "." (prin1-to-string value)))

(defun agent-q-pretty--unit (unit column depth)
  "Return the values of UNIT printed from COLUMN on and with DEPTH."
  (if (cdr unit)
      (let ((first (concat (agent-q-pretty--atom (car unit)) " ")))
        (concat first (agent-q-pretty--value (cadr unit) (+ column (length first)) depth)))
    (agent-q-pretty--value (car unit) column depth)))

(provide 'agent-q-pretty)
;;; agent-q-pretty.el ends here
