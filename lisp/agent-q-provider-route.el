;;; agent-q-provider-route.el --- Over which proxy, and whose certificates count  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The way to a provider's host as Emacs has it: from the provider's own properties, from
;; `process-environment', which an init file may have changed, and from the options of Emacs's own
;; URL library and of GnuTLS.  The core asks none of them; it gets the way with the provider, and
;; again with each message.

;;; Code:

(require 'seq)
(require 'url-parse)

(defvar gnutls-trustfiles)
(declare-function gnutls-trustfiles "gnutls")
(declare-function url-find-proxy-for-url "url-proxy")

(defun agent-q-provider-route (name properties)
  "Return the way to the host of the provider NAME, as the core takes it.
PROPERTIES are the provider's.  The way is an alist, which may hold the
password of a proxy."
  (let ((proxy (agent-q-provider-route--proxy name properties))
        (own (plist-get properties :ca-file)))
    `(,@(and proxy `((proxy . ,proxy)))
      (authorities . ,(vconcat (agent-q-provider-route--authorities)))
      ,@(and own `((ca_file . ,(expand-file-name own)))))))

;;;; Proxies

(defun agent-q-provider-route--proxy (name properties)
  "Return the proxy for the host of the provider NAME, an alist, or nil.
PROPERTIES are the provider's."
  (if (plist-member properties :proxy)
      (let ((own (plist-get properties :proxy)))
        (unless (member own '(nil "" "none"))
          `((url . ,own) (set_by . ,(format ":proxy of %s" name)))))
    (let* ((base (or (plist-get properties :base-url) ""))
           (url (url-generic-parse-url base))
           (found (and (url-host url)
                       (not (agent-q-provider-route--excepted-p url))
                       (or (agent-q-provider-route--of-environment url)
                           (agent-q-provider-route--of-emacs url)))))
      (and found
           `((url . ,(cdr found))
             (set_by . ,(car found))
             (except . ,(or (cdr (agent-q-provider-route--variable "no_proxy")) "")))))))

(defun agent-q-provider-route--variable (name)
  "Return the environment variable NAME, in small or capital letters, or nil.
It is a cons of the name as it is written there and the value; one without a
value doesn't count."
  (seq-some (lambda (name)
              (let ((value (string-trim (or (getenv name) ""))))
                (and (not (string-empty-p value)) (cons name value))))
            (list name (upcase name))))

(defun agent-q-provider-route--of-environment (url)
  "Return the proxy for URL that the environment names, or nil.
It is a cons of the variable and the proxy."
  (or (agent-q-provider-route--variable (concat (url-type url) "_proxy"))
      (agent-q-provider-route--variable "all_proxy")))

(defun agent-q-provider-route--excepted-p (url)
  "Whether `url-proxy-services' excepts the host of URL."
  (let ((exceptions (cdr (assoc "no_proxy" (bound-and-true-p url-proxy-services))))
        (case-fold-search t))
    (and (stringp exceptions)
         (string-match-p exceptions (url-host url)))))

(defun agent-q-provider-route--of-emacs (url)
  "Return the proxy that `url-proxy-services' names for URL, or nil.
It is a cons of that name and the proxy."
  (when (bound-and-true-p url-proxy-services)
    (require 'url-proxy)
    (let ((proxy (url-find-proxy-for-url url (url-host url))))
      (and proxy
           ;; It takes no scheme there; some write one.
           (cons "url-proxy-services"
                 (replace-regexp-in-string "\\`http://\\([a-z0-9]+://\\)" "\\1" proxy))))))

;;;; Certificates

(defun agent-q-provider-route--authorities ()
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

(provide 'agent-q-provider-route)
;;; agent-q-provider-route.el ends here
