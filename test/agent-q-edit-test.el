;;; agent-q-edit-test.el --- Tools that change files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Edits of real files, on disk and through the buffers that visit them, and
;; undoing them: what a file holds after each is compared byte for byte.

;;; Code:

(require 'agent-q-test-files)
(require 'agent-q-changes)

;;;; On disk

(ert-deftest agent-q-edit-on-disk-keeps-every-other-byte ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "crlf.txt") (old_str . "two\nthree") (new_str . "2\n3\\n#\\newline"))
        ("edit_file" (path . "latin.txt") (old_str . "b") (new_str . "ü"))
        ("edit_file" (path . "latin.txt") (old_str . "a") (new_str . "λ")))
    (agent-q-test-files-write "crlf.txt" "one\r\ntwo\r\nthree\r\nfour")
    (let ((coding-system-for-write 'latin-1))
      (write-region "aäb" nil (agent-q-test-files-path "latin.txt") nil 'silent))
    ;; The user sees the change; the model has just sent it.
    (agent-q-test-files-succeeds "\\`Edit applied to crlf\\.txt 2-3 (\\+2 -2)\\.\n\n--- a/crlf")
    (should (string-match-p "^Edit applied to crlf\\.txt 2-3 (\\+2 -2)\\.\n</data"
                            (agent-q-test-last-message)))
    (should (string-match-p "changes 'crlf.txt'" (car agent-q-test-files-asked)))
    (should (equal (agent-q-test-files-bytes "crlf.txt")
                   "one\r\n2\r\n3\\n#\\newline\r\nfour"))
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-bytes "latin.txt") "a\344\374"))
    (agent-q-test-files-fails "Latin-1")
    (should-not agent-q-test-files-asked)
    (should (equal (agent-q-test-files-bytes "latin.txt") "a\344\374"))))

(ert-deftest agent-q-edit-what-cannot-be-is-refused-before-anyone-is-asked ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "x") (new_str . "y"))
        ("edit_file" (path . "a.txt") (old_str . "threee") (new_str . "y"))
        ("edit_file" (path . "gone.txt") (old_str . "x") (new_str . "y"))
        ("insert_at_line" (path . "a.txt") (content . "x") (line . 10))
        ("create_file" (path . "a.txt") (content . "x"))
        ("propose_file_edit" (path . "a.txt") (original . "not there") (modified . "x")
         (description . "d"))
        ("delete_file" (path . "src"))
        ("move_file" (source . "gone") (destination . "b"))
        ("move_file" (source . "a.txt") (destination . "src/b.txt")))
    (agent-q-test-files-write "a.txt" "x x\nthree\n")
    (agent-q-test-files-write "src/b.txt" "")
    (dolist (regexp '("2 matches" "line 2: three" "does not exist" "Line 10 does not exist"
                      "already exists" "not found" "directory" "does not exist"
                      "already exists"))
      (agent-q-test-files-fails regexp)
      (should-not agent-q-test-files-asked))
    (should (equal (agent-q-test-files-text "a.txt") "x x\nthree\n"))))

(ert-deftest agent-q-edit-a-file-that-changed-is-read-again-first ()
  (agent-q-test-files-in-project
      '(("read_file" (path . "a.txt"))
        ("insert_at_line" (path . "a.txt") (content . "zero") (line . 0))
        ("read_file" (path . "a.txt"))
        ("edit_file" (path . "a.txt") (old_str . "one") (new_str . "1"))
        ("insert_at_line" (path . "a.txt") (content . "2") (line . 1))
        ("write_file" (path . "b.txt") (content . "new")))
    (agent-q-test-files-write "a.txt" "one\n")
    (agent-q-test-files-write "b.txt" "old\n")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-write "a.txt" "one\nand more\n")
    (agent-q-test-files-fails "changed since it was last read")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds)
    ;; What the model wrote itself it has seen.
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.txt") "1\n2\nand more\n"))
    ;; Changed while the question was open.
    (let ((agent-q-test-files-before-answer
           (lambda () (agent-q-test-files-write "b.txt" "other\n"))))
      (agent-q-test-files-fails "changed since this change was proposed"))
    (should (equal (agent-q-test-files-text "b.txt") "other\n"))))

