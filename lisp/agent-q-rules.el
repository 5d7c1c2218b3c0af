;;; agent-q-rules.el --- The rules for tool calls  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows what you have allowed, denied and want to be asked about, takes it
;; back, adds to it, and says what would happen to a call.  The core keeps the
;; rules; those that last are in a readable file beside its log.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-registry)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'tabulated-list)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar-local agent-q-rules--session nil
  "The session of the chat from which the list was opened, or nil.")

(defvar-local agent-q-rules--project nil
  "The root of the project from which the list was opened, or nil.")

(defvar agent-q-rules-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map "d" #'agent-q-rules-revoke)
    (define-key map "a" #'agent-q-rules-add)
    (define-key map "t" #'agent-q-rules-test)
    (define-key map (kbd "RET") #'agent-q-rules-describe)
    map)
  "Keymap of `agent-q-rules-mode'.")

(define-derived-mode agent-q-rules-mode tabulated-list-mode "agent-q rules"
  "Major mode of the list of rules for tool calls.
Deny beats ask, and ask beats allow.

\\{agent-q-rules-mode-map}"
  (agent-q-text-list-setup
   '((1 "No." 5 agent-q-rules--before) (10 "Effect" 6 t) (9 "Tool" 20 t :most 36) (7 "Scope" 8 t)
     (6 "Also dangerous" 14 t) (10 "Applies to" 0 nil :least 40))
   #'agent-q-rules--entries
   "No rules yet; the level of each tool decides.\n\n\
\\<agent-q-rules-mode-map>\\[agent-q-rules-add] adds one, and so does ! on a request in a chat;
\\[agent-q-rules-test] says what would happen to a call.\n"))

(defun agent-q-rules--before (one other)
  "Whether row ONE has a smaller number than row OTHER."
  (< (car one) (car other)))

;;;###autoload
(defun agent-q-rules ()
  "Show the rules about tools, to add, test or revoke some."
  (interactive)
  (agent-q-registry-ensure)
  (let ((session agent-q-session-number)
        (project (agent-q-project-directory)))
    (pop-to-buffer
     (with-current-buffer (get-buffer-create "*agent-q rules*")
       (agent-q-rules-mode)
       (setq agent-q-rules--session session
             agent-q-rules--project project)
       (agent-q-rules--refresh)
       (current-buffer)))))

(defun agent-q-rules--refresh ()
  "Show the list again."
  (agent-q-text-list-print)
  (let ((trouble (gethash "trouble" (agent-q-rules-all))))
    (setq header-line-format (if (stringp trouble)
                                 (propertize trouble 'face 'agent-q-failure)
                               header-line-format))))

(defun agent-q-rules-all ()
  "Return all about the rules, a hash table.
It has \"rules\", a vector of hash tables, \"file\" and \"trouble\"."
  (agent-q-events-ensure)
  (agent-q-json-parse (agent-q-core-rules)))

(defun agent-q-rules--entries ()
  "Return the rows of the list."
  (mapcar (lambda (rule)
            (list (gethash "id" rule)
                  (vector (gethash "name" rule)
                          (agent-q-text-coloured (gethash "effect" rule))
                          (gethash "tool" rule)
                          (gethash "for" (gethash "scope" rule))
                          (if (eq (gethash "dangerous" rule) t) "yes" "no")
                          (agent-q-rules--applies-to rule))))
          (gethash "rules" (agent-q-rules-all))))

(defun agent-q-rules--applies-to (rule)
  "Return the description of RULE without what the columns before it say."
  (let ((description (gethash "description" rule)))
    (if (string-match "\\`[[:alpha:]]+ [^ ,]+, " description)
        (substring description (match-end 0))
      description)))

(defun agent-q-rules--at-point ()
  "Return the rule at point, a hash table."
  (let ((id (tabulated-list-get-id)))
    (or (and id (seq-find (lambda (rule) (equal (gethash "id" rule) id))
                          (gethash "rules" (agent-q-rules-all))))
        (user-error "No rule on this line"))))

(defun agent-q-rules-revoke ()
  "Revoke the rule at point."
  (interactive nil agent-q-rules-mode)
  (let ((rule (agent-q-rules--at-point)))
    (when (y-or-n-p (format "Revoke \"%s\"? " (gethash "description" rule)))
      (agent-q-core-revoke-rule (gethash "id" rule))
      (agent-q-rules--refresh))))

(defun agent-q-rules-describe ()
  "Show the whole rule at point, as its file has it."
  (interactive nil agent-q-rules-mode)
  (let ((rule (agent-q-rules--at-point)))
    (agent-q-text-with-page "*agent-q rule*"
      (princ (format "%s\n\n%s\n\nPermanent rules are in %s\n"
                     (gethash "description" rule)
                     (agent-q-json-pretty rule)
                     (gethash "file" (agent-q-rules-all)))))))

;;;; Adding

(defun agent-q-rules--read-tool (prompt &optional more)
  "Read the name of a tool, or one of MORE, with PROMPT."
  (completing-read prompt (append (agent-q-list-registered-tools) more)))

(defun agent-q-rules--read-optional (prompt)
  "Read a text with PROMPT; return nil for none."
  (let ((text (read-string prompt)))
    (and (not (string-blank-p text)) text)))

(defun agent-q-rules--read ()
  "Ask for all parts of a rule and return it, a property list."
  (let* ((effect (completing-read "Effect: " '("allow" "ask" "deny") nil t))
         (tool (agent-q-rules--read-tool "Tool or effect (a name, or a glob such as *): "
                                          ;; What code does once it runs.
                                          agent-q-registry-effects))
         (scope (completing-read "Scope: " `(,@(and agent-q-rules--session '("chat"))
                                             ,@(and agent-q-rules--project '("project"))
                                             "always")
                                 nil t))
         (path (agent-q-rules--read-optional "Only for files matching (glob, RET for any): "))
         (argument (agent-q-rules--read-optional "With argument (name, RET for any): "))
         (pattern (and argument
                       (read-regexp (format "Regular expression for %s: " argument))))
         (package (agent-q-rules--read-optional "In package (glob, RET for any): "))
         (connection (agent-q-rules--read-optional "On connection (glob, RET for any): "))
         (client (agent-q-rules--read-optional "From MCP clients that call themselves (glob, RET for any caller): "))
         (dangerous (and (equal effect "allow") (or path argument)
                         (y-or-n-p "Also for dangerous calls? "))))
    `(:effect ,effect :tool ,tool
      :scope ,(pcase scope
                ("chat" `(:for "chat" :which ,agent-q-rules--session))
                ("project" `(:for "project" :which ,agent-q-rules--project))
                (_ '(:for "always")))
      ,@(and path `(:path ,path))
      ,@(and argument `(:arguments [(:name ,argument :pattern (:matches ,pattern))]))
      ,@(and package `(:package ,package))
      ,@(and connection `(:connection ,connection))
      ,@(and client `(:client ,client))
      ,@(and dangerous '(:dangerous t)))))

(defun agent-q-rules-add (rule)
  "Add RULE, a property list as in the file of rules; asks for its parts."
  (interactive (list (agent-q-rules--read)))
  (agent-q-events-ensure)
  (agent-q-core-add-rule (agent-q-json-encode rule) nil)
  (when (derived-mode-p 'agent-q-rules-mode)
    (agent-q-rules--refresh))
  (message "The rule is added"))

;;;; Testing

(defvar agent-q-rules--questions (make-hash-table)
  "Callbacks for the answers that the core is looking for, by question.")

(defun agent-q-rules-ask (tool arguments session function)
  "Find out what would happen to a call of TOOL with ARGUMENTS, and call FUNCTION.
ARGUMENTS is an object as `agent-q-execute-tool-calls' takes them, SESSION the
number of the chat that would make the call, or nil.  FUNCTION gets a hash
table.  The image looks at code for this, but nothing runs."
  (puthash (agent-q-core-explain-call
            (agent-q-json-encode `(:tool ,tool :arguments ,(agent-q-json-object arguments)
                                   :session ,(or session :null))))
           function agent-q-rules--questions))

(defun agent-q-rules-explained (event)
  "Hand the answer in EVENT to whom it is for."
  (let* ((question (plist-get event :question))
         (function (gethash question agent-q-rules--questions)))
    (remhash question agent-q-rules--questions)
    (when function
      (funcall function (agent-q-json-parse (plist-get event :answer))))))

(agent-q-events-subscribe :explained #'agent-q-rules-explained)

(defun agent-q-rules-explain (tool arguments &optional session)
  "Wait for what would happen to a call of TOOL with ARGUMENTS, and return it.
This is `agent-q-rules-ask' for programs; SESSION is as there."
  (let ((answer nil))
    (agent-q-rules-ask tool arguments session (lambda (it) (setq answer it)))
    (while (not answer)
      (accept-process-output nil 0.05))
    answer))

(defun agent-q-rules-test (tool arguments)
  "Show what would happen to a call of TOOL with ARGUMENTS, JSON text."
  (interactive
   (list (agent-q-rules--read-tool "Tool: ")
         (read-string "Arguments (JSON): " "{}")))
  (when (agent-q-registry-effect-p tool)
    (user-error "%s is an effect of code, not a tool; rules decide about it when it happens"
                tool))
  (agent-q-rules-ask tool arguments agent-q-rules--session
                     (lambda (it) (message "%s" (agent-q-rules--explained it)))))

(defun agent-q-rules--explained (it)
  "Return the answer IT as a text."
  (pcase (gethash "outcome" it)
    ("fail" (concat "It would fail: " (gethash "reason" it)))
    (outcome
     (format "%s: %s (%s%s)"
             (pcase outcome
               ("run" "It would run") ("deny" "It would be denied")
               (_ "You would be asked"))
             (gethash "reason" it)
             (gethash "level" it)
             (let ((reason (gethash "assessment" it)))
               (if (string-empty-p reason) "" (concat ": " reason)))))))

(provide 'agent-q-rules)
;;; agent-q-rules.el ends here
