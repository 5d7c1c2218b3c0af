;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; FiveAM, Parachute, Rove and Prove, which make an object for each check's result: what the object
;;; says, and how to find and run a test or a suite.

(cl:in-package "AGENT-Q-IMAGE")

;;; FiveAM

(defun fiveam-entries (result surroundings package)
  (declare (ignore surroundings))
  (flet ((ask (name object)
           (guarded (lambda () (framework-call package name object)) (constantly nil))))
    (list (list :status (cond ((of-class-p result package "TEST-PASSED") "passed")
                              ((of-class-p result package "TEST-SKIPPED") "skipped")
                              ((of-class-p result package "UNEXPECTED-TEST-FAILURE") "error")
                              (t "failed"))
                :test (let ((test (ask "TEST-CASE" result)))
                        (and test (short (ask "NAME" test))))
                :expression (let ((expression (ask "TEST-EXPR" result)))
                              (and expression (short expression)))
                :reason (let ((reason (ask "REASON" result)))
                          (and reason (short reason 600)))))))

(defun fiveam-runner (target package)
  (when (and (symbolp target) (framework-call package "GET-TEST" target))
    (lambda () (framework-call package "RUN" target))))

(defun fiveam-names (package)
  ;; NIL is the suite for tests of no other suite. Tests defined twice may be listed twice.
  (remove-duplicates (remove nil (framework-call package "TEST-NAMES"))))

(defun table-keys (table)
  (and (hash-table-p table) (loop for key being the hash-keys of table collect key)))

(defun fiveam-inner (suite package)
  "The names of what SUITE contains; later versions have an object of their own instead of a table."
  (let ((tests (framework-slot (framework-call package "GET-TEST" suite) package "TESTS")))
    (if (or (null tests) (hash-table-p tests))
        (table-keys tests)
        (framework-call package "%TEST-NAMES" tests))))

(defun fiveam-quiet (package)
  (framework-bindings package
                      "*TEST-DRIBBLE*" (make-broadcast-stream) "*ON-ERROR*" nil "*ON-FAILURE*" nil))

;;; Parachute

(defun parachute-test-name (parent package)
  "The name of the test whose result is PARENT."
  (guarded (lambda ()
             (let ((test (framework-call package "EXPRESSION" parent)))
               (short (if (of-class-p test package "TEST")
                          (framework-call package "NAME" test)
                          test))))
           (constantly nil)))

(defun parachute-entries (result parent package)
  (flet ((ask (name &rest arguments)
           (guarded (lambda () (apply #'framework-call package name result arguments))
                    (constantly nil))))
    (let ((status (ask "STATUS")))
      (cond ((not (of-class-p result package "PARENT-RESULT"))
             (list (list :status (string-downcase (princ-to-string status))
                         :test (and parent (parachute-test-name parent package))
                         :expression (short (ask "EXPRESSION"))
                         :reason (and (eq status :failed)
                                      (short (or (ask "FORMAT-RESULT" :extensive) "") 600)))))
            ;; A test fails on its own if its body signals an error or takes too long.
            ((and (eq status :failed)
                  (of-class-p result package "TEST-RESULT")
                  (notany (lambda (child) (eq :failed (framework-call package "STATUS" child)))
                          (ask "RESULTS")))
             (list (list :status "error" :test (parachute-test-name result package)
                         :reason (let ((description (ask "DESCRIPTION")))
                                   (and description (short description 600))))))))))

(defun parachute-parent (package)
  (framework-value package "*PARENT*"))

(defun parachute-runner (target package)
  (let ((known (if (packagep target)
                   (framework-call package "PACKAGE-TESTS" target)
                   (and (symbol-package target)
                        (guarded (lambda ()
                                   (framework-call package "FIND-TEST" target (symbol-package target)))
                                 (constantly nil))))))
    (when known
      (lambda ()
        (framework-call package "TEST" (if (packagep target) target known)
                        :report (find-symbol "QUIET" package))))))

(defun parachute-names (package)
  (remove-if-not (framework-function package "PACKAGE-TESTS") (list-all-packages)))

;;; Rove

(defun rove-entries (result surroundings package)
  (declare (ignore surroundings))
  (flet ((ask (name)
           (guarded (lambda () (framework-call package name result)) (constantly nil))))
    (list (list :status (cond ((of-class-p result package "PASSED-ASSERTION") "passed")
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

(defun rove-runner (target package)
  (declare (ignore package))
  (let ((suites "ROVE/CORE/SUITE/PACKAGE"))
    (flet ((suite-call (function)
             (lambda () (framework-call "ROVE/CORE/SUITE" "CALL-WITH-SUITE" function))))
      (if (packagep target)
          (when (gethash target (framework-value suites "*PACKAGE-SUITES*"))
            (suite-call (lambda ()
                          (framework-call suites "RUN-SUITE"
                                          (gethash target (framework-value suites "*PACKAGE-SUITES*"))))))
          (let ((test (guarded (lambda () (framework-call suites "GET-TEST" target))
                               (constantly nil))))
            (when test
              (suite-call test)))))))

(defun rove-names (package)
  (declare (ignore package))
  (loop for package being the hash-keys of (framework-value "ROVE/CORE/SUITE/PACKAGE" "*PACKAGE-SUITES*")
        when (package-name package) collect package))

;;; Prove

(defun prove-entries (report surroundings package)
  (declare (ignore surroundings))
  (labels ((of (name) (of-class-p report package name))
           (part (name) (framework-slot report package name))
           (status ()
             (cond ((of "PASSED-TEST-REPORT") "passed")
                   ((of "SKIPPED-TEST-REPORT") "skipped")
                   ((of "ERROR-TEST-REPORT") "error")
                   ((of "FAILED-TEST-REPORT") "failed"))))
    (when (status)
      (list (list :status (status)
                  :test (part "DESCRIPTION")
                  :expression (let ((form (part "GOT-FORM")))
                                ;; An error has no form.
                                (and (not (and (symbolp form) (null (symbol-package form))))
                                     (short form)))
                  :reason (let ((got (part "GOT")))
                            (if (typep got 'condition)
                                (condition-message got)
                                (format nil "~A, not ~:[~;other than ~]~A" (short got)
                                        (part "NOTP") (short (part "EXPECTED"))))))))))

(defun prove-tests (package)
  "The tests of PACKAGE defined by DEFTEST: lists of a name and a function."
  (let ((table (framework-value "PROVE.TEST" "*PACKAGE-TESTS*")))
    (and table (gethash package table))))

(defun prove-runner (target package)
  (declare (ignore package))
  (cond ((packagep target)
         (when (prove-tests target)
           (lambda () (framework-call "PROVE.TEST" "RUN-TEST-PACKAGE" target))))
        ((assoc target (prove-tests (symbol-package target)) :test #'string=)
         (lambda ()
           (let ((*package* (symbol-package target)))
             (framework-call "PROVE.TEST" "RUN-TEST" target))))))

(defun prove-names (package)
  (declare (ignore package))
  (remove-if-not #'prove-tests (list-all-packages)))

(defun prove-quiet (package)
  (declare (ignore package))
  (framework-bindings "PROVE.OUTPUT" "*TEST-RESULT-OUTPUT*" (make-broadcast-stream)))
