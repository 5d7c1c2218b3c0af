;;; agent-q-expansion-test.el --- Macros are expanded as often as at a REPL  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Code is assessed before it runs, and its macros are expanded for that.  Those
;; that count, register or print show that they are not expanded again for the
;; call, and that the call still sees what a REPL would.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-assess)
(require 'agent-q-test-tools)
(require 'agent-q-test-watch)

(defconst agent-q-expansion-test--program "
(defpackage :aq-once (:use :cl)) (in-package :aq-once)
(defparameter *count* 0) (defvar *mode* :old) (defvar *registered* '())
(defmacro side (&rest body) (incf *count*) `(progn ,@body))
(defmacro mode () *mode*)
(defmacro printing (x) (format t \"expanding ~s\" x) (warn \"mind ~s\" x) x)
(defmacro unique (name)
  (when (member name *registered*) (error \"~s is registered\" name))
  (push name *registered*) `(defun ,name () ',name))
(defmacro seeing (form &environment environment) (incf *count*) (copy-tree (macroexpand form environment)))"
  "Macros that do something, and one that looks at the forms around it.")

(defun agent-q-expansion-test--start (connection)
  "Have the macros behind CONNECTION."
  (agent-q-test-image-values connection agent-q-expansion-test--program))

(defun agent-q-expansion-test--count (connection)
  "Return how often macros were expanded behind CONNECTION since this was asked."
  (string-to-number
   (agent-q-test-image-directly connection "(prog1 *count* (setf *count* 0))" "AQ-ONCE")))

(defun agent-q-expansion-test--ask (tool form)
  "Call TOOL with FORM in the package AQ-ONCE, and return its answer."
  (agent-q-test-tools-ask (format "/%s package=aq-once %s" tool form)))

(agent-q-test-tools-on-each expansion-happens-once ()
  "A macro is expanded as often as at a REPL, whichever tool expands it and whether the user is asked."
  (agent-q-expansion-test--start connection)
  (pcase-dolist
      (`(,tool ,form ,times)
       `(("eval_form" "(side 1)" 1)
         ("eval_form" "(list (side 1) (let ((x 2)) (when (side x) (side 1))))" 3)
         ("eval_form" "(side 1) (side 2) (progn (side 3) (side 4))" 4)
         ;; Names that only this text has.
         ("eval_form" "(defun aq-new (x) (side (list x 'aq-newer \"text\" #\\c #(1 b) :key)))" 1)
         ("eval_form" "(defun aq-quoting (x) (side `(a ,x ,@x)))" 1)
         ("eval_form" "(seeing (side 1))" 2)
         ;; The user is asked, and the form assessed again.
         ("eval_form" "(list (side 1) (probe-file \"/\") (delete-package (make-package :aq-gone)))" 1)
         ("compile_form" "(defun aq-compiled (x) (side (list x 'aq-other)))" 1)
         ("compile_form" "(defun aq-one (x) (side x)) (defun aq-two (x) (side x))" 2)
         ("macroexpand_form" "(side (side 1))" 1)
         ("macroexpand_form" "(list (side 1))" 0)))
    (agent-q-expansion-test--ask tool form)
    (ert-info (form)
      (should (= times (agent-q-expansion-test--count connection)))))
  (should (string-match-p "(PROGN 1)" (agent-q-test-tools-ask
                                       "/macroexpand_form package=aq-once mode=full form=\"(side 1)\"")))
  (should (= 1 (agent-q-expansion-test--count connection)))
  (agent-q-test-tools-ask "/macroexpand_form package=aq-once mode=all form=\"(list (side (side 1)))\"")
  (should (= 2 (agent-q-expansion-test--count connection)))
  ;; What registers a name is not met by its own name.
  (should (string-match-p "=> AQ-NAMED" (agent-q-expansion-test--ask "eval_form" "(unique aq-named)")))
  (should (string-match-p "Compiled and loaded"
                          (agent-q-expansion-test--ask "compile_form" "(unique aq-compiled-name)")))
  (should (string-match-p "(AQ-NAMED AQ-COMPILED-NAME)"
                          (agent-q-expansion-test--ask
                           "eval_form" "(list (aq-named) (aq-compiled-name))"))))

(agent-q-test-tools-on-each expansion-by-walkers-needs-no-question ()
  "What the implementation's macros make while a macro walks its code, as ITERATE does, isn't asked about."
  (agent-q-expansion-test--start connection)
  (agent-q-test-watch-with connection "deny"
    (should (string-match-p
             "=> 3" (agent-q-expansion-test--ask
                     "eval_form"
                     "(defun aq-sum (x) (seeing (loop for y in x sum (car y)))) (aq-sum '((1) (2)))")))
    (should-not (agent-q-test-watch-words))))

(agent-q-test-tools-on-each expansion-sees-the-image-as-it-is ()
  "Where something was evaluated meanwhile, or the forms around count, a macro is expanded again."
  (agent-q-expansion-test--start connection)
  (cl-flet ((value (form) (agent-q-expansion-test--ask "eval_form" form)))
    (should (string-match-p "=> :NEW\\'" (value "(setf *mode* :new) (mode)")))
    (should (string-match-p "=> :NEWER\\'" (value "(progn (setf *mode* :newer) (mode))")))
    (should (string-match-p "=> :LAST\\'" (value "(list (mode)) (if (setf *mode* :last) (mode))")))
    (should (string-match-p "=> (1 2)\\'"
                            (value "(macrolet ((in () '(list 1 2))) (seeing (in)))")))
    (should (string-match-p "=> 3\\'" (value "(symbol-macrolet ((in (+ 1 2))) (seeing in))")))
    ;; What was denied and comes again is expanded again.
    (let ((form "(list (mode) (delete-package (make-package :aq-gone)))"))
      (agent-q-test-assess-before
        (agent-q-test-send (concat "/eval_form package=aq-once " form))
        (agent-q-test-until (agent-q-call-waiting)))
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p))
      (agent-q-test-image-directly connection "(setf *mode* :by-user)" "AQ-ONCE")
      (should (string-match-p "=> (:BY-USER T)" (value form))))
    (agent-q-test-image-directly connection "(defmacro side (x) `(list :redefined ,x))" "AQ-ONCE")
    (should (string-match-p "=> (:REDEFINED 1)" (value "(side 1)")))))

(agent-q-test-tools-on-each expansion-says-what-it-says ()
  "What a macro prints or warns of when it is expanded comes with the answer, and notes have their lines."
  (agent-q-expansion-test--start connection)
  (should (string-match-p "expanding 7" (agent-q-expansion-test--ask "eval_form" "(printing 7)")))
  (let ((answer (agent-q-expansion-test--ask
                 "compile_form" "(defun aq-prints (x)\n  (side\n    (printing x)\n    (aq-nowhere x)))")))
    (should (string-match-p "warning at 3:5: mind X" answer))
    (should (string-match-p "at 4:5: .*AQ-NOWHERE" answer))
    (should (string-match-p "expanding X" answer))))

(agent-q-test-tools-on-each expansion-in-a-frame-happens-once ()
  "The same holds for a form that is evaluated in a frame."
  (agent-q-expansion-test--start connection)
  (agent-q-expansion-test--ask "compile_form" "(defun aq-fails (x) (list x (error \"no ~a\" x)))")
  (let ((answer (agent-q-test-tools-ask
                 "/eval_form package=aq-once on_error=park form=\"(aq-fails 5)\"")))
    (should (string-match "debugger \\(d[0-9]+\\)" answer))
    (let ((debugger (match-string 1 answer)))
      (agent-q-expansion-test--count connection)
      (should (string-match-p
               "=> 5" (agent-q-test-tools-ask
                       (format "/eval_in_frame debugger=%s package=aq-once form=\"(side x)\"" debugger))))
      (should (= 1 (agent-q-expansion-test--count connection)))
      (agent-q-test-tools-ask (format "/invoke_restart debugger=%s restart=abort" debugger)))))

(provide 'agent-q-expansion-test)
;;; agent-q-expansion-test.el ends here
