;;; agent-q-user.el --- The buffer that the user works in  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Which buffer is the user's own, as tools and messages mean it, and what file and
;; package its text belongs to.  The core asks this by the names at the end.

;;; Code:

(require 'agent-q-session)
(require 'agent-q-text)
(require 'seq)
(require 'subr-x)

(defun agent-q-user-visited-file (buffer)
  "Return the file that BUFFER visits, or the one that it is indirect to, or nil.
It is a cons of the name and whether that is on another machine, of which
nothing is asked.  Called by the core before a tool uses BUFFER."
  (when-let ((file (buffer-local-value 'buffer-file-name
                                       (or (buffer-base-buffer buffer) buffer))))
    (let ((remote (file-remote-p file)))
      (cons (agent-q-text-clean (if remote file (expand-file-name file)))
            (and remote t)))))

(defun agent-q-user-buffer-p (buffer)
  "Whether BUFFER is one that a user works in, and not a chat."
  (and (buffer-live-p buffer)
       (not (minibufferp buffer))
       (not (string-match-p "\\`\\(?: \\|\\*\\(?:agent-q\\|Completions\\*\\)\\)"
                            (buffer-name buffer)))
       (not (buffer-local-value 'agent-q-session-chat-p buffer))))

(defun agent-q-user-last-buffer (&optional predicate)
  "Return the buffer that the user last worked in, or nil.
Chats, the minibuffer and hidden buffers don't count, nor those that
PREDICATE, a function of a buffer, returns nil for.  Called by the core when
a tool reads a buffer without naming one."
  (let ((selected (window-buffer (or (minibuffer-selected-window)
                                     (selected-window)))))
    (seq-find (lambda (buffer)
                (and (agent-q-user-buffer-p buffer)
                     (or (null predicate) (funcall predicate buffer))))
              ;; A frame lists its buffers in the order in which they were selected.
              (cons selected (buffer-list (selected-frame))))))

(defconst agent-q-user-in-package
  "^[ \t]*(\\(?:cl:\\|common-lisp:\\)?in-package[ \t\n]+\\(?:#?:\\|'\\|\"\\)?\\([^ \t\n()\"]+\\)"
  "Regexp of a form that enters a package, whose name is the first group.")

(defun agent-q-user-package ()
  "Return the package that the text at point is read in, or nil."
  (let ((case-fold-search t))
    (save-excursion
      (save-restriction
        (widen)
        (when (or (re-search-backward agent-q-user-in-package nil t)
                  (progn (goto-char (point-min))
                         (re-search-forward agent-q-user-in-package nil t)))
          (upcase (match-string-no-properties 1)))))))

(provide 'agent-q-user)
;;; agent-q-user.el ends here
