;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Effects on code: foreign functions and libraries, and definitions that are not the program's.

(cl:in-package "AGENT-Q-IMAGE")

;;; Foreign code

(defun harmful-foreign-names ()
  "Functions of C's that reach outside of the process, or into it where Lisp is not looking."
  '("system" "popen" "execve" "execv" "execvp" "execvpe" "execl" "execlp" "execle" "fexecve"
    "posix_spawn" "posix_spawnp" "fork" "vfork" "clone" "spawn" "daemon"
    "unlink" "unlinkat" "rename" "renameat" "renameat2" "remove" "rmdir" "mkdir" "mkdirat" "open"
    "open64" "openat" "openat64" "creat" "creat64" "fopen" "fopen64" "freopen" "truncate"
    "truncate64" "ftruncate" "ftruncate64" "write" "writev" "pwrite" "pwrite64" "sendfile"
    "link" "linkat" "symlink" "symlinkat" "chmod" "fchmod" "fchmodat" "chown" "fchown" "lchown"
    "fchownat" "utime" "utimes" "utimensat" "futimes" "mkstemp" "mkstemps" "mkdtemp" "mktemp"
    "mkfifo" "mknod" "copy_file_range" "fallocate" "posix_fallocate" "mount" "umount" "reboot"
    "setenv" "putenv" "unsetenv" "clearenv" "getenv" "secure_getenv" "environ"
    "connect" "bind" "listen" "sendto" "send" "sendmsg" "kill" "killpg" "tgkill" "raise"
    "pthread_kill" "abort" "_exit" "_Exit" "exit" "quick_exit" "syscall" "dlopen" "dlmopen" "dlsym"
    "ptrace" "mprotect" "mmap" "process_vm_writev" "setuid" "setgid" "seteuid" "setegid" "chdir"
    "fchdir" "chroot" "sigaction" "signal" "prctl" "setrlimit" "fputs" "fwrite" "fprintf" "puts"
    "dup2" "dup3"))

(defun effect-of-linking-name (arguments)
  "Making the foreign name, the first of ARGUMENTS, known to code."
  (let* ((name (first arguments)) (name (if (consp name) (first name) name)))
    (when (member name (harmful-foreign-names) :test #'equal)
      (make-effect :kind "foreign-code" :target name :texts (list name)
                   :words (format nil "use the C function ~A" name)))))

(defun effect-of-library (arguments)
  (file-effect "foreign-code" "load the library ~A" (first arguments)))

;;; Definitions

(defun foreign-package-p (package)
  "Whether PACKAGE is the implementation's, the client's or ours. A framework for tests that comes with
SBCL is nobody's: tests define things in it, and run_tests looks on."
  (or (eq package (find-package "COMMON-LISP"))
      (loop until (string= (package-name package) "SB-RT")
            for prefix in '("SB-" "SWANK" "SLYNK" "AGENT-Q-IMAGE")
              thereis (prefixed-p prefix (package-name package)))))

(defun locked-package-p (package)
  (let ((locked (optional-function "SB-EXT" "PACKAGE-LOCKED-P")))
    (and locked (funcall locked package))))

(defun foreign-name-p (name)
  "Whether the definition of NAME, a symbol or (setf symbol), is not the program's to change. A library
may lock its package, but not against its own files."
  (let* ((symbol (cond ((symbolp name) name)
                       ((and (consp name) (eq (first name) 'setf) (symbolp (second name)))
                        (second name))))
         (package (and symbol (symbol-package symbol))))
    (and package
         (or (and (foreign-package-p package)
                  (or (fboundp name) (eq package (find-package "AGENT-Q-IMAGE"))))
             (and (locked-package-p package) (not (eq package *package*)) (fboundp name))))))

(defun effect-of-defining (arguments)
  "Giving another meaning to the function name that is the first of ARGUMENTS."
  (let ((name (first arguments)))
    (when (foreign-name-p name)
      (make-effect :kind "redefine" :target (printed name :limit 200)
                   :texts (list (if (symbolp name) (symbol-text name) (printed name)))
                   :words (format nil "redefine ~A, which is not the program's"
                                  (printed name :limit 200))))))

(defun effect-of-setting-definition (arguments)
  (effect-of-defining (rest arguments)))

(defun effect-of-unlocking (arguments)
  (let ((package (ignore-errors (find-package (first arguments)))))
    (when (and package (locked-package-p package))
      (make-effect :kind "redefine" :target (package-name package)
                   :texts (list (string-downcase (package-name package)))
                   :words (format nil "unlock the package ~A" (package-name package))))))

(defun effect-of-encapsulating (arguments)
  "Putting code around a function, as TRACE does. SBCL's profiler measures itself by a function of its
own."
  (let ((name (first arguments)))
    (unless (and (symbolp name) (symbol-package name)
                 (string= (package-name (symbol-package name)) "SB-PROFILE")
                 (string= name "COMPUTE-OVERHEAD-AUX"))
      (effect-of-defining arguments))))

(defun effect-of-unencapsulating (arguments)
  (destructuring-bind (name type) arguments
    (when (eq type :agent-q-watch)
      (make-effect :kind "redefine" :target (printed name)
                   :words (format nil "take agent-q's watch off ~A" (printed name))))))
