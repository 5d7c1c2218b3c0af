;;; agent-q-call-change.el --- What a call makes of a file  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An edit is described by a file and numbers of lines, and shown as a diff: in its request
;; with the core's hunks, and in the log with the diff that its result holds.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-render)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-change (:constructor agent-q-call-change--make) (:copier nil))
  "The change that a call makes to the file PATH.
NEW means that there is no such file yet, NOTE says what else becomes of
it, and MOVES which file gets which name, or is nil.  HUNKS are lists as the
core gives them."
  path new note moves hunks)

(defun agent-q-call-change-of (preview)
  "Return the change in PREVIEW, the core's, or nil without one."
  (pcase preview
    (`(,path ,_file ,original ,modified ,_divisible ,note ,moves)
     (agent-q-call-change--make
      :path path :new (null original) :note note :moves moves
      :hunks (agent-q-core-diff-hunks (or original "") modified 3)))))

;;;; As a part of a line

(defun agent-q-call-change--lines (added removed)
  "Return the numbers of ADDED and REMOVED lines as text."
  (format "+%d -%d" added removed))

(defun agent-q-call-change--hunks (count)
  "Return COUNT hunks as the end of a text; one needs no word."
  (if (< count 2) "" (format ", %d hunks" count)))

(defun agent-q-call-change--defined (heading)
  "Return the name of the definition that begins with the line HEADING, or nil."
  (and (string-match
        (concat "\\`(\\(?:[^ ()]*:\\)?\\(?:def[^ ()]*\\|[^ ()]*test\\) +"
                "\\(?:\\((setf [^ ()]+)\\)\\|['(]*\\([^ ()]+\\)\\)")
        heading)
       (or (match-string 1 heading) (match-string 2 heading))))

