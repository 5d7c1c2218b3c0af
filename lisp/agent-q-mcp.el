;;; agent-q-mcp.el --- The tools and the image for other agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With `agent-q-mcp-mode', other agents call agent-q's tools by MCP, with consent in Emacs.
;; Each has a buffer like a chat.

;;; Code:

(require 'agent-q)
(require 'agent-q-attention)
(require 'agent-q-call)
(require 'agent-q-call-events)
(require 'agent-q-changes)
(require 'agent-q-drift)
(require 'agent-q-chat)
(require 'agent-q-chat-send)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image-tools)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-scratch)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; The buffers of programs that call tools

;; Another agent that calls tools through our server has a buffer like a
;; chat's, without a prompt: its calls are the log, and its requests are answered there.
;; Here are the buffers, and what the server asks of Emacs for a client.

(defvar-local agent-q-mcp--client-directory nil
  "Where the client of this buffer works, as it said, or nil.")

(defvar-local agent-q-mcp--client-named nil
  "The connection that the latest call named, or nil.
It counts for that call alone.")

(defvar-local agent-q-mcp--client-number nil
  "The core's number for the program that calls here, or did.")

(defvar-local agent-q-mcp--client-silent t
  "Whether nothing was called here yet.")

(defvar-local agent-q-mcp--client-left nil
  "The time when the client of this buffer disconnected last, or nil.")

(defvar-local agent-q-mcp--client-there nil
  "Whether the client of this buffer is connected; it may be paused as well.")

;;;;; The mode

(defvar agent-q-mcp-client-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-mcp-client-return)
    (define-key map (kbd "C-c C-k") #'agent-q-mcp-client-stop)
    (define-key map (kbd "C-c C-c") #'agent-q-mcp-client-stop)
    (define-key map (kbd "C-c C-t") #'agent-q-mcp-client-pause)
    (define-key map (kbd "C-c C-e") #'undefined)
    (define-key map (kbd "C-c C-v") #'undefined)
    (define-key map (kbd "M-p") #'agent-q-chat-view-previous-turn)
    (define-key map (kbd "M-n") #'agent-q-chat-view-next-turn)
    (define-key map (kbd "M-r") #'undefined)
    map)
  "Keymap of `agent-q-mcp-client-mode'.")

(define-derived-mode agent-q-mcp-client-mode agent-q-chat-mode "agent-q client"
  "Major mode of the buffer of another agent that calls agent-q's tools.
Each call is a line that \\[agent-q-chat-view-tab] unfolds.  When one needs your
approval, y runs it and n denies it, on the call or at the end of the buffer;
\\[agent-q-goto-approval] goes there.  \\<agent-q-mcp-client-mode-map>\\[agent-q-mcp-client-stop] \
stops what runs, and \\[agent-q-mcp-client-pause]
refuses all calls until you press it again.

\\{agent-q-mcp-client-mode-map}"
  (setq-local agent-q-events-handler #'agent-q-mcp--client-handle
              ;; Who is elsewhere must not lose the window to another agent's edit.
              agent-q-review-edits nil)
  (add-hook 'kill-buffer-hook #'agent-q-mcp--client-stop-all -90 t))

(put 'agent-q-mcp-client-mode 'no-clone t)
(put 'agent-q-mcp-client-mode 'no-clone-indirect t)

