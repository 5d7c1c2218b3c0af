;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage "TOUR-BANK/TESTS"
  (:use "CL" "TOUR-BANK")
  #+sbcl (:import-from "SB-RT" "DEFTEST" "DO-TEST"))

(in-package "TOUR-BANK/TESTS")

;;; Other Lisps don't come with RT; this is as much of it as is needed here.
#-sbcl
(defmacro deftest (name form &rest values)
  `(setf (get ',name 'test)
         (lambda () (equal (multiple-value-list ,form) ',values))))

#-sbcl
(defun do-test (name)
  (if (funcall (get name 'test)) name (format t "~A failed.~%" name)))

(defun pair ()
  "Return the accounts of two people who have 5 each."
  (list (make-instance 'account :owner "Ann" :balance 5)
        (make-instance 'account :owner "Bob" :balance 5)))

(deftest moves-money
    (destructuring-bind (ann bob) (pair)
      (transfer ann bob 2)
      (values (balance ann) (balance bob)))
  3 7)

(deftest leaves-all-as-it-was-when-refused
    (destructuring-bind (ann bob) (pair)
      (ignore-errors (transfer ann bob 100))
      (values (balance ann) (balance bob)))
  5 5)

(defun run ()
  "Run the tests; signal an error if one fails."
  (unless (every #'identity
                 (mapcar #'do-test '(moves-money leaves-all-as-it-was-when-refused)))
    (error "A test failed.")))
