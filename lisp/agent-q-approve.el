;;; agent-q-approve.el --- Approving tool calls in the chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A call that needs approval is drawn as a block with its arguments, and
;; answered by a key with point on it.  Nothing is asked in the minibuffer.
;;
;; A key counts only once the user can have seen what it answers: the block
;; was on the screen while Emacs had been idle for a moment with no key
;; waiting.  Keys typed ahead are refused, wherever point happened to be.

;;; Code:

(require 'agent-q-call)

(declare-function agent-q-core-decide "agent-q-core")

(defconst agent-q-approve-pause 0.3
  "For how many seconds Emacs has to be idle before an answer counts.")

;;;; Drawing

(defvar agent-q-approve-map
  (let ((map (make-sparse-keymap)))
    (define-key map "y" #'agent-q-approve-run)
    (define-key map "n" #'agent-q-approve-deny)
    (define-key map "r" #'agent-q-approve-deny-with-reason)
    (define-key map (kbd "RET") #'agent-q-approve-press)
    (define-key map [mouse-2] #'agent-q-approve-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on a tool call that waits for an answer.")

(defun agent-q-approve--button (label command)
  "Return LABEL as a button for COMMAND."
  (propertize label 'face 'link 'mouse-face 'highlight
              'agent-q-answer command
              'help-echo (documentation command)))

(defun agent-q-approve-draw (call)
  "Return the block that asks about CALL."
  (let ((block
         (concat
          (propertize (concat "? " (agent-q-call-tool call))
                      'face 'agent-q-attention)
          (propertize " waits for your answer" 'face 'agent-q-attention)
          (propertize (concat
                       "\n" (agent-q-call-level call)
                       (if-let ((reason (agent-q-call-reason call)))
                           (concat ": " (agent-q-call-visible reason))
                         "")
                       (if-let ((target (agent-q-call-target call)))
                           (format "\nimage: %s" target)
                         ""))
                      'face 'agent-q-dim 'line-prefix "    ")
          "\n" (agent-q-call-arguments-body call) "\n"
          (propertize " " 'line-prefix "  ")
          (agent-q-approve--button "[y] run" #'agent-q-approve-run)
          "  "
          (agent-q-approve--button "[n] deny" #'agent-q-approve-deny)
          "  "
          (agent-q-approve--button "[r] deny with a reason"
                                   #'agent-q-approve-deny-with-reason))))
    ;; The note on a cut text keeps its own keys.
    (agent-q-render-fill-keymap block agent-q-approve-map)))

;;;; When an answer counts

(defun agent-q-approve-shown (call)
  "See to it that CALL can be answered once the user had it before him."
  (unless (agent-q-call-armed call)
    (when (agent-q-call-timer call)
      (cancel-timer (agent-q-call-timer call)))
    (setf (agent-q-call-timer call)
          (run-at-time agent-q-approve-pause nil #'agent-q-approve--look
                       (current-buffer) call))))

(defun agent-q-approve-watch ()
  "See to it that what waits in this chat can be answered.
For `post-command-hook': the user may have come to it just now."
  (when-let ((call (agent-q-call-waiting)))
    (unless (agent-q-call-timer call)
      (agent-q-approve-shown call))))

(defun agent-q-approve--look (buffer call)
  "Let CALL in BUFFER be answered if it is on the screen and no key waits."
  (setf (agent-q-call-timer call) nil)
  (when (and (buffer-live-p buffer)
             (agent-q-approve--open-p call))
    (let ((idle (current-idle-time)))
      (if (or (input-pending-p)
              (null idle)
              (time-less-p idle agent-q-approve-pause))
          (setf (agent-q-call-timer call)
                (run-with-idle-timer agent-q-approve-pause nil
                                     #'agent-q-approve--look buffer call))
        (redisplay)
        (when (agent-q-approve--visible-p buffer call)
          (setf (agent-q-call-armed call) t))))))

(defun agent-q-approve--open-p (call)
  "Whether CALL waits for an answer."
  (and (agent-q-call-p call)
       (eq (agent-q-call-state call) 'waiting)
       (not (agent-q-call-answered call))))

(defun agent-q-approve--visible-p (buffer call)
  "Whether CALL in BUFFER is on the screen, at least all that fits."
  (let ((start (marker-position (agent-q-render-item-start call)))
        (end (marker-position (agent-q-render-item-end call))))
    (seq-some (lambda (window)
                (and (pos-visible-in-window-p start window)
                     (or (pos-visible-in-window-p end window)
                         (= start (window-start window)))))
              (get-buffer-window-list buffer nil 'visible))))

(defun agent-q-approve-reveal (call)
  "Scroll the selected window to where CALL can be read, and let it be answered.
Point has to be on CALL."
  (unless (agent-q-approve--visible-p (current-buffer) call)
    (set-window-start nil (agent-q-render-item-start call)))
  (agent-q-approve-shown call))

;;;; Answering

(defun agent-q-approve--call ()
  "Return the call at point if it can be answered now; else say why not."
  (let ((call (agent-q-render-item-at (point))))
    (unless (agent-q-approve--open-p call)
      (user-error "No tool call waits for an answer here"))
    (unless (agent-q-call-armed call)
      (agent-q-approve-reveal call)
      (user-error
       "This key came before you could read the request; press it again"))
    call))

(defun agent-q-approve--answer (decision payload label)
  "Answer the call at point with DECISION and PAYLOAD, shown as LABEL."
  (let ((call (agent-q-approve--call)))
    (agent-q-core-decide (agent-q-call-key call) decision payload)
    (setf (agent-q-call-answered call) label
          (agent-q-call-armed call) nil)
    (agent-q-render-update-item call)
    ;; What comes of it is shown at the end, where the window follows.
    (goto-char (point-max))))

(defun agent-q-approve-run ()
  "Run the tool call at point as it is shown."
  (interactive)
  (agent-q-approve--answer "approved" nil "approved"))

(defun agent-q-approve-deny ()
  "Deny the tool call at point; the model is told so."
  (interactive)
  (agent-q-approve--answer "denied" nil "denied"))

(defun agent-q-approve-deny-with-reason (reason)
  "Deny the tool call at point and tell the model the REASON."
  (interactive (progn (agent-q-approve--call)
                      (list (read-string "Why not? "))))
  (agent-q-approve--answer "denied"
                           (and (not (string-blank-p reason))
                                (agent-q--clean reason))
                           "denied"))

(defun agent-q-approve-press ()
  "Press the button at point."
  (interactive)
  (if-let ((command (get-text-property (point) 'agent-q-answer)))
      (call-interactively command)
    (message "y runs it, n denies it, r denies it with a reason")))

(defun agent-q-approve-mouse (event)
  "Press the button that EVENT clicked on."
  (interactive "e")
  (mouse-set-point event)
  (agent-q-approve-press))

(provide 'agent-q-approve)
;;; agent-q-approve.el ends here
