;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the compiler says in a call and where, collected; and what the program printed without the lines
;;; that the compiler wrote. It stands before the files that bind its variables.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *note-limit* 50
  "How many of the compiler's style-warnings and optimization notes are shown at once.")

(defvar *notes* (list '())
  "What the compiler said in this call: a list of the notes, latest first, and of a table of them.")

;;; Places

(defun line-and-column (text index)
  "Where INDEX is in TEXT, both counted from 1."
  (let* ((index (max 0 (min index (length text))))
         (newline (position #\Newline text :end index :from-end t)))
    (values (1+ (count #\Newline text :end index))
            (- index (if newline newline -1)))))

(defun location-index (location base)
  "The index that LOCATION, in a buffer, has in a text that is at BASE in it; NIL when it says none."
  (when (and (consp location) (eq (first location) :location))
    (let ((position (third location)))
      (case (first position)
        (:offset (- (+ (second position) (third position)) base))
        (:position (- (second position) base))))))

;;; Notes

(defun add-note (note)
  "Add NOTE, a property list that begins with its severity, unless the same was said there before."
  (let ((seen (or (second *notes*)
                  (first (setf (rest *notes*) (list (make-hash-table :test 'equal)))))))
    (unless (gethash (cddr note) seen)
      (setf (gethash (cddr note) seen) t)
      (push note (first *notes*)))))

(defun call-noting (function note)
  "Call FUNCTION; what the compiler signals in it is given to NOTE."
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
  "What CONDITION says, without blank lines and where the compiler's own file is."
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
         ;; ECL says the file and the form first.
         (ecl (member-if (lambda (line) (prefixed-p "! " line)) lines))
         (lines (if ecl (cons (subseq (first ecl) 2) (rest ecl)) lines)))
    (shortened (format nil "~{~A~^~%~}" (without-definition lines)) 600)))

(defun without-definition (lines)
  "LINES without \"in F : \", with which CLISP says the same thing once more."
  (let ((colon (and (implementation-p "CLISP") lines (prefixed-p "in " (first lines))
                    (search " : " (first lines)))))
    (if colon
        (cons (subseq (first lines) (+ colon 3)) (rest lines))
        lines)))

(defun words-of (text)
  "The beginning of TEXT, whatever its lines and blanks."
  (let ((words (with-output-to-string (stream)
                 (loop for last = #\Space then character
                       for blank = (member last *blanks*)
                       for character across text
                       do (unless (member character *blanks*)
                            (when blank (write-char #\Space stream))
                            (write-char character stream))))))
    (subseq words 0 (min 160 (length words)))))

(defun later-defined-p (message)
  "Whether MESSAGE complains of a function that has a definition by now."
  (let ((prefix "undefined function: "))
    (and (prefixed-p prefix message)
         (guarded (lambda ()
                    (let* ((*read-eval* nil)
                           (name (read-from-string message t nil :start (length prefix))))
                      (and (or (symbolp name) (consp name)) (fboundp name))))
                  (constantly nil)))))

(defun more-uses-p (message)
  "Whether MESSAGE only counts \"2 more uses of undefined variable X\", of which others say where."
  (let ((end (search " more use" message)))
    (and end (every #'digit-char-p (subseq message 0 end)))))

(defun left-by-restart-p (message)
  "Whether MESSAGE is of an error that the caller's restart has left, and which is told as that."
  (let ((words (words-of message)))
    (loop for recovery in (first *recoveries*)
            thereis (prefixed-p (words-of (getf recovery :message)) words))))

(defun noted (notes)
  "NOTES in the order in which they were made, as far as they still hold and are not told elsewhere."
  (remove-if (lambda (note)
               (let ((message (getf note :message)))
                 (or (later-defined-p message) (more-uses-p message) (left-by-restart-p message)
                     (and (null (getf note :location)) (placed-note-p message notes)))))
             (reverse (first notes))))

(defun placed-note-p (message notes)
  "Whether one of NOTES says MESSAGE with its place: a load says again what the compiler did."
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
  "All errors and warnings among NOTES, and of the rest at most LIMIT, style-warnings first; then
how many are left out. A macro that is missing is taken for a function, and makes undefined variables
of names in its forms, so undefined functions come before these."
  (flet ((of-rank (rank)
           (remove rank notes :key #'severity-rank :test #'/=)))
    (let* ((problems (of-rank 0))
           (rest (append (of-rank 1) (of-rank 2)))
           (count (min limit (length rest)))
           (told (subseq rest 0 count)))
      (multiple-value-bind (first others)
          (if (some (lambda (it) (search "undefined variable: " (getf it :message))) problems)
              (values (remove-if-not #'undefined-function-p told)
                      (remove-if #'undefined-function-p told))
              (values '() told))
        (values (append first problems others)
                (- (length rest) count))))))

;;; Output

(defun call-omitting-compiler-lines (function)
  "Call FUNCTION; the lines that the compiler prints meanwhile are not captured."
  (let ((before (omit-compiler-lines t)))
    (unwind-protect (funcall function)
      (omit-compiler-lines before))))

(defun without-compiler-output (text)
  "TEXT without the lines that compilers write, which start with a semicolon."
  (with-output-to-string (stream)
    (loop with start = 0
          for end = (position #\Newline text :start start)
          for line = (subseq text start end)
          unless (prefixed-p ";" (trimmed line))
            do (write-line line stream)
          while end do (setf start (1+ end)))))
