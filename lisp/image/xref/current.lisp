;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which code is still in use. An implementation that searches its memory for callers also finds
;;; functions that were defined again or removed, as long as anything holds on to them: a stack, the
;;; garbage of a moment ago, our journal. Those call nothing any more.

(cl:in-package "AGENT-Q-IMAGE")

;;; Searching

(defmacro searching-memory (&body body)
  "Evaluate BODY, a search of SBCL's memory, with no garbage collected meanwhile. Otherwise SBCL does
so with its memory locked, and for that waits for other threads, which may wait for the memory."
  (let* ((package (find-package "SB-SYS"))
         (without-gcing (and package (find-symbol "WITHOUT-GCING" package))))
    (if without-gcing
        `(,without-gcing ,@body)
        `(progn ,@body))))

;;; Code

(defun function-core (function)
  "FUNCTION without what it closes over and without its dispatch, where that is known."
  (let ((core (optional-function "SB-KERNEL" "%FUN-FUN")))
    (if (and core (functionp function))
        (guarded (lambda () (funcall core function)) (constantly function))
        function)))

(defun code-of (function)
  "What was compiled together with FUNCTION as one piece: a definition and the functions within it."
  (let ((header (optional-function "SB-KERNEL" "FUN-CODE-HEADER")) (core (function-core function)))
    (if header
        (guarded (lambda () (funcall header core)) (constantly core))
        core)))

(defun same-code-p (one other)
  (and (functionp one) (functionp other) (eq (code-of one) (code-of other))))

;;; Names

(defun method-functions (method)
  (let ((fast (optional-function "SB-PCL" "SAFE-METHOD-FAST-FUNCTION")))
    (list (and fast (guarded (lambda () (funcall fast method)) (constantly nil)))
          (guarded (lambda () (mop "METHOD-FUNCTION" method)) (constantly nil)))))

