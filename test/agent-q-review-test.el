;;; agent-q-review-test.el --- Tests of diff reviews  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Edits that a tool proposes, reviewed hunk by hunk; what is on the disk
;; afterwards is compared byte for byte.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)
(require 'agent-q-review)

(defvar agent-q-review-test--file nil "The file that a test edits.")

(defun agent-q-review-test--write (text)
  "Write TEXT to the file of the test, byte for byte."
  (let ((coding-system-for-write 'utf-8-unix))
    (write-region text nil agent-q-review-test--file nil 'silent)))

(defun agent-q-review-test--disk ()
  "Return the file of the test, byte for byte."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (insert-file-contents agent-q-review-test--file))
    (buffer-string)))

(defvar agent-q-review-test--name "a.txt" "What the file of a new project is called.")

(defmacro agent-q-review-test--with-real-tool (tool arguments text &rest body)
  "Run BODY in the review of a call of the built-in TOOL with ARGUMENTS.
The one file of a new project has TEXT, byte for byte; nil leaves it out."
  (declare (indent 3) (debug t))
  `(let* ((directory (file-name-as-directory
                      (file-truename (make-temp-file
                                      (expand-file-name "project" agent-q-test-directory) t))))
          (default-directory directory)
          (agent-q-offered-tools 'all)
          (agent-q-review-test--file (expand-file-name agent-q-review-test--name directory)))
     (when ,text (agent-q-review-test--write ,text))
     ;; Another test may have put its own in the place.
     (agent-q-events-ensure)
     (agent-q-core-register-builtin ,tool)
     (agent-q-test-with-model
         (agent-q-json-encode
          `(:turns [(:steps [(:tool_calls [(:name ,,tool :arguments ,,arguments)])])
                    (:steps [(:text "Done.")])]))
       (agent-q-test-with-chat
         (agent-q-test-send "change it")
         (with-current-buffer (agent-q-review-test--review)
           ,@body)))))

(defmacro agent-q-review-test--with-review (original modified &rest body)
  "Run BODY in the review of an edit from ORIGINAL to MODIFIED.
ORIGINAL nil means that there is no file yet."
  (declare (indent 2) (debug t))
  `(let ((original ,original)
         (modified ,modified))
     (agent-q-review-test--with-real-tool
         "propose_file_edit"
         (list :path "a.txt" :original (or original "") :modified modified
               :description "a change")
         original
       (let ((review (current-buffer)))
         (unwind-protect
             (progn
               (should (derived-mode-p 'diff-mode))
               ,@body)
           (when (buffer-live-p review)
             (with-current-buffer review (setq agent-q-review-hunks-done t))
             (kill-buffer review)))))))

(defun agent-q-review-test--review ()
  "Return the review that the current chat waits for."
  (agent-q-call-review (agent-q-test-arm)))

(defun agent-q-review-test--end (chat)
  "Wait until the turn of CHAT is over and return its last tool call."
  (with-current-buffer chat
    (agent-q-test-until (agent-q-test-idle-p))
    (car (hash-table-values agent-q-call-table))))

(defun agent-q-review-test--lines (&rest changed)
  "Return forty lines; CHANGED are the numbers of those that are changed."
  (mapconcat (lambda (number)
               (format (if (memq number changed) "(new %d)\n" "(line %d)\n") number))
             (number-sequence 1 40) ""))

(defun agent-q-review-test--mark (number)
  "Return the state that is shown of hunk NUMBER."
  (substring-no-properties
   (overlay-get (agent-q-review-hunk-overlay (aref agent-q-review-hunks-all (1- number)))
                'before-string)))

(defun agent-q-review-test--head ()
  "Return the header line as text."
  (substring-no-properties (apply #'concat header-line-format)))

;;;; Three hunks

(ert-deftest agent-q-diff-two-of-three-hunks-are-applied-and-the-third-is-commented ()
  (agent-q-review-test--with-review (agent-q-review-test--lines)
      (agent-q-review-test--lines 2 20 38)
    (should (string-match-p "3/3 hunks, \\+3 -3" (agent-q-review-test--head)))
    (should (looking-at "@@ -1,5 \\+1,5 @@"))
    (agent-q-test-press "n")
    (agent-q-test-press "n")
    (should (looking-at "@@ -35,6"))
    (agent-q-test-press "SPC")
    (should (equal (agent-q-review-test--mark 3) "[ ] reject\n"))
    (should (equal (agent-q-review-test--mark 1) "[x] apply\n"))
    (agent-q-review-comment "leave the end alone")
    (should (equal (agent-q-review-test--mark 3) "[ ] reject: leave the end alone\n"))
    (should (string-match-p "2/3 hunks, \\+2 -2" (agent-q-review-test--head)))
    (agent-q-test-press "C-c C-c")
    (let ((call (agent-q-review-test--end chat)))
      (should (string-suffix-p
               "review: applied 2 of 3 hunks; hunk 3 (@@ -35,6 +35,6 @@) rejected: leave the end alone."
               (agent-q-call-content call)))
      (should (equal (agent-q-review-test--disk) (agent-q-review-test--lines 2 20))))
    (should-not (buffer-live-p review))))

(ert-deftest agent-q-diff-an-edit-that-is-applied-as-a-whole-counts-no-parts ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2 20)
    (agent-q-test-press "C-c C-c")
    (agent-q-review-test--end chat)
    (with-current-buffer chat
      (should (string-match-p "\\+2 -2, 2 hunks" (agent-q-test-log)))
      (should-not (agent-q-test-shows "2 of 2")))))

(ert-deftest agent-q-diff-all-rejected-is-denied-with-the-comments ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2 20)
    (agent-q-review-comment "why?")
    (agent-q-test-press "C-c C-k")
    (let ((call (agent-q-review-test--end chat)))
      (should (eq (agent-q-call-state call) 'denied))
      (should (string-match-p "applied 0 of 2 hunks; hunk 1 .*rejected: why\\?"
                              (agent-q-call-content call))))
    (should (equal (agent-q-review-test--disk) (agent-q-review-test--lines)))))

(ert-deftest agent-q-diff-killing-the-buffer-rejects ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2)
    (kill-buffer review)
    (should (eq (agent-q-call-state (agent-q-review-test--end chat)) 'denied))
    (should (equal (agent-q-review-test--disk) (agent-q-review-test--lines)))))

(ert-deftest agent-q-diff-its-window-goes-though-a-page-was-shown-there ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2)
    (save-window-excursion
      (switch-to-buffer chat)
      (delete-other-windows)
      (agent-q-review-display review)
      (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
      (agent-q-test-press "v")
      (quit-window)
      (should (= 2 (count-windows)))
      (with-current-buffer review
        (agent-q-test-press "C-c C-c"))
      (should (= 1 (count-windows))))
    (agent-q-review-test--end chat)))

(ert-deftest agent-q-diff-a-cancelled-turn-closes-the-review ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2)
    (with-current-buffer chat (agent-q-chat-send-cancel))
    (should (eq (agent-q-call-state (agent-q-review-test--end chat)) 'cancelled))
    (should-not (buffer-live-p review))
    (should (equal (agent-q-review-test--disk) (agent-q-review-test--lines)))))

(ert-deftest agent-q-diff-the-review-goes-with-the-chat ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2)
    (kill-buffer chat)
    (should-not (buffer-live-p review))
    (agent-q-test-until (zerop (plist-get (agent-q-core-status) :approvals)))
    (should (equal (agent-q-review-test--disk) (agent-q-review-test--lines)))))

(ert-deftest agent-q-diff-an-answer-in-the-chat-closes-the-review ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2)
    (with-current-buffer chat (agent-q-test-answer "y"))
    (agent-q-review-test--end chat)
    (should-not (buffer-live-p review))
    (should (equal (agent-q-review-test--disk) (agent-q-review-test--lines 2)))))

(ert-deftest agent-q-diff-the-chat-tells-what-the-review-shows ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2 20)
    (with-current-buffer chat
      ;; Nothing calls a mere edit dangerous.
      (should (string-match-p "\\? Apply .*: \\+2 -2, 2 hunks.*\\?\nfile: " (agent-q-test-log)))
      (should (agent-q-test-shows "[y] apply"))
      (should-not (agent-q-test-shows "(line 4)"))
      (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
      (save-window-excursion
        (agent-q-test-press "v")
        (with-current-buffer "*agent-q call*"
          (should (string-match-p "\n\nWhat it changes\n@@ .*\n\\(?:.*\n\\)*-(line 2)\n" (buffer-string)))
          (should (string-match-p "\n\nIts arguments\n" (buffer-string)))
          (should (string-match-p "(line 40)\n" (buffer-string)))))
      (agent-q-test-answer "n"))))

(ert-deftest agent-q-diff-without-a-review-the-chat-shows-all ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_write" #'ignore :safety-level :dangerous))
    (agent-q-test-with-chat
      (agent-q-test-send (concat "/t_write " (string-replace "\n" " \\n" (agent-q-review-test--lines))))
      (agent-q-test-arm)
      (should (agent-q-test-shows "(line 40)"))
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p)))))

;;;; Byte for byte

(ert-deftest agent-q-diff-what-is-applied-is-exact ()
  (pcase-dolist
      (`(,original ,modified)
       '(("(list #\\newline #\\\\ \"a\\\\n\")\n" "(list #\\newline #\\Tab \"\\\\\\\"\")\n")
         ("(a\n\t(b))\n" "(a\n\t\t(b)  \n\n)\n")
         ("a\r\nb\r\nc\r\n" "a\r\nB\r\nc\r\n")
         ("a\r\nb\nc\r\n" "a\r\nb\nC\n")
         ("no end" "no end yet")
         ("no end" "an end\n")
         ("an end\n" "no end")
         ("-- x\n++ y\n\\ No newline at end of file\n" "-- z\n++ y\n\\ No newline\n@@ -1 +1 @@\n")
         ("λ\u00a0→\n" "λ\u200b→\n\f\n")
         (nil "(new)\n\tfile")
         ("gone\n" "")))
    (agent-q-review-test--with-review original modified
      (agent-q-test-press "C-c C-c")
      (agent-q-review-test--end chat)
      (should (equal (agent-q-review-test--disk) modified)))))

