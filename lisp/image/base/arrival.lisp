;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What becomes of a module once its text was evaluated. Where the implementation has an
;;; interpreter beside its compiler, modules arrive interpreted, which takes a fiftieth of the
;;; time, and are compiled while they are in use already.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *compiling* nil
  "Whether a thread compiles what arrived.")

(defun interpreted-p (function)
  "Whether FUNCTION is interpreted and quick to compile, which it is not where C compilers are used."
  (let ((type (and (find-package "SB-EVAL") (find-symbol "INTERPRETED-FUNCTION" "SB-EVAL"))))
    (if type
        (typep function type)
        (and (implementation-p "CLISP" "ABCL") (not (compiled-function-p function))))))

(defun arrives-interpreted-p ()
  "Whether what is evaluated here is interpreted, and quick to compile."
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
  "Call FUNCTION, which may expand macros and compile, where the program has no hook for that. It may
be a call that runs meanwhile which has set one."
  (let* ((*macroexpand-hook* #'funcall)
         ;; SBCL's compiler interns names of its own, which have no place among the program's.
         (*package* (find-package "AGENT-Q-IMAGE"))
         (*break-on-signals* nil)
         (package (find-package "SB-C"))
         (hook (and package (find-symbol "*COMPILE-COMPONENT-HOOK*" package))))
    (progv (and hook (list hook)) '(nil)
      (funcall function))))

(defun compiled-functions (names)
  "Of the functions NAMES those that are interpreted: lists of a name, what it means and that compiled."
  (loop for name in names
        for function = (symbol-function name)
        for compiled = (and (interpreted-p function)
                            (handler-bind ((warning #'muffle-warning))
                              (ignore-errors
                               (call-plainly (lambda () (compile nil function))))))
        when compiled
          collect (list name function compiled)))

(defun use-compiled (entries)
  "Let names mean what was compiled, by ENTRIES of COMPILED-FUNCTIONS, unless they mean another by now."
  (loop for (name function compiled) in entries
        do (when (eq function (symbol-function name))
             (setf (symbol-function name) compiled))))

(defun compile-function (name)
  "Compile the function NAME, unless it is another once that is done."
  (if (implementation-p "CLISP")
      ;; It has no threads, and functions lose their names otherwise.
      (compile name)
      (use-compiled (compiled-functions (list name)))))

(defun compiled-apart-p (names)
  "Whether the functions NAMES were compiled elsewhere: in a call they can't be changed."
  (let ((apart (optional-function "AGENT-Q-IMAGE" "COMPILE-APART")))
    (and apart
         (some (lambda (name) (interpreted-p (symbol-function name))) names)
         (funcall apart names))))

(defun compile-now (&rest names)
  "Compile those of the functions NAMES that are not yet: what calls this is about to use them much."
  (dolist (name (if (compiled-apart-p names) '() names))
    (when (interpreted-p (symbol-function name))
      (handler-bind ((warning #'muffle-warning))
        (ignore-errors (compile-function name))))))

(defun uncompiled (tried)
  "The functions to compile next; when there are none, the next arrival has to start a thread."
  (call-with-lock (lambda ()
                    (or (set-difference (interpreted-names) tried)
                        (setf *compiling* nil)))))

(defun compile-all ()
  "Compile what is interpreted, without a word to anybody."
  (let* ((nowhere (make-broadcast-stream))
         (*standard-output* nowhere) (*error-output* nowhere) (*trace-output* nowhere)
         ;; A call that runs meanwhile may have changed it.
         (*macroexpand-hook* #'funcall)
         (tried '()) (done nil))
    (unwind-protect
         (handler-bind ((warning #'muffle-warning)
                        ;; Somebody may remove our package meanwhile.
                        (serious-condition (lambda (condition)
                                             (declare (ignore condition))
                                             (return-from compile-all nil))))
           (loop for names = (uncompiled tried)
                 while names
                 do (dolist (name names)
                      (push name tried)
                      (ignore-errors (compile-function name))))
           (setf done t))
      ;; A program may end this thread; what arrives next is compiled all the same.
      (unless done (setf *compiling* nil)))))

(defun receive (client module version text)
  "Make TEXT, the source of MODULE called VERSION, part of this image.
Warnings, and what compilers print, are kept from the user."
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

(defun arrived (client module version)
  "Note that the text of MODULE called VERSION is there, and make it quick."
  (let ((*client* client))
    (setf *versions* (acons module version
                            (remove module *versions* :key #'car :test #'string=)))
    (when (call-with-lock (lambda ()
                            (and (not *compiling*)
                                 ;; ABCL's threads take each other's interrupts while they are busy.
                                 (not (implementation-p "ABCL"))
                                 (arrives-interpreted-p)
                                 (setf *compiling* t))))
      (if (member :sb-thread *features*)
          (backend "SPAWN" (lambda ()
                             ;; The call that brought the module goes first, and others with it.
                             (sleep 0.3)
                             (let ((*client* client)) (compile-all)))
                   :name "agent-q compiles itself")
          (compile-all)))
    version))
