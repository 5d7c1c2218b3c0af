;;; edit-bench.el --- What follows an edit, in batch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An edit of a definition that takes the compiler a while, with what the compiler
;; says of it, beside compile_file of the same definition; and which of 300 tests
;; reach what was changed.  AGENT_Q_BENCH is sly or slime.

;;; Code:

(require 'image-bench)

(declare-function agent-q-chat-open "agent-q-chat")
(defvar agent-q-compile-after-edit)
(defvar agent-q-project-root)

(defun edit-bench--write (directory name &rest parts)
  "Write PARTS to the file NAME in DIRECTORY."
  (with-temp-file (expand-file-name name directory)
    (apply #'insert parts)))

(defun edit-bench--project ()
  "Make a project with a long definition, 600 functions and 300 tests; return its directory."
  (let ((directory (file-name-as-directory
                    (file-truename (make-temp-file (expand-file-name "edit" agent-q-bench-scratch) t)))))
    (edit-bench--write directory "edit.asd"
                       "(defsystem \"edit\" :serial t :depends-on (\"sb-rt\")
  :components ((:file \"long\") (:file \"code\") (:file \"tests\")))\n")
    (edit-bench--write directory "long.lisp" "(defpackage :edit-bench (:use :cl)) (in-package :edit-bench)
(defun long (text number)
  (declare (type string text) (type fixnum number))
  (let ((version 0))\n"
                       (mapconcat (lambda (i)
                                    (format "    (when (and (= number %d) (find #\\%c text)) (setf version (list (position #\\%c text) (subseq text 0 %d) (mapcar #'1+ (loop for i below %d collect i)))))\n"
                                            i (+ ?a (% i 26)) (+ ?a (% i 26)) (% i 5) i))
                                  (number-sequence 1 100) "")
                       "    version))\n")
    (edit-bench--write directory "code.lisp" "(in-package :edit-bench)\n"
                       (mapconcat (lambda (i)
                                    (format "(defun f-%d (x) (if (plusp x) (f-%d (1- x)) %s))\n" i
                                            (min 599 (+ i 7))
                                            (if (zerop (% i 3)) "(format nil \"~a\" x)" "(list x x)")))
                                  (number-sequence 0 599) ""))
    (edit-bench--write directory "tests.lisp" "(in-package :edit-bench)\n"
                       (mapconcat (lambda (i)
                                    (format "(sb-rt:deftest t-%d (listp (f-%d 0)) %s)\n" i i
                                            (if (zerop (% i 3)) "nil" "t")))
                                  (number-sequence 0 299) ""))
    directory))

(defun edit-bench--approve (event)
  "Approve what EVENT asks about."
  (when (eq :approval (plist-get event :type))
    (agent-q-core-decide (plist-get event :call) "approved" nil)))

(defun edit-bench--edits (chat)
  "Measure in CHAT an edit that is compiled, and compiling alone, in turns."
  (let ((count 0))
    (cl-flet ((edit ()
                (setq count (1+ count))
                (image-bench--console
                 chat (format "/edit_definition path=long.lisp name=long old_text=\"version %d\" version %d"
                              (1- count) count)))
              (compile () (image-bench--console chat "/compile_file path=long.lisp name=long"))
              (affected () (image-bench--console chat "/run_tests affected=true")))
      (image-bench--seconds #'edit)
      (dotimes (_ 12)
        (image-bench--sample "edit.compiled" #'edit)
        (image-bench--sample "edit.compile" #'compile))
      (image-bench--seconds #'affected)
      (dotimes (_ 10)
        (image-bench--sample "edit.affected" #'affected)))))

(defun edit-bench-main ()
  "Measure in this batch Emacs."
  (agent-q-bench-guard
    (image-bench-connect)
    (agent-q-bench-serve '(((text . "Yes"))))
    (let* ((directory (edit-bench--project))
           (default-directory directory)
           (agent-q-project-root directory)
           (chat (agent-q-bench-chat)))
      (with-current-buffer chat
        (setq agent-q-session-connection image-bench--connection))
      (advice-add 'agent-q-events-dispatch :after #'edit-bench--approve)
      (image-bench--seconds (lambda () (image-bench--console chat "/load_system edit")))
      (image-bench--seconds (lambda () (image-bench--console chat "/run_tests affected=true")))
      (edit-bench--edits chat)
      (kill-buffer chat))
    (agent-q-bench-end)))

(provide 'edit-bench)
;;; edit-bench.el ends here
