;;; agent-q-mcp-specification-test.el --- Other agents and the specification  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the versions of MCP's specification say, sentence by sentence, beyond what other tests of the
;; server and those of src/mcp/ hold it to.

;;; Code:

(require 'agent-q-test-mcp)
(require 'agent-q-test-registry)

(ert-deftest agent-q-mcp-specification-before-and-around-the-introduction ()
  (agent-q-test-mcp-serving
    (let ((client (agent-q-test-mcp-connect)))
      ;; Only pings are answered before it.
      (should (plist-member (agent-q-test-mcp-ask client "ping") :result))
      (dolist (method '("tools/list" "tools/call" "prompts/list" "resources/list"))
        (should (eql -32602 (agent-q-test-mcp-code (agent-q-test-mcp-ask client method)))))
      (agent-q-test-mcp-introduce client)
      ;; A second one is answered, too, and what came before goes on.
      (should (equal "2024-11-05" (plist-get (agent-q-test-mcp-introduce client "again" "2024-11-05")
                                             :protocolVersion)))
      (should (plist-member (agent-q-test-mcp-ask client "tools/list") :result))
      ;; What is not offered is not there.
      (dolist (method '("logging/setLevel" "completion/complete" "resources/subscribe" "tasks/list"
                        "sampling/createMessage" "subscriptions/listen"))
        (should (eql -32601 (agent-q-test-mcp-code (agent-q-test-mcp-ask client method)))))
      ;; No list has a second page.
      (dolist (method '("tools/list" "prompts/list" "resources/list" "resources/templates/list"))
        (should-not (plist-member (plist-get (agent-q-test-mcp-ask client method) :result) :nextCursor))
        ;; Some models fill in every parameter.
        (should (plist-member (agent-q-test-mcp-ask client method '(:cursor "")) :result))
        (should (eql -32602 (agent-q-test-mcp-code
                             (agent-q-test-mcp-ask client method '(:cursor "2")))))))))

(ert-deftest agent-q-mcp-specification-of-ids-and-cancelling ()
  (agent-q-test-mcp-with-tools
    (let ((client (agent-q-test-mcp-client)))
      ;; What was cancelled in vain, or by a note that says nothing, is no trouble.
      (dolist (params '((:requestId 4711) (:requestId "x") (:requestId nil) (:reason "none")))
        (agent-q-test-mcp-tell client `(:jsonrpc "2.0" :method "notifications/cancelled"
                                                 :params ,params)))
      (agent-q-test-mcp-tell client '(:jsonrpc "2.0" :id "text" :method "ping"))
      (should (agent-q-test-mcp-answer client "text"))
      (process-put client 'messages nil)
      (agent-q-test-mcp-tell client "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}")
      (should (eql -32600 (agent-q-test-mcp-code (agent-q-test-mcp-refusal client))))
      ;; An id that is in use is refused, and the call that has it goes on.
      (let ((id (agent-q-test-mcp-begin client "t_erase" '(:text "kept"))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (agent-q-call-waiting))
          (process-put client 'messages nil)
          (agent-q-test-mcp-tell client `(:jsonrpc "2.0" :id ,id :method "ping"))
          (should (eql -32600 (agent-q-test-mcp-code (agent-q-test-mcp-refusal client))))
          (process-put client 'messages nil)
          (agent-q-test-answer "y"))
        (should (string-match-p "^KEPT$" (agent-q-test-mcp-text (agent-q-test-mcp-answer client id)))))
      ;; What was cancelled gets no answer, even once it is over.
      (let ((id (agent-q-test-mcp-begin client "t_erase" '(:text "gone"))))
        (with-current-buffer (agent-q-test-mcp-buffer)
          (agent-q-test-until (agent-q-call-waiting))
          (agent-q-test-mcp-tell client `(:jsonrpc "2.0" :method "notifications/cancelled"
                                                   :params (:requestId ,id)))
          (agent-q-test-until (null (agent-q-call-waiting))))
        (should (agent-q-test-mcp-ask client "ping"))
        (should-not (agent-q-test-mcp-find client (lambda (it) (eql id (plist-get it :id)))))))))

(ert-deftest agent-q-mcp-specification-without-introduction ()
  (agent-q-test-mcp-serving
    (let ((client (agent-q-test-mcp-connect)))
      (cl-flet ((ask (method &rest more)
                  (agent-q-test-mcp-ask client method
                                        (apply #'agent-q-test-mcp-stateless "2026-07-28" more))))
        ;; Each result says its type and who gave it; lists say how long they are good for.
        (dolist (method '("server/discover" "tools/list" "prompts/list" "resources/list"
                          "resources/templates/list"))
          (let ((result (plist-get (ask method) :result)))
            (should (equal "complete" (plist-get result :resultType)))
            (should (eql 0 (plist-get result :ttlMs)))
            (should (equal "private" (plist-get result :cacheScope)))
            (should (equal "agent-q" (plist-get (plist-get (plist-get result :_meta)
                                                           :io.modelcontextprotocol/serverInfo)
                                                :name)))))
        (let ((result (plist-get (ask "prompts/get" :name "repl_loop") :result)))
          (should (equal "complete" (plist-get result :resultType)))
          (should-not (plist-member result :ttlMs)))
        ;; The code of the earlier versions must not be used.
        (should (eql -32602 (agent-q-test-mcp-code (ask "resources/read" :uri "agent-q://x"))))
        (should (equal (ask "tools/list") (progn (cl-decf (process-get client 'id))
                                                 (ask "tools/list"))))))))

(ert-deftest agent-q-mcp-specification-of-roots ()
  "A client that has roots is asked for them once it is ready, and works in the first."
  (agent-q-test-mcp-with-tools
    (let ((folder (make-temp-file "aq root" t))
          (client (agent-q-test-mcp-connect)))
      (unwind-protect
          (cl-flet ((asked () (agent-q-test-mcp-find
                               client (lambda (it) (equal (plist-get it :method) "roots/list")))))
            (agent-q-test-mcp-ask client "initialize"
                                  `(:protocolVersion "2025-11-25"
                                    :capabilities (:roots ,(make-hash-table))
                                    :clientInfo (:name "rooted" :version "1")))
            (should (agent-q-test-mcp-ask client "ping"))
            (should-not (asked))
            (agent-q-test-mcp-tell client '(:jsonrpc "2.0" :method "notifications/initialized"))
            (let ((question (agent-q-test-until (asked))))
              (agent-q-test-mcp-tell
               client `(:jsonrpc "2.0" :id ,(plist-get question :id)
                        :result (:roots [(:uri ,(concat "file://" (string-replace " " "%20" folder)))]))))
            (agent-q-test-mcp-call client "t_look" '(:text "a"))
            (with-current-buffer (agent-q-test-mcp-buffer)
              (should (equal default-directory (file-name-as-directory folder))))
            ;; One that has none is not asked.
            (let ((other (agent-q-test-mcp-client)))
              (should (agent-q-test-mcp-ask other "ping"))
              (should-not (agent-q-test-mcp-find
                           other (lambda (it) (equal (plist-get it :method) "roots/list"))))))
        (delete-directory folder t)))))

(defun agent-q-mcp-specification-test--batch (client)
  "Have CLIENT send three requests and a note as one message."
  (process-put client 'messages nil)
  (agent-q-test-mcp-tell
   client (concat "[{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"},\
{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"},\
{\"jsonrpc\":\"2.0\",\"id\":\"t\",\"method\":\"tools/call\",\"params\":{\"name\":\"t_look\",\"arguments\":{\"text\":\"a\"}}},\
{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"none\"}]")))

(defun agent-q-mcp-specification-test--answers (client)
  "Wait for a message to CLIENT that is a list of answers, and return it."
  (agent-q-test-until (agent-q-test-mcp-find client (lambda (message) (consp (car message))))
                      "a list of answers"))

(ert-deftest agent-q-mcp-specification-of-batches ()
  "In the one version that has them their answers come together, in others each is refused by its id."
  (agent-q-test-mcp-with-tools
    (dolist (client (list (agent-q-test-mcp-connect) (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-introduce client "batcher" "2025-03-26")
      (agent-q-mcp-specification-test--batch client)
      ;; An array is a list of messages here.
      (let ((answers (agent-q-mcp-specification-test--answers client)))
        (should (equal '("p" "t" "x") (mapcar (lambda (it) (plist-get it :id)) answers)))
        (should (plist-member (nth 0 answers) :result))
        (should (string-match-p "^A$" (agent-q-test-mcp-text (nth 1 answers))))
        (should (eql -32601 (agent-q-test-mcp-code (nth 2 answers)))))
      ;; What nobody waits for gets no answer, and an introduction is not one of several.
      (process-put client 'messages nil)
      (agent-q-test-mcp-tell client "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]")
      (agent-q-test-mcp-tell client "[{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\"}]")
      (should (equal "i" (plist-get (car (agent-q-mcp-specification-test--answers client)) :id)))
      (agent-q-test-mcp-introduce client "batcher" "2025-06-18")
      (agent-q-mcp-specification-test--batch client)
      (dolist (id '("p" "t" "x"))
        (should (eql -32600 (agent-q-test-mcp-code (agent-q-test-mcp-answer client id))))))
    ;; Without Emacs each of them is refused, too.
    (let ((bridge (agent-q-test-mcp-bridge)))
      (agent-q-test-mcp-introduce bridge "batcher" "2025-03-26")
      (agent-q-mcp-mode -1)
      (agent-q-mcp-specification-test--batch bridge)
      (dolist (id '("p" "t" "x"))
        (let ((answer (agent-q-test-mcp-answer bridge id)))
          (should (or (agent-q-test-mcp-code answer)
                      (eq t (plist-get (plist-get answer :result) :isError)))))))))

(provide 'agent-q-mcp-specification-test)
;;; agent-q-mcp-specification-test.el ends here
