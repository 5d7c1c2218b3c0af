;;; agent-q-test-implementations.el --- Tools on each Common Lisp, as a table  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Runs examples of tools in an implementation and tells of each whether it
;; works, is not available, or differs; and keeps the table of that which the
;; manual shows.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-test-program)

(defconst agent-q-test-implementations-file
  (expand-file-name "IMPLEMENTATIONS.md" agent-q-test-root)
  "The page of the manual with the table.")

(defconst agent-q-test-implementations
  '((sbcl . "SBCL") (ecl . "ECL") (abcl . "ABCL") (clisp . "CLISP"))
  "The implementations in the table, and what they are called.")

;;;; Examples

(defvar agent-q-test-implementations--seen nil
  "The latest handle and debugger that results named: an alist of strings.")

(defun agent-q-test-implementations-call (name arguments)
  "Call the tool NAME with ARGUMENTS and return the content, of a failure too.
In ARGUMENTS, \"%v\" and \"%d\" stand for the latest handle and debugger."
  (let* ((given (mapcar (lambda (argument)
                          (or (cdr (assoc argument agent-q-test-implementations--seen))
                              argument))
                        arguments))
         (content (agent-q-tool-result-content
                   (car (agent-q-execute-tool-calls-sync
                         (list (list :name name :arguments given))
                         agent-q-test-patience)))))
    (pcase-dolist (`(,key . ,regexp) '(("%v" . "\\[\\(v[0-9]+\\)\\]")
                                       ("%d" . "debugger \\(d[0-9]+\\)")))
      (when (string-match regexp content)
        (setf (alist-get key agent-q-test-implementations--seen nil nil #'equal)
              (match-string 1 content))))
    content))

(defun agent-q-test-implementations-outcome (example content implementation)
  "Return what CONTENT says on EXAMPLE in IMPLEMENTATION, a text of the table.
That is \"works\", or \"no: \" or \"differs: \" with the reason, or nil when
CONTENT is none of what the example expects."
  (pcase-let* ((`(,_label ,_call ,works . ,differs) example)
               (why (concat "not available on " implementation
                            " because \\([^.]+\\)\\."))
               (reason (and (string-match why content) (match-string 1 content)))
               (other (cl-find-if (lambda (other) (string-match-p (car other) content))
                                  differs)))
    (cond ((and reason other) (format "differs: %s; %s" (cdr other) reason))
          (reason (concat "no: " reason))
          ((string-match-p works content) "works")
          (other (concat "differs: " (cdr other))))))

(defun agent-q-test-implementations-run (examples connection implementation)
  "Run EXAMPLES over CONNECTION to IMPLEMENTATION; return an alist of outcomes.
A call of an example is a list of a tool's name and arguments, or a
function that gets CONNECTION and returns the content, nil when the
example can't be run here.  Fail with all that is not as expected."
  (let ((agent-q-test-implementations--seen nil) (outcomes nil) (unexpected nil))
    (dolist (example examples)
      (let* ((call (nth 1 example))
             (content (if (functionp call)
                          (funcall call connection)
                        (agent-q-test-implementations-call (car call) (cdr call))))
             (outcome (and content (agent-q-test-implementations-outcome
                                    example content implementation))))
        (cond (outcome (push (cons (car example) outcome) outcomes))
              (content (push (list (car example) content) unexpected)))))
    (when unexpected
      (ert-fail (cons implementation (nreverse unexpected))))
    (nreverse outcomes)))

;;;; The table

;; Outcomes are in an alist: ((LABEL COLUMN CLIENT) . OUTCOME), with COLUMN an
;; implementation's name and CLIENT a symbol.

