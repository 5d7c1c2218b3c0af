;;; agent-q-review-draft-test.el --- Tests of edits while they are written  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A model that stops in the middle of a call, and goes on when the test has looked.

;;; Code:

(require 'agent-q-test-files)
(require 'agent-q-review)
(require 'agent-q-review-draft)

(defconst agent-q-review-draft-test--old
  "(defun sum (list)\n  (let ((sum 0))\n    (dolist (x list)\n      (incf sum x))\n    sum))"
  "A definition.")

(defconst agent-q-review-draft-test--new
  (concat "(defun sum (list)\n  \"Return the sum of LIST.\"\n"
          "  (let ((sum 0))\n    (dolist (x list)\n      (setf sum (+ sum x)))\n"
          "    ;; Nothing more.  This is only here so that the lines above it are the first half.\n"
          "    sum))")
  "What the model makes of it.")

(defun agent-q-review-draft-test--file ()
  "Return the text of a file with the definition."
  (concat "(in-package :cl-user)\n\n" agent-q-review-draft-test--old "\n\n(defun other ())\n"))

(defmacro agent-q-review-draft-test--with (call &rest body)
  "Run BODY while the model is in the middle of CALL, with the chat in a window.
There, `go-on' lets it go on."
  (declare (indent 1) (debug t))
  `(let* ((agent-q-test-files-hold (make-temp-name (expand-file-name "hold" agent-q-test-directory)))
          (agent-q-test-files-answer nil)
          (agent-q-review-edits t))
     (cl-flet ((go-on () (write-region "" nil agent-q-test-files-hold nil 'silent)))
       (save-window-excursion
         (agent-q-test-files-in-project (list ,call)
           (delete-other-windows)
           (switch-to-buffer (current-buffer))
           (agent-q-test-files-write "a.lisp" (agent-q-review-draft-test--file))
           (unwind-protect
               (progn ,@body)
             (go-on)))))))

(defun agent-q-review-draft-test--buffer ()
  "Return the buffer that shows what is being written, once there is one."
  (let ((find (lambda ()
                (seq-find (lambda (buffer)
                            (eq 'agent-q-review-draft-mode
                                (buffer-local-value 'major-mode buffer)))
                          (buffer-list)))))
    (agent-q-test-until (funcall find))
    (funcall find)))

(defmacro agent-q-review-draft-test--definition ()
  "The call that writes the new definition."
  '`("edit_definition" (path . "a.lisp") (name . "sum")
     (new_source . ,agent-q-review-draft-test--new)))

(ert-deftest agent-q-diff-draft-is-shown-while-it-is-written-and-reviewed-there ()
  (agent-q-review-draft-test--with (agent-q-review-draft-test--definition)
    (find-file-noselect (agent-q-test-files-path "a.lisp"))
    (agent-q-test-send "go")
    (let ((draft (agent-q-review-draft-test--buffer))
          (window nil))
      (should (setq window (get-buffer-window draft)))
      (should (eq (selected-window) (get-buffer-window chat)))
      (should (string-match-p "Writing edit_definition" (agent-q-chat-view-header-line)))
      (should-not (agent-q-call-waiting))
      (with-current-buffer draft
        (should (equal (buffer-name) "*agent-q diff: a.lisp*"))
        (agent-q-test-until (agent-q-test-shows "+  \"Return the sum of LIST.\"\n"))
        ;; What has not come yet is not taken for removed.
        (should (agent-q-test-shows " (defun sum (list)\n"))
        (should (agent-q-test-shows "@@ -1,6 +1,7 @@"))
        (should-not (agent-q-test-shows "\n-  "))
        (should-not (agent-q-test-shows "apply"))
        (should (string-match-p "Being written: \\+1 -0" (eval (cadr header-line-format) t)))
        (should-error (agent-q-test-press "C-c C-c") :type 'user-error))
      (should (equal (agent-q-test-files-text "a.lisp") (agent-q-review-draft-test--file)))
      (go-on)
      (let ((call (agent-q-test-arm)))
        (should (eq draft (agent-q-call-review call)))
        (should (eq window (get-buffer-window draft)))
        (with-current-buffer draft
          (should (eq major-mode 'agent-q-review-mode))
          (should (agent-q-test-shows "-      (incf sum x))\n+      (setf sum (+ sum x)))\n"))
          (should (= (window-point window) (point)))
          ;; The key is for what is there now.
          (let ((agent-q-approval-gate-pause most-positive-fixnum))
            (should-error (agent-q-test-press "C-c C-c") :type 'user-error))
          (let ((agent-q-approval-gate-pause 0))
            (agent-q-test-press "C-c C-c")))
        (agent-q-test-until (agent-q-test-idle-p))
        (should-not (buffer-live-p draft))
        (should (= 1 (count-windows)))
        (should (string-search (concat agent-q-review-draft-test--new "\n")
                               (agent-q-test-files-text "a.lisp")))))))

(ert-deftest agent-q-diff-draft-looks-at-no-file-that-is-not-open ()
  "Where the edit belongs is known when it is complete."
  (agent-q-review-draft-test--with (agent-q-review-draft-test--definition)
    (agent-q-test-send "go")
    (let ((draft (agent-q-review-draft-test--buffer)))
      (with-current-buffer draft
        (agent-q-test-until (agent-q-test-shows "+  \"Return the sum of LIST.\"\n"))
        (should (agent-q-test-shows "\n+(defun sum (list)\n"))
        (should-not (agent-q-test-shows "in-package")))
      (go-on)
      (agent-q-test-arm)
      (with-current-buffer draft
        (should (eq major-mode 'agent-q-review-mode))
        (should (agent-q-test-shows "\n (defun sum (list)\n"))))))

(ert-deftest agent-q-diff-draft-of-a-remote-file-opens-no-connection ()
  (agent-q-review-draft-test--with
      `("write_file" (path . "/ssh:nowhere.invalid:/etc/motd")
        (content . ,(concat agent-q-review-draft-test--new agent-q-review-draft-test--new)))
    (let ((asked nil)
          (file-name-handler-alist
           (cons (cons "\\`/ssh:" (lambda (&rest arguments)
                                    (push arguments asked)
                                    (error "A connection was opened")))
                 file-name-handler-alist)))
      (agent-q-test-send "go")
      (with-current-buffer (agent-q-review-draft-test--buffer)
        (should (agent-q-test-shows "+++ /ssh:nowhere.invalid:/etc/motd\n"))
        (agent-q-test-until (agent-q-test-shows "+(defun sum (list)\n"))
        (should (equal (buffer-local-value 'default-directory chat) default-directory)))
      (should-not asked))))

(ert-deftest agent-q-diff-draft-of-an-edit-by-text-shows-what-is-replaced ()
  (agent-q-review-draft-test--with
      `("edit_file" (path . "a.lisp")
        (old_str . "    (dolist (x list)\n      (incf sum x))\n    sum))")
        (new_str . ,(concat "    (dolist (x list)\n      (incf sum (or x 0)))\n"
                            "    ;; A long line that fills the second half of the call: "
                            (make-string 200 ?.) "\n    sum))")))
    (find-file-noselect (agent-q-test-files-path "a.lisp"))
    (agent-q-test-send "go")
    (with-current-buffer (agent-q-review-draft-test--buffer)
      (agent-q-test-until
       (agent-q-test-shows
        "-      (incf sum x))\n+      (incf sum (or x 0)))\n     sum))\n")))))

(ert-deftest agent-q-diff-draft-that-breaks-off-goes-away ()
  "So does its window; whoever closes it is not shown it again."
  (dolist (leave (list (lambda (_draft) (agent-q-core-cancel agent-q-session-number))
                       (lambda (draft) (with-current-buffer draft (agent-q-test-press "C-c C-k")))))
    (agent-q-review-draft-test--with (agent-q-review-draft-test--definition)
      (agent-q-test-send "go")
      (let ((draft (agent-q-review-draft-test--buffer)))
        (should (= 2 (count-windows)))
        (funcall leave draft)
        (agent-q-test-until (agent-q-test-idle-p))
        (should-not (buffer-live-p draft))
        (should (= 1 (count-windows)))
        (should (agent-q-test-shows "Cancelled."))
        (should (equal (agent-q-test-files-text "a.lisp") (agent-q-review-draft-test--file)))))))

(ert-deftest agent-q-diff-draft-that-was-closed-stays-closed-until-its-review ()
  (agent-q-review-draft-test--with (agent-q-review-draft-test--definition)
    (agent-q-test-send "go")
    (let ((draft (agent-q-review-draft-test--buffer)))
      (kill-buffer draft)
      (go-on)
      (let ((review (agent-q-call-review (agent-q-test-arm))))
        (should-not (eq draft review))
        (with-current-buffer review
          (should (eq major-mode 'agent-q-review-mode)))))))

(ert-deftest agent-q-diff-draft-that-is-complete-at-once-is-not-shown ()
  "Its review was there before the draft was due."
  (agent-q-review-draft-test--with (agent-q-review-draft-test--definition)
    (go-on)
    (setq agent-q-review-draft--pause 3600)
    (agent-q-test-send "go")
    (let ((call (agent-q-test-arm)))
      (should (buffer-live-p (agent-q-call-review call)))
      (should-not agent-q-review-draft--timer)
      (should-not agent-q-review-draft--all)
      (agent-q-review-draft--show-all chat #'ignore)
      (should (eq 'agent-q-review-mode
                  (buffer-local-value 'major-mode (agent-q-call-review call)))))))

(ert-deftest agent-q-diff-draft-of-what-is-not-reviewed-is-not-shown ()
  "The chat's header says what is being written all the same."
  (let ((source "(progn\n"))
    (dotimes (number 40)
      (setq source (concat source (format "  (print %d)\n" number))))
    (agent-q-review-draft-test--with `("eval_form" (form . ,(concat source ")")))
      (agent-q-test-send "go")
      (agent-q-test-until (string-match-p "Writing eval_form, [12][0-9] lines"
                                          (agent-q-chat-view-header-line)))
      (should-not agent-q-review-draft--all)
      (should (= 1 (count-windows)))))
  (agent-q-review-draft-test--with (agent-q-review-draft-test--definition)
    (setq agent-q-review-edits nil)
    (agent-q-test-send "go")
    (agent-q-test-until (string-match-p "Writing edit_definition" (agent-q-chat-view-header-line)))
    (should-not agent-q-review-draft--all)))

(provide 'agent-q-review-draft-test)
;;; agent-q-review-draft-test.el ends here