(ert-deftest agent-q-diff-an-edited-hunk-is-applied-as-edited ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2 20)
    (agent-q-review-edit-this-hunk)
    (agent-q-test-find "(new 2)")
    (insert "mine\t")
    (goto-char (point-min))
    (let ((edit (current-buffer)))
      ;; What the file holds can't be edited.
      (insert "-no such line\n")
      (should-error (agent-q-review-edit-finish) :type 'user-error)
      (delete-region (point-min) (line-beginning-position))
      (agent-q-review-edit-finish)
      (should-not (buffer-live-p edit)))
    (with-current-buffer review
      (should (equal (agent-q-review-test--mark 1) "[x] apply, edited\n"))
      (should (equal (agent-q-review-test--mark 2) "[x] apply\n"))
      (goto-char (point-min))
      (agent-q-test-press "n")
      (agent-q-test-press "n")
      (should (looking-at "@@ -17,7"))
      (agent-q-test-press "C-c C-c"))
    (should (string-match-p "hunk 1 .* edited by the user"
                            (agent-q-call-content (agent-q-review-test--end chat))))
    (should (equal (agent-q-review-test--disk)
                   (string-replace "(new 2)" "mine\t(new 2)"
                                   (agent-q-review-test--lines 2 20))))))

;;;; The target

