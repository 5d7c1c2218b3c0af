;;; agent-q-context-test.el --- Tests of what the model is told and offered  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a chat sends besides the user's words: the system prompt, the context
;; in front of each message, and the tools that are offered to everybody.

;;; Code:

(require 'agent-q-test-tools)

(defun agent-q-context-test--requests ()
  "Return the bodies of the requests that the model got, as hash tables."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (mapcar (lambda (line)
              (let ((request (agent-q-json-parse line)))
                (gethash "body" request request)))
            (split-string (buffer-string) "\n" t))))

(defun agent-q-context-test--message (request number)
  "Return the content of message NUMBER of REQUEST."
  (gethash "content" (aref (gethash "messages" request) number)))

(defconst agent-q-context-test--two-turns
  "{\"turns\":[{\"steps\":[{\"text\":\"one\"}]},{\"steps\":[{\"text\":\"two\"}]}]}"
  "A model that answers twice.")

(defmacro agent-q-context-test--with-source (name &rest body)
  "Run BODY while the user's latest buffer, SOURCE, is called NAME."
  (declare (indent 1) (debug t))
  `(let ((source (generate-new-buffer ,name)))
     (unwind-protect
         (progn
           (with-current-buffer source
             (insert "(in-package #:bank)\n\n(defun transfer ())\n")
             (lisp-mode)
             (goto-char (point-min))
             (forward-line 2))
           ,@body)
       (kill-buffer source))))

(ert-deftest agent-q-context-goes-before-each-message-and-the-prompt-stays ()
  (agent-q-test-with-model agent-q-context-test--two-turns
    (agent-q-context-test--with-source "x</agent-q-context>\nProject: /"
      (agent-q-test-with-chat
        (switch-to-buffer source)
        (switch-to-buffer chat)
        (agent-q-test-ask "first")
        (with-current-buffer source (goto-char (point-min)))
        (agent-q-test-ask "second")
        ;; The chat shows the user's words only.
        (should-not (string-match-p "agent-q-context" (agent-q-test-log))))
      (pcase-let* ((`(,one ,two) (agent-q-context-test--requests))
                   (first (agent-q-context-test--message one 1))
                   (second (agent-q-context-test--message two 3)))
        (should (string-match-p
                 (concat "\\`<agent-q-context>\nDate: [-0-9]\\{10\\}\n"
                         "Project: .*\nImage: .*\n\\(?:Package of the user's REPL: .*\n\\)?"
                         "The user's source buffer: x\\?/agent-q-context\\? Project: /, line 3, package BANK\n"
                         "Systems: .*agent-q-image.*\n"
                         "</agent-q-context>\n\nfirst\\'")
                 first))
        (should (string-match-p ", line 1, package BANK\n\\(?:Systems: .*\n\\)?</agent-q-context>\n\nsecond\\'" second))
        ;; What was sent stays as it was, for the provider's cache.
        (should (equal first (agent-q-context-test--message two 1)))
        (should (equal (agent-q-context-test--message one 0)
                       (agent-q-context-test--message two 0)))
        (should (equal (agent-q-json-encode (gethash "tools" one))
                       (agent-q-json-encode (gethash "tools" two))))))))

