;;; agent-q-research-test.el --- Questions that a helper looks into  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a chat shows of a research: a line while it runs, its steps below that once it is unfolded, and
;; the same again in a chat that was stored, exported, or whose Emacs was killed.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-chats)
(require 'agent-q-servers)

(defconst agent-q-research-test--server
  (list "memo" :command
        (list (expand-file-name "target/debug/examples/tool-server" agent-q-test-root)))
  "A server that plays one of others.")

(defun agent-q-research-test--call (tool &rest arguments)
  "Return a reply that calls TOOL with ARGUMENTS."
  `(:steps [(:tool_calls [(:name ,tool :arguments ,arguments)])]))

(defun agent-q-research-test--asks ()
  "Return a reply that has a question looked into."
  (agent-q-research-test--call "research" :question "Where is plum?" :scope "*.txt"))

(defun agent-q-research-test--seen ()
  "Return what can be seen of the log of this chat."
  (let ((log (buffer-substring (point-min) agent-q-render-end)) (seen nil) (from 0))
    (while (< from (length log))
      (let ((to (or (next-single-property-change from 'invisible log) (length log))))
        (unless (eq t (get-text-property from 'invisible log))
          (push (substring-no-properties log from to) seen))
        (setq from to)))
    (string-join (nreverse seen))))

(defun agent-q-research-test--text (file)
  "Return the text of FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (buffer-string)))

(defun agent-q-research-test--shows (regexp)
  "Whether what can be seen of the log of this chat has a match of REGEXP."
  (string-match-p regexp (agent-q-research-test--seen)))

(defun agent-q-research-test--toggle (text)
  "Fold or unfold the item with TEXT."
  (agent-q-test-find text)
  (call-interactively (key-binding (kbd "TAB"))))

(ert-deftest agent-q-research-its-steps-are-folded-below-its-line ()
  (let ((go (make-temp-name (expand-file-name "go" agent-q-test-directory))))
    (agent-q-test-chats-with
        (list (agent-q-research-test--asks)
              (agent-q-research-test--call "grep_project" :pattern "plum")
              `(:steps [(:tool_calls [(:name "read_file" :arguments (:path "a.txt"))
                                      (:name "write_file" :arguments (:path "a.txt" :content "x"))])])
              `(:steps [(:hold ,go) (:text "In a.txt, line 1.") (:usage [100 50])])
              '(:steps [(:text "It is in a.txt.") (:usage [100 50])]))
      (write-region "a plum\n" nil "a.txt" nil 'silent)
      (let ((agent-q-project-root default-directory) id)
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id)
          (agent-q-test-send "find it")
          (agent-q-test-until
           (agent-q-research-test--shows "^▸ research Where is plum\\? .*running.*, 3 steps, asking scripted$"))
          (should-not (agent-q-research-test--shows "grep_project"))
          ;; It would be that of the next line.
          (should-not (get-text-property (agent-q-test-find "▸ grep_project") 'line-prefix))
          (should (string-match-p "research.*3 steps" (agent-q-chat-view-header-line)))
          (agent-q-research-test--toggle "▸ research")
          (should (agent-q-research-test--shows
                   "^▾ research .*\n\\(?:.*\n\\)+▸ grep_project plum ✓ .*\n▸ read_file a.txt ✓ .*\n▸ write_file .*doesn't offer"))
          (should (equal "  " (get-text-property (agent-q-test-find "▸ grep_project") 'line-prefix)))
          (agent-q-research-test--toggle "▸ grep_project")
          (should (agent-q-research-test--shows "result:\nFound 1 match .*\n\na.txt:1:a plum"))
          (agent-q-research-test--toggle "▾ research")
          (should-not (agent-q-research-test--shows "grep_project"))
          (should-not (string-search "grep_project" (filter-buffer-substring (point-min) (point-max))))
          ;; Nor does the way from item to item lead to them.
          (goto-char (point-max))
          (agent-q-chat-view-previous-item)
          (should (looking-at-p "▸ research"))
          (write-region "" nil go nil 'silent)
          (agent-q-test-until (agent-q-test-idle-p))
          (should (agent-q-research-test--shows
                   "^▸ research Where is plum\\? .*✓ In a\\.txt, line 1\\..*\n\nIt is in a\\.txt\\.\n"))
          (should (equal "a plum\n" (agent-q-research-test--text "a.txt")))
          (let ((file (expand-file-name "chat.md")))
            (agent-q-export-chat file)
            (agent-q-test-until (file-exists-p file))
            (should (string-match-p
                     "\\*\\*research\\*\\* question: .*\n\\(?:.*\n\\)+\\*\\*grep_project\\*\\* pattern: `plum`\n\\(?:.*\n\\)+In a\\.txt, line 1\\.\n"
                     (agent-q-research-test--text file)))))
        (agent-q-test-chats-resumed id
          (should (agent-q-research-test--shows "^▸ research Where is plum\\? .*✓ In a\\.txt.*\n\nIt is in a"))
          (agent-q-research-test--toggle "▸ research")
          (should (agent-q-research-test--shows "^▸ grep_project plum ✓")))))))

(ert-deftest agent-q-research-a-turn-with-tools-of-all-kinds-goes-on-after-its-emacs-was-killed ()
  (agent-q-test-chats-with
      (list (agent-q-research-test--asks)
            (agent-q-research-test--call "grep_project" :pattern "plum")
            '(:steps [(:text "In a.txt.")])
            '(:steps [(:tool_calls [(:name "run_command"
                                     :arguments (:program "sh" :arguments ["-c" "echo ran"]))
                                    (:name "more_tools" :arguments (:group "memo"))])])
            (agent-q-research-test--call "call_tool" :name "memo_echo" :arguments '(:text "noted"))
            (agent-q-research-test--asks)
            (agent-q-research-test--call "search_files" :pattern "*.lost")
            '(:steps [(:stall t)])
            (agent-q-research-test--asks)
            '(:steps [(:text "Still in a.txt.")])
            '(:steps [(:text "All done.")]))
    (write-region "a plum\n" nil "a.txt" nil 'silent)
    (let ((id (agent-q-test-chats-killed-in-mid-turn
               `(progn
                  (require 'agent-q-servers)
                  (setq agent-q-approval-handler (lambda (&rest _) :approved))
                  (customize-set-variable 'agent-q-tool-servers '(,agent-q-research-test--server)))
               "do all" "\"kind\":\"call\".*\"tool\":\"search_files\"" "\"kind\":\"result\".*\\.lost")))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (should (agent-q-research-test--shows "^▸ research .*✓ In a\\.txt\\."))
        (should (agent-q-research-test--shows "^▸ run_command .*✓.*ran"))
        (should (agent-q-research-test--shows "^▸ memo_echo noted ✓ noted"))
        (should (agent-q-research-test--shows "^▸ research .*cancelled$"))
        (should-not (agent-q-research-test--shows "grep_project\\|search_files"))
        (agent-q-test-ask "go on")
        (should (agent-q-research-test--shows "Still in a\\.txt\\..*\n\nAll done\\."))
        (let* ((told (seq-filter (lambda (it) (equal "tool" (gethash "role" it)))
                                 (agent-q-test-last-messages)))
               (texts (mapcar (lambda (it) (gethash "content" it)) told)))
          (should (= 6 (length texts)))
          (cl-mapc (lambda (regexp text) (should (string-match-p regexp text)))
                   '("In a\\.txt\\." "ran" "memo_echo" "noted" "\\`Error: Emacs went away"
                     "Still in a\\.txt\\.")
                   texts))))))

