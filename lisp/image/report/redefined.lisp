;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Redefinitions in a call. SBCL's and CLISP's warnings are muffled, as agents redefine on purpose;
;;; but on SBCL definitions that came from other files are counted, as they are the sign of a second
;;; copy of a system.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *redefined* (list '())
  "A list of one element: lists of a directory and how many definitions from files in it this call
has replaced with some from other files.")

(defun file-of-function (function)
  (let ((find (optional-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCE"))
        (pathname (optional-function "SB-INTROSPECT" "DEFINITION-SOURCE-PATHNAME")))
    (and find pathname
         (guarded (lambda () (namestring (truename (funcall pathname (funcall find function)))))
                  (constantly nil)))))

(defun file-of-redefinition (condition)
  "The name of the file with the new definition of CONDITION, read from the function: nothing else
knows it this early."
  (guarded (lambda ()
             (let ((function (internal "SB-KERNEL" "FUNCTION-REDEFINITION-WARNING-NEW-FUNCTION"
                                       condition)))
               (namestring
                (truename
                 (reduce (lambda (value reader) (internal (first reader) (second reader) value))
                         '(("SB-KERNEL" "FUN-CODE-HEADER") ("SB-KERNEL" "%CODE-DEBUG-INFO")
                           ("SB-C" "DEBUG-INFO-SOURCE") ("SB-C" "DEBUG-SOURCE-NAMESTRING"))
                         :initial-value function)))))
           (constantly nil)))

(defun note-redefinition (condition)
  "Note where the function that CONDITION redefines was from, if the new one is from another file."
  (guarded
   (lambda ()
     (let ((old (file-of-function
                 (fdefinition (internal "SB-KERNEL" "REDEFINITION-WARNING-NAME" condition))))
           (new (file-of-redefinition condition)))
       (when (and old new (string/= old new))
         (let* ((directory (subseq old 0 (1+ (position #\/ old :from-end t))))
                (entry (assoc directory (first *redefined*) :test #'string=)))
           (if entry
               (incf (second entry))
               (push (list directory 1) (first *redefined*)))))))
   (constantly nil)))

(defun call-redefining (function)
  "Call FUNCTION without the implementation's warnings about redefinitions."
  (let ((type (guarded (lambda () (find-class (find-symbol "REDEFINITION-WARNING" "SB-KERNEL")))
                       (constantly nil)))
        (unchecked (and (implementation-p "CLISP")
                        (find-symbol "*SUPPRESS-CHECK-REDEFINITION*" "CUSTOM")))
        (*redefined* (list '())))
    (handler-bind ((warning (lambda (condition)
                              (when (and type (typep condition type))
                                (note-redefinition condition)
                                (muffle-warning condition)))))
      (progv (and unchecked (list unchecked)) '(t)
        (funcall function)))))
