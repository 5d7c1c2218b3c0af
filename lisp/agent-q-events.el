;;; agent-q-events.el --- Events of the core, and the operations that it asks for  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core's events go from its queue to the chats and to all others that subscribed.  Some ask
;; Emacs for an operation, which is answered here.

;;; Code:

(require 'agent-q)
(require 'agent-q-connection)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Collecting garbage at a better moment

;; A collection takes longer than all else that happens between two keys.  While an answer
;; is drawn, or a first call is on its way, garbage may accumulate; it is collected when
;; that is over and the user doesn't type.

(defconst agent-q-events-garbage-limit 8000000
  "Bytes of garbage that may accumulate until it is collected all the same.
A fast answer of 60 KB makes less than 5 MB.  Emacs keeps most of the room
that garbage took, as everywhere among it is something that lives on.")

(defconst agent-q-events--garbage-rest 0.5
  "Seconds without a key after which garbage is collected.")

(defvar agent-q-events--garbage-reasons nil
  "What garbage is kept for, each thing once.")

(defvar agent-q-events--garbage-threshold nil
  "Value of `gc-cons-threshold' before garbage was kept; nil while none is.")

(defvar agent-q-events--garbage-timer nil
  "The timer that will collect garbage, or nil.")

(defun agent-q-events-garbage-keep (reason)
  "Put off garbage collection for REASON, unless there is very much.
Somebody who has a greater threshold keeps it."
  (unless (memq reason agent-q-events--garbage-reasons)
    (push reason agent-q-events--garbage-reasons))
  (when (and (null agent-q-events--garbage-threshold)
             (< gc-cons-threshold agent-q-events-garbage-limit))
    (setq agent-q-events--garbage-threshold gc-cons-threshold
          gc-cons-threshold agent-q-events-garbage-limit)))

(defun agent-q-events-garbage-let-go (reason)
  "Have garbage collected soon, unless it is kept for more than REASON."
  (setq agent-q-events--garbage-reasons (delq reason agent-q-events--garbage-reasons))
  (when (and agent-q-events--garbage-threshold
             (null agent-q-events--garbage-reasons)
             (null agent-q-events--garbage-timer))
    ;; Between two calls of a turn there is no rest.
    (setq agent-q-events--garbage-timer
          (run-at-time agent-q-events--garbage-rest nil #'agent-q-events--garbage-collect-in-rest))))

(defun agent-q-events-garbage-put-off ()
  "Put off garbage collection until the user rests, unless there is very much.
For a command that is repeated quickly."
  (agent-q-events-garbage-keep this-command)
  (agent-q-events-garbage-let-go this-command))

(defun agent-q-events--garbage-collect-in-rest ()
  "Collect garbage once the user doesn't type, unless it is kept once more."
  (setq agent-q-events--garbage-timer
        (and agent-q-events--garbage-threshold (null agent-q-events--garbage-reasons)
             (run-with-idle-timer agent-q-events--garbage-rest nil #'agent-q-events--garbage-collect))))

(defun agent-q-events--garbage-collect ()
  "Collect garbage as before, unless it is kept once more.
A threshold that was changed since by others stays."
  (setq agent-q-events--garbage-timer nil)
  (when (and agent-q-events--garbage-threshold (null agent-q-events--garbage-reasons))
    (when (eql gc-cons-threshold agent-q-events-garbage-limit)
      (setq gc-cons-threshold agent-q-events--garbage-threshold)
      (garbage-collect))
    (setq agent-q-events--garbage-threshold nil)))

;;;; From the core's queue to the chats

;; The core writes one byte to a pipe when it has something to say; the
;; pipe's filter takes a batch of events and hands each one to its chat, or to
;; what subscribed to events of its type.

(defconst agent-q-events--batch-size 16
  "Most events taken from the core at a time.")

(defconst agent-q-events--batch-microseconds 1000
  "Microseconds that the core may spend on handing out events at a time.")

(defconst agent-q-events--patience 0.0015
  "Seconds for which one run of the filter takes text.
It has to be short: a filter can't be quit, and keys wait for it and for
the redisplay that follows.")

(defconst agent-q-events--patience-without-text 0.005
  "Seconds for which one run of the filter takes events that are no text.
A thousand calls come at once, and the redisplay between two runs takes longer
than a short run; text is paced anyway.")

(defvar agent-q-events--process nil
  "The pipe that the core wakes Emacs through.")

(defvar agent-q-events--buffers (make-hash-table)
  "The chat buffer of each session id.")

(defvar-local agent-q-events-handler nil
  "Function that is called with each event of this buffer's session.
One of the type `:turn-begins' is Emacs's own: it comes before the requests of
a turn are carried out, while `:turn-started' may be handled after them.")

(defvar agent-q-events-subscribers nil
  "An alist from types of events to the functions that take them.
Those of the type t take each event, before anything is done with it.")

(defconst agent-q-events-requests '(:image-call :emacs-call :tool-handler)
  "The types of events that are requests: the core waits for an answer.")

;;;;; The pipe

(defun agent-q-events-ensure ()
  "Load the core and connect its wake pipe."
  (agent-q-module-ensure)
  (unless (process-live-p agent-q-events--process)
    (setq agent-q-events--process (agent-q-events--make-pipe))
    (let ((started nil))
      (unwind-protect
          (progn
            (agent-q-events--start)
            (setq started t))
        ;; A live pipe would say that the core runs, and nobody would try again.
        (unless started
          (delete-process agent-q-events--process)
          (setq agent-q-events--process nil))))))

(defun agent-q-events--start ()
  "Start the core, which wakes Emacs through the pipe."
  (agent-q-set-log-level)
  (agent-q-core-start agent-q-events--process
                      (expand-file-name agent-q-log-file))
  (let ((trouble (plist-get (agent-q-core-status) :trouble)))
    (when trouble
      (display-warning 'agent-q (string-join trouble "\n"))))
  (add-hook 'kill-emacs-hook #'agent-q-events--shutdown)
  (agent-q-events--apply '(:type :core-started)))

(defun agent-q-events-running-p ()
  "Whether the core can wake Emacs.
This is quicker than `agent-q-events-ensure', which looks at the core's file."
  (process-live-p agent-q-events--process))

(defun agent-q-events--make-pipe ()
  "Return a new pipe process whose filter pumps events."
  ;; Captured when the process is made; adaptive reading would delay each
  ;; wake-up by up to 40 ms.
  (let ((process-adaptive-read-buffering nil))
    (make-pipe-process :name "agent-q-wake"
                       :buffer (get-buffer-create " *agent-q-wake*")
                       :filter #'agent-q-events--wake
                       :sentinel #'ignore
                       :coding 'no-conversion
                       :noquery t)))

(defun agent-q-events--shutdown ()
  "Tell the core that Emacs exits."
  (agent-q-core-shutdown))

(defun agent-q-events--wake (_process _bytes)
  "Take what the core has queued.  Filter of the wake pipe."
  (agent-q-events--take))

(defun agent-q-events-attend (function)
  "Return the value of FUNCTION, which hands the core something.
What the core queues for it is taken at once: to be woken for it would take
longer than most calls."
  (let ((attending (agent-q-core-attend)))
    (unwind-protect
        (funcall function)
      (when attending
        (agent-q-events--take-here)))))

(defun agent-q-events-resolve (request status text &optional note)
  "Answer REQUEST of the core with STATUS and TEXT, and do what follows from that.
NOTE is as in `agent-q-core-resolve'."
  (agent-q-events-attend
   (lambda ()
     (condition-case failure
         (agent-q-core-resolve request status text note (agent-q-connection-call-added text))
       ;; The core needs an answer, whatever it is.
       (error (agent-q-core-resolve
               request "signalled"
               (format "Emacs's answer can't be handed over (%s)"
                       (error-message-string failure))
               nil nil))))))

(defun agent-q-events--take-here ()
  "Take what the core has queued, wherever Emacs is.
As in a filter, that can't be quit, and leaves the caller in its buffer."
  (let ((inhibit-quit t))
    (save-current-buffer
      (agent-q-events--take))))

(defvar agent-q-events--afterwards nil
  "Functions to call after the current events, or nil while none are handled.
It is a list whose last element means nothing.")

(defun agent-q-events--take ()
  "Take what the core has queued."
  ;; The core wakes us again only after `agent-q-core-ready', so keys are read
  ;; when this is over.  What drawing takes counts, too: that is most of it, and the
  ;; next events are taken to take as long as the last ones.
  (let* ((start (float-time)) (before start) (last nil))
    (unwind-protect
        (let ((agent-q-events--afterwards (list nil)))
          (while (and (setq last (agent-q-events--take-some))
                      (let* ((now (float-time)) (took (- now before)))
                        (setq before now)
                        (< (+ now took) (+ start (agent-q-events--patience-after last))))))
          (agent-q-events--run-afterwards))
      (agent-q-core-ready))))

(defun agent-q-events-afterwards (function)
  "Call FUNCTION in the current buffer, once, when the events at hand are applied.
That is for what depends on all of them."
  (if (null agent-q-events--afterwards)
      (funcall function)
    (cl-pushnew (cons (current-buffer) function) agent-q-events--afterwards
                :test #'equal)))

(defun agent-q-events--run-afterwards ()
  "Do what was left for after the events at hand."
  (let ((left (nreverse (delq nil agent-q-events--afterwards))))
    (setq agent-q-events--afterwards nil)
    (pcase-dolist (`(,buffer . ,function) left)
      (when (buffer-live-p buffer)
        (with-current-buffer buffer
          (condition-case err
              (funcall function)
            (error (agent-q-module-log-line (error-message-string err)))))))))

(defun agent-q-events--take-some ()
  "Take a few events from the core; return the last one, or nil if there was none."
  (let ((events (agent-q-core-drain agent-q-events--batch-size
                                    agent-q-events--batch-microseconds)))
    (agent-q-events--dispatch-all events)
    (car (last events))))

(defun agent-q-events--patience-after (event)
  "Return the seconds for which the filter takes events; EVENT is the latest."
  ;; A text is the last of the events that come with it.
  (if (memq (plist-get event :type) '(:text :reasoning :call-drafted))
      agent-q-events--patience
    agent-q-events--patience-without-text))

(defconst agent-q-events--only-shown '(:turn-started :call-proposed :call-started :state)
  "The types of events of which requests to an image that follow need nothing.")

(defun agent-q-events--dispatch-all (events)
  "Apply EVENTS in their order, but requests to an image before what is only shown.
So the image works while that is drawn."
  (let ((shown nil))
    (dolist (event events)
      (let ((type (plist-get event :type)))
        (cond ((memq type agent-q-events--only-shown)
               (push event shown)
               (when (eq type :turn-started)
                 (agent-q-events--begin-turn event)))
              ((eq type :image-call) (agent-q-events-dispatch event))
              (t (mapc #'agent-q-events-dispatch (nreverse shown))
                 (setq shown nil)
                 (agent-q-events-dispatch event)))))
    (mapc #'agent-q-events-dispatch (nreverse shown))))

;;;;; Dispatch

(defun agent-q-events-register (session buffer)
  "Send the events of SESSION to BUFFER."
  (puthash session buffer agent-q-events--buffers))

(defun agent-q-events-forget (session)
  "Drop the events of SESSION from now on."
  (remhash session agent-q-events--buffers))

(defun agent-q-events-buffer (session)
  "Return the live buffer that the events of SESSION are sent to, or nil."
  (let ((buffer (gethash session agent-q-events--buffers)))
    (and (buffer-live-p buffer) buffer)))

(defun agent-q-events-dispatch (event)
  "Apply EVENT.  An error in one event never stops the ones after it."
  (dolist (function (alist-get t agent-q-events-subscribers))
    (agent-q-module-log-call 'event function event))
  (condition-case err
      (agent-q-events--apply event)
    ((error quit)
     (agent-q-module-log-line (format "Event %S failed: %s" (plist-get event :type)
                                        (error-message-string err)))
     ;; The core must get an answer, or the turn would hang.
     (when (memq (plist-get event :type) agent-q-events-requests)
       (agent-q-core-resolve (plist-get event :request) "signalled"
                             (error-message-string err) nil nil)))))

(defun agent-q-events-subscribe (type function)
  "Subscribe FUNCTION to the events of TYPE; it is called with each.
TYPE t means all, and `:core-started' is Emacs's own."
  (cl-pushnew function (alist-get type agent-q-events-subscribers)))

(defun agent-q-events-unsubscribe (type function)
  "Subscribe FUNCTION to the events of TYPE no more."
  (setf (alist-get type agent-q-events-subscribers nil t)
        (remq function (alist-get type agent-q-events-subscribers))))

(defun agent-q-events--apply (event)
  "Hand EVENT to whom it concerns."
  (dolist (function (alist-get (plist-get event :type) agent-q-events-subscribers))
    (funcall function event))
  (when (plist-get event :session)
    (agent-q-events--deliver event)))

(defun agent-q-events--deliver (event)
  "Hand EVENT to the chat whose session it is of.
Calls of programs, outside all chats, are of session 0."
  (let ((buffer (agent-q-events-buffer (plist-get event :session))))
    (cond (buffer
           (with-current-buffer buffer
             (funcall agent-q-events-handler event)))
          ((and (memq (plist-get event :type) '(:image-call :emacs-call))
                (not (eql (plist-get event :session) 0)))
           (agent-q-core-resolve (plist-get event :request) "aborted"
                                 "The chat is closed." nil nil)))))

(defun agent-q-events--begin-turn (event)
  "Tell the buffer whose session EVENT is of that its turn begins."
  (let ((buffer (agent-q-events-buffer (plist-get event :session))))
    (when buffer
      (with-current-buffer buffer
        (agent-q-module-log-call 'turn-begins agent-q-events-handler
                                 (list :type :turn-begins :turn (plist-get event :turn)))))))

(defun agent-q-events--fault (event)
  "Report EVENT, about a bug that the core contained."
  (agent-q-module-log-line (plist-get event :message))
  (message "agent-q: an internal error was contained; see *agent-q-log*"))

(defun agent-q-events--trouble (event)
  "Show the warning in EVENT."
  (display-warning 'agent-q (agent-q-text-visible-prose (plist-get event :message))))

(agent-q-events-subscribe :fault #'agent-q-events--fault)
(agent-q-events-subscribe :trouble #'agent-q-events--trouble)

;;;; What tools ask of Emacs Lisp

;; Some tools are answered by Emacs: from what it saw, or through the image in
;; ways that need more than one call.  Here such operations are defined and run;
;; agent-q-execute.el loads the files that have them.

(cl-defstruct (agent-q-events-operation-call
               (:constructor agent-q-events--operation-make-call) (:copier nil))
  "A call of an operation.
REQUEST is the core's number for it.  CONNECTION leads to the image of
the chat, or is nil; OWNER is the buffer of the chat, or nil."
  request connection owner)

(defvar agent-q-events--operation-table (make-hash-table :test #'equal)
  "The function of each operation.")

(defmacro agent-q-events-operation-define (name parameters docstring &rest body)
  "Make NAME an operation that tools can ask for.
PARAMETERS is a list of the variable for the call, an
`agent-q-events-operation-call', and the names of the tool's parameters,
or lists of a variable and such a name.  DOCSTRING says what it does.
The value of BODY is the answer, a string; when it is nil, BODY has
arranged for `agent-q-events-operation-end'.  An error in it is the
reason why there is no answer."
  (declare (indent defun) (doc-string 3) (debug (stringp sexp stringp def-body)))
  (let ((function (intern (concat "agent-q-events--operation-" name)))
        (arguments (make-symbol "arguments")))
    `(progn
       (defun ,function (,(car parameters) ,arguments)
         ,docstring
         (ignore ,(car parameters) ,arguments)
         (let ,(mapcar (lambda (parameter)
                         (pcase-let ((`(,variable ,key)
                                      (if (consp parameter) parameter
                                        (list parameter parameter))))
                           `(,variable (alist-get ',key ,arguments))))
                       (cdr parameters))
           ,@body))
       (puthash ,name #',function agent-q-events--operation-table))))

(defun agent-q-events-operation-of-image (call text)
  "Return TEXT, an answer to CALL, with the name of the image that it is about."
  (let ((note (agent-q-connection-note (agent-q-events-operation-call-connection call))))
    (if note (concat text "\n" note) text)))

(defun agent-q-events-operation-end (call status text &optional note)
  "End CALL with STATUS, TEXT and NOTE, as the core takes them."
  (agent-q-events-resolve (agent-q-events-operation-call-request call) status
                          (and text (substring-no-properties text)) note))

(defun agent-q-events-operation-run (event connection owner)
  "Carry out the request in EVENT, soon.
CONNECTION leads to the image of the chat whose buffer is OWNER."
  ;; Events arrive in a process filter, which has to be short and can't be quit.
  (run-at-time 0 nil #'agent-q-events--operation-perform
               (agent-q-events--operation-make-call
                :request (plist-get event :request)
                :connection (and (agent-q-connection-live-p connection) connection)
                :owner owner)
               (plist-get event :operation)
               (plist-get event :arguments)))

(defun agent-q-events--operation-perform (call operation arguments)
  "Run OPERATION for CALL with ARGUMENTS, JSON text."
  (let ((ended nil))
    (unwind-protect
        (progn
          (with-local-quit
            (condition-case err
                (let ((answer (agent-q-events--operation-value call operation arguments)))
                  (when answer
                    (agent-q-events-operation-end call "done" answer)))
              (error (agent-q-events-operation-end call "signalled"
                                                      (error-message-string err))))
            (setq ended t))
          (unless ended
            (setq quit-flag nil
                  ended t)
            (agent-q-events-operation-end call "aborted" "The user quit it.")))
      ;; A hook of the user's may throw to code that waits for Emacs's timers.
      (unless ended
        (agent-q-events-operation-end call "aborted" "It exited by a throw.")))))

(defun agent-q-events--operation-value (call operation arguments)
  "Return the value of OPERATION, called for CALL with ARGUMENTS, JSON text."
  (let ((function (gethash operation agent-q-events--operation-table)))
    (unless function
      (error "Unknown operation %s of this Emacs; reload agent-q" operation))
    (funcall function call (agent-q-json-alist arguments t))))

(provide 'agent-q-events)
;;; agent-q-events.el ends here
