;;; agent-q-review-draft.el --- An edit while the model writes it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An edit that is going to be reviewed is shown from its first lines on, as a diff of
;; what the model has written of it so far.  When it is complete, its review takes the
;; buffer over.  Until then nothing was checked: a file is looked at only if a buffer
;; visits it, and what is shown is the user's alone.

;;; Code:

(require 'agent-q-definitions)
(require 'agent-q-events)
(require 'agent-q-text)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-review-draft (:constructor agent-q-review-draft--make) (:copier nil))
  "A call that the model is writing.
NUMBER is the core's, TOOL its tool.  TEXTS are its arguments, the latest
first: lists of name and pieces, the latest first.  BUFFER shows it, or is
nil.  PLACE is (BEFORE OLD AFTER), the texts of the file around and in what
it replaces, once that is known; without such a place it is t."
  number tool texts buffer place)

(defvar-local agent-q-review-draft--all nil "The calls of this chat that are being written.")

(defvar-local agent-q-review-draft--timer nil "The timer that will show them, or nil.")

(defvar-local agent-q-review-draft--pause 0.1
  "Seconds between two times that they are shown, for as much work as there is.")

(defvar-local agent-q-review-draft--chat nil "The chat of what is shown here.")

(defvar-local agent-q-review-draft--cancel nil
  "Function that ends the running turn of this chat.")

(defvar-local agent-q-review-draft--counts "" "How many lines there are by now, as text.")

(defconst agent-q-review-draft--new-text
  '(("edit_definition" . "new_source") ("edit_file" . "new_str")
    ("insert_definition" . "source") ("insert_at_line" . "content")
    ("write_file" . "content") ("create_file" . "content")
    ("propose_file_edit" . "modified"))
  "The tools that change a file, with the argument that has the new text.")

(defconst agent-q-review-draft--most 200000
  "No text of more characters is shown while it is written.")

;;;; The buffer

(defvar agent-q-review-draft-mode-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map (make-composed-keymap special-mode-map))
    (define-key map (kbd "C-c C-c") #'agent-q-review-draft-apply)
    (define-key map (kbd "C-c C-k") #'agent-q-review-draft-cancel)
    map)
  "Keymap of `agent-q-review-draft-mode'.")

(define-derived-mode agent-q-review-draft-mode diff-mode "agent-q draft"
  "Major mode for watching an edit while the model writes it.
When it is complete, its review begins here.
\\<agent-q-review-draft-mode-map>\\[agent-q-review-draft-cancel] ends the turn.

\\{agent-q-review-draft-mode-map}"
  (setq-local diff-font-lock-syntax nil
              diff-refine nil
              bidi-paragraph-direction 'left-to-right
              minor-mode-overriding-map-alist nil
              buffer-read-only t
              header-line-format
              '(:eval (concat " Being written: " agent-q-review-draft--counts
                              "  C-c C-k cancels the turn"))))

(defun agent-q-review-draft-apply ()
  "Say that there is nothing to apply yet."
  (interactive nil agent-q-review-draft-mode)
  (user-error "The model is still writing this edit; it can be applied when it is complete"))

(defun agent-q-review-draft-cancel ()
  "End the turn in which this edit is being written."
  (interactive nil agent-q-review-draft-mode)
  (unless (buffer-live-p agent-q-review-draft--chat)
    (user-error "The chat of this edit is closed"))
  (with-current-buffer agent-q-review-draft--chat
    (funcall agent-q-review-draft--cancel)))

;;;; What has come

(defun agent-q-review-draft-take (event display cancel)
  "Take in EVENT: more of a call that this chat's model is writing.
It is shown soon, by DISPLAY, a function of a new buffer; CANCEL is a function
that ends the turn."
  (setq agent-q-review-draft--cancel cancel)
  (when (assoc (plist-get event :tool) agent-q-review-draft--new-text)
    (let ((draft (agent-q-review-draft--get event))
          (name (plist-get event :parameter)))
      (unless (equal name (caar (agent-q-review-draft-texts draft)))
        (push (list name) (agent-q-review-draft-texts draft)))
      (push (plist-get event :text) (cdar (agent-q-review-draft-texts draft))))
    (unless agent-q-review-draft--timer
      (setq agent-q-review-draft--timer
            (run-at-time agent-q-review-draft--pause nil #'agent-q-review-draft--show-all
                         (current-buffer) display)))))

