;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage :tokens-test
  (:use :cl :tokens)
  (:export #:run))

(in-package :tokens-test)

(defvar *failures* 0)

(defmacro check (form)
  `(unless ,form
     (incf *failures*)
     (format t "FAILED: ~S~%" ',form)))

(defun kinds (text)
  (mapcar #'first (tokenize text)))

(defun run ()
  (setf *failures* 0)
  (check (equal '((:name "a" 0) (:operator "+" 2) (:number 1 4)) (tokenize "a + 1")))
  (check (equal '((:string "hi" 0)) (tokenize "\"hi\"")))
  (check (equal '(:open :name :close) (kinds "(a)")))
  (check (equal '(:number) (kinds "1 ; 2")))
  (check (equal '(:number :number) (kinds "1 #| 2 |# 3")))
  (check (= 2.5d0 (second (first (tokenize "2.5")))))
  (unless (zerop *failures*)
    (error "~D checks failed" *failures*))
  (format t "All tests passed.~%"))
