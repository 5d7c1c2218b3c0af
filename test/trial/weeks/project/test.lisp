;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage :weeks-test
  (:use :cl :weeks)
  (:export #:run))

(in-package :weeks-test)

(defun run ()
  (assert (= 60 (day-of-year 2023 3 1)))
  (assert (= 61 (day-of-year 2024 3 1)))
  (assert (= 5 (day-of-week 2026 11 27)))
  (assert (= 48 (week-of 2026 11 27)))
  (format t "All tests passed.~%"))
