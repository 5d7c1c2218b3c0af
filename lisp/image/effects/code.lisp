;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Effects on code: definitions that aren't the program's.

(cl:in-package "AGENT-Q-IMAGE")

;;; Definitions

(defun foreign-package-p (package)
  "Whether PACKAGE is the implementation's, the client's or ours. Exceptions: tests define things in
SBCL's test framework, which run_tests observes, and variables of handles become special while a
form is read."
  (or (eq package (find-package "COMMON-LISP"))
      (loop until (member (package-name package) '("SB-RT" "AGENT-Q-IMAGE-HANDLES") :test #'string=)
            for prefix in '("SB-" "SWANK" "SLYNK" "AGENT-Q-IMAGE")
              thereis (prefixed-p prefix (package-name package)))))

(defun locked-package-p (package)
  (let ((locked (optional-function "SB-EXT" "PACKAGE-LOCKED-P")))
    (and locked (funcall locked package))))

(defun home-package (name)
  "The home package of NAME, a symbol or (setf symbol)."
  (let ((symbol (if (consp name) (second name) name)))
    (and (symbolp symbol) (symbol-package symbol))))

(defun foreign-name-p (name)
  "Whether the program may not change the definition of NAME, a symbol or (setf symbol). A library
may lock its package, but not against its own files."
  (let* ((symbol (cond ((symbolp name) name)
                       ((and (consp name) (eq (first name) 'setf) (symbolp (second name)))
                        (second name))))
         (package (and symbol (symbol-package symbol))))
    (and package
         ;; SBCL's profiler redefines this one to measure itself.
         (not (string= symbol "COMPUTE-OVERHEAD-AUX"))
         (or (and (foreign-package-p package)
                  (or (fboundp name) (eq package (find-package "AGENT-Q-IMAGE"))))
             (and (locked-package-p package) (not (eq package *package*)) (fboundp name))))))

(defun effect-of-defining (arguments)
  "The effect of redefining the function name that is the first of ARGUMENTS."
  (let ((name (first arguments)))
    (when (foreign-name-p name)
      (make-effect :kind "redefine" :target (printed name :limit 200)
                   :detail (list (home-package name))
                   :texts (list (if (symbolp name) (symbol-text name) (printed name)))
                   :words (format nil "redefine ~A, which is not the program's"
                                  (printed name :limit 200))))))

(defun effect-of-setting-definition (arguments)
  (effect-of-defining (rest arguments)))

(defun effect-of-unlocking (arguments)
  (let ((package (ignore-errors (find-package (first arguments)))))
    (when (and package (locked-package-p package))
      (make-effect :kind "redefine" :target (package-name package)
                   :texts (list (string-downcase (package-name package)))
                   :words (format nil "unlock the package ~A" (package-name package))))))

(defun effect-of-encapsulating-generic (arguments)
  (effect-of-defining (list (internal "SB-MOP" "GENERIC-FUNCTION-NAME" (first arguments)))))

(defun effect-of-breakpoint (arguments)
  "The effect of running code at a breakpoint in a function that isn't the program's."
  (let* ((what (internal "SB-DI" "BREAKPOINT-WHAT" (first arguments)))
         (function (if (internal "SB-DI" "CODE-LOCATION-P" what)
                       (internal "SB-DI" "CODE-LOCATION-DEBUG-FUN" what)
                       what))
         (name (internal "SB-DI" "DEBUG-FUN-NAME" function))
         ;; (flet x :in y), (lambda (x) :in y), (fast-method x (t))
         (outer (and (consp name) (not (eq (first name) 'setf))
                     (or (second (member :in name)) (second name)))))
    (effect-of-defining (list (or outer name)))))

(defun effect-of-unencapsulating (arguments)
  (destructuring-bind (name type) arguments
    (when (eq type :agent-q-watch)
      (make-effect :kind "redefine" :target (printed name)
                   :words (format nil "take agent-q's watch off ~A" (printed name))))))

;;; Definitions of other kinds

(defun redefining (name)
  (let ((text (if (symbolp name) (symbol-text name) (printed name :limit 200))))
    (make-effect :kind "redefine" :target text :texts (list text)
                 :detail (list (home-package name))
                 :words (format nil "redefine ~A, which is not the program's" text))))

(defun foreign-symbol-p (symbol)
  "Whether the program may not give SYMBOL a meaning."
  (let ((package (and symbol (symbolp symbol) (symbol-package symbol))))
    (and package
         (or (foreign-package-p package)
             (and (locked-package-p package) (not (eq package *package*)))))))

(defun effect-of-defining-type (arguments)
  "The effect of defining a class, condition, type, setf expander, compiler macro or symbol macro."
  (let* ((name (first arguments)) (symbol (if (consp name) (second name) name)))
    (when (foreign-symbol-p symbol)
      (redefining name))))

(defun effect-of-setting-type (arguments)
  (effect-of-defining-type (rest arguments)))

(defun effect-of-defining-structure (arguments)
  (effect-of-defining-type (list (internal "SB-KERNEL" "DD-NAME" (first arguments)))))

(defun specializer-object (specializer)
  "The name of the class SPECIALIZER, or the object of an EQL specializer."
  (if (typep specializer 'class)
      (class-name specializer)
      (ignore-errors (internal "SB-MOP" "EQL-SPECIALIZER-OBJECT" specializer))))

(defun effect-of-adding-method (arguments)
  "The effect of adding a method to a function that isn't the program's, for objects that aren't
either."
  (let ((name (internal "SB-MOP" "GENERIC-FUNCTION-NAME" (first arguments))))
    (flet ((foreign-p (specializer)
             (let ((named (specializer-object specializer)))
               (or (not (symbolp named)) (null named)
                   (null (symbol-package named)) (foreign-package-p (symbol-package named))))))
      (when (and (foreign-symbol-p (if (consp name) (second name) name))
                 (every #'foreign-p (internal "SB-MOP" "METHOD-SPECIALIZERS" (second arguments))))
        (defining-method name (first arguments) (second arguments))))))

(defun defining-method (name generic method)
  "The effect of adding METHOD to GENERIC, called NAME, which isn't the program's."
  (let* ((effect (redefining name))
         (qualifiers (method-qualifiers method))
         (specializers (internal "SB-MOP" "METHOD-SPECIALIZERS" method))
         (new (null (find-method generic qualifiers specializers nil)))
         (file (or *load-truename* *compile-file-truename*)))
    (setf (effect-words effect)
          (format nil "~:[redefine~;add~] the method ~A~{ ~S~} (~{~A~^ ~}) of a function that is not the ~
                       program's~@[, by ~A~]"
                  new (printed name :limit 200) qualifiers
                  (loop for it in specializers
                        collect (printed (if (typep it 'class) (class-name it) it) :limit 100))
                  (and file (native-text file)))
          (effect-detail effect) (append (and new '("new method"))
                                         (mapcar #'home-package
                                                 (cons name (mapcar #'specializer-object specializers)))))
    effect))

;;; What belongs only to the implementation, the client or us

(defun ours-or-the-clients-p (package)
  (and package
       (loop for prefix in '("SWANK" "SLYNK" "AGENT-Q-IMAGE")
               thereis (prefixed-p prefix (package-name package)))))

(defun effect-of-unbinding (arguments)
  (let ((symbol (first arguments)))
    (when (and (symbolp symbol) (ours-or-the-clients-p (symbol-package symbol)))
      (effect-of-taking-over (symbol-text symbol)))))

(defun effect-of-looking-into (arguments)
  "The effect of reading the variables of one of our closures."
  (when (mentions-us-p (internal "SB-KERNEL" "%FUN-NAME" (first arguments)))
    (effect-of-taking-over "agent-q's own half")))

(defun effect-of-walking-memory (arguments)
  "The effect of finding objects by walking through memory: ours are there, too."
  (declare (ignore arguments))
  (effect-of-taking-over "what it finds in memory, by walking through it"))

(defun effect-of-setting-cell (arguments)
  (effect-of-cell (rest arguments)))

(defun effect-of-cell (arguments)
  "The effect of changing the fdefn, first of ARGUMENTS, in which SBCL keeps a function by name."
  (effect-of-defining (list (internal "SB-KERNEL" "FDEFN-NAME" (first arguments)))))
