;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the forms of a text define, by keys: (kind name), for methods with their qualifiers and
;;; specializers. Names that the image doesn't have are (:ABSENT name package).

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (written (:copier nil) (:predicate nil))
  ;; Where its top-level form stands in the text, by number and by place.
  index start end
  ;; What it defines, if that is known from its operator; otherwise that and its first argument.
  key head
  package digest
  ;; The name of the file, and the text.
  file source)

(defparameter *kinds-of-operators*
  '(("DEFUN" . :function) ("DEFMACRO" . :function) ("DEFGENERIC" . :function)
    ("DEFINE-MODIFY-MACRO" . :function) ("DEFMETHOD" . :method)
    ("DEFINE-COMPILER-MACRO" . :compiler-macro) ("DEFVAR" . :variable)
    ("DEFPARAMETER" . :variable) ("DEFCONSTANT" . :variable) ("DEFGLOBAL" . :variable)
    ("DEFINE-SYMBOL-MACRO" . :symbol-macro) ("DEFTYPE" . :type) ("DEFCLASS" . :class)
    ("DEFINE-CONDITION" . :class) ("DEFSTRUCT" . :class) ("DEFSETF" . :setf)
    ("DEFINE-SETF-EXPANDER" . :setf)))

(defparameter *transparent-operators*
  '(("PROGN" . 0) ("LOCALLY" . 0) ("EVAL-WHEN" . 1) ("LET" . 1) ("LET*" . 1) ("FLET" . 1)
    ("LABELS" . 1) ("MACROLET" . 1) ("SYMBOL-MACROLET" . 1) ("WITH-COMPILATION-UNIT" . 1))
  "Operators around definitions, and how many arguments come before these.")

(defun operator-written (operator)
  (cond ((and operator (symbolp operator)) (symbol-name operator))
        ((eq :absent (first operator)) (second operator))))

(defun written-specializer (parameter)
  (let ((specializer (if (and (consp parameter) (not (eq :absent (first parameter))))
                         (second parameter)
                         t)))
    (if (and (consp specializer) (eq 'eql (first specializer))
             (consp (second specializer)) (eq 'quote (first (second specializer))))
        (list 'eql (second (second specializer)))
        specializer)))

(defun written-method-key (name package)
  "The key of the method of NAME whose qualifiers and parameters are next."
  (let ((qualifiers '()))
    (loop
      (pass-conditionals)
      (when (member (this-character) '(nil #\( #\))) (return))
      (push (datum-here package) qualifiers))
    (list* :method name
           (append (nreverse qualifiers)
                   (list (loop for parameter in (datum-here package)
                               until (member parameter lambda-list-keywords)
                               collect (written-specializer parameter)))))))

(defun defined-key (kind package)
  "The key of the definition of KIND whose name is next; NIL if it makes nothing of that kind."
  (let ((name (datum-here package)))
    (cond ((and (eq kind :class) (consp name) (not (eq :absent (first name))))
           ;; A structure with options.
           (unless (find-if (lambda (it) (and (consp it) (eq :type (first it)))) (rest name))
             (list kind (first name))))
          ((eq kind :method) (written-method-key name package))
          ((integerp name) nil)
          (t (list kind name)))))

(defun loads-p (situations)
  "Whether code in EVAL-WHEN with SITUATIONS runs when its file is loaded."
  (intersection situations '(:load-toplevel load :execute eval)))

(defun scan-forms (index package outer receiver)
  "Call RECEIVER with each definition or other form from here to the end of the list or text. INDEX
counts the top-level forms, if OUTER is NIL; otherwise OUTER is the start, end and digest of the form
around them, or (NIL) inside a form such as PROGN. Returns the package at the end."
  (loop
    (pass-conditionals)
    (when (member (this-character) '(nil #\))) (return package))
    (let ((start *scan-position*) (*digest-one* 0) (*digest-two* 0))
      (pass-datum)
      (setf package (scan-one index package outer (list start *scan-position* (digest-so-far))
                              receiver))
      (unless outer (incf index)))))

(defun scan-one (index package outer place receiver)
  "Call RECEIVER with what the form at PLACE, a start, an end and a digest, defines. Returns the
package after it. See SCAN-FORMS."
  (destructuring-bind (start end digest) place
    (declare (ignore digest))
    (let ((own (if (first outer) outer place)))
      (when (eql #\( (char *scanned-text* start))
        (setf *scan-position* (1+ start))
        (let* ((operator (operator-written (datum-here package)))
               (inside (assoc operator *transparent-operators* :test #'equal)))
          (cond ((equal operator "IN-PACKAGE")
                 (setf package (package-written (datum-here package))))
                (inside
                 (setf package (scan-inside operator inside index package outer own receiver)))
                (t (multiple-value-bind (key head) (key-here operator start package)
                     (funcall receiver index own key head package))))))
      (setf *scan-position* end)
      package)))

(defun scan-inside (operator inside index package outer own receiver)
  "The same for a form with OPERATOR, which has definitions in it; INSIDE is its entry in
*TRANSPARENT-OPERATORS*."
  (let ((first (and (plusp (cdr inside)) (datum-here package)))
        (splicing (member operator '("PROGN" "LOCALLY" "EVAL-WHEN") :test #'equal)))
    (if (and (equal operator "EVAL-WHEN") (not (loads-p first)))
        package
        (let ((after (scan-forms index package (if splicing (or outer '(nil)) own) receiver)))
          (if splicing after package)))))

(defun key-here (operator start package)
  "The key of the definition by OPERATOR whose name is next, or NIL and how its form, at START,
begins."
  (let* ((from *scan-position*)
         (kind (cdr (assoc operator *kinds-of-operators* :test #'equal)))
         (key (and kind (ignore-errors (defined-key kind package)))))
    (cond (key)
          (t (setf *scan-position* from)
             (pass-datum)
             (values nil (string-downcase (subseq *scanned-text* start *scan-position*)))))))

(defun package-written (name)
  "The package that NAME, of DATUM-HERE, designates; NIL if there is none."
  (let ((text (cond ((null name) nil)
                    ((symbolp name) (symbol-name name))
                    ((and (consp name) (eq :absent (first name))) (second name))
                    ((and (consp name) (eq :text (first name)))
                     (string-trim "\"" (second name))))))
    (and text (find-package text))))

(defun written-in (text &key (package (find-package "COMMON-LISP-USER")) file)
  "What TEXT defines, a list, and the packages that it is in."
  (let ((*scanned-text* text) (*scan-position* 0) (all '()) (packages '()))
    (scan-forms 0 package nil
                (lambda (index place key head its-package)
                  (pushnew its-package packages)
                  (push (make-written :index index :start (first place) :end (second place) :key key
                                      :head head :package its-package :digest (third place)
                                      :file file :source text)
                        all)))
    (values (nreverse all) packages)))

(defun written-text (written)
  (subseq (written-source written) (written-start written) (written-end written)))

(defun forms-written (text)
  "How many top-level forms TEXT has."
  (let ((*scanned-text* text) (*scan-position* 0))
    (loop do (pass-conditionals)
          until (member (this-character) '(nil #\)))
          do (pass-datum)
          count t)))
