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
  (let ((name (framework-call package "NAME" entry))
        (form (guarded (lambda () (framework-call package "FORM" entry)) (constantly nil)))
        (pending (framework-call package "PEND" entry)))
    (list :status (cond ((not pending) "passed")
                        ((member name (framework-value package "*EXPECTED-FAILURES*") :test #'equal)
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
  (loop for entry in (rest (framework-value package "*ENTRIES*"))
        for name = (framework-call package "NAME" entry)
        when (and name (symbolp name)) collect name))

(defun rt-runner (target package)
  (when (and (symbolp target) (member target (rt-names package)))
    (lambda () (framework-call package "DO-TEST" target))))

;;; Fiasco

(defun fiasco-test-name (package)
  (let ((test (framework-value package "*CURRENT-TEST*")))
    (and test (test-name (framework-call package "NAME-OF" test)))))

(defun fiasco-passed (package note original &rest arguments)
  (funcall note (list :status "passed" :test (fiasco-test-name package)))
  (apply original arguments))

(defun fiasco-failed (package note original type &rest arguments)
  (let ((condition (getf arguments :error))
        (observed (getf arguments :observed-condition))
        (control (getf arguments :format-control)))
    (funcall note
             (list :status (cond ((framework-value package "*FAILURES-AND-ERRORS-ARE-EXPECTED*") "skipped")
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
         (when (gethash target (framework-value package "*PACKAGE-BOUND-SUITES*"))
           (lambda () (framework-call package "RUN-PACKAGE-TESTS" :package target))))
        ((gethash target (framework-value package "*TESTS*"))
         (lambda () (funcall target)))))

(defun fiasco-names (package)
  (loop for name being the hash-keys of (framework-value package "*TESTS*")
        when (symbolp name) collect name))

(defun fiasco-inner (suite package)
  (table-keys (framework-slot (gethash suite (framework-value package "*TESTS*")) package "CHILDREN")))

(defun fiasco-quiet (package)
  (framework-bindings package
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
  (framework-value package "*TESTS*"))

(defun one-am-runner (target package)
  (when (and (symbolp target) (member target (one-am-names package)))
    (lambda () (framework-call package "RUN" (list target)))))
