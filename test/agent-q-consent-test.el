;;; agent-q-consent-test.el --- Tests of approval, levels, hooks and records  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Who decides whether a tool runs, and what is told and kept of its calls.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defvar agent-q-consent-test--ran nil
  "The arguments with which the dangerous tool of a test ran, latest first.")

(defun agent-q-consent-test--erase ()
  "Return a dangerous tool that only notes its argument."
  (agent-q-define-tool "t_erase" "Erase something."
                       '((:name "text" :type :string :description "What"))
                       :required '("text") :safety-level :dangerous
                       :handler (lambda (arguments)
                                  (push (gethash "text" arguments)
                                        agent-q-consent-test--ran)
                                  "erased")))

(defmacro agent-q-consent-test--with-handler (handler &rest body)
  "Run BODY with the dangerous tool and HANDLER, which approves its calls."
  (declare (indent 1) (debug t))
  `(let ((agent-q-consent-test--ran nil)
         (agent-q-approval-handler ,handler))
     (agent-q-test-with-tools ((agent-q-consent-test--erase))
       ,@body)))

(defun agent-q-consent-test--answer (answer)
  "Return what comes of a dangerous call when the approval handler returns ANSWER.
It is the content, whether it succeeded, the metadata, and what the tool got."
  (agent-q-consent-test--with-handler (lambda (_tool _arguments) answer)
    (let ((result (agent-q-test-call "t_erase" '(:text "disk"))))
      (list (agent-q-tool-result-content result)
            (agent-q-tool-result-success result)
            (gethash "approved" (agent-q-tool-result-metadata result))
            agent-q-consent-test--ran))))

;;;; Approval

(ert-deftest agent-q-consent-nothing-dangerous-runs-without-a-handler ()
  (agent-q-consent-test--with-handler nil
    (let ((result (agent-q-test-call "t_erase" '(:text "disk"))))
      (should (string-match-p "approval" (agent-q-tool-result-error result)))
      (should (eq (gethash "approved" (agent-q-tool-result-metadata result)) :false)))
    (should-not agent-q-consent-test--ran)))

(ert-deftest agent-q-consent-the-handlers-answers ()
  (should (equal (agent-q-consent-test--answer :approved) '("erased" t t ("disk"))))
  (should (equal (agent-q-consent-test--answer :denied)
                 '("User denied tool execution" nil :false nil)))
  (should (equal (agent-q-consent-test--answer '(:denied "not that one"))
                 '("User denied tool execution: not that one" nil :false nil)))
  (should (equal (agent-q-consent-test--answer '(:modified (:text "file")))
                 '("erased" t t ("file"))))
  (should (equal (agent-q-consent-test--answer '(:modified "{\"text\":\"file\"}"))
                 '("erased" t t ("file")))))

(ert-deftest agent-q-consent-without-an-answer-nothing-runs ()
  (dolist (answer `(nil t approved "approved" (:approved) :modified (:modified)
                        (:modified nil extra) (:modified 7) (:modified "nonsense")
                        (:denied 7) (:modified ,(current-buffer)) ,(make-hash-table)))
    (pcase-let ((`(,content ,success ,approved ,ran)
                 (agent-q-consent-test--answer answer)))
      ;; The user didn't say no.
      (should (string-match-p "\\`The approval handler.*so the tool was not run\\.\\'" content))
      (should-not success)
      (should (eq approved :false))
      (should-not ran))))

