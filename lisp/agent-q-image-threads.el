;;; agent-q-image-threads.el --- Images without threads  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Some Lisps have no threads: they do one thing after the other, and hear
;; nothing meanwhile.  Here is what agent-q-image.el asks about calls into them.

;;; Code:

(require 'agent-q-image-calls)
(require 'cl-lib)
(require 'agent-q-image-connection)
(require 'agent-q-image-park)

(defun agent-q-image-threads-p (call)
  "Return non-nil when the image of CALL has a thread for each call."
  (agent-q-image-ask (agent-q-image-call-connection call) :threads-p))

(defun agent-q-image-threads-watched-p (connection)
  "Return non-nil when the image of CONNECTION has a watch.
Code there is asked about where it reaches outside."
  (and (agent-q-image-ask connection :threads-p)
       (string-prefix-p "SBCL " (agent-q-image-ask connection :implementation))))

(defun agent-q-image-threads-must-wait-p (call)
  "Return non-nil when the image of CALL does another call of ours.
Without threads it would hear nothing of CALL, nor of its end."
  (and (not (agent-q-image-threads-p call))
       (cl-some (lambda (other)
                  (and (agent-q-image-call-continuation other)
                       (not (eq other call))
                       (not (agent-q-image-park-of other))))
                (agent-q-image-calls-over
                 (agent-q-image-connection-process (agent-q-image-call-connection call))))))

(defun agent-q-image-threads-within-p (call)
  "Return non-nil when CALL is in a debugger of ours, for want of threads."
  (and (not (agent-q-image-threads-p call))
       (remq call (agent-q-image-park-calls
                   (agent-q-image-connection-process
                    (agent-q-image-call-connection call))))))

(defun agent-q-image-threads-runs-p (call)
  "Return non-nil when the image of CALL, which has no threads, does it now.
An interrupt must not hit what the user evaluates there."
  (let* ((connection (agent-q-image-call-connection call))
         (parked (mapcar (lambda (other)
                           (agent-q-image-ask connection :rex-id
                                              (agent-q-image-call-continuation other)))
                         (agent-q-image-park-calls
                          (agent-q-image-connection-process connection))))
         (id (agent-q-image-ask connection :rex-id
                                (agent-q-image-call-continuation call))))
    (and id
         (or (memql id parked)
             (eql id (apply #'min (cl-set-difference
                                   (agent-q-image-ask connection :requests) parked)))))))

(provide 'agent-q-image-threads)
;;; agent-q-image-threads.el ends here
