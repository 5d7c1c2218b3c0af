;;; agent-q-call.el --- Tool calls in the log of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The tool calls of a chat: what is known of each, which of them run or wait for an
;; answer, and their text in the log.  agent-q-call-events.el changes them.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-live)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-text)
(require 'cl-lib)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-call (:include agent-q-render-item)
                            (:constructor agent-q-call-make))
  "A tool call.
KEY is the core's name for it, ARGUMENTS the JSON text, STATE one of
`proposed', `waiting', `running', `succeeded', `failed', `denied' and
`cancelled'.  LEVEL and REASON say why it needs approval; GROUNDS is `:usual'
where each call of its tool does, for that reason.  TARGET names the image it
concerns.  ARMED is t while a decision counts, `seen' when it did before another
call was decided, `rule' before a rule came below; ENDED is t when its end was
on the screen after that, SINCE says when it began to be armed or to show its
end, BELOW how many of its lines didn't fit, TAIL how many characters of its
end were on the screen before its head; TIMER sees to that, and DECIDED is the
decision.  DRAWN is `full' or `folded', as the request was drawn last.  OFFER
holds the rules that were shown, an `agent-q-approval-display-offer', and
REVIEW the buffer of its diff review.  BESIDE says that this is shown instead
of the change itself.  CHANGE is what it makes of a file, an
`agent-q-call-file-change'.  PARSED, SUMMARY and OUTCOME are what was made of
ARGUMENTS or CONTENT last, a cons with them.  OUTPUT is what it has printed
while it runs, a list of the end of that, the number of its characters, and
when it came.  PROGRESS is how far it is, a cons of a line and when that
came, or nil.  KEPT is the call into the image whose stack is kept since it
failed.  LAST is the last of the calls that it made itself, MAKER the call that
made it, if one did.  EQUAL are the calls below it that failed the same way,
latest first, and HEAD is the call whose line speaks for this one, too."
  key tool arguments state content milliseconds started
  level reason grounds armed since ended below tail decided target timer drawn
  offer review beside change parsed summary outcome output progress kept last maker equal head)

(defvar-local agent-q-call-table nil
  "The tool calls of this chat by key.")

(defvar-local agent-q-call-unfinished nil
  "The tool calls of this chat that have no result yet, by key.")

