;;; agent-q-mcp-files-test.el --- Several agents in the same files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Requests about a file that somebody else changes meanwhile, and taking back what one of several
;; agents did to a file.

;;; Code:

(require 'agent-q-test-files)
(require 'agent-q-test-mcp)
(require 'seq)

(defconst agent-q-mcp-files-test--bank
  "(defun a () 1)\n\n(defun b () 1)\n\n(defun c () 1)\n\n(defun d () 1)\n\n(defun e () 1)\n\n(defun f () 1)\n"
  "What the file of each test has at first.")

(defmacro agent-q-mcp-files-test--with-agents (agents &rest body)
  "Run BODY with each of AGENTS, symbols, bound to a client in a project with the file bank.lisp."
  (declare (indent 1) (debug t))
  `(let* ((agent-q-test-files-root
           (file-name-as-directory
            (file-truename (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))))
     (agent-q-test-files-write "bank.lisp" agent-q-mcp-files-test--bank)
     (agent-q-test-mcp-serving
       (let ,(mapcar (lambda (agent)
                       `(,agent (agent-q-mcp-files-test--agent ,(symbol-name agent))))
                     agents)
         ,@body))))

(defun agent-q-mcp-files-test--agent (name)
  "Return a client called NAME that works in the project."
  (let ((client (agent-q-test-mcp-connect)))
    (agent-q-test-mcp-tell client `(:jsonrpc "2.0" :method "agent-q/hello"
                                             :params (:directory ,agent-q-test-files-root)))
    (agent-q-test-mcp-introduce client name)
    client))

(defun agent-q-mcp-files-test--buffer (name)
  "Return the buffer of the client called NAME."
  (seq-find (lambda (buffer) (equal name (buffer-local-value 'agent-q-session-mcp-client buffer)))
            (agent-q-mcp-client-buffers)))

(defun agent-q-mcp-files-test--asks (name client tool &rest arguments)
  "Have CLIENT, called NAME, call TOOL with ARGUMENTS, and wait until it asks.
Return the request's id."
  (prog1 (agent-q-test-mcp-begin client tool arguments)
    (agent-q-test-until (agent-q-mcp-files-test--buffer name))
    (with-current-buffer (agent-q-mcp-files-test--buffer name)
      (agent-q-test-until (agent-q-call-waiting) "a request"))))

(defun agent-q-mcp-files-test--edit (name client function &optional value)
  "Have CLIENT, called NAME, ask to let FUNCTION return VALUE, or its name; return the id."
  (agent-q-mcp-files-test--asks
   name client "edit_file" :path "bank.lisp" :old_str (format "(defun %s () 1)" function)
   :new_str (format "(defun %s () %s)" function (or value name))))

(defun agent-q-mcp-files-test--answered (name client id key)
  "Answer the request of CLIENT, called NAME, by KEY; return what its call ID answers."
  (with-current-buffer (agent-q-mcp-files-test--buffer name)
    (agent-q-test-answer key))
  (agent-q-test-mcp-text (agent-q-test-mcp-answer client id)))

(defun agent-q-mcp-files-test--expected (&rest values)
  "Return the text of the file once functions have VALUES, an alist of names."
  (seq-reduce (lambda (text change)
                (string-replace (format "(defun %s () 1)" (car change))
                                (format "(defun %s () %s)" (car change) (cdr change)) text))
              values agent-q-mcp-files-test--bank))

(defun agent-q-mcp-files-test--hunks (name)
  "Return the hunks that the request of the client called NAME shows, as one text."
  (with-current-buffer (agent-q-mcp-files-test--buffer name)
    (format "%S" (agent-q-call-file-change-hunks (agent-q-call-change (agent-q-call-waiting))))))

;;;; Requests

(ert-deftest agent-q-mcp-files-a-request-shows-the-edit-as-it-fits-now ()
  (agent-q-mcp-files-test--with-agents (one two)
    (should (agent-q-test-mcp-call two "read_file" '(:path "bank.lisp")))
    (let ((first (agent-q-mcp-files-test--edit "one" one "a"))
          (second (agent-q-mcp-files-test--edit "two" two "b")))
      (should (string-match-p "Edit applied" (agent-q-mcp-files-test--answered "one" one first "y")))
      ;; What the other one did is around it now.
      (agent-q-test-until (string-match-p "(defun a () one)" (agent-q-mcp-files-test--hunks "two")))
      (should (string-match-p "Edit applied" (agent-q-mcp-files-test--answered "two" two second "y")))
      (should (equal (agent-q-test-files-text "bank.lisp")
                     (agent-q-mcp-files-test--expected '(a . one) '(b . two)))))))

(ert-deftest agent-q-mcp-files-an-open-review-keeps-what-was-chosen ()
  (agent-q-mcp-files-test--with-agents (one two)
    (let ((first (agent-q-mcp-files-test--edit "one" one "b"))
          (second (agent-q-mcp-files-test--asks
                   "two" two "write_file" :path "bank.lisp"
                   :content (agent-q-mcp-files-test--expected '(a . two) '(f . two)))))
      (save-window-excursion
        (let ((review (with-current-buffer (agent-q-mcp-files-test--buffer "two")
                        (agent-q-call-review (agent-q-test-answer "d")))))
          (with-current-buffer review
            ;; Not the first hunk.
            (goto-char (agent-q-review-hunk-start (aref agent-q-review-hunks-all 0)))
            (agent-q-review-toggle))
          (agent-q-mcp-files-test--answered "one" one first "y")
          (agent-q-test-until (with-current-buffer review
                                (string-match-p "defun b () one" (agent-q-review-target-base
                                                                  agent-q-review-hunks-edit))))
          (with-current-buffer review (agent-q-review-apply))))
      (should (agent-q-test-mcp-answer two second))
      (should (equal (agent-q-test-files-text "bank.lisp")
                     (agent-q-mcp-files-test--expected '(b . one) '(f . two)))))))

(ert-deftest agent-q-mcp-files-a-request-that-can-not-succeed-is-withdrawn ()
  (agent-q-mcp-files-test--with-agents (one two)
    (let ((first (agent-q-mcp-files-test--edit "one" one "a"))
          (second (agent-q-mcp-files-test--edit "two" two "a"))
          ;; Some hosts send a call twice.
          (again (agent-q-test-mcp-begin one "edit_file" '(:path "bank.lisp" :old_str "(defun a () 1)"
                                                                 :new_str "(defun a () one)"))))
      (with-current-buffer (agent-q-mcp-files-test--buffer "one")
        (agent-q-test-until (cdr (agent-q-call-all-waiting))))
      (agent-q-mcp-files-test--answered "one" one first "y")
      (pcase-dolist (`(,client . ,id) (list (cons two second) (cons one again)))
        (let ((answer (agent-q-test-mcp-answer client id)))
          (should (string-match-p "bank\\.lisp.*The user is not asked about this any more"
                                  (agent-q-test-mcp-text answer)))
          (should (plist-get (plist-get answer :result) :isError))))
      (with-current-buffer (agent-q-mcp-files-test--buffer "two")
        (agent-q-test-until (not (agent-q-call-waiting))))
      (should (equal (agent-q-test-files-text "bank.lisp")
                     (agent-q-mcp-files-test--expected '(a . one)))))))

(ert-deftest agent-q-mcp-files-a-request-shows-what-the-user-changed ()
  "On disk, by whatever program, and in a buffer that is not saved."
  (agent-q-mcp-files-test--with-agents (one)
    (let ((id (agent-q-mcp-files-test--edit "one" one "a")))
      (agent-q-test-files-write "bank.lisp" (agent-q-mcp-files-test--expected '(b . user)))
      (agent-q-test-until (string-match-p "(defun b () user)" (agent-q-mcp-files-test--hunks "one")))
      (should (string-match-p "Edit applied" (agent-q-mcp-files-test--answered "one" one id "y")))
      (should (equal (agent-q-test-files-text "bank.lisp")
                     (agent-q-mcp-files-test--expected '(a . one) '(b . user)))))
    (let ((buffer (find-file-noselect (agent-q-test-files-path "bank.lisp"))))
      (unwind-protect
          (progn
            (agent-q-mcp-files-test--edit "one" one "c")
            (with-current-buffer buffer
              (goto-char (point-min))
              (search-forward "b () user")
              (insert "s"))
            (agent-q-test-until (string-match-p "(defun b () users)" (agent-q-mcp-files-test--hunks "one")))
            (with-current-buffer (agent-q-mcp-files-test--buffer "one") (agent-q-test-answer "n"))
            ;; Nobody waits any more, so nobody looks.
            (with-current-buffer buffer
              (insert "x")
              (agent-q-test-until
               (not (memq #'agent-q-review--target-touched after-change-functions)))))
        (with-current-buffer buffer (set-buffer-modified-p nil))
        (kill-buffer buffer)))))

(ert-deftest agent-q-mcp-files-two-agents-rename-one-file ()
  (agent-q-mcp-files-test--with-agents (one two)
    (let ((ids (mapcar (lambda (name)
                         (agent-q-mcp-files-test--asks
                          name (if (equal name "one") one two) "move_file" :source "bank.lisp"
                          :destination (concat name ".lisp")))
                       '("one" "two"))))
      (with-current-buffer (agent-q-mcp-files-test--buffer "one")
        (should (string-match-p "^\\? one: Move bank\\.lisp to one\\.lisp\\?$" (agent-q-test-log)))
        (should (string-match-p "\\[y\\] move" (agent-q-test-log)))
        (should-not (string-match-p "hunk\\|no lines\\|review" (agent-q-test-log))))
      (agent-q-mcp-files-test--answered "one" one (car ids) "y")
      (with-current-buffer (agent-q-mcp-files-test--buffer "one")
        (should (string-match-p "move_file bank\\.lisp to one\\.lisp [^+]*$" (agent-q-test-log))))
      (should (string-match-p "The user is not asked about this any more"
                              (agent-q-test-mcp-text (agent-q-test-mcp-answer two (cadr ids)))))
      (should (equal (agent-q-test-files-text "one.lisp") agent-q-mcp-files-test--bank))
      (should-not (file-exists-p (agent-q-test-files-path "two.lisp"))))))

;;;; Undoing

(defun agent-q-mcp-files-test--undo (name)
  "Undo the last turn of the client called NAME; return what its buffer says."
  (with-current-buffer (agent-q-mcp-files-test--buffer name)
    (agent-q-test-files-undo)))

(ert-deftest agent-q-mcp-files-undoing-leaves-what-others-changed ()
  (agent-q-mcp-files-test--with-agents (one two)
    (agent-q-mcp-files-test--answered "one" one (agent-q-mcp-files-test--edit "one" one "a") "y")
    (agent-q-mcp-files-test--answered "one" one (agent-q-mcp-files-test--edit "one" one "f") "y")
    (agent-q-mcp-files-test--answered "two" two (agent-q-mcp-files-test--edit "two" two "b") "y")
    (agent-q-test-files-write "bank.lisp" (string-replace "(defun f () one)" "(defun f () (list\n  user))"
                                                          (agent-q-test-files-text "bank.lisp")))
    (should (string-match-p "Undone in part:\n- bank\\.lisp, but for lines 11-12, changed since"
                            (agent-q-mcp-files-test--undo "one")))
    (should (equal (agent-q-test-files-text "bank.lisp")
                   (agent-q-mcp-files-test--expected '(b . two) '(f . "(list\n  user)"))))
    ;; Nothing else is left to undo.
    (should (string-match-p "\\`Not undone:\n.*where the turn changed it (lines 11-12)"
                            (agent-q-mcp-files-test--undo "one")))
    (should (string-match-p "Undone:\n- bank\\.lisp$" (agent-q-mcp-files-test--undo "two")))
    (should (equal (agent-q-test-files-text "bank.lisp")
                   (agent-q-mcp-files-test--expected '(f . "(list\n  user)"))))))

(ert-deftest agent-q-mcp-files-undoing-keeps-line-ends-and-what-is-not-saved ()
  (agent-q-mcp-files-test--with-agents (one)
    (cl-flet ((crlf (text) (string-replace "\n" "\r\n" text)))
      (agent-q-test-files-write "bank.lisp" (crlf agent-q-mcp-files-test--bank))
      (agent-q-mcp-files-test--answered "one" one (agent-q-mcp-files-test--edit "one" one "a") "y")
      (agent-q-test-files-write "bank.lisp" (crlf (agent-q-mcp-files-test--expected
                                                   '(a . one) '(f . user))))
      (should (string-match-p "Undone:" (agent-q-mcp-files-test--undo "one")))
      (should (equal (agent-q-test-files-text "bank.lisp")
                     (crlf (agent-q-mcp-files-test--expected '(f . user)))))
      ;; In a buffer, where Emacs hides them, with changes that the user has not saved.
      (should (agent-q-test-mcp-call one "read_file" '(:path "bank.lisp")))
      (agent-q-mcp-files-test--answered "one" one (agent-q-mcp-files-test--edit "one" one "b") "y")
      (let ((buffer (find-file-noselect (agent-q-test-files-path "bank.lisp"))))
        (unwind-protect
            (with-current-buffer buffer
              (goto-char (point-min))
              (insert ";; mine\n")
              (should (string-match-p "Undone:" (agent-q-mcp-files-test--undo "one")))
              (should (equal (buffer-string)
                             (concat ";; mine\n" (agent-q-mcp-files-test--expected '(f . user))))))
          (with-current-buffer buffer (set-buffer-modified-p nil))
          (kill-buffer buffer))))))

(provide 'agent-q-mcp-files-test)
;;; agent-q-mcp-files-test.el ends here
