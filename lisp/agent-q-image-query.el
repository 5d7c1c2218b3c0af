;;; agent-q-image-query.el --- Calls of Emacs's own into an image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What Emacs itself wants to know of an image, beside the tool calls that the
;; core asks for: one call of the Common Lisp half, and its reply as Lisp data.

;;; Code:

(require 'agent-q-image)

(defconst agent-q-image-query--seconds 15
  "How long an image may take to answer, unless the caller says.")

(defvar agent-q-image-query--last 0
  "The number of the last call that was made from here.")

(defun agent-q-image-query-read (text)
  "Return TEXT, a reply of the Common Lisp half, as Lisp data; nil if unreadable."
  (ignore-errors (car (read-from-string text))))

(defun agent-q-image-query (connection operation arguments function &optional seconds)
  "Call OPERATION in the image behind CONNECTION with ARGUMENTS, a property list.
FUNCTION gets three arguments: the reply of the Common Lisp half as Lisp
data, nil when there is none, then the status and the payload, which are
as for `agent-q-image-call'.  That call has SECONDS, 15 when nil.  Return
the request, for `agent-q-image-cancel'."
  (let ((request (list 'agent-q-image-query (cl-incf agent-q-image-query--last))))
    (agent-q-image-call connection request operation (prin1-to-string arguments)
                        (or seconds agent-q-image-query--seconds)
                        (lambda (status payload)
                          (funcall function
                                   (and (equal status "done")
                                        (agent-q-image-query-read payload))
                                   status payload)))
    request))

(provide 'agent-q-image-query)
;;; agent-q-image-query.el ends here
