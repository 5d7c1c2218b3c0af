;;; agent-q-render-body.el --- Texts in the log: pitch and folding  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How a long text stands in the log of a chat: cut and unfolded, in a fixed pitch.

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

;; Where a terminal has few colours, a band would be too strong for what stands on it.
(defface agent-q-code-block
  '((((min-colors 256) (background light)) :inherit agent-q-code :background "gray95" :extend t)
    (((min-colors 256) (background dark)) :inherit agent-q-code :background "gray13" :extend t)
    (t :inherit agent-q-code :extend t))
  "The lines of a block of code in an answer."
  :group 'agent-q-faces)

(defface agent-q-code-label '((t :inherit (shadow agent-q-code-block)))
  "The line above a block of code, with its language and buttons."
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

(provide 'agent-q-render-body)
;;; agent-q-render-body.el ends here
