;;; agent-q-chats-test.el --- Chats that outlive their buffers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Chats are saved, closed, found, resumed, forked, exported and deleted, on the real core
;; with a scripted model.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-chats)
(require 'agent-q-test-mention)
(require 'agent-q-audit)
(require 'agent-q-test-registry)
(require 'agent-q-chats)

;;;; Saving and resuming

(ert-deftest agent-q-chats-how-long-was-thought-is-not-made-up ()
  (agent-q-test-chats-with '((:steps [(:reasoning "Hm.") (:text "Yes.") (:usage [1 1])]))
    (let (id)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (agent-q-test-ask "well?")
        (should (agent-q-test-shows "Thought for 1 s")))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (agent-q-test-shows "Yes."))
        (should (agent-q-test-shows "Thought\n"))))))

(ert-deftest agent-q-chats-a-chat-goes-on-where-it-ended ()
  (agent-q-test-chats-with (agent-q-test-chats-says "It is *one*." "Two." "Three.")
    (let (id log)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (should (string-match-p "\\`session-[0-9]\\{8\\}-[0-9]\\{6\\}-[0-9A-F]\\{4\\}\\'" id))
        (should-not (directory-files agent-q-chat-history-directory nil "session"))
        (agent-q-test-ask "first question")
        (agent-q-test-ask "second λ")
        (setq log (agent-q-test-log)))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (agent-q-test-shows "Two."))
        (agent-q-test-until (agent-q-test-shows "first question"))
        (should (string-suffix-p
                 (substring log (string-search "> first question" log))
                 (replace-regexp-in-string "\nResumed: .*\n\\'" "" (agent-q-test-log))))
        (should (equal (list agent-q-chat-view-header-input agent-q-chat-view-header-output) '(200 100)))
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "third")
        (should (string-suffix-p "> third\n\nThree.\n" (agent-q-test-log)))
        (let ((log (agent-q-test-log)))
          (should (string-search "first question" log))
          (should (string-search "second λ" log))))
      ;; The file has all of it, and nothing that is secret.
      (agent-q-test-until (= 3 (alist-get 'turns (car (agent-q-test-chats-found "")))))
      (with-temp-buffer
        (insert-file-contents (expand-file-name (concat id ".jsonl") agent-q-chat-history-directory))
        (should-not (search-forward "\"key\"" nil t))))))

(ert-deftest agent-q-chats-the-model-sees-pictures-again ()
  (agent-q-test-chats-with (agent-q-test-chats-says "A menu." "The same.")
    (agent-q-test-mention-write "a.png" agent-q-test-mention-png)
    (let ((picture (base64-encode-string agent-q-test-mention-png t)) id)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (agent-q-test-ask "See @file:a.png"))
      ;; It is stored with the chat.
      (delete-file "a.png")
      (agent-q-test-chats-resumed id
        (agent-q-test-until (agent-q-test-shows "A menu."))
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "And now?")
        (should (string-search picture (agent-q-test-chats-last-request)))))))

