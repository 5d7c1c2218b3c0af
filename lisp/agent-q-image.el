;;; agent-q-image.el --- Calls into the Lisp image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The one way from agent-q into a Lisp image: calls of the Common Lisp half
;; (directory image/) through the connection that the user already has, be it
;; SLY's or SLIME's.  Each call ends exactly once, whatever becomes of the Lisp.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'agent-q-sly)
(require 'agent-q-slime)

;;;; Connections

(defconst agent-q-image--clients
  `((sly . ,agent-q-sly-client)
    (slime . ,agent-q-slime-client))
  "The Lisp clients that can carry calls, the preferred one first.")

(cl-defstruct (agent-q-image-connection
               (:constructor agent-q-image--make-connection (client process))
               (:copier nil))
  "A client's connection to a Lisp image; compare them with `equal'."
  client process)

(defun agent-q-image--client (connection key)
  "Return what the client of CONNECTION has for KEY."
  (plist-get (alist-get (agent-q-image-connection-client connection)
                        agent-q-image--clients)
             key))

(defun agent-q-image--ask (connection key &rest arguments)
  "Call the function KEY of CONNECTION's client with ARGUMENTS.
Its first argument is the connection's process."
  (apply (agent-q-image--client connection key)
         (agent-q-image-connection-process connection)
         arguments))

(defun agent-q-image-connections ()
  "Return the open connections to Lisp images, the user's current one first."
  (cl-loop for (client . functions) in agent-q-image--clients
           nconc (mapcar (lambda (process)
                           (agent-q-image--make-connection client process))
                         (funcall (plist-get functions :connections)))))

(defun agent-q-image-default-connection ()
  "Return the connection that the user works with now, or nil."
  (car (agent-q-image-connections)))

(defun agent-q-image-live-p (connection)
  "Return non-nil when CONNECTION is a connection that is open."
  (and connection
       (process-live-p (agent-q-image-connection-process connection))))

(defun agent-q-image-name (connection)
  "Return the name that CONNECTION has in its client."
  (agent-q-image--ask connection :connection-name))

(defun agent-q-image-facts (connection)
  "Return one line on the Lisp image behind CONNECTION."
  (format "%s through %s, package COMMON-LISP-USER"
          (agent-q-image--ask connection :implementation)
          (agent-q-image--client connection :name)))

;;;; Calls

(cl-defstruct (agent-q-image--call (:constructor agent-q-image--make-call) (:copier nil))
  "A call that has not ended.
ID is its number in the image.  CONTINUATION is known to the client.
STOPPING is nil, or the status with which a reply ends the call."
  request connection operation arguments seconds callback
  id continuation timer stopping (patience 3) condition again)

(defvar agent-q-image--pending (make-hash-table :test #'equal)
  "The calls that have not ended, by request.")

(defvar agent-q-image--next-id nil
  "The next number of a call in an image.
Several Emacsen can be connected to one image, so where each starts
is random.")

(defconst agent-q-image--grace 2.0
  "Seconds that a call may take to stop once it was asked to.")

(defun agent-q-image--new-id ()
  "Return a number that no other call in any image has."
  (setq agent-q-image--next-id
        (1+ (or agent-q-image--next-id (ash (random (ash 1 28)) 30)))))

(defun agent-q-image-pending ()
  "Return how many requests have not ended."
  (hash-table-count agent-q-image--pending))

(defmacro agent-q-image--guard (call &rest body)
  "Evaluate BODY; an error in it ends CALL."
  (declare (indent 1) (debug t))
  `(condition-case err
       (progn ,@body)
     (error (agent-q-image--finish ,call "signalled" (error-message-string err)))))

(defun agent-q-image-call (connection request operation arguments seconds callback)
  "Call OPERATION of the Common Lisp half behind CONNECTION.
REQUEST is what `agent-q-image-cancel' knows the call by.  ARGUMENTS
is a property list printed for `read'.  After SECONDS the call is
stopped.  CALLBACK is called exactly once, with two arguments, the
status and a payload:

\"done\"           the reply of the Common Lisp half
\"timed-out\"      the same, when it stopped as asked; nil otherwise
\"unresponsive\"   the tail of the Lisp's own output; it did not stop
\"aborted\"        why the client gave the call up
\"disconnected\"   nil
\"no-connection\"  nil
\"signalled\"      what went wrong here, in Emacs"
  (let ((call (agent-q-image--make-call
               :request request :connection connection :operation operation
               :seconds seconds :callback callback
               :id (agent-q-image--new-id))))
    (cond
     ((gethash request agent-q-image--pending)
      (funcall callback "signalled" (format "Request %s runs already." request)))
     ((not (agent-q-image-live-p connection))
      (funcall callback "no-connection" nil))
     (t
      (puthash request call agent-q-image--pending)
      (agent-q-image--guard call
        (setf (agent-q-image--call-arguments call)
              (agent-q-image--clean (car (read-from-string arguments))))
        (agent-q-image--install connection)
        (agent-q-image--prepare connection call))))))

(defun agent-q-image--clean (datum)
  "Return DATUM with only what a Lisp image can read without harm.
Objects other than strings, integers, keywords and lists are errors."
  (cond ((memq datum '(nil t)) datum)
        ((or (keywordp datum) (integerp datum)) datum)
        ((stringp datum)
         ;; Raw bytes and surrogates have no encoding; a NUL ends some readers.
         (replace-regexp-in-string "[^\u0001-\ud7ff\ue000-\U0010ffff]" "\ufffd"
                                   (substring-no-properties datum) t t))
        ((proper-list-p datum) (mapcar #'agent-q-image--clean datum))
        (t (error "%S can't be sent to a Lisp image" datum))))

(defun agent-q-image--send (call)
  "Send CALL to its image, and start its deadline."
  (agent-q-image--guard call
    (let ((continuation (lambda (result) (agent-q-image--returned call result))))
      (setf (agent-q-image--call-continuation call) continuation)
      (agent-q-image--start-timer call (agent-q-image--call-seconds call)
                                  #'agent-q-image--deadline)
      (agent-q-image--ask
       (agent-q-image--call-connection call) :rex
       `(cl:if (cl:find-package "AGENT-Q-IMAGE")
               (cl:funcall (cl:find-symbol "CALL" "AGENT-Q-IMAGE")
                           ,(agent-q-image--client
                             (agent-q-image--call-connection call) :wire)
                           ,(agent-q-image--call-id call)
                           ,(agent-q-image--call-operation call)
                           (cl:quote ,(agent-q-image--call-arguments call)))
               :gone)
       t continuation))))

