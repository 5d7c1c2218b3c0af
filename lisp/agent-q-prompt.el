;;; agent-q-prompt.el --- The prompt of a chat, and tools called from it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The editable text below the log, the history of what was sent, and lines that call a tool.

;;; Code:

(require 'agent-q)
(require 'agent-q-session)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; The prompt of a chat

;; The editable text below the log, and the history of what was sent.

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
        buffer-undo-list nil)
  (setq-local fill-paragraph-function #'agent-q-prompt--fill)
  (add-hook 'after-change-functions #'agent-q-prompt--unlock nil t))

(defun agent-q-prompt--unlock (beg end _length)
  "Let what was put between BEG and END at the prompt be edited.
Text of another chat is read-only.  For `after-change-functions'."
  (when (and (>= beg agent-q-prompt-start)
             (text-property-not-all beg end 'read-only nil))
    (with-silent-modifications
      (set-text-properties beg end nil))))

(defun agent-q-prompt--fill (justify)
  "Fill the paragraph at point, where JUSTIFY is as in `fill-paragraph'.
The prompt's sign before it isn't part of it."
  (save-restriction
    (when (agent-q-prompt-p)
      (narrow-to-region agent-q-prompt-start (point-max)))
    (let ((fill-paragraph-function nil))
      (fill-paragraph justify))
    t))

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

(defun agent-q-prompt-give-back (text)
  "Put TEXT, which was not sent, before what the user has typed since."
  (save-excursion
    (goto-char agent-q-prompt-start)
    (insert text (if (string-blank-p (agent-q-prompt-text)) "" "\n")))
  (when (= (point) agent-q-prompt-start)
    (goto-char (point-max))))

(defun agent-q-prompt-remember (text)
  "Put TEXT, which is sent, into the history."
  (unless (equal text (car agent-q-prompt--history))
    (push text agent-q-prompt--history)
    (when (> (length agent-q-prompt--history) agent-q-history-max)
      (setcdr (nthcdr (max 0 (1- agent-q-history-max))
                      agent-q-prompt--history)
              nil)))
  (setq agent-q-prompt--index nil))

(defun agent-q-prompt-take ()
  "Empty the prompt and keep its text in the history."
  (agent-q-prompt-remember (string-trim (agent-q-prompt-text)))
  (agent-q-prompt-replace "")
  ;; The text is sent: to bring it back is the job of the history.
  (setq buffer-undo-list nil)
  (restore-buffer-modified-p nil))

(defun agent-q-prompt-previous (count)
  "Replace the text at the prompt by the one sent COUNT messages before it."
  (declare (completion agent-q-session-command-p))
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
  (declare (completion agent-q-session-command-p))
  (interactive "p")
  (agent-q-prompt-previous (- count)))

;;;;; Typing in the log

(defun agent-q-prompt-come ()
  "Go to the prompt if the command at hand types, and point is in the log.
For `pre-command-hook'."
  (when (and (memq this-command '(self-insert-command yank))
             (not (agent-q-prompt-p)))
    (deactivate-mark)
    (goto-char (point-max))))

;;;;; Searching

(defun agent-q-prompt-typed-p ()
  "Whether something stands at the prompt."
  (not (string-blank-p (agent-q-prompt-text))))

(defun agent-q-prompt-search-p ()
  "Whether there is an earlier message to search for."
  (and agent-q-prompt--history t))

(defun agent-q-prompt-search (text)
  "Put TEXT, one of your earlier messages, at the prompt; the latest comes first."
  (declare (completion agent-q-session-command-p))
  (interactive
   (let ((choices (mapcar (lambda (text)
                            (cons (replace-regexp-in-string "[ \t\n]+" " " text) text))
                          (delete-dups (copy-sequence agent-q-prompt--history))))
         ;; Somewhere in the message, unless the user completes so anyway.
         (completion-styles (append completion-styles '(substring))))
     (unless choices
       (user-error "No earlier message"))
     (list (cdr (assoc (completing-read
                        "Earlier message: "
                        (lambda (string predicate action)
                          (if (eq action 'metadata)
                              ;; As they are: by time.
                              '(metadata (display-sort-function . identity)
                                         (cycle-sort-function . identity))
                            (complete-with-action action choices string predicate)))
                        nil t nil nil (caar choices))
                       choices)))))
  (let ((typed (string-trim (agent-q-prompt-text))))
    ;; A draft is an earlier message from now on.
    (unless (or (string-empty-p typed) (member typed agent-q-prompt--history))
      (agent-q-prompt-remember typed)))
  (agent-q-prompt-replace text))

;;;;; Drafts

(defvar agent-q-prompt--drafts nil
  "The drafts of chats that were closed, by their directories.
An association list; the latest comes first.")

(defconst agent-q-prompt--most-drafts 20
  "Most drafts that are kept.")

(defun agent-q-prompt-keep-draft (more)
  "Keep what stands at the prompt of this chat, which is closed, and MORE texts."
  (when agent-q-prompt-start
    (let ((draft (string-join (seq-remove #'string-blank-p
                                          (append more (list (agent-q-prompt-text))))
                              "\n")))
      (unless (string-blank-p draft)
        (push (cons default-directory draft) agent-q-prompt--drafts)
        (setq agent-q-prompt--drafts
              (seq-take agent-q-prompt--drafts agent-q-prompt--most-drafts))))))

(defun agent-q-prompt-offer-draft ()
  "Put the draft of a closed chat of this directory at the empty prompt."
  (let ((draft (assoc default-directory agent-q-prompt--drafts)))
    (when (and draft agent-q-prompt-start (string-blank-p (agent-q-prompt-text)))
      (setq agent-q-prompt--drafts (delq draft agent-q-prompt--drafts))
      (agent-q-prompt-replace (cdr draft))
      (message "This is what you had typed when the chat was closed"))))

;;;; Tools called from the prompt

;; A line such as "/describe_symbol mapcar" calls a tool without a model; agent-q-completion.el
;; completes it.

(defun agent-q-prompt-console-line-p (text)
  "Whether TEXT is a tool call: a slash and a name, and then maybe more."
  (let ((case-fold-search nil))
    (string-match-p "\\`/[A-Za-z0-9_-]+\\(?:[ \t\n]\\|\\'\\)" text)))

(defun agent-q-prompt-console-tool-p (name)
  "Whether a tool is called NAME."
  (agent-q-core-tool-known name))

(provide 'agent-q-prompt)
;;; agent-q-prompt.el ends here