(ert-deftest agent-q-research-its-model-is-the-one-that-the-user-chose ()
  (let ((agent-q-providers '((here :base-url "http://127.0.0.1:9/v1" :model "m")))
        (public '((name . "here") (base_url . "http://127.0.0.1:9/v1") (model . "m"))))
    (cl-flet ((model (chosen)
                (let ((agent-q-research-model chosen))
                  (alist-get 'model (agent-q-provider-of-research public)))))
      (should-not (model nil))
      (should (equal "small" (model "small")))
      (should (equal "other" (model '(here "other"))))
      (should-error (model '(nowhere "other")) :type 'user-error)
      (should-error (model 'here) :type 'user-error)))
  (agent-q-test-chats-with
      (list (agent-q-research-test--asks)
            '(:expect (:contains ["\"model\":\"small\""]) :steps [(:text "Found.")])
            '(:expect (:contains ["\"model\":\"scripted\""]) :steps [(:text "Done.")])
            (agent-q-research-test--asks)
            '(:expect (:contains ["\"model\":\"scripted\""]) :steps [(:text "Found again.")])
            '(:steps [(:text "Done.")]))
    (agent-q-test-with-chat
      (let ((agent-q-research-model 'scripted))
        (should-error (agent-q-test-send "go") :type 'user-error)
        (should (equal "go" (agent-q-prompt-text)))
        (agent-q-prompt-replace ""))
      (let ((agent-q-research-model "small"))
        (agent-q-test-ask "go"))
      (should (agent-q-research-test--shows "✓ Found\\."))
      (agent-q-test-ask "go")
      (should (agent-q-research-test--shows "✓ Found again\\.")))))

(provide 'agent-q-research-test)
;;; agent-q-research-test.el ends here
