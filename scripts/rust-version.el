;;; rust-version.el --- Check that the stated Rust builds every crate  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -l scripts/rust-version.el METADATA, in the project's root.  METADATA is what
;; `cargo metadata' prints, for the crates that Cargo.lock names, those of the tests too.

;;; Code:

(require 'json)
(require 'seq)

(defun agent-q-rust-version-findings (metadata)
  "Return what is wrong with the stated version of Rust, given METADATA."
  (let* ((packages (append (alist-get 'packages metadata) nil))
         (ours (seq-find (lambda (package) (equal "agent-q-module" (alist-get 'name package)))
                         packages))
         (stated (alist-get 'rust_version ours)))
    (append
     (delq nil
           (mapcar (lambda (package)
                     (let ((needed (alist-get 'rust_version package)))
                       (and (stringp needed) (version< stated needed)
                            (format "Cargo.lock: %s %s needs Rust %s, Cargo.toml says %s"
                                    (alist-get 'name package) (alist-get 'version package)
                                    needed stated))))
                   packages))
     (mapcan
      (lambda (file)
        (with-temp-buffer
          (insert-file-contents file)
          (and (not (search-forward (format "Rust %s or later" stated) nil t))
               (list (format "%s: does not say Rust %s or later, as Cargo.toml does" file stated)))))
      '("README.md" "docs/manual.org")))))

(let ((findings (agent-q-rust-version-findings
                 (with-temp-buffer
                   (insert-file-contents (pop command-line-args-left))
                   (json-parse-buffer :object-type 'alist :null-object nil)))))
  (dolist (finding findings)
    (princ (concat finding "\n")))
  (kill-emacs (if findings 1 0)))
;;; rust-version.el ends here
