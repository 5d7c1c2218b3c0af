;;; agent-q-agent-test.el --- Tests of chats that follow an agent's file  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A gram file, tool libraries, and the scripted server as the model: late
;; binding from the file to the answer.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)
(require 'agent-q-specifications)

(defconst agent-q-agent-test--gram
  "// An agent that greets.
[hello_world_agent:Agent {
  description: \"Says hello\",
  instruction: \"You greet people, always with the sayHello tool.\",
  model: \"Scripted/greeting-model\"
} |
  [sayHello:ToolSpecification {description: \"Greet the one of that name\"} |
    (::Text {paramName:\"name\"})==>(::String)]
]"
  "An agent with one tool.")

(defconst agent-q-agent-test--script
  "{\"repeat_last\":true,\"turns\":[
     {\"steps\":[{\"tool_calls\":[{\"name\":\"sayHello\",\"arguments\":{\"name\":\"Ann\"}}]}],
      \"expect\":{\"contains\":[\"You greet people\",\"sayHello\",\"greeting-model\"],
                  \"lacks\":[\"describe_symbol\"]}},
     {\"steps\":[{\"text\":\"Greeted.\"}]},
     {\"steps\":[{\"tool_calls\":[{\"name\":\"sayHello\",\"arguments\":{\"name\":\"Bob\"}}]}]},
     {\"steps\":[{\"text\":\"Greeted again.\"}]},
     {\"steps\":[{\"tool_calls\":[{\"name\":\"sayHello\",\"arguments\":{\"name\":\"Cid\"}}]}]},
     {\"steps\":[{\"text\":\"Greeted once more.\"}]}]}"
  "A model that greets in each turn.")

(defun agent-q-agent-test--library (greeting &optional level)
  "Return a library whose tool greets with GREETING; LEVEL is its safety level."
  (agent-q-library-register
   "sayHello"
   (agent-q-create-tool "sayHello" "Greet the one of that name"
                        (agent-q-type-signature-to-json-schema
                         "(::Text {paramName:\"name\"})==>(::String)")
                        (lambda (arguments)
                          (format "%s, %s!" greeting (gethash "name" arguments)))
                        :safety-level (or level :safe))
   (agent-q-empty-tool-library)))

(defun agent-q-agent-test--file (text)
  "Return the name of a new file with TEXT."
  (make-temp-file (expand-file-name "agent" agent-q-test-directory) nil ".gram" text))

(defun agent-q-agent-test--results ()
  "Return what the calls of the current chat returned, in order."
  (let ((results nil))
    (maphash (lambda (_ call) (push (agent-q-call-content call) results))
             agent-q-call-table)
    (nreverse results)))

(defmacro agent-q-agent-test--with-agent (libraries &rest body)
  "Run BODY in a chat with a model that greets, while there are LIBRARIES.
The file of the agent is FILE there."
  (declare (indent 1) (debug t))
  `(agent-q-test-with-model agent-q-agent-test--script
     (let ((agent-q-tool-libraries ,libraries)
           (file (agent-q-agent-test--file agent-q-agent-test--gram)))
       (agent-q-test-with-chat ,@body))))

(ert-deftest agent-q-agent-a-chat-answers-through-bound-tools ()
  (agent-q-agent-test--with-agent `(("one" . ,(agent-q-agent-test--library "Hello")))
    (agent-q-chat-use-agent file '("one"))
    (should (equal (alist-get 'model agent-q-session-provider) "greeting-model"))
    (agent-q-test-ask "greet Ann")
    (should (equal (agent-q-agent-test--results) '("Hello, Ann!")))
    (should (string-suffix-p "\n\nGreeted.\n" (agent-q-test-log)))
    (should (with-temp-buffer
              (insert-file-contents agent-q-test-requests)
              (search-forward "Hello, Ann!" nil t)))))

(ert-deftest agent-q-agent-libraries-take-turns-and-are-counted-apart ()
  (agent-q-agent-test--with-agent
      `(("t-formal" . ,(agent-q-agent-test--library "Good morning"))
        ("t-casual" . ,(agent-q-agent-test--library "Hi")))
    (agent-q-chat-use-agent file '("t-formal" "t-casual"))
    (agent-q-test-ask "greet Ann")
    (agent-q-test-ask "greet Bob")
    (agent-q-test-ask "greet Cid")
    (should (equal (agent-q-agent-test--results)
                   '("Good morning, Ann!" "Hi, Bob!" "Good morning, Cid!")))
    (let ((rows (seq-filter (lambda (row) (member (plist-get row :library)
                                                  '("t-formal" "t-casual")))
                            (agent-q-tool-statistics-data))))
      (should (equal (mapcar (lambda (row) (list (plist-get row :tool)
                                                 (plist-get row :library)
                                                 (plist-get row :calls)))
                             rows)
                     '(("sayHello" "t-formal" 2) ("sayHello" "t-casual" 1)))))))

(ert-deftest agent-q-agent-programs-get-the-tool-of-the-turns-library ()
  "The approval handler and the hooks, although both libraries have that name.
The registry has a tool of that name besides."
  (agent-q-agent-test--with-agent
      `(("t-formal" . ,(agent-q-agent-test--library "Good morning" :dangerous))
        ("t-casual" . ,(agent-q-agent-test--library "Hi" :dangerous)))
    (let* ((asked nil)
           (hooked nil)
           (about (lambda (tool)
                    (list (agent-q-tool-origin tool)
                          (funcall (agent-q-tool-handler tool)
                                   (agent-q-json-object '(:name "you"))))))
           (agent-q-approval-handler
            (lambda (tool _) (push (funcall about tool) asked) :approved))
           (agent-q-tool-execution-hooks
            (list (lambda (phase tool &rest _)
                    (push (cons phase (funcall about tool)) hooked)))))
      (agent-q-test-with-tools ((cdar (agent-q-tool-library-tools
                                       (agent-q-agent-test--library "Registered"))))
        (agent-q-chat-use-agent file '("t-formal" "t-casual"))
        (agent-q-test-ask "greet Ann")
        (agent-q-test-ask "greet Bob")
        (should (equal (agent-q-agent-test--results) '("Good morning, Ann!" "Hi, Bob!")))
        (agent-q-test-until (= (length hooked) 4))
        (should (equal (reverse asked)
                       '(((library "t-formal") "Good morning, you!")
                         ((library "t-casual") "Hi, you!"))))
        (should (equal (reverse hooked)
                       '((:before (library "t-formal") "Good morning, you!")
                         (:after (library "t-formal") "Good morning, you!")
                         (:before (library "t-casual") "Hi, you!")
                         (:after (library "t-casual") "Hi, you!"))))
        (should (eq 'emacs-lisp (agent-q-tool-origin (agent-q-get-tool "sayHello"))))))))

(ert-deftest agent-q-agent-a-library-can-be-changed-between-turns ()
  (agent-q-agent-test--with-agent `(("one" . ,(agent-q-agent-test--library "Hello")))
    (agent-q-chat-use-agent file '("one"))
    (agent-q-test-ask "greet Ann")
    (setq agent-q-tool-libraries `(("one" . ,(agent-q-agent-test--library "Salut"))))
    (agent-q-test-ask "greet Bob")
    (should (equal (agent-q-agent-test--results) '("Hello, Ann!" "Salut, Bob!")))))

(ert-deftest agent-q-agent-dangerous-tools-ask-and-hooks-know-the-tool ()
  (agent-q-agent-test--with-agent
      `(("one" . ,(agent-q-agent-test--library "Hello" :dangerous)))
    (agent-q-chat-use-agent file '("one"))
    (let* ((seen nil)
           (agent-q-tool-execution-hooks
            (list (lambda (phase tool &rest _)
                    (push (cons phase (agent-q-tool-name tool)) seen)))))
      (agent-q-test-send "greet Ann")
      (agent-q-test-answer "y")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal (agent-q-agent-test--results) '("Hello, Ann!")))
      (agent-q-test-until (equal seen '((:after . "sayHello") (:before . "sayHello")))))))

(ert-deftest agent-q-agent-what-does-not-fit-is-said-at-once ()
  (agent-q-agent-test--with-agent
      `(("empty" . ,(agent-q-empty-tool-library))
        ("one" . ,(agent-q-agent-test--library "Hello")))
    (should (string-match-p "sayHello.*not found"
                            (cadr (should-error (agent-q-chat-use-agent file '("empty"))
                                                :type 'user-error))))
    (should-error (agent-q-chat-use-agent file '("unknown")) :type 'user-error)
    (should-error (agent-q-chat-use-agent file nil) :type 'user-error)
    (should-error (agent-q-chat-use-agent
                   (agent-q-agent-test--file "[a:Agent {instruction: \"i\"") '("one"))
                  :type 'agent-q-gram-error)
    (should-not agent-q-specifications-agent-current)
    (with-temp-buffer
      (should-error (agent-q-chat-use-agent file '("one")) :type 'user-error))))

(ert-deftest agent-q-agent-can-be-left ()
  (agent-q-test-with-model
      "{\"turns\":[{\"steps\":[{\"text\":\"fine\"}],
                    \"expect\":{\"contains\":[\"describe_symbol\"],\"lacks\":[\"You greet\"]}}]}"
    (let ((agent-q-tool-libraries `(("one" . ,(agent-q-agent-test--library "Hello"))))
          (file (agent-q-agent-test--file agent-q-agent-test--gram)))
      (agent-q-test-with-chat
        (agent-q-chat-use-agent file '("one"))
        (agent-q-chat-use-agent nil)
        (agent-q-test-ask "hi")
        (should (string-suffix-p "\n\nfine\n" (agent-q-test-log)))))))

(ert-deftest agent-q-agent-its-model-goes-with-it ()
  (agent-q-agent-test--with-agent `(("one" . ,(agent-q-agent-test--library "Hello")))
    (let ((model (lambda () (alist-get 'model agent-q-session-provider)))
          (other (agent-q-agent-test--file
                  (replace-regexp-in-string "greeting" "other" agent-q-agent-test--gram))))
      (should (equal (funcall model) "scripted"))
      (agent-q-chat-use-agent file '("one"))
      (should (equal (funcall model) "greeting-model"))
      (agent-q-chat-use-agent other '("one"))
      (should (equal (funcall model) "other-model"))
      (agent-q-chat-use-agent "")
      (should (equal (funcall model) "scripted"))
      (should (string-match-p "scripted (scripted)" (agent-q-chat-view-header-line)))
      ;; One that the user chose meanwhile stays.
      (agent-q-chat-use-agent file '("one"))
      (agent-q-set-model (agent-q-provider-named "scripted" "mine"))
      (agent-q-chat-use-agent nil)
      (should (equal (funcall model) "mine"))
      ;; And it is what comes back after another agent.
      (agent-q-chat-use-agent file '("one"))
      (agent-q-chat-use-agent nil)
      (should (equal (funcall model) "mine")))))

(ert-deftest agent-q-agent-without-a-model-before-there-is-none-after ()
  (agent-q-agent-test--with-agent `(("one" . ,(agent-q-agent-test--library "Hello")))
    (agent-q-chat-use-provider nil)
    (agent-q-chat-use-agent file '("one"))
    (let ((agent-q-provider 'none))
      (agent-q-chat-use-agent nil))
    (should-not agent-q-session-provider)
    (should (string-match-p "no model" (agent-q-chat-view-header-line)))))

(ert-deftest agent-q-agent-an-unknown-provider-leaves-the-model ()
  (agent-q-agent-test--with-agent `(("one" . ,(agent-q-agent-test--library "Hello")))
    (let ((provider agent-q-session-provider))
      (agent-q-chat-use-agent
       (agent-q-agent-test--file
        (replace-regexp-in-string "Scripted" "NoSuchHost" agent-q-agent-test--gram))
       '("one"))
      (should (equal agent-q-session-provider provider))
      (should agent-q-specifications-agent-current))))

(ert-deftest agent-q-agent-a-library-that-is-gone-is-said ()
  (agent-q-agent-test--with-agent `(("one" . ,(agent-q-agent-test--library "Hello")))
    (agent-q-chat-use-agent file '("one"))
    (dolist (libraries '(nil (("other" . 5)) (("one" . 5))))
      (setq agent-q-tool-libraries libraries)
      (should (string-match-p "No tool library is named one"
                              (cadr (should-error (agent-q-test-send "greet Ann")
                                                  :type 'agent-q-error)))))
    ;; The message is still there, to be sent when the library is back.
    (setq agent-q-tool-libraries `(("one" . ,(agent-q-agent-test--library "Salut"))))
    (agent-q-test-ask "")
    (should (equal (agent-q-agent-test--results) '("Salut, Ann!")))))

(defun agent-q-agent-test--offered ()
  "Return name and origin of what the list of tools shows as offered."
  (goto-char (point-min))
  (let ((rows nil))
    (while (tabulated-list-get-id)
      (let ((row (append (tabulated-list-get-entry) nil)))
        (when (equal (car row) "+")
          (push (list (nth 1 row) (nth 3 row) (nth 5 row)) rows)))
      (forward-line 1))
    (nreverse rows)))

(ert-deftest agent-q-agent-the-list-shows-what-the-agent-offers ()
  (agent-q-agent-test--with-agent
      `(("l-one" . ,(agent-q-agent-test--library "Hello"))
        ("l-two" . ,(agent-q-agent-test--library "Hi" :dangerous)))
    (agent-q-test-with-tools ((agent-q-test-tool "t_other" #'ignore))
      (agent-q-chat-use-agent file '("l-one" "l-two"))
      (agent-q-test-ask "greet Ann")
      (save-window-excursion
        ;; Wide enough for where the tools are from.
        (cl-letf (((symbol-function 'agent-q-text--list-width) (lambda () 200)))
          (agent-q-list-tools))
        (should (equal (agent-q-agent-test--offered)
                       '(("sayHello" "library l-one" "1") ("sayHello" "library l-two" "0"))))
        (agent-q-test-find "library l-two")
        (should (string-match-p "dangerous" (aref (tabulated-list-get-entry) 2)))
        (agent-q-tool-list-describe)
        (with-current-buffer "*agent-q tool*"
          (should (string-match-p "sayHello is a dangerous tool (library l-two)"
                                  (buffer-string))))
        (set-buffer "*agent-q tools*")
        ;; The others are there too, but nothing can be switched.
        (dolist (name '("t_other" "library l-one"))
          (agent-q-test-find name)
          (should (string-match-p "hello_world_agent.*no effect"
                                  (cadr (should-error (agent-q-tool-list-toggle)
                                                      :type 'user-error)))))
        (with-current-buffer chat
          (should-not (local-variable-p 'agent-q-offered-tools))
          (agent-q-chat-use-agent nil))
        (tabulated-list-print)
        (should (member '("t_other" "emacs-lisp" "0") (agent-q-agent-test--offered)))
        (should-not (assoc "sayHello" (agent-q-agent-test--offered)))
        (kill-buffer)))))

(provide 'agent-q-agent-test)
;;; agent-q-agent-test.el ends here
