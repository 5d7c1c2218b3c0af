;;; agent-q-assess-test.el --- Code is assessed before it runs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Everyday forms must not ask, hostile ones must, and none may run while it is
;; looked at.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-assess)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)
(require 'agent-q-rules)

(agent-q-test-image-on-each everyday-forms-do-not-ask ()
  "Five hundred forms as people write them raise no alarm.
Nor does what is looked at again in its turn."
  (agent-q-test-assess-prepare connection)
  (let ((forms (agent-q-test-assess-fixture-forms "everyday.txt" connection)))
    (should (>= (length forms) 500))
    (pcase-let ((`(,steps . ,alarms) (agent-q-test-assess-alarms connection forms)))
      (should-not alarms)
      (should (>= steps 5)))))

(agent-q-test-image-on-each few-everyday-forms-ask ()
  "Of five hundred forms that nobody wrote for the tables one in a hundred may ask."
  (agent-q-test-assess-prepare connection)
  (let* ((forms (agent-q-test-assess-fixture-forms "everyday-more.txt" connection))
         (alarms (cdr (agent-q-test-assess-alarms connection forms))))
    (should (>= (length forms) 500))
    (ert-info ((format "%S" alarms))
      (should (<= (* 100 (length alarms)) (length forms))))))

;; These were written by one who had to find false alarms.
(agent-q-test-image-on-each few-forms-of-a-reviewer-ask ()
  "Of forms that others send all day one in a hundred may ask."
  (agent-q-test-assess-prepare connection)
  (let* ((forms (agent-q-test-assess-fixture-forms "everyday-review.txt" connection))
         (alarms (cdr (agent-q-test-assess-alarms connection forms))))
    (should (>= (length forms) 150))
    (ert-info ((format "%S" alarms))
      (should (<= (* 100 (length alarms)) (length forms))))))

(agent-q-test-image-on-each reading-a-variable-runs-nothing ()
  "A #. before the name of a variable gives its value, which is looked at like other code."
  (agent-q-test-image-values
   connection "(defparameter cl-user::*aq-settings* '(optimize (speed 1)))
               (defparameter cl-user::*aq-harm* '(delete-file \"/nowhere\"))
               (defparameter cl-user::*aq-object* (make-hash-table))")
  (let ((form "(funcall (lambda (x) (declare #.cl-user::*aq-settings*) (list x '#.cl-user::*aq-settings*)) 1)"))
    (should-not (agent-q-test-assess-hit-p connection form))
    (should (equal '("(1 (OPTIMIZE (SPEED 1)))")
                   (agent-q-test-image-values connection form :assessed 1))))
  (dolist (form '("(list #.cl-user::*aq-harm*)" "(list #.cl-user::*aq-object*)"
                  "(list #.cl-user::*aq-nothing*)" "(list #.(print 1) #.cl-user::*aq-settings*)"))
    (should (agent-q-test-assess-hit-p connection form))))

(agent-q-test-image-on-each reading-what-literals-make-runs-nothing ()
  "A #. before pure functions of constants gives their value; what looks at more, or has no end, asks."
  (dolist (form '("(char= #.(char \"\\\"\" 0) #\\a)" "(list #.(code-char 13) #.array-dimension-limit)"
                  "(min #.most-positive-fixnum #.(1- (expt 2 62)))"
                  "(aref #.(coerce #(1 2 3) '(vector (unsigned-byte 8))) 0)"
                  "(list '#.(list :a (if nil 1 'b)) #+#.(cl:if (cl:= 1 2) '(and) '(or)) 2)"))
    (ert-info (form) (should-not (agent-q-test-assess-hit-p connection form))))
  (dolist (form '("#.(list 'delete-file \"/nowhere\")" "(list #.(print 1))" "(list #.(cl-user::f 1))"
                  "(list #.(expt 2 (expt 10 10)))" "(list #.(ash 1 99999))" "(list #.(find-package :cl))"
                  "(list #.(if (fboundp 'cl-user::f) 1 2))" "(list #.(coerce '(lambda ()) 'function))"
                  "(list #.(coerce '(1) 'cl-user::odd))" "(list #.(list '#.(print 1)))"
                  "(list #.(mapcar 'print '(1)))" "(list #.(funcall 'print 1))"))
    (ert-info (form) (should (agent-q-test-assess-hit-p connection form)))))

(agent-q-test-image-on-each a-hit-quotes-a-backquote-as-it-is-written ()
  "A reason shows code that people can read."
  (should (string-search "RUN-PROGRAM `(\"ls\" ,(FIRST X) ,@Y))"
                         (car (plist-get (agent-q-test-assess-form
                                          connection "(uiop:run-program `(\"ls\" ,(first x) ,@y))")
                                         :hits)))))

(agent-q-test-image-on-each a-chats-own-package-may-go ()
  "Deleting a package asks but for one that this chat made and that no other package uses."
  (agent-q-test-image-values connection "(defpackage :aq-own (:use))" :chat "one")
  (agent-q-test-image-values connection "(defpackage :aq-theirs (:use))")
  (cl-flet ((hit-p (form chat)
              (not (null (plist-get (agent-q-test-assess-form connection form :chat chat) :hits)))))
    (should-not (hit-p "(delete-package :aq-own)" "one"))
    (should-not (hit-p "(when (find-package '#:aq-own) (delete-package \"AQ-OWN\"))" "one"))
    (should (hit-p "(delete-package :aq-own)" "two"))
    (should (hit-p "(delete-package :aq-own)" nil))
    (should (hit-p "(delete-package :aq-theirs)" "one"))
    (should (hit-p "(delete-package (find-package :aq-own))" "one"))
    (agent-q-test-image-values connection "(defpackage :aq-user (:use :aq-own))")
    ;; They stay: the clients go through all packages once there is a new one.
    (should (hit-p "(delete-package :aq-own)" "one"))))

(agent-q-test-image-on-each a-package-in-the-place-of-a-library-is-the-chats ()
  "Defining what a library that reaches outside defines asks, unless the chat made its package."
  (agent-q-test-image-values
   connection "(defpackage :iolib.os (:use :cl)) (defun iolib.os::aq-old () 1)")
  (agent-q-test-image-values connection "(defpackage :osicat (:use :cl))" :chat "one")
  (agent-q-test-image-values connection "(defun osicat::aq-old () 1)" :chat "one")
  (cl-flet ((hit-p (form chat)
              (not (null (plist-get (agent-q-test-assess-form connection form :chat chat) :hits)))))
    (should (hit-p "(defun iolib.os::aq-old () 2)" "one"))
    (should-not (hit-p "(defun iolib.os::aq-new () 2)" "one"))
    (should-not (hit-p "(defun osicat::aq-old () 2)" "one"))
    (should-not (hit-p "(use-package :cl :osicat)" "one"))
    (should (hit-p "(defun osicat::aq-old () 2)" "two"))
    (should (hit-p "(use-package :cl :osicat)" "two"))
    (should (hit-p "(defun car () 2)" "one"))))

(agent-q-test-image-on-each reading-which-systems-there-are-loads-nothing ()
  "Having ASDF look for systems again asks only where it is told to look elsewhere."
  (agent-q-test-image-values connection "(require :asdf)")
  (dolist (form '("(asdf:initialize-source-registry)" "(asdf:clear-source-registry)"))
    (should-not (agent-q-test-assess-hit-p connection form)))
  (dolist (form '("(asdf:initialize-source-registry 'cl-user::aq-made)"
                  "(asdf:initialize-source-registry (list :source-registry))"
                  "(mapc #'asdf:initialize-source-registry '(cl-user::aq-made))"))
    (should (agent-q-test-assess-hit-p connection form))))

;; To read "#xff" runs nothing; to read what has the program's own characters may.
(agent-q-test-image-on-each reading-literal-text-asks-only-where-it-may-run ()
  "A number sign alone is no alarm."
  (dolist (text '("#xff" "#(1 2)" "(#'car #\\a #:b)"))
    (should-not (agent-q-test-assess-hit-p connection (format "(read-from-string %S)" text))))
  (dolist (text '("#.(print 1)" "#1=#.(print 1)" "#1.(print 1)" "#!x" "#"))
    (should (agent-q-test-assess-hit-p connection (format "(read-from-string %S)" text)))))

(agent-q-test-image-on-each a-block-comment-is-no-form ()
  "Neither at the end nor at the start of a text; one without an end can't be read."
  (should (equal '("2")
                 (agent-q-test-image-values connection "#| a #| b |# |# 1 #|c|# 2 #| d; |#")))
  (should (eq :error (plist-get (agent-q-test-image-reply connection "eval-form" :form "1 #| 2")
                                :outcome))))

(agent-q-test-image-on-each hostile-forms-are-hits-and-do-not-run ()
  "A hundred forms that reach out are all hits, and none is run."
  (agent-q-test-assess-prepare connection)
  (let ((forms (agent-q-test-assess-fixture-forms "hostile.txt" connection))
        (missed nil))
    (should (>= (length forms) 100))
    (dolist (form forms)
      (unless (agent-q-test-assess-hit-p connection form)
        (push form missed)))
    (should-not missed)
    (should-not (file-expand-wildcards (concat (agent-q-test-assess-harm) "*")))
    (should (equal '("NIL") (agent-q-test-image-values connection "shop::*harm*")))
    (should (equal '("(1 (:RAN 2) 1/5)")
                   (agent-q-test-image-values
                    connection "(list (car '(1)) (shop:run-program 2) (shop::tax 1))")))
    (should (equal '("(PROGN T T)")
                   (agent-q-test-image-values
                    connection
                    "(list 'progn *read-eval* (eq 'if (first (macroexpand '(when 1 2)))))")))))

(agent-q-test-image-on-each assessing-says-why-and-where ()
  "A reason names what is called and the form that calls it."
  (agent-q-test-assess-prepare connection)
  (should (equal '("runs programs: UIOP:RUN-PROGRAM in (UIOP/RUN-PROGRAM:RUN-PROGRAM \"ls\")")
                 (plist-get (agent-q-test-assess-form
                             connection "(defun f () (uiop:run-program \"ls\"))")
                            :hits)))
  (pcase-dolist
      (`(,form . ,hits)
       '(("(push 'f sb-ext:*exit-hooks*)"
          "makes code run when the Lisp starts, quits or is saved: \\*EXIT-HOOKS\\*")
         ("(setf (logical-pathname-translations \"AQ\") nil)"
          "changes which files names stand for: LOGICAL-PATHNAME-TRANSLATIONS")
         ("(setf (uiop:getenv \"AQ\") \"1\")"
          "changes the environment of the programs that it runs: (SETF UIOP:GETENV)")
         ("(defmacro aq-wipe (x) `(delete-file ,x))" "deletes or writes files: DELETE-FILE")))
    (ert-info (form)
      (let ((found (plist-get (agent-q-test-assess-form connection form) :hits)))
        (should (= (length hits) (length found)))
        (cl-mapc (lambda (hit it) (should (string-match-p (concat "\\`" hit) it))) hits found))))
  ;; No reason hides behind many of another one.
  (should (equal '("runs programs: UIOP:RUN-PROGRAM in (UIOP/RUN-PROGRAM:RUN-PROGRAM \"a\"), UIOP:RUN-PROGRAM in (UIOP/RUN-PROGRAM:RUN-PROGRAM \"b\"), UIOP:RUN-PROGRAM in (UIOP/RUN-PROGRAM:RUN-PROGRAM \"c\") and in 5 more places"
                   "deletes or writes files: DELETE-FILE in (DELETE-FILE \"x\")")
                 (plist-get (agent-q-test-assess-form
                             connection
                             (concat "(list "
                                     (mapconcat (lambda (it) (format "(uiop:run-program %S)" it))
                                                '("a" "b" "c" "d" "e" "f" "g" "h") " ")
                                     " (delete-file \"x\"))"))
                            :hits)))
  (should (string-match-p "PRICE.*can't be undone\\|slots of the class SHOP:ITEM"
                          (car (plist-get
                                (agent-q-test-assess-form
                                 connection "(defclass shop:item () (shop:name shop::size))")
                                :notes)))))

(agent-q-test-image-on-each assessing-leaves-no-symbol-behind ()
  "What is only read for the assessment is not interned afterwards."
  (agent-q-test-assess-prepare connection)
  (agent-q-test-assess-form connection "(defun never-read-before (x) (list x 'nor-this))")
  (agent-q-test-assess-form connection "(never-read-before)" :package "SHOP")
  (should (equal '("(NIL NIL)")
                 (agent-q-test-image-values
                  connection "(list (find-symbol \"NOR-THIS\") (find-symbol \"NEVER-READ-BEFORE\" :shop))"))))

(agent-q-test-image-on-each expanding-only-minds-expanders ()
  "For an expansion only code that runs while it is made counts."
  (agent-q-test-assess-prepare connection)
  (let ((hits (lambda (form)
                (plist-get (agent-q-test-assess-form connection form :purpose "expand")
                           :hits))))
    (should-not (funcall hits "(with-open-file (s \"x\" :direction :output) (print 1 s))"))
    (should-not (funcall hits "(when (delete-file \"x\") 1)"))
    (should (funcall hits "(macrolet ((m () (print 1))) (m))"))
    (should (funcall hits "(shop::at-once (delete-file \"x\"))"))
    ;; It is not read, so neither it nor what stands after the first form runs.
    (should-not (funcall hits "(list #.(print 1))"))
    (should-not (funcall hits "(when 1 2) (shop::at-once (delete-file \"x\"))"))))

(agent-q-test-image-on-each endless-code-is-not-walked-for-ever ()
  "Macros that expand without end, deep code and circles are hits."
  (agent-q-test-image-values
   connection "(defmacro aq-endless (x) `(aq-endless (1+ ,x)))")
  (dolist (form (list "(aq-endless 1)"
                      (concat (make-string 2000 ?\() (make-string 2000 ?\)))
                      (concat (apply #'concat (make-list 2000 "(list ")) "1" (make-string 2000 ?\)))
                      "(list . #1=(1 . #1#))"))
    (should (plist-get (agent-q-test-assess-form connection form) :hits))))

(agent-q-test-image-on-each what-could-not-be-read-is-assessed-before-it-runs ()
  "A form in a package that an earlier one makes runs, unless it is a hit."
  (agent-q-test-assess-prepare connection)
  (let* ((good "(defpackage :aq-late (:use :cl)) (in-package :aq-late) (defun five () 5) (five)")
         (value (agent-q-test-assess-form connection good)))
    (should (plist-get value :more))
    (should (equal '("5") (agent-q-test-image-values
                           connection good :assessed (plist-get value :settled)))))
  (should (agent-q-test-assess-stopped
           connection "(defvar aq-late::*x* 1) (in-package :aq-late) (cl:delete-file \"x\")" 0)))

;;;; Through the pipeline

(defvar agent-q-eval-policy)

(defun agent-q-assess-test--ask (connection line)
  "Send LINE from the current chat about CONNECTION; return what is shown then."
  (agent-q-chat-set-connection connection)
  (agent-q-test-send line)
  (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
  (agent-q-test-log))

(agent-q-test-image-on-each the-chat-asks-only-on-a-hit ()
  "Harmless code runs at once; the reason for asking is shown."
  (agent-q-test-assess-prepare connection)
  (agent-q-test-with-chat
    (agent-q-rules-add '(:effect "allow" :tool "edit_file" :scope (:for "always")
                         :alarms [(:reason "changes a file of the project")]))
    (let* ((operations nil)
           (note (lambda (_connection _request operation &rest _) (push operation operations))))
      (advice-add 'agent-q-image-call :before note)
      (unwind-protect (agent-q-assess-test--ask connection "/eval_form (* 6 7)")
        (advice-remove 'agent-q-image-call note))
      ;; Where the watch meets what code does, nothing goes to the image before the call; no rule about
      ;; edits makes a difference.
      (should (equal "eval-form" (car (last operations)))))
    (should-not (agent-q-call-waiting))
    (should (string-match-p "eval_form (\\* 6 7) " (agent-q-test-log)))
    (agent-q-assess-test--ask connection "/eval_form (uiop:run-program \"true\")")
    (should (agent-q-test-shows "The running code wants to run `true`"))
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (should-not (string-match-p "waits" (agent-q-assess-test--ask
                                         connection "/macroexpand_form (when 1 2)")))))

(agent-q-test-image-on-each what-becomes-dangerous-is-asked-about-in-the-chat ()
  "No tool that runs forms runs one unasked that only the form above it made dangerous."
  (agent-q-test-assess-prepare connection)
  (let ((form (format "(push :aq-late *features*) #+aq-late (delete-file %S) 1"
                      (agent-q-test-assess-harm))))
    (write-region "" nil (agent-q-test-assess-harm) nil 'silent)
    (unwind-protect
        (agent-q-test-with-chat
          (dolist (line (list (concat "/eval_form " form)
                              (concat "/eval_in_package package=shop " form)
                              (concat "/compile_form " form)))
            (ert-info (line)
              (agent-q-assess-test--ask connection line)
              (should (agent-q-test-shows (format "The running code wants to delete %s" (agent-q-test-assess-harm))))
              (agent-q-test-answer "n")
              (agent-q-test-until (agent-q-test-idle-p))
              (should (string-match-p "Not allowed: delete .*\\. The user denied it\\."
                                      (agent-q-test-tools-answer)))
              (agent-q-test-image-values connection "(shop::unlearn)"))))
      (should (file-exists-p (agent-q-test-assess-harm)))
      (delete-file (agent-q-test-assess-harm)))))

(agent-q-test-image-on-each what-is-allowed-later-goes-on ()
  "One yes to a later form is for all of it; the forms after it run, and are looked at in their turn."
  (agent-q-test-assess-prepare connection)
  (agent-q-test-assess-before (agent-q-test-with-chat
                                (let ((questions 0))
                                  (agent-q-assess-test--ask
                                   connection
                                   (concat "/eval_form (first (push :aq-late *features*)) #+aq-late (progn (print 1) (eval (list (print '+) 1 2))) "
                                           "(* 6 7) #+aq-late (macrolet ((m () `(eval (list (print '+) 1 3)))) (m))"))
                                  (while (agent-q-call-waiting)
                                    (cl-incf questions)
                                    (should (string-match-p (format "The running code wants to run form %d, which evaluates" (* 2 questions))
                                                            (agent-q-test-log)))
                                    (agent-q-test-answer "y")
                                    (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p))))
                                  (should (= 2 questions))
                                  (should (string-match-p "=> 3\n\\(?:.*\n\\)*=> 42\n.*\n=> 4\\(?:\n\\|$\\)" (agent-q-test-tools-answer)))
                                  (agent-q-test-image-values connection "(shop::unlearn)")))))

(agent-q-test-image-on-each names-that-a-package-borrowed-are-not-the-programs ()
  "A package with imports of agent-q's or the client's is no place to look up names made of text."
  (agent-q-test-assess-prepare connection)
  (agent-q-test-image-directly
   connection "(progn (defpackage :aq-borrows (:use :cl) (:import-from :agent-q-image \"*RUNNING*\"))
                      (defpackage :aq-lends-nothing (:use :cl)) nil)")
  (dolist (form '("(setf (cdr (symbol-value (find-symbol (format nil \"*OPERA~a\" \"TIONS*\") :aq-borrows))) nil)"
                  "(do-symbols (symbol :aq-borrows) (when (boundp symbol) (print (symbol-value symbol))))"))
    (ert-info (form)
      (should (agent-q-test-assess-hit-p connection form))))
  (should-not (agent-q-test-assess-hit-p
               connection
               "(symbol-value (find-symbol (format nil \"*MY-~a\" \"TABLE*\") :aq-lends-nothing))")))

(agent-q-test-image-on-each what-can-only-fail-does-not-ask ()
  "An unknown package, or text that is not read, is an answer and no question."
  (agent-q-test-assess-prepare connection)
  (dolist (agent-q-eval-policy '(ask-if-risky ask-always))
    (agent-q-test-with-chat
      (pcase-dolist (`(,line . ,told)
                     '(("/macroexpand_form package=nope (car x)" . "Package NOPE not found")
                       ("/macroexpand_form mode=all package=nope (car x)" . "Package NOPE not found")
                       ("/eval_form package=nope (uiop:run-program \"true\")" . "Package NOPE not found")
                       ("/compile_form package=nope (car x)" . "Package NOPE not found")
                       ("/macroexpand_form (when #.(print 1) 2)" . "#\\. is not allowed here")
                       ("/macroexpand_form mode=all (when #.(print 1) 2)" . "#\\. is not allowed here")))
        (ert-info (line)
          (agent-q-assess-test--ask connection line)
          (should-not (agent-q-call-waiting))
          (should (string-match-p told (agent-q-test-tools-answer))))))))

(agent-q-test-image-on-each a-package-is-looked-up-when-its-call-s-turn-comes ()
  "What the calls above it make is there for each call of a message."
  (agent-q-test-assess-prepare connection)
  (let* ((agent-q-eval-policy 'ask-if-risky)
         (results (agent-q-execute-tool-calls-sync
                   '((:id "1" :name "eval_form"
                          :arguments (:form "(defpackage :aq-turn (:use :cl))"))
                     (:id "2" :name "eval_form" :arguments (:form "(+ 1 2)" :package "AQ-TURN"))
                     (:id "3" :name "compile_form"
                          :arguments (:form "(defun seven () 7)" :package "AQ-TURN"))
                     (:id "4" :name "eval_form" :arguments (:form "(seven)" :package "AQ-TURN"))
                     (:id "5" :name "eval_form" :arguments (:form "1" :package "AQ-NEVER")))
                   agent-q-test-patience))
         (contents (mapcar #'agent-q-tool-result-content results)))
    (should (string-match-p "3" (nth 1 contents)))
    (should (string-match-p "Compiled and loaded" (nth 2 contents)))
    (should (string-match-p "7" (nth 3 contents)))
    (should (string-match-p "Package AQ-NEVER not found" (nth 4 contents)))))

(agent-q-test-image-on-each code-that-reads-private-files-asks ()
  "A private file that the text names is asked about when the text opens files, whatever opens it."
  (agent-q-test-assess-prepare connection)
  (agent-q-test-assess-before
    (agent-q-test-with-chat
      (dolist (form '("(uiop:read-file-string \"~/.ssh/id_rsa\")"
                      "(with-open-file (s #p\"~/.ssh/id_rsa\") (read-line s))"
                      "(let ((it \".env\")) (mapcar #'uiop:read-file-lines (list it)))"
                      "(funcall 'uiop:read-file-form \"/srv/server.pem\")"
                      "(open (merge-pathnames \".ssh/id_rsa\" (user-homedir-pathname)))"
                      ;; What is read there depends on what was run.
                      "(push :aq-late *features*) #+aq-late (open \"~/.ssh/id_rsa\") 1"
                      ;; The second form is read only once the first has run.
                      "(in-package :shop) (cl:open \"~/.ssh/id_rsa\")"))
        (ert-info (form)
          (agent-q-assess-test--ask connection (concat "/eval_form " form))
          (should (agent-q-call-waiting))
          (should (string-match-p "which may hold secrets (private files: "
                                  (agent-q-call-reason (agent-q-call-waiting))))
          (agent-q-test-answer "n")
          (agent-q-test-until (agent-q-test-idle-p))))
      (dolist (form '("(with-open-file (s \"/dev/null\") (read-line s nil))"
                      "(list (probe-file \"~/.ssh/no-such-key\") \"~/.ssh/id_rsa\")"
                      "(length \".env and *.pem\")"))
        (ert-info (form)
          (agent-q-assess-test--ask connection (concat "/eval_form " form))
          (should-not (agent-q-call-waiting))))))
  ;; The watch asks where one is opened.
  (let ((file (expand-file-name "server.pem" agent-q-test-directory)))
    (write-region "secret" nil file nil 'silent)
    (agent-q-test-with-chat
      (agent-q-assess-test--ask connection (format "/eval_form (uiop:read-file-string %S)" file))
      (should (agent-q-call-effect-p (agent-q-call-waiting)))
      (should (agent-q-test-shows "server.pem"))
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p))
      (agent-q-assess-test--ask connection "/eval_form (probe-file \"/srv/server.pem\")")
      (should-not (agent-q-call-waiting)))))

(agent-q-test-image-on-each the-policy-is-the-users ()
  "Read-only refuses code, never-ask runs it, ask-always asks."
  (agent-q-test-assess-prepare connection)
  (let ((agent-q-eval-policy 'read-only))
    (agent-q-test-with-chat
      (agent-q-assess-test--ask connection "/eval_form (setf shop::*harm* 1)")
      (should-not (agent-q-call-waiting))
      ;; Nor does code run that a call only names.
      (agent-q-assess-test--ask connection "/load_system asdf")
      (should-not (agent-q-call-waiting))
      (agent-q-assess-test--ask connection "/run_tests suite=shop")
      (should-not (agent-q-call-waiting))
      ;; Nor what runs on the way.
      (dolist (line '("/macroexpand_form (shop::at-once (setf shop::*harm* 1))"
                      "/macroexpand_form (when 1 2)" "/trace_function shop::tax"
                      "/undo_definition shop::tax"))
        (agent-q-assess-test--ask connection line)
        (should-not (agent-q-call-waiting)))
      (should-not (string-match-p "✓" (agent-q-test-log)))))
  (should (equal '("NIL") (agent-q-test-image-values connection "shop::*harm*")))
  (let ((agent-q-eval-policy 'ask-always))
    (agent-q-test-with-chat
      (agent-q-assess-test--ask connection "/eval_form (+ 1 2)")
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p))))
  (let ((agent-q-eval-policy 'never-ask))
    (agent-q-test-with-chat
      (agent-q-assess-test--ask
       connection "/eval_form (progn (eval (list 'setf 'shop::*harm* 2)) nil)")
      (should-not (agent-q-call-waiting))))
  (should (equal '("2") (agent-q-test-image-values connection "shop::*harm*"))))

;;;; What would happen

(defun agent-q-assess-test--foretold (tool arguments)
  "Return what the current chat says would happen to a call of TOOL with ARGUMENTS."
  (let ((it (agent-q-rules-explain tool arguments agent-q-session-number)))
    (cons (gethash "outcome" it) (gethash "assessment" it))))

(defun agent-q-assess-test--happened ()
  "Return what the chat did about its last call; deny one that waits."
  (let ((call (agent-q-call-waiting)))
    (if call
        (prog1 (cons "ask" (agent-q-call-reason call))
          (agent-q-test-answer "n")
          (agent-q-test-until (agent-q-test-idle-p)))
      (cons (pcase (agent-q-call-state
                    (car (last (sort (hash-table-values agent-q-call-table)
                                     (lambda (one other)
                                       (< (agent-q-call-key one)
                                          (agent-q-call-key other)))))))
              ('succeeded "run")
              ('denied "deny")
              (_ "fail"))
            nil))))

(agent-q-test-image-on-each what-would-happen-is-what-happens ()
  "The answer about a call is the decision that the pipeline then takes."
  (agent-q-test-assess-prepare connection)
  (dolist (policy '(ask-if-risky ask-always never-ask read-only))
    (let ((agent-q-eval-policy policy)
          (outside (make-temp-file (expand-file-name "outside" temporary-file-directory)))
          (default-directory (file-name-as-directory agent-q-test-directory)))
      (unwind-protect
          (agent-q-test-with-chat
            (pcase-dolist (`(,tool ,parameter ,value)
                           `(("eval_form" "form" "(* 6 7)")
                             ("eval_form" "form" "(uiop:run-program \"true\")")
                             ("eval_form" "form" "(setf shop::*harm* nil)")
                             ("macroexpand_form" "form" "(when 1 2)")
                             ("macroexpand_form" "form" "(shop::at-once (uiop:run-program \"true\"))")
                             ("read_file" "path" ,outside)
                             ("list_directory" "path" ".")
                             ("read_file" "path" ".env")))
              (agent-q-chat-set-connection connection)
              (let ((foretold (agent-q-assess-test--foretold tool (list (intern (concat ":" parameter))
                                                                        value))))
                (agent-q-assess-test--ask connection (format "/%s %s" tool value))
                (let* ((effect (and (agent-q-call-waiting) (agent-q-call-effect-p (agent-q-call-waiting))))
                       (happened (agent-q-assess-test--happened)))
                  (should (equal (list policy tool value (car foretold))
                                 (list policy tool value (car happened))))
                  ;; A question of the watch has the effect's own words.
                  (when (and (cdr happened) (not effect))
                    (should (equal (cdr foretold) (cdr happened))))))))
        (delete-file outside)))))

(provide 'agent-q-assess-test)
;;; agent-q-assess-test.el ends here
