;;; agent-q-activity-test.el --- What the tools tell about the past  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a user does in real SLIME and SLY, asked for through the core from a
;; chat; and the user's place in a buffer and in the REPL.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-image-history)

(defun agent-q-activity-test--input (client text)
  "Evaluate TEXT at the REPL of CLIENT, as its user does."
  (with-current-buffer (agent-q-test-tools-repl client)
    (agent-q-test-until (string-match-p "> \\'" (buffer-string)) "a prompt")
    (goto-char (point-max))
    (insert text)
    (pcase client
      ('sly (call-interactively 'sly-mrepl-return))
      ('slime (call-interactively 'slime-repl-return)))))

(defun agent-q-activity-test--await (client text)
  "Wait until the REPL of CLIENT shows TEXT."
  (agent-q-test-until (with-current-buffer (agent-q-test-tools-repl client)
                        (save-excursion (goto-char (point-min))
                                        (search-forward text nil t)))
                      text))

(agent-q-test-tools-on-each history-of-both ()
  "The history has the user's inputs and ours, oldest first, with values."
  (agent-q-image-history-forget)
  (should (string-match-p "No REPL history available"
                          (agent-q-test-tools-ask "/get_repl_history")))
  (agent-q-activity-test--input client "(list :typed 4711)")
  (agent-q-activity-test--await client "(:TYPED 4711)")
  (agent-q-test-tools-client-call client "interactive-eval" "(+ 1 4711)")
  (agent-q-test-until (agent-q-image-history-evaluation-values
                       (car (agent-q-image-history-evaluations nil))))
  (agent-q-test-tools-ask "/eval_form (list :ours 1)")
  (let ((told (agent-q-test-tools-ask "/get_repl_history")))
    (should (string-match-p
             (concat "\\`\\[the user, at the REPL\\(?:, in [A-Z-]+\\)?\\] (list :typed 4711)\n"
                     "=> (:TYPED 4711)\n"
                     "\\[the user, by a command.*\\] (\\+ 1 4711)\n=> 4712.*\n"
                     "\\[you, by eval_form\\] (list :ours 1)\n=> (:OURS 1)\\'")
             told)))
  (should (string-match-p "\\`\\[you, by eval_form\\].*\n=> (:OURS 1)\n(2 earlier"
                          (agent-q-test-tools-ask "/get_repl_history 1"))))

(ert-deftest agent-q-history-keeps-a-hundred ()
  (agent-q-image-history-forget)
  (dotimes (number 103)
    (agent-q-image-history-see 'slime 'process `(:emacs-rex (swank:interactive-eval
                                                             ,(format "(f %d)" number))
                                                            "CL-USER" t ,#'ignore)))
  (let ((all (agent-q-image-history-evaluations 'process)))
    (should (= 100 (length all)))
    (should (equal "(f 102)" (agent-q-image-history-evaluation-form (car all))))
    (should (equal "(f 3)" (agent-q-image-history-evaluation-form (car (last all))))))
  (agent-q-image-history-forget))

(agent-q-test-tools-on-each history-last-error-of-the-user ()
  "The user's error is told while it is open, and after it was left."
  (agent-q-image-history-forget)
  (should (string-match-p "No error" (agent-q-test-tools-ask "/get_last_error")))
  (agent-q-activity-test--input client "(defun aq-broken (x) (1+ (/ x 0)))")
  (agent-q-activity-test--await client "AQ-BROKEN")
  (agent-q-activity-test--input client "(list (aq-broken 17))")
  (agent-q-test-until (agent-q-test-image-debuggers))
  (let ((told (agent-q-test-tools-ask "/get_last_error")))
    (should (string-match-p "\\`Signalled for the user, at the REPL, [0-9]+ s ago:\nDIVISION-BY-ZERO: arithmetic error" told))
    (should (string-match-p "^Form: (list (aq-broken 17))$" told))
    (should (string-match-p "^Restarts: .*ABORT (" told))
    (should (string-match-p "^  (AQ-BROKEN 17)" told))
    (should (string-match-p "debugger u[0-9]+" told))
    (should-not (string-match-p "SWANK\\|SLYNK" (replace-regexp-in-string "^Restarts.*" "" told))))
  (agent-q-test-tools-quit-debuggers client)
  (let ((told (agent-q-test-tools-ask "/get_last_error")))
    (should (string-match-p "AQ-BROKEN 17" told))
    (should-not (string-match-p "debugger u" told)))
  (agent-q-test-tools-ask "/eval_form (error \"no ~a\" :luck)")
  (let ((told (agent-q-test-tools-ask "/get_last_error")))
    (should (string-match-p "\\`Signalled for you, by eval_form" told))
    (should (string-match-p "SIMPLE-ERROR: no LUCK" told))
    (should (string-match-p "^Form: (error \"no ~a\" :luck)" told))))

(agent-q-test-tools-on-each history-last-error-of-a-thread ()
  "The error of a thread that a call started is the last one, and one answer tells of it."
  (agent-q-image-history-forget)
  ;; Nobody watches what the user does, as when a program calls the tools.
  (agent-q-image-history-record-stop)
  (unwind-protect
      (let ((answers (list (agent-q-test-tools-ask "/eval_form (car 5)")
                           (agent-q-test-tools-ask "/eval_form (progn (sb-thread:make-thread (lambda () (error \"newer in thread\")) :name \"aq-worker\") 1)"))))
        (agent-q-test-until (agent-q-test-image-debuggers))
        (let ((told (agent-q-test-tools-ask "/get_last_error")))
          (should (string-match-p "\\`Signalled in the thread aq-worker, [0-9]+ s ago:\nSIMPLE-ERROR: newer in thread" told))
          (should (string-match-p "debugger u[0-9]+" told)))
        ;; The debugger may open before or after the answer to the call that began the thread.
        (dotimes (_ 2) (push (agent-q-test-tools-ask "/eval_form (+ 1 2)") answers))
        (should (equal '(1) (mapcar #'length
                                    (list (seq-filter
                                           (lambda (it)
                                             (string-match-p "^(A debugger opened: u[0-9]+, SIMPLE-ERROR: newer in thread" it))
                                           answers))))))
    (agent-q-image-history-record-start)
    (agent-q-test-tools-quit-debuggers client)))

