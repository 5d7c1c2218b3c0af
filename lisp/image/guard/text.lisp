;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The assessment of a text: its forms are read without #. and looked at one after the other, as
;;; far as they can be read before the ones before them were run. Operation: assess-form.
;;; Needs: danger, walk

(cl:in-package "AGENT-Q-IMAGE")

(defvar *symbols-before* nil
  "While an assessment runs: the packages it reads in, each with the symbols it had.")

;;; Reading leaves nothing behind

(defun remember-symbols (package)
  (unless (or (assoc package *symbols-before*)
              (eq package (find-package "KEYWORD")))
    (let ((symbols (make-hash-table :test 'eq)))
      (with-package-iterator (next package :internal :external)
        (loop
          (multiple-value-bind (more symbol) (next)
            (unless more (return))
            (setf (gethash symbol symbols) t))))
      (push (cons package symbols) *symbols-before*))))

(defun enter-package (package)
  (remember-symbols package)
  (setf *package* package))

(defun remember-prefixes (text)
  "Remember the packages that TEXT names before a double colon, where reading makes symbols."
  (loop for end = (search "::" text) then (search "::" text :start2 (+ end 2))
        while end
        do (let* ((start (position-if (lambda (it) (find it "()'\",;`#|@ 
	")) text
                                      :end end :from-end t))
                  (name (subseq text (if start (1+ start) 0) end))
                  (package (and (plusp (length name)) (find-package-named name))))
             (when package (remember-symbols package)))))

(defun meaningless-p (symbol)
  (not (or (boundp symbol) (fboundp symbol) (symbol-plist symbol) (find-class symbol nil))))

(defun forget-new-symbols (form)
  "Take the symbols of FORM that its reading made out of their packages: a USE-PACKAGE or IMPORT in
the text must meet what it would have met without us. The symbols, each with its package."
  (let ((*findings* (make-findings)) (forgotten '()))
    (catch 'assessed
      (call-with-atoms
       (lambda (atom)
         (let ((before (and atom (symbolp atom) (symbol-package atom)
                            (assoc (symbol-package atom) *symbols-before*))))
           (when (and before
                      (not (gethash atom (cdr before)))
                      (meaningless-p atom)
                      (not (locked-p (car before))))
             (push (cons atom (car before)) forgotten)
             (unintern atom (car before)))))
       form))
    forgotten))

;;; Reading

(defun inert-readtable ()
  "The current readtable without the syntax that runs functions of the program."
  (let ((readtable (copy-readtable)))
    (when (ignore-errors (get-dispatch-macro-character #\# #\S readtable))
      (set-dispatch-macro-character #\# #\S
                                    (lambda (stream character number)
                                      (declare (ignore character number))
                                      (list 'quote (read stream t nil t)))
                                    readtable))
    readtable))

(defun read-inert (text start)
  "The form in TEXT at START and where it ends; or NIL, NIL and the condition."
  (let ((*read-eval* nil) (*read-suppress* nil) (*readtable* (inert-readtable)))
    (handler-case (read-knowing-handles text start)
      (serious-condition (condition) (values nil nil condition)))))

(defun read-evaluation-p (text start)
  "Whether TEXT may have a #. after START."
  (loop for found = (position #\# text :start start)
          then (position #\# text :start (1+ found))
        while found
          thereis (let ((next (position-if-not #'digit-char-p text :start (1+ found))))
                    (and next (char= (char text next) #\.)))))

;;; Looking at a form

(defun check-type-predicate (form)
  "Look at FORM as (SATISFIES NAME): wherever such a type is, it calls what it names."
  (when (and (eq (car form) 'satisfies) (consp (cdr form)) (symbolp (cadr form)))
    (mention (cadr form) 'funcall)))

(defun note-conses (form)
  (let ((seen (findings-conses *findings*)))
    (labels ((note (tree)
               (loop
                 (take-step)
                 (cond ((comma-content tree) (setf tree (first (comma-content tree))))
                       ((or (atom tree) (gethash tree seen)) (return))
                       (t (setf (gethash tree seen) t)
                          (when *danger-symbols* (check-type-predicate tree))
                          (call-deeper (lambda () (note (car tree))))
                          (setf tree (cdr tree)))))))
      (note form))))

(defun check-format-control (string)
  "Look at the functions that STRING calls when it is a FORMAT control string: ~/name/."
  (loop for tilde = (position #\~ string) then (position #\~ string :start (1+ tilde))
        while tilde
        do (let* ((slash (position-if-not (lambda (it) (or (digit-char-p it) (find it "+-,:@#vV'")))
                                          string :start (1+ tilde)))
                  (end (and slash (char= (char string slash) #\/)
                            (position #\/ string :start (1+ slash)))))
             (when end
               (let* ((name (string-upcase (subseq string (1+ slash) end)))
                      (colon (position #\: name :from-end t))
                      (package (if colon
                                   (find-package-named (string-right-trim ":" (subseq name 0 colon)))
                                   (find-package "COMMON-LISP-USER")))
                      (symbol (and package
                                   (find-symbol (subseq name (if colon (1+ colon) 0)) package))))
                 (when (and symbol (danger symbol))
                   (hit :reaches (danger symbol) symbol string)))))))

(defun scan-text (form)
  "Look at what FORM mentions, whatever it does with it."
  (call-with-atoms
   (lambda (atom)
     (cond ((stringp atom)
            (check-format-control atom)
            (when (read-evaluation-p atom 0)
              (push atom (findings-readings *findings*))))
           ((and atom (symbolp atom))
            (note-reader atom)
            (when (internal-symbol-p atom)
              (hit :reaches "uses what is internal to the implementation" atom nil)))))
   form))

(defvar *expanding* nil
  "How the outermost form is expanded when nothing is to be run: :ONCE, :FULL or :COMPILER.")

(defun assess-one (form)
  (setf (findings-depth *findings*) 0
        (findings-current *findings*) form)
  (catch 'assessed
    (note-conses form)
    (scan-text form)
    (if *expanding*
        (expand-outermost form)
        (let ((*top-form* form))
          (walk form (make-scope))))
    (note-evaluated form)))

(defun expand-outermost (form)
  "Look at what expanding FORM would do. Macros within it are not expanded then, so not now."
  (when (and (consp form) (symbolp (first form)) (proper-list-p form))
    (cond ((or (eq *expanding* :compiler) (not (macro-function (first form))))
           (when (and (compiler-macro-function (first form)) (eq *expanding* :compiler))
             (check-expander form)))
          ((gethash (first form) *walkers*) (walk form (make-scope)))
          (t (check-expander form)
             (when (eq *expanding* :full)
               (multiple-value-bind (expansion expanded) (expand form)
                 (when expanded (expand-outermost expansion))))))))

(defun judge-combinations ()
  "Hits that no form makes alone: names made of text and calls of what has no name in the text."
  (let ((makers (findings-makers *findings*))
        (callers (findings-callers *findings*))
        (soft (findings-soft *findings*)))
    (when (and (findings-readings *findings*)
               (intersection '(read read-preserving-whitespace read-delimited-list) makers))
      (hit :reaches "reads text that may run code while it is read"
           (first (findings-readings *findings*))))
    (when (and makers callers)
      (hit :reaches "makes names out of text and calls what they name" (first makers)
           (first callers)))
    (when (and soft callers)
      (hit :reaches (danger (first soft)) (first soft) (first callers)))))

;;; A text

(defun assess-forms (text &optional (origin 0))
  "Look at the forms of TEXT; how many could be looked at, and whether some could not yet. The text
begins at ORIGIN of all that is run."
  (let ((forms '()) (expansions '()))
    (unwind-protect
         (flet ((note (form start) (push (list (+ origin start) form) forms))
                (before (start) (restore-symbols text (+ origin start))))
           (let ((values '()))
             (setf expansions (call-keeping-expansions
                               (lambda ()
                                 (setf values (multiple-value-list
                                               (assess-each-form text #'note #'before))))))
             (values-list values)))
      (let ((forgotten (forget-new-symbols (mapcar #'second forms))))
        (setf *look* (make-look :forms forms :forgotten forgotten :expansions expansions))))))

(defun assess-each-form (text note before)
  (let ((start 0) (count 0))
    (loop for next = (skip-to-form text start)
          while next
          do (when (findings-defers *findings*) (return (values count t)))
             (funcall before next)
             (multiple-value-bind (form end condition) (read-inert text next)
               (cond ((null condition)
                      (funcall note form next)
                      (assess-one form)
                      (incf count)
                      (setf start end))
                     ((read-evaluation-p text next)
                      (hit-brought "a #." (first-line (subseq text next) 80))
                      (return (values count nil)))
                     ((plusp count) (return (values count t)))
                     ;; What nobody can read is not run either: the reader's complaint comes first.
                     ((typep condition '(or end-of-file reader-error package-error))
                      (return (values count nil)))
                     (t (hit :unknown "could not be assessed: it can't be read" nil)
                        (return (values count nil)))))
          finally (return (values count nil)))))

(defun call-with-assessment (function)
  (let ((*findings* (make-findings))
        (*danger-symbols* (make-hash-table :test 'eq))
        (*danger-packages* (make-hash-table :test 'eq))
        (*symbols-before* '())
        (*package* *package*))
    (compile-now 'walk 'walk-compound 'walk-call 'walk-arguments 'walk-argument 'known-value
                 'call-with-atoms 'enter-danger 'call-in-order 'expand-and-keep 'same-form-p)
    (enter-dangers)
    (funcall function)))

(defun hit-texts (kinds)
  (let ((hits (remove-duplicates
               (loop for (kind reason text) in (reverse (findings-hits *findings*))
                     when (or (null kinds) (member kind kinds))
                       collect (format nil "~A~A" reason text))
               :test #'string= :from-end t)))
    (if (> (length hits) *hit-limit*)
        (append (subseq hits 0 *hit-limit*)
                (list (format nil "and ~D more" (- (length hits) *hit-limit*))))
        hits)))

(define-operation "assess-form" (form package purpose mode again)
    "What evaluating the text FORM would do beyond the program, without doing any of it. With the
PURPOSE \"expand\" only what expanding its macros would do, by MODE or all of them. AGAIN when the
same call was assessed before."
  (let* ((*package* (package-of-text package))
         (*look* (take-look form package (not again)))
         (*known* (and *look* (list (look-expansions *look*))))
         (*expanding* (and (equal purpose "expand")
                           (cdr (assoc mode '(("once" . :once) ("full" . :full)
                                              ("compiler" . :compiler))
                                       :test #'string-equal)))))
    (call-with-assessment
     (lambda ()
       (remember-symbols *package*)
       (remember-prefixes form)
       (multiple-value-bind (assessed more) (multiple-value-prog1 (assess-forms form)
                                              (forget-unread form 0))
         (keep-look form package)
         (judge-combinations)
         (list :hits (hit-texts (and (equal purpose "expand") '(:expander :unknown)))
               :notes (reverse (findings-notes *findings*))
               :opens (and (findings-opens *findings*) t)
               :directory (printed *default-pathname-defaults* :writer #'princ :limit 1000)
               :assessed assessed
               :more (and more t)))))))

;;; Just before a form is run

(defun assess-before-running (text start count)
  "Leave the operation unless the form in TEXT at START can be run without asking anybody."
  (call-with-assessment
   (lambda ()
     (remember-symbols *package*)
     (remember-prefixes text)
     (restore-symbols text start)
     (let ((end (nth-value 1 (read-inert text start))) (earlier *look*))
       (assess-forms (subseq text start end) start)
       (setf *look* (joined-look *look* earlier))
       (when *known*
         (setf (first *known*) (append (look-expansions *look*) (first *known*))))
       (judge-combinations)
       (let ((hits (hit-texts nil)))
         (when hits
           (failed "NOT-RUN"
                   (format nil "Form ~D was not run, because it ~{~A~^; it ~}. It could not be ~
                                assessed in its package before. Send it in a call of its own that ~
                                names the package, so that the user can be asked."
                           count hits))))))))
