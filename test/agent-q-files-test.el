;;; agent-q-files-test.el --- Tools that look at files and buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Reading, listing and searching real files and buffers: good, bad and hostile.

;;; Code:

(require 'agent-q-buffers)
(require 'agent-q-changes)
(require 'agent-q-test-files)
(require 'agent-q-test-image)
(require 'agent-q-test-systems)

(ert-deftest agent-q-files-reads-pages-and-lists ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "a.txt") (offset . 2) (limit . 1))
        ("read_file" (path . "nope.txt"))
        ("read_file" (path . "src"))
        ("read_file" (path . "bin"))
        ("read_file" (path . "a.txt") (offset . 9))
        ("list_directory" (path . "."))
        ("directory_tree")
        ("get_file_info" (path . "a.txt"))
        ("get_project_root")
        ("search_files" (pattern . "src/*.lisp"))
        ("grep_project" (pattern . "def[a-z]+ foo") (glob . "*.lisp"))
        ("grep_project" (pattern . "(")))
    (agent-q-test-files-write "a.txt" "one\nzwö\nthree\n")
    (agent-q-test-files-write "src/b.lisp" "(defun foo ())\n")
    (let ((coding-system-for-write 'no-conversion))
      (write-region "a\0\1\2\3\0" nil (agent-q-test-files-path "bin") nil 'silent))
    (agent-q-test-files-succeeds "Lines 2–2 of 3.*offset=3\\.\nzwö\n\\'")
    (agent-q-test-files-fails "nope.txt.* does not exist")
    (agent-q-test-files-fails "'src' is a directory")
    (agent-q-test-files-fails "'bin' is a binary file")
    (agent-q-test-files-fails "'a.txt' has 3 lines; line 9 does not exist")
    (agent-q-test-files-succeeds "Total: 2 files, 1 directory")
    (agent-q-test-files-succeeds "b\\.lisp")
    (agent-q-test-files-succeeds "Size: 15 B")
    (should-not agent-q-test-files-asked)
    (agent-q-test-files-succeeds (regexp-quote (directory-file-name
                                                agent-q-test-files-root)))
    (agent-q-test-files-succeeds "\\`Found 1 file .*\n\nsrc/b.lisp\\|  src/b.lisp")
    (agent-q-test-files-succeeds "src/b.lisp:1:(defun foo ())")
    (agent-q-test-files-fails "(")))

(ert-deftest agent-q-files-outside-and-secrets-ask ()
  (agent-q-test-files-in-project
      `(("read_file" (path . ,(expand-file-name "outside.txt" agent-q-test-directory)))
        ("read_file" (path . ".env"))
        ("list_directory" (path . "..")))
    (write-region "secret" nil (expand-file-name "outside.txt" agent-q-test-directory)
                  nil 'silent)
    (agent-q-test-files-write ".env" "KEY=1\n")
    (let ((agent-q-test-files-answer "denied"))
      (dolist (reason '("outside the project" "may hold secrets" "outside the project"))
        (should (eq (car (agent-q-test-files-next)) :denied))
        (should (string-match-p reason (car agent-q-test-files-asked)))))))

(agent-q-test-image-on-each files-of-known-systems-are-read-unasked ()
  "Reading where a system is that ASDF knows asks only about private files; changing it asks."
  (let* ((directory (file-truename
                     (agent-q-test-systems-system "aq-known" '(("aq" . "(defun aq-known-one () 1)\n")))))
         (other (file-name-as-directory
                 (file-truename (make-temp-file (expand-file-name "other" agent-q-test-directory) t))))
         (file (concat directory "aq.lisp"))
         (system (concat directory "aq-known.asd")))
    (write-region "KEY=aq-secret\n" nil (concat directory ".env") nil 'silent)
    (make-symbolic-link (concat directory ".env") (concat directory "plain.lisp"))
    (write-region "(defun aq-other ())\n" nil (concat other "b.lisp") nil 'silent)
    (agent-q-test-image-values connection "(require :asdf)")
    (agent-q-test-files-in-project
        `(("read_file" (path . ,file))
          ("read_file" (path . ,file))
          ("list_directory" (path . ,directory))
          ("search_files" (pattern . "*.lisp") (path . ,directory))
          ("grep_project" (pattern . "aq-") (path . ,directory) (show_hidden . t))
          ("check_parens" (path . ,file))
          ("read_file" (path . ,(concat directory ".env")))
          ("read_file" (path . ,(concat directory "plain.lisp")))
          ("edit_file" (path . ,file) (old_str . "1") (new_str . "2"))
          ("list_directory" (path . ,(concat directory "..")))
          ("read_file" (path . ,(concat other "b.lisp"))))
      (agent-q-chat-set-connection connection)
      (let ((agent-q-test-files-answer "denied"))
        (agent-q-test-files-next)
        (should (string-match-p "outside the project" (car agent-q-test-files-asked)))
        (agent-q-test-image-values connection (format "(asdf:load-asd %S)" system))
        ;; What the image says without a definition there counts for nothing.
        (agent-q-test-image-values
         connection
         (format "(progn (eval '(asdf:defsystem \"aq-made-up\"))
                         (setf (slot-value (asdf:find-system \"aq-made-up\") 'asdf::source-file)
                               #p\"%saq-made-up.asd\"))"
                 other))
        (dolist (text '("aq-known-one" "aq-known.asd" "aq.lisp" "aq-known-one" ""))
          (let ((told (agent-q-test-files-succeeds text)))
            (should-not agent-q-test-files-asked)
            (should-not (string-search "aq-secret" told))))
        (dolist (reason '("may hold secrets" "may hold secrets" "outside the project"
                          "outside the project" "outside the project"))
          (should (eq (car (agent-q-test-files-next)) :denied))
          (should (string-match-p reason (car agent-q-test-files-asked))))))))

(ert-deftest agent-q-files-a-secret-is-not-told-by-a-failing-edit ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . ".env") (old_str . "KEY = 12") (new_str . "x")))
    (agent-q-test-files-write ".env" "KEY=12345\n")
    (let* ((agent-q-test-files-answer "denied")
           (result (agent-q-test-files-next)))
      (should (eq (car result) :denied))
      (should-not (string-match-p "12345" (cdr result))))))

(ert-deftest agent-q-files-paths-that-are-never-used ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "/ssh:host:/etc/passwd"))
        ("read_file" (path . "/dev/zero"))
        ("read_file" (path . "~root/x")))
    (agent-q-test-files-fails "ssh")
    (agent-q-test-files-fails "kernel")
    (agent-q-test-files-fails "~root")
    (should-not agent-q-test-files-asked)))

