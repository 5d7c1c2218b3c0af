;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Lisp-Unit, Lisp-Unit2 and CLUnit2, which make an object for each test's result, with all its
;;; checks: what the object says, and how to find and run a test or a suite.

(cl:in-package "AGENT-Q-IMAGE")

(defun passed-entry (count test)
  (list :status "passed" :count count :test test))

(defun values-text (values)
  (format nil "~{~A~^, ~}" (mapcar #'short values)))

(defun unequal-entry (failure test package)
  "What FAILURE, a failed check of Lisp-Unit or Lisp-Unit2, says. In a loop, only its extra forms
may tell it from the other checks."
  (list :status "failed" :test test
        :expression (short (framework-slot failure package "FORM"))
        :reason (format nil "~A, not ~A~{~%~A => ~A~}"
                        (values-text (framework-slot failure package "ACTUAL"))
                        (values-text (framework-slot failure package "EXPECTED"))
                        (mapcar #'short (framework-slot failure package "EXTRAS")))))

(defun error-entry (condition test)
  (list :status "error" :test test :reason (condition-message condition)))

;;; Lisp-Unit

(defun lisp-unit-entries (result surroundings package)
  (declare (ignore surroundings))
  (let ((test (test-name (framework-slot result package "NAME")))
        (passed (framework-slot result package "PASS"))
        (condition (framework-slot result package "EXERR")))
    (append (and (plusp passed) (list (passed-entry passed test)))
            (loop for failure in (reverse (framework-slot result package "FAIL"))
                  collect (unequal-entry failure test package))
            (and condition (list (error-entry condition test))))))

(defun lisp-unit-tests (package)
  "The table of the tests of each package."
  (framework-value package "*TEST-DB*"))

(defun lisp-unit-runner (target package)
  (let* ((tests (lisp-unit-tests package))
         (home (if (packagep target) target (symbol-package target)))
         (table (and home (gethash home tests))))
    (cond ((null table) nil)
          ((packagep target) (lambda () (framework-call package "RUN-TESTS" :all target)))
          ((gethash target table) (lambda () (framework-call package "RUN-TESTS" (list target) home))))))

(defun lisp-unit-names (package)
  (loop for home being the hash-keys of (lisp-unit-tests package)
        when (and (packagep home) (package-name home)) collect home))

;;; Lisp-Unit2

(defun collected (collector package)
  "The elements of COLLECTOR, a list with its length and end, or NIL."
  (and collector (framework-call package "HEAD" collector)))

(defun lisp-unit2-entries (result surroundings package)
  (declare (ignore surroundings))
  (let* ((unit (framework-slot result package "UNIT-TEST"))
         (test (test-name (framework-call package "NAME" unit)))
         (passed (length (collected (framework-slot result package "PASSED") package))))
    (append (and (plusp passed) (list (passed-entry passed test)))
            (loop for failure in (collected (framework-slot result package "FAILED") package)
                  collect (unequal-entry failure test package))
            (loop for condition in (collected (framework-slot result package "ERRORS") package)
                  collect (error-entry condition test)))))

(defun lisp-unit2-index (package name)
  (framework-call package name (framework-value package "*TEST-DB*")))

(defun lisp-unit2-runner (target package)
  (if (packagep target)
      (when (gethash target (lisp-unit2-index package "PACKAGE-INDEX"))
        (lambda () (framework-call package "RUN-TESTS" :package target)))
      (when (gethash target (lisp-unit2-index package "NAME-INDEX"))
        (lambda () (framework-call package "RUN-TESTS" :tests target)))))

(defun lisp-unit2-names (package)
  (loop for home being the hash-keys of (lisp-unit2-index package "PACKAGE-INDEX")
        when (and (packagep home) (package-name home)) collect home))

(defun lisp-unit2-quiet (package)
  (declare (ignore package))
  ;; With a hook, each error would enter the debugger, and so end the run.
  (and (implementation-p "SBCL")
       (framework-bindings "COMMON-LISP" "*DEBUGGER-HOOK*" nil)))

;;; CLUnit2

(defun clunit-entry (condition test package)
  (flet ((of (name) (of-class-p condition package name))
         (part (name) (framework-slot condition package name)))
    (cond ((of "ASSERTION-PASSED") (passed-entry 1 test))
          ((of "ASSERTION-ERROR")
           (list :status "error" :test test :reason (short (part "MESSAGE") 600)))
          ((of "ASSERTION-FAIL-FORCED")
           (list :status "failed" :test test
                 :reason (guarded (lambda ()
                                    (apply #'format nil (part "FORMAT-STRING") (part "ARGS")))
                                  (constantly (short (part "FORMAT-STRING"))))))
          (t (list :status "failed" :test test :expression (short (part "EXPRESSION"))
                   :reason (format nil "~A, not ~A" (short (part "RETURNED"))
                                   (short (part "EXPECTED"))))))))

(defun clunit-entries (report surroundings package)
  (declare (ignore surroundings))
  (let ((test (test-name (framework-slot report package "TEST-NAME"))))
    (if (framework-slot report package "SKIPPED-P")
        (list (list :status "skipped" :test test))
        (loop for condition in (framework-slot report package "ASSERTION-CONDITIONS")
              collect (clunit-entry condition test package)))))

(defun clunit-runner (target package)
  (when (symbolp target)
    (cond ((framework-call package "GET-TEST-CASE" target)
           (lambda () (framework-call package "RUN-TEST" target :report-progress nil)))
          ((framework-call package "GET-TEST-SUITE" target)
           (lambda () (framework-call package "RUN-SUITE" target :report-progress nil))))))

(defun clunit-names (package)
  (append (framework-call package "GET-DEFINED-SUITES") (framework-call package "GET-DEFINED-TESTS")))
