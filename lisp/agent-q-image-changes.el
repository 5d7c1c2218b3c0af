;;; agent-q-image-changes.el --- What the agent changed in the image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The journal of an image as a list: each definition that the agent made or
;; replaced in this chat, or in any, with the form that did it.  A key restores
;; one or all.

;;; Code:

(require 'agent-q-image)
(require 'agent-q-image-connection)
(require 'agent-q-image-query)
(require 'agent-q-list)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'seq)
(require 'tabulated-list)

(defvar-local agent-q-image-changes--connection nil
  "The connection to the image whose changes are listed.")

(defvar-local agent-q-image-changes--chat nil
  "The buffer of the chat from which the list was asked for, or nil.")

(defvar-local agent-q-image-changes--all nil
  "Non-nil when the changes of all chats are listed.")

(defvar-local agent-q-image-changes--entries nil
  "The changes as the image reported them, property lists.")

(defvar-local agent-q-image-changes--whose "this chat"
  "Whose changes the list shows when it is about one chat, in words.")

(defvar-local agent-q-image-changes--shown ""
  "How many of the changes are listed, unless all are.")

(defvar agent-q-image-changes-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-image-changes-source)
    (define-key map "u" #'agent-q-image-changes-restore)
    (define-key map "U" #'agent-q-image-changes-restore-all)
    (define-key map "a" #'agent-q-image-changes-toggle-all)
    map)
  "Keymap of `agent-q-image-changes-mode'.")

(define-derived-mode agent-q-image-changes-mode tabulated-list-mode "agent-q changes"
  "Major mode of the list of what the agent changed in a Lisp image, latest first.
From a chat, it is what was changed in this chat.

\\<agent-q-image-changes-mode-map>\\[agent-q-image-changes-source] shows the form that changed it, \
\\[agent-q-image-changes-restore] restores what was there
before, \\[agent-q-image-changes-restore-all] does that for all that is listed, and \
\\[agent-q-image-changes-toggle-all] lists all chats.

\\{agent-q-image-changes-mode-map}"
  (setq mode-line-process '(:eval (if (agent-q-image-changes--one-chat-p)
                                      '(" of " agent-q-image-changes--whose
                                        agent-q-image-changes--shown
                                        agent-q-list-hint)
                                    '(" of all chats" agent-q-image-changes--shown
                                      agent-q-list-hint)))
        revert-buffer-function #'agent-q-image-changes--refresh))

;;;###autoload
(defun agent-q-image-changes ()
  "List what the agent changed in the Lisp image, to undo any of it.
From a chat, list the changes of this chat in its image."
  (interactive)
  (let ((chat (and agent-q-session-number (current-buffer)))
        (connection (or (and (agent-q-image-live-p agent-q-session-connection)
                             agent-q-session-connection)
                        (agent-q-image-default-connection))))
    (unless connection
      (user-error "No Lisp is connected"))
    (pop-to-buffer (get-buffer-create "*agent-q image changes*"))
    (unless (derived-mode-p 'agent-q-image-changes-mode)
      (agent-q-image-changes-mode))
    (setq agent-q-image-changes--connection connection
          agent-q-image-changes--chat chat
          agent-q-image-changes--whose
          (let ((client (and chat (buffer-local-value 'agent-q-session-client chat))))
            (if client (agent-q-visible-line client 40) "this chat"))
          agent-q-image-changes--all nil)
    (agent-q-image-changes--refresh)))

(defun agent-q-image-changes--one-chat-p ()
  "Return non-nil when the list is about one chat."
  (and agent-q-image-changes--chat
       (not agent-q-image-changes--all)))

(defun agent-q-image-changes--of-chat ()
  "Return the arguments of operations that say which chat the list is about."
  (and (agent-q-image-changes--one-chat-p)
       ;; Of a chat that was closed, the name is not known any more.
       (list :chat (or (agent-q-image-chat-name agent-q-image-changes--chat)
                       "closed"))))

(defun agent-q-image-changes-toggle-all ()
  "Switch between all chats and the one that you came from."
  (interactive nil agent-q-image-changes-mode)
  (unless agent-q-image-changes--chat
    (user-error "All chats are listed: this list was not opened from a chat"))
  (setq agent-q-image-changes--all (not agent-q-image-changes--all))
  (agent-q-image-changes--refresh))

(defun agent-q-image-changes--call (operation arguments function)
  "Call OPERATION with ARGUMENTS in the image that is listed here.
FUNCTION gets its value, in this buffer."
  (let ((buffer (current-buffer)))
    (agent-q-image-query
     agent-q-image-changes--connection operation arguments
     (lambda (reply status _payload)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (pcase reply
             (`(:outcome :returned :value ,value . ,_) (funcall function value))
             (`(:outcome ,_ . ,more)
              (message "The image refused: %s" (plist-get more :message)))
             (_ (message "The image did not answer (%s)" status)))))))))

;;;; The list

(defun agent-q-image-changes--refresh (&rest _)
  "Ask the image for its journal and show it."
  (agent-q-image-changes--call
   "journal-list" (agent-q-image-changes--of-chat)
   (lambda (value)
     (setq agent-q-image-changes--entries
           (agent-q-image-changes--loads-last (plist-get value :changes))
           agent-q-image-changes--shown (agent-q-image-changes--shown value))
     (agent-q-list-setup
      (agent-q-image-changes--columns)
      (lambda () (mapcar #'agent-q-image-changes--row agent-q-image-changes--entries)))
     (tabulated-list-print t)
     (force-mode-line-update)
     (cond ((null agent-q-image-changes--entries)
            (message "%s" (agent-q-image-changes--nothing (plist-get value :total))))
           ((not (string-empty-p agent-q-image-changes--shown))
            (message "%s" (string-trim-left agent-q-image-changes--shown "[, ]+")))))))

(defun agent-q-image-changes--loads-last (rows)
  "Sort ROWS: what can be undone comes first, whole files last."
  (append (seq-remove (lambda (change) (plist-get change :load)) rows)
          (seq-filter (lambda (change) (plist-get change :load)) rows)))

(defun agent-q-image-changes--shown (value)
  "Say how much of the journal is in VALUE, its list; nothing if that is all."
  (let ((shown (length (plist-get value :changes)))
        (listed (or (plist-get value :listed) 0)))
    (concat (if (< shown listed) (format ", %d of %d shown" shown listed) "")
            (if (plist-get value :cut) ", earlier ones aren't kept" ""))))

(defun agent-q-image-changes--nothing (total)
  "Say that nothing is listed, of TOTAL entries in the image."
  (cond ((eql 0 total) "The agent has changed nothing in this image")
        ((agent-q-image-changes--one-chat-p)
         (substitute-command-keys
          (format "\\<agent-q-image-changes-mode-map>This chat has changed nothing here; \
\\[agent-q-image-changes-toggle-all] lists the %d changes of others"
                  total)))
        (t "There is nothing to list")))

(defun agent-q-image-changes--chat-text (name)
  "Return the name of the chat that images know as NAME."
  (let ((buffer (and name
                     (cl-find name (buffer-list) :test #'equal
                              :key (lambda (buffer)
                                     (buffer-local-value 'agent-q-image-chat-name buffer))))))
    (cond (buffer (buffer-name buffer))
          (name (replace-regexp-in-string " [0-9a-f]+\\'" "" name))
          (t ""))))

(defun agent-q-image-changes--columns ()
  "Return the columns of the list; a list of one chat need not name it."
  (append '((10 "Definition" 26 t) (5 "Kind" 14 t) (6 "Change" 10 t) (3 "When" 8 nil)
            (7 "State" 14 t))
          (unless (agent-q-image-changes--one-chat-p) '((8 "Chat" 18 t)))
          '((9 "Form" 0 nil))))

(defun agent-q-image-changes--row (change)
  "Return the row of CHANGE."
  (list (plist-get change :id)
        (vconcat
         (list (plist-get change :name)
               (plist-get change :kind)
               (plist-get change :what)
               (format-seconds "%dd %hh %mm%z%ss" (plist-get change :seconds-ago))
               (cond ((plist-get change :restored) "undone")
                     ((plist-get change :load) "loaded")
                     ((plist-get change :irreversible) "can't be undone")
                     (t "")))
         (unless (agent-q-image-changes--one-chat-p)
           (list (agent-q-image-changes--chat-text (plist-get change :chat))))
         (list (car (split-string (plist-get change :text) "\n"))))))

(defun agent-q-image-changes--at-point ()
  "Return the change at point."
  (or (cl-find (tabulated-list-get-id) agent-q-image-changes--entries
               :key (lambda (change) (plist-get change :id)))
      (user-error "No change here")))

(defun agent-q-image-changes-source ()
  "Show the form that made the change at point."
  (interactive nil agent-q-image-changes-mode)
  (let ((change (agent-q-image-changes--at-point)))
    (with-help-window "*agent-q change*"
      (princ (format "%s %s, %s\n" (plist-get change :kind) (plist-get change :name)
                     (plist-get change :what)))
      (when (plist-get change :was)
        (princ (format "It was %s\n" (plist-get change :was))))
      (when (plist-get change :irreversible)
        (princ (concat (plist-get change :irreversible) "\n")))
      (princ (concat "\n" (plist-get change :text) "\n")))))

;;;; Restoring

(defun agent-q-image-changes-restore ()
  "Restore the definition that the change at point replaced.
Later changes of the same thing are undone too."
  (interactive nil agent-q-image-changes-mode)
  (agent-q-image-changes--restore
   (list :id (plist-get (agent-q-image-changes--at-point) :id))))

(defun agent-q-image-changes-restore-all ()
  "Restore every definition that a listed change replaced in this image.
What another chat has changed since is left alone."
  (interactive nil agent-q-image-changes-mode)
  (when (yes-or-no-p (if (agent-q-image-changes--one-chat-p)
                         "Undo all that this chat changed in this image? "
                       "Undo all that the agent changed in this image? "))
    (agent-q-image-changes--restore (agent-q-image-changes--of-chat))))

(defun agent-q-image-changes--restore (arguments)
  "Restore the definitions that ARGUMENTS name, and refresh the list."
  (agent-q-image-changes--call
   "journal-restore" arguments
   (lambda (value)
     (message "%s" (string-join (plist-get value :results) "\n"))
     (agent-q-image-changes--refresh))))

(provide 'agent-q-image-changes)
;;; agent-q-image-changes.el ends here
