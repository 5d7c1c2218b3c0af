;;; agent-q-garbage-test.el --- When garbage is collected  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Not while an answer is drawn, soon after it, and as before then.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-test)

(defmacro agent-q-garbage-test--with-threshold (threshold &rest body)
  "Run BODY with THRESHOLD as that of garbage collection, and no trace of other tests."
  (declare (indent 1) (debug t))
  `(let ((gc-cons-threshold ,threshold)
         (agent-q-events--garbage-reasons nil)
         (agent-q-events--garbage-threshold nil)
         (agent-q-events--garbage-timer nil))
     (unwind-protect (progn ,@body)
       (when agent-q-events--garbage-timer
         (cancel-timer agent-q-events--garbage-timer)))))

(defun agent-q-garbage-test--rest ()
  "Do what happens when the user rests."
  (while agent-q-events--garbage-timer
    (let ((timer agent-q-events--garbage-timer))
      (cancel-timer timer)
      (apply (timer--function timer) (timer--args timer)))))

(ert-deftest agent-q-garbage-waits-for-the-end-of-all-that-keeps-it ()
  (agent-q-garbage-test--with-threshold 800000
    (agent-q-events-garbage-keep 'one)
    (agent-q-events-garbage-keep 'one)
    (agent-q-events-garbage-keep 'other)
    (should (= gc-cons-threshold agent-q-events-garbage-limit))
    (agent-q-events-garbage-let-go 'one)
    (should-not agent-q-events--garbage-timer)
    (agent-q-events-garbage-let-go 'other)
    ;; It goes on before the user rested: nothing is collected.
    (agent-q-events-garbage-keep 'other)
    (let ((collections gcs-done))
      (agent-q-garbage-test--rest)
      (should (= collections gcs-done))
      (agent-q-events-garbage-let-go 'other)
      (agent-q-garbage-test--rest)
      (should (= (1+ collections) gcs-done)))
    (should (= gc-cons-threshold 800000))
    (agent-q-events-garbage-let-go 'other)
    (should-not agent-q-events--garbage-timer)))

(ert-deftest agent-q-garbage-of-a-command-waits-for-the-user-s-rest ()
  (agent-q-garbage-test--with-threshold 800000
    (dotimes (_ 3)
      (agent-q-events-garbage-put-off))
    (should (= gc-cons-threshold agent-q-events-garbage-limit))
    (let ((collections gcs-done))
      (agent-q-garbage-test--rest)
      (should (= (1+ collections) gcs-done)))
    (should (= gc-cons-threshold 800000)))
  ;; What keeps it besides goes on.
  (agent-q-garbage-test--with-threshold 800000
    (agent-q-events-garbage-keep 'answer)
    (agent-q-events-garbage-put-off)
    (should-not agent-q-events--garbage-timer)
    (should (equal agent-q-events--garbage-reasons '(answer)))))

(ert-deftest agent-q-garbage-leaves-the-threshold-of-others-alone ()
  (agent-q-garbage-test--with-threshold (* 2 agent-q-events-garbage-limit)
    (agent-q-events-garbage-keep 'one)
    (should (= gc-cons-threshold (* 2 agent-q-events-garbage-limit)))
    (agent-q-events-garbage-let-go 'one)
    (should (= gc-cons-threshold (* 2 agent-q-events-garbage-limit))))
  ;; Changed meanwhile: the user's word is the last.
  (agent-q-garbage-test--with-threshold 800000
    (agent-q-events-garbage-keep 'one)
    (setq gc-cons-threshold 1234567)
    (agent-q-events-garbage-let-go 'one)
    (agent-q-garbage-test--rest)
    (should (= gc-cons-threshold 1234567))))

(ert-deftest agent-q-garbage-is-kept-while-a-chat-streams-or-calls-run ()
  (agent-q-garbage-test--with-threshold 800000
    (agent-q-test-with-chat
      (agent-q-test-event :turn-started :turn 1 :text "q")
      (agent-q-test-event :state :state :waiting)
      (should (memq chat agent-q-events--garbage-reasons))
      ;; A thousand calls may come and end meanwhile.
      (agent-q-test-event :state :state :running)
      (should (memq chat agent-q-events--garbage-reasons))
      ;; The user may take long to answer.
      (agent-q-test-event :state :state :approving)
      (should-not agent-q-events--garbage-reasons)
      (agent-q-test-event :state :state :streaming)
      (agent-q-test-event :text :text "a")
      (should (memq chat agent-q-events--garbage-reasons))
      (agent-q-test-event :turn-ended :outcome :finished)
      (should-not agent-q-events--garbage-reasons)
      ;; A chat that is killed in mid-turn keeps nothing.
      (agent-q-test-event :state :state :streaming)
      (should agent-q-events--garbage-reasons))
    (should-not agent-q-events--garbage-reasons)))

(provide 'agent-q-garbage-test)
;;; agent-q-garbage-test.el ends here
