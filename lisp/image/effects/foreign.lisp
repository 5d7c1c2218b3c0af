;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; C functions that code calls which was compiled before the watch came: SBCL goes to them through
;;; a table, in which stands ours instead. It runs within the call of C's, so nothing may unwind from
;;; it: what is denied fails there, as when the system does not permit it. None of them has more
;;; than six arguments, which is as many as are passed on.

(cl:in-package "AGENT-Q-IMAGE")

(defun foreign-lists ()
  "Lists of a C function, the class it is of, what describes its effect, and what its arguments are."
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
    ("connect" :connect effect-of-connecting-c) ("bind" :listen effect-of-listening-c)
    ("dlopen" :foreign effect-of-library :text)))

(defun effect-of-executing (arguments)
  (program-effect (first arguments) '()))

(defun effect-of-connecting-c (arguments)
  (declare (ignore arguments))
  (make-effect :kind "connect" :words "connect to an address" :target "address"))

(defun effect-of-listening-c (arguments)
  (declare (ignore arguments))
  (make-effect :kind "listen" :words "take an address" :target "address"))

(defun foreign-hook-maker ()
  "A function that makes what C calls, and gives its address, of a function that says whether it may
be called and of the address of the real one. Its text has symbols that others can't read."
  (compile nil (let ((*package* (find-package "COMMON-LISP-USER")))
                 (read-from-string
                  "(lambda (may-p address errno)
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
                                    -1)))))))"))))

(defun foreign-entry (name)
  "The place, an address, where the table has what to call for the C function NAME; NIL when no code
has it yet."
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
  "Whether the table is as it is known here."
  (and (member :x86-64 *features*)
       (optional-function "SB-VM" "ALIEN-LINKAGE-TABLE-ENTRY-ADDRESS")
       (optional-function "SB-IMPL" "ENSURE-ALIEN-LINKAGE-INDEX")
       (macro-function (or (find-symbol "ALIEN-LAMBDA" "SB-ALIEN") 'list))
       t))

(defun add-foreign-hooks (watch)
  "Put ours in the place of the C functions that code calls already."
  (when (hookable-p)
    (let ((maker (or (watch-maker watch) (setf (watch-maker watch) (foreign-hook-maker))))
          (errno (internal "SB-SYS" "FIND-DYNAMIC-FOREIGN-SYMBOL-ADDRESS" "__errno_location")))
      (loop for (name class describes . kinds) in (foreign-lists)
            for entry = (foreign-entry name)
            unless (or (null entry) (null errno)
                       (find entry (first (watch-foreign watch)) :key #'first))
              do (let* ((old (memory-word entry))
                        (guard (make-guard :name name :describes describes :class class))
                        (hook (funcall maker (funcall (watch-permitting watch) guard kinds)
                                       old errno)))
                   (push (list entry old) (first (watch-foreign watch)))
                   (set-memory-word entry hook))))))

(defun remove-foreign-hooks (watch)
  (loop for (entry old) in (shiftf (first (watch-foreign watch)) '())
        do (set-memory-word entry old)))

(defun foreign-text (address)
  "The text at ADDRESS, as C has it."
  (if (zerop address)
      ""
      (let ((sap (internal "SB-SYS" "INT-SAP" address)))
        (internal "SB-EXT" "OCTETS-TO-STRING"
                  (coerce (loop for index from 0 below 4096
                                for octet = (internal "SB-SYS" "SAP-REF-8" sap index)
                                until (zerop octet) collect octet)
                          '(vector (unsigned-byte 8)))
                  :external-format :utf-8))))

(defun foreign-arguments (kinds words)
  (loop for kind in kinds
        for word in words
        collect (if (eq kind :text)
                    (foreign-text word)
                    (if (logbitp 31 word) (- (ldb (byte 32 0) word) (expt 2 32)) (ldb (byte 32 0) word)))))

(defun foreign-may-p (watch guard hold kinds words)
  "Whether the C function of GUARD may be called with WORDS, what C has of its arguments."
  (handler-case
      (let ((arguments (foreign-arguments kinds words)))
        (or (covered-class-p guard hold arguments)
            (let ((effect (effect-at guard arguments)))
              (or (null effect)
                  (covered-p effect hold)
                  (granted-p (first hold) effect)
                  (let ((decision (ask watch (first hold) effect)))
                    ;; What can't be stopped here may do nothing from now on.
                    (when (equal decision "stop")
                      (setf (consent-mode (first hold)) :deny))
                    (equal decision "allow"))
                  (progn (note-denial (first hold) effect) nil)))))
    (error () nil)))
