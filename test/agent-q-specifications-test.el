;;; agent-q-specifications-test.el --- Tests of specifications and libraries  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The gram contract's examples, in Emacs Lisp.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)
(require 'agent-q-specifications)

(defconst agent-q-specifications-test--signature
  "(::Text {paramName:\"name\"})==>(::String)"
  "The contract's signature.")

(defconst agent-q-specifications-test--description
  "Returns a friendly greeting message for the given name"
  "The contract's description.")

(defconst agent-q-specifications-test--schema
  '(:type "object" :properties (:name (:type "string")) :required ["name"])
  "The contract's schema.")

(defun agent-q-specifications-test--spec (&rest changes)
  "Return the contract's specification but for CHANGES, a property list."
  (agent-q-create-tool-specification
   (or (plist-get changes :name) "sayHello")
   (or (plist-get changes :description) agent-q-specifications-test--description)
   (or (plist-get changes :signature) agent-q-specifications-test--signature)))

(defun agent-q-specifications-test--tool (&rest changes)
  "Return the contract's tool but for CHANGES, a property list."
  (agent-q-create-tool
   (or (plist-get changes :name) "sayHello")
   (or (plist-get changes :description) agent-q-specifications-test--description)
   (or (plist-get changes :schema) agent-q-specifications-test--schema)
   (lambda (arguments)
     (format "Hello, %s! Nice to meet you." (gethash "name" arguments)))))

(defun agent-q-specifications-test--library (&rest tools)
  "Return a library of TOOLS."
  (let ((library (agent-q-empty-tool-library)))
    (dolist (tool tools)
      (setq library (agent-q-library-register (agent-q-tool-name tool) tool library)))
    library))

;;;; Signatures

(ert-deftest agent-q-specifications-signatures-are-parsed ()
  (should (equal (agent-q-parse-type-signature
                  (concat "(::Text {paramName:\"name\"})"
                          "==>(::Int {paramName:\"age\", optional:true})==>(::String)"))
                 '(:parameters ((:name "name" :type "Text" :optional nil)
                                (:name "age" :type "Int" :optional t))
                   :return "String")))
  (should (equal (agent-q-parse-type-signature "()==>(::String)")
                 '(:parameters nil :return "String")))
  (should (equal (agent-q-parse-type-signature
                  (concat "(::Object {paramName:\"p\", fields:[{name:\"a\", type:\"Text\"}]})"
                          "==>(::Array {paramName:\"t\", elementType:\"Int\", optional:true})"
                          "==>(::String)"))
                 '(:parameters
                   ((:name "p" :type "Object" :optional nil
                           :fields ((:name "a" :type "Text" :optional nil)))
                    (:name "t" :type "Array" :optional t :element (:type "Int")))
                   :return "String"))))

(ert-deftest agent-q-specifications-types-have-the-names-that-were-written ()
  (should (equal (agent-q-parse-type-signature
                  "(personName::String {default:\"world\"})==>(n::Integer)==>(::Int)")
                 '(:parameters ((:name "personName" :type "String" :optional t
                                       :default "world")
                                (:name "n" :type "Integer" :optional nil))
                   :return "Int"))))

