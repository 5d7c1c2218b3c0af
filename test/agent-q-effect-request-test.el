;;; agent-q-effect-request-test.el --- Tests of questions about effects  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How the chat shows what running code is about to do, how it is answered, and
;; how programs are asked.  The events are made up; no image takes part.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-json)
(require 'agent-q-rules)

(defvar agent-q-effect-request-test--told nil
  "What the core was told, latest first.")

(defmacro agent-q-effect-request-test--with-chat (&rest body)
  "Run BODY in a chat whose tool call number 1 runs; the core only takes notes."
  (declare (indent 0) (debug t))
  `(let ((agent-q-effect-request-test--told nil)
         (agent-q-approval-handler nil))
     ;; Loading the core would define these functions anew.
     (agent-q-registry-ensure)
     (cl-letf (((symbol-function 'agent-q-core-decide)
                (lambda (&rest answer) (push answer agent-q-effect-request-test--told)))
               ((symbol-function 'agent-q-core-decide-by-handler)
                (lambda (&rest answer) (push answer agent-q-effect-request-test--told)))
               ((symbol-function 'agent-q-core-offered-rule)
                (lambda (_call scope)
                  (format "[{\"rule\":{},\"description\":\"SHOP::CLEANUP may delete files, in this %s.\"}]"
                          scope)))
               ((symbol-function 'agent-q-core-add-rule)
                (lambda (&rest rule) (push rule agent-q-effect-request-test--told))))
       (agent-q-test-with-chat
         (let ((agent-q-chat-view-header-since (current-time)))
           (agent-q-test-event :call-proposed :call 1 :tool "eval_form"
                               :arguments "{\"form\":\"(shop::cleanup)\"}")
           (agent-q-test-event :call-started :call 1 :tool "eval_form")
           (agent-q-test-event :state :state :running)
           ,@body)))))

(defconst agent-q-effect-request-test--arguments
  '(:file "/tmp/x/a.txt" :function "SHOP::CLEANUP" :form "(shop::cleanup)"
    :backtrace "(SHOP::CLEANUP)\n(SHOP::MAIN :ONCE T)")
  "What a question is about.")

(defun agent-q-effect-request-test--ask (key &optional words arguments tool)
  "Have the current chat ask about the effect KEY; return its call.
WORDS, ARGUMENTS and TOOL have defaults."
  (let ((event (list :call key :tool (or tool "effect/delete_file")
                     :level "dangerous" :reason (or words "delete /tmp/x/a.txt")
                     :arguments (agent-q-json-encode
                                 (or arguments agent-q-effect-request-test--arguments)))))
    (apply #'agent-q-test-event :call-proposed event)
    (apply #'agent-q-test-event :approval event)
    (gethash key agent-q-call-table)))

(defun agent-q-effect-request-test--answered (key outcome &optional content)
  "Tell that the effect KEY came to OUTCOME with CONTENT; return the log's last line."
  (agent-q-test-event :call-finished :call key :tool "effect/delete_file"
                      :outcome outcome :content content :milliseconds 100)
  (car (last (split-string (agent-q-test-log) "\n" t))))

;;;; The request

(ert-deftest agent-q-effect-request-says-what-and-from-where-in-plain-words ()
  (agent-q-effect-request-test--with-chat
    (agent-q-effect-request-test--ask 7)
    (should (agent-q-test-shows
             "\n? The running code wants to delete /tmp/x/a.txt
by SHOP::CLEANUP, in (shop::cleanup)\n"))
    (should-not (agent-q-test-shows "effect/"))
    (should-not (agent-q-test-shows "dangerous"))
    (let ((inhibit-message t)) (save-window-excursion (agent-q-chats)))
    (with-current-buffer "*agent-q chats*"
      (agent-q-test-until (agent-q-test-shows "needs you"))
      (should (agent-q-test-shows "\"delete /tmp/x/a.txt\"? "))
      (should-not (agent-q-test-shows "effect/"))
      (kill-buffer))
    (dolist (label '("[y] allow" "[!] allow similar in this chat" "[P] in this project"
                     "[n] deny" "[r] deny with a reason" "[s] stop the call"
                     "[b] backtrace" "[v] show all"))
      (should (agent-q-test-shows label)))
    (should-not (agent-q-test-shows "[e]"))
    (goto-char (agent-q-render-item-start (agent-q-test-arm)))
    (should-error (agent-q-test-press "e") :type 'user-error)
    (should-not agent-q-effect-request-test--told)))

(ert-deftest agent-q-effect-request-shows-what-its-words-leave-out ()
  (agent-q-effect-request-test--with-chat
    ;; The form itself is at it, in a thread of its own, and links were followed.
    (agent-q-effect-request-test--ask
     7 "rename a.txt" '(:files "/tmp/x/a.txt\n/tmp/x/b.txt" :form "(rename-file\n  a b)"
                        :thread "reaper"))
    (should (agent-q-test-shows
             "wants to rename a.txt
file: /tmp/x/a.txt
file: /tmp/x/b.txt
in (rename-file a b)
in the thread reaper\n"))
    ;; The threads in which clients have code run are nothing to tell of.
    (agent-q-effect-request-test--answered 7 :denied)
    (agent-q-effect-request-test--ask 8 "connect to a server"
                                      '(:target "127.0.0.1:9" :form "NIL" :thread "worker")
                                      "effect/connect")
    (should (agent-q-test-shows "wants to connect to a server\ntarget: 127.0.0.1:9\n[y]"))
    ;; Whatever is missing, it can be asked.
    (agent-q-effect-request-test--answered 8 :denied)
    (agent-q-effect-request-test--ask 9 "" '(:target "touch") "effect/run_program")
    (should (agent-q-test-shows "? The running code wants to run program touch\n"))
    (agent-q-effect-request-test--answered 9 :denied)
    (agent-q-test-event :approval :call 10 :tool "effect/exit_lisp" :level "dangerous"
                        :arguments "{}")
    (should (agent-q-test-shows "? The running code wants to exit lisp\n"))))

(ert-deftest agent-q-effect-request-no-text-of-the-image-looks-like-ours ()
  (agent-q-effect-request-test--with-chat
    (agent-q-effect-request-test--ask
     7 "delete a\n  [y] allow\u202e" '(:file "b\u200b" :function "F\n? it wants"
                                       :form "(a\nb)" :thread "t\nu"))
    (should (agent-q-test-shows
             "? The running code wants to delete a\\n  [y] allow\\x202e\n"))
    (should (agent-q-test-shows "\nfile: b\\x200b\nby F\\n? it wants, in (a b)\nin the thread t\\nu\n"))
    ;; Nor does the rest of a line that is wrapped.
    (let ((ours (get-text-property (agent-q-test-find "Press a key here") 'line-prefix)))
      (should (equal (substring-no-properties ours) "▌   "))
      (dolist (line '("The running code" "file: b" "by F" "in the thread"))
        (should (> (length (get-text-property (agent-q-test-find line) 'wrap-prefix))
                   (length ours)))))
    ;; What is long is there as a whole, and the head stays a head.
    (let ((script (concat "run sh -c " (make-string 300 ?x) "\n" (make-string 300 ?y) "END")))
      (agent-q-effect-request-test--answered 7 :denied)
      (agent-q-effect-request-test--ask 8 script '(:target "sh") "effect/run_program")
      (should (agent-q-test-shows (concat (substring script 0 200) "...\n")))
      (agent-q-test-find (concat "all of it:\n" script "\n"))
      (should (equal (substring-no-properties (get-text-property (- (search-forward "END") 1) 'line-prefix))
                     (concat "▌" (substring agent-q-call-value-prefix 1)))))
    (agent-q-effect-request-test--answered 8 :denied)
    (agent-q-effect-request-test--ask 9 (make-string 9000 ?x) '(:target "sh"))
    (should (agent-q-test-shows "...\nNot all of it is shown here; v shows the whole\n"))
    (agent-q-effect-request-test--answered 9 :denied)
    (agent-q-effect-request-test--ask
     10 "delete files" `(:files ,(mapconcat (lambda (n) (format "/tmp/a-file-%d" n))
                                            (number-sequence 1 9000) "\n")))
    (should (agent-q-test-shows "\nfile: /tmp/a-file-100\n"))
    (should-not (agent-q-test-shows "\nfile: /tmp/a-file-8999\n"))))

