;;; model-facts.el --- Write the facts of models that are shipped  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; For releases, in the project's root, with the name of a file as argument: what
;; https://models.dev/api.json serves.  A date may follow it; else it is the file's own.

;;; Code:

(add-to-list 'load-path (expand-file-name "lisp"))
(require 'agent-q-facts)

(let* ((file (or (pop command-line-args-left) (error "Which file?")))
       (date (or (pop command-line-args-left)
                 (format-time-string "%F" (file-attribute-modification-time
                                           (file-attributes file)))))
       (catalogue (with-temp-buffer
                    (let ((coding-system-for-read 'utf-8))
                      (insert-file-contents file))
                    (agent-q-json-parse (buffer-string)))))
  (agent-q-facts-write (agent-q-facts-trim catalogue date)
                       (expand-file-name "lisp/agent-q-model-facts.eld")))

;;; model-facts.el ends here
