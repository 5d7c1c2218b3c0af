;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which forms of files mention a name, also by way of macros.

(cl:in-package "AGENT-Q-IMAGE")

(defun structure-names (name)
  "The functions that the structure NAME comes with, as far as the implementation tells."
  (let ((description (optional-function "SB-KERNEL" "FIND-DEFSTRUCT-DESCRIPTION"))
        (slots (optional-function "SB-KERNEL" "DD-SLOTS"))
        (accessor (optional-function "SB-KERNEL" "DSD-ACCESSOR-NAME"))
        (constructors (optional-function "SB-KERNEL" "DD-CONSTRUCTORS")))
    (guarded (lambda ()
               (let ((found (funcall description name)))
                 (append (mapcar accessor (funcall slots found))
                         (mapcar (lambda (it) (if (consp it) (first it) it))
                                 (funcall constructors found)))))
             (constantly '()))))

(defun standard-form-p (form)
  "Whether FORM, a SOURCE-FORM, is a definition by an operator of Common Lisp."
  (let ((operator (source-form-operator form)))
    (and operator (prefixed-p "DEF" operator) (find-symbol operator "COMMON-LISP"))))

(defun defines-p (form symbols)
  (and (standard-form-p form) (intersection symbols (source-form-names form))))

(defun macro-form-p (form)
  (member (source-form-operator form) '("DEFMACRO" "DEFINE-COMPILER-MACRO" "DEFINE-SYMBOL-MACRO")
          :test #'equal))

(defun forms-mentioning (symbols files wanted)
  "The forms of FILES, SOURCE-FORMs with their files in front, that mention one of SYMBOLS, or a macro
whose definition does, and that WANTED says yes to."
  (let ((all (loop for file in files
                   until (search-over-p)
                   collect (cons file (forms-of-file file))))
        (names symbols))
    ;; What a macro's definition mentions may be in its expansions.
    (loop for more = (loop for (nil . forms) in all
                           append (loop for form in forms
                                        when (and (macro-form-p form) (mentions-p form names))
                                          append (set-difference (source-form-names form) names)))
          while more do (setf names (remove-duplicates (append names more))))
    (loop for (file . forms) in all
          append (loop for form in forms
                       when (and (mentions-p form names) (funcall wanted form))
                         collect (cons file form)))))
