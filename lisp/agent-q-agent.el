;;; agent-q-agent.el --- Chats that follow an agent's file  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A gram file gives a chat its instruction, its model and its tools.  The
;; tools are specifications only; the core binds them to a library of
;; `agent-q-tool-libraries' when a turn starts, to several in turn.

;;; Code:

(require 'agent-q-registry)
(require 'agent-q-specifications)

(declare-function agent-q-core-set-library "ext:agent-q-core" (name tools))
(declare-function agent-q-chat-use-provider "agent-q-chat" (provider))
(declare-function agent-q-chat--choose-provider "agent-q-chat" ())
(declare-function agent-q-provider-again "agent-q-provider" (public))
(declare-function agent-q-provider-label "agent-q-provider" (provider))
(declare-function agent-q-provider-named "agent-q-provider" (name model))

(defvar agent-q-chat--provider)

(cl-defstruct (agent-q-agent-choice (:constructor agent-q-agent--make-choice)
                                    (:copier nil))
  "What a chat follows: AGENT, and the names of the LIBRARIES used in turn."
  agent libraries)

(defvar-local agent-q-agent-current nil
  "What the current chat follows, or nil.")

(defvar-local agent-q-agent--model nil
  "What the agent of the current chat did to its model, (BEFORE . SINCE), or nil.
Both are providers without their secrets; nil is no model.")

(defvar agent-q-agent--sent nil
  "The libraries that the core has, lists of a name, the library and its tools.
A running turn may still call the tools of one that was replaced since.")

;;;###autoload
(defun agent-q-chat-use-agent (file &optional libraries)
  "Make the current chat follow the agent in FILE, a gram file.
The agent's instruction, model and tools count from the next message on.
LIBRARIES are the names of the tool libraries that its tools are bound to,
used in turn; with one the chat stays with it.  Interactively, choose them
among those of `agent-q-tool-libraries'.  When FILE is nil or empty, the chat
follows no agent any more, and has the model that it had before."
  (interactive
   (let ((file (read-file-name "Agent (nothing for none): " nil "" t)))
     (list file
           (and (not (string-empty-p file))
                (agent-q-agent--read-libraries)))))
  (unless (derived-mode-p 'agent-q-chat-mode)
    (user-error "Not in a chat; M-x agent-q-chat opens one"))
  (if (member file '(nil ""))
      (progn (setq agent-q-agent-current nil)
             (message "This chat follows no agent%s"
                      (if (agent-q-agent--restore-model)
                          (format "; it talks to %s again"
                                  (agent-q-provider-label agent-q-chat--provider))
                        "")))
    (agent-q-agent--use (agent-q-agent--read file) libraries)))

(defun agent-q-agent--read (file)
  "Return the agent in FILE."
  (agent-q-agent-from-gram
   (with-temp-buffer
     (let ((coding-system-for-read 'utf-8))
       (insert-file-contents file))
     (buffer-string))))

(defun agent-q-agent--read-libraries ()
  "Ask for the names of tool libraries, if there is a choice."
  (let ((names (mapcar #'car agent-q-tool-libraries)))
    (if (cdr names)
        (completing-read-multiple "Libraries, used in turn: " names nil t)
      names)))

(defun agent-q-agent--use (agent libraries)
  "Have the current chat follow AGENT with the LIBRARIES of these names."
  (let ((unknown (seq-remove (lambda (name) (assoc name agent-q-tool-libraries))
                             libraries)))
    (when unknown
      (user-error "No tool library is called %s; `agent-q-tool-libraries' names them"
                  (car unknown))))
  (when (and (agent-q-agent-tools agent) (null libraries))
    (user-error "The agent %s has tools, but `agent-q-tool-libraries' has no library for them"
                (agent-q-agent-name agent)))
  (dolist (name libraries)
    (agent-q-agent--check agent name))
  (setq agent-q-agent-current
        (agent-q-agent--make-choice :agent agent :libraries libraries))
  (let ((problem (agent-q-agent--use-model agent)))
    (message "This chat follows the agent %s%s" (agent-q-agent-name agent)
             (if problem (concat "; " problem) ""))))

(defun agent-q-agent--check (agent name)
  "Signal a `user-error' unless the library NAME has all tools of AGENT."
  (dolist (specification (agent-q-agent-tools agent))
    (let ((problem (agent-q-bind-tool-explain specification
                                              (agent-q-agent--library name))))
      (when problem
        (user-error "The library %s does not fit the agent: %s" name problem)))))

(defun agent-q-agent--use-model (agent)
  "Make the current chat use the model of AGENT.
Return nil, or why it keeps the one that it has."
  (let* ((model (agent-q-agent-model agent))
         (provider (agent-q-provider-named (plist-get model :provider)
                                           (plist-get model :id))))
    (if provider
        (let ((before (if (agent-q-agent--model-p) (car agent-q-agent--model)
                        agent-q-chat--provider)))
          (agent-q-chat-use-provider provider)
          (setq agent-q-agent--model (cons before agent-q-chat--provider))
          nil)
      (agent-q-agent--restore-model)
      (format "`agent-q-providers' has no key or no host for %s, so it keeps its model"
              (plist-get model :provider)))))

(defun agent-q-agent--model-p ()
  "Whether the current chat talks to the model that its agent brought."
  (and agent-q-agent--model
       (eq (cdr agent-q-agent--model) agent-q-chat--provider)))

(defun agent-q-agent--restore-model ()
  "Make the current chat use the model that it had before its agent.
One that the user chose since then stays.  Return non-nil if it does again."
  (let ((brought (agent-q-agent--model-p))
        (before (car agent-q-agent--model)))
    (setq agent-q-agent--model nil)
    (cond ((not brought) nil)
          (before (agent-q-chat-use-provider (agent-q-provider-again before))
                  t)
          ;; It had none, or was still looking for one.
          (t (agent-q-chat--choose-provider)
             nil))))

;;;; What it offers

(defun agent-q-agent-offered ()
  "Return the tools of the current chat's agent, as (TOOL LIBRARY) each.
TOOL is the one that the library of that name has for a specification of the
agent.  Without an agent the value is nil, and so it is for one without tools."
  (when agent-q-agent-current
    (let ((agent (agent-q-agent-choice-agent agent-q-agent-current)))
      (seq-mapcat
       (lambda (name)
         (let ((library (cdr (assoc name agent-q-tool-libraries))))
           (and (agent-q-tool-library-p library)
                (delq nil (mapcar (lambda (specification)
                                    (let ((tool (agent-q-bind-tool specification library)))
                                      (and tool (list tool name))))
                                  (agent-q-agent-tools agent))))))
       (agent-q-agent-choice-libraries agent-q-agent-current)))))

;;;; The core

(defun agent-q-agent-settings ()
  "Return the settings of the current chat that concern agents, as an alist."
  (list (cons 'agent (if agent-q-agent-current
                         (agent-q-agent--json agent-q-agent-current)
                       :null))))

(defun agent-q-agent--json (choice)
  "Return CHOICE as the core takes it; give the core its libraries as well."
  (let ((agent (agent-q-agent-choice-agent choice))
        (libraries (agent-q-agent-choice-libraries choice)))
    (mapc #'agent-q-agent--send-library libraries)
    (agent-q-json-value
     `(:name ,(agent-q-agent-name agent)
       :instruction ,(agent-q-agent-instruction agent)
       :specifications ,(vconcat (mapcar #'agent-q-specifications-value
                                         (agent-q-agent-tools agent)))
       :libraries ,(vconcat libraries)))))

(defun agent-q-agent--library (name)
  "Return the library NAME, or signal `agent-q-error' when there is none."
  (let ((library (cdr (assoc name agent-q-tool-libraries))))
    (unless (agent-q-tool-library-p library)
      (signal 'agent-q-error
              (list (format "There is no tool library named %s; `agent-q-tool-libraries' names them"
                            name))))
    library))

(defun agent-q-agent--send-library (name)
  "Have the core know the library NAME as it is now."
  (let ((library (agent-q-agent--library name)))
    (unless (eq library (cadr (assoc name agent-q-agent--sent)))
      (let ((tools (mapcar (lambda (tool) (agent-q-agent--library-tool tool name))
                           (agent-q-library-tools library))))
        (agent-q-core-set-library
         name (agent-q-json-encode (vconcat (mapcar #'agent-q-agent--tool-json tools))))
        (push (cons name (cons library tools)) agent-q-agent--sent)))))

(defun agent-q-agent--library-tool (tool name)
  "Return a copy of TOOL as the one of the library NAME.
The same tool may be in several libraries, and in the registry too."
  (let ((copy (copy-sequence tool)))
    (setf (agent-q-tool-origin copy) (list 'library name)
          (agent-q-tool-number copy) nil)
    copy))

(defun agent-q-agent--tool-json (tool)
  "Return TOOL as the core takes the tools of libraries."
  `(:name ,(agent-q-tool-name tool)
    :description ,(agent-q-tool-description tool)
    :schema ,(agent-q-tool-schema tool)
    :handler ,(agent-q-registry-number tool)
    :level ,(agent-q-tools-level-name (agent-q-tool-own-level tool))))

(provide 'agent-q-agent)
;;; agent-q-agent.el ends here
