;;; agent-q-parameters.el --- Parameters of tools, and their schemas  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The rules that the parameters of a definition keep to, and the JSON Schema
;; that they are; and back, from a schema to parameters.

;;; Code:

(require 'agent-q-json)
(require 'cl-lib)
(require 'seq)

(defconst agent-q-parameters--types '(:string :boolean :number :integer :object :array)
  "The types of parameters.")

(defconst agent-q-parameters--keys
  '(:name :type :description :enum :items :properties :required :default
          :minimum :maximum)
  "The properties that a parameter may have.")

;;;; The rules

(defun agent-q-parameters-checked (where parameters)
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
         (agent-q-parameters--checked (format "%s, parameter %s" where name) parameter)))
     parameters)))

(defun agent-q-parameters-check-required (where required parameters)
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

(defun agent-q-parameters--checked (where parameter)
  "Return PARAMETER, which WHERE names, as `agent-q-parameters-checked' does.
The items of an array are checked as a parameter without a name."
  (cl-loop for key in parameter by #'cddr
           unless (memq key agent-q-parameters--keys)
           do (agent-q-json-invalid-tool "%s: unknown key %S of a parameter: expected one of %s"
                                         where key
                                         (mapconcat #'symbol-name agent-q-parameters--keys " ")))
  (let ((type (agent-q-parameters--type where (plist-get parameter :type)))
        (description (plist-get parameter :description)))
    (unless (or (null description) (stringp description))
      (agent-q-json-invalid-tool "%s: the description is not a string" where))
    (setq parameter (plist-put (copy-sequence parameter) :type type))
    (agent-q-parameters--check-limits where parameter)
    (agent-q-parameters--with-values
     where (agent-q-parameters--with-parts where parameter))))

(defun agent-q-parameters--type (where type)
  "Return TYPE, a keyword or its name, as a keyword; WHERE is for the error."
  (let ((keyword (if (and (stringp type) (not (string-empty-p type)))
                     (intern (concat ":" type))
                   type)))
    (unless (memq keyword agent-q-parameters--types)
      (agent-q-json-invalid-tool
       "%s: unknown parameter type %S: expected :string, :boolean, :number, :integer, :object or :array"
       where type))
    keyword))

(defun agent-q-parameters--with-parts (where parameter)
  "Return PARAMETER, which WHERE names, with its items and properties checked."
  (let ((type (plist-get parameter :type))
        (items (plist-get parameter :items))
        (properties (plist-get parameter :properties)))
    (when items
      (unless (and (eq type :array) (agent-q-json-plist-p items))
        (agent-q-json-invalid-tool "%s: :items is for arrays, a property list with :type" where))
      (setq parameter (plist-put parameter :items
                                 (agent-q-parameters--checked (concat where ", items")
                                                              items))))
    (when properties
      (unless (eq type :object)
        (agent-q-json-invalid-tool "%s: :properties is for objects" where))
      (setq parameter (plist-put parameter :properties
                                 (agent-q-parameters-checked where properties))))
    (agent-q-parameters-check-required where (plist-get parameter :required) properties)
    parameter))

(defun agent-q-parameters--check-limits (where parameter)
  "Signal `agent-q-invalid-tool' unless the limits of PARAMETER of WHERE are fit."
  (let ((minimum (plist-get parameter :minimum))
        (maximum (plist-get parameter :maximum)))
    (dolist (limit (list minimum maximum))
      (unless (or (null limit)
                  (and (numberp limit)
                       (memq (plist-get parameter :type) '(:number :integer))))
        (agent-q-json-invalid-tool "%s: :minimum and :maximum are numbers, for numbers" where))
      (agent-q-parameters--value where nil limit))
    (when (and minimum maximum (> minimum maximum))
      (agent-q-json-invalid-tool "%s: :minimum is greater than :maximum" where))))

;;;; Values

(defun agent-q-parameters--with-values (where parameter)
  "Return PARAMETER, which WHERE names, with its enum and default as JSON values.
Signal `agent-q-invalid-tool' when one of them could never be given."
  (let ((enum (plist-get parameter :enum)))
    (when (plist-member parameter :enum)
      (unless (and enum (or (proper-list-p enum) (vectorp enum)) (not (functionp enum))
                   (not (seq-empty-p enum)))
        (agent-q-json-invalid-tool "%s: :enum is not a non-empty list: %S" where enum))
      (let* ((any (plist-put (copy-sequence parameter) :enum nil))
             (values (mapcar (lambda (value)
                               (agent-q-parameters--fitting where any value "value"))
                             enum)))
        (setq parameter (plist-put parameter :enum values))))
    (when (plist-member parameter :default)
      (setq parameter
            (plist-put parameter :default
                       (agent-q-parameters--fitting
                        where parameter (plist-get parameter :default) "default"))))
    parameter))

(defun agent-q-parameters--fitting (where parameter value word)
  "Return VALUE as a JSON value if it fits PARAMETER, which WHERE names.
WORD says in the error what it is."
  (let* ((json (agent-q-parameters--value where parameter value))
         (problem (agent-q-parameters--misfit parameter json)))
    (when problem
      (agent-q-json-invalid-tool "%s: the %s %S %s" where word value problem))
    json))

(defun agent-q-parameters--value (where parameter value)
  "Return VALUE of PARAMETER, which WHERE names, as a JSON value."
  (condition-case failure
      (agent-q-parameters--json parameter value)
    (agent-q-error (agent-q-json-invalid-tool "%s: %s" where (cadr failure)))))

(defun agent-q-parameters--json (parameter value)
  "Return VALUE of PARAMETER as a JSON value; nil is false or empty."
  (pcase (plist-get parameter :type)
    ((and :boolean (guard (null value))) :false)
    ((and :object (guard (null value))) (agent-q-json-empty-object))
    ;; A list is a list here, whatever else it looks like.
    ((and :array (guard (and (or (vectorp value) (proper-list-p value))
                             (not (functionp value)))))
     (vconcat (mapcar (lambda (item)
                        (agent-q-parameters--json (plist-get parameter :items) item))
                      value)))
    (_ (agent-q-json-value value))))

(defun agent-q-parameters--misfit (parameter value)
  "Return why VALUE, a JSON value, can't be one of PARAMETER, or nil if it can."
  (let ((type (plist-get parameter :type))
        (enum (plist-get parameter :enum))
        (minimum (plist-get parameter :minimum))
        (maximum (plist-get parameter :maximum)))
    (cond ((not (agent-q-parameters--of-type-p type value))
           (format "is not of type %s" type))
          ((and enum (not (seq-contains-p enum value #'agent-q-json-equal)))
           "is not in :enum")
          ((and minimum (< value minimum)) "is less than :minimum")
          ((and maximum (> value maximum)) "is greater than :maximum")
          ((and (eq type :array) (plist-get parameter :items))
           (let ((problem (seq-some (lambda (item)
                                      (agent-q-parameters--misfit
                                       (plist-get parameter :items) item))
                                    value)))
             (and problem (concat "has an item that " problem))))
          ((eq type :object)
           (agent-q-parameters--misfit-within parameter value)))))

(defun agent-q-parameters--misfit-within (parameter object)
  "Return which member of OBJECT, a hash table, doesn't fit PARAMETER, or nil."
  (or (seq-some (lambda (name)
                  (and (eq (gethash name object 'absent) 'absent)
                       (format "lacks %s, which is required" name)))
                (plist-get parameter :required))
      (seq-some (lambda (property)
                  (let* ((name (plist-get property :name))
                         (value (gethash name object 'absent))
                         (problem (and (not (eq value 'absent))
                                       (agent-q-parameters--misfit property value))))
                    (and problem (format "has a %s that %s" name problem))))
                (plist-get parameter :properties))))

(defun agent-q-parameters--of-type-p (type value)
  "Whether VALUE, a JSON value, is of TYPE."
  (pcase type
    (:string (stringp value))
    (:boolean (memq value '(t :false)))
    (:number (numberp value))
    (:integer (or (integerp value)
                  (and (floatp value) (= value (ftruncate value)))))
    (:object (hash-table-p value))
    (:array (vectorp value))))

;;;; To schemas

(defun agent-q-parameters-object-schema (parameters required)
  "Return the JSON Schema of an object with PARAMETERS, some of them REQUIRED."
  (let ((schema (agent-q-json-empty-object))
        (properties (agent-q-json-empty-object)))
    (dolist (parameter parameters)
      (puthash (plist-get parameter :name)
               (agent-q-parameters-schema parameter) properties))
    (puthash "type" "object" schema)
    (puthash "properties" properties schema)
    (puthash "required" (vconcat required) schema)
    schema))

(defun agent-q-parameters-schema (parameter)
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
                           (agent-q-parameters-schema (plist-get parameter :items))
                         (agent-q-json-empty-object))
               schema))
    (when (plist-member parameter :properties)
      (let ((object (agent-q-parameters-object-schema (plist-get parameter :properties)
                                                      (plist-get parameter :required))))
        (puthash "properties" (gethash "properties" object) schema)
        (puthash "required" (gethash "required" object) schema)))
    (when (plist-member parameter :default)
      (puthash "default" (plist-get parameter :default) schema))
    (dolist (key '(:minimum :maximum))
      (when (plist-get parameter key)
        (puthash (substring (symbol-name key) 1) (plist-get parameter key) schema)))
    schema))

;;;; From schemas

(defun agent-q-parameters-of-schema (schema)
  "Return the properties of SCHEMA as parameters are written in definitions.
What a definition can't say is left out."
  (let ((properties (gethash "properties" schema))
        (parameters nil))
    (when (hash-table-p properties)
      (maphash (lambda (name property)
                 (push (append (list :name name) (agent-q-parameters--of-property property))
                       parameters))
               properties))
    (nreverse parameters)))

(defun agent-q-parameters--of-property (schema)
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
                                  ("items" (agent-q-parameters--of-property value))
                                  ("properties" (agent-q-parameters-of-schema schema))
                                  (_ value))))))))
      parameter)))

(provide 'agent-q-parameters)
;;; agent-q-parameters.el ends here
