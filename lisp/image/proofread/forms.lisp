;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which parts of standard forms are code. A macro that isn't listed here, and any macro of a
;;; program, is skipped with everything in it: only its expansion could tell.

(cl:in-package "AGENT-Q-IMAGE")

(define-proofreader (progn and or when unless if prog1 prog2 multiple-value-prog1 unwind-protect catch throw
                     return ignore-errors time locally nth-value multiple-value-list multiple-value-call
                     step psetq setq progv tagbody)
    (parts scope)
  (proofread-body parts scope))

(define-proofreader (block return-from eval-when the load-time-value multiple-value-setq defvar defparameter
                     defconstant with-simple-restart symbol-macrolet)
    (parts scope)
  ;; The first part is a name, a type or the like.
  (proofread-body (rest parts) scope))

;;; Places

(define-proofreader (setf psetf) (parts scope)
  (loop for (place value) on parts by #'cddr
        do (proofread-place place scope)
           (when value (proofread value scope))))

(define-proofreader (push pushnew) (parts scope)
  (when (rest parts)
    (proofread (first parts) scope)
    (proofread-place (second parts) scope)
    (proofread-all (cddr parts) scope)))

(define-proofreader (incf decf pop remf) (parts scope)
  (when parts
    (proofread-place (first parts) scope)
    (proofread-all (rest parts) scope)))

(define-proofreader (rotatef shiftf) (parts scope)
  (dolist (part parts) (proofread-place part scope)))

