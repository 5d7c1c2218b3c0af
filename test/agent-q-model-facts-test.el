;;; agent-q-model-facts-test.el --- What is known of models  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The facts that are shipped, what wins over them, how they are made from the catalogue, and
;; what chats make of them.

;;; Code:

(require 'agent-q-model-facts)
(require 'agent-q-chat-commands)
(require 'agent-q-provider)
(require 'agent-q-test)
(require 'agent-q-test-registry)

(defmacro agent-q-model-facts-test--with-table (form &rest body)
  "Run BODY with the facts of FORM, as `agent-q-model-facts-trim' makes them."
  (declare (indent 1) (debug t))
  `(let* ((agent-q-model-facts-file (make-temp-file "agent-q-facts"))
          (agent-q-model-facts--table nil)
          (agent-q-model-facts--listed (make-hash-table :test #'equal)))
     (unwind-protect
         (progn (agent-q-model-facts-write ,form agent-q-model-facts-file)
                ,@body)
       (delete-file agent-q-model-facts-file))))

(defconst agent-q-model-facts-test--form
  '(:date "2999-01-01"
    :providers (("openai" ("small" :window 8000 :output 1000 :tools t :prices (1.0 2.0 nil nil)))
                ("openrouter" ("a/b" :window 32000 :tools nil :prices (3.0 4.0 nil nil)))
                ("azure" ("deployed" :window 64000))))
  "A table of a day that will be the newest.")

(ert-deftest agent-q-facts-every-default-model-is-known ()
  "Each host that agent-q knows has its facts, and they are of the core's form."
  (let ((agent-q-model-facts-file "/nonexistent")
        (agent-q-model-facts--table nil))
    (should (string-match-p "\\`20[0-9][0-9]-[01][0-9]-[0-3][0-9]\\'" (agent-q-model-facts-date)))
    (pcase-dolist (`(,name . ,properties) agent-q-providers)
      (let ((url (plist-get properties :base-url)))
        (should (agent-q-model-facts--provider url))
        (ert-info ((symbol-name name))
          (let ((facts (agent-q-model-facts-of url (plist-get properties :model))))
            (should (> (or (plist-get facts :window) 0) 4096))
            (should-not (eq (plist-get facts :status) 'deprecated))))))))

(defun agent-q-model-facts-test--days-ago (days)
  "Return the date of DAYS ago."
  (format-time-string "%F" (time-subtract nil (days-to-time days))))

(ert-deftest agent-q-facts-a-new-chat-says-what-is-old-or-missing ()
  (let ((inhibit-message t))
    (cl-flet ((shown (date model base)
                (cl-letf (((symbol-function 'agent-q-model-facts-date) (lambda () date)))
                  (let ((agent-q-provider (list :name "host" :model model :key "k" :base-url base)))
                    (agent-q-test-with-chat
                      (and (string-match "Model  .*\n       \\(.*\\)\nTry" (agent-q-test-log))
                           (match-string 1 (agent-q-test-log))))))))
      (agent-q-model-facts-test--with-table agent-q-model-facts-test--form
        (let ((agent-q-model-facts--told nil)
              (old (agent-q-model-facts-test--days-ago 70))
              (new (agent-q-model-facts-test--days-ago 50))
              (openai "https://api.openai.com/v1"))
          (should-not (shown new "small" openai))
          (should (string-match-p "agent-q-model-facts-refresh" (shown old "small" openai)))
          ;; Once is enough.
          (should-not (shown old "small" openai))
          (should (string-match-p "huge is not in the facts.*agent-q-model-facts-refresh"
                                  (shown new "huge" openai)))
          (should (string-match-p ":models" (shown new "qwen" "http://127.0.0.1:9/v1")))
          (should-not (shown new "qwen" "http://127.0.0.1:9/v1"))
          ;; What the host itself said is enough.
          (setq agent-q-model-facts--told nil)
          (agent-q-model-facts-note "http://127.0.0.1:9/v1" "qwen" '(:window 8000))
          (should-not (shown old "qwen" "http://127.0.0.1:9/v1")))))))

(ert-deftest agent-q-facts-a-release-needs-its-defaults ()
  (let* ((form '(:providers (("openai" ("small" :window 8000) ("gone" :window 9 :status deprecated)))))
         (missing (lambda (url model)
                    (agent-q-model-facts-missing form `((host :base-url ,url :model ,model))))))
    (should-not (funcall missing "https://api.openai.com/v1" "small"))
    (should (funcall missing "https://api.openai.com/v1" "gone"))
    (should (funcall missing "https://api.openai.com/v1" "never"))
    (should (funcall missing "https://api.x.ai/v1" "small"))
    (should-not (funcall missing "https://gpu.example.com/v1" "small"))))

(ert-deftest agent-q-facts-the-newer-file-counts ()
  (agent-q-model-facts-test--with-table agent-q-model-facts-test--form
    (should (equal (agent-q-model-facts-date) "2999-01-01"))
    (should (= 8000 (plist-get (agent-q-model-facts-of "https://api.openai.com/v1/" "small") :window))))
  (agent-q-model-facts-test--with-table (plist-put (copy-sequence agent-q-model-facts-test--form)
                                                   :date "2000-01-01")
    (should-not (equal (agent-q-model-facts-date) "2000-01-01"))))

(ert-deftest agent-q-facts-names-and-hosts ()
  (agent-q-model-facts-test--with-table agent-q-model-facts-test--form
    (let ((window (lambda (url model) (plist-get (agent-q-model-facts-of url model) :window))))
      (should (= 8000 (funcall window "https://API.openai.com/v1" "small-2026-08-01")))
      (should (= 8000 (funcall window "https://api.openai.com/v1" "small-20260801")))
      (should (= 8000 (funcall window "https://api.openai.com/v1" "small-latest")))
      (should (= 64000 (funcall window "https://us.openai.azure.com/openai/v1" "deployed")))
      (should-not (funcall window "https://api.openai.com.example.org/v1" "small"))
      (should-not (funcall window "http://127.0.0.1:8080/v1" "small"))
      ;; What is served otherwise may cost something else.
      (let ((facts (agent-q-model-facts-of "https://openrouter.ai/api/v1" "a/b:free")))
        (should (= 32000 (plist-get facts :window)))
        (should-not (plist-get facts :prices))))))

(ert-deftest agent-q-facts-the-user-wins-but-not-over-the-hosts-limits ()
  (agent-q-model-facts-test--with-table agent-q-model-facts-test--form
    (let* ((url "https://api.openai.com/v1")
           (facts (lambda (&rest own) (agent-q-model-facts-of url "small" own))))
      (should (equal (plist-get (funcall facts :prices '(9 9) :effort 'low) :prices) '(9 9)))
      (should-not (plist-member (funcall facts :effort 'low) :effort))
      (should-not (plist-get (funcall facts :tools nil) :tools))
      (should (= 9000 (plist-get (funcall facts :window 9000) :window)))
      (agent-q-model-facts-note "https://api.openai.com/v1/" "small" '(:window 4000))
      (should (= 4000 (plist-get (funcall facts) :window)))
      (should (= 1000 (plist-get (funcall facts) :output)))
      (should (= 4000 (plist-get (funcall facts :window 9000) :window)))
      (should (= 2000 (plist-get (funcall facts :window 2000) :window))))))

(ert-deftest agent-q-facts-are-made-from-the-catalogue ()
  (should
   (equal
    (agent-q-model-facts-trim
     (agent-q-json-parse
      "{\"nobody\": {\"models\": {}},
        \"openai\": {\"models\": {
          \"b\": {\"tool_call\": true, \"reasoning\": false, \"status\": \"deprecated\",
                  \"modalities\": {\"input\": [\"text\", \"image\"], \"output\": [\"text\"]},
                  \"limit\": {\"context\": 9, \"output\": 5, \"input\": 4},
                  \"cost\": {\"input\": 1, \"output\": 2, \"cache_read\": 0.1,
                    \"context_over_200k\": {\"input\": 3, \"output\": 4}}},
          \"a\": {\"tool_call\": false, \"reasoning\": true, \"status\": \"odd\",
                  \"modalities\": {\"input\": [\"text\"], \"output\": [\"text\"]},
                  \"limit\": {\"context\": 7, \"output\": 0},
                  \"cost\": {\"input\": 1, \"output\": 2,
                    \"tiers\": [{\"tier\": {\"size\": 6}, \"input\": 5, \"output\": 6,
                                 \"cache_write\": 8}]}},
          \"picture\": {\"modalities\": {\"output\": [\"image\"]},
                        \"limit\": {\"context\": 7}}}}}")
     "2026-01-02")
    '(:date "2026-01-02"
      :providers
      (("openai"
        ("a" :window 7 :tools nil :thinking t :vision nil :prices (1 2 nil nil)
         :tiers ((6 5 6 nil 8)))
        ("b" :window 9 :input 4 :output 5 :tools t :thinking nil :vision t
         :prices (1 2 0.1 nil) :tiers ((200000 3 4 nil nil)) :status deprecated)))))))

(ert-deftest agent-q-facts-what-is-no-catalogue-changes-nothing ()
  (agent-q-model-facts-test--with-table agent-q-model-facts-test--form
    (let ((before (agent-q-model-facts--read agent-q-model-facts-file)))
      (dolist (answer '("" "HTTP/1.1 200 OK\n\n<html>" "HTTP/1.1 200 OK\n\n[]"
                        "HTTP/1.1 200 OK\n\n{\"openai\": {\"models\": {}}}"))
        (with-temp-buffer
          (insert answer)
          (should (string-match-p "could not be used (.+); the facts of models stay"
                                  (agent-q-model-facts--take nil)))))
      (with-temp-buffer
        (should (string-match-p "no net" (agent-q-model-facts--take '(:error (error "no net"))))))
      (should (equal before (agent-q-model-facts--read agent-q-model-facts-file))))))

(ert-deftest agent-q-facts-for-people ()
  (should (equal (agent-q-model-facts-summary
                  '(:window 1050000 :tools nil :thinking t :prices (2.5 15.0 nil nil)
                    :status deprecated))
                 "1.05M window, $2.5 in, $15 out, thinks, no tools, deprecated"))
  (should (equal (agent-q-model-facts-summary '(:window 32768 :tools t :prices (0.075 0.0 nil nil)))
                 "33k window, $0.075 in, $0 out"))
  (should (equal (agent-q-model-facts-summary nil) "")))

;;;; In chats

(defmacro agent-q-model-facts-test--in-chat (own script &rest body)
  "Run BODY in a chat with SCRIPT; OWN is what the provider says of its model."
  (declare (indent 2) (debug t))
  `(agent-q-test-with-tools
       ((agent-q-test-tool "t_run" (lambda (_) "It ran.") :safety-level :safe))
     (agent-q-test-with-model ,script
       (let ((agent-q-provider (append agent-q-provider
                                       (list :dialect 'messages
                                             :models (list (cons "scripted" ,own))))))
         (agent-q-test-with-chat
           ,@body)))))

(defconst agent-q-model-facts-test--script
  "{\"turns\":[{\"steps\":[{\"tool_calls\":[{\"name\":\"t_run\",\"arguments\":{\"text\":\"1\"}}]},
                         {\"usage\":[1000,100]}]},
             {\"steps\":[{\"text\":\"The end.\"},{\"usage\":[2000,50]}]},
             {\"steps\":[{\"text\":\"More.\"},{\"usage\":[1000,0]}]}]}"
  "A model that calls a tool, answers, and answers again.")

(ert-deftest agent-q-facts-the-header-shows-the-cost ()
  "Half of the input of the scripted server comes out of its cache."
  (agent-q-model-facts-test--in-chat '(:prices (10.0 20.0 1.0)) agent-q-model-facts-test--script
    (agent-q-test-ask "go")
    ;; 500 and 1000 of input at 10, as many at 1, 150 of output at 20, for a million each.
    (should (string-match-p (regexp-quote "$0.0195") (agent-q-chat-view-header-line)))
    (agent-q-test-ask "more")
    (should (string-match-p (regexp-quote "$0.0250") (agent-q-chat-view-header-line)))
    (let ((help (get-text-property (string-search "$0.0250" (agent-q-chat-view-header-line)) 'help-echo
                                   (agent-q-chat-view-header-line))))
      (should (equal "This chat: $0.0250\nIts last turn: $0.0055" help)))))

(ert-deftest agent-q-facts-an-unknown-price-is-unknown ()
  (agent-q-model-facts-test--in-chat nil agent-q-model-facts-test--script
    (agent-q-test-ask "go")
    (should (string-match-p (regexp-quote "$?") (agent-q-chat-view-header-line)))
    (should-not (agent-q-test-shows "agent-q-max-turn-cost"))))

(ert-deftest agent-q-facts-a-turn-asks-at-its-cost ()
  (let ((agent-q-max-turn-cost 0.001))
    (agent-q-model-facts-test--in-chat '(:prices (10.0 20.0 1.0)) agent-q-model-facts-test--script
      (agent-q-test-send "go")
      (agent-q-test-until
       (agent-q-test-shows "The turn has used $0.0075 (agent-q-max-turn-cost). Continue? (y or n, then RET)"))
      (agent-q-test-find "[Stop]")
      (agent-q-test-press "RET")
      (agent-q-test-until (agent-q-test-idle-p)))
    (agent-q-model-facts-test--in-chat nil agent-q-model-facts-test--script
      (agent-q-test-ask "go")
      (should (agent-q-test-shows
               "What scripted costs is not known, so agent-q-max-turn-cost can't be kept."))
      (should (agent-q-test-shows "The end.")))))

(ert-deftest agent-q-facts-what-a-model-lacks-is-not-sent ()
  (agent-q-model-facts-test--in-chat '(:tools nil :thinking nil :effort high :output 500)
      "{\"turns\":[{\"steps\":[{\"text\":\"Yes.\"}]}]}"
    (agent-q-test-ask "go")
    (with-temp-buffer
      (insert-file-contents agent-q-test-requests)
      (should (search-forward "\"max_tokens\":500" nil t))
      (dolist (left-out '("\"tools\"" "\"thinking\"" "\"effort\""))
        (goto-char (point-min))
        (should-not (search-forward left-out nil t))))))

;;;; Choosing

(ert-deftest agent-q-facts-stand-beside-the-models-to-choose-from ()
  (agent-q-model-facts-test--with-table agent-q-model-facts-test--form
    (let* ((process-environment (cons "AGENT_Q_FACTS_KEY=k" process-environment))
           (auth-sources nil)
           (agent-q-provider nil)
           (agent-q-providers '((some :base-url "https://api.openai.com/v1" :model "small"
                                      :models (("own" :window 7000 :tools nil))
                                      :environment "AGENT_Q_FACTS_KEY")))
           (agent-q-provider--listed nil)
           (seen nil))
      (agent-q-model-facts-note "https://api.openai.com/v1" "listed" '(:window 5000))
      (cl-letf (((symbol-function 'agent-q-provider--list-ask-hosts)
                 (lambda () (setq agent-q-provider--listed
                                  '(("https://api.openai.com/v1" "listed")))))
                ((symbol-function 'agent-q-provider--list-discover-now) #'ignore)
                ((symbol-function 'completing-read)
                 (lambda (_prompt table _predicate require-match &rest _)
                   ;; A model that is not listed may be a slip.
                   (should (eq require-match 'confirm))
                   (let ((annotate (alist-get 'annotation-function
                                              (cdr (funcall table "" nil 'metadata)))))
                     (setq seen (mapcar (lambda (choice) (concat choice (funcall annotate choice)))
                                        (all-completions "" table))))
                   "some: own")))
        (let ((candidates (agent-q-provider-candidates)))
          (should (equal "own" (alist-get 'model
                                          (agent-q-provider-chosen
                                           (agent-q-provider-read candidates) candidates))))
          (should (equal '("some: small   8k window, $1 in, $2 out"
                           "some: own     7k window, no tools"
                           "some: listed  5k window")
                         seen)))))))

(ert-deftest agent-q-facts-the-effort-of-a-chat-is-chosen ()
  (agent-q-model-facts-test--in-chat nil agent-q-model-facts-test--script
    (agent-q-set-effort 'high)
    (should (string-match-p "scripted (scripted), high effort" (agent-q-chat-view-header-line)))
    (agent-q-test-ask "go")
    (agent-q-set-effort nil)
    (agent-q-test-ask "more")
    (with-temp-buffer
      (insert-file-contents agent-q-test-requests)
      (should (= 2 (how-many "\"effort\":\"high\"" (point-min)))))))

(ert-deftest agent-q-facts-the-effort-that-is-shown-stays ()
  (agent-q-model-facts-test--in-chat nil agent-q-model-facts-test--script
    (let (shown)
      (cl-letf (((symbol-function 'completing-read)
                 ;; Native code passes all of its arguments.
                 (lambda (prompt table &optional _ _ _ _ default &rest _)
                   (setq shown (all-completions "" table))
                   (should (string-search default prompt))
                   default)))
        (call-interactively #'agent-q-set-effort)
        (should-not agent-q-session-effort)
        (agent-q-set-effort 'high)
        (call-interactively #'agent-q-set-effort)
        (should (eq 'high agent-q-session-effort)))
      (should (equal '("the provider's own" "none" "minimal" "low") (seq-take shown 4))))
    (cl-letf (((symbol-function 'completing-read) (lambda (&rest _) "the provider's own")))
      (call-interactively #'agent-q-set-effort)
      (should-not agent-q-session-effort))))

(ert-deftest agent-q-facts-no-effort-of-a-model-that-does-not-think ()
  (agent-q-model-facts-test--in-chat '(:thinking nil) agent-q-model-facts-test--script
    (should-error (agent-q-set-effort 'high) :type 'user-error)))

(ert-deftest agent-q-facts-a-wrong-one-is-named ()
  (agent-q-model-facts-test--in-chat '(:prices "much") agent-q-model-facts-test--script
    (should (string-match-p
             "The provider .* (scripted) can.t be used: its :prices is not a list of prices"
             (cadr (should-error (agent-q-provider-choose #'ignore) :type 'user-error))))))

(provide 'agent-q-model-facts-test)
;;; agent-q-model-facts-test.el ends here
