;;; agent-q-generated-test.el --- No generated form changes a file  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Forms out of a grammar run in an image, many in a call, where the call is
;; approved and all that it reaches for is denied: the files around must be as
;; before then, byte for byte, and the image must answer.  Where all is allowed,
;; most of the same forms do change them, or the test would show nothing.
;;
;; AGENT_Q_FORMS says how many forms, AGENT_Q_SEED which.  Without them each run takes the same forms:
;; what it finds is then the fault of a change.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-forms)
(require 'agent-q-test-image)
(require 'agent-q-execute)

(defconst agent-q-generated-test--batch 20
  "How many forms there are in a call.")

(defun agent-q-generated-test--number (variable default)
  "Return the number that is in the environment's VARIABLE, or DEFAULT."
  (let ((text (getenv variable)))
    (if text (string-to-number text) default)))

(defun agent-q-generated-test--tree ()
  "Return the name of the directory that the forms are about."
  (expand-file-name "made/" (file-truename agent-q-test-directory)))

(defun agent-q-generated-test--text (file)
  "Return the text of FILE of the fixtures."
  (with-temp-buffer
    (insert-file-contents (expand-file-name file (expand-file-name "test/fixtures/" agent-q-test-root)))
    (buffer-string)))

(defun agent-q-generated-test--connect (client)
  "Return a connection through CLIENT to a new image that has the program."
  (let ((connection (agent-q-test-image-another client)))
    (dolist (file '("effects/program.lisp" "watch/generated.lisp"))
      (agent-q-test-image-values connection (agent-q-generated-test--text file)))
    (agent-q-test-image-directly connection
                                 (format "(setf made:*tree* %S)" (agent-q-generated-test--tree)))
    connection))

(defun agent-q-generated-test--plant (connection)
  "Make the files, with one that the image behind CONNECTION compiles."
  (let ((tree (agent-q-generated-test--tree)))
    (agent-q-test-forms-plant tree)
    (agent-q-test-image-directly
     connection "(let ((*error-output* (make-broadcast-stream)) (*standard-output* (make-broadcast-stream)))
                   (compile-file (made:file \"harm.lisp\")))")
    (agent-q-test-forms-look tree)))

(defun agent-q-generated-test--changed (before)
  "Return the names of the files that are not as in BEFORE."
  (agent-q-test-forms-differences
   before (agent-q-test-forms-look (agent-q-generated-test--tree))))

(defun agent-q-generated-test--run (forms answer)
  "Run FORMS, conses of a number and a text, in one call; effects get ANSWER.
What is asked about code itself may run: it is the effects that are tried."
  (let ((agent-q-approval-handler
         (lambda (tool _arguments)
           (let ((name (agent-q-tool-name tool)))
             (if (and (string-prefix-p "effect/" name) (not (equal "effect/run_form" name)))
                 answer
               :approved)))))
    (agent-q-execute-tool-calls-sync
     (list (list :id "c" :name "eval_form"
                 :arguments
                 (list :form (mapconcat (pcase-lambda (`(,number . ,text))
                                          (format "(made:attempt %d %s)" number text))
                                        forms "\n"))))
     60)))

(defun agent-q-generated-test--guilty (connection forms)
  "Return those of FORMS that change a file alone behind CONNECTION, and which."
  (cl-loop for form in forms
           for before = (agent-q-generated-test--plant connection)
           do (agent-q-generated-test--run (list form) '(:denied "no"))
           for changed = (agent-q-generated-test--changed before)
           when changed collect (cons (cdr form) changed)))

(defun agent-q-generated-test--harm (connection forms)
  "Run FORMS behind CONNECTION with everything denied; return what did harm."
  (let ((before (agent-q-generated-test--plant connection))
        (harm nil))
    (dolist (batch (seq-partition forms agent-q-generated-test--batch))
      (agent-q-generated-test--run batch '(:denied "no"))
      (when (agent-q-generated-test--changed before)
        (push (or (agent-q-generated-test--guilty connection batch)
                  (cons "Together:" batch))
              harm)
        (setq before (agent-q-generated-test--plant connection))))
    ;; A thread that outlived its call would still be at work.
    (accept-process-output nil 0.2)
    (when (agent-q-generated-test--changed before) (push "later" harm))
    harm))

(defun agent-q-generated-test--answers-p (connection)
  "Whether the image behind CONNECTION still answers."
  (equal "3" (agent-q-test-image-directly connection "(+ 1 2)")))

(defun agent-q-generated-test--forms (count)
  "Return COUNT forms or as many as are wanted, numbered, and tell their seed."
  (let ((seed (agent-q-generated-test--number "AGENT_Q_SEED" 20261124))
        (count (agent-q-generated-test--number "AGENT_Q_FORMS" count)))
    (message "AGENT_Q_SEED=%d AGENT_Q_FORMS=%d" seed count)
    (cl-loop for text in (agent-q-test-forms-make seed count)
             for number from 1
             collect (cons number text))))

(defmacro agent-q-generated-test--on-each (name docstring &rest body)
  "Define a test NAME for each client with DOCSTRING.
In BODY, CONNECTION is a new image with the program."
  (declare (indent 1) (doc-string 2) (debug t))
  `(progn
     ,@(mapcar
        (lambda (client)
          `(ert-deftest ,(intern (format "agent-q-%s/%s" name client)) ()
             ,docstring
             :tags '(:image ,(intern (format ":%s" client)))
             (unless (agent-q-test-image-connection ',client)
               (ert-skip (format "No SBCL through %s" ',client)))
             (let ((connection (agent-q-generated-test--connect ',client)))
               (unwind-protect
                   ;; Where both clients have a connection, SLY's is the default one.
                   (cl-letf (((symbol-function 'agent-q-connection-default-connection)
                              (lambda () connection)))
                     ,@body)
                 (agent-q-test-image-kill connection)
                 (delete-directory (agent-q-generated-test--tree) t)))))
        (agent-q-test-image-clients name))))

(agent-q-generated-test--on-each generated-forms-change-no-file
  "Where every effect is denied no generated form changes anything in a tree of files."
  (let* ((forms (agent-q-generated-test--forms 200))
         (harm (agent-q-generated-test--harm connection forms)))
    (should-not harm)
    (should (agent-q-generated-test--answers-p connection))
    (should-not (agent-q-test-image-debugged))
    ;; A form that leaves the call takes those after it along.
    (should (>= (* 10 (string-to-number
                       (agent-q-test-image-directly connection "(length (remove-duplicates made:*begun*))")))
                (* 8 (length forms))))))

(agent-q-generated-test--on-each generated-forms-change-files-where-they-may
  "Where everything is allowed most generated forms do change something."
  (let* ((forms (agent-q-generated-test--forms 40))
         (idle (cl-loop for form in forms
                        for before = (agent-q-generated-test--plant connection)
                        do (agent-q-generated-test--run (list form) :approved)
                        unless (agent-q-generated-test--changed before) collect (cdr form))))
    (when (getenv "AGENT_Q_FORMS") (message "Changed nothing:\n%s" (string-join idle "\n")))
    (should (<= (* 2 (length idle)) (length forms)))))

(provide 'agent-q-generated-test)
;;; agent-q-generated-test.el ends here
