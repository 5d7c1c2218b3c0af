;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Loaded by a fresh Lisp before the check of a task: says by the last line how many checks hold.
;;; The directory it runs in is the project.

(require :asdf)

(defpackage :trial
  (:use :cl)
  (:export #:load-project #:check #:check-error #:evaluate #:within #:tests-pass-p #:report))

(in-package :trial)

(defvar *held* 0)
(defvar *checks* 0)
(defvar *directory* (uiop:getcwd))

(defun load-project (system)
  "Load SYSTEM from its files, without output."
  (asdf:load-asd (merge-pathnames (format nil "~A.asd" system) *directory*))
  (let ((*standard-output* (make-broadcast-stream)) (*error-output* (make-broadcast-stream)))
    (handler-bind ((warning #'muffle-warning))
      (asdf:load-system system :force t))))

(defun call-with-result (form function)
  "Count FORM as one that holds if FUNCTION returns true, and signals nothing."
  (incf *checks*)
  (if (handler-case (funcall function) (serious-condition () nil))
      (incf *held*)
      (format t "Does not hold: ~S~%" form)))

(defmacro check (form)
  "Count whether FORM is true."
  `(call-with-result ',form (lambda () ,form)))

(defmacro check-error (form)
  "Count whether FORM signals an error of the program's own, with a message."
  `(call-with-result '(error ,form)
                     (lambda ()
                       (handler-case (progn ,form nil)
                         (arithmetic-error () nil)
                         (type-error () nil)
                         (error (condition) (plusp (length (princ-to-string condition))))))))

(defun evaluate (text package)
  "Evaluate TEXT, read in PACKAGE."
  (let ((*package* (find-package package)))
    (handler-bind ((warning #'muffle-warning))
      (eval (read-from-string text)))))

(defmacro within (seconds form)
  "Return the values of FORM; an error when it takes longer than SECONDS."
  `(sb-ext:with-timeout ,seconds ,form))

(defun tests-pass-p (system)
  "Whether the tests of SYSTEM, with those that were added, pass."
  (let ((*standard-output* (make-broadcast-stream)) (*error-output* (make-broadcast-stream)))
    (handler-bind ((warning #'muffle-warning))
      (asdf:test-system system))
    t))

(defun report ()
  (format t "~D of ~D checks hold~%" *held* *checks*))
