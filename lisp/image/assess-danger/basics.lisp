;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The basis of assessing code: findings, lexical scope, limits and the table of walkers. It is a
;;; guard rail for a helpful agent, not a sandbox for a hostile program.

(cl:in-package "AGENT-Q-IMAGE")

;;; Limits

(define-table +step-limit+ 200000
  "How many forms and parts of data one assessment checks.")

(define-table +depth-limit+ 400
  "How deeply code may be nested.")

(defstruct (findings (:copier nil))
  ;; Dangers, latest first: lists of kind, reason, text and the operator's name.
  (hits '())
  (steps 0)
  (depth 0)
  ;; By name: what the text itself defines that runs when code is compiled.
  (brought (make-hash-table :test 'equal))
  ;; The names of functions that the text defines locally.
  (locals '())
  ;; Variables whose value in the text was taken for the code that is evaluated, each with the
  ;; evaluating form; and variables that the text assigns to.
  (trusted '())
  (assigned '())
  ;; Symbols that are dangerous as functions but may be mere data; reported if something calls them.
  (soft '())
  ;; Operators that make symbols from strings, and calls of what is only known at run time.
  (makers '())
  (callers '())
  ;; Of the former, calls that may find symbols that aren't the program's; calls that find symbols
  ;; of the current package, and whether the text leaves that package; and what is looked up by such
  ;; symbols.
  (foreign '())
  (local '())
  (leaves nil)
  (lookups '())
  ;; From each operator in the code, except the text's own, to its macro function, or NIL.
  (operators (make-hash-table :test 'eq))
  ;; Strings that run code when read.
  (readings '())
  ;; What reads from streams, and string streams whose strings aren't in the text.
  (reads '())
  (strings '())
  ;; The conses that were seen as arguments of the program's macros.
  (offered (make-hash-table :test 'eq))
  ;; Whether it opens files for reading. Emacs knows which of them are private.
  (opens nil)
  ;; Whether the following forms may mean something else once this one has run.
  (defers nil)
  ;; Permanent changes that running it would make.
  (notes '())
  ;; The conses of the text, to distinguish them from what macros made.
  (conses (make-hash-table :test 'eq))
  ;; The innermost form being checked, for the reasons.
  (current nil))

(defvar *findings* nil
  "The findings of the assessment in this thread.")

(defvar *look* nil
  "While text is assessed or run: what is kept of its assessment.")

(defvar *expanding* nil
  "How the first form is expanded if nothing is to be run: :ONCE, :FULL, :COMPILER or :ALL.")

(defvar *usable-p* nil
  "Whether what the assessment expands now will expand the same way in the call that runs the text:
nothing evaluated before can change the expansion.")

(defstruct (scope (:copier copy-scope))
  ;; Local functions; local macros of macros' expansions; symbol macros with their expansions;
  ;; variables with the symbols to which the text binds them, and with the forms.
  (functions '()) (macros '()) (symbol-macros '()) (aliases '()) (forms '())
  ;; Whether *READ-EVAL* is bound to NIL here.
  (inert nil))

(defvar *scope* (make-scope)
  "The scope of the call being checked.")

;;; Hits

(defun backquoted-p (form)
  "Whether there is a backquote near the beginning of FORM, which only the pretty printer writes as
one."
  (let ((steps 200)
        (quasiquote (and (find-package "SB-INT") (find-symbol "QUASIQUOTE" "SB-INT"))))
    (labels ((look (tree)
               (loop (cond ((or (minusp (decf steps)) (null tree)) (return nil))
                           ((or (eq tree quasiquote) (comma-content tree)) (return t))
                           ((atom tree) (return nil))
                           ((look (car tree)) (return t))
                           (t (setf tree (cdr tree)))))))
      (look form))))

(defun excerpt (form)
  (printed form :limit 90 :length 6 :level 4 :circle t :pretty (backquoted-p form)))

(defun known-name (symbol)
  "SYMBOL, or (setf symbol), as people write it, rather than with the package that happens to be its
home."
  (cond ((consp symbol) (format nil "(SETF ~A)" (known-name (second symbol))))
        ((and (symbol-package symbol) (exported-by-p symbol "UIOP"))
         (format nil "UIOP:~A" (symbol-name symbol)))
        (t (symbol-text symbol))))

(defun operator-p (what)
  "Whether WHAT is a symbol or (setf symbol)."
  (or (symbolp what)
      (and (consp what) (eq (first what) 'setf) (consp (rest what)) (null (cddr what))
           (symbolp (second what)))))

(defun hit (kind reason &optional what (form (findings-current *findings*)))
  "Note that running FORM would do what REASON says, through WHAT, an operator or another object."
  (note-hit-effects kind reason what form)
  (pushnew (list kind reason
                 (format nil "~:[~*~;: ~A~]~A"
                         what (if (operator-p what) (known-name what) (excerpt what))
                         (typecase form
                           (cons (format nil " in ~A" (excerpt form)))
                           (string (format nil ": ~A" (first-line form 90)))
                           (t "")))
                 (and what (operator-p what) (known-name what)))
           (findings-hits *findings*) :test #'equal))

(defun beyond-assessment (reason &optional (form (findings-current *findings*)) (kind :unknown))
  (hit kind (format nil "not checked, because ~A" reason) nil form)
  (throw 'assessed nil))

(defun take-step ()
  (when (> (incf (findings-steps *findings*)) +step-limit+)
    (beyond-assessment "it is too long, or its macros expand without end" nil)))

(defun call-deeper (function)
  (let ((findings *findings*))
    (when (> (findings-depth findings) +depth-limit+)
      (beyond-assessment "it is nested too deep" nil))
    (incf (findings-depth findings))
    (multiple-value-prog1 (funcall function)
      (decf (findings-depth findings)))))

(defun from-text-p (cons)
  (gethash cons (findings-conses *findings*)))

(defun proper-list-p (object)
  (and (listp object)
       (ignore-errors (list-length object))
       (null (cdr (last object)))))

;;; Walkers

(defvar *walkers* '()
  "From operators to the functions that check their forms. Other operators are expanded if they are
macros, and are functions otherwise. WALKER has a copy.")

(defvar *call-checks* '()
  "From names of functions to the functions that check calls of them, as harm may depend on the
arguments. CALL-CHECK has a copy.")

(defun with-entries (operators function table)
  "TABLE with FUNCTION for OPERATORS."
  (append (mapcar (lambda (operator) (cons operator function)) operators)
          (remove-if (lambda (entry) (member (car entry) operators)) table)))

(defmacro define-walker (operators (form scope) &body body)
  "Define by BODY how to check forms of OPERATORS, a list of symbols."
  (let ((function (intern (format nil "WALK-FORM/~A" (first operators)) "AGENT-Q-IMAGE")))
    `(progn
       (defun ,function (,form ,scope) (declare (ignorable ,form ,scope)) ,@body)
       (setf *walkers* (with-entries ',operators ',function *walkers*)))))

(defmacro define-call-check (operators (form arguments) &body body)
  "Define by BODY how to check calls of the functions OPERATORS, before their arguments are checked."
  (let ((function (intern (format nil "CHECK-CALL/~A" (first operators)) "AGENT-Q-IMAGE")))
    `(progn
       (defun ,function (,form ,arguments) (declare (ignorable ,form ,arguments)) ,@body)
       (setf *call-checks* (with-entries ',operators ',function *call-checks*)))))
