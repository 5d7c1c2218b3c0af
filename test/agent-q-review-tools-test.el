;;; agent-q-review-tools-test.el --- Reviews of edits by the built-in tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a review shows and does beyond its hunks, which agent-q-review-test.el is
;; about: opened by a key, with odd characters and line ends, of empty files, of
;; files that are open.

;;; Code:

(require 'agent-q-test-files)
(require 'agent-q-review)

(defun agent-q-review-tools-test--face (line)
  "Return the face of LINE of the current buffer."
  (agent-q-test-find (concat "\n" line "\n"))
  (car (get-text-property (1+ (point)) 'face)))

(ert-deftest agent-q-review-a-file-that-is-open-was-seen-by-whoever-read-it ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "a.txt"))
        ("edit_file" (path . "a.txt") (old_str . "one") (new_str . "1"))
        ("read_file" (path . "a.txt"))
        ("insert_at_line" (path . "a.txt") (content . "0") (line . 0))
        ("read_file" (path . "latin.txt"))
        ("edit_file" (path . "latin.txt") (old_str . "caf") (new_str . "Caf")))
    (agent-q-test-files-write "a.txt" "one\n")
    (let ((coding-system-for-write 'iso-latin-1-dos))
      (write-region "caf\u00e9\n" nil (agent-q-test-files-path "latin.txt") nil 'silent))
    (find-file-noselect (agent-q-test-files-path "latin.txt"))
    (let ((open (find-file-noselect (agent-q-test-files-path "a.txt"))))
      (agent-q-test-files-succeeds)
      (agent-q-test-files-succeeds)
      (should (equal (with-current-buffer open (buffer-string)) "1\n"))
      (agent-q-test-files-succeeds)
      ;; What the user types meanwhile was not seen.
      (with-current-buffer open
        (goto-char (point-max))
        (insert "typed\n"))
      (agent-q-test-files-fails "changed since it was last read")
      (should (equal (with-current-buffer open (buffer-string)) "1\ntyped\n")))
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds)))

(ert-deftest agent-q-review-a-diff-in-the-log-looks-like-one ()
  "Names of files aren't lines that were removed and added."
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "edit_file"
                        :arguments "{\"path\":\"a.sql\"}")
    (agent-q-test-event
     :call-finished :call 1 :outcome :succeeded :milliseconds 1
     :content (concat "Edit applied to a.sql.\n--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n"
                      "--- old\n+++ new\n same\n"))
    (agent-q-test-find "▸ edit_file")
    (agent-q-test-press "TAB")
    (pcase-dolist (`(,line . ,face) '(("--- a/a.sql" . diff-file-header)
                                      ("+++ b/a.sql" . diff-file-header)
                                      ("@@ -1,2 +1,2 @@" . diff-hunk-header)
                                      ("--- old" . diff-removed)
                                      ("+++ new" . diff-added)))
      (should (eq (agent-q-review-tools-test--face line) face)))))

;; Here those of Modus: its headers end with their text.
(ert-deftest agent-q-review-backgrounds-of-a-diff-reach-the-edge-if-their-faces-do ()
  (let ((were (mapcar (lambda (face) (list face :extend (face-attribute face :extend)))
                      '(diff-header diff-removed diff-added))))
    (unwind-protect
        (agent-q-test-with-chat
          (set-face-attribute 'diff-header nil :extend nil)
          (set-face-attribute 'diff-removed nil :extend t)
          (set-face-attribute 'diff-added nil :extend t)
          (agent-q-test-event :call-proposed :call 1 :tool "edit_file"
                              :arguments "{\"path\":\"a.sql\"}")
          (agent-q-test-event
           :call-finished :call 1 :outcome :succeeded :milliseconds 1
           :content "Edit applied to a.sql.\n--- a/a.sql\n+++ b/a.sql\n@@ -1 +1 @@\n-old\n+new\n")
          (agent-q-test-find "▸ edit_file")
          (agent-q-test-press "TAB")
          (cl-flet ((end-face (line)
                      (agent-q-test-find line)
                      (ensure-list (get-text-property (line-end-position) 'face))))
            (should (memq 'diff-removed (end-face "-old")))
            (should (memq 'diff-added (end-face "+new")))
            (should-not (memq 'diff-hunk-header (end-face "@@ -1 +1 @@")))
            (agent-q-test-find "▾ edit_file")
            (agent-q-test-press "TAB")
            (should-not (end-face "▸ edit_file"))))
      (pcase-dolist (`(,face . ,extend) were)
        (apply #'set-face-attribute face nil extend)))))

(ert-deftest agent-q-review-any-edit-can-be-reviewed-by-a-key ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "one") (new_str . "1"))
        ("read_file" (path . ".env")))
    (agent-q-test-files-write "a.txt" "one\ntwo\n")
    (agent-q-test-files-write ".env" "KEY=1\n")
    (let ((agent-q-test-files-answer nil))
      (agent-q-test-send "go")
      (let ((call (agent-q-test-arm)))
        ;; Until then all of the change is shown in the chat.
        (should (agent-q-test-shows "? Apply a.txt: +1 -1?\n"))
        (should (agent-q-test-shows "-one\n+1\n two\n"))
        (should (agent-q-test-shows "[d] review the diff"))
        (goto-char (agent-q-render-item-start call))
        (agent-q-test-press "d")
        (with-current-buffer (agent-q-call-review call)
          (should (agent-q-test-shows "-one\n+1\n two\n"))
          ;; The colour below isn't behind the answer to a hunk.
          (should (equal (get-text-property
                          0 'face (overlay-get (agent-q-review-hunk-overlay
                                                (aref agent-q-review-hunks-all 0))
                                               'before-string))
                         '(agent-q-success default)))
          (agent-q-test-press "C-c C-c")))
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal (agent-q-test-files-text "a.txt") "1\ntwo\n"))
      (agent-q-test-send "go")
      (goto-char (agent-q-render-item-start (agent-q-test-arm)))
      (should-error (agent-q-test-press "d") :type 'user-error)
      (agent-q-test-press "n")
      (agent-q-test-until (agent-q-test-idle-p)))))

(ert-deftest agent-q-review-characters-that-hide-are-shown-in-a-review ()
  (agent-q-test-files-in-project
      '(("propose_file_edit" (path . "a.txt") (original . "a\n") (description . "")
         (modified . "a \u202e b\u200b\n")))
    (agent-q-test-files-write "a.txt" "a\n")
    (let ((agent-q-test-files-answer nil))
      (agent-q-test-send "go")
      (with-current-buffer (agent-q-call-review (agent-q-test-arm))
        (should (eq 'hex-code (aref glyphless-char-display #x202e)))
        (should (eq 'hex-code (aref glyphless-char-display #x200b)))
        (should-not bidi-display-reordering)
        (should-not (eq 'hex-code (aref (default-value 'glyphless-char-display) #x202e)))
        (agent-q-test-press "C-c C-c"))
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal (agent-q-test-files-text "a.txt") "a \u202e b\u200b\n")))))

(ert-deftest agent-q-review-an-empty-new-file-can-be-applied ()
  (agent-q-test-files-in-project '(("create_file" (path . "a.txt") (content . "")))
    (let ((agent-q-review-edits t)
          (agent-q-test-files-answer nil))
      (agent-q-test-send "go")
      (with-current-buffer (agent-q-call-review (agent-q-test-arm))
        (agent-q-test-press "C-c C-c"))
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal (agent-q-test-files-bytes "a.txt") "")))))

(ert-deftest agent-q-review-carriage-returns-are-kept-from-who-edits-a-hunk ()
  (pcase-dolist (`(,text ,shown ,result)
                 '(("1\r\n2\r\n3" " 1\n-2\n+two\n 3\n\\ No newline at end of file\n"
                    "1\r\ntwo more\r\nand more\r\n3")
                   ("1\r\n2\r\n3\n" " 1\r\n-2\r\n+two\r\n 3\n" nil)))
    (agent-q-test-files-in-project
        '(("edit_file" (path . "a.txt") (old_str . "2") (new_str . "two")))
      (let ((agent-q-review-edits t)
            (agent-q-test-files-answer nil)
            (coding-system-for-write 'utf-8-unix))
        (write-region text nil (agent-q-test-files-path "a.txt") nil 'silent)
        (agent-q-test-send "go")
        (with-current-buffer (agent-q-call-review (agent-q-test-arm))
          (save-window-excursion
            (agent-q-test-press "e")
            (should (equal (buffer-string) shown))
            (if (not result) (agent-q-test-press "C-c C-k")
              (agent-q-test-find "+two")
              (end-of-line)
              (insert " more\n+and more")
              (agent-q-test-press "C-c C-c"))))
        (with-current-buffer (agent-q-call-review (agent-q-call-waiting))
          (agent-q-test-press "C-c C-c"))
        (agent-q-test-until (agent-q-test-idle-p))
        (should (equal (agent-q-test-files-bytes "a.txt")
                       (or result "1\r\ntwo\r\n3\n")))))))

(ert-deftest agent-q-review-what-changed-meanwhile-is-reviewed-and-the-model-told ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "a.txt"))
        ("propose_file_edit" (path . "a.txt") (original . "one\ntwo\n") (modified . "one\n2\n")
         (description . ""))
        ("write_file" (path . "a.txt") (content . "mine alone\n")))
    (agent-q-test-files-write "a.txt" "one\ntwo\n")
    (agent-q-test-files-succeeds)
    (let ((agent-q-test-files-answer nil))
      (agent-q-test-send "go")
      (with-current-buffer (agent-q-call-review (agent-q-test-arm))
        (agent-q-test-files-write "a.txt" "zero\none\ntwo\n")
        (agent-q-test-press "g")
        (agent-q-test-press "SPC")
        (agent-q-test-press "C-c C-c"))
      (agent-q-test-until (agent-q-test-idle-p)))
    (should (eq (car agent-q-test-files--result) :succeeded))
    (should (string-match-p "Read it again before" (cdr agent-q-test-files--result)))
    (should (equal (agent-q-test-files-text "a.txt") "zero\none\n2\n"))
    ;; It can't overwrite what it has not seen.
    (agent-q-test-files-fails "changed since it was last read")))

(provide 'agent-q-review-tools-test)
;;; agent-q-review-tools-test.el ends here
