;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; ASDF, looked up at run time: systems by name, including those of the user's project, whose files
;;; Emacs gives, and what ASDF does while it works, file by file.

(cl:in-package "AGENT-Q-IMAGE")

(defun asdf-function (name)
  "ASDF's function NAME. Loads ASDF first if it comes with the implementation."
  (unless (find-package "ASDF")
    (guarded (lambda () (require "ASDF")) (constantly nil)))
  (or (optional-function "ASDF" name)
      (missed "ASDF is not loaded in this image, so it knows no systems.")))

(defun asdf-call (name &rest arguments)
  (apply (asdf-function name) arguments))

(defun asdf-fact (name object)
  "The value of ASDF's function NAME for OBJECT, or NIL."
  (guarded (lambda () (asdf-call name object)) (constantly nil)))

(defun asdf-class (name)
  (let ((symbol (find-symbol name "ASDF")))
    (and symbol (find-class symbol nil) symbol)))

(defun native-pathname (text)
  "The pathname of the file TEXT, in which no character is special."
  (funcall (or (optional-function "UIOP" "PARSE-NATIVE-NAMESTRING") #'pathname) text))

(defun native-name (pathname)
  (funcall (or (optional-function "UIOP" "NATIVE-NAMESTRING") #'namestring) pathname))

(defun primary-name (name)
  "The name of the system whose file defines the system NAME: bank for bank/tests."
  (subseq name 0 (position #\/ name)))

;;; Systems of the user's project

(defvar *replacing* nil
  "Whether systems of the project may be loaded over other copies of them.")

(defvar *project-systems* '()
  "Systems of the user's project, in the order of their files: property lists of :name, :file and
:place, the file's name relative to the project's directory.")

(defun entry-named (name)
  (find name *project-systems* :key (lambda (it) (getf it :name)) :test #'string-equal))

(defun project-entry (name)
  (or (entry-named name) (entry-named (primary-name name))))

(defun file-of-entry (entry)
  (let* ((file (getf entry :file))
         (pathname (and file (native-pathname file))))
    (and pathname (guarded (lambda () (probe-file pathname)) (constantly nil)))))

(defun project-file (name)
  "The pathname of the project's file that defines the system NAME, or NIL."
  (file-of-entry (project-entry name)))

(defun call-with-project (systems function)
  "Call FUNCTION with ASDF finding SYSTEMS before any others. Ends the operation if that would load
over another copy of one of them, unless *REPLACING*."
  (asdf-function "FIND-SYSTEM")
  (let ((variable (find-symbol "*SYSTEM-DEFINITION-SEARCH-FUNCTIONS*" "ASDF"))
        (*project-systems* systems))
    (flet ((found (entry)
             (let ((file (file-of-entry entry)))
               (when (and file (not *replacing*))
                 (refuse-second-copy (getf entry :file)))
               file)))
      (if (and systems variable (boundp variable))
          (progv (list variable)
              (list (project-searches (symbol-value variable)
                                      (lambda (name) (found (entry-named name)))
                                      (lambda (name) (found (project-entry name)))))
            (funcall function))
          (funcall function)))))

(defun project-searches (searches by-name by-primary-name)
  "SEARCHES, ASDF's search functions, after BY-NAME. BY-PRIMARY-NAME, which finds systems only by
the primary name, comes once ASDF has had the chance to infer a system from a package."
  (let* ((inferred (member "SYSDEF-PACKAGE-INFERRED-SYSTEM-SEARCH" searches
                           :key (lambda (it) (if (symbolp it) (symbol-name it) ""))
                           :test #'string=))
         (before (ldiff searches (rest inferred))))
    (if inferred
        (append (list by-name) before (list by-primary-name) (rest inferred))
        (list* by-primary-name searches))))

(defvar *build* nil
  "What ASDF does in the running call, a BUILD, or NIL.")

(defstruct build
  ;; The names of the requested systems.
  (systems '())
  ;; What was found before the load.
  (before '())
  ;; The compiled components, latest first, and how many were loaded.
  (compiled '()) (loaded 0)
  ;; The components that are compiled or loaded, with whether that was begun, and of how many it was.
  (planned (make-hash-table :test 'eq)) (begun 0))

;;; Names

(defun system-name-of-text (text)
  "The name of the system that TEXT, its name or its file's, means."
  (let* ((text (string-trim "'\"" (string-left-trim "#:'\"" (trimmed text))))
         (end (- (length text) 4))
         (name (if (and (plusp end) (string-equal ".asd" text :start2 end))
                   (subseq text (1+ (or (position #\/ text :from-end t :end end) -1)) end)
                   text)))
    (string-downcase name)))

(defun near-systems (name)
  (nearest name (mapcar (lambda (it) (cons it it))
                        (union (guarded (lambda () (asdf-call "REGISTERED-SYSTEMS"))
                                        (constantly '()))
                               (mapcar (lambda (it) (getf it :name)) *project-systems*)
                               :test #'string=))))

(defun no-such-systems (missing)
  "End the operation: ASDF doesn't find the systems MISSING, lists of a name and of the system that
needs it, if any. The answer says what there is instead."
  (let* ((names (mapcar #'first missing)) (one (and (null (rest names)) (first names))))
    (missed "ASDF cannot find the system~P ~:{~A~@[, which ~A needs~]~:^; ~}.~@[ Near names: ~{~A~^, ~}.~]~
             ~@[ Systems of this project: ~{~A~^, ~}.~] ~:[Their .asd files~;Its .asd file~] must be in the ~
             project or in ASDF's source registry, which was read again just now~@[; ~A~]."
            (length names) missing (and one (near-systems one))
            (loop for it in *project-systems* repeat 20 collect (getf it :name))
            one
            (and (find-package "QL")
                 (format nil "Quicklisp is loaded and can fetch ~:[them~;it~]: eval_form (ql:quickload ~A)"
                         one (if one (format nil "~S" one) (format nil "'~S" names)))))))

(defun find-system-named (name)
  (or (asdf-call "FIND-SYSTEM" name nil)
      (and (look-again) (asdf-call "FIND-SYSTEM" name nil))
      (no-such-systems (list (list name nil)))))

(defun needed-name (dependency)
  "The name of the system that DEPENDENCY, in a definition, requires in this image, or NIL."
  (typecase dependency
    (string dependency)
    (symbol (string-downcase (symbol-name dependency)))
    (cons (case (first dependency)
            (:version (needed-name (second dependency)))
            (:feature (and (guarded (lambda () (internal "UIOP" "FEATUREP" (second dependency)))
                                    (constantly nil))
                           (needed-name (third dependency))))))))

(defun missing-systems (names)
  "The dependencies of the systems NAMES that ASDF doesn't find: lists of a name and of what needs
it."
  (let ((open (mapcar #'list names)) (seen '()) (missing '()))
    (loop while open
          do (destructuring-bind (name &optional by) (pop open)
               (unless (member name seen :test #'equal)
                 (push name seen)
                 ;; A definition that fails is reported when it is loaded.
                 (let ((system (guarded (lambda () (asdf-call "FIND-SYSTEM" name nil))
                                        (constantly t))))
                   (cond ((null system) (push (list name by) missing))
                         ((not (eq system t))
                          (setf open (append open (needed-by system name)))))))))
    (nreverse missing)))

(defun needed-by (system name)
  "The dependencies of SYSTEM, called NAME, in this image: lists of a name and NAME."
  (loop for dependency in (append (asdf-fact "SYSTEM-DEFSYSTEM-DEPENDS-ON" system)
                                  (asdf-fact "SYSTEM-DEPENDS-ON" system))
        for needed = (needed-name dependency)
        when needed collect (list needed name)))

(defun look-again ()
  "Make ASDF forget what it found in its source registry. Returns whether it could."
  (let ((clear (optional-function "ASDF" "CLEAR-SOURCE-REGISTRY")))
    (and clear
         (guarded (lambda () (funcall clear) t) (constantly nil)))))

(defun call-looking-again (function)
  "Call FUNCTION; if ASDF misses a system, call it again: that may just have been installed."
  (let ((missing (asdf-class "MISSING-COMPONENT")))
    (flet ((missed-in ()
             (handler-bind ((error (lambda (condition)
                                     (when (and missing (typep condition missing))
                                       (return-from missed-in condition)))))
               (return-from call-looking-again (funcall function)))))
      (let ((first (missed-in)))
        (tell-missing (if (and (missed-by-system-p first) (look-again)) (missed-in) first))))))

(defun missed-by-system-p (condition)
  "Whether it is a system that needs what CONDITION misses, rather than a component of one."
  (let ((by (asdf-fact "MISSING-REQUIRED-BY" condition)) (system (asdf-class "SYSTEM")))
    (or (null by) (null system) (typep by system))))

(defun tell-missing-component (name by)
  "End the operation: the component BY of a system depends on a component NAME, which isn't there."
  (let* ((parent (asdf-call "COMPONENT-PARENT" by)) (system (asdf-call "COMPONENT-SYSTEM" by))
         (names (mapcar (lambda (it) (asdf-call "COMPONENT-NAME" it))
                        (remove by (asdf-fact "COMPONENT-CHILDREN" parent)))))
    (missed "In the definition of ~A~@[, ~A~], the component ~A depends on ~A, but there is none beside it.~
             ~@[ There ~{~#[~;is ~A~:;are ~@{~A~^, ~}~]~}.~]"
            (asdf-call "COMPONENT-NAME" system) (system-file system) (asdf-call "COMPONENT-NAME" by) name
            (subseq names 0 (min 20 (length names))))))

(defun tell-missing (condition)
  "End the operation: CONDITION says which system ASDF missed."
  (let ((requires (asdf-fact "MISSING-REQUIRES" condition))
        (by (asdf-fact "MISSING-REQUIRED-BY" condition)))
    (unless (missed-by-system-p condition)
      (tell-missing-component (princ-to-string requires) by))
    (if (typep requires '(or string symbol))
        (let* ((first (list (string-downcase requires) (and by (asdf-fact "COMPONENT-NAME" by))))
               (others (missing-systems (and *build* (build-systems *build*)))))
          (no-such-systems (cons first (remove (first first) others
                                               :key #'first :test #'equal))))
        (failed (condition-type-name condition) (condition-message condition)))))

(defun source-components (component)
  "The files of COMPONENT, a system or a module, in the order of its definition."
  (let ((module (asdf-class "PARENT-COMPONENT")) (file (asdf-class "SOURCE-FILE")))
    (cond ((and module (typep component module))
           (mapcan #'source-components (copy-list (asdf-fact "COMPONENT-CHILDREN" component))))
          ((or (null file) (typep component file)) (list component)))))

;;; What ASDF does

(defvar *noting* nil
  "Whether compiler messages about files are being noted.")

(defvar *component* nil
  "The file that ASDF is compiling or loading, a component, or NIL.")

(defvar *compiled-digests* (make-hash-table :test 'equal)
  "From names of files to digests of their texts when compiled, for files that had just been
changed: file dates are in seconds, so can't show a change within the same second.")

(defun text-digest (pathname)
  "A number computed from the contents of the file PATHNAME."
  (with-open-file (stream pathname :element-type '(unsigned-byte 8))
    (let ((octets (make-array 65536 :element-type '(unsigned-byte 8)))
          (digest 2166136261))
      (loop for end = (read-sequence octets stream)
            while (plusp end)
            do (dotimes (index end)
                 (setf digest (mod (* 16777619 (logxor digest (aref octets index))) 1152921504606846976))))
      digest)))

(defun date-of (pathname)
  (guarded (lambda () (file-write-date pathname)) (constantly nil)))

(defvar *read-dates* (make-hash-table :test 'equal)
  "From files to their dates when their #. forms were noted.")

(defun note-file-readings (file)
  "Note the #. forms in FILE, which is loaded, unless that was done before."
  (let ((date (date-of file)) (key (file-key file)))
    (unless (or (null date) (eql date (gethash key *read-dates*)))
      (setf (gethash key *read-dates*) date)
      (guarded (lambda ()
                 (with-open-file (stream file)
                   (let* ((text (make-string (file-length stream)))
                          (end (read-sequence text stream)))
                     (note-readings key (subseq text 0 end)))))
               (constantly nil)))))

(defun remember-text (pathname)
  "Remember the contents of the file PATHNAME, about to be compiled, if its date couldn't show a
change."
  (let ((date (date-of pathname)))
    (if (and date (< (- (get-universal-time) date) 3))
        (setf (gethash (namestring pathname) *compiled-digests*) (text-digest pathname))
        (remhash (namestring pathname) *compiled-digests*))))

(defun changed-unnoticed-p (operation component)
  "Whether the file of COMPONENT may have changed within the second in which OPERATION compiled it."
  (guarded (lambda ()
             (let* ((source (asdf-call "COMPONENT-PATHNAME" component))
                    (date (date-of source)))
               (and date
                    (eql date (date-of (first (asdf-call "OUTPUT-FILES" operation component))))
                    (not (eql (gethash (namestring source) *compiled-digests*)
                              (text-digest source))))))
           (constantly nil)))

(defun outdated-p (component)
  "Whether the file of COMPONENT has changed since it was compiled."
  (let* ((compile (asdf-call "MAKE-OPERATION" (asdf-class "COMPILE-OP")))
         (date (date-of (asdf-call "COMPONENT-PATHNAME" component)))
         ;; ECL keeps only one of several.
         (compiled (loop for output in (asdf-call "OUTPUT-FILES" compile component)
                         thereis (date-of output))))
    (and date
         (or (null compiled) (> date compiled) (changed-unnoticed-p compile component)))))

(defvar *failed-files* '()
  "The names of the files that failed to compile or load when last tried here.")

(defun source-name (component)
  (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
    (and pathname (namestring pathname))))

(defun failed-p (component)
  (member (source-name component) *failed-files* :test #'equal))

(defun call-counting-failure (component function)
  "Call FUNCTION, which compiles or loads COMPONENT; if it doesn't return, remember that."
  (let ((name (source-name component)) (done nil))
    (unwind-protect (multiple-value-prog1 (funcall function)
                      (setf done t))
      (unless done
        (pushnew name *failed-files* :test #'equal)))))

(defun plan-files (components)
  "Count those of COMPONENTS that are Lisp files as what is going to be compiled or loaded."
  (let ((class (asdf-class "CL-SOURCE-FILE")))
    (dolist (component components)
      (when (and class (typep component class))
        (let ((planned (build-planned *build*)))
          (setf (gethash component planned) (gethash component planned)))))))

(defun components-of-plan (plan)
  "The components that PLAN, one of ASDF's or a list of its actions, is going to do something with."
  (loop for action in (if (listp plan) plan (guarded (lambda () (asdf-call "PLAN-ACTIONS" plan))
                                                     (constantly '())))
        when (consp action) collect (cdr action)))

(defun begin-file (component)
  "Note that COMPONENT is being compiled or loaded now."
  (let ((planned (build-planned *build*)))
    (unless (gethash component planned)
      (setf (gethash component planned) t)
      (incf (build-begun *build*)))
    (let ((number (build-begun *build*)) (all (hash-table-count planned))
          (name (guarded (lambda ()
                           (format nil "~@[~A/~]~A"
                                   (unless (project-component-p component)
                                     (asdf-call "COMPONENT-NAME" (asdf-call "COMPONENT-SYSTEM" component)))
                                   (name-in-project component)))
                         (constantly "a file"))))
      (note-stage (lambda () (format nil "~:D of ~:D file~:P: ~A" number all name))))))

(defun call-compiling (component function)
  (if *build*
      (let ((*component* component))
        (begin-file component)
        (push component (build-compiled *build*))
        (guarded (lambda ()
                   (remember-text (asdf-call "COMPONENT-PATHNAME" component))
                   (note-project-text component))
                 (constantly nil))
        (call-counting-failure
         component
         (if *noting*
             function
             ;; Tests load systems while they run, with their own output around it.
             (lambda ()
               (call-omitting-compiler-lines (lambda () (call-noting-files function)))))))
      (funcall function)))

(defun note-project-text (component)
  "Note the text of the file of COMPONENT, which is loaded, if it is of the user's project."
  (when (project-component-p component)
    (note-source-text (asdf-call "COMPONENT-PATHNAME" component) t)))

(defun call-loading (component function)
  (if *build*
      (let ((*component* component))
        (begin-file component)
        (unless (member component (build-compiled *build*))
          (guarded (lambda () (note-project-text component)) (constantly nil)))
        (multiple-value-prog1 (call-counting-failure component function)
          (setf *failed-files* (remove (source-name component) *failed-files* :test #'equal))
          (incf (build-loaded *build*))
          (note-loaded-file)))
      (funcall function)))

(defun operation-objects (name)
  "The objects for the operation NAME. ASDF 3.1 has several, one for each way to request it."
  (let ((class (asdf-class name)) (make (optional-function "ASDF" "MAKE-OPERATION")))
    (and class make
         (remove-duplicates
          (cons (funcall make class)
                (guarded (lambda () (list (funcall make class :force t))) (constantly '())))))))

(defun observing-methods ()
  "Forms that define methods on ASDF's functions. No program has the same ones: but for the first, they
specialize on the very objects that stand for the operations."
  (let ((file (asdf-class "CL-SOURCE-FILE"))
        (perform (find-symbol "PERFORM" "ASDF"))
        (perform-all (find-symbol "PERFORM-PLAN" "ASDF"))
        (done (find-symbol "OPERATION-DONE-P" "ASDF")))
    (when (and file perform done)
      (append
       (and perform-all (fboundp perform-all)
            `((defmethod ,perform-all :before ((plan t) &key &allow-other-keys)
                (when *build* (plan-files (components-of-plan plan))))))
       (loop for compile in (operation-objects "COMPILE-OP")
             collect `(defmethod ,perform :around ((operation (eql ',compile)) (component ,file))
                        (call-compiling component (lambda () (call-next-method))))
             collect `(defmethod ,done :around ((operation (eql ',compile)) (component ,file))
                        (and (call-next-method)
                             (not (and *build* (or (failed-p component)
                                                   (changed-unnoticed-p operation component)))))))
       (loop for load in (operation-objects "LOAD-OP")
             collect `(defmethod ,perform :around ((operation (eql ',load)) (component ,file))
                        (call-loading component (lambda () (call-next-method)))))))))

(defun call-observing-asdf (function)
  "Call FUNCTION, noting in *BUILD* what ASDF does. Files that changed in the second in which they
were compiled are compiled again, and so are files that failed."
  (compile-now 'text-digest)
  (let ((methods (loop for form in (observing-methods)
                       collect (cons (fdefinition (second form)) (eval form)))))
    (unwind-protect (funcall function)
      (loop for (generic . method) in methods
            do (remove-method generic method)))))
