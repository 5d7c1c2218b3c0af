;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Forms given as text: read one at a time, evaluated or macroexpanded. Operations: eval-form,
;;; macroexpand-form.

(cl:in-package "AGENT-Q-IMAGE")

;;; Reading

(defun skip-to-form (text start)
  "Where the next form in TEXT starts, after blanks and comments; NIL at the end."
  (loop
    (let ((next (position-if-not (lambda (it) (member it *blanks*)) text :start start)))
      (cond ((null next) (return nil))
            ((char/= (char text next) #\;) (return next))
            (t (setf start (or (position #\Newline text :start next) (length text))))))))

(defun reader-complaint (condition)
  "What the reader says, without the name of our stream and the manual's chapters."
  (let ((text (condition-message condition)))
    (dolist (end (list (format nil "~%~%") " Stream: #<" (format nil "~%See also:")))
      (setf text (subseq text 0 (search end text))))
    (trimmed text)))

(defun unreadable (condition text start count)
  (failed (if (typep condition 'end-of-file) "END-OF-FILE" (type-name condition))
          (format nil "Form ~D, which starts at line ~D, can't be read: ~A~%~A"
                  count
                  (1+ (count #\Newline text :end start))
                  (if (typep condition 'end-of-file)
                      "the text ends inside it. A parenthesis, a string or a |symbol| is not closed."
                      (reader-complaint condition))
                  (first-line (subseq text start) 120))))

(defun read-form (text start count)
  "The form in TEXT at START, and where it ends."
  (handler-case (read-from-string text t nil :start start :preserve-whitespace t)
    (error (condition) (unreadable condition text start count))))

;;; Evaluating

(defun value-texts (values budget)
  (loop for value in values
        for count from 0
        when (= count 20)
          collect (format nil "[~D more values]" (- (length values) 20))
          and do (loop-finish)
        collect (let ((text (printed value :limit (max 80 (min 4000 budget)))))
                  (decf budget (length text))
                  text)))

(defun form-text (text start end)
  (first-line (trimmed (subseq text start end)) 80))

(defun evaluate-text (text)
  "Evaluate the forms in TEXT one after the other; what each gave, in their order."
  (let ((done '()) (current nil) (budget 12000) (start 0))
    (flet ((progress ()
             (list :forms (reverse done) :current current :package (package-name *package*))))
      (setf *progress* #'progress)
      (loop for count from 1
            for next = (skip-to-form text start)
            while next
            do (setf current nil)
               (multiple-value-bind (form end) (read-form text next count)
                 (setf current (form-text text next end)
                       start end)
                 (let ((values (value-texts (multiple-value-list (eval form)) budget)))
                   (decf budget (reduce #'+ values :key #'length))
                   (push (list :form current :values values) done)
                   (setf current nil))))
      (progress))))

(define-operation "eval-form" (form package)
    "Evaluate forms; their values, and what they printed."
  (let ((*package* (package-of-text package)))
    (when (null (skip-to-form form 0))
      (missed "There is no form in the text."))
    (append (evaluate-text form)
            (list :output (captured-text)))))

;;; Macroexpanding

(defun expander (mode)
  "The function that expands a form by MODE: two values, the expansion and whether it differs."
  (flet ((by-backend (name)
           (lambda (form)
             (let ((expansion (backend name form)))
               (values expansion (not (equal form expansion)))))))
    (cond ((string-equal mode "once") #'macroexpand-1)
          ((string-equal mode "full") #'macroexpand)
          ((string-equal mode "all") (by-backend "MACROEXPAND-ALL"))
          ((string-equal mode "compiler") (by-backend "COMPILER-MACROEXPAND-1"))
          (t (missed "~A is not a way to expand; there are once, full, all and compiler." mode)))))

(defun code-text (form)
  (printed form :limit 8000 :length 500 :level 40 :circle nil :pretty t))

(define-operation "macroexpand-form" (form package mode full)
    "The expansion of a form. The form is read without #. ; its macros do run."
  (let* ((*package* (package-of-text package))
         (start (or (skip-to-form form 0) (missed "There is no form in the text.")))
         (mode (or mode (if full "full" "once"))))
    (multiple-value-bind (datum end)
        (let ((*read-eval* nil)) (read-form form start 1))
      (multiple-value-bind (expansion expanded) (funcall (expander mode) datum)
        (list :mode mode
              :original (code-text datum)
              :expansion (code-text expansion)
              :expanded (and expanded t)
              :rest (and (skip-to-form form end) t)
              :output (captured-text))))))
