;;; agent-q-key-file.el --- Keys in the files of auth-source  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Writes the key of a host into a file of `auth-sources'.  Auth-source itself only adds lines, and
;; asks in a way of its own; here the password of an entry that is there is replaced in its place, all
;; other bytes stay, and the file changes at once or not at all.

;;; Code:

(require 'agent-q-provider)
(require 'auth-source)
(require 'cl-lib)
(require 'epa-file)
(require 'epg)
(require 'epg-config)
(require 'seq)
(require 'subr-x)
(require 'url-parse)

;;;; Which file

(defun agent-q-key-file-encrypted-p (file)
  "Whether FILE is encrypted, by its name."
  (string-suffix-p ".gpg" file))

(defun agent-q-key-file-sources ()
  "Return the files of `auth-sources' that entries can be written to, in order."
  (delq nil
        (mapcar (lambda (source)
                  (let ((file (if (consp source) (plist-get source :source) source)))
                    (and (stringp file)
                         (not (string-match-p "\\`\\(?:secrets\\|macos-keychain[-a-z]*\\):" file))
                         (not (string-match-p "\\.\\(?:plist\\|json\\)\\(?:\\.gpg\\)?\\'" file))
                         (not (file-remote-p file))
                         (expand-file-name file))))
                auth-sources)))

