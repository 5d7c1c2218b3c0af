;;; agent-q-journal-test.el --- What the agent changed can be taken back  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A real image is changed through eval-form, compile-form, macros and files;
;; the journal has each change, and what was there before comes back.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-changes)

(defconst agent-q-journal-test--before "
(defpackage :aq-journal (:use :cl))
(in-package :aq-journal)
(defun f (x) (list :old x))
(defmacro m (x) `(list :old ,x))
(defparameter *v* :old)
(defgeneric g (x) (:method ((x integer)) :old-integer) (:method ((x string)) :old-string))
(defun (setf place) (new) (list :old new))
(define-compiler-macro f (&whole form x) (declare (ignore x)) form)
(deftype small () '(integer 0 9))
(defclass c () (a))
(defmacro define-f (name) `(defun ,name (x) (list :by-macro x)))
(defmacro set-v (x) `(defparameter *v* ,x))"
  "What is there before the agent comes.")

(defun agent-q-journal-test--start (connection)
  "Have the definitions and an empty journal behind CONNECTION."
  (agent-q-test-image-values connection agent-q-journal-test--before)
  (agent-q-test-image-values connection "(setf agent-q-image::*journal* '())"))

(defun agent-q-journal-test--in (connection form)
  "Return the first value of FORM, evaluated in the package of the tests.
This goes over CONNECTION, and past the journal."
  (agent-q-test-image-directly connection form "AQ-JOURNAL"))

(defun agent-q-journal-test--changes (connection)
  "Return name, kind and what of the journal's changes over CONNECTION."
  (mapcar (lambda (change)
            (format "%s %s %s" (plist-get change :name) (plist-get change :kind)
                    (plist-get change :what)))
          (plist-get (agent-q-test-image-value connection "journal-list") :changes)))

(defconst agent-q-journal-test--state
  "(list (f 1) (eval '(m 1)) *v* (g 1) (g \"\") (setf (place) 1)
         (null (compiler-macro-function 'f)) (typep 100 'small) (and (fboundp 'fresh) t) (boundp '*fresh*))"
  "A form that tells all the definitions.")

(defconst agent-q-journal-test--old
  "((:OLD 1) (:OLD 1) :OLD :OLD-INTEGER :OLD-STRING (:OLD 1) NIL NIL NIL NIL)"
  "What it gives before.")

(defconst agent-q-journal-test--new
  "((:NEW 1) (:NEW 1) :NEW :NEW-INTEGER :OLD-STRING (:NEW 1) T T T T)"
  "What it gives after the agent was there.")

(agent-q-test-image-on-each all-kinds-of-definitions-come-back ()
  "Functions, macros, variables, methods, setf functions, types and new ones."
  (agent-q-journal-test--start connection)
  (should (equal agent-q-journal-test--old
                 (agent-q-journal-test--in connection agent-q-journal-test--state)))
  (agent-q-test-image-values
   connection
   "(defun f (x) (list :new x))
    (defmacro m (x) `(list :new ,x))
    (setf *v* :new)
    (defmethod g ((x integer)) :new-integer)
    (defmethod g ((x symbol)) :new-symbol)
    (defun (setf place) (new) (list :new new))
    (setf (compiler-macro-function 'f) nil)
    (deftype small () '(integer 0 1000))
    (defun fresh () 1)
    (defvar *fresh* 1)"
   :package "AQ-JOURNAL" :turn "1.2/3/4")
  (should (equal agent-q-journal-test--new
                 (agent-q-journal-test--in connection agent-q-journal-test--state)))
  (let ((changes (agent-q-journal-test--changes connection)))
    (dolist (change '("AQ-JOURNAL::F function redefined" "AQ-JOURNAL::M macro redefined"
                      "AQ-JOURNAL::*V* variable changed" "AQ-JOURNAL::G method redefined"
                      "(SETF AQ-JOURNAL::PLACE) function redefined"
                      "AQ-JOURNAL::F compiler macro removed" "AQ-JOURNAL::SMALL type redefined"
                      "AQ-JOURNAL::FRESH function new" "AQ-JOURNAL::*FRESH* variable new"))
      (should (member change changes))))
  (let ((ids (plist-get (agent-q-test-image-value connection "journal-restore" :turn "1.2/3/4")
                        :ids)))
    (should (equal agent-q-journal-test--old
                   (agent-q-journal-test--in connection agent-q-journal-test--state)))
    (should (equal "NIL" (agent-q-journal-test--in
                          connection "(find-method #'g '() (list (find-class 'symbol)) nil)")))
    ;; In another image these numbers are those of others' changes.
    (should (equal '(:results nil) (agent-q-test-image-value connection "journal-redo"
                                                             :ids ids :turns '("9.9/3/4"))))
    (should (equal agent-q-journal-test--old
                   (agent-q-journal-test--in connection agent-q-journal-test--state)))
    (dolist (result (plist-get (agent-q-test-image-value connection "journal-redo"
                                                         :ids ids :turns '("1.2/3/4"))
                               :results))
      (should (string-match-p ": brought back the " result)))
    (should (equal agent-q-journal-test--new
                   (agent-q-journal-test--in connection agent-q-journal-test--state)))))

(defconst agent-q-journal-test--indirect
  '(("(defvar *w* :old)" "(set '*w* :new)" "*w*")
    ("(defvar *w* :old)" "(eval (list 'setf '*w* :new))" "*w*")
    ("(defvar *w* :old) (defun set-w () (setf *w* :new))" "(set-w)" "*w*")
    ("(defvar *w* :old)" "(makunbound '*w*)" "(if (boundp '*w*) *w* :gone)")
    ("(defsetf place-1 (x) (new) `(list :old ,new ,x))"
     "(defsetf place-1 (x) (new) `(list :new ,new ,x))" "(eval '(setf (place-1 1) 2))")
    ("(define-setf-expander place-2 (x) (values nil nil '(n) `(list :old n ,x) x))"
     "(define-setf-expander place-2 (x) (values nil nil '(n) `(list :new n ,x) x))"
     "(eval '(setf (place-2 1) 2))")
    ("1" "(defsetf place-3 set-place-3)" "(and (ignore-errors (macroexpand-1 '(setf (place-3 1) 2)))
                                               (first (macroexpand-1 '(setf (place-3 1) 2))))")
    ;; SBCL knows nothing of these but the function.
    ("1" "(setf (symbol-function 'only-1) #'identity)" "(and (fboundp 'only-1) t)")
    ("(setf (symbol-function 'only-2) (lambda () :old))"
     "(setf (symbol-function 'only-2) (lambda () :new))" "(eval '(only-2))")
    ("(define-symbol-macro there :old)" "(define-symbol-macro there :new)" "(eval 'there)")
    ("1" "(define-symbol-macro nowhere :new)" "(ignore-errors (eval 'nowhere))")
    ("(handler-bind ((error #'continue)) (defconstant +c+ :old))"
     "(handler-bind ((error #'continue)) (defconstant +c+ :new))" "(symbol-value '+c+)")
    ("(defun gone () :old)" "(unintern 'gone)" "(and (find-symbol \"GONE\") (fboundp (find-symbol \"GONE\")) t)"))
  "Forms: what is there, a change that no definition shows, and what tells it.")

(agent-q-test-image-on-each changes-that-no-definition-shows-come-back ()
  "Variables that functions set, places, symbol macros, constants and symbols come back."
  (pcase-dolist (`(,before ,change ,state) agent-q-journal-test--indirect)
    (ert-info (change)
      (agent-q-journal-test--start connection)
      (agent-q-test-image-values connection before :package "AQ-JOURNAL")
      (agent-q-test-image-values connection "(setf agent-q-image::*journal* '())")
      (let ((old (agent-q-journal-test--in connection state)))
        (agent-q-test-image-values connection change :package "AQ-JOURNAL")
        (should-not (equal old (agent-q-journal-test--in connection state)))
        (should (= 1 (length (agent-q-journal-test--changes connection))))
        (agent-q-test-image-value connection "journal-restore")
        (should (equal old (agent-q-journal-test--in connection state)))))))

(agent-q-test-image-on-each values-of-a-variable-do-not-pile-up ()
  "Of a variable that each call sets, few values are kept, the first one among them."
  (agent-q-journal-test--start connection)
  (dotimes (i 30)
    (agent-q-test-image-values connection (format "(setf *v* %d)" i) :package "AQ-JOURNAL"))
  (should (< 1 (length (agent-q-journal-test--changes connection)) 10))
  ;; The last one alone, then all.
  (agent-q-test-image-value connection "journal-restore"
                            :id (plist-get (car (plist-get (agent-q-test-image-value
                                                            connection "journal-list")
                                                           :changes))
                                           :id))
  (should (equal "28" (agent-q-journal-test--in connection "*v*")))
  (agent-q-test-image-value connection "journal-restore")
  (should (equal ":OLD" (agent-q-journal-test--in connection "*v*"))))

(agent-q-test-image-on-each undo-passes-over-loads-of-the-same-turn ()
  "A load that compiles the agent's own text again is not somebody else's change."
  (agent-q-journal-test--start connection)
  (let ((file (expand-file-name "again.lisp" agent-q-test-directory)) (turn "1.2/3/4"))
    (cl-flet ((evaluate (form)
                (agent-q-test-image-values connection form :package "AQ-JOURNAL" :turn turn))
              (undo ()
                (plist-get (agent-q-test-image-value connection "journal-restore" :turn turn)
                           :results)))
      (with-temp-file file (insert "(in-package :aq-journal) (defun f (x) (list :first x))"))
      (evaluate "(defun f (x) (list :first x))")
      (agent-q-test-image-value connection "compile-file" :file file :turn turn)
      (evaluate "(defun f (x) (list :second x))")
      (agent-q-test-image-value connection "compile-file" :file file :turn turn)
      (should (equal '("AQ-JOURNAL::F: restored the previous function.") (undo)))
      (should (equal "(:OLD 1)" (agent-q-journal-test--in connection "(f 1)")))
      ;; What the user did between is not undone, and comes back.
      (evaluate "(defun f (x) (list :third x))")
      (agent-q-journal-test--in connection "(defun f (x) (list :user x))")
      (evaluate "(defun f (x) (list :fourth x))")
      (should (equal '("AQ-JOURNAL::F: restored the previous function."
                       "AQ-JOURNAL::F was left alone: someone else has changed it since.")
                     (undo)))
      (should (equal "(:USER 1)" (agent-q-journal-test--in connection "(f 1)"))))))

(agent-q-test-image-on-each values-of-bindings-and-counters-are-no-changes ()
  "Neither what a call that was stopped had bound, nor a counter that no form names."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--in connection "(defvar *counter* 0)")
  (agent-q-journal-test--in connection "(defun counting () (incf *counter*))")
  (agent-q-journal-test--in connection "(defun bound (&optional (*v* (list :bound))) (set '*counter* 7) (funcall 'settled) *v*)")
  (agent-q-journal-test--in connection "(defun settled () (funcall agent-q-image::*settle*))")
  (agent-q-test-image-values connection "(list (counting) (bound) (defun h () 1))" :package "AQ-JOURNAL")
  (should (equal '("AQ-JOURNAL::H function new") (agent-q-journal-test--changes connection)))
  (agent-q-test-image-values connection "(setf *counter* 9)" :package "AQ-JOURNAL")
  (should (member "AQ-JOURNAL::*COUNTER* variable changed" (agent-q-journal-test--changes connection))))

(agent-q-test-image-on-each what-tests-change-in-variables-of-others-is-no-change ()
  "Neither what a test framework notes for itself, nor what a test does in a library."
  (agent-q-journal-test--start connection)
  (let ((library (expand-file-name "library.lisp" agent-q-test-directory)))
    (with-temp-file library
      (insert "(defpackage :aq-library (:use :cl)) (in-package :aq-library) (defvar *cache* nil)"))
    (agent-q-test-image-load connection library))
  (agent-q-test-image-directly connection "(progn (require :sb-rt) (defpackage :prove.aq (:use)) t)")
  (agent-q-test-image-directly
   connection "(progn (proclaim '(special prove.aq::*last*)) (setf prove.aq::*last* nil)
                 (defun aq-journal::note ()
                   (setf prove.aq::*last* (list 1) aq-library::*cache* (list 2) aq-journal::*v* :tested))
                 (sb-rt:deftest aq-journal::noting (aq-journal::note) :tested) t)")
  (agent-q-test-image-values connection "(note)" :package "AQ-JOURNAL")
  (should (equal '("AQ-JOURNAL::*V* variable changed" "AQ-LIBRARY::*CACHE* variable changed")
                 (agent-q-journal-test--changes connection)))
  (agent-q-test-image-values connection "(setf agent-q-image::*journal* '() *v* :old)" :package "AQ-JOURNAL")
  (agent-q-test-image-values connection "(setf agent-q-image::*journal* '())")
  (should (eq :returned
              (plist-get (agent-q-test-image-reply
                          connection "run-tests" :test "noting" :package "AQ-JOURNAL"
                          :systems (list (list :name "aq-own" :file "/nowhere/own/aq-own.asd")))
                         :outcome)))
  (should (equal '("AQ-JOURNAL::*V* variable changed") (agent-q-journal-test--changes connection))))

(agent-q-test-image-on-each what-is-defined-as-it-was-is-no-change ()
  "A class or a type that is only defined again is not listed as changed for good."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--in connection "(defvar *text* (copy-seq \"as it was\"))")
  (agent-q-test-image-values connection "(defclass c () (a)) (setf *v* *v* *text* (copy-seq *text*))"
                             :package "AQ-JOURNAL")
  (should-not (agent-q-journal-test--changes connection))
  (agent-q-test-image-values connection "(deftype small () '(integer 0 1))" :package "AQ-JOURNAL")
  (should (equal '("AQ-JOURNAL::SMALL type redefined") (agent-q-journal-test--changes connection))))

(agent-q-test-image-on-each what-can-not-be-restored-does-not-keep-the-rest ()
  "A new constant stays, which is told before and after; the rest of the call is restored."
  (agent-q-journal-test--start connection)
  (let* ((constant (format "+new-%d+" (random 1000000)))
         (form (format "(defconstant %s 1) (defun f (x) (list :new x))" constant)))
    (should (string-match-p "a constant, which can't be undone"
                            (car (plist-get (agent-q-test-image-value
                                             connection "assess-form" :package "AQ-JOURNAL" :form form)
                                            :notes))))
    (agent-q-test-image-values connection form :package "AQ-JOURNAL"))
  (should (string-match-p "was not restored: The definition of a constant can't be undone"
                          (string-join (plist-get (agent-q-test-image-value connection "journal-restore")
                                                  :results)
                                       "\n")))
  (should (equal "(:OLD 1)" (agent-q-journal-test--in connection "(f 1)"))))

(agent-q-test-image-on-each what-fails-to-come-back-is-told ()
  "A definition that the implementation does not take back leaves the others alone."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--in connection "(defun h () 0)")
  (agent-q-test-image-values connection "(defun f (x) (list :new x)) (defun h () 1)"
                             :package "AQ-JOURNAL")
  (agent-q-test-image-directly
   connection "(push (lambda (&rest it) (error \"No way back for ~A\" it)) sb-int:*setf-fdefinition-hook*)")
  (let ((results (plist-get (agent-q-test-image-value connection "journal-restore") :results)))
    (agent-q-test-image-directly connection "(pop sb-int:*setf-fdefinition-hook*)")
    (should (= 2 (length results)))
    (dolist (result results)
      (should (string-match-p "was not restored: No way back" result))))
  (should (string-match-p "restored the previous"
                          (string-join (plist-get (agent-q-test-image-value connection "journal-restore")
                                                  :results)
                                       "\n")))
  (should (equal "(:OLD 1)" (agent-q-journal-test--in connection "(f 1)"))))

(agent-q-test-image-on-each changes-in-a-locked-package-come-back ()
  "A program may lock its package, as cl-who does, and what is defined in it is watched all the same."
  (agent-q-journal-test--start connection)
  (agent-q-test-image-directly connection "(sb-ext:lock-package :aq-journal)")
  (unwind-protect
      (let ((before (agent-q-journal-test--in connection agent-q-journal-test--state)))
        (agent-q-test-image-values
         connection "(defun f (x) (list :new x)) (defmethod g ((x integer)) :new) (defmacro m (x) x)
                     (defun (setf place) (new) new) (defparameter *v* :new) (deftype small () 'integer)
                     (defun locked () 1) (defsetf locked set-locked) (define-symbol-macro unlocked :new)"
         :package "AQ-JOURNAL")
        (should (= 9 (length (plist-get (agent-q-test-image-value connection "journal-restore") :ids))))
        (should (equal before (agent-q-journal-test--in connection agent-q-journal-test--state)))
        (should (equal "NIL" (agent-q-journal-test--in connection "(fboundp 'locked)"))))
    (agent-q-test-image-directly connection "(sb-ext:unlock-package :aq-journal)")))

(agent-q-test-image-on-each changes-through-macros-and-files-are-there ()
  "The journal has what macros and LOAD define, and what the compiler does."
  (agent-q-journal-test--start connection)
  (let ((file (expand-file-name "journal.lisp" agent-q-test-directory)))
    (with-temp-file file
      (insert "(in-package :aq-journal) (defun f (x) (list :by-file x)) (defparameter *v* :by-file)"))
    (agent-q-test-image-values connection "(define-f h) (set-v :by-macro)" :package "AQ-JOURNAL")
    (should (equal "(:BY-MACRO (:BY-MACRO 1))" (agent-q-journal-test--in connection "(list *v* (h 1))")))
    (agent-q-test-image-values connection (format "(load %S)" file) :package "AQ-JOURNAL")
    (should (equal "(:BY-FILE (:BY-FILE 1))" (agent-q-journal-test--in connection "(list *v* (f 1))")))
    (agent-q-test-image-value connection "compile-form"
                              :form "(defun f (x) (list :compiled x))" :package "AQ-JOURNAL")
    (should (equal "(:COMPILED 1)" (agent-q-journal-test--in connection "(f 1)")))
    (let ((value (agent-q-test-image-value connection "journal-undo" :name "f" :package "aq-journal")))
      (should (string-match-p "restored the previous" (car (plist-get value :results)))))
    (should (equal "(:BY-FILE 1)" (agent-q-journal-test--in connection "(f 1)")))
    ;; One method is named as elsewhere; what came after it stays.
    (agent-q-test-image-value connection "compile-form" :form "(defmethod g ((x integer)) :new)" :package "AQ-JOURNAL")
    (agent-q-test-image-value connection "compile-form" :form "(defmethod g ((x string)) :new)" :package "AQ-JOURNAL")
    (agent-q-test-image-value connection "journal-undo" :name "g (integer)" :package "aq-journal")
    (should (equal "(:OLD-INTEGER :NEW)" (agent-q-journal-test--in connection "(list (g 1) (g \"\"))")))
    (should (eq :missed (plist-get (agent-q-test-image-reply connection "journal-undo" :name "g (symbol)"
                                                             :package "aq-journal")
                                   :outcome)))
    (agent-q-test-image-value connection "journal-restore")
    (should (equal "(:OLD (:OLD 1) NIL)"
                   (agent-q-journal-test--in connection "(list *v* (f 1) (fboundp 'h))")))))

(agent-q-test-image-on-each what-others-changed-since-is-left-alone ()
  "A definition that the user made after the agent's stays."
  (agent-q-journal-test--start connection)
  (agent-q-test-image-values connection "(defun f (x) (list :agent x))" :package "AQ-JOURNAL")
  (agent-q-journal-test--in connection "(defun f (x) (list :user x))")
  (should (string-match-p "left alone"
                          (car (plist-get (agent-q-test-image-value connection "journal-restore")
                                          :results))))
  (should (equal "(:USER 1)" (agent-q-journal-test--in connection "(f 1)"))))

(defun agent-q-journal-test--watched (connection form chat)
  "Start to evaluate FORM over CONNECTION for CHAT, as chats do."
  (let ((ends (list nil)))
    (agent-q-image-call connection (gensym "request") "eval-form"
                        (list :form form :package "AQ-JOURNAL" :chat chat
                              :watch '(:patience 60))
                        60 (lambda (&rest end) (setcar ends end)))
    ends))

(agent-q-test-image-on-each what-others-define-meanwhile-is-theirs ()
  "It is no change of a call that ran at that time, be it the user's or another call's."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--in connection "(defvar *go* nil)")
  (let ((ends (agent-q-journal-test--watched
               connection "(defun own () 1) (loop until *go* do (sleep 0.01))" "A"))
        (running (lambda ()
                   (agent-q-journal-test--in connection "(fboundp 'own)"))))
    (agent-q-test-until (not (equal "NIL" (funcall running))))
    (agent-q-journal-test--in
     connection
     "(progn (defun precious () :hours) (defparameter *v* :by-user) (defmethod g ((x list)) :by-user)
             (defclass treasure () ()) (defmacro gem () 1) (define-f fine))")
    (agent-q-journal-test--watched connection "(defun f (x) (list :other x))" "B")
    (agent-q-test-until (equal "(:OTHER 1)" (agent-q-journal-test--in connection "(f 1)")))
    (agent-q-journal-test--in connection "(setf *go* t)")
    (agent-q-test-until (car ends)))
  (should (equal '("AQ-JOURNAL::OWN function new" "AQ-JOURNAL::F function redefined")
                 (remove "AQ-JOURNAL::*GO* variable changed"
                         (agent-q-journal-test--changes connection))))
  (agent-q-test-image-value connection "journal-restore" :chat "A")
  (should (equal "(:HOURS :BY-USER (:OTHER 1) :BY-USER)"
                 (agent-q-journal-test--in connection "(list (precious) *v* (f 1) (g '(1)))"))))

(agent-q-test-image-on-each what-others-defined-meanwhile-comes-back ()
  "A call that replaces what another one defined while it ran is undone to that, and each has its own change."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--in connection "(defvar *go* nil)")
  (let ((old (agent-q-journal-test--in connection "(f 1)"))
        (ends (agent-q-journal-test--watched
               connection "(defun own () 1) (loop until *go* do (sleep 0.01)) (defun f (x) (list :a x))" "A")))
    (agent-q-test-until (not (equal "NIL" (agent-q-journal-test--in connection "(fboundp 'own)"))))
    (let ((other (agent-q-journal-test--watched
                  connection
                  "(defun f (x) (list :b x)) (loop until (equal '(:a 1) (f 1)) do (sleep 0.01))" "B")))
      (agent-q-test-until (equal "(:B 1)" (agent-q-journal-test--in connection "(f 1)")))
      (agent-q-journal-test--in connection "(setf *go* t)")
      (agent-q-test-until (and (car ends) (car other))))
    (should (equal "(:A 1)" (agent-q-journal-test--in connection "(f 1)")))
    (agent-q-test-image-value connection "journal-restore" :chat "A")
    (should (equal "(:B 1)" (agent-q-journal-test--in connection "(f 1)")))
    (agent-q-test-image-value connection "journal-restore" :chat "B")
    (should (equal old (agent-q-journal-test--in connection "(f 1)")))))

(agent-q-test-image-on-each what-looks-plain-and-defines-is-journaled ()
  "Only forms that certainly define nothing are spared the comparison."
  (dolist (form '("(+ 1 2) (setf (symbol-function 'f) (lambda (x) (list :new x)))"
                  "defining-place"
                  "(list 1 (defining-function))"
                  "(let ((x (defining-function))) x)"
                  "(mapcar 'defining-function (list 1))"
                  "(+ 1 (m-defining))"))
    (agent-q-journal-test--start connection)
    (agent-q-journal-test--in
     connection
     "(progn (defun defining-function (&rest rest) (declare (ignore rest))
               (setf (symbol-function 'f) (lambda (x) (list :new x))))
             (defmacro m-defining () '(progn (defining-function) 1))
             (define-symbol-macro defining-place (defining-function)))")
    (agent-q-test-image-values connection form :package "AQ-JOURNAL")
    (should (equal '("AQ-JOURNAL::F function redefined")
                   (agent-q-journal-test--changes connection)))
    (agent-q-test-image-value connection "journal-restore")
    (should (equal "(:OLD 1)" (agent-q-journal-test--in connection "(f 1)")))))

(agent-q-test-image-on-each failing-and-cancelled-calls-are-journaled ()
  "What was defined before an error is in the journal."
  (agent-q-journal-test--start connection)
  (should (eq :error (plist-get (agent-q-test-image-eval
                                 connection "(defun f (x) (list :half x)) (error \"x\")"
                                 :package "AQ-JOURNAL")
                                :outcome)))
  (should (equal '("AQ-JOURNAL::F function redefined") (agent-q-journal-test--changes connection)))
  (should (eq :missed (plist-get (agent-q-test-image-reply connection "journal-undo" :name "car")
                                 :outcome))))

(agent-q-test-image-on-each class-layouts-are-told-and-not-restored ()
  "That slots can't be put back is said before and after."
  (agent-q-journal-test--start connection)
  (should (string-match-p "can't be undone"
                          (car (plist-get (agent-q-test-image-value
                                           connection "assess-form" :package "AQ-JOURNAL"
                                           :form "(defclass c () (a b))")
                                          :notes))))
  (should (string-match-p "superclasses of the class AQ-JOURNAL::C"
                          (car (plist-get (agent-q-test-image-value
                                           connection "assess-form" :package "AQ-JOURNAL"
                                           :form "(defclass c (structure-object) (a))")
                                          :notes))))
  (agent-q-test-image-values connection "(defclass c () (a b))" :package "AQ-JOURNAL")
  (should (member "AQ-JOURNAL::C class redefined" (agent-q-journal-test--changes connection)))
  (should (string-match-p "was not restored"
                          (string-join (plist-get (agent-q-test-image-value connection "journal-restore")
                                                  :results)
                                       "\n"))))

;; The program of the next two tests is loaded by the agent; then the agent changes it.
(defun agent-q-journal-test--load ()
  "Have a file with conditions and classes loaded in this chat, and return its name."
  (let ((file (expand-file-name "loaded.lisp" agent-q-test-directory)))
    (with-temp-file file
      (insert "(in-package :aq-journal)
(define-condition refused (error) ((why :initarg :why))
  (:report (lambda (it stream) (declare (ignore it)) (write-string \"old words\" stream)))
  (:documentation \"Old.\"))
(defclass counted () ((size :initarg :size)) (:default-initargs :size 1) (:documentation \"Old.\"))
(defstruct plain \"Old.\" x)
(defun from-file () :file) (defun from-file-too () :file)"))
    (agent-q-test-tools-ask (format "/eval_form package=aq-journal (load %S)" file))
    file))

(defun agent-q-journal-test--outcome ()
  "Return how the latest call of the chat ended."
  (let ((latest nil))
    (maphash (lambda (key call)
               (when (or (null latest) (> key (agent-q-call-key latest)))
                 (setq latest call)))
             agent-q-call-table)
    (agent-q-call-state latest)))

(agent-q-test-tools-on-each journal-puts-options-of-classes-back ()
  "What a class says beside its slots is put back; the class itself stays."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--load)
  (let ((state "(list (princ-to-string (make-condition 'refused :why 1))
                      (slot-value (make-instance 'counted) 'size)
                      (documentation 'refused 'type) (documentation 'counted 'type)
                      (documentation 'plain 'structure))"))
    (cl-flet ((evaluate (form)
                (agent-q-test-tools-ask (concat "/eval_form package=aq-journal " form)))
              (undo (name)
                (agent-q-test-tools-ask (concat "/undo_definition aq-journal::" name))))
      (evaluate "(define-condition refused (error) ((why :initarg :why)) (:report \"new words\") (:documentation \"New.\"))")
      (evaluate "(defclass counted () ((size :initarg :size)) (:default-initargs :size 2) (:documentation \"New.\"))")
      (evaluate "(setf (documentation 'plain 'type) \"New.\")")
      (should (equal "(\"new words\" 2 \"New.\" \"New.\" \"New.\")"
                     (agent-q-journal-test--in connection state)))
      (should (equal "AQ-JOURNAL::REFUSED: restored its previous documentation and report."
                     (undo "refused")))
      (should (equal "AQ-JOURNAL::COUNTED: restored its previous documentation and default initargs."
                     (undo "counted")))
      (should (string-match-p "PLAIN: restored its previous documentation" (undo "plain")))
      (should (equal "(\"old words\" 1 \"Old.\" \"Old.\" \"Old.\")"
                     (agent-q-journal-test--in connection state)))
      ;; What remains of the name came from the file.
      (should (string-match-p "REFUSED was not undone: it came from a file, by (load .*load it again"
                              (undo "refused")))
      (evaluate "(defclass counted () ((size :initarg :size) more))")
      (should (string-match-p "COUNTED was not restored: The slots" (undo "counted")))
      (should (eq 'failed (agent-q-journal-test--outcome)))
      (should (equal "\"old words\"" (agent-q-journal-test--in
                                      connection "(princ-to-string (make-condition 'refused))"))))))

(agent-q-test-tools-on-each journal-leaves-what-files-define ()
  "A definition that a file brought is not removed by undoing those that the agent made of it."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--in connection "(defun from-file () :before)")
  (let ((file (agent-q-journal-test--load)))
    (cl-flet ((undo () (agent-q-test-tools-ask "/undo_definition aq-journal::from-file"))
              (value () (agent-q-journal-test--in connection "(from-file)")))
      (agent-q-test-tools-ask "/eval_form package=aq-journal (defun from-file () :agent)")
      (should (string-match-p "restored the previous" (undo)))
      (dotimes (_ 2)
        (should (string-match-p "FROM-FILE was not undone: it came from a file, by (load "
                                (undo)))
        (should (equal ":FILE" (value))))
      ;; However the file is loaded.
      (agent-q-journal-test--in connection
                                (format "(defun bring () (funcall 'load (compile-file %S)))" file))
      (agent-q-journal-test--in connection "(fmakunbound 'from-file-too)")
      (agent-q-test-tools-ask "/eval_form package=aq-journal (bring)")
      (should (string-match-p "FROM-FILE-TOO was not undone: it came from a file"
                              (agent-q-test-tools-ask "/undo_definition aq-journal::from-file-too")))
      ;; The user may have all of it undone.
      (agent-q-test-image-value connection "journal-restore")
      (should (equal ":BEFORE" (value))))))

(defun agent-q-journal-test--system (connection)
  "Make a system of 3 files with 1204 definitions known behind CONNECTION."
  (let ((folder (file-name-as-directory (make-temp-file (expand-file-name "big" agent-q-test-directory) t))))
    (with-temp-file (expand-file-name "aq-big.asd" folder)
      (insert "(asdf:defsystem \"aq-big\" :serial t :components ((:file \"a\") (:file \"b\") (:file \"c\")))"))
    (dolist (file '("a" "b" "c"))
      (with-temp-file (expand-file-name (concat file ".lisp") folder)
        (insert "(in-package :aq-journal)\n(defun f (x) (list :big x))\n")
        (dotimes (i 400) (insert (format "(defun big-%s-%d () %d)\n" file i i)))))
    (agent-q-test-image-directly
     connection (format "(progn (require :asdf) (asdf:load-asd %S) t)"
                        (expand-file-name "aq-big.asd" folder)))
    folder))

(agent-q-test-tools-on-each journal-has-a-load-as-one-change ()
  "It pushes nothing out, is not undone, and what a form changed is listed before it."
  (agent-q-journal-test--start connection)
  (agent-q-journal-test--system connection)
  (agent-q-test-tools-ask "/compile_form package=aq-journal (defun m2 (x) (list :new x))")
  (agent-q-test-tools-ask "/eval_form package=aq-journal (defparameter *v* :agent)")
  ;; So it is with a restart to invoke.
  (should (string-match-p "Loaded aq-big"
                          (agent-q-test-tools-ask "/load_system aq-big restart=continue")))
  (let ((changes (agent-q-journal-test--changes connection)))
    (should (equal changes '("load_system aq-big continue load 3 files, 1201 definitions, 1 redefined"
                             "AQ-JOURNAL::*V* variable changed" "AQ-JOURNAL::M2 function new"))))
  (should (string-match-p "AQ-JOURNAL::F was not undone: it came from a file, by load_system aq-big continue\\."
                          (agent-q-test-tools-ask "/undo_definition aq-journal::f")))
  (agent-q-test-tools-ask "/undo_definition aq-journal::*v*")
  (should (equal "(:OLD (:BIG 1) T)"
                 (agent-q-journal-test--in connection "(list *v* (f 1) (and (fboundp 'big-c-399) t))")))
  (agent-q-test-image-value connection "journal-restore")
  (should (equal "(NIL T)" (agent-q-journal-test--in
                            connection "(list (fboundp 'm2) (and (fboundp 'big-c-399) t))")))
  (save-window-excursion
    (agent-q-changes-in-image)
    (agent-q-test-until (agent-q-test-shows "load_system aq-big"))
    (should (string-match-p "\\*V\\*\\(?:.\\|\n\\)*load_system aq-big .*3 files" (buffer-string)))
    (kill-buffer)))

(agent-q-test-image-on-each the-journal-keeps-what-forms-changed-longest ()
  "And the list says what it leaves out."
  (agent-q-journal-test--start connection)
  (agent-q-test-image-values connection "(defun f (x) (list :agent x))" :package "AQ-JOURNAL")
  (agent-q-test-image-values
   connection
   "(agent-q-image::call-with-lock
      (lambda ()
        (dotimes (i 1100)
          (agent-q-image::add-change :function (intern (format nil \"AQ-X~D\" i)) #'car #'cdr \"(load 1)\" t))
        (agent-q-image::cut-journal)))"
   :package "AQ-JOURNAL")
  (let ((value (agent-q-test-image-value connection "journal-list")))
    (should (equal 1000 (plist-get value :total)))
    (should (plist-get value :cut))
    (should (equal ", 200 of 1000 shown, earlier ones aren't kept" (agent-q-changes--image-shown value))))
  (should (string-match-p "restored the previous"
                          (car (plist-get (agent-q-test-image-value connection "journal-undo"
                                                                    :name "f" :package "aq-journal")
                                          :results)))))

(agent-q-test-image-on-each the-list-shows-and-restores ()
  "The command lists the changes with their source; a key restores one."
  (agent-q-journal-test--start connection)
  (agent-q-test-image-values connection "(defun f (x) (list :listed x)) (setf *v* :listed)"
                             :package "AQ-JOURNAL")
  (let ((agent-q-session-connection connection)
        (inhibit-message t))
    (save-window-excursion
      (agent-q-changes-in-image)
      (with-current-buffer "*agent-q image changes*"
        (agent-q-test-until (and tabulated-list-entries (agent-q-test-shows "AQ-JOURNAL::F")))
        (agent-q-test-find "AQ-JOURNAL::F")
        (save-window-excursion
          (agent-q-changes-image-source)
          (with-current-buffer "*agent-q change*"
            (should (agent-q-test-shows "(defun f (x) (list :listed x))"))
            ;; Its names and places lead somewhere.
            (agent-q-test-find "list :listed")
            (should (eq #'agent-q-names-find-definition (key-binding (kbd "M-."))))
            (should (equal connection agent-q-session-connection))))
        (agent-q-changes-image-restore)
        (agent-q-test-until (agent-q-test-shows "undone"))
        (should (equal "((:OLD 1) :LISTED)"
                       (agent-q-journal-test--in connection "(list (f 1) *v*)"))))
      (kill-buffer "*agent-q image changes*"))))

(defun agent-q-journal-test--listed (condition)
  "Wait until the list of changes is as the function CONDITION wants, and return its rows.
CONDITION gets the rows: definition of each, and its chat where that is told."
  (let ((rows nil))
    (agent-q-test-until
     (funcall condition
              (setq rows (mapcar (lambda (entry)
                                   (let ((row (append (cadr entry) nil)))
                                     (cons (car row) (butlast (nthcdr 5 row)))))
                                 (and agent-q-text--list-rows (funcall agent-q-text--list-rows))))))
    rows))

(agent-q-test-tools-on-each journal-is-kept-by-chat ()
  "A chat lists, restores and undoes its own changes; a key lists those of all."
  (agent-q-journal-test--start connection)
  (agent-q-test-tools-ask "/eval_form package=aq-journal (defun f (x) (list :one x))" chat)
  (let ((other (agent-q-chat-open t)))
    (unwind-protect
        (progn
          (with-current-buffer other
            (agent-q-chat-set-connection connection)
            (agent-q-test-tools-ask "/compile_form package=aq-journal (defun h (x) (list :other x))")
            ;; What another chat has changed is not this one's to undo.
            (should (string-match-p "another chat has"
                                    (agent-q-test-tools-ask "/undo_definition aq-journal::f"))))
          (should (equal "(:ONE 1)" (agent-q-journal-test--in connection "(f 1)")))
          (save-window-excursion
            (with-current-buffer chat
              (agent-q-changes-in-image))
            (with-current-buffer "*agent-q image changes*"
              (should (equal '(("AQ-JOURNAL::F"))
                             (agent-q-journal-test--listed #'identity)))
              (agent-q-test-press "a")
              (should (equal `(("AQ-JOURNAL::H" ,(buffer-name other))
                               ("AQ-JOURNAL::F" ,(buffer-name chat)))
                             (agent-q-journal-test--listed #'cdr)))
              ;; Whose change it is fits a narrow window, too.
              (cl-letf (((symbol-function 'agent-q-text--list-width) (lambda () 80)))
                (revert-buffer))
              (should (agent-q-test-until (agent-q-test-shows (buffer-name chat))))
              (agent-q-test-press "a")
              (agent-q-journal-test--listed (lambda (rows) (= 1 (length rows))))
              ;; Restoring all that is listed leaves the other chat's alone.
              (cl-letf (((symbol-function 'yes-or-no-p) (lambda (&rest _) t)))
                (agent-q-test-press "U"))
              (agent-q-test-until (agent-q-test-shows "undone"))
              (should (equal "((:OLD 1) (:OTHER 1))"
                             (agent-q-journal-test--in connection "(list (f 1) (h 1))")))))
          ;; The chat says so, too.
          (with-current-buffer chat
            (agent-q-test-until (string-match-p "Changed .*AQ-JOURNAL::F.*(undone)" (agent-q-test-log))))
          ;; One's own change under that of another chat is left alone, too.
          (agent-q-test-tools-ask "/eval_form package=aq-journal (defun f (x) (list :one x))" chat)
          (agent-q-test-tools-ask "/eval_form package=aq-journal (defun f (x) (list :two x))" other)
          (should (string-match-p "left alone"
                                  (agent-q-test-tools-ask "/undo_definition aq-journal::f" chat)))
          (should (string-match-p "restored the previous"
                                  (agent-q-test-tools-ask "/undo_definition aq-journal::f" other)))
          (should (string-match-p "restored the previous"
                                  (agent-q-test-tools-ask "/undo_definition aq-journal::f" chat)))
          (should (equal "(:OLD 1)" (agent-q-journal-test--in connection "(f 1)"))))
      (kill-buffer other)
      (when (get-buffer "*agent-q image changes*")
        (kill-buffer "*agent-q image changes*")))))

(provide 'agent-q-journal-test)
;;; agent-q-journal-test.el ends here
