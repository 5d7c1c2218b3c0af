;;; agent-q-context-usage-test.el --- Long conversations, and steering a turn  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Summaries that take the place of a long conversation for the model, what fills its
;; window, and messages that are put into a running turn: on the real core, with the
;; scripted server as a model.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)
(require 'agent-q-chat-commands)

(defun agent-q-context-usage-test--script (&rest turns)
  "Return a script of TURNS, each the text of an answer or a list of steps."
  (json-serialize
   `((turns . ,(vconcat (mapcar (lambda (turn)
                                  `((steps . ,(if (stringp turn) `[((text . ,turn))]
                                                (vconcat turn)))))
                                turns))))))

(defun agent-q-context-usage-test--last-request ()
  "Return the text of the last request that the scripted server got."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (goto-char (point-max))
    (forward-line -1)
    (buffer-substring-no-properties (point) (point-max))))

(ert-deftest agent-q-window-a-summary-is-shown-and-undone ()
  (agent-q-test-with-model
      (agent-q-context-usage-test--script (make-string 6000 ?x) (make-string 6000 ?y)
                                          "NOTES on x and y." "Hello." "Hello again.")
    (agent-q-test-with-chat
      (agent-q-test-ask "one")
      (agent-q-test-ask "two")
      (let ((log (agent-q-test-log)))
        (agent-q-compact)
        (agent-q-test-until (agent-q-test-shows "[Undo the summary]"))
        (agent-q-test-until (agent-q-test-idle-p))
        (should (string-prefix-p log (agent-q-test-log))))
      (should-not (agent-q-test-shows "NOTES"))
      (agent-q-test-find "Summarized ")
      (agent-q-test-press "TAB")
      (should (agent-q-test-shows "NOTES on x and y."))
      (agent-q-test-ask "three")
      (should (string-search "NOTES on x and y" (agent-q-context-usage-test--last-request)))
      (agent-q-test-find "[Undo the summary]")
      (agent-q-test-press "RET")
      (agent-q-test-until (agent-q-test-shows "The summary is undone: the model reads the messages themselves again."))
      (should-not (button-at (agent-q-test-find "[Undo the summary]")))
      (agent-q-test-ask "four")
      (let ((request (agent-q-context-usage-test--last-request)))
        (should-not (string-match-p "NOTES on x and y" request))
        (should (string-match-p (make-string 200 ?x) request))))))

(ert-deftest agent-q-window-a-summary-can-be-cancelled ()
  (agent-q-test-with-model
      (agent-q-context-usage-test--script (make-string 6000 ?x) (make-string 6000 ?y)
                                          '(((stall . t))))
    (agent-q-test-with-chat
      (agent-q-test-ask "one")
      (agent-q-test-ask "two")
      (agent-q-compact)
      (agent-q-test-until (eq agent-q-chat-view-header-state :summarizing))
      (agent-q-test-until (string-match-p "Summarizing" (agent-q-chat-view-header-line)))
      (agent-q-chat-send-cancel)
      (agent-q-test-until (agent-q-test-shows "Cancelled."))
      (should (agent-q-test-idle-p)))))

(ert-deftest agent-q-window-the-echo-area-tells-of-no-summary-that-is-over ()
  "Nor of one that was refused."
  (agent-q-test-with-model (agent-q-context-usage-test--script "Hello.")
    (agent-q-test-with-chat
      ;; Batch Emacs has no echo area.
      (let ((shown nil))
        (cl-letf (((symbol-function 'message)
                   (lambda (text &rest arguments)
                     (setq shown (and text (apply #'format-message text arguments)))))
                  ((symbol-function 'current-message) (lambda () shown)))
          (agent-q-compact)
          (should (string-match-p "summarizes" shown))
          (agent-q-test-until (agent-q-test-shows "There is nothing to summarize yet."))
          (agent-q-test-until (null shown)))))))

(ert-deftest agent-q-window-what-fills-it-is-shown ()
  (agent-q-test-with-model
      (agent-q-context-usage-test--script '(((text . "Hello.")) ((usage . [4000 10]))))
    (let ((agent-q-context-window 8000))
      (agent-q-test-with-chat
        (agent-q-test-ask "one")
        (should (string-match-p "50% of 8000" (agent-q-chat-view-header-line)))
        (agent-q-context-usage)
        (agent-q-test-until (get-buffer "*agent-q window*"))
        (unwind-protect
            (with-current-buffer "*agent-q window*"
              (dolist (line '("of the 8,000 that it can take (50%)\\."
                              "^Older messages are summarized beyond 6,400 "
                              "^ +Count +Tokens  Share$"
                              "^System prompt +1 +[0-9,]+  #+$"
                              "^Tools +[0-9]+ +[0-9,]+  #+$"
                              "^Your messages +1 "
                              "^The largest +Turn +Tokens  Begins with$"
                              "^your message +#1 +[0-9,]+  .*one"))
                (goto-char (point-min))
                (should (re-search-forward line nil t))))
          (kill-buffer "*agent-q window*"))))))

(ert-deftest agent-q-window-a-message-is-put-into-the-running-turn ()
  (agent-q-test-with-tools
      ((agent-q-test-tool "t_run" (lambda (_) "It ran.") :safety-level :dangerous))
    (agent-q-test-with-model
        (agent-q-context-usage-test--script
         '(((tool_calls . [((name . "t_run") (arguments . ((text . "1"))))])))
         "Done." "More.")
      (agent-q-test-with-chat
        (agent-q-test-send "go")
        (agent-q-test-arm)
        (cl-flet ((steer (text)
                    (goto-char (point-max))
                    (insert text)
                    (agent-q-test-press "M-RET"))
                  (shown () (or (overlay-get agent-q-chat-send--queue-overlay 'after-string) "")))
          (steer "use bytes")
          (steer "and not this")
          (should (equal (agent-q-prompt-text) ""))
          (should (string-match-p "Next step: use bytes\nNext step: and not this\n" (shown)))
          (cl-letf (((symbol-function 'completing-read)
                     (lambda (_ choices &rest _) (car (cadr choices)))))
            (agent-q-chat-send-queue-edit t))
          (should-not (string-match-p "and not this" (shown)))
          (agent-q-test-answer "y")
          (agent-q-test-until (agent-q-test-idle-p))
          (should (string-match-p "> use bytes\n\nDone\\.\n\\'" (agent-q-test-log)))
          (should (string-empty-p (shown)))
          (let ((request (agent-q-context-usage-test--last-request)))
            (should (string-match-p "use bytes" request))
            (should-not (string-match-p "and not this" request)))
          ;; Where nothing runs, it is a message as any other.
          (steer "more")
          (agent-q-test-until (agent-q-test-idle-p))
          (should (string-suffix-p "> more\n\nMore.\n" (agent-q-test-log))))))))

(provide 'agent-q-context-usage-test)
;;; agent-q-context-usage-test.el ends here
