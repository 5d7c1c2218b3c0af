;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which functions of SBCL are guarded. Below those that programs call are those through which all
;;; of SBCL's own code goes, so that there is no way around; what was allowed above covers them.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (guard (:type vector) (:copier nil))
  ;; The function's name, and the function that makes an effect of its arguments, or NIL.
  name describes
  ;; The class of a low-level function, which needs no question while that class is covered; and the
  ;; classes that an allowed effect covers while it happens.
  class covers
  ;; A function of ours that calls the original, if that needs more than its arguments.
  way
  ;; A pair: what SBCL keeps in place of the function, and the function.
  kept
  ;; Whether a hook of a C function replaces it, where such hooks exist: encapsulating a function of
  ;; SBCL takes some milliseconds.
  in-c
  ;; Whether it applies to all threads; whether the function was inline before; and whether it
  ;; expands macros of code that is checked.
  always inline expands
  ;; A predicate that quickly recognizes arguments that need no check; and whether arguments are
  ;; passed on as they are, not as copies: a variable's value must be the program's own object.
  passes as-is)

(defun guard-lists ()
  "Lists of a package, a name or (:setf name), what describes an effect, and other slots of a guard."
  '(("COMMON-LISP"
     ("OPEN" effect-of-open :covers (:write :rename :delete :descriptor) :way call-opening)
     ("DELETE-FILE" effect-of-delete-file :covers (:delete) :way call-deleting)
     ("RENAME-FILE" effect-of-rename-file :covers (:words))
     ("CLOSE" effect-of-closing :way call-closing)
     ("LOAD" effect-of-load :way call-loading-file :always t)
     ("FMAKUNBOUND" effect-of-defining :way call-defining :always t)
     ("FDEFINITION" nil :way call-finding)
     ("ADD-METHOD" effect-of-adding-method :way call-defining :always t)
     ("REMOVE-METHOD" effect-of-adding-method :way call-defining :always t)
     ((:setf "CLASS-NAME") effect-of-renaming-class)
     ((:setf "FDEFINITION") effect-of-setting-definition :way call-defining :always t)
     ((:setf "SYMBOL-FUNCTION") effect-of-setting-definition :way call-defining :always t)
     ((:setf "MACRO-FUNCTION") effect-of-setting-definition :way call-defining :always t)
     ((:setf "COMPILER-MACRO-FUNCTION") effect-of-setting-definition
                                        :way call-defining :always t)
     ((:setf "FIND-CLASS") effect-of-setting-type :way call-defining :always t)
     ("MAKUNBOUND" effect-of-unbinding)
     ("EXPORT" effect-of-package-change) ("UNEXPORT" effect-of-package-change)
     ("IMPORT" effect-of-package-change) ("SHADOW" effect-of-package-change)
     ("SHADOWING-IMPORT" effect-of-package-change) ("USE-PACKAGE" effect-of-package-change)
     ("UNUSE-PACKAGE" effect-of-package-change)
     ("COPY-READTABLE" effect-of-copying-readtable)
     ("SET-MACRO-CHARACTER" effect-of-macro-character)
     ("SET-DISPATCH-MACRO-CHARACTER" effect-of-dispatch-character)
     ("MAKE-DISPATCH-MACRO-CHARACTER" effect-of-dispatching-character)
     ("SET-SYNTAX-FROM-CHAR" effect-of-syntax)
     ((:setf "READTABLE-CASE") effect-of-readtable-setting)
     ("UNINTERN" effect-of-uninterning)
     ("RENAME-PACKAGE" effect-of-renaming-package) ("DELETE-PACKAGE" effect-of-package))
    ("SB-EXT"
     ("DELETE-DIRECTORY" effect-of-delete-directory :covers (:delete :rmdir))
     ("RUN-PROGRAM" effect-of-run-program :covers (:program :input (:write . "/dev/pts/")))
     ((:setf "PROCESS-STATUS-HOOK") nil :way call-hooking-process)
     ("PROCESS-KILL" effect-of-process-kill :covers (:kill))
     ("EXIT" effect-of-exit :covers (:exit :thread)) ("QUIT" effect-of-exit :covers (:exit :thread))
     ("SAVE-LISP-AND-DIE" effect-of-save :covers (:exit :write :rename :delete :descriptor :thread)
                          :way call-saving)
     ("ADD-PACKAGE-LOCAL-NICKNAME" effect-of-nickname)
     ("REMOVE-PACKAGE-LOCAL-NICKNAME" effect-of-package-change)
     ("ADD-IMPLEMENTATION-PACKAGE" effect-of-package-change)
     ("UNLOCK-PACKAGE" effect-of-unlocking) ("LOCK-PACKAGE" effect-of-locking)
     ("SCHEDULE-TIMER" effect-of-schedule :way call-scheduling)
     ((:setf "GC-LOGFILE") effect-of-log)
     ("FINALIZE" effect-of-finalizing :way call-finalizing)
     ("POSIX-GETENV" effect-of-getenv :class :environment)
     ("POSIX-ENVIRON" effect-of-environ :class :environment))
    ("UIOP" ("RUN-PROGRAM" effect-of-command :covers (:words :temporary :detail))
            ("LAUNCH-PROGRAM" effect-of-command :covers (:words :temporary :detail)))
    ("ASDF" ("OPERATE" effect-of-operate :covers (:build))
            ("INITIALIZE-OUTPUT-TRANSLATIONS" effect-of-output-translations))
    ("SWANK/BACKEND" ("SEND" effect-of-message))
    ("SWANK/RPC" ("WRITE-MESSAGE" effect-of-writing-message))
    ("SLYNK-RPC" ("WRITE-MESSAGE" effect-of-writing-message))
    ("SWANK" ("DECODE-MESSAGE" nil :way call-decoding :always t)
             ("EVAL-FOR-EMACS" nil :way call-evaluating :always t)
             ("RUN-HOOK" nil :way call-hooked :always t)
             ("RUN-HOOK-UNTIL-SUCCESS" nil :way call-hooked :always t))
    ("SLYNK-BACKEND" ("SEND" effect-of-message))
    ("SLYNK" ("DECODE-MESSAGE" nil :way call-decoding :always t)
             ("EVAL-FOR-EMACS" nil :way call-evaluating :always t)
             ("RUN-HOOK" nil :way call-hooked :always t))
    ("SLYNK-MREPL" ("MREPL-EVAL" nil :way call-evaluating-text :always t))
    ("SB-ALIEN"
     ("LOAD-SHARED-OBJECT" effect-of-library :covers (:foreign))
     ("ALIEN-FUNCALL" effect-of-calling-address)
     ("FREE-ALIEN" effect-of-freeing))
    ("SB-BSD-SOCKETS"
     ("SOCKET-CONNECT" effect-of-connect :covers (:words))
     ("SOCKET-BIND" effect-of-bind :covers (:words))
     ("SOCKET-LISTEN" effect-of-listen :covers (:listen))
     ("SOCKET-SEND" effect-of-send :covers (:words))
     ("SOCKET-RECEIVE" effect-of-receiving)
     ("GET-HOST-BY-NAME" effect-of-looking-up :way call-looking-up)
     ("GET-HOST-BY-ADDRESS" effect-of-looking-up-address)
     ("SOCKET-SHUTDOWN" effect-of-closing-socket) ("SOCKET-CLOSE" effect-of-closing-socket)
     ("SOCKET-MAKE-STREAM" nil :way call-making-stream))
    ("SB-THREAD"
     ("TERMINATE-THREAD" effect-of-stopping :class :thread :way call-stopping)
     ("INTERRUPT-THREAD" effect-of-interrupting :class :thread :way call-interrupting)
     ("%INTERRUPT-THREAD" effect-of-interrupting :class :thread :way call-interrupting)
     ("%SET-SYMBOL-VALUE-IN-THREAD" effect-of-binding-elsewhere)
     ((:setf "SYMBOL-VALUE-IN-THREAD") effect-of-setting-elsewhere :covers (:words))
     ("%EXIT-OTHER-THREADS" effect-of-exit :class :exit)
     ("START-THREAD" nil :way call-starting))
    ("SB-CONCURRENCY" ("SEND-MESSAGE" nil :way call-handing-over) ("ENQUEUE" nil :way call-handing-over))
    ("SB-SPROF" ("CALL-WITH-EACH-PROFILE-BUFFER" nil :way call-giving-back))
    ("LPARALLEL.KERNEL" ("SCHEDULE-TASK" nil :way call-handing-over))
    ("SB-DEBUG" ("LIST-BACKTRACE" nil :way call-listing-backtrace))
    ("SB-DI" ("ACTIVATE-BREAKPOINT" effect-of-breakpoint)
             ("PREPROCESS-FOR-EVAL" nil :way call-compiling-frame :expands t))
    ("SB-UNIX"
     ("UNIX-OPEN" effect-of-unix-open :class :write :way call-opening-natively)
     ("UNIX-UNLINK" effect-of-unlink :class :delete :in-c t)
     ("UNIX-RENAME" effect-of-unix-rename :class :rename :in-c t)
     ("UNIX-MKDIR" effect-of-mkdir :class :mkdir)
     ("UNIX-RMDIR" effect-of-rmdir :class :rmdir)
     ("UNIX-OPENDIR" nil :way call-opening-directory)
     ("UNIX-WRITE" effect-of-writing :class :written)
     ("UNIX-CLOSE" effect-of-closing-descriptor)
     ("UNIX-READ" effect-of-reading-descriptor) ("UNIX-DUP" effect-of-copying-descriptor)
     ("UNIX-IOCTL" effect-of-device-control)
     ("UNIX-SETSID" effect-of-process) ("UNIX-SETITIMER" effect-of-interval)
     ("%INSTALL-HANDLER" effect-of-signal :class :signal))
    ("SB-BSD-SOCKETS-INTERNAL"
     ("SHUTDOWN" effect-of-closing-descriptor) ("CLOSE" effect-of-closing-descriptor))
    ("SB-IMPL"
     ("SPAWN" effect-of-spawn)
     ("WRAPPED-ENVIRON" effect-of-environ :class :environment)
     ("CALL-WITH-NATIVE-DIRECTORY-ITERATOR" nil :way call-listing)
     ("OS-EXIT" effect-of-exit :class :exit)
     ("DEINIT" effect-of-exit :class :exit) ("REINIT" effect-of-exit :class :exit)
     ;; These end the Lisp process however they are exited.
     ("PROCESS-SCRIPT" effect-of-exit :class :exit)
     ("START-LISP" effect-of-exit :class :exit)
     ("ENCAPSULATE-GENERIC-FUNCTION" effect-of-encapsulating-generic)
     ("%DEFUN" effect-of-defining :way call-defining :always t)
     ("%DEFVAR" effect-of-setting :way call-defining :always t :as-is t)
     ("%DEFPARAMETER" effect-of-setting :way call-defining :always t :as-is t)
     ("%DEFGLOBAL" effect-of-setting :as-is t)
     ("%DEFTYPE" effect-of-defining-type :way call-defining :always t)
     ("%DEFSETF" effect-of-defining-type :way call-defining :always t)
     ("CALL-HOOKS" nil :way call-hooks-of-kind :always t)
     ("STRIP-ENCAPSULATION" nil :way call-stripping)
     ("ENSURE-ALIEN-LINKAGE-INDEX" effect-of-linking-name :class :foreign :way call-linking))
    ("SB-C" ("COMPILE-IN-LEXENV" nil :way call-noting-code :expands t)
            ("%PROCLAIM" effect-of-proclaiming)
            ("PROCESS-TOPLEVEL-FORM" nil :way call-with-code :expands t)
            ("%DEFMACRO" effect-of-defining :covers (:words) :way call-defining :always t)
            ("%DEFINE-COMPILER-MACRO" effect-of-defining-type :covers (:words) :way call-defining :always t)
            ("%DEFINE-SYMBOL-MACRO" effect-of-defining-type :way call-standing-for :always t))
    ("SB-KERNEL" ("%DEFINE-CONDITION" effect-of-defining-type :way call-defining :always t)
                 ("%DEFSTRUCT" effect-of-defining-structure :way call-defining :always t)
                 ("%TARGET-DEFSTRUCT" nil :way call-defining :always t)
                 ("%SET-SYMBOL-VALUE" effect-of-setting :passes sets-own-p :as-is t)
                 ("%CLOSURE-VALUES" effect-of-looking-into) ("%CLOSURE-INDEX-REF" effect-of-looking-into)
                 ((:setf "FDEFN-FUN") effect-of-setting-cell) ("FDEFN-MAKUNBOUND" effect-of-cell))
    ("SB-PCL" ("LOAD-DEFCLASS" effect-of-defining-type :way call-defining :always t))
    ("SB-MOP" ("SET-FUNCALLABLE-INSTANCE-FUNCTION" effect-of-replacing-function)
              ((:setf "GENERIC-FUNCTION-NAME") effect-of-renaming-generic))
    ("SB-INT"
     ("SET-INFO-VALUE" effect-of-setting-info)
     ;; Setting a variable that is only known at run time goes through here.
     ("ABOUT-TO-MODIFY-SYMBOL-VALUE" effect-of-setting :passes binds-or-sets-own-p :as-is t)
     ("EVAL-IN-LEXENV" nil :way call-with-code :expands t)
     ("SIMPLE-EVAL-IN-LEXENV" nil :way call-with-code :expands t)
     ("ENCAPSULATE" effect-of-defining :covers (:words))
     ("UNENCAPSULATE" effect-of-unencapsulating))
    ("SB-SYS"
     ("UPDATE-ALIEN-LINKAGE-TABLE" nil :way call-loading-file)
     ("REOPEN-SHARED-OBJECTS" nil :way call-loading-file)
     ("ADD-FD-HANDLER" nil :way call-handling)
     ("ALLOCATE-SYSTEM-MEMORY" nil :way call-allocating)
     ("DEALLOCATE-SYSTEM-MEMORY" effect-of-unmapping :class :memory)
     ("MAKE-FD-STREAM" effect-of-descriptor-stream :class :descriptor)
     ("FIND-DYNAMIC-FOREIGN-SYMBOL-ADDRESS" effect-of-linking-name :class :foreign)
     ("ENABLE-INTERRUPT" effect-of-signal :class :signal))
    ("SB-POSIX"
     ("OPEN" effect-of-unix-open :class :write :way call-opening-name)
     ("UNLINK" effect-of-unlink :class :delete) ("RMDIR" effect-of-rmdir :class :rmdir)
     ("RENAME" effect-of-unix-rename :class :rename) ("MKDIR" effect-of-mkdir :class :mkdir)
     ("CHMOD" effect-of-change :class :change) ("FCHMOD" effect-of-change :class :change) ("CHOWN" effect-of-change :class :change)
     ("LCHOWN" effect-of-change :class :change) ("FCHOWN" effect-of-change :class :change) ("UTIME" effect-of-change :class :change)
     ("UTIMES" effect-of-change :class :change)
     ("CREAT" effect-of-writing-name :class :write) ("TRUNCATE" effect-of-writing-name :class :write)
     ("FTRUNCATE" effect-of-writing-name :class :write) ("WRITE" effect-of-writing :class :written)
     ("MKSTEMP" effect-of-writing-name :class :write) ("MKDTEMP" effect-of-mkdir :class :mkdir)
     ("MKTEMP" effect-of-writing-name) ("MKFIFO" effect-of-writing-name :class :write)
     ("MUNMAP" effect-of-unmapping) ("MMAP" effect-of-mapping)
     ("DUP2" effect-of-descriptors) ("FCNTL" effect-of-controlling)
     ("FCNTL-WITH-INT-ARG" effect-of-controlling) ("FCNTL-WITHOUT-ARG" effect-of-controlling)
     ("DUP" effect-of-copying-descriptor) ("READ" effect-of-reading-descriptor)
     ("IOCTL" effect-of-device-control) ("IOCTL-WITHOUT-ARG" effect-of-device-control)
     ("IOCTL-WITH-INT-ARG" effect-of-device-control)
     ("CLOSE" effect-of-closing-descriptor) ("SYSLOG" effect-of-system-log)
     ("LINK" effect-of-linking :class :link) ("SYMLINK" effect-of-linking :class :link)
     ("FORK" effect-of-fork) ("POSIX-FORK" effect-of-fork)
     ("KILL" effect-of-kill :class :kill) ("KILLPG" effect-of-kill :class :kill)
     ("EXIT" effect-of-exit :class :exit) ("_EXIT" effect-of-exit :class :exit)
     ("ABORT" effect-of-exit :class :exit)
     ("SETENV" effect-of-setenv :class :process) ("PUTENV" effect-of-setenv :class :process) ("UNSETENV" effect-of-setenv :class :process)
     ("GETENV" effect-of-getenv :class :environment) ("OPENDIR" nil :way call-opening-directory)
     ("CHDIR" effect-of-chdir :class :process) ("FCHDIR" effect-of-process) ("CHROOT" effect-of-process)
     ("SETUID" effect-of-process) ("SETGID" effect-of-process)
     ("SETEUID" effect-of-process) ("SETEGID" effect-of-process) ("SETSID" effect-of-process)
     ("SETPGRP" effect-of-process) ("SETREUID" effect-of-process) ("SETREGID" effect-of-process)
     ("SETRESUID" effect-of-process) ("SETRESGID" effect-of-process)
     ("SETFSUID" effect-of-process) ("SETFSGID" effect-of-process)
     ("SETPGID" effect-of-process) ("UMASK" effect-of-process)
     ("SETRLIMIT" effect-of-process) ("ALARM" effect-of-process))))

