;;; agent-q-chat-scroll.el --- Windows that follow an answer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A window whose point is at the prompt follows the log.  Redisplay scrolls it line by
;; line, and looks at each line on the way: where more came than the window shows, most
;; of its time goes into lines that nobody sees.  So long ways are jumped here.

;;; Code:

(require 'agent-q-render)

(defun agent-q-chat-scroll ()
  "Bring the windows of this chat near its end, if they follow and are far away.
Redisplay does the last few lines."
  (dolist (window (get-buffer-window-list nil 'no-minibuffer t))
    (let ((point (window-point window))
          (height (window-body-height window)))
      (when (>= point agent-q-render-end)
        (save-excursion
          (goto-char point)
          (forward-line (- (* 2 height)))
          ;; Nothing that was on the screen can stay there.
          (when (> (point) (window-start window))
            (goto-char point)
            (forward-line (- 2 height))
            (set-window-start window (point) t)))))))

(defun agent-q-chat-scroll-fill (window)
  "Show more of the log in WINDOW of this chat if it has become larger.
Emacs leaves its start where that was, so that the prompt would stand above
an empty half.  For `window-size-change-functions'."
  ;; Emacs 28 calls this wherever it is.
  (with-current-buffer (window-buffer window)
    (when (and agent-q-render-end (>= (window-point window) agent-q-render-end))
      (with-selected-window window
        (save-excursion
          (goto-char (point-max))
          (vertical-motion (- 1 (window-body-height)))
          (when (< (point) (window-start))
            (set-window-start window (point) t)))))))

(provide 'agent-q-chat-scroll)
;;; agent-q-chat-scroll.el ends here
