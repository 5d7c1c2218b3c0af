;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Calling a tool that the program offers. Apart from the module tools, which only lists them and
;;; so needs no watch. Operation: call-tool.

(cl:in-package "AGENT-Q-IMAGE")

(define-operation "call-tool" (name arguments)
  ;; Call the program's tool NAME with ARGUMENTS, JSON text.
  (let ((tool (or (find-tool name) (missed "The program no longer offers the tool ~A." name))))
    (multiple-value-bind (result problem) (funcall (tool-handler tool) (parse-json arguments))
      (list :result (result-text result)
            :problem (and problem (result-text problem))
            :output (captured-text)))))
