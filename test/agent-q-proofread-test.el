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
  (dolist (text '("CL-USER> (aq-f 1)\n(AQ-G 2)" "(aq-f 1) => (a b)" "(defun f (x) ..." "(defun f (x)\n  ;; ..." "* (aq-f)\n3"
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

;;;; In a chat

(defmacro agent-q-proofread-test--with-chat (&rest body)
  "Run BODY in a chat on CONNECTION."
  (declare (indent 0) (debug t))
  `(agent-q-test-with-chat
     (setq agent-q-session-connection connection)
     ,@body))

(defun agent-q-proofread-test--answer (&rest codes)
  "Show an answer with CODES, each a text or a cons of a language and a text."
  (dolist (code codes)
    (pcase-let ((`(,language . ,text) (if (consp code) code (cons "lisp" code))))
      (agent-q-test-event :text :text (format "So:\n\n- it:\n\n  ```%s\n%s\n  ```\n\n" language
                                              (replace-regexp-in-string "^" "  " text)))))
  (agent-q-test-event :turn-ended :outcome :finished)
  (agent-q-code-highlight-flush))

(defun agent-q-proofread-test--done ()
  "Wait until nothing is to be checked."
  (agent-q-test-until (not (or agent-q-code--proofread-waiting agent-q-code--proofread-asked))))

