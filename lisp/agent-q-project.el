;;; agent-q-project.el --- Which files a chat is about  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The project's root and the files that hold secrets, as the core is given them.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-operations)
(require 'agent-q-text)

(declare-function project-root "project" (project))

;;;###autoload (put 'agent-q-project-root 'risky-local-variable t)
(defcustom agent-q-project-root nil
  "The directory whose files the agent may read without asking.
When nil, it is the project of the buffer that you open a chat from, else
the nearest directory around its own that has a system definition, a
file *.asd, else its own.  A directory-local value is not taken."
  :type '(choice (const :tag "The project at hand" nil) directory)
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-private-files 'risky-local-variable t)
;;;###autoload
(defcustom agent-q-private-files nil
  "Globs of files that the agent may never read without asking.
A glob without a slash is about any part of a path; one that starts with
\"~/\" is about your home directory.

nil means the built-in list: keys and certificates, .env files (also .envrc
and *.env), the files in which common programs and other agents keep passwords
and tokens, every file whose name starts with credentials, secrets.yml and
similar files, Terraform's state, Git's files on remotes and hooks, and the
stored chats in a folder agent-q-chats.  Copies of such files are private, too:
backups, autosaves, locks, and names with an ending such as .bak, .orig, .old
or .swp; so are names that differ only by invisible characters."
  :type '(choice (const :tag "Keys, credentials, .env files" nil)
                 (repeat string))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-read-project-instructions 'risky-local-variable t)
(defcustom agent-q-read-project-instructions t
  "Whether the model reads a project's instructions for agents.
That is the file AGENTS.md in the project's root, and in the directories around
it up to your home directory.  A chat says which ones its model reads.  Links
and files of other users are left out."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-project--seconds 5
  "Seconds for which the project around a directory is cached.")

(defvar agent-q-project--last nil
  "Cache for the root found last: a list (DIRECTORY TIME ROOT).")

(defvar-local agent-q-project-stand-in nil
  "An empty directory that is the root where the project is unknown, or nil.
The user is asked about every file then, as each is outside of it.")

(defun agent-q-project-directory ()
  "Return the root of the project that the current buffer belongs to, or nil.
There is none on another machine."
  (let ((directory (or (default-value 'agent-q-project-root) default-directory)))
    (unless (or (null directory) (file-remote-p directory))
      (let ((root (cond ((default-value 'agent-q-project-root) directory)
                        (agent-q-project-stand-in)
                        (t (agent-q-project--around directory)))))
        (and (file-directory-p root)
             (expand-file-name root))))))

(defun agent-q-project--around (directory)
  "Return the root of the project around DIRECTORY, or DIRECTORY itself.
To look for it takes longer than most calls, and each message and each reply
asks."
  (unless (and (equal directory (nth 0 agent-q-project--last))
               (<= 0 (- (float-time) (nth 1 agent-q-project--last)) agent-q-project--seconds))
    (let ((project (project-current nil directory)))
      (setq agent-q-project--last
            (list directory (float-time)
                  (cond (project (project-root project))
                        ((agent-q-project--of-system directory))
                        (t directory))))))
  (nth 2 agent-q-project--last))

(defun agent-q-project-known-p ()
  "Whether the current buffer belongs to a project, and not just to a directory."
  (and default-directory
       (not (file-remote-p default-directory))
       (or (default-value 'agent-q-project-root)
           (project-current nil default-directory)
           (agent-q-project--of-system default-directory))
       t))

(defun agent-q-project-name (root)
  "Return a short name for the project at ROOT, or for the place if that is nil."
  (let ((name (file-name-nondirectory (directory-file-name (or root default-directory)))))
    (cond ((and root (file-equal-p root "~/")) "~")
          ((string-empty-p name) "/")
          ((and (null root) (file-remote-p default-directory))
           (format "%s on %s" name (file-remote-p default-directory 'host)))
          (t name))))

(defun agent-q-project--of-system (directory)
  "Return the nearest directory around DIRECTORY with a system definition, or nil.
It is never the user's home: all files in it would be the project's."
  (let ((found (locate-dominating-file
                directory
                (lambda (parent)
                  (and (file-accessible-directory-p parent)
                       (directory-files parent nil "\\.asd\\'" t 1))))))
    (and found
         (not (file-in-directory-p "~/" found))
         found)))

(defun agent-q-project-settings ()
  "Return the settings of the current chat that concern files, as an alist."
  `((project_root . ,(let ((root (agent-q-project-directory)))
                       (if root (agent-q-text-clean root) :null)))
    (private_files . ,(let ((globs (default-value 'agent-q-private-files)))
                        (if globs (vconcat globs) :null)))))

(agent-q-operations-define "project-root" (call)
  "Return the root and the private files for a CALL outside all chats."
  (let ((owner (agent-q-operations-call-owner call)))
    (with-current-buffer (if (buffer-live-p owner) owner (current-buffer))
      (unless (agent-q-project-directory)
        (error "The files here are on another machine; only local ones can be used"))
      (agent-q-json-serialize (agent-q-project-settings)))))

(provide 'agent-q-project)
;;; agent-q-project.el ends here
