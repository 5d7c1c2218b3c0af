;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What consent to building a system, or to compiling a file or a form, implies: files of the
;;; system and of its dependencies, their compiled files and where those are kept, and temporary
;;; files. Anything else that the code does is asked about as usual.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (work (:type vector) (:copier nil))
  ;; :BUILD, :COMPILE, or :PLAN, which takes definitions of systems; the names of the systems being
  ;; built. Then what loaded code could change, as it was in the beginning: where ASDF keeps compiled
  ;; files, where temporary files are, and a table from systems to their directories, to which a
  ;; system is added when first seen. Then when it began.
  kind names cache temporary (directories (make-hash-table :test 'equal))
  (started (get-universal-time))
  ;; True if the user has agreed to the code itself: for files.
  whole)

(defun scope-of (operation arguments)
  "The work that the operation implies by itself, or NIL."
  (cond ((getf arguments :dry-run) (new-work :plan))
        ((member operation '("load-system" "run-tests") :test #'equal)
         (let ((system (getf arguments :system)))
           (new-work :build (and system (system-name-of-text system)))))
        ((member operation '("compile-file" "compile-form") :test #'equal)
         (let ((work (new-work :compile)))
           (setf (work-whole work) (equal operation "compile-file"))
           work))))

(defun new-work (kind &rest names)
  (let ((work (make-work :kind kind :whole (eq kind :build) :names (remove nil names) :cache (cache-directory)
                         :temporary (temporary-directories))))
    (mapc (lambda (name) (system-directory work name)) (asdf-value "REGISTERED-SYSTEMS"))
    work))

(defun in-scope-p (work effect &optional (written (constantly nil)))
  "Whether EFFECT is part of WORK, which may be NIL. The function WRITTEN tells of a file's name
whether the call has made that file."
  (or (contrib-p effect)
      (and work
           (case (work-kind work)
             (:build (or (building-p work effect)
                         (and (file-kind-p effect)
                              (temporary-p effect (work-temporary work))
                              (every (lambda (name)
                                       (or (funcall written name)
                                           (new-file-p name (work-started work))))
                                     (effect-files effect)))))
             (:compile (compiling-p effect (work-temporary work) written))
             (:plan (defining-p effect))))))

(defun work-of-building (hold effect)
  "The work that EFFECT, of having ASDF build something, is under HOLD."
  (let ((work (consent-scope (first hold))))
    ;; Nobody has agreed to more than the plan.
    (if (and work (eq (work-kind work) :plan))
        work
        (new-work :build (effect-target effect)))))

(defun defining-p (effect)
  "Whether EFFECT is to load the definition of a system. What the code in it does is asked about."
  (and (equal (effect-kind effect) "load-file")
       (= 1 (length (effect-files effect)))
       (ends-with-p ".asd" (first (effect-files effect)))))

;;; Names

(defun directory-name (designator)
  "The real name of the directory DESIGNATOR, with a slash at its end; NIL if it has none."
  (let ((native (and designator (native-text designator))))
    (and native
         (format nil "~A/" (string-right-trim "/" (followed native))))))

(defun within-p (name directory)
  (and directory
       (> (length name) (length directory) 1)
       (string= directory name :end2 (length directory))))

(defun all-within-p (effect directory)
  (and (effect-files effect)
       (every (lambda (name) (within-p (format nil "~A/" name) directory)) (effect-files effect))))

(defun leads-to-p (effect directory)
  "Whether EFFECT is to make DIRECTORY, which may be NIL, or what it is in."
  (and directory
       (equal (effect-kind effect) "make-directory")
       (every (lambda (name) (prefixed-p (format nil "~A/" name) directory)) (effect-files effect))))

(defun file-kind-name-p (kind)
  (member kind
          '("write-file" "delete-file" "rename-file" "make-directory" "change-attributes" "load-file")
          :test #'equal))

(defun file-kind-p (effect)
  (file-kind-name-p (effect-kind effect)))

(defun contrib-p (effect)
  "Whether EFFECT is to load something that comes with the implementation."
  (and (equal (effect-kind effect) "load-file")
       (all-within-p effect (directory-name
                             (guarded (lambda () (internal "SB-INT" "SBCL-HOMEDIR-PATHNAME"))
                                      (constantly nil))))))

;;; Systems

(defun asdf-value (name &rest arguments)
  "The value of ASDF's function NAME, or NIL, also if ASDF isn't there yet."
  (let ((function (optional-function "ASDF" name)))
    (and function
         (guarded (lambda () (apply function arguments)) (constantly nil)))))

(defun cache-directory ()
  "Where ASDF keeps compiled files, by the user's settings."
  (let ((name (directory-name (asdf-value "APPLY-OUTPUT-TRANSLATIONS" #p"/"))))
    (if (equal name "/") nil name)))

(defun temporary-directories ()
  "Where programs keep temporary files: by UIOP, and by the environment of this process."
  (let ((names (list "/tmp/")))
    ;; In a saved image, UIOP's own is that of another process.
    (dolist (name '("TEMPORARY-DIRECTORY" "DEFAULT-TEMPORARY-DIRECTORY"))
      (push (guarded (lambda () (internal "UIOP" name)) (constantly nil)) names))
    (remove nil (mapcar #'directory-name names))))

(defun temporary-p (effect directories)
  "Whether EFFECT is about a temporary file such as UIOP makes."
  (and (effect-files effect)
       (loop for name in (effect-files effect)
             always (loop for directory in directories
                            thereis (prefixed-p (concatenate 'string directory "tmp") name)))))

(defun new-file-p (name time)
  "Whether there is no file NAME, or it was written since TIME."
  (let ((pathname (native-pathname-of name)))
    (or (null (probe-file pathname))
        (>= (or (ignore-errors (file-write-date pathname)) 0) time))))

(defun own-temporary-p (consent effect)
  "Whether EFFECT is about a temporary file such as UIOP makes: a new one, or one that the call
made."
  (and (temporary-p effect (temporary-directories))
       (every (lambda (name)
                (or (gethash name (consent-written consent))
                    (and (equal (effect-kind effect) "write-file")
                         (null (probe-file (native-pathname-of name))))))
              (effect-files effect))))

(defun dependencies (names)
  "NAMES of systems, and those of all systems that they depend on, as far as ASDF knows them by now."
  (let ((found '()) (open names))
    (loop while open
          do (let* ((name (pop open))
                    (name (and (or (stringp name) (symbolp name)) (string-downcase name)))
                    (system (and name (asdf-value "REGISTERED-SYSTEM" name))))
               (when (and system (not (member name found :test #'equal)))
                 (push name found)
                 (setf open (append (asdf-value "SYSTEM-DEPENDS-ON" system)
                                    (asdf-value "SYSTEM-DEFSYSTEM-DEPENDS-ON" system)
                                    open)))))
    found))

(defun system-directory (work name)
  "The directory of the system NAME when WORK began, or when the system was first seen."
  (let ((directories (work-directories work)))
    (multiple-value-bind (directory known) (gethash name directories)
      ;; Given the name, ASDF would look for the system again, in the middle of looking for it.
      (let ((system (and (not known) (asdf-value "REGISTERED-SYSTEM" name))))
        (if system
            (setf (gethash name directories)
                  (directory-name (asdf-value "SYSTEM-SOURCE-DIRECTORY" system)))
            directory)))))

(defun system-directory-p (effect work names)
  (loop for name in names
          thereis (all-within-p effect (system-directory work name))))

(defun building-p (work effect)
  "Whether EFFECT is part of building the systems of WORK."
  (cond ((equal (effect-kind effect) "foreign-code")
         (if (effect-files effect)
             (library-of-system-p effect)
             ;; These have hooks of their own: what those call is asked about then.
             (or (member (effect-target effect) (foreign-lists) :key #'first :test #'equal)
                 (member (effect-target effect) (memory-foreign-names) :test #'equal))))
        ;; Libraries change readtables while they load.
        ((equal (effect-kind effect) "take-over")
         (equal (effect-target effect) "how text is read, by everybody"))
        ((equal (effect-kind effect) "redefine")
         (and (equal (first (effect-detail effect)) "new method") (loading-other-p work)))
        ((not (file-kind-p effect)) nil)
        ((null (effect-files effect)) (equal (effect-kind effect) "load-file"))
        ((let ((cache (or (work-cache work) (setf (work-cache work) (cache-directory)))))
           (or (all-within-p effect cache) (leads-to-p effect cache))))
        ((system-directory-p effect work
                             (remove-if-not (lambda (name) (building-now-p work name))
                                            (dependencies (work-names work)))))
        ;; Loaded code is watched itself.
        ((equal (effect-kind effect) "load-file")
         (or (equal "asd" (pathname-type (first (effect-files effect))))
             (system-directory-p effect work (asdf-value "REGISTERED-SYSTEMS"))))))

(defun building-now-p (work name)
  "Whether the file being compiled or loaded, if any, is of the system NAME: no other system's code
may touch its sources."
  (let ((file (or *load-truename* *compile-file-truename*))
        (directory (system-directory work name)))
    (or (null file) (null directory)
        ;; Compiled files are kept under the names of their sources.
        (search directory (real-name file)))))

(defun loading-other-p (work)
  "Whether ASDF is loading a file of a system that those of WORK depend on, but not of one of them."
  (let ((component (and (boundp '*component*) (symbol-value '*component*))))
    (and component
         (let ((name (asdf-value "COMPONENT-NAME" (asdf-value "COMPONENT-SYSTEM" component))))
           (and (member name (dependencies (work-names work)) :test #'equal)
                (not (member name (work-names work) :test #'equal)))))))

(defun library-of-system-p (effect)
  "Whether the library of EFFECT is one of the operating system's, not one that somebody put
somewhere."
  (let ((given (second (effect-texts effect))))
    (or (not (find #\/ given))
        (loop for directory in '("/lib/" "/lib64/" "/usr/lib/" "/usr/lib64/" "/usr/local/lib/"
                                 "/opt/homebrew/")
                thereis (within-p (first (effect-files effect)) directory)))))

(defun effect-of-operate (arguments)
  "The effect of having ASDF build a system, or load its definition."
  (destructuring-bind (operation component &rest rest) arguments
    (declare (ignore rest))
    (let* ((component (if (and (consp component) (null (rest component))) (first component) component))
           (name (if (or (stringp component) (symbolp component))
                     (string-downcase component)
                     (or (asdf-value "COMPONENT-NAME" component) "a system"))))
      (cond ((string= "DEFINE-OP" (operation-name operation))
             (effect-of-defining-system component name))
            ((stands-for-require-p component name) nil)
            (t (let ((file (file-of-implementation component name)))
                 (make-effect :kind "load-file" :target name :texts (list name)
                              :files (and file (list (native-text file)))
                              :words (format nil "build the system ~A" name))))))))

(defun stands-for-require-p (component name)
  "Whether building COMPONENT, called NAME, calls REQUIRE, or has nothing to build: ASDF itself."
  (or (string= name "asdf")
      (let ((class (class-name (class-of component))))
        (and (string= class "REQUIRE-SYSTEM")
             (prefixed-p "ASDF" (package-name (symbol-package class)))))))

(defun file-of-implementation (component name)
  "The file that defines the system COMPONENT, called NAME, if it comes with the implementation."
  (let* ((system (if (or (stringp component) (symbolp component))
                     (asdf-value "REGISTERED-SYSTEM" name)
                     component))
         (file (if system
                   (asdf-value "SYSTEM-SOURCE-FILE" system)
                   (guarded (lambda ()
                              (probe-file (merge-pathnames (format nil "contrib/~A.asd" name)
                                                           (internal "SB-INT" "SBCL-HOMEDIR-PATHNAME"))))
                            (constantly nil)))))
    (and file (contrib-p (file-effect "load-file" "load ~A" file)) file)))

(defun operation-name (operation)
  (symbol-name (if (symbolp operation) operation (class-name (class-of operation)))))

(defun effect-of-defining-system (component name)
  "The effect of having ASDF load the definition of the system NAME, unless that file is already
loaded."
  (let* ((file (asdf-value "SYSTEM-SOURCE-FILE" component))
         (known (asdf-value "REGISTERED-SYSTEM" name))
         (known-file (and known (not (eq known component))
                          (asdf-value "SYSTEM-SOURCE-FILE" known))))
    (unless (and file known-file (equal (native-text file) (native-text known-file)))
      (let ((effect (if file
                        (file-effect "load-file"
                                     (format nil "load ~~A, which defines the system ~A" name) file)
                        (make-effect :kind "load-file"
                                     :words (format nil "load the definition of the system ~A" name)))))
        (setf (effect-target effect) name
              (effect-texts effect) (cons name (effect-texts effect)))
        effect))))

;;; What is compiled for the call

(defun compiling-p (effect directories written)
  "Whether EFFECT is about files through which the client and we compile something: new ones."
  (and (file-kind-p effect)
       (effect-files effect)
       (every (lambda (name)
                (and (member (directory-part name) directories :test #'equal)
                     (temporary-name-p (last-part name))
                     (or (funcall written name)
                         (null (probe-file (native-pathname-of name))))))
              (effect-files effect))))

(defun temporary-name-p (name)
  "Whether the client or we give a file to compile the name NAME: six or eight characters after a
word."
  (let* ((dot (or (position #\. name) (length name)))
         (start (find-if (lambda (it) (prefixed-p it name)) '("agent-q-" "slime" "sly"))))
    (and start
         (<= 5 (- dot (length start)) 8)
         (every #'alphanumericp (subseq name (length start) dot))
         (or (= dot (length name))
             (member (subseq name (1+ dot)) '("lisp" "fasl" "fasl-tmp") :test #'equal)))))

(defun effect-of-output-translations (arguments)
  "The effect of changing where ASDF keeps compiled files."
  (when (first arguments)
    (effect-of-taking-over "where ASDF keeps what it compiles")))
