;;; agent-q-mcp-test.el --- Tests of the server for other agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients that speak MCP to a real server, over its socket and through the bridge: what they are
;; told, what they may do, and what becomes of those that do not behave.

;;; Code:

(require 'agent-q-test-mcp)
(require 'agent-q-test-registry)
(require 'agent-q-rules)
(require 'seq)

(defun agent-q-mcp-test--tool (name level)
  "Return a tool NAME of LEVEL that answers its text in capitals."
  (agent-q-test-tool name (lambda (arguments) (upcase (gethash "text" arguments)))
                     :safety-level level :required '("text")))

(defmacro agent-q-mcp-test--with-tools (&rest body)
  "Run BODY while others are served the tools t_look and t_erase."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-tools ((agent-q-mcp-test--tool "t_look" :safe)
                             (agent-q-mcp-test--tool "t_erase" :dangerous))
     (agent-q-test-mcp-serving ,@body)))

(defun agent-q-mcp-test--code (answer)
  "Return the code of the error in ANSWER."
  (plist-get (plist-get answer :error) :code))

;;;; What clients are told

(ert-deftest agent-q-mcp-speaks-each-version-that-has-an-introduction ()
  (agent-q-test-mcp-serving
    (dolist (version '("2024-11-05" "2025-03-26" "2025-06-18" "2025-11-25"))
      (let ((result (agent-q-test-mcp-introduce (agent-q-test-mcp-connect) "x" version)))
        (should (equal (plist-get result :protocolVersion) version))
        (should (<= (string-bytes (plist-get result :instructions)) 2048))
        (should (equal (plist-get (plist-get result :serverInfo) :name) "agent-q"))))
    (should (equal (plist-get (agent-q-test-mcp-introduce (agent-q-test-mcp-connect) "x" "2099-01-01")
                              :protocolVersion)
                   "2025-11-25"))
    ;; Who only introduced itself has no buffer.
    (should-not (agent-q-client-buffers))))

(defun agent-q-mcp-test--stateless (version &rest more)
  "Return params with the metadata of VERSION, and MORE."
  `(:_meta (:io.modelcontextprotocol/protocolVersion ,version
            :io.modelcontextprotocol/clientCapabilities ,(make-hash-table)
            :io.modelcontextprotocol/clientInfo (:name "stateless" :version "1"))
    ,@more))

(ert-deftest agent-q-mcp-speaks-the-version-without-introduction ()
  (agent-q-mcp-test--with-tools
    (let* ((client (agent-q-test-mcp-connect))
           (found (plist-get (agent-q-test-mcp-ask client "server/discover"
                                                   (agent-q-mcp-test--stateless "2026-07-28"))
                             :result))
           (listed (plist-get (agent-q-test-mcp-ask client "tools/list"
                                                    (agent-q-mcp-test--stateless "2026-07-28"))
                              :result)))
      (should (member "2024-11-05" (plist-get found :supportedVersions)))
      (should (equal (plist-get listed :resultType) "complete"))
      (should (equal (plist-get listed :cacheScope) "private"))
      (let ((call (agent-q-test-mcp-ask client "tools/call"
                                        (agent-q-mcp-test--stateless
                                         "2026-07-28" :name "t_look" :arguments '(:text "a")))))
        (should (string-match-p "^A$" (agent-q-test-mcp-text call)))
        (should (equal (buffer-name (agent-q-test-mcp-buffer)) "*agent-q: stateless 1*")))
      (should (eql -32601 (agent-q-mcp-test--code
                           (agent-q-test-mcp-ask client "tasks/get"
                                                 (agent-q-mcp-test--stateless "2026-07-28")))))
      (let ((refused (agent-q-test-mcp-ask client "tools/list"
                                           (agent-q-mcp-test--stateless "2031-01-01"))))
        (should (eql -32022 (agent-q-mcp-test--code refused))))
      (should (eql -32602 (agent-q-mcp-test--code (agent-q-test-mcp-ask client "tools/list")))))))

(ert-deftest agent-q-mcp-lists-the-tools-of-the-profile-with-annotations ()
  (agent-q-mcp-test--with-tools
    (cl-flet ((tools (client) (plist-get (plist-get (agent-q-test-mcp-ask client "tools/list") :result)
                                         :tools))
              (named (name tools) (seq-find (lambda (tool) (equal name (plist-get tool :name))) tools)))
      (let* ((client (agent-q-test-mcp-client)) (tools (tools client)))
        (should (< 15 (length tools) 28))
        (should (named "t_look" tools))
        (should-not (named "read_file" tools))
        (should (plist-get (plist-get (named "t_look" tools) :annotations) :readOnlyHint))
        (should (plist-get (plist-get (named "t_erase" tools) :annotations) :destructiveHint))
        (should-not (plist-get (plist-get (named "eval_form" tools) :annotations) :destructiveHint))
        (should (named "await_call" tools))
        ;; Another profile, and a tool that comes, are told of without a restart.
        (customize-set-variable 'agent-q-mcp-profile '("t_look"))
        (unwind-protect
            (progn
              (agent-q-test-until
               (agent-q-test-mcp-find client (lambda (it) (equal (plist-get it :method)
                                                                 "notifications/tools/list_changed"))))
              (should (equal (mapcar (lambda (it) (plist-get it :name)) (tools client))
                             '("t_look" "await_call" "cancel_call" "list_images")))
              (should (string-match-p "doesn't offer t_erase"
                                      (car (agent-q-test-mcp-call client "t_erase" '(:text "x"))))))
          (customize-set-variable 'agent-q-mcp-profile 'image))
        (process-put client 'messages nil)
        (agent-q-test-with-tools ((agent-q-mcp-test--tool "t_new" :safe))
          (agent-q-test-until
           (agent-q-test-mcp-find client (lambda (it) (equal (plist-get it :method)
                                                             "notifications/tools/list_changed"))))
          (should (named "t_new" (tools client))))))))

(ert-deftest agent-q-mcp-has-prompts ()
  (agent-q-test-mcp-serving
    (let ((client (agent-q-test-mcp-client)))
      (should (equal '("repl_loop" "debug_error")
                     (mapcar (lambda (it) (plist-get it :name))
                             (plist-get (plist-get (agent-q-test-mcp-ask client "prompts/list") :result)
                                        :prompts))))
      (should (string-match-p "get_last_error"
                              (format "%S" (agent-q-test-mcp-ask client "prompts/get"
                                                                 '(:name "debug_error")))))
      (should (eql -32602 (agent-q-mcp-test--code
                           (agent-q-test-mcp-ask client "prompts/get" '(:name "x")))))
      (should (eql 3 (length (plist-get (plist-get (agent-q-test-mcp-ask client "resources/list") :result)
                                        :resources))))
      (should (eql -32002 (agent-q-mcp-test--code
                           (agent-q-test-mcp-ask client "resources/read" '(:uri "agent-q://x"))))))))

;;;; Calls and consent

(ert-deftest agent-q-mcp-calls-are-a-log-in-a-buffer-of-the-client ()
  (agent-q-mcp-test--with-tools
    (let ((client (agent-q-test-mcp-client "claude-code"))
          (window (selected-window)))
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call client "t_look" '(:text "abc"))))
        (should (string-match-p "^ABC$" text))
        (should-not error))
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call client "t_look" '(:texts "abc"))))
        (should (string-match-p "Missing required field: text" text))
        (should error))
      (let ((unknown (agent-q-test-mcp-answer client (agent-q-test-mcp-begin client "t_lok"))))
        (should (eql -32602 (agent-q-mcp-test--code unknown)))
        (should (string-match-p "Did you mean t_look" (plist-get (plist-get unknown :error) :message))))
      ;; Another client has another buffer.
      (agent-q-test-mcp-call (agent-q-test-mcp-client "claude-code") "t_look" '(:text "b"))
      (should (equal (sort (mapcar #'buffer-name (agent-q-client-buffers)) #'string<)
                     '("*agent-q: claude-code 1*" "*agent-q: claude-code 2*")))
      (with-current-buffer "*agent-q: claude-code 1*"
        (should (string-match-p "t_look abc" (agent-q-test-log)))
        (goto-char (point-max))
        (should-error (insert "x") :type 'text-read-only)
        (should (eq major-mode 'agent-q-client-mode)))
      ;; No window was taken for any of it, and chats are still chats.
      (should (eq window (selected-window)))
      (should-not (get-buffer-window "*agent-q: claude-code 1*"))
      (should-not (agent-q-session-chats)))))

(ert-deftest agent-q-mcp-asks-in-emacs-whatever-the-host-says ()
  (agent-q-mcp-test--with-tools
    (let* ((client (agent-q-test-mcp-client))
           (request (agent-q-test-mcp-begin client "t_erase" '(:text "one"))))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-test-answer "y"))
      (should (string-match-p "^ONE$" (agent-q-test-mcp-text (agent-q-test-mcp-answer client request))))
      (setq request (agent-q-test-mcp-begin client "t_erase" '(:text "two")))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-test-answer "n"))
      (let ((answer (agent-q-test-mcp-answer client request)))
        (should (string-match-p "User denied" (agent-q-test-mcp-text answer)))
        (should (plist-get (plist-get answer :result) :isError))))))

(ert-deftest agent-q-mcp-rules-can-name-the-client ()
  (agent-q-mcp-test--with-tools
    (let* ((rule '(:effect "deny" :tool "t_look" :scope (:for "always") :client "code*"))
           (before (mapcar (lambda (it) (gethash "id" it))
                           (gethash "rules" (agent-q-json-parse (agent-q-core-rules))))))
      (agent-q-rules-add rule)
      (unwind-protect
          (progn
            (should (cdr (agent-q-test-mcp-call (agent-q-test-mcp-client "codex") "t_look" '(:text "a"))))
            (should-not (cdr (agent-q-test-mcp-call (agent-q-test-mcp-client "other") "t_look"
                                                    '(:text "a"))))
            (should (equal (agent-q-test-content "t_look" '(:text "a")) "A")))
        (seq-doseq (it (gethash "rules" (agent-q-json-parse (agent-q-core-rules))))
          (unless (member (gethash "id" it) before)
            (agent-q-core-revoke-rule (gethash "id" it))))))))

(ert-deftest agent-q-mcp-a-paused-client-is-refused ()
  (agent-q-mcp-test--with-tools
    (let ((client (agent-q-test-mcp-client)))
      (agent-q-test-mcp-call client "t_look" '(:text "a"))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-client-pause)
        (should (string-match-p "Paused" (agent-q-header--state))))
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call client "t_look" '(:text "a"))))
        (should (and error (string-match-p "paused" text))))
      ;; It can't get around that by connecting again.
      (agent-q-test-mcp-close client)
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-test-until (agent-q-test-shows "The client disconnected")))
      (let ((again (agent-q-test-mcp-client)))
        (should (string-match-p "paused" (car (agent-q-test-mcp-call again "t_look" '(:text "a")))))
        (should (eql 1 (length (agent-q-client-buffers))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-client-pause))
        (should (string-match-p "^B$" (car (agent-q-test-mcp-call again "t_look" '(:text "b")))))))))

;;;; Time

(ert-deftest agent-q-mcp-a-call-that-takes-longer-is-pending-and-can-be-awaited ()
  (agent-q-mcp-test--with-tools
    (customize-set-variable 'agent-q-mcp-patience 0.2)
    (unwind-protect
        (let* ((client (agent-q-test-mcp-client))
               (answer (agent-q-test-mcp-answer
                        client (agent-q-test-mcp-begin client "t_erase" '(:text "late"))))
               (id (plist-get (plist-get (plist-get answer :result) :_meta) :agent-q/callId)))
          (should (string-prefix-p "pending: t_erase" (agent-q-test-mcp-text answer)))
          (agent-q-test-until
           (string-match-p "pending: .* waits for the user's consent in Emacs; nothing has run"
                           (car (agent-q-test-mcp-call client "await_call" `(:call_id ,id)))))
          (with-current-buffer (agent-q-test-mcp-buffer)
            (agent-q-test-answer "y"))
          (should (string-match-p "^LATE$" (car (agent-q-test-mcp-call client "await_call"
                                                                       `(:call_id ,id)))))
          (should (cdr (agent-q-test-mcp-call client "await_call" `(:call_id ,id))))
          ;; And another one is stopped.
          (setq answer (agent-q-test-mcp-answer
                        client (agent-q-test-mcp-begin client "t_erase" '(:text "never")))
                id (plist-get (plist-get (plist-get answer :result) :_meta) :agent-q/callId))
          (should (string-match-p "the client cancelled it"
                                  (car (agent-q-test-mcp-call client "cancel_call" `(:call_id ,id)))))
          (with-current-buffer (agent-q-test-mcp-buffer)
            (agent-q-test-until (null (agent-q-call-waiting)))))
      (customize-set-variable 'agent-q-mcp-patience 45))))

(ert-deftest agent-q-mcp-a-request-goes-when-it-is-cancelled-or-its-client-is-gone ()
  (agent-q-mcp-test--with-tools
    (dolist (end (list (lambda (client id)
                         (agent-q-test-mcp-tell
                          client `(:jsonrpc "2.0" :method "notifications/cancelled"
                                            :params (:requestId ,id))))
                       (lambda (client _id) (agent-q-test-mcp-close client))
                       (lambda (_client _id) (with-current-buffer (agent-q-test-mcp-buffer)
                                               (agent-q-client-stop)))))
      (let* ((client (agent-q-test-mcp-client))
             (id (agent-q-test-mcp-begin client "t_erase" '(:text "a"))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (agent-q-call-waiting))
          (funcall end client id)
          (agent-q-test-until (null (agent-q-call-waiting)))
          (agent-q-test-until (string-match-p "cancelled" (agent-q-test-log))))
        (agent-q-test-mcp-close client)
        (kill-buffer (agent-q-test-mcp-buffer))))
    (should (zerop (plist-get (agent-q-core-status) :approvals)))))

(ert-deftest agent-q-mcp-turns-are-calls-with-little-time-between-them ()
  (agent-q-mcp-test--with-tools
    (let ((client (agent-q-test-mcp-client)) (turns nil))
      (let ((agent-q-events-seen-functions
             (list (lambda (event) (when (memq (plist-get event :type) '(:turn-started :turn-ended))
                                     (push (plist-get event :type) turns))))))
        (agent-q-test-mcp-call client "t_look" '(:text "a"))
        (agent-q-test-mcp-call client "t_look" '(:text "b"))
        (should (equal turns '(:turn-started)))
        (customize-set-variable 'agent-q-mcp-turn-pause 0.05)
        (unwind-protect
            (progn
              (agent-q-test-mcp-call client "t_look" '(:text "c"))
              (agent-q-test-until (eq (car turns) :turn-ended))
              (agent-q-test-mcp-call client "t_look" '(:text "d"))
              (agent-q-test-until (equal turns '(:turn-ended :turn-started :turn-ended :turn-started))))
          (customize-set-variable 'agent-q-mcp-turn-pause 60))))))

;;;; Bad input

(ert-deftest agent-q-mcp-what-is-no-message-is-refused-and-the-rest-goes-on ()
  (agent-q-mcp-test--with-tools
    (let ((client (agent-q-test-mcp-client)))
      (dolist (bad '(("{" . -32700) ("[]" . -32600) ("{\"id\":99}" . -32600)
                     ("\"x\"" . -32600) ("{\"jsonrpc\":\"2.0\",\"id\":98,\"method\":\"m\",\"params\":3}" . -32602)))
        (process-put client 'messages nil)
        (agent-q-test-mcp-tell client (car bad))
        (should (eql (cdr bad) (agent-q-mcp-test--code
                                (agent-q-test-until (car (process-get client 'messages)))))))
      (should (eql -32601 (agent-q-mcp-test--code (agent-q-test-mcp-ask client "no/such"))))
      (agent-q-test-mcp-tell client '(:jsonrpc "2.0" :method "no/such"))
      (agent-q-test-mcp-tell client '(:jsonrpc "2.0" :id 7777 :result 1))
      (process-put client 'messages nil)
      ;; Longer than what is read; none of it is kept.
      (let ((piece (make-string 1000000 ?x)))
        (dotimes (_ 12) (process-send-string client piece)))
      (agent-q-test-mcp-tell client "")
      (should (string-match-p "longer than 8 MB"
                              (format "%S" (agent-q-test-until (car (process-get client 'messages))))))
      (should (string-match-p "^OK$" (car (agent-q-test-mcp-call client "t_look" '(:text "ok")))))
      (let ((inexact (agent-q-test-mcp-answer
                      client (progn (agent-q-test-mcp-tell client "{\"jsonrpc\":\"2.0\",\"id\":500,\
\"method\":\"tools/call\",\"params\":{\"name\":\"t_look\",\"arguments\":{\"text\":\
123456789012345678901234567890}}}")
                                    500))))
        (should (plist-get (plist-get inexact :result) :isError))))))

(ert-deftest agent-q-mcp-many-clients-and-one-that-never-reads ()
  (agent-q-mcp-test--with-tools
    (let ((deaf (agent-q-test-mcp-client "deaf"))
          (clients (mapcar (lambda (n) (agent-q-test-mcp-client (format "c%d" n)))
                           (number-sequence 1 50))))
      (set-process-filter deaf t)
      (dotimes (n 300)
        (agent-q-test-mcp-tell deaf `(:jsonrpc "2.0" :id ,(+ 1000 n) :method "tools/list"
                                               :params ,(make-hash-table))))
      (let ((requests (mapcar (lambda (client)
                                (list client
                                      (agent-q-test-mcp-begin client "t_look" '(:text "x"))
                                      (agent-q-test-mcp-begin client "t_look"
                                                              `(:text ,(process-name client)))))
                              clients)))
        (pcase-dolist (`(,client ,first ,second) requests)
          (should (string-match-p "^X$" (agent-q-test-mcp-text (agent-q-test-mcp-answer client first))))
          (should (string-match-p (concat "^" (regexp-quote (upcase (process-name client))) "$")
                                  (agent-q-test-mcp-text (agent-q-test-mcp-answer client second)))))))))

;;;; The socket

(ert-deftest agent-q-mcp-only-the-user-can-open-the-socket ()
  (agent-q-test-mcp-serving
    (let ((socket (agent-q-test-mcp-socket)))
      (should (eql #o600 (file-modes socket)))
      (should (eql #o600 (file-modes (concat (file-name-sans-extension socket) ".json"))))
      (should (eql #o700 (file-modes agent-q-mcp-directory)))
      ;; Its file is missed, and turning the mode on again makes another one.
      (delete-file socket)
      (should-not (alist-get 'reachable (agent-q-mcp-status)))
      (agent-q-mcp-mode 1)
      (should (agent-q-test-mcp-client))
      (agent-q-mcp-mode -1)
      (should-not (directory-files agent-q-mcp-directory nil "emacs"))
      (set-file-modes agent-q-mcp-directory #o755)
      (should-error (agent-q-mcp-mode 1) :type 'agent-q-error)
      (should-not agent-q-mcp-mode)
      (set-file-modes agent-q-mcp-directory #o700))))

;;;; The bridge

(ert-deftest agent-q-mcp-the-bridge-passes-on-and-finds-emacs-again ()
  (agent-q-mcp-test--with-tools
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-introduce bridge "host")
      (should (string-match-p "^ONE$" (car (agent-q-test-mcp-call bridge "t_look" '(:text "one")))))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (should (equal default-directory agent-q-session-root)))
      ;; Emacs goes in mid-call: an answer at once, and one for what is asked then.
      (let ((id (agent-q-test-mcp-begin bridge "t_erase" '(:text "a"))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (agent-q-call-waiting)))
        (agent-q-mcp-mode -1)
        (should (string-match-p "Emacs went away" (format "%S" (agent-q-test-mcp-answer bridge id)))))
      (should (string-match-p "Emacs is not running"
                              (format "%S" (agent-q-test-mcp-answer
                                            bridge (agent-q-test-mcp-begin bridge "t_look" '(:text "a"))))))
      (agent-q-mcp-mode 1)
      (process-put bridge 'messages nil)
      (should (string-match-p "^TWO$" (car (agent-q-test-mcp-call bridge "t_look" '(:text "two")))))
      ;; The introduction was repeated without a second answer to the host, and the buffer is the same.
      (should (eql 1 (length (agent-q-client-buffers))))
      (should (equal (mapcar (lambda (it) (or (plist-get it :method) 'answer))
                             (process-get bridge 'messages))
                     '("notifications/tools/list_changed" answer)))
      ;; It ends with its host.
      (process-send-eof bridge)
      (agent-q-test-until (not (process-live-p bridge))))))

(ert-deftest agent-q-mcp-the-bridge-says-at-once-when-there-is-nothing-to-reach ()
  (agent-q-test-mcp-serving
    (agent-q-mcp-mode -1)
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-tell bridge '(:jsonrpc "2.0" :method "notifications/initialized"))
      (should (string-match-p "M-x agent-q-mcp-mode"
                              (format "%S" (agent-q-test-mcp-ask bridge "initialize"))))
      ;; What a dead Emacs left is no Emacs, and one with another bridge is said to be one.
      (let ((socket (expand-file-name "emacs-1.sock" agent-q-mcp-directory))
            (file (expand-file-name "emacs-1.json" agent-q-mcp-directory)))
        (with-temp-file file (insert "{\"pid\":1,\"bridge\":99,\"version\":\"9.9\"}"))
        (should (string-match-p "not running" (format "%S" (agent-q-test-mcp-ask bridge "ping"))))
        (let ((other (make-network-process :name "aq-other" :server t :family 'local :noquery t
                                           :service socket)))
          (unwind-protect
              (should (string-match-p "doesn't fit.*version 9.9"
                                      (format "%S" (agent-q-test-mcp-ask bridge "ping"))))
            (delete-process other)))))))

(defun agent-q-mcp-test--other-emacs (affinity)
  "Return a server beside ours that has AFFINITY to every directory and answers \"other\"."
  (let ((socket (expand-file-name "emacs-1.sock" agent-q-mcp-directory)))
    (with-temp-file (expand-file-name "emacs-1.json" agent-q-mcp-directory)
      (insert "{\"pid\":1,\"bridge\":1,\"version\":\"0\"}"))
    (make-network-process
     :name "aq-other" :server t :family 'local :noquery t :service socket :coding 'utf-8-unix
     :filter (lambda (process text)
               (cond ((string-search "agent-q/affinity" text)
                      (process-send-string
                       process (format "{\"jsonrpc\":\"2.0\",\"id\":\"agent-q\",\"result\":{\"affinity\":%d}}\n"
                                       affinity)))
                     ((string-search "\"ping\"" text)
                      (process-send-string
                       process "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"who\":\"other\"}}\n")))))))

(ert-deftest agent-q-mcp-the-bridge-takes-the-emacs-of-its-directory ()
  (pcase-dolist (`(,affinity . ,who) '((2 . "other") (-1 . nil)))
    (agent-q-test-mcp-serving
      (let ((other (agent-q-mcp-test--other-emacs affinity)))
        (unwind-protect
            (should (equal who (plist-get (plist-get (agent-q-test-mcp-ask (agent-q-test-mcp-bridge) "ping")
                                                     :result)
                                          :who)))
          (delete-process other))))))

;;;; HTTP

(defun agent-q-mcp-test--http (request)
  "Return the answer of the port to REQUEST, a list of lines and a body.
It is a list of the status, the session and the body."
  (let* ((port (alist-get 'port (agent-q-mcp-status)))
         (text "")
         (process (make-network-process :name "aq-http" :host "127.0.0.1" :service port :noquery t
                                        :coding 'utf-8-unix :sentinel #'ignore
                                        :filter (lambda (_ more) (setq text (concat text more))))))
    (unwind-protect
        (let ((body (car (last request))))
          (process-send-string
           process
           (concat (string-join (butlast request) "\r\n")
                   (format "\r\nContent-Length: %d\r\nContent-Type: application/json\r\n" (string-bytes body))
                   "Connection: close\r\n\r\n" body))
          (agent-q-test-until (not (process-live-p process)))
          (list (and (string-match "\\`HTTP/1.1 \\([0-9]+\\)" text) (string-to-number (match-string 1 text)))
                (and (string-match "^mcp-session-id: \\(.*\\)\r" text) (match-string 1 text))
                (and (string-match "\r\n\r\n" text) (substring text (match-end 0)))))
      (delete-process process))))

(ert-deftest agent-q-mcp-http-serves-programs-with-the-token-and-no-web-page ()
  (let ((agent-q-mcp-http t) (agent-q-mcp-port 0))
    (agent-q-mcp-test--with-tools
      (let* ((port (alist-get 'port (agent-q-mcp-status)))
             (host (format "Host: 127.0.0.1:%d" port))
             (token (with-temp-buffer (insert-file-contents (agent-q-mcp--token-file)) (buffer-string)))
             (authorization (concat "Authorization: Bearer " token))
             (hello "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"clientInfo\":{\"name\":\"web\"}}}")
             (call "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"t_look\",\"arguments\":{\"text\":\"abc\"}}}"))
        (should (eql #o600 (file-modes (agent-q-mcp--token-file))))
        (pcase-let ((`(,status ,session ,body)
                     (agent-q-mcp-test--http (list "POST /mcp HTTP/1.1" host authorization hello))))
          (should (eql 200 status))
          (should (string-match-p "\"protocolVersion\":\"2025-06-18\"" body))
          (should (string-match-p "ABC" (nth 2 (agent-q-mcp-test--http
                                                (list "POST /mcp HTTP/1.1" host authorization
                                                      (concat "Mcp-Session-Id: " session) call)))))
          (should (equal (buffer-name (agent-q-test-mcp-buffer)) "*agent-q: web 1*"))
          (should (eql 202 (car (agent-q-mcp-test--http
                                 (list "POST /mcp HTTP/1.1" host authorization
                                       (concat "Mcp-Session-Id: " session)
                                       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")))))
          (agent-q-mcp-test--http (list "DELETE /mcp HTTP/1.1" host authorization
                                        (concat "Mcp-Session-Id: " session) ""))
          (should (eql 404 (car (agent-q-mcp-test--http
                                 (list "POST /mcp HTTP/1.1" host authorization
                                       (concat "Mcp-Session-Id: " session) call))))))
        ;; Without a session, requests of one program share a buffer.
        (dotimes (n 2)
          (should (string-match-p
                   "\"resultType\":\"complete\""
                   (nth 2 (agent-q-mcp-test--http
                           (list "POST /mcp HTTP/1.1" host authorization
                                 "MCP-Protocol-Version: 2026-07-28"
                                 (agent-q-json-serialize
                                  `((jsonrpc . "2.0") (id . ,n) (method . "tools/call")
                                    (params . ,(let ((params (agent-q-mcp-test--stateless "2026-07-28")))
                                                 `((_meta . ,(plist-get params :_meta))
                                                   (name . "t_look")
                                                   (arguments . ((text . "abc"))))))))))))))
        (should (eql 1 (seq-count (lambda (buffer)
                                    (string-prefix-p "*agent-q: stateless" (buffer-name buffer)))
                                  (agent-q-client-buffers))))
        (pcase-dolist (`(,status . ,lines)
                       `((401 "POST /mcp HTTP/1.1" ,host) (401 "POST /mcp HTTP/1.1" ,host "Authorization: Bearer x")
                         (403 "POST /mcp HTTP/1.1" ,(format "Host: evil.example:%d" port) ,authorization)
                         (403 "POST /mcp HTTP/1.1" ,host ,authorization "Origin: https://evil.example")
                         (405 "GET /mcp HTTP/1.1" ,host ,authorization)
                         (404 "POST /other HTTP/1.1" ,host ,authorization)
                         (400 "POST /mcp HTTP/1.1" ,host ,authorization)))
          (should (equal (list status lines)
                         (list (car (agent-q-mcp-test--http (append lines (list call)))) lines))))
        ;; The token is nowhere that others read.
        (should-not (string-match-p token (agent-q-core-mcp-status)))
        (should-not (with-temp-buffer (insert-file-contents agent-q-log-file)
                                      (search-forward token nil t)))))
    (should-not (alist-get 'port (agent-q-mcp-status)))))

(provide 'agent-q-mcp-test)
;;; agent-q-mcp-test.el ends here
