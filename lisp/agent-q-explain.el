;;; agent-q-explain.el --- Asking about an error in the debugger  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; From a debugger buffer of SLY or SLIME to a new chat with a question about its
;; error.

;;; Code:

(require 'agent-q-chat)
(require 'agent-q-chat-choose)
(require 'agent-q-chat-send)
(require 'agent-q-debugger)
(require 'agent-q-frames)
(require 'agent-q-image-connection)
(require 'agent-q-past)

;;;###autoload
(defun agent-q-explain-error ()
  "Ask the agent in a new chat about the error in this debugger buffer."
  (interactive)
  (let ((question (agent-q-explain--question (current-buffer)))
        (connection (agent-q-explain--connection (current-buffer))))
    (pop-to-buffer (agent-q-chat-open t))
    (when connection
      (agent-q-set-image connection))
    (goto-char (point-max))
    (insert question)
    (agent-q-chat-send)))

(defun agent-q-explain--connection (buffer)
  "Return the connection of the debugger in BUFFER."
  (let ((process (agent-q-debugger-local buffer 2)))
    (cl-find process (agent-q-image-connections)
             :key #'agent-q-image-connection-process)))

(defun agent-q-explain--question (buffer)
  "Return the message that asks to explain the error in the debugger BUFFER."
  (unless (agent-q-debugger-local buffer 3)
    (user-error "This is not a debugger buffer of SLY or SLIME"))
  (format "Explain the error that I have in the debugger, and what to do about it.
It is open as debugger %s: %s
%s
%s"
          (agent-q-debugger-buffer-name buffer)
          (agent-q-debugger-condition-text (agent-q-debugger-local buffer 4))
          (or (agent-q-frames-restarts
               (mapcar (lambda (restart) (mapcar #'substring-no-properties restart))
                       (agent-q-debugger-local buffer 5)))
              "There is no restart.")
          (or (agent-q-explain--frames buffer) "")))

(defun agent-q-explain--frames (buffer)
  "Return the first frames that the user's debugger in BUFFER got, as text."
  (let ((error (agent-q-past-error-in (agent-q-debugger-local buffer 2)
                                      (agent-q-debugger-local buffer 3))))
    (and error (agent-q-frames-text (agent-q-past-error-frames error)))))

(provide 'agent-q-explain)
;;; agent-q-explain.el ends here
