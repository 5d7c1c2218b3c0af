;;; agent-q-debug.el --- What passes between Emacs, the core and images, without keys  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; While `agent-q-debug' is on, each event of the core, each call of one of its functions, each of
;; its requests with the answer, and each call into an image with its end is a line of the buffer
;; *agent-q debug*.  While it is off, nothing of this file is in anybody's way.

;;; Code:

(require 'agent-q)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; Text without keys

;; Masks what is to be shown to others or kept: the keys that are known, as they are in the
;; options, the environment and auth-source, and whatever has the look of a key or a password.

(defconst agent-q-debug--secrets-mask "[masked]"
  "Text that replaces a secret.")

(defconst agent-q-debug--secrets-least 8
  "Least length of a secret that is masked wherever it occurs.
Shorter ones, such as a key that is \"none\", are in other words as well.")

(defconst agent-q-debug--secrets-most 4096
  "Longest secret, in characters, that cutting a text must not split.")

(defconst agent-q-debug--secrets-variable
  "\\`[^=]*\\(?:KEY\\|TOKEN\\|SECRET\\|PASSW\\|CREDENTIAL\\)[^=]*="
  "Matches variables of the environment that hold a secret.")

(defconst agent-q-debug--secrets-name
  (concat "\\(?:authorization\\|api[-_ ]?key\\|x-[a-z-]\\{0,20\\}key\\|[_-]\\(?:key\\|token\\)"
          "\\|secret\\|password\\|passwd\\|passphrase\\|\\(?:access\\|auth\\|bearer\\) ?token\\)")
  "Matches names of secrets, in any case.")

(defconst agent-q-debug--secrets-quoted
  (concat "\\(\\(?:" agent-q-debug--secrets-name "\\|[\"':(]key\\)\\\\*[\"']?"
          "\\(?:[ \t]\\{0,3\\}\\(?:[:=]+\\|\\.\\|=>\\)[ \t]\\{0,3\\}\\|[ \t]\\{1,3\\}\\)\\\\*[\"']\\)"
          "[^]\"'\\\\\n[(][^\"\\\\\n]*")
  "Matches a name with its value in quotes, as in JSON and in Lisp.")

(defconst agent-q-debug--secrets-bare
  (concat "\\(" agent-q-debug--secrets-name "[\"']?[ \t]\\{0,3\\}[:=]+[ \t]\\{0,3\\}"
          "\\(?:\\(?:bearer\\|basic\\|token\\)[ \t]+\\)?\\)"
          "[^]\"'\\\\ \t\n,;(){}<>[]+")
  "Matches a name with its value as it stands in headers and assignments.")

(defconst agent-q-debug--secrets-shapes
  (list
   ;; Of hosts that give their keys a beginning of their own.
   (concat "\\b\\(\\)\\(?:[spr]k-\\|gsk_\\|xai-\\|hf_\\|gh[opusr]_\\|github_pat_\\|glpat-\\|tgp_v1_"
           "\\|xox[abposr]-\\|AIza\\|AKIA\\|key-\\)[A-Za-z0-9_-]\\{8,\\}")
   ;; JSON web tokens.
   "\\b\\(\\)eyJ[A-Za-z0-9_-]\\{10,\\}\\(?:\\.[A-Za-z0-9_-]+\\)*"
   "\\b\\([Bb]earer[ \t]+\\)[A-Za-z0-9._~+/=-]\\{8,\\}"
   "\\(-----BEGIN [A-Z ]\\{0,20\\}PRIVATE KEY-----\\)[^-]*"
   ;; Addresses.
   "\\(://\\)[^]/@ \t\n\"'<>[]+\\(?:@\\)"
   "\\([?&][A-Za-z_-]\\{0,20\\}\\(?:[Kk]ey\\|KEY\\|[Tt]oken\\|[Ss]ecret\\|[Ss]ig\\|[Aa]uth\\|[Cc]ode\\)=\\)[^]&# \t\n\"'\\\\<>)]+"
   ;; Lines of ~/.authinfo.
   "\\(\\blogin[ \t]+[^ \t\n]+[ \t]+password[ \t]+\\)[^. \t\n][^ \t\n]*")
  "Match secrets by their look; their first group is what stays.")

(defun agent-q-debug--secrets-in-environment ()
  "Return the values of variables whose names say that they are secrets."
  (let ((case-fold-search t)
        (found nil))
    (dolist (entry process-environment found)
      (when (string-match agent-q-debug--secrets-variable entry)
        (push (substring entry (match-end 0)) found)))))

