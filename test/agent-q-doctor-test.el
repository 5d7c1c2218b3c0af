;;; agent-q-doctor-test.el --- What the doctor says of a bad installation  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Each page is drawn by a fresh Emacs, to which something is missing.

;;; Code:

(require 'ert)
(require 'agent-q-test)

(defconst agent-q-doctor-test--lisp
  (expand-file-name "../lisp/" (file-name-directory (or load-file-name buffer-file-name)))
  "The folder of the Emacs Lisp.")

(defun agent-q-doctor-test--page (&rest forms)
  "Return the doctor's page in a fresh Emacs, after FORMS."
  (with-temp-buffer
    (should (eql 0 (call-process (expand-file-name invocation-name invocation-directory)
                                 nil '(t nil) nil "-Q" "--batch" "-L" agent-q-doctor-test--lisp
                                 "--eval" (format "%S" `(progn (require 'agent-q-module)
                                                               ,@forms
                                                               (agent-q-doctor)
                                                               (princ (buffer-string)))))))
    (buffer-string)))

(defun agent-q-doctor-test--connection (provider)
  "Return what the doctor says in the end of the way to PROVIDER."
  (let ((page (agent-q-doctor-test--page
               `(setq agent-q-provider ',provider)
               ;; The page is read once the host has answered.
               '(advice-add 'agent-q-doctor :after
                            (lambda ()
                              (with-timeout (60)
                                (while (memq (car agent-q-doctor--connection) '(nil pending))
                                  (accept-process-output nil 0.05))))))))
    (should (string-match "^\\([a-z]+ +Connection .*\n\\(?: +.*\n\\)*\\)" page))
    (replace-regexp-in-string " +" " " (match-string 1 page))))

(defmacro agent-q-doctor-test--with-folder (folder &rest body)
  "Run BODY with FOLDER bound to the name of a new folder."
  (declare (indent 1) (debug t))
  `(let ((,folder (file-name-as-directory (make-temp-file "agent-q-doctor" t))))
     (unwind-protect
         (progn ,@body)
       (delete-directory ,folder t))))

(ert-deftest agent-q-doctor-tells-of-logs-that-cannot-be-written ()
  "A folder that can't be made is named, with what does not run because of it; one that can is not."
  (agent-q-doctor-test--with-folder folder
    (write-region "" nil (expand-file-name "file" folder) nil 'silent)
    (let ((page (agent-q-doctor-test--page
                 `(setq agent-q-log-file ,(expand-file-name "file/agent-q/core.log" folder)))))
      (should (string-match-p "^missing +Audit log .*/file/agent-q/ can.t be written" page))
      (should (string-match-p "tools that change anything don.t run" page)))
    (should-not (string-match-p
                 "Audit log"
                 (agent-q-doctor-test--page
                  `(setq agent-q-log-file ,(expand-file-name "new/agent-q/core.log" folder)))))))

(ert-deftest agent-q-doctor-tells-of-a-damaged-core-and-of-rust ()
  "A core that is cut is named as what it is, and Rust where there is none to build another."
  (agent-q-doctor-test--with-folder folder
    (let* ((core (car (directory-files agent-q-doctor-test--lisp t "\\`agent-q-core\\.\\(?:so\\|dylib\\|dll\\)\\'")))
           (page (progn
                   (copy-file (expand-file-name "agent-q-core.manifest" agent-q-doctor-test--lisp) folder)
                   (write-region "half" nil (expand-file-name (file-name-nondirectory core) folder)
                                 nil 'silent)
                   (agent-q-doctor-test--page
                    `(setq agent-q-module-directory ,folder exec-path nil)
                    `(setenv "HOME" ,folder)))))
      (should (string-match-p "^missing +Core +can.t be used\n +.*damaged (4 bytes, not [0-9]+)" page))
      (should (string-match-p "^missing +Rust +no cargo on the path.*\n +https://rustup.rs" page))))
  (should-not (string-match-p "^missing +Rust" (agent-q-doctor-test--page '(setq exec-path nil)))))

(ert-deftest agent-q-doctor-tells-when-emacs-has-to-be-restarted ()
  "What only a restart mends is told."
  (should (string-match-p
           "^missing +Core +can.t be used in this session\n +Another copy .*; restart Emacs"
           (agent-q-doctor-test--page '(agent-q-module-ensure)
                                      '(setq agent-q-module--entry #'ignore)))))

(ert-deftest agent-q-doctor-says-where-the-way-to-the-model-ends ()
  "The chosen host is asked for its models, and each stage has its words."
  (agent-q-test-with-model "{\"turns\":[],\"models\":[\"one\",\"two\"]}"
    (let ((url (plist-get agent-q-provider :base-url)))
      (pcase-dolist
          (`(,words . ,properties)
           `(("ok Connection gpu at http://127.* answers: 2 models" :base-url ,url)
             ("missing .* can.t be used: it fails at the connection\n Nothing listens at 127.0.0.1:1\\."
              :base-url "http://127.0.0.1:1/v1")
             ("it fails at the proxy\n Nothing listens at the proxy 127.0.0.1:1 "
              :base-url "https://model.example/v1" :proxy "http://127.0.0.1:1")
             ("it fails at TLS\n .*does not speak TLS"
              :base-url ,(replace-regexp-in-string "\\`http" "https" url))
             ("missing Connection .* its :proxy is not" :base-url ,url :proxy 3)))
        (should (string-match-p
                 words (agent-q-doctor-test--connection
                        (append '(:name "gpu" :model "one") properties))))))))

(ert-deftest agent-q-doctor-ends-with-what-to-do-next ()
  "One line says what is missing first, or that all is there."
  (let ((client '(progn (require 'agent-q-doctor)
                        (defun agent-q-doctor--finding-client () '(ok "Lisp client" "SLIME" nil))))
        (other '(setq agent-q-provider '(:name "other" :base-url "http://127.0.0.1:9/v1"
                                               :model "some"))))
    (should (string-match-p "^Next: M-x package-install"
                            (agent-q-doctor-test--page
                             '(progn (require 'agent-q-doctor)
                                     (defun agent-q-doctor--finding-client ()
                                       '(missing "Lisp client" "none" "M-x package-install"))))))
    (should (string-match-p "^Next: give it a model"
                            (agent-q-doctor-test--page client '(setq agent-q-provider 'none))))
    ;; A chat can have a model of its own.
    (should (string-match-p "^Next: .*, then M-x agent-q-chat$"
                            (agent-q-doctor-test--page
                             client '(setq agent-q-provider 'none)
                             '(with-current-buffer (generate-new-buffer "*chat*")
                                (setq agent-q-session-provider '(:name "other" :model "some"))))))
    (should (string-match-p "^Next: .*, then M-x agent-q-chat$"
                            (agent-q-doctor-test--page client other)))
    (should (string-match-p
             "^Ready: M-x agent-q-chat$"
             (agent-q-doctor-test--page
              client other
              '(defun agent-q-doctor--finding-connections () '(ok "Lisp image" "sbcl" nil)))))))

(provide 'agent-q-doctor-test)
;;; agent-q-doctor-test.el ends here
