;;; agent-q-sly.el --- SLY as agent-q's way to a Lisp image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The few functions of SLY that the call layer in agent-q-image.el stands on.
;; SLY need not be installed: nothing here runs before it has a connection.

;;; Code:

(require 'cl-lib)

(defvar sly-net-processes)
(defvar sly-connection-counter)
(defvar sly-connected-hook)
(defvar sly-ignore-protocol-mismatches)
(defvar sly-buffer-connection)
(defvar sly-net-coding-system)
(defvar sly-path)
(defvar sly-init-function)
(defvar sly-event-hooks)
(defvar sly-net-process-close-hooks)
(defvar sly-dispatching-connection)
(defvar sly-log-events)
(defvar sly-buffer-package)

(declare-function sly-current-connection "ext:sly")
(declare-function sly-connection-name "ext:sly" t t)
(declare-function sly-lisp-implementation-type "ext:sly" t t)
(declare-function sly-lisp-implementation-version "ext:sly" t t)
(declare-function sly-lisp-features "ext:sly" t t)
(declare-function sly-inferior-process "ext:sly" t t)
(declare-function sly-communication-style "ext:sly" t t)
(declare-function sly-pid "ext:sly" t t)
(declare-function sly-rex-continuations "ext:sly" t t)
(declare-function sly-from-lisp-filename "ext:sly")
(declare-function sly-to-lisp-filename "ext:sly")
(declare-function sly-edit-definition "ext:sly" (&optional name method))
(declare-function sly-describe-symbol "ext:sly" (symbol-name))
(declare-function sly-inspect "ext:sly" (string &optional inspector-name))
(declare-function sly-inferior-lisp-args "ext:sly" (process))
(declare-function sly--read-interactive-args "ext:sly")
(declare-function sly-net-connect "ext:sly" (host port))
(declare-function sly-net-filter "ext:sly" (process string))
(declare-function sly-net-sentinel "ext:sly" (process message))
(declare-function sly-net-close "ext:sly" (connection reason &optional debug force))
(declare-function sly-set-inferior-process "ext:sly" (connection process))
(declare-function sly-set-connection-info "ext:sly" (connection info))
(declare-function sly-dispatch-event "ext:sly" (event &optional process))

(defun agent-q-sly-connections ()
  "Return the open connections of SLY, the user's current one first."
  ;; `featurep' looks through hundreds of names.
  (when (bound-and-true-p sly-net-processes)
    (let ((current (sly-current-connection)))
      ;; Each call into an image asks, and `seq-filter' takes as long as all the rest.
      (cl-loop for process in (if (memq current sly-net-processes)
                                  (cons current (remq current sly-net-processes))
                                sly-net-processes)
               when (agent-q-sly--ready-p process) collect process))))

(defun agent-q-sly--ready-p (process)
  "Return non-nil when PROCESS is open, and the Lisp has said who it is."
  (and (process-live-p process)
       (sly-connection-name process)))

