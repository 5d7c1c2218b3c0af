;;; agent-q-chat-follow.el --- Chats follow the connections of Lisp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; While there is a chat, the hooks of SLY and SLIME tell when a Lisp connects or goes
;; away, so that the chats show it at once.

;;; Code:

(require 'agent-q-chat-send)
(require 'agent-q-header)
(require 'agent-q-queue)
(require 'agent-q-session)
(require 'agent-q-welcome)

(defconst agent-q-chat-follow--hooks
  '(sly-connected-hook slime-connected-hook
    sly-net-process-close-hooks slime-net-process-close-hooks)
  "The hooks of the clients that tell of a connection.")

(defun agent-q-chat-follow-start ()
  "Have the chats follow the connections."
  (dolist (hook agent-q-chat-follow--hooks)
    (add-hook hook #'agent-q-chat-follow--later)))

(defun agent-q-chat-follow-stop ()
  "Stop following the connections, unless there is a chat left."
  (unless (agent-q-session-buffers)
    (dolist (hook agent-q-chat-follow--hooks)
      (remove-hook hook #'agent-q-chat-follow--later))))

(defun agent-q-chat-follow--later (&rest _)
  "Look at the connections once the client is done with its own work."
  (run-at-time 0 nil #'agent-q-chat-follow-look))

(defun agent-q-chat-follow-look ()
  "Update each chat for the connections that are open now.
One without an image takes the image that has come, unless a turn runs."
  (dolist (chat (agent-q-session-buffers))
    (with-current-buffer chat
      (unless (or agent-q-session-connection (agent-q-header-busy-p))
        (agent-q-chat-find-image))
      (agent-q-header-update)
      (agent-q-welcome-update))))

(provide 'agent-q-chat-follow)
;;; agent-q-chat-follow.el ends here
