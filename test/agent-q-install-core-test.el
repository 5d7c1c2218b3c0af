;;; agent-q-install-core-test.el --- Downloading the core  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A release is served over TLS on loopback, whole and damaged in each way that we could think of.
;; The archive is made by scripts/release.sh.  What was downloaded is loaded in an Emacs of its own.

;;; Code:

(require 'agent-q-install)
(require 'cl-lib)
(require 'ert)
(require 'gnutls)
(require 'seq)

(defconst agent-q-install-core-test--root
  (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))
  "The project's root.")

(defvar jka-compr-inhibit)
(defvar agent-q-install-core-test--address nil "The address of the server.")
(defvar agent-q-install-core-test--served nil "The folder that is served.")
(defvar agent-q-install-core-test--release nil "What scripts/release.sh says of the archive.")

(defun agent-q-install-core-test--run (directory program &rest arguments)
  "Run PROGRAM with ARGUMENTS in DIRECTORY and return what it prints."
  (with-temp-buffer
    (let* ((default-directory (file-name-as-directory directory))
           (status (apply #'call-process program nil t nil arguments)))
      (should (equal (list 0 (buffer-string)) (list status (buffer-string))))
      (buffer-string))))

(defun agent-q-install-core-test--archive ()
  "Make an archive of the installed core; return its file and what is said of it."
  (let ((process-environment (cons (concat "CARGO_TARGET_DIR=" agent-q-install-core-test--served)
                                   process-environment)))
    (agent-q-install-core-test--run agent-q-install-core-test--root "sh" "scripts/release.sh"))
  (let ((archive (car (directory-files
                       (expand-file-name "release-files" agent-q-install-core-test--served)
                       t "\\.tar\\.gz\\'"))))
    (cons archive
          (with-temp-buffer
            (insert-file-contents (concat (string-remove-suffix ".tar.gz" archive) ".eld"))
            (read (current-buffer))))))

(defun agent-q-install-core-test--put (folder name head body)
  "Serve BODY, or the file that (file BODY) names, with HEAD as NAME in FOLDER."
  (let ((directory (expand-file-name folder agent-q-install-core-test--served)))
    (make-directory directory t)
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (pcase body
        (`(file ,file ,size) (insert-file-contents-literally file nil 0 size))
        (_ (insert body)))
      (let ((length (buffer-size)) (coding-system-for-write 'binary) (jka-compr-inhibit t))
        (goto-char (point-min))
        (insert head (format "\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" length))
        (write-region nil nil (expand-file-name name directory) nil 'silent)))))

(defun agent-q-install-core-test--certify (name subject &rest arguments)
  "Make NAME.pem, a certificate of SUBJECT, and NAME.key; ARGUMENTS are more of openssl's."
  (apply #'agent-q-install-core-test--run
         agent-q-install-core-test--served "openssl" "req" "-x509" "-newkey" "rsa:2048" "-nodes" "-days" "2"
         "-keyout" (concat name ".key") "-out" (concat name ".pem") "-subj" subject arguments))

(defun agent-q-install-core-test--serve ()
  "Start the server, with all that it serves; return its process."
  (pcase-let* ((`(,archive . ,core) (agent-q-install-core-test--archive))
               (name (file-name-nondirectory archive))
               (bytes (plist-get (cdr core) :bytes))
               (process nil))
    (setq agent-q-install-core-test--release core)
    (agent-q-install-core-test--put "whole" name "HTTP/1.1 200 OK" `(file ,archive nil))
    (agent-q-install-core-test--put "cut" name "HTTP/1.1 200 OK" `(file ,archive ,(/ bytes 2)))
    (agent-q-install-core-test--put "other" name "HTTP/1.1 200 OK" (make-string bytes ?x))
    (agent-q-install-core-test--put "none" name "HTTP/1.1 404 Not Found" "nothing")
    (agent-q-install-core-test--put "sent-on" name
                                    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/core" "")
    ;; Emacs trusts no certificate that is its own authority.
    (agent-q-install-core-test--certify "authority" "/CN=agent-q tests")
    (agent-q-install-core-test--certify "server" "/CN=localhost" "-addext" "subjectAltName=DNS:localhost"
                                        "-CA" "authority.pem" "-CAkey" "authority.key")
    (let ((default-directory agent-q-install-core-test--served))
      (setq process (start-process "openssl" (generate-new-buffer " *openssl*") "openssl" "s_server"
                                   "-accept" "127.0.0.1:0" "-HTTP" "-cert" "server.pem"
                                   "-key" "server.key")))
    (with-current-buffer (process-buffer process)
      (while (not (progn (goto-char (point-min)) (re-search-forward "ACCEPT 127.0.0.1:\\([0-9]+\\)" nil t)))
        (should (process-live-p process))
        (accept-process-output process 5))
      (setq agent-q-install-core-test--address (concat "https://localhost:" (match-string 1))))
    process))

(defmacro agent-q-install-core-test--with-server (&rest body)
  "Run BODY while the release is served."
  (declare (indent 0) (debug t))
  `(let ((agent-q-install-core-test--served (file-name-as-directory (make-temp-file "agent-q-served" t)))
         (process nil))
     (unwind-protect
         (progn
           (setq process (agent-q-install-core-test--serve))
           (let ((gnutls-trustfiles (list (expand-file-name "authority.pem"
                                                            agent-q-install-core-test--served))))
             ,@body))
       (when process
         (delete-process process)
         (kill-buffer (process-buffer process)))
       (delete-directory agent-q-install-core-test--served t))))

(defun agent-q-install-core-test--install (release)
  "Install the core as a package that carries RELEASE does; return the last message.
The folder of the user's Emacs is `user-emacs-directory'."
  (let ((agent-q-module-directory (file-name-as-directory (make-temp-file "agent-q-package" t)))
        (said nil))
    (unwind-protect
        (cl-letf (((symbol-function 'y-or-n-p) (lambda (question) (push question said) t))
                  ((symbol-function 'message)
                   (lambda (format &rest arguments)
                     (when format (push (apply #'format-message format arguments) said)))))
          (when release
            (with-temp-file (expand-file-name "agent-q-release.eld" agent-q-module-directory)
              (prin1 release (current-buffer))))
          (condition-case failure (agent-q-install-core)
            (user-error (push (cadr failure) said)))
          (with-timeout (60 (delete-process agent-q-install--process)
                            (ert-fail "The download stands still"))
            (while (agent-q-install-running-p)
              (accept-process-output nil 0.02)))
          (car said))
      (delete-directory agent-q-module-directory t))))

(defun agent-q-install-core-test--carried (folder &rest changes)
  "Return a release whose archive is in FOLDER of the server, with CHANGES to its core."
  `(:version "0.1.0" :address ,(concat agent-q-install-core-test--address "/" folder)
    :cores ((,(agent-q-module-platform)
             ,@(let ((core (copy-sequence (cdr agent-q-install-core-test--release))))
                 (cl-loop for (property value) on changes by #'cddr
                          do (setq core (plist-put core property value)))
                 core)))))

(defun agent-q-install-core-test--left (folder)
  "Return the names of what is in the folder of cores of the Emacs in FOLDER."
  (let ((cores (expand-file-name "agent-q/core" folder)))
    (and (file-directory-p cores)
         (directory-files cores nil directory-files-no-dot-files-regexp))))

(ert-deftest agent-q-install-core-downloads-checks-and-loads ()
  "A published core is loaded from the user's folder; a damaged one changes nothing there."
  (skip-unless (and (executable-find "openssl") (gnutls-available-p)))
  (agent-q-install-core-test--with-server
    (let ((user-emacs-directory (file-name-as-directory (make-temp-file "agent-q-home" t)))
          (files (sort (agent-q-install--files) #'string<)))
      (unwind-protect
          (progn
            ;; What fails leaves nothing.
            (pcase-dolist
                (`(,release ,sentence)
                 `((,(agent-q-install-core-test--carried "cut") "cut off after [0-9]+ of [0-9]+ bytes")
                   (,(agent-q-install-core-test--carried "other") "SHA-256 differs")
                   (,(agent-q-install-core-test--carried "none") "answered with status 404")
                   (,(agent-q-install-core-test--carried "sent-on") "not installed")
                   (,(agent-q-install-core-test--carried "other" :sha256
                                                         (secure-hash 'sha256 (make-string (plist-get (cdr agent-q-install-core-test--release) :bytes) ?x)))
                    "can.t be unpacked")
                   ((:version "0.1.0" :address "https://127.0.0.1:9" :cores ,(plist-get (agent-q-install-core-test--carried "") :cores))
                    "could not be reached")
                   ((:version "0.1.0" :address "http://127.0.0.1:9" :cores ,(plist-get (agent-q-install-core-test--carried "") :cores))
                    "not an https address")
                   ((:version "0.1.0" :address "https://127.0.0.1:9" :cores (("vax-vms" :sha256 "" :bytes 1)))
                    "No core is published for this version on")
                   (nil "No core is published for this version on")))
              (should (string-match-p sentence (agent-q-install-core-test--install release)))
              (should-not (agent-q-install-core-test--left user-emacs-directory)))
            ;; What is whole is there, and can be loaded by a package without a core.
            (should (string-match-p "core is installed"
                                    (agent-q-install-core-test--install
                                     (agent-q-install-core-test--carried "whole"))))
            (should (equal files (agent-q-install-core-test--left user-emacs-directory)))
            (should (file-executable-p (expand-file-name "agent-q/core/agent-q-mcp" user-emacs-directory)))
            (should
             (string-suffix-p
              (format "loaded %s" agent-q-module-interface)
              (agent-q-install-core-test--run
               temporary-file-directory (expand-file-name invocation-name invocation-directory)
               "-Q" "--batch" "-L" (expand-file-name "lisp" agent-q-install-core-test--root) "--eval"
               (prin1-to-string
                `(progn (setq user-emacs-directory ,user-emacs-directory
                              agent-q-module-directory ,agent-q-install-core-test--served)
                        (require 'agent-q-module)
                        (agent-q-module-ensure)
                        (princ (format "loaded %s" (agent-q-core-interface))))))))
            ;; A failed one later leaves the one that is there.
            (should (string-match-p "SHA-256 differs"
                                    (agent-q-install-core-test--install
                                     (agent-q-install-core-test--carried "other"))))
            (should (equal files (agent-q-install-core-test--left user-emacs-directory))))
        (delete-directory user-emacs-directory t)))))

(provide 'agent-q-install-core-test)
;;; agent-q-install-core-test.el ends here
