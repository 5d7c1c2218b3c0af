;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Evaluating forms given as text, one at a time. Operation: eval-form.

(cl:in-package "AGENT-Q-IMAGE")

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

;;; The last evaluations

(defvar *last-evaluations* '()
  "By connection, latest first: our values of *LAST-VARIABLES* there.")

(lasts-for-the-process '*last-evaluations*)

(defparameter *last-variables* '(* ** *** / // /// + ++ +++ -))

(defun this-connection ()
  "The client's object for this call's connection."
  (client-value *client* "*EMACS-CONNECTION*"))

(defun call-with-last-evaluations (function)
  "Call FUNCTION with * and the like bound to our last evaluations; the user's REPL keeps its own."
  (let ((known (rest (assoc (this-connection) *last-evaluations* :test #'eq))))
    (progv *last-variables* (or known (mapcar (constantly nil) *last-variables*))
      (funcall function))))

(defun note-evaluation (form values)
  "Make VALUES, of FORM, the last ones, here and for the following calls."
  (shiftf *** ** * (first values))
  (shiftf /// // / values)
  (shiftf +++ ++ + form)
  (let ((entry (cons (this-connection) (mapcar #'symbol-value *last-variables*))))
    (call-with-lock
     (lambda ()
       (let ((others (remove (first entry) *last-evaluations* :key #'first :test #'eq)))
         (setf *last-evaluations*
               (cons entry (subseq others 0 (min 4 (length others))))))))))

;;; Texts

(defun evaluate-form (form evaluator count)
  "The values of FORM, with number COUNT, by EVALUATOR. The first part of a PROGN may define
something that changes the second, which is then assessed in its turn if nobody was asked."
  (if (and (integerp *assessed*) (eq evaluator #'eval) (consp form) (eq (first form) 'progn) (rest form))
      (loop for (part . more) on (rest form)
            for settled = t then (and settled settles)
            for settles = (and (atom part) (settles-p part))
            do (unless settled (assess-part part count))
            when more do (evaluate-form part evaluator count)
            else return (evaluate-form part evaluator count))
      (funcall evaluator form)))

(defun call-without-compiler-notes (function note)
  "Call FUNCTION without SBCL's notes on code that could be faster. NOTE is called for each."
  (let ((type (and (implementation-p "SBCL") (find-symbol "COMPILER-NOTE" "SB-EXT"))))
    (handler-bind ((condition (lambda (condition)
                                (let ((restart (and type (typep condition type)
                                                    (find-restart 'muffle-warning condition))))
                                  (when restart
                                    (funcall note)
                                    (invoke-restart restart))))))
      (funcall function))))

(defun evaluate-text (text &optional (evaluator #'eval))
  "Evaluate the forms in TEXT one after the other; returns what each gave, in order."
  (call-with-last-evaluations (lambda () (evaluate-forms text evaluator))))

(defun evaluate-forms (text evaluator)
  (let ((done '()) (current nil) (unprinted '()) (budget 12000) (room 8000) (start 0) (notes 0)
        (recoveries *recoveries*))
    (flet ((output ()
             ;; The last form's output is reported as the call's.
             (when (skip-to-form text start)
               (let ((output (take-captured-text (max 400 room))))
                 (decf room (length output))
                 output)))
           (progress ()
             (list* :forms (reverse done) :current current :package (package-name *package*)
                    :compiler-notes notes
                    :unprinted (loop for value in unprinted repeat 5
                                     collect (list (type-name value) (handle-of value)))
                    (recoveries-of recoveries))))
      (setf *progress* #'progress)
      (loop for count from 1
            for next = (skip-to-form text start)
            while next
            do (setf current nil)
               (multiple-value-bind (form end) (read-form text next count)
                 (setf current (form-text text next end)
                       start end)
                 (let* ((values (setf - form
                                      unprinted (multiple-value-list
                                                 (call-without-compiler-notes
                                                  (lambda ()
                                                    (let ((*clean-up-before* (innermost-clean-up)))
                                                      (evaluate-form form evaluator count)))
                                                  (lambda () (incf notes))))))
                        (texts (value-texts values budget)))
                   (decf budget (reduce #'+ texts :key #'length))
                   (note-evaluation form values)
                   (push (list :form current :values texts
                               :handles (mapcar #'handle-beyond values texts))
                         done)
                   (setf current nil unprinted '()
                         (first done) (append (first done) (list :output (output)))))))
      (progress))))

(define-operation "eval-form" (form package restart on-error debugger keep)
  ;; Evaluate forms; returns their values and output. On an error, leave it by RESTART or, if
  ;; ON-ERROR is "park", keep its stack alive under the name DEBUGGER; otherwise keep it for the
  ;; user, for KEEP seconds.
  (let ((*package* (package-of-text package)))
    (when (null (skip-to-form form 0))
      (missed "The text contains no form."))
    (append (call-recovering restart
                             (lambda () (evaluate-text form))
                             (lambda (condition)
                               ;; A parked stack would keep the heap full.
                               (cond ((heap-exhausted-p condition))
                                     ((equal on-error "park") (park condition debugger))
                                     (keep (keep condition keep)))))
            (list :output (captured-text)
                  :parked (parked-news)))))
