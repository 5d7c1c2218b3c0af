;;; agent-q-rule-widths-test.el --- Rules about what code is asked about  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; By a real image: what it says of each reason, and what a rule lets run that was
;; offered for an operator or a reason.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-assess)

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

(provide 'agent-q-rule-widths-test)
;;; agent-q-rule-widths-test.el ends here
