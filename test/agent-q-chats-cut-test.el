;;; agent-q-chats-cut-test.el --- Chats whose Emacs was killed  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Another Emacs is killed in the middle of a turn, and this one goes on with its chat.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-chats)

(defun agent-q-chats-cut-test--killed-in-mid-turn (text &rest written)
  "Send TEXT in a new chat of another Emacs, and kill that.
Do it once its chat's file has a match of each regexp WRITTEN; return the id."
  (let* ((form `(progn
                  (require 'agent-q-module)
                  (require 'agent-q-chat)
                  (setq agent-q-chat-history-directory ,agent-q-chat-history-directory
                        agent-q-provider ',agent-q-provider
                        agent-q-project-root ,default-directory
                        agent-q-tool-levels '(("create_file" . :safe)))
                  (switch-to-buffer (agent-q-chat-open t))
                  (goto-char (point-max))
                  (insert ,text)
                  (agent-q-chat-send)
                  (while t (accept-process-output nil 1))))
         (other (start-process
                 "other-emacs" (generate-new-buffer " *other Emacs*")
                 (expand-file-name invocation-name invocation-directory)
                 "-Q" "--batch" "-L" (file-name-directory (locate-library "agent-q-module"))
                 "--eval" (prin1-to-string form)))
         (file nil))
    (set-process-query-on-exit-flag other nil)
    (unwind-protect
        (agent-q-test-until
         (and (setq file (car (directory-files agent-q-chat-history-directory t "\\.jsonl\\'")))
              (with-temp-buffer
                (insert-file-contents file)
                (seq-every-p (lambda (regexp)
                               (goto-char (point-min))
                               (re-search-forward regexp nil t))
                             written))))
      (signal-process other 'SIGKILL)
      (while (process-live-p other) (accept-process-output other 0.1))
      (kill-buffer (process-buffer other)))
    (file-name-base file)))

(ert-deftest agent-q-chats-cut-a-turn-whose-emacs-was-killed-goes-on ()
  "Each call has a result: the one that was written down, or that nothing is known."
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments (:path "plum.txt" :content "plum"))
                               (:name "edit_file"
                                :arguments (:path "fig.txt" :old_str "fig" :new_str "pear"))])])
        (:steps [(:text "It goes on.")])
        (:steps [(:text "And on.")]))
    (write-region "fig\n" nil "fig.txt" nil 'silent)
    (let ((id (agent-q-chats-cut-test--killed-in-mid-turn
               "change it" "\"kind\":\"result\"" "\"kind\":\"asked\"")))
      (dolist (text '("go on" "once more"))
        (agent-q-test-chats-resumed id
          (agent-q-test-until (not agent-q-chat-send--choosing))
          (agent-q-test-ask text)
          (let* ((request (json-parse-string (agent-q-test-chats-last-request)))
                 (messages (append (gethash "messages" (gethash "body" request)) nil))
                 (roles (mapcar (lambda (it) (gethash "role" it)) messages))
                 (results (seq-filter (lambda (it) (equal "tool" (gethash "role" it))) messages)))
            (should (equal (seq-take roles 6)
                           '("system" "user" "assistant" "tool" "tool" "user")))
            (should (equal (mapcar (lambda (it) (gethash "tool_call_id" it)) results)
                           (mapcar (lambda (it) (gethash "id" it))
                                   (append (gethash "tool_calls" (nth 2 messages)) nil))))
            (should (string-search "plum.txt" (gethash "content" (nth 0 results))))
            (should (equal "Error: Emacs went away while this call waited or ran; whether it was done is not known."
                           (gethash "content" (nth 1 results)))))
          (kill-buffer))))))

(provide 'agent-q-chats-cut-test)
;;; agent-q-chats-cut-test.el ends here
