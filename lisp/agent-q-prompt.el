;;; agent-q-prompt.el --- The prompt of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The editable text below the log, and the history of what was sent.

;;; Code:

(require 'agent-q)

(defvar-local agent-q-prompt-start nil
  "Marker at the beginning of the user's text.")

(defvar-local agent-q-prompt--history nil
  "What the user sent from this chat, latest first.")

(defvar-local agent-q-prompt--index nil
  "Which element of the history the prompt shows, or nil for the draft.")

(defvar-local agent-q-prompt--draft ""
  "What the user had typed before going through the history.")

(defun agent-q-prompt-setup ()
  "Put the prompt at the end of the current buffer."
  (with-silent-modifications
    (goto-char (point-max))
    (insert (propertize "\n" 'read-only t 'front-sticky '(read-only)
                        'rear-nonsticky t)
            ;; The field keeps C-a and its like behind the prompt.
            (propertize "> " 'read-only t 'front-sticky t 'rear-nonsticky t
                        'field 'agent-q-prompt 'face 'agent-q-prompt)))
  (setq agent-q-prompt-start (copy-marker (point))
        buffer-undo-list nil))

(defun agent-q-prompt-p ()
  "Whether point is where the user types."
  (and agent-q-prompt-start
       (>= (point) agent-q-prompt-start)))

(defun agent-q-prompt-text ()
  "Return what the user has typed."
  (buffer-substring-no-properties agent-q-prompt-start (point-max)))

(defun agent-q-prompt-replace (text)
  "Replace what the user has typed by TEXT and go to its end."
  (delete-region agent-q-prompt-start (point-max))
  (goto-char (point-max))
  (insert text))

(defun agent-q-prompt-take ()
  "Empty the prompt and keep its text in the history."
  (let ((text (string-trim (agent-q-prompt-text))))
    (unless (equal text (car agent-q-prompt--history))
      (push text agent-q-prompt--history)
      (when (> (length agent-q-prompt--history) agent-q-history-max)
        (setcdr (nthcdr (max 0 (1- agent-q-history-max))
                        agent-q-prompt--history)
                nil)))
    (setq agent-q-prompt--index nil)
    (agent-q-prompt-replace "")
    ;; The text is sent: to bring it back is the job of the history.
    (setq buffer-undo-list nil)
    (restore-buffer-modified-p nil)))

(defun agent-q-prompt-previous (count)
  "Replace the text at the prompt by the one sent COUNT messages before it."
  (interactive "p")
  (unless (agent-q-prompt-p)
    (goto-char (point-max)))
  (let* ((from (or agent-q-prompt--index -1))
         (to (+ from count)))
    (cond ((>= to (length agent-q-prompt--history))
           (user-error "No earlier message"))
          ((< to -1)
           (user-error "No later message")))
    (when (= from -1)
      (setq agent-q-prompt--draft (agent-q-prompt-text)))
    (setq agent-q-prompt--index (and (>= to 0) to))
    (agent-q-prompt-replace (if (>= to 0)
                                (nth to agent-q-prompt--history)
                              agent-q-prompt--draft))))

(defun agent-q-prompt-next (count)
  "Replace the text at the prompt by the one sent COUNT messages after it.
After the latest one comes what you had typed before."
  (interactive "p")
  (agent-q-prompt-previous (- count)))

(provide 'agent-q-prompt)
;;; agent-q-prompt.el ends here