(ert-deftest agent-q-files-what-was-changed-while-asked-stays ()
  (agent-q-test-files-in-project
      '(("delete_file" (path . "gone.txt"))
        ("delete_file" (path . "gone.txt"))
        ("move_file" (source . "from.txt") (destination . "gone.txt") (allow_overwrite . t))
        ("delete_file" (path . "image.bin"))
        ("delete_file" (path . "gone.txt"))
        ("move_file" (source . "from.txt") (destination . "to.txt") (allow_overwrite . t))
        ("write_file" (path . "to.txt") (content . "written\n")))
    (agent-q-test-files-write "gone.txt" "old\n")
    (agent-q-test-files-write "from.txt" "from\n")
    (agent-q-test-files-write "to.txt" "to\n")
    (let ((agent-q-test-files-before-answer
           (lambda () (agent-q-test-files-write "gone.txt" (format "%s\n" (random))))))
      (dotimes (_ 2)
        (agent-q-test-files-fails "was changed since this change was proposed"))
      (agent-q-test-files-fails "was changed since this change was proposed")
      (should (equal (agent-q-test-files-text "from.txt") "from\n")))
    (agent-q-test-files-write "image.bin" "a\0b")
    (let ((agent-q-test-files-before-answer
           (lambda () (agent-q-test-files-write "image.bin" "c\0d"))))
      (agent-q-test-files-fails "was changed since this change was proposed"))
    (agent-q-test-files-succeeds "Deleted: gone.txt")
    (agent-q-test-files-succeeds "Moved: from.txt")
    (agent-q-test-files-succeeds "Wrote to.txt")
    (should (equal (agent-q-test-files-text "to.txt") "written\n"))))

