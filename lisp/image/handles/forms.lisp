;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Handles in forms: $v7 is a variable whose value is the object v7. Its symbol has a package of its
;;; own and is of the package that is read in only while that happens.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *handle-package* "AGENT-Q-IMAGE-HANDLES")

(unless (find-package *handle-package*)
  (make-package *handle-package* :use '()))

(note-as-seen (find-package *handle-package*) "SLYNK" "CONNECTION-INDENTATION-CACHE-PACKAGES")
(note-as-seen (find-package *handle-package*) "SWANK" "CONNECTION.INDENTATION-CACHE-PACKAGES")

(defun name-character-p (character)
  (not (or (member character *blanks*) (find character "()'`,\";"))))

(defun mentioned-handle (text found)
  "The number in TEXT where $v was FOUND, if a handle is written there."
  (let* ((first (+ found 2))
         (end (or (position-if-not #'digit-char-p text :start first) (length text)))
         (before (and (plusp found) (char text (1- found)))))
    (and (< first end (+ first 10))
         (or (null before) (find before "@#.") (not (name-character-p before)))
         (or (= end (length text)) (not (name-character-p (char text end))))
         (parse-integer text :start first :end end))))

(defun mentioned-handles (text start)
  "The numbers of what TEXT calls $v and a number after START, be it in a string."
  (loop for found = (search "$v" text :start2 start :test #'char-equal)
          then (search "$v" text :start2 (+ found 2) :test #'char-equal)
        while found
        when (mentioned-handle text found)
          collect it))

(defun handle-variable (number name)
  "The variable NAME of the object with the handle NUMBER; unbound without an object."
  (multiple-value-bind (symbol known) (intern name *handle-package*)
    (let ((entry (assoc number *handles*)))
      (unless known (proclaim `(special ,symbol)))
      (if entry
          (setf (symbol-value symbol) (cdr entry))
          (makunbound symbol))
      symbol)))

(defun forget-handle-variables (number)
  "Let go of the object that had the handle NUMBER."
  (dolist (control '("$V~D" "$v~D"))
    (let ((symbol (find-symbol (format nil control number) *handle-package*)))
      (when symbol
        (makunbound symbol)
        (unintern symbol *handle-package*)))))

(defun lend-handle-variables (text start)
  "Make the variables of the handles in TEXT known in the current package; a list of them. A program
that has such a symbol keeps it."
  (loop for number in (remove-duplicates (mentioned-handles text start))
        nconc (loop for control in '("$V~D" "$v~D")
                    for name = (format nil control number)
                    unless (nth-value 1 (find-symbol name *package*))
                      nconc (let ((symbol (handle-variable number name)))
                              ;; A locked package takes no symbol from the reader either.
                              (and (ignore-errors (import symbol *package*))
                                   (list symbol))))))

(defun check-handle-variables (form)
  "Make sure that FORM has no handle without an object in it."
  (let ((seen (make-hash-table :test 'eq))
        (package (find-package *handle-package*))
        (comma (optional-function "AGENT-Q-IMAGE" "COMMA-CONTENT")))
    (labels ((check (it)
               (loop while (and (consp it) (not (gethash it seen)))
                     do (setf (gethash it seen) t)
                        (check (car it))
                        (setf it (cdr it)))
               (cond ((consp it))
                     ((null it))
                     ((symbolp it)
                      (when (and (eq (symbol-package it) package) (not (boundp it)))
                        (handle-object (symbol-name it))))
                     ((and comma (funcall comma it))
                      (check (first (funcall comma it)))))))
      (check form)
      form)))

(defun call-with-handle-names (text start reader)
  "Call READER, which reads a form of TEXT at START, where handles can be read."
  (let* ((package *package*)
         (lent (and (find #\$ text :start start)
                    (lend-handle-variables text start))))
    (unwind-protect (multiple-value-bind (form end) (funcall reader)
                      (values (if lent (check-handle-variables form) form) end))
      (dolist (symbol lent) (unintern symbol package)))))
