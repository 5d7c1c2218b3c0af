;;; agent-q-building-test.el --- Systems built and repaired by a scripted agent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; From an empty folder to passing tests, and from a bug in a loaded system to a
;; repair in image and file, with the tools that a chat offers by default and
;; nothing else.  The script's model goes on only when it was told what it needs.

;;; Code:

(require 'agent-q-test-tools)
(require 'agent-q-test-files)

(defmacro agent-q-test-building-on-each (name requests docstring &rest body)
  "Define a test NAME for each client, whose model plays REQUESTS.
BODY is evaluated in a new chat about an empty project.  DOCSTRING says what
is shown."
  (declare (indent defun) (doc-string 3) (debug t))
  `(agent-q-test-tools-on-each ,name ()
     ,docstring
     (let* ((agent-q-test-files-root
             (file-name-as-directory
              (file-truename (make-temp-file
                              (expand-file-name "project" agent-q-test-directory) t))))
            (default-directory agent-q-test-files-root)
            (agent-q-project-root agent-q-test-files-root)
            (agent-q-offered-tools nil))
       (agent-q-test-with-model (agent-q-test-script ,requests)
         (agent-q-test-with-chat
           (agent-q-chat-set-connection connection)
           (agent-q-test-files--listen)
           ;; What was made stays in the image: the clients go through all packages once there is a new
           ;; one, in a thread of their own, and meet no package there that is deleted meanwhile.
           ,@body)))))

(defun agent-q-building-test--ends-well (prompt end)
  "Send PROMPT; the turn has to end with the text END, by offered tools alone."
  (agent-q-test-ask prompt)
  (let ((calls (agent-q-test-calls)))
    (unless (agent-q-test-shows end)
      (ert-fail (list "The turn did not end with" end
                      (mapcar (lambda (call)
                                (list (agent-q-call-tool call) (agent-q-call-state call)
                                      (agent-q-call-content call)))
                              (last calls 2))
                      (agent-q-test-log))))
    (should-not (cl-set-difference (mapcar #'agent-q-call-tool calls)
                                   (agent-q-registry-offered)
                                   :test #'equal))))

;;;; From an empty folder to passing tests

(defconst agent-q-building-test-cart "\
(in-package #:aq-shop)

(defclass item ()
  ((name :initarg :name :reader item-name)
   (price :initarg :price :reader item-price)
   (count :initarg :count :initform 1 :reader item-count)))

(defun total (items)
  \"Return what ITEMS cost together.\"
  (reduce #'+ items :key #'item-price))
"
  "A file of the system, with a mistake in it.")

(defconst agent-q-building-test-total "\
(defun total (items)
  \"Return what ITEMS cost together.\"
  (reduce #'+ items :key (lambda (item) (* (item-price item) (item-count item)))))"
  "The definition as it should be.")

(agent-q-test-building-on-each building-from-an-empty-folder
  `((("Make a small shop") ("search_files" (pattern . "**/*")))
    (("No files")
     ("write_file" (path . "aq-shop.asd") (content . "\
(defsystem \"aq-shop\"
  :pathname \"src/\"
  :serial t
  :components ((:file \"package\") (:file \"cart\"))
  :in-order-to ((test-op (test-op \"aq-shop/tests\"))))

(defsystem \"aq-shop/tests\"
  :depends-on (\"aq-shop\" \"sb-rt\")
  :pathname \"test/\"
  :components ((:file \"cart\"))
  :perform (test-op (operation system) (symbol-call :sb-rt :do-tests)))
"))
     ("write_file" (path . "src/package.lisp") (content . "\
(defpackage #:aq-shop
  (:use #:cl)
  (:export #:item #:total))
"))
     ("write_file" (path . "src/cart.lisp") (content . ,agent-q-building-test-cart))
     ("write_file" (path . "test/cart.lisp") (content . "\
(defpackage #:aq-shop/tests
  (:use #:cl #:aq-shop #:sb-rt))

(in-package #:aq-shop/tests)

(rem-all-tests)

(deftest one-item
    (total (list (make-instance 'item :name \"nail\" :price 3)))
  3)

(deftest some-of-an-item
    (total (list (make-instance 'item :name \"nail\" :price 3 :count 4)))
  12)
")))
    (("src/cart.lisp") ("load_system" (system . "aq-shop")))
    (("Loaded aq-shop") ("run_tests" (system . "aq-shop")))
    (("FAILED: 1 of 2" "SOME-OF-AN-ITEM")
     ("find_definition" (symbol . "aq-shop:total")))
    (("cart.lisp:8" ":key #'item-price")
     ("compile_form" (package . "aq-shop") (form . ,agent-q-building-test-total))
     ("eval_form" (package . "aq-shop")
      (form . "(list (total '()) (total (list (make-instance 'item :price 3 :count 4))))")))
    (("(0 12)")
     ("edit_definition" (path . "src/cart.lisp") (name . "total")
      (new_source . ,agent-q-building-test-total)))
    (("Definition replaced in src/cart.lisp 10 (+1 -1).") ("run_tests" (system . "aq-shop")))
    (("PASSED: 2 of 2") "The shop is there, and its tests pass."))
  "An agent with the default offer makes a system, finds its own mistake by tests, mends it."
  (agent-q-building-test--ends-well "Make a small shop" "The shop is there, and its tests pass.")
  (should (equal "12" (agent-q-test-image-directly
                       connection
                       "(aq-shop:total (list (make-instance 'aq-shop:item :price 3 :count 4)))")))
  (should (string-search agent-q-building-test-total
                         (agent-q-test-files-text "src/cart.lisp"))))

;;;; A bug in a loaded system

(defconst agent-q-building-test-bank '("account.lisp" "ledger.lisp" "package.lisp")
  "The files of the fixture's system.")

(defun agent-q-building-test--copy-bank ()
  "Put a system with a bug, called aq-bank, into the project."
  (let ((fixture (expand-file-name "test/fixtures/seen/project/" agent-q-test-root)))
    (cl-flet ((copy (from to)
                (agent-q-test-files-write
                 to (with-temp-buffer
                      (insert-file-contents (expand-file-name from fixture))
                      (while (re-search-forward "\\_<\\(#:\\|:\\|\"\\)?bank\\(/tests\\)?\\_>" nil t)
                        (replace-match "\\1aq-bank\\2"))
                      (pcase-dolist (`(,right . ,here)
                                     ;; The bug: a withdrawal may take more than there is.
                                     '(("(plusp missing)" . "(> missing *limit*)")
                                       ;; The fixture has a test that fails.
                                       (":accepted" . ":refused")))
                        (goto-char (point-min))
                        (when (search-forward right nil t)
                          (replace-match here t t)))
                      (buffer-string)))))
      (copy "bank.asd" "aq-bank.asd")
      (copy "test/ledger.lisp" "test/ledger.lisp")
      (dolist (file agent-q-building-test-bank)
        (copy (concat "src/" file) (concat "src/" file))))))

(defconst agent-q-building-test-withdraw "\
(defmethod withdraw ((account account) amount)
  (let* ((taken (min amount *limit*))
         (missing (- taken (account-balance account))))
    (when (plusp missing)
      (error 'insufficient-funds :missing missing))
    (decf (account-balance account) taken)))"
  "The method as it should be.")

(agent-q-test-building-on-each building-repairs-a-loaded-system
  `((("too much money") ("grep_project" (pattern . "insufficient-funds"))
     ("find_definition" (symbol . "aq-bank:withdraw")))
    (("account.lisp:35" "(> missing *limit*)")
     ("eval_form" (package . "aq-bank")
      (form . "(let ((account (make-instance 'account :owner \"Ann\" :balance 1))) (withdraw account 5) account)")))
    (("Ann -4")
     ("compile_form" (package . "aq-bank") (form . ,agent-q-building-test-withdraw))
     ("eval_form" (package . "aq-bank")
      (form . "(withdraw (make-instance 'account :owner \"Ann\" :balance 1) 5)")))
    (("4 are missing")
     ("edit_definition" (path . "src/account.lisp") (name . "withdraw (account t)") (compile . t)
      (new_source . ,agent-q-building-test-withdraw))
     ("find_definition" (symbol . "aq-bank:withdraw")))
    (("Definition replaced in src/account.lisp"
      "Compiled and loaded defmethod withdraw (account t) (line 35) of src/account.lisp; no warnings."
      "account.lisp:35")
     ("run_tests" (system . "aq-bank")))
    (("PASSED: 2 of 2") "Nobody takes what is not there."))
  "An agent with the default offer finds a bug in a loaded system and mends image and file."
  (agent-q-building-test--copy-bank)
  (agent-q-test-image-directly
   connection (format "(progn (require \"asdf\") (asdf:load-asd %S) (asdf:load-system \"aq-bank\"))"
                      (agent-q-test-files-path "aq-bank.asd")))
  (agent-q-building-test--ends-well "Ann takes too much money" "Nobody takes what is not there.")
  ;; What the edit has compiled stands under it, not where the log ended then.
  (should (string-match-p "^. edit_definition .*\n. compile_file .*\n. find_definition " (agent-q-test-log)))
  (should (equal ":REFUSED"
                 (agent-q-test-image-directly
                  connection "(handler-case
                                  (aq-bank:withdraw (make-instance 'aq-bank:account :balance 1) 5)
                                (aq-bank:insufficient-funds () :refused))")))
  (should (string-search agent-q-building-test-withdraw
                         (agent-q-test-files-text "src/account.lisp"))))

(provide 'agent-q-building-test)
;;; agent-q-building-test.el ends here
