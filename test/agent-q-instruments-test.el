;;; agent-q-instruments-test.el --- Tests of what measures and looks into threads  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Comparing and profiling forms, threads with what they are in, the output of
;; threads that a call starts, one method traced, and the sources of systems
;; searched, through core and chat on real SLIME and SLY.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-test-systems)

(defconst agent-q-instruments-test-program
  "(defpackage :aq-hot (:use :cl)) (in-package :aq-hot)
(defclass shape () ()) (defclass circle (shape) ())
(defgeneric area (shape))
(declaim (notinline burn))
(defun burn (n) (if (< n 2) n (+ (burn (- n 1)) (burn (- n 2)))))
(defmethod area ((shape shape)) (values (burn 20)))
(defmethod area ((shape circle)) (1+ (call-next-method)))
(defmethod area :around ((shape circle)) (values (call-next-method)))
(defun work () (values (area (make-instance 'circle))))
(defun wait (gate) (list (sb-thread:wait-on-semaphore gate)))"
  "A program that spends its time in known places.")

(defun agent-q-instruments-test-load (connection)
  "Load the program from a file behind CONNECTION; return the file."
  (let ((file (expand-file-name "aq-hot.lisp" agent-q-test-directory)))
    (write-region agent-q-instruments-test-program nil file nil 'silent)
    (should (eq :returned (plist-get (agent-q-test-image-eval
                                      connection (format "(load (compile-file %S))" file))
                                     :outcome)))
    file))

(agent-q-test-tools-on-each instruments-compares ()
  "Alternatives are measured side by side, and it is told whether their values differ."
  (agent-q-test-tools-ask "/eval_form (defparameter *aq-list* (loop for i below 1000 collect i))")
  (let ((told (agent-q-test-tools-ask
               "/compare_forms (loop for it in *aq-list* sum it) (reduce #'+ (mapcar #'list *aq-list*) :key #'first)")))
    (should (string-match-p "\\`1\\. [0-9.]+ [µm]s (1\\.00 x), [^:]+ allocated: (loop for it" told))
    (should (string-match-p "\n2\\. [0-9.]+ [µm]s ([0-9.]+ x), [0-9.]+ KB allocated: (reduce " told))
    (should (string-match-p "\nAll have the same values (equalp): 499500\\'" told)))
  (let ((told (agent-q-test-tools-ask
               "/compare_forms (progn (print :once) 1) (values 1 2) (error \"oops ~a\" 7)")))
    (should (string-match-p "\n3\\. not measured: (error .*\n   SIMPLE-ERROR: oops 7\n" told))
    (should (string-match-p "^THE VALUES DIFFER (not equalp):\n  1 => 1\n  2 => 1, 2\n" told))
    ;; The first run alone is heard.
    (should (string-match-p "^Output:\n:ONCE\\'" told)))
  (should (string-match-p "\\`Stopped before finishing: timed out after 1 s.*\nin (loop)"
                          (agent-q-test-tools-ask "/compare_forms timeout=1 1 (loop)")))
  (should (equal "The text contains no form." (agent-q-test-tools-ask "/compare_forms ; none"))))

(agent-q-test-tools-on-each instruments-profiles ()
  "A profile has the program's functions with their places, and nothing of ours."
  (let ((file (agent-q-instruments-test-load connection)))
    (dolist (case '(("/profile_form (aq-hot::work)" . "\\`[0-9]+ samples in .* of CPU time, .* in all: [0-9]+ runs of ")
                    ;; What doesn't end is profiled until it is stopped.
                    ("/profile_form timeout=4 (loop (aq-hot::work))"
                     . "\\`Stopped before finishing: timed out after 4 s[^z-a]*: a run that did not end")))
      (let ((told (agent-q-test-tools-ask (car case))))
        (ert-info (told)
          (should (string-match-p (cdr case) told))
          (should (string-match-p (format "^ *[0-9]+ %%  *\\(?:9[0-9]\\|100\\) %%  AQ-HOT::BURN  %s:5$"
                                          (regexp-quote file))
                                  told))
          (should (string-match-p (format "\\(?: 9[0-9]\\|100\\) %%  AQ-HOT::WORK  %s:9$" (regexp-quote file)) told))
          (should (string-match-p "  (METHOD AQ-HOT::AREA (AQ-HOT::SHAPE))  .*:6$" told))
          (should-not (string-match-p "AGENT-Q-IMAGE\\|SLYNK\\|SWANK\\|SB-EVAL" told))))))
  (should (string-match-p "\\`Error DIVISION-BY-ZERO"
                          (agent-q-test-tools-ask "/profile_form (/ 1 (length nil))")))
  ;; A thread that sleeps is seen there, if at all.
  (should (string-match-p "too little CPU time to say where\\|100 %  foreign function clock_nanosleep"
                          (agent-q-test-tools-ask "/profile_form (sleep 0.2)"))))

(agent-q-test-tools-on-each instruments-asks-about-effects ()
  "Code that is measured is met by the watch, as evaluated code is."
  (let ((file (make-temp-file (expand-file-name "aq-kept" agent-q-test-directory))))
    (dolist (tool '("compare_forms" "profile_form"))
      (agent-q-test-send (format "/%s (delete-file %S)" tool file))
      (agent-q-test-until (agent-q-test-shows "waits for your answer"))
      (should (file-exists-p file))
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (file-exists-p file)))))

(agent-q-test-tools-on-each instruments-tells-of-threads ()
  "Threads are told with what they wait in and the functions that they are in."
  (agent-q-instruments-test-load connection)
  (agent-q-test-image-eval
   connection
   "(defvar cl-user::*aq-gate* (sb-thread:make-semaphore))
    (sb-thread:make-thread #'aq-hot::wait :name \"aq waiter\" :arguments (list cl-user::*aq-gate*))
    (sb-thread:make-thread (lambda () (loop (aq-hot::work))) :name \"aq burner\")")
  (let ((told (agent-q-test-tools-ask "/image_status part=threads")))
    (should (string-match-p "\\`[0-9]+ threads:\n  " told))
    (should (string-match-p "^  aq waiter in sb-thread:[a-z-]+: .*AQ-HOT::WAIT$" told))
    (should (string-match-p "^  aq burner.*: .*AQ-HOT::" told)))
  (should (string-match-p "\\`1 thread:\n  aq burner.*AQ-HOT::WORK"
                          (agent-q-test-tools-ask "/image_status thread=BURNER")))
  (agent-q-test-image-eval
   connection
   "(sb-thread:signal-semaphore cl-user::*aq-gate*)
    (dolist (it (sb-thread:list-all-threads))
      (when (search \"aq burner\" (sb-thread:thread-name it)) (sb-thread:terminate-thread it)))
    (loop while (find-if (lambda (it) (search \"aq \" (or (sb-thread:thread-name it) \"\")))
                         (sb-thread:list-all-threads))
          do (sleep 0.02))")
  (should (string-match-p "\\`No thread has a name with aq waiter in it, or it has ended; there are "
                          (agent-q-test-tools-ask "/image_status thread=\"aq waiter\""))))

(agent-q-test-tools-on-each instruments-hears-threads-of-a-call ()
  "What threads print that a call starts is the call's output."
  (let ((told (agent-q-test-tools-ask
               "/eval_form (sb-thread:join-thread (sb-thread:make-thread (lambda () (print 11) (warn \"in a thread\") (sb-thread:join-thread (sb-thread:make-thread (lambda () (print 12)))) 3)))")))
    (should (string-match-p "\\`=> 3\nOutput:\n" told))
    ;; Those of different threads in any order.
    (should (string-match-p "^11 *\nWARNING: in a thread" told))
    (should (string-match-p "^12\\b" told))))

(agent-q-test-tools-on-each instruments-traces-one-method ()
  "A method is traced by itself, by its qualifiers and specializers."
  (agent-q-instruments-test-load connection)
  (cl-flet ((ask (text) (agent-q-test-tools-ask text)))
    (should (equal "Traced: AQ-HOT::AREA (AQ-HOT::SHAPE)"
                   (ask "/trace_function aq-hot::area (aq-hot::shape)")))
    (agent-q-test-tools-ask "/eval_form (aq-hot::work)")
    (should (string-match-p
             "\\`Traced: .*\nIn thread .*:\n  (AQ-HOT::AREA (AQ-HOT::SHAPE) #<AQ-HOT::CIRCLE.*>)\n  AQ-HOT::AREA (AQ-HOT::SHAPE) => 6765\\'"
             (ask "/get_trace")))
    (should (equal "Traced: AQ-HOT::AREA (AQ-HOT::SHAPE), AQ-HOT::AREA :AROUND (AQ-HOT::CIRCLE)"
                   (ask "/trace_function package=aq-hot area :around (circle)")))
    (should (equal "Nothing is traced." (ask "/untrace_function")))
    (ask "/get_trace clear=true")
    (should (equal "=> 6766" (ask "/eval_form (aq-hot::work)")))
    (should (equal "Nothing is traced.\nNo calls recorded." (ask "/get_trace")))
    (should (string-match-p "\\`AQ-HOT::AREA has no method (integer)\\. It has: "
                            (ask "/trace_function aq-hot::area (integer)")))
    (should (equal "AQ-HOT::AREA (AQ-HOT::SHAPE) is not traced."
                   (ask "/untrace_function aq-hot::area (aq-hot::shape)")))))

(agent-q-test-tools-on-each instruments-searches-systems ()
  "The sources of a system that the image knows are searched, without a question."
  (agent-q-test-systems-need connection "fiveam")
  (should (string-match-p "\\`Found 1 match for .*\n\n/.*/fiveam/src/check\\.lisp:[0-9]+:(defmacro is-true "
                          (agent-q-test-tools-ask "/grep_project system=fiveam pattern=defmacro.is-true")))
  (should (equal "The image knows no system aq-nowhere, loaded or not; search a folder by path instead."
                 (agent-q-test-tools-ask "/grep_project system=aq-nowhere pattern=x")))
  (should (string-match-p "\\`sb-posix has no sources here: .* has no Lisp files\\.\\'"
                          (agent-q-test-tools-ask "/grep_project system=sb-posix pattern=aq-nowhere")))
  (should (equal "Give a path or a system, not both."
                 (agent-q-test-tools-ask "/grep_project system=fiveam path=src pattern=x"))))

(provide 'agent-q-instruments-test)
;;; agent-q-instruments-test.el ends here
