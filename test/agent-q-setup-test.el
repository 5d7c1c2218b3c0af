;;; agent-q-setup-test.el --- What the set-up says and installs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; scripts/setup.sh on machines that are made up: a folder of small programs is all
;; that it finds.  What would be installed is noted by an apt-get that does nothing.

;;; Code:

(require 'ert)
(require 'seq)
(require 'subr-x)

(defconst agent-q-setup-test--root
  (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))
  "The project's root.")

(defconst agent-q-setup-test--rust
  (with-temp-buffer
    (insert-file-contents (expand-file-name "Cargo.toml" agent-q-setup-test--root))
    (re-search-forward "^rust-version = \"1\\.\\([0-9]+\\)")
    (string-to-number (match-string 1)))
  "The minor version of Rust that is needed.")

(defconst agent-q-setup-test--programs
  `((rustc . ,(format "echo 'rustc 1.%d.0 (abc 2026-01-01)'" agent-q-setup-test--rust))
    (cargo . "exit 0")
    (cc . "cat >/dev/null")
    (sbcl . "exit 0")
    (tmux . "exit 0")
    (emacs . "printf 'emacs ok\\nmodules yes\\nsly no\\nslime /slime\\npackage-lint /lint\\n'")
    (id . "echo 0")
    (apt-cache . "exit 0")
    (apt-get . "case \"$*\" in
*--print-uris*) echo \"'http://example.org/a.deb' a.deb 70300000 SHA256:0\" ;;
*) echo \"$*\" >> \"$NOTES\" ;; esac"))
  "What a machine has that lacks nothing: shell code for each program.")

(defun agent-q-setup-test--run (arguments without &rest programs)
  "Run the set-up with ARGUMENTS; return (STATUS TEXT NOTES).
The machine has all but WITHOUT, a list of symbols, and PROGRAMS, pairs of a
symbol and shell code.  NOTES are what apt-get was called with.  Nobody is there
to answer, and YES=1 is set."
  (let* ((directory (make-temp-file "agent-q-setup" t))
         (notes (expand-file-name "notes" directory))
         (default-directory agent-q-setup-test--root)
         (sh (executable-find "sh"))
         (process-environment
          (list (concat "PATH=" directory) "YES=1" (concat "NOTES=" notes)
                (concat "HOME=" directory) (concat "TMPDIR=" directory))))
    (unwind-protect
        (progn
          (dolist (tool '("sh" "sed" "grep" "dirname" "cat" "tr" "mktemp" "rm" "env" "true" "awk"))
            (make-symbolic-link (executable-find tool) (expand-file-name tool directory)))
          (pcase-dolist (`(,name . ,code) (append programs agent-q-setup-test--programs))
            (let ((file (expand-file-name (symbol-name name) directory)))
              (unless (or (memq name without) (file-exists-p file))
                (write-region (concat "#!" sh "\n" code "\n") nil file nil 'silent)
                (set-file-modes file #o755))))
          (with-temp-buffer
            (let ((status (apply #'call-process sh nil t nil "scripts/setup.sh" arguments)))
              (list status (buffer-string)
                    (and (file-exists-p notes)
                         (with-temp-buffer
                           (insert-file-contents notes)
                           (split-string (buffer-string) "\n" t)))))))
      (delete-directory directory t))))

(defun agent-q-setup-test--installed (notes)
  "Return the command of NOTES that installs, or nil."
  (seq-find (lambda (note) (string-prefix-p "-q install" note)) notes))

(ert-deftest agent-q-setup-nothing-is-missing ()
  "Where all is there, nothing is said and nothing is installed."
  (should (equal '(0 "" nil) (agent-q-setup-test--run '("build" "chat") nil))))

(ert-deftest agent-q-setup-rust-comes-first ()
  "Without a fitting Rust nothing is installed, and the advice fits what is there."
  (pcase-dolist
      (`(,without ,programs . ,expected)
       `(((rustc cargo) nil . "there is none): install it as https://rustup.rs says")
         ((rustc cargo) ((apt-cache . "echo '  Candidate: 1.27.1-1'")) .
          "sudo apt-get install rustup && rustup default stable")
         (nil ((rustc . "echo 'rustc 1.63.0 (Debian)'")) .
              "this is 1.63): install it as https://rustup.rs says")
         (nil ((rustc . "echo 'rustc 1.85.0 (Debian)'")
               (apt-cache . "echo '  Candidate: 1.27.1-1'")) .
              "this is 1.85): sudo apt-get install rustup && rustup default stable")
         (nil ((rustc . "exit 1") (rustup . "exit 0")) . "rustup has no toolchain chosen): rustup default stable")
         (nil ((rustc . "echo 'rustc 1.70.0 (x)'") (rustup . "exit 0")) .
              "this is 1.70): rustup update stable && rustup default stable")))
    (pcase-let ((`(,status ,text ,notes)
                 (apply #'agent-q-setup-test--run '("build" "chat" "test")
                        (append '(sbcl tmux cc) without) programs)))
      (should (equal (list 1 nil) (list status notes)))
      (should (string-match-p (format "Rust 1\\.%d or later" agent-q-setup-test--rust) text))
      (should (string-match-p (regexp-quote expected) text)))))

(ert-deftest agent-q-setup-names-the-headers ()
  "The headers of the C library are asked for, with a compiler and without one."
  (pcase-let ((`(,status ,text ,notes) (agent-q-setup-test--run '("build") '(cc))))
    ;; How much that is comes first.
    (should (string-search "Debian packages: gcc libc6-dev (71 MB to download)" text))
    (should (equal (list 0 "-q install -y --no-install-recommends gcc libc6-dev")
                   (list status (agent-q-setup-test--installed notes)))))
  (pcase-let ((`(,status ,_ ,notes)
               (agent-q-setup-test--run '("build") nil '(cc . "cat >/dev/null; exit 1"))))
    (should (equal (list 0 "-q install -y --no-install-recommends libc6-dev")
                   (list status (agent-q-setup-test--installed notes))))))

(defconst agent-q-setup-test--no-slime
  '(emacs . "printf 'emacs ok\\nmodules yes\\nsly no\\nslime no\\npackage-lint /lint\\n'")
  "An Emacs without SLY and SLIME.")

(ert-deftest agent-q-setup-slime-from-backports ()
  "Where SLIME doesn't fit the Emacs of a release's backports, that release is used for it."
  (pcase-let ((`(,status ,_ ,notes)
               (agent-q-setup-test--run
                '("build" "chat") '(sbcl) agent-q-setup-test--no-slime
                '(apt-get . "case \"$*\" in *--print-uris*) exit ;; esac; echo \"$*\" >> \"$NOTES\"; case \"$*\" in *backports*) ;; *slime*) exit 100 ;; esac"))))
    (should (equal 0 status))
    (should (string-match-p "\\`-q install .* -t [a-z]+-backports sbcl slime cl-swank\\'"
                            (agent-q-setup-test--installed notes)))))

(ert-deftest agent-q-setup-goes-without-slime ()
  "Where SLIME can't be installed at all, the rest is, and the user reads what to do."
  (pcase-let ((`(,status ,text ,notes)
               (agent-q-setup-test--run
                '("build" "chat") '(sbcl) agent-q-setup-test--no-slime
                '(apt-get . "case \"$*\" in *--print-uris*) exit ;; esac; echo \"$*\" >> \"$NOTES\"; case \"$*\" in *slime*) exit 100 ;; esac"))))
    (should (equal (list 0 "-q install -y --no-install-recommends sbcl")
                   (list status (agent-q-setup-test--installed notes))))
    (should (string-match-p "M-x package-install RET sly" text))))

(ert-deftest agent-q-setup-without-root ()
  "Without sudo, or where it wants a password and nobody can type one, what to do is said."
  (pcase-let ((`(,status ,text ,notes)
               (agent-q-setup-test--run '("build" "chat") '(sbcl) '(id . "echo 1000"))))
    (should (equal (list 1 nil) (list status notes)))
    (should (string-match-p "install these as root (sudo is not there)" text))
    (should (string-match-p "apt-get install sbcl" text)))
  (pcase-let ((`(,status ,text ,notes)
               (agent-q-setup-test--run
                '("build" "chat") '(sbcl) '(id . "echo 1000")
                ;; It never asks: that would wait for ever.
                '(sudo . "[ \"$1\" = -n ] || echo asked; exit 1"))))
    (should (equal (list 1 nil) (list status notes)))
    (should-not (string-match-p "asked" text))
    (should (string-match-p "sudo wants a password, and there is no terminal" text))
    (should (string-match-p "sudo apt-get install sbcl" text))))

(ert-deftest agent-q-setup-on-other-systems ()
  "Without apt-get, what is missing is named for the system's own package manager."
  (pcase-let ((`(,status ,text ,_)
               (agent-q-setup-test--run '("build" "chat") '(sbcl apt-get))))
    (should (equal 1 status))
    (should (string-match-p "SBCL" text))
    (should (string-match-p "your system's package manager" text))))

(provide 'agent-q-setup-test)
;;; agent-q-setup-test.el ends here
