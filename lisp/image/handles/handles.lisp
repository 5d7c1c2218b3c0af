;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Objects that were shown, kept under short names such as v7, to be inspected or used in forms
;;; later; in a second Lisp such as s7, so that nothing takes the one for the other. Only the latest are kept, so that the table doesn't hold on to the program's memory
;;; forever.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *handle-limit* 256
  "How many objects to keep.")

(defvar *handles* '()
  "The kept objects as pairs of a number and the object, newest first.")

(defun second-lisp-base ()
  "After which number the handles of this image start, if Emacs has said that it is a second Lisp; NIL
in the user's. Those of an earlier second Lisp have other numbers."
  (get :agent-q-second-lisp :handles))

(defvar *last-handle* 0)

(defun handle-name (number)
  "The name of the handle NUMBER of this image."
  (format nil "~:[v~;s~]~D" (second-lisp-base) number))

(defun own-handle (name)
  "The number of the handle NAME, such as v7, if this image can have such a one; NIL if it is of another."
  (and (char-equal (char name 0) (char (handle-name 0) 0))
       (parse-integer name :start 1)))

(defun handle-of (object)
  "The handle of OBJECT, under which it is kept from now on."
  (call-with-lock
   (lambda ()
     (let ((known (rassoc object *handles* :test #'eq)))
       (unless known
         (setf known (cons (setf *last-handle* (1+ (max *last-handle* (or (second-lisp-base) 0)))) object)
               *handles* (cons known *handles*))
         (let ((last (nthcdr (1- *handle-limit*) *handles*)))
           (when last
             (mapc #'forget-handle-variables (mapcar #'car (cdr last)))
             (setf (cdr last) '()))))
       (handle-name (car known))))))

(defun handle-object (handle)
  "The object with HANDLE."
  (let* ((text (string-left-trim "$" (string-trim "[]" (trimmed handle))))
         (text (if (and (string/= text "") (every #'digit-char-p text)) (format nil "~A~A" (char (handle-name 0) 0) text) text))
         (name (and (< 1 (length text) 20)
                    (find (char text 0) "vs" :test #'char-equal)
                    (every #'digit-char-p (subseq text 1))
                    (string-downcase text)))
         (number (and name (own-handle name)))
         (entry (and number (assoc number *handles*))))
    (cond (entry (cdr entry))
          ((null name)
           (missed "~S is not a handle. Handles look like v7; eval_form shows them after its values."
                   handle))
          ((and (null number) (second-lisp-base))
           (missed "~A is an object of the user's image, and this is the image scratch, which has handles ~
                    such as s7. Make the object here, or leave out `image`."
                   name))
          ((null number)
           (missed "~A is an object of the image scratch, and this is the user's image, which has handles ~
                    such as v7. Make the object here, or call with image=\"scratch\"."
                   name))
          ((null *handles*)
           (missed "No object ~A. eval_form gives handles to the objects it returns."
                   name))
          (t (missed "No object ~A: only ~A to ~A are kept. Evaluate the form again for a new handle."
                     name (handle-name (car (first (last *handles*)))) (handle-name *last-handle*))))))

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
