;;; agent-q-image-test.el --- Calls into real Lisp images  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The call layer and the Common Lisp half on a real SBCL, the same tests
;; through SLIME and through SLY.

;;; Code:

(require 'ert)
(require 'agent-q-test-image)

(defmacro agent-q-image-test-on-each (name arguments docstring &rest body)
  "Define a test NAME for each client, with CONNECTION bound in BODY.
ARGUMENTS is empty; DOCSTRING says what is shown."
  (declare (indent defun) (doc-string 3) (debug t))
  (ignore arguments)
  `(progn
     ,@(mapcar
        (lambda (client)
          `(ert-deftest ,(intern (format "agent-q-image-%s/%s" name client)) ()
             ,docstring
             (let ((connection (agent-q-test-image-connection ',client)))
               (unless connection (ert-skip (format "No SBCL through %s" ',client)))
               ,@body
               (should (zerop (agent-q-image-pending)))
               (should-not (agent-q-image-test-debuggers)))))
        '(slime sly))))

(defun agent-q-image-test-debuggers ()
  "Return the debugger buffers that are open."
  (cl-remove-if-not (lambda (buffer)
                      (string-match-p "\\*sl\\(db\\|y-db\\)" (buffer-name buffer)))
                    (buffer-list)))

(defun agent-q-image-test-value (connection operation &rest arguments)
  "Return the value of OPERATION called with ARGUMENTS over CONNECTION."
  (pcase (agent-q-test-image-call connection operation arguments)
    (`("done" :outcome :returned :value ,value) value)
    (other (ert-fail other))))

(defun agent-q-image-test-reply (connection operation &rest arguments)
  "Return the reply to OPERATION called with ARGUMENTS over CONNECTION."
  (let ((end (agent-q-test-image-call connection operation arguments)))
    (should (equal "done" (car end)))
    (cdr end)))

(defun agent-q-image-test-eval (connection form &rest arguments)
  "Return the reply to evaluating the text FORM, with more ARGUMENTS, over CONNECTION."
  (apply #'agent-q-image-test-reply connection "eval-form" :form form arguments))

(defun agent-q-image-test-values (connection form &rest arguments)
  "Return the values of the last form in the text FORM.
It is evaluated over CONNECTION with more ARGUMENTS."
  (let ((reply (apply #'agent-q-image-test-eval connection form arguments)))
    (should (eq :returned (plist-get reply :outcome)))
    (plist-get (car (last (plist-get (plist-get reply :value) :forms))) :values)))

(defun agent-q-image-test-names (connection text &optional package)
  "Return the name and kinds that TEXT, in PACKAGE, is described with over CONNECTION."
  (let ((value (agent-q-image-test-value connection "describe-symbol"
                                         :symbol text :package package)))
    (cons (plist-get value :name)
          (mapcar (lambda (facet) (plist-get facet :kind)) (plist-get value :facets)))))

(defconst agent-q-image-test-definitions "
(defpackage #:aq-test (:use #:cl) (:nicknames #:aq-nick) (:export #:shown))
(defpackage #:aq-user (:use #:cl) (:local-nicknames (#:at #:aq-test)))
(in-package #:aq-test)
(defun shown (x &key (y 1)) \"Show X.\" (list x y))
(defun hidden () 1)
(defun |Foo| () 1)
(defun (setf hidden) (new place) (list new place))
(defvar *level* 7 \"How much.\")
(defvar *unbound*)
(defconstant +limit+ 10)
(define-symbol-macro here (car *level*))
(defmacro twice (x) `(progn ,x ,x))
(defgeneric area (shape) (:documentation \"The area.\"))
(defclass shape () (width height) (:documentation \"A shape.\"))
(defmethod area ((shape shape)) 1)
(defstruct point x y)
(deftype small () '(integer 0 9))
(define-condition trouble (error) ())
(defclass touchy () ())
(defmethod print-object ((it touchy) stream) (declare (ignorable stream)) (error \"no\"))
(define-compiler-macro shown (&whole form x &key (y 1)) (if (eql y 2) `(quick ,x) form))
"
  "What the tests look at.")

(defun agent-q-image-test-define (connection)
  "Make `agent-q-image-test-definitions' part of the image behind CONNECTION."
  (agent-q-image-test-eval connection agent-q-image-test-definitions))

;;;; Names

(agent-q-image-test-on-each finds-symbols-as-they-are-written ()
  "A symbol is found in every spelling that a Lisp programmer uses."
  (agent-q-image-test-define connection)
  (dolist (text '("mapcar" "MAPCAR" "MapCar" "cl:mapcar" "Common-Lisp::mapcar" "#'mapcar"
                  "'mapcar" " mapcar " "map|CAR|" "\\MAPCAR"))
    (ert-info (text)
      (should (equal '("MAPCAR" "function")
                     (agent-q-image-test-names connection text)))))
  (dolist (case '(("aq-test:shown" "AQ-TEST:SHOWN" "function")
                  ("aq-nick::hidden" "AQ-TEST::HIDDEN" "function" "setf function")
                  ("AQ-Test::|Foo|" "AQ-TEST::|Foo|" "function")
                  ("(setf aq-test::hidden)" "(SETF AQ-TEST::HIDDEN)" "setf function")
                  ("#'(setf aq-test::hidden)" "(SETF AQ-TEST::HIDDEN)" "setf function")
                  ("(SETF gethash)" "(SETF GETHASH)" "setf function")
                  (":test" ":TEST" "keyword")))
    (ert-info ((car case))
      (should (equal (cdr case) (agent-q-image-test-names connection (car case))))))
  (should (equal '("AQ-TEST:SHOWN" "function")
                 (agent-q-image-test-names connection "at:shown" "aq-user")))
  (should (equal '("AQ-TEST::|Foo|" "function")
                 (agent-q-image-test-names connection "|Foo|" ":aq-test"))))

(agent-q-image-test-on-each says-what-there-is-instead ()
  "A name that isn't there gets a sentence that helps, and is not made."
  (agent-q-image-test-define connection)
  (dolist (case '(("mapcr" "Symbol MAPCR not found in package COMMON-LISP-USER.*MAPCAR")
                  ("cl:mapcr" "Symbol MAPCR not found in package COMMON-LISP\\..*MAPCAR")
                  ("+limit+" "not found.*exists elsewhere: .*AQ-TEST::\\+LIMIT\\+")
                  ("aq-tst:shown" "Package AQ-TST not found.*AQ-TEST")
                  ("|Mapcar|" "Symbol Mapcar not found")
                  ("(car x)" "not a symbol's name")
                  ("" "not a symbol's name")
                  ("a:b:c" "package")
                  ("(setf)" "not a symbol's name")
                  ("|open" "not a symbol's name")))
    (ert-info ((car case))
      (let ((reply (agent-q-image-test-reply connection "describe-symbol"
                                             :symbol (car case))))
        (should (eq :missed (plist-get reply :outcome)))
        (should (string-match-p (cadr case) (plist-get reply :message))))))
  (should (equal '("NIL" "NIL")
                 (agent-q-image-test-values connection "(find-symbol \"MAPCR\")"))))

(agent-q-image-test-on-each respects-the-readtable-case ()
  "Names are read with the case of the readtable in force."
  (agent-q-image-test-define connection)
  (unwind-protect
      (progn
        (agent-q-image-test-eval
         connection "(setf (readtable-case *readtable*) :invert)")
        (should (equal '("mapcar" "function")
                       (agent-q-image-test-names connection "mapcar")))
        (should (equal :missed (plist-get (agent-q-image-test-reply
                                           connection "describe-symbol" :symbol "MAPCAR")
                                          :outcome))))
    (agent-q-image-test-eval connection "(setf (readtable-case *readtable*) :upcase)")))

;;;; Looking

(agent-q-image-test-on-each describes-every-facet ()
  "A description has what the symbol is, with values, arguments and documentation."
  (agent-q-image-test-define connection)
  (cl-flet ((facet (text) (car (plist-get (agent-q-image-test-value
                                           connection "describe-symbol"
                                           :symbol text :package "aq-test")
                                          :facets))))
    (dolist (case '(("shown" :kind "function" :arglist "(X &KEY (Y 1))"
                     :documentation "Show X." :compiler-macro t)
                    ("twice" :kind "macro" :arglist "(X)")
                    ("area" :kind "generic function" :methods 1 :documentation "The area.")
                    ("if" :kind "special operator")
                    ("*level*" :kind "variable" :value "7" :documentation "How much.")
                    ("*unbound*" :kind "variable" :unbound t)
                    ("+limit+" :kind "constant" :value "10")
                    ("here" :kind "symbol macro" :value "(CAR AQ-TEST::*LEVEL*)")
                    ("shape" :kind "class" :superclasses ("STANDARD-OBJECT")
                     :slots ("AQ-TEST::WIDTH" "AQ-TEST::HEIGHT") :documentation "A shape.")
                    ("point" :kind "structure" :slots ("AQ-TEST::X" "AQ-TEST::Y"))
                    ("trouble" :kind "condition")
                    ("small" :kind "type")
                    ("aq-test" :kind "package" :exports 1)))
      (ert-info ((car case))
        (let ((facet (if (equal (car case) "aq-test")
                         (progn
                           (agent-q-image-test-eval connection "'aq-test::aq-test")
                           (facet (car case)))
                       (facet (car case)))))
          (cl-loop for (key value) on (cdr case) by #'cddr
                   do (should (equal value (plist-get facet key)))))))))

(agent-q-image-test-on-each tells-where-a-definition-is ()
  "A definition from a file comes with the file and the line."
  (let ((file (make-temp-file "agent-q-" nil ".lisp" "\n;; λ\n\n(defun cl-user::aq-placed () 1)\n")))
    (unwind-protect
        (progn
          (agent-q-image-test-eval
           connection
           (format "(let ((*error-output* (make-broadcast-stream))) (load (compile-file %S)))"
                   file))
          (let ((definitions (plist-get (agent-q-image-test-value
                                         connection "describe-symbol" :symbol "aq-placed")
                                        :definitions)))
            (should (equal (format "%s:4" (file-truename file))
                           (plist-get (car definitions) :where)))))
      (delete-file file)
      (ignore-errors (delete-file (concat (file-name-sans-extension file) ".fasl"))))))

(agent-q-image-test-on-each searches-names ()
  "A search counts everything, lists a part, and knows kinds and packages."
  (agent-q-image-test-define connection)
  (cl-flet ((found (&rest arguments)
              (let ((value (apply #'agent-q-image-test-value connection "apropos-search" arguments)))
                (cons (plist-get value :total)
                      (mapcar (lambda (symbol) (plist-get symbol :name))
                              (plist-get value :symbols))))))
    (should (equal "PARSE-INTEGER" (cadr (found :pattern "parse-integer"))))
    (should (equal '(0) (found :pattern "no-such-thing-anywhere")))
    (should (equal '(1 "AQ-TEST:SHOWN")
                   (found :pattern "" :package "aq-test" :external-only t)))
    (should (equal '(1 "AQ-TEST::TWICE")
                   (found :pattern "twice" :package "aq-test" :kind "macro")))
    (should (equal '(1 "AQ-TEST::POINT")
                   (found :pattern "poin" :package "aq-test" :kind "class")))
    (let ((all (found :pattern "" :limit 7)))
      (should (> (car all) 5000))
      (should (= 7 (length (cdr all)))))
    (should (member "HASH-TABLE-COUNT" (cdr (found :pattern "table hash count"))))
    ;; Symbols without a home must not spoil it.
    (agent-q-image-test-eval
     connection "(let ((it (make-symbol \"AQ-HOMELESS\"))) (import it :aq-test))
                 (unintern (find-symbol \"AQ-HOMELESS\" :aq-test) :aq-user)
                 (let ((it (intern \"AQ-LOST\" :aq-user)))
                   (import it :aq-test) (unintern it :aq-user))")
    (should (equal '(1 "#:AQ-LOST") (found :pattern "aq-lost")))))

(agent-q-image-test-on-each tells-lambda-lists ()
  "A lambda list, or what the name is instead."
  (agent-q-image-test-define connection)
  (let ((value (agent-q-image-test-value connection "function-arglist" :function "mapcar")))
    (should (equal "MAPCAR" (plist-get value :name)))
    (should (equal "(FUNCTION LIST &REST MORE-LISTS)" (plist-get value :arglist))))
  (should (equal "()" (plist-get (agent-q-image-test-value
                                  connection "function-arglist"
                                  :function "aq-test::|Foo|")
                                 :arglist)))
  (should (equal "(NEW PLACE)" (plist-get (agent-q-image-test-value
                                           connection "function-arglist"
                                           :function "(setf aq-test::hidden)")
                                          :arglist)))
  (should (string-match-p "names no function.*variable"
                          (plist-get (agent-q-image-test-reply
                                      connection "function-arglist"
                                      :function "aq-test::*level*")
                                     :message))))

(agent-q-image-test-on-each expands-macros ()
  "Each way to expand expands as far as it says; nothing is run by reading."
  (agent-q-image-test-define connection)
  (cl-flet ((expansion (form &rest arguments)
              (replace-regexp-in-string
               "[ \n]+" " "
               (plist-get (apply #'agent-q-image-test-value connection "macroexpand-form"
                                 :form form :package "aq-test" arguments)
                          :expansion))))
    (should (equal "(IF T 1)" (expansion "(when t 1)")))
    (should (equal "(PROGN (TWICE 1) (TWICE 1))" (expansion "(twice (twice 1))" :full t)))
    (should-not (string-match-p "TWICE" (expansion "(twice (twice 1))" :mode "all")))
    (should (equal "(QUICK 3)" (expansion "(shown 3 :y 2)" :mode "compiler")))
    (should (equal "(CAR X)" (expansion "(car x)"))))
  (let ((reply (agent-q-image-test-reply
                connection "macroexpand-form"
                :form "#.(defparameter cl-user::*aq-read* 1)")))
    (should (eq :error (plist-get reply :outcome)))
    (should (string-match-p "READ-EVAL" (plist-get reply :message))))
  (should (equal '("NIL") (agent-q-image-test-values
                           connection "(boundp 'cl-user::*aq-read*)"))))

;;;; Evaluating

(agent-q-image-test-on-each evaluates-forms-one-by-one ()
  "Every form's values come back, in the package that the forms before it made."
  (should (equal '("3") (agent-q-image-test-values connection "(+ 1 2)")))
  (should (equal '("1" "\"two\"" ":THREE")
                 (agent-q-image-test-values connection "(values 1 \"two\" :three)")))
  (should (equal nil (agent-q-image-test-values connection "(values)")))
  (let ((value (plist-get
                (agent-q-image-test-eval
                 connection "(defpackage #:aq-made (:use #:cl)) (in-package #:aq-made)
                             ; a comment
                             (defun made () 'inside) (made)")
                :value)))
    (should (equal "AQ-MADE" (plist-get value :package)))
    (should (equal '("(defun made () 'inside)" "(made)")
                   (mapcar (lambda (form) (plist-get form :form))
                           (cddr (plist-get value :forms)))))
    (should (equal '("INSIDE") (plist-get (car (last (plist-get value :forms))) :values))))
  (should (equal '("\"AQ-MADE\"")
                 (agent-q-image-test-values connection "(package-name *package*)"
                                            :package "aq-made")))
  (should (string-match-p "Package NOWHERE not found"
                          (plist-get (agent-q-image-test-eval connection "1" :package "nowhere")
                                     :message)))
  (should (string-match-p "no form" (plist-get (agent-q-image-test-eval connection " ; x")
                                               :message))))

(agent-q-image-test-on-each keeps-output-in-its-order ()
  "What is written to the output streams comes in the order of writing, and input is empty."
  (should (equal "a b c\nd"
                 (plist-get
                  (plist-get
                   (agent-q-image-test-eval
                    connection "(progn (princ \"a \") (princ \"b \" *error-output*)
                                  (format *trace-output* \"c~%\") (princ \"d\") nil)")
                   :value)
                  :output)))
  (dolist (form '("(read-line)" "(y-or-n-p \"Sure?\")" "(read *terminal-io*)"))
    (should (equal "END-OF-FILE" (plist-get (agent-q-image-test-eval connection form) :type)))))

(agent-q-image-test-on-each reports-errors-with-their-stack ()
  "An error has its type, message, restarts and frames, and keeps what was done before it."
  (let* ((reply (agent-q-image-test-eval
                 connection
                 "(locally (declare (optimize (debug 2)))
                    (defun aq-inner (x)
                      (restart-case (list (error \"boom ~A\" x))
                        (skip-it () :report \"Skip it.\" nil)))
                    (defun aq-outer (x) (list (aq-inner x))))
                  (princ \"before\")
                  (aq-outer 5)
                  (princ \"after\")"))
         (partial (plist-get reply :value)))
    (should (eq :error (plist-get reply :outcome)))
    (should (equal "SIMPLE-ERROR" (plist-get reply :type)))
    (should (equal "boom 5" (plist-get reply :message)))
    (should (equal '(("SKIP-IT" "Skip it.")) (plist-get reply :restarts)))
    (should (equal '("(AQ-INNER 5)" "(AQ-OUTER 5)") (plist-get reply :frames)))
    (should (equal "before" (plist-get reply :output)))
    (should (equal 2 (length (plist-get partial :forms))))
    (should (equal "(aq-outer 5)" (plist-get partial :current)))))

(agent-q-image-test-on-each survives-all-ways-to-fail ()
  "Whatever a form does, the call ends with a report and no debugger opens."
  (agent-q-image-test-define connection)
  (dolist (case '(("(break)" "SIMPLE-CONDITION" "break")
                  ("(error 'aq-test::trouble)" "AQ-TEST::TROUBLE" "TROUBLE")
                  ("(invoke-debugger (make-condition 'simple-error :format-control \"hi\"))"
                   "SIMPLE-ERROR" "hi")
                  ("(let ((*break-on-signals* 'error)) (ignore-errors (error \"deep\")))"
                   "SIMPLE-CONDITION" "deep")
                  ("(labels ((f (x) (1+ (f x)))) (f 1))" "EXHAUSTED" "stack")
                  ("(make-array (expt 10 11))" "HEAP-EXHAUSTED" "Heap")
                  ("(list 1" "END-OF-FILE" "line 1.*not closed")
                  ("1\n2\n(list \"a)" "END-OF-FILE" "Form 3, which starts at line 3")
                  ("(no-such-package:thing)" "PACKAGE" "NO-SUCH-PACKAGE")
                  (")" "READER-ERROR" "parenthesis")
                  ("#<foo>" "READER-ERROR" "can't be read")))
    (ert-info ((car case))
      (let ((reply (agent-q-image-test-eval connection (car case))))
        (should (eq :error (plist-get reply :outcome)))
        (should (string-match-p (cadr case) (plist-get reply :type)))
        (should (string-match-p (caddr case) (plist-get reply :message))))))
  (should (equal '("3") (agent-q-image-test-values connection "(+ 1 2)"))))

(agent-q-image-test-on-each prints-within-bounds ()
  "Values that are circular, huge, deep or fail to print are harmless."
  (agent-q-image-test-define connection)
  (should (equal '("#1=(1 . #1#)")
                 (agent-q-image-test-values
                  connection "(let ((it (list 1))) (setf (cdr it) it))")))
  (dolist (form '("(make-list 1000000)" "(make-string 3000000 :initial-element #\\x)"
                  "(let ((it nil)) (dotimes (i 100000 it) (setf it (list it))))"
                  "(make-array 100000)" "(expt 7 100000)"))
    (ert-info (form)
      (should (< 3 (length (car (agent-q-image-test-values connection form))) 5000))))
  (should (string-match-p "AQ-TEST::TOUCHY whose printer failed"
                          (car (agent-q-image-test-values
                                connection "(make-instance 'aq-test::touchy)"))))
  (should (string-match-p "printer failed"
                          (car (agent-q-image-test-values
                                connection "(list 1 (make-instance 'aq-test::touchy))"))))
  (let ((output (plist-get (plist-get
                            (agent-q-image-test-eval
                             connection "(dotimes (i 1000000) (write-char #\\x))")
                            :value)
                           :output)))
    (should (string-match-p "992000 more characters of output were dropped" output))))

(agent-q-image-test-on-each strange-characters-pass ()
  "Text with any character goes there and back, or is replaced; the connection lives."
  (should (equal '("\"λ→🦀 \\\\ \\\" ? ;\"")
                 (agent-q-image-test-values connection "\"λ→🦀 \\\\ \\\" ? ;\"")))
  (should (equal '("7") (agent-q-image-test-values
                         connection "(length \"a\\\\b\nc\\\"d\")")))
  (should (equal '("\"a?b^@^[c\"")
                 (agent-q-image-test-values
                  connection "(coerce (list #\\a (code-char #xd800) #\\b (code-char 0)
                                            (code-char 27) #\\c) 'string)")))
  ;; Raw bytes, a surrogate and a NUL on the way there.
  (should (equal '("3") (agent-q-image-test-values
                         connection (concat "(length \"" (string #x3fff80 #xd800 0) "\")"))))
  (should (equal '("2") (agent-q-image-test-values connection "(1+ 1)"))))

;;;; Stopping

(defun agent-q-image-test-start (connection form &optional seconds)
  "Start to evaluate FORM over CONNECTION for SECONDS.
The value is a cons of the request and the list of its ends."
  (let ((started (list (gensym "request"))))
    (agent-q-image-call connection (car started) "eval-form"
                        (prin1-to-string (list :form form)) (or seconds 30)
                        (lambda (status payload)
                          (push (agent-q-test-image-read (cons status payload))
                                (cdr started))))
    started))

(defun agent-q-image-test-end (started)
  "Wait for the end of what `agent-q-image-test-start' STARTED, and return it."
  (agent-q-test-image-await (lambda () (cdr started)))
  (should (= 1 (length (cdr started))))
  (cadr started))

(agent-q-image-test-on-each stops-at-the-deadline ()
  "Code that does not end is stopped, whatever it handles; what it printed is kept."
  (dolist (form '("(progn (princ \"begun\") (loop))"
                  "(progn (princ \"begun\") (sleep 100))"
                  "(progn (princ \"begun\") (loop (handler-case (loop) (serious-condition () nil))))"
                  "(progn (princ \"begun\") (unwind-protect (loop) (princ \" cleaned\")))"
                  "(progn (princ \"begun\") (unwind-protect (loop) (loop)))"
                  "(defclass aq-slow () ())
                   (defmethod print-object ((it aq-slow) stream) (princ \"begun\") (loop))
                   (make-instance 'aq-slow)"))
    (ert-info (form)
      (let ((end (agent-q-image-test-end (agent-q-image-test-start connection form 0.3))))
        (should (equal "timed-out" (car end)))
        (should (eq :cancelled (plist-get (cdr end) :outcome)))
        (should (string-prefix-p "begun" (plist-get (cdr end) :output))))))
  ;; The one that asks is the only one left.
  (should (equal '("1") (agent-q-image-test-values
                         connection "(length agent-q-image::*running*)"))))

(agent-q-image-test-on-each cancels-a-call ()
  "A call that is cancelled ends alone; others go on."
  (let ((other (agent-q-image-test-start connection "(progn (sleep 0.4) :other)"))
        (loops (agent-q-image-test-start connection "(loop)")))
    (agent-q-test-image-await
     (lambda () (equal '("2") (agent-q-image-test-values
                               connection "(1- (length agent-q-image::*running*))")))
     10)
    (agent-q-image-cancel (car loops))
    (agent-q-image-cancel (car loops))
    (agent-q-image-cancel 'nobody)
    (let ((end (agent-q-image-test-end loops)))
      (should (equal "done" (car end)))
      (should (eq :cancelled (plist-get (cdr end) :outcome))))
    (should (eq :returned (plist-get (cdr (agent-q-image-test-end other)) :outcome)))))

(agent-q-image-test-on-each runs-calls-side-by-side ()
  "Eight calls wait together, not one after the other, each with its own output."
  (agent-q-image-test-values connection "(defparameter *aq-here* (list 0))")
  ;; Each waits for all eight to be there, so one after the other would not end.
  (let ((calls (cl-loop for i below 8
                        collect (agent-q-image-test-start
                                 connection
                                 (format "(progn (sb-ext:atomic-incf (car *aq-here*))
                                            (loop until (>= (car *aq-here*) 8)
                                                  do (sleep 0.01))
                                            (princ %d) nil)"
                                         i)))))
    (cl-loop for call in calls
             for i from 0
             for end = (agent-q-image-test-end call)
             do (should (equal (number-to-string i)
                               (plist-get (plist-get (cdr end) :value) :output))))))

(agent-q-image-test-on-each says-when-an-image-does-not-answer ()
  "A call that can't be stopped ends all the same, and the image still serves others."
  (agent-q-image-test-values connection "(defvar *aq-release* nil)")
  (unwind-protect
      (let ((end (agent-q-image-test-end
                  (agent-q-image-test-start
                   connection
                   "(sb-sys:without-interrupts (loop until *aq-release*))" 0.2))))
        (should (equal "unresponsive" (car end)))
        (should (stringp (cdr end)))
        (should (equal '("3") (agent-q-image-test-values connection "(+ 1 2)"))))
    (agent-q-image-test-values connection "(setf *aq-release* t)")
    (agent-q-test-image-await
     (lambda () (equal '("1") (agent-q-image-test-values
                               connection "(length agent-q-image::*running*)")))
     10)))

;;;; The connection

(agent-q-image-test-on-each ships-once-for-concurrent-calls ()
  "Calls made at once on a fresh image make one shipment; a lost package is sent again."
  (agent-q-image-test-values connection "(delete-package :agent-q-image)")
  (let* ((calls (cl-loop repeat 4 collect (agent-q-image-test-start connection "(+ 1 2)"))))
    (dolist (call calls)
      (should (eq :returned (plist-get (cdr (agent-q-image-test-end call)) :outcome)))))
  (let ((version (agent-q-image-test-values connection "(agent-q-image:version)")))
    (should (string-match-p "\\`\"[0-9a-f]\\{40\\}\"\\'" (car version)))))

(agent-q-image-test-on-each a-bug-of-ours-opens-no-debugger ()
  "An error in the Common Lisp half itself ends the call and shows nothing."
  (unwind-protect
      (progn
        (agent-q-image-test-values
         connection "(setf (symbol-function 'aq-kept) #'agent-q-image::reply-text)")
        (agent-q-image-test-eval
         connection "(defun agent-q-image::reply-text (reply)
                       (if (search \"trip\" (prin1-to-string reply))
                           (error \"a bug\")
                           (aq-kept reply)))")
        (let ((end (agent-q-test-image-call connection "eval-form" '(:form "\"trip\""))))
          (should (equal "aborted" (car end)))
          (should (string-match-p "a bug" (cdr end)))))
    (agent-q-image-test-values
     connection "(setf (symbol-function 'agent-q-image::reply-text) #'aq-kept)"))
  (should (equal '("3") (agent-q-image-test-values connection "(+ 1 2)"))))

(agent-q-image-test-on-each leaves-the-user-alone ()
  "Nothing of ours is in the user's packages or output, and their client works."
  (let ((buffer (agent-q-image--ask connection :buffer)))
    (agent-q-image-test-eval connection "(princ \"aq-secret\") (warn \"aq-secret\")")
    (should (equal '("NIL" "NIL")
                   (agent-q-image-test-values connection "(find-symbol \"GUARDED\" :cl-user)")))
    (with-current-buffer buffer
      (should-not (string-match-p "aq-secret\\|AGENT-Q" (buffer-string)))))
  (let (answer)
    (agent-q-image--ask connection :rex '(cl:+ 40 2) t (lambda (result) (setq answer result)))
    (agent-q-test-image-await (lambda () answer))
    (should (equal '(:ok 42) answer)))
  (should (string-match-p "\\`SBCL [0-9.]+.* through SL.*, package COMMON-LISP-USER\\'"
                          (agent-q-image-facts connection)))
  (should (member connection (agent-q-image-connections)))
  (should (stringp (agent-q-image-name connection))))

(agent-q-image-test-on-each refuses-what-can-not-be-sent ()
  "Arguments that no image can read, or that can't be read here, end the call at once."
  (dolist (arguments '("(:form [1 2])" "(:form foo)" "(:form 1.5)" "(:form" ""))
    (let (ends)
      (agent-q-image-call connection 'refused "eval-form" arguments 5
                          (lambda (&rest end) (push end ends)))
      (should (equal '("signalled") (mapcar #'car ends)))
      (should (stringp (cadar ends)))))
  (should (string-match-p "no operation no-such"
                          (plist-get (agent-q-image-test-reply connection "no-such")
                                     :message))))

(ert-deftest agent-q-image-callback-that-fails ()
  "An error in a callback stays where it is."
  (let ((connection (or (agent-q-test-image-connection 'slime)
                        (agent-q-test-image-connection 'sly)))
        (called 0))
    (unless connection (ert-skip "No SBCL"))
    (agent-q-image-call connection 'failing "eval-form" "(:form \"1\")" 10
                        (lambda (&rest _) (cl-incf called) (error "Mine")))
    (agent-q-test-image-await (lambda () (= called 1)))
    (should (= called 1))
    (should (equal '("3") (agent-q-image-test-values connection "(+ 1 2)")))))

(ert-deftest agent-q-image-no-connection ()
  "A call without a connection ends at once, and says so."
  (let (ends)
    (agent-q-image-call nil 'nowhere "eval-form" "(:form \"1\")" 5
                        (lambda (&rest end) (push end ends)))
    (should (equal '(("no-connection" nil)) ends))
    (should (zerop (agent-q-image-pending)))))

;; Named to run last: it ends the images.
(agent-q-image-test-on-each zz-ends-with-the-image ()
  "When the Lisp dies in the middle of calls, each ends once, and later ones at once."
  (let ((calls (list (agent-q-image-test-start connection "(loop)")
                     (agent-q-image-test-start connection "(sleep 100)"))))
    (agent-q-test-image-await
     (lambda () (equal '("3") (agent-q-image-test-values
                               connection "(length agent-q-image::*running*)")))
     10)
    (signal-process (agent-q-test-image-process connection) 'SIGKILL)
    (dolist (call calls)
      (should (equal '("disconnected") (agent-q-image-test-end call)))))
  (should (equal '("no-connection") (agent-q-test-image-call connection "eval-form" nil)))
  (should-not (member connection (agent-q-image-connections))))

(provide 'agent-q-image-test)
;;; agent-q-image-test.el ends here
