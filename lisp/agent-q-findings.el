;;; agent-q-findings.el --- What is found here, what is missing, what to do  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Looks at everything that a chat needs, for the doctor's page and for bug reports.  It works
;; without the core, since a missing core is one of the things it explains, and it never shows a key.

;;; Code:

(require 'agent-q)
(require 'agent-q-image-connection)
(require 'agent-q-mcp-install)
(require 'seq)
(require 'subr-x)
(require 'agent-q-facts)
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-session)
(require 'agent-q-demo)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;; Each is (STATE SUBJECT WHAT ADVICE): STATE is `ok', `missing', `note' or `pending'; ADVICE says
;; what to do, or is nil.

(defun agent-q-findings--emacs ()
  "Return the finding about this Emacs."
  (cond ((version< emacs-version "28.1")
         (list 'missing "Emacs" emacs-version "agent-q needs Emacs 28.1 or later"))
        ((not (bound-and-true-p module-file-suffix))
         (list 'missing "Emacs" (format "%s without dynamic modules" emacs-version)
               "Install an Emacs that was configured --with-modules"))
        (t (list 'ok "Emacs" (format "%s with dynamic modules" emacs-version) nil))))

(defun agent-q-findings--core ()
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

(defun agent-q-findings--rust ()
  "Return the finding about Rust, or nil where the core need not be built."
  (when (and (bound-and-true-p module-file-suffix)
             (not (agent-q-module-loaded-p))
             (agent-q-module-problem)
             (not (executable-find "cargo"))
             (not (file-executable-p (expand-file-name "~/.cargo/bin/cargo"))))
    (list 'missing "Rust" "no cargo on the path, so the core can't be built"
          "https://rustup.rs, or where Debian has it: apt-get install rustup")))

(defun agent-q-findings--logs ()
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

(defun agent-q-findings--client ()
  "Return the finding about SLY and SLIME."
  (let ((found (seq-filter (lambda (client)
                             (or (featurep client) (locate-library (symbol-name client))))
                           '(sly slime))))
    (if found
        (list 'ok "Lisp client" (mapconcat (lambda (client) (upcase (symbol-name client)))
                                           found " and ")
              nil)
      (list 'missing "Lisp client" "neither SLY nor SLIME on `load-path'"
            "M-x package-install RET sly, or on Debian: apt-get install slime cl-swank"))))

(defun agent-q-findings--starters ()
  "Return the commands that start a Lisp, of the clients that are installed."
  (let ((found (seq-filter (lambda (client)
                             (or (featurep client) (locate-library (symbol-name client))))
                           '(sly slime))))
    (mapconcat (lambda (client) (format "M-x %s" client)) (or found '(sly slime)) " or ")))

(defun agent-q-findings--connections ()
  "Return the finding about connections to Lisp images."
  (let ((connections (and (or (featurep 'sly) (featurep 'slime))
                          (agent-q-image-connections))))
    (cond (connections
           (list 'ok "Lisp image" (mapconcat #'agent-q-image-label connections ", ") nil))
          ((executable-find "sbcl")
           (list 'missing "Lisp image" "none is connected"
                 (format "%s starts SBCL" (agent-q-findings--starters))))
          (t (list 'missing "Lisp image" "none is connected, and sbcl is not on the path"
                   (format "Install SBCL (apt-get install sbcl), then %s"
                         (agent-q-findings--starters)))))))

(defun agent-q-findings--unguarded ()
  "Return a finding for each image in which something can't be guarded."
  (delq nil
        (mapcar (lambda (connection)
                  (let ((names (process-get (agent-q-image-connection-process connection)
                                            'agent-q-unguarded)))
                    (and names
                         (list 'missing "Watch"
                               (format "%s: calls of %s can't be stopped"
                                       (agent-q-image-label connection) (string-join names ", "))
                               "Code there is looked at before it runs; M-x agent-q-report-bug"))))
                (and (or (featurep 'sly) (featurep 'slime)) (agent-q-image-connections)))))

(defun agent-q-findings--setting ()
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

(defun agent-q-findings--keys ()
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
                            (concat "Put one into ~/.authinfo.gpg, as\n"
                                    "machine api.openai.com login apikey password ...\n"
                                    "or into the environment (OPENAI_API_KEY)"))))
            (mapcar (lambda (file)
                      (list 'note "Key" (format "%s is encrypted; not looked into here" file)
                            nil))
                    locked))))

(defun agent-q-findings--local (servers)
  "Return the findings about model servers on this machine.
SERVERS is as for `agent-q-findings'."
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

(defun agent-q-findings--facts ()
  "Return the finding about the facts of models."
  (let ((date (agent-q-facts-date)))
    (if (agent-q-facts-old-p)
        (list 'note "Model facts" (if date (format "of %s" date) "none can be read")
              "M-x agent-q-refresh-model-facts fetches newer ones")
      (list 'ok "Model facts" (format "of %s" date) nil))))

(defun agent-q-findings--demo ()
  "Return the finding about the demo model."
  (cond ((agent-q-demo-running-p) (list 'ok "Demo model" "running" nil))
        ((agent-q-demo-installed-p)
         (list 'note "Demo model" "installed" "M-x agent-q-demo-model starts it"))
        (t (list 'note "Demo model" "not installed"
                 "M-x agent-q-demo-model shows the whole path without a key"))))

(defun agent-q-findings--all (servers)
  "Return all findings, in their order.
SERVERS is as for `agent-q-findings'."
  (delq nil
        `(,(agent-q-findings--emacs)
          ,(agent-q-findings--core)
          ,(agent-q-findings--rust)
          ,(agent-q-findings--logs)
          ,(agent-q-findings--client)
          ,(agent-q-findings--connections)
          ,@(agent-q-findings--unguarded)
          ,(agent-q-findings--setting)
          ,@(agent-q-findings--keys)
          ,@(agent-q-findings--local servers)
          ,(agent-q-findings--facts)
          ,(agent-q-findings--demo)
          ,(agent-q-mcp-install-finding))))

;;;; As text

(defun agent-q-findings-insert (finding)
  "Insert the lines about FINDING.
It is (STATE SUBJECT WHAT ADVICE): STATE is `ok', `missing', `note' or
`pending'; ADVICE says what to do, or is nil."
  (pcase-let ((`(,state ,subject ,what ,advice) finding))
    (insert (pcase state
              ('ok (propertize "ok      " 'font-lock-face 'success))
              ('missing (propertize "missing " 'font-lock-face 'error))
              ('pending (propertize "...     " 'font-lock-face 'shadow))
              (_ (propertize "note    " 'font-lock-face 'shadow)))
            (format "%-13s %s\n" subject (substitute-command-keys what)))
    (when advice
      (dolist (line (split-string (substitute-command-keys advice) "\n"))
        (let ((margin (make-string 22 ?\s)))
          (insert margin (propertize line 'font-lock-face 'italic 'wrap-prefix margin) "\n"))))))

(defun agent-q-findings--chosen-p ()
  "Whether a chat has a model, be it one that was chosen there alone."
  (seq-some (lambda (buffer) (buffer-local-value 'agent-q-session-provider buffer))
            (buffer-list)))

(defun agent-q-findings--model-p (servers)
  "Whether there is a model, or `pending' while SERVERS are looked for."
  (cond ((agent-q-findings--chosen-p) t)
        ((eq agent-q-provider 'none) nil)
        ((or (consp agent-q-provider) (agent-q-demo-running-p)
             (seq-some (pcase-lambda (`(,_ . ,properties))
                         (agent-q-provider-key-source properties))
                       agent-q-providers))
         t)
        ((eq servers 'unknown) 'pending)
        (t (consp servers))))

(defun agent-q-findings-conclusion (servers)
  "Return a one-line conclusion of all findings: what to do next.
SERVERS is as for `agent-q-findings'."
  (let* ((findings (agent-q-findings--all servers))
         (missing (seq-find (lambda (finding)
                              (and (eq (car finding) 'missing)
                                   (not (equal (nth 1 finding) "Lisp image"))))
                            findings))
         (image (seq-find (lambda (finding) (equal (nth 1 finding) "Lisp image")) findings))
         (model (agent-q-findings--model-p servers)))
    (cond (missing (format "Next: %s (%s)" (nth 3 missing) (nth 1 missing)))
          ((eq model 'pending) "Looking for a model.")
          ((null model) "Next: give it a model, by a key, a model server or M-x agent-q-demo-model")
          ((eq (car image) 'missing) (format "Next: %s, then M-x agent-q-chat" (nth 3 image)))
          (t "Ready: M-x agent-q-chat"))))

(defun agent-q-findings (servers)
  "Return all that is found as text, a line or two for each finding.
SERVERS are the model servers that answered, as `agent-q-provider-discover'
gives them; `unknown' while they are looked for, `unasked' to leave them
out, or a text about why they are not looked for."
  (with-temp-buffer
    (mapc #'agent-q-findings-insert (agent-q-findings--all servers))
    (buffer-string)))

(provide 'agent-q-findings)
;;; agent-q-findings.el ends here
