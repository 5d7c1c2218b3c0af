;;; agent-q-test-image.el --- Real Lisp images for tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Starts SBCL through SLIME and, where it is installed or SLY_DIR names a
;; checkout, through SLY.  What can't be started is said in one line.

;;; Code:

(require 'cl-lib)
(require 'package)
(require 'agent-q-image)

(defvar inferior-lisp-program)
(defvar slime-connected-hook)
(defvar slime-kill-without-query-p)
(defvar slime-net-processes)
(defvar sly-net-processes)
(defvar sly-connected-hook)
(defvar sly-kill-without-query-p)
(declare-function slime-setup "ext:slime")
(declare-function slime-start "ext:slime")
(declare-function slime-inferior-process "ext:slime")
(declare-function sly "ext:sly")
(declare-function package-load-all-descriptors "package")
(declare-function sly-inferior-process "ext:sly")

(defun agent-q-test-image-await (condition &optional seconds)
  "Wait until the function CONDITION returns non-nil, and return that.
After SECONDS, by default 60, the value is nil."
  (let ((end (+ (float-time) (or seconds 60)))
        value)
    (while (and (not (setq value (funcall condition)))
                (< (float-time) end))
      (accept-process-output nil 0.01))
    value))

(defun agent-q-test-image--find (client)
  "Load CLIENT, a symbol, from where it is installed.
The value is nil when it isn't installed."
  (let ((directory (getenv (format "%s_DIR" (upcase (symbol-name client))))))
    (when directory (add-to-list 'load-path directory))
    (unless (locate-library (symbol-name client))
      ;; Where Debian has Emacs packages; `emacs -Q' leaves it out.
      (add-to-list 'package-directory-list "/usr/share/emacs/site-lisp/elpa")
      (package-load-all-descriptors)
      (ignore-errors (package-activate client)))
    (require client nil t)))

(defun agent-q-test-image--start-slime ()
  "Start SBCL through SLIME."
  (slime-setup)
  (slime-start :program "sbcl" :program-args '("--no-userinit" "--no-sysinit")
               :name 'sbcl :buffer "*inferior-lisp*"))

(defun agent-q-test-image--start-sly ()
  "Start SBCL through SLY."
  (let ((inferior-lisp-program "sbcl --no-userinit --no-sysinit"))
    (save-window-excursion (sly))))

(defvar agent-q-test-image--started nil
  "Connections by client; `missing' for a client that isn't here.")

(defun agent-q-test-image-connection (client)
  "Return a connection to a running SBCL through CLIENT, or nil without it."
  (let ((known (alist-get client agent-q-test-image--started)))
    (cond ((eq known 'missing) nil)
          ((agent-q-image-live-p known) known)
          (t
           (let ((found (and (executable-find "sbcl")
                             (agent-q-test-image--find client))))
             (unless found
               (message "Not found, tests through it are skipped: SBCL with %s." client))
             (setf (alist-get client agent-q-test-image--started)
                   (if found (agent-q-test-image--connect client) 'missing))
             (and found (alist-get client agent-q-test-image--started)))))))

(defun agent-q-test-image--connect (client)
  "Return a new connection to a new SBCL through CLIENT."
  (let ((hook (intern (format "%s-connected-hook" client)))
        (connected nil))
    (set (intern (format "%s-kill-without-query-p" client)) t)
    (let ((note (lambda (&rest _) (setq connected t))))
      (add-hook hook note)
      (funcall (intern (format "agent-q-test-image--start-%s" client)))
      (unless (agent-q-test-image-await (lambda () connected) 120)
        (error "SBCL did not start through %s" client))
      (remove-hook hook note))
    (cl-find client (agent-q-image-connections) :key #'agent-q-image-connection-client)))

(defun agent-q-test-image-process (connection)
  "Return the Lisp process behind CONNECTION."
  (funcall (intern (format "%s-inferior-process"
                           (agent-q-image-connection-client connection)))
           (agent-q-image-connection-process connection)))

(defun agent-q-test-image-call (connection operation arguments &optional seconds)
  "Call OPERATION with the list ARGUMENTS over CONNECTION and wait for its end.
The value is (STATUS . REPLY), the reply read when it is one."
  (let ((ends nil))
    (agent-q-image-call connection (list 'test (gensym)) operation
                        (prin1-to-string arguments) (or seconds 30)
                        (lambda (status payload) (push (cons status payload) ends)))
    (agent-q-test-image-await (lambda () ends))
    (cl-assert (= 1 (length ends)) t)
    (agent-q-test-image-read (car ends))))

(defun agent-q-test-image-read (end)
  "Return END, a status with its payload, with a reply read."
  (if (and (cdr end) (string-prefix-p "(:outcome " (cdr end)))
      (cons (car end) (car (read-from-string (cdr end))))
    end))

(provide 'agent-q-test-image)
;;; agent-q-test-image.el ends here
