;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; A ledger of what people owe each other. Amounts are in cents.

(defpackage :ledger
  (:use :cl)
  (:export #:ledger #:make-ledger #:pay #:balance #:balances #:split-amount #:share-bill))

(in-package :ledger)

(defclass ledger ()
  ((balances :initform (make-hash-table :test #'equal) :reader balances)))

(defun make-ledger ()
  (make-instance 'ledger))

(defun balance (ledger person)
  "What PERSON has to get; negative, if they owe it."
  (gethash person (balances ledger) 0))

(defun pay (ledger from to amount)
  "Note that FROM paid AMOUNT for TO."
  (incf (gethash from (balances ledger) 0) amount)
  (decf (gethash to (balances ledger) 0) amount)
  ledger)

(defun split-amount (amount people)
  "Return the shares of AMOUNT for PEOPLE, a number, as a list."
  (let ((share (floor amount people)))
    (loop repeat people collect share)))

(defun share-bill (ledger payer people amount)
  "Note that PAYER paid a bill of AMOUNT for PEOPLE, a list of names."
  (loop for person in people
        for share in (split-amount amount (length people))
        unless (equal person payer)
          do (pay ledger payer person share))
  ledger)
