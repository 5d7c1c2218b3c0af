;;; agent-q-progress-test.el --- How far calls are  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the line of a call that runs says of how far it is: files of a load, checks of tests,
;; the start of a second Lisp, files of a search.  The model that waits for it reads the same.

;;; Code:

(require 'agent-q-scratch)
(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-mcp)
(require 'agent-q-test-systems)

(setq agent-q-scratch-cache (expand-file-name "fasl/" agent-q-test-directory))

(defconst agent-q-progress-test--stop
  "(progn (setf (symbol-value 'cl-user::*aq-at*) t) (loop until (boundp 'cl-user::*aq-on*) do (sleep 0.02)))"
  "A form that waits until it may go on.")

(defun agent-q-progress-test--go-on (connection)
  "Let the form that waits in the image of CONNECTION go on."
  (agent-q-test-image-directly connection "(set 'cl-user::*aq-on* t)"))

(defun agent-q-progress-test--stop-again (connection)
  "Let the form wait again in the image of CONNECTION."
  (agent-q-test-image-directly connection "(progn (makunbound 'cl-user::*aq-on*) t)"))

(defun agent-q-progress-test--system ()
  "Make a system aq-far of four files, of which two wait; return its directory."
  (agent-q-test-systems-system
   "aq-far" `(("first" . "(in-package :cl-user)\n")
              ("second" . "(in-package :cl-user)\n")
              ("third" . ,(format "(in-package :cl-user)\n%s\n" agent-q-progress-test--stop))
              ("last" . ,(format "(in-package :cl-user)\n%s\n" agent-q-progress-test--stop)))))

(defun agent-q-progress-test--seen (words)
  "Wait until the line of a running call and the header say WORDS.
It is approved before."
  (agent-q-test-until (agent-q-call-waiting))
  (agent-q-test-answer "y")
  (agent-q-test-until
   (and (string-match-p (concat " running.*, " (regexp-quote words)) (agent-q-test-log))
        (string-match-p (concat "Running .*, " (regexp-quote words)) (agent-q-chat-view-header-line)))
   words))

(agent-q-test-image-on-each progress-a-load-counts-its-files ()
  "Those that it compiles or loads; what is there already doesn't count."
  (let ((directory (agent-q-progress-test--system)))
    (agent-q-test-systems-register connection directory)
    (agent-q-progress-test--stop-again connection)
    (agent-q-test-systems-in-project directory connection
      (agent-q-test-send "/load_system aq-far")
      (agent-q-progress-test--seen "3 of 4 files: third.lisp")
      (agent-q-progress-test--go-on connection)
      (agent-q-test-until (agent-q-test-idle-p))
      (should-not (string-match-p "of 4 files: " (agent-q-test-log)))
      ;; Only the last one, as the others are in the image.
      (agent-q-progress-test--stop-again connection)
      (set-file-times (expand-file-name "last.lisp" directory) (time-add nil 5))
      (agent-q-test-send "/load_system aq-far")
      (agent-q-progress-test--seen "1 of 1 file: last.lisp")
      (agent-q-progress-test--go-on connection)
      (agent-q-test-until (agent-q-test-idle-p))
      (agent-q-progress-test--stop-again connection)
      ;; Named files alone.
      (agent-q-test-send "/load_system files=\"[\\\"third.lisp\\\", \\\"last.lisp\\\"]\"")
      (agent-q-progress-test--seen "1 of 2 files: third.lisp")
      (agent-q-progress-test--go-on connection)
      (agent-q-test-until (agent-q-test-idle-p))
      ;; The forms of one file, but not those that are for other Lisps.
      (agent-q-progress-test--stop-again connection)
      (write-region (format "(in-package :cl-user)\n#+no-such (f)\n(defun aq-forms ())\n\
(eval-when (:compile-toplevel) %s)\n#| (f) |# (defun aq-forms-more ())\n" agent-q-progress-test--stop)
                    nil (expand-file-name "forms.lisp" directory) nil 'silent)
      (agent-q-test-send "/compile_file path=forms.lisp")
      (agent-q-progress-test--seen "3 of 4 forms")
      (agent-q-progress-test--go-on connection)
      (agent-q-test-until (agent-q-test-idle-p)))))

(agent-q-test-image-on-each progress-tests-count-their-checks ()
  "Those that failed are told at once."
  (agent-q-test-systems-need connection "fiveam")
  (agent-q-progress-test--stop-again connection)
  (agent-q-test-image-eval
   connection
   (format "(progn (defpackage :aq-far-tests (:use :cl)) (eval (read-from-string %S)) t)"
           (format "(5am:test aq-far-tests::sum (5am:is (= 2 2)) (5am:is (= 2 3)) %s (5am:is (= 1 1)))"
                   agent-q-progress-test--stop)))
  (agent-q-test-with-chat
    (agent-q-chat-set-connection connection)
    (agent-q-test-send "/run_tests test=aq-far-tests::sum")
    (agent-q-progress-test--seen "2 checks, 1 failed")
    (agent-q-progress-test--go-on connection)
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p "run_tests .*1 of 3 failed" (agent-q-test-log)))))

(agent-q-test-image-on-each progress-a-verification-tells-its-phases ()
  "A Lisp starts, loads, and tests."
  (let* ((directory (agent-q-progress-test--system)) (lines nil)
         (connect (symbol-function 'agent-q-connection-connect))
         (take (lambda ()
                 (when (string-match "verify_system .*, \\(.+\\)$" (agent-q-test-log))
                   (cl-pushnew (match-string 1 (agent-q-test-log)) lines :test #'equal)))))
    (with-temp-file (expand-file-name "third.lisp" directory)
      (insert "(eval-when (:load-toplevel) (sleep 1.5))\n"))
    (with-temp-file (expand-file-name "last.lisp" directory))
    (agent-q-test-systems-in-project directory connection
      ;; A Lisp that starts at once says nothing.
      (cl-letf (((symbol-function 'agent-q-connection-connect)
                 (lambda (&rest arguments) (apply #'run-at-time 1 nil connect arguments))))
        (agent-q-test-send "/verify_system")
        (agent-q-test-until (progn (when (agent-q-call-waiting) (agent-q-test-answer "y"))
                                   (funcall take)
                                   (agent-q-test-idle-p))))
      (should (member "starting a Lisp" lines))
      (should (member "3 of 4 files: third.lisp" lines)))))

(agent-q-test-image-on-each progress-is-told-to-a-model-that-waits ()
  "It asks what a call in the background does, and what its image is at."
  (let ((directory (agent-q-progress-test--system)))
    (agent-q-test-systems-register connection directory)
    (agent-q-progress-test--stop-again connection)
    (cl-letf (((symbol-function 'agent-q-connection-connections) (lambda () (list connection))))
      (agent-q-test-mcp-serving
        (let* ((client (agent-q-test-mcp-client))
               (ask (lambda (tool &rest arguments) (car (agent-q-test-mcp-call client tool arguments))))
               (begun (funcall ask "load_system" :system "aq-far" :background t))
               (id (progn (string-match "\\`pending: load_system (call_id \\([0-9]+\\)" begun)
                          (string-to-number (match-string 1 begun)))))
          (with-current-buffer (agent-q-test-mcp-buffer)
            (agent-q-test-until (agent-q-call-waiting))
            (agent-q-test-answer "y"))
          (agent-q-test-until
           (string-match-p "is running, .*\n<data-.*\nSo far: 3 of 4 files: third\\.lisp\n"
                           (funcall ask "await_call" :call_id id :seconds 0)))
          (should (string-match-p "load-system for [0-9]+ s (3 of 4 files: third\\.lisp)"
                                  (funcall ask "image_status")))
          (agent-q-progress-test--go-on connection)
          (should (string-match-p "Loaded aq-far" (funcall ask "await_call" :call_id id))))))))

