;;; agent-q-mcp-install.el --- Registering agent-q with other agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Writes into the settings of other agents that they start agent-q-mcp, and that they need not
;; ask about its tools: Emacs does.  Each change is shown as a diff and made with consent,
;; and `agent-q-mcp-uninstall' takes it back.

;;; Code:

(require 'agent-q)
(require 'agent-q-json)
(require 'agent-q-mcp)
(require 'agent-q-module)
(require 'agent-q-project)
(require 'agent-q-text)
(require 'cl-lib)
(require 'diff)
(require 'seq)
(require 'subr-x)

;;;; Small changes in other programs' JSON files

;; Puts a value into the JSON text of the current buffer, or takes it out, and leaves every
;; other character as it is: comments, spaces, numbers.  Paths are lists of keys.

(defvar agent-q-mcp-install--json-syntax
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?\" "\"" table)
    (modify-syntax-entry ?\\ "\\" table)
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?\[ "(]" table)
    (modify-syntax-entry ?\] ")[" table)
    (modify-syntax-entry ?{ "(}" table)
    (modify-syntax-entry ?} "){" table)
    (dolist (character '(?- ?+ ?.))
      (modify-syntax-entry character "_" table))
    (dolist (character '(?, ?: ?'))
      (modify-syntax-entry character "." table))
    table)
  "Syntax of JSON with comments.")

(defmacro agent-q-mcp-install--json-in (&rest body)
  "Run BODY with the syntax of JSON."
  (declare (indent 0) (debug t))
  `(with-syntax-table agent-q-mcp-install--json-syntax
     (let ((parse-sexp-ignore-comments t))
       (save-excursion ,@body))))

(defun agent-q-mcp-install--json-skip ()
  "Go over spaces and comments."
  (forward-comment (buffer-size)))