(ert-deftest agent-q-files-results-say-what-was-done ()
  (let ((outside (make-temp-file (expand-file-name "elsewhere" agent-q-test-directory))))
    (write-region "one\n" nil outside nil 'silent)
    (agent-q-test-files-in-project
        `(("create_file" (path . "a.txt") (content . "a\n"))
          ("create_file" (path . "a.txt") (content . "b\n") (allow_overwrite . t))
          ("edit_file" (path . ,outside) (old_str . "one") (new_str . "two"))
          ("search_files" (pattern . ,(concat (make-string 400 ?{) "a" (make-string 400 ?}))))
          ("grep_project" (pattern . "b") (glob . ,(make-string 5000 ?{))))
      (agent-q-test-files-succeeds "\\`Created file a.txt")
      (agent-q-test-files-succeeds "\\`Replaced file a.txt")
      (agent-q-test-files-succeeds (format "^--- %s\n\\+\\+\\+ %s$" outside outside))
      (agent-q-test-files-fails "braces are nested more than 20 deep")
      (agent-q-test-files-fails "The glob has 5000 bytes"))
    (delete-file outside)))

(ert-deftest agent-q-files-unsaved-changes-are-read-and-said ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "a.txt")) ("read_file" (path . "a.txt")))
    (let ((path (agent-q-test-files-write "a.txt" "old\n")))
      (with-current-buffer (find-file-noselect path)
        (agent-q-test-files-succeeds-in chat "\nold\n\\'")
        (goto-char (point-max))
        (insert "new λ\n")
        (narrow-to-region 1 2)
        (agent-q-test-files-succeeds-in
         chat "buffer a.txt, which has unsaved changes.*\nold\nnew λ\n\\'")))))

(defun agent-q-test-files-succeeds-in (chat regexp)
  "Make the next call of CHAT, which has to succeed with a match of REGEXP."
  (with-current-buffer chat
    (agent-q-test-files-succeeds regexp)))

(ert-deftest agent-q-files-calls-outside-chats-know-the-project-and-secrets ()
  (agent-q-test-files-in-project nil
    (agent-q-test-files-write "a.txt" "hello\n")
    (agent-q-test-files-write "b.hush" "secret\n")
    ;; By this name it is private whatever the list says.
    (agent-q-test-files-write "agent-q-chats.key" "secret\n")
    (let* ((agent-q-private-files '("*.hush"))
           (results (agent-q-execute-tool-calls-sync
                     '((:id "1" :name "read_file" :arguments (:path "a.txt"))
                       (:id "2" :name "read_file" :arguments (:path "b.hush"))
                       (:id "3" :name "read_file" :arguments (:path "agent-q-chats.key"))))))
      (should (string-match-p "hello" (agent-q-tool-result-content (car results))))
      (dolist (result (cdr results))
        (should-not (agent-q-tool-result-success result))
        (should (string-match-p "approval" (agent-q-tool-result-error result)))))))

(ert-deftest agent-q-files-a-huge-file-is-read-by-pages-and-not-edited ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "huge.txt") (limit . 2))
        ("edit_file" (path . "huge.txt") (old_str . "one") (new_str . "1")))
    (let ((path (agent-q-test-files-write "huge.txt" (make-string 70000 ?a))))
      (write-region "\ntwo\n" nil path t 'silent)
      (skip-unless (zerop (call-process "truncate" nil nil nil "-s" "2G" path)))
      (agent-q-test-files-succeeds "\\`Lines 1–2 of 'huge.txt' (2.0 GB).*offset=3")
      (agent-q-test-files-fails "'huge.txt' has 2.0 GB")
      (should-not agent-q-test-files-asked))))

;;;; Buffers

(ert-deftest agent-q-files-searching-a-buffer ()
  (agent-q-test-files-in-project
      '(("search_in_buffer" (pattern . "x*") (buffer . "look") (regex . t))
        ("search_in_buffer" (pattern . "b") (buffer . "look"))
        ("search_in_buffer" (pattern . "b") (buffer . "look") (all_matches . :json-false))
        ("search_in_buffer" (pattern . "[") (buffer . "look") (regex . t))
        ("search_in_buffer" (pattern . "zz") (buffer . "look"))
        ("search_in_buffer" (pattern . "b") (buffer . "no such")))
    (with-current-buffer (get-buffer-create "look")
      (insert "ab\nxxb\n"))
    (agent-q-test-files-succeeds "Found 7 matches")
    (agent-q-test-files-succeeds "Found 2 matches.*\n\nLine 1, column 2, position 2: ab\nLine 2, column 3, position 6: xxb\\'")
    (agent-q-test-files-succeeds "Found 1 match ")
    (agent-q-test-files-fails "not valid")
    (agent-q-test-files-succeeds "No matches found for 'zz'")
    (agent-q-test-files-fails "No buffer is named no such")))