(defun agent-q-call-change--place (call name headings)
  "Return the place of what CALL changed: the file NAME, and what HEADINGS define."
  (let* ((named (and (equal (agent-q-call-tool call) "edit_definition")
                     (cdr (assq 'name (agent-q-call-parsed-arguments call)))))
         (names (if (stringp named) (list named)
                  (seq-uniq (delq nil (mapcar #'agent-q-call-change--defined headings)))))
         (more (1- (length names))))
    (concat (if names (agent-q-visible-line (car names) 60) "")
            (if (> more 0) (format " and %d more" more) "")
            (if names " in " "")
            name)))

(defun agent-q-call-change-counts (change)
  "Return the numbers of lines and hunks of CHANGE as text."
  (let* ((hunks (agent-q-change-hunks change))
         (sum (lambda (place)
                (seq-reduce #'+ (mapcar (lambda (hunk) (nth place hunk)) hunks) 0))))
    (concat (agent-q-call-change--lines (funcall sum 4) (funcall sum 5))
            (if (agent-q-change-new change) ""
              (agent-q-call-change--hunks (length hunks))))))

(defun agent-q-call-change-mere-move-p (change)
  "Whether CHANGE is to move a file, and no text is lost."
  (and (agent-q-change-moves change)
       (null (agent-q-change-hunks change))))

(defun agent-q-call-change-summary (call)
  "Return the change of CALL as a part of a line: its place and its counts."
  (let* ((change (agent-q-call-change call))
         (name (agent-q-call-change-name change)))
    (if (agent-q-call-change-mere-move-p change) name
      (concat (if (or (agent-q-change-new change) (agent-q-change-moves change)) name
                (agent-q-call-change--place
                 call name (mapcar (lambda (hunk) (nth 6 hunk)) (agent-q-change-hunks change))))
              " " (agent-q-call-change-counts change)))))

(defun agent-q-call-change-name (change)
  "Return the file of CHANGE as a part of a line."
  (if (agent-q-change-moves change)
      (agent-q-visible-line (agent-q-change-moves change))
    (concat (agent-q-visible-line (agent-q-change-path change))
            (if (agent-q-change-new change) " (new)" ""))))

(defun agent-q-call-change-verb (change)
  "Return what a yes to CHANGE does, as a verb."
  (if (agent-q-change-moves change) "Move" "Apply"))

;;;; In the result of a call

(defconst agent-q-call-change--diff
  (concat "^--- \\(?:a/.*\\|/dev/null\\)\n"
          "\\+\\+\\+ \\(?:b/.*\\|/dev/null\\)\n@@ ")
  "What the diff in a result begins with.")

(defun agent-q-call-change--done-in (call)
  "Return where a diff begins in the result of CALL on a file, or nil."
  (let ((content (agent-q-call-content call)))
    (and content
         (eq (agent-q-call-state call) 'succeeded)
         (assq 'path (agent-q-call-parsed-arguments call))
         (string-match agent-q-call-change--diff content))))

(defun agent-q-call-change-done (call)
  "Return CALL's change of a file as a part of its line, or nil."
  (if-let ((start (agent-q-call-change--done-in call)))
      (agent-q-call-change--said call start)
    (when (and (eq (agent-q-call-state call) 'succeeded)
               (agent-q-call-change call))
      (agent-q-call-change-summary call))))

(defun agent-q-call-change--said (call start)
  "Return the diff at START in the result of CALL as a part of a line."
  (let ((added 0) (removed 0) (headings nil) (new nil)
        (answer (or (agent-q-call-answered call) "")))
    (with-temp-buffer
      (insert (substring (agent-q-call-content call) start))
      (goto-char (point-min))
      (setq new (looking-at-p "--- /dev/null$"))
      ;; The names of the files have signs, too.
      (forward-line 2)
      (while (not (eobp))
        (pcase (char-after)
          (?+ (cl-incf added))
          (?- (cl-incf removed))
          (?@ (push (if (looking-at "@@ .*? @@ \\(.+\\)") (match-string 1) "") headings)))
        (forward-line)))
    (format "%s %s%s"
            (agent-q-call-change--place
             call
             (agent-q-visible-line
              (format "%s" (cdr (assq 'path (agent-q-call-parsed-arguments call)))))
             (and (not new) (reverse headings)))
            (agent-q-call-change--lines added removed)
            (if (string-match "[0-9]+ of [0-9]+ hunks" answer) (concat ", " (match-string 0 answer))
              (agent-q-call-change--hunks (length headings))))))

;;;; As a diff

(defun agent-q-call-change--face (line)
  "Return the face of LINE, a line of a diff."
  (pcase (and (> (length line) 0) (aref line 0))
    (?+ 'diff-added)
    (?- 'diff-removed)
    (?@ 'diff-hunk-header)
    (_ 'diff-context)))

(defun agent-q-call-change--names-p (lines)
  "Whether LINES of a diff begin with the names of a file.
Lines that are removed and added look so, too, but no hunk begins behind them."
  (cl-every (lambda (prefix) (string-prefix-p prefix (or (pop lines) "")))
            '("--- " "+++ " "@@ ")))

(defun agent-q-call-change--faces (text)
  "Return TEXT, hunks of a diff, with the faces of `diff-mode'.
The end of a line is in the face, too, where that goes on to the edge."
  (let ((lines (split-string text "\n")) (names 0) (parts nil))
    (while lines
      (when (agent-q-call-change--names-p lines)
        (setq names 2))
      (let ((face (if (> names 0) 'diff-file-header
                    (agent-q-call-change--face (car lines)))))
        (push (propertize (car lines) 'face face) parts)
        (when (cdr lines)
          (push (if (agent-q-render-extends-p face) (propertize "\n" 'face face) "\n") parts)))
      (setq names (1- names)
            lines (cdr lines)))
    (apply #'concat (nreverse parts))))

(defun agent-q-call-change-diff-body (text)
  "Return TEXT, a diff, as the body of an item."
  (agent-q-render-body text (lambda (text)
                              (agent-q-call-change--faces (agent-q-visible text)))))

(defun agent-q-call-change-done-body (call)
  "Return CALL's change of a file as the body of an item, or nil."
  (if-let ((start (agent-q-call-change--done-in call)))
      (agent-q-call-change--said-body call start)
    (when-let ((change (and (eq (agent-q-call-state call) 'succeeded)
                            (agent-q-call-change call))))
      (agent-q-call-change-body change))))

(defun agent-q-call-change--said-body (call start)
  "Return the result of CALL, with a diff at START, as the body of an item."
  (let* ((content (agent-q-call-content call))
         (said (string-trim (substring content 0 start))))
    (concat (if (string-empty-p said) ""
              (concat (agent-q-render-body said #'agent-q-visible-prose 'face 'agent-q-dim)
                      "\n"))
            (agent-q-call-change-diff-body (string-trim-right (substring content start))))))

(defun agent-q-call-change-body (change)
  "Return CHANGE as the body of an item: its note, and a diff."
  (let ((note (or (agent-q-change-note change) "")))
    (if (agent-q-call-change-mere-move-p change)
        ;; The line above says it.
        ""
      (concat
       (if (string-empty-p note) ""
         (propertize (concat (agent-q-visible note) "\n")
                     'face 'agent-q-dim 'line-prefix "    "
                     'wrap-prefix agent-q-call-value-prefix))
       (agent-q-call-change-diff-body
        (if (agent-q-change-hunks change)
            (string-trim-right
             (mapconcat (lambda (hunk) (concat (nth 2 hunk) "\n" (nth 3 hunk)))
                        (agent-q-change-hunks change) "")
             "\n+")
          "(no lines)"))))))

(provide 'agent-q-call-change)
;;; agent-q-call-change.el ends here