(ert-deftest agent-q-progress-of-the-core-is-shown ()
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "grep_project" :arguments "{\"pattern\":\"f\"}")
    (agent-q-test-event :state :state :running)
    ;; Too early.
    (agent-q-test-event :call-progress :call 1 :text "1 of 2 files")
    (agent-q-test-event :call-started :call 1 :tool "grep_project")
    (agent-q-test-event :call-progress :call 1 :text "240 of 1,200 files")
    (should (agent-q-test-shows "grep_project f running, 240 of 1,200 files\n"))
    (should (string-match-p "Running grep_project, 240 of 1,200 files" (agent-q-chat-view-header-line)))
    ;; It moved lately, so it is not silent.
    (let ((call (gethash 1 agent-q-call-table)))
      (setf (agent-q-call-started call) (time-subtract nil 41))
      (agent-q-render-update-item call)
      (should (agent-q-test-shows "running 41 s, 240 of 1,200 files\n"))
      (setf (cdr (agent-q-call-progress call)) (time-subtract nil 30))
      (agent-q-render-update-item call)
      (should (agent-q-test-shows "running 41 s, 240 of 1,200 files, silent for 30 s\n")))
    (agent-q-test-event :call-progress :call 1 :text "")
    (should (agent-q-test-shows "running 41 s, no output\n"))))

(provide 'agent-q-progress-test)
;;; agent-q-progress-test.el ends here
