;;; agent-q-code-highlight.el --- Colours of code in answers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A fence of code is fontified once, when it is closed, by the mode of its
;; language in a hidden buffer, a piece at a time between the user's keys.  The
;; mode's hooks, local variables and the like are left out: the text is a model's.

;;; Code:

(require 'agent-q-module)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defcustom agent-q-code-highlight-limit 50000
  "Code longer than this is shown without colours; nil turns colours off."
  :type '(choice (natnum :tag "Characters") (const :tag "No colours" nil))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-code-highlight-modes
  '(("" . lisp-mode) ("lisp" . lisp-mode) ("cl" . lisp-mode) ("common-lisp" . lisp-mode)
    ("commonlisp" . lisp-mode) ("sbcl" . lisp-mode) ("asd" . lisp-mode)
    ("elisp" . emacs-lisp-mode) ("emacs-lisp" . emacs-lisp-mode) ("scheme" . scheme-mode)
    ("sh" . sh-mode) ("bash" . sh-mode) ("shell" . sh-mode) ("c" . c-mode)
    ("cpp" . c++-mode) ("c++" . c++-mode) ("java" . java-mode) ("js" . js-mode)
    ("javascript" . js-mode) ("json" . js-mode) ("python" . python-mode)
    ("py" . python-mode) ("diff" . diff-mode) ("patch" . diff-mode) ("sql" . sql-mode)
    ("html" . html-mode) ("xml" . xml-mode) ("css" . css-mode) ("makefile" . makefile-mode)
    ("make" . makefile-mode))
  "The modes that fontify code of a language in answers.
Only modes that Emacs has are used; the empty name is for code whose language
is not named."
  :type '(alist :key-type string :value-type symbol)
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(put 'agent-q-code-highlight-modes 'risky-local-variable t)

(defconst agent-q-code-highlight--piece 1500
  "Number of characters fontified at a time.")

