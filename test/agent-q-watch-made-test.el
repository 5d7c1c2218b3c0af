;;; agent-q-watch-made-test.el --- Code that is made at run time  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What code makes of lists and strings is looked at where it is evaluated or
;; compiled, however it came about.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-test-watch)

(defconst agent-q-watch-made-test--preparation
  "(defun aq-name (name package) (do-symbols (it package) (when (string= it name) (return it))))
   (defun aq-call (function &rest arguments) (apply function arguments))
   (defun aq-read (text) (let ((*read-eval* nil)) (read-from-string text)))
   (defun aq-eval (text) (aq-call (aq-name \"EVAL\" :cl) (aq-read text)))
   (defmacro aq-hiding () (list (aq-name \"INT-SAP\" :sb-sys) 5))
   (defmacro aq-wrapping (&body body) `(progn ,@body))
   (defmacro aq-forging (x)
     (funcall *macroexpand-hook*
              (lambda (form environment) (declare (ignore form environment)) (list (aq-name \"INT-SAP\" :sb-sys) 5))
              '(when t) nil)
     (list (aq-name \"INT-SAP\" :sb-sys) x))
   ;; As ITERATE does: expands all that is in it.
   (defmacro aq-walking (form &environment environment)
     (labels ((walk (it)
                (cond ((atom it) it)
                      ((member (car it) '(quote function)) it)
                      ((and (symbolp (car it)) (macro-function (car it) environment))
                       (walk (macroexpand-1 it environment)))
                      (t (loop for rest = it then (cdr rest)
                               while (consp rest) collect (walk (car rest)) into walked
                               finally (return (append walked rest)))))))
       (walk form)))"
  "Harmless definitions by which a text hides what it does.")

(defun agent-q-watch-made-test--words (connection form)
  "Return what is asked when FORM runs over CONNECTION, where all is denied."
  (agent-q-test-watch-with connection "deny"
    (agent-q-test-watch-eval connection form)
    (agent-q-test-watch-words)))

(agent-q-test-image-on-each watch-looks-at-code-that-is-made ()
  "Internals, memory and foreign code are asked about, whatever evaluates or compiles them."
  (should-not (agent-q-watch-made-test--words connection agent-q-watch-made-test--preparation))
  (dolist (form '("(aq-eval \"(sb-sys:int-sap 5)\")"
                  "(aq-eval \"(list (sb-sys:int-sap 5))\")"
                  "(eval (list (aq-name \"INT-SAP\" :sb-sys) 5))"
                  "(eval (list 'aq-call (list 'function (aq-name \"INT-SAP\" :sb-sys)) 5))"
                  "(eval (list 'list (vector (aq-name \"INT-SAP\" :sb-sys))))"
                  "(eval (list (fdefinition (aq-name \"INT-SAP\" :sb-sys)) 5))"
                  "(aq-call (aq-name \"COMPILE\" :cl) nil (aq-read \"(lambda () (sb-sys:int-sap 5))\"))"
                  "(coerce (aq-read \"(lambda () (sb-sys:int-sap 5))\") 'function)"
                  "(aq-call (aq-name \"%SIMPLE-EVAL\" \"SB-IMPL\") (aq-read \"(sb-sys:int-sap 5)\")
                            (aq-call (aq-name \"MAKE-NULL-LEXENV\" \"SB-KERNEL\")))"
                  "(aq-call (aq-name \"SIMPLE-EVAL-IN-LEXENV\" \"SB-INT\") (aq-read \"(sb-sys:int-sap 5)\")
                            (aq-call (aq-name \"MAKE-NULL-LEXENV\" \"SB-KERNEL\")))"
                  "(let ((sb-ext:*evaluator-mode* :interpret)) (aq-eval \"(let ((x 5)) (sb-sys:int-sap x))\"))"
                  "(sb-thread:join-thread (sb-thread:make-thread #'aq-eval :arguments '(\"(sb-sys:int-sap 5)\")) :default nil)"
                  "(aq-walking (when t (sb-sys:int-sap 5)))" "(aq-walking (when t (aq-hiding)))" "(aq-forging 5)"
                  "(progn (funcall *macroexpand-hook*
                            (lambda (form environment) form environment (list (aq-name \"INT-SAP\" :sb-sys) 5))
                            '(when t) nil)
                          (eval (list (aq-name \"INT-SAP\" :sb-sys) 5)))"
                  "(aq-hiding)" "(list (aq-hiding))" "(aq-wrapping (list (aq-hiding)))"
                  "(defun aq-hidden () (loop repeat 3 collect (aq-hiding)))"
                  "(macrolet ((m () '(aq-hiding))) (list (m)))"
                  "(let ((*macroexpand-hook* 'funcall)) (eval '(list (aq-hiding))))"
                  "(eval `(define-symbol-macro aq-standing (,(aq-name \"INT-SAP\" :sb-sys) 5)))"))
    (ert-info (form)
      (should (member (car (agent-q-watch-made-test--words connection form))
                      '("evaluate code that calls foreign code: SB-SYS:INT-SAP"
                        "look up SB-SYS:INT-SAP by its name: calling it calls foreign code")))))
  (pcase-dolist
      (`(,text . ,words)
       '(("(sb-sys:without-interrupts (loop))" . "SB-SYS:WITHOUT-INTERRUPTS")
         ("(aq-call (aq-name \"ALIEN-FUNCALL\" :sb-alien)
             (aq-call (aq-name \"%SAP-ALIEN\" \"SB-ALIEN-INTERNALS\") (aq-call (aq-name \"INT-SAP\" :sb-sys) 5)
                      (aq-call (aq-name \"PARSE-ALIEN-TYPE\" \"SB-ALIEN-INTERNALS\") '(function sb-alien:int) nil)))"
          . "call foreign code at 5")
         ("(sb-alien:alien-funcall (sb-alien:extern-alien \"memcpy\" (function sb-alien:long sb-alien:long)) 1)"
          . "use the C function memcpy")
         ("(sb-alien:extern-alien \"lose_on_corruption_p\" sb-alien:int)" . "uses C's variables")
         ("(aq-call (aq-name \"%DEFINE-SYMBOL-MACRO\" \"SB-C\") 'aq-sm (list (aq-name \"INT-SAP\" :sb-sys) 5) nil)"
          . "INT-SAP")
         ("(sb-alien:alien-funcall (sb-alien:sap-alien x (function sb-alien:int)))" . "SAP-ALIEN")
         ("agent-q-image::*call*" . "AGENT-Q-IMAGE::")
         ("(setf (sb-int:info :function :source-transform 'list-length) 1)" . "SB-INT:INFO")))
    (should (string-match-p (regexp-quote words)
                            (car (agent-q-watch-made-test--words
                                  connection (format "(aq-eval %S)" text)))))))

(agent-q-test-image-on-each watch-lets-ordinary-code-be-made ()
  "What macros of the implementation's, and its compiler, make of ordinary code is nothing to ask about."
  (should-not (agent-q-watch-made-test--words connection agent-q-watch-made-test--preparation))
  (agent-q-test-watch-with connection "deny"
    (let ((reply (agent-q-test-watch-eval
                  connection
    "(defstruct aq-point (x 0 :type fixnum) y)
     (let ((point (make-aq-point))) (incf (aq-point-x point)) (setf (aq-point-y point) `(,point 1)))
     (define-condition aq-trouble (error) ((why :initarg :why :reader aq-why)))
     (handler-case (error 'aq-trouble :why 1) (aq-trouble (condition) (aq-why condition)))
     (defclass aq-thing () ((part :initarg :part :accessor aq-part)))
     (defgeneric aq-do (thing) (:method ((thing aq-thing)) (aq-part thing)) (:method (thing) thing))
     (defmethod aq-do :around (thing) (call-next-method))
     (aq-do (make-instance 'aq-thing :part 1))
     (macrolet ((twice (form) `(list ,form ,form))) (twice (aq-do 1)))
     (do-symbols (symbol :cl-user) (return symbol))
     (defun aq-getting (place) (car place))
     (defsetf aq-getting (place) (value) `(setf (car ,place) ,value))
     (let ((list (list 1))) (setf (aq-getting list) 2) (push 3 (aq-getting list)))
     (funcall (compile nil '(lambda (x) (with-output-to-string (stream) (format stream \"~a\" x)))) 1)
     (let ((sb-ext:*evaluator-mode* :interpret)) (eval '(loop for i below 3 collect i)))
     (deftype aq-small () '(integer 0 9)) (typep 3 'aq-small)
     (trace aq-name) (aq-name \"CAR\" :cl) (untrace)
     (defun aq-walked (x)
       (aq-walking
         (progn
           (loop for y in x for z being the hash-keys of y using (hash-value v) sum (+ v z))
           (restart-case (print x) (aq-again () 1))
           (with-simple-restart (aq-again \"x\") (check-type x integer) (assert (< x 2)))
           (setf (car x) 1 (getf (cdr x) :a) 2 (ldb (byte 1 2) (car x)) 3)
           (rotatef (car x) (cdr x))
           (destructuring-bind (a &key b) x (list a b))
           (with-open-file (stream x) (with-input-from-string (in \"x\") (list (read in) (read stream))))
           (with-hash-table-iterator (next x) (handler-case (next) (error () 1)))
           (do-symbols (it :cl-user) (ecase it (x (with-standard-io-syntax (princ it)))))
           (print-unreadable-object (x *standard-output* :type t) (princ x))
           (sb-thread:with-mutex (x) (format x \"~a\" x)))))
     (let ((table (make-hash-table)) (vector (make-array 3 :fill-pointer 3)))
       (aq-walking (setf (gethash 1 table) 2))
       (aq-walking (handler-case (decf (fill-pointer vector)) (error () 1))))
     (sb-ext:with-timeout 5 (aq-eval \"(list 1 2)\"))")))
      (should-not (agent-q-test-watch-words))
      ;; It came to its end.
      (should (eq :returned (plist-get reply :outcome))))))

(agent-q-test-image-on-each watch-asks-about-made-code-once ()
  "Code that was allowed is evaluated as if there were no watch; other code is asked about again."
  (agent-q-watch-made-test--words connection agent-q-watch-made-test--preparation)
  (agent-q-test-watch-with connection "allow"
    (should (equal '("3") (agent-q-test-watch-values
                           (agent-q-test-watch-eval
                            connection
                            "(let ((x 2)) (sb-sys:without-interrupts (sb-sys:with-interrupts (1+ x))))"))))
    (should (= 1 (length (agent-q-test-watch-words))))
    (agent-q-test-watch-eval
     connection "(let ((f (list (aq-name \"INT-SAP\" :sb-sys) 5))) (eval f) (eval f) (eval (list (aq-name \"INT-SAP\" :sb-sys) 7)))")
    (should (= 3 (length (agent-q-test-watch-words))))
    (let ((question (car agent-q-test-watch-questions)))
      (should (equal "run-form" (plist-get question :effect)))
      (should (equal "(SB-SYS:INT-SAP 7)" (plist-get question :form))))))

;; Where the form says it, nothing new comes to light when it is evaluated.
(agent-q-test-image-on-each watch-asks-once-about-what-the-form-says ()
  "Each name that a form has is asked about once, and a yes to one is to no other."
  (let* ((asked nil)
         (agent-q-approval-handler (lambda (tool &rest _)
                                     (push (agent-q-tool-name tool) asked)
                                     :approved)))
    (cl-flet ((ask (form)
                (setq asked nil)
                (agent-q-execute-tool-calls-sync
                 `((:name "eval_form" :arguments (("form" . ,form)))) 30)
                (reverse asked)))
      (ask agent-q-watch-made-test--preparation)
      (should (equal '("effect/run_form") (ask "(sb-sys:without-interrupts (+ 1 2))")))
      (should (equal '("effect/run_form") (ask "(funcall (compile nil '(lambda () (sb-vm::current-sp) 1)))")))
      (should (equal '("effect/run_form" "effect/run_form")
                     (ask "(progn (sb-sys:without-interrupts (+ 1 2)) (aq-eval \"(sb-sys:int-sap 7)\"))"))))))

(agent-q-test-image-on-each watch-knows-variables-by-made-names ()
  "Setting a variable that is not the program's asks, by whatever sets one and however it is named."
  (agent-q-watch-made-test--words connection agent-q-watch-made-test--preparation)
  (dolist (form '("(aq-call 'set name *readtable*)" "(setf (symbol-value name) *readtable*)"
                  "(locally (declare (optimize (safety 0) (speed 3))) (set name *readtable*))"
                  "(setf (sb-ext:symbol-global-value name) *readtable*)"
                  "(sb-ext:cas (symbol-value name) 1 2)" "(sb-ext:atomic-push 1 (symbol-value name))"
                  "(aq-call (aq-name \"%SET-SYMBOL-VALUE\" :sb-kernel) name *readtable*)"
                  "(aq-call (aq-name \"%SET-SYMBOL-VALUE\" :sb-kernel) name 'progv)"
                  "(aq-call (aq-name \"%DEFPARAMETER\" :sb-impl) name *readtable* nil)"))
    (ert-info (form)
      (should (member "set SB-IMPL::*STANDARD-READTABLE*, which is not the program's"
                      (agent-q-watch-made-test--words
                       connection
                       (format "(let ((name (aq-name \"*STANDARD-READTABLE*\" :sb-impl))) (ignore-errors %s))"
                               form))))))
  (let ((client (if (eq 'sly (agent-q-connection-client connection)) "SLYNK" "SWANK")))
    (should (equal (list (format "set %s::*CONNECTIONS*, which is not the program's" client))
                   (agent-q-watch-made-test--words
                    connection (format "(ignore-errors (set (aq-name \"*CONNECTIONS*\" %S) nil))" client)))))
  (dolist (form '("(set (intern \"AQ-OWN\") 1)" "(set (aq-name \"*PRINT-BASE*\" :cl) 10)"
                  "(progv (list (aq-name \"*STANDARD-READTABLE*\" :sb-impl)) (list 1) 2)"))
    (should-not (agent-q-watch-made-test--words connection form)))
  ;; The program's variables get its own objects.
  (should (equal '("(T T T)")
                 (agent-q-test-watch-with connection "deny"
                   (agent-q-test-image-values
                    connection
                    "(let ((a (list 1 \"x\")) (b (make-array 0 :element-type 'character :fill-pointer 0 :adjustable t)))
                       (setf (get 'aq-kept :a) a (get 'aq-kept :b) b)
                       (eval '(progn (defvar aq-kept-a (get 'aq-kept :a)) (defparameter aq-kept-b (get 'aq-kept :b))))
                       (set 'aq-kept-c a)
                       (list (eq a (symbol-value 'aq-kept-a)) (eq b (symbol-value 'aq-kept-b))
                             (eq a (symbol-value 'aq-kept-c))))"
                    :watch '(:patience 30))))))

(agent-q-test-image-on-each watch-asks-about-names-that-are-made ()
  "Whatever looks up a name for code asks if code that says that name would."
  (agent-q-test-image-directly
   connection "(progn (defpackage :aq-using (:use :cl :sb-kernel))
                      (setf (get 'aq-kept :name) (lambda () (find-symbol (format nil \"%MAKE-~A\" \"LISP-OBJ\") :sb-kernel)))
                      t)")
  (let ((name "(format nil \"%MAKE-~A\" \"LISP-OBJ\")"))
    (dolist (form (list "(find-symbol \"%MAKE-LISP-OBJ\" \"SB-KERNEL\")"
                        (format "(find-symbol %s \"SB-KERNEL\")" name)
                        (format "(find-symbol %s :aq-using)" name)
                        (format "(let ((package :sb-kernel)) (intern %s package))" name)
                        (format "(let ((*package* (find-package :sb-kernel))) (intern %s))" name)
                        (format "(uiop:find-symbol* %s :sb-kernel)" name)
                        (format "(read-from-string (concatenate 'string \"sb-kernel::\" %s))" name)
                        (format "(with-standard-io-syntax (read-from-string (concatenate 'string \"sb-kernel::\" %s)))" name)
                        (format "(with-input-from-string (stream (concatenate 'string \"(1 #(sb-kernel::\" %s \"))\")) (read stream))" name)
                        (format "(reduce #'find-symbol (list %s \"SB-KERNEL\"))" name)
                        (format "(map 'list #'find-symbol (list %s) '(\"SB-KERNEL\"))" name)
                        (format "(format nil (format nil \"~~/sb-kernel:~A/\" %s) 1)" name)
                        (format "(handler-bind ((error (lambda (it) (declare (ignore it)) (find-symbol %s :sb-kernel))))
                                   (intern \"AQ-NEW\" :sb-kernel))" name)
                        (format "(let ((sb-ext:*evaluator-mode* :interpret)) (eval '(find-symbol %s :sb-kernel)))" name)
                        (format "(sb-thread:join-thread (sb-thread:make-thread (lambda () (find-symbol %s :sb-kernel))) :default nil)"
                                name)
                        "(funcall (get 'aq-kept :name))"
                        (format "(flet ((symbolicate (it) (values (find-symbol it :sb-kernel)))) (list (symbolicate %s)))" name)
                        (format "(progn (defun aq-using::symbolicate (it) (values (find-symbol it :sb-kernel)))
                                        (aq-using::symbolicate %s))" name)
                        "#.(find-symbol (format nil \"%MAKE-~A\" \"LISP-OBJ\") :sb-kernel)"))
      (ert-info (form)
        (agent-q-test-watch-with connection "deny"
          (let ((reply (agent-q-test-watch-eval connection form)))
            (should (equal '("look up SB-KERNEL:%MAKE-LISP-OBJ by its name: calling it uses what is internal to the implementation")
                           (agent-q-test-watch-words)))
            (should (member (agent-q-test-watch-values reply) '(nil ("NIL")))))))))
  ;; A yes is to this name, once for the call.
  (agent-q-test-watch-with connection "allow"
    (should (equal '("T") (agent-q-test-watch-values
                           (agent-q-test-watch-eval
                            connection "(loop repeat 3 always (find-symbol (string '%make-lisp-obj) :sb-kernel))"))))
    (should (= 1 (length (agent-q-test-watch-words)))))
  ;; Names of others' packages that code may say need no question, nor does what SBCL looks up itself.
  (dolist (form '("(list (find-symbol \"CAR\" :sb-impl) (find-symbol \"CLASS-SLOTS\" :sb-mop) (intern \"AQ-NEW\" :keyword))"
                  "(find-symbol \"AQ-THERE-IS-NONE\" :sb-kernel)"
                  "(let ((package (or (find-package :aq-free) (make-package :aq-free :use '())))) (unwind-protect (import 'sb-mop:class-slots package) (unintern 'sb-mop:class-slots package)))"
                  "(defun aq-copy (s) (let ((r (make-string 100))) (replace r s) (fill r #\\a) (loop for c across r collect c)))"
                  "(let ((*package* (find-package :sb-kernel))) (princ-to-string (list #'car (find-class 'list))))"
                  "(defstruct aq-pair left right)" "(read-from-string \"#S(aq-pair :left (a . :b))\")"))
    (ert-info (form)
      (should-not (agent-q-watch-made-test--words connection form))
      (should (equal '(nil nil) (agent-q-test-watch-with connection "deny"
                                  (list (plist-get (agent-q-test-watch-eval connection form) :denials)
                                        (agent-q-test-watch-words))))))))

(agent-q-test-image-on-each watch-keeps-what-all-code-relies-on ()
  "Generic functions, classes, constants and packages that aren't the program's ask before they change."
  (pcase-dolist
      (`(,form . ,words)
       '(("(defgeneric print-object (object stream) (:method-combination progn))" . "redefine PRINT-OBJECT")
         ("(reinitialize-instance #'documentation :name 'aq-mine)" . "redefine DOCUMENTATION")
         ("(shared-initialize #'documentation t :name 'aq-mine)" . "redefine DOCUMENTATION")
         ("(change-class #'documentation 'standard-generic-function)" . "redefine DOCUMENTATION")
         ("(let ((name (sb-mop:slot-definition-name (first (sb-mop:class-slots (class-of #'documentation))))))
             (setf (slot-value #'documentation name) nil))"
          . "redefine DOCUMENTATION")
         ("(setf (sb-mop:funcallable-standard-instance-access #'documentation 3) nil)" . "redefine DOCUMENTATION")
         ("(sb-mop:ensure-class 'sb-gray:fundamental-input-stream :metaclass 'standard-class
             :direct-superclasses (list (find-class 'sb-gray:fundamental-stream)))"
          . "FUNDAMENTAL-INPUT-STREAM")
         ("(make-instances-obsolete 'standard-class)" . "redefine STANDARD-CLASS")
         ("(sb-mop:remove-direct-subclass (find-class 'standard-object)
                                          (first (sb-mop:class-direct-subclasses (find-class 'standard-object))))"
          . "redefine STANDARD-OBJECT")
         ("(sb-alien:define-alien-type sb-alien:int (sb-alien:integer 8))" . "redefine INT")
         ("(progn (require :sb-bsd-sockets)
             (eval (read-from-string
                    \"(sb-bsd-sockets:socket-accept
                        (make-instance 'sb-bsd-sockets:inet-socket :type :stream :protocol :tcp))\")))"
          . "take a connection at ")
         ("(sb-ext:disable-debugger)" . "change what errors do: they would end this Lisp")
         ("(let ((l (sb-vm:list-allocated-objects :all :test #'symbolp))) l)" . "LIST-ALLOCATED-OBJECTS")
         ("(progn (require :sb-introspect) (aq-call (aq-name \"MAP-ROOT\" :sb-introspect) #'print #'delete-file))"
          . "change what it finds in memory")
         ("(sb-ext:search-roots (sb-ext:make-weak-pointer (list 1)))" . "change what it finds in memory")
         ("(with-open-file (in \"/proc/self/mem\") in)" . "read /proc/")
         ("(handler-bind ((sb-ext:package-lock-violation #'continue))
             (eval '(define-method-combination progn :operator list)))"
          . "redefine PROGN")
         ("(sb-ext:cas (sb-mop:funcallable-standard-instance-access #'documentation 2) 1 2)" . "redefine DOCUMENTATION")
         ("(handler-bind ((error #'continue)) (proclaim '((integer 5 6) *print-right-margin*)))"
          . "proclaim ((INTEGER 5 6) *PRINT-RIGHT-MARGIN*)")
         ("(sb-alien:with-alien ((x (sb-alien:unsigned 64) 5)) (sb-alien:cast (sb-alien:addr x) (* (* sb-alien:int))))"
          . "calls foreign code")
         ("(setf (sb-ext:readtable-normalization *readtable*) nil)" . "change how text is read, by everybody")
         ("(setf (logical-pathname-translations \"SYS\") nil)" . "change where SBCL's own sources are")
         ("(setf (sb-ext:symbol-global-value '*readtable*) (copy-readtable))" . "change *READTABLE*")
         ("(sb-thread:join-thread (sb-thread:make-thread (lambda () (setq *query-io* *terminal-io*))))"
          . "change *QUERY-IO*")
         ("(handler-bind ((sb-ext:package-lock-violation #'continue) (sb-ext:defconstant-uneql #'continue))
             (eval '(defconstant char-code-limit 5)))"
          . "redefine CHAR-CODE-LIMIT")
         ("(unintern :emacs-rex :keyword)" . "redefine :EMACS-REX")
         ("(shadowing-import 'cl-user::emacs-rex :keyword)" . "change the names of the package KEYWORD")
         ("(unuse-package :cl :cl-user)" . "change the names of the package COMMON-LISP-USER")
         ("(rename-package :cl-user \"AQ-OLD\")" . "change the package COMMON-LISP-USER")
         ("(first (find-all-symbols \"SET-SYMBOL-GLOBAL-VALUE\"))" . "look up SB-KERNEL:SET-SYMBOL-GLOBAL-VALUE")))
    (ert-info (form)
      (should (string-match-p (regexp-quote words)
                              (or (car (agent-q-watch-made-test--words connection form)) "")))))
  (should (equal '("(1114112 PRINT-OBJECT DOCUMENTATION)")
                 (agent-q-test-image-values
                  connection "(list char-code-limit (sb-mop:generic-function-name #'print-object)
                                    (sb-mop:generic-function-name #'documentation))")))
  ;; Who may listen may take connections.
  (agent-q-test-watch-with connection "allow"
    (agent-q-test-watch-eval
     connection "(let ((socket (make-instance 'sb-bsd-sockets:inet-socket :type :stream :protocol :tcp)))
                   (setf (sb-bsd-sockets:non-blocking-mode socket) t)
                   (sb-bsd-sockets:socket-bind socket #(127 0 0 1) 0)
                   (sb-bsd-sockets:socket-listen socket 1)
                   (ignore-errors (sb-bsd-sockets:socket-accept socket))
                   (sb-bsd-sockets:socket-close socket))")
    (should (seq-some (lambda (it) (string-prefix-p "listen at" it)) (agent-q-test-watch-words)))
    (should-not (seq-some (lambda (it) (string-prefix-p "take a connection" it)) (agent-q-test-watch-words))))
  ;; The program's own may change, and what SBCL does for it is no question.
  (should-not (agent-q-watch-made-test--words connection "
    (defclass aq-own () ((a :accessor aq-a :initarg :a)))
    (defmethod print-object ((it aq-own) stream) (format stream \"own\"))
    (defmethod documentation ((it aq-own) (kind (eql 'aq))) \"own\")
    (defmethod initialize-instance :after ((it aq-own) &key) (setf (slot-value it 'a) 1))
    (let ((it (make-instance 'aq-own)) (name 'a))
      (setf (slot-value it name) 2)
      (setf (sb-mop:slot-value-using-class (class-of it) it (first (sb-mop:class-slots (class-of it)))) 3)
      (reinitialize-instance it :a 4)
      (slot-makunbound it 'a))
    (defclass aq-own () ((a :accessor aq-a) (b :reader aq-b)))
    (make-instances-obsolete 'aq-own)
    (sb-mop:ensure-class 'aq-other :metaclass 'standard-class :direct-superclasses (list (find-class 'aq-own)))
    (change-class (make-instance 'aq-other) 'aq-own)
    (defgeneric aq-sum (it) (:method-combination progn) (:method progn (it) it))
    (defgeneric aq-sum (it) (:method-combination +) (:method + (it) it))
    (setf *readtable* (copy-readtable) *standard-output* *standard-output*)
    (proclaim '(optimize (speed 1))) (proclaim '(fixnum *aq-number*))
    (compile 'aq-compiled '(lambda () 1)) (find-all-symbols \"TOTAL\") (defconstant aq-c 3)")))

(agent-q-test-image-on-each watch-knows-what-closes-the-connection-later ()
  "Objects that close the client's descriptor once they are garbage ask; others don't."
  (agent-q-test-image-directly connection "(progn (require :sb-bsd-sockets) t)")
  (dolist (form '("(make-instance 'sb-bsd-sockets:inet-socket :descriptor fd :type :stream :protocol :tcp)"
                  "(sb-sys:make-fd-stream fd :input t :auto-close t)"))
    (should (member "close the connection to Emacs"
                    (agent-q-watch-made-test--words
                     connection (format "(loop for fd from 3 below 30 do (ignore-errors %s))" form)))))
  (should-not (agent-q-watch-made-test--words
               connection "(sb-bsd-sockets:socket-close
                            (make-instance 'sb-bsd-sockets:inet-socket :type :stream :protocol :tcp))"))
  (agent-q-test-image-directly connection "(progn (sb-ext:gc :full t) t)")
  (should (agent-q-connection-live-p connection))
  (should (equal '("look up 203.0.113.7 in the network")
                 (agent-q-watch-made-test--words
                  connection "(ignore-errors (sb-bsd-sockets:get-host-by-address #(203 0 113 7)))")))
  (should-not (agent-q-watch-made-test--words
               connection "(ignore-errors (sb-bsd-sockets:get-host-by-address #(127 0 0 1)))")))

(agent-q-test-image-on-each what-is-left-to-the-watch-asks-once-where-it-happens ()
  "Code that nobody looked at before it runs asks by its effects, and by what its definitions carry."
  (let ((file (agent-q-test-watch-file "left")))
    (cl-flet ((asked (form)
                (agent-q-test-watch-with connection "deny"
                  (agent-q-test-image-eval connection form
                                           :assessed "watched" :watch '(:patience 30))
                  (agent-q-test-watch-words))))
      (should (equal (list (format "delete %s" file)) (asked (format "(delete-file %S)" file))))
      (dolist (form '("(defun aq-plain (x) (list x (eval x)))" "(read-from-string (format nil \"(~a)\" 1))"
                      "(list 'delete-file 'run-program)" "(define-modify-macro aq-maxf (&rest numbers) max)"
                      "(defstruct (aq-cell (:type list) :named) value next)"
                      "(setf (fdefinition 'aq-old) #'identity)" "(setf (macro-function 'aq-when) (macro-function 'when))"))
        (ert-info (form)
          (should-not (asked form))))
      (dolist (form `("(defun aq-carries () (delete-file \"x\"))"
                      "(progn 1 (defun aq-carries () (delete-file \"x\")))"
                      "(setf (fdefinition 'aq-carries) (lambda () (delete-file \"x\")))"
                      "(funcall #'(setf fdefinition) (lambda () (delete-file \"x\")) 'aq-carries)"
                      "(let ((f #'delete-file)) (defun aq-carries () (funcall f \"x\")))"
                      "(macrolet ((m () '(delete-file \"x\"))) (defun aq-carries () (m)))"
                      "(compile 'aq-carries '(lambda () (delete-file \"x\")))"
                      "1 (defmethod aq-carries-too ((x integer)) (delete-file \"x\"))"
                      "(progn (defmacro aq-makes () (list 'defun 'aq-carries () (list (intern \"DELETE-FILE\") \"x\"))) (aq-makes))"
                      "(let ((*macroexpand-hook*
                               (lambda (expander form environment)
                                 (if (eq 'defun (car form)) '(defun aq-carries () (delete-file \"x\"))
                                     (funcall expander form environment)))))
                         (eval '(defun aq-plain ())))"
                      ,(format "(list '%S (funcall #'(setf fdefinition) (lambda () (delete-file \"x\")) 'aq-carries))"
                               (make-list 3000 1))
                      ,(format "(let ((f #'delete-file) (list '%S)) (defun aq-carries () (funcall f \"x\") list))"
                               (make-list 6000 1))
                      "(sb-thread:join-thread (sb-thread:make-thread #'eval :arguments '((defun aq-carries () (delete-file \"x\")))) :default nil)"
                      "(sb-ext:define-hash-table-test aq-carries (lambda (it) (delete-file \"x\") (sxhash it)))"
                      "(progn (defgeneric aq-generic (it))
                              (sb-mop:set-funcallable-instance-function #'aq-generic (lambda (it) it (delete-file \"x\"))))"
                      "(let ((name 'aq-carries)) (compile name '(lambda () (delete-file \"x\"))))"
                      "(apply #'compile 'aq-carries '((lambda () (delete-file \"x\"))))"
                      "(handler-bind ((error (lambda (it) (invoke-restart (find-restart 'use-value it) 5))))
                         (eval '(defun aq-carries () (delete-file \"x\"))))"))
        (ert-info (form)
          (let ((words (asked form)))
            (should (= 1 (length words)))
            (should (string-match-p "\\`make a definition that deletes or writes files: DELETE-FILE"
                                    (car words))))))
      (should (equal '("NIL") (agent-q-test-image-values connection "(fboundp 'aq-carries)")))
      (should (file-exists-p file)))))

(defun agent-q-watch-made-test--refuse-guard (connection)
  "Have the image behind CONNECTION fail to guard DELETE-FILE."
  (agent-q-test-image-value connection "watch-remove")
  (agent-q-test-image-directly
   connection "(let* ((name (find-symbol \"PUT-GUARD\" \"AGENT-Q-IMAGE\")) (put (fdefinition name)))
                 (setf (get name :aq-put) put
                       (fdefinition name)
                       (lambda (watch guard)
                         (if (eq 'delete-file (svref guard 0)) (error \"no\") (funcall put watch guard))))
                 t)"))

(defun agent-q-watch-made-test--let-guard (connection)
  "Undo that."
  (agent-q-test-image-directly
   connection "(let ((name (find-symbol \"PUT-GUARD\" \"AGENT-Q-IMAGE\")))
                 (setf (fdefinition name) (get name :aq-put)) t)")
  (agent-q-test-image-value connection "watch-remove"))

(agent-q-test-tools-on-each what-can-not-be-guarded-is-told-in-the-chat ()
  "A chat says once which functions the watch can't stop in an image."
  (let ((notice (format "agent-q can't stop calls of DELETE-FILE in %s.  Code there is looked at before it runs."
                        (agent-q-connection-label connection))))
    (agent-q-watch-made-test--refuse-guard connection)
    (unwind-protect
        (dotimes (_ 2)
          (should (equal "=> 1" (agent-q-test-tools-ask "/eval_form 1")))
          (should (= 1 (how-many (regexp-quote notice) (point-min) (point-max)))))
      (agent-q-watch-made-test--let-guard connection))
    (agent-q-test-tools-ask "/eval_form 1")
    (should (= 1 (how-many "can't stop calls" (point-min) (point-max))))))

(agent-q-test-image-on-each what-can-not-be-guarded-is-looked-at-before ()
  "A guard that can't be put in is told of, and code is looked at before it runs then."
  (agent-q-watch-made-test--refuse-guard connection)
  (let ((file (agent-q-test-watch-file "left")) (reply nil))
    (cl-flet ((asked (form)
                (agent-q-test-watch-with connection "deny"
                  (setq reply (agent-q-test-image-reply connection "eval-form" :form form
                                                        :assessed "watched" :watch '(:patience 30)))
                  (agent-q-test-watch-words))))
      (should (string-prefix-p "run form 1, which deletes or writes files: DELETE-FILE"
                               (car (asked (format "(delete-file %S)" file)))))
      (should (equal '("DELETE-FILE") (plist-get reply :unguarded)))
      (should (file-exists-p file))
      (agent-q-watch-made-test--let-guard connection)
      (should (equal (list (format "delete %s" file)) (asked (format "(delete-file %S)" file))))
      (should-not (plist-get reply :unguarded)))))

(agent-q-test-image-on-each watch-holds-what-is-below-it ()
  "What it depends on itself can't be changed by code: features, encodings, names, hooks, the stack."
  (agent-q-test-image-directly connection "(progn (require :sb-posix) t)")
  (let ((file (agent-q-test-watch-file "left.pem")))
    (dolist (form (list "(setf *features* (remove :sb-thread *features*))"
                        (format "(list (ignore-errors (delete-file %S)))" file)))
      (agent-q-watch-made-test--words connection form))
    (should (file-exists-p file))
    (agent-q-test-image-directly connection "(progn (pushnew :sb-thread *features*) t)")
    ;; Nor can a handler read what is denied, nor another encoding hide its name.
    (dolist (form (list (format "(handler-bind ((error (lambda (it) (declare (ignore it))
                                    (loop for fd from 3 to 40
                                          do (ignore-errors
                                              (when (search \"left.pem\" (namestring (truename (format nil \"/proc/self/fd/~d\" fd))))
                                                (return-from read (read-line (sb-sys:make-fd-stream fd :input t)))))))))
                                 (open %S))" file)
                        (format "(let ((sb-ext:*default-c-string-external-format* :utf-16le))
                                   (sb-unix:unix-open
                                    (map 'string #'code-char
                                         (loop for (a b) on (map 'list #'char-code %S) by #'cddr collect (+ a (* 256 (or b 32)))))
                                    0 0))" file)))
      (ert-info (form)
        (agent-q-test-watch-with connection "deny"
          (should-not (string-match-p
                       "secret"
                       (format "%S" (agent-q-test-watch-eval
                                     connection (format "(block read (ignore-errors %s))" form)))))))))
  (pcase-dolist
      (`(,words . ,form)
       '(("change the names of the package AGENT-Q-IMAGE"
          . "(sb-ext:add-package-local-nickname \"AGENT-Q-IMAGE\" :cl-user \"COMMON-LISP-USER\")")
         ("change the names of the package COMMON-LISP"
          . "(sb-ext:add-implementation-package \"CL-USER\" \"COMMON-LISP\")")
         ("change what the system does about the descriptor [0-9]+"
          . "(sb-posix:fcntl (sb-posix:open \"/tmp/\" 0) 1026 3)")
         ("change the standard descriptor 1: close it" . "(sb-posix:close 1)")
         ("change \\*DEBUGGER-HOOK\\*" . "(setf (sb-ext:symbol-global-value '*debugger-hook*) 'list)")
         ("change how text is read, by everybody" . "(copy-readtable nil *readtable*)")
         ("evaluate code that uses what is internal to the implementation: SB-SYS:VECTOR-SAP"
          . "(progn (formatter \"~/sb-sys:vector-sap/\") (list (sb-sys:vector-sap (vector))))")))
    (ert-info (form)
      (should (seq-some (lambda (it) (string-match-p words it))
                        (agent-q-watch-made-test--words connection (format "(ignore-errors %s)" form))))))
  (should (equal '("NIL") (agent-q-test-image-values
                           connection "(eq 'list (sb-ext:symbol-global-value '*debugger-hook*))")))
  ;; No consent among the arguments that the stack shows.
  (should (equal '("NIL") (agent-q-test-watch-with connection "deny"
                            (agent-q-test-image-values
                             connection "(some (lambda (frame)
                                                 (some (lambda (it) (and (consp it) (simple-vector-p (car it)))) (rest frame)))
                                               (sb-debug:list-backtrace))"
                             :watch '(:patience 30)))))
  ;; What comes with SBCL is no question.
  (dolist (form '("(require :sb-rotate-byte)" "(require :sb-sprof)"))
    (should-not (agent-q-watch-made-test--words connection form)))
  (should (equal '("use the C function pthread_kill")
                 (agent-q-watch-made-test--words
                  connection "(aq-call 'eval '(sb-alien:alien-funcall
                                               (sb-alien:extern-alien \"pthread_kill\" (function sb-alien:int sb-alien:int))
                                               0))"))))

(provide 'agent-q-watch-made-test)
;;; agent-q-watch-made-test.el ends here
