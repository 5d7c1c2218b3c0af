;;; agent-q-contract-test.el --- The tool contracts' examples  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The example tools of the contracts as they are written there, in Emacs
;; Lisp, and what the contracts promise of them.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-registry)

(defun agent-q-contract-test--describe-symbol ()
  "Return the contract's simple safe tool."
  (agent-q-define-tool
   "describe_symbol"
   "Get detailed information about a Lisp symbol including type, value, documentation."
   '((:name "symbol" :type :string :description "Symbol name to describe")
     (:name "package" :type :string :description "Package name (optional)"))
   :required '("symbol")
   :safety-level :safe
   :categories '(:introspection)
   :handler (lambda (args)
              (let ((symbol (intern-soft (downcase (gethash "symbol" args)))))
                (if symbol
                    (documentation symbol)
                  (format "Symbol %s not found" (gethash "symbol" args)))))))

(defun agent-q-contract-test--eval-form ()
  "Return the contract's cautious tool."
  (agent-q-define-tool
   "eval_form"
   "Evaluate a Lisp form in the running image. Returns result or error."
   '((:name "form" :type :string :description "Lisp form to evaluate")
     (:name "package" :type :string :description "Package context (optional)"))
   :required '("form")
   :safety-level :cautious
   :categories '(:execution)
   :handler (lambda (args)
              (condition-case failure
                  (format "%S" (eval (read (gethash "form" args)) t))
                (error (format "Error: %s" (error-message-string failure)))))))

(defun agent-q-contract-test--write-file ()
  "Return the contract's dangerous tool."
  (agent-q-define-tool
   "write_file"
   "Write content to a file. DESTRUCTIVE - requires user approval."
   '((:name "path" :type :string :description "File path to write")
     (:name "content" :type :string :description "Content to write"))
   :required '("path" "content")
   :safety-level :dangerous
   :categories '(:buffer :filesystem)
   :handler (lambda (args)
              (let ((path (gethash "path" args))
                    (content (gethash "content" args)))
                (write-region content nil path nil 'silent)
                (format "Wrote %d bytes to %s" (length content) path)))))

