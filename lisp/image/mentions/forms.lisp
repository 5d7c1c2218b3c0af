;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The top-level forms of files: what each one defines and which names it mentions. Text tells what
;;; no implementation records: uses at top level, of types and constants, and after #. in a file.
;;; Interns and evaluates nothing.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (source-form (:copier nil) (:type list))
  line
  ;; Its operator and the name after it, as written.
  label
  operator
  ;; What it may define: the symbol in second place, and others there.
  names
  ;; The program's symbols in it; the names in it that are no symbols yet; whether it has a #. form;
  ;; whether it sets a place.
  symbols open reading setting)

;;; Tokens

(defun token-end (text start)
  "The end of the token of TEXT at START."
  (declare (type (simple-array character (*)) text) (type fixnum start))
  (loop with index of-type fixnum = start
        with end of-type fixnum = (length text)
        while (< index end)
        do (let ((character (schar text index)))
             (case character
               (#\\ (incf index 2))
               (#\| (setf index (1+ (or (position #\| text :start (1+ index)) end))))
               ((#\Space #\Newline #\Tab #\Return #\Page #\( #\) #\" #\; #\' #\` #\,) (return (min index end)))
               (t (incf index))))
        finally (return (min index end))))

(defun string-end (text start)
  "The end of the string of TEXT at START."
  (declare (type (simple-array character (*)) text) (type fixnum start))
  (loop with index of-type fixnum = (1+ start)
        with end of-type fixnum = (length text)
        while (< index end)
        do (case (schar text index)
             (#\\ (incf index 2))
             (#\" (return (1+ index)))
             (t (incf index)))
        finally (return end)))

(defun map-tokens (text token open close)
  "Call TOKEN with the start and the end of each name in TEXT, or with NIL for #., OPEN with the
position of each parenthesis that opens a list, and CLOSE with that of each other one."
  (declare (type (simple-array character (*)) text) (type function token open close))
  (let ((index 0) (end (length text)))
    (declare (type fixnum index end))
    (flet ((next () (if (< (1+ index) end) (schar text (1+ index)) #\Space)))
      (loop while (< index end)
            do (let ((character (schar text index)))
                 (case character
                   ((#\Space #\Newline #\Tab #\Return #\Page #\' #\` #\, #\@) (incf index))
                   (#\; (setf index (or (position #\Newline text :start index) end)))
                   (#\" (setf index (string-end text index)))
                   (#\( (funcall open index) (incf index))
                   (#\) (funcall close index) (incf index))
                   (#\# (case (next)
                          (#\| (setf index (or (block-comment-end text index) end)))
                          (#\\ (setf index (token-end text (min end (+ index 3)))))
                          (#\. (funcall token nil nil) (incf index 2))
                          ((#\' #\( #\") (incf index))
                          ;; Of another package, a feature, a number.
                          ((#\: #\+ #\- #\x #\X #\b #\B #\o #\O)
                           (setf index (token-end text (min end (+ index 2)))))
                          (t (incf index 2))))
                   (t (let ((stop (token-end text index)))
                        (if (= stop index)
                            (incf index)
                            (funcall token index stop))
                        (setf index (max stop index))))))))))

(defun symbol-of-source (text start end package)
  "The symbol that the token of TEXT from START to END is in PACKAGE, or NIL; and its name, if it
could be one."
  (declare (type (simple-array character (*)) text))
  (let ((first (schar text start)) (colon (position #\: text :start start :end end)))
    (unless (or (eql colon start) (char= first #\&)
                (and (digit-char-p first) (notany #'alpha-char-p (subseq text start end))))
      (let* ((name (subseq text (if colon (1+ (position #\: text :start start :end end :from-end t)) start)
                           end))
             (name (if (find #\| name) (remove #\| name) (nstring-upcase name)))
             (home (if colon
                       (let ((*package* package))
                         (find-package (string-upcase (subseq text start colon))))
                       package))
             (symbol (and home (find-symbol name home))))
        (values symbol name)))))

(defun programs-symbol-p (symbol)
  "Whether SYMBOL belongs neither to the implementation nor to the keywords."
  (let ((home (and symbol (symbol-package symbol))))
    (and home (not (keywordp symbol)) (not (implementation-package-p home)))))

;;; Forms

(defun forms-of-text (text)
  "The SOURCE-FORMs of TEXT, of a file that is loaded."
  (let ((text (coerce text '(simple-array character (*))))
        (package (or (find-package "COMMON-LISP-USER") *package*))
        (foreign (make-hash-table :test 'eq))
        (depth 0) (line 1) (counted 0) (forms '())
        form start tokens operator)
    (labels ((line-at (index)
               (incf line (count #\Newline text :start counted :end index))
               (setf counted index)
               line)
             (own-p (symbol)
               (let ((home (symbol-package symbol)))
                 (multiple-value-bind (own known) (gethash home foreign)
                   (if known own (setf (gethash home foreign) (programs-symbol-p symbol))))))
             (second-p ()
               ;; What follows the operator: NAME, (NAME ...) or (SETF NAME).
               (or (= tokens 1)
                   (and (= tokens 2) (= depth 2) (equal "SETF" (source-form-label form)))))
             (begin (index)
               (when (zerop depth)
                 (setf form (make-source-form :line (line-at index)) start index tokens 0 operator nil))
               (incf depth))
             (end-form (index)
               (when (plusp depth)
                 (decf depth)
                 (when (and (zerop depth) form)
                   (finish (1+ index)))))
             (finish (end)
               (setf (source-form-label form) (label-of text start end)
                     (source-form-operator form) operator)
               (when (equal operator "IN-PACKAGE")
                 (setf package (or (package-after text start end) package)))
               (unless (or (null operator) (search "PACKAGE" operator))
                 (push form forms))
               (setf form nil))
             (token (from to)
               (cond ((null form))
                     ((null from) (setf (source-form-reading form) t))
                     (t (multiple-value-bind (symbol name) (symbol-of-source text from to package)
                          (cond ((zerop tokens) (setf operator name))
                                ((and (second-p) symbol)
                                 (setf (source-form-label form) name)
                                 (push symbol (source-form-names form))))
                          (when (member symbol +setting-macros+ :test #'eq)
                            (setf (source-form-setting form) t))
                          (cond ((and symbol (symbol-package symbol))
                                 (when (own-p symbol) (pushnew symbol (source-form-symbols form))))
                                ((and name (null symbol))
                                 (pushnew name (source-form-open form) :test #'string=))))
                        (incf tokens)))))
      (map-tokens text #'token #'begin #'end-form))
    (nreverse forms)))

(defun label-of (text start end)
  "What to call the form of TEXT from START to END: its operator, and a name if that follows."
  (let* ((first (token-end text (1+ start)))
         (next (position-if-not (lambda (it) (member it *blanks*)) text :start first :end end))
         (list (and next (char= #\( (char text next))))
         (stop (cond ((null next) first)
                     (list (let ((close (position-if (lambda (it) (find it '(#\) #\Newline))) text :start next :end end)))
                             (if (and close (prefixed-p "(setf" (string-downcase (subseq text next close))))
                                 (1+ close)
                                 (token-end text (1+ next)))))
                     (t (token-end text next)))))
    (shortened (string-downcase
                (format nil "~A~@[ ~A~]" (subseq text (1+ start) first)
                        (and next (< next stop)
                             (subseq text (if (and list (char/= #\) (char text (1- stop)))) (1+ next) next)
                                     stop))))
               80)))

(defun package-after (text start end)
  "The package that the form of TEXT from START to END, an IN-PACKAGE, chooses."
  (let* ((from (token-end text (1+ start)))
         (next (position-if-not (lambda (it) (or (member it *blanks*) (find it "#:'\"|"))) text
                                :start from :end end)))
    (when next
      (let ((stop (position-if (lambda (it) (or (member it *blanks*) (find it ")\"|"))) text
                               :start next :end end))
            (upcase (not (find (char text (1- next)) "\"|"))))
        (find-package (funcall (if upcase #'string-upcase #'identity) (subseq text next stop)))))))

;;; Files

(defvar *source-forms* (make-hash-table :test 'equal)
  "From files to lists of their date, their length and their forms.")

(defun text-of-source (file)
  (flet ((text (&rest format)
           (with-open-stream (stream (apply #'open (native-pathname file) format))
             (let ((text (make-string (file-length stream))))
               (subseq text 0 (read-sequence text stream))))))
    (guarded #'text (lambda (condition)
                      (declare (ignore condition))
                      (guarded (lambda () (text :external-format :latin-1)) (constantly ""))))))

(defun forms-of-file (file)
  "The SOURCE-FORMs of FILE; none if it can't be read."
  (let* ((date (date-of (native-pathname file)))
         (text nil)
         (known (gethash file *source-forms*)))
    (cond ((null date) '())
          ((and known (= date (first known))) (second known))
          (t (setf text (forms-of-text (text-of-source file)))
             ;; Dates are in seconds: what was just changed may be changed again.
             (if (< (- (get-universal-time) date) 3)
                 (remhash file *source-forms*)
                 (setf (gethash file *source-forms*) (list date text)))
             text))))

(defun mentions-p (form symbols)
  "Whether FORM, a SOURCE-FORM, has one of SYMBOLS in it."
  (some (lambda (symbol)
          (or (member symbol (source-form-symbols form))
              (member (symbol-name symbol) (source-form-open form) :test #'string=)))
        symbols))
