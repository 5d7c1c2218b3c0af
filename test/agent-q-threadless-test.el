;;; agent-q-threadless-test.el --- Calls into a Lisp without threads  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; CLISP hears nothing while it does something.  Calls take turns, and one that
;; takes too long is interrupted by a signal, which must not hit anything else.

;;; Code:

(require 'agent-q-test-tools)
(require 'agent-q-image)

(defmacro agent-q-test-threadless-on-each (name docstring &rest body)
  "Define a test NAME for each client, with CONNECTION to CLISP in BODY.
DOCSTRING says what is shown."
  (declare (indent defun) (doc-string 2) (debug t))
  `(progn
     ,@(mapcar
        (lambda (client)
          `(ert-deftest ,(intern (format "agent-q-threadless-%s/%s" name client)) ()
             ,docstring
             :tags '(:image :lisps ,(intern (format ":%s" client)))
             (let ((connection (agent-q-test-image-connection ',client 'clisp)))
               (unless connection (ert-skip (format "No CLISP through %s" ',client)))
               ,@body
               (should (equal '("3") (agent-q-test-image-values connection "(+ 1 2)")))
               (should (zerop (agent-q-connection-pending)))
               (should-not (agent-q-test-image-debugged)))))
        '(slime sly))))

(agent-q-test-threadless-on-each takes-turns
  "Each of several calls ends with its own values, and has its own time."
  (let ((first (agent-q-test-image-start connection "(progn (sleep 1) :first)"))
        (second (agent-q-test-image-start connection "(progn (sleep 0.5) :second)" 0.9))
        (third (agent-q-test-image-start connection ":third")))
    (pcase-dolist (`(,call . ,value) `((,first . ":FIRST") (,second . ":SECOND")
                                       (,third . ":THIRD")))
      (pcase (agent-q-test-image-end call)
        (`("done" :outcome :returned :value ,told)
         (should (equal (list value)
                        (plist-get (car (plist-get told :forms)) :values))))
        (other (ert-fail other))))))

(agent-q-test-threadless-on-each stops-what-takes-too-long
  "A form is stopped when its time is over, and its clean-up forms run."
  (let ((end (agent-q-test-image-end
              (agent-q-test-image-start
               connection "(unwind-protect (loop) (setf (get 'aq-cleaned 'up) t))" 0.5))))
    (should (equal '("timed-out" :outcome :cancelled :because "timed out after 0.5 s") end)))
  (should (equal '("T") (agent-q-test-image-values connection "(get 'aq-cleaned 'up)"))))

(agent-q-test-threadless-on-each cancels-what-waits
  "A call that is cancelled while it waits for another one never runs."
  (let ((first (agent-q-test-image-start connection "(progn (sleep 0.5) :first)"))
        (second (agent-q-test-image-start connection "(setf (get 'aq-cancelled 'ran) t)")))
    (agent-q-image-cancel (car second))
    (should (equal "aborted" (car (agent-q-test-image-end second))))
    (should (equal "done" (car (agent-q-test-image-end first)))))
  (should (equal '("NIL") (agent-q-test-image-values connection "(get 'aq-cancelled 'ran)"))))

(agent-q-test-threadless-on-each leaves-the-user-alone
  "What the user evaluates is not interrupted for a call that waits behind it."
  (let* ((client (agent-q-connection-client connection))
         (rex (if (eq client 'sly) '(slynk:interactive-eval) '(swank:interactive-eval)))
         (answer nil))
    (agent-q-connection-ask connection :rex
                        (append rex '("(cl:progn (cl:sleep 4) (cl:+ 4 5))")) t
                        (lambda (result) (setq answer result)))
    (let ((end (agent-q-test-image-end
                (agent-q-test-image-start connection "(setf (get 'aq-late 'ran) t)" 0.3))))
      (should (equal "unresponsive" (car end)))
      (should (string-match-p "no threads here" (cdr end))))
    (agent-q-test-until answer)
    (should (eq :ok (car answer)))
    (should (string-match-p "9" (cadr answer)))))

(agent-q-test-threadless-on-each keeps-what-is-parked
  "Stopping a call leaves an error parked whose stack is below it."
  (agent-q-test-image-eval connection "(error \"parked\")" :on-error "park")
  (let* ((process (agent-q-connection-process connection))
         (parked (car (agent-q-image-park-list process))))
    (should parked)
    (should (equal "timed-out"
                   (car (agent-q-test-image-end
                         (agent-q-test-image-start connection "(loop)" 0.5)))))
    (should (equal (list parked) (agent-q-image-park-list process)))
    (agent-q-image-release parked)
    (agent-q-test-until (null (agent-q-image-park-list process)))))

(provide 'agent-q-threadless-test)
;;; agent-q-threadless-test.el ends here