(defun agent-q-image--returned (call result)
  "Take RESULT, the client's word on the end of CALL."
  (pcase result
    (`(:ok ,(and reply (pred stringp)))
     (agent-q-image--finish call
                            (if (string-prefix-p "(:outcome :cancelled" reply)
                                (or (agent-q-image--call-stopping call) "done")
                              "done")
                            reply))
    ;; The image was restarted behind the same connection.
    ((and `(:ok :gone) (guard (not (agent-q-image--call-again call))))
     (when (agent-q-image--pending-p call)
       (agent-q-image--cancel-timer call)
       (setf (agent-q-image--call-again call) t
             (agent-q-image--call-continuation call) nil)
       (agent-q-image--forget (agent-q-image--call-connection call))
       (agent-q-image--guard call
         (agent-q-image--prepare (agent-q-image--call-connection call) call))))
    (`(:ok ,other)
     (agent-q-image--finish call "signalled" (format "The image answered %S." other)))
    (`(:abort . ,rest)
     (agent-q-image--finish call "aborted"
                            (or (agent-q-image--call-condition call)
                                (format "%s" (car rest)))))))

(defun agent-q-image--pending-p (call)
  "Return non-nil when CALL has not ended."
  (eq call (gethash (agent-q-image--call-request call) agent-q-image--pending)))

