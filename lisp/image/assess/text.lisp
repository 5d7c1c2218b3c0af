;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Assessing a text: its forms are read without #. and checked one after the other, as far as they
;;; can be read before the forms above them have run. Operation: assess-form.

(cl:in-package "AGENT-Q-IMAGE")

(defun enter-package (package)
  (remember-symbols package)
  (setf *package* package))

(defun meaningless-p (symbol)
  (not (or (boundp symbol) (fboundp symbol) (symbol-plist symbol) (find-class symbol nil))))

(defun forget-new-symbols (form)
  "Unintern the symbols that reading FORM made: a USE-PACKAGE or IMPORT in the text must find the
packages as they would be without us. Returns the symbols, each with its package."
  (let ((*findings* (make-findings)) (forgotten '()))
    (catch 'assessed
      (call-with-atoms
       (lambda (atom)
         (let ((before (and atom (symbolp atom) (symbol-package atom)
                            (assoc (symbol-package atom) *symbols-before*))))
           (when (and before
                      (gethash (symbol-name atom) (cdr before))
                      (meaningless-p atom)
                      (not (locked-p (car before))))
             (push (cons atom (car before)) forgotten)
             (unintern atom (car before)))))
       form))
    forgotten))

;;; Reading

(defun inert-readtable ()
  "The current readtable without syntax that runs the program's functions."
  (let ((readtable (copy-readtable)))
    (when (ignore-errors (get-dispatch-macro-character #\# #\S readtable))
      (set-dispatch-macro-character #\# #\S
                                    (lambda (stream character number)
                                      (declare (ignore character number))
                                      (list 'quote (read stream t nil t)))
                                    readtable))
    readtable))

(defun read-inert (text start)
  "The form in TEXT at START and its end; or NIL, NIL, the condition and where the reader was."
  (let ((*read-eval* nil) (*read-suppress* nil) (*readtable* (inert-readtable)) (*reader-stop* nil))
    (handler-case (read-knowing-handles text start)
      (serious-condition (condition) (values nil nil condition *reader-stop*)))))

;;; Checking a form

(defun check-type-predicate (form)
  "Check FORM as (SATISFIES NAME): wherever such a type occurs, it calls what it names."
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
  "Check the functions that STRING calls if it is a FORMAT control string: ~/name/."
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
  "Check what FORM mentions, whatever it does with it."
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

(defun trivial-p (form)
  "Whether FORM has only harmless standard operators and literals, and so needs no check."
  (and (plain-form-p form)
       (loop for tree = form then (cdr tree)
             while (consp tree)
             always (if (consp (car tree))
                        (trivial-p (car tree))
                        (or (not (symbolp (car tree)))
                            (null (car tree))
                            (keywordp (car tree))
                            (member (car tree) +plain-functions+))))
       (or (consp form) (not (symbolp form)))))

(defun assess-one (form)
  (setf (findings-depth *findings*) 0
        (findings-current *findings*) form)
  (catch 'assessed
    (note-conses form)
    (scan-text form)
    (cond ((member *expanding* '(:once :full :compiler))
           (expand-outermost form))
          ((not (trivial-p form))
           (let ((*top-form* form))
             (walk form (make-scope)))))
    (note-evaluated form)))

(defun expand-outermost (form)
  "Check what expanding FORM would do. Macros inside it wouldn't be expanded, so they aren't
checked."
  (when (and (consp form) (symbolp (first form)) (proper-list-p form))
    (cond ((or (eq *expanding* :compiler) (not (macro-function (first form))))
           (when (and (compiler-macro-function (first form)) (eq *expanding* :compiler))
             (check-expander form)))
          ((walker (first form)) (walk form (make-scope)))
          (t (check-expander form)
             (when (eq *expanding* :full)
               (multiple-value-bind (expansion expanded) (expand form)
                 (when expanded (expand-outermost expansion))))))))

(defun judge-combinations ()
  "Hits that only several forms make together: symbols made from text, and calls of what the text
doesn't name."
  (let ((makers (findings-makers *findings*))
        (callers (findings-callers *findings*))
        (soft (findings-soft *findings*)))
    (when (and (or (findings-readings *findings*) (findings-strings *findings*))
               (findings-reads *findings*))
      (hit :reaches "reads text that may run code while it is read"
           (first (findings-readings *findings*))
           (or (first (findings-strings *findings*)) (first (findings-reads *findings*)))))
    (when (and makers callers)
      (hit :reaches "makes names out of text and calls what they name" (first makers)
           (first callers)))
    (when (and soft callers)
      (hit :reaches (danger (first soft)) (first soft) (first callers)))
    (loop for (variable . form) in (findings-trusted *findings*)
          do (when (member variable (findings-assigned *findings*))
               (hit :reaches "evaluates or reads what is only made at run time" nil form)))
    (judge-lookups)))

;;; A text

(defun assess-forms (text &optional (origin 0))
  "Check the forms of TEXT, which starts at ORIGIN of all that is run. Returns how many could be
checked, whether there are more, and how many of the former are settled."
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
        (setf *look* (make-look :forms forms :forgotten forgotten :expansions expansions
                                :operators (findings-operators *findings*)
                                :locals (findings-locals *findings*)))))))

(defun settles-p (form)
  "Whether anything after FORM is certainly read and expanded the same way once FORM was run and its
values were printed. Objects of the program have the program's printers."
  (if (atom form)
      (or (null form) (eq form t) (typep form '(or number character string keyword)))
      (and (member (first form) '(defun in-package))
           (changes-nothing-p form))))

(defun expands-by-program-p ()
  "Whether compiling what was walked so far calls functions of the program."
  (or (not *usable-p*)
      (loop for operator being the hash-keys of (findings-operators *findings*)
              using (hash-value macro)
            thereis (and (or macro (compiler-macro-function operator))
                         (not (standard-macro-p operator))))))

(defun assess-each-form (text note before)
  (let ((start 0) (count 0) (settled 0) (settling t))
    (flet ((result (more) (values count more settled)))
      (loop for next = (skip-to-form text start)
            while next
            do (when (findings-defers *findings*) (return (result t)))
               (funcall before next)
               (multiple-value-bind (form end condition stop) (read-inert text next)
                 (when condition
                   (return (result (unread-p text next condition count stop))))
                 (funcall note form next)
                 (assess-one form)
                 (incf count)
                 (when settling
                   (incf settled)
                   (setf settling (and (settles-p form) (not (expands-by-program-p)))))
                 (when *expanding* (return (result nil)))
                 (setf start end))
            finally (return (result nil))))))

(defun unread-p (text start condition count &optional stop)
  "Whether the form in TEXT at START, which can't be read at STOP because of CONDITION, may be
readable once the COUNT forms before it have run. If it could be read then, but never checked, that
is a hit."
  (cond (*expanding* nil)
        ((read-evaluation-p text start)
         (hit-brought "a #." (subseq text (or (and stop (<= start stop (length text))
                                                   (search "#." text :start2 start :end2 stop :from-end t))
                                              (read-evaluation-p text start))))
         nil)
        ((plusp count) t)
        ;; What can't be read doesn't run either: the reader complains first.
        ((typep condition '(or end-of-file reader-error package-error)) nil)
        (t (hit :unknown "not checked: it can't be read" nil)
           nil)))

(defun call-with-assessment (function)
  (let ((*findings* (make-findings))
        (*danger-symbols* :later)
        (*danger-packages* nil)
        (*symbols-before* '())
        (*hit-effects* (list '()))
        (*package* *package*))
    (prepare-assessment)
    (funcall function)))

(defun prepare-assessment ()
  "Install a watch, which can't be done under another one, and compile what would be slow."
  (let ((ensure (optional-function "AGENT-Q-IMAGE" "ENSURE-WATCH")))
    (when ensure (funcall ensure)))
  (compile-now 'walk 'walk-compound 'walk-call 'walk-arguments 'walk-argument 'known-value
               'call-with-atoms 'enter-danger 'call-in-order 'expand-and-keep 'same-form-p))

(defun hit-texts (kinds)
  "A text for each reason among the hits: the first three places, and how many more there are. No
reason is left out, so that none can hide behind others."
  (let ((hits (remove-duplicates
               (loop for (kind reason text) in (reverse (findings-hits *findings*))
                     when (or (null kinds) (member kind kinds))
                       collect (cons reason text))
               :test #'equal :from-end t)))
    (loop for (reason . text) in (remove-duplicates hits :key #'car :test #'string= :from-end t)
          for others = (loop for (other . place) in hits
                             when (and (string= other reason) (not (equal place text)))
                               collect (string-left-trim ": " place))
          collect (format nil "~A~A~{, ~A~}~@[ and in ~D more place~:P~]" reason text
                          (subseq others 0 (min 2 (length others)))
                          (and (nthcdr 2 others) (length (nthcdr 2 others)))))))

(defun hit-alarms (kinds)
  "The reasons of the hits, each with the name of the operator, if known. Complete, so that a rule
about some of them can't let others pass."
  (remove-duplicates
   (loop for (kind reason nil operator) in (reverse (findings-hits *findings*))
         when (or (null kinds) (member kind kinds))
           collect (list reason operator))
   :test #'equal :from-end t))

(define-operation "assess-form" (form package purpose mode again chat file)
  ;; What evaluating the text FORM (of FILE, if given) would do outside the program, without doing
  ;; any of it. With the PURPOSE "expand", only what expanding its macros would do, by MODE or all
  ;; of them. AGAIN: the same call was assessed before.
  (let ((found (catch 'missed (package-of-text package))))
    (if (packagep found)
        (let* ((*package* found)
               (*assessed-for* chat)
               (*known-readings* (readings-of file))
               (*look* (take-look form package (not again)))
               (*known* (and *look* (list (look-expansions *look*))))
               (*expanding* (and (equal purpose "expand")
                                 (or (cdr (assoc mode '(("once" . :once) ("full" . :full)
                                                        ("compiler" . :compiler))
                                                 :test #'string-equal))
                                     :all))))
          (assess-alone
           (lambda ()
             (call-with-assessment
              (lambda ()
                (assess-text form package (equal purpose "expand")))))))
        (list :assessed 0 :settled 0 :fails (getf found :message)))))

(defun assess-alone (function)
  "Call FUNCTION, which assesses, with nothing allowed: reading runs the program's reader macros,
and printing its printers. What these try is a hit."
  (prepare-assessment)
  (let* ((tried '())
         (result (call-looking function (lambda (words) (push words tried)))))
    (setf (getf result :hits)
          (append (getf result :hits)
                  (loop for words in (remove-duplicates tried :test #'string=)
                        collect (format nil "tries to ~A while it is read" words))))
    result))

(defun assess-text (text package expanding)
  "The assessment of TEXT, in PACKAGE as the caller named it; EXPANDING if it is only to be
expanded."
  (remember-symbols *package* text)
  (multiple-value-bind (assessed more settled) (multiple-value-prog1 (assess-forms text)
                                                 (forget-unread text 0))
    (keep-look text package)
    (judge-combinations)
    (list :hits (hit-texts (and expanding '(:expander :unknown)))
          :alarms (hit-alarms (and expanding '(:expander :unknown)))
          :effects (reverse (first *hit-effects*))
          :notes (reverse (findings-notes *findings*))
          :opens (and (findings-opens *findings*) t)
          :directory (printed *default-pathname-defaults* :writer #'princ :limit 1000)
          :assessed assessed
          :settled settled
          :more (and more t)
          :unwatched (not (effects-asked-p)))))

;;; Just before a form runs

(defun assess-before-running (text start count)
  "End the operation unless the form in TEXT at START can run without asking anybody."
  (call-checking-form
   (format nil "Form ~D" count)
   (case count
     (1 "It could not be checked in its package before.")
     (2 "The form above it has run, and only then could this one be assessed.")
     (t (format nil "The ~D forms above it have run, and only then could this one be assessed."
                (1- count))))
   (lambda ()
     (remember-symbols *package* text)
     (restore-symbols text start)
     (multiple-value-bind (form end) (read-inert text start)
       (assess-forms (subseq text start end) start)
       form))))

(defun assess-part (form count)
  "Like ASSESS-BEFORE-RUNNING for FORM, part of the form with number COUNT."
  (unless (and *look* (look-allowed *look*))
    (call-checking-form
     (format nil "A part of form ~D" count)
     "What stands above it has run, and only then could this part be assessed."
     (lambda ()
       (let ((expansions (call-keeping-expansions (lambda () (assess-one form)))))
         (setf *look* (make-look :expansions expansions
                                 :operators (findings-operators *findings*)
                                 :locals (findings-locals *findings*))))
       form))))

;;; While a form is expanded

(defun assess-expansion (form expansion)
  "End the operation unless EXPANSION, which FORM has become in the running call, can run without
asking anybody."
  (let ((earlier *look*))
    (call-checking-form
     (format nil "What ~A expands to" (excerpt form))
     "Only while it was expanded could that be assessed."
     (lambda ()
       (let ((expansions (call-keeping-expansions
                          (lambda () (assess-expanded expansion (look-locals earlier)))))
             (operators (findings-operators *findings*)))
         ;; The rest of the form that contains FORM is still to be expanded.
         (maphash (lambda (operator macro)
                    (unless (nth-value 1 (gethash operator operators))
                      (setf (gethash operator operators) macro)))
                  (look-operators earlier))
         (setf *look* (make-look :expansions expansions :operators operators
                                 :locals (findings-locals *findings*))))
       expansion))))

(defun assess-expanded (expansion locals)
  "Check EXPANSION, in which functions called LOCALS may be the text's own."
  (setf (findings-current *findings*) expansion)
  (catch 'assessed
    (note-conses expansion)
    (let ((scope (make-scope)))
      (walk expansion
            (with-functions scope (remove-if (lambda (name)
                                               (multiple-value-bind (reason soft)
                                                   (and (symbolp name) (danger name))
                                                 (and reason (not soft))))
                                             locals))))))

(defun ask-to-run (what why hits form)
  "End the operation unless the user can be asked about WHAT, which has HITS, and allows it."
  (let ((ask (optional-function "AGENT-Q-IMAGE" "ASK-ABOUT-FORM")))
    (multiple-value-bind (decision reason)
        (and ask (funcall ask
                          (format nil "run ~A~A, which" (char-downcase (char what 0)) (subseq what 1))
                          (format nil "~{~A~^; ~}" hits)
                          form))
      (unless (equal decision "allow")
        (failed "NOT-RUN"
                (format nil "~A was not run, because it ~{~A~^; it ~}. ~A"
                        what hits
                        (if decision
                            (or reason "The user has not allowed it.")
                            (format nil "~A Send it in a call of its own that names its package, so ~
                                         that the user can be asked."
                                    why))))))))

(defun call-checking-form (what why assess)
  "If ASSESS, which checks WHAT (about to be run) and returns the form, finds a hit, end the
operation unless the user allows it. WHY says why nobody was asked before."
  (let ((earlier *look*) (allowed nil))
    (call-with-assessment
     (lambda ()
       (let ((form (funcall assess)))
         (judge-combinations)
         (let ((hits (hit-texts nil)))
           (when hits
             (ask-to-run what why hits form)
             (setf allowed t))))))
    (setf *look* (joined-look *look* earlier))
    (when allowed
      ;; Then don't ask about the form's expansions either.
      (setf (look-allowed *look*) t
            (look-operators *look*) nil))
    (when *known*
      (setf (first *known*) (append (look-expansions *look*) (first *known*))))))
