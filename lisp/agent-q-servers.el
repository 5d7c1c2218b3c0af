;;; agent-q-servers.el --- Tools of others: MCP servers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Which MCP servers there are, by an option and by projects' files, and a list of them.
;; The core starts them, knows their tools and calls those.

;;; Code:

(require 'agent-q)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-registry)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Those of the user

(defun agent-q-servers--set (option servers)
  "Set OPTION to SERVERS, and tell the core."
  (set-default option servers)
  (agent-q-servers-apply))

;;;###autoload (put 'agent-q-tool-servers 'risky-local-variable t)
(defcustom agent-q-tool-servers nil
  "MCP servers whose tools the model may use, by name.
Each is a program, which is started when its tools are first asked for:

  (\"git\" :command (\"uvx\" \"mcp-server-git\"))

or an address:

  (\"docs\" :url \"https://docs.example.org/mcp\")

Further properties: `:env' or `:headers', an alist of strings; `:directory',
where the program works, your home directory by default; `:timeout', the
seconds that a call may go without a sign of life, 120 by default.  A value in
`:env' or `:headers' may be a function that is called without arguments, such
as one that looks into auth-source.

Variables that may hold a secret, such as GITHUB_TOKEN, reach a program only
by `:env'.  A server runs with your permissions and can do what it likes, also
when no tool of it is called.  Its tools ask before they run, like anything
dangerous; `agent-q-tool-levels' and your rules change that for each.  The
model finds them by more_tools; see \\[agent-q-servers-list]."
  :type '(alist :key-type (string :tag "Name") :value-type plist)
  :set #'agent-q-servers--set
  :initialize #'custom-initialize-default
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;; Those of projects

;; The file .mcp.json in a project's root is the project's, not the user's.  So each of its entries is
;; shown and asked about before it counts, and again when it has changed.

(defconst agent-q-servers--file ".mcp.json"
  "The name of the file in which projects name servers.")

(defconst agent-q-servers--largest-file 100000
  "The most bytes of such a file that are read.")

(defconst agent-q-servers--longest-entry 4000
  "The most characters of an entry: the user has to read all of it.")

(defconst agent-q-servers--longest-name 60
  "The most characters of the name of an entry.
Requests and the model are told it.")

(defcustom agent-q-servers-allowed-file (locate-user-emacs-file "agent-q/tool-servers.eld")
  "The file that says which servers of projects you have allowed."
  :type 'file
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))
;;;###autoload (put 'agent-q-servers-allowed-file 'risky-local-variable t)

(cl-defstruct (agent-q-servers--entry (:copier nil))
  "The server NAME of the project in ROOT: PROPERTIES as in `agent-q-tool-servers'.
They are as they are written; MARK stands for all that is in the file about it.
PROBLEM says why there are none."
  root name properties mark problem)

(defun agent-q-servers--of-project (root)
  "Return the entries that the project in ROOT has in its file."
  (let ((file (expand-file-name agent-q-servers--file root)))
    (when (and (not (file-remote-p root)) (file-regular-p file) (file-readable-p file))
      (condition-case failure
          (let ((servers (gethash "mcpServers" (agent-q-servers--read file))) (entries nil))
            (when (hash-table-p servers)
              (maphash (lambda (name entry)
                         (push (agent-q-servers--entry-of root name entry) entries))
                       servers))
            (nreverse entries))
        (error (list (make-agent-q-servers--entry
                      :root root :name agent-q-servers--file
                      :problem (error-message-string failure))))))))

(defun agent-q-servers--read (file)
  "Return the JSON of FILE."
  (when (> (file-attribute-size (file-attributes file)) agent-q-servers--largest-file)
    (user-error "%s is too large" file))
  (let ((value (agent-q-json-parse (with-temp-buffer
                                     (insert-file-contents file)
                                     (buffer-string)))))
    (if (hash-table-p value) value (user-error "%s holds no object" file))))

(defun agent-q-servers--entry-of (root name entry)
  "Return the entry of the server NAME of the project in ROOT; ENTRY is its JSON."
  (let* ((text (agent-q-json-encode entry))
         (made (make-agent-q-servers--entry
                :root root :name name
                :mark (secure-hash 'sha256 (format "%s\0%s\0%s" root name text)))))
    (condition-case failure
        (setf (agent-q-servers--entry-properties made)
              (cond ((or (< agent-q-servers--longest-name (length name))
                         (not (equal name (agent-q-text-visible-line name agent-q-servers--longest-name))))
                     (user-error "Its name is too long or has characters that can't be seen"))
                    ((< agent-q-servers--longest-entry (length text))
                     (user-error "Its entry is longer than anybody would read: %d characters" (length text)))
                    (t (agent-q-servers--properties-of entry root))))
      (error (setf (agent-q-servers--entry-problem made) (error-message-string failure))))
    made))

(defun agent-q-servers--properties-of (entry root)
  "Return the properties of the server in ENTRY, JSON, of the project in ROOT."
  (unless (hash-table-p entry) (user-error "Its entry is not an object"))
  (let* ((text (lambda (value what)
                 (if (stringp value) value (user-error "%s is not a string" what))))
         (pairs (lambda (key)
                  (let ((object (gethash key entry)) (pairs nil))
                    (when (hash-table-p object)
                      (maphash (lambda (name value) (push (cons name (funcall text value name)) pairs))
                               object))
                    (nreverse pairs)))))
    (cond ((gethash "url" entry)
           (list :url (funcall text (gethash "url" entry) "Its address") :headers (funcall pairs "headers")))
          ((gethash "command" entry)
           (unless (sequencep (gethash "args" entry)) (user-error "Its arguments are not a list"))
           (list :command (cons (funcall text (gethash "command" entry) "Its command")
                                (mapcar (lambda (it) (funcall text it "An argument of its command"))
                                        (gethash "args" entry)))
                 :env (funcall pairs "env") :directory root))
          (t (user-error "It has neither a command nor an address")))))

(defun agent-q-servers--filled-in (text)
  "Return TEXT of a project's file with the environment's variables for ${NAME}.
A key of a provider is never filled in."
  (replace-regexp-in-string
   "\\${\\([A-Za-z_][A-Za-z0-9_]*\\)\\(:-\\([^}]*\\)\\)?}"
   (lambda (match)
     (let* ((name (match-string 1 match)) (default (match-string 3 match))
            (value (or (getenv name) default)))
       (save-match-data
         (agent-q-servers--fit-variable name value))))
   text t t))

(defun agent-q-servers--fit-variable (name value)
  "Return VALUE of the environment variable NAME, if a server may have it."
  (cond ((null value) (user-error "The environment variable %s is not set" name))
        ((agent-q-provider-secret-in-p value (agent-q-provider-secrets))
         (user-error "%s holds a key of a provider, which no server gets" name))
        (t value)))

(defun agent-q-servers--fill-in (properties)
  "Return PROPERTIES of a project's server with its variables filled in."
  (let ((pairs (lambda (alist)
                 (mapcar (pcase-lambda (`(,name . ,value))
                           (cons name (agent-q-servers--filled-in value)))
                         alist))))
    (append
     (if (plist-get properties :url)
         (list :url (agent-q-servers--filled-in (plist-get properties :url))
               :headers (funcall pairs (plist-get properties :headers)))
       (list :command (mapcar #'agent-q-servers--filled-in (plist-get properties :command))
             :env (funcall pairs (plist-get properties :env))
             :directory (plist-get properties :directory)))
     (list :project (plist-get properties :project)))))

(defun agent-q-servers--allowed ()
  "Return what stands for the entries that the user allowed."
  (condition-case nil
      (with-temp-buffer
        (insert-file-contents agent-q-servers-allowed-file)
        (let ((marks (read (current-buffer))))
          (and (listp marks) (seq-filter #'stringp marks))))
    ((file-error end-of-file invalid-read-syntax) nil)))

(defun agent-q-servers--split (entries)
  "Return a cons of those ENTRIES that are allowed as they are, and the rest."
  (let* ((marks (agent-q-servers--allowed))
         (allowed-p (lambda (entry)
                      (and (null (agent-q-servers--entry-problem entry))
                           (member (agent-q-servers--entry-mark entry) marks)))))
    (cons (seq-filter allowed-p entries) (seq-remove allowed-p entries))))

(defun agent-q-servers--remember (entry allowed)
  "Remember in the user's file whether ENTRY is ALLOWED."
  (let* ((mark (agent-q-servers--entry-mark entry))
         (marks (remove mark (agent-q-servers--allowed)))
         (coding-system-for-write 'utf-8-unix))
    (make-directory (file-name-directory agent-q-servers-allowed-file) t)
    (with-file-modes #o600
      (write-region (format ";; Servers of projects that you have allowed, by what was shown.\n%S\n"
                            (if allowed (cons mark marks) marks))
                    nil agent-q-servers-allowed-file nil 'silent))))

(defun agent-q-servers--roots ()
  "Return the projects of all chats."
  (delete-dups
   (delq nil (mapcar (lambda (buffer) (buffer-local-value 'agent-q-session-root buffer))
                     (agent-q-session-buffers)))))

(defvar agent-q-servers--entries nil
  "The entries of the projects of all chats, as their files were read last.")

(defun agent-q-servers--entries-of-projects ()
  "Return the entries of the projects of all chats."
  (setq agent-q-servers--entries
        (seq-mapcat #'agent-q-servers--of-project (agent-q-servers--roots))))

(defvar agent-q-servers--names nil
  "What entries of projects are called: ((ROOT . NAME) . SHOWN).
It stays, as a server with another name would be another one.")

(defun agent-q-servers--shown-name (entry)
  "Return what ENTRY is called: as in its file, unless another server is."
  (let* ((name (agent-q-servers--entry-name entry)) (root (agent-q-servers--entry-root entry))
         (key (cons root name)))
    (cl-flet ((free-p (shown) (not (or (assoc shown agent-q-tool-servers)
                                       (seq-find (lambda (it) (and (equal shown (cdr it))
                                                                   (not (equal key (car it)))))
                                                 agent-q-servers--names)))))
      (let ((shown (alist-get key agent-q-servers--names nil nil #'equal)))
        (if (and shown (free-p shown)) shown
          (setf (alist-get key agent-q-servers--names nil nil #'equal)
                (seq-find #'free-p
                          (list name
                                (format "%s (%s)" name (file-name-nondirectory (directory-file-name root)))
                                (format "%s (%s)" name root)))))))))

(defun agent-q-servers--ask (entry)
  "Ask the user whether ENTRY may be used, and remember a yes."
  (when (agent-q-servers--entry-problem entry)
    (user-error "%s" (agent-q-servers--entry-problem entry)))
  (let* ((properties (agent-q-servers--entry-properties entry))
         (name (agent-q-text-visible-line (agent-q-servers--entry-name entry)))
         (whole (lambda (text) (agent-q-text-visible-line text agent-q-servers--longest-entry)))
         (pairs (lambda (title alist)
                  (dolist (pair alist)
                    (princ (format "%-12s %s=%s\n" title (funcall whole (car pair))
                                   (funcall whole (cdr pair))))
                    (setq title "")))))
    (agent-q-text-with-page "*agent-q tool server*"
      (princ (format "The project in %s wants to use the MCP server %s.\n\n"
                     (abbreviate-file-name (agent-q-servers--entry-root entry)) name))
      (let ((title "Command:"))
        (dolist (word (plist-get properties :command))
          (princ (format "%-12s %s\n" title (funcall whole word)))
          (setq title "")))
      (when (plist-get properties :url)
        (princ (format "Address:     %s\n" (funcall whole (plist-get properties :url)))))
      (funcall pairs "Environment:" (plist-get properties :env))
      (funcall pairs "Headers:" (plist-get properties :headers))
      (princ "\n${NAME} is filled in with your environment's variable of that name.
The program runs with your permissions.  You are asked again when this entry of the
project's .mcp.json changes, but not when the program itself does.\n"))
    (when (yes-or-no-p (format "Let chats about this project use the server %s, as shown? " name))
      (agent-q-servers--remember entry t)
      (agent-q-servers-apply)
      t)))

(defvar-local agent-q-servers--told nil
  "The servers of this chat's project that the user was told of.")

(defun agent-q-servers-news ()
  "Return a sentence about servers of this chat's project, or nil.
It names those that are not allowed, once.  `agent-q-servers-apply' has read the
files."
  (let ((names (mapcar #'agent-q-servers--entry-name
                       (cdr (agent-q-servers--split
                             (seq-filter (lambda (entry)
                                           (equal agent-q-session-root (agent-q-servers--entry-root entry)))
                                         agent-q-servers--entries))))))
    (unless (equal names agent-q-servers--told)
      (setq agent-q-servers--told names)
      (and names
           (format "This project has MCP servers of its own, which you haven't allowed: %s.  %s shows them."
                   (agent-q-text-visible-line (string-join names ", "))
                   (substitute-command-keys "\\[agent-q-servers-list]"))))))

;;;; As the core takes them

(defun agent-q-servers--environment ()
  "Return the environment for servers as an alist."
  (delq nil (mapcar (lambda (setting)
                      (and (string-match "\\`\\([^=]+\\)=" setting)
                           (cons (match-string 1 setting) (substring setting (match-end 0)))))
                    (agent-q-provider-environment))))

(defun agent-q-servers--vectors (alist)
  "Return ALIST, names and values, as the core takes it."
  (vconcat (mapcar (pcase-lambda (`(,name . ,value)) (vector name value)) alist)))

(defun agent-q-servers--text (value)
  "Return VALUE of `:env' or `:headers' as a string, which it may compute."
  (let ((text (if (functionp value) (funcall value) value)))
    (if (stringp text) text (user-error "%S is not a string" value))))

(defun agent-q-servers--texts (alist)
  "Return ALIST of names and values with strings as its values."
  (mapcar (pcase-lambda (`(,name . ,value))
            (cons (if (symbolp name) (symbol-name name) name) (agent-q-servers--text value)))
          alist))

(defun agent-q-servers--program (program directory)
  "Return in a list where PROGRAM of a server that works in DIRECTORY is found."
  (list (cond ((string-prefix-p "~" program) (expand-file-name program))
              ((string-search "/" program) (expand-file-name program directory))
              (t (or (executable-find program) program)))))

(defun agent-q-servers--made (name properties)
  "Return the server NAME of PROPERTIES as an alist for the core."
  (unless (and (stringp name) (not (string-blank-p name)))
    (user-error "%S is not the name of a server" name))
  (let ((command (plist-get properties :command))
        (url (plist-get properties :url)))
    (append
     `((name . ,name))
     (when-let* ((root (plist-get properties :project)))
       `((project . ,root)))
     (when-let* ((seconds (plist-get properties :timeout)))
       (unless (natnump seconds) (user-error "Its timeout is not a number of seconds"))
       `((timeout . ,seconds)))
     (cond
      ((and command url) (user-error "It has both a command and an address"))
      (command
       (unless (and (listp command) (seq-every-p #'stringp command))
         (user-error "Its command is not a list of strings"))
       (let ((own (agent-q-servers--texts (plist-get properties :env)))
             (directory (expand-file-name (or (plist-get properties :directory) "~/"))))
         `((command . ,(vconcat (agent-q-servers--program (car command) directory)
                                (cdr command)))
           (directory . ,directory)
           (environment . ,(agent-q-servers--vectors (agent-q-servers--environment)))
           (own . ,(agent-q-servers--vectors own)))))
      ((and (stringp url) (string-match-p "\\`https?://[^ ]+\\'" url))
       `((url . ,url)
         (route . ,(agent-q-provider-route name (list :base-url url)))
         (headers . ,(let ((headers (agent-q-json-empty-object)))
                       (pcase-dolist (`(,name . ,value)
                                      (agent-q-servers--texts (plist-get properties :headers)))
                         (puthash name value headers))
                       headers))))
      (t (user-error "It has neither a command nor an address with http:// or https://"))))))

(defvar agent-q-servers--applied nil
  "What the core has: names with properties and what was made of them.
An entry is made once, as a chat's environment may be another's, too.")

(defvar agent-q-servers--warned nil
  "The entries that were warned of.")

(defun agent-q-servers--try (name properties)
  "Return the server NAME of PROPERTIES for the core.
Return nil, with a warning, if it can't be used."
  (condition-case failure
      (agent-q-servers--made name (if (plist-get properties :project)
                                      (agent-q-servers--fill-in properties)
                                    properties))
    (error
     (unless (member (cons name properties) agent-q-servers--warned)
       (push (cons name properties) agent-q-servers--warned)
       (display-warning 'agent-q (format-message "The tool server %s can't be used: %s"
                                                 name (error-message-string failure))))
     nil)))

(defun agent-q-servers--all ()
  "Return the servers of the user and those of projects that are allowed.
They are as in `agent-q-tool-servers'."
  (append
   (and (listp agent-q-tool-servers) agent-q-tool-servers)
   (mapcar (lambda (entry)
             (cons (agent-q-servers--shown-name entry)
                   (append (agent-q-servers--entry-properties entry)
                           (list :project (agent-q-servers--entry-root entry)))))
           (car (agent-q-servers--split (agent-q-servers--entries-of-projects))))))

(defun agent-q-servers-apply ()
  "Tell the core which servers there are as soon as it works."
  (when (agent-q-events-running-p)
    (let* ((all (seq-uniq (agent-q-servers--all) (lambda (one other) (equal (car one) (car other)))))
           (made (delq nil
                       (mapcar (pcase-lambda (`(,name . ,properties))
                                 (let ((before (assoc name agent-q-servers--applied)))
                                   (if (and before (equal (cadr before) properties)) before
                                     (and-let* ((made (agent-q-servers--try name properties)))
                                       (list name (copy-tree properties) made)))))
                               all))))
      (unless (equal made agent-q-servers--applied)
        (agent-q-core-tool-servers-configure
         (agent-q-json-serialize (vconcat (mapcar #'caddr made))))
        (setq agent-q-servers--applied made)))))

;;;; The list

(defvar-local agent-q-servers--chat nil
  "The chat that this list chooses servers for, or nil.")

(defvar agent-q-servers-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-servers-show-log)
    (define-key map "s" #'agent-q-servers-start)
    (define-key map "k" #'agent-q-servers-stop)
    (define-key map "t" #'agent-q-servers-toggle)
    (define-key map "D" #'agent-q-servers-forbid)
    (define-key map (kbd "SPC") #'agent-q-servers-toggle)
    map)
  "Keymap of `agent-q-servers-list-mode'.")

(define-derived-mode agent-q-servers-list-mode tabulated-list-mode "agent-q servers"
  "Major mode of the list of tool servers.

\\{agent-q-servers-list-mode-map}"
  (agent-q-text-list-setup
   '((7 "Offered" 7 t) (10 "Server" 16 t :most 30) (9 "State" 9 t)
     (5 "Tools" 6 nil :right-align t) (3 "Says it is" 20 t)
     (8 "What it is" 0 nil))
   #'agent-q-servers--entries
   "No tool servers.  `agent-q-tool-servers' names them.\n"))

;;;###autoload
(defun agent-q-servers-list ()
  "Show the MCP servers whose tools the model may use.
From a chat, the list chooses whose tools the chat offers from the start; the
model finds the others by more_tools."
  (interactive)
  (agent-q-registry-ensure)
  (let ((chat (and agent-q-session-chat-p (current-buffer))))
    (agent-q-servers-apply)
    (pop-to-buffer
     (with-current-buffer (get-buffer-create "*agent-q tool servers*")
       (agent-q-servers-list-mode)
       (setq agent-q-servers--chat chat)
       (agent-q-text-list-print)
       (goto-char (point-min))
       (current-buffer)))))

(defun agent-q-servers--entries ()
  "Return the rows of the list of servers."
  (mapcar
   (lambda (server)
     (let ((state (plist-get server :state)) (problem (plist-get server :problem))
           (left-out (plist-get server :left-out)))
       (list (plist-get server :name)
             (vector (if (and (plist-get server :group) (agent-q-servers--offered-p server)) "+" "")
                     (agent-q-text-visible-line
                      (let ((name (plist-get server :name)))
                        (if (stringp name) name (agent-q-servers--entry-name name))))
                     (agent-q-text-coloured state)
                     (format "%s%s" (plist-get server :tools) (if (zerop left-out) "" "+"))
                     (agent-q-text-visible-line (or (plist-get server :says) ""))
                     (agent-q-text-visible-line
                      (concat (if-let* ((project (plist-get server :project)))
                                  (format "for chats about %s: " (abbreviate-file-name project))
                                "")
                              (if problem (concat problem "; RET shows its log")
                                (plist-get server :place))))))))
   (append (agent-q-core-tool-servers) (agent-q-servers--refused))))

(defun agent-q-servers--refused ()
  "Return rows' data of the servers of projects that are not allowed."
  (mapcar (lambda (entry)
            (let ((properties (agent-q-servers--entry-properties entry)))
              (list :name entry :state "unasked" :tools 0 :left-out 0
                    :project (agent-q-servers--entry-root entry)
                    :place (or (agent-q-servers--entry-problem entry)
                               (plist-get properties :url)
                               (string-join (plist-get properties :command) " ")))))
          (cdr (agent-q-servers--split (agent-q-servers--entries-of-projects)))))

(defun agent-q-servers--category (server)
  "Return the category of the tools of SERVER, a keyword."
  (intern (concat ":" (plist-get server :group))))

(defun agent-q-servers--selection ()
  "Return the value of `agent-q-offered-tools' in the chat of this list."
  (if (buffer-live-p agent-q-servers--chat)
      (buffer-local-value 'agent-q-offered-tools agent-q-servers--chat)
    agent-q-offered-tools))

(defun agent-q-servers--offered-p (server)
  "Whether the tools of SERVER are in the first offer of this list's chat."
  (let ((selection (agent-q-servers--selection)))
    (or (eq selection 'all)
        (and (consp selection) (memq (agent-q-servers--category server) selection)))))

(defun agent-q-servers--at-point ()
  "Return the name of the server at point.
One that isn't allowed yet is asked about first."
  (let ((server (or (tabulated-list-get-id) (user-error "No server on this line"))))
    (cond ((stringp server) server)
          ((agent-q-servers--ask server)
           (agent-q-text-list-print)
           (agent-q-servers--shown-name server))
          (t (user-error "The server was not allowed")))))

(defun agent-q-servers-forbid ()
  "Forbid the server at point, one of a project's that you allowed."
  (interactive nil agent-q-servers-list-mode)
  (let* ((name (tabulated-list-get-id))
         (entry (seq-find (lambda (entry) (equal name (agent-q-servers--shown-name entry)))
                          (car (agent-q-servers--split (agent-q-servers--entries-of-projects))))))
    (unless entry
      (user-error "Only a project's server that you allowed can be forbidden"))
    (agent-q-servers--remember entry nil)
    (agent-q-servers-apply)
    (agent-q-text-list-print)))

(defun agent-q-servers--named (name)
  "Return what the core knows of the server NAME."
  (or (seq-find (lambda (server) (equal name (plist-get server :name)))
                (agent-q-core-tool-servers))
      (user-error "There is no server %s any more" name)))

(defun agent-q-servers-toggle ()
  "Offer the tools of the server at point in the chat from the start, or no longer.
It takes effect with the next message."
  (interactive nil agent-q-servers-list-mode)
  (let* ((category (agent-q-servers--category
                    (agent-q-servers--named (agent-q-servers--at-point))))
         (selection (agent-q-servers--selection))
         (new (cond ((memq selection '(all none))
                     (user-error (substitute-command-keys
                                  "This chat offers %s; \\[agent-q-list-tools] changes that")
                                 (if (eq selection 'all) "every tool" "no tool")))
                    ((memq category selection) (remq category selection))
                    (t (append (or selection '(:usual)) (list category))))))
    (unless (buffer-live-p agent-q-servers--chat)
      (user-error "Open this list from a chat to choose its servers"))
    (with-current-buffer agent-q-servers--chat
      (setq-local agent-q-offered-tools (if (equal new '(:usual)) nil new)))
    (tabulated-list-print t)))

(defun agent-q-servers-start ()
  "Start the server at point, also one that is running."
  (interactive nil agent-q-servers-list-mode)
  (let ((name (agent-q-servers--at-point)))
    ;; With the environment as it is now.
    (setq agent-q-servers--applied (assoc-delete-all name (copy-sequence agent-q-servers--applied)))
    (agent-q-servers-apply)
    (agent-q-core-tool-server-stop name)
    (agent-q-core-tool-server-start name)
    (tabulated-list-print t)))

(defun agent-q-servers-stop ()
  "Stop the server at point until one of its tools is called."
  (interactive nil agent-q-servers-list-mode)
  (agent-q-core-tool-server-stop (agent-q-servers--at-point))
  (tabulated-list-print t))

(defun agent-q-servers-show-log ()
  "Show what the server at point wrote to its error output, and what became of it."
  (interactive nil agent-q-servers-list-mode)
  (let* ((name (agent-q-servers--at-point)) (log (agent-q-core-tool-server-log name)))
    (agent-q-text-with-page "*agent-q tool server*"
      (princ (format "The log of the server %s:\n\n%s" (agent-q-text-visible-line name)
                     (if (string-empty-p log) "It was not started yet.\n"
                       (agent-q-text-visible log)))))))

(defun agent-q-servers--changed (_event)
  "Show the state of servers as it is now, where it is shown."
  (when-let* ((list (get-buffer "*agent-q tool servers*")))
    (with-current-buffer list
      (agent-q-text-list-print))))

(agent-q-events-subscribe :tool-server #'agent-q-servers--changed)

(provide 'agent-q-servers)
;;; agent-q-servers.el ends here
