;;; agent-q-menu.el --- Menus, the global mode and keys under Evil  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How agent-q is reached from anywhere: menus, the keys of `agent-q-mode', and what Evil has
;; to know of our buffers.

;;; Code:

(require 'agent-q-loaddefs)
(require 'agent-q-text)
(require 'easymenu)
(require 'seq)
(require 'subr-x)

;;;; The menus of agent-q

;; One table of commands for each of our modes, and for everywhere else.  It makes the menu
;; in the menu bar, the one of the right mouse button, and the one that `agent-q-menu'
;; shows: a transient, or a page of keys where Emacs has no transient.

(defconst agent-q-menu--lists
  '("Lists" ("T" "Tools" agent-q-list-tools) ("R" "Rules" agent-q-rules)
    ("A" "Audit log" agent-q-audit-log)
    ("I" "Changes in the image" agent-q-changes-in-image) ("D" "Doctor" agent-q-doctor)
    ("H" "Manual" agent-q-manual))
  "The lists of agent-q.")

(defconst agent-q-menu--everywhere
  `(("Ask about this" ("s" "Ask..." agent-q-ask) ("x" "Explain" agent-q-explain)
     ("e" "Explain the error" agent-q-explain-error)
     ("d" "Document" agent-q-document) ("f" "Fix the error" agent-q-fix-error)
     ("r" "Rewrite..." agent-q-rewrite))
    ("Chats" ("q" "Chat of this project" agent-q-chat) ("C" "All chats" agent-q-chats)
     ("a" "Pending request" agent-q-goto-approval)
     ("c" "What the turn changed" agent-q-changes) ("u" "Undo the turn" agent-q-undo-turn)
     ("V" "Verify in a fresh Lisp" agent-q-verify) ("F" "Image and files" agent-q-drift))
    ,agent-q-menu--lists)
  "The commands that make sense in every buffer.")

(defconst agent-q-menu--more
  '(("Last answer" ("w" "Copy answer" agent-q-copy-answer) ("c" "Copy code" agent-q-code-block-copy)
     ("i" "Insert code" agent-q-code-block-insert)
     ("z" "Code to the REPL" agent-q-code-block-stage)
     ("m" "Show or hide markup" agent-q-toggle-markup)
     ("u" "Unfold or fold all" agent-q-chat-view-toggle-all)
     ("t" "Try again" agent-q-retry) ("g" "Continue" agent-q-continue))
    ("This chat" ("n" "Rename..." agent-q-rename-chat) ("f" "Fork" agent-q-fork-chat)
     ("e" "Export..." agent-q-export-chat) ("$" "Cost" agent-q-cost)
     ("l" "Older turns" agent-q-chat-history-older) ("r" "Earlier chat..." agent-q-resume))
    ("Elsewhere" ("s" "Serve other agents" agent-q-mcp-mode)
     ("I" "Register with an agent..." agent-q-mcp-install) ("k" "Set a key..." agent-q-set-key)
     ("C" "Connected agents" agent-q-mcp-clients) ("x" "Explain the error" agent-q-explain-error)
     ("L" "MCP servers" agent-q-servers-list) ("S" "Statistics" agent-q-tool-statistics)
     ("W" "Tour" agent-q-tutorial) ("b" "Report a bug" agent-q-report-bug)))
  "The commands of a chat that its first menu has no room for.")

(defconst agent-q-menu--modes
  `((agent-q-chat-mode
     ;; The letters of keys after C-c, where there are any.
     ("Message" ("RET" "Send" agent-q-chat-send) ("k" "Cancel the turn" agent-q-chat-send-cancel)
      ("e" "Compose in a buffer" agent-q-compose) ("M-r" "Earlier messages" agent-q-prompt-search)
      ("q" "Edit queued message" agent-q-chat-send-queue-edit) ("M-RET" "Steer the turn" agent-q-chat-send-steer)
      ("s" "Plan mode" agent-q-plan-mode))
     ("Turn" ("a" "Pending request" agent-q-goto-approval)
      ("b" "Take over a parked error" agent-q-debugger-hand-over)
      ("c" "What the turn changed" agent-q-changes) ("u" "Undo the turn" agent-q-undo-turn)
      ("V" "Verify in a fresh Lisp" agent-q-verify)
      ("r" "Rewind..." agent-q-rewind))
     ("This chat" ("v" "Model" agent-q-set-model) ("t" "Reasoning effort" agent-q-set-effort)
      ("l" "Lisp image" agent-q-set-image) ("g" "Agent" agent-q-chat-use-agent)
      ("n" "Another chat" agent-q-menu-new-chat) ("C" "All chats" agent-q-chats)
      ("M" "More..." agent-q-menu-more))
     ("What the model reads" ("p" "System prompt" agent-q-show-system-prompt)
      ("j" "Request" agent-q-show-request) ("x" "Context" agent-q-context)
      ("m" "Context usage" agent-q-context-usage) ("o" "Summarize" agent-q-compact))
     ,agent-q-menu--lists)
    (agent-q-mcp-client-mode
     ("Agent" ("k" "Stop what runs" agent-q-mcp-client-stop)
      ("p" "Pause or resume" agent-q-mcp-client-pause) ("C" "All agents" agent-q-mcp-clients))
     ("Calls" ("a" "Pending request" agent-q-goto-approval)
      ("b" "Take over a parked error" agent-q-debugger-hand-over)
      ("c" "What was changed" agent-q-changes) ("u" "Undo the changes" agent-q-undo-turn)
      ("f" "Unfold or fold all" agent-q-chat-view-toggle-all))
     ,agent-q-menu--lists)
    (agent-q-tool-list-mode
     ("Tools" ("SPC" "Offer or not" agent-q-tool-list-toggle)
      ("l" "Safety level" agent-q-tool-list-set-level)
      ("RET" "Describe" agent-q-tool-list-describe) ("s" "Statistics" agent-q-tool-statistics)))
    (agent-q-tool-list-statistics-mode ,agent-q-menu--lists)
    (agent-q-servers-list-mode
     ("Servers" ("SPC" "Offer or not" agent-q-servers-toggle) ("s" "Start" agent-q-servers-start)
      ("k" "Stop" agent-q-servers-stop) ("RET" "Show the log" agent-q-servers-show-log)
      ("D" "Allow no longer" agent-q-servers-forbid)))
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
    (agent-q-changes-image-mode
     ("Changes" ("RET" "Show the form" agent-q-changes-image-source)
      ("u" "Undo" agent-q-changes-image-restore) ("U" "Undo all" agent-q-changes-image-restore-all)
      ("a" "Of all chats, or this one" agent-q-changes-image-toggle-all)))
    (agent-q-drift-mode
     ("Image and files" ("RET" "Go to the file" agent-q-drift-visit) ("=" "Compare" agent-q-drift-compare)
      ("p" "Put into the file" agent-q-drift-put) ("l" "Load the file's" agent-q-drift-load)
      ("f" "Forget in the image" agent-q-drift-forget) ("g" "Refresh" revert-buffer)))
    (agent-q-changes-mode
     ("Changes" ("u" "Undo the turn" agent-q-undo-turn) ("n" "Next hunk" diff-hunk-next)
      ("p" "Previous hunk" diff-hunk-prev) ("o" "Go there" diff-goto-source)))
    (agent-q-key-mode
     ("Key" ("RET" "Choose" push-button) ("TAB" "Next choice" forward-button)
      ("k" "All hosts" agent-q-set-key) ("v" "Doctor" agent-q-doctor)))
    (agent-q-doctor-mode
     ("Doctor" ("g" "Refresh" revert-buffer) ("i" "Download the core" agent-q-install-core)
      ("b" "Build the core" agent-q-build) ("k" "Set a key..." agent-q-set-key)
      ("r" "Report a bug" agent-q-report-bug)))
    (agent-q-chat-history-rewind-mode
     ("Go back" ("c" "The conversation" agent-q-chat-history-rewind-tick-conversation)
      ("f" "The files" agent-q-chat-history-rewind-tick-files) ("i" "The image" agent-q-chat-history-rewind-tick-image)
      ("F" "A copy of the chat" agent-q-chats-fork-here) ("d" "Do it" agent-q-chat-history-rewind-do)))
    (agent-q-chat-send-compose-mode
     ("Message" ("s" "Send" agent-q-chat-send-compose-send)
      ("k" "Back to the prompt" agent-q-chat-send-compose-leave)))
    (agent-q-approval-arguments-mode
     ("Arguments" ("r" "Run the call" agent-q-approval-arguments-run)
      ("k" "Discard the edits" agent-q-approval-arguments-quit)))
    (agent-q-review-draft-mode
     ("Edit" ("k" "Cancel the turn" agent-q-review-draft-cancel)))
    (agent-q-review-mode
     ("Review" ("SPC" "Accept or reject the hunk" agent-q-review-toggle)
      ("e" "Edit the hunk" agent-q-review-edit-this-hunk) ("c" "Comment" agent-q-review-comment)
      ("a" "Apply" agent-q-review-apply) ("r" "Reject all" agent-q-review-reject))))
  "The commands of each mode, in groups: a title and entries (KEY LABEL COMMAND).")

