;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Objects that were shown, kept under short names such as v7, to be inspected or used in forms
;;; later. Only the latest are kept, so that the table doesn't hold on to the program's memory
;;; forever.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *handle-limit* 256
  "How many objects to keep.")

(defvar *handles* '()
  "The kept objects as pairs of a number and the object, newest first.")

(defvar *last-handle* 0)

(defun handle-of (object)
  "The handle of OBJECT, under which it is kept from now on."
  (call-with-lock
   (lambda ()
     (let ((known (rassoc object *handles* :test #'eq)))
       (unless known
         (setf known (cons (incf *last-handle*) object)
               *handles* (cons known *handles*))
         (let ((last (nthcdr (1- *handle-limit*) *handles*)))
           (when last
             (mapc #'forget-handle-variables (mapcar #'car (cdr last)))
             (setf (cdr last) '()))))
       (format nil "v~D" (car known))))))

(defun handle-object (handle)
  "The object with HANDLE."
  (let* ((text (string-left-trim "$vV" (string-trim "[]" (trimmed handle))))
         (number (and (string/= text "") (every #'digit-char-p text) (parse-integer text)))
         (entry (assoc number *handles*))
         (handle (if number (format nil "v~D" number) handle)))
    (cond (entry (cdr entry))
          ((null number)
           (missed "~S is not a handle. Handles look like v7; eval_form shows them after its values."
                   handle))
          ((null *handles*)
           (missed "No object ~A. eval_form gives handles to the objects it returns."
                   handle))
          (t (missed "No object ~A: only v~D to v~D are kept. Evaluate the form again for a new handle."
                     handle (car (first (last *handles*))) *last-handle*)))))

(defun whole-p (object text)
  "Whether TEXT, the printed OBJECT, shows all of it."
  (or (typep object '(or number character symbol string package pathname))
      (not (or (typep object '(or structure-object standard-object condition hash-table function))
               (search "#<" text)
               (search "#S(" text)
               (search "..." text)))))

(defun handle-beyond (object text)
  "A handle for OBJECT if there is more to it than the printed TEXT, or NIL."
  (unless (whole-p object text)
    (handle-of object)))
