;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Classes and methods by name: what kind of class one is, and a single method of a generic
;;; function as a Lisp programmer writes it: total (item), area :around (square), (setf area) (t
;;; square).

(cl:in-package "AGENT-Q-IMAGE")

;;; The metaobject protocol

(defun mop (name argument)
  "Call the metaobject protocol's function NAME; NIL if that fails."
  (let ((function (if (simple-vector-p argument)
                      (lambda (slot) (structure-slot name slot))
                      (optional-function (if (eq *client* :slynk) "SLYNK-MOP" "SWANK-MOP") name))))
    (and function
         (guarded (lambda () (funcall function argument)) (constantly nil)))))

(defun structure-slot (name slot)
  "What SLOT-DEFINITION-... would return for SLOT, which is a vector on ABCL."
  (let ((position (cdr (assoc name '(("SLOT-DEFINITION-NAME" . 1) ("SLOT-DEFINITION-INITFORM" . 4)
                                     ("SLOT-DEFINITION-TYPE" . 5))
                              :test #'string=))))
    (and position (svref slot position))))

;;; Classes

(defun class-text (class)
  (let ((name (guarded (lambda () (class-name class)) (constantly nil))))
    (if name (symbol-text name) (printed class :limit 80))))

(defun class-kind (class)
  "What kind of class CLASS is. Metaclasses can have any name, so ask what it is instead."
  (cond ((typep class 'built-in-class) "built-in class")
        ((typep class 'structure-class) "structure")
        ((ignore-errors (subtypep class 'condition)) "condition")
        (t "class")))

(defun forward-referenced-p (class)
  "Whether CLASS was only mentioned as a superclass, but never defined."
  (loop for package in '("SB-MOP" "CLOS" "MOP")
        for symbol = (and (find-package package)
                          (find-symbol "FORWARD-REFERENCED-CLASS" package))
        thereis (and symbol (find-class symbol nil) (typep class symbol))))

;;; Methods

(defun specializer-text (specializer)
  (if (typep specializer 'class)
      (class-text specializer)
      (format nil "(EQL ~A)"
              (printed (mop "EQL-SPECIALIZER-OBJECT" specializer) :limit 80 :length 5 :level 3))))

(defun qualifier-texts (method)
  (loop for qualifier in (guarded (lambda () (method-qualifiers method)) (constantly '()))
        collect (printed qualifier :limit 60)))

(defun ordered-methods (function)
  "The methods of the generic FUNCTION, primary ones first: they are what people ask for most."
  (stable-sort (copy-list (mop "GENERIC-FUNCTION-METHODS" function)) #'<
               :key (lambda (method) (length (qualifier-texts method)))))

(defun method-text (method)
  "What distinguishes METHOD from the others of its function, such as \":AROUND (SQUARE)\"."
  (format nil "~{~A ~}(~{~A~^ ~})" (qualifier-texts method)
          (mapcar #'specializer-text (mop "METHOD-SPECIALIZERS" method))))

;;; The text of a method's name

(defun list-end (text start)
  "The end of the list that opens at START in TEXT, or NIL."
  (loop with depth = 0
        for index from start below (length text)
        do (case (char text index)
             (#\( (incf depth))
             (#\) (decf depth)))
           (when (zerop depth) (return (1+ index)))))

(defun text-parts (text)
  "The tokens and lists in TEXT, each as text; NIL if a list isn't closed."
  (let ((parts '()) (start 0))
    (loop
      (setf start (position-if-not (lambda (it) (member it *blanks*)) text :start start))
      (when (null start) (return (nreverse parts)))
      (let* ((open (position-if-not (lambda (it) (find it "#'")) text :start start))
             (list-p (and open (char= (char text open) #\()))
             (end (if list-p
                      (list-end text open)
                      (position-if (lambda (it) (or (char= it #\() (member it *blanks*))) text
                                   :start start))))
        (when (and list-p (null end)) (return nil))
        (push (subseq text start end) parts)
        (setf start (or end (length text)))))))

(defun inner-parts (text)
  "The parts of the list TEXT; NIL if it isn't a list."
  (and (prefixed-p "(" text)
       (eql (list-end text 0) (length text))
       (text-parts (subseq text 1 (1- (length text))))))

(defun parameter-specializers (parameters)
  "The specializers in PARAMETERS, the parts of a method's lambda list."
  (loop for parameter in parameters
        until (prefixed-p "&" parameter)
        collect (or (second (inner-parts parameter)) "t")))

(defun method-parts (text)
  "Three values for TEXT, the name of a method: its function's name, the qualifiers and the
specializers, all as text. NIL if TEXT doesn't name a single method."
  (let* ((text (trimmed text))
         (inner (inner-parts text))
         (definition (equalp "defmethod" (first inner)))
         (parts (if (or definition
                        (member (first inner) '("method" ":method" "sb-pcl::fast-method")
                                :test #'equalp))
                    (rest inner)
                    (text-parts (if (prefixed-p "#'" text) (subseq text 2) text))))
         (end (position-if (lambda (part) (prefixed-p "(" part)) parts :start (min 1 (length parts))))
         (specializers (and end (nth end parts))))
    ;; In a definition, the body follows the lambda list.
    (when (and end (or definition (= end (1- (length parts)))))
      (values (first parts)
              (subseq parts 1 end)
              (if definition
                  (parameter-specializers (inner-parts specializers))
                  (inner-parts specializers))))))

(defun token-names-p (text symbol)
  "Whether the token TEXT names SYMBOL, by name alone if TEXT has no package."
  (multiple-value-bind (prefix rest) (split-token (scan-token text))
    (and (notany (lambda (it) (eq it :colon)) rest)
         (string= (token-name rest) (symbol-name symbol))
         (cond ((null prefix) t)
               ((eq prefix :keyword) (keywordp symbol))
               (t (let ((package (find-package-named (map 'string #'car prefix))))
                    (and package
                         (eq symbol (find-symbol (symbol-name symbol) package)))))))))

(defun specializer-named-p (specializer text)
  (if (typep specializer 'class)
      (let ((name (class-name specializer)))
        (and name (token-names-p text name)))
      (let ((object (mop "EQL-SPECIALIZER-OBJECT" specializer))
            (parts (inner-parts text)))
        (and (= (length parts) 2)
             (equalp (first parts) "eql")
             (if (symbolp object)
                 (token-names-p (string-left-trim "'" (second parts)) object)
                 (equalp (second parts) (printed object :limit 80 :length 5 :level 3)))))))

(defun method-named-p (method qualifiers specializers)
  (let ((given (mop "METHOD-SPECIALIZERS" method)) (own (qualifier-texts method)))
    (and (= (length own) (length qualifiers))
         (every #'string-equal own qualifiers)
         (= (length given) (length specializers))
         (every #'specializer-named-p given specializers))))

(defun method-of-text (text package)
  "The method that TEXT, read in PACKAGE, names, and the name of its function. NIL if TEXT has no
specializers, and so is another kind of name."
  (multiple-value-bind (function qualifiers specializers) (method-parts text)
    (when function
      (let* ((name (name-of-text function package))
             (spec (function-name-of name))
             (function (and (fboundp spec) (fdefinition spec))))
        (unless (typep function 'generic-function)
          (missed "~A is not a generic function, so it has no methods." (name-text name)))
        (let* ((methods (ordered-methods function))
               (found (remove-if-not (lambda (method)
                                       (method-named-p method qualifiers specializers))
                                     methods)))
          (unless (= (length found) 1)
            (missed "~A has ~:[more than one method ~;no method ~]~{~A ~}(~{~A~^ ~}). It has: ~{~A~^, ~}~@[ and ~D more~]."
                    (name-text name) (null found) qualifiers specializers
                    (mapcar #'method-text
                            (subseq (or found methods) 0 (min 20 (length (or found methods)))))
                    (and (> (length (or found methods)) 20) (- (length (or found methods)) 20))))
          (values (first found) name))))))
