;;; agent-q-manual-test.el --- What README and manual show works  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Each example of the README, the manual and CONTRIBUTING.md's tools is run: Emacs Lisp in a fresh
;; Emacs, Common Lisp in a real image, gram by the parser, shell by `sh -n'.  What they name is there,
;; and so is what they link to.  The manual is built, and found by Info.
;; That the keys and the reference are those of the sources is lint's to check.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)
(require 'info)

(defconst agent-q-manual-test--documents '("README.md" "docs/manual.org")
  "The documents whose examples are run.")

(defun agent-q-manual-test--text (file)
  "Return the text of FILE of the project."
  (with-temp-buffer
    (insert-file-contents (expand-file-name file agent-q-test-root))
    (buffer-string)))

(defun agent-q-manual-test--matches (regexp text &optional group)
  "Return all that GROUP, by default the first, of REGEXP matches in TEXT."
  (let ((case-fold-search nil) (start 0) (found nil))
    (while (string-match regexp text start)
      (push (match-string-no-properties (or group 1) text) found)
      (setq start (match-end 0)))
    (nreverse found)))

(defun agent-q-manual-test--blocks (languages)
  "Return the texts of the blocks of LANGUAGES, a regexp, in the documents."
  (seq-mapcat
   (lambda (file)
     (agent-q-manual-test--matches
      (if (string-suffix-p ".org" file)
          (format "^#\\+begin_src \\(?:%s\\)\n\\(\\(?:.*\n\\)*?\\)#\\+end_src" languages)
        (format "^```\\(?:%s\\)\n\\(\\(?:.*\n\\)*?\\)```" languages))
      (agent-q-manual-test--text file)))
   agent-q-manual-test--documents))

(defun agent-q-manual-test--fresh (form)
  "Return the value of FORM in a fresh Emacs that has lisp/ on its `load-path'."
  (with-temp-buffer
    (let ((status (call-process (expand-file-name invocation-name invocation-directory) nil t nil
                                "-Q" "--batch" "-L" (expand-file-name "lisp" agent-q-test-root)
                                "--eval" (format "(princ (format \"\\n>>%%S\" %S))" form))))
      (should (equal (list 0 (buffer-string)) (list status (buffer-string)))))
    (goto-char (point-max))
    (search-backward ">>")
    (forward-char 2)
    (read (current-buffer))))

;;;; Examples

