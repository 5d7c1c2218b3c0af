;;; agent-q-image-calls.el --- The calls that run in an image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is known of a call that has not ended.  It is a file of its own because
;; what sets a part of a call has to know calls when it is loaded or compiled.

;;; Code:

(require 'cl-lib)

(cl-defstruct (agent-q-image--call (:constructor agent-q-image--make-call) (:copier nil))
  "A call that has not ended.
ID is its number in the image.  CONTINUATION is known to the client.
STOPPING is nil, or the status with which a reply ends the call.
THREAD is the client's for a thread of the image, t for a new one.
OWNER is whom an error that is parked belongs to.  STARTED is when the
image was asked.  QUESTIONS are those of the image's watch that wait for an
answer, LEFT the seconds that the call has when they are answered, and
ASKER is the core's request that it is made for, unless REQUEST is."
  request connection operation arguments seconds callback started
  id continuation timer stopping (patience 3) condition again
  (thread t) owner questions left asker)

(defvar agent-q-image--pending (make-hash-table :test #'equal)
  "The calls that have not ended, by request.")

(defvar agent-q-image--next-id nil
  "The next number of a call in an image.
Several Emacsen can be connected to one image, so where each starts
is random.")

(defun agent-q-image--new-id ()
  "Return a number that no other call in any image has."
  (setq agent-q-image--next-id
        (1+ (or agent-q-image--next-id (ash (random (ash 1 28)) 30)))))

(defun agent-q-image-pending ()
  "Return how many requests have not ended."
  (hash-table-count agent-q-image--pending))

(provide 'agent-q-image-calls)
;;; agent-q-image-calls.el ends here
