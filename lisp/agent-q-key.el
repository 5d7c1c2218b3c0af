;;; agent-q-key.el --- Setting the key of a host  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; `agent-q-set-key' shows a page of hosts: what a day costs there, whether a key is set, and the
;; servers on this machine, which need none.  It reads a key, tries it by a request that costs
;; nothing, stores it in auth-source (`agent-q-key-file.el'), and has chats use the host.  Nothing
;; waits for the host: what it says comes to the page, where the user goes on.
;;
;; The key is in a function while the page waits, never in a text that is shown or logged.

;;; Code:

(require 'agent-q-key-file)
(require 'agent-q-model-facts)
(require 'agent-q-provider)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; The page

(defconst agent-q-key--buffer "*agent-q key*"
  "Name of the page.")

(defvar-local agent-q-key--servers 'unknown
  "The model servers on this machine; `unknown' until they have answered.")

(defvar-local agent-q-key--host nil
  "The host that is chosen, an element of `agent-q-providers', or nil.")

(defvar-local agent-q-key--secret nil
  "A function that returns the key that is being tried, or nil.")

(defvar-local agent-q-key--trial nil
  "What is unique to the trial whose outcome is awaited, or nil.")

(defvar-local agent-q-key--said nil
  "What the page says of the chosen host or key: (FACE . SENTENCE), or nil.")

(defvar-local agent-q-key--offers nil
  "What can be done now: a list of (LABEL . FUNCTION).")

(defvar-local agent-q-key--listed nil
  "The models that the host listed for the key.")

(defvar agent-q-key-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'forward-button)
    (define-key map "n" #'forward-button)
    (define-key map [backtab] #'backward-button)
    (define-key map "p" #'backward-button)
    map)
  "Keymap of `agent-q-key-mode'.")

(define-derived-mode agent-q-key-mode special-mode "agent-q key"
  "Major mode of the page where the key of a host is set.
\\{agent-q-key-mode-map}"
  (setq-local word-wrap t
              truncate-lines nil
              revert-buffer-function (lambda (&rest _) (agent-q-key--begin)))
  (add-hook 'kill-buffer-hook #'agent-q-key--forget nil t))

(defun agent-q-key--forget ()
  "Forget the key that was being tried."
  (setq agent-q-key--secret nil
        agent-q-key--trial nil
        agent-q-key--listed nil))

(defun agent-q-key--begin ()
  "Show all hosts, and look for servers on this machine again."
  (agent-q-key--forget)
  (setq agent-q-key--host nil
        agent-q-key--said nil
        agent-q-key--offers nil
        agent-q-key--servers 'unknown)
  (agent-q-key--draw)
  (let ((buffer (current-buffer)))
    (condition-case failure
        (agent-q-provider-discover
         (lambda (servers)
           (when (buffer-live-p buffer)
             (with-current-buffer buffer
               (setq agent-q-key--servers
                     (seq-filter #'agent-q-provider-chat-models servers))
               (unless agent-q-key--host
                 (agent-q-key--draw))))))
      (error
       (setq agent-q-key--servers nil
             agent-q-key--said (cons 'agent-q-failure (error-message-string failure)))
       (agent-q-key--draw)))))

(defun agent-q-key--button (label function)
  "Insert LABEL as a button for FUNCTION."
  (insert-text-button label 'follow-link t 'action (lambda (_button) (funcall function))))

(defun agent-q-key--draw ()
  "Write the page again.
Point goes to the first button, or stays in the line where it was on the list
of hosts."
  (let ((inhibit-read-only t)
        (line (and (null agent-q-key--host) (> (buffer-size) 0) (line-number-at-pos))))
    (erase-buffer)
    (if agent-q-key--host
        (agent-q-key--draw-host)
      (agent-q-key--draw-hosts))
    (goto-char (point-min))
    (if (and line (> line 1))
        (forward-line (1- line))
      (ignore-errors (forward-button 1)))
    (dolist (window (get-buffer-window-list nil nil t))
      (set-window-point window (point)))))

;;;; The list of hosts

(defconst agent-q-key--day '(20 14000 1000)
  "What a day is: turns, and the tokens that each of them reads and writes.")

(defun agent-q-key--cost (url model &optional own)
  "Return what a day with MODEL at URL costs, as text, or nil if no price is known.
OWN is what the provider says of the model.  What a host's cache saves is
left out."
  (pcase-let ((`(,turns ,in ,out) agent-q-key--day)
              (`(,input ,output . ,_) (plist-get (agent-q-model-facts-of url model own) :prices)))
    (and input output
         (let ((dollars (* turns (/ (+ (* in input) (* out output)) 1e6))))
           (if (zerop dollars) "free" (format "$%.2f" dollars))))))

(defun agent-q-key--draw-hosts ()
  "Insert the list of hosts, and of servers on this machine."
  (insert (propertize "A key for a host of models\n" 'font-lock-face 'bold)
          (format "Hosts charge for what you send and get.  A day is 20 turns of 15,000 tokens,\n\
1,000 of them written by the model; its cost is by the prices of %s.\n\n"
                  (or (agent-q-model-facts-date) "no date"))
          (propertize (format "%-13s%-22s%-7s%s\n" "Host" "Model" "A day" "Where keys come from")
                      'font-lock-face 'agent-q-dim))
  (pcase-dolist (`(,name . ,properties) agent-q-providers)
    (when (plist-get properties :environment)
      (agent-q-key--draw-row
       (symbol-name name) (plist-get properties :model)
       (let ((model (or (plist-get properties :model) "")))
         (agent-q-key--cost (plist-get properties :base-url) model
                            (agent-q-provider-of-model properties model)))
       (let ((source (ignore-errors (agent-q-provider-key-source properties))))
         (if source (format "key set, in %s" source)
           (replace-regexp-in-string "\\`https://" "" (or (plist-get properties :key-page) ""))))
       (lambda () (agent-q-key--choose (cons name properties))))))
  (insert "\n" (propertize "On this machine, without a key\n" 'font-lock-face 'bold))
  (cond ((eq agent-q-key--servers 'unknown) (insert "looking...\n"))
        ((null agent-q-key--servers)
         (insert "none found; Ollama, llama.cpp and LM Studio are looked for\n"))
        (t (dolist (server agent-q-key--servers)
             (agent-q-key--draw-row
              (plist-get server :name) (car (agent-q-provider-chat-models server)) "free"
              (plist-get server :base-url)
              (lambda () (agent-q-key--use-server server))))))
  (agent-q-key--draw-said)
  (insert "\n" (propertize (substitute-command-keys
                            "\\<agent-q-key-mode-map>RET chooses, TAB goes to the next, \
\\[revert-buffer] looks again, \\[quit-window] leaves.\n")
                           'font-lock-face 'agent-q-dim)))

(defun agent-q-key--draw-row (name model cost note function)
  "Insert a row: a button NAME for FUNCTION, MODEL, its COST a day, and NOTE."
  (agent-q-key--button (format "[%s]" name) function)
  (insert (make-string (max 1 (- 11 (length name))) ?\s)
          (string-pad (agent-q-text-visible-line (or model "") 21) 22)
          (string-pad (or cost "") 7) note "\n"))

(defun agent-q-key--draw-said ()
  "Insert what the page has to say, if anything."
  (when agent-q-key--said
    (insert "\n" (propertize (agent-q-text-visible-prose (cdr agent-q-key--said))
                             'font-lock-face (car agent-q-key--said))
            "\n")))

;;;; One host

(defun agent-q-key--draw-host ()
  "Insert what there is to say and to do about the chosen host."
  (pcase-let ((`(,name . ,properties) agent-q-key--host))
    (insert (propertize (format (if (plist-get properties :environment) "A key for %s\n" "%s\n") name)
                        'font-lock-face 'bold))
    (let ((source (ignore-errors (agent-q-provider-key-source properties)))
          (page (plist-get properties :key-page)))
      (when source
        (insert (format "A key is set, in %s.\n" source)))
      (when page
        (insert "Its keys come from " page "\n")))
    (agent-q-key--draw-said)
    (insert "\n")
    (pcase-dolist (`(,label . ,function) agent-q-key--offers)
      (agent-q-key--button (format "[%s]" label) function)
      (insert "\n"))
    (agent-q-key--button "[Other hosts]" #'agent-q-key--begin)
    (insert "\n")))

(defun agent-q-key--say (face sentence &rest buttons)
  "Show SENTENCE in FACE on the page, above BUTTONS.
Each of those is (LABEL . FUNCTION), or nil for none."
  (setq agent-q-key--said (cons face sentence)
        agent-q-key--offers (delq nil buttons))
  (agent-q-key--draw))

(defun agent-q-key--place ()
  "Return the name of the chosen host's machine."
  (agent-q-provider-key-host (cdr agent-q-key--host)))

(defun agent-q-key--choose (host)
  "Choose HOST, an element of `agent-q-providers', and ask for its key."
  (agent-q-key--forget)
  (setq agent-q-key--host host)
  (agent-q-provider-form-check (car host) (cdr host))
  (unless (agent-q-provider-key-host (cdr host))
    (user-error "The host %s has no :base-url" (car host)))
  (agent-q-key--say 'default "The key is read in the minibuffer; it is not shown."
                    (cons "Type a key" #'agent-q-key--ask)
                    (and (plist-get (cdr host) :key-page)
                         (cons "Open the page of its keys" #'agent-q-key--open-page)))
  (redisplay)
  (when (and (plist-get (cdr host) :key-page)
             (display-graphic-p)
             (y-or-n-p (format "Open %s? " (plist-get (cdr host) :key-page))))
    (agent-q-key--open-page))
  (agent-q-key--ask))

(defun agent-q-key--open-page ()
  "Open the page where the keys of the chosen host come from."
  (browse-url (plist-get (cdr agent-q-key--host) :key-page)))

;;;; Reading a key

(defconst agent-q-key--beginnings
  '(("sk-ant-" . anthropic) ("sk-or-" . openrouter) ("sk-proj-" . openai) ("AIza" . gemini)
    ("gsk_" . groq) ("xai-" . xai) ("tgp_" . together))
  "How the keys of some hosts begin.")

(defun agent-q-key--ask ()
  "Read a key for the chosen host and try it."
  (let ((key (agent-q-key--read (format "Key for %s (empty: not now): " (car agent-q-key--host)))))
    (cond ((null key)
           (agent-q-key--say 'default "No key was entered."
                             (cons "Type a key" #'agent-q-key--ask)))
          ((not (string-match-p "\\`[!#-&(-~]+\\'" key))
           (agent-q-key--say
            'agent-q-failure
            "This is not a key: it has spaces, quotes, or letters that keys don't have.  Copy the key alone."
            (cons "Type it again" #'agent-q-key--ask)))
          (t (agent-q-key--ask-whose key)
             (agent-q-key--try key)))))

(defun agent-q-key--read (prompt)
  "Read a key with PROMPT; return it without what was copied with it, or nil."
  (let ((key (unwind-protect
                 (read-passwd prompt)
               ;; What was typed is in the list of the latest keys otherwise.
               (clear-this-command-keys))))
    (setq key (agent-q-provider-key-clean key))
    (when key
      ;; Pasting puts a text there.
      (setq kill-ring (seq-remove (lambda (text) (string-search key text)) kill-ring)
            kill-ring-yank-pointer kill-ring))
    key))

(defun agent-q-key--ask-whose (key)
  "Ask which host KEY is for, if it begins as another host's keys do."
  (let* ((name (cdr (seq-find (lambda (beginning) (string-prefix-p (car beginning) key))
                              agent-q-key--beginnings)))
         (other (assq name agent-q-providers)))
    (when (and other (not (eq name (car agent-q-key--host)))
               (y-or-n-p (format "This looks like a key of %s, not of %s.  Set it for %s? "
                                 name (car agent-q-key--host) name)))
      (setq agent-q-key--host other))))

;;;; Trying it

(defun agent-q-key--try (key)
  "Ask the chosen host for its models with KEY, which costs nothing."
  (setq agent-q-key--secret (lambda () key)
        agent-q-key--listed nil)
  (agent-q-key--say 'default (format "Trying the key at %s..." (agent-q-key--place)))
  (condition-case failure
      (agent-q-key--question
       key
       (lambda (event)
         (if (plist-get event :models)
             (agent-q-key--try-none event)
           (agent-q-key--tried event))))
    (error (agent-q-key--untried (error-message-string failure)))))

(defun agent-q-key--question (key function)
  "Ask the chosen host for its models with KEY; FUNCTION gets the event.
It is called on the page, unless that is about something else by then."
  (let ((buffer (current-buffer))
        (trial (setq agent-q-key--trial (list nil))))
    (agent-q-provider-list-ask
     (agent-q-provider-make (format "%s" (car agent-q-key--host)) (cdr agent-q-key--host) nil key)
     (lambda (event)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (when (eq trial agent-q-key--trial)
             (funcall function event))))))))

(defun agent-q-key--try-none (found)
  "See whether the host lists its models to anyone, after it did so in FOUND."
  (agent-q-key--question
   "not-a-key"
   (lambda (event)
     (setq agent-q-key--trial nil
           agent-q-key--listed (plist-get found :models))
     (let ((count (length agent-q-key--listed)))
       (if (plist-get event :models)
           (agent-q-key--unclear (format "%s lists its models with any key, so the key can't be \
tried by a request that costs nothing; the first message will tell."
                                         (agent-q-key--place)))
         (agent-q-provider-note-limits (plist-get (cdr agent-q-key--host) :base-url) found)
         (agent-q-key--offer-storing
          'success (format (ngettext "The key works: %s lists %d model."
                                     "The key works: %s lists %d models." count)
                           (agent-q-key--place) count)))))))

(defun agent-q-key--tried (event)
  "Say how the trial ended, which is in EVENT."
  (setq agent-q-key--trial nil)
  (let ((place (agent-q-key--place))
        (status (plist-get event :status))
        (words (let ((problem (or (plist-get event :problem) "")))
                 (and (string-match "It says: \\(.*\\)" problem)
                      (concat "  It says: " (match-string 1 problem))))))
    (pcase status
      ('nil (agent-q-key--untried
             (if (plist-member event :models)
                 (format "%s lists no models for this key." place)
               (or (plist-get event :problem) "The host gave no answer."))))
      (401 (agent-q-key--say
            'agent-q-failure
            (format "%s refuses this key.  Copy it again, all of it, or make a new one.%s"
                    place (or words ""))
            (cons "Type another key" #'agent-q-key--ask)
            (cons "Store it anyway" #'agent-q-key--store-anyway)))
      (403 (agent-q-key--unclear
            (format "%s does not allow this key to list models (403).  It may lack a permission, or \
the account or place may not use the host.%s"
                    place (or words ""))))
      ((or 402 429)
       (agent-q-key--offer-storing
        'agent-q-attention
        (format "The key is good, but its account is out of credit or limited now (%d).%s"
                status (or words ""))))
      ((or 200 404 405)
       (agent-q-key--unclear
        (format "%s lists no models, so the key can't be tried by a request that costs nothing; \
the first message will tell."
                place)))
      (_ (agent-q-key--untried (or (plist-get event :problem) "The host had a problem."))))))

(defun agent-q-key--untried (problem)
  "Say that the key could not be tried because of PROBLEM, and what can be done."
  (setq agent-q-key--trial nil)
  (agent-q-key--say 'agent-q-failure (format "The key could not be tried.  %s" problem)
                    (cons "Try it again" (lambda () (agent-q-key--try (funcall agent-q-key--secret))))
                    (cons "Store it anyway" #'agent-q-key--store-anyway)
                    (cons "Type another key" #'agent-q-key--ask)))

(defun agent-q-key--unclear (sentence)
  "Say SENTENCE of a key about which nothing is known, and offer to store it."
  (setq agent-q-key--trial nil)
  (agent-q-key--offer-storing 'agent-q-attention sentence))

;;;; Storing it

(defun agent-q-key--store-anyway ()
  "Offer to store the key that did not work."
  (agent-q-key--offer-storing 'agent-q-attention "Where is the key stored?  It is not known to work."))

(defun agent-q-key--offer-storing (face sentence)
  "Say SENTENCE in FACE, and offer the places where the key can be stored."
  (let ((files (agent-q-key-file-choices (cdr agent-q-key--host))))
    (apply #'agent-q-key--say
           face
           (if files sentence
             (format "%s\nNo file of `auth-sources' can be written here.  To keep the key, put it there \
by hand: host %s, user %s."
                     sentence (agent-q-key--place)
                     (agent-q-provider-key-login (cdr agent-q-key--host))))
           (append (mapcar #'agent-q-key--offer-file files)
                   (list (cons "Use it in this session only" #'agent-q-key--keep)
                         (cons "Type another key" #'agent-q-key--ask))))))

(defun agent-q-key--offer-file (file)
  "Return the offer to store the key in FILE."
  (cons (format "Store it in %s, %s" (abbreviate-file-name file)
                (cond ((not (agent-q-key-file-encrypted-p file)) "as plain text")
                      ((file-exists-p file) "encrypted")
                      (t "encrypted with a passphrase that you choose")))
        (lambda () (agent-q-key--store file))))

(defun agent-q-key--store (file)
  "Store the key in FILE, and use its host."
  (let ((key (funcall agent-q-key--secret))
        (properties (cdr agent-q-key--host))
        (encrypted (agent-q-key-file-encrypted-p file)))
    (if-let ((problem (condition-case failure
                          (progn (agent-q-key-file-write file properties key) nil)
                        (quit "You quit.")
                        (error (error-message-string failure)))))
        (progn
          (agent-q-key--use)
          (agent-q-key--say
           'agent-q-failure
           (format "%s can't be written: %s\nThe key is used in this session only."
                   (abbreviate-file-name file) problem)
           (cons "Try to store it again" (lambda () (agent-q-key--store file)))))
      ;; An encrypted file would be asked for its passphrase by each chat.
      (agent-q-key--use (if encrypted 'asking 'stored))
      (agent-q-key--done
       (format (if encrypted "The key is in %s, encrypted."
                 "The key is in %s, as plain text that only you can read (mode 0600).")
               (abbreviate-file-name file))))))

(defun agent-q-key--keep ()
  "Use the key in this session only."
  (agent-q-key--use)
  (agent-q-key--done "The key is used in this session only."))

;;;; Using the host

(defun agent-q-key--use (&optional stored)
  "Make the chats of this Emacs use the chosen host, with the key.
STORED is `stored' if it is found in auth-source without asking."
  (pcase-let ((`(,name . ,properties) agent-q-key--host))
    (agent-q-provider-key-keep properties nil)
    (let ((key (funcall agent-q-key--secret)))
      ;; Another source may have another key, which goes before.
      (unless (and (eq stored 'stored)
                   (equal key (agent-q-provider-key-find-unasked properties)))
        (agent-q-provider-key-keep properties key)))
    (agent-q-key--use-setting (if (symbolp name) name agent-q-provider)
                              (agent-q-key--model properties)
                              (plist-get properties :base-url))))

(defun agent-q-key--model (properties)
  "Return the model for new chats at the host of PROPERTIES; nil means its default."
  (let ((own (plist-get properties :model)))
    (if (or (null agent-q-key--listed)
            (seq-some (lambda (model) (and own (string-prefix-p own model))) agent-q-key--listed))
        nil
      (completing-read (format-prompt "This key has other models; which one" own)
                       agent-q-key--listed nil nil nil nil own))))

(defun agent-q-key--use-setting (setting model url)
  "Make SETTING and MODEL those of new chats.
Chats without a model get it, too, and those at URL get the new key."
  (setq agent-q-provider setting
        agent-q-model model)
  (dolist (chat (agent-q-session-chats))
    (with-current-buffer chat
      (condition-case failure
          (cond ((null agent-q-session-provider)
                 (agent-q-chat-use-provider (agent-q-provider-of-setting setting)))
                ((equal (alist-get 'base_url agent-q-session-provider) url)
                 (agent-q-chat-use-provider
                  (agent-q-provider-again agent-q-session-provider))))
        (error (message "agent-q: %s keeps its model: %s" (buffer-name)
                        (error-message-string failure)))))))

(defun agent-q-key--use-server (server)
  "Make chats use SERVER, one on this machine."
  (let* ((models (agent-q-provider-chat-models server))
         (model (if (cdr models)
                    (completing-read (format-prompt "Model" (car models)) models nil t nil nil
                                     (car models))
                  (car models)))
         (url (plist-get server :base-url)))
    (setq agent-q-key--host (cons (plist-get server :name) (list :base-url url :model model)))
    (agent-q-key--use-setting
     (list :name (plist-get server :name) :base-url url :model model
           :models (list (list model :prices agent-q-model-facts-free)))
     nil url)
    (agent-q-key--done (format "%s needs no key." (plist-get server :name)))))

(defun agent-q-key--done (sentence)
  "Say SENTENCE and which model chats have now, and offer to go on."
  (agent-q-key--forget)
  (let* ((model (or agent-q-model (plist-get (cdr agent-q-key--host) :model)))
         (text (format "%s\nNew chats of this Emacs talk to %s (%s), as do those that had no model."
                       sentence model (car agent-q-key--host))))
    (agent-q-key--say 'success text
                      (cons "Go to the chat" #'agent-q-key--go)
                      (cons "Keep this choice for later sessions" #'agent-q-key--save))))

(defun agent-q-key--go ()
  "Leave the page for a chat that has a model."
  (quit-window)
  (agent-q-chat))

(defun agent-q-key--save ()
  "Save the choice of provider and model as the user's own options."
  (condition-case failure
      (progn (customize-save-variable 'agent-q-provider agent-q-provider)
             (customize-save-variable 'agent-q-model agent-q-model)
             (agent-q-key--say 'success "The choice is saved."
                               (cons "Go to the chat" #'agent-q-key--go)))
    (error (agent-q-key--say 'agent-q-failure
                             (format "The choice is not saved: %s" (error-message-string failure))
                             (cons "Go to the chat" #'agent-q-key--go)))))

;;;###autoload
(defun agent-q-set-key (&optional name)
  "Set the key of a host of models, or choose a server on this machine.
A page shows the hosts of `agent-q-providers', what a day costs there, and
where a key is set.  The one that you enter is tried by a request that costs
nothing and stored in auth-source.  NAME is that of a host to begin with; in
Lisp, a string or a symbol."
  (interactive)
  ;; The list fills a small terminal.
  (pop-to-buffer-same-window (get-buffer-create agent-q-key--buffer))
  (unless (derived-mode-p 'agent-q-key-mode)
    (agent-q-key-mode))
  (agent-q-key--begin)
  (when-let ((host (and name (agent-q-key--named (format "%s" name)))))
    (agent-q-key--choose host)))

(defun agent-q-key--named (name)
  "Return the host called NAME, with its properties, or nil.
That is one of `agent-q-providers', or what `agent-q-provider' describes."
  (or (seq-find (lambda (host) (equal name (symbol-name (car host)))) agent-q-providers)
      (and (consp agent-q-provider)
           (equal name (agent-q-provider-name agent-q-provider))
           (cons name agent-q-provider))))

(provide 'agent-q-key)
;;; agent-q-key.el ends here
