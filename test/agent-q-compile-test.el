;;; agent-q-compile-test.el --- Compiling, loading, testing, tracing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The tools that build what is in the image, through core and chat on real
;; SLIME and SLY.  FiveAM is used where ASDF finds it.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)

;;;; Compiling

(agent-q-test-tools-on-each compile-is-quiet-about-good-code ()
  "Good code is compiled, loaded and callable; what loading prints is told."
  (should (equal "Compiled and loaded.\nThe compiler had nothing to say."
                 (agent-q-test-tools-ask "/compile_form (defun aq-compiled (x) (* 2 x))")))
  (should (equal '("(42 T)")
                 (agent-q-test-image-values
                  connection "(list (aq-compiled 21) (compiled-function-p #'aq-compiled))")))
  (should (equal "Compiled and loaded 2 forms.\nThe compiler had nothing to say.\nOutput:\nloaded"
                 (agent-q-test-tools-ask
                  "/compile_form (defun aq-one () 1) (format t \"loaded~%\")"))))

(agent-q-test-tools-on-each compile-notes-have-places ()
  "Warnings come with the line and column in the text that was given."
  (let ((told (agent-q-test-tools-ask
               "/compile_form (defun aq-good () 1)\n\n(defun aq-warned (x)\n  (list aq-unknown-variable))")))
    (should (string-match-p "\\`Compiled and loaded 2 forms.$" told))
    (should (string-match-p "^warning at 4:3: undefined variable: .*AQ-UNKNOWN-VARIABLE" told))
    (should (string-match-p "^style-warning at 3:1: .*X is defined but never used" told)))
  ;; What the model compiled is what the compiler said last.
  (should (string-match-p "\\`Compiled by you, .*\n\\(.*\n\\)*warning at line 4, column 3 of the form: undefined variable"
                          (agent-q-test-tools-ask "/get_compilation_notes")))
  (should (string-match-p "^read-error at 1:[0-9]+: package no-such-package does not exist\\.\\'"
                          (downcase (agent-q-test-tools-ask
                                     "/compile_form (defun aq-r () (no-such-package:f))"))))
  (should (string-match-p "\\`Error END-OF-FILE: Form 2, which starts at line 2"
                          (agent-q-test-tools-ask "/compile_form (defun aq-a () 1)\n(defun aq-b ()"))))

