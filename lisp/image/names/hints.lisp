;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What an error about a name can add: where such a name means something. Code is read in
;;; COMMON-LISP-USER, but programs define their names elsewhere.

(cl:in-package "AGENT-Q-IMAGE")

(defun wanted-name (condition)
  "Three values about the name that CONDITION misses, or NIL: its text, its package, and a predicate
that tells whether a symbol would do."
  (typecase condition
    (undefined-function
     (let ((name (cell-error-name condition)))
       (cond ((symbolp name) (values (symbol-name name) (symbol-package name) #'fboundp))
             ((and (consp name) (consp (rest name)) (symbolp (second name)))
              (values (symbol-name (second name)) (symbol-package (second name))
                      (lambda (symbol) (fboundp (list (first name) symbol))))))))
    (unbound-variable
     (let ((name (cell-error-name condition)))
       (values (symbol-name name) (symbol-package name) #'boundp)))
    ;; From the reader: no such symbol, or not an external one.
    (package-error
     (let ((name (and (typep condition 'simple-condition)
                      (first (simple-condition-format-arguments condition)))))
       (when (and (stringp name) (packagep (package-error-package condition)))
         (values name (package-error-package condition) #'facet-p))))))

(defun worth-suggesting-p (symbol)
  "Whether SYMBOL is worth suggesting for another of the same name."
  (let ((package (symbol-package symbol))
        (inner (optional-function "AGENT-Q-IMAGE" "IMPLEMENTATION-PACKAGE-P")))
    (not (or (eq package (find-package "AGENT-Q-IMAGE"))
             (and inner (funcall inner package)
                  (not (eq :external (nth-value 1 (find-symbol (symbol-name symbol) package)))))))))

(defun conflict-hint (condition)
  "What to do about CONDITION, a name conflict."
  (let* ((own (find (package-error-package condition)
                    (internal "SB-EXT" "NAME-CONFLICT-SYMBOLS" condition)
                    :key #'symbol-package))
         (restart (find-if (lambda (name) (find name (restart-list condition) :key #'first :test #'string=))
                           '("SHADOWING-IMPORT-IT" "TAKE-NEW"))))
    (if (and own restart (not (facet-p own)))
        (format nil "~A has no meaning; it exists only because it was read before. Call again with restart ~A, ~
                     or unintern it."
                (symbol-text own) (string-downcase restart))
        "Resolve it with :shadowing-import-from in the package's definition, or with a restart.")))

(defun elsewhere-hint (condition)
  "A sentence on where the name that CONDITION misses is defined, or on what to do; or NIL."
  (if (name-conflict-p condition)
      (conflict-hint condition)
      (missing-name-hint condition)))

(defun missing-name-hint (condition)
  (multiple-value-bind (name package suitable) (wanted-name condition)
    (when name
      (let ((found (remove-if-not (lambda (symbol)
                                    (and (funcall suitable symbol) (worth-suggesting-p symbol)))
                                  (elsewhere name package))))
        (when found
          (format nil "It exists elsewhere: ~{~A~^, ~}."
                  (mapcar #'symbol-text (subseq found 0 (min 5 (length found))))))))))
