;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the image has: its definitions by key, and which text each was made from, as far as the
;;; implementation or our journal knows.

(cl:in-package "AGENT-Q-IMAGE")

;;; Definitions

(defvar *known-functions* '()
  "During an operation: from names of functions to these, or NIL. To find a symbol takes time under
a watch.")

(defun known-function (package name)
  "The function NAME of PACKAGE, or NIL, as OPTIONAL-FUNCTION."
  (let ((known (assoc name *known-functions* :test #'string=)))
    (unless known
      (setf known (cons name (optional-function package name)))
      (push known *known-functions*))
    (cdr known)))

(defun method-as-key (name method)
  (list* :method name
         (append (method-qualifiers method)
                 (list (loop for specializer in (mop "METHOD-SPECIALIZERS" method)
                             collect (if (typep specializer 'class)
                                         (class-name specializer)
                                         (list 'eql (mop "EQL-SPECIALIZER-OBJECT" specializer))))))))

(defun variable-kind (symbol)
  "Whether SYMBOL was defined as a variable, :VARIABLE or :SYMBOL-MACRO, or NIL."
  (let ((info (known-function "SB-INT" "INFO")))
    (cond ((keywordp symbol) nil)
          ((null info) (cond ((boundp symbol) :variable)
                             ((symbol-macro symbol) :symbol-macro)))
          (t (case (funcall info :variable :kind symbol)
               ((:special :constant :global) :variable)
               (:macro :symbol-macro))))))

(defun structure-function-p (symbol class)
  "Whether SYMBOL looks like a function that DEFSTRUCT made for CLASS."
  (let ((name (symbol-name symbol)) (of (symbol-name (class-name class))))
    (or (prefixed-p (format nil "~A-" of) name)
        (string= name (format nil "MAKE-~A" of))
        (string= name (format nil "COPY-~A" of)))))

(defun map-definitions (symbol function)
  "Call FUNCTION with key and object of each definition that SYMBOL has."
  (flet ((tell-function (name)
           (when (and (fboundp name) (not (and (symbolp name) (special-operator-p name))))
             (let ((object (or (and (symbolp name) (macro-function name)) (fdefinition name))))
               (funcall function (list :function name) object)
               (when (typep object 'generic-function)
                 (dolist (method (generic-methods object))
                   (funcall function (method-as-key name method) method)))))))
    (tell-function symbol)
    (tell-function (list 'setf symbol))
    (let ((compiler-macro (compiler-macro-function symbol)) (class (find-class symbol nil)))
      (when compiler-macro (funcall function (list :compiler-macro symbol) compiler-macro))
      (when (and class (eq symbol (class-name class)) (not (forward-referenced-p class)))
        (funcall function (list :class symbol) class))
      (multiple-value-bind (type place) (expanders symbol)
        (when type (funcall function (list :type symbol) type))
        (when place (funcall function (list :setf symbol) place)))
      (let ((kind (variable-kind symbol)))
        (when (and kind (or (eq kind :symbol-macro) (boundp symbol)))
          (funcall function (list kind symbol) symbol))))))

(defun map-foreign-methods (symbol function)
  "Call FUNCTION with the methods that the class SYMBOL has of generic functions of other packages."
  (let ((class (find-class symbol nil)))
    (when (and class (eq symbol (class-name class)))
      (dolist (method (mop "SPECIALIZER-DIRECT-METHODS" class))
        (let* ((generic (mop "METHOD-GENERIC-FUNCTION" method))
               (name (and generic (mop "GENERIC-FUNCTION-NAME" generic)))
               (named (if (consp name) (second name) name)))
          (when (and name (symbolp named)
                     (not (eq (symbol-package named) (symbol-package symbol)))
                     (member name (list named (list 'setf named)) :test #'equal))
            (funcall function (method-as-key name method) method)))))))

(defun has-definition-p (key)
  "Whether the image has what KEY, of a text, says; true where that can't be told."
  (destructuring-bind (kind name &rest more) key
    (let ((symbol (if (and (consp name) (eq 'setf (first name))) (second name) name)))
      (cond ((not (symbolp symbol)) nil)
            (t (ecase kind
                 (:function (fboundp name))
                 (:method (and (fboundp name) (method-there-p name more)))
                 (:compiler-macro (compiler-macro-function name))
                 (:class (find-class name nil))
                 (:type (or (not (implementation-p "SBCL")) (expanders name)))
                 (:setf (or (not (implementation-p "SBCL")) (nth-value 1 (expanders name))))
                 ((:variable :symbol-macro) (or (not (implementation-p "SBCL"))
                                                (variable-kind name))))))))) 

(defun method-there-p (name parts)
  (loop for method in (generic-methods (fdefinition name))
        thereis (same-method-p parts (cddr (method-as-key name method)))))

(defun same-method-p (written present)
  "Whether WRITTEN, the qualifiers and specializers of a text, mean those that are PRESENT. Objects
that only evaluating tells may be the same."
  (and (= (length written) (length present))
       (equal (butlast written) (butlast present))
       (let ((one (first (last written))) (other (first (last present))))
         (and (= (length one) (length other))
              (every (lambda (one other)
                       (or (equal one other)
                           (and (consp one) (consp other)
                                (eq 'eql (first one)) (eq 'eql (first other))
                                (let ((object (second one)))
                                  (or (eql object (second other))
                                      (consp object)
                                      (and (symbolp object) object (not (keywordp object))))))))
                     one other)))))

;;; Where they come from

(defun source-object (key object)
  "The function whose source has a date, for what has one."
  (ecase (first key)
    ((:function :compiler-macro) object)
    (:method (let ((functions (method-functions object)))
               (or (first functions) (second functions))))
    ((:class :variable :symbol-macro :type :setf) nil)))

(defun introspect (name &rest arguments)
  "Call the function NAME of SB-INTROSPECT, which is there."
  (apply (known-function "SB-INTROSPECT" name) arguments))

(defun recorded-source (key object)
  "What SBCL recorded of the source of KEY, a DEFINITION-SOURCE, or NIL."
  (flet ((named (&rest types)
           (loop for type in types
                 thereis (first (introspect "FIND-DEFINITION-SOURCES-BY-NAME" (second key) type)))))
    (ecase (first key)
      ((:function :method :class :compiler-macro) (introspect "FIND-DEFINITION-SOURCE" object))
      (:variable (named :variable :constant))
      (:symbol-macro (named :symbol-macro))
      (:type (named :type))
      (:setf (named :setf-expander)))))

(defun definition-origin (key object)
  "Where the definition KEY is from: a property list of :file, :index of the form in it and :date of
its text, or of :text and :package, for what was compiled from a buffer, which may be :of-file."
  (let ((source (recorded-source key object)))
    (when source
      (let* ((plist (introspect "DEFINITION-SOURCE-PLIST" source))
             (file (introspect "DEFINITION-SOURCE-PATHNAME" source))
             (text (getf plist :emacs-string)))
        (cond (text (list :text text :package (getf plist :emacs-package)
                          ;; The client was told to pass a form of ours off as one of the file.
                          :of-file (and (not (equal *by-compile-form* (getf plist :emacs-buffer)))
                                        (getf plist :emacs-filename))))
              ((getf plist :emacs-buffer) '())
              (file
               (let ((file (namestring (translate-logical-pathname file))))
                 (list :file (known-file-key file)
                       :index (first (introspect "DEFINITION-SOURCE-FORM-PATH" source))
                       :date (or (introspect "DEFINITION-SOURCE-FILE-WRITE-DATE" source)
                                 (date-of-code (source-object key object) file))))))))))

(defun date-of-code (code file)
  "The date of FILE's text that CODE was compiled from, if it was."
  ;; A reader of a condition has SBCL's own code.
  (when (functionp code)
    (destructuring-bind (&optional from date) (source-of-function code)
      (and (equal from file) date))))

(defvar *file-keys* nil
  "During an operation: from names of files to their keys.")

(defun known-file-key (file)
  (or (gethash file *file-keys*)
      (setf (gethash file *file-keys*) (file-key file))))

(defparameter *kinds-in-journal*
  '((:function . :function) (:method . :methods) (:compiler-macro . :compiler-macro)
    (:class . :class) (:type . :type) (:setf . :place) (:variable . :variable)
    (:symbol-macro . :symbol-macro)))

(defun change-of (key object)
  "Our latest change that made the definition KEY as it is now, or NIL."
  (let ((kind (cdr (assoc (first key) *kinds-in-journal*))))
    (find-if (lambda (change)
               (and (eq kind (change-kind change))
                    (equal (second key) (change-name change))
                    (not (change-restored change))
                    (not (change-loaded change))
                    (case kind
                      ((:function :compiler-macro)
                       (let ((new (change-new change)))
                         (eq object (if (consp new) (second new) new))))
                      (:methods (member object (change-new change)))
                      (t t))))
             *journal*)))
