;;; agent-q-compile-file-test.el --- compile_file, and what compile_form replaces  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Compiling definitions of files, through core and chat on real SLIME and SLY;
;; and the way to a definition that the user has in these clients.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)

(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)

(defconst agent-q-compile-file-test--source "(defpackage :aq-shop (:use :cl))
(in-package :aq-shop)
(defvar *tax* 2)

(defgeneric price (it))
(defmethod price ((it integer))
  (* *tax* it))
(defun total (items)
  (reduce #'+ items :key #'price))
(setf *readtable* (copy-readtable))
(eval-when (:compile-toplevel :load-toplevel :execute)
  (set-dispatch-macro-character
   #\\# #\\? (lambda (stream a b) (declare (ignore a b)) (list 'list :read (read stream t nil t)))
   *readtable*))
(defun marked ()
  #?1)
(defun broken (x)
  (list y))
#+sbcl
(defun chosen ()
  1)
"
  "The text of a file, with a readtable of its own.")

(defmacro agent-q-compile-file-test--with-file (load &rest body)
  "Run BODY with a file of the source in the project, as FILE.
The image has loaded it if LOAD is non-nil."
  (declare (indent 1) (debug t))
  `(let ((file (expand-file-name (make-temp-name "aq-shop-") default-directory)))
     (setq file (file-truename (concat file ".lisp")))
     (write-region agent-q-compile-file-test--source nil file nil 'silent)
     (set-file-times file (time-subtract nil 1000))
     (unwind-protect
         (progn
           (when ,load
             (agent-q-test-image-eval
              connection
              (format "(let ((*error-output* (make-broadcast-stream))
                             (*standard-output* (make-broadcast-stream))
                             (*readtable* *readtable*))
                         (load (compile-file %S :output-file \"/tmp/aq-shop.fasl\")))" file)))
           ,@body)
       (when (find-buffer-visiting file)
         (with-current-buffer (find-buffer-visiting file)
           (set-buffer-modified-p nil)
           (kill-buffer)))
       (delete-file file))))

(defun agent-q-compile-file-test--replace (file from to)
  "Replace FROM in FILE by TO."
  (with-temp-buffer
    (insert-file-contents file)
    (goto-char (point-min))
    (search-forward from)
    (replace-match to t t)
    ;; As other programs do, behind the back of the buffer that visits it.
    (let ((new (make-temp-file "agent-q-")))
      (write-region nil nil new nil 'silent)
      (rename-file new file t))))

(defun agent-q-compile-file-test--place (client name)
  "Return where CLIENT's way to the definition of NAME leads: a file and a line's text."
  (agent-q-test-tools-repl client)
  (let* ((definitions nil)
         (process (agent-q-connection-process
                   (agent-q-test-image-connection client)))
         (slime-dispatching-connection process)
         (sly-dispatching-connection process))
    (setq definitions
          (agent-q-test-tools-client-call
           client "eval"
           (list (if (eq client 'sly) 'slynk:find-definitions-for-emacs
                   'swank:find-definitions-for-emacs)
                 name)))
    (save-window-excursion
      (save-current-buffer
        (agent-q-test-tools-client-call
         client (if (eq client 'sly) "move-to-source-location" "goto-source-location")
         (cadr (car definitions)))
        (list (or buffer-file-name (buffer-name))
              (buffer-substring-no-properties (line-beginning-position)
                                              (line-end-position)))))))

(agent-q-test-tools-on-each compile-form-keeps-the-way-to-a-file ()
  "What is compiled in place of a file's definition says so, and leads to the file."
  (agent-q-compile-file-test--with-file t
    (should (equal (format "Compiled and loaded; no warnings.\nIt replaces (DEFUN AQ-SHOP::TOTAL) of %s:8; the file still has the old one."
                           file)
                   (agent-q-test-tools-ask
                    "/compile_form package=aq-shop (defun total (items)\n  (list :new items))")))
    (let ((found (agent-q-test-tools-ask "/find_definition aq-shop::total")))
      (should (string-search
               (format "(DEFUN AQ-SHOP::TOTAL) no file, by compile_form (the file still has its own version, at %s:8)\n(defun total (items)\n  (list :new items))"
                       file)
               found)))
    (should (equal (list file "(defun total (items)")
                   (agent-q-compile-file-test--place client "aq-shop::total")))
    ;; Once more, of a method, and with the file moved on.
    (agent-q-test-tools-ask "/compile_form package=aq-shop (defun total (items) (list :newer items))")
    (agent-q-compile-file-test--replace file "(defvar *tax*" "(defvar *more* 1)\n(defvar *tax*")
    (should (string-suffix-p
             (format "It replaces (DEFMETHOD AQ-SHOP::PRICE (INTEGER)) of %s:7; the file still has the old one."
                     file)
             (agent-q-test-tools-ask
              "/compile_form package=aq-shop (defmethod price ((it integer)) (list *tax* it))")))
    (should (string-search (format "of %s:9; the file" file)
                           (agent-q-test-tools-ask
                            "/compile_form package=aq-shop (defun total (items) (list :newest items))")))
    ;; The file gets the same text.
    (agent-q-compile-file-test--replace
     file "(defun total (items)\n  (reduce #'+ items :key #'price))"
     "(defun total (items)\n  (list :newest items))")
    (should (string-search (format "%s:9 (compiled by compile_form, from the same text)" file)
                           (agent-q-test-tools-ask "/find_definition aq-shop::total")))
    ;; What is in no file can be shown, too.
    (agent-q-test-tools-ask "/compile_form package=aq-shop (defun fresh (x)\n  (list x))")
    (should (equal (list "*agent-q compiled forms*" "(defun fresh (x)")
                   (agent-q-compile-file-test--place client "aq-shop::fresh")))
    (should (equal "(DEFUN AQ-SHOP::FRESH) no file, by compile_form\n(defun fresh (x)\n  (list x))"
                   (agent-q-test-tools-ask "/find_definition aq-shop::fresh")))))

(agent-q-test-tools-on-each compile-says-little-of-many-forms ()
  "What worked is no failure because there is too much to say of it."
  (let* ((forms (mapcar (lambda (number) (format "(defun aq-many-%d () aq-unknown-%d)" number number))
                        (number-sequence 1 80)))
         (file (make-temp-file (expand-file-name "aq-many" default-directory) nil ".lisp"
                               (string-join forms "\n"))))
    (unwind-protect
        (let ((told (agent-q-test-tools-ask (format "/compile_file path=%s" file))))
          (should (string-prefix-p "Compiled and loaded " told))
          (should (string-match-p "undefined variable: .*AQ-UNKNOWN-1$" told))
          (should (string-search "(20 more notes)" told))
          (setq told (agent-q-test-tools-ask (concat "/compile_form " (string-join (seq-take forms 60) "\n"))))
          (should (string-prefix-p "Compiled and loaded 60 forms" told))
          (should (string-search "It replaces (DEFUN AQ-MANY-50) of " told))
          (should-not (string-search "It replaces (DEFUN AQ-MANY-51) of " told))
          (should (string-search "(It replaced 10 more definitions like these.)" told)))
      (delete-file file))))

(agent-q-test-tools-on-each compile-form-carries-the-readtable ()
  "Forms are read with the readtable that the forms before them left."
  (let ((told (agent-q-test-tools-ask
               "/compile_form (setf *readtable* (copy-readtable nil)) (eval-when (:compile-toplevel :load-toplevel :execute) (set-macro-character #\\! (lambda (s c) (declare (ignore c)) (list 'list :bang (read s t nil t))))) (defun aq-bang () !3)")))
    (should (equal "Compiled and loaded 3 forms; no warnings." told))
    (should (equal '("((:BANG 3) NIL)")
                   (agent-q-test-image-values
                    connection "(list (aq-bang) (get-macro-character #\\!))"))))
  (should (string-prefix-p "=> #<READTABLE"
                           (car (last (split-string
                                       (agent-q-test-tools-ask
                                        "/eval_form (setf *readtable* (copy-readtable nil)) (set-macro-character #\\! (lambda (s c) (declare (ignore c)) (list 'list :bang (read s t nil t)))) !3 *readtable*")
                                       "\n"))))))

(agent-q-test-tools-on-each compile-form-says-what-is-in-the-image ()
  "A form that fails ends the call as a failure, which says what the image has."
  (let ((told (agent-q-test-tools-ask
               "/compile_form (defun aq-first () 1)\n(defun aq-second () (no-such-package:f))\n(defun aq-third () 3)")))
    (should (string-prefix-p
             "The compiler failed on form 2: (defun aq-second () (no-such-package:f))\nThe form before it is compiled and in the image.\nThe forms after it were not compiled.\nread-error at 2:"
             told))
    (should (equal '("(T NIL)")
                   (agent-q-test-image-values
                    connection "(list (and (fboundp 'aq-first) t) (fboundp 'aq-third))"))))
  (should (string-match-p
           "\\`Error END-OF-FILE: Form 2, \\(.*\n\\)+The form before it is compiled and in the image\\.\\'"
           (agent-q-test-tools-ask "/compile_form (defun aq-fourth () 1)\n(defun aq-b ()"))))

(agent-q-test-tools-on-each compile-file-compiles-one-definition ()
  "A definition is compiled as the file has it now, in its place."
  (agent-q-compile-file-test--with-file t
    (agent-q-compile-file-test--replace file "(defvar *tax* 2)" "(defvar *tax* 2)\n(defun more ()\n  1)\n")
    (agent-q-compile-file-test--replace file "(* *tax* it)" "(list :price *tax* it)")
    (should (equal (format "Compiled and loaded price (integer) of %s; no warnings." file)
                   (agent-q-test-tools-ask
                    (format "/compile_file path=%s name=\"price (integer)\"" file))))
    (should (equal '("(:PRICE 2 3)")
                   (agent-q-test-image-values connection "(aq-shop::price 3)")))
    (let ((found (agent-q-test-tools-ask "/find_definition aq-shop::price (integer)")))
      (should (string-search (format "%s:9\n(defmethod price ((it integer))" file) found)))
    ;; It may move; but what is quoted as it is now says when it was not compiled like that.
    (agent-q-compile-file-test--replace file "(defun more ()\n  1)" "(defun more ()\n  1)\n\n")
    (should (string-search (format "%s:11\n(defmethod price ((it integer))" file)
                           (agent-q-test-tools-ask "/find_definition aq-shop::price (integer)")))
    (agent-q-compile-file-test--replace file "(list :price *tax* it)" "(list :cost *tax* it)")
    (should (string-search
             (format "%s:11 (the file has changed since it was loaded)\n(defmethod price" file)
             (agent-q-test-tools-ask "/find_definition aq-shop::price (integer)")))
    (should (string-search (concat file " (the file has changed since it was loaded)\n")
                           (agent-q-test-tools-ask "/who_references aq-shop::*tax*")))
    (agent-q-compile-file-test--replace file "(defun more ()\n  1)\n\n" "(defun more ()\n  1)")
    ;; A feature expression is not quoted, but compiled.
    (agent-q-test-tools-ask (format "/compile_file path=%s name=chosen" file))
    (should (string-suffix-p (format "%s:23\n(defun chosen ()\n  1)" file)
                             (agent-q-test-tools-ask "/find_definition aq-shop::chosen")))
    ;; What only says how to read the definition is no form before it.
    (agent-q-compile-file-test--replace file "(defun chosen ()\n  1)" "(defun chosen ()\n  (aq-none:f))")
    (let ((told (agent-q-test-tools-ask (format "/compile_file path=%s name=chosen" file))))
      (should (string-match-p "^read-error at .*:24:" told))
      (should-not (string-search "before it" told)))
    ;; With the readtable of its place, and notes with the lines of the file.
    (agent-q-compile-file-test--replace file "#?1)" "#?2)")
    (agent-q-test-tools-ask (format "/compile_file path=%s name=marked" file))
    (should (equal '("(:READ 2)") (agent-q-test-image-values connection "(aq-shop::marked)")))
    (should (equal (list file "(defun marked ()")
                   (agent-q-compile-file-test--place client "aq-shop::marked")))
    (should (string-match-p
             (format "^warning at .*%s:21:3: undefined variable: .*Y$" (regexp-quote (file-name-nondirectory file)))
             (agent-q-test-tools-ask (format "/compile_file path=%s name=broken" file))))
    ;; So are its frames.
    (should (string-search (format "  (AQ-SHOP::BROKEN #<unused argument>)  [%s:21]" file)
                           (agent-q-test-tools-ask "/eval_form (aq-shop::broken 7)")))
    (should (string-match-p "\\`Nothing in the file defines nothing"
                            (agent-q-test-tools-ask
                             (format "/compile_file path=%s name=nothing" file))))
    ;; A buffer with unsaved changes is what the user means.
    (with-current-buffer (find-file-noselect file)
      (goto-char (point-min))
      (search-forward "#'price")
      (replace-match "(lambda (it) (* 10 it))" t t))
    (should (string-suffix-p
             (format "(Compiled from the user's buffer %s, which has unsaved changes.)"
                     (file-name-nondirectory file))
             (agent-q-test-tools-ask (format "/compile_file path=%s name=total" file))))
    (should (equal '("30") (agent-q-test-image-values connection "(aq-shop::total '(1 2))")))
    (should (string-match-p "has unsaved changes, but a whole file is compiled from disk"
                            (agent-q-test-tools-ask (format "/compile_file path=%s" file))))))

(agent-q-test-tools-on-each compile-file-follows-an-edit ()
  "What an edit changed is compiled with it, without a question that compiling has not."
  (agent-q-compile-file-test--with-file t
    (cl-flet ((edit (&rest arguments)
                (agent-q-test-tools-ask (apply #'format (concat "/" (car arguments)) file
                                               (cdr arguments)))))
      (should (string-match-p
               (format "\\`Compiled and loaded defun total (line 8) of %s; no warnings\\.$" (regexp-quote file))
               (edit "edit_definition path=%s name=total compile=true (defun total (items)\n  (list :all items))")))
      (should (equal '("(:ALL 1)") (agent-q-test-image-values connection "(aq-shop::total 1)")))
      ;; A part of one, whatever else of the file has that text.
      (edit "edit_definition path=%s name=marked old_text=\"#?1\" compile=true #?2")
      (should (equal '("(:READ 2)") (agent-q-test-image-values connection "(aq-shop::marked)")))
      (should (string-search
               "lines 6, 7"
               (edit "edit_definition path=%s name=\"price (integer)\" old_text=\"it\" x")))
      ;; Warnings have the lines of the file; a failure leaves the edit.
      (should (string-match-p ":11:[0-9]+: undefined variable: .*AQ-NONE"
                              (edit "insert_definition path=%s after=total compile=true (defun more () aq-none)")))
      (should (string-match-p "\\`The compiler failed on "
                              (edit "edit_file path=%s old_str=\"aq-none)\" compile=true (aq-no:f))")))
      (with-temp-buffer
        (insert-file-contents file)
        (should (search-forward "(defun more () (aq-no:f))" nil t))))))

(agent-q-test-tools-on-each compile-file-tells-what-else-was-changed ()
  "Definitions that were changed and not compiled are named when another one is."
  (agent-q-compile-file-test--with-file t
    (setq-local agent-q-compile-after-edit nil)
    (cl-flet ((ask (line) (agent-q-test-tools-ask (format line file)))
              (others (told) (and (string-match "^(Changed, .*: \\(.*\\) of .*\\.lisp\\.)$" told)
                                  (match-string 1 told))))
      (ask "/edit_definition path=%s name=total (defun total (items) (list :new items))")
      (ask "/edit_definition path=%s name=chosen (defun chosen () 2)")
      ;; To say so once will do.
      (should (equal "defun total (line 8), defun chosen (line 19)" (others (ask "/eval_form 1"))))
      (should (equal "=> 1" (ask "/eval_form 1")))
      (should-not (others (ask "/edit_definition path=%s name=*tax* compile=true (defvar *tax* 4)")))
      (should-not (others (ask "/compile_file path=%s name=chosen")))
      (should-not (others (ask "/compile_file path=%s name=total")))
      ;; A failure leaves it as it was.
      (ask "/edit_definition path=%s name=total (defun total (items) (aq-no:f))")
      (should (string-prefix-p "The compiler failed" (ask "/compile_file path=%s name=total")))
      (should (equal "defun total (line 8)" (others (ask "/compile_file path=%s name=chosen"))))
      (ask "/edit_definition path=%s name=total (defun total (items) items)")
      (ask "/compile_file path=%s")
      (should-not (others (ask "/compile_file path=%s name=chosen")))
      (should (equal "=> 1" (ask "/eval_form 1"))))))

(agent-q-test-tools-on-each compile-file-names-the-form-around ()
  "What is compiled is the form on top level, and the answer says so."
  (let ((agent-q-compile-file-test--source
         "(cl:in-package :cl-user)\n(macrolet ((aq-def (name) `(defun ,name () 1)))\n  (defun aq-inner-1 () 1)\n  (aq-def aq-made)\n  (defun aq-inner-2 () 2))\n(progn (defun aq-inner-3 () 3))\n"))
    (agent-q-compile-file-test--with-file nil
      (should (string-prefix-p
               (format "Compiled and loaded macrolet (lines 2-5: aq-inner-1, aq-inner-2) of %s; no warnings." file)
               (agent-q-test-tools-ask
                (format "/edit_file path=%s old_str=\"() 2\" compile=true () 22" file))))
      (should (string-prefix-p
               (format "Compiled and loaded progn (line 6: aq-inner-3) of %s; no warnings." file)
               (agent-q-test-tools-ask (format "/compile_file path=%s name=aq-inner-3" file)))))))

(agent-q-test-tools-on-each compile-tells-of-code-with-the-old-macro ()
  "Code has in it what macros and inline functions were; who compiles another is told which code."
  (let ((one "/compile_form (defmacro aq-twice (x) `(* 2 ,x)) (declaim (inline aq-half)) (defun aq-half (x) (/ x 2)) (defun aq-user (x) (aq-twice (aq-half x)))"))
    (should-not (string-search "still has" (agent-q-test-tools-ask one)))
    ;; Nor is there anything to tell where it is the same.
    (should-not (string-search "still has" (agent-q-test-tools-ask one))))
  (should (string-search
           "Loaded code still has the old macro AQ-TWICE: AQ-USER."
           (agent-q-test-tools-ask "/compile_form (defmacro aq-twice (x) `(* 3 ,x))")))
  (should (string-search
           "Loaded code still has the old inline function AQ-HALF: AQ-USER."
           (agent-q-test-tools-ask "/compile_form (defun aq-half (x) (/ x 3))")))
  (should-not (string-search "still has"
                             (agent-q-test-tools-ask "/compile_form (defun aq-user (x) (list x))")))
  ;; Those that the same call compiles after it have the new one.
  (dolist (factor '(4 5))
    (should-not
     (string-search "Loaded code still has"
                    (agent-q-test-tools-ask
                     (format "/compile_form (defmacro aq-twice (x) `(* %d ,x)) (defun aq-user (x) (aq-twice x))" factor)))))
  (agent-q-test-tools-ask "/compile_form (defmacro aq-unused (x) x)")
  (should (string-search "No other loaded code is known to have the old macro AQ-UNUSED."
                         (agent-q-test-tools-ask "/compile_form (defmacro aq-unused (x) (list 'list x))")))
  ;; What a macro calls is in its expansions, too.
  (agent-q-test-tools-ask "/compile_form (defun aq-way (x) (list '1+ x)) (defmacro aq-by (x) (aq-way x)) (defun aq-goer (x) (aq-by x))")
  (should (string-search "still has the old function that macros call AQ-WAY: AQ-GOER."
                         (agent-q-test-tools-ask "/compile_form (defun aq-way (x) (list '1- x))"))))

(agent-q-test-tools-on-each compile-file-compiles-a-whole-file ()
  "A whole file asks first; its warnings come with lines, and nothing is left beside it."
  (agent-q-compile-file-test--with-file nil
    (let ((told (agent-q-test-tools-ask (format "/compile_file path=%s" file))))
      (should (string-prefix-p (format "Compiled and loaded %s, with 1 warning and 1 style-warning.\n" file)
                               told))
      (should (string-match-p (format "^warning at %s:[0-9]+: undefined variable: .*Y" (regexp-quote file))
                              told)))
    (should (equal '("6") (agent-q-test-image-values connection "(aq-shop::total '(1 2))")))
    (should (equal (list file)
                   (directory-files (file-name-directory file) t
                                    (file-name-base file))))
    (agent-q-compile-file-test--replace file "(defvar *tax* 2)" "(defvar *tax* 3")
    (let ((told (agent-q-test-tools-ask (format "/compile_file path=%s" file))))
      (should (string-prefix-p (format "The compiler failed on %s; nothing of it was loaded.\n" file)
                               told)))
    (let ((system (concat (file-name-sans-extension file) ".asd")))
      (write-region "(defsystem \"aq-none\")\n" nil system nil 'silent)
      (should (string-suffix-p " defines systems and was not compiled; use load_system, which loads a system and its .asd file."
                               (agent-q-test-tools-ask (format "/compile_file path=%s" system))))
      (delete-file system))
    ;; What can't be read as a whole can be compiled by parts.
    (should (string-prefix-p (format "Compiled and loaded total of %s; no warnings." file)
                             (agent-q-test-tools-ask
                              (format "/compile_file path=%s name=total" file))))))

(agent-q-test-tools-on-each compile-file-assesses-what-it-compiles ()
  "The text of a definition is looked at as that of compile_form is."
  (agent-q-compile-file-test--with-file t
    (agent-q-compile-file-test--replace
     file "(defun broken (x)" "(defun reaching ()\n  (delete-file \"/tmp/aq-nothing\"))\n(defun broken (x)")
    (agent-q-test-send (format "/compile_file path=%s name=reaching" file))
    (agent-q-test-until (agent-q-call-waiting))
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (should (equal '("NIL") (agent-q-test-image-values connection "(fboundp 'aq-shop::reaching)")))
    ;; Nobody is asked about a harmless one.
    (agent-q-test-send (format "/compile_file path=%s name=total" file))
    (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
    (should-not (agent-q-call-waiting))))

(agent-q-test-tools-on-each compile-file-finds-the-package-in-force ()
  "What the reader passes over sets no package; what `eval-when' does at compile time, does."
  (agent-q-compile-file-test--with-file nil
    (write-region "(defpackage :aq-pa (:use :cl)) (defpackage :aq-pb (:use :cl)) (defpackage :aq-pc (:use :cl))
(in-package :aq-pa)
#+nil (in-package :aq-pb)
(eval-when (:load-toplevel) (in-package :aq-pc))
(defun aq-f7 () (package-name (symbol-package 'aq-f7)))
(eval-when (:compile-toplevel :load-toplevel :execute)
  (in-package :aq-pb))
(defun aq-f8 () (package-name (symbol-package 'aq-f8)))
#+nil (defun aq-f9 () 9)
(defun aq-f9 () (package-name (symbol-package 'aq-f9)))
" nil file nil 'silent)
    (agent-q-test-image-eval connection "(progn (defpackage :aq-pa (:use :cl)) (defpackage :aq-pb (:use :cl)) (defpackage :aq-pc (:use :cl)))")
    (dolist (name '("aq-f7" "aq-f8" "aq-f9"))
      (should (string-prefix-p "Compiled and loaded"
                               (agent-q-test-tools-ask
                                (format "/compile_file path=%s name=%s" file name)))))
    (should (equal '("(\"AQ-PA\" \"AQ-PB\" \"AQ-PB\")")
                   (agent-q-test-image-values
                    connection "(list (aq-pa::aq-f7) (aq-pb::aq-f8) (aq-pb::aq-f9))")))))

(provide 'agent-q-compile-file-test)
;;; agent-q-compile-file-test.el ends here
