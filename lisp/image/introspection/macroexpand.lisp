;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Expanding a form, by one step or completely. Operation: macroexpand-form.

(cl:in-package "AGENT-Q-IMAGE")

(defun expander (mode)
  "The function that expands a form in MODE: two values, the expansion and whether it differs."
  (flet ((by-backend (name)
           (lambda (form)
             (let ((expansion (backend name form)))
               (values expansion (not (equal form expansion)))))))
    (cond ((string-equal mode "once") #'macroexpand-1)
          ((string-equal mode "full") #'macroexpand)
          ((string-equal mode "all") (by-backend "MACROEXPAND-ALL"))
          ((string-equal mode "compiler") (by-backend "COMPILER-MACROEXPAND-1"))
          (t (missed "Unknown mode ~A: expected once, full, all or compiler." mode)))))

(defun call-expanding-as-assessed (text package function)
  "Call FUNCTION, which expands the form in TEXT. If it was assessed, its macros have already run
there."
  (let ((call (optional-function "AGENT-Q-IMAGE" "CALL-AS-ASSESSED"))
        (hook (find-symbol "EXPAND-AS-ASSESSED" "AGENT-Q-IMAGE")))
    (cond ((null call) (funcall function))
          (t (compile-now hook 'check-operator)
             (if (interpreted-p (symbol-function hook))
                 (funcall function)
                 (funcall call text package
                          (lambda ()
                            (let ((*macroexpand-hook* (symbol-function hook)))
                              (funcall function)))))))))

(defun code-text (form)
  (printed form :limit 8000 :length 500 :level 40 :circle nil :pretty t))

(define-operation "macroexpand-form" (form package mode full)
  ;; The expansion of a form. It is read without #. but its macros do run.
  (let* ((*package* (package-of-text package))
         (start (or (skip-to-form form 0) (missed "The text contains no form.")))
         (mode (or mode (if full "full" "once"))))
    (multiple-value-bind (end expansion expanded)
        (call-expanding-as-assessed
         form package
         (lambda ()
           (multiple-value-bind (datum end)
               (let ((*read-eval* nil)) (read-form form start 1))
             (multiple-value-bind (expansion expanded) (funcall (expander mode) datum)
               (values end expansion expanded)))))
      (list :mode mode
            :expansion (code-text expansion)
            :expanded (and expanded t)
            :rest (and (skip-to-form form end) t)
            :output (captured-text)))))
