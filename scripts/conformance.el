;;; conformance.el --- A client for the conformance suite of MCP  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Started by scripts/conformance.sh in batch mode with the address of a server of the suite,
;; which it uses as a chat does: it has the server's tools come, and calls each.

;;; Code:

(require 'agent-q-module)
(require 'agent-q-execute)
(require 'agent-q-registry)
(require 'agent-q-servers)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-conformance--value (schema)
  "Return a value that SCHEMA, an alist, takes."
  (pcase (alist-get 'type schema)
    ((or "number" "integer") 5)
    ("boolean" t)
    ("array" [])
    ("object" (make-hash-table))
    (_ "word")))

(defun agent-q-conformance--arguments (tool)
  "Return arguments for TOOL, as it says that it takes them."
  (let ((arguments (make-hash-table :test #'equal)))
    (pcase-dolist (`(,name . ,schema)
                   (alist-get 'properties (agent-q-json-alist (plist-get tool :schema) t)))
      (puthash (symbol-name name) (agent-q-conformance--value schema) arguments))
    arguments))

(defun agent-q-conformance--call (name arguments)
  "Call the tool NAME with ARGUMENTS, and print what comes of it."
  (let ((result (car (agent-q-execute-tool-calls-sync
                      (list (list :id name :name name :arguments arguments)) 20))))
    (message "%s: %s" name (agent-q-tool-result-content result))))

(defun agent-q-conformance--state ()
  "Return the state of the server."
  (plist-get (car (agent-q-core-tool-servers)) :state))

(defun agent-q-conformance ()
  "Use the server whose address is the last argument of the command line."
  (let ((agent-q-approval-handler (lambda (_tool _arguments) :approved)))
    (agent-q-registry-ensure)
    (customize-set-variable 'agent-q-tool-servers
                            `(("suite" :url ,(car (last command-line-args-left)) :timeout 20)))
    (setq command-line-args-left nil)
    (agent-q-core-tool-server-start "suite")
    (while (member (agent-q-conformance--state) '("idle" "starting"))
      (accept-process-output nil 0.1))
    (message "%s" (agent-q-core-tool-server-log "suite"))
    (dolist (tool (agent-q-core-tools))
      (when (equal (plist-get tool :origin) "server suite")
        (agent-q-conformance--call (plist-get tool :name) (agent-q-conformance--arguments tool))))
    (customize-set-variable 'agent-q-tool-servers nil)
    (sit-for 0.5)))

(provide 'conformance)
;;; conformance.el ends here
