;;; agent-q-completion.el --- Completion at the prompt: / and @  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a slash and an @ at the prompt complete to.  Files come from the core and names from
;; the image; Emacs waits for neither.

;;; Code:

(require 'agent-q-attach)
(require 'agent-q-attach-kinds)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-prompt)
(require 'agent-q-server-texts)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Commands and prompts by a slash

;; What "/name" at the prompt of a chat means where no tool has that name: a command of
;; agent-q, or a prompt of the user's own, which is a Markdown file whose text is sent with
;; the arguments in it.  agent-q-chat-send.el does what is found here.

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

(defvar agent-q-completion-slash-commands nil
  "Commands by their names after /: lists (NAME COMMAND ABOUT).
They are put here by agent-q-menu.el, which knows all commands.")

(defconst agent-q-completion--slash-largest 100000
  "Bytes of the largest file that is taken for a prompt.")

;;;;; Prompts

(defun agent-q-completion--slash-project-directory ()
  "Return the directory of texts of this project for a slash, or nil."
  (and agent-q-session-root
       (not (file-remote-p agent-q-session-root))
       (expand-file-name ".agent-q/prompts/" agent-q-session-root)))

(defun agent-q-completion--slash-files ()
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
                 (cons (agent-q-completion--slash-project-directory) nil)))
   (lambda (one other) (equal (car one) (car other)))))

(defun agent-q-completion--slash-read (file)
  "Return the prompt in FILE: a cons of its description, or nil, and its text.
Signal an error if it can't be one."
  (let ((size (file-attribute-size (file-attributes file))))
    (unless (and size (<= size agent-q-completion--slash-largest))
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

(defun agent-q-completion--slash-words (arguments)
  "Return the words of ARGUMENTS; what is in double quotes is one."
  (let ((words nil) (from 0))
    (while (string-match "\"\\([^\"]*\\)\"\\|[^ \t\n]+" arguments from)
      (push (or (match-string 1 arguments) (match-string 0 arguments)) words)
      (setq from (match-end 0)))
    (nreverse words)))

(defun agent-q-completion-slash-expand (text arguments)
  "Return TEXT, that of a prompt, with ARGUMENTS, what was typed, in it."
  (let ((words (agent-q-completion--slash-words arguments))
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

;;;;; What a line means

(defun agent-q-completion-slash-action (text)
  "Return what TEXT, typed at the prompt, asks for, or nil if that is not for us.
The value is (command . COMMAND), or (send . TEXT) or (place . TEXT) for a
prompt, or (use SERVER NAME REST) for one of a server.  Signal an error if
nothing is called so."
  (if (and (agent-q-prompt-console-line-p text)
           (string-match "\\`/\\([A-Za-z0-9_-]+\\)[ \t\n]*" text))
      (let* ((name (match-string 1 text))
             (arguments (string-trim (substring text (match-end 0)))))
        (unless (agent-q-prompt-console-tool-p name)
          (agent-q-completion--slash-meant name arguments)))
    (and-let* ((use (agent-q-server-texts-use text)))
      (cons 'use use))))

(defun agent-q-completion--slash-meant (name arguments)
  "Return what NAME, that of no tool, asks for with ARGUMENTS behind it.
The value is as that of `agent-q-completion-slash-action'."
  (let ((command (assoc name agent-q-completion-slash-commands))
        (prompt (assoc name (agent-q-completion--slash-files))))
    (cond (command
           (unless (string-empty-p arguments)
             (user-error "/%s takes no arguments" name))
           (cons 'command (nth 1 command)))
          (prompt
           (let ((sent (agent-q-completion-slash-expand (cdr (agent-q-completion--slash-read (nth 1 prompt)))
                                                        arguments)))
             (when (string-empty-p sent)
               (user-error "%s is empty" (abbreviate-file-name (nth 1 prompt))))
             (cons (if (nth 2 prompt) 'send 'place) sent)))
          (t (user-error "No tool, command or prompt is called /%s; /help lists commands and prompts"
                         name)))))

;;;;; Completion and help

(defun agent-q-completion--slash-about (file own)
  "Return a short note on the prompt in FILE; OWN is as in the list of files."
  (let ((description (ignore-errors (car (agent-q-completion--slash-read file)))))
    (format "%-9s  %s" (if own "prompt" "prompt of the project")
            (truncate-string-to-width (or description "") 44 nil nil "..."))))

(defun agent-q-completion-slash-names ()
  "Return what can be typed after /, apart from tools: conses of name and note."
  (append (mapcar (pcase-lambda (`(,name ,_ ,about)) (cons name (concat "command    " about)))
                  agent-q-completion-slash-commands)
          (mapcar (pcase-lambda (`(,name ,file ,own))
                    (cons name (agent-q-completion--slash-about file own)))
                  (seq-remove (lambda (prompt) (assoc (car prompt) agent-q-completion-slash-commands))
                              (agent-q-completion--slash-files)))
          (agent-q-server-texts-names)))

(defun agent-q-completion-slash-help ()
  "Show what can be typed after / or @ at the prompt of a chat."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (let ((names (agent-q-completion-slash-names)))
    (agent-q-text-with-page "*agent-q slash*"
      (princ "At the prompt of a chat, after /:\n\n")
      (pcase-dolist (`(,name . ,about) names)
        (princ (format "/%-16s %s\n" name about)))
      (princ (substitute-command-keys "\nAnd each tool, such as /describe_symbol mapcar; \
TAB completes, \\[agent-q-list-tools] lists them.\n"))
      (princ (format "Your own prompts are Markdown files in %s.\n"
                     (abbreviate-file-name agent-q-prompts-directory)))
      (princ "\nAfter @, what to attach to a message:\n\n")
      (dolist (kind (append agent-q-attach-kinds (agent-q-server-texts-kinds)))
        (princ (format "@%-16s %s\n" (agent-q-attach-kinds-kind-name kind)
                       (agent-q-attach-kinds-kind-about kind)))))))

;;;; Calls of tools

;; A line such as "/describe_symbol mapcar" calls a tool without a model.

(defun agent-q-completion--console-first-line (text)
  "Return the first sentence of TEXT, as far as it fits beside a name."
  (truncate-string-to-width (car (split-string (or text "") "\\.[ \n]\\|\n"))
                            44 nil nil "..."))

(defun agent-q-completion-console-at-point ()
  "Complete the tool call at the prompt.
For `completion-at-point-functions'."
  (when (and (agent-q-prompt-p)
             (eq (char-after agent-q-prompt-start) ?/))
    (let* ((start (1+ agent-q-prompt-start))
           (name-end (save-excursion
                       (goto-char start)
                       (skip-chars-forward "A-Za-z0-9_-")
                       (point))))
      (cond ((<= (point) name-end)
             (agent-q-completion--console-complete-name start name-end))
            ((eq (char-after name-end) ?:)
             (agent-q-completion--server-prompt))
            (t (when-let ((tool (agent-q-core-tool
                                 (buffer-substring-no-properties start name-end))))
                 (agent-q-completion--console-complete-argument tool name-end)))))))

(defun agent-q-completion--console-complete-name (start end)
  "Complete the name of a tool, command or prompt from START to END."
  (let* ((tools (agent-q-core-tools))
         (names (mapcar (lambda (tool) (plist-get tool :name)) tools))
         (more (seq-remove (lambda (more) (member (car more) names))
                           (agent-q-completion-slash-names))))
    (list start end
          (lambda (string predicate action)
            (if (eq action 'metadata)
                ;; As they are: the tools are many, and models are who usually call them.
                '(metadata (display-sort-function . identity)
                           (cycle-sort-function . identity))
              (complete-with-action action (append (mapcar #'car more) names)
                                    string predicate)))
          :exclusive 'no
          :annotation-function
          (lambda (name)
            ;; One below the other.
            (concat (make-string (max 2 (- 23 (length name))) ?\s)
                    (if-let ((tool (seq-find (lambda (tool)
                                               (equal (plist-get tool :name) name))
                                             tools)))
                        (format "%-9s  %s" (plist-get tool :level)
                                (agent-q-completion--console-first-line
                                 (plist-get tool :description)))
                      (cdr (assoc name more)))))
          :exit-function (agent-q-completion--spacer))))

(defun agent-q-completion--console-complete-argument (tool name-end)
  "Complete the word at point among the arguments of TOOL after NAME-END."
  (let* ((word-start (save-excursion
                       (skip-chars-backward "^ \t\n" name-end)
                       (point)))
         (before (split-string
                  (buffer-substring-no-properties name-end word-start))))
    ;; Only leading words name parameters; what follows them is one value.
    (when (seq-every-p #'agent-q-completion--console-assignment-name before)
      (save-excursion
        (goto-char word-start)
        (if (looking-at "\\([A-Za-z0-9_-]+\\)=")
            (agent-q-completion--console-complete-value tool (match-string-no-properties 1)
                                                    (match-end 0))
          (agent-q-completion--console-complete-parameter
           tool word-start
           (mapcar #'agent-q-completion--console-assignment-name before)))))))

(defun agent-q-completion--console-assignment-name (word)
  "Return the name in WORD if it is of the form name=value."
  (when (string-match "\\`\\([A-Za-z0-9_-]+\\)=" word)
    (match-string 1 word)))

(defun agent-q-completion--console-complete-parameter (tool start given)
  "Complete a name of TOOL's parameters at START, except those in GIVEN."
  (let ((parameters (seq-remove (lambda (parameter)
                                  (member (plist-get parameter :name) given))
                                (plist-get tool :parameters))))
    (list start (agent-q-completion--console-word-end start)
          (mapcar (lambda (parameter)
                    (concat (plist-get parameter :name) "="))
                  parameters)
          :exclusive 'no
          :annotation-function
          (lambda (name)
            (when-let ((parameter (seq-find
                                   (lambda (parameter)
                                     (equal (concat (plist-get parameter :name)
                                                    "=")
                                            name))
                                   parameters)))
              (format "  %s%s  %s" (plist-get parameter :type)
                      (if (plist-get parameter :required) ", required" "")
                      (agent-q-completion--console-first-line
                       (plist-get parameter :description))))))))

(defun agent-q-completion--console-complete-value (tool name start)
  "Complete at START a value of the parameter NAME of TOOL."
  (when-let* ((parameter (seq-find (lambda (parameter)
                                     (equal (plist-get parameter :name) name))
                                   (plist-get tool :parameters)))
              (values (or (plist-get parameter :choices)
                          (and (equal (plist-get parameter :type) "boolean")
                               '("true" "false")))))
    (list start (agent-q-completion--console-word-end start) values :exclusive 'no)))

(defun agent-q-completion--console-word-end (start)
  "Return the end of the word that begins at START."
  (save-excursion
    (goto-char start)
    (skip-chars-forward "^ \t\n")
    (point)))

;;;;; Prompts of servers

(defun agent-q-completion--server-prompt ()
  "Complete the prompt of a server at the prompt, or an argument of it."
  (pcase-let* ((text (agent-q-prompt-text))
               (`(,server ,name ,_) (ignore-errors (agent-q-server-texts-use text)))
               (start (1+ agent-q-prompt-start))
               (end (+ agent-q-prompt-start (agent-q-server-texts-name-end text))))
    (when server
      (let ((prompts (agent-q-completion--server-prompts
                      server (agent-q-completion--continuation start))))
        (if (<= (point) end)
            (agent-q-completion--server-prompt-name server start end)
          (when-let* ((prompt (agent-q-server-texts-prompt name prompts)))
            (agent-q-completion--server-argument server prompt end)))))))

(defun agent-q-completion--server-prompts (server continue)
  "Return what can be typed after / of SERVER, if known; later, CONTINUE."
  (let* ((now t) (found 'none)
         (_ (agent-q-server-texts-prompts
             server (lambda (prompts problem)
                      (cond (now (setq found prompts))
                            (problem (message "%s" problem))
                            (t (funcall continue))))))
         (name (agent-q-text-visible-line (plist-get server :name))))
    (setq now nil)
    (pcase found
      ('none (agent-q-completion--say (format "Waiting for the prompts of %s..." name)) nil)
      ('nil (agent-q-completion--say (format "%s has no prompts" name)) nil)
      (_ found))))

(defun agent-q-completion--server-prompt-name (server start end)
  "Complete the name of a prompt of SERVER from START to END."
  (let ((names (agent-q-server-texts-names (list server))))
    (list start end
          (agent-q-completion--table
           (mapcar #'car names)
           (lambda (name)
             (concat (make-string (max 2 (- 30 (length name))) ?\s) (cdr (assoc name names)))))
          :exit-function (agent-q-completion--spacer))))

(defun agent-q-completion--server-argument (server prompt name-end)
  "Complete at point an argument of PROMPT of SERVER, whose name is up to NAME-END."
  (let* ((start (save-excursion (skip-chars-backward "^ \t\n" name-end) (point)))
         (given (ignore-errors
                  (agent-q-server-texts-values
                   prompt (string-trim (buffer-substring-no-properties name-end start)))))
         (word (buffer-substring-no-properties start (point))))
    (if (string-match "\\`\\([^=\"]+\\)=\\(.*\\)" word)
        (agent-q-completion--server-value server prompt (match-string 1 word)
                                          (match-string 2 word) given)
      (let ((left (seq-remove (lambda (it) (assoc (alist-get 'name it) given))
                              (alist-get 'arguments prompt))))
        (list start (agent-q-completion--console-word-end start)
              (mapcar (lambda (it) (concat (alist-get 'name it) "=")) left)
              :annotation-function
              (lambda (name)
                (let ((it (seq-find (lambda (it) (equal name (concat (alist-get 'name it) "="))) left)))
                  (concat (if (alist-get 'required it) "  required  " "  ") (alist-get 'about it)))))))))

(defun agent-q-completion--server-value (server prompt argument value given)
  "Complete VALUE of ARGUMENT of PROMPT of SERVER, where GIVEN are others."
  (let ((start (- (point) (length value))))
    (list start (agent-q-completion--console-word-end start)
          (agent-q-completion--of-server
           (list 'values (plist-get server :name) (alist-get 'name prompt) argument value given)
           (agent-q-completion--continuation start)
           (lambda (function)
             (agent-q-server-texts-complete-argument server prompt argument value given function)))
          :exit-function (agent-q-completion--spacer))))

(defun agent-q-completion--spacer (&optional beginnings)
  "Return a function that puts a space behind what was completed.
It does nothing behind BEGINNINGS, after which more is typed."
  (lambda (name status)
    (unless (or (string-suffix-p ":" name) (not (eq status 'finished)) (member name beginnings)
                (memq (char-after) '(?\s ?\n ?:)))
      (insert " "))))

;;;; Completion of mentions

;; Completes mentions at the prompt and in messages that are written in a buffer of their
;; own: first the kind, then what it names.  Files come from the core and names from the
;; image; Emacs waits for neither.  What came is kept for a while, and what is still to come
;; continues the completion when it is there.  Finished mentions are marked, with their size
;; where that is known without asking anybody.

(defconst agent-q-completion--seconds 30
  "Seconds for which names from core and image are good.")

(defvar-local agent-q-completion-chat nil
  "The chat that the message in this buffer is for, or nil in a chat.")

(defvar-local agent-q-completion--kept nil
  "What core and image answered in this chat: a hash table from questions.
Its values are lists of the time, whether all names are there, and the names,
or `asked'.")

(defvar-local agent-q-completion--waiting nil
  "What is to be done in this chat when a question is answered, by questions.")

(defun agent-q-completion--chat ()
  "Return the chat that the message in this buffer is for."
  (or agent-q-completion-chat (current-buffer)))

;;;;; Names that come later

(defun agent-q-completion--get (question)
  "Return what is kept in this chat for QUESTION, if that is still good."
  (let ((kept (and agent-q-completion--kept
                   (gethash question agent-q-completion--kept))))
    (and kept
         (< (- (float-time) (car kept)) agent-q-completion--seconds)
         (cdr kept))))

(defun agent-q-completion--put (question whole names)
  "Keep NAMES for QUESTION in this chat; with WHOLE, these are all."
  (unless agent-q-completion--kept
    (setq agent-q-completion--kept (make-hash-table :test #'equal)))
  (when (< 200 (hash-table-count agent-q-completion--kept))
    (clrhash agent-q-completion--kept))
  (puthash question (list (float-time) whole names) agent-q-completion--kept))

(defun agent-q-completion--wait (question continue)
  "Have CONTINUE called when QUESTION of this chat is answered.
Only who asked last still waits."
  (setf (alist-get question agent-q-completion--waiting nil nil #'equal) continue))

(defun agent-q-completion--found (chat question whole names)
  "Keep in CHAT that NAMES answer QUESTION, all of them if WHOLE, and continue."
  (when (buffer-live-p chat)
    (let ((continue (alist-get question
                               (buffer-local-value 'agent-q-completion--waiting chat)
                               nil nil #'equal)))
      (with-current-buffer chat
        (agent-q-completion--put question whole names)
        (setf (alist-get question agent-q-completion--waiting nil t #'equal) nil))
      (when continue
        (funcall continue)))))

(defconst agent-q-completion--commands
  '(agent-q-chat-view-tab completion-at-point indent-for-tab-command)
  "Commands that complete at point.")

(defun agent-q-completion--continuation (start)
  "Return a function to complete again if the user still waits at START.
It does nothing where no key asked for the completion."
  (let* ((text (buffer-substring-no-properties start (point)))
         (buffer (current-buffer))
         (start (copy-marker start))
         (keys (this-command-keys-vector))
         (asked (and (memq this-command agent-q-completion--commands)
                     (memq (key-binding keys) agent-q-completion--commands))))
    (lambda ()
      (when (and asked
                 (not (input-pending-p))
                 (eq buffer (window-buffer (selected-window)))
                 ;; It may still be saying that there is no match.
                 (or (memq this-command agent-q-completion--commands)
                     (memq last-command agent-q-completion--commands))
                 (with-current-buffer buffer
                   (and (<= start (point))
                        (equal text (buffer-substring-no-properties start (point))))))
        ;; As a command of its own, so that nothing else is in the middle of one.
        (setq unread-command-events (append (listify-key-sequence keys) unread-command-events)))
      (set-marker start nil))))

;;;;; Files

(defvar agent-q-completion--questions nil
  "Functions of the files of a project, by the core's numbers of questions.")

(defun agent-q-completion--files (continue)
  "Return the files of this chat's project that are known; later, CONTINUE."
  (let ((kept (agent-q-completion--get 'files)))
    (unless kept
      (agent-q-events-subscribe :project-files #'agent-q-completion--files-came)
      (let ((chat (current-buffer))
            ;; Until the answer is there, those from before will do.
            (before (and agent-q-completion--kept
                         (nth 2 (gethash 'files agent-q-completion--kept)))))
        (agent-q-completion--put 'files nil before)
        (push (cons (agent-q-core-project-files agent-q-session-number)
                    (lambda (names)
                      (agent-q-completion--found chat 'files t names)))
              agent-q-completion--questions)
        (setq kept (list nil before))))
    (unless (car kept)
      (agent-q-completion--wait 'files continue))
    (nth 1 kept)))

(defun agent-q-completion--files-came (event)
  "Pass on the files in EVENT."
  (let ((function (alist-get (plist-get event :question) agent-q-completion--questions)))
    (when function
      (setf (alist-get (plist-get event :question) agent-q-completion--questions nil t) nil)
      (let ((names (split-string (or (plist-get event :files) "") "\n" t)))
        ;; Completion may show a window and read keys; a filter must not.
        (run-at-time 0 nil function names)))))

;;;;; Names of the image

(defun agent-q-completion--ask-image (question operation arguments names)
  "Ask this chat's image QUESTION, OPERATION with ARGUMENTS.
NAMES is a function of the value that returns its names and whether these are
all."
  (let ((chat (current-buffer)))
    (agent-q-completion--put question nil nil)
    (agent-q-image-query
     agent-q-session-connection operation arguments
     (lambda (reply _status _payload)
       (pcase reply
         (`(:outcome :returned :value ,value . ,_)
          (pcase-let ((`(,found . ,whole) (funcall names value)))
            (run-at-time 0 nil #'agent-q-completion--found
                         chat question whole found)))
         ;; The next time, it is asked again.
         (_ (when (buffer-live-p chat)
              (with-current-buffer chat
                (remhash question agent-q-completion--kept)))))))))

(defun agent-q-completion--written (name colon)
  "Return NAME, a symbol as the image writes it, as people write it.
COLON non-nil means that they wrote its package with one colon."
  (let ((name (if (and (equal name (upcase name)) (not (string-search "|" name)))
                  (downcase name)
                name)))
    (if colon (replace-regexp-in-string "\\`\\([^:]+\\)::" "\\1:" name) name)))

(defun agent-q-completion--symbols (typed continue)
  "Return the symbols that are known for TYPED; later, CONTINUE."
  (let* ((parts (and (string-match "\\`\\([^:]+\\)\\(::?\\)\\(.*\\)\\'" typed)
                     (list (match-string 1 typed) (match-string 2 typed) (match-string 3 typed))))
         (package (car parts))
         (word (downcase (or (nth 2 parts) typed)))
         (known (agent-q-completion--known package word)))
    (unless known
      (agent-q-completion--wait (list 'symbols package word) continue))
    (unless (or known (agent-q-completion--get (list 'symbols package word)))
      (agent-q-completion--ask-image
       (list 'symbols package word) "complete-symbol"
       (list :word word
             :package (or package
                          ;; Of all symbols there would be too many.
                          (and (string-empty-p word)
                               (or (agent-q-connection-repl-package agent-q-session-connection)
                                   "COMMON-LISP-USER"))))
       (lambda (value)
         (let ((names (cl-loop for (name about) on (plist-get value :names) by #'cddr
                               collect (propertize name 'agent-q-about about))))
           (cons names (= (length names) (plist-get value :total)))))))
    (mapcar (lambda (name) (agent-q-completion--written name (equal (nth 1 parts) ":")))
            (nth 1 known))))

(defun agent-q-completion--known (package word)
  "Return what is kept for symbols of PACKAGE with WORD in their names.
That can be the answer for a part of WORD."
  (cl-loop for length from (length word) downto 0
           for kept = (agent-q-completion--get
                       (list 'symbols package (substring word 0 length)))
           when (and kept (or (car kept) (and (nth 1 kept) (= length (length word)))))
           return kept))

(defun agent-q-completion--programs (key continue)
  "Return the program's names of KEY, :packages or :systems; later, CONTINUE."
  (let ((kept (agent-q-completion--get key)))
    (unless (car kept)
      (agent-q-completion--wait key continue))
    (unless kept
      (agent-q-completion--ask-image
       key "list-programs" nil
       (lambda (value) (cons (mapcar #'downcase (plist-get value key)) t))))
    (nth 1 kept)))

;;;;; Candidates

(defun agent-q-completion--names (names typed continue)
  "Return what NAMES, as of `agent-q-attach-kinds-kind', can be for TYPED.
When there is more, CONTINUE is called."
  (let ((image (agent-q-connection-live-p agent-q-session-connection)))
    (pcase names
      ('file (agent-q-completion--files continue))
      ('buffer (mapcar #'buffer-name (seq-filter #'agent-q-session-user-buffer-p (buffer-list))))
      ('symbol (and image (agent-q-completion--symbols typed continue)))
      ('package (and image (agent-q-completion--programs :packages continue)))
      ('system (and image (agent-q-completion--programs :systems continue)))
      (`(server . ,server) (agent-q-completion--resources server typed continue)))))

(defun agent-q-completion--resources (server typed continue)
  "Return the addresses that are known for TYPED at SERVER; later, CONTINUE."
  (agent-q-completion--of-server
   (list 'resources (plist-get server :name) typed) continue
   (lambda (function) (agent-q-server-texts-resources server typed function))))

(defun agent-q-completion--of-server (question continue ask)
  "Return what is kept in this chat for QUESTION; later, CONTINUE.
ASK is a function that asks a server, and calls the function it is given with
the names and a problem."
  (let ((kept (agent-q-completion--get question))
        (chat (current-buffer)))
    (unless (car kept)
      (agent-q-completion--wait question continue))
    (unless kept
      (agent-q-completion--put question nil nil)
      (funcall ask
               (lambda (names problem)
                 (cond ((null problem) (agent-q-completion--found chat question t names))
                       ((buffer-live-p chat)
                        ;; The next time, it is asked again.
                        (with-current-buffer chat
                          (remhash question agent-q-completion--kept))
                        (message "%s" problem))))))
    (nth 1 (agent-q-completion--get question))))

(defun agent-q-completion--server-changed (event)
  "Forget in all chats what is kept of the server in EVENT: it is another now."
  (dolist (chat (agent-q-session-buffers))
    (let ((kept (buffer-local-value 'agent-q-completion--kept chat)))
      (when kept
        (dolist (question (hash-table-keys kept))
          (when (and (consp question) (memq (car question) '(resources values))
                     (equal (nth 1 question) (plist-get event :name)))
            (remhash question kept)))))))

(agent-q-events-subscribe :tool-server #'agent-q-completion--server-changed)

(defun agent-q-completion--quoted (name)
  "Return NAME in quotes if it can't be written without."
  (if (string-match-p "[] \t\n\"`,;})]" name) (concat "\"" name "\"") name))

(defun agent-q-completion--table (candidates annotate)
  "Return a completion table of CANDIDATES with notes by ANNOTATE."
  (lambda (string predicate action)
    (if (eq action 'metadata)
        `(metadata (category . agent-q-mention)
                   (annotation-function . ,annotate)
                   (display-sort-function . identity)
                   (cycle-sort-function . identity))
      (complete-with-action action candidates string predicate))))

(defun agent-q-completion--bounds ()
  "Return where the mention around point begins, and its kind's end, or nil.
The value is a cons."
  (let ((limit (if agent-q-completion-chat (point-min) agent-q-prompt-start)))
    (save-excursion
      (let ((point (point)))
        (when (and limit (re-search-backward "@" (max limit (line-beginning-position)) t)
                   (or (= (point) limit)
                       (memq (char-before) '(?\s ?\t ?\n ?\( ?\[ ?{ ?\" ?'))))
          (let ((start (point)))
            (when (looking-at "@\\([^] \t\n\"`,;:}@]*\\)\\(?::\\(?:\"[^\"\n]*\\|[^] \t\n\"`,;}]*\\)\\)?")
              (and (<= point (match-end 0))
                   (cons start (match-end 1))))))))))

;;;###autoload
(defun agent-q-completion ()
  "Complete the mention at point: its kind, or what it names.
For `completion-at-point-functions'."
  (when (or agent-q-completion-chat (agent-q-prompt-p))
    (pcase (agent-q-completion--bounds)
      (`(,start . ,kind-end)
       (if (<= (point) kind-end)
           (agent-q-completion--kinds (1+ start) kind-end)
         (let* ((name (buffer-substring-no-properties (1+ start) kind-end))
                (kind (with-current-buffer (agent-q-completion--chat)
                       (agent-q-attach-mention-kind name))))
           (when (and kind (agent-q-attach-kinds-kind-names kind)
                      (not (eq 'count (agent-q-attach-kinds-kind-names kind))))
             (agent-q-completion--argument kind (1+ kind-end)))))))))

(defun agent-q-completion--files-like (typed files)
  "Return mentions of those FILES that have TYPED in their name."
  (let ((case-fold-search t) (pattern (regexp-quote typed)))
    (mapcar (lambda (file) (concat "file:" (agent-q-completion--quoted file)))
            (seq-filter (lambda (file) (string-match-p pattern file)) files))))

(defun agent-q-completion--kinds (start end)
  "Complete the kind of a mention from START to END.
What begins no kind is taken for a part of the name of a file."
  (let* ((typed (buffer-substring-no-properties start (point)))
         (chat (agent-q-completion--chat))
         (kinds (mapcar (lambda (kind)
                          (let ((name (agent-q-attach-kinds-kind-name kind)))
                            (if (memq (agent-q-attach-kinds-kind-argument kind)
                                      '(required usual always))
                                (concat name ":")
                              name)))
                        (with-current-buffer (agent-q-completion--chat)
                          (append agent-q-attach-kinds (agent-q-server-texts-kinds)))))
         (kind-p (seq-some (lambda (name) (string-prefix-p typed name)) kinds))
         (continue (if kind-p #'ignore (agent-q-completion--continuation start)))
         ;; They take a moment; behind a kind, they may be wanted next.
         (files (with-current-buffer (agent-q-completion--chat)
                  (agent-q-completion--files continue)))
         (names (if kind-p kinds (agent-q-completion--files-like typed files))))
    (unless names
      (agent-q-completion--say-why 'file continue))
    (list start end
          (agent-q-completion--table
           names
           (lambda (name)
             (let ((kind (with-current-buffer chat
                           (agent-q-attach-mention-kind (string-remove-suffix ":" name)))))
               (and kind
                    ;; One below the other.
                    (concat (make-string (max 2 (- 12 (length name))) ?\s)
                            (agent-q-attach-kinds-kind-about kind))))))
          ;; By which only what begins with the text would do.
          :exclusive (if kind-p 'no t)
          :exit-function (agent-q-completion--spacer))))

(defun agent-q-completion--argument (kind start)
  "Complete at START what a mention of KIND names."
  (let* ((end (save-excursion (goto-char start)
                              (if (eq (char-after) ?\")
                                  (skip-chars-forward "^\n")
                                (skip-chars-forward "^ \t\n"))
                              (max (point) start)))
         (end (if (eq (char-after start) ?\") (point) end))
         (typed (string-remove-prefix "\"" (buffer-substring-no-properties start (point))))
         (continue (agent-q-completion--continuation start))
         (names (with-current-buffer (agent-q-completion--chat)
                  (agent-q-completion--names (agent-q-attach-kinds-kind-names kind)
                                             typed continue))))
    (unless names
      (agent-q-completion--say-why (agent-q-attach-kinds-kind-names kind) continue))
    ;; Where nothing is there yet, nobody else's names will do, nor is the image waited for.
    (list start end
          (agent-q-completion--table
           (mapcar #'agent-q-completion--quoted names)
           (lambda (name)
             (let ((about (and (< 0 (length name)) (get-text-property 0 'agent-q-about name))))
               (and about (not (equal about "")) (concat "  " about)))))
          ;; Not :exclusive, by which only what begins with the text would do.
          :exit-function (agent-q-completion--spacer
                          (seq-filter (lambda (name) (get-text-property 0 'agent-q-more name)) names)))))

(defun agent-q-completion--say-why (names continue)
  "Say why there are no NAMES, if that is known and a key asked for them.
CONTINUE is what is called when there are some."
  (let ((why (with-current-buffer (agent-q-completion--chat)
               (cond ((rassq continue agent-q-completion--waiting)
                      (pcase names
                        ('file "Waiting for the files of the project...")
                        (`(server . ,server) (format "Waiting for %s..." (plist-get server :name)))
                        (_ "Waiting for the image...")))
                     ((and (memq names '(symbol package system))
                           (not (agent-q-connection-live-p agent-q-session-connection)))
                      (concat "Nothing to offer: " agent-q-attach-kinds-no-image))))))
    (when why
      (agent-q-completion--say why))))

(defun agent-q-completion--say (why)
  "Say WHY nothing is offered, if a key asked for it."
  (when (memq this-command agent-q-completion--commands)
    ;; After Emacs's word that there is no match.
    (run-at-time 0 nil #'message "%s" why)))

;;;;; Marks on what is typed

(defvar-local agent-q-completion--marked nil
  "The tick of this buffer's text when its mentions were last marked.")

(defun agent-q-completion--users-file ()
  "Return the file that the user last worked in, or nil."
  (let ((buffer (agent-q-session-user-last-buffer
                 (lambda (it) (buffer-local-value 'buffer-file-name it)))))
    (and buffer (buffer-local-value 'buffer-file-name buffer))))

(defun agent-q-completion-size (mention)
  "Return the size of what MENTION is about as a text, if that is known at once."
  (let ((argument (agent-q-attach-mention-argument mention)))
    (pcase (agent-q-attach-kinds-kind-name (agent-q-attach-mention-type mention))
      ("file" (let ((name (or argument (agent-q-completion--users-file))))
                ;; Expanding a remote one may connect.
                (and name (not (file-remote-p name))
                     (let ((path (expand-file-name name (or agent-q-session-root
                                                            default-directory))))
                       (and (file-regular-p path)
                            (agent-q-attach-kinds-excerpt-size (file-attribute-size
                                                                (file-attributes path))))))))
      ("buffer" (let ((buffer (if argument (get-buffer argument) (agent-q-session-user-last-buffer))))
                  (and buffer (agent-q-attach-kinds-excerpt-size (buffer-size buffer)))))
      ("region" (let ((buffer (if argument (get-buffer argument) (agent-q-session-user-last-buffer))))
                  (and buffer
                       (with-current-buffer buffer
                         (and mark-active (mark)
                              (agent-q-attach-kinds-excerpt-size (abs (- (mark) (point))))))))))))

(defun agent-q-completion-mark ()
  "Mark the mentions in what is typed.  For `post-command-hook'."
  (unless (eq agent-q-completion--marked (buffer-chars-modified-tick))
    (setq agent-q-completion--marked (buffer-chars-modified-tick))
    (let ((start (if agent-q-completion-chat (point-min) agent-q-prompt-start)))
      (when start
        (remove-overlays start (point-max) 'agent-q-mention t)
        (when (save-excursion (goto-char start) (search-forward "@" nil t))
          (let ((typed (buffer-substring-no-properties start (point-max))))
            (dolist (mention (with-current-buffer (agent-q-completion--chat)
                               (agent-q-attach-mention-find typed)))
              (agent-q-completion--mark-one mention start))))))))

(defun agent-q-completion--mark-one (mention start)
  "Mark MENTION, one of the text that begins at START."
  (let ((overlay (make-overlay (+ start (agent-q-attach-mention-start mention))
                               (+ start (agent-q-attach-mention-end mention))))
        (size (with-current-buffer (agent-q-completion--chat)
                (agent-q-completion-size mention))))
    (overlay-put overlay 'agent-q-mention t)
    (overlay-put overlay 'evaporate t)
    (overlay-put overlay 'face 'agent-q-mention)
    (when size
      (overlay-put overlay 'after-string (propertize (format " (%s)" size) 'face 'agent-q-dim)))))

;;;###autoload
(defun agent-q-completion-setup (&optional chat)
  "Complete and mark mentions in this buffer, a chat or a message for CHAT."
  (setq agent-q-completion-chat chat)
  (setq-local completion-ignore-case t
              completion-category-defaults
              (cons '(agent-q-mention (styles basic substring partial-completion))
                    completion-category-defaults))
  (add-hook 'completion-at-point-functions #'agent-q-completion nil t)
  (add-hook 'post-command-hook #'agent-q-completion-mark nil t))

(provide 'agent-q-completion)
;;; agent-q-completion.el ends here
