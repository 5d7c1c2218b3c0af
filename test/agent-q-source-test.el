;;; agent-q-source-test.el --- Tests of finding and checking Lisp source  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What counts as balanced, which form a name means, and edits of definitions
;; in real files, with the oddities of Lisp's syntax.

;;; Code:

(require 'agent-q-test-files)
(require 'agent-q-definitions)

(defun agent-q-source-test--problem (text file)
  "Return why TEXT, of FILE, can't be read, or nil."
  (agent-q-project-source-with-text text file
    (agent-q-project-source-problem-here)))

(defun agent-q-source-test--problems (file &rest texts)
  "Return an alist of those of TEXTS, of FILE, that can't be read, with the reasons."
  (delq nil (mapcar (lambda (text)
                      (when-let ((problem (agent-q-source-test--problem text file)))
                        (cons text problem)))
                    texts)))

(ert-deftest agent-q-source-odd-lisp-is-balanced ()
  (should-not
   (agent-q-source-test--problems
    "a.lisp" "(a #\\( #\\) #\\; #\\\" #\\| #\\\\ #\\#)" "#|#| ( |# ( |#(a)" "#|| ( ||#" "|sym ( bol|"
    "(a|\\|(|b \"\\\"(\" ; (\n)" "#+nil (a) #.(b) #1=(a #1#) #*01 #2A((1) (2))" "(\"|#\" \"#|\")"
    "; (\r\n(a)\r\n" "(a 'foo#|b(r|)" "#| a#| ( |# ( |# (b)" "(cond ((char= c #\\()))" "a\\(b" "[ { ]" "#!/bin/sh (\n(a)\n"))
  (should-not
   (agent-q-source-test--problems
    "a.el" "(list ?( ?) ?\" ?; ?\\( ?\\\" ?[ ?{)" "?\\^(" "(rx (| \"a\" \"b\"))" "(eq ?| c)" "[a (b)]"
    "(a \" ?( \" ; ?( \n)" "(foo ?\\C-()"))
  (should-not (agent-q-source-test--problems "a.scm" "#;(a) [b (c)] #\\(")))

(ert-deftest agent-q-source-what-is-open-or-extra-is-found ()
  (pcase-dolist
      (`(,file ,text ,regexp)
       '(("a.lisp" "(a #\\()\n(b" "opens at line 2, column 1")
         ("a.lisp" "(a\n #|)|#" "opens at line 1, column 1")
         ("a.lisp" "(a))" "line 1, column 4 .* has no opener")
         ("a.lisp" "(a |)" "starts at line 1, column 4 is not closed")
         ("a.lisp" "#| #| |#" "comment that starts at line 1, column 1")
         ("a.el" "(a ?\\( ?))\n(b" "opens at line 2")
         ("a.el" "(a]" "`\\]' at line 1, column 3 closes the `(' at line 1")
         ("a.el" "(foo?(b)" "opens at line 1, column 1")
         ("a.lisp" "(defun f (x)\n  (list (car x)" "nor is the innermost one, at line 2, column 3 ((list (car x))\\.")
         ("a.lisp" "(defun f (x)\n  (let ((y x)\n    (list y)))\n"
          "line 1, .*; by its indentation, line 3, column 5 ((list y)))) stands outside of the form at line 2, column 8")
         ("a.lisp" "(defun f (x)\n  (list x))\n  (g x))\n"
          "line 3, column 8 .* has no opener; the form that opens at line 1, column 1 ((defun f (x)) already ends at line 2, column 11\\.")))
    (should (equal (list text t)
                   (list text (and (string-match-p regexp (or (agent-q-source-test--problem text file) ""))
                                   t))))))

;;;; Names

