;;; files-bench.el --- What searching and reviewing cost Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Notes how late a timer of 5 ms is while tools search a large tree, beside an Emacs at rest; and
;; how long the review of a large diff takes to be shown, beside Diff mode.

;;; Code:

(require 'agent-q-bench)
(require 'agent-q-module)
(require 'diff)
(require 'diff-mode)

(declare-function agent-q-call-make "agent-q-call" (&rest slots) t)
(declare-function agent-q-review--open "agent-q-review" (call chat edit))
(declare-function agent-q-review-toggle "agent-q-review" ())
(declare-function agent-q-review-target-planned "agent-q-review" (preview arguments))
(declare-function agent-q-tool-result-success "agent-q-execute" (result))
(declare-function agent-q-tool-result-error "agent-q-execute" (result))
(declare-function agent-q-events-ensure "agent-q-events" ())
(declare-function agent-q-execute-tool-calls "agent-q-execute" (calls callback))
(defvar agent-q-review-hunks-done)
(defvar agent-q-project-root)

(defconst files-bench--period 0.005
  "The period of the timer.")

(defconst files-bench--calls 20
  "How often a tool is called.")

(defvar files-bench--ticks nil
  "When the timer ran, and what Emacs's thread had worked and collected until then.
Latest first.")

(defun files-bench--tick ()
  "Note that the timer ran."
  ;; A collection belongs between two ticks: within one, it would be in the wrong numbers.
  (let ((gc-cons-threshold most-positive-fixnum))
    (push (list (float-time) (agent-q-bench-main-cpu) gc-elapsed) files-bench--ticks)))

(defmacro files-bench--later (&rest body)
  "Run BODY when Emacs has come to rest."
  (declare (indent 0) (debug t))
  `(run-at-time 0.2 nil (lambda () (agent-q-bench-guard ,@body))))

;;;; Searching

(defun files-bench--watch (name function)
  "Call FUNCTION with what ends the measuring of NAME."
  (garbage-collect)
  (setq files-bench--ticks nil)
  (files-bench--tick)
  (let ((timer (run-at-time files-bench--period files-bench--period #'files-bench--tick)))
    (funcall function (lambda ()
                        (cancel-timer timer)
                        (files-bench--note name)))))

(defun files-bench--note (name)
  "Note how late the ticks were as samples of NAME, and the most work between two.
That work, without collecting garbage, doesn't depend on what else the
machine does.  Most garbage is of this timer.  End Emacs."
  (let ((outside 0.0) (busiest 0.0))
    (cl-loop for ((later work gc) (earlier before gc-before)) on files-bench--ticks
             while earlier
             for late = (max 0.0 (- later earlier files-bench--period))
             for collecting = (- gc gc-before)
             do (setq outside (max outside (- late collecting)))
             (when work
               (setq busiest (max busiest (- work before collecting)))))
    (agent-q-bench-sample (concat name ".outside") outside)
    (agent-q-bench-sample (concat name ".busiest") busiest))
  (agent-q-bench-end))

(defun files-bench--call (tool arguments left ended)
  "Call TOOL with ARGUMENTS, LEFT times one after the other, then call ENDED."
  (if (zerop left)
      (funcall ended)
    (agent-q-execute-tool-calls
     `((:id "1" :name ,tool :arguments ,arguments))
     (lambda (results)
       (agent-q-bench-guard
         (unless (agent-q-tool-result-success (car results))
           (error "%s failed: %s" tool (agent-q-tool-result-error (car results))))
         (files-bench--call tool arguments (1- left) ended))))))

(defun files-bench--search (name tool arguments)
  "Measure calls of TOOL with ARGUMENTS as NAME."
  (require 'agent-q-execute)
  (setq agent-q-project-root (getenv "AGENT_Q_BENCH_TREE")
        default-directory (file-name-as-directory agent-q-project-root))
  ;; The first calls load what there is to load and fill the caches.
  (files-bench--call tool arguments 2
                     (lambda ()
                       (files-bench--later
                         (files-bench--watch
                          name (lambda (ended)
                                 (files-bench--call tool arguments files-bench--calls
                                                    ended)))))))

;;;; Reviewing

(defun files-bench--text (step word)
  "Return 20,000 lines, in which each STEPth has WORD."
  (mapconcat (lambda (line)
               (if (zerop (% line step)) (format "(%s %d)\n" word line)
                 (format "(line %d of a file that is reviewed)\n" line)))
             (number-sequence 1 20000) ""))

(defun files-bench--review (name original modified)
  "Show the review from ORIGINAL to MODIFIED; note the time as a sample of NAME."
  (let ((edit (agent-q-review-target-planned
               (list "large.lisp" (make-temp-name "/nowhere/") original modified t "")
               (make-hash-table)))
        review)
    (garbage-collect)
    (agent-q-bench-sample name (agent-q-bench-seconds
                                 (setq review (agent-q-review--open (agent-q-call-make :tool "write_file")
                                                                    (current-buffer) edit))
                                 (switch-to-buffer review)
                                 (redisplay t)))
    review))

(defun files-bench--baseline (name original modified)
  "Show the same in Diff mode; note the time as a sample of NAME."
  (let ((files (mapcar (lambda (text)
                         (make-temp-file (expand-file-name "diff" agent-q-bench-scratch)
                                         nil nil text))
                       (list original modified))))
    (garbage-collect)
    (agent-q-bench-sample name (agent-q-bench-seconds
                                 (switch-to-buffer
                                  (diff-no-select (car files) (cadr files) "-u" t))
                                 (redisplay t)))))

(defun files-bench--diffs ()
  "Measure the diffs."
  (require 'agent-q-call)
  (require 'agent-q-review)
  (require 'agent-q-events)
  (agent-q-events-ensure)
  (let ((original (files-bench--text 40 "old"))
        (changed (files-bench--text 40 "new"))
        (other (files-bench--text 1 "other")))
    (dotimes (_ 3)
      (dolist (pair `(("changes" . ,changed) ("other" . ,other)))
        (with-current-buffer (files-bench--review (concat "review." (car pair))
                                                  original (cdr pair))
          (when (equal (car pair) "changes")
            (dotimes (_ 100)
              (agent-q-bench-sample "review.toggle" (agent-q-bench-seconds
                                                      (agent-q-review-toggle)
                                                      (run-hooks 'post-command-hook)
                                                      (redisplay t)))))
          (setq agent-q-review-hunks-done t)
          (kill-buffer))
        ;; Diff mode takes minutes to refine one hunk of 40,000 lines.
        (when (equal (car pair) "changes")
          (files-bench--baseline "diff-mode.changes" original (cdr pair))
          (goto-char (point-min))
          (dotimes (_ 100)
            (agent-q-bench-sample "diff-mode.next" (agent-q-bench-seconds
                                                     (diff-hunk-next)
                                                     (redisplay t)))))))
    (agent-q-bench-end)))

(defun files-bench-main ()
  "Measure what AGENT_Q_BENCH says, as soon as Emacs reads commands."
  (files-bench--later
    (pcase (getenv "AGENT_Q_BENCH")
      ("rest" (files-bench--watch "files.rest"
                                  (lambda (ended) (run-at-time 2 nil ended))))
      ("grep" (files-bench--search "files.grep" "grep_project" '(:pattern "needle-[0-9]+")))
      ("search" (files-bench--search "files.search" "search_files" '(:pattern "*.lisp")))
      ("diff" (files-bench--diffs)))))

(provide 'files-bench)
;;; files-bench.el ends here
