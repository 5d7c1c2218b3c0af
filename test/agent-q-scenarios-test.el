;;; agent-q-scenarios-test.el --- What the agent is for, from prompt to image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Whole turns: a prompt typed in a chat, a scripted model that gets the results
;; of its calls to see, and a real SBCL through SLIME and through SLY.  What
;; counts at the end is what the image and the files now do.

;;; Code:

(require 'agent-q-test-tools)

(defconst agent-q-scenarios-test-source "\
(in-package :my-app)

;; Input comes from the net.
(defun parse-input (text)
  \"Return the fields of TEXT, the first one as a keyword.\"
  (let ((end (position #\\, text)))
    (list (intern (string-upcase (char text 0)) :keyword)
          (subseq text 0 end))))

(defun after () :untouched)
"
  "The file of the project.")

(defconst agent-q-scenarios-test-definitions "
(defpackage :my-app (:use :cl))
(in-package :my-app)
(defvar *limit* 10)
(defun process-data (data &key (limit *limit*))
  \"Return at most LIMIT elements of DATA, doubled.\"
  (loop for element in data repeat limit collect (* 2 element)))
(defun report (data) (format nil \"~{~a~}\" (process-data data)))
(defclass shape () ())
(defclass my-class (shape)
  ((name :initarg :name :reader my-name) (size :initarg :size :initform 1)))
(defgeneric serialize (object stream))
(defmethod serialize ((object integer) stream) (format stream \"i~d\" object))
(defmethod serialize ((object string) stream) (format stream \"s~a\" object))"
  "What the program of the scenarios is, but for its file.")

(defvar agent-q-scenarios-test-root nil
  "The directory of the project.")

(defun agent-q-scenarios-test--load (connection)
  "Make the program anew, and load it behind CONNECTION as its user would."
  (let ((files (mapcar (lambda (file) (expand-file-name file agent-q-scenarios-test-root))
                       '("program.lisp" "input.lisp"))))
    (write-region agent-q-scenarios-test-definitions nil (car files) nil 'silent)
    (write-region agent-q-scenarios-test-source nil (cadr files) nil 'silent)
    (agent-q-test-image-eval connection "(setf agent-q-image::*journal* '())")
    (agent-q-test-image-directly
     connection (format "(progn (when (find-package :my-app) (delete-package :my-app))
                           (load %S) (load %S))"
                        (car files) (cadr files)))))

(defmacro agent-q-test-scenario-on-each (name turns docstring &rest body)
  "Define a test NAME for each client, whose model answers with TURNS.
In BODY, CONNECTION and CHAT are bound, and the chat is about a project
of its own.  DOCSTRING says what is shown."
  (declare (indent defun) (doc-string 3) (debug t))
  `(progn
     ,@(mapcar
        (lambda (client)
          `(ert-deftest ,(intern (format "agent-q-scenario-%s/%s" name client)) ()
             ,docstring
             :tags '(:image ,(intern (format ":%s" client)))
             (let ((connection (agent-q-test-image-connection ',client)))
               (unless connection (ert-skip (format "No SBCL through %s" ',client)))
               (agent-q-test-tools-choose connection)
               (let* ((agent-q-scenarios-test-root
                       (file-name-as-directory
                        (file-truename (make-temp-file
                                        (expand-file-name "project" agent-q-test-directory) t))))
                      (default-directory agent-q-scenarios-test-root)
                      (agent-q-project-root agent-q-scenarios-test-root)
                      (agent-q-offered-tools 'all))
                 (agent-q-scenarios-test--load connection)
                 (agent-q-test-with-model (agent-q-test-script ,turns)
                   (agent-q-test-with-chat
                     (agent-q-chat-set-connection connection)
                     ,@body))
                 (agent-q-test-until (zerop (agent-q-connection-pending)))
                 (should-not (agent-q-test-image-debugged))))))
        (agent-q-test-image-clients name))))

(defun agent-q-scenarios-test--states (&rest states)
  "Check that the calls of the current chat came to STATES, and said why if not."
  (let ((calls (seq-remove #'agent-q-call-effect-p (agent-q-test-calls))))
    (unless (equal states (mapcar #'agent-q-call-state calls))
      (ert-fail (list "Calls came to"
                      (mapcar (lambda (call)
                                (list (agent-q-call-tool call) (agent-q-call-state call)))
                              calls)
                      (agent-q-test-log))))))

(defun agent-q-scenarios-test--file ()
  "Return what the file of the project holds."
  (with-temp-buffer
    (insert-file-contents-literally
     (expand-file-name "input.lisp" agent-q-scenarios-test-root))
    (buffer-string)))

;;;; The end-to-end scenarios

(agent-q-test-scenario-on-each describes-a-function
  '((("PROCESS-DATA") ("describe_symbol" (symbol . "process-data") (package . "my-app"))
     ("who_calls" (function . "my-app::process-data")))
    (("at most LIMIT elements" "*LIMIT*" "MY-APP::REPORT")
     "It doubles up to `*limit*` elements of a list."))
  "\"Describe the function PROCESS-DATA in MY-APP package.\""
  (agent-q-test-ask "Describe the function PROCESS-DATA in MY-APP package")
  (agent-q-scenarios-test--states 'succeeded 'succeeded)
  (should (agent-q-test-shows "It doubles up to `*limit*` elements of a list."))
  ;; The result is in the chat, folded; and describing has changed nothing.
  (agent-q-test-find "describe_symbol process-data")
  (agent-q-test-press "TAB")
  (should (agent-q-test-shows "Return at most LIMIT elements of DATA, doubled."))
  (should (equal "(2 4)" (agent-q-test-image-directly
                          connection "(my-app::process-data '(1 2 3) :limit 2)")))
  (should (equal "NIL" (agent-q-test-image-directly connection "agent-q-image::*journal*"))))

(defconst agent-q-scenarios-test-fixed "\
(defun parse-input (text)
  \"Return the fields of TEXT, the first one as a keyword.\"
  (if (string= text \"\")
      (list nil \"\")
      (let ((end (position #\\, text)))
        (list (intern (string-upcase (char text 0)) :keyword)
              (subseq text 0 end)))))"
  "How the model repairs the bug.")

(agent-q-test-scenario-on-each repairs-a-bug
  `((("fails on empty strings")
     ("describe_symbol" (symbol . "my-app::parse-input"))
     ("find_definition" (symbol . "my-app::parse-input")))
    (("input.lisp:4" "(char text 0)")
     ("eval_form" (form . "(my-app::parse-input \"\")")))
    (("INDEX") ("compile_form" (form . ,agent-q-scenarios-test-fixed) (package . "my-app")))
    (("Compiled and loaded")
     ("eval_form" (form . "(list (my-app::parse-input \"\") (my-app::parse-input \"abc,d\"))")))
    (("((NIL \\\"\\\") (:A \\\"abc\\\"))")
     ("edit_definition" (path . "input.lisp") (name . "parse-input")
      (new_source . ,agent-q-scenarios-test-fixed)))
    (("Definition replaced in input.lisp") "It took the first character of nothing."))
  "\"There's a bug in PARSE-INPUT, it fails on empty strings.\""
  (let ((try "(handler-case (parse-input \"\") (error () :fails))"))
    (should (equal ":FAILS" (agent-q-test-image-directly connection try "MY-APP")))
    (agent-q-test-send "There's a bug in PARSE-INPUT, it fails on empty strings")
    ;; Only the change of the file asks; until then, it is as it was.
    (agent-q-test-until (agent-q-call-waiting))
    (should (equal "edit_definition" (agent-q-call-tool (agent-q-call-waiting))))
    (should (equal agent-q-scenarios-test-source (agent-q-scenarios-test--file)))
    (agent-q-test-answer "y")
    (agent-q-test-until (agent-q-test-idle-p))
    ;; What was edited is compiled, too.
    (agent-q-scenarios-test--states 'succeeded 'succeeded 'failed 'succeeded 'succeeded 'succeeded 'succeeded)
    (should (agent-q-test-shows "It took the first character of nothing."))
    ;; The image and the file have the repair, and nothing else has changed.
    (should (equal "(NIL \"\")" (agent-q-test-image-directly connection try "MY-APP")))
    (should (equal "(:A \"abc\")" (agent-q-test-image-directly
                                   connection "(parse-input \"abc,d\")" "MY-APP")))
    (let ((bytes (agent-q-scenarios-test--file)))
      (should (equal bytes
                     (concat "(in-package :my-app)\n\n;; Input comes from the net.\n"
                             agent-q-scenarios-test-fixed
                             "\n\n(defun after () :untouched)\n"))))
    (agent-q-test-image-directly
     connection (format "(let ((*package* *package*)) (load %S))"
                        (expand-file-name "input.lisp" agent-q-scenarios-test-root)))
    (should (equal "(NIL \"\")" (agent-q-test-image-directly connection try "MY-APP")))))

(agent-q-test-scenario-on-each adds-a-method
  '((("SERIALIZE") ("class_slots" (class . "my-app::my-class"))
     ("method_specializers" (generic_function . "my-app::serialize")))
    (("SIZE" "INTEGER" "STRING")
     ("compile_form" (package . "my-app")
      (form . "(defmethod serialize ((object my-class) stream)
  (with-slots (name size) object
    (format stream \"c~a:\" name)
    (serialize size stream)))")))
    (("Compiled and loaded")
     ("eval_form" (package . "my-app")
      (form . "(with-output-to-string (stream) (serialize (make-instance 'my-class :name \"n\") stream))")))
    (("cn:i1") "MY-CLASS can be serialized now."))
  "\"Add a new method to SERIALIZE for MY-CLASS.\""
  (cl-flet ((serialized (form)
              (agent-q-test-image-directly
               connection (format "(handler-case (with-output-to-string (s) (serialize %s s))
                                     (error () :no-method))" form)
               "MY-APP")))
    (let ((object "(make-instance 'my-class :name \"x\" :size 7)"))
      (should (equal ":NO-METHOD" (serialized object)))
      (agent-q-test-ask "Add a new method to SERIALIZE for MY-CLASS")
      (agent-q-scenarios-test--states 'succeeded 'succeeded 'succeeded 'succeeded)
      (should (equal "\"cx:i7\"" (serialized object)))
      ;; The methods that were there are as they were.
      (should (equal "\"i5\"" (serialized "5")))
      (should (equal "\"sa\"" (serialized "\"a\"")))
      (should (equal ":NO-METHOD" (serialized "'symbol"))))))

;;;; The integration list

(agent-q-test-scenario-on-each tests-its-code
  '((("median") ("eval_form" (package . "my-app")
                 (form . "(defun median (list) (nth (floor (length list) 2) (sort (copy-list list) #'<))) (median '(9 1 5))")))
    (("5") "There it is, and `(median '(9 1 5))` gives 5."))
  "The agent evaluates what it writes, and it is there."
  (agent-q-test-ask "write a median")
  (agent-q-scenarios-test--states 'succeeded)
  (agent-q-test-find "eval_form")
  (agent-q-test-press "TAB")
  (should (string-match-p "^result:\n\\(?:.*\n\\)*?.*\\_<5\\_>" (agent-q-test-log)))
  (should (equal "30" (agent-q-test-image-directly connection "(median '(40 30 10))" "MY-APP"))))

(agent-q-test-scenario-on-each tries-again
  '((("roman") ("compile_form" (package . "my-app")
                (form . "(defun from-roman (text) (parse-integer text :radix 100))")))
    (("Compiled") ("eval_form" (package . "my-app") (form . "(from-roman \"XIV\")")))
    ;; The model sees what went wrong, each time.
    (("TYPE-ERROR") ("compile_form" (package . "my-app")
                     (form . "(defun from-roman (text)
  (loop with values = '((#\\I . 1) (#\\V . 5) (#\\X . 10))
        for (this next) on (map 'list (lambda (it) (cdr (assoc it values))) text)
        sum (if (and next (< this next)) (- this) this))")))
    (("END-OF-FILE") ("compile_form" (package . "my-app")
                      (form . "(defun from-roman (text)
  (loop with values = '((#\\I . 1) (#\\V . 5) (#\\X . 10))
        for (this next) on (map 'list (lambda (it) (cdr (assoc it values))) text)
        sum (if (and next (< this next)) (- this) this)))")))
    (("Compiled") ("eval_form" (package . "my-app") (form . "(from-roman \"XIV\")")))
    (("14") "Now it works."))
  "A first attempt that fails, and a second that can't be read, are not the last."
  (agent-q-test-ask "read roman numbers")
  (agent-q-scenarios-test--states 'succeeded 'failed 'failed 'succeeded 'succeeded)
  (should (agent-q-test-shows "Now it works."))
  (should (equal "29" (agent-q-test-image-directly connection "(from-roman \"XXIX\")" "MY-APP"))))

(agent-q-test-scenario-on-each trust-is-respected
  '((("go") ("describe_symbol" (symbol . "my-app::after"))
     ("eval_form" (form . "(setf my-app::*limit* 99)"))
     ("eval_form" (form . "(delete-file (merge-pathnames \"input.lisp\" my-app::*root*))")))
    (("denied") ("eval_form" (form . "(delete-file (merge-pathnames \"input.lisp\" my-app::*root*))")))
    (("T") "Gone."))
  "Looking and changing the program run; what reaches outside asks, and no means no."
  (agent-q-test-image-directly
   connection (format "(progn (defvar *root*) (setf *root* (pathname %S)))"
                      agent-q-scenarios-test-root)
   "MY-APP")
  (cl-flet ((file-there-p ()
              (file-exists-p (expand-file-name "input.lisp" agent-q-scenarios-test-root))))
    (agent-q-test-send "go")
    ;; The form doesn't say which file that is; where it is deleted that is known.
    (let ((call (agent-q-test-until (agent-q-call-waiting))))
      (should (agent-q-call-effect-p call))
      (should (string-match-p (format "delete .*%s" (regexp-quote "input.lisp")) (agent-q-test-log))))
    (should (file-there-p))
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-call-waiting))
    (should (equal "99" (agent-q-test-image-directly connection "my-app::*limit*")))
    (should (file-there-p))
    (agent-q-test-answer "y")
    (agent-q-test-until (agent-q-test-idle-p))
    (agent-q-scenarios-test--states 'succeeded 'succeeded 'failed 'succeeded)
    (should-not (file-there-p))))

(agent-q-test-scenario-on-each read-only-runs-nothing
  '((("go") ("eval_form" (form . "(setf my-app::*limit* 98)"))
     ("compile_form" (form . "(defun my-app::after () :touched)"))
     ("describe_symbol" (symbol . "my-app::after")))
    (("was not run: this chat runs no code") "I may only look."))
  "With the policy `read-only' the agent looks, and the image stays as it is."
  (let ((agent-q-eval-policy 'read-only))
    (agent-q-test-ask "go")
    (agent-q-scenarios-test--states 'failed 'failed 'succeeded)
    (should (equal "(10 :UNTOUCHED)"
                   (agent-q-test-image-directly connection "(list *limit* (after))" "MY-APP")))))

(provide 'agent-q-scenarios-test)
;;; agent-q-scenarios-test.el ends here
