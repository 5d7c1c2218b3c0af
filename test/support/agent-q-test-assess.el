;;; agent-q-test-assess.el --- Forms for the tests of assessments  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The forms in fixtures/assess/, a text on each line; CLIENT there stands for the
;; package of the client's server, HARM for a file.  And what an image makes of
;; them when it looks at them.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defconst agent-q-test-assess-fixtures
  (expand-file-name "test/fixtures/assess/" agent-q-test-root)
  "Where the forms are.")

(defun agent-q-test-assess-fixture (name)
  "Return the text of the fixture NAME."
  (with-temp-buffer
    (insert-file-contents (expand-file-name name agent-q-test-assess-fixtures))
    (buffer-string)))

(defun agent-q-test-assess-harm ()
  "Return the name of a file that only a form that ran could have made."
  (expand-file-name "harm" agent-q-test-directory))

(defun agent-q-test-assess-fixture-forms (name connection)
  "Return the texts in the fixture NAME for the image behind CONNECTION."
  (let ((case-fold-search nil))
    (mapcar (lambda (line)
              (thread-last line
                           (replace-regexp-in-string
                            "CLIENT" (if (eq 'sly (agent-q-connection-client connection))
                                         "slynk" "swank"))
                           (string-replace "HARM" (agent-q-test-assess-harm))))
            (split-string (agent-q-test-assess-fixture name) "\n" t))))

(defvar agent-q-test-assess-prepared nil
  "The connections whose image has the program of the fixtures.")

(defun agent-q-test-assess-prepare (connection)
  "Have the program of the fixtures in the image behind CONNECTION."
  (unless (member connection agent-q-test-assess-prepared)
    (push connection agent-q-test-assess-prepared)
    (agent-q-test-image-values connection (agent-q-test-assess-fixture "project.lisp")))
  (agent-q-test-image-values connection "(setf shop::*harm* nil)"))

(defun agent-q-test-assess-form (connection form &rest arguments)
  "Return what assessing FORM over CONNECTION with more ARGUMENTS gives."
  (apply #'agent-q-test-image-value connection "assess-form" :form form arguments))

(defun agent-q-test-assess-stopped (connection form settled &optional operation)
  "Return why running FORM over CONNECTION is stopped, if it is.
Its first SETTLED forms are taken to be what they were.  OPERATION is
eval-form unless it is another."
  (let ((reply (agent-q-test-image-reply connection (or operation "eval-form")
                                         :form form :assessed settled)))
    (and (eq :error (plist-get reply :outcome))
         (equal "NOT-RUN" (plist-get reply :type))
         (plist-get reply :message))))

(defun agent-q-test-assess-hit-p (connection form)
  "Whether FORM would not run over CONNECTION without asking."
  (let ((value (agent-q-test-assess-form connection form)))
    (or (plist-get value :hits)
        (and (plist-get value :more)
             (agent-q-test-assess-stopped connection form
                                          (plist-get value :settled))))))

(defmacro agent-q-test-assess-before (&rest body)
  "Run BODY where code is looked at before it runs, as in a Lisp without a watch."
  (declare (indent 0) (debug t))
  `(cl-letf (((symbol-function 'agent-q-image-threads-watched-p) #'ignore))
     ,@body))

(defun agent-q-test-assess-steps-p (value)
  "Whether VALUE, an assessment, is of forms that are looked at again."
  (or (plist-get value :more)
      (< (plist-get value :settled) (plist-get value :assessed))))

(defun agent-q-test-assess-alarms (connection forms)
  "Return those of FORMS that are asked about over CONNECTION, each with why.
What is looked at again in its turn is run; how much that is comes first."
  (let ((alarms nil)
        (steps 0))
    (dolist (form forms (cons steps alarms))
      (let* ((value (agent-q-test-assess-form connection form))
             (why (or (plist-get value :hits)
                      (and (agent-q-test-assess-steps-p value)
                           (cl-incf steps)
                           (agent-q-test-assess-stopped connection form
                                                        (plist-get value :settled))))))
        (when why (push (cons form why) alarms))))))

(provide 'agent-q-test-assess)
;;; agent-q-test-assess.el ends here
