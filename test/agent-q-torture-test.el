;;; agent-q-torture-test.el --- Code that does its worst to an image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Forms that do not end, fill the memory, print without end, fail in any way or
;; kill what runs them, evaluated from a chat on real SBCL through SLIME and SLY.
;; After each the image answers as before, and no debugger is open.

;;; Code:

(require 'agent-q-test-tools)

(defun agent-q-torture-test--calm (connection line)
  "Check that after LINE the image behind CONNECTION is as before."
  (ert-info (line)
    (should-not (agent-q-test-image-debugged))
    (should (equal "=> 3" (agent-q-test-tools-ask "/eval_form (+ 1 2)")))
    (should (equal "42" (agent-q-test-image-directly connection "(+ 40 2)")))
    (should-not (agent-q-test-image-debugged))))

(defun agent-q-torture-test--rows (connection &rest rows)
  "Call each tool of ROWS in the current chat, about the image behind CONNECTION.
A row is a console line and a regexp for the whole of the answer."
  (pcase-dolist (`(,line ,regexp) rows)
    (let ((answer (agent-q-test-tools-ask line)))
      (unless (string-match-p (concat "\\`\\(?:" regexp "\\)") answer)
        (ert-fail (list line regexp answer)))
      (should (< (length answer) 16384)))
    (agent-q-torture-test--calm connection line)))

(defconst agent-q-torture-test--any "\\(?:.\\|\n\\)*"
  "A regexp for any text.")

(defun agent-q-torture-test--stopped (form &optional output)
  "Return the row of FORM, which has to be stopped, and of its OUTPUT."
  (list (concat "/eval_form timeout=0.3 " form)
        (concat "Stopped before finishing: timed out after 0.3 s\\(?:; its cleanup didn't end and was left out\\| (the image allocated .*)\\)?\\."
                (and output (concat agent-q-torture-test--any "Output:\n" output "\\'")))))

;;;; What does not end

