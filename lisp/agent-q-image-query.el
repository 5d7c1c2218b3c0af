;;; agent-q-image-query.el --- Calls of Emacs's own into an image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What Emacs itself wants to know of an image, beside the tool calls that the
;; core asks for: one call of the Common Lisp half, and its reply as Lisp data.

;;; Code:

(require 'agent-q-image-connection)
(require 'cl-lib)
(require 'agent-q-image)
(require 'agent-q-image-reply)

(defconst agent-q-image-query--seconds 15
  "Default for the seconds that an image may take to answer.")

(defconst agent-q-image-query--seconds-for-threads 2
  "Seconds that an image may take to name its threads.")

(defvar agent-q-image-query--last 0
  "The number of the last call that was made from here.")

(defun agent-q-image-query-read (text)
  "Return TEXT, a reply of the Common Lisp half, as Lisp data; nil if unreadable."
  (ignore-errors (agent-q-image-reply-read text)))

(defun agent-q-image-query (connection operation arguments function
                                       &optional seconds thread asker)
  "Call OPERATION in the image behind CONNECTION with ARGUMENTS, a property list.
FUNCTION gets three arguments: the reply of the Common Lisp half as Lisp
data, nil when there is none, then the status and the payload, which are
as for `agent-q-image-call'.  That call has SECONDS, 15 when nil,
and runs in THREAD, when nil one of its own.  ASKER is the core's request
that it is made for, if any.  Return the request, for
`agent-q-image-cancel'."
  (let ((request (list 'agent-q-image-query (cl-incf agent-q-image-query--last))))
    (agent-q-image-call connection request operation (prin1-to-string arguments)
                        (or seconds agent-q-image-query--seconds)
                        (lambda (status payload)
                          (funcall function
                                   (and (equal status "done")
                                        (agent-q-image-query-read payload))
                                   status payload))
                        nil thread asker)
    request))

(defun agent-q-image-query-threads (connection threads function)
  "Call FUNCTION with the names of THREADS behind CONNECTION, soon.
THREADS are numbers of the client's; the names come as pairs of number
and name, without those that are not known.  It takes nothing of the
Common Lisp half: the user may have asked for none of it yet."
  (let ((client (agent-q-image-client connection :wire))
        (timer nil)
        (waiting t))
    (cl-flet ((end (names)
                (when waiting
                  (setq waiting nil)
                  (cancel-timer timer)
                  (funcall function names))))
      ;; An image that hears nothing must not keep an answer back.
      (setq timer (run-at-time agent-q-image-query--seconds-for-threads nil
                               (lambda () (end nil))))
      (if (not (and threads (agent-q-image-ask connection :threads-p)))
          (end nil)
        (agent-q-image-ask
         connection :rex (agent-q-image-query--threads-form client threads) t
         (lambda (result)
           (end (pcase result
                  (`(:ok ,(and names (pred listp)))
                   (cl-loop for thread in threads
                            for name in names
                            when name
                            collect (cons thread (substring-no-properties name))))))))))))

(defun agent-q-image-query--threads-form (client threads)
  "Return a form for the names of THREADS, numbers of CLIENT's, :slynk or :swank.
Its variables are symbols of Common Lisp's, to make none in CL-USER."
  `(cl:ignore-errors
    (cl:let ((cl:package (cl:or ,@(mapcar (lambda (name) `(cl:find-package ,name))
                                          (if (eq client :slynk) '("SLYNK-BACKEND")
                                            '("SWANK/BACKEND" "SWANK-BACKEND"))))))
      (cl:mapcar (cl:lambda (cl:number)
                   (cl:let ((cl:list (cl:funcall (cl:find-symbol "FIND-THREAD" cl:package)
                                                 cl:number)))
                     (cl:and cl:list
                             (cl:princ-to-string
                              (cl:funcall (cl:find-symbol "THREAD-NAME" cl:package)
                                          cl:list)))))
                 '(,@threads)))))

(provide 'agent-q-image-query)
;;; agent-q-image-query.el ends here
