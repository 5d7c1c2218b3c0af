;;; agent-q-guard-test.el --- Code is assessed before it runs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Everyday forms must not ask, hostile ones must, and none may run while it is
;; looked at.  The forms are in fixtures/guard/, a text on each line; CLIENT
;; there stands for the package of the client's server, HARM for a file.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-rules)

(defconst agent-q-guard-test--fixtures
  (expand-file-name "test/fixtures/guard/" agent-q-test-root)
  "Where the forms are.")

(defun agent-q-guard-test--text (name)
  "Return the text of the fixture NAME."
  (with-temp-buffer
    (insert-file-contents (expand-file-name name agent-q-guard-test--fixtures))
    (buffer-string)))

(defun agent-q-guard-test--harm ()
  "Return the name of a file that only a form that ran could have made."
  (expand-file-name "harm" agent-q-test-directory))

(defun agent-q-guard-test--forms (name connection)
  "Return the texts in the fixture NAME for the image behind CONNECTION."
  (let ((case-fold-search nil))
    (mapcar (lambda (line)
              (thread-last line
                (replace-regexp-in-string
                 "CLIENT" (if (eq 'sly (agent-q-image-connection-client connection))
                              "slynk" "swank"))
                (replace-regexp-in-string "HARM" (agent-q-guard-test--harm))))
            (split-string (agent-q-guard-test--text name) "\n" t))))

(defvar agent-q-guard-test--prepared nil
  "The connections whose image has the program of the fixtures.")

(defun agent-q-guard-test--prepare (connection)
  "Have the program of the fixtures in the image behind CONNECTION."
  (unless (member connection agent-q-guard-test--prepared)
    (push connection agent-q-guard-test--prepared)
    (agent-q-test-image-values connection (agent-q-guard-test--text "project.lisp")))
  (agent-q-test-image-values connection "(setf shop::*harm* nil)"))

(defun agent-q-guard-test--assess (connection form &rest arguments)
  "Return what assessing FORM over CONNECTION with more ARGUMENTS gives."
  (apply #'agent-q-test-image-value connection "assess-form" :form form arguments))

(defun agent-q-guard-test--stopped-p (connection form assessed)
  "Whether running FORM over CONNECTION is stopped after ASSESSED forms."
  (let ((reply (agent-q-test-image-eval connection form :assessed assessed)))
    (and (eq :error (plist-get reply :outcome))
         (equal "NOT-RUN" (plist-get reply :type)))))

(defun agent-q-guard-test--hit-p (connection form)
  "Whether FORM would not run over CONNECTION without asking."
  (let ((value (agent-q-guard-test--assess connection form)))
    (or (plist-get value :hits)
        (and (plist-get value :more)
             (agent-q-guard-test--stopped-p connection form
                                            (plist-get value :assessed))))))

(agent-q-test-image-on-each everyday-forms-do-not-ask ()
  "Two hundred forms as people write them raise no alarm."
  (agent-q-guard-test--prepare connection)
  (let ((forms (agent-q-guard-test--forms "everyday.txt" connection))
        (alarms nil))
    (should (>= (length forms) 200))
    (dolist (form forms)
      (let ((hits (plist-get (agent-q-guard-test--assess connection form) :hits)))
        (when hits (push (cons form hits) alarms))))
    (should-not alarms)))

(agent-q-test-image-on-each hostile-forms-are-hits-and-do-not-run ()
  "A hundred forms that reach out are all hits, and none is run."
  (agent-q-guard-test--prepare connection)
  (let ((forms (agent-q-guard-test--forms "hostile.txt" connection))
        (missed nil))
    (should (>= (length forms) 100))
    (dolist (form forms)
      (unless (agent-q-guard-test--hit-p connection form)
        (push form missed)))
    (should-not missed)
    (should-not (file-expand-wildcards (concat (agent-q-guard-test--harm) "*")))
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
  (agent-q-guard-test--prepare connection)
  (should (equal '("runs programs: UIOP:RUN-PROGRAM in (UIOP/RUN-PROGRAM:RUN-PROGRAM \"ls\")")
                 (plist-get (agent-q-guard-test--assess
                             connection "(defun f () (uiop:run-program \"ls\"))")
                            :hits)))
  (should (string-match-p "PRICE.*can't be undone\\|slots of the class SHOP:ITEM"
                          (car (plist-get
                                (agent-q-guard-test--assess
                                 connection "(defclass shop:item () (shop:name shop::size))")
                                :notes)))))

(agent-q-test-image-on-each assessing-leaves-no-symbol-behind ()
  "What is only read for the assessment is not interned afterwards."
  (agent-q-guard-test--prepare connection)
  (agent-q-guard-test--assess connection "(defun never-read-before (x) (list x 'nor-this))")
  (agent-q-guard-test--assess connection "(never-read-before)" :package "SHOP")
  (should (equal '("(NIL NIL)")
                 (agent-q-test-image-values
                  connection "(list (find-symbol \"NOR-THIS\") (find-symbol \"NEVER-READ-BEFORE\" :shop))"))))

(agent-q-test-image-on-each expanding-only-minds-expanders ()
  "For an expansion only code that runs while it is made counts."
  (agent-q-guard-test--prepare connection)
  (let ((hits (lambda (form)
                (plist-get (agent-q-guard-test--assess connection form :purpose "expand")
                           :hits))))
    (should-not (funcall hits "(with-open-file (s \"x\" :direction :output) (print 1 s))"))
    (should-not (funcall hits "(when (delete-file \"x\") 1)"))
    (should (funcall hits "(macrolet ((m () (print 1))) (m))"))
    (should (funcall hits "(shop::at-once (delete-file \"x\"))"))
    (should (funcall hits "(list #.(print 1))"))))

(agent-q-test-image-on-each endless-code-is-not-walked-for-ever ()
  "Macros that expand without end, deep code and circles are hits."
  (agent-q-test-image-values
   connection "(defmacro aq-endless (x) `(aq-endless (1+ ,x)))")
  (dolist (form (list "(aq-endless 1)"
                      (concat (make-string 2000 ?\() (make-string 2000 ?\)))
                      (concat (apply #'concat (make-list 2000 "(list ")) "1" (make-string 2000 ?\)))
                      "(list . #1=(1 . #1#))"))
    (should (plist-get (agent-q-guard-test--assess connection form) :hits))))

(agent-q-test-image-on-each what-could-not-be-read-is-assessed-before-it-runs ()
  "A form in a package that an earlier one makes runs, unless it is a hit."
  (agent-q-guard-test--prepare connection)
  (let* ((good "(defpackage :aq-late (:use :cl)) (in-package :aq-late) (defun five () 5) (five)")
         (value (agent-q-guard-test--assess connection good)))
    (should (plist-get value :more))
    (should (equal '("5") (agent-q-test-image-values
                           connection good :assessed (plist-get value :assessed)))))
  (should (agent-q-guard-test--stopped-p
           connection "(defvar aq-late::*x* 1) (in-package :aq-late) (cl:delete-file \"x\")" 0)))

;;;; In two calls

(defconst agent-q-guard-test--two-calls
  '(("(defvar shop::*name* (intern (format nil \"DELETE-~a\" \"FILE\") :cl))"
     "(funcall shop::*name* \"HARM\")")
    ("(setf (gethash :it shop:*catalog*) (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl))"
     "(let ((name (gethash :it shop:*catalog*))) (funcall name \"HARM\"))")
    ("(setf (get 'shop::it 'shop::does) (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl))"
     "(mapc (get 'shop::it 'shop::does) '(\"HARM\"))")
    ("(defun shop::call-it (function &rest arguments) (apply function arguments))"
     "(shop::call-it shop::*name* \"HARM\")")
    ("(defvar shop::*named* (list (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl)))"
     "(defmethod print-object ((it shop::item) stream) (funcall (first shop::*named*) \"HARM\"))")
    ("(defmacro shop::hidden () (list (find-symbol (format nil \"DELETE-~a\" \"FILE\") :cl) \"HARM\"))"
     "(shop::hidden)")
    ("(defvar shop::*text* \"(delete-file HARM)\")"
     "(eval (read-from-string shop::*text*))"))
  "Texts of which the first does nothing by itself, and the second is a hit after it.")

(agent-q-test-image-on-each what-an-earlier-call-stored-is-seen ()
  "A name that a call has put into a variable, a table or a macro is found where it is used."
  (agent-q-guard-test--prepare connection)
  (pcase-dolist (`(,first ,second) agent-q-guard-test--two-calls)
    (should-not (plist-get (agent-q-guard-test--assess connection first) :hits))
    (agent-q-test-image-values connection first)
    (ert-info (second)
      (should (plist-get (agent-q-guard-test--assess connection second) :hits))))
  ;; What is stored is not what is called.
  (should-not (plist-get (agent-q-guard-test--assess
                          connection "(funcall (or (gethash :other shop:*catalog*) #'list) shop::*harm*)")
                         :hits))
  (agent-q-test-image-values connection "(clrhash shop:*catalog*)"))

;;;; Through the pipeline

(defvar agent-q-eval-policy)

(defun agent-q-guard-test--ask (connection line)
  "Send LINE from the current chat about CONNECTION; return what is shown then."
  (agent-q-chat-set-connection connection)
  (agent-q-test-send line)
  (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
  (agent-q-test-log))

(agent-q-test-image-on-each the-chat-asks-only-on-a-hit ()
  "Harmless code runs at once; the reason for asking is shown."
  (agent-q-guard-test--prepare connection)
  (agent-q-test-with-chat
    (agent-q-guard-test--ask connection "/eval_form (* 6 7)")
    (should-not (agent-q-call-waiting))
    (should (string-match-p "eval_form (\\* 6 7) " (agent-q-test-log)))
    (agent-q-guard-test--ask connection "/eval_form (uiop:run-program \"true\")")
    (should (agent-q-test-shows "runs programs: UIOP:RUN-PROGRAM"))
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (should-not (string-match-p "waits" (agent-q-guard-test--ask
                                         connection "/macroexpand_form (when 1 2)")))))

(agent-q-test-image-on-each code-that-reads-private-files-asks ()
  "A private file that the text names is asked about when the text opens files, whatever opens it."
  (agent-q-guard-test--prepare connection)
  (agent-q-test-with-chat
    (dolist (form '("(uiop:read-file-string \"~/.ssh/id_rsa\")"
                    "(with-open-file (s #p\"~/.ssh/id_rsa\") (read-line s))"
                    "(let ((it \".env\")) (mapcar #'uiop:read-file-lines (list it)))"
                    "(funcall 'uiop:read-file-form \"/srv/server.pem\")"
                    "(open (merge-pathnames \".ssh/id_rsa\" (user-homedir-pathname)))"
                    ;; The second form is read only once the first has run.
                    "(in-package :shop) (cl:open \"~/.ssh/id_rsa\")"))
      (ert-info (form)
        (agent-q-guard-test--ask connection (concat "/eval_form " form))
        (should (agent-q-call-waiting))
        (should (string-match-p "which may hold secrets (private files: "
                                (agent-q-call-reason (agent-q-call-waiting))))
        (agent-q-test-answer "n")
        (agent-q-test-until (agent-q-test-idle-p))))
    (dolist (form '("(with-open-file (s \"/dev/null\") (read-line s nil))"
                    "(list (probe-file \"~/.ssh/no-such-key\") \"~/.ssh/id_rsa\")"
                    "(length \".env and *.pem\")"))
      (ert-info (form)
        (agent-q-guard-test--ask connection (concat "/eval_form " form))
        (should-not (agent-q-call-waiting))))))

(agent-q-test-image-on-each the-policy-is-the-users ()
  "Read-only refuses code, never-ask runs it, ask-always asks."
  (agent-q-guard-test--prepare connection)
  (let ((agent-q-eval-policy 'read-only))
    (agent-q-test-with-chat
      (agent-q-guard-test--ask connection "/eval_form (setf shop::*harm* 1)")
      (should-not (agent-q-call-waiting))
      ;; Nor does code run that a call only names.
      (agent-q-guard-test--ask connection "/load_system asdf")
      (should-not (agent-q-call-waiting))
      (agent-q-guard-test--ask connection "/run_tests suite=shop")
      (should-not (agent-q-call-waiting))
      ;; Nor what runs on the way.
      (dolist (line '("/macroexpand_form (shop::at-once (setf shop::*harm* 1))"
                      "/macroexpand_form (when 1 2)" "/trace_function shop::tax"
                      "/undo_definition shop::tax"))
        (agent-q-guard-test--ask connection line)
        (should-not (agent-q-call-waiting)))
      (should-not (string-match-p "✓" (agent-q-test-log)))))
  (should (equal '("NIL") (agent-q-test-image-values connection "shop::*harm*")))
  (let ((agent-q-eval-policy 'ask-always))
    (agent-q-test-with-chat
      (agent-q-guard-test--ask connection "/eval_form (+ 1 2)")
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p))))
  (let ((agent-q-eval-policy 'never-ask))
    (agent-q-test-with-chat
      (agent-q-guard-test--ask
       connection "/eval_form (progn (eval (list 'setf 'shop::*harm* 2)) nil)")
      (should-not (agent-q-call-waiting))))
  (should (equal '("2") (agent-q-test-image-values connection "shop::*harm*"))))

;;;; What would happen

(defun agent-q-guard-test--foretold (tool arguments)
  "Return what the current chat says would happen to a call of TOOL with ARGUMENTS."
  (let ((it (agent-q-rules-explain tool arguments agent-q-chat--session)))
    (cons (gethash "outcome" it) (gethash "assessment" it))))

(defun agent-q-guard-test--happened ()
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
  (agent-q-guard-test--prepare connection)
  (dolist (policy '(ask-on-hit ask-always never-ask read-only))
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
              (let ((foretold (agent-q-guard-test--foretold tool (list (intern (concat ":" parameter))
                                                                       value))))
                (agent-q-guard-test--ask connection (format "/%s %s" tool value))
                (let ((happened (agent-q-guard-test--happened)))
                  (should (equal (list policy tool value (car foretold))
                                 (list policy tool value (car happened))))
                  (when (cdr happened)
                    (should (equal (cdr foretold) (cdr happened))))))))
        (delete-file outside)))))

(provide 'agent-q-guard-test)
;;; agent-q-guard-test.el ends here
