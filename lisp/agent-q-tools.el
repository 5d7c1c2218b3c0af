;;; agent-q-tools.el --- Tools defined in Emacs Lisp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a tool is, and how one is defined: `agent-q-define-tool' checks each
;; rule at once, without the core, so that a mistake in an init file shows
;; where it was made.  agent-q-registry.el keeps the tools.

;;; Code:

(require 'agent-q-json)
(require 'agent-q-module)
(require 'cl-lib)
(require 'pp)
(require 'seq)

(cl-defstruct (agent-q-tool (:constructor agent-q-tools-make) (:copier nil))
  "A tool that a model can call.
NAME and DESCRIPTION are strings.  PARAMETERS is a list of property lists,
nil when the tool was made from a SCHEMA alone; REQUIRED is a list of their
names.  OWN-LEVEL is the level that it was defined with, a keyword or nil;
`agent-q-tool-safety-level' is the one in force.  CATEGORIES is a list of
keywords.  HANDLER takes the arguments, a hash table, and if ASYNC is
non-nil a callback too.  SCHEMA is the JSON Schema of the arguments, as a
hash table, and FROM-SCHEMA says that the tool was made from it.  ORIGIN is `emacs-lisp', `built-in', `(library NAME)'
or `(image NAME)'.
NUMBER is what the core knows the handler by, or nil."
  name description parameters required own-level categories handler async
  schema from-schema (origin 'emacs-lisp) number)

(defun agent-q-tool-safety-level (tool)
  "Return the safety level of TOOL: `:safe', `:cautious' or `:dangerous'.
It is the one that `agent-q-tool-levels' sets, else the tool's own.  A tool
that was made without one, from a schema or a signature, is dangerous."
  (or (agent-q-tools-user-level (agent-q-tool-name tool))
      (agent-q-tool-own-level tool)
      :dangerous))

(defun agent-q-tools-invalid (format &rest arguments)
  "Signal `agent-q-invalid-tool' with a sentence made of FORMAT and ARGUMENTS."
  (signal 'agent-q-invalid-tool (list (apply #'format format arguments))))

;;;; Levels

(defconst agent-q-tools-levels '(:safe :cautious :dangerous)
  "The safety levels, from harmless to harmful.")

