;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What proofreading stands on: the parts of a text, what is known so far, and the mistakes. Nothing of
;;; the text is read by the Lisp reader, interned, expanded or run. A false alarm is worse than a miss.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (part (:constructor make-part (kind start end &optional value)) (:copier nil))
  ;; :LIST, :NAME, :KEYWORD, :QUOTE (backquotes, too), :FUNCTION, :DATA, :ELLIPSIS, :DOT, or :UNCLEAR
  ;; for what only the program's reader understands.
  kind start end
  ;; The parts of a list, the part behind a quote, the name as the reader would make it.
  value
  ;; Of a name: the symbol, and whether it is :FOUND, :MISSING, or :UNKNOWN as its package is.
  symbol (status :unknown)
  ;; The package that it was looked up in, and whether that stands before the name.
  home qualified)

(defstruct (planned-package (:copier nil))
  "A package that the text defines."
  name (uses '()) (exports '()) (imports '()) (shadowed '()) (nicknames '()))

(defstruct (proof (:copier nil))
  ;; The text being read, and where.
  text (position 0)
  ;; A package, a PLANNED-PACKAGE, or NIL for one that nobody knows.
  package
  (planned (make-hash-table :test 'equal))
  ;; By name: what the texts define, each a list of counts of arguments or T.
  (functions (make-hash-table :test 'equal))
  (macros (make-hash-table :test 'equal))
  ;; Names that are part of what macros of the texts may define.
  (kin '())
  ;; Whether the texts load something, export something, or change the reader.
  loads exports other-reader
  ;; Packages of programs that the code seems to be meant for, whatever package it is read in.
  (meant '())
  ;; Of the last text: lists of start, end, kind, reason, and packages that know the name.
  (mistakes '()) (depth 0)
  ;; Where the outermost list or string begins that has no end, and what it is.
  (unclosed nil))

(defvar *proof* nil
  "What is known of the texts that are proofread in this thread.")

(defparameter *deepest* 250
  "How deep the code that is proofread may be nested.")

(defparameter *most-mistakes* 60
  "How many mistakes are shown at most.")

(defun note-mistake (part kind reason &optional packages)
  (push (list (part-start part) (part-end part) kind reason packages) (proof-mistakes *proof*)))

(defun list-parts (part)
  (and (eq (part-kind part) :list) (part-value part)))

(defun name-part-p (part)
  (and part (eq (part-kind part) :name)))

(defun part-named-p (part &rest names)
  (and part (member (part-kind part) '(:name :keyword))
       (member (part-value part) names :test #'string=)))

(defun name-of-part (part)
  "The name in PART, which names a package or the like: a symbol, a keyword or a string."
  (and part (member (part-kind part) '(:name :keyword :data))
       (stringp (part-value part))
       (part-value part)))

(defun plain-list-p (part)
  "Whether PART is a list that is all there."
  (and (eq (part-kind part) :list)
       (notany (lambda (it) (member (part-kind it) '(:dot :ellipsis :unclear))) (part-value part))))

(defun standard-symbol-p (symbol)
  "Whether SYMBOL is one of Common Lisp's. Its home may be another package."
  (multiple-value-bind (found status) (find-symbol (symbol-name symbol) "COMMON-LISP")
    (and (eq status :external) (eq found symbol))))

(defun standard-part-symbol (part)
  "The symbol of Common Lisp's that PART is, or NIL."
  (and (name-part-p part)
       (eq (part-status part) :found)
       (standard-symbol-p (part-symbol part))
       (part-symbol part)))

;;; How the parts of forms are looked at

(defvar *proofs* '()
  "From an operator of Common Lisp's to the function that proofreads its forms.")

(defmacro define-proof (operators (parts scope) &body body)
  "Proofread forms of OPERATORS, symbols, whose other parts are PARTS, by BODY."
  (let ((function (intern (format nil "PROOFREAD-FORM/~A" (first operators)) "AGENT-Q-IMAGE")))
    `(progn
       (defun ,function (,parts ,scope) (declare (ignorable ,parts ,scope)) ,@body)
       (setf *proofs* (append (mapcar (lambda (operator) (cons operator ',function)) ',operators)
                              (remove-if (lambda (entry) (member (car entry) ',operators))
                                         *proofs*))))))
