;;; agent-q-scratch-test.el --- Second Lisps, started and thrown away  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Through a chat's tools and each client: what happens in a scratch image costs the user's nothing.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-scratch)
(require 'agent-q-test-image)
(require 'agent-q-test-systems)
(require 'agent-q-test-tools)

(setq agent-q-scratch-cache (expand-file-name "fasl/" agent-q-test-directory))

(defvar slime-net-processes)
(defvar sly-net-processes)
(defvar slime-default-connection)
(defvar sly-default-connection)

(defun agent-q-scratch-test-client ()
  "Return what the user sees of their clients: connections, default and buffers."
  (list (bound-and-true-p slime-net-processes) (bound-and-true-p slime-default-connection)
        (bound-and-true-p sly-net-processes) (bound-and-true-p sly-default-connection)
        (sort (delq nil (mapcar (lambda (buffer)
                                  (and (not (string-prefix-p " " (buffer-name buffer)))
                                       (buffer-name buffer)))
                                (buffer-list)))
              #'string<)
        (current-window-configuration)))

(defun agent-q-scratch-test-process (owner)
  "Return the process of OWNER's scratch image, or nil."
  (let ((lisp (agent-q-scratch--find owner "scratch")))
    (and lisp (agent-q-scratch--lisp-process lisp))))

;; A turn is a message of the user's and what a scripted model does: one call after the other.

(defun agent-q-scratch-test-turn (connection calls &optional meanwhile)
  "Let a model make CALLS in a turn of a new chat about CONNECTION.
Each is a list of a tool and its arguments, an alist.  What needs approval is
approved.  Call MEANWHILE, if non-nil, at each look at the chat, which is the
current buffer.  Return what the calls gave, first one first."
  (agent-q-test-with-model
      (agent-q-json-serialize
       `((turns . ,(vconcat
                    (mapcar (lambda (call)
                              `((steps . [((tool_calls . [((name . ,(car call))
                                                           (arguments . ,(cdr call)))]))])))
                            calls)
                    '(((steps . [((text . "Done."))])))))))
    (agent-q-test-with-chat
      (agent-q-chat-set-connection connection)
      (agent-q-test-send "go")
      (agent-q-test-until
       (progn
         (when meanwhile (funcall meanwhile))
         (when (agent-q-call-waiting) (agent-q-test-answer "y"))
         (agent-q-test-idle-p)))
      (mapcar #'agent-q-call-content
              (cl-remove-if #'agent-q-call-effect-p (agent-q-test-calls))))))

(defconst agent-q-scratch-test-note
  "(In image scratch, a new one, which has nothing of the project loaded. It ends with this turn.)"
  "What stands under the result of the first call.")

(agent-q-test-image-on-each scratch-is-another-lisp ()
  "What is defined in the scratch image is not in the user's, and the user sees nothing of it.
It is gone with the turn."
  (let ((before (agent-q-scratch-test-client))
        (process nil))
    (pcase-let ((`(,defined ,called ,here ,_ ,again)
                 (agent-q-scratch-test-turn
                  connection
                  '(("compile_form" (form . "(defun aq-scratched () 42)") (image . "scratch"))
                    ("eval_form" (form . "(aq-scratched)") (image . "scratch"))
                    ("eval_form" (form . "(fboundp 'aq-scratched)"))
                    ("end_scratch")
                    ("eval_form" (form . "(fboundp 'aq-scratched)") (image . "scratch")))
                  (lambda ()
                    (setq process (or process (agent-q-scratch-test-process (current-buffer))))))))
      (should (string-suffix-p (concat "\n" agent-q-scratch-test-note) defined))
      (should (equal "=> 42\n(In image scratch.)" called))
      (should (string-prefix-p "=> NIL" here))
      (should (equal (concat "=> NIL\n" agent-q-scratch-test-note) again)))
    (should process)
    (should-not (process-live-p process))
    (should-not (cl-remove 'agent-q-compiled agent-q-scratch--all :key #'agent-q-scratch--lisp-owner))
    (pcase-let ((`(,connections ,default ,sly-connections ,sly-default ,buffers ,windows) before)
                (`(,connections* ,default* ,sly-connections* ,sly-default* ,buffers* ,windows*)
                 (agent-q-scratch-test-client)))
      (should (equal (list connections default sly-connections sly-default)
                     (list connections* default* sly-connections* sly-default*)))
      (should-not (cl-set-difference buffers* buffers :test #'equal))
      (should (compare-window-configurations windows windows*)))))

(agent-q-test-image-on-each scratch-breaks-without-harm ()
  "A loop, a full heap and an end of the scratch image are told; the user's image isn't touched."
  (pcase-let ((`(,loop ,heap ,after ,exit ,new ,here)
               (agent-q-scratch-test-turn
                connection
                '(("eval_form" (form . "(loop)") (timeout . 1) (image . "scratch"))
                  ("eval_form" (form . "(let ((list (list))) (loop (push (make-list 1000) list)))")
                   (image . "scratch"))
                  ("eval_form" (form . "(+ 1 2)") (image . "scratch"))
                  ("eval_form" (form . "(sb-ext:exit :abort t)") (image . "scratch"))
                  ("eval_form" (form . "(+ 3 4)") (image . "scratch"))
                  ("eval_form" (form . "(+ 5 6)"))))))
    (should (string-match-p "timed out after 1 s" loop))
    (should (string-match-p "heap" heap))
    (should (string-prefix-p "=> 3\n" after))
    (should (string-prefix-p "The image scratch ended during the call; the next call with it starts a new one." exit))
    (should (equal (concat "=> 7\n" agent-q-scratch-test-note) new))
    (should (string-prefix-p "=> 11" here))))

(defun agent-q-scratch-test-left ()
  "Return the second Lisps that run, but for those that compile our half."
  (seq-remove (lambda (lisp) (eq 'agent-q-compiled (agent-q-scratch--lisp-owner lisp)))
              agent-q-scratch--all))

(agent-q-test-image-on-each scratch-is-debugged-and-inspected ()
  "Errors parked in the scratch image, its objects and its effects are met as in the user's."
  (let ((file (make-temp-file (expand-file-name "aq" agent-q-test-directory)))
        (name (format "d%d" (1+ agent-q-image--park-count)))
        (handle (format "s%d" (1+ agent-q-scratch--handles)))
        (asked nil))
    (pcase-let ((`(,parked ,listed ,frame ,left ,object ,slots ,third ,mixed ,mixed-form ,users ,users-form
                           ,_ ,again ,deleted)
                 (agent-q-scratch-test-turn
                  connection
                  `(("eval_form" (form . "(let ((size 3)) (/ size 0))") (image . "scratch")
                     (on_error . "park"))
                    ("list_debuggers")
                    ("eval_in_frame" (debugger . ,name) (form . "(* 2 3)"))
                    ("invoke_restart" (debugger . ,name) (restart . "abort"))
                    ("eval_form" (form . "(list 'aq-first (make-hash-table))") (image . "scratch"))
                    ("inspect_value" (handle . ,handle) (image . "scratch"))
                    ("eval_form" (form . ,(format "(third (list 1 2 $%s))" handle)) (image . "scratch"))
                    ;; The one image's objects aren't the other's.
                    ("inspect_value" (handle . ,handle))
                    ("eval_form" (form . ,(format "(list $%s)" handle)))
                    ("inspect_value" (handle . "v1") (image . "scratch"))
                    ("eval_form" (form . "(list $v1)") (image . "scratch"))
                    ("end_scratch")
                    ("eval_form" (form . ,(format "(list (make-hash-table) '$%s)" handle)) (image . "scratch"))
                    ("eval_form" (form . ,(format "(delete-file %S)" file)) (image . "scratch")))
                  (lambda ()
                    (when (agent-q-call-waiting)
                      (push (agent-q-call-target (agent-q-call-waiting)) asked))))))
      (should (string-match-p name parked))
      (should (string-match-p (concat name ", yours, in image scratch: DIVISION-BY-ZERO") listed))
      (should (string-prefix-p "=> 6" frame))
      (should (string-match-p "scratch" left))
      (should (string-match-p (format "\\[%s\\]" handle) object))
      (should (string-match-p "AQ-FIRST" slots))
      (should (string-match-p "AQ-FIRST" third))
      (dolist (told (list mixed mixed-form))
        (should (string-match-p (concat handle " is an object of the image scratch") told)))
      (dolist (told (list users users-form))
        (should (string-match-p "v1 is an object of the user's image" told)))
      (should (string-match-p (format "No object %s" handle) again))
      (should (string-prefix-p "=> T" deleted))
      (should (equal '("image: scratch") (seq-uniq asked)))
      (should-not (file-exists-p file)))))

(agent-q-test-image-on-each scratch-compiles-apart ()
  "What a scratch image compiles of the project goes with it, and nothing is put where the user's is."
  (let* ((directory (agent-q-test-systems-system
                     "aq-apart" '(("one" . "(defun cl-user::aq-apart () (cl-user::aq-lib))"))
                     ":depends-on (\"aq-lib\")"))
         (library (agent-q-test-systems-system
                   "aq-lib" '(("lib" . "(defun cl-user::aq-lib () 7)"))))
         (cache (expand-file-name "common-lisp/" (or (getenv "XDG_CACHE_HOME") "~/.cache/")))
         (process-environment (cons (format "CL_SOURCE_REGISTRY=%s:" library) process-environment))
         (agent-q-project-root (file-truename directory))
         (default-directory agent-q-project-root)
         (own nil))
    (pcase-let ((`(,loaded ,value)
                 (agent-q-scratch-test-turn
                  connection
                  '(("load_system" (system . "aq-apart") (image . "scratch"))
                    ("eval_form" (form . "(aq-apart)") (image . "scratch")))
                  (lambda ()
                    (let ((lisp (agent-q-scratch--find (current-buffer) "scratch")))
                      (when lisp (setq own (agent-q-scratch--lisp-folder lisp))))))))
      (should (string-match-p "\\`Loaded aq-apart 1.2" loaded))
      (should (string-prefix-p "=> 7" value)))
    (dolist (folder (list directory library))
      (should-not (file-expand-wildcards (concat cache "*" (file-truename folder)))))
    (should-not (directory-files-recursively directory "\\.fasl\\'"))
    (should-not (directory-files-recursively agent-q-scratch-cache "\\`one\\.fasl\\'"))
    (should (directory-files-recursively agent-q-scratch-cache "\\`lib\\.fasl\\'"))
    (should own)
    (should-not (file-exists-p own))
    (should-not (file-expand-wildcards (expand-file-name "*/agent-q-*" agent-q-scratch-cache)))))

(defun agent-q-scratch-test-program (program arguments)
  "Return a function like `agent-q-connection-start-options' for PROGRAM with ARGUMENTS."
  (let ((original (symbol-function 'agent-q-connection-start-options)))
    (lambda (connection)
      (let ((options (funcall original connection)))
        (append (list (car options) :program program :program-args arguments) (cdr options))))))

(agent-q-test-image-on-each scratch-of-a-saved-core ()
  "A core that the user has saved is started, and keeps to the cache whatever it was told before."
  (let* ((core (expand-file-name "aq.core" agent-q-test-directory))
         (directory (agent-q-test-systems-system "aq-cored" '(("cored" . "(defvar cl-user::*aq-cored* 8)"))))
         (agent-q-project-root (file-truename directory))
         (default-directory agent-q-project-root))
    (unless (file-exists-p core)
      (call-process "sbcl" nil nil nil "--noinform" "--no-sysinit" "--no-userinit" "--eval" "(require :asdf)"
                    "--eval" "(asdf:disable-output-translations)" "--eval" "(defvar *aq-core* 7)"
                    "--eval" (format "(save-lisp-and-die %S)" core)))
    (cl-letf (((symbol-function 'agent-q-connection-start-options)
               (agent-q-scratch-test-program "sbcl" (list "--core" core "--no-sysinit" "--no-userinit"))))
      (pcase-let ((`(,_ ,values)
                   (agent-q-scratch-test-turn
                    connection
                    '(("load_system" (system . "aq-cored") (image . "scratch"))
                      ("eval_form" (form . "(list *aq-core* *aq-cored*)") (image . "scratch"))))))
        (should (string-prefix-p "=> (7 8)" values))))
    (should-not (directory-files-recursively directory "\\.fasl\\'"))))

;; The Common Lisp half, compiled for second Lisps.

(defun agent-q-scratch-test-arrival (connection)
  "Use a scratch image like that of CONNECTION, but with nothing of ours saved in it.
Return the modules that were sent there as text, whether some functions of ours
are compiled by then, and whether it asked before it deleted a file."
  (let* ((sent nil)
         (asked nil)
         (file (make-temp-file (expand-file-name "aq" agent-q-test-directory)))
         (note (lambda (module &rest _) (push (agent-q-image-module--module-name module) sent))))
    (cl-letf (((symbol-function 'agent-q-connection-start-options)
               (agent-q-scratch-test-program "sbcl" '("--no-userinit" "--no-sysinit"))))
      (advice-add 'agent-q-image-module-shipping-form :before note)
      (unwind-protect
          (pcase-let ((`(,compiled ,deleted)
                       (agent-q-scratch-test-turn
                        connection
                        `(("eval_form" (image . "scratch")
                           (form . "(every (function compiled-function-p)
                                           (list (function agent-q-image::call)
                                                 (function agent-q-image::operation-eval-form)))"))
                          ("eval_form" (form . ,(format "(delete-file %S)" file)) (image . "scratch")))
                        (lambda ()
                          (when (agent-q-call-waiting)
                            (push (agent-q-call-target (agent-q-call-waiting)) asked))))))
            (should (string-prefix-p "=> T" deleted))
            (list (nreverse sent) (string-prefix-p "=> T" compiled) (and asked t)))
        (advice-remove 'agent-q-image-module-shipping-form note)))))

(agent-q-test-image-on-each scratch-loads-what-is-compiled ()
  "A second Lisp loads our half from compiled files, and is sent the text of what it can't load.
The files are made by another Lisp after that, but not of a version once more."
  (let* ((agent-q-image-module--compiled nil)
         (versions (expand-file-name (format "agent-q/SBCL-%s" (substring (shell-command-to-string "sbcl --version") 5 -1))
                                     agent-q-scratch-cache))
         (folder (expand-file-name (agent-q-image-module--version-of-all) versions))
         (old (expand-file-name "old" versions))
         (file (lambda (name) (expand-file-name (concat name ".fasl") folder)))
         ;; Whatever else the machine does goes before compiling.
         (agent-q-test-patience 120))
    ;; What another test began.
    (agent-q-test-until (null agent-q-scratch--all))
    (when (file-directory-p versions) (delete-directory versions t))
    (dolist (directory (list folder old)) (make-directory directory t))
    (write-region "; Not what SBCL compiled" nil (funcall file "base") nil 'silent)
    (pcase-let ((`(,sent ,_ ,asked) (agent-q-scratch-test-arrival connection)))
      (should (equal "base" (car sent)))
      (should asked))
    (agent-q-test-until (null agent-q-scratch--all))
    (should (equal (list folder) (directory-files versions t directory-files-no-dot-files-regexp)))
    (should (equal (sort (mapcar (lambda (module) (concat (agent-q-image-module--module-name module) ".fasl"))
                                 (agent-q-image-module--modules))
                         #'string<)
                   (directory-files folder nil directory-files-no-dot-files-regexp)))
    (should (equal '(nil t t) (agent-q-scratch-test-arrival connection)))
    ;; A changed module isn't taken from an old file, wherever that is.
    (let* ((agent-q-image-module--needed (make-hash-table :test #'equal))
           (agent-q-image-module--modules (mapcar #'copy-sequence agent-q-image-module--modules))
           (watch (agent-q-image-module--module "watch")))
      (setf (agent-q-image-module--module-version watch) "changed")
      (copy-directory folder (expand-file-name (agent-q-image-module--version-of-all) versions))
      (let ((agent-q-image-module--compiled (directory-files versions t)))
        (should (equal '(("watch") t t) (agent-q-scratch-test-arrival connection)))))
    (let* ((watch (funcall file "watch"))
           (size (file-attribute-size (file-attributes watch))))
      (with-temp-buffer
        (set-buffer-multibyte nil)
        (insert-file-contents-literally watch nil 0 (/ size 2))
        (write-region nil nil watch nil 'silent)))
    (pcase-let ((`(,sent ,_ ,asked) (agent-q-scratch-test-arrival connection)))
      (should (equal "watch" (car sent)))
      (should asked))
    (should-not (agent-q-scratch-test-left))))

(agent-q-test-image-on-each scratch-of-two-chats ()
  "Two chats have a scratch image each."
  (let ((other nil))
    (pcase-let ((`(,_ ,mine)
                 (agent-q-scratch-test-turn
                  connection
                  '(("eval_form" (form . "(defvar *aq-mine* 1)") (image . "scratch"))
                    ("eval_form" (form . "(boundp '*aq-mine*)") (image . "scratch")))
                  (lambda ()
                    (when (and (null other) (agent-q-scratch-connection (current-buffer) "scratch"))
                      (setq other (agent-q-scratch-test-turn
                                   connection
                                   '(("eval_form" (form . "(boundp '*aq-mine*)") (image . "scratch"))))))))))
      (should (string-prefix-p "=> T" mine))
      (should (string-prefix-p "=> NIL" (car other))))
    (should-not (agent-q-scratch-test-left))))

(agent-q-test-image-on-each scratch-that-cannot-start ()
  "Why a second Lisp can't be started is told in a sentence, and nothing is left of it."
  (dolist (case `((("aq-no-such-lisp") "aq-no-such-lisp")
                  (("sh" "-c" "echo no heap for you; exit 3")
                   "It ended while it was starting\\.  Its last output:\nno heap for you")))
    (cl-letf (((symbol-function 'agent-q-connection-start-options)
               (agent-q-scratch-test-program (caar case) (cdar case))))
      (pcase-let ((`(,told ,here)
                   (agent-q-scratch-test-turn
                    connection
                    '(("eval_form" (form . "(+ 1 2)") (image . "scratch"))
                      ("eval_form" (form . "(+ 1 2)"))))))
        (should (string-match-p (concat "\\`The second Lisp can't be used: .*" (cadr case)) told))
        (should (string-prefix-p "=> 3" here))
        (should-not (agent-q-scratch-test-left))))))

(agent-q-test-image-on-each scratch-whose-server-is-silent ()
  "A server that doesn't answer its first message is started again; if that is silent, too, it is told."
  (dolist (silent '(1 2))
    (let* ((agent-q-scratch--reply-seconds 0.2)
           (left silent)
           (connect (symbol-function 'agent-q-connection-connect)))
      (cl-letf (((symbol-function 'agent-q-connection-connect)
                 (lambda (&rest arguments)
                   (if (<= 0 (setq left (1- left)))
                       (apply connect (append (butlast arguments) (list #'ignore)))
                     (setq agent-q-scratch--reply-seconds 15)
                     (apply connect arguments)))))
        (let ((told (car (agent-q-scratch-test-turn
                          connection '(("eval_form" (form . "(+ 1 2)") (image . "scratch")))))))
          (if (= silent 1)
              (should (string-prefix-p "=> 3" told))
            (should (equal "The second Lisp can't be used: Its server gave no answer, twice." told))))
        (should-not (agent-q-scratch-test-left))
        (agent-q-test-until
         (null (seq-filter (lambda (process)
                             (string-prefix-p "agent-q-second-lisp" (process-name process)))
                           (process-list))))))))

(defun agent-q-scratch-test-orphan (client implementation)
  "Start an Emacs with a scratch image through CLIENT that loops, and kill that Emacs.
The image is an IMPLEMENTATION.  Return the process id of the Lisp."
  (let* ((file (make-temp-file (expand-file-name "pid" agent-q-test-directory)))
         (form `(progn
                  (require ',client)
                  (require 'agent-q-scratch)
                  (setq agent-q-scratch-cache ,agent-q-scratch-cache)
                  (,(intern (format "%s-setup" client)))
                  (setq inferior-lisp-program
                        ,(combine-and-quote-strings
                          (alist-get implementation agent-q-test-image-programs)))
                  (agent-q-scratch-start
                   nil "scratch" nil ,agent-q-test-directory
                   (lambda (reason)
                     (agent-q-connection-ask (agent-q-scratch-connection nil "scratch")
                                             :rex '(cl:loop) t #'ignore)
                     (with-temp-file ,file
                       (insert (format "%s" (or reason (process-id (agent-q-scratch--lisp-process
                                                                    (car agent-q-scratch--all)))))))))
                  (while t (accept-process-output nil 1))))
         (emacs (make-process
                 :name "orphan" :noquery t
                 :command `(,(expand-file-name invocation-name invocation-directory) "-Q" "--batch"
                            ,@(cl-mapcan (lambda (folder) (list "-L" folder)) load-path)
                            "--eval" ,(prin1-to-string form)))))
    (unwind-protect
        (agent-q-test-until (< 0 (file-attribute-size (file-attributes file))))
      (signal-process emacs 'SIGKILL)
      (delete-process emacs))
    (string-to-number (with-temp-buffer (insert-file-contents file) (buffer-string)))))

(agent-q-test-image-on-each scratch-does-not-outlive-emacs ()
  "A second Lisp ends with its Emacs, even one that is killed while the Lisp loops.
That one of CLISP can't know, as it has no threads."
  (dolist (implementation '(sbcl clisp))
    (when (executable-find (symbol-name implementation))
      (let ((process (agent-q-scratch-test-orphan (agent-q-connection-client connection)
                                                  implementation)))
        (should (< 0 process))
        (agent-q-test-until (not (process-attributes process)))))))

(provide 'agent-q-scratch-test)
;;; agent-q-scratch-test.el ends here
