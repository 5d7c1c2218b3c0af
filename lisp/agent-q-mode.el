;;; agent-q-mode.el --- The global mode, and the keys of agent-q  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; `agent-q-mode' remembers what the user does in SLY and SLIME, and has keys for the
;; commands of agent-q.

;;; Code:

(require 'agent-q-loaddefs)
(require 'agent-q-record)

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
                     ("i" "changes in the image" agent-q-image-changes)
                     ("t" "tools" agent-q-list-tools) ("R" "rules" agent-q-rules)
                     ("A" "audit log" agent-q-audit-log) ("D" "doctor" agent-q-doctor)
                     ("m" "menu" agent-q-menu)))
      (define-key map key (cons name command)))
    map)
  "Commands of agent-q after `agent-q-keymap-prefix'.")

;;;###autoload
(defvar agent-q-mode-map
  (let ((map (make-sparse-keymap)))
    ;; Letters that neither client has in its debugger; elsewhere they are text.
    (pcase-dolist (`(,key . ,command)
                   '(("F" . agent-q-fix-error) ("X" . agent-q-explain) ("S" . agent-q-ask)))
      (define-key map key `(menu-item "" ,command :filter agent-q-mode-in-debugger)))
    map)
  "Keymap of `agent-q-mode'.")

;;;###autoload
(defun agent-q-mode-in-debugger (command)
  "Return COMMAND in a debugger buffer of SLY or SLIME, and nil elsewhere."
  (and (derived-mode-p 'sldb-mode 'sly-db-mode)
       command))

(defun agent-q-mode--set-prefix (option prefix)
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
  :set #'agent-q-mode--set-prefix
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
         (agent-q-record-start))
        (t
         (remove-hook 'context-menu-functions #'agent-q-menu-context)
         (agent-q-record-stop))))

(provide 'agent-q-mode)
;;; agent-q-mode.el ends here
