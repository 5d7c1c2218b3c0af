;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Shapes, their areas, and how they are described.

(in-package :shapes)

(defclass shape () ())

(defclass square (shape)
  ((side :initarg :side :reader side)))

(defclass circle (shape)
  ((radius :initarg :radius :reader radius)))

(defgeneric area (shape)
  (:documentation "The area of SHAPE; that of a circle is rounded."))

(defmethod area ((shape square))
  (* (side shape) (side shape)))

(defmethod area ((shape circle))
  (round (* pi (radius shape) (radius shape))))

(defgeneric scale (shape factor)
  (:documentation "Return a shape like SHAPE, FACTOR times as wide; SHAPE stays as it is."))

(defmethod scale ((shape square) factor)
  (make-instance 'square :side (* factor (side shape))))

(defmethod scale ((shape circle) factor)
  (make-instance 'circle :radius (* factor (radius shape))))

(defgeneric describe-shape (shape)
  (:documentation "Return a text on SHAPE."))

(defmethod describe-shape ((shape square))
  (format nil "square of ~D" (area shape)))

(defmethod describe-shape ((shape circle))
  (format nil "circle of ~D" (area shape)))
