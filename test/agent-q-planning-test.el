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
                     (format "\\`Dry run, nothing was loaded\\. %s takes %d files of the project in this order: %s\\.lisp.* It would load them all\\.$"
                             name (length files) (caar files))
                     told))
            (should (equal expected (agent-q-planning-test--told told)))
            (should (eq (null expected) (and (string-search "Nothing was found in it that will conflict" told) t)))))
        ;; Neither loaded nor read.
        (should (equal '("NIL") (agent-q-test-image-values
                                 connection (format "(find-package %S)" (upcase name)))))))))

(agent-q-test-tools-on-each planning-asks-nothing-about-definitions ()
  "A dry run takes definitions of systems as ASDF finds them; what code in one does is asked about."
  (let ((directory (agent-q-test-systems-system "aq-dry-user" '(("one" . "(in-package :cl-user)\n"))
                                                ":depends-on (\"aq-dry-library\" \"aq-dry-writer\")"))
        (library (agent-q-test-systems-system "aq-dry-library" nil))
        (writer (agent-q-test-systems-system "aq-dry-writer" nil))
        (asked nil))
    (dolist (folder (list library writer directory))
      (agent-q-test-systems-register connection folder))
    (with-temp-buffer
      (insert (format "(with-open-file (out %S :direction :output) (write-line \"x\" out))\n"
                      (expand-file-name "touched" writer)))
      (write-region nil nil (expand-file-name "aq-dry-writer.asd" writer) 'append 'silent))
    (agent-q-test-systems-in-project directory connection
      (cl-letf* ((answer (symbol-function 'agent-q-test-answer))
                 ((symbol-function 'agent-q-test-answer)
                  (lambda (_key)
                    (push (agent-q-call-reason (agent-q-call-waiting)) asked)
                    (funcall answer "n"))))
        (agent-q-test-tools-ask "/load_system system=aq-dry-user dry_run=true"))
      (should (equal '("touched") (mapcar (lambda (reason)
                                            (and (string-match "/\\([^/]*\\)\\'" reason) (match-string 1 reason)))
                                          asked)))
      (should-not (file-exists-p (expand-file-name "touched" writer))))))

;;;; With the image

(agent-q-test-tools-on-each planning-makes-the-cache-unasked ()
  "Who allows a load isn't asked about the folder for compiled files, which the first load makes.
A folder beside it is asked about."
  (let* ((elsewhere (make-temp-file (expand-file-name "cached" agent-q-test-directory) t))
         (directory (agent-q-test-systems-system
                     "aq-first" `(("one" . ,(format "(in-package :cl-user)\n(ensure-directories-exist %S)\n"
                                                    (expand-file-name "beside/it/" elsewhere))))))
         (asked nil))
    (agent-q-test-systems-register connection directory)
    (agent-q-test-image-eval
     connection
     (format "(asdf:initialize-output-translations '(:output-translations (t (%S :implementation :**/ :*.*.*)) :ignore-inherited-configuration))"
             (expand-file-name "cache/of/mine/" elsewhere)))
    (agent-q-test-systems-in-project directory connection
      (cl-letf* ((answer (symbol-function 'agent-q-test-answer))
                 ((symbol-function 'agent-q-test-answer)
                  (lambda (key)
                    (push (agent-q-call-reason (agent-q-call-waiting)) asked)
                    (funcall answer key))))
        (should (string-prefix-p "Loaded" (agent-q-test-tools-ask "/load_system aq-first"))))
      (should (equal '("/aq-first.asd" "/beside" "/beside/it")
                     (mapcar (lambda (reason)
                               (and (string-match "/aq-first\\.asd\\|/beside\\(?:/it\\)?" reason)
                                    (match-string 0 reason)))
                             (nreverse asked))))
      (should (file-exists-p (expand-file-name "cache/of/mine" elsewhere))))))

(agent-q-test-tools-on-each planning-tells-what-would-be-loaded ()
  "A dry run names the files that would be loaded now beside all that the system has."
  (let ((directory (agent-q-test-systems-system
                    "aq-dry" '(("one" . "(in-package :cl-user)\n(defun aq-dry-one () 1)\n")
                               ("two" . "(in-package :cl-user)\n(defun aq-dry-two () 2)\n")
                               ("three" . "(in-package :cl-user)\n(defun aq-dry-three () 3)\n")))))
    (agent-q-test-systems-register connection directory)
    (cl-flet ((tried (&optional force)
                (car (split-string (agent-q-test-tools-ask
                                    (concat "/load_system system=aq-dry dry_run=true" (and force " force=true")))
                                   "\n")))
              (all (end) (concat "Dry run, nothing was loaded. aq-dry takes 3 files of the project in this order: one.lisp, two.lisp, three.lisp. "
                                end)))
      (should (equal (all "It would load them all.") (tried)))
      (should (string-prefix-p "Loaded" (agent-q-test-tools-ask "/load_system aq-dry")))
      (should (equal (all "They are all loaded as they are, so it would load none.") (tried)))
      (should (equal (all "It would load them all.") (tried t)))
      (set-file-times (expand-file-name "three.lisp" directory) (time-add nil 100))
      (should (equal (all "It would load 1 of them: three.lisp.") (tried))))))

(agent-q-test-tools-on-each planning-tells-with-the-load ()
  "A load tells it, too, above the rest, whether it succeeds or not, and that the image hides a fault."
  (let ((fails (agent-q-test-systems-system
                "aq-told-fails" '(("a" . "(in-package :aq-told)\n") ("package" . "(defpackage :aq-told (:use :cl))\n"))))
        (loads (agent-q-test-systems-system
                "aq-told-loads"
                '(("use" . "(in-package :cl-user)\n(defun aq-told-use () (aq-told-with 1))\n")
                  ("macros" . "(in-package :cl-user)\n(defmacro aq-told-with (x) x)\n")))))
    (mapc (apply-partially #'agent-q-test-systems-register connection) (list fails loads))
    (let* ((line (format "Before loading: %sa.lisp:1 is in the package AQ-TOLD, which %spackage.lisp:1 defines later. Load %spackage.lisp before %sa.lisp."
                         fails fails fails fails))
           (told (agent-q-test-tools-ask "/load_system aq-told-fails")))
      (ert-info (told)
        (should (string-match-p (concat "\\`Error .*\nin loading aq-told-fails\n" (regexp-quote line) "\n") told)))
      (agent-q-test-image-directly connection "(progn (defpackage :aq-told (:use :cl)) t)")
      (let ((told (agent-q-test-tools-ask "/load_system aq-told-fails")))
        (ert-info (told)
          (should (string-match-p (concat "\\`Loaded aq-told-fails .*\n" (regexp-quote line)
                                          " (Here it works, as the image has that package\\.)\nCompiled 2 files")
                                  told)))))
    (dolist (hidden '(nil t))
      (let ((told (agent-q-test-tools-ask "/load_system system=aq-told-loads force=true")))
        (ert-info (told)
          (should (string-match-p (format "\\`Loaded .*\nBefore loading: %suse.lisp:2 uses the macro AQ-TOLD-WITH, which .*macros.lisp:2 defines later: from scratch it is compiled as a function call%s\\. Load "
                                          (regexp-quote loads)
                                          (if hidden ", though not here, where the image has the macro" ""))
                                  told)))))))

(agent-q-test-tools-on-each planning-tells-conflicts-with-the-image ()
  "What a package will conflict with in the image is told where its file is about to be loaded there."
  (let* ((text (lambda (options)
                 `(("package" . ,(format "(defpackage :aq-with (:use :cl %s))\n" options)))))
         (directory (agent-q-test-systems-system "aq-with" (funcall text ") (:export #:old")))
         (file (expand-file-name "package.lisp" directory))
         (place (concat file ":1: the package AQ-WITH "))
         (way (lambda (symbol) (format " Loading this here ends with a name conflict. %s is in the way: unintern it, or start from a fresh image." symbol))))
    (agent-q-test-systems-register connection directory)
    (should (string-prefix-p "Loaded" (agent-q-test-tools-ask "/load_system aq-with")))
    (agent-q-test-image-directly
     connection "(progn (defpackage :aq-with-user (:use :cl :aq-with)) (defpackage :aq-with-used (:use :cl) (:export #:used #:fine)) (intern \"NEW\" :aq-with-user) (intern \"USED\" :aq-with) t)")
    (should-not (agent-q-planning-test--told (agent-q-test-tools-ask "/load_system aq-with")))
    (pcase-dolist
        (`(,options . ,expected)
         `((") (:export #:old #:new"
            ,(concat file ":1: the package AQ-WITH exports NEW now, and AQ-WITH-USER uses it."
                     (funcall way "AQ-WITH-USER::NEW")))
           (":aq-with-used) (:export #:old"
            ,(concat place "uses AQ-WITH-USED now, which exports USED." (funcall way "AQ-WITH::USED")))
           (":aq-with-used) (:shadow #:used) (:export #:old")
           (") (:import-from :aq-with-used #:used) (:export #:old"
            ,(concat place "imports USED from AQ-WITH-USED now." (funcall way "AQ-WITH::USED")))
           (") (:import-from :aq-with-used #:fine) (:export #:old")
           (") (:export #:other"
            ,(concat place "of the image exports OLD, which its definition doesn't: SBCL warns of that, and ASDF then refuses the file. Unexport it, or load with the restart continue."))))
      (with-temp-file file (insert (cdar (funcall text options))))
      (let ((told (agent-q-test-tools-ask "/load_system system=aq-with dry_run=true")))
        (ert-info (told) (should (equal expected (agent-q-planning-test--told told))))))
    ;; It is true, and told once then.
    (with-temp-file file (insert (cdar (funcall text ") (:export #:old #:new"))))
    (let ((told (agent-q-test-tools-ask "/load_system aq-with")))
      (should (string-match-p "\\`Error .*NAME-CONFLICT.*AQ-WITH-USER::NEW\n.*unintern it" told))
      (should-not (agent-q-planning-test--told told)))))

(agent-q-test-tools-on-each planning-knows-definitions-of-systems ()
  "Missing files, components and packages of package-inferred systems are told for what they are."
  (let ((missing (agent-q-test-systems-system "aq-gone" '(("a" . "") ("b" . ""))))
        (wrong (agent-q-test-systems-system "aq-wrong" '(("a" . ""))))
        (inferred (agent-q-test-systems-system "aq-inferred" '())))
    (delete-file (expand-file-name "b.lisp" missing))
    (with-temp-file (expand-file-name "aq-wrong.asd" wrong)
      (insert "(defsystem \"aq-wrong\" :components ((:file \"macros\") (:file \"a\" :depends-on (\"macroz\"))))"))
    (with-temp-file (expand-file-name "aq-inferred.asd" inferred)
      (insert "(defsystem \"aq-inferred\" :class :package-inferred-system :depends-on (\"aq-inferred/main\"))"))
    (pcase-dolist (`(,file . ,text)
                   '(("main" . "(defpackage :aq-inferred/main (:use :cl :aq-inferred/part))\n(in-package :aq-inferred/main)\n(defun run () (part))\n")
                     ("part" . "(uiop:define-package :aq-inferred/part (:use :cl) (:import-from :aq-inferred/odd) (:export #:part))\n")
                     ("odd" . "(defpackage :aq-inferred.odd (:use :cl))\n")))
      (with-temp-file (expand-file-name (concat file ".lisp") inferred) (insert text)))
    (mapc (apply-partially #'agent-q-test-systems-register connection) (list missing wrong inferred))
    (cl-flet ((told (system) (agent-q-test-tools-ask (format "/load_system system=%s dry_run=true" system))))
      (should (equal (list (format "b.lisp is missing, but %saq-gone.asd names it." missing))
                     (agent-q-planning-test--told (told "aq-gone"))))
      ;; Only a definition that isn't loaded is asked about.
      (agent-q-test-tools-unasked (told "aq-gone"))
      (should (equal (format "In the definition of aq-wrong, %saq-wrong.asd, the component a depends on macroz, but there is none beside it. There is macros." wrong)
                     (told "aq-wrong")))
      (should (equal (told "aq-wrong") (agent-q-test-tools-ask "/load_system aq-wrong")))
      (let ((told (told "aq-inferred")))
        (should (string-match-p "aq-inferred takes 3 files of the project in this order: odd.lisp, part.lisp, main.lisp\\." told))
        (should (equal (list (format "%sodd.lisp:1: the package AQ-INFERRED.ODD is in the file of the system aq-inferred/odd, so ASDF doesn't find it where another file names it: it looks for aq-inferred.odd. Call the package AQ-INFERRED/ODD." inferred))
                       (agent-q-planning-test--told told)))))))

;;;; Sound systems

(defconst agent-q-planning-test--seconds 4
  "How long to try installed libraries.")

(agent-q-test-tools-on-each planning-passes-over-sound-systems ()
  "Nothing is told of installed libraries, but for files that are missing."
  (let ((names (agent-q-test-image-values
                connection
                "(progn (require :asdf) (mapcar #'pathname-name (remove-duplicates (append (directory \"/usr/share/common-lisp/systems/*.asd\") (directory \"/usr/share/common-lisp/source/*/*.asd\")) :key #'pathname-name :test #'equal)))"))
        (end (+ (float-time) agent-q-planning-test--seconds)) (tried 0))
    (dolist (name (sort (car (read-from-string (car names))) (lambda (_one _other) (zerop (random 2)))))
      (when (< (float-time) end)
        (let ((told (agent-q-test-tools-ask (format "/load_system system=%s dry_run=true" name))))
          (ert-info ((concat name ": " told))
            (when (string-prefix-p "Dry run" told) (cl-incf tried))
            (should (seq-every-p (apply-partially #'string-search " is missing, but ")
                                 (agent-q-planning-test--told told)))))))
    (should (< 0 tried))))

(provide 'agent-q-planning-test)
;;; agent-q-planning-test.el ends here
