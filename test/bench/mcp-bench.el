;;; mcp-bench.el --- What calls of another agent take  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Real bridges, started by this Emacs, which is also the one that they call: so it has the
;; client's work to do besides, and the figures are at most too high.

;;; Code:

(require 'agent-q-bench)
(require 'json)

(declare-function agent-q-mcp-mode "agent-q-mcp")
(defvar agent-q-mcp-directory)
(defvar agent-q-module-directory)

(defvar mcp-bench--bridges nil "The bridges that were started.")

(defun mcp-bench-serve ()
  "Serve other agents from a folder of this measurement."
  (require 'agent-q-mcp)
  (setq agent-q-mcp-directory (make-temp-file "aq" t))
  (setenv "AGENT_Q_MCP_DIRECTORY" agent-q-mcp-directory)
  (agent-q-mcp-mode 1))

(defun mcp-bench-end ()
  "End the bridges and the server."
  (mapc #'delete-process mcp-bench--bridges)
  (setq mcp-bench--bridges nil)
  (agent-q-mcp-mode -1)
  (delete-directory agent-q-mcp-directory t))

(defun mcp-bench--filter (bridge text)
  "Call what waits for the answers in TEXT of BRIDGE."
  (let ((text (concat (process-get bridge 'rest) text)))
    (while (string-match "\n" text)
      (let* ((line (substring text 0 (match-beginning 0)))
             (id (and (string-match "\"id\":\\([0-9]+\\)" line)
                      (string-to-number (match-string 1 line))))
             (function (and id (gethash id (process-get bridge 'waiting)))))
        (setq text (substring text (1+ (string-search "\n" text))))
        (when function
          (remhash id (process-get bridge 'waiting))
          (funcall function line))))
    (process-put bridge 'rest text)))

(defun mcp-bench-bridge ()
  "Return a new bridge."
  (let ((process-adaptive-read-buffering nil))
    (let ((bridge (make-process :name "mcp-bench" :noquery t :connection-type 'pipe
                                :coding 'utf-8-unix :stderr (get-buffer-create " *mcp-bench*")
                                :command (list (expand-file-name "agent-q-mcp" agent-q-module-directory))
                                :filter #'mcp-bench--filter)))
      (process-put bridge 'waiting (make-hash-table))
      (push bridge mcp-bench--bridges)
      bridge)))

(defun mcp-bench-ask (bridge method params function)
  "Have BRIDGE ask for METHOD with PARAMS, JSON text; FUNCTION gets the answer."
  (let ((id (1+ (or (process-get bridge 'id) 0))))
    (process-put bridge 'id id)
    (puthash id function (process-get bridge 'waiting))
    (process-send-string
     bridge (format "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":%s}\n" id method params))))

(defun mcp-bench-introduce (bridge name function)
  "Have BRIDGE introduce itself as NAME; FUNCTION gets the answer."
  (mcp-bench-ask bridge "initialize"
                 (format "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"%s\",\"version\":\"1\"}}" name)
                 function))

(defun mcp-bench-call (bridge tool arguments function)
  "Have BRIDGE call TOOL with ARGUMENTS, JSON text; FUNCTION gets the answer."
  (mcp-bench-ask bridge "tools/call" (format "{\"name\":\"%s\",\"arguments\":%s}" tool arguments)
                 function))

(defun mcp-bench-crowd ()
  "Have 10 clients make 100 calls each; return the seconds and the longest pause.
Signal an error if a result is not where it belongs."
  (let ((left 1000) (longest 0) (last (float-time)) (began (float-time)) (ticker nil))
    (setq ticker (run-at-time 0.005 0.005 (lambda ()
                                            (setq longest (max longest (- (float-time) last 0.005))
                                                  last (float-time)))))
    (dotimes (client 10)
      (let ((bridge (mcp-bench-bridge)))
        (mcp-bench-introduce
         bridge (format "crowd%d" client)
         (lambda (_)
           (dotimes (call 100)
             (let ((text (format "(%d-%d" client call)))
               (mcp-bench-call bridge "eval_form" (format "{\"form\":\"\\\"%d-%d\\\"\"}" client call)
                               (lambda (line)
                                 (unless (string-search (substring text 1) line)
                                   (error "A result is not in its place: %s" line))
                                 (setq left (1- left))))))))))
    (agent-q-bench-await (lambda () (zerop left)))
    (cancel-timer ticker)
    (list (- (float-time) began) longest)))

(provide 'mcp-bench)
;;; mcp-bench.el ends here