(defun methods-of-name (name)
  "The methods of the generic function called NAME; none when it is no such function."
  (let ((function (and (fboundp name) (fdefinition name))))
    (and (typep function 'generic-function)
         (mop "GENERIC-FUNCTION-METHODS" function))))

(defun compare-code (function definition)
  (if (same-code-p function definition) :current :gone))

(defun standing (function name)
  "Whether FUNCTION is the :CURRENT definition of its NAME or :GONE; NIL when NAME names nothing."
  (flet ((kind-p (&rest kinds)
           (and (symbolp (first name)) (member (symbol-name (first name)) kinds :test #'string=))))
    (cond ((null name) nil)
          ((symbolp name)
           (compare-code function (or (macro-function name)
                                      (and (fboundp name) (fdefinition name)))))
          ((not (and (consp name) (consp (rest name)))) nil)
          ((eq (first name) 'setf)
           (compare-code function (and (fboundp name) (fdefinition name))))
          ((kind-p "MACRO-FUNCTION") (compare-code function (macro-function (second name))))
          ((kind-p "COMPILER-MACRO" "COMPILER-MACRO-FUNCTION")
           (compare-code function (compiler-macro-function (second name))))
          ((kind-p "FAST-METHOD" "SLOW-METHOD" "METHOD")
           (if (loop for method in (methods-of-name (second name))
                     thereis (find function (method-functions method) :test #'same-code-p))
               :current
               :gone)))))

;;; Callers

(defun function-name (function)
  (guarded (lambda () (nth-value 2 (function-lambda-expression function))) (constantly nil)))

(defun within-what-is-gone-p (function)
  "Whether FUNCTION, which has no name of its own, was within a definition that no longer exists."
  (let ((outer (enclosing (function-name function))))
    (and outer (symbolp outer) (fboundp outer)
         (not (methods-of-name outer))
         (eq :gone (standing function outer)))))

(defun only-remembered-p (function)
  "Whether FUNCTION was the value of a variable that has another one now, for all that the journal
of what the agent changed can say."
  (let ((journal (find-symbol "*JOURNAL*" "AGENT-Q-IMAGE")))
    (and journal (boundp journal)
         (loop for (nil kind name old new) in (symbol-value journal)
               thereis (and (eq kind :variable)
                            (or (same-code-p function old) (same-code-p function new))
                            (not (and (boundp name)
                                      (same-code-p function (symbol-value name)))))))))

(defun living (functions)
  "Those of FUNCTIONS, compiled as one piece, that are in use, as far as is known."
  (let ((standings (mapcar (lambda (function)
                             (guarded (lambda () (standing function (function-name function)))
                                      (constantly nil)))
                           functions)))
    (cond ((member :current standings)
           (loop for function in functions
                 for standing in standings
                 when (eq standing :current) collect function))
          ;; Under other names and in variables it may go on; uses by name are what is asked for.
          ((member :gone standings) '())
          ((some #'only-remembered-p functions) '())
          (t (remove-if #'within-what-is-gone-p functions)))))

(defun by-code (functions)
  "FUNCTIONS in lists of those that were compiled as one piece."
  (let ((table (make-hash-table :test 'eq)) (order '()))
    (dolist (function functions)
      (let ((code (code-of function)))
        (unless (gethash code table) (push code order))
        (push function (gethash code table))))
    (loop for code in (nreverse order) collect (reverse (gethash code table)))))

(defun plain-name (name)
  "NAME of a function, as what was recorded while compiling has it."
  (flet ((kind-p (&rest kinds)
           (and (consp name) (symbolp (first name))
                (member (symbol-name (first name)) kinds :test #'string=))))
    (cond ((kind-p "FAST-METHOD" "SLOW-METHOD" "METHOD") (cons 'defmethod (rest name)))
          ((kind-p "MACRO-FUNCTION") (second name))
          ;; What the client compiled for the agent is in no file that anybody knows.
          ((and (kind-p "LAMBDA") (stringp (second (member :in name)))
                (not (probe-file (second (member :in name)))))
           (ldiff name (member :in name)))
          (t name))))

(defun referring-sites (target)
  "What refers to the function TARGET in memory and is in use, as sites; what searches the memory
is SBCL's."
  (let ((search (optional-function "SB-INTROSPECT" "FIND-FUNCTION-CALLERS")))
    (if (and search (fboundp target))
        (loop for functions in (by-code (searching-memory
                                     (funcall search (fdefinition target))))
              until (search-over-p)
              append (loop for function in (living functions)
                           collect (list (plain-name (function-name function))
                                         (let ((function function))
                                           (lambda ()
                                             (guarded (lambda ()
                                                        (backend "FIND-SOURCE-LOCATION" function))
                                                      (constantly nil)))))))
        (current-sites (recorded-sites "LIST-CALLERS" target) :calls target))))

;;; What was recorded

(defun functions-of-name (what)
  "The functions that WHAT, the name of a definition, means now, and whether that is known."
  (flet ((kind-p (&rest kinds)
           (and (consp what) (symbolp (first what)) (consp (rest what))
                (member (symbol-name (first what)) kinds :test #'string=))))
    (cond ((or (symbolp what) (eq 'setf (first what)))
           (values (if (fboundp what)
                       (list* (if (symbolp what)
                                  (or (macro-function what) (fdefinition what))
                                  (fdefinition what))
                              (mapcan #'method-functions (methods-of-name what)))
                       '())
                   t))
          ((kind-p "MACRO-FUNCTION") (functions-of-name (second what)))
          ((kind-p "COMPILER-MACRO" "COMPILER-MACRO-FUNCTION")
           (values (list (compiler-macro-function (second what))) t))
          ((kind-p "DEFMETHOD" "FAST-METHOD" "SLOW-METHOD" "METHOD")
           (values (mapcan #'method-functions (methods-like (second what) (cddr what))) t)))))

(defun methods-like (name definition)
  "The methods of NAME with the qualifiers and the specializers that DEFINITION says."
  (let ((methods (methods-of-name name)))
    (if (every #'plain-specializer-p (first (last definition)))
        (remove definition methods
                :key (lambda (method)
                       (append (method-qualifiers method) (list (specializer-names method))))
                :test-not #'equal)
        methods)))

(defun plain-specializer-p (specializer)
  "Whether SPECIALIZER is written in one way only."
  (or (symbolp specializer)
      (and (consp specializer) (eq (first specializer) 'eql) (consp (rest specializer))
           (typep (second specializer) '(or symbol number character)))))

(defun specializer-names (method)
  (loop for specializer in (mop "METHOD-SPECIALIZERS" method)
        collect (if (typep specializer 'class)
                    (class-name specializer)
                    `(eql ,(mop "EQL-SPECIALIZER-OBJECT" specializer)))))

(defun map-recorded-uses (receiver function)
  "Call RECEIVER with the kind and the name of each use that the code of FUNCTION has on record. An
error on implementations that have none."
  (let ((code (code-of function))
        (count (optional-function "SB-KERNEL" "CODE-N-ENTRIES"))
        (entry (optional-function "SB-KERNEL" "%CODE-ENTRY-POINT"))
        (uses (optional-function "SB-KERNEL" "%SIMPLE-FUN-XREFS"))
        (map (optional-function "SB-C" "MAP-PACKED-XREF-DATA")))
    (dotimes (index (funcall count code))
      (let ((data (funcall uses (funcall entry code index))))
        (when data
          (funcall map (lambda (kind name &rest more)
                         (declare (ignore more))
                         (funcall receiver kind name))
                   data))))))

(defun recorded-uses-p (function kind target)
  "Whether the code of FUNCTION has it on record that it uses TARGET as KIND says; :UNKNOWN where that
can't be told."
  (guarded (lambda ()
             (map-recorded-uses (lambda (its-kind name)
                                  (when (and (eq kind its-kind) (equal name target))
                                    (return-from recorded-uses-p t)))
                                function)
             nil)
           (constantly :unknown)))

(defun functions-called (function)
  "The functions that FUNCTION calls, on SBCL."
  (guarded (lambda () (funcall (optional-function "SB-INTROSPECT" "FIND-FUNCTION-CALLEES") function))
           ;; SBCL 2.5 signals an error where a setf function is among them.
           (lambda (condition)
             (declare (ignore condition))
             (let ((names '()))
               (guarded (lambda ()
                          (map-recorded-uses (lambda (kind name)
                                               ;; Control structures are full of these.
                                               (when (and (eq kind :calls) (fboundp name)
                                                          (not (member name '(funcall values))))
                                                 (pushnew name names :test #'equal)))
                                             function))
                        (constantly nil))
               (mapcar #'fdefinition (nreverse names))))))

(defun current-site-p (what kind target)
  "Whether the definition WHAT, of which it is on record that it uses TARGET as KIND says, is there
and does that still. Some versions of SBCL read the records of all code in memory."
  (let ((outer (enclosing what)))
    (multiple-value-bind (functions known) (guarded (lambda () (functions-of-name outer))
                                                    (constantly nil))
      (cond (known (some (lambda (function)
                           (and function (recorded-uses-p function kind target)))
                         functions))
            ;; What was evaluated at top level and is over, as a rule.
            ((and (implementation-p "SBCL") (consp outer)) (not (eq 'lambda (first outer))))
            (t t)))))

(defun current-sites (sites kind target)
  "SITES, as they were recorded of TARGET as KIND says, as far as they hold, with plain names."
  (if (listp sites)
      (loop for site in sites
            until (search-over-p)
            when (current-site-p (first site) kind target)
              collect (cons (plain-name (first site)) (rest site)))
      sites))
