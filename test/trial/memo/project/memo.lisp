;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Functions that remember what they returned.

(defpackage :memo
  (:use :cl)
  (:export #:define-memoized #:misses #:forget))

(in-package :memo)

(defvar *caches* (make-hash-table)
  "The cache of each memoized function, by its name.")

(defvar *misses* (make-hash-table)
  "How often each memoized function was computed, by its name.")

(defun cache (name)
  "Return the cache of the function NAME, which is made if it isn't there."
  (or (gethash name *caches*)
      (setf (gethash name *caches*) (make-hash-table))))

(defun misses (name)
  "How often the function NAME was computed since its cache was empty."
  (gethash name *misses* 0))

(defun forget (name)
  "Empty the cache of the function NAME."
  (clrhash *caches*)
  name)

(defun look-up (name arguments function)
  "Return what FUNCTION returns for ARGUMENTS, from the cache of NAME where it is in there."
  (or (gethash arguments (cache name))
      (setf (gethash name *misses*) (1+ (misses name))
            (gethash arguments (cache name)) (apply function arguments))))

(defmacro define-memoized (name parameters &body body)
  "Define the function NAME of PARAMETERS, all required ones, with a cache."
  `(defun ,name ,parameters
     (look-up ',name (list ,@parameters) (lambda ,parameters ,@body))))
