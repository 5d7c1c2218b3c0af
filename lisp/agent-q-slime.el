;;; agent-q-slime.el --- SLIME as agent-q's way to a Lisp image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The few functions of SLIME that the call layer in agent-q-image.el stands on.
;; SLIME need not be installed: nothing here runs before it has a connection.

;;; Code:

(require 'cl-lib)

(defvar slime-net-processes)
(defvar slime-connection-counter)
(defvar slime-connected-hook)
(defvar slime-protocol-version)
(defvar slime-buffer-connection)
(defvar slime-net-coding-system)
(defvar slime-backend)
(defvar slime-path)
(defvar slime-event-hooks)
(defvar slime-net-process-close-hooks)
(defvar slime-dispatching-connection)
(defvar slime-log-events)
(defvar slime-buffer-package)

(declare-function slime-current-connection "ext:slime")
(declare-function slime-connection-name "ext:slime" t t)
(declare-function slime-lisp-implementation-type "ext:slime" t t)
(declare-function slime-lisp-implementation-version "ext:slime" t t)
(declare-function slime-lisp-features "ext:slime" t t)
(declare-function slime-inferior-process "ext:slime" t t)
(declare-function slime-communication-style "ext:slime" t t)
(declare-function slime-pid "ext:slime" t t)
(declare-function slime-rex-continuations "ext:slime" t t)
(declare-function slime-from-lisp-filename "ext:slime")
(declare-function slime-to-lisp-filename "ext:slime")
(declare-function slime-edit-definition "ext:slime" (&optional name where))
(declare-function slime-describe-symbol "ext:slime" (symbol-name))
(declare-function slime-inspect "ext:slime" (string))
(declare-function slime-inferior-lisp-args "ext:slime" (process))
(declare-function slime-lisp-options "ext:slime" (&optional name))
(declare-function slime-init-command "ext:slime" (port-filename coding-system))
(declare-function slime-net-connect "ext:slime" (host port &rest parameters))
(declare-function slime-net-filter "ext:slime" (process string))
(declare-function slime-net-sentinel "ext:slime" (process message))
(declare-function slime-net-close "ext:slime" (process &optional debug))
(declare-function slime-set-inferior-process "ext:slime" (connection process))
(declare-function slime-set-connection-info "ext:slime" (connection info))
(declare-function slime-dispatch-event "ext:slime" (event &optional process))

(defun agent-q-slime-connections ()
  "Return the open connections of SLIME, the user's current one first."
  ;; `featurep' looks through hundreds of names.
  (when (bound-and-true-p slime-net-processes)
    (let ((current (slime-current-connection)))
      ;; Each call into an image asks, and `seq-filter' takes as long as all the rest.
      (cl-loop for process in (if (memq current slime-net-processes)
                                  (cons current (remq current slime-net-processes))
                                slime-net-processes)
               when (agent-q-slime--ready-p process) collect process))))

