;;; reference.el --- What the manual says of keys, commands and options  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The part of the manual that the sources know better: its tables of keys, from the keymaps, and
;; docs/reference.org, with every command and option from their docstrings.  `scripts/generate.el'
;; writes both, and says where they are stale, or where one has no place here.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; Keys

(defconst agent-q-reference--keys
  '((everywhere . agent-q-command-map)
    (chat agent-q-chat-mode-map
          ((agent-q-chat-return) . "send the prompt; while a turn runs, the message is queued; in the log, open or unfold the thing at point")
          ((agent-q-chat-view-tab) . "complete after ~@~ or ~/~, or a Lisp symbol; unfold a call; else go to the next call, button or link")
          ((agent-q-chat-send-or-cancel) . "send; cancel when nothing is typed")
          ((agent-q-chat-send-cancel) . "cancel the turn")
          ((agent-q-goto-approval) . "go to the pending request")
          ((agent-q-chat-send-steer) . "send a message into the running turn")
          ((agent-q-chat-send-queue-edit (agent-q-chat-send-queue-edit . "C-u"))
           . "put a queued message back at the prompt; drop it")
          ((agent-q-compose) . "write the message in a buffer of its own")
          ((agent-q-prompt-previous agent-q-prompt-next agent-q-prompt-search)
           . "your earlier messages; search them")
          ((agent-q-chat-view-previous-turn agent-q-chat-view-next-turn) . "go to your message before or after")
          ((agent-q-menu-open) . "open the link, place, value or definition at point; elsewhere a menu of everything")
          ((agent-q-chat-view-toggle-all) . "unfold everything, so that it can be searched; fold it again")
          ((agent-q-set-model agent-q-set-effort) . "another model; how hard it thinks")
          ((agent-q-plan-mode) . "plan mode")
          ((agent-q-names-find-definition agent-q-names-describe)
           . "visit the definition of the symbol at point; describe it")
          ((agent-q-debugger-hand-over) . "open your debugger on a parked error")
          ((agent-q-code-block-copy) . "copy the code at point, or the last code before point")
          ((agent-q-code-block-insert) . "insert that code into the last buffer you worked in that isn't a REPL")
          ((agent-q-code-block-stage agent-q-code-repl) . "put that code at the REPL's prompt; go to the REPL")
          ((agent-q-copy-answer) . "copy the last answer")
          ((agent-q-rewind) . "go back to before the message at point")
          ((agent-q-chat-file-save) . "write a transcript to a file of your choice"))
    (request agent-q-approval-effect-map
             ((agent-q-approval-run agent-q-approval-deny) . "run the call, deny it")
             ((agent-q-approval-deny-with-reason) . "deny it with a reason")
             ((agent-q-approval-for-chat agent-q-approval-for-project)
              . "show a rule for this chat, for this project; again to take it")
             ((agent-q-approval-widen) . "another rule, wider or narrower")
             ((agent-q-approval-edit) . "edit the arguments")
             ((agent-q-approval-view) . "show all")
             ((agent-q-approval-review agent-q-approval-review-in-place)
              . "show an edit as a diff; show it in the buffer of its file")
             ((agent-q-approval-stop agent-q-approval-backtrace) . "stop the running call; show its backtrace")
             ((agent-q-approval-gate-more) . "show more of the request")
             ((agent-q-approval-run-all agent-q-approval-deny-all)
              . "where several are pending: run all that you have seen to the end; deny all"))
    (place agent-q-review-place-hunk-map
           ((agent-q-review-place-accept agent-q-review-place-reject)
            . "accept or reject the hunk; after the last one, what you accepted is applied")
           ((agent-q-review-place-next agent-q-review-place-previous) . "go to the next or the previous hunk")
           ((agent-q-review-place-apply) . "accept all that is left, and apply the edit")
           ((agent-q-review-place-reject-all) . "reject the whole edit")
           ((agent-q-review-place-diff) . "show the edit as a diff"))
    (diff agent-q-review-mode-map
          ((agent-q-review-toggle) . "accept the hunk at point, or reject it, and go to the next one")
          ((agent-q-review-next agent-q-review-previous) . "go to the next or the previous hunk")
          ((agent-q-review-edit-this-hunk agent-q-review-comment) . "edit the hunk; comment on it, for the model")
          ((agent-q-review-apply agent-q-review-reject) . "apply what is accepted; reject the whole edit")
          ((agent-q-review-quit) . "go back to the request, and decide there"))
    (client agent-q-mcp-client-mode-map
            ((agent-q-mcp-client-return) . "unfold a call")
            ((agent-q-mcp-client-stop) . "stop everything that the agent has running")
            ((agent-q-mcp-client-pause) . "pause the agent: all its calls are refused until you press the key again"))
    (debugger agent-q-mode-map
              ((agent-q-fix-error agent-q-explain agent-q-ask) . "have the error fixed; explained; ask about it"))
    (chats agent-q-chats-list-mode-map
           ((agent-q-chats-list-go agent-q-chats-list-search) . "go to the chat; search all chats")
           ((agent-q-chats-list-rename agent-q-chats-list-fork) . "rename the chat; continue in a copy of it")
           ((agent-q-chats-list-export agent-q-chats-list-delete) . "export it as Markdown; move it to the trash"))
    (drift agent-q-drift-mode-map
           ((agent-q-drift-compare agent-q-drift-visit) . "compare image and file; go to the file")
           ((agent-q-drift-put agent-q-drift-load)
            . "put the image's text into the file's buffer; load what the file has")
           ((agent-q-drift-forget) . "remove the definition from the image"))
    (image agent-q-changes-image-mode-map
           ((agent-q-changes-image-source) . "show the form that made the change")
           ((agent-q-changes-image-restore agent-q-changes-image-restore-all) . "undo the change; undo all that are listed")
           ((agent-q-changes-image-toggle-all) . "changes of all chats, or of this one"))
    (rewind agent-q-chat-history-rewind-mode-map
            ((agent-q-chat-history-rewind-tick-conversation agent-q-chat-history-rewind-tick-files
              agent-q-chat-history-rewind-tick-image)
             . "tick the conversation, the files, the image")
            ((agent-q-chat-history-rewind-do) . "undo what is ticked")))
  "The tables of keys in docs/manual.org: (NAME MAP (COMMANDS . TEXT)...).
A command may be a pair of it and the prefix argument's keys.  (NAME . MAP) is
a keymap whose commands have names.")

(defun agent-q-reference--bindings (map)
  "Return the commands of MAP, each with its keys: ((COMMAND . KEYS)...)."
  (let ((found nil))
    (cl-labels ((walk (map before)
                  (map-keymap
                   (lambda (event binding)
                     (let ((keys (append before (list event)))
                           (binding (if (eq (car-safe binding) 'menu-item) (nth 2 binding) binding)))
                       (when (stringp (car-safe binding))
                         (setq binding (cdr binding)))
                       (cond ((memq event '(menu-bar tool-bar mouse-1 mouse-2 follow-link header-line)))
                             ((keymapp binding) (walk binding keys))
                             ((not (commandp binding)))
                             ((eq (car before) 'remap)
                              (when-let ((usual (where-is-internal event global-map t)))
                                (push (cons binding usual) found)))
                             (t (push (cons binding (vconcat keys)) found)))))
                   map)))
      (walk map nil))
    found))

(defun agent-q-reference--key (command map)
  "Return the shortest key of COMMAND in MAP as text, or nil."
  (car (seq-sort (lambda (one other)
                   (or (< (length one) (length other))
                       (and (= (length one) (length other)) (string< one other))))
                 (mapcar (lambda (binding) (key-description (cdr binding)))
                         (seq-filter (lambda (binding) (eq command (car binding)))
                                     (agent-q-reference--bindings map))))))

(defun agent-q-reference--key-cell (command map)
  "Return the key of COMMAND, or of its pair with a prefix, in MAP for a table."
  (let ((prefix (cdr-safe command))
        (command (or (car-safe command) command)))
    (format "~%s%s~" (if prefix (concat prefix " ") "")
            (or (agent-q-reference--key command map)
                (error "%s has no key in the keymap where scripts/reference.el looks" command)))))

(defun agent-q-reference--key-rows (table)
  "Return the rows of TABLE, from `agent-q-reference--keys', as (KEYS . TEXT)."
  (pcase table
    (`(,_ ,map . ,rows)
     (mapcar (pcase-lambda (`(,commands . ,text))
               (cons (mapconcat (lambda (command) (agent-q-reference--key-cell command (symbol-value map)))
                                commands ", ")
                     text))
             rows))
    (`(,_ . ,map)
     (let ((rows nil))
       (map-keymap (pcase-lambda (event `(,name . ,command))
                     (push (cons (format "~%s~" (key-description (vector event)))
                                 (format "%s (~%s~)" name command))
                           rows))
                   (symbol-value map))
       rows))))

