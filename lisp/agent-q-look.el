;;; agent-q-look.el --- What the user looks at  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the user means by "this" in any buffer: the region, the definition at point, the
;; error in a debugger, the message of a compiler, a value in an inspector.  It becomes
;; texts with the places that they are from, which agent-q-ask.el sends along with a
;; question.

;;; Code:

(require 'agent-q-debugger)
(require 'agent-q-frames)
(require 'agent-q-history)
(require 'agent-q-image-connection)
(require 'agent-q-past)
(require 'agent-q-project)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'agent-q-user)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'thingatpt)

(declare-function flymake-diagnostics "flymake")
(declare-function flymake-diagnostic-text "flymake")

(cl-defstruct (agent-q-look (:constructor agent-q-look--make) (:copier nil))
  "What the user looks at.
LABEL is a short name for the user.  EXCERPTS are texts for the model, each
as (WHERE . TEXT).  KIND is `error', `definition', `region', `file', `input',
`message' or `page'.  FILE is the one that the text is of, or nil, LINE where
it begins there, DIRECTORY where its buffer is, and PROCESS the connection that
it is about, or nil."
  label excerpts kind file line directory process)

(defconst agent-q-look-limit 20000
  "Most characters of a text that are sent along.")

(defconst agent-q-look--message-lines 40
  "Most lines of a compiler's message or of a REPL that are sent along.")

;;;; Texts and places

(defun agent-q-look--cut (text &optional total)
  "Return TEXT for the model, cut at `agent-q-look-limit'.
TOTAL is the number of characters that it is the beginning of, if not all."
  (let ((more (- (or total (length text)) agent-q-look-limit)))
    (agent-q-text-clean
     (if (> more 0)
         (format "%s\n... [%d more characters]" (substring text 0 agent-q-look-limit) more)
       text))))

(defun agent-q-look--between (start end)
  "Return the text from START to END for the model, of which no more is copied."
  (agent-q-look--cut (buffer-substring-no-properties start (min end (+ start agent-q-look-limit)))
                     (- end start)))

(defun agent-q-look--name ()
  "Return the name of this buffer's file within its project, or of the buffer."
  (if (null buffer-file-name)
      (buffer-name)
    (let ((root (agent-q-project-directory)))
      (if (and root (file-in-directory-p buffer-file-name root))
          (file-relative-name buffer-file-name root)
        (abbreviate-file-name buffer-file-name)))))

(defun agent-q-look--package ()
  "Return the package that the text at point is read in, as a text, or nothing."
  (let ((package (and (derived-mode-p 'lisp-mode) (agent-q-user-package))))
    (if package (format ", package %s" package) "")))

(defun agent-q-look--lines (start end)
  "Return which lines the text from START to END has, as words."
  (let ((first (line-number-at-pos start t))
        (last (line-number-at-pos (if (and (> end start) (eq (char-before end) ?\n)) (1- end) end)
                                  t)))
    (if (= first last) (format "line %d" first) (format "lines %d to %d" first last))))

(defun agent-q-look--make-part (kind name start end)
  "Return the text from START to END, called NAME, as a look of KIND."
  (agent-q-look--make
   :kind kind
   :label (agent-q-visible-line
           (format "%s (%s:%d)" name
                   (file-name-nondirectory (or buffer-file-name (buffer-name)))
                   (line-number-at-pos start t)))
   :excerpts (cons (cons (format "%s, %s of %s%s%s" name (agent-q-look--lines start end)
                                 (agent-q-look--name) (agent-q-look--package)
                                 (if (and buffer-file-name (buffer-modified-p))
                                     ", with unsaved changes" ""))
                         (agent-q-look--between start end))
                   (agent-q-look--notes start end))
   :file buffer-file-name
   :line (line-number-at-pos start t)
   :directory default-directory))

;;;; Source

(defconst agent-q-look--compiler "what the compiler says of it"
  "What messages about a definition are sent as.")

(defun agent-q-look-wrong-p (look)
  "Whether LOOK is of an error, or of anything else than mere source."
  (or (not (memq (agent-q-look-kind look) '(definition file)))
      (assoc agent-q-look--compiler (agent-q-look-excerpts look))))

(defun agent-q-look--definition-bounds ()
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

(defun agent-q-look--definition-name (start)
  "Return the name of the definition that begins at START."
  (save-excursion
    (goto-char start)
    (if (looking-at "([ \t]*\\([^][() \t\n]+\\)[ \t\n]+\\((setf[ \t]+[^() \t\n]+)\\|[^]['() \t\n]+\\)")
        (agent-q-visible-line
         (format "%s %s" (match-string-no-properties 1) (match-string-no-properties 2)) 80)
      "definition")))

(defun agent-q-look--source ()
  "Return the definition at point, or the file around it."
  (let ((bounds (agent-q-look--definition-bounds)))
    (if bounds
        (agent-q-look--make-part 'definition (agent-q-look--definition-name (car bounds))
                                 (car bounds) (cdr bounds))
      (save-restriction
        (widen)
        (agent-q-look--make-part 'file (if buffer-file-name "file" "buffer")
                                 (point-min) (point-max))))))

(defun agent-q-look--notes (start end)
  "Return what compilers say of the text from START to END, a list of one excerpt.
It is nil where they say nothing."
  (let ((notes (append (agent-q-look--overlay-notes start end)
                       (agent-q-look--flymake-notes start end))))
    (and notes
         (list (cons agent-q-look--compiler
                     (agent-q-look--cut (string-join (delete-dups notes) "\n")))))))

(defun agent-q-look--overlay-notes (start end)
  "Return the notes of SLY and SLIME on the text from START to END."
  (delq nil
        (mapcar (lambda (overlay)
                  (let ((help (overlay-get overlay 'help-echo)))
                    (and (or (overlay-get overlay 'sly-note) (overlay-get overlay 'slime-note))
                         (stringp help)
                         (format "line %d: %s" (line-number-at-pos (overlay-start overlay) t)
                                 (string-remove-prefix "[sly] " (substring-no-properties help))))))
                (overlays-in start end))))

(defun agent-q-look--flymake-notes (start end)
  "Return the notes of Flymake on the text from START to END."
  (and (bound-and-true-p flymake-mode)
       (mapcar (lambda (diagnostic)
                 (substring-no-properties (flymake-diagnostic-text diagnostic)))
               (flymake-diagnostics start end))))

;;;; Other buffers

(defun agent-q-look-error (buffer)
  "Return the error in the debugger BUFFER as a text, or signal an error."
  (unless (agent-q-debugger-local buffer 3)
    (user-error "This is not a debugger buffer of SLY or SLIME"))
  (let* ((error (agent-q-past-error-in (agent-q-debugger-local buffer 2)
                                       (agent-q-debugger-local buffer 3)))
         (form (and error (agent-q-past-error-form error))))
    (format "Debugger %s: %s\n%s%s\n%s"
            (agent-q-debugger-buffer-name buffer)
            (agent-q-debugger-condition-text (agent-q-debugger-local buffer 4))
            ;; Where tail calls are merged, no frame names what was called.
            (if form (format "Form: %s\n" form) "")
            (or (agent-q-frames-restarts
                 (mapcar (lambda (restart) (mapcar #'substring-no-properties restart))
                         (agent-q-debugger-local buffer 5)))
                "There is no restart.")
            (or (and error (agent-q-frames-text (agent-q-past-error-frames error))) ""))))

(defun agent-q-look--debugger ()
  "Return the error of this debugger buffer."
  (agent-q-look--make
   :kind 'error
   :label (agent-q-visible-line
           (replace-regexp-in-string
            "[ \t\n]+" " "
            (agent-q-debugger-condition-text (agent-q-debugger-local (current-buffer) 4)))
           60)
   :excerpts (list (cons "the user's debugger, which is open"
                         (agent-q-look--cut (agent-q-look-error (current-buffer)))))
   :directory default-directory
   :process (agent-q-debugger-local (current-buffer) 2)))

(defun agent-q-look--repl ()
  "Return what is typed at the prompt of this REPL, or else what it printed last."
  (let* ((typed (string-trim (agent-q-history-typed)))
         (input (or (agent-q-history-input-start) (point-max)))
         (text (if (string-empty-p typed)
                   (buffer-substring-no-properties
                    (save-excursion (goto-char input)
                                    (forward-line (- agent-q-look--message-lines))
                                    (point))
                    input)
                 typed)))
    (agent-q-look--make
     :kind 'input
     :label (if (string-empty-p typed) "the end of the REPL" "the form at the prompt")
     :excerpts (list (cons (format (if (string-empty-p typed) "the last lines of the REPL %s"
                                     "typed, not yet evaluated, at the prompt of the REPL %s")
                                   (buffer-name))
                           (agent-q-look--cut text)))
     :directory default-directory
     :process (cond ((bound-and-true-p sly-buffer-connection))
                    ((bound-and-true-p slime-buffer-connection))))))

(defun agent-q-look--message-bounds ()
  "Return the bounds of the compiler's message around point, a cons, or nil."
  (save-excursion
    (forward-line 0)
    (while (not (or (bobp) (get-text-property (point) 'compilation-message)))
      (forward-line -1))
    (when (get-text-property (point) 'compilation-message)
      (let ((start (point)) (lines 1))
        (forward-line 1)
        (while (not (or (eobp) (>= lines agent-q-look--message-lines)
                        (get-text-property (point) 'compilation-message)))
          (setq lines (1+ lines))
          (forward-line 1))
        (cons start (point))))))

(defun agent-q-look--compilation ()
  "Return the compiler's message at point, or else the whole log."
  (font-lock-ensure)
  (let ((bounds (agent-q-look--message-bounds)))
    (if (null bounds)
        (agent-q-look--page)
      (agent-q-look--make
       :kind 'message
       :label (agent-q-visible-line
               (string-trim (buffer-substring-no-properties
                             (car bounds)
                             (save-excursion (goto-char (car bounds)) (line-end-position))))
               60)
       :excerpts (list (cons (format "a message in %s, run in %s" (buffer-name)
                                     (abbreviate-file-name default-directory))
                             (agent-q-look--cut
                              (string-trim (buffer-substring-no-properties (car bounds)
                                                                           (cdr bounds))))))
       :directory default-directory))))

(defun agent-q-look--page ()
  "Return this whole buffer, such as an inspector or a report."
  (let ((line (string-trim (buffer-substring-no-properties (line-beginning-position)
                                                           (line-end-position)))))
    (agent-q-look--make
     :kind 'page
     :label (agent-q-visible-line (buffer-name) 60)
     :excerpts (list (cons (format "the buffer %s (%s)%s" (buffer-name) major-mode
                                   (if (string-empty-p line) ""
                                     (format ", point in its line %d"
                                             (line-number-at-pos nil t))))
                           (agent-q-look--between (point-min) (point-max))))
     :directory default-directory
     :process (cond ((bound-and-true-p sly-buffer-connection))
                    ((bound-and-true-p slime-buffer-connection))))))

;;;; By name

(defun agent-q-look-region ()
  "Return the region of this buffer, or signal that there is none."
  (unless (and mark-active (mark) (/= (mark) (point)))
    (user-error "No region is selected in %s" (buffer-name)))
  (agent-q-look--make-part 'region "region" (region-beginning) (region-end)))

(defun agent-q-look-definition ()
  "Return the definition at point, or signal that there is none."
  (let ((bounds (agent-q-look--definition-bounds)))
    (unless bounds
      (user-error "There is no definition at point in %s" (buffer-name)))
    (agent-q-look--make-part 'definition (agent-q-look--definition-name (car bounds))
                             (car bounds) (cdr bounds))))

;;;; All

(defun agent-q-look-here ()
  "Return what the user means by \"this\" in the current buffer.
That is the region, if it is active, and else what the buffer is for."
  (let ((look
         (cond ((use-region-p)
                (agent-q-look--make-part 'region "region" (region-beginning) (region-end)))
               (agent-q-session-chat-p
                (user-error "This is a chat: type at its prompt, or select a region"))
               ((agent-q-debugger-local (current-buffer) 3) (agent-q-look--debugger))
               ((derived-mode-p 'sly-mrepl-mode 'slime-repl-mode 'slime-mrepl-mode)
                (agent-q-look--repl))
               ((derived-mode-p 'compilation-mode) (agent-q-look--compilation))
               ((or (derived-mode-p 'sly-xref-mode 'slime-xref-mode 'special-mode)
                    (not (or buffer-file-name (derived-mode-p 'prog-mode))))
                (agent-q-look--page))
               (t (agent-q-look--source)))))
    (when (seq-every-p (lambda (excerpt) (string-blank-p (cdr excerpt)))
                       (agent-q-look-excerpts look))
      (user-error "There is nothing to ask about in %s" (buffer-name)))
    look))

(provide 'agent-q-look)
;;; agent-q-look.el ends here
