;;; agent-q-programs-test.el --- Running programs of the project  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A model runs real programs in a real project: what the request shows, which rules
;; are offered, what is seen of the output meanwhile, and what programs get of Emacs.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-files)

(defun agent-q-programs-test--run (program &rest arguments)
  "Return the call that runs PROGRAM with ARGUMENTS."
  `("run_command" (program . ,program) (arguments . ,(vconcat arguments))))

(defmacro agent-q-programs-test--asked (calls &rest body)
  "Run BODY in a new chat whose model makes CALLS, and whose requests wait."
  (declare (indent 1) (debug t))
  `(let ((agent-q-test-files-answer nil))
     (agent-q-test-files-in-project ,calls ,@body)))

(ert-deftest agent-q-programs-a-rule-for-a-subcommand-covers-its-plain-options ()
  (agent-q-programs-test--asked
      (list (agent-q-programs-test--run "git" "status" "-s")
            (agent-q-programs-test--run "git" "status" "it's" "--branch")
            (agent-q-programs-test--run "git" "status" "--config-env=x"))
    (call-process "git" nil nil nil "init" "-q")
    (agent-q-test-files-write "a.txt" "x")
    (agent-q-test-send "go")
    (agent-q-test-arm)
    (should (string-match-p
             "^\\? Run a program\\?\nDangerous: runs /.*git in the project's root\n *command: git status -s\n"
             (buffer-string)))
    (agent-q-test-answer "!")
    (should (string-match-p
             "Always run `git status`, the program /[^ ]*git, with any of its plain options, in this chat\\."
             (buffer-string)))
    (agent-q-test-answer "!")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (agent-q-test-shows "run_command git status -s ✓ ?? a.txt"))
    ;; It is the model's, and marked as data.
    (should (string-match-p "program git.*\n\\?\\? a\\.txt" (agent-q-test-last-message)))
    (agent-q-test-files-succeeds "On branch ")
    (should (agent-q-test-shows "run_command git status 'it'\\''s' --branch ✓"))
    (should-not agent-q-test-files-asked)
    (agent-q-test-send "go")
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (equal 1 (length agent-q-test-files-asked)))))

(ert-deftest agent-q-programs-output-is-seen-while-they-run-and-stopping-stops-them ()
  (let ((agent-q-test-files-answer "approved"))
    (agent-q-test-files-in-project
        (list (agent-q-programs-test--run
               "sh" "-c" "echo first; echo second; while [ ! -e go ]; do sleep 0.05; done; echo last; exit 3")
              (agent-q-programs-test--run "sh" "-c" "echo $$ > pid; exec sleep 1000"))
      (agent-q-test-send "go")
      (agent-q-test-until (agent-q-test-shows ": second\n"))
      (agent-q-test-find "▸ run_command")
      (agent-q-render-toggle)
      (should (agent-q-test-shows "output so far:\nfirst\nsecond\n"))
      (agent-q-test-files-write "go" "")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (string-match-p "ended with status 3\\.\nfirst\nsecond\nlast" (cdr agent-q-test-files--result)))
      (agent-q-test-send "go")
      (let ((pid (agent-q-test-until
                  (and (file-exists-p (agent-q-test-files-path "pid"))
                       (let ((text (agent-q-test-files-text "pid")))
                         (and (string-suffix-p "\n" text) (string-to-number text)))))))
        (should (process-attributes pid))
        (goto-char (point-max))
        (call-interactively (key-binding (kbd "C-c C-k")))
        (agent-q-test-until (agent-q-test-idle-p))
        (should (eq :cancelled (car agent-q-test-files--result)))
        (agent-q-test-until
         (member (alist-get 'state (process-attributes pid)) '(nil "Z")))))))

(ert-deftest agent-q-programs-run-in-the-background ()
  "The second call ends only once the first has."
  (agent-q-test-files-in-project
      (list (list (append (agent-q-programs-test--run
                           "sh" "-c" "while [ ! -e go ]; do sleep 0.05; done; echo gone > ended")
                          '((background . t)))
                  (agent-q-programs-test--run
                   "sh" "-c" "touch go; while [ ! -e ended ]; do sleep 0.05; done; sleep 0.3")))
    (agent-q-test-ask "go")
    (let ((told (mapconcat (lambda (message) (format "%s" (gethash "content" message)))
                           (agent-q-test-last-messages) "\n")))
      (should (string-match-p "pending: run_command (call_id [0-9]+) waits for the user's consent" told))
      (should (string-match-p "run_command (call_id [0-9]+) has ended:\n<data-" told)))))

(ert-deftest agent-q-programs-alone-are-asked-about-as-programs ()
  "A tool of others that takes a command is asked about by its own name."
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "others_run" :arguments "{\"command\":\"x\"}")
    (agent-q-test-event :approval :call 1 :tool "others_run" :level "dangerous" :reason "a tool of others"
                        :arguments "{\"command\":\"x\"}")
    (should (agent-q-test-shows "Run others_run?"))))

(ert-deftest agent-q-programs-get-the-environment-of-the-chat-without-keys ()
  (let ((process-environment (append '("AQ_PLAIN=seen" "AQ_TOKEN=hidden" "AQ_ODD=a-provider's-key" "AQ_UNSET")
                                     '("AQ_UNSET=1") process-environment))
        (agent-q-providers (cons '(odd :base-url "http://127.0.0.1:1/v1" :key "a-provider's-key")
                                 agent-q-providers)))
    (agent-q-test-files-in-project
        (list (agent-q-programs-test--run
               "sh" "-c" "echo \"<$AQ_PLAIN$AQ_TOKEN$AQ_ODD$AQ_UNSET>\"; cat; test -t 0 || echo none")
              (agent-q-programs-test--run "aq-own" "x"))
      (agent-q-test-files-succeeds "<seen>\nnone")
      (let* ((folder (agent-q-test-files-path "bin/"))
             (own (agent-q-test-files-write "bin/aq-own" "#!/bin/sh\necho own $1\n")))
        (set-file-modes own #o755)
        ;; Where `exec-path' says, which may be the buffer's own.
        (setq-local exec-path (cons folder exec-path))
        (agent-q-test-files-succeeds "own x")
        (should (string-match-p "file of the project" (car agent-q-test-files-asked)))))))

(ert-deftest agent-q-programs-tell-which-known-files-they-changed ()
  (agent-q-test-files-in-project
      (list '("read_file" (path . "a.txt"))
            (agent-q-programs-test--run "sh" "-c" "echo more >> a.txt; echo x > b.txt")
            '("edit_file" (path . "a.txt") (old_str . "one") (new_str . "two")))
    (agent-q-test-files-write "a.txt" "one\n")
    (agent-q-test-files-succeeds "one")
    (agent-q-test-files-succeeds
     "It printed nothing\\.\n(Files that you know have changed: a\\.txt\\.)")
    (agent-q-test-files-succeeds "had changed since it was last read")))

(provide 'agent-q-programs-test)
;;; agent-q-programs-test.el ends here
