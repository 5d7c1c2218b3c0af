;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Evaluating and compiling code in a call: everything that turns a list into code comes through
;;; here, however the list was made. Expansions are checked when they are made.

(cl:in-package "AGENT-Q-IMAGE")

(defun unlooked-p (hold)
  "Whether code evaluated under HOLD needs no check: it is part of building or of a compiled file,
or it is ours."
  (or (member :code (rest hold) :test #'eq)
      (find-if (lambda (it) (and (consp it) (eq (first it) :build))) (rest hold))
      (let ((work (consent-scope (first hold)))) (and work (work-whole work)))))

(defun meet-code (watch guard hold function arguments)
  "Like MEET, where GUARD intercepts everything that is evaluated: only code may need a question
there."
  (funcall (guard-way guard) watch hold function arguments))

(defun call-with-code (watch hold function arguments)
  "Evaluate or compile the form that is the first of ARGUMENTS."
  (let* ((form (first arguments))
         (looked-p (and (or (consp form) (symbolp form)) (not (unlooked-p hold))))
         (names-p (and looked-p (unmet-in form (consent-known (first hold)))))
         (defines-p (and looked-p (consp form) (consent-carried (first hold))
                         (or (names-definer-p form) (encloses-definition-p form)))))
    (if (not (or names-p defines-p))
        (apply function arguments)
        (multiple-value-bind (allowed values)
            (settle-code watch (first hold) form #'made-by-implementation-p)
          (when (and allowed defines-p)
            (multiple-value-setq (allowed values) (settle-definition watch (first hold) form)))
          (if allowed (apply function arguments) (values-list values))))))

(defun call-noting-code (watch hold function arguments)
  "Compile the form that is the first of ARGUMENTS, and note its code: threads may be given it."
  (let ((made (multiple-value-list (call-with-code watch hold function arguments))))
    (note-code watch (first hold) (first made))
    (values-list made)))

(defun call-compiling-named (watch hold function arguments)
  "Compile a function, and ask about it if it gets a name."
  (destructuring-bind (&optional name definition) arguments
    (multiple-value-bind (allowed values)
        (or (null name) (atom definition) (null (consent-carried (first hold))) (unlooked-p hold)
            (settle-definition watch (first hold) `(compile ',name ',definition)))
      (if allowed (apply function arguments) (values-list values)))))

(defun call-compiling-frame (watch hold function arguments)
  "Compile the form that is the first of ARGUMENTS for a frame; SBCL wraps it in code of its own."
  (multiple-value-bind (allowed values) (settle-code watch (first hold) (first arguments))
    (if allowed
        (funcall (watch-call-in watch) (list* (first hold) :code (rest hold))
                 (lambda () (apply function arguments)))
        (values-list values))))

(defun call-standing-for (watch hold function arguments)
  "Define a symbol macro: its expansion is evaluated without a macroexpand hook."
  (multiple-value-bind (allowed values)
      (or (null hold)
          (unlooked-p hold)
          (settle-code watch (first hold) (second arguments)))
    (if allowed
        (call-defining watch hold function arguments)
        (values-list values))))

(defun settle-code (watch consent form &optional (known-p (constantly nil)))
  "Ask about FORM, about to be evaluated or compiled, if it names what no guard meets, unless
KNOWN-P permits it. Returns true if it may run; otherwise NIL and the values to return in its place."
  (let* ((known (consent-known consent))
         (found (unmet-in form known)))
    (cond ((or (null found) (funcall known-p)) t)
          (t (multiple-value-bind (allowed values)
                 (settle-unless-granted watch consent (effect-of-made found form))
               (when allowed (know-code consent form))
               (values allowed values))))))

(defun settle-unless-granted (watch consent effect)
  (if (granted-p consent effect) t (settle-effect watch consent effect)))

(defun know-code (consent form)
  "Note that the conses of FORM need no question any more."
  (let ((known (consent-known consent)))
    (labels ((know (it)
               (loop while (and (consp it) (not (gethash it known)))
                     do (setf (gethash it known) t)
                        (know (car it))
                        (setf it (cdr it)))))
      (know form))))

;;; Definitions

(defun names-definer-p (form)
  "Whether FORM names a function that gives code a name, or is too big to tell."
  (let ((steps 0))
    (labels ((names-p (it)
               (loop
                 (cond ((> (incf steps) 2000) (return t))
                       ((atom it)
                        (return (and (symbolp it)
                                     (member (symbol-name it)
                                             '("ADD-METHOD" "ENSURE-GENERIC-FUNCTION" "ENSURE-CLASS"
                                               "SET-FUNCALLABLE-INSTANCE-FUNCTION")
                                             :test #'string=))))
                       ((and (eq (car it) 'setf) (consp (cdr it))
                             (member (second it) +function-places+ :test #'eq))
                        (return t))
                       ((names-p (car it)) (return t))
                       (t (setf it (cdr it)))))))
      (names-p form))))

(defun encloses-definition-p (form)
  "Whether FORM has a definition in the scope of names of its own, or may have one, as it is too big
to tell: what those names mean isn't known there."
  (let ((steps 0))
    (labels ((defines-p (it)
               (loop
                 (cond ((atom it) (return nil))
                       ((> (incf steps) 5000) (return t))
                       ((member (car it) +defining-macros+ :test #'eq) (return t))
                       ((defines-p (car it)) (return t))
                       (t (setf it (cdr it)))))))
      (and (member (first form) '(let let* flet labels macrolet symbol-macrolet) :test #'eq)
           (defines-p (rest form))))))

(defun know-definitions-in (form carried)
  "Note in the table CARRIED that the definitions in FORM were looked at."
  (let ((steps 0))
    (labels ((know (it)
               (loop while (and (consp it) (< (incf steps) 20000))
                     do (when (definition-p it) (setf (gethash it carried) t))
                        (know (car it))
                        (setf it (cdr it)))))
      (know form))))

(defun settle-definition (watch consent form)
  "Ask about FORM, about to define something, if that carries what the watch won't meet once the
call is over. Returns true if it may be defined; otherwise NIL and the values to return in its
place."
  (if (gethash form (consent-carried consent))
      t
      (let ((reasons (let ((*macroexpand-hook* #'funcall))
                       (funcall (optional-function "AGENT-Q-IMAGE" "CARRIED-BY") form))))
        (setf (gethash form (consent-carried consent)) t)
        (know-definitions-in form (consent-carried consent))
        (if (null reasons)
            t
            (settle-unless-granted watch consent (effect-of-carrying reasons form))))))

(defun effect-of-carrying (reasons form)
  (let ((text (format nil "~{~A~^; ~}" reasons)))
    (make-effect :kind "run-form" :target text
                 :words (format nil "make a definition that ~{~A~^ and ~}" reasons)
                 :more (list :form (printed form :limit 1000)))))

;;; Expansions

(defun know-names (consent form expansion)
  "Note that the names in EXPANSION, of FORM by a standard macro, need no question, neither there nor
in copies made by macros that walk code."
  (let* ((known (consent-known consent)) (found (unmet-in expansion known)))
    (when found
      (know-code consent expansion)
      ;; A control string can name anything.
      (loop for (nil . names) in (if (eq (first form) 'formatter) '() found)
            do (dolist (name names)
                 (setf (gethash name known) t))))))

(defun looking-hook (watch outside)
  "A macroexpand hook that checks what the hook OUTSIDE makes of a form."
  (if (looking-hook-p watch outside)
      outside
      (lambda (expander form environment)
        (block hook
          (flet ((look (function &rest arguments)
                   ;; Our interpreted functions use macros, too.
                   (multiple-value-bind (allowed values)
                       (let ((*program-hook* outside) (*macroexpand-hook* #'funcall) (*looking-up* t))
                         (apply function watch arguments))
                     (unless allowed
                       (return-from hook `(values-list ',values))))))
            (look #'look-at-definition form)
            (let* ((introduced (list '()))
                   (expansion (let ((*introduced* introduced)
                                    (*macroexpand-hook* (noting-hook outside)))
                                (funcall outside expander form environment))))
              (look #'know-introduced (first introduced))
              (look #'look-at-expansion form expansion
                    (let ((*macroexpand-hook* #'funcall) (*looking-up* t))
                      (standard-expansion-p expander form environment)))
              (look #'know-definitions form expansion outside)
              expansion))))))

(defun look-at-definition (watch form)
  "Ask about FORM, a macro form, if it is a definition. Returns true if it may be made; otherwise
NIL and the values to return in its place."
  (let ((hold (funcall (watch-state watch))))
    (if (and hold (consent-carried (first hold)) (consp form) (definition-p form)
             (not (unlooked-p hold)))
        (settle-definition watch (first hold) form)
        t)))

(defun know-definitions (watch form expansion hook)
  "Note that the definitions in EXPANSION, of FORM, are parts of FORM, a definition that was
checked. What a HOOK of the program makes of it is another one. True."
  (let* ((hold (funcall (watch-state watch)))
         (carried (and hold (consent-carried (first hold)))))
    (when (and carried (consp form) (gethash form carried)
               (member hook (list 'funcall #'funcall
                                  (optional-function "AGENT-Q-IMAGE" "NOTE-AND-EXPAND"))))
      (know-definitions-in expansion carried))
    t))

(defun looking-hook-p (watch hook)
  (flet ((code (function)
           (and (functionp function) (ignore-errors (internal "SB-KERNEL" "%CLOSURE-FUN" function)))))
    (let ((code (code hook)))
      (and code (watch-looking watch) (eq code (code (watch-looking watch)))))))

(defun know-introduced (watch noted)
  "Note that what the implementation's macros made while another macro was expanded, as NOTED, needs no
question: macros that walk code expand what is in it. True."
  (let ((hold (funcall (watch-state watch))))
    (when (and hold noted)
      (let ((known (consent-known (first hold))))
        (flet ((unmet-p (name)
                 (and (not (gethash name known)) (unmet-reason name))))
          (loop for (given . made) in (reverse noted)
                unless (some #'unmet-p given)
                  do (dolist (name made)
                       (when (unmet-p name) (setf (gethash name known) t)))))))
    t))

(defun look-at-expansion (watch form expansion standard-p)
  "Check EXPANSION, of FORM, and return what SETTLE-CODE does. The implementation's macros may
expand into its internals, so STANDARD-P says whether one of these made it."
  (let ((hold (funcall (watch-state watch))))
    (if (and hold (not (unlooked-p hold))
             ;; Our own interpreted code. Code that names one of our macros was asked about.
             (not (and (consp form) (symbolp (first form))
                       (eq (symbol-package (first form)) (find-package "AGENT-Q-IMAGE")))))
        (cond (standard-p
               (know-names (first hold) form expansion)
               t)
              (t (settle-code watch (first hold) expansion)))
        t)))

;;; Code that SBCL compiles for itself: dispatch functions, accessors, C calls

(defun frame-owner (frame)
  "Two values for FRAME of SBCL's debugger: the package of the function in it, and its name."
  (let* ((name (directly "SB-DI" "DEBUG-FUN-NAME" (directly "SB-DI" "FRAME-DEBUG-FUN" frame)))
         (name (loop while (consp name)
                     ;; (deftransform x), of SBCL's compiler
                     when (and (symbolp (first name))
                               (member (symbol-name (first name)) '("DEFTRANSFORM" "DEFOPTIMIZER")
                                       :test #'string=))
                       return (first name)
                     ;; (flet x :in y), (flet x :in "file"), (lambda (x) :in y), (setf x)
                     do (let ((outer (second (member :in name))))
                          (setf name (if (or (null outer) (stringp outer)) (second name) outer)))
                     finally (return name))))
    (and name (symbolp name) (symbol-package name)
         (values (package-name (symbol-package name)) (symbol-name name)))))

(defun made-by-implementation-p ()
  "Whether SBCL's own functions want code evaluated or compiled in this thread."
  (loop repeat 60
        for frame = (directly "SB-DI" "TOP-FRAME") then (directly "SB-DI" "FRAME-DOWN" frame)
        while frame
        do (multiple-value-bind (package name) (frame-owner frame)
             (cond ((or (null package)
                        (member package '("AGENT-Q-IMAGE" "SB-EVAL") :test #'string=)
                        (member name '("EVAL" "COMPILE" "COERCE" "APPLY" "FUNCALL" "EVAL-IN-LEXENV" "EVAL-TLF"
                                       "SIMPLE-EVAL-IN-LEXENV" "%SIMPLE-EVAL" "COMPILE-IN-LEXENV"
                                       "%COERCE-CALLABLE-TO-FUN")
                                :test #'string=)))
                   (t (return (member package '("SB-PCL" "SB-ALIEN" "SB-KERNEL" "SB-DI" "SB-C") :test #'string=)))))))

;;; Names that are only made at run time

(defun name-found (arguments)
  "The symbol that SBCL finds when it looks up a name by ARGUMENTS, and its status."
  (destructuring-bind (name length package &rest more) arguments
    (declare (ignore more))
    (let ((*looking-up* t))
      (directly "SB-IMPL" "%FIND-SYMBOL" name length package))))

(defun names-own-p (arguments)
  "Whether looking up a name by ARGUMENTS finds nothing that code is asked about, or is for us."
  (or *looking-up*
      (let ((package (third arguments)))
        (or (eq package (load-time-value (find-package "COMMON-LISP")))
            (eq package (load-time-value (find-package "KEYWORD")))
            (not (packagep package))
            (multiple-value-bind (symbol status) (name-found arguments)
              (let ((home (and status symbol (symbol-package symbol))))
                (or (null home)
                    (eq home (load-time-value (find-package "COMMON-LISP")))
                    (null (known-dangers home)))))))))

(defun looks-up-p (package name)
  "Whether NAME in PACKAGE is a function of SBCL's through which programs look names up."
  (and (member package '("COMMON-LISP" "SB-IMPL" "SB-INT") :test #'string=)
       (or (member name '("FIND-SYMBOL" "FIND-SYMBOL2" "%FIND-SYMBOL" "INTERN" "INTERN2" "%INTERN"
                          "FIND-OR-MAKE-SYMBOL")
                   :test #'string=)
           (prefixed-p "READ" name) (prefixed-p "%READ" name) (prefixed-p "SHARP-" name)
           (string= name "%WITH-STANDARD-IO-SYNTAX"))))

(define-table +naming-functions+
  '("OUTPUT-SYMBOL" "LOAD-AS-SOURCE" "UPDATE-PACKAGE" "SYMBOLICATE" "SYMBOL-CONCAT" "PERMANENT-FNAME-P"
    "UNINTERN" "EXPORT" "UNEXPORT" "IMPORT" "SHADOW" "SHADOWING-IMPORT" "USE-PACKAGE" "UNUSE-PACKAGE"
    "NAME-CONFLICT")
  "Functions of SBCL that look names up for purposes of its own.")

(defun named-by-implementation-p (symbol)
  "Whether SBCL or the client looks SYMBOL up in this thread for its own purposes: it prints, reads a
file's code or makes names for a class."
  (loop with ours = t
        repeat 100
        for frame = (directly "SB-DI" "TOP-FRAME") then (directly "SB-DI" "FRAME-DOWN" frame)
        while frame
        do (multiple-value-bind (package name) (frame-owner frame)
             (cond ((and ours (member package '(nil "AGENT-Q-IMAGE" "SB-EVAL") :test #'equal)))
                   ;; That was met itself.
                   ((equal name "%INTERN") (return t))
                   ((and package (looks-up-p package name)) (setf ours nil))
                   (t (return (and package (looks-up-itself-p package name symbol))))))))

(define-table +naming-packages+
  '("SB-PCL" "SB-FASL" "SB-C" "SB-ALIEN" "SB-DI" "SB-ASSEM" "SB-VM" "SB-LOOP" "SB-WALKER")
  "Packages of SBCL whose functions look names up for purposes of their own. Others may be called
with a function or a text of the program's.")

(defun looks-up-itself-p (package name symbol)
  "Whether the function NAME in PACKAGE looks up SYMBOL for purposes of its own."
  (or (member package +naming-packages+ :test #'string=)
      (and (member name +naming-functions+ :test #'string=)
           (or (string= package "COMMON-LISP") (prefixed-p "SB-" package)))
      ;; A control string could have it look up others.
      (and (string= package "SB-FORMAT")
           (eq (find-package package) (symbol-package symbol)))
      (prefixed-p "SWANK" package)
      (prefixed-p "SLYNK" package)))

(defun call-naming (watch hold function arguments)
  "Look up a name. Ask if that finds what code that says the name is asked about."
  (multiple-value-bind (allowed values) (settle-name watch hold (name-found arguments))
    (if allowed (apply function arguments) (values-list values))))

(defun call-finding-all (watch hold function arguments)
  "Look up a name in all packages, where most symbols of that name mean nothing."
  (let ((found (apply function arguments)))
    (dolist (symbol (remove-if-not (lambda (it) (or (fboundp it) (boundp it))) found) found)
      (multiple-value-bind (allowed values) (settle-name watch hold symbol)
        (unless allowed (return (values-list values)))))))

(defun settle-name (watch hold symbol)
  "Ask about SYMBOL, which was looked up by its name. Returns true if code may have it; otherwise NIL
and the values to return in its place."
  (let* ((consent (first hold))
         (reason (and symbol (symbol-package symbol)
                      (not (unlooked-p hold))
                      (not (gethash symbol (consent-known consent)))
                      (unmet-reason symbol))))
    (if (or (null reason) (named-by-implementation-p symbol))
        t
        (multiple-value-bind (allowed values)
            (settle-unless-granted watch consent (effect-of-naming reason symbol))
          (when allowed (setf (gethash symbol (consent-known consent)) t))
          (values allowed values)))))

(defun effect-of-naming (reason symbol)
  (let ((name (symbol-text symbol)))
    (make-effect :kind "run-form" :target (format nil "~A: ~A" reason name) :texts (list name)
                 :words (format nil "look up ~A by its name: calling it ~A" name reason))))