(ert-deftest agent-q-diff-a-target-that-changes-is-noticed ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2 20)
    (agent-q-review-test--write (concat "first\n" (agent-q-review-test--lines 20)))
    (run-hooks 'post-command-hook)
    (should (string-match-p "CHANGED" (agent-q-review-test--head)))
    ;; It is not applied to what nobody has reviewed.
    (should-error (agent-q-test-press "C-c C-c") :type 'user-error)
    (should (equal (agent-q-review-test--disk) (concat "first\n" (agent-q-review-test--lines 20))))
    (should (string-match-p "[01]/1 hunks" (agent-q-review-test--head)))
    ;; What looks otherwise than it was reviewed is not taken by itself.
    (should (equal (agent-q-review-test--mark 1) "[ ] reject\n"))
    (agent-q-test-press "SPC")
    (agent-q-test-press "C-c C-c")
    (should (string-match-p "review: applied 1 of 2 hunks; the hunk @@ -17,7 .* does not fit: "
                            (agent-q-call-content (agent-q-review-test--end chat))))
    (should (equal (agent-q-review-test--disk) (concat "first\n" (agent-q-review-test--lines 2 20))))))

(ert-deftest agent-q-diff-the-live-text-is-the-buffers ()
  (agent-q-review-test--with-review (agent-q-review-test--lines) (agent-q-review-test--lines 2)
    (let ((visiting (find-file-noselect agent-q-review-test--file)))
      (unwind-protect
          (progn
            (with-current-buffer visiting
              (goto-char (point-max))
              (insert "unsaved\n"))
            (should (agent-q-review-target-changed-p agent-q-review-hunks-edit)))
        (with-current-buffer visiting (set-buffer-modified-p nil))
        (kill-buffer visiting)))))

;;;; The real tools

