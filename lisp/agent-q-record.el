;;; agent-q-record.el --- What the user did in SLY and SLIME  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows agent-q-past.el the events that pass between Emacs and the Lisp, which show
;; what the user did: evaluated, compiled, met an error.  Does nothing until a Lisp
;; connects, and never loads the core.

;;; Code:

(require 'agent-q-log)
(require 'agent-q-past)

(defvar slime-net-processes)
(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)
(defvar sly-net-processes)

;;;; Putting the recorders on the hooks

(defun agent-q-record-start ()
  "Record from the moment a Lisp connects, or now if one is connected."
  (add-hook 'sly-connected-hook #'agent-q-record--sly)
  (add-hook 'slime-connected-hook #'agent-q-record--slime)
  (when (bound-and-true-p sly-net-processes)
    (agent-q-record--sly))
  (when (bound-and-true-p slime-net-processes)
    (agent-q-record--slime)))

(defun agent-q-record-stop ()
  "Take the recorders off the hooks and forget what they recorded.
What agent-q's own calls brought is kept."
  (remove-hook 'sly-connected-hook #'agent-q-record--sly)
  (remove-hook 'slime-connected-hook #'agent-q-record--slime)
  (remove-hook 'sly-event-hooks #'agent-q-record--sly-event)
  (remove-hook 'slime-event-hooks #'agent-q-record--slime-event)
  (agent-q-past-forget 'user))

(defun agent-q-record--sly ()
  "Record the events of SLY."
  (add-hook 'sly-event-hooks #'agent-q-record--sly-event))

(defun agent-q-record--slime ()
  "Record the events of SLIME."
  (add-hook 'slime-event-hooks #'agent-q-record--slime-event))

(defun agent-q-record--sly-event (event)
  "Record EVENT of SLY if it is of interest; leave it to SLY."
  (agent-q-record--event 'sly event))

(defun agent-q-record--slime-event (event)
  "Record EVENT of SLIME if it is of interest; leave it to SLIME."
  (agent-q-record--event 'slime event))

(defun agent-q-record--event (client event)
  "Record EVENT of CLIENT.  Always return nil, so that the client handles it."
  ;; We stand in the way of everything the client does: an error of ours must
  ;; not become one of its own.
  (agent-q-log-call 'agent-q-record #'agent-q-past-see client
                    (if (eq client 'sly)
                        (bound-and-true-p sly-dispatching-connection)
                      (bound-and-true-p slime-dispatching-connection))
                    event)
  nil)

(provide 'agent-q-record)
;;; agent-q-record.el ends here