(defun agent-q-proofread-test--marks ()
  "Return what is marked in the chat, in order, each with the reason."
  (agent-q-proofread-test--done)
  (mapcar (lambda (mark)
            (list (buffer-substring-no-properties (overlay-start mark) (overlay-end mark))
                  (overlay-get mark 'help-echo)))
          (sort (seq-filter (lambda (overlay) (overlay-get overlay 'agent-q-mistake))
                            (overlays-in (point-min) (point-max)))
                (lambda (one other) (< (overlay-start one) (overlay-start other))))))

(agent-q-test-image-on-each code-in-answers-is-checked ()
  "Marks are where the mistakes are, through the gutters of lists, with their reasons."
  (agent-q-proofread-test--with-chat
    (agent-q-proofread-test--answer "(defun aq-f (x)\n  (list x))" "(list (aq-f 1)\n      (aq-f 1 2)\n      (aq-g 3))")
    (should (equal (mapcar #'car (agent-q-proofread-test--marks)) '("aq-f" "aq-g")))
    (agent-q-test-find "aq-f 1 2")
    (should (get-char-property (point) 'agent-q-mistake))
    (should (memq 'agent-q-mistake (ensure-list (get-char-property (point) 'face))))
    (should (equal (agent-q-code-proofread-eldoc #'ignore) "AQ-F takes 1 argument, not 2."))
    (agent-q-test-find "aq-f 1)")
    (should-not (agent-q-code-proofread-eldoc #'ignore)))
  ;; What is too long ago may have defined anything.
  (agent-q-proofread-test--with-chat
    (agent-q-proofread-test--answer "(defun aq-f (x)\n  (list x))" (concat ";" (make-string 30000 ?x)) "(aq-f 1) (aq-g) (car)")
    (should (equal (mapcar #'car (agent-q-proofread-test--marks)) '("car"))))
  ;; A turn of its own knows nothing of the last.
  (agent-q-proofread-test--with-chat
    (agent-q-proofread-test--answer "(defun aq-f (x) x)")
    (agent-q-test-event :turn-started :turn 2 :text "again")
    (agent-q-proofread-test--answer "(aq-f 1)")
    (should (equal (mapcar #'car (agent-q-proofread-test--marks)) '("aq-f")))))

(agent-q-test-image-on-each code-is-checked-only-where-it-should-be ()
  "Not without the option, in other languages, or without an image."
  (agent-q-proofread-test--with-chat
    (agent-q-proofread-test--answer '("" . "(aq-f)") '("scheme" . "(aq-f)") '("asd" . "(aq-f)")
                                    '("elisp" . "(aq-f)") '("text" . "(aq-f)"))
    (let ((agent-q-code-check nil))
      (agent-q-proofread-test--answer "(aq-f)"))
    (should-not (agent-q-proofread-test--marks))
    (setq agent-q-session-connection nil)
    (agent-q-proofread-test--answer "(aq-f)")
    (should-not (agent-q-proofread-test--marks))))

(agent-q-test-image-on-each code-is-checked-in-the-package-of-the-repl ()
  "And in that which the answer enters."
  (agent-q-test-image-directly
   connection "(progn (defpackage :aq-bank (:use :cl) (:export deposit)) (eval (read-from-string \"(defun aq-bank::deposit (account amount) (list account amount))\")))")
  (agent-q-proofread-test--with-chat
    (agent-q-proofread-test--answer "(deposit 1 2)" "(in-package :aq-bank)" "(deposit 1 2)" "(deposit 1)")
    (should (equal (agent-q-proofread-test--marks)
                   '(("deposit" "There is no function or macro DEPOSIT in COMMON-LISP-USER. There is AQ-BANK:DEPOSIT.")
                     ("deposit" "DEPOSIT takes 2 arguments, not 1: (ACCOUNT AMOUNT)"))))
    ;; The arguments and the definition are looked for there, too.
    (agent-q-test-find "1)\n  ```")
    (let ((said nil))
      (should (agent-q-names-eldoc (lambda (text &rest _) (setq said text))))
      (agent-q-test-until said)
      (should (equal (downcase said) "(deposit account amount)")))))

(agent-q-test-image-on-each code-is-meant-for-packages-of-the-program ()
  "Such code says nothing of its package; the REPL need not be in it."
  (agent-q-test-image-directly
   connection "(progn (defpackage :aq-till (:use :cl) (:export aq-open)) (eval (read-from-string \"(defun aq-till::aq-open () 1)\")) (eval (read-from-string \"(defun aq-till::aq-count () 1)\")))")
  ;; An inner function gives the package away.
  (should-not (agent-q-proofread-test--mistakes connection "(aq-open) (aq-count)"))
  (should (agent-q-proofread-test--mistakes connection "(aq-open)"))
  (should (agent-q-proofread-test--mistakes connection "(aq-count) (aq-none)"))
  (should (agent-q-proofread-test--mistakes connection "(cl-user::aq-count)"))
  ;; So does the source that the user works in.
  (with-temp-buffer
    (lisp-mode)
    (rename-buffer "till.lisp" t)
    (insert "(in-package #:aq-till)\n")
    (agent-q-proofread-test--with-chat
      (agent-q-proofread-test--answer "(aq-open) (aq-none)")
      (should (equal (mapcar #'car (agent-q-proofread-test--marks)) '("aq-none"))))))

(agent-q-test-image-on-each an-image-that-does-not-answer-gives-no-marks ()
  "Nothing is said of it, and Emacs does not wait."
  (let ((other (agent-q-test-image-another (agent-q-connection-client connection)))
        (agent-q-module-log-failed nil))
    (unwind-protect
        (agent-q-test-with-chat
          (setq agent-q-session-connection other)
          (agent-q-proofread-test--answer "(aq-f)")
          (should (agent-q-proofread-test--marks))
          (mapc #'delete-overlay (overlays-in (point-min) (point-max)))
          ;; A stopped process hears nothing.
          (signal-process (agent-q-test-image-process other) 'SIGSTOP)
          (let ((agent-q-code--proofread-seconds 0.2))
            (agent-q-proofread-test--answer "(aq-f)" "(aq-g)")
            (agent-q-test-until agent-q-code--proofread-asked)
            (should (equal (length agent-q-code--proofread-waiting) 1))
            (should-not (agent-q-proofread-test--marks)))
          ;; Nor does one that is gone.
          (agent-q-proofread-test--answer "(aq-h)")
          (agent-q-test-until agent-q-code--proofread-asked)
          (signal-process (agent-q-test-image-process other) 'SIGKILL)
          (should-not (agent-q-proofread-test--marks))
          (should-not agent-q-module-log-failed))
      (agent-q-test-image-kill other))))

(agent-q-test-image-on-each lisp-in-the-log-has-the-keys-of-a-source-buffer ()
  "Definition, description and arguments come from the client."
  (let ((file (make-temp-file (expand-file-name "keys" agent-q-test-directory) nil ".lisp"
                              "(cl:in-package :cl-user)\n(defun aq-there (one two)\n  \"Say it.\"\n  (list one two))\n")))
    (agent-q-test-image-load connection file)
    (agent-q-proofread-test--with-chat
      (agent-q-proofread-test--answer "(list (aq-there 1 2) 'b)")
      (should-not (agent-q-proofread-test--marks))
      (agent-q-test-find "there 1")
      (should (equal (agent-q-names-symbol) "aq-there"))
      (should (eq (key-binding (kbd "M-.")) #'agent-q-names-find-definition))
      (should (eq (key-binding (kbd "C-c C-d d")) #'agent-q-names-describe))
      (let ((said nil))
        (should (agent-q-names-eldoc (lambda (text &rest _) (setq said text))))
        (agent-q-test-until said)
        (should (equal (downcase said) "(aq-there one two)")))
      (save-window-excursion
        (call-interactively (key-binding (kbd "C-c C-d d")))
        (agent-q-test-until
         (seq-some (lambda (buffer)
                     (with-current-buffer buffer
                       (and (string-match-p "description" (buffer-name))
                            (agent-q-test-shows "Say it."))))
                   (buffer-list))))
      (save-window-excursion
        (agent-q-test-press "M-.")
        (agent-q-test-until (equal (buffer-file-name (window-buffer)) (file-truename file)))
        (with-current-buffer (window-buffer)
          (should (looking-at-p "(defun aq-there"))
          (set-buffer-modified-p nil)))
      (agent-q-test-find "So:")
      (should-not (agent-q-names-eldoc #'ignore)))))

(agent-q-test-image-on-each symbols-are-completed-at-the-prompt ()
  "Text that is no symbol stays as it is."
  (agent-q-proofread-test--with-chat
    (cl-flet ((completed (text &optional command)
                (agent-q-prompt-replace text)
                (let ((this-command command))
                  (completion-at-point))
                (agent-q-prompt-text)))
      (should (equal (completed "see (multiple-value-b") "see (multiple-value-bind"))
      (should (equal (completed "what is cl:destructuring-") "what is cl:destructuring-bind"))
      (should (equal (completed "use #'remove-if-n") "use #'remove-if-not"))
      (should (equal (completed "try destruct" 'completion-at-point) "try destructuring-bind"))
      ;; Unless somebody asks for it, a word is a word.
      (should (equal (completed "try destruct") "try destruct"))
      (should (equal (completed "Hello, worl" 'completion-at-point) "Hello, worl"))
      (should (equal (completed "so far" nil) "so far"))
      (should (equal (completed "/describe_sy") "/describe_symbol "))
      (should (eq (key-binding (kbd "C-M-i")) #'completion-at-point)))
    (setq agent-q-session-connection nil)
    (agent-q-prompt-replace "(multiple-value-b")
    (completion-at-point)
    (should (equal (agent-q-prompt-text) "(multiple-value-b"))))

(provide 'agent-q-proofread-test)
;;; agent-q-proofread-test.el ends here
