;;; agent-q-evil.el --- Keys that work under Evil  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Our lists and reviews have single letters for keys, which Evil's normal state would
;; take.  They begin in its Emacs state, pages in its motion state, where q closes them, and
;; chats in its insert state.  This is loaded when Evil is.

;;; Code:

(declare-function evil-set-initial-state "ext:evil-core" (mode state))
(declare-function evil-define-key* "ext:evil-core" (state keymap key def &rest bindings))
(defvar agent-q-chat-mode-map)

(defconst agent-q-evil--modes
  '(agent-q-diff-mode agent-q-diff-draft-mode agent-q-changes-mode agent-q-tool-list-mode
    agent-q-tool-statistics-mode agent-q-rules-mode agent-q-audit-mode
    agent-q-image-changes-mode agent-q-chats-list-mode agent-q-context-mode
    agent-q-rewind-mode agent-q-doctor-mode agent-q-debug-mode)
  "The modes whose keys are single letters.")

;;;###autoload
(defun agent-q-evil-setup ()
  "Tell Evil in which states the buffers of agent-q begin."
  (dolist (mode agent-q-evil--modes)
    (evil-set-initial-state mode 'emacs))
  (evil-set-initial-state 'agent-q-page-mode 'motion)
  (evil-set-initial-state 'agent-q-request-mode 'motion)
  (evil-set-initial-state 'agent-q-chat-mode 'insert)
  (evil-set-initial-state 'agent-q-compose-mode 'insert))

;;;###autoload
(defun agent-q-evil-setup-chat ()
  "Bind the keys of chats that Evil's normal state would take."
  (evil-define-key* 'normal agent-q-chat-mode-map
    (kbd "RET") 'agent-q-chat-return
    (kbd "TAB") 'agent-q-chat-tab))

;;;###autoload (with-eval-after-load 'evil (agent-q-evil-setup) (with-eval-after-load 'agent-q-chat (agent-q-evil-setup-chat)))

(provide 'agent-q-evil)
;;; agent-q-evil.el ends here
