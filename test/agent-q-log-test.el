;;; agent-q-log-test.el --- A function of a hook that fails, fails alone and is told  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Code:

(require 'agent-q-test-tools)
(require 'agent-q-image-history)

(defvar agent-q-log-test-hook nil
  "The hook of these tests.")

(defmacro agent-q-log-test-telling (&rest body)
  "Run BODY with nothing told yet; return the lines of the log and the messages.
They are a cons of two lists, the first one first."
  (declare (indent 0) (debug t))
  `(let ((agent-q-module-log-failed nil)
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
      (agent-q-module-log-run-hook 'agent-q-log-test-hook 1 "two"))
    (should (equal '((behind 1 "two") (before 1 "two")) called))))

(ert-deftest agent-q-log-a-function-is-told-once ()
  "A function that fails with each call is named once, with the hook and the error."
  (let* ((agent-q-log-test-hook '(agent-q-log-test-fails))
         (told (agent-q-log-test-telling
                 (dotimes (_ 3)
                   (agent-q-module-log-run-hook 'agent-q-log-test-hook 1)))))
    (should (= 1 (length (car told))))
    (should (string-suffix-p
             "agent-q-log-test-fails failed, called for agent-q-log-test-hook: Out of luck"
             (caar told)))
    (should (equal '("agent-q: agent-q-log-test-fails failed (Out of luck); see *agent-q-log*")
                   (cdr told)))))

(agent-q-test-tools-on-each log-an-evaluation-is-recorded-all-the-same ()
  "What the agent evaluates is recorded though another function of the hook fails."
  (let ((agent-q-connection-call-ended-functions
         (list #'agent-q-log-test-fails #'agent-q-image-history-note-call)))
    (let ((told (agent-q-log-test-telling
                  (agent-q-test-tools-ask "/eval_form (+ 20 3)" chat))))
      (should (seq-some (lambda (line)
                          (string-match-p "agent-q-log-test-fails failed.*call-ended-functions" line))
                        (car told))))
    (should (equal "(+ 20 3)"
                   (agent-q-image-history-evaluation-form
                    (car (agent-q-image-history-evaluations
                          (agent-q-connection-process connection))))))))

;;;; The core's log

(defun agent-q-log-test--noted (level work)
  "Return what the core notes at LEVEL while the function WORK uses a chat."
  (let ((agent-q-log-level level)
        (before (if (file-exists-p agent-q-log-file)
                    (file-attribute-size (file-attributes agent-q-log-file))
                  0)))
    (agent-q-test-with-chat
      (unwind-protect
          (progn (agent-q-set-log-level)
                 (funcall work))
        (let ((agent-q-log-level 'info))
          (agent-q-set-log-level))))
    (with-temp-buffer
      (when (file-exists-p agent-q-log-file)
        (insert-file-contents agent-q-log-file nil before))
      (buffer-string))))

(ert-deftest agent-q-log-lines-name-the-turn-and-the-call ()
  "At the level `debug', a call has a line in the core's log that says whose it is; at `info' none."
  (let ((call (lambda () (agent-q-test-ask "/list_buffers"))))
    (should (string-match-p
             "turn{session=[0-9]+ turn=[0-9]+}:call{key=[0-9]+ tool=\"list_buffers\"}: ended outcome=Succeeded"
             (agent-q-log-test--noted 'debug call)))
    (should (equal "" (agent-q-log-test--noted 'info call)))))

(ert-deftest agent-q-log-a-failed-request-is-noted-with-its-causes ()
  "What made a connection fail is in the core's log to the last cause, without the URL."
  (let* ((agent-q-provider '(:name "nobody" :base-url "http://127.0.0.1:9/v1?key=hidden" :model "none"))
         (noted (agent-q-log-test--noted
                 'warn (lambda ()
                         (agent-q-test-send "Hello")
                         (agent-q-test-until (agent-q-test-shows "again"))
                         (agent-q-chat-send-cancel)
                         (agent-q-test-until (agent-q-test-idle-p))))))
    (should (string-match-p "request{model=\"none\"}: the connection failed: .*: .*refused" noted))
    (should-not (string-match-p "hidden" noted))))

(ert-deftest agent-q-log-levels-have-names ()
  "A level that there is none of is an error that names those there are."
  (agent-q-test-with-chat
    (let ((failure (should-error (agent-q-core-log-level "loud") :type 'agent-q-error)))
      (should (string-match-p "loud.*off, error, warn, info, debug and trace"
                              (error-message-string failure))))))

(provide 'agent-q-log-test)
;;; agent-q-log-test.el ends here
