;;; agent-q-root.el --- An LLM agent for Common Lisp programmers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later
;; Author: The maintainers of agent-q
;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: lisp, tools

;;; Commentary:

;; The package is in lisp/.  Package managers that take the folder of the whole project for the
;; package's, as package-vc does unless :lisp-dir says otherwise, load this file's autoload.

;;; Code:

;;;###autoload
(progn
  (add-to-list 'load-path
               (expand-file-name "lisp" (file-name-directory
                                         (or load-file-name buffer-file-name default-directory))))
  (require 'agent-q-module))

(provide 'agent-q-root)
;;; agent-q-root.el ends here
