;;; agent-q-review.el --- Reviewing edits as diffs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An edit that waits for approval is shown as a diff of which each hunk can be
;; taken, left, changed or commented on.  What was chosen is the decision on the
;; approval request.  The hunks are made and applied by the core; here they
;; are text, an overlay for their state, and keys.

;;; Code:

(require 'agent-q)
(require 'agent-q-approval-gate)
(require 'agent-q-call)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-render)
(require 'agent-q-review-draft)
(require 'agent-q-text)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; What an edit under review would change

;; What the core has planned to make of a file, the live text of that (the visiting
;; buffer's, or else the file's), and noticing when it changes.

(cl-defstruct (agent-q-review-target (:constructor agent-q-review--target-make) (:copier nil))
  "An edit of the file PATH, which is FILE as an absolute name.
BASE, the whole text, is replaced by PROPOSED in a call with ARGUMENTS.  NEW
means that there is no file yet, ONE that only all of it makes sense, which
NOTE then explains.  STAMP is what the target looked like."
  path file base proposed arguments new one note stamp)

(defun agent-q-review-target-planned (preview arguments)
  "Return the edit in PREVIEW, the core's; ARGUMENTS are those of the call."
  (pcase-let ((`(,path ,file ,original ,modified ,divisible ,note) preview))
    (agent-q-review--target-make
     :path (agent-q-text-clean path) :file file :arguments arguments
     :base (or original "") :proposed modified :new (null original)
     :one (not divisible) :note (agent-q-text-clean note)
     :stamp (agent-q-review--target-stamp file))))

(defun agent-q-review--target-buffer (file)
  "Return the buffer that visits FILE, or nil."
  (find-buffer-visiting file))

(defun agent-q-review--target-live (file)
  "Return the text of FILE as it is now, or nil when there is no such file."
  (if-let ((buffer (agent-q-review--target-buffer file)))
      (with-current-buffer buffer
        (save-restriction
          (widen)
          (buffer-substring-no-properties (point-min) (point-max))))
    (when (file-regular-p file)
      (with-temp-buffer
        (insert-file-contents file)
        (buffer-string)))))

(defun agent-q-review--target-like (model text)
  "Return TEXT, read from a file, with the line ends that MODEL has.
Emacs hides carriage returns that end all lines of a file."
  (if (and (string-search "\r\n" model)
           (not (string-search "\r\n" text)))
      (string-replace "\n" "\r\n" text)
    text))

(defun agent-q-review--target-stamp (file)
  "Return a value that is another one once FILE has changed."
  (if-let ((buffer (agent-q-review--target-buffer file)))
      (cons buffer (buffer-chars-modified-tick buffer))
    (let ((attributes (file-attributes file)))
      (list (file-attribute-modification-time attributes)
            (file-attribute-size attributes)
            (file-attribute-inode-number attributes)))))

(defun agent-q-review-target-changed-p (edit)
  "Whether the target of EDIT was changed since the review began."
  (not (equal (agent-q-review-target-stamp edit)
              (agent-q-review--target-stamp (agent-q-review-target-file edit)))))

(defvar-local agent-q-review--target-timer nil
  "The timer that has requests about this buffer's file looked at again, or nil.")

(defun agent-q-review-target-watch (file)
  "Update requests when the buffer of FILE is changed.
A file that is changed on disk the core notices by itself."
  (when-let ((buffer (agent-q-review--target-buffer file)))
    (with-current-buffer buffer
      (add-hook 'after-change-functions #'agent-q-review--target-touched nil t))))

(defun agent-q-review--target-touched (&rest _)
  "Update requests once the user has stopped typing for a moment."
  (unless agent-q-review--target-timer
    (setq agent-q-review--target-timer
          (run-at-time 0.5 nil #'agent-q-review--target-look (current-buffer)))))

(defun agent-q-review--target-look (buffer)
  "Update requests, as BUFFER was changed.
When none waits any more, stop noticing that."
  (let ((running (agent-q-events-running-p)))
    (when running
      (agent-q-core-files-changed))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (setq agent-q-review--target-timer nil)
        (when (or (not running) (eql 0 (plist-get (agent-q-core-status) :approvals)))
          (remove-hook 'after-change-functions #'agent-q-review--target-touched t))))))

(defun agent-q-review-target-visit (edit)
  "Return a buffer that visits the file of EDIT, with the text that EDIT is about.
Return nil if the file has another text now."
  (let* ((file (agent-q-review-target-file edit))
         (buffer (or (agent-q-review--target-buffer file)
                     ;; Looking at an edit is to raise no questions about the file.
                     (let ((enable-local-variables :safe))
                       (find-file-noselect file t))))
         (base (agent-q-review-target-base edit)))
    (when (equal base (agent-q-review--target-like base (agent-q-review--target-live file)))
      (setf (agent-q-review-target-stamp edit) (agent-q-review--target-stamp file))
      (agent-q-review-target-watch file)
      buffer)))

(defun agent-q-review-target-rebase (edit)
  "Return the text that EDIT has to replace in the target as it is now."
  (let ((file (agent-q-review-target-file edit)))
    (prog1 (agent-q-review--target-like (agent-q-review-target-base edit)
                                        (or (agent-q-review--target-live file) ""))
      (setf (agent-q-review-target-stamp edit) (agent-q-review--target-stamp file)))))

;;;; The hunks of a diff under review

;; The buffer of a review: which call it is about, its hunks with what the user made
;; of them, and how they are shown.  The hunks are made by the core; here they are
;; text, and an overlay for their state.

(cl-defstruct (agent-q-review-hunk (:constructor agent-q-review--hunks-make) (:copier nil))
  "A hunk under review.
NUMBER counts from 1.  OLD, NEW, HEADER and BODY are the core's.  CHOSEN,
DECIDED, EDITED and COMMENT are the user's; those who review the edit in
place decide hunk by hunk.  The overlay shows its state, START is where its
header stands."
  number old new header body added removed
  (chosen t) decided edited comment overlay start)

(defvar-local agent-q-review-hunks-call nil "The call whose edit is reviewed here.")

(defvar-local agent-q-review-hunks-chat nil "The chat of that call.")

(defvar-local agent-q-review-hunks-edit nil "The edit under review, an `agent-q-review-target'.")

(defvar-local agent-q-review-hunks-all [] "The hunks, a vector.")

(defvar-local agent-q-review--hunks-counts "" "Return the number of hunks taken, as text.")

(defvar-local agent-q-review-hunks-lost nil
  "Messages about the hunks that no longer fit, latest first.")

(defvar-local agent-q-review-hunks-done nil "Non-nil once the review is decided.")

(defvar-local agent-q-review--hunks-follow #'ignore
  "Function that is called when hunks or their states have changed.")

(defun agent-q-review-hunks-follow (function)
  "Call FUNCTION in this buffer whenever hunks or their states have changed."
  (setq agent-q-review--hunks-follow function))

(defun agent-q-review-hunks-show-invisible ()
  "Show the characters of the current buffer that are made not to be seen.
They could make a change look like another; in the text they stay.
With those that turn the direction around, text is shown as it is stored."
  (setq-local glyphless-char-display (copy-sequence glyphless-char-display))
  (dolist (range agent-q-text-visible-ignorable)
    (set-char-table-range glyphless-char-display range 'hex-code))
  (save-excursion
    (goto-char (point-min))
    (when (re-search-forward "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]" nil t)
      (setq bidi-display-reordering nil))))

(defun agent-q-review-hunks-fill (hunks)
  "Show HUNKS, as the core gives them, all of them chosen."
  (let ((inhibit-read-only t)
        (inhibit-modification-hooks t)
        (number 0)
        (path (agent-q-review-target-path agent-q-review-hunks-edit)))
    (remove-overlays)
    (erase-buffer)
    (when (agent-q-review-target-one agent-q-review-hunks-edit)
      (insert (agent-q-review-target-note agent-q-review-hunks-edit) "\n"))
    (insert "--- " (if (agent-q-review-target-new agent-q-review-hunks-edit) "/dev/null" path)
            "\n+++ " (if (agent-q-review-target-one agent-q-review-hunks-edit) "/dev/null" path) "\n")
    (setq agent-q-review-hunks-all
          (vconcat
           (mapcar (pcase-lambda (`(,old ,new ,header ,body ,added ,removed))
                     (agent-q-review--hunks-insert
                      (agent-q-review--hunks-make
                       :number (setq number (1+ number)) :old old :new new
                       :header header :body body :added added :removed removed)))
                   hunks)))
    (agent-q-review-hunks-show-invisible)
    (set-buffer-modified-p nil)
    (goto-char (if hunks (agent-q-review-hunk-start (aref agent-q-review-hunks-all 0))
                 (point-min)))
    (agent-q-review-hunks-count)))

(defun agent-q-review--hunks-insert (hunk)
  "Insert HUNK at point with the overlay of its state; return it."
  (let ((start (point)))
    (insert (agent-q-review-hunk-header hunk) "\n" (agent-q-review-hunk-body hunk))
    (let ((overlay (make-overlay start (point) nil t nil)))
      (overlay-put overlay 'agent-q-hunk hunk)
      (setf (agent-q-review-hunk-start hunk) (copy-marker start)
            (agent-q-review-hunk-overlay hunk) overlay))
    (agent-q-review-hunks-mark hunk)
    hunk))

(defun agent-q-review-hunks-mark (hunk)
  "Show the state of HUNK, in words too, for terminals without colours."
  (let ((overlay (agent-q-review-hunk-overlay hunk))
        (chosen (agent-q-review-hunk-chosen hunk)))
    (overlay-put overlay 'before-string
                 (propertize
                  (concat (if chosen "[x] " "[ ] ")
                          (if chosen "apply" "reject")
                          (if (agent-q-review-hunk-edited hunk) ", edited" "")
                          (if-let ((comment (agent-q-review-hunk-comment hunk)))
                              (concat ": " comment) "")
                          "\n")
                  ;; Else it would have the background of the line below.
                  'face (list (if chosen 'agent-q-success 'agent-q-failure) 'default)))
    (overlay-put overlay 'face (and (not chosen) 'agent-q-dim))))

(defun agent-q-review-hunks-chosen ()
  "Return the hunks that would be applied."
  (seq-filter #'agent-q-review-hunk-chosen agent-q-review-hunks-all))

(defun agent-q-review-hunks-visible-p (buffer)
  "Whether the review in BUFFER is in a window; BUFFER may be anything else."
  (and (bufferp buffer) (buffer-live-p buffer) (get-buffer-window buffer 'visible) t))

(defun agent-q-review-hunks-touched (buffer)
  "Return (CHOSEN . ALL), numbers of hunks, if the review in BUFFER was changed.
Else the value is nil, as it is when BUFFER is none."
  (when (and (bufferp buffer) (buffer-live-p buffer))
    (with-current-buffer buffer
      (let ((chosen (length (agent-q-review-hunks-chosen)))
            (all (+ (length agent-q-review-hunks-all) (length agent-q-review-hunks-lost))))
        (and (or (< chosen all)
                 (seq-some (lambda (hunk) (or (agent-q-review-hunk-edited hunk)
                                              (agent-q-review-hunk-comment hunk)))
                           agent-q-review-hunks-all))
             (cons chosen all))))))

(defun agent-q-review-hunks-count ()
  "Count the hunks again and show the counts in the header line."
  (let ((added 0) (removed 0) (chosen 0))
    (seq-doseq (hunk agent-q-review-hunks-all)
      (when (agent-q-review-hunk-chosen hunk)
        (setq chosen (1+ chosen)
              added (+ added (agent-q-review-hunk-added hunk))
              removed (+ removed (agent-q-review-hunk-removed hunk)))))
    (setq agent-q-review--hunks-counts (format " %d/%d hunks, +%d -%d  " chosen
                                               (length agent-q-review-hunks-all) added removed))
    (agent-q-review-hunks-watch)
    (funcall agent-q-review--hunks-follow)))

(defun agent-q-review-hunks-watch ()
  "Show the header line, with a warning when the target was changed.
For `post-command-hook', too."
  (unless agent-q-review-hunks-done
    (setq header-line-format
          (list (propertize agent-q-review--hunks-counts 'face 'bold)
                (cond ((agent-q-review-target-changed-p agent-q-review-hunks-edit)
                       (propertize "CHANGED since: g refreshes the review"
                                   'face 'agent-q-failure))
                      ((agent-q-review-target-one agent-q-review-hunks-edit)
                       "C-c C-c do it  C-c C-k reject  c comment  ? menu")
                      ;; A narrow window shows the first ones.
                      (t "C-c C-c apply  C-c C-k reject  SPC toggle  e edit  ? menu"))))
    (force-mode-line-update)))

(defun agent-q-review-hunks-check ()
  "Signal an error unless the review can be decided."
  (unless (and (buffer-live-p agent-q-review-hunks-chat)
               (not agent-q-review-hunks-done)
               (agent-q-call-open-p agent-q-review-hunks-call))
    (user-error "This edit was already decided")))

(defun agent-q-review-hunks-replace (hunk body)
  "Put BODY, which the user wrote, in the place of the lines of HUNK.
Signal an error when it doesn't fit there."
  (pcase-let ((`(,old ,new ,header ,body ,added ,removed)
               (agent-q-core-diff-edit-hunk
                (agent-q-json-encode (agent-q-review--hunks-json hunk)) body))
              (inhibit-read-only t)
              (inhibit-modification-hooks t)
              (overlay (agent-q-review-hunk-overlay hunk)))
    (setf (agent-q-review-hunk-old hunk) old
          (agent-q-review-hunk-new hunk) new
          (agent-q-review-hunk-header hunk) header
          (agent-q-review-hunk-body hunk) body
          (agent-q-review-hunk-added hunk) added
          (agent-q-review-hunk-removed hunk) removed
          (agent-q-review-hunk-edited hunk) t
          (agent-q-review-hunk-chosen hunk) t)
    (save-excursion
      (let ((end (overlay-end overlay)))
        (goto-char (agent-q-review-hunk-start hunk))
        ;; Before the old text goes, so that the next hunk's marker stays.
        (goto-char end)
        (delete-region (agent-q-review-hunk-start hunk) end)
        (let* ((next (and (< (agent-q-review-hunk-number hunk) (length agent-q-review-hunks-all))
                          (aref agent-q-review-hunks-all (agent-q-review-hunk-number hunk))))
               (start (point)))
          (insert header "\n" body)
          (move-overlay overlay start (point))
          (set-marker (agent-q-review-hunk-start hunk) start)
          (when next
            (set-marker (agent-q-review-hunk-start next) (point))
            (move-overlay (agent-q-review-hunk-overlay next) (point)
                          (overlay-end (agent-q-review-hunk-overlay next)))))))
    (set-buffer-modified-p nil)
    (font-lock-flush)
    (agent-q-review-hunks-mark hunk)
    (agent-q-review-hunks-count)))

(defun agent-q-review--hunks-json (hunk)
  "Return HUNK in the form that the core expects."
  (list :old_start (agent-q-review-hunk-old hunk)
        :new_start (agent-q-review-hunk-new hunk)
        :body (agent-q-review-hunk-body hunk)))

(defun agent-q-review-hunks-json (hunks)
  "Return HUNKS, a list, as JSON text."
  (agent-q-json-encode (vconcat (mapcar #'agent-q-review--hunks-json hunks))))

;;;; Editing one hunk of a diff review

;; The lines of one hunk in a buffer of their own.  The core checks that the
;; original's lines are still what the file holds.

(defvar-local agent-q-review--edit-hunk nil "The hunk that is edited here.")
(defvar-local agent-q-review--edit-review nil "The buffer of its review.")
(defvar-local agent-q-review--edit-returns nil
  "Whether carriage returns end the lines of the file; they are not shown here.")

(defvar agent-q-review-edit-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'agent-q-review-edit-finish)
    (define-key map (kbd "C-c C-k") #'agent-q-review-edit-quit)
    map)
  "Keymap of `agent-q-review-edit-mode'.")

(define-derived-mode agent-q-review-edit-mode text-mode "agent-q hunk"
  "Major mode for editing a hunk.
Lines with + are added, lines with - are removed, the others stay.
\\<agent-q-review-edit-mode-map>\\[agent-q-review-edit-finish] puts the hunk
into the review; \\[agent-q-review-edit-quit] leaves it.

\\{agent-q-review-edit-mode-map}"
  (setq-local require-final-newline nil
              indent-tabs-mode t
              bidi-paragraph-direction 'left-to-right
              font-lock-defaults '((("^\\+.*" . 'diff-added) ("^-.*" . 'diff-removed)) t)
              header-line-format
              " C-c C-c puts the hunk into the review, C-c C-k leaves it as it was"))

(defun agent-q-review--edit-with-returns (body)
  "Return BODY, lines of a diff, with a \\r at the end of each."
  (string-replace "\r\n\\ No newline at end of file\r\n"
                  "\n\\ No newline at end of file\n"
                  (string-replace "\n" "\r\n" body)))

(defun agent-q-review-edit-open (hunk)
  "Edit HUNK of the review in the current buffer."
  (let* ((review (current-buffer))
         (body (agent-q-review-hunk-body hunk))
         (plain (string-replace "\r\n" "\n" body))
         (returns (and (not (equal plain body))
                       (equal body (agent-q-review--edit-with-returns plain))))
         (buffer (generate-new-buffer (format "*agent-q hunk %d*"
                                              (agent-q-review-hunk-number hunk)))))
    (with-current-buffer buffer
      (insert (if returns plain body))
      (agent-q-review-edit-mode)
      (setq agent-q-review--edit-hunk hunk
            agent-q-review--edit-review review
            agent-q-review--edit-returns returns)
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer buffer '((display-buffer-same-window)))))

(defun agent-q-review-edit-finish ()
  "Put the hunk as edited here into the review."
  (interactive nil agent-q-review-edit-mode)
  (unless (buffer-live-p agent-q-review--edit-review)
    (user-error "The review of this hunk is over"))
  (let* ((text (buffer-substring-no-properties (point-min) (point-max)))
         (body (if agent-q-review--edit-returns (agent-q-review--edit-with-returns text)
                 text))
         (hunk agent-q-review--edit-hunk))
    (with-current-buffer agent-q-review--edit-review
      (condition-case failure
          (agent-q-review-hunks-replace hunk body)
        ;; Emacs would show it in quotes.
        (agent-q-error (user-error "%s" (cadr failure))))))
  (agent-q-review-edit-quit))

(defun agent-q-review-edit-quit ()
  "Discard the edit and leave the hunk in the review as it was."
  (interactive nil agent-q-review-edit-mode)
  (quit-window t))

;;;; Reviewing an edit again

;; When the target of an edit changes under its review, the hunks are put on
;; the text as it is now; nothing is applied that nobody has seen there.

(defun agent-q-review-refresh ()
  "Review the edit again, on the current text.
Hunks that look as before keep their state, the others are not taken;
those that don't fit any more are left out, and the model is told so."
  (interactive nil agent-q-review-mode)
  (agent-q-review-hunks-check)
  (if (agent-q-review-target-one agent-q-review-hunks-edit)
      (agent-q-review--refresh-whole agent-q-review-hunks-edit)
    (agent-q-review--refresh-hunks)))

(defun agent-q-review--refresh-whole (edit)
  "Show all of the text that EDIT takes away, as it is now."
  (let ((now (agent-q-review-target-rebase edit)))
    (unless (string-empty-p (agent-q-review-target-base edit))
      (setf (agent-q-review-target-base edit) now)
      (agent-q-review-hunks-fill (agent-q-core-diff-hunks now "" 3)))
    (agent-q-review-hunks-watch)))

(defun agent-q-review--refresh-hunks ()
  "Show the hunks that still fit."
  (let* ((edit agent-q-review-hunks-edit)
         (before (append agent-q-review-hunks-all nil))
         (now (agent-q-review-target-rebase edit)))
    (pcase-let ((`(,text . ,outcomes)
                 (agent-q-core-diff-apply-onto now (agent-q-review-hunks-json before))))
      (cl-mapc (lambda (hunk outcome)
                 (when (stringp outcome)
                   (push (format "the hunk %s does not fit: %s"
                                 (agent-q-review-hunk-header hunk) outcome)
                         agent-q-review-hunks-lost)))
               before outcomes)
      (setf (agent-q-review-target-base edit) now
            (agent-q-review-target-proposed edit) text)
      (agent-q-review-hunks-fill (agent-q-core-diff-hunks now text 3))
      (seq-doseq (hunk agent-q-review-hunks-all)
        (agent-q-review--refresh-inherit hunk before))
      (agent-q-review-hunks-count)
      (message "%s" (if agent-q-review-hunks-lost
                        (string-join agent-q-review-hunks-lost "; ")
                      "All hunks still fit")))))

(defun agent-q-review--refresh-inherit (hunk before)
  "Give HUNK the state of the one in the list BEFORE with the same lines."
  (let ((old (seq-find (lambda (it)
                         (equal (agent-q-review-hunk-body it) (agent-q-review-hunk-body hunk)))
                       before)))
    (setf (agent-q-review-hunk-chosen hunk) (and old (agent-q-review-hunk-chosen old))
          (agent-q-review-hunk-decided hunk) (and old (agent-q-review-hunk-decided old))
          (agent-q-review-hunk-edited hunk) (and old (agent-q-review-hunk-edited old))
          (agent-q-review-hunk-comment hunk) (and old (agent-q-review-hunk-comment old)))
    (agent-q-review-hunks-mark hunk)))

;;;; Reviewing edits as diffs

(defvar agent-q-review-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap special-mode-map))
    (define-key map "n" #'agent-q-review-next)
    (define-key map "p" #'agent-q-review-previous)
    (define-key map (kbd "SPC") #'agent-q-review-toggle)
    (define-key map "e" #'agent-q-review-edit-this-hunk)
    (define-key map "c" #'agent-q-review-comment)
    (define-key map "g" #'agent-q-review-refresh)
    (define-key map [mouse-2] #'agent-q-review-toggle-mouse)
    (define-key map "q" #'agent-q-review-quit)
    (define-key map (kbd "C-c C-c") #'agent-q-review-apply)
    (define-key map (kbd "C-c C-k") #'agent-q-review-reject)
    map)
  "Keymap of `agent-q-review-mode'.")

(define-derived-mode agent-q-review-mode diff-mode "agent-q diff"
  "Major mode for reviewing an edit hunk by hunk.
\\<agent-q-review-mode-map>\\[agent-q-review-toggle] takes or leaves the hunk
at point, \\[agent-q-review-edit-this-hunk] edits it,
\\[agent-q-review-comment] tells the model something about it.
\\[agent-q-review-apply] applies what is taken; \\[agent-q-review-reject]
rejects all, and so does killing the buffer.

\\{agent-q-review-mode-map}"
  (setq-local diff-font-lock-syntax nil
              diff-refine nil
              bidi-paragraph-direction 'left-to-right
              ;; Diff mode's own keys for read-only buffers would hide these.
              minor-mode-overriding-map-alist nil
              buffer-read-only t)
  (add-hook 'kill-buffer-hook #'agent-q-review--killed nil t)
  (add-hook 'post-command-hook #'agent-q-review-hunks-watch nil t))

;;;;; Opening

(defvar-local agent-q-review--begun nil
  "When the review took the place of what was shown before it, or nil.")

(defun agent-q-review-reviewed-p (tool preview)
  "Whether a call of TOOL is reviewed as a diff without being asked for one.
PREVIEW is what the core says that it would make of a file, or nil."
  (and preview
       (or agent-q-review-edits (equal tool "propose_file_edit"))
       t))

(defun agent-q-review-drafted (event cancel)
  "Show more of the edit that EVENT is about, which the model is writing.
The current buffer is its chat, whose turn CANCEL ends.  Only edits that are to
be reviewed are shown."
  (when (agent-q-review-reviewed-p (plist-get event :tool) t)
    (agent-q-review-draft-take event #'agent-q-review-display cancel)))

(defun agent-q-review-forget-drafts ()
  "Close the drafts of edits that the model of the current chat left off."
  (agent-q-review-draft-forget #'agent-q-review--leave))

(defun agent-q-review-review (event show)
  "Open the review of the edit that EVENT, an approval request, asks about.
The current buffer is its chat.  SHOW is called with the buffer of the review.
Other edits can be reviewed by a key."
  (let* ((call (gethash (plist-get event :call) agent-q-call-table))
         (preview (agent-q-core-preview (agent-q-call-key call))))
    (setf (agent-q-call-change call) (agent-q-call-change-of preview))
    (when preview
      (agent-q-review-target-watch (nth 1 preview)))
    (cond ((agent-q-review-reviewed-p (agent-q-call-tool call) preview)
           (when (agent-q-review-prepare call preview)
             (funcall show (agent-q-call-review call))
             ;; What is beside it need not be in the request.
             (agent-q-render-update-item call)))
          (preview
           (setf (agent-q-call-review call) 'possible)
           (agent-q-render-update-item call)))))

(defun agent-q-review-review-again (call)
  "Show the present edit of CALL of the current chat.
A review that is open keeps what was chosen there."
  (setf (agent-q-call-change call)
        (agent-q-call-change-of (agent-q-core-preview (agent-q-call-key call))))
  (when (buffer-live-p (agent-q-call-review call))
    (with-current-buffer (agent-q-call-review call)
      (agent-q-review-refresh))))

(defun agent-q-review-prepare (call &optional preview)
  "Make the buffer in which CALL of the current chat is reviewed; return it.
PREVIEW is what the core says that it would make of a file.  Return nil
when there is nothing to review."
  (when-let* ((preview (or preview (agent-q-core-preview (agent-q-call-key call))))
              (arguments (agent-q-json-parse (agent-q-call-arguments call)))
              (edit (agent-q-review-target-planned preview arguments)))
    (setf (agent-q-call-review call) (agent-q-review--open call (current-buffer) edit))
    (agent-q-render-update-item call)
    (agent-q-call-review call)))

(defun agent-q-review--open (call chat edit)
  "Return a buffer in which EDIT, which CALL of CHAT would do, is reviewed.
It is the one in which the edit was shown while the model wrote it, if any."
  (let* ((draft (agent-q-review-draft-adopt
                 (agent-q-call-tool call)
                 (gethash "path" (agent-q-review-target-arguments edit))))
         (buffer (or draft (agent-q-review-draft-make-buffer (agent-q-review-target-path edit)))))
    (with-current-buffer buffer
      (agent-q-review-mode)
      (setq default-directory (buffer-local-value 'default-directory chat)
            agent-q-review-hunks-call call
            agent-q-review-hunks-chat chat
            agent-q-review-hunks-edit edit)
      (agent-q-review-hunks-fill (agent-q-core-diff-hunks (agent-q-review-target-base edit)
                                                          (agent-q-review-target-proposed edit) 3))
      (when draft
        (setq agent-q-review--begun (float-time))
        (dolist (window (get-buffer-window-list buffer nil t))
          (set-window-point window (point)))))
    buffer))

(defun agent-q-review-display (buffer)
  "Show BUFFER in a window of the selected frame, without selecting it.
Return the window, or nil when that frame has none that can show it."
  (let* ((pop-up-frames nil)
         (window (display-buffer buffer '((display-buffer-reuse-window
                                           display-buffer-pop-up-window
                                           agent-q-review--use-window
                                           display-buffer-no-window)
                                          (allow-no-window . t)
                                          (reusable-frames . nil)
                                          (inhibit-switch-frame . t)))))
    ;; Emacs forgets that it made a window once another page was shown there and left.
    (when (and window (eq 'window (car (window-parameter window 'quit-restore))))
      (set-window-parameter window 'agent-q-diff-made-for buffer))
    window))

(defun agent-q-review--use-window (buffer alist)
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

;;;;; Moving and choosing

(defun agent-q-review--index ()
  "Return the place of the hunk at point in the vector; -1 before the first."
  (let ((low 0) (high (length agent-q-review-hunks-all)))
    ;; The first hunk that starts after point.
    (while (< low high)
      (let ((middle (/ (+ low high) 2)))
        (if (<= (agent-q-review-hunk-start (aref agent-q-review-hunks-all middle)) (point))
            (setq low (1+ middle))
          (setq high middle))))
    (1- low)))

(defun agent-q-review--hunk ()
  "Return the hunk at point."
  (let ((index (agent-q-review--index)))
    (if (< index 0)
        (user-error "No hunk at point")
      (aref agent-q-review-hunks-all index))))

(defun agent-q-review--goto (index)
  "Go to the hunk at INDEX."
  (unless (< -1 index (length agent-q-review-hunks-all))
    (user-error "No more hunks"))
  (let ((hunk (aref agent-q-review-hunks-all index)))
    (goto-char (agent-q-review-hunk-start hunk))
    ;; What a key is about to decide has to be on the screen.
    (when (and (eq (window-buffer) (current-buffer))
               (not (pos-visible-in-window-p
                     (1- (overlay-end (agent-q-review-hunk-overlay hunk))))))
      (recenter 1))))

(defun agent-q-review-next ()
  "Go to the next hunk."
  (interactive nil agent-q-review-mode)
  (agent-q-review--goto (1+ (agent-q-review--index))))

(defun agent-q-review-previous ()
  "Go to the start of this hunk, or to the one before."
  (interactive nil agent-q-review-mode)
  (let ((index (agent-q-review--index)))
    (agent-q-review--goto
     (if (and (>= index 0)
              (> (point) (agent-q-review-hunk-start (aref agent-q-review-hunks-all index))))
         index
       (1- index)))))

(defun agent-q-review--check-divisible ()
  "Signal an error if the edit can only be taken as a whole."
  (when (agent-q-review-target-one agent-q-review-hunks-edit)
    (user-error "This edit can only be applied or rejected as a whole")))

(defun agent-q-review-toggle ()
  "Take the hunk at point, or leave it if it was taken; go to the next one."
  (interactive nil agent-q-review-mode)
  (agent-q-review--check-divisible)
  (agent-q-events-garbage-put-off)
  (let ((hunk (agent-q-review--hunk)))
    (agent-q-review--choose hunk (not (agent-q-review-hunk-chosen hunk)))
    (when (< (agent-q-review-hunk-number hunk) (length agent-q-review-hunks-all))
      (agent-q-review--goto (agent-q-review-hunk-number hunk)))))

(defun agent-q-review--choose (hunk chosen)
  "Take HUNK if CHOSEN is non-nil, else leave it."
  (setf (agent-q-review-hunk-chosen hunk) chosen)
  (agent-q-review-hunks-mark hunk)
  (agent-q-review-hunks-count))

(defun agent-q-review-decide-hunk (hunk chosen)
  "Take HUNK if CHOSEN is non-nil, else leave it.
Once all are decided on, apply what is taken."
  (agent-q-review--check-now)
  (setf (agent-q-review-hunk-decided hunk) t)
  (agent-q-review--choose hunk chosen)
  (when (seq-every-p #'agent-q-review-hunk-decided agent-q-review-hunks-all)
    (agent-q-review-apply)))

(defun agent-q-review-take-rest ()
  "Take the hunks that are not decided on, and apply what is taken."
  (agent-q-review--check-now)
  (seq-doseq (hunk agent-q-review-hunks-all)
    (unless (agent-q-review-hunk-decided hunk)
      (setf (agent-q-review-hunk-chosen hunk) t)))
  (agent-q-review-apply))

(defun agent-q-review-toggle-mouse (event)
  "Take or leave the hunk that EVENT clicked on."
  (interactive "e" agent-q-review-mode)
  (mouse-set-point event)
  (agent-q-review-toggle))

(defun agent-q-review-comment (comment)
  "Add COMMENT on the hunk at point, for the model to read with the decision."
  (interactive
   (list (read-string "Comment for the model: "
                      (agent-q-review-hunk-comment (agent-q-review--hunk))))
   agent-q-review-mode)
  (let ((hunk (agent-q-review--hunk)))
    (setf (agent-q-review-hunk-comment hunk)
          (and (not (string-blank-p comment)) (agent-q-text-clean comment)))
    (agent-q-review-hunks-mark hunk)
    (funcall agent-q-review--hunks-follow)))

(defun agent-q-review-edit-this-hunk ()
  "Edit the hunk at point."
  (interactive nil agent-q-review-mode)
  (agent-q-review--check-divisible)
  (agent-q-review-edit-open (agent-q-review--hunk)))

;;;;; Answering

(defun agent-q-review--note (whole)
  "Return what the model is told about the review.
WHOLE is said of an edit that can only be taken as a whole."
  (string-join
   (cons (if (agent-q-review-target-one agent-q-review-hunks-edit)
             whole
           (format "applied %d of %d hunks" (length (agent-q-review-hunks-chosen))
                   (+ (length agent-q-review-hunks-all) (length agent-q-review-hunks-lost))))
         (append (delq nil (mapcar #'agent-q-review--note-on
                                   (append agent-q-review-hunks-all nil)))
                 (reverse agent-q-review-hunks-lost)))
   "; "))

(defun agent-q-review--note-on (hunk)
  "Return a note about HUNK, or nil."
  (let ((comment (agent-q-review-hunk-comment hunk))
        (what (cond ((not (agent-q-review-hunk-chosen hunk)) "rejected")
                    ((agent-q-review-hunk-edited hunk) "edited by the user"))))
    (when (or what comment)
      (format "hunk %d (%s) %s%s" (agent-q-review-hunk-number hunk)
              (agent-q-review-hunk-header hunk)
              (or what "applied")
              (if comment (concat ": " comment) "")))))

(defun agent-q-review--check-now ()
  "Signal an error unless what is shown can be decided as it is now."
  (agent-q-review-hunks-check)
  ;; The key was meant for what was shown before.
  (when (and agent-q-review--begun
             (< (- (float-time) agent-q-review--begun) agent-q-approval-gate-pause))
    (user-error "The edit was completed just now: look at it, then press the key again"))
  (when (agent-q-review-target-changed-p agent-q-review-hunks-edit)
    (agent-q-review-refresh)
    (user-error "The file has changed; review the hunks as they fit now")))

(defun agent-q-review-apply ()
  "Apply the hunks that are taken, and tell the model about the rest."
  (interactive nil agent-q-review-mode)
  (agent-q-review--check-now)
  (cond ((agent-q-review-target-one agent-q-review-hunks-edit)
         (agent-q-review--decide "modified" (agent-q-review--arguments) "approved"))
        ;; A new file that holds nothing has no hunks.
        ((not (or (agent-q-review-hunks-chosen) (seq-empty-p agent-q-review-hunks-all)))
         (agent-q-review-reject))
        (t
         (let ((chosen (length (agent-q-review-hunks-chosen)))
               (all (length agent-q-review-hunks-all)))
           (agent-q-review--decide "modified" (agent-q-review--arguments)
                                   (if (= chosen all) "approved"
                                     (format "approved, %d of %d hunks" chosen all)))))))

(defun agent-q-review--arguments ()
  "Return the arguments of the call with the chosen hunks, as JSON text."
  (let* ((edit agent-q-review-hunks-edit)
         (arguments (copy-hash-table (agent-q-review-target-arguments edit)))
         (base (agent-q-review-target-base edit))
         (text (agent-q-core-diff-apply base (agent-q-review-hunks-json
                                              (agent-q-review-hunks-chosen)))))
    (unless (agent-q-review-target-one edit)
      (puthash "reviewed" (list :original base :modified text) arguments))
    ;; The core tells the model, where the tool itself does not take it.
    (puthash "review" (agent-q-review--note "done as a whole") arguments)
    (agent-q-json-encode arguments)))

(defun agent-q-review-reject ()
  "Reject the whole edit; the comments go to the model."
  (interactive nil agent-q-review-mode)
  (agent-q-review-hunks-check)
  (seq-doseq (hunk agent-q-review-hunks-all)
    (setf (agent-q-review-hunk-chosen hunk) nil))
  (agent-q-review--decide "denied" (concat "the edit was reviewed and rejected; "
                                           (agent-q-review--note "nothing was done"))
                          "rejected"))

(defun agent-q-review--decide (decision payload label)
  "Decide on the call by DECISION and PAYLOAD, shown as LABEL, and go away."
  (let ((buffer (current-buffer))
        (call agent-q-review-hunks-call))
    (with-current-buffer agent-q-review-hunks-chat
      (agent-q-approval-gate-decide call decision payload label))
    (agent-q-review--leave buffer)))

(defun agent-q-review-quit ()
  "Go back to the chat, with the edit in its request as it was left here."
  (interactive nil agent-q-review-mode)
  (let ((chat agent-q-review-hunks-chat)
        (call agent-q-review-hunks-call))
    (quit-window)
    (when (and (buffer-live-p chat) (agent-q-call-open-p call))
      (with-current-buffer chat
        (agent-q-approval-gate-redraw call)))))

(defun agent-q-review--leave (buffer)
  "Kill BUFFER, whose review is over, and its windows if they were made for it."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-review-hunks-done t))
    (agent-q-review-hide buffer)
    (kill-buffer buffer)))

(defun agent-q-review-hide (buffer)
  "Leave the windows that show the review BUFFER, or delete those made for it."
  (dolist (window (get-buffer-window-list buffer nil t))
    (if (and (eq buffer (window-parameter window 'agent-q-diff-made-for))
             (eq t (window-deletable-p window)))
        (delete-window window)
      (quit-restore-window window 'bury))))

(defun agent-q-review--killed ()
  "Reject the edit whose review is killed."
  (unless agent-q-review-hunks-done
    (setq agent-q-review-hunks-done t)
    (let ((call agent-q-review-hunks-call))
      (when (and (buffer-live-p agent-q-review-hunks-chat) (agent-q-call-open-p call))
        (with-current-buffer agent-q-review-hunks-chat
          (agent-q-approval-gate-decide
           call "denied" "the user closed the review of the edit without applying it"
           "rejected"))))))

(defun agent-q-review--settled (call)
  "Close the review of CALL, which was decided or is over."
  (let ((buffer (agent-q-call-review call)))
    (setf (agent-q-call-review call) nil)
    (when (bufferp buffer)
      (agent-q-review--leave buffer))))

(add-hook 'agent-q-call-settled-functions #'agent-q-review--settled)

(provide 'agent-q-review)
;;; agent-q-review.el ends here
