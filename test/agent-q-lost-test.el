;;; agent-q-lost-test.el --- Nothing that was typed or chosen is lost  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Drafts, edits of arguments, chosen hunks and questions, when the user goes elsewhere in
;; the middle or presses a key that means something else there.

;;; Code:

(require 'agent-q-test-chats)
(require 'agent-q-test-files)
(require 'agent-q-test-registry)
(require 'agent-q-approval)
(require 'agent-q-ask)
(require 'agent-q-chat)
(require 'agent-q-code)
(require 'agent-q-chat-send)
(require 'agent-q-review)
(require 'agent-q-activity)
(require 'agent-q-chat-commands)

;;;; Messages

(ert-deftest agent-q-lost-a-message-in-a-buffer-outlives-its-chat ()
  (agent-q-test-with-chat
    (rename-buffer "*agent-q: lost*")
    (insert "half")
    (agent-q-compose)
    (insert " more")
    (let ((message (current-buffer)))
      (kill-buffer chat)
      (agent-q-test-with-chat
        (rename-buffer "*agent-q: lost*")
        (insert "new")
        (agent-q-compose)
        (should (eq message (current-buffer)))
        (should (equal (buffer-string) "half more\nnew"))
        (agent-q-test-press "C-c C-k")
        (should (eq chat (current-buffer)))
        (should (equal (agent-q-prompt-text) "half more\nnew"))))))

(ert-deftest agent-q-lost-a-message-without-a-chat-can-be-yanked ()
  (let ((kill-ring nil))
    (agent-q-test-with-chat
      (insert "half")
      (agent-q-compose)
      (kill-buffer chat)
      (kill-buffer)
      (should (equal (current-kill 0) "half")))))

(ert-deftest agent-q-lost-searching-keeps-what-is-at-the-prompt ()
  (agent-q-test-with-chat
    (setq agent-q-prompt--history (list "the latest" "please compute" "the latest"))
    (insert "a draft")
    (cl-letf (((symbol-function 'completing-read)
               (lambda (_prompt table &rest more)
                 (should (equal (all-completions "" table)
                                '("the latest" "please compute")))
                 (should (equal (completion-all-completions "comp" table nil 4)
                                (completion-all-completions "please" table nil 6)))
                 ;; RET alone.
                 (nth 4 more))))
      (call-interactively #'agent-q-prompt-search))
    (should (equal (agent-q-prompt-text) "the latest"))
    (agent-q-prompt-previous 1)
    (should (equal (agent-q-prompt-text) "a draft"))))

(ert-deftest agent-q-lost-what-is-asked-from-a-buffer-is-an-earlier-message ()
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"Yes.\"}]}],\"repeat_last\":true}"
    (agent-q-test-with-chat
      (let ((default-directory agent-q-test-directory))
        (dolist (question '("Is it so?" "/help me with it"))
          (let ((asked (with-temp-buffer
                         (insert "(defun f ())")
                         (lisp-mode)
                         (goto-char (point-min))
                         (agent-q-ask question (agent-q-activity-look-here) t))))
            (unwind-protect
                (with-current-buffer asked
                  (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "Yes.")))
                  (should (string-match-p "(defun f ())" (agent-q-test-last-message)))
                  (goto-char (point-max))
                  (agent-q-prompt-previous 1)
                  (should (equal (agent-q-prompt-text) question)))
              (kill-buffer asked))))))))

(ert-deftest agent-q-lost-a-question-without-a-model-is-not-said-to-be-asked ()
  (let ((agent-q-provider 'none) (said nil))
    (cl-letf (((symbol-function 'message)
               (lambda (format &rest arguments)
                 (when format (push (apply #'format format arguments) said)))))
      (let ((asked (with-temp-buffer
                     (insert "(defun f ())")
                     (lisp-mode)
                     (goto-char (point-min))
                     (agent-q-ask "Is it so?" (agent-q-activity-look-here) t))))
        (unwind-protect
            (with-current-buffer asked
              (agent-q-test-until (agent-q-test-shows "Not sent: defun f"))
              (should (equal (agent-q-prompt-text) "Is it so?"))
              (should-not (seq-find (lambda (it) (string-prefix-p "Asked" it)) said)))
          (kill-buffer asked))))))

;;;; Requests

(ert-deftest agent-q-lost-edited-arguments-are-where-they-were-left ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_write" #'ignore :safety-level :dangerous))
    (agent-q-test-with-chat
      (agent-q-test-send "/t_write abc")
      (agent-q-test-answer "e")
      (goto-char (point-max))
      (insert " and more")
      (let ((edited (current-buffer)))
        (switch-to-buffer chat)
        (agent-q-test-answer "e")
        (should (eq edited (current-buffer)))
        (should (string-suffix-p "abc and more" (buffer-string)))
        (agent-q-test-press "C-c C-k"))
      (switch-to-buffer chat)
      (agent-q-chat-send-cancel))))

(ert-deftest agent-q-lost-a-hunk-that-was-left-out-is-not-applied-by-the-chats-key ()
  (agent-q-test-files-in-project
      '(("write_file" (path . "a.txt") (content . "1\nb\nc\nd\ne\nf\ng\nh\ni\nj\n2\n")))
    (agent-q-test-files-write "a.txt" "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n")
    (let ((agent-q-test-files-answer nil))
      (delete-other-windows)
      (agent-q-test-send "go")
      (goto-char (agent-q-render-item-start (agent-q-test-arm)))
      (agent-q-test-press "d")
      (should (derived-mode-p 'agent-q-review-mode))
      (agent-q-test-press "SPC")
      (agent-q-test-press "q")
      (set-window-buffer nil chat)
      (set-buffer chat)
      ;; The request shows the diff again, and what was chosen.
      (should (agent-q-test-shows "As you left its review: 1 of 2 hunks"))
      (should (agent-q-test-shows "-a\n+1\n"))
      (agent-q-test-answer "y")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal (agent-q-test-files-text "a.txt") "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n2\n")))))

(ert-deftest agent-q-lost-a-diff-that-was-closed-is-read-before-it-is-applied ()
  (agent-q-test-files-in-project '(("write_file" (path . "a.txt") (content . "1\n")))
    (agent-q-test-files-write "a.txt" "a\n")
    (let ((agent-q-test-files-answer nil)
          (agent-q-review-edits t))
      (delete-other-windows)
      (agent-q-test-send "go")
      (agent-q-test-arm)
      (should (= 2 (count-windows)))
      (should-not (agent-q-test-shows "-a\n+1\n"))
      (delete-other-windows)
      (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
      (should-error (agent-q-test-press "y") :type 'user-error)
      (should (agent-q-test-shows "-a\n+1\n"))
      (agent-q-test-answer "y")
      (agent-q-test-until (agent-q-test-idle-p))
      (should (equal (agent-q-test-files-text "a.txt") "1\n")))))

(ert-deftest agent-q-lost-a-rule-that-is-offered-can-be-left ()
  (agent-q-test-with-tools ((agent-q-test-tool "t_write" #'ignore :safety-level :dangerous))
    (agent-q-test-with-chat
      (agent-q-test-send "/t_write abc")
      (agent-q-test-answer "!")
      (should (agent-q-test-shows "Press ! again to add this rule:"))
      (condition-case nil
          (call-interactively (key-binding (kbd "C-g")))
        (quit nil))
      (should-not (agent-q-test-shows "Press ! again to add this rule:"))
      (should-not (agent-q-call-offer (agent-q-call-waiting)))
      (agent-q-chat-send-cancel))))

;;;; Where the user is

(ert-deftest agent-q-lost-what-a-button-starts-is-in-sight ()
  (agent-q-test-with-model
      "{\"turns\":[{\"status\":500,\"body\":\"no\",\"headers\":{\"x-should-retry\":\"false\"}},{\"steps\":[{\"text\":\"Now it works.\"}]}]}"
    (agent-q-test-with-chat
      (agent-q-test-send "go")
      (agent-q-test-until (agent-q-test-shows "[Try again]"))
      (agent-q-test-find "[Try again]")
      (should (push-button))
      (should (agent-q-prompt-p))
      (agent-q-test-until (and (agent-q-test-idle-p) (agent-q-test-shows "Now it works."))))))

(ert-deftest agent-q-lost-a-window-of-a-chat-is-filled-wherever-emacs-is ()
  (agent-q-test-with-chat
    (let ((window (selected-window)))
      (with-temp-buffer
        (agent-q-chat-scroll-fill window)))))

(ert-deftest agent-q-lost-an-unfolded-call-goes-on ()
  "Its clock goes on, and the newest of its output is shown."
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "eval_form" :arguments "{\"form\":\"(f)\"}")
    (agent-q-test-event :call-started :call 1 :tool "eval_form")
    (let ((call (gethash 1 agent-q-call-table)))
      (setf (agent-q-render-item-expanded call) t
            (agent-q-call-started call) (time-subtract nil 41)
            (agent-q-call-output call)
            (list (mapconcat (lambda (line) (format "line %d\n" line)) (number-sequence 1 40) "")
                  5000 (current-time)))
      (agent-q-call-events-tick)
      (should (agent-q-test-shows "running 41 s"))
      (should (agent-q-test-shows "output so far: its last 12 lines\nline 29\n"))
      (should (agent-q-test-shows "\nline 40\n")))))

(ert-deftest agent-q-lost-lines-are-fitted-to-another-width ()
  (agent-q-test-with-chat
    (agent-q-test-event :call-proposed :call 1 :tool "eval_form"
                        :arguments (format "{\"form\":\"(%s)\"}" (make-string 60 ?f)))
    (agent-q-test-event :call-finished :call 1 :outcome :succeeded :content "=> 1"
                        :milliseconds 9)
    (should-not (agent-q-test-shows (make-string 60 ?f)))
    (cl-letf (((symbol-function 'agent-q-call-width) (lambda () 120)))
      (setq agent-q-chat-view--width 79)
      (agent-q-chat-view-fit (selected-window))
      (should agent-q-chat-view--timer)
      (timer-event-handler agent-q-chat-view--timer)
      (should (agent-q-test-shows (make-string 60 ?f))))))

(ert-deftest agent-q-lost-the-lines-of-each-answers-call-are-counted-anew ()
  (agent-q-test-with-chat
    (dotimes (_ 2)
      (agent-q-test-event :state :state :waiting)
      (agent-q-test-event :state :state :streaming)
      (agent-q-test-event :call-drafted :number 0 :tool "eval_form" :parameter "form"
                          :text "a\nb\nc")
      (should (string-match-p "Writing eval_form, 3 lines" (agent-q-chat-view-header-line))))))

;;;; Code and forms

(ert-deftest agent-q-lost-inserted-lines-stay-lines ()
  (agent-q-test-with-chat
    (agent-q-test-event :text :text "```lisp\n(a\n b)\n```\n")
    (agent-q-test-event :turn-ended :outcome :finished)
    (let ((buffer (generate-new-buffer "source.lisp")))
      (unwind-protect
          (progn
            (with-current-buffer buffer
              (insert "(first)\n(second)\n")
              (goto-char (point-min))
              (forward-line 1))
            (cl-letf (((symbol-function 'agent-q-code--block-target) (lambda (&rest _) buffer)))
              (goto-char (point-max))
              (agent-q-code-block-insert))
            (should (equal (with-current-buffer buffer (buffer-string))
                           "(first)\n(a\n b)\n(second)\n")))
        (kill-buffer buffer)))))

(ert-deftest agent-q-lost-a-paragraph-is-no-definition ()
  (with-temp-buffer
    (insert "# Notes\n\nSome words.\n")
    (text-mode)
    (setq buffer-file-name (expand-file-name "notes.md" agent-q-test-directory))
    (goto-char (point-min))
    (unwind-protect
        (should (eq 'file (agent-q-activity-look-kind (agent-q-activity-look-here))))
      (setq buffer-file-name nil))))

(ert-deftest agent-q-lost-what-is-wrong-is-asked-where-nothing-is-known ()
  (with-temp-buffer
    (insert "(defun f ())")
    (lisp-mode)
    (goto-char (point-min))
    (should-not (agent-q-activity-look-wrong-p (agent-q-activity-look-here)))
    (should-error (agent-q-fix-error (agent-q-activity-look-here) nil " ") :type 'user-error)))

(provide 'agent-q-lost-test)
;;; agent-q-lost-test.el ends here
