;;; agent-q-render.el --- The read-only log of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Puts text and foldable items into the log above the prompt.  Works with
;; markers only, so that its cost does not depend on the size of the buffer,
;; and leaves point, windows, undo and the user's text as they are.

;;; Code:

(require 'agent-q-live)
(require 'agent-q-markdown)
(require 'agent-q-render-body)
(require 'agent-q-text)
(require 'cl-lib)
(require 'subr-x)

;;;; Faces

(defgroup agent-q-faces nil
  "Faces of agent-q."
  :group 'agent-q
  :group 'faces)

(defface agent-q-user '((t :inherit font-lock-keyword-face))
  "Your messages in a chat.")

(defface agent-q-turn
  '((((min-colors 256) (background light)) :inherit nil :background "gray90" :extend t)
    (((min-colors 256) (background dark)) :inherit nil :background "gray20" :extend t)
    (t :inherit nil :extend t))
  "The band on which your messages stand in a chat, where a turn begins.")

(defface agent-q-prompt '((t :inherit minibuffer-prompt))
  "The prompt of a chat.")

(defface agent-q-tool '((t :inherit font-lock-function-name-face))
  "The names of tools.")

(defface agent-q-dim '((t :inherit shadow))
  "Less important text: durations, arguments, reasoning.")

(defface agent-q-success '((t :inherit success))
  "Calls that succeeded.")

(defface agent-q-failure '((t :inherit error))
  "Calls and turns that failed.")

(defface agent-q-attention '((t :inherit warning :weight bold))
  "Requests that wait for your answer.")

;;;; State

(defvar-local agent-q-render-end nil
  "Marker at the end of the log, where the prompt begins.")

(defvar-local agent-q-render--open nil
  "What the log ends with and may still grow: nil, `text' or a reasoning item.")

(defvar-local agent-q-render--markdown nil
  "The open text, as `agent-q-markdown-begin' returns it.")

(defvar-local agent-q-render--plain nil
  "Non-nil when this terminal can't show the usual signs.")

(defvar-local agent-q-render--answer nil
  "The start and the end of the last text of the model, markers.")

(defvar-local agent-q-render--questions nil
  "The buttons that fit only until a question is settled, (QUESTION START END).")

(defvar-local agent-q-render-message nil
  "The user's latest message in the log.")

(defconst agent-q-render-line-limit 4000
  "Longer lines of the log are broken for display.
Redisplay takes time in proportion to the length of a line.")

(defun agent-q-render-sign (name)
  "Return the sign called NAME as this terminal can show it."
  (let ((signs (alist-get name '((folded "▸" . "+") (unfolded "▾" . "-")
                                 (done "✓" . "ok") (failed "✗" . "failed:")
                                 (up "↑" . "in ") (down "↓" . "out ")
                                 (dot "·" . "|") (ellipsis "…" . "...")))))
    (if agent-q-render--plain (cdr signs) (car signs))))

(defun agent-q-render-setup ()
  "Make the empty current buffer ready for a log."
  (setq agent-q-render--plain (not (and (char-displayable-p ?▸)
                                        (char-displayable-p ?✓)))
        agent-q-render-end (copy-marker (point-min))
        agent-q-render--open nil
        ;; No line is long, and a cache of line ends takes nearly as much memory as the text.
        cache-long-scans nil)
  (agent-q-markdown-setup))

;;;; Changing the log

(defconst agent-q-render--properties '(read-only t)
  "Text properties of all text in the log.
Properties with list values would keep streamed pieces from becoming one
stretch of text.")

(defmacro agent-q-render--with-log (&rest body)
  "Run BODY to change the log without a trace in what belongs to the user.
Point, the mark, the modified flag and the undo list stay meaningful."
  (declare (indent 0) (debug t))
  (let ((before (make-symbol "before")))
    `(let ((,before (marker-position agent-q-render-end))
           (deactivate-mark nil))
       (unwind-protect
           (save-excursion
             (save-restriction
               (widen)
               (with-silent-modifications ,@body)))
         (agent-q-render--shift-undo
          (- (marker-position agent-q-render-end) ,before))))))

(defun agent-q-render--shift-undo (delta)
  "Move the positions in the undo list by DELTA.
What can be undone is all below the log; the log grew by DELTA.  The list is
changed in place since a running sequence of undo commands shares it."
  (unless (or (zerop delta) (not (consp buffer-undo-list)))
    (let ((cell buffer-undo-list))
      (while (consp cell)
        (if (integerp (car cell))
            (setcar cell (+ (car cell) delta))
          (agent-q-render--shift-undo-entry (car cell) delta))
        (setq cell (cdr cell))))))

(defun agent-q-render--shift-undo-entry (entry delta)
  "Move the positions in the undo ENTRY by DELTA."
  (pcase entry
    (`(,(pred integerp) . ,(pred integerp))
     (setcar entry (+ (car entry) delta))
     (setcdr entry (+ (cdr entry) delta)))
    (`(,(pred stringp) . ,(and (pred integerp) position))
     (setcdr entry (if (< position 0) (- position delta) (+ position delta))))
    (`(nil ,_ ,_ . ,(and `(,beg . ,end) range))
     (setcar range (+ beg delta))
     (setcdr range (+ end delta)))
    (`(apply ,(pred integerp) . ,(and `(,beg ,end . ,_) range))
     (setcar range (+ beg delta))
     (setcar (cdr range) (+ end delta)))))

(defun agent-q-render--propertize (text &rest properties)
  "Return TEXT with PROPERTIES and those of the log."
  (let ((text (copy-sequence text)))
    (add-text-properties 0 (length text)
                         (append properties agent-q-render--properties) text)
    text))

(defun agent-q-render--append (text &rest properties)
  "Insert TEXT with PROPERTIES at the end of the log.
Use inside `agent-q-render--with-log'."
  (goto-char agent-q-render-end)
  (insert (apply #'agent-q-render--propertize text properties))
  (set-marker agent-q-render-end (point))
  (agent-q-render--guard-beginning))

(defun agent-q-render--guard-beginning ()
  "See that nothing can be typed before the first character of the log."
  (when (and (> agent-q-render-end (point-min))
             (null (get-text-property (point-min) 'front-sticky)))
    (put-text-property (point-min) (1+ (point-min)) 'front-sticky '(read-only))))

(defun agent-q-render--line-start-p ()
  "Whether the log ends with a finished line or is empty."
  (memq (char-before agent-q-render-end) '(?\n nil)))

(defun agent-q-render--close ()
  "Finish what is open at the end of the log, so that something new can follow.
Use inside `agent-q-render--with-log'."
  (when (eq agent-q-render--open 'text)
    (setq agent-q-render--open nil
          agent-q-render--answer
          (cons (copy-marker (agent-q-markdown-start agent-q-render--markdown))
                (copy-marker agent-q-render-end)))
    (agent-q-markdown-end agent-q-render--markdown agent-q-render-end))
  (when (agent-q-render-reasoning-p agent-q-render--open)
    (agent-q-render--thought agent-q-render--open))
  (unless (agent-q-render--line-start-p)
    ;; The last line of a fence, which has no end and may be hidden, takes none.
    (if (agent-q-markdown-fence-end-p (1- agent-q-render-end))
        (agent-q-render--append "\n" 'invisible 'agent-q-markup)
      (agent-q-render--append "\n")))
  (setq agent-q-render--open nil))

(defun agent-q-render--blank-line ()
  "Have the log end with an empty line, unless it is empty.
Use inside `agent-q-render--with-log'."
  (agent-q-render--close)
  (let ((end (marker-position agent-q-render-end)))
    (unless (or (= end (point-min))
                (and (> (1- end) (point-min))
                     (eq (char-before (1- end)) ?\n)))
      (agent-q-render--append "\n"))))

;;;; Text

(defun agent-q-render-text (text)
  "Add TEXT to the answer that is being written."
  (setq text (agent-q-text-visible-prose text))
  (unless (string-empty-p text)
    (agent-q-render--with-log
      (unless (eq agent-q-render--open 'text)
        (agent-q-render--blank-line)
        (setq agent-q-render--open 'text
              agent-q-render--markdown
              (agent-q-markdown-begin agent-q-render-end agent-q-render-line-limit)))
      (goto-char agent-q-render-end)
      (agent-q-markdown-grow agent-q-render--markdown text)
      (set-marker agent-q-render-end (point))
      (agent-q-render--guard-beginning))))

(defun agent-q-render-copy (beg end &optional delete)
  "Return the text from BEG to END as it was received, without properties.
Items that are hidden are left out.
With DELETE, delete it.  For `filter-buffer-substring-function'."
  (let ((from (min beg end)) (to (max beg end)) (parts nil))
    (while (< from to)
      (let ((hidden (text-property-any from to 'invisible t)))
        (push (agent-q-markdown-written from (or hidden to)) parts)
        (setq from (if hidden (next-single-property-change hidden 'invisible nil to) to))))
    (when delete
      (delete-region beg end))
    (apply #'concat (nreverse parts))))

(defun agent-q-render-last-answer (&optional regexp)
  "Return the last text of the model as it was received, or nil.
With REGEXP, return nil, too, if the text doesn't match it: copying takes long."
  (pcase (if (eq agent-q-render--open 'text)
             (cons (agent-q-markdown-start agent-q-render--markdown) agent-q-render-end)
           agent-q-render--answer)
    ((and `(,start . ,end)
          (guard (or (null regexp)
                     (save-excursion
                       (save-restriction
                         (widen)
                         (goto-char start)
                         (re-search-forward regexp end t))))))
     (agent-q-render-copy start end))))

(defun agent-q-render-user (text &optional turn)
  "Add the user's message TEXT, which opens TURN, a number, to the log."
  (setq agent-q-render-message text)
  (agent-q-render--with-log
    (agent-q-render--blank-line)
    (agent-q-render--append "> " 'face '(agent-q-prompt agent-q-turn) 'agent-q-turn (or turn t))
    (let ((lines (split-string text "\n"))
          (face '(agent-q-user agent-q-turn))
          (indent (propertize "  " 'face 'agent-q-turn)))
      (agent-q-render--append (concat (car lines) "\n") 'face face 'wrap-prefix indent)
      (when (cdr lines)
        (agent-q-render--append (concat (string-join (cdr lines) "\n") "\n")
                                'face face 'line-prefix indent 'wrap-prefix indent)))
    (agent-q-render--append "\n")))

(defun agent-q-render--apart-p ()
  "Whether a line from agent-q stands apart from the end of the log.
That is a text of the model, or an item that says so."
  (or (eq agent-q-render--open 'text)
      (and agent-q-render--answer
           (>= (1+ (cdr agent-q-render--answer)) agent-q-render-end))
      (let ((item (and (< (1+ (point-min)) agent-q-render-end)
                       (agent-q-render-item-at (- agent-q-render-end 2)))))
        (and item (agent-q-render-item-apart item)))))

(defun agent-q-render-notice (text &optional face)
  "Add TEXT as a line from agent-q itself, shown in FACE."
  (agent-q-render--with-log
    (if (agent-q-render--apart-p)
        (agent-q-render--blank-line)
      (agent-q-render--close))
    (agent-q-render--append (concat (agent-q-text-visible-prose text) "\n")
                            'face (or face 'agent-q-dim))))

(defun agent-q-render-button (label function &optional question)
  "Add the button LABEL for FUNCTION, on a line of its own.
FUNCTION is called in this chat.  The button can be pressed until
`agent-q-render-settle' is called with its QUESTION."
  (agent-q-render--with-log
    (agent-q-render--close)
    (let* ((start (copy-marker agent-q-render-end))
           (chat (current-buffer))
           (action (lambda (_button) (with-current-buffer chat (funcall function)))))
      (agent-q-render--append
       (concat (make-text-button (copy-sequence label) nil 'follow-link t 'action action) "\n"))
      (when question
        (push (list question start (copy-marker (1- agent-q-render-end)))
              agent-q-render--questions)))))

(defun agent-q-render-settle (question)
  "Make plain text of the buttons for QUESTION, which has its answer now."
  (pcase-dolist (`(,asked ,start ,end) agent-q-render--questions)
    (when (eq asked question)
      (agent-q-render--with-log
        (remove-list-of-text-properties start end '(button category action follow-link))
        (put-text-property start end 'face 'agent-q-dim))))
  (setq agent-q-render--questions (assq-delete-all question agent-q-render--questions)))

(defun agent-q-render-remove (start end)
  "Remove what is in the log from START to END."
  (agent-q-render--with-log (delete-region start end)))

(defun agent-q-render-space ()
  "Have the log end with an empty line."
  (agent-q-render--with-log (agent-q-render--blank-line)))

(defun agent-q-render-finish ()
  "Finish the open part at the end of the log."
  (unless (and (null agent-q-render--open) (agent-q-render--line-start-p))
    (agent-q-render--with-log (agent-q-render--close))))

(defun agent-q-render-above (position function)
  "Call FUNCTION, and put its text into the log at POSITION instead of the end.
POSITION is the beginning of a line of plain text in the log."
  (let ((end agent-q-render-end)
        (state (list agent-q-render--open agent-q-render--markdown
                     agent-q-render--answer agent-q-render-message)))
    (set-marker-insertion-type end t)
    (setq agent-q-render-end (copy-marker position)
          agent-q-render--open nil)
    (unwind-protect
        (progn (funcall function)
               (agent-q-render-finish))
      (set-marker agent-q-render-end nil)
      (set-marker-insertion-type end nil)
      (setq agent-q-render-end end
            agent-q-render--open (pop state)
            agent-q-render--markdown (pop state)
            ;; The latest of the chat, unless there was none.
            agent-q-render--answer (or (pop state) agent-q-render--answer)
            agent-q-render-message (or (pop state) agent-q-render-message)))))

;;;; Items

(cl-defstruct (agent-q-render-item (:constructor nil) (:copier nil))
  "Something in the log that is drawn again when it changes.
DRAW is called with the item and returns its text, a new string.  START and END
are markers around that text; a newline follows it.  APART is non-nil if a line
from agent-q does not belong to the item behind which it stands.  HIDDEN means
that nothing of it is seen: another item speaks for it.  PARTS are items below
that are hidden while this one is folded."
  draw start end expanded apart hidden parts)

(defvar agent-q-render-item-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'agent-q-render-toggle)
    (define-key map (kbd "RET") #'agent-q-render-toggle)
    (define-key map [mouse-2] #'agent-q-render-toggle-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on the items of the log.")

(defconst agent-q-render--live-map (make-composed-keymap agent-q-live-map agent-q-render-item-map)
  "Keymap on what is alive in them.")

(defun agent-q-render--item-text (item)
  "Return the text of ITEM with the properties that all items have."
  (agent-q-render--dress item (funcall (agent-q-render-item-draw item) item)))

(defun agent-q-render--dress (item text)
  "Put the properties that all text of ITEM has on TEXT, a new string; return it."
  (add-text-properties 0 (length text)
                       `(agent-q-item ,item ,@agent-q-render--properties
                         ;; The prefix of what is hidden would stand before what follows it.
                         ,@(and (agent-q-render-item-hidden item)
                                '(invisible t line-prefix nil wrap-prefix nil)))
                       text)
  (agent-q-live-mark text)
  ;; Parts of an item may have a keymap of their own.
  (agent-q-live-put-keymap text agent-q-render--live-map)
  (agent-q-render-fill-keymap text agent-q-render-item-map))

(defun agent-q-render-fill-keymap (text keymap)
  "Put KEYMAP on the parts of TEXT that have none; return TEXT."
  (let ((from 0))
    (while (< from (length text))
      (let ((to (or (next-single-property-change from 'keymap text)
                    (length text))))
        (unless (get-text-property from 'keymap text)
          (put-text-property from to 'keymap keymap text))
        (setq from to))))
  text)

(defun agent-q-render-add-item (item &optional after)
  "Draw the new ITEM at the end of the log, or behind the item AFTER."
  (let ((text (agent-q-render--item-text item)))
    (agent-q-render--with-log
      (unless after
        (agent-q-render--close))
      (let ((start (goto-char (if after (1+ (agent-q-render-item-end after))
                                (marker-position agent-q-render-end)))))
        ;; Whoever stands at the very end of the log stays there: a key must not
        ;; reach an item because the item was put under point.
        (insert-before-markers
         text (apply #'agent-q-render--propertize "\n"
                     (and (agent-q-render-item-hidden item) '(invisible t))))
        (when (< agent-q-render-end (point))
          (set-marker agent-q-render-end (point)))
        (setf (agent-q-render-item-start item) (copy-marker start)
              (agent-q-render-item-end item) (copy-marker (1- (point)) t))))))

(defun agent-q-render-update-item (item)
  "Draw ITEM again where it is."
  (let* ((text (agent-q-render--item-text item))
         (start (marker-position (agent-q-render-item-start item)))
         (end (marker-position (agent-q-render-item-end item)))
         (inside (lambda (position) (and (<= start position end)
                                         (- position start))))
         (offset (funcall inside (point)))
         (windows (mapcar (lambda (window)
                            (cons window
                                  (funcall inside (window-point window))))
                          (get-buffer-window-list nil t t))))
    (agent-q-render--with-log
      (goto-char start)
      (delete-region start end)
      (insert text)
      (set-marker (agent-q-render-item-end item) (point))
      (let ((face (get-text-property (1- (point)) 'face)))
        (put-text-property (point) (1+ (point)) 'face
                           (and (agent-q-render-body-extends-p face) face)))
      (put-text-property (point) (1+ (point)) 'invisible (agent-q-render-item-hidden item)))
    ;; Those who stood in the old text stand at the same place of the new one.
    (let ((limit (- (agent-q-render-item-end item) start)))
      (when offset
        (goto-char (+ start (min offset limit))))
      (pcase-dolist (`(,window . ,offset) windows)
        (when offset
          (set-window-point window (+ start (min offset limit))))))))

(defun agent-q-render-add-part (part item before)
  "Draw the new PART of ITEM behind the item BEFORE."
  (setf (agent-q-render-item-hidden part) (not (agent-q-render-item-expanded item)))
  (push part (agent-q-render-item-parts item))
  (agent-q-render-add-item part before))

(defun agent-q-render-unfold (item &optional fold)
  "Draw ITEM unfolded, and its parts; with FOLD, draw it folded."
  (setf (agent-q-render-item-expanded item) (not fold))
  (agent-q-render-update-item item)
  (dolist (part (agent-q-render-item-parts item))
    (setf (agent-q-render-item-hidden part) fold)
    (agent-q-render-update-item part)))

(defun agent-q-render-item-at (position)
  "Return the item at POSITION, or nil."
  (get-text-property position 'agent-q-item))

(defun agent-q-render-item-before (item)
  "Return the item that stands directly above ITEM in the log, or nil."
  (let ((place (- (agent-q-render-item-start item) 2)))
    (and (<= (point-min) place)
         (agent-q-render-item-at place))))

(defun agent-q-render-item-after (item)
  "Return the item that stands directly below ITEM in the log, or nil."
  (let ((place (1+ (agent-q-render-item-end item))))
    (and (< place agent-q-render-end)
         (agent-q-render-item-at place))))

(defun agent-q-render-toggle ()
  "Unfold or fold the item at point, or the one that ends there."
  (interactive nil agent-q-chat-mode)
  (let ((item (or (agent-q-render-item-at (point))
                  ;; Its keys hold there, too.
                  (and (eolp) (not (bobp))
                       (agent-q-render-item-at (1- (point)))))))
    (unless item
      (user-error "Nothing to unfold here"))
    (agent-q-render-unfold item (agent-q-render-item-expanded item))
    (agent-q-render-body-reveal (agent-q-render-item-start item) (agent-q-render-item-end item))))

(defun agent-q-render-toggle-mouse (event)
  "Unfold or fold the item that EVENT clicked on."
  (interactive "e" agent-q-chat-mode)
  (with-current-buffer (window-buffer (posn-window (event-start event)))
    (save-excursion
      (goto-char (posn-point (event-start event)))
      (agent-q-render-toggle))))

(defun agent-q-render-fold-sign (item)
  "Return the sign for the folded or unfolded ITEM."
  (agent-q-render-sign (if (agent-q-render-item-expanded item)
                           'unfolded 'folded)))

;;;; Reasoning

(cl-defstruct (agent-q-render-reasoning
               (:include agent-q-render-item)
               (:constructor agent-q-render--make-reasoning))
  "The model's reasoning.
PIECES are its texts, latest first, LONG the number of their characters,
and HEAD its beginning once it is too long to be shown in the log.  SINCE is
when it began, or nil when that is unknown, UNTIL when it was over, or nil."
  pieces (long 0) head since until)

(defun agent-q-render--reasoning-text (item)
  "Return the whole text of the reasoning ITEM."
  (apply #'concat (reverse (agent-q-render-reasoning-pieces item))))

(defun agent-q-render--reasoning-body (item)
  "Return the reasoning ITEM as the body of an item."
  (let ((long (agent-q-render-reasoning-long item))
        (limit agent-q-render-body-limit))
    (if (<= long limit)
        (agent-q-render-body (agent-q-render--reasoning-text item) nil
                             'face 'agent-q-dim)
      ;; It is drawn again with each piece: don't put all together each time.
      (unless (agent-q-render-reasoning-head item)
        (setf (agent-q-render-reasoning-head item)
              (substring (agent-q-render--reasoning-text item) 0 limit)))
      (agent-q-render-body-cut-body (agent-q-render-reasoning-head item) long
                                    (lambda () (agent-q-render--reasoning-text item))
                                    'face 'agent-q-dim))))

(defun agent-q-render--reasoning-line (item)
  "Return the first line of the reasoning ITEM: how long it took."
  (let ((since (agent-q-render-reasoning-since item))
        (until (agent-q-render-reasoning-until item)))
    (propertize (concat (agent-q-render-fold-sign item)
                        (if until " Thought" " Thinking")
                        (when since
                          (format " for %d s"
                                  (max 1 (ceiling (float-time
                                                   (time-subtract until since)))))))
                'face 'agent-q-dim 'mouse-face 'highlight)))

(defun agent-q-render--thought (item)
  "Show that the reasoning ITEM is over.
Use inside `agent-q-render--with-log'.  Its text below the first line stays,
and who reads there too."
  (setf (agent-q-render-reasoning-until item) (current-time))
  (goto-char (agent-q-render-item-start item))
  (delete-region (point) (line-end-position))
  (insert (agent-q-render--dress item (agent-q-render--reasoning-line item))))

(defun agent-q-render--draw-reasoning (item)
  "Return the text of the reasoning ITEM."
  (concat
   (agent-q-render--reasoning-line item)
   (when (agent-q-render-item-expanded item)
     (concat "\n" (agent-q-render--reasoning-body item)))))

(defun agent-q-render-reasoning (text &optional past)
  "Add TEXT to the model's reasoning, which is folded until it is asked for.
With PAST, it is of an earlier time, and how long it took is not known."
  (let* ((open (agent-q-render-reasoning-p agent-q-render--open))
         (text (agent-q-text-visible-prose text))
         (item (if open agent-q-render--open
                 (agent-q-render--make-reasoning
                  :draw #'agent-q-render--draw-reasoning
                  :since (unless past (current-time))))))
    (push text (agent-q-render-reasoning-pieces item))
    (cl-incf (agent-q-render-reasoning-long item) (length text))
    (if open
        (agent-q-render-update-item item)
      (agent-q-render-add-item item)
      (setq agent-q-render--open item))))

(provide 'agent-q-render)
;;; agent-q-render.el ends here
