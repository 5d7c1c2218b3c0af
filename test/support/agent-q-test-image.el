;;; agent-q-test-image.el --- Real Lisp images for tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Starts Lisps, SBCL unless told otherwise, through SLIME and, where it is
;; installed or SLY_DIR names a checkout, through SLY.  What can't be started
;; is said in one line.  Where AGENT_Q_TEST_CORES names a folder with images that
;; were saved, by `agent-q-test-image-save-each', those are what SBCL starts.

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'package)
(require 'agent-q-image)
(require 'agent-q-image-source)
(require 'agent-q-module)

;; A machine that does other things may need longer for the first file.
(setq agent-q-image-source--seconds 60)

(defvar slime-connected-hook)
(defvar slime-kill-without-query-p)
(defvar slime-net-processes)
(defvar sly-net-processes)
(defvar sly-connected-hook)
(defvar sly-kill-without-query-p)
(declare-function slime-setup "ext:slime")
(declare-function slime-inferior-process "ext:slime")
(declare-function package-load-all-descriptors "package")
(declare-function sly-inferior-process "ext:sly")

(defun agent-q-test-image-await (condition &optional seconds)
  "Wait for the function CONDITION to be non-nil, and return its value.
After SECONDS, by default 60, the value is nil."
  (let ((end (+ (float-time) (or seconds 60)))
        value)
    (while (and (not (setq value (funcall condition)))
                (< (float-time) end))
      (accept-process-output nil 0.01))
    value))

(defun agent-q-test-image--directory (client)
  "Return the folder of CLIENT that the environment names, or nil.
A run of all files names those of the clients that are there."
  (getenv (format "%s_DIR" (upcase (symbol-name client)))))

(defun agent-q-test-image--find (client)
  "Load CLIENT, a symbol, from where it is installed.
The value is nil when it isn't installed."
  (let ((directory (agent-q-test-image--directory client)))
    (when directory (add-to-list 'load-path directory))
    (unless (locate-library (symbol-name client))
      ;; Where Debian has Emacs packages; `emacs -Q' leaves it out.
      (add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa")
      (package-load-all-descriptors)
      (ignore-errors (package-activate client)))
    (require client nil t)))

;; Where a newer ASDF is installed, ASDF puts it in the place of the one that a Lisp comes with.  That
;; takes ABCL most of a minute, ECL 21 can't load the clients' servers then, and CLISP warns a lot.
(defconst agent-q-test-image--own-asdf
  '("(require \"asdf\")" "(funcall (find-symbol \"REGISTER-IMMUTABLE-SYSTEM\" \"ASDF\") \"asdf\")")
  "Forms by which a Lisp keeps the ASDF that it comes with.")

