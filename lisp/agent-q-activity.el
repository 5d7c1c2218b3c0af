;;; agent-q-activity.el --- What the user did and looks at  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The tools that tell a model of the user's latest work and place, and what a question means by
;; "this".

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-debugger)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-image-history)
(require 'agent-q-project)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'thingatpt)

;;;; Frames and restarts of an error, as text

;; What models are shown of a stack and of the ways out of it.

(defun agent-q-activity-frames-restarts (restarts)
  "Return RESTARTS, lists of a name and a description, as text, or nil."
  (and restarts
       (concat "Restarts: "
               (mapconcat (lambda (restart)
                            (format "%s (%s)" (string-trim (car restart) "\\*")
                                    (or (cadr restart) "")))
                          restarts ", "))))

(defconst agent-q-activity--frames-machinery
  (concat "\\`(+\\(?:\\(?:FLET\\|LABELS\\|LAMBDA\\) [^\"]*\\)?"
          "\\(?:S\\(?:WANK\\|LYNK\\)\\|SB-INT:SIMPLE-EVAL\\|SB-IMPL::%SIMPLE-EVAL"
          "\\|EVAL \\|SB-KERNEL:INTERNAL-ERROR\\|\"foreign\\|SB-THREAD::\\|INVOKE-DEBUGGER \\)")
  "What the frames of clients and of evaluation begin with.")

(defun agent-q-activity-frames-text (frames)
  "Return FRAMES, texts, without those of the machinery, as text, or nil."
  (let ((shown (cl-remove-if (lambda (frame)
                               (string-match-p agent-q-activity--frames-machinery frame))
                             frames)))
    (and shown
         (concat "Backtrace, innermost first:\n"
                 (mapconcat (lambda (frame) (concat "  " frame))
                            (seq-take shown 15) "\n")))))

;;;; Tools about what happened in the image

;; Answers the tools that look back, from what agent-q-image-history.el put together,
;; and those about the user's place: the form at point, the prompt of the REPL.

(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)

(declare-function comint-add-to-input-history "comint" (cmd))
(declare-function slime-repl-add-to-input-history "ext:slime-repl")
(declare-function slime-output-buffer "ext:slime-repl")
(declare-function sly-mrepl--find-buffer "ext:sly-mrepl")

(defun agent-q-activity--process (call)
  "Return the process whose past CALL is about, or nil for any."
  (let ((connection (agent-q-events-operation-call-connection call)))
    (and connection (agent-q-connection-process connection))))

(defun agent-q-activity--ago (time)
  "Return how long ago TIME was, in words."
  (let ((seconds (floor (float-time (time-since time)))))
    (cond ((< seconds 60) (format "%d s ago" seconds))
          ((< seconds 3600) (format "%d min ago" (/ seconds 60)))
          (t (format "%d h ago" (/ seconds 3600))))))

(defun agent-q-activity--where (by how owner reader)
  "Return in words who evaluated something, BY, and HOW.
OWNER and READER are as in `agent-q-image-history-owner-name'."
  (pcase (cons by how)
    ('(user . repl) "the user, at the REPL")
    ('(user . command) "the user, by a command")
    (`(agent . ,operation)
     (format "%s, by %s" (agent-q-image-history-owner-name owner reader)
             (subst-char-in-string ?- ?_ operation)))))

;;;;; The last error

(agent-q-events-operation-define "get-last-error" (call)
  "Report the latest error, the user's or ours."
  (let ((error (agent-q-image-history-last-error (agent-q-activity--process call))))
    (cond ((null error)
           (agent-q-events-operation-of-image
            call "No error in this image since agent-q started watching."))
          ((agent-q-activity--debugger error)
           (agent-q-activity--tell-open call error))
          (t (agent-q-events-operation-of-image
              call (agent-q-activity--error error (agent-q-events-operation-call-owner call)))))))

