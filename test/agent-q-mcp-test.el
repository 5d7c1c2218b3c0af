;;; agent-q-mcp-test.el --- Tests of the server for other agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Clients that speak MCP to a real server over its socket: what they are told, what they may do,
;; and what becomes of those that do not behave.

;;; Code:

(require 'agent-q-test-mcp)
(require 'agent-q-test-registry)
(require 'agent-q-rules)
(require 'agent-q-tool-list)
(require 'seq)

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
    (should-not (agent-q-mcp-client-buffers))))

(ert-deftest agent-q-mcp-speaks-the-version-without-introduction ()
  (agent-q-test-mcp-with-tools
    (let* ((client (agent-q-test-mcp-connect))
           (found (plist-get (agent-q-test-mcp-ask client "server/discover"
                                                   (agent-q-test-mcp-stateless "2026-07-28"))
                             :result))
           (listed (plist-get (agent-q-test-mcp-ask client "tools/list"
                                                    (agent-q-test-mcp-stateless "2026-07-28"))
                              :result)))
      (should (member "2024-11-05" (plist-get found :supportedVersions)))
      (should (equal (plist-get listed :resultType) "complete"))
      (should (equal (plist-get listed :cacheScope) "private"))
      (let ((call (agent-q-test-mcp-ask client "tools/call"
                                        (agent-q-test-mcp-stateless
                                         "2026-07-28" :name "t_look" :arguments '(:text "a")))))
        (should (string-match-p "^A$" (agent-q-test-mcp-text call)))
        (should (equal (buffer-name (agent-q-test-mcp-buffer)) "*agent-q: stateless 1*")))
      (should (eql -32601 (agent-q-test-mcp-code
                           (agent-q-test-mcp-ask client "tasks/get"
                                                 (agent-q-test-mcp-stateless "2026-07-28")))))
      (let ((refused (agent-q-test-mcp-ask client "tools/list"
                                           (agent-q-test-mcp-stateless "2031-01-01"))))
        (should (eql -32022 (agent-q-test-mcp-code refused))))
      (should (eql -32602 (agent-q-test-mcp-code (agent-q-test-mcp-ask client "tools/list")))))))

(ert-deftest agent-q-mcp-lists-the-tools-of-the-profile-with-annotations ()
  (agent-q-test-mcp-with-tools
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
        ;; What calls any tool is not harmless, whatever it calls.
        (should (plist-get (plist-get (named "call_tool" tools) :annotations) :destructiveHint))
        (should-not (plist-get (plist-get (named "call_tool" tools) :annotations) :readOnlyHint))
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
        (agent-q-test-with-tools ((agent-q-test-mcp-tool "t_new" :safe))
          (agent-q-test-until
           (agent-q-test-mcp-find client (lambda (it) (equal (plist-get it :method)
                                                             "notifications/tools/list_changed"))))
          (should (named "t_new" (tools client))))))))

(ert-deftest agent-q-mcp-tells-subscribers-of-tools-that-come ()
  (agent-q-test-mcp-serving
    (let* ((client (agent-q-test-mcp-connect))
           (id (agent-q-test-mcp-send client "subscriptions/listen"
                                      (agent-q-test-mcp-stateless
                                       "2026-07-28" :notifications '(:toolsListChanged t)))))
      (cl-flet ((noted (method)
                  (let ((note (agent-q-test-until
                               (agent-q-test-mcp-find
                                client (lambda (it) (equal (plist-get it :method) method))))))
                    (plist-get (plist-get (plist-get note :params) :_meta)
                               :io.modelcontextprotocol/subscriptionId))))
        (should (eql id (noted "notifications/subscriptions/acknowledged")))
        (agent-q-test-with-tools ((agent-q-test-mcp-tool "t_new" :safe))
          (should (eql id (noted "notifications/tools/list_changed"))))
        ;; It is over when it is cancelled, without an answer.
        (agent-q-test-mcp-tell client `(:jsonrpc "2.0" :method "notifications/cancelled"
                                                 :params (:requestId ,id)))
        ;; What was told just before may still come.
        (should (agent-q-test-mcp-ask client "ping"))
        (should-not (agent-q-test-mcp-find client (lambda (it) (eql id (plist-get it :id)))))))))

(ert-deftest agent-q-mcp-tells-of-progress-whoever-gives-a-token ()
  (agent-q-test-mcp-with-tools
    (let* ((client (agent-q-test-mcp-client))
           (id (agent-q-test-mcp-send client "tools/call"
                                      '(:name "t_erase" :arguments (:text "a")
                                        :_meta (:progressToken "token"))))
           (note (agent-q-test-until
                  (agent-q-test-mcp-find client (lambda (it) (equal (plist-get it :method)
                                                                    "notifications/progress"))))))
      (should (equal (plist-get (plist-get note :params) :progressToken) "token"))
      (should (string-match-p "t_erase waits for the user's consent"
                              (plist-get (plist-get note :params) :message)))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-test-answer "n"))
      (should (agent-q-test-mcp-answer client id)))))

;; The specification: the token is the request's, the numbers grow, and nothing comes after the end.
(ert-deftest agent-q-mcp-progress-grows-and-ends-with-the-result ()
  (agent-q-test-mcp-with-tools
    (let* ((client (agent-q-test-mcp-client))
           (tokens '((7 . "a") ("seven" . "b")))
           (ids (mapcar (pcase-lambda (`(,token . ,text))
                          (agent-q-test-mcp-send client "tools/call"
                                                 `(:name "t_erase" :arguments (:text ,text)
                                                         :_meta (:progressToken ,token))))
                        tokens)))
      (cl-flet ((progress (token)
                  (cl-loop for message in (process-get client 'messages)
                           for params = (plist-get message :params)
                           when (equal token (plist-get params :progressToken))
                           collect (plist-get params :progress))))
        (pcase-dolist (`(,token . ,_) tokens)
          (agent-q-test-until (cdr (progress token)) (format "two notes for %S" token))
          (should (apply #'< (progress token))))
        (dolist (_ ids)
          (with-current-buffer (agent-q-test-mcp-buffer)
            (agent-q-test-until (agent-q-call-waiting))
            (agent-q-test-answer "n")))
        (dolist (id ids) (should (agent-q-test-mcp-answer client id)))
        ;; A note comes before the answer to its request, or not at all.
        (let ((messages (process-get client 'messages)))
          (cl-loop for id in ids
                   for (token . _) in tokens
                   for after = (cdr (cl-member-if (lambda (it) (equal id (plist-get it :id))) messages))
                   do (should-not (cl-find token after
                                           :key (lambda (it) (plist-get (plist-get it :params) :progressToken))
                                           :test #'equal))))
        ;; Nobody asked to be told of this one.
        (process-put client 'messages nil)
        (should (agent-q-test-mcp-call client "t_look" '(:text "x")))
        (should-not (agent-q-test-mcp-find client (lambda (it) (equal (plist-get it :method)
                                                                      "notifications/progress"))))))))

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
      (should (eql -32602 (agent-q-test-mcp-code
                           (agent-q-test-mcp-ask client "prompts/get" '(:name "x")))))
      (should (eql 3 (length (plist-get (plist-get (agent-q-test-mcp-ask client "resources/list") :result)
                                        :resources))))
      (should (eql -32002 (agent-q-test-mcp-code
                           (agent-q-test-mcp-ask client "resources/read" '(:uri "agent-q://x"))))))))

;;;; Calls and consent

(ert-deftest agent-q-mcp-calls-are-a-log-in-a-buffer-of-the-client ()
  (agent-q-test-mcp-with-tools
    (let ((client (agent-q-test-mcp-client "claude-code"))
          (window (selected-window)))
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call client "t_look" '(:text "abc"))))
        (should (string-match-p "^ABC$" text))
        (should-not error))
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call client "t_look" '(:texts "abc"))))
        (should (string-match-p "Missing required field: text" text))
        (should error))
      (let ((unknown (agent-q-test-mcp-answer client (agent-q-test-mcp-begin client "t_lok"))))
        (should (eql -32602 (agent-q-test-mcp-code unknown)))
        (should (string-match-p "Did you mean t_look" (plist-get (plist-get unknown :error) :message))))
      ;; Another client has another buffer.
      (agent-q-test-mcp-call (agent-q-test-mcp-client "claude-code") "t_look" '(:text "b"))
      (should (equal (sort (mapcar #'buffer-name (agent-q-mcp-client-buffers)) #'string<)
                     '("*agent-q: claude-code 1*" "*agent-q: claude-code 2*")))
      (with-current-buffer "*agent-q: claude-code 1*"
        (should (string-match-p "t_look abc" (agent-q-test-log)))
        (goto-char (point-max))
        (should-error (insert "x") :type 'text-read-only)
        (should (eq major-mode 'agent-q-mcp-client-mode)))
      ;; No window was taken for any of it, and chats are still chats.
      (should (eq window (selected-window)))
      (should-not (get-buffer-window "*agent-q: claude-code 1*"))
      (should-not (agent-q-session-chats)))))

(ert-deftest agent-q-mcp-asks-in-emacs-whatever-the-host-says ()
  (agent-q-test-mcp-with-tools
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
  (agent-q-test-mcp-with-tools
    (let* ((rule '(:effect "deny" :tool "t_look" :scope (:for "always") :client "code*"))
           (before (mapcar (lambda (it) (gethash "id" it))
                           (gethash "rules" (agent-q-json-parse (agent-q-core-rules))))))
      (agent-q-rules-add rule)
      (unwind-protect
          (progn
            ;; Nobody checks the name.
            (should (string-search "from an MCP client that calls itself code*" (agent-q-core-rules)))
            (should (cdr (agent-q-test-mcp-call (agent-q-test-mcp-client "codex") "t_look" '(:text "a"))))
            (should-not (cdr (agent-q-test-mcp-call (agent-q-test-mcp-client "other") "t_look"
                                                    '(:text "a"))))
            (should (equal (agent-q-test-content "t_look" '(:text "a")) "A")))
        (seq-doseq (it (gethash "rules" (agent-q-json-parse (agent-q-core-rules))))
          (unless (member (gethash "id" it) before)
            (agent-q-core-revoke-rule (gethash "id" it))))))))

(ert-deftest agent-q-mcp-a-paused-client-is-refused ()
  (agent-q-test-mcp-with-tools
    (let ((client (agent-q-test-mcp-client)))
      (agent-q-test-mcp-call client "t_look" '(:text "a"))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-mcp-client-pause)
        (agent-q-test-until (string-match-p "Paused" (agent-q-chat-view--header-state))))
      (pcase-let ((`(,text . ,error) (agent-q-test-mcp-call client "t_look" '(:text "a"))))
        (should (and error (string-match-p "paused" text))))
      ;; It can't get around that by connecting again.
      (agent-q-test-mcp-close client)
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-test-until (agent-q-test-shows "The client disconnected")))
      (let ((again (agent-q-test-mcp-client)))
        (should (string-match-p "paused" (car (agent-q-test-mcp-call again "t_look" '(:text "a")))))
        (should (eql 1 (length (agent-q-mcp-client-buffers))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-mcp-client-pause))
        (should (string-match-p "^B$" (car (agent-q-test-mcp-call again "t_look" '(:text "b")))))))))

(ert-deftest agent-q-mcp-a-pause-holds-for-the-name ()
  (agent-q-test-mcp-with-tools
    (let ((clients (list (agent-q-test-mcp-client "twin") (agent-q-test-mcp-client "twin")))
          (other (agent-q-test-mcp-client "other")))
      (agent-q-test-mcp-call (car clients) "t_look" '(:text "a"))
      (with-current-buffer (agent-q-test-mcp-buffer)
        (agent-q-mcp-client-pause))
      (dolist (client (cons (agent-q-test-mcp-client "twin") clients))
        (should (string-match-p "paused" (car (agent-q-test-mcp-call client "t_look" '(:text "a"))))))
      (should-not (cdr (agent-q-test-mcp-call other "t_look" '(:text "a"))))
      (with-current-buffer "*agent-q: twin 1*"
        (agent-q-mcp-client-pause))
      (dolist (client clients)
        (should-not (cdr (agent-q-test-mcp-call client "t_look" '(:text "a"))))))))

(ert-deftest agent-q-mcp-a-question-does-not-hold-up-other-calls ()
  (agent-q-test-with-tools ((agent-q-test-mcp-tool "t_change" :cautious))
    (agent-q-test-mcp-with-tools
      (let* ((client (agent-q-test-mcp-client))
             (asking (agent-q-test-mcp-begin client "t_erase" '(:text "one"))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (agent-q-call-waiting)))
        (should (string-match-p "^TWO$" (car (agent-q-test-mcp-call client "t_change" '(:text "two")))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          ;; It says who asks.
          (should (string-match-p "^\\? tester: Run t_erase\\?" (agent-q-test-log)))
          (agent-q-test-answer "y"))
        (should (string-match-p "^ONE$" (agent-q-test-mcp-text (agent-q-test-mcp-answer client asking))))))))

(ert-deftest agent-q-mcp-calls-that-come-at-once-are-made-in-their-order ()
  (let* ((seen nil)
         (tool (agent-q-test-tool "t_note" (lambda (arguments) (push (gethash "text" arguments) seen) "noted")
                                  :safety-level :cautious :required '("text"))))
    (agent-q-test-with-tools (tool)
      (agent-q-test-mcp-serving
        (let* ((client (agent-q-test-mcp-client))
               (texts (mapcar #'number-to-string (number-sequence 1 20)))
               (line (lambda (text)
                       (json-serialize `(:jsonrpc "2.0" :id ,text :method "tools/call"
                                                  :params (:name "t_note" :arguments (:text ,text)))))))
          ;; The first ones meet a client without a session, the others one that has it.
          (dotimes (_ 2)
            (setq seen nil)
            (agent-q-test-mcp-tell client (mapconcat line texts "\n"))
            (dolist (text texts)
              (agent-q-test-mcp-answer client text))
            (process-put client 'messages nil)
            (should (equal texts (reverse seen)))))))))

(ert-deftest agent-q-mcp-understands-calls-as-models-write-them ()
  (agent-q-test-mcp-with-tools
    (let ((client (agent-q-test-mcp-client)))
      (dolist (arguments '((:name "mcp__agent-q__t_look" :arguments (:text "a"))
                           (:name "t_look" :text "a")))
        (should (string-match-p "^A$" (car (agent-q-test-mcp-call client "call_tool" arguments))))))))

(ert-deftest agent-q-mcp-an-agent-with-file-tools-of-its-own-edits-what-others-changed ()
  "It is not told to read a file with a tool that it isn't offered."
  (let* ((folder (file-name-as-directory (make-temp-file "aq-mcp" t)))
         (file (expand-file-name "a.el" folder))
         (agent-q-project-root folder))
    (cl-flet ((text () (with-temp-buffer (insert-file-contents file) (buffer-string))))
      (unwind-protect
          (agent-q-test-mcp-serving
            (with-temp-file file (insert "(defun one () 1)\n\n(defun two () 2)\n"))
            (let ((client (agent-q-test-mcp-client "claude-code")))
              (dolist (change '(("one" . "(defun one () 11)") ("two" . "(defun two () 22)")))
                (let ((request (agent-q-test-mcp-begin
                                client "edit_definition"
                                (list :path file :name (car change) :new_source (cdr change)))))
                  (with-current-buffer (agent-q-test-mcp-buffer)
                    (agent-q-test-answer "y"))
                  (should (string-match-p "Definition replaced"
                                          (agent-q-test-mcp-text (agent-q-test-mcp-answer client request)))))
                (let ((now (text)))
                  (with-temp-file file (insert ";; The user's line.\n" now))))
              (should (equal (concat ";; The user's line.\n;; The user's line.\n"
                                     "(defun one () 11)\n\n(defun two () 22)\n")
                             (text)))))
        (when-let* ((buffer (find-buffer-visiting file)))
          (with-current-buffer buffer (set-buffer-modified-p nil))
          (kill-buffer buffer))
        (delete-directory folder t)))))

;;;; Time

(ert-deftest agent-q-mcp-a-call-that-takes-longer-is-pending-and-can-be-awaited ()
  (agent-q-test-mcp-with-tools
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
          ;; A number of an Emacs that ran before is no other call's.
          (should (> id 1000000))
          (should (string-match-p "Emacs was started again since"
                                  (car (agent-q-test-mcp-call client "await_call" '(:call_id 1)))))
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
  (agent-q-test-mcp-with-tools
    (dolist (end (list (lambda (client id)
                         (agent-q-test-mcp-tell
                          client `(:jsonrpc "2.0" :method "notifications/cancelled"
                                            :params (:requestId ,id))))
                       (lambda (client _id) (agent-q-test-mcp-close client))
                       (lambda (_client _id) (with-current-buffer (agent-q-test-mcp-buffer)
                                               (agent-q-mcp-client-stop)))))
      (let* ((client (agent-q-test-mcp-client))
             (shown nil)
             (id nil))
        ;; The echo area, which batch Emacs has none of.
        (cl-letf (((symbol-function 'message)
                   (lambda (text &rest words) (setq shown (and text (apply #'format text words)))))
                  ((symbol-function 'current-message) (lambda () shown)))
          (setq id (agent-q-test-mcp-begin client "t_erase" '(:text "a")))
          (with-current-buffer (agent-q-test-mcp-buffer)
            (agent-q-test-until (agent-q-call-waiting))
            (agent-q-test-until (string-match-p "tester asks: Run t_erase" (or shown "")))
            (funcall end client id)
            (agent-q-test-until (null (agent-q-call-waiting)))
            (should-not (string-match-p "asks" (or shown "")))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (string-match-p "cancelled" (agent-q-test-log))))
        (agent-q-test-mcp-close client)
        (kill-buffer (agent-q-test-mcp-buffer))))
    (should (zerop (plist-get (agent-q-core-status) :approvals)))))

(ert-deftest agent-q-mcp-nothing-is-left-of-a-client-that-has-gone-before-its-first-call ()
  (agent-q-test-mcp-with-tools
    (let ((told nil))
      (cl-letf (((symbol-function 'message) (lambda (&rest words) (push (apply #'format words) told))))
        (dolist (last '("" "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/ca"))
          (let ((client (agent-q-test-mcp-client "early")))
            (agent-q-test-mcp-begin client "t_erase" '(:text "a"))
            (process-send-string client last)
            (agent-q-test-mcp-close client)
            ;; The core hears of it before Emacs makes a buffer, as Emacs reads nothing meanwhile.
            (let ((tries 0))
              (while (and (alist-get 'clients (agent-q-mcp-status)) (< (cl-incf tries) 1000))
                (call-process "sleep" nil nil nil "0.01"))
              (should (< tries 1000)))))
        (let ((client (agent-q-test-mcp-client "late")))
          (agent-q-test-mcp-call client "t_look" '(:text "a"))
          (agent-q-test-until (equal (mapcar #'buffer-name (agent-q-mcp-client-buffers)) '("*agent-q: late 1*")))))
      (should (equal told '("agent-q: late calls tools; its calls are in *agent-q: late 1*"))))))

(ert-deftest agent-q-mcp-buffers-of-clients-that-have-gone-do-not-pile-up ()
  (agent-q-test-mcp-with-tools
    (let ((clients nil) (shown nil) (paused nil))
      (cl-flet ((state (number) (buffer-local-value 'agent-q-session-mcp-state
                                                    (get-buffer (format "*agent-q: c%d 1*" number)))))
        (dotimes (number 9)
          (push (agent-q-test-mcp-client (format "c%d" number)) clients)
          (agent-q-test-mcp-call (car clients) "t_look" '(:text "a")))
        (setq shown (get-buffer "*agent-q: c0 1*")
              paused (get-buffer "*agent-q: c1 1*"))
        (with-current-buffer paused (agent-q-mcp-client-pause))
        (save-window-excursion
          (set-window-buffer (selected-window) shown)
          ;; The last one stays.
          (dotimes (number 8)
            (agent-q-test-mcp-close (nth (- 8 number) clients))
            (unless (= number 1)
              (agent-q-test-until (or (null (get-buffer (format "*agent-q: c%d 1*" number)))
                                      (eq 'gone (state number))))))
          (agent-q-test-until (= 8 (length (agent-q-mcp-client-buffers))))
          (should-not (get-buffer "*agent-q: c2 1*"))
          (should (buffer-live-p shown))
          (should (buffer-live-p paused))
          (should (eq 'connected (state 8))))))))

(ert-deftest agent-q-mcp-turns-are-calls-with-little-time-between-them ()
  (agent-q-test-mcp-with-tools
    (let ((client (agent-q-test-mcp-client)) (turns nil))
      (let ((agent-q-events-subscribers (copy-alist agent-q-events-subscribers)))
        (dolist (type '(:turn-started :turn-ended))
          (agent-q-events-subscribe type (lambda (_) (push type turns))))
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

(ert-deftest agent-q-mcp-turns-are-what-the-host-marks-as-one ()
  (agent-q-test-mcp-with-tools
    (let ((client (agent-q-test-mcp-client)) (turns nil))
      (customize-set-variable 'agent-q-mcp-turn-pause 20)
      (unwind-protect
          (let ((agent-q-events-subscribers (copy-alist agent-q-events-subscribers)))
            (dolist (type '(:turn-started :turn-ended))
              (agent-q-events-subscribe type (lambda (_) (push type turns))))
            (cl-flet ((look (meta)
                        (should (agent-q-test-mcp-text
                                 (agent-q-test-mcp-ask client "tools/call"
                                                       `(:name "t_look" :arguments (:text "a")
                                                         :_meta ,meta))))))
              (look '(:agent-q/turn "one"))
              (look '(:agent-q/turn "one"))
              (should (equal turns '(:turn-started)))
              (look '(:agent-q/turn "two"))
              (agent-q-test-until (equal turns '(:turn-started :turn-ended :turn-started)))
              (look '(:x-codex-turn-metadata (:turn_id "three")))
              (agent-q-test-until (eql 5 (length turns)))
              ;; What says nothing is of the turn at hand.
              (look '(:other "four"))
              (should (agent-q-test-mcp-ask client "ping"))
              (should (eql 5 (length turns)))))
        (customize-set-variable 'agent-q-mcp-turn-pause 60)))))

(ert-deftest agent-q-mcp-statistics-name-the-client ()
  (agent-q-test-mcp-with-tools
    (agent-q-test-mcp-call (agent-q-test-mcp-client "counted") "t_look" '(:text "a"))
    (agent-q-test-content "t_look" '(:text "a"))
    (let ((rows (seq-filter (lambda (row) (equal "t_look" (plist-get row :tool)))
                            (agent-q-tool-statistics-data))))
      (dolist (client '("counted" nil))
        (should (seq-find (lambda (row) (equal client (plist-get row :client))) rows))))
    (save-window-excursion
      (agent-q-tool-statistics)
      (should (string-match-p "t_look .*counted" (buffer-string)))
      (kill-buffer))))

;;;; Bad input

(ert-deftest agent-q-mcp-what-is-no-message-is-refused-and-the-rest-goes-on ()
  (agent-q-test-mcp-with-tools
    (let ((client (agent-q-test-mcp-client)))
      (dolist (bad '(("{" . -32700) ("[]" . -32600) ("{\"id\":99}" . -32600)
                     ("\"x\"" . -32600) ("{\"jsonrpc\":\"2.0\",\"id\":98,\"method\":\"m\",\"params\":3}" . -32602)))
        (process-put client 'messages nil)
        (agent-q-test-mcp-tell client (car bad))
        (should (eql (cdr bad) (agent-q-test-mcp-code (agent-q-test-mcp-refusal client)))))
      (should (eql -32601 (agent-q-test-mcp-code (agent-q-test-mcp-ask client "no/such"))))
      (agent-q-test-mcp-tell client '(:jsonrpc "2.0" :method "no/such"))
      (agent-q-test-mcp-tell client '(:jsonrpc "2.0" :id 7777 :result 1))
      (process-put client 'messages nil)
      ;; Longer than what is read; none of it is kept.
      (let ((piece (make-string 1000000 ?x)))
        (dotimes (_ 12) (process-send-string client piece)))
      (agent-q-test-mcp-tell client "")
      (should (string-match-p "longer than 8 MB"
                              (plist-get (plist-get (agent-q-test-mcp-refusal client) :error) :message)))
      (should (string-match-p "^OK$" (car (agent-q-test-mcp-call client "t_look" '(:text "ok")))))
      (let ((inexact (agent-q-test-mcp-answer
                      client (progn (agent-q-test-mcp-tell client "{\"jsonrpc\":\"2.0\",\"id\":500,\
\"method\":\"tools/call\",\"params\":{\"name\":\"t_look\",\"arguments\":{\"text\":\
123456789012345678901234567890}}}")
                                    500))))
        (should (plist-get (plist-get inexact :result) :isError))))))

(ert-deftest agent-q-mcp-many-clients-and-one-that-never-reads ()
  (agent-q-test-mcp-with-tools
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
      (unless (eq system-type 'gnu/linux)
        (delete-file socket)
        (should-not (alist-get 'reachable (agent-q-mcp-status)))
        (agent-q-mcp-mode 1)
        (should (agent-q-test-mcp-client)))
      (agent-q-mcp-mode -1)
      (should-not (directory-files agent-q-mcp-directory nil "emacs"))
      (set-file-modes agent-q-mcp-directory #o755)
      (should-error (agent-q-mcp-mode 1) :type 'agent-q-error)
      (should-not agent-q-mcp-mode)
      (set-file-modes agent-q-mcp-directory #o700))))

(ert-deftest agent-q-mcp-makes-the-socket-again-when-its-file-is-removed ()
  (unless (eq system-type 'gnu/linux) (ert-skip "The system tells of no removed file"))
  (agent-q-test-mcp-serving
    (let* ((socket (agent-q-test-mcp-socket))
           (description (concat (file-name-sans-extension socket) ".json"))
           (early (agent-q-test-mcp-client))
           (moved (make-temp-name agent-q-mcp-directory)))
      (dolist (lose (list (lambda () (delete-file socket))
                          (lambda () (delete-file description))
                          (lambda () (rename-file socket (concat socket ".moved")))
                          (lambda () (rename-file agent-q-mcp-directory moved))))
        (funcall lose)
        (agent-q-test-until (and (file-exists-p socket) (file-exists-p description)
                                 (ignore-errors (agent-q-test-mcp-client))))
        (should (alist-get 'reachable (agent-q-mcp-status)))
        (should (eql #o600 (file-modes socket)))
        (should (eql #o700 (file-modes agent-q-mcp-directory))))
      (delete-directory moved t)
      ;; Who was connected still is.
      (should (agent-q-test-mcp-ask early "ping"))
      ;; And nothing comes back once the mode is off.
      (agent-q-mcp-mode -1)
      (should-not (file-exists-p socket)))))

(provide 'agent-q-mcp-test)
;;; agent-q-mcp-test.el ends here
