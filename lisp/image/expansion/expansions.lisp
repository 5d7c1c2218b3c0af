;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Expansions of the program's macros, made by an assessment and kept for the call that runs the
;;; text: a macro that counts, registers or prints does so only once, and what was assessed is what
;;; runs.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (expansion (:type list) (:copier nil))
  ;; The form that was expanded, and the macro function.
  form function
  ;; The expansion, the warnings it signalled, what it printed, and what is in *INTRODUCED* for it.
  result warnings output introduced)

(defvar *kept* nil
  "During an assessment: from each expanded form to its expansion.")

(defvar *usable* nil
  "During an assessment: a list of one element, the expansions that the call can use, latest first.")

(defvar *known* nil
  "During a call, or another assessment of the same text: a list of one element, earlier expansions
that haven't been used yet.")

;;; Forms that were read twice

(define-table +comparison-limit+ 20000
  "How many parts of two forms to compare.")

(defun same-form-p (one other)
  "Whether ONE and OTHER could come from reading the same text twice."
  (let ((steps 0))
    (labels ((same-p (one other)
               (when (> (incf steps) +comparison-limit+)
                 (return-from same-form-p nil))
               (cond ((eql one other) t)
                     ((consp one)
                      (loop while (and (consp one) (consp other))
                            do (when (eq one other) (return-from same-p t))
                               (unless (same-p (pop one) (pop other))
                                 (return-from same-p nil)))
                      (if (or (consp one) (consp other)) nil (same-p one other)))
                     ((or (stringp one) (pathnamep one) (bit-vector-p one)) (equal one other))
                     ((simple-vector-p one)
                      (and (simple-vector-p other) (= (length one) (length other))
                           (every #'same-p one other)))
                     ((comma-content one)
                      (and (eq (type-of one) (type-of other))
                           (same-comma-kind-p one other)
                           (same-p (first (comma-content one)) (first (comma-content other))))))))
      (same-p one other))))

(defun same-comma-kind-p (one other)
  (let ((kind (optional-function "SB-IMPL" "COMMA-KIND")))
    (and kind (eql (funcall kind one) (funcall kind other)))))

(defun share-places (known form)
  "Make the compiler treat the conses of KNOWN as those of FORM, which it has read, so that its
notes have line numbers."
  (let* ((package (find-package "SB-C"))
         (symbol (and package (find-symbol "*SOURCE-PATHS*" package)))
         (paths (and symbol (boundp symbol) (symbol-value symbol))))
    (when (hash-table-p paths)
      (labels ((share (known form)
                 (loop while (and (consp known) (consp form) (not (eq known form)))
                       do (let ((path (gethash form paths)))
                            (when path (setf (gethash known paths) path)))
                          (share (pop known) (pop form)))))
        (share known form)))))

;;; Environments

(defun takes-environment-p (operator function)
  "Whether FUNCTION, the expander of the macro OPERATOR, can see a form's lexical environment; true
unless known otherwise."
  (if (implementation-p "SBCL")
      ;; The lambda lists that SBCL reports lack &ENVIRONMENT; but an unused argument is no variable
      ;; of the compiled function.
      (not (eq :deleted
               (guarded (lambda ()
                          (second (funcall (optional-function "SB-DI" "DEBUG-FUN-LAMBDA-LIST")
                                           (funcall (optional-function "SB-DI" "FUN-DEBUG-FUN")
                                                    function))))
                        (constantly nil))))
      (let ((arglist (guarded (lambda () (backend "ARGLIST" operator)) (constantly :unknown))))
        (not (and (listp arglist)
                  (loop for rest = arglist then (cdr rest)
                        while (consp rest) never (eq (car rest) '&environment)))))))

(defun empty-environment-p (environment)
  (or (null environment)
      (let ((functions (optional-function "SB-C" "LEXENV-FUNS"))
            (variables (optional-function "SB-C" "LEXENV-VARS")))
        (and functions variables
             (guarded (lambda ()
                        (and (null (funcall functions environment))
                             (null (funcall variables environment))))
                      (constantly nil))))))

;;; Using an expansion

(defun take-known (form function environment)
  "The known expansion of FORM by FUNCTION, if there is one; each is used once."
  (when *known*
    (let ((known (find-if (lambda (known)
                            (and (eq function (expansion-function known))
                                 (same-form-p (expansion-form known) form)))
                          (first *known*))))
      (when (and known
                 (or (empty-environment-p environment)
                     (not (takes-environment-p (first form) function))))
        (setf (first *known*) (remove known (first *known*) :test #'eq :count 1))
        known))))

(defun known-expansion (function form environment)
  "A list of the known expansion of FORM by FUNCTION, or NIL; its output and warnings are repeated."
  (let ((known (and *known* (consp form) (take-known form function environment))))
    (when known
      (share-places (expansion-form known) form)
      (when *introduced*
        (setf (first *introduced*) (append (expansion-introduced known) (first *introduced*))))
      (write-string (expansion-output known))
      (mapc #'warn (expansion-warnings known))
      (list (expansion-result known)))))

(defun check-operator (expander form)
  "End the operation if the running code has made EXPANDER the macro of FORM since it was assessed
without a question: then the operator was another macro, or none."
  (let ((operators (and (integerp *assessed*) *look* (consp form) (look-operators *look*))))
    (when operators
      (multiple-value-bind (before assessed) (gethash (first form) operators)
        (when (and assessed
                   (not (eq before :later))
                   (not (eq expander before))
                   (eq expander (macro-function (first form))))
          (failed "NOT-RUN"
                  (format nil "~A was not expanded and run: what ran before it in the same form has ~
                               made ~S ~:[a macro~;another macro~]. Send it in a call of its own."
                          (excerpt form) (first form) before)))))))

(defun unseen-p (form)
  "Whether FORM is in the running code, nobody was asked about that, and its present expansion
wasn't checked: its macro is local to the text, is defined by it, or expands differently now."
  (let ((operators (and (integerp *assessed*) *look* (consp form) (symbolp (first form))
                        (look-operators *look*))))
    (and operators
         ;; Our own interpreted functions have such forms, too; a text that names any of them is
         ;; asked about.
         (if (member (first form) +setting-macros+)
             (and (some #'program-place-p (places-of form))
                  (not (mentions-us-p form)))
             (and (nth-value 1 (gethash (first form) operators))
                  (not (standard-macro-p (first form))))))))

(defun expand-as-assessed (expander form environment &optional (outside 'funcall))
  "The expansion of FORM by EXPANDER: the one that was assessed, or else what the hook OUTSIDE
makes."
  ;; Our interpreted functions expand macros of their own, which must not lead here again.
  (let ((known (let ((*macroexpand-hook* 'funcall))
                 (check-operator expander form)
                 (known-expansion expander form environment))))
    (if known
        (first known)
        (let ((expansion (let ((*known* nil))
                           (funcall outside expander form environment))))
          (let ((*macroexpand-hook* 'funcall))
            (when (unseen-p form)
              (funcall (optional-function "AGENT-Q-IMAGE" "ASSESS-EXPANSION") form expansion)))
          expansion))))

;;; Making an expansion

(defun new-expansion (form function)
  (let* ((output (make-string-output-stream)) (warnings '())
         (introduced (list '()))
         (result (let ((*standard-output* output) (*error-output* output) (*trace-output* output)
                       (*introduced* introduced)
                       (*macroexpand-hook* (if (implementation-p "SBCL") (noting-hook #'funcall) 'funcall))
                       (*known* nil))
                   (handler-bind ((warning (lambda (condition)
                                             (push condition warnings)
                                             (when (find-restart 'muffle-warning condition)
                                               (muffle-warning condition)))))
                     (call-harmlessly form (lambda () (macroexpand-1 form)))))))
    (make-expansion :form form :function function :result result
                    :warnings (reverse warnings) :output (get-output-stream-string output)
                    :introduced (first introduced))))

(defun expand-and-keep (form)
  "FORM, whose operator is a macro, expanded once."
  (or (gethash form *kept*)
      (let* ((function (macro-function (first form)))
             (expansion (or (take-known form function nil)
                            (new-expansion form function))))
        (when (and *usable-p* (not (standard-macro-p (first form))))
          (push expansion (first *usable*)))
        (setf (gethash form *kept*) expansion))))

(defun call-keeping-expansions (function)
  "Call FUNCTION, which assesses; returns the expansions that a call running the same code can use."
  (let ((*kept* (make-hash-table :test 'eq)) (*usable* (list '())) (*usable-p* t))
    (funcall function)
    (reverse (first *usable*))))

;;; Order of evaluation

(defvar *top-form* nil
  "During an assessment: the form that is evaluated as a whole.")

(defvar *sequence* '()
  "The forms that are evaluated one after the other, each before the next one is expanded.")

(defun sequential-p (form)
  "Whether the parts of FORM at top level are evaluated one after the other."
  (member (first form) '(progn if setq locally eval-when macrolet symbol-macrolet)))

(defun changes-nothing-p (form)
  "Whether macros expand the same way after evaluating FORM, which was walked."
  (or (plain-form-p form)
      (and (consp form)
           (let ((expansion (and *kept* (gethash form *kept*))))
             (cond (expansion (changes-nothing-p (expansion-result expansion)))
                   ((eq (first form) 'progn) (every #'changes-nothing-p (rest form)))
                   ((eq (first form) 'in-package))
                   ;; No macro can have called a function that didn't exist.
                   ((eq (first form) 'defun)
                    (and (symbolp (second form)) (not (fboundp (second form))))))))))

(defun note-evaluated (form)
  "Note that FORM is evaluated before what follows is expanded."
  (unless (changes-nothing-p form)
    (setf *usable-p* nil)))

(defun call-in-order (function form)
  "Call FUNCTION, which walks the compound FORM."
  (let* ((in-sequence (member form *sequence* :test #'eq))
         (top (or in-sequence (eq form *top-form*))))
    (let ((*top-form* (if top form *top-form*))
          (*sequence* (and top (sequential-p form) (rest form))))
      (funcall function))
    (when in-sequence (note-evaluated form))))

(define-table +used-while-expanding+
  '(expand-as-assessed check-operator known-expansion take-known same-form-p share-places unseen-p
    program-place-p standard-macro-p noting-hook note-introduced internal-names standard-expansion-p
    operator-of definition-p places-of)
  "Our functions that expand macros of their own unless compiled.")
