;;; agent-q-mcp-bridge-test.el --- Tests of the ways to the server  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The bridge that hosts start, and HTTP.

;;; Code:

(require 'agent-q-test-mcp)
(require 'agent-q-test-registry)
(require 'seq)

;;;; The bridge

(ert-deftest agent-q-mcp-bridge-passes-on-and-finds-emacs-again ()
  (agent-q-test-mcp-with-tools
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
      (should (equal (delete-dups (mapcar (lambda (it) (or (plist-get it :method) 'answer))
                                          (process-get bridge 'messages)))
                     '("notifications/tools/list_changed" answer)))
      ;; It ends with its host.
      (process-send-eof bridge)
      (agent-q-test-until (not (process-live-p bridge))))))

(ert-deftest agent-q-mcp-bridge-says-at-once-when-there-is-nothing-to-reach ()
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

(ert-deftest agent-q-mcp-bridge-refuses-a-line-of-100-megabytes ()
  "Nothing of it is kept, and what comes after it is passed on."
  (agent-q-test-mcp-serving
    (let* ((pipe (expand-file-name "host" agent-q-mcp-directory))
           (bridge (agent-q-test-mcp-bridge
                    nil "sh" "-c" (format "mkfifo %s; exec 3<>%s; exec \"$0\" < %s" pipe pipe pipe))))
      (agent-q-test-until (file-exists-p pipe))
      ;; By a program that is quicker at it than Emacs.
      (call-process "sh" nil nil nil "-c"
                    (concat "{ head -c 100000000 /dev/zero | tr '\\0' x; echo; "
                            "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}'; } > " pipe))
      (should (string-match-p "longer than 8 MB"
                              (plist-get (plist-get (agent-q-test-mcp-refusal bridge) :error) :message)))
      (should (plist-member (agent-q-test-mcp-answer bridge 1) :result))
      (let ((status (format "/proc/%d/status" (process-id bridge))))
        (when (file-readable-p status)
          (with-temp-buffer
            (insert-file-contents status)
            (should (re-search-forward "^VmHWM:\\s-+\\([0-9]+\\) kB" nil t))
            (should (< (string-to-number (match-string 1)) 30000))))))))

(defun agent-q-mcp-bridge-test--other-emacs (affinity)
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

(ert-deftest agent-q-mcp-bridge-takes-the-emacs-of-its-directory ()
  (pcase-dolist (`(,affinity . ,who) '((2 . "other") (-1 . nil)))
    (agent-q-test-mcp-serving
      (let ((other (agent-q-mcp-bridge-test--other-emacs affinity)))
        (unwind-protect
            (should (equal who (plist-get (plist-get (agent-q-test-mcp-ask (agent-q-test-mcp-bridge) "ping")
                                                     :result)
                                          :who)))
          (delete-process other))))))

;;;; HTTP

(defun agent-q-mcp-bridge-test--http (request)
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

(ert-deftest agent-q-mcp-bridge-http-serves-programs-with-the-token-and-no-web-page ()
  (let ((agent-q-mcp-http t) (agent-q-mcp-port 0))
    (agent-q-test-mcp-with-tools
      (let* ((port (alist-get 'port (agent-q-mcp-status)))
             (host (format "Host: 127.0.0.1:%d" port))
             (token (with-temp-buffer (insert-file-contents (agent-q-mcp--token-file)) (buffer-string)))
             (authorization (concat "Authorization: Bearer " token))
             (hello "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"clientInfo\":{\"name\":\"web\"}}}")
             (call "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"t_look\",\"arguments\":{\"text\":\"abc\"}}}"))
        (should (eql #o600 (file-modes (agent-q-mcp--token-file))))
        (pcase-let ((`(,status ,session ,body)
                     (agent-q-mcp-bridge-test--http (list "POST /mcp HTTP/1.1" host authorization hello))))
          (should (eql 200 status))
          (should (string-match-p "\"protocolVersion\":\"2025-06-18\"" body))
          (should (string-match-p "ABC" (nth 2 (agent-q-mcp-bridge-test--http
                                                (list "POST /mcp HTTP/1.1" host authorization
                                                      (concat "Mcp-Session-Id: " session) call)))))
          (should (equal (buffer-name (agent-q-test-mcp-buffer)) "*agent-q: web 1*"))
          (should (eql 202 (car (agent-q-mcp-bridge-test--http
                                 (list "POST /mcp HTTP/1.1" host authorization
                                       (concat "Mcp-Session-Id: " session)
                                       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")))))
          (agent-q-mcp-bridge-test--http (list "DELETE /mcp HTTP/1.1" host authorization
                                        (concat "Mcp-Session-Id: " session) ""))
          (should (eql 404 (car (agent-q-mcp-bridge-test--http
                                 (list "POST /mcp HTTP/1.1" host authorization
                                       (concat "Mcp-Session-Id: " session) call))))))
        ;; Without a session, requests of one program share a buffer.
        (dotimes (n 2)
          (should (string-match-p
                   "\"resultType\":\"complete\""
                   (nth 2 (agent-q-mcp-bridge-test--http
                           (list "POST /mcp HTTP/1.1" host authorization
                                 "MCP-Protocol-Version: 2026-07-28"
                                 "Mcp-Method: tools/call" "Mcp-Name: t_look"
                                 (agent-q-json-serialize
                                  `((jsonrpc . "2.0") (id . ,n) (method . "tools/call")
                                    (params . ,(let ((params (agent-q-test-mcp-stateless "2026-07-28")))
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
                         (400 "POST /mcp HTTP/1.1" ,host ,authorization)
                         (400 "POST /mcp HTTP/1.1" ,host ,authorization "MCP-Protocol-Version: 2031-01-01")
                         (400 "POST /mcp HTTP/1.1" ,host ,authorization "MCP-Protocol-Version: 2026-07-28")))
          (should (equal (list status lines)
                         (list (car (agent-q-mcp-bridge-test--http (append lines (list call)))) lines))))
        ;; The token is nowhere that others read.
        (should-not (string-match-p token (agent-q-core-mcp-status)))
        (should-not (with-temp-buffer (insert-file-contents agent-q-log-file)
                                      (search-forward token nil t)))))
    (should-not (alist-get 'port (agent-q-mcp-status)))))

(provide 'agent-q-mcp-bridge-test)
;;; agent-q-mcp-bridge-test.el ends here