(defmacro agent-q-contract-test--with-examples (&rest body)
  "Run BODY while the contracts' example tools are registered."
  (declare (indent 0) (debug t))
  `(unwind-protect
       (agent-q-test-with-tools ((agent-q-contract-test--describe-symbol)
                                 (agent-q-contract-test--eval-form)
                                 (agent-q-contract-test--write-file))
         ,@body)
     (agent-q-register-builtin-tools)))

(defun agent-q-contract-test--path (name)
  "Return a file name for NAME, which isn't there."
  (let ((path (expand-file-name name agent-q-test-directory)))
    (ignore-errors (delete-file path))
    path))

(ert-deftest agent-q-contract-the-manual-way-of-testing-a-tool ()
  (agent-q-contract-test--with-examples
    (let ((tool (agent-q-get-tool "describe_symbol"))
          (arguments (make-hash-table :test #'equal)))
      (should tool)
      (puthash "symbol" "car" arguments)
      (should (string-match-p "car of LIST"
                              (funcall (agent-q-tool-handler tool) arguments))))))

(ert-deftest agent-q-contract-safe-and-cautious-examples-run-at-once ()
  (agent-q-contract-test--with-examples
    (should (string-match-p "car of LIST"
                            (agent-q-test-content "describe_symbol" '(:symbol "CAR"))))
    (should (equal (agent-q-test-content "describe-symbol" '(:symbol "no-such-symbol-here"))
                   "Symbol no-such-symbol-here not found"))
    (should (string-match-p "Required parameter 'symbol' missing\\|required parameter 'symbol' missing"
                            (agent-q-test-error "describe_symbol" nil)))
    (should (equal (agent-q-test-content "eval_form" '(:form "(+ 1 2)")) "3"))
    (should (string-match-p "\\`Error: "
                            (agent-q-test-content "eval_form" '(:form "(error \"No\")"))))))

(ert-deftest agent-q-contract-a-file-is-written-only-when-approved ()
  (agent-q-contract-test--with-examples
    (let* ((one (agent-q-contract-test--path "one"))
           (two (agent-q-contract-test--path "two"))
           (arguments (list :path one :content "text")))
      (should (string-match-p "approval" (agent-q-test-error "write_file" arguments)))
      (should-not (file-exists-p one))
      (let ((agent-q-approval-handler (lambda (_tool _args) :denied)))
        (should (string-match-p "denied tool execution"
                                (agent-q-test-error "write_file" arguments)))
        (should-not (file-exists-p one)))
      (let ((agent-q-approval-handler
             (lambda (tool args)
               (should (equal (agent-q-tool-name tool) "write_file"))
               (puthash "path" two args)
               (list :modified args))))
        (should (equal (agent-q-test-content "write_file" arguments)
                       (format "Wrote 4 bytes to %s" two)))
        (should-not (file-exists-p one))
        (should (file-exists-p two)))
      (let ((agent-q-approval-handler (lambda (_tool _args) :approved)))
        (agent-q-test-content "write_file" arguments)
        (should (file-exists-p one))))))

(ert-deftest agent-q-contract-filters-and-schemas-go-together ()
  (agent-q-contract-test--with-examples
    (let ((names (mapcar (lambda (schema)
                           (plist-get (plist-get schema :function) :name))
                         (agent-q-tools-to-schema
                          (agent-q-get-tools :max-safety-level :cautious)))))
      (should (member "describe_symbol" names))
      (should (member "eval_form" names))
      (should-not (member "write_file" names)))
    (should (memq (agent-q-get-tool "describe_symbol")
                  (agent-q-get-tools :max-safety-level :safe
                                     :categories '(:introspection))))))

(ert-deftest agent-q-contract-hooks-log-what-runs ()
  (agent-q-contract-test--with-examples
    (let* ((lines nil)
           (agent-q-tool-execution-hooks nil))
      (push (lambda (phase tool _args _result)
              (when (eq phase :before)
                (push (format "Executing tool: %s" (agent-q-tool-name tool)) lines)))
            agent-q-tool-execution-hooks)
      (agent-q-test-content "eval_form" '(:form "1"))
      (should (equal lines '("Executing tool: eval_form"))))))

(ert-deftest agent-q-contract-names-of-parameters-may-be-in-kebab-case ()
  (with-temp-buffer
    (insert "one two\ntwo\n")
    (let ((arguments (list :buffer (buffer-name) :pattern "two")))
      (should (string-match-p
               "2 matches"
               (agent-q-test-content "search_in_buffer" (append '(:all-matches t) arguments))))
      (should-not (string-match-p
                   "2 matches"
                   (agent-q-test-content "search_in_buffer"
                                         (append '(:all-matches :false) arguments))))))
  (pcase-dolist (`(,tool . ,name) '(("list_package_symbols" . "include-internal")
                                    ("method_specializers" . "generic-function")))
    (should (member (string-replace "-" "_" name)
                    (mapcar (lambda (parameter) (plist-get parameter :name))
                            (agent-q-tool-parameters (agent-q-get-tool tool)))))
    (should-not (string-match-p "no such parameter\\|Missing"
                                (agent-q-tool-result-content
                                 (agent-q-test-call tool `((,name . ,(if (equal name "include-internal") t "f"))
                                                           ("package" . "CL")))))))
  ;; A name that is really one in kebab-case stays, and two ways to say one thing are refused.
  (agent-q-test-with-tools
      ((agent-q-define-tool
        "t_both" "A tool of a test." '((:name "own-name" :type :string)
                                       (:name "other_name" :type :string))
        :handler (lambda (arguments)
                   (list (gethash "own-name" arguments) (gethash "other_name" arguments))))
       (agent-q-create-tool
        "t_open" "A tool of a test." "{\"properties\":{\"a_b\":{\"type\":\"string\"}}}"
        (lambda (arguments) (hash-table-keys arguments)) :safety-level :safe))
    (should (equal (agent-q-test-content "t_both" '(:own-name "x" :other-name "y"))
                   "(\"x\" \"y\")"))
    (should (string-match-p "own_name: no such parameter"
                            (agent-q-test-error "t_both" '(:own_name "x"))))
    (should (string-match-p "other-name: no such parameter"
                            (agent-q-test-error "t_both" '(:other-name "x" :other_name "y"))))
    ;; What a schema lets pass is something of its own.
    (should (equal (agent-q-test-content "t_open" '(:a-b "x")) "(\"a-b\")"))))

(ert-deftest agent-q-contract-each-name-is-there ()
  (with-temp-buffer
    (insert-file-contents (expand-file-name "CONTRACTS.md" agent-q-test-root))
    (let ((names nil))
      (while (re-search-forward "`\\(agent-q-[a-z-]+\\)`" nil t)
        (push (intern (match-string 1)) names))
      (should (< 40 (length names)))
      (should-not (seq-remove (lambda (name)
                                (or (fboundp name) (boundp name)
                                    (get name 'error-conditions)))
                              names)))
    (goto-char (point-min))
    (dolist (name '("define-tool" "get-agent-q-tools" "register-agent-q-tools" "tool-to-schema"
                    "execute-tool-calls" "createToolSpecification" "validateToolArgs"))
      (should (search-forward (format "`%s`" name) nil t)))))

(provide 'agent-q-contract-test)
;;; agent-q-contract-test.el ends here
