;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Tools that a running program offers to the agent. This file is also part of the system
;;; agent-q-image, so a program can define tools without Emacs and without the rest of this package.
;;; Operation: list-tools.

(cl:in-package "AGENT-Q-IMAGE")

;; A program has these only after Emacs has sent the rest.
(declaim (ftype function captured-text guarded printed json-text tool-schema result-text parse-json))

(defstruct (tool (:copier nil))
  name description parameters required safety-level categories handler)

(defvar *tools* '()
  "The tools that the program offers, in order of definition.")

(defparameter *tools-changed* "agent-q: the program offers other tools now"
  "The message to Emacs when that happens. Clients pass on only messages that they know; this is a
plain one, which agent-q in Emacs doesn't show.")

(defvar *tool-listeners* '()
  "Connections whose Emacs wants to know when tools change: lists of client and connection.")

;;; Defining

(defun invalid-tool (control &rest arguments)
  (error "~?" control arguments))

(defun snake-case-p (name)
  (and (stringp name)
       (plusp (length name))
       (char<= #\a (char name 0) #\z)
       (every (lambda (it) (or (char<= #\a it #\z) (digit-char-p it) (char= it #\_))) name)))

(defun check-parameters (name parameters required)
  (loop for parameter in parameters
        for parameter-name = (and (consp parameter) (getf parameter :name))
        do (unless (and (stringp parameter-name) (plusp (length parameter-name)))
             (invalid-tool "The tool ~A: a parameter is a list such as ~
                            (:name \"x\" :type :string :description \"...\"), not ~S."
                           name parameter))
           (unless (member (getf parameter :type)
                           '(:string :boolean :number :integer :object :array))
             (invalid-tool "The tool ~A, parameter ~A: unknown type ~S: expected :string, :boolean, ~
                            :number, :integer, :object or :array."
                           name parameter-name (getf parameter :type)))
        collect parameter-name into names
        finally (let ((stray (set-difference required names :test #'equal)))
                  (when stray
                    (invalid-tool "The tool ~A: the required parameter ~A is not among the ~
                                   parameters."
                                  name (first stray))))))

(defun define-tool (name description parameters &key required safety-level categories handler)
  "Offer HANDLER to the agent as the tool NAME, in snake_case, replacing any tool of that name.
DESCRIPTION tells the model when to use it. PARAMETERS is a list of property lists, such as (:name
\"x\" :type :string :description \"...\"), with :enum, :default, :minimum, :maximum and, for arrays,
:items where they help; REQUIRED lists the names of the parameters that each call must give.
SAFETY-LEVEL is :safe, :cautious (logged, then run) or :dangerous (the user is asked; the default).
CATEGORIES is a list of keywords.
HANDLER is called, in a thread of its own, with a hash table from names to values; JSON arrays
become lists, false and null become NIL. Its first value is the result; its second value, if not
NIL, says what went wrong. Conditions that it signals are caught and reported."
  (unless (snake-case-p name)
    (invalid-tool "The tool name ~S is not in snake_case: lower-case letters, digits and ~
                   underscores, a letter first."
                  name))
  (unless (and (stringp description) (string/= "" (string-trim " " description)))
    (invalid-tool "The tool ~A has no description; models choose tools by their descriptions." name))
  (unless (member safety-level '(nil :safe :cautious :moderate :dangerous))
    (invalid-tool "Unknown safety level ~S: expected :safe, :cautious or :dangerous." safety-level))
  (unless (or (functionp handler) (and handler (symbolp handler)))
    (invalid-tool "The handler of the tool ~A is not a function: ~S" name handler))
  (check-parameters name parameters required)
  (let* ((tool (make-tool :name name :description description :parameters parameters
                          :required required :safety-level safety-level :categories categories
                          :handler handler))
         (old (find-tool name)))
    (setf *tools* (if old
                      (substitute tool old *tools*)
                      (append *tools* (list tool))))
    (announce-tools)
    tool))

(defun find-tool (name)
  (find name *tools* :key #'tool-name :test #'equal))

(defun remove-tool (name)
  "Stop offering the tool NAME; returns whether it existed."
  (let ((tool (find-tool name)))
    (when tool
      (setf *tools* (remove tool *tools*))
      (announce-tools)
      t)))

;;; Telling Emacs

(defun client-symbol (client name)
  (let ((package (find-package (if (eq client :slynk) "SLYNK" "SWANK"))))
    (and package (find-symbol name package))))

(defun announce-tools ()
  "Tell every Emacs that has asked for the tools that they have changed."
  (loop for (client connection) in *tool-listeners*
        do (handler-case
               (progv (list (client-symbol client "*EMACS-CONNECTION*")) (list connection)
                 (funcall (client-symbol client "BACKGROUND-MESSAGE") "~A" *tools-changed*))
             ;; A closed connection can't be told.
             (serious-condition ()
               (setf *tool-listeners*
                     (remove connection *tool-listeners* :key #'second))))))

(defun listen-for-tools ()
  (let* ((symbol (client-symbol *client* "*EMACS-CONNECTION*"))
         (connection (and symbol (boundp symbol) (symbol-value symbol))))
    (when connection
      (pushnew (list *client* connection) *tool-listeners* :test #'equal))))

;;; Operations

(defun tool-entry (tool)
  (list :name (tool-name tool)
        :description (tool-description tool)
        :level (and (tool-safety-level tool)
                    (string-downcase (symbol-name (tool-safety-level tool))))
        :categories (mapcar (lambda (it) (string-downcase (string it))) (tool-categories tool))
        :schema (json-text (tool-schema tool))))

(define-operation "list-tools" ()
  ;; The tools that the program offers. From now on this Emacs is told when they change.
  (listen-for-tools)
  (list :tools (mapcar #'tool-entry *tools*)))