(defun agent-q-test-implementations-read ()
  "Return the outcomes that the manual tells."
  (let ((rows nil) (notes nil) (outcomes nil))
    (with-temp-buffer
      (insert-file-contents agent-q-test-implementations-file)
      (while (re-search-forward "^| \\([^ |][^|]*?\\) | \\(.*\\) |$" nil t)
        (push (cons (string-replace "`" "" (match-string 1))
                    (split-string (match-string 2) " | "))
              rows))
      (goto-char (point-min))
      (while (re-search-forward "^\\([0-9]+\\)\\. \\(.*\\)$" nil t)
        (push (cons (match-string 1) (match-string 2)) notes)))
    (pcase-dolist (`(,label . ,cells) (nreverse rows))
      (cl-loop for cell in cells
               for (_ . column) in agent-q-test-implementations
               do (dolist (client '(slime sly))
                    (let ((outcome (agent-q-test-implementations--uncell
                                    cell client notes)))
                      (when outcome
                        (push (cons (list label column client) outcome) outcomes))))))
    (nreverse outcomes)))

(defun agent-q-test-implementations--uncell (cell client notes)
  "Return the outcome that CELL tells for CLIENT, with NOTES an alist."
  (let* ((name (if (eq client 'sly) "SLY" "SLIME"))
         (text (cond ((string-match (concat "\\_<" name ": \\([^;]+\\)") cell)
                      (match-string 1 cell))
                     ((string-match-p ": " cell) "")
                     (t cell))))
    (cond ((equal text "yes") "works")
          ((string-match "\\`\\(no\\|differs\\) \\[\\([0-9]+\\)\\]" text)
           (concat (match-string 1 text) ": "
                   (cdr (assoc (match-string 2 text) notes)))))))

(defun agent-q-test-implementations-text (labels outcomes)
  "Return the table for the rows LABELS with OUTCOMES, and its notes."
  (let ((notes nil))
    (cl-labels
        ((note (text)
           (unless (member text notes)
             (setq notes (append notes (list text))))
           (1+ (cl-position text notes :test #'equal)))
         (word (outcome)
           (cond ((null outcome) "not tried")
                 ((equal outcome "works") "yes")
                 ((string-match "\\`\\(no\\|differs\\): \\(.*\\)" outcome)
                  (let ((kind (match-string 1 outcome)))
                    (format "%s [%d]" kind (note (match-string 2 outcome)))))))
         (cell (label column)
           (let ((slime (cdr (assoc (list label column 'slime) outcomes)))
                 (sly (cdr (assoc (list label column 'sly) outcomes))))
             (cond ((equal slime sly) (word slime))
                   ((null sly) (format "SLIME: %s" (word slime)))
                   ((null slime) (format "SLY: %s" (word sly)))
                   (t (format "SLIME: %s; SLY: %s" (word slime) (word sly)))))))
      (let ((rows (mapcar (lambda (label)
                            (format "| %s | %s |\n"
                                    (replace-regexp-in-string
                                     "\\`\\(?:xref\\|[a-z]+\\(?:_[a-z]+\\)+\\)" "`\\&`" label)
                                    (mapconcat (lambda (column) (cell label (cdr column)))
                                               agent-q-test-implementations " | ")))
                          labels)))
        (concat (format "| | %s |\n|---|%s\n"
                        (mapconcat #'cdr agent-q-test-implementations " | ")
                        (mapconcat (lambda (_) "---|") agent-q-test-implementations ""))
                (string-join rows)
                "\n"
                (cl-loop for text in notes
                         for number from 1
                         concat (format "%d. %s\n" number text)))))))

(defun agent-q-test-implementations-merge (old new)
  "Return the outcomes OLD with those that NEW has in their places."
  (append new (cl-remove-if (lambda (outcome) (assoc (car outcome) new)) old)))

(defun agent-q-test-implementations-write (labels outcomes)
  "Put the table for LABELS with OUTCOMES into the manual."
  (with-temp-buffer
    (insert-file-contents agent-q-test-implementations-file)
    (re-search-forward "^<!-- table -->\n")
    (delete-region (point) (save-excursion
                             (re-search-forward "^<!-- end of table -->$")
                             (match-beginning 0)))
    (insert (agent-q-test-implementations-text labels outcomes))
    (write-region nil nil agent-q-test-implementations-file nil 'silent)))

(provide 'agent-q-test-implementations)
;;; agent-q-test-implementations.el ends here
