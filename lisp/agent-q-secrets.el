;;; agent-q-secrets.el --- Text without keys  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Masks what is to be shown to others or kept: the keys that are known, as they are in the
;; options, the environment and auth-source, and whatever has the look of a key or a password.

;;; Code:

(require 'agent-q-provider)
(require 'seq)

(defconst agent-q-secrets--mask "[masked]"
  "Text that replaces a secret.")

(defconst agent-q-secrets--least 8
  "Least length of a secret that is masked wherever it occurs.
Shorter ones, such as a key that is \"none\", are in other words as well.")

(defconst agent-q-secrets--most 4096
  "Longest secret, in characters, that cutting a text must not split.")

(defconst agent-q-secrets--variable
  "\\`[^=]*\\(?:KEY\\|TOKEN\\|SECRET\\|PASSW\\|CREDENTIAL\\)[^=]*="
  "Matches variables of the environment that hold a secret.")

(defconst agent-q-secrets--name
  (concat "\\(?:authorization\\|api[-_ ]?key\\|x-[a-z-]\\{0,20\\}key\\|[_-]\\(?:key\\|token\\)"
          "\\|secret\\|password\\|passwd\\|passphrase\\|\\(?:access\\|auth\\|bearer\\) ?token\\)")
  "Matches names of secrets, in any case.")

(defconst agent-q-secrets--quoted
  (concat "\\(\\(?:" agent-q-secrets--name "\\|[\"':(]key\\)\\\\*[\"']?"
          "\\(?:[ \t]\\{0,3\\}\\(?:[:=]+\\|\\.\\|=>\\)[ \t]\\{0,3\\}\\|[ \t]\\{1,3\\}\\)\\\\*[\"']\\)"
          "[^]\"'\\\\\n[(][^\"\\\\\n]*")
  "Matches a name with its value in quotes, as in JSON and in Lisp.")

(defconst agent-q-secrets--bare
  (concat "\\(" agent-q-secrets--name "[\"']?[ \t]\\{0,3\\}[:=]+[ \t]\\{0,3\\}"
          "\\(?:\\(?:bearer\\|basic\\|token\\)[ \t]+\\)?\\)"
          "[^]\"'\\\\ \t\n,;(){}<>[]+")
  "Matches a name with its value as it stands in headers and assignments.")

(defconst agent-q-secrets--shapes
  (list
   ;; Of hosts that give their keys a beginning of their own.
   (concat "\\b\\(\\)\\(?:[spr]k-\\|gsk_\\|xai-\\|hf_\\|gh[opusr]_\\|github_pat_\\|glpat-\\|tgp_v1_"
           "\\|xox[abposr]-\\|AIza\\|AKIA\\|key-\\)[A-Za-z0-9_-]\\{8,\\}")
   ;; JSON web tokens.
   "\\b\\(\\)eyJ[A-Za-z0-9_-]\\{10,\\}\\(?:\\.[A-Za-z0-9_-]+\\)*"
   "\\b\\([Bb]earer[ \t]+\\)[A-Za-z0-9._~+/=-]\\{8,\\}"
   "\\(-----BEGIN [A-Z ]\\{0,20\\}PRIVATE KEY-----\\)[^-]*"
   ;; Addresses.
   "\\(://\\)[^]/@ \t\n\"'<>[]+\\(?:@\\)"
   "\\([?&][A-Za-z_-]\\{0,20\\}\\(?:[Kk]ey\\|KEY\\|[Tt]oken\\|[Ss]ecret\\|[Ss]ig\\|[Aa]uth\\|[Cc]ode\\)=\\)[^]&# \t\n\"'\\\\<>)]+"
   ;; Lines of ~/.authinfo.
   "\\(\\blogin[ \t]+[^ \t\n]+[ \t]+password[ \t]+\\)[^. \t\n][^ \t\n]*")
  "Match secrets by their look; their first group is what stays.")

(defun agent-q-secrets--in-environment ()
  "Return the values of variables whose names say that they are secrets."
  (let ((case-fold-search t)
        (found nil))
    (dolist (entry process-environment found)
      (when (string-match agent-q-secrets--variable entry)
        (push (substring entry (match-end 0)) found)))))

(defun agent-q-secrets-known (&optional thoroughly)
  "Return the secrets that are known here, the longest first.
THOROUGHLY is as for `agent-q-provider-secrets'."
  (let ((known nil))
    (dolist (secret (append (agent-q-secrets--in-environment)
                            (agent-q-provider-secrets thoroughly)))
      (when (>= (length secret) agent-q-secrets--least)
        (push secret known)
        ;; As JSON and Lisp print it.
        (push (substring (prin1-to-string (substring-no-properties secret)) 1 -1) known)))
    (sort (delete-dups known) (lambda (one other) (> (length one) (length other))))))

(defun agent-q-secrets-masked (text &optional known)
  "Return TEXT without secrets: those KNOWN, and all that look like one.
KNOWN is what `agent-q-secrets-known' returned; without it, this asks it."
  (save-match-data
    (let ((masked (substring-no-properties text)))
      (dolist (secret (or known (agent-q-secrets-known)))
        (setq masked (string-replace secret agent-q-secrets--mask masked)))
      (let ((case-fold-search t))
        (dolist (pattern (list agent-q-secrets--quoted agent-q-secrets--bare))
          (setq masked (agent-q-secrets--without pattern masked))))
      (let ((case-fold-search nil))
        (dolist (pattern agent-q-secrets--shapes)
          (setq masked (agent-q-secrets--without pattern masked))))
      masked)))

(defun agent-q-secrets--without (pattern text)
  "Return TEXT with a mask for what PATTERN matches behind its first group."
  ;; To look costs a fraction of what to replace nothing costs.
  (if (string-match-p pattern text)
      (replace-regexp-in-string
       pattern (lambda (match) (concat (match-string 1 match) agent-q-secrets--mask)) text t t)
    text))

(defun agent-q-secrets-cut (text limit &optional known)
  "Return at most LIMIT characters of TEXT, without secrets.
KNOWN is as for `agent-q-secrets-masked'."
  (let* ((enough (+ limit agent-q-secrets--most))
         (whole (<= (length text) enough))
         (masked (agent-q-secrets-masked (if whole text (substring text 0 enough)) known))
         ;; A secret that is cut through is not known for one: its beginning has to go, too.
         (left (- (length masked) (if whole 0 agent-q-secrets--most))))
    (if (and whole (<= left limit))
        masked
      (concat (substring masked 0 (max 0 (min limit left))) "..."))))

(provide 'agent-q-secrets)
;;; agent-q-secrets.el ends here
