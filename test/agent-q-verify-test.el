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

(defun agent-q-verify-test-git (directory)
  "Commit all that is in DIRECTORY."
  (let ((default-directory directory))
    (dolist (arguments '(("init" "-q") ("add" "-A")
                         ("-c" "user.email=aq" "-c" "user.name=aq" "commit" "-qm" "All")))
      (should (equal 0 (apply #'call-process "git" nil nil nil arguments))))))

(defun agent-q-verify-test-write (directory definition)
  "Write DEFINITION as the main file of the system in DIRECTORY."
  (with-temp-file (expand-file-name "main.lisp" directory)
    (insert "(defpackage :aq-verified (:use :cl)) (in-package :aq-verified)\n" definition)))

(defun agent-q-verify-test-lisps ()
  "Return how many second Lisps of this Emacs run."
  (length (seq-filter (lambda (process) (string-prefix-p "agent-q-second-lisp" (process-name process)))
                      (process-list))))

(agent-q-test-image-on-each verify-reads-what-the-frameworks-say ()
  "A system is verified if it loads from its files and its tests pass, whatever the image has.
What was red before is said of an earlier commit."
  (agent-q-test-systems-need connection "fiveam")
  (let* ((directory (agent-q-verify-test-system "(defun sum (a b) (- a b))"
                                                "(5am:is (= 5 (aq-verified::sum 2 3)))"))
         (ask (lambda (line)
                (agent-q-test-systems-in-project directory connection
                  (agent-q-test-tools-ask line)))))
    ;; The image alone knows what the tests need.
    (agent-q-test-image-eval connection "(progn (defpackage :aq-verified (:use :cl)) (intern \"SUM\" :aq-verified) t)")
    (agent-q-test-image-eval connection "(defun aq-verified::sum (a b) (+ a b))")
    (let ((red (funcall ask "/verify_system against=HEAD")))
      (should (string-match-p "\\`NOT VERIFIED: aq-verified in a fresh Lisp, [0-9.]+ s\\.\nIt loads: 2 files of the project compiled\\.\n" red))
      (should (string-match-p "FAILED: 0 of 1 checks passed" red))
      (should (string-match-p "failed in AQ-VERIFIED/TESTS::SUM" red))
      (should (string-suffix-p "\nThe project is not in a git repository, so there is nothing to compare with." red)))
    (agent-q-verify-test-git directory)
    (agent-q-verify-test-write directory "(defun sum (a b) (+ a b))")
    (let ((green (funcall ask "/verify_system against=HEAD")))
      (should (string-match-p "\\`VERIFIED: aq-verified in a fresh Lisp" green))
      (should (string-match-p "PASSED: 1 of 1 checks passed" green))
      (should (string-match-p "^Commit [0-9a-f]+: .*FAILED: 0 of 1 checks passed.*red there, green now: AQ-VERIFIED/TESTS::SUM\\.$" green))
      (should (<= (length (split-string green "\n")) 10)))
    (agent-q-verify-test-write directory "(defun sum (a b) (+ a b))\n(no-such-package:thing)\n'aq-verified/tests::late")
    (let ((broken (funcall ask "/verify_system against=no-such-commit")))
      (should (string-match-p "\\`NOT VERIFIED.*\nIt does not load from its files:\n\\(?:.*\n\\)*.*main.lisp:3: Package NO-SUCH-PACKAGE does not exist" broken))
      (should (string-match-p "^Before loading: main.lisp:4 names the package AQ-VERIFIED/TESTS, which tests.lisp:1 defines later\\. Load tests.lisp before main.lisp\\.$"
                              broken))
      (should (string-match-p "^git knows no commit no-such-commit\\.$" broken)))
    (agent-q-test-until (zerop (agent-q-verify-test-lisps)))
    ;; The user's image has nothing of it.
    (should-not (equal '("T") (agent-q-test-image-values
                               connection "(and (asdf:component-loaded-p \"aq-verified\") t)")))))

(agent-q-test-image-on-each verify-says-why-it-counts-otherwise ()
  "Tests that only the user's image has, which run_tests runs, too, are named."
  (agent-q-test-systems-need connection "fiveam")
  (let ((directory (agent-q-verify-test-system "(defun sum (a b) (+ a b))"
                                               "(5am:is (= 5 (aq-verified::sum 2 3)))")))
    (agent-q-test-systems-in-project directory connection
      (should (string-match-p "PASSED: 1 of 1 checks" (agent-q-test-tools-ask "/run_tests aq-verified")))
      (should-not (string-match-p "last counted" (agent-q-test-tools-ask "/verify_system")))
      (agent-q-test-image-eval
       connection "(let ((*package* (find-package :aq-verified/tests)))
                     (eval (read-from-string \"(5am:test (gone :suite all) (5am:is (= 1 1)) (5am:is (= 2 2)))\")))")
      (should (string-match-p "PASSED: 3 of 3 checks" (agent-q-test-tools-ask "/run_tests aq-verified")))
      (should (string-match-p "PASSED: 1 of 1 checks .*\nrun_tests last counted 3 checks in the user's image: only there ran .*GONE\\.$"
                              (agent-q-test-tools-ask "/verify_system"))))))

;; What a fresh Lisp has not is told: files of no system, and systems that only the user's image was told of.
(agent-q-test-image-on-each verify-tells-what-it-could-not-see ()
  "Changed files of no system aren't verified, and a system known by hand isn't found; both are said."
  (let ((directory (agent-q-test-systems-system
                    "aq-seen" '(("main" . "(defpackage :aq-seen (:use :cl))"))))
        (by-hand (agent-q-test-systems-system
                  "aq-by-hand" '(("main" . "(defpackage :aq-by-hand (:use :cl))")))))
    (agent-q-test-systems-in-project directory connection
      (agent-q-test-tools-ask "/write_file path=stray.lisp content=(list)")
      (let ((told (agent-q-test-tools-ask "/verify_system")))
        (should (string-match-p "\\`LOADED, NOT TESTED" told))
        (should (string-search
                 "\nChanged in this chat and in no system that was loaded, so not verified: stray.lisp." told)))
      (with-temp-file (expand-file-name "aq-seen.asd" directory)
        (insert "(asdf:defsystem \"aq-seen\" :depends-on (\"aq-by-hand\") :components ((:file \"main\")))"))
      (agent-q-test-image-eval connection
                               (format "(asdf:load-asd %S)" (expand-file-name "aq-by-hand.asd" by-hand)))
      (let ((told (agent-q-test-tools-ask "/verify_system")))
        (should (string-match-p "\\`NOT VERIFIED" told))
        (should (string-match-p "^The user's image knows [^ ]*/aq-by-hand\\.asd, but only because it was told by hand"
                                told))))))

(agent-q-test-image-on-each verify-stops-what-does-not-end ()
  "Tests that never end are stopped, and so is a verification that the user cancels."
  (agent-q-test-systems-need connection "fiveam")
  (let ((directory (agent-q-verify-test-system "(defun sum (a b) (+ a b))" "(loop)")))
    (agent-q-test-systems-in-project directory connection
      (let ((stopped (agent-q-test-tools-ask "/verify_system timeout=8")))
        (should (string-match-p "\\`NOT VERIFIED" stopped))
        (should (string-match-p "Stopped before finishing: timed out after 8 s" stopped))
        (should-not (string-match-p "git" stopped)))
      (agent-q-test-send "/verify_system")
      (agent-q-test-until (agent-q-call-waiting))
      (agent-q-test-answer "y")
      (agent-q-test-until (< 0 (agent-q-verify-test-lisps)))
      (agent-q-chat-send-cancel)
      (agent-q-test-until (and (agent-q-test-idle-p) (zerop (agent-q-verify-test-lisps)))))))

(agent-q-test-image-on-each verify-does-not-count-what-the-user-thinks ()
  "The time in its result is that of the fresh Lisp, without the request in between."
  (let ((directory (agent-q-test-systems-system
                    "aq-thought" '(("main" . "(uiop:run-program \"true\")")))))
    (agent-q-test-systems-in-project directory connection
      (agent-q-test-send "/verify_system")
      (agent-q-test-until (agent-q-call-waiting))
      (agent-q-test-answer "y")
      (let ((began (float-time)) asked thought)
        (agent-q-test-until (agent-q-call-waiting))
        (setq asked (float-time))
        ;; More than what the result rounds.
        (agent-q-test-until (< 0.6 (- (float-time) asked)))
        (agent-q-test-answer "y")
        (setq thought (- (float-time) asked))
        (agent-q-test-until (agent-q-test-idle-p))
        (let ((told (agent-q-test-tools-answer)))
          (should (string-match "\\`[A-Z, ]+: .* in a fresh Lisp, \\([0-9.]+\\) s\\." told))
          (should (< (string-to-number (match-string 1 told))
                     (- (float-time) began (/ thought 2)))))))))

(agent-q-test-image-on-each verify-is-offered-below-what-changed ()
  "A turn that changed a file has [Verify] below it, unless the user doesn't want that.
A project without a system is told so."
  (let ((directory (file-name-as-directory (make-temp-file (expand-file-name "aq" agent-q-test-directory) t))))
    (dolist (agent-q-verify-changes '(t nil))
      (agent-q-test-systems-in-project directory connection
        (agent-q-test-tools-ask "/write_file path=a.txt content=b")
        (delete-file (expand-file-name "a.txt" directory))
        (agent-q-test-until (string-match-p "\\[Undo\\]" (agent-q-test-log)))
        (if (not agent-q-verify-changes)
            (should-not (string-match-p "\\[Verify\\]" (agent-q-test-log)))
          (agent-q-test-find "[Verify]")
          (push-button)
          ;; Without a question: there is nothing that could run.
          (agent-q-test-tools-unasked
           (agent-q-test-until
            (equal "The project has no .asd file in its root or two folders below it, so there is no system to verify."
                   (agent-q-test-tools-answer)))))))))

(provide 'agent-q-verify-test)
;;; agent-q-verify-test.el ends here
