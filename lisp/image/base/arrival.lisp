;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What happens to a module once its text has been evaluated. If the implementation has an
;;; interpreter as well as a compiler, modules arrive interpreted, which takes a fiftieth of the
;;; time, and are compiled in the background while already in use.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *compiling* nil
  "True while a thread compiles what arrived.")

(defun interpreted-p (function)
  "Whether FUNCTION is interpreted and quick to compile. Compiling is slow if it runs a C compiler."
  (let ((type (and (find-package "SB-EVAL") (find-symbol "INTERPRETED-FUNCTION" "SB-EVAL"))))
    (if type
        (typep function type)
        (and (implementation-p "CLISP" "ABCL") (not (compiled-function-p function))))))

(defun arrives-interpreted-p ()
  "Whether code evaluated here is interpreted, and quick to compile."
  (or (find-package "SB-EVAL") (implementation-p "CLISP" "ABCL")))

(defun interpreted-names ()
  (let ((package (find-package "AGENT-Q-IMAGE")) (names '()))
    (when package
      (do-symbols (symbol package names)
        (when (and (eq (symbol-package symbol) package)
                   (fboundp symbol)
                   (not (macro-function symbol))
                   (interpreted-p (symbol-function symbol)))
          (push symbol names))))))

(defun call-plainly (function)
  "Call FUNCTION, which may expand macros and compile, without the program's hooks for that. A call
in another thread may have set one."
  (let* ((*macroexpand-hook* #'funcall)
         ;; SBCL's compiler interns names of its own, which don't belong in the program's packages.
         (*package* (find-package "AGENT-Q-IMAGE"))
         (*break-on-signals* nil)
         (package (find-package "SB-C"))
         (hook (and package (find-symbol "*COMPILE-COMPONENT-HOOK*" package))))
    (progv (and hook (list hook)) '(nil)
      (funcall function))))

(defun compiled-functions (names)
  "Compile the interpreted ones of the functions NAMES. Returns lists of a name, its function and
the compiled function."
  (loop for name in names
        for function = (symbol-function name)
        for compiled = (and (interpreted-p function)
                            (handler-bind ((warning #'muffle-warning))
                              (ignore-errors
                               (call-plainly (lambda () (compile nil function))))))
        when compiled
          collect (list name function compiled)))

(defun use-compiled (entries)
  "Install the compiled functions of ENTRIES, from COMPILED-FUNCTIONS, unless a name was redefined
meanwhile."
  (loop for (name function compiled) in entries
        do (when (eq function (symbol-function name))
             (setf (symbol-function name) compiled))))

(defun compile-function (name)
  "Compile the function NAME, unless it is redefined meanwhile."
  (if (implementation-p "CLISP")
      ;; CLISP has no threads, and functions would lose their names in the other branch.
      (compile name)
      (use-compiled (compiled-functions (list name)))))

(defun compiled-apart-p (names)
  "Have the functions NAMES compiled outside of this call, which can't change them, if one of them
is interpreted. True if that was done."
  (let ((apart (optional-function "AGENT-Q-IMAGE" "COMPILE-APART")))
    (and apart
         (some (lambda (name) (interpreted-p (symbol-function name))) names)
         (funcall apart names))))

(defun compile-now (&rest names)
  "Compile the interpreted functions among NAMES; call before a hot loop."
  (dolist (name (if (compiled-apart-p names) '() names))
    (when (interpreted-p (symbol-function name))
      (handler-bind ((warning #'muffle-warning))
        (ignore-errors (compile-function name))))))

(defun uncompiled (failed)
  "The functions to compile next. If there are none, the next arrival has to start a thread."
  (call-with-lock (lambda ()
                    (or (set-difference (interpreted-names) failed)
                        (setf *compiling* nil)))))

(defun compile-all ()
  "Compile everything that is interpreted, silently."
  (let* ((nowhere (make-broadcast-stream))
         (*standard-output* nowhere) (*error-output* nowhere) (*trace-output* nowhere)
         ;; A call in another thread may have changed it.
         (*macroexpand-hook* #'funcall)
         (failed '()) (done nil))
    (unwind-protect
         (handler-bind ((warning #'muffle-warning)
                        ;; Our package may be deleted meanwhile.
                        (serious-condition (lambda (condition)
                                             (declare (ignore condition))
                                             (return-from compile-all nil))))
           ;; One that failed may have been in use just then, so it is tried once more.
           (loop for names = (uncompiled (remove-if (lambda (name) (< (count name failed) 2)) failed))
                 while names
                 do (dolist (name names)
                      (ignore-errors (compile-function name))
                      (when (ignore-errors (interpreted-p (symbol-function name)))
                        (push name failed))))
           (setf done t))
      ;; A program may kill this thread; the next arrival must still be compiled.
      (unless done (setf *compiling* nil)))))

(defun receive (client module version text)
  "Load TEXT, the source of MODULE at VERSION, into this image, without showing warnings or compiler
output to the user."
  (progv (and (find-package "SB-EVAL") (list (find-symbol "*EVALUATOR-MODE*" "SB-EXT")))
      '(:interpret)
    (let* ((*package* (find-package "COMMON-LISP-USER"))
           (*readtable* (copy-readtable nil))
           (*read-base* 10)
           (*macroexpand-hook* #'funcall)
           (nowhere (make-broadcast-stream))
           (*standard-output* nowhere)
           (*error-output* nowhere)
           (*trace-output* nowhere))
      (handler-bind ((warning #'muffle-warning))
        (with-compilation-unit ()
          (with-input-from-string (stream text)
            (loop for form = (read stream nil stream)
                  until (eq form stream)
                  do (eval form)))))))
  (arrived client module version))

(defun note-version (module version)
  "Note that the whole of MODULE has been loaded, at VERSION. In a compiled file this comes last."
  (setf *versions* (acons module version
                          (remove module *versions* :key #'car :test #'string=))))

(defun arrived (client module version)
  "Note that MODULE has been loaded at VERSION, and start compiling it."
  (let ((*client* client))
    (note-version module version)
    (when (call-with-lock (lambda ()
                            (and (not *compiling*)
                                 ;; On ABCL, busy threads take each other's interrupts.
                                 (not (implementation-p "ABCL"))
                                 (arrives-interpreted-p)
                                 (setf *compiling* t))))
      (if (member :sb-thread *features*)
          (backend "SPAWN" (lambda ()
                             ;; Let the call that brought the module go first, and others that come
                             ;; with it.
                             (sleep 0.3)
                             (let ((*client* client)) (compile-all)))
                   :name "agent-q compiles itself")
          (compile-all)))
    version))
