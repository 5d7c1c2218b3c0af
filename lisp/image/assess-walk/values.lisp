;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the value of an expression certainly is now, without running the program: constants, global
;;; variables and what is in them. So a symbol stored by an earlier call is still noticed.

(cl:in-package "AGENT-Q-IMAGE")

(define-table +looking-functions+
  '(cl:find-symbol intern find-package symbol-name symbol-value symbol-function fdefinition
    get getf gethash car cdr first second third fourth fifth caar cadr cdar cddr nth aref svref assoc
    concatenate string string-upcase string-downcase reverse subseq list cons)
  "Functions that only look at their arguments; INTERN is treated as FIND-SYMBOL.")

(define-table +known-length+ 200
  "The longest string to build in order to find out a name.")

(defun known-value (form scope)
  "The value of FORM and whether it is known. Values of lexical variables never are."
  (take-step)
  (cond ((quoted-p form) (values (second form) t))
        ((symbolp form)
         (if (or (assoc form (scope-symbol-macros scope))
                 (not (boundp form))
                 (not (eq form (macroexpand-1 form))))
             (values nil nil)
             (values (symbol-value form) t)))
        ((atom form) (values form t))
        ((and (member (first form) +looking-functions+) (proper-list-p form)
              (not (member (first form) (scope-functions scope))))
         (known-result (first form) (rest form) scope))
        (t (values nil nil))))

(defun known-result (operator forms scope)
  (let ((arguments '()))
    (dolist (form forms)
      (multiple-value-bind (value known)
          (call-deeper (lambda () (known-value form scope)))
        (unless (and known
                     (not (and (stringp value) (> (length value) +known-length+))))
          (return-from known-result (values nil nil)))
        (push value arguments)))
    (handler-case (values (apply (if (member operator '(cl:find-symbol intern)) #'find-symbol operator)
                                 (reverse arguments))
                          t)
      (error () (values nil nil)))))

(defun function-symbol (object)
  "The symbol that names OBJECT, a symbol or a global function; NIL for anything else."
  (cond ((symbolp object) object)
        ((functionp object)
         (let ((name (ignore-errors (nth-value 2 (function-lambda-expression object)))))
           (and name (symbolp name) (fboundp name)
                (eq object (ignore-errors (fdefinition name)))
                name)))))

(defun mention-value (form operator scope)
  "Check FORM, an argument of OPERATOR, if its value is known to be a symbol or a function."
  (when (or (and form (symbolp form)) (consp form))
    (multiple-value-bind (value known) (known-value form scope)
      (let ((symbol (and known (function-symbol value))))
        (when (and symbol (consp form) (makes-symbols-p (first form)) operator
                   (or (member symbol +careful-functions+)
                       (nth-value 1 (danger symbol)))
                   (not (eq (symbol-package operator) (find-package "COMMON-LISP"))))
          ;; Code that looks up a name doesn't mean an everyday word.
          (hit :reaches "passes on a function that runs code or opens files" symbol))
        (when (and symbol (danger symbol) (not (only-looks-p operator)))
          ;; What a standard function does with it shows where it is called or stored.
          (if (and operator (eq (symbol-package operator) (find-package "COMMON-LISP"))
                   (not (assoc operator +function-callers+)))
              (push symbol (findings-soft *findings*))
              (mention symbol operator)))))))