(defun agent-q-slime--ready-p (process)
  "Return non-nil when PROCESS is open, and the Lisp has said who it is."
  (and (process-live-p process)
       ;; SLIME looks up the name in another buffer each time.
       (or (process-get process 'agent-q-named)
           (when (slime-connection-name process)
             (process-put process 'agent-q-named t)
             t))))

(defun agent-q-slime-name (process)
  "Return the name of the connection PROCESS in SLIME, or the one that we gave it."
  (or (process-get process 'agent-q-name)
      (slime-connection-name process)))

(defun agent-q-slime-implementation (process)
  "Return the Lisp at the other end of PROCESS, such as \"SBCL 2.2.9\"."
  (format "%s %s"
          (or (slime-lisp-implementation-type process) "Lisp")
          (or (slime-lisp-implementation-version process) "")))

(defun agent-q-slime-buffer (process)
  "Return the buffer with the output of the Lisp behind PROCESS, or nil."
  (let ((lisp (slime-inferior-process process)))
    (and lisp (process-buffer lisp))))

(defun agent-q-slime-repl-package (process)
  "Return the package that the REPL of PROCESS is in, or nil."
  (and (fboundp 'slime-lisp-package)
       (slime-lisp-package process)))

(defun agent-q-slime-from-lisp (process file)
  "Return the local name of FILE on the machine behind PROCESS."
  (let ((slime-dispatching-connection process))
    (slime-from-lisp-filename file)))

(defun agent-q-slime-to-lisp (process file)
  "Return the name of FILE on the machine behind PROCESS."
  (let ((slime-dispatching-connection process))
    (slime-to-lisp-filename file)))

(defun agent-q-slime-rex (process form thread continuation)
  "Evaluate FORM in THREAD of the Lisp behind PROCESS.
CONTINUATION is called with (:ok VALUE) or (:abort CONDITION)."
  ;; After each call SLIME looks for macros in all of the package that it is made in: the one in which
  ;; it reads its messages has but a few.
  ;;
  ;; SLIME pretty-prints what it logs, which takes longer than the rest of a call.
  (let ((slime-dispatching-connection process)
        (slime-log-events nil))
    (slime-dispatch-event
     (list :emacs-rex form "SWANK-IO-PACKAGE" thread continuation)
     process)))

(defun agent-q-slime-rex-id (process continuation)
  "Return the id of CONTINUATION on PROCESS, or nil."
  (car (rassq continuation (slime-rex-continuations process))))

(defun agent-q-slime-dispatch (process event)
  "Let SLIME handle EVENT, which came over PROCESS."
  (slime-dispatch-event event process))

(defun agent-q-slime-install (on-event on-close)
  "Call ON-EVENT and ON-CLOSE for what happens on connections of SLIME.
ON-EVENT gets the connection and the event; a value other than nil
keeps SLIME from handling it.  ON-CLOSE gets the connection."
  (add-hook 'slime-event-hooks
            (agent-q-slime--listener on-event))
  (add-hook 'slime-net-process-close-hooks on-close))

(defvar agent-q-slime--listeners nil
  "Functions on `slime-event-hooks', by what they call.
Kept so that installing one twice leaves one.")

(defun agent-q-slime--listener (on-event)
  "Return the event hook function for ON-EVENT."
  (or (cdr (assq on-event agent-q-slime--listeners))
      (let ((listener (lambda (event)
                        (funcall on-event slime-dispatching-connection event))))
        (push (cons on-event listener) agent-q-slime--listeners)
        listener)))

(defun agent-q-slime-threads-p (process)
  "Return non-nil when each call over PROCESS has a thread of its own."
  (eq :spawn (slime-communication-style process)))

(defun agent-q-slime-requests (process)
  "Return the ids of all that PROCESS has not answered yet."
  (mapcar #'car (slime-rex-continuations process)))

(defun agent-q-slime-interrupt (process)
  "Interrupt what the Lisp behind PROCESS does, as its terminal could.
Return nil when it was not started here."
  (let ((lisp (slime-inferior-process process))
        (pid (slime-pid process)))
    (and lisp pid (process-live-p lisp)
         (eql 0 (signal-process pid 'SIGINT)))))

(defun agent-q-slime-edit-definition (process name package)
  "Go to the definition of NAME, read in PACKAGE, in the Lisp behind PROCESS."
  (let ((slime-dispatching-connection process)
        (slime-buffer-package package))
    (slime-edit-definition name)))

(defun agent-q-slime-describe (process name package)
  "Describe NAME, read in PACKAGE, of the Lisp behind PROCESS."
  (let ((slime-dispatching-connection process)
        (slime-buffer-package package))
    (slime-describe-symbol name)))

(defun agent-q-slime-inspect (process form)
  "Open the inspector on the value of FORM, a text, in the Lisp behind PROCESS."
  (let ((slime-dispatching-connection process)
        (slime-buffer-package "COMMON-LISP-USER"))
    (slime-inspect form)))

;;;; A Lisp that the user doesn't see

(defun agent-q-slime-start-options (process)
  "Return how the Lisp behind PROCESS was started, as `slime-start' takes it.
Where it was not started here, or PROCESS is nil, return how a new one would be.
The folder of the server's sources is in it, too."
  (let ((lisp (and process (slime-inferior-process process))))
    (append (or (and lisp (buffer-live-p (process-buffer lisp)) (slime-inferior-lisp-args lisp))
                (slime-lisp-options))
            (list :init #'slime-init-command :coding-system slime-net-coding-system
                  :server (file-name-directory (expand-file-name slime-backend slime-path))))))

(defun agent-q-slime-connect (port lisp name function)
  "Connect to the server at PORT of the process LISP, under NAME.
SLIME doesn't know of the connection: it is in no list, takes no REPL, and no
hook of the user's runs.  Call FUNCTION with its process, once it can be used."
  (let* ((slime-net-processes nil)
         (slime-connection-counter 0)
         (process (slime-net-connect "127.0.0.1" port)))
    (set-process-query-on-exit-flag process nil)
    (set-process-filter process #'agent-q-slime--read)
    (set-process-sentinel process (lambda (process message)
                                    (let ((inhibit-message t)
                                          (message-log-max nil))
                                      (slime-net-sentinel process message))))
    (process-put process 'agent-q-name name)
    (with-current-buffer (process-buffer process)
      (setq slime-buffer-connection process))
    (slime-set-inferior-process process lisp)
    (agent-q-slime-rex process '(swank:connection-info) t
                        (lambda (result)
                          (agent-q-slime--connected process (plist-get result :ok))
                          (funcall function process)))))

(defun agent-q-slime--connected (process info)
  "Note INFO, the description that the Lisp behind PROCESS gives of itself."
  (let ((slime-connected-hook nil)
        (slime-net-processes nil)
        (slime-protocol-version 'ignore)
        (inhibit-message t)
        (message-log-max nil))
    (cl-letf (((symbol-function 'slime-load-contribs) #'ignore))
      (slime-set-connection-info process info))))

(defun agent-q-slime--read (process bytes)
  "Let SLIME read BYTES from PROCESS, and know that it does."
  (let ((slime-log-events nil)
        (reading (process-get process 'agent-q-reading)))
    (process-put process 'agent-q-reading t)
    (unwind-protect
        (slime-net-filter process bytes)
      (process-put process 'agent-q-reading reading))))

(defun agent-q-slime-disconnect (process)
  "Close the connection PROCESS."
  (cond ((not (process-live-p process)))
        ;; SLIME would read on in another buffer, as its own is gone.
        ((process-get process 'agent-q-reading)
         (run-at-time 0.05 nil #'agent-q-slime-disconnect process))
        (t (slime-net-close process))))

(defconst agent-q-slime-client
  (list :name "SLIME"
        :feature 'slime
        :wire :swank
        :throw-to-toplevel '(swank:throw-to-toplevel)
        :abort-level '(swank:sldb-abort)
        :dispatch #'agent-q-slime-dispatch
        :connections #'agent-q-slime-connections
        :connection-name #'agent-q-slime-name
        :implementation #'agent-q-slime-implementation
        :buffer #'agent-q-slime-buffer
        :repl-package #'agent-q-slime-repl-package
        :features #'slime-lisp-features
        :from-lisp #'agent-q-slime-from-lisp
        :to-lisp #'agent-q-slime-to-lisp
        :rex #'agent-q-slime-rex
        :rex-id #'agent-q-slime-rex-id
        :threads-p #'agent-q-slime-threads-p
        :requests #'agent-q-slime-requests
        :interrupt #'agent-q-slime-interrupt
        :edit-definition #'agent-q-slime-edit-definition
        :describe #'agent-q-slime-describe
        :inspect #'agent-q-slime-inspect
        :logging 'slime-log-events
        :start-options #'agent-q-slime-start-options
        :connect #'agent-q-slime-connect
        :disconnect #'agent-q-slime-disconnect
        :install #'agent-q-slime-install)
  "What agent-q-image.el needs of SLIME.")

(provide 'agent-q-slime)
;;; agent-q-slime.el ends here
