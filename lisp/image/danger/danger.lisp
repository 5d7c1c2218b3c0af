;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What reaches outside the program or takes control away from the user: tables of packages and
;;; names. They apply if such packages exist; a name stands for any symbol that it finds there.

(cl:in-package "AGENT-Q-IMAGE")

;;; Tables

(defmacro define-table (name value documentation)
  "Make NAME stand for VALUE, computed now, in our functions. Each function has a copy of its own,
so there is no variable through which assessed code could change what it is compared with."
  (declare (ignore documentation))
  (let ((copy (intern (format nil "COPY-OF-~A" name) "AGENT-Q-IMAGE")))
    `(progn
       (defmacro ,copy () (list 'quote (copy-tree ',(eval value))))
       (define-symbol-macro ,name (,copy)))))

(defun comma-content (object)
  "A list of the form inside a comma object, which a backquote leaves behind; NIL for anything else."
  (let ((comma-p (optional-function "SB-INT" "COMMA-P")))
    (and comma-p (funcall comma-p object)
         (list (funcall (optional-function "SB-INT" "COMMA-EXPR") object)))))

(define-table +danger-table+
  '(("runs programs"
     (("SB-EXT" "EXT" "CCL" "SI" "UIOP" "ASDF" "EXTENSIONS")
      "RUN-PROGRAM" "RUN-SHELL-COMMAND" "LAUNCH-PROGRAM" "SYSTEM" "SHELL" "EXECV" "MAKE-PIPE-OUTPUT-STREAM"
      "MAKE-PIPE-INPUT-STREAM" "MAKE-PIPE-IO-STREAM" "SPAWN-SUBPROCESS")
     (("SB-EXT") "PROCESS-KILL")
     (("KMRCL") "RUN-SHELL-COMMAND" "COMMAND-OUTPUT")
     (("UIOP/RUN-PROGRAM" "UIOP/LAUNCH-PROGRAM" "TRIVIAL-SHELL" "INFERIOR-SHELL" "EXTERNAL-PROGRAM"
       "CL-LAUNCH" "SIMPLE-INFERIORS" "SHELLPOOL") :all))
    ("deletes or writes files"
     (("COMMON-LISP") "DELETE-FILE" "RENAME-FILE" "ENSURE-DIRECTORIES-EXIST" "DRIBBLE")
     (("UIOP")
      "DELETE-FILE-IF-EXISTS" "DELETE-DIRECTORY-TREE" "DELETE-EMPTY-DIRECTORY" "COPY-FILE"
      "RENAME-FILE-OVERWRITING-TARGET" "CONCATENATE-FILES" "COMBINE-FASLS" "WITH-OUTPUT-FILE"
      "CALL-WITH-OUTPUT-FILE" "WITH-TEMPORARY-FILE" "CALL-WITH-TEMPORARY-FILE"
      "WITH-STAGING-PATHNAME" "CALL-WITH-STAGING-PATHNAME" "ENSURE-ALL-DIRECTORIES-EXIST"
      "CHDIR" "WITH-CURRENT-DIRECTORY" "CALL-WITH-CURRENT-DIRECTORY"
      "SETUP-TEMPORARY-DIRECTORY" "TMPIZE-PATHNAME" "GET-TEMPORARY-FILE")
     (("SB-EXT") "GC-LOGFILE")
     (("SB-COVER") "REPORT" "SAVE-COVERAGE-IN-FILE")
     (("SB-EXT" "EXT" "CCL" "SI")
      "DELETE-DIRECTORY" "DELETE-DIR" "MAKE-DIR" "MKDIR" "RMDIR" "COPY-FILE" "CHDIR" "CD"
      "RENAME-DIR" "CREATE-DIRECTORY" "SET-FILE-MODE" "CHMOD")
     (("ALEXANDRIA" "ALEXANDRIA-2")
      "WRITE-STRING-INTO-FILE" "WRITE-BYTE-VECTOR-INTO-FILE" "COPY-FILE" "WITH-OUTPUT-TO-FILE")
     (("OSICAT" "OSICAT-POSIX" "NIX" "CL-FAD" "FILE-FINDER" "FILESYSTEM-UTILS" "IOLIB/PATHNAMES"
       "IOLIB.OS" "IOLIB/OS" "IOLIB.SYSCALLS" "IOLIB/SYSCALLS" "CL-STORE")
      :all))
    ("uses system calls"
     (("SB-POSIX") :all "GETENV" "GETPID" "GETPPID" "GETUID" "GETCWD" "STAT" "STAT-SIZE" "STAT-MODE"
      "STAT-MTIME" "TIME" "GETTIMEOFDAY" "GETRUSAGE")
     (("SB-UNIX" "POSIX" "LINUX") :all))
    ("uses the network"
     (("SB-BSD-SOCKETS" "USOCKET" "USOCKET-SERVER" "IOLIB" "IOLIB.SOCKETS" "IOLIB/SOCKETS" "CL+SSL"
       "DRAKMA" "DEXADOR" "DEX" "CL-HTTP" "WOO" "CL-ASYNC" "CL-SMTP" "SOCKET" "QL-HTTP"
       "CL-REDIS" "WEBSOCKET-DRIVER" "WEBSOCKET-DRIVER-CLIENT" "CARRIER" "TRIVIAL-DOWNLOAD" "SB-CGI"
       "CL-FTP" "TRIVIAL-SSH" "LIBSSH2")
      :all)
     (("HUNCHENTOOT" "CLACK")
      "START" "CLACKUP" "EASY-ACCEPTOR" "EASY-SSL-ACCEPTOR" "ACCEPTOR" "SSL-ACCEPTOR")
     (("EXT" "SI" "CCL" "COMM")
      "OPEN-CLIENT-STREAM" "OPEN-SERVER-STREAM" "MAKE-SOCKET" "MAKE-SERVER-SOCKET" "SOCKET-ACCEPT"
      "GET-SOCKET-STREAM"))
    ("reaches into Emacs"
     (("SLYNK" "SLYNK-*" "SLYNK/*" "SWANK" "SWANK-*" "SWANK/*") :all)
     (("COMMON-LISP") "ED"))
    ("changes agent-q's own half in the image"
     ;; Code may handle denials; and our own functions, while interpreted, look up others.
     (("AGENT-Q-IMAGE") :all "EFFECT-DENIED" "FILE-EFFECT-DENIED" "ASK-AGAIN" "OWN-LOOKUP"))
    ("quits, forks or saves the Lisp"
     (("SB-EXT" "EXT" "CCL" "SI" "UIOP" "CUSTOM")
      ("EXIT" :soft) ("QUIT" :soft) ("BYE" :soft) ("DIE" :soft) "SAVE-LISP-AND-DIE" "SAVEINITMEM"
      "SAVE-APPLICATION" "DUMP-IMAGE" "RESTORE-IMAGE" "SHELL-BOOLEAN-EXIT" "HANDLE-FATAL-CONDITION"
      "*EXIT-TIMEOUT*"))
    ("makes code run when the Lisp starts, quits or is saved"
     (("SB-EXT" "EXT" "CCL" "SI" "UIOP" "CUSTOM")
      "*EXIT-HOOKS*" "*INIT-HOOKS*" "*SAVE-HOOKS*" "REGISTER-IMAGE-DUMP-HOOK"
      "REGISTER-IMAGE-RESTORE-HOOK")
     (("UIOP/IMAGE") "*IMAGE-DUMP-HOOK*" "*IMAGE-RESTORE-HOOK*"))
    ("stops or interrupts threads"
     (("SB-THREAD" "BORDEAUX-THREADS" "BORDEAUX-THREADS-2" "BT" "BT2" "THREADS" "MP" "CCL")
      "TERMINATE-THREAD" "DESTROY-THREAD" "INTERRUPT-THREAD" "ABORT-THREAD" "KILL-THREAD"
      "ERROR-IN-THREAD" "PROCESS-KILL" "PROCESS-INTERRUPT" "PROCESS-RESET" "RETURN-FROM-THREAD"
      "SIGNAL-IN-THREAD")
     (("SB-SYS" "MP") "WITHOUT-INTERRUPTS" "INTERACTIVE-INTERRUPT" "ENABLE-INTERRUPT"
      "WITHOUT-SCHEDULING"))
    ("unlocks packages"
     (("SB-EXT" "EXT" "CL")
      "UNLOCK-PACKAGE" "WITHOUT-PACKAGE-LOCKS" "DISABLE-PACKAGE-LOCKS" "WITH-UNLOCKED-PACKAGES"
      "ADD-IMPLEMENTATION-PACKAGE" "PACKAGE-LOCK" "WITHOUT-PACKAGE-LOCK" "ADD-PACKAGE-LOCK"
      "REMOVE-IMPLEMENTATION-PACKAGE" "*PACKAGE-LOCK*"))
    ("calls foreign code"
     (("SB-ALIEN" "SB-SYS" "EXT" "SI")
      "LOAD-SHARED-OBJECT" "UNLOAD-SHARED-OBJECT" "ALIEN-FUNCALL" "EXTERN-ALIEN"
      "DEFINE-ALIEN-ROUTINE" "DEFINE-ALIEN-VARIABLE" "DEFINE-ALIEN-CALLBACK" "MAKE-ALIEN" "SAP-ALIEN"
      "FOREIGN-SYMBOL-ADDRESS" "FIND-FOREIGN-SYMBOL-ADDRESS" "INT-SAP" "LOAD-FOREIGN-MODULE" "DLOPEN"
      "LOAD-FOREIGN")
     (("CFFI" "CFFI-SYS" "FFI" "UFFI" "JAVA" "JSS" "ABCL-ASDF" "SB-GROVEL" "CFFI-GROVEL" "AUTOWRAP"
       "STATIC-VECTORS")
      :all))
    ("loads or compiles files"
     (("COMMON-LISP") ("LOAD" :soft) ("REQUIRE" :soft) "COMPILE-FILE" "LOAD-LOGICAL-PATHNAME-TRANSLATIONS")
     (("ASDF")
      "LOAD-SYSTEM" "LOAD-SYSTEMS" "LOAD-SYSTEMS*" "OPERATE" "OOS" "MAKE" "COMPILE-SYSTEM" "TEST-SYSTEM"
      "REQUIRE-SYSTEM" "LOAD-ASD" "PERFORM" "PERFORM-PLAN" "LOAD-BUNDLE" "UPGRADE-ASDF"
      "INITIALIZE-SOURCE-REGISTRY" "INITIALIZE-OUTPUT-TRANSLATIONS")
     (("QL" "QUICKLISP-CLIENT" "QL-DIST" "QUICKLISP" "OCICL" "QLOT" "CLPM" "CLPM-CLIENT"
       "ULTRALISP") :all)
     (("UIOP")
      "LOAD*" "LOAD-PATHNAME" "LOAD-FROM-STRING" "COMPILE-FILE*" "LOAD-IMAGE" "LOAD-LISP-FILE"))
    ("runs text as code"
     (("UIOP")
      "SYMBOL-CALL" "EVAL-INPUT" "EVAL-THUNK" "ENSURE-FUNCTION" "CALL-FUNCTION" "CALL-FUNCTIONS"
      "ACCESS-AT" "STANDARD-EVAL-THUNK" "UNREIFY-SYMBOL"))
    ("changes how text is read"
     (("COMMON-LISP")
      "SET-MACRO-CHARACTER" "SET-DISPATCH-MACRO-CHARACTER" "MAKE-DISPATCH-MACRO-CHARACTER"
      "SET-SYNTAX-FROM-CHAR" "SET-PPRINT-DISPATCH")
     (("NAMED-READTABLES") "DEFREADTABLE" "MERGE-READTABLES-INTO" "ENSURE-READTABLE"))
    ("removes packages or symbols"
     (("COMMON-LISP") "UNINTERN" "DELETE-PACKAGE" "RENAME-PACKAGE")
     (("UIOP") "UNINTERN*" "NUKE-SYMBOL" "DELETE-PACKAGE*" "RENAME-PACKAGE-AWAY"))
    ("replaces a definition behind its name"
     (("SB-MOP" "CLOS" "MOP" "CLOSER-MOP") "SET-FUNCALLABLE-INSTANCE-FUNCTION" "ENSURE-CLASS"
      "ENSURE-CLASS-USING-CLASS"))
    ("takes over the debugger or the evaluator"
     (("COMMON-LISP") "*MACROEXPAND-HOOK*" "*DEBUGGER-HOOK*")
     (("SB-EXT" "EXT")
      "*INVOKE-DEBUGGER-HOOK*" "DISABLE-DEBUGGER" "ENABLE-DEBUGGER" "*ED-FUNCTIONS*"
      "*MODULE-PROVIDER-FUNCTIONS*" "*AFTER-GC-HOOKS*" "*STACK-ALLOCATE-DYNAMIC-EXTENT*")
     (("UIOP") "CALL-WITH-FATAL-CONDITION-HANDLER")))
  "For each reason: lists of packages (a star ends a prefix) and of names in them. :ALL stands for
every symbol whose home is there, except those that follow. A name with :SOFT is also an everyday
word.")

(define-table +internal-packages+
  (if (string= (lisp-implementation-type) "SBCL")
      '("SB-IMPL" "SB-INT" "SB-KERNEL" "SB-VM" "SB-C" "SB-SYS" "SB-DI" "SB-FASL" "SB-EVAL" "SB-ASSEM"
        "SB-FORMAT" "SB-BIGNUM" "SB-REGALLOC" "SB-LOOP" "SB-PCL" "SB-WALKER" "SB-THREAD")
      '("SYSTEM" "SYS" "SI" "COMPILER" "C"))
  "Packages of the implementation that programs have no business in.")

(define-table +harmless-internals+
  '("DYNAMIC-USAGE" "FUNCTION-ARGLIST" "%FUN-LAMBDA-LIST" "%FUN-NAME" "CLASS-SLOTS" "QUASIQUOTE"
    "CLASSOID-NAME" "NAMED-LAMBDA" "SIMPLE-FUN-P" "FUNCALLABLE-INSTANCE-P" "MEMORY-USAGE"
    "INSTANCE-USAGE" "INSTANCE-SIZE" "LIST-ALLOCATED-OBJECTS" "INSTANCE-WIDETAG" "TYPE-SPECIFIER" "WITH-FLOAT-TRAPS-MASKED" "WITH-PINNED-OBJECTS" "SINGLE-FLOAT-BITS"
    "DOUBLE-FLOAT-BITS" "DOUBLE-FLOAT-HIGH-BITS" "DOUBLE-FLOAT-LOW-BITS" "MAKE-SINGLE-FLOAT"
    "MAKE-DOUBLE-FLOAT" "GET-LISP-OBJ-ADDRESS" "WIDETAG-OF" "LOWTAG-OF" "N-WORD-BITS" "N-WORD-BYTES"
    "CLOSUREP" "%CLOSURE-FUN" "%SIMPLE-FUN-NAME" "%SIMPLE-FUN-TYPE" "WITH-UNIQUE-NAMES" "TOP-FRAME"
    "FRAME-DOWN" "FRAME-DEBUG-FUN" "DEBUG-FUN-NAME" "DEBUG-FUN-LAMBDA-LIST" "FUN-DEBUG-FUN")
  "Names in those packages that only look.")

(defvar *danger-symbols* nil
  "During an assessment: from a symbol to its reason and whether it is also an everyday word; :LATER
until first needed.")

(defvar *danger-packages* nil
  "During an assessment: from a package to its reason and the harmless names in it.")

(defun packages-like (pattern)
  (let ((star (position #\* pattern)))
    (if star
        (remove-if-not (lambda (package) (prefixed-p (subseq pattern 0 star) (package-name package)))
                       (list-all-packages))
        (let ((package (find-package pattern)))
          (and package (list package))))))

(defun enter-danger (package name reason)
  (multiple-value-bind (word soft) (if (consp name) (values (first name) t) (values name nil))
    (multiple-value-bind (symbol status) (find-symbol word package)
      (when (and status (not (eq status :inherited)))
        (setf (gethash symbol *danger-symbols*) (cons reason soft))))))

(defun enter-dangers ()
  (loop for (reason . groups) in +danger-table+
        do (loop for (patterns . names) in groups
                 do (dolist (package (remove-duplicates (mapcan #'packages-like patterns)))
                      (if (eq (first names) :all)
                          (setf (gethash package *danger-packages*) (cons reason (rest names)))
                          (dolist (name names) (enter-danger package name reason)))))))

(defun danger-symbols ()
  (when (eq *danger-symbols* :later)
    (setf *danger-symbols* (make-hash-table :test 'eq)
          *danger-packages* (make-hash-table :test 'eq))
    (enter-dangers))
  *danger-symbols*)

(defun package-danger (package)
  "A list of the reason why PACKAGE is dangerous and the harmless names in it, or NIL."
  (danger-symbols)
  (values (gethash package *danger-packages*)))

(defun danger (symbol)
  "The reason why SYMBOL is dangerous, or NIL; and whether it is also an everyday word."
  (let ((entry (gethash symbol (danger-symbols))))
    (if entry
        (values (car entry) (cdr entry))
        (let ((entry (and (symbol-package symbol)
                          (package-danger (symbol-package symbol)))))
          (if (and entry (not (member (symbol-name symbol) (rest entry) :test #'string=)))
              (values (first entry) nil)
              nil)))))

(defun exported-by-p (symbol package-name)
  (let ((package (find-package package-name)))
    (and package
         (multiple-value-bind (found status) (find-symbol (symbol-name symbol) package)
           (and (eq found symbol) (eq status :external))))))

(defun internal-symbol-p (symbol)
  "Whether SYMBOL is internal to the implementation and not meant for programs."
  (let ((package (symbol-package symbol)))
    (and package
         (member (package-name package) +internal-packages+ :test #'string=)
         (not (member (symbol-name symbol) +harmless-internals+ :test #'string=))
         (notany (lambda (name) (exported-by-p symbol name))
                 '("COMMON-LISP" "SB-EXT" "SB-MOP" "SB-GRAY" "SB-CLTL2" "SB-THREAD" "EXT" "MOP"
                   "CLOS")))))

;;; What may not be redefined

(defun locked-p (package)
  (let ((locked (or (optional-function "SB-EXT" "PACKAGE-LOCKED-P")
                    (optional-function "EXT" "PACKAGE-LOCKED-P")
                    (optional-function "EXT" "PACKAGE-LOCK"))))
    (and locked (ignore-errors (funcall locked package)))))

(defvar *made-packages* '()
  "Packages that forms of chats have made, each with its chat, as Emacs names it.")

(lasts-for-the-process '*made-packages*)

(defvar *assessed-for* nil
  "While code is assessed or run: its chat, as Emacs names it, or NIL.")

(defun made-for-chat-p (package)
  "Whether the chat whose code is assessed made PACKAGE, perhaps under the name of a library."
  (let ((made (assoc package *made-packages*)))
    (and made *assessed-for* (equal (rest made) *assessed-for*))))

(defun defined-p (name)
  "Whether NAME, a symbol or (setf symbol), has a meaning that a definition would replace."
  (or (ignore-errors (fboundp name))
      (and (symbolp name)
           (or (boundp name) (find-class name nil)))))

(defun others-definition-p (name package)
  "Whether NAME in PACKAGE is the client's or ours, or defined by a library that reaches outside."
  (let ((reason (first (package-danger package))))
    (and reason
         (or (member reason '("reaches into Emacs" "changes agent-q's own half in the image")
                     :test #'string=)
             (and (defined-p name)
                  (not (made-for-chat-p package)))))))

(defun protected-p (name)
  "Whether NAME, a symbol or (setf symbol), belongs to the implementation, the connection or us."
  (let* ((symbol (if (consp name) (second name) name))
         (package (and symbol (symbolp symbol) (symbol-package symbol))))
    (and package
         (or (eq package (find-package "COMMON-LISP"))
             (others-definition-p name package)
             (member (package-name package) +internal-packages+ :test #'string=)
             (locked-p package)))))