(defun proofread-place (part scope)
  "Check PART, a place that is assigned to: its operator may only be known as a place."
  (let* ((head (first (list-parts part)))
         (symbol (and (name-part-p head) (eq (part-status head) :found) (part-symbol head))))
    (cond ((not (and (name-part-p head) (plain-list-p part))))
          ((or (gethash (part-value head) (proof-macros *proof*))
               (eq :macro (cdr (assoc (part-value head) scope :test #'string=)))
               (and symbol (or (macro-function symbol) (special-operator-p symbol)))))
          ((known-operator-p head scope)
           (proofread-all (rest (part-value part)) scope)))))

(define-proofreader (assert check-type) (parts scope)
  (when parts (proofread (first parts) scope)))

(define-proofreader (cond) (parts scope)
  (dolist (clause parts)
    (proofread-body (list-parts clause) scope)))

(define-proofreader (case ccase ecase typecase ctypecase etypecase) (parts scope)
  (when parts (proofread (first parts) scope))
  (dolist (clause (rest parts))
    (proofread-body (rest (list-parts clause)) scope)))

;;; Bindings

(define-proofreader (let let* prog prog*) (parts scope)
  (dolist (binding (and parts (list-parts (first parts))))
    (proofread-all (rest (list-parts binding)) scope))
  (proofread-body (rest parts) scope))

(define-proofreader (do do*) (parts scope)
  (dolist (binding (and parts (list-parts (first parts))))
    (proofread-all (rest (list-parts binding)) scope))
  (when (rest parts)
    ;; The test and the results.
    (proofread-all (list-parts (second parts)) scope)
    (proofread-body (cddr parts) scope)))

(define-proofreader (dolist dotimes do-symbols do-external-symbols do-all-symbols) (parts scope)
  (when parts (proofread-all (rest (list-parts (first parts))) scope))
  (proofread-body (rest parts) scope))

(define-proofreader (with-open-file with-open-stream with-output-to-string with-input-from-string
                     print-unreadable-object)
    (parts scope)
  (when parts (proofread-all (rest (list-parts (first parts))) scope))
  (proofread-body (rest parts) scope))

(define-proofreader (with-slots with-accessors multiple-value-bind destructuring-bind) (parts scope)
  (proofread-body (rest parts) scope))

(define-proofreader (with-hash-table-iterator with-package-iterator) (parts scope)
  (let ((name (and parts (first (list-parts (first parts))))))
    (proofread-body (rest parts)
                    (if (name-part-p name) (acons (part-value name) :macro scope) scope))))

;;; Functions

(define-proofreader (lambda) (parts scope)
  (proofread-function parts scope))

(defun proofread-function (parts scope)
  "Proofread a function; PARTS are its lambda list and its body."
  (when parts
    (dolist (parameter (list-parts (first parts)))
      ;; A default is the second element of a list; a specializer is no list, except (EQL form).
      (let ((default (second (list-parts parameter))))
        (when (and default (eq (part-kind default) :list)
                   (not (part-named-p (first (list-parts default)) "EQL")))
          (proofread default scope))))
    (proofread-body (rest parts) scope)))

(define-proofreader (defun) (parts scope)
  (proofread-function (rest parts) scope))

(define-proofreader (defmacro) (parts scope)
  (proofread-body (cddr parts) scope))

(define-proofreader (defmethod) (parts scope)
  (proofread-function (member :list (rest parts) :key #'part-kind) scope))

(define-proofreader (defgeneric) (parts scope)
  (dolist (option (cddr parts))
    (when (part-named-p (first (list-parts option)) "METHOD")
      (proofread-function (member :list (rest (list-parts option)) :key #'part-kind) scope))))

(define-proofreader (flet labels) (parts scope)
  (let* ((definitions (and parts (list-parts (first parts))))
         (inner (append (loop for definition in definitions
                              for (name lambda-list) = (list-parts definition)
                              when (name-part-p name)
                                collect (cons (part-value name)
                                              (if lambda-list (count-of-part lambda-list) t)))
                        scope)))
    (dolist (definition definitions)
      (proofread-function (rest (list-parts definition)) inner))
    (proofread-body (rest parts) inner)))

(define-proofreader (macrolet) (parts scope)
  (proofread-body (rest parts)
                  (append (loop for definition in (and parts (list-parts (first parts)))
                                for name = (first (list-parts definition))
                                when (name-part-p name)
                                  collect (cons (part-value name) :macro))
                          scope)))

;;; Classes and structures

(define-proofreader (defclass define-condition) (parts scope)
  (dolist (slot (and (third parts) (list-parts (third parts))))
    (loop for (option value) on (rest (list-parts slot)) by #'cddr
          when (and value (part-named-p option "INITFORM"))
            do (proofread value scope))))

(define-proofreader (defstruct) (parts scope)
  (dolist (slot (rest parts))
    (let ((default (second (list-parts slot))))
      (when default (proofread default scope)))))

;;; Conditions

(define-proofreader (handler-case) (parts scope)
  (when parts (proofread (first parts) scope))
  (dolist (clause (rest parts))
    (proofread-body (cddr (list-parts clause)) scope)))

(define-proofreader (handler-bind restart-bind) (parts scope)
  (dolist (binding (and parts (list-parts (first parts))))
    (proofread-all (rest (list-parts binding)) scope))
  (proofread-body (rest parts) scope))

(define-proofreader (restart-case) (parts scope)
  (when parts (proofread (first parts) scope))
  (dolist (clause (rest parts))
    (proofread-body (cddr (list-parts clause)) scope)))

;;; LOOP

(defparameter *loop-variables* '("FOR" "AS" "WITH" "AND")
  "Words of LOOP that come before a variable or a list of variables.")

(defparameter *loop-clauses*
  '("DO" "DOING" "COLLECT" "COLLECTING" "APPEND" "APPENDING" "NCONC" "NCONCING" "COUNT" "COUNTING" "SUM"
    "SUMMING" "MAXIMIZE" "MAXIMIZING" "MINIMIZE" "MINIMIZING" "RETURN" "WHEN" "IF" "UNLESS" "WHILE"
    "UNTIL" "REPEAT" "ALWAYS" "NEVER" "THEREIS")
  "Words of LOOP that may follow AND.")

(define-proofreader (loop) (parts scope)
  (loop with rest = parts
        while rest
        do (let ((part (pop rest)))
             (cond ((and (apply #'part-named-p part *loop-variables*)
                         (not (and rest (apply #'part-named-p (first rest) *loop-clauses*))))
                    (pop rest)
                    ;; Types of variables
                    (loop while (and rest (eq (part-kind (first rest)) :list)) do (pop rest)))
                   ((part-named-p part "OF-TYPE" "USING" "INTO") (pop rest))
                   (t (proofread part scope))))))
