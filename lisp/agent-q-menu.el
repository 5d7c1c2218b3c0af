;;; agent-q-menu.el --- The menus of agent-q  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One table of commands for each of our modes, and for everywhere else.  It makes the menu
;; in the menu bar, the one of the right mouse button, and the one that `agent-q-menu'
;; shows: a transient, or a page of keys where Emacs has no transient.

;;; Code:

(require 'agent-q-loaddefs)
(require 'easymenu)
(require 'seq)
(require 'subr-x)

(defconst agent-q-menu--lists
  '("Lists" ("t" "Tools" agent-q-list-tools) ("R" "Rules" agent-q-rules)
    ("A" "Audit log" agent-q-audit-log) ("S" "Statistics" agent-q-tool-statistics)
    ("I" "Changes in the image" agent-q-image-changes) ("D" "Doctor" agent-q-doctor))
  "The lists of agent-q.")

(defconst agent-q-menu--everywhere
  `(("Ask about this" ("s" "Ask..." agent-q-ask) ("x" "Explain" agent-q-explain)
     ("e" "Explain the error" agent-q-explain-error)
     ("d" "Document" agent-q-document) ("f" "Fix the error" agent-q-fix-error)
     ("r" "Rewrite..." agent-q-rewrite))
    ("Chats" ("q" "Chat of this project" agent-q-chat) ("C" "All chats" agent-q-chats)
     ("a" "Pending request" agent-q-goto-approval)
     ("c" "What the turn changed" agent-q-changes) ("u" "Undo the turn" agent-q-undo-turn))
    ,agent-q-menu--lists)
  "The commands that make sense in every buffer.")

(defconst agent-q-menu--more
  '(("Last answer" ("w" "Copy answer" agent-q-copy-answer) ("c" "Copy code" agent-q-code-block-copy)
     ("i" "Insert code" agent-q-code-block-insert)
     ("z" "Code to the REPL" agent-q-code-block-stage)
     ("m" "Show or hide markup" agent-q-toggle-markup)
     ("u" "Unfold or fold all" agent-q-toggle-all)
     ("t" "Try again" agent-q-retry) ("g" "Continue" agent-q-continue))
    ("This chat" ("n" "Rename..." agent-q-rename-chat) ("f" "Fork" agent-q-fork-chat)
     ("e" "Export..." agent-q-export-chat) ("$" "Cost" agent-q-cost)
     ("l" "Older turns" agent-q-chats-older) ("r" "Earlier chat..." agent-q-resume))
    ("Elsewhere" ("s" "Serve other agents" agent-q-mcp-mode)
     ("I" "Register with an agent..." agent-q-mcp-install)
     ("C" "Connected agents" agent-q-mcp-clients) ("x" "Explain the error" agent-q-explain-error)
     ("b" "Report a bug" agent-q-report-bug)))
  "The commands of a chat that its first menu has no room for.")

