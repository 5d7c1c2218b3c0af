;;; agent-q-image-operations-test.el --- What the Lisp image is asked  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The operations of the Common Lisp half on a real SBCL, the same tests through
;; SLIME and through SLY.

;;; Code:

(require 'ert)
(require 'agent-q-test-image)

;;;; Names

(agent-q-test-image-on-each tells-what-a-type-stands-for ()
  "A type that is defined by another says which."
  (agent-q-test-image-define connection)
  (should (equal "(INTEGER 0 9)"
                 (plist-get (car (plist-get (agent-q-test-image-value connection "describe-symbol"
                                                                      :symbol "aq-test::small")
                                            :facets))
                            :value))))

(agent-q-test-image-on-each finds-symbols-as-they-are-written ()
  "A symbol is found in every spelling that a Lisp programmer uses."
  (agent-q-test-image-define connection)
  (dolist (text '("mapcar" "MAPCAR" "MapCar" "cl:mapcar" "Common-Lisp::mapcar" "#'mapcar"
                  "'mapcar" " mapcar " "map|CAR|" "\\MAPCAR"))
    (ert-info (text)
      (should (equal '("MAPCAR" "function")
                     (agent-q-test-image-names connection text)))))
  (dolist (case '(("aq-test:shown" "AQ-TEST:SHOWN" "function")
                  ("aq-nick::hidden" "AQ-TEST::HIDDEN" "function" "setf function")
                  ("AQ-Test::|Foo|" "AQ-TEST::|Foo|" "function")
                  ("(setf aq-test::hidden)" "(SETF AQ-TEST::HIDDEN)" "setf function")
                  ("#'(setf aq-test::hidden)" "(SETF AQ-TEST::HIDDEN)" "setf function")
                  ("(SETF gethash)" "(SETF GETHASH)" "setf function")
                  (":test" ":TEST" "keyword")))
    (ert-info ((car case))
      (should (equal (cdr case) (agent-q-test-image-names connection (car case))))))
  (should (equal '("AQ-TEST:SHOWN" "function")
                 (agent-q-test-image-names connection "at:shown" "aq-user")))
  (should (equal '("AQ-TEST::|Foo|" "function")
                 (agent-q-test-image-names connection "|Foo|" ":aq-test"))))

(agent-q-test-image-on-each says-what-there-is-instead ()
  "A name that isn't there gets a sentence that helps, and is not made."
  (agent-q-test-image-define connection)
  (dolist (case '(("mapcr" "Symbol MAPCR not found in package COMMON-LISP-USER.*MAPCAR")
                  ("cl:mapcr" "Symbol MAPCR not found in package COMMON-LISP\\..*MAPCAR")
                  ("+limit+" "not found.*exists elsewhere: .*AQ-TEST::\\+LIMIT\\+")
                  ("aq-nick" "There is a package of that name: call_tool package_info")
                  ("aq-tst:shown" "Package AQ-TST not found.*AQ-TEST")
                  ("|Mapcar|" "Symbol Mapcar not found")
                  ("(car x)" "not a symbol's name")
                  ("" "not a symbol's name")
                  ("a:b:c" "package")
                  ("(setf)" "not a symbol's name")
                  ("|open" "not a symbol's name")))
    (ert-info ((car case))
      (let ((reply (agent-q-test-image-reply connection "describe-symbol"
                                             :symbol (car case))))
        (should (eq :missed (plist-get reply :outcome)))
        (should (string-match-p (cadr case) (plist-get reply :message))))))
  (should (equal '("NIL" "NIL")
                 (agent-q-test-image-values connection "(find-symbol \"MAPCR\")"))))

(agent-q-test-image-on-each respects-the-readtable-case ()
  "Names are read with the case of the readtable in force."
  (agent-q-test-image-define connection)
  (unwind-protect
      (progn
        (agent-q-test-image-eval
         connection "(setf (readtable-case *readtable*) :invert)")
        (should (equal '("mapcar" "function")
                       (agent-q-test-image-names connection "mapcar")))
        (should (equal :missed (plist-get (agent-q-test-image-reply
                                           connection "describe-symbol" :symbol "MAPCAR")
                                          :outcome))))
    (agent-q-test-image-eval connection "(setf (readtable-case *readtable*) :upcase)")))

;;;; Looking

