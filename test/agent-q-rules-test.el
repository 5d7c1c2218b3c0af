;;; agent-q-rules-test.el --- Tests of rules for tool calls  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Rules through the list, the prompt and the pipeline, on the real core.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)
(require 'agent-q-rules)

(defvar agent-q-rules-test--ran nil
  "The arguments with which the dangerous tool of a test ran, latest first.")

(defmacro agent-q-rules-test--with-tool (&rest body)
  "Run BODY with a dangerous tool, t_erase, and without rules."
  (declare (indent 0) (debug t))
  `(let ((agent-q-rules-test--ran nil)
         (agent-q-approval-handler nil))
     (agent-q-test-with-tools
         ((agent-q-test-tool "t_erase"
                             (lambda (arguments)
                               (push (gethash "text" arguments) agent-q-rules-test--ran)
                               "erased")
                             :safety-level :dangerous))
       (unwind-protect
           (progn ,@body)
         (seq-doseq (rule (gethash "rules" (agent-q-rules-all)))
           (agent-q-core-revoke-rule (gethash "id" rule)))))))

(defun agent-q-rules-test--exactly (text &rest more)
  "Return a rule for dangerous calls of t_erase with TEXT, changed by MORE."
  (append more
          `(:effect "allow" :tool "t_erase" :scope (:for "always") :dangerous t
            :arguments [(:name "text" :pattern (:equals ,text))])))

(defun agent-q-rules-test--last ()
  "Return decision, decider and rule of the last line of the audit log."
  (let ((record (car (agent-q-audit-records))))
    (list (gethash "decision" record) (gethash "decided_by" record)
          (gethash "rule" record))))

