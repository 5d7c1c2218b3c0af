;;; agent-q-plan-test.el --- Planning before anything is changed  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Plan mode in a chat on the real core, with the scripted server as a model.

;;; Code:

(require 'agent-q-chat-send)
(require 'agent-q-test)
(require 'agent-q-test-registry)

(ert-deftest agent-q-plan-nothing-is-changed-until-the-plan-is-carried-out ()
  (agent-q-test-with-tools
      ((agent-q-test-tool "t_run" (lambda (_) "It ran.") :safety-level :cautious))
    (agent-q-test-with-model
        "{\"turns\":[{\"steps\":[{\"tool_calls\":[{\"name\":\"t_run\",\"arguments\":{\"text\":\"1\"}}]}],
                      \"expect\":{\"contains\":[\"(Plan mode is on: \"]}},
                     {\"steps\":[{\"text\":\"The plan.\"}],
                      \"expect\":{\"contains\":[\"did not run and changed nothing\"]}},
                     {\"steps\":[{\"tool_calls\":[{\"name\":\"t_run\",\"arguments\":{\"text\":\"1\"}}]}],
                      \"expect\":{\"contains\":[\"(Plan mode is off: \",\"The plan.\",\"Do it.\"]}},
                     {\"steps\":[{\"text\":\"Done.\"}],\"expect\":{\"contains\":[\"It ran.\"]}}]}"
      (agent-q-test-with-chat
        (agent-q-test-press "C-c C-s")
        (should agent-q-plan-mode)
        (should (string-match-p "\\bPlan\\b" (agent-q-chat-view-header-line)))
        (agent-q-test-ask "go")
        (should (string-suffix-p "The plan.\n\n[Do it]\n" (agent-q-test-log)))
        (agent-q-test-find "[Do it]")
        (agent-q-test-press "RET")
        (should-not agent-q-plan-mode)
        (agent-q-test-until (agent-q-test-idle-p))
        (should (agent-q-test-shows "> Do it.\n"))
        (should (string-suffix-p "Done.\n" (agent-q-test-log)))
        (should-not (string-match-p "\\bPlan\\b" (agent-q-chat-view-header-line)))
        (should-error (agent-q-plan-do) :type 'user-error)))))

(ert-deftest agent-q-plan-is-a-matter-of-chats ()
  (with-temp-buffer
    (should-error (agent-q-plan-mode) :type 'user-error)
    (should-not agent-q-plan-mode)))

(provide 'agent-q-plan-test)
;;; agent-q-plan-test.el ends here
