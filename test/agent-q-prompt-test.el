;;; agent-q-prompt-test.el --- Tests of the prompt  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What commands for ordinary text do at the prompt, and where a chat begins without files.

;;; Code:

(require 'agent-q-test)

(ert-deftest agent-q-prompt-a-paragraph-is-filled ()
  (agent-q-test-with-chat
    (let ((fill-column 20))
      (insert "one two three four five six seven\n\neight nine ten eleven twelve")
      (goto-char (+ agent-q-prompt-start 3))
      (call-interactively (key-binding (kbd "M-q")))
      (should (equal (agent-q-prompt-text)
                     "one two three four\nfive six seven\n\neight nine ten eleven twelve"))
      (goto-char (point-max))
      (call-interactively (key-binding (kbd "M-q")))
      (should (string-suffix-p "\n\neight nine ten\neleven twelve" (agent-q-prompt-text))))))

(ert-deftest agent-q-prompt-the-text-of-a-chat-can-be-edited-there ()
  (agent-q-test-with-chat
    (insert-buffer-substring (current-buffer) (point-min) agent-q-render-end)
    (insert "more")
    (goto-char agent-q-prompt-start)
    (should (string-prefix-p "agent-q, in" (agent-q-prompt-text)))
    (delete-region agent-q-prompt-start (point-max))
    (should (equal (agent-q-prompt-text) ""))
    ;; The log is what it was.
    (goto-char (point-min))
    (should-error (insert "x") :type 'text-read-only)))

(ert-deftest agent-q-prompt-on-another-machine-no-files-are-offered ()
  (let ((default-directory "/ssh:far.example.com:/home/me/src/"))
    (agent-q-test-with-chat
      (should (agent-q-test-shows "on another machine"))
      (should-not (agent-q-test-shows "project"))
      (should-not (agent-q-test-shows "search_files"))
      (should (equal (agent-q-project-name nil) "src on far.example.com")))))

(provide 'agent-q-prompt-test)
;;; agent-q-prompt-test.el ends here