(ert-deftest agent-q-rules-one-written-for-exactly-that-lets-a-call-run ()
  (agent-q-rules-test--with-tool
    (agent-q-rules-add (agent-q-rules-test--exactly "disk"))
    (should (equal (agent-q-test-content "t_erase" '(:text "disk")) "erased"))
    (should (equal agent-q-rules-test--ran '("disk")))
    (let ((id (gethash "id" (aref (gethash "rules" (agent-q-rules-all)) 0))))
      (should (equal (agent-q-rules-test--last) (list "by_rule" "rule" id))))
    (should (string-match-p "approval" (agent-q-test-error "t_erase" '(:text "tape"))))))

(ert-deftest agent-q-rules-an-empty-list-says-how-to-add-one ()
  (agent-q-rules-test--with-tool
    (save-window-excursion
      (agent-q-rules)
      (with-current-buffer "*agent-q rules*"
        (dotimes (_ 2)
          (should (agent-q-test-shows "No rules yet; the level of each tool decides."))
          (should (agent-q-test-shows "a adds one, and so does ! on a request"))
          (agent-q-test-press "g"))
        (agent-q-rules-add (agent-q-rules-test--exactly "disk"))
        (agent-q-test-press "g")
        (should-not (agent-q-test-shows "No rules yet"))
        (should (agent-q-test-shows "t_erase"))
        ;; One for a chat is in memory alone, and has a number of its own kind.
        (agent-q-rules-add '(:effect "deny" :tool "t_other" :scope (:for "chat" :which 4711)))
        (cl-letf (((symbol-function 'agent-q-text--list-width) (lambda () 120)))
          (agent-q-text--list-refit))
        (goto-char (point-min))
        (should (re-search-forward "^c[0-9]+ +deny +t_other" nil t))
        (kill-buffer)))))

(ert-deftest agent-q-rules-deny-wins-and-the-model-reads-which ()
  (agent-q-rules-test--with-tool
    (agent-q-rules-add (agent-q-rules-test--exactly "disk"))
    (agent-q-rules-add '(:effect "deny" :tool "t_*" :scope (:for "always")))
    (should (string-match-p "Deny t_\\*, always\\."
                            (agent-q-test-error "t_erase" '(:text "disk"))))
    (should-not agent-q-rules-test--ran)
    (should (equal (cadr (agent-q-rules-test--last)) "rule"))))

(ert-deftest agent-q-rules-the-floor-needs-the-users-own-words ()
  (agent-q-rules-test--with-tool
    (agent-q-rules-add '(:effect "allow" :tool "*" :scope (:for "always")))
    (should (string-match-p "approval" (agent-q-test-error "t_erase" '(:text "disk"))))
    (should-error (agent-q-rules-add '(:effect "allow" :tool "*" :dangerous t
                                       :scope (:for "always")))
                  :type 'agent-q-error)
    (should (= 1 (length (gethash "rules" (agent-q-rules-all)))))))

(ert-deftest agent-q-rules-a-handlers-decision-is-logged-as-its-own ()
  (agent-q-rules-test--with-tool
    (let ((agent-q-approval-handler (lambda (_tool _arguments) :approved)))
      (agent-q-test-content "t_erase" '(:text "disk")))
    (should (equal (cadr (agent-q-rules-test--last)) "handler"))))

(ert-deftest agent-q-rules-the-list-shows-and-revokes ()
  (agent-q-rules-test--with-tool
    (agent-q-rules-add (agent-q-rules-test--exactly "disk"))
    (save-window-excursion
      (cl-letf (((symbol-function 'agent-q-text--list-width) (lambda () 100)))
        (agent-q-rules))
      (should (string-match-p "^1 +allow +t_erase +always +yes +text = \"disk\", always, even when dangerous\\.$"
                              (buffer-string)))
      (goto-char (point-min))
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (_prompt) t)))
        (agent-q-rules-revoke))
      (should-not (agent-q-test-shows "t_erase"))
      (should-error (agent-q-rules-describe) :type 'user-error))
    (should (equal (gethash "rules" (agent-q-rules-all)) []))
    (should (string-match-p "approval" (agent-q-test-error "t_erase" '(:text "disk"))))))

(ert-deftest agent-q-rules-a-narrow-list-keeps-room-for-what-a-rule-applies-to ()
  (agent-q-rules-test--with-tool
    (save-window-excursion
      (cl-letf (((symbol-function 'agent-q-text--list-width) (lambda () 40)))
        (agent-q-rules)
        (should (agent-q-test-shows "No rules yet; the level of each tool\ndecides."))
        (agent-q-rules-add (agent-q-rules-test--exactly "disk"))
        (agent-q-rules--refresh))
      (cl-letf (((symbol-function 'agent-q-text--list-width) (lambda () 80)))
        (agent-q-text--list-refit)
        (should (string-match-p "^allow +t_erase +always +text = \"disk\", always, even when dangerous\\.$"
                                (buffer-string)))
        (should (equal (mapcar #'car tabulated-list-format)
                       '("Effect" "Tool" "Scope" "Applies to"))))
      (kill-buffer))))

(ert-deftest agent-q-rules-what-would-happen-can-be-asked-without-doing-it ()
  (agent-q-rules-test--with-tool
    (should (equal (gethash "outcome" (agent-q-rules-explain "t_erase" '(:text "disk"))) "ask"))
    (agent-q-rules-add (agent-q-rules-test--exactly "disk"))
    (let ((it (agent-q-rules-explain "t_erase" '(:text "disk"))))
      (should (equal (gethash "outcome" it) "run"))
      (should (string-match-p "\\`Rule [0-9]+: Allow" (gethash "reason" it))))
    (should-not agent-q-rules-test--ran)
    (should-error (agent-q-rules-explain "t_erase" '(:text 1)) :type 'agent-q-error)))

(ert-deftest agent-q-rules-lasting-ones-are-private-and-readable ()
  (agent-q-rules-test--with-tool
    (agent-q-rules-add (agent-q-rules-test--exactly "λ"))
    (let ((file (gethash "file" (agent-q-rules-all))))
      (should (equal (file-name-directory file)
                     (file-name-directory (agent-q-audit-file))))
      (should (= #o600 (logand #o777 (file-modes file))))
      (should (with-temp-buffer
                (insert-file-contents file)
                (search-forward "\"equals\": \"λ\"" nil t))))))

(ert-deftest agent-q-rules-nothing-that-files-bring-along-grants ()
  (dolist (option '(agent-q-approval-handler agent-q-tool-levels agent-q-review-edits agent-q-project-root
                    agent-q-log-file agent-q-offered-tools agent-q-eval-policy
                    agent-q-private-files agent-q-tool-libraries agent-q-module-directory
                    agent-q-provider agent-q-providers agent-q-model))
    (should (risky-local-variable-p option))
    (should-not (safe-local-variable-p option nil))))

;;;; The prompt

(ert-deftest agent-q-rules-a-rule-is-shown-before-it-is-taken ()
  (agent-q-rules-test--with-tool
    (agent-q-test-with-chat
      (agent-q-test-send "/t_erase disk")
      (agent-q-test-answer "!")
      ;; The first key shows what the rule would match; nothing is decided.
      (should (string-match-p "Always run exactly this call, in this chat\\."
                              (agent-q-test-log)))
      (should (equal (gethash "rules" (agent-q-rules-all)) []))
      ;; What came up under the key is not taken by typing ahead.
      (should-error (agent-q-test-press "!") :type 'user-error)
      (agent-q-test-answer "!")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal agent-q-rules-test--ran '("disk")))
      ;; The same again asks no more, another one does.
      (agent-q-test-ask "/t_erase disk")
      (should (equal agent-q-rules-test--ran '("disk" "disk")))
      (agent-q-test-send "/t_erase tape")
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p)))
    ;; The rule went with its chat.
    (agent-q-test-with-chat
      (agent-q-test-send "/t_erase disk")
      (agent-q-test-answer "n")
      (agent-q-test-until (agent-q-test-idle-p)))
    (should (equal agent-q-rules-test--ran '("disk" "disk")))))

(ert-deftest agent-q-rules-a-rule-settles-what-else-waits-and-nothing-more ()
  (agent-q-rules-test--with-tool
    (agent-q-test-with-model
        (agent-q-json-encode
         `(:turns [(:steps [(:tool_calls
                             [(:name "t_erase" :arguments (:text "disk"))
                              (:name "t_erase" :arguments (:text "tape"))
                              (:name "t_erase" :arguments (:text "disk"))
                              (:name "t_erase" :arguments (:text "drum"))])])
                   (:steps [(:text "Done.")])]))
      (agent-q-test-with-chat
        (agent-q-test-send "erase")
        (agent-q-test-until (= 4 (length (agent-q-call-all-waiting))))
        (agent-q-test-answer "!")
        (agent-q-test-answer "!")
        ;; The third is like the first; the second and the fourth still wait.
        (agent-q-test-until (= 2 (length (agent-q-call-all-waiting))))
        (should (agent-q-test-shows "allowed by a rule"))
        (agent-q-rules-add '(:effect "deny" :tool "t_erase" :scope (:for "always")
                             :arguments [(:name "text" :pattern (:equals "drum"))]))
        (agent-q-test-until (= 1 (length (agent-q-call-all-waiting))))
        (agent-q-test-answer "n")
        (agent-q-test-until (agent-q-test-idle-p))
        (should (equal agent-q-rules-test--ran '("disk" "disk")))
        (should (string-match-p "denied by a rule\\|A user rule denies"
                                (mapconcat #'agent-q-call-content
                                           (hash-table-values agent-q-call-table) "\n")))
        (should (equal (sort (mapcar (lambda (call) (symbol-name (agent-q-call-state call)))
                                     (hash-table-values agent-q-call-table))
                             #'string<)
                       '("denied" "denied" "succeeded" "succeeded")))))))

(ert-deftest agent-q-rules-what-is-always-denied-is-not-offered ()
  (agent-q-rules-test--with-tool
    (agent-q-test-with-model "{\"turns\": [{\"steps\": [{\"text\": \"1\"}]}, {\"steps\": [{\"text\": \"2\"}]}]}"
      (agent-q-test-with-chat
        (let ((offered (lambda ()
                         (agent-q-test-send "go")
                         (agent-q-test-until (agent-q-test-idle-p))
                         (with-temp-buffer
                           (insert-file-contents agent-q-test-requests)
                           (goto-char (point-max))
                           (forward-line -1)
                           (search-forward "t_erase" nil t)))))
          (should (funcall offered))
          (agent-q-rules-add '(:effect "deny" :tool "t_*" :scope (:for "always")))
          (should-not (funcall offered)))))))

(ert-deftest agent-q-rules-one-for-the-project-outlives-the-chat ()
  (agent-q-rules-test--with-tool
    (agent-q-test-with-chat
      (agent-q-test-send "/t_erase disk")
      (agent-q-test-answer "!")
      ;; Another key shows another rule instead of taking the first.
      (agent-q-test-answer "P")
      (should (string-match-p "in the project /" (agent-q-test-log)))
      (agent-q-test-answer "P")
      (agent-q-test-until (agent-q-test-idle-p)))
    (agent-q-test-with-chat
      (agent-q-test-ask "/t_erase disk"))
    (should (equal agent-q-rules-test--ran '("disk" "disk")))
    (let ((default-directory "/"))
      (agent-q-test-with-chat
        (agent-q-test-send "/t_erase disk")
        (agent-q-test-answer "n")
        (agent-q-test-until (agent-q-test-idle-p))))
    (should (= 1 (length (gethash "rules" (agent-q-rules-all)))))))

(provide 'agent-q-rules-test)
;;; agent-q-rules-test.el ends here
