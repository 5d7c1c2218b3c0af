;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Finding symbols by parts of their names. Operations: apropos-search, complete-symbol.

(cl:in-package "AGENT-Q-IMAGE")

(defun words (text)
  (loop with start = 0
        for end = (position-if (lambda (it) (member it *blanks*)) text :start start)
        for word = (subseq text start end)
        when (string/= word "") collect word
        while end do (setf start (1+ end))))

(defun kinds (symbol)
  "What SYMBOL is, in words, one for each kind."
  (remove nil
          (list (or (function-kind symbol) (getf (setf-facet symbol) :kind))
                (cond ((keywordp symbol) nil)
                      ((not (boundp symbol)) nil)
                      ((constantp symbol) "constant")
                      (t "variable"))
                (let ((class (find-class symbol nil)))
                  (and class (class-kind class))))))

(defun kind-p (symbol kind)
  "Whether SYMBOL is of the KIND that the caller named."
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

(defun word-forms (word)
  "WORD in upper and in lower case, as NAME-HAS-P wants it."
  (flet ((form (text) (coerce text '(simple-array character (*)))))
    (cons (form (string-upcase word)) (form (string-downcase word)))))

(defun name-has-p (name forms)
  "The position in NAME, a symbol's name, where the word of FORMS begins, ignoring case; NIL if it
isn't there."
  ;; SEARCH would ask for each character what kind of string it is in.
  (let* ((upper (car forms)) (lower (cdr forms)) (length (length upper)))
    (declare (type (simple-array character (*)) upper lower))
    (macrolet ((look (type)
                 `(let ((name name))
                    (declare (type ,type name) (optimize (speed 2) (debug 0)))
                    (loop for start fixnum from 0 to (- (length name) length)
                          when (loop for index fixnum from 0 below length
                                     for character = (char name (+ start index))
                                     always (or (char= character (char upper index))
                                                (char= character (char lower index))))
                            return start))))
      (typecase name
        ((simple-array character (*)) (look (simple-array character (*))))
        (simple-base-string (look simple-base-string))
        (t (look string))))))

(defun matching-symbols (words packages external-only)
  "The symbols present in PACKAGES whose names have all WORDS, each once."
  (let ((forms (mapcar #'word-forms words))
        (found '())
        ;; Imported symbols. There are few, and most are found in their home packages, too.
        (imported (make-hash-table :test 'eq)))
    (labels ((consider (symbol package)
               (when (loop with name = (symbol-name symbol)
                           for form in forms always (name-has-p name form))
                 (if (eq (symbol-package symbol) package)
                     (push symbol found)
                     (setf (gethash symbol imported) t))))
             (found-at-home-p (symbol home)
               (and (member home packages)
                    (member (nth-value 1 (find-symbol (symbol-name symbol) home))
                            (if external-only '(:external) '(:external :internal))))))
      (dolist (package packages)
        (if external-only
            (do-external-symbols (symbol package) (consider symbol package))
            ;; Inherited symbols are found in their home packages.
            (with-package-iterator (next package :internal :external)
              (loop (multiple-value-bind (more symbol) (next)
                      (unless more (return))
                      (consider symbol package))))))
      (loop for symbol being the hash-keys of imported
            unless (found-at-home-p symbol (symbol-package symbol)) do (push symbol found)))
    found))

(defun external-p (symbol)
  (let ((home (symbol-package symbol)))
    (and home (eq :external (nth-value 1 (find-symbol (symbol-name symbol) home))))))

(defun symbol-tier (symbol words implementation-p)
  "How likely SYMBOL is meant by somebody who knows WORDS of its name; 0 is most likely.
IMPLEMENTATION-P tells whether a package is the implementation's."
  (let* ((home (symbol-package symbol))
         (standard (eq home (find-package "COMMON-LISP")))
         (program (not (funcall implementation-p home)))
         (whole (member (symbol-name symbol) words :test #'string-equal)))
    (cond ((not (facet-p symbol)) 7)
          ((and whole (or standard program)) 0)
          (standard 1)
          ((and program (or (eq home (find-package "COMMON-LISP-USER")) (external-p symbol))) 2)
          (program 3)
          ((external-p symbol) 4)
          (whole 5)
          (t 6))))

(defun implementation-test ()
  "A version of IMPLEMENTATION-PACKAGE-P that checks each package only once."
  (let ((known (make-hash-table :test 'eq)))
    (lambda (package)
      (multiple-value-bind (value there) (gethash package known)
        (if there value
            (setf (gethash package known) (implementation-package-p package)))))))

(defun ranked (symbols words limit beginnings-first)
  "The first LIMIT of SYMBOLS, by tier, and within a tier shorter names first. With
BEGINNINGS-FIRST, symbols of a tier that begin with one of WORDS come before the others."
  ;; Most of a hundred thousand are never looked at, so sort them into boxes, not completely.
  (let ((buckets (make-array '(8 2 1000) :initial-element '()))
        (implementation-p (implementation-test))
        (forms (and beginnings-first (mapcar #'word-forms words)))
        (ranked '()))
    (dolist (symbol symbols)
      (let ((name (symbol-name symbol)))
        (push symbol (aref buckets (symbol-tier symbol words implementation-p)
                           (if (loop for form in forms thereis (eql 0 (name-has-p name form))) 0 1)
                           (min 999 (length name))))))
    (dotimes (index (array-total-size buckets) (nreverse ranked))
      (dolist (symbol (sort (row-major-aref buckets index) #'string< :key #'symbol-name))
        (when (minusp (decf limit))
          (return-from ranked (nreverse ranked)))
        (push symbol ranked)))))

(defun symbol-entry (symbol)
  (list :name (symbol-text symbol)
        :kinds (kinds symbol)
        ;; Models know the standard.
        :documentation (unless (eq (symbol-package symbol) (find-package "COMMON-LISP"))
                         (first-line (or (and (fboundp symbol) (doc symbol 'function))
                                         (and (boundp symbol) (doc symbol 'variable))
                                         (and (find-class symbol nil) (doc symbol 'type)))
                                     80))))

(defun searched-packages ()
  "The packages to search if none is given. Keywords name nothing, and no program is in the packages
that only serve the connection."
  (remove-if (lambda (package)
               (or (eq package (find-package "KEYWORD"))
                   (loop for prefix in '("AGENT-Q-IMAGE" "SLYNK" "SWANK")
                         thereis (prefixed-p prefix (package-name package)))))
             (list-all-packages)))

(defun our-symbol-p (symbol)
  (eq (symbol-package symbol) (find-package "AGENT-Q-IMAGE")))

(defun compile-search ()
  (compile-now 'name-has-p 'matching-symbols 'external-p 'facet-p 'implementation-package-p
               'implementation-test 'symbol-tier 'ranked))

(define-operation "apropos-search" (pattern package external-only kind limit)
  ;; The symbols whose names have all words of a pattern, the likeliest first.
  (compile-search)
  (let* ((package (and package (package-of-text package)))
         (words (words pattern))
         (matches (remove-if #'our-symbol-p
                             (matching-symbols words
                                               (if package (list package) (searched-packages))
                                               external-only)))
         (wanted (if kind
                     (remove-if-not (lambda (symbol) (kind-p symbol kind)) matches)
                     matches)))
    (list :pattern pattern
          :package (and package (package-name package))
          :total (length wanted)
          :symbols (mapcar #'symbol-entry (ranked wanted words (page-size limit 50 200) nil)))))

(defparameter *completion-characters* 7000
  "About how long an answer with completions may be. The clients' servers write in pieces of 8 KB,
and the second one waits 40 ms for a late acknowledgement from Emacs's side.")

(define-operation "complete-symbol" (word package)
  ;; Names that contain a word, those that begin with it first, each with what it is.
  (compile-search)
  (let* ((package (and package (package-of-text package)))
         (words (and (string/= word "") (list word)))
         (matches (remove-if #'our-symbol-p
                             (matching-symbols words
                                               (if package (list package) (searched-packages))
                                               nil)))
         (room *completion-characters*)
         (names (loop for symbol in (ranked matches words 200 t)
                      for name = (symbol-text symbol)
                      for about = (format nil "~{~A~^, ~}" (kinds symbol))
                      while (plusp (decf room (+ (length name) (length about) 6)))
                      collect name collect about)))
    (list :total (length matches) :names names)))
