;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage :shapes-test
  (:use :cl :shapes)
  (:export #:run))

(in-package :shapes-test)

(defun run ()
  (assert (equal (describe-shape (make-instance 'square :side 3)) "square of 9"))
  (assert (equal (describe-shape (make-instance 'circle :radius 1)) "circle of 3"))
  (assert (= 4 (side (scale (make-instance 'square :side 2) 2))))
  (format t "All tests passed.~%"))
