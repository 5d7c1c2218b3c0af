;;; agent-q-space-test.el --- Tools on a disk that is full  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A tiny file system in a name space of its own, where a second Emacs runs
;; these tests; a system that allows none skips them.

;;; Code:

(require 'agent-q-test-files)

(defvar agent-q-space-test--disk (getenv "AGENT_Q_TINY_DISK")
  "Where the tiny file system is mounted; nil outside of it.")

(defconst agent-q-space-test--much (make-string 200000 ?x)
  "More than what is free there.")

(defun agent-q-space-test--fill (left)
  "Fill the disk until about LEFT bytes are free."
  (let ((free (nth 2 (file-system-info agent-q-space-test--disk)))
        (coding-system-for-write 'no-conversion))
    (write-region (make-string (max 0 (- free left)) ?f) nil
                  (make-temp-file (expand-file-name "fill" agent-q-space-test--disk))
                  nil 'silent)))

(defun agent-q-space-test--names ()
  "Return the names of all that is in the project."
  (sort (directory-files-recursively agent-q-test-files-root "" t) #'string<))

(defmacro agent-q-space-test--with-full-disk (calls &rest body)
  "Run BODY where CALLS are made in a project on a disk that is nearly full.
Its file a.txt is small."
  (declare (indent 1) (debug t))
  `(let ((agent-q-test-files-home (file-name-as-directory agent-q-space-test--disk)))
     (agent-q-test-files-in-project ,calls
       (agent-q-test-files-write "a.txt" "one\ntwo\n")
       (agent-q-space-test--fill 50000)
       (let ((names (agent-q-space-test--names)))
         (unwind-protect
             (progn ,@body)
           (mapc #'delete-file
                 (directory-files agent-q-space-test--disk t "\\`fill")))
         (should (equal names (agent-q-space-test--names)))))))

(defmacro agent-q-space-test--define (name arguments &rest body)
  "Define the test NAME with ARGUMENTS and BODY, where there is a tiny disk."
  (declare (indent defun) (debug t))
  `(when agent-q-space-test--disk
     (ert-deftest ,(intern (format "agent-q-space-%s" name)) ,arguments ,@body)))

(ert-deftest agent-q-space-in-a-tiny-disk ()
  "Run the other tests of this file in an Emacs that has such a disk."
  (when agent-q-space-test--disk
    (ert-skip "This is that Emacs"))
  (let* ((directory (make-temp-file (expand-file-name "disk" agent-q-test-directory) t))
         (inside (format "mount -t tmpfs -o size=400k none %s" (shell-quote-argument directory))))
    (unless (eq 0 (ignore-errors (call-process "unshare" nil nil nil "-Urm" "sh" "-c" inside)))
      (ert-skip "No file system can be mounted in a name space here (unshare -Urm)"))
    (with-temp-buffer
      (let* ((process-environment (append (list (concat "AGENT_Q_TINY_DISK=" directory)
                                                "AGENT_Q_COUNTS" "AGENT_Q_TEST_SELECTOR")
                                          process-environment))
             (status (call-process
                      "unshare" nil t nil "-Urm" "sh" "-c"
                      (concat inside " && exec \"$@\"") "sh"
                      (expand-file-name invocation-name invocation-directory)
                      "-Q" "--batch" "-l"
                      (expand-file-name "test/support/run-ert.el" agent-q-test-root)
                      (expand-file-name "test/agent-q-space-test.el" agent-q-test-root))))
        (unless (eq status 0)
          (ert-fail (list "In the tiny disk" status
                          (buffer-substring (max (point-min) (- (point-max) 2000)) (point-max)))))
        (should (string-match-p "Ran 6 tests, 5 results as expected, 0 unexpected, 1 skipped"
                                (buffer-string)))))))

(agent-q-space-test--define a-file-is-whole-or-as-it-was ()
  (agent-q-space-test--with-full-disk
      `(("write_file" (path . "a.txt") (content . ,agent-q-space-test--much))
        ("edit_file" (path . "a.txt") (old_str . "two") (new_str . ,agent-q-space-test--much))
        ("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2")))
    (agent-q-test-files-fails "no space .*; nothing was changed")
    (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))
    (agent-q-test-files-fails "no space .*; nothing was changed")
    (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))
    ;; What fits is written all the same.
    (agent-q-test-files-succeeds)
    (should (equal (agent-q-test-files-text "a.txt") "one\n2\n"))))

(agent-q-space-test--define a-new-file-leaves-nothing-behind ()
  (agent-q-space-test--with-full-disk
      `(("create_file" (path . "new/deep/b.txt") (content . ,agent-q-space-test--much)))
    (agent-q-test-files-fails "no space .*; nothing was changed")
    (should-not (file-exists-p (agent-q-test-files-path "new")))))

(agent-q-space-test--define a-visited-file-is-not-touched ()
  (agent-q-space-test--with-full-disk
      `(("edit_file" (path . "a.txt") (old_str . "two") (new_str . ,agent-q-space-test--much)))
    (let ((visiting (find-file-noselect (agent-q-test-files-path "a.txt")))
          (make-backup-files nil))
      (agent-q-test-files-fails "could not be changed and saved (.*No space left on device.*nothing was changed")
      (with-current-buffer visiting
        (should (equal (buffer-string) "one\ntwo\n"))
        (should-not (buffer-modified-p))
        (should (verify-visited-file-modtime)))
      (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n")))))

(agent-q-space-test--define a-disk-that-fills-up-while-it-is-saved-costs-nothing ()
  (agent-q-space-test--with-full-disk
      (make-list 2 `("edit_file" (path . "a.txt") (old_str . "two")
                     (new_str . ,(make-string 30000 ?y))))
    (let ((visiting (find-file-noselect (agent-q-test-files-path "a.txt"))))
      (with-current-buffer visiting
        (add-hook 'before-save-hook (lambda () (agent-q-space-test--fill 4096)) nil t))
      (dolist (make-backup-files '(nil t))
        (agent-q-test-files-fails "could not be changed and saved (.*No space left on device")
        (with-current-buffer visiting
          (should (equal (buffer-string) "one\ntwo\n"))
          (should-not (buffer-modified-p)))
        (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))
        (mapc #'delete-file (directory-files agent-q-space-test--disk t "\\`fill"))
        (agent-q-space-test--fill 50000)))))

(agent-q-space-test--define no-byte-left-is-no-byte-lost ()
  (agent-q-space-test--with-full-disk
      `(("edit_file" (path . "a.txt") (old_str . "two") (new_str . "2")))
    ;; Nothing can be saved at all.
    (agent-q-space-test--fill 0)
    (agent-q-test-files-fails "no space .*; nothing was changed")
    (should (equal (agent-q-test-files-text "a.txt") "one\ntwo\n"))))

(provide 'agent-q-space-test)
;;; agent-q-space-test.el ends here
