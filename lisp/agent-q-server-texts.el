;;; agent-q-server-texts.el --- Prompts and resources of MCP servers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What MCP servers have for the user: prompts, as "/memo:greet who=Ann", and resources, as
;; "@memo:memo:///today".  A server is started when its lists are first wanted.  What it sends
;; is a stranger's: bounded, shown before it is sent, and marked for the model as the server's.

;;; Code:

(require 'agent-q-attach-kinds)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; The servers of a chat

(defun agent-q-server-texts--called (server)
  "Return what SERVER is called behind / and @.
A mention of another kind has its own name, in which there is no hyphen."
  (let ((group (plist-get server :group)))
    (if (agent-q-attach-kinds-kind-called group) (concat group "-server") group)))

(defun agent-q-server-texts-servers ()
  "Return the servers of this chat, as the core knows them."
  (and (agent-q-events-running-p)
       (seq-filter (lambda (server)
                     (member (plist-get server :project) (list nil agent-q-session-root)))
                   (agent-q-core-tool-servers))))

(defun agent-q-server-texts--server (called)
  "Return the server of this chat that is CALLED so, or nil."
  (seq-find (lambda (server) (equal called (agent-q-server-texts--called server)))
            (agent-q-server-texts-servers)))

;;;; Asking servers

(defvar agent-q-server-texts--questions nil
  "The functions that wait for answers, by the numbers of their questions.")

(defun agent-q-server-texts--ask (name question function)
  "Ask the server NAME QUESTION, an alist, and call FUNCTION with what comes of it.
That is the answer, as of `agent-q-json-alist', and nil or a sentence on what
went wrong."
  (agent-q-events-subscribe :tool-server-answered #'agent-q-server-texts--answered)
  (push (cons (agent-q-core-tool-server-ask name (agent-q-json-serialize question)) function)
        agent-q-server-texts--questions))

(defun agent-q-server-texts--answered (event)
  "Pass on the answer in EVENT."
  (let* ((question (plist-get event :question))
         (function (alist-get question agent-q-server-texts--questions))
         (answer (plist-get event :answer)))
    (when function
      (setf (alist-get question agent-q-server-texts--questions nil t) nil)
      ;; What is done about it may show a window and read keys; a filter must not.
      (run-at-time 0 nil function (and answer (agent-q-json-alist answer t))
                   (plist-get event :problem)))))

(defvar agent-q-server-texts--lists nil
  "What servers have, as far as it is known: lists (NAME WHAT . ANSWER).")

(defun agent-q-server-texts--known (name what)
  "Return (NAME WHAT . ANSWER) if it is known what the server NAME has of WHAT."
  (seq-find (lambda (it) (and (equal name (car it)) (eq what (cadr it))))
            agent-q-server-texts--lists))

(defvar agent-q-server-texts--waiting nil
  "The functions that wait for a list, latest first: ((NAME WHAT) . FUNCTIONS).")

(defun agent-q-server-texts--list (name what function)
  "Call FUNCTION with a list that the server NAME has, and a problem.
WHAT says which one: of prompts or of resources.  FUNCTION is called at once if
the list is known."
  (agent-q-events-subscribe :tool-server #'agent-q-server-texts--changed)
  (let* ((key (list name what)) (known (agent-q-server-texts--known name what))
         (waiting (assoc key agent-q-server-texts--waiting)))
    (cond (known (funcall function (cddr known) nil))
          (waiting (push function (cdr waiting)))
          (t (agent-q-server-texts--ask
              name `((,what . :null))
              (lambda (answer problem)
                (let ((functions (cdr (assoc key agent-q-server-texts--waiting))))
                  (setq agent-q-server-texts--waiting
                        (assoc-delete-all key agent-q-server-texts--waiting))
                  (unless problem
                    (push `(,name ,what . ,answer) agent-q-server-texts--lists))
                  (dolist (function (nreverse functions))
                    (funcall function answer problem)))))
             (push (list key function) agent-q-server-texts--waiting)))))

(defun agent-q-server-texts--changed (event)
  "Forget what the server in EVENT has: it is another now."
  (setq agent-q-server-texts--lists
        (assoc-delete-all (plist-get event :name) agent-q-server-texts--lists)))

(defun agent-q-server-texts--fetch (server name where question function)
  "Ask SERVER QUESTION, and call FUNCTION with its texts and pictures.
That is a list of excerpts called NAME, from WHERE, or a sentence on what is
wrong."
  (let ((where (format "%s of the server %s" where (plist-get server :name)))
        (chat (current-buffer)))
    (agent-q-server-texts--ask
     (plist-get server :name) question
     (lambda (answer problem)
       (when (buffer-live-p chat)
         (with-current-buffer chat
           (funcall function (or problem (agent-q-server-texts--excerpts name where answer)))))))))

(defun agent-q-server-texts--excerpts (name where answer)
  "Return the excerpts NAME from WHERE of ANSWER, or what is wrong with one."
  (let* ((text (alist-get 'text answer))
         (excerpts (append
                    (unless (string-empty-p text)
                      (list (agent-q-attach-kinds-excerpt-make
                             name where text (alist-get 'total answer) nil 'foreign)))
                    (mapcar (lambda (data)
                              (agent-q-attach-kinds-picture data "picture" name where nil 'foreign))
                            (alist-get 'pictures answer)))))
    (cond ((seq-find #'stringp excerpts))
          (excerpts)
          (t "the server returned nothing"))))

;;;; Resources behind @

(defun agent-q-server-texts-kind (called)
  "Return the kind of mentions of resources of the server CALLED so, or nil."
  (and-let* ((server (agent-q-server-texts--server called)))
    (agent-q-attach-kinds-make
     :name called :names (cons 'server server) :argument 'always
     :about (format "a resource of the server %s" (agent-q-text-visible-line (plist-get server :name)))
     :fetch (lambda (uri name done)
              (if (string-match "{[^{}]*}" uri)
                  (funcall done (format "put what you mean in the place of %s" (match-string 0 uri)))
                (agent-q-server-texts--fetch server name (concat "the resource " uri)
                                             `((resource . ((uri . ,(agent-q-text-clean uri)))))
                                             done))))))

