;;; agent-q-chat-move.el --- Ways around a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; From item to item and from turn to turn of a chat's log, and what TAB means
;; where it is pressed.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-markdown)
(require 'agent-q-prompt)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-sight)
(require 'agent-q-welcome)

(defun agent-q-chat-item-of-line ()
  "Return the item whose text ends with the line of point, or nil."
  (or (agent-q-render-item-at (point))
      (and (eolp) (> (point) (point-min))
           (agent-q-render-item-at (1- (point))))))

(defun agent-q-chat-tab ()
  "Complete at the prompt, unfold the item at point, or go to the next item.
Buttons count as items, and so do links."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (let ((item (agent-q-chat-item-of-line)))
    (cond ((and (agent-q-prompt-p)
                (not (string-empty-p (agent-q-prompt-text))))
           (completion-at-point))
          ((agent-q-welcome-p item) (agent-q-welcome-next))
          ((and item (not (eq item (agent-q-call-waiting))))
           (goto-char (agent-q-render-item-start item))
           (agent-q-render-toggle))
          (t (agent-q-chat-next-item)))))

(defun agent-q-chat-move--stop (forward)
  "Return the next item, button or link after point, or before unless FORWARD."
  (let ((nearest nil))
    (dolist (property '(agent-q-item button agent-q-link))
      (when (eq property 'agent-q-link)
        (agent-q-markdown-seek property forward nearest))
      (let ((place (agent-q-chat--find property forward)))
        (when place
          (setq nearest (cond ((null nearest) place)
                              (forward (min nearest place))
                              (t (max nearest place)))))))
    nearest))

(defun agent-q-chat--find (property forward)
  "Return the next start of PROPERTY after point, or before unless FORWARD."
  (let ((position (point)) (found nil))
    (while (and position (not found))
      (setq position
            (if forward
                (next-single-property-change position property)
              (previous-single-property-change position property)))
      (when (and position
                 (< position (point-max))
                 (get-text-property position property)
                 (not (agent-q-welcome-p (agent-q-render-item-at position)))
                 (not (and (> position (point-min))
                           (eq (get-text-property position property)
                               (get-text-property (1- position) property)))))
        (setq found position)))
    (or found
        ;; The property may begin where the buffer does.
        (and (not forward) (> (point) (point-min))
             (get-text-property (point-min) property)
             (not (agent-q-welcome-p (agent-q-render-item-at (point-min))))
             (point-min)))))

(defun agent-q-chat-next-item ()
  "Go to the next tool call, button or link; after the last one, to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat-move--stop t) (point-max))))

(defun agent-q-chat-previous-item ()
  "Go to the tool call, button or link before point."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat-move--stop nil)
                 (user-error "No tool call before point"))))

(defun agent-q-chat-next-turn ()
  "Go to the next message of yours; after the last one, to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat--find 'agent-q-turn t) (point-max))))

(defun agent-q-chat-previous-turn ()
  "Go to the message of yours before point."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat--find 'agent-q-turn nil)
                 (user-error "No message of yours before point"))))

;;;###autoload
(defun agent-q-goto-approval ()
  "Go to the pending request, in any chat.
The current chat comes first, then the others.  If there is none, go to a turn
that asks whether to continue."
  (interactive)
  (let ((buffer (agent-q-chat-move--waiting)))
    (unless buffer
      (user-error "No pending request"))
    (unless (eq buffer (window-buffer))
      (pop-to-buffer buffer))
    (with-current-buffer buffer
      (push-mark nil t)
      (let ((call (and agent-q-call-table (agent-q-call-waiting))))
        (if (null call)
            (goto-char (agent-q-chat-move--question))
          (goto-char (agent-q-render-item-start call))
          (agent-q-sight-reveal call))))))

(defun agent-q-chat-move--question ()
  "Return where the turn of this chat can be let go on, which met a limit.
That is a button, the last one of its kind in the log."
  (save-excursion
    (goto-char agent-q-render-end)
    (if (search-backward "\n[Go on]\n" nil t) (1+ (point)) (point-max))))

(defun agent-q-chat-move--waiting ()
  "Return the buffer of the chat where something waits for its user, or nil."
  (let ((buffers (cons (current-buffer) (buffer-list))))
    (cl-flet ((first-where (holds)
                (seq-find (lambda (buffer) (with-current-buffer buffer (funcall holds)))
                          buffers)))
      (or (first-where (lambda () (and agent-q-call-table (agent-q-call-waiting))))
          (first-where (lambda () (eq agent-q-header-state :paused)))))))

(define-obsolete-function-alias 'agent-q-call-goto-waiting #'agent-q-goto-approval "0.1.0")

;;;; All at once

(defun agent-q-chat-move--items ()
  "Return the items of this chat's log that fold, first one first."
  (let ((items nil) (place (point-min)))
    (while (setq place (text-property-not-all place agent-q-render-end 'agent-q-item nil))
      (let ((item (agent-q-render-item-at place)))
        (unless (or (agent-q-welcome-p item) (agent-q-call-open-p item))
          (push item items)))
      (setq place (next-single-char-property-change place 'agent-q-item nil agent-q-render-end)))
    (nreverse items)))

(defconst agent-q-chat-move--most-fitted 300
  "Most lines of the log, the latest ones, that are fitted to a new width.")

(defvar-local agent-q-chat-move--width nil
  "The width that the lines of calls and changes were fitted to, or nil.")

(defvar-local agent-q-chat-move--timer nil
  "The timer that will fit them to another one, or nil.")

(defun agent-q-chat-move-fit (window)
  "Fit the folded lines of the chat in WINDOW to its width, soon.
For `window-size-change-functions'."
  (with-current-buffer (window-buffer window)
    (let ((width (agent-q-call-width)))
      (unless agent-q-chat-move--width
        (setq agent-q-chat-move--width width))
      (unless (or agent-q-chat-move--timer (eql width agent-q-chat-move--width))
        (setq agent-q-chat-move--timer
              (run-with-idle-timer 0.2 nil #'agent-q-chat-move--fit (current-buffer)))))))

(defun agent-q-chat-move--fit (buffer)
  "Draw the folded lines of the chat BUFFER for the width that it has now."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-chat-move--timer nil
            agent-q-chat-move--width (agent-q-call-width))
      (dolist (item (last (agent-q-chat-move--items) agent-q-chat-move--most-fitted))
        (unless (agent-q-render-item-expanded item)
          (agent-q-render-update-item item))))))

(defun agent-q-toggle-all ()
  "Unfold all of this chat's log, so that it can be searched, or fold it again."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (let* ((items (agent-q-chat-move--items))
         (unfold (seq-some (lambda (item) (not (agent-q-render-item-expanded item))) items)))
    (unless items
      (user-error "Nothing to fold here"))
    (dolist (item items)
      (unless (eq unfold (and (agent-q-render-item-expanded item) t))
        (setf (agent-q-render-item-expanded item) unfold)
        (agent-q-render-update-item item)))
    (message (if unfold "Everything unfolded" "Everything folded"))))

(defun agent-q-chat-move-index ()
  "Return your messages in this chat and where they are, for Imenu."
  (let ((index nil) (place (point-min)))
    (while (setq place (text-property-not-all place agent-q-render-end 'agent-q-turn nil))
      (let ((text (+ place 2)))
        (push (cons (save-excursion
                      (goto-char text)
                      (truncate-string-to-width
                       (buffer-substring-no-properties text (line-end-position)) 60 nil nil t))
                    (copy-marker place))
              index)
        (setq place text)))
    (nreverse index)))

(provide 'agent-q-chat-move)
;;; agent-q-chat-move.el ends here
