;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Symbols as a Lisp programmer writes them: foo, pkg::foo, |Foo|, #'foo, (setf foo). Looking one
;;; up never interns it; when it isn't found, the error says what there is instead.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (name (:constructor make-name (symbol kind)))
  symbol
  ;; :ANY, or :FUNCTION for #'foo, or :SETF for (setf foo).
  kind)

;;; Tokens

(defun scan-token (text)
  "The characters of the token TEXT, each paired with whether it was escaped, and :COLON for each
package marker. NIL if TEXT isn't a single token."
  (let ((result '()) (bars nil) (index 0))
    (loop while (< index (length text))
          do (let ((character (char text index)))
               (cond ((char= character #\\)
                      (incf index)
                      (when (= index (length text)) (return-from scan-token nil))
                      (push (cons (char text index) t) result))
                     ((char= character #\|) (setf bars (not bars)))
                     (bars (push (cons character t) result))
                     ((char= character #\:) (push :colon result))
                     ((or (find character "()\"';`,") (member character *blanks*))
                      (return-from scan-token nil))
                     (t (push (cons character nil) result))))
             (incf index))
    (and (not bars) (nreverse result))))

(defun token-name (characters)
  "The name that the reader would make of CHARACTERS, by the case of the current readtable."
  (let* ((plain (loop for (character . escaped) in characters
                      when (and (not escaped) (both-case-p character)) collect character))
         (mode (readtable-case *readtable*))
         (convert (cond ((eq mode :upcase) #'char-upcase)
                        ((eq mode :downcase) #'char-downcase)
                        ((and (eq mode :invert) (every #'upper-case-p plain)) #'char-downcase)
                        ((and (eq mode :invert) (every #'lower-case-p plain)) #'char-upcase)
                        (t #'identity))))
    (map 'string (lambda (pair) (if (cdr pair) (car pair) (funcall convert (car pair))))
         characters)))

(defun split-token (characters)
  "Two values: the characters before the package marker (:KEYWORD if it comes first, NIL without a
marker) and those after it."
  (let ((colon (position :colon characters)))
    (if (null colon)
        (values nil characters)
        (values (if (zerop colon) :keyword (subseq characters 0 colon))
                (remove :colon (nthcdr colon characters) :count 2)))))

;;; Symbols

(defun elsewhere (name package)
  "Symbols called NAME, in any case, in other packages; those that mean something come first."
  (let ((found '()))
    (dolist (other (list-all-packages))
      (unless (or (eq other package) (eq other (find-package "KEYWORD")))
        (dolist (spelling (remove-duplicates (list name (string-upcase name)) :test #'string=))
          (multiple-value-bind (symbol status) (find-symbol spelling other)
            (when (and (member status '(:internal :external)) (symbol-text-p symbol))
              (pushnew symbol found))))))
    (stable-sort (nreverse found)
                 (lambda (one other) (and (facet-p one) (not (facet-p other)))))))

(defun symbol-text-p (symbol)
  (symbol-package symbol))

(defun facet-p (symbol)
  "Whether SYMBOL means anything: a function, a variable or a class."
  (or (fboundp symbol) (boundp symbol) (find-class symbol nil) (fboundp (list 'setf symbol))))

(defun near-symbols (name package)
  (let ((candidates '()))
    (do-symbols (symbol package)
      (when (<= (abs (- (length (symbol-name symbol)) (length name))) 12)
        (push (cons (symbol-name symbol) symbol) candidates)))
    (nearest name (remove-duplicates
                   (sort candidates #'string< :key #'car)
                   :test #'eq :key #'cdr))))

(defun miss-symbol (name package)
  (let ((others (mapcar #'symbol-text (elsewhere name package)))
        (near (mapcar #'symbol-text (near-symbols name package))))
    (missed "Symbol ~A not found in package ~A.~:[~; There is a package of that name: call_tool package_info.~]~
             ~:[~; It exists elsewhere: ~:*~{~A~^, ~}.~]~
             ~:[~; Near names: ~:*~{~A~^, ~}.~]~:[~; apropos_search finds parts of names.~]"
            name (package-name package)
            (find-package-named name)
            (subseq others 0 (min 5 (length others)))
            near
            (not (or others near)))))

(defun symbol-of-token (text package)
  (let ((characters (scan-token text)))
    (when (null characters)
      (missed "~S is not a symbol's name. Write foo, package:foo, |Foo|, #'foo or (setf foo)." text))
    (multiple-value-bind (prefix rest) (split-token characters)
      (let* ((package (cond ((null prefix) package)
                            ((eq prefix :keyword) (find-package "KEYWORD"))
                            (t (let ((*package* package))
                                 (package-of-text (map 'string #'car prefix))))))
             (name (if (member :colon rest)
                       (missed "~S has more than one package marker." text)
                       (token-name rest))))
        (multiple-value-bind (symbol status) (find-symbol name package)
          (if status
              symbol
              (miss-symbol name package)))))))

(defun name-of-text (text package-text)
  "The NAME that TEXT stands for, read in the package called PACKAGE-TEXT."
  (let* ((package (package-of-text package-text))
         (*package* package)
         (text (string-left-trim "'`" (trimmed text)))
         (function (prefixed-p "#'" text))
         (text (if function (trimmed (subseq text 2)) text))
         (text (if (prefixed-p "#:" text) (subseq text 2) text)))
    (if (and (prefixed-p "(" text) (prefixed-p "setf" (trimmed (subseq text 1))))
        (make-name (symbol-of-token
                    (trimmed (string-right-trim ")" (subseq (trimmed (subseq text 1)) 4)))
                    package)
                   :setf)
        (make-name (symbol-of-token text package) (if function :function :any)))))

(defun name-text (name)
  (if (eq (name-kind name) :setf)
      (format nil "(SETF ~A)" (symbol-text (name-symbol name)))
      (symbol-text (name-symbol name))))

(defun meant-function (name)
  "NAME, or its setf function if that is the only function by that name."
  (let ((symbol (name-symbol name)))
    (if (and (eq (name-kind name) :any)
             (not (fboundp symbol))
             (fboundp (list 'setf symbol)))
        (make-name symbol :setf)
        name)))

(defun function-name-of (name)
  "NAME as the name of a function, for FBOUNDP and FDEFINITION."
  (if (eq (name-kind name) :setf)
      (list 'setf (name-symbol name))
      (name-symbol name)))
