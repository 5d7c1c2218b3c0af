;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a symbol is: all its facets (function, variable, class...) with arguments, value,
;;; documentation and place of definition. Operations: describe-symbol, function-arglist.

(cl:in-package "AGENT-Q-IMAGE")

;;; Functions

(defun bare-symbols (tree)
  "TREE with its symbols stripped of their packages, which would only lengthen a lambda list."
  (cond ((null tree) nil)
        ((consp tree)
         ;; Keep quotes as quotes for the printer.
         (if (and (member (first tree) '(quote function)) (consp (rest tree)) (null (cddr tree)))
             tree
             (cons (bare-symbols (car tree)) (bare-symbols (cdr tree)))))
        ((and (symbolp tree) (not (keywordp tree))
              (not (eq (symbol-package tree) (find-package "COMMON-LISP"))))
         (make-symbol (symbol-name tree)))
        (t tree)))

(defun arglist-text (function)
  "The lambda list of FUNCTION, a function or its name, as text, or NIL if unknown."
  (let ((arglist (guarded (lambda () (backend "ARGLIST" function))
                          (constantly :not-available))))
    (cond ((eq arglist :not-available) nil)
          ((null arglist) "()")
          ((stringp arglist) arglist)
          (t (printed (bare-symbols arglist)
                      :limit 1000 :circle nil
                      :writer (lambda (arglist stream)
                                (let ((*print-gensym* nil)) (prin1 arglist stream))))))))

(defun function-kind (symbol)
  (cond ((special-operator-p symbol) "special operator")
        ((macro-function symbol) "macro")
        ((not (fboundp symbol)) nil)
        ((typep (fdefinition symbol) 'generic-function) "generic function")
        (t "function")))

(defun short-function-type (type)
  "TYPE, a list (FUNCTION arguments values), without parts that say nothing; NIL if none is left."
  (destructuring-bind (&optional (arguments '*) (values '*)) (rest type)
    (let* ((values (if (and (consp values) (eq (first values) 'values))
                       (let ((known (subseq values 1 (position '&optional values :from-end t))))
                         (if (= (length known) 1) (first known) (cons 'values known)))
                       values)))
      (unless (and (member values '(t *))
                   (or (eq arguments '*)
                       (subsetp arguments (list* t lambda-list-keywords))))
        (list 'function arguments values)))))

(defun function-type-text (symbol)
  "The type that the implementation knows or has derived for the function SYMBOL."
  (let ((function-type (optional-function "SB-INTROSPECT" "FUNCTION-TYPE")))
    (when function-type
      (let ((type (guarded (lambda ()
                             (let ((type (funcall function-type symbol)))
                               (if (and (consp type) (eq (first type) 'function))
                                   (short-function-type type)
                                   type)))
                           (constantly nil))))
        (when (consp type)
          (let ((*package* (or (symbol-package symbol) *package*)))
            (printed type :limit 300 :length 20 :level 6 :circle nil)))))))

(defun doc (object type)
  (let ((text (guarded (lambda () (documentation object type)) (constantly nil))))
    (and (stringp text) (string/= text "")
         ;; Models know the standard; long texts about it only cost tokens.
         (shortened text (if (and (symbolp object)
                                  (eq (symbol-package object) (find-package "COMMON-LISP")))
                             300
                             1500)))))

(defun inline-p (name)
  "Whether calls of the function NAME are inlined, if that is known."
  (let ((info (optional-function "SB-INT" "INFO")))
    (and info
         (not (member (guarded (lambda () (funcall info :function :inlinep name)) (constantly nil))
                      '(nil notinline :notinline))))))

(defun function-facet (symbol)
  (let ((kind (function-kind symbol)))
    (when kind
      (list :kind kind
            :arglist (arglist-text symbol)
            :type (and (string= kind "function") (function-type-text symbol))
            :methods (and (string= kind "generic function") 
                           (length (mop "GENERIC-FUNCTION-METHODS" (fdefinition symbol))))
            :inline (and (string= kind "function") (inline-p symbol))
            :compiler-macro (and (compiler-macro-function symbol) t)
            :documentation (doc symbol 'function)))))

(defun setf-expander-p (symbol known)
  "Whether SETF expands (SYMBOL ...). Some clients don't say; ABCL keeps it as a property."
  (or (getf known :setf)
      (loop for tail = (symbol-plist symbol) then (cddr tail)
            while (and (consp tail) (consp (cdr tail)))
              thereis (and (symbolp (first tail))
                           (member (symbol-name (first tail)) '("SETF-INVERSE" "SETF-EXPANDER")
                                   :test #'string=)
                           (implementation-package-p (symbol-package (first tail)))))))

(defun setf-facet (symbol &optional known)
  "What (SETF SYMBOL) is: a function, or something that DEFSETF or DEFINE-SETF-EXPANDER made, which
only KNOWN, the client's facts about SYMBOL, tells."
  (let ((name (list 'setf symbol)))
    (cond ((fboundp name)
           (list :kind (if (typep (fdefinition name) 'generic-function)
                           "generic setf function"
                           "setf function")
                 :arglist (or (arglist-text name) (arglist-text (fdefinition name)))
                 :documentation (doc name 'function)))
          ((setf-expander-p symbol known)
           (list :kind "setf expander" :documentation (doc symbol 'setf))))))

;;; Variables

(defun known-facets (symbol)
  "What the client's own describe knows of SYMBOL, such as :VARIABLE for an unbound special
variable."
  (guarded (lambda () (backend "DESCRIBE-SYMBOL-FOR-EMACS" symbol)) (constantly nil)))

(defun declared-type-text (symbol)
  "The declared type of the variable SYMBOL, if the implementation tells."
  (let ((info (optional-function "SB-INT" "INFO"))
        (specifier (optional-function "SB-KERNEL" "TYPE-SPECIFIER")))
    (when (and info specifier (not (constantp symbol)))
      (guarded (lambda ()
                 (let ((type (funcall specifier (funcall info :variable :type symbol))))
                   (unless (eq type t)
                     (printed type :limit 120 :length 10 :level 4 :circle nil))))
               (constantly nil)))))

(defun value-class-text (value text)
  "The class of VALUE, if that is an object, structure or condition and TEXT, the printed value,
doesn't name it."
  (when (typep value '(or standard-object structure-object condition))
    (let ((name (guarded (lambda () (class-name (class-of value))) (constantly nil))))
      (and name (not (search (symbol-name name) text))
           (symbol-text name)))))

(defun variable-facet (symbol known)
  (cond ((and (boundp symbol) (not (keywordp symbol)))
         (let* ((value (symbol-value symbol))
                (text (printed value :limit 600 :length 20 :level 4)))
           (list :kind (if (constantp symbol) "constant" "variable")
                 :value text
                 :type (declared-type-text symbol)
                 :value-class (value-class-text value text)
                 :documentation (doc symbol 'variable))))
        ((keywordp symbol) (list :kind "keyword"))
        ((not (eq symbol (macroexpand-1 symbol)))
         (list :kind "symbol macro"
               :value (printed (macroexpand-1 symbol) :limit 600 :circle nil)))
        ((getf known :variable)
         (list :kind "variable" :unbound t
               :type (declared-type-text symbol)
               :documentation (doc symbol 'variable)))))

;;; Classes, types, packages

(defun class-facet (symbol)
  (let ((class (find-class symbol nil)))
    (when class
      (list :kind (class-kind class)
            :superclasses (loop for super in (mop "CLASS-DIRECT-SUPERCLASSES" class)
                                collect (symbol-text (class-name super)))
            :slots (loop for slot in (mop "CLASS-DIRECT-SLOTS" class)
                         collect (symbol-text (mop "SLOT-DEFINITION-NAME" slot)))
            :documentation (doc symbol 'type)))))

(defun type-expansion (symbol)
  "The type that SYMBOL stands for without arguments, as text, or NIL if unknown."
  (let ((expand (optional-function "SB-EXT" "TYPEXPAND-1")))
    (and expand
         (guarded (lambda ()
                    (multiple-value-bind (type expanded) (funcall expand symbol)
                      (and expanded (printed type :limit 300 :length 20 :level 6 :circle nil))))
                  (constantly nil)))))

(defun type-facet (symbol known)
  (when (and (getf known :type) (not (find-class symbol nil)))
    (list :kind "type" :value (type-expansion symbol) :documentation (doc symbol 'type))))

(defun external-count (package)
  (let ((count 0))
    (do-external-symbols (symbol package count)
      (declare (ignorable symbol))
      (incf count))))

(defun package-facet (symbol)
  (let ((package (find-package (symbol-name symbol))))
    (when package
      (list :kind "package"
            :exports (external-count package)
            :uses (mapcar #'package-name (package-use-list package))
            :documentation (doc package t)))))

;;; Properties

(defparameter *property-limit* 8
  "How many entries of a property list to show.")

(defun program-property-p (indicator symbol)
  "Whether a program, not the implementation, gave SYMBOL the property INDICATOR."
  (if (symbolp indicator)
      (let ((package (symbol-package indicator)))
        (or (not (implementation-package-p package))
            ;; Programs use standard symbols as indicators, on symbols of their own.
            (and (member package (list (find-package "COMMON-LISP") (find-package "KEYWORD")))
                 (not (implementation-package-p (symbol-package symbol))))))
      t))

(defun property-texts (symbol)
  "The properties that programs gave SYMBOL, as texts."
  (let ((texts (loop for tail = (symbol-plist symbol) then (cddr tail)
                     while (and (consp tail) (consp (cdr tail)))
                     when (program-property-p (first tail) symbol)
                       collect (format nil "~A ~A" (printed (first tail) :limit 60)
                                       (printed (second tail) :limit 80 :length 5 :level 2)))))
    (if (> (length texts) *property-limit*)
        (append (subseq texts 0 *property-limit*)
                (list (format nil "and ~D more" (- (length texts) *property-limit*))))
        texts)))

;;; Operations

(defun symbol-facets (name)
  (let* ((symbol (name-symbol name))
         (kind (name-kind name))
         (known (known-facets symbol)))
    (remove nil (list (unless (eq kind :setf) (function-facet symbol))
                      (unless (eq kind :function) (setf-facet symbol known))
                      (when (eq kind :any) (variable-facet symbol known))
                      (when (eq kind :any) (class-facet symbol))
                      (when (eq kind :any) (type-facet symbol known))
                      (when (eq kind :any) (package-facet symbol))))))

(defun expander-definition-p (definition)
  "Whether DEFINITION defines a place for SETF without a function."
  (let ((text (or (getf definition :what) "")))
    (or (prefixed-p "(DEFINE-SETF" text) (prefixed-p "(DEFSETF" text))))

(defun same-place-p (one other)
  (loop for key in '(:file :buffer :position :line)
        always (equal (getf one key) (getf other key))))

(defun once-each (definitions)
  "DEFINITIONS without repeated setf expanders: SBCL reports them for a name and again for its setf
function."
  (remove-duplicates definitions
                     :test (lambda (one other)
                             (and (expander-definition-p one) (expander-definition-p other)
                                  (same-place-p (getf one :location) (getf other :location))))
                     :from-end t))

(defun definitions-to-tell (name)
  (let ((symbol (name-symbol name)))
    (call-with-loaded-dates
     (lambda ()
       (once-each
        (append (unless (eq (name-kind name) :setf) (definition-list symbol))
                (when (and (not (eq (name-kind name) :function)) (fboundp (list 'setf symbol)))
                  (definition-list (list 'setf symbol)))))))))

(define-operation "describe-symbol" (symbol package)
  ;; Everything that a symbol is.
  (let* ((name (name-of-text symbol package))
         (symbol (name-symbol name))
         (home (symbol-package symbol))
         (definitions (definitions-to-tell name))
         (facets (or (symbol-facets name)
                     ;; All that ECL knows of these is where they are.
                     (and (some #'expander-definition-p definitions)
                          '((:kind "setf expander"))))))
    (list :name (name-text name)
          :package (and home (package-name home))
          :status (and home (nth-value 1 (find-symbol (symbol-name symbol) home)))
          :facets facets
          :elsewhere (and (null facets)
                          (loop for other in (elsewhere (symbol-name symbol) home)
                                when (facet-p other) collect (symbol-text other)))
          :properties (and (eq (name-kind name) :any) (property-texts symbol))
          :definitions definitions)))

(define-operation "function-arglist" (function package)
  ;; The lambda list of a function, macro or special operator.
  (let* ((name (name-of-text function package))
         (symbol (name-symbol name))
         (facet (or (unless (eq (name-kind name) :setf) (function-facet symbol))
                    (unless (eq (name-kind name) :function)
                      (setf-facet symbol (known-facets symbol))))))
    (unless facet
      (missed "~A is not a function, macro or special operator~@[; it names a ~{~A~^ and a ~}~]."
              (name-text name)
              (loop for facet in (symbol-facets name) collect (getf facet :kind))))
    (list :name (if (search "setf" (getf facet :kind))
                    (format nil "(SETF ~A)" (symbol-text symbol))
                    (symbol-text symbol))
          :kind (getf facet :kind)
          :arglist (getf facet :arglist)
          :setf (and (not (eq (name-kind name) :setf)) (fboundp (list 'setf symbol)) t))))
