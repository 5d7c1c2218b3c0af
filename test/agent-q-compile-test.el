;;; agent-q-compile-test.el --- Compiling and tracing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The tools that compile forms and trace functions, through core and chat on
;; real SLIME and SLY.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)

;;;; Compiling

(agent-q-test-tools-on-each compile-is-quiet-about-good-code ()
  "Good code is compiled, loaded and callable; what loading prints is told."
  (should (equal "Compiled and loaded; no warnings."
                 (agent-q-test-tools-ask "/compile_form (defun aq-compiled (x) (* 2 x))")))
  (should (equal '("(42 T)")
                 (agent-q-test-image-values
                  connection "(list (aq-compiled 21) (compiled-function-p #'aq-compiled))")))
  (should (equal "Compiled and loaded 2 forms; no warnings.\nOutput:\nloaded"
                 (agent-q-test-tools-ask
                  "/compile_form (defun aq-one () 1) (format t \"loaded~%\")"))))

(agent-q-test-tools-on-each compile-notes-have-places ()
  "Warnings come with the line and column in the text that was given."
  (let ((told (agent-q-test-tools-ask
               "/compile_form (defun aq-good () 1)\n\n(defun aq-warned (x)\n  (list aq-unknown-variable))")))
    (should (string-match-p "\\`Compiled and loaded 2 forms, with 1 warning and 1 style-warning\\.$" told))
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
    (should (equal "Compiled and loaded 6 forms; no warnings." told)))
  (should (equal '("(7 :LATER)") (agent-q-test-image-values connection "(aq-fresh::f)")))
  (should (equal "Compiled and loaded; no warnings."
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
    (should (string-match-p
             "AQ-RATE has no global value and is not among this frame's variables: Z\\."
             (agent-q-test-tools-ask
              (format "/eval_in_frame debugger=%s frame=0 form=\"(list z aq-rate)\"" name))))
    (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" name))))

;;;; Tracing

(agent-q-test-tools-on-each compile-traces-calls ()
  "Calls of traced functions are written down wherever they happen, in bounds."
  (agent-q-test-tools-ask "/compile_form (defun aq-fact (n) (if (< n 2) 1 (* n (aq-fact (1- n))))) (defun aq-throws () (throw 'aq-out 1))")
  (should (equal "Traced: AQ-FACT" (agent-q-test-tools-ask "/trace_function aq-fact")))
  (should (equal "Traced: AQ-FACT, AQ-THROWS" (agent-q-test-tools-ask "/trace_function aq-throws")))
  (should (string-match-p "No calls recorded" (agent-q-test-tools-ask "/get_trace")))
  ;; The user calls it.
  (agent-q-test-tools-client-call client "eval" '(cl:funcall (cl:find-symbol "AQ-FACT" "CL-USER") 3))
  (agent-q-test-tools-ask "/eval_form (catch 'aq-out (aq-throws))")
  (let ((told (agent-q-test-tools-ask "/get_trace clear=true")))
    (should (string-match-p (concat "  (AQ-FACT 3)\n    (AQ-FACT 2)\n      (AQ-FACT 1)\n"
                                    "      AQ-FACT => 1\n    AQ-FACT => 2\n  AQ-FACT => 6\n")
                            told))
    (should (string-match-p "  (AQ-THROWS)\n  AQ-THROWS exited non-locally" told)))
  (should (string-match-p "No calls recorded" (agent-q-test-tools-ask "/get_trace")))
  (agent-q-test-tools-ask "/eval_form (dotimes (i 3000) (aq-fact 1))")
  (should (string-match-p "\n(5998 earlier entries; a larger limit shows more of them.)\n.*\n  (AQ-FACT 1)\n  AQ-FACT => 1\\'"
                          (agent-q-test-tools-ask "/get_trace 2")))
  (should (string-match-p "is a function of the implementation"
                          (agent-q-test-tools-ask "/trace_function car")))
  (should (string-match-p "is a macro" (agent-q-test-tools-ask "/trace_function when")))
  (should (equal "Traced: AQ-THROWS" (agent-q-test-tools-ask "/untrace_function aq-fact")))
  (should (equal "Nothing is traced." (agent-q-test-tools-ask "/untrace_function")))
  (agent-q-test-tools-ask "/get_trace clear=true")
  ;; One that is gone is not traced.
  (agent-q-test-tools-ask "/trace_function aq-throws")
  (agent-q-test-tools-ask "/eval_form (fmakunbound 'aq-throws)")
  (should-not (string-search "AQ-THROWS" (agent-q-test-tools-ask "/get_trace")))
  (should (equal "Nothing is traced." (agent-q-test-tools-ask "/untrace_function aq-throws")))
  (should (equal '("24") (agent-q-test-image-values connection "(aq-fact 4)")))
  (should (string-match-p "No calls recorded" (agent-q-test-tools-ask "/get_trace"))))

(agent-q-test-tools-on-each compile-traces-only-from-now-on ()
  "An earlier trace is cleared with a word, and calls that can't show are told."
  (agent-q-test-tools-ask "/compile_form (declaim (inline aq-small)) (defun aq-small (x) x) (defun aq-early () 1) (define-compiler-macro aq-early () 1)")
  (should (equal (concat "Traced: AQ-EARLY\n"
                         "AQ-EARLY has a compiler macro: calls that it replaced are not recorded.")
                 (agent-q-test-tools-ask "/trace_function aq-early")))
  (agent-q-test-tools-ask "/eval_form (funcall 'aq-early)")
  (agent-q-test-tools-ask "/untrace_function")
  ;; Until another trace begins they can be read.
  (should (string-match-p "AQ-EARLY => 1" (agent-q-test-tools-ask "/get_trace")))
  (should (equal (concat "Traced: AQ-SMALL\n(Cleared 2 records of an earlier trace.)\n"
                         "AQ-SMALL is declared inline: calls that were compiled inline"
                         " are not recorded.")
                 (agent-q-test-tools-ask "/trace_function aq-small")))
  (agent-q-test-tools-ask "/eval_form (funcall 'aq-small 3)")
  (let ((told (agent-q-test-tools-ask "/get_trace clear=true")))
    (should (string-match-p "(AQ-SMALL 3)" told))
    (should-not (string-match-p "AQ-EARLY\\|earlier entries" told)))
  (agent-q-test-tools-ask "/untrace_function"))

(agent-q-test-tools-on-each eval-shows-what-each-form-printed ()
  "Output stands with the form that made it, without the compiler's notes."
  (should (equal "(princ 1)\n=> 1\nOutput:\n1\n(list 2)\n=> (2)"
                 (agent-q-test-tools-ask "/eval_form (princ 1) (list 2)")))
  (should (equal "(list 1)\n=> (1)\n(princ 2)\n=> 2\nOutput:\n2"
                 (agent-q-test-tools-ask "/eval_form (list 1) (princ 2)")))
  (should (string-match-p "^=> 5\nOutput:\n7$"
                          (agent-q-test-tools-ask "/eval_form (progn (princ 7) 5) (car 5)")))
  (should (string-match-p
           "\\`=> 1\n([0-9]+ optimization notes? not shown\\.)\\'"
           (agent-q-test-tools-ask
            "/eval_form (progn (compile nil '(lambda (x y) (declare (optimize speed)) (+ x y))) 1)")))
  ;; Much output of one form leaves room for that of others.
  (should (string-match-p "characters of output omitted\\(?:.*\n\\)*(princ :second)\n=> :SECOND\nOutput:\nSECOND\n3\n=> 3\\'"
                          (agent-q-test-tools-ask
                           "/eval_form (dotimes (i 5000) (princ i)) (princ :second) 3"))))

(provide 'agent-q-compile-test)
;;; agent-q-compile-test.el ends here
