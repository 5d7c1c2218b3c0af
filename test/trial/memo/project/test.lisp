;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage :memo-test
  (:use :cl :memo)
  (:export #:run))

(in-package :memo-test)

(define-memoized square (number)
  (* number number))

(defun run ()
  (assert (= 9 (square 3)))
  (assert (= 9 (square 3)))
  (assert (= 16 (square 4)))
  (format t "All tests passed.~%"))
