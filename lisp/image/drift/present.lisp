;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the image has: its definitions by key, and which text each was made from, as far as the
;;; implementation or our journal knows.

(cl:in-package "AGENT-Q-IMAGE")

;;; Definitions

(defun method-as-key (name method)
  (list* :method name
         (append (method-qualifiers method)
                 (list (loop for specializer in (mop "METHOD-SPECIALIZERS" method)
                             collect (if (typep specializer 'class)
                                         (class-name specializer)
                                         (list 'eql (mop "EQL-SPECIALIZER-OBJECT" specializer))))))))

(defun variable-kind (symbol)
  "Whether SYMBOL was defined as a variable, :VARIABLE or :SYMBOL-MACRO, or NIL."
  (let ((info (optional-function "SB-INT" "INFO")))
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

(defun recorded-source (key object)
  "What the implementation recorded of the source of KEY, a DEFINITION-SOURCE, or NIL."
  (let ((of-object (optional-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCE"))
        (by-name (optional-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCES-BY-NAME")))
    (flet ((named (&rest types)
             (loop for type in types
                   thereis (first (funcall by-name (second key) type)))))
      (and of-object by-name
           (guarded (lambda ()
                      (ecase (first key)
                        ((:function :method :class :compiler-macro) (funcall of-object object))
                        (:variable (named :variable :constant))
                        (:symbol-macro (named :symbol-macro))
                        (:type (named :type))
                        (:setf (named :setf-expander))))
                    (constantly nil))))))

(defun definition-origin (key object)
  "Where the definition KEY is from: a property list of :file, :index of the form in it and :date of
its text, or of :text and :package, for what was compiled from a buffer, which may be :of-file."
  (let ((source (recorded-source key object)) (code (source-object key object)))
    (flet ((part (name &optional (source source))
             (funcall (optional-function "SB-INTROSPECT" name) source)))
      (when source
        (let* ((plist (part "DEFINITION-SOURCE-PLIST")) (file (part "DEFINITION-SOURCE-PATHNAME"))
               (text (getf plist :emacs-string)))
          (cond (text (list :text text :package (getf plist :emacs-package)
                            ;; The client was told to pass a form of ours off as one of the file.
                            :of-file (and (not (equal *by-compile-form* (getf plist :emacs-buffer)))
                                          (getf plist :emacs-filename))))
                ((or file (getf plist :emacs-buffer))
                 (list :file (and file (null (getf plist :emacs-buffer))
                                  (guarded (lambda () (namestring (translate-logical-pathname file)))
                                           (constantly nil)))
                       :index (first (part "DEFINITION-SOURCE-FORM-PATH"))
                       :date (or (part "DEFINITION-SOURCE-FILE-WRITE-DATE")
                                 ;; A reader of a condition has SBCL's own code.
                                 (and (functionp code) file
                                      (destructuring-bind (&optional from date)
                                          (source-of-function code)
                                        (and (equal from (namestring file)) date))))))))))))

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