(ert-deftest agent-q-files-a-search-gives-way-to-the-users-keys ()
  (agent-q-test-files-in-project
      '(("search_in_buffer" (pattern . "b") (buffer . "look"))
        ("search_in_buffer" (pattern . "b") (buffer . "look")))
    (with-current-buffer (get-buffer-create "look") (insert "ab\n"))
    (let ((unread-command-events (list ?x))
          (agent-q-buffers--pause 0))
      (agent-q-test-files-fails "took too long while the user works")
      (setq unread-command-events nil)
      (agent-q-test-files-succeeds "Found 1 match"))))

(ert-deftest agent-q-files-a-search-without-end-is-stopped ()
  (agent-q-test-files-in-project
      '(("search_in_buffer" (buffer . "endless") (pattern . "\\(a*\\)*b") (regex . t))
        ("search_in_buffer" (buffer . "endless") (pattern . "a+") (regex . t)))
    (with-current-buffer (get-buffer-create "endless")
      (insert (make-string 60 ?a)))
    (agent-q-test-files-fails "took too long; use a simpler pattern")
    (agent-q-test-files-succeeds "Found 1 match ")
    (should-not (input-pending-p))))

(ert-deftest agent-q-files-places-are-counted-in-characters ()
  (agent-q-test-files-in-project
      '(("search_in_buffer" (pattern . "x") (buffer . "look"))
        ("buffer_outline" (buffer . "look"))
        ("check_parens" (path . "tabs.lisp")))
    (with-current-buffer (get-buffer-create "look")
      (insert "(a)\n\t(b x))\n(c)\n")
      (lisp-mode)
      (narrow-to-region 8 (point-max)))
    (agent-q-test-files-write "tabs.lisp" "(a)\n\t(b))\n")
    (agent-q-test-files-succeeds "Line 2, column 5, position 9: .*x))$")
    (agent-q-test-files-succeeds "2-2: (b x)\nThe parentheses don't match from line 2 on\\.\\'")
    (agent-q-test-files-succeeds "line 2, column 5 .* no opener")))

(ert-deftest agent-q-files-listing-and-outlining-buffers ()
  (agent-q-test-files-in-project
      '(("list_buffers") ("buffer_outline" (buffer . "b.lisp")))
    (with-current-buffer (find-file-noselect
                          (agent-q-test-files-write
                           "b.lisp" "; (not this)\n(defun foo ()\n  #\\()\n\n(bar)\n"))
      (insert " "))
    (agent-q-test-files-succeeds "^b.lisp (lisp-mode) .*, unsaved changes")
    (agent-q-test-files-succeeds "\n2-3: (defun foo ()\n5-5: (bar)\\'")))

(ert-deftest agent-q-files-writing-to-a-buffer ()
  (agent-q-test-files-in-project
      '(("write_to_buffer" (content . "λ-") (buffer . "b") (position . 2))
        ("write_to_buffer" (content . "x") (buffer . "b") (position . 99))
        ("write_to_buffer" (content . "x") (buffer . "b")))
    (with-current-buffer (get-buffer-create "b")
      (buffer-enable-undo)
      (insert "abc"))
    (agent-q-test-files-succeeds "Inserted 2 characters into b at position 2")
    (should (equal (with-current-buffer "b" (buffer-string)) "aλ-bc"))
    (agent-q-test-files-fails "positions 1 to 6")
    (with-current-buffer "b" (setq buffer-read-only t))
    (agent-q-test-files-fails "read-only")
    (with-current-buffer "b" (setq buffer-read-only nil))
    (agent-q-undo-turn)
    (agent-q-test-until (equal (with-current-buffer "b" (buffer-string)) "abc"))))

(ert-deftest agent-q-files-a-system-definition-marks-a-project ()
  "Without version control the project is around the nearest file *.asd, never the home directory."
  (let* ((root (file-name-as-directory
                (file-truename (make-temp-file
                                (expand-file-name "system" agent-q-test-directory) t))))
         (agent-q-project-root nil)
         ;; A folder for each question, as answers are remembered for some seconds.
         (around (lambda (name)
                   (let ((default-directory (expand-file-name name root)))
                     (make-directory default-directory)
                     (string-remove-prefix root (agent-q-project-directory))))))
    (should (equal "alone/" (funcall around "alone/")))
    (write-region "" nil (expand-file-name "bank.asd" root) nil 'silent)
    (should (equal "" (funcall around "src/")))
    (let ((process-environment (cons (concat "HOME=" root) process-environment)))
      (should (equal "home/" (funcall around "home/"))))))

(provide 'agent-q-files-test)
;;; agent-q-files-test.el ends here