(ert-deftest agent-q-edit-text-that-is-quoted-is-there ()
  "An edit that quotes what it replaces needs no other check; the user sees what it is of."
  (agent-q-test-files-in-project
      '(("read_file" (path . "a.lisp"))
        ("edit_file" (path . "a.lisp") (old_str . "1") (new_str . "11"))
        ("edit_definition" (path . "a.lisp") (name . "b") (old_text . "2") (new_source . "22"))
        ("propose_file_edit" (path . "a.lisp") (original . "22") (modified . "2") (description . "d"))
        ("edit_definition" (path . "a.lisp") (name . "b") (new_source . "(defun b () 3)"))
        ("edit_file" (path . "a.lisp") (old_str . "11") (new_str . "1")))
    (agent-q-test-files-write "a.lisp" "(defun a () 1)\n(defun b () 2)\n")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-write "a.lisp" ";; new\n(defun a () 1)\n(defun b () 2)\n")
    (dotimes (_ 3)
      (agent-q-test-files-succeeds
       "^The file had changed since it was last read\\. Read it again before you change more of it\\."))
    (agent-q-test-files-fails "changed since it was last read")
    (let ((agent-q-test-files-before-answer
           (lambda () (agent-q-test-files-write "a.lisp" "(defun a () 11)\n"))))
      ;; It still fits what is there now, so the user is asked about that.
      (agent-q-test-files-succeeds)
      (should (equal (length agent-q-test-files-asked) 2)))
    (should (equal (agent-q-test-files-text "a.lisp") "(defun a () 1)\n"))))

