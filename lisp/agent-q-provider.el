;;; agent-q-provider.el --- Which model a chat talks to  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Chooses a provider: what the user set, else a host whose key is in auth-source or the
;; environment, else a model server on this machine, else the demo model if it runs.
;;
;; A provider is an alist that `json-serialize' turns into the core's `provider' setting; it holds
;; the key, so it goes straight to the core and is neither kept nor printed.  Chats keep what
;; `agent-q-provider-public' leaves of it.

;;; Code:

(require 'agent-q-events)
(require 'cl-lib)
(require 'seq)
(require 'agent-q-facts)
(require 'agent-q-json)
(require 'agent-q-provider-form)
(require 'agent-q-provider-key)
(require 'agent-q-provider-route)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Options

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
     :model "gpt-5.6-luna" :environment "OPENAI_API_KEY")
    (anthropic
     :base-url "https://api.anthropic.com/v1" :dialect messages
     :model "claude-sonnet-5" :environment "ANTHROPIC_API_KEY")
    (openrouter
     :base-url "https://openrouter.ai/api/v1"
     :model "openrouter/auto" :environment "OPENROUTER_API_KEY")
    (gemini
     :base-url "https://generativelanguage.googleapis.com/v1beta" :dialect gemini
     :model "gemini-flash-latest" :environment "GEMINI_API_KEY")
    (deepseek
     :base-url "https://api.deepseek.com"
     :model "deepseek-v4-flash" :environment "DEEPSEEK_API_KEY")
    (mistral
     :base-url "https://api.mistral.ai/v1"
     :model "mistral-medium-latest" :environment "MISTRAL_API_KEY")
    (groq
     :base-url "https://api.groq.com/openai/v1"
     :model "openai/gpt-oss-120b" :environment "GROQ_API_KEY")
    (xai
     :base-url "https://api.x.ai/v1"
     :model "grok-4.6" :environment "XAI_API_KEY")
    (together
     :base-url "https://api.together.xyz/v1"
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
nil leaves that to the host.  \\[agent-q-set-effort] in a chat is for that chat."
  :type '(choice (const :tag "As the host does" nil)
                 (const none) (const minimal) (const low) (const medium)
                 (const high) (const xhigh) (const max))
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-recordings 'risky-local-variable t)
(defcustom agent-q-recordings nil
  "Folder in which exchanges with model servers are recorded, or nil for none.
Each request and its answer become a file, for a bug report that anyone can
run: CONTRIBUTING.md says how.  Keys are not in them, but all that you and the
model said is, with what tools told the model.  Open chats pick up a change
when you next choose their model."
  :type '(choice (const :tag "Don't record" nil) directory)
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-provider-demo-name "demo model"
  "Name of the provider that is only a demo of the path, not of answers.")

(defvar agent-q-provider-demo nil
  "The provider of the demo model while its server runs, or nil.")

;;;; Providers as the core takes them

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
         (facts (agent-q-facts-json (agent-q-facts-of url model own)))
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
      ,@(and agent-q-recordings
             `((recordings . ,(expand-file-name agent-q-recordings)))))))

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

(defun agent-q-provider-thinks-p (provider)
  "Return nil if the model of PROVIDER, an alist, is known not to think."
  (let* ((model (alist-get 'model provider))
         (properties (agent-q-provider--properties provider))
         (facts (agent-q-facts-of (alist-get 'base_url provider) model
                                  (agent-q-provider-of-model properties model))))
    (or (plist-get facts :thinking)
        (not (plist-member facts :thinking)))))

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
      (cond ((agent-q-provider-demo-p public) agent-q-provider-demo)
            ((equal url (alist-get 'base_url named)) named)
            ;; A server on this machine.
            (t (agent-q-provider-make name (list :base-url url) model))))))

(defun agent-q-provider-demo-p (provider)
  "Return non-nil if PROVIDER is the demo model."
  (equal (alist-get 'name provider) agent-q-provider-demo-name))

(defun agent-q-provider-label (provider)
  "Return a short text about PROVIDER for the user; nil means no model."
  (cond ((null provider) "no model")
        ((agent-q-provider-demo-p provider)
         (format "%s (demo model)" (alist-get 'model provider)))
        (t (format "%s (%s)" (alist-get 'model provider) (alist-get 'name provider)))))

;;;; Keys

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
      (push (agent-q-provider-key-of-environment properties) found)
      (push (agent-q-provider-key-of-auth-source properties quiet) found)
      (let ((headers (plist-get properties :headers)))
        (when (agent-q-provider-form-strings-p headers)
          (setq found (append (cl-loop for (_ text) on headers by #'cddr collect text) found)))))
    (seq-filter #'stringp found)))

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

;;;; Servers on this machine

(defun agent-q-provider-discover (callback)
  "Look for model servers on this machine; call CALLBACK with their list.
It is called once, from the core's event.  Each server is a property list
with :name, :base-url and :models."
  (agent-q-events-ensure)
  (let (once)
    (setq once (lambda (servers)
                 (remove-hook 'agent-q-events-discovered-functions once)
                 (dolist (server servers)
                   (agent-q-provider-note-limits (plist-get server :base-url) server))
                 (funcall callback servers)))
    (add-hook 'agent-q-events-discovered-functions once)
    (condition-case failure
        (agent-q-core-discover)
      (error
       (remove-hook 'agent-q-events-discovered-functions once)
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

(defun agent-q-provider-of-server (server model)
  "Return a provider of MODEL on SERVER, one as it is discovered."
  (agent-q-provider-make (plist-get server :name)
                          (list :base-url (plist-get server :base-url)) model))

(defun agent-q-provider-note-limits (url event)
  "Note what the host at URL said in EVENT of the limits of its models."
  (dolist (limit (plist-get event :limits))
    (agent-q-facts-note url (plist-get limit :model)
                        (cl-loop for name in '(:window :output)
                                 for tokens = (plist-get limit name)
                                 when tokens append (list name tokens)))))

;;;; Choosing

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
                (funcall callback (or (agent-q-provider--local servers)
                                      agent-q-provider-demo)))))))
        (t (funcall callback (agent-q-provider-of-setting agent-q-provider)))))

(defun agent-q-provider-advice ()
  "Return the advice for a user without a model."
  (concat "No model yet: put a key into auth-source (machine api.openai.com login apikey"
          " password …) or the environment (OPENAI_API_KEY), start Ollama, llama.cpp or"
          " LM Studio, or try M-x agent-q-demo-model; M-x agent-q-doctor says more."))

(provide 'agent-q-provider)
;;; agent-q-provider.el ends here