;; What a command needs and sets, so that menus can tell.

(defconst agent-q-menu--needs
  '((agent-q-prompt-typed-p agent-q-chat-send)
    (agent-q-chat-view-header-busy-p
     agent-q-chat-send-cancel agent-q-chat-send-steer agent-q-mcp-client-stop)
    (agent-q-prompt-search-p agent-q-prompt-search)
    (agent-q-chat-send-queue-p agent-q-chat-send-queue-edit)
    (agent-q-chat-view-waiting agent-q-goto-approval)
    (agent-q-image-held-p agent-q-debugger-hand-over)
    (agent-q-changes-p agent-q-changes)
    (agent-q-changes-undo-p agent-q-undo-turn)
    (agent-q-chat-view-idle-p agent-q-verify)
    (agent-q-chat-view-asked-p agent-q-rewind agent-q-retry agent-q-continue agent-q-compact)
    (agent-q-chat-commands-effort-p agent-q-set-effort)
    (agent-q-connection-connections agent-q-set-image)
    (agent-q-connection-default-connection agent-q-drift)
    (agent-q-render-last-answer agent-q-copy-answer)
    (agent-q-code-block-p agent-q-code-block-copy agent-q-code-block-insert)
    (agent-q-code-block-stage-p agent-q-code-block-stage)
    (agent-q-chat-view-items agent-q-chat-view-toggle-all)
    (agent-q-chat-history-id agent-q-rename-chat agent-q-fork-chat agent-q-export-chat)
    (agent-q-chat-history-older-p agent-q-chat-history-older)
    (agent-q-menu--in-debugger-p agent-q-explain-error)
    (buffer-file-name agent-q-document agent-q-rewrite)
    (tabulated-list-get-id
     agent-q-chats-list-go agent-q-chats-list-rename agent-q-chats-list-fork
     agent-q-chats-list-export agent-q-chats-list-delete agent-q-rules-revoke
     agent-q-rules-describe agent-q-audit-describe agent-q-context-show agent-q-context-visit
     agent-q-context-remove agent-q-changes-image-source agent-q-changes-image-restore
     agent-q-drift-visit agent-q-drift-compare agent-q-drift-put agent-q-drift-load
     agent-q-drift-forget agent-q-servers-toggle agent-q-servers-start agent-q-servers-stop
     agent-q-servers-show-log agent-q-servers-forbid))
  "What commands need: lists of a function or variable and of commands.
