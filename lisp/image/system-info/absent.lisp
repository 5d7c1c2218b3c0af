;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Why testing a system ran nothing: whether it has a test operation, and where the project may
;;; have tests, in other systems or in files of no system.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *test-file-limit* 5
  "How many files that look like tests to name.")

(defun test-operation-p (system)
  "Whether somebody defined what testing SYSTEM does; T if unknown."
  (let ((specializers (optional-function "SB-MOP" "METHOD-SPECIALIZERS")))
    (flet ((own-method-p (method)
             (let ((component (second (funcall specializers method))))
               (not (and (typep component 'class)
                         (or (eq component (find-class t))
                             (prefixed-p "ASDF" (package-name (symbol-package (class-name component))))))))))
      (or (null specializers)
          (rest (tested-systems (asdf-call "COMPONENT-NAME" system)))
          (guarded (lambda ()
                     (some #'own-method-p
                           (compute-applicable-methods
                            (asdf-function "PERFORM")
                            (list (asdf-call "MAKE-OPERATION" (asdf-class "TEST-OP")) system))))
                   (constantly t))))))

(defun mentions-test-p (text)
  (search "test" text :test #'char-equal))

(defun other-test-systems (name)
  "The names of the project's systems, except NAME, that look like tests or have a test operation."
  (loop for entry in *project-systems*
        for other = (getf entry :name)
        for system = (registered-system other)
        when (and (string/= other name)
                  (or (mentions-test-p other) (and system (test-operation-p system))))
          collect other))

;;; Files

(defun source-files-below (directory depth)
  "The names of the Lisp files in DIRECTORY and at most DEPTH levels below it, without hidden
directories."
  (append (loop for file in (internal "UIOP" "DIRECTORY-FILES" directory)
                when (member (pathname-type file) '("lisp" "lsp" "cl") :test #'equal)
                  collect (native-name file))
          (when (plusp depth)
            (loop for folder in (internal "UIOP" "SUBDIRECTORIES" directory)
                  unless (prefixed-p "." (first (last (pathname-directory folder))))
                    append (source-files-below folder (1- depth))))))

(defun text-of-file (file)
  (with-open-file (stream (native-pathname file))
    (let ((text (make-string (min 20000 (file-length stream)))))
      (subseq text 0 (read-sequence text stream)))))

(defun registered-files ()
  "The names of the files of all systems whose definitions are loaded."
  (loop for name in (asdf-call "REGISTERED-SYSTEMS")
        append (loop for component in (source-components (registered-system name))
                     for pathname = (asdf-fact "COMPONENT-PATHNAME" component)
                     when pathname collect (native-name pathname))))

(defun stray-test-files (directory)
  "The names of the files in or below DIRECTORY that look like tests and belong to no system."
  (let ((known (registered-files))
        ;; Definitions that aren't loaded are only searched: loading one would run it.
        (definitions (loop for entry in *project-systems*
                           unless (registered-system (getf entry :name))
                             collect (text-of-file (getf entry :file)))))
    (remove-if-not
     (lambda (file)
       (and (mentions-test-p (subseq file (length directory)))
            (not (member file known :test #'string=))
            (let ((stem (pathname-name (native-pathname file))))
              (notany (lambda (text) (mentions-name-p stem text 0 (length text))) definitions))))
     (source-files-below (native-pathname directory) 3))))

;;; Packages

(defun package-forms (text)
  "The forms in TEXT that define or choose a package; only these are read, in a temporary package."
  (let ((place (make-package (gensym "READING-") :use '("COMMON-LISP")))
        (start 0))
    (unwind-protect
         (loop for next = (skip-to-form text start)
               while next
               do (setf start (let ((*read-suppress* t) (*read-eval* nil))
                                (nth-value 1 (read-from-string text t nil :start next
                                                                          :preserve-whitespace t))))
               when (some (lambda (word) (mentions-name-p word text next (min start (+ next 24))))
                          '("defpackage" "define-package" "in-package"))
                 collect (let ((*package* place)) (read-inert text next)))
      (delete-package place))))

(defun used-packages (options)
  "The names of the packages from which OPTIONS of a package definition take symbols."
  (loop for option in options
        for (kind . names) = (and (consp option) (symbolp (first option)) option)
        append (cond ((member kind '("USE" "MIX" "REEXPORT") :test #'string=)
                      (mapcar #'string names))
                     ((member kind '("IMPORT-FROM" "SHADOWING-IMPORT-FROM") :test #'string=)
                      (list (string (first names)))))))

(defun missing-packages (forms)
  "The names of packages that FORMS, of PACKAGE-FORMS, use or choose, but that neither exist nor are
defined there; and true if they are used."
  (let ((defined '()) (used '()) (chosen '()))
    (loop for form in forms
          do (when (and (consp form) (consp (rest form)) (typep (second form) '(or symbol string)))
               (destructuring-bind (operator name &rest options) form
                 (cond ((string= operator "IN-PACKAGE") (push (string name) chosen))
                       (t (push (string name) defined)
                          (setf used (append used (used-packages options))))))))
    (flet ((missing (names)
             (remove-duplicates (remove-if (lambda (name)
                                             (or (find-package name)
                                                 (member name defined :test #'string=)))
                                           names)
                                :test #'string=)))
      (let ((missing (missing used)))
        (values (or missing (missing chosen)) (and missing t))))))

(defun stray-file (file directory)
  "What to say about FILE, which is in no system, for the wire."
  (multiple-value-bind (missing used)
      (guarded (lambda () (missing-packages (package-forms (text-of-file file))))
               (constantly nil))
    (list :file (subseq file (length directory)) :missing missing :used used)))

;;; Together

(defun absence-facts (name printed)
  "Why testing the system NAME ran nothing, for the wire; nothing if what it PRINTED may come from
tests."
  (guarded (lambda ()
             (let* ((system (find-system-named name))
                    (operation (test-operation-p system))
                    (file (system-file system))
                    (directory (and file (directory-part file))))
               (when (or (not operation) (string= "" (trimmed printed)))
                 (let ((files (and directory
                                   (guarded (lambda () (stray-test-files directory))
                                            (constantly '())))))
                   (list :no-test-operation (not operation)
                         :definition (and file (file-namestring file))
                         :test-systems (other-test-systems name)
                         :stray-count (length files)
                         :strays (loop for file in files
                                       repeat *test-file-limit*
                                       collect (stray-file file directory)))))))
           (constantly '())))
