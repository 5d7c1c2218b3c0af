;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Relations of classes and methods. Operations: class-hierarchy, method-specializers.

(cl:in-package "AGENT-Q-IMAGE")

;;; Classes

(defun subclass-lines (class limit)
  "At most LIMIT subclasses of CLASS, each with its depth; and how many there are in all."
  (let ((seen '()) (lines '()) (count 0))
    (labels ((walk (class depth)
               (dolist (sub (sort (copy-list (mop "CLASS-DIRECT-SUBCLASSES" class))
                                  #'string< :key #'class-text))
                 (unless (or (member sub seen) (> count 3000))
                   (push sub seen)
                   (incf count)
                   (when (<= count limit)
                     (push (list depth (class-text sub)) lines))
                   (walk sub (1+ depth))))))
      (walk class 1))
    (values (nreverse lines) count)))

(define-operation "class-hierarchy" (class package limit)
  ;; A class with its superclasses and subclasses.
  (let ((class (class-of-text class package)))
    (multiple-value-bind (lines count) (subclass-lines class (page-size limit 50 500))
      (list :class (class-text class)
            :kind (class-kind class)
            :superclasses (mapcar #'class-text (mop "CLASS-DIRECT-SUPERCLASSES" class))
            :precedence (mapcar #'class-text (precedence class))
            :undefined (unless (finished-p class) (undefined-superclasses class))
            :direct-subclasses (length (mop "CLASS-DIRECT-SUBCLASSES" class))
            :subclasses lines
            :subclass-count count
            :methods (length (mop "SPECIALIZER-DIRECT-METHODS" class))))))

;;; Methods

(defun method-entry (method)
  (list :qualifiers (qualifier-texts method)
        :specializers (mapcar #'specializer-text (mop "METHOD-SPECIALIZERS" method))))

(defun method-rank (method home)
  "A number that sorts METHOD: those on classes of HOME, then of other programs, then of the
implementation."
  (loop for specializer in (mop "METHOD-SPECIALIZERS" method)
        for name = (and (typep specializer 'class) (class-name specializer))
        minimize (cond ((null name) 1)
                       ((eq (symbol-package name) home) 0)
                       ((implementation-package-p (symbol-package name)) 2)
                       (t 1))))

(defun combination-text (function)
  "The method combination of FUNCTION, unless it is the standard one."
  (let ((combination (mop "GENERIC-FUNCTION-METHOD-COMBINATION" function)))
    (when combination
      (let ((text (printed combination :limit 120)))
        (unless (search "STANDARD" text) text)))))

(define-operation "method-specializers" (generic-function package limit offset)
  ;; The methods of a generic function and their specializers.
  (let* ((name (name-of-text generic-function package))
         (symbol (name-symbol name))
         (spec (cond ((eq (name-kind name) :setf) (list 'setf symbol))
                     ((and (fboundp symbol) (typep (symbol-function symbol) 'generic-function))
                      symbol)
                     ((and (eq (name-kind name) :any) (fboundp (list 'setf symbol)))
                      (list 'setf symbol))
                     (t symbol))))
    (unless (and (fboundp spec) (typep (fdefinition spec) 'generic-function))
      (missed "~A is not a generic function~@[; it is a ~{~A~^ and a ~}~].~@[ The methods on a class: xref with kind methods.~]"
              (name-text name) (kinds symbol) (find-class symbol nil)))
    (let* ((function (fdefinition spec))
           (methods (mop "GENERIC-FUNCTION-METHODS" function))
           (home (symbol-package symbol))
           (ranked (mapcar #'cdr
                           (stable-sort (loop for method in methods
                                              collect (cons (method-rank method home) method))
                                        #'< :key #'car)))
           (offset (max 0 (or offset 0))))
      (list :name (if (symbolp spec) (symbol-text spec) (name-text (make-name symbol :setf)))
            :arglist (arglist-text function)
            :combination (combination-text function)
            :total (length methods)
            :offset offset
            :methods (mapcar #'method-entry (page ranked offset (page-size limit 40 200)))))))
