;;; agent-q-dialects-test.el --- Chats in each dialect  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A chat on the real core with the scripted server, in each dialect: thinking, a call, its result and
;; the answer.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defconst agent-q-dialects-test--script
  "{\"turns\":[
    {\"expect\":{\"contains\":[\"how late is it\"]},
     \"steps\":[{\"reasoning\":\"A clock.\"},{\"text\":\"Let me see.\"},
                {\"tool_calls\":[{\"name\":\"t_clock\",\"arguments\":{\"text\":\"now\"}}]},
                {\"usage\":[1000,20]}]},
    {\"expect\":{\"contains\":[\"how late is it\",\"t_clock\",\"It is late.\"]},
     \"steps\":[{\"text\":\"Late, it says.\"}]}]}"
  "A model that thinks, calls a tool and answers; the result must have come.")

(defun agent-q-dialects-test--requests ()
  "Return the requests that the model got, each as its line of JSON."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (split-string (buffer-string) "\n" t)))

(defmacro agent-q-dialects-test--in (dialect &rest body)
  "Run BODY in a chat whose model speaks DIALECT and has answered."
  (declare (indent 1) (debug t))
  `(agent-q-test-with-tools
       ((agent-q-test-tool "t_clock" (lambda (_) "It is late.") :safety-level :safe))
     (agent-q-test-with-model agent-q-dialects-test--script
       (let ((agent-q-provider (append agent-q-provider (list :dialect ,dialect))))
         (agent-q-test-with-chat
           (agent-q-test-ask "how late is it")
           (should (string-match-p "Let me see\\.\n\\(?:.*\n\\)*?. t_clock now .*\n\nLate, it says\\.\n\\'"
                                   (agent-q-test-log)))
           (should (= 2 (length (agent-q-dialects-test--requests))))
           ,@body)))))

(defun agent-q-dialects-test--asked-p (regexp)
  "Whether each request matches REGEXP."
  (seq-every-p (lambda (request) (string-match-p regexp request))
               (agent-q-dialects-test--requests)))

(defun agent-q-dialects-test--sealed-p ()
  "Whether the second request has what the first reply was sealed with."
  (string-match-p "scripted-seal" (nth 1 (agent-q-dialects-test--requests))))

(ert-deftest agent-q-dialects-chat-completions ()
  (agent-q-dialects-test--in 'chat-completions
    (should (agent-q-dialects-test--asked-p "\"path\":\"/v1/chat/completions\""))
    (should (equal agent-q-chat-view-header-input 1000))))

(ert-deftest agent-q-dialects-messages ()
  (agent-q-dialects-test--in 'messages
    (should (agent-q-dialects-test--asked-p "\"path\":\"/v1/messages\""))
    (should (agent-q-dialects-test--asked-p "\"x-api-key\":\"none\""))
    (should (agent-q-dialects-test--sealed-p))
    (should (string-match-p "1000 (50% cached)" (agent-q-chat-view-header-line)))))

(ert-deftest agent-q-dialects-responses ()
  (agent-q-dialects-test--in 'responses
    (should (agent-q-dialects-test--asked-p "\"path\":\"/v1/responses\""))
    (should (agent-q-dialects-test--sealed-p))))

(ert-deftest agent-q-dialects-gemini ()
  (agent-q-dialects-test--in 'gemini
    (should (agent-q-dialects-test--asked-p
             "\"path\":\"/v1/models/scripted:streamGenerateContent\\?alt=sse\""))
    (should (agent-q-dialects-test--asked-p "\"x-goog-api-key\":\"none\""))
    (should (agent-q-dialects-test--sealed-p))
    (should (string-match-p "1000 (50% cached)" (agent-q-chat-view-header-line)))))

(ert-deftest agent-q-dialects-ollama ()
  (agent-q-dialects-test--in 'ollama
    (should (agent-q-dialects-test--asked-p "\"path\":\"/api/chat\""))
    (should (agent-q-dialects-test--asked-p "\"num_ctx\":[1-9]"))))

(ert-deftest agent-q-dialects-a-wrong-one-is-named ()
  (agent-q-test-with-model agent-q-dialects-test--script
    (let ((agent-q-provider (append agent-q-provider (list :dialect 'latin))))
      (should (string-match-p
               "its :dialect is not chat-completions, messages"
               (cadr (should-error (agent-q-provider-choose #'ignore) :type 'user-error)))))))

(provide 'agent-q-dialects-test)
;;; agent-q-dialects-test.el ends here