(ert-deftest agent-q-edit-what-is-read-in-the-same-message-is-known ()
  (let ((edits '(("edit_definition" (path . "a.lisp") (name . "a") (new_source . "(defun a () 11)"))
                 ("edit_definition" (path . "a.lisp") (name . "b") (new_source . "(defun b () 22)"))))
        (text "(defun a () 1)\n(defun b () 2)\n"))
    (agent-q-test-files-in-project
        `(("read_file" (path . "a.lisp"))
          (("grep_project" (path . "a.lisp") (pattern . "defun")) ,@edits)
          (("read_file" (path . "a.lisp") (limit . 1)) ,@edits))
      (agent-q-test-files-write "a.lisp" text)
      (agent-q-test-files-succeeds)
      (agent-q-test-files-write "a.lisp" (concat ";; new\n" text))
      (agent-q-test-files-fails "changed since it was last read")
      (agent-q-test-files-succeeds)
      (should (equal (length agent-q-test-files-asked) 2))
      (should (equal (agent-q-test-files-text "a.lisp")
                     ";; new\n(defun a () 11)\n(defun b () 22)\n")))))

(ert-deftest agent-q-edit-lines-of-the-log-name-definitions ()
  (let ((middle (make-string 9 ?\n)))
    (agent-q-test-files-in-project
        '((("edit_definition" (path . "a.lisp") (name . "a") (new_source . "(defun a () 11)"))
           ("insert_definition" (path . "a.lisp") (after . "a") (source . ";; New.\n(deftest (setf c) 1)"))
           ("edit_file" (path . "a.lisp") (old_str . "last") (new_str . "least"))
           ("edit_file" (path . "a.lisp") (old_str . "top") (new_str . "Top"))))
      (agent-q-test-files-write "a.lisp" (concat ";; top" middle "(defun a () 1)" middle
                                                 "(defstruct (b (:copier nil))" middle "  last)\n"))
      (let ((agent-q-test-files-answer nil))
        (agent-q-test-send "go")
        (agent-q-test-arm)
        (should (agent-q-test-shows "? insert_definition (setf c) in a.lisp +3 -0 waits"))
        (should (agent-q-test-shows "? edit_file b in a.lisp +1 -1 waits"))
        (while (agent-q-call-waiting)
          (agent-q-test-answer "y")
          (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))))
      (dolist (line '("edit_definition a in a.lisp \\+1 -1 ✓" "insert_definition (setf c) in a.lisp \\+3 -0 ✓"
                      "edit_file b in a.lisp \\+1 -1 ✓" "edit_file a.lisp \\+1 -1 ✓"))
        (should (string-match-p (concat "^▸ " line) (agent-q-test-log)))))))

(ert-deftest agent-q-edit-making-moving-and-deleting-and-undoing-it ()
  (agent-q-test-files-in-project
      '(("create_file" (path . "deep/er/n.txt") (content . "new\n"))
        ("move_file" (source . "a.txt") (destination . "deep/b.txt"))
        ("delete_file" (path . "c.bin")))
    (agent-q-test-files-write "a.txt" "a\n")
    (let ((coding-system-for-write 'no-conversion))
      (write-region "\0\377\1\0" nil (agent-q-test-files-path "c.bin") nil 'silent))
    (set-file-modes (agent-q-test-files-path "c.bin") #o640)
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "deep/er/n.txt") "new\n"))
    (with-current-buffer (find-file-noselect (agent-q-test-files-path "a.txt"))
      (insert "unsaved "))
    (agent-q-test-files-succeeds "Moved: a.txt → deep/b.txt")
    (with-current-buffer (get-file-buffer (agent-q-test-files-path "deep/b.txt"))
      (should (buffer-modified-p))
      (should (equal (buffer-string) "unsaved a\n")))
    (agent-q-test-files-succeeds "Deleted: c.bin")
    (should-not (file-exists-p (agent-q-test-files-path "c.bin")))
    (agent-q-test-files-undo)
    (should (equal (agent-q-test-files-bytes "c.bin") "\0\377\1\0"))
    (should (= (file-modes (agent-q-test-files-path "c.bin")) #o640))
    (agent-q-test-files-undo)
    (should (equal (agent-q-test-files-text "a.txt") "a\n"))
    (agent-q-test-files-undo)
    (should-not (file-exists-p (agent-q-test-files-path "deep/er/n.txt")))))

(ert-deftest agent-q-edit-no-place-to-write ()
  (when (= (user-uid) 0)
    (ert-skip "root may write to any file"))
  (agent-q-test-files-in-project
      '(("write_file" (path . "a.txt") (content . "x")))
    (set-file-modes (agent-q-test-files-write "a.txt" "a\n") #o400)
    (agent-q-test-files-fails "permission")
    (should (equal (agent-q-test-files-text "a.txt") "a\n"))))

(ert-deftest agent-q-edit-a-path-that-leads-elsewhere-meanwhile-asks-again ()
  (agent-q-test-files-in-project
      '(("write_file" (path . "dir/a.txt") (content . "agent\n")))
    (agent-q-test-files-write "dir/a.txt" "inside\n")
    (let* ((outside (file-name-as-directory
                     (make-temp-file (expand-file-name "outside" agent-q-test-directory)
                                     t)))
           (agent-q-test-files-answer "approved")
           (agent-q-test-files-before-answer
            (lambda ()
              (if (cdr agent-q-test-files-asked)
                  (setq agent-q-test-files-answer "denied")
                (delete-directory (agent-q-test-files-path "dir") t)
                (make-symbolic-link outside (agent-q-test-files-path "dir"))))))
      (write-region "outside\n" nil (expand-file-name "a.txt" outside) nil 'silent)
      (should (eq (car (agent-q-test-files-next)) :denied))
      (should (string-match-p "outside the project" (car agent-q-test-files-asked)))
      (should (equal (agent-q-test-files-text "dir/a.txt") "outside\n")))))

(ert-deftest agent-q-edit-several-calls-of-one-turn-are-undone-together ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2")))
    (let ((script (json-encode
                   '((turns . [((steps . [((tool_calls . [((name . "edit_file")
                                           (arguments (path . "a.txt") (old_str . "one")
                                                      (new_str . "1")))
                                          ((name . "edit_file")
                                           (arguments (path . "a.txt") (old_str . "two")
                                                      (new_str . "2")))
                                          ((name . "write_file")
                                           (arguments (path . "new.txt")
                                                      (content . "n\n")))]))]))
                               ((steps . [((text . "ok"))]))])))))
      (agent-q-test-with-model script
        (agent-q-test-with-chat
          (agent-q-test-files--listen)
          (agent-q-test-files-write "a.txt" "one\ntwo\n")
          (agent-q-test-files-next)
          (should (equal (agent-q-test-files-text "a.txt") "1\n2\n"))
          (should (equal (agent-q-test-files-text "new.txt") "n\n"))
          (should (string-match-p "Undone:\n- .*\n- .*" (agent-q-test-files-undo)))
          (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))
          (should-not (file-exists-p (agent-q-test-files-path "new.txt"))))))))

;;;; Several calls at once

(defun agent-q-edit-test--batch (&rest calls)
  "Return the script of a model that makes CALLS, lists of tool and arguments, at once."
  (json-encode
   `((turns . [((steps . [((tool_calls . ,(vconcat (mapcar (lambda (call)
                                                             `((name . ,(car call))
                                                               (arguments . ,(cdr call))))
                                                           calls))))]))
               ((steps . [((text . "ok"))]))]))))

(defun agent-q-edit-test--states ()
  "Return how the calls of the current chat ended, in their order."
  (let ((states nil))
    (maphash (lambda (_key call) (push (agent-q-call-state call) states)) agent-q-call-table)
    (nreverse states)))

(defmacro agent-q-edit-test--with-batch (calls &rest body)
  "Run BODY in a chat about a new project whose model makes CALLS at once."
  (declare (indent 1) (debug t))
  `(agent-q-test-files-in-project '(("list_buffers"))
     (agent-q-test-with-model (apply #'agent-q-edit-test--batch ,calls)
       (agent-q-test-with-chat
         (agent-q-test-files--listen)
         ,@body))))

(ert-deftest agent-q-edit-a-call-may-build-on-those-before-it ()
  (agent-q-edit-test--with-batch
      '(("edit_file" (path . "a.txt") (old_str . "one") (new_str . "two"))
        ("edit_file" (path . "a.txt") (old_str . "two") (new_str . "three"))
        ("move_file" (source . "a.txt") (destination . "deep/er/b.txt"))
        ("edit_file" (path . "deep/er/b.txt") (old_str . "three") (new_str . "four"))
        ("create_file" (path . "a.txt") (content . "new\n"))
        ;; Nothing before it can help.
        ("edit_file" (path . "gone.txt") (old_str . "x") (new_str . "y")))
    (agent-q-test-files-write "a.txt" "one\n")
    (agent-q-test-files-next)
    (should (equal (agent-q-edit-test--states)
                   '(succeeded succeeded succeeded succeeded succeeded failed)))
    (should (= 5 (length agent-q-test-files-asked)))
    (should (equal (agent-q-test-files-text "deep/er/b.txt") "four\n"))
    (should (equal (agent-q-test-files-text "a.txt") "new\n"))
    (should (string-match-p "Undone:\n- .*\n- .*\n- .*\n- .*" (agent-q-test-files-undo)))
    (should (equal (agent-q-test-files-text "a.txt") "one\n"))
    ;; The folders that were made go as well.
    (should-not (file-exists-p (agent-q-test-files-path "deep")))))

(ert-deftest agent-q-edit-undoing-saves-what-the-turn-had-saved ()
  (agent-q-edit-test--with-batch
      '(("edit_file" (path . "a.txt") (old_str . "one") (new_str . "two"))
        ("write_to_buffer" (buffer . "a.txt") (content . "more ") (position . 1)))
    (with-current-buffer (find-file-noselect (agent-q-test-files-write "a.txt" "one\n"))
      (with-current-buffer chat
        (agent-q-test-files-next)
        (should (equal (agent-q-edit-test--states) '(succeeded succeeded)))
        (should (equal (agent-q-test-files-text "a.txt") "two\n"))
        (should (string-match-p "Undone:\n- .*" (agent-q-test-files-undo))))
      (should (equal (buffer-string) "one\n"))
      (should-not (buffer-modified-p))
      (should (equal (agent-q-test-files-text "a.txt") "one\n")))))

;;;; Lisp

(ert-deftest agent-q-edit-lisp-stays-balanced ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.lisp") (old_str . "(b)") (new_str . "(b))"))
        ("edit_file" (path . "a.lisp") (old_str . "(b)") (new_str . "((b)"))
        ("edit_file" (path . "a.lisp") (old_str . "(b)")
         (new_str . "#\\( #\\\" #| ( |# |odd ( one| \"(\" ; (\n"))
        ("check_parens" (path . "a.lisp"))
        ("check_parens" (path . "bad.lisp")))
    (agent-q-test-files-write "a.lisp" "(defun a ()\n  (b))\n\n(defun c ())\n")
    (agent-q-test-files-write "bad.lisp" "(a\n  (b)\n")
    (agent-q-test-files-fails "line 2, column 7.*no opener")
    (should-not agent-q-test-files-asked)
    (agent-q-test-files-fails "opens at line 1, column 1.*new form seems to start at line 4, column 1")
    (should-not agent-q-test-files-asked)
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.lisp")
                   "(defun a ()\n  #\\( #\\\" #| ( |# |odd ( one| \"(\" ; (\n)\n\n(defun c ())\n"))
    (agent-q-test-files-succeeds "is balanced")
    (agent-q-test-files-succeeds "opens at line 1, column 1")))

(ert-deftest agent-q-edit-definitions ()
  (agent-q-test-files-in-project
      '(("edit_definition" (path . "a.lisp") (name . "area (square)")
         (new_source . "(defmethod area ((s square)) :λ)"))
        ("edit_definition" (path . "a.lisp") (name . "area") (new_source . "(x)"))
        ("edit_definition" (path . "a.lisp") (name . "nope") (new_source . "(x)"))
        ("edit_definition" (path . "a.lisp") (name . "foo") (new_source . "(defun foo ("))
        ("insert_definition" (path . "a.lisp") (source . "(defun new ())") (after . "foo"))
        ("insert_definition" (path . "a.lisp") (source . "(defun last-one ())")))
    (agent-q-test-files-write "a.lisp" "(defun foo () 1) ; é\n
(defmethod area ((s circle)) 1)\n(defmethod area ((s square)) 1)\n")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-fails "2 forms define area: .*area (circle) (line 3)")
    (agent-q-test-files-fails "defines nope.*defun foo (line 1)")
    (agent-q-test-files-fails "unbalanced")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.lisp") "(defun foo () 1) ; é\n
(defun new ())\n\n(defmethod area ((s circle)) 1)\n(defmethod area ((s square)) :λ)\n
(defun last-one ())\n"))))

(ert-deftest agent-q-edit-a-file-with-reader-macros-unless-it-gets-worse ()
  "What looks unbalanced already can be edited; what an edit breaks is refused."
  (agent-q-test-files-in-project
      '(("edit_file" (path . "rt.lisp") (old_str . "(defun after () 1)")
         (new_str . "(defun after () 2)"))
        ("edit_file" (path . "rt.lisp") (old_str . "(defun after () 2)")
         (new_str . "(defun after () 3"))
        ("edit_file" (path . "rt.lisp") (old_str . "(defun after () 2)")
         (new_str . "defun after () 3)"))
        ("edit_definition" (path . "rt.lisp") (name . "after") (new_source . "(defun after () 4)"))
        ("edit_definition" (path . "rt.lisp") (name . "after") (new_source . "(defun after (((("))
        ("edit_definition" (path . "rt.lisp") (name . "*x*")
         (new_source . "(defvar *x* #?/more ( here/)"))
        ("insert_definition" (path . "rt.lisp") (after . "*x*") (source . "(defun between ())"))
        ("insert_definition" (path . "rt.lisp") (source . "(defun last-one ())"))
        ("write_file" (path . "rt.lisp") (content . "(defvar *x* #?/fine/)\n")))
    (agent-q-test-files-write
     "rt.lisp" "(in-readtable :i)\n\n(defvar *x* #?/unbalanced ( here/)\n\n(defun after () 1)\n")
    (agent-q-test-files-succeeds "already unbalanced before the change.*opens at line 3, column 1")
    (agent-q-test-files-fails "unbalanced: 1 closing parenthesis is missing.*line 5, column 1")
    (agent-q-test-files-fails "unbalanced: the closing parenthesis at line 5, column 17")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-fails "unbalanced: 5 closing")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "rt.lisp")
                   "(in-readtable :i)\n\n(defvar *x* #?/more ( here/)\n\n(defun between ())\n
(defun after () 4)\n\n(defun last-one ())\n"))
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "rt.lisp") "(defvar *x* #?/fine/)\n"))))

(ert-deftest agent-q-edit-a-new-file-is-not-told-back ()
  (agent-q-test-files-in-project
      '(("write_file" (path . "a.txt") (content . "one\ntwo\n"))
        ("create_file" (path . "b/c.txt") (content . "one"))
        ("write_file" (path . "a.txt") (content . "one\n2\n")))
    (agent-q-test-files-succeeds "\\`Wrote a\\.txt: 2 lines\\.\\'")
    (agent-q-test-files-succeeds "\\`Created file b/c\\.txt: 1 line\\.\\'")
    (agent-q-test-files-succeeds "^-two\n\\+2$")))

;;;; Turns

(ert-deftest agent-q-edit-a-turn-is-shown-and-undone-but-not-the-users-changes ()
  (agent-q-test-files-in-project
      '(("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2"))
        ("edit_file" (path . "a.txt") (old_str . "2") (new_str . "3")))
    (agent-q-test-files-write "a.txt" "one\ntwo\n")
    (agent-q-test-files-succeeds)
    (save-window-excursion
      (agent-q-changes)
      (should (derived-mode-p 'diff-mode))
      ;; Colouring it starts no program, which may take minutes for a large text.
      (let ((started nil))
        (cl-letf (((symbol-function 'call-process)
                   (lambda (program &rest _) (push program started) 0)))
          (font-lock-ensure))
        (should-not started))
      (should (equal (buffer-substring-no-properties (point-min) (point-max))
                     "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")))
    (agent-q-test-files-undo)
    (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))
    (should (string-match-p "Nothing to undo" (agent-q-test-files-undo)))
    ;; The model does not know that its text is gone.
    (agent-q-test-files-fails "not found")
    (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))))

(ert-deftest agent-q-edit-undoing-leaves-what-the-user-changed ()
  (agent-q-test-files-in-project
      '(("write_file" (path . "a.txt") (content . "agent\n")))
    (agent-q-test-files-write "a.txt" "one\n")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-write "a.txt" "user\n")
    (should (string-match-p "changed since the turn" (agent-q-test-files-undo)))
    (should (equal (agent-q-test-files-text "a.txt") "user\n"))))

;;;; What is no definition

(defun agent-q-edit-test--edits (name text &rest sources)
  "Return calls that put each of SOURCES into the place of NAME in a file with TEXT."
  (seq-mapcat (lambda (source)
                `(("write_file" (path . "a.lisp") (content . ,text))
                  ("edit_definition" (path . "a.lisp") (name . ,name) (new_source . ,source))))
              sources))

(ert-deftest agent-q-edit-only-a-definition-takes-the-place-of-one ()
  (let ((text "(defun a () 1)\n\n(defun b (x) x)\n"))
    (agent-q-test-files-in-project
        (agent-q-edit-test--edits
         "b" text "" " ; only a comment" "b" "defun b (x) (list x)" "(defun b (x) (list x]))"
         "(list 1 2)" "```lisp\n(defun b (x) (list x))\n```" "(defun bb (x) x)"
         "(defmacro b (x) x)" "(defun a () 2)\n(defun b (x) 2)")
      (dolist (regexp '("has no form" "has no form" "outside of parentheses (b)"
                        "outside of parentheses (defun b (x) (list x))"
                        "The \\] at line 1, column 21 of the new text closes nothing"
                        "has no definition in it"))
        (agent-q-test-files-next)
        (agent-q-test-files-fails regexp)
        (should (equal (agent-q-test-files-text "a.lisp") text)))
      (agent-q-test-files-next)
      (agent-q-test-files-succeeds)
      (should (equal (agent-q-test-files-text "a.lisp")
                     "(defun a () 1)\n\n(defun b (x) (list x))\n"))
      (dolist (regexp '("^It was defun b; now it is defun bb\\." "^It was defun b; now it is defmacro b\\."
                        "^The file already had .*: defun a (line 1)\\."))
        (agent-q-test-files-next)
        (agent-q-test-files-succeeds regexp)))))

(ert-deftest agent-q-edit-what-is-inserted-is-told-by-its-names ()
  (agent-q-test-files-in-project
      (seq-mapcat (lambda (source)
                    `(("write_file" (path . "a.lisp") (content . "(defun a () 1)\n"))
                      ("insert_definition" (path . "a.lisp") (after . "a") (source . ,source))))
                  '("" "foo" "(defun a () 2)" "(in-package :cl-user)" "```\n(defun new ())\n```"))
    (dolist (regexp '("has no form" "outside of parentheses"))
      (agent-q-test-files-next)
      (agent-q-test-files-fails regexp))
    (dolist (regexp '("already had .*: defun a (line 1)" "^It has no definition in it"))
      (agent-q-test-files-next)
      (agent-q-test-files-succeeds regexp))
    (agent-q-test-files-next)
    (should-not (string-match-p "already" (agent-q-test-files-succeeds)))
    (should (equal (agent-q-test-files-text "a.lisp") "(defun a () 1)\n\n(defun new ())\n"))))

(ert-deftest agent-q-edit-what-is-inserted-stands-apart ()
  "A comment below stays with what it is about, and what is in a form gets its indentation."
  (agent-q-test-files-in-project
      '(("insert_definition" (path . "a.lisp") (after . "a") (source . "(defun new ())"))
        ("insert_definition" (path . "b.lisp") (after . "inner") (source . "(defun more ()\n  \"One\ntwo\"\n  2)"))
        ("edit_definition" (path . "b.lisp") (name . "inner") (new_source . "(defun inner ()\n  (list x))"))
        ("edit_definition" (path . "b.lisp") (name . "inner") (new_source . "(defun inner ()\n    (list x\n          x))")))
    (agent-q-test-files-write "a.lisp" "(defun a () 1)\n;; About b\n(defun b () 2)\n")
    (agent-q-test-files-write "b.lisp" "(let ((x 1))\n  (defun inner ()\n    x))\n")
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.lisp")
                   "(defun a () 1)\n\n(defun new ())\n\n;; About b\n(defun b () 2)\n"))
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "b.lisp")
                   "(let ((x 1))\n  (defun inner ()\n    x)\n\n  (defun more ()\n    \"One\ntwo\"\n    2))\n"))
    (agent-q-test-files-succeeds)
    (should (string-search "\n  (defun inner ()\n    (list x))\n" (agent-q-test-files-text "b.lisp")))
    (agent-q-test-files-succeeds)
    (should (string-search "\n  (defun inner ()\n    (list x\n          x))\n"
                           (agent-q-test-files-text "b.lisp")))))