(defun agent-q-server-texts-kinds ()
  "Return the kinds of mentions of resources of this chat's servers.
Those that are known to have none are left out."
  (mapcar #'agent-q-server-texts-kind
          (mapcar #'agent-q-server-texts--called
                  (seq-remove
                   (lambda (server)
                     (and-let* ((known (agent-q-server-texts--known (plist-get server :name) 'resources)))
                       (not (or (alist-get 'resources (cddr known)) (alist-get 'templates (cddr known))))))
                   (agent-q-server-texts-servers)))))

(defun agent-q-server-texts-resources (server typed function)
  "Call FUNCTION with the addresses that can be meant by TYPED at SERVER.
They have what is said of them as the property `agent-q-about', and
`agent-q-more' where they are only the beginning of one.  FUNCTION also gets a
sentence on what went wrong, or nil, and may be called at once."
  (agent-q-server-texts--list
   (plist-get server :name) 'resources
   (lambda (answer problem)
     (let ((addresses (append (mapcar (lambda (it)
                                        (propertize (alist-get 'uri it)
                                                    'agent-q-about (alist-get 'about it)))
                                      (alist-get 'resources answer))
                              (delq nil (mapcar #'agent-q-server-texts--beginning
                                                (alist-get 'templates answer)))))
           (hole (and (alist-get 'completes answer)
                      (seq-some (lambda (it) (agent-q-server-texts--hole (alist-get 'uri it) typed))
                                (alist-get 'templates answer)))))
       (if (null hole)
           (funcall function addresses problem)
         (pcase-let ((`(,template ,argument ,value ,before ,after ,others) hole))
           (agent-q-server-texts--complete
            server `((template . ,template)) argument value others
            (lambda (values problem)
              (funcall function
                       (append (mapcar (lambda (it)
                                         (let ((address (concat before it after)))
                                           (if (string-empty-p after) address
                                             (propertize address 'agent-q-more t))))
                                       values)
                               addresses)
                       problem)))))))))

(defun agent-q-server-texts--beginning (template)
  "Return what stands before the first hole of TEMPLATE, or nil if nothing does."
  (let* ((uri (alist-get 'uri template)) (hole (string-search "{" uri)))
    (unless (eq hole 0)
      (propertize (substring uri 0 hole) 'agent-q-more t
                  'agent-q-about (format "%s  %s" uri (alist-get 'about template))))))

(defun agent-q-server-texts--hole (template typed)
  "Return which hole of TEMPLATE the end of TYPED is in, or nil.
The value is a list: TEMPLATE, the name and the value of the hole, what stands
before it and what comes next, and an alist of the holes before."
  (let ((from 0) (at 0) (others nil) (found nil))
    (while (and (not found) (string-match "{\\([A-Za-z0-9_]+\\)}\\([^{]*\\)" template from))
      (let* ((name (match-string 1 template)) (next (match-string 2 template))
             (literal (substring template from (match-beginning 0)))
             (rest (match-beginning 2)))
        (if (not (string-prefix-p literal (substring typed at)))
            (setq found 'none)
          (setq at (+ at (length literal)))
          (let ((stop (and (not (string-empty-p next)) (string-search next typed at))))
            (if stop
                (setq others (cons (cons name (substring typed at stop)) others)
                      at stop from rest)
              (setq found (list template name (substring typed at) (substring typed 0 at)
                                next (nreverse others))))))))
    (and (consp found) found)))

(defun agent-q-server-texts--complete (server of argument value others function)
  "Ask SERVER what ARGUMENT of OF can be, of which VALUE is typed.
OTHERS is an alist of other arguments.  FUNCTION gets the values and a problem."
  (agent-q-server-texts--ask
   (plist-get server :name)
   `((complete . ((of . ,of) (argument . ,argument) (value . ,(agent-q-text-clean value))
                  (others . ,(agent-q-server-texts--object others)))))
   function))

(defun agent-q-server-texts--object (alist)
  "Return ALIST, from strings to strings, as a JSON object."
  (let ((object (agent-q-json-empty-object)))
    (pcase-dolist (`(,name . ,value) alist)
      (puthash name (agent-q-text-clean value) object))
    object))

;;;; Prompts behind /

(defconst agent-q-server-texts--line
  "\\`/\\([A-Za-z0-9_-]+\\):\\(\"[^\"\n]*\"\\|[^ \t\n\"]*\\)"
  "Matches the beginning of a line that uses a prompt: server and prompt.")

(defun agent-q-server-texts-written (called prompt)
  "Return how PROMPT of the server CALLED so is written, without the slash."
  (format (if (string-match-p "[ \t]" prompt) "%s:\"%s\"" "%s:%s") called prompt))

(defun agent-q-server-texts-use (text)
  "Return the prompt that is meant by TEXT, as a list (SERVER NAME REST).
Return nil when none is, and signal an error when there is no such server."
  (when (string-match agent-q-server-texts--line text)
    (let* ((called (match-string 1 text)) (written (match-string 2 text))
           (rest (string-trim (substring text (match-end 0))))
           (name (string-trim written "\"" "\""))
           (servers (agent-q-server-texts-servers))
           (server (agent-q-server-texts--server called)))
      (cond ((null servers) nil)
            ((null server)
             (user-error "No server is called %s; there are: %s" called
                         (mapconcat #'agent-q-server-texts--called servers ", ")))
            (t (list server name rest))))))

(defun agent-q-server-texts-name-end (text)
  "Return where the name of the prompt in TEXT ends, or 0."
  (if (string-match agent-q-server-texts--line text) (match-end 0) 0))

(defun agent-q-server-texts-names (&optional servers)
  "Return what can be typed after / of SERVERS, or of this chat's.
The value is an alist of names and notes.  A server whose prompts are not known
yet stands there as \"memo:\", where it is not asked for."
  (seq-mapcat
   (lambda (server)
     (let ((called (agent-q-server-texts--called server))
           (known (agent-q-server-texts--known (plist-get server :name) 'prompts)))
       (if (null known)
           (unless servers
             ;; One that runs is asked, so that they are there the next time.
             (when (equal (plist-get server :state) "running")
               (agent-q-server-texts-prompts server #'ignore))
             (list (cons (concat called ":") "server     its prompts")))
         (mapcar (lambda (prompt)
                   (cons (agent-q-server-texts-written called (alist-get 'name prompt))
                         (concat "server     " (alist-get 'about prompt))))
                 (cddr known)))))
   (or servers (agent-q-server-texts-servers))))

(defun agent-q-server-texts-prompts (server function)
  "Call FUNCTION with the prompt texts of SERVER, or nil and a problem."
  (agent-q-server-texts--list (plist-get server :name) 'prompts function))

(defun agent-q-server-texts-prompt (name offered)
  "Return the prompt that is called NAME among those OFFERED, or nil."
  (seq-find (lambda (prompt) (equal name (alist-get 'name prompt))) offered))

;;;;; Arguments

(defconst agent-q-server-texts--word
  "\\(\"\\(?:[^\"\\]\\|\\\\.\\)*\"\\|[^ \t\n\"=]+\\)"
  "Matches a name or a value: one group.")

(defun agent-q-server-texts--plain (word)
  "Return WORD without the quotes around it."
  (if (string-prefix-p "\"" word)
      (replace-regexp-in-string "\\\\\\([\"\\]\\)" "\\1" (substring word 1 -1) t)
    word))

(defun agent-q-server-texts--quoted (word)
  "Return WORD, in quotes if it needs any."
  (if (string-match-p (concat "\\`" agent-q-server-texts--word "\\'") word)
      (if (string-prefix-p "\"" word) (agent-q-server-texts--in-quotes word) word)
    (agent-q-server-texts--in-quotes word)))

(defun agent-q-server-texts--in-quotes (word)
  "Return WORD in quotes."
  (concat "\"" (replace-regexp-in-string "[\"\\]" "\\\\\\&" word) "\""))

(defun agent-q-server-texts--arguments (prompt)
  "Return the arguments of PROMPT, those that are required first."
  (let ((arguments (alist-get 'arguments prompt)))
    (append (seq-filter (lambda (it) (alist-get 'required it)) arguments)
            (seq-remove (lambda (it) (alist-get 'required it)) arguments))))

(defun agent-q-server-texts-values (prompt text)
  "Return the values of arguments of PROMPT in TEXT, an alist.
TEXT has some as name=value; what comes then is the first of the others."
  (let* ((arguments (mapcar (lambda (it) (alist-get 'name it))
                            (agent-q-server-texts--arguments prompt)))
         (values nil)
         (pair (concat "\\`" agent-q-server-texts--word "=\\("
                       "\"\\(?:[^\"\\]\\|\\\\.\\)*\"\\|[^ \t\n]*\\)[ \t\n]*")))
    (while (and (string-match pair text)
                (member (agent-q-server-texts--plain (match-string 1 text)) arguments))
      (let ((name (match-string 1 text)) (value (match-string 2 text)) (end (match-end 0)))
        (push (cons (agent-q-server-texts--plain name) (agent-q-server-texts--plain value)) values)
        (setq text (substring text end))))
    (unless (string-blank-p text)
      (let ((next (seq-find (lambda (name) (not (assoc name values))) arguments)))
        (unless next
          (user-error "%s takes %s; this is more: %s" (alist-get 'name prompt)
                      (if arguments (string-join arguments ", ") "no arguments") text))
        (push (cons next (agent-q-server-texts--plain text)) values)))
    (nreverse values)))

(defun agent-q-server-texts-missing (prompt values)
  "Return the arguments of PROMPT to ask for: those that VALUES lack.
Without any values, these are all, and else only those that are required."
  (seq-filter (lambda (it)
                (and (not (assoc (alist-get 'name it) values))
                     (or (null values) (alist-get 'required it))))
              (agent-q-server-texts--arguments prompt)))

(defun agent-q-server-texts-read (prompt arguments)
  "Ask the user for ARGUMENTS of PROMPT, and return their values, an alist."
  (delq nil
        (mapcar
         (lambda (argument)
           (let* ((name (alist-get 'name argument)) (required (alist-get 'required argument))
                  (about (alist-get 'about argument))
                  (value (read-string (format "%s, %s%s%s: " (alist-get 'name prompt) name
                                              (if (string-empty-p about) "" (format " (%s)" about))
                                              (if required "" ", or nothing")))))
             (cond ((not (string-blank-p value)) (cons name value))
                   (required (user-error "%s needs %s" (alist-get 'name prompt) name)))))
         arguments)))

(defun agent-q-server-texts-typed (server prompt values)
  "Return how PROMPT of SERVER with VALUES is typed."
  (concat "/" (agent-q-server-texts-written (agent-q-server-texts--called server)
                                            (alist-get 'name prompt))
          (mapconcat (pcase-lambda (`(,name . ,value))
                       (format " %s=%s" (agent-q-server-texts--quoted name)
                               (agent-q-server-texts--quoted value)))
                     values "")))

(defun agent-q-server-texts-complete-argument (server prompt argument value others function)
  "Ask SERVER what ARGUMENT of PROMPT can be, of which VALUE is typed.
OTHERS is an alist of other arguments.  FUNCTION gets the values and a problem."
  (agent-q-server-texts--complete server `((prompt . ,(alist-get 'name prompt)))
                                  argument value others function))

;;;;; What a prompt says

(defun agent-q-server-texts-get (server prompt values function)
  "Call FUNCTION with the text of PROMPT of SERVER for VALUES.
That is a list of excerpts, or a sentence on what is wrong."
  (let ((name (alist-get 'name prompt)))
    (agent-q-server-texts--fetch
     server (concat "/" (agent-q-server-texts-written (agent-q-server-texts--called server) name))
     (concat "the prompt " name)
     `((prompt . ((name . ,name) (arguments . ,(agent-q-server-texts--object values)))))
     function)))

(defun agent-q-server-texts-how (server)
  "Return what the model is told of a prompt of SERVER that the user sends."
  (format "(The attached prompt was written by the server %s.  The user has read it, and wants what it asks for.)"
          (agent-q-text-visible-line (plist-get server :name))))

(defconst agent-q-server-texts--page "*agent-q prompt*"
  "The name of the buffer that shows a prompt before it is sent.")

(defun agent-q-server-texts-show (server prompt excerpts)
  "Show EXCERPTS, the text of PROMPT of SERVER, before they are sent."
  (let ((help-window-select nil))
    (with-help-window agent-q-server-texts--page
      (princ (format "The server %s, a program of others, says for its prompt %s:\n\n"
                     (agent-q-text-visible-line (plist-get server :name))
                     (agent-q-text-visible-line (alist-get 'name prompt))))
      (dolist (excerpt excerpts)
        (princ (agent-q-text-visible (agent-q-attach-kinds-excerpt-text excerpt)))
        (princ "\n\n"))
      (princ "RET in the chat sends this, marked as the server's, and the model is told that you
want what it asks for.  Change what you typed to get another, or send something else.\n"))))

(defun agent-q-server-texts-hide ()
  "Close the window in which a prompt is seen."
  (when (get-buffer agent-q-server-texts--page)
    (quit-windows-on agent-q-server-texts--page)))

(provide 'agent-q-server-texts)
;;; agent-q-server-texts.el ends here
