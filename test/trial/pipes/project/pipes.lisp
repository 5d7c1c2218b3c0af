;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Pipes: a value goes through forms, one after the other.

(defpackage :pipes
  (:use :cl)
  (:export #:pipe #:<> #:growth #:margin #:summary))

(in-package :pipes)

(eval-when (:compile-toplevel :load-toplevel :execute)
  (defun through (value form)
    "Return FORM with VALUE in its place, which <> marks, or else put in."
    (cond ((atom form) (list form value))
          ((member '<> form) (substitute value '<> form))
          (t (append form (list value))))))

(defmacro pipe (value &rest forms)
  "VALUE, put through each of FORMS: functions' names, or calls that lack an argument.
It is the first argument, unless <> marks another place."
  (reduce #'through forms :initial-value value))
