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
          :env (("TOOL_SERVER_TRACE" . ,agent-q-servers-test-trace)) :timeout 3))

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

(defmacro agent-q-servers-test-calling (servers calls &rest body)
  "Run BODY with SERVERS in a chat that offers what it usually does.
CALLS are what its model calls, one each time it is asked."
  (declare (indent 2) (debug t))
  `(agent-q-servers-test-with ,servers
     (agent-q-test-files-in-project ,calls
       (setq-local agent-q-offered-tools nil)
       ,@body)))

(defun agent-q-servers-test-told ()
  "Return what the servers were told."
  (with-temp-buffer
    (insert-file-contents agent-q-servers-test-trace)
    (buffer-string)))

(defun agent-q-servers-test-fed-back ()
  "Return what the model was told of its last call."
  (gethash "content" (seq-find (lambda (message) (equal "tool" (gethash "role" message)))
                               (reverse (agent-q-test-last-messages)))))

(defun agent-q-servers-test-count (text)
  "Return how often TEXT is in what the servers were told."
  (1- (length (split-string (agent-q-servers-test-told) (regexp-quote text)))))

(defun agent-q-servers-test-numbers ()
  "Return the numbers of the servers' processes and their children."
  (let ((told (agent-q-servers-test-told)) (start 0) (numbers nil))
    (while (string-match "^\\(?:started\\|child\\) \\([0-9]+\\)$" told start)
      (push (string-to-number (match-string 1 told)) numbers)
      (setq start (match-end 0)))
    numbers))

(defun agent-q-servers-test-state (name)
  "Return the state of the server NAME."
  (plist-get (seq-find (lambda (server) (equal name (plist-get server :name)))
                       (agent-q-core-tool-servers))
             :state))

(ert-deftest agent-q-servers-a-tool-is-found-asked-about-and-called ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo"))
      '(("call_tool" (name . "memo_echo") (arguments . ((text . "early"))))
        ("more_tools" (group . "memo"))
        ("call_tool" (name . "memo_echo") (arguments . ((text . "hello"))))
        ("memo_echo" (text . "secret")))
    ;; So does a model that was told of it before the chat was resumed.
    (agent-q-test-files-fails "more_tools memo brings the tools")
    (let ((described (agent-q-test-files-succeeds "memo_echo (dangerous): Say it again")))
      ;; What a server says of itself is data to the model; the user needn't see the fence.
      (should (string-match-p "\\`[0-9]+ tools, to be called through call_tool\n- memo_echo " described))
      (should-not (string-match-p "<data-\\|\u200b" described))
      (should (string-match-p "call_tool\n<data-[0-9a-f]+ from=\"the server memo, from outside the project\">"
                              (agent-q-servers-test-fed-back))))
    (should-not agent-q-test-files-asked)
    (should (equal (agent-q-servers-test-state "memo") "running"))
    (should (equal (agent-q-test-files-succeeds "hello") "hello"))
    ;; It fills in its defaults itself.
    (should-not (string-match-p "times" (agent-q-servers-test-told)))
    (should (equal agent-q-test-files-asked
                   '("a tool of the server memo, which is a program of others.")))
    (should (string-match-p "<data-[0-9a-f]+ from=\"the server memo, from outside the project\">\nhello"
                            (agent-q-servers-test-fed-back)))
    (let ((agent-q-test-files-answer "denied"))
      (agent-q-test-files-next)
      (should-not (string-match-p "secret" (agent-q-servers-test-told))))
    ;; The user calls it, too.
    (should (equal (agent-q-servers-test-slash "/memo_echo te") '(("text=" . "  string, required  "))))
    (agent-q-prompt-replace "")
    (agent-q-test-ask "/memo_echo by hand")
    (should (agent-q-test-shows "memo_echo by hand ✓ by hand"))))

(ert-deftest agent-q-servers-that-do-not-start-say-why ()
  (agent-q-servers-test-calling
      (list (agent-q-servers-test-server "dying" "dies")
            (agent-q-servers-test-server "mute" "silent")
            (agent-q-servers-test-server "chatty" "garbage")
            '("gone" :command ("/no/such/program")))
      '(("more_tools" (group . "dying")) ("more_tools" (group . "dying"))
        ("more_tools" (group . "dying"))
        ("more_tools" (group . "mute")) ("more_tools" (group . "chatty"))
        ("more_tools" (group . "gone")) ("more_tools" (group . "debugger")))
    (agent-q-test-files-fails "dying does not run: it ended at once.*\n.*no licence found")
    (should (equal (agent-q-servers-test-state "dying") "failed"))
    (agent-q-test-files-fails "does not run")
    ;; It is not started over and over.
    (agent-q-test-files-fails "started again in [0-9]+ seconds at the earliest")
    (should (= 2 (agent-q-servers-test-count "started")))
    (agent-q-test-files-fails "mute does not run: it said nothing for 3 seconds")
    (agent-q-test-files-fails "chatty does not run: it said nothing for 3 seconds")
    (agent-q-test-files-fails "/no/such/program can't be started: No such file")
    (agent-q-test-files-succeeds "debugger_frames")))

(ert-deftest agent-q-servers-results-of-every-kind-come-to-something ()
  (let ((process-environment (cons "AQ_TEST_PROVIDER_KEY=sk-secret-1234" process-environment))
        (agent-q-providers '((x :base-url "http://127.0.0.1:9/v1" :model "x"
                                :environment "AQ_TEST_PROVIDER_KEY"))))
    (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo"))
        '(("more_tools" (group . "memo"))
          ("memo_get_environment") ("memo_fail") ("memo_picture") ("memo_big")
          ("memo_huge") ("memo_echo" (text . "still here")) ("memo_hang")
          ("memo_die") ("memo_echo" (text . "back again")) ("memo_echo")
          ("memo_odd" (n . 5)))
      (agent-q-test-files-succeeds)
      (let ((names (split-string (agent-q-test-files-succeeds "TOOL_SERVER_TRACE"))))
        (should (member "PATH" names))
        (should-not (member "AQ_TEST_PROVIDER_KEY" names)))
      (agent-q-test-files-fails "no such issue")
      (agent-q-test-files-succeeds "Here it is:\n\\[picture, 44 kB, image/png\\]")
      (should (< (length (agent-q-test-files-succeeds "of which this is the beginning")) 300000))
      (should (< (length (agent-q-servers-test-fed-back)) 20000))
      (agent-q-test-files-fails "was stopped: it sent a message of more than 16 MB")
      (agent-q-test-files-succeeds "still here")
      (agent-q-test-files-fails "did not do that within 3 seconds")
      (should (string-match-p "notifications/cancelled" (agent-q-servers-test-told)))
      (agent-q-test-files-fails "ended during the call")
      (agent-q-test-files-succeeds "back again")
      ;; What is known of its schema is checked here.
      (agent-q-test-files-fails "text")
      (agent-q-test-files-succeeds "called odd with {\"n\":5}"))))

