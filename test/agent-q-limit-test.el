;;; agent-q-limit-test.el --- Turns that ask whether they go on  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A turn that met a limit, an answer that was cut, and the request that would be sent
;; now: on the real core, with the scripted server as a model.

;;; Code:

(require 'agent-q-chat-commands)
(require 'agent-q-test)
(require 'agent-q-test-registry)

(defmacro agent-q-limit-test--with-rounds (&rest body)
  "Run BODY in a chat whose turn asks after one request, and has two rounds."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-tools
       ((agent-q-test-tool "t_run" (lambda (_) "It ran.")))
     (agent-q-test-with-model
         "{\"turns\":[{\"steps\":[{\"tool_calls\":[{\"name\":\"t_run\",\"arguments\":{\"text\":\"1\"}}]}]},
                     {\"steps\":[{\"text\":\"The end.\"}]},
                     {\"steps\":[{\"text\":\"Something else.\"}]}]}"
       (let ((agent-q-max-iterations 1))
         (agent-q-test-with-chat
           (agent-q-test-send "go")
           (agent-q-test-until (agent-q-test-shows "[Stop]"))
           ,@body)))))

(ert-deftest agent-q-limit-the-chat-asks-and-goes-on ()
  (agent-q-limit-test--with-rounds
    (should (agent-q-test-shows
             "The turn has used 1 request (agent-q-max-iterations). Continue? (y or n, then RET)\n[Continue]\n[Stop]"))
    (should (string-match-p "\\` Continue\\?" (agent-q-chat-view-header-line)))
    (should (string-match-p "agent-q asks" agent-q-attention-mark))
    (should agent-q-chat-view-header-since)
    (save-window-excursion
      (with-temp-buffer
        (agent-q-goto-approval)))
    (should (looking-at-p "\\[Continue\\]$"))
    (agent-q-test-press "RET")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-suffix-p "\nThe end.\n" (agent-q-test-log)))
    (should-not agent-q-attention-mark)
    (should-not (agent-q-test-shows "> Continue."))
    (dolist (answered '("[Continue]" "[Stop]"))
      (should-not (button-at (agent-q-test-find answered))))))

(ert-deftest agent-q-limit-stopping-ends-the-turn ()
  (agent-q-limit-test--with-rounds
    (agent-q-test-find "[Stop]")
    (agent-q-test-press "RET")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-suffix-p "It was stopped.\n[Continue]\n" (agent-q-test-log)))
    (should (string-match-p "\\` Ready" (agent-q-chat-view-header-line)))))

(ert-deftest agent-q-limit-yes-and-no-are-answers ()
  (pcase-dolist (`(,typed . ,end) '(("y" . "\nThe end.\n") ("No" . "It was stopped.\n[Continue]\n")))
    (agent-q-limit-test--with-rounds
      (agent-q-test-send typed)
      (agent-q-test-until (agent-q-test-idle-p))
      (should (string-suffix-p end (agent-q-test-log)))
      (should-not (agent-q-test-shows (concat "> " typed)))
      (should (equal "" (agent-q-prompt-text))))))

(ert-deftest agent-q-limit-a-message-is-an-answer ()
  (agent-q-limit-test--with-rounds
    (agent-q-test-ask "What about this?")
    (should (agent-q-test-shows "It was stopped."))
    (should (string-suffix-p "> What about this?\n\nThe end.\n" (agent-q-test-log)))))

(ert-deftest agent-q-limit-cancelling-ends-the-turn ()
  (agent-q-limit-test--with-rounds
    (agent-q-chat-send-or-cancel)
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-suffix-p "Cancelled.\n" (agent-q-test-log)))))

(ert-deftest agent-q-limit-a-cut-answer-can-be-continued ()
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"text\":\"One, two\"},{\"cut\":true}]},
                  {\"steps\":[{\"text\":\"and three.\"}],
                   \"expect\":{\"contains\":[\"One, two\",\"Continue.\"]}}]}"
    (agent-q-test-with-chat
      (agent-q-test-ask "count")
      (should (string-match-p "One, two\n\n.*was lost before the reply was complete\\.\n\\[Continue\\]\n\\'"
                              (agent-q-test-log)))
      (agent-q-test-find "[Continue]")
      (agent-q-test-press "RET")
      (agent-q-test-until (agent-q-test-shows "and three."))
      (agent-q-test-until (agent-q-test-idle-p))
      (should-not (button-at (agent-q-test-find "[Continue]"))))))

(ert-deftest agent-q-limit-another-model-can-be-chosen-where-there-is-none-of-that-name ()
  (agent-q-test-with-model
      "{\"turns\":[{\"status\":404,\"body\":{\"error\":{\"message\":\"What is that?\"}}},
                  {\"status\":402,\"body\":{\"error\":{\"message\":\"No credit\"}}}]}"
    (agent-q-test-with-chat
      (agent-q-test-ask "hello")
      (should (string-suffix-p "\n[Try again]\n[Choose another model]\n" (agent-q-test-log)))
      (agent-q-test-find "[Choose another model]")
      (let ((chosen nil))
        (cl-letf (((symbol-function 'agent-q-set-model)
                   (lambda () (interactive) (setq chosen (current-buffer)))))
          (agent-q-test-press "RET"))
        (should (eq chosen chat)))
      ;; No other model has more credit there.
      (agent-q-test-ask "hello again")
      (should (string-suffix-p "No credit\n[Try again]\n" (agent-q-test-log))))))

(ert-deftest agent-q-limit-room-is-made-where-a-long-conversation-is-refused ()
  (agent-q-test-with-model
      (format "{\"turns\":[{\"steps\":[{\"text\":\"%s\"}]},
                         {\"status\":400,\"body\":\"what?\"},
                         {\"steps\":[{\"text\":\"NOTES\"}]},
                         {\"steps\":[{\"text\":\"Here I am.\"}],
                          \"expect\":{\"contains\":[\"NOTES\",\"go on please\"]}}]}"
              (make-string 20000 ?x))
    (agent-q-test-with-chat
      (agent-q-test-ask "hello")
      (agent-q-test-ask "go on please")
      (should (string-suffix-p "\n[Make room and try again]\n[Try again]\n" (agent-q-test-log)))
      (agent-q-test-find "[Make room and try again]")
      (agent-q-test-press "RET")
      (agent-q-test-until (agent-q-test-shows "Here I am."))
      (agent-q-test-until (agent-q-test-idle-p))
      (should (agent-q-test-shows "Summarized "))
      (should-not (button-at (agent-q-test-find "[Make room and try again]"))))))

(ert-deftest agent-q-limit-the-request-is-gone-to-unless-the-user-went-on ()
  (agent-q-test-with-model "{\"turns\":[]}"
    (agent-q-test-with-chat
      (dolist (elsewhere '(nil t))
        (delete-other-windows)
        (let ((asked (selected-window)))
          (agent-q-show-request)
          (when elsewhere
            (select-window (split-window)))
          (agent-q-test-until (get-buffer-window "*agent-q request*"))
          (should (equal elsewhere (not (equal (window-buffer) (get-buffer "*agent-q request*")))))
          (kill-buffer "*agent-q request*")
          (select-window asked)
          (switch-to-buffer chat))))))

(ert-deftest agent-q-limit-the-request-is-shown ()
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"Hi.\"}]}]}"
    (setq agent-q-provider (append '(:key "sk-planted-0123456789") agent-q-provider))
    (agent-q-test-with-chat
      (goto-char (point-max))
      (insert "Who are you?")
      (save-window-excursion
        (agent-q-show-request)
        (agent-q-test-until (get-buffer "*agent-q request*"))
        (with-current-buffer "*agent-q request*"
          (let* ((text (buffer-string))
                 (json (json-parse-string text :object-type 'alist)))
            (should-not (string-match-p "planted" text))
            (should (equal "[not shown]" (alist-get 'authorization (alist-get 'headers json))))
            (should (string-match-p "Who are you\\?\\'"
                                    (alist-get 'content
                                               (elt (alist-get 'messages (alist-get 'body json)) 1)))))
          (kill-buffer)))
      (should (equal "Who are you?" (agent-q-prompt-text)))
      (should (equal "" (with-temp-buffer
                          (ignore-errors (insert-file-contents agent-q-test-requests))
                          (buffer-string)))))))

(ert-deftest agent-q-limit-without-a-model-there-is-no-request ()
  (agent-q-test-with-chat
    (let ((said nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest arguments) (setq said (apply #'format format arguments)))))
        (agent-q-show-request)
        (agent-q-test-until said))
      (should (string-prefix-p "No model is set up." said)))))

(provide 'agent-q-limit-test)
;;; agent-q-limit-test.el ends here
