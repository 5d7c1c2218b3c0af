;;; agent-q-doctor.el --- The page of what is found and what is missing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A read-only page about everything that a chat needs, which it draws once more when the model
;; servers on this machine have answered.  It works without the core.

;;; Code:

(require 'agent-q-findings)
(require 'agent-q-module)
(require 'agent-q-provider)

(defvar-local agent-q-doctor--servers 'unknown
  "The model servers that answered; `unknown' until then, or an error as text.")

(defvar agent-q-doctor-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map "b" #'agent-q-build)
    (define-key map (kbd "TAB") #'forward-button)
    (define-key map [backtab] #'backward-button)
    map)
  "Keymap of `agent-q-doctor-mode'.")

(define-derived-mode agent-q-doctor-mode special-mode "agent-q doctor"
  "Major mode of the page about what agent-q has on this machine.
\\{agent-q-doctor-mode-map}"
  (setq-local word-wrap t
              revert-buffer-function #'agent-q-doctor--refresh))

;;;; The page

(defun agent-q-doctor--insert-button (command)
  "Insert the name of COMMAND as a button for it."
  (insert-text-button (symbol-name command)
                      'action (lambda (_button) (call-interactively command))
                      'help-echo (format "M-x %s" command)
                      'follow-link t))

(defun agent-q-doctor--draw ()
  "Write the page again; point stays where it is."
  (let ((inhibit-read-only t)
        (line (line-number-at-pos)))
    (erase-buffer)
    (insert (propertize "agent-q on this machine\n\n" 'font-lock-face 'bold))
    (insert (agent-q-findings agent-q-doctor--servers))
    (insert "\n" (propertize (substitute-command-keys
                              (agent-q-findings-conclusion agent-q-doctor--servers))
                             'font-lock-face 'bold)
            "\n")
    (insert (substitute-command-keys
             "\n\\<agent-q-doctor-mode-map>\\[revert-buffer] looks again, \
\\[agent-q-build] builds the core, \\[quit-window] leaves this page.\n\n"))
    (insert "Something goes wrong?  ")
    (agent-q-doctor--insert-button #'agent-q-debug)
    (insert " records what agent-q does;\n")
    (agent-q-doctor--insert-button #'agent-q-report-bug)
    (insert " prepares a bug report, with all of this page and the last lines of the logs.\n")
    (goto-char (point-min))
    (forward-line (1- line))))

(defun agent-q-doctor--refresh (&rest _)
  "Look at everything again."
  (setq agent-q-doctor--servers 'unknown)
  (agent-q-doctor--draw)
  (let ((buffer (current-buffer)))
    (agent-q-doctor--discover
     (lambda (servers)
       (when (buffer-live-p buffer)
         (with-current-buffer buffer
           (setq agent-q-doctor--servers servers)
           (agent-q-doctor--draw)))))))

(defun agent-q-doctor--discover (callback)
  "Call CALLBACK with the model servers on this machine, or with why not."
  (condition-case failure
      (agent-q-provider-discover callback)
    (error
     (funcall callback
              (if (agent-q-module-problem)
                  "It takes the core to look for them"
                (error-message-string failure))))))

;;;###autoload
(defun agent-q-doctor ()
  "Show what agent-q has found, what is missing, and how to mend it."
  (interactive)
  (pop-to-buffer (get-buffer-create "*agent-q doctor*"))
  (unless (derived-mode-p 'agent-q-doctor-mode)
    (agent-q-doctor-mode))
  (agent-q-doctor--refresh))

(provide 'agent-q-doctor)
;;; agent-q-doctor.el ends here
