;;; agent-q-edit-buffer-test.el --- Edits through buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Edits of files that are open: what becomes of the buffer, its undo, its point, and of
;; what the user has not saved.

;;; Code:

(require 'agent-q-test-files)
(require 'agent-q-changes)
(require 'agent-q-buffers)

(ert-deftest agent-q-edit-buffer-change-is-one-undo-step-and-saved ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "two") (new_str . "zwei\nλ")))
    (let ((path (agent-q-test-files-write "a.txt" "one\r\ntwo\r\nthree")))
      (with-current-buffer (find-file-noselect path)
        (buffer-enable-undo)
        (goto-char (point-max))
        (let ((buffer (current-buffer)))
          (with-current-buffer chat
            (agent-q-test-files-succeeds "in its buffer a.txt, and saved"))
          (should (eq (current-buffer) buffer)))
        (should-not (buffer-modified-p))
        (should (equal (buffer-string) "one\nzwei\nλ\nthree"))
        (should (= (point) (point-max)))
        (should (equal (agent-q-test-files-text "a.txt")
                       "one\r\nzwei\r\nλ\r\nthree"))
        (let ((last-command nil) (inhibit-message t)) (undo))
        (should (equal (buffer-string) "one\ntwo\nthree"))))))

(ert-deftest agent-q-edit-buffer-point-stays-on-a-line-that-stays ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "a.lisp"))
        ("edit_definition" (path . "a.lisp") (name . "f")
         (new_source . "(defun f (x y)\n  \"Say it.\"\n  (g x)\n  (h x y))")))
    (agent-q-test-files-write "a.lisp" "(defun f (x)\n  (g x)\n  (h x))\n\n(defun k ())\n")
    (with-current-buffer (find-file-noselect (agent-q-test-files-path "a.lisp"))
      (search-forward "(g ")
      (let ((marker (save-excursion (search-forward "(defun k") (point-marker))))
        (with-current-buffer chat
          (agent-q-test-files-succeeds)
          (agent-q-test-files-succeeds))
        (should (looking-back "^  (g " (point-min)))
        (should (equal (buffer-substring (- marker 8) marker) "(defun k"))
        (with-current-buffer chat (agent-q-test-files-undo))
        (should (looking-back "^  (g " (point-min)))
        (should (equal (buffer-string) "(defun f (x)\n  (g x)\n  (h x))\n\n(defun k ())\n"))))))

(ert-deftest agent-q-edit-buffer-replacing-gives-the-new-text-whatever-it-is ()
  (let ((pieces ["" "\n" "a" "b\n" "a\n" "\n\n" "b" "\r\n" "-\n" "\\ No newline" "é\n"]))
    (random "agent-q")
    (cl-flet ((text () (mapconcat (lambda (_) (aref pieces (random (length pieces))))
                                  (number-sequence 1 (random 12)) "")))
      (dotimes (_ 300)
        (let ((before (text)) (old (text)) (new (text)) (after (text)))
          (with-temp-buffer
            (insert before old after)
            (agent-q-buffers--edit-replace (1+ (length before)) old new)
            (should (equal (list old new (buffer-string))
                           (list old new (concat before new after))))))))))

(ert-deftest agent-q-edit-buffer-unsaved-changes-are-never-lost-or-saved ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2"))
        ("delete_file" (path . "a.txt"))
        ("create_file" (path . "a.txt") (content . "x")))
    (let ((path (agent-q-test-files-write "a.txt" "one\ntwo\n")))
      (with-current-buffer (find-file-noselect path)
        (insert "mine ")
        (with-current-buffer chat
          (agent-q-test-files-succeeds "NOT saved")
          (agent-q-test-files-fails "unsaved changes")
          (agent-q-test-files-fails "already exists"))
        (should (buffer-modified-p))
        (should (equal (buffer-string) "mine one\n2\n"))
        (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))
        (with-current-buffer chat
          (agent-q-test-files-undo))
        (should (equal (buffer-string) "mine one\ntwo\n"))
        (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))))))

