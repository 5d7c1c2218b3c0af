;;; agent-q-slash.el --- Commands and prompts by a slash  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What "/name" at the prompt of a chat means where no tool has that name: a command of
;; agent-q, or a prompt of the user's own, which is a Markdown file whose text is sent with
;; the arguments in it.  agent-q-chat-send.el does what is found here.

;;; Code:

(require 'agent-q-console)
(require 'agent-q-mention-kinds)
(require 'agent-q-session)
(require 'seq)
(require 'subr-x)

(defcustom agent-q-prompts-directory (locate-user-emacs-file "agent-q/prompts/")
  "Directory of your own prompts, Markdown files.
The file review.md is sent by \"/review\".  In its text, $ARGUMENTS is what you
type after that, $1 to $9 its words; put words with spaces in double quotes.
A text without these gets what you type at its end.  It can attach files and
other things with @.  Lines between two lines \"---\" at its beginning describe
it, such as \"description: Review a file\".

A project can have prompts, too, in .agent-q/prompts.  As others may have
written them, they are only put at the prompt, for you to read."
  :type 'directory
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defvar agent-q-slash-commands nil
  "Commands by their names after /: lists (NAME COMMAND ABOUT).
They are put here by agent-q-menu.el, which knows all commands.")

(defconst agent-q-slash--largest 100000
  "Bytes of the largest file that is taken for a prompt.")

;;;; Prompts

(defun agent-q-slash--project-directory ()
  "Return the directory of texts of this project for a slash, or nil."
  (and agent-q-session-root
       (not (file-remote-p agent-q-session-root))
       (expand-file-name ".agent-q/prompts/" agent-q-session-root)))

(defun agent-q-slash--files ()
  "Return all files with texts to send: (NAME FILE OWN), OWN for the user's."
  (seq-uniq
   (mapcan (pcase-lambda (`(,directory . ,own))
             (and directory
                  (file-accessible-directory-p directory)
                  (mapcar (lambda (file) (list (file-name-base file) file own))
                          (seq-filter #'file-regular-p
                                      (directory-files directory t
                                                       "\\`[A-Za-z0-9_-]+\\.md\\'")))))
           (list (cons agent-q-prompts-directory t)
                 (cons (agent-q-slash--project-directory) nil)))
   (lambda (one other) (equal (car one) (car other)))))

(defun agent-q-slash--read (file)
  "Return the prompt in FILE: a cons of its description, or nil, and its text.
Signal an error if it can't be one."
  (let ((size (file-attribute-size (file-attributes file))))
    (unless (and size (<= size agent-q-slash--largest))
      (user-error "%s is too large for a prompt" (abbreviate-file-name file)))
    (with-temp-buffer
      (let ((coding-system-for-read 'utf-8))
        (insert-file-contents file))
      (goto-char (point-min))
      (let ((description nil))
        (when (and (looking-at "---[ \t]*\n")
                   (save-excursion (forward-line 1)
                                   (re-search-forward "^---[ \t]*$" nil t)))
          (let ((end (match-end 0)))
            (when (re-search-forward "^description:[ \t]*\\(.*\\)$" end t)
              (setq description (string-trim (match-string 1) "[ \t\"']+" "[ \t\"']+")))
            (delete-region (point-min) end)))
        (cons description (string-trim (buffer-string)))))))

(defun agent-q-slash--words (arguments)
  "Return the words of ARGUMENTS; what is in double quotes is one."
  (let ((words nil) (from 0))
    (while (string-match "\"\\([^\"]*\\)\"\\|[^ \t\n]+" arguments from)
      (push (or (match-string 1 arguments) (match-string 0 arguments)) words)
      (setq from (match-end 0)))
    (nreverse words)))

(defun agent-q-slash-expand (text arguments)
  "Return TEXT, that of a prompt, with ARGUMENTS, what was typed, in it."
  (let ((words (agent-q-slash--words arguments))
        (takes-p (string-match-p "\\$\\(?:ARGUMENTS\\b\\|[1-9]\\)" text)))
    (if takes-p
        ;; At once, so that what is put in is not looked at again.
        (replace-regexp-in-string
         "\\$\\(?:ARGUMENTS\\b\\|\\([1-9]\\)\\)"
         (lambda (match)
           (if (equal match "$ARGUMENTS") arguments
             (or (nth (- (aref match 1) ?1) words) "")))
         text t t)
      (string-trim (concat text "\n\n" arguments)))))

;;;; What a line means

(defun agent-q-slash-action (text)
  "Return what TEXT, typed at the prompt, asks for, or nil if that is not for us.
The value is (command . COMMAND), or (send . TEXT) or (place . TEXT) for a
prompt.  Signal an error if nothing is called so."
  (when (and (agent-q-console-line-p text)
             (string-match "\\`/\\([A-Za-z0-9_-]+\\)[ \t\n]*" text))
    (let* ((name (match-string 1 text))
           (arguments (string-trim (substring text (match-end 0)))))
      (unless (agent-q-console-tool-p name)
        (agent-q-slash--meant name arguments)))))

(defun agent-q-slash--meant (name arguments)
  "Return what NAME, that of no tool, asks for with ARGUMENTS behind it.
The value is as that of `agent-q-slash-action'."
  (let ((command (assoc name agent-q-slash-commands))
        (prompt (assoc name (agent-q-slash--files))))
    (cond (command
           (unless (string-empty-p arguments)
             (user-error "/%s takes no arguments" name))
           (cons 'command (nth 1 command)))
          (prompt
           (let ((sent (agent-q-slash-expand (cdr (agent-q-slash--read (nth 1 prompt)))
                                             arguments)))
             (when (string-empty-p sent)
               (user-error "%s is empty" (abbreviate-file-name (nth 1 prompt))))
             (cons (if (nth 2 prompt) 'send 'place) sent)))
          (t (user-error "No tool, command or prompt is called /%s; /help lists commands and prompts"
                         name)))))

;;;; Completion and help

(defun agent-q-slash--about (file own)
  "Return a short note on the prompt in FILE; OWN is as in the list of files."
  (let ((description (ignore-errors (car (agent-q-slash--read file)))))
    (format "%-9s  %s" (if own "prompt" "prompt of the project")
            (truncate-string-to-width (or description "") 44 nil nil "..."))))

(defun agent-q-slash-names ()
  "Return what can be typed after /, apart from tools: conses of name and note."
  (append (mapcar (pcase-lambda (`(,name ,_ ,about)) (cons name (concat "command    " about)))
                  agent-q-slash-commands)
          (mapcar (pcase-lambda (`(,name ,file ,own))
                    (cons name (agent-q-slash--about file own)))
                  (seq-remove (lambda (prompt) (assoc (car prompt) agent-q-slash-commands))
                              (agent-q-slash--files)))))

(defun agent-q-slash-help ()
  "Show what can be typed after / or @ at the prompt of a chat."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (let ((names (agent-q-slash-names)))
    (with-help-window "*agent-q slash*"
      (princ "At the prompt of a chat, after /:\n\n")
      (pcase-dolist (`(,name . ,about) names)
        (princ (format "/%-16s %s\n" name about)))
      (princ (substitute-command-keys "\nAnd each tool, such as /describe_symbol mapcar; \
TAB completes, \\[agent-q-list-tools] lists them.\n"))
      (princ (format "Your own prompts are Markdown files in %s.\n"
                     (abbreviate-file-name agent-q-prompts-directory)))
      (princ "\nAfter @, what to attach to a message:\n\n")
      (dolist (kind agent-q-mention-kinds)
        (princ (format "@%-16s %s\n" (agent-q-mention-kind-name kind)
                       (agent-q-mention-kind-about kind)))))))

(provide 'agent-q-slash)
;;; agent-q-slash.el ends here
