;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; C functions called by code that was compiled before the watch existed: SBCL calls them through a
;;; table, in which we put our own hooks. A hook runs inside the C call, so nothing may unwind from
;;; it: a denied call fails as if the system didn't permit it. None of these functions has more than
;;; six arguments, which is as many as a hook passes on.

(cl:in-package "AGENT-Q-IMAGE")

(defun foreign-lists ()
  "Lists of a C function, its class, the function that describes its effect, and the kinds of its
arguments."
  '(("unlink" :delete effect-of-unlink :text) ("remove" :delete effect-of-unlink :text)
    ("rmdir" :rmdir effect-of-rmdir :text) ("rename" :rename effect-of-unix-rename :text :text)
    ("mkdir" :mkdir effect-of-mkdir :text) ("chmod" :change effect-of-change :text)
    ("chown" :change effect-of-change :text) ("lchown" :change effect-of-change :text)
    ("utime" :change effect-of-change :text) ("utimes" :change effect-of-change :text)
    ("fchmod" :change effect-of-change :number) ("fchown" :change effect-of-change :number)
    ("symlink" :link effect-of-linking :text :text) ("link" :link effect-of-linking :text :text)
    ("truncate" :write effect-of-writing-name :text)
    ("ftruncate" :write effect-of-writing-name :number)
    ("creat" :write effect-of-writing-name :text) ("mkstemp" :write effect-of-writing-name :text)
    ("mkdtemp" :mkdir effect-of-mkdir :text) ("mkfifo" :write effect-of-writing-name :text)
    ("system" :run effect-of-command :text) ("popen" :run effect-of-command :text)
    ("execve" :run effect-of-executing :text) ("execv" :run effect-of-executing :text)
    ("execvp" :run effect-of-executing :text) ("fork" :run effect-of-fork)
    ("exit" :exit effect-of-exit) ("_exit" :exit effect-of-exit)
    ("sb_mkstemp" :write effect-of-writing-name :text)
    ("kill" :kill effect-of-kill :number :number) ("killpg" :kill effect-of-kill :number :number)
    ("setenv" :process effect-of-setenv :text) ("unsetenv" :process effect-of-setenv :text)
    ("putenv" :process effect-of-setenv :text) ("chdir" :process effect-of-chdir :text)
    ("connect" :connect effect-of-connecting-c :number :address)
    ("bind" :listen effect-of-listening-c :number :address) ("listen" :listen effect-of-listening-c)
    ("sendto" :connect effect-of-sending-c :number :number :number :number :address)
    ("truncate_largefile" :write effect-of-writing-name :text)
    ("ftruncate_largefile" :write effect-of-writing-name :number)
    ("open" :write effect-of-unix-open :text :number)
    ("open64" :write effect-of-unix-open :text :number)
    ("creat64" :write effect-of-writing-name :text) ("mknod" :write effect-of-writing-name :text)
    ("mkostemp" :write effect-of-writing-name :text)
    ("fopen" :write effect-of-opening-c :text :text)
    ("fopen64" :write effect-of-opening-c :text :text)
    ("openat" :write effect-of-unix-open :at :text :number)
    ("unlinkat" :delete effect-of-unlink :at :text)
    ("renameat" :rename effect-of-unix-rename :at :text :at :text)
    ("mkdirat" :mkdir effect-of-mkdir :at :text)
    ("symlinkat" :link effect-of-linking :text :at :text)
    ("linkat" :link effect-of-linking :at :text :at :text)
    ("fchmodat" :change effect-of-change :at :text)
    ("raise" :kill effect-of-raising :number)
    ("dlopen" :foreign effect-of-library :text)))

(defun effect-of-executing (arguments)
  (program-effect (first arguments) :unknown))

(defun effect-of-connecting-c (arguments)
  (native-address-effect "connect" "connect to ~A" (second arguments)))

(defun effect-of-listening-c (arguments)
  (native-address-effect "listen" "take the address ~A" (or (second arguments) "that it is given")))

(defun effect-of-sending-c (arguments)
  (and (fifth arguments)
       (native-address-effect "connect" "send to ~A" (fifth arguments))))

(defun native-address-effect (kind words text)
  (make-effect :kind kind :words (format nil words text) :target text :texts (list text)))

