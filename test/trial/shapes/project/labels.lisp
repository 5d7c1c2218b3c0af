;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Shapes with a label.

(in-package :shapes)

(defclass labelled (shape)
  ((label :initarg :label :reader label)))

(defclass labelled-square (square labelled) ())

(defclass labelled-circle (labelled circle) ())

(defmethod describe-shape ((shape labelled))
  (format nil "~A: ~A" (label shape) (call-next-method)))

(defmethod describe-shape ((shape labelled-circle))
  (format nil "~A: ~A" (label shape) (call-next-method)))
