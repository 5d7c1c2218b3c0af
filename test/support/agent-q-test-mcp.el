;;; agent-q-test-mcp.el --- Clients of the server for other agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients that speak to the server byte by byte, over its socket or through the real bridge.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-mcp)
(require 'agent-q-test-registry)
(require 'cl-lib)

(defvar agent-q-test-mcp-clients nil "The processes of clients of this test.")

(defmacro agent-q-test-mcp-serving (&rest body)
  "Run BODY while other agents are served from a folder of this test."
  (declare (indent 0) (debug t))
  `(let* ((agent-q-mcp-directory (make-temp-file "aq" t))
          (agent-q-mcp-turn-pause 60)
          (agent-q-mcp-patience 45)
          (agent-q-test-mcp-clients nil)
          (inhibit-message t))
     (unwind-protect
         (progn (agent-q-mcp-mode 1)
                ,@body)
       (mapc #'agent-q-test-mcp-close agent-q-test-mcp-clients)
       (agent-q-mcp-mode -1)
       (mapc #'kill-buffer (agent-q-mcp-client-buffers))
       (delete-directory agent-q-mcp-directory t))))

(defun agent-q-test-mcp-socket ()
  "Return the name of the server's socket."
  (alist-get 'socket (agent-q-mcp-status)))

(defun agent-q-test-mcp--filter (process text)
  "Keep what PROCESS says in TEXT, message by message."
  (let ((text (concat (process-get process 'rest) text)) (messages nil))
    (while (string-match "\n" text)
      (push (substring text 0 (match-beginning 0)) messages)
      (setq text (substring text (match-end 0))))
    (process-put process 'rest text)
    (process-put process 'messages
                 (append (process-get process 'messages)
                         (mapcar (lambda (line)
                                   (json-parse-string line :object-type 'plist :array-type 'list
                                                      :null-object nil :false-object nil))
                                 (nreverse messages))))))

(defun agent-q-test-mcp-connect ()
  "Return a connection to the server's socket, on which nothing was said yet."
  (let ((process (make-network-process :name "aq-mcp-client" :family 'local :noquery t
                                       :service (agent-q-test-mcp-socket)
                                       :coding 'utf-8-unix
                                       :filter #'agent-q-test-mcp--filter
                                       :sentinel #'ignore)))
    (push process agent-q-test-mcp-clients)
    process))

(defun agent-q-test-mcp-bridge (&optional directory &rest starter)
  "Return a running agent-q-mcp, which works in DIRECTORY.
STARTER is a command that gets the program's name and starts it, if not nil."
  (let* ((process-environment (cons (concat "AGENT_Q_MCP_DIRECTORY=" agent-q-mcp-directory)
                                    process-environment))
         (default-directory (or directory default-directory))
         (process (make-process :name "aq-mcp-bridge" :noquery t :coding 'utf-8-unix
                                :connection-type 'pipe
                                :command (append starter
                                                 (list (expand-file-name "agent-q-mcp"
                                                                         agent-q-module-directory)))
                                :filter #'agent-q-test-mcp--filter
                                :stderr (get-buffer-create " *aq-mcp-stderr*")
                                :sentinel #'ignore)))
    (push process agent-q-test-mcp-clients)
    process))

(defun agent-q-test-mcp-close (client)
  "End CLIENT."
  (when (process-live-p client) (delete-process client)))

(defun agent-q-test-mcp-tell (client message)
  "Send MESSAGE, JSON text or a property list, from CLIENT."
  (process-send-string client (concat (if (stringp message) message (json-serialize message)) "\n")))

(defun agent-q-test-mcp-send (client method params)
  "Send a request for METHOD with PARAMS, a property list, from CLIENT; return its id."
  (let ((id (1+ (or (process-get client 'id) 0))))
    (process-put client 'id id)
    (agent-q-test-mcp-tell client `(:jsonrpc "2.0" :id ,id :method ,method
                                             :params ,(or params (make-hash-table))))
    id))

