;;; agent-q-tool.el --- Tools defined in Emacs Lisp, and their parameters  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a tool is, and how one is defined: `agent-q-define-tool' checks each
;; rule at once, without the core, so that a mistake in an init file shows
;; where it was made.  agent-q-registry.el keeps the tools.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Parameters of tools, and their schemas

;; The rules that the parameters of a definition keep to, and the JSON Schema
;; that they are; and back, from a schema to parameters.

(defconst agent-q-tool--parameters-types '(:string :boolean :number :integer :object :array)
  "The types of parameters.")

(defconst agent-q-tool--parameters-keys
  '(:name :type :description :enum :items :properties :required :default
          :minimum :maximum)
  "The properties that a parameter may have.")

;;;;; The rules

(defun agent-q-tool-parameters-checked (where parameters)
  "Return PARAMETERS of WHERE with types as keywords and values as in JSON.
Signal `agent-q-invalid-tool' unless they keep all rules."
  (unless (proper-list-p parameters)
    (agent-q-json-invalid-tool "%s: the parameters are not a list: %S" where parameters))
  (let ((names nil))
    (mapcar
     (lambda (parameter)
       (unless (agent-q-json-plist-p parameter)
         (agent-q-json-invalid-tool "%s: a parameter must be a property list, not %S"
                                    where parameter))
       (let ((name (plist-get parameter :name)))
         (unless (and (stringp name) (not (string-blank-p name)))
           (agent-q-json-invalid-tool "%s: a parameter has no name: %S" where parameter))
         (when (member name names)
           (agent-q-json-invalid-tool "%s: the parameter %s is defined twice" where name))
         (push name names)
         (agent-q-tool--parameters-checked (format "%s, parameter %s" where name) parameter)))
     parameters)))

