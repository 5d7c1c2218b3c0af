;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Forms given as text: where each one starts, and what is wrong with one that can't be read.

(cl:in-package "AGENT-Q-IMAGE")

(defun skip-to-form (text start)
  "The start of the next form in TEXT, after blanks and comments; NIL at the end."
  (loop
    (let ((next (position-if-not (lambda (it) (member it *blanks*)) text :start start)))
      (cond ((null next) (return nil))
            ((char= (char text next) #\;)
             (setf start (or (position #\Newline text :start next) (length text))))
            (t (setf start (block-comment-end text next))
               (unless start (return next)))))))

(defun block-comment-end (text start)
  "The end of the block comment in TEXT at START; NIL if there is none, or it has no end."
  (flet ((at (first second position)
           (and (char= first (char text position)) (char= second (char text (1+ position))))))
    (loop with depth = 0 and position = start
          while (< (1+ position) (length text))
          do (cond ((at #\# #\| position) (incf depth) (incf position 2))
                   ((zerop depth) (return nil))
                   ((at #\| #\# position)
                    (decf depth)
                    (incf position 2)
                    (when (zerop depth) (return position)))
                   (t (incf position))))))

(defun reader-complaint (condition)
  "The reader's message, without the name of our stream and references to manuals."
  (let ((text (condition-message condition)))
    (dolist (end (list (format nil "~%~%") " Stream: #<" (format nil "~%See also:")))
      (setf text (subseq text 0 (search end text))))
    (getf (with-hint condition (list :message (trimmed text))) :message)))

(defun unreadable-object-hint (text start)
  "What to write instead of a printed object that TEXT may have after START."
  (if (search "#<" text :start2 start)
      " #<...> only shows an object: use its handle, such as $v7, or the form that returned it."
      ""))

(defun read-evaluation-p (text start)
  "The position of the first possible #. in TEXT after START, or NIL."
  (loop for found = (position #\# text :start start)
          then (position #\# text :start (1+ found))
        while found
          thereis (let ((next (position-if-not #'digit-char-p text :start (1+ found))))
                    (and next (char= (char text next) #\.) found))))

(defvar *reader-stop* nil
  "Where in its text the reader failed, if known.")

(defun read-noting-stop (text start)
  "The form in TEXT at START, and its end. On an error, sets *READER-STOP*."
  (let ((end start))
    (values (with-input-from-string (stream text :start start :index end)
              (flet ((place () (guarded (lambda () (file-position stream)) (constantly nil))))
                (let ((first (place)))
                  (handler-bind ((error (lambda (condition)
                                          (declare (ignore condition))
                                          (let ((now (place)))
                                            (setf *reader-stop*
                                                  (and first now (+ start (- now first))))))))
                    (read-preserving-whitespace stream)))))
            end)))

(defun unreadable (condition text start count)
  (when (and (not *read-eval*) (read-evaluation-p text start))
    (failed "READER-ERROR"
            (format nil "#. is not allowed here, because it runs code. Write the value itself, or a form for ~
                         it: ~A" (first-line (subseq text start) 120))))
  (let* ((ended (typep condition 'end-of-file))
         (place (if ended start (fault-place text start)))
         (first (line-of text start))
         (line (line-of text place)))
    (failed (if ended "END-OF-FILE" (type-name condition))
            (format nil "Form ~D, which starts at line ~D, can't be read~@[ at line ~D~]: ~A~%~A"
                    count first (and (/= line first) line)
                    (if ended
                        "the text ends inside it. A parenthesis, a string or a |symbol| is not closed."
                        (concatenate 'string (reader-complaint condition)
                                     (unreadable-object-hint text start)))
                    (first-line (trimmed (subseq text place)) 120)))))

(defun line-of (text index)
  "The line number of INDEX in TEXT, from 1."
  (1+ (count #\Newline text :end index)))

(defun fault-place (text start)
  "The start of the line in TEXT where the form at START can't be read; START if that is its first
line."
  (let ((newline (and *reader-stop*
                      (< start *reader-stop* (1+ (length text)))
                      ;; The character that ended a token isn't part of it.
                      (position #\Newline text :start start :end (1- *reader-stop*) :from-end t))))
    (if newline (1+ newline) start)))

(defvar *before-reading* (constantly nil)
  "Called with a text and the start of the form in it that is about to be read.")

(defun assess-if-new (text start count)
  "Assess the form at START now if the forms above it, which have run, may have changed it."
  (when (and (integerp *assessed*) (> count *assessed*))
    (let ((assess (optional-function "AGENT-Q-IMAGE" "ASSESS-BEFORE-RUNNING")))
      (if assess
          (funcall assess text start count)
          (failed "NOT-RUN" "The image has lost the code that assesses calls. Send the call again.")))))

(defun data-p (object)
  "Whether OBJECT consists only of lists, symbols, numbers and strings, and isn't large."
  (let ((count 0))
    (labels ((data-p (object)
               (loop
                 (when (> (incf count) 500) (return nil))
                 (typecase object
                   (cons (unless (data-p (car object)) (return nil))
                    (setf object (cdr object)))
                   (t (return (typep object '(or symbol number character string))))))))
      (data-p object))))

(defparameter *pure-functions*
  '(+ - * / 1+ 1- = /= < > <= >= max min abs mod rem floor ceiling round truncate gcd lcm signum
    logand logior logxor lognot evenp oddp zerop plusp minusp eq eql equal not null
    float rational numerator denominator sqrt exp log sin cos tan
    cons list list* car cdr first second third fourth fifth rest last nth append reverse length elt
    vector aref svref char schar string string-upcase string-downcase
    char-code code-char char-upcase char-downcase digit-char name-char symbol-name)
  "Functions that don't call their arguments and neither do nor look at anything else.")

(defparameter *plain-types*
  '(vector simple-vector array simple-array string simple-string base-string simple-base-string
    list character unsigned-byte signed-byte integer fixnum bit float single-float double-float * t)
  "What types consist of that are known without asking the program.")

(defun refuse-reading (form)
  (error "#. of ~S is not allowed here." form))

(defun plain-type-p (type)
  (if (consp type)
      (and (ignore-errors (list-length type)) (every #'plain-type-p type))
      (or (integerp type) (null type) (member type *plain-types*))))

(defun pure-call (form arguments)
  "The value of the call FORM with ARGUMENTS, if the function is harmless and ends soon."
  (let ((function (first form)))
    (cond ((member function *pure-functions*))
          ((eq function 'coerce)
           (unless (plain-type-p (second arguments)) (refuse-reading form)))
          ((member function '(expt ash))
           (unless (every (lambda (it) (and (realp it) (<= (abs it) 1000))) arguments)
             (refuse-reading form)))
          (t (refuse-reading form)))
    (apply function arguments)))

(defun pure-value (form)
  "The value of FORM, after #., if it runs no code of the program and is the same each time it is
read: calls of pure functions on literals, constants and variables with data."
  (cond ((symbolp form)
         (if (and (boundp form) (data-p (symbol-value form)))
             (symbol-value form)
             (refuse-reading form)))
        ((atom form) form)
        ((not (ignore-errors (list-length form))) (refuse-reading form))
        (t (case (first form)
             (quote (second form))
             (if (if (pure-value (second form)) (pure-value (third form)) (pure-value (fourth form))))
             (and (loop with value = t
                        for part in (rest form)
                        always (setf value (pure-value part))
                        finally (return value)))
             (or (loop for part in (rest form) thereis (pure-value part)))
             (t (pure-call form (mapcar #'pure-value (rest form))))))))

(defvar *run-readings* (make-hash-table :test 'equal)
  "From files to their #. forms, as texts: those ran when the files were loaded here.")

(defvar *known-readings* '()
  "Those of the file being read.")

(defun file-key (file)
  (or (ignore-errors (namestring (truename file))) file))

(defun readings-of (file)
  (and file (gethash (file-key file) *run-readings*)))

(defun readings-in (text)
  "The forms after each #. in TEXT, as texts. Interns and evaluates nothing."
  (let ((*readtable* (copy-readtable nil)) (*read-suppress* t) (*read-eval* nil))
    (loop for start = 0 then (+ found 2)
          for found = (search "#." text :start2 start)
          while found
          for end = (ignore-errors (nth-value 1 (read-from-string text nil nil :start (+ found 2)
                                                                               :preserve-whitespace t)))
          when end collect (subseq text (+ found 2) end))))

(defun note-readings (file text)
  "Note that TEXT of FILE was loaded."
  (let ((readings (readings-in text)))
    (when readings
      (setf (gethash (file-key file) *run-readings*)
            (union readings (readings-of file) :test #'string=)))))

(defun read-harmlessly (stream text start)
  "Read the form after #., in TEXT, which is read from START on, if that runs no code of the
program. A form that has run before gives a constant of unknown value."
  (let* ((from (file-position stream))
         (form (read stream t nil t))
         (to (file-position stream)))
    (if (and from to *known-readings*
             (member (subseq text (+ start from) (min (length text) (+ start to))) *known-readings*
                     :test #'string=))
        (list 'quote (make-symbol "VALUE"))
        (pure-value form))))

(defun call-reading-values (text start function)
  "Call FUNCTION, which reads TEXT from START on, with #.*VARIABLE* and #.(code-char 13) readable
even where #. isn't allowed."
  (let ((*readtable* *readtable*))
    (when (and (not *read-eval*) (read-evaluation-p text start)
               (ignore-errors (get-dispatch-macro-character #\# #\.)))
      (setf *readtable* (copy-readtable))
      (set-dispatch-macro-character #\# #\.
                                    (lambda (stream character number)
                                      (declare (ignore character number))
                                      (read-harmlessly stream text start))))
    (funcall function)))

(defun read-knowing-handles (text start)
  "The form in TEXT at START, and its end. $v7 in it is the object shown as v7."
  (let ((around (optional-function "AGENT-Q-IMAGE" "CALL-WITH-HANDLE-NAMES")))
    (flet ((read-it ()
             (call-reading-values
              text start
              (lambda ()
                ;; What is read is looked at when it is evaluated.
                (let ((*looking-up* t))
                  (read-noting-stop text start))))))
      (if around (funcall around text start #'read-it) (read-it)))))

(defun read-form (text start count)
  "The form in TEXT at START, and its end."
  (assess-if-new text start count)
  (funcall *before-reading* text start)
  (let ((*reader-stop* nil))
    (handler-case (read-knowing-handles text start)
      (error (condition) (unreadable condition text start count)))))
