;;; agent-q-project.el --- Which files a chat is about, and their Lisp source as text  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The project's root and the files that hold secrets, as the core is given them, and Lisp
;; source as text.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-text)
(require 'lisp-mode)
(require 'subr-x)

;;;; Which files a chat is about

;; The project's root and the files that hold secrets, as the core is given them.

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

;;;###autoload (put 'agent-q-project-read-instructions 'risky-local-variable t)
(defcustom agent-q-project-read-instructions t
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

(agent-q-events-operation-define "project-root" (call)
  "Return the root and the private files for a CALL outside all chats."
  (let ((owner (agent-q-events-operation-call-owner call)))
    (with-current-buffer (if (buffer-live-p owner) owner (current-buffer))
      (unless (agent-q-project-directory)
        (error "The files here are on another machine; only local ones can be used"))
      (agent-q-json-serialize (agent-q-project-settings)))))

;;;; Lisp source as text, for tools

;; Whether a text can be read as Lisp, and where it can't.  Emacs's syntax
;; tables know strings, comments, characters and |odd symbols|; nothing here is
;; ever evaluated.  Which form defines a name is in agent-q-definitions.el.

;;;;; Syntax

(defmacro agent-q-project-source-with-text (text name &rest body)
  "Run BODY in a buffer with TEXT, the code of a file called NAME."
  (declare (indent 2) (debug t))
  `(with-temp-buffer
     (insert ,text)
     (agent-q-project--source-set-syntax ,name)
     (setq-local parse-sexp-ignore-comments t)
     (goto-char (point-min))
     ,@body))

(defun agent-q-project--source-set-syntax (name)
  "Give the current buffer the syntax of the file NAME."
  (cond ((and name (string-match-p "\\.el\\'" name))
         (set-syntax-table emacs-lisp-mode-syntax-table)
         (agent-q-project--source-mark-characters))
        ((and name (string-match-p "\\.scm\\'" name))
         ;; A comment that starts with #; ends with the form behind it.
         (delay-mode-hooks (scheme-mode))
         (setq-local parse-sexp-lookup-properties t)
         (syntax-propertize (point-max)))
        (t (set-syntax-table lisp-mode-syntax-table)
           (agent-q-project--source-mark-bars)))
  (agent-q-project--source-pass-over-first-line))

(defun agent-q-project--source-mark-characters ()
  "Mark the parentheses, quotes and semicolons that are characters, such as `?('.
Emacs Lisp takes them without a backslash, too."
  (setq-local parse-sexp-lookup-properties t)
  (goto-char (point-min))
  (while (re-search-forward
          "\\(?:^\\|[] \t()['`,@]\\)\\?\\(?:\\\\\\(?:\\^\\|[ACHMSs]-\\)\\)*\\([][(){}\";]\\)"
          nil t)
    (let ((character (match-beginning 1)))
      (unless (nth 8 (save-excursion (syntax-ppss (match-beginning 0))))
        (put-text-property character (1+ character) 'syntax-table '(3)))
      (goto-char (1+ character)))))

(defun agent-q-project--source-mark-bars ()
  "Mark each `#' inside a symbol, such as that of foo#|bar|: it begins no comment."
  (goto-char (point-min))
  (while (re-search-forward "[[:alnum:]*+<>=/_-]\\(#\\)|" nil t)
    (let ((sign (match-beginning 1)))
      (setq-local parse-sexp-lookup-properties t)
      (unless (nth 8 (save-excursion (syntax-ppss sign)))
        (put-text-property sign (1+ sign) 'syntax-table '(3))
        (syntax-ppss-flush-cache sign))
      (goto-char (1+ sign)))))

(defun agent-q-project--source-pass-over-first-line ()
  "Make the first line of a script, which is the shell's, count as white space."
  (goto-char (point-min))
  (when (looking-at "#!.*")
    (setq-local parse-sexp-lookup-properties t)
    (put-text-property (point-min) (match-end 0) 'syntax-table '(0))))

;;;;; Balance

(defvar agent-q-project--source-first-line 1
  "The line of its file at which the text of the current buffer starts.")

(defun agent-q-project-source-place (position)
  "Return POSITION as words."
  (save-excursion
    (goto-char position)
    (format "line %d, column %d" (+ (line-number-at-pos) agent-q-project--source-first-line -1)
            (1+ (- position (line-beginning-position))))))

(defun agent-q-project-source-line (position)
  "Return the text of the line at POSITION, shortened."
  (save-excursion
    (goto-char position)
    (truncate-string-to-width
     (string-trim (buffer-substring-no-properties (line-beginning-position)
                                                  (line-end-position)))
     60 nil nil "...")))

(defun agent-q-project--source-open-problem (state)
  "Return what is left open at the end, of which STATE is the parse state."
  (cond ((nth 3 state)
         (format "the string or |symbol| that starts at %s is not closed%s."
                 (agent-q-project-source-place (nth 8 state))
                 (if-let ((early (agent-q-project--source-string-with-form)))
                     (format "; the one that starts at %s (%s) has a line in it that looks like a new form, so perhaps its end is missing"
                             (agent-q-project-source-place early) (agent-q-project-source-line early))
                   "")))
        ((numberp (nth 4 state))
         (format "the comment that starts at %s (%s) is not closed."
                 (agent-q-project-source-place (nth 8 state))
                 (agent-q-project-source-line (nth 8 state))))
        ((nth 9 state)
         (agent-q-project--source-unclosed state))))

(defun agent-q-project--source-string-with-form ()
  "Return the start of the first string with `(def' at the margin in it, or nil."
  (save-excursion
    (goto-char (point-min))
    (let ((found nil))
      (while (and (not found) (re-search-forward "^(def" nil t))
        (let ((state (save-excursion (syntax-ppss (match-beginning 0)))))
          (when (nth 3 state)
            (setq found (nth 8 state)))))
      found)))

(defun agent-q-project--source-unclosed (state)
  "Return a sentence about the parentheses that STATE has open."
  (let* ((opens (nth 9 state))
         (outer (car opens))
         (inner (car (last opens)))
         (suspect (agent-q-project--source-suspect outer))
         (early (agent-q-project--source-too-far-left outer (or suspect (point-max)))))
    (concat
     (format "%d closing %s missing; the form that opens at %s (%s) is never closed"
             (length opens)
             (if (cdr opens) "parentheses are" "parenthesis is")
             (agent-q-project-source-place outer)
             (agent-q-project-source-line outer))
     (if (= inner outer) ""
       (format ", nor is the innermost one, at %s (%s)"
               (agent-q-project-source-place inner) (agent-q-project-source-line inner)))
     (if early
         (format "; by its indentation, %s (%s) stands outside of the form at %s (%s)"
                 (agent-q-project-source-place (car early)) (agent-q-project-source-line (car early))
                 (agent-q-project-source-place (cdr early)) (agent-q-project-source-line (cdr early)))
       "")
     (if suspect
         (format "; a new form seems to start at %s (%s)"
                 (agent-q-project-source-place suspect) (agent-q-project-source-line suspect))
       "")
     ".")))

(defun agent-q-project--source-too-far-left (outer end)
  "Return the first line between OUTER and END that is left of the form it is in.
It is a pair of its first character and that form, or nil."
  (save-excursion
    (goto-char outer)
    (let ((from outer)
          (state nil)
          (found nil))
      (while (and (not found) (zerop (forward-line 1)) (< (point) end))
        (setq state (parse-partial-sexp from (point) nil nil state)
              from (point))
        (let ((line (save-excursion (back-to-indentation) (point)))
              (inner (nth 1 state)))
          (when (and inner
                     (not (nth 8 state))
                     (< line end)
                     (not (memq (char-after line) '(?\n ?\; ?# ?\) nil)))
                     (<= (agent-q-project--source-column line) (agent-q-project--source-column inner)))
            (setq found (cons line inner)))))
      found)))

(defun agent-q-project--source-column (position)
  "Return the column of POSITION."
  (save-excursion
    (goto-char position)
    (current-column)))

(defun agent-q-project--source-suspect (outer)
  "Return the first place inside the form at OUTER with `(' in the first column."
  (save-excursion
    (goto-char outer)
    (forward-line 1)
    (let ((found nil))
      (while (and (not found) (re-search-forward "^(" nil t))
        (unless (nth 8 (save-excursion (syntax-ppss (match-beginning 0))))
          (setq found (match-beginning 0))))
      found)))

(defun agent-q-project-source-problem-here ()
  "Return why the current buffer can't be read, as a sentence, or nil."
  (let ((state nil)
        (place (point-min))
        (problem nil))
    (condition-case failure
        (while (not (or problem (>= place (point-max))))
          ;; Stops where the depth falls below nothing.
          (setq state (parse-partial-sexp place (point-max) -1 nil state)
                place (point))
          (when (< (car state) 0)
            (setq problem (agent-q-project--source-extra (1- place)))))
      (error (setq problem (error-message-string failure))))
    (or problem
        (agent-q-project--source-mismatch)
        (agent-q-project--source-open-problem state))))

(defun agent-q-project--source-extra (place)
  "Return a sentence about the closing parenthesis at PLACE that closes nothing."
  (let* ((start (save-excursion
                  (goto-char place)
                  (and (re-search-backward "^(" nil t) (point))))
         (end (and start (ignore-errors (scan-sexps start 1)))))
    (format "the closing parenthesis at %s (%s) has no opener%s."
            (agent-q-project-source-place place) (agent-q-project-source-line place)
            (if (and end (save-excursion (goto-char end)
                                         (skip-chars-forward " \t\n")
                                         (< (point) place)))
                (format "; the form that opens at %s (%s) already ends at %s"
                        (agent-q-project-source-place start) (agent-q-project-source-line start)
                        (agent-q-project-source-place (1- end)))
              ""))))

(defun agent-q-project--source-mismatch ()
  "Return a sentence about an opener that is closed by another kind, or nil."
  (goto-char (point-min))
  (let ((found nil))
    ;; In Common Lisp there is only one kind.
    (while (and (not found)
                (eq (char-syntax ?\[) ?\()
                (re-search-forward "[])}]" nil t))
      (let* ((close (1- (point)))
             (state (save-excursion (syntax-ppss close)))
             (open (nth 1 state)))
        (when (and open (not (nth 8 state))
                   (eq (syntax-class (syntax-after close)) 5)
                   (not (eq (cdr (syntax-after open))
                            (char-after close))))
          (setq found (format "the `%c' at %s closes the `%c' at %s."
                              (char-after close) (agent-q-project-source-place close)
                              (char-after open) (agent-q-project-source-place open))))))
    found))

(defun agent-q-project--source-excess ()
  "Return how many parentheses and quotes of the current buffer have no partner."
  (let ((count (if (agent-q-project--source-mismatch) 1 0))
        (place (point-min))
        (state nil))
    (while (< place (point-max))
      (setq state (parse-partial-sexp place (point-max) -1 nil state)
            place (point))
      (when (< (car state) 0)
        (setq count (1+ count)
              state nil)))
    (+ count (or (car state) 0)
       (if (or (nth 3 state) (numberp (nth 4 state))) 1 0))))

(agent-q-events-operation-define "check-source" (call text name line)
  "Return what keeps TEXT, of the file NAME from LINE on, from being read as Lisp.
It is an object, or null when nothing does."
  (let ((agent-q-project--source-first-line (or line 1)))
    (agent-q-project-source-with-text text name
      (let ((problem (agent-q-project-source-problem-here)))
        (if problem
            (agent-q-json-serialize `((problem . ,problem)
                                      (excess . ,(agent-q-project--source-excess))))
          "null")))))

(defconst agent-q-project--source-wrapper
  "(\\(?:[^ ()]*:\\)?\\(?:progn\\|eval-when\\|locally\\|let\\*?\\|flet\\|labels\\|\\(?:symbol-\\)?macrolet\\|with[^ ()]*\\)[ \t\n]"
  "Regexp for forms that may be around definitions which stand at the margin.")

(defun agent-q-project--source-doubt ()
  "Return a line that stands left of the form it is in, and that form, or nil.
Data and what is wrapped around definitions may be written like that."
  (goto-char (point-min))
  (let ((found nil)
        (end nil))
    (while (and (not found)
                (progn (forward-comment (point-max)) (not (eobp)))
                (setq end (ignore-errors (scan-sexps (point) 1))))
      (when (eq (char-after) ?\()
        (let ((doubt (agent-q-project--source-too-far-left (point) end)))
          (when (and doubt
                     (eq (char-after (car doubt)) ?\()
                     (save-excursion
                       (goto-char (cdr doubt))
                       (and (looking-at "(\\(?:\\sw\\|\\s_\\)")
                            (not (looking-at agent-q-project--source-wrapper)))))
            (setq found doubt))))
      (goto-char end))
    found))

(agent-q-events-operation-define "doubt-source" (call text name line)
  "Return what of TEXT, of the file NAME from LINE on, is balanced and yet odd.
It is a sentence, or null."
  (let ((agent-q-project--source-first-line (or line 1)))
    (agent-q-project-source-with-text text name
      (agent-q-json-serialize
       (if-let ((doubt (agent-q-project--source-doubt)))
           (format "It is balanced; but %s (%s) is inside the form at %s (%s) and does not stand like that.  Make sure that the parentheses are where you mean them."
                   (agent-q-project-source-place (car doubt)) (agent-q-project-source-line (car doubt))
                   (agent-q-project-source-place (cdr doubt)) (agent-q-project-source-line (cdr doubt)))
         :null)))))

(provide 'agent-q-project)
;;; agent-q-project.el ends here
