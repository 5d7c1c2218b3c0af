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
(require 'agent-q-image-connection)
(require 'agent-q-look)

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
  (concat "Explain the error that I have in the debugger, and what to do about it.\n"
          (agent-q-look-error buffer)))

(provide 'agent-q-explain)
;;; agent-q-explain.el ends here