(defun agent-q-tools-level (level)
  "Return LEVEL, a keyword or symbol, as one of `agent-q-tools-levels'.
`:moderate' is another word for `:cautious'.  Signal `agent-q-invalid-tool'
for anything else."
  (pcase level
    ((or :safe 'safe) :safe)
    ((or :cautious 'cautious :moderate 'moderate) :cautious)
    ((or :dangerous 'dangerous) :dangerous)
    (_ (agent-q-tools-invalid
        "%S is no safety level; it is :safe, :cautious or :dangerous" level))))

(defun agent-q-tools-user-level (name)
  "Return the level that `agent-q-tool-levels' gives to the tool NAME, or nil."
  (let ((entry (assoc name agent-q-tool-levels)))
    (and entry (agent-q-tools-level (cdr entry)))))

(defun agent-q-tools-level-name (level)
  "Return the name that the core has for LEVEL, a keyword; nil for nil."
  (and level (substring (symbol-name level) 1)))

;;;; Defining

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
REQUIRED is a list of the names of those that a call must give.

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
when it is there; if HANDLER returns a function, that is called when nobody
waits for the value any more.

Signal `agent-q-invalid-tool' when a rule is broken."
  (agent-q-tools--check-name name)
  (agent-q-tools--check-description name description)
  (agent-q-tools--check-parameters name parameters)
  (agent-q-tools--check-required name required parameters)
  (agent-q-tools--check-handler name handler (if async 2 1))
  (let ((parameters (mapcar #'agent-q-tools--canonical-parameter parameters)))
    (agent-q-tools-make
     :name (agent-q-json-text name)
     :description (agent-q-json-text description)
     :parameters parameters
     :required (append required nil)
     :own-level (agent-q-tools-level (or safety-level trust-level :safe))
     :categories (agent-q-tools--canonical-categories
                  name (or categories (and category (list category))))
     :handler handler
     :async async
     :schema (agent-q-tools--object-schema parameters required))))

(cl-defun agent-q-tools-from-schema (name description schema handler
                                          &key safety-level trust-level
                                          categories category async)
  "Return the tool NAME whose arguments SCHEMA, a JSON Schema, describes.
NAME is kept as it is.  DESCRIPTION, HANDLER, SAFETY-LEVEL, TRUST-LEVEL,
CATEGORIES, CATEGORY and ASYNC are as for `agent-q-define-tool', but without
a level the tool is dangerous."
  (unless (and (stringp name) (not (string-blank-p name)))
    (agent-q-tools-invalid "Tool name cannot be empty"))
  (agent-q-tools--check-description name description)
  (agent-q-tools--check-handler name handler (if async 2 1))
  (let ((schema (if (stringp schema) (agent-q-json-parse schema)
                  (agent-q-json-value schema)))
        (level (or safety-level trust-level)))
    (unless (hash-table-p schema)
      (agent-q-tools-invalid "The schema of the tool %s must be an object" name))
    (agent-q-tools-make
     :name (agent-q-json-text name)
     :description (agent-q-json-text description)
     :required (append (gethash "required" schema) nil)
     :own-level (and level (agent-q-tools-level level))
     :categories (agent-q-tools--canonical-categories
                  name (or categories (and category (list category))))
     :handler handler
     :async async
     :schema schema
     :from-schema t)))

;;;; The rules

(defconst agent-q-tools--types '(:string :boolean :number :integer :object :array)
  "The types of parameters.")

(defconst agent-q-tools--parameter-keys
  '(:name :type :description :enum :items :properties :required :default
          :minimum :maximum)
  "What can be said of a parameter.")

(defun agent-q-tools--check-name (name)
  "Signal `agent-q-invalid-tool' unless NAME can be the name of a tool."
  (unless (and (stringp name) (not (string-empty-p name)))
    (agent-q-tools-invalid "The tool's name is empty or no string: %S" name))
  (let ((case-fold-search nil))
    (unless (string-match-p "\\`[a-z][a-z0-9_]*\\'" name)
      (agent-q-tools-invalid
       "The tool name %s is not in snake_case: lower-case letters, digits and underscores, a letter first"
       name))))

(defun agent-q-tools--check-description (name description)
  "Signal `agent-q-invalid-tool' unless DESCRIPTION describes the tool NAME."
  (unless (and (stringp description) (not (string-blank-p description)))
    (agent-q-tools-invalid
     "The tool %s has no description; it cannot be empty, models choose tools by it" name)))

(defun agent-q-tools--check-handler (name handler arguments)
  "Signal `agent-q-invalid-tool' unless HANDLER of tool NAME takes ARGUMENTS."
  (unless (functionp handler)
    (agent-q-tools-invalid "The handler of the tool %s is no function: %S" name handler))
  ;; An autoload isn't loaded only to look at it.
  (unless (autoloadp (indirect-function handler))
    (pcase-let ((`(,least . ,most) (func-arity handler)))
      (unless (and (<= least arguments)
                   (or (eq most 'many) (<= arguments most)))
        (agent-q-tools-invalid "The handler of the tool %s must take %d argument%s"
                                name arguments (if (= arguments 1) "" "s"))))))

(defun agent-q-tools--check-required (where required parameters)
  "Signal `agent-q-invalid-tool' unless REQUIRED names some of PARAMETERS.
WHERE says in the error what they belong to."
  (unless (and (seqp required) (seq-every-p #'stringp required))
    (agent-q-tools-invalid "%s: :required is no list of strings: %S" where required))
  (seq-doseq (name required)
    (unless (seq-some (lambda (parameter) (equal (plist-get parameter :name) name))
                      parameters)
      (agent-q-tools-invalid "%s: the required parameter %s is not among the parameters"
                              where name))))

(defun agent-q-tools--check-parameters (where parameters)
  "Signal `agent-q-invalid-tool' unless PARAMETERS of WHERE keep all rules."
  (unless (proper-list-p parameters)
    (agent-q-tools-invalid "%s: the parameters are no list: %S" where parameters))
  (let ((names nil))
    (dolist (parameter parameters)
      (let ((name (and (agent-q-json-plist-p parameter)
                       (plist-get parameter :name))))
        (unless (agent-q-json-plist-p parameter)
          (agent-q-tools-invalid "%s: a parameter is a property list, not %S"
                                  where parameter))
        (unless (and (stringp name) (not (string-empty-p name)))
          (agent-q-tools-invalid "%s: a parameter has no name: %S" where parameter))
        (when (member name names)
          (agent-q-tools-invalid "%s: the parameter %s is defined twice" where name))
        (push name names)
        (agent-q-tools--check-parameter (format "%s, parameter %s" where name)
                                        parameter)))))

(defun agent-q-tools--check-parameter (where parameter)
  "Signal `agent-q-invalid-tool' unless PARAMETER, which WHERE names, is valid.
The items of an array are checked as a parameter without a name."
  (cl-loop for key in parameter by #'cddr
           unless (memq key agent-q-tools--parameter-keys)
           do (agent-q-tools-invalid "%s: %S says nothing about a parameter; the keys are %s"
                                      where key
                                      (mapconcat #'symbol-name agent-q-tools--parameter-keys " ")))
  (let ((type (agent-q-tools--type where (plist-get parameter :type)))
        (description (plist-get parameter :description))
        (items (plist-get parameter :items))
        (properties (plist-get parameter :properties)))
    (unless (or (null description) (stringp description))
      (agent-q-tools-invalid "%s: the description is no string" where))
    (when items
      (unless (and (eq type :array) (agent-q-json-plist-p items))
        (agent-q-tools-invalid "%s: :items is for arrays, a property list with :type" where))
      (agent-q-tools--check-parameter (concat where ", items") items))
    (when properties
      (unless (eq type :object)
        (agent-q-tools-invalid "%s: :properties is for objects" where))
      (agent-q-tools--check-parameters where properties))
    (agent-q-tools--check-required where (plist-get parameter :required) properties)
    (agent-q-tools--check-values where type parameter)))

(defun agent-q-tools--type (where type)
  "Return TYPE, a keyword or its name, as a keyword; WHERE is for the error."
  (let ((keyword (if (and (stringp type) (not (string-empty-p type)))
                     (intern (concat ":" type))
                   type)))
    (unless (memq keyword agent-q-tools--types)
      (agent-q-tools-invalid
       "%s: %S is no parameter type; it is :string, :boolean, :number, :integer, :object or :array"
       where type))
    keyword))

(defun agent-q-tools--check-values (where type parameter)
  "Check the values in PARAMETER of TYPE, which WHERE names."
  (let ((enum (plist-get parameter :enum))
        (minimum (plist-get parameter :minimum))
        (maximum (plist-get parameter :maximum)))
    (when (plist-member parameter :enum)
      (unless (and (seqp enum) (not (stringp enum)) (not (seq-empty-p enum)))
        (agent-q-tools-invalid "%s: :enum is no list with values" where)))
    (dolist (limit (list minimum maximum))
      (unless (or (null limit)
                  (and (numberp limit) (memq type '(:number :integer))))
        (agent-q-tools-invalid "%s: :minimum and :maximum are numbers, for numbers" where)))
    (when (and minimum maximum (> minimum maximum))
      (agent-q-tools-invalid "%s: :minimum is greater than :maximum" where))
    (when (plist-member parameter :default)
      (let ((default (agent-q-tools--value type (plist-get parameter :default))))
        (unless (agent-q-tools--fits-p type default)
          (agent-q-tools-invalid "%s: the default %S is not of type %s" where
                                  (plist-get parameter :default) type))
        (unless (or (null enum) (seq-contains-p enum default #'equal))
          (agent-q-tools-invalid "%s: the default %S is not in :enum" where default))))))

(defun agent-q-tools--value (type value)
  "Return VALUE of a parameter of TYPE as a JSON value; nil is empty or false."
  (cond (value (agent-q-json-value value))
        ((eq type :boolean) :false)
        ((eq type :array) [])
        ((eq type :object) (agent-q-json-empty-object))
        (t :null)))

(defun agent-q-tools--fits-p (type value)
  "Whether VALUE, a JSON value, is of TYPE."
  (pcase type
    (:string (stringp value))
    (:boolean (memq value '(t :false)))
    (:number (numberp value))
    (:integer (or (integerp value)
                  (and (floatp value) (= value (ftruncate value)))))
    (:object (hash-table-p value))
    (:array (vectorp value))))

(defun agent-q-tools--canonical-categories (name categories)
  "Return CATEGORIES of the tool NAME, checked, as keywords."
  (unless (proper-list-p categories)
    (agent-q-tools-invalid "The categories of the tool %s are no list: %S" name categories))
  (mapcar (lambda (category)
            (unless (and category (symbolp category))
              (agent-q-tools-invalid "The tool %s: %S is no category; they are keywords"
                                      name category))
            (if (keywordp category) category
              (intern (format ":%s" category))))
          categories))

;;;; Schemas

(defun agent-q-tools--canonical-parameter (parameter)
  "Return a copy of PARAMETER, a valid one, with its type a keyword."
  (let* ((copy (copy-sequence parameter))
         (type (agent-q-tools--type "" (plist-get copy :type)))
         (items (plist-get copy :items)))
    (setq copy (plist-put copy :type type))
    (when items
      (setq copy (plist-put copy :items (agent-q-tools--canonical-parameter items))))
    (when (plist-get copy :properties)
      (setq copy (plist-put copy :properties
                            (mapcar #'agent-q-tools--canonical-parameter
                                    (plist-get copy :properties)))))
    copy))

(defun agent-q-tools--object-schema (parameters required)
  "Return the JSON Schema of an object with PARAMETERS, some of them REQUIRED."
  (let ((schema (agent-q-json-empty-object))
        (properties (agent-q-json-empty-object)))
    (dolist (parameter parameters)
      (puthash (plist-get parameter :name)
               (agent-q-tools-parameter-schema parameter) properties))
    (puthash "type" "object" schema)
    (puthash "properties" properties schema)
    (puthash "required" (vconcat required) schema)
    schema))

(defun agent-q-tools-parameter-schema (parameter)
  "Return the JSON Schema of PARAMETER, a property list, as a hash table."
  (let* ((type (plist-get parameter :type))
         (schema (agent-q-json-empty-object)))
    (puthash "type" (substring (symbol-name type) 1) schema)
    (when (or (plist-get parameter :description) (plist-get parameter :name))
      (puthash "description" (or (plist-get parameter :description) "") schema))
    (when (plist-get parameter :enum)
      (puthash "enum" (vconcat (mapcar #'agent-q-json-value (plist-get parameter :enum)))
               schema))
    (when (eq type :array)
      (puthash "items" (if (plist-get parameter :items)
                           (agent-q-tools-parameter-schema (plist-get parameter :items))
                         (agent-q-json-empty-object))
               schema))
    (when (plist-member parameter :properties)
      (let ((object (agent-q-tools--object-schema (plist-get parameter :properties)
                                                  (plist-get parameter :required))))
        (puthash "properties" (gethash "properties" object) schema)
        (puthash "required" (gethash "required" object) schema)))
    (when (plist-member parameter :default)
      (puthash "default" (agent-q-tools--value type (plist-get parameter :default)) schema))
    (dolist (key '(:minimum :maximum))
      (when (plist-get parameter key)
        (puthash (substring (symbol-name key) 1) (plist-get parameter key) schema)))
    schema))

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
it stays {} in JSON.  `agent-q-json-encode' turns all of it into JSON text."
  (mapcar (lambda (tool)
            (list :type "function"
                  :function (list :name (agent-q-tool-name tool)
                                  :description (agent-q-tool-description tool)
                                  :parameters (agent-q-json-plist
                                               (agent-q-tool-schema tool)))))
          tools))

;;;; What handlers return

(cl-defstruct (agent-q-tools-failure (:constructor agent-q-tools--make-failure)
                                     (:copier nil))
  "What a handler returns when it failed: MESSAGE, and VALUE if there is one."
  message value)

;;;###autoload
(defun agent-q-tool-failure (message &optional value)
  "Return a value for a tool's handler to fail with MESSAGE.
VALUE is what it has all the same, for the model to read below MESSAGE."
  (agent-q-tools--make-failure :message message :value value))

;;;###autoload
(defun agent-q-format-tool-result (value)
  "Return VALUE, which came from a tool's handler, as text for the model.
A string is taken as it is, nil is \"nil\", a list is printed prettily, and
everything else is printed as `prin1' does."
  (let ((print-circle t) (print-length nil) (print-level nil)
        (print-escape-newlines nil))
    (cond ((stringp value) (agent-q-json-text value))
          ((null value) "nil")
          ((consp value) (agent-q-tools--pretty value))
          (t (agent-q-json-text (prin1-to-string value))))))

(defconst agent-q-tools--line 70
  "How many characters of a list go on one line.")

(defconst agent-q-tools--pretty-limit 20000
  "How many characters of a list are printed prettily; more takes too long.")

(defun agent-q-tools--pretty (list)
  "Return LIST printed over lines as a programmer would write it."
  (let ((plain (prin1-to-string list)))
    (agent-q-json-text
     (if (or (< (length plain) agent-q-tools--line)
             (> (length plain) agent-q-tools--pretty-limit))
         plain
       (string-trim-right (pp-to-string list))))))

(provide 'agent-q-tools)
;;; agent-q-tools.el ends here
