;;; agent-q-log-test.el --- A function of a hook that fails, fails alone and is told  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'agent-q-test-tools)
(require 'agent-q-past)
(require 'agent-q-record)

(defvar agent-q-log-test-hook nil
  "The hook of these tests.")

(defmacro agent-q-log-test-telling (&rest body)
  "Run BODY with nothing told yet; return the lines of the log and the messages.
They are a cons of two lists, the first one first."
  (declare (indent 0) (debug t))
  `(let ((agent-q-log-failed nil)
         (said nil))
     (with-current-buffer (get-buffer-create "*agent-q-log*")
       (let ((inhibit-read-only t))
         (erase-buffer)))
     (cl-letf (((symbol-function 'message)
                (lambda (&rest words) (when (car words) (push (apply #'format-message words) said)))))
       ,@body)
     (cons (with-current-buffer "*agent-q-log*"
             (split-string (buffer-string) "\n" t))
           (reverse said))))

(defun agent-q-log-test-fails (&rest _)
  "Fail."
  (error "Out of %s" "luck"))

(ert-deftest agent-q-log-each-function-fails-alone ()
  "The functions before and behind one that fails are called, with all arguments."
  (let* ((called nil)
         (agent-q-log-test-hook (list (lambda (&rest arguments) (push (cons 'before arguments) called))
                                      #'agent-q-log-test-fails
                                      (lambda (&rest arguments) (push (cons 'behind arguments) called)))))
    (agent-q-log-test-telling
      (agent-q-log-run-hook 'agent-q-log-test-hook 1 "two"))
    (should (equal '((behind 1 "two") (before 1 "two")) called))))

(ert-deftest agent-q-log-a-function-is-told-once ()
  "A function that fails with each call is named once, with the hook and the error."
  (let* ((agent-q-log-test-hook '(agent-q-log-test-fails))
         (told (agent-q-log-test-telling
                 (dotimes (_ 3)
                   (agent-q-log-run-hook 'agent-q-log-test-hook 1)))))
    (should (= 1 (length (car told))))
    (should (string-suffix-p
             "agent-q-log-test-fails failed, called for agent-q-log-test-hook: Out of luck"
             (caar told)))
    (should (equal '("agent-q: agent-q-log-test-fails failed (Out of luck); see *agent-q-log*")
                   (cdr told)))))

(agent-q-test-tools-on-each log-an-evaluation-is-recorded-all-the-same ()
  "What the agent evaluates is recorded though another function of the hook fails."
  (let ((agent-q-image-ended-functions
         (list #'agent-q-log-test-fails #'agent-q-past-note-call)))
    (let ((told (agent-q-log-test-telling
                  (agent-q-test-tools-ask "/eval_form (+ 20 3)" chat))))
      (should (seq-some (lambda (line)
                          (string-match-p "agent-q-log-test-fails failed.*image-ended-functions" line))
                        (car told))))
    (should (equal "(+ 20 3)"
                   (agent-q-past-evaluation-form
                    (car (agent-q-past-evaluations
                          (agent-q-image-connection-process connection))))))))

(provide 'agent-q-log-test)
;;; agent-q-log-test.el ends here
