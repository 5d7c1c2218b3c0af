;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; C functions by name, when code is linked to them; by address; and libraries.

(cl:in-package "AGENT-Q-IMAGE")

(defun harmful-foreign-names ()
  "C functions that reach outside the process, or into it where Lisp can't see."
  '("system" "popen" "execve" "execv" "execvp" "execvpe" "execl" "execlp" "execle" "fexecve"
    "posix_spawn" "posix_spawnp" "fork" "vfork" "clone" "spawn" "daemon"
    "unlink" "unlinkat" "rename" "renameat" "renameat2" "remove" "rmdir" "mkdir" "mkdirat" "open"
    "open64" "openat" "openat64" "creat" "creat64" "fopen" "fopen64" "freopen" "truncate"
    "truncate64" "ftruncate" "ftruncate64" "write" "writev" "pwrite" "pwrite64" "sendfile"
    "link" "linkat" "symlink" "symlinkat" "chmod" "fchmod" "fchmodat" "chown" "fchown" "lchown"
    "fchownat" "utime" "utimes" "utimensat" "futimes" "mkstemp" "mkstemps" "mkdtemp" "mktemp"
    "mkfifo" "mknod" "copy_file_range" "fallocate" "posix_fallocate" "mount" "umount" "reboot"
    "setenv" "putenv" "unsetenv" "clearenv" "getenv" "secure_getenv" "environ" "posix_argv"
    "connect" "bind" "listen" "sendto" "send" "sendmsg" "kill" "killpg" "tgkill" "raise"
    "pthread_kill" "abort" "_exit" "_Exit" "exit" "quick_exit" "syscall" "dlopen" "dlmopen" "dlsym"
    "ptrace" "mprotect" "mmap" "process_vm_writev" "setuid" "setgid" "seteuid" "setegid" "chdir"
    "fchdir" "chroot" "sigaction" "signal" "prctl" "setrlimit" "fputs" "fwrite" "fprintf" "puts"
    "dup2" "dup3" "mkostemp" "mkostemps" "mkfifoat" "mknodat" "wordexp" "sendmmsg" "pwritev" "dprintf"
    "setxattr" "lsetxattr" "fsetxattr" "removexattr" "lutimes" "futimesat" "futimens" "shm_open"
    "sigqueue" "tmpfile" "splice" "lose" "__open" "__open64" "__open_2" "__open64_2" "__openat_2"
    "__openat64_2" "__libc_open" "__libc_open64" "freopen64" "fdopen" "mkostemp64" "mkstemp64"
    "mkostemps64" "mkstemps64" "tmpfile64" "pwritev2" "pwritev64" "pwrite64v2" "fallocate64" "posix_fallocate64"
    "sendfile64" "__write" "__libc_write" "__fork" "_Fork" "__libc_fork" "__libc_system" "__xmknod"
    "updwtmp" "updwtmpx" "lchmod" "fputs_unlocked" "fwrite_unlocked" "vdprintf" "_IO_fopen" "sem_open"
    "mq_open" "open_by_handle_at" "vmsplice" "tee" "acct" "swapon"))

(defun memory-foreign-names ()
  "C functions that access memory or descriptors, or stop threads. Libraries being built have
legitimate uses for them."
  '("memcpy" "memmove" "memset" "mempcpy" "bcopy" "bzero" "strcpy" "strncpy" "stpcpy" "strcat" "strncat"
    "sprintf" "snprintf" "vsprintf" "read" "pread" "pread64" "readv" "recv" "recvfrom" "recvmsg" "fread"
    "fgets" "free" "realloc" "munmap" "mremap" "madvise" "mlockall" "dup" "ioctl" "fcntl" "fcntl64" "close"
    "close_range" "closefrom" "shutdown" "setitimer" "timer_create" "alarm" "pause" "sigprocmask"
    "pthread_sigmask" "pthread_create" "pthread_cancel" "pthread_exit" "longjmp" "siglongjmp" "atexit"
    "getaddrinfo" "gethostbyname"))

(defun effect-of-linking-name (arguments)
  "The effect of linking code to a foreign name, the first of ARGUMENTS."
  (let* ((name (first arguments)) (name (if (consp name) (first name) name)))
    (when (or (member name (harmful-foreign-names) :test #'equal)
              (member name (memory-foreign-names) :test #'equal))
      (make-effect :kind "foreign-code" :target name :texts (list name)
                   :words (format nil "use the C function ~A" name)))))

(defun linked-address-p (address)
  "Whether ADDRESS calls a C function that has a name, which was checked when it was linked."
  (flet ((entry (index)
           (internal "SB-VM" "ALIEN-LINKAGE-TABLE-ENTRY-ADDRESS" index)))
    (ignore-errors (<= (entry 0) address (entry 20000)))))

(defun effect-of-calling-address (arguments)
  "The effect of calling what a foreign value points to, in a call that the compiler hasn't seen."
  (let ((address (internal "SB-SYS" "SAP-INT" (internal "SB-ALIEN" "ALIEN-SAP" (first arguments)))))
    (unless (linked-address-p address)
      (make-effect :kind "foreign-code" :target "an address"
                   :words (format nil "call foreign code at ~X" address)))))

(defun effect-of-library (arguments)
  (file-effect "foreign-code" "load the library ~A" (first arguments)))
