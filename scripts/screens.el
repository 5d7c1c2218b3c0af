;;; screens.el --- The session of which screens.sh takes pictures  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Plays a session and takes a picture of each of its parts.  Most are events as the core sends
;; them, through the same door; the edit is of a real turn, with a script for the model.

;;; Code:

(let ((root (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))))
  (push (expand-file-name "lisp" root) load-path)
  (load (expand-file-name "scripts/lisp-ide.el" root) nil t))
(require 'agent-q-module)
(require 'agent-q)
(require 'cl-lib)
(require 'json)
(require 'seq)

(defvar agent-q-provider)
(defvar agent-q-log-file)
(declare-function agent-q-chat "agent-q-chat")
(declare-function agent-q-chat-send "agent-q-chat-send")
(declare-function agent-q-chat-handle "agent-q-chat")
(declare-function agent-q-code-highlight-flush "agent-q-code-highlight")
(declare-function agent-q-audit-log "agent-q-audit")
(declare-function agent-q-call-waiting "agent-q-call")
(declare-function agent-q-prompt-replace "agent-q-prompt")
(declare-function agent-q-tutorial "agent-q-tutorial")
(declare-function agent-q-review-place-visit "agent-q-review-place")
(declare-function agent-q-connection-connections "agent-q-connection")
(declare-function agent-q-connection-ask "agent-q-connection")
(declare-function agent-q-ide-find "lisp-ide")
(declare-function agent-q-ide-use "lisp-ide")
(defvar inferior-lisp-program)

(defconst agent-q-screens--scratch (getenv "SCREENS_SCRATCH")
  "The folder of the pictures, and of all that the session writes.")

(defconst agent-q-screens--project "~/bank/"
  "The folder of the project, in the session's own home.")

(defun agent-q-screens--await (what test)
  "Wait until the function TEST returns non-nil, and return that.
An error names WHAT was awaited."
  (let ((tries 600) (found nil))
    (while (not (setq found (funcall test)))
      (when (zerop (setq tries (1- tries)))
        (error "This did not come: %s" what))
      (accept-process-output nil 0.05))
    found))

(defun agent-q-screens--event (type &rest properties)
  "Hand an event of TYPE with PROPERTIES to this chat."
  (agent-q-chat-handle `(:type ,type ,@properties)))

(defun agent-q-screens--neutral ()
  "Let no window show where the home of this session is."
  (dolist (window (window-list))
    (with-current-buffer (window-buffer window)
      (save-excursion
        (goto-char (point-min))
        (while (search-forward (expand-file-name "~/") nil t)
          (overlay-put (make-overlay (match-beginning 0) (point)) 'display "~/"))))))

(defun agent-q-screens--take (name)
  "Take a picture called NAME."
  (let ((file (expand-file-name (format "%s-%s.png" name
                                        (if (equal (getenv "SCREENS_THEME") "modus-vivendi")
                                            "dark" "light"))
                                agent-q-screens--scratch)))
    (message nil)
    ;; What is drawn when nothing is typed, and the window's first map, come before.
    (sit-for 1)
    (agent-q-screens--neutral)
    (redisplay t)
    (unless (zerop (call-process "import" nil nil nil "-window"
                                 (frame-parameter nil 'outer-window-id) file))
      (error "No picture was taken"))))

(defconst agent-q-screens--answer
  "`transfer` takes the money **before** it looks whether the other account exists, \
so an unknown name loses it.  Look at both first:

```lisp
(defun transfer (amount from to)
  \"Move AMOUNT from the account called FROM to the one called TO.\"
  (let ((source (find-account from))
        (target (find-account to)))
    (withdraw source amount)
    (deposit target amount)))
```

| Call | Before | After |
|---|---|---:|
| `(transfer 5 :ann :bob)` | works | works |
| `(transfer 5 :ann :bib)` | ~~5 are lost~~ | NO-SUCH-ACCOUNT |

1. `find-account` signals, so nothing moves.
2. The test in `test/ledger.lisp:14` covers it.
"
  "An answer.")

(defun agent-q-screens--answer ()
  "Show a question and its answer."
  (agent-q-screens--event :turn-started :turn 1 :text "Why is money lost in transfers to unknown accounts?")
  (agent-q-screens--event :call-proposed :call 1 :tool "find_definition" :arguments "{\"name\":\"bank:transfer\"}")
  (agent-q-screens--event :call-finished :call 1 :outcome :succeeded :milliseconds 12
                          :content "(DEFUN BANK:TRANSFER) src/ledger.lisp:31")
  (agent-q-screens--event :text :text agent-q-screens--answer)
  (agent-q-screens--event :turn-ended :outcome :finished)
  (agent-q-code-highlight-flush)
  ;; Names are looked up meanwhile.
  (sit-for 2)
  (agent-q-screens--take "answer"))

(defun agent-q-screens--request ()
  "Show a request."
  (agent-q-screens--event :turn-started :turn 2 :text "Which revision is this?")
  (agent-q-screens--event :text :text "I ask git for it.\n")
  (agent-q-screens--event :call-proposed :call 2 :tool "eval_form"
                          :arguments "{\"form\":\"(uiop:run-program \\\"git describe\\\" :output :string)\"}")
  (agent-q-screens--event :approval :call 2 :tool "eval_form" :level "dangerous"
                          :reason "runs programs: UIOP:RUN-PROGRAM in (uiop:run-program \"git describe\" :output :string)"
                          :arguments "{\"form\":\"(uiop:run-program \\\"git describe\\\" :output :string)\"}")
  (goto-char (point-max))
  (agent-q-screens--take "request")
  (agent-q-screens--event :call-finished :call 2 :outcome :succeeded :content "v1.4" :milliseconds 9)
  (agent-q-screens--event :turn-ended :outcome :finished))

(defconst agent-q-screens--package
  "(defpackage #:bank (:use #:cl) (:export #:transfer #:balance #:find-account))\n"
  "The file of the package.")

(defconst agent-q-screens--file
  (concat "(in-package #:bank)\n\n"
          "(defun transfer (amount from to)\n"
          "  \"Move AMOUNT from the account called FROM to the one called TO.\"\n"
          "  (withdraw (find-account from) amount)\n"
          "  (deposit (find-account to) amount))\n")
  "The file that is edited.")

(defun agent-q-screens--start-lisp ()
  "Start a Lisp that has the project loaded."
  (let ((client (or (seq-find #'agent-q-ide-find '(sly slime))
                    (error "Neither SLY nor SLIME was found"))))
    (agent-q-ide-use client)
    (require 'agent-q-connection)
    (setq inferior-lisp-program "sbcl --no-userinit --no-sysinit")
    (set (intern (format "%s-kill-without-query-p" client)) t)
    (funcall client)
    (let ((connection (agent-q-screens--await
                       "the Lisp" (lambda () (car (agent-q-connection-connections)))))
          (loaded nil))
      (agent-q-connection-ask
       connection :rex
       `(cl:progn ,@(mapcar (lambda (file) `(cl:load ,(expand-file-name file)))
                            '("package.lisp" "ledger.lisp"))
                  (cl:eval (cl:read-from-string
                            "(progn (defun bank:find-account (name) name) (defun bank::withdraw (account amount) (list account amount)) (defun bank::deposit (account amount) (list account amount)))")))
       t (lambda (_result) (setq loaded t)))
      (agent-q-screens--await "the project" (lambda () loaded))
      ;; The REPL shows itself a little later.
      (sit-for 1))))

(defun agent-q-screens--script ()
  "Return the script of a model that edits the file."
  (json-encode
   `((turns
      . [((steps
           . [((text . "I look at both accounts first."))
              ((tool_calls
                . [((name . "propose_file_edit")
                    (arguments
                     . ((path . "ledger.lisp")
                        (original . ,agent-q-screens--file)
                        (modified . ,(replace-regexp-in-string
                                      "  (withdraw .*\n.*\n"
                                      (concat "  (let ((source (find-account from))\n"
                                              "        (target (find-account to)))\n"
                                              "    (withdraw source amount)\n"
                                              "    (deposit target amount)))\n")
                                      agent-q-screens--file t t))
                        (description . "both accounts first"))))]))]))]))))

(defun agent-q-screens--review ()
  "Return the window of a review, or nil."
  (seq-find (lambda (window)
              (with-current-buffer (window-buffer window) (derived-mode-p 'agent-q-review-mode)))
            (window-list)))

(defun agent-q-screens--edit ()
  "Show an edit under review, in a chat whose model is a script."
  (with-temp-file "../script.json" (insert (agent-q-screens--script)))
  (let* ((output (generate-new-buffer " *scripted server*"))
         (server (make-process :name "scripted server" :buffer output :noquery t
                               :command (list (getenv "SCREENS_SERVER")
                                              (expand-file-name "../script.json")))))
    (unwind-protect
        (let* ((address (agent-q-screens--await
                         "the server"
                         (lambda ()
                           (with-current-buffer output
                             (goto-char (point-min))
                             (and (re-search-forward "listening on \\(.+\\)" nil t)
                                  (match-string 1))))))
               (agent-q-provider `(:name "example" :base-url ,(format "http://%s/v1" address)
                                         :model "a-model")))
          (agent-q-chat t)
          (delete-other-windows)
          (insert "Don't lose money in transfers.")
          (agent-q-chat-send)
          (let ((review (window-buffer
                         (agent-q-screens--await "the review" (lambda () (agent-q-screens--review))))))
            (agent-q-screens--take "edit")
            (agent-q-review-place-visit review))
          (delete-other-windows)
          (agent-q-screens--take "place"))
      (delete-process server))))

(defun agent-q-screens--list ()
  "Show the audit log."
  (with-temp-file (expand-file-name "audit.jsonl" agent-q-screens--scratch)
    (cl-loop for (time tool level decision by outcome form) in
             '(("09:12:41" "eval_form" "cautious" "not_needed" "policy" "succeeded" "(bank:balance :ann)")
               ("09:13:02" "eval_form" "dangerous" "approved" "user" "succeeded" "(uiop:run-program \\\"git describe\\\")")
               ("09:13:30" "eval_form" "dangerous" "denied" "user" "denied" "(delete-file \\\"ledger.db\\\")")
               ("09:14:11" "compile_form" "cautious" "not_needed" "policy" "failed" "(defun transfer (amount from to")
               ("09:15:27" "run_tests" "cautious" "approved" "rule" "succeeded" "bank/test"))
             do (insert (format "{\"time\":\"2026-05-04T%sZ\",\"chat\":1,\"tool\":%S,\"level\":%S,\"decision\":%S,\"decided_by\":%S,\"step\":\"finished\",\"outcome\":%S,\"milliseconds\":12,\"arguments\":{\"form\":\"%s\"}}\n"
                                time tool level decision by outcome form))))
  (agent-q-audit-log)
  (delete-other-windows)
  (agent-q-screens--take "list"))

(defun agent-q-screens--send (text end)
  "Send TEXT in the tour's chat and wait for END, a function that returns non-nil."
  (agent-q-prompt-replace text)
  (agent-q-chat-send)
  (agent-q-screens--await text end))

(defun agent-q-screens--session ()
  "Show a part of the tour: all but the words of the model is real."
  (cl-letf (((symbol-function 'read-directory-name) (lambda (&rest _) "~/agent-q-tour/")))
    (agent-q-tutorial))
  (delete-other-windows)
  (agent-q-screens--await "the tour's project"
                          (lambda () (not (string-search "being loaded"
                                                         (with-current-buffer "*agent-q tour*" (buffer-string))))))
  (agent-q-screens--send "Move 100 from Ann to Bob."
                         (lambda () (string-search "That is a real bug" (buffer-string))))
  (sit-for 1)
  (delete-other-windows)
  (agent-q-screens--send "Fix transfer." #'agent-q-call-waiting)
  (sit-for 1)
  ;; The guide's window is one that the others leave alone.
  (mapc #'delete-window (delq (selected-window) (window-list)))
  (goto-char (point-max))
  (agent-q-screens--take "session"))

(defun agent-q-screens ()
  "Play the session, and leave Emacs."
  (make-directory agent-q-screens--project t)
  ;; Nothing is sent there.
  (setq agent-q-provider '(:name "example" :base-url "http://127.0.0.1:9/v1" :model "a-model")
        agent-q-log-file (expand-file-name "core.log" agent-q-screens--scratch)
        inhibit-startup-screen t
        use-dialog-box nil
        default-directory agent-q-screens--project)
  (with-temp-file "package.lisp" (insert agent-q-screens--package))
  (with-temp-file "ledger.lisp" (insert agent-q-screens--file))
  ;; An Emacs without windows, which compiles this, has none of them.
  (dolist (mode '(tool-bar-mode menu-bar-mode scroll-bar-mode))
    (funcall mode -1))
  (blink-cursor-mode -1)
  (set-frame-font "DejaVu Sans Mono-10" nil t)
  (set-frame-position nil 0 0)
  (set-frame-size nil 980 740 t)
  (load-theme (intern (getenv "SCREENS_THEME")) t)
  (agent-q-screens--start-lisp)
  (agent-q-chat)
  (delete-other-windows)
  (agent-q-screens--answer)
  (agent-q-screens--request)
  (agent-q-screens--edit)
  (agent-q-screens--list)
  (agent-q-screens--session)
  (let ((confirm-kill-emacs nil) (kill-emacs-query-functions nil))
    (kill-emacs 0)))

(add-hook 'window-setup-hook
          (lambda ()
            (condition-case failure (agent-q-screens)
              (error (message "%S" failure)
                     (princ (format "%S\n" failure) #'external-debugging-output)
                     (kill-emacs 1)))))

;;; screens.el ends here
