;;; agent-q-image-history.el --- What happened in the Lisp images  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Evaluations, errors and compilations of the user and of the agent, put together from what passes
;; between Emacs and the images; and the agent's own, shown in the user's REPL.

;;; Code:

(require 'agent-q)
(require 'agent-q-connection)
(require 'agent-q-image)
(require 'agent-q-image-source)
(require 'agent-q-module)
(require 'agent-q-session)
(require 'cl-lib)
(require 'lisp-mode)
(require 'subr-x)

;;;; What happened in the Lisp images

;; Puts together what passes by on the connections of SLY and SLIME, and what
;; agent-q's own calls bring: evaluations with their values, errors with their
;; stacks, compilations with their notes.  What the user does, the recorder below
;; reports; our own calls are noted whether or not somebody watches the user.

(defconst agent-q-image-history--kept '(:evaluations 100 :errors 20 :compilations 10)
  "Most entries of each kind that are kept.")

(defconst agent-q-image-history--text-limit 2000
  "Most characters of a text that are kept.")

(cl-defstruct (agent-q-image-history-evaluation (:copier nil))
  "A form that was evaluated.
BY is `user' or `agent'; HOW is `repl', `command' or an operation.
VALUES are texts; STATE is `running', `returned' or `aborted', and in
this case CONDITION may say why.  KEY is what its end is known by.
OWNER is as in `agent-q-image-history-owner-name'."
  process by how package form values output state condition key owner)

(cl-defstruct (agent-q-image-history-error (:copier nil))
  "An error that was not handled.
BY and HOW are as of an evaluation; HOW is `thread' when a thread of the
program's own met it.  FORM is what was evaluated, RESTARTS are pairs of
name and description, FRAMES texts.  THREAD is the one that the user
debugs, THREAD-NAME its name, once it is known.  TOLD has the owners of
the calls whose answers told of it.  OWNER is as of an evaluation."
  process by how thread thread-name message type form restarts frames time told owner)

(cl-defstruct (agent-q-image-history-compilation (:copier nil))
  "Something that was compiled: WHAT, a form's text or a file's name.
STATE is `running', `succeeded' or `failed'.  NOTES are property lists
with :severity, :message and :place; or `image' where the image keeps
them, as there can be thousands."
  process by what state notes time key)

(defvar agent-q-image-history--evaluations nil "The evaluations, latest first.")
(defvar agent-q-image-history--errors nil "The errors, latest first.")
(defvar agent-q-image-history--compilations nil "The compilations, latest first.")

(defvar agent-q-image-history--packages nil
  "The package of each REPL of SLY: ((PROCESS . CHANNEL) . NAME) each.")

(defun agent-q-image-history-forget (&optional by)
  "Forget everything, or what was done BY `user' or `agent'."
  (cl-flet ((kept (objects accessor)
              (and by (cl-remove by objects :key accessor))))
    (setq agent-q-image-history--evaluations
          (kept agent-q-image-history--evaluations #'agent-q-image-history-evaluation-by)
          agent-q-image-history--errors
          (kept agent-q-image-history--errors #'agent-q-image-history-error-by)
          agent-q-image-history--compilations
          (kept agent-q-image-history--compilations #'agent-q-image-history-compilation-by)))
  (unless (eq by 'agent)
    (setq agent-q-image-history--packages nil)))

(defmacro agent-q-image-history--add (object kind list)
  "Add OBJECT to LIST, of which a number of its KIND are kept."
  `(progn
     (push ,object ,list)
     (let ((rest (nthcdr (1- (plist-get agent-q-image-history--kept ,kind)) ,list)))
       (when rest (setcdr rest nil)))))

(defun agent-q-image-history--text (text &optional limit)
  "Return TEXT, a string or nil, without properties and within LIMIT."
  (if (not (stringp text))
      ""
    (let ((limit (or limit agent-q-image-history--text-limit)))
      (substring-no-properties text 0 (min (length text) limit)))))

;;;;; Asking

(defun agent-q-image-history--of (objects process accessor)
  "Return those of OBJECTS whose ACCESSOR gives PROCESS; all when it is nil."
  (if process
      (cl-remove-if-not (lambda (object) (eq process (funcall accessor object)))
                        objects)
    objects))

(defun agent-q-image-history-evaluations (process)
  "Return what was evaluated over PROCESS, latest first."
  (agent-q-image-history--of agent-q-image-history--evaluations process
                             #'agent-q-image-history-evaluation-process))

(defun agent-q-image-history-last-error (process)
  "Return the last error over PROCESS, or nil."
  (car (agent-q-image-history--of agent-q-image-history--errors process
                                  #'agent-q-image-history-error-process)))

(defun agent-q-image-history-errors-of-threads (process)
  "Return the errors that threads of their own met over PROCESS, latest first."
  (cl-remove 'thread (agent-q-image-history--of agent-q-image-history--errors process
                                                #'agent-q-image-history-error-process)
             :key #'agent-q-image-history-error-how :test-not #'eq))

(defun agent-q-image-history-error-in (process thread)
  "Return the last error over PROCESS that the user debugs in THREAD, or nil."
  (cl-find-if (lambda (error)
                (and (eq process (agent-q-image-history-error-process error))
                     (eql thread (agent-q-image-history-error-thread error))))
              agent-q-image-history--errors))

(defun agent-q-image-history-last-compilation (process)
  "Return the last compilation over PROCESS that is over, or nil."
  (cl-find 'running
           (agent-q-image-history--of agent-q-image-history--compilations process
                                      #'agent-q-image-history-compilation-process)
           :key #'agent-q-image-history-compilation-state :test-not #'eq))

;;;;; What the user does

(defun agent-q-image-history-see (client process event)
  "Take note of EVENT on PROCESS, a connection of CLIENT."
  (pcase event
    (`(:emacs-rex ,form ,package ,_ ,continuation . ,_)
     (agent-q-image-history--requested process form package continuation))
    (`(:return ,result ,id)
     (agent-q-image-history--returned process result (agent-q-image-history--continuation client process id)))
    (`(:emacs-channel-send ,channel (:process ,text))
     (agent-q-image-history--begin process 'repl text
                                   (cdr (assoc (cons process channel) agent-q-image-history--packages))
                                   (list 'channel channel)))
    (`(:channel-send ,channel (,kind . ,arguments))
     (agent-q-image-history--channel process channel kind arguments))
    (`(:write-string ,text . ,rest)
     (agent-q-image-history--written process text (car rest)))
    (`(:debug . ,_) (agent-q-image-history--see-debug process event))))

(defvar agent-q-image-history--debug-event nil
  "The last event of a debugger that was seen: there are two ways for one here.")

(defun agent-q-image-history--see-debug (process event)
  "Take note of EVENT, by which the user's debugger opens on PROCESS."
  (pcase event
    ((guard (eq event agent-q-image-history--debug-event)))
    (`(:debug ,thread ,_ ,condition ,restarts ,frames . ,rest)
     (setq agent-q-image-history--debug-event event)
     (unless (agent-q-image-debugged-p process (car rest))
       (agent-q-image-history--debug (agent-q-image-history--client process) process thread condition
                                     restarts frames (car rest))))))

(defun agent-q-image-history--client (process)
  "Return the client whose connection PROCESS is."
  (let ((connection (agent-q-connection-of-process process)))
    (and connection (agent-q-connection-client connection))))

(defun agent-q-image-history--continuation (client process id)
  "Return the continuation that CLIENT has for ID on PROCESS."
  (let ((function (intern (format "%s-rex-continuations" client))))
    (and (fboundp function)
         (cdr (assq id (funcall function process))))))

(defun agent-q-image-history--begin (process how text package key)
  "Note an evaluation by the user, by HOW, of TEXT in PACKAGE over PROCESS.
Its end is known by KEY."
  (agent-q-image-history--add
   (make-agent-q-image-history-evaluation
    :process process :by 'user :how how :package package
    :form (string-trim (agent-q-image-history--text text))
    :state 'running :key key)
   :evaluations agent-q-image-history--evaluations))

(defun agent-q-image-history--requested (process form package continuation)
  "Note that the user asks for FORM, a call, in PACKAGE over PROCESS."
  (when (and (consp form) (symbolp (car form)))
    (let ((name (replace-regexp-in-string "\\`[^:]*:+" "" (symbol-name (car form))))
          (text (cl-find-if #'stringp (cdr form))))
      (when text
        (pcase name
          ("listener-eval"
           (agent-q-image-history--begin process 'repl text package continuation))
          ((or "interactive-eval" "interactive-eval-region"
               "eval-and-grab-output" "pprint-eval" "re-evaluate-defvar")
           (agent-q-image-history--begin process 'command text package continuation))
          ((or "compile-string-for-emacs" "compile-file-for-emacs"
               "compile-file-if-needed")
           (agent-q-image-history--add
            (make-agent-q-image-history-compilation
             :process process :by 'user :what (agent-q-image-history--text text)
             :state 'running :time (current-time) :key continuation)
            :compilations agent-q-image-history--compilations)))))))

(defun agent-q-image-history--running (process &optional key)
  "Return the running evaluation with KEY over PROCESS, or nil.
Without KEY it is the latest one at a REPL."
  (cl-find-if (lambda (evaluation)
                (and (eq process (agent-q-image-history-evaluation-process evaluation))
                     (eq 'running (agent-q-image-history-evaluation-state evaluation))
                     (if key
                         (agent-q-image-history--same-p
                          key (agent-q-image-history-evaluation-key evaluation))
                       (eq 'repl (agent-q-image-history-evaluation-how evaluation)))))
              agent-q-image-history--evaluations))

(defun agent-q-image-history--same-p (key other)
  "Return non-nil when KEY and OTHER stand for the same evaluation.
Closures with the same code are `equal', so they must be the same one."
  (or (eq key other)
      (and (eq 'channel (car-safe key)) (equal key other))))

(defun agent-q-image-history--end (evaluation state &optional values condition)
  "Note that EVALUATION came to STATE with VALUES or CONDITION."
  (setf (agent-q-image-history-evaluation-state evaluation) state
        (agent-q-image-history-evaluation-key evaluation) nil
        (agent-q-image-history-evaluation-values evaluation)
        (append (agent-q-image-history-evaluation-values evaluation)
                (mapcar #'agent-q-image-history--text values))
        (agent-q-image-history-evaluation-condition evaluation)
        (and condition (agent-q-image-history--text condition))))

(defun agent-q-image-history--returned (process result continuation)
  "Note RESULT of the request of CONTINUATION over PROCESS."
  (when continuation
    (let ((evaluation (agent-q-image-history--running process continuation))
          (compilation (cl-find continuation agent-q-image-history--compilations
                                :key #'agent-q-image-history-compilation-key)))
      (pcase result
        ((guard (not (or evaluation compilation))))
        (`(:ok (:compilation-result ,notes ,success . ,_))
         (when compilation
           (agent-q-image-history--compiled compilation notes success)))
        (`(:ok ,value)
         (when evaluation
           (agent-q-image-history--end evaluation 'returned
                                       (pcase value
                                         ((pred stringp)
                                          (list (string-remove-prefix "=> " value)))
                                         (`(,_ ,(and values (pred stringp)))
                                          (list values))))))
        (`(:abort . ,rest)
         (when compilation
           (setf (agent-q-image-history-compilation-state compilation) 'failed))
         (when evaluation
           (agent-q-image-history--end evaluation 'aborted nil
                                       (and (stringp (car rest)) (car rest)))))))))

(defun agent-q-image-history--channel (process channel kind arguments)
  "Note the message KIND with ARGUMENTS from CHANNEL of PROCESS."
  (let ((evaluation (agent-q-image-history--running process (list 'channel channel))))
    (pcase kind
      (:prompt
       (setf (alist-get (cons process channel) agent-q-image-history--packages
                        nil nil #'equal)
             (car arguments)))
      ((guard (null evaluation)))
      (:write-values
       (agent-q-image-history--end evaluation 'returned
                                   (mapcar #'car-safe (car arguments))))
      (:evaluation-aborted
       (agent-q-image-history--end evaluation 'aborted nil (car arguments)))
      (:write-string
       (agent-q-image-history--output evaluation (car arguments))))))

(defun agent-q-image-history--written (process text target)
  "Note that TEXT was written to TARGET over PROCESS."
  (let ((evaluation (agent-q-image-history--running process)))
    (when evaluation
      (pcase target
        ('nil (agent-q-image-history--output evaluation text))
        (:repl-result
         (let ((value (string-trim (agent-q-image-history--text text))))
           (unless (string-empty-p value)
             (setf (agent-q-image-history-evaluation-values evaluation)
                   (append (agent-q-image-history-evaluation-values evaluation)
                           (list value))))))))))

(defun agent-q-image-history--output (evaluation text)
  "Note that EVALUATION printed TEXT."
  (setf (agent-q-image-history-evaluation-output evaluation)
        (agent-q-image-history--text
         (concat (agent-q-image-history-evaluation-output evaluation) text))))

(defun agent-q-image-history--debug (client process thread condition restarts frames requests)
  "Note that the debugger of CLIENT was entered in THREAD of PROCESS.
CONDITION, RESTARTS and FRAMES are as the client got them; REQUESTS
are the ids of what was running there."
  (let* ((evaluation
          (or (cl-some (lambda (id)
                         (let ((key (agent-q-image-history--continuation client process id)))
                           (and key (agent-q-image-history--running process key))))
                       requests)
              (and (null requests) (agent-q-image-history--running process))))
         (compilation
          (cl-some (lambda (id)
                     (let ((key (agent-q-image-history--continuation client process id)))
                       (and key (cl-find key agent-q-image-history--compilations
                                         :key #'agent-q-image-history-compilation-key))))
                   requests)))
    (agent-q-image-history--add
     (make-agent-q-image-history-error
      :process process :by 'user :thread thread :time (current-time)
      :how (cond (evaluation (agent-q-image-history-evaluation-how evaluation))
                 (requests 'command)
                 (t 'thread))
      :message (agent-q-image-history--text (car condition))
      :type (agent-q-image-history-type (cadr condition))
      :form (cond (evaluation (agent-q-image-history-evaluation-form evaluation))
                  (compilation (agent-q-image-history-compilation-what compilation)))
      :restarts (mapcar (lambda (restart) (mapcar #'agent-q-image-history--text restart))
                        restarts)
      :frames (mapcar (lambda (frame) (agent-q-image-history--text (cadr frame) 300))
                      frames))
     :errors agent-q-image-history--errors)
    (unless requests
      ;; The client is about to show its debugger; and later the thread may be gone.
      (run-at-time 0 nil #'agent-q-image-history--name-thread (car agent-q-image-history--errors)))))

(defun agent-q-image-history--name-thread (error)
  "Find out the name of the thread that met ERROR.
SLY's REPL asks for nothing by a request, so that only the name shows its
errors from those that happen elsewhere at that time."
  (let ((connection (cl-find (agent-q-image-history-error-process error) (agent-q-connection-connections)
                             :key #'agent-q-connection-process))
        (thread (agent-q-image-history-error-thread error)))
    (when connection
      (agent-q-connection-thread-names
       connection (list thread)
       (lambda (names)
         (let ((name (cdr (assoc thread names))))
           (when name
             (setf (agent-q-image-history-error-thread-name error) name)
             (unless (string-match-p "mrepl\\|\\`repl-thread\\'" name)
               (setf (agent-q-image-history-error-how error) 'thread
                     (agent-q-image-history-error-form error) nil)))))))))

(defun agent-q-image-history-type (line)
  "Return the type in LINE, such as \"[Condition of type ERROR]\"."
  (let ((text (string-trim (agent-q-image-history--text line))))
    (if (string-match "\\`\\[?Condition of type \\(.*?\\)\\]?\\'" text)
        (match-string 1 text)
      text)))

;;;;; Compilers' notes

(defun agent-q-image-history--compiled (compilation notes success)
  "Note that COMPILATION ended with NOTES and SUCCESS."
  (setf (agent-q-image-history-compilation-state compilation) (if success 'succeeded 'failed)
        (agent-q-image-history-compilation-key compilation) nil
        (agent-q-image-history-compilation-notes compilation)
        (mapcar (lambda (note)
                  (list :severity (substring (symbol-name (plist-get note :severity)) 1)
                        :message (agent-q-image-history--text (plist-get note :message))
                        :place (agent-q-image-history--place (plist-get note :location))))
                (seq-take notes 100))))

(defun agent-q-image-history--place (location)
  "Return LOCATION, as compilers' notes have it, as text, or nil."
  (pcase location
    (`(:location ,where ,position . ,_)
     (let* ((name (cadr where))
            (file (and (eq (car where) :file) (stringp name)
                       (agent-q-image-source-file-local name)))
            (buffer (pcase where
                      (`(,(or :buffer :buffer-and-file) . ,_) (get-buffer name))
                      ((guard file) (let ((file-name-handler-alist nil))
                                      (find-buffer-visiting file)))))
            (offset (pcase position
                      (`(:position ,start) start)
                      (`(:offset ,start ,more) (+ start more)))))
       (cond ((and buffer offset)
              (with-current-buffer buffer
                (format "%s:%d" (or (buffer-file-name) name)
                        (line-number-at-pos (min offset (point-max)) t))))
             ((and offset file (not (agent-q-image-source-file-objection file))
                   (with-temp-buffer
                     (and (agent-q-image-source-file-insert file)
                          (format "%s:%d" name
                                  (line-number-at-pos (min offset (point-max))))))))
             ((stringp name) name))))))

;;;;; What the agent does

(defvar agent-q-image-history--caller nil
  "The buffer whose call has just ended, while that is noted.")

(defun agent-q-image-history--owner ()
  "Return whose call has just ended: (BUFFER . NAME), or nil.
The buffer may be killed later."
  (let ((owner agent-q-image-history--caller))
    (and (buffer-live-p owner) (cons owner (buffer-name owner)))))

(defun agent-q-image-history-owner-name (owner reader)
  "Return how READER, the buffer of a chat or nil, is told of OWNER.
That is (BUFFER . NAME) of the chat or the other agent that did something,
or nil where that is not known."
  (if (and owner reader (not (eq reader (car owner))))
      (concat "another agent, in " (cdr owner))
    "you"))

(defun agent-q-image-history-note-call (call _status payload)
  "Note the end of CALL, whose PAYLOAD may be a reply of the image."
  (let ((operation (agent-q-connection-call-operation call))
        (arguments (agent-q-connection-call-arguments call)))
    (when-let ((reply (and (or (plist-get arguments :form) (plist-get arguments :system)
                               (equal operation "compile-file"))
                           (agent-q-connection-call-reply payload))))
      (let ((agent-q-image-history--caller (agent-q-connection-call-owner call)))
        (agent-q-image-history--note-reply
         (agent-q-connection-process (agent-q-connection-call-connection call))
         operation arguments reply)))))

(defun agent-q-image-history--note-reply (process operation arguments reply)
  "Note what OPERATION with ARGUMENTS did over PROCESS, by its REPLY."
  (let ((data (plist-get reply :value)))
    (pcase operation
      ((and (or "load-system" "run-tests")
            ;; What had nothing to compile leaves what was said before.
            (guard (or (plist-get data :notes)
                       (< 0 (+ (or (plist-get data :compiled-count) 0)
                               (or (plist-get data :compiled-elsewhere) 0))))))
       ;; Tests that failed are no failure to compile.
       (agent-q-image-history--note-build
        process (format "the system %s" (plist-get arguments :system))
        (eq :returned (plist-get reply :outcome))))
      ("compile-file"
       (agent-q-image-history--note-build
        process (format "the file %s" (plist-get arguments :file))
        (and (eq :returned (plist-get reply :outcome))
             (not (plist-get data :failed)))))
      ((or "eval-form" "eval-in-frame")
       (agent-q-image-history--note-forms process operation arguments reply))
      ((and "compile-form" (guard (plist-member data :notes)))
       (agent-q-image-history--add
        (make-agent-q-image-history-compilation
         :process process :by 'agent :time (current-time)
         :what (agent-q-image-history--text (plist-get arguments :form))
         :state (if (plist-get data :failed) 'failed 'succeeded)
         :notes (mapcar #'agent-q-image-history-own-note (plist-get data :notes)))
        :compilations agent-q-image-history--compilations)))
    (when (eq :error (plist-get reply :outcome))
      (agent-q-image-history--note-error process operation arguments reply))))

(defun agent-q-image-history--note-build (process what success)
  "Note a compilation of WHAT over PROCESS, with SUCCESS.
The image keeps what its compiler said."
  (agent-q-image-history--add
   (make-agent-q-image-history-compilation
    :process process :by 'agent :time (current-time) :what what
    :state (if success 'succeeded 'failed)
    :notes 'image)
   :compilations agent-q-image-history--compilations))

(defun agent-q-image-history-own-note (note)
  "Return NOTE of the Common Lisp half as a note of a compilation."
  (list :severity (plist-get note :severity)
        :message (plist-get note :message)
        :place (if (plist-get note :line)
                   (format "line %d, column %d of the form" (plist-get note :line)
                           (plist-get note :column))
                 (plist-get note :where))))

(defun agent-q-image-history--note-forms (process operation arguments reply)
  "Note what OPERATION with ARGUMENTS evaluated over PROCESS, from REPLY."
  (let* ((text (plist-get arguments :form))
         (data (plist-get reply :value))
         (forms (plist-get data :forms))
         (failed (memq (plist-get reply :outcome) '(:error :cancelled)))
         (whole (and (= 1 (+ (length forms) (if failed 1 0))) text)))
    (cl-flet ((add (form values condition)
                (agent-q-image-history--add
                 (make-agent-q-image-history-evaluation
                  :process process :by 'agent :how operation
                  :owner (agent-q-image-history--owner)
                  :package (plist-get arguments :package)
                  :form (string-trim (agent-q-image-history--text form))
                  :values (mapcar #'agent-q-image-history--text values)
                  :state (if condition 'aborted 'returned)
                     :condition condition)
                 :evaluations agent-q-image-history--evaluations)))
      (dolist (form forms)
        (add (or whole (plist-get form :form)) (plist-get form :values) nil))
      (when failed
        (add (or whole (plist-get data :current) text) nil
             (or (plist-get reply :type) "stopped"))))))

(defun agent-q-image-history--note-error (process operation arguments reply)
  "Note the error in REPLY to OPERATION with ARGUMENTS over PROCESS."
  (agent-q-image-history--add
   (make-agent-q-image-history-error
    :process process :by 'agent :how operation :time (current-time)
    :owner (agent-q-image-history--owner)
    :message (agent-q-image-history--text (plist-get reply :message))
    :type (plist-get reply :type)
    :form (agent-q-image-history--text
           (or (plist-get (plist-get reply :value) :current)
               (plist-get arguments :form)
               (plist-get arguments :system)))
    :restarts (plist-get reply :restarts)
    :frames (mapcar #'agent-q-image-history-frame (plist-get reply :frames)))
   :errors agent-q-image-history--errors))

(defun agent-q-image-history-frame (frame)
  "Return FRAME, a text or a property list of the Common Lisp half, as text."
  (cond ((stringp frame) frame)
        ((plist-get frame :where)
         (format "%s  [%s%s]" (plist-get frame :text) (plist-get frame :where)
                 (if (plist-get frame :changed) ", changed since it was compiled" "")))
        (t (plist-get frame :text))))

(add-hook 'agent-q-connection-call-ended-functions #'agent-q-image-history-note-call)

;; Errors of threads that our own calls began, also while nobody watches the user.
(add-hook 'agent-q-image-event-functions #'agent-q-image-history--see-debug)

;;;; What the user did in SLY and SLIME

;; Notes the events that pass between Emacs and the Lisp, which show
;; what the user did: evaluated, compiled, met an error.  Does nothing until a Lisp
;; connects, and never loads the core.

(defvar slime-net-processes)
(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)
(defvar sly-net-processes)

;;;;; Putting the recorders on the hooks

;;;###autoload
(defun agent-q-image-history-record-start ()
  "Record from the moment a Lisp connects, or now if one is connected."
  (add-hook 'sly-connected-hook #'agent-q-image-history--record-sly)
  (add-hook 'slime-connected-hook #'agent-q-image-history--record-slime)
  (when (bound-and-true-p sly-net-processes)
    (agent-q-image-history--record-sly))
  (when (bound-and-true-p slime-net-processes)
    (agent-q-image-history--record-slime)))

;;;###autoload
(defun agent-q-image-history-record-stop ()
  "Take the recorders off the hooks and forget what they recorded.
What agent-q's own calls brought is kept."
  (remove-hook 'sly-connected-hook #'agent-q-image-history--record-sly)
  (remove-hook 'slime-connected-hook #'agent-q-image-history--record-slime)
  (remove-hook 'sly-event-hooks #'agent-q-image-history--record-sly-event)
  (remove-hook 'slime-event-hooks #'agent-q-image-history--record-slime-event)
  (agent-q-image-history-forget 'user))

(defun agent-q-image-history--record-sly ()
  "Record the events of SLY."
  (add-hook 'sly-event-hooks #'agent-q-image-history--record-sly-event))

(defun agent-q-image-history--record-slime ()
  "Record the events of SLIME."
  (add-hook 'slime-event-hooks #'agent-q-image-history--record-slime-event))

(defun agent-q-image-history--record-sly-event (event)
  "Record EVENT of SLY if it is of interest; leave it to SLY."
  (agent-q-image-history--record-event 'sly event))

(defun agent-q-image-history--record-slime-event (event)
  "Record EVENT of SLIME if it is of interest; leave it to SLIME."
  (agent-q-image-history--record-event 'slime event))

(defun agent-q-image-history--record-event (client event)
  "Record EVENT of CLIENT.  Always return nil, so that the client handles it."
  ;; We stand in the way of everything the client does: an error of ours must
  ;; not become one of its own.
  (agent-q-module-log-call 'agent-q-record #'agent-q-image-history-see client
                           (if (eq client 'sly)
                               (bound-and-true-p sly-dispatching-connection)
                             (bound-and-true-p slime-dispatching-connection))
                           event)
  nil)

;;;; What the agent evaluates, in the user's REPL

;; With `agent-q-echo-evaluations', each form that the agent evaluates or compiles
;; is shown with its values as comments above the prompt of the REPL, where the
;; client puts what a program prints.  Input, history and undo stay as they are.

(defvar slime-output-end)
(defvar sly-mrepl--output-mark)
(declare-function slime-connection-output-buffer "ext:slime-repl")
(declare-function slime-repl-emit "ext:slime-repl")
(declare-function sly-mrepl--find-buffer "ext:sly-mrepl")
(declare-function sly-mrepl--insert-output "ext:sly-mrepl")

(defconst agent-q-image-history--echo-limit 2000
  "Most characters of a form that are shown.")

(defconst agent-q-image-history--echo-value-limit 500
  "Most characters of a value that are shown.")

(defface agent-q-echo '((t :inherit font-lock-comment-face))
  "Face of the agent's evaluations in the user's REPL."
  :group 'agent-q)

;;;;; Asking once

(defvar agent-q-image-history--echo-offer nil
  "Non-nil when the agent has evaluated something and the user was not asked yet.")

(defun agent-q-image-history-echo-offer-p ()
  "Return non-nil, once, if the user is to be asked about the echo now."
  (prog1 (eq agent-q-image-history--echo-offer t)
    (when agent-q-image-history--echo-offer
      (setq agent-q-image-history--echo-offer 'made))))

(defun agent-q-image-history-echo-choose (value)
  "Set `agent-q-echo-evaluations' to VALUE from now on."
  (customize-save-variable 'agent-q-echo-evaluations value)
  (message (if value "Your REPL shows what the agent evaluates"
             "Your REPL won't show them; `agent-q-echo-evaluations' changes that")))

;;;;; What is shown

(defun agent-q-image-history-echo-call (call status payload)
  "Show CALL, which ended with STATUS and PAYLOAD, in the REPL of its image.
Nothing is shown of what only looks, nor of Lisps that the user doesn't see."
  (when (and (member (agent-q-connection-call-operation call)
                     '("eval-form" "eval-in-frame" "compile-form"))
             (not (agent-q-connection-second-p (agent-q-connection-call-connection call))))
    (pcase agent-q-echo-evaluations
      ('ask (unless agent-q-image-history--echo-offer
              (setq agent-q-image-history--echo-offer t)))
      ('t (agent-q-image-history--echo call status payload)))))

(defun agent-q-image-history--echo (call status payload)
  "Show CALL, which ended with STATUS and PAYLOAD, in the REPL of its image."
  (let ((process (agent-q-connection-process (agent-q-connection-call-connection call)))
        (arguments (agent-q-connection-call-arguments call))
        (agent-q-image-history--caller (agent-q-connection-call-owner call))
        (reply (agent-q-connection-call-reply payload)))
    (when-let ((entries (and (process-live-p process)
                             (if (equal (agent-q-connection-call-operation call) "compile-form")
                                 (agent-q-image-history--echo-compiled arguments reply status)
                               (agent-q-image-history--echo-evaluated arguments reply status)))))
      (agent-q-image-history--echo-insert process (string-join entries)))))

(defun agent-q-image-history--echo-evaluated (arguments reply status)
  "Return what a call with ARGUMENTS evaluated, texts, one for each form.
REPLY is the image's, or nil when the call ended otherwise, as STATUS says."
  (let* ((data (plist-get reply :value))
         (done (plist-get data :forms))
         (current (plist-get data :current))
         (texts (agent-q-image-history--echo-split (plist-get arguments :form)))
         (ended (agent-q-image-history--echo-end reply status)))
    (append
     (cl-loop for form in done
              for text = (agent-q-image-history--echo-whole (plist-get form :form) (pop texts))
              collect (agent-q-image-history--echo-entry
                       ">" arguments text (or (plist-get form :values) '("no values"))))
     (and (or current ended)
          (not (eq :missed (plist-get reply :outcome)))
          (list (agent-q-image-history--echo-entry
                 ">" arguments
                 (if current
                     (agent-q-image-history--echo-whole current (car texts))
                   (or (car texts) (plist-get arguments :form)))
                 (list (or ended "stopped"))))))))

(defun agent-q-image-history--echo-compiled (arguments reply status)
  "Return what a call with ARGUMENTS compiled, a list of one text.
REPLY and STATUS are as for `agent-q-image-history--echo-evaluated'."
  (let* ((data (plist-get reply :value))
         (notes (length (plist-get data :notes))))
    (unless (eq :missed (plist-get reply :outcome))
      (list (agent-q-image-history--echo-entry
             " compiles>" arguments (plist-get arguments :form)
             (list (or (agent-q-image-history--echo-end reply status)
                       (concat (if (plist-get data :failed) "compiled with failures" "compiled")
                               (and (> notes 0)
                                    (format ", %d note%s" notes (if (= notes 1) "" "s")))))))))))

(defun agent-q-image-history--echo-end (reply status)
  "Say how a call ended with REPLY or STATUS, unless it came to its end."
  (pcase (plist-get reply :outcome)
    (:returned nil)
    (:error (format "%s: %s" (plist-get reply :type) (plist-get reply :message)))
    (:cancelled "stopped before its end")
    (_ (format "ended (%s)" status))))

(defun agent-q-image-history--echo-split (text)
  "Return the forms in TEXT, as far as they can be told apart."
  (with-temp-buffer
    (set-syntax-table lisp-mode-syntax-table)
    (setq-local parse-sexp-ignore-comments t)
    (insert (or text ""))
    (goto-char (point-min))
    (let ((forms nil))
      (ignore-errors
        (while (progn (forward-comment (buffer-size)) (not (eobp)))
          (let ((start (point)))
            (forward-sexp)
            (push (buffer-substring-no-properties start (point)) forms))))
      (nreverse forms))))

(defun agent-q-image-history--echo-whole (form text)
  "Return TEXT if FORM, the beginning of a form, is of it, else FORM."
  (let ((start (car (split-string form "\\.\\.\\. \\[[0-9]+ more "))))
    (if (and text (string-prefix-p start text)) text form)))

(defun agent-q-image-history--echo-who ()
  "Return the name of the one who called: the agent, or an MCP client."
  (let ((owner agent-q-image-history--caller))
    (or (and (buffer-live-p owner) (buffer-local-value 'agent-q-session-mcp-client owner))
        "agent-q")))

(defun agent-q-image-history--echo-entry (sign arguments form values)
  "Return FORM of a call with ARGUMENTS, and VALUES, as comments.
SIGN stands between the agent's name and the form."
  (let* ((package (plist-get arguments :package))
         (lead (concat "; " (agent-q-image-history--echo-who) (and package (concat " " (upcase package))) sign " ")))
    (concat
     (agent-q-image-history--echo-lines lead (agent-q-image-history--echo-short form agent-q-image-history--echo-limit))
     (mapconcat (lambda (value)
                  (agent-q-image-history--echo-lines "; agent-q=> "
                                                     (agent-q-image-history--echo-short value agent-q-image-history--echo-value-limit)))
                values ""))))

(defun agent-q-image-history--echo-short (text limit)
  "Return TEXT, cut at LIMIT."
  (let ((text (string-trim (substring-no-properties text))))
    (if (> (length text) limit)
        (concat (substring text 0 limit) " ...")
      text)))

(defun agent-q-image-history--echo-lines (lead text)
  "Return the lines of TEXT as comments, the first one with LEAD."
  (let ((blank (concat ";" (make-string (1- (length lead)) ?\s))))
    (concat lead (string-join (split-string text "\n") (concat "\n" blank)) "\n")))

;;;;; Where it is shown

(defun agent-q-image-history--echo-insert (process text)
  "Put TEXT above the prompt of the REPL of PROCESS, if there is one."
  (pcase (agent-q-image-history--client process)
    ('sly (agent-q-image-history--echo-insert-sly process text))
    ('slime (agent-q-image-history--echo-insert-slime process text))))

(defmacro agent-q-image-history--echo-keeping-undo (mark &rest body)
  "Evaluate BODY, an insertion at MARK, and have undo know nothing of it."
  (declare (indent 1) (debug t))
  (let ((undo (make-symbol "undo")) (start (make-symbol "start")) (size (make-symbol "size")))
    `(let ((,undo buffer-undo-list)
           (,start (marker-position ,mark))
           (,size (buffer-size)))
       (setq buffer-undo-list t)
       (unwind-protect (progn ,@body)
         (setq buffer-undo-list
               (if (listp ,undo)
                   (agent-q-image-history--echo-moved ,undo ,start (- (buffer-size) ,size))
                 ,undo))))))

(defun agent-q-image-history--echo-insert-sly (process text)
  "Put TEXT above the prompt of SLY's REPL of PROCESS."
  (let ((buffer (and (fboundp 'sly-mrepl--insert-output)
                     (sly-mrepl--find-buffer process))))
    (when buffer
      (with-current-buffer buffer
        (agent-q-image-history--echo-keeping-undo sly-mrepl--output-mark
          ;; Its own filters are for what programs print.
          (sly-mrepl--insert-output (agent-q-image-history--echo-on-new-line sly-mrepl--output-mark text)
                                    'agent-q-echo t))))))

(defun agent-q-image-history--echo-insert-slime (process text)
  "Put TEXT above the prompt of SLIME's REPL of PROCESS."
  (let* ((slime-dispatching-connection process)
         (buffer (and (fboundp 'slime-repl-emit)
                      (slime-connection-output-buffer process))))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (let ((start (marker-position slime-output-end)))
          (agent-q-image-history--echo-keeping-undo slime-output-end
            (slime-repl-emit (agent-q-image-history--echo-on-new-line slime-output-end text))
            (let ((inhibit-read-only t))
              (put-text-property start slime-output-end 'face 'agent-q-echo))))))))

(defun agent-q-image-history--echo-on-new-line (mark text)
  "Return TEXT, with a newline first if MARK is within a line."
  (save-excursion
    (goto-char mark)
    (if (bolp) text (concat "\n" text))))

(defun agent-q-image-history--echo-moved (undo start distance)
  "Return the list UNDO after an insertion of DISTANCE characters at START."
  (cl-flet ((moved (place)
              (cond ((>= place start) (+ place distance))
                    ((<= place (- start)) (- place distance))
                    (t place))))
    (mapcar (lambda (entry)
              (pcase entry
                ((pred integerp) (moved entry))
                (`(,(and (pred integerp) begin) . ,(and (pred integerp) end))
                 (cons (moved begin) (moved end)))
                (`(,(and (pred stringp) text) . ,(and (pred integerp) place))
                 (cons text (moved place)))
                (`(nil ,property ,value ,begin . ,end)
                 `(nil ,property ,value ,(moved begin) . ,(moved end)))
                (`(apply ,(and (pred integerp) delta) ,begin ,end . ,more)
                 `(apply ,delta ,(moved begin) ,(moved end) . ,more))
                (_ entry)))
            undo)))

(provide 'agent-q-image-history)
;;; agent-q-image-history.el ends here