(defun agent-q-mcp-install--json-key ()
  "Return the string at point and go behind it."
  (let ((start (point)))
    (unless (eq (char-after) ?\") (error "No JSON object here"))
    (forward-sexp)
    (agent-q-json-parse (buffer-substring-no-properties start (point)))))

(defun agent-q-mcp-install--json-members ()
  "Return the elements of the object or array at point, in order.
Each is (KEY START VALUE END): START is where it begins, VALUE where its
value does, and END where that ends.  KEY is nil in an array."
  (let ((object (eq (char-after) ?{)) (members nil))
    (unless (memq (char-after) '(?{ ?\[)) (error "No JSON object or array here"))
    (save-excursion
      (forward-char)
      (agent-q-mcp-install--json-skip)
      (while (not (memq (char-after) '(?} ?\])))
        (let ((start (point)) (key (and object (agent-q-mcp-install--json-key))) value)
          (agent-q-mcp-install--json-skip)
          (when object
            (unless (eq (char-after) ?:) (error "No colon in a JSON object"))
            (forward-char)
            (agent-q-mcp-install--json-skip))
          (setq value (point))
          (forward-sexp)
          (push (list key start value (point)) members))
        (agent-q-mcp-install--json-skip)
        (when (eq (char-after) ?,)
          (forward-char)
          (agent-q-mcp-install--json-skip))))
    (nreverse members)))

(defun agent-q-mcp-install--json-root ()
  "Go to the object that the text is, which is made in an empty one."
  (goto-char (point-min))
  (agent-q-mcp-install--json-skip)
  (when (eobp)
    (insert "{\n}\n")
    (goto-char (point-min))
    (agent-q-mcp-install--json-skip))
  (unless (eq (char-after) ?{) (error "The file holds no JSON object")))

(defun agent-q-mcp-install--json-find (path)
  "Go to the value at PATH from the root; return non-nil if it is there."
  (agent-q-mcp-install--json-root)
  (let ((found t))
    (while (and found path)
      (let ((member (and (eq (char-after) ?{)
                         (assoc (pop path) (agent-q-mcp-install--json-members)))))
        (if member (goto-char (nth 2 member)) (setq found nil))))
    found))

(defun agent-q-mcp-install--json-indented (text depth)
  "Return TEXT, the value of an element at DEPTH, with its lines indented."
  (replace-regexp-in-string "\n" (concat "\n" (make-string (* 2 depth) ?\s)) text t t))

(defun agent-q-mcp-install--json-add (text depth)
  "Add TEXT as the last element of the object or array at point, which is at DEPTH."
  (let* ((last (car (last (agent-q-mcp-install--json-members))))
         (indent (concat "\n" (make-string (* 2 (1+ depth)) ?\s)))
         (text (agent-q-mcp-install--json-indented text (1+ depth)))
         (first (1+ (point))))
    (if last
        (progn (goto-char (nth 3 last))
               (insert "," indent text))
      (forward-sexp)
      (backward-char)
      ;; Comments may be there, but nothing else.
      (delete-region (point) (progn (skip-chars-backward " \t\r\n" first) (point)))
      (insert indent text "\n" (make-string (* 2 depth) ?\s)))))

(defvar agent-q-mcp-install-json-replaced nil
  "What was replaced: ((PATH . TEXT) ...), with TEXT as it was in the file.
It is nil where nothing was.")

(defun agent-q-mcp-install--json-note (path text)
  "Note that TEXT was at PATH, unless something is known of it already."
  (unless (assoc path agent-q-mcp-install-json-replaced)
    (push (cons path text) agent-q-mcp-install-json-replaced)))

(defun agent-q-mcp-install--json-note-empty (path)
  "Note how the object or array at PATH, where point is, is written if it is empty."
  (unless (agent-q-mcp-install--json-members)
    (agent-q-mcp-install--json-note path (agent-q-mcp-install--json-text))))

(defun agent-q-mcp-install--json-text ()
  "Return the text of the value at point."
  (buffer-substring-no-properties (point) (save-excursion (forward-sexp) (point))))

(defun agent-q-mcp-install--json-replace (path text depth)
  "Put TEXT in place of the value at point, which is at PATH and DEPTH."
  (let ((old (agent-q-mcp-install--json-text))
        (new (agent-q-mcp-install--json-indented text depth)))
    (unless (equal old new)
      (agent-q-mcp-install--json-note path old)
      (delete-region (point) (+ (point) (length old)))
      (save-excursion (insert new)))))

(defun agent-q-mcp-install--json-need (bracket path depth)
  "See to it that the value at point begins with BRACKET; it is at PATH and DEPTH.
Null and an empty list stand for nothing and are replaced."
  (unless (eq (char-after) (aref bracket 0))
    (if (string-match-p "\\`\\(?:null\\|\\[[ \t\r\n]*\\]\\)\\'" (agent-q-mcp-install--json-text))
        (agent-q-mcp-install--json-replace path bracket depth)
      (error "%s is not an expected %s" (string-join path ".") (if (equal bracket "{\n}") "object" "list")))))

(defun agent-q-mcp-install--json-put-text (path text)
  "Make TEXT the value at PATH.
Objects on the way are made where there are none."
  (let ((way nil) (depth 0))
    (agent-q-mcp-install--json-root)
    (while (cdr path)
      (let ((member (assoc (car path) (agent-q-mcp-install--json-members)))
            (next (append way (list (car path)))))
        (unless member
          (agent-q-mcp-install--json-note-empty way)
          (agent-q-mcp-install--json-note next nil)
          (save-excursion
            (agent-q-mcp-install--json-add (concat (agent-q-json-string (car path)) ": {\n}") depth))
          (setq member (assoc (car path) (agent-q-mcp-install--json-members))))
        (goto-char (nth 2 member))
        (setq way next
              path (cdr path)
              depth (1+ depth))
        (agent-q-mcp-install--json-need "{\n}" way depth)))
    (let ((member (assoc (car path) (agent-q-mcp-install--json-members))))
      (if member
          (progn (goto-char (nth 2 member))
                 (agent-q-mcp-install--json-replace (append way path) text (1+ depth)))
        (agent-q-mcp-install--json-note-empty way)
        (agent-q-mcp-install--json-note (append way path) nil)
        (agent-q-mcp-install--json-add (concat (agent-q-json-string (car path)) ": " text) depth)))))

(defun agent-q-mcp-install-json-put (path value)
  "Make VALUE, as in `agent-q-json-encode', the one at PATH.
Objects on the way are made where there are none."
  (agent-q-mcp-install--json-in
    (agent-q-mcp-install--json-put-text path (agent-q-json-pretty value))))

(defun agent-q-mcp-install--json-vacant-p (text)
  "Whether what is at point is as good as TEXT, which is empty or nil.
One word for all, too, is an object now that only repeats it."
  (let ((now (agent-q-mcp-install--json-text))
        (bare (lambda (text) (replace-regexp-in-string "[ \t\r\n]+" "" text))))
    (or (member (funcall bare now) (list "{}" "[]" (and text (funcall bare text))))
        (and text (equal (funcall bare now) (format "{\"*\":%s}" (funcall bare text)))))))

(defun agent-q-mcp-install-json-restore (replaced)
  "Put back what was REPLACED, as in `agent-q-mcp-install-json-replaced'.
Ours is gone by then.  Where there is anything else now, it stays."
  (agent-q-mcp-install--json-in
    ;; What is inside of something first.
    (pcase-dolist (`(,path . ,text) (sort (copy-sequence replaced)
                                          (lambda (one other)
                                            (> (length (car one)) (length (car other))))))
      (when (and (seq-every-p #'stringp path)
                 (agent-q-mcp-install--json-find path)
                 (agent-q-mcp-install--json-vacant-p text))
        (if text
            (agent-q-mcp-install--json-put-back text)
          (agent-q-mcp-install-json-remove path))))))

(defun agent-q-mcp-install--json-put-back (text)
  "Put TEXT, as it was in the file, in place of the value at point."
  (delete-region (point) (save-excursion (forward-sexp) (point)))
  (insert text))

(defun agent-q-mcp-install-json-put-back (path text)
  "Put TEXT, as it was in the file, in place of the value at PATH, if there is one."
  (agent-q-mcp-install--json-in
    (when (agent-q-mcp-install--json-find path)
      (agent-q-mcp-install--json-put-back text))))

(defun agent-q-mcp-install--json-remove (members member)
  "Remove MEMBER, one of MEMBERS, with what parts it from the others."
  (let ((after (cadr (member member members)))
        (before (car (last (seq-take-while (lambda (it) (not (equal it member))) members)))))
    (cond (after (delete-region (nth 1 member) (nth 1 after)))
          (before (delete-region (nth 3 before) (nth 3 member)))
          (t (delete-region (save-excursion (goto-char (nth 1 member))
                                            (skip-chars-backward " \t\n")
                                            (point))
                            ;; What follows may be in a line of its own because of a comment.
                            (save-excursion (goto-char (nth 3 member))
                                            (if (looking-at "[ \t\r\n]*,") (match-end 0)
                                              (point))))))))

(defun agent-q-mcp-install-json-remove (path)
  "Remove what is at PATH."
  (agent-q-mcp-install--json-in
    (when (and (agent-q-mcp-install--json-find (butlast path)) (eq (char-after) ?{))
      (let* ((members (agent-q-mcp-install--json-members))
             (member (assoc (car (last path)) members)))
        (when member
          (agent-q-mcp-install--json-remove members member))))))

(defun agent-q-mcp-install-json-add-to-list (path text)
  "Add the string TEXT to the array at PATH, unless it is there."
  (agent-q-mcp-install--json-in
    (unless (agent-q-mcp-install--json-find path)
      (agent-q-mcp-install-json-put path []))
    (agent-q-mcp-install--json-find path)
    (agent-q-mcp-install--json-need "[]" path (length path))
    (unless (agent-q-mcp-install--json-element text)
      (agent-q-mcp-install--json-note-empty path)
      (agent-q-mcp-install--json-add (agent-q-json-string text) (length path)))))

(defun agent-q-mcp-install--json-element (text)
  "Return the element of the array at point that is the string TEXT, or nil."
  (seq-find (lambda (member)
              (equal (agent-q-json-string text)
                     (buffer-substring-no-properties (nth 2 member) (nth 3 member))))
            (agent-q-mcp-install--json-members)))

(defun agent-q-mcp-install-json-remove-from-list (path text)
  "Remove the string TEXT from the array at PATH."
  (agent-q-mcp-install--json-in
    (when (and (agent-q-mcp-install--json-find path) (eq (char-after) ?\[))
      (let ((member (agent-q-mcp-install--json-element text)))
        (when member
          (agent-q-mcp-install--json-remove (agent-q-mcp-install--json-members) member))))))

(defun agent-q-mcp-install-json-get (path)
  "Return the text of the value at PATH, or nil."
  (agent-q-mcp-install--json-in
    (when (agent-q-mcp-install--json-find path)
      (buffer-substring-no-properties (point) (progn (forward-sexp) (point))))))

;;;; Registering agent-q with other agents

(defconst agent-q-mcp-install--name "agent-q"
  "The name under which other agents know the server.")

(defun agent-q-mcp-install-program ()
  "Return the file name of the program that other agents start."
  (expand-file-name "agent-q-mcp" (agent-q-module-core-directory)))

(defvar agent-q-mcp-install--before nil
  "What our entries replaced in the file at hand.
It is as in `agent-q-mcp-install-json-replaced'.")

;;;;; Blocks of text

(defun agent-q-mcp-install--marks (comment)
  "Return the first and the last line of our block, where COMMENT begins a comment."
  (cons (concat comment " agent-q: begin (M-x agent-q-mcp-uninstall removes this)")
        (concat comment " agent-q: end")))

(defun agent-q-mcp-install--remove-block (comment)
  "Remove our block from the current buffer, where COMMENT begins comments."
  (pcase-let ((`(,first . ,last) (agent-q-mcp-install--marks comment)))
    (goto-char (point-min))
    (when (re-search-forward (concat "^" (regexp-quote first) "$") nil t)
      (let ((start (match-beginning 0)))
        (when (re-search-forward (concat "^" (regexp-quote last) "$") nil t)
          (forward-line)
          (delete-region start (point))
          (goto-char start)
          (agent-q-mcp-install--close-gap))))))

(defun agent-q-mcp-install--close-gap ()
  "Delete what was put in front of the text that was removed at point."
  ;; An empty line, and the end of a last line that had none.
  (when (and (bolp) (looking-back "\n\n" (max (point-min) (- (point) 2))))
    (delete-char -1))
  (when (and (eobp) (bolp) (not (bobp)) (assoc '(:end) agent-q-mcp-install--before))
    (delete-char -1)))

(defun agent-q-mcp-install--open-gap ()
  "Go to the end of the buffer, to a line that an empty one is in front of."
  (goto-char (point-max))
  (unless (or (bobp) (bolp))
    (push '((:end) . "") agent-q-mcp-install-json-replaced)
    (insert "\n"))
  (unless (bobp) (insert "\n")))

(defun agent-q-mcp-install--put-block (comment text)
  "Put our block with TEXT at the end of the buffer; COMMENT begins comments."
  (agent-q-mcp-install--remove-block comment)
  (pcase-let ((`(,first . ,last) (agent-q-mcp-install--marks comment)))
    (agent-q-mcp-install--open-gap)
    (insert first "\n" text "\n" last "\n")))

;;;;; Tables of TOML

(defconst agent-q-mcp-install--set-aside "# agent-q replaced: "
  "What begins the lines of a table that was there before ours.")

(defconst agent-q-mcp-install--table
  "^[ \t]*\\[[ \t]*mcp_servers[ \t]*\\.[ \t]*[\"']?agent-q[\"']?[ \t]*\\(?:\\..*\\)?\\]"
  "What begins a table of Codex's about us, or one inside of it.")

(defun agent-q-mcp-install--long-strings ()
  "Return where the strings of more than a line are, as conses of positions."
  (let ((places nil))
    (save-excursion
      (goto-char (point-min))
      (while (re-search-forward "#.*\\|\"\"\"\\|'''\\|\"\\(?:\\\\.\\|[^\"\\\n]\\)*\"\\|'[^'\n]*'" nil t)
        (let ((start (match-beginning 0)) (quotes (match-string 0)))
          (when (member quotes '("\"\"\"" "'''"))
            (while (and (re-search-forward (if (equal quotes "'''") quotes
                                             "\\\\\\(?:.\\|\n\\)\\|\"\"\"")
                                           nil 'move)
                        (not (equal quotes (match-string 0)))))
            (push (cons start (point)) places)))))
    places))

(defun agent-q-mcp-install--search (regexp &optional bound)
  "Go behind the next match of REGEXP up to BOUND outside of long strings.
Return nil when there is none."
  (let ((strings (agent-q-mcp-install--long-strings)) (found nil))
    (while (and (setq found (re-search-forward regexp bound t))
                (seq-some (lambda (place) (< (car place) (match-beginning 0) (cdr place))) strings)))
    found))

(defun agent-q-mcp-install--set-tables-aside ()
  "Make comments of the tables about us that the user wrote.
Two of one name are an error, and Codex would not start."
  (goto-char (point-min))
  (while (agent-q-mcp-install--search agent-q-mcp-install--table)
    (forward-line 0)
    (let ((end (save-excursion
                 (forward-line)
                 (if (agent-q-mcp-install--search "^[ \t]*\\[") (line-beginning-position) (point-max)))))
      (setq end (copy-marker end))
      (while (< (point) end)
        (insert agent-q-mcp-install--set-aside)
        (forward-line)
        (when (eobp) (set-marker end (point))))
      (set-marker end nil)))
  (goto-char (point-min))
  (let ((case-fold-search nil))
    (when (or (agent-q-mcp-install--search "^[ \t]*mcp_servers[ \t]*\\(=\\|\\.[ \t]*[\"']?agent-q\\)")
              (and (agent-q-mcp-install--search "^[ \t]*\\[[ \t]*mcp_servers[ \t]*\\]")
                   (agent-q-mcp-install--search
                    "^[ \t]*[\"']?agent-q[\"']?[ \t]*[.=]"
                    (save-excursion
                      (if (agent-q-mcp-install--search "^[ \t]*\\[") (point) (point-max))))))
      (error "Line %d sets mcp_servers in a way that can't be added to; remove what it says of agent-q, or write it as [mcp_servers.agent-q]"
             (line-number-at-pos)))))

(defun agent-q-mcp-install--put-codex ()
  "Put our table at the end of the buffer, in place of one that is there."
  (agent-q-mcp-install--remove-block "#")
  (agent-q-mcp-install--set-tables-aside)
  (agent-q-mcp-install--put-block "#" (agent-q-mcp-install--codex)))

(defun agent-q-mcp-install--remove-codex ()
  "Remove our table, and bring back the one that it replaced."
  (agent-q-mcp-install--remove-block "#")
  (goto-char (point-min))
  (while (re-search-forward (concat "^" (regexp-quote agent-q-mcp-install--set-aside)) nil t)
    (replace-match "")))

;;;;; The agents

(defun agent-q-mcp-install--codex ()
  "Return what Codex's settings need."
  (format "[mcp_servers.%s]
command = %s
# agent-q asks in Emacs, so Codex need not.
default_tools_approval_mode = \"approve\"
tool_timeout_sec = %d
# Where the program looks for Emacs; Codex would hide these from it.
env_vars = [\"XDG_RUNTIME_DIR\", \"XDG_CACHE_HOME\", \"AGENT_Q_MCP_DIRECTORY\"]"
          agent-q-mcp-install--name
          ;; Its strings are as those of JSON.
          (agent-q-json-string (agent-q-mcp-install-program))
          (+ 30 (ceiling agent-q-mcp-patience))))

(defun agent-q-mcp-install--agent-shell ()
  "Return the Emacs Lisp that agent-shell needs."
  (format "(with-eval-after-load 'agent-shell
  (add-to-list 'agent-shell-mcp-servers
               '((name . %S) (command . %S) (args . ()) (env . ()))))"
          agent-q-mcp-install--name (agent-q-mcp-install-program)))

(defun agent-q-mcp-install--place (variable otherwise)
  "Return the folder that the environment's VARIABLE names, or OTHERWISE."
  (let ((folder (getenv variable)))
    (if (member folder '(nil "")) otherwise folder)))

(defun agent-q-mcp-install--opencode-file ()
  "Return the file of opencode's settings."
  (let ((folder (expand-file-name "opencode" (agent-q-mcp-install--place "XDG_CONFIG_HOME" "~/.config"))))
    (or (seq-find #'file-exists-p (list (expand-file-name "opencode.jsonc" folder)
                                        (expand-file-name "opencode.json" folder)))
        (expand-file-name "opencode.json" folder))))

(defun agent-q-mcp-install--stdio ()
  "Return the entry of a server for programs that take a command and arguments."
  `(:command ,(agent-q-mcp-install-program) :args []))

(defun agent-q-mcp-install--agents ()
  "Return the agents that are known, as lists (NAME . FILES).
Each of FILES is (FILE PUT REMOVE): functions that change the text of the
current buffer, which is that of FILE."
  (let ((name agent-q-mcp-install--name))
    `(("Claude Code"
       (,(expand-file-name ".claude.json" (agent-q-mcp-install--place "CLAUDE_CONFIG_DIR" "~"))
        ,(lambda () (agent-q-mcp-install-json-put (list "mcpServers" name)
                                                  `(:type "stdio" ,@(agent-q-mcp-install--stdio))))
        ,(lambda ()
           (agent-q-mcp-install--take-out (list "mcpServers" name))
           (agent-q-mcp-install--restore)))
       (,(expand-file-name "settings.json" (agent-q-mcp-install--place "CLAUDE_CONFIG_DIR" "~/.claude"))
        ,(lambda () (agent-q-mcp-install-json-add-to-list '("permissions" "allow")
                                                          (concat "mcp__" name)))
        ,(lambda ()
           (agent-q-mcp-install-json-remove-from-list '("permissions" "allow") (concat "mcp__" name))
           (agent-q-mcp-install--restore))))
      ("Codex"
       (,(expand-file-name "config.toml" (agent-q-mcp-install--place "CODEX_HOME" "~/.codex"))
        ,#'agent-q-mcp-install--put-codex
        ,#'agent-q-mcp-install--remove-codex))
      ("opencode"
       (,(agent-q-mcp-install--opencode-file)
        ,(lambda ()
           (agent-q-mcp-install-json-put (list "mcp" name)
                                         `(:type "local" :command [,(agent-q-mcp-install-program)]
                                           :enabled t))
           (let ((all (agent-q-mcp-install-json-get '("permission"))))
             ;; One word is short for that of all tools.
             (when (and all (string-prefix-p "\"" all))
               (agent-q-mcp-install-json-put '("permission") `(:* ,(agent-q-json-parse all)))))
           (agent-q-mcp-install-json-put (list "permission" (concat name "_*")) "allow"))
        ,(lambda ()
           (agent-q-mcp-install--take-out (list "mcp" name))
           (agent-q-mcp-install--take-out (list "permission" (concat name "_*")))
           (agent-q-mcp-install--restore))))
      ("ECA"
       (,(expand-file-name "eca/config.json" (agent-q-mcp-install--place "XDG_CONFIG_HOME" "~/.config"))
        ,(lambda ()
           (agent-q-mcp-install-json-put (list "mcpServers" name) (agent-q-mcp-install--stdio))
           (agent-q-mcp-install-json-put (list "toolCall" "approval" "allow" name) (make-hash-table)))
        ,(lambda ()
           (agent-q-mcp-install--take-out (list "mcpServers" name))
           (agent-q-mcp-install--take-out (list "toolCall" "approval" "allow" name))
           (agent-q-mcp-install--restore))))
      ("agent-shell"
       (,(or user-init-file (expand-file-name "init.el" user-emacs-directory))
        ,(lambda () (agent-q-mcp-install--put-block ";;" (agent-q-mcp-install--agent-shell)))
        ,(lambda () (agent-q-mcp-install--remove-block ";;")))))))

;;;;; What was there before

(defun agent-q-mcp-install--memory ()
  "Return the name of the file about what our entries replaced."
  (expand-file-name "mcp-replaced.eld" (file-name-directory (expand-file-name agent-q-log-file))))

(defun agent-q-mcp-install--remembered ()
  "Return what our entries replaced: ((FILE (PATH . TEXT) ...) ...)."
  (ignore-errors
    (with-temp-buffer
      (insert-file-contents (agent-q-mcp-install--memory))
      (read (current-buffer)))))

(defun agent-q-mcp-install--remember (file replaced)
  "Remember that our entries REPLACED something in FILE, for undoing that.
An older entry of ours is nothing to go back to."
  (let* ((all (agent-q-mcp-install--remembered))
         (known (cdr (assoc file all)))
         (new (seq-remove (pcase-lambda (`(,path . ,text))
                            (or (assoc path known) (string-search "agent-q-mcp\"" (or text ""))))
                          replaced)))
    (when new
      (agent-q-mcp-install--store-memory
       (cons (cons file (append new known)) (assoc-delete-all file all))))))

(defun agent-q-mcp-install--forget (file)
  "Forget what our entries replaced in FILE, which is as it was."
  (let ((all (agent-q-mcp-install--remembered)))
    (when (assoc file all)
      (agent-q-mcp-install--store-memory (assoc-delete-all file all)))))

(defun agent-q-mcp-install--store-memory (all)
  "Store ALL, what our entries replaced."
  (let ((memory (agent-q-mcp-install--memory)))
    (make-directory (file-name-directory memory) t)
    (with-file-modes #o600
      (with-temp-file memory
        (prin1 all (current-buffer))))))

(defun agent-q-mcp-install--take-out (path)
  "Remove our value at PATH from the current buffer, or restore what it replaced."
  (let ((text (cdr (assoc path agent-q-mcp-install--before))))
    (if text (agent-q-mcp-install-json-put-back path text)
      (agent-q-mcp-install-json-remove path))))

(defun agent-q-mcp-install--restore ()
  "Put back what our entries replaced in the current buffer.
A file that was empty, or not there, is empty."
  (agent-q-mcp-install-json-restore agent-q-mcp-install--before)
  (when (and (assoc '(:file) agent-q-mcp-install--before)
             (string-match-p "\\`[ \t\n]*{[ \t\n]*}[ \t\n]*\\'" (buffer-string)))
    (erase-buffer)
    (insert (or (cdr (assoc '(:file) agent-q-mcp-install--before)) ""))))

;;;;; The project

(defconst agent-q-mcp-install--skill
  "---
name: lisp-image
description: Work in the running Common Lisp image through agent-q's tools. Use for any question or change about this Lisp program.
---

The user's Common Lisp program is running, and agent-q's tools reach it.

1. Look things up in the image, not only in files: `describe_symbol`, `apropos_search`, `find_definition`, `xref`.
2. Try an expression with `eval_form` before you rely on it. Read errors; their stack stays alive for `debugger_frames`.
3. Change a definition with `edit_definition` or `insert_definition`, which compile it if the image has its file. After edits of your own, `compile_file` (path and name). See that it works.
4. `run_tests` before you say that it is done. `undo_definition` takes a redefinition back.
5. A result that says `pending` is waiting for the user or still running: `await_call`, never the same call again.

Don't start a Lisp of your own for this program: it would not have the user's state.
"
  "What a project's skill file says to other agents.")

(defconst agent-q-mcp-install--paragraph
  "## The running image

This program runs in a Common Lisp image that the tools of the MCP server agent-q reach. Prefer them
to starting a Lisp: look up with describe_symbol and xref, try code with eval_form, change definitions
with edit_definition, load edits of your own with compile_file, test with run_tests."
  "What a project's AGENTS.md says to other agents.")

(defun agent-q-mcp-install--project-files (root)
  "Return the files of the project at ROOT, as in `agent-q-mcp-install--agents'."
  `((,(expand-file-name ".claude/skills/lisp-image/SKILL.md" root)
     ,(lambda () (erase-buffer) (insert agent-q-mcp-install--skill))
     ,(lambda () (when (equal (buffer-string) agent-q-mcp-install--skill) (erase-buffer))))
    (,(expand-file-name "AGENTS.md" root)
     ,(lambda () (agent-q-mcp-install--put-paragraph))
     ,(lambda () (agent-q-mcp-install--remove-paragraph)))))

(defun agent-q-mcp-install--remove-paragraph ()
  "Remove our paragraph from the current buffer."
  (goto-char (point-min))
  (when (search-forward agent-q-mcp-install--paragraph nil t)
    (let ((start (match-beginning 0)))
      (skip-chars-forward "\n" (min (point-max) (1+ (point))))
      (delete-region start (point))
      (goto-char start)
      (agent-q-mcp-install--close-gap))))

(defun agent-q-mcp-install--put-paragraph ()
  "Put our paragraph at the end of the current buffer."
  (agent-q-mcp-install--remove-paragraph)
  (agent-q-mcp-install--open-gap)
  (insert agent-q-mcp-install--paragraph "\n"))

;;;;; Changing a file

(defun agent-q-mcp-install--text (file)
  "Return the text of FILE, empty if there is none."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (when (file-exists-p file)
        (insert-file-contents file)))
    (buffer-string)))

(defun agent-q-mcp-install--changed (file function)
  "Return the text of FILE after FUNCTION was applied to it."
  (let ((text (agent-q-mcp-install--text file)))
    (with-temp-buffer
      (insert text)
      (let ((agent-q-mcp-install--before (cdr (assoc file (agent-q-mcp-install--remembered)))))
        (funcall function))
      (buffer-string))))

(defun agent-q-mcp-install--agreed-p (file old new)
  "Whether the user agrees to FILE becoming NEW, in place of OLD."
  (let ((before (generate-new-buffer " *agent-q before*"))
        (after (generate-new-buffer " *agent-q after*")))
    (unwind-protect
        (save-window-excursion
          (with-current-buffer before (insert old))
          (with-current-buffer after (insert new))
          (let ((diff (diff-no-select before after "-u" t
                                      (get-buffer-create "*agent-q registration*"))))
            (with-current-buffer diff
              (let ((inhibit-read-only t))
                (goto-char (point-min))
                ;; The names of the buffers that were compared say nothing.
                (when (re-search-forward "^@@" nil t)
                  (delete-region (point-min) (match-beginning 0))
                  (goto-char (point-max))
                  (when (re-search-backward "^Diff finished" nil t)
                    (skip-chars-backward "\n")
                    (delete-region (1+ (point)) (point-max)))
                  (goto-char (point-min)))
                (insert (propertize (format "%s\n" (abbreviate-file-name file)) 'face 'bold)))
              (goto-char (point-min)))
            (pop-to-buffer diff)
            (y-or-n-p (format "Change %s like this? " (abbreviate-file-name file)))))
      (kill-buffer before)
      (kill-buffer after)
      (when (get-buffer "*agent-q registration*")
        (kill-buffer "*agent-q registration*")))))

(defun agent-q-mcp-install--write (file text)
  "Write TEXT to FILE, whole or not at all; without any, the file is removed.
What the file may be read by stays as it is."
  (if (null text)
      (when (file-exists-p file) (delete-file file))
    (let ((target (if (file-exists-p file) (file-truename file) file))
          (coding-system-for-write 'utf-8-unix))
      (make-directory (file-name-directory target) t)
      (let ((new (make-temp-file (concat target ".agent-q"))))
        (write-region text nil new nil 'silent)
        ;; A file that may hold keys stays closed to others.
        (set-file-modes new (or (file-modes target) #o600))
        (rename-file new target t)))))

(defun agent-q-mcp-install--change (file function)
  "Change FILE by FUNCTION if the user agrees.
Return `same', `changed' or `refused'."
  (let* ((agent-q-mcp-install-json-replaced nil)
         (was-there (file-exists-p file))
         (old (agent-q-mcp-install--text file))
         (new (condition-case failure
                  (agent-q-mcp-install--changed file function)
                (error (user-error "%s is left as it is: %s" (abbreviate-file-name file)
                                   (error-message-string failure))))))
    (cond ((or (equal old new) (and (string-blank-p old) (string-blank-p new))) 'same)
          ((not (agent-q-mcp-install--agreed-p file old new)) 'refused)
          ;; Its program may have written it meanwhile.
          ((not (equal old (agent-q-mcp-install--text file)))
           (user-error "%s has changed since; try again" (abbreviate-file-name file)))
          ((string-empty-p new)
           ;; A file that was empty before stays.
           (agent-q-mcp-install--write
            file (alist-get '(:file) (alist-get file (agent-q-mcp-install--remembered) nil nil #'equal)
                            nil nil #'equal))
           'changed)
          (t (when (string-blank-p old)
               (push (cons '(:file) (and was-there old)) agent-q-mcp-install-json-replaced))
             (agent-q-mcp-install--remember file agent-q-mcp-install-json-replaced)
             (agent-q-mcp-install--write file new)
             'changed))))

(defun agent-q-mcp-install--read (prompt)
  "Ask by PROMPT for an agent that is known; return its name, or nil for another."
  (let ((choice (completing-read prompt (append (mapcar #'car (agent-q-mcp-install--agents))
                                                '("another one"))
                                 nil t)))
    (unless (equal choice "another one") choice)))

;;;###autoload
(defun agent-q-mcp-install (agent)
  "Register agent-q with AGENT, such as \"Claude Code\".
With nil, show what other programs need.  Each file is shown as a diff first.
The agent is told not to ask about agent-q's tools, as Emacs asks.  Then
`agent-q-mcp-mode' serves it."
  (interactive (list (agent-q-mcp-install--read "Register agent-q with: ")))
  (unless (file-executable-p (agent-q-mcp-install-program))
    (user-error "%s is not built: %s" (agent-q-mcp-install-program) (agent-q-module-remedy)))
  (if (null agent)
      (agent-q-mcp-install--show-snippet)
    (let ((results (mapcar (lambda (file) (agent-q-mcp-install--change (nth 0 file) (nth 1 file)))
                           (cdr (assoc agent (agent-q-mcp-install--agents))))))
      (agent-q-mcp-install--offer-project)
      (message "%s" (cond ((memq 'refused results) (format "Not all of %s's settings were changed" agent))
                          ((memq 'changed results)
                           (format "%s starts agent-q from its next session on%s" agent
                                   (if agent-q-mcp-mode "" "; M-x agent-q-mcp-mode serves it")))
                          (t (format "agent-q is already registered with %s" agent)))))))

(defun agent-q-mcp-install--offer-project ()
  "Offer to add instructions for other agents to the current project."
  (let ((root (and (agent-q-project-known-p) (agent-q-project-directory))))
    (when (and root (y-or-n-p (format "Also add instructions for agents to %s? "
                                      (abbreviate-file-name root))))
      (pcase-dolist (`(,file ,put ,_) (agent-q-mcp-install--project-files root))
        (agent-q-mcp-install--change file put)))))

(defun agent-q-mcp-install--show-snippet ()
  "Show what programs need that are not known here."
  (agent-q-text-with-page "*agent-q registration*"
    (princ "A server of the kind stdio, which most programs take as JSON:\n\n")
    (princ (agent-q-json-pretty
            `(:mcpServers (,(intern (concat ":" agent-q-mcp-install--name))
                           ,(agent-q-mcp-install--stdio)))))
    (princ (format "\n\nThe command is\n\n    %s\n\nIt takes no arguments.  \
agent-q asks in Emacs about what may do harm, so let the program call its tools unasked.\n"
                   (agent-q-mcp-install-program)))))

(defun agent-q-mcp-install--take-back (file remove)
  "Take our entries out of FILE by REMOVE, if the user agrees.
Return `same', `changed' or `refused'."
  (let ((result (agent-q-mcp-install--change file remove)))
    (when (eq result 'changed)
      (agent-q-mcp-install--forget file))
    result))

;;;###autoload
(defun agent-q-mcp-uninstall ()
  "Remove what `agent-q-mcp-install' wrote from all files where it is.
Each change is shown as a diff first."
  (interactive)
  (let ((results nil)
        (root (and (agent-q-project-known-p) (agent-q-project-directory))))
    (pcase-dolist (`(,file ,_ ,remove)
                   (append (apply #'append (mapcar #'cdr (agent-q-mcp-install--agents)))
                           (and root (agent-q-mcp-install--project-files root))))
      (when (file-exists-p file)
        ;; One that can't be changed is no reason to leave the others.
        (push (condition-case failure
                  (agent-q-mcp-install--take-back file remove)
                (user-error (error-message-string failure)))
              results)))
    (message "%s" (cond ((seq-find #'stringp results))
                        ((memq 'refused results) "Not everything was removed")
                        ((memq 'changed results) "No other agent starts agent-q now")
                        (t "No other agent was registered")))))

(defun agent-q-mcp-install-registered ()
  "Return the names of the agents that agent-q is registered with."
  (mapcar #'car
          (seq-filter
           (pcase-lambda (`(,_ (,file ,put ,_) . ,_))
             (and (file-exists-p file)
                  (ignore-errors
                    (let ((agent-q-mcp-install-json-replaced nil)
                          (text (agent-q-mcp-install--text file)))
                      (equal text (agent-q-mcp-install--changed file put))))))
           (agent-q-mcp-install--agents))))

(defun agent-q-mcp-install-finding ()
  "Return the finding about other agents, or nil when there are none.
It is a list as in agent-q-doctor.el."
  (let* ((registered (agent-q-mcp-install-registered))
         (status (agent-q-mcp-status))
         (names (if registered
                    (concat "registered with " (string-join registered ", "))
                  "registered with none"))
         (clients (length (alist-get 'clients status))))
    (cond ((not (or registered agent-q-mcp-mode)) nil)
          ((not (file-executable-p (agent-q-mcp-install-program)))
           (list 'missing "Other agents" (format "%s, which start a program that is not there" names)
                 (concat "For agent-q-mcp, " (agent-q-module-remedy))))
          ((null status)
           (list 'note "Other agents" (concat names ", but not served")
                 "M-x agent-q-mcp-mode, or (agent-q-mcp-mode 1) in your init file"))
          ((not (alist-get 'reachable status))
           (list 'missing "Other agents" (format "the socket %s is gone"
                                                 (abbreviate-file-name (alist-get 'socket status)))
                 "M-x agent-q-mcp-mode twice makes another one"))
          (t (list 'ok "Other agents"
                   (format "served, %d connected, %s" clients names)
                   (unless registered "M-x agent-q-mcp-install registers agent-q with them"))))))

(provide 'agent-q-mcp-install)
;;; agent-q-mcp-install.el ends here
