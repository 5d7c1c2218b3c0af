;;; agent-q-approve.el --- Approving tool calls in the chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A call that needs approval is drawn as a block with its arguments, and
;; answered by a key with point on it.  Nothing is asked in the minibuffer.
;; A rule is shown before it is taken: the first key shows it, the second
;; takes it.  Which keys count, agent-q-sight.el knows.

;;; Code:

(require 'agent-q-answer)
(require 'agent-q-arguments)
(require 'agent-q-call)
(require 'agent-q-call-text)
(require 'agent-q-call-value)
(require 'agent-q-diff)
(require 'agent-q-effect)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-sight)
(require 'agent-q-text)
(require 'agent-q-visible)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Drawing

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
    (define-key map " " #'agent-q-sight-more)
    (define-key map (kbd "RET") #'agent-q-approve-press)
    (define-key map [mouse-2] #'agent-q-approve-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on a tool call that waits for an answer.")

(defvar agent-q-approve-effect-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map agent-q-approve-map)
    (define-key map "s" #'agent-q-approve-stop)
    (define-key map "b" #'agent-q-effect-backtrace)
    map)
  "Keymap on an effect of running code that waits for an answer.")

(defun agent-q-approve--map (call)
  "Return the keymap on CALL while it waits for an answer."
  (if (agent-q-call-effect-p call) agent-q-approve-effect-map agent-q-approve-map))

(defun agent-q-approve--button (label command)
  "Return LABEL as a button for COMMAND."
  (propertize label 'face 'link 'mouse-face 'highlight
              'agent-q-answer command
              'help-echo (documentation command)))

(defun agent-q-approve--buttons (buttons)
  "Return BUTTONS, an alist from labels to commands, as a line."
  (mapconcat (lambda (button)
               (agent-q-approve--button (car button) (cdr button)))
             buttons "  "))

(defun agent-q-approve--offer-text (call)
  "Return the rule that was offered for CALL as text; empty without one."
  (pcase (agent-q-call-offer call)
    (`(,scope ,_ ,description)
     (concat (propertize
              (format "This rule would be added; %s again takes it:\n%s"
                      (if (equal scope "chat") "!" "P")
                      (agent-q-visible-line description most-positive-fixnum))
              'face 'agent-q-attention 'line-prefix "    "
              'wrap-prefix agent-q-call-value-prefix)
             "\n"))
    (_ "")))

(defun agent-q-approve--line (text)
  "Return TEXT as a line of the block that asks.
Where it goes on is further right than where our own lines begin."
  (propertize text 'face 'agent-q-dim 'line-prefix "    "
              'wrap-prefix agent-q-call-value-prefix))

(defconst agent-q-approve--most-reasons 30
  "How many reasons get a line of their own.")

(defun agent-q-approve--reasons (text)
  "Return TEXT, the reasons of a request as the core gives them, as lines.
There may be more of them than get a line."
  (let* ((all (split-string text "; +" t))
         (most (1- agent-q-approve--most-reasons))
         (rest (nthcdr most all)))
    (append (mapcar (lambda (reason)
                      (agent-q-visible-line (agent-q-call-on-one-line reason) 400))
                    (if (cdr rest) (seq-take all most) all))
            (and (cdr rest)
                 (list (agent-q-visible-line (string-join rest "; ")
                                             agent-q-render-body-limit))))))

(defun agent-q-approve--why (call)
  "Return the level of CALL and the reasons why it needs an answer, as lines.
The reasons may quote the program, whose lines must not look like ours."
  (let* ((text (or (agent-q-call-reason call) ""))
         (reasons (agent-q-approve--reasons text)))
    (concat
     (agent-q-approve--line (agent-q-call-level call))
     (cond ((cdr reasons)
            (mapconcat (lambda (reason)
                         (concat "\n" (propertize reason 'face 'agent-q-dim
                                                  'line-prefix "    - "
                                                  'wrap-prefix agent-q-call-value-prefix)))
                       reasons ""))
           ((string-empty-p text) "")
           (t (propertize (concat ": " (agent-q-visible text))
                          'face 'agent-q-dim
                          'line-prefix agent-q-call-value-prefix
                          'wrap-prefix agent-q-call-value-prefix))))))

(defun agent-q-approve--notes (call body)
  "Return what has to be said first of the request for CALL, as lines.
BODY is what it shows of the arguments."
  (mapconcat (lambda (note)
               (concat "\n" (propertize note 'face 'agent-q-attention
                                        'line-prefix "    " 'wrap-prefix "    ")))
             (delq nil (list (agent-q-sight-note call)
                             (and (text-property-not-all 0 (length body) 'agent-q-all nil body)
                                  "Not all of it is shown here; v shows the whole")))
             ""))

(defun agent-q-approve-draw (call)
  "Return the block that asks about CALL."
  ;; The note on a cut text keeps its own keys.
  (agent-q-render-fill-keymap (if (agent-q-call-effect-p call)
                                  (agent-q-approve--effect-block call)
                                (agent-q-approve--tool-block call))
                              (agent-q-approve--map call)))

(defun agent-q-approve--tool-block (call)
  "Return the block that asks about CALL of a tool."
  (let ((body (agent-q-call-arguments-body call (buffer-live-p (agent-q-call-review call)))))
    (concat
     (propertize (concat "? " (agent-q-call-tool call)
                         " waits for your answer: C-c C-a, then a key")
                 'face 'agent-q-attention)
     (agent-q-approve--notes call body)
     "\n" (agent-q-approve--why call) "\n"
     (agent-q-approve--rest
      call body
      (append
       (and (agent-q-call-review call)
            '(("[d] review the diff" . agent-q-approve-review)))
       '(("[y] run" . agent-q-approve-run)
         ("[!] run, and in this chat" . agent-q-approve-for-chat)
         ("[P] in this project" . agent-q-approve-for-project)))
      '(("[n] deny" . agent-q-approve-deny)
        ("[r] deny with a reason" . agent-q-approve-deny-with-reason)
        ("[e] edit" . agent-q-approve-edit)
        ("[v] view" . agent-q-approve-view))
      "[Y] run all"))))

(defun agent-q-approve--effect-block (call)
  "Return the block that asks about CALL, an effect of running code."
  (let ((body (agent-q-effect-body call)))
    (concat
     (propertize (concat "? " (agent-q-effect-head call))
                 'face 'agent-q-attention 'wrap-prefix agent-q-call-value-prefix)
     "\n" (propertize "waits for your answer: C-c C-a, then a key"
                      'face 'agent-q-attention 'line-prefix "    ")
     (agent-q-approve--notes call body) "\n"
     (agent-q-approve--rest
      call body
      '(("[y] allow" . agent-q-approve-run)
        ("[!] allow the like in this chat" . agent-q-approve-for-chat)
        ("[P] in this project" . agent-q-approve-for-project))
      '(("[n] deny" . agent-q-approve-deny)
        ("[r] deny with a reason" . agent-q-approve-deny-with-reason)
        ("[s] stop the call" . agent-q-approve-stop)
        ("[b] backtrace" . agent-q-effect-backtrace)
        ("[v] view" . agent-q-approve-view))
      "[Y] allow all"))))

(defun agent-q-approve--rest (call body allowing denying run-all)
  "Return what ends the block that asks about CALL: BODY and the buttons.
ALLOWING and DENYING are alists from labels to commands, RUN-ALL is a label."
  (concat
   (if-let ((target (agent-q-call-target call)))
       (concat (agent-q-approve--line target) "\n")
     "")
   ;; Above what runs, so that nothing pushes it out of sight.
   (agent-q-approve--offer-text call)
   body (propertize "\n" 'agent-q-sight-end t)
   (propertize " " 'line-prefix "  ")
   (agent-q-approve--buttons allowing)
   "\n" (propertize " " 'line-prefix "  ")
   (agent-q-approve--buttons
    (append denying
            (and (cdr (agent-q-call-all-waiting))
                 `((,run-all . agent-q-approve-run-all)
                   ("[N] deny all" . agent-q-approve-deny-all)))))))

;;;; Answering

(defun agent-q-approve--call ()
  "Return the call at point if it can be answered now; else say why not."
  (let ((call (agent-q-render-item-at (point))))
    (unless (agent-q-call-open-p call)
      (user-error "No tool call is waiting for an answer here"))
    (unless (agent-q-sight-armed-p call)
      (agent-q-sight-reveal call)
      (user-error
       "Too fast: read the request, then press the key again"))
    call))

(defun agent-q-approve--answer (decision payload label)
  "Answer the call at point with DECISION and PAYLOAD, shown as LABEL."
  (agent-q-answer-settle (agent-q-approve--call) decision payload label)
  (agent-q-answer-go-on))

(defun agent-q-approve--allowed (call)
  "Return how it is shown that CALL was let go on."
  (if (agent-q-call-effect-p call) "allowed" "approved"))

(defun agent-q-approve-run ()
  "Run the tool call at point as it is shown, or allow what code is about to do."
  (interactive)
  (let ((call (agent-q-approve--call)))
    (agent-q-sight-check-end call)
    (agent-q-approve--answer "approved" nil (agent-q-approve--allowed call))))

(defun agent-q-approve-deny ()
  "Deny the tool call at point, or what code is about to do.
The model is told so, and code gets an error that it may handle."
  (interactive)
  (agent-q-approve--answer "denied" nil "denied"))

(defun agent-q-approve-deny-with-reason (reason)
  "Deny the tool call at point and tell the model the REASON."
  (interactive (progn (agent-q-approve--call)
                      (list (read-string "Why not? "))))
  (let ((reason (and (not (string-blank-p reason))
                     (agent-q-text-clean reason))))
    (agent-q-approve--answer "denied" reason
                             (if (and reason (agent-q-call-effect-p (agent-q-approve--call)))
                                 (concat "denied: " reason)
                               "denied"))))

(defun agent-q-approve-stop ()
  "Deny what code is about to do at point, and stop the whole call.
The code can't continue, even if it handles errors."
  (interactive)
  (unless (agent-q-call-effect-p (agent-q-approve--call))
    (user-error "This call is not running yet; n denies it"))
  (agent-q-approve--answer "stopped" nil "stopped"))

(defun agent-q-approve-run-all ()
  "Run every waiting call in this chat whose request you have seen to the end."
  (interactive)
  (agent-q-approve--call)
  (let ((left 0))
    (dolist (call (agent-q-call-all-waiting))
      (if (agent-q-sight-read-p call)
          (agent-q-answer-settle call "approved" nil (agent-q-approve--allowed call))
        (setq left (1+ left))))
    (agent-q-answer-go-on)
    (unless (zerop left)
      (message "%d more requests that you have not seen to the end are waiting" left))))

(defun agent-q-approve-deny-all ()
  "Deny every waiting call in this chat."
  (interactive)
  (agent-q-approve--call)
  (dolist (call (agent-q-call-all-waiting))
    (agent-q-answer-settle call "denied" nil "denied"))
  (agent-q-answer-go-on))

(defun agent-q-approve-for-chat ()
  "Run the tool call at point; don't ask about similar ones in this chat.
The first time, only show the rule that would be added."
  (interactive)
  (agent-q-approve--with-rule "chat"))

(defun agent-q-approve-for-project ()
  "Run the tool call at point; don't ask about similar ones in this project.
The first time, only show the rule that would be added."
  (interactive)
  (agent-q-approve--with-rule "project"))

(defun agent-q-approve--with-rule (scope)
  "Show the rule for the like of the call at point in SCOPE, or take it if shown."
  (let ((call (agent-q-approve--call)))
    (pcase (agent-q-call-offer call)
      (`(,(pred (equal scope)) ,rule ,_)
       (agent-q-sight-check-end call)
       (agent-q-core-add-rule rule (agent-q-call-key call))
       (agent-q-approve--answer "approved" nil
                                (concat (agent-q-approve--allowed call) ", with a rule")))
      (_ (agent-q-approve--offer call scope)))))

(defun agent-q-approve--offer (call scope)
  "Show the rule for the like of CALL in SCOPE."
  (let ((offer (agent-q-json-parse
                (agent-q-core-offered-rule (agent-q-call-key call) scope))))
    (setf (agent-q-call-offer call)
          (list scope (agent-q-json-encode (gethash "rule" offer))
                (gethash "description" offer))
          ;; What is new on the screen has to be read before a key takes it.
          (agent-q-call-armed call) nil)
    (agent-q-render-update-item call)
    (goto-char (agent-q-render-item-start call))
    (agent-q-sight-expect call)))

(defun agent-q-approve-edit ()
  "Edit the arguments of the tool call at point, then run it."
  (interactive)
  (let ((call (agent-q-approve--call)))
    (when (agent-q-call-effect-p call)
      (user-error "An effect of running code can't be edited; n denies it, s stops the call"))
    (agent-q-arguments-edit call)))

(defun agent-q-approve-view ()
  "Show the whole tool call at point in a separate buffer."
  (interactive)
  (let ((call (agent-q-render-item-at (point))))
    (unless (agent-q-call-p call)
      (user-error "No tool call here"))
    (agent-q-render-show
     "*agent-q call*"
     (let ((agent-q-render-body-limit most-positive-fixnum))
       (concat (if (agent-q-call-effect-p call)
                   (agent-q-registry-effect-words (agent-q-call-tool call))
                 (agent-q-call-tool call))
               "\n\n" (agent-q-approve--whole-reasons call)
               (agent-q-call-arguments-body call) "\n")))))

(defun agent-q-approve--whole-reasons (call)
  "Return the reasons why CALL needs an answer, uncut, as a paragraph."
  (let* ((text (or (agent-q-call-reason call) ""))
         (reasons (if (agent-q-call-effect-p call) (list text)
                    (split-string text "; +" t))))
    (if reasons
        (concat (mapconcat (lambda (reason)
                             (propertize (concat "- " (agent-q-visible reason))
                                         'face 'agent-q-dim
                                         'wrap-prefix "  "))
                           reasons "\n")
                "\n\n")
      "")))

(defun agent-q-approve-review ()
  "Review the edit of the tool call at point as a diff."
  (interactive)
  (let ((call (agent-q-render-item-at (point))))
    (unless (and (agent-q-call-open-p call)
                 (or (buffer-live-p (agent-q-call-review call))
                     (agent-q-diff-prepare call)))
      (user-error "No diff to review here"))
    (let ((window (agent-q-diff-display (agent-q-call-review call))))
      (if window (select-window window)
        (user-error "No window of this frame can show the diff")))))

(defun agent-q-approve-press ()
  "Press the button at point."
  (interactive)
  (if-let ((command (get-text-property (point) 'agent-q-answer)))
      (call-interactively command)
    (message (if (agent-q-call-effect-p (agent-q-render-item-at (point)))
                 "y allows it, n denies it, r denies it with a reason, s stops the call"
               "y runs it, n denies it, r denies it with a reason, e edits it"))))

(defun agent-q-approve-mouse (event)
  "Press the button that EVENT clicked on."
  (interactive "e")
  (mouse-set-point event)
  (agent-q-approve-press))

;;;; Answers at the prompt

(defun agent-q-approve-mistyped (text)
  "Return what to say when TEXT, sent at the prompt, is meant as an answer.
That is a key that answers requests, or yes or no, while one waits in this
chat; else the value is nil."
  (when-let ((call (agent-q-call-waiting)))
    (let ((key (pcase (downcase text) ("yes" "y") ("no" "n") (_ text))))
      (and (= (length key) 1)
           (lookup-key (agent-q-approve--map call) key)
           (format "Not sent: to answer %s, press C-c C-a, then %s"
                   (agent-q-call-name call) key)))))

;;;; What rules look at

(defun agent-q-approve-place (connection)
  "Return the settings of a chat that only rules look at.
CONNECTION is the name of its connection, or nil."
  `((connection . ,(if connection (agent-q-text-clean connection) :null))))

(defun agent-q-approve-target (arguments image)
  "Return what a call with ARGUMENTS, JSON text, is about, as a line, or nil.
IMAGE is the name of the chat's image, or nil."
  (let ((path (cdr (assq 'path (agent-q-call-parse arguments)))))
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
