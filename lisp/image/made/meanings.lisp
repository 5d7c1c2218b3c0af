;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What gives names that aren't the program's another meaning, besides definitions: proclamations,
;;; what the compiler knows about them, packages, and how text is read.

(cl:in-package "AGENT-Q-IMAGE")

(defun effect-of-proclaiming (arguments)
  "The effect of proclaiming something about a name that isn't the program's, which all code
compiled from then on believes."
  (let* ((form (first arguments)) (kind (and (consp form) (first form)))
         (names (and (consp form) (ignore-errors (list-length form))
                     (if (member kind '(type ftype)) (cddr form) (rest form))))
         ;; A type may stand in place of TYPE and itself.
         (foreign (and (not (and (symbolp kind)
                                 (member (symbol-name kind) '("OPTIMIZE" "DECLARATION" "NOTINLINE"
                                                              "MUFFLE-CONDITIONS" "UNMUFFLE-CONDITIONS")
                                         :test #'string=)))
                       (find-if #'foreign-symbol-p names))))
    (when foreign
      (let ((effect (redefining foreign)))
        (setf (effect-words effect)
              (format nil "proclaim ~A, which is not the program's" (printed form :limit 200)))
        effect))))

(defun effect-of-setting-info (arguments)
  "The effect of changing how the compiler treats a name that isn't the program's."
  (destructuring-bind (name number value) arguments
    (declare (ignore value))
    (let* ((symbol (if (consp name) (second name) name))
           (info (and (foreign-symbol-p symbol)
                      (aref (symbol-value (find-symbol "*INFO-TYPES*" "SB-IMPL")) number)))
           (kind (and info (internal "SB-IMPL" "META-INFO-KIND" info))))
      (when (and (member kind '(:source-transform :info :inlining-data :macro-expansion :kind))
                 (or (fboundp symbol) (boundp symbol))
                 (not (made-by-implementation-p)))
        (redefining name)))))

(defun stops-call-p (arguments)
  "Whether we interrupt a call, perhaps in the thread of one."
  (declare (ignore arguments))
  *stopping*)

(defun sets-own-p (arguments)
  "Whether the program may set the variable that is the first of ARGUMENTS. Our own interpreted code
sets our variables this way, and nothing depends on those."
  (let* ((symbol (first arguments)) (package (and (symbolp symbol) (symbol-package symbol))))
    (or *stopping*
        (null package)
        (eq package (load-time-value (find-package "AGENT-Q-IMAGE")))
        (eq package (load-time-value (find-package "COMMON-LISP")))
        (not (foreign-package-p package))
        ;; SBCL makes its caches when they are first used.
        (and (prefixed-p "**" (symbol-name symbol)) (search "-CACHE-VECTOR**" (symbol-name symbol)))
        (and (not (ours-or-the-clients-p package))
             (if (member (package-name package) +internal-packages+ :test #'string=)
                 (not (internal-symbol-p symbol))
                 (eq :external (nth-value 1 (find-symbol (symbol-name symbol) package))))))))

(defun binds-or-sets-own-p (arguments)
  "The same if the second of ARGUMENTS says what is done with the variable. Interpreted code binds
variables all the time."
  (or (eq (second arguments) 'progv) (sets-own-p arguments)))

(defun effect-of-setting (arguments)
  "The effect of setting a variable of the implementation or of the client by name."
  (unless (sets-own-p arguments)
    (let ((effect (redefining (first arguments))))
      (setf (effect-words effect)
            (format nil "set ~A, which is not the program's" (symbol-text (first arguments))))
      effect)))

(defun effect-of-disabling (arguments)
  "The effect of having errors end the Lisp process."
  (declare (ignore arguments))
  (effect-of-taking-over "what errors do: they would end this Lisp"))

(defun shared-package-p (package)
  "Whether the names in PACKAGE are everybody's, also the client's and ours, or those of SBCL."
  (or (foreign-package-p package) (eq package (find-package "KEYWORD"))))

(defun effect-of-uninterning (arguments)
  (destructuring-bind (symbol &optional (package *package*)) arguments
    (when (and (shared-package-p (find-package package))
               (eq (symbol-package symbol) (find-package package))
               ;; Reading a form leaves symbols without a meaning.
               (or (fboundp symbol) (boundp symbol) (symbol-plist symbol)))
      (redefining symbol))))

(defun effect-of-package (arguments)
  (let ((package (find-package (first arguments))))
    (when (and package
               ;; The client and we read forms in CL-USER.
               (or (shared-package-p package) (eq package (find-package "COMMON-LISP-USER"))))
      (effect-of-taking-over (format nil "the package ~A" (package-name package))))))

(defun effect-of-renaming-package (arguments)
  "The effect of renaming a package. In newer SBCLs, DEFPACKAGE uses this to add nicknames, which
change no meaning."
  (destructuring-bind (designator name &optional nicknames) arguments
    (let ((package (find-package designator)))
      (unless (and package
                   (string= name (package-name package))
                   (subsetp (package-nicknames package) (mapcar #'string nicknames) :test #'string=))
        (effect-of-package arguments)))))

(defun package-effect (package words)
  "An effect on PACKAGE, whose name fills in WORDS, a format control."
  (make-effect :kind "redefine" :target (package-name package) :detail (list package)
               :texts (list (string-downcase (package-name package)))
               :words (format nil words (package-name package))))

(defun changing-names (designator)
  "The effect of changing which names a package has, unless that is the program's."
  (let ((package (ignore-errors (find-package designator))))
    (when (and package (shared-package-p package))
      (package-effect package "change the names of the package ~A"))))

(defun effect-of-unusing (arguments)
  "The effect of a package's no longer using others: CL-USER needs COMMON-LISP."
  (destructuring-bind (others &optional (package *package*)) arguments
    (or (effect-of-package-change arguments)
        (and (eq (find-package package) (find-package "COMMON-LISP-USER"))
             (member (find-package "COMMON-LISP") (mapcar #'find-package (if (listp others) others (list others)))
                     :test #'eq)
             (package-effect (find-package package) "change the names of the package ~A")))))

(defun effect-of-package-change (arguments)
  "The effect of changing which names a package has that isn't the program's: the second of
ARGUMENTS, or the current one."
  (changing-names (if (rest arguments) (second arguments) *package*)))

(defun effect-of-nickname (arguments)
  "The effect of a local nickname in a package that isn't the program's, or of one that hides such a
package: names would be read as others."
  (destructuring-bind (nickname actual &optional (package *package*)) arguments
    (declare (ignore actual))
    (or (changing-names package) (changing-names nickname))))

(defun effect-of-locking (arguments)
  "The effect of locking a package: nothing could be defined in it from then on."
  (let ((package (ignore-errors (find-package (first arguments)))))
    (when (and package (not (locked-package-p package)))
      (package-effect package "lock the package ~A"))))

(defun users-readtable-p (readtable)
  "Whether forms of the user and of Emacs are read with READTABLE."
  (let ((standard (find-symbol "*STANDARD-READTABLE*" "SB-IMPL")))
    (or (eq readtable (directly "SB-EXT" "SYMBOL-GLOBAL-VALUE" '*readtable*))
        (and standard (boundp standard) (eq readtable (symbol-value standard))))))

(defun effect-of-reading-otherwise (readtable)
  (when (users-readtable-p readtable)
    (effect-of-taking-over "how text is read, by everybody")))

(defun effect-of-copying-readtable (arguments)
  (and (second arguments) (effect-of-reading-otherwise (second arguments))))

(defun effect-of-macro-character (arguments)
  (effect-of-reading-otherwise (or (fourth arguments) *readtable*)))

(defun effect-of-dispatch-character (arguments)
  (effect-of-reading-otherwise (or (fourth arguments) *readtable*)))

(defun effect-of-dispatching-character (arguments)
  (effect-of-reading-otherwise (or (third arguments) *readtable*)))

(defun effect-of-syntax (arguments)
  (effect-of-reading-otherwise (or (third arguments) *readtable*)))

(defun effect-of-readtable-setting (arguments)
  (effect-of-reading-otherwise (second arguments)))

(defun effect-of-setting-host (arguments)
  "The effect of changing which files a logical host stands for: SBCL's sources are on SYS."
  (when (string-equal "SYS" (string (second arguments)))
    (effect-of-taking-over "where SBCL's own sources are")))

;;; Objects of SBCL's that give names their meaning

(defun changes-no-metaobject-p (arguments)
  "Whether the first of ARGUMENTS, an object that is about to change, gives no name its meaning."
  (not (typep (first arguments) '(or class generic-function method))))

(defun metaobject-name (object)
  "The name to which the class, generic function or method OBJECT gives a meaning, or NIL."
  (typecase object
    (class (class-name object))
    (generic-function (internal "SB-MOP" "GENERIC-FUNCTION-NAME" object))
    (method (let ((generic (internal "SB-MOP" "METHOD-GENERIC-FUNCTION" object)))
              (and generic (metaobject-name generic))))))

(defun effect-of-changing-object (object)
  "The effect of changing OBJECT itself, if it gives a meaning to a name that isn't the program's."
  (let ((name (ignore-errors (metaobject-name object))))
    (when (foreign-symbol-p (if (consp name) (second name) name))
      (redefining name))))

(defun effect-of-renaming (arguments)
  "The effect of giving the second of ARGUMENTS another name: methods are judged by that."
  (effect-of-changing-object (second arguments)))

(defun effect-of-reinitializing (arguments)
  ;; DEFMETHOD does this to a generic function without giving it anything.
  (and (rest arguments) (effect-of-changing-object (first arguments))))

(defun effect-of-initializing-again (arguments)
  (and (cddr arguments)
       (not (made-by-implementation-p))
       (effect-of-changing-object (first arguments))))

(defun effect-of-swapping-slot (arguments)
  (effect-of-changing-slot (cdddr arguments)))

(defun effect-of-removing-subclass (arguments)
  "The effect of forgetting a subclass. SBCL does so when the program redefines that."
  (and (effect-of-changing-object (second arguments))
       (effect-of-changing-object (first arguments))))

(defun effect-of-obsoleting (arguments)
  (let ((class (first arguments)))
    (effect-of-changing-object (if (symbolp class) (find-class class nil) class))))

(defun effect-of-changing-slot (arguments)
  "The effect of changing the class, a slot or the function of the first of ARGUMENTS. SBCL does so
itself."
  (let ((effect (effect-of-changing-object (first arguments))))
    (and effect (not (made-by-implementation-p)) effect)))

(defun effect-of-setting-access (arguments)
  (effect-of-changing-slot (rest arguments)))

(defun effect-of-setting-slot (arguments)
  (effect-of-changing-slot (cddr arguments)))
