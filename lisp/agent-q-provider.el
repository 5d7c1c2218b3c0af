;;; agent-q-provider.el --- Providers: keys, proxies, and which model a chat talks to  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Chooses a provider: what the user set, else a host whose key is in auth-source or the
;; environment, else a model server on this machine.
;;
;; A provider is an alist that `json-serialize' turns into the core's `provider' setting; it holds
;; the key, so it goes straight to the core and is neither kept nor printed.  Chats keep what
;; `agent-q-provider-public' leaves of it.

;;; Code:

(require 'agent-q)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-model-facts)
(require 'agent-q-provider-form)
(require 'auth-source)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'url-parse)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Where the keys of providers are

;; Looks for the key of a host: in the option, in auth-source, in the environment.  A key that is
;; found goes straight to the core; nothing here keeps or prints one.

(defun agent-q-provider-key-host (properties)
  "Return the host of the API that PROPERTIES describe."
  (let ((url (plist-get properties :base-url)))
    (and (stringp url) (url-host (url-generic-parse-url url)))))

;;;;; Keys

(defvar agent-q-provider--key-kept nil
  "Keys of this session only: functions that return them, by base URL.")

(defun agent-q-provider-key-keep (properties key)
  "Use KEY for the host of PROPERTIES in this session; nil means no such key."
  (let ((url (plist-get properties :base-url)))
    (setq agent-q-provider--key-kept
          (cl-remove url agent-q-provider--key-kept :key #'car :test #'equal))
    (when key
      ;; A function isn't shown with its text.
      (push (cons url (lambda () key)) agent-q-provider--key-kept))))

(defun agent-q-provider--key-of-session (properties)
  "Return the key that is kept for the host of PROPERTIES, or nil."
  (let ((kept (cdr (assoc (plist-get properties :base-url) agent-q-provider--key-kept))))
    (and kept (funcall kept))))

(defun agent-q-provider-key-asking-source-p (source)
  "Return non-nil if reading SOURCE of `auth-sources' may ask for a passphrase."
  (let ((file (if (consp source) (plist-get source :source) source)))
    (not (and (stringp file)
              (not (string-prefix-p "secrets:" file))
              (not (string-prefix-p "macos-keychain" file))
              (not (string-suffix-p ".gpg" file))))))

(defun agent-q-provider-key-login (properties)
  "Return the login under which auth-source has the key for PROPERTIES."
  (or (plist-get properties :login) "apikey"))

