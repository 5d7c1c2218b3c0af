;;; agent-q-context.el --- The context of a chat, to see and change  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Commands that add what the user looks at to the context of the project's chat, and the
;; list of what is in it: what is kept there, and what was attached to messages.

;;; Code:

(require 'agent-q-activity)
(require 'agent-q-attach)
(require 'agent-q-attach-kinds)
(require 'agent-q-chat)
(require 'agent-q-completion)
(require 'agent-q-markdown)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)

;;;; Adding

(defmacro agent-q-context--in-chat (&rest body)
  "Run BODY in the chat of this project, or in this one."
  (declare (indent 0) (debug t))
  `(with-current-buffer (agent-q-context--chat) ,@body))

(defvar-local agent-q-context--of nil
  "The chat that this list is about.")

(defun agent-q-context--chat ()
  "Return the chat that a command here is about."
  (if (buffer-live-p agent-q-context--of)
      agent-q-context--of
    (agent-q-chat-open-here)))

(defun agent-q-context--added (item)
  "Say that ITEM was added, and return it."
  (message "%s is in the context now; it is attached to the next message"
           (agent-q-text-visible-line (agent-q-attach-item-name item) 60))
  item)

;;;###autoload
(defun agent-q-context-add-file (file)
  "Add FILE to the context of this project's chat.
It is attached to the next message, and again when it has changed."
  (interactive "fAdd the file: ")
  (let ((file (expand-file-name file)))
    (when (file-remote-p file)
      (user-error "Files on other machines can't be added; add the buffer"))
    (unless (file-regular-p file)
      (user-error "Cannot add to the context: %s is not a file" (abbreviate-file-name file)))
    (unless (agent-q-attach-kinds-private-allowed-p file)
      (user-error "Nothing was added"))
    (agent-q-context--in-chat
      (agent-q-context--added
       (agent-q-attach-add-mention
        (agent-q-attach-kinds-written
         "file" (if (and agent-q-session-root (file-in-directory-p file agent-q-session-root))
                    (file-relative-name file agent-q-session-root)
                  file)))))))

;;;###autoload
(defun agent-q-context-add-buffer (buffer)
  "Add BUFFER to the context of this project's chat.
It is attached to the next message, and again when it has changed."
  (interactive "bAdd the buffer: ")
  (let ((name (buffer-name (or (get-buffer buffer) (user-error "There is no buffer %s" buffer)))))
    (agent-q-context--in-chat
      (agent-q-context--added
       (agent-q-attach-add-mention (agent-q-attach-kinds-written "buffer" name))))))

(defun agent-q-context--add-look (look)
  "Add LOOK to the context of this project's chat, as it is now."
  (unless (agent-q-attach-kinds-private-allowed-p (agent-q-activity-look-file look))
    (user-error "Nothing was added"))
  (let ((excerpts (agent-q-activity-look-excerpts look)))
    (agent-q-context--in-chat
      (agent-q-context--added
       (agent-q-context-add-item 'code
                                 (mapconcat #'cdr excerpts "\n")
                                 (list :name (agent-q-activity-look-label look)
                                       :file (agent-q-activity-look-file look)
                                       :start-line (agent-q-activity-look-line look)))))))

;;;###autoload
(defun agent-q-context-add-region ()
  "Add the region, as it is now, to the context of this project's chat."
  (interactive)
  (agent-q-context--add-look (agent-q-activity-look-region))
  (deactivate-mark))

;;;###autoload
(defun agent-q-context-add-definition ()
  "Add the definition at point to the context of this project's chat.
What it is now is attached to the next message."
  (interactive)
  (agent-q-context--add-look (agent-q-activity-look-definition)))

(defvar agent-q-context--read-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map minibuffer-local-map)
    (define-key map (kbd "TAB") #'completion-at-point)
    map)
  "Keymap for a mention that is read in the minibuffer.")

(defun agent-q-context--read-mention ()
  "Read a mention, which is completed as at the prompt of this project's chat."
  (let ((chat (agent-q-context--chat)))
    (minibuffer-with-setup-hook (lambda () (agent-q-completion-setup chat))
      (read-from-minibuffer "Add to the context: " "@" agent-q-context--read-map))))

;;;###autoload
(defun agent-q-context-add (mention)
  "Add what MENTION is about to the context of this project's chat.
It is one as at the prompt, such as @error or @symbol:mapcar; what it is about
is attached to the next message, and again when it has changed."
  (interactive (list (agent-q-context--read-mention)))
  (agent-q-context--in-chat
    (agent-q-context--added (agent-q-attach-add-mention (string-trim mention)))))

;;;###autoload
(defun agent-q-context-clear ()
  "Remove everything kept in the context of this project's chat.
What was sent already stays in the conversation."
  (interactive)
  (agent-q-context--in-chat
    (let ((count (length (agent-q-context-items))))
      (cond ((zerop count) (message "Nothing is kept in the context"))
            ((y-or-n-p (format "Remove %d item%s from the context? " count
                               (if (= count 1) "" "s")))
             (agent-q-attach-remove-all)
             (message "The context is empty now"))))))

;;;; The list

(defvar agent-q-context-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map "d" #'agent-q-context-remove)
    (define-key map "a" #'agent-q-context-add)
    (define-key map "C" #'agent-q-context-clear)
    (define-key map (kbd "RET") #'agent-q-context-show)
    (define-key map "o" #'agent-q-context-visit)
    map)
  "Keymap of `agent-q-context-mode'.")

(define-derived-mode agent-q-context-mode tabulated-list-mode "agent-q context"
  "Major mode of the list of what is in the context of a chat.
What is kept is attached to the next message, and again when it has changed.
What was sent with a message is part of the conversation.

\\{agent-q-context-mode-map}"
  (agent-q-text-list-setup
   '((10 "Size" 9 agent-q-context--smaller :right-align t) (8 "State" 20 t) (10 "What" 0 t))
   #'agent-q-context--entries
   "Nothing is in the context yet.\n\n\
Type @ at the prompt of the chat to attach something to a message, or
keep something here: \\<agent-q-context-mode-map>\\[agent-q-context-add], M-x agent-q-context-add-file, \
-add-buffer, -add-region.\n"))

(defun agent-q-context--size (thing)
  "Return how many characters THING, an item or an excerpt, has."
  (length (if (agent-q-attach-kinds-excerpt-p thing) (agent-q-attach-kinds-excerpt-text thing)
            (agent-q-attach-item-content thing))))

(defun agent-q-context--size-text (item)
  "Return how long what ITEM is about was, or is if it was not sent yet."
  (let ((mention (agent-q-attach-item-mention item)))
    (if (and mention (null (agent-q-attach-item-sent item)))
        (or (agent-q-completion-size (car (agent-q-attach-mention-find mention))) "?")
      (agent-q-attach-kinds-excerpt-size (agent-q-context--size item)))))

(defun agent-q-context--smaller (one other)
  "Whether the row ONE is about less than the row OTHER."
  (< (agent-q-context--size (car one)) (agent-q-context--size (car other))))

(defun agent-q-context--state (item)
  "Return in words whether ITEM is going to be sent."
  (cond ((null (agent-q-attach-item-sent item)) "kept, not sent yet")
        ((and (null (agent-q-attach-item-mention item))
              (not (equal (agent-q-attach-item-sent item)
                          (agent-q-attach-kinds-excerpt-text
                           (agent-q-attach-kinds-excerpt-make
                            (agent-q-attach-item-name item) "" (agent-q-attach-item-content item))))))
         "kept, to be sent")
        (t "kept, sent")))

(defun agent-q-context--entries ()
  "Return the rows of the list."
  (when (buffer-live-p agent-q-context--of)
    (with-current-buffer agent-q-context--of
      (append
       (mapcar (lambda (item)
                 (list item
                       (vector (agent-q-context--size-text item)
                               (agent-q-context--state item)
                               (agent-q-text-visible-line (agent-q-attach-item-name item)))))
               (agent-q-context-items))
       (mapcar (pcase-lambda (`(,time . ,excerpt))
                 (list excerpt
                       (vector (agent-q-attach-kinds-excerpt-size (agent-q-context--size excerpt))
                               (format-time-string "sent at %H:%M" time)
                               (agent-q-text-visible-line (agent-q-attach-kinds-excerpt-name excerpt)))))
               agent-q-attach-sent)))))

;;;###autoload
(defun agent-q-context ()
  "Show what is in the context of this project's chat, with sizes.
There you can look at it, add to it and remove from it."
  (interactive)
  (let ((chat (agent-q-context--chat)))
    (pop-to-buffer
     (with-current-buffer (get-buffer-create "*agent-q context*")
       (agent-q-context-mode)
       (setq agent-q-context--of chat
             default-directory (buffer-local-value 'default-directory chat))
       (agent-q-text-list-print)
       (current-buffer)))
    (add-hook 'agent-q-attach-changed-hook #'agent-q-context--follow)))

(defun agent-q-context--follow ()
  "Draw the list again if it is about this chat."
  (let ((list (get-buffer "*agent-q context*"))
        (chat (current-buffer)))
    (when (and list (eq chat (buffer-local-value 'agent-q-context--of list)))
      (with-current-buffer list
        (agent-q-text-list-print)))))

(defun agent-q-context--here ()
  "Return the item or excerpt on this line, or signal an error."
  (or (tabulated-list-get-id) (user-error "Nothing is on this line")))

(defun agent-q-context-remove ()
  "Remove the item on this line from the context."
  (interactive nil agent-q-context-mode)
  (let ((thing (agent-q-context--here)))
    (if (agent-q-attach-kinds-excerpt-p thing)
        (user-error "This was sent with a message, and is part of the conversation")
      (agent-q-context--in-chat
        (agent-q-context-remove-item (agent-q-attach-item-id thing)))
      (message "Removed%s" (if (agent-q-attach-item-sent thing)
                               "; what was sent stays in the conversation" "")))))

(defun agent-q-context--show (name text)
  "Show TEXT in another window, under NAME."
  (with-current-buffer (agent-q-render-body-show "*agent-q text*" (agent-q-text-visible text))
    (setq header-line-format
          (string-replace "%" "%%" (concat " " (agent-q-text-visible-line name))))))

(defun agent-q-context--show-excerpt (excerpt)
  "Show the text of EXCERPT in another window."
  (agent-q-context--show (agent-q-attach-kinds-excerpt-name excerpt) (agent-q-attach-kinds-excerpt-text excerpt)))

(defun agent-q-context--fetch (item function)
  "Call FUNCTION with what ITEM mentions now, an excerpt.
Say so when there is none."
  (with-current-buffer agent-q-context--of
    (agent-q-attach-mention-fetch-all
     (agent-q-attach-mention-find (agent-q-attach-item-mention item))
     (lambda (excerpts problem)
       (if problem (message "%s" problem)
         (funcall function (car excerpts)))))))

(defun agent-q-context-show ()
  "Show the text that is on this line.
For an item that was not sent yet, it is what would be sent now."
  (interactive nil agent-q-context-mode)
  (let ((thing (agent-q-context--here)))
    (cond ((agent-q-attach-kinds-excerpt-p thing)
           (agent-q-context--show-excerpt thing))
          ((and (agent-q-attach-item-mention thing)
                (null (agent-q-attach-item-sent thing)))
           (agent-q-context--fetch thing #'agent-q-context--show-excerpt))
          (t (agent-q-context--show (agent-q-attach-item-name thing)
                                    (agent-q-attach-item-content thing))))))

(defun agent-q-context--file (item)
  "Return the file that ITEM, which has a text of its own, is from, or nil."
  (let ((file (plist-get (agent-q-attach-item-metadata item) :file)))
    (and file
         (not (file-remote-p file))
         (let ((path (expand-file-name file (buffer-local-value 'agent-q-session-root
                                                                agent-q-context--of))))
           (and (file-regular-p path) path)))))

(defun agent-q-context-visit ()
  "Visit the source of the text on this line; show the text if it has none."
  (interactive nil agent-q-context-mode)
  (let* ((thing (agent-q-context--here))
         (visit (lambda (excerpt)
                  (if (agent-q-attach-kinds-excerpt-visit excerpt) (funcall (agent-q-attach-kinds-excerpt-visit excerpt))
                    (agent-q-context--show-excerpt excerpt))))
         (file (and (agent-q-attach-item-p thing) (agent-q-context--file thing))))
    (cond ((agent-q-attach-kinds-excerpt-p thing) (funcall visit thing))
          (file (agent-q-markdown-link-go
                 file (plist-get (agent-q-attach-item-metadata thing) :start-line)))
          ((agent-q-attach-item-mention thing) (agent-q-context--fetch thing visit))
          (t (agent-q-context-show)))))

(provide 'agent-q-context)
;;; agent-q-context.el ends here