(ert-deftest agent-q-edit-balanced-is-not-all ()
  "What is balanced and stands outside of the form it is in gets a word, once."
  (agent-q-test-files-in-project
      '(("edit_definition" (path . "a.lisp") (name . "a")
         (new_source . "(defun a (x)\n  (when x\n    (foo)\n  (bar)))"))
        ("edit_file" (path . "a.lisp") (old_str . "foo") (new_str . "fuu"))
        ("edit_definition" (path . "b.lisp") (name . "a")
         (new_source . "(defun a (x)\n  x\n\n(defun second-one () 1)\n)"))
        ("check_parens" (path . "c.lisp")))
    (agent-q-test-files-write "a.lisp" "(defun a (x) x)\n")
    (agent-q-test-files-write "b.lisp" "(defun a (x)\n  1)\n")
    (agent-q-test-files-write "c.lisp" "(defun a ()\n  \"Doc\n  1)\n\n(defun b ()\n  \"Doc\"\n  1)\n")
    (agent-q-test-files-succeeds "^It is balanced; but line 4, column 3 ((bar)))) is inside the form at line 2")
    (should-not (string-match-p "balanced" (agent-q-test-files-succeeds)))
    (agent-q-test-files-succeeds "line 4, column 1 ((defun second-one () 1)) is inside the form at line 1")
    (agent-q-test-files-succeeds "the one that starts at line 2, column 3 (.*looks like a new form")))

