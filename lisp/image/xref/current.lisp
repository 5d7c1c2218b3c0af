;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which code is still in use. An implementation that searches its memory for callers also finds
;;; functions that were redefined or removed, as long as something holds on to them: a stack, recent
;;; garbage, our journal. Those call nothing any more.

(cl:in-package "AGENT-Q-IMAGE")

;;; Searching

(defmacro searching-memory (&body body)
  "Evaluate BODY, a search of SBCL's memory, without collecting garbage. Otherwise SBCL may collect
while it holds the memory lock, and wait for other threads, which may wait for that lock."
  (let* ((package (find-package "SB-SYS"))
         (without-gcing (and package (find-symbol "WITHOUT-GCING" package))))
    (if without-gcing
        `(,without-gcing ,@body)
        `(progn ,@body))))

;;; Code

(defun function-core (function)
  "FUNCTION without its closure and its dispatch, where possible."
  (let ((core (optional-function "SB-KERNEL" "%FUN-FUN")))
    (if (and core (functionp function))
        (guarded (lambda () (funcall core function)) (constantly function))
        function)))

(defun code-of (function)
  "The code object that FUNCTION was compiled into, with a definition and the functions inside it."
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
  "The methods of the generic function NAME; none if it isn't one."
  (let ((function (and (fboundp name) (fdefinition name))))
    (and (typep function 'generic-function)
         (mop "GENERIC-FUNCTION-METHODS" function))))

(defun compare-code (function definition)
  (if (same-code-p function definition) :current :gone))

(defun definition-status (function name)
  "Whether FUNCTION is the :CURRENT definition of its NAME or :GONE; NIL if NAME names nothing."
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

(defun inside-removed-definition-p (function)
  "Whether FUNCTION, an anonymous one, is inside a definition that no longer exists."
  (let ((outer (enclosing (function-name function))))
    (and outer (symbolp outer) (fboundp outer)
         (not (methods-of-name outer))
         (eq :gone (definition-status function outer)))))

(defun former-value-p (function)
  "Whether FUNCTION was the value of a variable that now has another one, by the journal of what the
agent changed."
  (let ((journal (find-symbol "*JOURNAL*" "AGENT-Q-IMAGE")))
    (and journal (boundp journal)
         (loop for (nil kind name old new) in (symbol-value journal)
               thereis (and (eq kind :variable)
                            (or (same-code-p function old) (same-code-p function new))
                            (not (and (boundp name)
                                      (same-code-p function (symbol-value name)))))))))

(defun functions-in-use (functions)
  "The FUNCTIONS, compiled together, that seem to be in use."
  (let ((statuses (mapcar (lambda (function)
                            (guarded (lambda () (definition-status function (function-name function)))
                                     (constantly nil)))
                          functions)))
    (cond ((member :current statuses)
           (loop for function in functions
                 for definition-status in statuses
                 when (eq definition-status :current) collect function))
          ;; It may still be in use under another name or in a variable, but uses by name are asked
          ;; for.
          ((member :gone statuses) '())
          ((some #'former-value-p functions) '())
          (t (remove-if #'inside-removed-definition-p functions)))))

(defun by-code (functions)
  "FUNCTIONS in lists of those that were compiled together."
  (let ((table (make-hash-table :test 'eq)) (order '()))
    (dolist (function functions)
      (let ((code (code-of function)))
        (unless (gethash code table) (push code order))
        (push function (gethash code table))))
    (loop for code in (nreverse order) collect (reverse (gethash code table)))))

(defun plain-name (name)
  "NAME of a function, in the form that records of the compiler have."
  (flet ((kind-p (&rest kinds)
           (and (consp name) (symbolp (first name))
                (member (symbol-name (first name)) kinds :test #'string=))))
    (cond ((kind-p "FAST-METHOD" "SLOW-METHOD" "METHOD") (cons 'defmethod (rest name)))
          ((kind-p "MACRO-FUNCTION") (second name))
          ;; What the client compiled for the agent is in a file that nobody knows.
          ((and (kind-p "LAMBDA") (stringp (second (member :in name)))
                (not (probe-file (second (member :in name)))))
           (ldiff name (member :in name)))
          (t name))))

(defun referring-sites (target)
  "Sites that refer to the function TARGET in memory and are in use; SBCL's search of memory finds
them."
  (let ((search (optional-function "SB-INTROSPECT" "FIND-FUNCTION-CALLERS")))
    (if (and search (fboundp target))
        (loop for functions in (by-code (searching-memory
                                     (funcall search (fdefinition target))))
              until (search-over-p)
              append (loop for function in (functions-in-use functions)
                           collect (list (plain-name (function-name function))
                                         (let ((function function))
                                           (lambda ()
                                             (guarded (lambda ()
                                                        (backend "FIND-SOURCE-LOCATION" function))
                                                      (constantly nil)))))))
        (current-sites (recorded-sites "LIST-CALLERS" target) :calls target))))

;;; What was recorded

(defun functions-of-name (what)
  "The functions that WHAT, the name of a definition, names now, and whether that is known."
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
  "The methods of NAME with the qualifiers and specializers in DEFINITION."
  (let ((methods (methods-of-name name)))
    (if (every #'plain-specializer-p (first (last definition)))
        (remove definition methods
                :key (lambda (method)
                       (append (method-qualifiers method) (list (specializer-names method))))
                :test-not #'equal)
        methods)))

(defun plain-specializer-p (specializer)
  "Whether there is only one way to write SPECIALIZER."
  (or (symbolp specializer)
      (and (consp specializer) (eq (first specializer) 'eql) (consp (rest specializer))
           (typep (second specializer) '(or symbol number character)))))

(defun specializer-names (method)
  (loop for specializer in (mop "METHOD-SPECIALIZERS" method)
        collect (if (typep specializer 'class)
                    (class-name specializer)
                    `(eql ,(mop "EQL-SPECIALIZER-OBJECT" specializer)))))

(defun map-recorded-uses (receiver function)
  "Call RECEIVER with the kind and the name of each use recorded in the code of FUNCTION. An error
on implementations without such records."
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
  "Whether the code of FUNCTION records a use of TARGET of KIND; :UNKNOWN if that can't be told."
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
           ;; SBCL 2.5 signals an error if a setf function is among them.
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
  "Whether the definition WHAT, which was recorded to use TARGET as KIND, still exists and still
does. Some versions of SBCL read the records of all code in memory."
  (let ((outer (enclosing what)))
    (multiple-value-bind (functions known) (guarded (lambda () (functions-of-name outer))
                                                    (constantly nil))
      (cond (known (some (lambda (function)
                           (and function (recorded-uses-p function kind target)))
                         functions))
            ;; Usually code that ran at top level and is finished.
            ((and (implementation-p "SBCL") (consp outer)) (not (eq 'lambda (first outer))))
            (t t)))))

(defun current-sites (sites kind target)
  "The SITES whose recorded KIND reference to TARGET still exists, with plain names."
  (if (listp sites)
      (loop for site in sites
            until (search-over-p)
            when (current-site-p (first site) kind target)
              collect (cons (plain-name (first site)) (rest site)))
      sites))
