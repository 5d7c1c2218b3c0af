;;; agent-q-install.el --- Getting the core: downloading or building it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core is a library for one kind of machine.  Where the release of this package has one
;; for the user's, \[agent-q-install-core] downloads it, in the background: an Emacs of its own
;; compares it with the sum that the package carries and loads it; only then is it put into the
;; user's folder (`agent-q-module-installed-directory').  Elsewhere it is built, by \[agent-q-build].
;;
;; All of this works without the core.

;;; Code:

(require 'agent-q-module)
(require 'seq)
(require 'tar-mode)
(require 'url)

(declare-function compilation-start "compile"
                  (command &optional mode name-function highlight-regexp continue))
(defvar compilation-finish-functions)
(declare-function agent-q-core-interface "ext:agent-q-core")
(defvar url-http-end-of-headers)
(defvar url-http-response-status)

;;;; Downloading

(defconst agent-q-install--patience 600
  "Seconds after which a download is cancelled.")

(defvar agent-q-install--process nil
  "The Emacs that downloads and tries a core, or nil.")

;;;###autoload
(defun agent-q-install-core ()
  "Download agent-q's core for this machine, or build it where none is published.
Asks first.  The download runs in the background.  It is used only if it has the
sum that this package carries for its version, and if an Emacs of its own can
load it; otherwise nothing is changed.  A core that this session has loaded
stays in use until Emacs is restarted."
  (interactive)
  (agent-q-module-suffix)
  (when (agent-q-install-running-p)
    (user-error "A core is being downloaded"))
  (let ((release (agent-q-module-release)))
    (cond ((null release)
           (agent-q-install--offer-build
            (format "No core is published for this version on %s" (agent-q-module-platform))))
          ((not (string-prefix-p "https://" (plist-get release :address)))
           (user-error "Not downloaded: %s is not an https address" (plist-get release :address)))
          ((y-or-n-p (format "Download agent-q's core %s for %s (%s) from %s? "
                             (plist-get release :version) (agent-q-module-platform)
                             (file-size-human-readable (plist-get release :bytes) 'si " " "B")
                             (url-host (url-generic-parse-url (plist-get release :address)))))
           (agent-q-install--start release))
          ((agent-q-module-source-directory)
           (agent-q-install--offer-build "Not downloaded"))
          (t (user-error "Nothing was downloaded")))))

(defun agent-q-install-running-p ()
  "Whether a core is being downloaded or tried."
  (and agent-q-install--process t))

(defun agent-q-install--offer-build (why)
  "Offer to build the core; it isn't downloaded because of WHY, a sentence."
  (cond ((not (agent-q-module-source-directory))
         (user-error "%s: %s" why (agent-q-module-remedy)))
        ((y-or-n-p (format "%s.  Build it here (needs Rust; some minutes, 800 MB)? " why))
         (display-buffer (agent-q-build)))
        (t (user-error "Nothing was built"))))

(defun agent-q-install--files ()
  "Return the names of the files of a core, its manifest last."
  (list (concat "agent-q-core" (agent-q-module-suffix)) "agent-q-mcp" "agent-q-core.manifest"))

;;;;; In the user's Emacs

(defun agent-q-install--start (release)
  "Let an Emacs of its own download and try the core of RELEASE, then install it.
TLS and a library that may not fit the system are kept out of the user's."
  (make-directory (agent-q-module-installed-directory) t)
  (let* ((folder (make-temp-file (expand-file-name "new" (agent-q-module-installed-directory)) t))
         (form `(progn (setq url-proxy-services ',url-proxy-services
                             gnutls-trustfiles ',(bound-and-true-p gnutls-trustfiles))
                       (load ,(locate-library "agent-q-install") nil t)
                       (agent-q-install-batch ',release ,(file-name-as-directory folder))))
         (output (generate-new-buffer " *agent-q core*" t)))
    (message "Downloading agent-q's core from %s" (plist-get release :address))
    (setq agent-q-install--process
          (make-process
           :name "agent-q core" :buffer output :noquery t :connection-type 'pipe
           :command (list (expand-file-name invocation-name invocation-directory) "-Q" "--batch"
                          "-L" (file-name-directory (locate-library "agent-q-install"))
                          "--eval" (prin1-to-string form))
           :sentinel (lambda (process _event)
                       (unless (process-live-p process)
                         (let ((said (with-current-buffer output (buffer-string))))
                           (kill-buffer output)
                           (agent-q-install--ended folder said))))))))

(defun agent-q-install--ended (folder said)
  "Install the core in FOLDER if it could be loaded.
Then SAID, by the Emacs that tried it, ends in its interface."
  (setq agent-q-install--process nil)
  (unwind-protect
      (let ((last (or (car (last (split-string said "\n" t "[ \t\r]+")))
                      "the Emacs that tried it ended")))
        (if (not (equal last (number-to-string agent-q-module-interface)))
            (message "agent-q's core was not installed: %s.  Nothing was changed%s" last
                     (if (agent-q-module-source-directory) "; M-x agent-q-build builds it here" ""))
          (dolist (file (agent-q-install--files))
            ;; An Emacs that has the old one goes on with it.
            (rename-file (expand-file-name file folder)
                         (expand-file-name file (agent-q-module-installed-directory)) t))
          (message (if (agent-q-module-loaded-p)
                       "agent-q's core is installed; restart Emacs to use it"
                     "agent-q's core is installed; M-x agent-q-chat uses it"))))
    (delete-directory folder t)))

;;;;; In the other Emacs

(defun agent-q-install-batch (release folder)
  "Download the core of RELEASE into FOLDER, load it, and print its interface.
End this Emacs; what is wrong is printed instead, on the last line."
  ;; A connection that isn't waited for stands still now and then when it is to be encrypted.
  (advice-add 'open-network-stream :filter-args
              (lambda (arguments)
                (append (seq-take arguments 4)
                        (plist-put (copy-sequence (seq-drop arguments 4)) :nowait nil))))
  (condition-case failure
      (let ((default-directory folder))
        (with-current-buffer (agent-q-install--fetch release)
          (agent-q-install--check release)
          (agent-q-install--unpack))
        (module-load (expand-file-name (car (agent-q-install--files)) folder))
        (princ (format "\n%s\n" (agent-q-core-interface))))
    (error (princ (format "\n%s\n" (replace-regexp-in-string "[\n\r]+" " " (error-message-string failure))))))
  (kill-emacs 0))

(defun agent-q-install--fetch (release)
  "Return a buffer with what the web answers about the archive of RELEASE."
  (let* ((url (format "%s/agent-q-core-%s-%s.tar.gz" (directory-file-name (plist-get release :address))
                      (plist-get release :version) (agent-q-module-platform)))
         (buffer (condition-case failure
                     (url-retrieve-synchronously url t t agent-q-install--patience)
                   (error (error "%s could not be reached (%s)" url (error-message-string failure))))))
    (with-current-buffer (or buffer (error "%s could not be reached" url))
      (goto-char (point-min))
      (cond ((not (equal "https" (url-type url-current-object)))
             (error "%s sent it on to an address that is not https" url))
            ((not (bound-and-true-p url-http-end-of-headers))
             (error "%s gave no answer" url))
            ((not (eql 200 url-http-response-status))
             (error "%s answered with status %s" url url-http-response-status)))
      buffer)))

(defun agent-q-install--check (release)
  "Leave only the archive of RELEASE in this buffer, an answer of the web.
Signal an error unless that is there."
  (set-buffer-multibyte nil)
  (goto-char url-http-end-of-headers)
  (forward-line)
  (delete-region (point-min) (point))
  (cond ((< (buffer-size) (plist-get release :bytes))
         (error "The download was cut off after %d of %d bytes" (buffer-size) (plist-get release :bytes)))
        ((not (equal (plist-get release :sha256) (secure-hash 'sha256 (current-buffer))))
         (error "What came is not what this version of the package names (its SHA-256 differs)"))))

(defun agent-q-install--unpack ()
  "Unpack the archive in this buffer into this folder."
  (unless (zlib-decompress-region (point-min) (point-max))
    (error "The archive can't be unpacked"))
  (tar-mode)
  (unless (equal (sort (mapcar #'tar-header-name tar-parse-info) #'string<)
                 (sort (agent-q-install--files) #'string<))
    (error "The archive has other files than a core has"))
  (tar-untar-buffer))

;;;; Building

;;;###autoload
(defun agent-q-build ()
  "Build the core with `make build', in a compilation buffer.
Nothing is asked there: when something is missing, the buffer says what."
  (interactive)
  (let* ((source (agent-q-module-source-directory))
         (default-directory (or source default-directory))
         ;; Rust's installer puts cargo where a graphical Emacs often doesn't look.
         (process-environment
          `(,(concat "PATH=" (mapconcat #'identity
                                        (list (or (getenv "PATH") "")
                                              (expand-file-name "~/.cargo/bin"))
                                        path-separator))
            ;; The buffer would show the escape sequences.
            "CARGO_TERM_COLOR=never"
            ,@process-environment))
         ;; Without a terminal, nothing that runs there can wait for an answer.
         (process-connection-type nil)
         (emacs (expand-file-name invocation-name invocation-directory)))
    (unless source
      (user-error "No Makefile above %s: %s" agent-q-module-directory (agent-q-module-remedy)))
    (require 'compile)
    (let ((buffer (compilation-start (format "make build EMACS=%s </dev/null"
                                             (shell-quote-argument emacs))
                                     nil (lambda (_mode) "*agent-q-build*"))))
      (with-current-buffer buffer
        (add-hook 'compilation-finish-functions #'agent-q-install--built nil t))
      buffer)))

(defun agent-q-install--built (_buffer status)
  "Say what to do now that a build ended with STATUS."
  (cond ((not (string-prefix-p "finished" status))
         (message "agent-q's core was not built; its compilation buffer says why"))
        ((agent-q-module-replaced-p)
         (message "agent-q's core is built; restart Emacs to use it"))
        (t
         (message "agent-q's core is built; M-x agent-q-chat uses it"))))

(provide 'agent-q-install)
;;; agent-q-install.el ends here
