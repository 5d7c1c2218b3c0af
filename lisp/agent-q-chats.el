;;; agent-q-chats.el --- Stored and open chats: resuming, naming, listing them  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Going back to chats that were closed: by completion, from a list, by bookmarks and
;; `desktop'; and renaming, deleting, forking and exporting them.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-chat)
(require 'agent-q-chat-commands)
(require 'agent-q-chat-history)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-image)
(require 'agent-q-module)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'bookmark)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Stored chats

(defconst agent-q-chats--most 500
  "Most chats that are offered at a time.")

;;;;; Finding one

(defun agent-q-chats-find (query function)
  "Find the chats with all words of QUERY in their names or texts, by time.
FUNCTION is called in this buffer with them, a list of alists, and with what is
wrong, a sentence or nil."
  (agent-q-chat-history-ask
   "search"
   (lambda (answer problem)
     (funcall function (alist-get 'chats answer)
              (or problem (agent-q-chats--left-out answer))))
   `(query . ,query) `(limit . ,agent-q-chats--most)))

(defun agent-q-chats--left-out (answer)
  "Return what is not among the chats of ANSWER, as text, or nil."
  (let* ((count (length (alist-get 'chats answer)))
         (unreadable (alist-get 'unreadable answer))
         (sentences
          (delq nil
                (list (and (alist-get 'more answer)
                           (format "Showing the latest %d; there are more" count))
                      (and (< 0 unreadable) (zerop count) "No chat was found")
                      (and (< 0 unreadable)
                           (format "%d %s can't be read as %s"
                                   unreadable
                                   (if (= unreadable 1) "file" "files")
                                   (if (= unreadable 1) "a chat" "chats")))))))
    (and sentences (string-join sentences "; "))))

(defun agent-q-chats-buffer (id)
  "Return the buffer of the chat ID if it is open here, or nil."
  (seq-find (lambda (buffer)
              (equal id (buffer-local-value 'agent-q-chat-history-id buffer)))
            (agent-q-session-buffers)))

(defun agent-q-chats-title (chat)
  "Return the name of CHAT, an alist, or a title by its first message."
  (if-let ((name (alist-get 'name chat)))
      (agent-q-text-visible-line name 70)
    (agent-q-text-title (or (alist-get 'words chat) "") (alist-get 'along chat))))

(defun agent-q-chats-date (chat)
  "Return when something happened in CHAT, an alist, last."
  (format-time-string "%F %R" (/ (alist-get 'latest chat) 1000)))

(defun agent-q-chats--candidates (chats)
  "Return an alist from texts for completion to CHATS."
  (let ((seen (make-hash-table :test 'equal)))
    (mapcar (lambda (chat)
              (let* ((title (agent-q-chats-title chat))
                     (title (if (string-empty-p title) (alist-get 'id chat) title))
                     (count (puthash title (1+ (gethash title seen 0)) seen)))
                (cons (if (> count 1) (format "%s <%d>" title count) title) chat)))
            chats)))

(defun agent-q-chats--annotation (chat)
  "Return what stands behind CHAT, an alist, in completions."
  (concat (propertize " " 'display '(space :align-to 50))
          (agent-q-text-visible-line
           (string-join (delq nil (list (agent-q-chats-date chat)
                                        (alist-get 'project chat)
                                        (alist-get 'model chat)
                                        (alist-get 'excerpt chat)))
                        "  ")
           ;; What doesn't fit would be broken anywhere.
           (max 20 (- (frame-width) 54)))))

(defun agent-q-chats--choose (prompt chats)
  "Ask the user with PROMPT for one of CHATS and return it."
  (let* ((candidates (agent-q-chats--candidates chats))
         (chat (lambda (text) (cdr (assoc text candidates))))
         ;; Of a title, one remembers any word.
         (completion-styles (append completion-styles '(substring)))
         (text (completing-read
                (format-prompt prompt (truncate-string-to-width (caar candidates) 40 nil nil "..."))
                (lambda (string predicate action)
                  (if (eq action 'metadata)
                      ;; As they are: by time.
                      `(metadata (display-sort-function . identity)
                                 (cycle-sort-function . identity)
                                 (annotation-function
                                  . ,(lambda (text)
                                       (agent-q-chats--annotation (funcall chat text)))))
                    (complete-with-action action candidates string predicate)))
                nil t nil nil (caar candidates))))
    (or (funcall chat text)
        (user-error "No chat was chosen"))))

