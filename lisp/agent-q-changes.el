;;; agent-q-changes.el --- What a turn changed, and undoing it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core keeps what each turn of a chat changed in files and buffers, an
;; image what it changed there.  Undoing a turn puts files and buffers back;
;; a button in the chat undoes what it changed in the image.

;;; Code:

(require 'agent-q-diff-hunks)
(require 'agent-q-header)
(require 'agent-q-image-query)
(require 'agent-q-json)
(require 'agent-q-list)
(require 'agent-q-operations)
(require 'agent-q-project)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

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
    (when (and ask (agent-q-header-busy-p))
      (user-error "A turn is running; its changes can be undone when it ends"))
    (when (or (not ask) (agent-q-changes--agreed-p (agent-q-core-changes agent-q-session-number)))
      (agent-q-core-undo-turn agent-q-session-number))))

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
    (agent-q-core-undo-turn agent-q-session-number)))

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
\\<agent-q-changes-mode-map>\\[agent-q-undo-turn] undoes what the latest turn changed, after a question.

\\{agent-q-changes-mode-map}"
  ;; Refining runs diff in the foreground, for minutes where a large text was rewritten.
  (setq-local diff-refine nil
              bidi-paragraph-direction 'left-to-right
              ;; Diff mode's own keys for read-only buffers would hide these.
              minor-mode-overriding-map-alist nil
              buffer-read-only t
              mode-line-process agent-q-list-hint))

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
      (agent-q-diff-hunks-show-invisible)
      (setq default-directory directory)
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer "*agent-q changes*")))

(agent-q-operations-define "may-put-back" (call concerns)
  "Return whether the user wants places of files written in spite of CONCERNS.
These are sentences on what a call of a tool would ask about, too."
  (agent-q-json-serialize
   ;; Outside a command, Emacs would ask in a dialog or a menu.
   (if (let ((use-dialog-box nil))
         (yes-or-no-p
          (concat (mapconcat (lambda (concern) (agent-q-visible-line concern 5000)) concerns "\n")
                  "\nPut back what the agent changed there? ")))
       t
     :false)))

;;;; What a turn changed in the image

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
     (funcall function
              (agent-q-changes--definitions
               (seq-filter (lambda (change)
                             (and (equal turn (plist-get change :turn))
                                  (not (plist-get change :load))
                                  (not (plist-get change :restored))))
                           (plist-get value :changes)))))))

(defun agent-q-changes--definitions (entries)
  "Return what ENTRIES of one turn, the latest first, came to, as texts.
A definition is told once, as what it was before the turn and is now, and not at
all if it was made and removed.  What is in the image alone comes first."
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

(agent-q-operations-define "image-turn" (call)
  "Return the latest turn of the chat whose changes in the image hold, or null."
  (let ((owner (agent-q-operations-call-owner call))
        (connection (agent-q-operations-call-connection call)))
    (if (not (and connection (buffer-live-p owner)
                  (buffer-local-value 'agent-q-session-turn-used owner)))
        "null"
      (let ((prefix (with-current-buffer owner
                      (format "%s/%d/" agent-q-changes-emacs agent-q-session-number))))
        (agent-q-changes--call
         connection "journal-list" '(:limit 1000)
         (lambda (value)
           (agent-q-operations-answer
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
            (if (> more 0) (format " and %d more (M-x agent-q-image-changes)" more) ""))))

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
       (when (agent-q-header-busy-p)
         (user-error "A turn is running; load them when it ends"))
       (agent-q-core-console agent-q-session-number
                             (format "/load_system %s" (car systems)))))))

(defun agent-q-changes-undo-image (turn definitions)
  "Undo DEFINITIONS, made by TURN in this chat's image, if the user agrees."
  (when (y-or-n-p (format "Undo in the image: %s? " (agent-q-changes-named definitions)))
    (agent-q-changes--take-back turn agent-q-session-connection)))

(defvar agent-q-changes-undone-functions nil
  "Functions called with a turn when the image has undone what it could of it.")

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
      (run-hook-with-args 'agent-q-changes-undone-functions turn))
    (cond ((null value)
           (agent-q-render-notice "Nothing was undone in the image." 'agent-q-failure))
          ((string-empty-p results)
           (message "Already undone"))
          (t
           (agent-q-render-notice results)
           (agent-q-core-image-undone agent-q-session-number (agent-q-text-clean results))))))

(provide 'agent-q-changes)
;;; agent-q-changes.el ends here
