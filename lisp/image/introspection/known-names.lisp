;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Names that stand in prose, and what the image knows by them. Operation: known-names.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *most-names* 200
  "How many names are looked up in one call.")

(defun prose-symbol (text package)
  "The symbol that TEXT, a token, is in PACKAGE, or NIL."
  (let ((characters (scan-token text)))
    (when characters
      (multiple-value-bind (prefix rest) (split-token characters)
        (let ((home (cond ((eq prefix :keyword) nil)
                          ((null prefix) package)
                          (t (let ((*package* package))
                               (find-package-named (map 'string #'car prefix)))))))
          (and home rest (not (member :colon rest))
               (values (find-symbol (token-name rest) home))))))))

(defun programs-symbol (text packages)
  "The symbol that the token TEXT is in one of PACKAGES or, if only one program has it, there."
  (flet ((meaning (symbol) (and symbol (symbol-package symbol) (facet-p symbol) symbol)))
    (or (some (lambda (package) (meaning (prose-symbol text package))) packages)
        (let ((others (and (not (find #\: text))
                           (remove-if (lambda (symbol)
                                        (or (not (facet-p symbol)) (implementation-package-p (symbol-package symbol))))
                                      (elsewhere text nil)))))
          (and others (null (rest others)) (first others))))))

(defun prose-kind (symbol)
  (cond ((special-operator-p symbol) :macro)
        ((macro-function symbol) :macro)
        ((fboundp symbol) :function)
        ((find-class symbol nil) :class)
        ((boundp symbol) :variable)
        (t :function)))

(define-operation "known-names" (names package also)
  ;; Which of NAMES, tokens of a text, mean something in PACKAGE, in the packages ALSO, or in the one
  ;; program that has them: for each NIL, or a list of its kind and of the name as CL-USER reads it.
  (let ((packages (remove nil (cons (package-of-text package)
                                    (mapcar #'find-package-named also)))))
    (list :known (loop for text in names
                       repeat *most-names*
                       collect (let ((symbol (guarded (lambda () (programs-symbol text packages))
                                                      (constantly nil))))
                                 (and symbol (list (prose-kind symbol) (symbol-text symbol))))))))
