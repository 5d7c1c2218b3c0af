;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The packages that the files of a system define, as DEFPACKAGE forms say: what a name in one of them
;;; will be, and what the image has now.

(cl:in-package "AGENT-Q-IMAGE")

(defun package-at (text start end operator)
  "The WRITTEN-PACKAGE of the form of TEXT from START to END, by OPERATOR; NIL if it can't be read."
  (let* ((*proof* (make-proof :text text :position start))
         (parts (list-parts (or (catch 'form-read (read-part)) (return-from package-at nil))))
         (name (name-of-part (second parts))))
    (when name
      (let ((package (make-written-package
                      :name name :file (outline-file *outline*) :start start :end end :operator operator
                      :more (or (search "#+" text :start2 start :end2 end)
                                (search "#-" text :start2 start :end2 end)
                                (search "#." text :start2 start :end2 end)))))
        (dolist (option (cddr parts) package)
          (note-package-option package (name-of-part (first (list-parts option)))
                               (rest (list-parts option))))))))

(defun note-package-option (package option parts)
  "Note in PACKAGE what its OPTION with PARTS says."
  (let ((names (mapcar #'name-of-part parts)))
    (flet ((imported (names)
             (loop for name in (rest names)
                   when (and name (first names)) collect (cons name (first names))))
           (option-p (&rest options) (member option options :test #'equal)))
      (cond ((option-p "USE") (add-names (planned-package-uses package) names))
            ((option-p "EXPORT") (add-names (planned-package-exports package) names))
            ((option-p "SHADOW") (add-names (planned-package-shadowed package) names))
            ((option-p "INTERN") (add-names (written-package-interned package) names))
            ((option-p "NICKNAMES") (add-names (written-package-other-names package) names))
            ((option-p "IMPORT-FROM")
             (dolist (name (imported names)) (push name (planned-package-imports package))))
            ((option-p "SHADOWING-IMPORT-FROM")
             (dolist (name (imported names)) (push name (written-package-shadowing package))))
            ((option-p "LOCAL-NICKNAMES")
             (dolist (pair parts)
               (let ((names (mapcar #'name-of-part (list-parts pair))))
                 (when (and (first names) (second names))
                   (push (cons (first names) (second names)) (planned-package-nicknames package))))))
            ((option-p "DOCUMENTATION" "SIZE"))
            ((option-p "MIX" "REEXPORT" "USE-REEXPORT" "MIX-REEXPORT")
             (setf (written-package-more package) t)
             (add-names (written-package-mixed package) names))
            (t (setf (written-package-more package) t)))
      (when (member nil names) (setf (written-package-more package) t)))))

;;; What a name is

(defun packages-written (name)
  (gethash name *plan-packages*))

(defun package-written-once (name)
  "The WRITTEN-PACKAGE called NAME, if there is just one."
  (let ((all (packages-written name)))
    (and all (null (rest all)) (first all))))

(defun exported-somewhere-p (name)
  "Whether a form of the plan with EXPORT may export NAME."
  (or (eq t *plan-exports*)
      (some (lambda (text) (search name text :test #'char-equal)) *plan-exports*)))

(defun exports-p (name package-name)
  "Whether the package exports NAME once all is loaded: T, NIL or :UNKNOWN."
  (let ((written (packages-written package-name)) (package (find-package package-name)))
    (cond ((some (lambda (it) (member name (planned-package-exports it) :test #'string=)) written) t)
          ((or (some #'written-package-more written) (and written (exported-somewhere-p name))) :unknown)
          (written nil)
          (package (eq :external (nth-value 1 (find-symbol name package))))
          (t :unknown))))

(defun home-of-name (name package-name &optional (depth 0))
  "The name of the home package that NAME has in the package, as the files define that; NIL if unknown."
  (let ((written (package-written-once package-name)))
    (flet ((from (imports)
             (let ((import (assoc name imports :test #'string=)))
               (when import
                 (return-from home-of-name (home-of-name name (cdr import) (1+ depth)))))))
      (cond ((> depth 20) nil)
            (written
             (when (member name (planned-package-shadowed written) :test #'string=)
               (return-from home-of-name (planned-package-name written)))
             (from (written-package-shadowing written))
             (from (planned-package-imports written))
             (home-by-use name written depth))
            ((packages-written package-name) nil)
            ((find-package package-name)
             (let* ((package (find-package package-name))
                    (symbol (find-symbol name package))
                    (home (if (nth-value 1 (find-symbol name package)) (symbol-package symbol) package)))
               (and home (package-name home))))))))

(defun home-by-use (name written depth)
  "The same by the packages that WRITTEN uses, or as its own."
  (let ((own (not (written-package-more written))))
    (dolist (use (planned-package-uses written))
      (case (exports-p name use)
        ((t) (return-from home-by-use (home-of-name name use (1+ depth))))
        (:unknown (setf own nil))))
    (and own (planned-package-name written))))

(defun written-package-for-prefix (prefix current)
  "The WRITTEN-PACKAGEs that PREFIX before a colon means in the package called CURRENT."
  (let ((nickname (loop for written in (packages-written current)
                        thereis (assoc prefix (planned-package-nicknames written) :test #'equal))))
    (packages-written (if nickname (cdr nickname) prefix))))
