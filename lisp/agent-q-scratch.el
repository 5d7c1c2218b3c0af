;;; agent-q-scratch.el --- Lisps beside the user's, started and thrown away by agent-q  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Second Lisps: a chat's scratch image, where a model may try what loops or breaks a Lisp, and those in
;; which a system is verified from its files.  They are started as the user's own are, through the same
;; client, and end with the turn or with Emacs; those of another agent end with its connection, as it
;; sees no turns.

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image-module)
(require 'agent-q-session)
(require 'cl-lib)
(require 'subr-x)

(defcustom agent-q-scratch-cache (locate-user-emacs-file "agent-q/fasl/")
  "Folder for what second Lisps compile of libraries, and of agent-q itself.
Yours is neither read nor written by them, but for SLY's or SLIME's own server.
What they compile of the project is deleted when they end."
  :type 'directory
  :group 'agent-q)

(defconst agent-q-scratch--start-seconds 100
  "Seconds that a Lisp may take to start.  At first it compiles its server.")

(defvar agent-q-scratch--reply-seconds 15
  "Seconds that its server may take to answer.
Now and then, SLY's gives no answer to a first message.")

(defconst agent-q-scratch--idle-seconds 600
  "Seconds after which a Lisp that isn't used is ended.")

(cl-defstruct (agent-q-scratch--lisp (:constructor agent-q-scratch--make) (:copier nil))
  "A second Lisp, called NAME, of the chat in the buffer OWNER, or of programs.
It is started by the client and options START for the project in ROOT.
PROCESS runs it, GUARD ends it with Emacs, CONNECTION leads to it once it can
be used.  FOLDER has its server's port; what it compiled of the project is in one of that name in the
cache, and ends with it.  WAITING are the functions to call with nil when
it can be used, or with the reason why it can't.  TIMER looks for its server
at first, and later ends it when it isn't used.  AGAIN is non-nil once it was
started again, as it gave no answer."
  name owner start root process guard connection folder waiting timer again)

(defvar agent-q-scratch--all nil
  "The second Lisps that run or are being started.")

(defun agent-q-scratch--find (owner name)
  "Return the second Lisp of OWNER with NAME, or nil."
  (cl-find-if (lambda (lisp)
                (and (eq owner (agent-q-scratch--lisp-owner lisp))
                     (equal name (agent-q-scratch--lisp-name lisp))))
              agent-q-scratch--all))

(defun agent-q-scratch-connection (owner name)
  "Return the connection to the second Lisp of OWNER with NAME, or nil."
  (let ((lisp (agent-q-scratch--find owner name)))
    (when (and lisp (agent-q-connection-live-p (agent-q-scratch--lisp-connection lisp)))
      (agent-q-scratch--wait-for-use lisp)
      (agent-q-scratch--lisp-connection lisp))))

;;;; Starting one

(defun agent-q-scratch-start (owner name connection root function)
  "Make sure that OWNER has a Lisp called NAME; then call FUNCTION with nil.
When it can't be started, FUNCTION gets the reason.  CONNECTION leads to the
user's Lisp, which it is to be like, if any; ROOT is the folder of the project."
  (let ((lisp (agent-q-scratch--find owner name)))
    (cond ((null lisp)
           (agent-q-scratch--begin
            (agent-q-scratch--make :name name :owner owner :root root :waiting (list function))
            (lambda () (agent-q-connection-start-options connection))))
          ((agent-q-scratch-connection owner name) (funcall function nil))
          (t (push function (agent-q-scratch--lisp-waiting lisp))))))

(defun agent-q-scratch--begin (lisp start)
  "Start LISP, by the client and options that START, a function, has."
  (push lisp agent-q-scratch--all)
  (condition-case failure
      (pcase-let ((`(,client . ,options) (setf (agent-q-scratch--lisp-start lisp) (funcall start))))
        (setf (agent-q-scratch--lisp-folder lisp) (make-temp-file "agent-q-" t))
        (let ((process (agent-q-scratch--run lisp options))
              (port-file (expand-file-name "port" (agent-q-scratch--lisp-folder lisp))))
          (setf (agent-q-scratch--lisp-process lisp) process
                (agent-q-scratch--lisp-guard lisp) (agent-q-scratch--guard lisp))
          ;; One that has ended already says why to the sentinel.
          (ignore-errors
            (process-send-string process (funcall (plist-get options :init) port-file
                                                  (plist-get options :coding-system))))
          (agent-q-scratch--look-for-server lisp client port-file (float-time))))
    (error (agent-q-scratch--fail lisp (error-message-string failure)))))

(defun agent-q-scratch--run (lisp options)
  "Run the program of OPTIONS for LISP, and return its process."
  (let* ((root (agent-q-scratch--lisp-root lisp))
         (default-directory (if (and root (file-directory-p root)) root default-directory))
         (process-environment
          (append (list (concat "ASDF_OUTPUT_TRANSLATIONS="
                                (agent-q-scratch--translations lisp root (plist-get options :server))))
                  (plist-get options :env) process-environment)))
    (make-process :name "agent-q-second-lisp"
                  :buffer (generate-new-buffer " *agent-q-second-lisp*")
                  :command (agent-q-scratch--command options)
                  :connection-type 'pipe :noquery t
                  :sentinel (lambda (_process _event) (agent-q-scratch--ended lisp)))))

(defun agent-q-scratch--guard (lisp)
  "Have LISP killed when Emacs is gone, however it went.
A Lisp without threads can't see to that itself.  Return the process that waits
for it: its input ends with Emacs."
  (make-process :name "agent-q-guard"
                :command (list "sh" "-c" "read line; kill -9 -$1 2>/dev/null || kill -9 $1" "sh"
                               (number-to-string
                                (process-id (agent-q-scratch--lisp-process lisp))))
                :connection-type 'pipe :noquery t :sentinel #'ignore))

(defun agent-q-scratch--command (options)
  "Return the command of OPTIONS, as one that ends when the Lisp breaks."
  (let ((program (plist-get options :program))
        (arguments (plist-get options :program-args)))
    (append (list program)
            ;; Its low-level debugger would wait for ever.
            (and (string-match-p "\\`sbcl" (file-name-nondirectory program))
                 '("--disable-ldb"))
            arguments)))

(defun agent-q-scratch--translations (lisp root server)
  "Return, in the syntax of ASDF, where LISP puts what it compiles.
What is in ROOT, the project, goes with LISP; what is in SERVER, with the
sources of the client's server, stays where the user's Lisps have it: to
compile it through C takes a minute."
  (let ((cache (file-name-as-directory (expand-file-name agent-q-scratch-cache)))
        ;; Below the cache, where the image's watch lets ASDF write what it compiles.
        (own (file-name-as-directory (agent-q-scratch--own lisp))))
    (with-output-to-string
      (prin1 `(:output-translations
               ,@(and root
                      (list (list (list (file-name-as-directory (expand-file-name root)) :**/ :*.*.*)
                                  (list cache :implementation own :**/ :*.*.*))))
               ,@(and server
                      (let ((server (file-truename server)))
                        `(((,server :**/ :*.*.*) (:user-cache ,(substring server 1) :**/ :*.*.*)))))
               (t (,cache :implementation :**/ :*.*.*))
               :ignore-inherited-configuration)))))

(defun agent-q-scratch--own (lisp)
  "Return the name of the folders with what LISP compiled of the project."
  (file-name-nondirectory (agent-q-scratch--lisp-folder lisp)))

(defun agent-q-scratch--look-for-server (lisp client port-file since)
  "Connect CLIENT to LISP, started at SINCE, once PORT-FILE has its server's port."
  (when (memq lisp agent-q-scratch--all)
    (let ((port (agent-q-scratch--port port-file)))
      (cond (port (agent-q-scratch--connect lisp client port))
            ((< agent-q-scratch--start-seconds (- (float-time) since))
             (agent-q-scratch--fail
              lisp (format "It started no server within %d s.%s" agent-q-scratch--start-seconds
                           (agent-q-scratch--last-lines lisp))))
            (t (setf (agent-q-scratch--lisp-timer lisp)
                     (run-at-time 0.03 nil #'agent-q-scratch--look-for-server
                                  lisp client port-file since)))))))

(defun agent-q-scratch--connect (lisp client port)
  "Connect CLIENT to the server of LISP at PORT.
If it gives no answer, start LISP again, but only once."
  (let ((process (agent-q-scratch--lisp-process lisp)))
    (setf (agent-q-scratch--lisp-timer lisp)
          (run-at-time agent-q-scratch--reply-seconds nil
                       (lambda ()
                         (when (memq lisp agent-q-scratch--all)
                           (agent-q-scratch--unanswered lisp)))))
    (condition-case failure
        (agent-q-connection-connect client port process (agent-q-scratch--lisp-name lisp)
                                    (lambda (connection)
                                      (if (eq process (agent-q-scratch--lisp-process lisp))
                                          (agent-q-scratch--connected lisp connection)
                                        (agent-q-connection-ask connection :disconnect))))
      (error (agent-q-scratch--fail lisp (error-message-string failure))))))

(defun agent-q-scratch--unanswered (lisp)
  "Start LISP, whose server gives no answer, again, but only once."
  (let ((waiting (agent-q-scratch--lisp-waiting lisp)))
    (if (agent-q-scratch--lisp-again lisp)
        (agent-q-scratch--fail lisp "Its server gave no answer, twice.")
      (setf (agent-q-scratch--lisp-waiting lisp) nil
            (agent-q-scratch--lisp-again lisp) t)
      (agent-q-scratch--end lisp)
      (setf (agent-q-scratch--lisp-waiting lisp) waiting)
      (agent-q-scratch--begin lisp (lambda () (agent-q-scratch--lisp-start lisp))))))

(defun agent-q-scratch--port (file)
  "Return the number in FILE, or nil as long as it isn't there."
  (and (file-readable-p file)
       (with-temp-buffer
         (insert-file-contents file)
         (and (looking-at "[0-9]+[ \t\r\n]")
              (string-to-number (match-string 0))))))

(defconst agent-q-scratch--translate
  '(cl:if (cl:find-package "ASDF")
          (cl:progn (cl:funcall (cl:find-symbol "INITIALIZE-OUTPUT-TRANSLATIONS" "ASDF") cl:nil)
                    cl:nil))
  "Form by which a Lisp puts what it compiles where its environment says.
The user's initialization file or core may have said otherwise.")

(defvar agent-q-scratch--handles 0
  "After which number the handles of the next second Lisp start.
So no handle of one that has ended is taken for another object.")

(defun agent-q-scratch--mark ()
  "Return a form for a second Lisp, by which it knows that it is one.
It also says after which number its handles start."
  (prog1 `(cl:progn (cl:setf (cl:get :agent-q-second-lisp :handles) ,agent-q-scratch--handles) cl:nil)
    (cl-incf agent-q-scratch--handles 1000)))

(defun agent-q-scratch--connected (lisp connection)
  "Let LISP be used, to which CONNECTION leads."
  (if (not (memq lisp agent-q-scratch--all))
      (agent-q-connection-ask connection :disconnect)
    (agent-q-connection-ask
     connection :rex `(cl:progn ,(agent-q-scratch--mark) ,agent-q-scratch--translate) t
     (lambda (_result)
       (when (memq lisp agent-q-scratch--all)
         (setf (agent-q-scratch--lisp-connection lisp) connection)
         (agent-q-image-module-use-compiled connection agent-q-scratch-cache)
         ;; What it says at its start would be taken for its last words.
         (with-current-buffer (process-buffer (agent-q-scratch--lisp-process lisp))
           (erase-buffer))
         (agent-q-scratch--wait-for-use lisp)
         (agent-q-scratch--tell lisp nil))))))

(defun agent-q-scratch--tell (lisp reason)
  "Tell those that wait for LISP that it can be used, or the REASON why it can't."
  (let ((waiting (agent-q-scratch--lisp-waiting lisp)))
    (setf (agent-q-scratch--lisp-waiting lisp) nil)
    (dolist (function (nreverse waiting))
      (funcall function reason))))

(defun agent-q-scratch-first-note (connection)
  "Return what is said after the first call over CONNECTION, or nil.
That is of a second Lisp, which has nothing in it yet."
  (let ((process (agent-q-connection-process connection)))
    (when (and (agent-q-connection-second-p connection)
               (null (process-get process 'agent-q-scratch-told)))
      (process-put process 'agent-q-scratch-told t)
      (format "(In image %s, a new one, which has nothing of the project loaded. It ends %s.)"
              (agent-q-connection-label connection)
              (if (agent-q-scratch--kept-p (agent-q-scratch--owner connection))
                  "when you disconnect, or after ten minutes without use"
                "with this turn")))))

;;;; Its end

(defun agent-q-scratch--owner (connection)
  "Return the owner of the second Lisp to which CONNECTION leads, or nil."
  (let ((lisp (cl-find connection agent-q-scratch--all :key #'agent-q-scratch--lisp-connection)))
    (and lisp (agent-q-scratch--lisp-owner lisp))))

(defun agent-q-scratch--kept-p (owner)
  "Whether the Lisps of OWNER, another agent, are kept while it is connected."
  (and (bufferp owner)
       (buffer-local-value 'agent-q-session-mcp-client owner)))

(defun agent-q-scratch--wait-for-use (lisp)
  "End LISP if it isn't used for a while from now on."
  (when (agent-q-scratch--lisp-timer lisp)
    (cancel-timer (agent-q-scratch--lisp-timer lisp)))
  (setf (agent-q-scratch--lisp-timer lisp)
        (run-at-time agent-q-scratch--idle-seconds nil #'agent-q-scratch--idle lisp)))

(defun agent-q-scratch--idle (lisp)
  "End LISP, unless it is in use."
  (if (agent-q-connection-call-over
       (agent-q-connection-process (agent-q-scratch--lisp-connection lisp)))
      (agent-q-scratch--wait-for-use lisp)
    (agent-q-scratch--end lisp)))

(defun agent-q-scratch--last-lines (lisp)
  "Return what LISP printed last, after a line break, or an empty text."
  (let ((buffer (and (agent-q-scratch--lisp-process lisp)
                     (process-buffer (agent-q-scratch--lisp-process lisp)))))
    (if (not (buffer-live-p buffer))
        ""
      (with-current-buffer buffer
        (let ((text (string-trim (buffer-substring-no-properties
                                  (max (point-min) (- (point-max) 600)) (point-max)))))
          (if (string-empty-p text) "" (concat "  Its last output:\n" text)))))))

(defun agent-q-scratch--ended (lisp)
  "Note that the process of LISP has ended."
  (unless (process-live-p (agent-q-scratch--lisp-process lisp))
    (agent-q-scratch--fail lisp (concat "It ended while it was starting."
                                        (agent-q-scratch--last-lines lisp)))))

(defun agent-q-scratch--fail (lisp why)
  "Throw LISP away, and tell those that wait for it WHY it can't be used."
  (agent-q-scratch--tell lisp (format "The second Lisp can't be used: %s" why))
  (agent-q-scratch--end lisp))

(defun agent-q-scratch--end (lisp)
  "Throw LISP away."
  (setq agent-q-scratch--all (delq lisp agent-q-scratch--all))
  (let ((connection (agent-q-scratch--lisp-connection lisp))
        (process (agent-q-scratch--lisp-process lisp))
        (folder (agent-q-scratch--lisp-folder lisp)))
    (when (agent-q-scratch--lisp-timer lisp)
      (cancel-timer (agent-q-scratch--lisp-timer lisp)))
    (when connection
      (when (agent-q-image-module-claim-compiling connection)
        (agent-q-scratch--compile lisp))
      (agent-q-connection-ask connection :disconnect))
    (when (agent-q-scratch--lisp-guard lisp)
      (delete-process (agent-q-scratch--lisp-guard lisp)))
    (when process
      (set-process-sentinel process #'ignore)
      (when (process-live-p process)
        (kill-process process))
      (when (buffer-live-p (process-buffer process))
        (kill-buffer (process-buffer process))))
    (when folder
      (dolist (folder (cons folder
                            (file-expand-wildcards
                             (expand-file-name (concat "*/" (agent-q-scratch--own lisp))
                                               agent-q-scratch-cache))))
        (delete-directory folder t)))
    (agent-q-scratch--tell lisp "The second Lisp was ended.")))

(defun agent-q-scratch--compile (lisp)
  "Have a Lisp like LISP, which ends, compile the Common Lisp half for later ones."
  (let ((owner 'agent-q-compiled))
    (agent-q-scratch--begin
     (agent-q-scratch--make
      :name "compile" :owner owner
      :waiting (list (lambda (reason)
                       (unless reason
                         (agent-q-image-module-compile
                          (agent-q-scratch-connection owner "compile")
                          ;; The client has to be done with the reply.
                          (lambda () (run-at-time 0 nil #'agent-q-scratch-end owner)))))))
     (lambda () (agent-q-scratch--gently (agent-q-scratch--lisp-start lisp))))))

(defun agent-q-scratch--gently (start)
  "Return START, a client and options, changed so that other programs go first."
  (pcase-let ((`(,program . ,arguments) (agent-q-scratch--command (cdr start))))
    (if (executable-find "nice")
        `(,(car start) :program "nice"
          :program-args ("-n" "19" ,(or (executable-find program) program) ,@arguments)
          ,@(cdr start))
      start)))

(defun agent-q-scratch-end (owner &optional name)
  "Throw away the second Lisp of OWNER with NAME, or all of them.
Return non-nil when there was one."
  (let ((lisps (cl-remove-if-not (lambda (lisp)
                                   (and (eq owner (agent-q-scratch--lisp-owner lisp))
                                        (or (null name)
                                            (equal name (agent-q-scratch--lisp-name lisp)))))
                                 agent-q-scratch--all)))
    (mapc #'agent-q-scratch--end lisps)
    (and lisps t)))

(defun agent-q-scratch--turn-ended (event)
  "Throw away the Lisps of the chat whose turn ends with EVENT."
  (let ((owner (agent-q-events-buffer (plist-get event :session))))
    (unless (agent-q-scratch--kept-p owner)
      (agent-q-scratch-end owner))))

(defun agent-q-scratch--batch-finished (_event)
  "Throw away the Lisps of programs, which are done."
  (agent-q-scratch-end nil))

(defun agent-q-scratch--closed ()
  "Throw away the Lisps of the chat in the current buffer, which is killed."
  (agent-q-scratch-end (current-buffer)))

(agent-q-events-subscribe :turn-ended #'agent-q-scratch--turn-ended)
(agent-q-events-subscribe :batch-finished #'agent-q-scratch--batch-finished)

;;;; What the core asks

(agent-q-events-operation-define "start-lisp" (call name root)
  "Start a Lisp called NAME for CALL's chat.
ROOT is the folder of its files, without which they are the project's."
  (let ((owner (agent-q-events-operation-call-owner call)))
    (when owner
      (with-current-buffer owner
        (add-hook 'kill-buffer-hook #'agent-q-scratch--closed nil t)))
    (agent-q-scratch-start owner name (agent-q-events-operation-call-connection call)
                           (or root (and owner (buffer-local-value 'agent-q-session-root owner)))
                           (lambda (reason)
                             (if reason
                                 (agent-q-events-operation-end call "signalled" reason)
                               (agent-q-events-operation-end call "done" "t"))))
    nil))

(agent-q-events-operation-define "end-lisp" (call name)
  "Throw away the second Lisp with NAME of the chat of CALL."
  (if (agent-q-scratch-end (agent-q-events-operation-call-owner call) name)
      "It is gone."
    "There was none."))

(provide 'agent-q-scratch)
;;; agent-q-scratch.el ends here
