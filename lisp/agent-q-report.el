;;; agent-q-report.el --- A bug report to be read and sent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Gathers what is needed to fix a bug, in a buffer that the user reads, completes and
;; sends.  It takes what Emacs has at hand: no image, no server and no core is asked or started.

;;; Code:

(require 'agent-q)
(require 'agent-q-debug)
(require 'agent-q-events)
(require 'agent-q-findings)
(require 'agent-q-image-connection)
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-secrets)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'lisp-mnt)
(require 'pp)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defconst agent-q-report--lines 60
  "Number of lines of a log in a report.")

(defconst agent-q-report--bytes 65536
  "Bytes of the end of a file that are searched for these lines.")

(defconst agent-q-report--width 400
  "Most characters of a line of a log in a report.")

(defconst agent-q-report--beginning
  "Please write below what you did, what you expected and what you saw instead. Then read
everything before you send it: nothing was sent yet, and you can change or delete what you
like. Keys and passwords are masked where they were recognized, but the options and the last
lines of the logs can have names, code and paths of yours in them.

What I did:


What I expected:


What I saw:


"
  "The beginning of a report, which the user completes.")

;;;; Versions

(defun agent-q-report--client (feature version)
  "Return a text about the Lisp client FEATURE; VERSION is a function.
That is called when the client is loaded."
  (cond ((featurep feature) (format "%s, loaded" (or (funcall version) "of an unknown version")))
        ((locate-library (symbol-name feature)) "found, not loaded")
        (t "not found")))

(defun agent-q-report--core ()
  "Return a text about the core."
  (let ((manifest (agent-q-module-manifest)))
    (format "interface %s for %s, wanted is %d; %s"
            (or (alist-get 'interface manifest) "unknown") (or (alist-get 'host manifest) "unknown")
            agent-q-module-interface
            (if (agent-q-module-loaded-p)
                (format "loaded is %s" (agent-q-core-interface))
              "not loaded"))))

(defun agent-q-report--lisps ()
  "Return the connected Lisps, as texts."
  (mapcar (lambda (connection)
            (format "%s: %s through %s" (agent-q-image-label connection)
                    (agent-q-image-ask connection :implementation)
                    (agent-q-image-client connection :name)))
          (agent-q-image-connections)))

(defun agent-q-report--versions ()
  "Return what there is, with its versions."
  (mapconcat
   (pcase-lambda (`(,name . ,text)) (format "%-12s %s\n" name text))
   `(("agent-q" . ,(or (ignore-errors
                         (lm-version (expand-file-name "agent-q-module.el"
                                                       agent-q-module-directory)))
                       "unknown"))
     ("Core" . ,(agent-q-report--core))
     ("Emacs" . ,(format "%s (%s), %s" emacs-version system-configuration
                         (cond (noninteractive "batch") (window-system) (t "in a terminal"))))
     ("System" . ,(format "%s" system-type))
     ("SLY" . ,(agent-q-report--client 'sly (lambda () (bound-and-true-p sly-protocol-version))))
     ("SLIME" . ,(agent-q-report--client 'slime (lambda () (bound-and-true-p slime-version))))
     ,@(mapcar (lambda (lisp) (cons "Lisp" lisp)) (or (agent-q-report--lisps) '("none connected"))))
   ""))

;;;; What the doctor says

(defun agent-q-report--doctor ()
  "Return all findings but model servers, which would have to be looked for."
  (let ((agent-q-providers
         ;; A function that returns a key may take long, or ask for a passphrase.
         (mapcar (pcase-lambda (`(,name . ,properties))
                   (if (functionp (plist-get properties :key))
                       `(,name :key "from a function" ,@properties)
                     (cons name properties)))
                 agent-q-providers)))
    (agent-q-findings 'unasked)))

;;;; Options

(defun agent-q-report--public (value)
  "Return VALUE of an option without what is secret by its place."
  (cond ((and (functionp value) (not (symbolp value))) 'a-function)
        ((proper-list-p value)
         (let ((result nil)
               (secret nil))
           (dolist (part value (nreverse result))
             (push (if secret 'masked (agent-q-report--public part)) result)
             (setq secret (and (not secret)
                               (memq part '(:key :headers :body :first-body)))))))
        ((consp value)
         (cons (agent-q-report--public (car value)) (agent-q-report--public (cdr value))))
        (t value)))

(defun agent-q-report--standard (option)
  "Return the default of OPTION."
  (eval (car (get option 'standard-value)) t))

(defun agent-q-report--option (option)
  "Return lines about OPTION, or nil where its default is in force."
  (let ((value (default-value option)))
    (unless (equal value (agent-q-report--standard option))
      (format "%s: %s\n" option
              (agent-q-secrets-cut
               (string-trim (pp-to-string (agent-q-report--public value))) 2000)))))

(defun agent-q-report--options ()
  "Return the options that don't have their defaults, with their values."
  (custom-load-symbol 'agent-q)
  (let ((options nil))
    (mapatoms (lambda (symbol)
                (when (and (string-prefix-p "agent-q-" (symbol-name symbol))
                           (get symbol 'standard-value)
                           (default-boundp symbol))
                  (push symbol options))))
    (mapconcat (lambda (option)
                 (condition-case failure
                     (agent-q-report--option option)
                   (error (format "%s: %s\n" option (error-message-string failure)))))
               (sort options #'string<) "")))

;;;; Logs

(defun agent-q-report--last-lines (text)
  "Return the last lines of TEXT, none of them long, without secrets."
  (let ((lines (split-string (agent-q-secrets-masked text) "\n" t)))
    (mapconcat (lambda (line)
                 (concat (agent-q-visible-line line agent-q-report--width) "\n"))
               (last lines agent-q-report--lines) "")))

(defun agent-q-report--log-file ()
  "Return the name of the core's log."
  (or (and (agent-q-events-running-p)
           (ignore-errors (plist-get (agent-q-core-status) :log-file)))
      (expand-file-name agent-q-log-file)))

(defun agent-q-report--end-of (file)
  "Return the end of FILE from the beginning of a line, or an empty text."
  (with-temp-buffer
    (when (and (not (file-remote-p file)) (file-regular-p file) (file-readable-p file))
      (let* ((size (file-attribute-size (file-attributes file)))
             (start (max 0 (- size agent-q-report--bytes)))
             (coding-system-for-read 'utf-8-unix))
        (insert-file-contents file nil start size)
        ;; The beginning of a line that is cut could be that of a secret, too.
        (unless (zerop start)
          (delete-region (point-min) (progn (forward-line 1) (point))))))
    (buffer-string)))

(defun agent-q-report--end-of-buffer (name)
  "Return the end of the buffer called NAME, or an empty text."
  (if (get-buffer name)
      (with-current-buffer name
        (save-excursion
          (save-restriction
            (widen)
            (goto-char (max (point-min) (- (point-max) agent-q-report--bytes)))
            (unless (bobp) (forward-line 1))
            (buffer-substring-no-properties (point) (point-max)))))
    ""))

;;;; The report

(defun agent-q-report--section (title text)
  "Return a section called TITLE with the string TEXT, if that has anything in it."
  (if (string-empty-p (or text ""))
      (format "## %s\n\nNothing.\n\n" title)
    (format "## %s\n\n```text\n%s\n```\n\n" title (string-trim-right text))))

(defun agent-q-report--text ()
  "Return the whole report, without secrets."
  (agent-q-report--abbreviated
   (agent-q-secrets-masked
    (concat
     agent-q-report--beginning
     (agent-q-report--section "Versions" (agent-q-report--versions))
     (agent-q-report--section "What the doctor says" (agent-q-report--doctor))
     (agent-q-report--section "Options that are not as they come" (agent-q-report--options))
     (let ((file (agent-q-report--log-file)))
       (agent-q-report--section (format "The end of the core's log, %s" file)
                                (agent-q-report--last-lines (agent-q-report--end-of file))))
     (agent-q-report--section "The end of *agent-q-log*"
                              (agent-q-report--last-lines
                               (agent-q-report--end-of-buffer "*agent-q-log*")))
     (agent-q-report--section "The end of *agent-q debug*"
                              (agent-q-report--last-lines
                               (or (agent-q-debug-last-lines agent-q-report--lines) ""))))
    (agent-q-secrets-known t))))

(defun agent-q-report--abbreviated (text)
  "Return TEXT with the name of the home directory as ~."
  (dolist (home (delete-dups (mapcar #'directory-file-name
                                     (list (expand-file-name "~") (file-truename "~"))))
                text)
    (unless (member home '("/" ""))
      (setq text (replace-regexp-in-string
                  (concat (regexp-quote home) "\\([^A-Za-z0-9_.-]\\|\\'\\)") "~\\1" text t)))))

;;;###autoload
(defun agent-q-report-bug ()
  "Prepare a bug report in a buffer: versions, findings, options, ends of logs.
Nothing is sent.  Keys are masked; read it all the same before you send it.
With `agent-q-debug' on while the bug shows, its last lines are in it."
  (interactive)
  (let ((buffer (get-buffer-create "*agent-q bug report*")))
    (with-current-buffer buffer
      ;; On a remote host, looking for programs would take long.
      (setq default-directory (expand-file-name "~/"))
      (let ((text (agent-q-report--text)))
        (erase-buffer)
        (text-mode)
        (insert (substring-no-properties text)))
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer buffer)))

(provide 'agent-q-report)
;;; agent-q-report.el ends here
