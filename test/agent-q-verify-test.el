;;; agent-q-verify-test.el --- Systems verified from scratch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What verify_system says of systems that work only in the user's image, or not at all, through each client.

;;; Code:

(require 'agent-q-scratch)
(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-systems)
(require 'agent-q-test-tools)

(setq agent-q-scratch-cache (expand-file-name "fasl/" agent-q-test-directory))

(defun agent-q-verify-test-system (definition test)
  "Make a system aq-verified with DEFINITION and a test of FiveAM with TEST.
Return its directory."
  (agent-q-test-systems-system
   "aq-verified"
   `(("main" . ,(concat "(defpackage :aq-verified (:use :cl)) (in-package :aq-verified)\n" definition))
     ("tests" . ,(format "(defpackage :aq-verified/tests (:use :cl :aq-verified)) (in-package :aq-verified/tests)
(5am:def-suite all) (5am:in-suite all) (5am:test sum %s)" test)))
   ":depends-on (\"fiveam\")"
   ":perform (test-op (op system) (uiop:symbol-call :5am :run! (find-symbol \"ALL\" :aq-verified/tests)))"))

(agent-q-test-image-on-each verify-reads-what-the-frameworks-say ()
  "A system that loads and whose tests pass is verified; one that fails is not."
  (agent-q-test-systems-need connection "fiveam")
  (let ((directory (agent-q-verify-test-system "(defun sum (a b) (+ a b))"
                                               "(5am:is (= 5 (aq-verified::sum 2 3)))")))
    (agent-q-test-systems-in-project directory connection
      (let ((inhibit-message nil)) (message "SEEN %s" (agent-q-test-tools-ask "/verify_system"))))
    (with-temp-file (expand-file-name "main.lisp" directory)
      (insert "(defpackage :aq-verified (:use :cl)) (in-package :aq-verified)\n(defun sum (a b) (- a b))"))
    (agent-q-test-systems-in-project directory connection
      (let ((inhibit-message nil)) (message "SEEN %s" (agent-q-test-tools-ask "/verify_system"))))
    (with-temp-file (expand-file-name "main.lisp" directory)
      (insert "(defpackage :aq-verified (:use :cl)) (in-package :aq-verified)\n(defun sum (a b) (- a c))\n(error \"no\")"))
    (agent-q-test-systems-in-project directory connection
      (let ((inhibit-message nil)) (message "SEEN %s" (agent-q-test-tools-ask "/verify_system against=HEAD"))))))

(provide 'agent-q-verify-test)
;;; agent-q-verify-test.el ends here
