;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Collecting what the compiler says in a call, and where; and what the program printed, without
;;; the compiler's lines. This file comes before those that bind its variables.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *note-limit* 50
  "How many style-warnings and optimization notes to show.")

(defparameter *problem-limit* 60
  "How many errors and warnings.")

(defvar *notes* (list '())
  "What the compiler said in this call: a list of the notes, latest first, and a table of them.")

;;; Places

(defun line-and-column (text index)
  "The line and column of INDEX in TEXT, counted from 1."
  (let* ((index (max 0 (min index (length text))))
         (newline (position #\Newline text :end index :from-end t)))
    (values (1+ (count #\Newline text :end index))
            (- index (if newline newline -1)))))

(defun location-index (location base)
  "The index for LOCATION, in a buffer, in a text that starts at BASE there; NIL if it has none."
  (when (and (consp location) (eq (first location) :location))
    (let ((position (third location)))
      (case (first position)
        (:offset (- (+ (second position) (third position)) base))
        (:position (- (second position) base))))))

;;; Notes

(defun add-note (note)
  "Add NOTE, a property list that begins with its severity, unless the same was said at the same
place."
  (let ((seen (or (second *notes*)
                  (first (setf (rest *notes*) (list (make-hash-table :test 'equal)))))))
    (unless (gethash (cddr note) seen)
      (setf (gethash (cddr note) seen) t)
      (push note (first *notes*)))))

(defun call-noting (function note)
  "Call FUNCTION, passing what the compiler signals to NOTE."
  (let ((type (find-class (find-symbol "COMPILER-CONDITION" (backend-package)))))
    (handler-bind ((condition (lambda (condition)
                                (when (and (typep condition type)
                                           (not (eq (backend "SEVERITY" condition)
                                                    :redefinition)))
                                  (funcall note condition)))))
      (funcall function))))

(defun muffle (condition)
  "Keep the compiler from printing the warning CONDITION."
  (let* ((original (guarded (lambda () (backend "ORIGINAL-CONDITION" condition))
                            (constantly nil)))
         (restart (and (typep original 'warning) (find-restart 'muffle-warning original))))
    (when restart
      (invoke-restart restart))))

(defun severity-text (condition)
  (string-downcase (symbol-name (backend "SEVERITY" condition))))

(defun note-text (condition)
  "The text of CONDITION, without blank lines and without the position in the compiler's own file."
  (let* ((text (trimmed (princ-to-string (backend "MESSAGE" condition))))
         (prefix (format nil "READ error during COMPILE-FILE:~%"))
         (text (if (prefixed-p prefix text) (subseq text (length prefix)) text))
         (lines (loop with start = 0
                      for end = (position #\Newline text :start start)
                      for line = (trimmed (subseq text start end))
                      unless (or (string= line "") (prefixed-p "Stream: #<" line)
                                 (and (prefixed-p "Line: " line) (search "File-Position" line)))
                        collect line
                      while end do (setf start (1+ end))))
         ;; ECL gives the file and the form first.
         (ecl (member-if (lambda (line) (prefixed-p "! " line)) lines))
         (lines (if ecl (cons (subseq (first ecl) 2) (rest ecl)) lines)))
    (shortened (format nil "~{~A~^~%~}" (without-definition lines)) 600)))

(defun without-definition (lines)
  "LINES without \"in F : \", with which CLISP repeats itself."
  (let ((colon (and (implementation-p "CLISP") lines (prefixed-p "in " (first lines))
                    (search " : " (first lines)))))
    (if colon
        (cons (subseq (first lines) (+ colon 3)) (rest lines))
        lines)))

(defun words-of (text)
  "The beginning of TEXT, with its whitespace normalized."
  (let ((words (with-output-to-string (stream)
                 (loop for last = #\Space then character
                       for blank = (member last *blanks*)
                       for character across text
                       do (unless (member character *blanks*)
                            (when blank (write-char #\Space stream))
                            (write-char character stream))))))
    (subseq words 0 (min 160 (length words)))))

(defun later-defined-p (message)
  "Whether MESSAGE complains about a function that is defined by now."
  (let ((prefix "undefined function: "))
    (and (prefixed-p prefix message)
         (guarded (lambda ()
                    (let* ((*read-eval* nil)
                           (name (read-from-string message t nil :start (length prefix))))
                      (and (or (symbolp name) (consp name)) (fboundp name))))
                  (constantly nil)))))

(defun more-uses-p (message)
  "Whether MESSAGE only counts \"2 more uses of undefined variable X\", which other messages locate."
  (let ((end (search " more use" message)))
    (and end (every #'digit-char-p (subseq message 0 end)))))

(defun left-by-restart-p (message)
  "Whether MESSAGE is about an error that the caller's restart has left, and which is reported as
that."
  (let ((words (words-of message)))
    (loop for recovery in (first *recoveries*)
            thereis (prefixed-p (words-of (getf recovery :message)) words))))

(defun noted (notes)
  "NOTES in order, without those that no longer hold or are reported elsewhere."
  (remove-if (lambda (note)
               (let ((message (getf note :message)))
                 (or (later-defined-p message) (more-uses-p message) (left-by-restart-p message)
                     (and (null (getf note :location)) (placed-note-p message notes)))))
             (reverse (first notes))))

(defun placed-note-p (message notes)
  "Whether one of NOTES gives MESSAGE with its place: a load repeats what the compiler said."
  (find-if (lambda (other)
             (and (getf other :location) (string= message (getf other :message))))
           (first notes)))

(defun severity-rank (note)
  "0 for what can make a compilation fail, 1 for a style-warning, 2 for a note."
  (let ((severity (getf note :severity)))
    (cond ((string= severity "note") 2)
          ((string= severity "style-warning") 1)
          (t 0))))

(defun undefined-function-p (note)
  (search "undefined function: " (getf note :message)))

(defun foremost-notes (notes limit)
  "Errors and warnings in NOTES, errors first if some are left out, and at most LIMIT of the rest,
style-warnings first; and how many are left out. Undefined functions come before undefined
variables: a missing macro looks like a function, the names in its forms like variables."
  (flet ((of-rank (rank)
           (remove rank notes :key #'severity-rank :test #'/=)))
    (let* ((all (of-rank 0))
           (problems (if (> (length all) *problem-limit*)
                         (subseq (flet ((error-p (it) (search "error" (getf it :severity))))
                                   (append (remove-if-not #'error-p all) (remove-if #'error-p all)))
                                 0 *problem-limit*)
                         all))
           (rest (append (of-rank 1) (of-rank 2)))
           (count (min limit (length rest)))
           (told (subseq rest 0 count)))
      (multiple-value-bind (first others)
          (if (some (lambda (it) (search "undefined variable: " (getf it :message))) problems)
              (values (remove-if-not #'undefined-function-p told)
                      (remove-if #'undefined-function-p told))
              (values '() told))
        (values (append first problems others)
                (+ (- (length all) (length problems)) (- (length rest) count)))))))

;;; Output

(defun call-omitting-compiler-lines (function)
  "Call FUNCTION without capturing the lines that the compiler prints."
  (let ((before (omit-compiler-lines t)))
    (unwind-protect (funcall function)
      (omit-compiler-lines before))))

(defun without-compiler-output (text)
  "TEXT without the lines of compilers, which start with a semicolon."
  (with-output-to-string (stream)
    (loop with start = 0
          for end = (position #\Newline text :start start)
          for line = (subseq text start end)
          unless (prefixed-p ";" (trimmed line))
            do (write-line line stream)
          while end do (setf start (1+ end)))))
