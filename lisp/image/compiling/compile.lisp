;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Forms really compiled, by the client's way to compile text, with what the compiler said and
;;; where. Operation: compile-form.
;;; Needs: execution, introspection

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *note-limit* 50)

(defvar *notes* (list '())
  "A list of one element: what the compiler said in this call, latest first.")

;;; Notes

(defun line-and-column (text index)
  "Where INDEX is in TEXT, both counted from 1."
  (let* ((index (max 0 (min index (length text))))
         (newline (position #\Newline text :end index :from-end t)))
    (values (1+ (count #\Newline text :end index))
            (- index (if newline newline -1)))))

(defun location-index (location)
  "The index that LOCATION, in a buffer, has in the text; NIL when it says none."
  (when (and (consp location) (eq (first location) :location))
    (let ((position (third location)))
      (case (first position)
        (:offset (+ (second position) (third position) -1))
        (:position (1- (second position)))))))

(defun add-note (note)
  (unless (member (cddr note) (first *notes*) :key #'cddr :test #'equal)
    (push note (first *notes*))))

(defun call-noting (function note)
  "Call FUNCTION; what the compiler signals in it is given to NOTE."
  (let ((type (find-class (find-symbol "COMPILER-CONDITION" (backend-package)))))
    (handler-bind ((condition (lambda (condition)
                                (when (and (typep condition type)
                                           (not (eq (backend "SEVERITY" condition)
                                                    :redefinition)))
                                  (funcall note condition)))))
      (funcall function))))

(defun muffle (condition)
  "Keep the compiler from printing the warning that CONDITION tells."
  (let* ((original (guarded (lambda () (backend "ORIGINAL-CONDITION" condition))
                            (constantly nil)))
         (restart (and (typep original 'warning) (find-restart 'muffle-warning original))))
    (when restart
      (invoke-restart restart))))

(defun severity-text (condition)
  (string-downcase (symbol-name (backend "SEVERITY" condition))))

(defun note-text (condition)
  "What CONDITION says, without blank lines and where the compiler's own file is."
  (let* ((text (trimmed (princ-to-string (backend "MESSAGE" condition))))
         (prefix (format nil "READ error during COMPILE-FILE:~%"))
         (text (if (prefixed-p prefix text) (subseq text (length prefix)) text))
         (lines (loop with start = 0
                      for end = (position #\Newline text :start start)
                      for line = (trimmed (subseq text start end))
                      unless (or (string= line "") (prefixed-p "Stream: #<" line)
                                 (and (prefixed-p "Line: " line) (search "File-Position" line)))
                        collect line
                      while end do (setf start (1+ end))))
         ;; ECL says the file and the form first.
         (ecl (member-if (lambda (line) (prefixed-p "! " line)) lines))
         (lines (if ecl (cons (subseq (first ecl) 2) (rest ecl)) lines)))
    (shortened (format nil "~{~A~^~%~}" (without-definition lines)) 600)))

(defun without-definition (lines)
  "LINES without \"in F : \", with which CLISP says the same thing once more."
  (let ((colon (and (implementation-p "CLISP") lines (prefixed-p "in " (first lines))
                    (search " : " (first lines)))))
    (if colon
        (cons (subseq (first lines) (+ colon 3)) (rest lines))
        lines)))

(defun later-defined-p (message)
  "Whether MESSAGE complains of a function that has a definition by now."
  (let ((prefix "undefined function: "))
    (and (prefixed-p prefix message)
         (guarded (lambda ()
                    (let* ((*read-eval* nil)
                           (name (read-from-string message t nil :start (length prefix))))
                      (and (or (symbolp name) (consp name)) (fboundp name))))
                  (constantly nil)))))

(defun noted (notes)
  "NOTES in the order in which they were made, as far as they still hold."
  (remove-if (lambda (note) (later-defined-p (getf note :message)))
             (reverse (first notes))))

(defun limited-notes (notes)
  (let ((notes (noted notes)))
    (values (subseq notes 0 (min *note-limit* (length notes)))
            (max 0 (- (length notes) *note-limit*)))))

;;; Output

(defun without-compiler-output (text)
  "TEXT without the lines that compilers write, which start with a semicolon."
  (with-output-to-string (stream)
    (loop with start = 0
          for end = (position #\Newline text :start start)
          for line = (subseq text start end)
          unless (prefixed-p ";" (trimmed line))
            do (write-line line stream)
          while end do (setf start (1+ end)))))

;;; Forms

(defun form-end (text start count)
  "Where the form in TEXT at START ends. Nothing of it is interned or evaluated."
  (let ((*read-suppress* t))
    (nth-value 1 (read-form text start count))))

(defun package-form-p (text)
  (or (prefixed-p "(in-package" text)
      (prefixed-p "(cl:in-package" text)
      (prefixed-p "(common-lisp:in-package" text)))

(defun compile-string (string start)
  "Compile and load STRING, which starts at START of the whole text; whether that succeeded."
  (let ((*compile-verbose* nil) (*compile-print* nil) (*load-verbose* nil) (*load-print* nil))
    (backend (if (eq *client* :slynk) "SLYNK-COMPILE-STRING" "SWANK-COMPILE-STRING")
             string :buffer "agent-q" :position (1+ start) :filename nil
                    :line nil :column nil :policy '((debug . 2)))))

(defun compile-one (text start end)
  (flet ((note (condition)
           (multiple-value-bind (line column)
               (line-and-column text (or (location-index (backend "LOCATION" condition)) start))
             (add-note (list :severity (severity-text condition)
                             :message (note-text condition)
                             :line line :column column)))
           (muffle condition)))
    (let ((string (subseq text start end)))
      (if (package-form-p string)
          (progn (eval (read-form text start 1)) t)
          (call-noting (lambda () (compile-string string start)) #'note)))))

(define-operation "compile-form" (form package)
    "Compile and load forms one after the other; what the compiler said."
  (let* ((*package* (package-of-text package))
         (notes (list '()))
         (*notes* notes)
         (current nil) (count 0) (failed '()) (start 0))
    (when (null (skip-to-form form 0))
      (missed "There is no form in the text."))
    (flet ((progress ()
             (multiple-value-bind (notes more) (limited-notes notes)
               (list :compiled count :failed failed :current current
                     :notes notes :more more :package (package-name *package*)))))
      (setf *progress* #'progress)
      (loop for next = (skip-to-form form start)
            while next
            do (let ((end (form-end form next (1+ count))))
                 (setf current (form-text form next end)
                       start end)
                 (unless (compile-one form next end)
                   (setf failed (append failed (list current))))
                 (incf count)
                 (setf current nil)))
      (append (progress)
              (list :output (without-compiler-output (captured-text)))))))
