;;; agent-q-specifications.el --- Tool specifications, libraries and agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tools that are only specified, in gram or JSON, libraries that bind them to tools that
;; run, and chats that follow an agent's file.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-registry)
(require 'agent-q-tool)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Tool specifications and libraries

;; What the gram contract calls for: specifications, which can be written
;; down, apart from the tools of libraries, which can run, and the binding of
;; one to the other.  The core reads gram; it need not be started for that.

;;;;; Type signatures

;;;###autoload
(defun agent-q-parse-type-signature (text)
  "Return the parts of the type signature TEXT: (:parameters (…) :return TYPE).
Each parameter is a property list with :name, :type and :optional, and
:default, :description, :enum, :minimum, :maximum, :fields (of an object) and
:element (of an array) where it has them.  Signal `agent-q-gram-error' with a
sentence, the line, the column and what was expected there.

Types have the names that the author wrote, although `String' is another
name of `Text', `Integer' of `Int', `Number' of `Double' and `Boolean' of
`Bool'."
  (setq text (agent-q-json-expect-text text "A type signature"))
  (agent-q-module-ensure)
  (let* ((json (agent-q-json-parse (agent-q-core-parse-type-signature text))))
    (list :parameters (mapcar #'agent-q-specifications--parameter
                              (gethash "parameters" json))
          :return (gethash "return" json))))

(defun agent-q-specifications--parameter (json)
  "Return the parameter, field or element JSON, a hash table, as a property list."
  (let ((parameter nil))
    (maphash (lambda (key value)
               (setq parameter
                     (append parameter
                             (list (intern (concat ":" key))
                                   (pcase key
                                     ("optional" (eq value t))
                                     ("enum" (append value nil))
                                     ("fields" (mapcar #'agent-q-specifications--parameter
                                                       value))
                                     ("element" (agent-q-specifications--parameter value))
                                     (_ value))))))
             json)
    parameter))

;;;###autoload
(defun agent-q-type-signature-to-json-schema (text)
  "Return the JSON Schema of the type signature TEXT, as a hash table.
Signal `agent-q-gram-error' when TEXT is not a type signature."
  (setq text (agent-q-json-expect-text text "A type signature"))
  (agent-q-module-ensure)
  (agent-q-json-parse (agent-q-core-type-signature-schema text)))

;;;###autoload
(defun agent-q-validate-tool-args (schema arguments)
  "Return ARGUMENTS with defaults filled in if they fit SCHEMA, a JSON Schema.
Both are hash tables, property lists or JSON text.  What is required has to
be there, also where it has a default.  Signal `agent-q-invalid-arguments'
with a line for each problem."
  (agent-q-module-ensure)
  (agent-q-json-parse
   (agent-q-core-check-arguments (agent-q-specifications--json
                                  (if (stringp schema) schema
                                    (and schema (agent-q-json-schema schema))))
                                 (agent-q-specifications--json arguments))))

(defun agent-q-specifications--json (value)
  "Return VALUE, JSON text or an object in one of its shapes, as JSON text."
  (cond ((stringp value) (agent-q-json-text value))
        ((null value) "{}")
        (t (agent-q-json-encode value))))

;;;;; Specifications

;; An interpreter looks a function up before it evaluates the call whose value that is about.
;;;###autoload (autoload 'agent-q-tool-spec-p "agent-q-specifications")
;;;###autoload (autoload 'agent-q-tool-spec-name "agent-q-specifications")
;;;###autoload (autoload 'agent-q-tool-spec-description "agent-q-specifications")
;;;###autoload (autoload 'agent-q-tool-spec-type-signature "agent-q-specifications")
;;;###autoload (autoload 'agent-q-tool-spec-schema "agent-q-specifications")
;;;###autoload (autoload 'agent-q-tool-library-p "agent-q-specifications")
;;;###autoload (autoload 'agent-q-tool-library-tools "agent-q-specifications")
;;;###autoload (autoload 'agent-q-agent-p "agent-q-specifications")
;;;###autoload (autoload 'agent-q-agent-name "agent-q-specifications")
;;;###autoload (autoload 'agent-q-agent-description "agent-q-specifications")
;;;###autoload (autoload 'agent-q-agent-instruction "agent-q-specifications")
;;;###autoload (autoload 'agent-q-agent-model "agent-q-specifications")
;;;###autoload (autoload 'agent-q-agent-tools "agent-q-specifications")

(cl-defstruct (agent-q-tool-spec (:constructor agent-q-specifications--make)
                                 (:copier nil))
  "A tool specification: NAME, DESCRIPTION, TYPE-SIGNATURE and its SCHEMA.
The type signature is gram text, the schema a hash table made from it."
  name description type-signature schema)

;;;###autoload
(defun agent-q-create-tool-specification (name description signature)
  "Return the specification of the tool NAME with DESCRIPTION and SIGNATURE.
SIGNATURE is a type signature in gram; signal `agent-q-gram-error' when it
isn't.  Neither NAME nor DESCRIPTION may be empty."
  (let ((name (agent-q-json-expect-text name "The name of a specification"))
        (description (agent-q-json-expect-text description
                                               "The description of a specification"))
        (signature (agent-q-json-expect-text signature "A type signature")))
    (agent-q-module-ensure)
    (agent-q-specifications--of-json
     (agent-q-core-specification name description signature))))

(defun agent-q-specifications--expect (specification)
  "Signal `agent-q-error' unless SPECIFICATION is one."
  (agent-q-json-expect #'agent-q-tool-spec-p specification
                       "SPECIFICATION" "a tool specification"))

(defun agent-q-specifications--of-json (text)
  "Return the specification in TEXT, the core's JSON."
  (agent-q-specifications--of-value (agent-q-json-parse text)))

(defun agent-q-specifications--of-value (json)
  "Return the specification in JSON, a hash table."
  (agent-q-specifications--make :name (gethash "name" json)
                                :description (gethash "description" json)
                                :type-signature (gethash "typeSignature" json)
                                :schema (gethash "schema" json)))

;;;###autoload
(defun agent-q-tool-spec-to-json (specification)
  "Return SPECIFICATION as JSON text."
  (agent-q-json-encode (agent-q-specifications-value specification)))

(defun agent-q-specifications-value (specification)
  "Return SPECIFICATION as a JSON value."
  (agent-q-specifications--expect specification)
  (agent-q-json-value
   `(:name ,(agent-q-tool-spec-name specification)
     :description ,(agent-q-tool-spec-description specification)
     :typeSignature ,(agent-q-tool-spec-type-signature specification)
     :schema ,(agent-q-tool-spec-schema specification))))

;;;###autoload
(defun agent-q-tool-spec-from-json (json)
  "Return the specification in JSON, text or a value.
Its schema is generated again from the type signature."
  (agent-q-module-ensure)
  (agent-q-specifications--of-json
   (agent-q-core-specification-from-json (agent-q-specifications--json json))))

;;;###autoload
(defun agent-q-tool-spec-to-gram (specification)
  "Return SPECIFICATION as gram text, with its signature as it was written."
  (agent-q-module-ensure)
  (agent-q-core-specification-to-gram (agent-q-tool-spec-to-json specification)))

;;;###autoload
(defun agent-q-tool-spec-from-gram (text)
  "Return the specification that TEXT, gram, writes.
Signal `agent-q-gram-error' when it writes none."
  (setq text (agent-q-json-expect-text text "Gram"))
  (agent-q-module-ensure)
  (agent-q-specifications--of-json (agent-q-core-specification-from-gram text)))

;;;;; Agents

(cl-defstruct (agent-q-agent (:constructor agent-q-specifications--make-agent)
                             (:copier nil))
  "An agent: its NAME, DESCRIPTION (or nil), INSTRUCTION, MODEL and TOOLS.
MODEL is a property list of :provider and :id, strings; TOOLS is a list of
specifications."
  name description instruction model tools)

;;;###autoload
(defun agent-q-agent-from-gram (text)
  "Return the agent that TEXT, gram, describes.
Signal `agent-q-gram-error' when it describes none, or when two of its tools
have the same name."
  (setq text (agent-q-json-expect-text text "Gram"))
  (agent-q-module-ensure)
  (let* ((json (agent-q-json-parse (agent-q-core-agent-from-gram text)))
         (description (gethash "description" json))
         (model (gethash "model" json)))
    (agent-q-specifications--make-agent
     :name (gethash "name" json)
     :description (and (stringp description) description)
     :instruction (gethash "instruction" json)
     :model (list :provider (gethash "provider" model) :id (gethash "id" model))
     :tools (mapcar #'agent-q-specifications--of-value (gethash "tools" json)))))

;;;;; Tools

;;;###autoload
(cl-defun agent-q-create-tool (name description schema invoke
                                    &key safety-level categories async)
  "Return the tool NAME with DESCRIPTION, for a library or the registry.
SCHEMA is the JSON Schema of its arguments, one of objects: a hash table,
property list or JSON text.  INVOKE is its handler.  Without SAFETY-LEVEL the
tool is dangerous.  CATEGORIES and ASYNC are as for `agent-q-define-tool'."
  (agent-q-module-ensure)
  (let* ((tool (agent-q-tool-with-schema name description schema invoke
                                         :safety-level safety-level
                                         :categories categories :async async))
         (problem (agent-q-core-schema-problem
                   (agent-q-json-encode (agent-q-tool-schema tool)))))
    (when problem
      (agent-q-json-invalid-tool "The tool %s: %s" name problem))
    tool))

;;;###autoload
(cl-defun agent-q-define-tool-from-signature (name description signature handler
                                                   &key safety-level trust-level
                                                   categories category async)
  "Return the tool NAME with DESCRIPTION and the parameters of SIGNATURE.
SIGNATURE is a type signature in gram, such as
  (::Text {paramName:\"name\"})==>(::String)
Without a level the tool is dangerous until `agent-q-tool-levels' says
otherwise.  HANDLER, SAFETY-LEVEL, TRUST-LEVEL, CATEGORIES, CATEGORY and ASYNC
are as for `agent-q-define-tool'."
  (agent-q-tool-with-schema name description
                            (agent-q-type-signature-to-json-schema signature)
                            handler
                            :safety-level safety-level :trust-level trust-level
                            :categories categories :category category :async async))

;;;;; Libraries

(cl-defstruct (agent-q-tool-library (:constructor agent-q-specifications--make-library)
                                    (:copier nil))
  "A library: TOOLS is an association list from names to tools.  It never changes."
  tools)

;;;###autoload
(defun agent-q-empty-tool-library ()
  "Return the tool library without a tool."
  (agent-q-specifications--make-library))

;;;###autoload
(defun agent-q-library-register (name tool library)
  "Return a library with the tools of LIBRARY, and TOOL under NAME.
NAME has to be the name of TOOL, or `agent-q-invalid-tool' is signalled.  A
tool of that name is replaced.  LIBRARY itself stays as it is."
  (unless (agent-q-tool-p tool)
    (agent-q-json-invalid-tool "Not a tool: %S" tool))
  (unless (equal name (agent-q-tool-name tool))
    (agent-q-json-invalid-tool "The tool '%s' cannot be registered under another name, '%s'"
                            (agent-q-tool-name tool) name))
  (let* ((tools (agent-q-tool-library-tools (agent-q-specifications--library library)))
         (old (assoc name tools)))
    (agent-q-specifications--make-library
     :tools (if old
                (mapcar (lambda (entry) (if (eq entry old) (cons name tool) entry)) tools)
              (append tools (list (cons name tool)))))))

;;;###autoload
(defun agent-q-library-lookup (name library)
  "Return the tool NAME of LIBRARY, or nil."
  (agent-q-json-expect #'stringp name "The name of a tool" "a string")
  (cdr (assoc name (agent-q-tool-library-tools
                    (agent-q-specifications--library library)))))

(defun agent-q-specifications--library (library)
  "Return LIBRARY, or signal `agent-q-error' when it is none."
  (agent-q-json-expect #'agent-q-tool-library-p library "LIBRARY" "a tool library"))

(defun agent-q-specifications-library-tools (library)
  "Return the tools of LIBRARY in order of registration."
  (mapcar #'cdr (agent-q-tool-library-tools library)))

;;;###autoload
(defun agent-q-bind-tool (specification library)
  "Return the tool of LIBRARY that carries out SPECIFICATION, or nil.
Its name, description and schema have to be those of SPECIFICATION."
  (and (null (agent-q-bind-tool-explain specification library))
       (agent-q-library-lookup (agent-q-tool-spec-name specification) library)))

;;;###autoload
(defun agent-q-bind-tool-explain (specification library)
  "Return why LIBRARY has no tool that carries out SPECIFICATION, or nil if it has."
  (agent-q-specifications--expect specification)
  (agent-q-module-ensure)
  (let* ((name (agent-q-tool-spec-name specification))
         (tool (agent-q-library-lookup name library)))
    (if (null tool)
        (format "Tool '%s' not found in the library, which has %s" name
                (if (agent-q-tool-library-tools library)
                    (mapconcat #'car (agent-q-tool-library-tools library) ", ")
                  "no tool"))
      (agent-q-core-bind-explain
       (agent-q-tool-spec-to-json specification)
       (agent-q-json-encode `(:name ,name
                              :description ,(agent-q-tool-description tool)
                              :schema ,(agent-q-tool-schema tool)))))))

;;;; Chats that follow an agent's file

;; A gram file gives a chat its instruction, its model and its tools.  The
;; tools are specifications only; the core binds them to a library of
;; `agent-q-tool-libraries' when a turn starts, to several in turn.

(cl-defstruct (agent-q-specifications-agent-choice (:constructor agent-q-specifications-agent-make-choice)
                                                   (:copier nil))
  "What a chat follows: AGENT, and the names of the LIBRARIES used in turn."
  agent libraries)

(defvar-local agent-q-specifications-agent-current nil
  "The agent that the current chat follows, or nil.")

(defvar agent-q-specifications--agent-sent nil
  "The libraries that the core has, lists of a name, the library and its tools.
A running turn may still call the tools of one that was replaced since.")

;;;;; What it offers

(defun agent-q-specifications-agent-offered ()
  "Return the tools of the current chat's agent, as (TOOL LIBRARY) each.
TOOL is the one that the library of that name has for a specification of the
agent.  Without an agent the value is nil, and so it is for one without tools."
  (when agent-q-specifications-agent-current
    (let ((agent (agent-q-specifications-agent-choice-agent agent-q-specifications-agent-current)))
      (seq-mapcat
       (lambda (name)
         (let ((library (cdr (assoc name agent-q-tool-libraries))))
           (and (agent-q-tool-library-p library)
                (delq nil (mapcar (lambda (specification)
                                    (let ((tool (agent-q-bind-tool specification library)))
                                      (and tool (list tool name))))
                                  (agent-q-agent-tools agent))))))
       (agent-q-specifications-agent-choice-libraries agent-q-specifications-agent-current)))))

;;;;; The core

(defun agent-q-specifications-agent-settings ()
  "Return the settings of the current chat that concern agents, as an alist."
  (list (cons 'agent (if agent-q-specifications-agent-current
                         (agent-q-specifications--agent-json agent-q-specifications-agent-current)
                       :null))))

(defun agent-q-specifications--agent-json (choice)
  "Return CHOICE as the core takes it; give the core its libraries as well."
  (let ((agent (agent-q-specifications-agent-choice-agent choice))
        (libraries (agent-q-specifications-agent-choice-libraries choice)))
    (mapc #'agent-q-specifications--agent-send-library libraries)
    (agent-q-json-value
     `(:name ,(agent-q-agent-name agent)
       :instruction ,(agent-q-agent-instruction agent)
       :specifications ,(vconcat (mapcar #'agent-q-specifications-value
                                         (agent-q-agent-tools agent)))
       :libraries ,(vconcat libraries)))))

(defun agent-q-specifications-agent-library (name)
  "Return the library NAME, or signal `agent-q-error' when there is none."
  (let ((library (cdr (assoc name agent-q-tool-libraries))))
    (unless (agent-q-tool-library-p library)
      (signal 'agent-q-error
              (list (format "No tool library is named %s; `agent-q-tool-libraries' lists them"
                            name))))
    library))

(defun agent-q-specifications--agent-send-library (name)
  "Give the core the library NAME as it is now."
  (let ((library (agent-q-specifications-agent-library name)))
    (unless (eq library (cadr (assoc name agent-q-specifications--agent-sent)))
      (let ((tools (mapcar (lambda (tool) (agent-q-specifications--agent-library-tool tool name))
                           (agent-q-specifications-library-tools library))))
        (agent-q-core-set-library
         name (agent-q-json-encode (vconcat (mapcar #'agent-q-specifications--agent-tool-json tools))))
        (push (cons name (cons library tools)) agent-q-specifications--agent-sent)))))

(defun agent-q-specifications--agent-library-tool (tool name)
  "Return a copy of TOOL as the one of the library NAME.
The same tool may be in several libraries, and in the registry too."
  (let ((copy (copy-sequence tool)))
    (setf (agent-q-tool-origin copy) (list 'library name)
          (agent-q-tool-number copy) nil)
    copy))

(defun agent-q-specifications--agent-tool-json (tool)
  "Return TOOL as the core takes the tools of libraries."
  `(:name ,(agent-q-tool-name tool)
    :description ,(agent-q-tool-description tool)
    :schema ,(agent-q-tool-schema tool)
    :handler ,(agent-q-registry-number tool)
    :level ,(agent-q-tool-level-name (agent-q-tool-own-level tool))))

(provide 'agent-q-specifications)
;;; agent-q-specifications.el ends here
