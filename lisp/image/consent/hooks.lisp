;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The variables of SBCL and of the client by which code is called later: what they are, and putting
;;; those back that a call has changed and may not.

(cl:in-package "AGENT-Q-IMAGE")

(defun hook-names ()
  "Lists of a package and of the names of the variables in it by which code is called later."
  '(("SB-EXT" "*EXIT-HOOKS*" "*INIT-HOOKS*" "*SAVE-HOOKS*" "*AFTER-GC-HOOKS*"
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
     "*PRINT-PPRINT-DISPATCH*")
    ;; The client's threads call them, and this one does after the call.
    ("SWANK" "*EVENT-HOOK*" "*PRE-REPLY-HOOK*" "*NEW-CONNECTION-HOOK*"
     "*CONNECTION-CLOSED-HOOK*")
    ("SLYNK" "*PRE-REPLY-HOOK*" "*NEW-CONNECTION-HOOK*" "*CONNECTION-CLOSED-HOOK*"
     "*EVAL-FOR-EMACS-WRAPPERS*")))

(defun hook-values ()
  "The variables by which code is called later, each with its value, a copy of that when it is a list,
and whether all threads have it."
  (loop for (package . names) in (hook-names)
        nconc (loop for name in (and (find-package package) names)
                    for symbol = (find-symbol name package)
                    when (and symbol (boundp symbol))
                      collect (let ((value (symbol-value symbol)))
                                (list symbol value (own-list value) (of-all-threads-p symbol value))))))

(defun of-all-threads-p (symbol value)
  "Whether VALUE, which SYMBOL has here, is not one that this thread has bound."
  (eq value (directly "SB-EXT" "SYMBOL-GLOBAL-VALUE" symbol)))

(defun own-list (value)
  "VALUE, when it is a list, in conses of our own: code can change those of others."
  (if (consp value) (copy-list value) value))

(defun settle-hooks (before allowed)
  "Put those hooks back that aren't as in BEFORE, of HOOK-VALUES, unless the function ALLOWED lets one
be. Returns what is as it is to be now, in the same way."
  (loop for entry in before
        for (symbol value copy shared) = entry
        for now = (symbol-value symbol)
        collect (cond ((and (eq value now) (equal copy now)) entry)
                      ((or (quiet-setting-p symbol now)
                           (funcall allowed (effect-of-taking-over (symbol-text symbol))))
                       (list symbol now (own-list now) shared))
                      (t (let ((old (if (equal value copy) value copy)))
                           (setf (symbol-value symbol) old)
                           (list symbol old (own-list old) shared))))))

(defun quiet-setting-p (symbol value)
  "Whether VALUE makes SYMBOL, one of HOOK-VALUES, call nothing: warnings may be muffled by classes of
the implementation's."
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
  "Whether SYMBOL is a variable by which code is called when something gets a definition."
  (member symbol
          '("*SETF-FDEFINITION-HOOK*" "*SETF-MACRO-FUNCTION-HOOK*"
            "*SETF-COMPILER-MACRO-FUNCTION-HOOK*" "*DEFSTRUCT-HOOKS*" "*DEFINE-CONDITION-HOOKS*")
          :test #'string=))