(defvar agent-q-image-ended-functions nil
  "Functions called with each call that ended.
Their arguments are the connection's process, the operation, its
arguments, the status and the payload.")

(defun agent-q-image--finish (call status payload)
  "End CALL with STATUS and PAYLOAD, unless it has ended."
  (when (agent-q-image--pending-p call)
    (remhash (agent-q-image--call-request call) agent-q-image--pending)
    (agent-q-image--cancel-timer call)
    (ignore-errors
      (run-hook-with-args 'agent-q-image-ended-functions
                          (agent-q-image-connection-process
                           (agent-q-image--call-connection call))
                          (agent-q-image--call-operation call)
                          (agent-q-image--call-arguments call)
                          status payload))
    ;; This can run in a process filter of the client's: it must return there.
    (condition-case err
        (save-current-buffer
          (funcall (agent-q-image--call-callback call) status
                   (and payload (substring-no-properties payload))))
      (error (message "agent-q: the end of a call was not taken: %s"
                      (error-message-string err))))))

;;;; The Common Lisp half

;; A connection's process has the property `agent-q-image-half': nil (nothing
;; is known), an `agent-q-image--shipping', or t (the image has this version).

(defconst agent-q-image--directory
  (expand-file-name "image/" (file-name-directory (or load-file-name buffer-file-name "")))
  "Where the Common Lisp half is.")

(defconst agent-q-image--files
  '("package" "text" "capture" "report" "call"
    "symbols" "describe" "apropos" "evaluate")
  "The files of the Common Lisp half, in the order in which they are read.")

(defconst agent-q-image--shipping-seconds 25
  "How long an image may take to receive the Common Lisp half.
Implementations that compile through C need some of it.")

(cl-defstruct (agent-q-image--shipping
               (:constructor agent-q-image--make-shipping) (:copier nil))
  "The Common Lisp half on its way to an image, and the CALLS that wait for it."
  connection calls continuation timer)

(defun agent-q-image--source ()
  "Return the text of the Common Lisp half, without comments."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (dolist (file agent-q-image--files)
        (goto-char (point-max))
        (insert-file-contents
         (expand-file-name (concat file ".lisp") agent-q-image--directory))))
    (goto-char (point-min))
    (flush-lines "^ *;")
    (buffer-string)))

(defun agent-q-image--prepare (connection call)
  "Send CALL over CONNECTION as soon as the Common Lisp half is there."
  (let* ((process (agent-q-image-connection-process connection))
         (half (process-get process 'agent-q-image-half)))
    (cond ((eq half t) (agent-q-image--send call))
          (half (push call (agent-q-image--shipping-calls half)))
          (t (let ((shipping (agent-q-image--make-shipping
                              :connection connection :calls (list call))))
               (agent-q-image--set-half process shipping)
               (setf (agent-q-image--shipping-timer shipping)
                     (run-at-time agent-q-image--shipping-seconds nil
                                  #'agent-q-image--shipped shipping "unresponsive" ""))
               (condition-case err
                   (agent-q-image--greet shipping)
                 (error (agent-q-image--shipped shipping "signalled"
                                                (error-message-string err)))))))))

(defun agent-q-image--set-half (process half)
  "Note that HALF is what is known about the Common Lisp half behind PROCESS."
  (let ((old (process-get process 'agent-q-image-half)))
    (when (and (agent-q-image--shipping-p old)
               (timerp (agent-q-image--shipping-timer old)))
      (cancel-timer (agent-q-image--shipping-timer old))))
  (process-put process 'agent-q-image-half half))

(defun agent-q-image--forget (connection)
  "Assume no longer that CONNECTION's image has the Common Lisp half.
What is on its way already is left alone."
  (let ((process (agent-q-image-connection-process connection)))
    (when (eq t (process-get process 'agent-q-image-half))
      (agent-q-image--set-half process nil))))

(defun agent-q-image--greet (shipping)
  "Ask the image of SHIPPING for its version; send ours when it is another."
  (let* ((source (agent-q-image--source))
         (version (secure-hash 'sha1 source)))
    (agent-q-image--ship-form
     shipping
     '(cl:let ((cl:symbol (cl:and (cl:find-package "AGENT-Q-IMAGE")
                                  (cl:find-symbol "VERSION" "AGENT-Q-IMAGE"))))
              (cl:if (cl:and cl:symbol (cl:fboundp cl:symbol))
                     (cl:funcall cl:symbol)))
     (lambda (there)
       (if (equal there version)
           (agent-q-image--shipped shipping nil nil)
         (agent-q-image--ship-form
          shipping (agent-q-image--shipping-form source version)
          (lambda (_) (agent-q-image--shipped shipping nil nil))))))))

(defun agent-q-image--ship-form (shipping form receiver)
  "Have FORM evaluated for SHIPPING, then call RECEIVER with its value."
  (let ((continuation
         (lambda (result)
           (pcase result
             (`(:ok ,value) (funcall receiver value))
             (`(:abort . ,rest)
              (agent-q-image--shipped
               shipping "aborted"
               (format "The image did not take agent-q's Common Lisp half: %s"
                       (car rest))))))))
    (setf (agent-q-image--shipping-continuation shipping) continuation)
    (agent-q-image--ask (agent-q-image--shipping-connection shipping)
                        :rex form t continuation)))

(defun agent-q-image--shipping-form (source version)
  "Return the form to make SOURCE, called VERSION, part of an image.
Warnings, and what compilers print, are kept from the user.  The
variables are symbols of Common Lisp's, to intern none in CL-USER."
  `(cl:let* ((cl:*package* (cl:find-package "COMMON-LISP-USER"))
             (cl:*readtable* (cl:copy-readtable cl:nil))
             (cl:*read-base* 10)
             (cl:stream (cl:make-broadcast-stream))
             (cl:*standard-output* cl:stream)
             (cl:*error-output* cl:stream)
             (cl:*trace-output* cl:stream))
            (cl:handler-bind ((cl:warning (cl:function cl:muffle-warning)))
              ;; One unit for all of it halves the time that SBCL takes.
              (cl:with-compilation-unit ()
                (cl:with-input-from-string (cl:stream ,source)
                  (cl:loop :for cl:list := (cl:read cl:stream cl:nil cl:stream)
                           :until (cl:eq cl:list cl:stream)
                           :do (cl:eval cl:list)))))
            (cl:setf (cl:symbol-value (cl:find-symbol "*VERSION*" "AGENT-Q-IMAGE"))
                     ,version)))

