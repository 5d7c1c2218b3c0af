;;; agent-q-tool-test.el --- Tests of defining and finding tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The contracts' rules and examples, in Emacs Lisp.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defun agent-q-tool-test--define (&rest changes)
  "Define a tool as usual but for CHANGES, a property list of arguments."
  (let ((arguments (append changes
                           (list :name "greet" :description "Greet somebody."
                                 :parameters '((:name "name" :type :string
                                                      :description "Who"))
                                 :handler #'ignore)))
        (keys nil))
    (dolist (key '(:required :safety-level :trust-level :categories :category
                             :handler :async))
      (when (plist-member arguments key)
        (setq keys (append keys (list key (plist-get arguments key))))))
    (apply #'agent-q-define-tool (plist-get arguments :name)
           (plist-get arguments :description) (plist-get arguments :parameters)
           keys)))

(defun agent-q-tool-test--problem (&rest changes)
  "Return why a tool with CHANGES can't be defined."
  (cadr (should-error (apply #'agent-q-tool-test--define changes)
                      :type 'agent-q-invalid-tool)))

(defun agent-q-tool-test--parameter (&rest parameter)
  "Return why a tool with the one PARAMETER, a property list, can't be defined."
  (agent-q-tool-test--problem :parameters (list parameter)))

;;;; Invariants

(ert-deftest agent-q-tools-names-are-in-snake-case ()
  (dolist (name '("sayHello" "say-hello" "_x" "1x" "Say" "" nil say "a b" "a\nb"))
    (should (string-match-p "name" (agent-q-tool-test--problem :name name))))
  (dolist (name '("a" "describe_symbol" "x2" "a__b"))
    (should (equal (agent-q-tool-name (agent-q-tool-test--define :name name)) name))))

(ert-deftest agent-q-tools-need-a-description ()
  (dolist (description '("" "  " nil describe))
    (should (string-match-p "empty"
                            (agent-q-tool-test--problem :description description)))))

(ert-deftest agent-q-tools-required-parameters-exist ()
  (should (string-match-p "nmae is not among the parameters"
                          (agent-q-tool-test--problem :required '("name" "nmae"))))
  (agent-q-tool-test--problem :required '(name))
  (agent-q-tool-test--problem :required "name")
  (should (equal (agent-q-tool-required
                  (agent-q-tool-test--define :required '("name")))
                 '("name"))))

(ert-deftest agent-q-tools-levels-are-checked-and-have-aliases ()
  (should (eq (agent-q-tool-safety-level (agent-q-tool-test--define)) :safe))
  (pcase-dolist (`(,given . ,level)
                 '((:safe . :safe) (:cautious . :cautious) (:moderate . :cautious)
                   (:dangerous . :dangerous)))
    (should (eq level (agent-q-tool-safety-level
                       (agent-q-tool-test--define :safety-level given))))
    (should (eq level (agent-q-tool-safety-level
                       (agent-q-tool-test--define :trust-level given)))))
  (should (string-match-p ":mild is not a safety level"
                          (agent-q-tool-test--problem :safety-level :mild))))

(ert-deftest agent-q-tools-categories-are-keywords ()
  (should-not (agent-q-tool-categories (agent-q-tool-test--define)))
  (should (equal (agent-q-tool-categories
                  (agent-q-tool-test--define :categories '(:introspection :xref)))
                 '(:introspection :xref)))
  (should (equal (agent-q-tool-categories
                  (agent-q-tool-test--define :category :introspection))
                 '(:introspection)))
  (agent-q-tool-test--problem :categories '("xref"))
  (agent-q-tool-test--problem :categories :xref))

(ert-deftest agent-q-tools-handlers-take-the-arguments ()
  (agent-q-tool-test--problem :handler nil)
  (agent-q-tool-test--problem :handler 'agent-q-tools-test-no-function)
  (agent-q-tool-test--problem :handler (lambda () 1))
  (agent-q-tool-test--problem :handler (lambda (_a _b) 1))
  (agent-q-tool-test--problem :handler (lambda (_a) 1) :async t)
  (should (agent-q-tool-test--define :handler (lambda (_a _b) 1) :async t))
  (should (agent-q-tool-test--define :handler (lambda (_a &optional _b) 1)))
  ;; Not loaded only because it is named.
  (autoload 'agent-q-tools-test-autoloaded "agent-q-tools-test-no-such-file")
  (should (agent-q-tool-test--define :handler 'agent-q-tools-test-autoloaded)))

(ert-deftest agent-q-tools-parameters-are-checked ()
  (agent-q-tool-test--problem :parameters "name")
  (agent-q-tool-test--problem :parameters '("name"))
  (should (string-match-p "twice" (agent-q-tool-test--problem
                                   :parameters '((:name "a" :type :string)
                                                 (:name "a" :type :number)))))
  (should (string-match-p "no name" (agent-q-tool-test--parameter :type :string)))
  (should (string-match-p "unknown parameter type :text"
                          (agent-q-tool-test--parameter :name "a" :type :text)))
  (agent-q-tool-test--parameter :name "a")
  (agent-q-tool-test--parameter :name "a" :type :string :desciption "misspelt")
  (agent-q-tool-test--parameter :name "a" :type :string :description 1)
  (agent-q-tool-test--parameter :name "a" :type :string :items '(:type :string))
  (agent-q-tool-test--parameter :name "a" :type :array :items '(:type :text))
  (agent-q-tool-test--parameter :name "a" :type :array :items :string)
  (agent-q-tool-test--parameter :name "a" :type :string
                                :properties '((:name "b" :type :string)))
  (should (string-match-p "parameter a, parameter b"
                          (agent-q-tool-test--parameter
                           :name "a" :type :object
                           :properties '((:name "b" :type :text)))))
  (agent-q-tool-test--parameter :name "a" :type :object :required '("c")
                                :properties '((:name "b" :type :string)))
  (agent-q-tool-test--parameter :name "a" :type :string :enum nil)
  (agent-q-tool-test--parameter :name "a" :type :string :minimum 1)
  (agent-q-tool-test--parameter :name "a" :type :number :minimum "1")
  (agent-q-tool-test--parameter :name "a" :type :number :minimum 2 :maximum 1)
  (agent-q-tool-test--parameter :name "a" :type :integer :default 1.5)
  (agent-q-tool-test--parameter :name "a" :type :string :default nil)
  (agent-q-tool-test--parameter :name "a" :type :string :enum '("x") :default "y"))

(ert-deftest agent-q-tools-numbers-fit-json ()
  (dolist (number (list (expt 2 64) (- (expt 10 30)) 1.0e+INF -1.0e+INF 0.0e+NaN))
    (dolist (parameter `((:type :number :maximum ,number) (:type :number :minimum ,number)
                         (:type :number :default ,number) (:type :number :enum (1 ,number))
                         (:type :array :default (1 (,number)))
                         (:type :array :items (:type :number :maximum ,number))
                         (:type :object :default (:a ,number))))
      (should (string-match-p "can't hold the number"
                              (apply #'agent-q-tool-test--parameter :name "a" parameter)))))
  (let ((limits (list :minimum (- (expt 2 63)) :maximum (1- (expt 2 63)))))
    (agent-q-test-with-tools ((agent-q-tool-test--define
                               :parameters `((:name "n" :type :integer ,@limits))))
      (should (equal (agent-q-test-content "greet" '(:n 1)) "nil")))))

(ert-deftest agent-q-tools-parameters-that-can-never-be-given ()
  (pcase-dolist (`(,problem . ,parameter)
                 `(("the value 1 is not of type :string" :type :string :enum (1 2))
                   ("the default 3 is greater than :maximum"
                    :type :number :default 3 :maximum 1.5)
                   ("the default 0 is less than :minimum" :type :integer :default 0 :minimum 1)
                   ("the value 9 is greater" :type :integer :enum (1 9) :maximum 8)
                   ("has an item that is not in :enum" :type :array :default ("c")
                    :items (:type :string :enum ("a" "b")))
                   ("has an item that is not of type :string" :type :array :default (1)
                    :items (:type :string))
                   ("lacks b, which is required" :type :object :default (:c 1)
                    :required ("b") :properties ((:name "b" :type :string)))
                   ("has a b that is not of type" :type :object :default (:b 1)
                    :properties ((:name "b" :type :string)))
                   ("can't hold a" :type :string :enum ("a" ,(lambda () 1)))
                   ("can't hold a" :type :array :default ,(lambda () 1))
                   ("not a non-empty list" :type :string :enum ("a" . "b"))
                   ("not a non-empty list" :type :string :enum "ab")
                   ("not a non-empty list" :type :string :enum [])
                   ("names something twice" :type :object :required ("b" "b")
                    :properties ((:name "b" :type :string)))))
    (should (string-match-p (regexp-quote problem)
                            (apply #'agent-q-tool-test--parameter :name "a" parameter))))
  (should (string-match-p "names something twice"
                          (agent-q-tool-test--problem :required '("name" "name"))))
  (agent-q-tool-test--problem :required '("name" . "name"))
  (should (string-match-p "has no name"
                          (agent-q-tool-test--parameter :name " " :type :string))))

(ert-deftest agent-q-tools-values-are-written-as-lisp-has-them ()
  (let ((tool (agent-q-tool-test--define
               :parameters '((:name "mode" :type :string :enum (a b) :default a)
                             (:name "size" :type :number :enum (1 2) :default 2.0)
                             (:name "loud" :type :boolean :enum (t nil) :default nil)
                             (:name "pairs" :type :array :default (("p" "q")))
                             (:name "flags" :type :array :items (:type :boolean)
                                    :default (nil t))))))
    (should (equal
             (agent-q-json-encode (gethash "properties" (agent-q-tool-schema tool)))
             (concat "{\"mode\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"],\"default\":\"a\"},"
                     "\"size\":{\"type\":\"number\",\"enum\":[1,2],\"default\":2.0},"
                     "\"loud\":{\"type\":\"boolean\",\"enum\":[true,false],\"default\":false},"
                     "\"pairs\":{\"type\":\"array\",\"items\":{},\"default\":[[\"p\",\"q\"]]},"
                     "\"flags\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},"
                     "\"default\":[false,true]}}")))
    (agent-q-test-with-tools (tool)
      (should (equal (agent-q-test-content "greet" '(:mode "b" :size 1 :loud :false)) "nil"))
      (should (string-match-p "loud" (agent-q-test-error "greet" '(:loud "t")))))))

;;;; Schemas

(ert-deftest agent-q-tools-schema-is-the-contracts ()
  (let ((tool (agent-q-define-tool
               "describe_symbol" "Get detailed information about a Lisp symbol."
               '((:name "symbol" :type :string :description "Symbol name to describe")
                 (:name "package" :type :string :description "Package name (optional)"))
               :required '("symbol") :handler #'ignore)))
    (should (equal (agent-q-tools-to-schema (list tool))
                   '((:type "function"
                      :function
                      (:name "describe_symbol"
                       :description "Get detailed information about a Lisp symbol."
                       :parameters
                       (:type "object"
                        :properties
                        (:symbol (:type "string" :description "Symbol name to describe")
                         :package (:type "string" :description "Package name (optional)"))
                        :required ("symbol")))))))
    (should (equal (gethash "required" (agent-q-tool-schema tool)) ["symbol"]))))

(ert-deftest agent-q-tools-schema-of-one-tool ()
  (let ((tool (agent-q-tool-test--define)))
    (should (equal (list (agent-q-tool-to-schema tool)) (agent-q-tools-to-schema (list tool)))))
  (should-error (agent-q-tool-to-schema "greet") :type 'agent-q-error))

(ert-deftest agent-q-tools-schema-says-nothing-of-what-is-not-described ()
  (let ((tool (agent-q-define-tool "t_bare" "Do." '((:name "x" :type :string))
                                     :handler #'ignore)))
    (should (equal "{\"x\":{\"type\":\"string\"}}"
                   (agent-q-json-encode (gethash "properties" (agent-q-tool-schema tool)))))))

(ert-deftest agent-q-tools-schema-without-parameters-has-empty-properties ()
  (let* ((tool (agent-q-tool-test--define :parameters nil))
         (schema (car (agent-q-tools-to-schema (list tool)))))
    (should (string-match-p (regexp-quote "\"properties\":{}")
                            (agent-q-json-encode schema)))
    (should (equal (agent-q-json-encode (agent-q-tool-schema tool))
                   "{\"type\":\"object\",\"properties\":{},\"required\":[]}"))))

(ert-deftest agent-q-tools-schemas-stay-what-they-are-as-lists ()
  (let* ((tools (list (agent-q-tool-test--define :parameters nil)
                      (agent-q-tool-test--define
                       :parameters
                       '((:name "none" :type :array :default nil)
                         (:name "pairs" :type :array :default [["p" "q"] []])
                         (:name "objects" :type :array :default [(:a 1) (:b [])])
                         (:name "off" :type :boolean :enum (:false t))
                         (:name "who" :type :object :properties
                                ((:name "x" :type :integer :default 1)))))
                      (agent-q-create-tool
                       "foreign" "Of another kind."
                       "{\"properties\":{\"a\":{\"enum\":[null,1,[[\"k\",1]]]}},\"required\":[],\"type\":\"object\"}"
                       #'ignore)))
         (schemas (agent-q-tools-to-schema tools)))
    (cl-mapc
     (lambda (tool schema)
       (let ((parameters (plist-get (plist-get schema :function) :parameters)))
         (should (equal (agent-q-json-encode parameters)
                        (agent-q-json-encode (agent-q-tool-schema tool))))
         (should (hash-table-p (agent-q-validate-tool-args parameters nil)))))
     tools schemas)
    (should (equal (gethash "pairs" (agent-q-validate-tool-args
                                     (plist-get (plist-get (cadr schemas) :function)
                                                :parameters)
                                     nil))
                   [["p" "q"] []]))))

(ert-deftest agent-q-tools-schema-has-all-that-was-said ()
  (let ((tool (agent-q-tool-test--define
               :parameters
               '((:name "tags" :type :array :description "d" :items (:type :string))
                 (:name "any" :type :array :default nil)
                 (:name "mode" :type "string" :enum ("a" "b") :default "a")
                 (:name "loud" :type :boolean :default nil)
                 (:name "limit" :type :integer :minimum 1 :maximum 50)
                 (:name "who" :type :object :required ("city")
                        :properties ((:name "city" :type :string)))))))
    (should (equal
             (agent-q-json-encode (gethash "properties" (agent-q-tool-schema tool)))
             (concat
              "{\"tags\":{\"type\":\"array\",\"description\":\"d\",\"items\":{\"type\":\"string\"}},"
              "\"any\":{\"type\":\"array\",\"items\":{},\"default\":[]},"
              "\"mode\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"],\"default\":\"a\"},"
              "\"loud\":{\"type\":\"boolean\",\"default\":false},"
              "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":50},"
              "\"who\":{\"type\":\"object\",\"properties\":"
              "{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}")))
    ;; The core takes all of it, and keeps to it.
    (agent-q-test-with-tools (tool)
      (should (string-match-p "city" (agent-q-test-error "greet" '(:who (:x 1)))))
      (should (string-match-p "not one of" (agent-q-test-error "greet" '(:mode "c"))))
      (should (equal (agent-q-test-content "greet" '(:tags ["x"])) "nil")))))

;;;; Results

(ert-deftest agent-q-tools-results-are-formatted-as-in-the-contract ()
  (should (equal (agent-q-format-tool-result "a \"b\"\n") "a \"b\"\n"))
  (should (equal (agent-q-format-tool-result nil) "nil"))
  (should (equal (agent-q-format-tool-result '(1 2 3)) "(1 2 3)"))
  (should (equal (agent-q-format-tool-result '(a . "b")) "(a . \"b\")"))
  (should (equal (agent-q-format-tool-result 1.5) "1.5"))
  (should (equal (agent-q-format-tool-result 'car) "car"))
  (should (equal (agent-q-format-tool-result [1 "x"]) "[1 \"x\"]"))
  (should (equal (agent-q-format-tool-result (propertize "x" 'face 'bold)) "x"))
  (let ((long (mapcar (lambda (number) (list 'item number "text")) (number-sequence 1 9))))
    (should (string-match-p "\n" (agent-q-format-tool-result long)))
    (should (equal (read (agent-q-format-tool-result long)) long)))
  (let ((circle (list 1 2)))
    (setcdr (cdr circle) circle)
    (should (equal (agent-q-format-tool-result circle) "#1=(1 2 . #1#)"))))

(ert-deftest agent-q-tools-long-lists-are-written-as-programmers-do ()
  "In all versions of Emacs, whose own printers differ."
  (pcase-dolist
      (`(,value . ,lines)
       `((,(number-sequence 1 30)
          "(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26"
          " 27 28 29 30)")
         ((:name "a_tool" :description "Whatever it is good for, in a sentence"
           :parameters ((:name "a" :type :string) (:name "b" :type :integer)))
          "(:name \"a_tool\" :description \"Whatever it is good for, in a sentence\""
          " :parameters ((:name \"a\" :type :string) (:name \"b\" :type :integer)))")
         (((item 1 "some text") (item 2 "some text") (item 3 "some text") (item 4 . "text"))
          "((item 1 \"some text\")" " (item 2 \"some text\")" " (item 3 \"some text\")"
          " (item 4 . \"text\"))")
         ((defun f (x &optional y) "What it does."
                 (let ((z (list 'quoted #'function)))
                   (when (< x (car z)) (message "%s is less than %s" x z) (list x y z))))
          "(defun f (x &optional y)"
          "  \"What it does.\""
          "  (let ((z (list 'quoted #'function)))"
          "    (when (< x (car z))"
          "      (message \"%s is less than %s\" x z)"
          "      (list x y z))))")
         ((list '(,(make-string 40 ?x) ,(make-string 40 ?y) . "tail") [,(make-string 60 ?z) 1])
          "(list"
          ,(format " '(\"%s\"" (make-string 40 ?x))
          ,(format "   \"%s\" . \"tail\")" (make-string 40 ?y))
          ,(format " [\"%s\" 1])" (make-string 60 ?z)))))
    (should (equal (agent-q-format-tool-result value) (string-join lines "\n"))))
  (random "agent-q")
  (cl-labels ((value (depth)
                (pcase (random (if (zerop depth) 3 6))
                  (0 (random 100000))
                  (1 (make-string (random 30) ?s))
                  (2 (nth (random 5) '(nil :key let |.| |a b|)))
                  (3 (vconcat (list-of depth)))
                  (4 (append (list-of depth) (random 10)))
                  (_ (list-of depth))))
              (list-of (depth)
                (cl-loop repeat (random 7) collect (value (1- depth)))))
    (dotimes (_ 300)
      (let ((list (list-of 5)))
        (should (equal list (read (agent-q-format-tool-result list)))))))
  ;; What is shared, deep or long comes to its end, and is what it was.
  (let ((doubled 'end) (deep nil))
    (dotimes (_ 60)
      (setq doubled (list doubled doubled)))
    (dotimes (_ 600)
      (setq deep (list deep)))
    (dolist (value (list (list doubled) (list deep deep) (number-sequence 1 20000)))
      (should (equal (let ((print-circle t)) (prin1-to-string value))
                     (let ((print-circle t))
                       (prin1-to-string (read (agent-q-format-tool-result value))))))))
  (let ((long (mapcar (lambda (number) (list 'entry number "text")) (number-sequence 1 800))))
    (cl-flet ((seconds (count)
                (let ((part (seq-take long count)))
                  (agent-q-test-seconds (lambda () (agent-q-format-tool-result part))))))
      ;; Eight times as long takes about eight times the time, and not sixty-four times.
      (should (agent-q-test-once (< (seconds 800) (* 40 (seconds 100))))))))

(ert-deftest agent-q-tools-json-shapes ()
  (should (equal (agent-q-json-encode '(:a 1 :b nil :c t :d :false :e :null))
                 "{\"a\":1,\"b\":null,\"c\":true,\"d\":false,\"e\":null}"))
  (should (equal (agent-q-json-encode '(("a" . 1) (b . ["x" 2.5]))) "{\"a\":1,\"b\":[\"x\",2.5]}"))
  (should (equal (agent-q-json-encode '((:a 1) (:a 2))) "[{\"a\":1},{\"a\":2}]"))
  (should (equal (agent-q-json-encode '((:a . "x") (:b 1) ("c"))) "{\"a\":\"x\",\"b\":[1],\"c\":null}"))
  (should (equal (agent-q-json-encode (agent-q-json-object '((:a 1)))) "{\"a\":[1]}"))
  (should (equal (agent-q-json-encode '("x" sym)) "[\"x\",\"sym\"]"))
  (should (equal (agent-q-json-encode (agent-q-json-empty-object)) "{}"))
  (should (equal (agent-q-json-encode (list (string #x3fffe9) "λ")) "[\"\ufffd\",\"λ\"]"))
  (let ((circle (vector 1)))
    (aset circle 0 circle)
    (dolist (value (list (list (current-buffer)) (expt 2 64) 0.0e+NaN circle
                         (lambda () 1) (list (cons (string 0) 1))))
      (should-error (agent-q-json-encode value) :type 'agent-q-error)))
  ;; What the core takes is written and read by all versions of Emacs.
  (dolist (value (list (1- (expt 2 64)) (expt 2 63) (- (expt 2 63)) "a\0b" "\\u0000"))
    (should (equal (gethash "a" (agent-q-json-parse (agent-q-json-encode (list :a value))))
                   value)))
  (should-error (agent-q-json-parse "[18446744073709551615] 1") :type 'agent-q-error)
  (should-error (agent-q-json-parse "[\"\\u0000\"") :type 'agent-q-error)
  ;; Versions of Emacs differ on names with a NUL in them, so they are refused before that.
  (should (string-match-p "name has a NUL"
                          (cadr (should-error (agent-q-json-value (list (cons "a\0b" 1)))
                                              :type 'agent-q-error))))
  (should-error (agent-q-json-parse "{") :type 'agent-q-error)
  (should (equal (agent-q-json-plist (agent-q-json-parse "{\"a\":[1,{\"b\":null}]}"))
                 '(:a (1 (:b :null))))))

;;;; The registry

(ert-deftest agent-q-tools-registering-replaces-and-keeps-the-place ()
  (let ((first (agent-q-tool-test--define :description "First."))
        (second (agent-q-tool-test--define :description "Second."))
        (other (agent-q-tool-test--define :name "other")))
    (agent-q-test-with-tools (first other)
      (should (eq (agent-q-get-tool "greet") first))
      (should (eq (agent-q-register-tool agent-q-registry second) second))
      (should (eq (agent-q-get-tool "greet") second))
      (should (equal (last (agent-q-list-registered-tools) 2) '("greet" "other")))
      (should (eq (agent-q-unregister-tool "greet") t))
      (should-not (agent-q-unregister-tool "greet"))
      (should-not (agent-q-get-tool "greet"))
      (should-not (member "greet" (agent-q-list-registered-tools))))))

(ert-deftest agent-q-tools-warn-of-what-hosts-of-other-agents-do-not-take ()
  (let ((warnings nil))
    (cl-letf (((symbol-function 'display-warning)
               (lambda (_type message &rest _) (push message warnings))))
      (cl-flet ((register (name description)
                  (setq warnings nil)
                  (let ((tool (agent-q-define-tool name description nil :handler #'ignore)))
                    (unwind-protect (agent-q-register-tool agent-q-registry tool)
                      (agent-q-unregister-tool name)))
                  warnings))
        (should-not (register (make-string 50 ?a) (make-string 2048 ?d)))
        (should (string-match-p "call it mcp__agent-q__a+,.*at most 50$"
                                (car (register (make-string 51 ?a) "Do it."))))
        (should (string-match-p "2049 characters.*after 2048"
                                (car (register "aq_long" (make-string 2049 ?d)))))))))

(ert-deftest agent-q-tools-only-tools-and-the-one-registry ()
  (should-error (agent-q-register-tool agent-q-registry "greet")
                :type 'agent-q-invalid-tool)
  (should-error (agent-q-register-tool (make-hash-table) (agent-q-tool-test--define))
                :type 'agent-q-error))

(ert-deftest agent-q-tools-are-filtered-by-level-and-category ()
  (let ((look (agent-q-tool-test--define :name "t_look" :categories '(:t-a :t-b)))
        (try (agent-q-tool-test--define :name "t_try" :safety-level :cautious
                                        :categories '(:t-c)))
        (erase (agent-q-tool-test--define :name "t_erase" :safety-level :dangerous
                                          :categories '(:t-b))))
    (agent-q-test-with-tools (look try erase)
      (cl-flet ((names (&rest filter)
                  (seq-filter (lambda (name) (string-prefix-p "t_" name))
                              (mapcar #'agent-q-tool-name
                                      (apply #'agent-q-get-tools filter)))))
        (should (equal (names) '("t_look" "t_try" "t_erase")))
        (should (equal (names :max-safety-level :safe) '("t_look")))
        (should (equal (names :max-safety-level :moderate) '("t_look" "t_try")))
        (should (equal (names :max-safety-level :dangerous) '("t_look" "t_try" "t_erase")))
        (should (equal (names :categories '(:t-b :t-c)) '("t_look" "t_try" "t_erase")))
        (should (equal (names :categories '(:t-b) :max-safety-level :cautious) '("t_look")))
        ;; As in definitions, plain symbols are keywords.
        (should (equal (names :categories '(t-b :t-c)) '("t_look" "t_try" "t_erase")))
        ;; A misspelt category must not look like one without tools.
        (dolist (categories '((:t-d) (:t-b t-d) ("t-b") (nil)))
          (should (string-match-p
                   "\\`No tool has the category .*; there are :.*, :t-a, :t-b, :t-c"
                   (cadr (should-error (agent-q-get-tools :categories categories)
                                       :type 'agent-q-error)))))))))

(ert-deftest agent-q-tools-builtin-ones-look-like-others ()
  (let ((tool (agent-q-get-tool "describe_symbol")))
    (should (eq tool (agent-q-get-tool "describe_symbol")))
    (should (eq (agent-q-tool-safety-level tool) :safe))
    (should (memq :introspection (agent-q-tool-categories tool)))
    (should (equal (mapcar (lambda (parameter) (plist-get parameter :name))
                           (agent-q-tool-parameters tool))
                   '("symbol" "package")))
    (should (equal (agent-q-tool-required tool) '("symbol")))
    (should (equal (plist-get (car (agent-q-tool-parameters tool)) :type) :string))
    (should-not (agent-q-get-tool "nonexistent")))
  (dolist (tool (agent-q-get-tools))
    (should-not (string-blank-p (agent-q-tool-description tool)))
    (should (functionp (agent-q-tool-handler tool)))
    (should (listp (agent-q-tool-parameters tool)))))

(ert-deftest agent-q-tools-builtin-ones-can-be-removed-and-come-back ()
  (let ((all (agent-q-register-builtin-tools)))
    (should (equal all (length (agent-q-list-registered-tools))))
    (should (eq (agent-q-unregister-tool "read_buffer") t))
    (should-not (agent-q-get-tool "read_buffer"))
    (should (equal (agent-q-register-builtin-tools) all))
    (should (equal (agent-q-register-builtin-tools) all))
    (let ((builtin (agent-q-get-tool "read_buffer"))
          (mine (agent-q-tool-test--define :name "read_buffer")))
      (agent-q-register-tool agent-q-registry mine)
      (should (equal (agent-q-test-content "read_buffer" nil) "nil"))
      (should (eq (agent-q-register-tool agent-q-registry builtin) builtin))
      (should (eq (agent-q-get-tool "read_buffer") builtin)))))

(ert-deftest agent-q-tools-a-builtin-handler-goes-through-the-pipeline ()
  (with-temp-buffer
    (rename-buffer "agent-q-tool-test")
    (insert "text of this buffer")
    (let ((arguments (agent-q-json-empty-object))
          (handler (agent-q-tool-handler (agent-q-get-tool "read_buffer"))))
      (puthash "buffer" "agent-q-tool-test" arguments)
      (should (string-match-p "text of this buffer" (funcall handler arguments)))
      (puthash "start" "one" arguments)
      (should-error (funcall handler arguments) :type 'agent-q-error))))

(provide 'agent-q-tool-test)
;;; agent-q-tool-test.el ends here
