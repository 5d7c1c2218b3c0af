;;; agent-q-session.el --- What a chat is  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What others have to know of a chat, or of the buffer of a program that calls tools: its number in the core, the image that it is
;; about, its provider and its turn.  They are variables of its buffer.
;; agent-q-chat.el sets them.

;;; Code:

(require 'seq)

(defvar-local agent-q-session-chat-p nil
  "Non-nil in the buffers of chats.")

(defvar-local agent-q-session-number nil
  "The core's number for the session of this chat.")

(defvar-local agent-q-session-provider nil
  "The provider that the session uses, without its secrets, or nil.")

(defvar-local agent-q-session-effort nil
  "How hard this chat's model thinks, a symbol; nil is as its provider says.")

(defvar-local agent-q-session-connection nil
  "The connection to the Lisp image of this chat, or nil.")

(defvar-local agent-q-session-project nil
  "The name of this chat's project, as in its buffer's name and header line.")

(defvar-local agent-q-session-root nil
  "The root directory of the project of this chat, or nil.")

(defvar-local agent-q-session-turn nil
  "In a chat: the name of its turn for the journals of images.")

(defvar-local agent-q-session-turn-used nil
  "In a chat: whether a turn of it can have changed anything in an image.")

(defvar-local agent-q-session-client nil
  "The name of the program that calls here, in place of a chat's model, or nil.")

(defvar-local agent-q-session-client-state nil
  "Whether the program that calls here is `connected', `paused' or `gone'.")

(defun agent-q-session-chats ()
  "Return the buffers of all chats with a model, the latest one first."
  (seq-remove (lambda (buffer) (buffer-local-value 'agent-q-session-client buffer))
              (agent-q-session-buffers)))

(defun agent-q-session-buffers ()
  "Return the buffers of all chats and clients, the latest one first."
  (seq-filter (lambda (buffer)
                (and (buffer-local-value 'agent-q-session-number buffer) t))
              (buffer-list)))

(defun agent-q-session-check ()
  "Signal an error unless the current buffer is a chat."
  (unless agent-q-session-number
    (user-error "This buffer is not a chat; M-x agent-q-chat opens one")))

(defun agent-q-session-command-p (_command buffer)
  "Whether commands of chats are offered in BUFFER.
For completing commands, where `read-extended-command-predicate' asks."
  (buffer-local-value 'agent-q-session-chat-p buffer))

(provide 'agent-q-session)
;;; agent-q-session.el ends here