(defvar agent-q-source-test--definitions "(defpackage \"SHOP\" (:use :cl))
(eval-when (:compile-toplevel :load-toplevel :execute)
  (defun helper (x) x)
  (progn (defmacro deeper (x) x)))
(macrolet ((defthing (x) x))
  (defun in-macrolet () (m)))
(let ((counter 0))
  (defun next-one () (incf counter)))
#+sbcl (defun feature () 1)
#-sbcl (defun feature () 2)
(defstruct (point (:constructor make (x y))) x y)
(defun (setf name) (v o) v)
(defmethod (setf age) (v (o person)) v)
(defmethod (setf age) :after (v (o person)) v)
(defmethod area ((s shapes:circle)) 1)
(defmethod area ((s square)) 2)
(defmethod area :around ((s square)) 3)
(defmethod area ((s (eql #\\())) 4)
(defmethod area ((s (eql \"a)\")) &optional (x 1)) 5)
(defun |Odd Name| () 1)
(cl:defun qualified () 1)
(5am:test counts (is 1))
" "Definitions of many kinds.")

(defun agent-q-source-test--line (name)
  "Return the first line of the definition of NAME, or the reason why there is none."
  (condition-case problem
      (pcase-let ((`(,start ,_) (agent-q-definitions-find agent-q-source-test--definitions
                                                          name "a.lisp")))
        (substring agent-q-source-test--definitions start
                   (string-search "\n" agent-q-source-test--definitions start)))
    (error (cadr problem))))

(ert-deftest agent-q-source-definitions-are-found-by-name ()
  (pcase-dolist
      (`(,name ,line)
       '(("shop" "(defpackage \"SHOP\" (:use :cl))")
         ("helper" "(defun helper (x) x)")
         ("DEFUN HELPER" "(defun helper (x) x)")
         ("deeper" "(defmacro deeper (x) x)))")
         ("in-macrolet" "(defun in-macrolet () (m)))")
         ("next-one" "(defun next-one () (incf counter)))")
         ("defun feature (line 10)" "(defun feature () 2)")
         ("point" "(defstruct (point (:constructor make (x y))) x y)")
         ("(setf name)" "(defun (setf name) (v o) v)")
         ("(setf age) (t person)" "(defmethod (setf age) (v (o person)) v)")
         ("defmethod (setf age) :after (t person)" "(defmethod (setf age) :after (v (o person)) v)")
         ("area (circle)" "(defmethod area ((s shapes:circle)) 1)")
         ("area (shapes::circle)" "(defmethod area ((s shapes:circle)) 1)")
         ("area( square )" "(defmethod area ((s square)) 2)")
         ("(defmethod area ((s square))" "(defmethod area ((s square)) 2)")
         ("area :around (square)" "(defmethod area :around ((s square)) 3)")
         ("area ((eql #\\())" "(defmethod area ((s (eql #\\())) 4)")
         ("area ((eql \"a)\"))" "(defmethod area ((s (eql \"a)\")) &optional (x 1)) 5)")
         ("|Odd Name|" "(defun |Odd Name| () 1)")
         ("shop::qualified" "(cl:defun qualified () 1)")
         ("defun qualified" "(cl:defun qualified () 1)")
         ("counts" "(5am:test counts (is 1))")))
    (should (equal (list name line) (list name (agent-q-source-test--line name)))))
  (should (string-match-p "2 forms define feature: defun feature (line 9), defun feature (line 10)"
                          (agent-q-source-test--line "feature")))
  (cl-flet ((line (text name)
              (let ((agent-q-source-test--definitions text))
                (agent-q-source-test--line name))))
    (let ((packages "(in-package :ya)\n(defun f () 1)\n(in-package #:yb)\n(defun f () 2)\n"))
      (should (equal "(defun f () 1)" (line packages "ya::f")))
      (should (equal "(defun f () 2)" (line packages "defun YB:f")))
      (should (string-match-p "2 forms define f" (line packages "f"))))
    (let ((cases "(defun |Foo| () 1)\n(defun |foo| () 2)\n(defmethod f ((x (eql #\\a))) 1)\n(defmethod f ((x (eql #\\A))) 2)\n"))
      (should (equal "(defun |Foo| () 1)" (line cases "|Foo|")))
      (should (equal "(defun |foo| () 2)" (line cases "|foo|")))
      (should (equal "(defmethod f ((x (eql #\\A))) 2)" (line cases "f ((eql #\\A))"))))
    (let ((inner "(defgeneric g (x)\n  (:method ((x string)) 1)\n  (:method :after ((x q:b)) 2))\n"))
      (dolist (name '("g (string)" "defmethod g :after (b)"))
        (should (equal (concat name " is a method inside defgeneric g (line 1): edit that form")
                       (line inner name))))
      (should (string-match-p "Nothing in the file defines g (integer)"
                              (line inner "g (integer)")))))
  (should (string-match-p "5 forms define area: .*area ((eql #\\\\()) (line 18)"
                          (agent-q-source-test--line "area")))
  (should (string-match-p "Nothing in the file defines defthing"
                          (agent-q-source-test--line "defthing"))))

(ert-deftest agent-q-source-tests-of-a-group-are-found-by-their-own-names ()
  "A string or symbol behind a group is what distinguishes the definitions in it."
  (let ((agent-q-source-test--definitions "(deftest :yason \"encoder.basic-object\" (is 1))
(deftest :yason \"Symbols as keys\"
  (is 2))
(deftest :yason parses (is 3))
(deftest suite \"adds\" (is 4))
(deftest suite \"subtracts\" (is 5))
(deftest 'other \"adds up\" (is 6))
(defvar *text* \"adds up\")
(5am:test documented \"What it is for.\" (is 7))
"))
    (pcase-dolist
        (`(,number . ,names)
         '((1 "encoder.basic-object" "\"encoder.basic-object\"" "deftest yason \"encoder.basic-object\""
              "deftest :yason \"encoder.basic-object\"" ":yason \"encoder.basic-object\""
              "(deftest :yason \"encoder.basic-object\"" "deftest yason \"encoder.basic-object\" (line 1)"
              "deftest yason \"encoder.basic-object\" (line 5)" "deftest yason (line 1)")
           (2 "Symbols as keys" "symbols as keys" "deftest :yason \"Symbols as keys\"")
           (4 "parses" "deftest :yason parses")
           (5 "adds" "deftest suite \"adds\"" "(deftest suite \"adds\"")
           (6 "deftest suite \"subtracts\" (is 5)")
           (7 "adds up" "deftest other")
           (8 "*text*")
           (9 "documented" "test documented")))
      (dolist (name names)
        (should (equal (list name (nth (1- number) (split-string agent-q-source-test--definitions "\n")))
                       (list name (agent-q-source-test--line name))))))
    (should (equal "3 forms define deftest yason (line 92): deftest yason \"encoder.basic-object\" (line 1), deftest yason \"symbols as keys\" (line 2), deftest yason parses (line 4).  Name the one you mean like that"
                   (agent-q-source-test--line "deftest yason (line 92)")))))

(ert-deftest agent-q-source-tests-of-a-group-are-edited ()
  (agent-q-test-files-in-project
      '(("edit_definition" (path . "a.lisp") (name . "two") (new_source . "(deftest :unit \"two\" 22)"))
        ("insert_definition" (path . "a.lisp") (after . "one") (source . "(deftest :unit \"three\" 3)"))
        ("insert_definition" (path . "a.lisp") (source . "(deftest :unit \"one\" 1)")))
    (agent-q-test-files-write "a.lisp" "(deftest :unit \"one\" 1)\n(deftest :unit \"two\" 2)\n")
    (should-not (string-match-p "It was" (agent-q-test-files-succeeds)))
    (should-not (string-match-p "already had" (agent-q-test-files-succeeds)))
    (should (equal (agent-q-test-files-text "a.lisp")
                   "(deftest :unit \"one\" 1)\n\n(deftest :unit \"three\" 3)\n\n(deftest :unit \"two\" 22)\n"))
    (agent-q-test-files-succeeds "already had .*: deftest unit \"one\" (line 1)")))

(ert-deftest agent-q-source-definitions-of-emacs-lisp-are-edited ()
  (agent-q-test-files-in-project
      '(("edit_definition" (path . "a.el") (name . "two") (new_source . "(defun two () ?\\()")))
    (agent-q-test-files-write "a.el" "(rx (| \"a\" \"b\"))\n(defun one () ?()\n(defun two () 2)\n")
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.el")
                   "(rx (| \"a\" \"b\"))\n(defun one () ?()\n(defun two () ?\\()\n"))))

(ert-deftest agent-q-source-a-definition-is-put-right-behind-another ()
  (agent-q-test-files-in-project
      (mapcar (lambda (name)
                `("insert_definition" (path . "a.lisp") (source . "(new)") (after . ,name)))
              '("a" "b" "d"))
    (agent-q-test-files-write "a.lisp" "(defun a ()) (defun b ()\n  2)\n(progn\n  (defun d ()))\n")
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.lisp")
                   "(defun a ())\n\n(new)\n\n (defun b ()\n  2)\n(progn\n  (defun d ()))\n"))
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.lisp")
                   "(defun a ())\n\n(new)\n\n (defun b ()\n  2)\n\n (new)\n\n(progn\n  (defun d ())\n\n  (new))\n"))))

(provide 'agent-q-source-test)
;;; agent-q-source-test.el ends here
