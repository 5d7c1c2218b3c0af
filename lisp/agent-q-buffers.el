;;; agent-q-buffers.el --- The user's buffers, looked at and edited by tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The operations of tools on the user's buffers: listing, searching, outlining and editing
;; them.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Changes of the user's buffers, for tools

;; The core decides what a text is to become; here a buffer is looked at and
;; changed: as one undo step, only where it differs, and never blindly.

(defun agent-q-buffers-edit-find-buffer (name)
  "Return the buffer called NAME, or without one the user's last one."
  (if name
      (let ((buffer (get-buffer name)))
        ;; In the minibuffer a password may be typed.
        (if (and buffer (not (minibufferp buffer)))
            buffer
          (error "No buffer is named %s" name)))
    (or (agent-q-session-user-last-buffer)
        (error "The user is not working in any buffer"))))

;;;;; Looking

(defun agent-q-buffers--edit-stale-p ()
  "Whether the file of the current buffer was changed behind its back."
  (and buffer-file-name
       (file-exists-p buffer-file-name)
       (not (verify-visited-file-modtime (current-buffer)))))

(defun agent-q-buffers--edit-gone-p ()
  "Whether the file of the current buffer was deleted."
  (and buffer-file-name
       (consp (visited-file-modtime))
       (not (file-exists-p buffer-file-name))))

(defun agent-q-buffers--edit-truth (value)
  "Return VALUE as a truth value of JSON."
  (if value t :false))

(defun agent-q-buffers--edit-text ()
  "Return the whole text of the current buffer, one character for each of its."
  (save-restriction
    (widen)
    (agent-q-text-clean (buffer-substring-no-properties (point-min) (point-max)))))

(defun agent-q-buffers--edit-state (buffer with-text)
  "Return the state of BUFFER as JSON, with its text if WITH-TEXT is non-nil."
  (with-current-buffer buffer
    (agent-q-json-serialize
     `((buffer . ,(agent-q-text-clean (buffer-name)))
       (file . ,(if buffer-file-name
                    (agent-q-text-clean (expand-file-name (or buffer-file-truename
                                                              buffer-file-name)))
                  :null))
       (text . ,(if with-text (agent-q-buffers--edit-text) :null))
       (modified . ,(agent-q-buffers--edit-truth (buffer-modified-p)))
       (tick . ,(buffer-chars-modified-tick))
       (read_only . ,(agent-q-buffers--edit-truth buffer-read-only))
       (stale . ,(agent-q-buffers--edit-truth (agent-q-buffers--edit-stale-p)))
       (gone . ,(agent-q-buffers--edit-truth (agent-q-buffers--edit-gone-p)))
       (point . ,(1- (point)))))))

(defun agent-q-buffers--edit-revert (buffer)
  "Read the file of BUFFER again if it was changed and the buffer was not.
Return BUFFER."
  (with-current-buffer buffer
    (when (and (not (buffer-modified-p)) (agent-q-buffers--edit-stale-p))
      (let ((inhibit-interaction t)
            (inhibit-message t))
        ;; If that fails, the caller finds it stale.
        (ignore-errors (revert-buffer t t t)))))
  buffer)

(agent-q-events-operation-define "file-buffer" (call path whole)
  "Return the state of the buffer that visits PATH, or null.
Its text is included if WHOLE is true, which is for a change, or there are
unsaved changes."
  (let ((buffer (find-buffer-visiting path)))
    (when (and buffer whole)
      (agent-q-buffers--edit-revert buffer))
    (if (buffer-live-p buffer)
        (agent-q-buffers--edit-state buffer (or whole (buffer-modified-p buffer)))
      "null")))

(agent-q-events-operation-define "unsaved-sources" (call root)
  "Return the Lisp files below ROOT that have unsaved changes, with their texts."
  (agent-q-json-serialize
   (vconcat
    (mapcar (lambda (buffer)
              (with-current-buffer buffer
                `((file . ,(agent-q-text-clean (file-truename buffer-file-name)))
                  (text . ,(agent-q-buffers--edit-text)))))
            (seq-filter (lambda (buffer)
                          (let ((file (buffer-local-value 'buffer-file-name buffer)))
                            (and file (buffer-modified-p buffer)
                                 (string-match-p "\\.\\(?:lisp\\|lsp\\|cl\\)\\'" file)
                                 (not (file-remote-p file))
                                 (file-in-directory-p file root))))
                        (buffer-list))))))