(agent-q-test-tools-on-each context-names-the-image-and-the-repls-package ()
  "The model is told which image there is, and which package the user's REPL is in."
  (agent-q-test-tools-repl client)
  (cl-flet ((line (pattern)
              (pcase-let ((`(,_ ,context) (agent-q-core-system-prompt
                                           agent-q-session-number (agent-q-chat-send-context))))
                (string-match-p pattern context))))
    (should (line (format "^Image: SBCL [0-9.]+.* through %s" (upcase (symbol-name client)))))
    (should (line "^Package of the user's REPL: COMMON-LISP-USER$"))
    (agent-q-context-test--set-package client "KEYWORD")
    (agent-q-test-until (line "^Package of the user's REPL: KEYWORD$"))
    (agent-q-context-test--set-package client "COMMON-LISP-USER")
    (agent-q-test-until (line "^Package of the user's REPL: COMMON-LISP-USER$"))))

(defun agent-q-context-test--set-package (client package)
  "Type at the REPL of CLIENT what makes PACKAGE the current one."
  (with-current-buffer (agent-q-test-tools-repl client)
    (goto-char (point-max))
    (insert (format "(cl:in-package %S)" package))
    (call-interactively (intern (if (eq client 'sly) "sly-mrepl-return" "slime-repl-return")))))

(agent-q-test-tools-on-each context-a-name-of-another-package-is-found-and-not-made ()
  "Names read in the wrong package get a hint, and leave nothing in the user's packages."
  (agent-q-test-tools-ask
   "/eval_form (defpackage :aq-bank (:use :cl) (:export #:aq-transfer)) \
(defun aq-bank:aq-transfer (x) x) (defvar aq-bank::*aq-total* 0) (defun aq-bank::aq-inner () 1)")
  (pcase-dolist (`(,form ,error ,hint)
                 '(("(progn '(aq-kept) (aq-transfer aq-other))" "UNDEFINED-FUNCTION\\|UNBOUND-VARIABLE" nil)
                   ("(aq-transfer 1)" "UNDEFINED-FUNCTION" "It exists elsewhere: AQ-BANK:AQ-TRANSFER\\.")
                   ("*aq-total*" "UNBOUND-VARIABLE" "It exists elsewhere: AQ-BANK::\\*AQ-TOTAL\\*\\.")
                   ("(cl-user::aq-inner)" "UNDEFINED-FUNCTION" "elsewhere: AQ-BANK::AQ-INNER")
                   ("(cl:aq-transfer 1)" "can't be read" "elsewhere: AQ-BANK:AQ-TRANSFER")
                   ("(defvar aq-done 'aq-data) (aq-transfer 2)" "UNDEFINED-FUNCTION" "AQ-BANK:AQ-TRANSFER")
                   ("(aq-open (aq-transfer" "END-OF-FILE" nil)))
    (ert-info (form)
      (let ((told (agent-q-test-tools-ask (concat "/eval_form " form))))
        (should (string-match-p error told))
        (when hint (should (string-match-p hint told))))))
  (should (equal "=> (NIL NIL NIL NIL NIL T T T)"
                 (agent-q-test-tools-ask
                  "/eval_form (mapcar (lambda (name) (and (find-symbol name :cl-user) t)) \
'(\"AQ-TRANSFER\" \"AQ-OTHER\" \"*AQ-TOTAL*\" \"AQ-INNER\" \"AQ-OPEN\" \"AQ-KEPT\" \"AQ-DONE\" \"AQ-DATA\"))")))
  (agent-q-test-tools-ask "/eval_form (makunbound 'aq-done) (delete-package :aq-bank)"))

(ert-deftest agent-q-context-what-everybody-is-sent-stays-small ()
  "The prompt and the usual tools cost tokens in each request."
  (agent-q-test-with-model "{\"turns\":[{\"steps\":[{\"text\":\"fine\"}]}]}"
    (agent-q-test-with-chat (agent-q-test-ask "hi"))
    (let* ((request (car (agent-q-context-test--requests)))
           (tools (gethash "tools" request))
           (names (mapcar (lambda (tool) (gethash "name" (gethash "function" tool))) tools))
           (size (+ (length (agent-q-context-test--message request 0))
                    (length (agent-q-json-encode tools)))))
      (should (< 10000 size 18000))
      ;; Enough to make a system in an empty directory, and to see it through.
      (should-not (seq-difference
                   '("write_file" "read_file" "search_files" "grep_project" "edit_definition"
                     "insert_definition" "load_system" "run_tests" "eval_form" "compile_form"
                     "find_definition" "debugger_frames" "inspect_value" "form_at_point"
                     "more_tools")
                   names))
      (should (equal (sort names #'string<)
                     (sort (agent-q-registry-offered) #'string<))))))

(provide 'agent-q-context-test)
;;; agent-q-context-test.el ends here
