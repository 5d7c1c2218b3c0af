;;; mcp-bench.el --- What calls of another agent take  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; This batch Emacs serves; the program bench_mcp starts bridges and calls, as a host does, and
;; measures what a host sees.  Meanwhile a timer here tells how much Emacs worked.
;; AGENT_Q_BENCH is sly or slime.

;;; Code:

(require 'agent-q-bench)
(require 'image-bench)

(declare-function agent-q-mcp-mode "agent-q-mcp")
(defvar agent-q-mcp-directory)
(defvar agent-q-module-directory)

(defconst mcp-bench--period 0.005
  "The seconds between two ticks.")

(defun mcp-bench--run (what)
  "Have hosts do WHAT, and note what they measured."
  (let* ((failure "")
         (text "")
         (host (make-process
                :name "bench-mcp" :noquery t :connection-type 'pipe :sentinel #'ignore
                :filter (lambda (_ more) (setq text (concat text more)))
                :stderr (make-pipe-process :name "bench-mcp-stderr" :noquery t :sentinel #'ignore
                                           :filter (lambda (_ more) (setq failure (concat failure more))))
                :command (list (getenv "AGENT_Q_BENCH_MCP") (symbol-name image-bench-client)
                               (expand-file-name "agent-q-mcp" agent-q-module-directory) what))))
    (agent-q-bench-await (lambda () (not (process-live-p host))))
    (accept-process-output host 0.1)
    (unless (zerop (process-exit-status host))
      (error "bench_mcp %s: %s" what failure))
    (dolist (line (split-string text "\n" t))
      (pcase-let ((`(,name ,number) (split-string line)))
        (agent-q-bench-sample name (string-to-number number))))))

(defun mcp-bench--reading ()
  "Return the time of collections and the time of Emacs's thread."
  ;; A collection amid this would count for two gaps.
  (let ((gc-cons-threshold most-positive-fixnum))
    (list gc-elapsed (or (agent-q-bench-main-cpu) 0))))

(defun mcp-bench--crowd ()
  "Measure many clients at once: the most that Emacs works between two ticks."
  (garbage-collect)
  (let* ((last (mcp-bench--reading)) (busiest 0.0)
         (ticker (run-at-time mcp-bench--period mcp-bench--period
                              (lambda ()
                                (let ((now (mcp-bench--reading)))
                                  (pcase-let ((`(,collecting ,busy) (cl-mapcar #'- now last)))
                                    (setq busiest (max busiest (- busy collecting))
                                          last now)))))))
    (mcp-bench--run "crowd")
    (cancel-timer ticker)
    (agent-q-bench-sample (image-bench-name "mcp.busiest") busiest)))

(defun mcp-bench--main ()
  "Measure everything."
  (require 'agent-q-mcp)
  (image-bench-connect)
  (setq agent-q-mcp-directory (make-temp-file "aq" t))
  (setenv "AGENT_Q_MCP_DIRECTORY" agent-q-mcp-directory)
  (agent-q-mcp-mode 1)
  (image-bench-description)
  (mcp-bench--run "start")
  (mcp-bench--run "calls")
  (dotimes (_ 3) (mcp-bench--crowd))
  (agent-q-mcp-mode -1)
  (delete-directory agent-q-mcp-directory t)
  (agent-q-bench-end))

(defun mcp-bench-main ()
  "Measure in this batch Emacs."
  (agent-q-bench-guard (mcp-bench--main)))

(provide 'mcp-bench)
;;; mcp-bench.el ends here