(defun agent-q-mcp--client-below ()
  "Put the end of the log into this empty buffer, where nothing can be typed."
  (with-silent-modifications
    (goto-char (point-max))
    (insert (propertize "\n" 'read-only t 'front-sticky '(read-only))))
  (setq agent-q-prompt-start (copy-marker (point) t)
        buffer-undo-list t))

(defun agent-q-mcp--client-stop-all ()
  "Stop what this client has under way, as its buffer is being killed."
  (when agent-q-session-number
    (agent-q-core-mcp-stop-client agent-q-session-number)))

(defun agent-q-mcp-client-return ()
  "Unfold or fold the call at point."
  (interactive nil agent-q-mcp-client-mode)
  (let ((item (agent-q-chat-view-item-of-line)))
    (when item
      (goto-char (agent-q-render-item-start item))
      (agent-q-render-toggle))))

(defun agent-q-mcp-client-stop ()
  "Stop everything that this client has running or pending."
  (interactive nil agent-q-mcp-client-mode)
  (message (cond ((not (agent-q-core-mcp-stop-client agent-q-session-number))
                  "The client is not connected")
                 ((agent-q-chat-view-header-busy-p) "Stopped")
                 (t "Nothing is running"))))

(defun agent-q-mcp-client-pause ()
  "Refuse this client, and others of its name, until you use the command again."
  (interactive nil agent-q-mcp-client-mode)
  (let ((pause (not (eq agent-q-session-mcp-state 'paused))))
    (dolist (buffer (agent-q-mcp--client-of-name agent-q-session-mcp-client))
      (with-current-buffer buffer
        ;; One that is not connected finds it paused when it comes back.
        (agent-q-core-mcp-pause-client agent-q-session-number pause)
        (setq agent-q-session-mcp-state
              (cond (pause 'paused)
                    (agent-q-mcp--client-there 'connected)
                    (t 'gone)))
        (agent-q-chat-view-header-update)))
    (message (pcase agent-q-session-mcp-state
               ('paused "Calls of this client are refused until you resume it")
               ('connected "Accepting calls from this client again")
               (_ "The client is not connected")))))

;;;;; Events

(defun agent-q-mcp--client-handle (event)
  "Apply EVENT to this client's buffer."
  (pcase (plist-get event :type)
    (:turn-begins (agent-q-changes-line-begin)
                  (setq agent-q-session-turn (agent-q-changes-turn (plist-get event :turn))))
    (:turn-started
     (agent-q-mcp--client-begin)
     (agent-q-render-finish)
     (agent-q-render-user (format-time-string "%H:%M")))
    (:turn-ended (agent-q-mcp--client-turn-ended))
    (:state
     (setq agent-q-chat-view-header-state (plist-get event :state))
     (cond ((eq agent-q-chat-view-header-state :idle)
            (setq agent-q-chat-view-header-since nil)
            (agent-q-chat-stop-clock))
           ((null agent-q-chat-view-header-since) (agent-q-chat-start-clock)))
     (agent-q-events-afterwards #'agent-q-chat-view-header-update))
    (_ (agent-q-chat-handle event))))

(defun agent-q-mcp--client-begin ()
  "Tell the user of the first call of this buffer.
One that has gone before it called anything is nothing to tell of."
  (when agent-q-mcp--client-silent
    (setq agent-q-mcp--client-silent nil)
    (message "agent-q: %s calls tools; its calls are in %s"
             (agent-q-text-visible-line agent-q-session-mcp-client) (buffer-name))))

(defun agent-q-mcp--client-turn-ended ()
  "Show what the turn changed, in which nothing is called any more."
  (agent-q-render-finish)
  (agent-q-call-events-abandon)
  (setq agent-q-chat-view-header-since nil
        agent-q-chat-view-header-state :idle)
  (agent-q-chat-stop-clock)
  (agent-q-changes-line-tell #'agent-q-drift-tell)
  (agent-q-attention-update)
  (agent-q-chat-view-header-update))

;;;;; The buffers

(defun agent-q-mcp-client-buffers ()
  "Return the buffers of all clients, the latest one first."
  (seq-filter (lambda (buffer) (buffer-local-value 'agent-q-session-mcp-client buffer))
              (agent-q-session-buffers)))

(defun agent-q-mcp--client-of-name (name)
  "Return the buffers of clients called NAME."
  (seq-filter (lambda (buffer)
                (equal name (buffer-local-value 'agent-q-session-mcp-client buffer)))
              (agent-q-mcp-client-buffers)))

(defun agent-q-mcp--client-paused-p (name)
  "Whether the user paused a client called NAME."
  (seq-some (lambda (buffer)
              (eq 'paused (buffer-local-value 'agent-q-session-mcp-state buffer)))
            (agent-q-mcp--client-of-name name)))

(defun agent-q-mcp--client-buffer (name directory session)
  "Return the buffer of the client called NAME that works in DIRECTORY.
That is the one of SESSION, the one that it had when it was connected last,
or a new one."
  (let ((buffers (agent-q-mcp-client-buffers)))
    (or (and session
             (seq-find (lambda (buffer)
                         (eql session (buffer-local-value 'agent-q-session-number buffer)))
                       buffers))
        (seq-find (lambda (buffer)
                    (with-current-buffer buffer
                      (and (not agent-q-mcp--client-there)
                           (equal name agent-q-session-mcp-client)
                           (equal directory agent-q-mcp--client-directory))))
                  buffers)
        (agent-q-mcp--client-make name directory))))

(defvar agent-q-mcp--client-empty nil
  "An empty directory of this Emacs, or nil while none was needed.")

(defun agent-q-mcp--client-stand-in ()
  "Return an empty directory to stand for a project that is not known."
  (unless (and agent-q-mcp--client-empty (file-directory-p agent-q-mcp--client-empty))
    (setq agent-q-mcp--client-empty (make-temp-file "agent-q-nowhere" t))
    (add-hook 'kill-emacs-hook #'agent-q-mcp--client-remove-stand-in))
  agent-q-mcp--client-empty)

(defun agent-q-mcp--client-remove-stand-in ()
  "Remove the directory that stands for projects that are not known."
  (ignore-errors (delete-directory agent-q-mcp--client-empty)))

(defun agent-q-mcp--client-make (name directory)
  "Make a buffer for the client called NAME that works in DIRECTORY."
  (agent-q-chat-watch)
  (let ((buffer (agent-q-mcp--client-new-buffer name))
        (known (and directory (file-directory-p directory)))
        (made nil))
    (unwind-protect
        (with-current-buffer buffer
          (setq default-directory (if known (file-name-as-directory directory)
                                    (expand-file-name "~/")))
          (agent-q-mcp-client-mode)
          (when (agent-q-mcp--client-paused-p name)
            (setq agent-q-session-mcp-state 'paused))
          (setq agent-q-session-mcp-client name
                agent-q-mcp--client-directory directory
                agent-q-project-stand-in (and (not known) (agent-q-mcp--client-stand-in)))
          (let ((root (agent-q-project-directory)))
            (agent-q-chat-begin nil root (if known (agent-q-project-name root) "directory unknown")
                                #'agent-q-mcp--client-below))
          (agent-q-render-notice
           (format "%s is calling from %s.  You approve its calls here, regardless of its own settings."
                   (agent-q-text-visible-line name)
                   (if known (abbreviate-file-name default-directory)
                     "a directory that Emacs doesn't know, so each file is asked about")))
          (setq made t))
      (unless made
        (kill-buffer buffer)))
    buffer))

(defconst agent-q-mcp--client-most-gone 5
  "How many buffers of clients that have gone are kept.")

(defun agent-q-mcp--client-gone-p (buffer)
  "Whether the client of BUFFER has gone and the buffer isn't needed.
That of a paused one keeps the pause, and what the user looks at stays."
  (with-current-buffer buffer
    (and (eq agent-q-session-mcp-state 'gone)
         (null (agent-q-call-all-waiting))
         (not (agent-q-chat-view-header-busy-p))
         (not (get-buffer-window buffer t)))))

(defun agent-q-mcp--client-needless-p (buffer)
  "Whether the client of BUFFER has gone without a call, and no pause is lost."
  (with-current-buffer buffer
    (and agent-q-mcp--client-silent
         (not agent-q-mcp--client-there)
         (or (eq agent-q-session-mcp-state 'gone)
             (cdr (seq-filter (lambda (other)
                                (eq 'paused (buffer-local-value 'agent-q-session-mcp-state other)))
                              (agent-q-mcp--client-of-name agent-q-session-mcp-client)))))))

(defun agent-q-mcp--client-sweep ()
  "Kill buffers of clients that have gone: those without a call, and the oldest.
A few stay."
  (dolist (buffer (agent-q-mcp-client-buffers))
    (when (agent-q-mcp--client-needless-p buffer)
      (kill-buffer buffer)))
  (mapc #'kill-buffer
        (nthcdr agent-q-mcp--client-most-gone
                (sort (seq-filter #'agent-q-mcp--client-gone-p (agent-q-mcp-client-buffers))
                      (lambda (one other)
                        (time-less-p (buffer-local-value 'agent-q-mcp--client-left other)
                                     (buffer-local-value 'agent-q-mcp--client-left one)))))))

(defun agent-q-mcp--client-new-buffer (name)
  "Return a new buffer for a client called NAME, with the least free number."
  (let ((number 1) (text nil))
    (while (get-buffer (setq text (format "*agent-q: %s %d*" (agent-q-text-visible-line name 40) number)))
      (setq number (1+ number)))
    (get-buffer-create text)))

;;;;; Which image

(defun agent-q-mcp--client-image-directory (connection)
  "Return the directory that the image behind CONNECTION was started in, or nil."
  (let ((buffer (agent-q-connection-ask connection :buffer)))
    (and (buffer-live-p buffer)
         (expand-file-name (buffer-local-value 'default-directory buffer)))))

(defun agent-q-mcp--client-near-p (connection directory)
  "Whether the image behind CONNECTION and DIRECTORY belong to one project."
  (let ((place (agent-q-mcp--client-image-directory connection)))
    (and place directory (file-directory-p directory)
         (or (file-in-directory-p place directory)
             (file-in-directory-p directory place)
             (let ((root (let ((default-directory (file-name-as-directory directory)))
                           (and (agent-q-project-known-p) (agent-q-project-directory)))))
               (and root (file-in-directory-p place root)))))))

(defun agent-q-mcp--client-list (connections)
  "Return CONNECTIONS as lines of names and directories."
  (mapconcat (lambda (connection)
               (format "- %s: %s, in %s" (agent-q-connection-label connection)
                       (agent-q-connection-facts connection)
                       (or (agent-q-mcp--client-image-directory connection) "an unknown directory")))
             connections "\n"))

(defun agent-q-mcp--client-of-label (label connections)
  "Return the one of CONNECTIONS that is called LABEL, or nil.
Case counts only where two names differ in nothing else."
  (let ((alike (seq-filter (lambda (it) (string-equal (downcase label)
                                                      (downcase (agent-q-connection-label it))))
                           connections)))
    (or (seq-find (lambda (it) (equal label (agent-q-connection-label it))) alike)
        (and (null (cdr alike)) (car alike)))))

(defun agent-q-mcp--client-choose-image (named directory)
  "Return (CONNECTION . PROBLEM) for a client that works in DIRECTORY.
NAMED is the name of an image, or nil.  One of both is nil; both are when
no image is connected."
  (let* ((connections (agent-q-connection-connections))
         (near (seq-filter (lambda (connection) (agent-q-mcp--client-near-p connection directory))
                           connections)))
    (cond (named
           (let ((connection (agent-q-mcp--client-of-label named connections)))
             (cons connection
                   (unless connection
                     (format "No image is called %s. %s" named
                             (if connections
                                 (concat "There are:\n" (agent-q-mcp--client-list connections))
                               "None is connected: the user starts one with M-x sly or M-x slime."))))))
          ((null (cdr connections)) (cons (car connections) nil))
          ((and near (null (cdr near))) (cons (car near) nil))
          (t (cons nil (concat "Several images are connected. Choose one with the \
parameter \"image\":\n" (agent-q-mcp--client-list connections)))))))

;;;;; What the server asks

(agent-q-events-operation-define "client-turn" (call name directory image session client)
  "Return as JSON how a client may call from now on, and in which session."
  (ignore call)
  (with-current-buffer (agent-q-mcp--client-buffer name directory session)
    (setq agent-q-mcp--client-there t
          agent-q-mcp--client-number client)
    (unless (eq agent-q-session-mcp-state 'paused)
      (setq agent-q-session-mcp-state 'connected))
    (let ((problem nil))
      ;; One that the user chose here, or that was the only one, goes on being meant.
      (when (or image
                (not (agent-q-chat-send-connected-p))
                (eq agent-q-mcp--client-named agent-q-session-connection))
        (pcase-let ((`(,connection . ,why) (agent-q-mcp--client-choose-image image directory)))
          (setq problem why)
          (when connection
            (setq agent-q-session-connection connection
                  agent-q-mcp--client-named (and image connection)
                  agent-q-chat-send-images (agent-q-connection-connections)))))
      (unless problem
        (agent-q-chat-send-configure))
      (agent-q-chat-view-header-update)
      (agent-q-json-serialize
       `((session . ,agent-q-session-number)
         (paused . ,(if (eq agent-q-session-mcp-state 'paused) t :false))
         (no_image . ,(or problem :null)))))))

(agent-q-events-operation-define "client-left" (call client)
  "Note that the program of the number CLIENT is not connected any more."
  (ignore call)
  (let ((buffer (seq-find (lambda (buffer)
                            (eql client (buffer-local-value 'agent-q-mcp--client-number buffer)))
                          (agent-q-mcp-client-buffers))))
    (when buffer
      (agent-q-scratch-end buffer)
      (with-current-buffer buffer
        (setq agent-q-mcp--client-there nil
              agent-q-mcp--client-left (current-time))
        (unless (eq agent-q-session-mcp-state 'paused)
          (setq agent-q-session-mcp-state 'gone))
        (agent-q-render-finish)
        (agent-q-render-notice "The client disconnected.")
        (agent-q-chat-view-header-update)))
    ;; Its last events may still come.
    (run-at-time 0 nil #'agent-q-mcp--client-sweep)
    "t"))

(agent-q-events-operation-define "client-images" (call directory)
  "Return the images that a client working in DIRECTORY can choose among."
  (ignore call)
  (let ((connections (agent-q-connection-connections)))
    (if (null connections)
        "No Lisp image is connected.  The user starts one with M-x sly or M-x slime."
      (concat (agent-q-mcp--client-list connections)
              (let ((chosen (car (agent-q-mcp--client-choose-image nil directory))))
                (if (and chosen (cdr connections))
                    (format "\nWithout \"image\", %s is meant." (agent-q-connection-label chosen))
                  ""))))))

(agent-q-events-operation-define "client-affinity" (call directory)
  "Return how much this Emacs has to do with DIRECTORY, a number."
  (ignore call)
  (number-to-string
   (cond ((or (null directory) (not (file-directory-p directory))) 0)
         ((seq-some (lambda (connection) (agent-q-mcp--client-near-p connection directory))
                    (agent-q-connection-connections))
          3)
         ((seq-some (lambda (buffer)
                      (equal (file-name-as-directory directory)
                             (buffer-local-value 'agent-q-session-root buffer)))
                    (agent-q-session-buffers))
          2)
         ((seq-some (lambda (buffer)
                      (let ((file (buffer-file-name buffer)))
                        (and file (not (file-remote-p file))
                             (string-prefix-p (file-name-as-directory (expand-file-name directory))
                                              (expand-file-name file)))))
                    (buffer-list))
          1)
         (t 0))))

;;;; The tools and the image for other agents

;; With `agent-q-mcp-mode', other agents, such as Claude Code, Codex or opencode, call agent-q's
;; tools by MCP: in the image that the user runs, with consent in Emacs.  Their programs start
;; agent-q-mcp, which finds the socket that the core serves.

(defvar agent-q-mcp-mode)

(defun agent-q-mcp--set (option value)
  "Set OPTION to VALUE, and tell the server."
  (set-default option value)
  (when (and (bound-and-true-p agent-q-mcp-mode) (fboundp 'agent-q-core-mcp-configure))
    (agent-q-core-mcp-configure (agent-q-mcp--options))))

;;;###autoload (put 'agent-q-mcp-directory 'risky-local-variable t)
(defcustom agent-q-mcp-directory nil
  "The folder for the socket by which other agents reach this Emacs.
It must be yours alone.  nil means \"agent-q\" in the folder that your system
has for such things, else in your cache folder, where the program agent-q-mcp
looks, too.  For another one, that program needs its name in the environment
variable AGENT_Q_MCP_DIRECTORY."
  :type '(choice (const :tag "Where agent-q-mcp looks" nil) directory)
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-mcp-profile 'risky-local-variable t)
(defcustom agent-q-mcp-profile 'image
  "Which tools are offered to other agents.
`image' means those for everyday work in the image, and all that you or a
program defined; an agent that searches among tools by itself, as Claude Code
does, is offered all that look into the image.  Others can still be called.
`full' means all.  With a list of names, only these can be called."
  :type '(choice (const :tag "Those that need the image" image)
                 (const :tag "All" full)
                 (repeat :tag "These" string))
  :set #'agent-q-mcp--set
  :initialize #'custom-initialize-default
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-mcp-patience 45
  "Seconds within which each call of another agent is answered.
One that takes longer, or waits for you, is answered with \"pending\", and the
agent can continue to wait.  Many clients time out after 60 seconds."
  :type 'number
  :set #'agent-q-mcp--set
  :initialize #'custom-initialize-default
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-mcp-turn-pause 60
  "Seconds without a call after which a turn of another agent is over.
What the calls of a turn changed is undone together."
  :type 'number
  :set #'agent-q-mcp--set
  :initialize #'custom-initialize-default
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defun agent-q-mcp--options ()
  "Return the user's options as the core takes them."
  (agent-q-json-serialize
   `((profile . ,(if (listp agent-q-mcp-profile)
                     `((named . ,(vconcat agent-q-mcp-profile)))
                   (symbol-name agent-q-mcp-profile)))
     (patience . ,agent-q-mcp-patience)
     (turn_pause . ,agent-q-mcp-turn-pause))))

(defun agent-q-mcp-folder ()
  "Return the folder of the sockets by which other agents reach Emacs."
  (or agent-q-mcp-directory
      (getenv "AGENT_Q_MCP_DIRECTORY")
      (let ((runtime (seq-find (lambda (folder) (and folder (file-accessible-directory-p folder)))
                               (list (getenv "XDG_RUNTIME_DIR")
                                     (format "/run/user/%d" (user-uid))))))
        (expand-file-name "agent-q" (or runtime
                                        (let ((cache (getenv "XDG_CACHE_HOME")))
                                          (unless (equal cache "") cache))
                                        "~/.cache")))))

;;;###autoload
(define-minor-mode agent-q-mcp-mode
  "Let other agents call agent-q's tools in the image that you run.
You approve their calls in Emacs, each agent's in a buffer of its own,
regardless of their own settings.  `agent-q-mcp-install' registers agent-q
with them."
  :global t
  :group 'agent-q
  (if agent-q-mcp-mode
      (let ((started nil))
        (unwind-protect
            (progn (agent-q-mcp--start)
                   (setq started t))
          (unless started
            (setq agent-q-mcp-mode nil))))
    (agent-q-mcp--stop)))

(defun agent-q-mcp--start ()
  "Serve other agents."
  (agent-q-events-ensure)
  (agent-q-registry-ensure)
  (agent-q-core-mcp-start (expand-file-name (agent-q-mcp-folder)) (agent-q-mcp--options))
  (mapc #'agent-q-image-tools-ensure (agent-q-connection-connections))
  (add-hook 'kill-emacs-hook #'agent-q-mcp--stop))

(defun agent-q-mcp--stop ()
  "Stop serving other agents."
  (remove-hook 'kill-emacs-hook #'agent-q-mcp--stop)
  (when (agent-q-events-running-p)
    (agent-q-core-mcp-stop)))

(defun agent-q-mcp-status ()
  "Return what the server does as an alist, or nil when it does not run."
  (and agent-q-mcp-mode
       (agent-q-events-running-p)
       (agent-q-json-alist (agent-q-core-mcp-status) t)))

;;;###autoload
(defun agent-q-mcp-clients ()
  "Go to the buffer of another agent; with several, choose one."
  (interactive)
  (let ((buffers (agent-q-mcp-client-buffers)))
    (cond ((null buffers)
           (user-error (if agent-q-mcp-mode "No other agent has called a tool yet"
                         "Other agents are not served; M-x agent-q-mcp-mode turns that on")))
          ((cdr buffers)
           (pop-to-buffer (completing-read "Client: " (mapcar #'buffer-name buffers) nil t)))
          (t (pop-to-buffer (car buffers))))))

(provide 'agent-q-mcp)
;;; agent-q-mcp.el ends here