(ert-deftest agent-q-consent-modified-arguments-are-validated-anew ()
  (pcase-let ((`(,content ,success ,approved ,ran)
               (agent-q-consent-test--answer '(:modified (:text 7)))))
    (should (string-match-p "Field must be a string" content))
    (should-not success)
    (should (eq approved :false))
    (should-not ran))
  (pcase-let ((`(,content ,_ ,_ ,ran) (agent-q-consent-test--answer '(:modified nil))))
    (should (string-match-p "Missing required field: text" content))
    (should-not ran))
  (pcase-let ((`(,content ,_ ,approved ,ran)
               (agent-q-consent-test--answer
                '(:modified "{\"text\":123456789012345678901234567890}"))))
    (should (string-match-p "arguments can't be used (" content))
    (should (eq approved :false))
    (should-not ran)))

(ert-deftest agent-q-consent-with-a-handler-that-fails-nothing-runs ()
  (agent-q-consent-test--with-handler (lambda (_tool _arguments) (error "Broken"))
    (should (equal (agent-q-test-error "t_erase" '(:text "disk"))
                   "The approval handler failed (Broken), so the tool was not run.")))
  (dolist (handler (list (lambda (_tool _arguments) (throw 'agent-q-consent-test 1))
                         (lambda () :approved)
                         'agent-q-consent-test-no-function))
    (agent-q-consent-test--with-handler handler
      (should (string-match-p "\\`The approval handler failed.*so the tool was not run"
                              (agent-q-test-error "t_erase" '(:text "disk"))))
      (should-not agent-q-consent-test--ran)))
  (agent-q-consent-test--with-handler (lambda (_tool _arguments) (signal 'quit nil))
    (let ((results nil))
      (agent-q-execute-tool-calls '((:name "t_erase" :arguments (:text "disk")))
                                  (lambda (them) (setq results them)))
      (agent-q-test-until results)
      (should (string-match-p "\\`The user quit" (agent-q-tool-result-error (car results)))))))

(ert-deftest agent-q-consent-the-handler-gets-tool-and-arguments ()
  (let ((got nil))
    (agent-q-consent-test--with-handler (lambda (tool arguments)
                                          (setq got (list tool arguments))
                                          :denied)
      (let ((tool (agent-q-get-tool "t_erase")))
        (agent-q-test-call "t_erase" '(:text "disk"))
        (should (eq (car got) tool))
        (should (equal (gethash "text" (cadr got)) "disk"))))))

(ert-deftest agent-q-consent-a-handler-may-answer-later ()
  (agent-q-consent-test--with-handler
      (lambda (_tool _arguments answer)
        (run-at-time 0.01 nil (lambda ()
                                (funcall answer '(:modified (:text "later")))
                                (funcall answer :denied)))
        :denied)
    (should (equal (agent-q-test-content "t_erase" '(:text "disk")) "erased"))
    (should (equal agent-q-consent-test--ran '("later"))))
  (agent-q-consent-test--with-handler (lambda (_tool _arguments _answer) (error "No"))
    (should (string-match-p "handler failed" (agent-q-test-error "t_erase" '(:text "x"))))))

(ert-deftest agent-q-consent-safe-and-cautious-calls-are-not-asked-about ()
  (let ((agent-q-approval-handler (lambda (_tool _arguments) (ert-fail "asked"))))
    (agent-q-test-with-tools ((agent-q-test-tool "t_safe" (lambda (_) "ran"))
                              (agent-q-test-tool "t_cautious" (lambda (_) "ran")
                                                 :safety-level :cautious))
      (should (equal (agent-q-test-content "t_safe" nil) "ran"))
      (should (equal (agent-q-test-content "t_cautious" nil) "ran")))))

(ert-deftest agent-q-consent-the-handler-answers-for-chats-too ()
  (agent-q-consent-test--with-handler (lambda (_tool _arguments) '(:denied "by rule"))
    (agent-q-test-with-chat
      (agent-q-test-ask "/t_erase disk")
      (should (string-match-p "t_erase disk denied" (agent-q-test-log)))
      (should-not agent-q-consent-test--ran))))

;;;; Levels

(ert-deftest agent-q-consent-the-users-levels-count ()
  (agent-q-consent-test--with-handler nil
    (agent-q-test-with-tools ((agent-q-test-tool "t_safe" (lambda (_) "ran")))
      (let ((agent-q-tool-levels '(("t_erase" . :safe) ("t_safe" . dangerous))))
        (should (eq (agent-q-tool-safety-level (agent-q-get-tool "t_erase")) :safe))
        (should (eq (agent-q-tool-own-level (agent-q-get-tool "t_erase")) :dangerous))
        (should (equal (agent-q-test-content "t_erase" '(:text "disk")) "erased"))
        (should (string-match-p "approval" (agent-q-test-error "t_safe" nil)))
        (should (memq (agent-q-get-tool "t_erase")
                      (agent-q-get-tools :max-safety-level :safe))))
      (should (string-match-p "approval" (agent-q-test-error "t_erase" '(:text "disk"))))
      (should (equal (agent-q-test-content "t_safe" nil) "ran")))))

(ert-deftest agent-q-consent-levels-can-be-customized ()
  (unwind-protect
      (agent-q-test-with-tools ((agent-q-test-tool "t_safe" (lambda (_) "ran")))
        (customize-set-variable 'agent-q-tool-levels '(("t_safe" . :moderate)))
        (should (equal (plist-get (seq-find (lambda (tool)
                                              (equal (plist-get tool :name) "t_safe"))
                                            (agent-q-core-tools))
                                  :level)
                       "cautious"))
        (should-error (customize-set-variable 'agent-q-tool-levels '(("t_safe" . :mild)))
                      :type 'agent-q-invalid-tool)
        (should (equal agent-q-tool-levels '(("t_safe" . :moderate)))))
    (customize-set-variable 'agent-q-tool-levels nil)))

;;;; Hooks

(defmacro agent-q-consent-test--with-hook (hook &rest body)
  "Run BODY with HOOK called for each call, and return what it was called with."
  (declare (indent 1) (debug t))
  `(let* ((seen nil)
          (agent-q-tool-execution-hooks
           (list (lambda (&rest arguments)
                   (push arguments seen)
                   (apply ,hook arguments))
                 ;; The others are called all the same.
                 (lambda (&rest _) (push 'second seen)))))
     ,@body
     (nreverse seen)))

(ert-deftest agent-q-consent-hooks-see-each-call-once-before-and-after ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_ok" (lambda (_) "fine"))
                            (agent-q-test-tool "t_fail" (lambda (_) (error "No"))))
    (let ((seen (agent-q-consent-test--with-hook #'ignore
                  (agent-q-test-call "t_ok" '(:text "x")))))
      (should (equal (mapcar #'car-safe seen) '(:before nil :after nil)))
      (pcase-let ((`((:before ,tool ,arguments nil) ,_ (:after ,tool ,_ ,result) ,_) seen))
        (should (eq tool (agent-q-get-tool "t_ok")))
        (should (equal (gethash "text" arguments) "x"))
        (should (equal (agent-q-tool-result-content result) "fine"))))
    (let ((seen (agent-q-consent-test--with-hook #'ignore
                  (agent-q-test-call "t_fail"))))
      (should (equal (mapcar #'car-safe seen) '(:before nil :error nil)))
      (should (equal (agent-q-tool-result-error (nth 3 (nth 2 seen))) "Tool error: No")))
    ;; What never ran is nothing that hooks are called for.
    (should-not (agent-q-consent-test--with-hook #'ignore
                  (agent-q-test-call "nonexistent")
                  (agent-q-test-call "t_ok" '(:text 1))))))

(ert-deftest agent-q-consent-hooks-that-fail-change-nothing ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_ok" (lambda (_) "fine")))
    (dolist (hook (list (lambda (&rest _) (error "A bad hook"))
                        (lambda (&rest _) (signal 'quit nil))
                        (lambda (&rest _) (throw 'agent-q-consent-test 1))))
      (let ((seen (agent-q-consent-test--with-hook hook
                    (should (equal (agent-q-test-content "t_ok" nil) "fine")))))
        (should (equal (mapcar #'car-safe seen) '(:before nil :after nil)))))
    (with-current-buffer "*agent-q-log*"
      (goto-char (point-min))
      (should (search-forward "A bad hook" nil t)))))

(ert-deftest agent-q-consent-hooks-run-before-the-handler-and-in-chats ()
  (let ((order nil))
    (agent-q-test-with-tools ((agent-q-test-tool "t_ok" (lambda (_) (push 'run order) "fine")))
      (let ((agent-q-tool-execution-hooks
             (list (lambda (phase &rest _) (push phase order)))))
        (agent-q-test-with-chat
          (agent-q-test-ask "/t_ok hello")
          (agent-q-test-until (= (length order) 3))
          (should (equal (reverse order) '(:before run :after))))))))

;;;; What is kept

(ert-deftest agent-q-consent-statistics-count-each-tool ()
  (agent-q-test-with-tools
      ((agent-q-test-tool "t_counted" (lambda (arguments)
                                        (if (gethash "text" arguments) "1234"
                                          (error "No")))
                          :safety-level :dangerous))
    (let ((agent-q-approval-handler (lambda (_tool _arguments) :approved)))
      (agent-q-test-call "t_counted" '(:text "x"))
      (agent-q-test-call "t_counted" '(:text "y"))
      (agent-q-test-call "t_counted"))
    (let ((agent-q-approval-handler (lambda (_tool _arguments) :denied)))
      (agent-q-test-call "t_counted"))
    (let ((row (seq-find (lambda (row) (equal (plist-get row :tool) "t_counted"))
                         (agent-q-tool-statistics-data))))
      (should (equal (plist-get row :calls) 4))
      (should (equal (plist-get row :failures) 1))
      (should (equal (plist-get row :denials) 1))
      (should (equal (plist-get row :cancellations) 0))
      (should (equal (plist-get row :library) nil))
      (should (<= 0 (plist-get row :median) (plist-get row :p95)))
      (should (= (plist-get row :result-bytes)
                 (+ 8 (length "Tool error: No") (length "User denied tool execution")))))))

(ert-deftest agent-q-consent-only-calls-that-ran-have-times ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_untimed" (lambda (_) "x")
                                               :safety-level :dangerous))
    (agent-q-test-call "t_untimed")
    (let ((agent-q-approval-handler (lambda (_tool _arguments) '(:modified (:text 7)))))
      (agent-q-test-call "t_untimed"))
    (let ((row (seq-find (lambda (row) (equal (plist-get row :tool) "t_untimed"))
                         (agent-q-tool-statistics-data))))
      (should (equal (plist-get row :calls) 2))
      (should (equal (plist-get row :failures) 2))
      (should (equal (plist-get row :median) nil)))))

(defun agent-q-consent-test--steps (tool)
  "Return what the audit log has of TOOL, first one first, as lists."
  (mapcar (lambda (record)
            (mapcar (lambda (key) (gethash key record))
                    '("step" "level" "decision" "outcome")))
          (seq-filter (lambda (record) (equal (gethash "tool" record) tool))
                      (reverse (agent-q-audit-records)))))

(ert-deftest agent-q-consent-the-audit-log-has-what-can-do-harm ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_audit_safe" (lambda (_) "x"))
                            (agent-q-test-tool "t_audit" (lambda (_)
                                                           ;; Logged before it runs.
                                                           (should (agent-q-consent-test--steps
                                                                    "t_audit"))
                                                           "x")
                                               :safety-level :cautious)
                            (agent-q-test-tool "t_audit_ask" (lambda (_) (error "No"))
                                               :safety-level :dangerous))
    (agent-q-test-call "t_audit_safe")
    (agent-q-test-content "t_audit" '(:text "λ\nx"))
    (let ((agent-q-approval-handler (lambda (_tool _arguments) '(:modified (:text "b")))))
      (agent-q-test-call "t_audit_ask" '(:text "a")))
    (let ((agent-q-approval-handler (lambda (_tool _arguments) :denied)))
      (agent-q-test-call "t_audit_ask" '(:text "a")))
    (agent-q-test-call "t_audit_ask")
    (should-not (agent-q-consent-test--steps "t_audit_safe"))
    (should (equal (agent-q-consent-test--steps "t_audit")
                   '(("started" "cautious" "not_needed" nil)
                     ("finished" "cautious" "not_needed" "succeeded"))))
    (should (equal (agent-q-consent-test--steps "t_audit_ask")
                   '(("started" "dangerous" "modified" nil)
                     ("finished" "dangerous" "modified" "failed")
                     ("finished" "dangerous" "denied" "denied")
                     ("finished" "dangerous" "unavailable" "failed"))))
    (let ((record (seq-find (lambda (record) (equal (gethash "tool" record) "t_audit"))
                            (agent-q-audit-records))))
      (should (equal (gethash "text" (gethash "arguments" record)) "λ\nx"))
      (should (string-match-p "\\`[0-9]\\{4\\}-[0-9][0-9]-[0-9][0-9]T.*Z\\'"
                              (gethash "time" record))))
    (should (= #o600 (logand #o777 (file-modes (agent-q-audit-file)))))
    (should (equal (file-truename (agent-q-audit-file))
                   (file-truename (plist-get (agent-q-core-status) :audit-file))))))

(ert-deftest agent-q-consent-the-audit-log-tells-who-did-not-decide ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_audit_un" (lambda (_) "x")
                                               :safety-level :dangerous))
    ;; A handler that never answers.
    (let* ((agent-q-approval-handler #'agent-q-consent-test--ignore)
           (result (car (agent-q-execute-tool-calls-sync
                         '((:name "t_audit_un" :arguments (:text "a"))) 0.05))))
      (should (equal (agent-q-tool-result-error result)
                     "The call was stopped or did not run: it gave no result within 0.05 seconds."))
      (should (eq (gethash "approved" (agent-q-tool-result-metadata result)) :false)))
    (let ((agent-q-approval-handler (lambda (_tool _arguments) '(:modified (:text 7)))))
      (agent-q-test-call "t_audit_un" '(:text "a")))
    (let ((agent-q-approval-handler (lambda (_tool _arguments) (error "Broken"))))
      (agent-q-test-call "t_audit_un" '(:text "a")))
    (should (equal (agent-q-consent-test--steps "t_audit_un")
                   '(("finished" "dangerous" "unanswered" "cancelled")
                     ("finished" "dangerous" "unfit" "failed")
                     ("finished" "dangerous" "unanswered" "denied"))))
    (should (equal (mapcar (lambda (record)
                             (list (gethash "decided_by" record)
                                   (gethash "text" (gethash "arguments" record))))
                           (seq-filter (lambda (record)
                                         (equal (gethash "tool" record) "t_audit_un"))
                                       (reverse (agent-q-audit-records))))
                   '(("nobody" "a") ("handler" 7) ("nobody" "a"))))))

(defun agent-q-consent-test--ignore (_tool _arguments _answer)
  "An approval handler that never answers.")

(provide 'agent-q-consent-test)
;;; agent-q-consent-test.el ends here