(agent-q-test-image-on-each describes-every-facet ()
  "A description has what the symbol is, with values, arguments and documentation."
  (agent-q-test-image-define connection)
  (cl-flet ((facet (text) (car (plist-get (agent-q-test-image-value
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
                           (agent-q-test-image-eval connection "'aq-test::aq-test")
                           (facet (car case)))
                       (facet (car case)))))
          (cl-loop for (key value) on (cdr case) by #'cddr
                   do (should (equal value (plist-get facet key)))))))))

(agent-q-test-image-on-each describes-what-was-declared-and-put ()
  "Variables have the type that was declared; properties and setf places are told."
  (agent-q-test-image-define connection)
  (agent-q-test-image-eval
   connection
   "(in-package :aq-test)
    (declaim (type fixnum *counted*)) (defvar *counted* 1)
    (defvar *loose* 1)
    (setf (get 'shown :color) \"red\" (get 'shown 'maker) (list 1 2))
    (defun (setf place) (new x) (list new x))
    (defsetf spot set-spot)"
   :package "cl-user")
  (agent-q-test-image-eval
   connection
   "(in-package :aq-test)
    (defclass quiet-one () ())
    (defmethod print-object ((it quiet-one) stream) (write-string \"<>\" stream))
    (defvar *silent* (make-instance 'quiet-one))")
  (cl-flet* ((told (symbol)
               (agent-q-test-image-value connection "describe-symbol" :symbol symbol
                                         :package "aq-test"))
             (facet (symbol key) (plist-get (car (plist-get (told symbol) :facets)) key)))
    (should (equal '("FIXNUM" nil "(INTEGER 2 36)" nil)
                   (mapcar (lambda (name) (facet name :type))
                           '("*counted*" "*loose*" "*print-base*" "+limit+"))))
    (should (equal "AQ-TEST::QUIET-ONE" (facet "*silent*" :value-class)))
    (should-not (facet "*loose*" :value-class))
    (should (equal '(":COLOR \"red\"" "AQ-TEST::MAKER (1 2)")
                   (sort (copy-sequence (plist-get (told "shown") :properties)) #'string<)))
    (should-not (plist-get (told "car") :properties))
    (should (equal "setf function" (facet "place" :kind)))
    (should (equal "setf function" (facet "(setf place)" :kind)))
    (should (equal "setf expander" (facet "spot" :kind)))
    (should (equal "setf expander" (facet "(setf spot)" :kind)))
    ;; What is said of the standard is short, each thing once.
    (should (< (length (facet "format" :documentation)) 400))
    (should (= 1 (cl-count-if (lambda (definition)
                                (string-match-p "DEFINE-SETF" (plist-get definition :what)))
                              (plist-get (told "car") :definitions)))))
  (let ((value (agent-q-test-image-value connection "who-calls" :function "aq-test::place")))
    (should (equal "(SETF AQ-TEST::PLACE)" (plist-get value :target)))
    (should (equal "setf function" (plist-get value :kind)))))

(agent-q-test-image-on-each tells-where-a-definition-is ()
  "A definition from a file comes with the file and the line."
  (let ((file (make-temp-file "agent-q-" nil ".lisp" "\n;; λ\n\n(defun cl-user::aq-placed () 1)\n")))
    (unwind-protect
        (progn
          (agent-q-test-image-eval
           connection
           (format "(let ((*error-output* (make-broadcast-stream))) (load (compile-file %S)))"
                   file))
          (let ((definitions (plist-get (agent-q-test-image-value
                                         connection "describe-symbol" :symbol "aq-placed")
                                        :definitions)))
            (should (equal (format "%s:4" (file-truename file))
                           (plist-get (car definitions) :where)))))
      (delete-file file)
      (ignore-errors (delete-file (concat (file-name-sans-extension file) ".fasl"))))))

(agent-q-test-image-on-each searches-names ()
  "A search counts everything, lists a part, and knows kinds and packages."
  (agent-q-test-image-define connection)
  (cl-flet ((found (&rest arguments)
              (let ((value (apply #'agent-q-test-image-value connection "apropos-search" arguments)))
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
    ;; What means something to the user comes before names of the implementation's insides, and
    ;; what serves this connection is found by its package alone.
    (let ((first (cdr (found :pattern "hash" :limit 10))))
      (dolist (name '("GETHASH" "MAKE-HASH-TABLE" "SXHASH"))
        (should (member name first))))
    (agent-q-test-image-eval connection "(defun aq-test::own-hash-thing () 1)
                                         (defun cl-user::aq-hash-thing () 1)")
    (should (equal '("AQ-HASH-THING" "AQ-TEST::OWN-HASH-THING")
                   (cdr (found :pattern "hash thing"))))
    (agent-q-test-image-eval connection "(progn (defun aq-test::own-thing () 1)
                                                (defun aq-test::thing-of-its-own () 1))")
    (should (equal '(3 "AQ-TEST::OWN-THING")
                   (found :pattern "thing" :package "aq-test" :limit 1)))
    ;; What completes a text comes before what has it inside.
    (should (equal '(:total 3 :names ("AQ-TEST::THING-OF-ITS-OWN" "function"
                                      "AQ-TEST::OWN-THING" "function"
                                      "AQ-TEST::OWN-HASH-THING" "function"))
                   (agent-q-test-image-value connection "complete-symbol"
                                             :word "thing" :package "aq-test")))
    (let ((all (agent-q-test-image-value connection "complete-symbol" :word "e")))
      (should (< 3000 (plist-get all :total)))
      (should (< 100 (length (plist-get all :names)) 401))
      (should (< (length (prin1-to-string (plist-get all :names))) 8000)))
    ;; A symbol is found once, by each package that has it.
    (agent-q-test-image-eval connection "(import 'aq-test::own-thing :cl-user)")
    (should (equal '(1 "OWN-THING") (found :pattern "own-thing")))
    (should (equal '(1 "OWN-THING") (found :pattern "own-thing" :package "cl-user")))
    (dolist (pattern '("operation-describe-symbol" "spawn"))
      (should-not (cl-find-if (lambda (name)
                                (string-match-p "\\`\\(AGENT-Q-IMAGE\\|SLYNK\\|SWANK\\)" name))
                              (cdr (found :pattern pattern)))))
    (should (cdr (found :pattern "create-server"
                        :package (if (eq 'sly (agent-q-connection-client connection))
                                     "slynk"
                                   "swank"))))
    ;; Symbols without a home must not spoil it.
    (agent-q-test-image-eval
     connection "(let ((it (make-symbol \"AQ-HOMELESS\"))) (import it :aq-test))
                 (unintern (find-symbol \"AQ-HOMELESS\" :aq-test) :aq-user)
                 (let ((it (intern \"AQ-LOST\" :aq-user)))
                   (import it :aq-test) (unintern it :aq-user))")
    (should (equal '(1 "#:AQ-LOST") (found :pattern "aq-lost")))))

(agent-q-test-image-on-each tells-lambda-lists ()
  "A lambda list, or what the name is instead."
  (agent-q-test-image-define connection)
  (let ((value (agent-q-test-image-value connection "function-arglist" :function "mapcar")))
    (should (equal "MAPCAR" (plist-get value :name)))
    (should (equal "(FUNCTION LIST &REST MORE-LISTS)" (plist-get value :arglist))))
  (should (equal "()" (plist-get (agent-q-test-image-value
                                  connection "function-arglist"
                                  :function "aq-test::|Foo|")
                                 :arglist)))
  (should (equal "(NEW PLACE)" (plist-get (agent-q-test-image-value
                                           connection "function-arglist"
                                           :function "(setf aq-test::hidden)")
                                          :arglist)))
  (should (string-match-p "is not a function.*variable"
                          (plist-get (agent-q-test-image-reply
                                      connection "function-arglist"
                                      :function "aq-test::*level*")
                                     :message))))

(agent-q-test-image-on-each expands-macros ()
  "Each way to expand expands as far as it says."
  (agent-q-test-image-define connection)
  (cl-flet ((expansion (form &rest arguments)
              (replace-regexp-in-string
               "[ \n]+" " "
               (plist-get (apply #'agent-q-test-image-value connection "macroexpand-form"
                                 :form form :package "aq-test" arguments)
                          :expansion))))
    (should (equal "(IF T 1)" (expansion "(when t 1)")))
    (should (equal "(PROGN (TWICE 1) (TWICE 1))" (expansion "(twice (twice 1))" :full t)))
    (should-not (string-match-p "TWICE" (expansion "(twice (twice 1))" :mode "all")))
    (should (equal "(QUICK 3)" (expansion "(shown 3 :y 2)" :mode "compiler")))
    (should (equal "(CAR X)" (expansion "(car x)")))))

;;;; Evaluating

(agent-q-test-image-on-each evaluates-forms-one-by-one ()
  "Every form's values come back, read in the package that is named."
  (should (equal '("3") (agent-q-test-image-values connection "(+ 1 2)")))
  (should (equal '("1" "\"two\"" ":THREE")
                 (agent-q-test-image-values connection "(values 1 \"two\" :three)")))
  (agent-q-test-image-define connection)
  (should (equal '("\"AQ-TEST\"")
                 (agent-q-test-image-values connection "(package-name *package*)"
                                            :package "aq-test")))
  (should (string-match-p "Package NOWHERE not found"
                          (plist-get (agent-q-test-image-eval connection "1" :package "nowhere")
                                     :message)))
  (should (string-match-p "no form" (plist-get (agent-q-test-image-eval connection " ; x")
                                               :message))))

(agent-q-test-image-on-each keeps-output-in-its-order ()
  "What is written to the output streams comes in the order of writing, and input is empty."
  (should (equal "a b c\nd"
                 (plist-get
                  (plist-get
                   (agent-q-test-image-eval
                    connection "(progn (princ \"a \") (princ \"b \" *error-output*)
                                  (format *trace-output* \"c~%\") (princ \"d\") nil)")
                   :value)
                  :output)))
  (dolist (form '("(read-line)" "(y-or-n-p \"Sure?\")" "(read *terminal-io*)"))
    (should (equal "END-OF-FILE" (plist-get (agent-q-test-image-eval connection form) :type)))))

(agent-q-test-image-on-each shows-no-machinery-in-the-first-error ()
  "The frames of an image that has just got our half are the program's, too."
  (let ((fresh (agent-q-test-image-another (agent-q-connection-client connection))))
    (unwind-protect
        (should (equal '("(CAR #(1))")
                       (plist-get (agent-q-test-image-eval fresh "(car (vector 1))") :frames)))
      (agent-q-test-image-kill fresh))))

(agent-q-test-image-on-each expands-before-anything-is-compiled ()
  "What expands a form as it was assessed may be interpreted still, and expand macros of its own."
  (let ((fresh (agent-q-test-image-another (agent-q-connection-client connection))))
    (unwind-protect
        (progn
          (agent-q-test-image-value fresh "assess-form" :form "(when 1 2)"
                                    :purpose "expand" :mode "once")
          (should (equal "(IF 1\n    2)"
                         (plist-get (agent-q-test-image-value fresh "macroexpand-form"
                                                              :form "(when 1 2)")
                                    :expansion))))
      (agent-q-test-image-kill fresh))))

(agent-q-test-image-on-each reports-errors-with-their-stack ()
  "An error has its type, message, restarts and frames, and keeps what was done before it."
  (let* ((reply (agent-q-test-image-eval
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
    (should (equal '("" "before") (mapcar (lambda (form) (plist-get form :output))
                                          (plist-get partial :forms))))
    (should (equal "(aq-outer 5)" (plist-get partial :current)))))

(agent-q-test-image-on-each shows-the-arguments-that-were-given ()
  "An argument by keyword that wasn't given has its default, and no value is shown; each that was given is."
  (cl-flet ((frames (call)
              (plist-get (agent-q-test-image-eval connection call) :frames)))
    (agent-q-test-image-eval
     connection
     "(defvar *aq-separator* #\\,)
      (compile (defun aq-keys (x &key (separator *aq-separator*) (quote nil quote-p) (limit 10) plain)
                 (list (car (identity x)) separator quote quote-p limit plain)))
      (defgeneric aq-keyed (x &key separator))
      (defmethod aq-keyed ((x vector) &key (separator *aq-separator*))
        (list (car (identity (the t x))) separator))")
    (should (equal (frames "(aq-keys \"a :SEPARATOR NIL\")") '("(AQ-KEYS \"a :SEPARATOR NIL\" :LIMIT 10 :PLAIN NIL)")))
    (should (equal (frames "(aq-keys \"a\" :quote nil :separator nil)")
                   '("(AQ-KEYS \"a\" :SEPARATOR NIL :QUOTE NIL :LIMIT 10 :PLAIN NIL)")))
    (should (equal (frames "(aq-keys \"a\" :separator #\\;)")
                   '("(AQ-KEYS \"a\" :SEPARATOR #\\; :LIMIT 10 :PLAIN NIL)")))
    ;; Newer SBCLs don't keep for a method whether it was given.
    (should (member (frames "(aq-keyed \"a\")")
                    '(("((:METHOD AQ-KEYED (VECTOR)) \"a\")")
                      ("((:METHOD AQ-KEYED (VECTOR)) \"a\" :SEPARATOR #<unused argument>) [fast-method]"))))
    (should (equal (frames "(aq-keyed \"a\" :separator nil)")
                   '("((:METHOD AQ-KEYED (VECTOR)) \"a\" :SEPARATOR #<unused argument>) [fast-method]")))))

(provide 'agent-q-image-operations-test)
;;; agent-q-image-operations-test.el ends here
