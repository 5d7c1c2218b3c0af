;;; agent-q-module-test.el --- Finding, checking and loading the core  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The installed core of this build is loaded; cores that don't fit are made of files in a folder.

;;; Code:

(require 'ert)
(require 'seq)
(require 'agent-q-module)

(defconst agent-q-module-test--root
  (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))
  "The project's root.")

(defmacro agent-q-module-test--with-core (manifest content &rest body)
  "Run BODY where the core is a file of CONTENT beside MANIFEST; nil leaves one out."
  (declare (indent 2))
  `(let* ((agent-q-module-directory (file-name-as-directory (make-temp-file "agent-q" t)))
          (manifest ,manifest)
          (content ,content))
     (unwind-protect
         (progn
           (when manifest
             (write-region manifest nil
                           (expand-file-name "agent-q-core.manifest" agent-q-module-directory)
                           nil 'silent))
           (when content
             (write-region content nil (agent-q-module-core-file) nil 'silent))
           ,@body)
       (delete-directory agent-q-module-directory t))))

(defun agent-q-module-test--fitting (size &optional interface host)
  "Return the text of a manifest of a core of SIZE bytes that fits here.
INTERFACE and HOST are used in place of those that fit."
  (let ((agent-q-module-directory (expand-file-name "lisp/" agent-q-module-test--root)))
    (format "interface %s\nhost %s\nsize %s\n" (or interface agent-q-module-interface)
            (or host (alist-get 'host (agent-q-module-manifest)))
            size)))

(defun agent-q-module-test--core ()
  "Return the name of this build's core."
  (expand-file-name (file-name-nondirectory (agent-q-module-core-file))
                    (expand-file-name "lisp" agent-q-module-test--root)))

(defun agent-q-module-test--size (file)
  "Return the number of bytes of FILE."
  (file-attribute-size (file-attributes file)))

(defun agent-q-module-test--child (form)
  "Return what FORM, evaluated in a fresh Emacs with lisp/ on its path, prints."
  (with-temp-buffer
    (let ((status (call-process (expand-file-name invocation-name invocation-directory)
                                nil t nil "-Q" "--batch"
                                "-L" (expand-file-name "lisp" agent-q-module-test--root)
                                "--eval" (format "(princ %S)" form))))
      (should (equal (list status (buffer-string)) (list 0 (buffer-string))))
      (buffer-string))))

(defun agent-q-module-test--refusal (form)
  "Return the message of the `user-error' that FORM signals in a fresh Emacs."
  (agent-q-module-test--child
   `(progn (require 'agent-q-module)
           (setq agent-q-module-directory ',agent-q-module-directory)
           (condition-case failure ,form
             (user-error (error-message-string failure))
             (:success "nothing signalled")))))

(ert-deftest agent-q-module-test-require-does-nothing ()
  "Requiring the package names its commands and does nothing else."
  (should
   (equal
    (agent-q-module-test--child
     '(let ((timers (length timer-list)) (idle (length timer-idle-list)))
        (require 'agent-q-module)
        (list (mapcar (lambda (command) (and (commandp command) t))
                      '(agent-q-chat agent-q-mode agent-q-set-model agent-q-tutorial
                        agent-q-doctor agent-q-build agent-q-goto-approval))
              (seq-filter (lambda (feature)
                            (string-prefix-p "agent-q" (symbol-name feature)))
                          features)
              (- (length timer-list) timers) (- (length timer-idle-list) idle)
              (process-list) (length (buffer-list)))))
    (format "%S" (list '(t t t t t t t) '(agent-q-module agent-q-loaddefs) 0 0 nil
                       ;; What a batch Emacs begins with.
                       (string-to-number
                        (agent-q-module-test--child '(length (buffer-list)))))))))

(ert-deftest agent-q-module-test-commands-load-what-they-name ()
  "Each command that is autoloaded is defined by the file that the autoload names."
  (should
   (equal
    (agent-q-module-test--child
     '(progn (require 'agent-q-module)
             (mapcar (lambda (command)
                       (autoload-do-load (symbol-function command) command)
                       (autoloadp (symbol-function command)))
                     '(agent-q-chat agent-q-goto-approval agent-q-mode agent-q-set-model
                       agent-q-tutorial agent-q-doctor))))
    "(nil nil nil nil nil nil)")))

(ert-deftest agent-q-module-test-documentation-shows-keys ()
  "No documentation shows the quoted keys that only later Emacsen understand."
  (should
   (equal
    (agent-q-module-test--child
     '(let ((found nil))
        (require 'agent-q-module)
        (dolist (file (directory-files agent-q-module-directory t "\\`agent-q.*\\.el\\'"))
          (unless (string-suffix-p "-autoloads.el" file)
            (require (intern (file-name-base file)) file)))
        (mapatoms
         (lambda (symbol)
           (when (string-prefix-p "agent-q" (symbol-name symbol))
             (dolist (text (list (and (fboundp symbol) (documentation symbol))
                                 (documentation-property symbol 'variable-documentation)))
               (when (and text (string-match-p "[\\]['`‘]" text))
                 (push symbol found))))))
        found))
    "nil")))

(ert-deftest agent-q-module-test-mode-does-not-load-the-core ()
  "The global mode works without the core."
  (should (equal (agent-q-module-test--child
                  '(progn (require 'agent-q-module)
                          (agent-q-mode 1)
                          (list agent-q-mode (featurep 'agent-q-core))))
                 "(t nil)")))

(ert-deftest agent-q-module-test-loads-the-core ()
  "The built core fits, is loaded on the first use, and loading again does nothing."
  (should (equal (agent-q-module-test--child
                  '(progn (require 'agent-q-module)
                          (list (agent-q-module-problem) (agent-q-module-ensure)
                                (agent-q-module-ensure)
                                (= (agent-q-core-interface) agent-q-module-interface))))
                 "(nil t t t)")))

(ert-deftest agent-q-module-test-missing-core ()
  "Without a core, the error names the command that builds it, and where."
  (agent-q-module-test--with-core nil nil
    (should (string-match-p "not installed.*make build"
                            (agent-q-module-test--refusal '(agent-q-module-ensure)))))
  ;; In a source tree, M-x agent-q-build is named too.
  (let ((agent-q-module-directory
         (expand-file-name "lisp/" (make-temp-file "agent-q" t))))
    (unwind-protect
        (progn
          (make-directory agent-q-module-directory)
          (dolist (file '("Makefile" "Cargo.toml"))
            (write-region "" nil (expand-file-name (concat "../" file) agent-q-module-directory)
                          nil 'silent))
          (let ((refusal (agent-q-module-test--refusal '(agent-q-module-ensure))))
            (should (string-match-p "M-x agent-q-build" refusal))
            (should (string-match-p (regexp-quote
                                     (abbreviate-file-name
                                      (file-truename
                                       (expand-file-name ".." agent-q-module-directory))))
                                    refusal))))
      (delete-directory (expand-file-name ".." agent-q-module-directory) t))))

(ert-deftest agent-q-module-test-refuses-before-loading ()
  "A core that doesn't fit is refused by its manifest, without being opened."
  ;; The file is no library: opening it would end in another message.
  (pcase-dolist (`(,manifest . ,expected)
                 (list (cons nil "no manifest")
                       (cons "garbage" "no manifest")
                       (cons (format "interface %d\nhost x86_64-unknown-linux-gnu\n"
                                     agent-q-module-interface)
                             "no manifest")
                       (cons (agent-q-module-test--fitting 13 (1+ agent-q-module-interface))
                             "doesn't fit.*interface")
                       (cons (agent-q-module-test--fitting 13 nil "s390x-unknown-linux-gnu")
                             "another machine")
                       (cons (agent-q-module-test--fitting 13 nil "x86_64-unknown-freebsd")
                             "another machine")
                       (cons (agent-q-module-test--fitting 14) "damaged (13 bytes, not 14)")))
    (agent-q-module-test--with-core manifest "not a library"
      (let ((refusal (agent-q-module-test--refusal '(agent-q-module-ensure))))
        (should (string-match-p expected (string-replace "’" "'" refusal)))
        (should (string-match-p "make build" refusal))))))

(ert-deftest agent-q-module-test-file-that-is-no-module ()
  "A file that Emacs can't load gives one error that names the remedy."
  (agent-q-module-test--with-core (agent-q-module-test--fitting 13) "not a library"
    (should (string-match-p "can.t load.*make build"
                            (agent-q-module-test--refusal '(agent-q-module-ensure)))))
  (agent-q-module-test--with-core (agent-q-module-test--fitting 0) ""
    (should (string-match-p "can.t load.*make build"
                            (agent-q-module-test--refusal '(agent-q-module-ensure))))))

(ert-deftest agent-q-module-test-half-a-core ()
  "A core that was cut in half is refused before it is loaded, which would kill Emacs."
  (let* ((core (agent-q-module-test--core))
         (size (agent-q-module-test--size core)))
    (agent-q-module-test--with-core (agent-q-module-test--fitting size) nil
      (let ((coding-system-for-write 'no-conversion))
        (with-temp-buffer
          (set-buffer-multibyte nil)
          (insert-file-contents-literally core nil 0 (/ size 2))
          (write-region nil nil (agent-q-module-core-file) nil 'silent)))
      (let ((refusal (agent-q-module-test--refusal '(agent-q-module-ensure))))
        (should (string-match-p (format "damaged (%d bytes, not %d).*make build" (/ size 2) size)
                                refusal))))))

(ert-deftest agent-q-module-test-machines ()
  "Rust's and Emacs's names of the same machine agree; other machines differ."
  (pcase-dolist (`(,rust ,emacs ,same)
                 '(("x86_64-unknown-linux-gnu" "x86_64-pc-linux-gnu" t)
                   ("aarch64-unknown-linux-gnu" "aarch64-unknown-linux-gnu" t)
                   ("aarch64-apple-darwin" "aarch64-apple-darwin23.1.0" t)
                   ("aarch64-apple-darwin" "arm-apple-darwin21.6.0" t)
                   ("x86_64-pc-windows-gnu" "x86_64-w64-mingw32" t)
                   ("i686-unknown-linux-gnu" "i386-pc-linux-gnu" t)
                   ("x86_64-apple-darwin" "aarch64-apple-darwin23.1.0" nil)
                   ("aarch64-unknown-linux-gnu" "x86_64-pc-linux-gnu" nil)
                   ("x86_64-apple-darwin" "x86_64-pc-linux-gnu" nil)))
    (agent-q-module-test--with-core (agent-q-module-test--fitting 1 nil rust) "x"
      (let ((system-configuration emacs))
        (should (eq (not (agent-q-module-problem)) same))))))

(ert-deftest agent-q-module-test-older-core-in-the-session ()
  "Emacs Lisp that wants another core than the loaded one asks for a restart."
  (should (string-match-p
           "restart Emacs"
           (agent-q-module-test--child
            '(progn (require 'agent-q-module)
                    (agent-q-module-ensure)
                    (setq agent-q-module-interface (1+ agent-q-module-interface))
                    (condition-case failure (agent-q-module-ensure)
                      (user-error (error-message-string failure))))))))

(ert-deftest agent-q-module-test-require-that-was-quit ()
  "A core that was loaded within a `require' that was quit goes on working."
  (should
   (equal "(nil t t)"
          (agent-q-module-test--child
           '(let* ((directory (make-temp-file "agent-q" t))
                   (load-path (cons directory load-path)))
              (unwind-protect
                  (progn
                    (write-region (concat "(require 'agent-q-chat)\n(agent-q-module-ensure)\n"
                                          "(signal 'quit nil)\n(provide 'agent-q-quit)\n")
                                  nil (expand-file-name "agent-q-quit.el" directory) nil 'silent)
                    (condition-case nil (require 'agent-q-quit) (quit nil))
                    (let ((kept (featurep 'agent-q-core)))
                      (require 'agent-q-chat)
                      (setq agent-q-log-file (expand-file-name "core.log" directory))
                      (list kept (agent-q-module-ensure)
                            (progn (agent-q-events-ensure)
                                   (eql 0 (plist-get (agent-q-core-status) :sessions))))))
                (delete-directory directory t)))))))

(ert-deftest agent-q-module-test-second-start-of-the-core ()
  "A core that was loaded before and is gone asks for a restart, in one sentence."
  (let ((sentence
         "This session loaded agent-q.s core before, and can.t load it again; restart Emacs\\'"))
    (should (string-match-p (concat "\\`" sentence)
                            (agent-q-module-test--refusal
                             `(progn (setq agent-q-module-directory
                                           ,(expand-file-name "lisp/" agent-q-module-test--root))
                                     (agent-q-module-ensure)
                                     (fmakunbound 'agent-q-core-interface)
                                     (agent-q-module-ensure)))))
    ;; Where nothing is known of the first time, Emacs tries, and the core says why not.
    (should (string-match-p sentence
                            (agent-q-module-test--refusal
                             `(progn (setq agent-q-module-directory
                                           ,(expand-file-name "lisp/" agent-q-module-test--root))
                                     (agent-q-module-ensure)
                                     (fmakunbound 'agent-q-core-interface)
                                     (setq agent-q-module--loaded nil)
                                     (agent-q-module-ensure)))))))

(ert-deftest agent-q-module-test-copy-of-the-core ()
  "A copy of the core that is loaded over the one in use asks for a restart."
  (agent-q-module-test--with-core nil nil
    (copy-file (agent-q-module-test--core) (agent-q-module-core-file))
    (should (string-match-p
             "Another copy of agent-q.s core.*restart Emacs"
             (agent-q-module-test--child
              `(progn (require 'agent-q-module)
                      (agent-q-module-ensure)
                      (module-load ,(agent-q-module-core-file))
                      (condition-case failure (agent-q-module-ensure)
                        (user-error (error-message-string failure)))))))
    ;; The one that is there first is the one in use.
    (should (equal "t"
                   (agent-q-module-test--child
                    `(progn (require 'agent-q-module)
                            (module-load ,(agent-q-module-core-file))
                            (agent-q-module-ensure)))))))

(ert-deftest agent-q-module-test-replaced-core ()
  "A core that was built anew is noticed, and the loaded one goes on."
  (agent-q-module-test--with-core
      (agent-q-module-test--fitting (agent-q-module-test--size (agent-q-module-test--core)))
      nil
    (let ((installed (agent-q-module-test--core)))
      (copy-file installed (agent-q-module-core-file))
      (should
       (equal
        (agent-q-module-test--child
         `(progn (require 'agent-q-module)
                 (setq agent-q-module-directory ',agent-q-module-directory)
                 (let ((before (progn (agent-q-module-ensure) (agent-q-module-replaced-p))))
                   (copy-file ,installed (concat (agent-q-module-core-file) ".new"))
                   (rename-file (concat (agent-q-module-core-file) ".new")
                                (agent-q-module-core-file) t)
                   (let ((said nil))
                     (require 'cl-lib)
                     (cl-letf (((symbol-function 'message)
                                (lambda (&rest words) (push (apply #'format words) said))))
                       (agent-q-module-ensure)
                       (agent-q-module-ensure))
                     (list before (agent-q-module-replaced-p) (length said)
                           (and (string-match-p "restart Emacs" (car said)) t))))))
        "(nil t 1 t)")))))

(ert-deftest agent-q-module-test-build-needs-the-source ()
  "Building says so where there is no source tree."
  (agent-q-module-test--with-core nil nil
    (should (string-match-p "No Makefile" (agent-q-module-test--refusal '(agent-q-build))))))

(ert-deftest agent-q-module-test-build-waits-for-nobody ()
  "What runs in the build can't ask: its input is empty, and it has no terminal."
  (skip-unless (executable-find "make"))
  (let* ((folder (file-name-as-directory (make-temp-file "agent-q" t)))
         (agent-q-module-directory (expand-file-name "lisp/" folder))
         (buffer nil))
    (unwind-protect
        (progn
          (make-directory agent-q-module-directory)
          (write-region "" nil (expand-file-name "Cargo.toml" folder) nil 'silent)
          (write-region (concat "build:\n"
                                "\t@cat; echo \"read all\"; echo \"colour: $$CARGO_TERM_COLOR\"\n"
                                "\t@(: </dev/tty) 2>/dev/null && echo \"a terminal\" || true\n")
                        nil (expand-file-name "Makefile" folder) nil 'silent)
          (setq buffer (agent-q-build))
          (with-timeout (60 (ert-fail (list "The build waits" (with-current-buffer buffer
                                                                (buffer-string)))))
            (while (get-buffer-process buffer)
              (accept-process-output nil 0.05)))
          (with-current-buffer buffer
            (should (string-match-p "^read all\ncolour: never\n" (buffer-string)))
            (should-not (string-match-p "a terminal" (buffer-string)))
            (should (string-match-p "^Compilation finished" (buffer-string)))))
      (when buffer
        (when (get-buffer-process buffer)
          (delete-process (get-buffer-process buffer)))
        (kill-buffer buffer))
      (delete-directory folder t))))

(ert-deftest agent-q-module-test-declared-entry-points ()
  "What the Emacs Lisp calls of the core is there, and takes what it is given."
  (agent-q-module-ensure)
  (let ((declared 0))
    (dolist (file (directory-files (expand-file-name "lisp" agent-q-module-test--root)
                                   t "\\.el\\'"))
      (with-temp-buffer
        (insert-file-contents file)
        (emacs-lisp-mode)
        (goto-char (point-min))
        (while (re-search-forward "(\\(agent-q-core-[a-z-]+\\)[ \n)]" nil t)
          (let* ((name (match-string 1))
                 (state (save-match-data
                          (save-excursion (syntax-ppss (match-beginning 0))))))
            (unless (or (nth 3 state) (nth 4 state))
              (setq declared (1+ declared))
              (let* ((form (save-excursion
                             (goto-char (match-beginning 0))
                             (read (current-buffer))))
                     (given (length (cdr form))))
                (should (equal (list name (func-arity (intern name)))
                               (list name (cons given given))))))))))
    (should (> declared 8))))

(provide 'agent-q-module-test)
;;; agent-q-module-test.el ends here
