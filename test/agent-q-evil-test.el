;;; agent-q-evil-test.el --- Tests of the keys under Evil  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Under Evil our single letters do what they do without it, and chats can be typed in.
;; Evil is looked for in EVIL_DIR, in ~/.emacs.d/elpa/ and where Debian has it.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-menu)
(require 'agent-q-audit)
(require 'agent-q-chats)
(require 'agent-q-chat-send)
(require 'agent-q-context)
(require 'agent-q-review)
(require 'agent-q-changes)
(require 'agent-q-chat-commands)
(require 'agent-q-chat-history)
(require 'agent-q-rules)
(require 'agent-q-tool-list)

(defvar evil-state)
(defvar evil-want-keybinding)
(declare-function evil-local-mode "ext:evil-core")
(declare-function evil-normal-state "ext:evil-states")

(defun agent-q-evil-test--load ()
  "Load Evil; skip the test where there is none."
  (dolist (pattern (list (getenv "EVIL_DIR")
                         "~/.emacs.d/elpa/evil-[0-9]*" "~/.emacs.d/elpa/goto-chg-[0-9]*"
                         "/usr/share/emacs/site-lisp/elpa/evil-[0-9]*"
                         "/usr/share/emacs/site-lisp/elpa/goto-chg-[0-9]*"))
    (dolist (directory (and pattern (file-expand-wildcards pattern)))
      (add-to-list 'load-path directory)))
  (unless (require 'evil nil t)
    (ert-skip "Evil was not found")))

(ert-deftest agent-q-evil-leaves-the-letters-of-our-lists-alone ()
  (agent-q-evil-test--load)
  (pcase-dolist (`(,mode . ,keys)
                 '((agent-q-review-mode ("n" . agent-q-review-next) ("SPC" . agent-q-review-toggle)
                                        ("c" . agent-q-review-comment) ("e" . agent-q-review-edit-this-hunk)
                                        ("C-c C-c" . agent-q-review-apply))
                   (agent-q-rules-mode) (agent-q-tool-list-mode) (agent-q-tool-list-statistics-mode)
                   (agent-q-audit-mode) (agent-q-changes-image-mode) (agent-q-chats-list-mode)
                   (agent-q-context-mode) (agent-q-chat-history-rewind-mode)))
    (ert-info ((symbol-name mode))
      (with-temp-buffer
        (funcall mode)
        (evil-local-mode 1)
        (should (eq evil-state 'emacs))
        (pcase-dolist (`(,key . ,command) keys)
          (should (eq command (key-binding (kbd key)))))
        ;; Every letter of the mode's own map is the mode's.
        (map-keymap-internal (lambda (key command)
                               (when (and (characterp key) (< ?\s key 127) (commandp command))
                                 (should (eq command (key-binding (vector key))))))
                             (symbol-value (intern (format "%s-map" mode))))))))

(ert-deftest agent-q-evil-leaves-the-key-that-closes-a-page-alone ()
  (agent-q-evil-test--load)
  (save-window-excursion
    (unwind-protect
        (with-current-buffer (agent-q-render-body-show "*agent-q text*" "A text.")
          (evil-local-mode 1)
          (should (eq evil-state 'motion))
          (should (eq 'quit-window (key-binding "q"))))
      (kill-buffer "*agent-q text*")))
  (with-temp-buffer
    (agent-q-chat-commands-request-mode)
    (evil-local-mode 1)
    (should (eq evil-state 'motion))
    (should (eq 'quit-window (key-binding "q")))))

(ert-deftest agent-q-evil-types-in-chats ()
  (agent-q-evil-test--load)
  (agent-q-test-with-chat
    (evil-local-mode 1)
    (should (eq evil-state 'insert))
    (should (eq 'agent-q-chat-return (key-binding (kbd "RET"))))
    (evil-normal-state)
    (should (eq 'agent-q-chat-return (key-binding (kbd "RET"))))
    (should (eq 'agent-q-chat-view-tab (key-binding (kbd "TAB")))))
  (with-temp-buffer
    (agent-q-chat-send-compose-mode)
    (evil-local-mode 1)
    (should (eq evil-state 'insert))))

(ert-deftest agent-q-evil-leaves-the-keys-of-a-request-alone ()
  (agent-q-evil-test--load)
  (agent-q-test-with-chat
    (evil-local-mode 1)
    (agent-q-test-event :approval :call 7 :tool "eval_form" :level "dangerous"
                        :reason "" :arguments "{\"form\":\"(quit)\"}")
    (evil-normal-state)
    (goto-char (point-min))
    (search-forward "[y]")
    (should (eq 'agent-q-approval-run (key-binding "y")))
    (should (eq 'agent-q-approval-deny (key-binding "n")))))

(provide 'agent-q-evil-test)
;;; agent-q-evil-test.el ends here
