;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Needs: introspection
;;; Who uses what, as the implementation recorded it while compiling. Operations: who-calls,
;;; who-references, xref.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *xref-functions*
  '(("calls" "WHO-CALLS") ("references" "WHO-REFERENCES") ("binds" "WHO-BINDS")
    ("sets" "WHO-SETS") ("macroexpands" "WHO-MACROEXPANDS") ("specializes" "WHO-SPECIALIZES")
    ("callers" "LIST-CALLERS") ("callees" "LIST-CALLEES"))
  "The kinds of use, and the backend's function for each.")

(defun failure-kind (condition)
  "Whether CONDITION is the client's word that it has no such function here."
  (if (search "implemented" (condition-message condition))
      :not-implemented
      :failed))

(defun recorded-sites (kind target)
  (let* ((name (second (assoc kind *xref-functions* :test #'string=)))
         (sites (if (backend-function name)
                    (guarded (lambda () (backend name target)) #'failure-kind)
                    :not-implemented)))
    (cond ((eq sites :failed) '())
          ;; CLISP's cross-referencer only knows the files that it was told to read.
          ((and (null sites) (implementation-p "CLISP")) :not-implemented)
          ((listp sites)
           (remove-if-not (lambda (site) (and (consp site) (consp (rest site)))) sites))
          (t :not-implemented))))

(defun method-sites (class)
  "The methods on CLASS, by the metaobject protocol, in the form of sites."
  (loop for method in (mop "SPECIALIZER-DIRECT-METHODS" class)
        for name = (mop "GENERIC-FUNCTION-NAME" (mop "METHOD-GENERIC-FUNCTION" method))
        for what = `(defmethod ,name ,@(method-qualifiers method)
                      ,(loop for specializer in (mop "METHOD-SPECIALIZERS" method)
                             collect (if (typep specializer 'class)
                                         (class-name specializer)
                                         `(eql ,(mop "EQL-SPECIALIZER-OBJECT" specializer)))))
        ;; T has thousands: places are looked up for those that are told.
        collect (list what (let ((method method) (name name) (what what))
                             (lambda () (place-of-method method name what))))))

(defun place-of-method (method name what)
  (if (implementation-p "SBCL")
      (guarded (lambda () (backend "FIND-SOURCE-LOCATION" method)) (constantly nil))
      (let ((found (guarded (lambda () (backend "FIND-DEFINITIONS" name)) (constantly '()))))
        (second (or (find what found :key (lambda (it) (plain-definition (first it)))
                                     :test #'equal)
                    ;; Its text is searched for in the file of any other.
                    (first found))))))

(defun method-callee-sites (function)
  "What the methods of the generic FUNCTION call. Itself, it only calls what finds them."
  (let ((callees (optional-function "SB-INTROSPECT" "FIND-FUNCTION-CALLEES"))
        (body (or (optional-function "SB-PCL" "SAFE-METHOD-FAST-FUNCTION")
                  (lambda (method) (mop "METHOD-FUNCTION" method)))))
    (loop for method in (and callees (mop "GENERIC-FUNCTION-METHODS" function))
          append (loop for callee in (guarded (lambda ()
                                                (funcall callees (funcall body method)))
                                              (constantly '()))
                       for name = (nth-value 2 (function-lambda-expression callee))
                       ;; What makes a method of the body, and CALL-NEXT-METHOD.
                       unless (mentions-package-p "SB-PCL" (printed name))
                         collect (list name
                                       (guarded (lambda ()
                                                  (backend "FIND-SOURCE-LOCATION" callee))
                                                (constantly nil)))))))

(defun use-sites (kind target)
  "The places that use TARGET as KIND says: lists of what and a location, or a function that finds
it. :NOT-IMPLEMENTED when this implementation does not record them."
  (if (string= kind "specializes")
      (method-sites (find-class target))
      (let ((sites (recorded-sites kind target)))
        (cond ((and (string= kind "callees") (listp sites) (fboundp target)
                    (typep (fdefinition target) 'generic-function))
               (append sites (method-callee-sites (fdefinition target))))
              ((and (eq sites :not-implemented) (string= kind "calls"))
               (recorded-sites "callers" target))
              (t sites)))))

(defun user-rank (what home)
  "What is at home in HOME first, then other programs, then the implementation."
  (let* ((symbol (first-symbol what))
         (package (and symbol (symbol-package symbol))))
    (cond ((implementation-package-p package) 2)
          ((eq package home) 0)
          (t 1))))

(defun enclosing (what)
  "The definition that WHAT is in: SBCL tells of a function within it as (LAMBDA (X) :IN name)."
  (let ((outer (and (consp what) (ignore-errors (list-length what))
                    (member (first what) '(lambda flet labels))
                    (second (member :in what)))))
    (cond ((null outer) what)
          ((not (stringp outer)) (enclosing outer))
          ;; A file: of a function of its own name that is all there is to tell.
          ((and (second what) (symbolp (second what))) (second what))
          (t what))))

(defun merge-sites (sites)
  "SITES as lists of what, how often, the first location, and in which ways; each what once."
  (let ((table (make-hash-table :test 'equal)) (order '()))
    (loop for (inner location way) in sites
          for what = (enclosing inner)
          for entry = (gethash what table)
          do (cond ((null entry)
                    (setf entry (list what 1 location (list way))
                          (gethash what table) entry)
                    (push entry order))
                   (t (incf (second entry))
                      (pushnew way (fourth entry) :test #'equal))))
    (nreverse order)))

(defun users-page (target-text home sites limit offset)
  "The data on SITES, lists of what, location and way, for a reader who asked for one page."
  (let* ((users (stable-sort (loop for user in (merge-sites sites)
                                   collect (cons (user-rank (first user) home) user))
                             #'< :key #'car))
         (offset (max 0 (or offset 0))))
    (list :target target-text
          :total (length users)
          :sites (length sites)
          :offset offset
          :users (loop for (nil what count location ways)
                         in (page users offset (page-size limit 30 200))
                       collect (list :what (if (symbolp what)
                                               (symbol-text what)
                                               (definition-text what))
                                     :count count
                                     :ways (remove nil (reverse ways))
                                     :location (location-plist (if (functionp location)
                                                                   (funcall location)
                                                                   location)
                                                               what))))))

(defun not-recorded (kind name)
  "Leave the operation: uses of NAME as KIND says are not known here. Sources can be searched."
  (throw 'missed
    (list :outcome :returned
          :value (list :unavailable
                       (format nil "~:[xref ~;~]~A is not available on ~A because it does not record ~A."
                               (search "who_" kind) kind (implementation-name)
                               (cond ((string= kind "callees") "what a function calls")
                                     ((string= kind "binds") "what binds a variable")
                                     ((string= kind "sets") "what sets a variable")
                                     ((search "references" kind) "what uses a variable")
                                     ((string= kind "macroexpands") "what expands a macro")
                                     (t "what calls a function")))
                       :target (name-text name)
                       :search (unless (string= kind "callees") (source-text name))))))

(defun source-text (name)
  "How sources write NAME, but for its package and case."
  (let ((text (string-downcase (symbol-name (name-symbol name)))))
    (if (eq (name-kind name) :setf) (format nil "(setf ~A)" text) text)))

(defun with-way (way sites)
  (if (listp sites)
      (loop for (what location) in sites collect (list what location way))
      sites))

(defun function-name-of (name)
  (if (eq (name-kind name) :setf)
      (list 'setf (name-symbol name))
      (name-symbol name)))

;;; Callers

(defun caller-sites (name)
  "Who calls the function or macro NAME. What was recorded comes with places; what refers to the
function's object, and the implementation found that way, is added."
  (let ((symbol (name-symbol name)))
    (if (and (not (eq (name-kind name) :setf)) (macro-function symbol))
        (with-way "expands it" (use-sites "macroexpands" symbol))
        (let ((calls (use-sites "calls" (function-name-of name)))
              (others (use-sites "callers" (function-name-of name))))
          (cond ((and (eq calls :not-implemented) (eq others :not-implemented))
                 (not-recorded "who_calls" name))
                (t
                 (let ((calls (if (listp calls) calls '())))
                   (append (with-way nil calls)
                           (with-way nil
                             (loop for site in (if (listp others) others '())
                                   unless (member (first site) calls :key #'first :test #'equal)
                                     collect site))))))))))

(defun callable-p (name)
  (fboundp (function-name-of name)))

(define-operation "who-calls" (function package limit offset)
    "The callers of a function, or the users of a macro."
  (let* ((name (name-of-text function package))
         (symbol (name-symbol name))
         (sites (caller-sites name))
         (sites (if (eq sites :not-implemented) (not-recorded "who_calls" name) sites)))
    (append (users-page (name-text name) (symbol-package symbol) sites limit offset)
            (list :kind (cond ((not (callable-p name)) "undefined")
                              ((eq (name-kind name) :setf) "setf function")
                              (t (function-kind symbol)))))))

;;; Variables

(define-operation "who-references" (variable package limit offset)
    "Who reads, sets or binds a variable."
  (let* ((name (name-of-text variable package))
         (symbol (name-symbol name))
         (sites (loop for (kind way) in '(("references" "reads") ("sets" "sets") ("binds" "binds"))
                      for found = (use-sites kind symbol)
                      when (listp found) append (with-way way found) into all
                      else count t into missing
                      finally (if (= missing 3)
                                  (not-recorded "who_references" name)
                                  (return all)))))
    (append (users-page (name-text name) (symbol-package symbol) sites limit offset)
            (list :kind (cond ((not (boundp symbol))
                               (if (getf (known-facets symbol) :variable) "variable" "no variable"))
                              ((constantp symbol) "constant")
                              (t "variable"))))))

;;; Any kind

(defun check-target (kind symbol)
  "Leave with a sentence when SYMBOL is not what KIND is about."
  (flet ((is (what) (missed "~A is no ~A~@[; it is a ~{~A~^ and a ~}~]."
                            (symbol-text symbol) what (kinds symbol))))
    (cond ((string= kind "specializes") (unless (find-class symbol nil) (is "class")))
          ((string= kind "macroexpands") (unless (macro-function symbol) (is "macro")))
          ((string= kind "callees") (unless (fboundp symbol) (is "function")))
          ((and (member kind '("binds" "sets" "references") :test #'string=)
                (fboundp symbol) (not (boundp symbol))
                (not (getf (known-facets symbol) :variable)))
           (is "variable")))))

(define-operation "xref" (kind name package limit offset)
    "One kind of use of a name."
  (unless (assoc kind *xref-functions* :test #'string=)
    (missed "~A is no kind of cross-reference; there are ~{~A~^, ~}."
            kind (mapcar #'first *xref-functions*)))
  (let* ((found (name-of-text name package))
         (symbol (name-symbol found)))
    (unless (and (eq (name-kind found) :setf) (string/= kind "specializes"))
      (check-target kind symbol))
    (let ((sites (use-sites kind (if (string= kind "specializes")
                                     symbol
                                     (function-name-of found)))))
      (when (eq sites :not-implemented) (not-recorded kind found))
      (append (users-page (name-text found) (symbol-package symbol)
                          (with-way nil sites) limit offset)
              (list :kind kind)))))
