;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The journal of what the agent changed in the image, and its way back. Each call that can define
;;; anything is compared with what was there before. Where there is a watch, it tells who defined what, so
;;; that what others do meanwhile is left out, but for variables that they set without defining them.

(cl:in-package "AGENT-Q-IMAGE")

;; A list, so that a later version of this text can add to it in an image that has some already.
(defstruct (change (:copier nil) (:type list))
  id kind name
  ;; What was there and what came; of methods the removed and the added ones.
  old new
  text time restored
  ;; On whose behalf, and in which turn of theirs, as Emacs names it.
  chat turn
  ;; Whether a file brought it, and no form that says its name; the file that its form is from.
  loaded file)

(defvar *journal* '()
  "The changes, latest first.")

;; The chats that they are of do not outlive the process, and a saved image is a new beginning.
(lasts-for-the-process '*journal*)

(defvar *last-change* 0)

(defvar *author* nil
  "While a call runs: a list of the chat on whose behalf it does, if any, and of the turn of that,
as Emacs knows them, and of the file whose form it compiles, if it does. A call that was parked goes on
for the one who invoked the restart.")

(defvar *loads* nil
  "Whether the call that runs does no more than to load files; :SYSTEM when they are a system's.")

(defvar *loaded-files* (list 0)
  "While a call runs: a list of one element, how many files of systems it has loaded.")

(defun note-loaded-file ()
  (incf (first *loaded-files*)))

(defvar *settle* (constantly nil)
  "While a call is compared: a function that enters what has changed until now. With :FORGET, what
has changed is left out: others did it.")

(defvar *compared* '()
  "The ids of the calls that are compared now, of which only those of the watch count.")

(defvar *definition-notes* '()
  "While calls are compared: lists of a name that was given a meaning, the id of the call that did, NIL
for others, and the operator that it was before; latest first.")

(lasts-for-the-process '*compared*)

(defparameter *journal-limit* 1000)

(defvar *journal-cut* nil
  "Whether the journal once had more than it keeps.")

(defparameter *values-limit* 8
  "How many earlier values of a variable are kept, so that the journal does not fill the memory.")

(defparameter *unbound* (list :unbound)
  "Stands for the value of a variable that had none.")

;;; Variables, some of which no snapshot has

(defvar *noted* nil
  "While a call runs: a list of one element, what may be set by it with what it was before.")

(defparameter *setters*
  '(setq setf psetq psetf incf decf push pushnew pop defvar defparameter defconstant
    define-symbol-macro multiple-value-setq rotatef shiftf))

(defparameter *bound-by-calls*
  '(*package* *readtable* *standard-output* *error-output* *trace-output* *standard-input*
    *query-io* *debug-io* *terminal-io* *macroexpand-hook* *debugger-hook* *read-eval* *read-base*
    *read-suppress*
    * ** *** + ++ +++ / // /// -)
  "Variables that each call has values of its own for.")

(defun note-variable (symbol)
  (unless (or (null symbol) (member symbol *bound-by-calls*)
              (not (or (watched-symbol-p symbol)
                       (eq (symbol-package symbol) (find-package "COMMON-LISP"))))
              (find (cons :variable symbol) (first *noted*) :key #'first :test #'equal))
    (push (list (cons :variable symbol) (variable-value symbol)) (first *noted*))))

(defun watched-symbol-p (symbol)
  (and (symbol-package symbol) (watched-package-p (symbol-package symbol))))

(defun note-setting (form)
  "Note what FORM may set, when it is one that sets something."
  (when (and *noted* (consp form) (ignore-errors (list-length form)))
    (let ((operator (first form)))
      (when (member operator *setters*)
        (dolist (part (if (eq operator 'multiple-value-setq) (second form) (rest form)))
          (when (symbolp part) (note-variable part)))))))

(defun note-settings-of-text (text)
  "Note what the forms of TEXT may set, as far as they can be read. Whether all are plain ones."
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
  "While a call runs: the hook that expands macros outside of it.")

(defun note-and-expand (expander form environment)
  "Note what FORM sets, then expand it as it was assessed, or as it would be otherwise."
  (let ((outside *outer-hook*))
    (let ((*macroexpand-hook* outside))
      (note-setting form))
    (let ((*outer-hook* 'funcall))
      (expand-as-assessed expander form environment outside))))

(defun call-noting-settings (function)
  "Call FUNCTION; what forms set that macros make on the way is noted before it happens."
  (apply #'compile-now 'note-and-expand 'note-setting 'note-variable 'watched-symbol-p
         +used-while-expanding+)
  (let ((hook #'note-and-expand))
    ;; SBCL takes compiled functions only; and an evaluation in a frame has the hook already.
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
  "Note what there is now of all that is noted."
  (loop for entry in (first *noted*)
        for ((nil . name)) = entry
        do (setf (second entry) (variable-value name))))

(defun all-differences (before now)
  "What differs between the snapshots; and of what is noted, which had its value later, what else."
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
  "Note that NAME is being given a meaning by the call ID, or by others when that is NIL."
  (when *compared*
    (let ((before (ignore-errors (if (consp name)
                                     (setf-definition (second name))
                                     (symbol-definition name)))))
      (call-with-lock (lambda () (push (list name id before) *definition-notes*))))))

(defun forget-definer (name)
  "Forget who defined NAME last: it was undone."
  (call-with-lock
   (lambda ()
     (setf *definition-notes* (remove name *definition-notes* :key #'first :test #'equal :count 1)))))

(defun call-noting-definers (function)
  "Call FUNCTION while it is noted who defines what."
  (let ((id *call*))
    (unwind-protect (progn (call-with-lock (lambda () (push id *compared*)))
                           (funcall function))
      (call-with-lock (lambda ()
                        (setf *compared* (remove id *compared* :count 1))
                        (unless *compared* (setf *definition-notes* '())))))))

(defun own-part (difference id)
  "What of DIFFERENCE the call ID made, as far as that is known: others may have given its name a meaning
before, or after. NIL when nothing is its own."
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
  "Whether a call with ARGUMENTS is under a watch, which knows its threads from others."
  (let ((options (getf arguments :watch)))
    (and options (not (getf options :off)) (not (getf options :look))
         (optional-function "AGENT-Q-IMAGE" "CURRENT-WATCH-P"))))

;;; Writing the journal

(defun mentions-name-p (word text start end)
  "Whether TEXT has WORD between START and END, and not as a part of a longer name."
  (flet ((ends-name-p (index)
           (or (< index start) (>= index end)
               (not (or (alphanumericp (char text index))
                        (find (char text index) "-*+%!?=<>/&$_"))))))
    (loop for found = (search word text :start2 start :end2 end :test #'char-equal)
            then (search word text :start2 (1+ found) :end2 end :test #'char-equal)
          while found
            thereis (and (ends-name-p (1- found)) (ends-name-p (+ found (length word)))))))

(defun defining-text (name text)
  "The form in TEXT that has NAME in it, or all of TEXT; and whether there is such a form."
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
  "What forms that load files are called.")

(defun loading-text-p (text)
  (loop for word in *loading-words*
          thereis (mentions-name-p word text 0 (length text))))

(defun no-use-p (difference text)
  "Whether DIFFERENCE is of no use to list: a function that was made for a place without a name, or a
counter that TEXT doesn't name and that went up on the way."
  (destructuring-bind (kind name old new) difference
    (case kind
      (:function (and (consp name) (null (symbol-package (second name)))))
      (:variable (and (integerp old) (integerp new) (> new old)
                      (not (mentions-name-p (symbol-name name) text 0 (length text))))))))

(defun make-change-again (difference)
  "Have the change of this turn that made what is old in DIFFERENCE be one that made what is new: a load
has only brought the same again."
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
  "Enter DIFFERENCE, with TEXT as the reason; or return it when it is only a part of a load."
  (destructuring-bind (kind name old new) difference
    (unless (no-use-p difference text)
      (multiple-value-bind (form named) (defining-text name text)
        (let ((loaded (or *loads*
                          (and (not named)
                               (or (loading-text-p text)
                                   ;; ECL dies of a look at some values.
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
  "Enter DIFFERENCES as what a load has brought, by TEXT: one change with the names, and how many files
there were. They are not undone: the files have them, and ASDF, or whoever loaded them, relies on it."
  (when differences
    (add-change :load (shortened (trimmed text) 4000) (mapcar #'second differences)
                (list :files (shiftf (first *loaded-files*) 0)
                      :new (count-if (lambda (it) (new-p (first it) (third it))) differences))
                (shortened (trimmed text) 4000) t)))

(defun in-file-p (definition)
  "Whether DEFINITION, a function, a macro or a class, was read from a file."
  (let ((object (if (and (consp definition) (eq (first definition) :macro))
                    (second definition)
                    definition)))
    (and (or (functionp object) (typep object 'class))
         (let ((location (ignore-errors (backend "FIND-SOURCE-LOCATION" object))))
           (and (consp location) (eq (first location) :location)
                (eq (first (second location)) :file))))))

(defun join-old-values (name)
  "When too many values of the variable NAME are kept, make one change of two old ones."
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
     ;; A class after its functions: the list is read latest first.
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
  "Keep the journal within its limit. What forms redefined is kept longest."
  (let ((excess (- (length *journal*) *journal-limit*)))
    (when (plusp excess)
      (let ((gone (flet ((latest (list) (subseq list 0 (min excess (length list)))))
                    (latest (append (reverse (remove-if-not #'change-loaded *journal*))
                                    (reverse (remove-if #'change-loaded *journal*)))))))
        (setf *journal-cut* t
              *journal* (remove-if (lambda (change) (member change gone :test #'eq)) *journal*))))))

(defun defines-nothing-p (arguments)
  "Note what a call with ARGUMENTS may set. Whether it certainly defines nothing."
  (and (ignore-errors
        (let ((*package* (let ((named (getf arguments :package)))
                           (or (and named (find-package-named named)) *package*))))
          (note-settings-of-text (or (getf arguments :form) (getf arguments :values)))))
       (getf arguments :form)
       ;; A restart may bring forms of its own.
       (null (getf arguments :restart))))

(defun call-compared (function text watched)
  "Call FUNCTION and enter what it has defined otherwise, with TEXT as the reason. WATCHED is whether the
watch knows what others define."
  (compile-now 'take-snapshot 'symbol-state 'call-with-own-symbols 'symbol-definition
               'symbol-macro 'expanders 'direct-superclasses 'variable-value 'setf-definition
               'snapshot-differences 'equalp-states 'same-definition-p 'generic-methods
               'own-slots 'optional-function 'state-differences 'class-options
               'direct-default-initargs 'condition-report-function 'report-place
               'same-options-p 'changed-options)
  (let* ((before (take-snapshot))
         (id *call*)
         (*settle* (lambda (&optional forget)
                     (let ((now (take-snapshot)))
                       (unless forget
                         (enter-changes (loop for difference in (all-differences before now)
                                              for own = (if watched (own-part difference id) difference)
                                              when own collect own)
                                        text))
                       (setf before now)
                       (note-all-again)))))
    (unwind-protect (call-noting-settings function)
      (ignore-errors (funcall *settle*)))))

(defun take-over (arguments)
  "When ARGUMENTS are those of leaving a debugger: what goes on then does so for who left it."
  (when (and *author*
             (or (getf arguments :restart) (getf arguments :frame))
             (null (getf arguments :form)))
    (setf (first *author*) (getf arguments :chat)
          (second *author*) (getf arguments :turn))))

(defun call-journaled (function arguments)
  "Call FUNCTION, an operation with ARGUMENTS, and enter what it changed, however it ends."
  (take-over arguments)
  (let ((*noted* (list '()))
        (*author* (list (getf arguments :chat) (getf arguments :turn)
                        (and (getf arguments :form) (getf arguments :file))))
        (*assessed-for* (getf arguments :chat))
        (*loaded-files* (list 0))
        (*loads* (cond ((getf arguments :form) nil)
                       ((getf arguments :system) :system)
                       ;; A debugger that is left; what loads may have the name of a restart, too.
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
  "Call FUNCTION, the work of a call with ARGUMENTS; packages that its form makes are its chat's."
  (let ((form (getf arguments :form)) (chat (getf arguments :chat)))
    (if (and form chat)
        (call-noting-packages function form chat)
        (funcall function))))

(defun call-text (arguments)
  "What stands for a call with ARGUMENTS that brings no code."
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
  "Call FUNCTION, which does OPERATION with ARGUMENTS, and note what it redefines, if it can."
  (if (member operation '("eval-form" "compile-form" "compile-file" "load-system" "eval-in-frame"
                          "invoke-restart" "restart-frame" "return-from-frame" "run-tests")
              :test #'string=)
      (call-journaled function arguments)
      (funcall function)))
