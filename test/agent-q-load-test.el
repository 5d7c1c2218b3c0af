;;; agent-q-load-test.el --- Systems that are loaded and described  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; load_system, system_info and get_compilation_notes on systems that are made
;; here, through core and chat on real SLIME and SLY.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-tools)
(require 'agent-q-test-systems)

(agent-q-test-tools-on-each load-a-system ()
  "A system is loaded with its compiler's notes by file and line; a wrong name is helped."
  (let ((directory (agent-q-test-systems-system
                    "aq-sys" '(("code" . "(defpackage :aq-sys (:use :cl))\n(in-package :aq-sys)\n\n(defun warned (x)\n  7)\n")))))
    (agent-q-test-systems-register connection directory)
    (let ((told (agent-q-test-tools-ask "/load_system aq-sys")))
      (should (string-match-p (format "\\`Loaded aq-sys 1.2 from %saq-sys.asd, with 1 style-warning$" (regexp-quote directory)) told))
      (should (string-match-p "^Compiled 1 file: code.lisp\\.$" told))
      (should (string-match-p "^style-warning at .*code.lisp:4: .*X is defined but never used" told)))
    (should (equal '("7") (agent-q-test-image-values connection "(aq-sys::warned 1)")))
    (should (string-match-p "^Nothing has changed since it was last loaded\\.\\'"
                            (agent-q-test-tools-ask "/load_system aq-sys")))
    (should (string-match-p "warning at" (agent-q-test-tools-ask "/load_system force=true aq-sys")))
    (delete-file (expand-file-name "code.lisp" directory))
    (should (string-match-p "^warning: The file .*/code.lisp is missing; the image only has what was loaded from it before\\.\\'"
                            (agent-q-test-tools-ask "/load_system aq-sys")))
    (should (string-match-p "ASDF cannot find the system aq-syz. Near names: aq-sys"
                            (agent-q-test-tools-ask "/load_system aq-syz")))))

(agent-q-test-tools-on-each load-tells-why-a-system-does-not-load ()
  "A system that fails to compile is told by its notes with places, not by ASDF's frames."
  (let ((directory (agent-q-test-systems-system
                    "aq-bad" '(("code" . "(in-package :cl-user)\n(defun aq-bad (x)\n  (car 1))\n(defun aq-unread (x\n")))))
    (agent-q-test-systems-register connection directory)
    (let ((told (agent-q-test-tools-ask "/load_system aq-bad")))
      (should (string-match-p "^warning at .*code.lisp:3: Constant 1 conflicts" told))
      (should (string-match-p "^read-error at .*code.lisp:" told))
      (should-not (string-match-p "ASDF/OPERATE\\|^; \\|caught WARNING" told))
      ;; Trying again would come to the same.
      (should (string-match-p "^Restarts: ACCEPT ([^)]*)$" told)))))

(agent-q-test-tools-on-each load-says-a-warning-once ()
  "What a load says again that the compiler said of the same form is told with its place alone."
  (let ((directory (agent-q-test-systems-system
                    "aq-variance" '(("code" . "(defpackage :aq-variance (:use :cl) (:export :a))\n")))))
    (agent-q-test-systems-register connection directory)
    (agent-q-test-image-directly connection "(progn (defpackage :aq-variance (:use :cl) (:export :a :b)) t)")
    (let ((told (agent-q-test-tools-ask "/load_system system=aq-variance restart=accept")))
      (should (string-match-p "^warning at .*code.lisp:1: AQ-VARIANCE also exports" told))
      (should (= 2 (length (split-string told "also exports")))))))

(defconst agent-q-load-test-fast
  (concat "(in-package :cl-user)\n(declaim (optimize (speed 3)))\n"
          (mapconcat (lambda (number)
                       (format "(defun aq-fast-%d (x y) (+ (* x y) %d))\n" number number))
                     (number-sequence 1 40) "")
          "(declaim (optimize (speed 1)))\n(dotimes (i 3000) (format t \"line ~a~%\" i))\n")
  "Functions with many optimization notes, and more output than is kept.")

(agent-q-test-tools-on-each load-shows-problems-first ()
  "What makes a load fail is told before style-warnings; notes are counted, and kept for later.
Of the program's output, the end is there; the compiler's lines are not."
  (let ((directory (agent-q-test-systems-system
                    "aq-noisy" `(("fast" . ,agent-q-load-test-fast)
                                 ("app" . "(in-package :cl-user)\n(defun aq-app (unused)\n  (symbol-value 7))\n(defun aq-apq () (car 1))\n")))))
    (agent-q-test-systems-register connection directory)
    (let ((told (agent-q-test-tools-ask "/load_system aq-noisy")))
      (should (string-match-p "\\`Error .*COMPILE-FILE-ERROR" told))
      (should (string-match-p "^in loading aq-noisy\nwarning at .*app.lisp:3: Constant 7 conflicts.*\nwarning at .*app.lisp:4: Constant 1 conflicts.*\nstyle-warning at .*app.lisp:2: " told))
      (should (string-match-p "^(Not listed: [0-9]+ optimization notes; call_tool get_compilation_notes lists all.)$" told))
      (should-not (string-match-p "^note at\\|^; " told))
      (should (string-match-p "^line 0\n\\(.*\n\\)*\\[[0-9]+ characters of output omitted\\]\n\\(.*\n\\)*line 2999" told)))
    (let ((told (agent-q-test-tools-ask "/get_compilation_notes limit=3")))
      (should (string-match-p "\\`Compiled by you, .*, with failures: the system aq-noisy\nnote at .*fast.lisp:3: " told))
      (should (string-match-p "^[0-9]+ more: call again with offset 3\\.\\'" told)))
    (let ((told (agent-q-test-tools-ask "/get_compilation_notes limit=200 offset=3")))
      (should (string-match-p "^note at .*fast.lisp:[0-9]+: " told))
      (should (string-match-p "^Offset past the end: only [0-9]+ results\\.\\'"
                              (agent-q-test-tools-ask "/get_compilation_notes offset=4000"))))
    ;; Tests of a system that can't be compiled fail for the same reasons.
    (should (string-match-p "^warning at .*app.lisp:4: Constant 1 conflicts"
                            (agent-q-test-tools-ask "/run_tests system=aq-noisy")))))

(agent-q-test-tools-on-each load-tells-what-is-undefined ()
  "What is undefined when all is compiled is told with its place; functions that came later are not."
  (let ((directory (agent-q-test-systems-system
                    "aq-undefined" '(("one" . "(defun cl-user::aq-one-u ()\n  (list aq-nowhere (aq-later-u) (aq-never-u)))\n")
                                     ("two" . "(defun cl-user::aq-later-u () 1)\n")))))
    (agent-q-test-systems-register connection directory)
    (should (string-match-p "^Compiled 2 files: one.lisp, two.lisp\\.\nstyle-warning at .*one.lisp:2: undefined function: .*AQ-NEVER-U\nwarning at .*one.lisp:2: undefined variable: .*AQ-NOWHERE\\'"
                            (agent-q-test-tools-ask "/load_system aq-undefined")))))

(agent-q-test-tools-on-each load-leaves-out-other-systems ()
  "Of a system that another one needs, only errors and warnings are told; the rest is counted."
  (let ((needed (agent-q-test-systems-system
                 "aq-needed" '(("needed" . "(in-package :cl-user)\n(defun aq-needed (x) 1)\n"))))
        (needing (agent-q-test-systems-system
                  "aq-needing" '(("needing" . "(in-package :cl-user)\n(defun aq-needing (y) 1)\n"))
                  ":depends-on (\"aq-needed\")")))
    (mapc (apply-partially #'agent-q-test-systems-register connection) (list needed needing))
    (let ((told (agent-q-test-tools-ask "/load_system aq-needing")))
      (should (string-match-p "^Compiled 1 file: needing.lisp; compiled 1 file of other systems\\.$" told))
      (should (string-match-p "^style-warning at .*needing.lisp:2: " told))
      (should-not (string-match-p "needed.lisp" told))
      (should (string-match-p "^(Not listed: 1 notes and style-warnings of other systems; " told)))
    (should (string-match-p "^style-warning at .*needed.lisp:2: "
                            (agent-q-test-tools-ask "/get_compilation_notes")))
    ;; What compiles nothing leaves that as it is.
    (agent-q-test-tools-ask "/load_system aq-needing")
    (should (string-match-p "^style-warning at .*needed.lisp:2: "
                            (agent-q-test-tools-ask "/get_compilation_notes")))))

(agent-q-test-tools-on-each load-counts-what-it-redefines ()
  "Definitions of another place's files that a load replaces are counted; others aren't mentioned."
  (let* ((code (lambda (value)
                 `(("code" . ,(format "(in-package :cl-user)\n(defun aq-twice () %d)\n" value)))))
         (one (agent-q-test-systems-system "aq-twice-one" (funcall code 1)))
         (two (agent-q-test-systems-system "aq-twice-two" (funcall code 2))))
    (mapc (apply-partially #'agent-q-test-systems-register connection) (list one two))
    (should-not (string-match-p "redefin" (agent-q-test-tools-ask "/load_system aq-twice-one")))
    (let ((told (agent-q-test-tools-ask "/load_system aq-twice-two")))
      (should (string-match-p (format "^(1 definition was redefined that came from %s\\.)$"
                                      (regexp-quote one))
                              told))
      (should-not (string-match-p "WARNING" told)))
    (should-not (string-match-p "redefin"
                                (agent-q-test-tools-ask "/load_system system=aq-twice-two force=true")))
    (should-not (string-match-p "redefin"
                                (agent-q-test-tools-ask "/compile_form (defun cl-user::aq-twice () 3)")))
    (should-not (string-match-p "redefin"
                                (agent-q-test-tools-ask "/eval_form (defun cl-user::aq-twice () 4)")))))

(agent-q-test-tools-on-each load-shows-no-frames-of-asdf ()
  "Neither a circle of systems nor an error in a file comes with the frames that loaded it."
  (let ((circle (agent-q-test-systems-system "aq-circle" '(("a" . "")) ":depends-on (\"aq-circle\")"))
        (fails (agent-q-test-systems-system
                "aq-fails" '(("code" . "(error \"No ~a today.\" 'load)\n")))))
    (mapc (apply-partially #'agent-q-test-systems-register connection) (list circle fails))
    (dolist (case '(("aq-circle" "Circular dependency") ("aq-fails" "No LOAD today")))
      (pcase-let* ((`(,system ,reason) case)
                   (told (agent-q-test-tools-ask (concat "/load_system " system))))
        (should (string-match-p reason told))
        (should-not (string-match-p "(ASDF/\\|(UIOP/\\|(SB-" told))))))

(defun agent-q-load-test--same-second (connection source)
  "Give SOURCE the date that its compiled file behind CONNECTION has."
  (let ((seconds (car (agent-q-test-image-values
                       connection
                       (format "(- (file-write-date (asdf:apply-output-translations (compile-file-pathname %S))) (encode-universal-time 0 0 0 1 1 1970 0))"
                               source)))))
    (set-file-times source (seconds-to-time (string-to-number seconds)))))

(agent-q-test-tools-on-each load-sees-a-change-in-the-same-second ()
  "A file that was changed in the second in which it was compiled is compiled again."
  (let* ((directory (agent-q-test-systems-system
                     "aq-solo" '(("solo" . "(defun cl-user::aq-solo () 1)\n"))))
         (source (expand-file-name "solo.lisp" directory)))
    (agent-q-test-systems-register connection directory)
    (agent-q-test-tools-ask "/load_system aq-solo")
    (agent-q-load-test--same-second connection source)
    (should (string-match-p "^Nothing has changed" (agent-q-test-tools-ask "/load_system aq-solo")))
    (with-temp-file source (insert "(defun cl-user::aq-solo () 2)\n"))
    (agent-q-load-test--same-second connection source)
    (should (string-match-p "^  solo.lisp (changed since it was loaded)$"
                            (agent-q-test-tools-ask "/system_info aq-solo")))
    (should (string-match-p "^Compiled 1 file: solo.lisp\\.$"
                            (agent-q-test-tools-ask "/load_system aq-solo")))
    (should (equal '("2") (agent-q-test-image-values connection "(aq-solo)")))
    ;; ASDF is left as it was.
    (should (equal '("0")
                   (agent-q-test-image-values
                    connection "(count-if (lambda (it) (some (lambda (class) (typep class 'sb-mop:eql-specializer)) (sb-mop:method-specializers it))) (sb-mop:generic-function-methods #'asdf:operation-done-p))")))))

(agent-q-test-tools-on-each load-that-failed-is-not-done ()
  "What did not compile or load is tried again, even when no date has changed."
  (let* ((directory (agent-q-test-systems-system
                     "aq-half" '(("half" . "(defun cl-user::aq-half () 1)\n"))))
         (source (expand-file-name "half.lisp" directory)))
    (agent-q-test-systems-register connection directory)
    (cl-flet ((try (text)
                (with-temp-file source (insert text))
                (agent-q-load-test--same-second connection source)
                (agent-q-test-tools-ask "/load_system aq-half"))
              (again () (agent-q-test-tools-ask "/load_system aq-half")))
      (agent-q-test-tools-ask "/load_system aq-half")
      (dolist (text '("(defun cl-user::aq-half () 2)\n(defun cl-user::aq-bad () (car 1 2))\n"
                      "(error \"Not now\")\n(defun cl-user::aq-half () 2)\n"))
        (should (string-prefix-p "Error" (try text)))
        (should (string-prefix-p "Error" (again)))
        (agent-q-load-test--same-second connection source)
        (should (string-prefix-p "Error" (again)))
        (should (string-match-p "^  half.lisp (its last load failed)$"
                                (agent-q-test-tools-ask "/system_info aq-half")))
        (should (string-match-p "half\\.lisp:\\|\\`Error SIMPLE-ERROR: Not now\nin loading aq-half\n"
                                (agent-q-test-tools-ask "/run_tests system=aq-half")))
        (should (equal '("1") (agent-q-test-image-values connection "(aq-half)"))))
      (should (string-match-p "^Compiled 1 file: half.lisp\\."
                              (try "(defun cl-user::aq-half () 3)\n")))
      (should (equal '("3") (agent-q-test-image-values connection "(aq-half)")))
      (should (string-match-p "^Nothing has changed" (again))))))

;;;; The systems of a project

(defun agent-q-load-test--project ()
  "Make a project with systems that ASDF does not know; return its directory."
  (let ((directory (file-name-as-directory
                    (make-temp-file (expand-file-name "project" agent-q-test-directory) t))))
    (pcase-dolist (`(,file . ,text)
                   '(("aq-bank.asd" . "(defsystem \"aq-bank\" :version \"0.3\" :description \"Money.\" :depends-on (\"aq-coins\") :serial t :components ((:file \"package\") (:module \"src\" :components ((:file \"account\")))))
(defsystem #:aq-bank/tests :depends-on (:aq-bank) :components ((:file \"tests\")) :perform (test-op (o c) (format t \"all of the bank's tests passed~%\")))
")
                     ("package.lisp" . "(defpackage :aq-bank (:use :cl))\n")
                     ("src/account.lisp" . "(in-package :aq-bank)\n(defun balance () (aq-coins))\n(defun aq-coins () 5)\n")
                     ("tests.lisp" . "(in-package :aq-bank)\n")
                     ("lib/coins/aq-coins.asd" . "(asdf:defsystem aq-coins :components ((:file \"coins\")))")
                     ("lib/coins/coins.lisp" . "(defvar cl-user::*aq-coins* 1)\n")
                     (".gitignore" . "ignored/\n")
                     ("ignored/aq-ignored.asd" . "(defsystem \"aq-ignored\")")))
      (let ((name (expand-file-name file directory)))
        (make-directory (file-name-directory name) t)
        (with-temp-file name (insert text))))
    directory))

(defun agent-q-load-test--reason ()
  "Return why the latest call of the current chat was asked about."
  (let ((latest nil))
    (maphash (lambda (key call)
               (when (or (null latest) (> key (agent-q-call-key latest)))
                 (setq latest call)))
             agent-q-call-table)
    (agent-q-call-reason latest)))

(agent-q-test-tools-on-each load-finds-the-systems-of-the-project ()
  "Systems of the project are found though ASDF does not know their directories."
  (let ((directory (agent-q-load-test--project)))
    (agent-q-test-systems-register connection (concat directory "nothing/"))
    (agent-q-test-systems-in-project directory connection
      (should (equal (concat "Systems of this project:\n"
                             "  aq-bank  " (file-truename directory) "aq-bank.asd (not loaded)\n"
                             "  aq-bank/tests  " (file-truename directory) "aq-bank.asd (not loaded)\n"
                             "  aq-coins  " (file-truename directory) "lib/coins/aq-coins.asd (not loaded)")
                     (agent-q-test-tools-ask "/system_info")))
      ;; To describe it loads nothing, so there is little to tell.
      (should (string-match-p "\\`aq-bank is defined by .*aq-bank.asd, which the image has not loaded"
                              (agent-q-test-tools-ask "/system_info aq-bank")))
      (should (equal '("NIL") (agent-q-test-image-values connection "(asdf:find-system \"aq-bank\" nil)")))
      (should (string-match-p "Near names: aq-bank.*Systems of this project: aq-bank, aq-bank/tests, aq-coins\\."
                              (agent-q-test-tools-ask "/load_system aq-bnk")))
      (let ((told (agent-q-test-tools-ask "/load_system aq-bank.asd")))
        (should (equal (concat "loads code into your image: " (file-truename directory) "aq-bank.asd")
                       (agent-q-load-test--reason)))
        (should (string-match-p "\\`Loaded aq-bank 0.3 from .*/aq-bank.asd\nCompiled 3 files: lib/coins/coins.lisp, package.lisp, src/account.lisp\\." told)))
      (should (equal '("5") (agent-q-test-image-values connection "(aq-bank::balance)")))
      (let ((told (agent-q-test-tools-ask "/system_info aq-bank")))
        (should (string-match-p (concat "\\`aq-bank 0.3, .*/aq-bank.asd\nMoney.\nDepends on: aq-coins\n"
                                        "Needed by: aq-bank/tests\n2 files in order:\n  package.lisp\n  src/account.lisp\n"
                                        "Packages defined: AQ-BANK (package.lisp)\\'")
                                told)))
      (let ((told (agent-q-test-tools-ask "/run_tests system=aq-bank/tests")))
        (should (string-prefix-p (concat "Tests of aq-bank/tests, " (file-truename directory) "aq-bank.asd: Not counted: the tests returned")
                                 told))
        (should (string-match-p "all of the bank's tests passed" told)))
      (should (string-match-p "\\`Compiled by you, [0-9]+ s ago: the system aq-bank/tests\n"
                              (agent-q-test-tools-ask "/get_compilation_notes")))
      ;; The name of a file is enough, wherever in the project it is.
      (should (string-match-p "\\`Loaded aq-coins from .*/lib/coins/aq-coins.asd\n"
                              (agent-q-test-tools-ask "/load_system aq-coins.asd")))
      (let ((file (concat (file-truename directory) "lib/coins/aq-coins.asd")))
        (should (string-match-p "\\`Loaded aq-coins from .*/lib/coins/aq-coins.asd\nCompiled 1 file: lib/coins/coins.lisp\\."
                                (agent-q-test-tools-ask (format "/load_system force=true %s" file))))
        (should (equal (concat "loads code into your image: " file)
                       (agent-q-load-test--reason))))
      (should (string-match-p "'lib/aq-none.asd' does not exist"
                              (agent-q-test-tools-ask "/load_system lib/aq-none.asd"))))))

(defun agent-q-load-test--twin (name value)
  "Make a system NAME with code for VALUE, and one beside it that tests it.
Return its directory."
  (let ((directory (agent-q-test-systems-system
                    name `(("twin" . ,(format "(defun cl-user::%s () %s)\n" name value))))))
    (with-temp-file (expand-file-name (concat name ".test.asd") directory)
      (insert (format "(defsystem \"%s.test\" :depends-on (%S) :perform (test-op (o c) (format t \"~a by ~a~%%\" (uiop:symbol-call :cl-user :%s) %s)))"
                      name name name value)))
    directory))

(agent-q-test-tools-on-each load-prefers-the-project ()
  "Where ASDF knows another copy of a system of the project, the project's is loaded and tested."
  (let* ((known (agent-q-load-test--twin "aq-twin" ":known"))
         (ours (agent-q-load-test--twin "aq-twin" ":ours")))
    (agent-q-test-systems-register connection known)
    (agent-q-test-systems-in-project ours connection
      (should (string-match-p (format "^  aq-twin  .*(not loaded; ASDF by itself would take %s.*)$"
                                      (regexp-quote known))
                              (agent-q-test-tools-ask "/system_info")))
      (let ((told (agent-q-test-tools-ask "/run_tests system=aq-twin.test")))
        (should (string-match-p (format "\\`Tests of aq-twin.test, %saq-twin.test.asd: " (regexp-quote (file-truename ours)))
                                told))
        (should (string-match-p "^(The project's\\. ASDF by itself would take " told))
        (should (string-match-p "^OURS by OURS$" told))
        (should (equal (format "runs tests in your image: %saq-twin.test.asd (ASDF by itself would take %saq-twin.test.asd)"
                               (file-truename ours) known)
                       (agent-q-load-test--reason))))
      (dolist (name (list "aq-twin" "aq-twin.asd" (concat ours "aq-twin.asd")))
        (should (string-match-p (concat "\\`Loaded aq-twin 1.2 from " (regexp-quote (file-truename ours)))
                                (agent-q-test-tools-ask (concat "/load_system " name)))))
      (should (equal '(":OURS") (agent-q-test-image-values connection "(aq-twin)"))))))

(agent-q-test-tools-on-each load-state-is-told-with-messages ()
  "A message's block names the project's systems, whether they are loaded, and what ASDF would take."
  (let* ((known (agent-q-load-test--twin "aq-told" ":known"))
         (ours (agent-q-load-test--twin "aq-told" ":ours")))
    (agent-q-test-systems-register connection known)
    (agent-q-test-with-model
        (agent-q-json-encode '(:turns [(:steps [(:text "A.")]) (:steps [(:text "B.")])]))
      (agent-q-test-systems-in-project ours connection
        ;; So the Common Lisp half is there.
        (agent-q-test-tools-ask "/system_info")
        (agent-q-test-ask "one")
        (agent-q-test-tools-ask "/load_system aq-told")
        (agent-q-test-ask "two")
        (with-temp-buffer
          (insert-file-contents agent-q-test-requests)
          (should (search-forward (format "\\nSystems: not loaded: aq-told (ASDF by itself would take %saq-told.asd), aq-told.test (ASDF by itself would take %saq-told.test.asd)\\n"
                                          known known)))
          (should (search-forward "\\nSystems: loaded: aq-told; not loaded: aq-told.test")))))))

(agent-q-test-tools-on-each load-state-outlives-a-test-operation-that-loads-more ()
  "ASDF forgets that a system is loaded where testing it defines the system again."
  (let ((directory (agent-q-test-systems-system
                    "aq-kept" '(("kept" . "(defun cl-user::aq-kept () 1)\n"))
                    ":perform (test-op (o c) (asdf:load-asd (asdf:system-source-file c)) (asdf:operate 'asdf:load-op \"aq-kept-test\") (format t \"ran~%\"))")))
    (with-temp-buffer
      (insert "(defsystem \"aq-kept-test\" :depends-on (\"aq-kept\"))\n")
      (append-to-file nil nil (expand-file-name "aq-kept.asd" directory)))
    (agent-q-test-systems-register connection (concat directory "nothing/"))
    (agent-q-test-systems-in-project directory connection
      (should (string-match-p "^ran$" (agent-q-test-tools-ask "/run_tests aq-kept")))
      (should (equal '("NIL") (agent-q-test-image-values
                               connection "(asdf:component-loaded-p (asdf:find-system \"aq-kept\"))")))
      (let ((told (agent-q-test-tools-ask "/system_info")))
        (should (string-match-p "^  aq-kept  .* (loaded)$" told)))
      (should-not (string-search "not loaded" (agent-q-test-tools-ask "/system_info aq-kept"))))))

(agent-q-test-tools-on-each load-refuses-a-second-copy ()
  "Where the image has loaded another copy, nothing is loaded over it unasked."
  (let* ((known (agent-q-load-test--twin "aq-double" ":known"))
         (ours (agent-q-load-test--twin "aq-double" ":ours"))
         (refused (format "The image has loaded aq-double from another place, %saq-double.asd; the project's is %saq-double.asd"
                          known (file-truename ours))))
    (agent-q-test-systems-register connection known)
    (should (equal '("T") (agent-q-test-image-values connection "(and (asdf:load-system \"aq-double\") t)")))
    (agent-q-test-systems-in-project ours connection
      ;; What needs it is no way around.
      (dolist (call '("/load_system aq-double" "/run_tests system=aq-double.test"))
        (should (string-match-p (regexp-quote refused) (agent-q-test-tools-ask call))))
      (should (equal '(":KNOWN") (agent-q-test-image-values connection "(aq-double)")))
      (should (string-match-p (format "^  aq-double  .*(not loaded; the image has %s.*)$" (regexp-quote known))
                              (agent-q-test-tools-ask "/system_info")))
      (should (string-match-p (format "The rest of aq-double is not the project's: the image has loaded it from %s"
                                      (regexp-quote known))
                              (agent-q-test-tools-ask "/compile_file path=twin.lisp name=cl-user::aq-double")))
      (should (string-match-p "\\`Loaded aq-double 1.2 from "
                              (agent-q-test-tools-ask "/load_system force=true aq-double")))
      (should (string-match-p "^OURS by OURS$" (agent-q-test-tools-ask "/run_tests system=aq-double.test"))))))

(agent-q-test-tools-on-each load-looks-again-for-what-is-missing ()
  "What was installed since ASDF read its registry is found; one that is missing is named."
  (let* ((tree (file-name-as-directory (make-temp-file (expand-file-name "tree" agent-q-test-directory) t)))
         (needing (agent-q-test-systems-system "aq-wanting" nil ":depends-on (\"aq-wanted\")")))
    (agent-q-test-systems-register connection needing)
    (agent-q-test-image-values
     connection (format "(asdf:initialize-source-registry '(:source-registry (:tree %S) :ignore-inherited-configuration))" tree))
    (agent-q-test-image-values
     connection (format "(setf (uiop:getenv \"CL_SOURCE_REGISTRY\") %S)" (concat tree "/")))
    (let ((told (agent-q-test-tools-ask "/load_system aq-wanting")))
      (should (string-match-p "\\`ASDF cannot find the system aq-wanted, which aq-wanting needs\\." told))
      (should-not (string-match-p "Backtrace" told)))
    (with-temp-file (expand-file-name "aq-wanted.asd" tree) (insert "(defsystem \"aq-wanted\")"))
    (should (string-match-p "\\`Loaded aq-wanting " (agent-q-test-tools-ask "/load_system aq-wanting")))))

(agent-q-test-tools-on-each load-names-all-that-is-missing ()
  "Every system that is missing is named at once, with what needs it."
  (let ((top (agent-q-test-systems-system
              "aq-top" nil ":depends-on (\"aq-mid\" (:version \"aq-gone-1\" \"2\") (:feature :aq-none \"aq-unneeded\"))"))
        (mid (agent-q-test-systems-system "aq-mid" nil ":depends-on (\"aq-gone-2\" \"aq-gone-1\")")))
    (agent-q-test-systems-register connection top)
    (agent-q-test-systems-register connection mid)
    (let ((told (agent-q-test-tools-ask "/load_system aq-top")))
      (should (string-match-p "\\`ASDF cannot find the systems aq-gone-" told))
      (should (string-match-p "aq-gone-2, which aq-mid needs[;.]" told))
      (should (string-match-p "aq-gone-1, which aq-\\(?:mid\\|top\\) needs[;.]" told))
      (should (string-match-p "\\. Their \\.asd files must be" told))
      (should-not (string-match-p "unneeded" told)))))

(agent-q-test-tools-on-each load-of-no-system-asks-nobody ()
  "That there is no such system is told before the user is asked; what may be there is asked about."
  (let ((directory (agent-q-test-systems-system "aq-there" nil)))
    (agent-q-test-systems-register connection directory)
    (dolist (line '("/load_system aq-nothing-such" "/run_tests system=aq-nothing-such"))
      (should (string-match-p "\\`ASDF cannot find the system aq-nothing-such\\."
                              (agent-q-test-tools-ask line)))
      (should-not (agent-q-load-test--reason)))
    (should (string-match-p "\\`Loaded aq-there " (agent-q-test-tools-ask "/load_system aq-there")))
    (should (agent-q-load-test--reason))
    ;; Somebody's own way to find systems may download them, and isn't asked beforehand.
    (agent-q-test-image-values
     connection "(progn (defvar cl-user::*aq-sought* nil) (defun cl-user::aq-seek (name) (push name cl-user::*aq-sought*) nil) (setf asdf:*system-definition-search-functions* (append asdf:*system-definition-search-functions* '(cl-user::aq-seek))))")
    (unwind-protect
        (progn
          (should (string-match-p "\\`ASDF cannot find" (agent-q-test-tools-ask "/load_system aq-nothing-such")))
          (should (agent-q-load-test--reason)))
      (agent-q-test-image-values
       connection "(setf asdf:*system-definition-search-functions* (remove 'cl-user::aq-seek asdf:*system-definition-search-functions*))"))))

(agent-q-test-tools-on-each load-names-files-as-the-image-does ()
  "Files of the project are told by the names that they have where the image runs."
  (let* ((here (agent-q-test-systems-system
                "aq-far" '(("far" . "(defvar cl-user::*aq-far* 1)\n"))))
         (there (concat (directory-file-name here) "-there/")))
    (copy-directory here there nil nil t)
    (agent-q-test-systems-register connection (concat here "nothing/"))
    (cl-progv (list (intern (format "%s-to-lisp-filename-function" client)))
        (list (lambda (file) (string-replace (file-truename here) there file)))
      (agent-q-test-systems-in-project here connection
        (should (string-match-p (concat "\\`Loaded aq-far 1.2 from " (regexp-quote there))
                                (agent-q-test-tools-ask "/load_system aq-far")))))))

;;;; Restarts

(agent-q-test-tools-on-each load-goes-on-by-a-restart ()
  "A constant list, a changed structure and a package at variance load by the restart continue."
  (let ((system (lambda (name code)
                  (agent-q-test-systems-register
                   connection (agent-q-test-systems-system name `(("code" . ,code)))))))
    (funcall system "aq-const" "(defconstant cl-user::+aq-const+ '(1 2))\n(defvar cl-user::*aq-after* 7)\n")
    (funcall system "aq-struct" "(defstruct cl-user::aq-struct a b c)\n(defvar cl-user::*aq-after-struct* 8)\n")
    (funcall system "aq-variance" "(defpackage :aq-variance (:use :cl) (:export #:a))\n(defvar cl-user::*aq-after-variance* 9)\n")
    (agent-q-test-image-values
     connection "(progn (eval '(defstruct cl-user::aq-struct a b))
                        (eval '(defpackage :aq-variance (:use :cl) (:export #:a)))
                        (export (intern \"B\" :aq-variance) :aq-variance))")
    (let ((told (agent-q-test-tools-ask "/load_system aq-const")))
      (should (string-match-p "\\`Error .*DEFCONSTANT-UNEQL" told))
      (should (string-match-p "^Restarts: CONTINUE (Go ahead and change the value\\.)" told)))
    (should (string-match-p "^Restarts: .*ACCEPT" (agent-q-test-tools-ask "/load_system aq-variance")))
    (let ((told (agent-q-test-tools-ask "/load_system system=aq-const restart=continue")))
      (should (string-match-p "\\`Loaded aq-const 1.2 from " told))
      (should (string-match-p "^Restarts invoked:\n  .*DEFCONSTANT-UNEQL: .* -> CONTINUE$" told)))
    (let ((told (agent-q-test-tools-ask "/load_system system=aq-struct restart=continue")))
      (should (string-match-p "\\`Loaded aq-struct 1.2 from " told))
      (should (string-match-p "^Restarts invoked:\n  .*redefine.* -> CONTINUE$" told)))
    (should (string-match-p "\\`Loaded aq-variance 1.2 from \\(?:.*\n\\)*warning at .*also exports"
                            (agent-q-test-tools-ask "/load_system system=aq-variance restart=accept")))
    (should (equal '("(7 8 9)")
                   (agent-q-test-image-values
                    connection "(list cl-user::*aq-after* cl-user::*aq-after-struct* cl-user::*aq-after-variance*)")))
    (should (equal '("T") (agent-q-test-image-values
                           connection "(and (search \":C 3\" (prin1-to-string (cl-user::make-aq-struct :c 3))) t)")))
    ;; What is loaded stays so.
    (should (string-match-p "^Nothing has changed since it was last loaded"
                            (agent-q-test-tools-ask "/load_system aq-struct")))
    ;; A name that no restart has is told, beside those that there are.
    (should (string-match-p "-> none is called nonesuch\n\\(?:.*\n\\)*Restarts: CONTINUE"
                            (agent-q-test-tools-ask
                             "/load_system system=aq-const force=true restart=nonesuch")))))

(agent-q-test-tools-on-each load-restarts-of-what-else-compiles ()
  "Compiling a form or a file and running tests take a restart; tools without one name none."
  (let* ((directory (agent-q-test-systems-system
                     "aq-again" '(("code" . "(defconstant cl-user::+aq-again+ '(1 2))\n(defun cl-user::aq-again () 5)\n"))))
         (file (expand-file-name "code.lisp" directory)))
    (agent-q-test-systems-register connection directory)
    (agent-q-test-image-values connection "(progn (eval '(defconstant cl-user::+aq-again+ (list 1 2))) 1)")
    (dolist (line (list "/compile_form %s (defconstant cl-user::+aq-again+ '(3))"
                        (concat "/compile_file " "%s path=" file)
                        (concat "/compile_file %s name=cl-user::+aq-again+ path=" file)
                        "/run_tests %s system=aq-again"))
      (ert-info (line)
        (should (string-match-p "^Restarts: CONTINUE" (agent-q-test-tools-ask (format line ""))))
        (should (string-match-p "^Restarts invoked:\n  .*DEFCONSTANT-UNEQL: .* -> CONTINUE"
                                (agent-q-test-tools-ask (format line "restart=continue"))))))
    (should (equal '("5") (agent-q-test-image-values connection "(cl-user::aq-again)")))
    ;; Values are code that the user is asked about.
    (agent-q-test-send "/compile_form restart=\"use-value (aq-any)\" (defvar cl-user::*aq-any* 1)")
    (agent-q-test-until (or (agent-q-call-waiting) (agent-q-test-idle-p)))
    (should (string-match-p "evaluates values for a restart"
                            (agent-q-call-reason (agent-q-call-waiting))))
    (agent-q-test-answer "n")
    (agent-q-test-until (agent-q-test-idle-p))
    (let ((told (agent-q-test-tools-ask
                 "/eval_in_package package=cl-user (restart-case (error \"No.\") (use-value (x) x))")))
      (should (string-match-p "\\`Error SIMPLE-ERROR: No\\." told))
      (should-not (string-match-p "Restarts" told)))))

;;;; What is the user's own

(agent-q-test-tools-on-each load-knows-what-is-of-the-project ()
  "Packages and warnings of systems elsewhere are not the user's own."
  (let ((mine (agent-q-test-systems-system
               "aq-mine" '(("mine" . "(defpackage :aq-mine (:use :cl))\n"))))
        (other (agent-q-test-systems-system
                "aq-elsewhere" '(("elsewhere" . "(defpackage :aq-elsewhere (:use :cl))\n")))))
    (write-region "(defsystem \"aq-misnamed\")\n" nil (expand-file-name "aq-elsewhere.asd" other) t 'silent)
    (agent-q-test-systems-register connection other)
    (agent-q-test-systems-in-project mine connection
      (let ((told (agent-q-test-tools-ask "/load_system aq-elsewhere")))
        (should (string-match-p "\\`Loaded aq-elsewhere" told))
        (should-not (string-search "misnamed" told)))
      (agent-q-test-tools-ask "/load_system aq-mine")
      (let ((told (agent-q-test-tools-ask "/image_status")))
        (should (string-match "the user's own: \\(.*\\)" told))
        (let ((own (match-string 1 told)))
          (should (string-match-p "AQ-MINE" own))
          (should-not (string-match-p "AQ-ELSEWHERE" own))))
      (should (string-search "aq-elsewhere" (agent-q-test-tools-ask "/image_status part=systems")))
      (delete-file (expand-file-name "aq-elsewhere.asd" other))
      (should-not (string-search "aq-elsewhere"
                                 (agent-q-test-tools-ask "/image_status part=systems"))))))

(provide 'agent-q-load-test)
;;; agent-q-load-test.el ends here