(defun effect-of-opening-c (arguments)
  "The effect of opening a file through C's library, with a mode text."
  (when (find-if (lambda (it) (find it "wa+")) (second arguments))
    (effect-of-writing-name arguments)))

(defun effect-of-raising (arguments)
  ;; With that signal, SBCL tells a thread about another interrupt, which was asked about when it
  ;; was sent.
  (unless (eql (first arguments) (symbol-value (find-symbol "SIGURG" "SB-UNIX")))
    (effect-of-kill (list "of its own" (first arguments)))))

(defun foreign-hook-maker ()
  "A function that makes a hook and returns its address, given a predicate that says whether the
call is allowed and the address of the original. Its text has symbols that others can't read."
  (compile nil (let ((*package* (find-package "COMMON-LISP-USER")))
                 (read-from-string
                  "(lambda (may-p address errno failure)
                     (declare (function may-p) (sb-ext:muffle-conditions sb-ext:compiler-note))
                     (let ((sap (sb-sys:int-sap address)))
                       (sb-sys:sap-int
                        (sb-alien:alien-sap
                         (sb-alien::alien-lambda sb-alien:long
                             ((a sb-alien:unsigned-long) (b sb-alien:unsigned-long)
                              (c sb-alien:unsigned-long) (d sb-alien:unsigned-long)
                              (e sb-alien:unsigned-long) (f sb-alien:unsigned-long))
                           (cond ((funcall may-p a b c d e f)
                                  (sb-alien:alien-funcall
                                   (sb-alien:sap-alien
                                    sap (function sb-alien:long
                                         sb-alien:unsigned-long sb-alien:unsigned-long
                                         sb-alien:unsigned-long sb-alien:unsigned-long
                                         sb-alien:unsigned-long sb-alien:unsigned-long))
                                   a b c d e f))
                                 (t (setf (sb-sys:signed-sap-ref-32
                                           (sb-alien:alien-funcall
                                            (sb-alien:sap-alien
                                             (sb-sys:int-sap errno)
                                             (function sb-sys:system-area-pointer)))
                                           0)
                                          1)
                                    failure)))))))"))))

(defun foreign-entry (name)
  "The address in the table that holds what to call for the C function NAME; NIL if no code uses it
yet."
  (let ((table (symbol-value (find-symbol "*LINKAGE-INFO*" "SB-SYS"))))
    (when (gethash name (if (consp table) (car table) table))
      (+ 8 (internal "SB-VM" "ALIEN-LINKAGE-TABLE-ENTRY-ADDRESS"
                     (abs (internal "SB-IMPL" "ENSURE-ALIEN-LINKAGE-INDEX" name nil)))))))

(defun memory-word (address)
  (internal "SB-SYS" "SAP-REF-64" (internal "SB-SYS" "INT-SAP" address) 0))

(defun set-memory-word (address word)
  (funcall (fdefinition (list 'setf (find-symbol "SAP-REF-64" "SB-SYS")))
           word (internal "SB-SYS" "INT-SAP" address) 0))

(defun hookable-p ()
  "Whether the table is as we know it."
  (and #-x86-64 nil
       (optional-function "SB-VM" "ALIEN-LINKAGE-TABLE-ENTRY-ADDRESS")
       (optional-function "SB-IMPL" "ENSURE-ALIEN-LINKAGE-INDEX")
       (macro-function (or (find-symbol "ALIEN-LAMBDA" "SB-ALIEN") 'list))
       t))

(defun add-foreign-hooks (watch)
  "Install hooks for the C functions that code already calls."
  (when (hookable-p)
    (let ((maker (or (watch-maker watch) (setf (watch-maker watch) (foreign-hook-maker))))
          (errno (internal "SB-SYS" "FIND-DYNAMIC-FOREIGN-SYMBOL-ADDRESS" "__errno_location")))
      (loop for (name class describes . kinds) in (foreign-lists)
            for entry = (foreign-entry name)
            for known = (and entry (find entry (first (watch-foreign watch)) :key #'first))
            unless (or (null entry) (null errno))
              do (cond ((null known)
                        (let* ((old (memory-word entry))
                               (guard (make-guard :name name :describes describes :class class))
                               (hook (funcall maker (funcall (watch-permitting watch) guard kinds)
                                              old errno (failure-of name))))
                          (push (list entry old hook) (first (watch-foreign watch)))
                          (set-memory-word entry hook)))
                       ;; SBCL rewrites its table when libraries are loaded or unloaded.
                       ((/= (memory-word entry) (third known))
                        (set-memory-word entry (third known))))))))

(defun failure-of (name)
  "What the C function NAME returns on failure: a null pointer if it returns pointers."
  (if (member name '("popen" "mkdtemp" "dlopen" "fopen" "fopen64") :test #'equal) 0 -1))

(defun remove-foreign-hooks (watch)
  (loop for (entry old nil) in (shiftf (first (watch-foreign watch)) '())
        do (set-memory-word entry old)))

(defun foreign-text (address)
  "The C string at ADDRESS."
  (if (zerop address)
      ""
      (let ((sap (internal "SB-SYS" "INT-SAP" address)))
        (internal "SB-EXT" "OCTETS-TO-STRING"
                  (coerce (loop for index from 0
                                for octet = (directly "SB-SYS" "SAP-REF-8" sap index)
                                until (zerop octet) collect octet
                                do (when (> index (* 4 *longest-command*))
                                     (error "The C string has no end.")))
                          '(vector (unsigned-byte 8)))
                  :external-format :utf-8))))

(defun foreign-address (address)
  "The network address at ADDRESS in memory, for people, or NIL if there is none."
  (unless (zerop address)
    (let ((octets (loop with sap = (internal "SB-SYS" "INT-SAP" address)
                        for index from 0 below 24
                        collect (internal "SB-SYS" "SAP-REF-8" sap index))))
      (flet ((text (start end)
               (address-text (list (coerce (subseq octets start end) 'vector)
                                   (+ (* 256 (third octets)) (fourth octets))))))
        (case (first octets)
          (1 (foreign-text (+ address 2)))
          (2 (text 4 8))
          (10 (text 8 24))
          (t "an address"))))))

(defun foreign-number (word)
  (if (logbitp 31 word) (- (ldb (byte 32 0) word) (expt 2 32)) (ldb (byte 32 0) word)))

(defun foreign-arguments (kinds words)
  "WORDS, the arguments as C has them, decoded by their KINDS; :AT is the directory of the following
name."
  (let ((directory nil) (arguments '()))
    (loop for kind in kinds
          for word in words
          do (ecase kind
               (:at (setf directory (descriptor-name (foreign-number word))))
               (:number (push (foreign-number word) arguments))
               (:address (push (foreign-address word) arguments))
               (:text (push (if directory
                                (absolute-name (foreign-text word) directory)
                                (foreign-text word))
                            arguments)
                (setf directory nil))))
    (nreverse arguments)))

(defun effect-of-reading-in-c (guard hold arguments)
  "The effect of opening a private file for reading, where nobody checks what was opened."
  (and (member (guard-name guard) '("open" "open64" "openat" "fopen" "fopen64") :test #'equal)
       (not (member :reading (rest hold) :test #'eq))
       (effect-of-reading (first hold) (real-native-name (first arguments)))))

(defun only-reading-p (guard hold words)
  "Whether WORDS open a file for reading, and what was opened is checked afterwards, so that the
file's name needn't be known yet."
  (and (member :reading (rest hold) :test #'eq)
       (member (guard-name guard) '("open" "open64") :test #'equal)
       (not (writing-flags-p (foreign-number (second words))))))

(defun foreign-may-p (watch guard hold kinds words)
  "Whether the C function of GUARD may be called with WORDS, its arguments as C has them."
  (handler-case
      (or (only-reading-p guard hold words)
          (let ((arguments (foreign-arguments kinds words)))
            (or (covered-class-p guard hold arguments)
                (let ((effect (or (effect-at guard arguments)
                                  (effect-of-reading-in-c guard hold arguments))))
                  (or (null effect)
                      (covered-p effect hold)
                      (granted-p (first hold) effect)
                      (let ((decision (ask watch (first hold) effect)))
                        ;; What can't be stopped here may do nothing from now on.
                        (when (equal decision "stop")
                          (setf (consent-mode (first hold)) :deny))
                        (and (equal decision "allow")
                             ;; Another thread may have changed them while the user looked.
                             (equal arguments (foreign-arguments kinds words))))
                      (progn (note-denial (first hold) effect) nil))))))
    (error () nil)))
