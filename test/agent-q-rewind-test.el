;;; agent-q-rewind-test.el --- Going back, and undoing that  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Conversation, files and definitions are taken back, and come back, also when the chat was
;; closed in between.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-chats)
(require 'agent-q-test-image)
(require 'agent-q-rewind)

(defun agent-q-rewind-test--rewind (&optional untick)
  "Go back to before the message at point; UNTICK is a list of keys to press first."
  (agent-q-rewind)
  (agent-q-test-until (get-buffer "*agent-q rewind*"))
  (with-current-buffer "*agent-q rewind*"
    (dolist (key untick) (agent-q-test-press key))
    (agent-q-rewind-do))
  (agent-q-test-until (agent-q-test-shows "[Undo this]")))

(defun agent-q-rewind-test--shown ()
  "Return the log as it is seen."
  (let ((position (point-min)) (text ""))
    (while (< position agent-q-render-end)
      (let ((next (next-single-char-property-change position 'invisible nil
                                                    agent-q-render-end)))
        (unless (invisible-p position)
          (setq text (concat text (buffer-substring-no-properties position next))))
        (setq position next)))
    text))

(ert-deftest agent-q-rewind-takes-back-conversation-and-files ()
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")])
        (:steps [(:tool_calls [(:name "edit_file" :arguments
                                      (:path "a.txt" :old_str "one" :new_str "two"))
                               (:name "create_file" :arguments
                                      (:path "b.txt" :content "b\n"))])])
        (:steps [(:text "Edited.")])
        (:steps [(:text "Anew.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe) ("edit_file" . :safe)))
          (a (expand-file-name "a.txt"))
          (b (expand-file-name "b.txt"))
          (content (lambda (file) (with-temp-buffer (insert-file-contents-literally file)
                                                    (buffer-string)))))
      (agent-q-test-with-chat
        (agent-q-test-ask "make it")
        (agent-q-test-ask "edit it")
        (should (equal (funcall content a) "two\n"))
        (goto-char (point-max))
        (agent-q-rewind-test--rewind)
        (should (equal (funcall content a) "one\n"))
        (should-not (file-exists-p b))
        (should (equal (agent-q-prompt-text) "edit it"))
        (should-not (string-search "Edited." (agent-q-rewind-test--shown)))
        (should (string-search "Made." (agent-q-rewind-test--shown)))
        ;; And back again.
        (goto-char (point-max))
        (search-backward "[Undo this]")
        (push-button)
        (agent-q-test-until (agent-q-test-shows "The rewind was undone."))
        (should (equal (funcall content a) "two\n"))
        (should (equal (funcall content b) "b\n"))
        (should (string-search "Edited." (agent-q-rewind-test--shown)))
        (agent-q-prompt-replace "")
        ;; The first message, the conversation alone.
        (agent-q-test-find "> make it")
        (let ((undo (point-max)))
          (agent-q-rewind)
          (agent-q-test-until (get-buffer "*agent-q rewind*"))
          (with-current-buffer "*agent-q rewind*"
            (should (agent-q-test-shows "a.txt"))
            (agent-q-test-press "f")
            (agent-q-rewind-do))
          (agent-q-test-until (save-excursion (goto-char undo)
                                              (search-forward "[Undo this]" nil t))))
        (should (equal (funcall content a) "two\n"))
        (agent-q-prompt-replace "")
        (agent-q-test-ask "something else")
        (let ((request (agent-q-test-chats-last-request)))
          (should-not (string-search "edit it" request))
          (should-not (string-search "make it" request)))))))

(ert-deftest agent-q-rewind-is-no-change-of-the-next-turn ()
  "What going back did to files is not shown under a turn that only looks."
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")])
        (:steps [(:tool_calls [(:name "get_project_root" :arguments nil)])])
        (:steps [(:text "Looked.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe))))
      (agent-q-test-with-chat
        (agent-q-test-ask "make it")
        (agent-q-test-until (agent-q-test-shows "Changed a.txt"))
        (goto-char (point-max))
        (agent-q-rewind-test--rewind)
        (agent-q-prompt-replace "")
        (agent-q-test-ask "only look")
        (should (string-search "Looked." (agent-q-rewind-test--shown)))
        (should-not (string-search "Changed a.txt" (agent-q-rewind-test--shown)))))))

(ert-deftest agent-q-rewind-is-undone-after-the-chat-was-closed ()
  (agent-q-test-chats-with
      '((:steps [(:text "Hello.")])
        (:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")])
        (:steps [(:text "On.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe)))
          (a (expand-file-name "a.txt"))
          id)
      (agent-q-test-with-chat
        (setq id agent-q-chats-store-id)
        (agent-q-test-ask "hello")
        (agent-q-test-ask "make it")
        (goto-char (point-max))
        (agent-q-rewind-test--rewind)
        (should-not (file-exists-p a)))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (agent-q-test-shows "Hello."))
        (should-not (agent-q-test-shows "Made."))
        (agent-q-test-find "[Undo this]")
        (push-button)
        (agent-q-test-until (agent-q-test-shows "The rewind was undone."))
        (agent-q-test-until (agent-q-test-shows "Made."))
        (should (file-exists-p a))
        (should (< (save-excursion (goto-char (point-min)) (search-forward "Hello."))
                   (save-excursion (goto-char (point-min)) (search-forward "make it"))))
        (agent-q-test-until (not agent-q-chat--choosing))
        (agent-q-test-ask "go on")
        (should (string-search "make it" (agent-q-test-chats-last-request)))
        ;; And it is a turn like any other again.
        (agent-q-test-find "> make it")
        (agent-q-rewind-test--rewind)
        (agent-q-test-until (not (file-exists-p a)))))))

;; A sparse file takes no room, and not every system makes one.
(ert-deftest agent-q-rewind-leaves-a-file-that-grew-huge ()
  (skip-unless (executable-find "truncate"))
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments
                                      (:path "a.txt" :content "one\n"))])])
        (:steps [(:text "Made.")]))
    (let ((agent-q-tool-levels '(("create_file" . :safe)))
          (a (expand-file-name "a.txt")))
      (agent-q-test-with-chat
        (agent-q-test-ask "make it")
        (should (zerop (call-process "truncate" nil nil nil "-s" "1G" a)))
        (goto-char (point-max))
        (agent-q-rewind)
        (agent-q-test-until (get-buffer "*agent-q rewind*"))
        (with-current-buffer "*agent-q rewind*"
          (should (agent-q-test-shows "Files: 0 files"))
          (should (agent-q-test-shows "1.0 GB"))
          (agent-q-rewind-do))
        (agent-q-test-until (agent-q-test-shows "[Undo this]"))
        (should (= (expt 2 30) (file-attribute-size (file-attributes a))))
        (delete-file a)))))

