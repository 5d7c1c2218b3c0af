;;; model-facts.el --- Write the facts of models that are shipped  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; For releases, in the project's root, with the name of a file as argument: what
;; https://models.dev/api.json serves.  A date may follow it; else it is the file's own.
;; Writes nothing and fails if a default of `agent-q-providers' is missing there or retired.

;;; Code:

(add-to-list 'load-path (expand-file-name "lisp"))
(require 'agent-q-model-facts)
(require 'agent-q-provider)

(let* ((file (or (pop command-line-args-left) (error "Which file?")))
       (date (or (pop command-line-args-left)
                 (format-time-string "%F" (file-attribute-modification-time
                                           (file-attributes file)))))
       (catalogue (with-temp-buffer
                    (let ((coding-system-for-read 'utf-8))
                      (insert-file-contents file))
                    (agent-q-json-parse (buffer-string))))
       (facts (agent-q-model-facts-trim catalogue date))
       (missing (agent-q-model-facts-missing facts agent-q-providers)))
  (pcase-dolist (`(,name . ,properties) missing)
    (message "%s: the default of %s is not in %s, or retired there; choose another one in %s"
             (plist-get properties :model) name file "lisp/agent-q-provider.el"))
  (when missing
    (kill-emacs 1))
  (agent-q-model-facts-write facts (expand-file-name "lisp/agent-q-model-facts.eld"))
  (message "lisp/agent-q-model-facts.eld has the facts of %s now" date))

;;; model-facts.el ends here