(defvar-local agent-q-call-active nil
  "The tool calls of this chat that run or wait for a decision.
The core lets few of a message do so, however many it has.")

(defvar agent-q-call-settled-functions nil
  "Functions called with a tool call when it was decided or is over.")

(defun agent-q-call-setup ()
  "Make the current buffer ready to show tools at work."
  (setq agent-q-call-table (make-hash-table)
        agent-q-call-unfinished (make-hash-table)
        agent-q-call-active nil))

;;;;; Arguments

(defun agent-q-call-parsed-arguments (call)
  "Return the arguments of CALL as an alist, or nil; they are parsed once."
  (let ((arguments (agent-q-call-arguments call))
        (parsed (agent-q-call-parsed call)))
    ;; They come with several events, and may be megabytes.
    (if (equal arguments (car parsed))
        (when parsed (setcar parsed arguments))
      (setf (agent-q-call-parsed call)
            (cons arguments
                  (let ((parsed (agent-q-json-value-parse arguments)))
                    (or (and (equal (agent-q-call-tool call) "run_command")
                             (agent-q-call--as-typed parsed))
                        parsed)))))
    (cdr (agent-q-call-parsed call))))

(defun agent-q-call--as-typed (arguments)
  "Return ARGUMENTS, of a program that is run, with its command line as one.
It is quoted as for a shell.  Nil where they aren't such arguments."
  (let ((words (cons (alist-get 'program arguments)
                     (append (alist-get 'arguments arguments) nil))))
    (when (seq-every-p #'stringp words)
      (cons (cons 'command (mapconcat #'agent-q-text-shell-word words " "))
            (seq-remove (lambda (it) (memq (car it) '(program arguments))) arguments)))))

(defun agent-q-call-on-one-line (text)
  "Return the beginning of TEXT without its line breaks."
  (let ((line (string-trim (if (> (length text) 1000) (substring text 0 1000) text))))
    ;; Taking a text apart makes garbage, and most are one line already.
    (if (string-match-p "[\t\n]\\|  " line)
        (replace-regexp-in-string
         ;; The blanks within a string are what it is; a character may be written as a quote.
         "#\\\\.\\|\"\\(?:[^\"\\]\\|\\\\.\\)*\"\\|[ \t\n]+"
         (lambda (part)
           (cond ((eq (aref part 0) ?#) part)
                 ((eq (aref part 0) ?\") (replace-regexp-in-string "[ \t]*\n[ \t\n]*" " " part))
                 (t " ")))
         line t t)
      line)))

(defun agent-q-call-cut (text width)
  "Return TEXT, one line, cut to WIDTH columns."
  (if (<= (string-width text) width)
      text
    (truncate-string-to-width text width nil nil (agent-q-render-sign 'ellipsis))))

(defconst agent-q-call--denied "User denied tool execution"
  "How the result begins of what the user denied; the reason follows.")

(defconst agent-q-call--unconnected "No Lisp image is connected"
  "How the core begins to say that a call needs an image; a button says the rest.")

(defun agent-q-call-verdict (text)
  "Return TEXT from its verdict on, where it begins with what was tested."
  (if (string-match "\\`Tests of .*?: \\(?:FAILED\\|PASSED\\|No test\\|The tests\\)" text)
      (substring text (+ 2 (string-search ": " text)))
    text))

(defun agent-q-call-trouble (call)
  "Return why CALL failed or was denied, one line; nil if that is not known."
  (when-let* ((content (and (memq (agent-q-call-state call) '(failed denied))
                            (agent-q-call-content call)))
              ;; It may be as long as what a program printed.
              (begins (substring content 0 (min 2000 (length content))))
              (said (string-trim-left (string-remove-prefix agent-q-call--denied begins)
                                      "[ \t\n:]+"))
              ;; The sign before it says that.
              (said (replace-regexp-in-string "\\`Error \\([^ ]+\\(?: at [^ ]+\\)?: \\)" "\\1" said))
              ;; The model is told so twice.
              (said (replace-regexp-in-string
                     "\\`Missing required field: \\([^ ]+\\) (required .*? missing)"
                     "the model left out '\\1'" said))
              (said (string-replace " Read it again first." "" said))
              (said (if (string-prefix-p agent-q-call--unconnected said) agent-q-call--unconnected
                      said)))
    (unless (string-empty-p said)
      (agent-q-text-visible
       (agent-q-call-on-one-line
        (agent-q-call-verdict (substring said 0 (string-search "\n" said))))))))

(defvar agent-q-call-indent 0
  "How many columns are left free before the line that is drawn.")

(defun agent-q-call-width ()
  "Return how many columns a line of this chat has in its narrowest window."
  (if-let ((windows (get-buffer-window-list nil nil t)))
      ;; One is for the sign of a line that goes on.  `window-max-chars-per-line'
      ;; would select the window, and so move point.
      (- (apply #'min (mapcar #'window-body-width windows)) 1 agent-q-call-indent)
    80))

(defconst agent-q-call-value-prefix "      "
  "What is in front of the lines of an argument but its first.
Such a line begins further right than an argument's name, and can't be
taken for one.")

;;;;; Which of them wait, and run

(defun agent-q-call--in-state (state)
  "Return what is in STATE, `waiting' or `running', in this chat, as in its log."
  (sort (seq-filter (lambda (call) (eq (agent-q-call-state call) state))
                    agent-q-call-active)
        (lambda (one other)
          (< (agent-q-render-item-start one) (agent-q-render-item-start other)))))

(defun agent-q-call-running ()
  "Return what is running now and can be seen, first one first."
  (seq-remove #'agent-q-render-item-hidden (agent-q-call--in-state 'running)))

(defun agent-q-call-all-waiting ()
  "Return each call of this chat that waits for a decision, first one first."
  (seq-remove #'agent-q-call-decided (agent-q-call--in-state 'waiting)))

(defun agent-q-call-waiting ()
  "Return the first call of this chat that waits for a decision, or nil."
  (car (agent-q-call-all-waiting)))

(defun agent-q-call-open-p (call)
  "Whether CALL waits for a decision."
  (and (agent-q-call-p call)
       (eq (agent-q-call-state call) 'waiting)
       (not (agent-q-call-decided call))))

(defun agent-q-call-full-p (call)
  "Whether the request for CALL is shown in full.
That is so for the next one, and for those that were unfolded."
  (or (agent-q-render-item-expanded call)
      (eq call (agent-q-call-waiting))))

(defun agent-q-call-second-lisp (call)
  "Return the name of the Lisp that CALL is about, if the user doesn't see it."
  (let ((made (or (agent-q-call-maker call) call)))
    (if (equal (agent-q-call-tool made) "verify_system")
        "a fresh one"
      (let ((image (cdr (assq 'image (agent-q-call-parsed-arguments made)))))
        (and (equal image "scratch") image)))))

(defun agent-q-call-effect-p (call)
  "Whether CALL stands for an effect of running code."
  (agent-q-registry-effect-p (agent-q-call-tool call)))

;;;; What a call makes of a file

;; An edit is described by a file and numbers of lines, and shown as a diff: in its request
;; with the core's hunks, and in the log with the diff that its result holds.

(cl-defstruct (agent-q-call-file-change (:constructor agent-q-call--change-make) (:copier nil))
  "The change that a call makes to the file PATH.
NEW means that there is no such file yet, NOTE says what else becomes of
it, and MOVES which file gets which name, or is nil.  HUNKS are lists as the
core gives them."
  path new note moves hunks)

(defun agent-q-call-change-of (preview)
  "Return the change in PREVIEW, the core's, or nil without one."
  (pcase preview
    (`(,path ,_file ,original ,modified ,_divisible ,note ,moves)
     (agent-q-call--change-make
      :path path :new (null original) :note note :moves moves
      :hunks (agent-q-core-diff-hunks (or original "") modified 3)))))

;;;;; As a part of a line

(defun agent-q-call--change-lines (added removed)
  "Return the numbers of ADDED and REMOVED lines as text."
  (format "+%d -%d" added removed))

(defun agent-q-call--change-hunks (count)
  "Return COUNT hunks as the end of a text; one needs no word."
  (if (< count 2) "" (format ", %d hunks" count)))

(defun agent-q-call--change-defined (heading)
  "Return the name of the definition that begins with the line HEADING, or nil."
  (and (string-match
        (concat "\\`(\\(?:[^ ()]*:\\)?\\(?:def[^ ()]*\\|[^ ()]*test\\) +"
                "\\(?:\\((setf [^ ()]+)\\)\\|['(]*\\([^ ()]+\\)\\)")
        heading)
       (or (match-string 1 heading) (match-string 2 heading))))

(defun agent-q-call--change-place (call name headings)
  "Return the place of what CALL changed: the file NAME, and what HEADINGS define."
  (let* ((named (and (equal (agent-q-call-tool call) "edit_definition")
                     (cdr (assq 'name (agent-q-call-parsed-arguments call)))))
         (names (if (stringp named) (list named)
                  (seq-uniq (delq nil (mapcar #'agent-q-call--change-defined headings)))))
         (more (1- (length names))))
    (concat (if names (agent-q-text-visible-line (car names) 60) "")
            (if (> more 0) (format " and %d more" more) "")
            (if names " in " "")
            name)))

(defun agent-q-call-change-counts (change)
  "Return the numbers of lines and hunks of CHANGE as text."
  (let* ((hunks (agent-q-call-file-change-hunks change))
         (sum (lambda (place)
                (seq-reduce #'+ (mapcar (lambda (hunk) (nth place hunk)) hunks) 0))))
    (concat (agent-q-call--change-lines (funcall sum 4) (funcall sum 5))
            (if (agent-q-call-file-change-new change) ""
              (agent-q-call--change-hunks (length hunks))))))

(defun agent-q-call-change-mere-move-p (change)
  "Whether CHANGE is to move a file, and no text is lost."
  (and (agent-q-call-file-change-moves change)
       (null (agent-q-call-file-change-hunks change))))

(defun agent-q-call-change-summary (call)
  "Return the change of CALL as a part of a line: its place and its counts."
  (let* ((change (agent-q-call-change call))
         (name (agent-q-call-change-name change)))
    (if (agent-q-call-change-mere-move-p change) name
      (concat (if (or (agent-q-call-file-change-new change) (agent-q-call-file-change-moves change)) name
                (agent-q-call--change-place
                 call name (mapcar (lambda (hunk) (nth 6 hunk)) (agent-q-call-file-change-hunks change))))
              " " (agent-q-call-change-counts change)))))

(defun agent-q-call-change-name (change)
  "Return the file of CHANGE as a part of a line."
  (if (agent-q-call-file-change-moves change)
      (agent-q-text-visible-line (agent-q-call-file-change-moves change))
    (concat (agent-q-text-visible-line (agent-q-call-file-change-path change))
            (if (agent-q-call-file-change-new change) " (new)" ""))))

(defun agent-q-call-change-verb (change)
  "Return what a yes to CHANGE does, as a verb."
  (if (agent-q-call-file-change-moves change) "Move" "Apply"))

;;;;; In the result of a call

(defconst agent-q-call--change-diff
  (concat "^--- \\(?:a/.*\\|/dev/null\\)\n"
          "\\+\\+\\+ \\(?:b/.*\\|/dev/null\\)\n@@ ")
  "What the diff in a result begins with.")

(defun agent-q-call--change-done-in (call)
  "Return where a diff begins in the result of CALL on a file, or nil."
  (let ((content (agent-q-call-content call)))
    (and content
         (eq (agent-q-call-state call) 'succeeded)
         (assq 'path (agent-q-call-parsed-arguments call))
         (string-match agent-q-call--change-diff content))))

(defun agent-q-call-change-done (call)
  "Return CALL's change of a file as a part of its line, or nil."
  (if-let ((start (agent-q-call--change-done-in call)))
      (agent-q-call--change-said call start)
    (when (and (eq (agent-q-call-state call) 'succeeded)
               (agent-q-call-change call))
      (agent-q-call-change-summary call))))

(defun agent-q-call--change-said (call start)
  "Return the diff at START in the result of CALL as a part of a line."
  (let ((added 0) (removed 0) (headings nil) (new nil)
        (label (or (agent-q-call-decided call) "")))
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
            (agent-q-call--change-place
             call
             (agent-q-text-visible-line
              (format "%s" (cdr (assq 'path (agent-q-call-parsed-arguments call)))))
             (and (not new) (reverse headings)))
            (agent-q-call--change-lines added removed)
            (if (string-match "[0-9]+ of [0-9]+ hunks" label) (concat ", " (match-string 0 label))
              (agent-q-call--change-hunks (length headings))))))

;;;;; As a diff

(defun agent-q-call--change-face (line)
  "Return the face of LINE, a line of a diff."
  (pcase (and (> (length line) 0) (aref line 0))
    (?+ 'diff-added)
    (?- 'diff-removed)
    (?@ 'diff-hunk-header)
    (_ 'diff-context)))

(defun agent-q-call--change-names-p (lines)
  "Whether LINES of a diff begin with the names of a file.
Lines that are removed and added look so, too, but no hunk begins behind them."
  (cl-every (lambda (prefix) (string-prefix-p prefix (or (pop lines) "")))
            '("--- " "+++ " "@@ ")))

(defun agent-q-call--change-faces (text)
  "Return TEXT, hunks of a diff, with the faces of `diff-mode'.
The end of a line is in the face, too, where that goes on to the edge."
  (let ((lines (split-string text "\n")) (names 0) (parts nil))
    (while lines
      (when (agent-q-call--change-names-p lines)
        (setq names 2))
      (let ((face (if (> names 0) 'diff-file-header
                    (agent-q-call--change-face (car lines)))))
        (push (propertize (car lines) 'face face) parts)
        (when (cdr lines)
          (push (if (agent-q-render-body-extends-p face) (propertize "\n" 'face face) "\n") parts)))
      (setq names (1- names)
            lines (cdr lines)))
    (apply #'concat (nreverse parts))))

(defun agent-q-call-change-diff-body (text)
  "Return TEXT, a diff, as the body of an item."
  (agent-q-render-body text (lambda (text)
                              (agent-q-call--change-faces (agent-q-text-visible text)))))

(defun agent-q-call-change-done-body (call)
  "Return CALL's change of a file as the body of an item, or nil."
  (if-let ((start (agent-q-call--change-done-in call)))
      (agent-q-call--change-said-body call start)
    (when-let ((change (and (eq (agent-q-call-state call) 'succeeded)
                            (agent-q-call-change call))))
      (agent-q-call-change-body change))))

(defun agent-q-call--change-said-body (call start)
  "Return the result of CALL, with a diff at START, as the body of an item."
  (let* ((content (agent-q-call-content call))
         (said (string-trim (substring content 0 start))))
    (concat (if (string-empty-p said) ""
              (concat (agent-q-render-body said #'agent-q-text-visible-prose 'face 'agent-q-dim)
                      "\n"))
            (agent-q-call-change-diff-body (string-trim-right (substring content start))))))

(defun agent-q-call-change-body (change)
  "Return CHANGE as the body of an item: its note, and a diff."
  (let ((note (or (agent-q-call-file-change-note change) "")))
    (if (agent-q-call-change-mere-move-p change)
        ;; The line above says it.
        ""
      (concat
       (if (string-empty-p note) ""
         (propertize (concat (agent-q-text-visible note) "\n")
                     'face 'agent-q-dim 'line-prefix "    "
                     'wrap-prefix agent-q-call-value-prefix))
       (agent-q-call-change-diff-body
        (if (agent-q-call-file-change-hunks change)
            (string-trim-right
             (mapconcat (lambda (hunk) (concat (nth 2 hunk) "\n" (nth 3 hunk)))
                        (agent-q-call-file-change-hunks change) "")
             "\n+")
          "(no lines)"))))))

;;;; What running code is about to do, in words

;; Code that runs in the image stops where it is about to delete a file, to run a
;; program and the like, and the user is asked.  Such a question is in the log
;; like a call of a tool whose name begins with "effect/"; here is what is said
;; about it.  All of it comes from the image, so nothing of it can look like a
;; line of ours.

;;;;; What it is

(defun agent-q-call--effect-argument (call name)
  "Return the argument NAME, a symbol, of CALL as a text, or nil."
  (let ((value (cdr (assq name (agent-q-call-parsed-arguments call)))))
    (and (stringp value)
         ;; The image may write down that it knows none.
         (not (member value '("" "NIL" "nil")))
         value)))

(defun agent-q-call--effect-objects (call)
  "Return what the effect CALL acts on, conses of a word for it and its name."
  (let ((files (or (agent-q-call--effect-argument call 'files)
                   (agent-q-call--effect-argument call 'file)))
        (target (agent-q-call--effect-argument call 'target))
        (program (agent-q-call--effect-argument call 'program)))
    (cond (files (mapcar (lambda (file) (cons "file" file))
                         (split-string files "\n" t)))
          ;; The words have its target.  What is in the system's own directories is what it
          ;; is called.
          (program (unless (member (file-name-directory program) '("/bin/" "/usr/bin/"))
                     (list (cons "program" program))))
          (target (list (cons "target" target))))))

(defun agent-q-call--effect-whole-words (call)
  "Return what the effect CALL is about to do, in the image's words."
  (let ((words (agent-q-call-reason call)))
    (if (and words (not (string-blank-p words)))
        words
      (string-join (cons (agent-q-registry-effect-words (agent-q-call-tool call))
                         (mapcar #'cdr (agent-q-call--effect-objects call)))
                   " "))))

(defun agent-q-call-effect-words (call)
  "Return what the effect CALL is about to do, such as \"delete /tmp/a\", as a line."
  (agent-q-text-visible-line (agent-q-call--effect-whole-words call)))

;;;;; The request

(defun agent-q-call-effect-head (call)
  "Return the first line of the request for the effect CALL."
  (concat "The running code wants to " (agent-q-call-effect-words call)))

(defun agent-q-call--effect-part (text)
  "Return TEXT, a line, as a part of a request."
  (propertize text 'line-prefix "    " 'wrap-prefix agent-q-call-value-prefix))

(defun agent-q-call--effect-origin (call)
  "Return where the effect CALL comes from as a line, or nil."
  (let ((function (agent-q-call--effect-argument call 'function))
        (form (agent-q-call--effect-argument call 'form)))
    (and (or function form)
         (concat (if function (concat "by " (agent-q-text-visible-line function)) "")
                 (if (and function form) ", " "")
                 (if form
                     (concat "in " (agent-q-text-visible-line (agent-q-call-on-one-line form)))
                   "")))))

(defun agent-q-call--effect-unsaid (call)
  "Return what the words of the effect CALL leave out, as lines, or nil."
  (let ((words (agent-q-call--effect-whole-words call)))
    (when-let ((left (seq-remove (lambda (object) (string-search (cdr object) words))
                                 (agent-q-call--effect-objects call))))
      (propertize
       (agent-q-render-body
        (mapconcat (pcase-lambda (`(,what . ,name))
                     (format "%s: %s" what (agent-q-text-visible-line name most-positive-fixnum)))
                   left "\n"))
       'wrap-prefix agent-q-call-value-prefix))))

(defun agent-q-call--effect-long-words (call)
  "Return all words of the effect CALL if its head can't show them, or nil."
  (let ((words (agent-q-call--effect-whole-words call)))
    (and (> (length words) agent-q-text-visible-line-limit)
         (concat (agent-q-call--effect-part "all of it:\n")
                 (propertize (agent-q-render-body words #'agent-q-text-visible)
                             'line-prefix agent-q-call-value-prefix
                             'wrap-prefix agent-q-call-value-prefix)))))

(defconst agent-q-call--effect-usual-threads '("worker" "slynk-worker")
  "What the threads are called in which clients have code run.")

(defun agent-q-call--effect-thread (call)
  "Return the thread of the effect CALL if it is none of the usual, or nil."
  (let ((thread (agent-q-call--effect-argument call 'thread)))
    (and (not (member thread agent-q-call--effect-usual-threads))
         thread)))

(defun agent-q-call-effect-body (call)
  "Return the part under the head of the request for the effect CALL."
  (let ((origin (agent-q-call--effect-origin call))
        (thread (agent-q-call--effect-thread call)))
    (string-join
     (delq nil
           (list (agent-q-call--effect-long-words call)
                 (agent-q-call--effect-unsaid call)
                 (and origin (agent-q-call--effect-part origin))
                 (and thread
                      (agent-q-call--effect-part
                       (concat "in the thread " (agent-q-text-visible-line thread))))))
     "\n")))

;;;;; In the log

(defun agent-q-call--effect-state (call)
  "Return what became of the effect CALL, as the end of its line."
  (let* ((label (agent-q-call-decided call))
         (said (lambda (beginning)
                 (and label (string-prefix-p beginning label)
                      (agent-q-text-visible-line label)))))
    (pcase (agent-q-call-state call)
      ('proposed (propertize (agent-q-render-sign 'ellipsis) 'face 'agent-q-dim))
      ('waiting (propertize (agent-q-text-visible-line label) 'face 'agent-q-dim))
      ((or 'running 'succeeded)
       (propertize (or (funcall said "allowed") "allowed") 'face 'agent-q-success))
      ((and (or 'denied 'cancelled) (guard (funcall said "stopped")))
       (propertize label 'face 'agent-q-failure))
      ;; An approval handler may have stopped it, or the user the whole turn.
      ((and 'cancelled (guard (string-search "stopped" (or (agent-q-call-content call) ""))))
       (propertize "stopped" 'face 'agent-q-failure))
      ('cancelled (propertize "withdrawn" 'face 'agent-q-dim))
      (state
       (propertize
        (let ((trouble (agent-q-call-trouble call))
              (label (if (eq state 'denied) "denied" "failed")))
          (cond ((and trouble (not (equal trouble label))) (concat label ": " trouble))
                ((funcall said label))
                (t label)))
        'face 'agent-q-failure)))))

(defun agent-q-call-effect-line (call)
  "Return the line that stands for the effect CALL, which is no longer waiting.
What became of it matters more than all of its words."
  (let* ((sign (concat (agent-q-render-fold-sign call) " "))
         (room (- (agent-q-call-width) (string-width sign) 2))
         (words (agent-q-call-effect-words call))
         (state (agent-q-call--effect-state call))
         (least (min (string-width words) (/ room 2)))
         (state (agent-q-call-cut state (- room least))))
    (concat sign
            (propertize (agent-q-call-cut words (- room (string-width state)))
                        'face 'agent-q-tool)
            "  " state)))

(defun agent-q-call-effect-waited-for-p (call)
  "Whether the running CALL waits for the decision on a request in this chat.
The core doesn't say whose effect it is, so that is unknown if several run."
  (and (not (cdr (agent-q-call-running)))
       (eq call (car (agent-q-call-running)))
       (seq-some #'agent-q-call-effect-p (agent-q-call-all-waiting))))

;;;;; Looking closer

(defun agent-q-call-effect-backtrace (call)
  "Show the backtrace of the code that CALL, an effect, is about."
  (let ((text (concat (propertize (agent-q-call-effect-words call) 'face 'agent-q-attention)
                      "\n" (or (agent-q-call--effect-origin call) "")
                      "\n\n" (agent-q-text-visible
                              (or (agent-q-call--effect-argument call 'backtrace)
                                  "The image sent no backtrace."))
                      "\n")))
    (with-current-buffer (agent-q-render-body-visit "*agent-q backtrace*" text)
      (setq truncate-lines t))))

;;;; Tool calls as text

;; What the log of a chat shows of a call: a line with its state, and below it its
;; arguments and its result.  agent-q-approval.el draws a call that waits for a decision.

(defconst agent-q-call-text-limit 60
  "Most characters of an effect's arguments in its name.")

(defconst agent-q-call--summary-limit 300
  "How many characters of its arguments the line of a call has in a wide window.")

(defun agent-q-call-name (call)
  "Return a sentence for the user on what CALL is."
  (if (agent-q-call-effect-p call)
      (format "\"%s\"" (agent-q-call-cut (agent-q-call-effect-words call)
                                         agent-q-call-text-limit))
    (agent-q-call-tool call)))

(defun agent-q-call--summary (call)
  "Return the arguments of CALL as a short text on one line; it is made once."
  (let ((arguments (agent-q-call-arguments call)))
    (unless (eq arguments (car (agent-q-call-summary call)))
      (setf (agent-q-call-summary call)
            (cons arguments (agent-q-call--make-summary call))))
    (cdr (agent-q-call-summary call))))

(defun agent-q-call--make-summary (call)
  "Return the arguments of CALL as a short text on one line."
  (let* ((parsed (agent-q-call-parsed-arguments call))
         (room 1000)
         (text (if parsed
                   (mapconcat
                    (lambda (argument)
                      (let ((value (agent-q-json-value-string (cdr argument) room)))
                        (if (eq argument (car parsed))
                            value
                          (format "%s=%s" (car argument) value))))
                    (seq-take parsed 20) " ")
                 (let ((raw (agent-q-call-arguments call)))
                   (string-trim (substring raw 0 (min room (length raw))) "{" "}")))))
    (agent-q-call--short text)))

(defun agent-q-call--short (text)
  "Return TEXT, of arguments, on one line that is not too long."
  (agent-q-text-visible
   (agent-q-call-cut (agent-q-call-on-one-line text) agent-q-call--summary-limit)))

(defun agent-q-call--subject (call trouble)
  "Return what CALL, which ended by TROUBLE, was about, as a short text.
It is empty where TROUBLE names it."
  (let* ((parsed (agent-q-call-parsed-arguments call))
         (main (or (assq 'form parsed) (assq 'path parsed) (car parsed)))
         (text (if main (agent-q-call--short (agent-q-json-value-string (cdr main) 1000))
                 (agent-q-call--summary call))))
    (if (string-search (format "'%s'" text) trouble) "" text)))

(defun agent-q-call--duration (call)
  "Return how long CALL took as a short text; empty when that is not known."
  (let ((milliseconds (agent-q-call-milliseconds call)))
    (cond ((null milliseconds) "")
          ((< milliseconds 1000) (format " %d ms" milliseconds))
          (t (format " %.1f s" (/ milliseconds 1000.0))))))

(defun agent-q-call-text-sign (name)
  "Return the sign NAME, `value' or `dash', as this terminal can show it."
  (let ((plain (equal (agent-q-render-sign 'dot) "|")))
    (pcase name
      ('value (if plain "=>" "⇒"))
      ('dash (if plain "-" "—")))))

(defun agent-q-call--outcome (call)
  "Return what CALL came to as a part of its line, or nil; made once.
That is a cons of `value', `failure', `unknown' or `headline' and a text."
  (let ((content (agent-q-call-content call)))
    (when (and content (eq (agent-q-call-state call) 'succeeded))
      (unless (eq content (car (agent-q-call-outcome call)))
        (setf (agent-q-call-outcome call)
              (cons content (agent-q-call--make-outcome
                             content (string-prefix-p "eval_" (agent-q-call-tool call))))))
      (cdr (agent-q-call-outcome call)))))

(defconst agent-q-call--outcome-limit 4000
  "Most characters of a result that are searched for what it came to.")

(defun agent-q-call--make-outcome (content evaluates)
  "Return what the result CONTENT came to, as `agent-q-call--outcome' does.
EVALUATES says that it is one of evaluating forms."
  (let* ((begins (substring content 0 (min (length content) agent-q-call--outcome-limit)))
         (single (string-prefix-p "=> " begins))
         (evaluated (and (or single evaluates) (agent-q-call--evaluated begins (not single))))
         (headline (and (not evaluated)
                        (agent-q-call-verdict (agent-q-call--headline begins))))
         (outcome (or evaluated (agent-q-call--tested headline content)
                      (cons 'headline headline)))
         (text (agent-q-text-visible (agent-q-call-on-one-line (cdr outcome)))))
    (unless (string-empty-p text)
      (cons (car outcome) text))))

(defun agent-q-call--tested (headline content)
  "Return how the run ended of which CONTENT is the result; nil if all passed.
HEADLINE is its first line.  The value is as that of `agent-q-call--outcome'."
  (let ((unfinished (string-search "\nThe run did not finish:" content)))
    (cond ((string-match "\\`FAILED: [0-9]+ of \\([0-9]+\\) checks passed, \\([0-9]+\\) failed" headline)
           (let ((all (match-string 1 headline)) (failed (match-string 2 headline)))
             (cons 'failure
                   (if (and (equal failed "0") (not unfinished)) headline
                     (format "%s of %s failed%s" failed all
                             (if unfinished ", did not finish" ""))))))
          ((string-match-p "\\`\\(?:FAILED\\|NOT VERIFIED\\)" headline)
           (cons 'failure headline))
          ((string-match-p "\\`LOADED, \\(?:NOT TESTED\\|TESTS NOT COUNTED\\)" headline)
           (cons 'unknown headline))
          ((string-match-p "\\`Not counted: the tests returned" headline)
           ;; What they printed comes last.
           (cons 'unknown (car (last (split-string content "\n" t "[ \t\r]+"))))))))

(defun agent-q-call--evaluated (content several)
  "Return what the last form evaluated in CONTENT came to, or nil.
That is a cons of `value' and its values, or of `headline' and the first line
of what was printed where it gave nothing else.  SEVERAL says that there may be
more forms, each above its values."
  (let ((values nil) (printed nil) (in nil))
    (dolist (line (split-string content "\n"))
      (cond ((and (string-prefix-p "=> " line) (or several (not (eq in 'output))))
             (setq values (cons (substring line 3) (and (eq in 'value) values))
                   in 'value))
            ((string-prefix-p "Output:" line)
             (setq in 'output
                   printed (string-trim (string-remove-prefix "Output:" line))))
            ((eq in 'output)
             (when (string-empty-p printed)
               (setq printed (string-trim line))))
            ((not (eq in 'value)))
            ;; A line that goes on is the rest of a value; after it come notes, or the next form.
            ((or (string-empty-p line) (string-prefix-p "(" line)
                 (and several (not (string-prefix-p " " line))))
             (setq in nil))
            (t (setcar values (concat (car values) " " (string-trim line))))))
    (cond ((null values) nil)
          ((and (member values '(("NIL") ("no values"))) printed (not (string-empty-p printed)))
           (cons 'headline printed))
          (t (cons 'value (string-join (nreverse values) ", "))))))

(defun agent-q-call--headline (content)
  "Return the first line of CONTENT; all of it where that announces the rest."
  (let* ((text (string-trim-left content))
         (end (string-search "\n" text)))
    (if (and end (> end 0) (eq (aref text (1- end)) ?:))
        text
      (substring text 0 end))))

(defconst agent-q-call--quiet 20
  "Seconds without output after which a call that has printed counts as silent.")

(defun agent-q-call-text-running (call)
  "Return for how long CALL has been running, how far it is, and its silence."
  (let* ((since (lambda (time) (if time (floor (float-time (time-since time))) 0)))
         (seconds (funcall since (agent-q-call-started call)))
         (progress (agent-q-call-progress call))
         (printed (nth 2 (agent-q-call-output call)))
         (silent (apply #'min seconds (mapcar since (delq nil (list printed (cdr progress)))))))
    (concat (if (< seconds 1) "running" (format "running %d s" seconds))
            (if progress (concat ", " (car progress)) "")
            (cond ((< silent agent-q-call--quiet) "")
                  ((or printed progress) (format ", silent for %d s" silent))
                  (t ", no output")))))

(defun agent-q-call-text-output (call)
  "Return the last line that the running CALL has printed, or nil."
  (when-let* ((text (car (agent-q-call-output call)))
              (line (car (last (split-string text "[\n\r]+" t "[ \t]+")))))
    (agent-q-text-visible (agent-q-call-on-one-line line))))

(defun agent-q-call--state-text (call)
  "Return the state of CALL as the end of its line."
  (pcase (agent-q-call-state call)
    ('proposed (propertize (agent-q-render-sign 'ellipsis)
                           'face 'agent-q-dim))
    ('waiting (propertize (agent-q-call-decided call) 'face 'agent-q-dim))
    ('running
     (propertize (if (agent-q-call-effect-waited-for-p call) "waits for your answer below"
                   (agent-q-call-text-running call))
                 'face 'agent-q-attention))
    ('succeeded (concat (propertize (agent-q-render-sign 'done)
                                    'face 'agent-q-success)
                        (propertize (agent-q-call--duration call)
                                    'face 'agent-q-dim)))
    ('failed (propertize (concat (agent-q-render-sign 'failed) " failed"
                                 (agent-q-call--duration call))
                         'face 'agent-q-failure))
    ('denied (propertize "denied" 'face 'agent-q-failure))
    ('cancelled (propertize "cancelled" 'face 'agent-q-failure))))

(defconst agent-q-call--unchanged "already has exactly this content\\|^The new text is the same as the old one"
  "What the core says of a change that is none.")

(defun agent-q-call--trouble-text (call trouble width)
  "Return TROUBLE, which ended CALL, as the end of its line of WIDTH columns."
  (let* ((denied (eq (agent-q-call-state call) 'denied))
         (unchanged (string-match-p agent-q-call--unchanged trouble))
         (count (1+ (length (agent-q-call-equal call))))
         (sign (cond (denied "denied: ")
                     (unchanged "")
                     (t (concat (agent-q-render-sign 'failed) " "))))
         (sign (if (= count 1) sign (format "%s%d times: " sign count)))
         (duration (if (or denied (< width 25) (> count 1)) ""
                     (agent-q-call--duration call)))
         (button (agent-q-call--button call trouble)))
    (concat (propertize (concat sign
                                (agent-q-call-cut trouble (max 10 (- width (string-width sign)
                                                                      (length duration) (length button))))
                                duration)
                        ;; Such a call does no harm, and leaves nothing to mend.
                        'face (if unchanged 'agent-q-dim 'agent-q-failure))
            button)))

(defun agent-q-call--button (call trouble)
  "Return the button of CALL, which ended by TROUBLE, or an empty text.
It opens the debugger, or connects an image."
  (let ((kept (agent-q-call-kept call)))
    (pcase-let ((`(,label . ,thing)
                 (cond (kept (list "[Debug]" 'kept kept))
                       ((equal agent-q-call--unconnected trouble)
                        (list "[Connect]" 'connect)))))
      (if (not label) ""
        (let ((button (propertize label 'face 'agent-q-live)))
          (agent-q-live-put 0 (length button) thing button)
          (concat " " button))))))

(defun agent-q-call--line (head summary tail width)
  "Return HEAD, SUMMARY and TAIL as a line of WIDTH columns; SUMMARY is cut to fit."
  (let* ((left (- width (string-width head) (string-width tail) 1))
         (shown (if (< left (min 4 (string-width summary))) "" (agent-q-call-cut summary left))))
    (concat head shown (if (string-empty-p shown) "" " ") tail)))

(defun agent-q-call--done-line (head summary call width)
  "Return the line of WIDTH columns of CALL, which is done: HEAD and SUMMARY.
It ends with what CALL came to, which gets what SUMMARY leaves."
  (let* ((outcome (agent-q-call--outcome call))
         (time (propertize (agent-q-call--duration call) 'face 'agent-q-dim))
         (sign (pcase (car outcome)
                 ('value (agent-q-call-text-sign 'value))
                 ('failure (agent-q-render-sign 'failed))
                 ('unknown "?")
                 (_ (agent-q-render-sign 'done))))
         (sign (propertize sign 'face (pcase (car outcome)
                                        ('failure 'agent-q-failure)
                                        ('unknown 'agent-q-attention)
                                        (_ 'agent-q-success))))
         (room (- width (string-width head) (string-width sign) (length time) 2))
         ;; Half for each; what one doesn't need is the other's.
         (for-outcome (max 4 (- room (string-width summary)) (/ room 2)))
         (text (and outcome (concat " " (agent-q-call-cut (cdr outcome) for-outcome)))))
    (agent-q-call--line
     head summary
     (concat sign
             (if (memq (car outcome) '(headline unknown)) (propertize text 'face 'agent-q-dim) text)
             time)
     width)))

(defun agent-q-call-text-line (call)
  "Return the line that stands for CALL, no wider than the window if possible."
  (let* ((head (concat (agent-q-render-fold-sign call) " "
                       (propertize (agent-q-call-cut (agent-q-call-tool call)
                                                     (max 10 (/ (agent-q-call-width) 2)))
                                   'face 'agent-q-tool)
                       " "))
         (width (agent-q-call-width))
         (room (- width (string-width head)))
         (done (agent-q-call-change-done call))
         (change (agent-q-call-change call))
         (summary (cond (done)
                        (change (agent-q-call-change-summary call))
                        (t (agent-q-call--summary call))))
         (trouble (agent-q-call-trouble call)))
    (cond
     (trouble
      ;; What went wrong matters more than with which arguments.
      (unless (or change
                  (<= (+ (string-width summary) (string-width trouble) 12) room))
        (setq summary (agent-q-call--subject call trouble)))
      (agent-q-call--line
       head summary
       (agent-q-call--trouble-text call trouble
                                   (if (< room 40) room
                                     (max (- room (string-width summary) 1)
                                          (/ (* 2 room) 3))))
       width))
     ((and (eq (agent-q-call-state call) 'succeeded) (not done))
      (agent-q-call--done-line head summary call width))
     ((and (eq (agent-q-call-state call) 'running) (agent-q-call-text-output call))
      (agent-q-call--line
       head summary
       (concat (agent-q-call--state-text call)
               (propertize (concat ": " (agent-q-call-cut (agent-q-call-text-output call)
                                                          (max 8 (/ room 3))))
                           'face 'agent-q-dim))
       width))
     (t (agent-q-call--line head summary (agent-q-call--state-text call) width)))))

(defun agent-q-call-text-waiting (call)
  "Return the line of CALL, which waits while another request is decided first."
  (if (agent-q-call-effect-p call)
      (agent-q-call--line "? " (agent-q-call-effect-words call) "waits" (agent-q-call-width))
    (agent-q-call--line (concat "? " (agent-q-call-tool call) " ")
                        (if (agent-q-call-change call)
                            (agent-q-call-change-summary call)
                          (agent-q-call--summary call))
                        "waits" (agent-q-call-width))))

(defun agent-q-call-text-body (call)
  "Return the arguments and the result of CALL as the body of an item.
What went wrong comes first."
  (let* ((diff (agent-q-call-change-done-body call))
         (arguments (and (not diff) (agent-q-call-arguments-body call)))
         (result (or diff (agent-q-call--result-body call) (agent-q-call--output-body call))))
    (string-join
     (delq nil `(,@(if (memq (agent-q-call-state call) '(succeeded running))
                       (list arguments result)
                     (list result arguments))
                 ,@(mapcar #'agent-q-call--equal-body (reverse (agent-q-call-equal call)))))
     "\n")))

(defun agent-q-call--equal-body (call)
  "Return CALL, for which the line of another speaks, as part of the body of that."
  (concat (propertize (concat (agent-q-call-tool call) "\n")
                      'face 'agent-q-tool 'line-prefix "    ")
          (agent-q-call-arguments-body call)))

(defun agent-q-call-arguments-body (call)
  "Return all arguments of CALL as the body of an item."
  (let ((parsed (agent-q-call-parsed-arguments call))
        (arguments (agent-q-call-arguments call)))
    (cond (parsed
           (mapconcat (pcase-lambda (`(,name . ,value))
                        (agent-q-call--argument-body name value))
                      parsed "\n"))
          ((string-match-p "\\`[ \t\n]*\\(?:{[ \t\n]*}\\)?[ \t\n]*\\'" arguments)
           (agent-q-render-body "(no arguments)"))
          (t (agent-q-render-body arguments #'agent-q-text-visible)))))

(defun agent-q-call--argument-body (name value)
  "Return the argument NAME with VALUE as part of the body of an item."
  (let* ((text (if (stringp value) value
                 (agent-q-json-value-string value (1+ agent-q-render-body-limit))))
         (long (and (not (stringp value))
                    (> (length text) agent-q-render-body-limit)))
         (body (cond (long (agent-q-render-body-cut-body
                            (agent-q-text-visible
                             (substring text 0 agent-q-render-body-limit))
                            nil
                            (lambda ()
                              (agent-q-text-visible (agent-q-json-value-string value)))))
                     ((memq name '(form new_source source))
                      (agent-q-render-body text (lambda (text)
                                                  (agent-q-call--fontify
                                                   (agent-q-text-visible text)))))
                     (t (agent-q-render-body text #'agent-q-text-visible)))))
    (concat (propertize (concat (agent-q-text-visible-line (symbol-name name) 80) ":")
                        'face 'agent-q-dim 'line-prefix "    ")
            (if (string-search "\n" text) "\n" " ")
            (propertize body 'line-prefix agent-q-call-value-prefix
                        'wrap-prefix agent-q-call-value-prefix))))

(defun agent-q-call--fontify (text)
  "Return TEXT, a Lisp form, with the faces of `lisp-mode'.
The keys of Lisp code work on it, as in an answer."
  (if (> (length text) agent-q-render-body-limit)
      text
    (with-temp-buffer
      (insert text)
      (delay-mode-hooks (lisp-mode))
      (font-lock-ensure)
      (add-text-properties (point-min) (point-max) '(agent-q-form t agent-q-language "lisp"))
      (buffer-string))))

(defun agent-q-call--result-body (call)
  "Return the result of CALL as the body of an item, or nil."
  (when-let ((content (agent-q-call-content call)))
    (concat (propertize (pcase (agent-q-call-state call)
                          ('succeeded "result:")
                          ('denied "denied:")
                          (_ "error:"))
                        'face 'agent-q-dim 'line-prefix "    ")
            "\n" (agent-q-render-body content #'agent-q-text-visible-prose))))

(defconst agent-q-call--most-output 12
  "Most lines shown of what a running call has printed, the latest ones.")

(defun agent-q-call--output-body (call)
  "Return what the running CALL has printed as the body of an item, or nil."
  (when-let ((text (and (eq (agent-q-call-state call) 'running)
                        (car (agent-q-call-output call)))))
    (let* ((all (split-string (string-trim-right text "[\n\r]+") "\n"))
           ;; The image keeps the end of a long output, which may begin within a line.
           (cut (> (nth 1 (agent-q-call-output call)) (length text)))
           (lines (last (if (and cut (cdr all)) (cdr all) all) agent-q-call--most-output)))
      (concat (propertize "output so far:" 'face 'agent-q-dim 'line-prefix "    ")
              (if (or cut (nthcdr (length lines) all))
                  (propertize (format " its last %d lines" (length lines)) 'face 'agent-q-dim)
                "")
              "\n" (agent-q-render-body (string-join lines "\n") #'agent-q-text-visible-prose)))))

(provide 'agent-q-call)
;;; agent-q-call.el ends here