(defun agent-q-review-draft--get (event)
  "Return the draft that EVENT is about, new if it is the first."
  (let ((number (plist-get event :number)))
    (or (seq-find (lambda (draft) (eql number (agent-q-review-draft-number draft)))
                  agent-q-review-draft--all)
        (let ((draft (agent-q-review-draft--make :number number :tool (plist-get event :tool))))
          (push draft agent-q-review-draft--all)
          draft))))

(defun agent-q-review-draft--text (draft name)
  "Return what has come of the argument NAME of DRAFT, or nil."
  (when-let ((pieces (cdr (assoc name (agent-q-review-draft-texts draft)))))
    (apply #'concat (reverse pieces))))

(defun agent-q-review-draft--whole (draft name)
  "Return the argument NAME of DRAFT if it is complete, else nil."
  (unless (equal name (caar (agent-q-review-draft-texts draft)))
    (agent-q-review-draft--text draft name)))

(defun agent-q-review-draft--new (draft)
  "Return what has come of the new text of DRAFT, or nil."
  (agent-q-review-draft--text
   draft (cdr (assoc (agent-q-review-draft-tool draft) agent-q-review-draft--new-text))))

;;;; Where it belongs

(defun agent-q-review-draft--source (path)
  "Return the buffer that visits PATH, which a model wrote, or nil.
No file is looked at, and no connection opened."
  (let* ((file-name-handler-alist nil)
         (file (expand-file-name path)))
    (seq-find (lambda (buffer)
                (with-current-buffer buffer
                  (and buffer-file-name
                       (or (equal file (expand-file-name buffer-file-name))
                           (equal file buffer-file-truename)))))
              (buffer-list))))

(defun agent-q-review-draft--live (path)
  "Return the text of the buffer that visits PATH, or nil if there is none."
  (let ((buffer (agent-q-review-draft--source path)))
    (when (and buffer (<= (buffer-size buffer) agent-q-review-draft--most))
      (with-current-buffer buffer
        (save-restriction
          (widen)
          (buffer-substring-no-properties (point-min) (point-max)))))))

(defun agent-q-review-draft--once (text old)
  "Return start and end of OLD in TEXT if it is there exactly once, else nil."
  (when-let ((start (and (not (string-empty-p old)) (string-search old text))))
    (unless (string-search old text (1+ start))
      (list start (+ start (length old))))))

(defun agent-q-review-draft--range (draft text path)
  "Return start and end of the text in TEXT that DRAFT is about, or nil.
PATH is the file that TEXT is of."
  (let ((whole (lambda (name) (agent-q-review-draft--whole draft name))))
    (pcase (agent-q-review-draft-tool draft)
      ((or "write_file" "create_file") (list 0 (length text)))
      ("edit_definition"
       (when-let ((name (funcall whole "name"))
                  (range (ignore-errors (agent-q-definitions-find text name path))))
         (if-let ((old (funcall whole "old_text")))
             (mapcar (lambda (place) (+ place (car range)))
                     (agent-q-review-draft--once (apply #'substring text range) old))
           range)))
      ("edit_file"
       (when-let ((old (funcall whole "old_str")))
         (agent-q-review-draft--once text old)))
      ("propose_file_edit"
       (when-let ((old (funcall whole "original")))
         (agent-q-review-draft--once text old))))))

(defun agent-q-review-draft--find-place (draft path)
  "Return the place of DRAFT in the file PATH, as far as that is known."
  (or (agent-q-review-draft-place draft)
      (setf (agent-q-review-draft-place draft)
            (let ((text (agent-q-review-draft--live path)))
              (pcase (if text (agent-q-review-draft--range draft text path) t)
                (`(,start ,end)
                 (list (substring text 0 start) (substring text start end)
                       (substring text end)))
                (place place))))))

(defun agent-q-review-draft--hunks (draft path new)
  "Return the hunks of DRAFT, which puts NEW into PATH, as far as it has come."
  (pcase (agent-q-review-draft--find-place draft path)
    (`(,before ,old ,after)
     (agent-q-core-diff-hunks (concat before old after)
                              (concat before (agent-q-core-diff-half-rewritten old new) after)
                              3))
    (_ (agent-q-core-diff-hunks "" (agent-q-core-diff-half-rewritten "" new) 3))))

;;;; Showing it

(defun agent-q-review-draft--show-all (chat display)
  "Show what is being written in CHAT; new buffers by DISPLAY."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (setq agent-q-review-draft--timer nil)
      (let ((start (float-time)))
        (dolist (draft agent-q-review-draft--all)
          (agent-q-review-draft--show draft display))
        ;; Drawing must not take Emacs for itself, however much there is.
        (setq agent-q-review-draft--pause (max 0.1 (* 10 (- (float-time) start))))))))

(defun agent-q-review-draft--show (draft display)
  "Show DRAFT of the current chat; a new buffer by DISPLAY."
  (let ((path (agent-q-review-draft--whole draft "path"))
        (new (agent-q-review-draft--new draft))
        (buffer (agent-q-review-draft-buffer draft)))
    (when (and path new
               (<= (length new) agent-q-review-draft--most)
               (or (null buffer) (buffer-live-p buffer)))
      (let ((hunks (agent-q-review-draft--hunks draft path new)))
        (cond (buffer (agent-q-review-draft--fill buffer path hunks))
              (hunks
               (setq buffer (agent-q-review-draft--open path))
               (setf (agent-q-review-draft-buffer draft) buffer)
               (agent-q-review-draft--fill buffer path hunks)
               (when (and (get-buffer-window (current-buffer))
                          (not (agent-q-review-draft--in-sight-p path)))
                 (funcall display buffer))))))))

(defun agent-q-review-draft--in-sight-p (path)
  "Whether PATH is in a window, where the edit is going to be shown in place."
  (let ((source (agent-q-review-draft--source path)))
    (and source (get-buffer-window source) t)))

(defun agent-q-review-draft-make-buffer (path)
  "Return a new buffer in which an edit of PATH is to be shown."
  (generate-new-buffer (format "*agent-q diff: %s*" (agent-q-text-clean path))))

(defun agent-q-review-draft--open (path)
  "Return a buffer for an edit of PATH by the model of the current chat."
  (let ((chat (current-buffer))
        (directory default-directory)
        (buffer (agent-q-review-draft-make-buffer path)))
    (with-current-buffer buffer
      (agent-q-review-draft-mode)
      (setq default-directory directory
            agent-q-review-draft--chat chat))
    buffer))

(defun agent-q-review-draft--fill (buffer path hunks)
  "Show HUNKS, of an edit of PATH, in BUFFER, down to the latest one."
  (with-current-buffer buffer
    (let ((inhibit-read-only t)
          (added 0) (removed 0)
          (line (line-number-at-pos)))
      (erase-buffer)
      (insert "--- " (agent-q-text-visible-line path) "\n+++ " (agent-q-text-visible-line path) "\n")
      (pcase-dolist (`(,_old ,_new ,header ,body ,more ,less) hunks)
        (insert header "\n" body)
        (cl-incf added more)
        (cl-incf removed less))
      (set-buffer-modified-p nil)
      (setq agent-q-review-draft--counts (format "+%d -%d" added removed))
      (let ((end (agent-q-review-draft--latest)))
        (dolist (window (get-buffer-window-list buffer nil t))
          (unless (eq window (selected-window))
            (set-window-point window end))))
      ;; Whoever is in there reads.
      (goto-char (point-min))
      (forward-line (1- line)))
    (force-mode-line-update)))

(defun agent-q-review-draft--latest ()
  "Return where the last new line of the current buffer is."
  (save-excursion
    (goto-char (point-max))
    (if (re-search-backward "^[-+]" nil t) (point) (point-min))))

;;;; Its end

(defun agent-q-review-draft-adopt (tool path)
  "Return the buffer of the draft of a call of TOOL on PATH, or nil.
It is the caller's from now on."
  (when-let ((draft (seq-find (lambda (draft)
                                (and (equal tool (agent-q-review-draft-tool draft))
                                     (equal path (agent-q-review-draft--text draft "path"))))
                              (reverse agent-q-review-draft--all))))
    (setq agent-q-review-draft--all (delq draft agent-q-review-draft--all))
    (and (buffer-live-p (agent-q-review-draft-buffer draft))
         (agent-q-review-draft-buffer draft))))

(defun agent-q-review-draft-stop ()
  "Show no more of what this chat's model was writing, as it is complete."
  (when agent-q-review-draft--timer
    (cancel-timer agent-q-review-draft--timer)
    (setq agent-q-review-draft--timer nil)))

(defun agent-q-review-draft-forget (leave)
  "Forget what this chat's model was writing.
LEAVE is called with each buffer that still shows some of it, to close it."
  (agent-q-review-draft-stop)
  (let ((drafts agent-q-review-draft--all))
    (setq agent-q-review-draft--all nil)
    (dolist (draft drafts)
      (when (buffer-live-p (agent-q-review-draft-buffer draft))
        (funcall leave (agent-q-review-draft-buffer draft))))))

(provide 'agent-q-review-draft)
;;; agent-q-review-draft.el ends here