(defun agent-q-image--shipped (shipping status payload)
  "Send what waited for SHIPPING, or end it with STATUS and PAYLOAD."
  (let ((process (agent-q-image-connection-process
                  (agent-q-image--shipping-connection shipping))))
    ;; An answer can come after the time was up.
    (when (eq shipping (process-get process 'agent-q-image-half))
      (agent-q-image--set-half process (null status))
      (dolist (call (reverse (agent-q-image--shipping-calls shipping)))
        (cond (status (agent-q-image--finish call status payload))
              ((agent-q-image--pending-p call) (agent-q-image--send call)))))))

;;;; Deadlines and cancelling

(defun agent-q-image--cancel-timer (call)
  "Forget the deadline of CALL."
  (when (timerp (agent-q-image--call-timer call))
    (cancel-timer (agent-q-image--call-timer call)))
  (setf (agent-q-image--call-timer call) nil))

(defun agent-q-image--start-timer (call seconds function)
  "Call FUNCTION with CALL in SECONDS."
  (agent-q-image--cancel-timer call)
  (setf (agent-q-image--call-timer call)
        (run-at-time seconds nil function call)))

(defun agent-q-image--deadline (call)
  "Stop CALL, which has used up its time."
  (agent-q-image--stop call "timed-out"))

(defun agent-q-image-cancel (request)
  "Stop the call REQUEST.  It still ends as others do."
  (let ((call (gethash request agent-q-image--pending)))
    (cond ((null call))
          ((agent-q-image--call-continuation call)
           (agent-q-image--stop call "done"))
          ;; It waits for the Common Lisp half, nothing of it is in the image.
          (t (agent-q-image--finish call "aborted" "It was cancelled before it began.")))))

(defun agent-q-image--stop (call status)
  "Ask the image to stop CALL; when it does, CALL ends with STATUS."
  (when (and (agent-q-image--pending-p call)
             (null (agent-q-image--call-stopping call)))
    (setf (agent-q-image--call-stopping call) status)
    (agent-q-image--ask-to-stop call)))

(defun agent-q-image--ask-to-stop (call)
  "Send the request to stop CALL, a few times; then end it without the image.
A clean-up form that hangs takes a second request to stop."
  (cond
   ((not (agent-q-image-live-p (agent-q-image--call-connection call)))
    (agent-q-image--finish call "disconnected" nil))
   ((zerop (agent-q-image--call-patience call))
    (agent-q-image--finish
     call "unresponsive"
     (agent-q-image--output-tail (agent-q-image--call-connection call))))
   (t
    (cl-decf (agent-q-image--call-patience call))
    (agent-q-image--start-timer call (/ agent-q-image--grace 3)
                                #'agent-q-image--ask-to-stop)
    (agent-q-image--guard call
      (agent-q-image--ask
       (agent-q-image--call-connection call) :rex
       `(cl:if (cl:find-package "AGENT-Q-IMAGE")
               (cl:funcall (cl:find-symbol "CANCEL" "AGENT-Q-IMAGE")
                           ,(agent-q-image--call-id call)))
       t #'ignore)))))

(defun agent-q-image--output-tail (connection)
  "Return the last lines that the Lisp behind CONNECTION printed by itself."
  (let ((buffer (agent-q-image--ask connection :buffer)))
    (if (buffer-live-p buffer)
        (with-current-buffer buffer
          (save-restriction
            (widen)
            (let ((tail (string-trim
                         (buffer-substring-no-properties
                          (max (point-min) (- (point-max) 600)) (point-max)))))
              (if (string-empty-p tail)
                  ""
                (format "The last that it printed in %s:\n%s" (buffer-name) tail)))))
      "")))

;;;; What happens on a connection

(defun agent-q-image--install (connection)
  "Listen to the events of CONNECTION's client."
  (funcall (agent-q-image--client connection :install)
           #'agent-q-image--on-event #'agent-q-image--on-close))

(defvar agent-q-image--swallowed nil
  "The debugger sessions that were kept from the user.
Each is (PROCESS . THREAD).")

(defun agent-q-image--on-close (process)
  "End what waits for an answer over PROCESS, which is closed."
  (agent-q-image--set-half process nil)
  (setq agent-q-image--swallowed
        (cl-delete process agent-q-image--swallowed :key #'car))
  (dolist (call (agent-q-image--calls-over process))
    (agent-q-image--finish call "disconnected" nil)))

(defun agent-q-image--calls-over (process)
  "Return what waits for an answer over PROCESS, a list."
  (cl-loop for call being the hash-values of agent-q-image--pending
           when (eq process (agent-q-image-connection-process
                             (agent-q-image--call-connection call)))
           collect call))

(defun agent-q-image--on-event (process event)
  "Handle EVENT on PROCESS when it is about a call of ours.
The value is non-nil when the client should not see it."
  (pcase event
    (`(:debug ,thread ,_level ,condition ,_restarts ,_frames ,requests)
     (let ((ours (agent-q-image--debugged process requests)))
       (when ours
         (agent-q-image--swallow process thread condition ours)
         t)))
    (`(:debug-activate ,thread . ,_)
     (member (cons process thread) agent-q-image--swallowed))
    (`(:debug-return ,thread ,_level . ,_)
     (let ((session (member (cons process thread) agent-q-image--swallowed)))
       (when session
         (setq agent-q-image--swallowed (delq (car session) agent-q-image--swallowed))
         t)))))

(defun agent-q-image--debugged (process requests)
  "Return the call over PROCESS whose id is among REQUESTS, or nil.
The value is a connection when it is the Common Lisp half on its way."
  (or (cl-find-if (lambda (call)
                    (agent-q-image--among-p (agent-q-image--call-connection call)
                                            (agent-q-image--call-continuation call)
                                            requests))
                  (agent-q-image--calls-over process))
      (let ((shipping (process-get process 'agent-q-image-half)))
        (and (agent-q-image--shipping-p shipping)
             (agent-q-image--among-p (agent-q-image--shipping-connection shipping)
                                     (agent-q-image--shipping-continuation shipping)
                                     requests)
             (agent-q-image--shipping-connection shipping)))))

(defun agent-q-image-debugged-p (process requests)
  "Return non-nil when a call of ours over PROCESS is among REQUESTS, ids."
  (and (agent-q-image--debugged process requests) t))

(defun agent-q-image--among-p (connection continuation requests)
  "Return non-nil when CONTINUATION's id on CONNECTION is among REQUESTS."
  (and continuation
       (memql (agent-q-image--ask connection :rex-id continuation) requests)))

(defun agent-q-image--swallow (process thread condition work)
  "Abort the debugger that CONDITION opened in THREAD of PROCESS for WORK.
WORK is a call, or the connection of the Common Lisp half.  It was
not for the user: calls report their conditions themselves."
  (let ((connection (if (agent-q-image--call-p work)
                        (agent-q-image--call-connection work)
                      work)))
    (push (cons process thread) agent-q-image--swallowed)
    (when (agent-q-image--call-p work)
      (setf (agent-q-image--call-condition work)
            (string-trim (mapconcat (lambda (part) (if (stringp part) part ""))
                                    condition " "))))
    (agent-q-image--ask connection :rex
                        (agent-q-image--client connection :throw-to-toplevel)
                        thread #'ignore)))

(provide 'agent-q-image)
;;; agent-q-image.el ends here
