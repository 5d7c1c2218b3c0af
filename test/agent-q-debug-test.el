;;; agent-q-debug-test.el --- What is recorded, and what a bug report has and has not  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; On real chats, with the scripted model and with an image, through the commands.

;;; Code:

(require 'agent-q-test-tools)
(require 'agent-q-debug)
(require 'agent-q-doctor)

(defun agent-q-debug-test--lines ()
  "Return the lines that were recorded."
  (split-string (or (agent-q-debug-last-lines 1000) "") "\n" t))

(defmacro agent-q-debug-test--recorded (&rest body)
  "Evaluate BODY while `agent-q-debug' is on; return the lines that were recorded."
  (declare (indent 0) (debug t))
  `(progn
     (agent-q-debug-clear)
     (unwind-protect
         (progn (agent-q-debug 1)
                ,@body)
       (agent-q-debug 0))
     (agent-q-debug-test--lines)))

(defun agent-q-debug-test--find (regexp lines)
  "Return the first of LINES that REGEXP matches, or fail."
  (or (seq-find (lambda (line) (string-match-p regexp line)) lines)
      (ert-fail (list "No line matches" regexp lines))))

(defconst agent-q-debug-test--time "\\`[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9]\\{3\\} "
  "Matches the beginning of each line.")

;;;; Recording

(ert-deftest agent-q-debug-records-a-turn ()
  "A turn with a model and a tool leaves its calls, events, requests and answers, in one line each."
  (let ((lines (agent-q-debug-test--recorded
                 (agent-q-test-with-model
                     (agent-q-test-script '((("Look") ("list_buffers")) (() "Looked.")))
                   (agent-q-test-with-chat
                     (agent-q-test-until (agent-q-test-idle-p))
                     (agent-q-test-ask "Look"))))))
    (dolist (line lines)
      (should (string-match-p agent-q-debug-test--time line)))
    (dolist (regexp '("call +[0-9.]+ ms  open-session" "call +[0-9.]+ ms  submit .*\"Look\""
                      "call +[0-9.]+ ms  drain .*=> [1-9][0-9]* events"
                      "event +:[a-z-]+  session=[0-9]+ .*Looked\\."
                      "request +:emacs-call  session=[0-9]+ .*request=[0-9]+"
                      "answer +[0-9.]+ ms  resolve  request=[0-9]+ .*done"))
      (agent-q-debug-test--find (concat agent-q-debug-test--time regexp) lines))))

(agent-q-test-tools-on-each debug-records-calls-into-an-image ()
  "A call into an image has a line when it begins and one when it ends, with its time."
  (let ((lines (agent-q-debug-test--recorded
                 (agent-q-test-ask "/eval_form (+ 20 3)"))))
    (agent-q-debug-test--find "request +:image-call .*eval-form" lines)
    (agent-q-debug-test--find "image +eval-form  request=[0-9]+ id=[0-9]+  has [0-9.]+ s" lines)
    (agent-q-debug-test--find "end +[0-9.]+ ms  eval-form  request=[0-9]+ id=[0-9]+  done .*(\\+ 20 3)"
                              lines)))

(ert-deftest agent-q-debug-records-nothing-when-off ()
  "When it is off, nothing is recorded, and the core's functions are the core's own again."
  (agent-q-debug-test--recorded
    (agent-q-test-with-chat (agent-q-test-ask "/list_buffers")))
  (agent-q-debug-clear)
  (agent-q-test-with-chat (agent-q-test-ask "/list_buffers"))
  (should-not (agent-q-debug-test--lines))
  (should (module-function-p (symbol-function 'agent-q-core-submit)))
  (should-not (alist-get t agent-q-events-subscribers))
  (should-not agent-q-connection-call-begun-functions)
  (should-not (memq #'agent-q-debug--note-over agent-q-connection-call-ended-functions)))

(ert-deftest agent-q-debug-is-bounded ()
  "The buffer has no more lines than it may, and no text is longer than it may be; RET shows it."
  (let ((agent-q-debug-max-lines 7)
        (agent-q-debug-max-text 300))
    (let ((lines (agent-q-debug-test--recorded
                   (agent-q-test-with-chat
                     (agent-q-test-ask "/list_buffers"))
                   (agent-q-events-dispatch (list :type :notice :text (make-string 9000 ?z))))))
      (should (= 7 (length lines)))
      (should (seq-every-p (lambda (line) (< (length line) 300)) lines))
      (with-current-buffer "*agent-q debug*"
        (should (derived-mode-p 'special-mode))
        (should buffer-read-only)
        (goto-char (point-max))
        (search-backward "zzz")
        (save-window-excursion
          (agent-q-test-press "RET")
          (with-current-buffer "*agent-q debug line*"
            (should (search-forward (make-string 150 ?z) nil t))
            (should (< (buffer-size) 600))))))))

(ert-deftest agent-q-debug-lets-errors-of-the-core-through ()
  "What the core signals is recorded and signalled, and what it is given comes to it."
  (agent-q-test-with-chat
    (let ((lines (agent-q-debug-test--recorded
                   (should-error (agent-q-core-log-level "loud") :type 'agent-q-error)
                   (should (eql agent-q-module-interface (agent-q-core-interface)))
                   (agent-q-module-ensure))))
      (agent-q-debug-test--find "call +[0-9.]+ ms  log-level .*\"loud\".*failed: .*loud" lines))))

;;;; Secrets

(defmacro agent-q-debug-test--with-secrets (&rest body)
  "Evaluate BODY with secrets that begin with \"hush\" everywhere."
  (declare (indent 0) (debug t))
  `(let* ((file (make-temp-file "agent-q-authinfo" nil nil
                                "machine third.example login apikey password hush-in-authinfo\n"))
          (auth-sources (list file))
          (process-environment (append '("AGENT_Q_DEBUG_KEY=hush-environment"
                                         "SOME_SERVICE_TOKEN=hush-of-service")
                                       process-environment))
          (agent-q-providers
           '((first :base-url "http://user:hush@127.0.0.1:9/v1?key=hush&x=1" :model "one"
                    :environment "AGENT_Q_DEBUG_KEY"
                    :headers (:X-Own "hush-header" :Authorization "Bearer hush"))
             (second :base-url "http://127.0.0.1:9/v1" :model "two" :key "hush-option"
                     :body (:password "hush"))
             (third :base-url "https://third.example/v1" :model "three")
             (fourth :base-url "https://fourth.example/v1" :model "four"
                     :key ,(lambda () (error "This function is not to be called")))))
          (agent-q-provider 'second)
          (agent-q-model nil))
     (auth-source-forget-all-cached)
     (unwind-protect
         (progn ,@body)
       (auth-source-forget-all-cached)
       (delete-file file))))

(ert-deftest agent-q-debug-records-no-secrets ()
  "Neither the settings with the key of the provider nor texts that look like keys are recorded."
  (agent-q-debug-test--with-secrets
    (let ((lines (agent-q-debug-test--recorded
                   (agent-q-test-with-chat
                     (agent-q-test-until (agent-q-test-idle-p))
                     (agent-q-test-event :notice :text "Authorization: Bearer hush and hush-of-service")
                     ;; One that is cut through where the text ends that is kept, or looked at.
                     (dolist (length (list 3990 (+ 3990 4096)))
                       (agent-q-test-event :notice :text (concat (make-string length ?a)
                                                                 " hush-environment"
                                                                 (make-string 9000 ?b))))))))
      (agent-q-debug-test--find "configure .*second.*\\[masked\\]" lines)
      (with-current-buffer "*agent-q debug*"
        (should-not (string-match-p "hush" (format "%S" (buffer-string))))))))

(defun agent-q-debug-test--report ()
  "Return the text of a new bug report."
  (save-window-excursion
    (agent-q-report-bug)
    (prog1 (buffer-string)
      (kill-buffer))))

(ert-deftest agent-q-debug-report-has-no-secrets ()
  "What is secret in options, environment, auth-source, logs and recorded lines is masked."
  (agent-q-debug-test--with-secrets
    (let* ((agent-q-log-file (make-temp-file "agent-q-core" nil ".log"
                                             "WARN request: key=12 Authorization: Bearer hush
WARN {\"api_key\":\"hush\"} hush-in-authinfo hush-environment hush-of-service hush-option
INFO sk-hushhushhushhush the last line\n"))
           (text (progn
                   (cl-letf (((symbol-function 'agent-q-events-running-p) #'ignore))
                     (agent-q-module-log-line "It failed with hush-header.")
                     (agent-q-debug-test--recorded
                       (agent-q-events-dispatch '(:type :notice :text "hush-in-authinfo")))
                     (agent-q-debug-test--report)))))
      (delete-file agent-q-log-file)
      (should-not (string-match-p "hush" text))
      (dolist (part '("Please write below" "before you send it" "What I did:"
                      "key=12" "the last line" "It failed with" ":notice"
                      "agent-q-provider: second" "agent-q-providers:" ":model \"three\""))
        (should (string-match-p (regexp-quote part) text))))))

(ert-deftest agent-q-debug-report-says-what-there-is ()
  "The report has versions, the doctor's findings, and options that the user set, and no others."
  (let* ((home (make-temp-file "agent-q-home" t))
         (process-environment (cons (concat "HOME=" home) process-environment))
         (agent-q-instructions (format "Look into %s/notes and %s-else/." home home))
         (text (agent-q-debug-test--report)))
    (delete-directory home t)
    (dolist (regexp `("^agent-q +[0-9]+\\.[0-9]+\\.[0-9]+$"
                      ,(format "^Core +interface %d for .*wanted is %d" agent-q-module-interface
                               agent-q-module-interface)
                      ,(concat "^Emacs +" (regexp-quote emacs-version))
                      "^SLY " "^SLIME " "^Lisp " "^ok +Emacs "
                      ,(format "agent-q-instructions: \"Look into ~/notes and %s-else/\\.\""
                               (regexp-quote home))))
      (should (string-match-p regexp text)))
    (should-not (string-match-p "agent-q-max-iterations:" text))))

(agent-q-test-tools-on-each debug-report-names-connected-lisps ()
  "The report names each connected Lisp with its version."
  (should (string-match-p (format "^Lisp +.*: SBCL [0-9.]+.* through %s$" (upcase (symbol-name client)))
                          (agent-q-debug-test--report))))

(ert-deftest agent-q-debug-report-takes-no-core ()
  "Neither a core nor a Lisp client is needed, and none is loaded."
  (with-temp-buffer
    (should (eql 0 (call-process (expand-file-name invocation-name invocation-directory)
                                 nil '(t nil) nil "-Q" "--batch"
                                 "-L" (file-name-directory (locate-library "agent-q-module"))
                                 "--eval" (format "%S" '(progn (require 'agent-q-module)
                                                               (agent-q-report-bug)
                                                               (princ (buffer-string))
                                                               (princ (agent-q-module-loaded-p))
                                                               (princ (process-list)))))))
    (goto-char (point-min))
    (should (search-forward "; not loaded\n" nil t))
    (should (search-forward "none connected" nil t))
    (goto-char (point-max))
    (should (looking-back "nilnil" (point-min)))))

(ert-deftest agent-q-debug-doctor-links-both-commands ()
  "The doctor's page has a button for each of the two commands, which calls it."
  (save-window-excursion
    (agent-q-doctor)
    (unwind-protect
        (progn
          (agent-q-test-find "agent-q-debug")
          (push-button)
          (should agent-q-debug))
      (agent-q-debug 0))
    (set-buffer "*agent-q doctor*")
    (agent-q-test-find "agent-q-report-bug")
    (push-button)
    (should (get-buffer "*agent-q bug report*"))
    (kill-buffer "*agent-q bug report*")))

(provide 'agent-q-debug-test)
;;; agent-q-debug-test.el ends here
