;;; agent-q-code.el --- Code in answers: commands on it, and its mistakes  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What can be done with blocks of code in a chat, and what the image says about them.
;; Their colours are in agent-q-code-highlight.el.

;;; Code:

(require 'agent-q-activity)
(require 'agent-q-code-highlight)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-markdown)
(require 'agent-q-module)
(require 'agent-q-names)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'seq)
(require 'subr-x)

;;;; What can be done with code in answers

;; Copies code of an answer, puts it into the file at hand or to the prompt of
;; the REPL, and copies the last answer.  By keys from anywhere in a chat, and
;; by buttons behind the first line of the code.

(defun agent-q-code--block-bounds ()
  "Return the bounds of the code at point, or of the nearest before, or signal."
  (agent-q-markdown-dress (point))
  (agent-q-markdown-seek 'agent-q-code nil)
  (let* ((end (cond ((and (< (point) (point-max)) (get-text-property (point) 'agent-q-code))
                     (next-single-property-change (point) 'agent-q-code nil (point-max)))
                    ;; On the first line of a fence, the code below it is meant.
                    ((agent-q-code--block-below))
                    ((and (> (point) (point-min))
                          (get-text-property (1- (point)) 'agent-q-code))
                     (point))
                    (t (previous-single-property-change (point) 'agent-q-code)))))
    (unless (and end (> end (point-min)))
      (user-error "No code before point"))
    (unless (get-text-property (1- end) 'agent-q-code)
      (setq end (previous-single-property-change end 'agent-q-code)))
    (unless end
      (user-error "No code before point"))
    (cons (previous-single-property-change end 'agent-q-code nil (point-min)) end)))

(defun agent-q-code--block-below ()
  "Return the end of the code that begins on the next line, or nil."
  (let ((next (line-beginning-position 2)))
    (and (< next (point-max))
         (get-text-property next 'agent-q-code)
         (not (get-text-property (line-beginning-position) 'agent-q-code))
         (next-single-property-change next 'agent-q-code nil (point-max)))))

(defun agent-q-code-block-text ()
  "Return the code at point, or the nearest before, as the model wrote it."
  (pcase-let ((`(,start . ,end) (agent-q-code--block-bounds)))
    (string-trim-right
     (mapconcat (lambda (stretch)
                  (buffer-substring-no-properties
                   (car stretch) (+ (car stretch) (cdr stretch))))
                (agent-q-code-highlight-stretches start end) "")
     "\n+")))

(defun agent-q-code-block-p ()
  "Whether there is code at point or before it."
  (ignore-errors (agent-q-code--block-bounds)))

(defun agent-q-code-block-stage-p ()
  "Whether there is code at point or before it, and a REPL for it."
  (and agent-q-session-connection (agent-q-code-block-p)))

(defun agent-q-code-block-copy ()
  "Copy the code at point, or the nearest code before it."
  (interactive nil agent-q-chat-mode)
  (let ((text (agent-q-code-block-text)))
    (kill-new text)
    (message "Copied %d characters of code" (length text))))

(defun agent-q-code--block-target (&optional repls)
  "Return the buffer that you last worked in where code can be inserted, or nil.
REPLs and shells don't count unless REPLS is non-nil."
  (agent-q-session-user-last-buffer
   (lambda (buffer)
     (with-current-buffer buffer
       (not (or buffer-read-only
                (and (not repls) (derived-mode-p 'comint-mode 'slime-repl-mode))))))))

(defun agent-q-code-block-insert ()
  "Insert the code at point, or the nearest before it, into your last buffer.
It goes to point there, where you can undo it.  A REPL is used only if there
is no other buffer; \\<agent-q-chat-mode-map>\\[agent-q-code-block-stage] puts
code into yours."
  (interactive nil agent-q-chat-mode)
  (let* ((text (agent-q-code-block-text))
         (buffer (or (agent-q-code--block-target)
                     (agent-q-code--block-target 'repls)
                     (user-error "There is no buffer to insert the code into")))
         (window (get-buffer-window buffer t)))
    (with-current-buffer buffer
      (when window
        (goto-char (window-point window)))
      (push-mark nil t)
      (undo-boundary)
      (insert text)
      ;; Whole lines before a line stay lines of their own.
      (when (and (string-search "\n" text) (not (eolp))
                 (save-excursion (goto-char (mark t)) (bolp)))
        (insert "\n"))
      (undo-boundary)
      (when window
        (set-window-point window (point))))
    (message "Inserted into %s" (buffer-name buffer))))

(defun agent-q-code-block-stage ()
  "Put the code at point, or the nearest before it, at the prompt of your REPL.
It is not evaluated.  Point moves there."
  (interactive nil agent-q-chat-mode)
  (let ((text (agent-q-code-block-text)))
    (unless agent-q-session-connection
      (user-error "No Lisp image is connected"))
    (condition-case failure
        (agent-q-activity-stage agent-q-session-connection text)
      (agent-q-activity-typed
       (user-error "Your REPL has text at its prompt: %s" (cadr failure)))
      (error (user-error "%s" (error-message-string failure))))
    (agent-q-code-repl)))

(defun agent-q-code-repl ()
  "Go to the REPL of this chat's image, as with this key in SLY and SLIME."
  (interactive nil agent-q-chat-mode)
  (unless (agent-q-connection-live-p agent-q-session-connection)
    (user-error "No Lisp image is connected"))
  (pop-to-buffer (or (agent-q-activity-repl agent-q-session-connection)
                     (user-error "There is no REPL for this image"))))

(defun agent-q-copy-answer ()
  "Copy the last answer, as the model wrote it."
  (interactive nil agent-q-chat-mode)
  (let ((text (or (agent-q-render-last-answer)
                  (user-error "There is no answer yet"))))
    (kill-new text)
    (message "Copied the last answer, %d characters" (length text))))

;;;;; Keys and buttons

(defun agent-q-code-block-define-keys (map)
  "Define the keys of this file in MAP."
  (define-key map (kbd "C-c M-w") #'agent-q-code-block-copy)
  (define-key map (kbd "C-c C-i") #'agent-q-code-block-insert)
  (define-key map (kbd "C-c C-y") #'agent-q-code-block-stage)
  (define-key map (kbd "C-c C-z") #'agent-q-code-repl)
  (define-key map (kbd "C-c C-w") #'agent-q-copy-answer))

(defun agent-q-code--block-clicked (command)
  "Return a command for clicks, which does COMMAND on the code below."
  (lambda (event)
    (interactive "e")
    (with-current-buffer (window-buffer (posn-window (event-start event)))
      (save-excursion
        (goto-char (posn-point (event-start event)))
        (call-interactively command)))))

(defun agent-q-code--block-button (label command help)
  "Return a button LABEL for COMMAND; HELP is shown under the mouse."
  (let ((map (make-sparse-keymap)))
    (define-key map [mouse-1] (agent-q-code--block-clicked command))
    (define-key map [mouse-2] (agent-q-code--block-clicked command))
    (propertize label 'face 'agent-q-code-label 'mouse-face 'highlight
                'help-echo help 'keymap map)))

(defun agent-q-code--block-make-buttons (repl)
  "Return the buttons after the first line of code, with one for the REPL if REPL."
  (concat "  "
          (agent-q-code--block-button "[copy]" #'agent-q-code-block-copy
                                      "Copy this code (C-c M-w)")
          " "
          (agent-q-code--block-button "[insert]" #'agent-q-code-block-insert
                                      "Insert this code into your last buffer (C-c TAB)")
          (if (not repl) ""
            (concat " "
                    (agent-q-code--block-button
                     "[REPL]" #'agent-q-code-block-stage
                     "Put this code at the prompt of the REPL (C-c C-y)")))
          "\n"))

(defvar agent-q-code--block-buttons nil
  "The buttons after the first line of code once they were made, an alist.
The keys say whether it is Lisp.")

(defun agent-q-code-block-show-buttons (start)
  "Show buttons behind the line before START, where code begins."
  (when (and (> start (point-min)) (eq (char-before start) ?\n))
    (let ((repl (and (agent-q-names-code-p start) t)))
      (put-text-property
       (1- start) start 'display
       (or (alist-get repl agent-q-code--block-buttons)
           (setf (alist-get repl agent-q-code--block-buttons)
                 (agent-q-code--block-make-buttons repl)))))))

;;;; Code in answers, checked by the image

;; When Lisp code in an answer is complete, the image of the chat is asked what it
;; could not run of it (image/proofread), and that is marked.  Nobody waits for the
;; answer: without one there are no marks.

(defcustom agent-q-code-check t
  "Whether Lisp code in answers is checked by the chat's image.
Functions and packages that the image does not know, wrong numbers of
arguments and parentheses that do not match are marked; the mouse and
ElDoc say what is wrong.  The code is not run for that, nor its macros."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defface agent-q-mistake '((t :inherit shadow :underline t))
  "Code in answers that the image could not run."
  :group 'agent-q-faces)

(defconst agent-q-code--proofread-limit 50000
  "Longer code is not checked.")

(defconst agent-q-code--proofread-memory 20000
  "Most characters of earlier code of the answer that are sent along.")

(defconst agent-q-code--proofread-seconds 10
  "Seconds that the image may take for one piece of code.")

(defvar-local agent-q-code--proofread-texts nil
  "The code of this answer until now, latest first, each a string.
Before them is the turn that they belong to.")

(defvar-local agent-q-code--proofread-waiting nil
  "Code of this chat that is to be checked, the next first.
Each is a marker of its start, and the texts of the answer up to it, its
own first.")

(defvar-local agent-q-code--proofread-asked nil
  "Whether the image is asked now.")

(defun agent-q-code-proofread-later (start)
  "Check the code that begins at START soon, if it is Lisp.
For `agent-q-code-highlight-closed-functions'."
  (when (and agent-q-code-check
             ;; Old code is looked at when somebody asks for it.
             (not agent-q-markdown-past)
             (agent-q-code--proofread-source-p start)
             (<= (- (agent-q-names-code-end start) start) agent-q-code--proofread-limit)
             (agent-q-connection-live-p agent-q-session-connection)
             ;; Where calls queue up, the user's own would wait for this.
             (agent-q-connection-ask agent-q-session-connection :threads-p))
    (unless (and agent-q-code--proofread-texts
                 (equal (car agent-q-code--proofread-texts) agent-q-session-turn))
      (setq agent-q-code--proofread-texts (list agent-q-session-turn)))
    (push (agent-q-code--proofread-text start) (cdr agent-q-code--proofread-texts))
    (setq agent-q-code--proofread-waiting
          (append agent-q-code--proofread-waiting
                  (list (cons (copy-marker start) (cdr agent-q-code--proofread-texts)))))
    (run-at-time 0.01 nil #'agent-q-code--proofread-next (current-buffer))))

(defun agent-q-code--proofread-source-p (start)
  "Whether the code that begins at START is called Lisp.
Code without a name is often what a program printed, and system
definitions are read in a package of their own."
  (and (agent-q-names-code-p start)
       (not (member (get-text-property start 'agent-q-language) '("" "asd")))))

(defun agent-q-code--proofread-text (start)
  "Return the code that begins at START."
  (mapconcat (pcase-lambda (`(,place . ,length))
               (buffer-substring-no-properties place (+ place length)))
             (agent-q-code-highlight-stretches start (agent-q-names-code-end start)) ""))

(defun agent-q-code--proofread-latest (texts)
  "Return TEXTS, the latest first, in their order, without those too long ago."
  (let ((left agent-q-code--proofread-memory)
        (kept (list (pop texts))))
    (while (and texts (<= 0 (setq left (- left (length (car texts))))))
      (push (pop texts) kept))
    kept))

(defun agent-q-code--proofread-next (buffer)
  "Ask the image about the next code in the chat BUFFER, unless it is asked."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (when (and agent-q-code--proofread-waiting (not agent-q-code--proofread-asked))
        (pcase-let* ((`(,start . ,all) (pop agent-q-code--proofread-waiting))
                     (texts (agent-q-code--proofread-latest all))
                     (connection agent-q-session-connection))
          (if (not (agent-q-connection-live-p connection))
              (setq agent-q-code--proofread-waiting nil)
            (setq agent-q-code--proofread-asked t)
            (agent-q-image-query
             connection "proofread-code"
             (list :texts texts :package (agent-q-connection-repl-package connection)
                   :also (agent-q-names-also)
                   :partial (< (length texts) (length all)))
             (lambda (reply &rest _)
               (agent-q-module-log-call "Marking code" #'agent-q-code--proofread-take buffer start reply))
             agent-q-code--proofread-seconds)))))))

(defun agent-q-code--proofread-take (buffer start reply)
  "Mark in the chat BUFFER the mistakes in the code at START that REPLY has."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-code--proofread-asked nil)
      (pcase reply
        (`(:outcome :returned :value ,value . ,_)
         (when (agent-q-names-code-p start)
           (agent-q-code--proofread-mark start (plist-get value :mistakes)))))
      (set-marker start nil)
      ;; The client is not to be called from within its own.
      (when agent-q-code--proofread-waiting
        (run-at-time 0 nil #'agent-q-code--proofread-next buffer)))))

(defun agent-q-code--proofread-mark (start mistakes)
  "Mark MISTAKES, lists of start, end and reason, in the code at START."
  (let ((stretches (agent-q-code-highlight-stretches start (agent-q-names-code-end start))))
    (pcase-dolist (`(,from ,to ,reason) mistakes)
      (let ((from (agent-q-code--proofread-place stretches from))
            (last (agent-q-code--proofread-place stretches (1- to)))
            (reason (agent-q-text-visible-line reason 300)))
        (when (and from last)
          (let ((mark (make-overlay from (1+ last))))
            (overlay-put mark 'evaporate t)
            (overlay-put mark 'face 'agent-q-mistake)
            (overlay-put mark 'help-echo reason)
            (overlay-put mark 'agent-q-mistake reason)))))))

(defun agent-q-code--proofread-place (stretches offset)
  "Return the place of the character OFFSET of the code that STRETCHES are."
  (let ((place nil))
    (while (and stretches (not place))
      (pcase-let ((`(,start . ,length) (pop stretches)))
        (if (< -1 offset length)
            (setq place (+ start offset))
          (setq offset (- offset length)))))
    place))

(defun agent-q-code-proofread-mistake (place)
  "Return what is wrong with the code at PLACE, or nil."
  (seq-some (lambda (overlay) (overlay-get overlay 'agent-q-mistake))
            (overlays-at place)))

(defun agent-q-code-proofread-eldoc (_callback)
  "Return what is wrong with the code at point.
For `eldoc-documentation-functions'."
  (agent-q-code-proofread-mistake (point)))

(provide 'agent-q-code)
;;; agent-q-code.el ends here
