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
  "The handle at FOUND in TEXT, where a $ is, or NIL if no handle is written there."
  (let* ((start (+ found 2))
         (letter (and (< (1+ found) (length text)) (find (char text (1+ found)) "vs" :test #'char-equal)))
         (end (and letter
                   (or (position-if-not #'digit-char-p text :start start) (length text))))
         (before (and (plusp found) (char text (1- found)))))
    (and letter
         (< start end (+ start 10))
         (or (null before) (find before "@#.") (not (name-character-p before)))
         (or (= end (length text)) (not (name-character-p (char text end))))
         (format nil "~A~D" letter (parse-integer text :start start :end end)))))

(defun mentioned-handles (text start)
  "The handles in TEXT after START, even in strings."
  (loop for found = (position #\$ text :start start) then (position #\$ text :start (1+ found))
        while found
        when (mentioned-handle text found)
          collect it))

(defun handle-variable (handle name)
  "The variable NAME of the object with HANDLE; unbound if there is no such object."
  (multiple-value-bind (symbol known) (intern name *handle-package*)
    (let* ((number (own-handle handle))
           (entry (and number (assoc number *handles*))))
      (unless known (proclaim `(special ,symbol)))
      (cond (entry (setf (symbol-value symbol) (cdr entry)))
            ((boundp symbol) (makunbound symbol)))
      symbol)))

(defun variable-names (handle)
  "The names of the variables of HANDLE, as the reader makes them."
  (list (format nil "$~:@(~A~)" handle) (format nil "$~A" handle)))

(defun forget-handle-variables (number)
  "Release the object that had the handle NUMBER."
  (dolist (name (variable-names (handle-name number)))
    (let ((symbol (find-symbol name *handle-package*)))
      (when symbol
        (makunbound symbol)
        (unintern symbol *handle-package*)))))

(defun lend-handle-variables (text start)
  "Import the variables of the handles in TEXT into the current package; a list of them. A program's
own symbol of such a name stays."
  (loop for handle in (remove-duplicates (mentioned-handles text start) :test #'string=)
        nconc (loop for name in (variable-names handle)
                    unless (nth-value 1 (find-symbol name *package*))
                      nconc (let ((symbol (handle-variable handle name)))
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