(defun guarded-name (package-name name)
  "The function name that NAME stands for in the package, or NIL."
  (let* ((package (find-package package-name))
         (symbol (and package (find-symbol (if (consp name) (second name) name) package)))
         (name (and symbol (if (consp name) (list 'setf symbol) symbol))))
    (and name (fboundp name) (not (and (symbolp name) (macro-function name))) name)))

(defun all-guards ()
  "A guard for each of these functions that exists."
  (loop for (package-name . entries) in (guard-lists)
        nconc (loop for (name describes . slots) in entries
                    for found = (guarded-name package-name name)
                    when (and found (not (and (getf slots :in-c) (hookable-p))))
                      collect (apply #'make-guard :name found :describes describes
                                     (copy-tree slots)))))

;;; Arguments

(defun own-copies (arguments)
  "ARGUMENTS with copies of strings, also inside lists: another thread may change the originals
while the user looks at them."
  (labels ((own (it depth)
             (cond ((stringp it) (copy-seq it))
                   ((or (atom it) (zerop depth)) it)
                   ((and (ignore-errors (list-length it)) (null (cdr (last it))))
                    (mapcar (lambda (part) (own part (1- depth))) it))
                   ((atom (cdr it)) (cons (own (car it) 0) (own (cdr it) 0)))
                   (t it))))
    (mapcar (lambda (argument) (own argument 3)) arguments)))

(defun own-arguments (guard arguments)
  "The arguments to check and to pass on for GUARD: copies, including the input that its function
reads, unless they are passed on as they are."
  (cond ((guard-as-is guard) arguments)
        ((member :input (guard-covers guard)) (with-own-input (own-copies arguments)))
        (t (own-copies arguments))))
