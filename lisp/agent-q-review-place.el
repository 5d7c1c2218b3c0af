;;; agent-q-review-place.el --- Edits under review, shown where they will be  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The review of an edit, as overlays in the buffer of its file: lines that go are
;; marked, and those that come stand below them, both refined by words.  The buffer of
;; the review stays what is decided, by the same functions; this only shows it.  Keys
;; count on a hunk that was on the screen for a moment, and not while the text changes.

;;; Code:

(require 'agent-q-approval-gate)
(require 'agent-q-call)
(require 'agent-q-code-highlight)
(require 'agent-q-review)
(require 'agent-q-text)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defface agent-q-gone '((((supports :strike-through t)) :inherit diff-removed :strike-through t)
                        (t :inherit diff-removed))
  "Face of lines that an edit under review takes away."
  :group 'agent-q)

(defvar-local agent-q-review-place--review nil
  "The buffer of the review that is shown in this buffer of a file, or nil.")

(defvar-local agent-q-review-place--overlays nil
  "What is shown here of the review: the overlays.")

(defvar-local agent-q-review-place--armed nil
  "Whether keys on hunks count now.
The symbol `pause' means that they will in a moment; nil, that they are text.")

(defvar-local agent-q-review-place--timer nil
  "The timer that looks at this buffer again, or nil.")

(defvar-local agent-q-review-place--header nil
  "What the header line was before, in a list.")

(defvar-local agent-q-review-place--source nil
  "In the buffer of a review the one where it is shown in place, or nil.")

;; A buffer that is reverted gets its mode again.
(dolist (variable '(agent-q-review-place--review agent-q-review-place--overlays
                    agent-q-review-place--armed agent-q-review-place--timer))
  (put variable 'permanent-local t))

;;;; What can be shown in place

(defun agent-q-review-place--lines (hunk)
  "Return the lines of HUNK: pairs of a sign and a text without its end."
  (mapcar (lambda (line)
            (cons (if (string-empty-p line) ?\s (aref line 0))
                  (string-remove-suffix "\r" (if (string-empty-p line) "" (substring line 1)))))
          (split-string (string-remove-suffix "\n" (agent-q-review-hunk-body hunk)) "\n")))

(defun agent-q-review-place--changes (hunk)
  "Return the changed lines in HUNK: lists (LINE OLD NEW), one for each place.
LINE is how many lines are before it in the file, OLD and NEW are lists of
texts."
  (let ((line (agent-q-review-hunk-old hunk)) (changes nil) (old nil) (new nil))
    (cl-flet ((end ()
                (when (or old new)
                  (push (list (- line (length old)) (nreverse old) (nreverse new)) changes))
                (setq old nil new nil)))
      (pcase-dolist (`(,sign . ,text) (agent-q-review-place--lines hunk))
        (pcase sign
          (?- (when new (end))
              (push text old)
              (setq line (1+ line)))
          (?+ (push text new))
          (?\s (end)
               (setq line (1+ line)))))
      (end))
    (nreverse changes)))

(defun agent-q-review-place--objection ()
  "Return why the review in this buffer can't be shown in place, or nil."
  (let ((edit agent-q-review-hunks-edit)
        (hunks (append agent-q-review-hunks-all nil))
        ;; What overlays insert can't be scrolled through.
        (most (max 12 (- (frame-height) 10))))
    (cond ((agent-q-review-target-new edit) "the file is new")
          ((agent-q-review-target-one edit) "this edit is more than a change of lines")
          ((string-empty-p (agent-q-review-target-base edit)) "the file is empty")
          ((null hunks) "nothing of the edit fits any more")
          ((seq-some (lambda (hunk)
                       (let ((body (string-replace "\r\n" "\n" (agent-q-review-hunk-body hunk))))
                         (not (equal body (agent-q-text-visible body)))))
                     hunks)
           "there are characters in it that can't be seen")
          ((seq-some (lambda (hunk)
                       (seq-some (lambda (change) (> (length (nth 2 change)) most))
                                 (agent-q-review-place--changes hunk)))
                     hunks)
           "its new lines don't fit a window"))))

;;;; What changed within lines

(defconst agent-q-review-place--token "[^][ \t\n()'`,\";#|\\]+\\|[ \t]+\\|\n\\|."
  "What is the same or another one within a line: a word, blanks or a sign.")

(defconst agent-q-review-place--most 20000
  "Longer texts are not refined by words.")

(defun agent-q-review-place--tokens (text)
  "Return TEXT as lines, each of them a token."
  (replace-regexp-in-string agent-q-review-place--token
                            (lambda (token) (if (equal token "\n") "\\n\n" (concat token "\n")))
                            text t t))

(defun agent-q-review-place--words (old new)
  "Return what OLD and NEW, texts, don't have alike, or nil if that is most.
The value is a cons of the ranges in OLD and of those in NEW."
  (when (and (< 0 (length old)) (< 0 (length new))
             (< (+ (length old) (length new)) agent-q-review-place--most))
    (let ((at-old 0) (at-new 0) (gone nil) (come nil) (same 0))
      (pcase-dolist (`(,_ ,_ ,_ ,body . ,_)
                     (agent-q-core-diff-hunks (agent-q-review-place--tokens old)
                                              (agent-q-review-place--tokens new)
                                              agent-q-review-place--most))
        (dolist (line (split-string (string-remove-suffix "\n" body) "\n"))
          (let* ((token (substring line 1))
                 (length (if (equal token "\\n") 1 (length token))))
            (pcase (aref line 0)
              (?- (push (cons at-old (+ at-old length)) gone)
                  (setq at-old (+ at-old length)))
              (?+ (push (cons at-new (+ at-new length)) come)
                  (setq at-new (+ at-new length)))
              (?\s (unless (string-blank-p token)
                     (setq same (+ same length)))
                   (setq at-old (+ at-old length)
                         at-new (+ at-new length)))))))
      (when (> (* 4 same) (min (length old) (length new)))
        (cons gone come)))))

;;;; Drawing

(defun agent-q-review-place--key (command)
  "Return COMMAND as a binding that is none while keys are text."
  `(menu-item "" ,command :filter ,(lambda (it) (and agent-q-review-place--armed it))))

(defun agent-q-review-place--quit-key (command)
  "Return COMMAND as a binding that is none where a region can be quit."
  `(menu-item "" ,command
              :filter ,(lambda (it) (and agent-q-review-place--armed (not (region-active-p)) it))))

(defvar agent-q-review-place-hunk-map
  (let ((map (make-sparse-keymap)))
    (pcase-dolist (`(,key . ,command)
                   '(("y" . agent-q-review-place-accept) ("k" . agent-q-review-place-reject)
                     ("n" . agent-q-review-place-next) ("p" . agent-q-review-place-previous)
                     ("d" . agent-q-review-place-diff)
                     ("C-c C-c" . agent-q-review-place-apply)
                     ("C-c C-k" . agent-q-review-place-reject-all)))
      (define-key map (kbd key) (agent-q-review-place--key command)))
    (define-key map (kbd "C-g")
      (agent-q-review-place--quit-key #'agent-q-review-place-reject-all))
    ;; A wrong key would change the file below the edit, which wouldn't fit any more.
    (dolist (command '(self-insert-command newline delete-backward-char backward-delete-char-untabify))
      (define-key map (vector 'remap command)
        (agent-q-review-place--key #'agent-q-review-place-no-text)))
    map)
  "Keymap on hunks that are shown in place.")

(defun agent-q-review-place--new-lines (review)
  "Return the lines of the file once all of REVIEW is applied, in colours."
  (let ((mode major-mode))
    (with-current-buffer review
      (let ((text (string-replace
                   "\r\n" "\n"
                   (agent-q-core-diff-apply
                    (agent-q-review-target-base agent-q-review-hunks-edit)
                    (agent-q-review-hunks-json (append agent-q-review-hunks-all nil))))))
        (vconcat (split-string (condition-case nil
                                   (agent-q-code-highlight-text text mode)
                                 (error text))
                               "\n"))))))

(defun agent-q-review-place--overlay (start end &rest properties)
  "Show PROPERTIES on the text from START to END."
  (let ((overlay (make-overlay start end nil t nil)))
    (while properties
      (overlay-put overlay (pop properties) (pop properties)))
    (push overlay agent-q-review-place--overlays)
    overlay))

(defun agent-q-review-place--clear ()
  "Take away what is shown here."
  (mapc #'delete-overlay agent-q-review-place--overlays)
  (setq agent-q-review-place--overlays nil))

(defun agent-q-review-place--draw ()
  "Show the review of this buffer as it is now; return nil if that can't be."
  (agent-q-review-place--clear)
  (let* ((review agent-q-review-place--review)
         (hunks (buffer-local-value 'agent-q-review-hunks-all review))
         (lines (agent-q-review-place--new-lines review))
         (shift 0))
    (save-excursion
      (save-restriction
        (widen)
        (catch 'other
          (seq-doseq (hunk hunks)
            (let ((start nil) (end nil))
              (pcase-dolist (`(,line ,old ,new) (agent-q-review-place--changes hunk))
                (pcase-let ((`(,from . ,to) (or (agent-q-review-place--find line old)
                                                (throw 'other nil))))
                  (setq start (or start from) end to)
                  (let ((first (+ line shift)))
                    (agent-q-review-place--draw-change
                     hunk from to (seq-subseq lines (min first (length lines))
                                              (min (+ first (length new)) (length lines)))))
                  (setq shift (+ shift (- (length new) (length old))))))
              (agent-q-review-place--draw-state hunk (length hunks) start end)))
          t)))))

(defun agent-q-review-place--find (line old)
  "Return start and end of the lines OLD if they are after LINE lines, else nil."
  (goto-char (point-min))
  (forward-line line)
  (let ((from (point)))
    (forward-line (length old))
    (and (equal (string-join old "\n")
                (string-remove-suffix "\n" (buffer-substring-no-properties from (point))))
         (cons from (point)))))

(defun agent-q-review-place--draw-change (hunk from to lines)
  "Show that HUNK has LINES instead of the text from FROM to TO."
  (let* ((old (buffer-substring-no-properties from to))
         (new (if lines (concat (string-join lines "\n") "\n") ""))
         (words (agent-q-review-place--words old new))
         (chosen (agent-q-review-hunk-chosen hunk)))
    (when chosen
      (pcase-dolist (`(,start . ,end) (car words))
        (agent-q-review-place--overlay (+ from start) (+ from end)
                                       'face 'diff-refine-removed 'priority 30))
      (pcase-dolist (`(,start . ,end) (cdr words))
        (add-face-text-property start end 'diff-refine-added t new)))
    (add-face-text-property 0 (length new) (if chosen 'diff-added 'agent-q-dim) t new)
    (unless (display-color-p)
      (setq new (replace-regexp-in-string "^\\(?:.\\|\n\\)" "+ \\&" new))
      (when chosen
        (agent-q-review-place--draw-signs from to)))
    (when (and (eq to (point-max)) (not (eq (char-before to) ?\n)))
      (setq new (concat "\n" new)))
    (apply #'agent-q-review-place--overlay from to 'priority 20
           (if (= from to) 'before-string 'after-string) new
           (and chosen '(face agent-q-gone)))))

(defun agent-q-review-place--draw-signs (from to)
  "Show signs on the lines from FROM to TO, which go, for want of colours."
  (save-excursion
    (goto-char from)
    (while (< (point) to)
      (agent-q-review-place--overlay (point) (point) 'before-string "- " 'priority 25)
      (forward-line))))

(defun agent-q-review-place--draw-state (hunk all from to)
  "Show above the text from FROM to TO what was decided on HUNK, one of ALL."
  (let ((state (format "%d/%d %s" (agent-q-review-hunk-number hunk) all
                       (cond ((not (agent-q-review-hunk-decided hunk))
                              (if (agent-q-review-hunk-chosen hunk) "y accept, k reject"
                                "changed since: y accept, k reject"))
                             ((agent-q-review-hunk-chosen hunk) "accepted")
                             (t "rejected"))))
        (comment (agent-q-review-hunk-comment hunk)))
    (agent-q-review-place--overlay
     ;; Keys need a character to be on.
     (if (and (= from to) (eobp)) (max (point-min) (1- from)) from)
     (if (= from to) (min (point-max) (1+ to)) to)
     'priority 10
     'agent-q-place hunk
     'keymap agent-q-review-place-hunk-map
     'before-string (propertize (concat state (if comment (concat ": " comment) "") "\n")
                                'face (list (cond ((not (agent-q-review-hunk-decided hunk))
                                                   'agent-q-attention)
                                                  ((agent-q-review-hunk-chosen hunk)
                                                   'agent-q-success)
                                                  (t 'agent-q-failure))
                                            'default)))))

(defun agent-q-review-place-no-text ()
  "Refuse a key that would change the text of the hunk at point."
  (interactive nil agent-q-review-place-mode)
  (user-error "On a hunk: y accept, k reject, n next, p previous, d as a diff, C-c C-k reject all"))

;;;; Keys that come too late

;; An edit may go while a key for it is on its way, which must not become text.

(defconst agent-q-review-place--late 1.2
  "Seconds in which keys for an edit that went are refused.
An edit whose file changed is shown again before that.")

(defvar agent-q-review-place--late-in nil
  "The buffer in which they are refused now.")

(defvar agent-q-review-place--late-map
  (let ((map (make-sparse-keymap)))
    (dolist (key '("y" "k" "n" "p" "d" "C-c C-c" "C-c C-k"))
      ;; In other buffers, such as the chat, they mean what they mean there.
      (define-key map (kbd key)
        `(menu-item "" agent-q-review-place-too-late
                    :filter ,(lambda (command)
                               (and (eq (current-buffer) agent-q-review-place--late-in) command)))))
    map)
  "Keymap that refuses keys for an edit that is not shown any more.")

(defvar agent-q-review-place--end-guard nil
  "The function that lets keys be text again, or nil if they are.")

(defun agent-q-review-place-too-late ()
  "Refuse a key for an edit that changed or went."
  (interactive nil agent-q-review-place-mode)
  (user-error "The edit shown here changed or ended; the key did nothing"))

(defun agent-q-review-place--guard ()
  "Refuse keys for the hunk at point for a moment, if they counted.
Any other key ends that."
  (when (and agent-q-review-place--armed
             (eq (window-buffer) (current-buffer))
             (get-char-property (point) 'agent-q-place))
    (when agent-q-review-place--end-guard
      (funcall agent-q-review-place--end-guard))
    (setq agent-q-review-place--late-in (current-buffer))
    (let* ((timer nil)
           (end (set-transient-map agent-q-review-place--late-map t
                                   (lambda ()
                                     (cancel-timer timer)
                                     (setq agent-q-review-place--end-guard nil)))))
      (setq timer (run-at-time agent-q-review-place--late nil end)
            agent-q-review-place--end-guard end))))

(defun agent-q-review-place--before-change (&rest _)
  "Refuse keys for a moment unless the user is changing this buffer."
  ;; Afterwards the hunk at point may be gone.
  (unless this-command
    (agent-q-review-place--guard)))

;;;; The buffer of the file

(defvar agent-q-review-place-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map [header-line mouse-1] #'agent-q-review-place-next)
    map)
  "Keymap of `agent-q-review-place-mode'.")

(define-minor-mode agent-q-review-place-mode
  "Minor mode for a buffer in which an edit under review is shown in place.
These keys count on a hunk:
\\<agent-q-review-place-hunk-map>\\[agent-q-review-place-accept] takes it, \
\\[agent-q-review-place-reject] leaves it, \\[agent-q-review-place-next] and
\\[agent-q-review-place-previous] go to the next one and the one before,
\\[agent-q-review-place-diff] shows the edit as a diff, where hunks can be edited
and commented on, \\[agent-q-review-place-apply] takes all that is left and
applies the edit, \\[agent-q-review-place-reject-all] rejects all of it.

\\{agent-q-review-place-hunk-map}"
  :lighter " Edit"
  :interactive nil
  (if agent-q-review-place-mode
      (progn
        (setq agent-q-review-place--header (and (local-variable-p 'header-line-format)
                                                (list header-line-format))
              header-line-format '(:eval (agent-q-review-place--head)))
        (add-hook 'before-change-functions #'agent-q-review-place--before-change nil t)
        (add-hook 'after-change-functions #'agent-q-review-place--touched nil t)
        (add-hook 'kill-buffer-hook #'agent-q-review-place--leave nil t))
    (remove-hook 'before-change-functions #'agent-q-review-place--before-change t)
    (remove-hook 'after-change-functions #'agent-q-review-place--touched t)
    (remove-hook 'kill-buffer-hook #'agent-q-review-place--leave t)
    (if agent-q-review-place--header
        (setq header-line-format (car agent-q-review-place--header))
      (kill-local-variable 'header-line-format))))

(put 'agent-q-review-place--before-change 'permanent-local-hook t)
(put 'agent-q-review-place--touched 'permanent-local-hook t)
(put 'agent-q-review-place--leave 'permanent-local-hook t)

(defun agent-q-review-place--head ()
  "Return the header line: how much is left, and the keys on a hunk."
  (let* ((hunks (and (buffer-live-p agent-q-review-place--review)
                     (buffer-local-value 'agent-q-review-hunks-all agent-q-review-place--review)))
         (left (seq-count (lambda (hunk) (not (agent-q-review-hunk-decided hunk))) hunks)))
    (concat (propertize (format " Edit, %d of %d hunk%s left  " left (length hunks)
                                (if (= 1 (length hunks)) "" "s"))
                        'face 'bold)
            (cond ((not agent-q-review-place--armed) "")
                  ((get-char-property (point) 'agent-q-place)
                   "y accept  k reject  n p move  C-c C-c apply the rest  C-c C-k reject all  d diff")
                  (t (propertize "[Go to the next one]" 'mouse-face 'highlight
                                 'help-echo "mouse-1, M-x agent-q-review-place-next"))))))

(defun agent-q-review-place--soon (seconds function)
  "Call FUNCTION in this buffer in SECONDS, in place of what was to be called."
  (when agent-q-review-place--timer
    (cancel-timer agent-q-review-place--timer))
  (setq agent-q-review-place--timer
        (run-at-time seconds nil #'agent-q-review-place--now (current-buffer) function)))

(defun agent-q-review-place--now (buffer function)
  "Call FUNCTION in BUFFER if a review is still shown there."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-review-place--timer nil)
      (when (buffer-live-p agent-q-review-place--review)
        (funcall function)))))

(defun agent-q-review-place--touched (&rest _)
  "Let no key count until the review is shown on the new text."
  (setq agent-q-review-place--armed nil)
  ;; Requests are looked at again before that.
  (agent-q-review-place--soon 0.8 #'agent-q-review-place--again))

(defun agent-q-review-place--again ()
  "Show the review on the text as it is now."
  (let ((review agent-q-review-place--review))
    (if (agent-q-review-target-changed-p
         (buffer-local-value 'agent-q-review-hunks-edit review))
        ;; That shows it here, too.
        (with-current-buffer review
          (agent-q-review-refresh))
      (agent-q-review-place--show-here))))

(defun agent-q-review-place--show-here ()
  "Show the review of this buffer, or say why that can't be."
  (setq agent-q-review-place--armed (and agent-q-review-place--armed 'pause))
  (let ((problem (with-current-buffer agent-q-review-place--review
                   (agent-q-review-place--objection))))
    (if (or problem (not (agent-q-review-place--draw)))
        (progn
          (message "The edit can't be shown in %s: %s; the request in its chat waits"
                   (buffer-name) (or problem "the file has another text"))
          (agent-q-review-place--leave))
      (unless agent-q-review-place-mode
        (agent-q-review-place-mode))
      (agent-q-review-place--look-soon)
      (force-mode-line-update))))

(defun agent-q-review-place--look-soon ()
  "Let keys count in a moment."
  ;; A bit later: Emacs becomes idle only when the command that began this is over.
  (agent-q-review-place--soon (+ 0.05 agent-q-approval-gate-pause) #'agent-q-review-place--look))

(defun agent-q-review-place--look ()
  "Let keys count once the buffer was on the screen while no key waited."
  (if (and (get-buffer-window nil 'visible)
           (not (input-pending-p))
           (or noninteractive
               (not (time-less-p (or (current-idle-time) 0) agent-q-approval-gate-pause))))
      (setq agent-q-review-place--armed t)
    (agent-q-review-place--look-soon))
  (force-mode-line-update))

(defun agent-q-review-place--leave ()
  "Show no review in this buffer any more."
  (agent-q-review-place--guard)
  (agent-q-review-place--clear)
  (when agent-q-review-place--timer
    (cancel-timer agent-q-review-place--timer)
    (setq agent-q-review-place--timer nil))
  (when (buffer-live-p agent-q-review-place--review)
    (with-current-buffer agent-q-review-place--review
      (setq agent-q-review-place--source nil)))
  (setq agent-q-review-place--review nil
        agent-q-review-place--armed nil)
  (when agent-q-review-place-mode
    (agent-q-review-place-mode -1)))

;;;; From the review

(defun agent-q-review-place--changed ()
  "Show the review in this buffer in its place again, after a change."
  (when (buffer-live-p agent-q-review-place--source)
    (with-current-buffer agent-q-review-place--source
      (agent-q-review-place--show-here))))

(defun agent-q-review-place--over ()
  "Take away what is shown in place of the review in this buffer, which is killed."
  (when (buffer-live-p agent-q-review-place--source)
    (with-current-buffer agent-q-review-place--source
      (agent-q-review-place--leave))))

(defun agent-q-review-place-show (review)
  "Show the edit in the buffer REVIEW in place; return the buffer of its file.
Signal an error if that can't be."
  (with-current-buffer review
    (when (agent-q-review-target-changed-p agent-q-review-hunks-edit)
      (agent-q-review-refresh))
    (when-let ((problem (agent-q-review-place--objection)))
      (user-error "This can't be shown in place: %s" problem))
    (let ((source (or (agent-q-review-target-visit agent-q-review-hunks-edit)
                      (user-error "The file has another text"))))
      (when (not (memq (buffer-local-value 'agent-q-review-place--review source)
                       (list nil review)))
        (user-error "Another edit is shown in %s; decide on that one first" source))
      (setq agent-q-review-place--source source)
      (agent-q-review-hunks-follow #'agent-q-review-place--changed)
      (add-hook 'kill-buffer-hook #'agent-q-review-place--over nil t)
      (with-current-buffer source
        (setq agent-q-review-place--review review)
        (agent-q-review-place--show-here))
      source)))

(defun agent-q-review-place-shown (review)
  "Return the buffer in which REVIEW is shown in place, or nil.
REVIEW is a buffer or anything else."
  (and (bufferp review)
       (buffer-live-p review)
       (buffer-local-value 'agent-q-review-place--source review)))

(defun agent-q-review-place-in-sight (review)
  "Show REVIEW, of the current chat, in place if that can be seen.
The file has to be in a window, or its buffer may be anywhere if the chat is in
none.  Return the buffer, or nil if it isn't shown."
  (let* ((file (agent-q-review-target-file
                (buffer-local-value 'agent-q-review-hunks-edit review)))
         (source (find-buffer-visiting file)))
    (and source
         (or (get-buffer-window source) (not (get-buffer-window (current-buffer))))
         (ignore-error user-error (agent-q-review-place-show review)))))

(defun agent-q-review-place-or-diff (review)
  "Show REVIEW, a new one of the current chat, where it can be seen best.
That is in place or, if that can't be, as a diff beside the chat."
  (cond ((agent-q-review-place-in-sight review)
         (agent-q-review-hide review))
        ((get-buffer-window (current-buffer))
         (agent-q-review-display review))))

(defun agent-q-review-place-again ()
  "Show the edits of the current chat in place that have waited for another one."
  (dolist (call (agent-q-call-all-waiting))
    (let ((review (agent-q-call-review call)))
      (unless (or (not (bufferp review))
                  (not (buffer-live-p review))
                  (agent-q-review-place-shown review)
                  (agent-q-review-hunks-visible-p review))
        (agent-q-review-place-in-sight review)))))

(defun agent-q-review-place-visit (review)
  "Go to the first hunk of the edit in the buffer REVIEW, in its file."
  (let ((source (agent-q-review-place-show review)))
    (agent-q-review-hide review)
    (pop-to-buffer source)
    (agent-q-review-place-first)))

;;;; Keys

(defun agent-q-review-place--hunks ()
  "Return the places of the hunks, in their order: pairs of start and hunk."
  (sort (delq nil (mapcar (lambda (overlay)
                            (when-let ((hunk (overlay-get overlay 'agent-q-place)))
                              (cons (overlay-start overlay) hunk)))
                          agent-q-review-place--overlays))
        #'car-less-than-car))

(defun agent-q-review-place--goto (place)
  "Go to the hunk at PLACE, or signal an error if that is nil."
  (unless place
    (user-error (if agent-q-review-place--review "No more hunks" "No edit is shown here")))
  (unless (<= (point-min) place (point-max))
    (widen))
  (goto-char place)
  (when (eq (window-buffer) (current-buffer))
    (unless (agent-q-review-place--in-sight-p)
      (recenter 2))))

(defun agent-q-review-place--in-sight-p ()
  "Whether the end of the hunk at point is in the selected window."
  (or noninteractive
      (let* ((overlay (seq-find (lambda (it) (overlay-get it 'agent-q-place))
                                (overlays-at (point))))
             (end (if overlay (overlay-end overlay) (point))))
        ;; Of new lines behind it, Emacs asks only whether the first one is visible.
        (and (pos-visible-in-window-p)
             (<= (- (count-screen-lines (window-start) end t)
                    (if (eq ?\n (char-before end)) 1 0))
                 (window-body-height))))))

(defun agent-q-review-place-first ()
  "Go to the first hunk that is not decided on, or to the first one."
  (interactive nil agent-q-review-place-mode)
  (let ((hunks (agent-q-review-place--hunks)))
    (agent-q-review-place--goto
     (car (or (seq-find (lambda (it) (not (agent-q-review-hunk-decided (cdr it)))) hunks)
              (car hunks))))))

(defun agent-q-review-place-next ()
  "Go to the next hunk of the edit that is shown here."
  (interactive nil agent-q-review-place-mode)
  (let ((places (mapcar #'car (agent-q-review-place--hunks))))
    (agent-q-review-place--goto
     (or (seq-find (lambda (place) (> place (point))) places)
         ;; From below the last hunk, the first one is next.
         (and (not (get-char-property (point) 'agent-q-place)) (car places))))))

(defun agent-q-review-place-previous ()
  "Go to the previous hunk of the edit that is shown here."
  (interactive nil agent-q-review-place-mode)
  (agent-q-review-place--goto
   (seq-find (lambda (place) (< place (point)))
             (nreverse (mapcar #'car (agent-q-review-place--hunks))))))

(defun agent-q-review-place--check ()
  "Signal an error unless a key counts now."
  (unless (eq agent-q-review-place--armed t)
    (user-error "Too fast: look at the edit, then press the key again")))

(defun agent-q-review-place--decide (chosen)
  "Take the hunk at point if CHOSEN is non-nil, else leave it."
  (let ((hunk (or (get-char-property (point) 'agent-q-place)
                  (user-error "No hunk at point")))
        (source (current-buffer)))
    (agent-q-review-place--check)
    (unless (agent-q-review-place--in-sight-p)
      (recenter 2)
      (user-error "Look at all of the hunk, then press the key again"))
    (with-current-buffer agent-q-review-place--review
      (agent-q-review-decide-hunk hunk chosen))
    (when (buffer-live-p source)
      (with-current-buffer source
        (when agent-q-review-place--review
          (agent-q-review-place-first))))))

(defun agent-q-review-place-accept ()
  "Take the hunk at point; when all are decided on, that is applied."
  (interactive nil agent-q-review-place-mode)
  (agent-q-review-place--decide t))

(defun agent-q-review-place-reject ()
  "Leave the hunk at point; when all are decided on, what was taken is applied."
  (interactive nil agent-q-review-place-mode)
  (agent-q-review-place--decide nil))

(defun agent-q-review-place-apply ()
  "Take the hunks that are not decided on, and apply what is taken."
  (interactive nil agent-q-review-place-mode)
  (agent-q-review-place--check)
  (with-current-buffer agent-q-review-place--review
    (agent-q-review-take-rest)))

(defun agent-q-review-place-reject-all ()
  "Reject the whole edit."
  (interactive nil agent-q-review-place-mode)
  (with-current-buffer agent-q-review-place--review
    (agent-q-review-reject)))

(defun agent-q-review-place-diff ()
  "Show the edit as a diff, where hunks can be edited and commented on."
  (interactive nil agent-q-review-place-mode)
  (let ((review agent-q-review-place--review))
    (agent-q-review-place--leave)
    (select-window (or (agent-q-review-display review)
                       (user-error "No window of this frame can show the diff")))))

(provide 'agent-q-review-place)
;;; agent-q-review-place.el ends here
