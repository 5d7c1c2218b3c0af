;;; agent-q-servers-test.el --- Tests of tool servers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; MCP servers of others, well behaved or not, from a chat: their tools are found, asked about and
;; called, and the user sees their state.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-files)
(require 'agent-q-rules)
(require 'agent-q-servers)

(defconst agent-q-servers-test-program
  (expand-file-name "target/debug/examples/tool-server" agent-q-test-root)
  "The program that plays servers.")

(defvar agent-q-servers-test-trace nil
  "The file in which the servers of a test write what they were told.")

(defun agent-q-servers-test-server (name &rest modes)
  "Return the entry of a server NAME that behaves as MODES say."
  `(,name :command (,agent-q-servers-test-program ,@modes)
          :env (("TOOL_SERVER_TRACE" . ,agent-q-servers-test-trace)) :timeout 20))

(defmacro agent-q-servers-test-with (servers &rest body)
  "Run BODY with SERVERS, in a list of them."
  (declare (indent 1) (debug t))
  `(let ((agent-q-servers-test-trace (make-temp-file (expand-file-name "trace" agent-q-test-directory))))
     (agent-q-registry-ensure)
     (unwind-protect
         (progn
           (customize-set-variable 'agent-q-tool-servers ,servers)
           ,@body)
       (customize-set-variable 'agent-q-tool-servers nil))))

(defun agent-q-servers-test-told ()
  "Return what the servers were told."
  (with-temp-buffer
    (insert-file-contents agent-q-servers-test-trace)
    (buffer-string)))

(defun agent-q-servers-test-fed-back ()
  "Return what the model was told of its last call."
  (gethash "content" (seq-find (lambda (message) (equal "tool" (gethash "role" message)))
                               (reverse (agent-q-test-last-messages)))))

(defun agent-q-servers-test-state (name)
  "Return the state of the server NAME."
  (plist-get (seq-find (lambda (server) (equal name (plist-get server :name)))
                       (agent-q-core-tool-servers))
             :state))

(ert-deftest agent-q-servers-a-tool-is-found-asked-about-and-called ()
  (agent-q-servers-test-with (list (agent-q-servers-test-server "memo"))
    (agent-q-test-files-in-project
        '(("more_tools" (group . "memo"))
          ("call_tool" (name . "memo_echo") (arguments . ((text . "hello"))))
          ("memo_echo" (text . "secret")))
      (setq-local agent-q-offered-tools nil)
      (let ((described (agent-q-test-files-succeeds "memo_echo (dangerous): Say it again")))
        ;; What a server says of itself is data.
        (should (string-match-p "<data-[0-9a-f]+ from=\"the server memo, from outside the project\">"
                                described))
        (should-not (string-match-p "\u200b" described)))
      (should-not agent-q-test-files-asked)
      (should (equal (agent-q-servers-test-state "memo") "running"))
      (should (equal (agent-q-test-files-succeeds "hello") "hello"))
      (should (equal agent-q-test-files-asked
                     '("a tool of the server memo, which is a program of others.")))
      (should (string-match-p "<data-[0-9a-f]+ from=\"the server memo, from outside the project\">\nhello"
                              (agent-q-servers-test-fed-back)))
      (let ((agent-q-test-files-answer "denied"))
        (agent-q-test-files-next)
        (should-not (string-match-p "secret" (agent-q-servers-test-told)))))))

(provide 'agent-q-servers-test)
;;; agent-q-servers-test.el ends here