(defconst agent-q-menu--modes
  `((agent-q-chat-mode
     ("Message" ("s" "Send" agent-q-chat-send) ("k" "Cancel the turn" agent-q-chat-cancel)
      ("e" "Compose in a buffer" agent-q-compose) ("h" "Earlier messages" agent-q-prompt-search)
      ("q" "Edit queued message" agent-q-queue-edit) ("b" "Steer the turn" agent-q-chat-steer)
      ("o" "Plan mode" agent-q-plan-mode))
     ("Turn" ("a" "Pending request" agent-q-goto-approval)
      ("d" "Take over a parked error" agent-q-chat-hand-over)
      ("c" "What the turn changed" agent-q-changes) ("u" "Undo the turn" agent-q-undo-turn)
      ("B" "Rewind..." agent-q-rewind))
     ("This chat" ("m" "Model" agent-q-set-model) ("E" "Reasoning effort" agent-q-set-effort)
      ("l" "Lisp image" agent-q-set-image) ("g" "Agent" agent-q-chat-use-agent)
      ("n" "Another chat" agent-q-menu-new-chat) ("C" "All chats" agent-q-chats)
      ("M" "More..." agent-q-menu-more))
     ("What the model reads" ("p" "System prompt" agent-q-show-system-prompt)
      ("r" "Request" agent-q-show-request) ("x" "Context" agent-q-context)
      ("w" "Context window" agent-q-window) ("z" "Summarize" agent-q-compact))
     ,agent-q-menu--lists)
    (agent-q-client-mode
     ("Agent" ("k" "Stop what runs" agent-q-client-stop)
      ("p" "Pause or resume" agent-q-client-pause) ("C" "All agents" agent-q-mcp-clients))
     ("Calls" ("a" "Pending request" agent-q-goto-approval)
      ("d" "Take over a parked error" agent-q-chat-hand-over)
      ("c" "What was changed" agent-q-changes) ("u" "Undo the changes" agent-q-undo-turn)
      ("f" "Unfold or fold all" agent-q-toggle-all))
     ,agent-q-menu--lists)
    (agent-q-tool-list-mode
     ("Tools" ("SPC" "Offer or not" agent-q-tool-list-toggle)
      ("l" "Safety level" agent-q-tool-list-set-level)
      ("RET" "Describe" agent-q-tool-list-describe) ("s" "Statistics" agent-q-tool-statistics)))
    (agent-q-tool-statistics-mode ,agent-q-menu--lists)
    (agent-q-chats-list-mode
     ("Chats" ("RET" "Go there" agent-q-chats-list-go) ("s" "Search..." agent-q-chats-list-search)
      ("r" "Rename..." agent-q-chats-list-rename) ("f" "Fork" agent-q-chats-list-fork)
      ("e" "Export..." agent-q-chats-list-export)
      ("d" "Move to the trash" agent-q-chats-list-delete)))
    (agent-q-rules-mode
     ("Rules" ("a" "Add" agent-q-rules-add) ("d" "Delete" agent-q-rules-revoke)
      ("t" "Test a call" agent-q-rules-test) ("RET" "Describe" agent-q-rules-describe)))
    (agent-q-audit-mode
     ("Audit log" ("RET" "Describe" agent-q-audit-describe) ("+" "Show more" agent-q-audit-more)))
    (agent-q-context-mode
     ("Context" ("RET" "Show the text" agent-q-context-show) ("o" "Go there" agent-q-context-visit)
      ("a" "Add..." agent-q-context-add) ("d" "Remove" agent-q-context-remove)
      ("C" "Remove all" agent-q-context-clear)))
    (agent-q-image-changes-mode
     ("Changes" ("RET" "Show the form" agent-q-image-changes-source)
      ("u" "Undo" agent-q-image-changes-restore) ("U" "Undo all" agent-q-image-changes-restore-all)
      ("a" "Of all chats, or this one" agent-q-image-changes-toggle-all)))
    (agent-q-changes-mode
     ("Changes" ("u" "Undo the turn" agent-q-undo-turn) ("n" "Next hunk" diff-hunk-next)
      ("p" "Previous hunk" diff-hunk-prev) ("o" "Go there" diff-goto-source)))
    (agent-q-doctor-mode
     ("Doctor" ("g" "Refresh" revert-buffer) ("b" "Build the core" agent-q-build)
      ("r" "Report a bug" agent-q-report-bug)))
    (agent-q-rewind-mode
     ("Go back" ("c" "The conversation" agent-q-rewind-tick-conversation)
      ("f" "The files" agent-q-rewind-tick-files) ("i" "The image" agent-q-rewind-tick-image)
      ("F" "A copy of the chat" agent-q-chats-fork-here) ("d" "Do it" agent-q-rewind-do)))
    (agent-q-compose-mode
     ("Message" ("s" "Send" agent-q-compose-send)
      ("k" "Back to the prompt" agent-q-compose-leave)))
    (agent-q-arguments-mode
     ("Arguments" ("r" "Run the call" agent-q-arguments-run)
      ("k" "Discard the edits" agent-q-arguments-quit)))
    (agent-q-diff-draft-mode
     ("Edit" ("k" "Cancel the turn" agent-q-diff-draft-cancel)))
    (agent-q-diff-mode
     ("Review" ("SPC" "Accept or reject the hunk" agent-q-diff-toggle)
      ("e" "Edit the hunk" agent-q-diff-edit-hunk) ("c" "Comment" agent-q-diff-comment)
      ("a" "Apply" agent-q-diff-apply) ("r" "Reject all" agent-q-diff-reject))))
  "The commands of each mode, in groups: a title and entries (KEY LABEL COMMAND).")

(defconst agent-q-menu--slash
  '(("help" agent-q-slash-help "what can be typed after /")
    ("model" agent-q-set-model "choose the model")
    ("image" agent-q-set-image "choose the Lisp image")
    ("context" agent-q-context "what is in the context, with sizes")
    ("window" agent-q-window "what fills the model's window")
    ("cost" agent-q-cost "what the last turn and this chat cost")
    ("compact" agent-q-compact "summarize the conversation so far")
    ("new" agent-q-menu-new-chat "open another chat of this project")
    ("clear" agent-q-menu-new-chat "continue in a new chat that remembers nothing")
    ("plan" agent-q-plan-mode "plan before anything is changed, on or off")
    ("rewind" agent-q-rewind "go back to before one of your messages")
    ("fork" agent-q-fork-chat "continue in a copy of this chat")
    ("resume" agent-q-resume "continue an earlier chat")
    ("chats" agent-q-chats "all chats")
    ("rename" agent-q-rename-chat "give this chat a name")
    ("export" agent-q-export-chat "write this chat to a file")
    ("changes" agent-q-changes "what the last turn changed")
    ("undo" agent-q-undo-turn "undo what the last turn changed")
    ("tools" agent-q-list-tools "the tools, and which are offered")
    ("rules" agent-q-rules "your rules about calls")
    ("system" agent-q-show-system-prompt "what else the model is told")
    ("doctor" agent-q-doctor "what is found and what is missing"))
  "Commands that can be typed after /: lists (NAME COMMAND NOTE).")

(defvar agent-q-slash-commands)

;;;###autoload
(defun agent-q-menu-install-slash ()
  "Make known which commands can be typed after /."
  (setq agent-q-slash-commands agent-q-menu--slash))

;;;###autoload (with-eval-after-load 'agent-q-slash (agent-q-menu-install-slash))

(defun agent-q-menu-new-chat ()
  "Open another chat of this project, in this window."
  (interactive)
  (let ((display-buffer-overriding-action '(display-buffer-same-window)))
    (agent-q-chat t)))

(defun agent-q-menu--here ()
  "Return the groups of commands for the current buffer."
  (or (alist-get (pcase major-mode
                   ('agent-q-arguments-lisp-mode 'agent-q-arguments-mode)
                   (mode mode))
                 agent-q-menu--modes)
      agent-q-menu--everywhere))

;;;; One key

;;;###autoload
(defun agent-q-menu ()
  "Show a menu of what agent-q can do in this buffer."
  (interactive)
  (agent-q-menu--show (agent-q-menu--here)))

(defun agent-q-menu-more ()
  "Show a menu of what else agent-q can do in a chat."
  (interactive nil agent-q-chat-mode)
  (agent-q-menu--show agent-q-menu--more))

(defun agent-q-menu--show (groups)
  "Show GROUPS as a menu."
  (if (require 'transient nil t)
      (agent-q-menu--transient groups)
    (agent-q-menu--page groups)))

(defun agent-q-menu--transient (groups)
  "Show GROUPS as a transient."
  ;; A prefix is defined by a macro, and the groups differ.
  (eval `(transient-define-prefix agent-q-menu-show ()
           "What agent-q can do here."
           ;; More than three columns are too wide for 80 characters.
           ,@(mapcar (lambda (row)
                       (vconcat (mapcar (pcase-lambda (`(,title . ,entries))
                                          (vconcat (list title) entries))
                                        row)))
                     (seq-partition groups 3)))
        t)
  (call-interactively 'agent-q-menu-show))

(defun agent-q-menu--page (groups)
  "Show GROUPS as a page of commands with their keys."
  (let ((keys (mapcar (pcase-lambda (`(,title . ,entries))
                        (cons title
                              (mapcar (pcase-lambda (`(,_ ,label ,command))
                                        (list label (substitute-command-keys
                                                     (format "\\[%s]" command))))
                                      entries)))
                      groups)))
    (with-help-window "*agent-q menu*"
      (pcase-dolist (`(,title . ,entries) keys)
        (princ (concat title "\n"))
        (pcase-dolist (`(,label ,key) entries)
          (princ (format "  %-28s %s\n" label key)))
        (princ "\n")))))

;;;; Menu bar and mouse

(defconst agent-q-menu--most-lines 18
  "Most lines of the groups of a menu that don't get menus of their own.
The whole of it has to fit into a terminal of 24 lines.")

(defun agent-q-menu--items (groups)
  "Return GROUPS as the items of a menu, with menus in it where they are many."
  (let ((lines 0))
    (cdr (seq-mapcat (pcase-lambda (`(,title . ,entries))
                       (let ((items (mapcar (pcase-lambda (`(,_ ,label ,command))
                                              (vector label command))
                                            entries)))
                         (setq lines (+ lines 1 (length items)))
                         (if (<= lines agent-q-menu--most-lines) (cons "--" items)
                           (list (cons title items)))))
                     groups))))

;;;###autoload
(defun agent-q-menu-install (mode)
  "Give MODE, one of our modes that was just loaded, its menu and menu keys."
  (let ((map (symbol-value (intern (format "%s-map" mode))))
        (groups (alist-get mode agent-q-menu--modes)))
    (define-key map (kbd "C-c C-o") #'agent-q-menu)
    ;; In the others it is text.
    (unless (memq mode '(agent-q-chat-mode agent-q-compose-mode agent-q-arguments-mode))
      (define-key map "?" #'agent-q-menu))
    (easy-menu-define nil map "Menu of agent-q."
      (cons "agent-q" (agent-q-menu--items groups)))
    (add-hook (intern (format "%s-hook" mode)) #'agent-q-menu--for-mouse)))

(defun agent-q-menu--for-mouse ()
  "Add our commands to the menu of the right mouse button in this buffer."
  (add-hook 'context-menu-functions #'agent-q-menu-context nil t))

;;;###autoload
(defun agent-q-menu-context (menu _click)
  "Add the commands of agent-q for this buffer to MENU."
  (define-key-after menu [agent-q-separator] menu-bar-separator)
  (define-key-after menu [agent-q]
    (list 'menu-item "agent-q"
          (easy-menu-create-menu "agent-q" (agent-q-menu--items (agent-q-menu--here)))))
  menu)

;;;###autoload
(defun agent-q-menu-of-tools ()
  "Return the menu that stands under Tools while `agent-q-mode' is on."
  (easy-menu-create-menu "agent-q" (agent-q-menu--items agent-q-menu--everywhere)))

;; Our modes are loaded when they are first used, and get their menus then.
;;;###autoload (with-eval-after-load 'agent-q-chat (agent-q-menu-install 'agent-q-chat-mode))
;;;###autoload (with-eval-after-load 'agent-q-client (agent-q-menu-install 'agent-q-client-mode))
;;;###autoload (with-eval-after-load 'agent-q-tool-list (agent-q-menu-install 'agent-q-tool-list-mode))
;;;###autoload (with-eval-after-load 'agent-q-tool-list (agent-q-menu-install 'agent-q-tool-statistics-mode))
;;;###autoload (with-eval-after-load 'agent-q-context-panel (agent-q-menu-install 'agent-q-context-mode))
;;;###autoload (with-eval-after-load 'agent-q-chats-list (agent-q-menu-install 'agent-q-chats-list-mode))
;;;###autoload (with-eval-after-load 'agent-q-rules (agent-q-menu-install 'agent-q-rules-mode))
;;;###autoload (with-eval-after-load 'agent-q-audit (agent-q-menu-install 'agent-q-audit-mode))
;;;###autoload (with-eval-after-load 'agent-q-image-changes (agent-q-menu-install 'agent-q-image-changes-mode))
;;;###autoload (with-eval-after-load 'agent-q-changes (agent-q-menu-install 'agent-q-changes-mode))
;;;###autoload (with-eval-after-load 'agent-q-doctor (agent-q-menu-install 'agent-q-doctor-mode))
;;;###autoload (with-eval-after-load 'agent-q-rewind (agent-q-menu-install 'agent-q-rewind-mode))
;;;###autoload (with-eval-after-load 'agent-q-compose (agent-q-menu-install 'agent-q-compose-mode))
;;;###autoload (with-eval-after-load 'agent-q-arguments (agent-q-menu-install 'agent-q-arguments-mode))
;;;###autoload (with-eval-after-load 'agent-q-diff-draft (agent-q-menu-install 'agent-q-diff-draft-mode))
;;;###autoload (with-eval-after-load 'agent-q-diff (agent-q-menu-install 'agent-q-diff-mode))

(provide 'agent-q-menu)
;;; agent-q-menu.el ends here
