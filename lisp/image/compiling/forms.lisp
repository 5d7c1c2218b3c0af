;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Compiling forms, and not just evaluating them, through the client. A form that replaces a
;;; definition from a file keeps that file's location, so that the client's M-. still leads there.
;;; Operations: compile-form, compile-file.

(cl:in-package "AGENT-Q-IMAGE")

;;; What a form defines

(defun standard-definer (name)
  "The operator under which FOUND-DEFINITIONS reports what NAME, an operator, defines."
  (cond ((member name '("DEFPARAMETER" "DEFGLOBAL") :test #'string=) 'defvar)
        ((string= name "DEFSETF") 'define-setf-expander)
        (t (find name '(defun defmacro defgeneric defmethod defvar defconstant defclass defstruct
                        define-condition deftype define-compiler-macro define-symbol-macro
                        define-setf-expander define-method-combination)
                 :test #'string= :key #'symbol-name))))

(defun specializers-of (parameters)
  "The specializers in PARAMETERS, the lambda list of a method."
  (loop for parameter in parameters
        until (member parameter lambda-list-keywords)
        collect (if (consp parameter) (second parameter) t)))

(defun eql-specializer (specializer)
  "SPECIALIZER as images report it, with the object instead of a form for it."
  (if (and (consp specializer) (quoted-p (second specializer)))
      (list (first specializer) (second (second specializer)))
      specializer))

(defun defined-by (form)
  "What FORM defines, as FOUND-DEFINITIONS reports it; NIL if it isn't known to define anything."
  (when (and (consp form) (symbolp (first form)) (consp (rest form))
             (prefixed-p "DEF" (symbol-name (first form))))
    (let* ((definer (standard-definer (symbol-name (first form))))
           (name (second form))
           (name (if (and (consp name) (not (eq 'setf (first name)))) (first name) name)))
      (cond ((not (or (and name (symbolp name)) (consp name))) nil)
            ((eq definer 'defmethod)
             (let* ((rest (cddr form))
                    (qualifiers (subseq rest 0 (or (position-if #'listp rest) (length rest)))))
               `(defmethod ,name ,@qualifiers
                  ,(mapcar #'eql-specializer
                           (specializers-of (nth (length qualifiers) rest))))))
            (t (list definer name))))))

(defparameter *most-parts* 8
  "How many definitions in one form to look for.")

(defun parts-defined-by (form)
  "What FORM defines, as DEFINED-BY tells it, where it is several definitions."
  (and (consp form) (member (first form) '(eval-when progn)) (listp (rest form))
       (page (remove nil (mapcar #'defined-by (rest form))) 0 *most-parts*)))

(defun same-thing-p (what wanted)
  "Whether WHAT, of FOUND-DEFINITIONS, is the definition WANTED, of DEFINED-BY."
  (and (consp what)
       (equal (second what) (second wanted))
       (cond ((eq 'defmethod (first wanted))
              (and (eq 'defmethod (first what))
                   (string= (bare-text (cddr what)) (bare-text (cddr wanted)))))
             ((first wanted) (eq (first what) (first wanted)))
             ;; An operator of the program.
             (t (not (eq 'defmethod (first what)))))))

(defun earlier-definition (wanted)
  "The existing definition of WANTED, and its place in a file; NIL if there is none."
  (find-if (lambda (definition)
             (and (same-thing-p (first definition) wanted)
                  (getf (second definition) :file)))
           (guarded (lambda () (found-definitions (second wanted))) (constantly '()))))

(defun other-author (wanted)
  "Which other chat made the present definition of WANTED, and how long ago, as a property list; NIL
if none did."
  (let ((change (find-if (lambda (change)
                           (and (not (change-restored change))
                                (equal (second wanted) (change-name change))
                                (eq (eq :variable (change-kind change))
                                    (and (member (first wanted) '(defvar defparameter defconstant))
                                         t))))
                         *journal*)))
    (when (and change (change-chat change) (not (equal (change-chat change) (first *author*))))
      (let ((chat (change-chat change)))
        ;; Without the part that tells several Emacs processes apart.
        (list :by (subseq chat 0 (position #\Space chat :from-end t))
              :seconds-ago (- (get-universal-time) (change-time change)))))))

(defun inert-form (text start)
  "The form in TEXT at START, or NIL if it can't be read without running code."
  (values (guarded (lambda () (read-inert text start)) (constantly nil))))

;;; Compiling

(defvar *carried* nil
  "While a form is compiled: a list of the package and the readtable that it has left.")

(defun carry ()
  "Note the package and the readtable at the end of what is loaded."
  (setf *carried* (list *package* *readtable*)))

(defparameter *carrying* " (|AGENT-Q-IMAGE|::|CARRY|)"
  "Compiled after a form, in the same file. Bars make it read the same in every readtable case.")

(defun definition-text-p (text)
  "Whether TEXT is only a definition, so that the forms after it are read as it was."
  (let ((operator (subseq text 1 (position-if (lambda (it) (or (member it *blanks*) (find it "()")))
                                              text :start 1))))
    (prefixed-p "def" (string-downcase
                       (subseq operator (1+ (or (position #\: operator :from-end t) -1)))))))

(defun buffer-to-tell (name)
  "The buffer called NAME, or the file, in the form that the client can take: on ABCL it makes a
pathname of it."
  (if (implementation-p "ABCL")
      (subseq name (1+ (or (position #\/ name :from-end t) -1)))
      name))

(defun compile-string (string origin)
  "Compile and load STRING, which is at ORIGIN; returns whether that succeeded."
  (let ((*compile-verbose* nil) (*compile-print* nil) (*load-verbose* nil) (*load-print* nil)
        (*carried* nil))
    (prog1 (backend (if (eq *client* :slynk) "SLYNK-COMPILE-STRING" "SWANK-COMPILE-STRING")
                    (if (definition-text-p string)
                        string
                        (format nil "~A~%~A" string *carrying*))
                    :buffer (buffer-to-tell (getf origin :buffer)) :position (getf origin :position)
                    :filename (getf origin :file)
                    :line nil :column nil :policy '((debug . 2)))
      (when *carried*
        (setf *package* (first *carried*)
              *readtable* (second *carried*))))))

(defun note-place (string index origin text start)
  "The place of INDEX in STRING, which starts at START in TEXT: in ORIGIN's file, if it has one."
  (if (getf origin :line)
      (multiple-value-bind (line column) (line-and-column string index)
        (list :where (format nil "~A:~D:~D" (getf origin :shown)
                             (+ line (getf origin :line) -1) column)))
      (multiple-value-bind (line column) (line-and-column text (+ start index))
        (list :line line :column column))))

(defun compile-one (text start end origin)
  "Compile the form between START and END of TEXT. Returns whether the compiler produced code."
  (let ((string (subseq text start end)) (errors '()) (warnings 0))
    (flet ((note (condition)
             (let ((severity (severity-text condition))
                   (index (or (location-index (backend "LOCATION" condition)
                                              (getf origin :position))
                              0)))
               (if (search "error" severity)
                   (push (note-text condition) errors)
                   (incf warnings))
               (add-note (list* :severity severity
                                :message (note-text condition)
                                (note-place string index origin text start)))
               (muffle condition))))
      (let ((succeeded (call-noting (lambda () (compile-string string origin)) #'note)))
        (and (every #'left-by-restart-p errors)
             ;; Compilers count a warning as a failure, but the code is there.
             (or succeeded errors (plusp warnings)))))))

;;; One form after the other

(defun origin-of (earlier buffer position)
  "Where the client should locate a form at POSITION of BUFFER that replaces EARLIER."
  (let ((place (and (implementation-p "SBCL") (second earlier))))
    (if (and (getf place :file) (getf place :position))
        (list :buffer *by-compile-form* :file (getf place :file)
              :position (getf place :position))
        (list :buffer (or buffer *by-compile-form*) :position position))))

(defun keep-compiled-text (wanted text)
  (when (first wanted)
    (setf (gethash (compiled-key wanted) *compiled-texts*) (kept-text text))))

(defun compile-forms (text origin progress)
  "Compile the forms of TEXT until one fails. ORIGIN returns a form's place, given its start and
what it replaces; PROGRESS is called with keywords when a form begins and when it ends."
  (loop with start = 0
        for count from 1
        for next = (skip-to-form text start)
        while next
        do (funcall progress :current (first-line (subseq text next) 80))
           (let* ((end (form-end text next count))
                  (form (inert-form text next))
                  (wanted (defined-by form))
                  (earlier (and wanted (earlier-definition wanted)))
                  (parts (if wanted (list wanted) (parts-defined-by form)))
                  (stale (if wanted
                             (stale-after wanted earlier (subseq text next end))
                             (loop for part in parts
                                   for old = (stale-after part (earlier-definition part) "")
                                   ;; Which of them is another one now isn't known.
                                   when old collect (list* :perhaps t old))))
                  (author (and wanted (other-author wanted)))
                  (place (funcall origin next earlier))
                  (from-file (getf place :line))
                  (shown (form-text text next end)))
             (funcall progress :current shown)
             (unless (compile-one text next end place)
               (funcall progress :failed shown :rest (skip-to-form text end))
               (return))
             (keep-compiled-text wanted (subseq text next end))
             (when (getf place :line) (note-readings (getf place :file) (subseq text next end)))
             (funcall progress :done (not (getf place :prelude)) :stale (if wanted (and stale (list stale)) stale)
                               :defined parts
                               :replaced (when (or author (and earlier (not from-file)))
                                           (list (or (first earlier) wanted)
                                                 (unless from-file (second earlier))
                                                 author)))
             (setf start end))))

(defun form-end (text start count)
  "The end of the form in TEXT at START. Interns and evaluates nothing."
  (let ((*read-suppress* t))
    (nth-value 1 (read-form text start count))))

(defun text-with-package (what)
  "WHAT as the other operations print it, whatever package the forms are in."
  (let ((*package* (find-package "COMMON-LISP-USER")))
    (definition-text what)))

(defparameter *replaced-limit* 50
  "How many replaced definitions to name.")

(defun call-telling-progress (function notes &optional file)
  "Call FUNCTION with a function that notes the progress of a compilation, of forms of FILE if that is
given; returns everything to report. NOTES returns the part about the compiler's notes."
  (let ((current nil) (count 0) (failed nil) (more-forms nil) (replaced '()) (stale '())
        (defined '()) (recoveries *recoveries*))
    (flet ((tell ()
             (list* :compiled count :failed (and failed (list failed)) :rest (and more-forms t)
                    :current current
                    :replaced (loop for (what location author) in (reverse replaced)
                                    repeat *replaced-limit*
                                    collect (append (list :what (text-with-package what))
                                                    (and location (list :location location))
                                                    author))
                    :replaced-more (max 0 (- (length replaced) *replaced-limit*))
                    :package (package-name *package*)
                    (append (recoveries-of recoveries) (funcall notes)))))
      (setf *progress* #'tell)
      (call-omitting-compiler-lines
       (lambda ()
         (funcall function
                  (lambda (&key done ((:current form)) ((:failed bad)) ((:rest following))
                             ((:replaced earlier)) ((:stale old)) ((:defined wanted)))
                    (setf current form)
                    (when done (incf count))
                    (when bad (setf failed bad more-forms following))
                    (setf defined (append (reverse wanted) defined))
                    (dolist (it old) (push (cons it (length defined)) stale))
                    (when earlier (push earlier replaced))))))
      (setf current nil)
      (append (tell) (stale-facts (reverse stale) defined file) (list :output (captured-text))))))

(defun form-notes (notes shown)
  "What to show of NOTES, about forms that SHOWN names. Optimization notes are only counted."
  (let* ((all (noted notes))
         (minor (count 2 all :key #'severity-rank)))
    (setf *last-notes* all)
    (multiple-value-bind (told more)
        (foremost-notes (remove 2 all :key #'severity-rank) *note-limit*)
      (list :notes told :more more
            :counts (and (plusp minor) (list (list shown minor)))))))

(defun piece-at (pieces index)
  "The one of PIECES, lists of start, end, line and position in a file, that has INDEX of a text."
  (find-if (lambda (piece) (and (<= (first piece) index) (< index (second piece)))) pieces))

(define-operation "compile-form" (form package restart buffer position file pieces shown systems)
  ;; Compile and load forms one after the other; returns what the compiler said. RESTART leaves an
  ;; error. BUFFER shows the forms from POSITION on. With a FILE, only PIECES of FORM count: lists of
  ;; start, end, line and position in the file. The forms before each only say how to read it; SHOWN is
  ;; how to write the file's name. SYSTEMS are the project's.
  (let* ((*package* (package-of-text package))
         (*known-readings* (readings-of file))
         (*project-systems* systems)
         (notes (list '()))
         (*notes* notes))
    (when (null (skip-to-form form 0))
      (missed "The text contains no form."))
    (flet ((origin (index earlier)
             (let ((piece (and file (piece-at pieces index))))
               (if piece
                   (destructuring-bind (start end line position) piece
                     (declare (ignore end))
                     (list :buffer (or buffer file) :file file :position (+ position (- index start))
                           :line line :shown shown))
                   (append (and file (list :prelude t))
                           (origin-of earlier (and (null file) buffer)
                                      (+ (if file 1 (or position 1)) index)))))))
      (call-recovering
       restart
       (lambda ()
         (call-telling-progress (lambda (progress) (compile-forms form #'origin progress))
                                (lambda ()
                                  (list* :copy (copy-for-file file systems)
                                         (form-notes notes (or shown "the form"))))
                                file))))))

;;; A whole file

(defun fasl-of (file)
  "A compiled file for FILE, away from the user's own."
  (let ((name (format nil "agent-q-~36R" (random (expt 36 8) (make-random-state t)))))
    (merge-pathnames (make-pathname :name name :type (pathname-type (compile-file-pathname file))
                                    :version nil)
                     ;; A saved image's temporary directory may be gone.
                     (or (loop for place in '("TEMPORARY-DIRECTORY" "DEFAULT-TEMPORARY-DIRECTORY")
                               for directory = (guarded (lambda () (internal "UIOP" place))
                                                        (constantly nil))
                               when (and directory (probe-file directory))
                                 return directory)
                         #p"/tmp/"))))

(defun compile-into (file fasl)
  "Compile FILE to FASL; returns its name, or NIL."
  (let ((format (guarded (lambda () (backend "FIND-EXTERNAL-FORMAT" "utf-8-unix"))
                         (constantly nil))))
    ;; The client loads nothing that has a warning, but such a program can still be useful.
    (values (backend (if (eq *client* :slynk) "SLYNK-COMPILE-FILE" "SWANK-COMPILE-FILE")
                     file fasl nil (or format :default)))))

(defun note-of-whole-file (condition file)
  (let ((note (note-about-file condition (note-text condition))))
    (setf (getf note :file-name) (file-namestring file))
    (add-note note)))

(defun forms-read (thread)
  "How many top-level forms of a file THREAD has read to compile them; NIL if that isn't known."
  (let ((source (ignore-errors (internal "SB-THREAD" "SYMBOL-VALUE-IN-THREAD"
                                         (find-symbol "*SOURCE-INFO*" "SB-C") thread nil))))
    (when source
      (length (internal "SB-C" "FILE-INFO-FORMS" (internal "SB-C" "SOURCE-INFO-FILE-INFO" source))))))

(defun note-forms-read (file)
  "Let this call tell how many forms of FILE were compiled so far, where it can be known."
  (when (implementation-p "SBCL")
    (let ((thread (backend "CURRENT-THREAD")) (all nil))
      (note-stage (lambda ()
                    (let ((read (ignore-errors (forms-read thread))))
                      (when read
                        ;; Counted once somebody asks.
                        (setf all (or all (forms-written (or (text-on-disk file) ""))))
                        (format nil "~:D of ~:D form~:P" (min read all) all))))))))

(defun compile-and-load-file (file progress)
  "Compile FILE, and load the result unless there was an error. PROGRESS is called with the outcome,
as keywords."
  (let ((fasl (fasl-of file)))
    (note-source-text file t)
    (note-forms-read file)
    (unwind-protect
         (let ((output (call-noting (lambda () (compile-into file fasl))
                                    (lambda (condition) (note-of-whole-file condition file)))))
           (cond ((and output (notany (lambda (note) (search "error" (getf note :severity)))
                                      (first *notes*)))
                  (load output)
                  (note-file-readings file)
                  (funcall progress :done t))
                 (t (funcall progress :failed file))))
      (guarded (lambda () (when (probe-file fasl) (delete-file fasl)))
               (constantly nil)))))

(define-operation "compile-file" (file restart systems)
  ;; Compile and load the file FILE; returns what the compiler said. RESTART leaves an error.
  ;; SYSTEMS are the project's.
  (let* ((notes (list '()))
         (build (make-build))
         (*notes* notes)
         (*build* build)
         (*compile-verbose* nil) (*compile-print* nil) (*load-verbose* nil) (*load-print* nil))
    (unless (probe-file file)
      (missed "The image cannot find the file ~A." file))
    (when (equalp "asd" (pathname-type (native-pathname file)))
      (missed "~A defines systems and was not compiled; use load_system, which loads a system and its .asd file."
              file))
    (flet ((work ()
             (call-telling-progress (lambda (progress)
                                      (funcall progress :current file)
                                      (compile-and-load-file file progress)
                                      (keep-notes))
                                    (lambda ()
                                      (let ((*notes* notes) (*build* build))
                                        (list* :copy (copy-for-file file systems)
                                               (reported-notes)))))))
      (call-recovering restart
                       (if systems
                           (lambda () (call-with-project systems #'work))
                           #'work)))))