(defun agent-q-key-file--gpg-p ()
  "Whether there is a program that encrypts files."
  (and (ignore-errors (epg-find-configuration 'OpenPGP)) t))

(defun agent-q-key-file--usable-p (file)
  "Whether an entry can be put into FILE, as far as one sees from outside."
  (and (file-regular-p file)
       (file-writable-p (file-truename file))
       (file-writable-p (file-name-directory (file-truename file)))
       (or (not (agent-q-key-file-encrypted-p file)) (agent-q-key-file--gpg-p))))

(defun agent-q-key-file--has-p (file properties)
  "Whether FILE, unless it is encrypted, has an entry for the host of PROPERTIES."
  (and (not (agent-q-key-file-encrypted-p file))
       (ignore-errors
         (with-temp-buffer
           (agent-q-key-file--insert file)
           (agent-q-key-file--find properties)))))

(defun agent-q-key-file-choices (properties)
  "Return the files that may get the key for the host of PROPERTIES, best first.
The first is the one that has an entry for it, or the first one that is
there.  Where there is none, it is a new one, encrypted before plain text."
  (let* ((sources (agent-q-key-file-sources))
         (there (seq-filter #'file-exists-p sources))
         (usable (seq-filter #'agent-q-key-file--usable-p there)))
    (if there
        (let ((has (seq-find (lambda (file) (agent-q-key-file--has-p file properties)) usable)))
          ;; What one file has hides what is in those behind it.
          (if has (list has) usable))
      (let ((new (seq-filter (lambda (file) (file-writable-p (file-name-directory file))) sources)))
        (append (and (agent-q-key-file--gpg-p)
                     (seq-take (seq-filter #'agent-q-key-file-encrypted-p new) 1))
                (seq-take (seq-remove #'agent-q-key-file-encrypted-p new) 1))))))

;;;; Their entries

(defun agent-q-key-file--insert (file)
  "Insert FILE into this empty buffer, byte for byte; decrypt it if need be."
  (set-buffer-multibyte nil)
  (let ((coding-system-for-read 'no-conversion))
    (insert-file-contents file)))

(defun agent-q-key-file--token ()
  "Return the next token of this buffer as (TEXT BEGIN END), or nil at the end.
Point moves behind it.  A # begins a comment where a token could."
  (skip-chars-forward " \t\r\n")
  (while (eq (char-after) ?#)
    (forward-line 1)
    (skip-chars-forward " \t\r\n"))
  (when (looking-at "\"\\([^\"\n]*\\)\"\\|'\\([^'\n]*\\)'\\|[^ \t\r\n]+")
    (goto-char (match-end 0))
    (list (or (match-string 1) (match-string 2) (match-string 0))
          (match-beginning 0) (match-end 0))))

(defun agent-q-key-file--entries ()
  "Return the entries of this buffer: property lists of tokens.
Each has its :machine, :login, :port and :password, as far as it has them,
and ends at :end."
  (goto-char (point-min))
  (let ((entries nil) token)
    (while (setq token (agent-q-key-file--token))
      (let ((name (pcase (car token)
                    ((or "machine" "host") :machine)
                    ((or "login" "user" "account") :login)
                    ((or "port" "protocol") :port)
                    ("password" :password))))
        (pcase (car token)
          ("default" (push nil entries))
          ;; A text of its own, up to an empty line.
          ("macdef" (push nil entries)
           (unless (re-search-forward "\n[ \t\r]*\n" nil t) (goto-char (point-max))))
          (_ (let ((value (agent-q-key-file--token)))
               (when (eq name :machine) (push nil entries))
               (when entries
                 (when name (setf (car entries) (plist-put (car entries) name value)))
                 (setf (car entries)
                       (plist-put (car entries) :end (nth 2 (or value token))))))))))
    (nreverse entries)))

(defun agent-q-key-file--find (properties)
  "Return the entry for the host of PROPERTIES in this buffer, or nil.
One for its port goes before one for any, which is left alone where the host has
a port of its own: it may be the key of other servers there."
  (let* ((ports (agent-q-provider-key-ports properties))
         (text (lambda (entry name) (car (plist-get entry name))))
         (same (seq-filter (lambda (entry)
                             (and (equal (funcall text entry :machine)
                                         (agent-q-provider-key-host properties))
                                  (equal (funcall text entry :login)
                                         (agent-q-provider-key-login properties))))
                           (agent-q-key-file--entries))))
    (or (seq-find (lambda (entry) (member (funcall text entry :port) ports)) same)
        (and (cdr ports)
             (seq-find (lambda (entry) (null (plist-get entry :port))) same)))))

(defun agent-q-key-file-line (properties key)
  "Return the line of an entry with KEY for the host of PROPERTIES."
  (let ((port (url-port (url-generic-parse-url (plist-get properties :base-url)))))
    (concat "machine " (agent-q-provider-key-host properties)
            (if (memq port '(80 443)) "" (format " port %d" port))
            " login " (agent-q-provider-key-login properties) " password " key)))

(defun agent-q-key-file--put (properties key)
  "Put KEY for the host of PROPERTIES into this buffer."
  (let* ((entry (agent-q-key-file--find properties))
         (password (plist-get entry :password)))
    (cond (password (delete-region (nth 1 password) (nth 2 password))
                    (goto-char (nth 1 password))
                    (insert key))
          (entry (goto-char (plist-get entry :end))
                 (insert " password " key))
          (t (goto-char (point-max))
             (unless (bolp) (insert "\n"))
             (insert (agent-q-key-file-line properties key) "\n")))))

;;;; Writing

(defun agent-q-key-file-write (file properties key)
  "Put KEY for the host of PROPERTIES into FILE, which may be new.
An entry for it gets the new key; all else stays.  FILE is for its owner
alone afterwards.  Signal an error, and leave FILE as it was, if that fails."
  (let* ((target (file-truename file))
         (edited (find-buffer-visiting target))
         ;; On a terminal, a program that asks by itself would write over Emacs.
         (epg-pinentry-mode (or epg-pinentry-mode (and (not (display-graphic-p)) 'loopback)))
         ;; A new file gets a passphrase; a list of keys to choose from is too much for a first one.
         (epa-file-select-keys (or epa-file-select-keys 'silent)))
    (when (and edited (buffer-modified-p edited))
      (error "%s is being edited in the buffer %s; save it first"
             (abbreviate-file-name file) (buffer-name edited)))
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (when (file-exists-p target)
        (agent-q-key-file--insert target))
      (agent-q-key-file--put properties key)
      (agent-q-key-file--replace target))
    (auth-source-forget-all-cached)))

(defun agent-q-key-file--replace (target)
  "Make this buffer the contents of the file TARGET, at once or not at all."
  (let* ((encrypted (agent-q-key-file-encrypted-p target))
         (temporary (with-file-modes #o600
                      (make-temp-file (concat (file-name-directory target) ".agent-q-key-")
                                      nil (if encrypted ".gpg" ""))))
         (coding-system-for-write 'no-conversion)
         (done nil))
    (unwind-protect
        (progn
          (write-region nil nil temporary nil 'quiet)
          (set-file-modes temporary #o600)
          (rename-file temporary target t)
          (setq done t))
      (unless done
        (ignore-errors (delete-file temporary))))))

(provide 'agent-q-key-file)
;;; agent-q-key-file.el ends here
