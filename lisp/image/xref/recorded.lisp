;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the implementation recorded while compiling, and a time limit for searches: some functions
;;; are called from everywhere.

(cl:in-package "AGENT-Q-IMAGE")

;;; Time

(defparameter *search-seconds* 1
  "How many seconds to spend on checking uses before reporting those checked so far.")

(defvar *search-end* nil
  "The internal real time when that is up; :UNKNOWN before it starts; NIL for no limit.")

(defvar *search-cut* nil
  "Whether the search was cut short.")

(defmacro in-search-time (&body body)
  "Evaluate BODY, which polls SEARCH-OVER-P, with a time limit."
  `(let ((*search-end* :unknown) (*search-cut* nil))
     ,@body))

(defun search-over-p ()
  "Whether the time is up. The clock starts at the first call."
  (let ((now (get-internal-real-time)))
    (when (eq *search-end* :unknown)
      (setf *search-end* (+ now (* *search-seconds* internal-time-units-per-second))))
    (when (and *search-end* (> now *search-end*))
      (setf *search-cut* t))))

;;; Records

(defparameter *recorders*
  '(("references" . "WHO-REFERENCES") ("binds" . "WHO-BINDS") ("sets" . "WHO-SETS")
    ("macroexpands" . "WHO-MACROEXPANDS") ("callees" . "LIST-CALLEES"))
  "Kinds of use, and the backend's function that returns the records of each.")

(defun sbcl-sites (name target)
  "SBCL's records for TARGET, as the backend's function NAME would return them, but with functions
that find the places: the backend would find all of them at once, in all files. NIL if the backend
has to be asked."
  (let ((recorded (and (prefixed-p "WHO-" name) (optional-function "SB-INTROSPECT" name)))
        (path (optional-function "SB-INTROSPECT" "DEFINITION-SOURCE-FORM-PATH"))
        (place (or (optional-function "SWANK/SBCL" "SOURCE-LOCATION-FOR-XREF-DATA")
                   (optional-function "SLYNK-SBCL" "SOURCE-LOCATION-FOR-XREF-DATA")))
        (seen (make-hash-table :test 'equal)))
    (when (and recorded path place)
      (loop for use in (guarded (lambda () (searching-memory (funcall recorded target)))
                                (constantly '()))
            for key = (list (first use) (funcall path (rest use)))
            ;; A macro may have expanded into several uses in one form.
            unless (or (null (first use)) (gethash key seen))
              collect (let ((use use))
                        (setf (gethash key seen) t)
                        (list (first use)
                              (lambda ()
                                (guarded (lambda () (second (funcall place use)))
                                         (constantly nil)))))))))

(defun failure-kind (condition)
  "Whether CONDITION is how the client says that it lacks that function here: :NOT-IMPLEMENTED or
:FAILED."
  (if (search "implemented" (condition-message condition))
      :not-implemented
      :failed))

(defun recorded-sites (name target)
  "The records of the backend's function NAME for TARGET, or :NOT-IMPLEMENTED."
  (let ((sites (cond ((sbcl-sites name target))
                     ((backend-function name)
                      (guarded (lambda () (backend name target)) #'failure-kind))
                     (t :not-implemented))))
    (cond ((eq sites :failed) '())
          ;; CLISP's cross-referencer only knows files that it was told to read.
          ((and (null sites) (implementation-p "CLISP")) :not-implemented)
          ((listp sites)
           (remove-if-not (lambda (site) (and (consp site) (consp (rest site)))) sites))
          (t :not-implemented))))