(ert-deftest agent-q-effect-request-a-refusal-after-a-call-is-one-line ()
  "It goes into its chat, whatever the thread is called; without one into the log."
  (agent-q-effect-request-test--with-chat
    (setq-local agent-q-image-chat-name "chat 7")
    (agent-q-image-effect
     nil "agent-q effect: (:call 1 :refused \"write /a\n[y] b\" :chat \"chat 7\" :thread \"t\nu\")")
    (should (agent-q-test-shows
             "The thread t\\nu wanted to write /a\\n[y] b.  It was refused: its call is over"))
    (let ((before (buffer-string)))
      (agent-q-image-effect
       nil "agent-q effect: (:call 1 :refused \"write /c\" :chat \"another\" :thread \"t\")")
      (should (equal before (buffer-string))))))

(ert-deftest agent-q-effect-request-is-one-of-those-that-wait ()
  (agent-q-effect-request-test--with-chat
    (should (string-match-p "Running eval_form" (agent-q-chat-view-header-line)))
    (let ((call (agent-q-effect-request-test--ask 7)))
      (agent-q-test-event :state :state :running)
      (should (string-match-p "Needs your answer" (agent-q-chat-view-header-line)))
      (should (eq call (agent-q-call-waiting)))
      (should (agent-q-test-shows "eval_form (shop::cleanup) waits for your answer below\n"))
      (goto-char (point-min))
      (agent-q-goto-approval)
      (should (eq call (agent-q-render-item-at (point))))
      (dolist (typed '("y" "s" "b" "no"))
        (should (string-match-p "To answer \"delete /tmp/x/a.txt\", press [a-z] without RET"
                                (agent-q-approval-mistyped typed))))
      (agent-q-effect-request-test--ask 8 "write /tmp/x/b.txt")
      (should (string-match-p "2 wait" (agent-q-chat-view-header-line)))
      (should (agent-q-test-shows "\n? write /tmp/x/b.txt waits\n"))
      (should (agent-q-test-shows "[N] deny all 2"))
      (agent-q-test-answer "N")
      (should (string-match-p "running" (save-excursion
                                          (agent-q-test-find "eval_form")
                                          (buffer-substring (point) (line-end-position)))))
      (agent-q-test-event :state :state :running)
      (should (string-match-p "Running eval_form" (agent-q-chat-view-header-line))))))

;;;; The answers

(ert-deftest agent-q-effect-request-each-key-tells-the-core ()
  (agent-q-effect-request-test--with-chat
    (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "not that one")))
      (cl-loop for (key . told) in '(("y" "approved" nil) ("n" "denied" nil)
                                     ("r" "denied" "not that one") ("s" "stopped" nil))
               for number from 7
               do (agent-q-effect-request-test--ask number)
               do (agent-q-test-answer key)
               do (should (equal (pop agent-q-effect-request-test--told)
                                 (cons number told)))
               do (should-not (agent-q-call-waiting))))
    ;; A rule is shown first.
    (agent-q-effect-request-test--ask 11)
    (agent-q-test-answer "P")
    (should-not agent-q-effect-request-test--told)
    (should (agent-q-test-shows
             "Press P again to add this rule:\nSHOP::CLEANUP may delete files, in this project.\n[y] allow"))
    (agent-q-test-answer "P")
    (should (equal (reverse agent-q-effect-request-test--told)
                   '(("{}" 11) (11 "approved" nil))))
    (should (agent-q-test-shows "delete /tmp/x/a.txt  allowed, with a rule\n"))))