(ert-deftest agent-q-diff-the-built-in-tool-applies-what-was-chosen ()
  (agent-q-review-test--with-real-tool
      "propose_file_edit" (list :path "a.txt" :original (agent-q-review-test--lines)
                                :modified (agent-q-review-test--lines 2 20 38)
                                :description "three places")
      (agent-q-review-test--lines)
    (goto-char (point-max))
    (agent-q-test-press "SPC")
    (agent-q-test-press "p")
    (agent-q-review-comment "good")
    (agent-q-test-press "C-c C-c")
    (let ((content (agent-q-call-content (agent-q-review-test--end chat))))
      (should (string-prefix-p "Changes applied to a.txt" content))
      ;; It isn't what the model has sent any more.
      (should (string-search "\n@@ -1,5 +1,5 @@" (agent-q-test-last-message)))
      (should (string-match-p "review: applied 2 of 3 hunks; .*hunk 3 .* rejected: good\\.\\'" content)))
    (should (equal (agent-q-review-test--disk) (agent-q-review-test--lines 2 20)))))

(ert-deftest agent-q-diff-a-file-with-carriage-returns-keeps-them ()
  (agent-q-review-test--with-real-tool
      "propose_file_edit" '(:path "a.txt" :original "one
two
three
"
                            :modified "one
TWO\n
three
" :description "")
      "one
two
three
"
    (agent-q-test-press "C-c C-c")
    (agent-q-review-test--end chat)
    (should (equal (agent-q-review-test--disk) "one
TWO\n
three
"))))

(ert-deftest agent-q-diff-other-edits-are-reviewed-by-option ()
  (let ((agent-q-review-edits t))
    (agent-q-review-test--with-real-tool
        "edit_file" '(:path "a.txt" :old_str "two" :new_str "2")
        "one
two
three
"
      (should (string-match-p "1/1 hunks" (agent-q-review-test--head)))
      (agent-q-test-press "C-c C-c")
      (agent-q-review-test--end chat)
      (should (equal (agent-q-review-test--disk) "one
2
three
"))))
  (should-not (agent-q-review-reviewed-p "edit_file" '("a")))
  (should-not (let ((agent-q-review-edits t)) (agent-q-review-reviewed-p "eval_form" nil))))

(defconst agent-q-review-test--source "(defun a (x)
  (list x
        #\\( \"(\"))

(defun b ()
  2)
"
  "A file of Lisp.")

(ert-deftest agent-q-diff-every-change-of-a-text-is-reviewed-on-the-whole-file ()
  (pcase-dolist
      (`(,tool ,arguments ,head ,applied)
       `(("edit_definition" (:name "a" :new_source "(defun a (y)\n  (list y\n        #\\( \"(\"))")
          "@@ -1,5 +1,5 @@"
          ,(string-replace "(list x" "(list y"
                           (string-replace "(x)" "(y)" agent-q-review-test--source)))
         ("insert_definition" (:source "(defun c ()\n  3)" :after "a") "@@ -2,5 +2,8 @@"
          ,(string-replace "(defun b" "(defun c ()\n  3)\n\n(defun b" agent-q-review-test--source))
         ("insert_at_line" (:line 3 :content "; three\n") "@@ -1,6 +1,7 @@"
          ,(string-replace "\n\n(defun b" "\n; three\n\n(defun b" agent-q-review-test--source))
         ("edit_file" (:old_str "2)" :new_str "3)") "@@ -3,4 +3,4 @@"
          ,(string-replace "2)" "3)" agent-q-review-test--source))
         ("write_file" (:content "(new)\n") "@@ -1,6 +1 @@" "(new)\n")))
    (let ((agent-q-review-edits t)
          (agent-q-review-test--name "a.lisp"))
      (dolist (answer '("C-c C-c" "C-c C-k"))
        (agent-q-review-test--with-real-tool
            tool (append '(:path "a.lisp") arguments) agent-q-review-test--source
          (should (equal (list tool head)
                         (list tool (buffer-substring (point) (line-end-position)))))
          (agent-q-review-comment "seen")
          (agent-q-test-press answer)
          (should (string-match-p "seen" (agent-q-call-content
                                          (agent-q-review-test--end chat))))
          (should (equal (agent-q-review-test--disk)
                         (if (equal answer "C-c C-c") applied
                           agent-q-review-test--source))))))))

(ert-deftest agent-q-diff-a-part-of-a-definition-can-be-taken ()
  (let* ((agent-q-review-edits t)
         (agent-q-review-test--name "a.lisp")
         (definition (lambda (&rest changed)
                       (concat "(defun a ()\n" (apply #'agent-q-review-test--lines changed)
                               "  nil)\n"))))
    (agent-q-review-test--with-real-tool
        "edit_definition" (list :path "a.lisp" :name "a"
                                :new_source (funcall definition 5 35))
        (concat "; head\n" (funcall definition))
      (should (looking-at "@@ -4,7 \\+4,7 @@"))
      (agent-q-test-press "SPC")
      (agent-q-test-press "C-c C-c")
      (should (string-match-p "applied 1 of 2 hunks"
                              (agent-q-call-content (agent-q-review-test--end chat))))
      (should (equal (agent-q-review-test--disk)
                     (concat "; head\n" (funcall definition 35)))))
    ;; What is left has to be Lisp all the same.
    (agent-q-review-test--with-real-tool
        "edit_file" (list :path "a.lisp" :old_str (funcall definition)
                          :new_str (string-replace
                                    "(line 38)" "(line 38))" (string-replace
                                                            "(line 2)" "((line 2)"
                                                            (funcall definition))))
        (funcall definition)
      (agent-q-test-press "SPC")
      (agent-q-test-press "C-c C-c")
      (let ((call (agent-q-review-test--end chat)))
        (should (eq (agent-q-call-state call) 'failed))
        (should (string-match-p "unbalanced" (agent-q-call-content call))))
      (should (equal (agent-q-review-test--disk) (funcall definition))))))

(ert-deftest agent-q-diff-deleting-and-moving-are-reviewed-as-a-whole ()
  (let ((agent-q-review-edits t))
    (agent-q-review-test--with-real-tool "delete_file" '(:path "a.txt") "one\ntwo\n"
      (should (string-match-p "\\`It is deleted\\.\n--- a\\.txt\n\\+\\+\\+ /dev/null\n@@ -1,2 .*\n-one\n-two\n"
                              (buffer-string)))
      (should-error (agent-q-test-press "SPC") :type 'user-error)
      (agent-q-test-press "C-c C-k")
      (should (string-match-p "nothing was done"
                              (agent-q-call-content (agent-q-review-test--end chat))))
      (should (equal (agent-q-review-test--disk) "one\ntwo\n")))
    (agent-q-review-test--with-real-tool "delete_file" '(:path "a.txt") "one\ntwo\n"
      (agent-q-review-comment "at last")
      (agent-q-test-press "C-c C-c")
      (should (string-match-p "review: done as a whole; .*at last"
                              (agent-q-call-content (agent-q-review-test--end chat))))
      (should-not (file-exists-p agent-q-review-test--file)))
    (agent-q-review-test--with-real-tool
        "move_file" '(:source "a.txt" :destination "b.txt") "one\n"
      (should (string-match-p "It becomes 'b\\.txt'" (buffer-string)))
      (agent-q-test-press "C-c C-c")
      (agent-q-review-test--end chat)
      (should-not (file-exists-p agent-q-review-test--file))
      (should (file-exists-p (expand-file-name "b.txt" directory))))))

(ert-deftest agent-q-diff-what-changed-under-a-planned-edit-is-reviewed-again ()
  (let ((agent-q-review-edits t))
    (agent-q-review-test--with-real-tool
        "insert_at_line" '(:path "a.txt" :line 1 :content "(new)\n")
        (agent-q-review-test--lines)
      (agent-q-review-test--write (concat (agent-q-review-test--lines) "more\n"))
      (should-error (agent-q-test-press "C-c C-c") :type 'user-error)
      (agent-q-test-press "C-c C-c")
      ;; The user has seen what the model has not.
      (should (eq (agent-q-call-state (agent-q-review-test--end chat)) 'succeeded))
      (should (equal (agent-q-review-test--disk)
                     (concat "(line 1)\n(new)\n"
                             (substring (agent-q-review-test--lines) 9) "more\n"))))))

;;;; Size

(ert-deftest agent-q-diff-five-hundred-hunks-can-be-toggled ()
  (let* ((lines (lambda (text)
                  (mapconcat (lambda (number)
                               (if (zerop (% number 20)) (format "%s %d\n" text number)
                                 (format "line %d\n" number)))
                             (number-sequence 1 10000) ""))))
    (agent-q-review-test--with-review (funcall lines "old") (funcall lines "new")
      (should (= 500 (length agent-q-review-hunks-all)))
      (let ((started (float-time)))
        (dotimes (_ 499) (agent-q-test-press "SPC"))
        (let ((inhibit-message nil))
          (message "A toggle among 500 hunks takes %.3f ms"
                   (/ (* 1000 (- (float-time) started)) 499))))
      (should (string-match-p "1/500 hunks" (agent-q-review-test--head)))
      (agent-q-test-press "C-c C-c")
      (agent-q-review-test--end chat)
      (should (equal (agent-q-review-test--disk)
                     (string-replace "old 10000\n" "new 10000\n" (funcall lines "old")))))))

(provide 'agent-q-review-test)
;;; agent-q-review-test.el ends here
