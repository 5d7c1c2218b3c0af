;;; agent-q-turn-test.el --- Whole turns in a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The chat on the real core: approvals, queueing, cancelling, the console,
;; several chats, and the scripted server as a model.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defconst agent-q-turn-test--asks
  "{\"turns\":[{\"steps\":[{\"text\":\"Let me see.\"},
     {\"tool_calls\":[{\"name\":\"t_run\",\"arguments\":{\"text\":\"(+ 1 2)\"}}]}]},
    {\"steps\":[{\"text\":\"It is done.\"}]}]}"
  "A model that calls a dangerous tool before it answers.")

(defmacro agent-q-turn-test--with-request (&rest body)
  "Run BODY in a chat whose model calls a dangerous tool."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-tools
       ((agent-q-test-tool "t_run" (lambda (_) "It ran.") :safety-level :dangerous))
     (agent-q-test-with-model agent-q-turn-test--asks
       (agent-q-test-with-chat ,@body))))

(defconst agent-q-turn-test--stalled
  "{\"repeat_last\":true,
    \"turns\":[{\"steps\":[{\"text\":\"Half an\"},{\"stall\":true}]}]}"
  "A model that never finishes its answer.")

;;;; Answers

(ert-deftest agent-q-turn-an-answer-streams-into-the-chat ()
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"text\":\"Hello, \"},{\"pause_ms\":60},
         {\"text\":\"λ world.\"},{\"usage\":[12,3]}]}]}"
    (agent-q-test-with-chat
      (agent-q-test-ask "hi")
      (should (string-suffix-p "\n> hi\n\nHello, λ world.\n" (agent-q-test-log)))
      (should (equal (agent-q-prompt-text) ""))
      (should (= (point) (point-max)))
      (should (equal (list agent-q-chat-view-header-input agent-q-chat-view-header-output)
                     '(12 3)))
      (should (string-match-p "Ready.*scripted" (agent-q-chat-view-header-line))))))

(ert-deftest agent-q-turn-a-notice-stands-apart-from-the-answer ()
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"Redefined.\"}]}]}"
    (agent-q-test-with-chat
      (agent-q-test-ask "hi")
      (agent-q-render-notice "No files were changed")
      (agent-q-render-notice "Nothing else")
      (should (string-suffix-p "Redefined.\n\nNo files were changed\nNothing else\n"
                               (agent-q-test-log))))))

(defun agent-q-turn-test--starts-at-once-p ()
  "Call a tool from the prompt; whether its line was there when that returned."
  (let ((before (marker-position agent-q-render-end)))
    (goto-char (point-max))
    (insert "/get_project_root")
    ;; However slow this machine is just now.
    (let ((agent-q-events--patience-without-text 60)
          (agent-q-events--batch-microseconds 60000000))
      (agent-q-chat-send))
    (should (equal "" (agent-q-prompt-text)))
    (prog1 (string-match-p "> /get_project_root\n\n▸ get_project_root"
                           (buffer-substring-no-properties before agent-q-render-end))
      (agent-q-test-until (agent-q-test-idle-p)))))

(ert-deftest agent-q-turn-a-tool-called-from-the-prompt-starts-at-once ()
  "What the core does about it waits for no wake-up.
Its own thread may happen to be at work for the chat, but not each time."
  (agent-q-test-with-chat
    (should (cl-loop repeat 5 thereis (agent-q-turn-test--starts-at-once-p)))))

(ert-deftest agent-q-turn-a-wrong-key-gives-one-clear-line ()
  (agent-q-test-with-model
      "{\"repeat_last\":true,\"turns\":[{\"status\":401,
         \"body\":{\"error\":{\"message\":\"Incorrect API key\"}}}]}"
    (agent-q-test-with-chat
      (dotimes (_ 2)
        (agent-q-test-ask "hi")
        (goto-char agent-q-render-end)
        (forward-line -3)
        (should (eq (get-text-property (point) 'face) 'agent-q-failure))
        (should (looking-at ".*\\bkey\\b.*\n\\[Try again\\]\n\\[Set a key\\]\n"))))))

;;;; Approval

(ert-deftest agent-q-turn-an-approved-call-runs-and-the-turn-goes-on ()
  (agent-q-turn-test--with-request
    (agent-q-test-send "what is it")
    (agent-q-test-arm)
    (should (eq agent-q-chat-view-header-state :approving))
    (should (string-match-p "^\\? Run t_run\\?\nDangerous.*\n\\(?:.*\n\\)?text: (\\+ 1 2)\n"
                            (agent-q-test-log)))
    (agent-q-test-answer "y")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p "Let me see\\.\n. t_run (\\+ 1 2) .*\n\nIt is done\\.\n\\'"
                            (agent-q-test-log)))
    (should-not (agent-q-call-waiting))))

