;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage :pipes-test
  (:use :cl :pipes)
  (:export #:run))

(in-package :pipes-test)

(defvar *doubled* (pipe 4 (* 2)))

(defun run ()
  (assert (= 8 *doubled*))
  (assert (= -3 (pipe 5 (- 2 <>))))
  (assert (equal '(1) (pipe 1 list)))
  (format t "All tests passed.~%"))
