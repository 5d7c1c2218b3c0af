;;; agent-q-after-edit-test.el --- What is compiled and tested after an edit  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Edits of a system that is loaded, through core and chat on real SLIME and SLY:
;; what is compiled with them, which code still has the old definition, and which
;; tests reach what was changed.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-chats)
(require 'agent-q-test-tools)
(require 'agent-q-test-systems)

(defconst agent-q-after-edit-test-files
  '(("package" . "(defpackage :aq-late (:use :cl) (:export #:twice))\n")
    ("macros" . "(in-package :aq-late)
(defmacro twice (x) `(* 2 ,x))
(defmacro thrice (x) `(+ ,x (twice ,x)))
(declaim (inline half))
(defun half (x) (/ x 2))
(defconstant +ten+ 10)
(defstruct point (x 0) (y 0))
(deftype small () '(integer 0 10))
(defun table () '(1 2 3))
(defun plain (x) (1+ x))
(defun quick (x) x)
(define-compiler-macro quick (x) x)
")
    ("users" . "(in-package :aq-late)
(defun four (x) (twice (twice x)))
(defun six (x) (thrice x))
(defun quarter (x) (half (half x)))
(defun tens (x) (* x +ten+))
(defun left (point) (point-x point))
(defun fit (x) (typep x 'small))
(defun rows () '#.(table)) ; and (twice) in a comment
(defun deep (x) (plain x))
(defun deeper (x) (deep x))
(defun hurry () (quick \"(twice\"))
(defgeneric area (it))
(defmethod area ((it point)) (plain (left it)))
")
    ("checks" . "(in-package :aq-late)
(defvar *checks* '())
(defmacro check (name form) `(push (cons ',name (lambda () ,form)) *checks*))
(check doubles (twice 4))
"))
  "The files of a system in which one has what the others use.")

(defconst agent-q-after-edit-test-expanding
  '(("early" . "(in-package :aq-late)
(defun helper (x) (list '1+ x))
(defparameter *mode* 1)
(defun calls-helper (x) (list (helper x) *mode*))
(defun spot (x) (car x))
(defsetf spot (x) (new) `(setf (car ,x) ,new))
(eval-when (:compile-toplevel :load-toplevel :execute)
  (defun inner (x) (list '1+ x))
  (defun other (x) x))
")
    ("late" . "(in-package :aq-late)
(defmacro by-helper (x) (helper x))
(defmacro by-mode (x) `(+ ,*mode* ,x))
(defmacro by-inner (x) (inner x))
(defmacro of-helper (x) `(helper ,x))
(defun use-helper (x) (by-helper x))
(defun use-mode (x) (by-mode x))
(defun use-inner (x) (by-inner x))
(defun use-of-helper (x) (of-helper x))
(defun get-spot (x) (spot x))
(defun put-spot (x) (incf (spot x)))
"))
  "Files of the system with what macros use while they are expanded.")

(defmacro agent-q-after-edit-test--in-project (more &rest body)
  "Run BODY in the project of the system, which is loaded with MORE files."
  (declare (indent 1) (debug t))
  `(let* ((agent-q-compile-after-edit t)
          (directory (agent-q-test-systems-system
                      "aq-late" (append agent-q-after-edit-test-files ,more) ":depends-on (\"fiveam\")")))
     (agent-q-test-systems-need connection "fiveam")
     (agent-q-test-systems-register connection directory)
     (agent-q-test-systems-in-project directory connection
       (cl-flet ((ask (line &rest arguments)
                   (agent-q-test-tools-ask (apply #'format line arguments)))
                 (value (form) (car (agent-q-test-image-values connection form))))
         (ignore #'value)
         (unwind-protect
             (progn (ask "/load_system aq-late") ,@body)
           (agent-q-test-image-eval
            connection "(progn (asdf:clear-system \"aq-late\")
  (dolist (it '(:aq-late-loose :aq-late-tests :aq-late-fiasco :aq-late))
    (when (find-package it) (delete-package it))))"))))))

(agent-q-test-tools-on-each after-edit-names-what-has-the-old-one ()
  "What was compiled with the old macro is named, and one call loads just that again."
  (agent-q-after-edit-test--in-project agent-q-after-edit-test-expanding
    (should (equal "Compiled and loaded defmacro twice (line 2) of macros.lisp; no warnings.
Loaded code still has the old macro AQ-LATE:TWICE: users.lisp (defun four (line 2), defun six (line 3)); checks.lisp (check doubles (line 4)).
load_system {\"files\":[\"users.lisp\",\"checks.lisp\"]} loads just that again."
                   (ask "/edit_definition path=macros.lisp name=twice (defmacro twice (x) `(* 20 ,x))")))
    (let ((form "(list (aq-late::four 1) (aq-late::six 1) (funcall (cdr (first aq-late::*checks*))))"))
      (should (equal "(4 3 8)" (value form)))
      (should (equal "Compiled and loaded users.lisp, checks.lisp."
                     (ask "/load_system files=\"[\\\"checks.lisp\\\", \\\"users.lisp\\\"]\"")))
      (should (equal "(400 21 80)" (value form))))
    ;; A file of no system that somebody has loaded.
    (write-region "(defpackage :aq-late-loose (:use :cl :aq-late)) (in-package :aq-late-loose)\n(defvar *loose* (twice 1))\n"
                  nil "loose.lisp" nil 'silent)
    (agent-q-test-image-eval connection (format "(load %S)" (expand-file-name "loose.lisp")))
    (let ((told (ask "/edit_definition path=macros.lisp name=twice (defmacro twice (x) `(* 200 ,x))")))
      (should (string-search "; loose.lisp (defvar *loose* (line 2))." told))
      (should (string-search "\nIn no loaded system: loose.lisp; compile_file loads it again." told)))
    (delete-file "loose.lisp")
    ;; The rest of the system is as it was.
    (should (string-search "compile_file loads such a file"
                           (ask "/load_system files=\"[\\\"aq-late.asd\\\"]\"")))
    (dolist (change '(("half" "(defun half (x) (/ x 3))" "inline function AQ-LATE::HALF: users.lisp (defun quarter (line 4))")
                      ("small" "(deftype small () '(integer 0 20))" "type AQ-LATE::SMALL: users.lisp (defun fit (line 7))")
                      ("table" "(defun table () '(4 5))" "#. value of AQ-LATE::TABLE: users.lisp (defun rows (line 8))")
                      ("point" "(defstruct point (x 1) (y 0))" "structure AQ-LATE::POINT: users.lisp (defun left (line 6), defmethod area (line 13))")
                      ("define-compiler-macro quick" "(define-compiler-macro quick (x) `(list ,x))"
                       "compiler macro AQ-LATE::QUICK: users.lisp (defun hurry (line 11))")))
      (pcase-let ((`(,name ,source ,told) change))
        (should (string-search (format "\nLoaded code still has the old %s.\nload_system {\"files\":[\"users.lisp\"]}" told)
                               (ask "/edit_definition path=macros.lisp name=\"%s\" %s" name source)))))
    ;; A constant that the user's image has another value of.
    (let ((told (string-replace "\nin (defconstant +ten+ 11)" ""
                                (ask "/edit_definition path=macros.lisp name=+ten+ (defconstant +ten+ 11)"))))
      (should (string-match-p "\\`Error DEFCONSTANT-UNEQL at macros.lisp:6:1: .*\nRestarts: CONTINUE" told))
      (should (string-match-p "^compile_file {[^}]*\"restart\":\"continue\"[^}]*} goes on (Go ahead and change the value)\\.$"
                              told)))
    (should (string-search "old constant AQ-LATE::+TEN+: users.lisp (defun tens (line 5))."
                           (ask "/compile_file path=macros.lisp name=+ten+ restart=continue")))
    ;; A structure of other slots.
    (should (string-match-p "^compile_file {[^}]*\"restart\":\"continue\"[^}]*} goes on ("
                            (ask "/edit_definition path=macros.lisp name=point (defstruct point (x 1) (y 0) (z 0))")))
    (should (string-search "old structure AQ-LATE::POINT: users.lisp (defun left (line 6)"
                           (ask "/compile_file path=macros.lisp name=point restart=continue")))
    ;; What macros use while they are expanded, and places.
    (dolist (change '(("helper" "(defun helper (x) (list '1- x))"
                       "still has the old function that macros call AQ-LATE::HELPER: late.lisp (defun use-helper (line 6)).")
                      ("*mode*" "(defparameter *mode* 2)"
                       "still has the old variable that macros use AQ-LATE::*MODE*: late.lisp (defun use-mode (line 7)).")
                      ("defsetf spot" "(defsetf spot (x) (new) `(progn (setf (car ,x) ,new)))"
                       "still has the old setf expander AQ-LATE::SPOT: late.lisp (defun put-spot (line 11)).")
                      ("inner" "(defun inner (x) (list '1- x))"
                       "has the function that macros call AQ-LATE::INNER as it was, if that was changed: late.lisp (defun use-inner (line 8)).")))
      (pcase-let ((`(,name ,source ,told) change))
        (should (string-search (format "\nLoaded code %s\nload_system {\"files\":[\"late.lisp\"]}" told)
                               (ask "/edit_definition path=early.lisp name=\"%s\" %s" name source)))))
    ;; Nothing has a plain function in it.
    (should (equal "Compiled and loaded defun plain (line 10) of macros.lisp; no warnings."
                   (ask "/edit_definition path=macros.lisp name=plain (defun plain (x) (+ 2 x))")))))

(agent-q-test-tools-on-each after-edit-compiles-what-the-image-has ()
  "What was changed is compiled where the image has the file, and nothing is said elsewhere."
  (agent-q-after-edit-test--in-project nil
    (should (equal "Compiled and loaded defun deep (line 9) of users.lisp, with 2 style-warnings and 1 warning.
style-warning at users.lisp:9:29: undefined function: AQ-LATE::UNDEFD
warning at users.lisp:9:29: undefined variable: AQ-LATE::Y
style-warning at users.lisp:9:17: The function PLAIN is called with two arguments, but wants exactly one."
                   (ask "/edit_definition path=users.lisp name=deep (defun deep (x) (plain x 3) (undefd y))")))
    (should (string-match-p "\\`The compiler failed on defun deep.*\n.*users.lisp:9:[0-9]+: .*AQ-NO"
                            (replace-regexp-in-string
                             "\n  .*" ""
                             (ask "/edit_definition path=users.lisp name=deep (defun deep (x) (aq-no:f x))"))))
    ;; All in one.
    (should (equal "Compiled and loaded defun four (line 2), defun six (line 3), defun deep (line 9) of users.lisp; no warnings."
                   (car (last (split-string
                               (ask "/write_file path=users.lisp content=\"%s\""
                                    (replace-regexp-in-string
                                     "[\"\\\\]" "\\\\\\&"
                                     (replace-regexp-in-string
                                      "(defun \\(four\\|six\\) (x)" "(defun \\1 (x &optional y) (declare (ignore y))"
                                      (cdr (assoc "users" agent-q-after-edit-test-files)))))
                               "\n\n")))))
    ;; The image doesn't know it, or the user or the model doesn't want it.
    (cl-flet ((silent-p (told) (not (string-search "ompiled" told))))
      (ask "/write_file path=new.lisp (in-package :aq-late) (defun neu () 1)")
      (should (silent-p (ask "/edit_definition path=new.lisp name=neu (defun neu () 2)")))
      (should (silent-p (ask "/edit_definition path=users.lisp name=six compile=false (defun six (x) (list x))")))
      (should (silent-p (ask "/edit_file path=users.lisp old_str=\"in a comment\" in a remark")))
      (let ((agent-q-compile-after-edit nil))
        (should (silent-p (ask "/edit_definition path=users.lisp name=six (defun six (x) (vector x))"))))
      (let ((agent-q-eval-policy 'read-only))
        (should (silent-p (ask "/edit_definition path=users.lisp name=six (defun six (x) (cons x x))")))))))

(agent-q-test-tools-on-each after-edit-asks-nothing-for-an-option ()
  "Compiling that needs a question is left alone where only the option wants it, and the model is told."
  (agent-q-test-with-model
      (agent-q-test-script
       `((("go") ("edit_definition" (path . "users.lisp") (name . "six") (new_source . "(defun six (x) x)")))
         (("(Not compiled, as the user is to be asked about that: evaluates code in your image. compile_file asks.)")
          "Left alone.")))
    (agent-q-after-edit-test--in-project nil
      (setq-local agent-q-eval-policy 'ask-always)
      (agent-q-test-tools-ask "go")
      (should (agent-q-test-shows "Left alone."))
      (should (equal "3" (value "(aq-late::six 1)"))))))

(defconst agent-q-after-edit-test-tests
  '(("tests" . "(defpackage :aq-late-tests (:use :cl :aq-late))
(in-package :aq-late-tests)
(fiveam:def-suite all)
(fiveam:in-suite all)
(fiveam:test doubles (fiveam:is (= 8 (twice 4))))
(fiveam:test fours (fiveam:is (= 8 (aq-late::four 2))))
(fiveam:test deeps (fiveam:is (= 3 (aq-late::deeper 2))))
(fiveam:test fits (fiveam:is (aq-late::fit 2)))
(fiveam:test areas (fiveam:is (= 1 (aq-late::area (aq-late::make-point)))))
(fiveam:test others (fiveam:is (= 2 2)))
"))
  "Tests of that system.")

(agent-q-test-tools-on-each run-tests-affected ()
  "Only tests that reach what was changed are run, by their code or their text, and the way is told."
  (agent-q-after-edit-test--in-project agent-q-after-edit-test-tests
    (cl-flet ((affected (&optional more) (ask "/run_tests affected=true %s" (or more ""))))
      (should (string-prefix-p "No test was run: no definition is known to have changed" (affected)))
      (ask "/edit_definition path=macros.lisp name=plain (defun plain (x) (+ 1 x))")
      (should (string-prefix-p "PASSED: 2 of 2 checks passed, 0 failed, in 2 tests (FiveAM).
(2 of 6 tests run: those known to reach what was changed: AQ-LATE::PLAIN.)
  AQ-LATE-TESTS::AREAS -> AQ-LATE::AREA -> AQ-LATE::PLAIN
  AQ-LATE-TESTS::DEEPS -> AQ-LATE::DEEPER -> AQ-LATE::DEEP -> AQ-LATE::PLAIN"
                               (affected)))
      ;; That is settled now.
      (should (string-prefix-p "No test was run: no definition is known to have changed" (affected)))
      (ask "/edit_definition path=macros.lisp name=small (deftype small () '(integer 0 1))")
      (should (string-match-p "\\`FAILED: 0 of 1 .*\n(1 of 6 tests run: .*AQ-LATE::SMALL\\.)\n  AQ-LATE-TESTS::FITS -> AQ-LATE::FIT -> AQ-LATE::SMALL\n"
                              (affected "system=aq-late")))
      ;; That is not, until it passes.
      (ask "/edit_definition path=macros.lisp name=thrice (defmacro thrice (x) `(+ ,x ,x ,x))")
      (should (string-match-p "\\`FAILED: 0 of 1 .*\n(1 of 6 tests run: .*SMALL" (affected)))
      (ask "/edit_definition path=macros.lisp name=small (deftype small () '(integer 0 10))")
      (should (string-prefix-p "PASSED: 1 of 1" (affected)))
      (ask "/edit_definition path=users.lisp name=quarter (defun quarter (x) (half x))")
      (should (equal "No test was run: none of 6 tests is known to reach what was changed (AQ-LATE::QUARTER). That doesn't say that it works: write a test, or run all."
                     (affected)))
      (ask "/compile_form package=aq-late (defun four (x) (* 4 x))")
      (should (string-match-p "\\`PASSED: 1 of 1 .*\n.*AQ-LATE::FOUR.*\n  AQ-LATE-TESTS::FOURS -> AQ-LATE::FOUR"
                              (affected)))
      ;; Somebody else edits a file.
      (write-region "(defun more () 1)\n" nil "macros.lisp" t 'silent)
      (set-file-times "macros.lisp" (time-add nil 2))
      (should (string-match-p "all of macros.lisp, edited by somebody else" (affected))))))

(agent-q-test-tools-on-each run-tests-affected-by-other-frameworks ()
  "Tests that are functions, and tests that are forms."
  (dolist (framework '("fiasco" "sb-rt"))
    (agent-q-test-systems-need connection framework))
  (agent-q-after-edit-test--in-project
      '(("others" . "(fiasco:define-test-package :aq-late-fiasco)
(in-package :aq-late-fiasco)
(deftest deeps () (is (= 3 (aq-late::deeper 2))))
(deftest others () (is (= 1 1)))
(in-package :aq-late)
(sb-rt:deftest rt-deeps (deeper 2) 3)
(sb-rt:deftest rt-others 1 1)
"))
    (ask "/edit_definition path=macros.lisp name=plain (defun plain (x) (+ 1 x))")
    (let ((told (ask "/run_tests affected=true")))
      (should (string-match-p "\\`PASSED: 2 of 2 checks passed" told))
      (should (string-search "  AQ-LATE-FIASCO::DEEPS -> AQ-LATE::DEEPER -> " told))
      (should (string-search "  AQ-LATE::RT-DEEPS -> AQ-LATE::DEEPER -> " told)))))

(agent-q-test-tools-on-each after-edit-is-compiled-and-tested-by-buttons ()
  "The line of a turn names what the image has not, and its buttons compile and test that."
  (agent-q-test-with-model
      (agent-q-test-script
       `((("go") ("edit_definition" (path . "users.lisp") (name . "deep")
                  (new_source . "(defun deep (x) (plain (plain x)))")))
         (("") ("edit_definition" (path . "users.lisp") (name . "area (point)")
                (new_source . "(defmethod area ((it point)) 1)")))
         (("") "Both are edited.")))
    (agent-q-after-edit-test--in-project agent-q-after-edit-test-tests
      (setq-local agent-q-compile-after-edit nil)
      (agent-q-test-tools-ask "go")
      (agent-q-test-until
       (agent-q-test-shows
        "Changed users.lisp +2 -2  [Diff] [Undo] [Verify] [Test]
  Not compiled: area (point), deep  [Compile]\n"))
      (goto-char (point-min))
      (search-forward "[Compil")
      (push-button)
      (agent-q-test-until (not (agent-q-test-shows "[Compile]")))
      (should (equal "3" (value "(aq-late::deep 1)")))
      (agent-q-test-until (agent-q-test-idle-p))
      ;; Both at once, so there is one line about it.
      (agent-q-test-until (agent-q-test-shows "Changed AQ-LATE::DEEP, AQ-LATE::AREA  [Diff]"))
      (should (= 1 (how-many "^> /compile_file" (point-min))))
      (should (= 2 (how-many " Changed " (point-min))))
      (goto-char (point-min))
      (search-forward "[Tes")
      (push-button)
      (agent-q-test-answer "y")
      (agent-q-test-until (agent-q-test-shows "1 of 2 failed")))))

(agent-q-test-tools-on-each after-edit-a-resumed-chat-shows-what-it-changed-and-tests-it ()
  "In files and in the image, which is still there."
  (let ((agent-q-chat-history-directory
         (file-name-as-directory (make-temp-file (expand-file-name "chats" agent-q-test-directory) t))))
    (agent-q-test-with-model
        (agent-q-test-script
         `((("go") ("edit_definition" (path . "macros.lisp") (name . "plain")
                    (new_source . "(defun plain (x) (+ 1 x))")))
           (("") "Edited.")
           (("more") ("compile_form" (form . "(defun aq-late::seen () 1)")))
           (("") "Made.")))
      (agent-q-after-edit-test--in-project agent-q-after-edit-test-tests
        (let ((changed " Changed macros.lisp \\+1 -1, AQ-LATE::PLAIN.*  \\[Diff\\] \\[Undo\\] \\[Verify\\] \\[Test\\]\n")
              (made " Changed AQ-LATE::SEEN (function, new)  \\[Diff\\] \\[Undo\\]\n")
              (id agent-q-chat-history-id))
          (should id)
          (agent-q-test-tools-ask "go")
          (agent-q-test-until (string-match-p changed (agent-q-test-log)))
          (agent-q-test-tools-ask "more")
          (agent-q-test-until (string-match-p made (agent-q-test-log)))
          (agent-q-test-until (agent-q-test-idle-p))
          (kill-buffer)
          (agent-q-test-chats-resumed id
            (agent-q-test-until (string-match-p changed (agent-q-test-log)))
            (agent-q-test-until (string-match-p (concat made "\\(?:.*\n\\)*Resumed:") (agent-q-test-log)))
            (agent-q-test-find "[Test]")
            (push-button)
            (agent-q-test-answer "y")
            (agent-q-test-until (agent-q-test-shows "PASSED: 2 of 2"))))))))

(provide 'agent-q-after-edit-test)
;;; agent-q-after-edit-test.el ends here
