;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; How the assessment checks definitions: who owns the name that they define, the code in them, and
;;; what they change permanently.

(cl:in-package "AGENT-Q-IMAGE")

(defun check-name (name form)
  "Check NAME, which FORM is about to define."
  (when (protected-p name)
    (hit :redefines "redefines what is not the program's" name form)))

(define-walker (defun) (form scope)
  (check-name (second form) form)
  (walk-lambda (cddr form) scope))

(define-walker (defmacro define-compiler-macro deftype) (form scope)
  (check-name (second form) form)
  (unless (eq (first form) 'deftype)
    (bring (second form) :macro))
  (walk-lambda (cddr form) scope))

(define-walker (define-setf-expander) (form scope)
  (check-name (second form) form)
  (bring (second form) :setf)
  (walk-lambda (cddr form) scope))

(define-walker (defsetf) (form scope)
  (check-name (second form) form)
  (bring (second form) :setf)
  (if (listp (third form))
      (walk-body (nthcdr 4 form)
                 (with-variables (walk-lambda-list (third form) scope)
                   (remove-if-not #'symbolp (fourth form))))
      (walk-function-name (third form) scope)))

(define-walker (define-modify-macro) (form scope)
  (check-name (second form) form)
  (bring (second form) :macro)
  (walk-lambda-list (third form) scope)
  (walk-function-name (fourth form) scope))

(define-walker (define-symbol-macro) (form scope)
  (check-name (second form) form)
  (bring (second form) :symbol-macro)
  (check-place (third form) scope nil)
  (walk (third form) scope))

(define-walker (defvar defparameter defconstant) (form scope)
  (check-name (second form) form)
  (check-assignment (second form) t)
  (when (and (eq (first form) 'defconstant) (not (constantp (second form))))
    (note-for-good "It makes ~A a constant, which can't be undone." (symbol-text (second form))))
  (walk-arguments nil (and (cddr form) (list (third form))) scope))

;;; Generic functions

(defun qualified-parts (definition)
  "The lambda list and the body of a method's DEFINITION, given without its name."
  (let ((rest (member-if #'listp definition)))
    (values (first rest) (rest rest))))

(defun own-class-p (specializer)
  (and (consp specializer)
       (let ((class (second specializer)))
         (if (consp class)
             (not (and (quoted-p (second class)) (protected-p (second (second class)))))
             (and class (not (protected-p class)))))))

(defun extensible-p (symbol)
  "Whether programs are meant to define methods on SYMBOL, which is protected, for their own
classes."
  (or (eq (symbol-package symbol) (find-package "COMMON-LISP"))
      (some (lambda (package) (exported-by-p symbol package))
            '("SB-MOP" "SB-GRAY" "SB-SEQUENCE" "MOP" "CLOS" "GRAY" "SEQUENCE"))))

(defun walk-method (name definition form scope)
  "Check a method; on a function that isn't the program's, it must be for a class that is."
  (multiple-value-bind (lambda-list body) (qualified-parts definition)
    (when (and (protected-p name)
               (or (not (extensible-p (if (consp name) (second name) name)))
                   (notany #'own-class-p lambda-list)))
      (hit :redefines "changes for everybody what is not the program's" name form))
    ;; Its value is code that is compiled without a check.
    (when (eq name 'make-load-form) (note-caller form))
    (when (proper-list-p lambda-list)
      (dolist (parameter lambda-list)
        (when (and (consp parameter) (consp (second parameter))
                   (eq (first (second parameter)) 'eql))
          (walk-arguments nil (rest (second parameter)) scope))))
    (walk-lambda (cons (plain-lambda-list lambda-list) body)
                 (with-functions scope '(call-next-method next-method-p)))))

(defun plain-lambda-list (lambda-list)
  "LAMBDA-LIST, a method's, without specializers."
  (let ((required t))
    (mapcar (lambda (parameter)
              (when (member parameter lambda-list-keywords) (setf required nil))
              (if (and required (consp parameter)) (first parameter) parameter))
            (if (proper-list-p lambda-list)
                lambda-list
                (beyond-assessment "a method in it has no lambda list")))))

(define-walker (defmethod) (form scope)
  (walk-method (second form) (cddr form) form scope))

(define-walker (defgeneric) (form scope)
  (check-name (second form) form)
  (walk-lambda-list (third form) scope)
  (dolist (option (cdddr form))
    (if (and (consp option) (eq (first option) :method))
        (walk-method (second form) (rest option) form scope)
        (scan-data option 'eql))))

(define-walker (call-method make-method) (form scope) (walk-loosely (rest form) scope))

(define-walker (define-method-combination) (form scope)
  (check-name (second form) form)
  (loop for (option value) on (cddr form)
        when (and (eq option :operator) (symbolp value))
          do (walk-function-name value scope))
  ;; Its body returns code that nobody checks.
  (when (and (cddr form) (listp (third form))) (note-caller form))
  (walk-loosely (remove-if #'symbolp (cddr form)) scope))

;;; Classes

(defun note-for-good (control &rest arguments)
  "Note something that can't be undone, described by CONTROL and ARGUMENTS."
  (pushnew (apply #'format nil control arguments) (findings-notes *findings*) :test #'string=))

(defun note-superclasses (name superclasses)
  "Note if an existing class gets other SUPERCLASSES."
  (let ((class (and (symbolp name) (find-class name nil)))
        (reader (or (optional-function "SB-MOP" "CLASS-DIRECT-SUPERCLASSES")
                    (optional-function "SLYNK-MOP" "CLASS-DIRECT-SUPERCLASSES")
                    (optional-function "SWANK-MOP" "CLASS-DIRECT-SUPERCLASSES"))))
    (when (and class reader superclasses)
      (unless (equal superclasses
                     (ignore-errors (mapcar #'class-name (funcall reader class))))
        (note-for-good "It changes the superclasses of the class ~A, which can't be undone."
                       (symbol-text name))))))

(defun note-layout (name slots kind)
  "Note if an existing class gets other SLOTS."
  (let ((class (and (symbolp name) (find-class name nil))))
    (when class
      (let ((old (existing-slots class)))
        (unless (equal (sort (copy-list old) #'string<) (sort (copy-list slots) #'string<))
          (note-for-good "It changes the slots of the ~A ~A, which can't be undone~A."
                         kind (symbol-text name)
                         (cond ((string= kind "class") ": its objects are changed to match")
                               ((string= kind "structure") ": its objects are no longer valid")
                               (t ""))))))))

(defun existing-slots (class)
  "The names of CLASS's direct slots."
  (let ((slots (or (optional-function "SB-MOP" "CLASS-DIRECT-SLOTS")
                   (optional-function "SLYNK-MOP" "CLASS-DIRECT-SLOTS")
                   (optional-function "SWANK-MOP" "CLASS-DIRECT-SLOTS")))
        (name (or (optional-function "SB-MOP" "SLOT-DEFINITION-NAME")
                  (optional-function "SLYNK-MOP" "SLOT-DEFINITION-NAME")
                  (optional-function "SWANK-MOP" "SLOT-DEFINITION-NAME"))))
    (and slots name
         (ignore-errors (mapcar (lambda (slot) (symbol-name (funcall name slot)))
                                (funcall slots class))))))

(defun slot-names (slots)
  (loop for slot in slots
        for name = (if (consp slot) (first slot) slot)
        when (symbolp name) collect (symbol-name name)))

(define-walker (defclass define-condition) (form scope)
  (destructuring-bind (operator name superclasses slots &rest options) form
    (check-name name form)
    (note-superclasses name superclasses)
    (note-layout name (slot-names slots) (if (eq operator 'defclass) "class" "condition"))
    (dolist (slot slots)
      (when (consp slot)
        (loop for (option value) on (rest slot) by #'cddr
              do (case option
                   (:initform (walk value scope))
                   ((:reader :writer :accessor) (check-name value form))
                   (t (scan-data value 'eql))))))
    (dolist (option options)
      (case (first option)
        (:default-initargs (loop for (nil value) on (rest option) by #'cddr do (walk value scope)))
        (:report (unless (stringp (second option)) (walk-function-name (second option) scope)))
        (t (scan-data option nil))))))

(define-walker (defstruct) (form scope)
  (destructuring-bind (name-and-options &rest slots) (rest form)
    (let ((name (if (consp name-and-options) (first name-and-options) name-and-options))
          (slots (if (stringp (first slots)) (rest slots) slots)))
      (check-name name form)
      (note-layout name (slot-names slots) "structure")
      (dolist (slot slots)
        (when (consp slot) (walk (second slot) scope)))
      (dolist (option (and (consp name-and-options) (rest name-and-options)))
        (when (consp option)
          (case (first option)
            ((:print-function :print-object)
             (when (rest option) (walk-function-name (second option) scope)))
            (:include (dolist (slot (cddr option))
                        (when (consp slot) (walk (second slot) scope))))
            ((:constructor :predicate :copier)
             (check-name (second option) form)
             (when (third option) (walk-lambda-list (third option) scope)))
            (:conc-name
             (unless (second option)
               (dolist (slot slots)
                 (check-name (if (consp slot) (first slot) slot) form))))
            (t (scan-data option 'eql))))))))
