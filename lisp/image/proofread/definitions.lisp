;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the texts themselves define, load and change, so that it is known. Names count whatever
;;; package they are in: the code of one answer is often meant for several.

(cl:in-package "AGENT-Q-IMAGE")

(defun note-function (name &optional (count t))
  (when (stringp name)
    (push count (gethash name (proof-functions *proof*)))))

(defun note-macro (name)
  (when (stringp name)
    (setf (gethash name (proof-macros *proof*)) t)))

(defun note-name-part (name)
  (cond ((or (not (stringp name)) (string= name "")))
        ((> (length name) 1) (pushnew name (proof-name-parts *proof*) :test #'string=))
        (t (note-name-part (concatenate 'string name "-"))
           (note-name-part (concatenate 'string "-" name)))))

(defun note-names (part)
  "Note all names in PART as names of functions."
  (cond ((name-part-p part) (note-function (part-value part)))
        ((member (part-kind part) '(:quote :function))
         (when (part-value part) (note-names (part-value part))))
        (t (mapc #'note-names (list-parts part)))))

(defparameter *loading-names*
  '("LOAD" "REQUIRE" "QUICKLOAD" "LOAD-SYSTEM" "LOAD-SYSTEMS" "LOAD-ASD" "DEFSYSTEM" "USE-PACKAGE"
    "IMPORT" "SHADOWING-IMPORT" "MAKE" "OPERATE" "OOS" "TEST-SYSTEM" "INTERN" "MAKE-PACKAGE"
    "RENAME-PACKAGE" "ADD-PACKAGE-LOCAL-NICKNAME" "EVAL" "COMPILE-FILE" "UNUSE-PACKAGE" "SHADOW")
  "Operators after which the image may know more than it does now.")

(defun collect-definitions (part)
  "Note what PART, or anything in it, defines."
  (case (part-kind part)
    ((:quote :function)
     (when (part-value part) (collect-definitions (part-value part))))
    (:list
     (let ((head (first (part-value part))))
       (when (name-part-p head)
         (collect-definition (part-value head) (rest (part-value part)) head))
       (mapc #'collect-definitions (part-value part))))))

(defun collect-definition (operator parts head)
  (let ((first (first parts)))
    (cond ((member operator *loading-names* :test #'string=) (setf (proof-loads *proof*) t))
          ((member operator '("EXPORT" "UNEXPORT") :test #'string=) (setf (proof-exports *proof*) t))
          ((member operator '("IN-READTABLE" "SET-MACRO-CHARACTER" "ENABLE-READER" "SET-DISPATCH-MACRO-CHARACTER")
                   :test #'string=)
           (setf (proof-other-reader *proof*) t))
          ((null first))
          ((member operator '("SYMBOL-FUNCTION" "FDEFINITION" "MACRO-FUNCTION" "FTYPE" "FMAKUNBOUND")
                   :test #'string=)
           (mapc #'note-names parts))
          ((not (prefixed-p "DEF" operator)))
          ((standard-part-symbol head) (collect-standard operator first (rest parts)))
          (t (note-names first)
             ;; What such a macro also defines is often named after its first part.
             (dolist (part (cons first (list-parts first)))
               (note-name-part (name-of-part part)))
             (note-slot-functions parts)))))

(defun collect-standard (operator first parts)
  "Note what the standard OPERATOR defines, given FIRST and PARTS."
  (let ((name (name-of-part first)))
    (cond ((member operator '("DEFUN" "DEFGENERIC") :test #'string=)
           (note-function name (if parts (count-of-part (first parts)) t)))
          ((string= operator "DEFMETHOD")
           (let ((lambda-list (find :list parts :key #'part-kind)))
             (note-function name (if lambda-list (count-of-part lambda-list) t))))
          ((member operator '("DEFMACRO" "DEFINE-MODIFY-MACRO") :test #'string=) (note-macro name))
          ((member operator '("DEFCLASS" "DEFINE-CONDITION") :test #'string=)
           (note-slot-functions parts))
          ((string= operator "DEFSTRUCT") (collect-structure first)))))

(defun note-slot-functions (parts)
  "Note the functions named by options such as :ACCESSOR in PARTS, at any depth."
  (dolist (part parts)
    (loop for (option value) on (list-parts part)
          do (when (and value
                        (part-named-p option "ACCESSOR" "READER" "WRITER" "CONSTRUCTOR" "PREDICATE"
                                      "COPIER"))
               (note-names value)))
    (note-slot-functions (list-parts part))))

(defun collect-structure (first)
  "Note the names of a structure's functions: all that contain its own name, and those in its
options."
  (let* ((options (list-parts first))
         (prefix (find-if (lambda (it) (part-named-p (first (list-parts it)) "CONC-NAME")) options))
         (prefix-name (and prefix (name-of-part (second (list-parts prefix))))))
    (note-name-part (name-of-part (or (first options) first)))
    (when prefix
      (if (and prefix-name (string/= prefix-name "NIL") (string/= prefix-name ""))
          (note-name-part prefix-name)
          ;; Its slots name functions, and another structure may include it.
          (setf (proof-loads *proof*) t)))
    (note-slot-functions (list first))))

;;; Packages

(defun note-package-form (part)
  "Note what PART, a top-level form, does to the current package, or which package it defines."
  (let* ((parts (list-parts part)) (head (first parts)))
    (cond ((part-named-p head "IN-PACKAGE") (enter-named-package (second parts)))
          ((and (part-named-p head "DEFPACKAGE" "DEFINE-PACKAGE") (second parts))
           (plan-package (name-of-part (second parts)) (cddr parts)))
          ((part-named-p head "PROGN" "EVAL-WHEN") (mapc #'note-package-form (rest parts))))))

(defun enter-named-package (part)
  (let* ((name (and part (name-of-part part)))
         (package (and name (known-package name))))
    (when name
      (unless package
        (note-mistake part :package (format nil "There is no package ~A in the image." name)))
      (setf (proof-package *proof*) package))))

(defun plan-package (name options)
  "Note the package NAME, which the text defines with OPTIONS."
  (let ((plan (make-planned-package :name name)))
    (dolist (option options)
      (let ((names (remove nil (mapcar #'name-of-part (rest (list-parts option))))))
        (flet ((option-p (&rest names) (apply #'part-named-p (first (list-parts option)) names)))
          (cond ((option-p "USE" "MIX" "REEXPORT" "USE-REEXPORT" "MIX-REEXPORT")
                 (setf (planned-package-uses plan) (append (planned-package-uses plan) names)))
                ((option-p "EXPORT")
                 (setf (planned-package-exports plan) (append (planned-package-exports plan) names)))
                ((option-p "SHADOW")
                 (setf (planned-package-shadowed plan) (append (planned-package-shadowed plan) names)))
                ((option-p "IMPORT-FROM" "SHADOWING-IMPORT-FROM")
                 (dolist (import (rest names))
                   (push (cons import (first names)) (planned-package-imports plan))))
                ((option-p "LOCAL-NICKNAMES")
                 (dolist (pair (rest (list-parts option)))
                   (let ((names (mapcar #'name-of-part (list-parts pair))))
                     (when (and (first names) (second names))
                       (push (cons (first names) (second names))
                             (planned-package-nicknames plan))))))
                ((option-p "NICKNAMES")
                 (dolist (nickname names)
                   (setf (gethash nickname (proof-planned *proof*)) plan)))))))
    (when name
      (setf (gethash name (proof-planned *proof*)) plan))))
