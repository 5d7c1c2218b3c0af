;;; edit-bench.el --- What follows an edit, in batch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An edit of a definition that takes the compiler a while, with what the compiler
;; says of it, beside compile_file of the same definition; and which of 300 tests
;; reach what was changed.  AGENT_Q_BENCH is sly or slime.

;;; Code:

(require 'image-bench)

(declare-function agent-q-chat-open "agent-q-chat")
(defvar agent-q-eval-policy)
(defvar agent-q-project-root)
(defvar agent-q-tool-levels)

(defun edit-bench--write (directory name &rest parts)
  "Write PARTS to the file NAME in DIRECTORY."
  (with-temp-file (expand-file-name name directory)
    (apply #'insert parts)))

(defun edit-bench--project ()
  "Make a project, with a long definition and 300 tests; return its directory."
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
                                    (format "    (when (and (= number %d) (find #\\%c text)) (setf version (list (search \"%c\" text) (subseq text 0 %d) (mapcar #'1+ (list number %d)) (format nil \"~a ~r\" number text))))\n"
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

(defun edit-bench--seconds (start)
  "Call START, which starts a call that ends in `image-bench--end'.
Return how many seconds it took.  Edits need Emacs's timers, which run while
Emacs waits but don't end the waiting; so it is short."
  (setq image-bench--over nil)
  (let* ((began (float-time))
         (deadline (+ began 120)))
    (funcall start)
    (while (not image-bench--over)
      (when (> (float-time) deadline)
        (error "Waited in vain for an edit"))
      (accept-process-output nil 0.001))
    (- image-bench--over began)))

(defun edit-bench--sample (what start)
  "Measure a call that START starts as a sample of WHAT."
  (agent-q-bench-sample (image-bench-name what) (edit-bench--seconds start)))

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
      (edit-bench--seconds #'edit)
      (dotimes (_ 12)
        (edit-bench--sample "edit.compiled" #'edit)
        (edit-bench--sample "edit.compile" #'compile))
      (edit-bench--seconds #'affected)
      (dotimes (_ 10)
        (edit-bench--sample "edit.affected" #'affected)))))

(defun edit-bench-main ()
  "Measure in this batch Emacs."
  (agent-q-bench-guard
    (image-bench-connect)
    ;; Nobody is asked.
    (setq agent-q-eval-policy 'never-ask
          agent-q-tool-levels (mapcar (lambda (tool) (cons tool :cautious))
                                      '("edit_definition" "load_system" "run_tests")))
    (agent-q-bench-serve '(((text . "Yes"))))
    (let* ((directory (edit-bench--project))
           (default-directory directory)
           (agent-q-project-root directory)
           (chat (agent-q-bench-chat)))
      (with-current-buffer chat
        (setq agent-q-session-connection image-bench--connection))
      (edit-bench--seconds (lambda () (image-bench--console chat "/load_system edit")))
      (edit-bench--seconds (lambda () (image-bench--console chat "/run_tests affected=true")))
      (edit-bench--edits chat)
      (kill-buffer chat))
    (agent-q-bench-end)))

(provide 'edit-bench)
;;; edit-bench.el ends here
