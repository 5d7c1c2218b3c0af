;;; SPDX-License-Identifier: GPL-3.0-or-later

(defpackage :ledger-test
  (:use :cl :ledger)
  (:export #:run))

(in-package :ledger-test)

(defun run ()
  (assert (equal (split-amount 900 3) '(300 300 300)))
  (assert (equal (split-amount 0 2) '(0 0)))
  (let ((ledger (make-ledger)))
    (share-bill ledger "ada" '("ada" "bob" "eve") 900)
    (assert (= (balance ledger "ada") 600))
    (assert (= (balance ledger "bob") -300)))
  (format t "All tests passed.~%"))
