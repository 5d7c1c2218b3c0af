;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the text of a file enters, defines and uses, by names alone, for the check of a system's
;;; load order. One quick pass, as each file of a system takes it; interns and evaluates nothing.

(cl:in-package "AGENT-Q-IMAGE")

(defun blanks-end (text index)
  "The place of the next datum or parenthesis of TEXT from INDEX on, or its length."
  (declare (type (simple-array character (*)) text) (type fixnum index))
  (let ((end (length text)))
    (loop
      (when (>= index end) (return end))
      (case (schar text index)
        ((#\Space #\Newline #\Tab #\Return #\Page) (incf index))
        (#\; (setf index (or (position #\Newline text :start index) end)))
        (#\# (if (and (< (1+ index) end) (char= #\| (schar text (1+ index))))
                 (setf index (or (block-comment-end text index) end))
                 (return index)))
        (t (return index))))))

(defun name-of-token (text start end)
  "The name that the token of TEXT from START to END gives a symbol, without its package."
  (declare (type (simple-array character (*)) text) (type fixnum start end))
  (let* ((colon (position #\: text :start start :end end :from-end t))
         (name (subseq text (if colon (1+ colon) start) end)))
    (if (or (find #\| name) (find #\\ name))
        (reader-name name)
        (nstring-upcase name))))

(defun designated-name (text start end)
  "The name that the next datum of TEXT from START to END, such as #:foo or \"FOO\", designates."
  (let ((from (position-if-not (lambda (it) (or (member it *blanks*) (find it "#:'"))) text :start start :end end)))
    (cond ((or (null from) (find (char text from) "()")) nil)
          ((char= #\" (char text from))
           (subseq text (1+ from) (or (position #\" text :start (1+ from) :end end) end)))
          (t (name-of-token text from (token-end text from))))))

;;; Features

(defun feature-at (text index)
  "Whether the feature expression of TEXT at INDEX holds, and its end."
  (let ((index (blanks-end text index)))
    (cond ((>= index (length text)) (values nil index))
          ((char/= #\( (char text index))
           (let ((end (max (1+ index) (token-end text index))))
             (values (member (name-of-token text index end) *features* :test #'string=) end)))
          (t (let* ((start (blanks-end text (1+ index))) (end (token-end text start))
                    (operator (name-of-token text start end)) (values '()))
               (loop
                 (setf end (blanks-end text end))
                 (when (or (>= end (length text)) (char= #\) (char text end))) (return))
                 (multiple-value-bind (holds next) (feature-at text end)
                   (push holds values)
                   (setf end next)))
               (values (cond ((string= operator "AND") (notany #'null values))
                             ((string= operator "OR") (notevery #'null values))
                             ((string= operator "NOT") (null (first values))))
                       (min (1+ end) (length text))))))))

(defun scan-conditional (text index level)
  "Scan the feature expression of TEXT before INDEX and what depends on it."
  (let ((sign (char text (1- index))))
    (multiple-value-bind (holds end) (feature-at text index)
      (let* ((there (eq (char= sign #\+) (and holds t)))
             (*under-feature* (if (and there (not (eq *under-feature* :absent))) t :absent)))
        (values (scan-next text end level) there)))))

;;; Data

(defun scan-next (text index level)
  "Scan the next datum of TEXT from INDEX on; returns its end. LEVEL is true if it is a top-level form."
  (loop
    (setf index (blanks-end text index))
    (when (or (>= index (length text)) (char= #\) (char text index))) (return index))
    (multiple-value-bind (end there) (scan-datum text index level)
      (setf index end)
      (when there (return index)))))

(defun scan-datum (text index level)
  "Scan the datum of TEXT at INDEX; returns its end, and whether the reader sees it."
  (declare (type (simple-array character (*)) text) (type fixnum index))
  (case (schar text index)
    (#\( (values (scan-list text index level) t))
    (#\" (values (string-end text index) t))
    ((#\' #\`) (values (scan-next text (1+ index) nil) t))
    (#\, (let ((next (1+ index)))
           (values (scan-next text (if (and (< next (length text)) (find (schar text next) "@.")) (1+ next) next)
                              nil)
                   t)))
    (#\# (scan-sharp text index level))
    (#\) (values (1+ index) t))
    (t (let ((end (max (1+ index) (token-end text index))))
         (scan-token-at text index end)
         (values end t)))))

(defun scan-sharp (text index level)
  "The same for one that begins with a sharp sign."
  (declare (type (simple-array character (*)) text) (type fixnum index))
  (let* ((end (length text))
         (index (or (position-if-not #'digit-char-p text :start (1+ index)) end)))
    (case (if (< index end) (schar text index) #\Space)
      (#\\ (values (token-end text (min end (+ index 2))) t))
      (#\' (let ((start (blanks-end text (1+ index))))
             ;; A function that exports is as good as a call.
             (when (and (< start end) (not (find (schar text start) "(\"';`,)")))
               (note-called (name-of-token text start (token-end text start)) start))
             (values (scan-next text start nil) t)))
      ((#\+ #\-) (scan-conditional text (1+ index) level))
      (#\( (values (scan-list text index nil) t))
      ((#\: #\b #\B #\o #\O #\x #\X #\r #\R #\*) (values (token-end text (min end (1+ index))) t))
      ((#\. #\= #\s #\S #\p #\P #\c #\C #\a #\A) (values (scan-next text (1+ index) nil) t))
      (#\# (values (1+ index) t))
      (t (setf (outline-strange *outline*) t)
         (values (min end (1+ index)) t)))))

(defun scan-list (text index level)
  "Scan the list of TEXT at INDEX; returns its end."
  (declare (type (simple-array character (*)) text) (type fixnum index))
  (let* ((start index) (end (length text)) (operator nil) (inside nil))
    (setf index (blanks-end text (1+ index)))
    (when (and (< index end) (not (find (schar text index) "(\"';`,#):")))
      (let ((stop (max (1+ index) (token-end text index))))
        (setf operator (name-of-token text index stop)
              inside (and level (member operator '("PROGN" "EVAL-WHEN") :test #'string=)))
        (note-called operator index)
        (scan-token-at text index stop)
        (setf index stop)
        (when (prefixed-p "DEF" operator)
          (note-definition text index operator level))))
    (let ((*in-package-form* (or *in-package-form* (and operator (search "PACKAGE" operator)))))
      (loop
        (setf index (blanks-end text index))
        (cond ((>= index end) (return))
              ((char= #\) (schar text index)) (incf index) (return))
              (t (setf index (scan-datum text index inside))))))
    (when operator
      (note-form text start index operator level))
    index))

;;; What is noted

(defun note-called (name place)
  (unless *under-feature*
    (push (cons place *outermost*) (gethash name (outline-operators *outline*)))))

(defun note-definition (text index operator level)
  "Note what the form of TEXT by OPERATOR, after which INDEX is, defines."
  (let ((start (blanks-end text index)))
    (when (and (< start (length text)) (char= #\( (char text start)))
      (setf start (blanks-end text (1+ start))))
    (when (and (< start (length text)) (not (find (char text start) "(\"';`,#)")))
      (let ((end (token-end text start)))
        (push (list start *outermost* operator (and level (not *under-feature*)))
              (gethash (name-of-token text start end) (outline-definitions *outline*)))))))

(defun scan-token-at (text start end)
  "Note what the token of TEXT from START to END says of packages and of the syntax."
  (declare (type (simple-array character (*)) text) (type fixnum start end))
  (let ((first (schar text start)))
    (cond ((char= first #\:)
           ;; An option of a macro that exports what it defines.
           (when (and (> (- end start) 6) (not *in-package-form*)
                      (search "export" text :start2 start :end2 end :test #'char-equal))
             (setf (outline-open *outline*) t)))
          ((and (char= first #\*) (= 11 (- end start))
                (string-equal "*readtable*" text :start2 start :end2 end))
           (setf (outline-strange *outline*) t))
          ((and (not *under-feature*) (position #\: text :start start :end end))
           (let ((token (string-upcase (subseq text start end))))
             (unless (gethash token (outline-qualified *outline*))
               (setf (gethash token (outline-qualified *outline*)) start)))))))

(defun note-form (text start end operator level)
  "Note what the form of TEXT from START to END, by OPERATOR, says of packages."
  (cond ((string= operator "IN-PACKAGE")
         (when (and level (not (eq *under-feature* :absent)))
           (push (cons start (designated-name text (token-end text (blanks-end text (1+ start))) end))
                 (outline-entered *outline*))))
        ((search "EXPORT" operator)
         (let ((next (blanks-end text (token-end text (blanks-end text (1+ start))))))
           (if (and (string= operator "EXPORT") (char= #\' (char text next)))
               (push (cons start end) (outline-exports *outline*))
               (setf (outline-open *outline*) t))))
        ((search "PACKAGE" operator)
         (push (cons start end) (outline-makers *outline*))
         (when (and level (not *under-feature*)
                    (member operator '("DEFPACKAGE" "DEFINE-PACKAGE") :test #'string=))
           (let ((package (package-at text start end operator)))
             (when package (push package (outline-packages *outline*))))))
        ((or (search "READTABLE" operator) (search "MACRO-CHARACTER" operator)
             (prefixed-p "ENABLE-" operator))
         (setf (outline-strange *outline*) t))))

(defun outline-of-text (text file)
  "What TEXT, of FILE, says."
  (when (> (length text) 3000)
    (compile-now 'blanks-end 'token-end 'string-end 'name-of-token 'scan-next 'scan-datum 'scan-sharp
                 'scan-list 'scan-token-at 'note-called 'note-definition 'note-form 'prefixed-p))
  (let ((*outline* (make-outline :file file)) (*under-feature* nil) (index 0))
    (loop
      (setf index (blanks-end text index))
      (when (>= index (length text)) (return))
      (let ((*outermost* index))
        (setf index (scan-datum text index t))))
    (when (gethash "EXPORT" (outline-operators *outline*))
      ;; One by FUNCALL or MAPC, or by a macro.
      (unless (= (length (gethash "EXPORT" (outline-operators *outline*)))
                 (length (outline-exports *outline*)))
        (setf (outline-open *outline*) t)))
    (setf (outline-entered *outline*) (nreverse (outline-entered *outline*))
          (outline-packages *outline*) (nreverse (outline-packages *outline*)))
    *outline*))

(defvar *outlines* (make-hash-table :test 'equal)
  "From files to lists of their date and their OUTLINE.")

(defun outline-of-file (file)
  "What FILE says; NIL if it can't be read."
  (let* ((date (date-of (native-pathname file)))
         (known (gethash file *outlines*)))
    (cond ((null date) nil)
          ;; The features may be others now.
          ((and known (eql date (first known)) (equal *features* (third known))) (second known))
          (t (let ((outline (outline-of-text (source-characters file) file)))
               ;; Dates are in seconds: what was just changed may be changed again.
               (if (< (- (get-universal-time) date) 3)
                   (remhash file *outlines*)
                   (setf (gethash file *outlines*) (list date outline (copy-list *features*))))
               outline)))))

(defun source-characters (file)
  (coerce (text-of-source file) '(simple-array character (*))))
