;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Whose macros are which: the implementation's own do nothing but expand, except where the program
;;; defines how.

(cl:in-package "AGENT-Q-IMAGE")

(defun standard-macro-p (operator)
  "Whether the macro OPERATOR is the implementation's: it does nothing but expand, and often depends
on its environment."
  (let ((package (symbol-package operator)))
    (and package
         (or (member (package-name package) '("COMMON-LISP" "EXT" "SYSTEM" "CLOS") :test #'string=)
             (member (package-name package) +internal-packages+ :test #'string=)
             (prefixed-p "SB-" (package-name package))))))

(define-table +setting-macros+
  '(setf psetf push pushnew pop incf decf remf rotatef shiftf)
  "Macros whose expansion depends on what the program defined for a place.")

(defun program-place-p (place)
  "Whether the program defines assignment to PLACE by a form, not by a function."
  (and (consp place) (symbolp (first place))
       (symbol-package (first place))
       ;; Our interpreted functions expand forms of their own, too.
       (not (eq (symbol-package (first place)) (find-package "AGENT-Q-IMAGE")))
       (not (standard-macro-p (first place)))
       (not (macro-function (first place)))
       (not (fboundp (list 'setf (first place))))))

(defun places-of (form)
  "The arguments of FORM, whose macro is in +SETTING-MACROS+, that may be places."
  (if (member (first form) '(setf psetf))
      (loop for place in (rest form) by #'cddr collect place)
      (rest form)))

(defun mentions-us-p (form)
  (if (consp form)
      (or (mentions-us-p (car form)) (mentions-us-p (cdr form)))
      (and (symbolp form) form (eq (symbol-package form) (find-package "AGENT-Q-IMAGE")))))
