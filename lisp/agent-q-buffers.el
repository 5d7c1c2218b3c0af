;;; agent-q-buffers.el --- Looking at the user's buffers, for tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Searching a buffer, listing buffers, and the outline of one.

;;; Code:

(require 'agent-q-edit)
(require 'agent-q-operations)
(require 'agent-q-text)
(require 'agent-q-user)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

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

;;;; Searching

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

(agent-q-operations-define "search-in-buffer" (call pattern buffer regex all_matches)
  "List the matches of PATTERN in BUFFER.
It is a regular expression if REGEX is true.  All matches are listed if
ALL_MATCHES is true, or else the first."
  (when (string-empty-p pattern)
    (error "The pattern is empty"))
  (let ((live (agent-q-edit-find-buffer buffer)))
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
               (agent-q-operations-answer call "done" answer))
              ((< end (float-time))
               (error "The search took too long; use a simpler pattern"))
              ((< 1 tries)
               (run-with-timer agent-q-buffers--pause nil #'agent-q-buffers--without-delay
                               call (1- tries) function))
              (t (error "The search took too long while the user works; use a simpler pattern"))))
    (error (agent-q-operations-answer call "signalled" (error-message-string failure))))
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

;;;; Lists

(agent-q-operations-define "list-buffers" (call)
  "List the buffers that the user works in."
  (let ((buffers (seq-filter #'agent-q-user-buffer-p (buffer-list))))
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

;;;; Outlines

(defconst agent-q-buffers--most-forms 300
  "Most forms listed in an outline.")

(agent-q-operations-define "buffer-outline" (call buffer)
  "List the top-level forms of BUFFER."
  (with-current-buffer (agent-q-edit-find-buffer buffer)
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
