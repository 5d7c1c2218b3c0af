;;; agent-q-record-test.el --- What agent-q-mode remembers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The recorders on a real client: agent-q-test-ide (AGENT_Q_TEST_IDE) says
;; through which one, SLIME by default.

;;; Code:

(require 'ert)
(require 'agent-q-module)
(require 'agent-q-menu)
(require 'agent-q-image-history)
(require 'seq)

(declare-function agent-q-test-image-connection "agent-q-test-image")
(declare-function agent-q-test-image-await "agent-q-test-image")

(defvar agent-q-test-ide (intern (or (getenv "AGENT_Q_TEST_IDE") "slime"))
  "The client that the tests go through.")

(defun agent-q-record-test--call (name &rest arguments)
  "Call the client's function called NAME with ARGUMENTS."
  (apply (intern (format "%s-%s" agent-q-test-ide name)) arguments))

(defun agent-q-record-test--evaluated-p (pattern)
  "Whether a form that matches PATTERN was evaluated by the user."
  (seq-find (lambda (evaluation)
              (and (eq 'user (agent-q-image-history-evaluation-by evaluation))
                   (string-match-p pattern (agent-q-image-history-evaluation-form evaluation))))
            (agent-q-image-history-evaluations nil)))

(ert-deftest agent-q-record-mode-is-light ()
  (unwind-protect
      (progn
        (agent-q-mode 1)
        (should-not (featurep 'agent-q-core))
        (should-not (featurep 'agent-q-chat))
        (should-not (agent-q-image-history-evaluations nil))
        (should-not (agent-q-image-history--record-sly-event '(:ping 1 2))))
    (agent-q-mode -1))
  (should-not (memq #'agent-q-image-history--record-sly (bound-and-true-p sly-connected-hook))))

(ert-deftest agent-q-record-events-never-reach-the-client-as-errors ()
  (unwind-protect
      ;; What can't be understood is told, which the runner would take for a failure.
      (let ((agent-q-module-log-failed nil))
        (agent-q-mode 1)
        (agent-q-image-history--record-slime)
        (dolist (event '((:emacs-rex 5) (:debug 1 2 (3)) (:return (:ok (:compilation-result . 5)) 1)
                         nil 7 (:write-string nil) (:emacs-rex (swank:interactive-eval . "x") nil t)))
          (should-not (agent-q-image-history--record-slime-event event)))
        (should-not (seq-remove #'stringp (mapcar #'agent-q-image-history-evaluation-form
                                                  (agent-q-image-history-evaluations nil)))))
    (agent-q-mode -1)))

(ert-deftest agent-q-record-is-bounded ()
  (unwind-protect
      (progn
        (agent-q-mode 1)
        (agent-q-image-history--record-slime)
        (dotimes (number 200)
          (agent-q-image-history--record-slime-event
           `(:emacs-rex (swank:interactive-eval
                         ,(format "(f %d %s)" number (make-string 10000 ?x)))
                        "COMMON-LISP-USER" t ,number)))
        (let ((kept (agent-q-image-history-evaluations nil)))
          (should (= 100 (length kept)))
          (should (string-prefix-p "(f 199 " (agent-q-image-history-evaluation-form (car kept))))
          (should (<= (length (agent-q-image-history-evaluation-form (car kept))) 2000))))
    (agent-q-mode -1)))

(ert-deftest agent-q-record-what-a-user-does-in-a-real-client ()
  :tags '(:image)
  (require 'agent-q-test-image)
  (unwind-protect
      (progn
        (agent-q-mode 1)
        (skip-unless (agent-q-test-image-connection agent-q-test-ide))
        (agent-q-record-test--call "interactive-eval" "(list :eval 4711)")
        (should (agent-q-test-image-await
                 (lambda () (agent-q-record-test--evaluated-p ":eval 4711"))))
        (with-temp-buffer
          (lisp-mode)
          (insert "(defun recorded (x) (car 5))")
          (agent-q-record-test--call "compile-defun")
          ;; The client comes back to the buffer with what the compiler said.
          (let ((compilation (agent-q-test-image-await
                              (lambda () (agent-q-image-history-last-compilation nil)))))
            (should (string-match-p "defun recorded"
                                    (agent-q-image-history-compilation-what compilation)))
            (should (seq-some (lambda (note)
                                (string-match-p "warning" (plist-get note :severity)))
                              (agent-q-image-history-compilation-notes compilation))))))
    (agent-q-mode -1)))

;;;; Calls of programs

(defun agent-q-record-test--run (name &optional arguments)
  "Call the tool NAME with ARGUMENTS as a program does and return what it says."
  (agent-q-tool-result-content
   (car (agent-q-execute-tool-calls-sync
         (list (list :id "1" :name name :arguments arguments)) 60))))

(ert-deftest agent-q-record-without-mode-and-chat-the-calls-of-programs-are-kept ()
  :tags '(:image)
  (require 'agent-q-test-image)
  (should-not agent-q-mode)
  (let ((connection (agent-q-test-image-connection agent-q-test-ide))
        (agent-q-log-file (expand-file-name "core.log" (make-temp-file "agent-q-record" t))))
    (skip-unless connection)
    (set (intern (format "%s-default-connection" agent-q-test-ide))
         (agent-q-connection-process connection))
    (agent-q-image-history-forget)
    (should (string-match-p "No error" (agent-q-record-test--run "get_last_error")))
    (agent-q-record-test--run "eval_form" '(:form "(list :by-a-program 4711)"))
    (agent-q-record-test--run "eval_form" '(:form "(error \"boom ~a\" 4711)"))
    (agent-q-record-test--run "compile_form" '(:form "(defun aq-recorded () (car 4711))"))
    (let ((told (agent-q-record-test--run "get_last_error")))
      (should (string-match-p "\\`Signalled for you, by eval_form" told))
      (should (string-match-p "boom 4711" told)))
    (should (string-match-p "(list :by-a-program 4711)\n=> (:BY-A-PROGRAM 4711)"
                            (agent-q-record-test--run "get_repl_history")))
    (should (string-match-p "4711" (agent-q-record-test--run "get_compilation_notes")))
    ;; What the user does is nobody's business without the mode or a chat.
    (agent-q-record-test--call "interactive-eval" "(list :by-the-user 4711)")
    (agent-q-record-test--run "eval_form" '(:form "(list :after-that 4711)"))
    (should-not (seq-some (lambda (evaluation)
                            (string-match-p "by-the-user"
                                            (agent-q-image-history-evaluation-form evaluation)))
                          (agent-q-image-history-evaluations nil)))
    ;; The mode forgets what it brought, and no more.
    (agent-q-mode 1)
    (unwind-protect
        (progn
          (agent-q-record-test--call "interactive-eval" "(list :of-the-user 4711)")
          (agent-q-test-image-await
           (lambda () (string-match-p ":of-the-user" (agent-q-record-test--run
                                                      "get_repl_history")))))
      (agent-q-mode -1))
    (let ((told (agent-q-record-test--run "get_repl_history")))
      (should (string-match-p ":after-that" told))
      (should-not (string-match-p ":of-the-user" told)))
    (agent-q-record-test--run "eval_form" '(:form "(list :last 4711)"))
    (should (string-match-p "(list :last 4711)" (agent-q-record-test--run "get_repl_history")))))

(provide 'agent-q-record-test)
;;; agent-q-record-test.el ends here
