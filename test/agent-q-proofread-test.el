;;; agent-q-proofread-test.el --- Tests of checking code in answers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the image says of code that nobody runs, what the chat shows of that, and
;; the keys that Lisp in the log has.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defun agent-q-proofread-test--mistakes (connection texts &optional package)
  "Return what the image behind CONNECTION says of the last of TEXTS in PACKAGE.
Each element is the text of the place and what is wrong with it."
  (let ((texts (ensure-list texts)))
    (mapcar (pcase-lambda (`(,start ,end ,reason))
              (list (substring (car (last texts)) start end) reason))
            (plist-get (agent-q-test-image-value connection "proofread-code" :texts texts
                                                 :package (or package "CL-USER"))
                       :mistakes))))

(defun agent-q-proofread-test--file (name)
  "Return the text of the file NAME of the fixtures."
  (with-temp-buffer
    (insert-file-contents (expand-file-name (concat "test/fixtures/" name) agent-q-test-root))
    (buffer-string)))

(agent-q-test-image-on-each proofreading-finds-nothing-in-ordinary-code ()
  "Not in a page of all that is usual, nor in code of ours."
  (should-not (agent-q-proofread-test--mistakes
               connection (agent-q-proofread-test--file "ordinary.lisp"))))

(agent-q-test-image-on-each proofreading-finds-mistakes ()
  "What the image does not know, and arguments that are too few or too many."
  (pcase-dolist
      (`(,text . ,mistakes)
       '(("(aq-frobnicate 1)" ("aq-frobnicate" "no function or macro AQ-FROBNICATE in COMMON-LISP-USER"))
         ("(print (aq-frobnicate 1))" ("aq-frobnicate" "no function"))
         ("(mapcar #'aq-frobnicate '(1))" ("aq-frobnicate" "no function"))
         ("(ensure-list 1)" ("ensure-list" "There is .*:ENSURE-LIST"))
         ("(car)" ("car" "CAR takes 1 argument, not 0: (LIST)"))
         ("(cons 1)" ("cons" "CONS takes 2 arguments, not 1"))
         ("(gethash 1 2 3 4)" ("gethash" "takes 2 to 3 arguments, not 4"))
         ("(funcall)" ("funcall" "takes at least 1 argument, not 0"))
         ("(make-hash-table :test)" ("make-hash-table" "one has no value"))
         ("(if 1)" ("if" "takes 2 to 3 arguments, not 1"))
         ("(when)" ("when" "at least 1"))
         ("(defun f (a &optional b) (list a b)) (f) (f 1) (f 1 2) (f 1 2 3)"
          ("f" "F takes 1 to 2 arguments, not 0.") ("f" "not 3"))
         ("(flet ((g (x) x)) (g))" ("g" "takes 1 argument, not 0"))
         ("(aq-none:f 1)" ("aq-none:f" "no package AQ-NONE"))
         ("(list 'aq-none:f)" ("aq-none:f" "no package AQ-NONE"))
         ("(uiop:aq-none 1)" ("uiop:aq-none" "no symbol AQ-NONE"))
         ("(in-package :aq-none) (f 1)" (":aq-none" "no package AQ-NONE"))
         ("(defun f (x) (list x)" ("(" "not closed"))
         ("(defun f (x) (list x)\n\n(defun g () (f))" ("(" "not closed") ("f" "takes 1 argument"))
         ("(list 1))" (")" "closes nothing"))
         ("(list \"a)" ("\"" "string is not closed"))))
    (let ((found (agent-q-proofread-test--mistakes connection text)))
      (should (equal (cons text (mapcar #'car found)) (cons text (mapcar #'car mistakes))))
      (cl-mapc (lambda (one other)
                 (should (string-match-p (nth 1 other) (nth 1 one))))
               found mistakes))))

(agent-q-test-image-on-each proofreading-excuses-what-it-can-not-know ()
  "Sessions, outlines, what is defined or loaded in the answer, and macros."
  (dolist (text '("CL-USER> (aq-f 1)\n(AQ-G 2)" "(aq-f 1) => (a b)" "(defun f (x) ..." "* (aq-f)\n3"
                  "(aq-f ...)" "(ql:quickload :x) (x:f 1) (g 2)" "(defwidget aq-w (a) (aq-f))"
                  "(defwidget aq-w (a)) (make-aq-w 1)" "(defun f (x) x) (defun f (x y) y) (f 1) (f 1 2)"
                  "(x :initarg :x)" "(t (list 1))" "((null x) 1)" "(:method ((x y)) 1)"
                  "(loop-with-aq (a 1))" "#?\"x\" (aq-f" "#.(aq-f)" "(list #.(error \"no\") #.*x*)"
                  "(setf (symbol-function 'aq-h) #'car) (aq-h 1)" "'(aq-f (" "" ";; (aq-f" "#|" "#| (|#"))
    (unless (member text '("(loop-with-aq (a 1))" "'(aq-f ("))
      (should (equal (list text (agent-q-proofread-test--mistakes connection text))
                     (list text nil)))))
  ;; Fences of one answer belong together.
  (should-not (agent-q-proofread-test--mistakes
               connection '("(defpackage :aq-p (:use :cl)) (in-package :aq-p)" "(defun aq-f (x) x)" "(aq-f 1)")))
  (should (agent-q-proofread-test--mistakes connection '("(defun aq-f (x) x)" "(aq-f 1 2)"))))

(agent-q-test-image-on-each proofreading-is-harmless ()
  "Nothing is read by the Lisp reader, interned or run, whatever the text."
  (agent-q-test-image-directly
   connection "(progn (defvar cl-user::*aq-ran* nil) (defmacro cl-user::aq-m (&rest x) (setf cl-user::*aq-ran* x)) (set-macro-character #\\! (lambda (s c) (declare (ignore s c)) (setf cl-user::*aq-ran* :read))))")
  (unwind-protect
      (dolist (text (list "(aq-new-name #.(setf *aq-ran* t) (aq-m 1) 'aq-other)" "!(f) (aq-m)"
                          "(list #S(hash-table :a 1) cl::aq-new-name (setf (car) 1))"
                          "(defun car (x) x) (defclass cl:list () ())"
                          (make-string 100000 ?\() (make-string 100000 ?\)) (make-string 100000 ?')
                          (mapconcat #'identity (make-list 20000 "(aq-f 1) ") "")
                          (concat "(list " (make-string 100000 ?x) ")")
                          (concat "\"" (make-string 100000 ?x))
                          "#" "#\\" "#'" "'" "`" "," ",@" "(,@" "#+" "#+a" "|" "\\" "(a . )" "(. a)" "(a . b . c)"
                          "(let)" "(let 1)" "(let ((1 2)) 3)" "(defun)" "(defun f)" "(defun 1 2 3)" "(flet)"
                          "(flet (f))" "(flet ((f)))" "(loop for)" "(loop and)" "(do)" "(do ((a)))" "(defstruct)"
                          "(defstruct ())" "(defclass a)" "(defclass a b c)" "(handler-case)" "(setf a)"
                          "(with-hash-table-iterator)" "(defpackage)" "(defpackage 1 2 (3))" "(in-package)"
                          "(in-package 3)" "(defgeneric)" "(defmethod)" "(defmethod f)" "(lambda)" "((lambda))"
                          "(())" "(nil)" "(function)" "#'(lambda)" "(quote)" "(push)" "(push 1)" "(case)" "::" ":" "a:" "a:b:c"
                          "\0\1\2" "(🙂 λ)" "(cl:car: 1)" "(defun f (&rest) 1) (f)" "(defun f (&key &foo) 1) (f 1)"))
        (let ((reply (agent-q-test-image-call connection "proofread-code"
                                              (list :texts (list text) :package "CL-USER"))))
          (should (equal (list (substring text 0 (min 40 (length text))) (car reply) (nth 2 reply))
                         (list (substring text 0 (min 40 (length text))) "done" :returned)))))
    (should (equal (agent-q-test-image-directly
                    connection
                    "(prog1 (list cl-user::*aq-ran* (find-symbol \"AQ-NEW-NAME\" :cl-user) (find-symbol \"AQ-NEW-NAME\" :cl) (find-symbol \"AQ-OTHER\" :cl-user)) (set-syntax-from-char #\\! #\\a))")
                   "(NIL NIL NIL NIL)"))))

(provide 'agent-q-proofread-test)
;;; agent-q-proofread-test.el ends here