(ert-deftest agent-q-servers-with-too-much-to-say-are-cut-short ()
  (agent-q-servers-test-calling
      (list (agent-q-servers-test-server "many" "many")
            (agent-q-servers-test-server "endless" "endless")
            (agent-q-servers-test-server "flood" "floods")
            (agent-q-servers-test-server "read")
            (agent-q-servers-test-server "Editing"))
      '(("more_tools" (group . "many")) ("more_tools" (group . "endless"))
        ("more_tools" (group . "flood")) ("more_tools" (group . "read"))
        ("more_tools" (group . "editing_2")) ("read_file_2" (path . "a")))
    (agent-q-test-files-succeeds "many_tool499")
    (should-not (agent-q-get-tool "many_tool500"))
    (should (< (length (agent-q-servers-test-fed-back)) 20000))
    (agent-q-test-files-succeeds "endless_tool49")
    (should-not (agent-q-get-tool "endless_tool50"))
    (agent-q-test-files-next)
    (agent-q-test-until (equal (agent-q-servers-test-state "flood") "failed"))
    (should (string-match-p "messages without end" (agent-q-core-tool-server-log "flood")))
    ;; Ours keep their names, tools and categories alike.
    (agent-q-test-files-succeeds "read_file_2 (dangerous)")
    (should (eq (agent-q-tool-origin (agent-q-get-tool "read_file")) 'built-in))
    (agent-q-test-files-succeeds "editing_2_echo")
    (agent-q-test-files-succeeds "called file with {\"path\":\"a\"}")))

(ert-deftest agent-q-servers-tell-of-progress-and-other-tools-and-are-cancelled ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo"))
      '(("more_tools" (group . "memo")) ("memo_slow") ("memo_change") ("memo_extra")
        ("memo_hang"))
    (agent-q-test-files-succeeds)
    (let ((told nil) (handler agent-q-events-handler))
      (setq agent-q-events-handler
            (lambda (event)
              (when (eq (plist-get event :type) :call-progress)
                (push (plist-get event :text) told))
              (funcall handler event)))
      (agent-q-test-files-succeeds "done")
      (should (member "step 2" told)))
    (agent-q-test-files-succeeds "changed")
    (agent-q-test-until (agent-q-get-tool "memo_extra"))
    (should-not (agent-q-get-tool "memo_fail"))
    (agent-q-test-files-succeeds "called extra")
    (agent-q-test-send "hang")
    (agent-q-test-until (string-match-p "\"name\":\"hang\"" (agent-q-servers-test-told)))
    (agent-q-chat-send-cancel)
    (agent-q-test-until (agent-q-test-idle-p))
    (agent-q-test-until (string-match-p "cancelled by the user" (agent-q-servers-test-told)))
    ;; The user's own levels hold.
    (let ((agent-q-tool-levels nil))
      (customize-set-variable 'agent-q-tool-levels '(("memo_echo" . :safe)))
      (unwind-protect
          (should (eq :safe (agent-q-tool-safety-level (agent-q-get-tool "memo_echo"))))
        (customize-set-variable 'agent-q-tool-levels nil)))))

(ert-deftest agent-q-servers-end-with-all-that-they-started ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo" "stubborn"))
      '(("more_tools" (group . "memo")))
    (agent-q-test-files-succeeds)
    (let ((processes (agent-q-servers-test-numbers)))
      (should (= 2 (length processes)))
      (should (seq-every-p #'process-attributes processes))
      (customize-set-variable 'agent-q-tool-servers nil)
      (should-not (agent-q-get-tool "memo_echo"))
      (agent-q-test-until (seq-every-p (lambda (it)
                                         (member (alist-get 'state (process-attributes it)) '(nil "Z")))
                                       processes))
      (should (string-match-p "input closed" (agent-q-servers-test-told))))))

(ert-deftest agent-q-servers-are-listed-started-stopped-and-offered ()
  (agent-q-servers-test-calling
      (list (agent-q-servers-test-server "memo") (agent-q-servers-test-server "dying" "dies"))
      '(("memo_echo" (text . "at once")))
    (agent-q-servers-list)
    (with-current-buffer "*agent-q tool servers*"
      (agent-q-test-find "memo")
      (agent-q-test-press "t")
      (should (equal (buffer-local-value 'agent-q-offered-tools chat) '(:usual :memo)))
      (agent-q-test-find "dying")
      (agent-q-test-press "s")
      (agent-q-test-until (equal (agent-q-servers-test-state "dying") "failed"))
      (agent-q-test-until (agent-q-test-shows "it ended at once"))
      (agent-q-test-find "dying")
      (agent-q-test-press "RET")
      (with-current-buffer "*agent-q tool server*"
        (should (agent-q-test-shows "no licence found"))))
    (with-current-buffer chat
      (agent-q-test-files-succeeds "at once"))
    (with-current-buffer "*agent-q tool servers*"
      (agent-q-test-until (agent-q-test-shows "running"))
      (agent-q-test-find "memo")
      (agent-q-test-press "k")
      (should (equal (agent-q-servers-test-state "memo") "idle"))
      (agent-q-test-press "t")
      (should-not (buffer-local-value 'agent-q-offered-tools chat))
      (kill-buffer))))

(ert-deftest agent-q-servers-that-are-not-understood-are-warned-of ()
  (let ((warnings nil))
    (cl-letf (((symbol-function 'display-warning)
               (lambda (_type text &rest _) (push text warnings))))
      (agent-q-servers-test-with
          (list '("both" :command ("a") :url "http://b") '("neither") '("odd" :command "ls -l")
                '("slow" :command ("a") :timeout "x")
                (agent-q-servers-test-server "memo"))
        (should (equal (mapcar (lambda (it) (plist-get it :name)) (agent-q-core-tool-servers))
                       '("memo")))
        (should (= 4 (length warnings)))
        (should (string-match-p "The tool server odd can.t be used: Its command is not a list"
                                (string-join warnings "\n")))
        ;; Once each.
        (agent-q-servers-apply)
        (should (= 4 (length warnings)))))))

(defun agent-q-servers-test-elsewhere (press)
  "Check that a chat about another project doesn't have the server memo.
It has one of its own with the same name, which PRESS, a function of a key and
a server, allows."
  (let* ((other (file-name-as-directory
                 (file-truename (make-temp-file (expand-file-name "other" agent-q-test-directory) t))))
         (default-directory other) (agent-q-project-root other))
    (agent-q-test-with-chat
      (setq-local agent-q-offered-tools nil)
      (should-not (assoc "memo:" (agent-q-servers-test-mentions "@")))
      (should-not (assoc "memo:" (agent-q-servers-test-slash "/")))
      (agent-q-prompt-replace "")
      (agent-q-test-ask "go")
      (should (string-match-p "memo.* is not one of" (agent-q-servers-test-fed-back)))
      (agent-q-test-ask "go")
      (should (string-match-p "of a server that only chats about another project have"
                              (agent-q-servers-test-fed-back)))
      (let ((agent-q-test-files-root other))
        (agent-q-test-files-write ".mcp.json"
                                  (json-encode `((mcpServers . ((memo . ((command . ,agent-q-servers-test-program))))))))
        (funcall press "s" "unasked")
        (should (= 2 (length (agent-q-core-tool-servers))))
        (should (equal (with-current-buffer chat
                         (mapcar (lambda (it) (plist-get it :name)) (agent-q-server-texts-servers)))
                       (list (format "memo (%s)" (file-name-nondirectory (directory-file-name other))))))))))

(ert-deftest agent-q-servers-of-a-project-are-shown-and-asked-about ()
  (let* ((agent-q-servers-allowed-file (make-temp-name (expand-file-name "allowed" agent-q-test-directory)))
         (process-environment (append '("AQ_TEST_WORD=magic" "AQ_TEST_PROVIDER_KEY=sk-secret-1234")
                                      process-environment))
         (agent-q-providers '((x :base-url "http://127.0.0.1:9/v1" :model "x"
                                 :environment "AQ_TEST_PROVIDER_KEY")))
         (answer nil) (asked nil)
         (entry (lambda (words)
                  (agent-q-test-files-write
                   ".mcp.json"
                   (json-encode
                    `((mcpServers . ((memo . ((command . ,agent-q-servers-test-program)
                                              (args . ,words)
                                              (env . ((WORD . "${AQ_TEST_WORD}")
                                                      (TOOL_SERVER_TRACE
                                                       . ,agent-q-servers-test-trace)))))
                                     (thief . ((command . "sh")
                                               (args . ["-c" "echo ${AQ_TEST_PROVIDER_KEY}"]))))))))))
         (press (lambda (key &optional server)
                  (agent-q-servers-list)
                  (with-current-buffer "*agent-q tool servers*"
                    (agent-q-test-find (or server "memo"))
                    (condition-case failure (agent-q-test-press key)
                      (user-error (error-message-string failure)))))))
    (cl-letf (((symbol-function 'yes-or-no-p)
               (lambda (question)
                 (push question asked)
                 (should (with-current-buffer "*agent-q tool server*"
                           (agent-q-test-shows (if (< (length asked) 3) "WORD=${AQ_TEST_WORD}"
                                                 "tool-server"))))
                 answer)))
      (agent-q-servers-test-calling nil
          '(("read_file" (path . ".mcp.json"))
            ("more_tools" (group . "memo")) ("memo_get_environment")
            ("more_tools" (group . "memo")) ("more_tools" (group . "memo"))
            ("more_tools" (group . "memo")) ("call_tool" (name . "memo_echo") (arguments . ((text . "x")))))
        (funcall entry [])
        (agent-q-test-files-next)
        (should (agent-q-test-shows "you haven't allowed: memo, thief"))
        (should-not (agent-q-core-tool-servers))
        (should (equal (funcall press "s") "The server was not allowed"))
        (should-not (agent-q-core-tool-servers))
        (setq answer t)
        (funcall press "s")
        (should (= 2 (length asked)))
        (should (equal (file-modes agent-q-servers-allowed-file) #o600))
        (agent-q-test-until (equal (agent-q-servers-test-state "memo") "running"))
        (with-current-buffer chat
          (agent-q-test-files-succeeds "memo_echo")
          (should (member "WORD" (split-string (agent-q-test-files-succeeds "PATH"))))
          ;; A changed command counts only when it was asked about again.
          (funcall entry ["dies"])
          (agent-q-test-files-fails "memo.* is not one of")
          (should (agent-q-test-shows "you haven't allowed: memo, thief"))
          (should-not (agent-q-core-tool-servers)))
        (funcall entry [])
        (with-current-buffer chat
          ;; Its file is read once for a message.
          (kill-buffer "*agent-q tool servers*")
          (let* ((reads 0) (count (lambda (&rest _) (cl-incf reads))))
            (advice-add 'agent-q-servers--read :before count)
            (unwind-protect (agent-q-test-files-succeeds "memo_echo")
              (advice-remove 'agent-q-servers--read count))
            (should (= 1 reads)))
          (should (assoc "memo:" (agent-q-servers-test-mentions "@")))
          (agent-q-prompt-replace ""))
        (agent-q-servers-test-elsewhere press)
        (funcall press "D")
        (should-not (agent-q-core-tool-servers))
        ;; A provider's key goes to no server, whatever a project wants.
        (should-error (agent-q-servers--fill-in '(:command ("a" "${AQ_TEST_PROVIDER_KEY}")))
                      :type 'user-error)
        (should (equal (plist-get (agent-q-servers--fill-in
                                   '(:command ("a" "${AQ_TEST_WORD}" "${AQ_NONE:-b}")))
                                  :command)
                       '("a" "magic" "b")))
        (kill-buffer "*agent-q tool servers*")))))

(ert-deftest agent-q-servers-of-a-project-with-odd-entries-are-told-of ()
  (let ((agent-q-servers-allowed-file (make-temp-name (expand-file-name "allowed" agent-q-test-directory)))
        (end "; touch /tmp/end-of-it") (shown nil))
    (agent-q-servers-test-calling nil nil
      (agent-q-test-files-write
       ".mcp.json"
       (json-encode `((mcpServers
                       . ((number . ((command . "a") (args . [1])))
                          (object . ((command . "a") (args . ((b . "c")))))
                          (port . ((command . "a") (env . ((PORT . 8080)))))
                          (place . ((url . 5)))
                          (program . ((command . ["a"])))
                          (text . "a")
                          (,(intern "two\nlines") . ((command . "a")))
                          (,(intern (concat "name" (make-string 60 ?x))) . ((command . "a")))
                          (nothing . nil)
                          (endless . ((command . "sh") (args . ["-c" ,(concat (make-string 5000 ?\s) end)])))
                          (wordy . ((command . "sh") (args . ["-c" ,(concat (make-string 1500 ?\s) end)]))))))))
      (agent-q-servers-list)
      (with-current-buffer "*agent-q tool servers*"
        (pcase-dolist (`(,name . ,problem)
                       '(("number" . "An argument of its command is not a string")
                         ("object" . "Its arguments are not a list")
                         ("port" . "PORT is not a string")
                         ("place" . "Its address is not a string")
                         ("program" . "Its command is not a string")
                         ("text" . "Its entry is not an object")
                         ("two" . "Its name is too long or has characters")
                         ("namexx" . "Its name is too long")
                         ("endless" . "longer than anybody would read")))
          (agent-q-test-find name)
          (should (string-match-p problem (error-message-string
                                           (should-error (agent-q-test-press "s") :type 'user-error)))))
        ;; All that runs is there to be read.
        (cl-letf (((symbol-function 'yes-or-no-p)
                   (lambda (_)
                     (setq shown (with-current-buffer "*agent-q tool server*" (buffer-string)))
                     nil)))
          (agent-q-test-find "wordy")
          (should-error (agent-q-test-press "s") :type 'user-error))
        (should (string-search end shown))
        (kill-buffer)))))

(ert-deftest agent-q-servers-are-reached-by-http ()
  (let* ((agent-q-servers-test-trace (make-temp-file (expand-file-name "trace" agent-q-test-directory)))
         (process-environment (cons (concat "TOOL_SERVER_TRACE=" agent-q-servers-test-trace)
                                    process-environment))
         (http (make-process :name "http" :command (list agent-q-servers-test-program "http")
                               :connection-type 'pipe :noquery t))
         (port (progn (agent-q-test-until (string-match "port \\([0-9]+\\)" (agent-q-servers-test-told)))
                      (let ((told (agent-q-servers-test-told)))
                        (string-match "port \\([0-9]+\\)" told)
                        (match-string 1 told))))
         (trace agent-q-servers-test-trace))
    (unwind-protect
        (agent-q-servers-test-calling
            `(("remote" :url ,(format "http://127.0.0.1:%s/mcp" port) :timeout 5
               :headers (("X-Word" . ,(lambda () "magic"))))
              ("nobody" :url "http://127.0.0.1:1/mcp" :timeout 5))
            '(("more_tools" (group . "remote")) ("remote_echo" (text . "over http"))
              ("more_tools" (group . "nobody")) ("remote_echo" (text . "gone")))
          (agent-q-test-files-succeeds "remote_echo")
          (agent-q-test-files-succeeds "over http")
          (let ((agent-q-servers-test-trace trace))
            (should (string-match-p "x-word: magic" (agent-q-servers-test-told))))
          (agent-q-test-files-fails "nobody does not run: it can't be reached: .*refused")
          (delete-process http)
          (agent-q-test-files-fails "."))
      (delete-process http))))

;;;; Prompts and resources

(defun agent-q-servers-test-offered (function text)
  "Return what FUNCTION completes TEXT at the prompt to: candidates with their notes."
  (agent-q-prompt-replace text)
  (goto-char (point-max))
  (pcase (funcall function)
    (`(,start ,_ ,table . ,more)
     (let ((annotate (or (plist-get more :annotation-function)
                         (completion-metadata-get (completion-metadata "" table nil)
                                                  'annotation-function)
                         #'ignore)))
       (mapcar (lambda (name) (cons (substring-no-properties name) (funcall annotate name)))
               (all-completions (buffer-substring-no-properties start (point)) table))))))

(defun agent-q-servers-test-slash (text)
  "Return what TEXT, which begins with a slash, completes to."
  (agent-q-servers-test-offered #'agent-q-completion-console-at-point text))

(defun agent-q-servers-test-mentions (text)
  "Return what TEXT, which ends in a mention, completes to."
  (agent-q-servers-test-offered #'agent-q-completion text))

(defun agent-q-servers-test-page ()
  "Return the text of the page that shows a prompt, or nil."
  (when-let* ((page (get-buffer "*agent-q prompt*")))
    (with-current-buffer page (buffer-string))))

(defun agent-q-servers-test-use (text)
  "Type TEXT, a prompt of a server, press RET, and return what is shown of it."
  (when (get-buffer "*agent-q prompt*") (kill-buffer "*agent-q prompt*"))
  (agent-q-prompt-replace "")
  (agent-q-test-send text)
  (agent-q-test-until (agent-q-servers-test-page)))

(defun agent-q-servers-test-send (text)
  "Send TEXT, which mentions resources, and return the user's message as the model has it."
  (agent-q-prompt-replace "")
  (agent-q-test-send text)
  (agent-q-test-until (and (not agent-q-chat-send--gathering) (agent-q-test-idle-p)
                           (string-empty-p (agent-q-prompt-text))))
  (gethash "content" (car (last (seq-filter (lambda (message) (equal "user" (gethash "role" message)))
                                            (agent-q-test-last-messages))))))

(defun agent-q-servers-test-refused (text regexp)
  "Send TEXT, which must not be sent for a reason that REGEXP matches."
  (agent-q-prompt-replace "")
  (let ((start (copy-marker agent-q-render-end)) (requests (length (agent-q-test-last-messages)))
        (said nil))
    (condition-case failure (agent-q-test-send text)
      (user-error (setq said (error-message-string failure))))
    (agent-q-test-until
     (or (and said (string-match-p regexp said))
         (string-match-p regexp (buffer-substring-no-properties start agent-q-render-end)))
     (format "%s for %s" regexp text))
    ;; Nothing that was typed is lost, and nothing was sent.
    (should (equal (agent-q-prompt-text) text))
    (should (= requests (length (agent-q-test-last-messages))))
    (agent-q-prompt-replace "")))

(ert-deftest agent-q-servers-prompts-are-completed-shown-and-sent ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo")
                                      (agent-q-servers-test-server "My File"))
      (make-list 4 '("read_file" (path . "none")))
    ;; Nothing is started by a slash alone.
    (should (assoc "memo:" (agent-q-servers-test-slash "/")))
    (should (equal (agent-q-servers-test-state "memo") "idle"))
    (agent-q-test-until (assoc "memo:greet" (agent-q-servers-test-slash "/memo:")))
    (should (string-match-p "Greet somebody politely"
                            (cdr (assoc "memo:greet" (agent-q-servers-test-slash "/")))))
    (let ((offered (agent-q-servers-test-slash "/memo:")))
      (should (assoc "memo:\"two words: or more\"" offered))
      (should-not (string-match-p "\u200b\\|\n" (cdr (assoc "memo:trap" offered))))
      (should-not (seq-find (lambda (it) (string-match-p "bad\\|odd" (car it))) offered)))
    (should (equal (mapcar #'car (agent-q-servers-test-slash "/memo:greet how=x "))
                   '("who=")))
    (agent-q-test-until (equal (mapcar #'car (agent-q-servers-test-slash "/memo:greet who=An"))
                               '("Ann" "Anton")))
    (let ((typed "/memo:greet who=Ann how=\"a \\\"deep\\\" bow\""))
      (should (string-match-p "Greet Ann with a \"deep\" bow" (agent-q-servers-test-use typed)))
      (should (string-match-p "server memo, a program of others" (agent-q-servers-test-page)))
      ;; It is sent when it was seen.
      (should (equal (agent-q-prompt-text) typed))
      (should (agent-q-test-idle-p))
      (agent-q-chat-send)
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal (agent-q-prompt-text) ""))
      (should (agent-q-test-shows "> /memo:greet"))
      (let ((sent (gethash "content" (seq-find (lambda (message) (equal "user" (gethash "role" message)))
                                               (agent-q-test-last-messages)))))
        (should (string-match-p "from=\"the prompt greet of the server memo, from outside the project\">\nGreet Ann"
                                sent))
        (should (string-match-p "written by the server memo\\.  The user has read it" sent))
        (should (string-suffix-p typed sent))))
    ;; What was typed may change before it is sent.
    (agent-q-servers-test-use "/memo:greet Bob")
    (should (string-match-p "Greet Bo with" (agent-q-servers-test-use "/memo:greet Bo")))
    (should (string-match-p "This is two words: or more"
                            (agent-q-servers-test-use "/memo:\"two words: or more\"")))
    (let ((shown (agent-q-servers-test-use "/memo:dialogue")))
      (should (string-match-p "User:\n+What is this\\?\n+User:\n+(a picture, attached)\n+Assistant:\n+A dot" shown))
      (should (string-match-p "\\[picture, 1 × 1, 70 B\\]" shown))
      (should (string-match-p "\\[resource memo:///dot\\]\nAll of it" shown)))
    ;; A name that is not only letters is used as the model knows it.
    (agent-q-test-until (assoc "my_file:greet" (agent-q-servers-test-slash "/my_file:")))
    (let ((asked nil))
      (cl-letf (((symbol-function 'read-string)
                 (lambda (prompt &rest _) (push prompt asked)
                   (if (string-match-p "Whom" prompt) "Ann \"A\" B" ""))))
        (should (string-match-p "Greet Ann \"A\" B with nothing" (agent-q-servers-test-use "/memo:greet")))
        (should (equal asked '("greet, how (In which way), or nothing: " "greet, who (Whom): ")))
        (should (equal (agent-q-prompt-text) "/memo:greet who=\"Ann \\\"A\\\" B\""))))))

(ert-deftest agent-q-servers-prompts-that-fail-lose-nothing ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo")
                                      (agent-q-servers-test-server "dying" "dies")
                                      (agent-q-servers-test-server "many" "many"))
      '(("read_file" (path . "none")))
    (agent-q-test-files-next)
    (should (string-match-p "more characters\\]" (agent-q-servers-test-use "/memo:big")))
    (pcase-dolist (`(,text . ,regexp)
                   '(("/dying:greet" . "dying does not run: it ended at once")
                     ("/nobody:greet" . "No server is called nobody; there are: memo, dying, many")
                     ("/memo:nothing x" . "memo has no prompt nothing; it has: greet")
                     ("/memo:trap a=b" . "trap takes no arguments; this is more: a=b")
                     ("/memo:fail" . "there is none on Mondays")
                     ("/memo:hang" . "did not send the prompt within 3 seconds")
                     ("/memo:die" . "ended during the call")
                     ("/memo:huge" . "it sent a message of more than 16 MB")))
      (agent-q-servers-test-refused text regexp))
    (agent-q-test-until (assoc "many:prompt499" (agent-q-servers-test-slash "/many:")))
    (should-not (assoc "many:prompt500" (agent-q-servers-test-slash "/many:")))))

(ert-deftest agent-q-servers-resources-are-mentioned-and-sent ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo")
                                      (agent-q-servers-test-server "File"))
      (make-list 3 '("read_file" (path . "none")))
    (should (assoc "memo:" (agent-q-servers-test-mentions "see @")))
    (should (assoc "file-server:" (agent-q-servers-test-mentions "see @")))
    (should (equal (agent-q-servers-test-state "memo") "idle"))
    (agent-q-test-until (assoc "memo:///today" (agent-q-servers-test-mentions "see @memo:")))
    (let ((offered (agent-q-servers-test-mentions "see @memo:")))
      (should (string-match-p "What is to be done" (cdr (assoc "memo:///today" offered))))
      (should (assoc "\"memo:///a b, c\"" offered))
      (should (string-match-p "memo:///{year}/{day}  What was done" (cdr (assoc "memo:///" offered)))))
    (agent-q-test-until (assoc "memo:///2026/" (agent-q-servers-test-mentions "see @memo:memo:///20")))
    (agent-q-test-until (equal '("memo:///2026/monday")
                               (mapcar #'car (agent-q-servers-test-mentions "see @memo:memo:///2026/m"))))
    (let ((sent (format "%S" (mapcar
                              #'map-pairs
                              (agent-q-servers-test-send
                               "@memo:memo:///today and @memo:\"memo:///a b, c\", @file-server:memo:///text @memo @memo:memo:///picture, @memo:memo:///two")))))
      (dolist (part '("from=\\\\?\"the resource memo:///today of the server memo, from outside the project\\\\?\">"
                      "Feed the cat\\." "This is a b, c\\." "the server File" "Water the plants\\."
                      "\\[picture, 1 × 1, 70 B\\]" "data:image/png;base64,iVBOR"
                      "\\[resource memo:///two\\]\\(?:\n\\|\\\\n\\)One" "Another\\." "\\[data, 6 bytes, application/zip\\]"))
        (should (string-match-p part sent))))
    (should (agent-q-test-shows "@memo:memo:///today  13 B"))
    (agent-q-servers-test-send "see @memo:memo:///big")
    (should (string-match-p "@memo:memo:///big  first 4[89][.0-9]* ?k?B? of " (agent-q-test-log)))
    (pcase-dolist (`(,name . ,regexp)
                   '(("zip" . "neither a text nor a picture: \\[data, 6 bytes, application/zip\\]")
                     ("fail" . "there is none on Mondays") ("{year}/x" . "the place of {year}")
                     ("hang" . "did not send the resource within 3 seconds")
                     ("die" . "ended during the call")
                     ("huge" . "it sent a message of more than 16 MB")))
      (agent-q-servers-test-refused (format "see @memo:\"memo:///%s\"" name) regexp))))

(ert-deftest agent-q-servers-texts-that-a-user-sends-are-a-strangers ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo"))
      '(("write_file" (path . "a.txt") (content . "1"))
        ("write_file" (path . "b.txt") (content . "2")))
    (let ((rule (agent-q-core-add-rule
                 (agent-q-json-encode '(:effect "allow" :tool "write_file" :path "*.txt"
                                        :dangerous t :scope (:for "always")))
                 nil)))
      (unwind-protect
          (progn
            ;; What a rule allows is asked about once the turn has read what a server wrote.
            (agent-q-test-files-succeeds)
            (should-not agent-q-test-files-asked)
            (agent-q-servers-test-send "see @memo:memo:///today")
            (should agent-q-test-files-asked))
        (agent-q-core-revoke-rule rule)))))

(ert-deftest agent-q-servers-say-what-changed-and-ask-in-vain ()
  (agent-q-servers-test-calling (list (agent-q-servers-test-server "memo"))
      '(("more_tools" (group . "memo")) ("memo_change") ("memo_ask"))
    (agent-q-test-files-succeeds)
    (agent-q-test-until (assoc "memo:greet" (agent-q-servers-test-slash "/memo:")))
    (agent-q-test-until (assoc "memo:///today" (agent-q-servers-test-mentions "@memo:")))
    (agent-q-prompt-replace "")
    (agent-q-test-files-succeeds "changed")
    (agent-q-test-until (assoc "memo:late" (agent-q-servers-test-slash "/memo:")))
    (agent-q-test-until (assoc "memo:///late" (agent-q-servers-test-mentions "@memo:")))
    (agent-q-prompt-replace "")
    (let ((told (agent-q-test-files-succeeds)))
      (should (string-match-p "sampling/createMessage: .*-32601.*agent-q has no sampling" told))
      (should (string-match-p "roots/list: .*-32601.*agent-q has no roots" told))
      (should (string-match-p "elicitation/create: .*decline" told)))
    (should (string-match-p "refused sampling" (agent-q-core-tool-server-log "memo")))))

(ert-deftest agent-q-servers-get-no-secrets-but-those-that-are-named ()
  (let ((process-environment (append '("GITHUB_TOKEN=a" "AWS_SECRET_ACCESS_KEY=b" "SOME_API_KEY=c"
                                       "SSH_AUTH_SOCK=d" "PLAIN_WORD=e" "MY_TOKEN=f")
                                     process-environment)))
    (agent-q-servers-test-calling
        (list (append (agent-q-servers-test-server "memo")
                      nil)
              `("own" :command (,agent-q-servers-test-program)
                :env (("GITHUB_TOKEN" . ,(lambda () "mine")))))
        '(("more_tools" (group . "memo")) ("memo_get_environment")
          ("more_tools" (group . "own")) ("own_get_environment"))
      (agent-q-test-files-succeeds)
      (let ((names (split-string (agent-q-test-files-succeeds))))
        (dolist (name '("SSH_AUTH_SOCK" "PLAIN_WORD" "PATH")) (should (member name names)))
        (dolist (name '("GITHUB_TOKEN" "AWS_SECRET_ACCESS_KEY" "SOME_API_KEY" "MY_TOKEN"))
          (should-not (member name names))))
      (should (string-match-p "without these variables.*GITHUB_TOKEN, AWS_SECRET_ACCESS_KEY"
                              (agent-q-core-tool-server-log "memo")))
      (agent-q-test-files-succeeds)
      (let ((names (split-string (agent-q-test-files-succeeds))))
        (should (member "GITHUB_TOKEN" names))
        (should-not (member "MY_TOKEN" names)))
      (should-not (string-match-p "GITHUB_TOKEN" (agent-q-core-tool-server-log "own"))))))

(provide 'agent-q-servers-test)
;;; agent-q-servers-test.el ends here
