;;; agent-q-diff-refresh.el --- Reviewing an edit again  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; When the target of an edit changes under its review, the hunks are put on
;; the text as it is now; nothing is applied that nobody has seen there.

;;; Code:

(require 'agent-q-diff-hunks)
(require 'agent-q-diff-target)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-diff-refresh ()
  "Review the edit again, on the current text.
Hunks that look as before keep their state, the others are not taken;
those that don't fit any more are left out, and the model is told so."
  (interactive nil agent-q-diff-mode)
  (agent-q-diff-hunks-check)
  (if (agent-q-diff-edit-one agent-q-diff-hunks-edit)
      (agent-q-diff-refresh--whole agent-q-diff-hunks-edit)
    (agent-q-diff-refresh--hunks)))

(defun agent-q-diff-refresh--whole (edit)
  "Show all of the text that EDIT takes away, as it is now."
  (let ((now (agent-q-diff-target-rebase edit)))
    (unless (string-empty-p (agent-q-diff-edit-base edit))
      (setf (agent-q-diff-edit-base edit) now)
      (agent-q-diff-hunks-fill (agent-q-core-diff-hunks now "" 3)))
    (agent-q-diff-hunks-watch)))

(defun agent-q-diff-refresh--hunks ()
  "Show the hunks that still fit."
  (let* ((edit agent-q-diff-hunks-edit)
         (before (append agent-q-diff-hunks-all nil))
         (now (agent-q-diff-target-rebase edit)))
    (pcase-let ((`(,text . ,outcomes)
                 (agent-q-core-diff-apply-onto now (agent-q-diff-hunks-json before))))
      (cl-mapc (lambda (hunk outcome)
                 (when (stringp outcome)
                   (push (format "the hunk %s does not fit: %s"
                                 (agent-q-diff-hunk-header hunk) outcome)
                         agent-q-diff-hunks-lost)))
               before outcomes)
      (setf (agent-q-diff-edit-base edit) now
            (agent-q-diff-edit-proposed edit) text)
      (agent-q-diff-hunks-fill (agent-q-core-diff-hunks now text 3))
      (seq-doseq (hunk agent-q-diff-hunks-all)
        (agent-q-diff-refresh--inherit hunk before))
      (agent-q-diff-hunks-count)
      (message "%s" (if agent-q-diff-hunks-lost
                        (string-join agent-q-diff-hunks-lost "; ")
                      "All hunks still fit")))))

(defun agent-q-diff-refresh--inherit (hunk before)
  "Give HUNK the state of the one in the list BEFORE with the same lines."
  (let ((old (seq-find (lambda (it)
                         (equal (agent-q-diff-hunk-body it) (agent-q-diff-hunk-body hunk)))
                       before)))
    (setf (agent-q-diff-hunk-chosen hunk) (and old (agent-q-diff-hunk-chosen old))
          (agent-q-diff-hunk-edited hunk) (and old (agent-q-diff-hunk-edited old))
          (agent-q-diff-hunk-comment hunk) (and old (agent-q-diff-hunk-comment old)))
    (agent-q-diff-hunks-mark hunk)))

(provide 'agent-q-diff-refresh)
;;; agent-q-diff-refresh.el ends here
