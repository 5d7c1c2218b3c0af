;;; agent-q-queue.el --- The messages of a chat that wait  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is sent while a turn runs waits here until the turn is over, or until the running
;; turn takes it in.  It is shown above the prompt, where it can be taken back or dropped.
;; The core gets one message at a time.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-header)
(require 'agent-q-prompt)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'seq)
(require 'agent-q-text)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-queue-message (:constructor agent-q-queue-message) (:copier nil))
  "A message that the user sends.
TEXT is what they typed.  SEND is a function that hands it to the core, whose
error is the user's.  LOOK is what they send along, or nil, and REVIEW says
that the changes of files which its turn makes are reviewed as diffs.
EXCERPTS are what is attached because the message mentions it."
  text send look review excerpts)

(defvar-local agent-q-queue--held nil
  "The messages that wait for the running turn to end, first one first.")

(defvar-local agent-q-queue--sent nil
  "The message that the core has and that has not begun its turn, or nil.")

(defvar-local agent-q-queue--begun nil
  "The message whose turn began last, or nil.")

(defvar-local agent-q-queue--steering nil
  "The messages that the running turn is to take in, first one first.")

(defvar-local agent-q-queue--overlay nil
  "The overlay that shows the waiting messages above the prompt.")

(defun agent-q-queue-held ()
  "Return the messages of this chat that wait, first one first."
  agent-q-queue--held)

;;;; Coming and going

(defun agent-q-queue-add (message)
  "Send MESSAGE, now or when the running turn is over.
Return non-nil if it waits."
  (let ((busy (agent-q-header-busy-p)))
    (if busy
        (setq agent-q-queue--held (append agent-q-queue--held (list message)))
      (agent-q-queue--hand message))
    (agent-q-queue--changed)
    busy))

(defun agent-q-queue--hand (message)
  "Hand MESSAGE to the core."
  (funcall (agent-q-queue-message-send message))
  (setq agent-q-queue--sent message))

(defun agent-q-queue-steer (message)
  "Show MESSAGE, which the core has for the running turn, until that has it."
  (setq agent-q-queue--steering (append agent-q-queue--steering (list message)))
  (agent-q-queue--changed))

(defun agent-q-queue-steered (text)
  "Return the message TEXT if it was to be put into a turn; it is there now."
  (when-let ((message (seq-find (lambda (message)
                                  (equal (agent-q-text-clean (agent-q-queue-message-text message))
                                         text))
                                agent-q-queue--steering)))
    (setq agent-q-queue--steering (delq message agent-q-queue--steering))
    (agent-q-queue--changed)
    message))

(defun agent-q-queue-texts ()
  "Return the texts of all messages that wait."
  (mapcar #'agent-q-queue-message-text
          (append agent-q-queue--steering agent-q-queue--held)))

(defun agent-q-queue-started ()
  "Return the message whose turn begins, or nil."
  (setq agent-q-queue--begun agent-q-queue--sent
        agent-q-queue--sent nil)
  (agent-q-queue--changed)
  agent-q-queue--begun)

(defun agent-q-queue-begun (text)
  "Return the message whose turn began last, if it is TEXT, else one of TEXT alone."
  (if (and agent-q-queue--begun
           (equal text (agent-q-text-clean (agent-q-queue-message-text agent-q-queue--begun))))
      agent-q-queue--begun
    (agent-q-queue-message :text text)))