(ert-deftest agent-q-turn-a-denied-call-does-not-run ()
  (agent-q-turn-test--with-request
    (agent-q-test-send "what is it")
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p "t_run (\\+ 1 2) denied\n\nIt is done"
                            (agent-q-test-log)))
    (should (with-temp-buffer
              (insert-file-contents agent-q-test-requests)
              (search-forward "User denied tool execution" nil t)))))

(ert-deftest agent-q-turn-keys-answer-only-on-the-request-and-once-it-was-seen ()
  (agent-q-turn-test--with-request
    (agent-q-test-send "what is it")
    (let ((call (agent-q-test-until (agent-q-call-waiting))))
      ;; Typed at the prompt, a key is text.
      (goto-char (point-max))
      (agent-q-test-press "y")
      (should (equal (agent-q-prompt-text) "y"))
      ;; Elsewhere in the log it is refused.
      (agent-q-test-find "Let me see")
      (should-error (agent-q-test-press "y") :type 'text-read-only)
      ;; On the request it came too early: nobody has looked yet.
      (goto-char (agent-q-render-item-start call))
      (dotimes (_ 3)
        (should-error (agent-q-test-press "y") :type 'user-error))
      (should (agent-q-call-waiting))
      (agent-q-test-answer "y")
      (should-not (agent-q-call-waiting))
      (should-error (agent-q-approval-run) :type 'user-error))))

(ert-deftest agent-q-turn-a-request-does-not-come-under-a-waiting-point ()
  (agent-q-test-with-chat
    (agent-q-test-event :turn-started :turn 1 :text "q")
    (let ((other (split-window)))
      (goto-char agent-q-render-end)
      (set-window-point other agent-q-render-end)
      (agent-q-test-event :approval :call 7 :tool "eval_form" :level "dangerous"
                          :reason "It runs code." :arguments "{\"form\":\"(f)\"}")
      (should-not (agent-q-render-item-at (point)))
      (should-not (agent-q-render-item-at (window-point other))))))

(ert-deftest agent-q-turn-a-cancelled-request-answers-no-more ()
  (agent-q-turn-test--with-request
    (agent-q-test-send "what is it")
    (goto-char (agent-q-render-item-start (agent-q-test-arm)))
    (agent-q-chat-send-cancel)
    (agent-q-test-until (agent-q-test-idle-p))
    (should (string-match-p "t_run (\\+ 1 2) cancelled\nCancelled\\.\n\\'"
                            (agent-q-test-log)))
    (should-error (agent-q-test-press "y") :type 'text-read-only)
    (should-error (agent-q-goto-approval) :type 'user-error)))

(ert-deftest agent-q-turn-what-could-mislead-is-shown-in-a-request ()
  (agent-q-test-with-chat
    (agent-q-test-event :approval :call 7 :tool "eval_form" :level "dangerous"
                        :reason "It runs code."
                        :arguments "{\"form\":\"(f \\u202e) \\u200b\\u0007\"}")
    (should (string-match-p "form: (f \\\\x202e) \\\\x200b\\\\x07" (agent-q-test-log)))))

;;;; Busy

(ert-deftest agent-q-turn-what-is-sent-while-busy-waits ()
  (agent-q-test-with-model
      "{\"turns\":[{\"delay_ms\":300,\"steps\":[{\"text\":\"one\"}]},
                   {\"steps\":[{\"text\":\"two\"}]}]}"
    (agent-q-test-with-chat
      (agent-q-test-send "first")
      (agent-q-test-send "second")
      (should (string-match-p "queued" (agent-q-chat-view-header-line)))
      (should-not (string-match-p "second" (agent-q-test-log)))
      (agent-q-test-until (agent-q-test-idle-p))
      (should (string-suffix-p "\n> first\n\none\n\n> second\n\ntwo\n"
                               (agent-q-test-log))))))

(ert-deftest agent-q-turn-cancelling-keeps-what-came-and-drops-what-waits ()
  (agent-q-test-with-model agent-q-turn-test--stalled
    (agent-q-test-with-chat
      (agent-q-test-send "first")
      (agent-q-test-until (string-match-p "Half an" (agent-q-test-log)))
      (agent-q-test-send "second")
      (agent-q-chat-send-or-cancel)
      (agent-q-test-until (agent-q-test-idle-p))
      (should (string-suffix-p "> first\n\nHalf an\n\nCancelled.\n"
                               (agent-q-test-log)))
      (agent-q-prompt-previous 1)
      (should (equal (agent-q-prompt-text) "second")))))

(defmacro agent-q-turn-test--with-full-server (&rest body)
  "Run BODY where the provider's server accepts no connection: its backlog is full."
  (declare (indent 0) (debug t))
  `(let* ((server (make-network-process :name "full" :server 1 :host "127.0.0.1" :service t
                                        :family 'ipv4 :stop t :noquery t))
          (port (process-contact server :service))
          (waiting (cl-loop repeat 4
                            collect (make-network-process
                                     :name "waits" :host "127.0.0.1" :service port
                                     :nowait t :noquery t)))
          (agent-q-provider (list :name "full" :model "m"
                                  :base-url (format "http://127.0.0.1:%d/v1" port))))
     (unwind-protect (progn ,@body)
       (mapc #'delete-process (cons server waiting)))))

(ert-deftest agent-q-turn-cancelling-does-not-wait-for-a-connection ()
  (agent-q-turn-test--with-full-server
    (agent-q-test-with-chat
      (agent-q-test-send "first")
      (agent-q-test-until (eq agent-q-chat-view-header-state :waiting))
      (agent-q-chat-send-or-cancel)
      (agent-q-test-until (agent-q-test-idle-p))
      (should (string-suffix-p "> first\n\nCancelled.\n" (agent-q-test-log)))
      (insert "typed")
      (should (equal "typed" (agent-q-prompt-text))))))

;;;; Several chats, and chats that go away

(ert-deftest agent-q-turn-two-chats-do-not-mix ()
  (agent-q-test-with-model
      "{\"repeat_last\":true,\"turns\":[{\"steps\":[{\"text\":\"answer\"}]}]}"
    (agent-q-test-with-chat
      (let ((first chat))
        (agent-q-test-with-chat
          (should-not (equal (buffer-name first) (buffer-name)))
          (agent-q-test-send "in the second")
          (with-current-buffer first
            (agent-q-test-send "in the first"))
          (agent-q-test-until (agent-q-test-idle-p))
          (with-current-buffer first
            (agent-q-test-until (agent-q-test-idle-p))
            (should (string-suffix-p "> in the first\n\nanswer\n"
                                     (agent-q-test-log))))
          (should (string-suffix-p "> in the second\n\nanswer\n"
                                   (agent-q-test-log))))))))

(ert-deftest agent-q-turn-killing-the-buffer-ends-the-turn ()
  (agent-q-test-with-model agent-q-turn-test--stalled
    (let ((before (plist-get (progn (agent-q-events-ensure)
                                    (agent-q-core-status))
                             :sessions)))
      (agent-q-test-with-chat
        (agent-q-test-send "first")
        (agent-q-test-until (string-match-p "Half an" (agent-q-test-log)))
        (kill-buffer))
      (agent-q-test-until
       (equal (plist-get (agent-q-core-status) :sessions) before)))
    (agent-q-test-with-chat
      (agent-q-test-send "again")
      (agent-q-test-until (string-match-p "Half an" (agent-q-test-log))))))

(ert-deftest agent-q-turn-a-dead-pipe-is-replaced ()
  (agent-q-test-with-chat
    (delete-process agent-q-events--process)
    (agent-q-test-ask "/get_project_root")
    (should (string-match-p "get_project_root ✓" (agent-q-test-log)))))

;;;; Without a model

(ert-deftest agent-q-turn-without-a-model-the-chat-says-what-to-do ()
  (agent-q-test-with-chat
    (agent-q-test-send "hello?")
    (should (string-match-p "M-x agent-q-doctor" (agent-q-test-log)))
    (should (equal (agent-q-prompt-text) "hello?"))
    (should (agent-q-test-idle-p))))

(ert-deftest agent-q-turn-the-console-works-without-a-model ()
  (let ((mine (generate-new-buffer "mine")))
    (unwind-protect
        (save-window-excursion
          (switch-to-buffer mine)
          (insert "text of mine")
          (agent-q-test-with-chat
            (agent-q-test-ask "/read_buffer")
            (agent-q-test-find "read_buffer ")
            (agent-q-test-press "TAB")
            (should (string-match-p "text of mine" (agent-q-test-log)))
            ;; No Lisp is connected: the call fails, and nobody is asked about it.
            (agent-q-test-ask "/eval_form package=cl-user (+ 1 2)")
            (should (string-match-p "eval_form .*(\\+ 1 2).* No Lisp image is connected.*\n\\'"
                                    (agent-q-test-log)))
            (agent-q-test-with-tools
                ((agent-q-test-tool "t_run" #'ignore :safety-level :dangerous))
              (agent-q-test-send "/t_run (+ 1 2)")
              (agent-q-test-answer "n")
              (agent-q-test-until (agent-q-test-idle-p))
              (should (string-match-p "t_run (\\+ 1 2) denied\n\\'"
                                      (agent-q-test-log))))))
      (kill-buffer mine))))

;;;; Completion

(defun agent-q-turn-test--complete (input)
  "Return what the prompt offers after INPUT in the current chat."
  (agent-q-prompt-replace input)
  (pcase (agent-q-completion-console-at-point)
    (`(,start ,end ,table . ,_)
     (all-completions (buffer-substring-no-properties start end) table))))

(ert-deftest agent-q-turn-tools-and-parameters-complete ()
  (agent-q-test-with-chat
    (should (member "read_buffer" (agent-q-turn-test--complete "/read_")))
    (should-not (agent-q-turn-test--complete "read_"))
    (should (equal (agent-q-turn-test--complete "/read_buffer st") '("start=")))
    (should-not (member "start=" (agent-q-turn-test--complete
                                  "/read_buffer start=1 ")))
    (should (member "end=" (agent-q-turn-test--complete
                            "/read_buffer start=1 ")))
    (should-not (agent-q-turn-test--complete "/read_buffer text st"))
    (agent-q-prompt-replace "/read_b")
    (agent-q-test-press "TAB")
    (should (string-prefix-p "/read_buffer" (agent-q-prompt-text)))))

;;;; Input that is no text

(ert-deftest agent-q-turn-raw-bytes-are-sent-as-replacement-characters ()
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"text\":\"fine\"}],
                    \"expect\":{\"contains\":[\"λ a\\ufffdb\\ufffd\"]}}]}"
    (agent-q-test-with-chat
      (agent-q-test-ask (concat "λ a" (string #x3fffe9) "b" (string #xd800)))
      (should (string-suffix-p "\n\nfine\n" (agent-q-test-log))))))

;;;; Settings

(ert-deftest agent-q-turn-options-reach-the-system-prompt ()
  (agent-q-test-with-chat
    (save-window-excursion
      (let ((agent-q-instructions "Answer in verse."))
        ;; The session takes new settings in when it gets to them.
        (agent-q-test-until
         (progn (agent-q-show-system-prompt)
                (with-current-buffer "*agent-q system prompt*"
                  (string-match-p "Answer in verse\\." (buffer-string)))))
        (with-current-buffer "*agent-q system prompt*"
          ;; What goes before each message is shown, too.
          (should (string-match-p "^</agent-q-context>$" (buffer-string))))))))

(provide 'agent-q-turn-test)
;;; agent-q-turn-test.el ends here
