;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; FiveAM, Parachute and Rove, as far as they are loaded: how each finds and runs a test or a
;;; suite, and what its results say. Results are seen as they are made, whoever runs the tests.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct framework
  title package
  ;; The name of the class of its results.
  result-class
  ;; What a result says, a property list, or NIL; called with the result and what surrounds it.
  entry
  ;; What surrounds a result while it is made.
  (surroundings (constantly nil))
  ;; A function that runs what a symbol or a package names, or NIL.
  runner
  ;; What can be run: symbols and packages.
  (names (constantly '())))

(defun own-function (package name)
  "The function NAME of a test framework's PACKAGE."
  (or (optional-function package name)
      (error "~A of ~A is not there; it may be of a version that is not known." name package)))

(defun own-value (package name)
  (let ((symbol (find-symbol name package)))
    (and symbol (boundp symbol) (symbol-value symbol))))

(defun short (object &optional (limit 300))
  (if (stringp object)
      (shortened object limit)
      (printed object :limit limit :length 20 :level 6 :circle nil)))

(defun of-class-p (object package name)
  (let ((symbol (find-symbol name package)))
    (and symbol (find-class symbol nil) (typep object symbol))))

;;; FiveAM

(defun fiveam-entry (result surroundings)
  (declare (ignore surroundings))
  (let ((package "IT.BESE.FIVEAM"))
    (flet ((ask (name object)
             (guarded (lambda () (funcall (own-function package name) object))
                      (constantly nil))))
      (list :status (cond ((of-class-p result package "TEST-PASSED") "passed")
                          ((of-class-p result package "TEST-SKIPPED") "skipped")
                          ((of-class-p result package "UNEXPECTED-TEST-FAILURE") "error")
                          (t "failed"))
            :test (let ((test (ask "TEST-CASE" result)))
                    (and test (short (ask "NAME" test))))
            :expression (let ((expression (ask "TEST-EXPR" result)))
                          (and expression (short expression)))
            :reason (let ((reason (ask "REASON" result)))
                      (and reason (short reason 600)))))))

(defun fiveam-runner (target)
  (let ((package "IT.BESE.FIVEAM"))
    (when (and (symbolp target) (funcall (own-function package "GET-TEST") target))
      (lambda () (funcall (own-function package "RUN") target)))))

(defun fiveam-names ()
  ;; NIL is the suite of those that are in no other.
  (remove nil (funcall (own-function "IT.BESE.FIVEAM" "TEST-NAMES"))))

(defun call-with-quiet-fiveam (function)
  "Call FUNCTION; FiveAM does not print meanwhile what its results say, nor enters the debugger."
  (if (find-package "IT.BESE.FIVEAM")
      (progv (loop for name in '("*TEST-DRIBBLE*" "*ON-ERROR*" "*ON-FAILURE*")
                   collect (find-symbol name "IT.BESE.FIVEAM"))
          (list (make-broadcast-stream) nil nil)
        (funcall function))
      (funcall function)))

;;; Parachute

(defun parachute-test-name (parent)
  "The name of the test whose result PARENT is."
  (let ((package "ORG.SHIRAKUMO.PARACHUTE"))
    (guarded (lambda ()
               (let ((test (funcall (own-function package "EXPRESSION") parent)))
                 (short (if (of-class-p test package "TEST")
                            (funcall (own-function package "NAME") test)
                            test))))
             (constantly nil))))

(defun parachute-entry (result parent)
  (let ((package "ORG.SHIRAKUMO.PARACHUTE"))
    (flet ((ask (name &rest arguments)
             (guarded (lambda () (apply (own-function package name) result arguments))
                      (constantly nil))))
      (let ((status (ask "STATUS")))
        (cond ((not (of-class-p result package "PARENT-RESULT"))
               (list :status (string-downcase (princ-to-string status))
                     :test (and parent (parachute-test-name parent))
                     :expression (short (ask "EXPRESSION"))
                     :reason (and (eq status :failed)
                                  (short (or (ask "FORMAT-RESULT" :extensive) "") 600))))
              ;; A test fails by itself when its body signals an error or takes too long.
              ((and (eq status :failed)
                    (of-class-p result package "TEST-RESULT")
                    (notany (lambda (child)
                              (eq :failed (funcall (own-function package "STATUS") child)))
                            (ask "RESULTS")))
               (list :status "error" :test (parachute-test-name result)
                     :reason (let ((description (ask "DESCRIPTION")))
                               (and description (short description 600))))))))))

(defun parachute-runner (target)
  (let* ((package "ORG.SHIRAKUMO.PARACHUTE")
         (known (if (packagep target)
                    (funcall (own-function package "PACKAGE-TESTS") target)
                    (and (symbol-package target)
                         (guarded (lambda ()
                                    (funcall (own-function package "FIND-TEST")
                                             target (symbol-package target)))
                                  (constantly nil))))))
    (when known
      (lambda ()
        (funcall (own-function package "TEST") (if (packagep target) target known)
                 :report (find-symbol "QUIET" package))))))

(defun parachute-names ()
  (remove-if-not (own-function "ORG.SHIRAKUMO.PARACHUTE" "PACKAGE-TESTS") (list-all-packages)))

;;; Rove

(defun rove-entry (result surroundings)
  (declare (ignore surroundings))
  (let ((package "ROVE/CORE/RESULT"))
    (flet ((ask (name)
             (guarded (lambda () (funcall (own-function package name) result))
                      (constantly nil))))
      (list :status (cond ((of-class-p result package "PASSED-ASSERTION") "passed")
                          ((of-class-p result package "PENDING-ASSERTION") "skipped")
                          (t "failed"))
            :test (let ((labels (ask "ASSERTION-LABELS")))
                    (and (consp labels)
                         (format nil "~{~A~^ / ~}" (mapcar #'short (remove nil labels)))))
            :expression (short (ask "ASSERTION-FORM"))
            :reason (let ((reason (ask "ASSERTION-REASON")))
                      (short (if (typep reason 'condition)
                                 (condition-message reason)
                                 (or (ask "ASSERTION-DESCRIPTION") ""))
                             600))))))

(defun rove-runner (target)
  (let ((suites "ROVE/CORE/SUITE/PACKAGE"))
    (flet ((suite-call (function)
             (lambda ()
               (funcall (own-function "ROVE/CORE/SUITE" "CALL-WITH-SUITE") function))))
      (if (packagep target)
          (when (gethash target (own-value suites "*PACKAGE-SUITES*"))
            (suite-call (lambda ()
                          (funcall (own-function suites "RUN-SUITE")
                                   (gethash target (own-value suites "*PACKAGE-SUITES*"))))))
          (let ((test (guarded (lambda () (funcall (own-function suites "GET-TEST") target))
                               (constantly nil))))
            (when test
              (suite-call test)))))))

(defun rove-names ()
  (loop for package being the hash-keys of (own-value "ROVE/CORE/SUITE/PACKAGE" "*PACKAGE-SUITES*")
        when (package-name package) collect package))

;;; All of them

(defparameter *frameworks*
  (list (make-framework :title "FiveAM" :package "IT.BESE.FIVEAM" :result-class "TEST-RESULT"
                        :entry 'fiveam-entry :runner 'fiveam-runner :names 'fiveam-names)
        (make-framework :title "Parachute" :package "ORG.SHIRAKUMO.PARACHUTE"
                        :result-class "RESULT" :entry 'parachute-entry
                        :surroundings (lambda ()
                                        (own-value "ORG.SHIRAKUMO.PARACHUTE" "*PARENT*"))
                        :runner 'parachute-runner :names 'parachute-names)
        (make-framework :title "Rove" :package "ROVE/CORE/RESULT" :result-class "ASSERTION"
                        :entry 'rove-entry :runner 'rove-runner :names 'rove-names)))

(defun loaded-frameworks ()
  (remove-if-not (lambda (framework) (find-package (framework-package framework)))
                 *frameworks*))

(defun test-names ()
  "What the loaded frameworks can run: lists of its bare name and how one writes it."
  (loop for framework in (loaded-frameworks)
        append (loop for it in (guarded (framework-names framework) (constantly '()))
                     collect (if (packagep it)
                                 (list (package-name it) (package-name it))
                                 (list (symbol-name it) (symbol-text it))))))

(defvar *results* '()
  "The results that were made since the tests began: lists of framework, result, surroundings.")

(defun note-result (framework result)
  (push (list framework result (funcall (framework-surroundings framework))) *results*))

(defun watch-results (framework)
  "Have each result of FRAMEWORK noted from now on; a function that ends that."
  (let* ((class (find-symbol (framework-result-class framework) (framework-package framework)))
         (method (and class
                      (eval `(defmethod initialize-instance :around ((result ,class) &key)
                               (prog1 (call-next-method)
                                 (note-result ',framework result)))))))
    (lambda ()
      (when method
        (remove-method #'initialize-instance method)))))

(defun call-watching (function)
  "Call FUNCTION; the entries of the results that were made meanwhile, first one first."
  (setf *results* '())
  (let ((ends (mapcar #'watch-results (loaded-frameworks))))
    (unwind-protect (call-with-quiet-fiveam function)
      (mapc #'funcall ends)))
  (shiftf *results* '()))

(defun result-entries (results)
  (loop for (framework result surroundings) in (reverse results)
        for entry = (funcall (framework-entry framework) result surroundings)
        when entry collect (list* :framework (framework-title framework) entry)))
