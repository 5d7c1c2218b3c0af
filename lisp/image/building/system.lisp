;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the compiler said about the files of systems that ASDF builds; what can make a load fail comes
;;; first. Operation: last-notes.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *last-notes* '()
  "What the compiler said about the files of the last system loaded here, in order.")

(defparameter *kept-notes* 5000
  "How many of these to keep.")

;;; Notes of files

(defun project-component-p (component)
  "Whether COMPONENT belongs to a requested system, or to another one of the user's project."
  (or (null component)
      (let ((name (asdf-call "COMPONENT-NAME" (asdf-call "COMPONENT-SYSTEM" component))))
        (or (member (primary-name name) (build-systems *build*)
                    :key #'primary-name :test #'string=)
            (project-entry name)))))

(defun file-text (component)
  "The name of COMPONENT's file, for people."
  (let ((pathname (asdf-fact "COMPONENT-PATHNAME" component)))
    (if pathname (file-namestring pathname) "a file")))

(defparameter *asdf-warning-limit* 2
  "How many of ASDF's own warnings, which are about system definitions, to show.")

(defun asdf-warning-p (note)
  "Whether NOTE is a warning about no source file."
  (and (null (getf note :file-name)) (null (getf note :location)) (zerop (severity-rank note))))

(defun others-complaint-p (note)
  "Whether NOTE, a warning of ASDF itself, is about the definition of a system outside the project."
  (let ((message (getf note :message)))
    (and *project-systems* (search ".asd" message)
         (notany (lambda (entry) (search (getf entry :file) message)) *project-systems*))))

(defun component-at (location)
  "The component being compiled, or compiled earlier in this call: what is undefined is only
reported at the end."
  (or *component*
      (let ((file (getf location :file)))
        (find file (and file (build-compiled *build*))
              :key (lambda (it) (namestring (asdf-call "COMPONENT-PATHNAME" it)))
              :test #'equal))))

(defvar *reported-warnings* '()
  "ASDF's own warnings that were shown already: each load repeats them.")

(defun new-complaints (notes)
  "Those of NOTES, warnings of ASDF itself, that weren't shown before; from now on they count as
shown."
  (let ((new (remove-if (lambda (note)
                          (member (getf note :message) *reported-warnings* :test #'equal))
                        notes)))
    (dolist (note new)
      (push (getf note :message) *reported-warnings*))
    new))

(defun note-about-file (condition text)
  (let* ((location (location-plist (backend "LOCATION" condition)))
         (component (component-at location)))
    (list :severity (severity-text condition)
          :message text
          :location location
          :file-name (and component (file-text component))
          :own (and (project-component-p component) t))))

(defun note-of-file (condition)
  (let ((text (note-text condition)))
    ;; ASDF sums up earlier notes in a warning or an error.
    (cond ((prefixed-p "Lisp compilation had" text) (muffle condition))
          ((prefixed-p "COMPILE-FILE-ERROR while" text))
          (t (let ((note (note-about-file condition text)))
               (add-note note)
               ;; Whether compiling a file fails depends on its warnings that aren't muffled. Other
               ;; warnings would be printed as well.
               (when (or (asdf-warning-p note) (null *compile-file-truename*))
                 (muffle condition)))))))

(defun exported-elsewhere (message)
  "MESSAGE, with packages that have the function which it misses: perhaps one just isn't used."
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
  "How many of NOTES each file has: lists of its name and the number."
  (let ((counts '()))
    (dolist (note notes (nreverse counts))
      (let* ((name (or (getf note :file-name) "no file"))
             (count (assoc name counts :test #'string=)))
        (if count
            (incf (second count))
            (push (list name 1) counts))))))

(defun reported-notes ()
  "What to show of this call's notes: errors and warnings of all files, style-warnings of our own
files. Optimization notes are only counted."
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
          (list :before (and *build* (build-before *build*))
                :notes (append (mapcar #'shown-note told)
                               (loop for note in complaints
                                     repeat *asdf-warning-limit* collect (shown-note note)))
                :more (+ more (max 0 (- (length complaints) *asdf-warning-limit*)))
                :counts (counted-by-file minor)
                :elsewhere (length elsewhere)))))))

(defun keep-notes ()
  "Keep what the compiler said in this call for LAST-NOTES, if it did anything."
  (let ((notes (noted *notes*)))
    (when (or notes (build-compiled *build*))
      (setf *last-notes* (subseq notes 0 (min *kept-notes* (length notes)))))))

(define-operation "last-notes" (limit offset)
  ;; A page of what the compiler said about the files of the last system that was loaded.
  (let ((offset (or offset 0)))
    (list :notes (mapcar #'shown-note (page *last-notes* offset (page-size limit 50 200)))
          :offset offset
          :total (length *last-notes*))))

;;; Building

(defparameter *file-limit* 12
  "How many compiled files to name.")

(defun root-of (entry)
  "The project's directory, by ENTRY, one of its systems, whose file is :PLACE in it."
  (let* ((file (getf entry :file)) (place (getf entry :place))
         (end (and file place (- (length file) (length place)))))
    (if (and end (plusp end) (string= place file :start2 end))
        (subseq file 0 end)
        "")))

(defun file-of-system-or-primary (system)
  "The file that defines SYSTEM. Of those that ASDF infers from packages, it may know only the first one's."
  (or (system-file system)
      (let ((primary (registered-system (primary-name (asdf-fact "COMPONENT-NAME" system)))))
        (and primary (system-file primary)))))

(defun name-in-project (component)
  "The file of COMPONENT relative to the project's directory, or to that of its system."
  (let* ((pathname (asdf-fact "COMPONENT-PATHNAME" component))
         (name (if pathname (native-name pathname) "a file"))
         (own (file-of-system-or-primary (asdf-call "COMPONENT-SYSTEM" component)))
         (roots (append (mapcar #'root-of *project-systems*)
                        (and own (list (subseq own 0 (1+ (or (position #\/ own :from-end t) -1)))))))
         (root (find-if (lambda (root) (and (string/= root "") (prefixed-p root name))) roots)))
    (subseq name (length root))))

(defun build-facts ()
  "What was compiled and loaded for the requested system, and for others."
  (flet ((names (own)
           ;; A system that is defined again has its files again.
           (loop for component in (remove-duplicates (reverse (build-compiled *build*))
                                                     :key #'source-name :test #'equal)
                 when (eq own (and (project-component-p component) t))
                   collect (name-in-project component))))
    (let ((own (names t)))
      (list :compiled (subseq own 0 (min *file-limit* (length own)))
            :compiled-count (length own)
            :compiled-elsewhere (length (names nil))
            :redefined (sort (copy-list (first *redefined*)) #'> :key #'second)
            :loaded (build-loaded *build*)))))

(defun call-building (name function)
  "Call FUNCTION, which has ASDF build the system NAME, and note what the compiler says."
  (pushnew name (build-systems *build*) :test #'string=)
  (unwind-protect
       (call-omitting-compiler-lines
        (lambda ()
          (call-observing-asdf (lambda () (call-noting-files function)))))
    (keep-notes)))

(defun call-noting-files (function)
  "Call FUNCTION, which compiles files, and note what the compiler says about them."
  (let ((*noting* t))
    (call-noting (lambda () (backend "CALL-WITH-COMPILATION-HOOKS" function)) #'note-of-file)))

(defun call-accepting (function)
  "Call FUNCTION with ASDF loading what compiled with warnings, if the caller's restart asks to go
on. By the time ASDF reports warnings, it has deleted the compiled file, and no restart brings that
back."
  (let ((behaviour (and *restart*
                        (member (trimmed *restart*) '("continue" "accept") :test #'string-equal)
                        (find-package "UIOP")
                        (find-symbol "*COMPILE-FILE-FAILURE-BEHAVIOUR*" "UIOP"))))
    (progv (and behaviour (list behaviour)) '(:ignore)
      (funcall function))))

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
          ;; The image may have another one than the project.
          :ours (and ours (not taken) (native-name ours))
          :other (and taken (registry-file name)))))
