;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Loading systems through ASDF, or only looking for what they will stumble over. Operation: load-system.

(cl:in-package "AGENT-Q-IMAGE")

(defun load-system-named (name force)
  "Load the system NAME, noting what the compiler says; returns the system."
  (let ((load (asdf-function "LOAD-SYSTEM")) (system nil))
    (flet ((work ()
             (note-stage (constantly "planning"))
             (setf system (find-system-named name))
             (note-snags name force)
             (if force
                 (funcall load name :force t)
                 (funcall load name))))
      (call-building name (lambda ()
                            (call-looking-again (lambda () (call-accepting #'work))))))
    (dolist (component (source-components system))
      (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
        (when pathname (note-file-readings pathname))))
    ;; The next operation may make ASDF forget which of them are loaded.
    (dolist (entry *project-systems*)
      (let ((other (registered-system (getf entry :name))))
        (when other (whole-system-loaded-p other))))
    system))

(defun note-missing-files (system)
  "Note which source files of SYSTEM, which is loaded, are missing: ASDF doesn't mention them as
long as it has the compiled files."
  (dolist (component (source-components system))
    (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
      (when (and pathname (null (date-of pathname)))
        (add-note (list :severity "warning" :own t :file-name (file-text component)
                        :message (format nil "The file ~A is missing; the image only has what was ~
                                              loaded from it before."
                                         (native-name pathname))))))))

(defun loading-progress (name)
  "A function for *PROGRESS* that tells how far loading the system NAME has come."
  (let ((notes *notes*) (build *build*) (systems *project-systems*) (recoveries *recoveries*))
    (lambda ()
      (let ((*notes* notes) (*build* build) (*project-systems* systems))
        (append (list :current (format nil "loading ~A" name) :output (captured-text))
                (recoveries-of recoveries)
                (reported-notes))))))

(defun components-to-load (name force components)
  "Those of COMPONENTS that loading the system NAME loads now, by ASDF's plan; all where it makes none."
  (let* ((load (asdf-class "LOAD-OP")) (system (asdf-call "FIND-SYSTEM" name))
         (actions (guarded (lambda ()
                             (asdf-call "PLAN-ACTIONS" (asdf-call "MAKE-PLAN" nil (asdf-call "MAKE-OPERATION" load)
                                                                  system)))
                           (constantly t))))
    (if (listp actions)
        (remove-if-not (lambda (component)
                         (or (and force (eq system (asdf-call "COMPONENT-SYSTEM" component)))
                             (failed-p component)
                             (find-if (lambda (action)
                                        (and (consp action) (typep (car action) load) (eq component (cdr action))))
                                      actions)))
                       components)
        components)))

(defun dry-run (name force)
  "What loading the system NAME will stumble over, and which of the project's files it takes in what order."
  (unless (effects-asked-p)
    ;; The definition is code.
    (missed "dry_run needs an image whose effects are watched, as it loads the system's definition. ~
             load_system says the same before it loads."))
  (pushnew name (build-systems *build*) :test #'string=)
  (call-looking-again
   (lambda ()
     (let* ((system (find-system-named name))
            (components (plan-components name))
            (loaded (components-to-load name force components)))
       (append (system-facts system)
               (list :dry t
                     :files (mapcar #'name-in-project (page components 0 *file-limit*))
                     :file-count (length components)
                     :to-load (mapcar #'name-in-project (page loaded 0 *file-limit*))
                     :load-count (length loaded)
                     :before (few-snags (snags-before-loading name force))))))))

(define-operation "load-system" (system force restart systems file files dry-run)
  ;; Load a system, or FILES of loaded ones alone; returns what the compiler said about its files.
  ;; RESTART leaves an error. DRY-RUN: load nothing but the system's definition.
  (when (and dry-run files)
    (missed "dry_run is about a system; name one, without files. Nothing was loaded."))
  (let ((*notes* (list '()))
        (*build* (make-build))
        (*replacing* (or force dry-run))
        (name (cond (files "files")
                    (file (name-of-file file system systems))
                    (t (system-name-of-text (or system (missed "Give a system to load, or files.")))))))
    (flet ((again ()
             (setf *progress* (loading-progress name))
             (list* :again (load-again (mapcar (lambda (it) (getf it :file)) files))
                    :output (captured-text)
                    (append (reported-notes) (recoveries-of *recoveries*))))
           (work ()
             (setf *progress* (loading-progress name))
             (let ((loaded (load-system-named name force)))
               (note-missing-files loaded)
               (append (system-facts loaded) (reported-notes) (build-facts) (recoveries-of *recoveries*)
                       (list :output (captured-text))))))
      (call-recovering restart (lambda ()
                                 (call-with-project systems (cond (dry-run (lambda () (dry-run name force)))
                                                                  (files #'again)
                                                                  (t #'work))))))))
