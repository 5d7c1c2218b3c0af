;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Handles in forms: $v7 is a variable whose value is the object v7. Its symbol is in a package of
;;; its own, and is imported into the current package only while a form is read.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *handle-package* "AGENT-Q-IMAGE-HANDLES")

(unless (find-package *handle-package*)
  (make-package *handle-package* :use '()))

(note-as-seen (find-package *handle-package*) "SLYNK" "CONNECTION-INDENTATION-CACHE-PACKAGES")
(note-as-seen (find-package *handle-package*) "SWANK" "CONNECTION.INDENTATION-CACHE-PACKAGES")

(defun name-character-p (character)
  (not (or (member character *blanks*) (find character "()'`,\";"))))

(defun mentioned-handle (text found)
  "The number of the handle at FOUND in TEXT, where $v is, or NIL if no handle is written there."
  (let* ((first (+ found 2))
         (end (or (position-if-not #'digit-char-p text :start first) (length text)))
         (before (and (plusp found) (char text (1- found)))))
    (and (< first end (+ first 10))
         (or (null before) (find before "@#.") (not (name-character-p before)))
         (or (= end (length text)) (not (name-character-p (char text end))))
         (parse-integer text :start first :end end))))

(defun mentioned-handles (text start)
  "The numbers of the handles in TEXT after START, even in strings."
  (loop for found = (search "$v" text :start2 start :test #'char-equal)
          then (search "$v" text :start2 (+ found 2) :test #'char-equal)
        while found
        when (mentioned-handle text found)
          collect it))

(defun handle-variable (number name)
  "The variable NAME of the object with the handle NUMBER; unbound if there is no such object."
  (multiple-value-bind (symbol known) (intern name *handle-package*)
    (let ((entry (assoc number *handles*)))
      (unless known (proclaim `(special ,symbol)))
      (if entry
          (setf (symbol-value symbol) (cdr entry))
          (makunbound symbol))
      symbol)))

(defun forget-handle-variables (number)
  "Release the object that had the handle NUMBER."
  (dolist (control '("$V~D" "$v~D"))
    (let ((symbol (find-symbol (format nil control number) *handle-package*)))
      (when symbol
        (makunbound symbol)
        (unintern symbol *handle-package*)))))

(defun lend-handle-variables (text start)
  "Import the variables of the handles in TEXT into the current package; a list of them. A program's
own symbol of such a name stays."
  (loop for number in (remove-duplicates (mentioned-handles text start))
        nconc (loop for control in '("$V~D" "$v~D")
                    for name = (format nil control number)
                    unless (nth-value 1 (find-symbol name *package*))
                      nconc (let ((symbol (handle-variable number name)))
                              ;; The reader can't intern in a locked package either.
                              (and (ignore-errors (import symbol *package*))
                                   (list symbol))))))

(defun check-handle-variables (form)
  "Return FORM, or miss if it has a handle without an object."
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
  "Call READER, which reads a form of TEXT at START, with the handles in TEXT readable."
  (let* ((package *package*)
         (lent (and (find #\$ text :start start)
                    (lend-handle-variables text start))))
    (unwind-protect (multiple-value-bind (form end) (funcall reader)
                      (values (if lent (check-handle-variables form) form) end))
      (dolist (symbol lent) (unintern symbol package)))))
