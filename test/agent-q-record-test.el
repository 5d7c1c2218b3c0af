;;; agent-q-record-test.el --- What agent-q-mode remembers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The recorders on a real client: agent-q-test-ide (AGENT_Q_TEST_IDE) says
;; through which one, SLIME by default.

;;; Code:

(require 'ert)
(require 'agent-q)
(require 'agent-q-log)
(require 'agent-q-record)

(declare-function agent-q-test-image-connection "agent-q-test-image")
(declare-function agent-q-test-image-await "agent-q-test-image")

(defvar agent-q-test-ide (intern (or (getenv "AGENT_Q_TEST_IDE") "slime"))
  "The client that the tests go through.")

(defun agent-q-record-test--call (name &rest arguments)
  "Call the client's function called NAME with ARGUMENTS."
  (apply (intern (format "%s-%s" agent-q-test-ide name)) arguments))

(defun agent-q-record-test--find (kind pattern)
  "Wait for a record of KIND whose text matches PATTERN and return it."
  (agent-q-test-image-await
   (lambda ()
     (seq-find (lambda (record)
                 (and (eq (plist-get record :kind) kind)
                      (string-match-p pattern (plist-get record :text))))
               (agent-q-record-recent)))))

(ert-deftest agent-q-record-mode-is-light ()
  (unwind-protect
      (progn
        (agent-q-mode 1)
        (should-not (featurep 'agent-q-core))
        (should-not (featurep 'agent-q-chat))
        (should-not (agent-q-record-recent))
        (should-not (agent-q-record--sly-event '(:ping 1 2))))
    (agent-q-mode -1))
  (should-not (memq #'agent-q-record--sly (bound-and-true-p sly-connected-hook))))

(ert-deftest agent-q-record-events-never-reach-the-client-as-errors ()
  (unwind-protect
      ;; What can't be understood is told, which the runner would take for a failure.
      (let ((agent-q-log-failed nil))
        (agent-q-mode 1)
        (agent-q-record--slime)
        (dolist (event '((:emacs-rex 5) (:debug 1 2 (3)) (:return (:ok (:compilation-result . 5)) 1)
                         nil 7 (:write-string nil) (:emacs-rex (swank:interactive-eval . "x") nil t)))
          (should-not (agent-q-record--slime-event event)))
        (should-not (seq-remove (lambda (record) (stringp (plist-get record :text)))
                                (agent-q-record-recent))))
    (agent-q-mode -1)))

(ert-deftest agent-q-record-is-bounded ()
  (let ((agent-q-record-max 5))
    (unwind-protect
        (progn
          (agent-q-mode 1)
          (agent-q-record--slime)
          (dotimes (number 20)
            (agent-q-record--slime-event
             `(:emacs-rex (swank:interactive-eval ,(format "(f %d)" number))
                          "COMMON-LISP-USER" t)))
          (agent-q-record--slime-event
           `(:write-string ,(make-string 100000 ?x)))
          (should (= (length (agent-q-record-recent)) 5))
          (should (<= (length (plist-get (car (agent-q-record-recent)) :text))
                      2000))
          (should (equal (plist-get (nth 1 (agent-q-record-recent)) :text)
                         "(f 19)")))
      (agent-q-mode -1))))

(ert-deftest agent-q-record-what-a-user-does-in-a-real-client ()
  (require 'agent-q-test-image)
  (unwind-protect
      (progn
        (agent-q-mode 1)
        (skip-unless (agent-q-test-image-connection agent-q-test-ide))
        (agent-q-record-test--call "interactive-eval" "(list :eval 4711)")
        (should (agent-q-record-test--find 'evaluate ":eval 4711"))
        (with-temp-buffer
          (lisp-mode)
          (insert "(defun recorded (x) (car 5))")
          (agent-q-record-test--call "compile-defun")
          (should (agent-q-record-test--find 'compile "defun recorded"))
          ;; The client comes back to the buffer with what the compiler said.
          (should (agent-q-record-test--find 'compiled "warning"))))
    (agent-q-mode -1)))

(provide 'agent-q-record-test)
;;; agent-q-record-test.el ends here
