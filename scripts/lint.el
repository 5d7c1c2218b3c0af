;;; lint.el --- Check the Emacs Lisp: compiler warnings, checkdoc, package-lint  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Started by scripts/lint.sh in batch mode, in the project's root.  Prints one line a finding,
;; FILE:LINE: TEXT, and exits with 1 when there was one.

;;; Code:

(require 'checkdoc)
(require 'seq)
(require 'subr-x)
(load (expand-file-name "scripts/lisp-ide.el") nil t)
(load (expand-file-name "scripts/compile-alone.el") nil t)

(declare-function agent-q-alone-byte "compile-alone")
(declare-function agent-q-ide-package-directories "lisp-ide")
(declare-function package-lint-buffer "package-lint")
(defvar package-lint-main-file)

(defvar agent-q-lint--findings 0
  "How many findings were printed.")

(defconst agent-q-lint--accepted
  '(;; The project has no home on the web yet.
    "\\`Package should have a Homepage or URL header"
    ;; Who installs the repository under its own name has agent-q-module.el for the main file.
    "\\`Package-Requires outside the main file have no effect"
    ;; Debian 12 has a package-lint from before Emacs 28.
    "\\`This makes the package uninstallable in all released Emacs versions"
    ;; Our modes get their menus, and Evil its states, when they are loaded; nothing else is changed.
    "\\``with-eval-after-load' is for use in configurations")
  "What package-lint says without being right here.")

(defvar agent-q-lint--load-path nil
  "Where else what is compiled finds what it needs.")

(defconst agent-q-lint--root default-directory
  "The project's root, where this is started.")

(defun agent-q-lint--files (folder)
  "Return the Emacs Lisp files in FOLDER."
  (directory-files (expand-file-name folder) t "\\`[^.#].*\\.el\\'"))

(defun agent-q-lint--finding (file line text)
  "Report TEXT about LINE of FILE."
  (setq agent-q-lint--findings (1+ agent-q-lint--findings))
  (princ (format "%s:%s: %s\n" (file-relative-name file agent-q-lint--root) line text)))

(defun agent-q-lint--compile (sources)
  "Compile each of SOURCES in an Emacs of its own; report all that is said."
  (agent-q-alone-byte
   sources agent-q-lint--load-path
   (lambda (copy output succeeded)
     (let ((source (seq-find (lambda (source)
                               (equal (file-name-nondirectory source)
                                      (file-name-nondirectory copy)))
                             sources)))
       (agent-q-lint--compiler-log source output)
       (unless (or succeeded (not (string-empty-p output)))
         (agent-q-lint--finding source 1 "does not compile"))))))

(defun agent-q-lint--compiler-log (source output)
  "Report OUTPUT, what the compiler said about SOURCE."
  (let ((before agent-q-lint--findings))
    (with-temp-buffer
      (insert output)
      (goto-char (point-min))
      (while (re-search-forward
              "^\\(?:In .*:\n\\)?[^:\n]+\\.el:\\([0-9]+\\)\\(?::[0-9]+\\)?: \\(.*\\(?:\n [^\n]*\\)*\\)" nil t)
        (agent-q-lint--finding source (match-string 1)
                               (replace-regexp-in-string "\n *" " " (match-string 2)))))
    (unless (or (string-empty-p output) (> agent-q-lint--findings before))
      (agent-q-lint--finding source 1 output))))

(defun agent-q-lint--checkdoc (source)
  "Report what checkdoc says about SOURCE."
  (with-current-buffer (find-file-noselect source)
    (let ((checkdoc-create-error-function
           (lambda (text start _end &optional _unfixable)
             (agent-q-lint--finding source (if start (line-number-at-pos start) 1) text)
             nil))
          (checkdoc-autofix-flag 'never)
          (inhibit-message t))
      (checkdoc-current-buffer t))))

(defun agent-q-lint--package (source main)
  "Report what package-lint says about SOURCE.
MAIN is the package's main file."
  (with-current-buffer (find-file-noselect source)
    (let ((package-lint-main-file (expand-file-name main agent-q-lint--root)))
      (pcase-dolist (`(,line ,_column ,type ,text) (package-lint-buffer))
        (unless (seq-some (lambda (pattern) (string-match-p pattern text))
                          agent-q-lint--accepted)
          (agent-q-lint--finding source line (format "%s (package-lint %s)" text type)))))))

(defun agent-q-lint--keys (source)
  "Report what SOURCE writes for a key that Emacs 28.1 shows as it is.
It does not know the form that quotes a key by a backslash and a backquote."
  (with-current-buffer (find-file-noselect source)
    (save-excursion
      (goto-char (point-min))
      (while (re-search-forward "\\\\\\\\`[[:alnum:]<> -]+'" nil t)
        (agent-q-lint--finding
         source (line-number-at-pos)
         (format "Emacs 28.1 does not understand %s: write \\\\[COMMAND], or the key alone"
                 (match-string 0)))))))

(defun agent-q-lint--json (source)
  "Report where SOURCE reads or writes JSON past agent-q-json.el."
  (unless (equal (file-name-base source) "agent-q-json")
    (with-current-buffer (find-file-noselect source)
      (save-excursion
        (goto-char (point-min))
        (while (re-search-forward "(\\(json-\\(?:encode\\|parse\\|read\\|serialize\\)[a-z-]*\\)" nil t)
          (agent-q-lint--finding source (line-number-at-pos)
                                 (format "%s: agent-q-json.el does that" (match-string 1))))))))

(defun agent-q-lint ()
  "Check lisp/ in every way, all else with the compiler; exit with 1 on findings."
  (let ((sources (agent-q-lint--files "lisp"))
        (scripts (cons (expand-file-name "agent-q-root.el") (agent-q-lint--files "scripts")))
        (linter (car (agent-q-ide-package-directories "package-lint"))))
    (agent-q-lint--compile sources)
    (let ((agent-q-lint--load-path (mapcar #'expand-file-name '("lisp" "scripts" "test/bench"))))
      (agent-q-lint--compile (append scripts (agent-q-lint--files "test/bench"))))
    (dolist (source sources)
      (agent-q-lint--checkdoc source)
      (agent-q-lint--keys source)
      (agent-q-lint--json source))
    (dolist (dependency '("let-alist" "compat"))
      (setq load-path (append (agent-q-ide-package-directories dependency) load-path)))
    (if (null linter)
        (agent-q-lint--finding "lisp" 1 "package-lint is not installed")
      (push linter load-path)
      (require 'package-lint)
      ;; All names begin with `agent-q', so that file is the package's main one.
      (dolist (source sources)
        (agent-q-lint--package source "lisp/agent-q.el")))
    (kill-emacs (if (zerop agent-q-lint--findings) 0 1))))

(agent-q-lint)
;;; lint.el ends here
