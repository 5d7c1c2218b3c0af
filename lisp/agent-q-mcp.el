;;; agent-q-mcp.el --- The tools and the image for other agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With `agent-q-mcp-mode', other agents, such as Claude Code, Codex or opencode, call agent-q's
;; tools by MCP: in the image that the user runs, with consent in Emacs.  Their programs start
;; agent-q-mcp, which finds the socket that the core serves.

;;; Code:

(require 'agent-q)
(require 'agent-q-client)
(require 'agent-q-events)
(require 'agent-q-image-connection)
(require 'agent-q-image-tools)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-registry)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

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
  (mapc #'agent-q-image-tools-ensure (agent-q-image-connections))
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
  (let ((buffers (agent-q-client-buffers)))
    (cond ((null buffers)
           (user-error (if agent-q-mcp-mode "No other agent has called a tool yet"
                         "Other agents are not served; M-x agent-q-mcp-mode turns that on")))
          ((cdr buffers)
           (pop-to-buffer (completing-read "Client: " (mapcar #'buffer-name buffers) nil t)))
          (t (pop-to-buffer (car buffers))))))

(provide 'agent-q-mcp)
;;; agent-q-mcp.el ends here