(agent-q-events-operation-define "buffer-state" (call buffer)
  "Return the state of the buffer named BUFFER with its text."
  (let ((live (agent-q-buffers-edit-find-buffer buffer)))
    ;; What is typed in the minibuffer or a chat is the user's own word.
    (unless (agent-q-session-user-buffer-p live)
      (error "Writing to the buffer %s is not allowed" (buffer-name live)))
    (agent-q-buffers--edit-state live t)))

;;;;; Changing

(defmacro agent-q-buffers--edit-as-one-step (&rest body)
  "Run BODY; make its edits one undo step, or undo them if it fails."
  (declare (indent 0) (debug t))
  `(let ((group (progn (undo-boundary) (prepare-change-group)))
         (done nil))
     (activate-change-group group)
     (unwind-protect
         (prog1 (progn ,@body)
           (setq done t))
       (if done
           (progn
             (undo-amalgamate-change-group group)
             (accept-change-group group)
             (undo-boundary))
         (cancel-change-group group)))))

(agent-q-events-operation-define "change-buffer" (call buffer tick start old new save)
  "Put NEW in the place of OLD, START characters into BUFFER.
TICK is that of the text which the change is for.  Save the buffer if
SAVE is true."
  (let ((live (get-buffer buffer)))
    (unless live
      (error "The buffer %s has been killed; nothing was changed" buffer))
    (with-current-buffer live
      (agent-q-buffers--edit-change tick start old new save))))

(defun agent-q-buffers--edit-change (tick start old new save)
  "Put NEW in the place of OLD at START in the current buffer, as of TICK.
Save it if SAVE is non-nil."
  (unless (= tick (buffer-chars-modified-tick))
    (error "The user has just changed the buffer %s; nothing was done.  Try again"
           (buffer-name)))
  (when buffer-read-only
    (error "The buffer %s is read-only; nothing was changed" (buffer-name)))
  (let ((from (1+ start))
        (to (+ 1 start (length old)))
        (modified (buffer-modified-p))
        (changed nil))
    (unless (<= (point-min) from to (point-max))
      (error "The buffer %s is narrowed by the user to lines %d to %d, and the change is outside; nothing was changed"
             (buffer-name)
             (line-number-at-pos (point-min) t) (line-number-at-pos (point-max) t)))
    (unless (equal old (agent-q-text-clean (buffer-substring-no-properties from to)))
      (error "The buffer %s has different text there; nothing was changed"
             (buffer-name)))
    (agent-q-buffers--edit-check-encodable new)
    (condition-case failure
        (agent-q-buffers--edit-as-one-step
          (agent-q-buffers--edit-replace from old new)
          (when save
            (setq changed (buffer-chars-modified-tick))
            (agent-q-buffers--edit-save)))
      (error
       (restore-buffer-modified-p modified)
       (when save
         (agent-q-buffers--edit-mend failure))
       (error "The buffer %s could not be %s (%s); nothing was changed"
              (buffer-name) (if save "changed and saved" "changed")
              (error-message-string failure))))
    (agent-q-json-serialize
     `((saved . ,(agent-q-buffers--edit-truth save))
       ;; The user's hooks may have made something else of it.
       (text . ,(if (and changed (/= changed (buffer-chars-modified-tick)))
                    (agent-q-buffers--edit-text)
                  :null))))))

(defconst agent-q-buffers--edit-most 50000
  "Texts of more characters are replaced as a whole.")

