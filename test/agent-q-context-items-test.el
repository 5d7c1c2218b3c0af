;;; agent-q-context-items-test.el --- Tests of what a chat keeps in its context  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Items are added and removed by programs and users, go along once, and again when they have
;; changed; the list shows them with what was mentioned.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-context)

(ert-deftest agent-q-context-items-keep-order-types-and-most ()
  (agent-q-test-with-chat
    (should (equal '(:count 0 :types nil :preview "No context") (agent-q-context-summary)))
    (let ((ids (mapcar (lambda (number)
                         (agent-q-attach-item-id
                          (agent-q-context-add-item (if (cl-evenp number) 'code 'error)
                                                    (format "item %d" number))))
                       (number-sequence 1 51))))
      (should (= 51 (length (delete-dups (copy-sequence ids)))))
      (should (seq-every-p (lambda (id) (string-match-p "\\`ctx-[0-9]+\\'" id)) ids))
      (should (equal ids (sort (copy-sequence ids)
                               (lambda (one other) (< (string-to-number (substring one 4))
                                                      (string-to-number (substring other 4)))))))
      (let ((items (agent-q-context-items)))
        (should (= 50 (length items)))
        (should (equal "item 2" (agent-q-attach-item-content (car items))))
        (should (equal "item 51" (agent-q-attach-item-content (car (last items))))))
      (should (equal '("item 48" "item 50")
                     (mapcar #'agent-q-attach-item-content (agent-q-context-items '(code) 2))))
      (should (= 50 (length (agent-q-context-items nil 1000))))
      (should-not (agent-q-context-items '(file)))
      (should-not (agent-q-context-remove-item (car ids)))
      (should (agent-q-context-remove-item (cadr ids)))
      (should (= 49 (length (agent-q-context-items)))))
    (agent-q-attach-remove-all)
    (agent-q-attach-remove-all)
    (should-not (agent-q-context-items))
    (let ((agent-q-context-max 2))
      (dotimes (number 3) (agent-q-context-add-item 'text (format "%d" number)))
      (should (= 2 (length (agent-q-context-items)))))
    (should (equal "2 items: Text, Text" (plist-get (agent-q-context-summary) :preview)))
    (should-error (agent-q-context-add-item 'bogus "x") :type 'wrong-type-argument)
    (should-error (agent-q-context-add-item 'code 42) :type 'wrong-type-argument))
  (with-temp-buffer
    (should-error (agent-q-context-add-item 'code "x") :type 'user-error)))

(ert-deftest agent-q-context-items-are-refused-where-none-are-kept ()
  "None is taken to be in the context that is not."
  (agent-q-test-with-chat
    (agent-q-context-add-item 'text "before")
    (let ((agent-q-context-max 0))
      (should (string-match-p "Nothing added: .agent-q-context-max. is 0"
                              (cadr (should-error (agent-q-context-add-item 'text "x")
                                                  :type 'user-error))))
      (should-error (agent-q-context-add "@error") :type 'user-error)
      ;; What was there stays.
      (should (equal '("before") (mapcar #'agent-q-attach-item-content (agent-q-context-items)))))
    (should (equal "1 item: Text" (plist-get (agent-q-context-summary) :preview)))))

(ert-deftest agent-q-context-items-of-two-chats-are-apart ()
  (agent-q-test-with-chat
    (agent-q-context-add-item 'text "of the first")
    (let ((first (current-buffer)) other)
      (agent-q-test-with-chat
        (should-not (agent-q-context-items))
        (setq other (agent-q-attach-item-id (agent-q-context-add-item 'code "of the second")))
        (should (equal "1 item: Code" (plist-get (agent-q-context-summary) :preview)))
        (with-current-buffer first
          (should-not (agent-q-context-remove-item other))
          (should (equal "1 item: Text" (plist-get (agent-q-context-summary) :preview)))
          (agent-q-attach-remove-all))
        (should (equal "## Context\n\n### Code\n```lisp\nof the second\n```\n\n"
                       (agent-q-context-to-string)))))))

(ert-deftest agent-q-context-items-know-when-they-were-added ()
  "Nothing changes that later."
  (agent-q-test-with-chat
    (let* ((before (current-time))
           (item (agent-q-context-add-item 'text "x"))
           (time (agent-q-attach-item-time item)))
      (should-not (time-less-p time before))
      (should-not (time-less-p nil time))
      (setf (agent-q-attach-item-content item) "y")
      (agent-q-attach-forget-sent)
      (should (equal time (agent-q-attach-item-time (car (agent-q-context-items)))))
      (dolist (slot '(id type time metadata))
        (should-error (eval `(setf (,(intern (format "agent-q-attach-item-%s" slot)) ',item) nil)
                            t))))))

(ert-deftest agent-q-context-items-are-removed-when-the-user-agrees ()
  (agent-q-test-with-chat
    (agent-q-context-add-item 'code "(+ 1 2)")
    (cl-letf (((symbol-function 'y-or-n-p) #'ignore))
      (agent-q-context-clear))
    (should (= 1 (length (agent-q-context-items))))
    (cl-letf (((symbol-function 'y-or-n-p) #'always))
      (agent-q-context-clear))
    (should-not (agent-q-context-items))))

(ert-deftest agent-q-context-items-as-text ()
  (agent-q-test-with-chat
    (should (equal "## Context\n\n" (agent-q-context-to-string)))
    (agent-q-context-add-item 'code "(+ 1 2)" '(:file "a.lisp" :start-line 3 :end-line 9))
    (agent-q-context-add-item 'repl-history "```\nx")
    (should (equal (concat "## Context\n\n### Code (from a.lisp:3-9)\n```lisp\n(+ 1 2)\n```\n\n"
                           "### Repl-History\n````lisp\n```\nx\n````\n\n")
                   (agent-q-context-to-string)))
    ;; Lines only where both are known.
    (pcase-dolist (`(,title . ,metadata)
                   '(("### File (from a.lisp)\n" :file "a.lisp" :start-line 3)
                     ("### File (from a.lisp)\n" :file "a.lisp" :end-line 9)
                     ("### File (from a.lisp)\n" :file "a.lisp")
                     ("### File\n" :start-line 3 :end-line 9)
                     ("### File (from notes)\n" :name "notes" :start-line 3 :end-line 9)))
      (agent-q-attach-remove-all)
      (agent-q-context-add-item 'file "x" metadata)
      (should (string-prefix-p (concat "## Context\n\n" title) (agent-q-context-to-string))))))

(defun agent-q-context-items-test--requests ()
  "Return the last message of each request that the model got, first one first."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (mapcar (lambda (line)
              (let* ((request (agent-q-json-parse line))
                     (messages (gethash "messages" (gethash "body" request request))))
                (gethash "content" (aref messages (1- (length messages))))))
            (split-string (buffer-string) "\n" t))))

(ert-deftest agent-q-context-items-go-along-once-and-when-they-changed ()
  (agent-q-test-with-model
      (concat "{\"turns\":[" (string-join (make-list 4 "{\"steps\":[{\"text\":\"ok\"}]}") ",") "]}")
    (let* ((project (file-name-as-directory
                     (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))
           (default-directory project)
           (file (expand-file-name "plan.txt" project))
           (inhibit-message t))
      (write-region "" nil (expand-file-name "bank.asd" project) nil 'silent)
      (write-region "first plan" nil file nil 'silent)
      (with-current-buffer (agent-q-chat-open-here t)
        (unwind-protect
            (cl-flet ((say (text) (agent-q-test-send text)
                           (agent-q-test-until (agent-q-test-idle-p))
                           (car (last (agent-q-context-items-test--requests)))))
              (agent-q-context-add-file file)
              (should-error (agent-q-context-add-file file) :type 'user-error)
              (agent-q-context-add-item 'text "be brief" '(:name "style"))
              (should-error (agent-q-context-add-file project) :type 'user-error)
              (let ((request (say "one")))
                (should (string-match-p "from=\"file plan.txt\">\nfirst plan\n" request))
                (should (string-match-p "from=\"style, kept[^>]*>\nbe brief\n" request)))
              (let ((request (say "two")))
                (should-not (string-search "first plan" request))
                (should-not (string-search "be brief" request)))
              (write-region "second plan" nil file nil 'silent)
              (let ((request (say "three")))
                (should (string-search "second plan" request))
                (should-not (string-search "be brief" request)))
              ;; A file that has gone keeps no message back.
              (delete-file file)
              (should (string-suffix-p "four" (say "four")))
              (should (agent-q-test-shows "Kept in the context, but not sent: @file:plan.txt: there is no such file"))
              (agent-q-context)
              (with-current-buffer "*agent-q context*"
                (should (string-match-p "^ +11 B +kept, sent +@file:plan.txt" (buffer-string)))
                (should (string-match-p "^ +8 B +sent at [0-9:]+ +style" (buffer-string)))
                (goto-char (point-min))
                (search-forward "@file:plan.txt")
                (agent-q-context-remove)
                (should-not (string-match-p "kept, sent +@file:plan.txt" (buffer-string)))
                (goto-char (point-min))
                (search-forward "sent at")
                (should-error (agent-q-context-remove) :type 'user-error)
                (cl-letf (((symbol-function 'y-or-n-p) #'always))
                  (agent-q-context-clear))
                (should-not (string-search "kept" (buffer-string))))
              (should-not (agent-q-context-items)))
          (when (get-buffer "*agent-q context*") (kill-buffer "*agent-q context*"))
          (kill-buffer))))))

(ert-deftest agent-q-context-commands-add-what-is-looked-at ()
  (let* ((project (file-name-as-directory
                   (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))
         (agent-q-provider 'none)
         (inhibit-message t))
    (write-region "" nil (expand-file-name "bank.asd" project) nil 'silent)
    (write-region "(defun a ())\n" nil (expand-file-name "a.lisp" project) nil 'silent)
    (with-current-buffer (find-file-noselect (expand-file-name "a.lisp" project))
      (unwind-protect
          (progn
            (goto-char 3)
            (agent-q-context-add-definition)
            (should-error (agent-q-context-add-region) :type 'user-error)
            (push-mark 2 t t)
            (goto-char 7)
            (agent-q-context-add-region)
            (agent-q-context-add-buffer (buffer-name))
            (agent-q-context-add "@error")
            (should-error (agent-q-context-add "error") :type 'user-error)
            (should-error (agent-q-context-add "@error @diff") :type 'user-error)
            (with-current-buffer (agent-q-chat-open-here)
              (should (equal '("defun a (a.lisp:1)" "region (a.lisp:1)" "@buffer:a.lisp" "@error")
                             (mapcar #'agent-q-attach-item-name (agent-q-context-items))))
              (should (equal '(code code text error)
                             (mapcar #'agent-q-attach-item-type (agent-q-context-items))))
              (should (equal "defun" (agent-q-attach-item-content
                                      (nth 1 (agent-q-context-items)))))
              (kill-buffer)))
        (kill-buffer)))))

;;;; The list

(defmacro agent-q-context-items-test--in-list (&rest body)
  "Run BODY in the list of the context of a chat.
Its project, in PROJECT, has a file till.lisp of five lines."
  (declare (indent 0) (debug t))
  `(let* ((project (file-name-as-directory
                    (make-temp-file (expand-file-name "project" agent-q-test-directory) t)))
          (default-directory project)
          (agent-q-provider 'none)
          (inhibit-message t))
     (write-region "" nil (expand-file-name "till.asd" project) nil 'silent)
     (write-region "one\ntwo\nthree\nfour\nfive\n" nil (expand-file-name "till.lisp" project)
                   nil 'silent)
     (let ((chat (agent-q-chat-open-here t)))
       (unwind-protect
           (save-window-excursion
             (with-current-buffer chat
               ;; That of another test.
               (setq agent-q-session-connection nil)
               (agent-q-context))
             (with-current-buffer "*agent-q context*" ,@body))
         (dolist (buffer (list chat "*agent-q context*" "*agent-q text*" "till.lisp"))
           (when (get-buffer buffer) (kill-buffer buffer)))))))

(defun agent-q-context-items-test--on (text)
  "Go to the line of the list that has TEXT."
  (agent-q-test-find text)
  (forward-line 0))

(defun agent-q-context-items-test--shown ()
  "Return the text that is shown."
  (with-current-buffer "*agent-q text*" (buffer-string)))

(ert-deftest agent-q-context-list-is-for-reading-and-says-how-to-fill-it ()
  (agent-q-context-items-test--in-list
    (should (derived-mode-p 'special-mode))
    (should (string-prefix-p "Nothing is in the context yet.\n" (buffer-string)))
    (should (agent-q-test-shows "Type @ at the prompt"))
    ;; Drawing it again changes nothing.
    (agent-q-test-press "g")
    (cl-letf (((symbol-function 'window-max-chars-per-line) (lambda (&rest _) 20)))
      (run-hooks 'window-configuration-change-hook))
    (should (string-prefix-p "Nothing is in the\ncontext yet.\n" (buffer-string)))
    (run-hooks 'window-configuration-change-hook)
    (should (agent-q-test-shows "something here: a, M-x agent-q-context-add-file"))
    (should (eq (key-binding "a") #'agent-q-context-add))
    (dolist (key '("RET" "o" "d"))
      (should (equal '(user-error "Nothing is on this line")
                     (should-error (agent-q-test-press key) :type 'user-error))))
    (with-current-buffer chat
      (agent-q-context-add-item 'text "x" '(:name "a note")))
    (should-not (agent-q-test-shows "Nothing is in the context"))
    (should (string-match-p "^ +1 B +kept, not sent yet +a note$" (buffer-string)))
    (with-current-buffer chat
      (agent-q-attach-remove-all))
    (should (agent-q-test-shows "Nothing is in the context yet."))))

(ert-deftest agent-q-context-list-shows-texts-and-goes-where-they-are-from ()
  (agent-q-context-items-test--in-list
    (with-current-buffer chat
      (agent-q-context-add-item 'code "old text" '(:file "till.lisp" :start-line 3 :end-line 4))
      (agent-q-context-add-item 'text "of nowhere" '(:name "a note"))
      (agent-q-context-add-item 'file "it is gone" '(:file "gone.lisp"))
      (agent-q-attach-add-mention "@file:till.lisp:2-3")
      (agent-q-attach-add-mention "@file:till.lisp")
      (agent-q-attach-add-mention "@error"))
    (should (string-match-p "^ +\\? +kept, not sent yet +@error$" (buffer-string)))
    (should (string-match-p "^ +24 B +kept, not sent yet +@file:till.lisp$" (buffer-string)))
    (cl-flet ((line () (with-current-buffer (window-buffer)
                         (buffer-substring (line-beginning-position) (line-end-position))))
              (press (key name)
                (pop-to-buffer "*agent-q context*")
                (agent-q-context-items-test--on name)
                (agent-q-test-press key)))
      (press "RET" "till.lisp:3-4")
      (should (equal "old text" (agent-q-context-items-test--shown)))
      (should (equal " till.lisp:3-4"
                     (buffer-local-value 'header-line-format (get-buffer "*agent-q text*"))))
      (press "o" "till.lisp:3-4")
      (should (equal "three" (line)))
      ;; What was not sent yet is fetched.
      (press "RET" "@file:till.lisp:2-3")
      (should (equal "two\nthree\n" (agent-q-context-items-test--shown)))
      (press "o" "@file:till.lisp:2-3")
      (should (equal "two" (line)))
      (dolist (case '(("a note" . "of nowhere") ("gone.lisp" . "it is gone")))
        (press "o" (car case))
        (should (equal (cdr case) (agent-q-context-items-test--shown))))
      (let ((said nil))
        (cl-letf (((symbol-function 'message)
                   (lambda (format &rest arguments) (setq said (apply #'format format arguments)))))
          (press "RET" "@error"))
        (should (string-prefix-p "@error: no Lisp image is connected" said))))))

(ert-deftest agent-q-context-list-goes-to-what-was-looked-at ()
  (agent-q-context-items-test--in-list
    (with-current-buffer (find-file-noselect (expand-file-name "till.lisp" project))
      (goto-char (point-min))
      (forward-line 3)
      (push-mark (line-end-position) t t)
      (agent-q-context-add-region)
      (goto-char (point-min)))
    (agent-q-context-items-test--on "region (till.lisp:4)")
    (agent-q-test-press "o")
    (with-current-buffer (window-buffer)
      (should (equal "four" (buffer-substring (line-beginning-position) (line-end-position)))))))

(ert-deftest agent-q-context-mention-that-is-added-is-completed-as-at-the-prompt ()
  (agent-q-context-items-test--in-list
    (cl-letf (((symbol-function 'read-from-minibuffer)
               (lambda (_prompt initial map &rest _)
                 (should (eq (lookup-key map (kbd "TAB")) #'completion-at-point))
                 (with-temp-buffer
                   (run-hooks 'minibuffer-setup-hook)
                   (insert initial "file:till.l")
                   ;; The files come from the core.
                   (agent-q-test-until
                    (pcase (agent-q-completion)
                      (`(,start ,end ,table . ,_)
                       (all-completions (buffer-substring start end) table))))
                   (completion-at-point)
                   (buffer-string)))))
      (agent-q-test-press "a"))
    (should (equal '("@file:till.lisp")
                   (with-current-buffer chat
                     (mapcar #'agent-q-attach-item-name (agent-q-context-items)))))))

(provide 'agent-q-context-items-test)
;;; agent-q-context-items-test.el ends here
