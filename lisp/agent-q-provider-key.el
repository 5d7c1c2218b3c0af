;;; agent-q-provider-key.el --- Where the keys of providers are  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Looks for the key of a host: in the option, in auth-source, in the environment.  A key that is
;; found goes straight to the core; nothing here keeps or prints one.

;;; Code:

(require 'auth-source)
(require 'seq)
(require 'subr-x)
(require 'url-parse)

(defun agent-q-provider-key-host (properties)
  "Return the host of the API that PROPERTIES describe."
  (let ((url (plist-get properties :base-url)))
    (and (stringp url) (url-host (url-generic-parse-url url)))))

;;;; Keys

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

(defun agent-q-provider-key--ports (properties)
  "Return the port of the host of PROPERTIES, with its name where it has one."
  (let* ((url (url-generic-parse-url (plist-get properties :base-url)))
         (port (url-port url)))
    (cons (format "%s" port)
          (alist-get port '((443 "https") (80 "http"))))))

(defun agent-q-provider-key--entry (properties sources)
  "Return the entry of auth-source for the host of PROPERTIES in SOURCES, or nil.
One that names the host's port goes before one that names none; the keys of
the servers at other ports are not for this one."
  (let* ((auth-sources sources)
         (ports (agent-q-provider-key--ports properties))
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
        (let ((secret (plist-get (agent-q-provider-key--entry properties sources) :secret)))
          (agent-q-provider-key--clean (if (functionp secret) (funcall secret) secret)))
      (error
       ;; A source that is out of order must not keep the chat from opening.
       (message "agent-q: auth-source failed: %s" (error-message-string failure))
       nil))))

(defconst agent-q-provider-key--around
  "[[:space:]\"'`\u201c\u201d\ufeff\u200b\u00a0]+"
  "Matches what gets around a key that is copied from somewhere.")

(defun agent-q-provider-key--clean (key)
  "Return KEY without what was copied with it; nil if nothing is left.
What is not a string is returned as it is."
  (if (not (stringp key))
      key
    (let* ((case-fold-search t)
           (bare (string-trim key agent-q-provider-key--around agent-q-provider-key--around))
           (bare (replace-regexp-in-string
                  (concat "\\`\\(?:authorization:[ \t]*\\)?bearer\\(?:[ \t]+\\|\\'\\)") "" bare))
           (bare (string-trim bare agent-q-provider-key--around)))
      (and (not (string-empty-p bare)) bare))))

(defun agent-q-provider-key-of-environment (properties)
  "Return the key in the environment for the host of PROPERTIES, or nil."
  (let ((variable (plist-get properties :environment)))
    ;; A value that isn't a string is reported where the provider is used, and hides no other host.
    (and (stringp variable)
         (agent-q-provider-key--clean (getenv variable)))))

(defun agent-q-provider-key--set (properties)
  "Return the key that PROPERTIES themselves give, or nil."
  (let ((key (plist-get properties :key)))
    (agent-q-provider-key--clean (if (functionp key) (funcall key) key))))

(defun agent-q-provider-key-finders ()
  "Return the ways to find a key, in order, each as (SOURCE . FUNCTION).
FUNCTION takes a host's properties.  What may ask for a passphrase comes
last, and not at all where there is no one to answer."
  (let ((quiet (seq-remove #'agent-q-provider-key-asking-source-p auth-sources))
        (asking (seq-filter #'agent-q-provider-key-asking-source-p auth-sources)))
    (list
     (cons "the option" #'agent-q-provider-key--set)
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

(provide 'agent-q-provider-key)
;;; agent-q-provider-key.el ends here
