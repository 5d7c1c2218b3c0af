;;; agent-q-answer.el --- Answering what waits in a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Gives the core the user's answer about a call, and shows that it was given.  The
;; keys on a call, the editor of its arguments and the review of its diff do so.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-log)
(require 'agent-q-render)
(require 'agent-q-sight)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-answer-draw-waiting (except)
  "Redraw the waiting requests, except EXCEPT, of which others say something.
One of them is the next now, and shown in full; those after it are folded."
  (dolist (call (agent-q-call-all-waiting))
    (let ((full (agent-q-call-full-p call)))
      (unless full
        (agent-q-sight-forget call))
      (when (and (not (eq call except))
                 (or full (eq (agent-q-call-drawn call) 'full)))
        (agent-q-render-update-item call)
        (when full
          (agent-q-sight-expect call))))))

(defun agent-q-answer-draw-running (call)
  "Redraw what is running if CALL is an effect, as it may wait for that."
  (when (agent-q-call-effect-p call)
    (mapc #'agent-q-render-update-item (agent-q-call-running))))

(defun agent-q-answer-show (call)
  "Redraw CALL, which was answered, and announce it."
  (agent-q-render-update-item call)
  (agent-q-answer-draw-waiting call)
  (agent-q-answer-draw-running call)
  (agent-q-log-run-hook 'agent-q-call-settled-functions call))

(defun agent-q-answer-settle (call decision payload label)
  "Answer CALL of the current chat with DECISION and PAYLOAD, shown as LABEL."
  (agent-q-core-decide (agent-q-call-key call) decision payload)
  (agent-q-answer-note call label)
  (agent-q-answer-show call))

(defun agent-q-answer-note (call label)
  "Note that CALL was answered, which is shown as LABEL."
  (setf (agent-q-call-answered call) label
        (agent-q-call-armed call) nil
        ;; As a request it may have been unfolded; its result is not.
        (agent-q-render-item-expanded call) nil))

(defun agent-q-answer-go-on ()
  "Go to the next call that waits, or to the end of the chat.
The results of the answers are shown at the end, where the window follows."
  (agent-q-sight-again)
  (let ((next (agent-q-call-waiting)))
    (goto-char (if next (agent-q-render-item-start next) (point-max)))
    (when (eq (window-buffer) (current-buffer))
      (if next (agent-q-sight-reveal next)
        (agent-q-answer-follow)))))

(defconst agent-q-answer--most-blank 3
  "Most empty lines left under the prompt once the log fills the window.")

(defun agent-q-answer-follow ()
  "Scroll the end of the log to the bottom of the window, if point is there.
A request takes more lines than its answer, and would leave them empty."
  (when (and (eq (window-buffer) (current-buffer))
             (not noninteractive)
             (> (window-start) (point-min))
             (= (point) (point-max))
             (> (- (window-body-height)
                   (count-screen-lines (window-start) (point-max)))
                agent-q-answer--most-blank))
    (recenter -1)))

(provide 'agent-q-answer)
;;; agent-q-answer.el ends here
