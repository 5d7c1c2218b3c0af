;;; agent-q-echo-test.el --- What the agent evaluates shows in the REPL  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The real REPLs of SLIME and SLY, with half an expression at the prompt, while
;; the agent evaluates and compiles.

;;; Code:

(require 'agent-q-test-tools)

(defun agent-q-echo-test--input-start ()
  "Return where the input begins in the current REPL."
  (marker-position (if (derived-mode-p 'sly-mrepl-mode)
                       (process-mark (get-buffer-process (current-buffer)))
                     (symbol-value 'slime-repl-input-start-mark))))

(defun agent-q-echo-test--input ()
  "Return what is typed at the prompt of the current REPL."
  (buffer-substring-no-properties (agent-q-echo-test--input-start) (point-max)))

(defun agent-q-echo-test--prompt ()
  "Return the line of the prompt in the current REPL, up to the input."
  (save-excursion
    (goto-char (agent-q-echo-test--input-start))
    (buffer-substring-no-properties
     (let ((inhibit-field-text-motion t)) (line-beginning-position)) (point))))

(defun agent-q-echo-test--history ()
  "Return the inputs that the current REPL remembers, latest first."
  (mapcar #'substring-no-properties
          (if (derived-mode-p 'sly-mrepl-mode)
              (ring-elements (symbol-value 'comint-input-ring))
            (symbol-value 'slime-repl-input-history))))

(defun agent-q-echo-test--send (text)
  "Have TEXT evaluated at the prompt of the current REPL."
  (goto-char (point-max))
  (insert text)
  (call-interactively (key-binding (kbd "RET"))))

(defun agent-q-echo-test--above-prompt ()
  "Return the text above the prompt of the current REPL."
  (buffer-substring-no-properties
   (point-min) (- (agent-q-echo-test--input-start) (length (agent-q-echo-test--prompt)))))

(defmacro agent-q-echo-test--in-repl (client &rest body)
  "Run BODY in the REPL of CLIENT, with its prompt there and nothing typed."
  (declare (indent 1) (debug t))
  `(save-window-excursion
     (switch-to-buffer (agent-q-test-tools-repl ,client))
     (agent-q-test-until (string-match-p "CL-USER> \\'" (buffer-string)) "the prompt")
     (goto-char (point-max))
     (unwind-protect
         (progn ,@body)
       (goto-char (point-max))
       (delete-region (agent-q-echo-test--input-start) (point-max)))))

(agent-q-test-tools-on-each echo-is-above-the-prompt ()
  "Forms and values stand above the prompt as comments; input and history are untouched."
  (let ((agent-q-echo-evaluations t))
    (agent-q-echo-test--in-repl client
      (agent-q-echo-test--send "(list :aq-before 1)")
      (agent-q-test-until (string-match-p "(:AQ-BEFORE 1)\n\\(?:.*\n\\)*CL-USER> \\'" (buffer-string)))
      (goto-char (point-max))
      (let ((history (agent-q-echo-test--history))
            (prompt (agent-q-echo-test--prompt)))
        (insert "(+ 40")
        (undo-boundary)
        (insert " 1")
        (undo-boundary)
        (backward-char 2)
        (let* ((read nil)
               (note (lambda (text) (push text read))))
          (advice-add 'agent-q-connection-reply-read :before note)
          (unwind-protect
              (agent-q-test-tools-ask
               "/eval_form (values 1 \"two\")\n(defun aq-echoed (x)\n  (list x))" chat)
            (advice-remove 'agent-q-connection-reply-read note))
          ;; The history of the image has read it, too.
          (should (= 1 (cl-count-if (lambda (text) (string-match-p ":values (\"AQ-ECHOED\")" text)) read))))
        (should (string-suffix-p "; agent-q> (values 1 \"two\")
; agent-q=> 1
; agent-q=> \"two\"
; agent-q> (defun aq-echoed (x)
;            (list x))
; agent-q=> AQ-ECHOED
" (agent-q-echo-test--above-prompt)))
        (agent-q-test-tools-ask "/compile_form package=cl-user (defun aq-echoed (x) (list y))" chat)
        (should (string-suffix-p "
; agent-q CL-USER compiles> (defun aq-echoed (x) (list y))
; agent-q=> compiled, 2 notes
" (agent-q-echo-test--above-prompt)))
        (agent-q-test-tools-ask "/eval_form (princ 1) (error \"no ~a\" :luck) (aq-never)" chat)
        (should (string-suffix-p "
; agent-q> (princ 1)
; agent-q=> 1
; agent-q> (error \"no ~a\" :luck)
; agent-q=> SIMPLE-ERROR: no LUCK
" (agent-q-echo-test--above-prompt)))
        (agent-q-test-tools-ask "/eval_form timeout=0.1 (loop)" chat)
        (should (string-suffix-p "\n; agent-q> (loop)\n; agent-q=> stopped before its end\n"
                                 (agent-q-echo-test--above-prompt)))
        ;; What only looks is not echoed.
        (agent-q-test-tools-ask "/describe_symbol car" chat)
        (should (string-suffix-p "; agent-q=> stopped before its end\n"
                                 (agent-q-echo-test--above-prompt)))
        ;; The user goes on where they were.
        (should (equal "(+ 40 1" (agent-q-echo-test--input)))
        (should (equal prompt (agent-q-echo-test--prompt)))
        (should (looking-at-p " 1\\'"))
        (should (equal history (agent-q-echo-test--history)))
        (let ((last-command 'ignore))
          (undo 1))
        (should (equal "(+ 40" (agent-q-echo-test--input)))
        (agent-q-echo-test--send " 2)")
        (agent-q-test-until (string-match-p "CL-USER> (\\+ 40 2)\n42\\b" (buffer-string)))
        (should (equal "(+ 40 2)" (string-trim (car (agent-q-echo-test--history)))))
        (should (equal history (cdr (agent-q-echo-test--history))))
        (agent-q-test-until (string-suffix-p "CL-USER> " (buffer-string)))))))

(agent-q-test-tools-on-each echo-is-an-option ()
  "Without the option, the REPL shows nothing of the agent's."
  (agent-q-echo-test--in-repl client
    (let ((before (buffer-string)))
      (agent-q-test-tools-ask "/eval_form (princ :aq-unseen)" chat)
      (should (equal before (buffer-string))))))

(agent-q-test-tools-on-each echo-while-the-repl-is-busy ()
  "While the user's own form runs, the echo stands among what it prints."
  (let ((agent-q-echo-evaluations t))
    (agent-q-echo-test--in-repl client
      (agent-q-test-image-values connection "(defparameter *aq-go* nil)")
      (agent-q-echo-test--send
       "(progn (princ \"aq-begun\") (finish-output) (loop until *aq-go* do (sleep 0.01)) :aq-done)")
      (agent-q-test-until (string-match-p "\naq-begun" (buffer-string)))
      (agent-q-test-tools-ask "/eval_form (setf *aq-go* :go)" chat)
      (agent-q-test-until (string-match-p "\n:AQ-DONE\n\\(?:.*\n\\)*CL-USER> \\'" (buffer-string)))
      (should (string-match-p "^; agent-q> (setf \\*aq-go\\* :go)\n; agent-q=> :GO$"
                              (buffer-string))))))

(ert-deftest agent-q-echo-is-offered-once-and-remembered ()
  (let ((agent-q-echo-evaluations 'ask) (agent-q-image-history--echo-offer nil) (saved nil))
    (agent-q-test-with-chat
      (dolist (operation '("describe-symbol" "eval-form" "eval-form"))
        (agent-q-image-history-echo-call (agent-q-connection-call-make :operation operation) "done" nil)
        (agent-q-test-event :turn-ended :outcome :finished))
      (should (= 2 (length (split-string (agent-q-test-log) "Show what the agent"))))
      (cl-letf (((symbol-function 'customize-save-variable)
                 (lambda (&rest arguments) (setq saved arguments))))
        (agent-q-test-find "[Show it]")
        (push-button))
      (should (equal '(agent-q-echo-evaluations t) saved))
      (should-not (agent-q-test-shows "Show what the agent")))))

(ert-deftest agent-q-echo-is-offered-until-the-next-turn ()
  "The log is about what was done, not about what was never answered."
  (let ((agent-q-echo-evaluations 'ask) (agent-q-image-history--echo-offer nil))
    (agent-q-test-with-chat
      (agent-q-image-history-echo-call (agent-q-connection-call-make :operation "eval-form") "done" nil)
      (agent-q-test-event :turn-ended :outcome :finished)
      (should (agent-q-test-shows "Show what the agent"))
      (agent-q-test-event :turn-started :turn 2 :text "Go on")
      (should-not (string-match-p "Show what\\|Show it\\|Don't" (agent-q-test-log)))
      (should (string-match-p "^> Go on" (agent-q-test-log))))))

(provide 'agent-q-echo-test)
;;; agent-q-echo-test.el ends here
