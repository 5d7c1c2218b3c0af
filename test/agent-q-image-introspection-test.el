;;; agent-q-image-introspection-test.el --- Following names through the Lisp image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The operations that tell who uses a name and where it is defined, on a real
;; SBCL, the same tests through SLIME and through SLY.

;;; Code:

(require 'ert)
(require 'agent-q-test-program)

;;;; Uses

(agent-q-test-image-on-each tells-who-calls ()
  "Callers come once each, with their number of calls and a line; macros have expanders."
  (agent-q-test-program-file connection)
  (let ((value (agent-q-test-image-value connection "who-calls"
                                         :function "callee" :package "aq-look")))
    (should (equal "AQ-LOOK:CALLEE" (plist-get value :target)))
    (should (equal "function" (plist-get value :kind)))
    (should (= 5 (plist-get value :total)))
    (let* ((users (agent-q-test-program-users value))
           (calls (nth 1 (assoc "AQ-LOOK::CALLER" users))))
      ;; SBCL from 2.6 on records two calls in one function once.
      (should (memq calls '(1 2)))
      (should (= (+ 4 calls) (plist-get value :sites)))
      (should (memq (nth 2 (assoc "AQ-LOOK::CALLER" users)) '(9 10)))
      (should (equal '("AQ-LOOK::USER" 1 13) (assoc "AQ-LOOK::USER" users)))
      (should (cl-find-if (lambda (user) (string-match-p "DEFMETHOD.*AREA.*:BEFORE" (car user)))
                          users))))
  (should (equal '(("AQ-LOOK::USER" 1 13 "expands it"))
                 (agent-q-test-program-users
                  (agent-q-test-image-value connection "who-calls"
                                            :function "aq-look::twice"))))
  ;; What was evaluated calls too, and a name without a function can be called.
  (agent-q-test-image-eval connection "(defun aq-evaluated () (aq-look::lonely) (aq-nowhere))")
  (should (equal '(("AQ-EVALUATED" 1 nil))
                 (agent-q-test-program-users
                  (agent-q-test-image-value connection "who-calls"
                                            :function "aq-look::lonely"))))
  (let ((value (agent-q-test-image-value connection "who-calls" :function "aq-nowhere")))
    (should (equal "undefined" (plist-get value :kind)))
    (should (= 1 (plist-get value :total))))
  (let ((value (agent-q-test-image-value connection "who-calls" :function "aq-look::user")))
    (should (= 0 (plist-get value :total)))
    (should-not (plist-get value :users)))
  (should (string-match-p "CALEE not found.*CALLEE"
                          (agent-q-test-program-miss
                           connection "who-calls" :function "aq-look::calee"))))

(agent-q-test-image-on-each stops-a-search-that-takes-long ()
  "What is called from everywhere is told as far as it was found in time, and that it is not all."
  (agent-q-test-program-file connection)
  (agent-q-test-image-value connection "who-calls" :function "aq-look:callee")
  (agent-q-test-image-directly
   connection "(setf (symbol-value (find-symbol \"*SEARCH-SECONDS*\" \"AGENT-Q-IMAGE\")) -1)")
  (unwind-protect
      (dolist (arguments '((:operation "who-calls" :function "aq-look:callee")
                           (:operation "xref" :kind "callers" :name "aq-look:callee")))
        (let ((value (apply #'agent-q-test-image-value connection
                            (plist-get arguments :operation) (cddr arguments))))
          (should (eq :stopped (plist-get value :cut)))
          (should (< (plist-get value :total) 5))))
    (agent-q-test-image-directly
     connection "(setf (symbol-value (find-symbol \"*SEARCH-SECONDS*\" \"AGENT-Q-IMAGE\")) 1)"))
  (let ((value (agent-q-test-image-value connection "who-calls" :function "aq-look:callee")))
    (should (= 5 (plist-get value :total)))
    (should-not (plist-get value :cut))))

;; In AQ-NOW the second text takes back what the first one does, but for what stays.
(defconst agent-q-image-introspection-test--uses "
(defpackage #:aq-now (:use #:cl)) (in-package #:aq-now)
(defun used () 1) (defvar *set* 1) (defmacro expanded (x) `(list ,x))
(defun calls () (list (used) (expanded 1))) (defun names () (mapcar #'used nil))
(defun within () (flet ((inner (x) (list x (used)))) (mapcar (lambda (y) (inner y)) '(1))))
(let ((n 1)) (defun closes () (list n (used)))) (defun (setf place) (new it) (list new it (used)))
(defmacro expands (x) (list 'list x (used)))
(define-compiler-macro calls (&whole form) (used) form)
(defgeneric area (x)) (defgeneric size (x))
(defmethod area ((x string)) (used)) (defmethod area ((x integer)) (list (used)))
(defmethod size ((x string)) (setf *set* (used))) (defun sets () (setf *set* 2))
(defvar *hook* (lambda () (list (used))))
(declaim (inline inlined)) (defun inlined () (list (used))) (defun inlines () (inlined))
(defun stays () (list (inlined) (expanded 2) (setf *set* (used))))
(defmethod area ((x symbol)) (lambda () (list (used) *set*)))"
  "Uses of a function, a variable and a macro, all that a program has.")

(defconst agent-q-image-introspection-test--no-uses "
(defun calls () 2) (defun names () 2) (defun within () 2) (defun closes () 2) (defun sets () 2)
(defun inlines () 2) (fmakunbound '(setf place)) (fmakunbound 'expands) (fmakunbound 'size)
(setf (compiler-macro-function 'calls) nil *hook* nil)
(remove-method #'area (find-method #'area '() (list (find-class 'string))))
(defmethod area ((x integer)) 2)"
  "What ends most of them.")

(agent-q-test-image-on-each leaves-out-code-that-was-replaced ()
  "What was defined again or removed uses nothing any more, though the journal holds on to it."
  (cl-flet ((users (operation &rest arguments)
              (sort (mapcar (lambda (user)
                              (replace-regexp-in-string "AQ-NOW::" "" (car user)))
                            (agent-q-test-program-users
                             (apply #'agent-q-test-image-value connection operation
                                    :package "aq-now" arguments)))
                    #'string<))
            (compile-text (text &optional package)
              (should-not (plist-get (agent-q-test-image-value connection "compile-form"
                                                               :form text :package package)
                                     :failed))))
    (compile-text agent-q-image-introspection-test--uses)
    (should (equal '("(COMPILER-MACRO CALLS)" "(DEFMETHOD AREA (INTEGER))" "(DEFMETHOD AREA (STRING))"
                     "(DEFMETHOD AREA (SYMBOL))" "(DEFMETHOD SIZE (STRING))" "(LAMBDA NIL)"
                     "(SETF PLACE)" "CALLS" "CLOSES" "EXPANDS" "INLINED" "INLINES" "NAMES" "STAYS"
                     "WITHIN")
                   (users "who-calls" :function "used")))
    (compile-text agent-q-image-introspection-test--no-uses "aq-now")
    ;; A busy machine finds less within its second.
    (agent-q-test-image-directly connection "(setf agent-q-image::*search-seconds* 60)")
    (should (equal '("(DEFMETHOD AREA (SYMBOL))" "INLINED" "STAYS")
                   (users "who-calls" :function "used")))
    (should (equal '("STAYS") (users "who-calls" :function "inlined")))
    (should (equal '("STAYS") (users "who-calls" :function "expanded")))
    (should (equal '("STAYS") (users "xref" :kind "sets" :name "*set*")))
    (should (equal '("(DEFMETHOD AREA (SYMBOL))" "STAYS")
                   (users "who-references" :variable "*set*")))
    (should-not (users "xref" :kind "callers" :name "stays"))
    (agent-q-test-image-directly connection "(setf agent-q-image::*search-seconds* 1)")))

(agent-q-test-image-on-each names-what-can-be-searched-for ()
  "For a program's name that has no use on record, what its files can be searched for is named."
  (agent-q-test-program-file connection)
  (cl-flet ((search (operation &rest arguments)
              (plist-get (apply #'agent-q-test-image-value connection operation
                                :package "aq-look" arguments)
                         :search)))
    (should (equal "lonely" (search "who-calls" :function "lonely")))
    (should (equal "+many+" (search "xref" :kind "binds" :name "+many+")))
    (should (equal "user" (search "xref" :kind "callers" :name "user")))
    (should-not (search "who-calls" :function "callee"))
    (should-not (search "xref" :kind "callees" :name "lonely"))
    (should-not (search "who-calls" :function "sb-ext:gc-logfile"))))

(agent-q-test-image-on-each tells-programs-and-whole-definitions-first ()
  "Programs come before the implementation, and functions within a definition as that."
  (agent-q-test-image-eval
   connection "(defpackage :aq-first (:use :cl)) (in-package :aq-first)
               (defun opens (x) (flet ((one (y) (open y)))
                                  (list (one x) (mapcar (lambda (y) (open y)) x))))
               (defgeneric reads (x)) (defmethod reads ((x string)) (open x))")
  (let* ((value (agent-q-test-image-value connection "who-calls" :function "open" :limit 4))
         (names (mapcar #'car (agent-q-test-program-users value))))
    (should (> (plist-get value :total) 4))
    (should (member "AQ-FIRST::OPENS" names))
    (should (member "(DEFMETHOD AQ-FIRST::READS (STRING))" names))
    (should-not (cl-find-if (lambda (name) (string-match-p "LAMBDA\\|FLET" name)) names)))
  ;; What is no variable has no uses as one.
  (should (string-match-p "AQ-FIRST::OPENS is not a variable; it is a function"
                          (agent-q-test-program-miss
                           connection "xref" :kind "binds" :name "aq-first::opens"))))

(agent-q-test-image-on-each pages-through-many-users ()
  "A function that the whole implementation calls comes in pages, none of them twice."
  (let* ((page (lambda (offset)
                 ;; On a machine that does other things, the search stops before it is done.
                 (agent-q-test-image-await
                  (lambda ()
                    (let ((value (agent-q-test-image-value connection "who-calls" :limit 5
                                                           :function "list" :offset offset)))
                      (and (not (plist-get value :cut)) value))))))
         (first (funcall page 0))
         (second (funcall page 5))
         (names (lambda (value) (mapcar #'car (agent-q-test-program-users value)))))
    ;; Collections of garbage move them in the memory.
    (agent-q-test-image-directly connection "(sb-ext:gc :full t)")
    (should (equal (funcall names first) (funcall names (funcall page 0))))
    (should (> (plist-get first :total) 100))
    (should (= 5 (length (plist-get first :users)) (length (plist-get second :users))))
    (should-not (cl-intersection (funcall names first) (funcall names second)
                                 :test #'equal))
    (should-not (plist-get (agent-q-test-image-value connection "who-calls"
                                                     :function "list" :offset 100000)
                           :users))))

(agent-q-test-image-on-each searches-while-another-thread-compiles ()
  "A search of the memory never waits for a thread that waits for its end."
  (agent-q-test-image-directly
   connection
   "(progn (defparameter *aq-compile* t)
           (defparameter *aq-nursery* (sb-ext:bytes-consed-between-gcs))
           (setf (sb-ext:bytes-consed-between-gcs) 1000000)
           (sb-thread:make-thread
            (lambda ()
              (loop while *aq-compile*
                    do (handler-bind ((warning #'muffle-warning))
                         (compile nil '(lambda (x) (list (funcall (lambda (y) (make-list y)) x)))))
                       ;; Otherwise nobody else can compile.
                       (sleep 0.001)))
            :name \"aq compiler\")
           nil)")
  (unwind-protect
      (dotimes (_ 5)
        (should (< 0 (plist-get (agent-q-test-image-value connection "who-calls"
                                                          :function "list" :limit 5)
                                :total))))
    (agent-q-test-image-directly
     connection "(setf *aq-compile* nil
                       (sb-ext:bytes-consed-between-gcs) *aq-nursery*)")))

(agent-q-test-image-on-each tells-who-references ()
  "The users of a variable, and whether they read, set or bind it."
  (agent-q-test-program-file connection)
  (let ((users (agent-q-test-program-users
                (agent-q-test-image-value connection "who-references"
                                          :variable "*level*" :package "aq-look"))))
    (should (equal '("AQ-LOOK:CALLEE" 1 7 "reads") (assoc "AQ-LOOK:CALLEE" users)))
    (should (equal '("sets" "binds") (cl-set-difference
                                      (cdddr (assoc "AQ-LOOK::USER" users)) '("reads")
                                      :test #'equal))))
  (let ((value (agent-q-test-image-value connection "who-references"
                                         :variable "aq-look::+many+")))
    (should (equal "constant" (plist-get value :kind))))
  (should (equal "no variable"
                 (plist-get (agent-q-test-image-value connection "who-references"
                                                      :variable "aq-look:callee")
                            :kind))))

(agent-q-test-image-on-each tells-other-uses ()
  "Each kind of cross-reference finds its uses, and says when a name is not what it is about."
  (agent-q-test-program-file connection)
  (cl-flet ((users (kind name)
              (mapcar #'car (agent-q-test-program-users
                             (agent-q-test-image-value connection "xref" :kind kind :name name
                                                       :package "aq-look")))))
    (should (equal '("AQ-LOOK::USER") (users "sets" "*level*")))
    (should (equal '("AQ-LOOK::USER") (users "binds" "*level*")))
    (should (equal '("AQ-LOOK::USER") (users "macroexpands" "twice")))
    (should (equal '("AQ-LOOK:CALLEE") (users "callees" "caller")))
    ;; The methods of a generic function call, not itself.
    (should (equal '("AQ-LOOK:CALLEE") (users "callees" "area")))
    ;; Nor is what SBCL makes of code a callee.
    (agent-q-test-image-eval
     connection "(defpackage :aq-callees (:use :cl)) (in-package :aq-callees)
                 (defun callee (x) x) (defgeneric area (it))
                 (defmethod area (it) (list (callee it) (+ (area 1) 2)))
                 (defmethod area :after ((it symbol)) (call-next-method))
                 (defun adds (x) (1+ (callee x)))")
    (should (equal '("AQ-CALLEES::AREA" "AQ-CALLEES::CALLEE")
                   (sort (users "callees" "aq-callees::area") #'string<)))
    (should (equal '("AQ-CALLEES::CALLEE") (users "callees" "aq-callees::adds")))
    (should (equal '(("(DEFMETHOD (SETF AQ-LOOK::AREA) (T AQ-LOOK::SHAPE))" 1 26)
                     ("(DEFMETHOD AQ-LOOK::AREA (AQ-LOOK::SHAPE))" 1 24))
                   (sort (cl-remove-if-not
                          (lambda (user) (string-match-p "AREA" (car user)))
                          (agent-q-test-program-users
                           (agent-q-test-image-value connection "xref" :kind "methods"
                                                     :name "aq-look::shape")))
                         (lambda (one other) (string< (car one) (car other))))))
    ;; Two kinds have another name, which the clients give them.
    (should (member "AQ-LOOK::CALLER" (users "callers" "callee")))
    (should (equal (users "callers" "callee") (users "calls" "callee")))
    (should (equal (users "methods" "shape") (users "specializes" "shape"))))
  (should (string-match-p "CAR is not a class; it is a function"
                          (agent-q-test-program-miss
                           connection "xref" :kind "methods" :name "car")))
  (should (string-match-p "CAR is not a macro"
                          (agent-q-test-program-miss
                           connection "xref" :kind "macroexpands" :name "car")))
  (should (string-match-p "Unknown kind of cross-reference.*callees"
                          (agent-q-test-program-miss
                           connection "xref" :kind "eats" :name "car"))))

;;;; Definitions

(agent-q-test-image-on-each finds-definitions-with-their-source ()
  "Definitions have file, line and text, all kinds of them or the one asked for."
  (let ((file (agent-q-test-program-file connection)))
    (cl-flet ((found (symbol &optional kind)
                (mapcar (lambda (definition)
                          (list (replace-regexp-in-string "AQ-LOOK::?" ""
                                                          (plist-get definition :what))
                                (plist-get definition :where)
                                (car (split-string (plist-get definition :text) "\n"))))
                        (plist-get (agent-q-test-image-value
                                    connection "find-definition"
                                    :symbol symbol :kind kind :package "aq-look")
                                   :definitions))))
      (should (equal `(("(DEFUN CALLER)" ,(concat file ":8") "(defun caller ()"))
                     (found "caller")))
      (should (equal `(("(DEFMACRO TWICE)" ,(concat file ":11")
                        "(defmacro twice (x) `(callee ,x))"))
                     (found "twice")))
      (should (equal `((,(concat file ":4") "(defvar *level* 1)"))
                     (mapcar #'cdr (found "*level*"))))
      (should (equal `((,(concat file ":15") "(defclass shape ()"))
                     (mapcar #'cdr (found "shape" "class"))))
      (should (equal `((,(concat file ":21") "(defstruct point x (y 2 :type fixnum))"))
                     (mapcar #'cdr (found "point"))))
      (should (= 4 (length (found "area"))))
      (should (equal '("(defgeneric area (shape))")
                     (mapcar #'caddr (found "area" "generic-function"))))
      (should (equal 3 (length (found "area" "method"))))
      (should (equal '("(defmethod (setf area) (new (it shape)) (callee new))")
                     (mapcar #'caddr (found "(setf area)"))))))
  (should (string-match-p "is not defined as a macro; it has (DEFUN"
                          (agent-q-test-program-miss
                           connection "find-definition" :symbol "aq-look:callee"
                           :kind "macro"))))

(agent-q-test-image-on-each leaves-out-what-serves-the-compiler ()
  "What only SBCL's compiler knows of a name is told when there is nothing else."
  (dolist (operation '("describe-symbol" "find-definition"))
    (cl-flet ((definitions (symbol)
                (mapcar (lambda (definition) (plist-get definition :what))
                        (plist-get (agent-q-test-image-value connection operation :symbol symbol)
                                   :definitions))))
      (should (equal '("(DEFUN MAPCAR)") (definitions "mapcar")))
      (should (equal '("(:DEF-IR1-TRANSLATOR BLOCK)") (definitions "block"))))))

(agent-q-test-image-on-each finds-definitions-without-a-file ()
  "What was evaluated has its form; what comes from nowhere says so."
  (agent-q-test-image-eval connection "(defun aq-typed (x) \"Doc.\" (list x :typed))")
  (let ((value (agent-q-test-image-value connection "find-definition" :symbol "aq-typed")))
    (should-not (plist-get value :definitions))
    (should (equal "(DEFUN AQ-TYPED (X) \"Doc.\" (LIST X :TYPED))"
                   (replace-regexp-in-string "[ \n]+" " " (plist-get value :evaluated)))))
  (agent-q-test-image-eval connection "'aq-only-a-name")
  (let ((value (agent-q-test-image-value connection "find-definition"
                                         :symbol "aq-only-a-name")))
    (should-not (plist-get value :definitions))
    (should-not (plist-get value :kinds)))
  ;; The implementation knows a file that may not be here.
  (let ((definition (car (plist-get (agent-q-test-image-value
                                     connection "find-definition" :symbol "mapcar")
                                    :definitions))))
    (should (string-match-p "list\\.lisp" (plist-get definition :where)))))

(ert-deftest agent-q-image-source-looks-up-quoted-names ()
  "A file is found by its name, and by the name that is quoted for Emacs."
  (let ((file (make-temp-file "aq-source")))
    (unwind-protect
        (dolist (name (list file (concat "/:" file)))
          (should (equal (list name t)
                         (list name (agent-q-image-source--look-up name "wanted")))))
      (delete-file file))
    (should-not (agent-q-image-source--look-up file "wanted"))))

(agent-q-test-image-on-each reads-what-the-user-has-in-a-buffer ()
  "The source is read where the user edits it, moved and unsaved as it may be."
  (let* ((file (agent-q-test-program-file connection))
         (buffer (find-file-noselect file)))
    (unwind-protect
        (with-current-buffer buffer
          (goto-char (point-min))
          (insert (make-string 30 ?\n))
          (goto-char (point-min))
          (let ((definition (car (plist-get
                                  (agent-q-test-image-value connection "find-definition"
                                                            :symbol "aq-look::caller")
                                  :definitions))))
            (should (equal (concat file ":38") (plist-get definition :where)))
            (should (string-prefix-p "(defun caller ()\n  (callee 1)"
                                     (plist-get definition :text))))
          (should (= (point) (point-min))))
      (with-current-buffer buffer
        (set-buffer-modified-p nil)
        (kill-buffer)))
    (should-not (cl-find-if (lambda (buffer)
                              (string-match-p "agent-q-source" (buffer-name buffer)))
                            (buffer-list)))))

(agent-q-test-image-on-each finds-what-was-compiled-from-a-buffer ()
  "A definition that the user compiled from a buffer without a file is found there."
  (with-temp-buffer
    (rename-buffer "aq-scratch" t)
    (insert "\n\n(defun cl-user::aq-scratched ()\n  :scratch)\n")
    (let (answer)
      (agent-q-test-image-as-user
       connection
       `(,(if (eq 'sly (agent-q-connection-client connection))
              'slynk:compile-string-for-emacs
            'swank:compile-string-for-emacs)
         "(defun cl-user::aq-scratched ()\n  :scratch)" ,(buffer-name)
         '((:position 3) (:line 3 1)) nil nil)
       (lambda (result) (setq answer result)))
      (agent-q-test-image-await (lambda () answer)))
    (let ((definition (car (plist-get (agent-q-test-image-value
                                       connection "find-definition" :symbol "aq-scratched")
                                      :definitions))))
      (should (equal (format "buffer %s:3" (buffer-name)) (plist-get definition :where)))
      (should (equal "(defun cl-user::aq-scratched ()\n  :scratch)"
                     (plist-get definition :text))))))

(ert-deftest agent-q-image-functions-have-names-of-their-own ()
  "No two files of the Common Lisp half define the same function."
  (let ((names nil))
    (dolist (file (directory-files-recursively
                   (expand-file-name "image" (file-name-directory
                                              (locate-library "agent-q-image")))
                   "\\.lisp\\'"))
      (with-temp-buffer
        (insert-file-contents file)
        (while (re-search-forward "^(def\\(?:un\\|macro\\|generic\\) \\([^ (]+\\) " nil t)
          (push (match-string 1) names))))
    (should names)
    (should (equal names (cl-remove-duplicates names :test #'equal)))))

(provide 'agent-q-image-introspection-test)
;;; agent-q-image-introspection-test.el ends here
