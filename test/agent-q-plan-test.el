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

(ert-deftest agent-q-plan-items-are-counted-as-they-are-ticked ()
  "The header says how many are done, until all are; another plan takes the place of one."
  (cl-flet ((header-says (text) (string-match-p (regexp-quote text) (agent-q-chat-view-header-line))))
    (agent-q-test-with-chat
      (agent-q-test-event :turn-started :turn 1)
      (agent-q-test-event :text :text "The plan:\n\n- [ ] Rename `a`\n- [ ] Test it\n1. [x] Look\n\nNo - [ ] item.\n")
      (agent-q-test-event :call-proposed :call 1 :tool "t_run" :arguments "{}")
      (should (header-says "1 of 3 done"))
      (agent-q-test-event :text :text "- [x] Rename `a`\n")
      (agent-q-test-event :call-proposed :call 2 :tool "t_run" :arguments "{}")
      (should (header-says "2 of 3 done"))
      (agent-q-test-event :text :text "- [X] Test it\n- [ ] One more")
      (agent-q-test-event :turn-ended :turn 1 :outcome :finished)
      (should (header-says "3 of 4 done"))
      (agent-q-test-event :turn-started :turn 2)
      (agent-q-test-event :text :text "* [x] One more")
      (agent-q-test-event :turn-ended :turn 2 :outcome :finished)
      (should-not (header-says " done"))
      (agent-q-test-event :turn-started :turn 3)
      (agent-q-test-event :text :text "- [ ] Another")
      (agent-q-test-event :turn-ended :turn 3 :outcome :finished)
      (should (header-says "0 of 1 done")))))

(ert-deftest agent-q-plan-is-a-matter-of-chats ()
  (with-temp-buffer
    (should-error (agent-q-plan-mode) :type 'user-error)
    (should-not agent-q-plan-mode)))

(provide 'agent-q-plan-test)
;;; agent-q-plan-test.el ends here