(agent-q-test-tools-on-each torture-endless ()
  "Code that does not end is stopped, whatever it handles; what it printed is kept."
  ;; While an image still compiles our half, that takes a part of the time that they have.
  (agent-q-torture-test--rows connection '("/eval_form (progn (princ 1) (+ 1 2))" "=> 3"))
  (should (agent-q-test-image-await
           (lambda ()
             (equal "NIL" (agent-q-test-image-directly
                           connection
                           "(symbol-value (find-symbol \"*COMPILING*\" \"AGENT-Q-IMAGE\"))")))))
  (agent-q-test-tools-unasked
   (apply #'agent-q-torture-test--rows connection
         (mapcar
          (lambda (case) (apply #'agent-q-torture-test--stopped case))
          '(("(progn (princ \"begun\") (loop))" "begun")
            ("(progn (princ \"begun\") (sleep 100))" "begun")
            ("(let ((it 3)) (loop (setf it (* it it))))")
            ("(progn (princ \"begun\") (loop (handler-case (loop) (serious-condition () nil))))"
             "begun")
            ("(progn (princ \"begun\") (loop (ignore-errors (loop))))" "begun")
            ("(progn (princ \"begun\") (unwind-protect (loop) (princ \" cleaned\")))"
             "begun cleaned")
            ("(progn (princ \"begun\") (unwind-protect (loop) (loop)))" "begun")
            ;; A clean-up form that calls off the stop.
            ("(progn (princ \"begun\") (loop (block nil (unwind-protect (unwind-protect (loop) (loop)) (return)))))"
             "begun")
            ("(labels ((f () (unwind-protect (loop) (f)))) (f))")
            ("(tagbody again (unwind-protect (loop (sleep 0.05)) (go again)))")
            ("(block nil (tagbody again (unwind-protect (loop) (go again))))")
            ("(defclass aq-slow () ())
              (defmethod print-object ((it aq-slow) stream) (princ \"begun\") (loop))
              (make-instance 'aq-slow)"
             "begun")))))
  ;; What had been evaluated when its printer was stopped can be looked into.
  (should (string-match-p "^The form was evaluated, but printing its values did not finish: AQ-SLOW \\[v[0-9]+\\]$"
                          (agent-q-test-tools-ask
                           "/eval_form timeout=0.3 (make-instance 'aq-slow)")))
  ;; The one that asks is the only one left.
  (should (equal '("1") (agent-q-test-image-values
                         connection "(count \"eval-form\" agent-q-image::*running* :key #'fourth :test #'equal)"))))

(agent-q-test-tools-on-each torture-without-interrupts ()
  "What can't be stopped is given up with a sentence; the image still serves others."
  (agent-q-test-image-values connection "(defvar *aq-release* nil)")
  (unwind-protect
      (agent-q-torture-test--rows
       connection
       (list "/eval_form timeout=0.2 (sb-sys:without-interrupts (loop until *aq-release*))"
             "The call doesn't react to a request to stop: it runs without interrupts or in foreign code\\. The image answers other calls\\."))
    (agent-q-test-image-values connection "(setf *aq-release* t)")
    (agent-q-test-until
     (equal '("1") (agent-q-test-image-values
                    connection "(count \"eval-form\" agent-q-image::*running* :key #'fourth :test #'equal)")))))

;;;; What uses up everything

(agent-q-test-tools-on-each torture-exhaustion ()
  "A stack or a heap that is used up at once is an error as others are."
  (agent-q-torture-test--rows
   connection
   '("/eval_form (labels ((f (x) (1+ (f x)))) (f 1))" "Error .*EXHAUSTED")
   ;; SBCL gives the stack to the next thread: what guards it has to be as it was.
   '("/eval_form (labels ((f (x) (1+ (f x)))) (handler-case (f 1) (storage-condition () :mine)))"
     "=> :MINE")
   '("/eval_form (labels ((f (x) (1+ (f x)))) (f 1))" "Error .*EXHAUSTED")
   '("/eval_form (make-array (expt 10 11))" "Error .*HEAP-EXHAUSTED")))

(agent-q-test-tools-on-each torture-heap-filled-slowly ()
  "A heap that fills bit by bit may cost the image; then the user is told what it said last."
  (let ((small (agent-q-test-image-another
                client '("sbcl" "--dynamic-space-size" "200MB" "--no-userinit" "--no-sysinit"))))
    (unwind-protect
        (progn
          (agent-q-chat-set-connection small)
          (should (equal "=> 3" (agent-q-test-tools-ask "/eval_form (+ 1 2)")))
          (let ((answer (agent-q-test-tools-ask
                         "/eval_form timeout=3 (let ((all '())) (loop (push (make-array 10000) all)))")))
            ;; Collecting garbage ever more often, it may also be stopped in time.
            (if (string-match-p "\\`\\(?:Error .*HEAP-EXHAUSTED\\|Stopped before\\)" answer)
                (should (equal "=> 3" (agent-q-test-tools-ask "/eval_form (+ 1 2)")))
              (should (string-match-p "does not answer\\|was lost" answer))
              (should (string-match-p "Its last output in " answer))
              (should (string-match-p "[Hh]eap exhausted\\|fatal error encountered in SBCL" answer)))))
      (agent-q-chat-set-connection connection)
      (agent-q-test-image-kill small)))
  (agent-q-torture-test--calm connection "another image"))

(agent-q-test-tools-on-each torture-a-crashed-lisp-is-gone ()
  "A Lisp that SBCL's low-level debugger has is said to be gone, at once and without a question."
  (let ((crashed (agent-q-test-image-another client)) (chat (current-buffer)))
    (unwind-protect
        (progn
          (agent-q-chat-set-connection crashed)
          (agent-q-connection-ask crashed :rex
                                  '(cl:eval (cl:read-from-string
                                             "(sb-alien:alien-funcall
                                          (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string))
                                          \"aq\")"))
                                  t #'ignore)
          (if (agent-q-test-image-await
               (lambda () (or (agent-q-connection-crash crashed)
                              (not (agent-q-connection-live-p crashed)))))
              (dolist (line '("/eval_form (+ 1 2)" "/describe_symbol car" "/eval_form (open \"x\" :direction :output)"))
                (agent-q-test-send line)
                (agent-q-test-until (agent-q-test-idle-p))
                (let ((text (agent-q-call-content (car (last (agent-q-test-calls))))))
                  (should (string-match-p
                           (if (agent-q-connection-live-p crashed)
                               "This Lisp has crashed and no longer answers: kill .*, and start another with M-x "
                             "No Lisp image\\|lost")
                           text))))
            (ert-fail "The Lisp goes on")))
      (agent-q-chat-set-connection connection)
      (agent-q-test-image-kill crashed)
      ;; SLY shows the REPL that is gone.
      (switch-to-buffer chat)
      (goto-char (point-max))))
  (agent-q-torture-test--calm connection "another image"))

;;;; What is hard to print

(agent-q-test-tools-on-each torture-printing ()
  "Values that are circular, huge, deep or fail to print are harmless, and so is much output."
  (agent-q-test-image-define connection)
  (agent-q-torture-test--rows
   connection
   '("/eval_form (values)" "=> no values\\'")
   '("/eval_form (let ((it (vector))) (list 3 it it))" "=> (3 #() #())")
   '("/eval_form (let ((it (list 1))) (setf (cdr it) it))" "=> #1=(1 \\. #1#)")
   '("/eval_form (let ((it (list '||))) (setf (cdr it) it))" "=> #1=(|| \\. #1#)")
   '("/eval_form (let ((it (list 1))) (setf (car it) it))" "=> #1=(#1#)")
   '("/eval_form (list \"one\" 'two :three #\\4 5)" "=> (\"one\" TWO :THREE #\\\\4 5)\\'")
   '("/eval_form (make-list 1000000)" "=> (NIL NIL")
   '("/eval_form (make-string 3000000 :initial-element #\\x)" "=> \"xxx")
   '("/eval_form (list (make-string 50000000 :initial-element #\\x) 1)" "=> (\"xxx")
   '("/eval_form (let ((it nil)) (dotimes (i 100000 it) (setf it (list it))))" "=> (((")
   '("/eval_form (make-array 100000)" "=> #(0 0")
   '("/eval_form (expt 7 100000)" "=> [0-9]\\{50\\}")
   '("/eval_form (make-instance 'aq-test::touchy)" "=> #<AQ-TEST::TOUCHY whose printer failed")
   ;; SBCL lets programs print its own characters, strings and lists.
   '("/eval_form (progn (defvar *aq-own* (find-method #'print-object nil (list (find-class 'character) (find-class t)))) (defmethod print-object ((it character) stream) (error \"no character\")))"
     "=> #<STANDARD-METHOD")
   '("/eval_form (list 1 #\\x)"
     "=> (1 #<[A-Z:-]+ whose printer failed: SIMPLE-ERROR>)")
   '("/eval_form (progn (add-method #'print-object *aq-own*) #\\x)"
     "=> #\\\\x")
   '("/eval_form (list 1 (make-instance 'aq-test::touchy) '(2 3))"
     "=> (1 #<AQ-TEST::TOUCHY whose printer failed: SIMPLE-ERROR> (2 3)) \\[v[0-9]+\\]\\'")
   '("/eval_form (progn (defclass aq-chatty () ()) (defmethod print-object ((it aq-chatty) stream) (loop (write-string \"never \" stream))) (list (make-instance 'aq-chatty)))"
     "=> (never never .*\\[cut\\] \\[v[0-9]+\\]\\'")
   '("/eval_form (defclass aq-endless () ())
      (defmethod print-object ((it aq-endless) stream) (loop (write-char #\\x stream)))
      (make-instance 'aq-endless)"
     "\\(?:.\\|\n\\)*=> x\\{1000\\}")
   '("/eval_form (define-condition aq-endless-report (error) ()
                   (:report (lambda (it stream) it (loop (write-string \"abc\" stream)))))
      (error 'aq-endless-report)"
     "Error AQ-ENDLESS-REPORT: \\(?:abc\\)\\{300\\}")
   `("/eval_form (dotimes (i 1000000) (write-char #\\x))"
     ,(concat "=> NIL\nOutput:\n" agent-q-torture-test--any
              "992000 characters of output omitted"))))

;;;; What fails

(agent-q-test-tools-on-each torture-failures ()
  "However code fails, the call ends with what happened."
  (agent-q-test-image-define connection)
  (agent-q-torture-test--rows
   connection
   '("/eval_form (break)" "Error SIMPLE-CONDITION: break")
   '("/eval_form (signal 'error)" "=> NIL\\'")
   '("/eval_form (error 'aq-test::trouble)" "Error AQ-TEST::TROUBLE")
   '("/eval_form (invoke-debugger (make-condition 'simple-error :format-control \"hi\"))"
     "Error SIMPLE-ERROR: hi")
   '("/eval_form (let ((*break-on-signals* 'error)) (ignore-errors (error \"deep\")))"
     "Error SIMPLE-CONDITION: .*deep")
   '("/eval_form (list 1" "Error END-OF-FILE: .*line 1.*not closed")
   '("/eval_form 1\n2\n(list \"a)" "Error END-OF-FILE: Form 3, which starts at line 3")
   '("/eval_form (list 1\n 2)\n(list\n 3\n (no-such-package:thing)\n 4)"
     "Error .*: Form 2, which starts at line 3, can't be read at line 5: \\(.*\n\\)*(no-such-package:thing)")
   '("/eval_form (no-such-package:thing)\n1" "Error .*: Form 1, which starts at line 1, can't be read: ")
   '("/eval_form (no-such-package:thing)" "Error .*PACKAGE.*NO-SUCH-PACKAGE")
   '("/eval_form )" "Error .*READER-ERROR.*parenthesis")
   '("/eval_form #<foo>" "Error .*READER-ERROR.*can't be read")))

(agent-q-test-tools-on-each torture-reading-runs-nothing ()
  "A tool that only looks does not evaluate while it reads."
  (agent-q-torture-test--rows
   connection
   '("/macroexpand_form #.(defparameter cl-user::*aq-read* 1)" ".*#\\. is not allowed here"))
  (should (equal "NIL" (agent-q-test-image-directly
                        connection "(boundp (intern \"*AQ-READ*\" :cl-user))"))))

(agent-q-test-tools-on-each torture-reading-is-as-before ()
  "How a call has text read does not outlast it."
  (agent-q-torture-test--rows
   connection
   '("/eval_form (setf *read-base* 2) 101" ".*\n=> 2\n101\n=> 5")
   '("/eval_form (setf *read-suppress* t) (+ 1 2)" "\\(?:.\\|\n\\)*")
   '("/eval_form (setf *readtable* (copy-readtable nil)) (setf (readtable-case *readtable*) :preserve)"
     "\\(?:.\\|\n\\)*=> :PRESERVE")
   '("/eval_form 12" "=> 12\\'"))
  (should (equal "12" (agent-q-test-image-directly connection "12"))))

(agent-q-test-tools-on-each torture-packages ()
  "A form may be in a package that the form before it makes."
  (agent-q-torture-test--rows
   connection
   `("/eval_form (defpackage #:aq-made (:use #:cl)) (in-package #:aq-made)
; a comment
(defun made () 'inside) (made)"
     ,(concat agent-q-torture-test--any "=> INSIDE\n" agent-q-torture-test--any
              "Ended in package AQ-MADE")))
  (should (equal "AQ-MADE::INSIDE" (agent-q-test-image-directly connection "(aq-made::made)")))
  (agent-q-test-image-directly connection "(delete-package :aq-made)"))

;;;; What kills

(agent-q-test-tools-on-each torture-killed-thread ()
  "A thread that is killed, by itself or by others, ends its call."
  (agent-q-torture-test--rows
   connection
   '("/eval_form (sb-thread:abort-thread)" "The Lisp side aborted the call: its thread ended")
   '("/eval_form (sb-thread:terminate-thread sb-thread:*current-thread*)"
     "The Lisp side aborted the call: its thread ended"))
  (let ((started (agent-q-test-image-start connection "(sleep 100)")))
    (agent-q-test-until
     (equal '("2") (agent-q-test-image-values
                    connection "(count \"eval-form\" agent-q-image::*running*
                                        :key #'fourth :test #'equal)")))
    (agent-q-test-image-directly
     connection "(sb-thread:terminate-thread (second (find \"eval-form\" agent-q-image::*running* :key #'fourth :test #'equal)))")
    (should (equal "aborted" (car (agent-q-test-image-end started))))
    (agent-q-torture-test--calm connection "a killed thread")))

(agent-q-test-tools-on-each torture-dead-image ()
  "When the Lisp dies in the middle of calls, each ends once, and later ones at once."
  (let ((calls (list (agent-q-test-image-start connection "(loop)")
                     (agent-q-test-image-start connection "(sleep 100)"))))
    (agent-q-test-send "/eval_form (sleep 100)")
    ;; Before it runs, it is assessed.
    (agent-q-test-until
     (let ((call (car (agent-q-test-calls))))
       (and call (eq 'running (agent-q-call-state call)))))
    (agent-q-test-until
     (equal '("4") (agent-q-test-image-values
                    connection "(count \"eval-form\" agent-q-image::*running* :key #'fourth :test #'equal)")))
    (agent-q-test-image-directly
     connection "(progn (format sb-sys:*stdout* \"~&aq-last-words~%\") (finish-output sb-sys:*stdout*))")
    (signal-process (agent-q-test-image-process connection) 'SIGKILL)
    (dolist (call calls)
      (should (equal "disconnected" (car (agent-q-test-image-end call)))))
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p
             (concat "\\`The connection to the Lisp image was lost during the call\\. "
                     "Its last output in .*:\n" agent-q-torture-test--any "aq-last-words")
             (agent-q-test-tools-answer))))
  (should (equal '("no-connection") (agent-q-test-image-call connection "eval-form" nil)))
  (should-not (member connection (agent-q-connection-connections))))

(provide 'agent-q-torture-test)
;;; agent-q-torture-test.el ends here
