;;; agent-q-debugger-test.el --- Errors whose stack is alive  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Parked errors and the user's open debuggers, through core, chat and call
;; layer on real SLIME and SLY.  No debugger pops up but where one is handed
;; over.

;;; Code:

(require 'agent-q-activity)
(require 'agent-q-test)
(require 'agent-q-test-tools)

(defconst agent-q-debugger-test-definitions
  "(progn (defvar *aq-done* nil)
          (defun aq-inner (x) (declare (optimize (debug 3)))
            (let ((y (list :local x)))
              (restart-case (error \"no good: ~a\" x)
                (continue () :report \"Go on.\" (list :continued y))
                (use-value (value) :report \"Use a value.\" (list :used value)))))
          (defun aq-outer (x) (declare (optimize (debug 3)))
            (let ((result (aq-inner (* 2 x)))) (list :outer result))))"
  "What the tests debug.")

(defun agent-q-debugger-test--park (connection form)
  "Park FORM, of code defined over CONNECTION; return the debugger's name."
  (agent-q-test-image-eval connection agent-q-debugger-test-definitions)
  (let ((told (agent-q-test-tools-ask (concat "/eval_form on_error=park " form))))
    (should (string-match "parked as debugger \\(d[0-9]+\\)" told))
    (should-not (agent-q-test-image-debugged))
    (match-string 1 told)))

(defun agent-q-debugger-test--unparked ()
  "Wait until nothing is parked."
  (agent-q-test-until (null (agent-q-image-park-list))))

(agent-q-test-tools-on-each debugger-restart-by-name ()
  "An error is left by the restart that the call names, with values."
  (agent-q-test-image-eval connection agent-q-debugger-test-definitions)
  (let ((told (agent-q-test-tools-ask "/eval_form restart=continue (aq-outer 4)")))
    (should (string-match-p "\\`=> (:OUTER (:CONTINUED (:LOCAL 8)))\nRestarts invoked:\n  SIMPLE-ERROR: no good: 8 -> CONTINUE\\'" told)))
  (should (string-match-p "(:USED 7)"
                          (agent-q-test-tools-ask
                           "/eval_form restart=\"use-value (+ 3 4)\" (aq-outer 4)")))
  ;; A restart that isn't there leaves a report.
  (let ((told (agent-q-test-tools-ask "/eval_form restart=no-such (aq-outer 4)")))
    (should (string-match-p "\\`Error SIMPLE-ERROR: no good: 8\n" told))
    (should (string-match-p "^  SIMPLE-ERROR: no good: 8 -> none is called no-such$" told)))
  (should (string-match-p "-> the values for use-value could not be evaluated$"
                          (agent-q-test-tools-ask
                           "/eval_form restart=\"use-value (error 1)\" (aq-outer 4)")))
  ;; A restart that leads to the same error ends, too.
  (should (string-match-p "RETRY\\(.*\n\\)*\\(.*\\)Restarts:"
                          (agent-q-test-tools-ask
                           "/eval_form restart=retry (loop (with-simple-restart (retry \"again\") (error \"ever\")))"))))

(agent-q-test-tools-on-each debugger-restart-values-are-looked-at-in-turn ()
  "A value that the one before it makes dangerous is not evaluated unasked."
  (let ((harm (make-temp-file (expand-file-name "harm" agent-q-test-directory)))
        (name (agent-q-debugger-test--park connection "(aq-outer 4)")))
    (agent-q-test-send
     (format "/invoke_restart debugger=%s restart=use-value values=%S" name
             (format "(first (push :aq-late *features*)) #+aq-late (delete-file %S) 1" harm)))
    (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
    (should (agent-q-test-shows (format "The running code wants to delete %s" harm)))
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p "Not allowed: delete " (agent-q-test-tools-answer)))
    (should (file-exists-p harm))
    (should (equal '("NIL") (agent-q-test-image-values
                             connection "(not (setf *features* (remove :aq-late *features*)))")))
    (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" name))
    (agent-q-debugger-test--unparked)))

(agent-q-test-tools-on-each debugger-parked ()
  "A parked error is looked into, evaluated in, and left by a restart."
  (let ((name (agent-q-debugger-test--park connection "(aq-outer 4)")))
    (should (string-match-p (format "^%s, yours: SIMPLE-ERROR: no good: 8\n  in (aq-outer 4)" name)
                            (agent-q-test-tools-ask "/list_debuggers")))
    (let ((frames (agent-q-test-tools-ask
                   (format "/debugger_frames locals=true %s" name))))
      (should (string-match-p "\\`SIMPLE-ERROR: no good: 8\nRestarts: 0 CONTINUE (Go on.), 1 USE-VALUE" frames))
      (should (string-match "^  \\([0-9]+\\): (AQ-INNER 8)" frames))
      (should (string-match-p "^       X = 8$" frames))
      (should (string-match-p "^       Y = (:LOCAL 8)$" frames))
      (should (string-match "^  \\([0-9]+\\): (AQ-OUTER 4)" frames))
      (should-not (string-match-p ": .*\\(SWANK\\|SLYNK\\|AGENT-Q\\)"
                                  (replace-regexp-in-string "^Restarts.*" "" frames)))
      (let ((outer (match-string 1 frames)))
        (should (equal "=> 5" (agent-q-test-tools-ask
                               (format "/eval_in_frame debugger=%s frame=%s (1+ x)" name outer)))))
      ;; An error there is told and the stack stays as it is.
      (should (string-match-p "\\`Error SIMPLE-ERROR: wrong 8\n"
                              (agent-q-test-tools-ask
                               (format "/eval_in_frame debugger=%s (error \"wrong ~a\" x)" name)))))
    ;; One more evaluation says how to get out.
    (should (string-match-p (format "=> 2\n(Still parked: %s, SIMPLE-ERROR: no good: 8. call_tool invoke_restart continues it" name)
                            (agent-q-test-tools-ask "/eval_form (1+ 1)")))
    ;; Once is enough.
    (should (equal "=> 3" (agent-q-test-tools-ask "/eval_form (1+ 2)")))
    (should (string-match-p "No restart NOPE. Available: CONTINUE, USE-VALUE"
                            (agent-q-test-tools-ask
                             (format "/invoke_restart debugger=%s NOPE" name))))
    (should (string-match-p "needs a value"
                            (agent-q-test-tools-ask
                             (format "/invoke_restart debugger=%s use-value" name))))
    (should (equal "=> (:OUTER (:USED 42))"
                   (agent-q-test-tools-ask
                    (format "/invoke_restart debugger=%s values=\"(* 6 7)\" use-value" name))))
    (agent-q-debugger-test--unparked)
    (should (string-match-p "No debugger is open" (agent-q-test-tools-ask "/list_debuggers")))
    (should (string-match-p (format "No debugger %s is open" name)
                            (agent-q-test-tools-ask (format "/debugger_frames %s" name))))))

(agent-q-test-tools-on-each debugger-frames-have-packages ()
  "Forms are read in the package of their frame each time, so that nothing is said about it."
  (agent-q-test-image-eval connection "(defpackage :aq-frame (:use :cl)) (in-package :aq-frame)
                                       (defun deep (x) (declare (optimize (debug 3))) (error \"deep ~a\" x))")
  (let ((name (agent-q-debugger-test--park connection "(aq-frame::deep 3)")))
    (should (equal "=> (X 3)" (agent-q-test-tools-ask
                               (format "/eval_in_frame debugger=%s (list 'x x)" name))))
    (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" name))
    (agent-q-debugger-test--unparked)))

(agent-q-test-tools-on-each debugger-parked-again-and-given-up ()
  "After a restart the next error parks again; ABORT gives up."
  (let ((name (agent-q-debugger-test--park
               connection "(unwind-protect (list (aq-outer 1) (aq-outer 2)) (setf *aq-done* :unwound))")))
    (let ((told (agent-q-test-tools-ask (format "/invoke_restart debugger=%s continue" name))))
      (should (string-match-p "\\`Error SIMPLE-ERROR: no good: 4\n" told))
      (should (string-match-p (format "parked as debugger %s:" name) told)))
    (should (string-match-p "evaluation was aborted"
                            (agent-q-test-tools-ask (format "/invoke_restart debugger=%s ABORT" name))))
    (agent-q-debugger-test--unparked)
    (should (equal '(":UNWOUND") (agent-q-test-image-values connection "*aq-done*")))))

(agent-q-test-tools-on-each debugger-cleaned-up ()
  "What is parked unwinds when the turn is cancelled and when the chat closes."
  (agent-q-debugger-test--park connection "(unwind-protect (aq-outer 1) (setf *aq-done* :first))")
  (agent-q-test-send "/eval_form (loop)")
  (agent-q-test-until (eq agent-q-chat-view-header-state :running))
  (agent-q-chat-send-cancel)
  (agent-q-test-until (agent-q-test-idle-p))
  (agent-q-debugger-test--unparked)
  (should (equal '(":FIRST") (agent-q-test-image-values connection "*aq-done*")))
  (agent-q-debugger-test--park connection "(unwind-protect (aq-outer 1) (setf *aq-done* :second))")
  (kill-buffer chat)
  (agent-q-debugger-test--unparked)
  (should (equal '(":SECOND") (agent-q-test-image-values connection "*aq-done*"))))

(agent-q-test-tools-on-each debugger-stopped-after-a-restart ()
  "What runs for too long after a restart is parked as any form is."
  (let ((name (agent-q-debugger-test--park
               connection "(progn (with-simple-restart (on \"On.\") (error \"stop\")) (loop))"))
        (agent-q-eval-timeout 1))
    (let ((told (agent-q-test-tools-ask (format "/invoke_restart debugger=%s on" name))))
      (should (string-match "TOOK-TOO-LONG: It ran for 1 s\\(?:.\\|\n\\)*debugger \\(d[0-9]+\\)" told))
      (agent-q-test-tools-ask (format "/invoke_restart debugger=%s abort" (match-string 1 told))))
    (agent-q-debugger-test--unparked)))

(agent-q-test-tools-on-each debugger-hand-over ()
  "Handing over opens the user's own debugger on the live error."
  (let ((name (agent-q-debugger-test--park connection "(setf *aq-done* (aq-outer 4))")))
    (should (string-match-p "Error parked" (agent-q-chat-view-header-line)))
    (save-window-excursion
      (agent-q-debugger-hand-over)
      (should-not (string-match-p "parked" (with-current-buffer chat (agent-q-chat-view-header-line))))
      (let ((buffer (car (agent-q-test-until (agent-q-test-image-debuggers)))))
        (with-current-buffer buffer
          (should (string-match-p "no good: 8" (buffer-string)))
          (should (string-match-p "(AQ-INNER 8)" (buffer-string)))
          (should-not (agent-q-image-park-list))
          (should (string-match-p "^u[0-9]+, the user's, level 1: SIMPLE-ERROR"
                                  (agent-q-test-tools-ask "/list_debuggers" chat)))
          (should (string-match-p (format "No debugger %s is open" name)
                                  (agent-q-test-tools-ask
                                   (format "/debugger_frames %s" name) chat)))
          (agent-q-test-tools-client-call (if (eq client 'sly) 'sly-db 'sldb)
                                          "invoke-restart-0")))
      (agent-q-test-until (not (agent-q-test-image-debuggers))))
    ;; The debugger closes before its thread goes on.
    (agent-q-test-until (equal '("(:OUTER (:CONTINUED (:LOCAL 8)))")
                               (agent-q-test-image-values connection "*aq-done*")))))

(defun agent-q-debugger-test--user-error (client connection)
  "Have the user of CLIENT meet an error over CONNECTION; return its buffer."
  (agent-q-test-image-eval connection agent-q-debugger-test-definitions)
  (agent-q-test-tools-client-call client "interactive-eval" "(aq-outer 21)")
  (car (agent-q-test-until (agent-q-debugger--user-buffers
                            (agent-q-connection-process connection)))))

(agent-q-test-tools-on-each debugger-of-the-user ()
  "The user's debugger is listed, looked into and left, which is dangerous."
  (save-window-excursion
    (agent-q-debugger-test--user-error client connection)
    (let ((list (agent-q-test-tools-ask "/list_debuggers" chat)))
      (should (string-match "^\\(u[0-9]+\\), the user's, level 1: SIMPLE-ERROR: no good: 42" list))
      (let ((name (match-string 1 list)))
        (should (string-match-p "(AQ-INNER 42)"
                                (agent-q-test-tools-ask (format "/debugger_frames %s" name) chat)))
        (should (equal "=> 42" (agent-q-test-tools-ask
                                (format "/eval_in_frame debugger=%s x" name) chat)))
        (should (= 1 (length (agent-q-test-image-debuggers))))
        (with-current-buffer chat
          (agent-q-test-send (format "/invoke_restart debugger=%s continue" name))
          (agent-q-test-until (agent-q-call-waiting))
          (should (string-match-p "leaves your open debugger" (agent-q-test-log)))
          (agent-q-test-answer "y")
          (agent-q-test-until (agent-q-test-idle-p))
          ;; That it goes on is for the user to see.
          (should (string-match-p "\\`The user's debugger was left, and unless the restart was ABORT"
                                  (agent-q-test-tools-answer))))
        (agent-q-test-until (not (agent-q-test-image-debuggers)))))))

(agent-q-test-tools-on-each debugger-explain-error ()
  "Explaining an error starts a chat whose first message is about it."
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"text\":\"You asked for it.\"}]}]}"
    (save-window-excursion
      (let ((buffer (agent-q-debugger-test--user-error client connection))
            (asked nil))
        (with-current-buffer buffer
          (let ((look (agent-q-activity-look-here)))
            (should (eq 'error (agent-q-activity-look-kind look)))
            (should (string-match-p "no good: 42" (agent-q-activity-look-label look)))
            (should (string-match-p "Restarts: \\(?:.\\|\n\\)*AQ-INNER 42"
                                    (cdar (agent-q-activity-look-excerpts look)))))
          (agent-q-explain-error))
        (setq asked (window-buffer))
        (unwind-protect
            (with-current-buffer asked
              (should-not (eq asked chat))
              (should (equal connection agent-q-session-connection))
              (agent-q-test-until (and (agent-q-test-idle-p)
                                       (string-match-p "You asked for it" (agent-q-test-log))))
              ;; What it is about is sent, and not a part of the message.
              (should (string-match-p "> Explain this error, and what to do about it\\.\n\n  about .*no good: 42"
                                      (agent-q-test-log)))
              (should (string-match-p "AQ-INNER 42" (agent-q-test-last-message))))
          (kill-buffer asked))
        (agent-q-test-tools-quit-debuggers client)))))

;;;; The journal

(defun agent-q-debugger-test--ask (line)
  "Call the tool of the console LINE; return the name of its turn in journals."
  (agent-q-test-tools-ask line)
  agent-q-session-turn)

(defun agent-q-debugger-test--turns (connection name)
  "Return the turns in which the journal behind CONNECTION has NAME changed."
  (cl-loop for change in (plist-get (agent-q-test-image-value connection "journal-list")
                                    :changes)
           when (equal name (plist-get change :name))
           collect (plist-get change :turn)))

(agent-q-test-tools-on-each debugger-journal-of-parked-errors ()
  "Each change around a parked error is entered once, under the turn that made it.
What the user defines meanwhile is not entered."
  (let* ((name (agent-q-debugger-test--park
                connection "(progn (defun aq-j-before () 1)
                              (restart-case (error \"stop\")
                                (on (value) (eval '(defun aq-j-after () 1)) value)))"))
         (parked agent-q-session-turn)
         (within (agent-q-debugger-test--ask
                  (format "/eval_in_frame debugger=%s (defun aq-j-within () 1)" name)))
         (left (progn
                 (agent-q-test-image-directly connection "(defun aq-j-others () 1)")
                 (agent-q-debugger-test--ask
                  (format "/invoke_restart debugger=%s restart=on values=\"(progn (defun aq-j-value () 1) 2)\"" name)))))
    (agent-q-debugger-test--unparked)
    (should (equal (list parked) (agent-q-debugger-test--turns connection "AQ-J-BEFORE")))
    (should (equal (list within) (agent-q-debugger-test--turns connection "AQ-J-WITHIN")))
    (should (equal (list left) (agent-q-debugger-test--turns connection "AQ-J-VALUE")))
    (should (equal (list left) (agent-q-debugger-test--turns connection "AQ-J-AFTER")))
    (should-not (agent-q-debugger-test--turns connection "AQ-J-OTHERS"))))

(agent-q-test-tools-on-each debugger-journal-of-the-users-errors ()
  "What a restart of the user's own error does is entered under its turn."
  (agent-q-connection-ask connection :rex
                      '(cl:eval (cl:read-from-string "(restart-bind ((aq-fix (lambda () (eval '(defun aq-j-fixed () 1)))))
                                    (restart-case (error \"users\") (use-value (v) v)))"))
                      t #'ignore)
  (let* ((buffer (car (agent-q-test-until (agent-q-test-image-debuggers))))
         (name (agent-q-debugger-buffer-name buffer))
         (fixed (agent-q-debugger-test--ask
                 (format "/invoke_restart debugger=%s aq-fix" name)))
         (left (agent-q-debugger-test--ask
                (format "/invoke_restart debugger=%s restart=use-value values=\"(progn (defun aq-j-users () 1) 2)\"" name))))
    (agent-q-test-until (not (agent-q-test-image-debuggers)))
    (should (equal (list fixed) (agent-q-debugger-test--turns connection "AQ-J-FIXED")))
    (should (equal (list left) (agent-q-debugger-test--turns connection "AQ-J-USERS")))))

(provide 'agent-q-debugger-test)
;;; agent-q-debugger-test.el ends here
