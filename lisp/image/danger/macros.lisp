;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Whose macros are which: the implementation's own do nothing but expand, unless the program says how.

(cl:in-package "AGENT-Q-IMAGE")

(defun standard-macro-p (operator)
  "Whether the macro OPERATOR is the implementation's: it does nothing but expand, and often by its
environment."
  (let ((package (symbol-package operator)))
    (and package
         (or (member (package-name package) '("COMMON-LISP" "EXT" "SYSTEM" "CLOS") :test #'string=)
             (member (package-name package) +internal-packages+ :test #'string=)
             (prefixed-p "SB-" (package-name package))))))

(define-table +setting-macros+
  '(setf psetf push pushnew pop incf decf remf rotatef shiftf)
  "Macros that expand by what the program says of a place.")

(defun program-place-p (place)
  "Whether the program says by a form, not a function, how PLACE is assigned to."
  (and (consp place) (symbolp (first place))
       (symbol-package (first place))
       ;; What of us is interpreted still expands forms of its own on the way.
       (not (eq (symbol-package (first place)) (find-package "AGENT-Q-IMAGE")))
       (not (standard-macro-p (first place)))
       (not (macro-function (first place)))
       (not (fboundp (list 'setf (first place))))))

(defun places-of (form)
  "The arguments of FORM, of a macro in *SETTING-MACROS*, that may be places."
  (if (member (first form) '(setf psetf))
      (loop for place in (rest form) by #'cddr collect place)
      (rest form)))

(defun mentions-us-p (form)
  (if (consp form)
      (or (mentions-us-p (car form)) (mentions-us-p (cdr form)))
      (and (symbolp form) form (eq (symbol-package form) (find-package "AGENT-Q-IMAGE")))))