;;;;; Resuming

(defun agent-q-chats-open (id name root)
  "Return the buffer of the chat ID, which is opened if it isn't yet.
NAME is what it is called, or nil, and ROOT the root of its project, or nil."
  (or (agent-q-chats-buffer id)
      (agent-q-chat-resume id name root)))

(defun agent-q-chats-root (chat)
  "Return the root of the project of CHAT, an alist, or nil.
The agent may read all files there, so what a chat says that another Emacs
wrote counts only if the user agrees."
  (let ((root (alist-get 'root chat))
        ;; Outside a command, Emacs would ask in a dialog or a menu.
        (use-dialog-box nil))
    (when (and root
               (not (file-remote-p root))
               (file-directory-p root)
               (or (alist-get 'root_known chat)
                   (equal root (agent-q-project-directory))
                   (y-or-n-p (format "This chat, which another Emacs wrote, says that its project is %s.  \
Open it there? "
                                     (agent-q-text-visible-line root 5000)))))
      root)))

(defun agent-q-chats-go (chat)
  "Go to CHAT, an alist, which is opened if it isn't yet."
  (let ((id (alist-get 'id chat)))
    (pop-to-buffer (or (agent-q-chats-buffer id)
                       (agent-q-chat-resume id (agent-q-chats-title chat)
                                            (agent-q-chats-root chat)))))
  (goto-char (point-max)))

;;;###autoload
(defun agent-q-resume (&optional words)
  "Choose a saved chat and continue it.
With a prefix argument, offer those that have WORDS in their names or texts."
  (interactive (list (and current-prefix-arg (read-string "Chats with the words: "))))
  ;; What is typed until then is for the choice, not for the buffer at hand.
  (pcase-let ((`(,chats ,problem) (agent-q-chats--found-now (or words ""))))
    (cond ((and problem (null chats)) (message "%s" problem))
          ((null chats)
           (message (if (or (null words) (string-blank-p words)) "No chat was saved yet"
                      "No chat matches")))
          (t (agent-q-chats-go
              (agent-q-chats--choose (if problem (format "Resume (%s)" problem) "Resume")
                                     chats))))))

(defun agent-q-chats--found-now (query)
  "Return the chats for QUERY, and what is wrong, as a list.
Wait for what `agent-q-chats-find' has to tell."
  (let ((found nil))
    (agent-q-chats-find query (lambda (chats problem) (setq found (list chats problem))))
    (while (not found)
      (accept-process-output nil 0.05))
    found))

;;;;; Continuing the last one

;; A new chat offers the latest one of its project, with what was changed since.

(defvar agent-q-chats-recent 50
  "How many of the latest chats are looked at for one of the same project.")

(defun agent-q-chats-offer-last ()
  "Offer in the first lines of this new chat the latest chat of its project.
It isn't when that is open already."
  (agent-q-chat-history-ask
   "search"
   (lambda (answer _problem)
     (when-let* ((root (and (agent-q-chat-view-welcome-shown-p) agent-q-session-root))
                 (chat (seq-find (lambda (chat)
                                   (and (equal root (alist-get 'root chat))
                                        (alist-get 'root_known chat)
                                        (< 0 (alist-get 'turns chat))
                                        (not (string-empty-p (agent-q-chats-title chat)))
                                        (not (agent-q-chats-buffer (alist-get 'id chat)))))
                                 (alist-get 'chats answer))))
       (agent-q-chats--offer chat nil nil)
       (agent-q-chats--since-in-files chat)))
   '(query . "") `(limit . ,agent-q-chats-recent)))

(defun agent-q-chats--since-in-files (chat)
  "Find out which files were changed since CHAT, then about the image."
  (agent-q-chat-history-ask
   "changed_since"
   (lambda (answer _problem)
     (agent-q-chats--since-in-image chat (alist-get 'files answer)))
   `(root . ,(alist-get 'root chat)) `(since . ,(alist-get 'latest chat))))

(defun agent-q-chats--since-in-image (chat files)
  "Find out what agents changed in the image since CHAT, then offer CHAT.
FILES were changed since."
  (let ((here (current-buffer))
        (since (- (float-time) (/ (alist-get 'latest chat) 1000.0))))
    (if (not (agent-q-connection-live-p agent-q-session-connection))
        (agent-q-chats--offer chat files nil)
      (agent-q-image-query
       agent-q-session-connection "journal-list" '(:limit 1000)
       (lambda (reply &rest _)
         (when (buffer-live-p here)
           (with-current-buffer here
             (agent-q-chats--offer
              chat files
              (pcase reply
                (`(:outcome :returned :value ,value . ,_)
                 (seq-filter (lambda (change)
                               ;; These are whole seconds; what the chat's own last turn
                               ;; did must not count.
                               (and (< (1+ (plist-get change :seconds-ago)) since)
                                    (not (plist-get change :restored))))
                             (plist-get value :changes))))))))))))

(defun agent-q-chats--offer (chat files changes)
  "Offer CHAT in the first lines of this chat, while it is empty.
FILES were changed since, and in the image CHANGES, entries of its journal."
  (when (agent-q-chat-view-welcome-shown-p)
    (setq agent-q-chat-view-welcome-earlier
          (list (agent-q-chats-title chat)
                (agent-q-chats-date chat)
                (agent-q-chats--since files changes)
                (lambda () (agent-q-chats--continue chat))))
    (agent-q-chat-view-welcome-update)))

(defun agent-q-chats--since (files entries)
  "Return which FILES were changed, and what ENTRIES are about, as text or nil."
  (let ((parts (delq nil
                     (list (agent-q-chats--since-part
                            "" "file" (mapcar #'file-name-nondirectory files))
                           (agent-q-chats--since-part
                            "in the image " "definition"
                            (delete-dups (mapcar (lambda (entry) (plist-get entry :name))
                                                 entries)))))))
    (and parts (concat "changed since: " (string-join parts "; ")))))

(defun agent-q-chats--since-part (where what names)
  "Return as text how many NAMES there are of WHAT in WHERE; nil if none."
  (when names
    (let ((count (length names)))
      (format "%s%d %s%s (%s%s)" where count what (if (= count 1) "" "s")
              (mapconcat (lambda (name) (agent-q-text-visible-line name 30))
                         (seq-take names 3) ", ")
              (if (> count 3) ", ..." "")))))

(defun agent-q-chats--continue (chat)
  "Go to CHAT, an alist, in place of this new chat."
  (let ((new (current-buffer))
        (display-buffer-overriding-action '(display-buffer-same-window)))
    (agent-q-chats-go chat)
    (with-current-buffer new
      (when (and (agent-q-chat-view-welcome-shown-p) (string-blank-p (agent-q-prompt-text)))
        (kill-buffer)))))

;;;;; What can be done with one

(defun agent-q-chats--here ()
  "Return the id of the chat of this buffer; signal an error if it has none."
  (agent-q-session-check)
  (or agent-q-chat-history-id
      (user-error "This chat is not saved; see `agent-q-save-chats'")))

(defun agent-q-chats--told (what &optional function)
  "Return a function that takes an answer of the core.
It calls FUNCTION with the answer, and says WHAT, or what went wrong."
  (lambda (answer problem)
    (if problem (message "%s" problem)
      (when what (message "%s" what))
      (when function (funcall function answer)))))

;;;###autoload
(defun agent-q-rename-chat (name)
  "Give the current chat NAME; with an empty one, remove its name."
  (interactive (progn (agent-q-chats--here)
                      (list (read-string "Name of this chat: " agent-q-chat-history-past-name))))
  (agent-q-chats-rename (agent-q-chats--here) name))

(defun agent-q-chats-rename (id name &optional function)
  "Give the chat ID NAME; FUNCTION is called when that is done."
  (let* ((name (agent-q-text-visible-line
                (string-trim (replace-regexp-in-string "[ \t\n]+" " " name)) 200))
         (buffer (agent-q-chats-buffer id)))
    (agent-q-chat-history-ask
     "rename"
     (agent-q-chats--told
      nil
      (lambda (_answer)
        (when (buffer-live-p buffer)
          (with-current-buffer buffer
            (setq agent-q-chat-history-past-name (unless (string-empty-p name) name))
            (agent-q-chat-history-name-buffer)))
        (when function (funcall function))))
     `(id . ,id) `(name . ,name))))

;;;###autoload
(defun agent-q-fork-chat ()
  "Continue in a new chat that begins like the current one.
Files and the image stay as they are."
  (interactive)
  (agent-q-chats-fork (agent-q-chats--here) nil
                      (agent-q-chat-history-called) agent-q-session-root))

;;;###autoload
(defun agent-q-chats-fork-here ()
  "Continue in a new chat from before the message; leave all else as it is.
This is for the buffer that shows what going back to it would do."
  (interactive nil agent-q-chat-history-rewind-mode)
  (let ((plan (agent-q-chat-history-rewind-take)))
    (with-current-buffer (agent-q-chat-history-rewind-plan-chat plan)
      (agent-q-chats-fork (agent-q-chats--here) (agent-q-chat-history-rewind-plan-turn plan)
                          (agent-q-chat-history-called) agent-q-session-root
                          (agent-q-chat-history-rewind-plan-text plan)))))

(defun agent-q-chats-fork (id before name root &optional text)
  "Make a chat that begins as chat ID did before the turn BEFORE, and go there.
BEFORE is its number, or nil for all of it.  NAME and ROOT are as in
`agent-q-chats-open'; TEXT is put at its prompt."
  (agent-q-chat-history-ask
   "fork"
   (agent-q-chats--told
    nil
    (lambda (answer)
      (pop-to-buffer (agent-q-chats-open (alist-get 'id answer) name root))
      (goto-char (point-max))
      (when text (agent-q-prompt-replace text))))
   `(id . ,id) `(before . ,(or before :null))))

;;;###autoload
(defun agent-q-export-chat (file)
  "Write the current chat to FILE as Markdown."
  (interactive (progn (agent-q-chats--here) (list (agent-q-chats-read-file))))
  (agent-q-chats-export (agent-q-chats--here) file))

(defun agent-q-chats-read-file ()
  "Ask for a file to write Markdown to."
  (let ((file (read-file-name "Write this chat to: " nil nil nil "chat.md")))
    (when (file-directory-p file)
      (user-error "%s is a directory" file))
    (when (and (file-exists-p file)
               (not (y-or-n-p (format "%s exists; replace it? " file))))
      (user-error "Nothing was written"))
    file))

(defun agent-q-chats-export (id file)
  "Write the chat ID to FILE as Markdown."
  (agent-q-chat-history-ask
   "export" (agent-q-chats--told (format "Wrote %s" file))
   `(id . ,id) `(file . ,(expand-file-name file))))

(defun agent-q-chats-delete (id title &optional function)
  "Move the file of the chat ID, called TITLE, to the trash, if the user agrees.
FUNCTION is called when that is done, or can't be."
  (when (y-or-n-p (format "Move the chat \"%s\" to the trash? " title))
    (when-let ((buffer (agent-q-chats-buffer id)))
      (kill-buffer buffer))
    (agent-q-chat-history-ask
     "deletable"
     (lambda (answer problem)
       (unless problem
         (move-file-to-trash (alist-get 'file answer)))
       (message "%s" (or problem "Moved to the trash"))
       (when function (funcall function)))
     `(id . ,id))))

;;;###autoload
(defun agent-q-delete-chat ()
  "Move the current chat to the trash."
  (interactive)
  (agent-q-chats-delete (agent-q-chats--here) (buffer-name)))

;;;;; Bookmarks and desktop

(defvar desktop-save-buffer)

;;;###autoload (add-hook 'agent-q-chat-mode-hook #'agent-q-chats-set-up)
;;;###autoload (add-to-list 'desktop-buffer-mode-handlers '(agent-q-chat-mode . agent-q-chats-desktop-restore))

;;;###autoload
(defun agent-q-chats-set-up ()
  "Let bookmarks, `desktop' and the keys of a rewind know this chat.
Where it is a new one, offer the latest one of its project."
  (agent-q-chats-offer-last)
  (setq-local bookmark-make-record-function #'agent-q-chats-bookmark
              desktop-save-buffer #'agent-q-chats-desktop-data)
  (define-key agent-q-chat-history-rewind-mode-map "F" #'agent-q-chats-fork-here))

(defun agent-q-chats-bookmark ()
  "Return a bookmark of this chat."
  `(,(or (agent-q-chat-history-called) (buffer-name))
    (handler . agent-q-chats-jump)
    (filename . ,(agent-q-chat-history-folder))
    (agent-q-id . ,(agent-q-chats--here))
    (agent-q-name . ,(agent-q-chat-history-called))
    (agent-q-root . ,agent-q-session-root)))

;;;###autoload
(defun agent-q-chats-jump (bookmark)
  "Go to the chat of BOOKMARK."
  (set-buffer (agent-q-chats-open (bookmark-prop-get bookmark 'agent-q-id)
                                  (bookmark-prop-get bookmark 'agent-q-name)
                                  (bookmark-prop-get bookmark 'agent-q-root))))

(defun agent-q-chats-desktop-data (_directory)
  "Return what `desktop' is to save of this chat."
  (list :id agent-q-chat-history-id :name (agent-q-chat-history-called)
        :root agent-q-session-root))

;;;###autoload
(defun agent-q-chats-desktop-restore (_file _name data)
  "Open the chat that `desktop' saved DATA of."
  (when (plist-get data :id)
    (agent-q-chats-open (plist-get data :id) (plist-get data :name)
                        (plist-get data :root))))

;;;; The list of chats

;; All chats in one list: those that are open with what they do, and those that were
;; saved.  A key goes there, others rename, delete, fork and export.

(defvar-local agent-q-chats--list-words ""
  "The words that the listed chats have; empty for all.")

(defvar-local agent-q-chats--list-stored nil
  "The stored chats, alists, the latest first.")

(defvar agent-q-chats-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-chats-list-go)
    (define-key map "s" #'agent-q-chats-list-search)
    (define-key map "r" #'agent-q-chats-list-rename)
    (define-key map "d" #'agent-q-chats-list-delete)
    (define-key map "f" #'agent-q-chats-list-fork)
    (define-key map "e" #'agent-q-chats-list-export)
    map)
  "Keymap of `agent-q-chats-list-mode'.")

(define-derived-mode agent-q-chats-list-mode tabulated-list-mode "agent-q chats"
  "Major mode of the list of chats, those that are open and those that were saved.

\\<agent-q-chats-list-mode-map>\\[agent-q-chats-list-go] goes to the chat at point, \
\\[agent-q-chats-list-search] lists those with words in their texts;
\\[agent-q-chats-list-rename] renames, \\[agent-q-chats-list-delete] deletes, \
\\[agent-q-chats-list-fork] forks, and \\[agent-q-chats-list-export] exports.

\\{agent-q-chats-list-mode-map}"
  (setq mode-line-process '(:eval (if (string-empty-p agent-q-chats--list-words)
                                      agent-q-text-list-hint
                                    (format " with \"%s\"" agent-q-chats--list-words)))
        revert-buffer-function #'agent-q-chats--list-refresh))

;;;###autoload
(defun agent-q-chats ()
  "List all chats: those that are open, and those that were saved."
  (interactive)
  (pop-to-buffer (get-buffer-create "*agent-q chats*"))
  (unless (derived-mode-p 'agent-q-chats-list-mode)
    (agent-q-chats-list-mode))
  (agent-q-chats--list-refresh))

(defun agent-q-chats--list-refresh (&rest _)
  "Ask the core for the stored chats and show all."
  (agent-q-chats-find
   agent-q-chats--list-words
   (lambda (chats problem)
     (setq agent-q-chats--list-stored chats)
     (agent-q-text-list-setup (agent-q-chats--list-columns) #'agent-q-chats--list-rows
                              (if (string-empty-p agent-q-chats--list-words)
                                  "There is no chat yet; M-x agent-q-chat opens one.\n"
                                "No chat matches; \\[agent-q-chats-list-search] searches again.\n"))
     (agent-q-text-list-print)
     (force-mode-line-update)
     (when problem (message "%s" problem)))))

(defun agent-q-chats--list-columns ()
  "Return the columns of the list; where all chats are of a project, without it."
  (let* ((rows (agent-q-chats--list-rows))
         (project (lambda (row) (aref (cadr row) 2)))
         (one (seq-every-p (lambda (row)
                             (equal (funcall project row) (funcall project (car rows))))
                           rows)))
    `((10 "State" 12 t) (9 "When" 16 t) (,(if one 0 8) "Project" 12 t :most 24) (4 "Image" 12 t)
      (3 "Model" 14 t :most 30) (2 "Turns" 5 nil :right-align t) (5 "Tokens" 7 nil :right-align t)
      (7 "Cost" 9 nil :right-align t) (11 "Chat" 0 nil :least 34))))

;;;;; Rows

(defun agent-q-chats--list-rows ()
  "Return the rows: chats that wait for the user, open ones, stored ones."
  (let* ((open (agent-q-session-buffers))
         (stored (seq-remove (lambda (chat) (agent-q-chats-buffer (alist-get 'id chat)))
                             agent-q-chats--list-stored)))
    (append
     (seq-sort-by (lambda (row) (if (get-text-property 0 'face (aref (cadr row) 0)) 0 1)) #'<
                  (delq nil (mapcar #'agent-q-chats--list-open-row open)))
     (mapcar (lambda (chat) (agent-q-chats--list-row chat "")) stored))))

(defun agent-q-chats--list-open-row (buffer)
  "Return the row of the open chat BUFFER, or nil when it hasn't the words."
  (let ((chat (agent-q-chats--list-stored-one
               (buffer-local-value 'agent-q-chat-history-id buffer))))
    (when (or chat (string-empty-p agent-q-chats--list-words))
      (with-current-buffer buffer
        (let ((live `((id . ,buffer)
                      (name . ,agent-q-chat-history-past-name)
                      (project . ,agent-q-session-project)
                      (root . ,agent-q-session-root)
                      (image . ,(and (agent-q-connection-live-p agent-q-session-connection)
                                     (agent-q-connection-label agent-q-session-connection)))
                      (model . ,agent-q-chat-view-header-model)
                      (input . ,agent-q-chat-view-header-input)
                      (output . ,agent-q-chat-view-header-output)
                      (cost . ,agent-q-chat-view-header-cost)
                      (unpriced . ,agent-q-chat-view-header-unpriced))))
          (agent-q-chats--list-row (append live chat) (agent-q-chats--list-state)))))))

(defun agent-q-chats--list-state ()
  "Return what the chat of this buffer does, as text."
  (cond ((agent-q-call-waiting)
         (propertize "needs you" 'face 'agent-q-attention))
        ((eq agent-q-chat-view-header-state :paused) (propertize "continue?" 'face 'agent-q-attention))
        ((agent-q-chat-view-header-busy-p) "works")
        (agent-q-chat-history-busy "read only")
        (t "open")))

(defun agent-q-chats--list-row (chat state)
  "Return the row of CHAT, an alist, whose STATE is a text."
  (let ((text (lambda (key)
                (agent-q-text-visible-line (or (alist-get key chat) "") 60))))
    (list (alist-get 'id chat)
          (vector state
                  (if (alist-get 'latest chat) (agent-q-chats-date chat) "")
                  (funcall text 'project)
                  (funcall text 'image)
                  (funcall text 'model)
                  (number-to-string (or (alist-get 'turns chat) 0))
                  (agent-q-chat-view-header-tokens (+ (alist-get 'input chat) (alist-get 'output chat)))
                  (agent-q-chat-commands-cost-text (alist-get 'cost chat) (alist-get 'unpriced chat))
                  (agent-q-chats--list-chat-text chat)))))

(defun agent-q-chats--list-chat-text (chat)
  "Return the title of CHAT, an alist, and the words around what was found."
  (let ((waiting (and (bufferp (alist-get 'id chat))
                      (with-current-buffer (alist-get 'id chat) (agent-q-call-waiting))))
        (excerpt (alist-get 'excerpt chat)))
    (concat (if waiting (format "%s? " (agent-q-call-name waiting)) "")
            (if (string-empty-p (agent-q-chats-title chat))
                (propertize "nothing said yet" 'face 'agent-q-dim)
              (agent-q-chats-title chat))
            (if excerpt
                (propertize (format "  %s" (agent-q-text-visible-line excerpt 100))
                            'face 'agent-q-dim)
              ""))))

;;;;; Commands

(defun agent-q-chats--list-at-point ()
  "Return the chat at point as an alist; its id is that of its file, or nil."
  (let ((id (or (tabulated-list-get-id) (user-error "No chat here"))))
    (if (bufferp id)
        (append (with-current-buffer id
                  `((id . ,agent-q-chat-history-id) (buffer . ,id) (name . ,agent-q-chat-history-past-name)
                    (root . ,agent-q-session-root)))
                (agent-q-chats--list-stored-one
                 (buffer-local-value 'agent-q-chat-history-id id)))
      (agent-q-chats--list-stored-one id))))

(defun agent-q-chats--list-stored-one (id)
  "Return the stored chat ID as an alist, or nil if it isn't listed."
  (and id (seq-find (lambda (chat) (equal id (alist-get 'id chat)))
                    agent-q-chats--list-stored)))

(defun agent-q-chats--list-saved-at-point ()
  "Return the chat at point as an alist, which has to be saved."
  (let ((chat (agent-q-chats--list-at-point)))
    (unless (alist-get 'id chat)
      (user-error "This chat is not saved"))
    chat))

(defun agent-q-chats-list-go ()
  "Go to the chat at point."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats--list-at-point)))
    (if (alist-get 'buffer chat) (pop-to-buffer (alist-get 'buffer chat))
      (agent-q-chats-go chat))))

(defun agent-q-chats-list-search (words)
  "List the chats that have all WORDS in their names or texts; all without any."
  (interactive (list (read-string "Chats with the words: ")) agent-q-chats-list-mode)
  (setq agent-q-chats--list-words words)
  (agent-q-chats--list-refresh))

(defun agent-q-chats--list-afterwards ()
  "Return a function to draw the list again."
  (let ((buffer (current-buffer)))
    (lambda ()
      (when (buffer-live-p buffer)
        (with-current-buffer buffer (agent-q-chats--list-refresh))))))

(defun agent-q-chats-list-rename ()
  "Rename the chat at point."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats--list-saved-at-point)))
    (agent-q-chats-rename (alist-get 'id chat)
                          (read-string "Name of this chat: " (alist-get 'name chat))
                          (agent-q-chats--list-afterwards))))

(defun agent-q-chats-list-delete ()
  "Move the chat at point to the trash."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats--list-saved-at-point)))
    (agent-q-chats-delete (alist-get 'id chat) (agent-q-chats-title chat)
                          (agent-q-chats--list-afterwards))))

(defun agent-q-chats-list-fork ()
  "Continue in a new chat that begins like the one at point."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats--list-saved-at-point)))
    (agent-q-chats-fork (alist-get 'id chat) nil (agent-q-chats-title chat)
                        (agent-q-chats-root chat))))

(defun agent-q-chats-list-export ()
  "Write the chat at point to a file as Markdown."
  (interactive nil agent-q-chats-list-mode)
  (let ((chat (agent-q-chats--list-saved-at-point)))
    (agent-q-chats-export (alist-get 'id chat) (agent-q-chats-read-file))))

(provide 'agent-q-chats)
;;; agent-q-chats.el ends here
