;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The test frameworks whose results we can count, if they are loaded. We observe results as they
;;; are made, however the tests are run. How each framework finds and runs a test or a suite, and
;;; what its results say, is in the other files; its packages are in report/frames.lisp.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct test-framework
  ;; All functions here get the name of the package as their last argument.
  title package
  ;; The name of the class of its results, or the functions that show the outcome of a check: lists
  ;; of a function's name and of a replacement, which is called with the package, a function that
  ;; notes an entry, the original function and its arguments.
  result-class (calls '())
  ;; Called with a result and its surroundings; returns what they say, as a list of property lists.
  entries
  ;; The surroundings of a result while it is made.
  (surroundings (constantly nil))
  ;; Whether the :TEST of an entry is the name of a test.
  (names-tests t)
  ;; A function that runs what a symbol or a package names, or NIL.
  runner
  ;; What can be run: symbols and packages; and what runs together with a symbol, or NIL if unknown.
  (names (constantly '())) (inner nil)
  ;; Variables and values that keep it from printing its results and from entering the debugger.
  (quiet (constantly '())))

(defun framework-function (package name)
  "The function NAME of a test framework's PACKAGE."
  (or (optional-function package name)
      (error "~A of ~A is missing; perhaps this version is not supported." name package)))

(defun framework-call (package name &rest arguments)
  (apply (framework-function package name) arguments))

(defun framework-value (package name)
  (let ((symbol (find-symbol name package)))
    (and symbol (boundp symbol) (symbol-value symbol))))

(defun framework-slot (object package name)
  "The value of slot NAME of OBJECT, or NIL if it has no such slot."
  (let ((symbol (find-symbol name package)))
    (guarded (lambda ()
               (and symbol (slot-exists-p object symbol) (slot-boundp object symbol)
                    (slot-value object symbol)))
             (constantly nil))))

(defun framework-bindings (package &rest names-and-values)
  "Lists of a variable of PACKAGE and a value, for those variables that exist."
  (loop for (name value) on names-and-values by #'cddr
        for symbol = (and (find-package package) (find-symbol name package))
        when symbol collect (list symbol value)))

(defun short (object &optional (limit 300))
  (if (stringp object)
      (shortened object limit)
      (printed object :limit limit :length 20 :level 6 :circle nil)))

(defun test-name (name)
  "NAME, of a test, written so that it can be read in any package."
  (if (symbolp name) (symbol-text name) (short name)))

(defun of-class-p (object package name)
  (let ((symbol (find-symbol name package)))
    (and symbol (find-class symbol nil) (typep object symbol))))

(defun frameworks-titled (title &rest options)
  "The test framework TITLE with OPTIONS, once for each package that may have its results."
  (loop for package in (second (assoc title *test-framework-packages* :test #'string=))
        collect (apply #'make-test-framework :title title :package package options)))

(defparameter *frameworks*
  (append
   (frameworks-titled "FiveAM" :result-class "TEST-RESULT"
                      :entries 'fiveam-entries :runner 'fiveam-runner :names 'fiveam-names
                      :inner 'fiveam-inner :quiet 'fiveam-quiet)
   (frameworks-titled "Parachute" :result-class "RESULT" :surroundings 'parachute-parent
                      :entries 'parachute-entries :runner 'parachute-runner :names 'parachute-names)
   (frameworks-titled "Rove" :result-class "ASSERTION" :names-tests nil
                      :entries 'rove-entries :runner 'rove-runner :names 'rove-names)
   (frameworks-titled "Prove" :result-class "REPORT" :names-tests nil
                      :entries 'prove-entries :runner 'prove-runner :names 'prove-names
                      :quiet 'prove-quiet)
   (frameworks-titled "Lisp-Unit" :result-class "TEST-RESULT"
                      :entries 'lisp-unit-entries :runner 'lisp-unit-runner :names 'lisp-unit-names)
   (frameworks-titled "Lisp-Unit2" :result-class "TEST-RESULT"
                      :entries 'lisp-unit2-entries :runner 'lisp-unit2-runner
                      :names 'lisp-unit2-names :quiet 'lisp-unit2-quiet)
   (frameworks-titled "CLUnit2" :result-class "CLUNIT-TEST-REPORT"
                      :entries 'clunit-entries :runner 'clunit-runner :names 'clunit-names)
   (frameworks-titled "RT" :calls '(("DO-ENTRY" rt-do-entry) ("DO-ENTRIES" rt-do-entries))
                      :entries 'noted-entries :runner 'rt-runner :names 'rt-names
                      :inner (constantly '()))
   (frameworks-titled "Fiasco" :calls '(("REGISTER-ASSERTION-WAS-SUCCESSFUL" fiasco-passed)
                                        ("RECORD-FAILURE" fiasco-failed) ("SKIP" fiasco-skipped))
                      :entries 'noted-entries :runner 'fiasco-runner :names 'fiasco-names
                      :inner 'fiasco-inner :quiet 'fiasco-quiet)
   (frameworks-titled "1AM" :calls '(("CALL-TEST" one-am-test) ("PASSED" one-am-passed))
                      :entries 'noted-entries :runner 'one-am-runner :names 'one-am-names
                      :inner (constantly '()))))

(defun ask-framework (framework accessor &rest arguments)
  "Call the function in slot ACCESSOR of FRAMEWORK with ARGUMENTS and its package."
  (apply (funcall accessor framework) (append arguments (list (test-framework-package framework)))))

(defun framework-titles (frameworks)
  (remove-duplicates (mapcar #'test-framework-title frameworks) :test #'string=))

(defun loaded-frameworks ()
  ;; A package may be known by two names.
  (remove-duplicates (remove-if-not (lambda (framework) (find-package (test-framework-package framework)))
                                    *frameworks*)
                     :key (lambda (framework) (find-package (test-framework-package framework)))
                     :from-end t))

(defun test-names ()
  "What the loaded frameworks can run: lists of its bare name and how to write it."
  (loop for framework in (loaded-frameworks)
        append (loop for it in (guarded (lambda () (ask-framework framework #'test-framework-names))
                                        (constantly '()))
                     collect (if (packagep it)
                                 (list (package-name it) (package-name it))
                                 (list (symbol-name it) (symbol-text it))))))

;;; Observing results

(defvar *results* '()
  "The results since the tests began: lists of framework, result, surroundings, and where in the
program a failed check is, if known.")

(defparameter *result-limit* 30
  "How many results other than passed ones to show.")

(defvar *on-failure* (constantly nil)
  "Called with what a failed check says, while its stack is alive.")

(defun entries-of (framework result surroundings)
  (ask-framework framework #'test-framework-entries result surroundings))

(defvar *counted* (list 0 0 0)
  "The numbers of the results since the tests began, of their checks, as far as they told them when they
were made, and of those that failed.")

(defun counted-text (counted)
  "How far tests are, by COUNTED."
  (destructuring-bind (results checks failed) counted
    (cond ((plusp checks) (format nil "~:D check~:P~[~:;, ~:*~:D failed~]" checks failed))
          ((plusp results) (format nil "~:D test~:P" results))
          (t "testing"))))

(defun count-entries (entries)
  "Count ENTRIES, of a result that was just made; returns one that failed."
  (let ((failures (remove-if-not (lambda (entry)
                                   (member (getf entry :status) '("failed" "error") :test #'string=))
                                 entries)))
    (flet ((total (list) (loop for entry in list sum (getf entry :count 1))))
      (incf (first *counted*))
      (incf (second *counted*) (total entries))
      (incf (third *counted*) (total failures)))
    (first failures)))

(defun note-result (framework result)
  (let* ((surroundings (ask-framework framework #'test-framework-surroundings))
         (failed (count-entries
                  (guarded (lambda () (entries-of framework result surroundings)) (constantly '())))))
    (push (list framework result surroundings
                (and failed
                     (< (count-if #'fourth *results*) *result-limit*)
                     (place-of-check)))
          *results*)
    (when failed (funcall *on-failure* failed))))

(defun place-of-check ()
  "Where the program made the check whose result is noted now, as properties for the wire, if known."
  (guarded
   (lambda ()
     (let ((place nil))
       (backend "CALL-WITH-DEBUGGING-ENVIRONMENT"
                (lambda ()
                  (loop for (number nil operator)
                          ;; As long as our own functions are interpreted, they take hundreds.
                          in (shown-frames (backend "COMPUTE-BACKTRACE" 0 800)
                                           ;; What notes the result is above the check, and ours, too.
                                           (lambda (operator shown)
                                             (declare (ignore shown))
                                             (equal operator "(AGENT-Q-IMAGE::PERFORM")))
                        until place
                        do (unless (or (null operator)
                                       (our-frame-p operator)
                                       (let ((package (operator-package operator)))
                                         (and package (test-framework-package-p package))))
                             (setf place (frame-place number operator))))))
       place))
   (constantly nil)))

(defun observe-class (framework)
  "Note each result that FRAMEWORK makes from now on; returns functions that end that."
  (let* ((name (test-framework-result-class framework))
         (class (and name (find-symbol name (test-framework-package framework))))
         (method (and class
                      (eval `(defmethod initialize-instance :around ((result ,class) &key)
                               (prog1 (call-next-method)
                                 (note-result ',framework result)))))))
    (and method
         (list (lambda () (remove-method #'initialize-instance method))))))

(defun observe-call (framework name instead)
  "Call INSTEAD in place of FRAMEWORK's function NAME; returns functions that end that."
  (let* ((package (test-framework-package framework))
         (symbol (find-symbol name package))
         (encapsulate (optional-function "SB-INT" "ENCAPSULATE"))
         (note (lambda (entry) (note-result framework entry))))
    (flet ((call (original arguments)
             (apply instead package note original arguments)))
      (cond ((not (and symbol (fboundp symbol))) '())
            (encapsulate
             (funcall encapsulate symbol 'agent-q-tests
                      (lambda (original &rest arguments) (call original arguments)))
             (list (lambda ()
                     (funcall (optional-function "SB-INT" "UNENCAPSULATE")
                              symbol 'agent-q-tests))))
            (t (let ((original (fdefinition symbol)))
                 (setf (fdefinition symbol)
                       (lambda (&rest arguments) (call original arguments)))
                 (list (lambda () (setf (fdefinition symbol) original)))))))))

(defun observe-framework (framework)
  (append (observe-class framework)
          (loop for (name instead) in (test-framework-calls framework)
                append (observe-call framework name instead))))

(defun call-quietly (function)
  "Call FUNCTION while no framework prints its results or enters the debugger."
  (let ((bindings (loop for framework in (loaded-frameworks)
                        append (guarded (lambda () (ask-framework framework #'test-framework-quiet))
                                        (constantly '())))))
    (progv (mapcar #'first bindings) (mapcar #'second bindings)
      (funcall function))))

(defun call-observing (function)
  "Call FUNCTION; returns the results that were made, latest first."
  (setf *results* '())
  (let ((counted (setf *counted* (list 0 0 0))))
    (note-stage (lambda () (counted-text counted))))
  (let ((ends (mapcan #'observe-framework (loaded-frameworks))))
    (unwind-protect (call-quietly function)
      (mapc #'funcall ends)))
  (shiftf *results* '()))

(defun result-entries (results)
  "What RESULTS say, the first one first."
  (loop for (framework result surroundings place) in (reverse results)
        append (loop for entry in (entries-of framework result surroundings)
                     collect (append (list* :framework (test-framework-title framework) entry)
                                     place))))
