;;; agent-q-render-body.el --- Texts in the log: pitch, folding, colours of code  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How a long text stands in the log of a chat: cut and unfolded, in a fixed pitch, its code
;; in colours.

;;; Code:

(require 'agent-q-module)
(require 'cl-lib)
(require 'face-remap)
(require 'seq)
(require 'subr-x)

;;;; Code in a fixed pitch where text has none

;; Code and tables need characters of one width.  Where the text of a chat has
;; them anyway, code is in the same font.  Where it is proportional, by
;; `variable-pitch-mode' or because the font of Emacs is, the face `fixed-pitch' is
;; mixed in.

(defface agent-q-code '((t :inherit nil))
  "Code, tables and values in chats.
Where the text around them is proportional, they have the face
`fixed-pitch', too."
  :group 'agent-q-faces)

(defconst agent-q-render-body--pitch-one-width 90
  "The least spacing of fonts whose characters have one width, or twice that.")

(defvar-local agent-q-render-body--pitch-remapping nil
  "What `face-remap-add-relative' returned, while code has a font of its own.")

(defun agent-q-render-body--pitch-proportional-p ()
  "Whether text of this buffer is in a proportional font."
  (if (bound-and-true-p buffer-face-mode)
      (not (eq buffer-face-mode-face 'fixed-pitch))
    (when-let ((font (and (display-graphic-p)
                          (find-font (font-spec :family (face-attribute 'default :family))))))
      (< (or (font-get font :spacing) 0) agent-q-render-body--pitch-one-width))))

(defun agent-q-render-body--pitch-update ()
  "Give code of this buffer a font that suits its text."
  (let ((proportional (agent-q-render-body--pitch-proportional-p)))
    (cond ((and proportional (not agent-q-render-body--pitch-remapping))
           (setq agent-q-render-body--pitch-remapping (face-remap-add-relative 'agent-q-code 'fixed-pitch)))
          ((and agent-q-render-body--pitch-remapping (not proportional))
           (face-remap-remove-relative agent-q-render-body--pitch-remapping)
           (setq agent-q-render-body--pitch-remapping nil)))))

(defun agent-q-render-body--pitch-resized (window)
  "Give code in the buffer of WINDOW its font; that of Emacs may be another now."
  (with-current-buffer (window-buffer window)
    (agent-q-render-body--pitch-update)))

(defun agent-q-render-body-pitch-setup ()
  "Give code of this buffer a font that suits its text, from now on."
  (add-hook 'buffer-face-mode-hook #'agent-q-render-body--pitch-update nil t)
  (add-hook 'window-size-change-functions #'agent-q-render-body--pitch-resized nil t)
  (agent-q-render-body--pitch-update))

;;;; Long texts in the log of a chat

;; The bodies of items in the log: what is too long is cut, and shown whole in a buffer of
;; its own.

(defconst agent-q-render-body-limit 6000
  "Most characters of a text that an unfolded item shows.")

(defvar agent-q-render-body-more-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-render-body-show-all)
    (define-key map [mouse-2] #'agent-q-render-body-show-all-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on the note under a cut text.")

(defun agent-q-render-body (text &optional visible &rest properties)
  "Return TEXT with PROPERTIES as the indented body of an item.
What is too long is cut, with a button for all of it.  VISIBLE is a function
of a text that returns how it is shown; it gets no more than is shown."
  (let ((visible (or visible #'identity)))
    (if (> (length text) agent-q-render-body-limit)
        (apply #'agent-q-render-body-cut-body
               (funcall visible (substring text 0 agent-q-render-body-limit))
               (length text) (lambda () (funcall visible text)) properties)
      (agent-q-render-body--propertize (funcall visible text) properties))))

(defun agent-q-render-body--propertize (text properties)
  "Return TEXT, something of a body, with PROPERTIES."
  (let ((text (apply #'propertize text 'line-prefix "    " 'wrap-prefix "    " properties)))
    (add-face-text-property 0 (length text) 'agent-q-code t text)
    text))

(defun agent-q-render-body-extends-p (face)
  "Whether lines in FACE, a face or a list of faces, reach the edge of the window.
A line end in another face looks like one more character."
  (seq-some (lambda (face) (eq t (face-attribute face :extend nil t)))
            (ensure-list face)))

(defun agent-q-render-body-cut-body (text total all &rest properties)
  "Return the body of an item with TEXT, which gets PROPERTIES.
TEXT is the beginning of a text that ALL returns, which has TOTAL characters,
or nil if that is unknown."
  (concat (agent-q-render-body--propertize text properties)
          (propertize (if total
                          (format "\n[%d of %d characters shown; RET shows all]"
                                  (min agent-q-render-body-limit total) total)
                        (format "\n[%d characters shown; RET shows all]"
                                agent-q-render-body-limit))
                      'face 'link 'mouse-face 'highlight 'line-prefix "    "
                      'keymap agent-q-render-body-more-map
                      'agent-q-all all)))

(defun agent-q-render-body-reveal (start end)
  "Scroll the selected window to START to END, or as much of that as fits."
  (when (and (eq (window-buffer) (current-buffer))
             (not (pos-visible-in-window-p (1- end))))
    (set-window-start
     nil (save-excursion
           (goto-char (1- end))
           ;; With a line below it, so that its end is seen to be one.
           (vertical-motion (- 2 (window-text-height)))
           (min start (point))))))

(defun agent-q-render-body-show-all ()
  "Show the whole text that is cut at point."
  (interactive nil agent-q-chat-mode)
  (let ((text (funcall (or (get-text-property (point) 'agent-q-all)
                           (user-error "No cut text here")))))
    (agent-q-render-body-visit "*agent-q text*" text)))

(define-derived-mode agent-q-render-body-page-mode special-mode "agent-q page"
  "Major mode of texts that are shown beside a chat, only to be read."
  (setq-local bidi-paragraph-direction 'left-to-right
              bidi-inhibit-bpa t))

(defun agent-q-render-body-show (name text &optional mode)
  "Show TEXT in the buffer NAME, where it can only be read; return the buffer.
Its major mode is MODE, `agent-q-render-body-page-mode' or one made of that."
  (with-current-buffer (get-buffer-create name)
    (let ((inhibit-read-only t))
      (erase-buffer)
      (insert text)
      (goto-char (point-min)))
    (funcall (or mode #'agent-q-render-body-page-mode))
    (display-buffer (current-buffer))
    (current-buffer)))

(defun agent-q-render-body-visit (name text &optional mode asked)
  "Show TEXT in the buffer NAME in MODE, and go there.
It is shown as by `agent-q-render-body-show'.
If it was asked for in the window ASKED, and the user went on from there,
don't: then the user keeps typing there.  Return the buffer."
  (let* ((stayed (memq asked (list nil (selected-window))))
         (buffer (agent-q-render-body-show name text mode))
         (window (get-buffer-window buffer)))
    (when (and window stayed)
      (select-window window)
      (message "q closes it"))
    buffer))

(defun agent-q-render-body-show-all-mouse (event)
  "Show the whole text that is cut where EVENT clicked."
  (interactive "e" agent-q-chat-mode)
  (with-current-buffer (window-buffer (posn-window (event-start event)))
    (save-excursion
      (goto-char (posn-point (event-start event)))
      (agent-q-render-body-show-all))))

;;;; Code in answers, in its colours

;; A fence of code is fontified once, when it is closed, by the mode of its
;; language in a hidden buffer, a piece at a time between the user's keys.  The
;; mode's hooks, local variables and the like are left out: the text is a model's.

(defcustom agent-q-render-body-code-limit 50000
  "Code longer than this is shown without colours; nil turns colours off."
  :type '(choice (natnum :tag "Characters") (const :tag "No colours" nil))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-render-body-code-modes
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

(put 'agent-q-render-body-code-modes 'risky-local-variable t)

(defconst agent-q-render-body--code-piece 1500
  "Number of characters fontified at a time.")

(defvar agent-q-render-body--code-waiting nil
  "Code that is to be fontified, the next one first.
Each is a list of buffer, marker of its start and of its end, and language.")

(defvar agent-q-render-body--code-job nil
  "The code being fontified: (BUFFER END-MARKER HIDDEN MAP NEXT) or nil.
MAP has the place in BUFFER and the length of each stretch of code.")

(defvar agent-q-render-body--code-timer nil
  "The timer that fontifies pending code, or nil.")

(defvar agent-q-render-body-code-closed-functions nil
  "Functions called with the place where code begins that is complete now.")

(defun agent-q-render-body-code-closed (start end language)
  "Note that the code from START to END, in LANGUAGE, is complete."
  (put-text-property start end 'agent-q-language (downcase language))
  (run-hook-with-args 'agent-q-render-body-code-closed-functions start)
  (when (and agent-q-render-body-code-limit
             (< 0 (- end start) agent-q-render-body-code-limit)
             (agent-q-render-body--code-mode (downcase language)))
    (setq agent-q-render-body--code-waiting
          (nconc agent-q-render-body--code-waiting
                 (list (list (current-buffer) (copy-marker start) (copy-marker end)
                             (downcase language)))))
    (agent-q-render-body--code-schedule)))

(defun agent-q-render-body--code-mode (language)
  "Return the mode for LANGUAGE if Emacs has it, or nil."
  (let ((mode (if-let ((entry (assoc language agent-q-render-body-code-modes))) (cdr entry)
                (agent-q-render-body--code-mode-of-files language))))
    (and mode (fboundp mode) mode)))

(defun agent-q-render-body--code-mode-of-files (language)
  "Return the mode of files in LANGUAGE, or whose names end with it, or nil.
A model may write any word there, so that only modes of files count."
  (let ((mode (intern-soft (concat language "-mode")))
        (case-fold-search nil))
    (if (and mode (rassq mode auto-mode-alist)) mode
      (let ((mode (and (string-match-p "\\`[a-z0-9]+\\'" language)
                       (assoc-default (concat "x." language) auto-mode-alist
                                      #'string-match-p))))
        (and (symbolp mode) mode)))))

(defun agent-q-render-body--code-schedule ()
  "See that pending code is fontified soon."
  (unless agent-q-render-body--code-timer
    (setq agent-q-render-body--code-timer (run-at-time 0.01 nil #'agent-q-render-body--code-run))))

(defun agent-q-render-body--code-run ()
  "Fontify a piece of pending code."
  (setq agent-q-render-body--code-timer nil)
  ;; Nothing may be left, as `agent-q-render-body-code-flush' does not wait for this.
  (when (or agent-q-render-body--code-job agent-q-render-body--code-waiting)
    (agent-q-module-log-call "Fontifying code" #'agent-q-render-body--code-step))
  (when (or agent-q-render-body--code-job agent-q-render-body--code-waiting)
    (agent-q-render-body--code-schedule)))

(defun agent-q-render-body-code-flush ()
  "Fontify all that waits now."
  (while (or agent-q-render-body--code-job agent-q-render-body--code-waiting)
    (agent-q-module-log-call "Fontifying code" #'agent-q-render-body--code-step)))

(defun agent-q-render-body--code-step ()
  "Begin with the next code, or fontify a piece of the one at hand."
  (let ((done nil))
    (unwind-protect
        (progn
          (if agent-q-render-body--code-job
              (agent-q-render-body--code-piece)
            (agent-q-render-body--code-begin (pop agent-q-render-body--code-waiting)))
          (setq done t))
      (unless done
        (setq agent-q-render-body--code-job nil)))))

(defun agent-q-render-body--code-begin (code)
  "Put CODE, a pending element, into the hidden buffer of its mode."
  (pcase-let ((`(,buffer ,start ,end ,language) code))
    (when (and (buffer-live-p buffer) (< start end)
               ;; Its answer may be bare again.
               (get-text-property start 'agent-q-code buffer))
      (let ((map (with-current-buffer buffer (agent-q-render-body-code-stretches start end)))
            (hidden (agent-q-render-body--code-hidden (agent-q-render-body--code-mode language))))
        (with-current-buffer hidden
          (let ((inhibit-read-only t) (inhibit-modification-hooks nil)
                (buffer-undo-list t))
            (erase-buffer)
            (pcase-dolist (`(,place . ,length) map)
              (insert (with-current-buffer buffer
                        (buffer-substring-no-properties place (+ place length)))))))
        (setq agent-q-render-body--code-job
              (list buffer
                    (mapcar (lambda (stretch)
                              (cons (with-current-buffer buffer (copy-marker (car stretch)))
                                    (cdr stretch)))
                            map)
                    hidden 1))))
    (set-marker start nil)
    (set-marker end nil)))

(defun agent-q-render-body-code-stretches (start end)
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

(defun agent-q-render-body--code-hidden (mode)
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

(defun agent-q-render-body--code-piece ()
  "Fontify a piece of the code at hand."
  (pcase-let ((`(,buffer ,map ,hidden ,from) agent-q-render-body--code-job))
    (if (not (and (buffer-live-p buffer) (buffer-live-p hidden)))
        (setq agent-q-render-body--code-job nil)
      (let ((to (with-current-buffer hidden
                  (goto-char (min (point-max) (+ from agent-q-render-body--code-piece)))
                  (min (point-max) (line-beginning-position 2)))))
        (with-current-buffer hidden
          (font-lock-ensure from to))
        (with-current-buffer buffer
          (with-silent-modifications
            (save-excursion
              (agent-q-render-body--code-copy-faces hidden map from to))))
        (setq agent-q-render-body--code-job
              (and (< to (with-current-buffer hidden (point-max)))
                   (list buffer map hidden to)))
        (unless agent-q-render-body--code-job
          (pcase-dolist (`(,marker . ,_) map)
            (set-marker marker nil)))))))

(defun agent-q-render-body--code-copy-faces (hidden map from to)
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
                                 'face (list face 'agent-q-code)))
            (setq place next))))
      (cl-incf start length))))

(provide 'agent-q-render-body)
;;; agent-q-render-body.el ends here
