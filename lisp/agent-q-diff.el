;;; agent-q-diff.el --- Reviewing edits as diffs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An edit that waits for approval is shown as a diff of which each hunk can be
;; taken, left, changed or commented on.  What was chosen is the answer to the
;; approval request.  The hunks are made and applied by the core; here they
;; are text, an overlay for their state, and keys.

;;; Code:

(require 'agent-q)
(require 'agent-q-answer)
(require 'agent-q-call)
(require 'agent-q-call-change)
(require 'agent-q-diff-draft)
(require 'agent-q-diff-edit)
(require 'agent-q-diff-hunks)
(require 'agent-q-diff-refresh)
(require 'agent-q-diff-target)
(require 'agent-q-garbage)
(require 'agent-q-json)
(require 'agent-q-render)
(require 'agent-q-sight)
(require 'agent-q-text)
(require 'diff-mode)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar agent-q-diff-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap special-mode-map))
    (define-key map "n" #'agent-q-diff-next)
    (define-key map "p" #'agent-q-diff-previous)
    (define-key map (kbd "SPC") #'agent-q-diff-toggle)
    (define-key map "e" #'agent-q-diff-edit-hunk)
    (define-key map "c" #'agent-q-diff-comment)
    (define-key map "g" #'agent-q-diff-refresh)
    (define-key map [mouse-2] #'agent-q-diff-toggle-mouse)
    (define-key map "q" #'agent-q-diff-quit)
    (define-key map (kbd "C-c C-c") #'agent-q-diff-apply)
    (define-key map (kbd "C-c C-k") #'agent-q-diff-reject)
    map)
  "Keymap of `agent-q-diff-mode'.")

(define-derived-mode agent-q-diff-mode diff-mode "agent-q diff"
  "Major mode for reviewing an edit hunk by hunk.
\\<agent-q-diff-mode-map>\\[agent-q-diff-toggle] takes or leaves the hunk at point, \\[agent-q-diff-edit-hunk] edits it, \\[agent-q-diff-comment]
tells the model something about it.  \\[agent-q-diff-apply] applies what is
taken; \\[agent-q-diff-reject] rejects all, and so does killing the buffer.

\\{agent-q-diff-mode-map}"
  (setq-local diff-font-lock-syntax nil
              diff-refine nil
              bidi-paragraph-direction 'left-to-right
              ;; Diff mode's own keys for read-only buffers would hide these.
              minor-mode-overriding-map-alist nil
              buffer-read-only t)
  (add-hook 'kill-buffer-hook #'agent-q-diff--killed nil t)
  (add-hook 'post-command-hook #'agent-q-diff-hunks-watch nil t))

;;;; Opening

(defvar-local agent-q-diff--begun nil
  "When the review took the place of what was shown before it, or nil.")

(defun agent-q-diff-reviewed-p (tool preview)
  "Whether a call of TOOL is reviewed as a diff without being asked for one.
PREVIEW is what the core says that it would make of a file, or nil."
  (and preview
       (or agent-q-review-edits (equal tool "propose_file_edit"))
       t))

(defun agent-q-diff-drafted (event)
  "Show more of the edit that EVENT is about, which the model is writing.
The current buffer is its chat.  Only edits that are to be reviewed are shown."
  (when (agent-q-diff-reviewed-p (plist-get event :tool) t)
    (agent-q-diff-draft-take event #'agent-q-diff-display)))

(defun agent-q-diff-forget-drafts ()
  "Close the drafts of edits that the model of the current chat left off."
  (agent-q-diff-draft-forget #'agent-q-diff--leave))

(defun agent-q-diff-review (event)
  "Open the review of the edit that EVENT, an approval request, asks about.
The current buffer is its chat.  Other edits can be reviewed by a key."
  (let* ((call (gethash (plist-get event :call) agent-q-call-table))
         (preview (agent-q-core-preview (agent-q-call-key call))))
    (setf (agent-q-call-change call) (agent-q-call-change-of preview))
    (when preview
      (agent-q-diff-target-watch (nth 1 preview)))
    (cond ((agent-q-diff-reviewed-p (agent-q-call-tool call) preview)
           (when (and (agent-q-diff-prepare call preview)
                      (get-buffer-window (current-buffer)))
             (agent-q-diff-display (agent-q-call-review call))
             ;; What is beside it need not be in the request.
             (agent-q-render-update-item call)))
          (preview
           (setf (agent-q-call-review call) 'possible)
           (agent-q-render-update-item call)))))

(defun agent-q-diff-review-again (call)
  "Show the present edit of CALL of the current chat.
A review that is open keeps what was chosen there."
  (setf (agent-q-call-change call)
        (agent-q-call-change-of (agent-q-core-preview (agent-q-call-key call))))
  (when (buffer-live-p (agent-q-call-review call))
    (with-current-buffer (agent-q-call-review call)
      (agent-q-diff-refresh))))

(defun agent-q-diff-prepare (call &optional preview)
  "Make the buffer in which CALL of the current chat is reviewed; return it.
PREVIEW is what the core says that it would make of a file.  Return nil
when there is nothing to review."
  (when-let* ((preview (or preview (agent-q-core-preview (agent-q-call-key call))))
              (arguments (agent-q-json-parse (agent-q-call-arguments call)))
              (edit (agent-q-diff-target-planned preview arguments)))
    (setf (agent-q-call-review call) (agent-q-diff--open call (current-buffer) edit))
    (agent-q-render-update-item call)
    (agent-q-call-review call)))

(defun agent-q-diff--open (call chat edit)
  "Return a buffer in which EDIT, which CALL of CHAT would do, is reviewed.
It is the one in which the edit was shown while the model wrote it, if any."
  (let* ((draft (agent-q-diff-draft-adopt
                 (agent-q-call-tool call)
                 (gethash "path" (agent-q-diff-edit-arguments edit))))
         (buffer (or draft (agent-q-diff-draft-make-buffer (agent-q-diff-edit-path edit)))))
    (with-current-buffer buffer
      (agent-q-diff-mode)
      (setq default-directory (buffer-local-value 'default-directory chat)
            agent-q-diff-hunks-call call
            agent-q-diff-hunks-chat chat
            agent-q-diff-hunks-edit edit)
      (agent-q-diff-hunks-fill (agent-q-core-diff-hunks (agent-q-diff-edit-base edit)
                                                        (agent-q-diff-edit-proposed edit) 3))
      (when draft
        (setq agent-q-diff--begun (float-time))
        (dolist (window (get-buffer-window-list buffer nil t))
          (set-window-point window (point)))))
    buffer))

(defun agent-q-diff-display (buffer)
  "Show BUFFER in a window of the selected frame, without selecting it.
Return the window, or nil when that frame has none that can show it."
  (let* ((pop-up-frames nil)
         (window (display-buffer buffer '((display-buffer-reuse-window
                                           display-buffer-pop-up-window
                                           agent-q-diff--use-window
                                           display-buffer-no-window)
                                          (allow-no-window . t)
                                          (reusable-frames . nil)
                                          (inhibit-switch-frame . t)))))
    ;; Emacs forgets that it made a window once another page was shown there and left.
    (when (and window (eq 'window (car (window-parameter window 'quit-restore))))
      (set-window-parameter window 'agent-q-diff-made-for buffer))
    window))

(defun agent-q-diff--use-window (buffer alist)
  "Show BUFFER by ALIST in a window that the selected frame has.
`display-buffer-use-some-window' would go to another frame for one."
  (when-let ((window (get-lru-window (selected-frame)))
             (origin (selected-window)))
    (with-selected-window window
      (display-buffer-same-window buffer alist))
    ;; Where to go back to is where the user was, not the window that was used.
    (pcase (window-parameter window 'quit-restore)
      (`(,what ,before ,_ ,shown)
       (set-window-parameter window 'quit-restore (list what before origin shown))))
    window))

;;;; Moving and choosing

(defun agent-q-diff--index ()
  "Return the place of the hunk at point in the vector; -1 before the first."
  (let ((low 0) (high (length agent-q-diff-hunks-all)))
    ;; The first hunk that starts after point.
    (while (< low high)
      (let ((middle (/ (+ low high) 2)))
        (if (<= (agent-q-diff-hunk-start (aref agent-q-diff-hunks-all middle)) (point))
            (setq low (1+ middle))
          (setq high middle))))
    (1- low)))

(defun agent-q-diff--hunk ()
  "Return the hunk at point."
  (let ((index (agent-q-diff--index)))
    (if (< index 0)
        (user-error "No hunk at point")
      (aref agent-q-diff-hunks-all index))))

(defun agent-q-diff--goto (index)
  "Go to the hunk at INDEX."
  (unless (< -1 index (length agent-q-diff-hunks-all))
    (user-error "No more hunks"))
  (let ((hunk (aref agent-q-diff-hunks-all index)))
    (goto-char (agent-q-diff-hunk-start hunk))
    ;; What a key is about to decide has to be on the screen.
    (when (and (eq (window-buffer) (current-buffer))
               (not (pos-visible-in-window-p
                     (1- (overlay-end (agent-q-diff-hunk-overlay hunk))))))
      (recenter 1))))

(defun agent-q-diff-next ()
  "Go to the next hunk."
  (interactive nil agent-q-diff-mode)
  (agent-q-diff--goto (1+ (agent-q-diff--index))))

(defun agent-q-diff-previous ()
  "Go to the start of this hunk, or to the one before."
  (interactive nil agent-q-diff-mode)
  (let ((index (agent-q-diff--index)))
    (agent-q-diff--goto
     (if (and (>= index 0)
              (> (point) (agent-q-diff-hunk-start (aref agent-q-diff-hunks-all index))))
         index
       (1- index)))))

(defun agent-q-diff--check-divisible ()
  "Signal an error if the edit can only be taken as a whole."
  (when (agent-q-diff-edit-one agent-q-diff-hunks-edit)
    (user-error "This edit can only be applied or rejected as a whole")))

(defun agent-q-diff-toggle ()
  "Take the hunk at point, or leave it if it was taken; go to the next one."
  (interactive nil agent-q-diff-mode)
  (agent-q-diff--check-divisible)
  (agent-q-garbage-put-off)
  (let ((hunk (agent-q-diff--hunk)))
    (setf (agent-q-diff-hunk-chosen hunk) (not (agent-q-diff-hunk-chosen hunk)))
    (agent-q-diff-hunks-mark hunk)
    (agent-q-diff-hunks-count)
    (when (< (agent-q-diff-hunk-number hunk) (length agent-q-diff-hunks-all))
      (agent-q-diff--goto (agent-q-diff-hunk-number hunk)))))

(defun agent-q-diff-toggle-mouse (event)
  "Take or leave the hunk that EVENT clicked on."
  (interactive "e" agent-q-diff-mode)
  (mouse-set-point event)
  (agent-q-diff-toggle))

(defun agent-q-diff-comment (comment)
  "Add COMMENT on the hunk at point, for the model to read with the answer."
  (interactive
   (list (read-string "Comment for the model: "
                      (agent-q-diff-hunk-comment (agent-q-diff--hunk))))
   agent-q-diff-mode)
  (let ((hunk (agent-q-diff--hunk)))
    (setf (agent-q-diff-hunk-comment hunk)
          (and (not (string-blank-p comment)) (agent-q-text-clean comment)))
    (agent-q-diff-hunks-mark hunk)))

(defun agent-q-diff-edit-hunk ()
  "Edit the hunk at point."
  (interactive nil agent-q-diff-mode)
  (agent-q-diff--check-divisible)
  (agent-q-diff-edit-open (agent-q-diff--hunk)))

;;;; Answering

(defun agent-q-diff--note (whole)
  "Return what the model is told about the review.
WHOLE is said of an edit that can only be taken as a whole."
  (string-join
   (cons (if (agent-q-diff-edit-one agent-q-diff-hunks-edit)
             whole
           (format "applied %d of %d hunks" (length (agent-q-diff-hunks-chosen))
                   (+ (length agent-q-diff-hunks-all) (length agent-q-diff-hunks-lost))))
         (append (delq nil (mapcar #'agent-q-diff--note-on
                                   (append agent-q-diff-hunks-all nil)))
                 (reverse agent-q-diff-hunks-lost)))
   "; "))

(defun agent-q-diff--note-on (hunk)
  "Return a note about HUNK, or nil."
  (let ((comment (agent-q-diff-hunk-comment hunk))
        (what (cond ((not (agent-q-diff-hunk-chosen hunk)) "rejected")
                    ((agent-q-diff-hunk-edited hunk) "edited by the user"))))
    (when (or what comment)
      (format "hunk %d (%s) %s%s" (agent-q-diff-hunk-number hunk)
              (agent-q-diff-hunk-header hunk)
              (or what "applied")
              (if comment (concat ": " comment) "")))))

(defun agent-q-diff-apply ()
  "Apply the hunks that are taken, and tell the model about the rest."
  (interactive nil agent-q-diff-mode)
  (agent-q-diff-hunks-check)
  ;; The key was meant for what was shown before.
  (when (and agent-q-diff--begun
             (< (- (float-time) agent-q-diff--begun) agent-q-sight-pause))
    (user-error "The edit was completed just now: look at it, then press the key again"))
  (when (agent-q-diff-target-changed-p agent-q-diff-hunks-edit)
    (agent-q-diff-refresh)
    (user-error "The file has changed; review the hunks as they fit now"))
  (cond ((agent-q-diff-edit-one agent-q-diff-hunks-edit)
         (agent-q-diff--answer "modified" (agent-q-diff--arguments) "approved"))
        ;; A new file that holds nothing has no hunks.
        ((not (or (agent-q-diff-hunks-chosen) (seq-empty-p agent-q-diff-hunks-all)))
         (agent-q-diff-reject))
        (t
         (let ((chosen (length (agent-q-diff-hunks-chosen)))
               (all (length agent-q-diff-hunks-all)))
           (agent-q-diff--answer "modified" (agent-q-diff--arguments)
                                 (if (= chosen all) "approved"
                                   (format "approved, %d of %d hunks" chosen all)))))))

(defun agent-q-diff--arguments ()
  "Return the arguments of the call with the chosen hunks, as JSON text."
  (let* ((edit agent-q-diff-hunks-edit)
         (arguments (copy-hash-table (agent-q-diff-edit-arguments edit)))
         (base (agent-q-diff-edit-base edit))
         (text (agent-q-core-diff-apply base (agent-q-diff-hunks-json
                                              (agent-q-diff-hunks-chosen)))))
    (unless (agent-q-diff-edit-one edit)
      (puthash "reviewed" (list :original base :modified text) arguments))
    ;; The core tells the model, where the tool itself does not take it.
    (puthash "review" (agent-q-diff--note "done as a whole") arguments)
    (agent-q-json-encode arguments)))

(defun agent-q-diff-reject ()
  "Reject the whole edit; the comments go to the model."
  (interactive nil agent-q-diff-mode)
  (agent-q-diff-hunks-check)
  (seq-doseq (hunk agent-q-diff-hunks-all)
    (setf (agent-q-diff-hunk-chosen hunk) nil))
  (agent-q-diff--answer "denied" (concat "the edit was reviewed and rejected; "
                                         (agent-q-diff--note "nothing was done"))
                        "rejected"))

(defun agent-q-diff--answer (decision payload label)
  "Answer the call with DECISION and PAYLOAD, shown as LABEL, and go away."
  (let ((buffer (current-buffer))
        (call agent-q-diff-hunks-call))
    (with-current-buffer agent-q-diff-hunks-chat
      (agent-q-answer-settle call decision payload label))
    (agent-q-diff--leave buffer)))

(defun agent-q-diff-quit ()
  "Go back to the chat, with the edit in its request as it was left here."
  (interactive nil agent-q-diff-mode)
  (let ((chat agent-q-diff-hunks-chat)
        (call agent-q-diff-hunks-call))
    (quit-window)
    (when (and (buffer-live-p chat) (agent-q-call-open-p call))
      (with-current-buffer chat
        (agent-q-sight-anew call)))))

(defun agent-q-diff--leave (buffer)
  "Kill BUFFER, whose review is over, and its windows if they were made for it."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-diff-hunks-done t))
    (dolist (window (get-buffer-window-list buffer nil t))
      (if (and (eq buffer (window-parameter window 'agent-q-diff-made-for))
               (eq t (window-deletable-p window)))
          (delete-window window)
        (quit-restore-window window 'bury)))
    (kill-buffer buffer)))

(defun agent-q-diff--killed ()
  "Reject the edit whose review is killed."
  (unless agent-q-diff-hunks-done
    (setq agent-q-diff-hunks-done t)
    (let ((call agent-q-diff-hunks-call))
      (when (and (buffer-live-p agent-q-diff-hunks-chat) (agent-q-call-open-p call))
        (with-current-buffer agent-q-diff-hunks-chat
          (agent-q-answer-settle
           call "denied" "the user closed the review of the edit without applying it"
           "rejected"))))))

(defun agent-q-diff--settled (call)
  "Close the review of CALL, which was answered or is over."
  (let ((buffer (agent-q-call-review call)))
    (setf (agent-q-call-review call) nil)
    (when (bufferp buffer)
      (agent-q-diff--leave buffer))))

(add-hook 'agent-q-call-settled-functions #'agent-q-diff--settled)

(provide 'agent-q-diff)
;;; agent-q-diff.el ends here
