;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Recording calls of functions, wherever they happen, in a list of bounded length. Operations:
;;; trace-function, untrace-function, get-trace.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *trace-limit* 1000
  "How many entries to keep; older ones are dropped.")

(defvar *trace-entries* '()
  "The entries, latest first: lists of number, depth, thread and text.")

(defvar *trace-count* 0
  "How many entries there have been in all.")

(defvar *trace-kept* 0)

(defvar *traced* '()
  "What is traced: lists of the function's name and its previous definition, or :ENCAPSULATED; or of
a method, its text and its previous code.")

(defvar *trace-depth* 0)

(defvar *writing-trace* nil
  "True while this thread writes an entry: functions called for that are not traced.")

;;; Entries

(defun add-trace-entry (depth text)
  (let ((thread (guarded (lambda () (backend "THREAD-NAME" (backend "CURRENT-THREAD")))
                         (constantly nil))))
    (call-with-lock
     (lambda ()
       (push (list (incf *trace-count*) depth thread text) *trace-entries*)
       ;; Cut seldom, so that the cost of an entry doesn't depend on how many are kept.
       (when (> (incf *trace-kept*) (* 2 *trace-limit*))
         (setf *trace-entries* (subseq *trace-entries* 0 *trace-limit*)
               *trace-kept* *trace-limit*))))))

(defun traced-objects (objects)
  (format nil "~{~A~^ ~}"
          (loop for object in objects
                for count from 0
                when (= count 12)
                  collect "..." and do (loop-finish)
                collect (printed object :limit 200 :length 8 :level 3))))

(defun traced-call (client name function arguments)
  "Call FUNCTION, named NAME, with ARGUMENTS, and record the call."
  (if *writing-trace*
      (apply function arguments)
      (let ((*client* client) (depth *trace-depth*) (values :left))
        (flet ((note (control &rest objects)
                 (add-trace-entry depth (apply #'format nil control objects))))
          (let ((*writing-trace* t))
            (note "(~A~@[ ~A~])" name (and arguments (traced-objects arguments))))
          (unwind-protect
               (progn
                 (setf values (multiple-value-list
                               (let ((*trace-depth* (1+ depth)))
                                 (apply function arguments))))
                 (values-list values))
            (let ((*writing-trace* t))
              (cond ((eq values :left) (note "~A exited non-locally" name))
                    ((null values) (note "~A => no values" name))
                    (t (note "~A => ~A" name (traced-objects values))))))))))

;;; Tracing

(defun traceable-name (text package)
  "The name of the function TEXT, or a miss if tracing it could do harm."
  (let* ((name (name-of-text text package))
         (symbol (name-symbol name))
         (function (if (eq (name-kind name) :setf) (list 'setf symbol) symbol))
         (home (symbol-package symbol)))
    (cond ((not (fboundp function))
           (missed "~A is not a function." (name-text name)))
          ((and (symbolp function)
                (or (macro-function function) (special-operator-p function)))
           (missed "~A is a macro or special operator; only functions can be traced."
                   (name-text name)))
          ((and home
                (or (member (package-name home) '("COMMON-LISP" "AGENT-Q-IMAGE") :test #'string=)
                    (loop for prefix in '("SB-" "SWANK" "SLYNK")
                          thereis (prefixed-p prefix (package-name home)))))
           (missed "~A is a function of the implementation or of the connection; tracing it would trace this tool. Trace a function of the program that calls it."
                   (name-text name)))
          (t (values function (name-text name))))))

(defun install-trace (function text)
  "Record calls of FUNCTION, named TEXT; returns the previous definition, or :ENCAPSULATED."
  (let ((client *client*)
        (encapsulate (optional-function "SB-INT" "ENCAPSULATE"))
        (before (fdefinition function)))
    (cond (encapsulate
           (funcall encapsulate function 'agent-q
                    (lambda (original &rest arguments)
                      (traced-call client text original arguments)))
           :encapsulated)
          ((typep before 'generic-function)
           (unavailable (format nil "trace_function of a generic function such as ~A" text)
                        "a function put in its place would not be generic"))
          (t (setf (fdefinition function)
                   (lambda (&rest arguments)
                     (traced-call client text before arguments)))
             before))))

(defun remove-trace (function before)
  (cond ((not (fboundp function)))
        ((eq before :encapsulated)
         (funcall (optional-function "SB-INT" "UNENCAPSULATE") function 'agent-q))
        (t (setf (fdefinition function) before))))

(defun traced-names ()
  (loop for (function text) in (reverse *traced*)
        if (method-p function)
          when (mop "METHOD-GENERIC-FUNCTION" function) collect text end
        else
          when (fboundp function)
            collect (if (consp function)
                        (format nil "(SETF ~A)" (symbol-text (second function)))
                        (symbol-text function))
          end))

;;; One method, on SBCL: the code that its generic function calls is replaced.

(defun method-p (object)
  (typep object 'method))

(defun traceable-code (method)
  "The object that has the code of METHOD, and that code; NIL if SBCL doesn't call it."
  (let ((function (mop "METHOD-FUNCTION" method))
        (accessor (find-class (find-symbol "STANDARD-ACCESSOR-METHOD" "SB-MOP") nil)))
    (and (typep function (find-symbol "%METHOD-FUNCTION" "SB-PCL"))
         (not (and accessor (typep method accessor)))
         (let ((code (internal "SB-PCL" "%METHOD-FUNCTION-FAST-FUNCTION" function)))
           (and code (values function code))))))

(defun set-method-code (method code)
  (funcall (fdefinition (list 'setf (find-symbol "%METHOD-FUNCTION-FAST-FUNCTION" "SB-PCL")))
           code (mop "METHOD-FUNCTION" method))
  ;; It keeps what it calls.
  (let ((function (mop "METHOD-GENERIC-FUNCTION" method)))
    (when function (reinitialize-instance function))))

(defun check-method-traceable (method text)
  (unless (implementation-p "SBCL")
    (unavailable "trace_function of one method" "its methods can't be given other code"))
  (unless (traceable-code method)
    (missed "~A can't be traced by itself: it is a slot's accessor or has code of its own kind. Trace the whole function." text))
  (when (every (lambda (specializer)
                 (or (not (typep specializer 'class))
                     (null (class-name specializer))
                     (implementation-package-p (symbol-package (class-name specializer)))))
               (mop "METHOD-SPECIALIZERS" method))
    ;; Its function must be the program's then.
    (traceable-name (printed (mop "GENERIC-FUNCTION-NAME" (mop "METHOD-GENERIC-FUNCTION" method))
                             :limit 200)
                    nil)))

(defun install-method-trace (method text)
  "Record calls of METHOD; returns its previous code."
  (let ((client *client*) (code (nth-value 1 (traceable-code method))))
    (set-method-code method
                     (lambda (slots next &rest arguments)
                       (traced-call client text
                                    (lambda (&rest arguments) (apply code slots next arguments))
                                    arguments)))
    code))

(defun remove-method-trace (method code)
  (when (mop "METHOD-FUNCTION" method)
    (set-method-code method code)))

(defun traced-method (text package)
  "The method that TEXT names, and its name in full; NIL if TEXT names a function."
  (multiple-value-bind (method name) (method-of-text text package)
    (and method
         (values method (format nil "~A ~A" (name-text name) (method-text method))))))

(defun clear-trace ()
  "Forget all entries; returns how many there were."
  (call-with-lock (lambda ()
                    (prog1 *trace-count*
                      (setf *trace-entries* '() *trace-kept* 0 *trace-count* 0)))))

(defun untraced-calls (name)
  "Keywords for calls of the function NAME that a trace can't show, because the compiler removed
them."
  (let ((info (optional-function "SB-INT" "INFO")))
    (remove nil
            (list (and info
                       (guarded (lambda ()
                                  (and (eq 'inline (funcall info :function :inlinep name))
                                       :inline))
                                (constantly nil)))
                  (and (compiler-macro-function name) :compiler-macro)))))

(defun trace-one (text package)
  "Record calls of what TEXT names; returns its name in full and which calls won't show."
  (multiple-value-bind (method name) (traced-method text package)
    (if method
        (progn
          (check-method-traceable method name)
          (unless (assoc method *traced*)
            (push (list method name (install-method-trace method name)) *traced*))
          (values name '()))
        (multiple-value-bind (function name) (traceable-name text package)
          (unless (assoc function *traced* :test #'equal)
            (push (list function (install-trace function name)) *traced*))
          (values name (untraced-calls function))))))

(define-operation "trace-function" (function package)
  ;; Record calls of a function or a method from now on. If nothing was traced before, forget the
  ;; entries of earlier traces: they would look like new calls.
  (compile-now 'traced-call 'add-trace-entry 'traced-objects 'printed 'guarded
               'call-with-printer 'write-bounded)
  (let ((forgotten (if *traced* 0 *trace-count*)) (before *traced*))
    (multiple-value-bind (name missing) (trace-one function package)
      (unless before (clear-trace))
      (list :traced (traced-names)
            :forgotten forgotten
            :name name
            :missing missing))))

(defun traced-entry (text package)
  (multiple-value-bind (method name) (traced-method text package)
    (or (if method
            (assoc method *traced*)
            (assoc (function-name-of (name-of-text text package)) *traced* :test #'equal))
        (progn (unless method (traceable-name text package))
               (missed "~A is not traced." (or name text))))))

(define-operation "untrace-function" (function package)
  ;; Stop recording calls of a function or a method, or of all.
  (dolist (entry (if function (list (traced-entry function package)) *traced*))
    (if (method-p (first entry))
        (remove-method-trace (first entry) (third entry))
        (remove-trace (first entry) (second entry)))
    (setf *traced* (remove entry *traced*)))
  (list :traced (traced-names)))

(define-operation "get-trace" (limit clear)
  ;; The latest recorded calls, oldest first.
  (let* ((limit (max 1 (min 500 (or limit 40))))
         (entries (reverse (subseq *trace-entries* 0 (min limit (length *trace-entries*))))))
    (prog1 (list :traced (traced-names)
                 :total *trace-count*
                 :entries (loop for (number depth thread text) in entries
                                collect (list :number number :depth depth :thread thread
                                              :text text)))
      (when clear (clear-trace)))))
