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
            ;; Small ones are still taken, with time to answer.
            (customize-set-variable 'agent-q-mcp-patience 45)
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
