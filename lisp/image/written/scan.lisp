;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The text of sources, scanned without the reader: that would intern the names of a file, and run
;;; its reader macros. Two texts that differ in comments, blanks and case alone have the same digest.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *scanned-text* "" "The text that is being scanned.")
(defvar *scan-position* 0 "How far.")
(defvar *digest-one* 0)
(defvar *digest-two* 0)

(defun digest-code (code)
  "Take CODE, of a character, into the digest."
  (setf *digest-one* (mod (+ (* *digest-one* 16777619) code 1) 1073741789)
        *digest-two* (mod (+ (* *digest-two* 8191011) code 7) 1073741783)))

(defun digest-so-far ()
  (+ (* *digest-one* 1073741824) *digest-two*))

(defun text-ended-p ()
  (>= *scan-position* (length *scanned-text*)))

(defun this-character (&optional (offset 0))
  (let ((place (+ *scan-position* offset)))
    (and (< place (length *scanned-text*)) (char *scanned-text* place))))

(defun blank-here-p (character)
  (or (char= character #\Space) (char= character #\Newline) (char= character #\Tab)
      (char= character #\Return) (char= character #\Page)))

(defun token-ends-p (character)
  (or (blank-here-p character) (find character "()\";'`,")))

(defun pass-block-comment ()
  "Skip the block comment here."
  (setf *scan-position* (or (block-comment-end *scanned-text* *scan-position*)
                            (length *scanned-text*))))

(defun pass-blanks ()
  "Go to the next datum or closing parenthesis."
  (loop
    (let ((this (this-character)))
      (cond ((null this) (return))
            ((blank-here-p this) (incf *scan-position*))
            ((char= this #\;)
             (setf *scan-position* (or (position #\Newline *scanned-text* :start *scan-position*)
                                       (length *scanned-text*))))
            ((and (char= this #\#) (eql #\| (this-character 1))) (pass-block-comment))
            (t (return))))))

(defun pass-string (quote)
  "Scan the text between two of QUOTE, the first of which is here."
  (digest-code (char-code quote))
  (incf *scan-position*)
  (loop for this = (this-character)
        while this
        do (digest-code (char-code this))
           (incf *scan-position*)
           (cond ((char= this quote) (return))
                 ((and (char= this #\\) (this-character))
                  (digest-code (char-code (this-character)))
                  (incf *scan-position*)))))

(defun pass-token ()
  "Scan a symbol or a number."
  (loop for this = (this-character)
        while (and this (not (token-ends-p this)))
        do (cond ((char= this #\|) (pass-string #\|))
                 (t (digest-code (char-code (char-downcase this)))
                    (incf *scan-position*)
                    (when (and (char= this #\\) (this-character))
                      (digest-code (char-code (this-character)))
                      (incf *scan-position*)))))
  (digest-code 32))

(defun pass-prefix (length)
  "Scan LENGTH characters and the datum after them."
  (loop repeat length
        while (this-character)
        do (digest-code (char-code (char-downcase (this-character))))
           (incf *scan-position*))
  (pass-datum))

(defun pass-dispatch ()
  "Scan what begins with #."
  (let* ((digits (loop for offset from 1
                       for this = (this-character offset)
                       while (and this (digit-char-p this))
                       count t))
         (sub (this-character (1+ digits))))
    (case sub
      (#\\ (loop repeat (+ 3 digits)
                 while (this-character)
                 do (digest-code (char-code (this-character)))
                    (incf *scan-position*))
       (pass-token))
      ((#\' #\. #\, #\= #\p #\P #\s #\S #\c #\C #\a #\A) (pass-prefix (+ 2 digits)))
      ((#\+ #\-) (pass-prefix (+ 2 digits)) (pass-datum))
      ((#\( #\") (pass-prefix (1+ digits)))
      (t (incf *scan-position* (1+ digits))
         (cond ((null sub))
               ((eql sub #\#) (incf *scan-position*))
               (t (digest-code (char-code sub))
                  (incf *scan-position*)
                  ;; A reader macro of the program's.
                  (if (find (this-character) "(\"") (pass-datum) (pass-token))))))))

(defun pass-list ()
  (digest-code 40)
  (incf *scan-position*)
  (loop
    (pass-blanks)
    (let ((this (this-character)))
      (cond ((null this) (return))
            ((char= this #\)) (digest-code 41) (incf *scan-position*) (return))
            (t (pass-datum))))))

(defun pass-datum ()
  "Scan the next datum, with what is in it."
  (pass-blanks)
  (let ((this (this-character)))
    (case this
      ((nil))
      (#\( (pass-list))
      (#\) (incf *scan-position*))
      (#\" (pass-string #\"))
      ((#\' #\`) (pass-prefix 1))
      (#\, (pass-prefix (if (eql #\@ (this-character 1)) 2 1)))
      (#\# (pass-dispatch))
      (t (pass-token)))))

;;; Names

(defun reader-name (token)
  "TOKEN as the reader would make it the name of a symbol, in the standard readtable."
  (let ((bars nil) (escaped nil))
    (with-output-to-string (out)
      (loop for this across token
            do (cond (escaped (write-char this out) (setf escaped nil))
                     ((char= this #\\) (setf escaped t))
                     ((char= this #\|) (setf bars (not bars)))
                     (t (write-char (if bars this (char-upcase this)) out)))))))

(defun token-symbol (token package)
  "The symbol that TOKEN names in PACKAGE; (:ABSENT name package) if the image has none."
  (let* ((colon (position #\: token :from-end t))
         (name (reader-name (if colon (subseq token (1+ colon)) token)))
         (prefix (and colon (string-right-trim ":" (subseq token 0 colon))))
         (home (cond ((null colon) package)
                     ((string= prefix "") (find-package "KEYWORD"))
                     (t (let ((*package* (or package *package*)))
                          (find-package-named (reader-name prefix)))))))
    (multiple-value-bind (symbol found) (if home (find-symbol name home) (values nil nil))
      (if found symbol (list :absent name (and home (package-name home)))))))

(defun written-feature-p (form)
  "Whether FORM, a feature expression of DATUM-HERE, holds."
  (cond ((consp form)
         (let ((operator (first form)))
           (case operator
             (:or (some #'written-feature-p (rest form)))
             (:and (every #'written-feature-p (rest form)))
             (:not (not (written-feature-p (second form)))))))
        (t (and form (member form *features*) t))))

(defun datum-here (package)
  "The next datum, a head of a definition: lists of symbols, integers and, of anything else, (:TEXT
text)."
  (pass-conditionals)
  (let ((start *scan-position*) (this (this-character)))
    (flet ((text () (subseq *scanned-text* start (min *scan-position* (length *scanned-text*)))))
      (case this
        ((nil) nil)
        (#\( (incf *scan-position*)
         (loop do (pass-conditionals)
               until (member (this-character) '(nil #\)))
               collect (datum-here package)
               finally (incf *scan-position*)))
        (#\' (incf *scan-position*) (list 'quote (datum-here package)))
        ((#\" #\` #\, #\#)
         (if (and (eql this #\#) (eql #\: (this-character 1)))
             (progn (incf *scan-position* 2)
                    (let ((from *scan-position*))
                      (pass-token)
                      (list :absent (reader-name (subseq *scanned-text* from *scan-position*)))))
             (progn (pass-datum) (list :text (text)))))
        (t (pass-token)
           (let ((token (text)))
             (or (ignore-errors (parse-integer token))
                 (token-symbol token package))))))))

(defun pass-conditionals ()
  "Go to the next datum that the reader of this image sees."
  (loop
    (pass-blanks)
    (let ((sign (and (eql #\# (this-character)) (this-character 1))))
      (unless (member sign '(#\+ #\-)) (return))
      (incf *scan-position* 2)
      (let ((holds (written-feature-p (datum-here (find-package "KEYWORD")))))
        (unless (eq (not (null holds)) (char= sign #\+))
          (pass-conditionals)
          (pass-datum))))))
