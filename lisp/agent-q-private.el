;;; agent-q-private.el --- Files that are not sent unasked  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What the user sends of a private file, by `agent-q-private-files', is sent only when they
;; say so, whichever command sends it.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-text)
(require 'agent-q-visible)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-private-objection (file)
  "Return why FILE is private, a sentence, or nil when it isn't."
  (agent-q-events-ensure)
  (let ((globs (default-value 'agent-q-private-files))
        (remote (file-remote-p file)))
    (when-let ((objection
                (agent-q-core-quoting-objection
                 ;; Where it is doesn't matter: the user has chosen it.
                 (agent-q-json-serialize `((project_root . "/")
                                           (private_files . ,(if globs (vconcat globs) :null))))
                 (agent-q-text-clean (if remote (file-remote-p file 'localname) file))
                 (and remote t))))
      ;; The core names files from that root on.
      (replace-regexp-in-string "\\`'\\([^/]\\)" "'/\\1" objection))))

(defun agent-q-private-allowed-p (file)
  "Whether text of FILE may be sent; if it is private, the user is asked.
FILE may be nil, for text of no file."
  (let ((objection (and file (agent-q-private-objection file))))
    (or (null objection)
        (y-or-n-p (format "%s  Send its text to the model? "
                          (agent-q-visible-line objection))))))

(provide 'agent-q-private)
;;; agent-q-private.el ends here