They can be used where it is non-nil.")

(defconst agent-q-menu--of-a-chat '(agent-q-changes agent-q-undo-turn agent-q-verify)
  "Commands that are about the latest chat where the buffer is none.")

(defconst agent-q-menu--states
  '((agent-q-set-model . agent-q-chat-view-header-model)
    (agent-q-set-effort . agent-q-chat-commands-effort) (agent-q-plan-mode . agent-q-plan-mode))
  "Commands, and the variables that they set in a chat, or functions for these.")

(defun agent-q-menu--in-debugger-p ()
  "Whether this is a debugger buffer of SLY or SLIME."
  (derived-mode-p 'sldb-mode 'sly-db-mode))

(defun agent-q-menu--value (name)
  "Return the value of the variable NAME, or of a call of that function."
  (if (boundp name) (symbol-value name) (funcall name)))

(defun agent-q-menu--available-p (command)
  "Whether COMMAND can do something in this buffer now."
  (let ((need (car (seq-find (lambda (need) (memq command (cdr need))) agent-q-menu--needs)))
        (chat (cond ((or (bound-and-true-p agent-q-session-number)
                         (not (memq command agent-q-menu--of-a-chat)))
                     (current-buffer))
                    ((fboundp 'agent-q-session-chats) (car (agent-q-session-chats))))))
    (cond ((null need) t)
          ((null chat) nil)
          ;; Nothing of what it needs was loaded.
          ((not (or (boundp need) (fboundp need)))
           (not (memq command '(agent-q-goto-approval agent-q-drift))))
          (t (and (with-current-buffer chat (agent-q-menu--value need)) t)))))

(defun agent-q-menu--state (command)
  "Return what COMMAND has set in this chat as text, or nil."
  (when-let ((name (and (derived-mode-p 'agent-q-chat-mode)
                        (alist-get command agent-q-menu--states))))
    (pcase (if (eq name command) (symbol-value name) (agent-q-menu--value name))
      ('nil (and (eq command 'agent-q-plan-mode) "off"))
      ('t "on")
      (value (agent-q-text-visible-line (format "%s" value) 20)))))

(defconst agent-q-menu--roomy 120
  "The least width of a frame whose transients show the usual keys, too.")

(defun agent-q-menu--label (key label command)
  "Return LABEL of COMMAND for a transient where its key is KEY.
It has what the command has set, and its usual key where there is room."
  (let ((state (agent-q-menu--state command))
        (usual (and (>= (frame-width) agent-q-menu--roomy)
                    (where-is-internal command nil t))))
    (concat label
            (and state (concat " " (propertize state 'face 'success)))
            (and usual (not (equal key (key-description usual)))
                 (concat " " (propertize (key-description usual) 'face 'shadow))))))

(defconst agent-q-menu--slash
  '(("help" agent-q-completion-slash-help "what can be typed after /")
    ("model" agent-q-set-model "choose the model")
    ("key" agent-q-set-key "set the key of a model host")
    ("image" agent-q-set-image "choose the Lisp image")
    ("context" agent-q-context "what is in the context, with sizes")
    ("usage" agent-q-context-usage "what fills the model's context")
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
    ("drift" agent-q-drift "what image and files don't have alike")
    ("undo" agent-q-undo-turn "undo what the last turn changed")
    ("verify" agent-q-verify "load and test the project in a fresh Lisp")
    ("tools" agent-q-list-tools "the tools, and which are offered")
    ("rules" agent-q-rules "your rules about calls")
    ("system" agent-q-show-system-prompt "what else the model is told")
    ("doctor" agent-q-doctor "what is found and what is missing")
    ("manual" agent-q-manual "the manual of agent-q")
    ("tour" agent-q-tutorial "agent-q in ten minutes, without a model"))
  "Commands that can be typed after /: lists (NAME COMMAND NOTE).")

(defvar agent-q-completion-slash-commands)

;;;###autoload
(defun agent-q-menu-install-slash ()
  "Make known which commands can be typed after /."
  (setq agent-q-completion-slash-commands agent-q-menu--slash))

;;;###autoload (with-eval-after-load 'agent-q-completion (agent-q-menu-install-slash))

(defun agent-q-menu-new-chat ()
  "Open another chat of this project, in this window."
  (interactive)
  (let ((display-buffer-overriding-action '(display-buffer-same-window)))
    (agent-q-chat t)))

(defun agent-q-menu--here ()
  "Return the groups of commands for the current buffer."
  (or (alist-get (pcase major-mode
                   ('agent-q-approval-arguments-lisp-mode 'agent-q-approval-arguments-mode)
                   (mode mode))
                 agent-q-menu--modes)
      agent-q-menu--everywhere))

;;;;; One key

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

(defun agent-q-menu--transient-entry (entry)
  "Return ENTRY of a group for a transient."
  (pcase-let ((`(,key ,label ,command) entry))
    `(,key ,(agent-q-menu--label key label command) ,command
           ,@(unless (agent-q-menu--available-p command) '(:inapt-if always)))))

(defun agent-q-menu--transient (groups)
  "Show GROUPS as a transient."
  ;; A prefix is defined by a macro, and the groups differ.
  (eval `(transient-define-prefix agent-q-menu-show ()
           "What agent-q can do here."
           ;; More than three columns are too wide for 80 characters.
           ,@(mapcar (lambda (row)
                       (vconcat (mapcar (pcase-lambda (`(,title . ,entries))
                                          (vconcat (list title)
                                                   (mapcar #'agent-q-menu--transient-entry entries)))
                                        row)))
                     (seq-partition groups 3)))
        t)
  (call-interactively 'agent-q-menu-show))

(defun agent-q-menu--page (groups)
  "Show GROUPS as a page of commands with their keys."
  (let ((keys (mapcar (pcase-lambda (`(,title . ,entries))
                        (cons title
                              (mapcar (pcase-lambda (`(,_ ,label ,command))
                                        (list (concat label
                                                      (if-let ((state (agent-q-menu--state command)))
                                                          (format " (%s)" state)
                                                        ""))
                                              (substitute-command-keys
                                               (format "\\[%s]" command))))
                                      entries)))
                      groups)))
    (agent-q-text-with-page "*agent-q menu*"
      (pcase-dolist (`(,title . ,entries) keys)
        (princ (concat title "\n"))
        (pcase-dolist (`(,label ,key) entries)
          (princ (format "  %-28s %s\n" label key)))
        (princ "\n")))))

;;;;; Menu bar and mouse

(defconst agent-q-menu--most-lines 18
  "Most lines of the groups of a menu that don't get menus of their own.
The whole of it has to fit into a terminal of 24 lines.")

(defun agent-q-menu--items (groups)
  "Return GROUPS as the items of a menu, with menus in it where they are many."
  (let ((lines 0))
    (cdr (seq-mapcat (pcase-lambda (`(,title . ,entries))
                       (let ((items (mapcar (pcase-lambda (`(,_ ,label ,command))
                                              (vector label command :enable
                                                      `(agent-q-menu--available-p ',command)))
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
    (define-key map (kbd "C-c C-o") #'agent-q-menu-open)
    ;; In the others it is text.
    (unless (memq mode '(agent-q-chat-mode agent-q-chat-send-compose-mode agent-q-approval-arguments-mode))
      (define-key map "?" #'agent-q-menu))
    (easy-menu-define nil map "Menu of agent-q."
      (cons "agent-q" (agent-q-menu--items groups)))
    ;; The menu of Text mode is about other texts.
    (define-key map [menu-bar text] #'undefined)
    (add-hook (intern (format "%s-hook" mode)) #'agent-q-menu--for-mouse)))

(defun agent-q-menu-open ()
  "Open what is at point: a link, a place, a value, a definition; else the menu.
In Org and Markdown, the key opens links."
  (interactive)
  (cond ((get-text-property (point) 'agent-q-live) (call-interactively 'agent-q-names-follow))
        ((get-text-property (point) 'agent-q-link) (call-interactively 'agent-q-markdown-link-follow))
        (t (call-interactively #'agent-q-menu))))

(defun agent-q-menu--for-mouse ()
  "Add our commands to the menu of the right mouse button in this buffer."
  (add-hook 'context-menu-functions #'agent-q-menu-context nil t)
  ;; Emacs's own functions come between.
  (add-hook 'context-menu-functions #'agent-q-menu--without-text 90 t))

(defun agent-q-menu--without-text (menu _click)
  "Take the menu of Text mode out of MENU, one of the right mouse button."
  (define-key menu [text] nil)
  menu)

(defconst agent-q-menu--places
  '((agent-q-live "Open" agent-q-names-follow) (agent-q-link "Open" agent-q-markdown-link-follow)
    (agent-q-code "Copy this code" agent-q-code-block-copy)
    (agent-q-code "Insert this code" agent-q-code-block-insert)
    (agent-q-code "This code to the REPL" agent-q-code-block-stage)
    (agent-q-item "Unfold or fold" agent-q-render-toggle)
    (agent-q-turn "Rewind to here..." agent-q-rewind))
  "What can be done where a text property of a chat is: (PROPERTY LABEL COMMAND).")

(defun agent-q-menu--at (place)
  "Return the labels and commands for what is at PLACE in this buffer."
  (let ((line (save-excursion (goto-char place) (line-beginning-position))))
    (append
     (mapcan (pcase-lambda (`(,property ,label ,command))
               (and (get-text-property (if (eq property 'agent-q-turn) line place) property)
                    (list (list label command))))
             agent-q-menu--places)
     ;; Only the latest one can be.
     (and (derived-mode-p 'agent-q-chat-mode)
          (not (text-property-not-all (min (1+ place) (point-max)) (point-max) 'agent-q-turn nil))
          '(("Undo this turn" agent-q-undo-turn))))))

(defun agent-q-menu--context-at (menu click)
  "Add what can be done at the place of CLICK to MENU."
  (let* ((end (event-end click))
         (window (posn-window end))
         (place (posn-point end)))
    (when (and (windowp window) (integer-or-marker-p place))
      (with-current-buffer (window-buffer window)
        (pcase-dolist (`(,label ,command) (agent-q-menu--at place))
          (define-key-after menu (vector (intern (concat "agent-q " label)))
            (list 'menu-item label
                  (lambda ()
                    (interactive)
                    (with-selected-window window
                      (save-excursion
                        (goto-char place)
                        (call-interactively command))))
                  :enable (agent-q-menu--available-p command))))))))

;;;###autoload
(defun agent-q-menu-context (menu click)
  "Add the commands of agent-q to MENU, first those for the place of CLICK."
  (define-key-after menu [agent-q-separator] menu-bar-separator)
  (agent-q-menu--context-at menu click)
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
;;;###autoload (with-eval-after-load 'agent-q-mcp (agent-q-menu-install 'agent-q-mcp-client-mode))
;;;###autoload (with-eval-after-load 'agent-q-tool-list (agent-q-menu-install 'agent-q-tool-list-mode))
;;;###autoload (with-eval-after-load 'agent-q-tool-list (agent-q-menu-install 'agent-q-tool-list-statistics-mode))
;;;###autoload (with-eval-after-load 'agent-q-servers (agent-q-menu-install 'agent-q-servers-list-mode))
;;;###autoload (with-eval-after-load 'agent-q-context (agent-q-menu-install 'agent-q-context-mode))
;;;###autoload (with-eval-after-load 'agent-q-chats (agent-q-menu-install 'agent-q-chats-list-mode))
;;;###autoload (with-eval-after-load 'agent-q-rules (agent-q-menu-install 'agent-q-rules-mode))
;;;###autoload (with-eval-after-load 'agent-q-audit (agent-q-menu-install 'agent-q-audit-mode))
;;;###autoload (with-eval-after-load 'agent-q-changes (agent-q-menu-install 'agent-q-changes-image-mode))
;;;###autoload (with-eval-after-load 'agent-q-changes (agent-q-menu-install 'agent-q-changes-mode))
;;;###autoload (with-eval-after-load 'agent-q-drift (agent-q-menu-install 'agent-q-drift-mode))
;;;###autoload (with-eval-after-load 'agent-q-doctor (agent-q-menu-install 'agent-q-doctor-mode))
;;;###autoload (with-eval-after-load 'agent-q-key (agent-q-menu-install 'agent-q-key-mode))
;;;###autoload (with-eval-after-load 'agent-q-chat-history (agent-q-menu-install 'agent-q-chat-history-rewind-mode))
;;;###autoload (with-eval-after-load 'agent-q-chat-send (agent-q-menu-install 'agent-q-chat-send-compose-mode))
;;;###autoload (with-eval-after-load 'agent-q-approval (agent-q-menu-install 'agent-q-approval-arguments-mode))
;;;###autoload (with-eval-after-load 'agent-q-review-draft (agent-q-menu-install 'agent-q-review-draft-mode))
;;;###autoload (with-eval-after-load 'agent-q-review (agent-q-menu-install 'agent-q-review-mode))

;;;; The global mode, and the keys of agent-q

;; `agent-q-mode' remembers what the user does in SLY and SLIME, and has keys for the
;; commands of agent-q.

;; Init files put it behind a key of their own, or add to the map of the mode.
;;;###autoload
(defvar agent-q-command-map
  (let ((map (make-sparse-keymap)))
    ;; With names, which which-key shows.
    (pcase-dolist (`(,key ,name ,command)
                   '(("q" "chat" agent-q-chat) ("a" "pending request" agent-q-goto-approval)
                     ("s" "ask about this" agent-q-ask) ("x" "explain this" agent-q-explain)
                     ("d" "document this" agent-q-document) ("f" "fix this error" agent-q-fix-error)
                     ("r" "rewrite this" agent-q-rewrite)
                     ("e" "chat about this error" agent-q-explain-error)
                     ("c" "changes of the turn" agent-q-changes) ("u" "undo the turn" agent-q-undo-turn)
                     ("i" "changes in the image" agent-q-changes-in-image) ("I" "image and files" agent-q-drift)
                     ("t" "tools" agent-q-list-tools) ("R" "rules" agent-q-rules)
                     ("A" "audit log" agent-q-audit-log) ("D" "doctor" agent-q-doctor)
                     ("h" "manual" agent-q-manual) ("m" "menu" agent-q-menu)))
      (define-key map key (cons name command)))
    map)
  "Commands of agent-q after `agent-q-keymap-prefix'.")

;;;###autoload
(defvar agent-q-mode-map
  (let ((map (make-sparse-keymap)))
    ;; Letters that neither client has in its debugger; elsewhere they are text.
    (pcase-dolist (`(,key . ,command)
                   '(("F" . agent-q-fix-error) ("X" . agent-q-explain) ("S" . agent-q-ask)))
      (define-key map key `(menu-item "" ,command :filter agent-q-menu-mode-in-debugger)))
    map)
  "Keymap of `agent-q-mode'.")

;;;###autoload
(defun agent-q-menu-mode-in-debugger (command)
  "Return COMMAND in a debugger buffer of SLY or SLIME, and nil elsewhere."
  (and (agent-q-menu--in-debugger-p) command))

(defun agent-q-menu--mode-set-prefix (option prefix)
  "Set OPTION to PREFIX and bind `agent-q-command-map' to it."
  (let ((old (and (boundp option) (symbol-value option))))
    (when old
      (define-key agent-q-mode-map (kbd old) nil)))
  (set-default option prefix)
  (when prefix
    (define-key agent-q-mode-map (kbd prefix) agent-q-command-map)))

(defcustom agent-q-keymap-prefix nil
  "Prefix key for the commands of agent-q in `agent-q-mode'.
The keys that Emacs reserves for users are yours to assign, so there is no
default."
  :type '(choice (const :tag "None" nil) (string :tag "Key, as for `kbd'"))
  :set #'agent-q-menu--mode-set-prefix
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload
(define-minor-mode agent-q-mode
  "Record your work in SLY and SLIME for later chats.
From the moment a Lisp connects, the latest forms that you evaluated or
compiled, with their results, are kept in memory.
The mode is light: it does not load the core.
In the debuggers of SLY and SLIME, F asks the agent to fix the error, X to
explain it, and S asks about it.

\\{agent-q-mode-map}"
  :global t
  :keymap agent-q-mode-map
  :group 'agent-q
  (cond (agent-q-mode
         (define-key agent-q-mode-map [menu-bar tools agent-q]
           (cons "agent-q" (agent-q-menu-of-tools)))
         (add-hook 'context-menu-functions #'agent-q-menu-context 90)
         (agent-q-image-history-record-start))
        (t
         (remove-hook 'context-menu-functions #'agent-q-menu-context)
         (when (featurep 'agent-q-image-history)
           (agent-q-image-history-record-stop)))))

;;;; Keys that work under Evil

;; Our lists and reviews have single letters for keys, which Evil's normal state would
;; take.  They begin in its Emacs state, pages in its motion state, where q closes them, and
;; chats in its insert state.  This is loaded when Evil is.

(declare-function evil-set-initial-state "ext:evil-core" (mode state))
(declare-function evil-define-key* "ext:evil-core" (state keymap key def &rest bindings))
(defvar agent-q-chat-mode-map)

(defconst agent-q-menu--evil-modes
  '(agent-q-review-mode agent-q-review-draft-mode agent-q-changes-mode agent-q-tool-list-mode
    agent-q-tool-list-statistics-mode agent-q-rules-mode agent-q-audit-mode
    agent-q-changes-image-mode agent-q-drift-mode agent-q-chats-list-mode agent-q-context-mode
    agent-q-chat-history-rewind-mode agent-q-doctor-mode agent-q-debug-mode
    agent-q-key-mode)
  "The modes whose keys are single letters.")

;;;###autoload
(defun agent-q-menu-evil-setup ()
  "Tell Evil in which states the buffers of agent-q begin."
  (dolist (mode agent-q-menu--evil-modes)
    (evil-set-initial-state mode 'emacs))
  (evil-set-initial-state 'agent-q-render-body-page-mode 'motion)
  (evil-set-initial-state 'agent-q-chat-commands-request-mode 'motion)
  (evil-set-initial-state 'agent-q-chat-mode 'insert)
  (evil-set-initial-state 'agent-q-chat-send-compose-mode 'insert))

;;;###autoload
(defun agent-q-menu-evil-setup-chat ()
  "Bind the keys of chats that Evil's normal state would take."
  (evil-define-key* 'normal agent-q-chat-mode-map
    (kbd "RET") 'agent-q-chat-return
    (kbd "TAB") 'agent-q-chat-view-tab))

;;;###autoload (with-eval-after-load 'evil (agent-q-menu-evil-setup) (with-eval-after-load 'agent-q-chat (agent-q-menu-evil-setup-chat)))

(provide 'agent-q-menu)
;;; agent-q-menu.el ends here
