;;; agent-q-garbage.el --- Collecting garbage at a better moment  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A collection takes longer than all else that happens between two keys.  While an answer
;; is drawn, or a first call is on its way, garbage may accumulate; it is collected when
;; that is over and the user doesn't type.

;;; Code:

(defconst agent-q-garbage-limit 8000000
  "Bytes of garbage that may accumulate until it is collected all the same.
A fast answer of 60 KB makes less than 5 MB.  Emacs keeps most of the room
that garbage took, as everywhere among it is something that lives on.")

(defconst agent-q-garbage--rest 0.5
  "Seconds without a key after which garbage is collected.")

(defvar agent-q-garbage--reasons nil
  "What garbage is kept for, each thing once.")

(defvar agent-q-garbage--threshold nil
  "Value of `gc-cons-threshold' before garbage was kept; nil while none is.")

(defvar agent-q-garbage--timer nil
  "The timer that will collect garbage, or nil.")

(defun agent-q-garbage-keep (reason)
  "Put off garbage collection for REASON, unless there is very much.
Somebody who has a greater threshold keeps it."
  (unless (memq reason agent-q-garbage--reasons)
    (push reason agent-q-garbage--reasons))
  (when (and (null agent-q-garbage--threshold)
             (< gc-cons-threshold agent-q-garbage-limit))
    (setq agent-q-garbage--threshold gc-cons-threshold
          gc-cons-threshold agent-q-garbage-limit)))

(defun agent-q-garbage-let-go (reason)
  "Have garbage collected soon, unless it is kept for more than REASON."
  (setq agent-q-garbage--reasons (delq reason agent-q-garbage--reasons))
  (when (and agent-q-garbage--threshold
             (null agent-q-garbage--reasons)
             (null agent-q-garbage--timer))
    ;; Between two calls of a turn there is no rest.
    (setq agent-q-garbage--timer
          (run-at-time agent-q-garbage--rest nil #'agent-q-garbage--collect-in-rest))))

(defun agent-q-garbage-put-off ()
  "Put off garbage collection until the user rests, unless there is very much.
For a command that is repeated quickly."
  (agent-q-garbage-keep this-command)
  (agent-q-garbage-let-go this-command))

(defun agent-q-garbage--collect-in-rest ()
  "Collect garbage once the user doesn't type, unless it is kept once more."
  (setq agent-q-garbage--timer
        (and agent-q-garbage--threshold (null agent-q-garbage--reasons)
             (run-with-idle-timer agent-q-garbage--rest nil #'agent-q-garbage--collect))))

(defun agent-q-garbage--collect ()
  "Collect garbage as before, unless it is kept once more.
A threshold that was changed since by others stays."
  (setq agent-q-garbage--timer nil)
  (when (and agent-q-garbage--threshold (null agent-q-garbage--reasons))
    (when (eql gc-cons-threshold agent-q-garbage-limit)
      (setq gc-cons-threshold agent-q-garbage--threshold)
      (garbage-collect))
    (setq agent-q-garbage--threshold nil)))

(provide 'agent-q-garbage)
;;; agent-q-garbage.el ends here
