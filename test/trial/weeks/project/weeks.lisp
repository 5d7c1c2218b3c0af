;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Weeks, counted as ISO 8601 does: the first one of a year is that with its first Thursday.

(in-package :weeks)

(defun week-of (year month day)
  "Return the week that a day is in, and the year which that week belongs to."
  (let ((thursday (+ (day-of-year year month day)
                     (- 4 (day-of-week year month day)))))
    (values (ceiling thursday 7) year)))
