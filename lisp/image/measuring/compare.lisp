;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; How long forms take and how much they allocate, side by side. Operation: compare-forms.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *most-alternatives* 12)

(defun function-of-form (form)
  "A compiled function that evaluates FORM."
  (let ((named (and (implementation-p "SBCL") (find-symbol "NAMED-LAMBDA" "SB-INT"))))
    (call-without-compiler-notes
     (lambda ()
       ;; ECL tells of each pass.
       (let ((*compile-verbose* nil) (*compile-print* nil))
         (compile nil (if named `(,named "the form" () ,form) `(lambda () ,form)))))
     (constantly nil))))

(defun forms-in (text)
  "Lists of each form in TEXT and its text, short."
  (map-forms (lambda (form start end) (list form (form-text text start end))) text))

(defun allocated-so-far ()
  "How many bytes were allocated since the image began, or NIL if unknown."
  (let ((allocated (or (optional-function "SB-EXT" "GET-BYTES-CONSED")
                       (optional-function "CCL" "TOTAL-BYTES-ALLOCATED"))))
    (and allocated (funcall allocated))))

(defun microseconds-now ()
  ;; The standard's clock may tick as seldom as 250 times a second.
  (let ((time (optional-function "SB-EXT" "GET-TIME-OF-DAY"))
        (java (optional-function "JAVA" "JSTATIC")))
    (cond (time (multiple-value-bind (seconds microseconds) (funcall time)
                  (+ (* 1000000 seconds) microseconds)))
          (java (round (funcall java "nanoTime" "java.lang.System") 1000))
          (t (round (* 1000000 (get-internal-real-time)) internal-time-units-per-second)))))

(defun time-runs (function count)
  "Call FUNCTION COUNT times; returns the seconds that this took, and the bytes allocated."
  (let ((bytes (allocated-so-far)) (start (microseconds-now)))
    (loop repeat count do (funcall function))
    (values (/ (- (microseconds-now) start) 1000000)
            (and bytes (- (allocated-so-far) bytes)))))

;;; A round is as many runs as take this long; rounds of the alternatives take turns, so that what
;;; else the machine does meanwhile slows them all.

(defparameter *round-seconds* 1/20)

(defparameter *most-rounds* 7)

(defun runs-for-a-round (function)
  (loop for count = 1 then (* count (if (< seconds 1/1000) 10 2))
        ;; A pause, as for a garbage collection, isn't likely to come twice.
        for seconds = (let ((first (time-runs function count)))
                        (if (< 1/100 first 1/2) (min first (time-runs function count)) first))
        until (or (>= seconds 1/100) (> count 100000000))
        finally (return (max 1 (if (plusp seconds)
                                   (ceiling (* count *round-seconds*) seconds)
                                   count)))))

(defun rounds-of (seconds)
  "How many rounds there are, where the first run of all alternatives took SECONDS."
  (cond ((> seconds 5) 1) ((> seconds 1) 3) (t *most-rounds*)))

(defun median (numbers)
  (let ((sorted (sort (copy-list numbers) #'<)))
    (nth (floor (length sorted) 2) sorted)))

(defstruct alternative
  text function values problem (runs 1) (times '()) (bytes '()))

(defun run-first (alternative form)
  "Compile and run ALTERNATIVE, which is FORM, for its values; returns the seconds that it took."
  (let ((start (get-internal-real-time)))
    (setf (alternative-problem alternative)
          (run-to-end (lambda ()
                        (setf (alternative-function alternative) (function-of-form form)
                              start (get-internal-real-time)
                              (alternative-values alternative)
                              (multiple-value-list (funcall (alternative-function alternative)))))))
    (/ (- (get-internal-real-time) start) internal-time-units-per-second)))

(defun call-counting (alternative function)
  "Call FUNCTION, which runs ALTERNATIVE; an error ends its measurement. What it prints is known."
  (let ((*standard-output* (make-broadcast-stream)) (*error-output* (make-broadcast-stream))
        (*trace-output* (make-broadcast-stream)))
    (let ((problem (run-to-end function)))
      (when problem (setf (alternative-problem alternative) problem)))))

(defun run-round (alternative)
  (call-counting
   alternative
   (lambda ()
     (multiple-value-bind (seconds bytes)
         (time-runs (alternative-function alternative) (alternative-runs alternative))
       (push (/ seconds (alternative-runs alternative)) (alternative-times alternative))
       ;; While memory is freed, it may seem to shrink.
       (when (and bytes (>= bytes 0))
         (push (round bytes (alternative-runs alternative)) (alternative-bytes alternative)))))))

(defun same-values-p (one other)
  (and (= (length one) (length other)) (every #'equalp one other)))

(defun alternative-plist (alternative first)
  "What ALTERNATIVE gave, for the wire; its values are compared with those of FIRST."
  (let ((problem (alternative-problem alternative)) (times (alternative-times alternative)))
    (append
     (list :form (alternative-text alternative))
     (if problem
         (list :error (format nil "~A: ~A" (getf problem :type) (first-line (getf problem :message) 200)))
         (list :picoseconds (round (* (median times) 1000000000000))
               :rounds (length times) :runs (alternative-runs alternative)
               ;; Other threads only add to it.
               :bytes (and (alternative-bytes alternative)
                           (reduce #'min (alternative-bytes alternative)))
               :same (and first
                          (same-values-p (alternative-values alternative) (alternative-values first)))
               :values (value-texts (alternative-values alternative) 300))))))

(define-operation "compare-forms" (form package)
  ;; Measure each form of a text; an error in one of them is that one's result.
  (compile-now 'time-runs 'allocated-so-far 'microseconds-now)
  (let* ((*package* (package-of-text package))
         (forms (forms-in form))
         (alternatives (loop for (nil text) in forms collect (make-alternative :text text)))
         (seconds 0))
    (unless forms
      (missed "The text contains no form."))
    (when (> (length forms) *most-alternatives*)
      (missed "At most ~D forms can be compared at once." *most-alternatives*))
    (flet ((at-work (alternative)
             (setf *progress* (lambda () (list :current (alternative-text alternative))))))
      (loop for alternative in alternatives
            for (form) in forms
            do (at-work alternative)
               (incf seconds (run-first alternative form))
               (unless (or (alternative-problem alternative) (> seconds 5))
                 (call-counting alternative
                                (lambda ()
                                  (setf (alternative-runs alternative)
                                        (runs-for-a-round (alternative-function alternative)))))))
      (loop repeat (rounds-of seconds)
            do (dolist (alternative alternatives)
                 (unless (alternative-problem alternative)
                   (at-work alternative)
                   (run-round alternative)))))
    (let ((first (find nil alternatives :key #'alternative-problem)))
      (list :alternatives (loop for alternative in alternatives
                                collect (alternative-plist alternative first))
            :output (captured-text)))))
