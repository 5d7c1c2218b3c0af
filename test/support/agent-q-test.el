;;; agent-q-test.el --- Helpers of the ERT tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Waits for conditions, opens chats on the real core, plays scripts as a model
;; server, and hands made-up events to a chat the way the core's own come.

;;; Code:

(require 'cl-lib)
(require 'ert)
(require 'json)
(require 'subr-x)
(require 'agent-q-chat)

(defconst agent-q-test-root
  (expand-file-name "../.." (file-name-directory (or load-file-name
                                                     buffer-file-name)))
  "The project's root.")

(defvar agent-q-test-patience 30
  "How many seconds a test waits for what has to happen.")

(defvar agent-q-test-directory
  (let ((directory (make-temp-file "agent-q-test" t)))
    (add-hook 'kill-emacs-hook
              (lambda () (ignore-errors (delete-directory directory t))))
    directory)
  "A directory for the files of this run.")

;; Whatever it is in, such as a worktree of Git, is no project of the tests.
(let* ((names (list agent-q-test-directory (file-truename agent-q-test-directory)))
       (stop (format "\\`%s/\\'\\|%s" (regexp-opt (mapcar #'abbreviate-file-name names))
                     locate-dominating-stop-dir-regexp)))
  (setq locate-dominating-stop-dir-regexp stop
        vc-ignore-dir-regexp stop)
  (setenv "GIT_CEILING_DIRECTORIES" (string-join names ":")))

(setq agent-q-chat-history-directory (expand-file-name "chats/" agent-q-test-directory))
;; Chats of tests before have nothing to do with a new one.
(defvar agent-q-chats-recent)
(setq agent-q-chats-recent 0)

(setq agent-q-log-file (expand-file-name "core.log" agent-q-test-directory))

;; The offer to echo would be a line in every log.
(setq agent-q-echo-evaluations nil)

;;;; Waiting

(defmacro agent-q-test-until (condition &optional what)
  "Wait until CONDITION is non-nil and return its value; WHAT names it.
Fail when it takes longer than `agent-q-test-patience'."
  (declare (debug t))
  `(agent-q-test--until (lambda () ,condition) ,(or what (format "%S" condition))))

(defun agent-q-test--until (condition what)
  "Wait until CONDITION returns non-nil; fail naming WHAT."
  (let ((deadline (time-add nil agent-q-test-patience))
        (value nil))
    (while (not (or (setq value (funcall condition))
                    (time-less-p deadline nil)))
      (accept-process-output nil 0.01))
    (or value
        (ert-fail (list "Waited in vain" what
                        (and agent-q-session-number
                             (buffer-substring-no-properties
                              (point-min) (point-max))))))))

;;;; Time

(defun agent-q-test-seconds (function)
  "Return the least processor time of some calls of FUNCTION.
Garbage is not collected meanwhile."
  (let ((gc-cons-threshold most-positive-fixnum))
    (cl-loop repeat 4
             for began = (float-time (get-internal-run-time))
             do (funcall function)
             minimize (- (float-time (get-internal-run-time)) began))))

(defmacro agent-q-test-once (condition)
  "Return the value of CONDITION, which compares times, once it holds.
It is tried five times at most: what else the machine does may slow
one of the two down, but not always."
  (declare (debug t))
  `(cl-loop repeat 5 thereis ,condition))

;;;; Chats

(defmacro agent-q-test-with-chat (&rest body)
  "Run BODY in the buffer of a new chat, whose windows and events are real.
The chat has the model of `agent-q-provider', which is none unless bound."
  (declare (indent 0) (debug t))
  `(let* ((agent-q-provider (or agent-q-provider 'none))
          (inhibit-message t)
          (chat (agent-q-chat-open t)))
     (unwind-protect
         (save-window-excursion
           (switch-to-buffer chat)
           (goto-char (point-max))
           ,@body)
       (when (buffer-live-p chat)
         (kill-buffer chat)))))

(defun agent-q-test-event (type &rest properties)
  "Hand the current chat an event of TYPE with PROPERTIES."
  (agent-q-events--dispatch-all
   (list (append (list :type type :session agent-q-session-number) properties))))

(defun agent-q-test-send (text)
  "Send TEXT from the current chat."
  (goto-char (point-max))
  (insert text)
  (agent-q-chat-send))

(defun agent-q-test-idle-p ()
  "Whether the current chat has nothing to do."
  (not (or (agent-q-chat-view-header-busy-p) agent-q-chat-send--choosing)))

(defun agent-q-test-ask (text)
  "Send TEXT from the current chat and wait until its turn is over."
  (agent-q-test-send text)
  (agent-q-test-until (agent-q-test-idle-p) (format "the turn of %S" text)))

(defun agent-q-test-log ()
  "Return the log of the current chat as text."
  (buffer-substring-no-properties (point-min) agent-q-render-end))

(defun agent-q-test-find (text)
  "Put point on the first TEXT of the current buffer and return its place."
  (goto-char (point-min))
  (unless (search-forward text nil t)
    (ert-fail (list "Not in the buffer" text
                    (buffer-substring-no-properties (point-min) (point-max)))))
  (goto-char (match-beginning 0)))

(defun agent-q-test-shows (text)
  "Return non-nil if the current buffer has TEXT."
  (save-excursion
    (goto-char (point-min))
    (search-forward text nil t)))

(defun agent-q-test-press (key)
  "Run the command that KEY has at point."
  (let ((command (key-binding (kbd key))))
    (setq last-command-event (aref (kbd key) 0))
    (call-interactively command)))

(defun agent-q-test-arm ()
  "Let the call that waits in the current chat be answered; return it.
Nobody looks at a batch Emacs, so that the chat would wait for ever."
  (let ((call (agent-q-test-until (agent-q-call-waiting) "an approval request")))
    (agent-q-test-see call)
    call))

(defun agent-q-test-see (call)
  "Have CALL be as if all of it had been on the screen."
  (setf (agent-q-call-armed call) t
        (agent-q-call-ended call) t))

(defun agent-q-test-answer (key)
  "Answer the call that waits in the current chat by pressing KEY on it."
  (let ((call (agent-q-test-arm)))
    (goto-char (agent-q-render-item-start call))
    (agent-q-test-press key)
    call))

;;;; The scripted model server

(defvar agent-q-test-requests nil
  "The file in which the scripted server notes the requests it got.")

(defun agent-q-test-example-program (name)
  "Return the program of the example NAME of the crate, the newest build of it."
  (let ((built (seq-filter
                #'file-executable-p
                (mapcar (lambda (profile)
                          (expand-file-name
                           (concat (or (getenv "CARGO_TARGET_DIR")
                                       (expand-file-name "target"
                                                         agent-q-test-root))
                                   "/" profile "/examples/" name)))
                        '("release" "debug")))))
    (unless built
      (error "%s is missing: cargo build --examples" name))
    (car (sort built #'file-newer-than-file-p))))

(defun agent-q-test-start-server (script)
  "Start a model server that plays SCRIPT, JSON text; return its process.
Its property `base-url' says where it is."
  (let* ((file (make-temp-file (expand-file-name "script" agent-q-test-directory)
                               nil ".json" script))
         (requests (concat file ".requests"))
         (output "")
         (process (make-process
                   :name "scripted-server"
                   :command (list (agent-q-test-example-program "scripted-server") file
                                  "--requests" requests)
                   :connection-type 'pipe
                   :noquery t
                   :filter (lambda (_process text)
                             (setq output (concat output text))))))
    (agent-q-test-until (or (string-match "listening on \\(\\S-+\\)\n" output)
                            (not (process-live-p process)))
                        "the scripted server")
    (unless (process-live-p process)
      (ert-fail (list "The scripted server did not start" output)))
    (process-put process 'requests requests)
    (process-put process 'base-url
                 (format "http://%s/v1"
                         (string-remove-prefix "http://"
                                               (match-string 1 output))))
    process))

(defun agent-q-test-script (requests)
  "Return the script of a model that answers each of REQUESTS.
Each is a list of needles that the request has to have, and of calls,
lists of a tool and its arguments, or of a text."
  (json-encode
   `((turns
      . ,(vconcat
          (mapcar
           (pcase-lambda (`(,needles . ,says))
             `((expect . ((contains . ,(vconcat needles))))
               (steps . ,(if (stringp (car says))
                             `[((text . ,(car says)))]
                           `[((tool_calls
                               . ,(vconcat
                                   (mapcar (pcase-lambda (`(,tool . ,arguments))
                                             `((name . ,tool)
                                               (arguments . ,(or arguments
                                                                 (make-hash-table)))))
                                           says))))]))))
           requests))))))

(defun agent-q-test-calls ()
  "Return the calls of the current chat, first one first."
  (let ((calls nil))
    (maphash (lambda (_key call) (push call calls)) agent-q-call-table)
    (sort calls (lambda (one other) (< (agent-q-call-key one) (agent-q-call-key other))))))

(defmacro agent-q-test-with-model (script &rest body)
  "Run BODY while new chats talk to a model that plays SCRIPT, JSON text."
  (declare (indent 1) (debug t))
  `(let* ((server (agent-q-test-start-server ,script))
          (agent-q-test-requests (process-get server 'requests))
          (agent-q-model nil)
          (agent-q-provider (list :name "scripted" :model "scripted" :key "none"
                                  :base-url (process-get server 'base-url))))
     (unwind-protect
         (progn ,@body)
       (delete-process server))))

(defun agent-q-test-last-messages ()
  "Return the messages of the last request that the model got, hash tables."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (goto-char (point-max))
    (forward-line -1)
    (let ((request (agent-q-json-parse (buffer-substring (point) (line-end-position)))))
      (append (gethash "messages" (gethash "body" request request)) nil))))

(defun agent-q-test-last-message ()
  "Return the last message of the last request that the model got."
  (gethash "content" (car (last (agent-q-test-last-messages)))))

(defun agent-q-test-completions (typed table)
  "Return what completion of TYPED by TABLE offers, without text properties."
  (let ((all (completion-all-completions typed table nil (length typed)
                                         (completion-metadata typed table nil))))
    (when (consp all) (setcdr (last all) nil))
    (mapcar #'substring-no-properties all)))

(provide 'agent-q-test)
;;; agent-q-test.el ends here