(defun agent-q-sly-name (process)
  "Return the name of the connection PROCESS in SLY, or the one that we gave it."
  (or (process-get process 'agent-q-name)
      (sly-connection-name process)))

(defun agent-q-sly-implementation (process)
  "Return the Lisp at the other end of PROCESS, such as \"SBCL 2.2.9\"."
  (format "%s %s"
          (or (sly-lisp-implementation-type process) "Lisp")
          (or (sly-lisp-implementation-version process) "")))

(defun agent-q-sly-buffer (process)
  "Return the buffer with the output of the Lisp behind PROCESS, or nil."
  (let ((lisp (sly-inferior-process process)))
    (and lisp (process-buffer lisp))))

(defun agent-q-sly-repl-package (process)
  "Return the package at the last prompt of the REPL of PROCESS, or nil."
  (let* ((sly-dispatching-connection process)
         (repl (and (fboundp 'sly-mrepl--find-buffer)
                    (sly-mrepl--find-buffer process)))
         (prompt (and (buffer-live-p repl)
                      (buffer-local-value 'sly-mrepl--last-prompt-overlay repl)))
         (package (and (overlayp prompt) (overlay-buffer prompt)
                       (get-text-property (overlay-start prompt) 'sly-mrepl--prompt repl))))
    ;; SLY keeps it in lower case.
    (and package (upcase package))))

(defun agent-q-sly-from-lisp (process file)
  "Return the local name of FILE on the machine behind PROCESS."
  (let ((sly-dispatching-connection process))
    (sly-from-lisp-filename file)))

(defun agent-q-sly-to-lisp (process file)
  "Return the name of FILE on the machine behind PROCESS."
  (let ((sly-dispatching-connection process))
    (sly-to-lisp-filename file)))

(defun agent-q-sly-rex (process form thread continuation)
  "Evaluate FORM in THREAD of the Lisp behind PROCESS.
CONTINUATION is called with (:ok VALUE) or (:abort CONDITION)."
  ;; After each call SLY looks for macros in all of the package that it is made in: the one in which
  ;; it reads its messages has but a few.
  ;;
  ;; SLY pretty-prints what it logs, which takes longer than the rest of a call.
  (let ((sly-dispatching-connection process)
        (sly-log-events nil))
    (sly-dispatch-event
     (list :emacs-rex form "SLYNK-IO-PACKAGE" thread continuation)
     process)))

(defun agent-q-sly-rex-id (process continuation)
  "Return the id of CONTINUATION on PROCESS, or nil."
  (car (rassq continuation (sly-rex-continuations process))))

(defun agent-q-sly-dispatch (process event)
  "Let SLY handle EVENT, which came over PROCESS."
  (sly-dispatch-event event process))

(defun agent-q-sly-install (on-event on-close)
  "Call ON-EVENT and ON-CLOSE for what happens on connections of SLY.
ON-EVENT gets the connection and the event; a value other than nil
keeps SLY from handling it.  ON-CLOSE gets the connection."
  (add-hook 'sly-event-hooks
            (agent-q-sly--listener on-event))
  (add-hook 'sly-net-process-close-hooks on-close))

(defvar agent-q-sly--listeners nil
  "Functions on `sly-event-hooks', by what they call.
Kept so that installing one twice leaves one.")

(defun agent-q-sly--listener (on-event)
  "Return the event hook function for ON-EVENT."
  (or (cdr (assq on-event agent-q-sly--listeners))
      (let ((listener (lambda (event)
                        (funcall on-event sly-dispatching-connection event))))
        (push (cons on-event listener) agent-q-sly--listeners)
        listener)))

(defun agent-q-sly-threads-p (process)
  "Return non-nil when each call over PROCESS has a thread of its own."
  (eq :spawn (sly-communication-style process)))

(defun agent-q-sly-requests (process)
  "Return the ids of all that PROCESS has not answered yet."
  (mapcar #'car (sly-rex-continuations process)))

(defun agent-q-sly-interrupt (process)
  "Interrupt what the Lisp behind PROCESS does, as its terminal could.
Return nil when it was not started here."
  (let ((lisp (sly-inferior-process process))
        (pid (sly-pid process)))
    (and lisp pid (process-live-p lisp)
         (eql 0 (signal-process pid 'SIGINT)))))

(defun agent-q-sly-edit-definition (process name package)
  "Go to the definition of NAME, read in PACKAGE, in the Lisp behind PROCESS."
  (let ((sly-dispatching-connection process)
        (sly-buffer-package package))
    (sly-edit-definition name)))

(defun agent-q-sly-describe (process name package)
  "Describe NAME, read in PACKAGE, of the Lisp behind PROCESS."
  (let ((sly-dispatching-connection process)
        (sly-buffer-package package))
    (sly-describe-symbol name)))

(defun agent-q-sly-inspect (process form)
  "Open the inspector on the value of FORM, a text, in the Lisp behind PROCESS."
  (let ((sly-dispatching-connection process)
        (sly-buffer-package "COMMON-LISP-USER"))
    (sly-inspect form)))

;;;; A Lisp that the user doesn't see

(defun agent-q-sly-start-options (process)
  "Return how the Lisp behind PROCESS was started, as `sly-start' takes it.
Where it was not started here, or PROCESS is nil, return how a new one would be.
The folder of the server's sources is in it, too."
  (let ((lisp (and process (sly-inferior-process process))))
    (append (or (and lisp (sly-inferior-lisp-args lisp))
                (let ((current-prefix-arg nil))
                  (sly--read-interactive-args)))
            (list :init sly-init-function :coding-system sly-net-coding-system :server sly-path))))

(defun agent-q-sly-connect (port lisp name function)
  "Connect to the server at PORT of the process LISP, under NAME.
SLY doesn't know of the connection: it is in no list, takes no REPL, and no
hook of the user's runs.  Call FUNCTION with its process, once it can be used."
  (let* ((sly-net-processes nil)
         (sly-connection-counter 0)
         (process (sly-net-connect "127.0.0.1" port)))
    (set-process-query-on-exit-flag process nil)
    (set-process-filter process #'agent-q-sly--read)
    (set-process-sentinel process (lambda (process message)
                                    (let ((inhibit-message t)
                                          (message-log-max nil))
                                      (sly-net-sentinel process message))))
    (process-put process 'agent-q-name name)
    (with-current-buffer (process-buffer process)
      (setq sly-buffer-connection process))
    (sly-set-inferior-process process lisp)
    (agent-q-sly-rex process '(slynk:connection-info) t
                        (lambda (result)
                          (agent-q-sly--connected process (plist-get result :ok))
                          (funcall function process)))))

(defun agent-q-sly--connected (process info)
  "Note INFO, the description that the Lisp behind PROCESS gives of itself."
  (let ((sly-connected-hook nil)
        (sly-net-processes nil)
        (sly-ignore-protocol-mismatches t)
        (inhibit-message t)
        (message-log-max nil))
    (cl-letf (((symbol-function 'sly-contrib--load-slynk-dependencies) #'ignore)
              ((symbol-function 'sly--events-buffer) (lambda (&rest _) (current-buffer)))
              ((symbol-function 'sly--trampling-rename-buffer) #'ignore))
      (sly-set-connection-info process info))))

(defun agent-q-sly--read (process bytes)
  "Let SLY read BYTES from PROCESS, and know that it does."
  (let ((sly-log-events nil)
        (reading (process-get process 'agent-q-reading)))
    (process-put process 'agent-q-reading t)
    (unwind-protect
        (sly-net-filter process bytes)
      (process-put process 'agent-q-reading reading))))

(defun agent-q-sly-disconnect (process)
  "Close the connection PROCESS."
  (cond ((not (process-live-p process)))
        ;; SLY would read on in another buffer, as its own is gone.
        ((process-get process 'agent-q-reading)
         (run-at-time 0.05 nil #'agent-q-sly-disconnect process))
        (t (sly-net-close process "It is no longer needed"))))

(defconst agent-q-sly-client
  (list :name "SLY"
        :feature 'sly
        :wire :slynk
        :throw-to-toplevel '(slynk:throw-to-toplevel)
        :abort-level '(slynk:sly-db-abort)
        :dispatch #'agent-q-sly-dispatch
        :connections #'agent-q-sly-connections
        :connection-name #'agent-q-sly-name
        :implementation #'agent-q-sly-implementation
        :buffer #'agent-q-sly-buffer
        :repl-package #'agent-q-sly-repl-package
        :features #'sly-lisp-features
        :from-lisp #'agent-q-sly-from-lisp
        :to-lisp #'agent-q-sly-to-lisp
        :rex #'agent-q-sly-rex
        :rex-id #'agent-q-sly-rex-id
        :threads-p #'agent-q-sly-threads-p
        :requests #'agent-q-sly-requests
        :interrupt #'agent-q-sly-interrupt
        :edit-definition #'agent-q-sly-edit-definition
        :describe #'agent-q-sly-describe
        :inspect #'agent-q-sly-inspect
        :logging 'sly-log-events
        :start-options #'agent-q-sly-start-options
        :connect #'agent-q-sly-connect
        :disconnect #'agent-q-sly-disconnect
        :install #'agent-q-sly-install)
  "What agent-q-image.el needs of SLY.")

(provide 'agent-q-sly)
;;; agent-q-sly.el ends here
