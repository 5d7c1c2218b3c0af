;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Whose macros are which: the implementation's own do nothing but expand, except where the program
;;; defines how.

(cl:in-package "AGENT-Q-IMAGE")

(defun standard-macro-p (operator)
  "Whether the macro OPERATOR is the implementation's: it does nothing but expand, and often depends
on its environment."
  (let ((package (symbol-package operator)))
    (and package
         (or (member (package-name package) '("COMMON-LISP" "EXT" "SYSTEM" "CLOS") :test #'string=)
             (member (package-name package) +internal-packages+ :test #'string=)
             (prefixed-p "SB-" (package-name package))))))

(define-table +setting-macros+
  '(setf psetf push pushnew pop incf decf remf rotatef shiftf)
  "Macros whose expansion depends on what the program defined for a place.")

(defun program-place-p (place)
  "Whether the program defines assignment to PLACE by a form, not by a function."
  (and (consp place) (symbolp (first place))
       (symbol-package (first place))
       ;; Our interpreted functions expand forms of their own, too.
       (not (eq (symbol-package (first place)) (find-package "AGENT-Q-IMAGE")))
       (not (standard-macro-p (first place)))
       (not (macro-function (first place)))
       (not (fboundp (list 'setf (first place))))))

(defun places-of (form)
  "The arguments of FORM, whose macro is in +SETTING-MACROS+, that may be places."
  (if (member (first form) '(setf psetf))
      (loop for place in (rest form) by #'cddr collect place)
      (rest form)))

(defun mentions-us-p (form)
  (if (consp form)
      (or (mentions-us-p (car form)) (mentions-us-p (cdr form)))
      (and (symbolp form) form (eq (symbol-package form) (find-package "AGENT-Q-IMAGE")))))

;;; Definitions

(define-table +defining-macros+
  '(defun defmacro defmethod defgeneric defclass defstruct define-condition deftype defsetf
    define-setf-expander define-compiler-macro define-modify-macro define-method-combination
    define-symbol-macro)
  "Macros that give code a name.")

(define-table +function-places+
  '(fdefinition symbol-function macro-function compiler-macro-function)
  "Places that give code a name when they are set.")

(define-table +other-defining-macros+
  '("DEFINE-HASH-TABLE-TEST" "DEFCAS" "DEFINE-DECLARATION" "DEFINE-ALIEN-CALLABLE" "DEFINE-ALIEN-CALLBACK")
  "The same, of SBCL's.")

(defun definition-p (form)
  "Whether FORM, a macro form, gives code a name."
  (or (member (first form) +defining-macros+ :test #'eq)
      (and (symbolp (first form))
           (member (symbol-name (first form)) +other-defining-macros+ :test #'string=))
      (and (eq (first form) 'setf)
           (some (lambda (place) (and (consp place) (member (first place) +function-places+ :test #'eq)))
                 (places-of form)))))

;;; Expansions by the implementation's macros

(defun standard-expansion-p (expander form environment)
  "Whether EXPANDER is what the implementation expands FORM with, and nothing of the program's decides
what comes of it."
  (let ((name (operator-of form)))
    (and name
         (standard-macro-p name)
         ;; SBCL expands compiler macros through the hook, too.
         (or (eq expander (compiler-macro-function name environment))
             (and (eq name (first form)) (eq expander (macro-function name environment))))
         (not (and (member name +setting-macros+)
                   (some #'program-place-p (places-of form)))))))

(defun operator-of (form)
  "The symbol that names what FORM calls, or NIL: in (funcall #'name) that isn't FUNCALL."
  (and (consp form)
       (if (and (eq (first form) 'funcall) (consp (rest form)) (consp (second form))
                (eq (first (second form)) 'function))
           (operator-of (rest (second form)))
           (and (symbolp (first form)) (first form)))))

(defvar *introduced* nil
  "While a macro of the program's is expanded: a list of one element, lists of the names that a form had
and of those that it has after a macro of the implementation's, which the program's macro called.")

(defun noting-hook (outside)
  "A macroexpand hook that expands as OUTSIDE does, and notes names in *INTRODUCED*."
  (lambda (expander form environment)
    (let ((expansion (funcall outside expander form environment)))
      ;; Our interpreted code expands macros of its own.
      (let ((*macroexpand-hook* #'funcall) (*looking-up* t))
        (note-introduced expander form environment expansion))
      expansion)))

(defun note-introduced (expander form environment expansion)
  (when (and *introduced*
             (standard-expansion-p expander form environment)
             ;; A control string can name anything, and definitions are looked at as such.
             (not (eq (first form) 'formatter))
             (not (definition-p form)))
    (multiple-value-bind (given all-p) (internal-names form)
      (let ((made (and all-p (set-difference (internal-names expansion) given))))
        (when made
          (push (cons given made) (first *introduced*)))))))

(define-table +most-parts+ 20000
  "How many parts of a form to look at.")

(defun internal-names (form)
  "The names in FORM that are the implementation's, but not COMMON-LISP's, and whether those are all:
it may be too big to tell."
  (let ((steps 0) (names '()))
    (labels ((look (it)
               (loop
                 (when (> (incf steps) +most-parts+) (return-from internal-names (values names nil)))
                 (cond ((consp it) (look (car it)) (setf it (cdr it)))
                       ((and it (symbolp it))
                        (let ((package (symbol-package it)))
                          (when (and package
                                     (not (eq package (load-time-value (find-package "COMMON-LISP"))))
                                     (not (eq package (load-time-value (find-package "KEYWORD"))))
                                     (standard-macro-p it))
                            (pushnew it names)))
                        (return))
                       (t (return))))))
      (look form))
    (values names t)))
