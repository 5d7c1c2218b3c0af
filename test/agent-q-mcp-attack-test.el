;;; agent-q-mcp-attack-test.el --- Clients that mean harm, or are broken  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What clients send that are out to fill Emacs's memory, to keep others out, or to get past the
;; checks of the port, and what those leave behind that are killed.

;;; Code:

(require 'agent-q-test-mcp)

;;;; Memory

(defun agent-q-mcp-attack-test--resident ()
  "Return how many MB of memory this Emacs has; skip the test where that can't be known."
  (unless (file-readable-p "/proc/self/status") (ert-skip "The system doesn't say how much memory is used"))
  (with-temp-buffer
    (insert-file-contents "/proc/self/status")
    (re-search-forward "^VmRSS:\\s-+\\([0-9]+\\) kB")
    (/ (string-to-number (match-string 1)) 1024)))

(ert-deftest agent-q-mcp-attack-answers-that-nobody-reads-fill-no-memory ()
  (agent-q-test-mcp-serving
    (let ((before (agent-q-mcp-attack-test--resident))
          (hearing (agent-q-test-mcp-client))
          (deaf nil))
      (dotimes (n 40)
        (let ((client (agent-q-test-mcp-client (format "deaf %d" n))))
          (set-process-filter client t)
          (push client deaf)
          (dotimes (_ 300) (agent-q-test-mcp-send client "tools/list" nil))))
      ;; What they asked comes before this.
      (dotimes (_ 20) (should (agent-q-test-mcp-ask hearing "tools/list")))
      (should (< (- (agent-q-mcp-attack-test--resident) before) 100)))))

(ert-deftest agent-q-mcp-attack-requests-that-wait-fill-no-memory ()
  (agent-q-test-mcp-with-tools
    (let* ((before (agent-q-mcp-attack-test--resident))
           (client (agent-q-test-mcp-client))
           (text (make-string 1000000 ?x)))
      (customize-set-variable 'agent-q-mcp-patience 0.05)
      (unwind-protect
          (let ((ids (mapcar (lambda (_) (agent-q-test-mcp-begin client "t_erase" `(:text ,text)))
                             (number-sequence 1 60))))
            (should (string-match-p "fill 16 MB already"
                                    (agent-q-test-mcp-text
                                     (agent-q-test-mcp-answer client (car (last ids))))))
            (should (string-prefix-p "pending" (agent-q-test-mcp-text
                                                (agent-q-test-mcp-answer client (car ids)))))
            ;; Small ones are still taken.
            (should (string-match-p "^OK$" (car (agent-q-test-mcp-call client "t_look" '(:text "ok")))))
            (should (< (- (agent-q-mcp-attack-test--resident) before) 200)))
        (customize-set-variable 'agent-q-mcp-patience 45)))))

(ert-deftest agent-q-mcp-attack-large-calls-can-be-cancelled ()
  (agent-q-test-mcp-with-tools
    (let* ((client (agent-q-test-mcp-client))
           ;; Two of them are all that a client may have under way.
           (text (make-string 8388300 ?x))
           (first (agent-q-test-mcp-begin client "t_erase" `(:text ,text))))
      (agent-q-test-mcp-begin client "t_erase" `(:text ,text))
      (should (agent-q-test-mcp-ask client "ping"))
      (should (string-match-p "^OK$" (car (agent-q-test-mcp-call client "t_look" '(:text "ok")))))
      (agent-q-test-mcp-tell client `(:jsonrpc "2.0" :method "notifications/cancelled"
                                               :params (:requestId ,first)))
      ;; Its room is free again.
      (should (agent-q-test-mcp-call client "t_look" `(:text ,text))))))

(ert-deftest agent-q-mcp-attack-a-message-of-many-values-is-left-out ()
  (agent-q-test-mcp-serving
    (let ((client (agent-q-test-mcp-client)))
      (agent-q-test-mcp-tell
       client (concat "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":{\"name\":\"list_images\",\
\"arguments\":{\"x\":[" (apply #'concat (make-list 300000 "[],")) "1]}}}"))
      (should (string-match-p "more than 200000 values"
                              (plist-get (plist-get (agent-q-test-mcp-refusal client) :error) :message)))
      (should (agent-q-test-mcp-ask client "ping")))))

;;;; The port

(defconst agent-q-mcp-attack-test--hello
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":\
{\"protocolVersion\":\"2025-06-18\",\"clientInfo\":{\"name\":\"web\"}}}")

(defmacro agent-q-mcp-attack-test--with-port (&rest body)
  "Run BODY with PORT and TOKEN, of a server for HTTP, too."
  (declare (indent 0) (debug t))
  `(let ((agent-q-mcp-http t) (agent-q-mcp-port 0))
     (agent-q-test-mcp-with-tools
       (let ((port (alist-get 'port (agent-q-mcp-status)))
             (token (with-temp-buffer (insert-file-contents (agent-q-mcp--token-file)) (buffer-string))))
         ,@body))))

(defun agent-q-mcp-attack-test--open (port &rest text)
  "Return a connection to PORT over which TEXT was sent."
  (let ((process (make-network-process :name "aq-http" :host "127.0.0.1" :service port :noquery t
                                       :coding 'binary :sentinel #'ignore
                                       :filter (lambda (process more)
                                                 (process-put process 'said
                                                              (concat (process-get process 'said) more))))))
    (push process agent-q-test-mcp-clients)
    (process-send-string process (apply #'concat text))
    process))

(defun agent-q-mcp-attack-test--status (process)
  "Wait for an answer on PROCESS; return its status."
  (agent-q-test-until
   (let ((said (process-get process 'said)))
     (and said (string-match "\\`HTTP/1.1 \\([0-9]+\\)" said)
          (string-to-number (match-string 1 said))))
   "an answer"))

(defun agent-q-mcp-attack-test--request (line headers &optional body)
  "Return the text of a request with LINE, HEADERS and BODY, with its length."
  (let ((body (or body agent-q-mcp-attack-test--hello)))
    (concat line "\r\n" (mapconcat (lambda (header) (concat header "\r\n")) headers "")
            (format "Content-Length: %d\r\n\r\n" (length body)) body)))

(ert-deftest agent-q-mcp-attack-requests-that-are-not-what-they-seem ()
  (agent-q-mcp-attack-test--with-port
    (let* ((post "POST /mcp HTTP/1.1")
           (host (format "Host: 127.0.0.1:%d" port))
           (known (concat "Authorization: Bearer " token))
           (json "Content-Type: application/json")
           (call (concat "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":"
                         "{\"name\":\"t_erase\",\"arguments\":{\"text\":\"abc\"}}}"))
           (hidden (agent-q-mcp-attack-test--request post (list host known json) call)))
      (pcase-dolist (`(,status ,line . ,headers)
                     `((200 ,post ,host ,known ,json)
                       (200 ,post ,(format "Host: LOCALHOST:%d" port) ,known ,json)
                       (200 ,(format "POST http://127.0.0.1:%d/mcp HTTP/1.1" port) ,host ,known ,json)
                       (403 ,(format "POST http://evil.example:%d/mcp HTTP/1.1" port) ,host ,known ,json)
                       (403 ,post ,(format "Host: evil.example:%d" port) ,(concat "X-Forwarded-" host)
                            ,known ,json)
                       (403 ,post ,host ,(format "Host: evil.example:%d" port) ,known ,json)
                       (403 ,post ,(format "Host: localhost.:%d" port) ,known ,json)
                       (403 ,post ,(format "Host: user@localhost:%d" port) ,known ,json)
                       (403 ,post ,host ,known ,json "Origin: null")
                       (403 "OPTIONS /mcp HTTP/1.1" ,host "Origin: https://evil.example"
                            "Access-Control-Request-Method: POST")
                       (401 ,(format "POST /mcp?token=%s HTTP/1.1" token) ,host ,json)
                       (401 ,post ,host ,json ,(concat "Cookie: token=" token))
                       (401 ,post ,host ,known ,json "Authorization: Bearer other")
                       (415 ,post ,host ,known "Content-Type: application/jsonp")
                       (415 ,post ,host ,known ,json "Content-Type: text/plain")
                       (415 ,post ,host ,known)
                       (400 ,post ,host ,known ,json "Content-Length: 5")
                       (400 ,post ,host ,known ,json "X : a")
                       (400 ,post ,host ,known ,json "X: a\rOrigin: b")
                       (400 "POST /mcp HTTP/3.0" ,host ,known ,json)
                       (431 ,post ,host ,known ,json ,(concat "X: " (make-string 1000000 ?x)))
                       (414 ,(concat "POST /mcp?" (make-string 100000 ?x) " HTTP/1.1") ,host ,known ,json)))
        (should (equal (list status line headers)
                       (list (agent-q-mcp-attack-test--status
                              (agent-q-mcp-attack-test--open
                               port (agent-q-mcp-attack-test--request line headers)))
                             line headers))))
      ;; The body of a request that was refused is no request.
      (let ((process (agent-q-mcp-attack-test--open
                      port (agent-q-mcp-attack-test--request post (list host json) hidden)
                      (agent-q-mcp-attack-test--request "GET /mcp HTTP/1.1" (list host known "Connection: close")
                                                        ""))))
        (agent-q-test-until (not (process-live-p process)))
        (should (string-prefix-p "HTTP/1.1 401" (process-get process 'said)))
        (should-not (string-search "HTTP/1.1 200" (process-get process 'said))))
      ;; Nothing of all this was a call.
      (should-not (agent-q-client-buffers)))))

(ert-deftest agent-q-mcp-attack-slow-clients-keep-nobody-out ()
  (agent-q-mcp-attack-test--with-port
    (let* ((head (format "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" port))
           (known (format "Authorization: Bearer %s\r\n" token))
           (slow (append
                  ;; Who knows no token is refused before a body is waited for.
                  (list (agent-q-mcp-attack-test--open port head "Content-Length: 9000000\r\n\r\n{"))
                  (mapcar (lambda (_) (agent-q-mcp-attack-test--open port head "X: "))
                          (number-sequence 1 30))
                  (mapcar (lambda (_) (agent-q-mcp-attack-test--open
                                       port head known "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"))
                          (number-sequence 1 30)))))
      (should (eql 401 (agent-q-mcp-attack-test--status (car slow))))
      ;; Others are served beside them, over the port and the socket.
      (should (eql 200 (agent-q-mcp-attack-test--status
                        (agent-q-mcp-attack-test--open
                         port head known (format "Content-Length: %d\r\n\r\n%s"
                                                 (length agent-q-mcp-attack-test--hello)
                                                 agent-q-mcp-attack-test--hello)))))
      (should (string-match-p "^OK$" (car (agent-q-test-mcp-call (agent-q-test-mcp-client) "t_look"
                                                                 '(:text "ok")))))
      ;; A message that is cut off is answered, and none of it is taken.
      (process-send-string (car (last slow)) "zz\r\n")
      (should (eql 400 (agent-q-mcp-attack-test--status (car (last slow))))))))

;;;; The socket and its folder

(ert-deftest agent-q-mcp-attack-a-folder-that-is-not-the-users-alone-is-not-used ()
  "Neither Emacs serves there, nor does the bridge connect to who does."
  (agent-q-test-mcp-serving
    (let* ((folder agent-q-mcp-directory)
           (link (concat folder "-link")))
      (cl-flet ((answer ()
                  ;; The bridge answers much without Emacs, but no call.
                  (format "%S" (agent-q-test-mcp-ask (agent-q-test-mcp-bridge) "tools/call"
                                                     '(:name "list_images" :arguments ())))))
        (set-file-modes folder #o750)
        (should (string-match-p "not yours alone" (answer)))
        (should-error (agent-q-mcp-mode 1) :type 'agent-q-error)
        ;; Where nobody serves, nobody can be somebody else.
        (let ((agent-q-mcp-directory (make-temp-file "agent-q-shared" t)))
          (set-file-modes agent-q-mcp-directory #o755)
          (should (string-match-p "Emacs is not running\\|No Emacs" (answer)))
          (delete-directory agent-q-mcp-directory))
        (set-file-modes folder #o700)
        (agent-q-mcp-mode 1)
        (should (string-match-p "Send initialize first" (answer)))
        (make-symbolic-link folder link)
        (unwind-protect
            (let ((agent-q-mcp-directory link))
              (should (string-match-p "not yours alone" (answer)))
              (should-error (agent-q-mcp-mode 1) :type 'agent-q-error))
          (delete-file link))))))

(ert-deftest agent-q-mcp-attack-a-link-in-the-sockets-place-is-not-followed ()
  (agent-q-test-mcp-serving
    (let ((socket (agent-q-test-mcp-socket))
          (other (make-temp-file "aq-other" nil nil "mine")))
      (agent-q-mcp-mode -1)
      (unwind-protect
          (progn
            (dolist (name (list socket (concat (file-name-sans-extension socket) ".json")))
              (make-symbolic-link other name))
            (agent-q-mcp-mode 1)
            (should (agent-q-test-mcp-client))
            (should-not (file-symlink-p socket))
            (should (equal "mine" (with-temp-buffer (insert-file-contents other) (buffer-string))))
            (should (eql #o600 (file-modes other))))
        (delete-file other)))))

(provide 'agent-q-mcp-attack-test)
;;; agent-q-mcp-attack-test.el ends here
