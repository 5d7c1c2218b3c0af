;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What is defined in the image, before and after a call of the agent's: functions, macros, setf
;;; functions, compiler macros, methods and classes of all packages that are the program's.
;;; Needs: guard, names

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *watched-symbols-limit* 400000
  "With more symbols than this in an image only those packages are watched that the call names.")

;; States are plain vectors and their parts macros: there are many, and the first ones are taken while
;; this text is not compiled yet.
(defparameter *state-parts*
  '(function methods setf-function setf-methods compiler-macro class slots)
  "The function or (:macro function), and of a generic function its methods; the same of the setf
function; the compiler macro; the class and its own slots.")

(defmacro part (part state)
  `(svref ,state ,(position part *state-parts*)))

(defun watched-package-p (package)
  (let ((name (package-name package)))
    (not (or (null name)
             (member name '("KEYWORD" "AGENT-Q-IMAGE" "COMMON-LISP") :test #'string=)
             (prefixed-p "SLYNK" name) (prefixed-p "SWANK" name) (prefixed-p "SB-" name)
             (locked-p package)))))

(defun generic-methods (function)
  "The methods of FUNCTION when it is generic."
  (and (typep function 'generic-function)
       (let ((methods (or (optional-function "SB-MOP" "GENERIC-FUNCTION-METHODS")
                          (optional-function "SLYNK-MOP" "GENERIC-FUNCTION-METHODS")
                          (optional-function "SWANK-MOP" "GENERIC-FUNCTION-METHODS"))))
         (and methods (copy-list (funcall methods function))))))

(defun own-slots (class)
  (let ((slots (or (optional-function "SB-MOP" "CLASS-DIRECT-SLOTS")
                   (optional-function "SLYNK-MOP" "CLASS-DIRECT-SLOTS")
                   (optional-function "SWANK-MOP" "CLASS-DIRECT-SLOTS"))))
    (and slots class (ignore-errors (funcall slots class)))))

(defun symbol-definition (symbol)
  "What SYMBOL is as an operator: a function, (:MACRO function), or NIL."
  (cond ((special-operator-p symbol) nil)
        ((macro-function symbol) (list :macro (macro-function symbol)))
        ((fboundp symbol) (symbol-function symbol))))

(defun setf-definition (symbol)
  (let ((name (list 'setf symbol)))
    (and (fboundp name) (fdefinition name))))

(defun symbol-state (symbol)
  "What SYMBOL means, or NIL when it means nothing."
  (let* ((function (symbol-definition symbol))
         (setf-function (setf-definition symbol))
         (compiler-macro (compiler-macro-function symbol))
         (class (find-class symbol nil)))
    (when (or function setf-function compiler-macro class)
      (vector function (generic-methods function)
              setf-function (generic-methods setf-function)
              compiler-macro class (own-slots class)))))

(defun call-with-own-symbols (function package)
  "Call FUNCTION with each symbol at home in PACKAGE."
  (with-package-iterator (next package :internal :external)
    (loop
      (multiple-value-bind (more symbol) (next)
        (unless more (return))
        (when (eq (symbol-package symbol) package)
          (funcall function symbol))))))

(defun take-snapshot ()
  "From each watched symbol that means anything to its state."
  (let ((table (make-hash-table :test 'eq)) (count 0))
    (flet ((take (symbol)
             (incf count)
             (let ((state (symbol-state symbol)))
               (when state (setf (gethash symbol table) state)))))
      (dolist (package (list-all-packages))
        (when (and (watched-package-p package) (< count *watched-symbols-limit*))
          (call-with-own-symbols #'take package)))
      ;; Common Lisp's own generic functions get methods for the program's classes.
      (do-external-symbols (symbol "COMMON-LISP")
        (when (and (fboundp symbol) (typep (fdefinition symbol) 'generic-function))
          (take symbol))))
    table))

;;; Differences

(defun same-definition-p (one other)
  (or (eq one other)
      (and (consp one) (consp other) (eq (second one) (second other)))))

(defun state-differences (symbol before after)
  "What differs of SYMBOL: lists of kind, name, old and new."
  (let* ((nothing (make-array (length *state-parts*) :initial-element nil))
         (before (or before nothing)) (after (or after nothing)) (found '()))
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
      (unless (and (eq (part class before) (part class after))
                   (equal (part slots before) (part slots after)))
        (push (list :class symbol (part class before) (part class after)) found)))
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
                 (setf found (append (state-differences symbol state nil) found))))
             before)
    found))

(defun equalp-states (one other)
  "Whether nothing differs, told quickly."
  (and one other
       (eq (part class one) (part class other))
       (eq (part compiler-macro one) (part compiler-macro other))
       (same-definition-p (part function one) (part function other))
       (eq (part setf-function one) (part setf-function other))
       (equal (part methods one) (part methods other))
       (equal (part setf-methods one) (part setf-methods other))
       (equal (part slots one) (part slots other))))
