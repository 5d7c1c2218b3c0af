;;; lisp-ide.el --- Find SLY, SLIME and package-lint on this machine  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The scripts start Emacs with -Q, so packages are found here, by directory, without activating
;; the user's other packages.  The set-up, `make chat', lint and the tests all ask this file.

;;; Code:

(require 'package)
(require 'seq)

(defconst agent-q-ide--parents
  '("~/.emacs.d/elpa" "~/.config/emacs/elpa"
    "~/.emacs.d/straight/build" "~/.config/emacs/straight/build"
    "~/quicklisp/dists/quicklisp/software"
    ;; Emacs leaves the system's own directories out under -Q.
    "/usr/share/emacs/site-lisp/elpa" "/usr/share/emacs/site-lisp"
    "/usr/local/share/emacs/site-lisp/elpa" "/usr/local/share/emacs/site-lisp"
    "/opt/homebrew/share/emacs/site-lisp")
  "Directories that hold a directory for each package.")

(defun agent-q-ide-package-directories (name)
  "Return the directories of installed packages called NAME, newest version first."
  (let ((pattern (concat "\\`" (regexp-quote name) "\\(?:-v?[0-9][0-9.]*\\)?\\'"))
        (found nil))
    (dolist (parent (append (list package-user-dir) agent-q-ide--parents package-directory-list))
      (when (file-directory-p parent)
        (dolist (directory (directory-files parent t pattern))
          (when (file-directory-p directory)
            (push directory found)))))
    (sort (delete-dups found)
          (lambda (one other)
            (string-version-lessp (file-name-nondirectory other)
                                  (file-name-nondirectory one))))))

(defun agent-q-ide--first (candidates &rest needed)
  "Return the first of CANDIDATES that holds a file of each list in NEEDED.
Each element of NEEDED is a list of file names, of which one must be there."
  (seq-find (lambda (directory)
              (seq-every-p (lambda (names)
                             (seq-some (lambda (name)
                                         (file-exists-p (expand-file-name name directory)))
                                       names))
                           needed))
            candidates))

(defun agent-q-ide--candidates (name variable)
  "Return the directories to look into for package NAME.
The environment variable VARIABLE names the only one."
  (let ((directory (getenv variable)))
    (if (member directory '(nil ""))
        (agent-q-ide-package-directories name)
      (list directory))))

(defun agent-q-ide-find (ide)
  "Return the directory of IDE, the symbol `sly' or `slime', or nil.
The part that runs in the Lisp image has to be there too."
  (if (eq ide 'sly)
      (agent-q-ide--first (agent-q-ide--candidates "sly" "SLY_DIR")
                          '("sly.el") '("slynk/slynk-loader.lisp"))
    (agent-q-ide--first (agent-q-ide--candidates "slime" "SLIME_DIR")
                        '("slime.el")
                        '("swank-loader.lisp"
                          "/usr/share/common-lisp/source/slime/swank-loader.lisp"))))

(defun agent-q-ide-use (ide)
  "Put IDE (`sly', `slime') on the `load-path' and load it.
Return non-nil if it is there."
  (let ((directory (agent-q-ide-find ide)))
    (when directory
      (push directory load-path)
      (let ((contrib (expand-file-name "contrib" directory)))
        (when (file-directory-p contrib)
          (push contrib load-path)))
      (require ide))))

(defun agent-q-ide-report ()
  "Print what the set-up asks about this Emacs, one fact a line."
  (princ (format "emacs %s\n" (if (version< emacs-version "28.1") "old" "ok")))
  (princ (format "modules %s\n" (if (bound-and-true-p module-file-suffix) "yes" "no")))
  (princ (format "sly %s\n" (or (agent-q-ide-find 'sly) "no")))
  (princ (format "slime %s\n" (or (agent-q-ide-find 'slime) "no")))
  (princ (format "package-lint %s\n"
                 (or (car (agent-q-ide-package-directories "package-lint")) "no"))))

(provide 'lisp-ide)
;;; lisp-ide.el ends here