(defun agent-q-activity--tell-open (call error)
  "Answer CALL with ERROR, whose stack is alive.
The image knows more of its frames than the client has shown."
  (agent-q-image-query
   (agent-q-events-operation-call-connection call) "debugger-frames"
   '(:limit 15 :watch (:look t))
   (lambda (reply _status _payload)
     (let ((frames (plist-get (plist-get reply :value) :frames)))
       (when frames
         (setf (agent-q-image-history-error-frames error) (mapcar #'agent-q-image-history-frame frames)))
       (agent-q-events-operation-end
        call "done"
        (agent-q-events-operation-of-image
         call (agent-q-activity--error error (agent-q-events-operation-call-owner call))))))
   5 (agent-q-image-history-error-thread error))
  nil)

(defun agent-q-activity--error (error reader)
  "Return ERROR as text for the chat READER."
  (string-join
   (delq nil
         (list
          (format "Signalled %s, %s:"
                  (if (eq 'thread (agent-q-image-history-error-how error))
                      (format "in %s"
                              (if (agent-q-image-history-error-thread-name error)
                                  (concat "the thread " (agent-q-image-history-error-thread-name error))
                                "a thread of the program's own"))
                    (concat "for "
                            (agent-q-activity--where (agent-q-image-history-error-by error)
                                                     (agent-q-image-history-error-how error)
                                                     (agent-q-image-history-error-owner error)
                                                     reader)))
                  (agent-q-activity--ago (agent-q-image-history-error-time error)))
          (format "%s: %s" (agent-q-image-history-error-type error)
                  (string-trim (agent-q-image-history-error-message error)))
          (and (agent-q-image-history-error-form error)
               (concat "Form: " (agent-q-image-history-error-form error)))
          (agent-q-activity-frames-restarts (agent-q-image-history-error-restarts error))
          (agent-q-activity-frames-text (agent-q-image-history-error-frames error))
          (agent-q-activity--open error)))
   "\n"))

(defun agent-q-activity--debugger (error)
  "Return the name of the user's debugger in which ERROR is open, or nil."
  (and (agent-q-image-history-error-thread error)
       (agent-q-debugger-name-of-thread
        (agent-q-image-history-error-process error)
        (agent-q-image-history-error-thread error))))

(defun agent-q-activity--open (error)
  "Say how to get at ERROR while it is open in the user's debugger, or nil."
  (let ((name (agent-q-activity--debugger error)))
    (and name
         (format "It is open in the user's debugger: debugger_frames with debugger %s shows more."
                 name))))

;;;;; The history

(agent-q-events-operation-define "get-repl-history" (call limit)
  "List the evaluated forms, oldest first, at most LIMIT of them."
  (let* ((all (agent-q-image-history-evaluations (agent-q-activity--process call)))
         (told (reverse (seq-take all (max 1 (min 100 (or limit 20)))))))
    (agent-q-events-operation-of-image
     call
     (if (not told)
         "No REPL history available: nothing was evaluated since agent-q started watching."
       (concat
        (mapconcat (lambda (it)
                     (agent-q-activity--evaluation it (agent-q-events-operation-call-owner call)))
                   told "\n")
        (and (> (length all) (length told))
             (format "\n(%d earlier ones; call again with a larger limit.)"
                     (- (length all) (length told)))))))))

(defun agent-q-activity--evaluation (evaluation reader)
  "Return EVALUATION as text for the chat READER."
  (let ((output (agent-q-image-history-evaluation-output evaluation)))
    (string-join
     (append
      (list (format "[%s%s] %s"
                    (agent-q-activity--where (agent-q-image-history-evaluation-by evaluation)
                                             (agent-q-image-history-evaluation-how evaluation)
                                             (agent-q-image-history-evaluation-owner evaluation)
                                             reader)
                    (if (agent-q-image-history-evaluation-package evaluation)
                        (concat ", in " (agent-q-image-history-evaluation-package evaluation))
                      "")
                    (agent-q-image-history-evaluation-form evaluation)))
      (and output (not (string-blank-p output))
           (list (concat "printed: " (agent-q-activity--short (string-trim output) 300))))
      (pcase (agent-q-image-history-evaluation-state evaluation)
        ('running (list "(still running, or in the debugger)"))
        ('aborted (list (format "aborted: %s"
                                (or (agent-q-image-history-evaluation-condition evaluation)
                                    "by the user"))))
        (_ (mapcar (lambda (value) (concat "=> " (agent-q-activity--short value 500)))
                   (or (agent-q-image-history-evaluation-values evaluation)
                       '("no values"))))))
     "\n")))

(defun agent-q-activity--short (text limit)
  "Return TEXT, cut at LIMIT."
  (if (> (length text) limit)
      (concat (substring text 0 limit) "...")
    text))

;;;;; The compiler's notes

(agent-q-events-operation-define "get-compilation-notes" (call limit offset)
  "List what the compiler said last: LIMIT notes from OFFSET on."
  (let* ((compilation (agent-q-image-history-last-compilation (agent-q-activity--process call)))
         (limit (max 1 (min 200 (or limit 50))))
         (offset (max 0 (or offset 0))))
    (cond ((null compilation)
           (agent-q-events-operation-of-image
            call "Nothing was compiled since agent-q started watching."))
          ((eq 'image (agent-q-image-history-compilation-notes compilation))
           (agent-q-activity--ask-notes call compilation limit offset))
          (t (let ((notes (agent-q-image-history-compilation-notes compilation)))
               (agent-q-events-operation-of-image
                call (agent-q-activity--compilation
                      compilation (seq-take (seq-drop notes offset) limit)
                      offset (length notes))))))))

(defun agent-q-activity--ask-notes (call compilation limit offset)
  "Answer CALL with LIMIT notes of COMPILATION from OFFSET on, which the image has."
  (let ((connection (agent-q-events-operation-call-connection call)))
    (unless connection
      (error "The image that compiled %s and kept the notes is not connected"
             (agent-q-image-history-compilation-what compilation)))
    (agent-q-image-query
     connection "last-notes" (list :limit limit :offset offset)
     (lambda (reply status &rest _)
       (pcase reply
         (`(:outcome :returned :value ,value . ,_)
          (agent-q-events-operation-end
           call "done"
           (agent-q-events-operation-of-image
            call (agent-q-activity--compilation
                  compilation (mapcar #'agent-q-image-history-own-note (plist-get value :notes))
                  offset (plist-get value :total)))))
         (_ (agent-q-events-operation-end
             call "signalled" (format "The image did not return its notes: %s" status))))))
    nil))

(defun agent-q-activity--rest (offset count total)
  "Return a line on what is beyond COUNT notes of TOTAL from OFFSET on, or nil."
  (cond ((and (zerop count) (> total 0))
         (format "Offset past the end: only %d results." total))
        ((> total (+ offset count))
         (format "%d more: call again with offset %d." (- total offset count)
                 (+ offset count)))))

(defun agent-q-activity--compilation (compilation notes offset total)
  "Return COMPILATION and NOTES, some of the TOTAL from OFFSET on, as text."
  (let ((rest (agent-q-activity--rest offset (length notes) total)))
    (concat
     (format "Compiled by %s, %s%s: %s\n"
             (if (eq 'user (agent-q-image-history-compilation-by compilation))
                 "the user" "you")
             (agent-q-activity--ago (agent-q-image-history-compilation-time compilation))
             (if (eq 'failed (agent-q-image-history-compilation-state compilation))
                 ", with failures" "")
             (agent-q-activity--short
              (string-trim (agent-q-image-history-compilation-what compilation)) 200))
     (string-join
      (delq nil (list (cond (notes (mapconcat #'agent-q-activity--note notes "\n"))
                            ((zerop total) "No warnings or notes."))
                      rest))
      "\n"))))

(defun agent-q-activity--note (note)
  "Return NOTE as text."
  (format "%s%s: %s"
          (plist-get note :severity)
          (if (plist-get note :place) (concat " at " (plist-get note :place)) "")
          (agent-q-activity--short (string-trim (plist-get note :message)) 600)))

;;;;; The form at point

(agent-q-events-operation-define "form-at-point" (call)
  "Return the top-level form at the user's point, whichever buffer CALL names."
  (ignore call)
  (let ((buffer (agent-q-session-user-last-buffer)))
    (unless buffer
      (error "The user has no buffers open except chats"))
    (with-current-buffer buffer
      (let ((window (get-buffer-window buffer t)))
        (save-excursion
          (when window (goto-char (window-point window)))
          (agent-q-activity--form-here))))))

(defun agent-q-activity--form-here ()
  "Return the top-level form around point with its place, as text."
  (let* ((point (point))
         (bounds (bounds-of-thing-at-point 'defun))
         (symbol (thing-at-point 'symbol t))
         (inside (and bounds (<= (car bounds) point (cdr bounds)))))
    (unless (and bounds inside
                 (not (string-blank-p (buffer-substring (car bounds) (cdr bounds)))))
      (error "No form at the cursor in %s, line %d"
             (buffer-name) (line-number-at-pos point t)))
    (let ((text (string-trim (buffer-substring-no-properties (car bounds)
                                                             (cdr bounds)))))
      (format "%s, line %d; cursor in line %d%s; package %s\n%s"
              (or (buffer-file-name) (buffer-name))
              (line-number-at-pos (car bounds) t)
              (line-number-at-pos point t)
              (if symbol (format " at %s" symbol) "")
              (or (agent-q-session-user-package) "COMMON-LISP-USER")
              (if (> (length text) 8000)
                  (format "%s\n... [%d more characters]" (substring text 0 8000)
                          (- (length text) 8000))
                text)))))

;;;;; Staging at the REPL

(define-error 'agent-q-activity-typed "The user has typed something at the prompt")

(defvar-local agent-q-activity--staged nil
  "In a REPL: the form that was last put at its prompt from here.")

(agent-q-events-operation-define "stage-at-repl" (call form)
  "Put FORM at the prompt of the user's REPL."
  (agent-q-activity-stage (agent-q-events-operation-call-connection call) form))

(defun agent-q-activity-stage (connection form)
  "Put FORM at the prompt of the REPL of CONNECTION; return a sentence on it."
  (let ((buffer (and connection (agent-q-activity-repl connection))))
    (unless connection
      (error "No Lisp image is connected; start one with M-x sly or M-x slime"))
    (unless (buffer-live-p buffer)
      (error "The user has no REPL open for this image"))
    (with-current-buffer buffer
      (let ((typed (string-trim (agent-q-activity-typed))))
        ;; What was put there before, and nobody has touched, makes way.
        (unless (member typed (list "" agent-q-activity--staged))
          (signal 'agent-q-activity-typed (list (agent-q-activity--short typed 100))))
        (goto-char (point-max))
        (unless (equal typed "")
          (delete-region (agent-q-activity-input-start) (point-max)))
        (condition-case nil
            (insert (string-trim form))
          (text-read-only
           (error "The REPL %s has no prompt now: it is starting, or evaluating something"
                  (buffer-name buffer))))
        (setq agent-q-activity--staged (string-trim form))
        (agent-q-activity--remember (string-trim form))
        (dolist (window (get-buffer-window-list buffer nil t))
          (set-window-point window (point-max)))))
    (message "agent-q put a form at the prompt of %s" (buffer-name buffer))
    (format "Put at the prompt of %s; the user decides whether to run it." (buffer-name buffer))))

(defun agent-q-activity--remember (form)
  "Put FORM into the input history of the REPL in the current buffer.
There it is when the user clears the prompt and wants it back."
  (cond ((derived-mode-p 'slime-repl-mode)
         (when (fboundp 'slime-repl-add-to-input-history)
           (slime-repl-add-to-input-history form)))
        ((derived-mode-p 'comint-mode)
         (comint-add-to-input-history form))))

(defun agent-q-activity-repl (connection)
  "Return the buffer of the REPL of CONNECTION, or nil."
  (let ((process (agent-q-connection-process connection)))
    (pcase (agent-q-connection-client connection)
      ('sly (let ((sly-dispatching-connection process))
              (and (fboundp 'sly-mrepl--find-buffer)
                   (sly-mrepl--find-buffer process))))
      ('slime (let ((slime-dispatching-connection process))
                (and (fboundp 'slime-output-buffer)
                     (save-window-excursion (slime-output-buffer))))))))

(defun agent-q-activity-input-start ()
  "Return where input begins in the REPL in the current buffer, or nil."
  (if (bound-and-true-p slime-repl-input-start-mark)
      (symbol-value 'slime-repl-input-start-mark)
    (let ((process (get-buffer-process (current-buffer))))
      (and process (process-mark process)))))

(defun agent-q-activity-typed ()
  "Return what was typed after the prompt of the REPL in the current buffer."
  (let ((start (agent-q-activity-input-start)))
    (if start
        (buffer-substring-no-properties (min start (point-max)) (point-max))
      "")))

;;;; What the user looks at

;; What the user means by "this" in any buffer: the region, the definition at point, the
;; error in a debugger, the message of a compiler, a value in an inspector.  It becomes
;; texts with the places that they are from, which agent-q-ask.el sends along with a
;; question.

(declare-function flymake-diagnostics "flymake")
(declare-function flymake-diagnostic-text "flymake")

(cl-defstruct (agent-q-activity-look (:constructor agent-q-activity--look-make) (:copier nil))
  "What the user looks at.
LABEL is a short name for the user.  EXCERPTS are texts for the model, each
as (WHERE . TEXT).  KIND is `error', `definition', `region', `file', `input',
`message' or `page'.  FILE is the one that the text is of, or nil, LINE where
it begins there, DIRECTORY where its buffer is, and PROCESS the connection that
it is about, or nil."
  label excerpts kind file line directory process)

(defconst agent-q-activity-look-limit 20000
  "Most characters of a text that are sent along.")

(defconst agent-q-activity--look-message-lines 40
  "Most lines of a compiler's message or of a REPL that are sent along.")

;;;;; Texts and places

(defun agent-q-activity--look-cut (text &optional total)
  "Return TEXT for the model, cut at `agent-q-activity-look-limit'.
TOTAL is the number of characters that it is the beginning of, if not all."
  (let ((more (- (or total (length text)) agent-q-activity-look-limit)))
    (agent-q-text-clean
     (if (> more 0)
         (format "%s\n... [%d more characters]" (substring text 0 agent-q-activity-look-limit) more)
       text))))

(defun agent-q-activity--look-between (start end)
  "Return the text from START to END for the model, of which no more is copied."
  (agent-q-activity--look-cut (buffer-substring-no-properties start (min end (+ start agent-q-activity-look-limit)))
                              (- end start)))

(defun agent-q-activity--look-name ()
  "Return the name of this buffer's file within its project, or of the buffer."
  (if (null buffer-file-name)
      (buffer-name)
    (let ((root (agent-q-project-directory)))
      (if (and root (file-in-directory-p buffer-file-name root))
          (file-relative-name buffer-file-name root)
        (abbreviate-file-name buffer-file-name)))))

(defun agent-q-activity--look-package ()
  "Return the package that the text at point is read in, as a text, or nothing."
  (let ((package (and (derived-mode-p 'lisp-mode) (agent-q-session-user-package))))
    (if package (format ", package %s" package) "")))

(defun agent-q-activity--look-lines (start end)
  "Return which lines the text from START to END has, as words."
  (let ((first (line-number-at-pos start t))
        (last (line-number-at-pos (if (and (> end start) (eq (char-before end) ?\n)) (1- end) end)
                                  t)))
    (if (= first last) (format "line %d" first) (format "lines %d to %d" first last))))

(defun agent-q-activity--look-make-part (kind name start end)
  "Return the text from START to END, called NAME, as a look of KIND."
  (agent-q-activity--look-make
   :kind kind
   :label (agent-q-text-visible-line
           (format "%s (%s:%d)" name
                   (file-name-nondirectory (or buffer-file-name (buffer-name)))
                   (line-number-at-pos start t)))
   :excerpts (cons (cons (format "%s, %s of %s%s%s" name (agent-q-activity--look-lines start end)
                                 (agent-q-activity--look-name) (agent-q-activity--look-package)
                                 (if (and buffer-file-name (buffer-modified-p))
                                     ", with unsaved changes" ""))
                         (agent-q-activity--look-between start end))
                   (agent-q-activity--look-notes start end))
   :file buffer-file-name
   :line (line-number-at-pos start t)
   :directory default-directory))

;;;;; Source

(defconst agent-q-activity--look-compiler "what the compiler says of it"
  "What messages about a definition are sent as.")

(defun agent-q-activity-look-wrong-p (look)
  "Whether LOOK is of an error, or of anything else than mere source."
  (or (not (memq (agent-q-activity-look-kind look) '(definition file)))
      (assoc agent-q-activity--look-compiler (agent-q-activity-look-excerpts look))))

(defun agent-q-activity--look-definition-bounds ()
  "Return where the definition around point begins and ends, a cons, or nil."
  (let ((bounds (and (derived-mode-p 'prog-mode)
                     (save-excursion (ignore-errors (bounds-of-thing-at-point 'defun))))))
    (when (and bounds (<= (car bounds) (point) (cdr bounds)))
      (save-excursion
        (let* ((end (progn (goto-char (cdr bounds)) (skip-chars-backward " \t\n") (point)))
               (start (progn (goto-char (car bounds)) (skip-chars-forward " \t\n") (point))))
          (and (< start end)
               ;; Behind its last line there is nothing to look at.
               (<= (car bounds) start)
               (cons start end)))))))

(defun agent-q-activity--look-definition-name (start)
  "Return the name of the definition that begins at START."
  (save-excursion
    (goto-char start)
    (if (looking-at "([ \t]*\\([^][() \t\n]+\\)[ \t\n]+\\((setf[ \t]+[^() \t\n]+)\\|[^]['() \t\n]+\\)")
        (agent-q-text-visible-line
         (format "%s %s" (match-string-no-properties 1) (match-string-no-properties 2)) 80)
      "definition")))

(defun agent-q-activity--look-source ()
  "Return the definition at point, or the file around it."
  (let ((bounds (agent-q-activity--look-definition-bounds)))
    (if bounds
        (agent-q-activity--look-make-part 'definition (agent-q-activity--look-definition-name (car bounds))
                                          (car bounds) (cdr bounds))
      (save-restriction
        (widen)
        (agent-q-activity--look-make-part 'file (if buffer-file-name "file" "buffer")
                                          (point-min) (point-max))))))

(defun agent-q-activity--look-notes (start end)
  "Return what compilers say of the text from START to END, a list of one excerpt.
It is nil where they say nothing."
  (let ((notes (append (agent-q-activity--look-overlay-notes start end)
                       (agent-q-activity--look-flymake-notes start end))))
    (and notes
         (list (cons agent-q-activity--look-compiler
                     (agent-q-activity--look-cut (string-join (delete-dups notes) "\n")))))))

(defun agent-q-activity--look-overlay-notes (start end)
  "Return the notes of SLY and SLIME on the text from START to END."
  (delq nil
        (mapcar (lambda (overlay)
                  (let ((help (overlay-get overlay 'help-echo)))
                    (and (or (overlay-get overlay 'sly-note) (overlay-get overlay 'slime-note))
                         (stringp help)
                         (format "line %d: %s" (line-number-at-pos (overlay-start overlay) t)
                                 (string-remove-prefix "[sly] " (substring-no-properties help))))))
                (overlays-in start end))))

(defun agent-q-activity--look-flymake-notes (start end)
  "Return the notes of Flymake on the text from START to END."
  (and (bound-and-true-p flymake-mode)
       (mapcar (lambda (diagnostic)
                 (substring-no-properties (flymake-diagnostic-text diagnostic)))
               (flymake-diagnostics start end))))

;;;;; Other buffers

(defun agent-q-activity--look-error (buffer)
  "Return the error in the debugger BUFFER as a text, or signal an error."
  (unless (agent-q-debugger-local buffer 3)
    (user-error "This is not a debugger buffer of SLY or SLIME"))
  (let* ((error (agent-q-image-history-error-in (agent-q-debugger-local buffer 2)
                                                (agent-q-debugger-local buffer 3)))
         (form (and error (agent-q-image-history-error-form error))))
    (format "Debugger %s: %s\n%s%s\n%s"
            (agent-q-debugger-buffer-name buffer)
            (agent-q-debugger-condition-text (agent-q-debugger-local buffer 4))
            ;; Where tail calls are merged, no frame names what was called.
            (if form (format "Form: %s\n" form) "")
            (or (agent-q-activity-frames-restarts
                 (mapcar (lambda (restart) (mapcar #'substring-no-properties restart))
                         (agent-q-debugger-local buffer 5)))
                "There is no restart.")
            (or (and error (agent-q-activity-frames-text (agent-q-image-history-error-frames error))) ""))))

(defun agent-q-activity--look-debugger ()
  "Return the error of this debugger buffer."
  (agent-q-activity--look-make
   :kind 'error
   :label (agent-q-text-visible-line
           (replace-regexp-in-string
            "[ \t\n]+" " "
            (agent-q-debugger-condition-text (agent-q-debugger-local (current-buffer) 4)))
           60)
   :excerpts (list (cons "the user's debugger, which is open"
                         (agent-q-activity--look-cut (agent-q-activity--look-error (current-buffer)))))
   :directory default-directory
   :process (agent-q-debugger-local (current-buffer) 2)))

(defun agent-q-activity--look-repl ()
  "Return what is typed at the prompt of this REPL, or else what it printed last."
  (let* ((typed (string-trim (agent-q-activity-typed)))
         (input (or (agent-q-activity-input-start) (point-max)))
         (text (if (string-empty-p typed)
                   (buffer-substring-no-properties
                    (save-excursion (goto-char input)
                                    (forward-line (- agent-q-activity--look-message-lines))
                                    (point))
                    input)
                 typed)))
    (agent-q-activity--look-make
     :kind 'input
     :label (if (string-empty-p typed) "the end of the REPL" "the form at the prompt")
     :excerpts (list (cons (format (if (string-empty-p typed) "the last lines of the REPL %s"
                                     "typed, not yet evaluated, at the prompt of the REPL %s")
                                   (buffer-name))
                           (agent-q-activity--look-cut text)))
     :directory default-directory
     :process (cond ((bound-and-true-p sly-buffer-connection))
                    ((bound-and-true-p slime-buffer-connection))))))

(defun agent-q-activity--look-message-bounds ()
  "Return the bounds of the compiler's message around point, a cons, or nil."
  (save-excursion
    (forward-line 0)
    (while (not (or (bobp) (get-text-property (point) 'compilation-message)))
      (forward-line -1))
    (when (get-text-property (point) 'compilation-message)
      (let ((start (point)) (lines 1))
        (forward-line 1)
        (while (not (or (eobp) (>= lines agent-q-activity--look-message-lines)
                        (get-text-property (point) 'compilation-message)))
          (setq lines (1+ lines))
          (forward-line 1))
        (cons start (point))))))

(defun agent-q-activity--look-compilation ()
  "Return the compiler's message at point, or else the whole log."
  (font-lock-ensure)
  (let ((bounds (agent-q-activity--look-message-bounds)))
    (if (null bounds)
        (agent-q-activity--look-page)
      (agent-q-activity--look-make
       :kind 'message
       :label (agent-q-text-visible-line
               (string-trim (buffer-substring-no-properties
                             (car bounds)
                             (save-excursion (goto-char (car bounds)) (line-end-position))))
               60)
       :excerpts (list (cons (format "a message in %s, run in %s" (buffer-name)
                                     (abbreviate-file-name default-directory))
                             (agent-q-activity--look-cut
                              (string-trim (buffer-substring-no-properties (car bounds)
                                                                           (cdr bounds))))))
       :directory default-directory))))

(defun agent-q-activity--look-page ()
  "Return this whole buffer, such as an inspector or a report."
  (let ((line (string-trim (buffer-substring-no-properties (line-beginning-position)
                                                           (line-end-position)))))
    (agent-q-activity--look-make
     :kind 'page
     :label (agent-q-text-visible-line (buffer-name) 60)
     :excerpts (list (cons (format "the buffer %s (%s)%s" (buffer-name) major-mode
                                   (if (string-empty-p line) ""
                                     (format ", point in its line %d"
                                             (line-number-at-pos nil t))))
                           (agent-q-activity--look-between (point-min) (point-max))))
     :directory default-directory
     :process (cond ((bound-and-true-p sly-buffer-connection))
                    ((bound-and-true-p slime-buffer-connection))))))

;;;;; By name

(defun agent-q-activity-look-region ()
  "Return the region of this buffer, or signal that there is none."
  (unless (and mark-active (mark) (/= (mark) (point)))
    (user-error "No region is selected in %s" (buffer-name)))
  (agent-q-activity--look-make-part 'region "region" (region-beginning) (region-end)))

(defun agent-q-activity-look-definition ()
  "Return the definition at point, or signal that there is none."
  (let ((bounds (agent-q-activity--look-definition-bounds)))
    (unless bounds
      (user-error "There is no definition at point in %s" (buffer-name)))
    (agent-q-activity--look-make-part 'definition (agent-q-activity--look-definition-name (car bounds))
                                      (car bounds) (cdr bounds))))

;;;;; All

(defun agent-q-activity-look-here ()
  "Return what the user means by \"this\" in the current buffer.
That is the region, if it is active, and else what the buffer is for."
  (let ((look
         (cond ((use-region-p)
                (agent-q-activity--look-make-part 'region "region" (region-beginning) (region-end)))
               (agent-q-session-chat-p
                (user-error "This is a chat: type at its prompt, or select a region"))
               ((agent-q-debugger-local (current-buffer) 3) (agent-q-activity--look-debugger))
               ((derived-mode-p 'sly-mrepl-mode 'slime-repl-mode 'slime-mrepl-mode)
                (agent-q-activity--look-repl))
               ((derived-mode-p 'compilation-mode) (agent-q-activity--look-compilation))
               ((or (derived-mode-p 'sly-xref-mode 'slime-xref-mode 'special-mode)
                    (not (or buffer-file-name (derived-mode-p 'prog-mode))))
                (agent-q-activity--look-page))
               (t (agent-q-activity--look-source)))))
    (when (seq-every-p (lambda (excerpt) (string-blank-p (cdr excerpt)))
                       (agent-q-activity-look-excerpts look))
      (user-error "There is nothing to ask about in %s" (buffer-name)))
    look))

(provide 'agent-q-activity)
;;; agent-q-activity.el ends here
