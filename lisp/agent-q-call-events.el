;;; agent-q-call-events.el --- What happens to tool calls  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The events of the core about a call: it is proposed, waits, is answered, runs, is
;; over.  Each changes the call and its item in the log of the chat.

;;; Code:

(require 'agent-q)
(require 'agent-q-answer)
(require 'agent-q-approve)
(require 'agent-q-call)
(require 'agent-q-call-live)
(require 'agent-q-call-text)
(require 'agent-q-effect)
(require 'agent-q-events)
(require 'agent-q-log)
(require 'agent-q-render)
(require 'agent-q-sight)
(require 'agent-q-visible)
(require 'seq)

(defun agent-q-call--draw (call)
  "Return the text of CALL."
  (if (and (eq (agent-q-call-state call) 'waiting)
           (not (agent-q-call-answered call)))
      (agent-q-approve-draw call)
    (let ((line (if (agent-q-call-effect-p call) (agent-q-effect-line call)
                  (agent-q-call-text-line call))))
      (add-text-properties 0 (length line)
                           '(mouse-face highlight
                             help-echo "TAB or mouse: show the whole call")
                           line)
      (when (eq (agent-q-call-state call) 'running)
        (put-text-property 0 (length line) 'keymap agent-q-call-live-map line)
        (put-text-property 0 (length line) 'help-echo
                           "TAB or mouse: show the whole call; b: where it is" line))
      (if (agent-q-render-item-expanded call)
          (concat line "\n" (agent-q-call-text-body call))
        line))))

(defun agent-q-call--get (event)
  "Return the call that EVENT is about, new if it was not proposed before."
  (let ((key (plist-get event :call)))
    (or (gethash key agent-q-call-table)
        (let ((call (agent-q-call-make
                     :draw #'agent-q-call--draw :key key :state 'proposed
                     :tool (agent-q-visible-line (or (plist-get event :tool) "?") 80)
                     :arguments (or (plist-get event :arguments) "{}")
                     :reason (plist-get event :reason))))
          (puthash key call agent-q-call-table)
          (puthash key call agent-q-call-unfinished)
          (agent-q-call--add event call)
          call))))

(defun agent-q-call--add (event call)
  "Put CALL, which EVENT proposes, into the log, behind the call that made it.
What that call has made before stands between."
  (let* ((maker (gethash (plist-get event :after) agent-q-call-table))
         (before maker))
    (while (and before (agent-q-call-last before))
      (setq before (agent-q-call-last before)))
    (agent-q-render-add-item call before)
    (when maker
      (setf (agent-q-call-last maker) call))))

(defun agent-q-call-past (event arguments outcome content milliseconds)
  "Show the call that EVENT proposed in a chat that was stored.
ARGUMENTS, OUTCOME, CONTENT and MILLISECONDS are as in the events that followed;
OUTCOME is nil when none did."
  (let ((call (agent-q-call-make
               :draw #'agent-q-call--draw :key (plist-get event :call)
               :tool (agent-q-visible-line (or (plist-get event :tool) "?") 80)
               :arguments (or arguments (plist-get event :arguments) "{}")
               :state (if outcome (intern (substring (symbol-name outcome) 1)) 'cancelled)
               :content content :milliseconds milliseconds)))
    (puthash (agent-q-call-key call) call agent-q-call-table)
    (agent-q-call--add event call)))

(defun agent-q-call--activate (call state)
  "Note that CALL is in STATE, `waiting' or `running'."
  (setf (agent-q-call-state call) state)
  (unless (memq call agent-q-call-active)
    (push call agent-q-call-active)))

(defun agent-q-call-proposed (event)
  "Show the call that EVENT proposes."
  (agent-q-call--get event))

(defun agent-q-call-approval (event target)
  "Ask about the call of EVENT.
TARGET returns what the call concerns, a line or nil, from its parsed arguments."
  (let ((call (agent-q-call--get event)))
    (agent-q-call--activate call 'waiting)
    (setf (agent-q-call-arguments call) (plist-get event :arguments)
          (agent-q-call-level call) (plist-get event :level)
          (agent-q-call-reason call) (plist-get event :reason)
          (agent-q-call-grounds call) (plist-get event :grounds)
          (agent-q-call-target call) (funcall target (agent-q-call-parsed-arguments call))
          (agent-q-call-offer call) nil
          (agent-q-call-change call) nil
          (agent-q-call-answered call) nil)
    (agent-q-sight-forget call)
    (agent-q-render-update-item call)
    (agent-q-answer-draw-waiting call)
    (agent-q-answer-draw-running call)
    (agent-q-sight-expect call)))

(defun agent-q-call-approval-elsewhere (event)
  "Show that the call of EVENT waits for a program's answer."
  (let ((call (agent-q-call--get event)))
    (agent-q-call--activate call 'waiting)
    (setf (agent-q-call-arguments call) (plist-get event :arguments)
          (agent-q-call-reason call) (plist-get event :reason)
          (agent-q-call-answered call) "waits for agent-q-approval-handler")
    (agent-q-render-update-item call)))

(defun agent-q-call-settled-elsewhere (event)
  "Show that the call of EVENT no longer waits, because of a rule."
  (let ((call (agent-q-call--get event)))
    (when (eq (agent-q-call-state call) 'waiting)
      (agent-q-answer-note call (plist-get event :outcome))
      (agent-q-answer-show call))))

(defun agent-q-call-started-event (event)
  "Show that the call of EVENT is running."
  (let ((call (agent-q-call--get event)))
    (agent-q-call--activate call 'running)
    (setf ;; The user may have changed them.
          (agent-q-call-arguments call) (or (plist-get event :arguments)
                                            (agent-q-call-arguments call))
          (agent-q-call-output call) nil
          (agent-q-call-started call) (current-time))
    ;; What it asks of the image comes with it, and can be on its way meanwhile.
    (agent-q-events-afterwards (lambda () (agent-q-render-update-item call)))
    (agent-q-call-live-soon)))

(defun agent-q-call-finished (event)
  "Show the result of the call of EVENT."
  (let ((call (agent-q-call--get event)))
    (setf (agent-q-call-state call)
          (intern (substring (symbol-name (plist-get event :outcome)) 1))
          (agent-q-call-content call) (plist-get event :content)
          (agent-q-call-milliseconds call) (plist-get event :milliseconds))
    (unless agent-q-fold-results
      (setf (agent-q-render-item-expanded call) t))
    (agent-q-call--close call)))

(defun agent-q-call--close (call)
  "Draw CALL, which is over."
  (setf (agent-q-call-armed call) nil)
  (agent-q-log-run-hook 'agent-q-call-settled-functions call)
  (remhash (agent-q-call-key call) agent-q-call-unfinished)
  (setq agent-q-call-active (delq call agent-q-call-active))
  (agent-q-render-update-item call)
  (agent-q-answer-draw-running call))

(defun agent-q-call-abandon ()
  "Show every call that is still open as cancelled: the turn is over."
  (dolist (call (hash-table-values agent-q-call-unfinished))
    (setf (agent-q-call-state call) 'cancelled)
    (agent-q-call--close call)))

(defun agent-q-call-leave ()
  "Close each other view of a call of this chat, which is being killed."
  (dolist (call (and agent-q-call-unfinished (hash-table-values agent-q-call-unfinished)))
    (agent-q-log-run-hook 'agent-q-call-settled-functions call))
  (agent-q-log-run-hook 'agent-q-call-left-functions (current-buffer)))

(defun agent-q-call-tick ()
  "Redraw each visible running call with its elapsed time.
What it has printed comes a little later."
  (agent-q-call-live-tick)
  (let ((windows (get-buffer-window-list nil t t)))
    (dolist (call (agent-q-call-running))
      (when (seq-some (lambda (window)
                        (agent-q-call--near-p call window))
                      windows)
        (agent-q-render-update-item call)))))

(defun agent-q-call--near-p (call window)
  "Whether CALL may be seen in WINDOW.
To know it exactly takes longer than drawing."
  (<= (window-start window)
      (marker-position (agent-q-render-item-end call))
      (+ (window-start window) (* (window-total-height window)
                                  (1+ (window-total-width window))))))

(provide 'agent-q-call-events)
;;; agent-q-call-events.el ends here
