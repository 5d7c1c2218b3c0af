;;; agent-q-provider-key.el --- Where the keys of providers are  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Looks for the key of a host: in the option, in auth-source, in the environment.  A key that is
;; found goes straight to the core; nothing here keeps or prints one.

;;; Code:

(require 'auth-source)
(require 'seq)
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

(defun agent-q-provider-key-of-auth-source (host sources)
  "Return the key for HOST that SOURCES, a part of `auth-sources', hold, or nil."
  (when (and host sources)
    (condition-case failure
        (let* ((auth-sources sources)
               (secret (plist-get (car (auth-source-search :host host :user "apikey" :max 1
                                                           :require '(:secret)))
                                  :secret))
               (key (if (functionp secret) (funcall secret) secret)))
          (and (stringp key) (not (string-empty-p key)) key))
      (error
       ;; A source that is out of order must not keep the chat from opening.
       (message "agent-q: auth-source failed: %s" (error-message-string failure))
       nil))))

(defun agent-q-provider-key-of-environment (properties)
  "Return the key in the environment for the host of PROPERTIES, or nil."
  (let* ((variable (plist-get properties :environment))
         ;; What is no string is said where the provider is used, and hides no other host.
         (key (and (stringp variable) (getenv variable))))
    (and key (not (string-empty-p key)) key)))

(defun agent-q-provider-key--set (properties)
  "Return the key that PROPERTIES themselves give, or nil."
  (let ((key (plist-get properties :key)))
    (if (functionp key) (funcall key) key)))

(defun agent-q-provider-key-finders ()
  "Return the ways to find a key, in order, each as (SOURCE . FUNCTION).
FUNCTION takes a host's properties.  What may ask for a passphrase comes
last, and not at all where nobody could answer."
  (let ((quiet (seq-remove #'agent-q-provider-key-asking-source-p auth-sources))
        (asking (seq-filter #'agent-q-provider-key-asking-source-p auth-sources)))
    (list
     (cons "the option" #'agent-q-provider-key--set)
     (cons "auth-source"
           (lambda (properties)
             (agent-q-provider-key-of-auth-source (agent-q-provider-key-host properties) quiet)))
     (cons "the environment" #'agent-q-provider-key-of-environment)
     (cons "encrypted auth-source"
           (lambda (properties)
             (unless noninteractive
               (agent-q-provider-key-of-auth-source (agent-q-provider-key-host properties)
                                                  asking)))))))

(defun agent-q-provider-key-find (properties)
  "Return the key for the host of PROPERTIES, or nil."
  (seq-some (lambda (finder) (funcall (cdr finder) properties))
            (agent-q-provider-key-finders)))

(defun agent-q-provider-key-source (properties)
  "Return where the key for the host of PROPERTIES is, or nil.
Sources that may ask for a passphrase are left out."
  (car (seq-find (lambda (finder) (funcall (cdr finder) properties))
                 (butlast (agent-q-provider-key-finders)))))

(provide 'agent-q-provider-key)
;;; agent-q-provider-key.el ends here
