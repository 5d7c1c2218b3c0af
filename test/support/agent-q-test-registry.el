;;; agent-q-test-registry.el --- Helpers for tests of tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Registers tools for the length of a test, and calls them.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-audit)
(require 'agent-q-tool-list)

(defmacro agent-q-test-with-tools (tools &rest body)
  "Run BODY while TOOLS, expressions that return tools, are registered."
  (declare (indent 1) (debug t))
  `(let ((tools (list ,@tools)))
     (unwind-protect
         (progn
           (dolist (tool tools)
             (agent-q-register-tool agent-q-registry tool))
           ,@body)
       (dolist (tool tools)
         (agent-q-unregister-tool (agent-q-tool-name tool))))))

(defun agent-q-test-tool (name handler &rest keys)
  "Return the tool NAME with HANDLER, the parameter \"text\", and KEYS."
  (apply #'agent-q-define-tool name "A tool of a test."
         '((:name "text" :type :string :description "Any text"))
         :handler handler keys))

(defun agent-q-test-call (name &optional arguments)
  "Call the tool NAME with ARGUMENTS and return the result.
Its id has to be the one of the call."
  (let ((result (car (agent-q-execute-tool-calls-sync
                      `((:id "call_1" :name ,name :arguments ,arguments))
                      agent-q-test-patience))))
    (should (equal (agent-q-tool-result-id result) "call_1"))
    ;; Exactly one of success and error holds, and the content is a string.
    (should (eq (agent-q-tool-result-success result)
                (null (agent-q-tool-result-error result))))
    (should (stringp (agent-q-tool-result-content result)))
    result))

(defun agent-q-test-content (name arguments)
  "Call the tool NAME, which succeeds, with ARGUMENTS; return the content."
  (let ((result (agent-q-test-call name arguments)))
    (should-not (agent-q-tool-result-error result))
    (agent-q-tool-result-content result)))

(defun agent-q-test-error (name arguments)
  "Call the tool NAME, which fails, with ARGUMENTS; return the error."
  (let ((result (agent-q-test-call name arguments)))
    (should-not (agent-q-tool-result-success result))
    (should (equal (agent-q-tool-result-error result)
                   (agent-q-tool-result-content result)))
    (agent-q-tool-result-error result)))

(provide 'agent-q-test-registry)
;;; agent-q-test-registry.el ends here
