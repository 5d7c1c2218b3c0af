;;; agent-q-chat-file-test.el --- Tests of saving a chat's buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What saves, renames or copies other buffers, or gives them another mode, is tried on a chat whose
;; turn is running.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defmacro agent-q-chat-file-test--with-turn (&rest body)
  "Run BODY in a chat whose turn waits for an answer to a request.
The chat must be as good as before then, and its turn goes on to its end."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-tools
       ((agent-q-test-tool "t_ask" (lambda (_) "Asked.") :safety-level :dangerous))
     (agent-q-test-with-model
         (agent-q-test-script '((("go") ("t_ask")) (("Asked.") "**All** done.")))
       (agent-q-test-with-chat
         (agent-q-test-send "go")
         (agent-q-test-arm)
         (let ((name (buffer-name))
               (folder default-directory))
           ,@body
           (should (equal (list name folder 'agent-q-chat-mode nil)
                          (list (buffer-name) default-directory major-mode
                                buffer-file-name))))
         (agent-q-test-answer "y")
         (agent-q-test-until (agent-q-test-idle-p))
         (should (string-match-p "All.* done" (agent-q-test-log)))))))

(defun agent-q-chat-file-test--new (name)
  "Return the name of a file NAME that is not there yet."
  (expand-file-name name (make-temp-file (expand-file-name "talk" agent-q-test-directory) t)))

(defun agent-q-chat-file-test--text (file)
  "Return the text of FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (buffer-string)))

(ert-deftest agent-q-chat-file-saving-writes-a-transcript ()
  (dolist (name '("talk.txt" "talk.md" "talk.lisp" "talk"))
    (let ((file (agent-q-chat-file-test--new name)))
      (agent-q-chat-file-test--with-turn
        (goto-char (point-max))
        (insert "a draft")
        (write-file file)
        (should (string-match-p "^> go\n" (agent-q-chat-file-test--text file)))
        (should-not (string-match-p "a draft" (agent-q-chat-file-test--text file)))
        (should (equal (agent-q-prompt-text) "a draft"))
        (agent-q-prompt-replace "")))))

(ert-deftest agent-q-chat-file-a-transcript-is-written-again ()
  (let ((file (agent-q-chat-file-test--new "talk.md")))
    (agent-q-test-with-model (agent-q-test-script '((("go") "**All** done.") (("more") "More.")))
      (agent-q-test-with-chat
        (agent-q-test-ask "go")
        ;; The first time it asks for the file.
        (cl-letf (((symbol-function 'read-file-name) (lambda (&rest _) file)))
          (call-interactively (key-binding (kbd "C-x C-s"))))
        (should (string-match-p "\\*\\*All\\*\\* done" (agent-q-chat-file-test--text file)))
        (agent-q-test-ask "more")
        (call-interactively (key-binding (kbd "C-x C-s")))
        (should (string-match-p "^More" (agent-q-chat-file-test--text file)))))))

(ert-deftest agent-q-chat-file-a-name-of-a-file-is-not-kept ()
  (agent-q-chat-file-test--with-turn
    (set-visited-file-name (agent-q-chat-file-test--new "talk.org"))))

(ert-deftest agent-q-chat-file-another-mode-is-refused ()
  (agent-q-chat-file-test--with-turn
    (dolist (mode '(text-mode fundamental-mode normal-mode agent-q-chat-mode lisp-mode))
      (should-error (funcall mode) :type 'user-error))))

(ert-deftest agent-q-chat-file-a-chat-is-not-copied ()
  (agent-q-chat-file-test--with-turn
    (should-error (clone-indirect-buffer nil nil))
    (should-error (clone-buffer))))

(provide 'agent-q-chat-file-test)
;;; agent-q-chat-file-test.el ends here