(defconst agent-q-test-image-programs
  (cl-flet ((evaluating (option)
              (mapcan (lambda (form) (list option form))
                      (copy-sequence agent-q-test-image--own-asdf))))
    `((sbcl "sbcl" "--no-userinit" "--no-sysinit")
      (ecl "ecl" "--norc" ,@(evaluating "--eval"))
      (abcl "abcl" "--noinit" "--nosystem" ,@(evaluating "--eval"))
      (clisp "clisp" "-norc" "-q" "-E" "utf-8" ,@(evaluating "-x") "-repl")))
  "The implementations that tests can run in, each with its command line.")

(defun agent-q-test-image--program (client &optional implementation)
  "Return the Lisp to start through CLIENT, with its arguments.
It is SBCL unless IMPLEMENTATION, of `agent-q-test-image-programs', is another."
  (pcase-let ((`(,program . ,arguments)
               (alist-get (or implementation 'sbcl) agent-q-test-image-programs))
              (core (agent-q-test-image--core client)))
    (if (and core (member implementation '(nil sbcl)))
        `(,program "--core" ,core ,@arguments)
      (cons program arguments))))

(defun agent-q-test-image--core (client)
  "Return the image that was saved for CLIENT, or nil."
  (let* ((folder (getenv "AGENT_Q_TEST_CORES"))
         (core (and folder (expand-file-name (format "%s.core" client) folder))))
    (and core (file-exists-p core) core)))

(defun agent-q-test-image--close-channel (close channel)
  "Call CLOSE with CHANNEL, which may be closed already.
SLY closes that of a REPL twice when its Lisp ends at the wrong moment; the error
in its sentinel would fail a test, or end an Emacs in batch mode."
  (ignore-errors (funcall close channel)))

(with-eval-after-load 'sly
  (advice-add 'sly-close-channel :around #'agent-q-test-image--close-channel))

;; The histories of the REPLs are the user's, not the tests'.
(defvar slime-repl-history-file)
(defvar sly-mrepl-history-file-name)
(let ((directory (make-temp-file "agent-q-histories" t)))
  (setq slime-repl-history-file (expand-file-name "slime" directory)
        sly-mrepl-history-file-name (expand-file-name "sly" directory))
  ;; The clients write them on the same hook.
  (add-hook 'kill-emacs-hook
            (lambda () (ignore-errors (delete-directory directory t)))
            90))

(defun agent-q-test-image--start (client program)
  "Start PROGRAM, a list of it and its arguments, through CLIENT."
  (let ((inhibit-message t))
    (when (eq client 'slime)
      (slime-setup))
    (save-window-excursion
      (funcall (intern (format "%s-start" client))
               :program (car program) :program-args (cdr program)
               :name (intern (car program)) :buffer (generate-new-buffer-name "*inferior-lisp*")))))

(defvar agent-q-test-image--started nil
  "Connections by client and implementation; `missing' for what isn't here.")

(defun agent-q-test-image-connection (client &optional implementation)
  "Return a connection through CLIENT to a running Lisp, or nil without it.
It is SBCL unless IMPLEMENTATION, of `agent-q-test-image-programs', is another."
  (agent-q-test-image--expect-tag)
  ;; It judges the files that an image names.
  (agent-q-module-ensure)
  (let* ((program (agent-q-test-image--program client implementation))
         (key (list client (car program)))
         (known (cdr (assoc key agent-q-test-image--started))))
    (cond ((eq known 'missing) nil)
          ((agent-q-connection-live-p known) known)
          (t
           (let ((found (and (executable-find (car program))
                             (agent-q-test-image--find client))))
             (unless found
               (message "Not found, tests through it are skipped: %s with %s."
                        (upcase (car program)) client))
             (setf (alist-get key agent-q-test-image--started nil nil #'equal)
                   (if found (agent-q-test-image--connect client program) 'missing))
             (and found (cdr (assoc key agent-q-test-image--started))))))))

(defun agent-q-test-image--expect-tag ()
  "Fail unless the running test says by a tag that it needs an image.
The quick tests are chosen by that."
  (let ((test (ert-running-test)))
    (when (and test (not (memq :image (ert-test-tags test))))
      (ert-fail (list (ert-test-name test) "needs an image, so it needs the tag :image")))))

(defun agent-q-test-image--connect (client &optional program)
  "Return a new connection to a new SBCL, or PROGRAM, through CLIENT."
  (agent-q-test-image--expect-tag)
  (let ((hook (intern (format "%s-connected-hook" client)))
        (before (agent-q-connection-connections))
        (processes (agent-q-test-image--processes client))
        (connected nil)
        (program (or program (agent-q-test-image--program client))))
    (set (intern (format "%s-kill-without-query-p" client)) t)
    (let ((note (lambda (&rest _) (setq connected t))))
      (add-hook hook note)
      (unwind-protect
          ;; About one start in a hundred through SLY gets no answer to its
          ;; first request, before anything of ours is sent.
          (cl-loop for seconds in '(60 60 180)
                   until connected
                   do (agent-q-test-image--start client program)
                   (unless (agent-q-test-image-await (lambda () connected) seconds)
                     (message "%s did not start through %s within %d s."
                              (car program) client seconds)
                     (agent-q-test-image--give-up client processes)))
        (remove-hook hook note))
      (unless connected
        (error "%s did not start through %s: %s"
               (car program) client
               (agent-q-test-image--outputs))))
    (cl-find-if-not (lambda (connection) (member connection before))
                    (agent-q-connection-connections))))

(defun agent-q-test-image--give-up (client earlier)
  "Kill the Lisps that CLIENT started and whose connections aren't EARLIER ones."
  (dolist (connection (agent-q-test-image--processes client))
    (unless (memq connection earlier)
      (let ((lisp (funcall (intern (format "%s-inferior-process" client)) connection)))
        (when (process-live-p lisp)
          (signal-process lisp 'SIGKILL)))
      (agent-q-test-image-await
       (lambda () (not (memq connection (agent-q-test-image--processes client))))))))

(defun agent-q-test-image--processes (client)
  "Return the processes of CLIENT's connections."
  (symbol-value (intern (format "%s-net-processes" client))))

(defun agent-q-test-image--outputs ()
  "Return the ends of what the Lisps that were started said, and of the messages."
  (mapconcat (lambda (buffer)
               (with-current-buffer buffer
                 (format "%s: %s" (buffer-name)
                         (buffer-substring-no-properties
                          (max (point-min) (- (point-max) 800)) (point-max)))))
             (cl-remove-if-not (lambda (buffer)
                                 (string-match-p "\\*inferior-lisp\\|\\*Messages\\|-events"
                                                 (buffer-name buffer)))
                               (buffer-list))
             "\n"))

(defun agent-q-test-image-another (client &optional program)
  "Return a connection to one more SBCL, or PROGRAM, through CLIENT.
The test has to kill it; CLIENT has one already."
  (agent-q-test-image--connect client program))

(defun agent-q-test-image-kill (connection)
  "Kill the Lisp behind CONNECTION, and wait until that is known."
  (when (agent-q-connection-live-p connection)
    (signal-process (agent-q-test-image-process connection) 'SIGKILL)
    ;; SLY writes its farewell wherever point is, in what was printed, too.
    (let ((inhibit-read-only t))
      (agent-q-test-image-await
       (lambda () (not (member connection (agent-q-connection-connections))))))))

(defun agent-q-test-image-process (connection)
  "Return the Lisp process behind CONNECTION."
  (funcall (intern (format "%s-inferior-process"
                           (agent-q-connection-client connection)))
           (agent-q-connection-process connection)))

(defun agent-q-test-image-call (connection operation arguments &optional seconds)
  "Call OPERATION with the list ARGUMENTS over CONNECTION and wait for its end.
The value is (STATUS . REPLY), the reply read when it is one."
  (let ((ends nil))
    (agent-q-image-call connection (list 'test (gensym)) operation
                        arguments (or seconds 30)
                        (lambda (status payload)
                          (push (agent-q-test-image-read status payload) ends)))
    (agent-q-test-image-await (lambda () ends))
    (cl-assert (= 1 (length ends)) t)
    (car ends)))

(defun agent-q-test-image-read (status payload)
  "Return STATUS with PAYLOAD, both of the call that ends, with a reply read.
Why it was stopped is in the reply, as the core adds it."
  (let* ((reply (agent-q-connection-call-reply payload))
         (added (read (or (agent-q-connection-call-added payload) "nil")))
         (because (plist-get added :because)))
    (cons status (if reply (append reply (and because (list :because because))) payload))))

;;;; Saved images

(defun agent-q-test-image-save (connection file)
  "Have the image behind CONNECTION write itself to FILE, which ends it.
That is done at its own prompt: an image with threads can't be saved.
The thread that closes connections goes first, since SLY's closes some
channels twice when others go, and the image dies of that.  SLIME's REPL
gives the streams back, where the next one would write to nobody."
  (let ((lisp (agent-q-test-image-process connection)))
    (process-send-string
     lisp
     (format "(progn (dolist (thread (sort (remove sb-thread:*current-thread*
                                                   (sb-thread:list-all-threads))
                                           #'>
                                           :key (lambda (it)
                                                  (if (search \"entinel\" (sb-thread:thread-name it))
                                                      1 0))))
                       ;; One that is unwinding may not hear it the first time.
                       (loop while (sb-thread:thread-alive-p thread)
                             do (ignore-errors (sb-thread:terminate-thread thread))
                                (sb-thread:join-thread thread :default nil :timeout 1)))
                     %s
                     (sb-ext:save-lisp-and-die %S))\n"
             (if (eq 'slime (agent-q-connection-client connection))
                 "(dolist (connection (shiftf swank::*connections* '()))
                    (swank::run-hook swank::*connection-closed-hook* connection))"
               "")
             file))
    (agent-q-test-image-await
     ;; SLY's clean-up in Emacs can trip over a channel that is closed, too.
     (lambda ()
       (ignore-errors (accept-process-output nil 0.01))
       (not (or (process-live-p lisp) (agent-q-connection-live-p connection)))))
    (cl-assert (not (process-live-p lisp)))))

(defun agent-q-test-image-save-each (folder)
  "Save into FOLDER an image with our half in it, compiled, for each client."
  (dolist (client '(slime sly))
    (when (agent-q-test-image--find client)
      (let ((connection (agent-q-test-image--connect client))
            (there nil))
        (agent-q-image-module--provide-all connection (agent-q-image-module--modules)
                                           (lambda (status _) (setq there (or status t))))
        (agent-q-test-image-await (lambda () there))
        (cl-assert (eq there t) t)
        (agent-q-test-image-await
         (lambda ()
           (equal "NIL" (agent-q-test-image-directly
                         connection "agent-q-image::*compiling*"))))
        (agent-q-test-image-save connection
                                 (expand-file-name (format "%s.core" client) folder))))))

;;;; Tests on each client

;;; The clients of a test

(defconst agent-q-test-image--about-clients
  '("connections" "debugger" "debugger-frames" "echo" "effects" "handles" "activity" "image" "scenarios"
    "torture")
  "The test files about what differs between the clients, without agent-q- and -test.")

(defun agent-q-test-image-clients (name)
  "Return the clients for which the test NAME is defined.
Those are both, but where AGENT_Q_TEST_ONCE is set it is one for a test that isn't about them."
  (let ((file (file-name-base (or load-file-name buffer-file-name "")))
        (clients '(slime sly)))
    (if (or (not (getenv "AGENT_Q_TEST_ONCE"))
            (member file (mapcar (lambda (about) (format "agent-q-%s-test" about))
                                 agent-q-test-image--about-clients)))
        clients
      (let ((there (cl-remove-if-not #'agent-q-test-image--directory clients)))
        ;; The same one in each run; half of the tests of a file take the other.
        (list (if (cdr there)
                  (nth (logand 1 (seq-reduce #'+ (format "%s" name) 0)) there)
                (or (car there) 'slime)))))))

(defmacro agent-q-test-image-on-each (name arguments docstring &rest body)
  "Define a test NAME for each client, with CONNECTION bound in BODY.
ARGUMENTS is empty; DOCSTRING says what is shown."
  (declare (indent defun) (doc-string 3) (debug t))
  (ignore arguments)
  `(progn
     ,@(mapcar
        (lambda (client)
          `(ert-deftest ,(intern (format "agent-q-image-%s/%s" name client)) ()
             ,docstring
             :tags '(:image ,(intern (format ":%s" client)))
             (let ((connection (agent-q-test-image-connection ',client)))
               (unless connection (ert-skip (format "No SBCL through %s" ',client)))
               ,@body
               ;; Emacs may still ask which tools the program offers.
               (should (agent-q-test-image-await
                        (lambda () (zerop (agent-q-connection-pending))) 20))
               (should-not (agent-q-test-image-debugged)))))
        (agent-q-test-image-clients name))))

(defun agent-q-test-image-debuggers ()
  "Return the debugger buffers that are open."
  (cl-remove-if-not (lambda (buffer)
                      (string-match-p "\\*sl\\(db\\|y-db\\)" (buffer-name buffer)))
                    (buffer-list)))

(defun agent-q-test-image-debugged ()
  "Return the texts of the debuggers that are open, which name the error and the thread."
  (mapcar (lambda (buffer)
            (with-current-buffer buffer
              (concat (buffer-name) ": " (buffer-substring-no-properties
                                          (point-min) (min (point-max) 4000)))))
          (agent-q-test-image-debuggers)))

(defun agent-q-test-image-value (connection operation &rest arguments)
  "Return the value of OPERATION called with ARGUMENTS over CONNECTION."
  (pcase (agent-q-test-image-call connection operation arguments)
    (`("done" :outcome :returned :value ,value . ,_) value)
    (other (ert-fail other))))

(defun agent-q-test-image-reply (connection operation &rest arguments)
  "Return the reply to OPERATION called with ARGUMENTS over CONNECTION."
  (let ((end (agent-q-test-image-call connection operation arguments)))
    (should (equal "done" (car end)))
    (cdr end)))

(defun agent-q-test-image-eval (connection form &rest arguments)
  "Return the reply to evaluating the text FORM over CONNECTION.
ARGUMENTS are more arguments of the operation."
  (apply #'agent-q-test-image-reply connection "eval-form" :form form arguments))

(defun agent-q-test-image-values (connection form &rest arguments)
  "Return the values of the last form in the text FORM.
It is evaluated over CONNECTION with more ARGUMENTS."
  (let ((reply (apply #'agent-q-test-image-eval connection form arguments)))
    (should (eq :returned (plist-get reply :outcome)))
    (plist-get (car (last (plist-get (plist-get reply :value) :forms))) :values)))

(defun agent-q-test-image-names (connection text &optional package)
  "Return the name of TEXT, read in PACKAGE, and what it is.
It is described over CONNECTION."
  (let ((value (agent-q-test-image-value connection "describe-symbol"
                                         :symbol text :package package)))
    (cons (plist-get value :name)
          (mapcar (lambda (facet) (plist-get facet :kind)) (plist-get value :facets)))))

(defconst agent-q-test-image-definitions "
(defpackage #:aq-test (:use #:cl) (:nicknames #:aq-nick) (:export #:shown))
(defpackage #:aq-user (:use #:cl) (:local-nicknames (#:at #:aq-test)))
(in-package #:aq-test)
(defun shown (x &key (y 1)) \"Show X.\" (list x y))
(defun hidden () 1)
(defun |Foo| () 1)
(defun (setf hidden) (new place) (list new place))
(defvar *level* 7 \"How much.\")
(defvar *unbound*)
(defconstant +limit+ 10)
(define-symbol-macro here (car *level*))
(defmacro twice (x) `(progn ,x ,x))
(defgeneric area (shape) (:documentation \"The area.\"))
(defclass shape () (width height) (:documentation \"A shape.\"))
(defmethod area ((shape shape)) 1)
(defstruct point x y)
(deftype small () '(integer 0 9))
(define-condition trouble (error) ())
(defclass touchy () ())
(defmethod print-object ((it touchy) stream) (declare (ignorable stream)) (error \"no\"))
(define-compiler-macro shown (&whole form x &key (y 1)) (if (eql y 2) `(quick ,x) form))
"
  "What the tests look at.")

(defun agent-q-test-image-define (connection)
  "Make `agent-q-test-image-definitions' part of the image behind CONNECTION."
  (agent-q-test-image-eval connection agent-q-test-image-definitions))

(defun agent-q-test-image-directly (connection form &optional package)
  "Return what the text FORM gives in PACKAGE behind CONNECTION, printed.
This is the bare client: nothing of agent-q's is in it."
  (let ((ends nil))
    (agent-q-connection-ask connection :rex
                        `(cl:let ((cl:*package* (cl:find-package ,(or package "COMMON-LISP-USER"))))
                                 (cl:prin1-to-string
                                  (cl:eval (cl:read-from-string ,form))))
                        t (lambda (result) (push result ends)))
    (agent-q-test-image-await (lambda () ends))
    (pcase ends
      (`((:ok ,value)) value)
      (_ (ert-fail (list "The image did not answer" form ends))))))

(defun agent-q-test-image-as-user (connection form continuation)
  "Evaluate FORM behind CONNECTION as its user's commands do, in CL-USER.
CONTINUATION gets the value."
  (funcall (intern (format "%s-eval-async" (agent-q-connection-client connection)))
           form continuation "COMMON-LISP-USER"))

(defun agent-q-test-image-load (connection file)
  "Compile and load FILE behind CONNECTION, as its user would."
  (agent-q-test-image-directly
   connection
   (format "(let ((*standard-output* (make-broadcast-stream))
                  (*error-output* (make-broadcast-stream)))
              (load (compile-file %S)))"
           file)))

;;;; Calls that are awaited later

(defun agent-q-test-image-start (connection form &optional seconds)
  "Start to evaluate FORM over CONNECTION for SECONDS.
The value is a cons of the request and the list of its ends."
  (let ((started (list (gensym "request"))))
    (agent-q-image-call connection (car started) "eval-form"
                        (list :form form) (or seconds 30)
                        (lambda (status payload)
                          (push (agent-q-test-image-read status payload)
                                (cdr started))))
    started))

(defun agent-q-test-image-end (started)
  "Wait for the end of what `agent-q-test-image-start' STARTED, and return it."
  (agent-q-test-image-await (lambda () (cdr started)))
  (should (= 1 (length (cdr started))))
  (cadr started))

(provide 'agent-q-test-image)
;;; agent-q-test-image.el ends here
