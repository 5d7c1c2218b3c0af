;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Other copies of the project's systems: which ones the image has loaded, and which ones ASDF
;;; would find by itself. Operation: system-place.

(cl:in-package "AGENT-Q-IMAGE")

(defun registered-system (name)
  "The system NAME, if the image has loaded its definition."
  (guarded (lambda ()
             (let ((function (optional-function "ASDF" "REGISTERED-SYSTEM")))
               (if function
                   (funcall function name)
                   (and (member name (asdf-call "REGISTERED-SYSTEMS") :test #'string=)
                        (asdf-call "FIND-SYSTEM" name nil)))))
           (constantly nil)))

(defun same-file-p (one other)
  (equal (guarded (lambda () (truename one)) (constantly one))
         (guarded (lambda () (truename other)) (constantly other))))

(defvar *seen-loaded* (make-hash-table :test 'equal)
  "From names of systems seen loaded to the files that define them.")

(defun whole-system-loaded-p (system)
  "Whether SYSTEM is loaded. ASDF forgets that when a test operation loads more and so defines the
systems of the same file again; so once seen, it stays true until a load fails."
  (let ((name (asdf-fact "COMPONENT-NAME" system)) (file (system-file system)))
    (cond ((asdf-fact "COMPONENT-LOADED-P" system)
           (setf (gethash name *seen-loaded*) file)
           t)
          (t (and file
                  (equal file (gethash name *seen-loaded*))
                  (notany #'failed-p (source-components system)))))))

(defun loaded-system-p (system)
  "Whether any part of SYSTEM is loaded."
  (or (whole-system-loaded-p system)
      (some (lambda (it) (asdf-fact "COMPONENT-LOADED-P" it)) (source-components system))))

(defun second-copy (file)
  "A list of the name of a loaded system that FILE, of the project, also defines, and the other file
that it was loaded from; or NIL."
  (let ((pathname (native-pathname file)))
    (dolist (name (guarded (lambda () (asdf-call "REGISTERED-SYSTEMS")) (constantly '())))
      (when (equal file (getf (project-entry name) :file))
        (let* ((system (registered-system name))
               (source (and system (asdf-fact "SYSTEM-SOURCE-FILE" system))))
          (when (and source
                     (not (same-file-p source pathname))
                     (loaded-system-p system))
            (return (list name (native-name source)))))))))

(defun copy-for-file (file systems)
  "SECOND-COPY for the one of SYSTEMS, of the project, whose directory contains the source FILE."
  (and file
       (find-package "ASDF")
       (let ((*project-systems* systems) (best nil))
         (dolist (entry systems)
           (let ((directory (directory-part (getf entry :file))))
             (when (and (prefixed-p directory file)
                        (> (length directory) (length (directory-part (or best "")))))
               (setf best (getf entry :file)))))
         (and best (second-copy best)))))

(defun refuse-second-copy (file)
  "End the operation if the image has loaded a system of FILE, of the project, from elsewhere."
  (let ((copy (second-copy file)))
    (when copy
      (missed "The image has loaded ~A from another place, ~A; the project's is ~A. Nothing was loaded, as ~
               one over the other can leave definitions of both, and fail where structures or exports ~
               differ. A restarted image is safest (ask the user); load_system with force loads the ~
               project's over it."
              (first copy) (second copy) file))))

(defun registry-file (name)
  "The file that ASDF itself would find for the system NAME, unless it is the project's."
  (let ((ours (project-file name)))
    (loop for search in (guarded (lambda ()
                                   (symbol-value (find-symbol "*SYSTEM-DEFINITION-SEARCH-FUNCTIONS*"
                                                              "ASDF")))
                                 (constantly '()))
          for found = (and (looking-search-p search)
                           (guarded (lambda () (funcall search name)) (constantly nil)))
          when (pathnamep found)
            return (and (not (and ours (same-file-p ours found)))
                        (native-name found)))))

(defun looking-search-p (search)
  "Whether SEARCH, one of ASDF's search functions, only looks: others may download systems."
  (and (symbolp search)
       (member (symbol-name search)
               '("SYSDEF-CENTRAL-REGISTRY-SEARCH" "SYSDEF-SOURCE-REGISTRY-SEARCH"
                 "LOCAL-PROJECTS-SEARCHER" "SYSTEM-DEFINITION-SEARCHER")
               :test #'string=)
       (or (prefixed-p "ASDF" (package-name (symbol-package search)))
           (equal "QUICKLISP-CLIENT" (package-name (symbol-package search))))))

(defun findable-p (name)
  "Whether ASDF may find the system NAME, of no project; doesn't download anything."
  (let ((name (primary-name name)))
    (flet ((found-p ()
             (some (lambda (search)
                     (or (not (or (looking-search-p search) (search-of-asdf-p search)))
                         (guarded (lambda () (funcall search name)) (constantly t))))
                   (guarded (lambda ()
                              (symbol-value (find-symbol "*SYSTEM-DEFINITION-SEARCH-FUNCTIONS*"
                                                         "ASDF")))
                            (constantly '(unknown))))))
      (or (found-p)
          (and (look-again) (found-p))))))

(defun search-of-asdf-p (search)
  "Whether SEARCH is ASDF's own search function: those only look."
  (and (symbolp search)
       (prefixed-p "ASDF" (package-name (symbol-package search)))))

(defun name-of-file (file text systems)
  "The name of the system that TEXT means, which names the FILE that defines SYSTEMS."
  (let ((name (system-name-of-text text))
        (names (loop for it in systems
                     when (equal file (getf it :file)) collect (getf it :name))))
    (or (find name names :test #'string=) (first names) name)))

(define-operation "system-place" (system systems file)
  ;; Where a system would be loaded from, before anything is loaded.
  (when (find-package "ASDF")
    (let* ((*project-systems* systems)
           (name (if file (name-of-file file system systems) (system-name-of-text system)))
           (entry (project-entry name))
           (found (registered-system name)))
      (unless entry
        (unless (or found (registered-system (primary-name name)) (findable-p name))
          (no-such-systems (list (list name nil))))
        (unless (and found (loaded-system-p found))
          (setf found nil)))
      (list :copy (and entry (second-copy (getf entry :file)))
            :file (if entry
                      (getf entry :file)
                      (or (and found (system-file found)) (registry-file name)))
            :other (and entry (registry-file name))))))
