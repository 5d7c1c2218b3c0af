;;; tools-bench.el --- What a tool call from Emacs Lisp takes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Calls a trivial tool written in Emacs Lisp through the whole pipeline and
;; back, beside the call of its function alone and a timer that is due at once.

;;; Code:

(require 'agent-q-bench)
(require 'agent-q-module)

(declare-function agent-q-define-tool "agent-q-tool")
(declare-function agent-q-register-tool "agent-q-registry")
(declare-function agent-q-execute-tool-calls "agent-q-execute")
(declare-function agent-q-core-add-rule "agent-q-core-functions")
(declare-function agent-q-events-ensure "agent-q-events")
(defvar agent-q-registry)
(defvar agent-q-log-file)

(defun tools-bench--await (condition)
  "Wait until the function CONDITION returns non-nil.
Timers run while Emacs waits, but don't end the waiting; so it is short."
  (let ((deadline (+ (float-time) 120)))
    (while (not (funcall condition))
      (when (> (float-time) deadline)
        (error "Waited in vain for a call"))
      (accept-process-output nil 0.001))))

(defun tools-bench--timer ()
  "Return the seconds until a timer that is due at once has run."
  (let ((start (float-time)) (end nil))
    (run-at-time 0 nil (lambda () (setq end (float-time))))
    (tools-bench--await (lambda () end))
    (- end start)))

(defun tools-bench--call ()
  "Return the seconds that a call of the tool takes until its results are there."
  (let ((start (float-time)) (end nil))
    (agent-q-execute-tool-calls
     '((:id "1" :name "bench_echo" :arguments (:text "x")))
     (lambda (_results) (setq end (float-time))))
    (tools-bench--await (lambda () end))
    (- end start)))

(defconst tools-bench--status "{\"program\":\"git\",\"arguments\":[\"status\"]}"
  "The arguments of a call that asks Git for the state of this repository.")

(defun tools-bench--status-by-tool ()
  "Return the seconds that such a call takes."
  (let ((start (float-time)) (end nil))
    (agent-q-execute-tool-calls
     `((:id "1" :name "run_command" :arguments ,tools-bench--status))
     (lambda (results)
       (setq end (float-time))
       (unless (eq :succeeded (plist-get (car results) :outcome))
         (error "The call failed: %S" results))))
    (tools-bench--await (lambda () end))
    (- end start)))

(defun tools-bench--status-by-emacs ()
  "Return the seconds that Emacs takes for the same."
  (let ((start (float-time))
        ;; As the tool has it.
        (process-environment (cons "GIT_OPTIONAL_LOCKS=0" process-environment)))
    (with-temp-buffer
      (unless (eql 0 (call-process "git" nil t nil "status"))
        (error "Git failed"))
      (buffer-string))
    (- (float-time) start)))

(defun tools-bench--programs ()
  "Measure what a program takes that a rule allows."
  (agent-q-core-add-rule
   "{\"effect\":\"allow\",\"tool\":\"run_command\",\"dangerous\":true,\"scope\":{\"for\":\"always\"},
     \"arguments\":[{\"name\":\"program\",\"pattern\":{\"equals\":\"git\"}}]}" nil)
  (dotimes (round 45)
    (let ((tool (tools-bench--status-by-tool))
          (emacs (tools-bench--status-by-emacs)))
      (when (>= round 5)
        (agent-q-bench-sample "tools.status.run" tool)
        (agent-q-bench-sample "tools.status.call" emacs)))))

(defun tools-bench-main ()
  "Measure and end Emacs."
  (agent-q-bench-guard
    (setq agent-q-log-file (expand-file-name "core.log" agent-q-bench-scratch))
    (require 'agent-q-execute)
    (agent-q-register-tool
     agent-q-registry
     (agent-q-define-tool "bench_echo" "Return the text."
                          '((:name "text" :type :string :description "Any text"))
                          :required '("text")
                          :handler (lambda (arguments) (gethash "text" arguments))))
    (dotimes (_ 20) (tools-bench--call))
    (dotimes (_ 200)
      (agent-q-bench-sample "tools.lisp" (tools-bench--call))
      (agent-q-bench-sample "tools.timer" (tools-bench--timer)))
    (tools-bench--programs)
    (agent-q-bench-end)))

(provide 'tools-bench)
;;; tools-bench.el ends here