(defun agent-q-provider-key-ports (properties)
  "Return the port of the host of PROPERTIES, with its name where it has one."
  (let* ((url (url-generic-parse-url (plist-get properties :base-url)))
         (port (url-port url)))
    (cons (format "%s" port)
          (alist-get port '((443 "https") (80 "http"))))))

(defun agent-q-provider--key-entry (properties sources)
  "Return the entry of auth-source for the host of PROPERTIES in SOURCES, or nil.
One that names the host's port goes before one that names none; the keys of
the servers at other ports are not for this one."
  (let* ((auth-sources sources)
         (ports (agent-q-provider-key-ports properties))
         (asked (list :host (agent-q-provider-key-host properties)
                      :user (agent-q-provider-key-login properties)
                      :max 20 :require '(:secret)))
         (port (lambda (entry)
                 (and (plist-get entry :port) (format "%s" (plist-get entry :port)))))
         (fitting (lambda (entries)
                    (or (seq-find (lambda (entry) (member (funcall port entry) ports)) entries)
                        (seq-find (lambda (entry) (not (funcall port entry))) entries)))))
    (or (funcall fitting (apply #'auth-source-search :port ports asked))
        ;; Not every source takes an entry without a port for one of any.
        (funcall fitting (apply #'auth-source-search asked)))))

(defun agent-q-provider-key-of-auth-source (properties sources)
  "Return the key for the host of PROPERTIES that SOURCES hold, or nil.
SOURCES are a part of `auth-sources'."
  (when (and (agent-q-provider-key-host properties) sources)
    (condition-case failure
        (let ((secret (plist-get (agent-q-provider--key-entry properties sources) :secret)))
          (agent-q-provider-key-clean (if (functionp secret) (funcall secret) secret)))
      (error
       ;; A source that is out of order must not keep the chat from opening.
       (message "agent-q: auth-source failed: %s" (error-message-string failure))
       nil))))

(defconst agent-q-provider--key-around
  "[[:space:]\"'`\u201c\u201d\ufeff\u200b\u00a0]+"
  "Matches what gets around a key that is copied from somewhere.")

(defun agent-q-provider-key-clean (key)
  "Return KEY without what was copied with it; nil if nothing is left.
What is not a string is returned as it is."
  (if (not (stringp key))
      key
    (let* ((case-fold-search t)
           (bare (string-trim key agent-q-provider--key-around agent-q-provider--key-around))
           (bare (replace-regexp-in-string
                  "\\`\\(?:export[ \t]+\\)?[a-z][a-z0-9_]*_\\(?:key\\|token\\)[ \t]*=" "" bare))
           (bare (string-trim bare agent-q-provider--key-around))
           (bare (replace-regexp-in-string
                  (concat "\\`\\(?:authorization:[ \t]*\\)?bearer\\(?:[ \t]+\\|\\'\\)") "" bare))
           (bare (string-trim bare agent-q-provider--key-around)))
      (and (not (string-empty-p bare)) bare))))

(defun agent-q-provider-key-of-environment (properties)
  "Return the key in the environment for the host of PROPERTIES, or nil."
  (let ((variable (plist-get properties :environment)))
    ;; A value that isn't a string is reported where the provider is used, and hides no other host.
    (and (stringp variable)
         (agent-q-provider-key-clean (getenv variable)))))

(defun agent-q-provider--key-set (properties)
  "Return the key that PROPERTIES themselves give, or nil."
  (let ((key (plist-get properties :key)))
    (agent-q-provider-key-clean (if (functionp key) (funcall key) key))))

(defun agent-q-provider-key-finders ()
  "Return the ways to find a key, in order, each as (SOURCE . FUNCTION).
FUNCTION takes a host's properties.  What may ask for a passphrase comes
last, and not at all where there is no one to answer."
  (let ((quiet (seq-remove #'agent-q-provider-key-asking-source-p auth-sources))
        (asking (seq-filter #'agent-q-provider-key-asking-source-p auth-sources)))
    (list
     (cons "this session" #'agent-q-provider--key-of-session)
     (cons "the option" #'agent-q-provider--key-set)
     (cons "auth-source"
           (lambda (properties)
             (agent-q-provider-key-of-auth-source properties quiet)))
     (cons "the environment" #'agent-q-provider-key-of-environment)
     (cons "encrypted auth-source"
           (lambda (properties)
             (unless noninteractive
               (agent-q-provider-key-of-auth-source properties asking)))))))

(defun agent-q-provider-key-find (properties)
  "Return the key for the host of PROPERTIES, or nil."
  (seq-some (lambda (finder) (funcall (cdr finder) properties))
            (agent-q-provider-key-finders)))

(defun agent-q-provider-key-find-unasked (properties)
  "Return the key for the host of PROPERTIES, or nil.
Sources that may ask for a passphrase are left out."
  (seq-some (lambda (finder) (funcall (cdr finder) properties))
            (butlast (agent-q-provider-key-finders))))

(defun agent-q-provider-key-source (properties)
  "Return where the key for the host of PROPERTIES is, or nil.
Sources that may ask for a passphrase are left out."
  (car (seq-find (lambda (finder) (funcall (cdr finder) properties))
                 (butlast (agent-q-provider-key-finders)))))

;;;; Over which proxy, and whose certificates count

;; The way to a provider's host as Emacs has it: from the provider's own properties, from
;; `process-environment', which an init file may have changed, and from the options of Emacs's own
;; URL library and of GnuTLS.  The core asks none of them; it gets the way with the provider, and
;; again with each message.

(defvar gnutls-trustfiles)
(declare-function gnutls-trustfiles "gnutls")
(declare-function url-find-proxy-for-url "url-proxy")

(defun agent-q-provider-route (name properties)
  "Return the way to the host of the provider NAME, as the core takes it.
PROPERTIES are the provider's.  The way is an alist, which may hold the
password of a proxy."
  (let ((proxy (agent-q-provider--route-proxy name properties))
        (own (plist-get properties :ca-file)))
    `(,@(and proxy `((proxy . ,proxy)))
      (authorities . ,(vconcat (agent-q-provider--route-authorities)))
      ,@(and own `((ca_file . ,(expand-file-name own)))))))

;;;;; Proxies

(defun agent-q-provider--route-proxy (name properties)
  "Return the proxy for the host of the provider NAME, an alist, or nil.
PROPERTIES are the provider's."
  (if (plist-member properties :proxy)
      (let ((own (plist-get properties :proxy)))
        (unless (member own '(nil "" "none"))
          `((url . ,own) (set_by . ,(format ":proxy of %s" name)))))
    (let* ((base (or (plist-get properties :base-url) ""))
           (url (url-generic-parse-url base))
           (found (and (url-host url)
                       (not (agent-q-provider--route-excepted-p url))
                       (or (agent-q-provider--route-of-environment url)
                           (agent-q-provider--route-of-emacs url)))))
      (and found
           `((url . ,(cdr found))
             (set_by . ,(car found))
             (except . ,(or (cdr (agent-q-provider--route-variable "no_proxy")) "")))))))

(defun agent-q-provider--route-variable (name)
  "Return the environment variable NAME, in small or capital letters, or nil.
It is a cons of the name as it is written there and the value; one without a
value doesn't count."
  (seq-some (lambda (name)
              (let ((value (string-trim (or (getenv name) ""))))
                (and (not (string-empty-p value)) (cons name value))))
            (list name (upcase name))))

(defun agent-q-provider--route-of-environment (url)
  "Return the proxy for URL that the environment names, or nil.
It is a cons of the variable and the proxy."
  (or (agent-q-provider--route-variable (concat (url-type url) "_proxy"))
      (agent-q-provider--route-variable "all_proxy")))

(defun agent-q-provider--route-excepted-p (url)
  "Whether `url-proxy-services' excepts the host of URL."
  (let ((exceptions (cdr (assoc "no_proxy" (bound-and-true-p url-proxy-services))))
        (case-fold-search t))
    (and (stringp exceptions)
         (string-match-p exceptions (url-host url)))))

(defun agent-q-provider--route-of-emacs (url)
  "Return the proxy that `url-proxy-services' names for URL, or nil.
It is a cons of that name and the proxy."
  (when (bound-and-true-p url-proxy-services)
    (require 'url-proxy)
    (let ((proxy (url-find-proxy-for-url url (url-host url))))
      (and proxy
           ;; It takes no scheme there; some write one.
           (cons "url-proxy-services"
                 (replace-regexp-in-string "\\`http://\\([a-z0-9]+://\\)" "\\1" proxy))))))

;;;;; Certificates

(defun agent-q-provider--route-authorities ()
  "Return the files and folders of authorities that Emacs is told of."
  (let ((file (getenv "SSL_CERT_FILE"))
        (folders (getenv "SSL_CERT_DIR")))
    (seq-filter
     #'file-exists-p
     (delete-dups
      (mapcar #'expand-file-name
              (append (and file (list file))
                      (and folders (split-string folders path-separator t))
                      (and (require 'gnutls nil t)
                           (gnutls-trustfiles))))))))

;;;; Which model a chat talks to

;;;;; Options

;;;###autoload (put 'agent-q-provider 'risky-local-variable t)
(defcustom agent-q-provider nil
  "The provider of new chats.
nil means to choose: the first host of `agent-q-providers' with a key in
auth-source or the environment, else a model server on this machine.
A symbol names a host of `agent-q-providers'.  `local' means a server on
this machine only, and `none' means no model: the chat is a tool console.
A property list describes another host, by the properties of
`agent-q-providers' and :name, a string."
  :type '(choice (const :tag "Choose" nil)
                 (const :tag "A server on this machine" local)
                 (const :tag "No model" none)
                 (symbol :tag "One of agent-q-providers")
                 (plist :tag "Another host"))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-model 'risky-local-variable t)
(defcustom agent-q-model nil
  "The model of new chats; nil means the provider's default."
  :type '(choice (const :tag "The provider's default" nil) (string :tag "Model"))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-providers 'risky-local-variable t)
;;;###autoload
(defcustom agent-q-providers
  '((openai
     :base-url "https://api.openai.com/v1" :dialect responses
     :key-page "https://platform.openai.com/api-keys"
     :model "gpt-5.6-luna" :environment "OPENAI_API_KEY")
    (anthropic
     :base-url "https://api.anthropic.com/v1" :dialect messages
     :key-page "https://platform.claude.com/settings/keys"
     :model "claude-sonnet-5" :environment "ANTHROPIC_API_KEY")
    (openrouter
     :base-url "https://openrouter.ai/api/v1"
     :key-page "https://openrouter.ai/settings/keys"
     :model "openrouter/auto" :environment "OPENROUTER_API_KEY")
    (gemini
     :base-url "https://generativelanguage.googleapis.com/v1beta" :dialect gemini
     :key-page "https://aistudio.google.com/apikey"
     :model "gemini-flash-latest" :environment "GEMINI_API_KEY")
    (deepseek
     :base-url "https://api.deepseek.com"
     :key-page "https://platform.deepseek.com/api_keys"
     :model "deepseek-v4-flash" :environment "DEEPSEEK_API_KEY")
    (mistral
     :base-url "https://api.mistral.ai/v1"
     :key-page "https://console.mistral.ai/api-keys"
     :model "mistral-medium-latest" :environment "MISTRAL_API_KEY")
    (groq
     :base-url "https://api.groq.com/openai/v1"
     :key-page "https://console.groq.com/keys"
     :model "openai/gpt-oss-120b" :environment "GROQ_API_KEY")
    (xai
     :base-url "https://api.x.ai/v1"
     :key-page "https://console.x.ai"
     :model "grok-4.6" :environment "XAI_API_KEY")
    (together
     :base-url "https://api.together.xyz/v1"
     :key-page "https://api.together.ai/settings/api-keys"
     :model "openai/gpt-oss-120b" :environment "TOGETHER_API_KEY"))
  "Hosts of models, in the order in which they are tried.
Each element is (NAME . PROPERTIES):
:base-url     where the API is; what the dialect adds, such as
              /chat/completions, follows it
:dialect      the protocol: chat-completions, messages (Anthropic's),
              responses (OpenAI's), gemini or ollama; by default the own
              one at the hosts of Anthropic and Gemini, else
              chat-completions
:model        the default model
:effort       how hard the model thinks: none, minimal, low, medium, high,
              xhigh or max; by default that is left to the host
:environment  the environment variable that may hold the key
:key          the key, or a function that returns it; by default it is
              looked up in auth-source (machine = the API's host, login
              apikey, and port where there are several servers on it) and
              the environment
:key-page     the page where the host's keys come from
:login        the login in auth-source, where it isn't apikey, such as one
              of several accounts
:proxy        the proxy for this host alone, such as
              \"http://user:password@proxy.example.com:3128\" or
              \"socks5h://127.0.0.1:1080\"; nil means a direct connection.
              By default the environment (https_proxy, http_proxy,
              all_proxy, no_proxy) and `url-proxy-services' count
:ca-file      a file of certificates (PEM) to trust for this host alone: those
              of authorities, and the host's own if no authority signed it
:body         a property list of fields to add to every request
:first-body   fields to add to the first request of a turn only
:headers      a property list of headers to add
:models       what is different with some models: an alist from their names
              to property lists of :dialect, :effort, :body, :first-body and
              :headers, as above, and of facts that are known better here:
              :window, :input and :output, limits in tokens; :tools,
              :thinking and :vision, t or nil; :prices, a list of US dollars
              for a million tokens of input, output, input out of the
              provider's cache, and input into it

So an OpenAI-compatible server is three lines:
  (office
   :base-url \"http://gpu.example.com:8000/v1\"
   :model \"Qwen/Qwen3-32B\")"
  :type '(alist :key-type (symbol :tag "Name")
                :value-type (plist :options ((:base-url string)
                                             (:dialect (choice (const chat-completions)
                                                               (const messages)
                                                               (const responses)
                                                               (const gemini)
                                                               (const ollama)))
                                             (:model string)
                                             (:effort (choice (const none)
                                                              (const minimal)
                                                              (const low)
                                                              (const medium)
                                                              (const high)
                                                              (const xhigh)
                                                              (const max)))
                                             (:environment string)
                                             (:key (choice string function))
                                             (:key-page string)
                                             (:login string)
                                             (:proxy (choice (const :tag "None" nil) string))
                                             (:ca-file file)
                                             (:body plist)
                                             (:first-body plist)
                                             (:headers plist)
                                             (:models (alist :key-type (string :tag "Model")
                                                             :value-type plist)))))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-effort nil
  "Reasoning effort of models whose provider has none of its own.
nil leaves that to the host.  \\[agent-q-set-effort] in a chat is for that
chat."
  :type '(choice (const :tag "As the host does" nil)
                 (const none) (const minimal) (const low) (const medium)
                 (const high) (const xhigh) (const max))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-provider-recordings 'risky-local-variable t)
(defcustom agent-q-provider-recordings nil
  "Folder in which exchanges with model servers are recorded, or nil for none.
Each request and its answer become a file, for a bug report that anyone can
run: CONTRIBUTING.md says how.  Keys are not in them, but all that you and the
model said is, with what tools told the model.  Open chats pick up a change
when you next choose their model."
  :type '(choice (const :tag "Don't record" nil) directory)
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-provider-scripted-url "http://scripted.invalid"
  "The address of the provider whose model says what a script has: none.")

(defvar agent-q-provider-scripted nil
  "The provider of the tour once that has begun, or nil.
Only the tour's chat uses it.")

;;;;; Providers as the core takes them

(defun agent-q-provider-make (name properties &optional model key)
  "Return the provider called NAME that PROPERTIES describe.
MODEL and KEY are what to use instead of what PROPERTIES say."
  (agent-q-provider-form-check name properties)
  (unless (stringp name)
    (user-error "A provider can't be used: its :name is not a string"))
  (unless (or (null key) (stringp key))
    (user-error "The provider %s can't be used: its key is not a string" name))
  (let* ((url (plist-get properties :base-url))
         (model (or model (plist-get properties :model) ""))
         (own (agent-q-provider-of-model properties model))
         (facts (agent-q-model-facts-json (agent-q-model-facts-of url model own)))
         (property (lambda (name)
                     (plist-get (if (plist-member own name) own properties) name))))
    `((name . ,name)
      (base_url . ,url)
      (model . ,model)
      ,@(cl-loop for (key . symbol)
                 in `((dialect . ,(funcall property :dialect))
                      (effort . ,(or (funcall property :effort) agent-q-effort)))
                 when symbol collect (cons key (symbol-name symbol)))
      (key . ,(or key :null))
      (body . ,(funcall property :body))
      (first_body . ,(funcall property :first-body))
      (headers . ,(funcall property :headers))
      (route . ,(agent-q-provider-route name properties))
      ,@(and facts `((facts . ,facts)))
      ,@(and agent-q-provider-recordings
             `((recordings . ,(expand-file-name agent-q-provider-recordings)))))))

(defun agent-q-provider-with-effort (provider effort)
  "Return PROVIDER, an alist or nil, with a model that thinks with EFFORT.
That is one of `agent-q-provider-form-efforts'."
  (and provider
       (cons (cons 'effort (symbol-name effort)) (assq-delete-all 'effort (copy-alist provider)))))

(defun agent-q-provider--properties (provider)
  "Return the properties of PROVIDER, an alist, or nil where no option has it."
  (let ((url (alist-get 'base_url provider))
        (name (alist-get 'name provider))
        (hosts (append (and (consp agent-q-provider)
                            (list (cons (agent-q-provider-name agent-q-provider)
                                        agent-q-provider)))
                       agent-q-providers)))
    (cl-flet ((find (test) (cl-some (pcase-lambda (`(,host . ,properties))
                                      (and (equal url (plist-get properties :base-url))
                                           (funcall test host)
                                           properties))
                                    hosts)))
      ;; Some hosts are there twice, with different ways to them.
      (or (find (lambda (host) (equal name (format "%s" host))))
          (find #'always)))))

(defun agent-q-provider-route-now (provider)
  "Return the way to the host of PROVIDER, an alist, as it is set now."
  (let ((properties (or (agent-q-provider--properties provider)
                        (list :base-url (alist-get 'base_url provider)))))
    (agent-q-provider-route (alist-get 'name provider) properties)))

(defun agent-q-provider--facts (provider)
  "Return what is known now of the model of PROVIDER, an alist."
  (let ((model (alist-get 'model provider)))
    (agent-q-model-facts-of
     (alist-get 'base_url provider) model
     (agent-q-provider-of-model (agent-q-provider--properties provider) model))))

(defun agent-q-provider-prices-date (provider)
  "Return of when the prices of the model of PROVIDER are, or nil.
That is unknown of those that the user has set."
  (and provider
       (not (plist-member (agent-q-provider-of-model (agent-q-provider--properties provider)
                                                     (alist-get 'model provider))
                          :prices))
       (plist-get (agent-q-provider--facts provider) :prices)
       (agent-q-model-facts-date)))

(defun agent-q-provider-thinks-p (provider)
  "Return nil if the model of PROVIDER, an alist, is known not to think."
  (let ((facts (agent-q-provider--facts provider)))
    (or (plist-get facts :thinking)
        (not (plist-member facts :thinking)))))

(defun agent-q-provider-blind-p (provider)
  "Whether the model of PROVIDER, which may be nil, is known to take no pictures."
  (when provider
    (let ((facts (agent-q-provider--facts provider)))
      (and (plist-member facts :vision) (not (plist-get facts :vision))))))

(defun agent-q-provider-of-model (properties model)
  "Return what PROPERTIES, those of a provider, say of MODEL in particular."
  (cdr (assoc model (plist-get properties :models))))

(defun agent-q-provider-public (provider)
  "Return the public part of PROVIDER: its name, address and model.
Key, headers and fields of the body can hold secrets."
  (seq-filter (lambda (property) (memq (car property) '(name base_url model)))
              provider))

(defun agent-q-provider-again (public)
  "Return the provider that PUBLIC is left of, with its key looked up again.
PUBLIC is what `agent-q-provider-public' returned; nil for no model."
  (when public
    (let* ((name (alist-get 'name public))
           (url (alist-get 'base_url public))
           (model (alist-get 'model public))
           (named (agent-q-provider-named name model)))
      (cond ((agent-q-provider-scripted-p public) agent-q-provider-scripted)
            ((equal url (alist-get 'base_url named)) named)
            (t (agent-q-provider--here name url model))))))

(defun agent-q-provider-of-research (public)
  "Return the provider that `agent-q-research-model' names, or nil for the chat's.
PUBLIC is what `agent-q-provider-public' returned for that."
  (pcase agent-q-research-model
    ('nil nil)
    ((and model (pred stringp))
     (agent-q-provider-again (and public `((model . ,model) ,@(assq-delete-all 'model (copy-alist public))))))
    (`(,(and host (pred symbolp)) ,(and model (pred stringp)))
     (or (agent-q-provider-named (symbol-name host) model)
         (user-error "`agent-q-research-model' names %s, which has no key or is not in `agent-q-providers'"
                     host)))
    (_ (user-error "`agent-q-research-model' is %S; write a model, or a list of a host and a model"
                   agent-q-research-model))))

(defun agent-q-provider-scripted-p (provider)
  "Return non-nil if PROVIDER is that of the tour."
  (equal (alist-get 'base_url provider) agent-q-provider-scripted-url))

(defun agent-q-provider-label (provider)
  "Return a short text about PROVIDER for the user; nil means no model."
  (cond ((null provider) "no model")
        (t (format "%s (%s)" (alist-get 'model provider) (alist-get 'name provider)))))

;;;;; Keys

;; For those who mask them in what is shown.
(defun agent-q-provider-secrets (&optional thoroughly)
  "Return the keys and headers of all providers: strings that must not be shown.
No function is called for one.  THOROUGHLY means those in auth-source, too,
as far as reading it asks for no passphrase."
  (let ((quiet (and thoroughly (seq-remove #'agent-q-provider-key-asking-source-p auth-sources)))
        (found nil))
    (dolist (properties (append (mapcar #'cdr agent-q-providers)
                                (and (consp agent-q-provider) (list agent-q-provider))))
      (push (plist-get properties :key) found)
      (push (agent-q-provider--key-of-session properties) found)
      (push (agent-q-provider-key-of-environment properties) found)
      (push (agent-q-provider-key-of-auth-source properties quiet) found)
      (let ((headers (plist-get properties :headers)))
        (when (agent-q-provider-form-strings-p headers)
          (setq found (append (cl-loop for (_ text) on headers by #'cddr collect text) found)))))
    (seq-filter #'stringp found)))

(defun agent-q-provider-secret-in-p (text secrets)
  "Whether one of SECRETS, as of `agent-q-provider-secrets', is in TEXT."
  (seq-some (lambda (secret)
              (and (not (string-empty-p secret)) (string-search secret text)))
            secrets))

(defun agent-q-provider-environment ()
  "Return `process-environment' as programs of others may have it.
Each variable is there once, as it counts.  No key of a provider is in it, and
nothing that JSON can't hold."
  (let ((secrets (agent-q-provider-secrets)) (seen (make-hash-table :test #'equal)))
    (seq-filter (lambda (setting)
                  (let ((name (car (split-string setting "="))))
                    (unless (gethash name seen)
                      (puthash name t seen)
                      (not (or (string-match-p "[\x3fff80-\x3fffff]" setting)
                               (agent-q-provider-secret-in-p setting secrets))))))
                process-environment)))

(defun agent-q-provider--with-key ()
  "Return the first provider of `agent-q-providers' that has a key, or nil."
  (seq-some
   (lambda (finder)
     (seq-some (pcase-lambda (`(,name . ,properties))
                 (let ((key (funcall (cdr finder) properties)))
                   (and key (agent-q-provider-make (symbol-name name) properties
                                                    agent-q-model key))))
               agent-q-providers))
   (agent-q-provider-key-finders)))

;;;;; Servers on this machine

(defun agent-q-provider-discover (callback)
  "Look for model servers on this machine; call CALLBACK with their list.
It is called once, from the core's event.  Each server is a property list
with :name, :base-url and :models."
  (agent-q-events-ensure)
  (let (once)
    (setq once (lambda (event)
                 (agent-q-events-unsubscribe :discovered once)
                 (let ((servers (plist-get event :servers)))
                   (dolist (server servers)
                     (agent-q-provider-note-limits (plist-get server :base-url) server))
                   (funcall callback servers))))
    (agent-q-events-subscribe :discovered once)
    (condition-case failure
        (agent-q-core-discover)
      (error
       (agent-q-events-unsubscribe :discovered once)
       (signal (car failure) (cdr failure))))))

(defun agent-q-provider-chat-models (server)
  "Return the models of SERVER that can chat."
  (seq-remove (lambda (model) (string-match-p "embed" model))
              (plist-get server :models)))

(defun agent-q-provider--local (servers)
  "Return a provider on one of SERVERS, or nil.
They are as `agent-q-provider-discover' gives them.  The server that has
`agent-q-model' is preferred."
  (let* ((fitting (seq-filter #'agent-q-provider-chat-models servers))
         (wanted (seq-find (lambda (server)
                             (member agent-q-model (plist-get server :models)))
                           fitting))
         (server (or wanted (car fitting))))
    (and server
         (agent-q-provider-of-server
          server (if wanted agent-q-model (car (agent-q-provider-chat-models server)))))))

(defun agent-q-provider--here (name url model)
  "Return the provider NAME of MODEL on a server on this machine, at URL.
It costs nothing."
  (agent-q-provider-make name
                         (list :base-url url
                               :models (list (list model :prices agent-q-model-facts-free)))
                         model))

(defun agent-q-provider-of-server (server model)
  "Return a provider of MODEL on SERVER, one as it is discovered."
  (agent-q-provider--here (plist-get server :name) (plist-get server :base-url) model))

(defun agent-q-provider-note-limits (url event)
  "Note what the host at URL said in EVENT of the limits of its models."
  (dolist (limit (plist-get event :limits))
    (agent-q-model-facts-note url (plist-get limit :model)
                              (cl-loop for name in '(:window :output)
                                       for tokens = (plist-get limit name)
                                       when tokens append (list name tokens)))))

;;;;; Choosing

(defun agent-q-provider-name (properties)
  "Return the name of the provider that PROPERTIES, a property list, describe."
  (or (plist-get properties :name) (agent-q-provider-key-host properties)))

(defun agent-q-provider-of-setting (setting)
  "Return the provider that SETTING, a value of `agent-q-provider', describes."
  (let* ((properties (if (consp setting) setting (alist-get setting agent-q-providers)))
         (name (if (consp setting) (agent-q-provider-name setting)
                 (symbol-name setting)))
         (key (agent-q-provider-key-find properties)))
    (unless (or (consp setting) (assq setting agent-q-providers))
      (user-error "`agent-q-provider' is %s, which `agent-q-providers' doesn't have" setting))
    (unless (plist-get properties :base-url)
      (user-error "The provider %s can't be used: it has no :base-url" name))
    ;; A host that names no variable for its key needs none.
    (unless (or key (not (plist-get properties :environment)))
      (message "agent-q: no key for %s, neither in auth-source (machine %s login %s) nor in %s"
               name (agent-q-provider-key-host properties)
               (agent-q-provider-key-login properties) (plist-get properties :environment)))
    (agent-q-provider-make name properties agent-q-model key)))

(defun agent-q-provider-named (name model)
  "Return the provider called NAME, in any case, with MODEL, or nil.
It is `agent-q-provider' or one of `agent-q-providers', and it must have a
key unless it needs none."
  (let* ((same (lambda (other) (string= (downcase name) (downcase (format "%s" other)))))
         (setting (if (and (consp agent-q-provider)
                           (funcall same (agent-q-provider-name agent-q-provider)))
                      agent-q-provider
                    (car (seq-find (lambda (host) (funcall same (car host)))
                                   agent-q-providers))))
         (properties (if (consp setting) setting (alist-get setting agent-q-providers)))
         (agent-q-model model))
    (and setting
         (or (not (plist-get properties :environment))
             (agent-q-provider-key-find properties))
         (agent-q-provider-of-setting setting))))

(defun agent-q-provider-choose (callback)
  "Choose a provider for a new chat and call CALLBACK with it, or with nil.
CALLBACK runs before this returns, except where servers on this machine
are looked for; then it runs when they have answered."
  (cond ((eq agent-q-provider 'none) (funcall callback nil))
        ((memq agent-q-provider '(nil local))
         (let ((provider (and (null agent-q-provider) (agent-q-provider--with-key))))
           (if provider
               (funcall callback provider)
             (agent-q-provider-discover
              (lambda (servers)
                (funcall callback (agent-q-provider--local servers)))))))
        (t (funcall callback (agent-q-provider-of-setting agent-q-provider)))))

(defun agent-q-provider-advice ()
  "Return the advice for a user without a model."
  (concat "No model yet: M-x agent-q-set-key sets a key of a host, or finds Ollama, llama.cpp or"
          " LM Studio on this machine; M-x agent-q-doctor says more.  M-x agent-q-tutorial needs no model."))

;;;; The models that can be chosen

;; Asks hosts and the servers on this machine for their models, and has the user choose one, with what is
;; known of each beside it.

;;;;; The models of hosts

(defvar agent-q-provider--list-questions (make-hash-table)
  "Callbacks for the models that the core asks hosts for, by question.")

(defvar agent-q-provider--listed nil
  "What hosts listed, an alist from their base URLs to lists of models.")

(defun agent-q-provider-models (event)
  "Hand the models in EVENT to whom they are for."
  (let ((function (gethash (plist-get event :question) agent-q-provider--list-questions)))
    (remhash (plist-get event :question) agent-q-provider--list-questions)
    (when function
      (funcall function event))))

(agent-q-events-subscribe :models #'agent-q-provider-models)

(defun agent-q-provider-list-ask (provider callback)
  "Ask the host of PROVIDER, an alist, for its models.
CALLBACK gets the event, with :models and :limits, or with :stage and
:problem."
  (agent-q-events-ensure)
  (puthash (agent-q-core-models (agent-q-json-serialize provider)) callback
           agent-q-provider--list-questions))

(defun agent-q-provider--list-ask-for-models (provider)
  "Have the host of PROVIDER asked for its models, for the next choice."
  (let ((url (alist-get 'base_url provider)))
    (agent-q-provider-list-ask
     provider
     (lambda (event)
       (when (plist-get event :models)
         (setf (alist-get url agent-q-provider--listed nil nil #'equal)
               (plist-get event :models))
         (agent-q-provider-note-limits url event))))))

(defun agent-q-provider--list-ask-hosts ()
  "Ask the hosts that have a key for their models, and wait for them a moment.
What comes later is there the next time."
  (agent-q-events-ensure)
  (let ((asked 0)
        (deadline (time-add nil 2)))
    (dolist (provider (append (agent-q-provider--list-hosts)
                              (and (consp agent-q-provider)
                                   (list (agent-q-provider-of-setting agent-q-provider)))))
      (unless (assoc (alist-get 'base_url provider) agent-q-provider--listed)
        (agent-q-provider--list-ask-for-models provider)
        (setq asked (1+ asked))))
    (unless (zerop asked)
      (while (and (> (hash-table-count agent-q-provider--list-questions) 0)
                  (time-less-p nil deadline))
        (accept-process-output nil 0.05)))))

(defun agent-q-provider--list-usable-p (properties)
  "Whether the host of PROPERTIES needs no key or has one that is found unasked."
  (or (not (plist-get properties :environment))
      (agent-q-provider-key-source properties)))

(defun agent-q-provider--list-hosts ()
  "Return the providers of `agent-q-providers' that need no key or have theirs.
A key counts that is found without asking."
  (delq nil
        (mapcar (pcase-lambda (`(,name . ,properties))
                  (and (agent-q-provider--list-usable-p properties)
                       (agent-q-provider-make (symbol-name name) properties nil
                                               (agent-q-provider-key-find properties))))
                agent-q-providers)))

(defun agent-q-provider--list-models-of (properties)
  "Return the models of the host of PROPERTIES, its default first.
What the host does not list is taken from what is known of it."
  (let ((own (plist-get properties :model))
        (url (plist-get properties :base-url)))
    (delete-dups
     (append (and own (list own))
             (mapcar #'car (plist-get properties :models))
             (or (cdr (assoc url agent-q-provider--listed))
                 (agent-q-model-facts-models url))))))

;;;;; Switching

(defun agent-q-provider--list-discover-now ()
  "Return the model servers on this machine, waiting for them a moment."
  (let ((servers 'none-yet)
        (deadline (time-add nil 2)))
    (agent-q-provider-discover (lambda (found) (setq servers found)))
    (while (and (eq servers 'none-yet) (time-less-p nil deadline))
      (accept-process-output nil 0.05))
    (if (eq servers 'none-yet) nil servers)))

(defun agent-q-provider--list-candidate (name model properties)
  "Return the text of the choice of MODEL at the provider NAME of PROPERTIES.
Its property `agent-q-facts' is what is known of the model."
  (propertize (format "%s: %s" name model)
              'agent-q-facts
              (agent-q-model-facts-of (plist-get properties :base-url) model
                                      ;; A server's :models are only names.
                                      (and (consp (car (plist-get properties :models)))
                                           (agent-q-provider-of-model properties model)))))

(defun agent-q-provider-read (candidates)
  "Read one of CANDIDATES, from `agent-q-provider-candidates'.
Beside each stands what is known of its model."
  (let ((width (apply #'max (mapcar (lambda (candidate) (length (car candidate))) candidates)))
        ;; A model's name stands behind its host's.
        (completion-styles (append completion-styles '(substring))))
    (completing-read
     (format "Model (%s): " (caar candidates))
     (lambda (text predicate action)
       (if (eq action 'metadata)
           `(metadata
             (category . agent-q-model)
             ;; As they are: a host's default comes first.
             (display-sort-function . identity)
             (annotation-function
              . ,(lambda (choice)
                   (let ((summary (agent-q-model-facts-summary
                                   (get-text-property 0 'agent-q-facts
                                                      (or (car (assoc choice candidates)) " ")))))
                     (unless (string-empty-p summary)
                       (concat (make-string (max 2 (- (+ 2 width) (length choice))) ?\s)
                               summary))))))
         (complete-with-action action candidates text predicate)))
     ;; Hosts have models that they don't list, but more often it is a slip.
     nil 'confirm nil nil (caar candidates))))

(defun agent-q-provider-candidates ()
  "Return what the user can choose from, as an alist from text to function.
The function makes the provider, of the model that it is given or, for nil,
of the candidate's own."
  (let ((candidates nil))
    (agent-q-provider--list-ask-hosts)
    (pcase-dolist (`(,name . ,properties) agent-q-providers)
      (when (agent-q-provider--list-usable-p properties)
        (dolist (own (agent-q-provider--list-models-of properties))
          (push (cons (agent-q-provider--list-candidate name own properties)
                      (lambda (model)
                        (agent-q-provider-make (symbol-name name) properties (or model own)
                                                (agent-q-provider-key-find properties))))
                candidates))))
    (dolist (server (agent-q-provider--list-discover-now))
      (dolist (own (agent-q-provider-chat-models server))
        (push (cons (agent-q-provider--list-candidate (plist-get server :name) own server)
                    (lambda (model)
                      (agent-q-provider-of-server server (or model own))))
              candidates)))
    (when (consp agent-q-provider)
      (dolist (own (agent-q-provider--list-models-of agent-q-provider))
        (push (cons (agent-q-provider--list-candidate (agent-q-provider-name agent-q-provider) own
                                                 agent-q-provider)
                    (lambda (model)
                      (let ((agent-q-model (or model own)))
                        (agent-q-provider-of-setting agent-q-provider))))
              candidates)))
    (nreverse candidates)))

(defun agent-q-provider-chosen (choice candidates)
  "Return the provider for CHOICE, the text PROVIDER: MODEL, from CANDIDATES.
The model may be one that CANDIDATES don't list."
  (let* ((exact (assoc choice candidates))
         (colon (string-match ": *" choice))
         (model (and colon (substring choice (match-end 0))))
         (like (and colon
                    (seq-find (lambda (candidate)
                                (string-prefix-p (concat (substring choice 0 colon) ":")
                                                 (car candidate)))
                              candidates))))
    (cond (exact (funcall (cdr exact) nil))
          ((and like model (not (string-empty-p model))) (funcall (cdr like) model))
          (t (user-error "No provider \"%s\"; type it as PROVIDER: MODEL" choice)))))

(provide 'agent-q-provider)
;;; agent-q-provider.el ends here