(defun agent-q-tool-parameters-check-required (where required parameters)
  "Signal `agent-q-invalid-tool' unless REQUIRED names some of PARAMETERS.
WHERE says in the error what they belong to."
  (unless (and (or (proper-list-p required) (vectorp required))
               (seq-every-p #'stringp required))
    (agent-q-json-invalid-tool "%s: :required is not a list of strings: %S" where required))
  (unless (equal (seq-uniq required) (append required nil))
    (agent-q-json-invalid-tool "%s: :required names something twice: %S" where required))
  (seq-doseq (name required)
    (unless (seq-some (lambda (parameter) (equal (plist-get parameter :name) name))
                      parameters)
      (agent-q-json-invalid-tool "%s: the required parameter %s is not among the parameters"
                                 where name))))

(defun agent-q-tool--parameters-checked (where parameter)
  "Return PARAMETER, which WHERE names, as `agent-q-tool-parameters-checked' does.
The items of an array are checked as a parameter without a name."
  (cl-loop for key in parameter by #'cddr
           unless (memq key agent-q-tool--parameters-keys)
           do (agent-q-json-invalid-tool "%s: unknown key %S of a parameter: expected one of %s"
                                         where key
                                         (mapconcat #'symbol-name agent-q-tool--parameters-keys " ")))
  (let ((type (agent-q-tool--parameters-type where (plist-get parameter :type)))
        (description (plist-get parameter :description)))
    (unless (or (null description) (stringp description))
      (agent-q-json-invalid-tool "%s: the description is not a string" where))
    (setq parameter (plist-put (copy-sequence parameter) :type type))
    (agent-q-tool--parameters-check-limits where parameter)
    (agent-q-tool--parameters-with-values
     where (agent-q-tool--parameters-with-parts where parameter))))

(defun agent-q-tool--parameters-type (where type)
  "Return TYPE, a keyword or its name, as a keyword; WHERE is for the error."
  (let ((keyword (if (and (stringp type) (not (string-empty-p type)))
                     (intern (concat ":" type))
                   type)))
    (unless (memq keyword agent-q-tool--parameters-types)
      (agent-q-json-invalid-tool
       "%s: unknown parameter type %S: expected :string, :boolean, :number, :integer, :object or :array"
       where type))
    keyword))

(defun agent-q-tool--parameters-with-parts (where parameter)
  "Return PARAMETER, which WHERE names, with its items and properties checked."
  (let ((type (plist-get parameter :type))
        (items (plist-get parameter :items))
        (properties (plist-get parameter :properties)))
    (when items
      (unless (and (eq type :array) (agent-q-json-plist-p items))
        (agent-q-json-invalid-tool "%s: :items is for arrays, a property list with :type" where))
      (setq parameter (plist-put parameter :items
                                 (agent-q-tool--parameters-checked (concat where ", items")
                                                                   items))))
    (when properties
      (unless (eq type :object)
        (agent-q-json-invalid-tool "%s: :properties is for objects" where))
      (setq parameter (plist-put parameter :properties
                                 (agent-q-tool-parameters-checked where properties))))
    (agent-q-tool-parameters-check-required where (plist-get parameter :required) properties)
    parameter))

(defun agent-q-tool--parameters-check-limits (where parameter)
  "Signal `agent-q-invalid-tool' unless the limits of PARAMETER of WHERE are fit."
  (let ((minimum (plist-get parameter :minimum))
        (maximum (plist-get parameter :maximum)))
    (dolist (limit (list minimum maximum))
      (unless (or (null limit)
                  (and (numberp limit)
                       (memq (plist-get parameter :type) '(:number :integer))))
        (agent-q-json-invalid-tool "%s: :minimum and :maximum are numbers, for numbers" where))
      (agent-q-tool--parameters-value where nil limit))
    (when (and minimum maximum (> minimum maximum))
      (agent-q-json-invalid-tool "%s: :minimum is greater than :maximum" where))))

;;;;; Values

(defun agent-q-tool--parameters-with-values (where parameter)
  "Return PARAMETER, which WHERE names, with its enum and default as JSON values.
Signal `agent-q-invalid-tool' when one of them could never be given."
  (let ((enum (plist-get parameter :enum)))
    (when (plist-member parameter :enum)
      (unless (and enum (or (proper-list-p enum) (vectorp enum)) (not (functionp enum))
                   (not (seq-empty-p enum)))
        (agent-q-json-invalid-tool "%s: :enum is not a non-empty list: %S" where enum))
      (let* ((any (plist-put (copy-sequence parameter) :enum nil))
             (values (mapcar (lambda (value)
                               (agent-q-tool--parameters-fitting where any value "value"))
                             enum)))
        (setq parameter (plist-put parameter :enum values))))
    (when (plist-member parameter :default)
      (setq parameter
            (plist-put parameter :default
                       (agent-q-tool--parameters-fitting
                        where parameter (plist-get parameter :default) "default"))))
    parameter))

(defun agent-q-tool--parameters-fitting (where parameter value word)
  "Return VALUE as a JSON value if it fits PARAMETER, which WHERE names.
WORD says in the error what it is."
  (let* ((json (agent-q-tool--parameters-value where parameter value))
         (problem (agent-q-tool--parameters-misfit parameter json)))
    (when problem
      (agent-q-json-invalid-tool "%s: the %s %S %s" where word value problem))
    json))

(defun agent-q-tool--parameters-value (where parameter value)
  "Return VALUE of PARAMETER, which WHERE names, as a JSON value."
  (condition-case failure
      (agent-q-tool--parameters-json parameter value)
    (agent-q-error (agent-q-json-invalid-tool "%s: %s" where (cadr failure)))))

(defun agent-q-tool--parameters-json (parameter value)
  "Return VALUE of PARAMETER as a JSON value; nil is false or empty."
  (pcase (plist-get parameter :type)
    ((and :boolean (guard (null value))) :false)
    ((and :object (guard (null value))) (agent-q-json-empty-object))
    ;; A list is a list here, whatever else it looks like.
    ((and :array (guard (and (or (vectorp value) (proper-list-p value))
                             (not (functionp value)))))
     (vconcat (mapcar (lambda (item)
                        (agent-q-tool--parameters-json (plist-get parameter :items) item))
                      value)))
    (_ (agent-q-json-value value))))

(defun agent-q-tool--parameters-misfit (parameter value)
  "Return why VALUE, a JSON value, can't be one of PARAMETER, or nil if it can."
  (let ((type (plist-get parameter :type))
        (enum (plist-get parameter :enum))
        (minimum (plist-get parameter :minimum))
        (maximum (plist-get parameter :maximum)))
    (cond ((not (agent-q-tool--parameters-of-type-p type value))
           (format "is not of type %s" type))
          ((and enum (not (seq-contains-p enum value #'agent-q-json-equal)))
           "is not in :enum")
          ((and minimum (< value minimum)) "is less than :minimum")
          ((and maximum (> value maximum)) "is greater than :maximum")
          ((and (eq type :array) (plist-get parameter :items))
           (let ((problem (seq-some (lambda (item)
                                      (agent-q-tool--parameters-misfit
                                       (plist-get parameter :items) item))
                                    value)))
             (and problem (concat "has an item that " problem))))
          ((eq type :object)
           (agent-q-tool--parameters-misfit-within parameter value)))))

(defun agent-q-tool--parameters-misfit-within (parameter object)
  "Return which member of OBJECT, a hash table, doesn't fit PARAMETER, or nil."
  (or (seq-some (lambda (name)
                  (and (eq (gethash name object 'absent) 'absent)
                       (format "lacks %s, which is required" name)))
                (plist-get parameter :required))
      (seq-some (lambda (property)
                  (let* ((name (plist-get property :name))
                         (value (gethash name object 'absent))
                         (problem (and (not (eq value 'absent))
                                       (agent-q-tool--parameters-misfit property value))))
                    (and problem (format "has a %s that %s" name problem))))
                (plist-get parameter :properties))))

(defun agent-q-tool--parameters-of-type-p (type value)
  "Whether VALUE, a JSON value, is of TYPE."
  (pcase type
    (:string (stringp value))
    (:boolean (memq value '(t :false)))
    (:number (numberp value))
    (:integer (or (integerp value)
                  (and (floatp value) (= value (ftruncate value)))))
    (:object (hash-table-p value))
    (:array (vectorp value))))

;;;;; To schemas

(defun agent-q-tool-parameters-object-schema (parameters required)
  "Return the JSON Schema of an object with PARAMETERS, some of them REQUIRED."
  (let ((schema (agent-q-json-empty-object))
        (properties (agent-q-json-empty-object)))
    (dolist (parameter parameters)
      (puthash (plist-get parameter :name)
               (agent-q-tool-parameters-schema parameter) properties))
    (puthash "type" "object" schema)
    (puthash "properties" properties schema)
    (puthash "required" (vconcat required) schema)
    schema))

(defun agent-q-tool-parameters-schema (parameter)
  "Return the JSON Schema of PARAMETER, a checked one, as a hash table.
What wasn't said of it isn't there, so that it is the schema of a gram type."
  (let* ((type (plist-get parameter :type))
         (schema (agent-q-json-empty-object)))
    (puthash "type" (substring (symbol-name type) 1) schema)
    (when (plist-get parameter :description)
      (puthash "description" (plist-get parameter :description) schema))
    (when (plist-get parameter :enum)
      (puthash "enum" (vconcat (plist-get parameter :enum)) schema))
    (when (eq type :array)
      (puthash "items" (if (plist-get parameter :items)
                           (agent-q-tool-parameters-schema (plist-get parameter :items))
                         (agent-q-json-empty-object))
               schema))
    (when (plist-member parameter :properties)
      (let ((object (agent-q-tool-parameters-object-schema (plist-get parameter :properties)
                                                           (plist-get parameter :required))))
        (puthash "properties" (gethash "properties" object) schema)
        (puthash "required" (gethash "required" object) schema)))
    (when (plist-member parameter :default)
      (puthash "default" (plist-get parameter :default) schema))
    (dolist (key '(:minimum :maximum))
      (when (plist-get parameter key)
        (puthash (substring (symbol-name key) 1) (plist-get parameter key) schema)))
    schema))

;;;;; From schemas

(defun agent-q-tool-parameters-of-schema (schema)
  "Return the properties of SCHEMA as parameters are written in definitions.
What a definition can't say is left out."
  (let ((properties (gethash "properties" schema))
        (parameters nil))
    (when (hash-table-p properties)
      (maphash (lambda (name property)
                 (push (append (list :name name) (agent-q-tool--parameters-of-property property))
                       parameters))
               properties))
    (nreverse parameters)))

(defun agent-q-tool--parameters-of-property (schema)
  "Return the parameter of SCHEMA, the one of a property, as a property list."
  (when (hash-table-p schema)
    (let* ((type (gethash "type" schema))
           (parameter (and (stringp type) (list :type (intern (concat ":" type))))))
      (dolist (key '("description" "enum" "items" "properties" "required"
                     "default" "minimum" "maximum"))
        (let ((value (gethash key schema)))
          (when value
            (setq parameter
                  (append parameter
                          (list (intern (concat ":" key))
                                (pcase key
                                  ((or "enum" "required") (and (vectorp value)
                                                               (append value nil)))
                                  ("items" (agent-q-tool--parameters-of-property value))
                                  ("properties" (agent-q-tool-parameters-of-schema schema))
                                  (_ value))))))))
      parameter)))

;;;; Tools defined in Emacs Lisp

;; An interpreter looks a function up before it evaluates the call whose value that is about.
;;;###autoload (autoload 'agent-q-tool-p "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-name "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-description "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-parameters "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-required "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-own-level "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-categories "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-handler "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-async "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-schema "agent-q-tool")
;;;###autoload (autoload 'agent-q-tool-origin "agent-q-tool")

(cl-defstruct (agent-q-tool (:constructor agent-q-tool-make) (:copier nil))
  "A tool that a model can call.
NAME and DESCRIPTION are strings.  PARAMETERS is a list of property lists,
REQUIRED a list of their names.  OWN-LEVEL is the level that it was defined
with, a keyword or nil; `agent-q-tool-safety-level' is the one in force.
CATEGORIES is a list of keywords.  HANDLER takes the arguments, a hash table,
and if ASYNC is non-nil a callback too.  SCHEMA is the JSON Schema of the
arguments, as a hash table, and FROM-SCHEMA says that the tool was made from
it.  ORIGIN is `emacs-lisp', `built-in', `(image NAME)', or `(library NAME)'
for a tool that is called as one of a library; the library itself has it as it
was made.  NUMBER is what the core knows the handler by, or nil."
  name description parameters required own-level categories handler async
  schema from-schema (origin 'emacs-lisp) number)

;;;###autoload
(defun agent-q-tool-safety-level (tool)
  "Return the safety level of TOOL: `:safe', `:cautious' or `:dangerous'.
It is the one that `agent-q-tool-levels' sets, else the tool's own.  A tool
that was made without one, from a schema or a signature, is dangerous."
  (or (agent-q-tool-user-level (agent-q-tool-name tool))
      (agent-q-tool-own-level tool)
      :dangerous))

;;;;; Levels

(defconst agent-q-tool-level-names '(:safe :cautious :dangerous)
  "The safety levels, from harmless to harmful.")

(defun agent-q-tool-user-level (name)
  "Return the level that `agent-q-tool-levels' gives to the tool NAME, or nil."
  (let ((entry (assoc name agent-q-tool-levels)))
    (and entry (agent-q-module-level (cdr entry)))))

(defun agent-q-tool-level-name (level)
  "Return the name that the core has for LEVEL, a keyword; nil for nil."
  (and level (substring (symbol-name level) 1)))

;;;;; Defining

;;;###autoload
(cl-defun agent-q-define-tool (name description parameters
                                    &key required safety-level trust-level
                                    categories category handler async)
  "Return a new tool, which `agent-q-register-tool' puts into use.
NAME is in snake_case.  DESCRIPTION tells the model when to use it.

PARAMETERS is a list of property lists:

  (:name \"path\" :type :string :description \"File to read\")

The types are `:string', `:boolean', `:number', `:integer', `:object' and
`:array'.  Further keys are :enum (a list), :items (for an array, a property
list with :type and so on), :properties (for an object, a list like
PARAMETERS, with :required beside it), :default, :minimum and :maximum.
Values are Lisp values that JSON can hold and that a call could give; a symbol
is its name, and nil is false or empty.
REQUIRED is a list of the names of those that a call must give, even if they
have a :default.

SAFETY-LEVEL is `:safe', which is the default, `:cautious' (logged, then
run) or `:dangerous' (run when approved); `:moderate' means cautious and
TRUST-LEVEL is another name for the argument.  CATEGORIES is a list of
keywords, CATEGORY a single one.  `:network' says that the tool brings text
from elsewhere: after it no rule runs a dangerous call in the same turn.

HANDLER is called with a hash table from names to values; JSON's false, null
and arrays are `:false', `:null' and vectors.  What it returns is given to
the model as `agent-q-format-tool-result' formats it; an error that it
signals, or `agent-q-tool-failure', is a failure.  If ASYNC is non-nil,
HANDLER gets a second argument instead, a function to call with the value
when it is there; if HANDLER returns a function, that is called when the
value isn't needed any more.

Signal `agent-q-invalid-tool' when a rule is broken."
  (agent-q-tool--check-name name)
  (agent-q-tool--check-description name description)
  (agent-q-tool--check-handler name handler (if async 2 1))
  (let ((parameters (agent-q-tool-parameters-checked name parameters)))
    (agent-q-tool-parameters-check-required name required parameters)
    (agent-q-tool-make
     :name (agent-q-json-text name)
     :description (agent-q-json-text description)
     :parameters parameters
     :required (append required nil)
     :own-level (agent-q-module-level (or safety-level trust-level :safe))
     :categories (agent-q-tool--canonical-categories
                  name (or categories (and category (list category))))
     :handler handler
     :async async
     :schema (agent-q-tool-parameters-object-schema parameters required))))

(cl-defun agent-q-tool-with-schema (name description schema handler
                                         &key safety-level trust-level
                                         categories category async)
  "Return the tool NAME whose arguments SCHEMA, a JSON Schema, describes.
NAME is kept as it is, so it has to be one that providers take: letters,
digits, underscores and hyphens, at most 64 of them.  DESCRIPTION, HANDLER,
SAFETY-LEVEL, TRUST-LEVEL, CATEGORIES, CATEGORY and ASYNC are as for
`agent-q-define-tool', but without a level the tool is dangerous."
  (unless (and (stringp name) (not (string-blank-p name)))
    (agent-q-json-invalid-tool "Tool name cannot be empty"))
  (agent-q-tool--check-sendable name)
  (agent-q-tool--check-description name description)
  (agent-q-tool--check-handler name handler (if async 2 1))
  (let ((schema (agent-q-tool--schema name schema))
        (level (or safety-level trust-level)))
    (agent-q-tool-make
     :name (agent-q-json-text name)
     :description (agent-q-json-text description)
     :parameters (agent-q-tool-parameters-of-schema schema)
     :required (append (gethash "required" schema) nil)
     :own-level (and level (agent-q-module-level level))
     :categories (agent-q-tool--canonical-categories
                  name (or categories (and category (list category))))
     :handler handler
     :async async
     :schema schema
     :from-schema t)))

(defun agent-q-tool--schema (name schema)
  "Return SCHEMA of the tool NAME, in any shape, as a hash table."
  (let ((json (condition-case failure
                  (agent-q-json-schema schema)
                (agent-q-error
                 (agent-q-json-invalid-tool "The schema of the tool %s: %s"
                                            name (cadr failure))))))
    (unless (hash-table-p json)
      (agent-q-json-invalid-tool "The schema of the tool %s must be an object" name))
    (let ((type (gethash "type" json "object")))
      (unless (if (vectorp type) (seq-contains-p type "object") (equal type "object"))
        (agent-q-json-invalid-tool
         "The schema of the tool %s must describe an object (\"type\": \"object\"), not type %s: arguments are always an object"
         name (agent-q-json-encode type))))
    (let ((required (gethash "required" json [])))
      (unless (and (vectorp required) (seq-every-p #'stringp required))
        (agent-q-json-invalid-tool "The schema of the tool %s: \"required\" is not a list of names"
                                   name)))
    json))

;;;;; The rules

(defun agent-q-tool--check-name (name)
  "Signal `agent-q-invalid-tool' unless NAME can be the name of a tool."
  (unless (and (stringp name) (not (string-empty-p name)))
    (agent-q-json-invalid-tool "The tool's name is empty or not a string: %S" name))
  (let ((case-fold-search nil))
    (unless (string-match-p "\\`[a-z][a-z0-9_]*\\'" name)
      (agent-q-json-invalid-tool
       "The tool name %s is not in snake_case: lower-case letters, digits and underscores, a letter first"
       name)))
  (agent-q-tool--check-sendable name))

(defun agent-q-tool--check-sendable (name)
  "Signal `agent-q-invalid-tool' unless providers take NAME as a tool's."
  (unless (string-match-p "\\`[A-Za-z0-9_-]\\{1,64\\}\\'" name)
    (agent-q-json-invalid-tool
     "Providers do not accept the tool name '%s': use only the letters a to z and A to Z, digits, underscores and hyphens, at most 64 of them"
     name)))

(defun agent-q-tool--check-description (name description)
  "Signal `agent-q-invalid-tool' unless DESCRIPTION describes the tool NAME."
  (unless (and (stringp description) (not (string-blank-p description)))
    (agent-q-json-invalid-tool
     "The tool %s has no description; it cannot be empty, as models choose tools by it" name)))

(defun agent-q-tool--check-handler (name handler arguments)
  "Signal `agent-q-invalid-tool' unless HANDLER of tool NAME takes ARGUMENTS."
  (unless (functionp handler)
    (agent-q-json-invalid-tool "The handler of the tool %s is not a function: %S" name handler))
  ;; An autoload isn't loaded only to look at it.
  (unless (autoloadp (indirect-function handler))
    (pcase-let ((`(,least . ,most) (func-arity handler)))
      (unless (and (<= least arguments)
                   (or (eq most 'many) (<= arguments most)))
        (agent-q-json-invalid-tool "The handler of the tool %s must take %d argument%s"
                                name arguments (if (= arguments 1) "" "s"))))))

(defun agent-q-tool--canonical-categories (name categories)
  "Return CATEGORIES of the tool NAME, checked, as keywords."
  (unless (proper-list-p categories)
    (agent-q-json-invalid-tool "The categories of the tool %s are not a list: %S" name categories))
  (mapcar (lambda (category)
            (or (agent-q-tool-category category)
                (agent-q-json-invalid-tool "The tool %s: %S is not a category; categories are keywords"
                                           name category)))
          categories))

(defun agent-q-tool-category (category)
  "Return CATEGORY, a symbol, as the keyword of its name; nil for anything else."
  (cond ((keywordp category) category)
        ((and category (symbolp category)) (intern (format ":%s" category)))))

;;;;; Schemas

;;;###autoload
(defun agent-q-tools-to-schema (tools)
  "Return the function schemas of TOOLS as property lists:

  (:type \"function\"
   :function (:name \"describe_symbol\"
              :description \"…\"
              :parameters (:type \"object\"
                           :properties (:symbol (:type \"string\" …))
                           :required (\"symbol\"))))

Objects are property lists and arrays are lists.  An empty object, such as
the properties of a tool without parameters, is an empty hash table, so that
it stays {} in JSON; an empty array is [], and so is one of lists a vector.
`agent-q-json-encode' turns all of it into JSON text.
Arrays and objects of which a schema says no more than their type get empty
items and properties, because providers refuse them without."
  (agent-q-json-expect #'proper-list-p tools "TOOLS" "a list of tools")
  (mapcar (lambda (tool)
            (agent-q-json-expect #'agent-q-tool-p tool "Each of TOOLS" "a tool")
            (agent-q-tool-to-schema tool))
          tools))

;;;###autoload
(defun agent-q-tool-to-schema (tool)
  "Return the function schema of TOOL, one as in `agent-q-tools-to-schema'."
  (agent-q-json-expect #'agent-q-tool-p tool "TOOL" "a tool")
  (agent-q-module-ensure)
  (let ((schema (agent-q-core-sendable-schema
                 (agent-q-json-encode (agent-q-tool-schema tool)))))
    (list :type "function"
          :function (list :name (agent-q-tool-name tool)
                          :description (agent-q-tool-description tool)
                          :parameters (agent-q-json-plist (agent-q-json-parse schema))))))

;;;;; What handlers return

(cl-defstruct (agent-q-tool-failure-value (:constructor agent-q-tool--make-failure)
                                          (:copier nil))
  "What a handler returns when it failed: MESSAGE, and VALUE if there is one."
  message value)

;;;###autoload
(defun agent-q-tool-failure (message &optional value)
  "Return a value for a tool's handler to fail with MESSAGE.
VALUE is what it has all the same, for the model to read below MESSAGE."
  (agent-q-tool--make-failure :message message :value value))

;;;###autoload
(defun agent-q-format-tool-result (value)
  "Return VALUE, which came from a tool's handler, as text for the model.
A string is taken as it is, nil is \"nil\", a list is printed prettily, and
everything else is printed as `prin1' does."
  (let ((print-circle t) (print-length nil) (print-level nil)
        (print-escape-newlines nil))
    (cond ((stringp value) (agent-q-json-text value))
          ((null value) "nil")
          ((consp value) (agent-q-json-text (agent-q-text-pretty value)))
          (t (agent-q-json-text (prin1-to-string value))))))

(provide 'agent-q-tool)
;;; agent-q-tool.el ends here
