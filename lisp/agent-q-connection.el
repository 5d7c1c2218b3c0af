;;; agent-q-connection.el --- Connections to Lisp images; calls on them and their time limits  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; SLY's and SLIME's connections under one set of functions, the record of each call that runs on
;; one, its clock, its end, and reading its reply.

;;; Code:

(require 'agent-q-module)
(require 'agent-q-slime)
(require 'agent-q-sly)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; Connections to Lisp images

;; The connections to Lisp images that the user has, be they SLY's or SLIME's,
;; under one set of functions.

(defconst agent-q-connection--clients
  `((sly . ,agent-q-sly-client)
    (slime . ,agent-q-slime-client))
  "The Lisp clients that can carry calls, the preferred one first.")

(cl-defstruct (agent-q-connection
               (:constructor agent-q-connection--make (client process))
               (:copier nil))
  "A client's connection to a Lisp image; compare them with `equal'."
  client process)

(defun agent-q-connection-client-get (connection key)
  "Return what the client of CONNECTION has for KEY."
  (plist-get (alist-get (agent-q-connection-client connection)
                        agent-q-connection--clients)
             key))

(defun agent-q-connection-ask (connection key &rest arguments)
  "Call the function KEY of CONNECTION's client with ARGUMENTS.
Its first argument is the connection's process."
  (apply (agent-q-connection-client-get connection key)
         (agent-q-connection-process connection)
         arguments))

(defun agent-q-connection-connections ()
  "Return the open connections to Lisp images, the user's current one first."
  (cl-loop for (client . functions) in agent-q-connection--clients
           nconc (mapcar (lambda (process)
                           (agent-q-connection--make client process))
                         (funcall (plist-get functions :connections)))))

(defun agent-q-connection-installed ()
  "Return the installed clients, symbols, which are commands that start a Lisp."
  (seq-filter (lambda (client) (or (featurep client) (locate-library (symbol-name client))))
              '(sly slime)))

(defun agent-q-connection-of-process (process)
  "Return the open connection whose process is PROCESS, or nil."
  (or (agent-q-connection-second process)
      (cl-find process (agent-q-connection-connections) :key #'agent-q-connection-process)))

(defun agent-q-connection-default-connection ()
  "Return the connection that the user works with now, or nil."
  (cl-loop for (client . functions) in agent-q-connection--clients
           for process = (car (funcall (plist-get functions :connections)))
           when process return (agent-q-connection--make client process)))

(defun agent-q-connection-live-p (connection)
  "Return non-nil when CONNECTION is a connection that is open."
  (and connection
       (process-live-p (agent-q-connection-process connection))))

(defun agent-q-connection-name (connection)
  "Return the name that CONNECTION has in its client."
  (agent-q-connection-ask connection :connection-name))

(defun agent-q-connection-repl-package (connection)
  "Return the package that the user's REPL on CONNECTION is in, or nil."
  (agent-q-connection-ask connection :repl-package))

(defun agent-q-connection-features (connection)
  "Return the names of the features of CONNECTION's image, in lower case.
CONNECTION may be nil."
  (mapcar (lambda (feature)
            (downcase (replace-regexp-in-string "\\`.*:" "" (format "%s" feature))))
          (and connection (agent-q-connection-ask connection :features))))

(defun agent-q-connection-label (connection)
  "Return the name of CONNECTION, which no other one has, as it is shown.
It has the client in it where another client's has that name too, and stays
within its line, as an image can name itself."
  (let* ((name (agent-q-connection-name connection))
         (same (cl-remove-if-not (lambda (other) (equal name (agent-q-connection-name other)))
                                 (agent-q-connection-connections))))
    (agent-q-text-visible-line
     (if (remove connection same)
         (format "%s through %s" name (agent-q-connection-client-get connection :name))
       name))))

(defun agent-q-connection-note (connection)
  "Return a line that names the image behind CONNECTION, if there are others."
  (and connection
       (or (agent-q-connection-second-p connection)
           (cdr (agent-q-connection-connections)))
       (format "(In image %s.)" (agent-q-connection-label connection))))

(defun agent-q-connection-facts (connection)
  "Return one line on the Lisp image behind CONNECTION."
  (format "%s through %s%s"
          (agent-q-connection-ask connection :implementation)
          (agent-q-connection-client-get connection :name)
          (let ((count (length (agent-q-connection-connections))))
            (if (> count 1)
                (format "; the image %s, one of %d connected"
                        (agent-q-connection-label connection) count)
              ""))))

;;;;; Lisps that the user doesn't see

(defun agent-q-connection-start-options (connection)
  "Return how a Lisp like that of CONNECTION is started, or if nil the user's.
It is a list of the client and of what that client's starting function takes."
  (let ((client (if connection
                    (agent-q-connection-client connection)
                  (car (cl-find-if (lambda (row) (featurep (plist-get (cdr row) :feature)))
                                   agent-q-connection--clients)))))
    (unless client
      (error "Neither SLY nor SLIME is loaded, so no Lisp can be started"))
    (cons client
          (funcall (plist-get (alist-get client agent-q-connection--clients) :start-options)
                   (and connection (agent-q-connection-process connection))))))

(defun agent-q-connection-connect (client port lisp name function)
  "Connect CLIENT to the server at PORT of the process LISP, under NAME.
The user's lists and hooks know nothing of it.  Call FUNCTION with the
connection, once it can be used."
  (funcall (plist-get (alist-get client agent-q-connection--clients) :connect)
           port lisp name
           (lambda (process)
             (let ((connection (agent-q-connection--make client process)))
               (process-put process 'agent-q-connection connection)
               (funcall function connection)))))

(defun agent-q-connection-second (process)
  "Return the connection over PROCESS if its Lisp is one that the user doesn't see."
  (process-get process 'agent-q-connection))

(defun agent-q-connection-second-p (connection)
  "Return non-nil when CONNECTION leads to a Lisp that the user doesn't see.
CONNECTION may be nil."
  (and connection
       (agent-q-connection-second (agent-q-connection-process connection))
       t))

;;;;; What the Lisp printed by itself

(defun agent-q-connection-silence (connection)
  "Return a description of the image behind CONNECTION, which doesn't answer."
  (concat (if (agent-q-connection-ask connection :threads-p)
              ""
            "This Lisp has no threads here: it cannot answer while it is busy.\n")
          (agent-q-connection--output-tail connection)))

(defun agent-q-connection--output-tail (connection)
  "Return the last lines that the Lisp behind CONNECTION printed by itself."
  (let ((buffer (agent-q-connection-ask connection :buffer)))
    (if (buffer-live-p buffer)
        (with-current-buffer buffer
          (save-restriction
            (widen)
            (let ((tail (string-trim
                         (buffer-substring-no-properties
                          (max (point-min) (- (point-max) 600)) (point-max)))))
              (if (string-empty-p tail)
                  ""
                (format "Its last output in %s:\n%s" (buffer-name) tail)))))
      "")))

(defun agent-q-connection-crash (connection)
  "Return a description of the Lisp behind CONNECTION if it has crashed, or nil.
SBCL has its low-level debugger then, and the connection stays open."
  (let ((buffer (agent-q-connection-ask connection :buffer)))
    (when (and (buffer-live-p buffer)
               (with-current-buffer buffer
                 (save-restriction
                   (widen)
                   (string-match-p "\nldb> *\\'"
                                   (buffer-substring-no-properties
                                    (max (point-min) (- (point-max) 10)) (point-max))))))
      (format "This Lisp has crashed and no longer answers: kill %s, and start another with M-x %s.\n%s"
              (buffer-name buffer) (agent-q-connection-client connection)
              (agent-q-connection--output-tail connection)))))

(defun agent-q-connection-last-words (connection)
  "Return the last that the Lisp behind CONNECTION printed before it went."
  (let* ((buffer (agent-q-connection-ask connection :buffer))
         (lisp (and (buffer-live-p buffer) (get-buffer-process buffer))))
    ;; What it wrote as it died can still be on its way, behind the end of the connection.
    (when lisp
      (ignore-errors (accept-process-output lisp 0.05 nil t)))
    (agent-q-connection--output-tail connection)))

;;;; Reading what an image sent

;; A reply comes from a program that anybody may have changed, and `read' knows
;; more than replies have: a list that holds itself, or lists without end.  So a
;; text is looked at before it is read, once from its beginning to its end.

(defconst agent-q-connection--reply-depth 64
  "Deepest nesting of lists in a reply.  Ours are less than ten deep.")

(defun agent-q-connection-reply-p (text)
  "Whether TEXT only has the syntax that the Common Lisp half writes.
These are lists, strings, integers, keywords, nil and t."
  (with-temp-buffer
    (insert text)
    (agent-q-connection--reply-fine-p)))

(defun agent-q-connection--reply-fine-p ()
  "Whether the current buffer only has the syntax of replies."
  (goto-char (point-min))
  (let ((depth 0)
        (fine t))
    (while (and fine
                (progn (skip-chars-forward "a-zA-Z0-9: \n\t-")
                       (not (eobp))))
      (pcase (char-after)
        (?\( (setq depth (1+ depth)
                   fine (<= depth agent-q-connection--reply-depth)))
        (?\) (setq depth (1- depth)
                   fine (<= 0 depth)))
        (?\" (setq fine (agent-q-connection--reply-skip-string)))
        (_ (setq fine nil)))
      (when fine (forward-char)))
    (and fine (zerop depth))))

(defun agent-q-connection--reply-skip-string ()
  "Go from the start of a string to its last quote; return nil without one."
  (forward-char)
  (skip-chars-forward "^\"\\\\")
  (while (and (eq (char-after) ?\\)
              (memq (char-after (1+ (point))) '(?\" ?\\)))
    (forward-char 2)
    (skip-chars-forward "^\"\\\\"))
  (eq (char-after) ?\"))

(defun agent-q-connection-reply-read (text)
  "Return the Lisp data that TEXT, a reply of an image, is.
Signal an error when it is none."
  (unless (and (stringp text) (agent-q-connection-reply-p text))
    (agent-q-connection--reply-refuse))
  (car (read-from-string text)))

(defun agent-q-connection--reply-refuse ()
  "Signal that a reply has another syntax than replies have."
  (error "The image sent a reply that can't be understood"))

;;;;; Places

(defun agent-q-connection-reply-place (data function)
  "Put properties for each :location that is a list into DATA, a reply.
FUNCTION is called with the list and returns them.  Return a list of what it
returned, in the order of the text; DATA is changed."
  (let ((places nil))
    (cl-labels
        ((walk (rest)
           (while (consp rest)
             (let ((after (cdr rest)))
               (if (not (and (eq :location (car rest)) (consp (car-safe after))))
                   (walk (car rest))
                 (push (funcall function (pop after)) places)
                 (setcar rest (caar places))
                 (setcdr rest (append (cdar places) after)))
               (setq rest after)))))
      (walk data))
    (nreverse places)))

;;;; The calls that run in an image

;; What is known of a call that has not ended, its clock, and its end.

(cl-defstruct (agent-q-connection-call (:constructor agent-q-connection-call-make)
                                       (:conc-name agent-q-connection-call-)
                                       (:predicate agent-q-connection-call-p) (:copier nil))
  "A call that has not ended.
ID is its number in the image.  CONTINUATION is known to the client.
STOPPING is nil, or the status with which a reply ends the call.
THREAD is the client's for a thread of the image, t for a new one.
OWNER is whom an error that is parked belongs to.  STARTED is when the
image was asked.  QUESTIONS are those of the image's watch that wait for an
answer, LEFT the seconds that the call has when they are answered, and
ASKER is the core's request that it is made for, unless REQUEST is.
DEADLINE is a function that is called with the call when its time is over.
DUE is when a function is called with it, as `float-time', and the function.
HEARD is non-nil once the image has answered a request to stop the call.
KEY is the core's for the tool call whose work it is, or nil."
  request connection operation arguments seconds callback started
  id continuation due stopping (patience 3) condition again
  (thread t) owner questions left asker deadline heard key)

(defvar agent-q-connection-call-pending (make-hash-table :test #'equal)
  "The calls that have not ended, by request.")

(defvar agent-q-connection--call-next-id nil
  "The next number of a call in an image.
Several Emacsen can be connected to one image, so where each starts
is random.")

(defun agent-q-connection-call-new-id ()
  "Return a number that no other call in any image has."
  (setq agent-q-connection--call-next-id
        (1+ (or agent-q-connection--call-next-id (ash (random (ash 1 28)) 30)))))

(defun agent-q-connection-pending ()
  "Return how many requests have not ended."
  (hash-table-count agent-q-connection-call-pending))

(defun agent-q-connection-call-pending-p (call)
  "Return non-nil when CALL has not ended."
  (eq call (gethash (agent-q-connection-call-request call) agent-q-connection-call-pending)))

(defvar agent-q-connection-call-begun-functions nil
  "Functions called with each call that begins, or is waited for once more.")

(defun agent-q-connection-call-begin (call)
  "Wait for the end of CALL from now on."
  (puthash (agent-q-connection-call-request call) call agent-q-connection-call-pending)
  (when agent-q-connection-call-begun-functions
    (agent-q-module-log-run-hook 'agent-q-connection-call-begun-functions call)))

(defvar agent-q-connection-call-finished-hook nil
  "Functions called when a call has ended and that was taken.")

(defvar agent-q-connection-call-ended-functions nil
  "Functions called with each call that ended, its status and its payload.")

(defvar agent-q-connection--call-ended nil
  "What is known of the call that ended: a property list.
It has the :payload, the :places in it and :because as
`agent-q-connection-call-finish' got them and, once that was read, :read,
a list of its data.")

(defun agent-q-connection--call-ended (payload)
  "Return what is known of the call that ended if PAYLOAD is its, else nil."
  (and payload
       (equal payload (plist-get agent-q-connection--call-ended :payload))
       agent-q-connection--call-ended))

(defun agent-q-connection-call-reply (payload)
  "Return PAYLOAD of a call that ended as Lisp data, or nil if it isn't a reply.
It is read once for all that are told of the end of the call.  It has places
as Emacs knows them."
  (when (string-prefix-p "(:outcome " (or payload ""))
    (let ((ended (or (agent-q-connection--call-ended payload) (list :payload payload))))
      (unless (plist-member ended :read)
        (nconc ended (list :read (ignore-errors (agent-q-connection-reply-read payload)))))
      (plist-get ended :read))))

(defun agent-q-connection-call-added (payload)
  "Return, printed, what is added to PAYLOAD of the call that ended, or nil."
  (let* ((ended (agent-q-connection--call-ended payload))
         (places (plist-get ended :places))
         (because (plist-get ended :because))
         (print-escape-newlines nil)
         (print-length nil)
         (print-level nil)
         (print-circle nil))
    (and (or places because)
         (prin1-to-string (list :places places :because because)))))

(defun agent-q-connection-call-finish (call status payload &rest more)
  "End CALL with STATUS and PAYLOAD, unless it has ended.
MORE is a property list: :because says why the call was stopped, :read is
PAYLOAD as Lisp data with the :places in it, which the core is given, too."
  (when (agent-q-connection-call-pending-p call)
    (remhash (agent-q-connection-call-request call) agent-q-connection-call-pending)
    (agent-q-connection-call-stop-clock call)
    (let ((agent-q-connection--call-ended
           ;; A call that was resumed ends with the reply of what resumed it.
           (or (and (null more) (agent-q-connection--call-ended payload))
               (append (list :payload payload) more))))
      (agent-q-module-log-run-hook 'agent-q-connection-call-ended-functions call status payload)
      ;; This can run in a process filter of the client's: it must return there.
      (condition-case err
          (save-current-buffer
            (funcall (agent-q-connection-call-callback call) status
                     (and payload (substring-no-properties payload))))
        (error (message "agent-q: the end of a call was not taken: %s"
                        (error-message-string err)))))
    (run-hooks 'agent-q-connection-call-finished-hook)))

;; There is one timer for all calls.  Emacs keeps its timers in a list in order:
;; with one for each of a thousand calls it would be busy sorting them.

(defvar agent-q-connection--clock nil
  "The timer of the next call that is due, or nil.")

(defconst agent-q-connection--clock-budget 0.01
  "Seconds after which due calls have to wait, so that keys are read.")

(defun agent-q-connection-call-stop-clock (call)
  "Forget when CALL is due."
  (setf (agent-q-connection-call-due call) nil))

(defun agent-q-connection-call-start-clock (call seconds &optional function)
  "Call FUNCTION with CALL in SECONDS; without one, CALL's deadline is then."
  (let ((time (+ (float-time) seconds)))
    (setf (agent-q-connection-call-due call)
          (cons time (or function (agent-q-connection-call-deadline call))))
    (agent-q-connection--set-clock time)))

(defun agent-q-connection--set-clock (time)
  "See to what is due at TIME, or earlier."
  (unless (and agent-q-connection--clock
               (<= (float-time (timer--time agent-q-connection--clock)) time))
    (when agent-q-connection--clock
      (cancel-timer agent-q-connection--clock))
    (setq agent-q-connection--clock
          (run-at-time (max 0 (- time (float-time))) nil #'agent-q-connection--call-due))))

(defun agent-q-connection--call-due ()
  "Do what is due, for a moment."
  (setq agent-q-connection--clock nil)
  (let* ((now (float-time)) (due nil) (next nil))
    (maphash (lambda (_request call)
               (when-let* ((time (car (agent-q-connection-call-due call))))
                 (cond ((<= time now) (push call due))
                       ((or (null next) (< time next)) (setq next time)))))
             agent-q-connection-call-pending)
    (when next
      (agent-q-connection--set-clock next))
    (setq due (sort due (lambda (one other)
                          (< (car (agent-q-connection-call-due one))
                             (car (agent-q-connection-call-due other))))))
    (unwind-protect
        (while (and due (< (- (float-time) now) agent-q-connection--clock-budget))
          (agent-q-connection--call-now (pop due)))
      (when due
        (agent-q-connection--set-clock (+ (float-time) agent-q-connection--clock-budget))))))

(defun agent-q-connection--call-now (call)
  "Call the function of CALL, which is due."
  (let ((function (cdr (agent-q-connection-call-due call))))
    (agent-q-connection-call-stop-clock call)
    (when function
      (condition-case err
          (funcall function call)
        (error (message "agent-q: the clock of a call failed: %s" (error-message-string err)))))))

(defun agent-q-connection-call-over (process)
  "Return a list of what awaits an answer over PROCESS."
  (cl-loop for call being the hash-values of agent-q-connection-call-pending
           when (eq process (agent-q-connection-process
                             (agent-q-connection-call-connection call)))
           collect call))

;;;; How calls into the image end, in words

;; What the image can't say of the end of a call: why it was stopped and after
;; how long, and why its client gave it up.

(defun agent-q-connection-end-stop-reason (call)
  "Return why and after how long CALL was stopped, nil if it was not."
  (pcase (agent-q-connection-call-stopping call)
    ("timed-out" (format "timed out after %g s" (agent-q-connection-call-seconds call)))
    ("done" (format "cancelled after %.1f s"
                    (- (float-time) (agent-q-connection-call-started call))))))

(defun agent-q-connection-end-abort-reason (condition)
  "Return why the client aborted a call, given its word for the CONDITION."
  ;; The clients print no condition as NIL.
  (if (member condition '(nil "NIL"))
      "its thread ended, either by itself or from outside."
    (format "%s" condition)))

;;;; Our calls and the clients' event logs

;; SLY and SLIME write each message to a log for their own developers, and
;; pretty-print it there, which takes longer than the rest of a call.  Our calls
;; are sent without that; here the replies to them are kept out of it too, and
;; what is sent while a reply is taken.  One that comes together with another
;; message is logged like that.

(defconst agent-q-connection--log-reply
  "\\`\\([[:xdigit:]]\\{6\\}\\)(:return (:ok \"(:outcome "
  "How a reply of ours begins on the wire, with its length in bytes.")

(defconst agent-q-connection--log-head 40
  "Number of bytes that suffice to recognize a reply of ours.")

(defun agent-q-connection-log-without-replies (connection)
  "Keep replies to us over CONNECTION out of its client's log."
  (let ((process (agent-q-connection-process connection))
        (logging (agent-q-connection-client-get connection :logging)))
    (unless (process-get process 'agent-q-image-log)
      (process-put process 'agent-q-image-log t)
      (add-function :around (process-filter process)
                    (lambda (filter process bytes)
                      (if (agent-q-connection--log-reply-p process bytes)
                          (cl-progv (list logging) '(nil)
                            (funcall filter process bytes))
                        (funcall filter process bytes)))))))

(defun agent-q-connection--log-reply-p (process bytes)
  "Whether BYTES, new from PROCESS, complete a reply of ours and nothing else.
The client keeps the beginning of a message in the buffer of PROCESS."
  (with-current-buffer (process-buffer process)
    (let ((head (concat (buffer-substring-no-properties
                         (point-min)
                         (min (point-max) (+ (point-min) agent-q-connection--log-head)))
                        (substring bytes 0 (min (length bytes) agent-q-connection--log-head)))))
      (and (string-match agent-q-connection--log-reply head)
           (= (+ (buffer-size) (length bytes))
              (+ 6 (string-to-number (match-string 1 head) 16)))))))

;;;; The names of threads

(defconst agent-q-connection--thread-names-seconds 2
  "Seconds that an image may take to name its threads.")

(defun agent-q-connection-thread-names (connection threads function)
  "Call FUNCTION with the names of THREADS behind CONNECTION, soon.
THREADS are numbers of the client's; the names come as pairs of number
and name, without those that are not known.  It takes nothing of the
Common Lisp half: the user may have asked for none of it yet."
  (let ((client (agent-q-connection-client-get connection :wire))
        (timer nil)
        (waiting t))
    (cl-flet ((end (names)
                (when waiting
                  (setq waiting nil)
                  (cancel-timer timer)
                  (funcall function names))))
      ;; An image that hears nothing must not keep an answer back.
      (setq timer (run-at-time agent-q-connection--thread-names-seconds nil
                               (lambda () (end nil))))
      (if (not (and threads (agent-q-connection-ask connection :threads-p)))
          (end nil)
        (agent-q-connection-ask
         connection :rex (agent-q-connection--thread-names-form client threads) t
         (lambda (result)
           (end (pcase result
                  (`(:ok ,(and names (pred listp)))
                   (cl-loop for thread in threads
                            for name in names
                            when name
                            collect (cons thread (substring-no-properties name))))))))))))

(defun agent-q-connection--thread-names-form (client threads)
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

(provide 'agent-q-connection)
;;; agent-q-connection.el ends here
