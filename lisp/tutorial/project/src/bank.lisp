;;; SPDX-License-Identifier: GPL-3.0-or-later

(in-package "TOUR-BANK")

(defclass account ()
  ((owner :initarg :owner :reader owner)
   (balance :initarg :balance :initform 0 :accessor balance)))

(defmethod print-object ((account account) stream)
  (print-unreadable-object (account stream :type t)
    (format stream "~A ~D" (owner account) (balance account))))

(defvar *ann* (make-instance 'account :owner "Ann" :balance 5))
(defvar *bob* (make-instance 'account :owner "Bob" :balance 5))

(defun deposit (account amount)
  "Put AMOUNT into ACCOUNT."
  (incf (balance account) amount))

(defun withdraw (account amount)
  "Take AMOUNT out of ACCOUNT."
  (when (> amount (balance account))
    (error "~A has only ~D." (owner account) (balance account)))
  (decf (balance account) amount))

(defun statement (account)
  "Return a line about ACCOUNT."
  (format nil "~A has ~D." (owner account) (balance account)))

(defun write-statement (account file)
  "Write a line about ACCOUNT to FILE."
  (with-open-file (stream file :direction :output :if-exists :supersede)
    (write-line (statement account) stream))
  file)

(defun transfer (from to amount)
  "Move AMOUNT from one account to another."
  (deposit to amount)
  (withdraw from amount)
  (list from to))
