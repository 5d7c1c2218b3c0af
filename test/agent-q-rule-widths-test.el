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

(defun agent-q-rule-widths-test--asks-p (form)
  "Whether evaluating FORM in the current chat asks; it is denied then.
Otherwise it has to succeed."
  (agent-q-test-send (concat "/eval_form " form))
  (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
  (if (agent-q-call-waiting)
      (progn (agent-q-test-answer "n")
             (agent-q-test-until (agent-q-test-idle-p))
             t)
    (should (eq 'succeeded (agent-q-call-state (car (last (agent-q-test-calls))))))
    nil))

(defun agent-q-rule-widths-test--allow (form widths)
  "Evaluate FORM in the current chat and take a rule that is WIDTHS wider."
  (agent-q-test-send (concat "/eval_form " form))
  (agent-q-test-answer "!")
  (dotimes (_ widths)
    (agent-q-test-answer "w"))
  (prog1 (nth 2 (agent-q-offer-shown (agent-q-call-offer (agent-q-call-waiting))))
    (agent-q-test-answer "!")
    (agent-q-test-until (agent-q-test-idle-p))))

(defmacro agent-q-rule-widths-test--with-chat (&rest body)
  "Run BODY in a chat about the image of CONNECTION."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-chat
     (setq agent-q-session-connection connection)
     ,@body))

(agent-q-test-image-on-each a-rule-by-operator-is-for-that-operator ()
  "Another operator, and another reason beside it, ask."
  (agent-q-rule-widths-test--with-chat
    (should (string-match-p "asks about: runs programs (UIOP:RUN-PROGRAM), in "
                            (agent-q-rule-widths-test--allow
                             "(uiop:run-program \"true\")" 1)))
    (should-not (agent-q-rule-widths-test--asks-p "(uiop:run-program \"false\" :ignore-error-status t)"))
    (should (agent-q-rule-widths-test--asks-p "(uiop:launch-program \"true\")"))
    (should (agent-q-rule-widths-test--asks-p
             "(progn (uiop:run-program \"true\") (delete-file \"/tmp/no-such-file-x\"))"))
    (should (agent-q-rule-widths-test--asks-p
             "(progn (uiop:run-program \"true\") (funcall (intern (concatenate 'string \"QU\" \"IT\"))))"))))

(agent-q-test-image-on-each a-rule-by-reason-is-for-that-reason ()
  "Other operators for the same run; whatever else is asked about still asks."
  (agent-q-rule-widths-test--with-chat
    (should (string-match-p "asks about: runs programs, in "
                            (agent-q-rule-widths-test--allow
                             "(uiop:run-program \"true\")" 2)))
    (should-not (agent-q-rule-widths-test--asks-p "(progn (uiop:launch-program \"true\") t)"))
    (should (agent-q-rule-widths-test--asks-p
             "(progn (uiop:run-program \"true\") (delete-file \"/tmp/no-such-file-x\"))"))
    ;; What comes behind a form that has to run first.
    (should (agent-q-rule-widths-test--asks-p
             "(uiop:run-program \"true\") (defpackage :aq-widths) (in-package :aq-widths) #.(print 1)"))
    ;; A restart with values is asked about whatever the form does.
    (should (agent-q-rule-widths-test--asks-p
             "form=\"(uiop:run-program \\\"true\\\")\" restart=\"use-value 1\""))))

(agent-q-test-image-on-each a-rule-for-the-systems-of-the-project ()
  "After it, no system of the project is asked about, whether loaded or tested; others are."
  (let ((ours (agent-q-test-systems-system
               "aq-ruled" nil ":perform (test-op (o c) (print :tested)))  (defsystem \"aq-ruled/more\""))
        (other (agent-q-test-systems-system "aq-unruled" nil)))
    (agent-q-test-systems-register connection other)
    (agent-q-test-systems-in-project ours connection
      (cl-flet ((asks-p (line)
                  (agent-q-test-send line)
                  (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
                  (when (agent-q-call-waiting)
                    (agent-q-test-answer "n")
                    (agent-q-test-until (agent-q-test-idle-p))
                    t)))
        (should (asks-p "/load_system aq-ruled"))
        (agent-q-test-send "/load_system aq-ruled")
        (agent-q-test-answer "!")
        (agent-q-test-answer "w")
        (should (string-match-p "\\`Always run load_system and run_tests of this project's systems, in "
                                (nth 2 (agent-q-offer-shown (agent-q-call-offer (agent-q-call-waiting))))))
        (agent-q-test-answer "!")
        (agent-q-test-until (agent-q-test-idle-p))
        (dolist (line '("/load_system aq-ruled" "/load_system force=true aq-ruled.asd"
                        "/run_tests system=aq-ruled" "/load_system aq-ruled/more"))
          (should-not (asks-p line)))
        (should (asks-p "/load_system aq-unruled"))
        (should (asks-p "/run_tests system=aq-unruled"))))))

(ert-deftest agent-q-a-rule-for-edits-is-for-ordinary-files-of-the-project ()
  "After it, edits of the project's files run; hidden and private ones, others and new ones ask."
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
        (agent-q-test-answer "w")
        (should (equal "Always run edit_file, edit_definition, insert_definition and insert_at_line on files of this project, in this chat."
                       (nth 2 (agent-q-offer-shown (agent-q-call-offer (agent-q-call-waiting))))))
        (agent-q-test-answer "!")
        (agent-q-test-until (agent-q-test-idle-p))
        (should-not (asks-p "src/b.lisp"))
        (agent-q-test-send "/insert_at_line path=src/b.lisp line=1 new_str=(f)")
        (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
        (should-not (agent-q-call-waiting))
        (dolist (file (list "src/.hidden/c.lisp" ".env" "secrets.pem" elsewhere))
          (ert-info (file) (should (asks-p file))))
        (agent-q-test-send "/write_file path=a.lisp content=x")
        (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
        (should (agent-q-call-waiting))
        (agent-q-test-answer "n")
        (agent-q-test-until (agent-q-test-idle-p))))))

(provide 'agent-q-rule-widths-test)
;;; agent-q-rule-widths-test.el ends here
