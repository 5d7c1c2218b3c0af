;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Files of loaded systems, in the order in which they are loaded; loading some of them again, and
;;; nothing else.

(cl:in-package "AGENT-Q-IMAGE")

(defun systems-in-image ()
  (loop for name in (and (find-package "ASDF")
                         (guarded (lambda () (asdf-call "REGISTERED-SYSTEMS")) (constantly '())))
        for system = (registered-system name)
        when (and system (loaded-system-p system)) collect system))

(defun system-name (system)
  (asdf-fact "COMPONENT-NAME" system))

(defun lisp-components (system)
  "The Lisp files of SYSTEM, components, in the order in which they are loaded."
  (let ((class (asdf-class "CL-SOURCE-FILE"))
        (components (or (guarded (lambda ()
                                   (asdf-call "REQUIRED-COMPONENTS" system :other-systems nil
                                              :goal-operation (asdf-class "LOAD-OP")
                                              :keep-operation (asdf-class "LOAD-OP")))
                                 (constantly '()))
                        (source-components system))))
    (remove-if-not (lambda (it) (and class (typep it class))) components)))

(defun component-name-of-file (component)
  (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
    (and pathname (native-name (translate-logical-pathname pathname)))))

(defun component-of-file (file)
  "The component that the source FILE is in a loaded system, or NIL."
  (let ((key (file-key file)))
    (dolist (system (systems-in-image))
      (let ((folder (asdf-fact "SYSTEM-SOURCE-DIRECTORY" system)))
        (when (and folder (prefixed-p (file-key (native-name folder)) key))
          (let ((found (find key (source-components system)
                             :key (lambda (it)
                                    (let ((name (component-name-of-file it)))
                                      (and name (file-key name))))
                             :test #'equal)))
            (when found (return found))))))))

(defun in-order-of-needs (systems)
  "SYSTEMS, each behind those of them that it needs."
  (let ((seen '()) (ordered '()))
    (labels ((visit (system)
               (let ((name (system-name system)))
                 (unless (member name seen :test #'equal)
                   (push name seen)
                   (loop for (needed) in (needed-by system name)
                         for other = (find needed systems :key #'system-name :test #'equal)
                         when other do (visit other))
                   (push system ordered)))))
      (mapc #'visit systems))
    (nreverse ordered)))

(defun files-in-order (files)
  "FILES in the order in which their systems load them; those of no system come last."
  (let* ((systems (remove-duplicates
                   (loop for file in files
                         for component = (guarded (lambda () (component-of-file file)) (constantly nil))
                         when component collect (asdf-call "COMPONENT-SYSTEM" component))))
         (order (loop for system in (in-order-of-needs systems)
                      append (mapcar #'component-name-of-file (lisp-components system)))))
    (flet ((rank (file)
             (or (position (file-key file) order :test #'equal
                                                 :key (lambda (it) (and it (file-key it))))
                 (length order))))
      (stable-sort (copy-list files) #'< :key #'rank))))

(defun load-again (files)
  "Compile and load FILES, of loaded systems, as they are now and in the order of their systems, but
nothing else of those; returns their names."
  (let* ((strays (remove-if #'component-of-file files))
         (files (files-in-order (remove-duplicates files :test #'string=)))
         (components (mapcar #'component-of-file files))
         (done '()))
    (when strays
      (missed "~{~A~^, ~} ~:[are~;is~] in no system that the image has loaded, so nothing was loaded; compile_file loads ~
               such a file."
              strays (null (rest strays))))
    (flet ((work ()
             (plan-files components)
             (dolist (component components)
               (dolist (operation '("COMPILE-OP" "LOAD-OP"))
                 (asdf-call "PERFORM" (asdf-call "MAKE-OPERATION" (asdf-class operation)) component))
               (push (name-in-project component) done))))
      (call-building (system-name (asdf-call "COMPONENT-SYSTEM" (first components)))
                     (lambda ()
                       (call-accepting
                        (lambda ()
                          (let ((session (optional-function "ASDF/SESSION" "CALL-WITH-ASDF-SESSION")))
                            (if session (funcall session #'work) (work))))))))
    (mapc #'note-file-readings files)
    (nreverse done)))