(ert-deftest agent-q-edit-buffer-that-refuses ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2"))
        ("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2"))
        ("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2"))
        ("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2"))
        ("edit_file" (path . "a.txt") (old_str . "TWO") (new_str . "2"))
        ("read_file" (path . "a.txt"))
        ("edit_file" (path . "a.txt") (old_str . "TWO") (new_str . "2")))
    (let* ((path (agent-q-test-files-write "a.txt" "one\ntwo\n"))
           (buffer (find-file-noselect path)))
      (with-current-buffer buffer (setq buffer-read-only t))
      (agent-q-test-files-fails "read-only")
      (with-current-buffer buffer
        (setq buffer-read-only nil)
        (narrow-to-region 1 3))
      (agent-q-test-files-fails "narrowed")
      (with-current-buffer buffer
        (should (buffer-narrowed-p))
        (widen)
        (add-hook 'write-contents-functions (lambda () (error "Disk full")) nil t))
      (agent-q-test-files-fails "Disk full.*nothing was changed")
      (with-current-buffer buffer
        (should (equal (buffer-string) "one\ntwo\n"))
        (should-not (buffer-modified-p))
        (remove-hook 'write-contents-functions (car write-contents-functions) t))
      ;; Killed while the question was open: the file is changed on disk.
      (let ((agent-q-test-files-before-answer (lambda () (kill-buffer buffer))))
        (agent-q-test-files-succeeds))
      (should (equal (agent-q-test-files-text "a.txt") "one\n2\n"))
      ;; Changed behind the back of a buffer with unsaved changes.
      (agent-q-test-files-write "a.txt" "one\nTWO\n")
      (let ((buffer (find-file-noselect path)))
        (with-current-buffer buffer
          (insert "unsaved ")
          (set-visited-file-modtime '(0 1)))
        (agent-q-test-files-fails "changed on disk")
        (with-current-buffer buffer
          (set-buffer-modified-p nil))
        ;; Without such changes it is reverted.
        (rename-file (agent-q-test-files-write "b.txt" "first\nTWO\n") path t)
        (agent-q-test-files-succeeds)
        (agent-q-test-files-succeeds)
        (should (equal (agent-q-test-files-text "a.txt") "first\n2\n"))
        (with-current-buffer buffer
          (should (equal (buffer-string) "first\n2\n")))))))

(ert-deftest agent-q-edit-buffer-what-saving-changes-is-what-was-done ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2  "))
        ("edit_file" (path . "a.txt") (old_str . "2\nthree") (new_str . "3")))
    (let ((path (agent-q-test-files-write "a.txt" "one\ntwo\nthree\n")))
      (with-current-buffer (find-file-noselect path)
        (add-hook 'before-save-hook #'delete-trailing-whitespace nil t))
      (let ((told (agent-q-test-files-succeeds "saved, when the user's Emacs changed")))
        (should (string-match-p "^\\+2$" told)))
      (should (equal (agent-q-test-files-text "a.txt") "one\n2\nthree\n"))
      ;; The model knows what came of it, and so does who undoes it.
      (agent-q-test-files-succeeds)
      (should (equal (agent-q-test-files-text "a.txt") "one\n3\n"))
      (should (string-match-p "Undone:\n- .*" (agent-q-test-files-undo)))
      (should (equal (agent-q-test-files-text "a.txt") "one\n2\nthree\n"))
      (should (string-match-p "Undone:\n- .*" (agent-q-test-files-undo)))
      (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\nthree\n")))))

(ert-deftest agent-q-edit-buffer-a-deleted-file-comes-back-only-when-made-anew ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "one") (new_str . "1"))
        ("create_file" (path . "a.txt") (content . "again\n"))
        ("create_file" (path . "b.txt") (content . "new\n"))
        ("create_file" (path . "c.txt") (content . "new\n")))
    (find-file-noselect (agent-q-test-files-write "a.txt" "one\n"))
    (delete-file (agent-q-test-files-path "a.txt"))
    (agent-q-test-files-fails "'a.txt' was deleted; only the buffer a.txt still has")
    (should-not agent-q-test-files-asked)
    (should-not (file-exists-p (agent-q-test-files-path "a.txt")))
    (agent-q-test-files-succeeds "in its buffer a.txt, and saved")
    (should (equal (agent-q-test-files-text "a.txt") "again\n"))
    ;; A buffer that waits for its file does not take the name, but what is in it does.
    (find-file-noselect (agent-q-test-files-path "b.txt"))
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "b.txt") "new\n"))
    (agent-q-test-files-undo)
    (should-not (file-exists-p (agent-q-test-files-path "b.txt")))
    (with-current-buffer (find-file-noselect (agent-q-test-files-path "c.txt"))
      (insert "mine"))
    (agent-q-test-files-fails "already exists")))

(ert-deftest agent-q-edit-buffer-links-and-line-ends-that-nobody-sees ()
  (agent-q-test-files-in-project
      '(("delete_file" (path . "link"))
        ("move_file" (source . "link") (destination . "b.txt"))
        ("write_file" (path . "new/") (content . "x"))
        ("move_file" (source . "a.txt") (destination . "new/"))
        ("create_file" (path . "new/b.txt") (content . "x") (create_parents . :json-false))
        ("edit_file" (path . "a.txt") (old_str . "one\ntwo") (new_str . "1\n1½\n2"))
        ("edit_file" (path . "a.txt") (old_str . "three\nfour\n") (new_str . "3\n4\n"))
        ("edit_file" (path . "a.txt") (old_str . "no\nno") (new_str . "x")))
    (agent-q-test-files-write "a.txt" "one\r\ntwo\nthree\nfour\r\nend")
    (make-symbolic-link "a.txt" (agent-q-test-files-path "link"))
    (dolist (regexp '("'link' is a symbolic link to 'a.txt'" "'link' is a symbolic link"
                      "'new/' ends in '/'" "'new/' ends in '/'" "new' does not exist"))
      (agent-q-test-files-fails regexp)
      (should-not agent-q-test-files-asked))
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.txt") "1\r\n1½\r\n2\n3\n4\nend"))
    (agent-q-test-files-fails "not found")))

(provide 'agent-q-edit-buffer-test)
;;; agent-q-edit-buffer-test.el ends here