(agent-q-test-tools-on-each history-compilation-notes-of-the-user ()
  "What the compiler said to the user is told with its places."
  (agent-q-image-history-forget)
  (should (string-match-p "Nothing was compiled"
                          (agent-q-test-tools-ask "/get_compilation_notes")))
  (with-temp-buffer
    (rename-buffer "aq-source.lisp" t)
    (lisp-mode)
    (insert "\n\n(defun aq-noted (x)\n  (list aq-unknown))\n")
    (goto-char (- (point-max) 5))
    (agent-q-test-tools-client-call client "compile-defun")
    (agent-q-test-until (agent-q-image-history-last-compilation nil))
    (let ((told (agent-q-test-tools-ask "/get_compilation_notes" chat)))
      (should (string-match-p "\\`Compiled by the user, .*: (defun aq-noted" told))
      (should (string-match-p "^warning at aq-source.lisp:4: undefined variable: .*AQ-UNKNOWN" told))
      (should (string-match-p "^style-warning at aq-source.lisp:3: .*X" told)))))

(agent-q-test-tools-on-each history-stages-a-form ()
  "A form is put at the prompt and not run, in place of the one before.
What the user typed, or made of it, is left alone."
  (agent-q-test-tools-repl client)
  (agent-q-test-tools-ask "/stage_at_repl (defvar *aq-staged* 1)")
  (with-current-buffer (agent-q-test-tools-repl client)
    (should (string-match-p "> (defvar \\*aq-staged\\* 1)\\'" (buffer-string)))
    (should (equal '("NIL") (agent-q-test-image-values connection "(boundp '*aq-staged*)")))
    (agent-q-test-tools-ask "/stage_at_repl (defvar *aq-staged* 2)" chat)
    (should (string-match-p "> (defvar \\*aq-staged\\* 2)\\'" (buffer-string)))
    (goto-char (point-max))
    (insert " 3")
    (should (string-match-p "typed something"
                            (agent-q-test-tools-ask "/stage_at_repl (car 5)" chat)))
    (should (string-match-p "2) 3\\'" (buffer-string)))
    (delete-region (- (point-max) (length "(defvar *aq-staged* 2) 3")) (point-max))))

(agent-q-test-tools-on-each history-a-key-puts-code-at-the-prompt-and-goes-there ()
  "It is not run."
  (let ((repl (agent-q-test-tools-repl client)))
    (save-window-excursion
      (switch-to-buffer chat)
      (agent-q-render-text "Here:\n\n```lisp\n(+ 1 2)\n```\n")
      (agent-q-render-finish)
      (goto-char (point-max))
      (agent-q-test-press "C-c C-y")
      (should (eq repl (window-buffer))))
    (with-current-buffer repl
      (should (string-suffix-p "> (+ 1 2)" (buffer-string)))
      (delete-region (- (point-max) (length "(+ 1 2)")) (point-max)))))

(ert-deftest agent-q-history-form-at-point ()
  (agent-q-test-with-chat
    (let ((file (make-temp-file (expand-file-name "aq" agent-q-test-directory) nil ".lisp"
                                "(in-package #:aq-one)\n\n(defun one ()\n  (list 1\n    two))\n\n")))
      (with-current-buffer (find-file-noselect file)
        (search-forward "two")
        (backward-char)
        (save-window-excursion
          (switch-to-buffer (current-buffer))
          (let ((told (agent-q-test-tools-ask "/form_at_point" chat)))
            (should (string-match-p (concat (regexp-quote file)
                                            ", line 3; cursor in line 5 at two; package AQ-ONE\n"
                                            "(defun one ()\n  (list 1\n    two))\\'")
                                    told)))
          (goto-char (point-max))
          (should (string-match-p "No form at the cursor in .*, line 7"
                                  (agent-q-test-tools-ask "/form_at_point" chat))))
        (kill-buffer)))))

(ert-deftest agent-q-history-an-operation-always-answers ()
  (let ((answers nil))
    (cl-letf (((symbol-function 'agent-q-events-resolve)
               (lambda (&rest answer) (push answer answers))))
      (agent-q-events-operation-run '(:request 1 :operation "no-such" :arguments "{}") nil nil)
      (agent-q-events-operation-run '(:request 2 :operation "stage-at-repl"
                                      :arguments "{\"form\":\"1\"}")
                                    nil nil)
      (agent-q-test-until (= 2 (length answers))))
    (should (equal '("signalled" "signalled") (mapcar #'cadr answers)))
    (should (string-match-p "no-such" (nth 2 (assq 1 answers))))
    (should (string-match-p "No Lisp image is connected" (nth 2 (assq 2 answers))))))

(provide 'agent-q-activity-test)
;;; agent-q-activity-test.el ends here
