;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; RT, Fiasco and 1AM, which keep no results: we observe the functions that each check calls. An
;;; entry is made at once and noted.

(cl:in-package "AGENT-Q-IMAGE")

(defun noted-entries (entry surroundings package)
  (declare (ignore surroundings package))
  (list entry))

;;; RT, which SBCL includes as SB-RT

(defun rt-entry (package entry text)
  "The outcome of ENTRY, a test that printed TEXT."
  (let ((name (own-call package "NAME" entry))
        (form (guarded (lambda () (own-call package "FORM" entry)) (constantly nil)))
        (pending (own-call package "PEND" entry)))
    (list :status (cond ((not pending) "passed")
                        ((member name (own-value package "*EXPECTED-FAILURES*") :test #'equal)
                         "skipped")
                        (t "failed"))
          :test (test-name name)
          :expression (and pending (short form))
          :reason (and pending
                       (shortened (let ((start (search "Expected value" text)))
                                    (if start (subseq text start) text))
                                  600)))))

(defun rt-do-entry (package note original entry &optional stream)
  (declare (ignore stream))
  (let* ((text (make-string-output-stream))
         (result (funcall original entry text)))
    (funcall note (rt-entry package entry (get-output-stream-string text)))
    result))

(defun rt-do-entries (package note original stream)
  "Run all pending tests, without printing their names to STREAM."
  (declare (ignore package note stream))
  (funcall original (make-broadcast-stream)))

(defun rt-names (package)
  (loop for entry in (rest (own-value package "*ENTRIES*"))
        for name = (own-call package "NAME" entry)
        when (and name (symbolp name)) collect name))

(defun rt-runner (target package)
  (when (and (symbolp target) (member target (rt-names package)))
    (lambda () (own-call package "DO-TEST" target))))

;;; Fiasco

(defun fiasco-test-name (package)
  (let ((test (own-value package "*CURRENT-TEST*")))
    (and test (test-name (own-call package "NAME-OF" test)))))

(defun fiasco-passed (package note original &rest arguments)
  (funcall note (list :status "passed" :test (fiasco-test-name package)))
  (apply original arguments))

(defun fiasco-failed (package note original type &rest arguments)
  (let ((condition (getf arguments :error))
        (observed (getf arguments :observed-condition))
        (control (getf arguments :format-control)))
    (funcall note
             (list :status (cond ((own-value package "*FAILURES-AND-ERRORS-ARE-EXPECTED*") "skipped")
                                 (condition "error")
                                 (t "failed"))
                   :test (fiasco-test-name package)
                   :expression (and (getf arguments :form) (short (getf arguments :form)))
                   :reason (guarded
                            (lambda ()
                              (cond (condition (condition-message condition))
                                    (observed (condition-message observed))
                                    (control (short (apply #'format nil control
                                                           (getf arguments :format-arguments))
                                                    600))
                                    (t (format nil "~A: ~A" (string-downcase (symbol-name type))
                                               (short (getf arguments
                                                            :expected-condition-type))))))
                            (constantly nil))))
    (apply original type arguments)))

(defun fiasco-skipped (package note original &rest arguments)
  (funcall note (list :status "skipped" :test (fiasco-test-name package)))
  (apply original arguments))

(defun fiasco-runner (target package)
  (cond ((packagep target)
         (when (gethash target (own-value package "*PACKAGE-BOUND-SUITES*"))
           (lambda () (own-call package "RUN-PACKAGE-TESTS" :package target))))
        ((gethash target (own-value package "*TESTS*"))
         (lambda () (funcall target)))))

(defun fiasco-names (package)
  (loop for name being the hash-keys of (own-value package "*TESTS*")
        when (symbolp name) collect name))

(defun fiasco-inner (suite package)
  (table-keys (own-slot (gethash suite (own-value package "*TESTS*")) package "CHILDREN")))

(defun fiasco-quiet (package)
  (own-bindings package
                "*DEBUG-ON-UNEXPECTED-ERROR*" nil "*DEBUG-ON-ASSERTION-FAILURE*" nil
                "*PRINT-TEST-RUN-PROGRESS*" nil))

;;; 1AM

(defvar *one-am-test* nil
  "The name of the running 1AM test.")

(defun one-am-test (package note original name function)
  "Run the test NAME. An error in it, such as a failed check, ends the whole run."
  (declare (ignore package))
  (let ((*one-am-test* (test-name name)))
    (handler-bind ((error (lambda (condition)
                            (funcall note (list :status "failed" :test *one-am-test*
                                                :reason (condition-message condition))))))
      (funcall original name function))))

(defun one-am-passed (package note original)
  (declare (ignore package))
  (funcall note (list :status "passed" :test *one-am-test*))
  (funcall original))

(defun one-am-names (package)
  (own-value package "*TESTS*"))

(defun one-am-runner (target package)
  (when (and (symbolp target) (member target (one-am-names package)))
    (lambda () (own-call package "RUN" (list target)))))