(defun agent-q-debug-secrets-known (&optional thoroughly)
  "Return the secrets that are known here, the longest first.
THOROUGHLY is as for `agent-q-provider-secrets'."
  (let ((known nil))
    (dolist (secret (append (agent-q-debug--secrets-in-environment)
                            (agent-q-provider-secrets thoroughly)))
      (when (>= (length secret) agent-q-debug--secrets-least)
        (push secret known)
        ;; As JSON and Lisp print it.
        (push (substring (prin1-to-string (substring-no-properties secret)) 1 -1) known)))
    (sort (delete-dups known) (lambda (one other) (> (length one) (length other))))))

(defun agent-q-debug-secrets-masked (text &optional known)
  "Return TEXT without secrets: those KNOWN, and all that look like one.
KNOWN is what `agent-q-debug-secrets-known' returned; without it, this asks
it."
  (save-match-data
    (let ((masked (substring-no-properties text)))
      (dolist (secret (or known (agent-q-debug-secrets-known)))
        (setq masked (string-replace secret agent-q-debug--secrets-mask masked)))
      (let ((case-fold-search t))
        (dolist (pattern (list agent-q-debug--secrets-quoted agent-q-debug--secrets-bare))
          (setq masked (agent-q-debug--secrets-without pattern masked))))
      (let ((case-fold-search nil))
        (dolist (pattern agent-q-debug--secrets-shapes)
          (setq masked (agent-q-debug--secrets-without pattern masked))))
      masked)))

(defun agent-q-debug--secrets-without (pattern text)
  "Return TEXT with a mask for what PATTERN matches behind its first group."
  ;; To look costs a fraction of what to replace nothing costs.
  (if (string-match-p pattern text)
      (replace-regexp-in-string
       pattern (lambda (match) (concat (match-string 1 match) agent-q-debug--secrets-mask)) text t t)
    text))

(defun agent-q-debug-secrets-cut (text limit &optional known)
  "Return at most LIMIT characters of TEXT, without secrets.
KNOWN is as for `agent-q-debug-secrets-masked'."
  (let* ((enough (+ limit agent-q-debug--secrets-most))
         (whole (<= (length text) enough))
         (masked (agent-q-debug-secrets-masked (if whole text (substring text 0 enough)) known))
         ;; A secret that is cut through is not known for one: its beginning has to go, too.
         (left (- (length masked) (if whole 0 agent-q-debug--secrets-most))))
    (if (and whole (<= left limit))
        masked
      (concat (substring masked 0 (max 0 (min limit left))) "..."))))

;;;; What passes between Emacs, the core and images

(defcustom agent-q-debug-max-lines 1000
  "Maximum number of lines in the buffer of `agent-q-debug'.
The oldest ones are dropped."
  :type 'natnum
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-debug-max-text 4000
  "Maximum number of characters of a record in `agent-q-debug'."
  :type 'natnum
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-debug--buffer "*agent-q debug*"
  "The name of the buffer of what is recorded.")