;;;;; Repairs

(defconst agent-q-edit-test--lost "(defun a (x)\n  (when x\n    (print x)\n  (list x))\n"
  "A definition without the parenthesis that closes its `when'.")

(defconst agent-q-edit-test--mended "(defun a (x)\n  (when x\n    (print x))\n  (list x))\n"
  "What it should be.")

(ert-deftest agent-q-edit-a-refused-change-is-repaired-on-request ()
  "The refusal names the repair; the next call makes the change with it, and is asked about."
  (agent-q-test-files-in-project
      `(("edit_definition" (path . "a.lisp") (name . "a") (new_source . ,agent-q-edit-test--lost))
        ("repair_parens" (path . "a.lisp"))
        ("write_file" (path . "new.lisp") (content . ,agent-q-edit-test--lost))
        ("repair_parens" (path . "new.lisp"))
        ("write_file" (path . "two.lisp") (content . "(defun a (x)\n  (foo (bar x)\n"))
        ("repair_parens" (path . "two.lisp")))
    (agent-q-test-files-write "a.lisp" "(defun a (x) x)\n\n(defun é ())\n")
    (agent-q-test-files-fails
     "unbalanced.*Exactly one repair fits.*put ) into line 3, which becomes: (print x))\nrepair_parens with this path")
    (should-not agent-q-test-files-asked)
    (agent-q-test-files-succeeds "Repaired a.lisp")
    (should agent-q-test-files-asked)
    (should (equal (agent-q-test-files-text "a.lisp")
                   (concat agent-q-edit-test--mended "\n(defun é ())\n")))
    (agent-q-test-files-fails "Exactly one repair")
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "new.lisp") agent-q-edit-test--mended))
    (should-not (string-match-p "repair" (agent-q-test-files-fails "unbalanced")))
    (agent-q-test-files-fails "No repair of the change that was refused fits .*: send it again .*two.lisp")))

(ert-deftest agent-q-edit-what-can-not-be-repaired-is-told-as-it-is ()
  "A file that is balanced isn't called so where a refused change, or a doubt, is what matters."
  (agent-q-test-files-in-project
      '(("edit_definition" (path . "a.lisp") (name . "a") (new_source . "(defun a (x)\n  (foo (bar x)\n"))
        ("repair_parens" (path . "a.lisp"))
        ("repair_parens" (path . "odd.lisp")))
    (agent-q-test-files-write "a.lisp" "(defun a (x) x)\n")
    (agent-q-test-files-write "odd.lisp" "(defun a (x)\n  (when x\n    (foo)\n (bar)))\n")
    (agent-q-test-files-fails "unbalanced")
    (agent-q-test-files-fails "No repair of the change that was refused fits .*'a.lisp' is balanced. Nothing was changed")
    (agent-q-test-files-fails "No repair of 'odd.lisp' fits .*: It is balanced; but line 4.* is inside the form at line [12].*Nothing was changed")))

(ert-deftest agent-q-edit-parens-are-checked-whatever-the-file-is-called ()
  "Both tools take a file whose name says nothing of Lisp."
  (agent-q-test-files-in-project
      '(("check_parens" (path . "script"))
        ("repair_parens" (path . "script"))
        ("check_parens" (path . "script")))
    (agent-q-test-files-write "script" agent-q-edit-test--lost)
    (agent-q-test-files-succeeds "is unbalanced.*Exactly one repair fits")
    (agent-q-test-files-succeeds)
    (agent-q-test-files-succeeds "is balanced")))

(ert-deftest agent-q-edit-a-broken-file-is-repaired ()
  "So is one that is balanced and yet not as it stands."
  (agent-q-test-files-in-project
      '(("check_parens" (path . "lost.lisp"))
        ("repair_parens" (path . "lost.lisp"))
        ("check_parens" (path . "swallowed.lisp"))
        ("repair_parens" (path . "swallowed.lisp"))
        ("repair_parens" (path . "unclear.lisp"))
        ("repair_parens" (path . "good.lisp"))
        ("repair_parens" (path . "other.el")))
    (agent-q-test-files-write "lost.lisp" (concat "(in-package :cl-user)\r\n" agent-q-edit-test--lost))
    (agent-q-test-files-write "swallowed.lisp"
                              "(defun a (x)\n  (list x)\n\n(defun b (y)\n  (print y)))\n")
    (agent-q-test-files-write "unclear.lisp" "(defun a (x)\n  (foo (bar x y))\n")
    (agent-q-test-files-write "good.lisp" agent-q-edit-test--mended)
    (agent-q-test-files-write "other.el" agent-q-edit-test--lost)
    (agent-q-test-files-succeeds "is unbalanced.*Exactly one repair fits.*line 4")
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "lost.lisp")
                   (concat "(in-package :cl-user)\r\n" agent-q-edit-test--mended)))
    (agent-q-test-files-succeeds "(defun b (y)).* is inside the form at line 1.*put ) into line 2.*take one ) out of line 5")
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "swallowed.lisp")
                   "(defun a (x)\n  (list x))\n\n(defun b (y)\n  (print y))\n"))
    (agent-q-test-files-fails "No repair .* more than one does: 1 closing")
    (agent-q-test-files-fails "is balanced. Nothing was changed")
    (agent-q-test-files-fails "No repair")
    (should (equal (agent-q-test-files-text "good.lisp") agent-q-edit-test--mended))))

(ert-deftest agent-q-edit-a-comment-at-the-end-swallows-nothing ()
  (pcase-dolist (`(,text ,name ,source ,after)
                 '(("(defun a () 1) (defun b () 2)\n" "a" "(defun a () 11) ; note"
                    "(defun a () 11) ; note\n(defun b () 2)\n")
                   ("(defun c () 3) ; after c\n" "c" "(defun c () 33) ; new"
                    "(defun c () 33) ; new\n; after c\n")
                   ("(progn\n  (defun d () 3))\n" "d" "(defun d () 4) ; (four"
                    "(progn\n  (defun d () 4) ; (four\n  )\n")
                   ("(defun e () 3)\n" "e" "(defun e () 4) ; four" "(defun e () 4) ; four\n")))
    (agent-q-test-files-in-project
        (agent-q-edit-test--edits name text source)
      (agent-q-test-files-next)
      (agent-q-test-files-succeeds)
      (should (equal (agent-q-test-files-text "a.lisp") after)))))

(ert-deftest agent-q-edit-a-broken-file-is-no-leave-to-break-it ()
  (agent-q-test-files-in-project
      '(("write_file" (path . "a.lisp") (content . "(defun one (x)\n  (list x)"))
        ("write_file" (path . "a.lisp") (content . "(defun one (x) x)\n\n(defun two () \"more)\n"))
        ("write_file" (path . "a.lisp") (content . "(defun one (x) x)\n")))
    (agent-q-test-files-write "a.lisp" "(defun one (x) x)\n(defun two () \"open)\n")
    (agent-q-test-files-fails "unbalanced: 1 closing parenthesis is missing.* line 1")
    ;; It may be a reader macro's, and then stays what it is.
    (agent-q-test-files-succeeds "already unbalanced")
    (agent-q-test-files-succeeds)))

(provide 'agent-q-edit-test)
;;; agent-q-edit-test.el ends here