(agent-q-test-tools-on-each compile-forms-see-each-other ()
  "Forms may use what earlier ones made, packages included; later functions count."
  (let ((told (agent-q-test-tools-ask
               "/compile_form (defpackage :aq-fresh (:use :cl)) (in-package :aq-fresh) (defun helper () 7) (defmacro seven () (helper)) (defun f () (list (seven) (g))) (defun g () :later)")))
    (should (equal "Compiled and loaded 6 forms.\nThe compiler had nothing to say." told)))
  (should (equal '("(7 :LATER)") (agent-q-test-image-values connection "(aq-fresh::f)")))
  (should (equal "Compiled and loaded.\nThe compiler had nothing to say."
                 (agent-q-test-tools-ask
                  "/compile_form package=aq-fresh (defun h () (f))")))
  (should (equal '("(7 :LATER)") (agent-q-test-image-values connection "(aq-fresh::h)")))
  (agent-q-test-image-eval connection "(delete-package :aq-fresh)"))

(agent-q-test-tools-on-each compile-errors-while-loading ()
  "An error while loading is told with what was compiled before."
  (let ((told (agent-q-test-tools-ask
               "/compile_form (defun aq-l (x) 1)\n(error \"at load: ~a\" 5)")))
    (should (string-match-p "\\`Error SIMPLE-ERROR: at load: 5\nin (error \"at load" told))
    (should (string-match-p "^style-warning at 1:1: .*X is defined but never used" told)))
  (should (equal '("1") (agent-q-test-image-values connection "(aq-l 0)"))))

(agent-q-test-tools-on-each compile-keeps-debug-information ()
  "A compiled function's frames and variables can be seen in the debugger."
  (agent-q-test-tools-ask
   "/compile_form (defun aq-deep (x) (let ((y (* 2 x))) (list (aq-deeper y))))\n(defun aq-deeper (z) (error \"deep ~a\" z))")
  (should (string-match "parked as debugger \\(d[0-9]+\\)"
                        (agent-q-test-tools-ask "/eval_form on_error=park (aq-deep 4)")))
  (let* ((name (match-string 1 (agent-q-test-tools-answer)))
         (told (agent-q-test-tools-ask (format "/debugger_frames locals=true %s" name))))
    (should (string-match-p "^  [0-9]+: (AQ-DEEPER 8).*\n       Z = 8$" told))
    (should (string-match-p "^  [0-9]+: (AQ-DEEP 4).*\n       X = 4$" told))
    (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" name))))

;;;; Systems

(defun agent-q-compile-test--system (name files &rest options)
  "Make a system NAME of FILES, an alist of names and texts; return its directory.
OPTIONS are options of the definition."
  (let ((directory (make-temp-file (expand-file-name name agent-q-test-directory) t)))
    (with-temp-file (expand-file-name (concat name ".asd") directory)
      (insert (format "(defsystem %S :version \"1.2\" :serial t :components (%s) %s)"
                      name
                      (mapconcat (lambda (file) (format "(:file %S)" (car file))) files " ")
                      (string-join options " "))))
    (dolist (file files)
      (with-temp-file (expand-file-name (concat (car file) ".lisp") directory)
        (insert (cdr file))))
    (file-name-as-directory directory)))

(defun agent-q-compile-test--register (connection directory)
  "Have ASDF behind CONNECTION find the systems in DIRECTORY."
  (should (eq :returned
              (plist-get (agent-q-test-image-eval
                          connection
                          (format "(require :asdf) (pushnew #p%S (symbol-value (find-symbol \"*CENTRAL-REGISTRY*\" :asdf)) :test 'equal) (setf (uiop:getenv \"XDG_CACHE_HOME\") %S) (funcall (find-symbol \"INITIALIZE-OUTPUT-TRANSLATIONS\" :asdf))"
                                  directory (concat directory "cache/")))
                         :outcome))))

(agent-q-test-tools-on-each compile-loads-a-system ()
  "A system is loaded with its compiler's notes by file and line; a wrong name is helped."
  (let ((directory (agent-q-compile-test--system
                    "aq-sys" '(("code" . "(defpackage :aq-sys (:use :cl))\n(in-package :aq-sys)\n\n(defun warned (x)\n  7)\n")))))
    (agent-q-compile-test--register connection directory)
    (let ((told (agent-q-test-tools-ask "/load_system aq-sys")))
      (should (string-match-p (format "\\`Loaded aq-sys 1.2 from %saq-sys.asd$" (regexp-quote directory)) told))
      (should (string-match-p "^style-warning at .*code.lisp:4: .*X is defined but never used" told)))
    (should (equal '("7") (agent-q-test-image-values connection "(aq-sys::warned 1)")))
    (should-not (string-match-p "warning" (agent-q-test-tools-ask "/load_system aq-sys")))
    (should (string-match-p "warning at" (agent-q-test-tools-ask "/load_system force=true aq-sys")))
    (should (string-match-p "ASDF finds no system aq-syz. Near names: aq-sys"
                            (agent-q-test-tools-ask "/load_system aq-syz")))))

(defconst agent-q-compile-test-tests
  "(defpackage :aq-checks (:use :cl)) (in-package :aq-checks)
(fiveam:def-suite numbers) (fiveam:in-suite numbers)
(fiveam:test sums (fiveam:is (= 4 (+ 2 2))) (fiveam:is (= 5 (+ 2 2)) \"two and two\"))
(fiveam:test breaks (error \"broken ~a\" 1))
(fiveam:test fine (fiveam:is (eq t t)))"
  "A suite of FiveAM with checks that pass, fail and break.")

(defun agent-q-compile-test--load-p (connection framework)
  "Load FRAMEWORK, a system, over CONNECTION; nil when ASDF can't find it."
  (equal '("T") (agent-q-test-image-values
                 connection
                 (format "(progn (require :asdf) (and (asdf:find-system %S nil) (asdf:load-system %S) t))"
                         framework framework))))

(defun agent-q-compile-test--need (connection framework)
  "Skip the test unless FRAMEWORK can be loaded over CONNECTION."
  (unless (agent-q-compile-test--load-p connection framework)
    (ert-skip (format "ASDF finds no %s" framework))))

(agent-q-test-tools-on-each compile-runs-fiveam ()
  "FiveAM's suites and tests are run and told by what failed."
  (agent-q-compile-test--need connection "fiveam")
  (should (eq :returned (plist-get (agent-q-test-image-eval connection agent-q-compile-test-tests)
                                   :outcome)))
  (let ((told (agent-q-test-tools-ask "/run_tests suite=numbers")))
    (should (string-match-p "\\`FAILED: 2 of 4 checks passed, 2 failed (FiveAM).\n" told))
    (should (string-match-p "^failed in AQ-CHECKS::SUMS: (= 5 (\\+ 2 2))\n  two and two" told))
    (should (string-match-p "^error in AQ-CHECKS::BREAKS\n  Unexpected Error.*\n  broken 1" told)))
  (should (equal "PASSED: 1 of 1 checks passed, 0 failed (FiveAM)."
                 (agent-q-test-tools-ask "/run_tests test=aq-checks::fine")))
  (should (string-match-p "zzz is no test or suite of FiveAM\\. There are .*AQ-CHECKS::FINE.*AQ-CHECKS::NUMBERS"
                          (agent-q-test-tools-ask "/run_tests test=zzz")))
  (should (string-match-p "nmbers is .*FiveAM\\. Near names: AQ-CHECKS::NUMBERS\\. If"
                          (agent-q-test-tools-ask "/run_tests suite=nmbers"))))

(agent-q-test-tools-on-each compile-runs-parachute ()
  "Parachute's tests are run by name and by package."
  (agent-q-compile-test--need connection "parachute")
  (agent-q-test-image-eval
   connection
   "(defpackage :aq-para (:use :cl)) (in-package :aq-para)
(parachute:define-test sums (parachute:is = 4 (+ 2 2)) (parachute:is = 5 (+ 2 2) \"two and two\"))
(parachute:define-test breaks (error \"broken ~a\" 1))
(parachute:define-test fine (parachute:true t))")
  (let ((told (agent-q-test-tools-ask "/run_tests suite=aq-para")))
    (should (string-match-p "\\`FAILED: 2 of 4 checks passed, 2 failed (Parachute).\n" told))
    (should (string-match-p "^failed in AQ-PARA::SUMS: .*\n\\(  .*\n\\)*  two and two" told))
    (should (string-match-p "^error in AQ-PARA::BREAKS" told)))
  (should (equal "PASSED: 1 of 1 checks passed, 0 failed (Parachute)."
                 (agent-q-test-tools-ask "/run_tests test=aq-para::fine"))))

(agent-q-test-tools-on-each compile-runs-rove ()
  "Rove's tests are run by name and by package."
  (agent-q-compile-test--need connection "rove")
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
  (should (string-match-p "\\`PASSED: 1 of 1 checks passed, 0 failed (Rove)\\."
                          (agent-q-test-tools-ask "/run_tests test=aq-rove::fine"))))

(agent-q-test-tools-on-each compile-runs-the-tests-of-a-system ()
  "What a system's test operation does is seen; nothing run is a failure."
  (let ((empty (agent-q-compile-test--system "aq-empty" '(("code" . "(defvar cl-user::*aq-empty* 1)")))))
    (agent-q-compile-test--register connection empty)
    (let ((told (agent-q-test-tools-ask "/run_tests system=aq-empty")))
      (should (string-match-p "\\`No test ran" told))
      (should (string-match-p "run_tests .*failed" (agent-q-test-log)))))
  (when (agent-q-compile-test--load-p connection "fiveam")
    (let ((tested (agent-q-compile-test--system
                   "aq-tested" `(("tests" . ,agent-q-compile-test-tests))
                   ":depends-on (\"fiveam\")"
                   ":perform (test-op (o c) (unless (uiop:symbol-call :fiveam :run! (uiop:find-symbol* :numbers :aq-checks)) (error \"tests failed\")))")))
      (agent-q-compile-test--register connection tested)
      (let ((told (agent-q-test-tools-ask "/run_tests system=aq-tested")))
        (should (string-match-p "\\`FAILED: 2 of 4 checks passed, 2 failed (FiveAM).\n" told))
        (should (string-match-p "^It did not come to its end:\n  SIMPLE-ERROR: tests failed" told))))))

(agent-q-test-tools-on-each compile-sees-tests-whose-framework-comes-with-them ()
  "In an image without FiveAM, the tests that bring it along count, and are told once."
  (agent-q-compile-test--need connection "fiveam")
  (let ((bringing (agent-q-compile-test--system
                   "aq-bringing" '(("code" . "(defvar cl-user::*aq-runs* 0)"))
                   ":in-order-to ((test-op (test-op \"aq-brought\")))"))
        (brought (agent-q-compile-test--system
                  "aq-brought" `(("tests" . ,agent-q-compile-test-tests))
                  ":depends-on (\"fiveam\" \"aq-bringing\")"
                  ":perform (test-op (o c) (incf (symbol-value (uiop:find-symbol* :*aq-runs* :cl-user))) (uiop:symbol-call :fiveam :run! (uiop:find-symbol* :numbers :aq-checks)))"))
        (late (agent-q-compile-test--system
               "aq-late" '(("code" . "(defvar cl-user::*aq-late* 0)"))
               ":perform (test-op (o c) (asdf:load-system \"aq-brought\") (uiop:symbol-call :fiveam :run! (uiop:find-symbol* :numbers :aq-checks)))")))
    (dolist (system '("aq-bringing" "aq-late"))
      (let ((fresh (agent-q-test-image-another client)))
        (unwind-protect
            (progn
              (agent-q-chat-set-connection fresh)
              (agent-q-test-image-values fresh "(require :asdf)")
              (dolist (directory (list bringing brought late))
                (agent-q-compile-test--register fresh directory))
              (let ((told (agent-q-test-tools-ask (concat "/run_tests system=" system))))
                (should (string-match-p "\\`FAILED: 2 of 4 checks passed, 2 failed (FiveAM).\n" told))
                (when (equal system "aq-bringing")
                  (should-not (string-match-p "Running test\\|Failure Details" told))
                  (should (equal '("1") (agent-q-test-image-values fresh "*aq-runs*"))))))
          (agent-q-test-image-kill fresh)
          (agent-q-chat-set-connection connection))))))

(agent-q-test-tools-on-each compile-tells-why-a-system-does-not-load ()
  "A system that fails to compile is told by its notes with places, not by ASDF's frames."
  (let ((directory (agent-q-compile-test--system
                    "aq-bad" '(("code" . "(in-package :cl-user)\n(defun aq-bad (x)\n  (car 1))\n(defun aq-unread (x\n")))))
    (agent-q-compile-test--register connection directory)
    (let ((told (agent-q-test-tools-ask "/load_system aq-bad")))
      (should (string-match-p "^warning at .*code.lisp:3: Constant 1 conflicts" told))
      (should (string-match-p "^read-error at .*code.lisp:" told))
      (should-not (string-match-p "ASDF/OPERATE\\|^; \\|caught WARNING" told))
      (should (= 2 (length (split-string told "\\(?:Restarts: \\|, \\)RETRY (")))))))

;;;; Tracing

(agent-q-test-tools-on-each compile-traces-calls ()
  "Calls of traced functions are written down wherever they happen, in bounds."
  (agent-q-test-tools-ask "/compile_form (defun aq-fact (n) (if (< n 2) 1 (* n (aq-fact (1- n))))) (defun aq-throws () (throw 'aq-out 1))")
  (should (equal "Traced: AQ-FACT" (agent-q-test-tools-ask "/trace_function aq-fact")))
  (should (equal "Traced: AQ-FACT, AQ-THROWS" (agent-q-test-tools-ask "/trace_function aq-throws")))
  (should (string-match-p "No call was written down" (agent-q-test-tools-ask "/get_trace")))
  ;; The user calls it.
  (agent-q-test-tools-client-call client "eval" '(cl:funcall (cl:find-symbol "AQ-FACT" "CL-USER") 3))
  (agent-q-test-tools-ask "/eval_form (catch 'aq-out (aq-throws))")
  (let ((told (agent-q-test-tools-ask "/get_trace clear=true")))
    (should (string-match-p (concat "  (AQ-FACT 3)\n    (AQ-FACT 2)\n      (AQ-FACT 1)\n"
                                    "      AQ-FACT => 1\n    AQ-FACT => 2\n  AQ-FACT => 6\n")
                            told))
    (should (string-match-p "  (AQ-THROWS)\n  AQ-THROWS was left without a value" told)))
  (should (string-match-p "No call was written down" (agent-q-test-tools-ask "/get_trace")))
  (agent-q-test-tools-ask "/eval_form (dotimes (i 3000) (aq-fact 1))")
  (should (string-match-p "\n(5998 earlier entries; a larger limit tells some of them.)\n.*\n  (AQ-FACT 1)\n  AQ-FACT => 1\\'"
                          (agent-q-test-tools-ask "/get_trace 2")))
  (should (string-match-p "is a function of the implementation"
                          (agent-q-test-tools-ask "/trace_function car")))
  (should (string-match-p "is a macro" (agent-q-test-tools-ask "/trace_function when")))
  (should (equal "Traced: AQ-THROWS" (agent-q-test-tools-ask "/untrace_function aq-fact")))
  (should (equal "Nothing is traced." (agent-q-test-tools-ask "/untrace_function")))
  (agent-q-test-tools-ask "/get_trace clear=true")
  (should (equal '("24") (agent-q-test-image-values connection "(aq-fact 4)")))
  (should (string-match-p "No call was written down" (agent-q-test-tools-ask "/get_trace"))))

(provide 'agent-q-compile-test)
;;; agent-q-compile-test.el ends here