(defconst agent-q-debug--unrecorded '(agent-q-core-interface)
  "Functions of the core that are left alone.
This one is compared, to know whether another core was loaded.")

;;;;; The buffer

(defvar agent-q-debug-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-debug-describe)
    (define-key map "c" #'agent-q-debug-clear)
    (define-key map "n" #'next-line)
    (define-key map "p" #'previous-line)
    map)
  "Keymap of `agent-q-debug-mode'.")

(define-derived-mode agent-q-debug-mode special-mode "agent-q debug"
  "Major mode of what `agent-q-debug' recorded, the latest last.
Each line has the time, what it is, the milliseconds that it took, and
what it is about.  Keys are masked.

\\{agent-q-debug-mode-map}"
  (setq truncate-lines t)
  (buffer-disable-undo)
  (setq-local revert-buffer-function #'agent-q-debug--refresh))

(defun agent-q-debug--get-buffer ()
  "Return the buffer of what is recorded."
  (or (get-buffer agent-q-debug--buffer)
      (with-current-buffer (get-buffer-create agent-q-debug--buffer)
        (agent-q-debug-mode)
        (current-buffer))))

(defun agent-q-debug--refresh (&rest _)
  "Leave only as many lines as there may be, and go to the latest one."
  (agent-q-debug--trim)
  (goto-char (point-max)))

(defun agent-q-debug--trim ()
  "Delete the oldest lines, if there are too many."
  (let ((excess (- (line-number-at-pos (point-max)) 1 agent-q-debug-max-lines)))
    (when (> excess 0)
      (let ((inhibit-read-only t))
        (save-excursion
          (goto-char (point-min))
          (forward-line excess)
          (delete-region (point-min) (point)))))))

(defun agent-q-debug-clear ()
  "Forget what was recorded so far."
  (interactive nil agent-q-debug-mode)
  (with-current-buffer (agent-q-debug--get-buffer)
    (let ((inhibit-read-only t))
      (erase-buffer))))

(defun agent-q-debug-describe ()
  "Show the whole of the line at point."
  (interactive nil agent-q-debug-mode)
  (let ((text (or (get-text-property (line-beginning-position) 'agent-q-debug-text)
                  (user-error "There is nothing on this line")))
        (line (buffer-substring-no-properties (line-beginning-position)
                                              (line-end-position))))
    (agent-q-text-with-page "*agent-q debug line*"
      (princ (string-trim-right (substring line 0 (min (length line) 80))))
      (princ "\n\n")
      (princ text)
      (princ "\n"))))

(defun agent-q-debug-last-lines (count)
  "Return the last COUNT lines that were recorded as a text, or nil."
  (let ((buffer (get-buffer agent-q-debug--buffer)))
    (when (and buffer (> (buffer-size buffer) 0))
      (with-current-buffer buffer
        (save-excursion
          (goto-char (point-max))
          (forward-line (- count))
          (buffer-substring-no-properties (point) (point-max)))))))

;;;;; One line

(defun agent-q-debug--record (what name ids seconds text)
  "Add a line: WHAT it is, NAME, IDS, the SECONDS that it took or nil, and TEXT.
If that fails, the work that it is about still continues."
  (condition-case failure
      (let ((inhibit-quit t)
            (deactivate-mark nil)
            (parts (seq-remove #'string-empty-p (list name ids text))))
        (save-match-data
          (agent-q-debug--insert
           (agent-q-text-visible-line
            (string-trim-right
             (format "%s %-8s %9s  %s"
                     (format-time-string "%T.%3N") what
                     (if seconds (format "%.1f ms" (* 1000 seconds)) "")
                     (string-join parts "  "))))
           (agent-q-text-visible (string-join parts "\n")))))
    (error (agent-q-module-log-line (format "agent-q-debug failed: %s"
                                            (error-message-string failure))))))

(defun agent-q-debug--insert (line text)
  "Put LINE at the end of the buffer; TEXT is the whole of it.
Windows that show the end go on doing so."
  (with-current-buffer (agent-q-debug--get-buffer)
    (let ((inhibit-read-only t)
          (at-end (eobp))
          (windows (cl-remove-if-not (lambda (window) (= (window-point window) (point-max)))
                                     (get-buffer-window-list nil nil t))))
      (save-excursion
        (goto-char (point-max))
        (insert (propertize (concat line "\n") 'agent-q-debug-text text)))
      (agent-q-debug--trim)
      (when at-end (goto-char (point-max)))
      (dolist (window windows)
        (set-window-point window (point-max))))))

(defvar agent-q-debug--known nil
  "The secrets that are known while something is printed.")

(defun agent-q-debug--printed (value)
  "Return VALUE as a text without secrets, of limited length."
  (let ((agent-q-debug--known (agent-q-debug-secrets-known)))
    (agent-q-debug-secrets-cut (agent-q-debug--print value 8) agent-q-debug-max-text
                               agent-q-debug--known)))

(defun agent-q-debug--print (value depth)
  "Return VALUE as a text, DEPTH levels of it."
  (cond ((stringp value)
         (let ((print-escape-newlines t))
           (prin1-to-string (if (> (length value) agent-q-debug-max-text)
                                (agent-q-debug-secrets-cut value agent-q-debug-max-text
                                                           agent-q-debug--known)
                              (substring-no-properties value)))))
        ((and (consp value) (zerop depth)) "...")
        ((and (consp value) (not (functionp value)))
         (agent-q-debug--print-list value (1- depth)))
        ((or (symbolp value) (numberp value) (bufferp value) (processp value) (markerp value))
         (prin1-to-string value))
        ((vectorp value)
         (format "[%s]" (mapconcat (lambda (part) (agent-q-debug--print part (max 0 (1- depth))))
                                   (seq-take value 50) " ")))
        ((functionp value) "#<function>")
        (t (format "#<%s>" (type-of value)))))

(defun agent-q-debug--print-list (list depth)
  "Return LIST as a text, DEPTH levels of its elements.
It may be dotted, or have no end."
  (let ((parts nil)
        (left 50))
    (while (and (consp list) (> left 0))
      (push (agent-q-debug--print (pop list) depth) parts)
      (setq left (1- left)))
    (when list
      (push (if (consp list) "..." (concat ". " (agent-q-debug--print list depth))) parts))
    (format "(%s)" (string-join (nreverse parts) " "))))

;;;;; Events, requests and answers

(defvar agent-q-debug--requests (make-hash-table)
  "Arrival times of the core's requests that have no answer yet.")

(defun agent-q-debug--note-event (event)
  "Record EVENT of the core."
  (let ((type (plist-get event :type))
        (request (plist-get event :request))
        (ids nil)
        (rest nil))
    (cl-loop for (key value) on event by #'cddr
             do (cond ((eq key :type))
                      ((and (integerp value)
                            (memq key '(:session :turn :request :call :key :batch :question)))
                       (push (format "%s=%d" (substring (symbol-name key) 1) value) ids))
                      (t (setq rest (cons value (cons key rest))))))
    (let ((asks (memq type agent-q-events-requests)))
      (when asks
        (puthash request (float-time) agent-q-debug--requests))
      (agent-q-debug--record (if asks "request" "event")
                             (format "%s" type) (string-join (nreverse ids) " ") nil
                             (if rest (agent-q-debug--printed (nreverse rest)) "")))))

;;;;; Functions of the core

(defun agent-q-debug--functions ()
  "Return the functions of the core that is loaded, as symbols."
  (let ((found nil))
    (mapatoms (lambda (symbol)
                (when (and (string-prefix-p "agent-q-core-" (symbol-name symbol))
                           (fboundp 'module-function-p)
                           (module-function-p (symbol-function symbol))
                           (not (memq symbol agent-q-debug--unrecorded)))
                  (push symbol found))))
    found))

;; The core gives each of its functions to Emacs by itself, and all files call them: there is no
;; one place where these calls go by.
(defun agent-q-debug--advise (&optional _event)
  "Record each use of a function of the core."
  (dolist (function (agent-q-debug--functions))
    (advice-add function :around
                (lambda (entry &rest arguments)
                  (agent-q-debug--call function entry arguments))
                '((name . agent-q-debug)))))

(defun agent-q-debug--unadvise ()
  "Leave the core's functions as they are."
  (mapatoms (lambda (symbol)
              (when (and (fboundp symbol)
                         (string-prefix-p "agent-q-core-" (symbol-name symbol)))
                (advice-remove symbol 'agent-q-debug)))))

(defun agent-q-debug--call (function entry arguments)
  "Return what ENTRY, the core's FUNCTION, gives for ARGUMENTS, and record it."
  (let ((start (float-time))
        (outcome "left"))
    (unwind-protect
        (condition-case failure
            (let ((value (apply entry arguments)))
              (setq outcome (list value))
              value)
          (error
           (setq outcome (concat "failed: " (error-message-string failure)))
           (signal (car failure) (cdr failure))))
      (agent-q-debug--note-call function arguments (- (float-time) start) outcome))))

(defun agent-q-debug--note-call (function arguments seconds outcome)
  "Record that FUNCTION of the core was called with ARGUMENTS and took SECONDS.
OUTCOME is a list of its value, or a text about why there is none."
  (condition-case failure
      (let* ((name (string-remove-prefix "agent-q-core-" (symbol-name function)))
             (asked (and (eq function 'agent-q-core-resolve)
                         (gethash (car arguments) agent-q-debug--requests)))
             (text (format "%s => %s"
                           (agent-q-debug--printed (agent-q-debug--arguments function arguments))
                           (if (listp outcome)
                               (agent-q-debug--value function (car outcome))
                             (agent-q-debug-secrets-cut outcome agent-q-debug-max-text)))))
        (if (not (eq function 'agent-q-core-resolve))
            (agent-q-debug--record "call" name "" seconds text)
          (remhash (car arguments) agent-q-debug--requests)
          (agent-q-debug--record "answer" name (format "request=%s" (car arguments))
                                 (and asked (- (float-time) asked)) text)))
    (error (agent-q-module-log-line (format "agent-q-debug failed: %s"
                                            (error-message-string failure))))))

(defun agent-q-debug--value (function value)
  "Return VALUE of FUNCTION of the core as a text."
  (if (eq function 'agent-q-core-drain)
      (format "%d events" (length value)) ; they have lines of their own
    (agent-q-debug--printed value)))

(defun agent-q-debug--arguments (function arguments)
  "Return ARGUMENTS of FUNCTION of the core, without what is secret by its place."
  (pcase function
    ('agent-q-core-open-session (cons (agent-q-debug--settings (car arguments)) (cdr arguments)))
    ('agent-q-core-configure (list (car arguments) (agent-q-debug--settings (cadr arguments))))
    (_ arguments)))

(defun agent-q-debug--settings (text)
  "Return TEXT, settings of a session in JSON, without the secrets of the provider.
Return nil if it can't be read."
  (condition-case nil
      (let* ((settings (agent-q-json-parse text))
             (provider (gethash "provider" settings)))
        (when (hash-table-p provider)
          (maphash (lambda (field _value)
                     (unless (member field '("name" "base_url" "model"))
                       (puthash field agent-q-debug--secrets-mask provider)))
                   provider))
        (agent-q-json-encode settings))
    (error nil)))

;;;;; Calls into images

(defvar agent-q-debug--calls (make-hash-table :test #'eq :weakness 'key)
  "Start times of the calls into images that have not ended.")

(defun agent-q-debug--call-ids (call)
  "Return the ids of CALL, into an image, as a text."
  (format "request=%s id=%s" (agent-q-debug--print (agent-q-connection-call-request call) 3)
          (agent-q-connection-call-id call)))

(defun agent-q-debug--note-begun (call)
  "Record that CALL, into an image, begins."
  (puthash call (float-time) agent-q-debug--calls)
  (agent-q-debug--record "image" (format "%s" (agent-q-connection-call-operation call))
                         (agent-q-debug--call-ids call) nil
                         (format "has %s s" (agent-q-connection-call-seconds call))))

(defun agent-q-debug--note-over (call status payload)
  "Record that CALL, into an image, ended with STATUS and PAYLOAD."
  (let ((begun (gethash call agent-q-debug--calls)))
    (remhash call agent-q-debug--calls)
    (agent-q-debug--record "end" (format "%s" (agent-q-connection-call-operation call))
                           (agent-q-debug--call-ids call)
                           (and begun (- (float-time) begun))
                           (format "%s %s %s" status
                                   (agent-q-debug--printed (agent-q-connection-call-arguments call))
                                   (agent-q-debug--printed payload)))))

;;;;; The switch

(defun agent-q-debug--start ()
  "Record from now on."
  (agent-q-debug--get-buffer)
  (agent-q-events-subscribe t #'agent-q-debug--note-event)
  (add-hook 'agent-q-connection-call-begun-functions #'agent-q-debug--note-begun)
  (add-hook 'agent-q-connection-call-ended-functions #'agent-q-debug--note-over)
  (agent-q-events-subscribe :core-started #'agent-q-debug--advise)
  (agent-q-debug--advise))

(defun agent-q-debug--stop ()
  "Stop recording."
  (agent-q-events-unsubscribe t #'agent-q-debug--note-event)
  (remove-hook 'agent-q-connection-call-begun-functions #'agent-q-debug--note-begun)
  (remove-hook 'agent-q-connection-call-ended-functions #'agent-q-debug--note-over)
  (agent-q-events-unsubscribe :core-started #'agent-q-debug--advise)
  (agent-q-debug--unadvise)
  (clrhash agent-q-debug--requests)
  (clrhash agent-q-debug--calls))

;;;###autoload
(define-minor-mode agent-q-debug
  "Record what passes between Emacs, the core and Lisp images.
While it is on, the buffer *agent-q debug* gets a line for each event of
the core, each call of one of its functions, each request of the core to
Emacs and the answer, and each call into an image and its end.  Keys are
masked, long texts cut; it has the code and files that are worked on."
  :global t
  :lighter " agent-q-debug"
  :group 'agent-q
  (if agent-q-debug
      (agent-q-debug--start)
    (agent-q-debug--stop))
  (when (and agent-q-debug (called-interactively-p 'any))
    (display-buffer (agent-q-debug--get-buffer))))

(provide 'agent-q-debug)
;;; agent-q-debug.el ends here
