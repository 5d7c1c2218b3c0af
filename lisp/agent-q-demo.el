;;; agent-q-demo.el --- The tiny demo model on this machine  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Starts the project's demo model server (scripts/demo-model.sh) as a process of this Emacs, with
;; which it also ends.  The model shows the path from the chat to the Lisp image and back; it is
;; far too small for answers, and its label says so.

;;; Code:

(require 'agent-q-module)
(require 'agent-q-provider)
(require 'agent-q-session)

(defconst agent-q-demo--model "smollm2-135m"
  "The name of the server's model.")

(defconst agent-q-demo--buffer "*agent-q demo model*"
  "Name of the buffer with what the set-up and the server say.")

(defvar agent-q-demo--process nil
  "The process of the server, or of the set-up before it, or nil.")

(defun agent-q-demo--script ()
  "Return the name of the script for setting up and serving the model."
  (let ((script (expand-file-name
                 "../scripts/demo-model.sh"
                 (file-name-as-directory (file-truename agent-q-module-directory)))))
    (unless (file-readable-p script)
      (user-error "The demo model comes with agent-q's source tree, which is not here"))
    script))

(defun agent-q-demo-installed-p ()
  "Return non-nil if the demo model is downloaded."
  (condition-case nil
      (zerop (call-process "sh" nil nil nil (agent-q-demo--script) "status"))
    (error nil)))

(defun agent-q-demo-running-p ()
  "Return non-nil if the demo model's server answers requests."
  (and (process-live-p agent-q-demo--process) agent-q-provider-demo t))

(defun agent-q-demo--provider (base-url)
  "Return the provider for the demo model at BASE-URL.
So small a model calls a tool only when it is made to, at the beginning of
a turn."
  ;; The numbers are tokens of this model: 8 begins a call in its template, 2 ends an answer, 1002
  ;; goes on to an argument that the model need not give, and would only babble in.
  `((name . ,agent-q-provider-demo-name)
    (base_url . ,base-url)
    (model . ,agent-q-demo--model)
    (key . :null)
    (body . (:temperature 0 :max_tokens 48 :logit_bias [[2 -2] [1002 -8]]))
    (first_body . (:tool_choice "required" :max_tokens 128 :logit_bias [[8 14] [1002 -8]]
                   :stop ["<issue_comment>"]))
    (headers . nil)))

(defun agent-q-demo--run (name arguments filter sentinel)
  "Run the script with ARGUMENTS as the process NAME, with FILTER and SENTINEL."
  (let ((buffer (get-buffer-create agent-q-demo--buffer))
        (process-environment (cons "YES=1" process-environment)))
    (setq agent-q-demo--process
          (make-process :name name :buffer buffer :noquery t
                        ;; The server ends when its input does, so with Emacs.
                        :connection-type 'pipe
                        :command `("sh" ,(agent-q-demo--script) ,@arguments)
                        :filter filter :sentinel sentinel
                        :stderr nil))))

(defun agent-q-demo--insert (process text)
  "Add TEXT, which PROCESS said, to its buffer."
  (when (buffer-live-p (process-buffer process))
    (with-current-buffer (process-buffer process)
      (save-excursion
        (goto-char (point-max))
        (insert text)))))

(defun agent-q-demo--address (said)
  "Return the base URL in SAID, the output of a server, once it is ready, else nil.
Its threads write their log in pieces to the same pipe, so the
line with it may stand behind the beginning of another."
  (and (string-match "\\bready \\(http://[^ \n]+\\)\n" said)
       (match-string 1 said)))

(defun agent-q-demo-start (callback)
  "Start the downloaded demo model; call CALLBACK with its provider.
When the server ends before it is ready, CALLBACK is called with nil."
  (if (agent-q-demo-running-p)
      (funcall callback agent-q-provider-demo)
    (let ((said "") (waiting t))
      (agent-q-demo--run
       "agent-q-demo-model" '("serve")
       (lambda (process text)
         (agent-q-demo--insert process text)
         (when waiting
           (setq said (concat said text))
           (when-let ((address (agent-q-demo--address said)))
             (setq waiting nil
                   agent-q-provider-demo (agent-q-demo--provider address))
             (funcall callback agent-q-provider-demo))))
       (lambda (process _event)
         (unless (process-live-p process)
           (setq agent-q-provider-demo nil)
           (when waiting
             (setq waiting nil)
             (funcall callback nil))))))))

(defun agent-q-demo--install (callback)
  "Download the demo model and call CALLBACK when it is there."
  (display-buffer (process-buffer
                   (agent-q-demo--run
                    "agent-q-demo-install" '("install") #'agent-q-demo--insert
                    (lambda (process _event)
                      (unless (process-live-p process)
                        (if (zerop (process-exit-status process))
                            (funcall callback)
                          (message "The demo model was not installed; %s says why"
                                   agent-q-demo--buffer))))))))

(defun agent-q-demo--serve-chats (provider)
  "Make the chats without a model talk to PROVIDER, if it is one."
  (if (null provider)
      (message "The demo model did not start; %s says why" agent-q-demo--buffer)
    (dolist (buffer (agent-q-session-chats))
      (with-current-buffer buffer
        (unless agent-q-session-provider
          (agent-q-chat-use-provider provider))))
    (message "The demo model is running: it shows how things work, its answers mean nothing")))

;;;###autoload
(defun agent-q-demo-model ()
  "Start the tiny demo model for chats without a model; download it if need be.
It shows the whole path from the chat to the Lisp image, on any machine.
Its answers mean nothing.  \\[agent-q-set-model] in a chat chooses it too."
  (interactive)
  (let ((start (lambda () (agent-q-demo-start #'agent-q-demo--serve-chats))))
    (cond ((process-live-p agent-q-demo--process)
           (if (agent-q-demo-running-p)
               (agent-q-demo--serve-chats agent-q-provider-demo)
             (message "The demo model is being downloaded or started")))
          ((agent-q-demo-installed-p) (funcall start))
          ((yes-or-no-p "Download the demo model, about 130 MB? ")
           (agent-q-demo--install start))
          (t (message "Nothing was downloaded")))))

(provide 'agent-q-demo)
;;; agent-q-demo.el ends here
