;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the implementation recorded while compiling, and how long a search for it may take: some
;;; functions are called from everywhere.

(cl:in-package "AGENT-Q-IMAGE")

;;; Time

(defparameter *search-seconds* 1
  "How many seconds looking through the uses that were found may take, before those that were looked at
are told.")

(defvar *search-end* nil
  "The internal real time at which that ends, :UNKNOWN before it begins, or NIL: it need not end.")

(defvar *search-cut* nil
  "Whether it ended before it was through.")

(defmacro in-search-time (&body body)
  "Evaluate BODY, which looks at SEARCH-OVER-P."
  `(let ((*search-end* :unknown) (*search-cut* nil))
     ,@body))

(defun search-over-p ()
  "Whether the time is up. It begins when this is first asked."
  (let ((now (get-internal-real-time)))
    (when (eq *search-end* :unknown)
      (setf *search-end* (+ now (* *search-seconds* internal-time-units-per-second))))
    (when (and *search-end* (> now *search-end*))
      (setf *search-cut* t))))

;;; Records

(defparameter *recorders*
  '(("references" . "WHO-REFERENCES") ("binds" . "WHO-BINDS") ("sets" . "WHO-SETS")
    ("macroexpands" . "WHO-MACROEXPANDS") ("callees" . "LIST-CALLEES"))
  "Kinds of use, and the backend's function that has what was recorded of each.")

(defun sbcl-sites (name target)
  "What SBCL has recorded of TARGET, as the backend's function NAME does: names with functions that
find the places. The backend finds all places, in all their files. NIL where it has to be asked."
  (let ((recorded (and (prefixed-p "WHO-" name) (optional-function "SB-INTROSPECT" name)))
        (path (optional-function "SB-INTROSPECT" "DEFINITION-SOURCE-FORM-PATH"))
        (place (or (optional-function "SWANK/SBCL" "SOURCE-LOCATION-FOR-XREF-DATA")
                   (optional-function "SLYNK-SBCL" "SOURCE-LOCATION-FOR-XREF-DATA")))
        (seen (make-hash-table :test 'equal)))
    (when (and recorded path place)
      (loop for use in (guarded (lambda () (searching-memory (funcall recorded target)))
                                (constantly '()))
            for key = (list (first use) (funcall path (rest use)))
            ;; One form can have several of what a macro makes of it.
            unless (or (null (first use)) (gethash key seen))
              collect (let ((use use))
                        (setf (gethash key seen) t)
                        (list (first use)
                              (lambda ()
                                (guarded (lambda () (second (funcall place use)))
                                         (constantly nil)))))))))

(defun failure-kind (condition)
  "Whether CONDITION is the client's word that it has no such function here."
  (if (search "implemented" (condition-message condition))
      :not-implemented
      :failed))

(defun recorded-sites (name target)
  "What the backend's function NAME has recorded of TARGET, or :NOT-IMPLEMENTED."
  (let ((sites (cond ((sbcl-sites name target))
                     ((backend-function name)
                      (guarded (lambda () (backend name target)) #'failure-kind))
                     (t :not-implemented))))
    (cond ((eq sites :failed) '())
          ;; CLISP's cross-referencer only knows the files that it was told to read.
          ((and (null sites) (implementation-p "CLISP")) :not-implemented)
          ((listp sites)
           (remove-if-not (lambda (site) (and (consp site) (consp (rest site)))) sites))
          (t :not-implemented))))
