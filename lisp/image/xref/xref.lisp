;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Who uses what, as recorded by the implementation while compiling. Operations: who-calls,
;;; who-references, xref.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *kinds-of-use*
  '("callers" "callees" "references" "sets" "binds" "macroexpands" "methods"))

(defparameter *other-kind-names* '(("calls" . "callers") ("specializes" . "methods"))
  "The clients' names for two of these.")

(defun kind-named (text)
  (let ((kind (or (cdr (assoc text *other-kind-names* :test #'string-equal)) text)))
    (or (find kind *kinds-of-use* :test #'string-equal)
        (missed "Unknown kind of cross-reference ~A: expected one of ~{~A~^, ~}." text *kinds-of-use*))))

(defun method-sites (class)
  "The methods on CLASS, from the metaobject protocol, as sites. Implementations have them in no
particular order."
  (loop for method in (sort (copy-list (mop "SPECIALIZER-DIRECT-METHODS" class)) #'string<
                            :key #'method-key)
        for name = (mop "GENERIC-FUNCTION-NAME" (mop "METHOD-GENERIC-FUNCTION" method))
        for what = `(defmethod ,name ,@(method-qualifiers method)
                      ,(specializer-names method))
        ;; T has thousands: find only the places that are shown.
        collect (list what (let ((method method) (name name) (what what))
                             (lambda () (place-of-method method name what))))))

(defun method-key (method)
  (let ((name (mop "GENERIC-FUNCTION-NAME" (mop "METHOD-GENERIC-FUNCTION" method))))
    (format nil "~A~:[~; SETF~]~{ ~A~}" (if (consp name) (second name) name) (consp name)
            (method-qualifiers method))))

(defun place-of-method (method name what)
  (if (implementation-p "SBCL")
      (guarded (lambda () (backend "FIND-SOURCE-LOCATION" method)) (constantly nil))
      (let ((found (guarded (lambda () (backend "FIND-DEFINITIONS" name)) (constantly '()))))
        (second (or (find what found :key (lambda (it) (plain-definition (first it)))
                                     :test #'equal)
                    ;; Emacs searches the file of any of them for its text.
                    (first found))))))

(defun machinery-p (name)
  "Whether NAME, of a callee, is internal to SBCL's compiled code, not something that people write."
  (let* ((symbol (if (consp name) (first-symbol name) name))
         (package (and (symbolp symbol) (symbol-package symbol))))
    (and package
         (prefixed-p "SB-" (package-name package))
         (member (package-name package)
                 '("SB-PCL" "SB-KERNEL" "SB-IMPL" "SB-INT" "SB-C" "SB-VM" "SB-SYS" "SB-DI" "SB-FASL"
                   "SB-FORMAT" "SB-LOOP" "SB-BIGNUM" "SB-UNICODE")
                 :test #'string=)
         t)))

(defun callee-name (callee)
  "The name of CALLEE, a function."
  (plain-name (function-name callee)))

(defun bodies (function)
  "FUNCTION in a list; for a generic function, those of its methods, as it only calls the dispatch."
  (let ((body (or (optional-function "SB-PCL" "SAFE-METHOD-FAST-FUNCTION")
                  (lambda (method) (mop "METHOD-FUNCTION" method)))))
    (if (typep function 'generic-function)
        (mapcar body (mop "GENERIC-FUNCTION-METHODS" function))
        (list function))))

(defun callee-sites (target)
  (let ((sites (if (and (implementation-p "SBCL")
                        (optional-function "SB-INTROSPECT" "FIND-FUNCTION-CALLEES"))
                   (loop for callee in (sort (remove-duplicates
                                              (mapcan (lambda (body)
                                                        (copy-list (functions-called body)))
                                                      (bodies (fdefinition target))))
                                             #'string<
                                             :key (lambda (it) (bare-text (callee-name it))))
                         collect (list (callee-name callee)
                                       (let ((callee callee))
                                         (lambda ()
                                           (guarded (lambda ()
                                                      (backend "FIND-SOURCE-LOCATION" callee))
                                                    (constantly nil))))))
                   (recorded-sites "LIST-CALLEES" target))))
    (if (and (listp sites) (not (machinery-p target)))
        (remove-if #'machinery-p sites :key #'first)
        sites)))

(defun use-sites (kind target)
  "The sites that use TARGET as KIND says: lists of what and a location, or a function that finds
it. :NOT-IMPLEMENTED if this implementation doesn't record them."
  (cond ((string= kind "methods") (method-sites (find-class target)))
        ((string= kind "callees") (callee-sites target))
        (t (current-sites (recorded-sites (cdr (assoc kind *recorders* :test #'string=)) target)
                          (intern (string-upcase kind) "KEYWORD")
                          target))))

(defun user-rank (what home)
  "A number that sorts WHAT: symbols of HOME first, then other programs, then the implementation."
  (let* ((symbol (first-symbol what))
         (package (and symbol (symbol-package symbol))))
    (cond ((implementation-package-p package) 2)
          ((eq package home) 0)
          (t 1))))

(defun enclosing (what)
  "The definition that contains WHAT: SBCL names a function inside it (LAMBDA (X) :IN name)."
  (let ((outer (and (consp what) (ignore-errors (list-length what))
                    (member (first what) '(lambda flet labels))
                    (second (member :in what)))))
    (cond ((null outer) what)
          ((not (stringp outer)) (enclosing outer))
          ;; For a function in a file, its own name is all there is.
          ((and (second what) (symbolp (second what))) (second what))
          (t what))))

(defun merge-sites (sites)
  "SITES merged by definition: lists of what, how often, the first location, and the ways."
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

(defun in-order (users home most)
  "USERS by rank and, if there are more than MOST, by name. Memory has them mostly in order of
definition, but garbage collection moves them, and pages have to be consistent."
  (labels ((text (entry)
             ;; Printing takes longer than comparing names, and few share a name.
             (or (fourth entry)
                 (setf (fourth entry) (definition-text (first (third entry))))))
           (before-p (one other)
             (let ((rank (first one)) (other-rank (first other))
                   (name (second one)) (other-name (second other)))
               (cond ((/= rank other-rank) (< rank other-rank))
                     ((<= (length users) most) nil)
                     ((string/= name other-name) (string< name other-name))
                     (t (string< (text one) (text other)))))))
    (mapcar #'third
            (stable-sort (loop for user in users
                               for symbol = (first-symbol (first user))
                               collect (list (user-rank (first user) home)
                                             (if symbol (symbol-name symbol) "")
                                             user
                                             nil))
                         #'before-p))))

(defun users-page (target-text home sites limit offset)
  "One page of SITES, lists of what, location and way, for the reader."
  (let* ((size (page-size limit 30 200))
         (users (in-order (merge-sites sites) home size))
         (offset (max 0 (or offset 0))))
    (list :target target-text
          :total (length users)
          :sites (length sites)
          :offset offset
          :cut (and *search-cut* :stopped)
          :users (call-with-loaded-dates
                  (lambda ()
                    (loop for (what count location ways)
                            in (page users offset size)
                          collect (user-entry what count location ways target-text)))))))

(defun user-entry (what count location ways target-text)
  (list :what (if (symbolp what) (symbol-text what) (definition-text what))
        :count count
        :ways (remove nil (reverse ways))
        :location (location-plist (if (functionp location) (funcall location) location)
                                  what :uses target-text)))

(defun not-recorded (kind name &optional (asked (format nil "xref ~A" kind)))
  "End the operation: this implementation doesn't record uses of NAME of KIND, but sources can be
searched. ASKED is what the caller knows this as."
  (throw 'missed
    (list :outcome :returned
          :value (list :unavailable
                       (format nil "~A is not available on ~A because it does not record ~A."
                               asked (implementation-name)
                               (cond ((string= kind "callees") "what a function calls")
                                     ((string= kind "binds") "what binds a variable")
                                     ((string= kind "sets") "what sets a variable")
                                     ((string= kind "references") "what uses a variable")
                                     ((string= kind "macroexpands") "what expands a macro")
                                     (t "what calls a function")))
                       :target (name-text name)
                       :search (unless (string= kind "callees") (use-text name))))))

(defun unused-search (name sites)
  "What to search sources for if a program's NAME has no SITES: uses at top level and in macro
templates aren't recorded."
  (list :search (unless (or sites *search-cut*
                            (implementation-package-p (symbol-package (name-symbol name))))
                  (use-text name))))

(defun source-text (name)
  "NAME as sources write it, but without package and in lower case."
  (let ((text (string-downcase (symbol-name (name-symbol name)))))
    (if (eq (name-kind name) :setf) (format nil "(setf ~A)" text) text)))

(defun use-text (name)
  "How a use of NAME begins in sources."
  (let ((text (source-text name)))
    (if (eq (name-kind name) :setf) (format nil "(setf (~A" (subseq text 6 (1- (length text)))) text)))

(defun with-way (way sites)
  (if (listp sites)
      (loop for (what location) in sites collect (list what location way))
      sites))

;;; Callers

(defun caller-sites (name asked)
  "Who calls the function or macro NAME. Recorded callers come with places; then come those that the
implementation found by their references to the function object. ASKED is what the caller knows this
as."
  (let ((symbol (name-symbol name)))
    (if (expanded-p name)
        (let ((sites (use-sites "macroexpands" symbol)))
          (if (eq sites :not-implemented)
              (not-recorded "macroexpands" name asked)
              (with-way "expands it" sites)))
        (let ((calls (current-sites (recorded-sites "WHO-CALLS" (function-name-of name))
                                    :calls (function-name-of name)))
              (others (referring-sites (function-name-of name))))
          (cond ((and (eq calls :not-implemented) (eq others :not-implemented))
                 (not-recorded "callers" name asked))
                (t
                 (let ((calls (if (listp calls) calls '())))
                   (append (with-way nil calls)
                           (with-way nil
                             (loop for site in (if (listp others) others '())
                                   unless (member (first site) calls :key #'first :test #'equal)
                                     collect site))))))))))

(defun expanded-p (name)
  "Whether NAME is a macro, which is expanded and not called."
  (and (not (eq (name-kind name) :setf)) (macro-function (name-symbol name)) t))

(defun callable-p (name)
  (fboundp (function-name-of name)))

(define-operation "who-calls" (function package limit offset)
  ;; The callers of a function, or the users of a macro.
  (in-search-time
    (let* ((name (meant-function (name-of-text function package)))
           (symbol (name-symbol name))
           (sites (caller-sites name "who_calls")))
      (append (users-page (name-text name) (symbol-package symbol) sites limit offset)
              (unused-search name sites)
              (list :kind (cond ((not (callable-p name)) "undefined")
                                ((eq (name-kind name) :setf) "setf function")
                                (t (function-kind symbol))))))))

;;; Variables

(define-operation "who-references" (variable package limit offset)
  ;; Who reads, sets or binds a variable.
  (in-search-time
    (let* ((name (name-of-text variable package))
           (symbol (name-symbol name))
           (sites (loop for (kind way) in '(("references" "reads") ("sets" "sets") ("binds" "binds"))
                        for found = (use-sites kind symbol)
                        when (listp found) append (with-way way found) into all
                        else count t into missing
                        finally (if (= missing 3)
                                    (not-recorded "references" name "who_references")
                                    (return all)))))
      (append (users-page (name-text name) (symbol-package symbol) sites limit offset)
              (unused-search name sites)
              (list :kind (cond ((not (boundp symbol))
                                 (if (getf (known-facets symbol) :variable) "variable" "no variable"))
                                ((constantp symbol) "constant")
                                (t "variable")))))))

;;; Any kind

(defun check-target (kind symbol)
  "Miss if SYMBOL isn't what KIND is about."
  (flet ((is (what) (missed "~A is not a ~A~@[; it is a ~{~A~^ and a ~}~]."
                            (symbol-text symbol) what (kinds symbol))))
    (cond ((string= kind "methods") (unless (find-class symbol nil) (is "class")))
          ((string= kind "macroexpands") (unless (macro-function symbol) (is "macro")))
          ((string= kind "callees") (unless (fboundp symbol) (is "function")))
          ((and (member kind '("binds" "sets" "references") :test #'string=)
                (fboundp symbol) (not (boundp symbol))
                (not (getf (known-facets symbol) :variable)))
           (is "variable")))))

(defun sites-of-kind (kind name)
  (let ((target (if (string= kind "methods") (name-symbol name) (function-name-of name))))
    (if (string= kind "callers")
        (caller-sites name "xref callers")
        (let ((sites (use-sites kind target)))
          (when (eq sites :not-implemented) (not-recorded kind name))
          (with-way nil sites)))))

(define-operation "xref" (kind name package limit offset)
  ;; One kind of use of a name.
  (in-search-time
    (let* ((kind (kind-named kind))
           (found (name-of-text name package))
           (symbol (name-symbol found)))
      (unless (and (eq (name-kind found) :setf) (string/= kind "methods"))
        (check-target kind symbol))
      (let ((sites (sites-of-kind kind found)))
        (append (users-page (name-text found) (symbol-package symbol) sites limit offset)
                (unless (member kind '("callees" "methods") :test #'string=)
                  (unused-search found sites))
                (list :kind (if (and (string= kind "callers") (expanded-p found))
                                "macroexpands"
                                kind)))))))
