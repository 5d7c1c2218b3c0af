;;; agent-q-image-park.el --- Calls that wait in the debugger  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A call whose arguments have :on-error "park" does not end with an error
;; alone: its thread waits in the client's debugger, which the user does not
;; see.  The call's reply says so, and from then on it can be resumed by a
;; restart, handed over to the user, or released.

;;; Code:

(require 'agent-q-image-calls)
(require 'agent-q-image-source)
(require 'cl-lib)
(require 'agent-q-image-connection)

(cl-defstruct (agent-q-image-parked
               (:constructor agent-q-image-park--make) (:copier nil))
  "A CALL that is parked under NAME.
THREAD is where it waits, or nil when a restart made it go on.  EVENT
and ACTIVATION are what the client would have shown its debugger for."
  name call thread event activation)

(defvar agent-q-image-park-swallowed nil
  "The debugger sessions that were kept from the user.
Each is (PROCESS . THREAD).")

(defvar agent-q-image-park--all nil
  "The calls that are parked, latest first.")

(defvar agent-q-image-park--count 0
  "Number of names given so far to calls that may be parked.")

(defun agent-q-image-park-list (&optional process)
  "Return what is parked over PROCESS, or over any, oldest first."
  (reverse
   (cl-remove-if-not (lambda (parked)
                       (or (null process)
                           (eq process (agent-q-image-park--process parked))))
                     agent-q-image-park--all)))

(defun agent-q-image-park--process (parked)
  "Return the process over which PARKED is."
  (agent-q-image-connection-process
   (agent-q-image-call-connection (agent-q-image-parked-call parked))))

(defun agent-q-image-park-owner (parked)
  "Return the owner of PARKED."
  (agent-q-image-call-owner (agent-q-image-parked-call parked)))

(defun agent-q-image-park-form (parked)
  "Return the text that was evaluated when PARKED was parked."
  (plist-get (agent-q-image-call-arguments (agent-q-image-parked-call parked)) :form))

;;;; Parking

(defun agent-q-image-park-name (arguments)
  "Return ARGUMENTS of a call, with a name if it may be parked."
  (if (equal "park" (plist-get arguments :on-error))
      (append arguments
              (list :debugger
                    (format "d%d" (cl-incf agent-q-image-park--count))))
    arguments))

(defun agent-q-image-park-asked-p (work)
  "Return non-nil when WORK is a call that asked to be parked."
  (and (agent-q-image-call-p work)
       (plist-get (agent-q-image-call-arguments work) :debugger)))

(defun agent-q-image-park-of (call)
  "Return what is parked for CALL, or nil."
  (cl-find call agent-q-image-park--all :key #'agent-q-image-parked-call))

(defun agent-q-image-park (call event)
  "Keep CALL, for which EVENT entered the debugger, from the user, and park it."
  (let* ((thread (nth 1 event))
         (parked (or (agent-q-image-park-of call)
                     (agent-q-image-park--make
                      :name (plist-get (agent-q-image-call-arguments call) :debugger)
                      :call call)))
         (session (cons (agent-q-image-park--process parked) thread)))
    (unless (member session agent-q-image-park-swallowed)
      (push session agent-q-image-park-swallowed))
    (setf (agent-q-image-parked-thread parked) thread
          (agent-q-image-parked-event parked) event)
    (cl-pushnew parked agent-q-image-park--all)
    (when (agent-q-image-calls-pending-p call)
      (agent-q-image-calls-cancel-timer call)
      (agent-q-image-ask
       (agent-q-image-call-connection call) :rex
       `(cl:funcall (cl:find-symbol "PARKED-REPLY" "AGENT-Q-IMAGE")
                    ,(agent-q-image-call-id call))
       t
       (lambda (result)
         (pcase result
           (`(:ok ,(and reply (pred stringp)))
            (agent-q-image-calls-finish
             call "done"
             (agent-q-image-source-resolve (agent-q-image-call-connection call) reply
                                           (agent-q-image-call-owner call))))
           ;; It went on meanwhile, and ends as other calls do.
           (_ nil)))))))

(defun agent-q-image-park-activated (process event)
  "Remember EVENT, which would have shown a debugger over PROCESS."
  (let ((parked (agent-q-image-park--in process (nth 1 event))))
    (when parked
      (setf (agent-q-image-parked-activation parked) event))))

(defun agent-q-image-park--in (process thread)
  "Return what is parked in THREAD over PROCESS, or nil."
  (cl-find-if (lambda (parked)
                (and (eql thread (agent-q-image-parked-thread parked))
                     (eq process (agent-q-image-park--process parked))))
              agent-q-image-park--all))

(defun agent-q-image-park-left (process thread level)
  "Note that the debugger LEVEL in THREAD over PROCESS was left."
  (let ((parked (agent-q-image-park--in process thread)))
    (when (and parked (eql level 1))
      (setf (agent-q-image-parked-thread parked) nil))))

(defun agent-q-image-park-over (call)
  "Note that CALL is over in the image."
  (setq agent-q-image-park--all
        (cl-delete call agent-q-image-park--all :key #'agent-q-image-parked-call)))

(defun agent-q-image-park-abandon (process)
  "Forget what is parked over PROCESS, which is closed."
  (setq agent-q-image-park--all
        (cl-delete process agent-q-image-park--all :key #'agent-q-image-park--process)))

(defun agent-q-image-park-calls (process)
  "Return each call that is parked over PROCESS."
  (mapcar #'agent-q-image-parked-call (agent-q-image-park-list process)))

;;;; Going on

(defun agent-q-image-release (parked)
  "Unwind the stack of PARKED."
  (let* ((call (agent-q-image-parked-call parked))
         (connection (agent-q-image-call-connection call)))
    (cond ((not (agent-q-image-live-p connection)))
          ((agent-q-image-ask connection :threads-p)
           (agent-q-image-ask
            connection :rex
            `(cl:if (cl:find-package "AGENT-Q-IMAGE")
                    (cl:funcall (cl:find-symbol "CANCEL" "AGENT-Q-IMAGE")
                                ,(agent-q-image-call-id call)))
            t #'ignore))
          ((agent-q-image-parked-thread parked)
           ;; Without threads there is one stack: what was parked later is above it.
           (agent-q-image-ask
            connection :rex
            (agent-q-image-client
             connection
             (if (eq parked (car (last (agent-q-image-park-list
                                        (agent-q-image-park--process parked)))))
                 :abort-level
               :throw-to-toplevel))
            (agent-q-image-parked-thread parked) #'ignore)))))

(defun agent-q-image-park-owned (owner)
  "Return what is parked for OWNER."
  (cl-remove-if-not (lambda (parked) (eq owner (agent-q-image-park-owner parked)))
                    (agent-q-image-park-list)))

(defun agent-q-image-release-owned (owner)
  "Unwind the stacks of all that is parked for OWNER."
  (mapc #'agent-q-image-release (agent-q-image-park-owned owner)))

(defun agent-q-image-hand-over (parked)
  "Show PARKED in the debugger of the user's client; it is the user's now."
  (let* ((call (agent-q-image-parked-call parked))
         (connection (agent-q-image-call-connection call))
         (process (agent-q-image-connection-process connection)))
    (unless (agent-q-image-parked-thread parked)
      (user-error "It is running, not stopped in the debugger"))
    (setq agent-q-image-park--all (delq parked agent-q-image-park--all)
          agent-q-image-park-swallowed
          (cl-delete (cons process (agent-q-image-parked-thread parked))
                     agent-q-image-park-swallowed :test #'equal))
    (agent-q-image-ask connection :rex
                       `(cl:funcall (cl:find-symbol "UNPARK" "AGENT-Q-IMAGE")
                                    ,(agent-q-image-client connection :wire)
                                    ,(agent-q-image-call-id call))
                       t #'ignore)
    (agent-q-image-ask connection :dispatch (agent-q-image-parked-event parked))
    (when (agent-q-image-parked-activation parked)
      (agent-q-image-ask connection :dispatch
                         (agent-q-image-parked-activation parked)))))

(provide 'agent-q-image-park)
;;; agent-q-image-park.el ends here
