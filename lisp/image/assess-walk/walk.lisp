;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The code walker: macros of the image are expanded, macros of the text aren't; calls, quoted
;;; symbols and data are compared with what is dangerous. Nothing in the text is run.

(cl:in-package "AGENT-Q-IMAGE")

;;; Mentioned symbols

(defun called-position (operator)
  "The position of the argument that OPERATOR calls, or NIL."
  (or (cdr (assoc operator +function-callers+))
      (and (symbol-package operator)
           (cdr (assoc (symbol-name operator) +named-callers+ :test #'string=)))))

(defun hit-careful (symbol)
  (hit :reaches "passes on a function that runs code or opens files" symbol))

(defun quoted-p (form)
  (and (consp form) (eq (first form) 'quote) (consp (rest form))))

(defun literal-function-p (form)
  "Whether FORM literally says which function it means."
  (or (and (consp form) (member (first form) '(function lambda)))
      (and (quoted-p form) (symbolp (second form)))))

(defun mention (symbol operator)
  "Check SYMBOL as data given to OPERATOR, which may be a function that calls it, :UNKNOWN, or NIL."
  (take-step)
  (multiple-value-bind (reason soft) (danger symbol)
    (let ((called (assoc operator +function-callers+)))
      (cond ((null reason)
             (when called
               (note-operator symbol)
               (when (member symbol +careful-functions+)
                 (hit-careful symbol))))
            ((or called (not soft)) (hit :reaches reason symbol))
            ((not (eq operator :unknown)) (push symbol (findings-soft *findings*)))))))

(defun call-with-atoms (function tree &optional (seen (make-hash-table :test 'eq)))
  "Call FUNCTION with each atom in TREE, which may be circular, including vectors and commas."
  (loop
    (take-step)
    (cond ((consp tree)
           (when (gethash tree seen) (return))
           (setf (gethash tree seen) t)
           (call-deeper (lambda () (call-with-atoms function (car tree) seen)))
           (setf tree (cdr tree)))
          ((simple-vector-p tree)
           (loop for element across tree
                 do (call-deeper (lambda () (call-with-atoms function element seen))))
           (return))
          ((comma-content tree) (setf tree (first (comma-content tree))))
          (t (funcall function tree) (return)))))

(defun scan-data (data operator)
  "Check what DATA mentions. Code that is only put together at run time shows up here."
  (unless (only-looks-p operator)
    (call-with-atoms (lambda (atom)
                       (cond ((null atom))
                             ((symbolp atom) (mention atom operator))
                             ((functionp atom) (hit :reaches "has a function in its text"))))
                     data)))

;;; Forms

(defun walk-all (forms scope)
  (unless (proper-list-p forms)
    (beyond-assessment "a form in it is not a proper list"))
  (dolist (form forms) (walk form scope)))

(defun walk (form scope)
  (take-step)
  (cond ((null form))
        ((symbolp form) (walk-variable form scope))
        ((comma-content form) (beyond-assessment "a comma is outside a backquote"))
        ((atom form))
        (t (call-deeper (lambda ()
                          (let ((outer (findings-current *findings*)))
                            (when (from-text-p form)
                              (setf (findings-current *findings*) form))
                            (call-in-order (lambda () (walk-compound form scope)) form)
                            (setf (findings-current *findings*) outer)))))))

(defun walk-variable (symbol scope)
  (let ((local (assoc symbol (scope-symbol-macros scope))))
    (cond (local
           (unless (eq (cdr local) :variable)
             (walk (cdr local) (without-symbol-macro scope symbol))))
          ((keywordp symbol))
          ((multiple-value-bind (reason soft) (danger symbol)
             (when (and reason (not soft))
               (hit :reaches reason symbol))))
          ((constantp symbol))
          (t (multiple-value-bind (expansion expanded) (expand symbol)
               (when expanded (walk expansion scope)))))))

(defun without-symbol-macro (scope symbol)
  (with-variables scope (list symbol)))

(defun with-variables (scope symbols)
  "SCOPE with SYMBOLS bound as variables, which hides symbol macros."
  (let ((inner (copy-scope scope)))
    (dolist (symbol symbols inner)
      (push (cons symbol nil) (scope-aliases inner))
      (push (cons symbol nil) (scope-forms inner))
      (push (cons symbol :variable) (scope-symbol-macros inner)))))

(defun with-functions (scope names)
  (dolist (name names)
    (pushnew name (findings-locals *findings*) :test #'equal))
  (let ((inner (copy-scope scope)))
    (setf (scope-functions inner) (append names (scope-functions scope))
          (scope-macros inner) (set-difference (scope-macros scope) names))
    inner))

(defun brought-p (name &optional (kind :macro))
  (member kind (gethash name (findings-brought *findings*))))

(defun bring (name kind)
  (push kind (gethash name (findings-brought *findings*))))

(defun hit-brought (what form)
  (hit :expander (format nil "has ~A, which runs before anybody can look at what it makes" what)
       nil form))

(defun walk-brought (what form scope)
  "Check FORM, whose operator is WHAT, a macro that the text defines: its expansion is checked when
it is made. If the text is only to be expanded, that itself would run code of the text."
  ;; There is no telling what else it changes for the macros after it.
  (setf *usable-p* nil)
  (when *expanding* (hit-brought what form))
  (note-expanded-later (first form))
  (walk-loosely (rest form) scope :unknown))

(defun note-expanded-later (operator)
  "Note that forms of OPERATOR can only be expanded by the call that runs the text."
  (setf (gethash operator (findings-operators *findings*)) :later))

(defun walk-compound (form scope)
  (let ((operator (first form)))
    (cond ((not (proper-list-p form))
           (beyond-assessment "a form in it is not a proper list" nil))
          ((and (consp operator) (eq (first operator) 'lambda))
           (walk-lambda (rest operator) scope)
           (walk-all (rest form) scope))
          ((not (symbolp operator))
           (beyond-assessment "an operator in it is not a symbol" form))
          ((member operator (scope-functions scope) :test #'equal)
           (walk-arguments nil (rest form) scope))
          ((member operator (scope-macros scope))
           (note-expanded-later operator)
           (walk-loosely (rest form) scope :unknown))
          ((brought-p operator)
           (walk-brought (format nil "the macro ~A of the same text" (symbol-text operator))
                         form scope))
          ((walker operator)
           (funcall (walker operator) form scope))
          (t (setf (gethash operator (findings-operators *findings*)) (macro-function operator))
             (cond ((macro-function operator) (walk-macro form scope))
                   ((special-operator-p operator) (walk-loosely (rest form) scope))
                   (t (walk-call form scope)))))))

(defun walk-loosely (forms scope &optional operator)
  "Check FORMS, in which code can't be told from data. What they mention counts as data of OPERATOR."
  (scan-data forms operator)
  (dolist (form (and (proper-list-p forms) forms))
    (when (and (consp form) (proper-list-p form))
      (if (and (symbolp (first form)) (fboundp (first form)))
          (walk form scope)
          (call-deeper (lambda () (walk-loosely form scope operator)))))))

;;; Macros

(defun expand (form)
  "FORM expanded once by the image's own macros, and whether it was."
  (let ((*macroexpand-hook* 'funcall))
    (handler-case (if (and (consp form) (symbolp (first form)) (macro-function (first form)))
                      (values (expansion-result (expand-and-keep form)) t)
                      (macroexpand-1 form))
      ;; Running the form reports what is wrong with it, if it still is then.
      (serious-condition ()
        (setf *usable-p* nil)
        (when (consp form) (note-expanded-later (first form)))
        (values form nil)))))

(defun changes-names-p (operator)
  "Whether a form of OPERATOR can change how the reader takes later text."
  (and (member (symbol-name operator)
               '("USE-PACKAGE" "IMPORT" "SHADOWING-IMPORT" "SHADOW" "UNUSE-PACKAGE" "MAKE-PACKAGE"
                 "DEFPACKAGE" "DEFINE-PACKAGE" "ADD-PACKAGE-LOCAL-NICKNAME" "IN-READTABLE")
               :test #'string=)
       (not (eq (symbol-package operator) (find-package "KEYWORD")))))

(defun note-operator (operator &optional form scope)
  "Note what OPERATOR does: in FORM, which is in SCOPE, or wherever it is passed."
  (note-reader operator)
  (note-reading operator form scope)
  (when (changes-names-p operator)
    (setf (findings-defers *findings*) t))
  (when (makes-symbols-p operator)
    (pushnew operator (findings-makers *findings*))
    (if form
        (note-foreign-names form (scope-aliases scope))
        (push operator (findings-foreign *findings*))))
  (cond (form (check-lookup form scope))
        ((lookup-position operator) (push operator (findings-lookups *findings*)))))

(defun mentions-danger-p (forms)
  "Whether FORMS mention what is dangerous in any use; that is noted, too."
  (let ((before (findings-hits *findings*)))
    (scan-data forms nil)
    (not (eq before (findings-hits *findings*)))))

(defun check-expander (form)
  "Check what FORM gives its macro: a macro of the program may evaluate that during expansion."
  (when (and (not (eq (symbol-package (first form)) (find-package "COMMON-LISP")))
             (from-text-p form))
    (let ((mentioned (mentions-danger-p (rest form))))
      (when (or mentioned (offers-harm-p form))
        ;; SBCL's backquote is a macro, too.
        (unless (and mentioned (string= (symbol-name (first form)) "QUASIQUOTE")
                     (protected-p (first form)))
          (hit :expander "gives that to a macro" (first form)))
        t))))

;;; What a macro that evaluates its arguments would do

(defun offers-harm-p (form)
  "Whether FORM, of a macro of the program, contains something that would be a hit if evaluated;
that is noted, too. All of it is checked once, as if it were code."
  (let ((before (findings-hits *findings*)) (makers '()) (callers '()))
    (labels ((look (part)
               (take-step)
               (when (and (symbolp (first part)) (proper-list-p part))
                 (look-at-call part)
                 (when (makes-symbols-p (first part)) (push part makers))
                 (when (calls-unknown-p part) (push part callers))))
             (look-into (tree)
               (loop while (and (consp tree) (not (gethash tree (findings-offered *findings*))))
                     do (setf (gethash tree (findings-offered *findings*)) t)
                        (when (consp (car tree))
                          (unless (quoted-p (car tree)) (look (car tree)))
                          (call-deeper (lambda () (look-into (car tree)))))
                        (setf tree (cdr tree)))))
      (look-into (rest form)))
    (when (and makers callers)
      (hit :reaches "makes names out of text and calls what they name" (first (first makers))
           (first callers)))
    (not (eq before (findings-hits *findings*)))))

(defun calls-unknown-p (form)
  "Whether FORM would call a function that the text doesn't name."
  (let ((position (called-position (first form))))
    (and position (nthcdr (1+ position) form)
         (not (literal-function-p (nth (1+ position) form))))))

(defun look-at-call (form)
  "Check FORM, which may be a call, if its operator can do harm through its arguments."
  (let* ((operator (first form)) (position (called-position operator))
         (called (and position (nth (1+ position) form))))
    (cond ((and operator (danger operator) (fboundp operator))
           (hit :reaches (danger operator) operator form))
          ((member operator '(open eval read-from-string))
           (let ((*scope* (make-scope)))
             (funcall (call-check operator) form (rest form))))
          ((and (eq operator 'with-open-file) (consp (second form)))
           (check-open form (rest (second form))))
          ((and (quoted-p called) (symbolp (second called)))
           (mention (second called) 'funcall)))))

(defvar *expanded* nil
  "The macro whose expansion is being checked.")

(defun walk-macro (form scope)
  (let* ((operator (first form)) (reason (danger operator)))
    (note-operator operator form scope)
    (check-atomic form scope)
    (check-named-call form)
    (when (changes-names-p operator)
      (check-package (second form) form))
    (setf scope (scope-for-reading operator scope))
    (cond (reason
           (let ((*scope* scope)) (hit :reaches reason operator form))
           (walk-loosely (rest form) scope))
          ((check-expander form))
          (t (multiple-value-bind (expansion expanded) (expand form)
               (if expanded
                   (let ((*top-form* (if (eq form *top-form*) expansion *top-form*))
                         (*expanded* operator))
                     (walk expansion scope))
                   (walk-loosely (rest form) scope)))))))

;;; Calls

(defun walk-call (form scope)
  (let* ((operator (first form)) (arguments (rest form))
         (check (call-check operator))
         (position (called-position operator)))
    (note-operator operator form scope)
    (let ((*scope* scope))
      (cond (check (funcall check form arguments))
            ((registry-call-p form))
            ((danger operator) (hit :reaches (danger operator) operator form))
            (t (check-named-call form))))
    (if (and position (nthcdr position arguments))
        (walk-calling form position scope)
        (walk-arguments operator arguments scope))))

(defun calls-of-data (form)
  "The calls that FORM, of MAPCAR or MAPC, makes if they are literal: of EVAL, with known arguments,
or of READ-FROM-STRING."
  (destructuring-bind (operator &optional function data &rest more) form
    (and (member operator '(mapcar mapc)) (null more)
         (literal-function-p function) (member (second function) '(eval read-from-string))
         (quoted-p data) (proper-list-p (second data))
         (mapcar (lambda (it) (list (second function) (if (stringp it) it (list 'quote it))))
                 (second data)))))

(defun walk-calling (form position scope)
  "Check FORM, which calls its argument at POSITION with the others."
  (let ((calls (calls-of-data form)))
    (if calls
        (walk-all calls scope)
        (walk-unknown-calls form position scope))))

(defun walk-unknown-calls (form position scope)
  (let* ((arguments (rest form)) (function (nth position arguments)))
    (unless (literal-function-p function)
      (note-caller form)
      (check-alias function scope))
    (walk-argument 'funcall function scope)
    (check-found-name function form scope)
    (let ((operator (cond ((and (consp function) (eq (first function) 'lambda)) nil)
                          ((not (literal-function-p function)) :unknown)
                          ((symbolp (second function)) (second function))))
          (rest (append (subseq arguments 0 position) (nthcdr (1+ position) arguments))))
      (cond ((not (keywords-start operator))
             (walk-arguments operator rest scope (first form) 1))
            ((eq (first form) 'funcall) (walk-arguments operator rest scope))
            (t ;; Lists of arguments may contain keywords.
             (when (member (first form) '(apply multiple-value-call)) (note-caller form))
             (walk-arguments nil rest scope (first form) 1))))))

(defun check-found-name (function form scope)
  "Check FUNCTION, which FORM calls, if it is a symbol found in the image."
  (let ((found (or (and (symbolp function) (cdr (assoc function (scope-forms scope)))) function)))
    (when (and (consp found) (symbolp (first found)) (gives-name-p (first found)))
      (hit :reaches "calls what a name found in the image names" (first found) form))))

(defun note-caller (form)
  (push form (findings-callers *findings*)))

(defun check-alias (function scope)
  "Check FUNCTION, perhaps a variable that a LET in SCOPE has bound to a symbol."
  (let ((alias (and (symbolp function) (cdr (assoc function (scope-aliases scope))))))
    (when (member alias +careful-functions+)
      (hit-careful alias))))

(defun walk-arguments (operator arguments scope &optional (keyed operator) (missing 0))
  "Check ARGUMENTS of OPERATOR. KEYED is the function that their keywords belong to; MISSING is how
many of that function's arguments aren't here."
  (let ((start (and (keywords-start keyed) (- (keywords-start keyed) missing)))
        (unclear nil) (keyword nil))
    (loop for argument in arguments
          for place from 0
          do (cond ((or (null start) (< place start))
                    (walk-argument operator argument scope))
                   ((evenp (- place start))
                    (setf keyword argument)
                    (unless (keywordp argument) (setf unclear t))
                    (walk-argument operator argument scope))
                   ((or unclear (member keyword '(:key :test :test-not)))
                    (walk-called argument keyed scope))
                   (t (walk-argument operator argument scope))))))

(defun walk-called (argument keyed scope)
  "Check ARGUMENT, which KEYED calls, or may call if its keyword is only known at run time."
  (unless (or (constantp argument) (literal-function-p argument))
    (note-caller (list keyed argument))
    (check-alias argument scope))
  (walk-argument 'funcall argument scope))

(defun note-type-maker (datum)
  "Note if DATUM, which is quoted, shows that a type with a call in it is put together."
  (when (eq datum 'satisfies) (note-caller '(satisfies))))

(defun walk-argument (operator argument scope)
  (cond ((quoted-p argument)
         (note-type-maker (second argument))
         (scan-data (second argument) operator))
        ((and (member operator '(documentation describe disassemble function-lambda-expression))
              (literal-function-p argument)
              (symbolp (second argument))))
        (t (walk argument scope)
           (mention-value argument operator scope))))

;;; Functions and lambda lists

(defun walk-function-name (name scope)
  "Check #'NAME."
  (cond ((member name (scope-functions scope) :test #'equal))
        ((and (symbolp name) (danger name)) (hit :reaches (danger name) name))
        ((member name +careful-functions+) (hit-careful name))
        ((symbolp name) (note-operator name))
        ;; SBCL also has functions named (CAS place).
        ((and (consp name) (consp (rest name)) (null (cddr name)) (symbolp (second name))
              (or (eq (first name) 'setf)
                  (string= (string (first name)) "CAS")))
         (check-place (list (second name) nil) scope))
        ((and (consp name) (eq (first name) 'lambda)) (walk-lambda (rest name) scope))
        ((and (consp name) (symbolp (first name))
              (member (symbol-name (first name)) '("NAMED-LAMBDA" "INSTANCE-LAMBDA")
                      :test #'string=))
         (walk-lambda (cddr name) scope))
        (t (beyond-assessment "a function in it has no name"))))

(defun walk-lambda (definition scope)
  "Check a function; DEFINITION is its lambda list and its body."
  (unless (and (consp definition) (proper-list-p definition))
    (beyond-assessment "a function in it has no lambda list"))
  (walk-body (rest definition) (walk-lambda-list (first definition) scope)))

(defun walk-lambda-list (lambda-list scope)
  "Check the defaults in LAMBDA-LIST, destructuring or not; returns the scope with its variables."
  (let ((optional nil) (variables '()) (rest lambda-list))
    (loop
      (take-step)
      (when (atom rest)
        (when (and rest (symbolp rest)) (push rest variables))
        (dolist (variable variables)
          (when (boundp variable) (check-binding variable t)))
        (return (with-variables scope variables)))
      (let ((parameter (pop rest)))
        (cond ((member parameter '(&optional &key &aux)) (setf optional t))
              ((member parameter '(&rest &body &whole &environment)) (setf optional nil))
              ((symbolp parameter) (push parameter variables))
              ((atom parameter))
              (optional
               (when (consp (rest parameter))
                 (walk (second parameter) (with-variables scope variables)))
               (call-with-atoms (lambda (atom)
                                  (when (and atom (symbolp atom) (not (keywordp atom)))
                                    (push atom variables)))
                                (list (first parameter) (cddr parameter))))
              (t (setf scope (call-deeper (lambda () (walk-lambda-list parameter scope))))))))))

(defun walk-body (body scope)
  "Check BODY, which may begin with declarations and a docstring."
  (unless (proper-list-p body)
    (beyond-assessment "a body in it is not a proper list"))
  (dolist (form body)
    (if (and (consp form) (eq (first form) 'declare))
        (walk-declarations (rest form))
        (walk form scope))))

(defun standard-declaration-p (specifier)
  "Whether SPECIFIER was made by a macro of the implementation, not written in the text."
  (and (not (from-text-p specifier))
       *expanded*
       (standard-macro-p *expanded*)))

(defun walk-declarations (specifiers)
  "Check what SPECIFIERS of a declaration are about, not what they say about it."
  (dolist (specifier (and (proper-list-p specifiers) specifiers))
    (when (and (consp specifier) (symbolp (first specifier)) (danger (first specifier))
               ;; Standard macros unlock the names of their local macros.
               (not (standard-declaration-p specifier)))
      (hit :reaches (danger (first specifier)) (first specifier)))))
