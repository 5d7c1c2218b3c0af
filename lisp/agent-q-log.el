;;; agent-q-log.el --- What went wrong inside, shown to the user  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The buffer *agent-q-log*, and hooks whose functions fail each alone: what one of
;; them does wrong is shown, and keeps neither the others nor the caller from going on.

;;; Code:

(defvar agent-q-log-failed nil
  "The functions whose failure was reported, lists (PLACE FUNCTION).")

(defun agent-q-log-line (line)
  "Add LINE to the buffer *agent-q-log*."
  (with-current-buffer (get-buffer-create "*agent-q-log*")
    (unless (derived-mode-p 'special-mode)
      (special-mode))
    (let ((inhibit-read-only t))
      (save-excursion
        (goto-char (point-max))
        (insert (format-time-string "%F %T ") line "\n")))))

(defun agent-q-log-call (place function &rest arguments)
  "Return what FUNCTION gives for ARGUMENTS, or nil if it fails.
PLACE, a symbol, says for what it is called.  A function that fails again
and again is shown once."
  (condition-case failure
      (apply function arguments)
    (error
     (let ((entry (list place function)))
       (unless (member entry agent-q-log-failed)
         (push entry agent-q-log-failed)
         (agent-q-log-line (format "%s failed, called for %s: %s"
                                   (agent-q-log--name function) place
                                   (error-message-string failure)))
         (message "agent-q: %s failed (%s); see *agent-q-log*"
                  (agent-q-log--name function) (error-message-string failure))))
     nil)))

(defun agent-q-log--name (function)
  "Return a name for FUNCTION."
  (if (symbolp function) (symbol-name function) "a function without a name"))

(defun agent-q-log-run-hook (hook &rest arguments)
  "Call the functions of HOOK, a symbol, with ARGUMENTS, each guarded on its own."
  (apply #'run-hook-wrapped hook
         (lambda (function &rest arguments)
           (apply #'agent-q-log-call hook function arguments)
           ;; Otherwise the functions behind it would not be called.
           nil)
         arguments))

(provide 'agent-q-log)
;;; agent-q-log.el ends here
