;;; agent-q-changes.el --- What a turn or the agent changed, and undoing it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core keeps what each turn of a chat changed in files and buffers, an
;; image what it changed there.  Undoing a turn puts files and buffers back;
;; a button in the chat undoes what it changed in the image.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-json)
(require 'agent-q-names)
(require 'agent-q-project)
(require 'agent-q-render)
(require 'agent-q-review)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; What the agent changed in the image

;; The journal of an image as a list: each definition that the agent made or
;; replaced in this chat, or in any, with the form that did it.  A key restores
;; one or all.

(defvar-local agent-q-changes--image-chat nil
  "The buffer of the chat from which the list was asked for, or nil.")

(defvar-local agent-q-changes--image-all nil
  "Non-nil when the changes of all chats are listed.")

(defvar-local agent-q-changes--image-entries nil
  "The changes as the image reported them, property lists.")

(defvar-local agent-q-changes--image-whose "this chat"
  "Whose changes the list shows when it is about one chat, in words.")

(defvar-local agent-q-changes--image-shown ""
  "How many of the changes are listed, unless all are.")

(defvar agent-q-changes-image-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-changes-image-source)
    (define-key map "u" #'agent-q-changes-image-restore)
    (define-key map "U" #'agent-q-changes-image-restore-all)
    (define-key map "a" #'agent-q-changes-image-toggle-all)
    (agent-q-names-define-keys map)
    map)
  "Keymap of `agent-q-changes-image-mode'.")

(define-derived-mode agent-q-changes-image-mode tabulated-list-mode "agent-q changes"
  "Major mode of the list of what the agent changed in a Lisp image, latest first.
From a chat, it is what was changed in this chat.

\\<agent-q-changes-image-mode-map>\\[agent-q-changes-image-source] shows the form that changed it, \
\\[agent-q-changes-image-restore] restores what was there
before, \\[agent-q-changes-image-restore-all] does that for all that is listed, and \
\\[agent-q-changes-image-toggle-all] lists all chats.
\\[agent-q-names-find-definition] goes to the definition.

\\{agent-q-changes-image-mode-map}"
  (setq mode-line-process '(:eval (if (agent-q-changes--image-one-chat-p)
                                      '(" of " agent-q-changes--image-whose
                                        agent-q-changes--image-shown
                                        agent-q-text-list-hint)
                                    '(" of all chats" agent-q-changes--image-shown
                                      agent-q-text-list-hint)))
        revert-buffer-function #'agent-q-changes--image-refresh))

;;;###autoload
(defun agent-q-changes-in-image ()
  "List what the agent changed in the Lisp image, to undo any of it.
From a chat, list the changes of this chat in its image."
  (interactive)
  (let ((chat (and agent-q-session-number (current-buffer)))
        (connection (or (and (agent-q-connection-live-p agent-q-session-connection)
                             agent-q-session-connection)
                        (agent-q-connection-default-connection))))
    (unless connection
      (user-error "No Lisp is connected"))
    (pop-to-buffer (get-buffer-create "*agent-q image changes*"))
    (unless (derived-mode-p 'agent-q-changes-image-mode)
      (agent-q-changes-image-mode))
    (setq agent-q-session-connection connection
          agent-q-changes--image-chat chat
          agent-q-changes--image-whose
          (let ((client (and chat (buffer-local-value 'agent-q-session-mcp-client chat))))
            (if client (agent-q-text-visible-line client 40) "this chat"))
          agent-q-changes--image-all nil)
    (agent-q-changes--image-refresh)))

(defun agent-q-changes--image-one-chat-p ()
  "Return non-nil when the list is about one chat."
  (and agent-q-changes--image-chat
       (not agent-q-changes--image-all)))

(defun agent-q-changes--image-of-chat ()
  "Return the arguments of operations that say which chat the list is about."
  (and (agent-q-changes--image-one-chat-p)
       ;; Of a chat that was closed, the name is not known any more.
       (list :chat (or (agent-q-image-chat-name agent-q-changes--image-chat)
                       "closed"))))

(defun agent-q-changes-image-toggle-all ()
  "Switch between all chats and the one that you came from."
  (interactive nil agent-q-changes-image-mode)
  (unless agent-q-changes--image-chat
    (user-error "All chats are listed: this list was not opened from a chat"))
  (setq agent-q-changes--image-all (not agent-q-changes--image-all))
  (agent-q-changes--image-refresh))

(defun agent-q-changes--image-call (operation arguments function)
  "Call OPERATION with ARGUMENTS in the image that is listed here.
FUNCTION gets its value, in this buffer."
  (let ((buffer (current-buffer)))
    (agent-q-image-query
     agent-q-session-connection operation arguments
     (lambda (reply status _payload)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (pcase reply
             (`(:outcome :returned :value ,value . ,_) (funcall function value))
             (`(:outcome ,_ . ,more)
              (message "The image refused: %s" (plist-get more :message)))
             (_ (message "The image did not answer (%s)" status)))))))))

;;;;; The list

(defun agent-q-changes--image-refresh (&rest _)
  "Ask the image for its journal and show it."
  (agent-q-changes--image-call
   "journal-list" (agent-q-changes--image-of-chat)
   (lambda (value)
     (setq agent-q-changes--image-entries
           (agent-q-changes--image-loads-last (plist-get value :changes))
           agent-q-changes--image-shown (agent-q-changes--image-shown value))
     (agent-q-text-list-setup
      (agent-q-changes--image-columns)
      (lambda () (mapcar #'agent-q-changes--image-row agent-q-changes--image-entries))
      (concat (agent-q-changes--image-nothing (plist-get value :total)) ".\n"))
     (agent-q-text-list-print)
     (force-mode-line-update)
     (unless (string-empty-p agent-q-changes--image-shown)
       (message "%s" (string-trim-left agent-q-changes--image-shown "[, ]+"))))))

(defun agent-q-changes--image-loads-last (rows)
  "Sort ROWS: what can be undone comes first, whole files last."
  (append (seq-remove (lambda (change) (plist-get change :load)) rows)
          (seq-filter (lambda (change) (plist-get change :load)) rows)))

(defun agent-q-changes--image-shown (value)
  "Say how much of the journal is in VALUE, its list; nothing if that is all."
  (let ((shown (length (plist-get value :changes)))
        (listed (or (plist-get value :listed) 0)))
    (concat (if (< shown listed) (format ", %d of %d shown" shown listed) "")
            (if (plist-get value :cut) ", earlier ones aren't kept" ""))))

(defun agent-q-changes--image-nothing (total)
  "Say that nothing is listed, of TOTAL entries in the image."
  (cond ((eql 0 total) "The agent has changed nothing in this image")
        ((agent-q-changes--image-one-chat-p)
         (format "This chat has changed nothing here; \\[agent-q-changes-image-toggle-all] \
lists the %d changes of others" total))
        (t "There is nothing to list")))

(defun agent-q-changes--image-chat-text (name)
  "Return the name of the chat that images know as NAME."
  (let ((buffer (and name
                     (cl-find name (buffer-list) :test #'equal
                              :key (lambda (buffer)
                                     (buffer-local-value 'agent-q-image-chat-name buffer))))))
    (cond (buffer (buffer-name buffer))
          (name (replace-regexp-in-string " [0-9a-f]+\\'" "" name))
          (t ""))))

(defun agent-q-changes--image-columns ()
  "Return the columns of the list; a list of one chat need not name it."
  (append '((10 "Definition" 24 t :most 60) (5 "Kind" 14 t) (6 "Change" 10 t) (3 "When" 8 nil)
            (7 "State" 14 t))
          (unless (agent-q-changes--image-one-chat-p) '((8 "Chat" 18 t)))
          '((9 "Form" 0 nil :least 12))))

(defun agent-q-changes--image-row (change)
  "Return the row of CHANGE."
  (list (plist-get change :id)
        (vconcat
         (list (agent-q-names-cell (plist-get change :name))
               (plist-get change :kind)
               (plist-get change :what)
               (format-seconds "%dd %hh %mm%z%ss" (plist-get change :seconds-ago))
               (cond ((plist-get change :restored) "undone")
                     ((plist-get change :load) "loaded")
                     ((plist-get change :irreversible) "can't be undone")
                     (t "")))
         (unless (agent-q-changes--image-one-chat-p)
           (list (agent-q-changes--image-chat-text (plist-get change :chat))))
         (list (car (split-string (plist-get change :text) "\n"))))))

(defun agent-q-changes--image-at-point ()
  "Return the change at point."
  (or (cl-find (tabulated-list-get-id) agent-q-changes--image-entries
               :key (lambda (change) (plist-get change :id)))
      (user-error "No change here")))

(defun agent-q-changes-image-source ()
  "Show the form that made the change at point."
  (interactive nil agent-q-changes-image-mode)
  (let ((change (agent-q-changes--image-at-point)))
    (agent-q-text-with-page "*agent-q change*"
      (princ (format "%s %s, %s\n" (plist-get change :kind) (plist-get change :name)
                     (plist-get change :what)))
      (when (plist-get change :was)
        (princ (format "It was %s\n" (plist-get change :was))))
      (when (plist-get change :irreversible)
        (princ (concat (plist-get change :irreversible) "\n")))
      (princ (concat "\n" (plist-get change :text) "\n")))
    (agent-q-names-enliven-page "*agent-q change*")))

;;;;; Restoring

(defun agent-q-changes-image-restore ()
  "Restore the definition that the change at point replaced.
Later changes of the same thing are undone too."
  (interactive nil agent-q-changes-image-mode)
  (agent-q-changes--image-restore
   (list :id (plist-get (agent-q-changes--image-at-point) :id))))

(defun agent-q-changes-image-restore-all ()
  "Restore every definition that a listed change replaced in this image.
What another chat has changed since is left alone."
  (interactive nil agent-q-changes-image-mode)
  (when (yes-or-no-p (if (agent-q-changes--image-one-chat-p)
                         "Undo all that this chat changed in this image? "
                       "Undo all that the agent changed in this image? "))
    (agent-q-changes--image-restore (agent-q-changes--image-of-chat))))

(defun agent-q-changes--image-restore (arguments)
  "Restore the definitions that ARGUMENTS name, and refresh the list."
  (agent-q-changes--image-call
   "journal-restore" arguments
   (lambda (value)
     (message "%s" (string-join (plist-get value :results) "\n"))
     (agent-q-changes--lines-undone-in-image agent-q-session-connection)
     (agent-q-changes--image-refresh))))

;;;; What a turn changed, and undoing it

(defun agent-q-changes--chat ()
  "Return the chat that is meant: this buffer, or the latest chat."
  (cond (agent-q-session-number (current-buffer))
        ((car (agent-q-session-chats)))
        (t (user-error "No chat; M-x agent-q-chat opens one"))))

;;;###autoload
(defun agent-q-undo-turn (&optional ask)
  "Undo what the chat's latest turn changed in files and buffers.
What you have changed since is left alone; the chat says so.  What the
turn changed in the image is listed there with a button that undoes
it.  With ASK, as when it is a command, show what would be undone and ask;
else, while a turn runs, this waits until it is over."
  (interactive (list t))
  (with-current-buffer (agent-q-changes--chat)
    ;; What it will have changed then can't be shown now.
    (when (and ask (agent-q-chat-view-header-busy-p))
      (user-error "A turn is running; its changes can be undone when it ends"))
    (let ((diff (and ask (agent-q-core-changes agent-q-session-number))))
      (when (or (not ask) (agent-q-changes--agreed-p diff))
        ;; A later turn may have changed the image alone: what was shown is undone.
        (agent-q-core-undo-turn agent-q-session-number
                                (and ask (not (string-empty-p diff))))))))

;;;###autoload
(defun agent-q-verify ()
  "Load and test the project's system in a fresh Lisp.
What works in your image may hang on what was tried in it.  The chat shows
what comes of it; your image isn't touched."
  (interactive)
  (with-current-buffer (agent-q-changes--chat)
    (when (agent-q-chat-view-header-busy-p)
      (user-error "A turn is running; verify when it ends"))
    (agent-q-core-console agent-q-session-number "/verify_system")))

(defun agent-q-changes--agreed-p (diff &optional definitions)
  "Whether the user wants to undo DIFF and DEFINITIONS.
DIFF is shown with the question.  Where it is empty, the core says what
there is to undo in the image."
  (or (string-empty-p diff)
      (save-window-excursion
        (agent-q-changes-show diff (current-buffer))
        (y-or-n-p (format "Undo these changes of %s%s? "
                          (string-join (agent-q-changes-files diff) ", ")
                          (if (null definitions) ""
                            (format ", and in the image %s"
                                    (agent-q-changes-named definitions))))))))

(defvar-local agent-q-changes--agreed nil
  "The turn whose changes in the image may be undone along with its files.")

(defun agent-q-changes-undo (turn diff definitions)
  "Undo TURN, the latest, which changed DIFF and DEFINITIONS, if the user agrees."
  (when (agent-q-changes--agreed-p diff definitions)
    (setq agent-q-changes--agreed (and definitions turn))
    (agent-q-core-undo-turn agent-q-session-number t)))

(defun agent-q-changes-files (diff)
  "Return the files and buffers in DIFF, each with its numbers of lines."
  (let ((files nil) (added 0) (removed 0) (name nil))
    (cl-flet ((end () (when name
                        (push (format "%s +%d -%d" name added removed) files))
                   (setq added 0 removed 0 name nil)))
      (with-temp-buffer
        (insert diff)
        (goto-char (point-min))
        (while (not (eobp))
          (cond ((looking-at "--- \\(.+\\)\n\\+\\+\\+ \\(.+\\)$")
                 (end)
                 (setq name (agent-q-changes--name (match-string 1) (match-string 2)))
                 (forward-line))
                ((looking-at "rename to \\(.+\\)$")
                 (end)
                 (push (concat (match-string 1) " (moved)") files))
                ((looking-at "Binary files \\(.+\\) and \\(.+\\) differ$")
                 (end)
                 (push (agent-q-changes--name (match-string 1) (match-string 2)) files))
                ((eq (char-after) ?+) (cl-incf added))
                ((eq (char-after) ?-) (cl-incf removed)))
          (forward-line)))
      (end))
    (nreverse files)))

(defun agent-q-changes--name (old new)
  "Return the name of the file that is OLD and NEW in a diff."
  (cond ((equal new "/dev/null") (concat (string-remove-prefix "a/" old) " (deleted)"))
        ((equal old "/dev/null") (concat (string-remove-prefix "b/" new) " (new)"))
        (t (string-remove-prefix "b/" new))))

;;;###autoload
(defun agent-q-changes ()
  "Show as one diff what the chat's latest turn changed in files and buffers."
  (interactive)
  (let* ((chat (agent-q-changes--chat))
         (diff (agent-q-core-changes (buffer-local-value 'agent-q-session-number chat))))
    (when (string-empty-p diff)
      (user-error "No turn of this chat has changed a file or a buffer"))
    (agent-q-changes-show diff chat)))

(defvar agent-q-changes-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap diff-mode-shared-map special-mode-map))
    (define-key map "u" #'agent-q-undo-turn)
    map)
  "Keymap of `agent-q-changes-mode'.")

(define-derived-mode agent-q-changes-mode diff-mode "agent-q diff"
  "Major mode of the diff of what a turn changed.
\\<agent-q-changes-mode-map>\\[agent-q-undo-turn] undoes what the latest turn
changed, after a question.

\\{agent-q-changes-mode-map}"
  ;; Refining runs diff in the foreground, for minutes where a large text was rewritten.
  (setq-local diff-refine nil
              bidi-paragraph-direction 'left-to-right
              ;; Diff mode's own keys for read-only buffers would hide these.
              minor-mode-overriding-map-alist nil
              buffer-read-only t
              mode-line-process agent-q-text-list-hint))

(defun agent-q-changes-show (diff chat)
  "Show DIFF, of the project of CHAT, in a window that is selected."
  ;; Its names are those in the project, wherever the chat was opened.
  (let ((directory (with-current-buffer chat
                     (or (agent-q-project-directory) default-directory))))
    (with-current-buffer (get-buffer-create "*agent-q changes*")
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert diff))
      (agent-q-changes-mode)
      (agent-q-review-hunks-show-invisible)
      (setq default-directory directory)
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer "*agent-q changes*")))

(agent-q-events-operation-define "may-put-back" (call concerns)
  "Return whether the user wants places of files written in spite of CONCERNS.
These are sentences on what a call of a tool would ask about, too."
  (agent-q-json-serialize
   ;; Outside a command, Emacs would ask in a dialog or a menu.
   (if (let ((use-dialog-box nil))
         (yes-or-no-p
          (concat (mapconcat (lambda (concern) (agent-q-text-visible-line concern 5000)) concerns "\n")
                  "\nPut back what the agent changed there? ")))
       t
     :false)))

;;;;; What a turn changed in the image

(defconst agent-q-changes-emacs (format "%d.%s" (emacs-pid) (format-time-string "%s"))
  "Prefix that sets the turns of this Emacs apart from those of others.")

(defun agent-q-changes-turn (number)
  "Return the name that the turn NUMBER of this chat has in images' journals."
  (format "%s/%d/%d" agent-q-changes-emacs agent-q-session-number number))

(defun agent-q-changes--call (connection operation arguments function)
  "Call OPERATION with ARGUMENTS in the image behind CONNECTION.
FUNCTION gets its value, or nil when there is none."
  (agent-q-image-query connection operation arguments
                       (lambda (reply &rest _)
                         (pcase reply
                           (`(:outcome :returned :value ,value . ,_) (funcall function value))
                           (_ (funcall function nil))))))

(defun agent-q-changes-definitions (turn connection function)
  "Ask the image behind CONNECTION for what TURN did to it.
FUNCTION gets the definitions, texts.
TURN is its name in journals."
  (agent-q-changes--call
   connection "journal-list" '(:limit 1000)
   (lambda (value)
     (funcall function (agent-q-changes--of-turn turn (plist-get value :changes))))))

(defun agent-q-changes--of-turn (turn entries)
  "Return what is left of what TURN changed, by ENTRIES of an image's journal."
  (agent-q-changes--definitions
   (seq-filter (lambda (change)
                 (and (equal turn (plist-get change :turn))
                      (not (plist-get change :load))
                      (not (plist-get change :restored))))
               entries)))

(defun agent-q-changes--definitions (entries)
  "Return what ENTRIES of one turn, the latest first, came to, as texts.
A definition is told once, as what it was before the turn and is now, and not
at all if it was made and removed.  What is in the image alone comes first."
  (let ((texts nil) (in-files nil)
        (groups (seq-group-by (lambda (change)
                                (cons (plist-get change :name) (plist-get change :kind)))
                              entries)))
    (pcase-dolist (`((,name . ,kind) . ,group) groups)
      (when-let ((what (agent-q-changes--came-to name kind group groups)))
        (let ((text (agent-q-text-clean (format "%s (%s, %s)" name kind what))))
          (if (plist-get (car group) :in-file)
              (push text in-files)
            (push text texts)))))
    (append (nreverse texts) (nreverse in-files))))

(defun agent-q-changes--came-to (name kind group groups)
  "Return what GROUP, of NAME, a KIND, came to, or nil if to nothing.
It is one of GROUPS, all entries of the turn."
  (let ((first (plist-get (car (last group)) :what))
        (latest (plist-get (car group) :what)))
    (cond ((agent-q-changes--gone-p name groups) nil)
          ;; These are of several methods.
          ((equal kind "method") latest)
          ((equal first "new") (unless (equal latest "removed") "new"))
          ((and (equal first "removed") (not (equal latest "removed"))) "redefined")
          (t latest))))

(defun agent-q-changes--gone-p (name groups)
  "Whether the symbol NAME means what it did before GROUPS, entries of a turn.
So it is when it was first given a meaning and then removed."
  (let ((kinds (seq-filter (lambda (group) (equal name (caar group))) groups)))
    (and (assoc (cons name "symbol") kinds)
         (seq-some (lambda (kind) (equal "new" (plist-get (car (last kind)) :what))) kinds))))

(agent-q-events-operation-define "image-turn" (call)
  "Return the latest turn of the chat whose changes in the image hold, or null."
  (let ((owner (agent-q-events-operation-call-owner call))
        (connection (agent-q-events-operation-call-connection call)))
    (if (not (and connection (buffer-live-p owner)
                  (buffer-local-value 'agent-q-session-turn-used owner)))
        "null"
      (let ((prefix (with-current-buffer owner
                      (format "%s/%d/" agent-q-changes-emacs agent-q-session-number))))
        (agent-q-changes--call
         connection "journal-list" '(:limit 1000)
         (lambda (value)
           (agent-q-events-operation-end
            call "done" (agent-q-changes--latest prefix (plist-get value :changes))))))
      nil)))

(defun agent-q-changes--latest (prefix entries)
  "Return as JSON what the latest turn with PREFIX among ENTRIES changed.
With it are the systems that turns with PREFIX have loaded."
  (let* ((own (seq-filter (lambda (change)
                            (and (not (plist-get change :restored))
                                 (string-prefix-p prefix (or (plist-get change :turn) ""))))
                          entries))
         (loads (seq-filter (lambda (change) (plist-get change :load)) own))
         (definitions (seq-difference own loads #'eq))
         ;; The latest change comes first.
         (turn (plist-get (car definitions) :turn)))
    (cl-flet ((number (change)
                (string-to-number (substring (plist-get change :turn) (length prefix)))))
      (agent-q-json-serialize
       `((turn . ,(if turn (number (car definitions)) :null))
         (definitions
          . ,(vconcat
              (agent-q-changes--definitions
               (seq-filter (lambda (change) (equal turn (plist-get change :turn)))
                           definitions))))
         (loads . ,(vconcat (mapcar (lambda (change)
                                      `((turn . ,(number change))
                                        (system . ,(agent-q-changes--system change))))
                                    (seq-filter #'agent-q-changes--system loads)))))))))

(defun agent-q-changes--system (change)
  "Return the system that CHANGE, a load, has loaded; nil when it was none."
  (let ((words (split-string (plist-get change :name))))
    (and (member (car words) '("load_system" "run_tests"))
         (agent-q-text-clean (or (cadr words) "")))))

(defun agent-q-changes-named (definitions)
  "Return DEFINITIONS, texts, as one text; of many only some are named."
  (let ((more (- (length definitions) 10)))
    (concat (string-join (seq-take definitions 10) ", ")
            (if (> more 0) (format " and %d more (M-x agent-q-changes-in-image)" more) ""))))

(defun agent-q-changes-offer (number definitions systems)
  "Offer to undo the DEFINITIONS that the turn NUMBER changed in the image.
Undo them at once if the user has agreed to that.  SYSTEMS were loaded
from files that are restored now: offer to load them."
  (let ((turn (agent-q-changes-turn number))
        (agreed agent-q-changes--agreed))
    (setq agent-q-changes--agreed nil)
    (cond ((null definitions))
          ((equal turn agreed)
           (agent-q-changes--take-back turn agent-q-session-connection))
          (t
           (agent-q-render-notice
            (format "Changed in the image: %s." (agent-q-changes-named definitions)))
           (agent-q-render-button "[Undo]"
                                  (lambda () (agent-q-changes-undo-image turn definitions))
                                  (intern turn))))
    (agent-q-changes-offer-load systems)))

(defun agent-q-changes-offer-load (systems)
  "Offer to load the first of SYSTEMS, whose files were restored, if there is one."
  (when systems
    (agent-q-render-button
     "[Load the restored files]"
     (lambda ()
       (when (agent-q-chat-view-header-busy-p)
         (user-error "A turn is running; load them when it ends"))
       (agent-q-core-console agent-q-session-number
                             (format "/load_system %s" (car systems)))))))

(defun agent-q-changes-undo-image (turn definitions)
  "Undo DEFINITIONS, made by TURN in this chat's image, if the user agrees."
  (when (y-or-n-p (format "Undo in the image: %s? " (agent-q-changes-named definitions)))
    (agent-q-changes--take-back turn agent-q-session-connection)))

(defun agent-q-changes--take-back (turn connection)
  "Undo what TURN changed in the image behind CONNECTION, and report it here."
  (let ((chat (current-buffer)))
    (agent-q-changes--call
     connection "journal-restore" (list :turn turn)
     (lambda (value)
       (when (buffer-live-p chat)
         (with-current-buffer chat
           (agent-q-changes--taken-back turn value)))))))

(defun agent-q-changes--taken-back (turn value)
  "Show VALUE, the image's report of undoing TURN, and tell the model."
  (let ((results (string-join (plist-get value :results) "\n")))
    (when value
      (agent-q-render-settle (intern turn))
      (agent-q-changes--line-undone-in-image turn))
    (cond ((null value)
           (agent-q-render-notice "Nothing was undone in the image." 'agent-q-failure))
          ((string-empty-p results)
           (message "Already undone"))
          (t
           (agent-q-render-notice results)
           (agent-q-core-image-undone agent-q-session-number (agent-q-text-clean results))))))

;;;; What a turn changed, under it

;; Under a turn that changed files, buffers or the image, a line of the log says so, with
;; buttons for the diff and for undoing it, as long as there is something to undo.
;; Unfolded, it is the diff.

(cl-defstruct (agent-q-changes-line (:include agent-q-render-item)
                                    (:constructor agent-q-changes--line-make)
                                    (:copier nil))
  "The line about what TURN changed.
CHANGED is all of it, LEFT what was not undone since.  Both are conses of a
diff of files and buffers, which may be empty, and of definitions in the
image, a list of texts.  BEHIND are the definitions of those files that the
image has not or has otherwise: lists of name, file and line.  TESTS means
that there is an image which can test what was changed."
  turn changed left behind tests)

(defconst agent-q-changes--line-image-tools
  '("eval_form" "eval_in_package" "compile_form" "compile_file" "load_system" "run_tests"
    "eval_in_frame" "invoke_restart" "restart_frame" "return_from_frame")
  "The tools that may change definitions in the image.")

(defvar-local agent-q-changes--line-key 0
  "The greatest key of the calls of the turns that are over.")

(defvar-local agent-q-changes--lines nil
  "The lines of this chat.")

(defvar-local agent-q-changes--line-diff ""
  "The latest changes in files that are none of the turn that runs.")

;;;;; What there is to undo

(defun agent-q-changes--line-undone-p (line)
  "Whether all that LINE is about was undone."
  (equal (agent-q-changes-line-left line) '("")))

(defun agent-q-changes-p ()
  "Whether a turn of this chat has changed a file or a buffer."
  (not (string-empty-p (agent-q-core-changes agent-q-session-number))))

(defun agent-q-changes-undo-p ()
  "Whether what a turn of this chat changed can be undone now."
  (and (not (agent-q-chat-view-header-busy-p))
       (or (seq-some (lambda (line) (not (agent-q-changes--line-undone-p line)))
                     agent-q-changes--lines)
           (agent-q-changes-p))))

(defun agent-q-changes--line-shown (line)
  "Return the part of LINE to show: what is left, or all where all was undone."
  (if (agent-q-changes--line-undone-p line)
      (agent-q-changes-line-changed line)
    (agent-q-changes-line-left line)))

(defun agent-q-changes--line-keep (turn function)
  "Draw the line of TURN again, after FUNCTION made what is left of what was.
TURN is its name in journals, or the end of that."
  (when-let ((line (seq-find (lambda (line)
                               (string-suffix-p turn (agent-q-changes-line-turn line)))
                             agent-q-changes--lines)))
    (setf (agent-q-changes-line-left line)
          (funcall function (agent-q-changes-line-left line)))
    ;; It may have gone with a part of the log.
    (when (eq line (agent-q-render-item-at (agent-q-render-item-start line)))
      (agent-q-render-update-item line))))

(defun agent-q-changes-line-undone (number left)
  "Show that the turn NUMBER was undone in files, but for a rest of LEFT."
  (agent-q-changes--line-keep
   ;; Its name has another beginning where another Emacs ran it.
   (format "/%d" number)
   (lambda (was)
     (cons (if (= left 0) "" (agent-q-core-changes agent-q-session-number))
           (cdr was)))))

(defun agent-q-changes--line-undone-in-image (turn)
  "Ask the image how much of TURN is left there, and show that in its line."
  (let ((chat (current-buffer)))
    (agent-q-changes-definitions
     turn agent-q-session-connection
     (lambda (definitions)
       (when (buffer-live-p chat)
         (with-current-buffer chat
           (agent-q-changes--line-keep turn (lambda (was) (cons (car was) definitions)))))))))

(defun agent-q-changes--lines-undone-in-image (connection)
  "Show in the lines of all chats about CONNECTION what is left in that image."
  (agent-q-changes--call
   connection "journal-list" '(:limit 1000)
   (lambda (value)
     (when value
       (dolist (chat (agent-q-session-buffers))
         (with-current-buffer chat
           (when (equal connection agent-q-session-connection)
             (dolist (line agent-q-changes--lines)
               (when (cdr (agent-q-changes-line-left line))
                 (let ((turn (agent-q-changes-line-turn line)))
                   (agent-q-changes--line-keep
                    turn
                    (lambda (was)
                      (cons (car was)
                            (agent-q-changes--of-turn turn (plist-get value :changes)))))))))))))))

;;;;; Drawing

(defun agent-q-changes--line-button (label function)
  "Return the button LABEL for FUNCTION."
  (make-text-button (copy-sequence label) nil 'follow-link t
                    'action (lambda (_button) (funcall function))))

(defun agent-q-changes--line-what (line room)
  "Return what the turn of LINE changed, as text of ROOM columns; files come first.
Names come before what was done to each.  What doesn't fit is counted, and
shows when the line is unfolded."
  (let* ((what (agent-q-changes--line-shown line))
         (parts (mapcar (lambda (part) (agent-q-text-visible-line part 400))
                        (append (agent-q-changes-files (car what)) (cdr what))))
         (count (length parts))
         (shown count)
         (text (string-join parts ", ")))
    (when (and (cdr parts) (> (string-width text) room))
      (setq parts (mapcar (lambda (part) (replace-regexp-in-string " ([a-z, ]+)\\'" "" part)) parts)
            text (string-join parts ", ")))
    (while (and (> (string-width text) room) (> shown 1))
      (setq shown (1- shown)
            text (format "%s and %d more (TAB)" (string-join (seq-take parts shown) ", ")
                         (- count shown))))
    (agent-q-call-cut text room)))

(defun agent-q-changes--line-buttons (line)
  "Return the buttons of LINE."
  (let ((files (not (string-empty-p (car (agent-q-changes--line-shown line))))))
    (mapconcat
     (pcase-lambda (`(,label . ,function)) (agent-q-changes--line-button label function))
     (delq nil
           (list (cons "[Diff]" (lambda () (agent-q-changes--line-show line)))
                 (cons "[Undo]" (lambda () (agent-q-changes--line-undo line)))
                 (and files agent-q-verify-changes (cons "[Verify]" #'agent-q-verify))
                 (and files (agent-q-changes-line-tests line)
                      (cons "[Test]" #'agent-q-changes--line-test))))
     " ")))

(defun agent-q-changes--line-draw-behind (line)
  "Return what is to be done about what the image has not of LINE, as a line."
  (let ((names (string-join (mapcar #'car (agent-q-changes-line-behind line)) ", "))
        (head "\n  Not compiled: "))
    (concat (propertize (concat head
                                (agent-q-call-cut (agent-q-text-visible-line names 400)
                                                  (- (agent-q-call-width) (length head) 13))
                                "  ")
                        'face 'agent-q-dim)
            (agent-q-changes--line-button
             "[Compile]" (lambda () (agent-q-changes--line-compile line))))))

(defun agent-q-changes--line-draw (line)
  "Return the text of LINE."
  (let* ((undone (agent-q-changes--line-undone-p line))
         (buttons (if undone "" (concat "  " (agent-q-changes--line-buttons line))))
         (said (cond (undone " (undone)")
                     ((equal (agent-q-changes-line-left line) (agent-q-changes-line-changed line))
                      "")
                     (t " (the rest is undone)")))
         (head (concat (agent-q-render-fold-sign line) " Changed "))
         (room (- (agent-q-call-width) (length head) (length said) (length buttons))))
    (concat (propertize (concat head (agent-q-changes--line-what line (max 10 room)) said)
                        'face 'agent-q-dim)
            buttons
            (if (or undone (null (agent-q-changes-line-behind line))) ""
              (agent-q-changes--line-draw-behind line))
            (if (not (agent-q-render-item-expanded line)) ""
              (concat "\n" (agent-q-changes--line-body line))))))

(defun agent-q-changes--line-body (line)
  "Return the body of LINE, which is unfolded."
  (pcase-let ((`(,diff . ,definitions) (agent-q-changes--line-shown line)))
    (string-join
     (delq nil
           (list (and (not (string-empty-p diff))
                      (agent-q-call-change-diff-body (string-trim-right diff)))
                 (and definitions
                      (agent-q-render-body
                       (concat "In the image: " (string-join definitions ", "))
                       #'agent-q-text-visible))))
     "\n")))

;;;;; The buttons

(defun agent-q-changes--line-show (line)
  "Show what the turn of LINE changed, as a diff or as a list of definitions."
  (let ((diff (car (agent-q-changes-line-left line))))
    (if (string-empty-p diff)
        (agent-q-changes-in-image)
      (agent-q-changes-show diff (current-buffer)))))

(defun agent-q-changes--line-undo (line)
  "Undo what the turn of LINE changed, if the user agrees."
  (pcase-let ((`(,diff . ,definitions) (agent-q-changes-line-left line))
              (turn (agent-q-changes-line-turn line)))
    (cond ((agent-q-chat-view-header-busy-p)
           (user-error "A turn is running; its changes can be undone when it ends"))
          ((string-empty-p diff)
           (agent-q-changes-undo-image turn definitions))
          ((equal diff (agent-q-core-changes agent-q-session-number))
           (agent-q-changes-undo turn diff definitions))
          (t (user-error "Undo the later turn or rewind first")))))

(defun agent-q-changes--line-console (lines)
  "Type LINES, each a call of a tool, in this chat for the user."
  (when (agent-q-chat-view-header-busy-p)
    (user-error "A turn is running; wait until it ends"))
  (dolist (line lines)
    (agent-q-core-console agent-q-session-number line)))

(defconst agent-q-changes--line-most 8
  "How many definitions are compiled by name; of more, their files are.")

(defun agent-q-changes--line-compile (line)
  "Compile and load in this chat's image what it has not of LINE.
That is one call for each file."
  (let* ((behind (agent-q-changes-line-behind line))
         (some (<= (length behind) agent-q-changes--line-most)))
    (agent-q-changes--line-console
     (mapcar (pcase-lambda (`(,file . ,definitions))
               (concat (format "/compile_file path=%S" file)
                       (and some
                            (format " name=%S"
                                    (mapconcat (pcase-lambda (`(,name ,_ ,place))
                                                 (format "%s (line %d)" name place))
                                               definitions "\n")))))
             (seq-group-by #'cadr behind)))))

(defun agent-q-changes--line-test ()
  "Run in this chat's image the suites that reach a change."
  (agent-q-changes--line-console '("/run_tests affected=true")))

(defun agent-q-changes--line-of-lisp-p (diff)
  "Whether DIFF is about a file of Lisp."
  (and (string-match-p "^\\+\\+\\+ .*\\.\\(?:lisp\\|lsp\\|cl\\|asd\\)$" diff) t))

(defun agent-q-changes-line-tell-behind (turn behind)
  "Show in the line of TURN that the image is BEHIND its files.
That is a list as in `agent-q-changes-line'."
  (dolist (line agent-q-changes--lines)
    (when (equal turn (agent-q-changes-line-turn line))
      (setf (agent-q-changes-line-tests line)
            (agent-q-changes--line-of-lisp-p (car (agent-q-changes-line-left line))))
      (agent-q-changes--line-set-behind line behind))))

(defun agent-q-changes-lines-caught-up (behind)
  "Show in the lines of this chat that of what they tell only BEHIND is left."
  (dolist (line agent-q-changes--lines)
    (let ((left (seq-filter (lambda (it) (assoc (car it) behind))
                            (agent-q-changes-line-behind line))))
      (unless (equal left (agent-q-changes-line-behind line))
        (agent-q-changes--line-set-behind line left)))))

(defun agent-q-changes-lines-behind-p ()
  "Whether something of a line of this chat is not compiled."
  (seq-some #'agent-q-changes-line-behind agent-q-changes--lines))

(defun agent-q-changes--line-set-behind (line behind)
  "Show in LINE that the image is BEHIND."
  (setf (agent-q-changes-line-behind line) behind)
  ;; It may have gone with a part of the log.
  (when (eq line (agent-q-render-item-at (agent-q-render-item-start line)))
    (agent-q-render-update-item line)))

;;;;; Telling

(defun agent-q-changes--line-calls ()
  "Return what the turn called and got a result of."
  (let ((calls nil) (before agent-q-changes--line-key))
    (maphash (lambda (key call)
               (when (> key before)
                 (setq agent-q-changes--line-key (max key agent-q-changes--line-key))
                 (when (memq (agent-q-call-state call) '(succeeded failed cancelled))
                   (push call calls))))
             agent-q-call-table)
    calls))

(defun agent-q-changes-line-begin ()
  "Note what was changed last, before a turn begins.
What was undone or rewound since the line of a turn before is not its change."
  (when agent-q-session-number
    (setq agent-q-changes--line-diff (agent-q-core-changes agent-q-session-number))))

(defun agent-q-changes-line-tell (then)
  "Show under the turn that ended what it changed, if it did.
Call THEN afterwards if it may have changed the image, or changed a file,
with the turn, the diff of files and a marker where it ended, or nil."
  (when-let ((calls (and agent-q-session-number (agent-q-changes--line-calls))))
    (let ((diff (agent-q-core-changes agent-q-session-number))
          (turn agent-q-session-turn)
          (chat (current-buffer))
          (image (seq-some (lambda (call)
                             (member (agent-q-call-tool call) agent-q-changes--line-image-tools))
                           calls)))
      (setq diff (if (equal diff agent-q-changes--line-diff) ""
                   (setq agent-q-changes--line-diff diff)))
      (if (not (and image agent-q-session-turn-used))
          (progn
            (agent-q-changes--line-add turn diff nil)
            (unless (string-empty-p diff)
              (funcall then turn diff nil)))
        ;; A character before the end: what is added there would take the end along.
        (let ((place (copy-marker (1- agent-q-render-end))))
          (agent-q-changes-definitions
           turn agent-q-session-connection
           (lambda (definitions)
             (when (buffer-live-p chat)
               (with-current-buffer chat
                 (agent-q-changes--line-add turn diff definitions place)
                 (funcall then turn diff place)
                 (set-marker place nil))))))))))

(defun agent-q-changes--line-add (turn diff definitions &optional place testable)
  "Add the line about TURN, which changed DIFF and DEFINITIONS.
There is none if both are empty.  It stands under the turn, which ended
before PLACE, a marker: the next one may have begun since.  TESTABLE says
that [Test] is offered."
  (unless (or (and (string-empty-p diff) (null definitions))
              (not agent-q-session-number))
    (let* ((what (cons diff definitions))
           (line (agent-q-changes--line-make :draw #'agent-q-changes--line-draw :turn turn
                                             :changed what :left what :tests testable))
           (add (lambda () (agent-q-render-add-item line))))
      (push line agent-q-changes--lines)
      (if (and place (< (1+ place) agent-q-render-end))
          (agent-q-render-above (1+ place) add)
        (funcall add)))))

;;;;; Turns of earlier times

(defvar-local agent-q-changes--past nil
  "Turns of a stored chat that the image is still to be asked about.
They are conses of the name of each and a marker where it ended.")

(defun agent-q-changes-line-past (turn diff tools)
  "Add the line about TURN of a stored chat, which changed files by DIFF.
TURN is its name in journals, and TOOLS are those that it used.  What it
changed in the image is added if that is still the same."
  (let ((there (agent-q-connection-live-p agent-q-session-connection)))
    (agent-q-changes--line-add turn diff nil nil
                               (and there (agent-q-changes--line-of-lisp-p diff)))
    (when (and there (seq-intersection tools agent-q-changes--line-image-tools))
      (unless agent-q-changes--past
        (run-at-time 0 nil #'agent-q-changes--past-ask (current-buffer)))
      ;; A character before the end: what is added there would take the end along.
      (push (cons turn (copy-marker (1- agent-q-render-end))) agent-q-changes--past))))

(defun agent-q-changes--past-ask (chat)
  "Ask the image of CHAT, a buffer, what was changed there in earlier times."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (let ((turns agent-q-changes--past))
        (setq agent-q-changes--past nil)
        (agent-q-changes--call
         agent-q-session-connection "journal-list" '(:limit 1000)
         (lambda (value)
           (when (buffer-live-p chat)
             (with-current-buffer chat
               (pcase-dolist (`(,turn . ,place) turns)
                 (agent-q-changes--past-add
                  turn (agent-q-changes--of-turn turn (plist-get value :changes)) place)
                 (set-marker place nil))))))))))

(defun agent-q-changes--past-add (turn definitions place)
  "Show under TURN, which ended at PLACE, that it changed DEFINITIONS in the image."
  (when definitions
    (let ((line (seq-find (lambda (line) (equal turn (agent-q-changes-line-turn line)))
                          agent-q-changes--lines)))
      (if (null line)
          (agent-q-changes--line-add turn "" definitions place)
        (setf (agent-q-changes-line-changed line)
              (cons (car (agent-q-changes-line-changed line)) definitions))
        (agent-q-changes--line-keep turn (lambda (was) (cons (car was) definitions)))))))

(provide 'agent-q-changes)
;;; agent-q-changes.el ends here
