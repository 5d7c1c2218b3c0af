;;; agent-q-diff-hunks.el --- The hunks of a diff under review  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The buffer of a review: which call it is about, its hunks with what the user made
;; of them, and how they are shown.  The hunks are made by the core; here they are
;; text, and an overlay for their state.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-diff-target)
(require 'agent-q-json)
(require 'agent-q-visible)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-diff-hunk (:constructor agent-q-diff-hunks--make) (:copier nil))
  "A hunk under review.
NUMBER counts from 1.  OLD, NEW, HEADER and BODY are the core's.  CHOSEN,
EDITED and COMMENT are the user's.  The
overlay shows its state, START is where its header stands."
  number old new header body added removed
  (chosen t) edited comment overlay start)

(defvar-local agent-q-diff-hunks-call nil "The call whose edit is reviewed here.")

(defvar-local agent-q-diff-hunks-chat nil "The chat of that call.")

(defvar-local agent-q-diff-hunks-edit nil "The edit under review, an `agent-q-diff-edit'.")

(defvar-local agent-q-diff-hunks-all [] "The hunks, a vector.")

(defvar-local agent-q-diff-hunks--counts "" "Return the number of hunks taken, as text.")

(defvar-local agent-q-diff-hunks-lost nil
  "Messages about the hunks that no longer fit, latest first.")

(defvar-local agent-q-diff-hunks-done nil "Non-nil once the review is answered.")

(defun agent-q-diff-hunks-show-invisible ()
  "Show the characters of the current buffer that are made not to be seen.
They could make a change look like another; in the text they stay.
With those that turn the direction around, text is shown as it is stored."
  (setq-local glyphless-char-display (copy-sequence glyphless-char-display))
  (dolist (range agent-q-visible-ignorable)
    (set-char-table-range glyphless-char-display range 'hex-code))
  (save-excursion
    (goto-char (point-min))
    (when (re-search-forward "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]" nil t)
      (setq bidi-display-reordering nil))))

(defun agent-q-diff-hunks-fill (hunks)
  "Show HUNKS, as the core gives them, all of them chosen."
  (let ((inhibit-read-only t)
        (inhibit-modification-hooks t)
        (number 0)
        (path (agent-q-diff-edit-path agent-q-diff-hunks-edit)))
    (remove-overlays)
    (erase-buffer)
    (when (agent-q-diff-edit-one agent-q-diff-hunks-edit)
      (insert (agent-q-diff-edit-note agent-q-diff-hunks-edit) "\n"))
    (insert "--- " (if (agent-q-diff-edit-new agent-q-diff-hunks-edit) "/dev/null" path)
            "\n+++ " (if (agent-q-diff-edit-one agent-q-diff-hunks-edit) "/dev/null" path) "\n")
    (setq agent-q-diff-hunks-all
          (vconcat
           (mapcar (pcase-lambda (`(,old ,new ,header ,body ,added ,removed))
                     (agent-q-diff-hunks--insert
                      (agent-q-diff-hunks--make
                       :number (setq number (1+ number)) :old old :new new
                       :header header :body body :added added :removed removed)))
                   hunks)))
    (agent-q-diff-hunks-show-invisible)
    (set-buffer-modified-p nil)
    (goto-char (if hunks (agent-q-diff-hunk-start (aref agent-q-diff-hunks-all 0))
                 (point-min)))
    (agent-q-diff-hunks-count)))

(defun agent-q-diff-hunks--insert (hunk)
  "Insert HUNK at point with the overlay of its state; return it."
  (let ((start (point)))
    (insert (agent-q-diff-hunk-header hunk) "\n" (agent-q-diff-hunk-body hunk))
    (let ((overlay (make-overlay start (point) nil t nil)))
      (overlay-put overlay 'agent-q-hunk hunk)
      (setf (agent-q-diff-hunk-start hunk) (copy-marker start)
            (agent-q-diff-hunk-overlay hunk) overlay))
    (agent-q-diff-hunks-mark hunk)
    hunk))

(defun agent-q-diff-hunks-mark (hunk)
  "Show the state of HUNK, in words too, for terminals without colours."
  (let ((overlay (agent-q-diff-hunk-overlay hunk))
        (chosen (agent-q-diff-hunk-chosen hunk)))
    (overlay-put overlay 'before-string
                 (propertize
                  (concat (if chosen "[x] " "[ ] ")
                          (if chosen "apply" "reject")
                          (if (agent-q-diff-hunk-edited hunk) ", edited" "")
                          (if-let ((comment (agent-q-diff-hunk-comment hunk)))
                              (concat ": " comment) "")
                          "\n")
                  ;; Else it would have the background of the line below.
                  'face (list (if chosen 'agent-q-success 'agent-q-failure) 'default)))
    (overlay-put overlay 'face (and (not chosen) 'agent-q-dim))))

(defun agent-q-diff-hunks-chosen ()
  "Return the hunks that would be applied."
  (seq-filter #'agent-q-diff-hunk-chosen agent-q-diff-hunks-all))

(defun agent-q-diff-hunks-visible-p (buffer)
  "Whether the review in BUFFER is in a window; BUFFER may be anything else."
  (and (bufferp buffer) (buffer-live-p buffer) (get-buffer-window buffer 'visible) t))

(defun agent-q-diff-hunks-touched (buffer)
  "Return (CHOSEN . ALL), numbers of hunks, if the review in BUFFER was changed.
Else the value is nil, as it is when BUFFER is none."
  (when (and (bufferp buffer) (buffer-live-p buffer))
    (with-current-buffer buffer
      (let ((chosen (length (agent-q-diff-hunks-chosen)))
            (all (+ (length agent-q-diff-hunks-all) (length agent-q-diff-hunks-lost))))
        (and (or (< chosen all)
                 (seq-some (lambda (hunk) (or (agent-q-diff-hunk-edited hunk)
                                              (agent-q-diff-hunk-comment hunk)))
                           agent-q-diff-hunks-all))
             (cons chosen all))))))

(defun agent-q-diff-hunks-count ()
  "Count the hunks again and show the counts in the header line."
  (let ((added 0) (removed 0) (chosen 0))
    (seq-doseq (hunk agent-q-diff-hunks-all)
      (when (agent-q-diff-hunk-chosen hunk)
        (setq chosen (1+ chosen)
              added (+ added (agent-q-diff-hunk-added hunk))
              removed (+ removed (agent-q-diff-hunk-removed hunk)))))
    (setq agent-q-diff-hunks--counts (format " %d/%d hunks, +%d -%d  " chosen
                                             (length agent-q-diff-hunks-all) added removed))
    (agent-q-diff-hunks-watch)))

(defun agent-q-diff-hunks-watch ()
  "Show the header line, with a warning when the target was changed.
For `post-command-hook', too."
  (unless agent-q-diff-hunks-done
    (setq header-line-format
          (list (propertize agent-q-diff-hunks--counts 'face 'bold)
                (cond ((agent-q-diff-target-changed-p agent-q-diff-hunks-edit)
                       (propertize "CHANGED since: g refreshes the review"
                                   'face 'agent-q-failure))
                      ((agent-q-diff-edit-one agent-q-diff-hunks-edit)
                       "C-c C-c do it  C-c C-k reject  c comment  ? menu")
                      ;; A narrow window shows the first ones.
                      (t "C-c C-c apply  C-c C-k reject  SPC toggle  e edit  ? menu"))))
    (force-mode-line-update)))

(defun agent-q-diff-hunks-check ()
  "Signal an error unless the review can be answered."
  (unless (and (buffer-live-p agent-q-diff-hunks-chat)
               (not agent-q-diff-hunks-done)
               (agent-q-call-open-p agent-q-diff-hunks-call))
    (user-error "This edit was already answered")))

(defun agent-q-diff-hunks-replace (hunk body)
  "Put BODY, which the user wrote, in the place of the lines of HUNK.
Signal an error when it doesn't fit there."
  (pcase-let ((`(,old ,new ,header ,body ,added ,removed)
               (agent-q-core-diff-edit-hunk
                (agent-q-json-encode (agent-q-diff-hunks--json hunk)) body))
              (inhibit-read-only t)
              (inhibit-modification-hooks t)
              (overlay (agent-q-diff-hunk-overlay hunk)))
    (setf (agent-q-diff-hunk-old hunk) old
          (agent-q-diff-hunk-new hunk) new
          (agent-q-diff-hunk-header hunk) header
          (agent-q-diff-hunk-body hunk) body
          (agent-q-diff-hunk-added hunk) added
          (agent-q-diff-hunk-removed hunk) removed
          (agent-q-diff-hunk-edited hunk) t
          (agent-q-diff-hunk-chosen hunk) t)
    (save-excursion
      (let ((end (overlay-end overlay)))
        (goto-char (agent-q-diff-hunk-start hunk))
        ;; Before the old text goes, so that the next hunk's marker stays.
        (goto-char end)
        (delete-region (agent-q-diff-hunk-start hunk) end)
        (let* ((next (and (< (agent-q-diff-hunk-number hunk) (length agent-q-diff-hunks-all))
                          (aref agent-q-diff-hunks-all (agent-q-diff-hunk-number hunk))))
               (start (point)))
          (insert header "\n" body)
          (move-overlay overlay start (point))
          (set-marker (agent-q-diff-hunk-start hunk) start)
          (when next
            (set-marker (agent-q-diff-hunk-start next) (point))
            (move-overlay (agent-q-diff-hunk-overlay next) (point)
                          (overlay-end (agent-q-diff-hunk-overlay next)))))))
    (set-buffer-modified-p nil)
    (font-lock-flush)
    (agent-q-diff-hunks-mark hunk)
    (agent-q-diff-hunks-count)))

(defun agent-q-diff-hunks--json (hunk)
  "Return HUNK in the form that the core expects."
  (list :old_start (agent-q-diff-hunk-old hunk)
        :new_start (agent-q-diff-hunk-new hunk)
        :body (agent-q-diff-hunk-body hunk)))

(defun agent-q-diff-hunks-json (hunks)
  "Return HUNKS, a list, as JSON text."
  (agent-q-json-encode (vconcat (mapcar #'agent-q-diff-hunks--json hunks))))

(provide 'agent-q-diff-hunks)
;;; agent-q-diff-hunks.el ends here
