;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a class has besides slots and superclasses: its documentation, its default initargs, and
;;; how a condition reports. A class that changed only in these can be restored from them.

(cl:in-package "AGENT-Q-IMAGE")

(defun direct-default-initargs (class)
  "The direct default initargs of CLASS, each a list of name, form and function."
  (let ((reader (or (optional-function "SB-MOP" "CLASS-DIRECT-DEFAULT-INITARGS")
                    (optional-function "SLYNK-MOP" "CLASS-DIRECT-DEFAULT-INITARGS")
                    (optional-function "SWANK-MOP" "CLASS-DIRECT-DEFAULT-INITARGS"))))
    (and reader (ignore-errors (funcall reader class)))))

(defun report-place (class)
  "The form of the place with the report function for conditions of CLASS, if known."
  (let ((reader (find-symbol "CONDITION-CLASSOID-REPORT" (or (find-package "SB-KERNEL")
                                                             "COMMON-LISP")))
        (find (find-symbol "FIND-CLASSOID" (or (find-package "SB-KERNEL") "COMMON-LISP"))))
    (and reader (fboundp reader) find (fboundp find)
         (subtypep class 'condition)
         `(,reader (,find ',(class-name class))))))

(defun condition-report-function (class)
  (let ((place (report-place class)))
    (and place
         (ignore-errors (funcall (first place) (funcall (first (second place))
                                                        (class-name class)))))))

(defun class-options (class)
  "A list of the documentation, the default initargs and the report function of CLASS; NIL without a
class."
  (and class
       (list (ignore-errors (documentation class t))
             (direct-default-initargs class)
             (condition-report-function class))))

(defun initarg-forms (initargs)
  (loop for initarg in initargs
        collect (if (consp initarg) (list (first initarg) (second initarg)) initarg)))

(defun changed-options (one other)
  "What differs between two lists of CLASS-OPTIONS."
  (remove nil (list (and (not (equal (first one) (first other))) :documentation)
                    (and (not (or (eq (second one) (second other))
                                  (equal (initarg-forms (second one))
                                         (initarg-forms (second other)))))
                         :default-initargs)
                    (and (not (eql (third one) (third other))) :report))))

(defun same-options-p (one other)
  (or (eq one other) (null (changed-options one other))))

(defun options-text (one other)
  (format nil "~{~A~^ and ~}"
          (loop for option in (changed-options one other)
                collect (substitute #\Space #\- (string-downcase (symbol-name option))))))

(defun put-class-options (name old new)
  "Give the class NAME the options OLD wherever they differ from NEW."
  (let ((class (find-class name)))
    (dolist (option (changed-options old new))
      (ecase option
        (:documentation (setf (documentation name 'type) (first old)))
        (:default-initargs (reinitialize-instance class :direct-default-initargs (second old)))
        (:report (eval `(setf ,(report-place class) ',(third old))))))))

(defun irreversible-options-p (name old new)
  "Why the options of the class NAME can't be restored to OLD, or NIL."
  (when (and (member :default-initargs (changed-options old new))
             (not (typep (find-class name nil) 'standard-class)))
    "The default initargs of a class that is not a standard class can't be restored; define it again."))
