;;; agent-q-doctor.el --- The page of what is found and what is missing  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A read-only page about everything that a chat needs, which it draws once more when the model
;; servers on this machine have answered, and when the host of the chosen model has.  It works
;; without the core.

;;; Code:

(require 'agent-q-findings)
(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-provider-key)
(require 'agent-q-provider-list)
(require 'seq)

(defvar-local agent-q-doctor--servers 'unknown
  "The model servers that answered; `unknown' until then, or an error as text.")

(defvar-local agent-q-doctor--connection nil
  "The finding about the way to the chosen host, or nil where none is chosen.")

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
    (when agent-q-doctor--connection
      (agent-q-findings-insert agent-q-doctor--connection))
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
  (setq agent-q-doctor--servers 'unknown
        agent-q-doctor--connection nil)
  (agent-q-doctor--try-connection)
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
                  "The core is needed to look for them"
                (error-message-string failure))))))

;;;; The way to the chosen host

(defun agent-q-doctor--provider ()
  "Return the provider that new chats have, or nil, without asking for its key."
  (let* ((chosen (cond ((memq agent-q-provider '(none local)) nil)
                       ((consp agent-q-provider)
                        (cons (agent-q-provider-name agent-q-provider) agent-q-provider))
                       (agent-q-provider (assq agent-q-provider agent-q-providers))
                       (t (seq-find (lambda (host)
                                      (agent-q-provider-key-source (cdr host)))
                                    agent-q-providers))))
         (properties (cdr chosen)))
    (and chosen
         (agent-q-provider-make (format "%s" (car chosen)) properties agent-q-model
                                (agent-q-provider-key-find-unasked properties)))))

(defun agent-q-doctor--try-connection ()
  "Ask the chosen host for its models, which costs nothing, and note the outcome."
  (when-let ((provider (condition-case failure
                           (agent-q-doctor--provider)
                         (error (agent-q-doctor--note-connection
                                 'missing (error-message-string failure) nil)
                                nil))))
    (let ((buffer (current-buffer))
          (place (format "%s at %s" (alist-get 'name provider) (alist-get 'base_url provider))))
      (condition-case failure
          (progn
            (agent-q-provider-list-ask
             provider
             (lambda (event)
               (when (buffer-live-p buffer)
                 (with-current-buffer buffer
                   (agent-q-doctor--connected place event)
                   (agent-q-doctor--draw)))))
            (agent-q-doctor--note-connection 'pending (format "trying %s" place) nil))
        (error (agent-q-doctor--note-connection 'note (format "%s is not tried" place)
                                                (error-message-string failure)))))))

(defun agent-q-doctor--connected (place event)
  "Note how the way to PLACE ended, which is in EVENT."
  (let ((stage (plist-get event :stage))
        (problem (plist-get event :problem)))
    (cond ((null problem)
           (agent-q-doctor--note-connection
            'ok (let ((count (length (plist-get event :models))))
                  (format (ngettext "%s answers: %d model" "%s answers: %d models" count)
                          place count))
            nil))
          ;; Not all hosts have a list.
          ((member stage '("HTTP (200)" "HTTP (404)" "HTTP (405)"))
           (agent-q-doctor--note-connection
            'note (format "%s answers, but lists no models" place) nil))
          (t (agent-q-doctor--note-connection
              'missing (format "%s: the way ends at %s" place stage) problem)))))

(defun agent-q-doctor--note-connection (state what advice)
  "Note the finding about the way to the chosen host: STATE, WHAT and ADVICE."
  (setq agent-q-doctor--connection (list state "Connection" what advice)))

;;;###autoload
(defun agent-q-doctor ()
  "Show what agent-q has found, what is missing, and how to fix it."
  (interactive)
  (pop-to-buffer (get-buffer-create "*agent-q doctor*"))
  (unless (derived-mode-p 'agent-q-doctor-mode)
    (agent-q-doctor-mode))
  (agent-q-doctor--refresh))

(provide 'agent-q-doctor)
;;; agent-q-doctor.el ends here
