;;; agent-q-rule-widths-test.el --- Rules about what code is asked about  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; By a real image: what it says of each reason, and what a rule lets run that was
;; offered for an operator or a reason.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-assess)
(require 'agent-q-test-systems)

(defun agent-q-rule-widths-test--alarms (connection form)
  "Return the alarms that the image of CONNECTION has to ask about FORM."
  (plist-get (agent-q-test-assess-form connection form) :alarms))

(agent-q-test-image-on-each a-hit-tells-its-reason-and-its-operator ()
  "All of them, and none of what nobody looked at by name."
  (should (equal (agent-q-rule-widths-test--alarms
                  connection "(progn (uiop:run-program \"a\") (uiop:run-program \"b\") (delete-file \"c\"))")
                 '(("runs programs" "UIOP:RUN-PROGRAM")
                   ("deletes or writes files" "DELETE-FILE"))))
  (should-not (agent-q-rule-widths-test--alarms connection "(+ 1 2)"))
  ;; Two operators of one reason share a text, and have an alarm each.
  (should (equal (mapcar #'car (agent-q-rule-widths-test--alarms
                                connection "(list (delete-file \"a\") (rename-file \"a\" \"b\"))"))
                 '("deletes or writes files" "deletes or writes files"))))

(defun agent-q-rule-widths-test--line-asks-p (line)
  "Whether LINE, sent to the chat, asks the user, who says no."
  (agent-q-test-send line)
  (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
  (when (agent-q-call-waiting)
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    t))

(defun agent-q-rule-widths-test--asks-p (form)
  "Whether evaluating FORM in the current chat asks; it is denied then.
Otherwise it has to succeed."
  (or (agent-q-rule-widths-test--line-asks-p (concat "/eval_form " form))
      (ignore (should (eq 'succeeded (agent-q-call-state (car (last (agent-q-test-calls)))))))))

(defun agent-q-rule-widths-test--allow (form widths)
  "Evaluate FORM in the current chat and take a rule that is WIDTHS wider."
  (agent-q-test-send (concat "/eval_form " form))
  (agent-q-test-answer "!")
  (dotimes (_ widths)
    (agent-q-test-answer "w"))
  (prog1 (nth 2 (agent-q-approval-display-offer-shown (agent-q-call-offer (agent-q-call-waiting))))
    (agent-q-test-answer "!")
    (agent-q-test-until (agent-q-test-idle-p))))

(defmacro agent-q-rule-widths-test--with-chat (&rest body)
  "Run BODY in a chat about the image of CONNECTION, as one without a watch."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-chat
     (setq agent-q-session-connection connection)
     (agent-q-test-assess-before ,@body)))

(agent-q-test-image-on-each a-rule-by-operator-is-for-that-operator ()
  "Another operator, and another reason beside it, ask."
  (agent-q-rule-widths-test--with-chat
    (should (string-match-p "whose only risk is: runs programs (UIOP:RUN-PROGRAM), in "
                            (agent-q-rule-widths-test--allow
                             "(uiop:run-program \"true\")" 1)))
    (should-not (agent-q-rule-widths-test--asks-p "(uiop:run-program \"false\" :ignore-error-status t)"))
    (should (agent-q-rule-widths-test--asks-p "(uiop:launch-program \"true\")"))
    (should (agent-q-rule-widths-test--asks-p
             "(progn (uiop:run-program \"true\") (open \"/tmp/no-such-folder-x/f\" :direction :output))"))
    (should (agent-q-rule-widths-test--asks-p
             "(progn (uiop:run-program \"true\") (funcall (intern (concatenate 'string \"QU\" \"IT\"))))"))))

(agent-q-test-image-on-each a-rule-by-reason-is-for-that-reason ()
  "Other operators for the same run; whatever else is asked about still asks."
  (agent-q-rule-widths-test--with-chat
    (should (string-match-p "whose only risk is: runs programs, in "
                            (agent-q-rule-widths-test--allow
                             "(uiop:run-program \"true\")" 2)))
    (should-not (agent-q-rule-widths-test--asks-p "(progn (uiop:launch-program \"true\") t)"))
    (should (agent-q-rule-widths-test--asks-p
             "(progn (uiop:run-program \"true\") (open \"/tmp/no-such-folder-x/f\" :direction :output))"))
    ;; What comes behind a form that has to run first.
    (should (agent-q-rule-widths-test--asks-p
             "(uiop:run-program \"true\") (defpackage :aq-widths) (in-package :aq-widths) #.(print 1)"))
    ;; A restart with values is asked about whatever the form does.
    (should (agent-q-rule-widths-test--asks-p
             "form=\"(uiop:run-program \\\"true\\\")\" restart=\"use-value 1\""))))

(agent-q-test-image-on-each a-rule-for-the-systems-of-the-project ()
  "After it, no system of the project is asked about, whether loaded, tested or compiled; others are."
  (let ((ours (agent-q-test-systems-system
               "aq-ruled" '(("ruled" . "(defun cl-user::aq-ruled () 1)\n"))
               ":perform (test-op (o c) (print :tested)))  (defsystem \"aq-ruled/more\""))
        (other (agent-q-test-systems-system
                "aq-unruled" '(("unruled" . "(defun cl-user::aq-unruled () 1)\n")))))
    (agent-q-test-systems-register connection other)
    (agent-q-test-systems-in-project ours connection
      (cl-flet ((asks-p (line) (agent-q-rule-widths-test--line-asks-p line)))
        (should (asks-p "/load_system aq-ruled"))
        (agent-q-test-send "/load_system aq-ruled")
        (agent-q-test-answer "!")
        (should (string-match-p "\\`Always run load_system, run_tests, verify_system and compile_file for this project's systems, in "
                                (nth 2 (agent-q-approval-display-offer-shown (agent-q-call-offer (agent-q-call-waiting))))))
        (agent-q-test-answer "!")
        (agent-q-test-until (agent-q-test-idle-p))
        ;; A new #. is no more than loading the file would do; what it then does is asked about as there.
        (write-region "(defun cl-user::aq-ruled () '#.(progn (setf (symbol-value 'cl-user::*aq*) 1) 2))\n"
                      nil "ruled.lisp" nil 'silent)
        (dolist (line '("/load_system aq-ruled" "/load_system force=true aq-ruled.asd"
                        "/run_tests system=aq-ruled" "/load_system aq-ruled/more"
                        "/compile_file ruled.lisp" "/compile_file path=ruled.lisp name=aq-ruled"))
          (ert-info (line) (should-not (asks-p line))))
        (write-region "(open \"/tmp/no-such-folder-x/f\" :direction :output)\n" nil "deletes.lisp" nil 'silent)
        (dolist (line (list "/load_system aq-unruled" "/run_tests system=aq-unruled"
                            (concat "/compile_file " other "unruled.lisp") "/compile_file deletes.lisp"))
          (ert-info (line) (should (asks-p line))))))))

(agent-q-test-image-on-each a-rule-for-systems-is-for-tests-in-their-files ()
  "A test, suite or package of the project's is tested under it; one of somebody else's asks."
  (agent-q-test-systems-need connection "fiveam")
  (cl-flet ((system (name)
              (agent-q-test-systems-system
               name `(("tests" . ,(format "(defpackage :%s (:use :cl)) (in-package :%s)
(fiveam:def-suite all-of-%s) (fiveam:in-suite all-of-%s)
(fiveam:test one-of-%s (fiveam:is (= 1 1)))\n" name name name name name)))
               ":depends-on (\"fiveam\")")))
    (let ((ours (system "aq-named")) (other (system "aq-unnamed")))
      (dolist (it (list ours other))
        (agent-q-test-systems-register connection it))
      (agent-q-test-image-values connection "(progn (asdf:load-system \"aq-named\") (asdf:load-system \"aq-unnamed\") 1)")
      (agent-q-test-systems-in-project ours connection
        (cl-flet ((asks-p (line) (agent-q-rule-widths-test--line-asks-p line)))
          (agent-q-test-send "/run_tests test=one-of-aq-named")
          (agent-q-test-answer "!")
          (should (string-search "aq-named" (agent-q-call-reason (agent-q-call-waiting))))
          (agent-q-test-answer "!")
          (agent-q-test-until (agent-q-test-idle-p))
          (dolist (line '("/run_tests test=aq-named::one-of-aq-named" "/run_tests suite=all-of-aq-named"
                          "/load_system aq-named"))
            (ert-info (line) (should-not (asks-p line))))
          (dolist (line '("/run_tests test=one-of-aq-unnamed" "/run_tests suite=all-of-aq-unnamed"))
            (ert-info (line) (should (asks-p line)))))))))

(agent-q-test-image-on-each finding-a-system-asks-once-at-most ()
  "Not about definitions of the project, of libraries or of nothing; about others when they are loaded."
  (let ((ours (agent-q-test-systems-system "aq-ours" nil))
        (library (agent-q-test-systems-system "aq-library" nil))
        (other (agent-q-test-systems-system "aq-other" nil)))
    (dolist (directory (list ours library other))
      (agent-q-test-systems-register connection directory))
    (write-region "(defsystem \"aq-beside\")" nil (concat library "aq-beside.asd") nil 'silent)
    (agent-q-test-image-values connection "(asdf:load-system \"aq-library\")")
    (agent-q-test-systems-in-project ours connection
      (dolist (name '("aq-nowhere" "aq-ours" "aq-library" "aq-beside"))
        (ert-info (name)
          (should-not (agent-q-rule-widths-test--asks-p (format "(asdf:find-system %S nil)" name)))))
      ;; Wherever a program tells ASDF to look.
      (agent-q-test-send (format "/eval_form (progn (push #p%S asdf:*central-registry*) (asdf:find-system \"aq-other\"))"
                                 other))
      (agent-q-test-until (agent-q-call-waiting))
      (should (agent-q-call-effect-p (agent-q-call-waiting)))
      (agent-q-test-answer "y")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal '(succeeded succeeded)
                     (mapcar #'agent-q-call-state (last (agent-q-test-calls) 2))))
      (should-not (agent-q-rule-widths-test--asks-p "(asdf:find-system \"aq-other\" nil)")))))

(agent-q-test-image-on-each a-request-that-waits-is-judged-again ()
  "A call is asked about as what the calls before it in the message have made of it."
  (let* ((agent-q-project-root (file-name-as-directory
                                (file-truename (make-temp-file
                                                (expand-file-name "project" agent-q-test-directory) t))))
         (default-directory agent-q-project-root)
         (agent-q-offered-tools 'all)
         (file (lambda (name text) `("write_file" (path . ,name) (content . ,text))))
         (tested "(defpackage :aq-later-tests (:use :cl)) (in-package :aq-later-tests) (print 1)\n"))
    (agent-q-test-systems-register connection agent-q-project-root)
    (agent-q-test-with-model
        (agent-q-test-script
         `((("go") ,(funcall file "aq-later.asd" "(defsystem \"aq-later\" :perform (test-op (o c) (print 2)))\n")
            ("load_system" (system . "aq-later")))
           (("Loaded") "One.")
           (("on") ,(funcall file "aq-later-tests.asd"
                             "(defsystem \"aq-later-tests\" :components ((:file \"later\")))\n")
            ,(funcall file "later.lisp" tested)
            ("run_tests" (system . "aq-later-tests")))
           (("aq-later-tests.asd: ") "Two.")))
      (agent-q-test-with-chat
        (setq agent-q-session-connection connection)
        (agent-q-test-send "go")
        ;; Rules for all edits, and for the systems of a project that has none yet: the file comes first.
        (dolist (edits '(t nil))
          (agent-q-test-answer "!")
          (should (agent-q-test-until (cdr (agent-q-approval-display-offer-widths (agent-q-call-offer (agent-q-call-waiting))))))
          (should (string-match-p (if edits "new files in it" "this project's systems")
                                  (nth 2 (agent-q-approval-display-offer-shown (agent-q-call-offer (agent-q-call-waiting))))))
          (agent-q-test-answer "!")
          (when edits
            (agent-q-test-until (and (agent-q-call-waiting)
                                     (string-search "aq-later.asd" (agent-q-call-reason (agent-q-call-waiting)))))))
        (agent-q-test-until (agent-q-test-idle-p))
        (should (agent-q-test-shows "One."))
        (agent-q-test-send "on")
        (agent-q-test-until (agent-q-test-idle-p))
        (should (agent-q-test-shows "Two."))))))

(agent-q-test-image-on-each what-was-read-in-a-file-is-read-again-unasked ()
  "A #. that ran when the file was loaded is no reason to ask before a definition is compiled."
  (let ((directory (agent-q-test-systems-system
                    "aq-reads" '(("one" . "(defun cl-user::aq-size () (list 3))\n")
                                 ("two" . "(in-package :cl-user)\n(defun aq-two (x) (list x '#.(aq-size)))\n")))))
    (agent-q-test-systems-register connection directory)
    (agent-q-test-systems-in-project directory connection
     (agent-q-test-assess-before
      (cl-flet ((asks-p (text)
                  (when text
                    (write-region (format "(in-package :cl-user)\n(defun aq-two (x) %s)\n" text)
                                  nil "two.lisp" nil 'silent))
                  (agent-q-test-send "/compile_file path=two.lisp name=aq-two")
                  (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                  (when (agent-q-call-waiting)
                    (should (string-match-p "has a #\\.,.*: #\\.(\\(?:aq-size\\|list (aq-size)\\))"
                                            (agent-q-call-reason (agent-q-call-waiting))))
                    (agent-q-test-answer "n")
                    (agent-q-test-until (agent-q-test-idle-p))
                    t)))
        (agent-q-test-image-values connection "(defun cl-user::aq-size () (list 3))")
        (should (asks-p nil))
        (agent-q-test-send "/load_system aq-reads")
        (agent-q-test-answer "y")
        (agent-q-test-until (agent-q-test-idle-p))
        (should-not (asks-p nil))
        (should-not (asks-p "(list '#.(aq-size) x x '#.(aq-size))"))
        (should (equal '("T") (agent-q-test-image-values
                               connection "(equal (cl-user::aq-two 1) '((3) 1 1 (3)))")))
        (should (asks-p "(list '#.(aq-size) '#.(list (aq-size)))"))
        ;; Of another file nothing is known, nor of code that is none's.
        (agent-q-test-send "/eval_form (list '#.(aq-size))")
        (agent-q-test-answer "n")
        (agent-q-test-until (agent-q-test-idle-p))))
      ;; The watch meets what it does.
      (agent-q-test-send "/eval_form (list '#.(aq-size))")
      (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
      (should-not (agent-q-call-waiting)))))

(agent-q-test-image-on-each sources-of-libraries-leave-rules-in-force ()
  "What a turn has read of systems that ASDF knows stops no rule; any other file from outside does."
  (let* ((known (file-truename (agent-q-test-systems-system
                                "aq-read" '(("aq-read" . "(defun cl-user::aq-read-one () 1)\n")))))
         (other (file-truename (make-temp-file (expand-file-name "other" agent-q-test-directory) nil ".lisp" "(f)")))
         (agent-q-project-root (file-name-as-directory
                                (file-truename (make-temp-file
                                                (expand-file-name "project" agent-q-test-directory) t))))
         (default-directory agent-q-project-root)
         (agent-q-offered-tools 'all)
         (edit (lambda (old new) `("edit_file" (path . "a.lisp") (old_str . ,old) (new_str . ,new)))))
    (write-region "(list 1)\n" nil "a.lisp" nil 'silent)
    (agent-q-test-systems-register connection known)
    (agent-q-test-image-values connection "(asdf:load-system \"aq-read\")")
    (agent-q-test-with-model
        (agent-q-test-script
         `((("rule") ("read_file" (path . "a.lisp")) ,(funcall edit "1" "2"))
           (("replaced") "One.")
           (("library") ("grep_project" (pattern . "aq-read") (path . ,known))
            ("read_file" (path . ,(concat known "aq-read.lisp")))
            ("find_definition" (symbol . "aq-read-one"))
            ,(funcall edit "2" "3"))
           (("AQ-READ-ONE") "Two.")
           (("foreign") ("read_file" (path . ,other)) ,(funcall edit "3" "4"))
           (("denied") "Three.")))
      (agent-q-test-with-chat
        (setq agent-q-session-connection connection)
        (agent-q-test-send "rule")
        (dolist (key '("!" "!"))
          (agent-q-test-answer key))
        (agent-q-test-until (agent-q-test-idle-p))
        (agent-q-test-send "library")
        (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
        (should (agent-q-test-shows "Two."))
        (agent-q-test-send "foreign")
        (agent-q-test-answer "y")
        (agent-q-test-until (and (agent-q-call-waiting)
                                 (string-search "text from outside the project"
                                                (agent-q-call-reason (agent-q-call-waiting)))))
        (agent-q-test-answer "n")
        (agent-q-test-until (agent-q-test-idle-p))
        (should (agent-q-test-shows "Three."))))))

(ert-deftest agent-q-a-rule-for-edits-is-for-ordinary-files-of-the-project ()
  "After it, edits of the project's files and new ones run; hidden and private ones and others ask."
  (let* ((agent-q-project-root (file-name-as-directory
                                (file-truename (make-temp-file
                                                (expand-file-name "project" agent-q-test-directory) t))))
         (default-directory agent-q-project-root)
         (elsewhere (make-temp-file (expand-file-name "elsewhere" agent-q-test-directory) nil ".lisp" "(list 1)\n")))
    (make-directory "src/.hidden" t)
    (dolist (file '("a.lisp" "src/b.lisp" "src/.hidden/c.lisp" ".env" "secrets.pem"))
      (write-region "(list 1)\n" nil file nil 'silent))
    (agent-q-test-with-chat
      (cl-flet* ((send (file)
                   (agent-q-test-send (format "/edit_file path=%s old_str=1 new_str=2" file))
                   (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p))))
                 (asks-p (file)
                   (send file)
                   (when (agent-q-call-waiting)
                     (agent-q-test-answer "n")
                     (agent-q-test-until (agent-q-test-idle-p))
                     t)))
        (send "a.lisp")
        (agent-q-test-answer "!")
        (should (equal "Always allow edits of files of this project, and new files in it, in this chat."
                       (nth 2 (agent-q-approval-display-offer-shown (agent-q-call-offer (agent-q-call-waiting))))))
        (agent-q-test-answer "!")
        (agent-q-test-until (agent-q-test-idle-p))
        (should-not (asks-p "src/b.lisp"))
        (agent-q-test-send "/insert_at_line path=src/b.lisp line=1 new_str=(f)")
        (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
        (should-not (agent-q-call-waiting))
        (dolist (file (list "src/.hidden/c.lisp" ".env" "secrets.pem" elsewhere))
          (ert-info (file) (should (asks-p file))))
        (cl-flet ((writing-asks-p (file content)
                    (agent-q-test-send (format "/write_file path=%s content=%s" file content))
                    (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                    (when (agent-q-call-waiting)
                      (agent-q-test-answer "n")
                      (agent-q-test-until (agent-q-test-idle-p))
                      t)))
          (should-not (writing-asks-p "src/new.lisp" "x"))
          (should (file-exists-p "src/new.lisp"))
          ;; What was there would be lost.
          (dolist (file '("a.lisp" "src/new.lisp" "src/.hidden/new.lisp" "new.pem"))
            (ert-info (file) (should (writing-asks-p file "y")))))))))

(provide 'agent-q-rule-widths-test)
;;; agent-q-rule-widths-test.el ends here
