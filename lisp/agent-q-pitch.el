;;; agent-q-pitch.el --- Code in a fixed pitch where text has none  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Code and tables need characters of one width.  Where the text of a chat has
;; them anyway, code is in the same font.  Where it is proportional, by
;; `variable-pitch-mode' or because the font of Emacs is, the face `fixed-pitch' is
;; mixed in.

;;; Code:

(require 'face-remap)

(defface agent-q-code '((t :inherit nil))
  "Code, tables and values in chats.
Where the text around them is proportional, they have the face
`fixed-pitch', too."
  :group 'agent-q-faces)

(defconst agent-q-pitch--one-width 90
  "The least spacing of fonts whose characters have one width, or twice that.")

(defvar-local agent-q-pitch--remapping nil
  "What `face-remap-add-relative' returned, while code has a font of its own.")

(defun agent-q-pitch--proportional-p ()
  "Whether text of this buffer is in a proportional font."
  (if (bound-and-true-p buffer-face-mode)
      (not (eq buffer-face-mode-face 'fixed-pitch))
    (when-let ((font (and (display-graphic-p)
                          (find-font (font-spec :family (face-attribute 'default :family))))))
      (< (or (font-get font :spacing) 0) agent-q-pitch--one-width))))

(defun agent-q-pitch--update ()
  "Give code of this buffer a font that suits its text."
  (let ((proportional (agent-q-pitch--proportional-p)))
    (cond ((and proportional (not agent-q-pitch--remapping))
           (setq agent-q-pitch--remapping (face-remap-add-relative 'agent-q-code 'fixed-pitch)))
          ((and agent-q-pitch--remapping (not proportional))
           (face-remap-remove-relative agent-q-pitch--remapping)
           (setq agent-q-pitch--remapping nil)))))

(defun agent-q-pitch--resized (window)
  "Give code in the buffer of WINDOW its font; that of Emacs may be another now."
  (with-current-buffer (window-buffer window)
    (agent-q-pitch--update)))

(defun agent-q-pitch-setup ()
  "Give code of this buffer a font that suits its text, from now on."
  (add-hook 'buffer-face-mode-hook #'agent-q-pitch--update nil t)
  (add-hook 'window-size-change-functions #'agent-q-pitch--resized nil t)
  (agent-q-pitch--update))

(provide 'agent-q-pitch)
;;; agent-q-pitch.el ends here
