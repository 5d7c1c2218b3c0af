;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The basis of proofreading: the parts of a text, what is known so far, and the mistakes. Nothing
;;; of the text is read by the Lisp reader, interned, expanded or run. A false alarm is worse than a
;;; miss.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (part (:constructor make-part (kind start end &optional value)) (:copier nil))
  ;; :LIST, :NAME, :KEYWORD, :QUOTE (backquotes, too), :FUNCTION, :DATA, :ELLIPSIS, :DOT, or
  ;; :UNCLEAR for what only the program's reader understands.
  kind start end
  ;; The parts of a list; the quoted part; or the name as the reader would make it.
  value
  ;; For a name: the symbol, and whether it is :FOUND, :MISSING or, if its package is unknown,
  ;; :UNKNOWN.
  symbol (status :unknown)
  ;; The package in which it was looked up, and the name of one that was written before it.
  home qualified)

(defstruct (planned-package (:copier nil))
  "A package that the text defines."
  name (uses '()) (exports '()) (imports '()) (shadowed '()) (nicknames '()))

(defstruct (proof (:copier nil))
  ;; The text being read, and where.
  text (position 0)
  ;; A package, a PLANNED-PACKAGE, or NIL for an unknown one.
  package
  (planned (make-hash-table :test 'equal))
  ;; By name: what the texts define, each a list of argument counts or T.
  (functions (make-hash-table :test 'equal))
  (macros (make-hash-table :test 'equal))
  ;; Parts of names that macros of the texts may define.
  (name-parts '())
  ;; Whether the texts load or export something, or change the reader.
  loads exports other-reader
  ;; The program's packages that the code seems to be meant for, whatever package it is read in.
  (meant '())
  ;; For the last text: lists of start, end, kind, reason, and packages that know the name.
  (mistakes '()) (depth 0)
  ;; What the outermost unclosed list or string is, and where it begins.
  (unclosed nil)
  ;; A function to call with the name of each form that is no local function's, or NIL.
  (visitor nil))

(defvar *proof* nil
  "What is known of the texts being proofread in this thread.")

(defparameter *deepest* 250
  "How deeply the code may be nested.")

(defparameter *most-mistakes* 60
  "The most mistakes to report.")

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
  "Whether PART is a list with nothing left out."
  (and (eq (part-kind part) :list)
       (notany (lambda (it) (member (part-kind it) '(:dot :ellipsis :unclear))) (part-value part))))

(defun standard-symbol-p (symbol)
  "Whether SYMBOL is a standard one. Its home may be another package."
  (multiple-value-bind (found status) (find-symbol (symbol-name symbol) "COMMON-LISP")
    (and (eq status :external) (eq found symbol))))

(defun standard-part-symbol (part)
  "The standard symbol that PART is, or NIL."
  (and (name-part-p part)
       (eq (part-status part) :found)
       (standard-symbol-p (part-symbol part))
       (part-symbol part)))

;;; How to look at the parts of forms

(defvar *proofreaders* '()
  "From standard operators to the functions that proofread their forms.")

(defmacro define-proofreader (operators (parts scope) &body body)
  "Define by BODY how to proofread forms of OPERATORS, symbols; PARTS are the parts after the
operator."
  (let ((function (intern (format nil "PROOFREAD-FORM/~A" (first operators)) "AGENT-Q-IMAGE")))
    `(progn
       (defun ,function (,parts ,scope) (declare (ignorable ,parts ,scope)) ,@body)
       (setf *proofreaders* (append (mapcar (lambda (operator) (cons operator ',function)) ',operators)
                                    (remove-if (lambda (entry) (member (car entry) ',operators))
                                               *proofreaders*))))))
