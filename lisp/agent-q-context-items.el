;;; agent-q-context-items.el --- What a chat keeps in its context  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Texts that the user or a program adds to the context of a chat.  They go along with the
;; next message, and again only when they have changed.  An item has a text of its own, or
;; is a mention such as "@file:src/bank.lisp", which is fetched with each message.
;; agent-q-context.el says where the user is; agent-q-context-panel.el shows all.

;;; Code:

(require 'agent-q-excerpt)
(require 'agent-q-mention)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defcustom agent-q-context-max 50
  "Maximum number of items in the context of a chat.
Adding one more drops the oldest; with 0, nothing can be added."
  :type 'natnum
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-context-types '(code text file repl-history error custom)
  "The types of items.")

(cl-defstruct (agent-q-context-item (:constructor agent-q-context-items--make) (:copier nil))
  "Something in the context of a chat.
ID is \"ctx-N\", with another N for each item of this Emacs.  TYPE is one of
`agent-q-context-types', CONTENT a text, METADATA a property list: :file,
:start-line, :end-line, :name.  TIME is when it was added.  MENTION, or nil, is
a mention; CONTENT is then what it was when it was last sent."
  (id nil :read-only t) (type nil :read-only t) content (metadata nil :read-only t)
  (time nil :read-only t) (mention nil :read-only t)
  ;; The text that the model has.
  sent)

(defvar agent-q-context-items--last 0
  "The number of the last item that was made.")

(defvar-local agent-q-context-items--all nil
  "The items of this chat, first one first.")

(defvar-local agent-q-context-sent nil
  "What was attached to messages of this chat, latest first: (TIME . EXCERPT).")

(defvar agent-q-context-changed-hook nil
  "Functions called in a chat whose context has changed.")

;;;; Adding and removing

(defun agent-q-context-add-item (type content &optional metadata)
  "Add CONTENT, a text, to the context of this chat, and return its item.
TYPE is one of `agent-q-context-types', METADATA as in `agent-q-context-item'.
Signal `wrong-type-argument' for another type or content, and a user error when
`agent-q-context-max' is 0."
  (unless (memq type agent-q-context-types)
    (signal 'wrong-type-argument (list 'agent-q-context-types type)))
  (unless (stringp content)
    (signal 'wrong-type-argument (list 'stringp content)))
  (agent-q-context-items--add type content metadata nil))

