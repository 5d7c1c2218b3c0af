;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Days of the Gregorian calendar.

(defpackage :weeks
  (:use :cl)
  (:export #:leap-year-p #:day-of-year #:day-of-week #:week-of))

(in-package :weeks)

(declaim (inline leap-year-p))
(defun leap-year-p (year)
  (and (zerop (mod year 4))
       (or (plusp (mod year 100))
           (zerop (mod year 400)))))

(defun day-of-year (year month day)
  "The number of a day in its year, from 1."
  (+ day
     (nth (1- month) '(0 31 59 90 120 151 181 212 243 273 304 334))
     (if (and (leap-year-p year) (> month 2)) 1 0)))

(defun days-before-year (year)
  "The days from the beginning of the year 1 to that of YEAR."
  (let ((years (1- year)))
    (+ (* 365 years) (floor years 4) (- (floor years 100)) (floor years 400)
       (if (leap-year-p year) 1 0))))

(defun day-of-week (year month day)
  "1 for a Monday to 7 for a Sunday."
  (1+ (mod (+ (days-before-year year) (day-of-year year month day)
              (if (and (leap-year-p year) (> month 2)) -1 0)
              -1)
           7)))
