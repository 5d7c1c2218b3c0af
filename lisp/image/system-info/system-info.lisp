;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a system is, without loading anything. Operation: system-info.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *component-limit* 100
  "How many files of a system to list.")

(defun dependency-text (dependency)
  "The name in DEPENDENCY, as written in system definitions; also (:version \"foo\" \"1\")."
  (typecase dependency
    (string dependency)
    (symbol (string-downcase (symbol-name dependency)))
    (cons (let ((name (find-if (lambda (it) (and it (typep it '(or string symbol))))
                               (rest dependency)
                               :from-end (eq :feature (first dependency)))))
            (case (first dependency)
              (:version (format nil "~A ~{~A~}" (dependency-text name) (cddr dependency)))
              (:feature (let ((wanted (first (last dependency))))
                          (dependency-text wanted)))
              (t (if name (dependency-text name) (princ-to-string dependency))))))
    (t (princ-to-string dependency))))

(defun dependency-names (fact system)
  (mapcar #'dependency-text (asdf-fact fact system)))

(defun dependents (name)
  "The names of the systems with a loaded definition that depend on the system NAME."
  (sort (loop for other in (guarded (lambda () (asdf-call "REGISTERED-SYSTEMS")) (constantly '()))
              for system = (registered-system other)
              when (and system
                        (member name (append (asdf-fact "SYSTEM-DEPENDS-ON" system)
                                             (asdf-fact "SYSTEM-DEFSYSTEM-DEPENDS-ON" system))
                                :key (lambda (it)
                                       (let ((text (dependency-text it)))
                                         (subseq text 0 (position #\Space text))))
                                :test #'string=))
                collect other)
        #'string<))

;;; Files

(defun component-state (component)
  "What to say about the file of COMPONENT: that its current version isn't loaded; or NIL."
  (guarded (lambda ()
             (let* ((lisp (asdf-class "CL-SOURCE-FILE"))
                    (source (asdf-call "COMPONENT-PATHNAME" component))
                    (date (date-of source)))
               (cond ((null date) "the file is missing")
                     ((failed-p component) "its last load failed")
                     ((not (and lisp (typep component lisp))) nil)
                     ((not (or (asdf-call "COMPONENT-LOADED-P" component)
                               (whole-system-loaded-p (asdf-call "COMPONENT-SYSTEM" component))))
                      "not loaded")
                     ((outdated-p component) "changed since it was loaded"))))
           (constantly nil)))

(defun component-path (component directory)
  (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
    (if pathname
        (native-name (if directory (enough-namestring pathname directory) pathname))
        (asdf-fact "COMPONENT-NAME" component))))

(defun component-list (components system)
  (let ((directory (asdf-fact "SYSTEM-SOURCE-DIRECTORY" system)))
    (loop for component in components
          repeat *component-limit*
          collect (list :path (component-path component directory)
                        :state (component-state component)))))

;;; Packages

(defun defined-packages (components)
  "The packages that the files of COMPONENTS define."
  (let ((files (loop for component in components
                     for pathname = (asdf-fact "COMPONENT-PATHNAME" component)
                     when pathname collect (namestring pathname))))
    (loop for package in (list-all-packages)
          for source = (and (not (implementation-package-p package)) (package-source package))
          when (and source (member source files :test #'string=))
            collect (list :name (package-name package) :source (file-namestring source)))))

;;; The operation

(defun listed-systems ()
  (loop for entry in *project-systems*
        for name = (getf entry :name)
        for copy = (second-copy (getf entry :file))
        collect (list :name name :file (getf entry :file)
                      :state (let ((system (registered-system name)))
                               (cond (copy (format nil "not loaded; the image has ~A"
                                                   (second copy)))
                                     ((and system (whole-system-loaded-p system)) "loaded")
                                     (t (format nil "not loaded~@[; ASDF by itself would take ~A~]"
                                                (registry-file name))))))))

(defun described-system (system name)
  (let ((components (source-components system))
        (description (asdf-fact "SYSTEM-DESCRIPTION" system)))
    (append (list :defined t)
            (system-facts system)
            (list :description (and (stringp description)
                                    (shortened (substitute #\Space #\Newline (trimmed description))
                                               200))
                  :depends-on (dependency-names "SYSTEM-DEPENDS-ON" system)
                  :defined-with (dependency-names "SYSTEM-DEFSYSTEM-DEPENDS-ON" system)
                  :needed-by (dependents name)
                  :components (component-list components system)
                  :component-count (length components)
                  :packages (defined-packages components)))))

(define-operation "system-info" (system systems file)
  ;; What a system is; without SYSTEM, which ones the user's project has.
  (asdf-function "FIND-SYSTEM")
  (let ((*project-systems* systems))
    (if (null system)
        (list :listed (listed-systems))
        (let* ((name (if file (name-of-file file system systems) (system-name-of-text system)))
               (found (registered-system name))
               (entry (project-entry name)))
          (cond (found (described-system found name))
                (entry (list :system name :file (getf entry :file)))
                (t (missed "No definition of the system ~A is loaded.~@[ Near names: ~{~A~^, ~}.~] load_system finds it, if ASDF can."
                           name (near-systems name))))))))