(defun agent-q-queue-next ()
  "Hand the core the next message, as a turn is over."
  (when (and agent-q-queue--held (null agent-q-queue--sent))
    (let ((message (pop agent-q-queue--held)))
      (condition-case failure
          (agent-q-queue--hand message)
        (error
         (agent-q-render-notice (error-message-string failure) 'agent-q-failure)))))
  (agent-q-queue--changed))

(defun agent-q-queue-clear ()
  "Forget all messages that wait."
  (setq agent-q-queue--held nil
        agent-q-queue--steering nil
        agent-q-queue--sent nil)
  (agent-q-queue--changed))

(defun agent-q-queue--changed ()
  "Show what is queued now."
  (setq agent-q-header-queued (+ (length agent-q-queue--held)
                                 (if agent-q-queue--sent 1 0)))
  (agent-q-queue--show)
  (agent-q-events-afterwards #'agent-q-header-update))

;;;; What is seen

(defun agent-q-queue--line (message)
  "Return MESSAGE on one line of this chat's window."
  (truncate-string-to-width
   (replace-regexp-in-string "[ \t\n]+" " "
                             (agent-q-visible-line (agent-q-queue-message-text message) 300))
   (max 10 (- (window-width (or (get-buffer-window nil t) (selected-window))) 12))
   nil nil (agent-q-render-sign 'ellipsis)))

(defconst agent-q-queue--most-shown 4
  "Most queued messages that are shown.
More would push the log out of the window, and leave it empty when they go.")

(defun agent-q-queue--show ()
  "Show the waiting messages above the prompt."
  (unless (overlayp agent-q-queue--overlay)
    ;; The line break between log and prompt; what is added to the log stays before it.
    (setq agent-q-queue--overlay
          (make-overlay (marker-position agent-q-render-end)
                        (1+ (marker-position agent-q-render-end)) nil t nil)))
  (overlay-put
   agent-q-queue--overlay 'after-string
   (and (or agent-q-queue--held agent-q-queue--steering)
        (propertize
         (concat (mapconcat (lambda (message)
                              (concat "Next step: " (agent-q-queue--line message) "\n"))
                            agent-q-queue--steering "")
                 (mapconcat (lambda (message)
                              (concat "Queued: " (agent-q-queue--line message) "\n"))
                            (seq-take agent-q-queue--held agent-q-queue--most-shown) "")
                 (let ((more (- (length agent-q-queue--held) agent-q-queue--most-shown)))
                   (if (> more 0) (format "and %d more\n" more) ""))
                 (substitute-command-keys
                  "\\<agent-q-chat-mode-map>\\[agent-q-queue-edit] edits a queued message, \
with \\[universal-argument] drops it\n"))
         'face 'agent-q-dim))))

;;;; Taking back

(defun agent-q-queue--choose (prompt)
  "Return a waiting message, chosen with PROMPT where there are several.
The one that came last is the default."
  (let ((choices (seq-map-indexed
                  (lambda (message index)
                    (cons (format "%d. %s" (1+ index) (agent-q-queue--line message)) message))
                  (append agent-q-queue--steering agent-q-queue--held))))
    (cond ((null choices) (user-error "No message is queued"))
          ((null (cdr choices)) (cdar choices))
          (t (let ((last (caar (last choices))))
               (cdr (assoc (completing-read (format-prompt prompt last) choices nil t nil nil last)
                           choices)))))))

(defun agent-q-queue--take-back (message)
  "Take MESSAGE back from the running turn."
  (unless (agent-q-core-take-back-steering
           agent-q-session-number (agent-q-text-clean (agent-q-queue-message-text message)))
    (user-error "The model has this message already"))
  (setq agent-q-queue--steering (delq message agent-q-queue--steering)))

(defun agent-q-queue-edit (drop-p)
  "Put a queued message back at the prompt, to be changed and sent again.
With prefix argument DROP-P, drop it; it stays in the history.  What stands at
the prompt goes into the history."
  (declare (completion agent-q-session-command-p))
  (interactive "P")
  (let ((message (agent-q-queue--choose (if drop-p "Drop" "Edit"))))
    (if (memq message agent-q-queue--steering)
        (agent-q-queue--take-back message)
      (setq agent-q-queue--held (delq message agent-q-queue--held)))
    (agent-q-queue--changed)
    (if drop-p
        (message "Dropped: %s" (agent-q-queue--line message))
      (unless (string-blank-p (agent-q-prompt-text))
        (agent-q-prompt-take))
      (agent-q-prompt-replace (agent-q-queue-message-text message))
      (when (agent-q-queue-message-look message)
        (message "What was attached to it is left out; ask again from its buffer")))))

(provide 'agent-q-queue)
;;; agent-q-queue.el ends here