(defun agent-q-reference--key-table (name)
  "Return the table of keys called NAME, as Org."
  (concat "| key | what it does |\n|-----+--------------|\n"
          (mapconcat (pcase-lambda (`(,keys . ,text)) (format "| %s | %s |\n" keys text))
                     (agent-q-reference--key-rows (assq name agent-q-reference--keys)) "")))

(defun agent-q-reference-manual (text)
  "Return TEXT of docs/manual.org with its tables of keys as they should be."
  (let ((placed nil))
    (with-temp-buffer
      (insert text)
      (goto-char (point-min))
      (while (re-search-forward "^# keys: \\([a-z]+\\)$" nil t)
        (let ((name (intern (match-string 1)))
              (start (1+ (point))))
          (push name placed)
          (re-search-forward "^# end of keys$")
          (delete-region start (match-beginning 0))
          (goto-char start)
          (insert (agent-q-reference--key-table name))))
      (when-let ((lost (seq-difference (mapcar #'car agent-q-reference--keys) placed)))
        (error "These tables of keys have no place in docs/manual.org: %S" lost))
      (buffer-string))))

;;;; Commands and options

(defconst agent-q-reference--themes
  '(("Chats" agent-q-chat agent-q-chat-send agent-q-chat-commands agent-q-chats agent-q-chat-history
     agent-q-chat-view agent-q-completion agent-q-prompt agent-q-attention agent-q-history-max
     agent-q-max-iterations agent-q-max-turn-seconds agent-q-max-turn-tokens)
    ("Asking from other buffers" agent-q-ask)
    ("How answers look" agent-q-markdown agent-q-render agent-q-code agent-q-code-highlight agent-q-names
     agent-q-fold-results)
    ("Requests and rules" agent-q-rules agent-q-audit agent-q-tool-list agent-q-goto-approval agent-q-plan-mode
     agent-q-plan-do agent-q-plan-evaluates agent-q-eval-policy agent-q-tool-levels agent-q-private-files
     agent-q-project-root agent-q-offered-tools agent-q-tool-choice)
    ("The image" agent-q-image agent-q-image-history agent-q-scratch agent-q-drift agent-q-debugger
     agent-q-set-image agent-q-changes-in-image agent-q-verify agent-q-verify-changes agent-q-eval-timeout
     agent-q-compile-after-edit agent-q-echo-evaluations)
    ("Files and review" agent-q-changes agent-q-review agent-q-review-place agent-q-project agent-q-review-edits)
    ("Context" agent-q-context agent-q-attach agent-q-attach-kinds agent-q-context-usage agent-q-compact
     agent-q-undo-compact agent-q-compact-at agent-q-context-window agent-q-show-request
     agent-q-show-system-prompt agent-q-sync-instructions agent-q-instructions agent-q-skills-directory
     agent-q-send-image-map agent-q-project-read-instructions)
    ("Models and costs" agent-q-provider agent-q-model-facts agent-q-key agent-q-key-file agent-q-set-model
     agent-q-set-effort agent-q-cost agent-q-max-turn-cost agent-q-research-model)
    ("Other agents" agent-q-mcp agent-q-mcp-install)
    ("Programming" agent-q-servers agent-q-chat-use-agent agent-q-handler-timeout)
    ("Set-up and help" agent-q-menu agent-q-module agent-q-install agent-q-doctor agent-q-tutorial agent-q-debug
     agent-q))
  "The themes of the reference in their order: (TITLE NAME...).
A name is that of a command, an option or a file, for all in it that no theme
names.")

(defun agent-q-reference--of-form (form file)
  "Return what FORM in FILE defines: (NAME KIND TEXT DEFAULT FILE), or nil.
KIND is `command', `option' or nil."
  (pcase form
    (`(defcustom ,name ,default ,text . ,_) (list name 'option text default file))
    (`(,(or 'defun 'cl-defun) ,name ,_ ,(and (pred stringp) text) . ,body)
     (and (seq-find (lambda (part) (eq 'interactive (car-safe part))) body)
          (list name 'command text nil file)))
    (`(define-minor-mode ,name ,text . ,_) (list name 'command text nil file))))

(defun agent-q-reference--in-file (file)
  "Return what FILE in lisp/ defines: its options, and commands with autoloads."
  (with-temp-buffer
    (insert-file-contents (format "lisp/%s.el" file))
    (let ((found nil))
      (while (re-search-forward "^(\\(?:defcustom\\|\\(?:cl-\\)?defun\\|define-minor-mode\\) " nil t)
        (goto-char (match-beginning 0))
        (let ((cookie (save-excursion (forward-line -1) (looking-at-p ";;;###autoload$")))
              (known (agent-q-reference--of-form (read (current-buffer)) (intern file))))
          (when (and known (or cookie (eq 'option (nth 1 known))))
            (push known found))))
      (nreverse found))))

(defun agent-q-reference--all ()
  "Return all that is documented, in the order of the sources."
  (seq-mapcat #'agent-q-reference--in-file
              (mapcar #'file-name-base
                      (seq-remove (lambda (file) (string-match-p "-\\(?:autoloads\\|loaddefs\\)\\.el\\'" file))
                                  (directory-files "lisp" nil "\\`agent-q[^.#]*\\.el\\'")))))

(defun agent-q-reference--file-p (name)
  "Whether NAME is that of a file in lisp/."
  (file-exists-p (format "lisp/%s.el" name)))

(defun agent-q-reference--theme (known)
  "Return the title of the theme of KNOWN, and its place there, a number.
KNOWN is what `agent-q-reference--of-form' returns."
  (pcase-let* ((`(,name ,_ ,_ ,_ ,file) known)
               ;; Where a name is that of a file, too, it is one of those in the file.
               (named (and (not (agent-q-reference--file-p name)) name))
               (theme (or (seq-find (lambda (theme) (memq named (cdr theme))) agent-q-reference--themes)
                          (seq-find (lambda (theme) (memq file (cdr theme))) agent-q-reference--themes)
                          (error "%s of %s has no theme in scripts/reference.el" name file))))
    (cons (car theme) (or (seq-position (cdr theme) named) (seq-position (cdr theme) file)))))

(defun agent-q-reference--default (form)
  "Return what an entry says of the default, FORM in the source."
  (let ((text (pcase form
                (`(quote ,value) (prin1-to-string value))
                (`(locate-user-emacs-file ,file) file)
                ((pred atom) (prin1-to-string form)))))
    (and text (< (length text) 40) (not (equal text "\"\""))
         (concat (format "default ~%s~" text)
                 (if (eq 'locate-user-emacs-file (car-safe form)) " in your Emacs directory" "")))))

(defun agent-q-reference--keys-in (text)
  "Return TEXT, a docstring, with the keys that it names by commands."
  (let ((map nil))
    (replace-regexp-in-string
     "\\\\=\\(.\\)\\|\\\\<\\([^>]+\\)>\\|\\\\{[^}]+}\\|\\\\\\[\\([^]]+\\)\\]"
     (lambda (found)
       (cond ((match-string 1 found))
             ((match-string 2 found) (setq map (symbol-value (intern (match-string 2 found)))) "")
             ((match-string 3 found)
              (let ((command (intern (match-string 3 found))))
                (format "`%s'" (or (and map (agent-q-reference--key command map))
                                   (format "M-x %s" command)))))
             (t "")))
     text t t)))

(defun agent-q-reference--laid-out-p (line)
  "Whether LINE of a docstring stands where it does on purpose."
  (and (string-match-p "\\`\\(?:  \\|:[a-z-]+  \\)" line) t))

(defun agent-q-reference--body (text)
  "Return TEXT, a docstring, as Org that is indented as an item."
  (mapconcat
   (lambda (lines)
     (let ((text (mapconcat (lambda (line) (if (string-empty-p line) "" (concat "  " line))) lines "\n")))
       (if (agent-q-reference--laid-out-p (car lines))
           (format "\n  #+begin_example\n%s\n  #+end_example\n" text)
         (replace-regexp-in-string "`\\([^`'\n]+\\)'" "~\\1~" text t))))
   (agent-q-reference--runs #'agent-q-reference--laid-out-p
                            (split-string (string-trim (agent-q-reference--keys-in text)) "\n"))
   "\n"))

(defun agent-q-reference--runs (predicate lines)
  "Return LINES in lists of neighbours for which PREDICATE returns the same."
  (let ((runs nil) (run nil))
    (dolist (line lines)
      (when (and run (not (eq (funcall predicate line) (funcall predicate (car run)))))
        (push (nreverse run) runs)
        (setq run nil))
      (push line run))
    (nreverse (cons (nreverse run) runs))))

(defun agent-q-reference--entry (known)
  "Return the entry for KNOWN as Org."
  (pcase-let* ((`(,name ,kind ,text ,default ,_) known)
               (note (if (eq kind 'command)
                         (when-let ((key (agent-q-reference--key name (symbol-value 'agent-q-chat-mode-map))))
                           (format "~%s~ in a chat" key))
                       (agent-q-reference--default default))))
    (format "- ~%s~%s ::\n  #+%s: %s\n%s\n" name (if note (format " (%s)" note) "")
            (if (eq kind 'command) "findex" "vindex") name (agent-q-reference--body text))))

(defun agent-q-reference-text ()
  "Return the text of docs/reference.org."
  (let ((all (seq-sort-by #'cdar #'<
                          (mapcar (lambda (known) (cons (agent-q-reference--theme known) known))
                                  (agent-q-reference--all)))))
    (concat
     "# SPDX-License-Identifier: GPL-3.0-or-later
#+TITLE: agent-q: every command and option
#+OPTIONS: ^:nil
# Written by `make generate' from the docstrings; a part of manual.org.
"
     (mapconcat
      (pcase-lambda (`(,title . ,_))
        (let ((of-theme (mapcar #'cdr (seq-filter (lambda (entry) (equal title (caar entry))) all))))
          (concat (format "\n* %s\n" title)
                  (mapconcat
                   (pcase-lambda (`(,kind . ,heading))
                     (let ((entries (seq-filter (lambda (known) (eq kind (nth 1 known))) of-theme)))
                       (if (null entries) ""
                         (format "\n%s:\n\n%s" heading
                                 (mapconcat #'agent-q-reference--entry entries "")))))
                   '((command . "Commands") (option . "Options")) ""))))
      agent-q-reference--themes ""))))

(provide 'reference)
;;; reference.el ends here
