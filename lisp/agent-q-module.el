;;; agent-q-module.el --- Entry point of agent-q: commands, and loading of the core  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later
;; Author: The maintainers of agent-q
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: lisp, tools

;;; Commentary:

;; What users `require', as they may `agent-q'.  That only names the commands, which load what they
;; need when they are first used.  `agent-q-module-ensure' finds, checks and loads the core, a dynamic module that
;; `make build' puts beside this file, or \[agent-q-install-core] into the user's folder (agent-q-install.el).
;;
;; The checks come before `module-load', since Emacs cannot unload a module: a core that doesn't
;; fit would stay until Emacs ends.  They read the manifest that the build writes beside the core.

;;; Code:

;;;; Entry point of agent-q: commands, and loading of the core

;;;;; What there is, and where

(defconst agent-q-module--wanted
  (all-completions "agent-q-" obarray
                   (lambda (symbol)
                     (let ((function (symbol-function symbol)))
                       (and (autoloadp function)
                            (equal (file-name-base (nth 1 function)) "agent-q-module")))))
  "The functions that an autoload of the user's says to be in this file.")

(require 'agent-q-loaddefs)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;; So that `customize-group' shows every option, wherever it is defined.
(dolist (library '("agent-q" "agent-q-menu" "agent-q-provider" "agent-q-model-facts"
                   "agent-q-project" "agent-q-render" "agent-q-image-history" "agent-q-debug"
                   "agent-q-attention" "agent-q-code" "agent-q-chat-history" "agent-q-ask"
                   "agent-q-attach" "agent-q-attach-kinds" "agent-q-mcp" "agent-q-chat-send"
                   "agent-q-completion"))
  (custom-add-load 'agent-q library))

(defconst agent-q-module-interface 38
  "The interface that this Emacs Lisp expects of the core.")

(defun agent-q-module--home (file)
  "Return the folder in which FILE, this file as it was loaded, truly is.
Some package managers link each source on its own into a folder of theirs, and
compile it there; core and image/ stay where the source is."
  (let ((source (concat (file-name-sans-extension file) ".el")))
    (file-name-directory (file-truename (if (file-exists-p source) source file)))))

;;;###autoload
(put 'agent-q-module-directory 'risky-local-variable t)
(defvar agent-q-module-directory
  (agent-q-module--home (or load-file-name buffer-file-name
                            (expand-file-name "agent-q-module.el")))
  "The folder that holds the core with its manifest, and the folder image/.
Set it before agent-q is loaded where its Emacs Lisp was copied elsewhere.")

(defvar agent-q-module--loaded nil
  "Identity of the core's file when this session loaded it, or nil.")

(defvar agent-q-module--entry nil
  "A function of the core that this session loaded, or nil.")

(defvar agent-q-module--warned nil
  "Identity of the newer core about which the user was told.")

;;;;; What programs meet

(define-error 'agent-q-error "agent-q")
(define-error 'agent-q-invalid-tool "Invalid tool" 'agent-q-error)
(define-error 'agent-q-invalid-arguments "The arguments do not fit" 'agent-q-error)
(define-error 'agent-q-gram-error "This gram text is not understood" 'agent-q-error)

;;;;; What programs and init files set

;;;###autoload
(defconst agent-q-registry (record 'agent-q-registry "agent-q")
  "The registry of tools: what `agent-q-register-tool' takes.")

;;;###autoload
(put 'agent-q-approval-handler 'risky-local-variable t)
(defvar agent-q-approval-handler nil
  "The function that decides whether a dangerous tool call runs, or nil.
It is called with the tool and its arguments, a hash table, and returns

`:approved'            it runs
`:denied'              it doesn't
\(:denied REASON)      it doesn't, and the model reads why
\(:modified ARGUMENTS) it runs with these, if they are valid

With anything else, or an error, it doesn't run either, and the model is told
that no decision was made.  The tool is the one that would run: of several
libraries that have one of its name, the library of the turn.

It is called as well about what code that runs is about to do, such as to
delete a file, unless that was consented to with the code.  The tool is then
called \"effect/delete_file\" or the like (`agent-q-registry-effects' has all
names).  The arguments are \"file\" or \"files\" (absolute, one a line) or
\"target\", and \"function\", \"form\", \"thread\" and \"backtrace\", as far as
they are known.  With `:approved' it happens; with `:denied' or (:denied
REASON) the code gets an error, which it may handle; and there is

`:stopped'             it doesn't happen, and the call that runs is stopped

Nothing else can be answered; an effect can't be modified.  The code waits for
the answer, which doesn't count against the time that it may take.

A function that requires a third argument gets a function there, which it
calls with the answer when it has one.

When this is nil, a chat asks its user in its buffer, and calls outside chats
fail.")

;;;###autoload
(put 'agent-q-tool-execution-hooks 'risky-local-variable t)
(defvar agent-q-tool-execution-hooks nil
  "Functions called when a tool runs, in a chat or elsewhere.
They get a phase, the tool, its arguments (a hash table) and the result.
The phase is `:before', when there is no result yet, `:after' when the tool
succeeded, or `:error'.  An error in them is logged and changes nothing.")

;;;###autoload
(put 'agent-q-tool-libraries 'risky-local-variable t)
(defvar agent-q-tool-libraries nil
  "The tool libraries that agents can be bound to, by name.
An association list from strings to libraries; see `agent-q-library-register'
and \\[agent-q-chat-use-agent].")

(defun agent-q-module-level (level)
  "Return LEVEL, a keyword or symbol, as `:safe', `:cautious' or `:dangerous'.
`:moderate' is another word for `:cautious'.  Signal `agent-q-invalid-tool'
for anything else."
  (pcase level
    ((or :safe 'safe) :safe)
    ((or :cautious 'cautious :moderate 'moderate) :cautious)
    ((or :dangerous 'dangerous) :dangerous)
    (_ (signal 'agent-q-invalid-tool
               (list (format "%S is not a safety level: expected :safe, :cautious or :dangerous"
                             level))))))

(defvar agent-q-module-levels-hook nil
  "Functions called when `agent-q-tool-levels' was set.")

(defun agent-q-module--set-levels (option levels)
  "Set OPTION to LEVELS and put them in force."
  (dolist (entry levels)
    (agent-q-module-level (cdr entry)))
  (set-default option levels)
  (run-hooks 'agent-q-module-levels-hook))

;;;###autoload
(put 'agent-q-tool-levels 'risky-local-variable t)
(defcustom agent-q-tool-levels nil
  "The safety levels that you give to tools, by name.
They replace the levels that the tools were defined with, from the next
turn on.  Think twice before you lower one."
  :type '(alist :key-type (string :tag "Tool")
                :value-type (choice (const :tag "Safe: runs at once" :safe)
                                    (const :tag "Cautious: is logged, then runs" :cautious)
                                    (const :tag "Dangerous: asks" :dangerous)))
  :set #'agent-q-module--set-levels
  ;; Nothing is in force yet; the core's start checks the value.
  :initialize #'custom-initialize-default
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;;; Where things are

(defun agent-q-module-installed-directory ()
  "Return the folder for a core that was downloaded, which need not exist.
It is outside of the package, whose folder is replaced with each version."
  (expand-file-name "agent-q/core/" user-emacs-directory))

(defun agent-q-module-core-directory ()
  "Return the folder of the core.
It is that of a core that was built, unless only a downloaded one fits."
  (let ((installed (agent-q-module-installed-directory)))
    (if (and (not (agent-q-module--fits-p agent-q-module-directory))
             (agent-q-module--fits-p installed))
        installed
      agent-q-module-directory)))

(defun agent-q-module--fits-p (directory)
  "Whether there is a core in DIRECTORY that this Emacs Lisp fits."
  (equal (alist-get 'interface (agent-q-module-manifest directory))
         (number-to-string agent-q-module-interface)))

(defun agent-q-module-core-file ()
  "Return the name of the core's file, which need not exist."
  (expand-file-name (concat "agent-q-core" (agent-q-module-suffix)) (agent-q-module-core-directory)))

(defun agent-q-module-suffix ()
  "Return this system's suffix of dynamic modules, or signal a `user-error'."
  (or (bound-and-true-p module-file-suffix)
      (user-error "This Emacs was built without dynamic modules, which agent-q needs")))

(defun agent-q-module-source-directory ()
  "Return the directory with the Makefile that builds the core, or nil."
  (let ((parent (file-name-directory
                 (directory-file-name (file-truename agent-q-module-directory)))))
    (and (file-exists-p (expand-file-name "Makefile" parent))
         (file-exists-p (expand-file-name "Cargo.toml" parent))
         parent)))

(defun agent-q-module-remedy ()
  "Return how to get the core, for the end of an error message."
  (let ((source (agent-q-module-source-directory)))
    (if source
        (format "run `make build' in %s, or M-x agent-q-build" (abbreviate-file-name source))
      (concat (if (agent-q-module-release) "M-x agent-q-install-core downloads it; or " "")
              "run `make build' in agent-q's source tree, and put its lisp folder on `load-path'"
              " or into `agent-q-module-directory'"))))

(defun agent-q-module--identity (file)
  "Return an identity of the build in FILE, or nil when there is none."
  (let ((attributes (file-attributes file)))
    (and attributes
         (list (file-attribute-inode-number attributes)
               (file-attribute-modification-time attributes)
               (file-attribute-size attributes)))))

;;;;; The manifest

(defun agent-q-module-manifest (&optional directory)
  "Return the manifest of the core in DIRECTORY as an alist of strings, or nil.
DIRECTORY is that of the core in use if it is nil.  The keys are the symbols
`interface', `host' and `size', the number of bytes of the core's file."
  (let ((file (expand-file-name "agent-q-core.manifest"
                                (or directory (agent-q-module-core-directory)))))
    (when (file-readable-p file)
      (with-temp-buffer
        (insert-file-contents file)
        (let ((fields nil))
          (while (re-search-forward "^\\([a-z]+\\) \\(.+\\)$" nil t)
            (push (cons (intern (match-string 1)) (match-string 2)) fields))
          (nreverse fields))))))

(defun agent-q-module-platform ()
  "Return the name of the platform of this Emacs, such as \"x86_64-linux\"."
  (mapconcat #'identity (agent-q-module--machine system-configuration) "-"))

(defun agent-q-module-release ()
  "Return what is published of this version for this platform, or nil.
That is a property list: `:version', `:address' of the folder on the web, and
`:sha256' and `:bytes' of the archive.  The package carries it for all platforms
in agent-q-release.eld, which the release's workflow writes."
  (let ((file (expand-file-name "agent-q-release.eld" agent-q-module-directory)))
    (when (file-readable-p file)
      (let* ((release (with-temp-buffer
                        (insert-file-contents file)
                        (read (current-buffer))))
             (core (assoc (agent-q-module-platform) (plist-get release :cores))))
        (and core
             (append (list :version (plist-get release :version)
                           :address (plist-get release :address))
                     (cdr core)))))))

(defun agent-q-module--machine (configuration)
  "Return (PROCESSOR SYSTEM) of CONFIGURATION, a triple of Rust's or of Emacs's."
  (let* ((configuration (downcase configuration))
         (processor (car (split-string configuration "-")))
         (system (cond ((string-match "darwin\\|macos" configuration) "darwin")
                       ((string-match "mingw\\|windows\\|cygwin\\|msys" configuration) "windows")
                       ((string-match "linux\\|freebsd\\|openbsd\\|netbsd" configuration)
                        (match-string 0 configuration))
                       (t configuration))))
    (list (cond ((member processor '("arm64" "aarch64")) "aarch64")
                ((and (equal processor "arm") (equal system "darwin")) "aarch64")
                ((member processor '("amd64" "x86_64")) "x86_64")
                ((string-match-p "\\`i[3-7]86\\'" processor) "i686")
                ((string-prefix-p "arm" processor) "arm")
                (t processor))
          system)))

(defun agent-q-module-problem ()
  "Return a sentence about why the installed core can't be used, or nil.
The core's file is not opened."
  (let* ((file (agent-q-module-core-file))
         (manifest (agent-q-module-manifest))
         (interface (alist-get 'interface manifest))
         (host (alist-get 'host manifest))
         (size (alist-get 'size manifest)))
    (cond
     ((not (file-exists-p file))
      (format "agent-q's core is not installed: %s" (agent-q-module-remedy)))
     ((not (and interface host size))
      (format "agent-q's core at %s has no manifest, so it may not fit: %s"
              (abbreviate-file-name file) (agent-q-module-remedy)))
     ((not (equal (agent-q-module--machine host)
                  (agent-q-module--machine system-configuration)))
      (format "agent-q's core was built for another machine (%s, this Emacs is %s): %s"
              host system-configuration (agent-q-module-remedy)))
     ((/= (string-to-number interface) agent-q-module-interface)
      (format "agent-q's core doesn't fit its Emacs Lisp (interface %s, wanted is %d): %s"
              interface agent-q-module-interface (agent-q-module-remedy)))
     ;; The system's loader kills Emacs when it meets the end of a library too early.
     ((/= (string-to-number size) (file-attribute-size (file-attributes file)))
      (format "agent-q's core at %s is damaged (%d bytes, not %s): %s"
              (abbreviate-file-name file) (file-attribute-size (file-attributes file)) size
              (agent-q-module-remedy))))))

;;;;; Loading

(defun agent-q-module-loaded-p ()
  "Return non-nil if this session has loaded a core.
Its feature doesn't show that: Emacs revokes that when it was provided
within a `require' that was quit, but not the functions, and no module
can be loaded twice."
  (fboundp 'agent-q-core-interface))

;;;###autoload
(defun agent-q-module-ensure ()
  "Load the core unless it is loaded; signal a `user-error' if it doesn't fit."
  (unless (or (agent-q-module-loaded-p) agent-q-module--loaded)
    (let ((problem (agent-q-module-problem)))
      (when problem
        (user-error "%s" problem)))
    (agent-q-module--load (agent-q-module-core-file)))
  (agent-q-module--check-loaded)
  t)

(defun agent-q-module--load (file)
  "Load the core from FILE, whose manifest fits."
  (let ((identity (agent-q-module--identity file)))
    (condition-case failure
        (module-load file)
      (module-init-failed
       (setq agent-q-module--loaded identity)
       (user-error "%s" (agent-q-module-session-problem)))
      (error
       (user-error "Emacs can't load agent-q's core (%s): %s"
                   (error-message-string failure) (agent-q-module-remedy))))
    (unless (agent-q-module-loaded-p)
      (user-error "%s is not agent-q's core: %s" file (agent-q-module-remedy)))
    (setq agent-q-module--loaded identity)))

(defun agent-q-module-session-problem ()
  "Return a sentence about why the core that this session loaded can't be used.
Return nil if it can, or if none was loaded."
  (cond
   ((not (agent-q-module-loaded-p))
    (and agent-q-module--loaded
         "This session loaded agent-q's core before, and can't load it again; restart Emacs"))
   ;; The functions of the latest copy count, the chats are in the first one.
   ((not (memq agent-q-module--entry (list nil (symbol-function 'agent-q-core-interface))))
    "Another copy of agent-q's core was loaded over the one in use; restart Emacs")
   ((not (eql (agent-q-core-interface) agent-q-module-interface))
    (format
     "This session loaded another core of agent-q (interface %s, wanted is %d): %s, then restart Emacs"
     (agent-q-core-interface) agent-q-module-interface (agent-q-module-remedy)))))

(defun agent-q-module--check-loaded ()
  "Signal a `user-error' unless the core that was loaded fits.
Tell once when its file was replaced."
  (let ((problem (agent-q-module-session-problem))
        (installed (agent-q-module--identity (agent-q-module-core-file))))
    (when problem
      (user-error "%s" problem))
    (unless (featurep 'agent-q-core)
      (provide 'agent-q-core))
    (setq agent-q-module--entry (symbol-function 'agent-q-core-interface))
    (when (and installed agent-q-module--loaded
               (not (member installed (list agent-q-module--loaded agent-q-module--warned))))
      (setq agent-q-module--warned installed)
      (message "agent-q's core was rebuilt after this session loaded it; restart Emacs to use it"))))

(defun agent-q-module-replaced-p ()
  "Return non-nil if the core was replaced after this session loaded it."
  (let ((installed (agent-q-module--identity (agent-q-module-core-file))))
    (and agent-q-module--loaded installed
         (not (equal installed agent-q-module--loaded)))))

(provide 'agent-q-module)

;; An autoload that is answered by another one would be an error for the caller of the function.
(dolist (name agent-q-module--wanted)
  (let ((function (intern name)))
    (autoload-do-load (symbol-function function) function)))

;;;; What went wrong inside, shown to the user

;; The buffer *agent-q-log*, and hooks whose functions fail each alone: what one of
;; them does wrong is shown, and keeps neither the others nor the caller from going on.

(defvar agent-q-module-log-failed nil
  "The functions whose failure was reported, lists (PLACE FUNCTION).")

(defun agent-q-module-log-line (line)
  "Add LINE to the buffer *agent-q-log*."
  (with-current-buffer (get-buffer-create "*agent-q-log*")
    (unless (derived-mode-p 'special-mode)
      (special-mode))
    (let ((inhibit-read-only t))
      (save-excursion
        (goto-char (point-max))
        (insert (format-time-string "%F %T ") line "\n")))))

(defun agent-q-module-log-call (place function &rest arguments)
  "Return what FUNCTION gives for ARGUMENTS, or nil if it fails.
PLACE, a symbol, says for what it is called.  A function that fails again
and again is shown once."
  (condition-case failure
      (apply function arguments)
    (error
     (let ((entry (list place function)))
       (unless (member entry agent-q-module-log-failed)
         (push entry agent-q-module-log-failed)
         (agent-q-module-log-line (format "%s failed, called for %s: %s"
                                          (agent-q-module--log-name function) place
                                          (error-message-string failure)))
         (message "agent-q: %s failed (%s); see *agent-q-log*"
                  (agent-q-module--log-name function) (error-message-string failure))))
     nil)))

(defun agent-q-module--log-name (function)
  "Return a name for FUNCTION."
  (if (symbolp function) (symbol-name function) "a function without a name"))

(defun agent-q-module-log-run-hook (hook &rest arguments)
  "Call the functions of HOOK, a symbol, with ARGUMENTS, each guarded on its own."
  (apply #'run-hook-wrapped hook
         (lambda (function &rest arguments)
           (apply #'agent-q-module-log-call hook function arguments)
           ;; Otherwise the functions behind it would not be called.
           nil)
         arguments))

(provide 'agent-q-module)
;;; agent-q-module.el ends here
