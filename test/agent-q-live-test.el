;;; agent-q-live-test.el --- Chats that look into a real Lisp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The whole path: scripted model, core, approval, client, SBCL, and back into
;; the chat.  AGENT_Q_TEST_IDE says through which client, SLIME by default.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defvar agent-q-test-ide (intern (or (getenv "AGENT_Q_TEST_IDE") "slime"))
  "The client that the tests go through.")

(defmacro agent-q-live-test-with-chat (&rest body)
  "Run BODY in a chat that looks into a real image, or skip the test."
  (declare (indent 0) (debug t))
  `(let ((connection (agent-q-test-image-connection agent-q-test-ide))
         ;; What is shown here is the way through an approval.
         (agent-q-eval-policy 'ask-always))
     (skip-unless connection)
     (agent-q-test-with-chat
       (agent-q-chat-set-connection connection)
       ,@body)))

(ert-deftest agent-q-live-a-turn-describes-and-evaluates ()
  :tags '(:image)
  (agent-q-test-with-model
      "{\"turns\":[
         {\"steps\":[{\"tool_calls\":[
            {\"name\":\"describe_symbol\",\"arguments\":{\"symbol\":\"mapcar\"}}]}]},
         {\"steps\":[{\"tool_calls\":[
            {\"name\":\"eval_form\",\"arguments\":{\"form\":\"(* 6 7)\"}}]}],
          \"expect\":{\"contains\":[\"MAPCAR\"]}},
         {\"steps\":[{\"text\":\"It is 42.\"}],
          \"expect\":{\"contains\":[\"42\"]}}]}"
    (agent-q-live-test-with-chat
      (agent-q-test-send "what is six times seven")
      (agent-q-test-until (agent-q-call-waiting))
      (should (string-match-p (concat "^image: " (regexp-quote
                                                  (agent-q-connection-name connection)))
                              (agent-q-test-log)))
      (agent-q-test-answer "y")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (string-match-p
               (concat "^. describe_symbol mapcar \\S-+ MAPCAR (external in COMMON-LISP) [0-9.]+ m?s\n"
                       ". eval_form (\\* 6 7) \\S-+ 42 [0-9.]+ m?s\n\nIt is 42\\.\n\\'")
               (agent-q-test-log)))
      (agent-q-test-find "eval_form")
      (agent-q-test-press "TAB")
      (should (string-match-p "^result:\n\\(?:.*\n\\)*?.*\\_<42\\_>" (agent-q-test-log))))))

(ert-deftest agent-q-live-the-console-evaluates-after-asking ()
  :tags '(:image)
  (agent-q-live-test-with-chat
    (agent-q-test-send "/eval_form (error \"no ~a\" :luck)")
    (agent-q-test-answer "y")
    (agent-q-test-until (agent-q-test-idle-p))
    (agent-q-test-find "eval_form (error")
    (forward-line 2)
    (agent-q-test-press "TAB")
    (should (string-match-p "SIMPLE-ERROR" (agent-q-test-log)))
    (should (string-match-p "no LUCK" (agent-q-test-log)))))

(ert-deftest agent-q-live-a-running-form-is-cancelled ()
  :tags '(:image)
  (agent-q-live-test-with-chat
    (agent-q-test-send "/eval_form (loop)")
    (agent-q-test-answer "y")
    (agent-q-test-until (eq agent-q-chat-view-header-state :running))
    (should (string-match-p "Running eval_form" (agent-q-chat-view-header-line)))
    (agent-q-chat-send-cancel)
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p "eval_form (loop) cancelled" (agent-q-test-log)))
    ;; The image is free again.
    (agent-q-test-ask "/describe_symbol car")
    (should (string-match-p "describe_symbol car \\S-+ CAR (external in COMMON-LISP) [0-9.]+ m?s" (agent-q-test-log)))))

(provide 'agent-q-live-test)
;;; agent-q-live-test.el ends here
