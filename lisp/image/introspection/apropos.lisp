;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Symbols by parts of their names. Operation: apropos-search.

(cl:in-package "AGENT-Q-IMAGE")

(defun words (text)
  (loop with start = 0
        for end = (position-if (lambda (it) (member it *blanks*)) text :start start)
        for word = (subseq text start end)
        when (string/= word "") collect word
        while end do (setf start (1+ end))))

(defun kinds (symbol)
  "The names of what SYMBOL is."
  (remove nil
          (list (or (function-kind symbol) (getf (setf-facet symbol) :kind))
                (cond ((keywordp symbol) nil)
                      ((not (boundp symbol)) nil)
                      ((constantp symbol) "constant")
                      (t "variable"))
                (let ((class (find-class symbol nil)))
                  (and class (class-kind class))))))

(defun kind-p (symbol kind)
  "Whether SYMBOL is what the caller calls a KIND."
  (let ((kinds (kinds symbol)))
    (flet ((any (&rest names) (intersection names kinds :test #'string=)))
      (cond ((string-equal kind "function") (any "function" "generic function"))
            ((string-equal kind "generic-function") (any "generic function"))
            ((string-equal kind "macro") (any "macro"))
            ((string-equal kind "special-operator") (any "special operator"))
            ((string-equal kind "variable") (any "variable" "constant"))
            ((string-equal kind "constant") (any "constant"))
            ((string-equal kind "class") (any "class" "structure" "condition" "built-in class"))
            ((string-equal kind "type")
             (or (find-class symbol nil) (getf (known-facets symbol) :type)))
            (t (missed "~A is not a kind of symbol." kind))))))

(defun matching-symbols (words packages external-only)
  (let ((found (make-hash-table :test 'eq)))
    (flet ((consider (symbol)
             (when (every (lambda (word) (search word (symbol-name symbol) :test #'char-equal))
                          words)
               (setf (gethash symbol found) t))))
      (dolist (package packages)
        (if external-only
            (do-external-symbols (symbol package) (consider symbol))
            (do-symbols (symbol package)
              ;; What a package only inherits is found where it is at home.
              (when (or (eq (symbol-package symbol) package)
                        (not (eq :inherited
                                 (nth-value 1 (find-symbol (symbol-name symbol) package)))))
                (consider symbol))))))
    (loop for symbol being the hash-keys of found collect symbol)))

(defun external-p (symbol)
  (let ((home (symbol-package symbol)))
    (and home (eq :external (nth-value 1 (find-symbol (symbol-name symbol) home))))))

(defun symbol-tier (symbol words)
  "How likely SYMBOL is what somebody looks for who knows WORDS of its name; 0 is the likeliest."
  (let* ((home (symbol-package symbol))
         (standard (eq home (find-package "COMMON-LISP")))
         (program (not (implementation-package-p home)))
         (whole (member (symbol-name symbol) words :test #'string-equal)))
    (cond ((not (facet-p symbol)) 7)
          ((and whole (or standard program)) 0)
          (standard 1)
          ((and program (or (external-p symbol) (eq home (find-package "COMMON-LISP-USER")))) 2)
          (program 3)
          ((external-p symbol) 4)
          (whole 5)
          (t 6))))

(defun symbol-rank (symbol words)
  "The tier of SYMBOL first, and in a tier the shorter name."
  (+ (* 1000 (symbol-tier symbol words))
     (min 999 (length (symbol-name symbol)))))

(defun ranked (symbols words)
  (mapcar #'cdr
          (sort (loop for symbol in symbols collect (cons (symbol-rank symbol words) symbol))
                (lambda (one other)
                  (if (= (car one) (car other))
                      (string< (symbol-name (cdr one)) (symbol-name (cdr other)))
                      (< (car one) (car other)))))))

(defun symbol-entry (symbol)
  (list :name (symbol-text symbol)
        :kinds (kinds symbol)
        ;; A model knows the standard.
        :documentation (unless (eq (symbol-package symbol) (find-package "COMMON-LISP"))
                         (first-line (or (and (fboundp symbol) (doc symbol 'function))
                                         (and (boundp symbol) (doc symbol 'variable))
                                         (and (find-class symbol nil) (doc symbol 'type)))
                                     80))))

(defun searched-packages ()
  "The packages to search when none is named: keywords are names of nothing, and what only serves
the connection is nobody's program."
  (remove-if (lambda (package)
               (or (eq package (find-package "KEYWORD"))
                   (loop for prefix in '("AGENT-Q-IMAGE" "SLYNK" "SWANK")
                         thereis (prefixed-p prefix (package-name package)))))
             (list-all-packages)))

(defun own-symbol-p (symbol)
  (eq (symbol-package symbol) (find-package "AGENT-Q-IMAGE")))

(define-operation "apropos-search" (pattern package external-only kind limit)
  ;; The symbols whose names have all words of a pattern, the likeliest first.
  (compile-now 'matching-symbols 'external-p 'facet-p 'implementation-package-p 'symbol-tier
               'symbol-rank 'ranked)
  (let* ((package (and package (package-of-text package)))
         (words (words pattern))
         (matches (remove-if #'own-symbol-p
                             (matching-symbols words
                                               (if package (list package) (searched-packages))
                                               external-only)))
         (wanted (if kind
                     (remove-if-not (lambda (symbol) (kind-p symbol kind)) matches)
                     matches))
         (ranked (ranked wanted words))
         (limit (page-size limit 50 200)))
    (list :pattern pattern
          :package (and package (package-name package))
          :total (length ranked)
          :symbols (loop for symbol in ranked repeat limit collect (symbol-entry symbol)))))
