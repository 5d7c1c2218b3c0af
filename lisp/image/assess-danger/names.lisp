;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Symbols made from text or found in packages, and what is read or changed through them. Together,
;;; these reach data of ours, of the client or of the implementation without writing its name.

(cl:in-package "AGENT-Q-IMAGE")

;;; Making symbols

(defun makes-symbols-p (operator)
  (and (symbol-package operator)
       (or (member operator '(cl:find-symbol intern read read-preserving-whitespace read-from-string
                              read-delimited-list
                              find-all-symbols apropos-list do-symbols do-external-symbols
                              do-all-symbols with-package-iterator))
           (member (symbol-name operator)
                   '("FIND-SYMBOL*" "INTERN*" "SYMBOLICATE" "FORMAT-SYMBOL" "ENSURE-SYMBOL"
                     "SAFE-READ-FROM-STRING" "MAP-SYMBOLS")
                   :test #'string=))))

(defun gives-name-p (operator)
  "Whether OPERATOR returns the name of something in the image, as a symbol."
  (member (symbol-name operator)
          '("SLOT-DEFINITION-NAME" "GENERIC-FUNCTION-NAME" "CLASS-NAME" "%FUN-NAME"
            "%SIMPLE-FUN-NAME" "FUNCTION-NAME" "COMPILED-FUNCTION-NAME" "METHOD-COMBINATION-NAME"
            "RESTART-NAME")
          :test #'string=))

(define-table +makers-packages+
  '(("FIND-SYMBOL" . 1) ("INTERN" . 1) ("FIND-SYMBOL*" . 1) ("INTERN*" . 1) ("ENSURE-SYMBOL" . 1)
    ("APROPOS-LIST" . 1) ("FORMAT-SYMBOL" . 0) ("DO-SYMBOLS" 1) ("DO-EXTERNAL-SYMBOLS" 1)
    ("WITH-PACKAGE-ITERATOR" 1) ("MAP-SYMBOLS" . 1))
  "Operators that make symbols, each with the position of its package argument; or in a list, the
position in its first argument.")

(defun package-argument (form)
  "The form of the package in which FORM, which makes symbols, finds them; NIL for the current
package, and :ANY if that can't be told."
  (let ((place (cdr (assoc (symbol-name (first form)) +makers-packages+ :test #'string=))))
    (cond ((eq (first form) 'apropos-list) (or (third form) :any))
          ((integerp place) (nth place (rest form)))
          ((and place (consp (second form))) (nth (first place) (second form)))
          ((string= (symbol-name (first form)) "SYMBOLICATE") nil)
          ((and (eq (first form) 'read-from-string) (stringp (second form))
                (not (find #\: (second form))))
           nil)
          (t :any))))

(defun finds-package-p (operator)
  "Whether OPERATOR is FIND-PACKAGE, or what the implementation's expansions have instead."
  (and (symbolp operator)
       (search "FIND-" (symbol-name operator))
       (search "PACKAGE" (symbol-name operator))
       (protected-p operator)))

(defun named-package (form aliases)
  "The package that FORM literally names, or NIL. ALIASES are variables with their values."
  (let ((form (or (and (symbolp form) (cdr (assoc form aliases))) form)))
    (cond ((or (stringp form) (keywordp form)) (find-package form))
          ((quoted-p form) (named-package-of-datum (second form)))
          ((packagep form) form)
          ((and (consp form) (consp (rest form)) (finds-package-p (first form)))
           (named-package (second form) aliases))
          ((symbolp form) nil))))

(defun named-package-of-datum (datum)
  (cond ((and (consp datum) (null (rest datum))) (named-package-of-datum (first datum)))
        ((and (typep datum '(or string symbol)) datum) (find-package datum))))

(defun open-package-p (package)
  "Whether PACKAGE is known, and every symbol found in it is the program's or harmless to look into."
  (flet ((closed-p (package)
           (or (package-danger package)
               (member (package-name package) +internal-packages+ :test #'string=))))
    (or (eq package (find-package "COMMON-LISP"))
        (and package
             (not (closed-p package))
             (notany #'closed-p (package-use-list package))
             (loop for symbol being the present-symbols of package
                   for home = (symbol-package symbol)
                   never (and home (not (eq home package)) (package-danger home)))
             (loop for symbol being the hash-keys of (danger-symbols)
                   never (and (boundp symbol)
                              (not (eq (symbol-package symbol) (find-package "COMMON-LISP")))
                              (eq symbol (find-symbol (symbol-name symbol) package))))))))

(defun made-name (form)
  "The symbol that FORM, which makes symbols, certainly finds; NIL if that can't be told."
  (and (member (symbol-name (first form)) '("FIND-SYMBOL" "INTERN" "FIND-SYMBOL*" "INTERN*")
               :test #'string=)
       (stringp (second form))
       (let ((package (if (cddr form) (named-package (third form) '()) *package*)))
         (and package (values (find-symbol (second form) package))))))

(defun note-foreign-names (form aliases)
  "Note if FORM, which makes symbols, may find any that aren't the program's."
  (let* ((argument (package-argument form))
         (current (or (null argument) (eq argument '*package*)))
         (symbol (made-name form)))
    (cond ((if symbol
               (danger symbol)
               (not (open-package-p (cond (current *package*)
                                          ((not (eq argument :any))
                                           (named-package argument aliases))))))
           (push form (findings-foreign *findings*)))
          (current (push form (findings-local *findings*))))))

;;; Reading and changing through symbols

(define-table +value-places+
  '("SYMBOL-VALUE" "SYMBOL-PLIST" "SYMBOL-GLOBAL-VALUE" "SYMBOL-VALUE-IN-THREAD"
    "SYMBOL-VALUE-IN-PROCESS" "DEFAULT-VALUE" "DEFAULT-TOPLEVEL-VALUE")
  "Names of the places, standard or not, that set a symbol's value.")

(defun value-place-p (operator)
  (and (member (symbol-name operator) +value-places+ :test #'string=)
       (protected-p operator)))

(define-table +lookups+
  '((get . 0) (remprop . 0) (slot-value . 1) (slot-makunbound . 1) (find-class . 0)
    (make-instance . 0))
  "Functions that return what belongs to a symbol, and the position of that argument. Value places
do so, too.")

(defun lookup-position (operator)
  (or (cdr (assoc operator +lookups+))
      (and (symbol-package operator) (value-place-p operator) 0)))

(defun check-lookup (form scope)
  "Check FORM, a call or a place, if it returns what belongs to a symbol that it doesn't write."
  (let* ((position (lookup-position (first form)))
         (argument (and position (nth position (rest form)))))
    (when (and argument (not (quoted-p argument)))
      (push form (findings-lookups *findings*))
      (when (and (consp argument) (symbolp (first argument)) (gives-name-p (first argument))
                 (value-place-p (first form)))
        (hit :reaches "looks up what belongs to a name found in the image" (first argument) form))
      (multiple-value-bind (value known) (known-value argument scope)
        (multiple-value-bind (reason soft) (if (and known (symbolp value)) (danger value) nil)
          (when (and reason (not soft))
            (hit :reaches reason value form)))))))

(defun judge-lookups ()
  "Hits for looking up symbols that aren't written in the text and may not be the program's."
  (let ((lookups (findings-lookups *findings*))
        (names (append (findings-foreign *findings*)
                       (and (findings-leaves *findings*) (findings-local *findings*)))))
    (when (and lookups names)
      (hit :reaches "makes names out of text and looks up what belongs to them" (first names)
           (first lookups)))))
