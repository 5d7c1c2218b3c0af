;;; agent-q-doctor.el --- What is found and what is missing; reports of bugs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A page about what a chat needs and what is missing, bug reports with the same findings,
;; and the manual.

;;; Code:

(require 'agent-q)
(require 'agent-q-connection)
(require 'agent-q-debug)
(require 'agent-q-events)
(require 'agent-q-mcp-install)
(require 'agent-q-model-facts)
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'lisp-mnt)
(require 'pp)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; What is found here, what is missing, what to do

;; Looks at everything that a chat needs, for the doctor's page and for bug reports.  It works
;; without the core, since a missing core is one of the things it explains, and it never shows a key.

;; Each is (STATE SUBJECT WHAT ADVICE): STATE is `ok', `missing', `note' or `pending'; ADVICE says
;; what to do, or is nil.

(defun agent-q-doctor--finding-emacs ()
  "Return the finding about this Emacs."
  (cond ((version< emacs-version "28.1")
         (list 'missing "Emacs" emacs-version "agent-q needs Emacs 28.1 or later"))
        ((not (bound-and-true-p module-file-suffix))
         (list 'missing "Emacs" (format "%s without dynamic modules" emacs-version)
               "Install an Emacs that was configured --with-modules"))
        (t (list 'ok "Emacs" (format "%s with dynamic modules" emacs-version) nil))))

(defun agent-q-doctor--finding-core ()
  "Return the finding about the core."
  (let ((loaded (agent-q-module-loaded-p))
        (problem (and (bound-and-true-p module-file-suffix) (agent-q-module-problem)))
        (session (agent-q-module-session-problem)))
    (cond (session (list 'missing "Core" "can't be used in this session" session))
          ((and loaded (agent-q-module-replaced-p))
           (list 'note "Core" "loaded, and rebuilt since" "Restart Emacs to use the new one"))
          (loaded
           (list 'ok "Core" (format "loaded (interface %d)" (agent-q-core-interface)) nil))
          (problem (list 'missing "Core" "can't be used" problem))
          (t (list 'ok "Core" (format "installed for %s (interface %s); loaded on first use"
                                      (alist-get 'host (agent-q-module-manifest))
                                      (alist-get 'interface (agent-q-module-manifest)))
                   nil)))))

(defun agent-q-doctor--finding-rust ()
  "Return the finding about Rust, or nil where the core need not be built."
  (when (and (bound-and-true-p module-file-suffix)
             (not (agent-q-module-loaded-p))
             (agent-q-module-problem)
             (not (agent-q-module-release))
             (not (executable-find "cargo"))
             (not (file-executable-p (expand-file-name "~/.cargo/bin/cargo"))))
    (list 'missing "Rust" "no cargo on the path, so the core can't be built"
          "https://rustup.rs, or where Debian has it: apt-get install rustup")))

(defun agent-q-doctor--finding-logs ()
  "Return the finding about the folder of the logs, or nil if it can be written."
  (let* ((folder (file-name-directory (expand-file-name agent-q-log-file)))
         (there (directory-file-name folder)))
    ;; What is missing of it is made.
    (while (not (or (file-exists-p there) (equal there (file-name-directory there))))
      (setq there (directory-file-name (file-name-directory there))))
    (unless (and (file-directory-p there) (file-writable-p there))
      (list 'missing "Audit log" (format "%s can't be written" (abbreviate-file-name folder))
            (concat "Without it, tools that change anything don't run: make it writable,"
                    " or set `agent-q-log-file'")))))

(defun agent-q-doctor--finding-client ()
  "Return the finding about SLY and SLIME."
  (let ((found (agent-q-connection-installed)))
    (if found
        (list 'ok "Lisp client" (mapconcat (lambda (client) (upcase (symbol-name client)))
                                           found " and ")
              nil)
      (list 'missing "Lisp client" "neither SLY nor SLIME on `load-path'"
            "M-x package-install RET sly, or on Debian: apt-get install slime cl-swank"))))

(defun agent-q-doctor--finding-starters ()
  "Return the commands that start a Lisp, of the clients that are installed."
  (mapconcat (lambda (client) (format "M-x %s" client))
             (or (agent-q-connection-installed) '(sly slime)) " or "))

(defun agent-q-doctor--finding-connections ()
  "Return the finding about connections to Lisp images."
  (let ((connections (and (or (featurep 'sly) (featurep 'slime))
                          (agent-q-connection-connections))))
    (cond (connections
           (list 'ok "Lisp image" (mapconcat #'agent-q-connection-label connections ", ") nil))
          ((executable-find "sbcl")
           (list 'missing "Lisp image" "none is connected"
                 (format "%s starts SBCL%s" (agent-q-doctor--finding-starters)
                         (if (agent-q-connection-installed) "" ", once one of them is installed"))))
          (t (list 'missing "Lisp image" "none is connected, and sbcl is not on the path"
                   (format "Install SBCL (apt-get install sbcl), then %s"
                         (agent-q-doctor--finding-starters)))))))

(defun agent-q-doctor--finding-unguarded ()
  "Return a finding for each image in which something can't be guarded."
  (delq nil
        (mapcar (lambda (connection)
                  (let ((names (process-get (agent-q-connection-process connection)
                                            'agent-q-unguarded)))
                    (and names
                         (list 'missing "Watch"
                               (format "%s: calls of %s can't be stopped"
                                       (agent-q-connection-label connection) (string-join names ", "))
                               "Code there is looked at before it runs; M-x agent-q-report-bug"))))
                (and (or (featurep 'sly) (featurep 'slime)) (agent-q-connection-connections)))))

(defun agent-q-doctor--finding-setting ()
  "Return the finding about `agent-q-provider', or nil without one."
  (cond ((null agent-q-provider) nil)
        ((eq agent-q-provider 'none)
         (list 'note "Your choice" "no model" "`agent-q-provider' is `none'"))
        ((consp agent-q-provider)
         (list 'ok "Your choice" (format "%s, %s" (plist-get agent-q-provider :base-url)
                                         (or agent-q-model
                                             (plist-get agent-q-provider :model)))
               nil))
        ((or (eq agent-q-provider 'local) (assq agent-q-provider agent-q-providers))
         (list 'ok "Your choice" (symbol-name agent-q-provider) nil))
        (t (list 'missing "Your choice" (format "%s is not known" agent-q-provider)
                 "Set `agent-q-provider' to a name in `agent-q-providers'"))))

(defun agent-q-doctor--finding-keys ()
  "Return the findings about keys: where they are, never what they are."
  (let ((found (delq nil
                     (mapcar (pcase-lambda (`(,name . ,properties))
                               (let ((source (agent-q-provider-key-source properties)))
                                 (and source
                                      (list 'ok "Key" (format "%s, in %s" name source) nil))))
                             agent-q-providers)))
        (locked (seq-filter (lambda (source)
                              (and (stringp source) (string-suffix-p ".gpg" source)
                                   (file-exists-p source)))
                            auth-sources)))
    (append (or found
                (list (list 'note "Key" "none found"
                            "M-x agent-q-set-key tries one and stores it in auth-source")))
            (mapcar (lambda (file)
                      (list 'note "Key" (format "%s is encrypted; not looked into here" file)
                            nil))
                    locked))))

(defun agent-q-doctor--finding-local (servers)
  "Return the findings about model servers on this machine.
SERVERS is as for `agent-q-doctor-finding'."
  (cond ((eq servers 'unasked) nil)
        ((eq servers 'unknown)
         (list (list 'pending "Model server" "looking on this machine" nil)))
        ((stringp servers)
         (list (list 'note "Model server" "not looked for" servers)))
        ((null servers)
         (list (list 'note "Model server" "none answers on this machine"
                     "Start Ollama, llama.cpp or LM Studio, if you have one")))
        (t (mapcar (lambda (server)
                     (list 'ok "Model server"
                           (format "%s at %s: %s" (plist-get server :name)
                                   (plist-get server :base-url)
                                   (if (plist-get server :models)
                                       (string-join (plist-get server :models) ", ")
                                     "no models"))
                           nil))
                   servers))))

(defun agent-q-doctor--finding-facts ()
  "Return the finding about the facts of models."
  (let ((date (agent-q-model-facts-date)))
    (if (agent-q-model-facts-old-p)
        (list 'note "Model facts" (if date (format "of %s" date) "none can be read")
              "M-x agent-q-model-facts-refresh fetches newer ones")
      (list 'ok "Model facts" (format "of %s" date) nil))))

(defun agent-q-doctor--finding-all (servers)
  "Return all findings, in their order.
SERVERS is as for `agent-q-doctor-finding'."
  (delq nil
        `(,(agent-q-doctor--finding-emacs)
          ,(agent-q-doctor--finding-core)
          ,(agent-q-doctor--finding-rust)
          ,(agent-q-doctor--finding-logs)
          ,(agent-q-doctor--finding-client)
          ,(agent-q-doctor--finding-connections)
          ,@(agent-q-doctor--finding-unguarded)
          ,(agent-q-doctor--finding-setting)
          ,@(agent-q-doctor--finding-keys)
          ,@(agent-q-doctor--finding-local servers)
          ,(agent-q-doctor--finding-facts)
          ,(agent-q-mcp-install-finding))))

;;;;; As text

(defvar-local agent-q-doctor--connection nil
  "The finding about the way to the chosen host, or nil where none is chosen.")

(defconst agent-q-doctor--margin (make-string 22 ?\s)
  "What stands before the second line of a finding, and before what is wrapped.")

(defun agent-q-doctor-finding-insert (finding)
  "Insert the lines about FINDING.
It is (STATE SUBJECT WHAT ADVICE): STATE is `ok', `missing', `note' or
`pending'; ADVICE says what to do, or is nil."
  (pcase-let ((`(,state ,subject ,what ,advice) finding))
    (insert (pcase state
              ('ok (propertize "ok      " 'font-lock-face 'success))
              ('missing (propertize "missing " 'font-lock-face 'error))
              ('pending (propertize "...     " 'font-lock-face 'shadow))
              (_ (propertize "note    " 'font-lock-face 'shadow)))
            (format "%-13s " subject)
            (propertize (substitute-command-keys what) 'wrap-prefix agent-q-doctor--margin)
            "\n")
    (when advice
      (dolist (line (split-string (substitute-command-keys advice) "\n"))
        (insert agent-q-doctor--margin
                (propertize line 'font-lock-face 'italic 'wrap-prefix agent-q-doctor--margin)
                "\n")))))

(defun agent-q-doctor--finding-model-p (servers)
  "Whether there is a model, or `pending' while SERVERS are looked for."
  (cond ((seq-some (lambda (buffer)
                     (let ((provider (buffer-local-value 'agent-q-session-provider buffer)))
                       (and provider (not (agent-q-provider-scripted-p provider)))))
                   (buffer-list))
         t)
        ((eq agent-q-provider 'none) nil)
        ((or (consp agent-q-provider)
             (seq-some (pcase-lambda (`(,_ . ,properties))
                         (agent-q-provider-key-source properties))
                       agent-q-providers))
         t)
        ((eq servers 'unknown) 'pending)
        (t (consp servers))))

(defun agent-q-doctor-finding-conclusion (servers)
  "Return a one-line conclusion of all findings: what to do next.
SERVERS is as for `agent-q-doctor-finding'."
  (let* ((findings (agent-q-doctor--finding-all servers))
         (missing (seq-find (lambda (finding)
                              (and (eq (car finding) 'missing)
                                   (not (equal (nth 1 finding) "Lisp image"))))
                            findings))
         (image (seq-find (lambda (finding) (equal (nth 1 finding) "Lisp image")) findings))
         (model (agent-q-doctor--finding-model-p servers)))
    (cond (missing (format "Next: %s (%s)" (nth 3 missing) (nth 1 missing)))
          ((eq model 'pending) "Looking for a model.")
          ((null model) "Next: give it a model, by a key or a model server; M-x agent-q-tutorial needs none")
          ((eq (car agent-q-doctor--connection) 'missing)
           "Next: reach the host of your model; the line Connection says what fails")
          ((eq (car image) 'missing) (format "Next: %s, then M-x agent-q-chat" (nth 3 image)))
          (t "Ready: M-x agent-q-chat"))))

(defun agent-q-doctor-finding (servers)
  "Return all that is found as text, a line or two for each finding.
SERVERS are the model servers that answered, as `agent-q-provider-discover'
gives them; `unknown' while they are looked for, `unasked' to leave them
out, or a text about why they are not looked for."
  (with-temp-buffer
    (mapc #'agent-q-doctor-finding-insert (agent-q-doctor--finding-all servers))
    (buffer-string)))

;;;; A bug report to be read and sent

;; Gathers what is needed to fix a bug, in a buffer that the user reads, completes and
;; sends.  It takes what Emacs has at hand: no image, no server and no core is asked or started.

(defconst agent-q-doctor--report-lines 60
  "Number of lines of a log in a report.")

(defconst agent-q-doctor--report-bytes 65536
  "Bytes of the end of a file that are searched for these lines.")

(defconst agent-q-doctor--report-width 400
  "Most characters of a line of a log in a report.")

(defconst agent-q-doctor--report-beginning
  "Please write below what you did, what you expected and what you saw instead. Then read
everything before you send it: nothing was sent yet, and you can change or delete what you
like. Keys and passwords are masked where they were recognized, but the options and the last
lines of the logs can have names, code and paths of yours in them.

What I did:

What I expected:

What I saw:

"
  "The beginning of a report, which the user completes.")

;;;;; Versions

(defun agent-q-doctor--report-client (feature version)
  "Return a text about the Lisp client FEATURE; VERSION is a function.
That is called when the client is loaded."
  (cond ((featurep feature) (format "%s, loaded" (or (funcall version) "of an unknown version")))
        ((locate-library (symbol-name feature)) "found, not loaded")
        (t "not found")))

(defun agent-q-doctor--report-core ()
  "Return a text about the core."
  (let ((manifest (agent-q-module-manifest)))
    (format "interface %s for %s, wanted is %d; %s"
            (or (alist-get 'interface manifest) "unknown") (or (alist-get 'host manifest) "unknown")
            agent-q-module-interface
            (if (agent-q-module-loaded-p)
                (format "loaded is %s" (agent-q-core-interface))
              "not loaded"))))

(defun agent-q-doctor--report-lisps ()
  "Return the connected Lisps, as texts."
  (mapcar (lambda (connection)
            (format "%s: %s through %s" (agent-q-connection-label connection)
                    (agent-q-connection-ask connection :implementation)
                    (agent-q-connection-client-get connection :name)))
          (agent-q-connection-connections)))

(defun agent-q-doctor--report-versions ()
  "Return what there is, with its versions."
  (mapconcat
   (pcase-lambda (`(,name . ,text)) (format "%-12s %s\n" name text))
   `(("agent-q" . ,(or (ignore-errors
                         (lm-version (expand-file-name "agent-q-module.el"
                                                       agent-q-module-directory)))
                       "unknown"))
     ("Core" . ,(agent-q-doctor--report-core))
     ("Emacs" . ,(format "%s (%s), %s" emacs-version system-configuration
                         (cond (noninteractive "batch") (window-system) (t "in a terminal"))))
     ("System" . ,(format "%s" system-type))
     ("SLY" . ,(agent-q-doctor--report-client 'sly (lambda () (bound-and-true-p sly-protocol-version))))
     ("SLIME" . ,(agent-q-doctor--report-client 'slime (lambda () (bound-and-true-p slime-version))))
     ,@(mapcar (lambda (lisp) (cons "Lisp" lisp)) (or (agent-q-doctor--report-lisps) '("none connected"))))
   ""))

;;;;; What the doctor says

(defun agent-q-doctor--report-doctor ()
  "Return all findings but model servers, which would have to be looked for."
  (let ((agent-q-providers
         ;; A function that returns a key may take long, or ask for a passphrase.
         (mapcar (pcase-lambda (`(,name . ,properties))
                   (if (functionp (plist-get properties :key))
                       `(,name :key "from a function" ,@properties)
                     (cons name properties)))
                 agent-q-providers)))
    (agent-q-doctor-finding 'unasked)))

;;;;; Options

(defun agent-q-doctor--report-public (value)
  "Return VALUE of an option without what is secret by its place."
  (cond ((and (functionp value) (not (symbolp value))) 'a-function)
        ((proper-list-p value)
         (let ((result nil)
               (secret nil))
           (dolist (part value (nreverse result))
             (push (if secret 'masked (agent-q-doctor--report-public part)) result)
             (setq secret (and (not secret)
                               (memq part '(:key :headers :body :first-body)))))))
        ((consp value)
         (cons (agent-q-doctor--report-public (car value)) (agent-q-doctor--report-public (cdr value))))
        (t value)))

(defun agent-q-doctor--report-option (option)
  "Return lines about OPTION, or nil where its default is in force."
  (let ((value (default-value option)))
    (unless (equal value (eval (car (get option 'standard-value)) t))
      (format "%s: %s\n" option
              (agent-q-debug-secrets-cut
               (string-trim (pp-to-string (agent-q-doctor--report-public value))) 2000)))))

(defun agent-q-doctor--report-options ()
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
                     (agent-q-doctor--report-option option)
                   (error (format "%s: %s\n" option (error-message-string failure)))))
               (sort options #'string<) "")))

;;;;; Logs

(defun agent-q-doctor--report-last-lines (text)
  "Return the last lines of TEXT, none of them long, without secrets."
  (let ((lines (split-string (agent-q-debug-secrets-masked text) "\n" t)))
    (mapconcat (lambda (line)
                 (concat (agent-q-text-visible-line line agent-q-doctor--report-width) "\n"))
               (last lines agent-q-doctor--report-lines) "")))

(defun agent-q-doctor--report-log-file ()
  "Return the name of the core's log."
  (or (and (agent-q-events-running-p)
           (ignore-errors (plist-get (agent-q-core-status) :log-file)))
      (expand-file-name agent-q-log-file)))

(defun agent-q-doctor--report-end-of (file)
  "Return the end of FILE from the beginning of a line, or an empty text."
  (with-temp-buffer
    (when (and (not (file-remote-p file)) (file-regular-p file) (file-readable-p file))
      (let* ((size (file-attribute-size (file-attributes file)))
             (start (max 0 (- size agent-q-doctor--report-bytes)))
             (coding-system-for-read 'utf-8-unix))
        (insert-file-contents file nil start size)
        ;; The beginning of a line that is cut could be that of a secret, too.
        (unless (zerop start)
          (delete-region (point-min) (progn (forward-line 1) (point))))))
    (buffer-string)))

(defun agent-q-doctor--report-end-of-buffer (name)
  "Return the end of the buffer called NAME, or an empty text."
  (if (get-buffer name)
      (with-current-buffer name
        (save-excursion
          (save-restriction
            (widen)
            (goto-char (max (point-min) (- (point-max) agent-q-doctor--report-bytes)))
            (unless (bobp) (forward-line 1))
            (buffer-substring-no-properties (point) (point-max)))))
    ""))

;;;;; The report

(defun agent-q-doctor--report-section (title text)
  "Return a section called TITLE with the string TEXT, if that has anything in it."
  (if (string-empty-p (or text ""))
      (format "## %s\n\nNothing.\n\n" title)
    (format "## %s\n\n```text\n%s\n```\n\n" title (string-trim-right text))))

(defun agent-q-doctor--report-text ()
  "Return the whole report, without secrets."
  (agent-q-doctor--report-abbreviated
   (agent-q-debug-secrets-masked
    (concat
     agent-q-doctor--report-beginning
     (agent-q-doctor--report-section "Versions" (agent-q-doctor--report-versions))
     (agent-q-doctor--report-section "What the doctor says" (agent-q-doctor--report-doctor))
     (agent-q-doctor--report-section "Options that are not as they come" (agent-q-doctor--report-options))
     (let ((file (agent-q-doctor--report-log-file)))
       (agent-q-doctor--report-section (format "The end of the core's log, %s" file)
                                       (agent-q-doctor--report-last-lines (agent-q-doctor--report-end-of file))))
     (agent-q-doctor--report-section "The end of *agent-q-log*"
                                     (agent-q-doctor--report-last-lines
                                      (agent-q-doctor--report-end-of-buffer "*agent-q-log*")))
     (agent-q-doctor--report-section "The end of *agent-q debug*"
                                     (agent-q-doctor--report-last-lines
                                      (or (agent-q-debug-last-lines agent-q-doctor--report-lines) ""))))
    (agent-q-debug-secrets-known t))))

(defun agent-q-doctor--report-abbreviated (text)
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
      (let ((text (agent-q-doctor--report-text)))
        (erase-buffer)
        (text-mode)
        (insert (substring-no-properties text)))
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer buffer)))

;;;; The page of what is found and what is missing

;; A read-only page about everything that a chat needs, which it draws once more when the model
;; servers on this machine have answered, and when the host of the chosen model has.  It works
;; without the core.

(defvar-local agent-q-doctor--servers 'unknown
  "The model servers that answered; `unknown' until then, or an error as text.")

(defvar agent-q-doctor-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map "b" #'agent-q-build)
    (define-key map "i" #'agent-q-install-core)
    (define-key map (kbd "TAB") #'forward-button)
    (define-key map [backtab] #'backward-button)
    map)
  "Keymap of `agent-q-doctor-mode'.")

(define-derived-mode agent-q-doctor-mode special-mode "agent-q doctor"
  "Major mode of the page about what agent-q has on this machine.
\\{agent-q-doctor-mode-map}"
  (setq-local word-wrap t
              revert-buffer-function #'agent-q-doctor--refresh))

;;;;; The page

(defun agent-q-doctor--insert-button (command)
  "Insert the name of COMMAND as a button for it."
  (insert-text-button (symbol-name command)
                      'action (lambda (_button) (call-interactively command))
                      'help-echo (format "M-x %s" command)
                      'follow-link t))

(defun agent-q-doctor--draw ()
  "Write the page again; point stays where it is."
  (let ((inhibit-read-only t)
        (line (line-number-at-pos)))
    (erase-buffer)
    (insert (propertize "agent-q on this machine\n\n" 'font-lock-face 'bold))
    (insert (agent-q-doctor-finding agent-q-doctor--servers))
    (when agent-q-doctor--connection
      (agent-q-doctor-finding-insert agent-q-doctor--connection))
    (insert "\n" (propertize (substitute-command-keys
                              (agent-q-doctor-finding-conclusion agent-q-doctor--servers))
                             'font-lock-face 'bold)
            "\n")
    (insert (substitute-command-keys
             "\n\\<agent-q-doctor-mode-map>\\[revert-buffer] looks again, \
\\[agent-q-install-core] downloads the core, \\[agent-q-build] builds it, \\[quit-window] leaves this page.\n\n"))
    (agent-q-doctor--insert-button #'agent-q-set-key)
    (insert " sets the key of a host.\n")
    (insert "Something goes wrong?  ")
    (agent-q-doctor--insert-button #'agent-q-debug)
    (insert " records what agent-q does;\n")
    (agent-q-doctor--insert-button #'agent-q-report-bug)
    (insert " prepares a bug report, with all of this page and the last lines of the logs.\n")
    (goto-char (point-min))
    (forward-line (1- line))))

(defun agent-q-doctor--refresh (&rest _)
  "Look at everything again."
  (setq agent-q-doctor--servers 'unknown
        agent-q-doctor--connection nil)
  (agent-q-doctor--try-connection)
  (agent-q-doctor--draw)
  (let ((buffer (current-buffer)))
    (agent-q-doctor--discover
     (lambda (servers)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (setq agent-q-doctor--servers servers)
           (agent-q-doctor--draw)))))))

(defun agent-q-doctor--discover (callback)
  "Call CALLBACK with the model servers on this machine, or with why not."
  (condition-case failure
      (agent-q-provider-discover callback)
    (error
     (funcall callback
              (if (agent-q-module-problem)
                  "The core is needed to look for them"
                (error-message-string failure))))))

;;;;; The way to the chosen host

(defun agent-q-doctor--provider ()
  "Return the provider that new chats have, or nil, without asking for its key."
  (let* ((chosen (cond ((memq agent-q-provider '(none local)) nil)
                       ((consp agent-q-provider)
                        (cons (agent-q-provider-name agent-q-provider) agent-q-provider))
                       (agent-q-provider (assq agent-q-provider agent-q-providers))
                       (t (seq-find (lambda (host)
                                      (agent-q-provider-key-source (cdr host)))
                                    agent-q-providers))))
         (properties (cdr chosen)))
    (and chosen
         (agent-q-provider-make (format "%s" (car chosen)) properties agent-q-model
                                (agent-q-provider-key-find-unasked properties)))))

(defun agent-q-doctor--try-connection ()
  "Ask the chosen host for its models, which costs nothing, and note the outcome."
  (when-let ((provider (condition-case failure
                           (agent-q-doctor--provider)
                         (error (agent-q-doctor--note-connection
                                 'missing (error-message-string failure) nil)
                                nil))))
    (let ((buffer (current-buffer))
          (place (format "%s at %s" (alist-get 'name provider) (alist-get 'base_url provider))))
      (condition-case failure
          (progn
            (agent-q-provider-list-ask
             provider
             (lambda (event)
               (when (buffer-live-p buffer)
                 (with-current-buffer buffer
                   (agent-q-doctor--connected place event)
                   (agent-q-doctor--draw)))))
            (agent-q-doctor--note-connection 'pending (format "trying %s" place) nil))
        (error (agent-q-doctor--note-connection 'note (format "%s is not tried" place)
                                                (error-message-string failure)))))))

(defun agent-q-doctor--connected (place event)
  "Note how the way to PLACE ended, which is in EVENT."
  (let ((stage (plist-get event :stage))
        (problem (plist-get event :problem)))
    (cond ((null problem)
           (agent-q-doctor--note-connection
            'ok (let ((count (length (plist-get event :models))))
                  (format (ngettext "%s answers: %d model" "%s answers: %d models" count)
                          place count))
            nil))
          ;; Not all hosts have a list.
          ((member stage '("HTTP (200)" "HTTP (404)" "HTTP (405)"))
           (agent-q-doctor--note-connection
            'note (format "%s answers, but lists no models" place) nil))
          (t (agent-q-doctor--note-connection
              'missing (format "%s can't be used: it fails at %s" place stage) problem)))))

(defun agent-q-doctor--note-connection (state what advice)
  "Note the finding about the way to the chosen host: STATE, WHAT and ADVICE."
  (setq agent-q-doctor--connection (list state "Connection" what advice)))

;;;###autoload
(defun agent-q-doctor ()
  "Show what agent-q has found, what is missing, and how to fix it."
  (interactive)
  (pop-to-buffer (get-buffer-create "*agent-q doctor*"))
  (unless (derived-mode-p 'agent-q-doctor-mode)
    (agent-q-doctor-mode))
  (agent-q-doctor--refresh))

;;;; The manual

;; A package has it as Info, or as Org where it was made without texinfo.  A source tree has it as
;; Org, and as Info once `make manual' has built that.

(defun agent-q-doctor--manual-info ()
  "Return the name of the Info manual, or nil where there is none, or an old one."
  (let* ((beside (expand-file-name "agent-q.info" agent-q-module-directory))
         (source (agent-q-module-source-directory))
         (built (and source (expand-file-name "target/manual/agent-q.info" source))))
    (cond ((file-readable-p beside) beside)
          ((and built (file-readable-p built)
                (seq-every-p (lambda (part)
                               (let ((part (expand-file-name part source)))
                                 (not (file-newer-than-file-p part built))))
                             '("docs/manual.org" "docs/reference.org" "CONTRACTS.md" "IMPLEMENTATIONS.md")))
           built))))

(defun agent-q-doctor--manual-org ()
  "Return the name of the manual in Org, or nil."
  (seq-find #'file-readable-p
            (append (mapcar (lambda (name) (expand-file-name name agent-q-module-directory))
                            '("agent-q.org" "manual.org"))
                    (when-let ((source (agent-q-module-source-directory)))
                      (list (expand-file-name "docs/manual.org" source))))))

(declare-function org-overview "org" ())

(defun agent-q-doctor--manual-front ()
  "Go to the title of the manual's source, with its chapters folded below.
What Org's export reads at the beginning isn't shown."
  (goto-char (point-min))
  (when (and (looking-at "#")
             (not (get-char-property (point) 'agent-q-front)))
    (let* ((end (save-excursion (skip-chars-forward "^\n") (re-search-forward "\n$" nil 'move) (point)))
           (title (if (re-search-forward "^#\\+TITLE: *\\(.*\\)$" end t) (match-string 1) "agent-q"))
           (overlay (make-overlay (point-min) end)))
      (overlay-put overlay 'agent-q-front t)
      (overlay-put overlay 'display (concat (propertize title 'face 'org-document-title) "\n")))
    (org-overview)
    (goto-char (point-min))))

;;;###autoload
(defun agent-q-manual ()
  "Show the manual of agent-q.
It is shown by Info, or as Org where there is no Info manual.  In a source tree,
`make manual' builds that."
  (interactive)
  (let ((info (agent-q-doctor--manual-info))
        (org (agent-q-doctor--manual-org)))
    (cond (info (info (format "(%s)" info)))
          (org (find-file-read-only org)
               ;; Org cuts long lines off.
               (visual-line-mode 1)
               (agent-q-doctor--manual-front)
               (message "TAB opens a chapter%s"
                        (if (agent-q-module-source-directory) "; `make manual' makes Info and HTML of it" "")))
          (t (user-error "The manual is not in %s; it is docs/manual.org in agent-q's source"
                         (abbreviate-file-name agent-q-module-directory))))))

(provide 'agent-q-doctor)
;;; agent-q-doctor.el ends here
