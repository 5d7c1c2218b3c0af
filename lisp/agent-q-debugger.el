;;; agent-q-debugger.el --- Tools for errors whose stack is alive  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The debuggers of an image, the user's open ones and our parked errors: the
;; tools that look into them and leave them, and the commands about them.

;;; Code:

(require 'agent-q)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-image-history)
(require 'agent-q-text)

(defconst agent-q-debugger--user-modes
  '((sly sly-db-mode sly-buffer-connection sly-current-thread
         sly-db-condition sly-db-restarts sly-db-level)
    (slime sldb-mode slime-buffer-connection slime-current-thread
           sldb-condition sldb-restarts sldb-level))
  "Of each client: the mode of its debugger, and its variables there.
They hold the connection, thread, condition, restarts and level.")

(defun agent-q-debugger--user-buffers (process)
  "Return the buffers of debuggers that the user has open over PROCESS."
  (cl-remove-if-not
   (lambda (buffer)
     (cl-some (lambda (client)
                (and (eq (nth 1 client) (buffer-local-value 'major-mode buffer))
                     (eq process (buffer-local-value (nth 2 client) buffer))))
              agent-q-debugger--user-modes))
   (buffer-list)))

(defun agent-q-debugger-local (buffer position)
  "Return the value in BUFFER of the variable at POSITION in the table of modes."
  (let ((client (cl-find (buffer-local-value 'major-mode buffer)
                         agent-q-debugger--user-modes :key #'cadr)))
    (and client (buffer-local-value (nth position client) buffer))))

(defun agent-q-debugger-buffer-name (buffer)
  "Return the name that tools have for the user's debugger in BUFFER."
  (format "u%s" (agent-q-debugger-local buffer 3)))

(defun agent-q-debugger-name-of-thread (process thread)
  "Return the name of the debugger that the user has open in THREAD of PROCESS."
  (let ((buffer (cl-find thread (agent-q-debugger--user-buffers process)
                         :key (lambda (buffer) (agent-q-debugger-local buffer 3)))))
    (and buffer (agent-q-debugger-buffer-name buffer))))

;;;; Those that opened meanwhile

(defconst agent-q-debugger--telling
  '("eval-form" "compare-forms" "profile-form" "compile-form" "compile-file" "load-system"
    "run-tests")
  "The operations whose answers tell of debuggers that opened.")

(defun agent-q-debugger-opened (connection operation owner)
  "Return lines on debuggers that opened in the image behind CONNECTION.
Threads have opened them since OWNER was told last; OPERATION is what it asked
for."
  (and (member operation agent-q-debugger--telling)
       (mapcar (lambda (words)
                 (format "(A debugger opened: %s. get_last_error and debugger_frames show more.)"
                         words))
               (nreverse
                (delq nil (mapcar (lambda (error) (agent-q-debugger--opened error owner))
                                  (agent-q-image-history-errors-of-threads
                                   (agent-q-connection-process connection))))))))

(defun agent-q-debugger--opened (error owner)
  "Return the words on ERROR, of a thread, that OWNER wasn't told, or nil."
  (let ((name (agent-q-debugger-name-of-thread (agent-q-image-history-error-process error)
                                               (agent-q-image-history-error-thread error))))
    (when (and name (not (memq owner (agent-q-image-history-error-told error))))
      (push owner (agent-q-image-history-error-told error))
      (agent-q-text-visible-line
       (format "%s, %s: %s%s" name (agent-q-image-history-error-type error)
               (agent-q-image-history-error-message error)
               (if (agent-q-image-history-error-thread-name error)
                   (concat ", in the thread " (agent-q-image-history-error-thread-name error))
                 ""))
       300))))

;;;; Names

(defun agent-q-debugger--process (call)
  "Return the process of the image that CALL is about, or signal an error."
  (let ((connection (agent-q-events-operation-call-connection call)))
    (unless connection
      (error "No Lisp image is connected; start one with M-x sly or M-x slime"))
    (agent-q-connection-process connection)))

(defun agent-q-debugger--find (call name)
  "Return the debugger that CALL names NAME: a parked error or a buffer."
  (let ((all (agent-q-debugger--all call)))
    (or (cl-find name all :key #'agent-q-debugger--name :test #'equal)
        (error "%s"
               (agent-q-events-operation-of-image
                call (if all
                         (format "No debugger %s is open.\n%s" name (agent-q-debugger--list call))
                       (format "No debugger %s is open in this image, nor any other." name)))))))

(defun agent-q-debugger--connection (call found)
  "Return the connection to the image of FOUND, which CALL is about."
  (if (bufferp found)
      (agent-q-events-operation-call-connection call)
    (agent-q-connection-call-connection (agent-q-image-parked-call found))))

(defun agent-q-debugger--thread (found)
  "Return the thread of FOUND, a parked error or a buffer."
  (or (agent-q-debugger--waiting-in found)
      (error "It is running, not stopped in the debugger")))

(defun agent-q-debugger--all (call)
  "Return all that is open for CALL: parked errors and buffers.
Those of its chat's second Lisps are among them."
  (let ((process (agent-q-debugger--process call)))
    (append (agent-q-image-park-list process)
            (cl-remove-if-not (lambda (parked)
                                (agent-q-connection-second-p (agent-q-debugger--connection call parked)))
                              (agent-q-image-park-owned (agent-q-events-operation-call-owner call)))
            (agent-q-debugger--user-buffers process))))

(defun agent-q-debugger--name (found)
  "Return the name that tools have for FOUND, a parked error or a buffer."
  (if (bufferp found)
      (agent-q-debugger-buffer-name found)
    (agent-q-image-parked-name found)))

(defun agent-q-debugger--waiting-in (found)
  "Return the thread that FOUND, a parked error or a buffer, is in, or nil."
  (if (bufferp found)
      (agent-q-debugger-local found 3)
    (agent-q-image-parked-thread found)))

(defun agent-q-debugger--list (call &optional names)
  "Return a text on all debuggers that are open for CALL.
NAMES has the names of their threads, by the client's number."
  (let ((lines (mapcar
                (lambda (found)
                  (if (bufferp found)
                      (agent-q-debugger--buffer-line
                       found (cdr (assoc (agent-q-debugger--waiting-in found) names)))
                    (agent-q-debugger--parked-line found)))
                (agent-q-debugger--all call))))
    (if lines
        (concat "Open:\n" (string-join lines "\n"))
      "No debugger is open in this image.")))

(defun agent-q-debugger--parked-line (parked)
  "Return a text on PARKED."
  (format "%s, yours%s%s: %s\n  in %s"
          (agent-q-image-parked-name parked)
          (if (agent-q-image-parked-thread parked) "" " (running after a restart)")
          (let ((connection (agent-q-connection-call-connection (agent-q-image-parked-call parked))))
            (if (agent-q-connection-second-p connection)
                (format ", in image %s" (agent-q-connection-name connection))
              ""))
          (agent-q-debugger-condition-text
           (nth 3 (agent-q-image-parked-event parked)))
          (truncate-string-to-width
           (string-trim (or (agent-q-image-park-form parked) "")) 100 nil nil "...")))

(defun agent-q-debugger--buffer-line (buffer thread)
  "Return a text on the user's debugger in BUFFER.
THREAD is the name of its thread, or nil."
  (format "%s, the user's, level %s: %s%s"
          (agent-q-debugger-buffer-name buffer)
          (agent-q-debugger-local buffer 6)
          (agent-q-debugger-condition-text (agent-q-debugger-local buffer 4))
          (if thread (format "\n  in the thread %s" thread) "")))

(defun agent-q-debugger-condition-text (condition)
  "Return CONDITION, a list of a message and a type line, as a text."
  (format "%s: %s" (agent-q-image-history-type (nth 1 condition))
          (string-trim (substring-no-properties (or (nth 0 condition) "")))))

;;;; Operations

(agent-q-events-operation-define "list-debuggers" (call)
  "List the open debuggers."
  (agent-q-debugger--list-all call))

(defun agent-q-debugger--list-all (call)
  "Answer CALL with the debuggers that are open, each with its thread."
  (let ((threads (delq nil (mapcar #'agent-q-debugger--waiting-in
                                   (agent-q-debugger--user-buffers (agent-q-debugger--process call))))))
    (agent-q-connection-thread-names
     (agent-q-events-operation-call-connection call) threads
     (lambda (names)
       (agent-q-events-operation-end
        call "done"
        (agent-q-events-operation-of-image call (agent-q-debugger--list call names)))))
    nil))

(defun agent-q-debugger--finish (call found status payload)
  "End CALL, about FOUND, with the STATUS and PAYLOAD of a call in the image."
  (agent-q-events-operation-end
   call status payload (agent-q-connection-note (agent-q-debugger--connection call found))))

(defun agent-q-debugger--call (call found operation arguments seconds)
  "Do OPERATION with ARGUMENTS in the debugger FOUND, for SECONDS.
Its reply is the answer to CALL."
  (agent-q-image-call
   (agent-q-debugger--connection call found)
   (agent-q-events-operation-call-request call)
   operation arguments seconds
   (lambda (status payload)
     (agent-q-debugger--finish call found status payload))
   (agent-q-events-operation-call-owner call) (agent-q-debugger--thread found))
  nil)

(agent-q-events-operation-define "debugger-frames" (call (name debugger) limit locals)
  "List at most LIMIT frames of the debugger NAME, with LOCALS.
Without NAME it is the only one; of none or several all are listed."
  (let* ((all (and (null name) (agent-q-debugger--all call)))
         (found (cond (name (agent-q-debugger--find call name))
                      ((null (cdr all)) (car all)))))
    (if (null found)
        (agent-q-debugger--list-all call)
      (agent-q-debugger--call call found "debugger-frames"
                              (list :debugger (agent-q-debugger--name found)
                                    :limit limit :locals locals
                                    ;; It runs printers of the program.
                                    :watch '(:look t))
                              15))))

(defun agent-q-debugger--read (watch)
  "Return the property list that WATCH is the text of, nil for none."
  (and watch (car (read-from-string watch))))

(agent-q-events-operation-define "eval-in-frame"
    (call (name debugger) form frame package assessed watch)
  "Evaluate FORM, read in PACKAGE, in FRAME of the debugger NAME.
ASSESSED is how many of its forms were assessed, nil when all were approved.
WATCH says, printed, what the image asks about during the call."
  (agent-q-debugger--call call (agent-q-debugger--find call name)
                          "eval-in-frame"
                          (list :form form :frame frame :package package
                                :assessed assessed
                                :watch (agent-q-debugger--read watch))
                          agent-q-eval-timeout))

(agent-q-events-operation-define "invoke-restart"
    (call (name debugger) restart values package assessed watch)
  "Leave the debugger NAME by RESTART with the values of the forms in VALUES.
They are read in PACKAGE.  ASSESSED and WATCH are as in eval-in-frame."
  (agent-q-debugger--leave call name "invoke-restart"
                           (list :restart restart :values values :package package
                                 :assessed assessed
                                 :watch (agent-q-debugger--read watch))))

(agent-q-events-operation-define "restart-frame" (call (name debugger) frame watch)
  "Leave the debugger NAME by calling FRAME again.
WATCH is as in eval-in-frame."
  (agent-q-debugger--leave call name "restart-frame"
                           (list :frame frame :watch (agent-q-debugger--read watch))))

(agent-q-events-operation-define "return-from-frame"
    (call (name debugger) frame values package assessed watch)
  "Leave the debugger NAME by FRAME, which returns what the forms in VALUES give.
They are read in PACKAGE.  ASSESSED and WATCH are as in eval-in-frame."
  (agent-q-debugger--leave call name "return-from-frame"
                           (list :frame frame :values values :package package
                                 :assessed assessed
                                 :watch (agent-q-debugger--read watch))))

(defun agent-q-debugger--leave (call name operation arguments)
  "Leave the debugger NAME by OPERATION with ARGUMENTS.
The result of the evaluation then answers CALL."
  (let* ((found (agent-q-debugger--find call name))
         (thread (agent-q-debugger--thread found))
         (answer (lambda (status payload)
                   ;; The client aborts what is left.
                   (if (equal status "aborted")
                       (agent-q-debugger--finish
                        call found "done" (format "(:outcome :returned :value (:left %s))"
                                            (if (bufferp found) ":user" "t")))
                     (agent-q-debugger--finish call found status payload)))))
    (if (bufferp found)
        (agent-q-image-call (agent-q-events-operation-call-connection call)
                            (agent-q-events-operation-call-request call)
                            operation arguments agent-q-eval-timeout answer
                            (agent-q-events-operation-call-owner call) thread)
      (agent-q-image-resume found (agent-q-events-operation-call-request call)
                            operation arguments agent-q-eval-timeout answer))
    nil))

;;;; Commands

(declare-function sldb-invoke-restart "ext:slime" (&optional number))
(declare-function sly-db-invoke-restart "ext:sly" (restart))

;;;###autoload
(defun agent-q-debugger-hand-over (&optional name)
  "Open your own debugger on an error that this chat has parked.
Without one, it is the chat's last failed evaluation, whose stack is kept for
some minutes.  In programs, NAME chooses a parked one."
  (interactive)
  (let* ((chat (current-buffer))
         (buffers (buffer-list))
         (mine (agent-q-image-park-owned chat))
         (names (mapcar (lambda (parked)
                          (cons (format "%s: %s" (agent-q-image-parked-name parked)
                                        (agent-q-debugger-condition-text
                                         (nth 3 (agent-q-image-parked-event parked))))
                                parked))
                        mine)))
    (agent-q-debugger--await)
    (cond (name (agent-q-image-hand-over
                 (or (cl-find name mine :key #'agent-q-image-parked-name :test #'equal)
                     (user-error "The error %s isn't held any more" name))))
          ((null mine) (agent-q-image-debug-kept))
          (t (agent-q-image-hand-over
              (if (null (cdr mine)) (car mine)
                (cdr (assoc (completing-read "Error: " names nil t) names))))))
    ;; SLY shows its debugger without going there.
    (when-let* ((buffer (agent-q-debugger--new-buffer buffers))
                (window (get-buffer-window buffer)))
      (select-window window))
    ;; The debugger's buffer may be current now.
    (with-current-buffer chat
      (agent-q-chat-view-header-update))))

(defun agent-q-debugger-open-kept (call)
  "Open your own debugger on CALL, which failed and whose stack is kept."
  (agent-q-debugger--await)
  (agent-q-image-debug-kept call))

(defconst agent-q-debugger--hooks '(sldb-hook sly-db-hook)
  "The hooks that run in the buffer of a debugger as it opens.")

(defun agent-q-debugger--await ()
  "Show the first frames in the debugger that opens next."
  (dolist (hook agent-q-debugger--hooks)
    (add-hook hook #'agent-q-debugger--opens)))

(defun agent-q-debugger--opens ()
  "Show the first frames of the debugger in this buffer, once it has a window."
  (dolist (hook agent-q-debugger--hooks)
    (remove-hook hook #'agent-q-debugger--opens))
  (run-at-time 0 nil #'agent-q-debugger--show-frames (current-buffer)))

(defun agent-q-debugger--show-frames (buffer)
  "Give the window of BUFFER, a debugger, room for three frames.
It begins with the condition."
  (when-let ((window (get-buffer-window buffer t)))
    (with-selected-window window
      (save-excursion
        (goto-char (point-min))
        (when (search-forward "\nBacktrace:\n" nil t)
          (forward-line 3)
          (let ((more (- (count-screen-lines (point-min) (point) t window)
                         (window-body-height window))))
            (when (> more 0)
              (window-resize window (min more (window-max-delta window)))))))
      (set-window-start window (point-min) t))))

(defun agent-q-debugger--new-buffer (buffers)
  "Return the buffer of a debugger that is none of BUFFERS, or nil."
  (cl-find-if (lambda (buffer)
                (and (not (memq buffer buffers))
                     (agent-q-debugger-local buffer 3)))
              (buffer-list)))

(defun agent-q-debugger-take-restart (name number)
  "Leave the error NAME of this chat by its restart of NUMBER.
Your own debugger opens for that, and asks for what the restart needs."
  (let ((buffers (buffer-list)))
    (agent-q-debugger-hand-over name)
    (when-let ((buffer (agent-q-debugger--new-buffer buffers)))
      (with-current-buffer buffer
        (message "Leaving the error %s by its restart %d" name number)
        (funcall (if (eq major-mode 'sldb-mode) #'sldb-invoke-restart #'sly-db-invoke-restart)
                 number)))))

(provide 'agent-q-debugger)
;;; agent-q-debugger.el ends here
