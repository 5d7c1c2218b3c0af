;;; frames.el --- Reviews stay in their frame  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Run by frames-test.sh in an Emacs on a terminal; a second terminal is in the environment.

;;; Code:

(require 'agent-q-review)

(defun agent-q-frames-test--windows (frame)
  "Return which buffers the windows of FRAME show, and where."
  (mapcar (lambda (window) (list (window-buffer window) (window-edges window)))
          (window-list frame 'nomini)))

(defun agent-q-frames-test--show (frame other prepare)
  "Show a review in FRAME once PREPARE has made its window; check OTHER.
Return the window."
  (select-frame frame)
  (delete-other-windows)
  (switch-to-buffer (get-buffer-create "chat"))
  (funcall prepare)
  (let* ((before (agent-q-frames-test--windows other))
         (frames (length (frame-list)))
         (review (generate-new-buffer "review"))
         (window (agent-q-review-display review)))
    (unless (equal before (agent-q-frames-test--windows other))
      (error "The other frame's windows were used"))
    (unless (= frames (length (frame-list)))
      (error "There is another frame"))
    (unless (eq frame (selected-frame))
      (error "Another frame is selected"))
    (when (and window (not (eq frame (window-frame window))))
      (error "The review is in another frame"))
    (set-window-dedicated-p nil nil)
    (kill-buffer review)
    window))

(defun agent-q-frames-test--run ()
  "Show reviews in two frames, in windows of all kinds."
  (let* ((first (selected-frame))
         (second (make-frame `((window-system . nil) (tty . ,(getenv "AGENT_Q_TTY"))
                               (tty-type . "screen")))))
    (dolist (frame (list first second))
      (let ((other (if (eq frame first) second first)))
        (unless (agent-q-frames-test--show frame other #'ignore)
          (error "A whole frame shows no review"))
        ;; Too small to be split: its one window is used.
        (let ((split-height-threshold nil) (split-width-threshold nil)
              (window-min-height 100))
          (unless (agent-q-frames-test--show frame other #'ignore)
            (error "A window that can't be split shows no review"))
          ;; There is none for it, so it is not shown.
          (when (agent-q-frames-test--show frame other
                                           (lambda () (set-window-dedicated-p nil t)))
            (error "A dedicated window was used")))))))

(defun agent-q-frames-test ()
  "Write to AGENT_Q_OUTCOME what came of it, and end Emacs."
  (let ((outcome (condition-case err
                     (progn (agent-q-frames-test--run) "ok")
                   (error (error-message-string err)))))
    (write-region outcome nil (getenv "AGENT_Q_OUTCOME") nil 'silent)
    (kill-emacs)))

(provide 'frames)
;;; frames.el ends here
