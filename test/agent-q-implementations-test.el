;;; agent-q-implementations-test.el --- Each tool on each Common Lisp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Calls every tool of the Lisp image in SBCL, ECL, ABCL and CLISP, as far as
;; they are installed, through SLIME and SLY, and compares what comes of it with
;; the table in the manual.  AGENT_Q_WRITE_TABLE=1 writes the table instead.

;;; Code:

(require 'agent-q-test-implementations)
(require 'agent-q-debugger)
(require 'agent-q-activity)
(require 'agent-q-image-tools)

(defvar agent-q-implementations-test--project nil
  "The directory with the sources of the image that is tested.")

(defconst agent-q-implementations-test--searched
  '("text search for .*\n\\(?:.*\n\\)*?look\\.lisp:[0-9]+: .*\\(?:callee\\|\\*level\\*\\|twice\\)"
    . "a text search of the project's sources")
  "What stands for cross-references that an implementation doesn't record.")

(defconst agent-q-implementations-test--definitions
  "(defun aq-inner (x) (let ((y (list :local x)))
     (restart-case (error \"no good: ~a\" y) (use-value (value) (list :used value)))))
   (defun aq-kept () :first)
   (define-compiler-macro aq-inner (&whole form x) (if (eql x 2) '(list :two) form))"
  "What is evaluated before the examples.")

;;;; Examples that are more than one call

(defun agent-q-implementations-test--start (form &rest arguments)
  "Start to evaluate FORM with more ARGUMENTS.
The value is a cons of the batch and the result, nil until it is there."
  (let ((started (list nil)))
    (setcar started
            (agent-q-execute-tool-calls
             `((:name "eval_form" :arguments (:form ,form ,@arguments)))
             (lambda (results) (setcdr started (car results)))))
    started))

(defun agent-q-implementations-test--end (started)
  "Wait for the content of the result of what was STARTED."
  (agent-q-tool-result-content (agent-q-test-until (cdr started) "the end of a call")))

(defun agent-q-implementations-test--file (name)
  "Return the name of a file NAME that is not there."
  (let ((file (expand-file-name name agent-q-implementations-test--project)))
    (ignore-errors (delete-file file))
    file))

(defun agent-q-implementations-test--touch (file)
  "Return a form that makes FILE."
  (format "(with-open-file (s %S :direction :output) (princ 1 s))" file))

(defun agent-q-implementations-test--cancel (_)
  "Cancel a form that runs, and tell what the image evaluates then."
  (let* ((file (agent-q-implementations-test--file "running"))
         (started (agent-q-implementations-test--start
                   (format "(progn %s (loop))" (agent-q-implementations-test--touch file)))))
    (agent-q-test-until (file-exists-p file))
    (agent-q-cancel-tool-calls (car started))
    (concat (agent-q-implementations-test--end started) "\n"
            (agent-q-test-implementations-call "eval_form" '(:form "(+ 1 2)")))))

(defun agent-q-implementations-test--side-by-side (_)
  "Run a form that waits for what another one does, and tell its result."
  (let* ((file (agent-q-implementations-test--file "beside"))
         (waiting (agent-q-implementations-test--start
                   (format "(loop until (probe-file %S) finally (return :beside))" file)
                   :timeout 2))
         (other (agent-q-implementations-test--start
                 (agent-q-implementations-test--touch file))))
    (agent-q-implementations-test--end other)
    (agent-q-implementations-test--end waiting)))

(defun agent-q-implementations-test--asked (_)
  "Run a form that runs a program, which the user denies."
  (agent-q-test-implementations-call "eval_form" '(:form "(require :asdf)"))
  (let* ((reason nil)
         (agent-q-approval-handler (lambda (&rest _) (setq reason t) '(:denied "not now")))
         (content (agent-q-test-implementations-call
                   "eval_form" '(:form "(uiop:run-program \"true\")"))))
    (format "%s: %s" (if reason "asked" "not asked") content)))

(defun agent-q-implementations-test--effect (connection)
  "Call a function of the program over CONNECTION that deletes a file.
The user denies that."
  (let ((file (expand-file-name "aq-hidden" agent-q-test-directory)))
    (write-region "1" nil file nil 'silent)
    (agent-q-test-image-values connection (format "(defun aq-hidden () (delete-file %S))" file)))
  (let* ((asked nil)
         (agent-q-approval-handler (lambda (tool &rest _)
                                     (push (agent-q-tool-name tool) asked)
                                     '(:denied "not now")))
         (content (agent-q-test-implementations-call "eval_form" '(:form "(aq-hidden)"))))
    (format "%s: %s" (if (member "effect/delete_file" asked) "asked" "not asked") content)))

(defun agent-q-implementations-test--own-tool (connection)
  "Have the program over CONNECTION define a tool, and call that."
  (agent-q-image-tools-ensure connection)
  (agent-q-test-until (zerop (agent-q-connection-pending)))
  (agent-q-test-image-values
   connection
   "(agent-q-image:define-tool \"aq_greet\" \"Greet.\" '((:name \"who\" :type :string))
      :safety-level :safe
      :handler (lambda (arguments) (format nil \"hello ~a\" (gethash \"who\" arguments))))")
  (agent-q-test-until (agent-q-get-tool "aq_greet"))
  (agent-q-test-implementations-call "aq_greet" '(:who "Ann")))

(defun agent-q-implementations-test--system (connection)
  "Load a system over CONNECTION."
  (let ((directory (file-name-as-directory agent-q-implementations-test--project)))
    (with-temp-file (expand-file-name "aq-system.asd" directory)
      (insert "(defsystem \"aq-system\" :version \"1.2\" :components ((:file \"part\")))"))
    (with-temp-file (expand-file-name "part.lisp" directory)
      (insert "(defpackage :aq-part (:use :cl))\n(in-package :aq-part)\n(defun part () :part)\n"))
    (agent-q-test-image-values
     connection
     (format "(require :asdf)
              (funcall (find-symbol \"INITIALIZE-OUTPUT-TRANSLATIONS\" :asdf)
                '(:output-translations ((%S :**/ :*.*.*) (%S :**/ :*.*.*)) :inherit-configuration))
              (push (pathname %S) (symbol-value (find-symbol \"*CENTRAL-REGISTRY*\" :asdf)))"
             directory (concat directory "cache/") directory))
    (concat (agent-q-test-implementations-call "load_system" '(:system "aq-system")) "\n"
            (agent-q-test-implementations-call "eval_form" '(:form "(aq-part::part)")))))

(defun agent-q-implementations-test--tests (connection)
  "Run a test of FiveAM over CONNECTION; nil when it isn't installed."
  (when (equal '("T") (agent-q-test-image-values
                       connection "(and (asdf:find-system \"fiveam\" nil) t)"))
    (agent-q-test-implementations-call "load_system" '(:system "fiveam"))
    (agent-q-test-image-values
     connection "(fiveam:test aq-fives (fiveam:is (= 1 1)) (fiveam:is (= 1 2)))")
    (agent-q-test-implementations-call "run_tests" '(:test "aq-fives"))))

(defun agent-q-implementations-test--scratch (connection)
  "Use a second Lisp, stop a form there, and throw it away.
One without threads, like that behind CONNECTION, also ends while it is debugged."
  (cl-flet ((call (&rest calls)
              (mapcar #'agent-q-tool-result-content
                      (agent-q-execute-tool-calls-sync calls agent-q-test-patience)))
            (evaluating (form &rest arguments)
              `(:name "eval_form" :arguments (:form ,form :image "scratch" ,@arguments))))
    (unless (agent-q-connection-ask connection :threads-p)
      (should (string-prefix-p "=> 8\n" (cadr (call (evaluating "(error \"hm\")" :on_error "park")
                                                    (evaluating "(* 2 4)"))))))
    (string-join (call (evaluating "(list (fboundp 'aq-kept))")
                       (evaluating "(loop)" :timeout 0.5)
                       '(:name "end_scratch" :arguments nil))
                 "\n")))

(defun agent-q-implementations-test--form-at-point (_)
  "Tell the form around point in a source file."
  (save-window-excursion
    (with-current-buffer (find-file-noselect
                          (expand-file-name "look.lisp" agent-q-implementations-test--project))
      (unwind-protect
          (progn
            (switch-to-buffer (current-buffer))
            (goto-char (point-min))
            (search-forward "(callee 2)")
            (agent-q-test-implementations-call "form_at_point" nil))
        (kill-buffer)))))

;;;; Examples

(defconst agent-q-implementations-test--examples
  (let ((look '(:package "aq-look"))
        (searched agent-q-implementations-test--searched))
    `(("describe_symbol" ("describe_symbol" :symbol "callee" ,@look)
       "\\`AQ-LOOK:CALLEE (external in AQ-LOOK)\nfunction: (X)\n\\(.*\n\\)*  (DEFUN AQ-LOOK:CALLEE) .*:7\\'")
      ("apropos_search" ("apropos_search" :pattern "calle" ,@look)
       "\nAQ-LOOK:CALLEE \\[function\\]\nAQ-LOOK::CALLER \\[function\\]\\'")
      ("function_arglist" ("function_arglist" :function "twice" ,@look) "AQ-LOOK::TWICE (X)")
      ("macroexpand_form" ("macroexpand_form" :form "(twice 3)" ,@look) "\n(CALLEE 3)\\'")
      ("macroexpand_form, mode all" ("macroexpand_form" :form "(list (twice 3))" :mode "all" ,@look)
       "\n(LIST (CALLEE 3))\\'")
      ("macroexpand_form, mode compiler" ("macroexpand_form" :form "(aq-inner 2)" :mode "compiler")
       "\n(LIST :TWO)\\'")
      ("list_package_symbols" ("list_package_symbols" :package "aq-look" :include_internal t)
       "function: CALLEE\\(.*\n\\)+.*macro: .*TWICE")
      ("package_info" ("package_info" :package "aq-look") "uses: COMMON-LISP\nexports: CALLEE")
      ("find_definition" ("find_definition" :symbol "caller" ,@look)
       "(DEFUN AQ-LOOK::CALLER) .*:8\n(defun caller ()\n  (callee 1)\n  (callee 2))")
      ("find_definition of a method" ("find_definition" :symbol "area" ,@look)
       "(DEFMETHOD AQ-LOOK::AREA :BEFORE .*(EQL 3)).*:25\n(defmethod area :before ((it (eql 3)))")
      ("find_definition of a variable" ("find_definition" :symbol "*level*" ,@look)
       "(DEFVAR AQ-LOOK::\\*LEVEL\\*) .*:4\n(defvar \\*level\\* 1)"
       ("From the project's files:\nlook\\.lisp:4\n" . ,(cdr searched)))
      ("who_calls" ("who_calls" :function "callee" ,@look) "CALLEE is called by.*:\n\\(.*\n\\)*.*CALLER"
       ,searched)
      ("who_calls of a macro" ("who_calls" :function "twice" ,@look) "expanded by.*\n\\(.*\n\\)*.*USER"
       ,searched)
      ("who_references" ("who_references" :variable "*level*" ,@look)
       "used by.*\n\\(.*\n\\)*.*CALLEE reads" ,searched)
      ,@(mapcar (pcase-lambda (`(,kind ,name ,works . ,more))
                  `(,(concat "xref, kind " kind) ("xref" :kind ,kind :name ,name ,@look)
                    ,works ,@more))
                `(("callers" "callee" "called by.*\n\\(.*\n\\)*.*CALLER" ,searched)
                  ("callees" "caller" "calls.*\n\\(.*\n\\)*.*CALLEE")
                  ("references" "*level*" "referred to by.*\n\\(.*\n\\)*.*CALLEE" ,searched)
                  ("binds" "*level*" "bound by.*\n\\(.*\n\\)*.*USER" ,searched)
                  ("sets" "*level*" "set by.*\n\\(.*\n\\)*.*USER" ,searched)
                  ("macroexpands" "twice" "expanded by.*\n\\(.*\n\\)*.*USER" ,searched)
                  ("methods" "shape" "has these methods.*\n\\(.*\n\\)*.*24: (DEFMETHOD AQ-LOOK::AREA")))
      ("class_slots" ("class_slots" :class "shape" ,@look)
       "\nWIDTH: .*initarg :WIDTH, initform NIL, accessor WIDTH\n  How wide\\.\nCOUNT: ")
      ("class_slots of a structure" ("class_slots" :class "point" ,@look)
       "\nX: .*accessor POINT-X\nY: type FIXNUM, .*initform 2, accessor POINT-Y")
      ("class_hierarchy" ("class_hierarchy" :class "shape" ,@look)
       "direct superclasses: STANDARD-OBJECT\n\\(.*\n\\)*  AQ-LOOK::SQUARE")
      ("method_specializers" ("method_specializers" :generic_function "area" ,@look)
       "2 methods.*\n(AQ-LOOK::SHAPE)\n:BEFORE ((EQL 3))")
      ("disassemble_function" ("disassemble_function" :function "callee" ,@look)
       "AQ-LOOK:CALLEE (function), [0-9]+ lines:\n")
      ("image_status" ("image_status") "the user's own: .*AQ-LOOK.*\nthreads: .*worker"
       ("threads: none" . "without threads, and on CLISP without the memory in use"))
      ("eval_form" ("eval_form" :form "(princ :printed) (values (make-hash-table) \"two\")")
       "=> :PRINTED\nOutput:\nPRINTED\n(values .*\n=> #.*HASH-TABLE.* \\[v[0-9]+\\]\n=> \"two\"")
      ("compare_forms" ("compare_forms" :form "(+ 1 2) (error \"no\")")
       "\\`1\\. .* (1\\.00 x), .* allocated: (\\+ 1 2)\n2\\. not measured: .*\n   SIMPLE-ERROR: no\n\\(.*\n\\)*=> 3"
       ("\\`1\\. .* (1\\.00 x): (\\+ 1 2)\n" . "without what is allocated"))
      ("profile_form" ("profile_form" :form "(loop repeat 100000 collect (list 1))")
       "\\`[0-9]+ samples? in ")
      ("inspect_value" ("inspect_value" :handle "%v") "Hash table of 0 entries, test ")
      ("eval_form, a handle in a form" agent-q-implementations-test--handle "\\`=> 0\\'")
      ("eval_form, an error in evaluated code" ("eval_form" :form "(aq-inner 3)")
       "\\`Error SIMPLE-ERROR: no good: (LOCAL 3)\nin (aq-inner 3)\nRestarts: USE-VALUE .*\n.*\n  (AQ-INNER 3)\\'"
       ("\n  (AQ-INNER)\\'" . "frames come without arguments"))
      ("eval_form, an arithmetic error" ("eval_form" :form "(/ 5 (- 3 3))")
       "DIVISION-BY-ZERO: \\(/ of (5 0)\\|.*\nOperation was (/ 5 0)\\)"
       ("DIVISION-BY-ZERO: /: division by zero" . "without the operands"))
      ("eval_form, restart" ("eval_form" :form "(aq-inner 3)" :restart "use-value 7")
       "=> (:USED 7)\nRestarts invoked:")
      ("eval_form, timeout" ("eval_form" :form "(loop)" :timeout 0.5)
       "\\`Stopped before finishing")
      ("cancelling a form" agent-q-implementations-test--cancel "cancelled.*\n=> 3\\'")
      ("calls side by side" agent-q-implementations-test--side-by-side "\\`=> :BESIDE\\'"
       ("\\`Stopped before" . "one after the other: there are no threads"))
      ("asking before a program is run" agent-q-implementations-test--asked "\\`asked: .*not now")
      ("asking where a function deletes a file" agent-q-implementations-test--effect
       "\\`asked: .*Not allowed: delete .*not now"
       ("\\`not asked" . "code is looked at before it runs, and not while it does"))
      ("eval_in_package" ("eval_in_package" :form "(callee 1)" ,@look) "\\`=> (1 1)\\'")
      ("compile_form" ("compile_form" :form "(defun aq-outer (x) (list :outer (aq-inner (* 2 x))))")
       "\\`Compiled and loaded; no warnings\\.\\'")
      ("compile_form, notes"
       ("compile_form" :form "(defun aq-good () 1)\n\n(defun aq-warned (x)\n  (list aq-unknown-variable))")
       "^warning at 4:3: .*AQ-UNKNOWN-VARIABLE"
       ("warning at 3:1: .*AQ-UNKNOWN-VARIABLE" . "with the place of the definition only"))
      ("get_compilation_notes" ("get_compilation_notes")
       "\\`Compiled by you, .*\n\\(.*\n\\)*.*warning at line [34], .*AQ-UNKNOWN-VARIABLE")
      ("compile_file" ("compile_file" :path "look.lisp" :name "callee")
       "\\`Compiled and loaded callee of look\\.lisp; no warnings\\.")
      ("undo_definition" agent-q-implementations-test--undo "AQ-KEPT: restored the previous function\\.\n=> :FIRST")
      ("load_system" agent-q-implementations-test--system
       "\\`Loaded aq-system 1\\.2 from .*aq-system\\.asd\nCompiled 1 file: part\\.lisp\\.\n\\(.*\n\\)*=> :PART\\'")
      ("system_info" ("system_info" :system "aq-system")
       "\\`aq-system 1\\.2, .*aq-system\\.asd\n1 file in order:\n  [a-z]+\\.lisp\\(\n\\|\\'\\)")
      ("image_drift" ("image_drift") "compared\\.)\\'")
      ("run_tests" agent-q-implementations-test--tests
       "\\`FAILED: 1 of 2 checks passed, 1 failed, in [^(]* (FiveAM)\\.\nfailed in AQ-FIVES: (= 1 2)")
      ("verify_system" ("verify_system" :system "aq-system") "\\`LOADED, \\(?:NOT TESTED\\|TESTS NOT COUNTED\\): aq-system in a fresh Lisp")
      ("await_call" ("await_call" :call_id 1) "\\`There is no call 1")
      ("cancel_call" ("cancel_call" :call_id 1) "\\`There is no call 1")
      ("end_scratch" agent-q-implementations-test--scratch
       "\\`=> (NIL)\n(In image scratch, a new one.*\nStopped before.*\n\\(?:.*\n\\)*It is gone\\.\\'")
      ("trace_function" ("trace_function" :function "callee" ,@look) "\\`Traced: AQ-LOOK:CALLEE\\'")
      ("get_trace" agent-q-implementations-test--traced
       "\n  (AQ-LOOK:CALLEE 1)\n  AQ-LOOK:CALLEE => (1 1)\n")
      ("untrace_function" ("untrace_function") "\\`Nothing is traced\\.\\'")
      ("trace_function of a generic function" ("trace_function" :function "area" ,@look)
       "\\`Traced: AQ-LOOK::AREA\\(\n(Cleared .*\\)?\\'")
      ("tools of a program" agent-q-implementations-test--own-tool "\\`hello Ann\\'")
      ("eval_form, parking an error" ("eval_form" :form "(aq-outer 4)" :on_error "park")
       "no good: (LOCAL 8)\n\\(.*\n\\)*The error is parked as debugger d")
      ("list_debuggers" ("list_debuggers") "d[0-9]+, yours: SIMPLE-ERROR: no good: (LOCAL 8)\n  in (aq-outer 4)")
      ("debugger_frames" ("debugger_frames" :debugger "%d" :locals t)
       "^  [0-9]+: (AQ-INNER 8).*\n\\(  .*\n\\)*? +X = 8"
       ("^  [0-9]+: (AQ-INNER).*\n\\(  .*\n\\)*? +\\(COMMON-LISP-USER::\\)?X = 8"
        . "frames come without arguments"))
      ("debugger_frames of compiled code" ("debugger_frames" :debugger "%d" :locals t)
       "^  [0-9]+: (AQ-OUTER 4).*\n +X = 4"
       ("^  [0-9]+: (AQ-OUTER).*\n +\\(COMMON-LISP-USER::\\)?X = 4" . "frames come without arguments")
       ("^  [0-9]+: (AQ-OUTER)\nNext" . "without arguments and variables"))
      ("eval_in_frame" ("eval_in_frame" :debugger "%d" :form "(list :here x)") "\\`=> (:HERE 8)")
      ("eval_in_frame, setting a variable"
       ("eval_in_frame" :debugger "%d" :form "(setf x 9) (list :now x)")
       "=> (:NOW 9)" ("=> (:NOW 8)" . "variables can be read, not set"))
      ("restart_frame" agent-q-implementations-test--restart-frame
       "\\`Error SIMPLE-ERROR: no good: (LOCAL 8)"
       ("frames of interpreted code" . "only frames of interpreted code"))
      ("invoke_restart" ("invoke_restart" :debugger "%d" :restart "use-value" :values "(* 6 7)")
       "\\`=> (:OUTER (:USED 42))\\'")
      ("return_from_frame" agent-q-implementations-test--return-from-frame
       "\\`=> (:BACK 3)\\'"
       ("frames of interpreted code" . "only frames of interpreted code"))
      ("get_last_error" ("get_last_error") "\\`Signalled for you, by eval_.*\n.*: ")
      ("get_repl_history" ("get_repl_history") "\\[you, by eval_form\\] (aq-outer 4)\n")
      ("stage_at_repl" ("stage_at_repl" :form "(list 1 2)") "\\`Put at the prompt of ")
      ("form_at_point" agent-q-implementations-test--form-at-point
       "look\\.lisp, line 8; .*package AQ-LOOK\n(defun caller ()")
      ;; The last one: not every image survives it.
      ("eval_form, a recursion without end"
       ("eval_form" :form "(defun aq-deep (x) (1+ (aq-deep x))) (aq-deep 1)")
       "\\`Error .*STACK-\\(EXHAUSTED\\|OVERFLOW\\)"
       ;; ABCL ends the thread when there is no room left to tell.
       ("aborted the call: \\(Stack overflow\\|its thread ended\\)\\|\\`Error STORAGE-CONDITION: Stack overflow\\.\nin "
        . "told without a backtrace; CLISP also goes back to its own top level, and the connection is lost"))))
  "The rows of the table: a label, a call, what the content is where the tool works.
The rest are pairs of what it is otherwise, and how that differs.")

(defun agent-q-implementations-test--undo (_)
  "Redefine a function and undo that; tell what it returns then."
  (agent-q-test-implementations-call "eval_form" '(:form "(defun aq-kept () :second)"))
  (concat (agent-q-test-implementations-call "undo_definition" '(:name "aq-kept")) "\n"
          (agent-q-test-implementations-call "eval_form" '(:form "(aq-kept)"))))

(defun agent-q-implementations-test--handle (_)
  "Evaluate a form with the latest handle in it."
  (agent-q-test-implementations-call
   "eval_form"
   (list :form (format "(hash-table-count $%s)"
                       (cdr (assoc "%v" agent-q-test-implementations--seen))))))

(defun agent-q-implementations-test--outer-frame ()
  "Return the number of the frame of AQ-OUTER in the latest debugger."
  (let ((frames (agent-q-test-implementations-call "debugger_frames" '(:debugger "%d"))))
    (should (string-match "^  \\([0-9]+\\): (AQ-OUTER" frames))
    (string-to-number (match-string 1 frames))))

(defun agent-q-implementations-test--restart-frame (_)
  "Restart the frame of AQ-OUTER in the latest debugger."
  (agent-q-test-implementations-call
   "restart_frame"
   (list :debugger "%d" :frame (agent-q-implementations-test--outer-frame))))

(defun agent-q-implementations-test--return-from-frame (_)
  "Park an error, and have the frame of AQ-OUTER return; leave the debugger anyway."
  (agent-q-test-implementations-call "eval_form" '(:form "(list :back (aq-outer 4))"
                                                         :on_error "park"))
  (let ((told (agent-q-test-implementations-call
               "return_from_frame"
               (list :debugger "%d" :frame (agent-q-implementations-test--outer-frame)
                     :values "(+ 1 2)"))))
    (when (agent-q-image-park-list)
      (agent-q-test-implementations-call "invoke_restart" '(:debugger "%d" :restart "use-value"
                                                                      :values "1")))
    told))

(defun agent-q-implementations-test--traced (_)
  "Call what calls the function that is traced, and tell the trace."
  (agent-q-test-implementations-call "eval_form" '(:form "(aq-look::caller)"))
  (agent-q-test-implementations-call "get_trace" nil))

;;;; Tests

(defun agent-q-implementations-test--outcomes (connection column)
  "Return the outcomes of all examples over CONNECTION to the Lisp COLUMN."
  (let* ((directory (make-temp-file (expand-file-name "look" agent-q-test-directory) t))
         (agent-q-implementations-test--project directory)
         (agent-q-project-root directory)
         (agent-q-test-patience 180)
         (agent-q-approval-handler (lambda (&rest _) :approved))
         (inhibit-message t))
    (agent-q-mode 1)
    (copy-file (agent-q-test-program-file connection) (expand-file-name "look.lisp" directory))
    (agent-q-test-image-values connection agent-q-implementations-test--definitions)
    (prog1 (agent-q-test-implementations-run
            agent-q-implementations-test--examples connection column)
      (should (zerop (agent-q-connection-pending)))
      (should-not (agent-q-test-image-debugged)))))

(defun agent-q-implementations-test--compare (implementation client)
  "Run the examples in IMPLEMENTATION through CLIENT, and compare with the manual."
  (let ((connection (agent-q-test-image-connection client implementation))
        (column (alist-get implementation agent-q-test-implementations)))
    (unless connection
      (ert-skip (format "%s with %s is not installed" column client)))
    (unwind-protect
        (let* ((outcomes (mapcar (pcase-lambda (`(,label . ,outcome))
                                   (cons (list label column client) outcome))
                                 (agent-q-implementations-test--outcomes connection column)))
               (told (agent-q-test-implementations-read)))
          (if (getenv "AGENT_Q_WRITE_TABLE")
              (agent-q-test-implementations-write
               (mapcar #'car agent-q-implementations-test--examples)
               (agent-q-test-implementations-merge told outcomes))
            (pcase-dolist (`(,key . ,outcome) outcomes)
              (ert-info ((format "%S; `make implementations' writes the table anew" key))
                (should (equal outcome (cdr (assoc key told))))))))
      (agent-q-test-image-kill connection))))

(defmacro agent-q-implementations-test--define ()
  "Define a test for each implementation with each client."
  `(progn
     ,@(cl-loop for (implementation . name) in agent-q-test-implementations
                nconc (cl-loop for client in '(slime sly)
                               collect `(ert-deftest ,(intern (format "agent-q-implementations-%s/%s"
                                                                      implementation client))
                                            ()
                                          ,(format "What the manual says on %s through %s is true."
                                                   name (upcase (symbol-name client)))
                                          :tags '(:image ,@(unless (eq implementation 'sbcl)
                                                             '(:lisps))
                                                         ,(intern (format ":%s" client)))
                                          (agent-q-implementations-test--compare
                                           ',implementation ',client))))))

(agent-q-implementations-test--define)

(ert-deftest agent-q-implementations-every-tool-has-an-example ()
  "The table has a row for each tool of the Lisp image, and no others."
  (agent-q-registry-ensure)
  (let ((tools (cl-loop for tool in (agent-q-core-tools)
                        when (cl-intersection '("introspection" "xref" "execution" "debugger" "history")
                                              (plist-get tool :categories) :test #'equal)
                        collect (plist-get tool :name))))
    (should (> (length tools) 30))
    (dolist (tool tools)
      (should (cl-find-if (lambda (example) (string-prefix-p tool (car example)))
                          agent-q-implementations-test--examples)))
    (should (equal (mapcar #'car agent-q-implementations-test--examples)
                   (delete-dups (mapcar #'caar (agent-q-test-implementations-read)))))))

(provide 'agent-q-implementations-test)
;;; agent-q-implementations-test.el ends here
