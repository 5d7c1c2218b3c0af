;;; agent-q-install-test.el --- The ways to install the package  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a user has after each way to install: the commands that are documented, the core and the
;; Common Lisp half.  All of it is looked at in fresh Emacsen, with folders that are made here.

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'package)
(require 'seq)

(defconst agent-q-install-test--root
  (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))
  "The project's root.")

(defconst agent-q-install-test--lisp
  (file-name-as-directory (expand-file-name "lisp" agent-q-install-test--root))
  "The folder of the Emacs Lisp.")

(defun agent-q-install-test--in-emacs (directories form)
  "Return the value of FORM in a fresh Emacs, with DIRECTORIES on its `load-path'.
It is read from what the last line prints."
  (with-temp-buffer
    (let ((status (apply #'call-process
                         (expand-file-name invocation-name invocation-directory)
                         nil t nil "-Q" "--batch"
                         `(,@(cl-mapcan (lambda (directory) (list "-L" directory)) directories)
                           "--eval" ,(format "(princ (format \"\\n>>%%S\" %S))" form)))))
      (should (equal (list 0 (buffer-string)) (list status (buffer-string)))))
    (goto-char (point-max))
    (search-backward ">>")
    (forward-char 2)
    (read (current-buffer))))

(defmacro agent-q-install-test--with-folder (folder &rest body)
  "Run BODY with FOLDER bound to the name of a new folder."
  (declare (indent 1) (debug t))
  `(let ((,folder (file-name-as-directory (make-temp-file "agent-q-install" t))))
     (unwind-protect
         (progn ,@body)
       (delete-directory ,folder t))))

(defun agent-q-install-test--sources ()
  "Return the names of the package's Emacs Lisp files."
  (seq-remove (lambda (file) (string-suffix-p "-autoloads.el" file))
              (directory-files agent-q-install-test--lisp t "\\`agent-q.*\\.el\\'")))

;;;; What there is to call

(defun agent-q-install-test--documented-commands ()
  "Return the commands that README and manual name: by M-x, and in their tables."
  (let ((commands nil))
    (dolist (file '("README.md" "docs/manual.org"))
      (with-temp-buffer
        (insert-file-contents (expand-file-name file agent-q-install-test--root))
        (while (re-search-forward "M-x \\(agent-q-[a-z-]+\\)" nil t)
          (push (intern (match-string 1)) commands))
        (goto-char (point-min))
        (while (search-forward "| command |" nil t)
          (while (progn (forward-line) (looking-at "|\\([^|\n]*\\)|"))
            (let ((cell (match-string 1)))
              (with-temp-buffer
                (insert cell)
                (goto-char (point-min))
                (while (re-search-forward "[`~]\\(agent-q-[a-z-]+\\)[`~]" nil t)
                  (push (intern (match-string 1)) commands))))))))
    (delete-dups (append '(agent-q-mode) commands))))

(defun agent-q-install-test--cookies ()
  "Return what the autoload cookies of the Emacs Lisp are about, functions and commands."
  (let ((names nil))
    (dolist (file (agent-q-install-test--sources))
      (with-temp-buffer
        (insert-file-contents file)
        (while (re-search-forward
                "^;;;###autoload\n(\\(?:cl-\\)?\\(?:defun\\|define-minor-mode\\|define-derived-mode\\) \\([^ \n]+\\)"
                nil t)
          (push (intern (match-string 1)) names))))
    names))

(ert-deftest agent-q-install-documents-name-commands ()
  "The commands of README and manual are found by these tests, those of tables too."
  (should (> (length (agent-q-install-test--documented-commands)) 35))
  (should (memq 'agent-q-changes-in-image (agent-q-install-test--documented-commands))))

(ert-deftest agent-q-install-commands-are-there-after-either-require ()
  "After `agent-q-module' or `agent-q' was required, all commands that are documented are there."
  (dolist (feature '(agent-q-module agent-q))
    (should-not
     (agent-q-install-test--in-emacs
      (list agent-q-install-test--lisp)
      `(progn (require ',feature)
              (seq-remove #'commandp ',(agent-q-install-test--documented-commands)))))))

(ert-deftest agent-q-install-cookies-and-module-agree ()
  "What has an autoload cookie is there when `agent-q-module' was required, and works.
Each autoload names the file that defines the function."
  (should-not
   (agent-q-install-test--in-emacs
    (list agent-q-install-test--lisp)
    `(progn (require 'agent-q-module)
            (seq-remove #'fboundp ',(agent-q-install-test--cookies)))))
  (should-not
   (agent-q-install-test--in-emacs
    (list agent-q-install-test--lisp)
    '(progn (require 'agent-q-module)
            (let ((wrong nil))
              (mapatoms (lambda (symbol)
                          (let ((function (symbol-function symbol)))
                            (when (and (autoloadp function)
                                       (string-prefix-p "agent-q" (symbol-name symbol)))
                              (condition-case nil
                                  (when (autoloadp (autoload-do-load function symbol))
                                    (push symbol wrong))
                                (error (push symbol wrong)))))))
              wrong))))
  ;; And what it names as a command has a cookie, for those who have the cookies alone.
  (should-not
   (agent-q-install-test--in-emacs
    (list agent-q-install-test--lisp)
    `(progn (require 'agent-q-module)
            (let ((missing nil))
              (mapatoms (lambda (symbol)
                          (when (and (string-prefix-p "agent-q" (symbol-name symbol))
                                     (commandp symbol)
                                     ;; Old names are written out in their cookies.
                                     (not (get symbol 'byte-obsolete-info))
                                     (not (memq symbol ',(agent-q-install-test--cookies))))
                            (push symbol missing))))
              missing)))))

(ert-deftest agent-q-install-generated-autoloads-suffice ()
  "With what a package manager generates, commands, registry and marks are there."
  (agent-q-install-test--with-folder folder
    (dolist (file (agent-q-install-test--sources))
      (copy-file file folder))
    (let ((inhibit-message t))
      (package-generate-autoloads "agent-q" folder))
    (should
     (equal
      '(nil t t nil t)
      (agent-q-install-test--in-emacs
       nil
       `(progn
          (load ,(expand-file-name "agent-q-autoloads" folder) nil t)
          (list (seq-remove #'commandp ',(agent-q-install-test--documented-commands))
                (and (boundp 'agent-q-registry) t)
                (get 'agent-q-eval-policy 'risky-local-variable)
                (featurep 'agent-q)
                ;; The README's snippet.
                (progn (agent-q-register-tool
                        agent-q-registry
                        (agent-q-define-tool "next_release" "Return it." nil :handler #'ignore))
                       (and (agent-q-get-tool "next_release") t)))))))))

(ert-deftest agent-q-install-autoload-of-ones-own ()
  "An autoload that says only \"agent-q-module\" can be called from Lisp, too."
  (dolist (library '("agent-q-module" "agent-q"))
    (should
     (equal '("*agent-q doctor*" t)
            (agent-q-install-test--in-emacs
             (list agent-q-install-test--lisp)
             `(progn (autoload 'agent-q-doctor ,library nil t)
                     (autoload 'agent-q-rules ,library nil t)
                     (autoload 'agent-q-list-registered-tools ,library)
                     ,@(when (equal library "agent-q") '((require 'agent-q)))
                     (call-interactively 'agent-q-doctor)
                     (list (buffer-name) (commandp 'agent-q-rules))))))))

(ert-deftest agent-q-install-options-are-in-the-group ()
  "The group shows all options and faces before anything else is loaded."
  (let ((options nil))
    (dolist (file (agent-q-install-test--sources))
      (with-temp-buffer
        (insert-file-contents file)
        (while (re-search-forward "^(\\(?:defcustom\\|defface\\) \\([^ \n]+\\)" nil t)
          (push (intern (match-string 1)) options))))
    (should (> (length options) 20))
    (should-not
     (agent-q-install-test--in-emacs
      (list agent-q-install-test--lisp)
      `(progn (require 'agent-q-module)
              (require 'cus-edit)
              (custom-load-symbol 'agent-q)
              (let ((shown nil) (groups '(agent-q)))
                (while groups
                  (dolist (member (get (pop groups) 'custom-group))
                    (if (eq (cadr member) 'custom-group)
                        (push (car member) groups)
                      (push (car member) shown))))
                (seq-remove (lambda (option) (memq option shown)) ',options)))))))

(ert-deftest agent-q-install-init-files-add-to-options ()
  "What the README adds to a list of ours can be added once `agent-q-module' is there."
  (should
   (equal '(office "*.pem" t)
          (agent-q-install-test--in-emacs
           (list agent-q-install-test--lisp)
           '(progn (require 'agent-q-module)
                   (add-to-list 'agent-q-providers '(office :base-url "http://gpu.example.com/v1"))
                   (add-to-list 'agent-q-private-files "*.pem")
                   (require 'agent-q-provider)
                   (list (caar agent-q-providers) (car agent-q-private-files)
                         (and (assq 'openai agent-q-providers)
                              (custom-variable-p 'agent-q-providers)
                              t)))))))

;;;; Where core and Common Lisp half are found

(defconst agent-q-install-test--found
  '(list (agent-q-module-problem)
         (and (agent-q-module-source-directory) t)
         (progn (require 'agent-q-image-module)
                (> (length (agent-q-image-module--modules)) 10))
         (agent-q-module-ensure))
  "A form with what is found: no problem, source, Common Lisp half, core.")

(ert-deftest agent-q-install-files-linked-one-by-one ()
  "Where each file is a link to the source, as in straight, all is found, compiled or not."
  (agent-q-install-test--with-folder folder
    (dolist (file (cons (expand-file-name "agent-q-root.el" agent-q-install-test--root)
                        (agent-q-install-test--sources)))
      (make-symbolic-link file (expand-file-name (file-name-nondirectory file) folder)))
    (let ((inhibit-message t))
      (package-generate-autoloads "agent-q" folder))
    (should (equal '(nil (nil t t t))
                   (agent-q-install-test--in-emacs
                    (list folder)
                    `(progn (load "agent-q-autoloads" nil t)
                            (list (seq-remove #'commandp
                                              ',(agent-q-install-test--documented-commands))
                                  ,agent-q-install-test--found)))))
    (should (equal '(nil t t t)
                   (agent-q-install-test--in-emacs
                    (list folder)
                    `(progn
                       (require 'bytecomp)
                       (setq byte-compile-verbose nil)
                       (byte-compile-file ,(expand-file-name "agent-q-module.el" folder))
                       (load ,(expand-file-name "agent-q-module.elc" folder) nil t)
                       ,agent-q-install-test--found))))))

(ert-deftest agent-q-install-linked-folder ()
  "Where the folder is a link to lisp/, all is found."
  (agent-q-install-test--with-folder folder
    (let ((link (expand-file-name "agent-q" folder)))
      (make-symbolic-link agent-q-install-test--lisp link)
      (should (equal '(nil t t t)
                     (agent-q-install-test--in-emacs
                      (list link)
                      `(progn (require 'agent-q) ,agent-q-install-test--found)))))))

(defun agent-q-install-test--install (folder what &rest before)
  "Have package.el install WHAT, a form, below FOLDER, after the forms BEFORE.
Return what the compiler and the installation had to complain about."
  (agent-q-install-test--in-emacs
   nil
   `(let ((inhibit-message t))
      (require 'package)
      (setq package-user-dir ,(expand-file-name "elpa" folder)
            package-archives nil
            custom-file ,(expand-file-name "custom.el" folder))
      ,@before
      (package-initialize)
      ,what
      (let ((log (get-buffer "*Compile-Log*")))
        (and log
             (with-current-buffer log
               (seq-filter (lambda (line)
                             (and (string-match-p "Error\\|Warning" line)
                                  ;; What package managers write themselves.
                                  (not (string-match-p "agent-q-\\(?:pkg\\|autoloads\\)\\.el" line))))
                           (split-string (buffer-string) "\n"))))))))

(defun agent-q-install-test--with-package (folder form)
  "Return the value of FORM in an Emacs that has the packages below FOLDER."
  (agent-q-install-test--in-emacs
   nil
   `(progn
      (require 'package)
      (setq package-user-dir ,(expand-file-name "elpa" folder))
      (package-activate-all)
      ,form)))

(ert-deftest agent-q-install-package-of-a-folder ()
  "package.el copies the .el files of lisp/ alone; what is missing then is said, and can be told."
  (agent-q-install-test--with-folder folder
    (should-not (agent-q-install-test--install
                 folder `(package-install-file ,(directory-file-name agent-q-install-test--lisp))))
    (should-not (agent-q-install-test--with-package
                 folder `(seq-remove #'commandp ',(agent-q-install-test--documented-commands))))
    (should (string-match-p
             "not installed.*`agent-q-module-directory'"
             (agent-q-install-test--with-package
              folder '(condition-case failure (agent-q-module-ensure)
                        (user-error (string-replace "’" "'" (string-replace "‘" "`" (cadr failure))))))))
    (should (equal '(nil t t t)
                   (agent-q-install-test--with-package
                    folder `(progn (setq agent-q-module-directory ,agent-q-install-test--lisp)
                                   (require 'agent-q)
                                   ,agent-q-install-test--found))))))

(ert-deftest agent-q-install-package-of-a-tar ()
  "The tar that `make package' makes has all that is needed."
  (skip-unless (executable-find "tar"))
  (agent-q-install-test--with-folder folder
    (let* ((default-directory agent-q-install-test--root)
           (process-environment (cons (concat "CARGO_TARGET_DIR=" folder) process-environment))
           (tar (with-temp-buffer
                  (should (eql 0 (call-process "sh" nil '(t nil) nil "scripts/package.sh")))
                  (string-trim (buffer-string)))))
      (should-not (agent-q-install-test--install
                   folder `(package-install-file ,tar)
                   ;; The files are compiled in other tests.
                   '(advice-add 'package--compile :override #'ignore)))
      (should-not (agent-q-install-test--with-package
                   folder `(seq-remove #'commandp ',(agent-q-install-test--documented-commands))))
      ;; It is no source tree.
      (should (equal '(nil nil t t)
                     (agent-q-install-test--with-package
                      folder `(progn (require 'agent-q) ,agent-q-install-test--found)))))))

(ert-deftest agent-q-install-clone-by-package-vc ()
  "package-vc takes a clone, with :lisp-dir and without it, and compiles it silently."
  (skip-unless (and (>= emacs-major-version 30) (executable-find "git")))
  (dolist (more '((:lisp-dir "lisp") nil))
    (agent-q-install-test--with-folder folder
      (let ((clone (expand-file-name "clone" folder))
            (default-directory folder))
        (make-directory clone)
        (dolist (file '("agent-q-root.el" ".elpaignore" "Makefile" "Cargo.toml" "README.md"))
          (copy-file (expand-file-name file agent-q-install-test--root)
                     (file-name-as-directory clone)))
        (dolist (part '("lisp" "test" "scripts"))
          (copy-directory (expand-file-name part agent-q-install-test--root)
                          (expand-file-name part clone)))
        (dolist (old (directory-files-recursively clone "\\.elc\\'\\|-autoloads\\.el\\'"))
          (delete-file old))
        (dolist (arguments '(("init" "-q") ("add" "-A" "-f")
                             ("-c" "user.name=a" "-c" "user.email=a@b" "commit" "-qm" "All")))
          (should (eql 0 (apply #'call-process "git" nil nil nil "-C" clone arguments))))
        (should-not (agent-q-install-test--install
                     folder `(package-vc-install '(agent-q :url ,clone :vc-backend Git ,@more))
                     '(require 'package-vc)))
        (should-not (agent-q-install-test--with-package
                     folder `(seq-remove #'commandp ',(agent-q-install-test--documented-commands))))
        (should (equal '(nil t t t)
                       (agent-q-install-test--with-package
                        folder `(progn (require 'agent-q) ,agent-q-install-test--found))))))))

(ert-deftest agent-q-install-versions-agree ()
  "The version is the same wherever it is written."
  (let ((versions (mapcar (pcase-lambda (`(,file . ,pattern))
                            (with-temp-buffer
                              (insert-file-contents
                               (expand-file-name file agent-q-install-test--root))
                              (re-search-forward pattern)
                              (match-string 1)))
                          '(("Cargo.toml" . "^version = \"\\(.+\\)\"")
                            ("agent-q-root.el" . "^;; Version: \\(.+\\)")
                            ("lisp/agent-q-module.el" . "^;; Version: \\(.+\\)")
                            ("lisp/agent-q.el" . "^;; Version: \\(.+\\)")))))
    (should (equal 1 (length (delete-dups versions))))))

(provide 'agent-q-install-test)
;;; agent-q-install-test.el ends here
