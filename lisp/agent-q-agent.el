;;; agent-q-agent.el --- Chats that follow an agent's file  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A gram file gives a chat its instruction, its model and its tools.  The
;; tools are specifications only; the core binds them to a library of
;; `agent-q-tool-libraries' when a turn starts, to several in turn.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-registry)
(require 'agent-q-specifications)
(require 'agent-q-tools)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(cl-defstruct (agent-q-agent-choice (:constructor agent-q-agent-make-choice)
                                    (:copier nil))
  "What a chat follows: AGENT, and the names of the LIBRARIES used in turn."
  agent libraries)

(defvar-local agent-q-agent-current nil
  "The agent that the current chat follows, or nil.")

(defvar agent-q-agent--sent nil
  "The libraries that the core has, lists of a name, the library and its tools.
A running turn may still call the tools of one that was replaced since.")

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

(defun agent-q-agent-library (name)
  "Return the library NAME, or signal `agent-q-error' when there is none."
  (let ((library (cdr (assoc name agent-q-tool-libraries))))
    (unless (agent-q-tool-library-p library)
      (signal 'agent-q-error
              (list (format "No tool library is named %s; `agent-q-tool-libraries' lists them"
                            name))))
    library))

(defun agent-q-agent--send-library (name)
  "Give the core the library NAME as it is now."
  (let ((library (agent-q-agent-library name)))
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
