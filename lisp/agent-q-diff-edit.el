;;; agent-q-diff-edit.el --- Editing one hunk of a diff review  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The lines of one hunk in a buffer of their own.  The core checks that the
;; original's lines are still what the file holds.

;;; Code:

(require 'agent-q-diff-hunks)

(defvar-local agent-q-diff-edit--hunk nil "The hunk that is edited here.")
(defvar-local agent-q-diff-edit--review nil "The buffer of its review.")
(defvar-local agent-q-diff-edit--returns nil
  "Whether carriage returns end the lines of the file; they are not shown here.")

(defvar agent-q-diff-edit-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'agent-q-diff-edit-finish)
    (define-key map (kbd "C-c C-k") #'agent-q-diff-edit-quit)
    map)
  "Keymap of `agent-q-diff-edit-mode'.")

(define-derived-mode agent-q-diff-edit-mode text-mode "agent-q hunk"
  "Major mode for editing a hunk.
Lines with + are added, lines with - are removed, the others stay.
\\<agent-q-diff-edit-mode-map>\\[agent-q-diff-edit-finish] puts the hunk into the review; \\[agent-q-diff-edit-quit] leaves it.

\\{agent-q-diff-edit-mode-map}"
  (setq-local require-final-newline nil
              indent-tabs-mode t
              bidi-paragraph-direction 'left-to-right
              font-lock-defaults '((("^\\+.*" . 'diff-added) ("^-.*" . 'diff-removed)) t)
              header-line-format
              " C-c C-c puts the hunk into the review, C-c C-k leaves it as it was"))

(defun agent-q-diff-edit--with-returns (body)
  "Return BODY, lines of a diff, with a \\r at the end of each."
  (string-replace "\r\n\\ No newline at end of file\r\n"
                  "\n\\ No newline at end of file\n"
                  (string-replace "\n" "\r\n" body)))

(defun agent-q-diff-edit-open (hunk)
  "Edit HUNK of the review in the current buffer."
  (let* ((review (current-buffer))
         (body (agent-q-diff-hunk-body hunk))
         (plain (string-replace "\r\n" "\n" body))
         (returns (and (not (equal plain body))
                       (equal body (agent-q-diff-edit--with-returns plain))))
         (buffer (generate-new-buffer (format "*agent-q hunk %d*"
                                              (agent-q-diff-hunk-number hunk)))))
    (with-current-buffer buffer
      (insert (if returns plain body))
      (agent-q-diff-edit-mode)
      (setq agent-q-diff-edit--hunk hunk
            agent-q-diff-edit--review review
            agent-q-diff-edit--returns returns)
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer buffer '((display-buffer-same-window)))))

(defun agent-q-diff-edit-finish ()
  "Put the hunk as edited here into the review."
  (interactive nil agent-q-diff-edit-mode)
  (unless (buffer-live-p agent-q-diff-edit--review)
    (user-error "The review of this hunk is over"))
  (let* ((text (buffer-substring-no-properties (point-min) (point-max)))
         (body (if agent-q-diff-edit--returns (agent-q-diff-edit--with-returns text)
                 text))
         (hunk agent-q-diff-edit--hunk))
    (with-current-buffer agent-q-diff-edit--review
      (condition-case failure
          (agent-q-diff-hunks-replace hunk body)
        ;; Emacs would show it in quotes.
        (agent-q-error (user-error "%s" (cadr failure))))))
  (agent-q-diff-edit-quit))

(defun agent-q-diff-edit-quit ()
  "Discard the edit and leave the hunk in the review as it was."
  (interactive nil agent-q-diff-edit-mode)
  (quit-window t))

(provide 'agent-q-diff-edit)
;;; agent-q-diff-edit.el ends here
