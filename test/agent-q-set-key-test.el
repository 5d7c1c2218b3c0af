;;; agent-q-set-key-test.el --- From no key to the first answer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Sets keys at a model server that wants one, at servers that do wrong, and into real files, through
;; the page that users see.  Only what the user types is given.

;;; Code:

(require 'ert)
(require 'agent-q-chat)
(require 'agent-q-chat-commands)
(require 'agent-q-key)
(require 'agent-q-test)

(defconst agent-q-set-key-test--right "sk-right-0123456789"
  "The key that the server takes.")

(defun agent-q-set-key-test--script (&rest texts)
  "Return the script of a host that wants the right key and answers with TEXTS."
  (json-encode `((key . ,agent-q-set-key-test--right)
                 (turns . ,(vconcat (mapcar (lambda (text) `((steps . [((text . ,text))])))
                                            texts))))))

(defun agent-q-set-key-test--hosts (url)
  "Return hosts, of which `here' is at URL."
  `((here :base-url ,url :model "scripted" :environment "AGENT_Q_HERE_KEY"
          :key-page "https://here.example/keys")
    (anthropic :base-url "https://anthropic.example/v1" :model "m"
               :environment "AGENT_Q_OTHER_KEY")))

(defmacro agent-q-set-key-test--with (url &rest body)
  "Run BODY with the host `here' at URL, a new folder and no key.
The variable `folder' names the folder, and `file' the one of `auth-sources',
which does not exist."
  (declare (indent 1) (debug t))
  `(let* ((folder (file-name-as-directory (make-temp-file "agent-q-keys" t)))
          (file (concat folder "authinfo"))
          (auth-sources (list file))
          (agent-q-providers (agent-q-set-key-test--hosts ,url))
          (agent-q-provider 'none) (agent-q-model nil)
          (agent-q-provider--key-kept nil)
          (kill-ring nil) (kill-ring-yank-pointer nil)
          (inhibit-message t))
     (auth-source-forget-all-cached)
     (unwind-protect
         (save-window-excursion ,@body)
       (when (get-buffer agent-q-key--buffer)
         (kill-buffer agent-q-key--buffer))
       (auth-source-forget-all-cached)
       (delete-directory folder t))))

(defmacro agent-q-set-key-test--typing (key &rest body)
  "Run BODY while the user enters KEY where one is asked for."
  (declare (indent 1) (debug t))
  `(cl-letf (((symbol-function 'read-passwd) (lambda (&rest _) (copy-sequence ,key))))
     ,@body))

(defun agent-q-set-key-test--enter (key)
  "Enter KEY for the host `here', and return what the page says of it."
  (agent-q-set-key-test--typing key (agent-q-set-key 'here))
  (agent-q-set-key-test--outcome))

(defun agent-q-set-key-test--outcome ()
  "Wait until the page says how the trial ended, and return that."
  (with-current-buffer agent-q-key--buffer
    (agent-q-test-until (null agent-q-key--trial) "the trial of the key")
    (cdr agent-q-key--said)))

(defun agent-q-set-key-test--press (label)
  "Press the button of the page whose label begins with LABEL."
  (with-current-buffer agent-q-key--buffer
    (agent-q-test-find (concat "[" label))
    (push-button)))

(defun agent-q-set-key-test--text (file)
  "Return the text of FILE, byte for byte."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally file)
    (buffer-string)))

(ert-deftest agent-q-set-key-test-from-no-key-to-an-answer ()
  "A first message that no model reads leads to a key and is not lost."
  (let ((server (agent-q-test-start-server (agent-q-set-key-test--script "Good morning."))))
    (unwind-protect
        (agent-q-set-key-test--with (process-get server 'base-url)
          (agent-q-test-with-chat
            (should (agent-q-test-shows "[Set a key]"))
            (agent-q-test-send "Hello?")
            (agent-q-test-until (agent-q-test-shows "No model yet") "the advice")
            (should (equal (agent-q-prompt-text) "Hello?"))
            (setq agent-q-provider nil)
            (kill-new agent-q-set-key-test--right)
            (should (string-match-p "The key works: 127.0.0.1 lists 1 model\\."
                                    (agent-q-set-key-test--enter
                                     (format "export HERE_API_KEY='%s'\n"
                                             agent-q-set-key-test--right))))
            (should-not kill-ring)
            (agent-q-set-key-test--press "Store it in")
            (should (string-match-p
                     (format "\\`machine 127\\.0\\.0\\.1 port [0-9]+ login apikey password %s\n\\'"
                             agent-q-set-key-test--right)
                     (agent-q-set-key-test--text file)))
            (should (= #o600 (file-modes file)))
            (should (eq agent-q-provider 'here))
            (with-current-buffer agent-q-key--buffer
              (should-not agent-q-key--secret)
              (should (agent-q-test-shows "as plain text"))
              (should-not (agent-q-test-shows agent-q-set-key-test--right)))
            (should (equal (agent-q-provider-key-source (alist-get 'here agent-q-providers))
                           "auth-source"))
            (with-current-buffer chat
              (goto-char (point-max))
              (agent-q-chat-send)
              (agent-q-test-until (agent-q-test-shows "Good morning.") "the answer"))))
      (delete-process server))))

(ert-deftest agent-q-set-key-test-a-refused-key-is-replaced ()
  "A turn that failed by its key has a button for another, and goes on with it."
  (let ((server (agent-q-test-start-server (agent-q-set-key-test--script "Here I am."))))
    (unwind-protect
        (agent-q-set-key-test--with (process-get server 'base-url)
          (let* ((entry (format "machine 127.0.0.1 login apikey port %d"
                                (url-port (url-generic-parse-url (process-get server 'base-url)))))
                 (agent-q-provider 'here))
            (write-region (concat entry " password sk-old\n") nil file nil 'quiet)
            (agent-q-test-with-chat
              (agent-q-test-ask "Hello?")
              (should (agent-q-test-shows "(401)"))
              (agent-q-test-find "[Set a key]\n")
              (agent-q-set-key-test--typing "sk-wrong" (push-button))
              (should (string-match-p "refuses this key.*It says: .*Incorrect"
                                      (agent-q-set-key-test--outcome)))
              (should (equal (agent-q-set-key-test--text file)
                             (concat entry " password sk-old\n")))
              (agent-q-set-key-test--typing agent-q-set-key-test--right
                (agent-q-set-key-test--press "Type another key"))
              (agent-q-set-key-test--outcome)
              (agent-q-set-key-test--press "Store it in")
              (should (equal (agent-q-set-key-test--text file)
                             (format "%s password %s\n" entry agent-q-set-key-test--right)))
              (with-current-buffer chat
                (agent-q-test-find "[Try again]")
                (push-button)
                (agent-q-test-until (agent-q-test-shows "Here I am.") "the answer")))))
      (delete-process server))))

;;;; Hosts that do something else

(defun agent-q-set-key-test--serve (status body)
  "Start a server that answers all with STATUS and BODY; return its process."
  (make-network-process
   :name "agent-q-odd-host" :server t :host "127.0.0.1" :service t :family 'ipv4 :noquery t
   :filter (lambda (connection _text)
             (process-send-string
              connection (format "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                                 status (string-bytes body) body))
             (delete-process connection))))

(defun agent-q-set-key-test--url (server)
  "Return the base URL of the API of SERVER."
  (format "http://127.0.0.1:%d/v1" (process-contact server :service)))

(ert-deftest agent-q-set-key-test-hosts-that-say-something-else ()
  "Each outcome of a trial has its sentence, and a key that may be good can be stored."
  (pcase-dolist (`(,status ,body ,sentence ,offer)
                 '(("429 Slow" "{}" "The key is good, but.*(429)" "Store it in")
                   ("402 Pay" "{\"error\": {\"message\": \"No credit\"}}" "(402).*It says: No credit"
                    "Store it in")
                   ("403 No" "{}" "does not allow this key to list" "Store it in")
                   ("404 No" "{}" "can't be tried by a request that costs nothing" "Store it in")
                   ("200 Yes" "{\"data\": [{\"id\": \"m\"}]}" "lists its models with any key"
                    "Store it in")
                   ("200 Yes" "{\"data\": []}" "lists no models for this key" "Store it anyway")
                   ("503 Ill" "{}" "could not be tried\\..*server error" "Try it again")
                   ("400 Bad" "{\"error\": \"Incorrect API key provided: sk\"}" "refuses this key"
                    "Type another key")))
    (let ((server (agent-q-set-key-test--serve status body)))
      (unwind-protect
          (agent-q-set-key-test--with (agent-q-set-key-test--url server)
            (let ((said (agent-q-set-key-test--enter "sk-some")))
              (should (string-match-p sentence said))
              (with-current-buffer agent-q-key--buffer
                (should (agent-q-test-shows (concat "[" offer))))
              (should-not (file-exists-p file))))
        (delete-process server)))))

(ert-deftest agent-q-set-key-test-no-way-to-the-host ()
  "Without a way to the host the key is not lost: it can be tried again or stored."
  (let* ((server (agent-q-set-key-test--serve "200 Yes" "{}"))
         (url (agent-q-set-key-test--url server)))
    (delete-process server)
    (agent-q-set-key-test--with url
      (should (string-match-p "could not be tried\\..*127\\.0\\.0\\.1" (agent-q-set-key-test--enter "sk-some")))
      (setf (alist-get 'here agent-q-providers)
            (append (alist-get 'here agent-q-providers) (list :proxy (string-remove-suffix "/v1" url))))
      (should (string-match-p "could not be tried\\..*proxy" (agent-q-set-key-test--enter "sk-some")))
      (agent-q-set-key-test--press "Store it anyway")
      (agent-q-set-key-test--press "Use it in this session only")
      (should-not (file-exists-p file))
      (should (equal (agent-q-provider-key-find (alist-get 'here agent-q-providers)) "sk-some"))
      (should (member "sk-some" (agent-q-provider-secrets))))))

(ert-deftest agent-q-set-key-test-what-is-not-a-key ()
  "What is not a key is told before any host is asked; another host's key is asked about."
  (agent-q-set-key-test--with "http://127.0.0.1:9/v1"
    (should (equal (agent-q-set-key-test--enter " \n") "No key was entered."))
    (dolist (typed '("two words" "sk-ü" "sk-a\nsk-b"))
      (should (string-match-p "not a key" (agent-q-set-key-test--enter typed))))
    (let ((asked nil))
      (cl-letf (((symbol-function 'y-or-n-p) (lambda (prompt) (push prompt asked) t)))
        (agent-q-set-key-test--enter "sk-ant-0123"))
      (should (equal asked '("This looks like a key of anthropic, not of here.  Set it for anthropic? ")))
      (with-current-buffer agent-q-key--buffer
        (should (agent-q-test-shows "A key for anthropic"))))))

(ert-deftest agent-q-set-key-test-the-list-of-hosts ()
  "Hosts are listed with the cost of a day where prices are known, and with where keys are."
  (agent-q-set-key-test--with "https://here.example/v1"
    (setf (alist-get 'anthropic agent-q-providers)
          (append '(:models (("m" :prices (2 10)))) (alist-get 'anthropic agent-q-providers)))
    (let ((process-environment (cons "AGENT_Q_HERE_KEY=sk-environment" process-environment)))
      (agent-q-set-key))
    (with-current-buffer agent-q-key--buffer
      (should (agent-q-test-shows "[here]"))
      (agent-q-test-find "[here]")
      (should (looking-at ".*key set, in the environment"))
      (should-not (looking-at ".*\\$"))
      (agent-q-test-find "[anthropic]")
      (should (looking-at ".*m +\\$0\\.76"))
      (should-not (agent-q-test-shows "sk-environment")))))

;;;; Files

(defun agent-q-set-key-test--written (before &rest properties)
  "Return what a file with the text BEFORE is once a key is put into it.
The host has PROPERTIES."
  (let ((file (make-temp-file "agent-q-authinfo")))
    (unwind-protect
        (progn
          (let ((coding-system-for-write 'no-conversion))
            (write-region before nil file nil 'quiet))
          (agent-q-key-file-write file (append properties '(:base-url "https://a.example/v1")) "NEW")
          (should (= #o600 (file-modes file)))
          (agent-q-set-key-test--text file))
      (delete-file file))))

(ert-deftest agent-q-set-key-test-an-entry-gets-the-new-key ()
  "The key of the same host and login is replaced; all other bytes stay."
  (pcase-dolist
      (`(,before ,after . ,properties)
       '(("" "machine a.example login apikey password NEW\n")
         ("machine b.example login apikey password b"
          "machine b.example login apikey password b\nmachine a.example login apikey password NEW\n")
         ("# machine a.example login apikey password c\n\tmachine a.example\r\n  password 'o l d' login apikey\r\n\xff\n"
          "# machine a.example login apikey password c\n\tmachine a.example\r\n  password NEW login apikey\r\n\xff\n")
         ("machine a.example login me password x\nmachine a.example login apikey port 8000 password y\n"
          "machine a.example login me password x\nmachine a.example login apikey port 8000 password y\nmachine a.example login apikey password NEW\n")
         ("machine a.example login apikey password any\nmachine a.example login apikey port https password old\n"
          "machine a.example login apikey password any\nmachine a.example login apikey port https password NEW\n")
         ("machine a.example login apikey\ndefault login anonymous password me\n"
          "machine a.example login apikey password NEW\ndefault login anonymous password me\n")
         ("machine a.example login work password old\n"
          "machine a.example login work password NEW\n" :login "work")
         ("machine a.example login apikey password old\n"
          "machine a.example login apikey password old\nmachine a.example port 8001 login apikey password NEW\n"
          :base-url "https://a.example:8001/v1")))
    (should (equal (apply #'agent-q-set-key-test--written before properties)
                   (string-to-unibyte after)))))

(ert-deftest agent-q-set-key-test-files-that-cannot-be-written ()
  "A key whose file can't be written is used in this session, and the page says so."
  (let ((server (agent-q-test-start-server (agent-q-set-key-test--script "Yes."))))
    (unwind-protect
        (agent-q-set-key-test--with (process-get server 'base-url)
          (let ((here (alist-get 'here agent-q-providers)))
            ;; The folder goes while the page waits.
            (setq auth-sources (list (concat folder "below/authinfo")))
            (make-directory (concat folder "below"))
            (agent-q-set-key-test--enter agent-q-set-key-test--right)
            (delete-directory (concat folder "below"))
            (agent-q-set-key-test--press "Store it in")
            (with-current-buffer agent-q-key--buffer
              (should (agent-q-test-shows "authinfo can't be written: "))
              (should (agent-q-test-shows "used in this session only")))
            (should (equal (agent-q-provider-key-source here) "this session"))
            (make-directory (concat folder "below"))
            (agent-q-set-key-test--press "Try to store it again")
            (should (equal (agent-q-provider-key-source here) "auth-source"))
            ;; A keychain is not written to, nor a folder that isn't there.
            (setq auth-sources (list 'macos-keychain-internet "secrets:Login"
                                     (concat folder "none/authinfo")))
            (should (string-match-p "by hand: host 127.0.0.1, user apikey"
                                    (agent-q-set-key-test--enter agent-q-set-key-test--right)))
            ;; What a buffer holds is not overwritten.
            (write-region "machine x login y password z\n" nil file nil 'quiet)
            (setq auth-sources (list file))
            (agent-q-set-key-test--enter agent-q-set-key-test--right)
            (let ((edited (find-file-noselect file)))
              (unwind-protect
                  (progn
                    (with-current-buffer edited (insert "# mine\n"))
                    (agent-q-set-key-test--press "Store it in")
                    (with-current-buffer agent-q-key--buffer
                      (should (agent-q-test-shows "is being edited"))))
                (with-current-buffer edited (set-buffer-modified-p nil))
                (kill-buffer edited)))
            (should (equal (agent-q-set-key-test--text file) "machine x login y password z\n"))))
      (delete-process server))))

(ert-deftest agent-q-set-key-test-a-symbolic-link-stays ()
  "A link to a file of keys is followed and stays a link."
  (agent-q-set-key-test--with "https://a.example/v1"
    (let ((target (concat folder "dotfiles")))
      (write-region "" nil target nil 'quiet)
      (make-symbolic-link target file)
      (agent-q-key-file-write file (alist-get 'here agent-q-providers) "NEW")
      (should (file-symlink-p file))
      (should (string-match-p "password NEW" (agent-q-set-key-test--text target)))
      (should (equal (sort (directory-files folder nil directory-files-no-dot-files-regexp) #'string<)
                     '("authinfo" "dotfiles"))))))

(ert-deftest agent-q-set-key-test-an-encrypted-file ()
  "A file that is encrypted for a key stays so, with its other lines."
  (skip-unless (executable-find "gpg"))
  (agent-q-set-key-test--with "https://a.example/v1"
    (let* ((home (make-temp-file "/tmp/aq-gpg" t))
           (process-environment (cons (concat "GNUPGHOME=" home) process-environment))
           (epg-gpg-home-directory home)
           (file (concat file ".gpg"))
           (auth-sources (list file))
           (here (alist-get 'here agent-q-providers)))
      (unwind-protect
          (progn
            (set-file-modes home #o700)
            (should (zerop (call-process "gpg" nil nil nil "--batch" "--passphrase" ""
                                         "--quick-generate-key" "me@a.example" "default" "default")))
            (with-temp-buffer
              (insert "machine b.example login me password other\n")
              (setq-local epa-file-encrypt-to '("me@a.example"))
              (write-region nil nil file nil 'quiet))
            (should (equal (agent-q-key-file-choices here) (list file)))
            (agent-q-key-file-write file here "sk-secret")
            (should-not (string-search "sk-secret" (agent-q-set-key-test--text file)))
            (with-temp-buffer
              (insert-file-contents file)
              (should (equal (buffer-string)
                             "machine b.example login me password other
machine a.example login apikey password sk-secret\n")))
            (should (equal (agent-q-provider-key-of-auth-source here auth-sources) "sk-secret")))
        (call-process "gpgconf" nil nil nil "--homedir" home "--kill" "all")
        (delete-directory home t)))))

(provide 'agent-q-set-key-test)
;;; agent-q-set-key-test.el ends here
