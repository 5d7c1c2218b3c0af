;;; agent-q-code-block.el --- What can be done with code in answers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Copies code of an answer, puts it into the file at hand or to the prompt of
;; the REPL, and copies the last answer.  By keys from anywhere in a chat, and
;; by buttons behind the first line of the code.

;;; Code:

(require 'agent-q-code)
(require 'agent-q-code-lisp)
(require 'agent-q-history)
(require 'agent-q-markdown)
(require 'agent-q-operations)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-user)
(require 'subr-x)

(defun agent-q-code-block--bounds ()
  "Return the bounds of the code at point, or of the nearest before, or signal."
  (agent-q-markdown-dress (point))
  (agent-q-markdown-seek 'agent-q-code nil)
  (let* ((end (cond ((and (< (point) (point-max)) (get-text-property (point) 'agent-q-code))
                     (next-single-property-change (point) 'agent-q-code nil (point-max)))
                    ;; On the first line of a fence, the code below it is meant.
                    ((agent-q-code-block--below))
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

(defun agent-q-code-block--below ()
  "Return the end of the code that begins on the next line, or nil."
  (let ((next (line-beginning-position 2)))
    (and (< next (point-max))
         (get-text-property next 'agent-q-code)
         (not (get-text-property (line-beginning-position) 'agent-q-code))
         (next-single-property-change next 'agent-q-code nil (point-max)))))

(defun agent-q-code-block-text ()
  "Return the code at point, or the nearest before, as the model wrote it."
  (pcase-let ((`(,start . ,end) (agent-q-code-block--bounds)))
    (string-trim-right
     (mapconcat (lambda (stretch)
                  (buffer-substring-no-properties
                   (car stretch) (+ (car stretch) (cdr stretch))))
                (agent-q-code-stretches start end) "")
     "\n+")))

(defun agent-q-code-block-copy ()
  "Copy the code at point, or the nearest code before it."
  (interactive nil agent-q-chat-mode)
  (let ((text (agent-q-code-block-text)))
    (kill-new text)
    (message "Copied %d characters of code" (length text))))

(defun agent-q-code-block--target (&optional repls)
  "Return the buffer that you last worked in where code can be inserted, or nil.
REPLs and shells don't count unless REPLS is non-nil."
  (agent-q-user-last-buffer
   (lambda (buffer)
     (with-current-buffer buffer
       (not (or buffer-read-only
                (and (not repls) (derived-mode-p 'comint-mode 'slime-repl-mode))))))))

(defun agent-q-code-block-insert ()
  "Insert the code at point, or the nearest before it, into your last buffer.
It goes to point there, where you can undo it.  A REPL is used only if there
is no other buffer; \\<agent-q-chat-mode-map>\\[agent-q-code-block-stage] puts code into yours."
  (interactive nil agent-q-chat-mode)
  (let* ((text (agent-q-code-block-text))
         (buffer (or (agent-q-code-block--target)
                     (agent-q-code-block--target 'repls)
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
It is not evaluated.  Point moves there, as with this key in SLY and SLIME."
  (interactive nil agent-q-chat-mode)
  (let ((text (agent-q-code-block-text)))
    (unless agent-q-session-connection
      (user-error "No Lisp image is connected"))
    (condition-case failure
        (agent-q-history-stage agent-q-session-connection text)
      (agent-q-history-typed
       (user-error "Your REPL has text at its prompt: %s" (cadr failure)))
      (error (user-error "%s" (error-message-string failure))))
    (pop-to-buffer (agent-q-history-repl agent-q-session-connection))))

(defun agent-q-copy-answer ()
  "Copy the last answer, as the model wrote it."
  (interactive nil agent-q-chat-mode)
  (let ((text (or (agent-q-render-last-answer)
                  (user-error "There is no answer yet"))))
    (kill-new text)
    (message "Copied the last answer, %d characters" (length text))))

;;;; Keys and buttons

(defun agent-q-code-block-define-keys (map)
  "Define the keys of this file in MAP."
  (define-key map (kbd "C-c M-w") #'agent-q-code-block-copy)
  (define-key map (kbd "C-c C-i") #'agent-q-code-block-insert)
  (define-key map (kbd "C-c C-z") #'agent-q-code-block-stage)
  (define-key map (kbd "C-c C-w") #'agent-q-copy-answer))

(defun agent-q-code-block--clicked (command)
  "Return a command for clicks, which does COMMAND on the code below."
  (lambda (event)
    (interactive "e")
    (with-current-buffer (window-buffer (posn-window (event-start event)))
      (save-excursion
        (goto-char (posn-point (event-start event)))
        (call-interactively command)))))

(defun agent-q-code-block--button (label command help)
  "Return a button LABEL for COMMAND; HELP is shown under the mouse."
  (let ((map (make-sparse-keymap)))
    (define-key map [mouse-1] (agent-q-code-block--clicked command))
    (define-key map [mouse-2] (agent-q-code-block--clicked command))
    (propertize label 'face '(link agent-q-markup) 'mouse-face 'highlight
                'help-echo help 'keymap map)))

(defun agent-q-code-block--make-buttons (repl)
  "Return the buttons after the first line of code, with one for the REPL if REPL."
  (concat "  "
          (agent-q-code-block--button "[copy]" #'agent-q-code-block-copy
                                      "Copy this code (C-c M-w)")
          " "
          (agent-q-code-block--button "[insert]" #'agent-q-code-block-insert
                                      "Insert this code into your last buffer (C-c TAB)")
          (if (not repl) ""
            (concat " "
                    (agent-q-code-block--button
                     "[REPL]" #'agent-q-code-block-stage
                     "Put this code at the prompt of the REPL (C-c C-z)")))
          "\n"))

(defvar agent-q-code-block--buttons nil
  "The buttons after the first line of code once they were made, an alist.
The keys say whether it is Lisp.")

(defun agent-q-code-block-show-buttons (start)
  "Show buttons behind the line before START, where code begins."
  (when (and (> start (point-min)) (eq (char-before start) ?\n))
    (let ((repl (and (agent-q-code-lisp-p start) t)))
      (put-text-property
       (1- start) start 'display
       (or (alist-get repl agent-q-code-block--buttons)
           (setf (alist-get repl agent-q-code-block--buttons)
                 (agent-q-code-block--make-buttons repl)))))))

(provide 'agent-q-code-block)
;;; agent-q-code-block.el ends here
