;;; agent-q-tutorial-test.el --- The tour, from its first step to its last  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Plays the tour in a real image by the user's own commands, and does what it does not expect.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'agent-q-review)
(require 'agent-q-tutorial)

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
             (agent-q-test-until (agent-q-test-idle-p))
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
      (switch-to-buffer debugger)
      (agent-q-tutorial--look)
      (agent-q-test-press "q"))
    (switch-to-buffer chat)
    (agent-q-tutorial-test--at "Take half of an edit")
    (princ (agent-q-test-log) #'external-debugging-output)
    (agent-q-tutorial-test--return)
    (agent-q-test-until (agent-q-call-waiting))
    (princ (agent-q-test-log) #'external-debugging-output)
    ))

(provide 'agent-q-tutorial-test)
;;; agent-q-tutorial-test.el ends here
