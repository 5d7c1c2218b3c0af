;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a symbol is: every facet of it (function, variable, class...) with arguments, value,
;;; documentation and the place of its definition. Operations: describe-symbol, function-arglist.
;;; Needs: names

(cl:in-package "AGENT-Q-IMAGE")

;;; Functions

(defun bare-symbols (tree)
  "TREE with its symbols stripped of their packages, which only lengthen a lambda list."
  (cond ((null tree) nil)
        ((consp tree)
         ;; A quote has to stay a quote for the printer.
         (if (and (member (first tree) '(quote function)) (consp (rest tree)) (null (cddr tree)))
             tree
             (cons (bare-symbols (car tree)) (bare-symbols (cdr tree)))))
        ((and (symbolp tree) (not (keywordp tree))
              (not (eq (symbol-package tree) (find-package "COMMON-LISP"))))
         (make-symbol (symbol-name tree)))
        (t tree)))

(defun arglist-text (function)
  "The lambda list of FUNCTION, a function or its name, as text, or NIL when it isn't known."
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

(defun function-type-text (symbol)
  "The type that the implementation knows or has derived for the function."
  (let ((function-type (optional-function "SB-INTROSPECT" "FUNCTION-TYPE")))
    (when function-type
      (let ((type (guarded (lambda () (funcall function-type symbol)) (constantly nil))))
        (when (consp type)
          (let ((*package* (or (symbol-package symbol) *package*)))
            (printed type :limit 300 :length 20 :level 6 :circle nil)))))))

(defun mop (name argument)
  "Call the metaobject protocol's function NAME, or return NIL when it can't be."
  (let ((function (if (simple-vector-p argument)
                      (lambda (slot) (structure-slot name slot))
                      (optional-function (if (eq *client* :slynk) "SLYNK-MOP" "SWANK-MOP") name))))
    (and function
         (guarded (lambda () (funcall function argument)) (constantly nil)))))

(defun structure-slot (name slot)
  "What SLOT-DEFINITION-... would tell of SLOT, which is a vector on ABCL."
  (let ((position (cdr (assoc name '(("SLOT-DEFINITION-NAME" . 1) ("SLOT-DEFINITION-INITFORM" . 4)
                                     ("SLOT-DEFINITION-TYPE" . 5))
                              :test #'string=))))
    (and position (svref slot position))))

(defun doc (object type)
  (let ((text (guarded (lambda () (documentation object type)) (constantly nil))))
    (and (stringp text) (string/= text "") (shortened text 1500))))

(defun function-facet (symbol)
  (let ((kind (function-kind symbol)))
    (when kind
      (list :kind kind
            :arglist (arglist-text symbol)
            :type (and (string= kind "function") (function-type-text symbol))
            :methods (and (string= kind "generic function") 
                           (length (mop "GENERIC-FUNCTION-METHODS" (fdefinition symbol))))
            :compiler-macro (and (compiler-macro-function symbol) t)
            :documentation (doc symbol 'function)))))

(defun setf-facet (symbol)
  (let ((name (list 'setf symbol)))
    (when (fboundp name)
      (list :kind (if (typep (fdefinition name) 'generic-function)
                      "generic setf function"
                      "setf function")
            :arglist (or (arglist-text name) (arglist-text (fdefinition name)))
            :documentation (doc name 'function)))))

;;; Variables

(defun known-facets (symbol)
  "What the client's own describe knows of SYMBOL, such as :VARIABLE for a special without value."
  (guarded (lambda () (backend "DESCRIBE-SYMBOL-FOR-EMACS" symbol)) (constantly nil)))

(defun variable-facet (symbol known)
  (cond ((and (boundp symbol) (not (keywordp symbol)))
         (let ((value (symbol-value symbol)))
           (list :kind (if (constantp symbol) "constant" "variable")
                 :value (printed value :limit 600 :length 20 :level 4)
                 :value-type (guarded (lambda ()
                                        (printed (type-of value) :limit 120 :length 6 :level 3))
                                      (constantly nil))
                 :documentation (doc symbol 'variable))))
        ((keywordp symbol) (list :kind "keyword"))
        ((not (eq symbol (macroexpand-1 symbol)))
         (list :kind "symbol macro"
               :value (printed (macroexpand-1 symbol) :limit 600 :circle nil)))
        ((getf known :variable)
         (list :kind "variable" :unbound t :documentation (doc symbol 'variable)))))

;;; Classes, types, packages

(defun class-kind (class)
  (let ((metaclass (symbol-name (class-name (class-of class)))))
    (cond ((search "STRUCTURE" metaclass) "structure")
          ((search "BUILT-IN" metaclass) "built-in class")
          ((search "CONDITION" metaclass) "condition")
          (t "class"))))

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
  "What the type SYMBOL stands for when it needs no arguments, as text, or NIL where nobody tells."
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

;;; Operations

(defun symbol-facets (name)
  (let* ((symbol (name-symbol name))
         (kind (name-kind name))
         (known (known-facets symbol)))
    (remove nil (list (unless (eq kind :setf) (function-facet symbol))
                      (unless (eq kind :function) (setf-facet symbol))
                      (when (eq kind :any) (variable-facet symbol known))
                      (when (eq kind :any) (class-facet symbol))
                      (when (eq kind :any) (type-facet symbol known))
                      (when (eq kind :any) (package-facet symbol))))))

(define-operation "describe-symbol" (symbol package)
    "All that a symbol is."
  (let* ((name (name-of-text symbol package))
         (symbol (name-symbol name))
         (home (symbol-package symbol))
         (facets (symbol-facets name)))
    (list :name (name-text name)
          :package (and home (package-name home))
          :status (and home (nth-value 1 (find-symbol (symbol-name symbol) home)))
          :facets facets
          :elsewhere (and (null facets)
                          (loop for other in (elsewhere (symbol-name symbol) home)
                                when (facet-p other) collect (symbol-text other)))
          :definitions (append (unless (eq (name-kind name) :setf) (definition-list symbol))
                               (when (and (not (eq (name-kind name) :function))
                                          (fboundp (list 'setf symbol)))
                                 (definition-list (list 'setf symbol)))))))

(define-operation "function-arglist" (function package)
    "The lambda list of a function, macro or special operator."
  (let* ((name (name-of-text function package))
         (symbol (name-symbol name))
         (facet (or (unless (eq (name-kind name) :setf) (function-facet symbol))
                    (unless (eq (name-kind name) :function) (setf-facet symbol)))))
    (unless facet
      (missed "~A names no function, macro or special operator~@[; it names a ~{~A~^ and a ~}~]."
              (name-text name)
              (loop for facet in (symbol-facets name) collect (getf facet :kind))))
    (list :name (if (search "setf" (getf facet :kind))
                    (format nil "(SETF ~A)" (symbol-text symbol))
                    (symbol-text symbol))
          :kind (getf facet :kind)
          :arglist (getf facet :arglist)
          :setf (and (not (eq (name-kind name) :setf)) (fboundp (list 'setf symbol)) t))))
