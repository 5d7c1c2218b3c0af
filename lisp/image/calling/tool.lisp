;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; A program's tool called. It stands apart from the rest of the tools, as they are listed where
;;; nothing is run, and the watch isn't needed. Operation: call-tool.

(cl:in-package "AGENT-Q-IMAGE")

(define-operation "call-tool" (name arguments)
  ;; Call the program's tool NAME with ARGUMENTS, JSON text.
  (let ((tool (or (find-tool name) (missed "The program no longer offers the tool ~A." name))))
    (multiple-value-bind (result problem) (funcall (tool-handler tool) (parse-json arguments))
      (list :result (result-text result)
            :problem (and problem (result-text problem))
            :output (captured-text)))))