(defun agent-q-buffers--edit-replace (from old new)
  "Put NEW in the place of OLD at FROM.
Point and markers on lines that stay as they are stay with them."
  (let ((inhibit-message t))
    (save-excursion
      (if (> (max (length old) (length new)) agent-q-buffers--edit-most)
          (agent-q-buffers--edit-put from old new)
        (pcase-dolist (`(,line ,_ ,_ ,body . ,_) (nreverse (agent-q-core-diff-hunks old new 0)))
          (goto-char from)
          ;; The first line may begin before.
          (unless (zerop line)
            (forward-line line))
          (apply #'agent-q-buffers--edit-put (point) (agent-q-buffers--edit-sides body)))))))

(defun agent-q-buffers--edit-put (from old new)
  "Put NEW in the place of OLD at FROM."
  (goto-char from)
  ;; First in, then out: a user's marker on the old text stays near the new one.
  (insert new)
  (delete-region (point) (+ (point) (length old))))

(defun agent-q-buffers--edit-sides (body)
  "Return the old and the new text in BODY, the lines of a hunk without context."
  (let ((sides (list (cons ?- nil) (cons ?+ nil)))
        (last nil))
    (dolist (line (butlast (split-string body "\n")))
      (if-let ((side (assq (aref line 0) sides)))
          (push (concat (substring line 1) "\n") (cdr (setq last side)))
        ;; The line before has no end.
        (setcar (cdr last) (substring (cadr last) 0 -1))))
    (mapcar (lambda (side) (apply #'concat (reverse (cdr side)))) sides)))

(defun agent-q-buffers--edit-check-encodable (text)
  "Signal an error if the current buffer's file can't hold TEXT."
  (let ((coding buffer-file-coding-system))
    (when (and buffer-file-name coding
               (not (memq (coding-system-base coding) '(undecided raw-text no-conversion)))
               (not (string-empty-p text)))
      (let ((place (unencodable-char-position 0 (length text) coding nil text)))
        (when place
          (error "The file is in %s, which has no '%c'; use other characters"
                 coding (aref text place)))))))

(defun agent-q-buffers--edit-save ()
  "Save the current buffer as it is, and ask the user nothing."
  (let ((inhibit-interaction t)
        (inhibit-message t)
        (require-final-newline nil)
        (mode-require-final-newline nil)
        (coding-system-for-write buffer-file-coding-system))
    (agent-q-buffers--edit-make-sure-of-space)
    (basic-save-buffer))
  (when (buffer-modified-p)
    (error "It was not saved")))

(defun agent-q-buffers--edit-make-sure-of-space ()
  "Signal an error unless there is space for the file of the current buffer.
Emacs empties a file before it writes it, so a full disk would take it all."
  (let ((directory (file-name-directory buffer-file-name)))
    ;; What a handler writes, such as encrypted text, is not ours to write elsewhere.
    (unless (or (find-file-name-handler buffer-file-name 'write-region)
                (not (file-writable-p directory)))
      (let ((probe (make-temp-file (expand-file-name ".agent-q-" directory)))
            (write-region-inhibit-fsync t))
        (unwind-protect
            (write-region nil nil probe nil 'silent)
          (delete-file probe))))))

(defun agent-q-buffers--edit-mend (failure)
  "Write the current buffer's file again if it lost its text by FAILURE."
  (unless (agent-q-buffers--edit-as-on-disk-p)
    (condition-case nil
        (let ((coding-system-for-write buffer-file-coding-system)
              (inhibit-message t))
          (write-region nil nil buffer-file-name nil t buffer-file-truename))
      (error
       (set-buffer-modified-p t)
       (error "The file of the buffer %s could not be written (%s), and lost its text; all of the earlier text is in the buffer, unsaved"
              (buffer-name) (error-message-string failure))))))

(defun agent-q-buffers--edit-as-on-disk-p ()
  "Whether the file of the current buffer has its text."
  (let ((file buffer-file-name)
        (text (save-restriction
                (widen)
                (buffer-substring-no-properties (point-min) (point-max))))
        (coding-system-for-read buffer-file-coding-system))
    (and (file-exists-p file)
         (equal text (with-temp-buffer
                       (insert-file-contents file)
                       (buffer-string))))))

(agent-q-events-operation-define "visit-moved-file" (call buffer path)
  "Make BUFFER, whose file was moved, visit PATH from now on."
  (let ((live (get-buffer buffer)))
    (when live
      (with-current-buffer live
        (let ((modified (buffer-modified-p)))
          (set-visited-file-name path t t)
          (set-visited-file-modtime)
          (restore-buffer-modified-p modified))))
    "done"))

;;;; Looking at the user's buffers, for tools

;; Searching a buffer, listing buffers, and the outline of one.

(defconst agent-q-buffers--most-matches 100
  "Most matches of a search that are listed.")

(defconst agent-q-buffers--most-counted 10000
  "Most matches of a search that are counted.")

(defconst agent-q-buffers--search-seconds 2
  "Seconds that a search may take.")

(defconst agent-q-buffers--longest-match 2.5
  "Seconds that a search may go on without finding anything.")

(defconst agent-q-buffers--most-tries 10
  "How often a search that the user's keys interrupt is started again.")

(defconst agent-q-buffers--pause 0.3
  "Seconds to wait before a search is started again.")

;;;;; Searching

(defconst agent-q-buffers--longest-line 200
  "Most characters shown of a line with a match.")

(defun agent-q-buffers--match ()
  "Return the place of the match that was just found, and its line."
  (let ((start (match-beginning 0)))
    (format "Line %d, column %d, position %d: %s"
            (line-number-at-pos start t) (agent-q-buffers--column start) start
            (save-match-data (agent-q-buffers--line-at start)))))

(defun agent-q-buffers--line-at (position)
  "Return the text of the line at POSITION; of a long one, what is around."
  (save-excursion
    (goto-char position)
    (let* ((inhibit-field-text-motion t)
           (from (line-beginning-position))
           (to (line-end-position))
           (start (max from (min (- position (/ agent-q-buffers--longest-line 2))
                                 (- to agent-q-buffers--longest-line))))
           (end (min to (+ start agent-q-buffers--longest-line))))
      (concat (if (< from start) "..." "")
              (agent-q-text-clean (string-trim-right (buffer-substring-no-properties start end)))
              (if (< end to) "..." "")))))

(defun agent-q-buffers--column (position)
  "Return the column of POSITION, in characters from 1, of the whole buffer."
  (save-excursion
    (save-restriction
      (widen)
      (goto-char position)
      (let ((inhibit-field-text-motion t))
        (1+ (- position (line-beginning-position)))))))

(defun agent-q-buffers--search (pattern regex most)
  "Return the number of matches of PATTERN and the first ones, as lines.
PATTERN is a regular expression if REGEX is non-nil.  Stop after MOST."
  (let ((count 0)
        (lines nil)
        (limit (time-add nil agent-q-buffers--search-seconds))
        (going t))
    (goto-char (point-min))
    (while (and going (< count most)
                (if regex
                    (re-search-forward pattern nil t)
                  (search-forward pattern nil t)))
      (setq count (1+ count))
      (when (<= count agent-q-buffers--most-matches)
        (push (agent-q-buffers--match) lines))
      (cond ((/= (match-beginning 0) (match-end 0)))
            ;; An empty match would be found again for ever.
            ((eobp) (setq going nil))
            (t (forward-char)))
      (when (time-less-p limit nil)
        (setq going 'late)
        (setq most count)))
    (cons count (nreverse lines))))

(agent-q-events-operation-define "search-in-buffer" (call pattern buffer regex all_matches)
  "List the matches of PATTERN in BUFFER.
It is a regular expression if REGEX is true.  All matches are listed if
ALL_MATCHES is true, or else the first."
  (when (string-empty-p pattern)
    (error "The pattern is empty"))
  (let ((live (agent-q-buffers-edit-find-buffer buffer)))
    (agent-q-buffers--without-delay
     call agent-q-buffers--most-tries
     (lambda () (agent-q-buffers--found live pattern regex all_matches)))))

(defun agent-q-buffers--without-delay (call tries function)
  "Answer CALL with the value of FUNCTION, which any key of the user's stops.
Then it is called again a moment later, TRIES times in all.  A regular
expression may take for ever, so it is stopped where it does."
  (condition-case failure
      (let* ((end (+ (float-time) agent-q-buffers--longest-match))
             (answer (agent-q-buffers--within agent-q-buffers--longest-match function)))
        (cond ((stringp answer)
               (agent-q-events-operation-end call "done" answer))
              ((< end (float-time))
               (error "The search took too long; use a simpler pattern"))
              ((< 1 tries)
               (run-with-timer agent-q-buffers--pause nil #'agent-q-buffers--without-delay
                               call (1- tries) function))
              (t (error "The search took too long while the user works; use a simpler pattern"))))
    (error (agent-q-events-operation-end call "signalled" (error-message-string failure))))
  nil)

(defun agent-q-buffers--within (seconds function)
  "Return the value of FUNCTION; no string if input comes, or SECONDS are over.
Matching a regular expression hears no timer, but it does hear a signal,
of which a user who has a use for it gets none."
  (let ((number (and (fboundp 'agent-q-core-interrupt-in)
                     (eq 'ignore (lookup-key special-event-map [sigusr1]))
                     (agent-q-core-interrupt-in seconds)))
        (end (+ (float-time) seconds)))
    (unwind-protect
        (while-no-input (funcall function))
      (when number
        (agent-q-core-interrupt-not number)
        ;; Nothing else would read it there.
        (when (and noninteractive (< end (float-time)))
          (discard-input))))))

(defun agent-q-buffers--found (buffer pattern regex all-matches)
  "Return the matches of PATTERN in BUFFER as text.
REGEX and ALL-MATCHES are as in the tool."
  (with-current-buffer buffer
    (let* ((case-fold-search (isearch-no-upper-case-p pattern regex))
           (most (if all-matches agent-q-buffers--most-counted 1))
           (found (condition-case failure
                      (save-excursion
                        (save-match-data
                          (agent-q-buffers--search pattern regex most)))
                    (invalid-regexp
                     (error "The regular expression is not valid: %s"
                            (cadr failure)))))
           (count (car found)))
      (if (zerop count)
          (format "No matches found for '%s' in %s%s" pattern (buffer-name)
                  (agent-q-buffers--narrowed))
        (concat (format "Found %d%s %s for '%s' in %s%s:\n\n" count
                        (if (and all-matches (= count most)) " or more" "")
                        (if (= count 1) "match" "matches")
                        pattern (buffer-name) (agent-q-buffers--narrowed))
                (string-join (cdr found) "\n")
                (if (nthcdr (1- agent-q-buffers--most-matches) (cdr found))
                    (format "\n... %d more" (- count (length (cdr found))))
                  ""))))))

(defun agent-q-buffers--narrowed ()
  "Return what the user narrowed the current buffer to, as words."
  (if (buffer-narrowed-p)
      (format " (which the user narrowed to lines %d to %d)"
              (line-number-at-pos (point-min) t)
              (line-number-at-pos (point-max) t))
    ""))

;;;;; Lists

(agent-q-events-operation-define "list-buffers" (call)
  "List the buffers that the user works in."
  (let ((buffers (seq-filter #'agent-q-session-user-buffer-p (buffer-list))))
    (if buffers
        (mapconcat #'agent-q-buffers--line buffers "\n")
      "The user has no buffers open.")))

(defun agent-q-buffers--line (buffer)
  "Return a line about BUFFER."
  (with-current-buffer buffer
    (concat (buffer-name)
            (format " (%s)" major-mode)
            (if buffer-file-name
                (concat " " (abbreviate-file-name buffer-file-name))
              "")
            (if (and buffer-file-name (buffer-modified-p)) ", unsaved changes" "")
            (if buffer-read-only ", read-only" ""))))

;;;;; Outlines

(defconst agent-q-buffers--most-forms 300
  "Most forms listed in an outline.")

(agent-q-events-operation-define "buffer-outline" (call buffer)
  "List the top-level forms of BUFFER."
  (with-current-buffer (agent-q-buffers-edit-find-buffer buffer)
    (let ((lines (save-excursion
                   (save-restriction
                     (widen)
                     (agent-q-buffers--outline)))))
      (if lines
          (concat (format "Top-level forms of %s:\n\n" (buffer-name))
                  (string-join (seq-take lines agent-q-buffers--most-forms) "\n")
                  (if (nthcdr agent-q-buffers--most-forms lines)
                      (format "\n... %d more"
                              (- (length lines) agent-q-buffers--most-forms))
                    ""))
        (format "%s has no top-level forms." (buffer-name))))))

(defun agent-q-buffers--outline ()
  "Return a line for each top-level form of the current buffer."
  (let ((lines nil))
    (goto-char (point-min))
    (while (and (progn (forward-comment (point-max)) (not (eobp)))
                (let ((start (point))
                      (end (ignore-errors (scan-sexps (point) 1))))
                  (if end
                      (progn
                        (push (agent-q-buffers--form start end) lines)
                        (goto-char end))
                    (push (format "The parentheses don't match from line %d on."
                                  (line-number-at-pos start))
                          lines)
                    nil))))
    (nreverse lines)))

(defun agent-q-buffers--form (start end)
  "Return a line about the form between START and END."
  (goto-char start)
  (format "%d-%d: %s" (line-number-at-pos start) (line-number-at-pos end)
          (agent-q-text-clean
           (truncate-string-to-width
            (buffer-substring-no-properties
             start (min end (line-end-position)))
            100 nil nil "..."))))

(provide 'agent-q-buffers)
;;; agent-q-buffers.el ends here
