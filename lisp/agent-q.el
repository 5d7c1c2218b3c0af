;;; agent-q.el --- An LLM agent for Common Lisp programmers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later
;; Author: The maintainers of agent-q
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: lisp, tools

;;; Commentary:

;; The options of the whole package.  Commands are loaded when they are first used:
;; agent-q-module.el knows where they are.

;;; Code:

(require 'agent-q-module)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defgroup agent-q nil
  "An LLM agent for a running Common Lisp."
  :group 'tools
  :prefix "agent-q-")

;;;; What the model reads and may do

;;;###autoload (put 'agent-q-instructions 'risky-local-variable t)
(defcustom agent-q-instructions ""
  "Your own text, added to the system prompt of every chat.
\\[agent-q-show-system-prompt] shows the whole prompt."
  :type 'string
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-max-iterations 50
  "How many requests a turn may send to the model before the chat asks.
The turn then waits until you continue or stop it."
  :type 'natnum
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-max-turn-tokens nil
  "How many tokens a turn may use before the chat asks whether to continue.
Those sent with each of its requests and those received count.  nil means no
limit."
  :type '(choice (natnum :tag "Tokens") (const :tag "No limit" nil))
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-max-turn-cost nil
  "How many US dollars a turn may cost before the chat asks whether to continue.
Costs come from the known prices of the model; with a model whose price is
unknown nothing is counted, and the chat says so.  nil means no limit."
  :type '(choice (number :tag "Dollars") (const :tag "No limit" nil))
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-skills-directory (locate-user-emacs-file "agent-q/skills")
  "Directory of your skills: folders with a file SKILL.md each.
Those of a project are in .agent-q/skills, .claude/skills or .agents/skills.
The agent is told their names and descriptions, and reads the file when it
needs one; of a file outside of the project it asks first, unless a rule
allows it.  nil means that you have none."
  :type '(choice directory (const :tag "None" nil))
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-context-window nil
  "How many tokens the model can take with a request.
nil means what is known of the model.  Where nothing is, the chat finds out
when the host refuses a conversation as too long."
  :type '(choice (natnum :tag "Tokens") (const :tag "What is known of the model" nil))
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-compact-at 0.8
  "Share of the model's window at which a conversation is made shorter for it.
Old results of tools are trimmed first; then the model writes a summary of
the older part, which \\[agent-q-undo-compact] undoes.  nil means only when
the host refuses the conversation as too long."
  :type '(choice (float :tag "Share") (const :tag "When the host refuses it" nil))
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-max-turn-seconds nil
  "How many seconds a turn may work before the chat asks whether to continue.
The time in which a call waits for your answer doesn't count.  nil means no
limit."
  :type '(choice (natnum :tag "Seconds") (const :tag "No limit" nil))
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-research-model 'risky-local-variable t)
(defcustom agent-q-research-model nil
  "The model of the tool research, which looks into questions of a chat's model.
nil means the chat's model, a string another model of its host.  A list of a
host of `agent-q-providers' and a model sends there what of your project the
research reads."
  :type '(choice (const :tag "The chat's model" nil)
                 (string :tag "Another model of the chat's host")
                 (list :tag "A model of another host" (symbol :tag "Host") (string :tag "Model")))
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-tool-choice 'risky-local-variable t)
(defcustom agent-q-tool-choice 'auto
  "Whether the model must use tools.
`auto' leaves it to the model, `required' makes it call some tool,
`none' forbids it, and a string names the one tool that it must call."
  :type '(choice (const :tag "The model decides" auto)
                 (const :tag "Some tool" required)
                 (const :tag "No tool" none)
                 (string :tag "This tool"))
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-offered-tools 'risky-local-variable t)
(defcustom agent-q-offered-tools nil
  "Tools that a chat offers to the model.
nil means the usual ones, about 25 built-in tools and all that you or a
program defined; by more_tools and call_tool the model finds and calls
others when it needs them.  `all' means every tool.  Otherwise a list of
tools by name, such as \"describe_symbol\", and of categories by keyword, such
as `:introspection'.  An element
\(:max-safety-level LEVEL) leaves out what is above LEVEL, `:safe' or
`:cautious'.  `none' means no tool.  \\[agent-q-list-tools] chooses tools
for one chat.
A tool that is not among the usual ones can still be called, and asks as
usual; one that a choice of yours leaves out can't."
  :type '(choice (const :tag "The usual ones" nil)
                 (const :tag "All" all)
                 (const :tag "None" none)
                 (repeat (choice (string :tag "Tool")
                                 (symbol :tag "Category, a keyword")
                                 (list :tag "Nothing above a level"
                                       (const :max-safety-level)
                                       (choice (const :safe) (const :cautious))))))
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-verify-changes 'safe-local-variable #'booleanp)
(defcustom agent-q-verify-changes t
  "Whether what a turn changed in files is to be verified from scratch.
The model is told to call verify_system once it is done: that loads the system
from its files in a fresh Lisp and runs its tests there, after asking you.  A
turn that changed files has [Verify] below it, too."
  :type 'boolean
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-eval-timeout 30
  "Seconds that a form may run in the Lisp image before it is stopped."
  :type 'natnum
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-handler-timeout 120
  "Seconds that the handler of a tool may take, or nil for no limit.
This is for tools written in Emacs Lisp.  After that their call fails; what
the handler returns later is not used.  A handler that keeps Emacs busy is
not interrupted: \\[keyboard-quit] stops it."
  :type '(choice (number :tag "Seconds") (const :tag "No limit" nil)))

;;;###autoload (put 'agent-q-eval-policy 'risky-local-variable t)
(defcustom agent-q-eval-policy 'ask-if-risky
  "Whether to ask before code runs in the Lisp image.
`ask-if-risky' makes the image check the code first, and asks when it
reaches beyond the program: runs other programs, writes files, uses
the network or Emacs, quits, redefines what is not the program's, or
can't be checked.  This is a guard rail against accidents, not a
sandbox: code that means to get around it can.
`ask-always' asks about all code, `never-ask' about none, and
`read-only' refuses to run any.  That goes for code which runs on the way
as well: macros are not expanded then, no matter whose, no function is
traced, and no definition is restored.  What runs is in the audit log."
  :type '(choice (const :tag "Ask when code reaches beyond the program" ask-if-risky)
                 (const :tag "Always ask" ask-always)
                 (const :tag "Never ask" never-ask)
                 (const :tag "Run no code" read-only))
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-compile-after-edit t
  "Whether definitions that the agent edits are compiled at once.
That is done only where the Lisp image has the file, or its system, and the
code needs no question of its own.  The agent is told what the compiler
warns of, and which other code still has an old macro, constant or the like."
  :type 'boolean
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-echo-evaluations 'ask
  "Whether your REPL shows what the agent evaluates and compiles.
Each form and its values then appear there as comments, above the prompt
and marked as agent-q's; what you type stays as it is.  With `ask', a chat
offers it once, after the first evaluation, and your answer is saved."
  :type '(choice (const :tag "Offer it once" ask)
                 (const :tag "Show it" t)
                 (const :tag "Don't" nil))
  :package-version '(agent-q-module . "0.1.0"))

;;;; What you are asked

;;;###autoload (put 'agent-q-review-edits 'risky-local-variable t)
(defcustom agent-q-review-edits nil
  "Whether to review every change of a file as a diff.
When nil, only changes that the model proposes for review are."
  :type 'boolean
  :risky t
  :package-version '(agent-q-module . "0.1.0"))

;;;; How the chat behaves

(defcustom agent-q-history-max 100
  "Number of your messages that a chat keeps for recalling and sending again."
  :type 'natnum
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-fold-results t
  "Whether a tool call is shown as one line until you unfold it.
When nil, a call is unfolded as soon as its result arrives."
  :type 'boolean
  :package-version '(agent-q-module . "0.1.0"))

(defvar agent-q-record-max 200
  "Has no effect.")
(make-obsolete-variable 'agent-q-record-max "it has no effect." "0.1.0")

;;;###autoload (put 'agent-q-log-file 'risky-local-variable t)
(defcustom agent-q-log-file (locate-user-emacs-file "agent-q/core.log")
  "File that the core writes its log to.
The audit log and your rules are beside it.  If that folder can't be
written, this log is among the temporary files, and tools that change
anything don't run, as they could leave no trace in the audit log."
  :type 'file
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-log-level 'info
  "How much the core writes to `agent-q-log-file'.
With `debug' or `trace', each request and each call has lines of its own."
  :type '(choice (const off) (const error) (const warn) (const info) (const debug) (const trace))
  :set (lambda (option value)
         (set-default option value)
         (agent-q-set-log-level))
  :initialize #'custom-initialize-default
  :package-version '(agent-q-module . "0.1.0"))

(defun agent-q-set-log-level ()
  "Send `agent-q-log-level' to the core, if it is loaded."
  (when (fboundp 'agent-q-core-log-level)
    (agent-q-core-log-level (symbol-name agent-q-log-level))))

(provide 'agent-q)
;;; agent-q.el ends here
