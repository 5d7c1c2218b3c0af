;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The journal of what the agent changed in the image, so that it can be undone. For each call that
;;; may define something, the image is compared with what was there before. A watch, if there is
;;; one, tells who defined what, so that other people's changes are left out, except for variables
;;; that they set without defining them.

(cl:in-package "AGENT-Q-IMAGE")

;; Lists, so that a later version of this text can add fields in an image that already has changes.
(defstruct (change (:copier nil) (:type list))
  id kind name
  ;; The definition before and after; for methods, those removed and those added.
  old new
  text time restored
  ;; The chat it was made for, and its turn, as Emacs names them.
  chat turn
  ;; Whether it came with a file rather than from a form that has its name; the file that its form
  ;; is from.
  loaded file)

(defvar *journal* '()
  "The changes, latest first.")

;; Its chats don't outlive the process, and a saved image starts with an empty journal.
(lasts-for-the-process '*journal*)

(defvar *last-change* 0)

(defvar *author* nil
  "During a call: a list of the chat that it runs for, if any, and of its turn, as Emacs names them,
and of the file whose form it compiles, if any. A parked call continues for the chat that invokes
the restart.")

(defvar *loads* nil
  "True if the running call only loads files; :SYSTEM if they are a system's.")

(defvar *own-folders* '()
  "During a call that loads systems or runs tests: the folders of the project's systems, if known.")

(defvar *loaded-files* (list 0)
  "During a call: a list of one element, how many files of systems it has loaded.")

(defun note-loaded-file ()
  (incf (first *loaded-files*)))

(defvar *settle* (constantly nil)
  "While a call is compared: a function that enters what has changed so far. With :FORGET, it skips
those changes: others made them.")

(defvar *compared* '()
  "The ids of the calls being compared; only those under a watch count.")

(defvar *definition-notes* '()
  "While calls are compared: lists of a name that was defined, the id of the call that did so (NIL
for others), and its previous definition as an operator; latest first.")

(lasts-for-the-process '*compared*)

(defparameter *journal-limit* 1000)

(defvar *journal-cut* nil
  "Whether the journal was ever cut.")

(defparameter *values-limit* 8
  "How many earlier values of a variable to keep, so that the journal doesn't fill the memory.")

(defparameter *unbound* (list :unbound)
  "The value of an unbound variable.")

;;; Variables, including some that aren't in snapshots

(defvar *noted* nil
  "During a call: a list of one element, what the call may set, with the values before.")

(defparameter *setters*
  '(setq setf psetq psetf incf decf push pushnew pop defvar defparameter defconstant
    define-symbol-macro multiple-value-setq rotatef shiftf))

(defparameter *bound-by-calls*
  '(*package* *readtable* *standard-output* *error-output* *trace-output* *standard-input*
    *query-io* *debug-io* *terminal-io* *macroexpand-hook* *debugger-hook* *read-eval* *read-base*
    *read-suppress*
    * ** *** + ++ +++ / // /// -)
  "Variables that each call binds.")

(defun note-variable (symbol)
  (unless (or (null symbol) (member symbol *bound-by-calls*)
              (not (or (tracked-symbol-p symbol)
                       (eq (symbol-package symbol) (find-package "COMMON-LISP"))))
              (find (cons :variable symbol) (first *noted*) :key #'first :test #'equal))
    (push (list (cons :variable symbol) (variable-value symbol)) (first *noted*))))

(defun tracked-symbol-p (symbol)
  (and (symbol-package symbol) (tracked-package-p (symbol-package symbol))))

(defun note-setting (form)
  "Note what FORM may set, if its operator sets variables."
  (when (and *noted* (consp form) (ignore-errors (list-length form)))
    (let ((operator (first form)))
      (when (member operator *setters*)
        (dolist (part (if (eq operator 'multiple-value-setq) (second form) (rest form)))
          (when (symbolp part) (note-variable part)))))))

(defun note-settings-of-text (text)
  "Note what the forms of TEXT may set, as far as they can be read. Returns whether all are plain
forms."
  (let ((*findings* (make-findings)) (*symbols-before* '()) (*package* *package*) (start 0)
        (forms '()) (all-read nil))
    (remember-symbols *package* text)
    (catch 'assessed
      (loop for next = (skip-to-form text start)
            while next
            do (multiple-value-bind (form end condition) (read-inert text next)
                 (when condition (throw 'assessed nil))
                 (push form forms)
                 (note-conses form)
                 (setf start end)))
      (setf all-read t))
    (loop for cons being the hash-keys of (findings-conses *findings*)
          do (note-setting cons))
    (prog1 (and all-read (every #'plain-form-p forms))
      (forget-new-symbols forms))))

(defvar *outer-hook* 'funcall
  "During a call: the macroexpand hook outside of it.")

(defun note-and-expand (expander form environment)
  "Note what FORM sets, then expand it as it was assessed or, if it wasn't, as usual."
  (let ((outside *outer-hook*))
    (let ((*macroexpand-hook* outside))
      (note-setting form))
    (let ((*outer-hook* 'funcall))
      (expand-as-assessed expander form environment outside))))

(defun call-noting-settings (function)
  "Call FUNCTION; variables that macros in it set are noted before that happens."
  (apply #'compile-now 'note-and-expand 'note-setting 'note-variable 'tracked-symbol-p
         +used-while-expanding+)
  (let ((hook #'note-and-expand))
    ;; SBCL takes only compiled functions here, and evaluating in a frame already has the hook.
    (if (or (interpreted-p hook) (eq hook *macroexpand-hook*))
        (funcall function)
        (let ((*outer-hook* *macroexpand-hook*) (*macroexpand-hook* hook))
          (funcall function)))))

(defun noted-differences ()
  (loop for ((kind . name) old) in (first *noted*)
        for new = (variable-value name)
        unless (same-definition-p old new)
          collect (list kind name old new)))

(defun note-all-again ()
  "Update the values of everything noted."
  (loop for entry in (first *noted*)
        for ((nil . name)) = entry
        do (setf (second entry) (variable-value name))))

(defun all-differences (before now)
  "What differs between the snapshots, and among the noted variables, which may have got their old
values later."
  (let ((found (snapshot-differences before now)))
    (append (remove-if (lambda (noted)
                         (find-if (lambda (other)
                                    (and (eq (first other) (first noted))
                                         (eq (second other) (second noted))))
                                  found))
                       (noted-differences))
            found)))

;;; Who defined what

(defun note-definer (name id)
  "Note that the call ID, or others if it is NIL, is about to define NAME."
  (when *compared*
    (let ((before (ignore-errors (if (consp name)
                                     (setf-definition (second name))
                                     (symbol-definition name)))))
      (call-with-lock (lambda () (push (list name id before) *definition-notes*))))))

(defun forget-definer (name)
  "Forget who defined NAME last: that was undone."
  (call-with-lock
   (lambda ()
     (setf *definition-notes* (remove name *definition-notes* :key #'first :test #'equal :count 1)))))

(defun call-noting-definers (function)
  "Call FUNCTION while noting who defines what."
  (let ((id *call*))
    (unwind-protect (progn (call-with-lock (lambda () (push id *compared*)))
                           (funcall function))
      (call-with-lock (lambda ()
                        (setf *compared* (remove id *compared* :count 1))
                        (unless *compared* (setf *definition-notes* '())))))))

(defun part-of-call (difference id)
  "The part of DIFFERENCE that the call ID is known to have made: others may have defined its name
before or after. NIL if it made none of it."
  (destructuring-bind (kind name old new) difference
    (let* ((notes (remove name *definition-notes* :key #'first :test-not #'equal))
           (latest (position id notes :key #'second))
           (others-before (and latest (position id notes :key #'second :start latest :test-not #'eql))))
      (cond ((null notes) difference)
            ((null latest) nil)
            ((not (eq kind :function)) (and (zerop latest) difference))
            (t (let ((from (if others-before (third (nth (1- others-before) notes)) old))
                     (to (if (zerop latest) new (third (nth (1- latest) notes)))))
                 (unless (same-definition-p from to)
                   (list kind name from to))))))))

(defun watched-p (arguments)
  "Whether a call with ARGUMENTS is under a watch, which can tell its threads from others."
  (let ((options (getf arguments :watch)))
    (and options (not (getf options :off)) (not (getf options :look))
         (optional-function "AGENT-Q-IMAGE" "CURRENT-WATCH-P"))))

;;; Writing the journal

(defun mentions-name-p (word text start end)
  "Whether TEXT has WORD between START and END, but not as part of a longer name."
  (flet ((ends-name-p (index)
           (or (< index start) (>= index end)
               (not (or (alphanumericp (char text index))
                        (find (char text index) "-*+%!?=<>/&$_"))))))
    (loop for found = (search word text :start2 start :end2 end :test #'char-equal)
            then (search word text :start2 (1+ found) :end2 end :test #'char-equal)
          while found
            thereis (and (ends-name-p (1- found)) (ends-name-p (+ found (length word)))))))

(defun defining-text (name text)
  "The form in TEXT that has NAME, or all of TEXT; and whether there is such a form."
  (let* ((symbol (if (consp name) (second name) name))
         (word (symbol-name symbol)) (start 0) (found nil))
    (ignore-errors
     (loop for next = (skip-to-form text start)
           while next
           do (let ((end (let ((*read-suppress* t) (*read-eval* nil))
                           (nth-value 1 (read-from-string text t nil :start next
                                                                     :preserve-whitespace t)))))
                (when (mentions-name-p word text next end)
                  (setf found (subseq text next end)))
                (setf start end))))
    (values (shortened (or found (trimmed text)) 4000) (and found t))))

(defparameter *loading-words*
  '("load" "load*" "require" "load-system" "load-systems" "require-system" "test-system" "operate"
    "quickload")
  "The operators of forms that load files.")

(defun loading-text-p (text)
  (loop for word in *loading-words*
          thereis (mentions-name-p word text 0 (length text))))

(defun not-worth-listing-p (difference text)
  "Whether listing DIFFERENCE is useless: a function for a place, made without a name, or a counter
that went up without being named in TEXT, or what loading and testing change in variables of others."
  (destructuring-bind (kind name old new) difference
    (case kind
      (:function (and (consp name) (null (symbol-package (second name)))))
      (:variable (and (or (and (integerp old) (integerp new) (> new old))
                          (of-another-system-p name))
                      (not (mentions-name-p (symbol-name name) text 0 (length text))))))))

(defun package-source (package)
  "The name of the file that defines PACKAGE, if the implementation knows."
  (let ((find (optional-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCES-BY-NAME"))
        (file (optional-function "SB-INTROSPECT" "DEFINITION-SOURCE-PATHNAME")))
    (and find file
         (guarded (lambda ()
                    (let ((pathname (funcall file (first (funcall find (make-symbol (package-name package))
                                                                  :package)))))
                      (and pathname (namestring (translate-logical-pathname pathname)))))
                  (constantly nil)))))

(defun of-another-system-p (symbol)
  "Whether the package of SYMBOL is defined in a file outside of the project, if both are known."
  (let ((source (and *own-folders* (package-source (symbol-package symbol)))))
    (and source
         (notany (lambda (folder) (prefixed-p folder source)) *own-folders*))))

(defun own-folders (arguments)
  "The folders of the project's systems, for a call with ARGUMENTS that loads systems or runs tests."
  (and (or (getf arguments :system) (getf arguments :suite) (getf arguments :test))
       (loop for system in (getf arguments :systems)
             for file = (getf system :file)
             for slash = (and (stringp file) (position #\/ file :from-end t))
             when slash collect (subseq file 0 (1+ slash)))))

(defun make-change-again (difference)
  "If a change of this turn made the old definition in DIFFERENCE, let it be one that made the new
one: a load has only loaded it again."
  (destructuring-bind (kind name old new) difference
    (let ((change (find-if (lambda (change)
                             (and (eq (change-kind change) kind)
                                  (equal (change-name change) name)
                                  (not (change-restored change))))
                           *journal*)))
      (when (and change
                 (change-turn change)
                 (equal (list (change-chat change) (change-turn change))
                        (list (first *author*) (second *author*)))
                 (not (eq kind :methods))
                 (same-definition-p (change-new change) old))
        (setf (change-new change) new)))))

(defun enter-change (difference text)
  "Enter DIFFERENCE with TEXT as its reason; or return it if it is only part of a load."
  (destructuring-bind (kind name old new) difference
    (unless (not-worth-listing-p difference text)
      (multiple-value-bind (form named) (defining-text name text)
        (let ((loaded (or *loads*
                          (and (not named)
                               (or (loading-text-p text)
                                   ;; ECL crashes when it looks at some values.
                                   (and (not (eq kind :variable)) (in-file-p new)))))))
          (cond ((not (and loaded (or (eq *loads* :system) (new-p kind old))))
                 (add-change kind name old new form loaded))
                (t (make-change-again difference)
                   difference)))))))

(defun new-p (kind old)
  (if (eq kind :variable) (eq old *unbound*) (null old)))

(defun add-change (kind name old new text loaded)
  (push (make-change :id (incf *last-change*) :kind kind :name name :old old :new new
                     :text text :time (get-universal-time)
                     :chat (first *author*) :turn (second *author*) :loaded loaded
                     :file (third *author*))
        *journal*)
  nil)

(defun enter-load (differences text)
  "Enter DIFFERENCES, which were loaded because of TEXT, as one change with their names and the
number of files. They can't be undone: the files contain them, and ASDF, or the code that loaded
them, relies on them."
  (when differences
    (add-change :load (shortened (trimmed text) 4000) (mapcar #'second differences)
                (list :files (shiftf (first *loaded-files*) 0)
                      :new (count-if (lambda (it) (new-p (first it) (third it))) differences))
                (shortened (trimmed text) 4000) t)))

(defun in-file-p (definition)
  "Whether DEFINITION, a function, a macro or a class, was loaded from a file."
  (let ((object (if (and (consp definition) (eq (first definition) :macro))
                    (second definition)
                    definition)))
    (and (or (functionp object) (typep object 'class))
         (let ((location (ignore-errors (backend "FIND-SOURCE-LOCATION" object))))
           (and (consp location) (eq (first location) :location)
                (eq (first (second location)) :file))))))

(defun join-old-values (name)
  "If too many values of the variable NAME are kept, merge two old changes into one."
  (let ((changes (reverse (remove-if-not (lambda (change)
                                           (and (eq (change-kind change) :variable)
                                                (eq (change-name change) name)
                                                (not (change-restored change))))
                                         *journal*))))
    (when (> (length changes) *values-limit*)
      (loop for (first second) on changes
            when (and second
                      (equal (change-chat first) (change-chat second))
                      (eql (change-new first) (change-old second)))
              do (setf (change-new first) (change-new second)
                       *journal* (remove second *journal* :test #'eq))
                 (return)))))

(defun enter-changes (differences text)
  (call-with-lock
   (lambda ()
     ;; A class after its functions, as the list is read latest first.
     (let ((parts '()))
       (dolist (difference (sort (copy-list differences) #'string<
                                 :key (lambda (it) (format nil "~A~A" (second it) (first it)))))
         (when (enter-change difference text)
           (push difference parts))
         (when (eq (first difference) :variable)
           (join-old-values (second difference))))
       (enter-load parts text))
     (cut-journal))))

(defun cut-journal ()
  "Cut the journal to its limit. Redefinitions by forms are kept longest."
  (let ((excess (- (length *journal*) *journal-limit*)))
    (when (plusp excess)
      (let ((gone (flet ((latest (list) (subseq list 0 (min excess (length list)))))
                    (latest (append (reverse (remove-if-not #'change-loaded *journal*))
                                    (reverse (remove-if #'change-loaded *journal*)))))))
        (setf *journal-cut* t
              *journal* (remove-if (lambda (change) (member change gone :test #'eq)) *journal*))))))

(defun defines-nothing-p (arguments)
  "Note what a call with ARGUMENTS may set. Returns true if it certainly defines nothing."
  (and (ignore-errors
        (let ((*package* (let ((named (getf arguments :package)))
                           (or (and named (find-package-named named)) *package*))))
          (note-settings-of-text (or (getf arguments :form) (getf arguments :values)))))
       (getf arguments :form)
       ;; A restart may bring forms of its own.
       (null (getf arguments :restart))))

(defun call-compared (function text watched)
  "Call FUNCTION and enter what it has redefined, with TEXT as the reason. WATCHED: the watch knows
what others define."
  (compile-now 'take-snapshot 'symbol-state 'call-with-home-symbols 'symbol-definition
               'symbol-macro 'expanders 'direct-superclasses 'variable-value 'setf-definition
               'snapshot-differences 'equalp-states 'same-definition-p 'generic-methods
               'direct-slots 'optional-function 'state-differences 'class-options
               'direct-default-initargs 'condition-report-function 'report-place
               'same-options-p 'changed-options)
  (let* ((before (take-snapshot))
         (id *call*)
         (*settle* (lambda (&optional forget)
                     (let ((now (take-snapshot)))
                       (unless forget
                         (enter-changes (loop for difference in (all-differences before now)
                                              for own = (if watched (part-of-call difference id) difference)
                                              when own collect own)
                                        text))
                       (setf before now)
                       (note-all-again)))))
    (unwind-protect (call-noting-settings function)
      (ignore-errors (funcall *settle*)))))

(defun take-over (arguments)
  "If ARGUMENTS are those of leaving a debugger, let the parked call continue on behalf of the
caller."
  (when (and *author*
             (or (getf arguments :restart) (getf arguments :frame))
             (null (getf arguments :form)))
    (setf (first *author*) (getf arguments :chat)
          (second *author*) (getf arguments :turn))))

(defun call-journaled (function arguments)
  "Call FUNCTION, an operation with ARGUMENTS, and enter what it changed, however it exits."
  (take-over arguments)
  (let ((*noted* (list '()))
        (*author* (list (getf arguments :chat) (getf arguments :turn)
                        (and (getf arguments :form) (getf arguments :file))))
        (*assessed-for* (getf arguments :chat))
        (*own-folders* (own-folders arguments))
        (*loaded-files* (list 0))
        (*loads* (cond ((getf arguments :form) nil)
                       ((getf arguments :system) :system)
                       ;; Leaving a debugger; loading may also be given the name of a restart.
                       ((and (or (getf arguments :restart) (getf arguments :frame))
                             (not (getf arguments :file)))
                        nil)
                       (t t))))
    (call-as-assessed
     (getf arguments :form) (getf arguments :package)
     (lambda ()
       (if (defines-nothing-p arguments)
           (call-making-packages function arguments)
           (call-noting-definers
            (lambda ()
              (call-compared (lambda () (call-making-packages function arguments))
                             (or (getf arguments :form) (getf arguments :values)
                                 (call-text arguments))
                             (watched-p arguments)))))))))

(defun call-making-packages (function arguments)
  "Call FUNCTION, the work of a call with ARGUMENTS; packages that its form makes belong to its
chat."
  (let ((form (getf arguments :form)) (chat (getf arguments :chat)))
    (if (and form chat)
        (call-noting-packages function form chat)
        (funcall function))))

(defun call-text (arguments)
  "The text for a call with ARGUMENTS that has no code."
  (flet ((given-p (key) (get-properties arguments (list key))))
    (format nil "~A~{ ~A~}"
            (cond ((given-p :suite) "run_tests")
                  ((given-p :system) "load_system")
                  ((given-p :file) "compile_file")
                  ((given-p :restart) "invoke_restart")
                  ((given-p :frame) "restart_frame")
                  (t "load_system"))
            (loop for key in '(:frame :file :system :suite :test :restart)
                  when (getf arguments key) collect it))))

(defun call-in-journal (operation function arguments)
  "Call FUNCTION, which performs OPERATION with ARGUMENTS, and note what it redefines, if it can."
  (if (member operation '("eval-form" "compile-form" "compile-file" "load-system" "eval-in-frame"
                          "invoke-restart" "restart-frame" "return-from-frame" "run-tests"
                          "compare-forms" "profile-form")
              :test #'string=)
      (call-journaled function arguments)
      (funcall function)))
