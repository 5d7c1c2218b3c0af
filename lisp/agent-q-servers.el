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
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Those of the user

(defun agent-q-servers--set (option servers)
  "Set OPTION to SERVERS, and have the core know them."
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

A server runs with your permissions and can do what it likes, also when no
tool of it is called.  Its tools ask before they run, like anything dangerous;
`agent-q-tool-levels' and your rules change that for each.  The model finds
them by more_tools; see \\[agent-q-list-tool-servers]."
  :type '(alist :key-type (string :tag "Name") :value-type plist)
  :set #'agent-q-servers--set
  :initialize #'custom-initialize-default
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;; As the core takes them

(defun agent-q-servers--environment ()
  "Return Emacs's environment as an alist, without what holds a provider's key."
  (let ((secrets (seq-remove #'string-empty-p (agent-q-provider-secrets)))
        (seen nil) (kept nil))
    (dolist (setting process-environment)
      (let ((name (car (split-string setting "="))))
        (unless (member name seen)
          (push name seen)
          (when (and (string-match "\\`[^=]+=" setting)
                     (not (agent-q-servers--raw-p setting))
                     (not (seq-some (lambda (secret) (string-search secret setting)) secrets)))
            (push (cons name (substring setting (match-end 0))) kept)))))
    (nreverse kept)))

(defun agent-q-servers--raw-p (text)
  "Whether TEXT can't be written as JSON."
  (string-match-p "[\x3fff80-\x3fffff]" text))

(defun agent-q-servers--text (value)
  "Return VALUE of `:env' or `:headers' as a string, which it may compute."
  (let ((text (if (functionp value) (funcall value) value)))
    (if (stringp text) text (user-error "%S is no string" value))))

(defun agent-q-servers--texts (alist)
  "Return ALIST of names and values with strings as its values."
  (mapcar (pcase-lambda (`(,name . ,value))
            (cons (if (symbolp name) (symbol-name name) name) (agent-q-servers--text value)))
          alist))

(defun agent-q-servers--made (name properties)
  "Return the server NAME of PROPERTIES as an alist for the core."
  (unless (and (stringp name) (not (string-blank-p name)))
    (user-error "%S is no name of a server" name))
  (let ((command (plist-get properties :command))
        (url (plist-get properties :url)))
    (append
     `((name . ,name))
     (when-let* ((seconds (plist-get properties :timeout)))
       (unless (natnump seconds) (user-error "Its timeout is no number of seconds"))
       `((timeout . ,seconds)))
     (cond
      ((and command url) (user-error "It has both a command and an address"))
      (command
       (unless (and (listp command) (seq-every-p #'stringp command))
         (user-error "Its command is no list of strings"))
       (let ((own (agent-q-servers--texts (plist-get properties :env))))
         `((command . ,(vconcat command))
           (directory . ,(expand-file-name (or (plist-get properties :directory) "~/")))
           (environment
            . ,(vconcat (mapcar (pcase-lambda (`(,name . ,value)) (vector name value))
                                (append (seq-remove (lambda (it) (assoc (car it) own))
                                                    (agent-q-servers--environment))
                                        own)))))))
      ((and (stringp url) (string-match-p "\\`https?://[^ ]+\\'" url))
       `((url . ,url)
         (headers . ,(let ((headers (agent-q-json-empty-object)))
                       (pcase-dolist (`(,name . ,value)
                                      (agent-q-servers--texts (plist-get properties :headers)))
                         (puthash name value headers))
                       headers))))
      (t (user-error "It has neither a command nor an address with http:// or https://"))))))

(defvar agent-q-servers--applied nil
  "What the core has, as JSON, or nil.")

(defvar agent-q-servers--warned nil
  "The entries that were warned of.")

(defun agent-q-servers--try (name properties)
  "Return the server NAME of PROPERTIES for the core; nil with a warning if it is none."
  (condition-case failure
      (agent-q-servers--made name properties)
    (error
     (unless (member (cons name properties) agent-q-servers--warned)
       (push (cons name properties) agent-q-servers--warned)
       (display-warning 'agent-q (format-message "The tool server %s can't be used: %s"
                                                 name (error-message-string failure))))
     nil)))

(defun agent-q-servers--all ()
  "Return the servers of the user, as `agent-q-tool-servers' has them."
  (and (listp agent-q-tool-servers) agent-q-tool-servers))

(defun agent-q-servers-apply ()
  "Have the core know the servers, if it runs and doesn't."
  (when (agent-q-events-running-p)
    (let* ((made (delq nil (mapcar (pcase-lambda (`(,name . ,properties))
                                     (agent-q-servers--try name properties))
                                   (agent-q-servers--all))))
           (json (agent-q-json-serialize (vconcat made))))
      (unless (or (equal json agent-q-servers--applied)
                  (and (null made) (null agent-q-servers--applied)))
        (agent-q-core-tool-servers-configure json)
        (setq agent-q-servers--applied json)))))

;;;; The list

(defvar-local agent-q-servers--chat nil
  "The chat that this list chooses servers for, or nil.")

(defvar agent-q-servers-list-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-servers-show-log)
    (define-key map "s" #'agent-q-servers-start)
    (define-key map "k" #'agent-q-servers-stop)
    (define-key map "t" #'agent-q-servers-toggle)
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
(defun agent-q-list-tool-servers ()
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
             (vector (if (agent-q-servers--offered-p server) "+" "")
                     (agent-q-text-visible-line (plist-get server :name))
                     (agent-q-text-coloured state)
                     (format "%s%s" (plist-get server :tools) (if (zerop left-out) "" "+"))
                     (agent-q-text-visible-line (or (plist-get server :says) ""))
                     (agent-q-text-visible-line
                      (if problem (concat problem "; RET shows its log")
                        (plist-get server :place)))))))
   (agent-q-core-tool-servers)))

(defun agent-q-servers--category (server)
  "Return the category of the tools of SERVER, a keyword."
  (intern (concat ":" (plist-get server :group))))

(defun agent-q-servers--selection ()
  "Return what the chat of this list offers, as in `agent-q-offered-tools'."
  (if (buffer-live-p agent-q-servers--chat)
      (buffer-local-value 'agent-q-offered-tools agent-q-servers--chat)
    agent-q-offered-tools))

(defun agent-q-servers--offered-p (server)
  "Whether the chat of this list offers the tools of SERVER from the start."
  (let ((selection (agent-q-servers--selection)))
    (or (eq selection 'all)
        (and (consp selection) (memq (agent-q-servers--category server) selection)))))

(defun agent-q-servers--at-point ()
  "Return the name of the server at point."
  (or (tabulated-list-get-id) (user-error "No server on this line")))

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
                     (user-error "This chat offers %s; \\[agent-q-list-tools] changes that"
                                 (if (eq selection 'all) "every tool" "no tool")))
                    ((memq category selection) (remq category selection))
                    (t (append (or selection '(:usual)) (list category))))))
    (unless (buffer-live-p agent-q-servers--chat)
      (user-error "Open this list from a chat to choose its servers"))
    (with-current-buffer agent-q-servers--chat
      (setq-local agent-q-offered-tools (if (equal new '(:usual)) nil new)))
    (tabulated-list-print t)))

(defun agent-q-servers-start ()
  "Start the server at point, or start it again if it runs."
  (interactive nil agent-q-servers-list-mode)
  (let ((name (agent-q-servers--at-point)))
    (agent-q-core-tool-server-stop name)
    (agent-q-core-tool-server-start name)
    (tabulated-list-print t)))

(defun agent-q-servers-stop ()
  "Stop the server at point.  It starts when one of its tools is called."
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
