;;; agent-q-provider-test.el --- Which model a chat gets  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Real auth-source files, a real environment and the core's real look for local servers.

;;; Code:

(require 'ert)
(require 'auth-source)
(require 'agent-q-provider)
(require 'agent-q-doctor)
(require 'agent-q-test)

(defconst agent-q-provider-test--hosts
  '((first :base-url "https://first.example/v1" :model "one" :environment "AGENT_Q_FIRST_KEY")
    (second :base-url "https://second.example/v1" :model "two"
            :environment "AGENT_Q_SECOND_KEY"))
  "The hosts that the tests know.")

(defmacro agent-q-provider-test--with (authinfo environment &rest body)
  "Run BODY with the text AUTHINFO in auth-source and ENVIRONMENT, a list, added."
  (declare (indent 2))
  `(let* ((file (make-temp-file "agent-q-authinfo" nil nil ,authinfo))
          (auth-sources (list file))
          (process-environment (append ,environment process-environment))
          (agent-q-providers agent-q-provider-test--hosts)
          (agent-q-provider nil)
          (agent-q-model nil))
     (auth-source-forget-all-cached)
     (unwind-protect
         (progn ,@body)
       (auth-source-forget-all-cached)
       (delete-file file))))

(defun agent-q-provider-test--choose ()
  "Return the provider that is chosen, once the choice is made."
  (let ((chosen 'none-yet)
        (deadline (time-add nil 60)))
    (agent-q-provider-choose (lambda (provider) (setq chosen provider)))
    (while (and (eq chosen 'none-yet) (time-less-p nil deadline))
      (accept-process-output nil 0.05))
    (should-not (eq chosen 'none-yet))
    chosen))

(defun agent-q-provider-test--fields (provider)
  "Return the name, model and key of PROVIDER."
  (mapcar (lambda (field) (alist-get field provider)) '(name model key)))

(ert-deftest agent-q-provider-test-key-in-auth-source ()
  "A key in auth-source is used, as machine = the API's host and login = apikey."
  (agent-q-provider-test--with
      (concat "machine first.example login somebody password wrong\n"
              "machine second.example login apikey password right\n")
      nil
    (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                   '("second" "two" "right")))))

(ert-deftest agent-q-provider-test-order-of-keys ()
  "Auth-source comes before the environment, and the first host before the second."
  (agent-q-provider-test--with "machine second.example login apikey password from-file\n"
      '("AGENT_Q_FIRST_KEY=from-environment")
    (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                   '("second" "two" "from-file"))))
  (agent-q-provider-test--with "" '("AGENT_Q_SECOND_KEY=b" "AGENT_Q_FIRST_KEY=a")
    (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                   '("first" "one" "a"))))
  (agent-q-provider-test--with "" '("AGENT_Q_SECOND_KEY=b" "AGENT_Q_FIRST_KEY=")
    (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                   '("second" "two" "b")))))

(ert-deftest agent-q-provider-test-setting-wins ()
  "What the user set is used, whatever keys there are."
  (agent-q-provider-test--with "machine first.example login apikey password a\n"
      '("AGENT_Q_SECOND_KEY=b")
    (let ((agent-q-provider 'second) (agent-q-model "three"))
      (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                     '("second" "three" "b"))))
    (let ((agent-q-provider 'none))
      (should-not (agent-q-provider-test--choose)))
    (let ((agent-q-provider 'unheard-of))
      (should-error (agent-q-provider-test--choose) :type 'user-error))
    (let ((agent-q-provider '(:base-url "https://first.example/api" :model "m"
                              :body (:temperature 0) :headers (:x-title "agent-q"))))
      (should (equal (json-parse-string (json-serialize (assq-delete-all
                                                         'route (agent-q-provider-test--choose)))
                                        :object-type 'plist)
                     '(:name "first.example" :base_url "https://first.example/api"
                       :model "m" :key "a" :body (:temperature 0) :first_body nil
                       :headers (:x-title "agent-q")))))
    (let ((agent-q-provider (list :name "mine" :base-url "http://127.0.0.1:9/v1" :model "m"
                                  :key (lambda () "made"))))
      (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                     '("mine" "m" "made"))))))

(defun agent-q-provider-test--key-at (url &rest properties)
  "Return the key for the API at URL, of a provider with PROPERTIES."
  (agent-q-provider-key-find `(:base-url ,url ,@properties)))

(ert-deftest agent-q-provider-test-keys-by-port-and-login ()
  "An entry for a port is for that server alone; each account has its own."
  (agent-q-provider-test--with
      (concat "machine gpu.example login apikey password any\n"
              "machine gpu.example port 8000 login apikey password one\n"
              "machine gpu.example port https login apikey password tls\n"
              "machine gpu.example login work password account\n"
              "machine box.example port 8001 login apikey password other\n"
              "machine blank.example login apikey password \"  \"\n")
      '("AGENT_Q_BLANK= \t")
    (pcase-dolist (`(,key ,url . ,properties)
                   '(("one" "http://gpu.example:8000/v1")
                     ("any" "http://gpu.example:8001/v1")
                     ("any" "http://gpu.example/v1")
                     ("tls" "https://gpu.example/v1")
                     ("account" "https://gpu.example/v1" :login "work")
                     ("other" "http://box.example:8001/v1")
                     (nil "http://box.example:8000/v1")
                     (nil "http://box.example/v1" :login "nobody")
                     (nil "https://blank.example/v1")
                     (nil "https://none.example/v1" :environment "AGENT_Q_BLANK")
                     (nil "https://none.example/v1" :key "  ")))
      (should (equal (apply #'agent-q-provider-test--key-at url properties) key)))))

(ert-deftest agent-q-provider-test-keys-without-what-was-copied-along ()
  "A key is found as its host wrote it."
  (agent-q-provider-test--with "machine a.example login apikey password \"Bearer sk-file\"\n"
      '("AGENT_Q_COPIED=\ufeff\"sk-env\"\r")
    (should (equal (agent-q-provider-test--key-at "https://a.example/v1") "sk-file"))
    (should (equal (agent-q-provider-test--key-at "https://b.example/v1"
                                                  :environment "AGENT_Q_COPIED")
                   "sk-env"))
    (dolist (written '("'sk-1'" "bearer  sk-1" "Authorization: Bearer sk-1\n" "\"Bearer sk-1\""
                       "\u201csk-1\u201d" "Bearer 'sk-1'"))
      (should (equal (agent-q-provider-test--key-at "https://b.example/v1" :key written)
                     "sk-1")))
    (should (equal (agent-q-provider-test--key-at "https://b.example/v1" :key "bearerless")
                   "bearerless"))
    (should-not (agent-q-provider-test--key-at "https://b.example/v1" :key "Bearer "))))

(defun agent-q-provider-test--proxy (url &rest properties)
  "Return the proxy to the API at URL, of a provider with PROPERTIES, and who set it."
  (let ((proxy (alist-get 'proxy (agent-q-provider-route
                                  "office" `(:base-url ,url ,@properties)))))
    (and proxy (list (alist-get 'url proxy) (alist-get 'set_by proxy)
                     (alist-get 'except proxy)))))

(ert-deftest agent-q-provider-test-proxies-as-emacs-has-them ()
  "The provider's own word counts first, then the environment, then Emacs's own option."
  (let ((process-environment '("https_proxy=secure:1" "HTTP_PROXY= plain:2 " "http_proxy="
                               "no_proxy=a,b"))
        (url-proxy-services nil))
    (should (equal (agent-q-provider-test--proxy "https://x.example/v1")
                   '("secure:1" "https_proxy" "a,b")))
    (should (equal (agent-q-provider-test--proxy "http://x.example/v1")
                   '("plain:2" "HTTP_PROXY" "a,b")))
    (should-not (agent-q-provider-test--proxy "https://x.example/v1" :proxy nil))
    (should-not (agent-q-provider-test--proxy "https://x.example/v1" :proxy "none"))
    (should (equal (agent-q-provider-test--proxy "http://127.0.0.1/v1" :proxy "socks5h://own:3")
                   '("socks5h://own:3" ":proxy of office" nil)))
    (setenv "https_proxy" nil)
    (should-not (agent-q-provider-test--proxy "https://x.example/v1"))
    (setenv "ALL_PROXY" "socks5h://all:4")
    (should (equal (car (agent-q-provider-test--proxy "https://x.example/v1")) "socks5h://all:4")))
  (let ((process-environment nil)
        (url-proxy-services '(("https" . "emacs:5") ("no_proxy" . "\\`\\(?:in\\.example\\)"))))
    (should (equal (agent-q-provider-test--proxy "https://x.example/v1")
                   '("http://emacs:5/" "url-proxy-services" "")))
    (should-not (agent-q-provider-test--proxy "http://x.example/v1"))
    (should-not (agent-q-provider-test--proxy "https://in.example/v1"))
    (setenv "https_proxy" "secure:1")
    (should (equal (car (agent-q-provider-test--proxy "https://x.example/v1")) "secure:1"))
    (should-not (agent-q-provider-test--proxy "https://IN.example/v1"))))

(ert-deftest agent-q-provider-test-certificates-as-emacs-has-them ()
  "What Emacs and its environment trust is handed on, as far as it is there."
  (let* ((file (make-temp-file "agent-q-ca"))
         (process-environment (list (concat "SSL_CERT_FILE=" file)
                                    (format "SSL_CERT_DIR=/no/such%s%s" path-separator
                                            temporary-file-directory)))
         (gnutls-trustfiles (list file "/no/such/file.pem" (expand-file-name invocation-name
                                                                             invocation-directory)))
         (route (lambda (&rest properties)
                  (agent-q-provider-route "office" `(:base-url "https://x.example/v1"
                                                               ,@properties)))))
    (unwind-protect
        (progn
          (should (equal (append (alist-get 'authorities (funcall route)) nil)
                         (list file (expand-file-name temporary-file-directory)
                               (expand-file-name invocation-name invocation-directory))))
          (should-not (alist-get 'ca_file (funcall route)))
          (should (equal (alist-get 'ca_file (funcall route :ca-file file)) file)))
      (delete-file file))
    (should-error (agent-q-provider-make "office" `(:base-url "https://x.example/v1" :ca-file ,file))
                  :type 'user-error)))

(ert-deftest agent-q-provider-test-a-proxy-counts-for-the-next-message ()
  "What changes in Emacs is used without a new chat."
  (agent-q-test-with-model "{\"repeat_last\":true,\"turns\":[{\"steps\":[{\"text\":\"Fine.\"}]}]}"
    (agent-q-test-with-chat
      (agent-q-test-ask "go")
      (should (agent-q-test-shows "Fine."))
      (setq agent-q-provider (append agent-q-provider '(:proxy "http://127.0.0.1:1")))
      (agent-q-test-ask "go")
      (should (agent-q-test-shows
               "Nothing listens at the proxy 127.0.0.1:1 (set by :proxy of"))
      (setq agent-q-provider (plist-put agent-q-provider :proxy nil))
      (agent-q-test-ask "the last")
      (should (equal 2 (how-many "Fine\\." (point-min) (point-max)))))))

(ert-deftest agent-q-provider-test-no-passphrase-in-batch ()
  "An encrypted file is left alone where nobody could be asked."
  (agent-q-provider-test--with "" '("AGENT_Q_FIRST_KEY=a")
    (let* ((locked (let ((file-name-handler-alist nil)) ; or Emacs would encrypt it
                     (make-temp-file "agent-q-locked" nil ".gpg" "no real ciphertext")))
           (auth-sources (list locked)))
      (unwind-protect
          (progn
            (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                           '("first" "one" "a")))
            (should (equal (agent-q-provider-key-source (cdar agent-q-providers))
                           "the environment")))
        (delete-file locked)))))

(ert-deftest agent-q-provider-test-local-servers ()
  "A server with the wanted model is preferred; models that only embed are not used."
  (let ((servers '((:name "Ollama" :base-url "http://127.0.0.1:11434/v1"
                    :models ("nomic-embed-text" "small"))
                   (:name "llama.cpp" :base-url "http://127.0.0.1:8080/v1" :models ("big"))))
        (agent-q-model nil))
    (should (equal (agent-q-provider-test--fields (agent-q-provider--local servers))
                   '("Ollama" "small" :null)))
    (let ((agent-q-model "big"))
      (should (equal (agent-q-provider-test--fields (agent-q-provider--local servers))
                     '("llama.cpp" "big" :null))))
    (should-not (agent-q-provider--local
                 '((:name "Ollama" :base-url "http://x" :models ("nomic-embed-text")))))
    (should-not (agent-q-provider--local nil))))

(ert-deftest agent-q-provider-test-switching ()
  "A model of a known host can be chosen by name, listed or not."
  (agent-q-provider-test--with "" '("AGENT_Q_FIRST_KEY=a")
    (let ((candidates (agent-q-provider-candidates)))
      (should (assoc "first: one" candidates))
      (should-not (assoc "second: two" candidates))
      (should (equal (agent-q-provider-test--fields
                      (agent-q-provider-chosen "first: one" candidates))
                     '("first" "one" "a")))
      (should (equal (agent-q-provider-test--fields
                      (agent-q-provider-chosen "first: other:latest" candidates))
                     '("first" "other:latest" "a")))
      (should-error (agent-q-provider-chosen "nonsense" candidates) :type 'user-error))))

(ert-deftest agent-q-provider-test-no-secret-is-repeated ()
  "What is written the wrong way is named in the chat, and its value is not."
  (pcase-dolist (`(,property ,wrong)
                 '((:headers "Authorization: hidden") (:headers (:Authorization . "hidden"))
                   (:headers (("Authorization" . "hidden"))) (:headers ("Authorization" "hidden"))
                   (:headers (:Authorization ("hidden"))) (:headers (:hidden))
                   (:headers [:Authorization "hidden"])
                   (:body "hidden") (:body (:hidden)) (:body (:it hidden))
                   (:first-body (("hidden"))) (:key (hidden)) (:key 5)
                   (:base-url ("hidden")) (:base-url hidden) (:model ("hidden"))))
    (ert-info ((format "%S %S" property wrong))
      (let ((agent-q-provider (plist-put (list :name "mine" :base-url "http://127.0.0.1:9/v1"
                                               :model "one")
                                         property wrong)))
        (agent-q-test-with-chat
          (should (string-match-p "The provider mine can.t be used: its " (agent-q-test-log)))
          (should (agent-q-test-shows (substring (symbol-name property) 1)))
          (should-not (agent-q-test-shows "hidden"))
          (should-not agent-q-session-provider)
          ;; Nor does the core repeat what reaches it.
          (let ((failure (should-error
                          (agent-q-core-configure
                           agent-q-session-number
                           (json-encode `(:provider (:name "mine" ,property "hidden" :headers "hidden")))))))
            (should-not (string-match-p "hidden" (error-message-string failure)))))))))

(ert-deftest agent-q-provider-test-mistakes-are-named ()
  "A property that there isn't, or one in the wrong place, is no silent wish."
  (pcase-dolist (`(,properties ,sentence)
                 '(((:environment AGENT_Q_FIRST_KEY) "its :environment is not the name of a variable")
                   ((:header (:X "y")) ":header is not one of its properties, which are .*:headers")
                   ((:window 8192) ":window is of a model, and belongs in its :models")
                   ((:models (("m" :base-url "http://127.0.0.1:9/v1"))) ":base-url is of the provider")
                   ((:models (("m" :window 0))) "(m) can.t be used: its :window is not a number of tokens")
                   ((:models (("m" :prices (-1 2)))) "its :prices is not a list of prices")
                   ((hidden "x") "something in it is not one of its properties")
                   ((:model) "it is not a property list")))
    (ert-info ((format "%S" properties))
      (let ((agent-q-provider 'mine)
            (agent-q-providers `((mine :base-url "http://127.0.0.1:9/v1" ,@properties))))
        (should (string-match-p
                 (concat "The provider mine.*" sentence)
                 (cadr (should-error (agent-q-provider-choose #'ignore) :type 'user-error)))))))
  (let ((agent-q-provider 'mine)
        (agent-q-providers '((mine :model "m"))))
    (should (string-match-p
             "The provider mine can.t be used: it has no :base-url"
             (cadr (should-error (agent-q-provider-choose #'ignore) :type 'user-error))))))

(ert-deftest agent-q-provider-test-a-mistake-hides-no-other-host ()
  "A host whose :environment is no name is skipped where one is looked for."
  (agent-q-provider-test--with "" '("AGENT_Q_FIRST_KEY=k")
    (push '(wrong :base-url "http://127.0.0.1:9/v1" :environment KEY) agent-q-providers)
    (should (equal (agent-q-provider-test--fields (agent-q-provider-test--choose))
                   '("first" "one" "k")))))

(ert-deftest agent-q-provider-test-chats-keep-no-key ()
  "A key goes to the core and stays there; what a chat keeps is enough to find it again."
  (agent-q-provider-test--with "machine first.example login apikey password hidden\n" nil
    (let ((agent-q-provider 'first))
      (agent-q-test-with-chat
        (let ((print-circle t))
          (should-not (string-match-p "hidden" (format "%S" (buffer-local-variables)))))
        (should (equal (alist-get 'model agent-q-session-provider) "one"))
        (should (equal (agent-q-provider-test--fields
                        (agent-q-provider-again agent-q-session-provider))
                       '("first" "one" "hidden"))))))
  (let ((local (agent-q-provider-of-server '(:name "Ollama" :base-url "http://127.0.0.1:9/v1") "tiny")))
    (should (equal local (agent-q-provider-again (agent-q-provider-public local)))))
  (should-not (agent-q-provider-again nil)))

(ert-deftest agent-q-provider-test-doctor-shows-no-key ()
  "The doctor's page says where a key is, never what it is, and fills in the servers."
  (agent-q-provider-test--with "machine first.example login apikey password hidden-one\n"
      '("AGENT_Q_SECOND_KEY=hidden-two")
    (save-window-excursion
      (agent-q-doctor)
      (let ((deadline (time-add nil 60)))
        (while (and (eq agent-q-doctor--servers 'unknown) (time-less-p nil deadline))
          (accept-process-output nil 0.05)))
      (let ((page (buffer-string)))
        (should (string-match-p "ok +Key +first, in auth-source" page))
        (should (string-match-p "ok +Key +second, in the environment" page))
        (should (string-match-p "ok +Core +loaded" page))
        (should-not (string-match-p "looking on this machine" page))
        (should-not (string-match-p "hidden" page))))))

(ert-deftest agent-q-provider-test-all-models-of-a-host-can-be-chosen ()
  "What a host lists can be chosen, its default first, and a host is asked once."
  (agent-q-test-with-model "{\"turns\":[],\"models\":[\"zeta\",\"alpha\",\"text-embedding-x\"]}"
    (let* ((agent-q-providers nil)
           (asked 0)
           (agent-q-events-subscribers (copy-alist agent-q-events-subscribers))
           (agent-q-provider--listed nil))
      (agent-q-events-subscribe :models (lambda (_) (setq asked (1+ asked))))
      (cl-letf (((symbol-function 'agent-q-provider--list-discover-now) #'ignore))
        (dotimes (_ 2)
          (should (equal '("scripted: scripted" "scripted: alpha" "scripted: zeta")
                         (mapcar #'car (agent-q-provider-candidates)))))
        (should (= 1 asked))
        (should (equal "zeta" (alist-get 'model (agent-q-provider-chosen
                                                 "scripted: zeta" (agent-q-provider-candidates)))))))))

;; Emacs by itself looks only at beginnings, and those are the hosts' names.
(ert-deftest agent-q-provider-test-a-model-is-found-by-its-name-alone ()
  (let ((completion-styles '(basic partial-completion emacs22))
        (candidates '(("one-host: alpha" . ignore) ("other-host: fine-beta-2" . ignore)))
        (found nil))
    (cl-letf (((symbol-function 'completing-read)
               (lambda (_prompt table &rest _)
                 (setq found (agent-q-test-completions "beta" table)))))
      (agent-q-provider-read candidates))
    (should (equal '("other-host: fine-beta-2") found))))

(provide 'agent-q-provider-test)
;;; agent-q-provider-test.el ends here
