;;; agent-q-time-and-memory-test.el --- Calls that take too much  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a model is told of a call that takes too long, or fills the heap, and that the image lives on.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)

(agent-q-test-tools-on-each time-and-memory-a-time-out-says-where-it-was ()
  "With the frames of the program, a place where one is known, and what was allocated."
  (let ((file (make-temp-file (expand-file-name "slow" agent-q-test-directory) nil ".lisp"
                              "(in-package :cl-user)\n\n(defun aq-spin (n)\n  (loop (setf n (list (first n) n)) (setf n (list (first n))) (when (null n) (return))))\n\n(defun aq-slow () (1+ (aq-spin (list 1))))\n")))
    (agent-q-test-image-directly connection (format "(load (compile-file %S))" file))
    (let ((answer (agent-q-test-tools-ask "/eval_form timeout=0.5 (aq-slow)")))
      (should (string-match-p "\\`Stopped before finishing: timed out after 0.5 s (the image allocated [0-9.]+ [MG]B in that time)\\.\nin (aq-slow)\nIt was in, innermost first:\n"
                              answer))
      (should (string-match-p "^  (AQ-SPIN .*\\[.*slow.*\\.lisp:4\\]$" answer))
      (should-not (string-match-p "foreign function\\|INTERRUPT\\|AGENT-Q-IMAGE\\|SWANK\\|SLYNK" answer))
      (should (<= (length (split-string answer "\n")) 12)))))

(agent-q-test-tools-on-each time-and-memory-a-time-out-parks-on-request ()
  "Its variables can be seen then, and it can go on."
  (agent-q-test-image-values connection "(defvar cl-user::*aq-on* nil)")
  (agent-q-test-image-values
   connection "(defun cl-user::aq-wait (llen) (declare (optimize (debug 3))) (let ((i 7)) (loop until cl-user::*aq-on* do (sleep 0.01)) (list i llen)))")
  ;; In a new image, what comes before the program's code may take as long.
  (should (equal "=> 3" (agent-q-test-tools-ask "/eval_form (+ 1 2)")))
  (let ((answer (agent-q-test-tools-ask "/eval_form timeout=0.5 on_error=park (cl-user::aq-wait 41)")))
    (should (string-match "\\`Error TOOK-TOO-LONG: It ran for 0.5 s" answer))
    (should (string-match "parked as debugger \\(d[0-9]+\\)" answer))
    (let* ((name (match-string 1 answer))
           (frames (agent-q-test-tools-ask (format "/debugger_frames debugger=%s locals=true" name))))
      (should (string-match-p "AQ-WAIT" frames))
      (should (string-match-p "LLEN = 41" frames))
      (agent-q-test-image-values connection "(setf cl-user::*aq-on* t)")
      (should (string-match-p "=> (7 41)"
                              (agent-q-test-tools-ask
                               (format "/invoke_restart debugger=%s CONTINUE" name)))))))

(agent-q-test-tools-on-each time-and-memory-a-full-heap-stops-the-call ()
  "Before it costs the image, in which what the call made is garbage then."
  (let ((small (agent-q-test-image-another
                client '("sbcl" "--dynamic-space-size" "300MB" "--no-userinit" "--no-sysinit"))))
    (unwind-protect
        (progn
          (agent-q-chat-set-connection small)
          (dolist (form '("(let ((all '())) (loop (push (make-array 10000) all)))"
                          "(let ((list (list))) (loop for i from 0 do (push (cons i (make-list 3)) list)))"))
            (let ((answer (agent-q-test-tools-unasked
                            (agent-q-test-tools-ask (concat "/eval_form timeout=30 " form)))))
              (should (string-match-p "\\`Stopped before finishing: it used [0-9]+ MB of a heap of 300 MB.*; continuing would have killed the image\\.$"
                                      answer))
              (should (equal "=> 3" (agent-q-test-tools-ask "/eval_form (+ 1 2)")))
              (should (equal "=> T" (agent-q-test-tools-ask
                                     "/eval_form (< (sb-kernel:dynamic-usage) (* 0.4 (sb-ext:dynamic-space-size)))"))))))
      (agent-q-chat-set-connection connection)
      (agent-q-test-image-kill small))))

(agent-q-test-tools-on-each time-and-memory-garbage-and-big-vectors-are-no-reason ()
  "A heap that is half full of them is no danger."
  (let ((small (agent-q-test-image-another
                client '("sbcl" "--dynamic-space-size" "512MB" "--no-userinit" "--no-sysinit"))))
    (unwind-protect
        (progn
          (agent-q-chat-set-connection small)
          (should (string-match-p
                   "=> :DONE\\'"
                   (agent-q-test-tools-ask
                    "/eval_form timeout=60 (let ((ring (make-array 400 :initial-element nil))) (dotimes (i 20000) (setf (svref ring (mod i 400)) (make-array 10000))) :done)")))
          (should (string-match-p
                   "=> 20000000\\'"
                   (agent-q-test-tools-ask
                    "/eval_form timeout=60 (let ((big (make-array 20000000))) (dotimes (i 3000000) (setf (svref big 0) (list i))) (length big))"))))
      (agent-q-chat-set-connection connection)
      (agent-q-test-image-kill small))))

(provide 'agent-q-time-and-memory-test)
;;; agent-q-time-and-memory-test.el ends here