(agent-q-test-image-on-each definitions-come-back-when-a-rewind-is-undone-later ()
  "The definitions that a stored rewind took back come back, in the same image alone."
  (agent-q-test-chats-with
      '((:steps [(:text "Hello.")])
        (:steps [(:tool_calls [(:name "eval_form" :arguments
                                      (:form "(defun cl-user::aq-rewound () :new)"))])])
        (:steps [(:text "Defined.")]))
    (cl-flet ((value () (agent-q-test-image-values connection "(cl-user::aq-rewound)")))
      (let (id)
        (agent-q-test-image-eval connection "(defun cl-user::aq-rewound () :old)")
        (agent-q-test-with-chat
          (setq id agent-q-chats-store-id
                agent-q-session-connection connection)
          (agent-q-test-ask "hello")
          (agent-q-test-ask "define it")
          (should (equal '(":NEW") (value)))
          (goto-char (point-max))
          (agent-q-rewind-test--rewind)
          (should (equal '(":OLD") (value))))
        (agent-q-test-chats-resumed id
          (setq agent-q-session-connection connection)
          (agent-q-test-until (agent-q-test-shows "Hello."))
          (agent-q-test-find "[Undo this]")
          (push-button)
          (agent-q-test-until (agent-q-test-shows "brought back the function"))
          (should (equal '(":NEW") (value))))
        ;; Numbers of another image's journal mean other changes.
        (let ((value (agent-q-test-image-value connection "journal-redo"
                                               :ids '(1 2 3) :turns '("1.2/3/4"))))
          (should (equal value '(:results nil))))))))

(provide 'agent-q-rewind-test)
;;; agent-q-rewind-test.el ends here