(ert-deftest agent-q-manual-emacs-lisp-runs ()
  "The blocks of Emacs Lisp run in their order, and do what the text around them says."
  (let ((blocks (agent-q-manual-test--blocks "emacs-lisp\\|elisp")))
    (should (> (length blocks) 7))
    (should
     (equal
      '(t "C-c q" t (office gpu) "2026-12-24" ("2026-12-24" t) "User denied tool execution: Only files in /tmp"
        ("Good morning, Ann!" "Hi, Ann!"))
      (agent-q-manual-test--fresh
       `(let (said)
          (require 'cl-lib)
          (setq user-emacs-directory (make-temp-file "agent-q-manual" t)
                agent-q-log-file (expand-file-name "log" user-emacs-directory))
          (defun my-release-date (_product) "2026-12-24")
          (advice-add 'message :before (lambda (format &rest arguments)
                                         (push (and format (apply #'format-message format arguments)) said)))
          (let* ((values nil)
                 (run (lambda (text)
                        (with-temp-buffer
                          (insert text)
                          (emacs-lisp-mode)
                          (goto-char (point-min))
                          (while (progn (forward-comment (buffer-size)) (not (eobp)))
                            (push (eval (read (current-buffer)) t) values))))))
            (mapc run ',blocks)
            ;; What is called without waiting for it says that there is no image.
            (with-timeout (20)
              (while (not (seq-find (lambda (line) (string-match-p "No Lisp image" (or line ""))) said))
                (accept-process-output nil 0.01)))
            (require 'agent-q-provider)
            (list (and (seq-find (lambda (line) (string-match-p "No Lisp image" (or line ""))) said) t)
                  agent-q-keymap-prefix
                  (and agent-q-mode t)
                  (cl-remove-if-not (lambda (name) (assq name agent-q-providers)) '(office gpu))
                  (cl-find "2026-12-24" values :test #'equal)
                  (let ((result (car (agent-q-execute-tool-calls-sync
                                      '((:id "1" :name "next_release" :arguments (:product "Emacs")))))))
                    (list (agent-q-tool-result-content result) (agent-q-tool-result-success result)))
                  (agent-q-tool-result-error
                   (car (agent-q-execute-tool-calls-sync
                         '((:id "1" :name "write_file"
                            :arguments (:path "/nowhere/a.txt" :content "a"))))))
                  (mapcar (lambda (library)
                            (let ((arguments (make-hash-table :test #'equal)))
                              (puthash "name" "Ann" arguments)
                              (funcall (agent-q-tool-handler
                                        (agent-q-library-lookup "say_hello" (cdr library)))
                                       arguments)))
                          agent-q-tool-libraries)))))))))

(ert-deftest agent-q-manual-gram-is-an-agent ()
  "The agent of the manual can be read, and its tool bound to the libraries beside it."
  (let* ((text (car (agent-q-manual-test--matches
                     "^#\\+begin_example\n\\(\\[greeter:\\(?:.*\n\\)*?\\)#\\+end_example"
                     (agent-q-manual-test--text "docs/manual.org"))))
         (agent (agent-q-agent-from-gram text))
         (specification (car (agent-q-agent-tools agent))))
    (should (equal "greeter" (agent-q-agent-name agent)))
    (should (agent-q-bind-tool
             specification
             (agent-q-library-register
              "say_hello"
              (agent-q-define-tool-from-signature
               "say_hello" "Greet the one of that name" "(::Text {paramName:\"name\"})==>(::String)"
               (lambda (arguments) (gethash "name" arguments)))
              (agent-q-empty-tool-library))))))

(agent-q-test-image-on-each manual-common-lisp-runs ()
  "The tool that the manual defines in a program can be called."
  (let ((blocks (agent-q-manual-test--blocks "lisp")))
    (should blocks)
    (agent-q-test-with-chat
      (agent-q-chat-set-connection connection)
      (dolist (block blocks)
        (agent-q-test-image-values connection block))
      (agent-q-test-until (cl-find "order_total" (agent-q-core-tools)
                                   :key (lambda (tool) (plist-get tool :name)) :test #'equal))
      (agent-q-test-ask "/order_total id=42")
      (should (string-match-p "420 EUR" (agent-q-test-log))))))

(ert-deftest agent-q-manual-shell-can-be-run ()
  "Blocks of shell have no mistake that `sh' would see; make knows each target that is named."
  (dolist (block (agent-q-manual-test--blocks "sh"))
    (with-temp-buffer
      (insert block)
      (should (equal (list block 0 "")
                     (list block
                           (call-process-region (point-min) (point-max) "sh" t t nil "-n")
                           (buffer-string))))))
  (let ((targets (agent-q-manual-test--matches "^\\([a-z-]+\\):.*##" (agent-q-manual-test--text "Makefile")))
        (named (seq-mapcat (lambda (file)
                             (agent-q-manual-test--matches "\\(?:[`~]\\|^    \\)\\(?:[A-Z]+=[^ ]+ \\)?make \\([a-z-]+\\)"
                                                           (agent-q-manual-test--text file)))
                           agent-q-manual-test--documents)))
    (should (> (length named) 7))
    (should-not (seq-difference named targets))))

;;;; Names and links

(ert-deftest agent-q-manual-names-what-there-is ()
  "Each name of agent-q's that the manual has is a command, an option, a function or a file's."
  (let ((names (delete-dups (agent-q-manual-test--matches
                             "~\\(agent-q-[a-z-]*[a-z]\\)~" (agent-q-manual-test--text "docs/manual.org")))))
    (should (> (length names) 60))
    (should-not
     (agent-q-manual-test--fresh
      `(progn
         (require 'agent-q-module)
         (dolist (file (directory-files ,(expand-file-name "lisp" agent-q-test-root) nil "\\`agent-q.*\\.el\\'"))
           (unless (string-suffix-p "-autoloads.el" file)
             (require (intern (file-name-base file)))))
         (seq-remove (lambda (name)
                       (let ((symbol (intern name)))
                         ;; The bridge of other agents, and the system of programs, are no Emacs Lisp.
                         (or (fboundp symbol) (boundp symbol) (member name '("agent-q-mcp" "agent-q-image")))))
                     ',names))))))

(defun agent-q-manual-test--anchors (file)
  "Return what links into FILE may name."
  (let ((text (agent-q-manual-test--text file)))
    (if (string-suffix-p ".org" file)
        (agent-q-manual-test--matches "^:CUSTOM_ID: \\(.+\\)$" text)
      (mapcar (lambda (heading)
                (replace-regexp-in-string "[^a-z0-9-]" "" (string-replace " " "-" (downcase heading))))
              (agent-q-manual-test--matches "^#+ \\(.+\\)$" text)))))

(defun agent-q-manual-test--dead-links (file)
  "Return the links in FILE to what isn't there."
  (let ((text (agent-q-manual-test--text file)))
    (seq-remove
     (lambda (link)
       (pcase-let* ((`(,path ,anchor) (split-string (string-remove-prefix "file:" link) "#"))
                    (target (if (string-empty-p path) file
                              (file-relative-name
                               (expand-file-name path (file-name-directory
                                                       (expand-file-name file agent-q-test-root)))
                               agent-q-test-root))))
         (and (file-exists-p (expand-file-name target agent-q-test-root))
              (or (null anchor) (member anchor (agent-q-manual-test--anchors target))))))
     (seq-remove (lambda (link) (string-match-p "\\`https?:" link))
                 (append (agent-q-manual-test--matches "\\[\\[\\([^]\n]+\\)\\]" text)
                         (agent-q-manual-test--matches "\\](\\([^)\n]+\\))" text)
                         (mapcar (lambda (picture)
                                   (if (string-prefix-p "screens/" picture) (concat "file:" picture) picture))
                                 (agent-q-manual-test--matches "src\\(?:set\\)?=\"\\([^\"]+\\)\"" text)))))))

(ert-deftest agent-q-manual-links-lead-somewhere ()
  "What the documents link to in the project is there, headings too."
  (dolist (file '("README.md" "docs/manual.org" "docs/reference.org" "CONTRIBUTING.md" "CONTRACTS.md"
                  "IMPLEMENTATIONS.md" "ARCHITECTURE.md" "CHANGELOG.md"))
    (should (equal (list file) (cons file (agent-q-manual-test--dead-links file))))))

;;;; The built manual

(defvar agent-q-manual-test--built nil
  "The folder of the built manual, and what was said, or nil.")

(defun agent-q-manual-test--build ()
  "Build the manual once, and return its folder and what was said."
  (or agent-q-manual-test--built
      (let ((folder (make-temp-file (expand-file-name "manual" agent-q-test-directory) t))
            (default-directory agent-q-test-root))
        (with-temp-buffer
          (let ((process-environment (cons "QUIET=1" process-environment)))
            (should (equal (list 0 (buffer-string))
                           (list (call-process "sh" nil t nil "scripts/manual.sh" folder) (buffer-string)))))
          (setq agent-q-manual-test--built (list (file-name-as-directory folder) (buffer-string)))))))

(ert-deftest agent-q-manual-page-is-whole ()
  "The links and pictures of the pages lead somewhere, and no command is missing."
  (let ((folder (car (agent-q-manual-test--build))))
    (dolist (page '("agent-q.html" "keys.html"))
      (let* ((html (with-temp-buffer
                     (insert-file-contents (expand-file-name page folder))
                     (buffer-string)))
             (ids (agent-q-manual-test--matches "id=\"\\([^\"]+\\)\"" html)))
        (should-not (seq-difference (agent-q-manual-test--matches "href=\"#\\([^\"]+\\)\"" html) ids))
        (should-not (agent-q-manual-test--matches "href=\"\\(\\(?:file\\|\\.\\.\\)[^\"]*\\)\"" html))
        (should-not (seq-remove (lambda (picture) (file-exists-p (expand-file-name picture folder)))
                                (agent-q-manual-test--matches "src\\(?:set\\)?=\"\\([^\"]+\\)\"" html)))
        (should (string-match-p "C-c C-k" html))))
    (should (member "agent-q-audit-log"
                    (agent-q-manual-test--matches
                     "<dt><code>\\([^<]+\\)</code>"
                     (with-temp-buffer
                       (insert-file-contents (expand-file-name "agent-q.html" folder))
                       (buffer-string)))))))

(ert-deftest agent-q-manual-is-an-info-manual ()
  "It is built without a warning; its chapters and its index are found, and so is it in the directory."
  (unless (and (executable-find "makeinfo") (executable-find "install-info"))
    (ert-skip "texinfo is not installed"))
  (pcase-let ((`(,folder ,said) (agent-q-manual-test--build)))
    (should (equal "" said))
    (should
     (equal '("Top" "Requests and rules" t "Keys" t)
            (agent-q-manual-test--fresh
             `(let ((node (lambda (name) (info (format "(%sagent-q.info)%s" ,folder name)) Info-current-node)))
                (require 'info)
                (setq agent-q-module-directory ,folder)
                (require 'agent-q-module)
                (list (progn (agent-q-manual) Info-current-node)
                      (funcall node "Requests and rules")
                      (progn (Info-index "agent-q-audit-log")
                             (forward-line -1)
                             (and (looking-at-p ".*agent-q-audit-log") t))
                      (funcall node "Keys")
                      (progn (setq Info-directory-list (list ,folder)
                                   Info-additional-directory-list nil)
                             (info "dir")
                             (goto-char (point-min))
                             (and (search-forward "* agent-q: (agent-q)" nil t) t)))))))))

(ert-deftest agent-q-manual-opens-without-info ()
  "Without an Info manual, or with an old one, Org is shown; without any, a sentence says so."
  (let* ((tree (make-temp-file (expand-file-name "tree" agent-q-test-directory) t))
         (lisp (expand-file-name "lisp/" tree))
         (info (expand-file-name "target/manual/agent-q.info" tree)))
    (dolist (folder '("lisp" "docs" "target/manual"))
      (make-directory (expand-file-name folder tree) t))
    (dolist (file '("Makefile" "Cargo.toml" "docs/manual.org" "docs/reference.org" "CONTRACTS.md"
                    "IMPLEMENTATIONS.md"))
      (write-region "* Chapter\n" nil (expand-file-name file tree) nil 'silent))
    (write-region "\C-_\nFile: agent-q.info,  Node: Top,  Up: (dir)\n\nOld.\n" nil info nil 'silent)
    (set-file-times info (time-subtract nil 1000))
    (let ((alone (file-name-as-directory (make-temp-file (expand-file-name "alone" agent-q-test-directory) t))))
      (should
       (equal
        '((org-mode "manual.org" t)
          ;; The title and the chapters, without what Org's export reads.
          ("The book\n" 1 t)
          (Info-mode "*info*" t) "The manual is not in" (org-mode "agent-q.org" t))
        (agent-q-manual-test--fresh
         `(let ((shown (lambda (directory)
                         (setq agent-q-module-directory directory)
                         (condition-case failure
                             (progn (agent-q-manual)
                                    (list major-mode (buffer-name) buffer-read-only))
                           (user-error (substring (cadr failure) 0 20))))))
            (require 'agent-q-module)
            (list (progn (write-region "#+TITLE: The book\n#+LANGUAGE: en\n\nWords.\n\n* Chapter\nText.\n" nil
                                       ,(expand-file-name "docs/manual.org" tree) nil 'silent)
                         (funcall shown ,lisp))
                  (list (get-char-property (point) 'display) (point)
                        (progn (search-forward "Text") (and (invisible-p (1- (point))) t)))
                  (progn (set-file-times ,info (time-add nil 1000))
                         (funcall shown ,lisp))
                  (funcall shown ,alone)
                  (progn (write-region "* Chapter\n" nil ,(expand-file-name "agent-q.org" alone) nil 'silent)
                         (funcall shown ,alone))))))))))

(provide 'agent-q-manual-test)
;;; agent-q-manual-test.el ends here
