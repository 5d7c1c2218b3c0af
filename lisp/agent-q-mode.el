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
    (define-key map "q" #'agent-q-chat)
    (define-key map "a" #'agent-q-goto-approval)
    (define-key map "i" #'agent-q-image-changes)
    (define-key map "e" #'agent-q-explain-error)
    (define-key map "c" #'agent-q-changes)
    (define-key map "u" #'agent-q-undo-turn)
    map)
  "Commands of agent-q behind `agent-q-keymap-prefix'.")

;;;###autoload
(defvar agent-q-mode-map (make-sparse-keymap)
  "Keymap of `agent-q-mode'.")

(defun agent-q-mode--set-prefix (option prefix)
  "Set OPTION to PREFIX and bind `agent-q-command-map' to it."
  (let ((old (and (boundp option) (symbol-value option))))
    (when old
      (define-key agent-q-mode-map (kbd old) nil)))
  (set-default option prefix)
  (when prefix
    (define-key agent-q-mode-map (kbd prefix) agent-q-command-map)))

(defcustom agent-q-keymap-prefix nil
  "The key behind which `agent-q-mode' puts the commands of agent-q.
The keys that Emacs leaves to its users are yours to give, so there is no
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

\\{agent-q-mode-map}"
  :global t
  :keymap agent-q-mode-map
  :group 'agent-q
  (cond (agent-q-mode
         (agent-q-record-start))
        (t (agent-q-record-stop))))

(provide 'agent-q-mode)
;;; agent-q-mode.el ends here
