;;; agent-q-approve.el --- Approving tool calls in the chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A call that needs approval is a block in the log, answered by a key with point on
;; it or, for the next one, at the empty prompt (agent-q-approve-prompt.el).  Nothing is
;; asked in the minibuffer.  A rule is shown before it is taken: the first key shows it, the
;; second takes it.  Which keys count, agent-q-sight.el knows.

;;; Code:

(require 'agent-q-answer)
(require 'agent-q-approve-layout)
(require 'agent-q-approve-text)
(require 'agent-q-arguments)
(require 'agent-q-call)
(require 'agent-q-call-change)
(require 'agent-q-call-text)
(require 'agent-q-call-value)
(require 'agent-q-diff)
(require 'agent-q-effect)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-sight)
(require 'agent-q-text)
(require 'agent-q-visible)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Drawing

(defvar-local agent-q-approve--width nil
  "The width for which the requests of this chat were drawn last.")

(defvar agent-q-approve-map
  (let ((map (make-sparse-keymap)))
    (define-key map "y" #'agent-q-approve-run)
    (define-key map "!" #'agent-q-approve-for-chat)
    (define-key map "P" #'agent-q-approve-for-project)
    (define-key map "e" #'agent-q-approve-edit)
    (define-key map "v" #'agent-q-approve-view)
    (define-key map "d" #'agent-q-approve-review)
    (define-key map "Y" #'agent-q-approve-run-all)
    (define-key map "N" #'agent-q-approve-deny-all)
    (define-key map "n" #'agent-q-approve-deny)
    (define-key map "r" #'agent-q-approve-deny-with-reason)
    (define-key map "w" #'agent-q-approve-widen)
    (define-key map " " #'agent-q-sight-more)
    (define-key map (kbd "TAB") #'agent-q-approve-next-button)
    (define-key map (kbd "RET") #'agent-q-approve-press)
    (define-key map [mouse-2] #'agent-q-approve-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on a tool call that waits for an answer.")

(defvar agent-q-approve-effect-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map agent-q-approve-map)
    (define-key map "s" #'agent-q-approve-stop)
    (define-key map "b" #'agent-q-approve-backtrace)
    map)
  "Keymap on an effect of running code that waits for an answer.")

(defun agent-q-approve--map (call)
  "Return the keymap on CALL while it waits for an answer."
  (if (agent-q-call-effect-p call) agent-q-approve-effect-map agent-q-approve-map))

(defvar agent-q-approve-folded-map
  (let ((map (make-sparse-keymap)))
    (dolist (key '("y" "n" "!" "P" "e" "v" "d" "Y" "N" "r" "s" "b" "w"))
      (define-key map key #'agent-q-approve-unfold))
    (define-key map " " #'agent-q-approve-unfold)
    (define-key map (kbd "TAB") #'agent-q-approve-unfold)
    (define-key map (kbd "RET") #'agent-q-approve-unfold)
    (define-key map [mouse-2] #'agent-q-approve-unfold-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on a request that is folded because another one comes first.")

(defun agent-q-approve-map (call)
  "Return the keymap on CALL while it waits for an answer."
  (if (agent-q-call-effect-p call) agent-q-approve-effect-map agent-q-approve-map))

(defun agent-q-approve-draw (call)
  "Return the block that asks about CALL, or its line after another one."
  (let ((full (agent-q-call-full-p call)))
    (setf (agent-q-call-drawn call) (if full 'full 'folded))
    ;; The note on a cut text keeps its own keys.
    (agent-q-render-fill-keymap
     (if full (agent-q-approve-text-block call (agent-q-approve-map call))
       (agent-q-approve-text-folded call))
     (if full (agent-q-approve-map call) agent-q-approve-folded-map))))

(defun agent-q-approve-unfold ()
  "Show the whole request at point, which comes after another one.
Only what is shown in full can be answered."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-render-item-at (point))))
    (unless (agent-q-call-open-p call)
      (user-error "No tool call is waiting for an answer here"))
    (setf (agent-q-render-item-expanded call) t)
    (agent-q-sight-anew call)))

(defun agent-q-approve-unfold-mouse (event)
  "Show the whole request that EVENT clicked on."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-approve-unfold))

(defun agent-q-approve-fit ()
  "Redraw the requests of this chat if the width of its window changed.
For `window-size-change-functions'."
  (when (agent-q-call-waiting)
    (let ((width (agent-q-call-width)))
      (unless (eql width agent-q-approve--width)
        (setq agent-q-approve--width width)
        (mapc #'agent-q-render-update-item (agent-q-call-all-waiting))))))

;;;; Answering

(defvar agent-q-approve-call nil
  "The call that commands answer from elsewhere, or nil for the one at point.
Point stays where it is then.")

(defun agent-q-approve--here ()
  "Return the item that a command is about."
  (if (agent-q-approve--elsewhere-p) agent-q-approve-call
    (agent-q-render-item-at (point))))

(defun agent-q-approve--elsewhere-p ()
  "Whether a call is answered from the prompt of this chat.
While a reason is read, the user may go to another request and answer that."
  (and agent-q-approve-call
       (agent-q-prompt-p)
       (memq agent-q-approve-call agent-q-call-active)
       t))

(defun agent-q-approve--open ()
  "Return the call that a command is about if it waits for an answer; else say so."
  (let ((call (agent-q-approve--here)))
    (unless (agent-q-call-open-p call)
      (user-error "No tool call is waiting for an answer here"))
    call))

(defun agent-q-approve--call ()
  "Return the call that is answered if it can be answered now; else say why not."
  (let ((call (agent-q-approve--open)))
    (unless (agent-q-sight-armed-p call)
      (unless (agent-q-approve--elsewhere-p)
        (agent-q-sight-reveal call))
      (user-error
       "Too fast: read the request, then press the key again"))
    call))

(defun agent-q-approve--go-on ()
  "After an answer, go to what comes next, unless point was elsewhere."
  (if (not (agent-q-prompt-p)) (agent-q-answer-go-on)
    (agent-q-sight-again)
    (agent-q-answer-follow)))

(defun agent-q-approve--answer (decision payload label)
  "Answer the call with DECISION and PAYLOAD, shown as LABEL."
  (agent-q-answer-settle (agent-q-approve--call) decision payload label)
  (agent-q-approve--go-on))

(defun agent-q-approve--allowed (call)
  "Return how it is shown that CALL was let go on."
  (if (agent-q-call-effect-p call) "allowed" "approved"))

(defun agent-q-approve-run ()
  "Run the tool call at point as it is shown, or allow what code is about to do."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approve--call)))
    (agent-q-approve--check-diff call)
    (agent-q-sight-check-end call)
    (agent-q-approve--let-run call (agent-q-approve--allowed call))
    (agent-q-approve--go-on)))

(defun agent-q-approve--check-diff (call)
  "Signal an error if CALL's edit is not shown beside the request any more."
  (when (and (agent-q-call-beside call)
             (not (agent-q-diff-hunks-visible-p (agent-q-call-review call))))
    (agent-q-sight-anew call)
    (user-error "The diff was closed; here it is again: read it, then press the key again")))

(defun agent-q-approve--let-run (call label)
  "Let CALL run, shown as LABEL; an edit that was reviewed as the review left it."
  (if (agent-q-diff-hunks-touched (agent-q-call-review call))
      (with-current-buffer (agent-q-call-review call)
        (agent-q-diff-apply))
    (agent-q-answer-settle call "approved" nil label)))

(defun agent-q-approve-deny ()
  "Deny the tool call at point, or what code is about to do.
The model is told so, and code gets an error that it may handle."
  (interactive nil agent-q-chat-mode)
  (agent-q-approve--answer "denied" nil "denied"))

(defun agent-q-approve-deny-with-reason (reason)
  "Deny the tool call at point and tell the model the REASON."
  (interactive (progn (agent-q-approve--call)
                      (list (read-string "Reason (optional): ")))
               agent-q-chat-mode)
  (let ((reason (and (not (string-blank-p reason))
                     (agent-q-text-clean reason))))
    (agent-q-approve--answer "denied" reason
                             (if (and reason (agent-q-call-effect-p (agent-q-approve--call)))
                                 (concat "denied: " reason)
                               "denied"))))

(defun agent-q-approve-stop ()
  "Deny what code is about to do at point, and stop the whole call.
The code can't continue, even if it handles errors."
  (interactive nil agent-q-chat-mode)
  (unless (agent-q-call-effect-p (agent-q-approve--call))
    (user-error "This call is not running yet; n denies it"))
  (agent-q-approve--answer "stopped" nil "stopped"))

(defun agent-q-approve-run-all ()
  "Run every waiting call in this chat whose request you have seen to the end."
  (interactive nil agent-q-chat-mode)
  (agent-q-approve--call)
  (dolist (call (agent-q-sight-all-read))
    (agent-q-approve--let-run call (agent-q-approve--allowed call)))
  (agent-q-approve--go-on)
  (let ((left (length (agent-q-call-all-waiting))))
    (unless (zerop left)
      (message "%d more wait%s that you have not seen in full: TAB unfolds one, then Y"
               left (if (= left 1) "s" "")))))

(defun agent-q-approve-deny-all ()
  "Deny every waiting call in this chat."
  (interactive nil agent-q-chat-mode)
  (agent-q-approve--call)
  (dolist (call (agent-q-call-all-waiting))
    (agent-q-answer-settle call "denied" nil "denied"))
  (agent-q-approve--go-on))

(defun agent-q-approve-for-chat ()
  "Run the tool call at point; don't ask about similar ones in this chat.
The first time, only show the rule that would be added."
  (interactive nil agent-q-chat-mode)
  (agent-q-approve--with-rule "chat"))

(defun agent-q-approve-for-project ()
  "Run the tool call at point; don't ask about similar ones in this project.
The first time, only show the rule that would be added."
  (interactive nil agent-q-chat-mode)
  (agent-q-approve--with-rule "project"))

(defun agent-q-approve--with-rule (scope)
  "Show the rules for such a call in SCOPE, or take the one that is shown."
  (let* ((call (agent-q-approve--call))
         (offer (agent-q-call-offer call)))
    (if (not (and offer (equal scope (agent-q-offer-scope offer))))
        (agent-q-approve--show-offer call (agent-q-approve--offers call scope))
      (agent-q-sight-check-end call)
      (agent-q-approve--check-diff call)
      (agent-q-core-add-rule (nth 1 (agent-q-offer-shown offer)) (agent-q-call-key call))
      (agent-q-approve--let-run call (concat (agent-q-approve--allowed call) ", with a rule"))
      (agent-q-approve--go-on))))

(defun agent-q-approve--offers (call scope)
  "Return the core's rules for a call such as CALL in SCOPE, as an offer."
  (let ((offered (agent-q-json-parse (agent-q-core-offered-rule (agent-q-call-key call) scope)))
        (entry (lambda (offer)
                 (list (gethash "width" offer) (agent-q-json-encode (gethash "rule" offer))
                       (gethash "description" offer)))))
    (agent-q-offer-make :scope scope :widths (mapcar entry offered)
                        :read (or (agent-q-call-ended call)
                                  (eq (agent-q-call-armed call) 'rule)))))

(defun agent-q-approve--show-offer (call offer)
  "Show OFFER in the request for CALL."
  (setf (agent-q-call-offer call) offer)
  ;; What is new on the screen has to be read before a key takes it.
  (if (agent-q-offer-read offer)
      (agent-q-sight-rule call)
    (setf (agent-q-call-armed call) nil))
  (agent-q-render-update-item call)
  (unless (agent-q-approve--elsewhere-p)
    (goto-char (agent-q-render-item-start call))
    (when (agent-q-offer-read offer)
      (let ((end (marker-position (agent-q-render-item-end call))))
        (goto-char (or (text-property-any (point) end 'agent-q-sight-end t) end))
        (agent-q-render-reveal (point) end))))
  (agent-q-sight-expect call))

(defun agent-q-approve-quit ()
  "Discard the rule offered for the next request, and quit as usual."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (dolist (call (agent-q-call-all-waiting))
    (when (agent-q-call-offer call)
      (setf (agent-q-call-offer call) nil)
      (agent-q-sight-anew call)))
  (keyboard-quit))

(defun agent-q-approve-widen ()
  "Show the next of the rules that are offered for the call.
After the last comes the first again."
  (interactive nil agent-q-chat-mode)
  (let* ((call (agent-q-approve--open))
         ;; This takes no rule, so that it need not wait until the one before was read.
         (offer (or (agent-q-call-offer call)
                    (user-error "Press ! or P first: they offer a rule")))
         (count (length (agent-q-offer-widths offer))))
    (when (= count 1)
      (user-error "There is no other rule"))
    (setf (agent-q-offer-index offer) (mod (1+ (agent-q-offer-index offer)) count))
    (agent-q-approve--show-offer call offer)))

(defun agent-q-approve-edit ()
  "Edit the arguments of the tool call at point, then run it."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approve--call)))
    (when (agent-q-call-effect-p call)
      (user-error "An effect of running code can't be edited; n denies it, s stops the call"))
    (agent-q-arguments-edit call)))

(defun agent-q-approve--visit (text)
  "Show TEXT, all about a call, and how to go back, in a window."
  (let ((page (agent-q-render-visit "*agent-q call*" text)))
    (with-current-buffer page
      (setq header-line-format "q goes back to the chat, where the keys answer"))))

(defun agent-q-approve-view ()
  "Show the whole tool call in a separate buffer."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approve--here)))
    (unless (agent-q-call-p call)
      (user-error "No tool call here"))
    (agent-q-approve--visit
     (let ((agent-q-render-body-limit most-positive-fixnum))
       (concat (if (agent-q-call-effect-p call)
                   (agent-q-registry-effect-words (agent-q-call-tool call))
                 (agent-q-call-tool call))
               "\n" (agent-q-approve-text-level call)
               (if-let ((target (agent-q-call-target call))) (concat target "\n") "")
               "\n" (agent-q-approve-text-all-reasons call)
               (if-let ((change (agent-q-call-change call)))
                   (concat (propertize "What it changes\n" 'face 'bold)
                           (agent-q-call-change-body change)
                           (propertize "\n\nIts arguments\n" 'face 'bold))
                 "")
               (agent-q-call-arguments-body call) "\n")))))

(defun agent-q-approve-review ()
  "Review the edit of the tool call as a diff."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approve--here)))
    (unless (and (agent-q-call-open-p call)
                 (or (buffer-live-p (agent-q-call-review call))
                     (agent-q-diff-prepare call)))
      (user-error "No diff to review here"))
    (let ((window (agent-q-diff-display (agent-q-call-review call))))
      (if window (select-window window)
        (user-error "No window of this frame can show the diff")))))

(defun agent-q-approve-backtrace ()
  "Show the backtrace of the code that the request is about."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approve--here)))
    (unless (and (agent-q-call-p call) (agent-q-call-effect-p call))
      (user-error "No request about running code here"))
    (agent-q-effect-backtrace call)))

(defun agent-q-approve-next-button ()
  "Go to the next button of the request at point; after the last one, to its head."
  (interactive nil agent-q-chat-mode)
  (let* ((call (agent-q-render-item-at (point)))
         (end (and (agent-q-call-p call) (agent-q-render-item-end call)))
         (position (point)) (found nil))
    (unless end
      (user-error "No request here"))
    (while (and (not found)
                (setq position (next-single-property-change position 'agent-q-answer nil end))
                (< position end))
      (setq found (and (get-text-property position 'agent-q-answer) position)))
    (goto-char (or found (agent-q-render-item-start call)))))

(defun agent-q-approve-press ()
  "Press the button at point."
  (interactive nil agent-q-chat-mode)
  (if-let ((command (get-text-property (point) 'agent-q-answer)))
      (call-interactively command)
    (message (if (agent-q-call-effect-p (agent-q-render-item-at (point)))
                 "y allows it, n denies it, r denies it with a reason, s stops the call"
               "y runs it, n denies it, r denies it with a reason, e edits it"))))

(defun agent-q-approve-mouse (event)
  "Press the button that EVENT clicked on."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-approve-press))

;;;; Answers at the prompt

(defun agent-q-approve-mistyped (text)
  "Return a hint if TEXT, sent from the prompt, was meant as an answer; else nil.
That is a key that answers requests, or yes or no, while one waits in this
chat; else the value is nil."
  (when-let ((call (agent-q-call-waiting)))
    (let ((keys (seq-filter
                 (lambda (key) (lookup-key (agent-q-approve-map call) key))
                 (pcase (downcase text)
                   ("yes" '("y"))
                   ("no" '("n"))
                   ((pred (string-match-p "\\`[[:nonascii:]]\\'"))
                    (mapcar #'string (agent-q-approve-layout-keys (aref text 0))))
                   (_ (and (= (length text) 1) (list text)))))))
      (and keys
           (format "Not sent.  To answer %s, press %s without RET"
                   (agent-q-call-name call) (string-join keys " or "))))))

;;;; What rules look at

(defun agent-q-approve-place (connection)
  "Return the settings of a chat that only rules look at.
CONNECTION is the name of its connection, or nil."
  `((connection . ,(if connection (agent-q-text-clean connection) :null))))

(defun agent-q-approve-target (arguments image)
  "Return what a call with ARGUMENTS, parsed, is about, as a line, or nil.
IMAGE is the name of the chat's image, or nil."
  (let ((path (cdr (assq 'path arguments))))
    (cond ((and (stringp path) (agent-q-project-directory))
           (concat "file: "
                   (agent-q-visible-line
                    ;; Nothing is above the root.
                    (replace-regexp-in-string
                     "\\`\\(?:/\\.\\.\\)+\\(?:/\\|\\'\\)" "/"
                     (expand-file-name path (agent-q-project-directory)))
                    most-positive-fixnum)))
          (image (concat "image: " (agent-q-visible-line image))))))

(provide 'agent-q-approve)
;;; agent-q-approve.el ends here
