;;; agent-q-attention-test.el --- Tests of telling a user who is elsewhere  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The mark in the mode line, notifications, and questions before what runs is killed.

;;; Code:

(require 'agent-q-test)

(defun agent-q-attention-test--ask (key)
  "Have the current chat ask about a call with KEY."
  (agent-q-test-event :approval :call key :tool "eval_form" :level "dangerous"
                      :reason "runs programs" :arguments "{\"form\":\"(f)\"}"))

(ert-deftest agent-q-attention-a-mark-leads-to-what-waits-and-goes ()
  (should-not (assq 'agent-q-attention-mark mode-line-misc-info))
  (agent-q-test-with-chat
    (let ((before (copy-tree mode-line-misc-info)))
      (agent-q-attention-test--ask 7)
      ;; What is behind it may be out of the window.
      ;; A symbol alone would make a condition of the whole list.
      (should (equal '(agent-q-attention-mark ("" agent-q-attention-mark)) (car mode-line-misc-info)))
      (should (equal (substring-no-properties agent-q-attention-mark) " [agent-q asks]"))
      (should (eq (lookup-key (get-text-property 1 'local-map agent-q-attention-mark)
                              [mode-line mouse-1])
                  #'agent-q-goto-approval))
      (agent-q-attention-test--ask 8)
      (should (string-match-p "asks 2" agent-q-attention-mark))
      (agent-q-test-event :call-finished :call 7 :outcome :denied)
      (agent-q-test-event :call-finished :call 8 :outcome :denied)
      (should-not agent-q-attention-mark)
      (should (equal before mode-line-misc-info))
      ;; It goes with its chat, too.
      (agent-q-attention-test--ask 9)
      (should agent-q-attention-mark)
      (kill-buffer chat)
      (should-not agent-q-attention-mark))))

(ert-deftest agent-q-attention-the-message-names-a-command-that-works-there ()
  (agent-q-test-with-chat
    (let ((said nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest arguments)
                   (when format (push (apply #'format format arguments) said)))))
        (agent-q-attention-test--ask 7)
        (should (equal (car said) "agent-q: Run eval_form? (y or n at the empty prompt)"))
        (with-temp-buffer
          (switch-to-buffer (current-buffer))
          (with-current-buffer chat (agent-q-attention-test--ask 8)))
        (should (equal (car said) "agent-q: 2 pending requests (M-x agent-q-goto-approval)"))))))

(ert-deftest agent-q-attention-the-end-of-a-turn-is-said-where-its-chat-is-not-shown ()
  (agent-q-test-with-chat
    (let ((said nil) (name (buffer-name)))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest arguments)
                   (when format (push (apply #'format format arguments) said)))))
        (agent-q-test-event :turn-ended :outcome :finished)
        (should-not said)
        (with-temp-buffer
          (switch-to-buffer (current-buffer))
          (with-current-buffer chat (agent-q-test-event :turn-ended :outcome :finished)))
        (should (equal said (list (format "agent-q: The turn is over (%s)" name))))))))

(ert-deftest agent-q-attention-who-is-elsewhere-is-notified-once-away-for-a-while ()
  (agent-q-test-with-chat
    (let ((sent nil)
          (process-environment (cons "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent"
                                     process-environment)))
      (cl-letf (((symbol-function 'agent-q-attention--send)
                 (lambda (_chat text) (push text sent))))
        (with-temp-buffer
          (switch-to-buffer (current-buffer))
          (with-current-buffer chat
            (agent-q-attention-test--ask 7)
            (sit-for 0.05)
            ;; A moment ago the user was here.
            (should-not sent)
            ;; Who stays away is told later, unless it was answered meanwhile.
            (let ((agent-q-attention--away 0.2))
              (agent-q-attention-test--ask 7)
              (agent-q-test-until sent)
              (setq sent nil)
              (setq agent-q-attention--here (current-time))
              (agent-q-attention-test--ask 7)
              (should agent-q-attention--timer)
              (agent-q-test-event :call-finished :call 7 :outcome :denied :content "No")
              (should-not agent-q-attention--timer)
              ;; And who came back was told by the chat.
              (agent-q-attention-test--ask 6)
              ;; However late the timer runs.
              (setq agent-q-attention--here (time-add nil 60))
              (agent-q-test-until (not agent-q-attention--timer))
              (should-not sent))
            (setq agent-q-attention--here (time-subtract nil 11))
            (let ((agent-q-attention-notify nil)) (agent-q-attention-test--ask 8))
            (sit-for 0.05)
            (should-not sent)
            (agent-q-attention-test--ask 9)
            (agent-q-test-until sent)
            (agent-q-test-event :turn-ended :outcome :finished)
            (agent-q-test-until (equal (car sent) "The turn is over"))))))
    ;; Where no desktop answers, nothing happens.
    (let ((debug-on-error nil)
          (process-environment (cons "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent"
                                     process-environment)))
      (agent-q-attention--send chat "x"))))

(ert-deftest agent-q-attention-what-runs-is-not-killed-unasked ()
  (agent-q-test-with-chat
    (let ((noninteractive nil) (asked nil) (answer nil))
      (cl-letf (((symbol-function 'yes-or-no-p)
                 (lambda (question) (push question asked) answer)))
        (should (run-hook-with-args-until-failure 'kill-emacs-query-functions))
        (should-not asked)
        (setq agent-q-chat-view-header-since (current-time))
        (should-not (kill-buffer chat))
        (should (string-match-p "A turn is running in" (car asked)))
        (should-not (agent-q-attention--quit-p))
        (should (string-match-p "exit anyway" (car asked)))
        (setq answer t)
        (should (kill-buffer chat))
        (should-not (memq #'agent-q-attention--quit-p kill-emacs-query-functions))))))

(provide 'agent-q-attention-test)
;;; agent-q-attention-test.el ends here