(defun agent-q-test-mcp-find (client function)
  "Return the first message to CLIENT of which FUNCTION is non-nil, or nil."
  (cl-find-if function (process-get client 'messages)))

(defun agent-q-test-mcp-answer (client id)
  "Wait for the answer to the request ID of CLIENT, and return it."
  (agent-q-test-until (agent-q-test-mcp-find
                       client (lambda (message) (and (equal id (plist-get message :id))
                                                     (not (plist-get message :method)))))
                      (format "an answer to %S" id)))

(defun agent-q-test-mcp-ask (client method &optional params)
  "Return the answer to a request of CLIENT for METHOD with PARAMS."
  (agent-q-test-mcp-answer client (agent-q-test-mcp-send client method params)))

(defun agent-q-test-mcp-introduce (client &optional name version)
  "Have CLIENT introduce itself as NAME, for VERSION; return the result."
  (prog1 (plist-get
          (agent-q-test-mcp-ask client "initialize"
                                `(:protocolVersion ,(or version "2025-06-18")
                                  :capabilities ,(make-hash-table)
                                  :clientInfo (:name ,(or name "tester") :version "1")))
          :result)
    (agent-q-test-mcp-tell client '(:jsonrpc "2.0" :method "notifications/initialized"))))

(defun agent-q-test-mcp-client (&optional name)
  "Return a client of NAME that has introduced itself over the socket."
  (let ((client (agent-q-test-mcp-connect)))
    (agent-q-test-mcp-introduce client name)
    client))

(defun agent-q-test-mcp-begin (client tool &optional arguments)
  "Have CLIENT call TOOL with ARGUMENTS, a property list; return the request's id."
  (agent-q-test-mcp-send client "tools/call"
                         `(:name ,tool :arguments ,(or arguments (make-hash-table)))))

(defun agent-q-test-mcp-text (answer)
  "Return the text of ANSWER, of a call."
  (plist-get (car (plist-get (plist-get answer :result) :content)) :text))

(defun agent-q-test-mcp-call (client tool &optional arguments)
  "Return (TEXT . ERROR-P) of a call of TOOL with ARGUMENTS by CLIENT."
  (let ((answer (agent-q-test-mcp-answer client (agent-q-test-mcp-begin client tool arguments))))
    (cons (agent-q-test-mcp-text answer) (plist-get (plist-get answer :result) :isError))))

(defun agent-q-test-mcp-buffer ()
  "Return the buffer of the client that called last."
  (agent-q-test-until (car (agent-q-mcp-client-buffers)) "a client's buffer"))

(defun agent-q-test-mcp-tool (name level)
  "Return a tool NAME of LEVEL that answers its text in capitals."
  (agent-q-test-tool name (lambda (arguments) (upcase (gethash "text" arguments)))
                     :safety-level level :required '("text")))

(defmacro agent-q-test-mcp-with-tools (&rest body)
  "Run BODY while others are served the tools t_look and t_erase."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-tools ((agent-q-test-mcp-tool "t_look" :safe)
                             (agent-q-test-mcp-tool "t_erase" :dangerous))
     (agent-q-test-mcp-serving ,@body)))

(defun agent-q-test-mcp-code (answer)
  "Return the code of the error in ANSWER."
  (plist-get (plist-get answer :error) :code))

(defun agent-q-test-mcp-refusal (client)
  "Wait for an error among the messages to CLIENT; return it.
Notices may come before it, as the list of tools changes when a test makes some."
  (agent-q-test-until (agent-q-test-mcp-find client (lambda (message) (plist-get message :error)))
                      "an error"))

(defun agent-q-test-mcp-stateless (version &rest more)
  "Return params with the metadata of VERSION, and MORE."
  `(:_meta (:io.modelcontextprotocol/protocolVersion ,version
            :io.modelcontextprotocol/clientCapabilities ,(make-hash-table)
            :io.modelcontextprotocol/clientInfo (:name "stateless" :version "1"))
    ,@more))

(provide 'agent-q-test-mcp)
;;; agent-q-test-mcp.el ends here
