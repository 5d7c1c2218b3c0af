;;; agent-q-approval-gate.el --- When a key counts as a decision, which the core gets  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A key counts only once the user can have seen what it answers: the request
;; was on the screen while Emacs had been idle for a moment with no key
;; waiting.  Keys typed ahead are refused, wherever point happened to be.
;; Each decision starts that moment again, so that a key which repeats answers
;; one request.
;;
;; What lets a call run counts only after the end of what runs was on the
;; screen, too, after its head, or before it where a key has then brought the rest there.
;; A request that is too long for its window says
;; so under its first line, which is always in sight when a key begins to count.
;; Only a request that is shown in full can be seen; a folded one is a line.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-module)
(require 'agent-q-render)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; When a decision counts

(defconst agent-q-approval-gate-pause 0.3
  "Seconds that Emacs must be idle before a decision counts.")

;;;;; What counts now

(defun agent-q-approval-gate-armed-p (call)
  "Whether a key answers CALL now."
  (and (eq (agent-q-call-armed call) t)
       (agent-q-call-full-p call)))

(defun agent-q-approval-gate-armed-for (call)
  "Return for how many seconds a key would have answered CALL; 0 if none does."
  (cond ((not (agent-q-approval-gate-armed-p call)) 0)
        ((agent-q-call-since call) (float-time (time-since (agent-q-call-since call))))
        (t most-positive-fixnum)))

(defun agent-q-approval-gate-read-p (call)
  "Whether CALL was on the screen with its end, so that it may be let run.
Of a folded request only a line was seen."
  (and (agent-q-call-armed call)
       (agent-q-call-ended call)
       (agent-q-call-full-p call)))

(defun agent-q-approval-gate-all-read ()
  "Return the requests of this chat that were seen to their ends, first one first."
  (seq-filter #'agent-q-approval-gate-read-p (agent-q-call-all-waiting)))

(defun agent-q-approval-gate-in-view-p (call)
  "Whether the end of what CALL would do is in the selected window now."
  (and (eq (window-buffer) (current-buffer))
       (pos-visible-in-window-p (agent-q-approval-gate--end call))
       t))

(defun agent-q-approval-gate-require-rule (call)
  "Require that the new rule in CALL is seen, below what was read before."
  (setf (agent-q-call-armed call) (and (agent-q-call-armed call) 'rule)
        (agent-q-call-since call) nil
        (agent-q-call-ended call) nil))

(defun agent-q-approval-gate-too-high-p (call)
  "Whether the end of CALL is in the selected window, and its head is above it."
  (and (agent-q-approval-gate-in-view-p call)
       (not (agent-q-approval-gate-armed-p call))
       (not (eq (agent-q-call-armed call) 'rule))
       (not (agent-q-approval-gate--window call))))

(defun agent-q-approval-gate-end-shown-for (call)
  "Return for how many seconds the end of CALL has been shown; 0 if it wasn't yet."
  (if (agent-q-call-since call) (float-time (time-since (agent-q-call-since call))) 0))

(defun agent-q-approval-gate-disarm (call)
  "Require that CALL is seen again, since what it would do has changed."
  (setf (agent-q-call-armed call) nil
        (agent-q-call-since call) nil
        (agent-q-call-ended call) nil
        (agent-q-call-below call) nil
        (agent-q-call-tail call) nil))

(defun agent-q-approval-gate-redraw (call)
  "Draw the request for CALL again, which has to be read again then."
  (agent-q-approval-gate-disarm call)
  (agent-q-render-update-item call)
  (agent-q-approval-gate-arm call))

(defun agent-q-approval-gate-disarm-all ()
  "Let nothing in this chat be answered until another moment has passed.
What brings point to the next request, or the next request under the
mouse, must not answer that one as well."
  (dolist (call (agent-q-call-all-waiting))
    (when (agent-q-call-armed call)
      (setf (agent-q-call-armed call) 'seen)
      (agent-q-approval-gate-arm call))))

;;;;; Looking

(defun agent-q-approval-gate-arm (call)
  "Arm CALL once the user has had it on screen."
  (unless (and (agent-q-approval-gate-armed-p call)
               (agent-q-call-ended call))
    (when (agent-q-call-timer call)
      (cancel-timer (agent-q-call-timer call)))
    (setf (agent-q-call-timer call)
          (run-at-time agent-q-approval-gate-pause nil #'agent-q-approval-gate--look
                       (current-buffer) call))))

(defun agent-q-approval-gate-watch ()
  "Arm the waiting requests of this chat that are on screen.
For `post-command-hook': the user may have come to it just now, or to its end."
  (when-let ((first (agent-q-call-waiting)))
    (let ((here (agent-q-render-item-at (point))))
      (dolist (call (if (or (eq here first) (not (agent-q-call-open-p here)))
                        (list first)
                      (list first here)))
        (unless (agent-q-call-timer call)
          (agent-q-approval-gate-arm call))))))

(defun agent-q-approval-gate--look (buffer call)
  "Let CALL in BUFFER be answered if it is on the screen and no key waits."
  (setf (agent-q-call-timer call) nil)
  (when (and (buffer-live-p buffer)
             (agent-q-call-open-p call))
    (let ((idle (current-idle-time)))
      (if (or (input-pending-p)
              (null idle)
              (time-less-p idle agent-q-approval-gate-pause))
          (setf (agent-q-call-timer call)
                (run-with-idle-timer agent-q-approval-gate-pause nil
                                     #'agent-q-approval-gate--look buffer call))
        (redisplay)
        (with-current-buffer buffer
          (agent-q-approval-gate--see call))))))

(defun agent-q-approval-gate--see (call)
  "Note what is on the screen of CALL of the current chat."
  (when (and (eq (agent-q-call-armed call) 'rule)
             (agent-q-call-full-p call)
             (agent-q-approval-gate--end-visible-p call))
    (setf (agent-q-call-armed call) t
          (agent-q-call-since call) (current-time)))
  (when-let ((window (and (agent-q-call-full-p call) (agent-q-approval-gate--window call))))
    (unless (eq (agent-q-call-armed call) t)
      (setf (agent-q-call-armed call) t
            (agent-q-call-since call) (current-time)))
    (when (agent-q-approval-gate--joined-p call window)
      (setf (agent-q-call-ended call) t))
    (agent-q-approval-gate--tell call window))
  ;; A chat that follows its output shows no more of a high request.
  (unless (or (agent-q-call-since call) (not (agent-q-approval-gate--end-visible-p call)))
    (setf (agent-q-call-since call) (current-time)))
  ;; The end counts after the head: a chat that follows its output shows the
  ;; ends of requests by itself.
  (when (and (agent-q-call-armed call)
             (agent-q-call-full-p call)
             (not (agent-q-call-ended call))
             (agent-q-approval-gate--end-visible-p call))
    (setf (agent-q-call-ended call) t)
    ;; The next request says how many were seen.
    (when (cdr (agent-q-approval-gate-all-read))
      (agent-q-render-update-item (agent-q-call-waiting)))))

(defun agent-q-approval-gate--window (call)
  "Return a window with CALL in it, at least all of it that fits, or nil."
  (let ((start (marker-position (agent-q-render-item-start call)))
        (end (marker-position (agent-q-render-item-end call))))
    (seq-find (lambda (window)
                (and (pos-visible-in-window-p start window)
                     (or (pos-visible-in-window-p end window)
                         (= start (window-start window)))))
              (get-buffer-window-list nil nil 'visible))))

(defun agent-q-approval-gate--end (call)
  "Return the position where the text ends of what CALL would do."
  (let ((end (marker-position (agent-q-render-item-end call))))
    (or (text-property-any (agent-q-render-item-start call) end
                           'agent-q-sight-end t)
        end)))

(defun agent-q-approval-gate--end-visible-p (call)
  "Whether the end of what CALL would do is on the screen."
  (let ((end (agent-q-approval-gate--end call)))
    (seq-some (lambda (window) (pos-visible-in-window-p end window))
              (get-buffer-window-list nil nil 'visible))))

(defun agent-q-approval-gate--joined-p (call window)
  "Whether all of CALL is in WINDOW but what of its end was on the screen before."
  (when-let ((tail (agent-q-call-tail call)))
    (<= (- (marker-position (agent-q-render-item-end call)) tail)
        (window-end window t))))

(defun agent-q-approval-gate-go-to-head (call)
  "Go to the beginning of CALL, whose end is in the selected window."
  (setf (agent-q-call-tail call)
        (max (- (marker-position (agent-q-render-item-end call)) (window-start))
             (or (agent-q-call-tail call) 0)))
  (push-mark nil t)
  (goto-char (agent-q-render-item-start call))
  (agent-q-approval-gate-reveal call))

(defun agent-q-approval-gate-reveal (call)
  "Scroll the selected window to where CALL can be read, and let it be answered.
Point has to be on CALL."
  (unless (or (agent-q-approval-gate--window call)
              (eq (agent-q-call-armed call) 'rule))
    (set-window-start nil (agent-q-render-item-start call)))
  (agent-q-approval-gate-arm call))

;;;;; What doesn't fit

(defconst agent-q-approval-gate--most-lines 1000
  "Most lines below the window that are counted.")

(defun agent-q-approval-gate--below (call window)
  "Return how many lines of CALL are below the part in WINDOW, or nil for none.
That is only about what it would do."
  (let ((end (agent-q-approval-gate--end call)))
    (unless (pos-visible-in-window-p end window)
      (save-excursion
        (goto-char (window-end window t))
        (let ((from (point)))
          (if (>= from end) 1
            (vertical-motion agent-q-approval-gate--most-lines window)
            (max 1 (count-screen-lines from (min (point) end) nil window))))))))

(defun agent-q-approval-gate--tell (call window)
  "Show in CALL how much of it is below the part in WINDOW."
  ;; The first time, what says so takes a line itself.
  (catch 'right
    (dotimes (_ 2)
      (let ((below (agent-q-approval-gate--below call window)))
        (when (equal below (agent-q-call-below call))
          (throw 'right nil))
        (setf (agent-q-call-below call) below)
        (agent-q-render-update-item call)
        ;; What else is on the screen, such as the end, has to be known again.
        (redisplay)))))

(defun agent-q-approval-gate-note (call)
  "Return a line about the part of CALL that doesn't fit, or nil."
  (when-let ((below (and (not (agent-q-call-ended call)) (agent-q-call-below call))))
    (format "%s below: SPC shows more; y works once the end was shown"
            (cond ((= below 1) "1 more line")
                  ((< below agent-q-approval-gate--most-lines) (format "%d more lines" below))
                  (t (format "More than %d lines" below))))))

(defun agent-q-approval-gate-check-end (call)
  "Signal an error unless the end of what CALL would do was on the screen."
  (unless (agent-q-call-ended call)
    (agent-q-approval-gate-arm call)
    (user-error
     (if (agent-q-approval-gate--end-visible-p call)
         "Too fast: read the end of the request, then press the key again"
       "Read to the end of the request first; SPC shows more"))))

(defun agent-q-approval-gate-more ()
  "Show more of the request at point."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-render-item-at (point))))
    (unless (agent-q-call-p call)
      (user-error "No tool call here"))
    (if (pos-visible-in-window-p (agent-q-approval-gate--end call))
        (message "This is its end; y runs it, n denies it")
      (let* ((below (window-end nil t))
             ;; Two lines stay, and no more comes than the end of the request.
             (next (min (agent-q-approval-gate--line-from below -2)
                        (agent-q-approval-gate--line-from
                         (agent-q-render-item-end call) (- 2 (window-text-height))))))
        ;; Where a window has hardly a line, it has to go on all the same.
        (goto-char (if (> next (window-start)) next below))
        (set-window-start nil (point))))))

(defun agent-q-approval-gate--line-from (position lines)
  "Return where the line is that is LINES away from POSITION on the screen."
  (save-excursion
    (goto-char position)
    (vertical-motion lines)
    (point)))

;;;; Answering what waits in a chat

;; Gives the core the user's decision on a call, and shows that it was given.  The
;; keys on a call, the editor of its arguments and the review of its diff do so.

(defun agent-q-approval-gate-draw-waiting (except)
  "Redraw the waiting requests, except EXCEPT, of which others say something.
One of them is the next now, and shown in full; those after it are folded."
  (dolist (call (agent-q-call-all-waiting))
    (let ((full (agent-q-call-full-p call)))
      (unless full
        (agent-q-approval-gate-disarm call))
      (when (and (not (eq call except))
                 (or full (eq (agent-q-call-drawn call) 'full)))
        (agent-q-render-update-item call)
        (when full
          (agent-q-approval-gate-arm call))))))

(defun agent-q-approval-gate-draw-running (call)
  "Redraw what is running if CALL is an effect, as it may wait for that."
  (when (agent-q-call-effect-p call)
    (mapc #'agent-q-render-update-item (agent-q-call-running))))

(defun agent-q-approval-gate-show-decision (call)
  "Redraw CALL, which was decided, and announce it."
  (agent-q-render-update-item call)
  (agent-q-approval-gate-draw-waiting call)
  (agent-q-approval-gate-draw-running call)
  (agent-q-module-log-run-hook 'agent-q-call-settled-functions call))

(defun agent-q-approval-gate-decide (call decision payload label)
  "Decide on CALL of the current chat by DECISION and PAYLOAD, shown as LABEL."
  (agent-q-core-decide (agent-q-call-key call) decision payload)
  (agent-q-approval-gate-note-decision call label)
  (agent-q-approval-gate-show-decision call))

(defun agent-q-approval-gate-note-decision (call label)
  "Note that CALL was decided, which is shown as LABEL."
  (setf (agent-q-call-decided call) label
        (agent-q-call-armed call) nil
        ;; As a request it may have been unfolded; its result is not.
        (agent-q-render-item-expanded call) nil))

(defun agent-q-approval-gate-go-to-next ()
  "Go to the next call that waits, or to the end of the chat.
The results of the decisions are shown at the end, where the window follows."
  (agent-q-approval-gate-disarm-all)
  (let ((next (agent-q-call-waiting)))
    (goto-char (if next (agent-q-render-item-start next) (point-max)))
    (when (eq (window-buffer) (current-buffer))
      (if next (agent-q-approval-gate-reveal next)
        (agent-q-approval-gate-follow-end)))))

(defconst agent-q-approval-gate--most-blank 3
  "Most empty lines left under the prompt once the log fills the window.")

(defun agent-q-approval-gate-follow-end ()
  "Scroll the end of the log to the bottom of the window, if point is there.
A request takes more lines than its decision, and would leave them empty."
  (when (and (eq (window-buffer) (current-buffer))
             (not noninteractive)
             (> (window-start) (point-min))
             (= (point) (point-max))
             (> (- (window-body-height)
                   (count-screen-lines (window-start) (point-max)))
                agent-q-approval-gate--most-blank))
    (recenter -1)))

(provide 'agent-q-approval-gate)
;;; agent-q-approval-gate.el ends here