(defun agent-q-context-add-mention (mention)
  "Add MENTION, such as \"@file:a.lisp\", to the context of this chat.
Return its item.  What it is about is fetched with each message, and sent when
it has changed."
  (let* ((found (agent-q-mention-find mention))
         (name (and found (agent-q-mention-name (car found)))))
    (unless (and found (null (cdr found)) (equal mention name))
      (user-error "%s mentions nothing; try @file:NAME or @error" mention))
    (when (seq-find (lambda (item) (equal name (agent-q-context-item-mention item)))
                    agent-q-context-items--all)
      (user-error "%s is in the context already" name))
    (agent-q-context-items--add
     (pcase (agent-q-mention-kind-name (agent-q-mention-type (car found)))
       ("file" 'file)
       ("error" 'error)
       ("repl" 'repl-history)
       ((or "definition" "diff") 'code)
       (_ 'text))
     "" (list :name name) name)))

(defun agent-q-context-items--add (type content metadata mention)
  "Add an item of TYPE with CONTENT, METADATA and MENTION, and return it."
  (agent-q-session-check)
  (unless (< 0 agent-q-context-max)
    (user-error "Nothing added: `agent-q-context-max' is 0"))
  (let ((item (agent-q-context-items--make
               :id (format "ctx-%d" (cl-incf agent-q-context-items--last))
               :type type :content content :metadata metadata :mention mention
               :time (current-time))))
    (setq agent-q-context-items--all
          (last (append agent-q-context-items--all (list item)) agent-q-context-max))
    (run-hooks 'agent-q-context-changed-hook)
    item))

(defun agent-q-context-items (&optional types limit)
  "Return the items in the context of this chat, first one first.
TYPES, a list, and LIMIT, for the last ones, leave out others."
  (let ((items (if types
                   (seq-filter (lambda (item) (memq (agent-q-context-item-type item) types))
                               agent-q-context-items--all)
                 agent-q-context-items--all)))
    (if limit (last items limit) (copy-sequence items))))

(defun agent-q-context-remove-item (id)
  "Remove the item ID from the context of this chat.
Return non-nil if it was there.  What was sent of it stays in the conversation."
  (let ((item (seq-find (lambda (item) (equal id (agent-q-context-item-id item)))
                        agent-q-context-items--all)))
    (when item
      (setq agent-q-context-items--all (remq item agent-q-context-items--all))
      (run-hooks 'agent-q-context-changed-hook)
      t)))

(defun agent-q-context-remove-all ()
  "Remove all items from the context of this chat."
  (setq agent-q-context-items--all nil)
  (run-hooks 'agent-q-context-changed-hook))

;;;; Saving

(defun agent-q-context-plain ()
  "Return what is kept in the context of this chat as alists, for JSON."
  (mapcar
   (lambda (item)
     (let ((metadata (agent-q-context-item-metadata item))
           (mention (agent-q-context-item-mention item)))
       `((type . ,(symbol-name (agent-q-context-item-type item)))
         (added . ,(format-time-string "%s" (agent-q-context-item-time item)))
         ,(if mention `(mention . ,(agent-q-text-clean mention))
            `(content . ,(agent-q-text-clean (agent-q-context-item-content item))))
         ,@(cl-loop for (key value) on metadata by #'cddr
                    when (and (memq key '(:file :name)) (stringp value))
                    collect (cons (intern (substring (symbol-name key) 1))
                                  (agent-q-text-clean value))
                    when (and (memq key '(:start-line :end-line)) (natnump value))
                    collect (cons (intern (substring (symbol-name key) 1)) value)))))
   agent-q-context-items--all))

(defun agent-q-context-restore (saved)
  "Put SAVED before what is in the context of this chat.
SAVED is what `agent-q-context-plain' returned.  What can't be understood of it
is left out."
  (setq agent-q-context-items--all
        (last (append (delq nil (mapcar #'agent-q-context-items--restored saved))
                      agent-q-context-items--all)
              agent-q-context-max))
  (run-hooks 'agent-q-context-changed-hook))

(defun agent-q-context-items--restored (saved)
  "Return the item that was saved as SAVED, an alist, or nil."
  (let* ((text (lambda (key) (let ((value (alist-get key saved)))
                               (and (stringp value) value))))
         (number (lambda (key) (let ((value (alist-get key saved)))
                                 (and (natnump value) value))))
         (type (seq-find (lambda (type) (equal (symbol-name type) (alist-get 'type saved)))
                         agent-q-context-types))
         (mention (funcall text 'mention))
         (content (if mention "" (funcall text 'content))))
    (when (and type content)
      (agent-q-context-items--make
       :id (format "ctx-%d" (cl-incf agent-q-context-items--last))
       :type type :content content :mention mention
       :time (seconds-to-time (string-to-number (or (funcall text 'added) "0")))
       :metadata (cl-loop for (key . value) in `((:file . ,(funcall text 'file))
                                                 (:start-line . ,(funcall number 'start-line))
                                                 (:end-line . ,(funcall number 'end-line))
                                                 (:name . ,(funcall text 'name)))
                          when value append (list key value))))))

;;;; In words

(defun agent-q-context-item-name (item)
  "Return what ITEM is called: its mention, name, file with lines or type."
  (let* ((metadata (agent-q-context-item-metadata item))
         (file (plist-get metadata :file))
         (start (plist-get metadata :start-line))
         (end (plist-get metadata :end-line)))
    (cond ((agent-q-context-item-mention item))
          ((plist-get metadata :name))
          (file (concat file (if (and start end) (format ":%s-%s" start end) "")))
          (t (agent-q-context-items--type item)))))

(defun agent-q-context-items--type (item)
  "Return the type of ITEM as a word of a title, such as \"Repl-History\"."
  (capitalize (symbol-name (agent-q-context-item-type item))))

(defun agent-q-context-summary ()
  "Return (:count N :types LIST :preview TEXT) on the context of this chat."
  (let ((items agent-q-context-items--all))
    (list :count (length items)
          :types (mapcar #'agent-q-context-item-type items)
          :preview (if (null items) "No context"
                     (format "%d item%s: %s" (length items) (if (cdr items) "s" "")
                             (mapconcat #'agent-q-context-items--type items ", "))))))

(defun agent-q-context-to-string ()
  "Return the context of this chat as Markdown."
  (concat "## Context\n\n"
          (mapconcat
           (lambda (item)
             (let* ((content (agent-q-context-item-content item))
                    (fence (make-string (agent-q-context-items--fence content) ?`))
                    (name (agent-q-context-item-name item))
                    (type (agent-q-context-items--type item)))
               (format "### %s%s\n%slisp\n%s\n%s\n\n" type
                       (if (equal name type) "" (format " (from %s)" name))
                       fence content fence)))
           agent-q-context-items--all "")))

(defun agent-q-context-items--fence (content)
  "Return how many backquotes around CONTENT nothing in it ends."
  (let ((most 2) (from 0))
    (while (string-match "`+" content from)
      (setq most (max most (- (match-end 0) (match-beginning 0)))
            from (match-end 0)))
    (1+ most)))

;;;; Sending

(defun agent-q-context-items--excerpt (item)
  "Return the excerpt of ITEM, which has a text of its own."
  (agent-q-excerpt-make (agent-q-context-item-name item)
                        (format "%s, kept in the context by the user"
                                (agent-q-context-item-name item))
                        (agent-q-context-item-content item)))

(defun agent-q-context-items-fetch (function)
  "Call FUNCTION with what of this chat's context the model doesn't have.
It gets conses of item and excerpt, and sentences on what is missing.  It may
be called before this returns."
  (let* ((chat (current-buffer))
         (items agent-q-context-items--all)
         (left (length items))
         (found nil) (problems nil))
    (cl-flet ((done (item excerpt problem)
                (when (buffer-live-p chat)
                  (when excerpt
                    (setf (agent-q-context-item-content item) (agent-q-excerpt-text excerpt))
                    (unless (equal (agent-q-excerpt-text excerpt) (agent-q-context-item-sent item))
                      (push (cons item excerpt) found)))
                  (when problem (push problem problems))
                  (when (zerop (cl-decf left))
                    (with-current-buffer chat
                      (funcall function
                               (sort found (lambda (one other)
                                             (< (seq-position items (car one))
                                                (seq-position items (car other)))))
                               (nreverse problems)))))))
      (if (null items)
          (funcall function nil nil)
        (dolist (item items)
          (if (agent-q-context-item-mention item)
              (agent-q-mention-fetch-all
               (agent-q-mention-find (agent-q-context-item-mention item))
               (lambda (excerpts problem) (done item (car excerpts) problem)))
            (done item (agent-q-context-items--excerpt item) nil)))))))

(defun agent-q-context-note-sent (pairs excerpts)
  "Note that EXCERPTS were attached to a message, and PAIRS of item and excerpt."
  (pcase-dolist (`(,item . ,excerpt) pairs)
    (setf (agent-q-context-item-sent item) (agent-q-excerpt-text excerpt)))
  (dolist (excerpt excerpts)
    (push (cons (current-time) excerpt) agent-q-context-sent))
  (run-hooks 'agent-q-context-changed-hook))

(defun agent-q-context-forget-sent ()
  "Have all items of this chat sent again, as the model may not have them any more."
  (dolist (item agent-q-context-items--all)
    (setf (agent-q-context-item-sent item) nil))
  (run-hooks 'agent-q-context-changed-hook))

(provide 'agent-q-context-items)
;;; agent-q-context-items.el ends here
