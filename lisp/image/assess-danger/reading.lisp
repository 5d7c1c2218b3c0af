;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Opening files for reading. That is harmless unless the text names one of the user's private
;;; files; Emacs knows which those are.

(cl:in-package "AGENT-Q-IMAGE")

(define-table +file-readers+
  '("READ-FILE" "SAFE-READ-FILE" "WITH-INPUT-FILE" "WITH-INPUT-FROM-FILE" "CALL-WITH-INPUT-FILE"
    "SLURP" "FILE-STRING" "FROM-FILE" "FILE-CONTENTS" "MAP-FILE-LINES")
  "How the names of functions and macros that read a file begin, in any library.")

(defun note-reader (symbol)
  "Note that the text opens files for reading, if SYMBOL is an operator that does."
  (when (or (member symbol '(open with-open-file))
            (and (fboundp symbol)
                 (some (lambda (name) (prefixed-p name (symbol-name symbol))) +file-readers+)))
    (setf (findings-opens *findings*) t)))

;;; The Lisp reader, which runs the form after #.

(define-table +stream-readers+
  '("READ" "READ-PRESERVING-WHITESPACE" "READ-DELIMITED-LIST" "SLURP-STREAM-FORM"
    "SLURP-STREAM-FORMS" "SLURP-INPUT-STREAM")
  "Standard functions and UIOP's that read forms from a stream.")

(defun note-reading (operator form scope)
  "Note that OPERATOR (in FORM and SCOPE, if called there) reads forms or makes a string stream.
Files are the user's, but a string may have been put together just to be read."
  (cond ((and form (scope-inert scope)))
        ((and (member (symbol-name operator) +stream-readers+ :test #'string=)
              (protected-or-uiop-p operator))
         (push (or form operator) (findings-reads *findings*)))
        ((member operator '(make-string-input-stream with-input-from-string))
         (let ((string (and form (if (eq operator 'with-input-from-string)
                                     (and (consp (second form)) (second (second form)))
                                     (second form)))))
           (unless (and form (let ((*scope* scope)) (text-of-argument string form)))
             (push (or form operator) (findings-strings *findings*)))))
        ((and form (string= (symbol-name operator) "WITH-INPUT") (consp (second form))
              (not (stringp (second (second form)))))
         (push form (findings-strings *findings*)))))

(defun protected-or-uiop-p (symbol)
  (or (eq (symbol-package symbol) (find-package "COMMON-LISP"))
      (exported-by-p symbol "UIOP")))

(defun scope-for-reading (operator scope)
  "The scope of the forms inside the macro OPERATOR, in SCOPE: it may bind *READ-EVAL*."
  (let ((inert (cond ((eq operator 'with-standard-io-syntax) nil)
                     ((string= (symbol-name operator) "WITH-SAFE-IO-SYNTAX") t)
                     (t (scope-inert scope)))))
    (if (eq inert (scope-inert scope))
        scope
        (let ((inner (copy-scope scope)))
          (setf (scope-inert inner) inert)
          inner))))
