;;; agent-q-run-tests-test.el --- Tests that run_tests runs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tests of all frameworks that are known, through core and chat on real SLIME
;; and SLY.  A framework that ASDF does not find is skipped.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-test-systems)

(defconst agent-q-run-tests-test-suite
  "(defpackage :aq-checks (:use :cl)) (in-package :aq-checks)
(fiveam:def-suite numbers) (fiveam:in-suite numbers)
(fiveam:test sums (fiveam:is (= 4 (+ 2 2))) (fiveam:is (= 5 (+ 2 2)) \"two and two\"))
(fiveam:test breaks (error \"broken ~a\" 1))
(fiveam:test fine (fiveam:is (eq t t)))"
  "A suite of FiveAM with checks that pass, fail and break.")

(agent-q-test-tools-on-each run-tests-by-fiveam ()
  "FiveAM's suites and tests are run and told by what failed."
  (agent-q-test-systems-need connection "fiveam")
  (should (eq :returned (plist-get (agent-q-test-image-eval connection agent-q-run-tests-test-suite)
                                   :outcome)))
  (let ((told (agent-q-test-tools-ask "/run_tests suite=numbers")))
    (should (string-match-p "\\`FAILED: 2 of 4 checks passed, 2 failed, in 3 tests (FiveAM).\n" told))
    (should (string-match-p "^failed in AQ-CHECKS::SUMS: (= 5 (\\+ 2 2))\n  two and two" told))
    (should (string-match-p "^error in AQ-CHECKS::BREAKS\n  Unexpected Error.*\n  broken 1" told)))
  (should (equal "PASSED: 1 of 1 checks passed, 0 failed, in AQ-CHECKS::FINE (FiveAM)."
                 (agent-q-test-tools-ask "/run_tests test=aq-checks::fine")))
  (should (string-match-p "zzz is not a test or suite of FiveAM[^.]*\\. There are .*AQ-CHECKS::FINE.*AQ-CHECKS::NUMBERS"
                          (agent-q-test-tools-ask "/run_tests test=zzz")))
  (should (string-match-p "nmbers is .*FiveAM[^.]*\\. Near names: AQ-CHECKS::NUMBERS\\. If"
                          (agent-q-test-tools-ask "/run_tests suite=nmbers"))))

(agent-q-test-tools-on-each run-tests-again-where-they-failed ()
  "Failed checks have their places in the project's files; without arguments, failed tests run again,
and the first failure can be looked at with its stack alive."
  (agent-q-test-systems-need connection "fiveam")
  (let ((file (expand-file-name "aq-again.lisp" default-directory)))
    (unwind-protect
        (cl-flet ((ask (text) (agent-q-test-tools-ask text))
                  (have (fee)
                    (write-region (format "(defpackage :aq-again (:use :cl)) (in-package :aq-again)
(defun fee (x)
  (declare (optimize (debug 3)))
  (fiveam:is (= %s x) \"the fee\")
  x)
(fiveam:test fees
  (let ((y 2))
    (fiveam:is (= 2 y))
    (fiveam:is (eql %s
                    y))
    (fee y)))
(fiveam:test fine (fiveam:is (eq t t)))\n" fee fee)
                                  nil file nil 'silent)
                    (agent-q-test-image-eval connection (format "(load (compile-file %S))" file))))
          (have 3)
          (should (string-match-p "\\`FAILED: 1 of 3 .*\nfailed in AQ-AGAIN::FEES at aq-again.lisp:9: (EQL 3 AQ-AGAIN::Y)\n.*\n\\(?:.*\n\\)*failed in AQ-AGAIN::FEES at .*aq-again.lisp:4: (= 3 AQ-AGAIN::X)\n  the fee"
                                  (concat (ask "/run_tests test=aq-again::fees") "\n")))
          (let ((told (ask "/run_tests on_error=park")))
            (should (string-match-p "\\`Error .*FAILED-CHECK: failed in .*(EQL 3 " told))
            (should (string-match "parked as debugger \\(d[0-9]+\\)" told))
            (let ((debugger (match-string 1 told)))
              (should (string-match-p "%TEST-FEES" (ask (format "/debugger_frames limit=50 debugger=%s" debugger))))
              (should (string-match-p
                       "\\`FAILED: 1 of 3 checks passed, 2 failed.*\n(Run again, as they failed before: AQ-AGAIN::FEES.)\n"
                       (ask (format "/invoke_restart debugger=%s restart=continue" debugger))))))
          ;; The second time it passes.
          (have 2)
          (should (string-match-p
                   "\\`PASSED: 3 of 3 checks passed.*\n(Run again, as they failed before: AQ-AGAIN::FEES.)\\'"
                   (ask "/run_tests")))
          (should (equal "Give a system, a suite or a test to run: no test failed when this image last ran some."
                         (ask "/run_tests"))))
      (mapc #'delete-file (directory-files default-directory t "\\`aq-again")))))

(agent-q-test-tools-on-each run-tests-tells-of-a-load-that-failed ()
  "Tests that run after a load that failed are said to be of older code."
  (agent-q-test-systems-need connection "fiveam")
  (let ((directory (agent-q-test-systems-system
                    "aq-old" '(("old" . "(defun cl-user::aq-old () 1)
(fiveam:test cl-user::aq-old-test (fiveam:is (= 1 (cl-user::aq-old))))\n"))
                    ":depends-on (\"fiveam\")")))
    (agent-q-test-systems-register connection directory)
    (agent-q-test-tools-ask "/load_system aq-old")
    (cl-flet ((try (text)
                (with-temp-file (expand-file-name "old.lisp" directory)
                  (insert text))
                (agent-q-test-tools-ask "/load_system force=true aq-old")
                (agent-q-test-tools-ask "/run_tests test=aq-old-test")))
      (should (equal "PASSED: 1 of 1 checks passed, 0 failed, in AQ-OLD-TEST (FiveAM).
The image has an older state of old.lisp, whose last load failed; load_system tells why."
                     (try "(defun cl-user::aq-old () (car 1 2))\n")))
      (should (equal "PASSED: 1 of 1 checks passed, 0 failed, in AQ-OLD-TEST (FiveAM)."
                     (try "(defun cl-user::aq-old () 1)\n"))))))

(agent-q-test-tools-on-each run-tests-by-parachute ()
  "Parachute's tests are run by name and by package."
  (agent-q-test-systems-need connection "parachute")
  (agent-q-test-image-eval
   connection
   "(defpackage :aq-para (:use :cl)) (in-package :aq-para)
(parachute:define-test sums (parachute:is = 4 (+ 2 2)) (parachute:is = 5 (+ 2 2) \"two and two\"))
(parachute:define-test breaks (error \"broken ~a\" 1))
(parachute:define-test fine (parachute:true t))")
  (let ((told (agent-q-test-tools-ask "/run_tests suite=aq-para")))
    (should (string-match-p "\\`FAILED: 2 of 4 checks passed, 2 failed, in 3 tests (Parachute).\n" told))
    (should (string-match-p "^failed in AQ-PARA::SUMS: .*\n\\(  .*\n\\)*  two and two" told))
    (should (string-match-p "^error in AQ-PARA::BREAKS" told)))
  (should (equal "PASSED: 1 of 1 checks passed, 0 failed, in AQ-PARA::FINE (Parachute)."
                 (agent-q-test-tools-ask "/run_tests test=aq-para::fine"))))

(agent-q-test-tools-on-each run-tests-by-rove ()
  "Rove's tests are run by name and by package."
  (agent-q-test-systems-need connection "rove")
  (agent-q-test-image-eval
   connection
   "(defpackage :aq-rove (:use :cl)) (in-package :aq-rove)
(rove:deftest sums (rove:ok (= 4 (+ 2 2))) (rove:ok (= 5 (+ 2 2)) \"two and two\"))
(rove:deftest breaks (rove:testing \"inside\" (error \"broken ~a\" 1)))
(rove:deftest fine (rove:ok t))")
  (let ((told (agent-q-test-tools-ask "/run_tests suite=aq-rove")))
    (should (string-match-p "\\`FAILED: 2 of 4 checks passed, 2 failed (Rove).\n" told))
    (should (string-match-p "^failed in .*(= 5 (\\+ 2 2))\n  two and two" told))
    (should (string-match-p "broken 1" told)))
  (should (string-match-p "\\`PASSED: 1 of 1 checks passed, 0 failed, in AQ-ROVE::FINE (Rove)\\."
                          (agent-q-test-tools-ask "/run_tests test=aq-rove::fine"))))

(agent-q-test-tools-on-each run-tests-never-tests-old-files ()
  "Whatever is named, the project's changed files are loaded first, and what the compiler says is told.
So are those that a test operation loads itself."
  (agent-q-test-systems-need connection "fiveam")
  (let ((file (expand-file-name "aq-fresh-tests.lisp" default-directory)))
    (cl-flet ((write (expected &optional more)
                (write-region (format "(defpackage :aq-fresh-tests (:use :cl)) (in-package :aq-fresh-tests)
(fiveam:test sum (fiveam:is (= %s (cl-user::aq-fresh))))\n%s" expected (or more ""))
                              nil file nil 'silent))
              (told (call) (agent-q-test-tools-ask call)))
      (unwind-protect
          (progn
            (write-region "(asdf:defsystem \"aq-fresh\" :components ((:file \"aq-fresh\"))
  :perform (test-op (o c) (asdf:load-system \"aq-fresh-tests\")
             (uiop:symbol-call :fiveam :run! (uiop:find-symbol* :sum :aq-fresh-tests))))\n"
                          nil "aq-fresh.asd" nil 'silent)
            (write-region "(asdf:defsystem \"aq-fresh-tests\" :depends-on (\"aq-fresh\" \"fiveam\")
  :components ((:file \"aq-fresh-tests\")))\n" nil "aq-fresh-tests.asd" nil 'silent)
            (write-region "(defun cl-user::aq-fresh () 4)\n" nil "aq-fresh.lisp" nil 'silent)
            (write 4 "(defun careless (unused) 1)\n")
            (let ((first (told "/run_tests system=aq-fresh")))
              (should (string-match-p "PASSED: 1 of 1" first))
              (should (string-match-p "UNUSED is defined but never used" first))
              (should (string-match-p "^Compiled 2 files: aq-fresh.lisp, aq-fresh-tests.lisp" first)))
            (dolist (call '("/run_tests system=aq-fresh test=aq-fresh-tests::sum"
                            "/run_tests test=aq-fresh-tests::sum"
                            "/run_tests system=aq-fresh"
                            "/run_tests system=aq-fresh-tests"))
              (ert-info (call)
                (write 5)
                (should (string-match-p "FAILED: 0 of 1" (told call)))
                (write 4)
                (should (string-match-p "PASSED: 1 of 1" (told call)))))
            ;; What doesn't load is said, and the rest is tested.
            (write-region "(defun cl-user::aq-fresh () (car 1 2))\n" nil "aq-fresh.lisp" nil 'silent)
            (should (string-match-p "older state of aq-fresh.lisp, whose last load failed"
                                    (told "/run_tests test=aq-fresh-tests::sum"))))
        (mapc #'delete-file (directory-files default-directory t "\\`aq-fresh"))))))

(agent-q-test-tools-on-each run-tests-of-a-system ()
  "What a system's test operation does is seen; nothing run is a failure."
  (let ((empty (agent-q-test-systems-system "aq-empty" '(("code" . "(print (defvar cl-user::*aq-empty* 1))")))))
    (agent-q-test-systems-register connection empty)
    (make-directory (expand-file-name "tests" empty))
    (write-region "(in-package :cl-user)\n(assert t)\n" nil (expand-file-name "test.lisp" empty) nil 'silent)
    (write-region "(defpackage :aq-all (:use :cl \"AQ-CHECKER\") (:import-from #:aq-other #:x))
(in-package :aq-all)\n(aq-checker:deftest x)\n"
                  nil (expand-file-name "tests/all.lisp" empty) nil 'silent)
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-empty")))
      (should (string-match-p "\\`Tests of aq-empty, .*aq-empty.asd: No test ran, .*: aq-empty.asd defines no test-op" told))
      (should (string-match-p "^tests/all.lisp is in no system; its package uses AQ-CHECKER, AQ-OTHER, which don't exist here" told))
      (should (string-match-p "^test.lisp is in no system; compile_file loads it\\.$" told))
      (should-not (string-match-p "code.lisp is" told))
      (should (string-match-p "run_tests .*✗" (agent-q-test-log)))))
  (when (agent-q-test-systems-load-p connection "fiveam")
    ;; One without a test operation has tests all the same, each of which runs once.
    (let ((bare (agent-q-test-systems-system
                 "aq-bare" `(("tests" . ,(string-replace "aq-checks" "aq-bare" agent-q-run-tests-test-suite))
                             ("more" . "(in-package :aq-bare)
(fiveam:test (alone :suite nil) (fiveam:is (= 1 1)))"))
                 ":serial t :depends-on (\"fiveam\")")))
      (agent-q-test-systems-register connection bare)
      (let ((told (agent-q-test-tools-ask "/run_tests system=aq-bare")))
        (should (string-match-p "\\`Tests of aq-bare, [^:]+: FAILED: 3 of 5 checks passed, 2 failed, in 4 tests (FiveAM).\n(The system's test operation runs no test; these are the tests of its packages: [^)]+.)" told))
        (should (string-search "AQ-BARE::NUMBERS" told))
        (should (string-search "AQ-BARE::ALONE" told))
        (should-not (string-search "AQ-BARE::FINE" told))))
    (let ((tested (agent-q-test-systems-system
                   "aq-tested" `(("tests" . ,agent-q-run-tests-test-suite))
                   ":depends-on (\"fiveam\")"
                   ":perform (test-op (o c) (unless (uiop:symbol-call :fiveam :run! (uiop:find-symbol* :numbers :aq-checks)) (error \"tests failed\")))")))
      (agent-q-test-systems-register connection tested)
      (let ((told (agent-q-test-tools-ask "/run_tests system=aq-tested")))
        (should (string-match-p "\\`Tests of [^:]+: FAILED: 2 of 4 checks passed, 2 failed, in 3 tests (FiveAM).\n" told))
        (should (string-match-p "^The run did not finish:\n  SIMPLE-ERROR: tests failed" told))))))

(agent-q-test-tools-on-each run-tests-sees-tests-whose-framework-comes-with-them ()
  "In an image without FiveAM, the tests that bring it along count, and are told once."
  (agent-q-test-systems-need connection "fiveam")
  (let ((bringing (agent-q-test-systems-system
                   "aq-bringing" '(("code" . "(defvar cl-user::*aq-runs* 0)"))
                   ":in-order-to ((test-op (test-op \"aq-brought\")))"))
        (brought (agent-q-test-systems-system
                  "aq-brought" `(("tests" . ,agent-q-run-tests-test-suite))
                  ":depends-on (\"fiveam\" \"aq-bringing\")"
                  ":perform (test-op (o c) (incf (symbol-value (uiop:find-symbol* :*aq-runs* :cl-user))) (uiop:symbol-call :fiveam :run! (uiop:find-symbol* :numbers :aq-checks)))"))
        (late (agent-q-test-systems-system
               "aq-late" '(("code" . "(defvar cl-user::*aq-late* 0)"))
               ":perform (test-op (o c) (asdf:load-system \"aq-brought\") (uiop:symbol-call :fiveam :run! (uiop:find-symbol* :numbers :aq-checks)))")))
    (dolist (system '("aq-bringing" "aq-late"))
      (let ((fresh (agent-q-test-image-another client)))
        (unwind-protect
            (progn
              (agent-q-chat-set-connection fresh)
              (agent-q-test-image-values fresh "(require :asdf)")
              (dolist (directory (list bringing brought late))
                (agent-q-test-systems-register fresh directory))
              (let ((told (agent-q-test-tools-ask (concat "/run_tests system=" system))))
                ;; Whose tests they are, not whose test operation was asked for.
                (should (string-prefix-p (if (equal system "aq-bringing")
                                             (format "Tests of aq-brought, %saq-brought.asd: " brought)
                                           (format "Tests of aq-late, %saq-late.asd: " late))
                                         told))
                (should (string-match-p "\\`Tests of [^:]+: FAILED: 2 of 4 checks passed, 2 failed, in 3 tests (FiveAM).\n" told))
                (when (equal system "aq-bringing")
                  (should-not (string-match-p "Running test\\|Failure Details" told))
                  (should (equal '("1") (agent-q-test-image-values fresh "*aq-runs*"))))))
          (agent-q-test-image-kill fresh)
          (agent-q-chat-set-connection connection))))))

(agent-q-test-tools-on-each run-tests-by-rt ()
  "RT's tests are run by name and by a system's test operation; expected failures are no failures."
  (agent-q-test-systems-need connection "rt")
  (agent-q-test-image-eval
   connection
   "(defpackage :aq-rt (:use :cl)) (in-package :aq-rt) (rt:rem-all-tests)
(rt:deftest sums (+ 2 2) 5) (rt:deftest breaks (error \"broken ~a\" 1) 1) (rt:deftest fine (+ 2 2) 4)
(rt:deftest known (+ 2 2) 6) (setf rt::*expected-failures* '(known))")
  (should (equal "FAILED: 0 of 1 checks passed, 1 failed, in AQ-RT::SUMS (RT).\nfailed in AQ-RT::SUMS: (+ 2 2)\n  Expected value: 5\n  Actual value: 4."
                 (agent-q-test-tools-ask "/run_tests test=aq-rt::sums")))
  (should (equal "PASSED: 1 of 1 checks passed, 0 failed, in AQ-RT::FINE (RT)."
                 (agent-q-test-tools-ask "/run_tests test=aq-rt::fine")))
  (let ((system (agent-q-test-systems-system
                 "aq-rt-system" '(("code" . "(defvar cl-user::*aq-rt* 1)"))
                 ":perform (test-op (o c) (uiop:symbol-call :rt :do-tests))")))
    (agent-q-test-systems-register connection system)
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-rt-system")))
      (should (string-match-p "\\`Tests of aq-rt-system, [^:]+: FAILED: 1 of 4 checks passed, 2 failed, 1 skipped, in 4 tests (RT)\\.\n" told))
      (should (string-match-p "^failed in AQ-RT::BREAKS: (ERROR \"broken ~a\" 1)$" told))
      ;; Neither RT's list of all tests nor anything of ours is left.
      (should-not (string-match-p "FINE\\|Doing" told))))
  (should (equal '("NIL") (agent-q-test-image-values
                           connection "(sb-int:encapsulated-p 'rt::do-entry 'agent-q-image::agent-q-tests)"))))

(agent-q-test-tools-on-each run-tests-by-fiasco ()
  "Fiasco's tests are run by name and by package."
  (agent-q-test-systems-need connection "fiasco")
  (agent-q-test-image-eval
   connection
   "(fiasco:define-test-package :aq-fiasco (:use :cl)) (in-package :aq-fiasco)
(fiasco:deftest sums () (fiasco:is (= 4 (+ 2 2))) (fiasco:is (= 5 (+ 2 2))))
(fiasco:deftest breaks () (error \"broken ~a\" 1))
(fiasco:deftest fine () (fiasco:is t)) (fiasco:deftest later () (fiasco:skip))")
  (let ((told (agent-q-test-tools-ask "/run_tests suite=aq-fiasco")))
    (should (string-match-p "\\`FAILED: 2 of 5 checks passed, 2 failed, 1 skipped, in 4 tests (Fiasco)\\.\n" told))
    (should (string-match-p "^failed in AQ-FIASCO::SUMS: (IS (= 5 (\\+ 2 2)))\n\\(  .*\n\\)*  y: (\\+ 2 2) => 4$" told))
    (should (string-match-p "^error in AQ-FIASCO::BREAKS\n  broken 1$" told))
    (should (string-match-p "^skipped in AQ-FIASCO::LATER$" told)))
  (should (equal "PASSED: 1 of 1 checks passed, 0 failed, in AQ-FIASCO::FINE (Fiasco)."
                 (agent-q-test-tools-ask "/run_tests test=aq-fiasco::fine"))))

(defconst agent-q-run-tests-test-frameworks
  '(("Prove" "prove" "(prove:deftest sums (prove:is (+ 2 2) 4 \"good\") (prove:is (+ 2 2) 5 \"bad\")) (prove:deftest breaks (error \"broken ~a\" 1)) (prove:deftest fine (prove:ok t))"
     "2 of 4 checks passed, 2 failed" "failed in bad: 4\n  4, not 5")
    ("Lisp-Unit" "lisp-unit" "(lisp-unit:define-test sums (lisp-unit:assert-equal 4 (+ 2 2)) (lisp-unit:assert-equal 5 (+ 2 2))) (lisp-unit:define-test breaks (error \"broken ~a\" 1)) (lisp-unit:define-test fine (lisp-unit:assert-true t))"
     "2 of 4 checks passed, 2 failed" "failed in .*::SUMS: (\\+ 2 2)\n  4, not 5")
    ("Lisp-Unit2" "lisp-unit2" "(lisp-unit2:define-test sums () (lisp-unit2:assert-equal 4 (+ 2 2)) (dolist (it '(#\\a)) (lisp-unit2:assert-equal 5 (+ 2 2) it))) (lisp-unit2:define-test breaks () (error \"broken ~a\" 1)) (lisp-unit2:define-test fine () (lisp-unit2:assert-true t))"
     "2 of 4 checks passed, 2 failed" "failed in .*::SUMS: .*\n  4, not 5\n  [^ ]*IT => #.a")
    ("CLUnit2" "clunit2" "(clunit:defsuite all ()) (clunit:deftest sums (all) (clunit:assert-true (= 4 (+ 2 2))) (clunit:assert-equal 5 (+ 2 2))) (clunit:deftest breaks (all) (error \"broken ~a\" 1)) (clunit:deftest fine (all) (clunit:assert-true t))"
     "2 of 4 checks passed, 2 failed" "failed in .*::SUMS: .*\n  4, not 5")
    ("1AM" "1am" "(1am:test sums (1am:is (= 4 (+ 2 2))) (1am:is (= 5 (+ 2 2)))) (1am:test fine (1am:is t))"
     "1 of 2 checks passed, 1 failed" "failed in .*::SUMS\n  The assertion (= 5 (\\+ 2 2)) failed\\."))
  "Frameworks that few systems have: title, system, tests, and what is said of them.")

(agent-q-test-tools-on-each run-tests-by-others ()
  "Tests of other frameworks are counted and told, too, where these are installed."
  (let ((tried nil))
    (pcase-dolist (`(,title ,system ,tests ,count ,failure) agent-q-run-tests-test-frameworks)
      (when (agent-q-test-systems-load-p connection system)
        (push system tried)
        (let ((package (concat "aq-" system)))
          (agent-q-test-image-eval
           connection (format "(defpackage :%s (:use :cl)) (in-package :%s) %s" package package tests))
          (let ((told (agent-q-test-tools-ask
                       (pcase title
                         ("CLUnit2" "/run_tests suite=aq-clunit2::all")
                         ("1AM" "/run_tests test=aq-1am::sums")
                         (_ (format "/run_tests suite=%s" package))))))
            (should (string-match-p (format "\\`FAILED: %s\\(?:, in .*\\)? (%s)\\.\n" count title) told))
            (should (string-match-p (concat "^" failure "$") told)))
          (should (string-match-p (format "\\`PASSED: 1 of 1 checks passed, 0 failed, in [^ ]*FINE (%s)\\." title)
                                  (agent-q-test-tools-ask
                                   (format "/run_tests test=%s::fine" package)))))))
    (unless tried
      (ert-skip "ASDF finds none of Prove, Lisp-Unit, Lisp-Unit2, CLUnit2 and 1AM"))))

(agent-q-test-tools-on-each run-tests-tells-a-conflict-of-names-once ()
  "With the place and what to do; what a restart has left is no error of the run."
  (let ((directory (agent-q-test-systems-system
                    "aq-conflict" '(("code" . "(defpackage :aq-conflict (:use :cl)) (in-package :aq-conflict)
(defun aq-caller () (list (aq-signals) (1+ aq-unbound) (1+ aq-unbound) (1+ aq-unbound) (1+ aq-unbound)))"))
                    ":perform (test-op (o c) (format t \"~&ran~%\"))")))
    (agent-q-test-systems-register connection directory)
    (agent-q-test-image-values
     connection "(progn (defpackage :aq-framework (:export :aq-signals)) (setf (fdefinition (find-symbol \"AQ-SIGNALS\" :aq-framework)) (function list)))")
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-conflict")))
      (should (string-match-p "undefined function: AQ-CONFLICT::AQ-SIGNALS (there is AQ-FRAMEWORK:AQ-SIGNALS)\n\\(?:.*\n\\)*.*undefined variable" told))
      (should-not (string-search "more use" told)))
    (write-region "(defpackage :aq-conflict (:use :cl) (:import-from :aq-framework :aq-signals))\n"
                  nil (expand-file-name "code.lisp" directory) nil 'silent)
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-conflict")))
      (should (string-match-p "\\`Error NAME-CONFLICT at .*code.lisp:1: .*AQ-FRAMEWORK:AQ-SIGNALS.*\nAQ-CONFLICT::AQ-SIGNALS has no meaning; .* restart shadowing-import-it, or unintern it\\.\nin loading aq-conflict\n\\(?:Before loading: .*\n\\)?Restarts: SHADOWING-IMPORT-IT [^)]*), DONT-IMPORT-IT [^)]*)\\'" told))
      (should-not (string-search "See also" told)))
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-conflict restart=shadowing-import-it")))
      (should (string-match-p "^  NAME-CONFLICT: .* -> SHADOWING-IMPORT-IT$" told))
      (should (= 2 (length (split-string told "causes name-conflicts"))))
      (should (= 2 (length (split-string told "also shadows")))))))

(agent-q-test-tools-on-each run-tests-that-cannot-be-counted ()
  "Results of a framework that is not known are the output's to tell; an error is an error."
  (let ((own (agent-q-test-systems-system
              "aq-own" '(("code" . "(in-package :cl-user)\n(defun aq-own-unused (x) 1)"))
              ":perform (test-op (o c) (dotimes (i 2000) (format t \"; check ~a: ~:[ok~;failed~]~%\" i (= i 50))))"))
        (broken (agent-q-test-systems-system
                 "aq-broken" '(("code" . "(defvar cl-user::*aq-broken* 1)"))
                 ":perform (test-op (o c) (format t \"so far~%\") (error \"no database\"))")))
    (mapc (apply-partially #'agent-q-test-systems-register connection) (list own broken))
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-own")))
      (should (string-match-p "\\`Tests of aq-own, [^:]+: Not counted: the tests returned, .*RT.*\\. Read the output to see whether they passed\\.\nCompiled 1 file: code.lisp\\.\nstyle-warning at .*code.lisp:2: " told))
      (should (string-match-p "^; check 0: ok\n\\(?:.*\n\\)*(.* left out, but for those on failures; read_result .*)\n; check 50: failed\n.*\n; check \\(?:.*\n\\)*; check 1999: ok\\'" told))
      (should-not (string-search "; check 49:" told))
      (should-not (string-match-p "run_tests .*✗" (agent-q-test-log))))
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-broken")))
      (should (string-match-p "\\`Tests of aq-broken, [^:]+: The tests ended with an error before any check\\.\nThe run did not finish:\n  SIMPLE-ERROR: no database\n\\(.*\n\\)*so far$" told))
      (should (string-match-p "run_tests .*✗" (agent-q-test-log))))))

(agent-q-test-tools-on-each run-tests-that-load-systems-while-they-run ()
  "The compiler's lines about those are no output; where one doesn't compile, a restart can be chosen."
  (let ((inner (agent-q-test-systems-system
                "aq-inner" '(("inner" . "(in-package :cl-user)\n(defun aq-inner (x y) (declare (optimize speed)) (+ x y))\n(defun aq-inner-2 (x) 1)\n"))))
        (bad (agent-q-test-systems-system
              "aq-inner-bad" '(("bad" . "(in-package :cl-user)\n(defun aq-inner-bad () (car 1))\n"))))
        (outer (agent-q-test-systems-system
                "aq-outer" '(("outer" . "(in-package :cl-user)\n"))
                ":perform (test-op (o c) (asdf:load-system \"aq-inner\") (format t \"; own line~%\") (asdf:load-system \"aq-inner-bad\"))")))
    (mapc (apply-partially #'agent-q-test-systems-register connection) (list inner bad outer))
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-outer")))
      (should (string-match-p "^The run did not finish:\n  [^ ]*COMPILE-FILE-ERROR: .*\nRestarts: ACCEPT (.*\"aq-inner-bad\" \"bad\".*)$" told))
      (should (string-match-p "^; own line$" told))
      (should-not (string-match-p "^; \\(?:caught\\|in:\\|note\\|compil\\|wrote\\)" told)))
    (should (string-match-p "^  [^ ]*COMPILE-FILE-ERROR: .* -> ACCEPT$"
                            (agent-q-test-tools-ask "/run_tests system=aq-outer restart=accept")))))

(agent-q-test-tools-on-each run-tests-output-can-be-read-afterwards ()
  "Output of tests that passed is left out, and read_result shows it."
  (agent-q-test-systems-need connection "fiveam")
  (agent-q-test-systems-register
   connection
   (agent-q-test-systems-system
    "aq-loud" '(("loud" . "(fiveam:test cl-user::aq-loud (dotimes (i 40) (format t \"line ~d~%\" i)) (fiveam:is (= 1 1)))\n"))
    ":depends-on (\"fiveam\") :perform (test-op (o c) (fiveam:run! 'cl-user::aq-loud))"))
  (let ((told (agent-q-test-tools-ask "/run_tests system=aq-loud")))
    (should (string-match "not shown as all tests passed; read_result with number \\([0-9]+\\) shows it\\.)" told))
    (should (string-match-p "^line 39$"
                            (agent-q-test-tools-ask
                             (format "/read_result number=%s" (match-string 1 told)))))))

(provide 'agent-q-run-tests-test)
;;; agent-q-run-tests-test.el ends here
