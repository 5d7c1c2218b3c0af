;;; agent-q-chats-store.el --- Where chats are saved  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Whether and where the core saves a chat, what it has to know of the chat for that,
;; and questions about stored chats, which it answers by an event.

;;; Code:

(require 'agent-q)
(require 'agent-q-changes)
(require 'agent-q-events)
(require 'agent-q-header)
(require 'agent-q-image-connection)
(require 'agent-q-json)
(require 'agent-q-session)
(require 'agent-q-text)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defcustom agent-q-save-chats t
  "Whether chats are saved, so that they can be resumed later.
What is said and done in a chat is then in a file of `agent-q-chats-directory':
messages, answers, calls with their results, and what files held that the agent
changed.  Keys of providers are never saved.  What counts
is the value when a chat is opened."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-chats-directory 'risky-local-variable t)
(defcustom agent-q-chats-directory (locate-user-emacs-file "agent-q-chats/")
  "The directory of the stored chats.
Only you can read it and the files in it.  You may move, copy and delete
the files at any time.  What a chat changed in files can be undone only in the
Emacs directory in which it was made."
  :type 'directory
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-chats-turns 50
  "How many turns of a chat are shown when it is resumed.
A button above them shows as many more."
  :type '(natnum :tag "Turns")
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defvar-local agent-q-chats-store-id nil
  "The id under which this chat is saved, or nil.")

(defvar-local agent-q-chats-store-busy nil
  "Why nothing can be added to this chat, a sentence, or nil.")

(defun agent-q-chats-store-directory ()
  "Return the directory of the stored chats as the core is told it."
  (expand-file-name agent-q-chats-directory))

(defun agent-q-chats-store--state ()
  "Return the directory of the key of the chats as the core is told it.
It is not that of the chats, which may be copied as a whole."
  (agent-q-text-clean (file-name-directory (expand-file-name agent-q-log-file))))

(defun agent-q-chats-store-settings (id)
  "Return as JSON the place of a new chat; nil if chats are not saved.
With ID, it is the place of that chat."
  (when (or id agent-q-save-chats)
    (agent-q-json-serialize
     `((directory . ,(agent-q-text-clean (agent-q-chats-store-directory)))
       (state . ,(agent-q-chats-store--state))
       (emacs . ,agent-q-changes-emacs)
       (id . ,(or id :null))
       (turns . ,agent-q-chats-turns)))))

(defvar-local agent-q-chats-store--noted nil
  "What the file of this chat was told last of where the chat is.")

(defun agent-q-chats-store-note ()
  "Have the file of this chat say where the chat is, if that has changed."
  (when agent-q-chats-store-id
    (let* ((place `((project . ,(agent-q-chats-store--text agent-q-session-project))
                    (root . ,(agent-q-chats-store--text agent-q-session-root))
                    (image . ,(agent-q-chats-store--text
                               (and (agent-q-image-live-p agent-q-session-connection)
                                    (agent-q-image-label agent-q-session-connection))))
                    (model . ,(agent-q-chats-store--text agent-q-header-model))))
           (noted (list agent-q-session-number agent-q-chats-store-id place)))
      (unless (equal noted agent-q-chats-store--noted)
        (when (agent-q-core-note-place agent-q-session-number (agent-q-json-serialize place))
          (setq agent-q-chats-store--noted noted))))))

(defun agent-q-chats-store--text (text)
  "Return TEXT as JSON takes it, null if it is nil."
  (if text (agent-q-text-clean text) :null))

;;;; Questions

(defvar agent-q-chats-store--questions (make-hash-table)
  "The functions that wait for answers, by the number of their question.")

(defun agent-q-chats-store-ask (what function &rest more)
  "Ask the core WHAT, a string, of the stored chats.
MORE is an alist with the rest of the question.  FUNCTION is called in this
buffer, if it is still there, with the answer, an alist, and with what went
wrong, a sentence or nil."
  (agent-q-events-ensure)
  (agent-q-events-subscribe :chats-answered #'agent-q-chats-store--answered)
  (let ((question (agent-q-core-ask-chats
                   (agent-q-json-serialize
                    `((do . ,what)
                      (directory . ,(agent-q-text-clean (agent-q-chats-store-directory)))
                      (state . ,(agent-q-chats-store--state))
                      ,@more))))
        (buffer (current-buffer)))
    (agent-q-chats-store-await question function buffer)))

(defun agent-q-chats-store-await (question function buffer)
  "Have FUNCTION called in BUFFER with the answer to QUESTION, a number."
  (agent-q-events-subscribe :chats-answered #'agent-q-chats-store--answered)
  (puthash question (cons buffer function) agent-q-chats-store--questions))

(defun agent-q-chats-store--answered (event)
  "Pass on the answer in EVENT."
  (pcase (gethash (plist-get event :question) agent-q-chats-store--questions)
    (`(,buffer . ,function)
     (remhash (plist-get event :question) agent-q-chats-store--questions)
     (when (buffer-live-p buffer)
       (with-current-buffer buffer
         (funcall function
                  (when-let ((answer (plist-get event :answer)))
                    (agent-q-json-alist answer t))
                  (plist-get event :problem)))))))

(provide 'agent-q-chats-store)
;;; agent-q-chats-store.el ends here
