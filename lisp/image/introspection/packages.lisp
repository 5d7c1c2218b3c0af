;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What packages are and what they contain. Operations: package-info, list-package-symbols.

(cl:in-package "AGENT-Q-IMAGE")

(defun package-symbols (package include-internal)
  "The symbols present in PACKAGE or exported by it, by name, external ones first. Two values: the
symbols, and how many of them are external."
  (let ((external '()) (internal '()))
    (do-external-symbols (symbol package) (push symbol external))
    (when include-internal
      (do-symbols (symbol package)
        (when (eq :internal (nth-value 1 (find-symbol (symbol-name symbol) package)))
          (push symbol internal))))
    (flet ((sorted (symbols)
             (sort (remove-duplicates symbols :test #'eq) #'string< :key #'symbol-name)))
      (values (append (sorted external) (sorted internal))
              (length external)))))

(defun internal-count (package)
  (let ((count 0))
    (do-symbols (symbol package count)
      (when (eq :internal (nth-value 1 (find-symbol (symbol-name symbol) package)))
        (incf count)))))

(defun name-in-package (symbol package)
  "SYMBOL's name as written inside PACKAGE."
  (let ((*package* package) (*print-readably* nil) (*print-pretty* nil) (*print-case* :upcase)
        (*print-escape* t) (*print-gensym* t) (*print-circle* nil))
    (prin1-to-string symbol)))

(define-operation "list-package-symbols" (package include-internal limit offset)
  ;; A page of a package's symbols, with what they are.
  (when (string= (trimmed package) "")
    (missed "Which package? apropos_search searches all of them."))
  (let ((package (package-of-text package)))
    (multiple-value-bind (symbols external) (package-symbols package include-internal)
      (let ((offset (max 0 (or offset 0))))
        (list :package (package-name package)
              :external external
              :internal (internal-count package)
              :total (length symbols)
              :offset offset
              :symbols (loop for symbol in (page symbols offset (page-size limit 100 500))
                             for position from offset
                             collect (list :name (name-in-package symbol package)
                                           :kinds (kinds symbol)
                                           :internal (>= position external))))))))

;;; Packages

(defun local-nicknames (package)
  (loop for (nickname . target) in (guarded (lambda () (backend "PACKAGE-LOCAL-NICKNAMES" package))
                                            (constantly '()))
        collect (format nil "~A = ~A" nickname
                        (if (packagep target) (package-name target) target))))

(defun user-names (package)
  "The names of the packages that use PACKAGE; if there are many, the implementation's are only
counted."
  (let* ((users (package-used-by-list package))
         (programs (if (> (length users) 20)
                       (remove-if #'implementation-package-p users)
                       users))
         (others (- (length users) (length programs))))
    (append (sort (mapcar #'package-name programs) #'string<)
            (and (plusp others) (list (format nil "~D of the implementation" others))))))

(defun package-lock (package)
  "\"locked\" or \"unlocked\" if packages can be locked, or NIL."
  (let ((locked (or (optional-function "SB-EXT" "PACKAGE-LOCKED-P")
                    (optional-function "EXT" "PACKAGE-LOCK")
                    (optional-function "EXT" "PACKAGE-LOCKED-P"))))
    (and locked
         (guarded (lambda () (if (funcall locked package) "locked" "unlocked"))
                  (constantly nil)))))

(define-operation "package-info" (package)
  ;; What a package is: names, uses, users, exports.
  (let ((package (package-of-text package)))
    (multiple-value-bind (symbols external) (package-symbols package nil)
      (list :package (package-name package)
            :nicknames (package-nicknames package)
            :local-nicknames (local-nicknames package)
            :uses (mapcar #'package-name (package-use-list package))
            :used-by (user-names package)
            :shadows (loop for symbol in (package-shadowing-symbols package)
                           collect (symbol-name symbol))
            :external external
            :internal (internal-count package)
            :exports (loop for symbol in (page symbols 0 40)
                           collect (name-in-package symbol package))
            :lock (package-lock package)
            :documentation (doc package t)))))
