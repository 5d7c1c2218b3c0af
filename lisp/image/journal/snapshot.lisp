;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What is defined in the image before and after a call of the agent: functions, macros, places,
;;; methods, types, classes and values of variables, in all packages of the program.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *tracked-symbols-limit* 400000
  "With more symbols than this, an image's remaining packages are left out of snapshots.")

;; States are plain vectors with macros as accessors: there are many, and the first ones are taken
;; while this text is still interpreted.
(defparameter *state-parts*
  '(function methods setf-function setf-methods compiler-macro class superclasses slots options
    type setf-expander symbol-macro variable home)
  "The function, or (:macro function), and the methods of a generic function; the same of the setf
function; the compiler macro; the class, its direct superclasses, its direct slots and its other
options; the expanders of a type and of a place; the expansion of a symbol macro, in a list; the
value and the package.")

(defmacro part (part state)
  `(svref ,state ,(position part *state-parts*)))

(defun tracked-package-p (package)
  (let ((name (package-name package)))
    (not (or (null name)
             (member name '("KEYWORD" "COMMON-LISP") :test #'string=)
             (prefixed-p "AGENT-Q-IMAGE" name) (prefixed-p "SLYNK" name) (prefixed-p "SWANK" name) (prefixed-p "SB-" name)
             ;; A program may lock its packages; SBCL's own are recognized by their names.
             (and (locked-p package) (not (implementation-p "SBCL")))))))

(defun tracked-values-p (package)
  "Whether values of variables in PACKAGE matter to anybody; tools for building and testing change
theirs all the time."
  (not (or (test-framework-package-p package)
           (loop for prefix in '("ASDF" "UIOP" "QUICKLISP" "QL-" "QLQS-")
                   thereis (prefixed-p prefix (package-name package))))))

(defvar *expander-readers* nil
  "Functions that return the expanders of a name as a type and as a place; NIL until they are made.")

(defun expander-reader (kind)
  "A function that returns a name's expander as KIND, :TYPE or :SETF, if known."
  (let ((info (find-symbol "INFO" (or (find-package "SB-INT") "COMMON-LISP"))))
    (or (and info (fboundp info)
             (ignore-errors
              (funcall info kind :expander 'car)
              (lambda (name) (funcall info kind :expander name))))
        (constantly nil))))

(defun expanders (name)
  "The expanders of NAME as a type and as a place."
  (unless *expander-readers*
    (setf *expander-readers* (list (expander-reader :type) (expander-reader :setf))))
  (values (funcall (first *expander-readers*) name)
          (funcall (second *expander-readers*) name)))

(defun symbol-macro (symbol)
  "A list of the expansion of SYMBOL as a symbol macro, or NIL."
  (unless (boundp symbol)
    (multiple-value-bind (expansion expanded) (macroexpand-1 symbol)
      (and expanded (list expansion)))))

(defvar *global-value* (or (optional-function "SB-EXT" "SYMBOL-GLOBAL-VALUE") 'symbol-value)
  "A function that returns a symbol's global value, if there is one: a call may be compared while it
waits inside bindings.")

(defun variable-value (symbol)
  (if (boundp symbol)
      (handler-case (funcall *global-value* symbol)
        (unbound-variable () *unbound*))
      *unbound*))

(defun direct-superclasses (class)
  (let ((superclasses (or (optional-function "SB-MOP" "CLASS-DIRECT-SUPERCLASSES")
                          (optional-function "SLYNK-MOP" "CLASS-DIRECT-SUPERCLASSES")
                          (optional-function "SWANK-MOP" "CLASS-DIRECT-SUPERCLASSES"))))
    (and superclasses class (ignore-errors (copy-list (funcall superclasses class))))))

(defun generic-methods (function)
  "The methods of FUNCTION if it is generic."
  (and (typep function 'generic-function)
       (let ((methods (or (optional-function "SB-MOP" "GENERIC-FUNCTION-METHODS")
                          (optional-function "SLYNK-MOP" "GENERIC-FUNCTION-METHODS")
                          (optional-function "SWANK-MOP" "GENERIC-FUNCTION-METHODS"))))
         (and methods (copy-list (funcall methods function))))))

(defun direct-slots (class)
  (let ((slots (or (optional-function "SB-MOP" "CLASS-DIRECT-SLOTS")
                   (optional-function "SLYNK-MOP" "CLASS-DIRECT-SLOTS")
                   (optional-function "SWANK-MOP" "CLASS-DIRECT-SLOTS"))))
    (and slots class (ignore-errors (funcall slots class)))))

(defun symbol-definition (symbol)
  "The definition of SYMBOL as an operator: a function, (:MACRO function), or NIL."
  (cond ((special-operator-p symbol) nil)
        ((macro-function symbol) (list :macro (macro-function symbol)))
        ((fboundp symbol) (symbol-function symbol))))

(defun setf-definition (symbol)
  (let ((name (list 'setf symbol)))
    (and (fboundp name) (fdefinition name))))

(defun symbol-state (symbol value)
  "The state of SYMBOL, with VALUE as its value, or NIL if it means nothing."
  (let* ((function (symbol-definition symbol))
         (setf-function (setf-definition symbol))
         (compiler-macro (compiler-macro-function symbol))
         (class (find-class symbol nil))
         (symbol-macro (symbol-macro symbol)))
    (multiple-value-bind (type setf-expander) (expanders symbol)
      (when (or function setf-function compiler-macro class type setf-expander symbol-macro
                (not (eq value *unbound*)))
        (vector function (generic-methods function)
                setf-function (generic-methods setf-function)
                compiler-macro class (direct-superclasses class) (direct-slots class)
                (class-options class) type setf-expander symbol-macro value (symbol-package symbol))))))

(defun call-with-home-symbols (function package)
  "Call FUNCTION with each symbol whose home is PACKAGE."
  (with-package-iterator (next package :internal :external)
    (loop
      (multiple-value-bind (more symbol) (next)
        (unless more (return))
        (when (eq (symbol-package symbol) package)
          (funcall function symbol))))))

(defun take-snapshot ()
  "A table from each symbol that means something to its state."
  (let ((table (make-hash-table :test 'eq)) (count 0) (nothing-known (nothing-known-p)))
    (labels ((take (symbol value)
               (incf count)
               (let ((state (and (not (funcall nothing-known symbol))
                                 (symbol-state symbol value))))
                 (when state (setf (gethash symbol table) state))))
             (take-function (symbol) (take symbol *unbound*))
             (take-all (symbol) (take symbol (variable-value symbol))))
      (dolist (package (list-all-packages))
        (when (and (tracked-package-p package) (< count *tracked-symbols-limit*))
          (call-with-home-symbols (if (tracked-values-p package) #'take-all #'take-function)
                                  package)))
      ;; Standard generic functions get methods for the program's classes.
      (do-external-symbols (symbol "COMMON-LISP")
        (when (and (fboundp symbol) (typep (fdefinition symbol) 'generic-function))
          (take-function symbol))))
    table))

;;; Differences

(defun same-definition-p (one other)
  (or (eql one other)
      ;; A variable set to an equal text.
      (and (stringp one) (stringp other) (string= one other))
      (and (consp one) (consp other)
           (eq (first one) :macro) (eq (first other) :macro)
           (eq (second one) (second other)))))

(defun slot-features (slot)
  "What the definition of SLOT says, as a list."
  (flet ((feature (name)
           (let ((reader (or (optional-function "SB-MOP" name)
                             (optional-function "SLYNK-MOP" name)
                             (optional-function "SWANK-MOP" name))))
             (and reader (ignore-errors (funcall reader slot))))))
    (mapcar #'feature
            '("SLOT-DEFINITION-NAME" "SLOT-DEFINITION-TYPE" "SLOT-DEFINITION-ALLOCATION"
              "SLOT-DEFINITION-INITFORM" "SLOT-DEFINITION-INITARGS" "SLOT-DEFINITION-READERS"
              "SLOT-DEFINITION-WRITERS"))))

(defun same-class-p (before after)
  "Whether the class is the same in the states BEFORE and AFTER, even if it was defined again."
  (and (eq (part class before) (part class after))
       (equal (part superclasses before) (part superclasses after))
       (or (equal (part slots before) (part slots after))
           (equal (mapcar #'slot-features (part slots before))
                  (mapcar #'slot-features (part slots after))))))

(defun nothing-state ()
  (let ((state (make-array (length *state-parts*) :initial-element nil)))
    (setf (part variable state) *unbound*)
    state))

(defun state-differences (symbol before after)
  "The differences of SYMBOL: lists of kind, name, old and new."
  (let ((before (or before (nothing-state))) (after (or after (nothing-state))) (found '()))
    (flet ((compare (kind name old new)
             (unless (same-definition-p old new)
               (push (list kind name old new) found)))
           (compare-methods (name old-function new-function old new)
             (when (and old-function (eq old-function new-function)
                        (set-exclusive-or old new))
               (push (list :methods name (set-difference old new) (set-difference new old))
                     found))))
      (compare :function symbol (part function before) (part function after))
      (compare-methods symbol (part function before) (part function after)
                       (part methods before) (part methods after))
      (compare :function (list 'setf symbol)
               (part setf-function before) (part setf-function after))
      (compare-methods (list 'setf symbol)
                       (part setf-function before) (part setf-function after)
                       (part setf-methods before) (part setf-methods after))
      (compare :compiler-macro symbol
               (part compiler-macro before) (part compiler-macro after))
      (compare :type symbol (part type before) (part type after))
      (compare :place symbol (part setf-expander before) (part setf-expander after))
      (unless (eql (first (part symbol-macro before)) (first (part symbol-macro after)))
        (push (list :symbol-macro symbol (part symbol-macro before) (part symbol-macro after))
              found))
      (compare :variable symbol (part variable before) (part variable after))
      (unless (same-class-p before after)
        (push (list :class symbol (part class before) (part class after)) found))
      (unless (or (not (eq (part class before) (part class after)))
                  (same-options-p (part options before) (part options after)))
        (push (list :class-options symbol (part options before) (part options after)) found)))
    found))

(defun snapshot-differences (before after)
  (let ((found '()))
    (maphash (lambda (symbol state)
               (let ((old (gethash symbol before)))
                 (unless (equalp-states old state)
                   (setf found (append (state-differences symbol old state) found)))))
             after)
    (maphash (lambda (symbol state)
               (unless (gethash symbol after)
                 (setf found (append (if (symbol-package symbol)
                                         (state-differences symbol state nil)
                                         (list (list :symbol symbol (part home state) nil)))
                                     found))))
             before)
    found))

(defun equalp-states (one other)
  "A quick check whether nothing differs."
  (and one other
       (eq (part class one) (part class other))
       (eq (part compiler-macro one) (part compiler-macro other))
       (same-definition-p (part function one) (part function other))
       (eq (part setf-function one) (part setf-function other))
       (equal (part methods one) (part methods other))
       (equal (part setf-methods one) (part setf-methods other))
       (equal (part superclasses one) (part superclasses other))
       (equal (part slots one) (part slots other))
       (same-options-p (part options one) (part options other))
       (eq (part type one) (part type other))
       (eq (part setf-expander one) (part setf-expander other))
       (eql (first (part symbol-macro one)) (first (part symbol-macro other)))
       (eql (part variable one) (part variable other))))
