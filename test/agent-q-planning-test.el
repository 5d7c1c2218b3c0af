;;; agent-q-planning-test.el --- What a load will stumble over  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What load_system tells of a system before it loads it: load order, packages
;; and exports, by the texts of its files.  The systems are made here; that
;; sound ones are passed over in silence is tried on the installed libraries.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-test-systems)

(defconst agent-q-planning-test--systems
  `(("aq-late-package"
     (("a" . "(in-package :aq-late-package)\n(defun a () 1)\n")
      ("b" . "(defpackage :aq-late-b (:use :cl :aq-late-c))\n(in-package :aq-late-b)\n(defun b () '(aq-late-c::x))\n")
      ("package" . "(defpackage :aq-late-package (:use :cl))\n(defpackage :aq-late-c (:use :cl))\n"))
     "a.lisp:1 is in the package AQ-LATE-PACKAGE, which package.lisp:1 defines later. Load package.lisp before a.lisp."
     "b.lisp:1 needs the package AQ-LATE-C, which package.lisp:2 defines later. Load package.lisp before b.lisp.")
    ("aq-late-prefix"
     (("a" . "(defpackage :aq-prefix-a (:use :cl))\n(in-package :aq-prefix-a)\n;; aq-prefix-b:early\n#+(or) (aq-prefix-b:early)\n\"aq-prefix-b:early\"\n(defun a ()\n  (aq-prefix-b:f))\n")
      ("b" . "(defpackage :aq-prefix-b (:use :cl) (:export #:f))\n"))
     "a.lisp:7 names the package AQ-PREFIX-B, which b.lisp:1 defines later. Load b.lisp before a.lisp.")
    ("aq-late-macro"
     (("package" . "(defpackage :aq-late-macro (:use :cl) (:export #:with-it))\n(defpackage :aq-late-user (:use :cl :aq-late-macro))\n(defpackage :aq-other (:use :cl))\n")
      ("use" . "(in-package :aq-late-user)\n(defun f (x)\n  (let ((y x))\n    (unless y\n      (with-it (a) a))))\n")
      ;; None of these is a use of the macro.
      ("near" . ,(concat "(in-package :aq-late-user)\n"
                         "(defun quoted () '(with-it (a) a))\n"
                         "(defmacro templated () `(with-it (a) a))\n"
                         "(defun local () (flet ((with-it (a) a)) (with-it 1)))\n"
                         "(defun bound () (let ((with-it 1)) (list with-it)))\n"
                         "(some-macro (with-it (a) a))\n"
                         "#+aq-no-feature (defun absent () (with-it (a) a))\n"
                         "(in-package :aq-other)\n(defun other () (with-it 1))\n"))
      ("macros" . "(in-package :aq-late-macro)\n(defun own () (when t (with-it (a) a)))\n(defmacro with-it ((a) form) `(let ((,a 1)) ,form))\n(defun after () (with-it (a) a))\n")
      ("other" . "(in-package :aq-other)\n(defun with-it (x) x)\n"))
     "use.lisp:5 uses the macro WITH-IT, which macros.lisp:3 defines later: from scratch it is compiled as a function call. Load macros.lisp before use.lisp."
     "macros.lisp:2 uses the macro WITH-IT, which macros.lisp:3 defines later: from scratch it is compiled as a function call. Define it above.")
    ("aq-packages"
     (("package" . ,(concat "(defpackage :aq-one (:use :cl) (:export #:foo #:bar #:same))\n"
                            "(defpackage :aq-two (:use :cl) (:import-from :aq-one #:same) (:export #:foo #:same))\n"
                            "(defpackage :aq-clash (:use :cl :aq-one :aq-two))\n"
                            "(defpackage :aq-settled (:use :cl :aq-one :aq-two) (:shadowing-import-from :aq-one #:foo))\n"
                            "(defpackage :aq-import (:use :cl) (:import-from :aq-one #:fop))\n"
                            "(defpackage :aq-again (:use :cl) (:export #:one #:two))\n"))
      ("use" . "(in-package :aq-settled)\n(defun f () (list (aq-one:bar) (aq-one::hidden) (aq-one:baz)))\n")
      ("again" . "(defpackage :aq-again (:use :cl) (:export #:two))\n"))
     "package.lisp:3: the package AQ-CLASH gets FOO from both AQ-ONE and AQ-TWO, which are different symbols. Say with :shadowing-import-from which to take."
     "package.lisp:5: the package AQ-IMPORT imports FOP from AQ-ONE, which has no such symbol then. Near names: FOO."
     "use.lisp:2 names AQ-ONE:BAZ with one colon, but the package (package.lisp:1) doesn't export it. It exports BAR."
     "again.lisp:1 defines the package AQ-AGAIN again, without exporting ONE, as package.lisp:6 does. Define it once.")
    ("aq-exporting"
     (("package" . "(defpackage :aq-exporting (:use :cl))\n(in-package :aq-exporting)\n(export '(run))\n")
      ("use" . "(defun cl-user::aq-run () (aq-exporting:run))\n")
      ("renamed" . "(defpackage :aq-renamed (:use :cl) (:nicknames :aq-short))\n(in-package :aq-short)\n(defun f () 'aq-short::x)\n"))))
  "Systems with their files, and what is told of each before it is loaded.")

(defun agent-q-planning-test--told (text)
  "Return what TEXT, of a tool, tells of a system before it is loaded."
  (let ((prefix "Before loading: "))
    (mapcar (lambda (line) (substring line (length prefix)))
            (seq-filter (apply-partially #'string-prefix-p prefix) (split-string text "\n")))))

(agent-q-test-tools-on-each planning-tells-what-will-conflict ()
  "What the files of a system will stumble over is told by file and line; what isn't certain isn't told."
  (pcase-dolist (`(,name ,files . ,expected) agent-q-planning-test--systems)
    (let ((directory (agent-q-test-systems-system name files)))
      (agent-q-test-systems-register connection (concat directory "nothing/"))
      (agent-q-test-systems-in-project directory connection
        (let ((told (agent-q-test-tools-ask (format "/load_system system=%s dry_run=true" name))))
          (ert-info (told)
            (should (string-match-p
                     (format "\\`Dry run, nothing was loaded: %s would load %d files of the project in this order: %s\\.lisp"
                             name (length files) (caar files))
                     told))
            (should (equal expected (agent-q-planning-test--told told)))
            (should (eq (null expected) (and (string-search "Nothing was found in it that will conflict" told) t)))))
        ;; Neither loaded nor read.
        (should (equal '("NIL") (agent-q-test-image-values
                                 connection (format "(find-package %S)" (upcase name)))))))))

(provide 'agent-q-planning-test)
;;; agent-q-planning-test.el ends here
