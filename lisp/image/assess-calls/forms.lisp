;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; How the assessment checks special forms, standard macros whose parts aren't all code, and places
;;; that are assigned to.

(cl:in-package "AGENT-Q-IMAGE")

;;; Special forms

(define-walker (quote) (form scope)
  (note-type-maker (second form))
  (scan-data (second form) nil))
(define-walker (function) (form scope) (walk-function-name (second form) scope))
(define-walker (lambda) (form scope) (walk-lambda (rest form) scope))
(define-walker (if progn unwind-protect catch throw multiple-value-prog1 locally) (form scope)
  (walk-body (rest form) scope))
(define-walker (block return-from load-time-value) (form scope)
  (walk-all (if (eq (first form) 'load-time-value) (list (second form)) (cddr form)) scope)
  (when (eq (first form) 'load-time-value) (note-evaluated (second form))))
(define-walker (go) (form scope))
(define-walker (declaim) (form scope) (walk-declarations (rest form)))

(define-walker (the) (form scope) (walk-all (cddr form) scope))

(define-walker (tagbody) (form scope)
  (walk-all (remove-if #'atom (rest form)) scope))

(define-walker (eval-when) (form scope)
  (walk-all (cddr form) scope))

(define-walker (multiple-value-call) (form scope)
  (walk-calling form 0 scope))

(define-walker (progv) (form scope)
  (unless (quoted-p (second form))
    (hit :reaches "binds variables that are only known at run time" nil form))
  (walk-all (rest form) scope))

(defun walk-bindings (form scope sequential)
  (let ((inner scope))
    (dolist (binding (second form))
      (let ((name (if (consp binding) (first binding) binding)))
        (when (and (consp binding) (rest binding))
          (walk (second binding) (if sequential inner scope))
          (mention-value (second binding) 'let (if sequential inner scope)))
        (check-binding name (and (consp binding) (second binding)))
        (setf inner (with-variables inner (list name)))
        (when (and (consp binding) (or (quoted-p (second binding))
                                       (stringp (second binding)) (keywordp (second binding))))
          (push (cons name (if (quoted-p (second binding)) (second (second binding)) (second binding)))
                (scope-aliases inner)))
        (when (consp binding)
          (push (cons name (second binding)) (scope-forms inner))
          (when (eq name '*read-eval*)
            (setf (scope-inert inner) (null (second binding)))))))
    (walk-body (cddr form) inner)))

(define-walker (let) (form scope) (walk-bindings form scope nil))
(define-walker (let*) (form scope) (walk-bindings form scope t))

(define-walker (flet labels) (form scope)
  (let* ((definitions (second form))
         (inner (with-functions scope (mapcar #'first definitions))))
    (dolist (definition definitions)
      (walk-lambda (rest definition) (if (eq (first form) 'labels) inner scope)))
    (walk-body (cddr form) inner)))

(define-walker (macrolet) (form scope)
  ;; If a macro of the image made it, still check what the text gave that macro.
  (when (from-text-p (second form))
    (when *expanding* (hit-brought "a MACROLET" form))
    (setf *usable-p* nil)
    (dolist (definition (second form))
      (walk-lambda (rest definition) scope)))
  (let ((inner (copy-scope scope)))
    (setf (scope-macros inner)
          (append (mapcar #'first (second form)) (scope-macros scope)))
    (walk-body (cddr form) inner)))

(define-walker (symbol-macrolet) (form scope)
  (let ((inner (copy-scope scope)))
    (dolist (definition (second form))
      (walk (second definition) scope)
      (push (cons (first definition) (second definition)) (scope-symbol-macros inner)))
    (walk-body (cddr form) inner)))

;;; Assigning

(define-table +hooks+
  '(*macroexpand-hook* *debugger-hook* *readtable* *print-pprint-dispatch* *read-eval*)
  "Variables through which other code runs, or text is read.")

(defun function-only-p (symbol)
  "Whether SYMBOL is standard and no variable, so that a variable of that name is the text's."
  (and (eq (symbol-package symbol) (find-package "COMMON-LISP"))
       (not (boundp symbol))))

(defun check-binding (symbol value)
  (unless (symbolp symbol)
    (beyond-assessment "a variable in it is not a symbol"))
  (multiple-value-bind (reason soft) (danger symbol)
    (cond ((and reason (not soft) (not (function-only-p symbol))) (hit :reaches reason symbol))
          ((and (eq symbol '*read-eval*) value)
           (hit :reaches "lets text run code while it is read" symbol))
          ((eq symbol '*package*)
           (setf (findings-leaves *findings*) t)))))

(defun check-assignment (symbol value)
  (check-binding symbol (if (eq symbol '*read-eval*) value t))
  (cond ((and (eq symbol '*read-eval*) (null value)))
        ((member symbol +hooks+)
         (hit :reaches "changes how text is read or code is run" symbol))
        ((eq symbol '*package*) (setf (findings-defers *findings*) t))))

(defun check-code-place (place)
  "Check PLACE, through which a definition is replaced: allowed for the program's own, if named."
  (let ((name (and (quoted-p (second place)) (second (second place)))))
    (unless (if (eq (first place) 'readtable-case)
                (own-readtable-p (second place))
                (own-name-p name (first place)))
      (hit :reaches
           (case (first place)
             (logical-pathname-translations "changes which files names stand for")
             (readtable-case "changes how text is read")
             (t "replaces a definition behind its name"))
           (first place) place))))

(defun own-readtable-p (form)
  "Whether FORM, by its looks, returns a readtable that the text has made."
  (or (and form (symbolp form) (not (eq form '*readtable*)))
      (and (consp form) (eq (first form) 'copy-readtable))))

(defun own-name-p (name place)
  "Whether NAME in PLACE means a definition of the program."
  (and name
       (not (eq place 'logical-pathname-translations))
       (symbolp (if (consp name) (second name) name))
       (not (protected-p name))))

(define-table +code-places+
  '(fdefinition symbol-function macro-function compiler-macro-function find-class
    logical-pathname-translations readtable-case)
  "Places through which definitions are replaced without a defining form.")

(define-table +atomic-operators+
  '(("CAS" . 0) ("COMPARE-AND-SWAP" . 0) ("ATOMIC-UPDATE" . 0) ("ATOMIC-INCF" . 0)
    ("ATOMIC-DECF" . 0) ("ATOMIC-POP" . 0) ("ATOMIC-PUSH" . 1))
  "Names of the implementations' macros that assign to a place, and which argument that is.")

(defun check-atomic (form scope)
  "Check the place that FORM assigns to, if it is an atomic operation of the implementation."
  (let* ((operator (first form))
         (position (cdr (assoc (symbol-name operator) +atomic-operators+ :test #'string=))))
    (when (and position (protected-p operator))
      (check-place (nth position (rest form)) scope))))

(defun check-place (place scope &optional (value t))
  "Check PLACE, which is about to be assigned to."
  (cond ((symbolp place)
         (push place (findings-assigned *findings*))
         (let ((local (assoc place (scope-symbol-macros scope))))
           (cond ((and local (not (eq (cdr local) :variable)))
                  (check-place (cdr local) (without-symbol-macro scope place)))
                 ((not local)
                  (multiple-value-bind (expansion expanded) (expand place)
                    (if expanded
                        (check-place expansion scope)
                        (check-assignment place value)))))))
        ((not (and (consp place) (symbolp (first place)))))
        ((member (first place) +code-places+) (check-code-place place))
        ((value-place-p (first place))
         (check-symbol-argument (second place)))
        ((and (member (symbol-name (first place)) '("GETENV" "GETENVP" "POSIX-GETENV") :test #'string=)
              (not (member (first place) (scope-functions scope))))
         (hit :reaches "changes the environment of the programs that it runs" (list 'setf (first place))))
        ((brought-p (first place) :setf)
         (setf *usable-p* nil)
         (when *expanding*
           (hit-brought (format nil "the place ~A of the same text" (symbol-text (first place)))
                        place)))
        ((danger (first place)) (hit :reaches (danger (first place)) (first place)))
        ((eq (first place) 'the) (check-place (third place) scope))
        ((member (first place) '(values if progn)) (dolist (part (rest place))
                                                     (check-place part scope)))
        ((eq (first place) 'apply)
         (when (and (consp (second place)) (symbolp (second (second place))))
           (check-place (list (second (second place)) nil) scope)))
        ((and (macro-function (first place)) (not (member (first place) (scope-functions scope)))
              (not (walker (first place))))
         (multiple-value-bind (expansion expanded) (expand place)
           (when expanded (check-place expansion scope))))))

(defun check-symbol-argument (form)
  "Check FORM, whose value is a symbol that is about to be set or to lose its meaning."
  (cond ((not (quoted-p form))
         (hit :reaches "changes a symbol that is only known at run time" nil))
        ((symbolp (second form))
         (check-assignment (second form) t)
         (when (protected-p (second form))
           (hit :redefines "changes a symbol that is not the program's" (second form))))))

(defun walk-place (place scope)
  (when (consp place)
    (check-lookup place scope)
    (if (or (walker (first place)) (not (macro-function (first place))))
        (walk-arguments (first place) (rest place) scope)
        (walk place scope))))

(define-walker (setq) (form scope)
  (loop for (place value) on (rest form) by #'cddr
        do (check-place place scope value)
           (walk-argument nil value scope)))

(define-walker (setf psetf psetq) (form scope)
  (loop for (place value) on (rest form) by #'cddr
        do (check-place place scope value)
           (walk-place place scope)
           (walk-arguments nil (list value) scope)))

(define-walker (push pushnew) (form scope)
  (check-place (third form) scope)
  (walk-place (third form) scope)
  (walk-arguments nil (cons (second form) (cdddr form)) scope 'adjoin))

(define-walker (pop incf decf remf) (form scope)
  (check-place (second form) scope)
  (walk-place (second form) scope)
  (walk-all (cddr form) scope))

(define-walker (rotatef shiftf multiple-value-setq) (form scope)
  (dolist (place (if (eq (first form) 'multiple-value-setq) (second form) (rest form)))
    (check-place place scope)
    (walk place scope))
  (when (eq (first form) 'multiple-value-setq)
    (walk-all (cddr form) scope)))

;;; Macros whose parts are data

(define-walker (case ccase ecase typecase ctypecase etypecase) (form scope)
  (walk (second form) scope)
  (dolist (clause (cddr form))
    (walk-all (rest clause) scope)))

(define-walker (handler-case) (form scope)
  (walk (second form) scope)
  (dolist (clause (cddr form))
    (walk-lambda (rest clause) scope)))

(define-walker (handler-bind restart-bind) (form scope)
  (dolist (binding (second form))
    (walk-arguments 'funcall (rest binding) scope))
  (walk-body (cddr form) scope))

(define-walker (restart-case) (form scope)
  (walk (second form) scope)
  (loop for (nil lambda-list . body) in (cddr form)
        do (walk-lambda (cons lambda-list body) scope)))

(define-walker (with-open-file) (form scope)
  (let ((call (cons 'open (rest (second form)))))
    (let ((*scope* scope)) (check-open call (rest call)))
    (walk-all (rest call) scope)
    (walk-body (cddr form) (with-variables scope (list (first (second form)))))))

(define-walker (trace untrace) (form scope)
  (loop for (option value) on (rest form)
        when (and (eq option :report) value (symbolp value))
          do (mention value 'funcall))
  (walk-loosely (remove-if #'symbolp (rest form)) scope))

(define-walker (in-package) (form scope)
  (let ((package (and (typep (second form) '(or symbol string character))
                      (find-package (second form)))))
    (if package
        (enter-package package)
        (setf (findings-defers *findings*) t))))
