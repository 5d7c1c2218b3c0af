;;; heap-trial.el --- How often an image survives what fills its heap  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -l test/support/heap-trial.el, in the project's root.  Starts SBCLs with small
;; heaps, lets eval_form fill them in several ways, and prints how often the image answered afterwards.
;; HEAP_RUNS says how often, 20 by default, HEAP_MB names the heaps, "512 1024", and
;; HEAP_WAYS those of the ways that are tried.

;;; Code:

(setq load-prefer-newer t)
(dolist (directory '("test/support" "lisp"))
  (push (expand-file-name directory) load-path))

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)

(defconst heap-trial-ways
  '(("conses" . "(let ((list (list))) (loop for i from 0 do (push (cons i (make-list 3)) list)))")
    ("vectors" . "(let ((all '())) (loop (push (make-array 10000) all)))")
    ("small-vectors" . "(let ((all '())) (loop (push (make-array 10) all)))")
    ("big-vectors" . "(let ((all '())) (loop (push (make-array 1000000 :initial-element 0) all)))")
    ("hash-table" . "(let ((table (make-hash-table))) (loop for i from 0 do (setf (gethash i table) (list i))))")
    ("hash-tables" . "(let ((all '())) (loop (let ((table (make-hash-table :size 100))) (setf (gethash 1 table) 1) (push table all))))")
    ("growing-vector" . "(let ((all (make-array 1 :adjustable t :fill-pointer 0))) (loop (vector-push-extend (list 1) all)))")
    ("doubling-string" . "(let ((text \"ab\")) (loop (setf text (concatenate 'string text text))))")
    ("instances" . "(progn (defclass aq-heap () ((next :initarg :next))) (let ((last nil)) (loop (setf last (make-instance 'aq-heap :next last)))))")
    ("kept" . "(progn (defvar cl-user::*kept* '()) (loop (push (make-list 100) cl-user::*kept*)))"))
  "What fills a heap: names and forms.")

(defun heap-trial-once (form megabytes)
  "Evaluate FORM in a new SBCL with MEGABYTES of heap.
Return its answer when the image answers afterwards, nil otherwise."
  (let ((connection (agent-q-test-image-another
                     'slime (list "sbcl" "--dynamic-space-size" (format "%dMB" megabytes)
                                  "--no-userinit" "--no-sysinit")))
        (agent-q-test-patience 60)
        (answer nil))
    (unwind-protect
        (agent-q-test-with-chat
          (agent-q-chat-set-connection connection)
          (agent-q-test-tools-ask "/eval_form (+ 1 2)")
          (setq answer (agent-q-test-tools-ask (concat "/eval_form timeout=30 " form)))
          (when (getenv "HEAP_SHOW") (message "%s" answer))
          (and (not (string-match-p "does not answer\\|was lost" answer))
               (equal "=> 3" (ignore-errors (agent-q-test-tools-ask "/eval_form (+ 1 2)")))
               (equal "=> 200000" (ignore-errors (agent-q-test-tools-ask "/eval_form (length (make-list 200000))")))
               answer))
      (agent-q-test-image-kill connection))))

(agent-q-test-image--find 'slime)

(let ((runs (string-to-number (or (getenv "HEAP_RUNS") "20"))))
  (dolist (megabytes (mapcar #'string-to-number (split-string (or (getenv "HEAP_MB") "512 1024"))))
    (pcase-dolist (`(,name . ,form) heap-trial-ways)
      (when (or (null (getenv "HEAP_WAYS"))
                (member name (split-string (getenv "HEAP_WAYS"))))
        (let ((alive 0) (answers nil))
          (dotimes (_ runs)
            (let ((answer (heap-trial-once form megabytes)))
              (when answer
                (setq alive (1+ alive))
                (push (car (split-string answer "\n")) answers))))
          (message "%5d MB %-16s %2d of %2d answer afterwards; %s" megabytes name alive runs
                   (string-join (seq-take (seq-uniq answers) 2) " | ")))))))

;;; heap-trial.el ends here
