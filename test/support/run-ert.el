;;; run-ert.el --- Run one ERT file in this batch Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -l test/support/run-ert.el FILE, in the project's root.  Loads FILE, runs its
;; tests, and writes "PASSED FAILED SKIPPED" into the file that AGENT_Q_COUNTS names.  A file
;; without a test counts as a failure.  AGENT_Q_TEST_SELECTOR chooses tests: a regexp, or, where
;; it begins with a parenthesis, any other selector of ERT, such as "(not (tag :image))".
;; AGENT_Q_TEST_NATIVE names a folder of native code, which is used then.
;;
;; With --matching REGEXP FILE... it prints those of FILEs that have a test whose name matches.

;;; Code:

(require 'ert)
(require 'seq)

(setq load-prefer-newer t)
(dolist (directory '("scripts" "test/support" "lisp"))
  (push (expand-file-name directory) load-path))

(defvar agent-q-module-log-failed)
(defvar native-comp-eln-load-path)

(defconst agent-q-run-ert--native (getenv "AGENT_Q_TEST_NATIVE")
  "The folder of native code, or nil.")

(when agent-q-run-ert--native
  (push (file-name-as-directory agent-q-run-ert--native) native-comp-eln-load-path))

(defun agent-q-run-ert--interpreted ()
  "Return the files of lisp/ that were loaded, but not as native code."
  (let ((found nil))
    (dolist (entry load-history)
      (let* ((feature (cdr (assq 'provide (seq-filter #'consp (cdr entry)))))
             (file (and feature (expand-file-name (format "lisp/%s.el" feature))))
             ;; Since Emacs 30 an autoload is recorded like a definition.
             (functions (seq-remove
                         (lambda (function) (autoloadp (indirect-function function)))
                         (mapcar #'cdr (seq-filter (lambda (item) (eq 'defun (car-safe item)))
                                                   (cdr entry))))))
        (when (and file functions (file-exists-p file)
                   (not (seq-some (lambda (function)
                                    (subr-native-elisp-p (indirect-function function)))
                                  functions)))
          (push file found))))
    found))

(defun agent-q-run-ert--write (passed failed skipped)
  "Write the numbers PASSED, FAILED and SKIPPED where the caller wants them."
  (let ((file (getenv "AGENT_Q_COUNTS")))
    (when file
      (write-region (format "%d %d %d\n" passed failed skipped) nil file nil 'silent))))

(defun agent-q-run-ert--selector ()
  "Return the ERT selector of the tests to run."
  (pcase (getenv "AGENT_Q_TEST_SELECTOR")
    ((or 'nil "") t)
    ((and text (pred (string-prefix-p "("))) (car (read-from-string text)))
    (regexp regexp)))

(defun agent-q-run-ert (file)
  "Run the tests of FILE and exit."
  ;; Until the numbers are known, the file counts as one failure: a crash leaves that.
  (agent-q-run-ert--write 0 1 0)
  (load (expand-file-name file) nil t)
  (let* ((stats (ert-run-tests-batch (agent-q-run-ert--selector)))
         (total (ert-stats-total stats))
         (empty (null (ert-select-tests t t)))
         (skipped (ert-stats-skipped stats))
         (failed (ert-stats-completed-unexpected stats))
         ;; What did not complete was aborted.
         (aborted (- total (ert-stats-completed stats)))
         ;; Errors that were caught and told, so that no test has met them.
         (told (and (boundp 'agent-q-module-log-failed) agent-q-module-log-failed))
         (interpreted (and agent-q-run-ert--native (agent-q-run-ert--interpreted)))
         (more (+ (length told) (length interpreted))))
    (when empty
      (message "%s: no test is there" file))
    (pcase-dolist (`(,place ,function) told)
      (message "%s: %s failed, called for %s" file function place))
    (dolist (other interpreted)
      (message "%s: %s ran, but not as native code" file (file-relative-name other)))
    (agent-q-run-ert--write (- total skipped failed aborted)
                            (if empty 1 (+ failed aborted more))
                            skipped)
    (kill-emacs (if (or empty (> (+ failed aborted more) 0)) 1 0))))

(defun agent-q-run-ert-matching (regexp files)
  "Print those of FILES that have a test whose name REGEXP matches."
  (let ((seen '()))
    (dolist (file files)
      (load (expand-file-name file) nil t)
      (let ((new (seq-remove (lambda (test) (memq test seen))
                             (mapcar #'ert-test-name (ert-select-tests regexp t)))))
        (when new
          (princ (concat file "\n")))
        (setq seen (append new seen))))))

(pcase (pop command-line-args-left)
  ('nil (error "Usage: emacs -Q --batch -l test/support/run-ert.el FILE"))
  ("--matching" (agent-q-run-ert-matching (pop command-line-args-left)
                                          command-line-args-left)
   (kill-emacs 0))
  (file (agent-q-run-ert file)))
;;; run-ert.el ends here
