;;; agent-q-tutorial-test.el --- The tour, from its first step to its last  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Plays the tour in a real image by the user's own commands, and does what it does not expect.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-chat-history)
(require 'agent-q-review-place)
(require 'agent-q-tutorial)

(declare-function agent-q-try--project "chat")

(defmacro agent-q-tutorial-test--with (connection &rest body)
  "Run BODY in the chat of a tour that begins in the image of CONNECTION."
  (declare (indent 1) (debug t))
  `(let* ((folder (file-name-as-directory (make-temp-file "agent-q-tour" t)))
          (agent-q-tutorial-file (expand-file-name "tour.eld" agent-q-test-directory))
          (agent-q-tutorial-pace 0)
          (inhibit-message t))
     (ignore ,connection)
     (unwind-protect
         (cl-letf (((symbol-function 'read-directory-name) (lambda (&rest _) folder)))
           (ignore-errors (delete-file agent-q-tutorial-file))
           (save-window-excursion
             (agent-q-tutorial)
             (agent-q-test-until (equal (agent-q-prompt-text) "What does transfer do?"))
             (let ((chat agent-q-tutorial--chat))
               (ignore chat)
               ,@body)))
       (when agent-q-tutorial--folder
         (agent-q-tutorial-leave))
       (when (buffer-live-p agent-q-tutorial--chat)
         (kill-buffer agent-q-tutorial--chat))
       (delete-directory folder t))))

(defun agent-q-tutorial-test--at (title)
  "Wait until the guide shows the step called TITLE."
  (agent-q-test-until
   (with-current-buffer agent-q-tutorial--guide
     (agent-q-test-shows (concat ": " title)))
   (format "the step %S" title)))

(defun agent-q-tutorial-test--return ()
  "Send what stands at the prompt, as RET does."
  (goto-char (point-max))
  (should-not (string-blank-p (agent-q-prompt-text)))
  (call-interactively #'agent-q-chat-return))

(defun agent-q-tutorial-test--file (name)
  "Return the text of the file NAME of the tour."
  (with-temp-buffer
    (insert-file-contents (expand-file-name name agent-q-tutorial--folder))
    (buffer-string)))

(defun agent-q-tutorial-test--guided (text)
  "Whether the guide shows TEXT."
  (with-current-buffer agent-q-tutorial--guide
    (agent-q-test-shows text)))

(defun agent-q-tutorial-test--decide (key)
  "Press KEY on a part of the edit that is shown in place."
  (let ((source (find-buffer-visiting (expand-file-name "src/bank.lisp" agent-q-tutorial--folder))))
    (switch-to-buffer source)
    (agent-q-test-until
     (progn (when agent-q-review-place-mode (agent-q-review-place-first))
            (and (eq t agent-q-review-place--armed)
                 (commandp (key-binding key)) (not (eq (key-binding key) #'self-insert-command)))))
    (agent-q-test-press key)))

(defun agent-q-tutorial-test--rewind ()
  "Go back to before the last message of this chat."
  (call-interactively #'agent-q-rewind)
  (agent-q-test-until (get-buffer "*agent-q rewind*"))
  (with-current-buffer "*agent-q rewind*"
    (agent-q-test-press "C-c C-c")))

(agent-q-test-image-on-each agent-q-tutorial-as-it-is-meant ()
  "Each step, by its own keys."
  (agent-q-tutorial-test--with connection
    (agent-q-tutorial-test--at "Ask")
    (agent-q-tutorial-test--return)
    (agent-q-tutorial-test--at "Look for yourself")
    (agent-q-tutorial-test--return)
    (agent-q-tutorial-test--at "Say yes or no")
    (agent-q-tutorial-test--return)
    (agent-q-test-answer "y")
    (agent-q-tutorial-test--at "Meet an error")
    (agent-q-tutorial-test--return)
    (agent-q-tutorial-test--at "Look into the error")
    (let ((debugger (progn (call-interactively #'agent-q-debugger-hand-over)
                           (agent-q-test-until (car (agent-q-test-image-debuggers))))))
      ;; The keys that the guide names are pressed there.
      (should (eq debugger (window-buffer)))
      (set-buffer debugger)
      (agent-q-tutorial--look)
      (agent-q-test-press "q"))
    (switch-to-buffer chat)
    (agent-q-tutorial-test--at "Take half of an edit")
    (agent-q-tutorial-test--return)
    (agent-q-test-answer "i")
    (agent-q-tutorial-test--decide "k")
    (agent-q-tutorial-test--decide "y")
    (switch-to-buffer chat)
    (agent-q-test-until (agent-q-test-shows "Run run_tests?"))
    (agent-q-test-answer "y")
    (agent-q-tutorial-test--at "Verify")
    (should (agent-q-test-shows "Both tests pass: when Ann has too little, nothing moves."))
    (should (string-search "(withdraw from amount)\n  (deposit to amount)"
                           (agent-q-tutorial-test--file "src/bank.lisp")))
    (should-not (string-search "Nope" (agent-q-tutorial-test--file "src/bank.lisp")))
    (agent-q-tutorial-test--return)
    (agent-q-test-answer "y")
    (agent-q-tutorial-test--at "Go back")
    (should (agent-q-test-shows "VERIFIED: tour-bank in a fresh Lisp"))
    (should-not (agent-q-test-shows "NOT VERIFIED"))
    (agent-q-test-until (agent-q-test-idle-p))
    (goto-char (point-max))
    (dotimes (_ 2)
      (agent-q-test-press "C-c C-p"))
    (should (looking-at-p "> Fix transfer"))
    (agent-q-tutorial-test--rewind)
    (agent-q-tutorial-test--at "That was the tour")
    (agent-q-test-until (agent-q-test-shows "[Undo this]"))
    (should-not (agent-q-tutorial--changed folder))
    ;; No word of it cost anything, or came from anywhere.
    (should (zerop (or agent-q-chat-view-header-cost 0)))
    (should (zerop agent-q-chat-view-header-unpriced))
    (should (equal "tour (scripted)" agent-q-chat-view-header-model))))

(agent-q-test-image-on-each agent-q-tutorial-otherwise ()
  "What is denied, asked otherwise, skipped, changed or lost."
  (agent-q-tutorial-test--with connection
    ;; Another question gets an honest answer, and the step waits on.
    (agent-q-prompt-replace "What is the weather?")
    (agent-q-tutorial-test--return)
    (agent-q-test-until (agent-q-test-shows "I have no answer to that."))
    (agent-q-tutorial-test--at "Ask")
    (agent-q-test-until (equal (agent-q-prompt-text) "What does transfer do?"))
    ;; What a later step is about may be done now.
    (agent-q-prompt-replace "/describe_symbol tour-bank:deposit")
    (agent-q-tutorial-test--return)
    (agent-q-test-until (agent-q-test-shows "TOUR-BANK:DEPOSIT (external"))
    (agent-q-prompt-replace "what does  transfer do")
    (agent-q-tutorial-test--return)
    (agent-q-tutorial-test--at "Say yes or no")
    (agent-q-tutorial-test--return)
    (agent-q-test-answer "n")
    (agent-q-tutorial-test--at "Meet an error")
    (should (agent-q-test-shows "You said no, so no file was written."))
    (should-not (file-exists-p (expand-file-name "statement.txt" folder)))
    ;; Skipped, gone back, skipped again.
    (agent-q-tutorial-next)
    (agent-q-tutorial-test--at "Look into the error")
    (agent-q-tutorial-back)
    (agent-q-tutorial-test--at "Meet an error")
    (should (equal (agent-q-prompt-text) "Move 100 from Ann to Bob."))
    (agent-q-tutorial-next)
    (agent-q-tutorial-next)
    (agent-q-tutorial-test--at "Take half of an edit")
    (agent-q-tutorial-test--return)
    (agent-q-test-answer "n")
    (agent-q-tutorial-test--at "Verify")
    (should (agent-q-test-shows "You denied the edit, so the file is as it was."))
    ;; Left with its chat closed, and continued.
    (agent-q-tutorial-leave)
    (should-not (get-buffer agent-q-tutorial--guide))
    (kill-buffer chat)
    (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?c "continue"))))
      (agent-q-tutorial))
    (agent-q-tutorial-test--at "Verify")
    (agent-q-test-until (agent-q-test-shows "You denied the edit"))
    (agent-q-tutorial-back)
    ;; The file no longer has what the edit is about.
    (write-region "(in-package \"TOUR-BANK\")\n" nil (expand-file-name "src/bank.lisp" folder) nil 'silent)
    (agent-q-tutorial-test--return)
    (agent-q-test-until (agent-q-test-shows "The edit doesn't fit"))
    (agent-q-test-until (equal (agent-q-prompt-text) "Fix transfer."))
    (agent-q-tutorial-test--at "Take half of an edit")
    ;; Once there is a model, who looks for a chat finds one that has it.
    (with-current-buffer agent-q-tutorial--chat
      (should (eq agent-q-tutorial--chat (agent-q-chat-open-here)))
      (let* ((agent-q-provider '(:name "own" :base-url "http://127.0.0.1:1/v1" :model "own"))
             (other (agent-q-chat-open-here)))
        (should-not (eq agent-q-tutorial--chat other))
        (should (eq other (agent-q-chat-open)))
        (kill-buffer other)))
    ;; Starting over asks before it replaces that.
    (cl-letf (((symbol-function 'read-multiple-choice) (lambda (&rest _) '(?o "start over")))
              ((symbol-function 'yes-or-no-p)
               (lambda (prompt) (should (string-search "src/bank.lisp" prompt)) nil)))
      (should-error (agent-q-tutorial) :type 'user-error)
      (should (agent-q-tutorial--changed folder))
      (cl-letf (((symbol-function 'yes-or-no-p) #'always))
        (agent-q-tutorial)))
    (agent-q-tutorial-test--at "Ask")
    (should-not (agent-q-tutorial--changed folder))
    ;; What isn't verified ends that step too, with its turn, and its message isn't typed again.
    (dotimes (_ 6)
      (agent-q-tutorial-next))
    (agent-q-tutorial-test--at "Verify")
    (set-buffer agent-q-tutorial--chat)
    (agent-q-test-until (and (equal (agent-q-prompt-text) "/verify") (null agent-q-tutorial--trouble)))
    (cancel-timer agent-q-tutorial--timer)
    (agent-q-tutorial-test--return)
    (agent-q-test-answer "y")
    (agent-q-tutorial-test--at "Go back")
    (should (agent-q-test-shows "NOT VERIFIED"))
    (should (string-blank-p (agent-q-prompt-text)))
    (setq agent-q-tutorial--timer (run-at-time 0.5 0.5 #'agent-q-tutorial--look))
    (kill-buffer agent-q-tutorial--chat)
    (agent-q-test-until (agent-q-tutorial-test--guided "The chat of the tour is closed."))))

(agent-q-test-image-on-each agent-q-tutorial-another-image ()
  "When the Lisp ends, the guide says so, and the tour goes on in the next one."
  (agent-q-tutorial-test--with connection
    (let ((mine (agent-q-test-image-another (agent-q-connection-client connection))))
      (setq agent-q-session-connection mine)
      (agent-q-test-until (and (equal mine agent-q-tutorial--image)
                               (null agent-q-tutorial--unloaded)))
      (agent-q-test-image-kill mine)
      (agent-q-test-until (agent-q-tutorial-test--guided "Your Lisp has ended."))
      (setq agent-q-session-connection connection)
      (agent-q-tutorial-test--at "Ask")
      (agent-q-test-until (agent-q-tutorial-test--guided "stands at the prompt below")))
    (delete-directory folder t)
    (agent-q-test-until (agent-q-tutorial-test--guided "is gone."))
    (make-directory folder)))

(ert-deftest agent-q-tutorial-writes-over-nothing-else ()
  "A folder with other files is refused."
  (let ((folder (file-name-as-directory (make-temp-file "agent-q-tour" t))))
    (write-region "mine" nil (expand-file-name "notes.txt" folder) nil 'silent)
    (should-error (agent-q-tutorial--write folder) :type 'user-error)
    (should (equal '("notes.txt")
                   (directory-files folder nil directory-files-no-dot-files-regexp)))
    (delete-directory folder t)))

(ert-deftest agent-q-tutorial-script-is-of-the-tour-alone ()
  "No chat but the tour's gets the script as its model, and it is none to choose."
  (let ((agent-q-provider-scripted `((base_url . ,agent-q-provider-scripted-url) (model . "tour")))
        (agent-q-provider nil) (agent-q-providers nil) (auth-sources nil) (chosen 'none-yet))
    (cl-letf (((symbol-function 'agent-q-provider-discover)
               (lambda (function) (funcall function nil)))
              ((symbol-function 'agent-q-provider--list-discover-now) #'ignore))
      (agent-q-provider-choose (lambda (provider) (setq chosen provider)))
      (should-not chosen)
      (should-not (agent-q-provider-candidates)))))

(ert-deftest agent-q-tutorial-make-chat-has-a-project ()
  "A chat of make chat is about the project of the tour, which is written once."
  (load (expand-file-name "../scripts/chat.el" (file-name-directory (locate-library "agent-q-tutorial"))) nil t)
  (defvar agent-q-try-folder)
  (let* ((agent-q-try-folder (file-name-as-directory
                              (expand-file-name "not/yet/tour-bank" (make-temp-file "agent-q-try" t))))
         (system (expand-file-name "tour-bank.asd" agent-q-try-folder)))
    (should (file-exists-p (expand-file-name "tour-bank.asd" (agent-q-try--project))))
    (write-region "; mine\n" nil system nil 'silent)
    (agent-q-try--project)
    (should (equal "; mine\n" (with-temp-buffer (insert-file-contents system) (buffer-string))))))

(provide 'agent-q-tutorial-test)
;;; agent-q-tutorial-test.el ends here