(ert-deftest agent-q-chats-a-file-is-told-once-where-its-chat-is ()
  (agent-q-test-chats-with (agent-q-test-chats-says "One.")
    (agent-q-test-with-chat
      (agent-q-test-ask "first")
      (let ((told 0) (there nil))
        (cl-letf (((symbol-function 'agent-q-core-note-place) (lambda (&rest _) (cl-incf told) there)))
          (agent-q-chat-history-note)
          (should (= told 0))
          (setq agent-q-chat-view-header-model "another")
          (dotimes (times 5)
            (setq there (> times 1))
            (agent-q-chat-history-note))
          (should (= told 3)))))))

(ert-deftest agent-q-chats-old-turns-come-one-at-a-time ()
  "Keys are read between the turns of a chat that is resumed."
  (agent-q-test-chats-with (agent-q-test-chats-says "One." "Two." "Three.")
    (let ((drain (symbol-function 'agent-q-core-drain))
          (turns 0) (most 0) id)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (mapc #'agent-q-test-ask '("first" "second" "third")))
      (cl-letf (((symbol-function 'agent-q-core-drain)
                 (lambda (&rest arguments)
                   (let* ((events (apply drain arguments))
                          (past (seq-count (lambda (event)
                                             (eq (plist-get event :type) :past-turn))
                                           events)))
                     (setq turns (+ turns past)
                           most (max most past))
                     events))))
        (agent-q-test-chats-resumed id
          (agent-q-test-until (agent-q-test-shows "> first"))))
      (should (= turns 3))
      (should (= most 1)))))

(ert-deftest agent-q-chats-old-answers-get-their-looks-when-they-are-displayed ()
  (let ((long (make-string (1+ agent-q-render-line-limit) ?x)))
    (agent-q-test-chats-with (agent-q-test-chats-says (concat "A **bold** word.\n" long))
      (let (id)
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id)
          (agent-q-test-ask "first"))
        (agent-q-test-chats-resumed id
          (agent-q-test-until (agent-q-test-shows "A **bold** word."))
          (goto-char (point-min))
          (search-forward "**b")
          (should-not (get-text-property (point) 'face))
          (should (string-search long (filter-buffer-substring (point-min) (point-max))))
          (run-hook-with-args 'fontification-functions (point))
          (should (eq 'agent-q-strong (get-text-property (point) 'face)))
          (should (string-search long (filter-buffer-substring (point-min) (point-max)))))))))

(ert-deftest agent-q-chats-the-model-reads-what-was-said-before ()
  (agent-q-test-chats-with (agent-q-test-chats-says "Hello." "Again.")
    (let (id)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (agent-q-test-ask "the word is plum"))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "which word?")
        (let ((last (agent-q-test-chats-last-request)))
          (should (string-search "the word is plum" last))
          (should (string-search "Hello." last)))))))

;;;; What else comes back

(ert-deftest agent-q-chats-what-is-kept-in-the-context-comes-back ()
  (agent-q-test-chats-with (agent-q-test-chats-says "A." "B." "C.")
    (let (id)
      (write-region "(defun f ())" nil "a.lisp" nil 'silent)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        ;; Before there is a file, too.
        (agent-q-context-add-item 'code "(g λ)" '(:file "b.lisp" :start-line 3 :end-line 9))
        (agent-q-test-ask "one")
        (let ((gone (agent-q-context-add-item 'text "not this one")))
          (agent-q-attach-add-mention "@file:a.lisp")
          (agent-q-context-remove-item (agent-q-attach-item-id gone)))
        (agent-q-test-ask "two"))
      (agent-q-test-chats-resumed id
        (should (agent-q-test-shows "Kept in its context: b.lisp:3-9, @file:a.lisp."))
        (should (equal (mapcar #'agent-q-attach-item-type (agent-q-context-items)) '(code file)))
        (should (equal "(g λ)" (agent-q-attach-item-content (car (agent-q-context-items)))))
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "three")
        (let ((request (agent-q-test-chats-last-request)))
          (should (string-search "(g λ)" request))
          (should (string-search "(defun f ())" request))
          (should-not (string-search "not this one" request)))
        (agent-q-attach-remove-all))
      (kill-buffer (agent-q-chats-buffer id))
      (agent-q-test-chats-resumed id
        (should-not (agent-q-context-items))))))

(ert-deftest agent-q-chats-what-it-cost-comes-back ()
  (agent-q-test-chats-with '((:steps [(:text "A.") (:usage [1000 100])])
                              (:steps [(:text "B.") (:usage [1000 100])])
                              (:steps [(:text "C.") (:usage [1000 100])]))
    (let* ((priced (append agent-q-provider '(:models (("scripted" :prices (10.0 20.0))))))
           id)
      (let ((agent-q-provider priced))
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id)
          (agent-q-cost)
          (should (agent-q-test-shows "No token counts yet"))
          (agent-q-test-ask "one")
          (agent-q-test-send "/cost")
          (should (agent-q-test-shows
                   "The last turn cost $0.0120; 1000 tokens sent, 100 received."))))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "two")
        (agent-q-cost)
        (should (agent-q-test-shows "The last turn cost unknown; 1000 tokens sent, 100 received."))
        (should (agent-q-test-shows "This chat cost $0.0120 and a request of unknown price; 2000"))
        (let ((inhibit-message t)) (agent-q-chats))
        (with-current-buffer "*agent-q chats*"
          (agent-q-test-until (agent-q-test-shows "$0.0120+?"))
          (kill-buffer)))
      (kill-buffer (agent-q-chats-buffer id))
      (let ((found (car (agent-q-test-chats-found ""))))
        (should (equal (list (alist-get 'cost found) (alist-get 'unpriced found)) '(0.012 1)))))))

(ert-deftest agent-q-chats-what-costs-nothing-has-no-price ()
  (agent-q-test-chats-with '((:steps [(:text "A.") (:usage [1000 100])])
                              (:steps [(:text "B.") (:usage [1000 100])]))
    (agent-q-test-with-chat
      (agent-q-chat-use-provider
       (agent-q-provider-of-server (list :name "Ollama" :base-url (plist-get agent-q-provider :base-url))
                                   "scripted"))
      (agent-q-test-ask "one")
      (agent-q-cost)
      (should (agent-q-test-shows "This chat cost nothing; 1000 tokens sent, 100 received.\n"))
      (should-not (string-search "$" (format "%s" (agent-q-chat-view-header-fitted 200)))))
    ;; The catalogue's date is not that of prices that the user has set.
    (let ((agent-q-provider (append agent-q-provider '(:models (("scripted" :prices (10.0 20.0)))))))
      (agent-q-test-with-chat
        (agent-q-test-ask "two")
        (agent-q-cost)
        (should (agent-q-test-shows "This chat cost $0.0120"))
        (should-not (agent-q-test-shows "Prices as of"))))))

(defun agent-q-chats-test--other-emacs (form)
  "Return what FORM prints in another Emacs with these chats and no model."
  (with-temp-buffer
    (call-process
     (expand-file-name invocation-name invocation-directory) nil t nil
     "-Q" "--batch" "-L" (file-name-directory (locate-library "agent-q-module"))
     "--eval" (prin1-to-string
               `(progn
                  (require 'agent-q-module)
                  (require 'cl-lib)
                  (setq agent-q-chat-history-directory ,agent-q-chat-history-directory
                        agent-q-provider 'none)
                  (cl-flet ((shown (text)
                              (let ((until (+ (float-time) 60)))
                                (while (and (not (string-search text (buffer-string)))
                                            (< (float-time) until))
                                  (accept-process-output nil 0.01)))))
                    ,form
                    (shown "first question")
                    (princ (buffer-substring-no-properties (point-min) (point-max)))))))
    (buffer-string)))

(ert-deftest agent-q-chats-bookmarks-and-desktop-lead-another-emacs-to-a-chat ()
  (agent-q-test-chats-with (agent-q-test-chats-says "It is plum.")
    (let ((bookmark-alist nil) (bookmark-default-file (expand-file-name "bookmarks"))
          (bookmark-save-flag nil)
          (directory default-directory))
      (agent-q-test-with-chat
        (agent-q-test-ask "first question")
        (let ((inhibit-message t))
          (bookmark-set "plums")
          (bookmark-save)
          (require 'desktop)
          (let ((desktop-restore-frames nil)
                (desktop-files-not-to-save "\\`\\'")
                (desktop-globals-to-save nil))
            (desktop-save directory t))))
      (dolist (form `((progn (require 'bookmark)
                             (bookmark-load ,bookmark-default-file t t)
                             (bookmark-jump "plums"))
                      (progn (require 'desktop)
                             ;; It does nothing in batch otherwise.
                             (let ((desktop-restore-frames nil) (noninteractive nil))
                               (desktop-read ,directory))
                             (set-buffer (car (agent-q-session-buffers))))))
        (should (string-search "> first question\n\nIt is plum.\n\nResumed: 1 turn,"
                               (agent-q-chats-test--other-emacs form)))))))

(ert-deftest agent-q-chats-calls-can-be-unfolded-and-requests-not-answered ()
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "t_run" :arguments (:text "(+ 1 2)"))])])
        (:steps [(:text "Never mind.")]))
    (agent-q-test-with-tools
        ((agent-q-test-tool "t_run" (lambda (_) "It ran.") :safety-level :dangerous))
      (let (id)
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id)
          (agent-q-test-send "run it")
          (agent-q-test-until (agent-q-call-waiting)))
        (agent-q-test-chats-resumed id
          (agent-q-test-until (agent-q-test-shows "t_run"))
          (should-not (agent-q-call-waiting))
          (agent-q-test-find "t_run")
          (agent-q-render-toggle)
          (should (agent-q-test-shows "(+ 1 2)")))))))

(ert-deftest agent-q-chats-a-second-emacs-reads-only ()
  (agent-q-test-chats-with (agent-q-test-chats-says "Hello.")
    (agent-q-test-with-chat
      (agent-q-test-ask "hi")
      (let ((id agent-q-chat-history-id))
        ;; As for another Emacs, which doesn't know of this buffer.
        (setq agent-q-chat-history-id nil)
        (agent-q-test-chats-resumed id
          (agent-q-test-until (agent-q-test-shows "is open in another Emacs"))
          (agent-q-test-until (agent-q-test-shows "Hello."))
          (should-error (agent-q-test-send "more") :type 'user-error))
        (setq agent-q-chat-history-id id)))))

(ert-deftest agent-q-chats-old-turns-come-when-asked-for ()
  (let ((agent-q-chat-history-turns 2))
    (agent-q-test-chats-with (agent-q-test-chats-says "A." "B." "C." "D." "E.")
      (let (id)
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id)
          (dolist (text '("one" "two" "three" "four" "five"))
            (agent-q-test-ask text)))
        (agent-q-test-chats-resumed id
          (agent-q-test-until (agent-q-test-shows "[Show older turns: 3]"))
          (should (agent-q-test-shows "> four"))
          (should-not (agent-q-test-shows "> three"))
          (goto-char (point-max))
          (insert "typed")
          (agent-q-chat-history-older)
          (agent-q-test-until (agent-q-test-shows "[Show older turns: 1]"))
          (should (agent-q-test-shows "> two"))
          (agent-q-chat-history-older)
          (agent-q-test-until (agent-q-test-shows "> one"))
          (should-not (agent-q-test-shows "[Show older turns"))
          (should (equal (agent-q-prompt-text) "typed"))
          (let ((log (agent-q-test-log)))
            (should (string-match-p "> one\n\nA\\.\n\n> two\n\nB\\.\n\n> three\n\nC\\." log)))
          (should-error (agent-q-chat-history-older) :type 'user-error))))))

(ert-deftest agent-q-chats-the-project-of-a-chat-from-elsewhere-counts-only-if-the-user-agrees ()
  "The agent may read all that is in it."
  (agent-q-test-chats-with (agent-q-test-chats-says "A.")
    (let* ((project default-directory)
           (elsewhere (file-name-as-directory (make-temp-file
                                               (expand-file-name "elsewhere" agent-q-test-directory)
                                               t)))
           (asked nil) (answer nil) id)
      (cl-flet ((root () (let ((default-directory elsewhere) (inhibit-message t))
                           (setq asked nil)
                           (cl-letf (((symbol-function 'y-or-n-p)
                                      (lambda (question)
                                        ;; Not in a menu.
                                        (unless use-dialog-box (push question asked))
                                        answer)))
                             (save-window-excursion
                               (agent-q-chats-go (car (agent-q-test-chats-found "")))
                               (agent-q-test-until (agent-q-test-shows "> one"))
                               (prog1 agent-q-session-root
                                 (kill-buffer)))))))
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id)
          (agent-q-test-ask "one"))
        (should (equal (root) project))
        (should-not asked)
        (let ((file (expand-file-name (concat id ".jsonl") agent-q-chat-history-directory)))
          (with-temp-buffer
            (insert-file-contents file)
            (search-forward (concat "\"root\":\"" project))
            (replace-match "\"root\":\"/" t t)
            (write-region nil nil file nil 'silent))
          (should (equal (root) elsewhere))
          (should (string-search "says that its project is /." (car asked)))
          (setq answer t)
          (should (equal (root) "/"))
          ;; No program logs in on another machine.
          (with-temp-buffer
            (insert-file-contents file)
            (search-forward "\"root\":\"/")
            (replace-match "\"root\":\"/ssh:nobody@host.invalid:/" t t)
            (write-region nil nil file nil 'silent))
          (cl-letf (((symbol-function 'tramp-file-name-handler)
                     (lambda (operation &rest arguments)
                       (when (eq operation 'file-directory-p)
                         (ert-fail "It logs in"))
                       (let ((inhibit-file-name-handlers '(tramp-file-name-handler))
                             (inhibit-file-name-operation operation))
                         (apply operation arguments)))))
            (should (equal (root) elsewhere))))))))

;;;; Finding, renaming, forking, exporting, deleting

(ert-deftest agent-q-chats-are-found-by-names-and-words ()
  (agent-q-test-chats-with (agent-q-test-chats-says "Use a PLUM tree." "Nothing.")
    (let (one two)
      (agent-q-test-with-chat
        (setq one agent-q-chat-history-id)
        (agent-q-test-ask "about trees"))
      (agent-q-test-with-chat
        (setq two agent-q-chat-history-id)
        (agent-q-test-ask "about stones")
        (agent-q-rename-chat "Granite\nand slate")
        (agent-q-test-until (equal (buffer-name) "*agent-q: Granite and slate*")))
      (let ((ids (lambda (words) (mapcar (lambda (chat) (alist-get 'id chat))
                                         (agent-q-test-chats-found words)))))
        (should (equal (funcall ids "") (list two one)))
        (should (equal (funcall ids "plum") (list one)))
        (should (equal (funcall ids "about tREE plum") (list one)))
        (should (equal (funcall ids "granite") (list two)))
        (should (equal (funcall ids "about") (list two one)))
        (should (equal (funcall ids "kind") nil))
        (should (string-search "PLUM" (alist-get 'excerpt
                                                 (car (agent-q-test-chats-found "plum"))))))
      (delete-directory (expand-file-name "index" agent-q-chat-history-directory) t)
      (should (= 1 (length (agent-q-test-chats-found "plum")))))))

(ert-deftest agent-q-chats-a-file-that-cannot-be-read-is-told ()
  "It hides none of the others."
  (agent-q-test-chats-with (agent-q-test-chats-says "Yes.")
    (agent-q-test-with-chat
      (agent-q-test-ask "about trees")
      (cl-flet ((found (words)
                  (let ((answer 'none))
                    (agent-q-chats-find
                     words (lambda (chats problem) (setq answer (cons (length chats) problem))))
                    (agent-q-test-until (not (eq answer 'none)))
                    answer)))
        ;; Root may read any file.
        (make-directory (expand-file-name "broken.jsonl" agent-q-chat-history-directory))
        (should (equal (found "") '(1 . "1 file can't be read as a chat")))
        (write-region "trees, by hand" nil
                      (expand-file-name "other.jsonl" agent-q-chat-history-directory) nil 'silent)
        (dolist (words '("" "trees" ""))
          (should (equal (found words) '(1 . "2 files can't be read as chats"))))
        (should (equal (found "stones")
                       '(0 . "No chat was found; 2 files can't be read as chats")))))))

(ert-deftest agent-q-chats-a-fork-has-what-came-before ()
  (agent-q-test-chats-with (agent-q-test-chats-says "A." "B." "C.")
    (agent-q-test-with-chat
      (agent-q-test-ask "one")
      (agent-q-test-ask "two")
      (let ((id agent-q-chat-history-id))
        (agent-q-fork-chat)
        (agent-q-test-until (not (equal id (buffer-local-value
                                            'agent-q-chat-history-id (window-buffer)))))
        (with-current-buffer (window-buffer)
          (agent-q-test-until (agent-q-test-shows "> one"))
          (agent-q-test-until (not agent-q-chat-send--choosing))
          (agent-q-test-ask "three")
          (should (string-search "one" (agent-q-test-chats-last-request)))
          (should-not (equal id agent-q-chat-history-id)))
        (should-not (agent-q-test-shows "> three"))))))

(ert-deftest agent-q-chats-are-exported-as-markdown ()
  (agent-q-test-chats-with (agent-q-test-chats-says "It is **bold**.\n\n```lisp\n(f)\n```")
    (agent-q-test-with-chat
      (agent-q-test-ask "what?")
      (let ((file (expand-file-name "chat.md")))
        (agent-q-export-chat file)
        (agent-q-test-until (file-exists-p file))
        (agent-q-test-until
         (with-temp-buffer
           (insert-file-contents file)
           (and (search-forward "> what?" nil t)
                (search-forward "It is **bold**.\n\n```lisp\n(f)\n```" nil t))))))))

(ert-deftest agent-q-chats-a-deleted-chat-is-in-the-trash ()
  (agent-q-test-chats-with (agent-q-test-chats-says "A.")
    (let* ((trash (expand-file-name "trash/" default-directory))
           (trash-directory trash)
           (id nil))
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (agent-q-test-ask "one"))
      (agent-q-test-until (agent-q-test-chats-found "one"))
      (cl-letf (((symbol-function 'y-or-n-p) #'always))
        (let ((inhibit-message t)) (agent-q-chats-delete id "one")))
      (agent-q-test-until (null (agent-q-test-chats-found "")))
      (should (file-exists-p (expand-file-name (concat id ".jsonl") trash))))))

(ert-deftest agent-q-chats-deleting-one-that-is-gone-is-told-and-the-list-is-right ()
  (agent-q-test-chats-with (agent-q-test-chats-says "A." "B.")
    (let ((said nil) id)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (agent-q-test-ask "the elm"))
      (agent-q-test-with-chat
        (agent-q-test-ask "the oak"))
      (let ((inhibit-message t)) (agent-q-chats))
      (with-current-buffer "*agent-q chats*"
        (agent-q-test-until (and (agent-q-test-shows "the elm") (agent-q-test-shows "the oak")))
        (agent-q-test-find "the elm")
        (forward-line 0)
        (delete-file (expand-file-name (concat id ".jsonl") agent-q-chat-history-directory))
        (cl-letf (((symbol-function 'y-or-n-p) #'always)
                  ((symbol-function 'message)
                   (lambda (format &rest arguments)
                     (when format (push (apply #'format format arguments) said)))))
          (agent-q-chats-list-delete)
          (agent-q-test-until (not (agent-q-test-shows "the elm"))))
        (should (equal said (list (format "There is no chat %s any more; its file may have been moved or deleted."
                                          id))))
        (should (agent-q-test-shows "the oak"))
        (kill-buffer)))))

(ert-deftest agent-q-chats-the-list-fits-and-knows-what-waits ()
  (agent-q-test-chats-with
      '((:steps [(:text "A.")])
        (:steps [(:tool_calls [(:name "t_run" :arguments (:text "x"))])]))
    (agent-q-test-with-tools
        ((agent-q-test-tool "t_run" (lambda (_) "It ran.") :safety-level :dangerous))
      (agent-q-test-with-chat
        (agent-q-test-ask "closed one"))
      (agent-q-test-with-chat
        (agent-q-test-send "open one")
        (agent-q-test-until (agent-q-call-waiting))
        (let ((inhibit-message t)) (agent-q-chats))
        (with-current-buffer "*agent-q chats*"
          (agent-q-test-until (agent-q-test-shows "closed one"))
          (should (agent-q-test-shows "needs you"))
          (goto-char (point-min))
          (while (not (eobp))
            (should (<= (- (line-end-position) (line-beginning-position)) 80))
            (forward-line))
          (kill-buffer))))))

(ert-deftest agent-q-chats-one-in-which-nothing-was-said-is-not-saved ()
  (agent-q-test-chats-with (agent-q-test-chats-says "A.")
    (agent-q-test-with-chat
      (agent-q-context-add-item 'text "kept")
      (let ((said nil) (file (expand-file-name "chat.md")))
        (cl-letf (((symbol-function 'message)
                   (lambda (format &rest arguments)
                     (when format (setq said (apply #'format format arguments))))))
          (dolist (command (list #'agent-q-fork-chat (lambda () (agent-q-export-chat file))))
            (setq said nil)
            (funcall command)
            (agent-q-test-until said)
            (should (equal said "Nothing was said in this chat yet, so nothing of it is saved."))))
        (should-not (file-exists-p file))
        (should-not (agent-q-test-chats-found ""))))
    (should-not (directory-files agent-q-chat-history-directory nil "session"))))

(ert-deftest agent-q-chats-the-list-names-the-chat-that-is-to-be-deleted ()
  "An open one that has no name, too."
  (agent-q-test-chats-with (agent-q-test-chats-says "A.")
    (agent-q-test-with-chat
      (agent-q-test-ask "the elm")
      (let ((inhibit-message t)) (agent-q-chats))
      (with-current-buffer "*agent-q chats*"
        (agent-q-test-until (agent-q-test-shows "the elm"))
        (let ((asked nil))
          (cl-letf (((symbol-function 'y-or-n-p) (lambda (prompt) (setq asked prompt) nil)))
            (agent-q-chats-list-delete))
          (should (equal asked "Move the chat \"the elm\" to the trash? ")))
        (kill-buffer)))))

(ert-deftest agent-q-chats-an-empty-list-says-so-and-one-to-resume-is-offered ()
  (agent-q-test-chats-with (agent-q-test-chats-says "A.")
    (let ((inhibit-message t)) (agent-q-chats))
    (with-current-buffer "*agent-q chats*"
      (agent-q-test-until (agent-q-test-shows "There is no chat yet; M-x agent-q-chat opens one."))
      (should (eq (key-binding "?") #'agent-q-menu)))
    (agent-q-test-with-chat
      (with-current-buffer "*agent-q chats*"
        (agent-q-test-press "g")
        (agent-q-test-until (agent-q-test-shows "nothing said yet")))
      (agent-q-test-ask "the elm")
      (with-current-buffer "*agent-q chats*"
        (agent-q-chats-list-search "oak")
        (agent-q-test-until (agent-q-test-shows "No chat matches; s searches again."))
        (agent-q-chats-list-search "elm")
        (agent-q-test-until (agent-q-test-shows "the elm"))
        (kill-buffer))
      (let ((asked nil))
        (cl-letf (((symbol-function 'completing-read)
                   (lambda (prompt table _predicate _match _initial _history default &rest _)
                     (setq asked (list prompt (agent-q-test-completions "elm" table)))
                     default)))
          (agent-q-resume))
        (should (equal asked '("Resume (default the elm): " ("the elm"))))))))

(ert-deftest agent-q-chats-nothing-is-saved-when-that-is-off ()
  (let ((agent-q-save-chats nil))
    (agent-q-test-chats-with (agent-q-test-chats-says "A.")
      (agent-q-test-with-chat
        (agent-q-test-ask "one")
        (should-not agent-q-chat-history-id)
        (should-error (agent-q-fork-chat) :type 'user-error))
      (should-not (directory-files agent-q-chat-history-directory nil "session")))))

(ert-deftest agent-q-chats-what-is-no-chat-is-refused ()
  (agent-q-test-chats-with nil
    (should-error (agent-q-chats-open "../victim" nil nil))
    (let ((agent-q-provider 'none) (inhibit-message t))
      (with-current-buffer (agent-q-chats-open "session-1" nil nil)
        (agent-q-test-until (agent-q-test-shows "There is no chat session-1"))))))

;;;; Chats whose Emacs was killed

;; Another Emacs is killed in the middle of a turn, and this one goes on with its chat.

(ert-deftest agent-q-chats-cut-a-turn-whose-emacs-was-killed-goes-on ()
  "Each call has a result: the one that was written down, or that nothing is known."
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "create_file" :arguments (:path "plum.txt" :content "plum"))
                               (:name "edit_file"
                                :arguments (:path "fig.txt" :old_str "fig" :new_str "pear"))])])
        (:steps [(:text "It goes on.")])
        (:steps [(:text "And on.")]))
    (write-region "fig\n" nil "fig.txt" nil 'silent)
    (let ((id (agent-q-test-chats-killed-in-mid-turn
               '(setq agent-q-tool-levels '(("create_file" . :safe)))
               "change it" "\"kind\":\"result\"" "\"kind\":\"asked\"")))
      (dolist (text '("go on" "once more"))
        (agent-q-test-chats-resumed id
          (agent-q-test-until (not agent-q-chat-send--choosing))
          (agent-q-test-ask text)
          (let* ((request (json-parse-string (agent-q-test-chats-last-request)))
                 (messages (append (gethash "messages" (gethash "body" request)) nil))
                 (roles (mapcar (lambda (it) (gethash "role" it)) messages))
                 (results (seq-filter (lambda (it) (equal "tool" (gethash "role" it))) messages)))
            (should (equal (seq-take roles 6)
                           '("system" "user" "assistant" "tool" "tool" "user")))
            (should (equal (mapcar (lambda (it) (gethash "tool_call_id" it)) results)
                           (mapcar (lambda (it) (gethash "id" it))
                                   (append (gethash "tool_calls" (nth 2 messages)) nil))))
            (should (string-search "plum.txt" (gethash "content" (nth 0 results))))
            (should (equal "Error: Emacs went away while this call waited or ran; whether it was done is not known."
                           (gethash "content" (nth 1 results)))))
          (kill-buffer))))))

(ert-deftest agent-q-chats-cut-a-call-in-the-background-is-lost-with-its-emacs ()
  "It has its result, that it had begun; waiting for it says that it is lost."
  (agent-q-test-chats-with
      '((:steps [(:tool_calls [(:name "run_tests" :arguments (:system "aq-none" :background t))])])
        (:steps [(:text "I wait") (:pause_ms 60000)])
        (:steps [(:tool_calls [(:name "await_call" :arguments (:call_id 7))])])
        (:steps [(:text "It is lost.")]))
    (let ((id (agent-q-test-chats-killed-in-mid-turn nil "test it" "pending: run_tests")))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (should (string-match-p "run_tests .*cancelled" (agent-q-test-log)))
        (agent-q-test-ask "go on")
        (let* ((request (json-parse-string (agent-q-test-chats-last-request)))
               (messages (append (gethash "messages" (gethash "body" request)) nil))
               (results (seq-filter (lambda (it) (equal "tool" (gethash "role" it))) messages)))
          (should (string-prefix-p "pending: run_tests" (gethash "content" (car results))))
          (should (string-search "Emacs was started again since"
                                 (gethash "content" (cadr results)))))))))

(ert-deftest agent-q-chats-a-message-that-was-put-into-a-turn-is-shown-again ()
  (agent-q-test-with-tools
      ((agent-q-test-tool "t_run" (lambda (_) "It ran.") :safety-level :dangerous))
    (agent-q-test-chats-with
        (cons '(:steps [(:tool_calls [(:name "t_run" :arguments (:text "1"))])])
              (agent-q-test-chats-says "Done."))
      (let (id)
        (agent-q-test-with-chat
          (setq id agent-q-chat-history-id)
          (agent-q-test-send "go")
          (agent-q-test-arm)
          (goto-char (point-max))
          (insert "use bytes")
          (agent-q-test-press "M-RET")
          (agent-q-test-answer "y")
          (agent-q-test-until (agent-q-test-shows "Done.")))
        (agent-q-test-chats-resumed id
          (agent-q-test-until (agent-q-test-shows "Done."))
          (should (string-match-p "> go\n\\(?:.*\n\\)+> use bytes\n\nDone\\." (agent-q-test-log))))
        (should (= 1 (length (agent-q-test-chats-found "bytes"))))
        (let ((file (expand-file-name "out.md")))
          (agent-q-test-chats-answer "export" `(id . ,id) `(file . ,file))
          (with-temp-buffer
            (insert-file-contents file)
            (should (search-forward "\n> use bytes\n" nil t))))))))

(ert-deftest agent-q-chats-what-a-turn-changed-stands-under-it-again ()
  "No later turn has it, it can be undone, and the audit log leads to it."
  (agent-q-test-chats-with
      (append '((:steps [(:tool_calls [(:name "create_file" :arguments
                                              (:path "made.txt" :content "one\n"))])]))
              (agent-q-test-chats-says "Made." "Nothing."))
    (let ((agent-q-tool-levels '(("create_file" . :cautious)))
          (file (expand-file-name "made.txt"))
          (changed "Changed made.txt (new) \\+1 -0  \\[Diff\\] \\[Undo\\]\\(?: \\[Verify\\]\\)?\n")
          id)
      (agent-q-test-with-chat
        (setq id agent-q-chat-history-id)
        (agent-q-test-ask "make it"))
      (agent-q-test-chats-resumed id
        (agent-q-test-until (agent-q-test-shows "> make it"))
        (agent-q-test-until (not agent-q-chat-send--choosing))
        (agent-q-test-ask "and now?")
        (let ((log (agent-q-test-log)))
          (should (string-match-p (concat "Made\\.\n+. " changed "\n*Resumed:") log))
          (should (string-suffix-p "Nothing.\n" log)))
        (kill-buffer))
      (save-window-excursion
        (agent-q-audit-log)
        (agent-q-test-until (> (hash-table-count agent-q-audit--chats) 0))
        (goto-char (point-min))
        (search-forward "create_file")
        (should (equal "make it" (agent-q-audit--chat (tabulated-list-get-id))))
        (agent-q-test-press "RET")
        (agent-q-test-until (agent-q-test-shows "> make it"))
        (should (equal id agent-q-chat-history-id))
        (should (looking-at-p ".* create_file .*made.txt"))
        (search-forward "[Undo]")
        (cl-letf (((symbol-function 'y-or-n-p) #'always))
          (push-button (1- (point))))
        (agent-q-test-until (agent-q-test-shows "Changed made.txt (new) +1 -0 (undone)"))
        (should-not (file-exists-p file))))))

(ert-deftest agent-q-chats-a-new-one-offers-to-continue-the-last ()
  "It says what was changed since, and gives way to the other."
  (agent-q-test-chats-with (agent-q-test-chats-says "By moving money." "Again.")
    (write-region "old" nil "old.lisp" nil 'silent)
    (set-file-times "old.lisp" (time-subtract nil 3600))
    (agent-q-test-with-chat
      (should-not (agent-q-test-shows "[Continue"))
      (agent-q-test-ask "how does transfer work? I wonder.")
      (should (string-suffix-p ": how does transfer work?*" (buffer-name))))
    ;; The clock of files is coarser than that of chats.
    (dolist (file '("new.lisp" "new.fasl" "#new.lisp#" "new.lisp~"))
      (write-region "new" nil file nil 'silent)
      (set-file-times file (time-add nil 1)))
    (let ((agent-q-provider (or agent-q-provider 'none)) (agent-q-chats-recent 50))
      (save-window-excursion
        (agent-q-chat t)
        (agent-q-test-until (agent-q-test-shows "changed since: 1 file (new.lisp)"))
        (let ((new (current-buffer)))
          (goto-char (point-min))
          (search-forward "[Continue \"how does transfer work?\"]")
          (push-button (1- (point)))
          (should-not (buffer-live-p new)))
        (agent-q-test-until (agent-q-test-shows "By moving money."))
        (should (string-suffix-p ": how does transfer work?*" (buffer-name)))
        (kill-buffer)))))

(provide 'agent-q-chats-test)
;;; agent-q-chats-test.el ends here
