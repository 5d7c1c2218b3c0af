;;; second-bench.el --- Second Lisps and what is verified in them, in batch  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A Lisp of ours beside one that the client starts by hand, and a system verified beside SBCL that
;; loads and tests it from a shell, in turns.  AGENT_Q_BENCH is sly or slime.

;;; Code:

(require 'image-bench)
(require 'agent-q-scratch)

(defvar agent-q-project-root)
(declare-function agent-q-core-decide "ext:agent-q-core")
(declare-function agent-q-connection-process "agent-q-connection")

(defconst second-bench--rounds 5 "How often each is measured, after a warm-up.")
(defconst second-bench--systems '(("verify" 12 40) ("verify-small" 1 10))
  "The systems: names of samples, how many files, and definitions in each.")

(setq agent-q-scratch-cache (expand-file-name "fasl/" agent-q-bench-scratch))

;;;; A Lisp that is ready

(defun second-bench--by-hand ()
  "Have the client start SBCL until it is connected; then end it.
Return how many seconds that took."
  (let* ((connected nil)
         (hook (intern (format "%s-connected-hook" image-bench-client)))
         (notice (lambda () (setq connected (float-time))))
         (began (float-time)))
    (add-hook hook notice)
    (save-window-excursion
      (funcall (intern (format "%s-start" image-bench-client))
               :program "sbcl" :program-args '("--no-userinit" "--no-sysinit")
               :buffer (generate-new-buffer-name "*by hand*")))
    (agent-q-bench-await (lambda () connected))
    (remove-hook hook notice)
    (let* ((process (agent-q-connection-process (agent-q-connection-default-connection)))
           ;; Emacs writes the end of SLY's REPL into its buffer, which is read-only.
           (inhibit-read-only t)
           (lisp (funcall (intern (format "%s-inferior-process" image-bench-client)) process)))
      (delete-process process)
      (delete-process lisp))
    (- connected began)))

(defun second-bench--ours ()
  "Start a second Lisp of ours until it can be used; then end it.
Return how many seconds that took."
  (prog1 (image-bench--seconds
          (lambda ()
            (agent-q-scratch-start nil "bench" image-bench--connection nil
                                   (lambda (reason)
                                     (if reason (error "%s" reason) (image-bench--end))))))
    (agent-q-scratch-end nil)))

;;;; A system that is verified

(defun second-bench--file (directory name &rest texts)
  "Write TEXTS into the file NAME of DIRECTORY."
  (with-temp-file (expand-file-name name directory)
    (apply #'insert texts)))

(defun second-bench--system (count definitions)
  "Write a system with COUNT files of DEFINITIONS functions, and tests of FiveAM.
Return its directory."
  (let ((directory (file-name-as-directory
                    (make-temp-file (expand-file-name "verified" agent-q-bench-scratch) t)))
        (files (cl-loop for file below count collect (format "part-%d" file))))
    (second-bench--file
     directory "aq-bench.asd"
     (format "(defsystem \"aq-bench\" :depends-on (\"fiveam\") :serial t :components (%s (:file \"tests\"))
 :perform (test-op (op system) (uiop:symbol-call :fiveam :run! (find-symbol \"ALL\" :aq-bench))))"
             (mapconcat (lambda (file) (format "(:file %S)" file)) (cons "package" files) " ")))
    (second-bench--file directory "package.lisp" "(defpackage :aq-bench (:use :cl))")
    (dolist (file files)
      (second-bench--file
       directory (concat file ".lisp") "(in-package :aq-bench)\n"
       (cl-loop for number below definitions concat
                (format "(defun %1$s-%2$d (list &key (start 0) (step %2$d))
  \"Return what is left of LIST from START on, by STEP.\"
  (loop for item in (nthcdr start list) for index from 0
        when (and (numberp item) (plusp (mod (+ index step) 7))) collect (* item step) into kept
        finally (return (sort kept #'< :key (lambda (it) (mod it 11))))))\n"
                        file number))))
    (second-bench--file
     directory "tests.lisp" "(in-package :aq-bench)\n(5am:def-suite all)\n(5am:in-suite all)\n"
     (mapconcat (lambda (file)
                  (format "(5am:test %1$s (5am:is (null (%1$s-1 (quote ())))) (5am:is (listp (%1$s-2 (list 1 2 3)))))\n"
                          file))
                files ""))
    directory))

(defun second-bench--in-shell (directory)
  "Load and test the system in DIRECTORY by SBCL alone.
Return how many seconds that took.  The fasls of libraries are there, and
those of the system aren't, as where it is verified."
  (let* ((own (make-temp-file (expand-file-name "own" agent-q-bench-scratch) t))
         (process-environment
          (cons (format "ASDF_OUTPUT_TRANSLATIONS=%S"
                        `(:output-translations ((,directory :**/ :*.*.*) (,(file-name-as-directory own) :**/ :*.*.*))
                          (t (,agent-q-scratch-cache :implementation :**/ :*.*.*))
                          :ignore-inherited-configuration))
                process-environment))
         (seconds
          (agent-q-bench-seconds
            (unless (equal 0 (call-process
                              "sbcl" nil nil nil
                              "--noinform" "--no-userinit" "--no-sysinit" "--non-interactive"
                              "--eval" "(require :asdf)"
                              "--eval" (format "(asdf:load-asd %S)" (expand-file-name "aq-bench.asd" directory))
                              "--eval" "(asdf:load-system \"aq-bench\")"
                              "--eval" "(asdf:test-system \"aq-bench\")"))
              (error "SBCL could not load and test the system")))))
    (delete-directory own t)
    seconds))

(defun second-bench--verify (chat)
  "Have the system of CHAT verified.
Return how many seconds that took, from the user's consent on."
  (let* ((from (with-current-buffer chat (point-max)))
         (agreed nil)
         (agree (lambda (event)
                  (when (eq (plist-get event :type) :approval)
                    (setq agreed (float-time))
                    (agent-q-core-decide (plist-get event :call) "approved" nil)))))
    (advice-add 'agent-q-events-dispatch :after agree)
    (image-bench--seconds (lambda () (image-bench--console chat "/verify_system")))
    (advice-remove 'agent-q-events-dispatch agree)
    (with-current-buffer chat
      (save-excursion
        (goto-char (point-max))
        (unless (re-search-backward "✓ VERIFIED: aq-bench" from t)
          (error "It was not verified: %s" (buffer-substring from (point-max))))))
    ;; After the first one, agent-q's own half is compiled.
    (agent-q-bench-await (lambda () (null agent-q-scratch--all)))
    (- image-bench--over agreed)))

;;;; All of it

(defun second-bench--in-turns (&rest kinds)
  "Measure each of KINDS, (NAME . FUNCTION), in turns, after a warm-up.
Each FUNCTION returns seconds."
  (dotimes (round (1+ second-bench--rounds))
    (pcase-dolist (`(,name . ,measure) kinds)
      (let ((seconds (funcall measure)))
        (unless (zerop round)
          (agent-q-bench-sample (image-bench-name name) seconds))))))

(defun second-bench--main ()
  "Measure everything."
  (image-bench-connect)
  (second-bench--in-turns (cons "second.hand" #'second-bench--by-hand)
                          (cons "second.ready" #'second-bench--ours))
  (agent-q-bench-serve '(((text . "Yes"))))
  (pcase-dolist (`(,name ,files ,definitions) second-bench--systems)
    (let* ((directory (second-bench--system files definitions))
           (agent-q-project-root (file-truename directory))
           (default-directory agent-q-project-root)
           (chat (agent-q-bench-chat)))
      (with-current-buffer chat
        (setq agent-q-session-connection image-bench--connection))
      (second-bench--in-turns
       (cons (concat name ".shell") (lambda () (second-bench--in-shell directory)))
       (cons (concat name ".tool") (lambda () (second-bench--verify chat))))))
  (agent-q-bench-end))

(defun second-bench-main ()
  "Measure in this batch Emacs."
  (agent-q-bench-guard (second-bench--main)))

(provide 'second-bench)
;;; second-bench.el ends here
