;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the hits of an assessment are about, in the words of the watch: when the user says yes to
;;; them, the call need not ask about the same again when it happens. What is not clear here is
;;; asked about then.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *operator-effects*
  '(("delete-file" "DELETE-FILE" "DELETE-FILE-IF-EXISTS" "DELETE-DIRECTORY" "DELETE-DIRECTORY-TREE"
     "DELETE-EMPTY-DIRECTORY" "UNLINK" "RMDIR" "DELETE-DIR")
    ("rename-file" "RENAME-FILE" "RENAME-FILE-OVERWRITING-TARGET" "RENAME")
    ("make-directory" "ENSURE-DIRECTORIES-EXIST" "ENSURE-ALL-DIRECTORIES-EXIST" "MKDIR" "MAKE-DIR"
     "CREATE-DIRECTORY")
    ("write-file" "OPEN" "DRIBBLE" "COPY-FILE" "CONCATENATE-FILES" "WITH-OUTPUT-FILE"
     "CALL-WITH-OUTPUT-FILE" "WRITE-STRING-INTO-FILE" "WRITE-BYTE-VECTOR-INTO-FILE"
     "WITH-OUTPUT-TO-FILE" "COMPILE-FILE" "SYMLINK" "LINK" "TRUNCATE")
    ("change-attributes" "CHMOD" "CHOWN" "UTIME" "UTIMES" "SET-FILE-MODE")
    ("run-program" "RUN-PROGRAM" "LAUNCH-PROGRAM" "RUN-SHELL-COMMAND" "SYSTEM" "FORK")
    ("load-file" "LOAD" "REQUIRE" "LOAD-SYSTEM" "LOAD-SYSTEMS" "LOAD-ASD" "OPERATE" "OOS" "MAKE"
     "COMPILE-SYSTEM" "TEST-SYSTEM" "REQUIRE-SYSTEM" "QUICKLOAD")
    ("exit-lisp" "EXIT" "QUIT" "DIE" "BYE")
    ("save-image" "SAVE-LISP-AND-DIE" "DUMP-IMAGE")
    ("stop-thread" "TERMINATE-THREAD" "DESTROY-THREAD" "INTERRUPT-THREAD" "ABORT-THREAD" "KILL"
     "PROCESS-KILL")
    ("set-environment" "SETENV" "UNSETENV" "PUTENV" "CHDIR" "WITH-CURRENT-DIRECTORY"))
  "From a kind of effect to the names of the operators that have it, whatever library they are of.")

(defparameter *reason-effects*
  '(("runs programs" "run-program")
    ("uses the network" "connect" "listen")
    ("reaches into Emacs" "write-to-client")
    ("changes agent-q's own half in the image" "redefine")
    ("stops or interrupts threads" "stop-thread")
    ("unlocks packages" "redefine")
    ("redefines what is not the program's" "redefine")
    ("calls foreign code" "foreign-code")
    ("loads or compiles files" "load-file")
    ("takes over the debugger or the evaluator" "take-over")
    ("changes the environment of the programs that it runs" "set-environment"))
  "From a reason to the kinds of effects that it is about whatever the operator.")

(defvar *hit-effects* (list '())
  "While an assessment runs: a list of one element, what its hits are about.")

(defun literal-argument (form)
  "A list of what FORM, an argument, is when it says so itself; NIL otherwise."
  (cond ((typep form '(or string pathname number character keyword null (eql t))) (list form))
        ((quoted-p form) (list (second form)))
        ((and (consp form) (eq (first form) 'list))
         (let ((parts (mapcar #'literal-argument (rest form))))
           (and (every #'identity parts) (list (mapcar #'first parts)))))))

(defun literal-text (kind operator arguments)
  "What a call of OPERATOR with ARGUMENTS, which are literal, is about; NIL when that makes no
difference, as at the end of the Lisp."
  (let ((first (first arguments)))
    (cond ((member kind '("exit-lisp" "save-image" "take-over" "redefine") :test #'equal) nil)
          ((and (equal kind "run-program") (consp first)) (format nil "~{~A~^ ~}" first))
          ((and (equal kind "run-program") (string= operator "RUN-PROGRAM") (consp (second arguments)))
           (format nil "~A~{ ~A~}" first (second arguments)))
          ((stringp first) first)
          ((pathnamep first) (namestring first))
          ((and first (symbolp first)) (string-downcase (symbol-name first))))))

(defun effect-text (kind form)
  "The text that FORM, a hit's, says its effect is about; NIL when nobody knows before it runs."
  (let ((arguments (and (proper-list-p form) (mapcar #'literal-argument (rest form)))))
    (and arguments
         (every #'identity arguments)
         (symbolp (first form))
         (literal-text kind (symbol-name (first form)) (mapcar #'first arguments)))))

(defun kinds-of-hit (reason what)
  (or (and what (symbolp what)
           (loop for (kind . names) in *operator-effects*
                 when (member (symbol-name what) names :test #'string=)
                   return (list kind)))
      (rest (assoc reason *reason-effects* :test #'string=))))

(defun note-hit-effects (kind reason what form)
  "Note what a hit, which has these arguments, is about."
  (unless (eq kind :expander)
    (dolist (effect (kinds-of-hit reason what))
      (let ((text (and what (symbolp what) (consp form) (eq (first form) what)
                       (effect-text effect form))))
        (pushnew (if text (list effect text) (list effect)) (first *hit-effects*)
                 :test #'equal)))))

;;; Expanding where nothing is allowed

(defun call-harmlessly (form function)
  "Call FUNCTION, which expands FORM. What its macro tries meanwhile doesn't happen, and is a hit."
  (call-trying-nothing
   (lambda () (call-staying-in form function))
   (lambda (words)
     (hit :expander (format nil "has a macro that tries to ~A while it is expanded" words)
          (first form) form))))

(defun call-trying-nothing (function note)
  "Call FUNCTION where nothing is allowed, if there is a watch; NOTE is told what it tries."
  (let ((trying (optional-function "AGENT-Q-IMAGE" "CALL-TRYING")))
    (if trying (funcall trying function note) (funcall function))))

(defun call-staying-in (form function)
  "Call FUNCTION, which expands FORM. Its macro can't end the assessment with a throw, nor reach what
was found until now."
  (let ((end (list :left)))
    (multiple-value-bind (result problem)
        (block expanding
          (unwind-protect
               (multiple-value-prog1
                   (let ((*findings* nil) (*hit-effects* nil) (*kept* nil) (*usable* nil) (*look* nil)
                         (*danger-symbols* nil) (*danger-packages* nil) (*symbols-before* nil))
                     (handler-case (values (funcall function))
                       (serious-condition (condition) (values nil condition))))
                 (setf (first end) :returned))
            (unless (or (eq (first end) :returned) (stop-requested-p))
              (return-from expanding (values nil :left)))))
      (cond ((eq problem :left)
             (beyond-assessment (format nil "the macro ~A leaves its expansion" (first form)) form
                                :expander))
            (problem (error problem))
            (t result)))))
