;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the files of a system will stumble over if they are loaded in order into an empty image:
;;; packages and macros that come too late, and packages that don't fit together. A false alarm is worse
;;; than a miss: what can't be told for certain is passed over.

(cl:in-package "AGENT-Q-IMAGE")

(defun rank-of (outline place)
  (+ (* 100000000 (outline-number outline)) place))

(defun plan-text (outline)
  (let ((file (outline-file outline)))
    (or (gethash file *plan-texts*)
        (setf (gethash file *plan-texts*) (source-characters file)))))

(defun place-in-plan (outline place)
  "PLACE in the file of OUTLINE, for people."
  (format nil "~A:~D" (shown-file (outline-file outline)) (line-of (plan-text outline) place)))

(defun outline-of-package (written)
  (find (written-package-file written) *plan* :key #'outline-file :test #'equal))

(defun place-of-package (written)
  (place-in-plan (outline-of-package written) (written-package-start written)))

(defun shown-name (name)
  "NAME of a symbol or package, in capitals as people write it."
  (if (string= name (string-upcase name)) name (format nil "|~A|" name)))

(defun few-names (names)
  (format nil "~{~A~^, ~}~@[ and ~D more~]" (mapcar #'shown-name (subseq names 0 (min 5 (length names))))
          (and (nthcdr 5 names) (- (length names) 5))))

(defun snag (rank control &rest arguments)
  (push (cons rank (let ((*print-pretty* nil)) (apply #'format nil control arguments))) *snags*))

(defun package-entered (outline place)
  "The name of the package that the file of OUTLINE is in at PLACE; NIL if unknown."
  (cdr (find place (outline-entered outline) :key #'car :test #'> :from-end t)))

(defun mentions-in-plan-p (name outline start end)
  (search name (plan-text outline) :start2 start :end2 end :test #'char-equal))

(defun hidden-before-p (name rank)
  "Whether a file before RANK that changes the syntax mentions NAME: nobody knows what it makes of it."
  (loop for outline in *plan*
          thereis (and (outline-strange outline)
                       (< (rank-of outline 0) rank)
                       (mentions-in-plan-p name outline 0 nil))))

(defun made-before-p (name rank)
  "Whether a form before RANK may make the package NAME."
  (or (hidden-before-p name rank)
      (loop for outline in *plan*
              thereis (loop for (start . end) in (outline-makers outline)
                              thereis (and (< (rank-of outline start) rank)
                                           (mentions-in-plan-p name outline start end))))))

;;; Packages that come later

(defun from-elsewhere-p (name)
  "Whether the image has the package NAME from another place than the files of the plan."
  (let* ((package (find-package name)) (source (and package (package-source package))))
    (and source
         (notany (lambda (outline) (equal (file-key source) (file-key (outline-file outline)))) *plan*))))

(defun later-package (written rank)
  "The first of WRITTEN, definitions of a package, if none of them and nothing else makes it before RANK."
  (let ((first (first written)))
    (and first
         (< rank (written-package-rank first))
         (not (made-before-p (planned-package-name first) rank))
         (not (from-elsewhere-p (planned-package-name first)))
         first)))

(defun here-words (package)
  "What to add if the image has PACKAGE already."
  (if (find-package package) " (Here it works, as the image has that package.)" ""))

(defun advice (outline defining)
  "What to do if the file of OUTLINE uses what only that of DEFINING defines."
  (if (eq outline defining)
      "Define it above."
      (format nil "Load ~A before ~A." (shown-file (outline-file defining)) (shown-file (outline-file outline)))))

(defun find-late-packages (outline)
  "Find what OUTLINE uses of packages that only a later form defines."
  (let ((told '()))
    (flet ((late (name written place words)
             (let* ((rank (rank-of outline place))
                    (later (and (not (member name told :test #'string=)) (later-package written rank))))
               (when later
                 (push name told)
                 (snag rank "~A ~A the package ~A, which ~A defines later. ~A~A"
                        (place-in-plan outline place) words (shown-name (planned-package-name later))
                        (place-of-package later) (advice outline (outline-of-package later))
                        (here-words (planned-package-name later)))))))
      (loop for (place . name) in (outline-entered outline)
            when name do (late name (packages-written name) place "is in"))
      (dolist (written (outline-packages outline))
        (dolist (name (needed-packages written))
          (late name (packages-written name) (written-package-start written) "needs")))
      (maphash (lambda (token place)
                 (let* ((colon (position #\: token))
                        (prefix (and colon (string-trim "|" (subseq token 0 colon)))))
                   (when (and prefix (not (outline-strange outline)))
                     (late prefix (written-package-for-prefix prefix (package-entered outline place)) place
                           "names"))))
               (outline-qualified outline)))))

(defun needed-packages (written)
  "The names of the packages that must be there when WRITTEN is defined."
  (remove-duplicates (append (planned-package-uses written)
                             (written-package-mixed written)
                             (mapcar #'cdr (planned-package-imports written))
                             (mapcar #'cdr (written-package-shadowing written)))
                     :test #'equal))

;;; Macros that come later

(defun plan-definitions ()
  "The first macro of each name, and from names to the rank of the first form that may define them."
  (let ((ranks (make-hash-table :test 'equal)) (macros (make-hash-table :test 'equal)))
    (dolist (outline *plan*)
      (maphash (lambda (name entries)
                 (dolist (entry (reverse entries))
                   (destructuring-bind (place outermost operator certain) entry
                     (when (and certain (string= operator "DEFMACRO") (null (gethash name macros)))
                       (setf (gethash name macros)
                             (make-late-macro :name name :outline outline :place place)))
                     (setf (gethash name ranks)
                           (min (rank-of outline outermost) (gethash name ranks most-positive-fixnum))))))
               (outline-definitions outline)))
    (values (loop for macro being the hash-values of macros collect macro) ranks)))

(defparameter *forms-to-walk* 20
  "In how many forms of a file to look for the use of one macro.")

(defun find-late-macros ()
  "Find uses of macros above their definitions, and above all else that has their names."
  (multiple-value-bind (macros ranks) (plan-definitions)
    (dolist (macro macros)
      (let* ((name (late-macro-name macro)) (definition (late-macro-outline macro))
             (rank (gethash name ranks)) (home nil))
        (dolist (outline *plan*)
          (when (> (outline-number outline) (outline-number definition)) (return))
          (let ((uses (remove-if (lambda (use) (>= (rank-of outline (cdr use)) rank))
                                 (reverse (gethash name (outline-operators outline))))))
            (when (and uses (not (outline-strange outline)) (not (outline-strange definition)))
              (setf home (or home (home-of-definition macro) (return))
                    *plan-proof* (or *plan-proof* (proof-of-plan)))
              (let ((place (place-of-use uses name home outline *plan-proof*)))
                (when (and place (not (hidden-before-p name (rank-of outline place))))
                  (tell-late-macro macro outline place home))))))))))

(defun home-of-definition (macro)
  "The name of the package whose symbol MACRO defines; NIL if unknown."
  (let* ((outline (late-macro-outline macro)) (place (late-macro-place macro))
         (text (plan-text outline))
         (package (package-entered outline place)))
    (and package
         (not (find #\: text :start place :end (token-end text place)))
         (home-of-name (late-macro-name macro) package))))

(defun proof-of-plan ()
  "A proof that knows what the files of the plan define."
  (let ((proof (make-proof)))
    (dolist (outline *plan* proof)
      (maphash (lambda (name entries)
                 (loop for (nil nil operator) in entries
                       do (cond ((member operator '("DEFUN" "DEFGENERIC" "DEFMETHOD") :test #'string=)
                                 (setf (gethash name (proof-functions proof)) '(t)))
                                ((string= operator "DEFMACRO")
                                 (setf (gethash name (proof-macros proof)) t)))))
               (outline-definitions outline))
      (dolist (written (outline-packages outline))
        (setf (gethash (planned-package-name written) (proof-planned proof)) written)))))

(defun place-of-use (uses name home outline proof)
  "The first of USES of NAME in the file of OUTLINE that surely calls the symbol of the package HOME."
  (let ((*proof* proof) (*most-mistakes* 0) (tried '()))
    (loop for (place . outermost) in uses
          for package = (package-entered outline place)
          do (when (and package (not (member outermost tried)))
               (when (> (length tried) *forms-to-walk*) (return nil))
               (push outermost tried)
               (let ((found (place-called name home package outermost outline uses)))
                 (when found (return found)))))))

(defun place-called (name home package outermost outline uses)
  "The place in the top-level form at OUTERMOST that calls NAME, if it is one of USES."
  (setf (proof-text *proof*) (plan-text outline)
        (proof-position *proof*) outermost
        (proof-depth *proof*) 0
        (proof-mistakes *proof*) '()
        (proof-package *proof*) (known-package package)
        (proof-visitor *proof*)
        (lambda (head)
          (when (and (equal name (part-value head))
                     (assoc (part-start head) uses)
                     (equal home (home-of-name name (if (part-qualified head)
                                                        (home-of-prefix (part-qualified head) package)
                                                        package))))
            (return-from place-called (part-start head)))))
  (let ((part (catch 'form-read (read-part))))
    (when part (proofread part '()))
    nil))

(defun home-of-prefix (prefix package)
  (let ((written (first (written-package-for-prefix prefix package))))
    (if written (planned-package-name written) prefix)))

(defun tell-late-macro (macro outline place home)
  (let* ((definition (late-macro-outline macro))
         (symbol (let ((package (find-package home)))
                   (and package (find-symbol (late-macro-name macro) package)))))
    (snag (rank-of outline place)
           "~A uses the macro ~A, which ~A defines later: from scratch it is compiled as a function call~
            ~:[~;, though not here, where the image has the macro~]. ~A"
           (place-in-plan outline place) (shown-name (late-macro-name macro))
           (place-in-plan definition (late-macro-place macro))
           (and symbol (macro-function symbol) t)
           (advice outline definition))))

;;; Packages among themselves

(defun external-names (package-name)
  "The names that the package exports, as far as is known."
  (let ((written (packages-written package-name)) (package (find-package package-name)) (names '()))
    (cond (written (loop for it in written append (planned-package-exports it)))
          (package (do-external-symbols (symbol package names) (push (symbol-name symbol) names))))))

(defun clash-p (name one other)
  "Whether NAME, from the packages ONE and OTHER, is surely two symbols."
  (let ((one (home-of-name name one)) (other (home-of-name name other)))
    (and one other (string/= one other))))

(defun clashing-names (one other)
  "The names that the packages ONE and OTHER export for different symbols."
  (when (eq (find-package one) (find-package "COMMON-LISP")) (rotatef one other))
  (loop for name in (external-names one)
        when (and (eq t (exports-p name other)) (clash-p name one other))
          collect name))

(defun decided-p (name written)
  "Whether WRITTEN says which symbol NAME is, whatever the packages that it uses export."
  (or (member name (planned-package-shadowed written) :test #'string=)
      (assoc name (written-package-shadowing written) :test #'string=)))

(defun find-clashes (written pairs)
  "Find names that WRITTEN gets from several packages; PAIRS keeps what pairs of packages have."
  (flet ((clashing (one other)
           (let ((key (list one other)))
             (multiple-value-bind (names known) (gethash key pairs)
               (if known names (setf (gethash key pairs) (clashing-names one other))))))
         (tell (names one other)
           (snag (written-package-rank written)
                  "~A: the package ~A gets ~A from both ~A and ~A, which are different symbols. ~
                   Say with :shadowing-import-from which to take."
                  (place-of-package written) (shown-name (planned-package-name written)) (few-names names)
                  (shown-name one) (shown-name other))))
    (loop for (one . others) on (planned-package-uses written)
          do (dolist (other others)
               (let ((names (remove-if (lambda (it) (decided-p it written)) (clashing one other))))
                 (when names (tell names one other)))))
    (loop for (name . from) in (planned-package-imports written)
          do (dolist (use (planned-package-uses written))
               (when (and (eq t (exports-p name use)) (not (decided-p name written)) (clash-p name from use))
                 (tell (list name) from use))))))

(defun has-name-p (name package-name rank)
  "Whether the package surely or perhaps has NAME when the form at RANK is evaluated."
  (let ((written (packages-written package-name)) (package (find-package package-name)))
    (cond ((rest written) t)
          (written (let ((it (first written)))
                     (or (written-package-more it)
                         (<= rank (written-package-rank it))
                         (member name (planned-package-exports it) :test #'string=)
                         (member name (planned-package-shadowed it) :test #'string=)
                         (member name (written-package-interned it) :test #'string=)
                         (assoc name (planned-package-imports it) :test #'string=)
                         (assoc name (written-package-shadowing it) :test #'string=)
                         (some (lambda (use) (exports-p name use)) (planned-package-uses it))
                         (filled-before-p (planned-package-name it) rank))))
          (package (nth-value 1 (find-symbol name package)))
          (t t))))

(defun filled-before-p (package-name rank)
  "Whether any file before RANK may put names into the package."
  (loop for outline in *plan*
          thereis (and (< (rank-of outline 0) rank)
                       (or (outline-strange outline)
                           (loop for (place . name) in (outline-entered outline)
                                   thereis (and (< (rank-of outline place) rank)
                                                (member package-name (packages-written name)
                                                        :key #'planned-package-name :test #'string=)))
                           (search (format nil "~A::" package-name) (plan-text outline)
                                   :test #'char-equal)))))

(defun find-missing-imports (written)
  "Find symbols that WRITTEN imports and their packages won't have."
  (loop for (name . from) in (append (planned-package-imports written) (written-package-shadowing written))
        unless (has-name-p name from (written-package-rank written))
          do (snag (written-package-rank written)
                    "~A: the package ~A imports ~A from ~A, which has no such symbol then.~@[ Near names: ~{~A~^, ~}.~]"
                    (place-of-package written) (shown-name (planned-package-name written))
                    (shown-name name) (shown-name from)
                    (nearest name (mapcar (lambda (it) (cons it it)) (external-names from))))))

(defun find-unexported (outline)
  "Find names written with one colon in the file of OUTLINE that their packages won't export."
  (unless (outline-strange outline)
    (maphash (lambda (token place)
               (let* ((colon (position #\: token))
                      (name (and colon (subseq token (1+ colon)))))
                 (when (and name (string/= name "") (null (find #\: name)) (null (find #\| token))
                            (null (find #\\ token)))
                   (let ((written (written-package-for-prefix (subseq token 0 colon)
                                                              (package-entered outline place))))
                     (when (and written (null (exports-p name (planned-package-name (first written))))
                                (not (exported-here-p name (planned-package-name (first written)))))
                       (snag (rank-of outline place)
                              "~A names ~A with one colon, but the package (~A) doesn't export it.~
                               ~@[ It exports ~{~A~^, ~}.~]"
                              (place-in-plan outline place) token (place-of-package (first written))
                              (nearest name (mapcar (lambda (it) (cons it it))
                                                    (external-names (planned-package-name (first written)))))))))))
             (outline-qualified outline))))

(defun exported-here-p (name package-name)
  "Whether the image's package exports NAME: code may have done that."
  (let ((package (find-package package-name)))
    (and package (eq :external (nth-value 1 (find-symbol name package))))))

(defun find-second-definitions (name written)
  "Find a definition of the package NAME among WRITTEN that lacks what an earlier one has."
  (loop for (one other) on written
        do (when (and other (notany #'written-package-more (list one other)))
             (flet ((lost (part) (set-difference (funcall part one) (funcall part other) :test #'string=)))
               (let ((exports (lost #'planned-package-exports)) (uses (lost #'planned-package-uses)))
                 (when (or exports uses)
                   (snag (written-package-rank other)
                          "~A defines the package ~A again, without ~:[using~;exporting~] ~A, as ~A does. Define it once."
                          (place-of-package other) (shown-name name) exports
                          (few-names (or exports uses)) (place-of-package one))))))))
