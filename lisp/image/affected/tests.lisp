;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The single tests of the frameworks, without suites, and what each runs: a function, or a form. Where
;;; neither is to be had, its text is looked at.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *single-tests*
  '(("FiveAM" fiveam-tests fiveam-body) ("Parachute" parachute-tests) ("Rove" rove-tests rove-body)
    ("Prove" prove-test-names) ("Lisp-Unit" lisp-unit-names) ("Lisp-Unit2" lisp-unit2-names global-body)
    ("CLUnit2" clunit-tests) ("RT" rt-names rt-body) ("Fiasco" fiasco-tests global-body)
    ("1AM" one-am-names global-body))
  "From titles of frameworks to functions that return the tests as symbols, and what one runs; like all
functions of frameworks, these take the package last.")

(defun single-tests (framework)
  "The tests of FRAMEWORK that can be run one by one, as symbols."
  (let ((tests (second (assoc (test-framework-title framework) *single-tests* :test #'string=))))
    (remove-if-not (lambda (it) (and it (symbolp it) (symbol-package it)))
                   (guarded (lambda () (and tests (funcall tests (test-framework-package framework))))
                            (constantly '())))))

(defun body-of-test (framework test)
  "The function or the form that TEST, of FRAMEWORK, runs, or NIL."
  (let ((body (third (assoc (test-framework-title framework) *single-tests* :test #'string=))))
    (guarded (lambda () (and body (funcall body test (test-framework-package framework))))
             (constantly nil))))

(defun global-body (test package)
  (declare (ignore package))
  (and (fboundp test) (fdefinition test)))

(defun fiveam-tests (package)
  (remove-if-not (lambda (name)
                   (of-class-p (framework-call package "GET-TEST" name) package "TEST-CASE"))
                 (fiveam-names package)))

(defun fiveam-body (test package)
  (framework-slot (framework-call package "GET-TEST" test) package "TEST-LAMBDA"))

(defun parachute-tests (package)
  (loop for home in (parachute-names package)
        append (loop for test in (framework-call package "PACKAGE-TESTS" home)
                     collect (find-symbol (string (framework-call package "NAME" test)) home))))

(defun rove-tests (package)
  (loop with suites = "ROVE/CORE/SUITE/PACKAGE"
        for home in (rove-names package)
        append (framework-slot (gethash home (framework-value suites "*PACKAGE-SUITES*")) suites "TESTS")))

(defun rove-body (test package)
  (declare (ignore package))
  (framework-call "ROVE/CORE/SUITE/PACKAGE" "GET-TEST" test))

(defun prove-test-names (package)
  (loop for home in (prove-names package)
        append (loop for (name) in (prove-tests home) collect (find-symbol (string name) home))))

(defun clunit-tests (package)
  (framework-call package "GET-DEFINED-TESTS"))

(defun rt-body (test package)
  (loop for entry in (rest (framework-value package "*ENTRIES*"))
        when (eq test (framework-call package "NAME" entry))
          return (framework-call package "FORM" entry)))

(defun fiasco-tests (package)
  (remove-if (lambda (name) (fiasco-inner name package)) (fiasco-names package)))
