;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The variables of SBCL and of the client through which code is called later: which they are, and
;;; restoring those that a call has changed and must not.

(cl:in-package "AGENT-Q-IMAGE")

(defun global-names ()
  "Names of the standard variables that a call may set where its thread binds them; their global
values, which new threads have, are everybody's."
  '("*READTABLE*" "*PACKAGE*" "*STANDARD-INPUT*" "*STANDARD-OUTPUT*" "*ERROR-OUTPUT*"
    "*TRACE-OUTPUT*" "*TERMINAL-IO*" "*QUERY-IO*" "*DEBUG-IO*"))

(defun hook-names ()
  "Lists of a package and the names of the variables in it through which code is called later."
  `(("SB-EXT" "*EXIT-HOOKS*" "*INIT-HOOKS*" "*SAVE-HOOKS*" "*AFTER-GC-HOOKS*"
     "*INVOKE-DEBUGGER-HOOK*" "*MODULE-PROVIDER-FUNCTIONS*" "*ED-FUNCTIONS*"
     "*STEPPER-HOOK*" "*MUFFLED-WARNINGS*" "*TRACE-REPORT-DEFAULT*"
     "*SYSINIT-PATHNAME-FUNCTION*" "*USERINIT-PATHNAME-FUNCTION*")
    ("SB-INT" "*SETF-FDEFINITION-HOOK*" "*SETF-MACRO-FUNCTION-HOOK*"
     "*SETF-COMPILER-MACRO-FUNCTION-HOOK*" "*REPL-PROMPT-FUN*" "*REPL-READ-FORM-FUN*")
    ("SB-KERNEL" "*DEFSTRUCT-HOOKS*" "*DEFINE-CONDITION-HOOKS*"
     "**INITIAL-HANDLER-CLUSTERS**")
    ("SB-IMPL" "*REPL-FUN-GENERATOR*" "*INSPECT-FUN*" "*STANDARD-READTABLE*"
     "*STDIN*" "*STDOUT*" "*STDERR*")
    ("SB-SYS" "*EXIT-ERROR-HANDLER*" "*PERIODIC-POLLING-FUNCTION*" "*TTY*")
    ("SB-DEBUG" "*DEBUG-LOOP-FUN*") ("SB-C" "*COMPILE-COMPONENT-HOOK*")
    ("SB-PRETTY" "*STANDARD-PPRINT-DISPATCH-TABLE*")
    ("COMMON-LISP" "*DEBUGGER-HOOK*" "*MACROEXPAND-HOOK*" "*BREAK-ON-SIGNALS*"
     "*PRINT-PPRINT-DISPATCH*" ,@(global-names))
    ;; The client's threads call them, and this one does after the call.
    ("SWANK" "*EVENT-HOOK*" "*PRE-REPLY-HOOK*" "*NEW-CONNECTION-HOOK*"
     "*CONNECTION-CLOSED-HOOK*")
    ("SLYNK" "*PRE-REPLY-HOOK*" "*NEW-CONNECTION-HOOK*" "*CONNECTION-CLOSED-HOOK*"
     "*EVAL-FOR-EMACS-WRAPPERS*")))

(defun only-global-p (symbol)
  "Whether only the global value of SYMBOL, a hook, matters."
  (member symbol (global-names) :test #'string=))

(defun hook-values ()
  "The variables through which code is called later. Each comes with its value, a copy of that if it
is a list, and whether all threads share it."
  (loop for (package . names) in (hook-names)
        nconc (loop for name in (and (find-package package) names)
                    for symbol = (find-symbol name package)
                    when (and symbol (boundp symbol))
                      collect (let ((value (symbol-value symbol)))
                                (list symbol value (own-list value) (of-all-threads-p symbol value)
                                      ;; This thread may bind it; code can set that all the same.
                                      (global-value symbol))))))

(defun global-value (symbol)
  "A list of the value of SYMBOL that threads have which don't bind it, and a copy."
  (let ((value (directly "SB-EXT" "SYMBOL-GLOBAL-VALUE" symbol)))
    (list value (own-list value))))

(defun settle-global-value (entry allowed)
  "Restore the global value of the variable in ENTRY, of HOOK-VALUES, unless ALLOWED permits its change.
Returns what to expect from now on."
  (destructuring-bind (symbol value copy shared &optional global) entry
    (declare (ignore value copy shared))
    (let ((now (and global (global-value symbol))))
      (cond ((or (null global)
                 (and (eq (first global) (first now)) (equal (second global) (first now))))
             global)
            ((or (quiet-setting-p symbol (first now))
                 (funcall allowed (effect-of-taking-over (symbol-text symbol))))
             now)
            (t (directly "SB-KERNEL" "SET-SYMBOL-GLOBAL-VALUE" symbol
                         (if (equal (first global) (second global)) (first global) (second global)))
               global)))))

(defun of-all-threads-p (symbol value)
  "Whether VALUE, which SYMBOL has here, is its global value, not a binding of this thread."
  (eq value (directly "SB-EXT" "SYMBOL-GLOBAL-VALUE" symbol)))

(defun own-list (value)
  "VALUE, copied if it is a list: code can change the original conses."
  (if (consp value) (copy-list value) value))

(defun settle-hooks (before allowed)
  "Restore the hooks that differ from BEFORE, of HOOK-VALUES, unless the function ALLOWED permits
the change. Returns the values to expect from now on, in the same form."
  (loop for entry in before
        for (symbol value copy shared) = entry
        for global = (settle-global-value entry allowed)
        for now = (symbol-value symbol)
        collect (cond ((or (only-global-p symbol) (and (eq value now) (equal copy now)))
                       (list symbol value copy shared global))
                      ((or (quiet-setting-p symbol now)
                           (funcall allowed (effect-of-taking-over (symbol-text symbol))))
                       (list symbol now (own-list now) shared global))
                      (t (let ((old (if (equal value copy) value copy)))
                           (setf (symbol-value symbol) old)
                           (list symbol old (own-list old) shared global))))))

(defun quiet-setting-p (symbol value)
  "Whether VALUE makes SYMBOL, one of HOOK-VALUES, call nothing: the implementation's own classes
may muffle warnings."
  (flet ((class-name-p (it)
           (and (foreign-symbol-p it) (find-class it nil))))
    (and (string= symbol "*MUFFLED-WARNINGS*")
         (or (null value)
             (class-name-p value)
             (and (consp value)
                  (member (first value) '(and or not) :test #'eq)
                  (ignore-errors (list-length value))
                  (every #'class-name-p (rest value)))))))

(defun defining-hook-p (symbol)
  "Whether SYMBOL is a variable through which code is called when something is defined."
  (member symbol
          '("*SETF-FDEFINITION-HOOK*" "*SETF-MACRO-FUNCTION-HOOK*"
            "*SETF-COMPILER-MACRO-FUNCTION-HOOK*" "*DEFSTRUCT-HOOKS*" "*DEFINE-CONDITION-HOOKS*")
          :test #'string=))