(ert-deftest agent-q-specifications-errors-say-where ()
  (pcase-let ((`(,condition ,message ,line ,column ,expected)
               (should-error (agent-q-parse-type-signature "(::Text\n  ==>(::String)")
                             :type 'agent-q-gram-error)))
    (should (eq condition 'agent-q-gram-error))
    (should (equal (list line column) '(2 3)))
    (should (string-match-p "line 2, column 3" message))
    (should (string-match-p ")" expected)))
  (dolist (text '("(name: Text) --> IO Text" "(::Maybe Text)==>(::String)" ""))
    (should-error (agent-q-type-signature-to-json-schema text) :type 'agent-q-gram-error)
    (should-error (agent-q-specifications-test--spec :signature text)
                  :type 'agent-q-gram-error)))

(ert-deftest agent-q-specifications-signatures-become-schemas ()
  (should (equal (agent-q-json-encode
                  (agent-q-type-signature-to-json-schema
                   agent-q-specifications-test--signature))
                 (agent-q-json-encode agent-q-specifications-test--schema)))
  (should (equal (agent-q-json-encode
                  (agent-q-type-signature-to-json-schema "()==>(::String)"))
                 "{\"type\":\"object\",\"properties\":{},\"required\":[]}")))

(ert-deftest agent-q-specifications-arguments-are-validated ()
  (let ((schema '(:type "object"
                  :properties (:name (:type "string")
                               :limit (:type "integer" :default 10)
                               :address (:type "object" :required ["city"]
                                         :properties (:city (:type "string"))))
                  :required ["name"])))
    (let ((checked (agent-q-validate-tool-args schema '(:name "Alice"))))
      (should (equal (gethash "name" checked) "Alice"))
      (should (equal (gethash "limit" checked) 10)))
    (pcase-let ((`(,_ ,message)
                 (should-error (agent-q-validate-tool-args
                                schema '(:limit 1.5 :address (:x 1)))
                               :type 'agent-q-invalid-arguments)))
      (should (string-match-p "^Missing required field: name" message))
      (should (string-match-p "^limit: Field must be an integer" message))
      (should (string-match-p "^address: Missing required field: city" message)))
    (should-error (agent-q-validate-tool-args schema "[]") :type 'agent-q-invalid-arguments)
    (should-error (agent-q-validate-tool-args "[]" "{}") :type 'agent-q-invalid-arguments)))

(ert-deftest agent-q-specifications-what-is-required-has-to-be-there ()
  (let ((schema '(:properties (:n (:type "integer" :default 5)
                               :page (:properties (:size (:default 20)) :required ["size"]))
                  :required ["n"])))
    (pcase-dolist (`(,arguments . ,missing) '(("{}" . "n") ("{\"n\":1,\"page\":{}}" . "size")))
      (should (string-match-p
               (concat "Missing required field: " missing)
               (cadr (should-error (agent-q-validate-tool-args schema arguments)
                                   :type 'agent-q-invalid-arguments))))))
  ;; Calls are checked by the same rule.
  (agent-q-test-with-tools ((agent-q-define-tool
                             "t_n" "A tool of a test." '((:name "n" :type :integer :default 5))
                             :required '("n") :handler (lambda (_) "ran")))
    (should (string-match-p "Missing required field: n" (agent-q-test-error "t_n" nil)))
    (should (equal (agent-q-test-content "t_n" '(:n 1)) "ran"))))

(ert-deftest agent-q-specifications-valid-arguments-come-back-whatever-is-in-them ()
  (dolist (value (list "a\0b" (string 0) (expt 2 63) (1- (expt 2 64)) (- (expt 2 63))))
    (let ((schema "{\"properties\":{\"a\":{\"type\":[\"string\",\"integer\"]}}}"))
      (should (equal (gethash "a" (agent-q-validate-tool-args schema (list :a value))) value))
      (should (equal (gethash "a" (agent-q-validate-tool-args
                                   (list :properties (list :a (list :default value))) nil))
                     value)))))

;;;; Specifications

(ert-deftest agent-q-specifications-are-made-and-read ()
  (let ((spec (agent-q-specifications-test--spec)))
    (should (equal (agent-q-tool-spec-name spec) "sayHello"))
    (should (equal (agent-q-tool-spec-description spec)
                   agent-q-specifications-test--description))
    (should (equal (agent-q-tool-spec-type-signature spec)
                   agent-q-specifications-test--signature))
    (should (equal (agent-q-json-encode (agent-q-tool-spec-schema spec))
                   (agent-q-json-encode agent-q-specifications-test--schema)))
    (should (string-match-p "empty" (cadr (should-error
                                           (agent-q-create-tool-specification
                                            "" "d" agent-q-specifications-test--signature)
                                           :type 'agent-q-error))))
    (should (string-match-p "empty" (cadr (should-error
                                           (agent-q-create-tool-specification
                                            "n" "" agent-q-specifications-test--signature)
                                           :type 'agent-q-error))))))

(ert-deftest agent-q-specifications-round-trips-keep-all ()
  (dolist (spec (list (agent-q-specifications-test--spec)
                      (agent-q-specifications-test--spec
                       :description "Says \"hello\" to λ\nin two lines"
                       :signature " (::Text {paramName:\"a\"}) --> // why\n (::String)")))
    (should (equal (agent-q-json-encode (agent-q-specifications-value
                                         (agent-q-tool-spec-from-gram
                                          (agent-q-tool-spec-to-gram spec))))
                   (agent-q-tool-spec-to-json spec)))
    (should (equal (agent-q-tool-spec-to-json
                    (agent-q-tool-spec-from-json (agent-q-tool-spec-to-json spec)))
                   (agent-q-tool-spec-to-json spec))))
  (should (equal (agent-q-tool-spec-to-json (agent-q-specifications-test--spec))
                 (concat "{\"name\":\"sayHello\",\"description\":"
                         "\"Returns a friendly greeting message for the given name\","
                         "\"typeSignature\":\"(::Text {paramName:\\\"name\\\"})==>(::String)\","
                         "\"schema\":{\"type\":\"object\",\"properties\":{\"name\":"
                         "{\"type\":\"string\"}},\"required\":[\"name\"]}}"))))

(ert-deftest agent-q-specifications-the-contracts-gram-is-read ()
  (let ((spec (agent-q-tool-spec-from-gram
               "[sayHello:ToolSpecification {
  description: \"Returns a friendly greeting message for the given name\"
} |
  (::Text {paramName:\"name\"})==>(::String)
]")))
    (should (equal (agent-q-tool-spec-to-json spec)
                   (agent-q-tool-spec-to-json (agent-q-specifications-test--spec))))))

(ert-deftest agent-q-specifications-a-schema-read-back-is-made-anew ()
  (let ((json (agent-q-json-parse
               (agent-q-tool-spec-to-json (agent-q-specifications-test--spec)))))
    (puthash "schema" (agent-q-json-empty-object) json)
    (should (equal (agent-q-json-encode
                    (agent-q-tool-spec-schema (agent-q-tool-spec-from-json json)))
                   (agent-q-json-encode agent-q-specifications-test--schema)))))

;;;; Tools and libraries

(ert-deftest agent-q-specifications-tools-keep-their-names-and-are-dangerous ()
  (let ((tool (agent-q-specifications-test--tool)))
    (should (equal (agent-q-tool-name tool) "sayHello"))
    (should (eq (agent-q-tool-safety-level tool) :dangerous))
    (agent-q-test-with-tools (tool)
      (should (string-match-p "approval" (agent-q-test-error "sayHello" '(:name "A"))))
      (let ((agent-q-tool-levels '(("sayHello" . :safe))))
        (should (equal (agent-q-test-content "sayHello" '(:name "Alice"))
                       "Hello, Alice! Nice to meet you."))
        (should (string-match-p "Missing required field: name"
                                (agent-q-test-error "sayHello" nil))))))
  (should-error (agent-q-create-tool "" "d" "{}" #'ignore) :type 'agent-q-invalid-tool)
  (should-error (agent-q-create-tool "n" "" "{}" #'ignore) :type 'agent-q-invalid-tool)
  (should-error (agent-q-create-tool "n" "d" "[]" #'ignore) :type 'agent-q-invalid-tool)
  (should-error (agent-q-create-tool "n" "d" '(:type "objekt") #'ignore)
                :type 'agent-q-invalid-tool)
  (should-error (agent-q-create-tool "n" "d" "{}" nil) :type 'agent-q-invalid-tool))

(ert-deftest agent-q-specifications-schemas-in-lists-may-have-empty-ones ()
  (let* ((schema '(:type "object" :required nil
                   :properties (:a (:type "object" :properties nil :required nil)
                                :b (:type "array" :default nil))))
         (tool (agent-q-create-tool "n" "d" schema #'ignore)))
    (should-not (agent-q-tool-required tool))
    (should (equal (agent-q-json-encode (agent-q-tool-schema tool))
                   (concat "{\"type\":\"object\",\"required\":[],\"properties\":{"
                           "\"a\":{\"type\":\"object\",\"properties\":{},\"required\":[]},"
                           "\"b\":{\"type\":\"array\",\"default\":null}}}")))
    (should (hash-table-p (agent-q-validate-tool-args
                           '(:type "object" :required nil) nil))))
  (dolist (schema '("{\"required\":5}" (:required 5) (:required "a") (:required [5])
                    (:properties 5) "{\"required\":null}" "{" 5))
    (should-error (agent-q-create-tool "n" "d" schema #'ignore)
                  :type 'agent-q-invalid-tool))
  (should-error (agent-q-create-tool "n" "d" (list :default (current-buffer)) #'ignore)
                :type 'agent-q-invalid-tool))

(ert-deftest agent-q-specifications-tools-have-the-parameters-of-their-schema ()
  (should (equal (agent-q-tool-parameters
                  (agent-q-define-tool-from-signature
                   "say_hello" "Greet."
                   (concat "(::Text {paramName:\"name\"})"
                           "==>(::Int {paramName:\"age\", optional:true})==>(::String)")
                   #'ignore))
                 '((:name "name" :type :string) (:name "age" :type :integer))))
  (should (equal (agent-q-tool-parameters
                  (agent-q-create-tool
                   "n" "d"
                   '(:properties (:a (:type "array" :items (:type "string") :minItems 1)
                                  :b t :c (:type ["string" "null"] :description "C")
                                  :d (:enum ["x" 1])))
                   #'ignore))
                 '((:name "a" :type :array :items (:type :string))
                   (:name "b") (:name "c" :description "C") (:name "d" :enum ("x" 1)))))
  (should-not (agent-q-tool-parameters (agent-q-create-tool "n" "d" "{}" #'ignore))))

(ert-deftest agent-q-specifications-tools-are-defined-by-signature ()
  (let ((tool (agent-q-define-tool-from-signature
               "say_hello" "Greet somebody." agent-q-specifications-test--signature
               (lambda (arguments) (concat "Hello " (gethash "name" arguments)))
               :safety-level :safe :categories '(:social))))
    (agent-q-test-with-tools (tool)
      (should (equal (agent-q-test-content "say_hello" '(:name "Bob")) "Hello Bob"))
      (should (equal (agent-q-tools-to-schema (agent-q-get-tools :categories '(:social)))
                     '((:type "function"
                        :function (:name "say_hello" :description "Greet somebody."
                                   :parameters
                                   (:type "object" :properties (:name (:type "string"))
                                    :required ("name")))))))))
  (should (eq (agent-q-tool-safety-level
               (agent-q-define-tool-from-signature
                "say_hello" "Greet." agent-q-specifications-test--signature #'ignore))
              :dangerous))
  (should-error (agent-q-define-tool-from-signature "a" "d" "(::Text" #'ignore)
                :type 'agent-q-gram-error))

(ert-deftest agent-q-specifications-schemas-are-sent-complete ()
  "Providers refuse arrays without items and objects without properties."
  (let* ((listed (agent-q-define-tool-from-signature
                  "t_list" "Take a list." "(l::Array)==>(o::Object)==>(::String)" #'ignore))
         (bare (agent-q-create-tool "t_bare" "Take anything." "{}" #'ignore))
         (before (agent-q-json-encode (agent-q-tool-schema listed)))
         (json (lambda (tool)
                 (agent-q-json-encode
                  (plist-get (plist-get (car (agent-q-tools-to-schema (list tool)))
                                        :function)
                             :parameters)))))
    (should (equal (funcall json listed)
                   (concat "{\"type\":\"object\",\"properties\":{"
                           "\"l\":{\"type\":\"array\",\"items\":{}},"
                           "\"o\":{\"type\":\"object\",\"properties\":{}}},"
                           "\"required\":[\"l\",\"o\"]}")))
    (should (equal (funcall json bare) "{\"type\":\"object\",\"properties\":{}}"))
    ;; Binding compares what was written.
    (should (equal before (agent-q-json-encode (agent-q-tool-schema listed))))))

(ert-deftest agent-q-specifications-names-are-those-that-providers-take ()
  (dolist (name (list "sp ace" "a.b" "é" (make-string 65 ?x)))
    (should (string-match-p
             "Providers do not accept"
             (cadr (should-error (agent-q-create-tool name "d" "{}" #'ignore)
                                 :type 'agent-q-invalid-tool)))))
  (should (agent-q-create-tool (make-string 64 ?x) "d" "{}" #'ignore)))

(ert-deftest agent-q-specifications-numbers-never-change-silently ()
  (let ((schema "{\"properties\":{\"a\":{\"items\":{\"type\":\"integer\"}}}}")
        (big "123456789012345678901234567890"))
    (should (string-match-p
             (concat "\\`a\\[1\\]: " big " does not fit into 64 bits")
             (cadr (should-error
                    (agent-q-validate-tool-args schema (format "{\"a\":[1,%s]}" big))
                    :type 'agent-q-invalid-arguments))))
    (should (equal (gethash "a" (agent-q-validate-tool-args
                                 schema "{\"a\":[9223372036854775807,-2]}"))
                   [9223372036854775807 -2]))
    (agent-q-test-with-tools ((agent-q-test-tool "t_ok" (lambda (_) "ran")))
      (should (string-match-p (concat "text: " big " does not fit")
                              (agent-q-test-error "t_ok" (format "{\"text\":%s}" big)))))
    ;; Those of schemas neither.
    (dolist (key '("default" "minimum" "maximum" "const"))
      (let ((schema (format "{\"properties\":{\"n\":{\"%s\":%s}}}" key big)))
        (should (string-match-p
                 (format "properties\\.n\\.%s: %s does not fit" key big)
                 (cadr (should-error (agent-q-validate-tool-args schema "{}")
                                     :type 'agent-q-invalid-arguments))))
        (should (string-match-p
                 (concat big ".*64 bits")
                 (cadr (should-error (agent-q-create-tool "t" "d" schema #'ignore)
                                     :type 'agent-q-invalid-tool))))))))

(ert-deftest agent-q-specifications-integers-of-signatures-keep-their-digits ()
  (pcase-dolist (`(,written . ,number) `(("9223372036854775808" . ,(expt 2 63))
                                         ("18446744073709551615" . ,(1- (expt 2 64)))
                                         ("0xFFFFFFFFFFFFFFFF" . ,(1- (expt 2 64)))
                                         ("-9223372036854775808" . ,(- (expt 2 63)))))
    (let* ((signature (format "(n::Int {default:%s, enum:[%s]})==>(::Text)" written written))
           (schema (agent-q-type-signature-to-json-schema signature))
           (n (gethash "n" (gethash "properties" schema)))
           (spec (agent-q-create-tool-specification "t_big" "d" signature)))
      (should (equal (gethash "default" n) number))
      (should (equal (gethash "enum" n) (vector number)))
      (should (equal (plist-get (car (plist-get (agent-q-parse-type-signature signature)
                                                :parameters))
                                :default)
                     number))
      (should (equal (agent-q-tool-spec-to-json spec)
                     (agent-q-tool-spec-to-json
                      (agent-q-tool-spec-from-json (agent-q-tool-spec-to-json spec)))))
      (agent-q-test-with-tools ((agent-q-define-tool-from-signature
                                 "t_big" "d" signature
                                 (lambda (arguments) (format "%d" (gethash "n" arguments)))
                                 :safety-level :safe))
        (should (equal (agent-q-test-content "t_big" nil) (number-to-string number))))))
  (pcase-let ((`(,_ ,message ,line ,column ,expected)
               (should-error (agent-q-type-signature-to-json-schema
                              "(n::Int {\n default:9999999999999999999999})==>(::Text)")
                             :type 'agent-q-gram-error)))
    (should (equal (list line column) '(2 10)))
    (should (string-match-p "64 bits" expected))
    (should (string-match-p "9999999999999999999999" message))))

(ert-deftest agent-q-specifications-schemas-are-of-objects ()
  (dolist (schema '("{\"type\":\"string\"}" (:type "array" :items (:type "string"))
                    "{\"type\":[\"string\",\"null\"]}" "{\"type\":null}"))
    (should (string-match-p
             "must describe an object"
             (cadr (should-error (agent-q-create-tool "t" "d" schema #'ignore)
                                 :type 'agent-q-invalid-tool)))))
  (dolist (schema '("{}" "{\"type\":\"object\"}" "{\"type\":[\"object\",\"null\"]}"
                    (:properties (:a (:type "string")))))
    (should (agent-q-create-tool "t" "d" schema #'ignore))))

(ert-deftest agent-q-specifications-defaults-are-filled-in-everywhere ()
  (should (equal (agent-q-json-encode
                  (agent-q-validate-tool-args
                   (concat "{\"$defs\":{\"size\":{\"properties\":{\"unit\":{\"default\":\"cm\"}}}},"
                           "\"properties\":{\"all\":{\"items\":{\"$ref\":\"#/$defs/size\"}},"
                           "\"one\":{\"$ref\":\"#/$defs/size\",\"default\":{}}}}")
                   "{\"all\":[{},{\"unit\":\"m\"}]}"))
                 (concat "{\"all\":[{\"unit\":\"cm\"},{\"unit\":\"m\"}],"
                         "\"one\":{\"unit\":\"cm\"}}"))))

(ert-deftest agent-q-specifications-libraries-never-change ()
  (let* ((empty (agent-q-empty-tool-library))
         (tool (agent-q-specifications-test--tool))
         (one (agent-q-library-register "sayHello" tool empty))
         (other (agent-q-specifications-test--tool :description "Another."))
         (two (agent-q-library-register "sayHello" other one)))
    (should-not (agent-q-library-lookup "sayHello" empty))
    (should (eq (agent-q-library-lookup "sayHello" one) tool))
    (should (eq (agent-q-library-lookup "sayHello" two) other))
    (should-not (agent-q-library-lookup "unknown" two))
    (should (string-match-p "another name"
                            (cadr (should-error
                                   (agent-q-library-register "hello" tool empty)
                                   :type 'agent-q-invalid-tool))))))

(ert-deftest agent-q-specifications-are-bound-when-all-matches ()
  (let* ((spec (agent-q-specifications-test--spec))
         (tool (agent-q-specifications-test--tool))
         (library (agent-q-specifications-test--library tool)))
    (should (eq (agent-q-bind-tool spec library) tool))
    (should-not (agent-q-bind-tool-explain spec library))
    (should-not (agent-q-bind-tool spec (agent-q-empty-tool-library)))
    (should (string-match-p "sayHello.*not found"
                            (agent-q-bind-tool-explain spec (agent-q-empty-tool-library))))
    (pcase-dolist (`(,what . ,changes)
                   '(("description" :description "Another.")
                     ("schema" :schema (:type "object" :properties (:name (:type "integer"))
                                        :required ["name"]))))
      (let ((library (agent-q-specifications-test--library
                      (apply #'agent-q-specifications-test--tool changes))))
        (should-not (agent-q-bind-tool spec library))
        (should (string-match-p what (agent-q-bind-tool-explain spec library)))))))

(ert-deftest agent-q-specifications-bind-tools-of-definitions ()
  (let* ((spec (agent-q-specifications-test--spec :name "say_hello" :description "Greet."))
         (tool (agent-q-define-tool "say_hello" "Greet." '((:name "name" :type :string))
                                    :required '("name") :handler #'ignore))
         (library (agent-q-specifications-test--library tool)))
    (should-not (agent-q-bind-tool-explain spec library))
    (should (eq (agent-q-bind-tool spec library) tool))))

(ert-deftest agent-q-specifications-wrong-types-are-said ()
  (let* ((signature agent-q-specifications-test--signature)
         (spec (agent-q-specifications-test--spec))
         (empty (agent-q-empty-tool-library)))
    (pcase-dolist
        (`(,what . ,call)
         `(("name.*a string" agent-q-create-tool-specification nil "d" ,signature)
           ("description.*a string" agent-q-create-tool-specification "n" nil ,signature)
           ("signature.*a string" agent-q-create-tool-specification "n" "d" nil)
           ("signature.*a string" agent-q-parse-type-signature nil)
           ("signature.*a string" agent-q-type-signature-to-json-schema 5)
           ("signature.*a string" agent-q-define-tool-from-signature "n" "d" nil ignore)
           ("name" agent-q-define-tool-from-signature nil "d" ,signature ignore)
           ("name" agent-q-create-tool nil "d" "{}" ignore)
           ("a string" agent-q-tool-spec-from-gram nil)
           ("a string" agent-q-agent-from-gram nil)
           ("specification" agent-q-tool-spec-to-gram nil)
           ("specification" agent-q-tool-spec-to-json "n")
           ("." agent-q-tool-spec-from-json 5)
           ("specification" agent-q-bind-tool nil ,empty)
           ("a tool library" agent-q-bind-tool ,spec nil)
           ("a tool library" agent-q-bind-tool-explain ,spec "one")
           ("a tool library" agent-q-library-lookup "n" nil)
           ("a string" agent-q-library-lookup nil ,empty)
           ("a tool library" agent-q-library-register "sayHello"
            ,(agent-q-specifications-test--tool) nil)
           ("a list of tools" agent-q-tools-to-schema 5)
           ("a tool" agent-q-tools-to-schema (nil))
           ("a string" agent-q-unregister-tool eval_form)
           ("a string" agent-q-unregister-tool nil)
           ("a list" agent-q-get-tools :categories :xref)
           ("level" agent-q-get-tools :max-safety-level 5)))
      (should (string-match-p what (cadr (should-error (apply call) :type 'agent-q-error)))))))

;;;; Agents

(ert-deftest agent-q-specifications-agents-are-read-with-their-tools ()
  (let ((agent (agent-q-agent-from-gram
                "[greeter:Agent {description: \"Greets\", instruction: \"Greet people.\",
                                 model: \"OpenAI/gpt-4o-mini\"} |
                   [sayHello:Tool {description: \"Greet\"} |
                     (::Text {paramName:\"name\"})==>(::String)]]")))
    (should (equal (agent-q-agent-name agent) "greeter"))
    (should (equal (agent-q-agent-description agent) "Greets"))
    (should (equal (agent-q-agent-instruction agent) "Greet people."))
    (should (equal (agent-q-agent-model agent) '(:provider "OpenAI" :id "gpt-4o-mini")))
    (should (equal (mapcar #'agent-q-tool-spec-name (agent-q-agent-tools agent))
                   '("sayHello"))))
  (should-error (agent-q-agent-from-gram
                 "[a:Agent {instruction: \"i\", model: \"m\"} |
                    [t:Tool {description: \"d\"} | ()==>(::String)],
                    [t:Tool {description: \"d\"} | ()==>(::String)]]")
                :type 'agent-q-gram-error))

(provide 'agent-q-specifications-test)
;;; agent-q-specifications-test.el ends here