(ert-deftest agent-q-effect-request-keys-typed-ahead-answer-nothing ()
  (agent-q-effect-request-test--with-chat
    (goto-char (agent-q-render-item-start (agent-q-effect-request-test--ask 7)))
    (dolist (key '("y" "!" "P" "Y" "n" "N" "r" "s"))
      (should-error (agent-q-test-press key) :type 'user-error))
    (should-not agent-q-effect-request-test--told)
    (agent-q-effect-request-test--ask 8)
    (mapc #'agent-q-test-see (agent-q-call-all-waiting))
    (agent-q-test-press "y")
    (should-error (agent-q-test-press "y") :type 'user-error)
    (should (equal agent-q-effect-request-test--told '((7 "approved" nil))))))

(ert-deftest agent-q-effect-request-becomes-a-line-of-the-log ()
  (agent-q-effect-request-test--with-chat
    (cl-loop for (key outcome content line)
             in '(("y" :succeeded nil "delete /tmp/x/a.txt  allowed")
                  ("n" :denied nil "delete /tmp/x/a.txt  denied")
                  ("n" :denied "denied" "delete /tmp/x/a.txt  denied")
                  ("n" :denied "User denied tool execution: not now"
                   "delete /tmp/x/a.txt  denied: not now")
                  ("s" :cancelled nil "delete /tmp/x/a.txt  stopped")
                  ("s" :denied nil "delete /tmp/x/a.txt  stopped")
                  (nil :cancelled "the question was withdrawn" "delete /tmp/x/a.txt  withdrawn")
                  (nil :cancelled "the call was stopped" "delete /tmp/x/a.txt  stopped")
                  (nil :failed "the image is gone" "delete /tmp/x/a.txt  failed: the image is gone"))
             for number from 7
             do (agent-q-effect-request-test--ask number)
             do (when key (agent-q-test-answer key))
             do (should (equal (substring (agent-q-effect-request-test--answered
                                           number outcome content)
                                          2)
                               line)))
    ;; The user's own reason is there, whatever the core says.
    (agent-q-effect-request-test--ask 20)
    (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "mine")))
      (agent-q-test-answer "r"))
    (should (string-suffix-p "a.txt  denied: mine"
                             (agent-q-effect-request-test--answered 20 :denied)))
    ;; By a rule that came meanwhile.
    (agent-q-effect-request-test--ask 21)
    (agent-q-test-event :approval-settled :call 21 :outcome "allowed by a rule")
    (should (string-suffix-p "a.txt  allowed by a rule"
                             (agent-q-effect-request-test--answered 21 :succeeded)))
    ;; Unfolded, it shows where it came from.
    (agent-q-test-find "delete /tmp/x/a.txt  allowed")
    (agent-q-render-toggle)
    (should (agent-q-test-shows "function: SHOP::CLEANUP\n"))
    ;; What a turn leaves open was withdrawn.
    (agent-q-effect-request-test--ask 22)
    (agent-q-test-event :turn-ended :outcome :cancelled)
    (should (string-match-p "a.txt  withdrawn\nCancelled" (agent-q-test-log)))))

(ert-deftest agent-q-effect-request-a-narrow-window-keeps-the-outcome ()
  (agent-q-effect-request-test--with-chat
    (cl-letf (((symbol-function 'agent-q-call-width) (lambda () 40)))
      (agent-q-effect-request-test--ask 7 (concat "delete /tmp/" (make-string 100 ?x)))
      (agent-q-test-answer "y")
      (let ((line (agent-q-effect-request-test--answered 7 :succeeded)))
        (should (<= (string-width line) 40))
        (should (string-suffix-p "  allowed" line)))
      (agent-q-effect-request-test--ask 8 (concat "delete /tmp/" (make-string 100 ?x)))
      (let ((line (agent-q-effect-request-test--answered 8 :failed (make-string 200 ?y))))
        (should (<= (string-width line) 40))
        (should (string-match-p "  failed: yyy" line))))))

(ert-deftest agent-q-effect-request-shows-its-backtrace-and-all-of-it ()
  (agent-q-effect-request-test--with-chat
    (let ((call (agent-q-effect-request-test--ask 7 "delete a; b")))
      ;; These keys answer nothing, and need not wait.
      (goto-char (agent-q-render-item-start call))
      (save-window-excursion
        (agent-q-test-press "b")
        (should (equal (buffer-name (window-buffer)) "*agent-q backtrace*")))
      (with-current-buffer "*agent-q backtrace*"
        (should (derived-mode-p 'special-mode))
        (should (equal (buffer-string)
                       "delete a; b\nby SHOP::CLEANUP, in (shop::cleanup)\n\n(SHOP::CLEANUP)\n(SHOP::MAIN :ONCE T)\n"))
        (should (eq (key-binding "q") #'quit-window)))
      (agent-q-test-press "v")
      (with-current-buffer "*agent-q call*"
        (should (string-prefix-p "delete file\n\nWhy it asks\n- delete a; b\n\nfile: /tmp/x/a.txt\n"
                                 (buffer-string))))
      ;; Its window is selected; back to the chat.
      (agent-q-test-press "q")
      (should (derived-mode-p 'agent-q-chat-mode))
      (agent-q-effect-request-test--ask 7 "delete a" '(:file "a"))
      (agent-q-test-press "b")
      (with-current-buffer "*agent-q backtrace*"
        (should (agent-q-test-shows "The image sent no backtrace.")))
      (goto-char (point-max))
      (should-error (agent-q-approval-backtrace) :type 'user-error))))

;;;; Programs

(ert-deftest agent-q-effect-request-an-approval-handler-is-asked ()
  (agent-q-effect-request-test--with-chat
    (let ((seen nil)
          (event (list :type :approval :session 0 :call 7 :tool "effect/delete_file"
                       :level "dangerous" :reason "delete /tmp/x/a.txt"
                       :arguments (agent-q-json-encode agent-q-effect-request-test--arguments))))
      (cl-loop for (answer . told)
               in `((:approved "approved" nil) (:denied "denied" nil)
                    ((:denied "no") "denied" "no") (:stopped "stopped" nil)
                    ((:modified (:file "b")) "unanswered" "can't modify an effect, so it was not")
                    (maybe "unanswered" "gave no answer, so it was not allowed"))
               do (let ((agent-q-approval-handler
                         (lambda (tool arguments) (push (cons tool arguments) seen) answer)))
                    (agent-q-events-dispatch event)
                    (agent-q-execute-handler-run-waiting)
                    (pcase-let ((`(,key ,decision ,payload)
                                 (pop agent-q-effect-request-test--told)))
                      (should (equal (list key decision) (list 7 (car told))))
                      (if (cadr told) (should (string-search (cadr told) payload))
                        (should-not payload)))))
      (pcase-let ((`(,tool . ,arguments) (car seen)))
        (should (agent-q-tool-p tool))
        (should (equal (agent-q-tool-name tool) "effect/delete_file"))
        (should (string-match-p "delete file" (agent-q-tool-description tool)))
        (should (eq (agent-q-tool-safety-level tool) :dangerous))
        (should (agent-q-tool-to-schema tool))
        (should-error (funcall (agent-q-tool-handler tool) arguments) :type 'agent-q-error)
        (should (equal (gethash "file" arguments) "/tmp/x/a.txt"))
        (should (equal (gethash "function" arguments) "SHOP::CLEANUP"))))
    ;; What doesn't run yet can't be stopped.
    (let ((agent-q-approval-handler (lambda (_tool _arguments) :stopped)))
      (agent-q-events-dispatch '(:type :approval :session 0 :call 8 :tool "eval_form"
                                 :arguments "{}"))
      (agent-q-execute-handler-run-waiting)
      (should (equal (seq-take (pop agent-q-effect-request-test--told) 2) '(8 "unanswered"))))))

(ert-deftest agent-q-effect-request-in-a-chat-a-handler-is-asked-too ()
  (agent-q-effect-request-test--with-chat
    (let ((agent-q-approval-handler (lambda (_tool _arguments _answer) nil)))
      (agent-q-effect-request-test--ask 7)
      (should (agent-q-test-shows
               "delete /tmp/x/a.txt  waits for agent-q-approval-handler\n"))
      (should-not (agent-q-call-waiting))
      (should (string-suffix-p "a.txt  allowed"
                               (agent-q-effect-request-test--answered 7 :succeeded))))))

(ert-deftest agent-q-effect-request-no-hook-runs-for-one ()
  (agent-q-effect-request-test--with-chat
    (let* ((ran nil)
           (agent-q-tool-execution-hooks (list (lambda (&rest _) (setq ran t)))))
      (agent-q-test-event :call-started :call 7 :tool "effect/delete_file" :arguments "{}")
      (agent-q-effect-request-test--answered 7 :succeeded)
      (agent-q-execute-handler-run-waiting)
      (should-not ran))))

;;;; Rules

(ert-deftest agent-q-effect-request-rules-about-effects-are-listed-and-revoked ()
  (let ((agent-q-approval-handler nil))
    (agent-q-registry-ensure)
    (unwind-protect
        (save-window-excursion
          (agent-q-rules-add '(:effect "allow" :tool "effect/change_attributes" :dangerous t
                               :scope (:for "always")
                               :arguments [(:name "function" :pattern (:equals "SHOP::CLEANUP"))]))
          (agent-q-rules)
          (should (agent-q-test-shows " effect/change_attributes "))
          (goto-char (point-min))
          (save-window-excursion (agent-q-rules-describe))
          (with-current-buffer "*agent-q rule*"
            (should (agent-q-test-shows "\"tool\": \"effect/change_attributes\"")))
          (cl-letf (((symbol-function 'y-or-n-p) (lambda (_prompt) t)))
            (agent-q-rules-revoke))
          (should-not (agent-q-test-shows "effect/")))
      (seq-doseq (rule (gethash "rules" (agent-q-rules-all)))
        (agent-q-core-revoke-rule (gethash "id" rule))))
    ;; They can be named when a rule is written.
    (let ((offered nil))
      (cl-letf (((symbol-function 'completing-read)
                 (lambda (prompt names &rest _)
                   (when (string-prefix-p "Tool" prompt)
                     (setq offered names))
                   "allow"))
                ((symbol-function 'read-string) #'ignore)
                ((symbol-function 'agent-q-rules--read-optional) #'ignore))
        (agent-q-rules--read))
      (should (member "eval_form" offered))
      (should (member "effect/run_program" offered)))
    ;; No call can be tried that would have one.
    (should-error (agent-q-rules-test "effect/run_program" "{\"target\":\"touch\"}")
                  :type 'user-error)
    (should-error (agent-q-rules-explain "effect/run_program" '(:target "touch"))
                  :type 'agent-q-error)))

(provide 'agent-q-effect-request-test)
;;; agent-q-effect-request-test.el ends here
