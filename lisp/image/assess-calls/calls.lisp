;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Calls whose harm depends on their arguments: opening files, evaluating and compiling what is
;;; only known at run time, reading text, and undoing definitions.

(cl:in-package "AGENT-Q-IMAGE")

(defun check-open (form arguments)
  "Opening a file for writing, or in an unknown way, is a hit."
  (let ((options (rest arguments)))
    (if (and (evenp (length options))
             (loop for (option) on options by #'cddr always (keywordp option)))
        (let ((direction (getf options :direction :input)))
          (when (or (not (member direction '(:input :probe)))
                    (not (member (getf options :if-does-not-exist nil) '(nil :error))))
            (hit :reaches "deletes or writes files" 'open form)))
        (hit :reaches "deletes or writes files" 'open form))))

(define-call-check (open) (form arguments) (check-open form arguments))

(defun walk-code (code)
  "Check CODE, which is expanded at run time, when the state of the image is unknown."
  (let ((*usable-p* nil))
    (walk code (make-scope))))

(defun check-code (form code)
  "Check CODE, an argument that the call FORM evaluates or compiles."
  (cond ((quoted-p code) (walk-code (second code)))
        ((atom code)
         (when (and (symbolp code) (not (constantp code)))
           (check-code-variable form code)))
        ((eq (first code) 'lambda))
        ((literal-text-p code) (walk-text (second code) form))
        (t (multiple-value-bind (template known) (code-template code)
             (cond (known (note-caller form)
                          (walk-code template))
                   (t (hit-run-time form)))))))

(defun literal-text-p (code)
  "Whether CODE reads a literal string, in the current package, and reading it runs nothing."
  (and (not (findings-leaves *findings*))
       (not (findings-defers *findings*))
       (eq (first code) 'read-from-string) (stringp (second code)) (null (cddr code))
       (not (find #\# (second code)))))

(defun walk-text (string form)
  "Check the code in STRING, which the call FORM evaluates."
  (multiple-value-bind (code end problem) (read-inert string 0)
    (declare (ignore end))
    (cond (problem (hit-run-time form))
          (t (note-conses code)
             (scan-text code)
             (walk-code code)))))

(defun check-code-variable (form variable)
  "Check VARIABLE, which the call FORM evaluates: a LET may say that it is code of the text."
  (let ((code (cdr (assoc variable (scope-forms *scope*)))))
    (cond ((or (null code) (assoc variable (scope-symbol-macros (make-scope)))) (hit-run-time form))
          ((or (quoted-p code) (and (consp code) (not (eq (first code) 'lambda))
                                    (nth-value 1 (code-template code))))
           (push (cons variable form) (findings-trusted *findings*))
           (check-code form code))
          (t (hit-run-time form)))))

;;; Code that is put together, with its operators in the text

(defun hole () (make-symbol "HOLE"))

(defun hole-p (object)
  (and (symbolp object) (null (symbol-package object)) object (string= (symbol-name object) "HOLE")))

(defun quasiquote-p (form)
  (and (consp form) (symbolp (first form)) (string= (symbol-name (first form)) "QUASIQUOTE")))

(defun code-template (form)
  "The code that evaluating FORM makes, with holes for what is only known at run time; and whether
all its operators are in the text."
  (let ((template (call-deeper (lambda () (template-of form)))))
    (values template
            (and (consp template) (not (holes-call-p template))))))

(defun template-of (form)
  (take-step)
  (flet ((parts (forms) (mapcar (lambda (part) (call-deeper (lambda () (template-of part)))) forms)))
    (cond ((quoted-p form) (second form))
          ((or (keywordp form) (and (atom form) (not (symbolp form)))) form)
          ((or (atom form) (not (proper-list-p form))) (if form (hole) nil))
          ((quasiquote-p form) (quasi-template (second form)))
          ((eq (first form) 'list) (parts (rest form)))
          ((and (member (first form) '(list* cons)) (rest form))
           (let ((parts (parts (rest form))))
             (append (butlast parts) (spliced (first (last parts))))))
          ((eq (first form) 'append) (mapcan (lambda (part) (copy-list (spliced part)))
                                             (parts (rest form))))
          (t (hole)))))

(defun spliced (template)
  (if (and (listp template) (proper-list-p template)) template (list (hole))))

(defun quasi-template (tree)
  "TREE, left by a backquote, with holes in place of its commas."
  (take-step)
  (cond ((comma-content tree) (hole))
        ((consp tree)
         (cons (call-deeper (lambda () (quasi-template (car tree))))
               (if (comma-content (cdr tree))
                   (list (hole))
                   (quasi-template (cdr tree)))))
        (t tree)))

(defun holes-call-p (template)
  "Whether TEMPLATE may have an operator that is only known at run time."
  (and (consp template) (not (eq (first template) 'quote))
       (or (hole-p (first template))
           (loop for part in (if (and (member (first template) '(lambda flet labels let let*))
                                      (consp (rest template)))
                                 (append (binding-templates template) (cddr template))
                                 (rest template))
                   thereis (call-deeper (lambda () (holes-call-p part)))))))

(defun binding-templates (template)
  "The forms in the second element of TEMPLATE, which binds variables or functions."
  (case (first template)
    (lambda '())
    ((let let*) (loop for binding in (spliced (second template))
                      when (and (consp binding) (consp (rest binding))) collect (second binding)))
    (t (loop for definition in (spliced (second template))
             when (and (consp definition) (consp (rest definition)))
               append (spliced (cddr definition))))))

(defun hit-run-time (form)
  (hit :reaches "evaluates code that is only made at run time" nil form)
  (note-caller form))

(define-call-check (eval) (form arguments)
  (check-code form (first arguments)))

(define-call-check (compile) (form arguments)
  (destructuring-bind (&optional name (code nil code-p) &rest more) arguments
    (declare (ignore more))
    (when name (check-redefinition name form))
    (when code-p (check-code form code))))

(define-call-check (coerce) (form arguments)
  (let ((type (second arguments)))
    (when (or (not (or (quoted-p type) (constantp type)))
              (and (quoted-p type)
                   (member (second type) '(function compiled-function))
                   (not (and (consp (first arguments)) (eq (first (first arguments)) 'function)))))
      (if (quoted-p (first arguments))
          (walk-arguments 'funcall (list (first arguments)) (make-scope))
          (note-caller form))
      (when (or (builds-list-p (first arguments))
                (and (quoted-p (first arguments)) (consp (second (first arguments)))))
        (check-code form (first arguments))))))

(define-call-check (symbol-function fdefinition) (form arguments)
  (unless (quoted-p (first arguments)) (note-caller form)))

;;; Reading

(defun text-of-argument (argument form)
  "The string that ARGUMENT of the call FORM is in the text, or NIL."
  (let ((bound (and (symbolp argument) (cdr (assoc argument (scope-forms *scope*))))))
    (cond ((stringp argument) argument)
          ((stringp bound)
           (push (cons argument form) (findings-trusted *findings*))
           bound))))

(defun check-reading (form argument)
  "Check FORM, which reads the string that ARGUMENT gives."
  (let ((text (text-of-argument argument form)))
    (when (or (null text) (runs-when-read-p text))
      (hit-reading form))))

(defun runs-when-read-p (text)
  "Whether reading TEXT may run code: #. does, and so may the program's own dispatch characters."
  (loop for found = (position #\# text) then (position #\# text :start (1+ found))
        while found
          thereis (let ((next (position-if-not #'digit-char-p text :start (1+ found))))
                    (not (and next (find (char text next) "xXbBoO:'\\(*|"))))))

(defun hit-reading (form)
  (unless (scope-inert *scope*)
    (hit :reaches "reads text that may run code while it is read" nil form)))

(define-call-check (read-from-string) (form arguments)
  (check-reading form (first arguments)))

;;; Symbols and their definitions

(define-call-check (set) (form arguments)
  (check-symbol-argument (first arguments)))

(defun check-redefinition (name form)
  "Check NAME, an argument naming what the call FORM defines or undoes."
  (cond ((null name))
        ((not (or (quoted-p name) (stringp name) (keywordp name)))
         (hit :redefines "redefines what is only known at run time" nil form))
        ((and (quoted-p name) (protected-p (second name)))
         (hit :redefines "redefines what is not the program's" (second name) form))))

(define-call-check (fmakunbound makunbound ensure-generic-function) (form arguments)
  (check-redefinition (first arguments) form))

(defun check-output (form target)
  "Check TARGET in FORM, a call of a function that writes to a file if it is given a name."
  (when (or (pathnamep target) (and (consp target) (not (quoted-p target))))
    (hit :reaches "deletes or writes files" (first form))))

(defun option-of (keyword arguments)
  "The argument for KEYWORD in ARGUMENTS, or NIL."
  (second (member keyword (and (proper-list-p arguments) arguments))))

(defun check-named-call (form)
  "Check FORM, a call of a library's function or macro that is known by its name."
  (let ((name (symbol-name (first form))))
    (cond ((string= name "CALL-WITH-OUTPUT") (check-output form (second form)))
          ((string= name "WRITE-CSV") (check-output form (option-of :stream (rest form))))
          ((string= name "PRINT-BACKTRACE") (check-output form (option-of :output (rest form))))
          ((and (string= name "MAKE-TIMER")
                (not (member (option-of :thread (rest form)) '(nil t))))
           (hit :reaches "stops or interrupts threads" (first form) form))
          ((member name '("MACROEXPAND" "MACROEXPAND-1" "MACROEXPAND-ALL") :test #'string=)
           (check-expanded (second form)))
          ((and (symbol-package (first form))
                (prefixed-p "ASDF" (package-name (symbol-package (first form)))))
           (check-system form name)))))

(defun check-expanded (code)
  "Check CODE, which a form expands, if it is in the text."
  (let ((code (and (quoted-p code) (second code))))
    (when (and (consp code) (symbolp (first code)) (macro-function (first code))
               (proper-list-p code))
      (check-expander code))))

(defun known-system-p (designator)
  "Whether DESIGNATOR in the text is a system whose definition is loaded, as far as known."
  (let ((registered (optional-function "ASDF" "REGISTERED-SYSTEM"))
        (name (if (quoted-p designator) (second designator) designator)))
    (or (null registered)
        (not (and name (or (stringp name) (keywordp name) (and (quoted-p designator) (symbolp name)))))
        (guarded (lambda () (funcall registered (string-downcase name))) (constantly nil)))))

(defun effects-asked-p ()
  "Whether effects are asked about when they happen."
  (let ((watchable (optional-function "AGENT-Q-IMAGE" "WATCHABLE-P")))
    (and watchable (funcall watchable))))

(defun check-system (form name)
  "Check FORM, a call of ASDF's NAME that may load the definition of a system. Looking for one whose
definition doesn't exist does nothing, so that question is left to the watch."
  (let ((systems (cond ((member name '("FIND-SYSTEM" "SYSTEM-SOURCE-DIRECTORY" "SYSTEM-SOURCE-FILE"
                                       "SYSTEM-RELATIVE-PATHNAME" "FIND-COMPONENT")
                                :test #'string=)
                        (and (not (effects-asked-p)) (list (second form))))
                       ((string= name "DEFSYSTEM")
                        (let ((systems (option-of :defsystem-depends-on (cddr form))))
                          (and (proper-list-p systems) systems))))))
    (unless (every #'known-system-p systems)
      (hit :reaches "loads or compiles files" (first form) form))))

(defun registry-call-p (form)
  "Whether FORM only makes ASDF read which systems exist, with its present settings."
  (let ((operator (first form)))
    (and (null (rest form))
         (string= (symbol-name operator) "INITIALIZE-SOURCE-REGISTRY")
         (symbol-package operator)
         (prefixed-p "ASDF" (package-name (symbol-package operator))))))

(defun builds-list-p (form)
  (and (consp form)
       (or (quasiquote-p form) (member (first form) '(list list* cons append)))))

(define-call-check (typep subtypep) (form arguments)
  ;; A type that is put together may call what it names.
  (when (some #'builds-list-p arguments) (note-caller form)))

(define-call-check (proclaim) (form arguments)
  (scan-data arguments nil))

(define-call-check (add-method remove-method) (form arguments)
  (let ((function (first arguments)))
    (if (and (consp function) (eq (first function) 'function))
        (when (protected-p (second function))
          (hit :redefines "redefines what is not the program's" (second function) form))
        (hit :redefines "redefines what is only known at run time" nil form))))

(defun check-package (named form)
  "Check the package that NAMED means in the text, whose names FORM changes."
  (let ((package (if (quoted-p named) (second named) named)))
    (when (and (typep package '(and (or symbol string) (not null)))
               (find-package package)
               (or (locked-p (find-package package))
                   (and (package-danger (find-package package))
                        (not (made-for-chat-p (find-package package))))))
      (hit :redefines "changes a package that is not the program's" nil form))))

(define-call-check (import shadowing-import shadow use-package unuse-package export unexport)
    (form arguments)
  (note-operator (first form))
  (check-package (second arguments) form))

;;; Packages made by the chat, which it may delete again

(defun call-noting-packages (function text chat)
  "Call FUNCTION, which evaluates TEXT for CHAT. New packages that TEXT names are CHAT's: others may
be made meanwhile."
  (let ((before (list-all-packages)))
    (unwind-protect (funcall function)
      (setf *made-packages*
            (append (loop for package in (set-difference (list-all-packages) before)
                          when (search (package-name package) text :test #'char-equal)
                            collect (cons package chat))
                    (remove nil *made-packages* :key (lambda (it) (package-name (first it)))))))))

(defun package-of-chat-p (argument)
  "Whether ARGUMENT in the text names a package that this chat made and that no other package uses."
  (let* ((name (if (quoted-p argument) (second argument) argument))
         (package (and (or (stringp name) (keywordp name) (and (quoted-p argument) (symbolp name)))
                       (find-package name))))
    (and package
         (made-for-chat-p package)
         (null (package-used-by-list package)))))

(define-call-check (delete-package) (form arguments)
  (unless (package-of-chat-p (first arguments))
    (hit :reaches (danger 'delete-package) 'delete-package form)))
