;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Systems loaded through ASDF, with what the compiler said about their files: what can make a load
;;; fail first. Operations: load-system, last-notes.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *last-notes* '()
  "What the compiler said about the files of the last system that was loaded here, in its order.")

(defparameter *kept-notes* 5000
  "How many of these are kept.")

;;; Notes of files

(defun own-component-p (component)
  "Whether COMPONENT is of the system that was asked for, or of another one of the user's project."
  (or (null component)
      (let ((name (asdf-call "COMPONENT-NAME" (asdf-call "COMPONENT-SYSTEM" component))))
        (or (member (primary-name name) (build-systems *build*)
                    :key #'primary-name :test #'string=)
            (project-entry name)))))

(defun file-text (component)
  "The name of COMPONENT's file as people say it."
  (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
    (if pathname (file-namestring pathname) "a file")))

(defparameter *asdf-warning-limit* 2
  "How many of ASDF's own warnings, which are about definitions of systems, are shown.")

(defun asdf-warning-p (note)
  "Whether NOTE is a warning that is about no source file."
  (and (null (getf note :file-name)) (null (getf note :location)) (zerop (severity-rank note))))

(defun others-complaint-p (note)
  "Whether NOTE, a warning of ASDF's own, is about the definition of a system outside the user's project."
  (let ((message (getf note :message)))
    (and *project-systems* (search ".asd" message)
         (notany (lambda (entry) (search (getf entry :file) message)) *project-systems*))))

(defun component-at (location)
  "The component that is compiled, or was in this call: what is undefined is only said at the end."
  (or *component*
      (let ((file (getf location :file)))
        (find file (and file (build-compiled *build*))
              :key (lambda (it) (namestring (asdf-call "COMPONENT-PATHNAME" it)))
              :test #'equal))))

(defvar *told-warnings* '()
  "Warnings of ASDF's own that were shown: they come again with each load.")

(defun new-complaints (notes)
  "Those of NOTES, warnings of ASDF's own, that were not shown before, a few; they count as shown."
  (let ((new (remove-if (lambda (note)
                          (member (getf note :message) *told-warnings* :test #'equal))
                        notes)))
    (dolist (note new)
      (push (getf note :message) *told-warnings*))
    new))

(defun note-about-file (condition text)
  (let* ((location (location-plist (backend "LOCATION" condition)))
         (component (component-at location)))
    (list :severity (severity-text condition)
          :message text
          :location location
          :file-name (and component (file-text component))
          :own (and (own-component-p component) t))))

(defun note-of-file (condition)
  (let ((text (note-text condition)))
    ;; ASDF sums up what was noted already, by a warning or an error.
    (cond ((prefixed-p "Lisp compilation had" text) (muffle condition))
          ((prefixed-p "COMPILE-FILE-ERROR while" text))
          (t (let ((note (note-about-file condition text)))
               (add-note note)
               ;; Whether a file that is compiled fails depends on the warnings about it that are not
               ;; muffled; otherwise they would be printed besides.
               (when (or (asdf-warning-p note) (null *compile-file-truename*))
                 (muffle condition)))))))

(defun exported-elsewhere (message)
  "MESSAGE, and where else there is the function that it misses: a package may just not be used."
  (let* ((prefix "undefined function: ")
         (name (and (prefixed-p prefix message) (subseq message (length prefix))))
         (symbol (and name (guarded (lambda () (let ((*read-eval* nil)) (read-from-string name)))
                                    (constantly nil))))
         (others (and symbol (symbolp symbol) (symbol-package symbol)
                      (remove-if-not (lambda (other)
                                       (and (fboundp other)
                                            (eq :external (nth-value 1 (find-symbol (symbol-name other)
                                                                                    (symbol-package other))))))
                                     (elsewhere (symbol-name symbol) (symbol-package symbol))))))
    (if (<= 1 (length others) 3)
        (format nil "~A (there is ~{~A~^, ~})" message (mapcar #'symbol-text others))
        message)))

(defun shown-note (note)
  (list :severity (getf note :severity) :message (exported-elsewhere (getf note :message))
        :location (getf note :location)
        ;; Of a form.
        :where (getf note :where) :line (getf note :line) :column (getf note :column)))

(defun counted-by-file (notes)
  "How many of NOTES there are in which file: lists of its name and a number."
  (let ((counts '()))
    (dolist (note notes (nreverse counts))
      (let* ((name (or (getf note :file-name) "no file"))
             (count (assoc name counts :test #'string=)))
        (if count
            (incf (second count))
            (push (list name 1) counts))))))

(defun told-notes ()
  "What is shown of this call's notes: errors and warnings of all files, style-warnings of our own.
Optimization notes are only counted."
  (let ((notes (noted *notes*)))
    (flet ((among (predicate) (remove-if-not predicate notes))
           (minor-p (note)
             (or (plusp (severity-rank note))
                 (search "deprecated" (getf note :message)))))
      (let ((problems (among (lambda (it)
                               (and (zerop (severity-rank it)) (not (asdf-warning-p it))
                                    (or (getf it :own) (not (minor-p it)))))))
            (complaints (new-complaints (among (lambda (it)
                                                 (and (asdf-warning-p it)
                                                      (not (others-complaint-p it)))))))
            (others (among (lambda (it)
                             (and (getf it :own) (= 1 (severity-rank it))))))
            (minor (among (lambda (it) (and (getf it :own) (= 2 (severity-rank it))))))
            (elsewhere (among (lambda (it)
                                (if (asdf-warning-p it)
                                    (others-complaint-p it)
                                    (and (not (getf it :own)) (minor-p it)))))))
        (multiple-value-bind (told more) (foremost-notes (append problems others) *note-limit*)
          (list :notes (append (mapcar #'shown-note told)
                               (loop for note in complaints
                                     repeat *asdf-warning-limit* collect (shown-note note)))
                :more (+ more (max 0 (- (length complaints) *asdf-warning-limit*)))
                :counts (counted-by-file minor)
                :elsewhere (length elsewhere)))))))

(defun keep-notes ()
  "Keep what the compiler said in this call for LAST-NOTES, if it had anything to do."
  (let ((notes (noted *notes*)))
    (when (or notes (build-compiled *build*))
      (setf *last-notes* (subseq notes 0 (min *kept-notes* (length notes)))))))

(define-operation "last-notes" (limit offset)
  ;; A part of what the compiler said about the files of the last system that was loaded.
  (let ((offset (or offset 0)))
    (list :notes (mapcar #'shown-note (page *last-notes* offset (page-size limit 50 200)))
          :offset offset
          :total (length *last-notes*))))

;;; Loading

(defparameter *file-limit* 12
  "How many of the files that were compiled are named.")

(defun root-of (entry)
  "The folder of the user's project, by ENTRY, one of its systems: its file, which is :PLACE there."
  (let* ((file (getf entry :file)) (place (getf entry :place))
         (end (and file place (- (length file) (length place)))))
    (if (and end (plusp end) (string= place file :start2 end))
        (subseq file 0 end)
        "")))

(defun name-in-project (component)
  "The name of the file of COMPONENT from the folder of the user's project, or that of its system."
  (let* ((pathname (asdf-fact "COMPONENT-PATHNAME" component))
         (name (if pathname (native-name pathname) "a file"))
         (own (system-file (asdf-call "COMPONENT-SYSTEM" component)))
         (roots (append (mapcar #'root-of *project-systems*)
                        (and own (list (subseq own 0 (1+ (or (position #\/ own :from-end t) -1)))))))
         (root (find-if (lambda (root) (and (string/= root "") (prefixed-p root name))) roots)))
    (subseq name (length root))))

(defun build-facts ()
  "What was compiled and loaded for the system that was asked for, and for others."
  (flet ((names (own)
           ;; A system that is defined again has its files again.
           (loop for component in (remove-duplicates (reverse (build-compiled *build*))
                                                     :key #'source-name :test #'equal)
                 when (eq own (and (own-component-p component) t))
                   collect (name-in-project component))))
    (let ((own (names t)))
      (list :compiled (subseq own 0 (min *file-limit* (length own)))
            :compiled-count (length own)
            :compiled-elsewhere (length (names nil))
            :redefined (sort (copy-list (first *redefined*)) #'> :key #'second)
            :loaded (build-loaded *build*)))))

(defun call-building (name function)
  "Call FUNCTION, which has ASDF build the system NAME; what the compiler says is noted."
  (pushnew name (build-systems *build*) :test #'string=)
  (unwind-protect
       (call-omitting-compiler-lines
        (lambda ()
          (call-watching-asdf (lambda () (call-noting-files function)))))
    (keep-notes)))

(defun call-noting-files (function)
  "Call FUNCTION, in which files are compiled; what the compiler says of them is noted."
  (let ((*noting* t))
    (call-noting (lambda () (backend "CALL-WITH-COMPILATION-HOOKS" function)) #'note-of-file)))

(defun call-accepting (function)
  "Call FUNCTION, in which ASDF loads what compiled with warnings if the caller's restart is to go on.
When it says that there were any it has deleted what was compiled, and no restart brings that back."
  (let ((behaviour (and *restart*
                        (member (trimmed *restart*) '("continue" "accept") :test #'string-equal)
                        (find-package "UIOP")
                        (find-symbol "*COMPILE-FILE-FAILURE-BEHAVIOUR*" "UIOP"))))
    (progv (and behaviour (list behaviour)) '(:ignore)
      (funcall function))))

(defun load-system-named (name force)
  "Load the system NAME, noting what the compiler says; the system."
  (let ((load (asdf-function "LOAD-SYSTEM")) (system nil))
    (flet ((work ()
             (setf system (find-system-named name))
             (if force
                 (funcall load name :force t)
                 (funcall load name))))
      (call-building name (lambda ()
                            (call-looking-again (lambda () (call-accepting #'work))))))
    (dolist (component (source-components system))
      (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
        (when pathname (note-file-readings pathname))))
    ;; What is done next may have ASDF forget which of them are loaded.
    (dolist (entry *project-systems*)
      (let ((other (registered-system (getf entry :name))))
        (when other (whole-system-loaded-p other))))
    system))

(defun system-file (system)
  (let ((file (asdf-fact "SYSTEM-SOURCE-FILE" system)))
    (and file (native-name file))))

(defun system-facts (system)
  (let* ((name (asdf-fact "COMPONENT-NAME" system))
         (version (asdf-fact "COMPONENT-VERSION" system))
         (file (system-file system))
         (ours (project-file name))
         (taken (and ours file (same-file-p ours (native-pathname file)))))
    (list :system name
          :version (and (stringp version) version)
          :file file
          ;; The image may have another one than the project does.
          :ours (and ours (not taken) (native-name ours))
          :other (and taken (registry-file name)))))

(defun note-missing-files (system)
  "Note which source files of SYSTEM, which is loaded, are not there: ASDF says nothing of them
while it has what they were compiled to."
  (dolist (component (source-components system))
    (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
      (when (and pathname (null (date-of pathname)))
        (add-note (list :severity "warning" :own t :file-name (file-text component)
                        :message (format nil "The file ~A is missing; the image only has what was ~
                                              loaded from it before."
                                         (native-name pathname))))))))

(defun loading-progress (name)
  "A function that says how far the load of the system NAME has come, for *PROGRESS*."
  (let ((notes *notes*) (build *build*) (systems *project-systems*) (recoveries *recoveries*))
    (lambda ()
      (let ((*notes* notes) (*build* build) (*project-systems* systems))
        (append (list :current (format nil "loading ~A" name) :output (captured-text))
                (recoveries-of recoveries)
                (told-notes))))))

(define-operation "load-system" (system force restart systems file)
  ;; Load a system; what the compiler said about its files. An error is left by RESTART.
  (let ((*notes* (list '()))
        (*build* (make-build))
        (*replacing* force)
        (name (if file (name-of-file file system systems) (system-name-of-text system))))
    (flet ((work ()
             (setf *progress* (loading-progress name))
             (let ((loaded (load-system-named name force)))
               (note-missing-files loaded)
               (append (system-facts loaded) (told-notes) (build-facts) (recoveries-of *recoveries*)
                       (list :output (captured-text))))))
      (call-recovering restart (lambda () (call-with-project systems #'work))))))
