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
  "What is traced: lists of the function's name and its previous definition, or :ENCAPSULATED.")

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
  (loop for (function) in (reverse *traced*)
        when (fboundp function)
          collect (if (consp function)
                      (format nil "(SETF ~A)" (symbol-text (second function)))
                      (symbol-text function))))

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

(define-operation "trace-function" (function package)
  ;; Record calls of a function from now on. If nothing was traced before, forget the entries of
  ;; earlier traces: they would look like new calls.
  (multiple-value-bind (name text) (traceable-name function package)
    (compile-now 'traced-call 'add-trace-entry 'traced-objects 'printed 'guarded
                 'call-with-printer 'write-bounded)
    (let ((forgotten (if *traced* 0 (clear-trace))))
      (unless (assoc name *traced* :test #'equal)
        (let ((before (install-trace name text)))
          (push (list name before) *traced*)))
      (list :traced (traced-names)
            :forgotten forgotten
            :name text
            :missing (untraced-calls name)))))

(define-operation "untrace-function" (function package)
  ;; Stop recording calls of a function, or of all.
  (let ((entries (if function
                     (list (or (assoc (function-name-of (name-of-text function package)) *traced*
                                      :test #'equal)
                               (progn (traceable-name function package)
                                      (missed "~A is not traced." function))))
                     *traced*)))
    (dolist (entry entries)
      (remove-trace (first entry) (second entry))
      (setf *traced* (remove entry *traced*)))
    (list :traced (traced-names))))

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
