;;; agent-q-definition-test.el --- Definitions after edits  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the tools quote of a file that was loaded and changed since, through
;; core and chat on real SLIME and SLY.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)

(defconst agent-q-definition-test--source "(defpackage :aq-bank (:use :cl))
(in-package :aq-bank)
(defvar *fee* 1)
(defclass account ()
  ((balance :accessor balance :initform 0)
   (owner :reader owner)))
(defstruct (entry (:conc-name entry-)) amount day)
(defgeneric withdraw (from amount)
  (:method ((from integer) amount) (- from amount)))
(defmethod withdraw ((from account) amount)
  (decf (balance from) (+ amount *fee*)))
(defmethod withdraw :around ((from account) (amount (eql 'all)))
  (call-next-method))
(defun transfer (from to amount)
  (withdraw from amount)
  (incf (balance to) amount))
(macrolet ((frob (name) `(defun ,name () 1)))
  (frob alpha))
(defun audit (from)
  (transfer from from 0))
"
  "The text of a file.")

(defun agent-q-definition-test--load (connection text)
  "Have the image behind CONNECTION load a new file with TEXT, a while ago.
Return the file."
  (let ((file (make-temp-file "agent-q-" nil ".lisp" text)))
    (set-file-times file (time-subtract nil 1000))
    (agent-q-test-image-load connection file)
    (file-truename file)))

(defun agent-q-definition-test--change (file from to)
  "Replace FROM in FILE by TO."
  (let ((new (make-temp-file "agent-q-")))
    (with-temp-file new
      (insert-file-contents file)
      (goto-char (point-min))
      (search-forward from)
      (replace-match to t t))
    ;; As other programs do, behind the back of the buffer that visits it.
    (rename-file new file t)))

(defun agent-q-definition-test--line (file text)
  "Return the number of the line of FILE that has TEXT in it."
  (with-temp-buffer
    (insert-file-contents file)
    (goto-char (point-min))
    (search-forward text)
    (line-number-at-pos)))

(defun agent-q-definition-test--quotes (file name first &optional note what)
  "Check that NAME is found in FILE where the line FIRST is, with NOTE.
WHAT is what it is found as."
  (let* ((answer (agent-q-test-tools-ask (concat "/find_definition aq-bank::" name)))
         (head (format "%s:%d%s\n%s" file (agent-q-definition-test--line file first)
                       (or note "") first)))
    (should (string-search head answer))
    (when what (should (string-search what answer)))))

(defconst agent-q-definition-test--changed " (the file has changed since it was loaded)"
  "What is said of a file that is not as it was loaded.")

(agent-q-test-tools-on-each definition-is-found-in-a-changed-file ()
  "What is quoted defines the name, however the file was changed after it was loaded."
  (let ((file (agent-q-definition-test--load connection agent-q-definition-test--source))
        (changed agent-q-definition-test--changed))
    (unwind-protect
        (cl-flet ((quotes (&rest arguments)
                    (apply #'agent-q-definition-test--quotes file arguments))
                  (change (&rest arguments)
                    (apply #'agent-q-definition-test--change file arguments)))
          (quotes "transfer" "(defun transfer (from to amount)")
          ;; At the top, and in the middle.
          (change "(defvar *fee*" "(defun summary () 0)\n(defun other () 1)\n(defvar *fee*")
          (change "(defgeneric withdraw" "(defun middle ()\n  ;; (defun transfer (x))\n  1)\n(defgeneric withdraw")
          (quotes "transfer" "(defun transfer (from to amount)" changed)
          (quotes "*fee*" "(defvar *fee* 1)" changed)
          (quotes "account" "(defclass account ()" changed)
          (should (string-search
                   (format "%s:%d%s\n(defclass account ()" file
                           (agent-q-definition-test--line file "  ((balance :accessor")
                           changed)
                   (agent-q-test-tools-ask "/find_definition aq-bank::balance")))
          (quotes "entry-day" "(defstruct (entry (:conc-name entry-)) amount day)" changed)
          (quotes "make-entry" "(defstruct (entry (:conc-name entry-)) amount day)" changed)
          (should (string-search
                   (format "%s:%d%s\n(macrolet ((frob" file
                           (agent-q-definition-test--line file "  (frob alpha)") changed)
                   (agent-q-test-tools-ask "/find_definition aq-bank::alpha")))
          (let ((answer (agent-q-test-tools-ask "/find_definition aq-bank::withdraw")))
            (dolist (method '("(AQ-BANK::ACCOUNT T)) %s:%d\n(defmethod withdraw ((from account) amount)"
                              "(EQL AQ-BANK::ALL))) %s:%d\n(defmethod withdraw :around ((from account)"))
              (should (string-search
                       (format method file
                               (agent-q-definition-test--line
                                file (substring method (1+ (string-search "\n" method)))))
                       answer)))
            ;; Of a file with several that is said once.
            (should (equal 1 (cl-loop for start = 0 then (1+ found)
                                      for found = (string-search changed answer start)
                                      while found count t))))
          ;; Who uses it is at its place now, too.
          (should (string-search
                   (format "%s%s\n  %d: AQ-BANK::AUDIT" file changed
                           (agent-q-definition-test--line file "  (transfer from from"))
                   (agent-q-test-tools-ask "/who_calls aq-bank::transfer")))
          (should (string-search
                   (format "(DEFUN AQ-BANK::TRANSFER) %s:%d%s" file
                           (agent-q-definition-test--line file "(defun transfer (from")
                           changed)
                   (agent-q-test-tools-ask "/describe_symbol aq-bank::transfer")))
          ;; So are all methods of a class, those that its slots bring, too.
          (let ((answer (agent-q-test-tools-ask "/xref kind=methods name=aq-bank::account")))
            (dolist (line (list (concat file changed)
                                (format "  %d: (DEFMETHOD AQ-BANK::WITHDRAW :AROUND"
                                        (agent-q-definition-test--line
                                         file "(defmethod withdraw :around"))
                                (format "  %d: (DEFMETHOD AQ-BANK::BALANCE "
                                        (agent-q-definition-test--line
                                         file "  ((balance :accessor"))))
              (should (string-search (concat "\n" line) answer))))
          ;; It can go, and be mentioned still.
          (change "(defun transfer (from to" "(defun transfer-all (from to")
          (let ((answer (agent-q-test-tools-ask "/find_definition aq-bank::transfer")))
            (should (string-suffix-p
                     (concat file " (the file has changed since it was loaded, and no form"
                             " in it defines this now: only the image has it)")
                     answer))))
      (delete-file file))))

(agent-q-test-tools-on-each definition-is-found-in-what-is-not-saved ()
  "A buffer with unsaved changes counts; so does a file changed behind an unchanged buffer."
  (let* ((file (agent-q-definition-test--load connection agent-q-definition-test--source))
         (buffer (find-file-noselect file)))
    (unwind-protect
        (progn
          (with-current-buffer buffer
            (goto-char (point-min))
            (insert "(defun transferred (x)\n  x)\n\n")
            (should (string-search
                     (format "%s:17 (as the user's buffer has it, with unsaved changes)\n(defun transfer (from"
                             file)
                     (save-current-buffer
                       (set-buffer chat)
                       (agent-q-test-tools-ask "/find_definition aq-bank::transfer"))))
            (set-buffer-modified-p nil)
            (revert-buffer t t t))
          (agent-q-definition-test--change file "(defvar" "\n\n\n\n\n(defvar")
          (agent-q-definition-test--quotes file "transfer" "(defun transfer (from to amount)"
                                           agent-q-definition-test--changed)
          ;; Changed again within the second of the load, which no date can show.
          (let ((date (time-add nil 100)))
            (set-file-times file date)
            (agent-q-test-image-load connection file)
            (agent-q-definition-test--change file "(defvar" "(defun short () 1)\n(defvar")
            (set-file-times file date)
            (agent-q-definition-test--quotes file "transfer"
                                             "(defun transfer (from to amount)")
            (should (string-search
                     (format "%s:%d\n(macrolet ((frob" file
                             (agent-q-definition-test--line file "  (frob alpha)"))
                     (agent-q-test-tools-ask "/find_definition aq-bank::alpha")))))
      (with-current-buffer buffer
        (set-buffer-modified-p nil)
        (kill-buffer))
      (delete-file file))))

(agent-q-test-tools-on-each definition-quotes-each-form-once ()
  "A class is quoted for the first of its accessors; the others refer to it."
  (let* ((file (agent-q-definition-test--load connection agent-q-definition-test--source))
         (answer (agent-q-test-tools-ask "/find_definition aq-bank::balance")))
    (unwind-protect
        (progn
          (should (string-search (format "%s:5, in the form above" file) answer))
          (should (equal 2 (length (split-string answer "(defclass account ()" nil)))))
      (delete-file file))))

(agent-q-test-tools-on-each definition-quotes-the-slot-of-an-accessor ()
  "Of a long class an accessor's slot is quoted, and not the others."
  (let ((file (agent-q-definition-test--load
               connection
               (format "(defpackage :aq-bank (:use :cl))\n(in-package :aq-bank)
(defclass account (standard-object)
  (%s
   (balance :initform 0 ; (what there is
            :accessor balance))
  (:documentation \"Money\"))\n"
                       (mapconcat (lambda (number)
                                    (format "(slot-%d :documentation %S)" number
                                            (make-string 50 ?x)))
                                  (number-sequence 1 20) "\n   ")))))
    (unwind-protect
        ;; Reader and writer come in either order.
        (should (string-match-p
                 (format "\\`(DEFMETHOD .*) %s:24
(defclass account (standard-object)
  \\.\\.\\.
   (balance :initform 0 ; (what there is
            :accessor balance)
  \\.\\.\\.
(DEFMETHOD .*) %s:24, in the form above\\'" (regexp-quote file) (regexp-quote file))
                 (agent-q-test-tools-ask "/find_definition aq-bank::balance")))
      (delete-file file))))

;;;; What no date shows

(defun agent-q-definition-test--swap (file text)
  "Give FILE the TEXT without a change of its date."
  (let ((date (file-attribute-modification-time (file-attributes file))))
    (write-region text nil file nil 'silent)
    (set-file-times file date)))

(defun agent-q-definition-test--fresh (connection text)
  "Have the image behind CONNECTION load a new file with TEXT, written now.
Return the file."
  (let ((file (make-temp-file "agent-q-" nil ".lisp" text)))
    (set-file-times file (time-add nil 100))
    (agent-q-test-image-load connection file)
    (file-truename file)))

(agent-q-test-tools-on-each definition-in-a-file-that-was-edited-at-once ()
  "A file that was edited within the second of its load shows no other definition."
  (let* ((head "(defpackage :aq-bank (:use :cl))\n(in-package :aq-bank)\n")
         (text (concat head "(defun one () 1)\n(defun two () 2)\n(defun three () (two))\n"
                       "(defmacro define-both (name) `(defun ,(intern (format nil \"~A-BOTH\" name)) () 1))\n"
                       "(define-both all)\n"))
         (file (agent-q-definition-test--fresh connection text)))
    (unwind-protect
        (cl-flet ((ask (name) (agent-q-test-tools-ask (concat "/find_definition aq-bank::" name))))
          (should (string-search "\n(define-both all)" (ask "all-both")))
          (agent-q-definition-test--swap
           file (concat head "(defun new-one () 0)\n(defun new-two () 0)\n"
                        (substring text (length head))))
          (should (string-search (format "%s:5\n(defun one () 1)" file) (ask "one")))
          (should (string-search (format "%s:6\n(defun two () 2)" file) (ask "two")))
          (should (string-search "  7: AQ-BANK::THREE"
                                 (agent-q-test-tools-ask "/who_calls aq-bank::two")))
          (should (string-search (format "%s:6" file)
                                 (agent-q-test-tools-ask "/describe_symbol aq-bank::two")))
          ;; Gone within the second.
          (agent-q-definition-test--swap
           file (concat head "(defun new-one () 0)\n(defun three () (two))\n"
                        "(defun four () 0)\n(defun five () 0)\n(defun six () 0)\n"))
          (dolist (name '("one" "two" "all-both"))
            (let ((answer (ask name)))
              (should (string-search "no form in it defines this: only the image has it" answer))
              (should-not (string-search "(defun" answer)))))
      (delete-file file))))

(agent-q-test-tools-on-each definition-that-the-reader-passes-over ()
  "Of twins by feature expressions the one that the image has is quoted."
  (let* ((text "(defpackage :aq-bank (:use :cl))\n(in-package :aq-bank)
(defun one () 1)
#-sbcl
(defun two () :other)
#+sbcl
(defun two () :sbcl)
#+(or ecl (not :sbcl)) (defun three () :other)
#+(and :sbcl (or)) ; not now
(defun three () :never)
#-(or ecl clisp) (defun three () :here)
#+nil (progn
(defun four () :off))
(defun four () :on)
")
         (file (agent-q-definition-test--load connection text)))
    (unwind-protect
        (cl-flet ((right ()
                    (dolist (one '(("two" "\n(defun two () :sbcl)") ("three" "\n(defun three () :here)")
                                   ("four" "\n(defun four () :on)")))
                      (let ((answer (agent-q-test-tools-ask
                                     (concat "/find_definition aq-bank::" (car one)))))
                        (should (string-suffix-p (cadr one) answer))
                        (should (string-search
                                 (format "%s:%d" file
                                         (agent-q-definition-test--line
                                          file (string-trim (cadr one))))
                                 answer))))))
          ;; The image has not looked at the file before it was changed.
          (agent-q-definition-test--change file "(defun one" "(defun new () 1)\n(defun one")
          (right)
          (dotimes (_ 4)
            (agent-q-definition-test--change file "(defun one" "(defun newer () 1)\n(defun one"))
          (right))
      (delete-file file))))

(agent-q-test-tools-on-each definition-of-a-method-that-is-gone ()
  "A method that only the image has still isn't shown the text of another one."
  (let* ((head "(defpackage :aq-bank (:use :cl))\n(in-package :aq-bank)\n(defgeneric vol (s))\n")
         (file (agent-q-definition-test--load
                connection (concat head "(defmethod vol ((s integer)) 1)\n"
                                   "(defmethod vol :around ((s (eql #\\a))) 1)\n"))))
    (unwind-protect
        (cl-flet ((ask (name) (agent-q-test-tools-ask
                               (concat "/find_definition package=aq-bank " name))))
          (should (string-search (format "%s:4\n(defmethod vol ((s integer)) 1)" file)
                                 (ask "vol (integer)")))
          (should (string-search (format "%s:5\n(defmethod vol :around" file)
                                 (ask "vol :around ((eql #\\a))")))
          (write-region (concat head "(defmethod vol ((s symbol)) 3)\n"
                                "(defmethod vol :around ((s integer)) 3)\n")
                        nil file nil 'silent)
          (agent-q-test-image-load connection file)
          (should (string-search (format "%s:4\n(defmethod vol ((s symbol)) 3)" file)
                                 (ask "vol (symbol)")))
          (let ((answer (ask "vol (integer)")))
            (should (string-search "no form in it defines this now: only the image has it" answer))
            (should-not (string-search "(defmethod vol" answer)))
          (let ((answer (agent-q-test-tools-ask "/xref kind=methods name=integer package=aq-bank")))
            (should (string-match-p "now: only the image has it)\n  (DEFMETHOD AQ-BANK::VOL (INTEGER)"
                                    answer))))
      (delete-file file))))

(agent-q-test-tools-on-each definition-has-the-line-where-its-form-starts ()
  "A form in which the image's place lies is quoted from its start, whose line is told."
  (let ((file (agent-q-definition-test--load
               connection "(defpackage :aq-bank (:use :cl))\n(in-package :aq-bank)\n
(defun print-prompt (x)
  \"Print it.\"
  (let ((y (list x)))
    (lambda () (print y))))

(defun split-if-not (predicate list start)
  \"Split it.\"
  (remove-if-not predicate list :start start))\n")))
    (unwind-protect
        (progn
          (agent-q-definition-test--quotes file "print-prompt" "(defun print-prompt (x)")
          (agent-q-definition-test--quotes file "split-if-not"
                                           "(defun split-if-not (predicate list start)"))
      (delete-file file))))

;;;; What is asked for

(agent-q-test-tools-on-each definition-of-one-method-by-specializers ()
  "One method is named as for edit_definition; a wrong name tells which there are."
  (let ((file (agent-q-definition-test--load connection agent-q-definition-test--source)))
    (unwind-protect
        (cl-flet ((heads (name)
                    (let ((answer (agent-q-test-tools-ask
                                   (concat "/find_definition package=aq-bank " name)))
                          (heads nil) (start 0))
                      (while (string-match "^(DEF[A-Z]+ \\(.+\\)) /.*:\\([0-9]+\\)" answer start)
                        (push (list (replace-regexp-in-string "AQ-BANK::" ""
                                                              (match-string 1 answer))
                                    (string-to-number (match-string 2 answer)))
                              heads)
                        (setq start (match-end 0)))
                      (nreverse heads))))
          (should (equal '(("WITHDRAW (ACCOUNT T)" 10)) (heads "withdraw (account)")))
          (should (equal '(("WITHDRAW (ACCOUNT T)" 10)) (heads "aq-bank::withdraw (account t)")))
          (should (equal '(("WITHDRAW :AROUND (ACCOUNT (EQL ALL))" 12))
                         (heads "withdraw :around (account (eql 'all))")))
          (should (equal '(("WITHDRAW :AROUND (ACCOUNT (EQL ALL))" 12))
                         (heads "(defmethod withdraw :around ((from account) (n (eql aq-bank::all)))")))
          (should (equal '(("WITHDRAW (INTEGER T)" 8)) (heads "withdraw(integer t)")))
          (should (equal '(("(SETF BALANCE) (T ACCOUNT)" 5))
                         (heads "(setf balance) (t account)")))
          (should (equal '(("TRANSFER" 14)) (heads "defun transfer")))
          (should (string-prefix-p
                   "AQ-BANK::WITHDRAW has no definition (string); it has (DEFGENERIC"
                   (agent-q-test-tools-ask
                    "/find_definition package=aq-bank withdraw (string)"))))
      (delete-file file))))

(agent-q-test-tools-on-each definition-that-only-files-have ()
  "A test, or what is not loaded, is found in the project's files."
  (let ((file (expand-file-name "aq-tests.lisp" default-directory)))
    (unwind-protect
        (progn
          (agent-q-test-image-eval connection "'aq-only-tested")
          (with-temp-file file
            (insert "(in-package :cl-user)\n\n(fiveam:test (aq-only-tested :suite x)\n  1)\n"
                    "(def-thing\n  aq-a 1)\n(defrule aq-not-loaded (and 1))\n"
                    "(defun (setf aq-placed) (new)\n  new)\n(deftest :unit \"aq-grouped\"\n  1)\n"
                    "(defmethod aq-many ((x integer)))\n(defmethod aq-many ((x string)))\n"
                    "(defmethod aq-many ((x cons)))\n(defmethod aq-many ((x symbol)))\n"))
          (should (string-suffix-p
                   "AQ-ONLY-TESTED is only a symbol: the image has no definition of it. From the project's files:
aq-tests.lisp:3\n(fiveam:test (aq-only-tested :suite x)\n  1)"
                   (agent-q-test-tools-ask "/find_definition aq-only-tested")))
          (let ((told (agent-q-test-tools-ask "/find_definition aq-not-loaded")))
            (should (string-match-p "\\`Symbol AQ-NOT-LOADED not found in package COMMON-LISP-USER" told))
            (should (string-suffix-p " From the project's files, not loaded:\naq-tests.lisp:7\n(defrule aq-not-loaded (and 1))"
                                     told)))
          (should (string-suffix-p "not loaded:\naq-tests.lisp:8\n(defun (setf aq-placed) (new)\n  new)"
                                   (agent-q-test-tools-ask "/find_definition (setf aq-not-there::aq-placed)")))
          (should (string-suffix-p "not loaded:\naq-tests.lisp:10\n(deftest :unit \"aq-grouped\"\n  1)"
                                   (agent-q-test-tools-ask "/find_definition aq-grouped")))
          ;; Of many only the lines are shown.
          (should (string-search "This is a text search for definitions of aq-many in the"
                                 (agent-q-test-tools-ask "/find_definition aq-many")))
          (should (string-match-p
                   "\\`Symbol AQ-NOWHERE not found in package COMMON-LISP-USER[^\n]*\\'"
                   (agent-q-test-tools-ask "/find_definition aq-nowhere"))))
      (delete-file file))))

(agent-q-test-tools-on-each definition-says-what-is-known-of-odd-things ()
  "Of method combinations, inline functions, and files that are not there."
  (let ((gone (make-temp-file "aq-gone" nil ".lisp" "(cl:in-package :cl-user)
(define-method-combination aq-joined :operator list)
(declaim (inline aq-inlined))
(defun aq-inlined (x) x)
(defun aq-user (x) (car (aq-plain x)))
(defun aq-plain (x) x)\n")))
    (agent-q-test-image-load connection gone)
    (delete-file gone)
    (cl-flet ((told (call) (agent-q-test-tools-ask call)))
      (let ((combination (told "/describe_symbol aq-joined")))
        (should-not (string-search "only a symbol" combination))
        (should (string-match-p "(DEFINE-METHOD-COMBINATION AQ-JOINED)" combination)))
      (should (string-search "  also: declaimed inline\n" (told "/describe_symbol aq-inlined")))
      (should-not (string-search "inline" (told "/describe_symbol aq-plain")))
      (dolist (call '("/describe_symbol aq-plain" "/find_definition aq-plain" "/who_calls aq-plain"))
        (ert-info (call)
          (should (string-match-p (concat (regexp-quote gone) "\\(:[0-9]+\\)? (this file can't be read here)$")
                                  (told call)))))
      (should (string-match-p "use its handle, such as \\$v7"
                              (told "/eval_form (length #<VECTOR 3>)"))))))

(agent-q-test-tools-on-each definition-of-a-place-by-its-expander ()
  "A place that DEFSETF or DEFINE-SETF-EXPANDER defines has no setf function."
  (let ((file (expand-file-name "aq-places.lisp" agent-q-test-directory)))
    (write-region "(in-package :cl-user)
(defun aq-spot (x) (car x))
(defsetf aq-spot (x) (new) `(setf (car ,x) ,new))
(defun aq-spot-2 (x) (car x))
(define-setf-expander aq-spot-2 (x) (values nil nil '(new) `(setf (car ,x) new) `(car ,x)))
(defun (setf aq-spot-3) (new x) (setf (car x) new))\n" nil file nil 'silent)
    (agent-q-test-image-directly connection (format "(load (compile-file %S))" file))
    (pcase-dolist (`(,name ,line ,source) '(("aq-spot" 3 "(defsetf aq-spot (x)")
                                            ("aq-spot-2" 5 "(define-setf-expander aq-spot-2 (x)")
                                            ("aq-spot-3" 6 "(defun (setf aq-spot-3) (new x)")))
      (let ((told (agent-q-test-tools-ask (format "/find_definition (setf %s)" name))))
        (should (string-match-p (format "aq-places.lisp:%d\n%s" line (regexp-quote source)) told))
        (should-not (string-match-p "^(defun aq-" told))))))

(agent-q-test-tools-on-each definition-of-a-function-is-not-that-of-a-package ()
  "A library often has a function of the name of its package."
  (let ((file (agent-q-definition-test--load
               connection "(defpackage :aq-parse (:use :cl) (:export #:aq-parse))
(in-package :aq-parse)
(defun aq-parse () 1)
")))
    (should (string-suffix-p (format "%s:3\n(defun aq-parse () 1)" file)
                             (agent-q-test-tools-ask "/find_definition aq-parse:aq-parse")))
    (should-not (string-search "DEFPACKAGE"
                               (agent-q-test-tools-ask "/find_definition aq-parse:aq-parse")))
    (delete-file file)))

(defun agent-q-definition-test--long (lines)
  "Return the text of a function with so many LINES of 30 characters in it."
  (concat "(defun aq-long ()\n  (list\n"
          (mapconcat (lambda (line) (format "   :a-line-of-the-list %08d" line))
                     (number-sequence 1 lines) "\n")
          "))\n"))

(agent-q-test-tools-on-each definition-of-many-lines-is-quoted-whole ()
  "One definition is shown as far as a result goes, with how to see the rest."
  (let* ((file (agent-q-definition-test--load
                connection (concat "(in-package :cl-user)\n" (agent-q-definition-test--long 400))))
         (whole (agent-q-test-tools-ask "/find_definition aq-long")))
    (should (string-suffix-p "00000400))" whole))
    (delete-file file)
    (setq file (agent-q-definition-test--load
                connection (concat "(in-package :cl-user)\n" (agent-q-definition-test--long 600))))
    (let ((told (agent-q-test-tools-ask "/find_definition aq-long")))
      (should (string-match "\\[\\([0-9]+\\) more lines; read_file with offset \\([0-9]+\\), limit \\([0-9]+\\) shows them\\]\\'" told))
      (should (equal (match-string 1 told) (match-string 3 told)))
      ;; Head, list, 600 lines, behind the one of the package.
      (should (= 604 (+ (string-to-number (match-string 1 told))
                        (string-to-number (match-string 2 told))))))
    (delete-file file)))

(provide 'agent-q-definition-test)
;;; agent-q-definition-test.el ends here