(defvar agent-q-code-highlight--waiting nil
  "Code that is to be fontified, the next one first.
Each is a list of buffer, marker of its start and of its end, and language.")

(defvar agent-q-code-highlight--job nil
  "The code being fontified: (BUFFER END-MARKER HIDDEN MAP NEXT) or nil.
MAP has the place in BUFFER and the length of each stretch of code.")

(defvar agent-q-code-highlight--timer nil
  "The timer that fontifies pending code, or nil.")

(defvar agent-q-code-highlight-closed-functions nil
  "Functions called with the place where code begins that is complete now.")

(defun agent-q-code-highlight-closed (start end language)
  "Note that the code from START to END, in LANGUAGE, is complete."
  (put-text-property start end 'agent-q-language (downcase language))
  (run-hook-with-args 'agent-q-code-highlight-closed-functions start)
  (when (and agent-q-code-highlight-limit
             (< 0 (- end start) agent-q-code-highlight-limit)
             (agent-q-code-highlight--mode (downcase language)))
    (setq agent-q-code-highlight--waiting
          (nconc agent-q-code-highlight--waiting
                 (list (list (current-buffer) (copy-marker start) (copy-marker end)
                             (downcase language)))))
    (agent-q-code-highlight--schedule)))

(defun agent-q-code-highlight--mode (language)
  "Return the mode for LANGUAGE if Emacs has it, or nil."
  (let ((mode (if-let ((entry (assoc language agent-q-code-highlight-modes))) (cdr entry)
                (agent-q-code-highlight--mode-of-files language))))
    (and mode (fboundp mode) mode)))

(defun agent-q-code-highlight--mode-of-files (language)
  "Return the mode of files in LANGUAGE, or whose names end with it, or nil.
A model may write any word there, so that only modes of files count."
  (let ((mode (intern-soft (concat language "-mode")))
        (case-fold-search nil))
    (if (and mode (rassq mode auto-mode-alist)) mode
      (let ((mode (and (string-match-p "\\`[a-z0-9]+\\'" language)
                       (assoc-default (concat "x." language) auto-mode-alist
                                      #'string-match-p))))
        (and (symbolp mode) mode)))))

(defun agent-q-code-highlight--schedule ()
  "See that pending code is fontified soon."
  (unless agent-q-code-highlight--timer
    (setq agent-q-code-highlight--timer (run-at-time 0.01 nil #'agent-q-code-highlight--run))))

(defun agent-q-code-highlight--run ()
  "Fontify a piece of pending code."
  (setq agent-q-code-highlight--timer nil)
  ;; Nothing may be left, as `agent-q-code-highlight-flush' does not wait for this.
  (when (or agent-q-code-highlight--job agent-q-code-highlight--waiting)
    (agent-q-module-log-call "Fontifying code" #'agent-q-code-highlight--step))
  (when (or agent-q-code-highlight--job agent-q-code-highlight--waiting)
    (agent-q-code-highlight--schedule)))

(defun agent-q-code-highlight-flush ()
  "Fontify all that waits now."
  (while (or agent-q-code-highlight--job agent-q-code-highlight--waiting)
    (agent-q-module-log-call "Fontifying code" #'agent-q-code-highlight--step)))

(defun agent-q-code-highlight--step ()
  "Begin with the next code, or fontify a piece of the one at hand."
  (let ((done nil))
    (unwind-protect
        (progn
          (if agent-q-code-highlight--job
              (agent-q-code-highlight--piece)
            (agent-q-code-highlight--begin (pop agent-q-code-highlight--waiting)))
          (setq done t))
      (unless done
        (setq agent-q-code-highlight--job nil)))))

(defun agent-q-code-highlight--begin (code)
  "Put CODE, a pending element, into the hidden buffer of its mode."
  (pcase-let ((`(,buffer ,start ,end ,language) code))
    (when (and (buffer-live-p buffer) (< start end)
               ;; Its answer may be bare again.
               (get-text-property start 'agent-q-code buffer))
      (let ((map (with-current-buffer buffer (agent-q-code-highlight-stretches start end)))
            (hidden (agent-q-code-highlight--hidden (agent-q-code-highlight--mode language))))
        (with-current-buffer hidden
          (let ((inhibit-read-only t) (inhibit-modification-hooks nil)
                (buffer-undo-list t))
            (erase-buffer)
            (pcase-dolist (`(,place . ,length) map)
              (insert (with-current-buffer buffer
                        (buffer-substring-no-properties place (+ place length)))))))
        (setq agent-q-code-highlight--job
              (list buffer
                    (mapcar (lambda (stretch)
                              (cons (with-current-buffer buffer (copy-marker (car stretch)))
                                    (cdr stretch)))
                            map)
                    hidden 1))))
    (set-marker start nil)
    (set-marker end nil)))

(defun agent-q-code-highlight-stretches (start end)
  "Return the stretches of code from START to END as pairs of place and length.
Gutters are left out, and so are line ends that were put in."
  (let ((stretches nil) (place start))
    (when (markerp place)
      (setq place (marker-position place)))
    (while (< place end)
      (let ((next (min (next-single-char-property-change place 'agent-q-gutter nil end)
                       (next-single-char-property-change place 'agent-q-soft nil end))))
        (unless (or (get-text-property place 'agent-q-gutter)
                    (get-text-property place 'agent-q-soft))
          (push (cons place (- next place)) stretches))
        (setq place next)))
    (nreverse stretches)))

(defun agent-q-code-highlight--hidden (mode)
  "Return a hidden buffer in MODE."
  (let* ((name (format " *agent-q %s*" mode))
         (buffer (get-buffer name)))
    (or (and buffer (with-current-buffer buffer (eq major-mode mode)) buffer)
        (with-current-buffer (get-buffer-create name)
          ;; The user's hooks expect a buffer that somebody works in.
          (delay-mode-hooks
            (let ((inhibit-message t)
                  (message-log-max nil)
                  (enable-local-variables nil)
                  (enable-local-eval nil)
                  (enable-dir-local-variables nil))
              (funcall mode)))
          (setq-local delayed-mode-hooks nil)
          (buffer-disable-undo)
          (font-lock-mode 1)
          (setq-local jit-lock-functions nil)
          (current-buffer)))))

(defun agent-q-code-highlight-text (text mode)
  "Return TEXT with the faces that MODE gives it; a long text has none."
  (if (not (and agent-q-code-highlight-limit
                (<= (length text) agent-q-code-highlight-limit)))
      text
    ;; The hidden buffer may be at work.
    (agent-q-code-highlight-flush)
    (with-current-buffer (agent-q-code-highlight--hidden mode)
      (let ((inhibit-read-only t) (inhibit-modification-hooks nil)
            (buffer-undo-list t))
        (erase-buffer)
        (insert text)
        (font-lock-ensure)
        (buffer-string)))))

(defun agent-q-code-highlight--piece ()
  "Fontify a piece of the code at hand."
  (pcase-let ((`(,buffer ,map ,hidden ,from) agent-q-code-highlight--job))
    (if (not (and (buffer-live-p buffer) (buffer-live-p hidden)))
        (setq agent-q-code-highlight--job nil)
      (let ((to (with-current-buffer hidden
                  (goto-char (min (point-max) (+ from agent-q-code-highlight--piece)))
                  (min (point-max) (line-beginning-position 2)))))
        (with-current-buffer hidden
          (font-lock-ensure from to))
        (with-current-buffer buffer
          (with-silent-modifications
            (save-excursion
              (agent-q-code-highlight--copy-faces hidden map from to))))
        (setq agent-q-code-highlight--job
              (and (< to (with-current-buffer hidden (point-max)))
                   (list buffer map hidden to)))
        (unless agent-q-code-highlight--job
          (pcase-dolist (`(,marker . ,_) map)
            (set-marker marker nil)))))))

(defun agent-q-code-highlight--copy-faces (hidden map from to)
  "Copy the faces from FROM to TO in HIDDEN to the stretches in MAP."
  (let ((start 1))
    (pcase-dolist (`(,marker . ,length) map)
      (let ((place (max from start))
            (end (min to (+ start length))))
        (while (< place end)
          (let ((next (min end (or (next-single-property-change place 'face hidden) end)))
                (face (get-text-property place 'face hidden)))
            (when face
              (put-text-property (+ marker (- place start)) (+ marker (- next start))
                                 'face (list face 'agent-q-code-block)))
            (setq place next))))
      (cl-incf start length))))

(provide 'agent-q-code-highlight)
;;; agent-q-code-highlight.el ends here
