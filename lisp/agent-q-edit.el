;;; agent-q-edit.el --- Changes of the user's buffers, for tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core decides what a text is to become; here a buffer is looked at and
;; changed: as one undo step, only where it differs, and never blindly.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-operations)
(require 'agent-q-text)
(require 'agent-q-user)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-edit-find-buffer (name)
  "Return the buffer called NAME, or without one the user's last one."
  (if name
      (let ((buffer (get-buffer name)))
        ;; In the minibuffer a password may be typed.
        (if (and buffer (not (minibufferp buffer)))
            buffer
          (error "No buffer is named %s" name)))
    (or (agent-q-user-last-buffer)
        (error "The user is not working in any buffer"))))

;;;; Looking

(defun agent-q-edit--stale-p ()
  "Whether the file of the current buffer was changed behind its back."
  (and buffer-file-name
       (file-exists-p buffer-file-name)
       (not (verify-visited-file-modtime (current-buffer)))))

(defun agent-q-edit--gone-p ()
  "Whether the file of the current buffer was deleted."
  (and buffer-file-name
       (consp (visited-file-modtime))
       (not (file-exists-p buffer-file-name))))

(defun agent-q-edit--truth (value)
  "Return VALUE as a truth value of JSON."
  (if value t :false))

(defun agent-q-edit--text ()
  "Return the whole text of the current buffer, one character for each of its."
  (save-restriction
    (widen)
    (agent-q-text-clean (buffer-substring-no-properties (point-min) (point-max)))))

(defun agent-q-edit--state (buffer with-text)
  "Return the state of BUFFER as JSON, with its text if WITH-TEXT is non-nil."
  (with-current-buffer buffer
    (agent-q-json-serialize
     `((buffer . ,(agent-q-text-clean (buffer-name)))
       (file . ,(if buffer-file-name
                    (agent-q-text-clean (expand-file-name (or buffer-file-truename
                                                              buffer-file-name)))
                  :null))
       (text . ,(if with-text (agent-q-edit--text) :null))
       (modified . ,(agent-q-edit--truth (buffer-modified-p)))
       (tick . ,(buffer-chars-modified-tick))
       (read_only . ,(agent-q-edit--truth buffer-read-only))
       (stale . ,(agent-q-edit--truth (agent-q-edit--stale-p)))
       (gone . ,(agent-q-edit--truth (agent-q-edit--gone-p)))
       (point . ,(1- (point)))))))

(defun agent-q-edit--revert (buffer)
  "Read the file of BUFFER again if it was changed and the buffer was not.
Return BUFFER."
  (with-current-buffer buffer
    (when (and (not (buffer-modified-p)) (agent-q-edit--stale-p))
      (let ((inhibit-interaction t)
            (inhibit-message t))
        ;; If that fails, the caller finds it stale.
        (ignore-errors (revert-buffer t t t)))))
  buffer)

(agent-q-operations-define "file-buffer" (call path whole)
  "Return the state of the buffer that visits PATH, or null.
Its text is included if WHOLE is true, which is for a change, or there are
unsaved changes."
  (let ((buffer (find-buffer-visiting path)))
    (when (and buffer whole)
      (agent-q-edit--revert buffer))
    (if (buffer-live-p buffer)
        (agent-q-edit--state buffer (or whole (buffer-modified-p buffer)))
      "null")))

(agent-q-operations-define "buffer-state" (call buffer)
  "Return the state of the buffer named BUFFER with its text."
  (let ((live (agent-q-edit-find-buffer buffer)))
    ;; What is typed in the minibuffer or a chat is the user's own word.
    (unless (agent-q-user-buffer-p live)
      (error "Writing to the buffer %s is not allowed" (buffer-name live)))
    (agent-q-edit--state live t)))

;;;; Changing

(defmacro agent-q-edit--as-one-step (&rest body)
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

(agent-q-operations-define "change-buffer" (call buffer tick start old new save)
  "Put NEW in the place of OLD, START characters into BUFFER.
TICK is that of the text which the change is for.  Save the buffer if
SAVE is true."
  (let ((live (get-buffer buffer)))
    (unless live
      (error "The buffer %s has been killed; nothing was changed" buffer))
    (with-current-buffer live
      (agent-q-edit--change tick start old new save))))

(defun agent-q-edit--change (tick start old new save)
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
    (agent-q-edit--check-encodable new)
    (condition-case failure
        (agent-q-edit--as-one-step
          (agent-q-edit--replace from old new)
          (when save
            (setq changed (buffer-chars-modified-tick))
            (agent-q-edit--save)))
      (error
       (restore-buffer-modified-p modified)
       (when save
         (agent-q-edit--mend failure))
       (error "The buffer %s could not be %s (%s); nothing was changed"
              (buffer-name) (if save "changed and saved" "changed")
              (error-message-string failure))))
    (agent-q-json-serialize
     `((saved . ,(agent-q-edit--truth save))
       ;; The user's hooks may have made something else of it.
       (text . ,(if (and changed (/= changed (buffer-chars-modified-tick)))
                    (agent-q-edit--text)
                  :null))))))

(defconst agent-q-edit--most 50000
  "Texts of more characters are replaced as a whole.")

(defun agent-q-edit--replace (from old new)
  "Put NEW in the place of OLD at FROM.
Point and markers on lines that stay as they are stay with them."
  (let ((inhibit-message t))
    (save-excursion
      (if (> (max (length old) (length new)) agent-q-edit--most)
          (agent-q-edit--put from old new)
        (pcase-dolist (`(,line ,_ ,_ ,body . ,_) (nreverse (agent-q-core-diff-hunks old new 0)))
          (goto-char from)
          ;; The first line may begin before.
          (unless (zerop line)
            (forward-line line))
          (apply #'agent-q-edit--put (point) (agent-q-edit--sides body)))))))

(defun agent-q-edit--put (from old new)
  "Put NEW in the place of OLD at FROM."
  (goto-char from)
  ;; First in, then out: a user's marker on the old text stays near the new one.
  (insert new)
  (delete-region (point) (+ (point) (length old))))

(defun agent-q-edit--sides (body)
  "Return the old and the new text in BODY, the lines of a hunk without context."
  (let ((sides (list (cons ?- nil) (cons ?+ nil)))
        (last nil))
    (dolist (line (butlast (split-string body "\n")))
      (if-let ((side (assq (aref line 0) sides)))
          (push (concat (substring line 1) "\n") (cdr (setq last side)))
        ;; The line before has no end.
        (setcar (cdr last) (substring (cadr last) 0 -1))))
    (mapcar (lambda (side) (apply #'concat (reverse (cdr side)))) sides)))

(defun agent-q-edit--check-encodable (text)
  "Signal an error if the current buffer's file can't hold TEXT."
  (let ((coding buffer-file-coding-system))
    (when (and buffer-file-name coding
               (not (memq (coding-system-base coding) '(undecided raw-text no-conversion)))
               (not (string-empty-p text)))
      (let ((place (unencodable-char-position 0 (length text) coding nil text)))
        (when place
          (error "The file is in %s, which has no '%c'; use other characters"
                 coding (aref text place)))))))

(defun agent-q-edit--save ()
  "Save the current buffer as it is, and ask the user nothing."
  (let ((inhibit-interaction t)
        (inhibit-message t)
        (require-final-newline nil)
        (mode-require-final-newline nil)
        (coding-system-for-write buffer-file-coding-system))
    (agent-q-edit--make-sure-of-space)
    (basic-save-buffer))
  (when (buffer-modified-p)
    (error "It was not saved")))

(defun agent-q-edit--make-sure-of-space ()
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

(defun agent-q-edit--mend (failure)
  "Write the current buffer's file again if it lost its text by FAILURE."
  (unless (agent-q-edit--as-on-disk-p)
    (condition-case nil
        (let ((coding-system-for-write buffer-file-coding-system)
              (inhibit-message t))
          (write-region nil nil buffer-file-name nil t buffer-file-truename))
      (error
       (set-buffer-modified-p t)
       (error "The file of the buffer %s could not be written (%s), and lost its text; all of the earlier text is in the buffer, unsaved"
              (buffer-name) (error-message-string failure))))))

(defun agent-q-edit--as-on-disk-p ()
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

(agent-q-operations-define "visit-moved-file" (call buffer path)
  "Make BUFFER, whose file was moved, visit PATH from now on."
  (let ((live (get-buffer buffer)))
    (when live
      (with-current-buffer live
        (let ((modified (buffer-modified-p)))
          (set-visited-file-name path t t)
          (set-visited-file-modtime)
          (restore-buffer-modified-p modified))))
    "done"))

(provide 'agent-q-edit)
;;; agent-q-edit.el ends here
