;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the hits of an assessment are about, as effects: once the user has agreed to them, the call
;;; need not ask again when they happen. File names are absolute, as of now. What can't be told here
;;; is asked about, by name, when it happens.

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
  "From a kind of effect to the names of the operators that have it, whatever library they are from.")

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
  "From a reason to the kinds of effects that it is about, whatever the operator.")

(defvar *hit-effects* (list '())
  "During an assessment: a list of one element, the effects of its hits.")

(defun literal-argument (form)
  "A list of the certain value of the argument FORM: a literal, or known from the LET around it or
from variables and constants of the image; NIL otherwise."
  (let ((bound (and form (symbolp form) (assoc form (scope-forms *scope*)))))
    (cond ((typep form '(or string pathname number character keyword null (eql t))) (list form))
          ((quoted-p form) (list (second form)))
          (bound (and (not (symbolp (cdr bound))) (literal-argument (cdr bound))))
          ((and (consp form) (eq (first form) 'list) (proper-list-p form))
           (let ((parts (mapcar #'literal-argument (rest form))))
             (and (every #'identity parts) (list (mapcar #'first parts)))))
          (t (multiple-value-bind (value known) (known-value form *scope*)
               (and known (typep value '(or string pathname list)) (list value)))))))

(define-table +second-argument+
  '("COPY-FILE" "SYMLINK" "LINK" "CONCATENATE-FILES" "COMBINE-FASLS" "WRITE-STRING-INTO-FILE"
    "WRITE-BYTE-VECTOR-INTO-FILE")
  "Operators that write the file in their second argument.")

(define-table +both-arguments+ '("RENAME-FILE" "RENAME" "RENAME-FILE-OVERWRITING-TARGET" "SYMLINK" "LINK")
  "Operators on two files, of which the second is shown, too.")

(define-table +named-in-a-list+ '("WITH-OPEN-FILE" "WITH-OUTPUT-FILE" "WITH-OUTPUT-TO-FILE")
  "Macros whose first argument is a list of a variable and a file.")

(defun named-p (operator names)
  (member operator names :test #'string=))

(defun file-designator-text (designator)
  "The absolute name of the file DESIGNATOR, as of now, or NIL."
  (and (typep designator '(or string pathname))
       (native-text designator)))

(defun object-texts (kind operator forms)
  "The things on which OPERATOR, with the arguments FORMS, has an effect of KIND: lists of a text
and perhaps one more."
  (let* ((forms (if (and (named-p operator +named-in-a-list+) (proper-list-p (first forms)))
                    (rest (first forms))
                    forms))
         (form (nth (if (named-p operator +second-argument+) 1 0) forms))
         (literal (literal-argument form))
         (object (first literal)))
    (cond ((or (null literal) (string= operator "COMPILE-FILE")) '())
          ((string= kind "run-program") (program-texts operator object (rest forms)))
          ((string= kind "load-file") (mapcar #'loaded-texts (if (listp object) object (list object))))
          ((string= kind "rename-file") (renamed-texts operator object (literal-argument (second forms))))
          ((named-p operator +both-arguments+)
           (let ((other (literal-argument (first forms))))
             (and other (list (list (file-designator-text object) (file-designator-text (first other)))))))
          ((file-kind-name-p kind)
           (loop for name in (if (listp object) object (list object))
                 collect (list* (file-designator-text name)
                                (and (or (string= operator "DELETE-DIRECTORY-TREE")
                                         (first (literal-argument (option-of :recursive forms))))
                                     (list "recursive")))))
          ((stringp object) (list (list object)))
          ((and object (symbolp object)) (list (list (string-downcase (symbol-name object))))))))

(defun program-texts (operator program more)
  "The command line that runs PROGRAM, with its arguments from the first of MORE if OPERATOR takes
them there, and with other options as far as MORE tells."
  (let* ((form (first more))
         (direct (and (string= operator "RUN-PROGRAM") form (not (keywordp form))))
         (arguments (and direct (literal-argument form)))
         (words (cond (direct (and arguments (listp (first arguments)) (not (listp program))
                                   (cons program (first arguments))))
                      ((listp program) program)
                      (t (list "/bin/sh" "-c" program)))))
    (and words
         (list (list (exact-line (cons (text-of-name (first words))
                                       (mapcar #'princ-to-string (rest words)))
                                 (literal-options more)))))))

(defun literal-options (forms)
  "The literal options for a program in FORMS."
  (loop for keyword in '(:directory :environment :env :input)
        for literal = (and (member keyword forms) (literal-argument (option-of keyword forms)))
        when literal
          append (list keyword (first literal))))

(defun loaded-texts (object)
  (if (and object (symbolp object))
      (list (string-downcase (symbol-name object)))
      (list (if (typep object '(or string pathname)) (file-designator-text (loaded-name object)) nil)
            (and (stringp object) (string-downcase object)))))

(defun renamed-texts (operator object new)
  (and new
       (typep object '(or string pathname))
       (typep (first new) '(or string pathname))
       (list (list (file-designator-text object)
                   (file-designator-text (if (string= operator "RENAME")
                                  (first new)
                                  (ignore-errors (merge-pathnames (first new) object))))))))

(defun kinds-of-hit (reason what)
  (or (and what (symbolp what)
           (loop for (kind . names) in *operator-effects*
                 when (member (symbol-name what) names :test #'string=)
                   return (list kind)))
      (rest (assoc reason *reason-effects* :test #'string=))))

(defun texts-of-hit (kind what form)
  "The things that a hit by WHAT in FORM is about, as OBJECT-TEXTS; none if that is only known at
run time."
  (cond ((not (and what (symbolp what))) '())
        ((and (consp form) (symbolp (first form)) (proper-list-p form)
              (or (eq (first form) what)
                  (and (eq what 'open) (named-p (symbol-name (first form)) +named-in-a-list+))))
         (object-texts kind (symbol-name (first form)) (rest form)))
        ((named-p kind '("redefine" "take-over")) (list (list (symbol-text what))))))

(defun note-hit-effects (kind reason what form)
  "Note the effects of a hit with these arguments."
  (unless (eq kind :expander)
    (when (and what (symbolp what) (unmet-reason what))
      (pushnew (list "run-form" (symbol-text what)) (first *hit-effects*) :test #'equal))
    (dolist (effect (kinds-of-hit reason what))
      (if (string= effect "exit-lisp")
          (pushnew (list effect) (first *hit-effects*) :test #'equal)
          (loop for texts in (texts-of-hit effect what form)
                when (first texts)
                  do (pushnew (cons effect texts) (first *hit-effects*) :test #'equal))))))

;;; Expanding where nothing is allowed

(defun call-harmlessly (form function)
  "Call FUNCTION, which expands FORM. Effects that its macro tries don't happen, but are hits."
  (call-looking
   (lambda () (call-staying-in form function))
   (lambda (words)
     (hit :expander (format nil "has a macro that tries to ~A while it is expanded" words)
          (first form) form))))

(defun call-staying-in (form function)
  "Call FUNCTION, which expands FORM. The macro can't end the assessment by a throw, nor see what
has been found so far."
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
