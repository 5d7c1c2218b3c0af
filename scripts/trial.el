;;; trial.el --- One task of `make trial' inside Emacs  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Opens a chat on a project beside a new Lisp, sends it a task, answers what it asks, and prints
;; what happened as one line for scripts/trial.sh.

;;; Code:

(let ((root (expand-file-name ".." (file-name-directory (or load-file-name buffer-file-name)))))
  (push (expand-file-name "lisp" root) load-path)
  (require 'lisp-ide (expand-file-name "scripts/lisp-ide.el" root)))
(require 'agent-q-module)
(require 'agent-q-chat)
(require 'agent-q-provider)
(require 'cl-lib)

(declare-function agent-q-core-decide "ext:agent-q-core" (call decision payload))
(declare-function agent-q-ide-use "lisp-ide")
(declare-function sly-start "ext:sly")
(declare-function slime-start "ext:slime")
(declare-function slime-setup "ext:slime")

(defvar agent-q-trial-patience 1200
  "Seconds that a task may take.")

(defconst agent-q-trial-tools
  '("edit_file" "edit_definition" "insert_definition" "write_file" "insert_at_line"
    "compile_file" "compile_form" "load_system" "run_tests")
  "The tools whose calls in the project a user would let run.")

(defconst agent-q-trial-effects
  '("effect/write-file" "effect/make-directory" "effect/delete-file" "effect/load-file"
    "effect/redefine")
  "The effects of code that a user would allow on files of the project.")

(defvar agent-q-trial--counts nil
  "A property list of what happened, numbers.")

(defun agent-q-trial--add (what &optional number)
  "Add NUMBER, by default 1, to the count of WHAT."
  (setf (plist-get agent-q-trial--counts what)
        (+ (or number 1) (plist-get agent-q-trial--counts what))))

(defun agent-q-trial--configure ()
  "Use the provider and model that the environment names."
  (dolist (setting '((agent-q-provider . "PROVIDER") (agent-q-model . "MODEL")))
    (let ((text (getenv (cdr setting))))
      (unless (member text '(nil ""))
        (set (car setting)
             (if (string-match-p "\\`[(\"]" text) (car (read-from-string text))
               (if (eq (car setting) 'agent-q-model) text (intern text))))))))

(defun agent-q-trial--until (condition seconds)
  "Wait until the function CONDITION returns non-nil, at most SECONDS."
  (let ((deadline (time-add nil seconds)) (value nil))
    (while (not (or (setq value (funcall condition))
                    (time-less-p deadline nil)))
      (accept-process-output nil 0.05))
    value))

(defun agent-q-trial-model ()
  "Print what the model is called; exit with 1 where there is none."
  (agent-q-trial--configure)
  (let ((found 'none-yet))
    (agent-q-provider-choose (lambda (provider) (setq found provider)))
    (agent-q-trial--until (lambda () (not (eq found 'none-yet))) 10)
    (when (memq found '(nil none-yet))
      (kill-emacs 1))
    (princ (substring-no-properties (agent-q-provider-label found)))))

(defun agent-q-trial--start-lisp ()
  "Start SBCL through SLY, or else SLIME, and wait for its connection."
  (let* ((client (or (and (agent-q-ide-use 'sly) 'sly)
                     (and (agent-q-ide-use 'slime) 'slime)
                     (error "Neither SLY nor SLIME was found")))
         (connected nil))
    (add-hook (intern (format "%s-connected-hook" client)) (lambda () (setq connected t)) t)
    (when (eq client 'slime)
      (slime-setup))
    (save-window-excursion
      (funcall (if (eq client 'sly) #'sly-start #'slime-start)
               :program "sbcl" :program-args '("--no-userinit" "--no-sysinit")
               :name 'sbcl :buffer "*inferior-lisp*"))
    (unless (agent-q-trial--until (lambda () connected) 120)
      (error "The Lisp did not start"))))

;;;; What a user does

(defun agent-q-trial--inside-p (file)
  "Whether FILE, a name or nil, is in the project, or compiled of it."
  (and (stringp file)
       (let ((name (expand-file-name file)))
         (seq-some (lambda (folder) (string-prefix-p (file-name-as-directory folder) name))
                   (let ((project (getenv "AGENT_Q_TRIAL_PROJECT")))
                     (list project (file-truename project) (concat project ".image")))))))

(defun agent-q-trial--fine-p (event)
  "Whether a user would allow what the request EVENT is about."
  (let ((tool (plist-get event :tool))
        (arguments (ignore-errors (json-parse-string (plist-get event :arguments)
                                                     :object-type 'alist))))
    (cond ((member tool agent-q-trial-tools)
           (not (string-search "outside the project" (or (plist-get event :reason) ""))))
          ((member tool agent-q-trial-effects)
           (let ((files (or (alist-get 'files arguments) (alist-get 'file arguments))))
             (and (stringp files)
                  (seq-every-p #'agent-q-trial--inside-p (split-string files "\n" t))))))))

(defun agent-q-trial--seen (event)
  "Count what EVENT tells, and answer it if it is a question."
  (pcase (plist-get event :type)
    (:usage (agent-q-trial--add :requests)
            (agent-q-trial--add :input (plist-get event :input-tokens))
            (agent-q-trial--add :output (plist-get event :output-tokens)))
    (:call-finished
     (agent-q-trial--add :calls)
     (unless (eq (plist-get event :outcome) :succeeded)
       (agent-q-trial--add :failed))
     ;; More isn't sent to the model.
     (agent-q-trial--add :characters (min 16384 (length (plist-get event :content)))))
    (:approval
     (let ((fine (agent-q-trial--fine-p event)))
       (agent-q-trial--add :questions)
       (unless fine
         (agent-q-trial--add :denied)
         (message "Denied: %s %s" (plist-get event :tool) (plist-get event :reason)))
       (run-at-time 0 nil #'agent-q-core-decide (plist-get event :call)
                    (if fine "approved" "denied") nil)))))

(defun agent-q-trial--end (event)
  "Return how the turn of EVENT has ended, as a text."
  (let ((message (plist-get event :message)))
    (concat (substring (symbol-name (plist-get event :outcome)) 1)
            (if message (concat ": " message) ""))))

(defun agent-q-trial-run ()
  "Solve the task of the environment and print what happened as one line."
  (agent-q-trial--configure)
  (setq agent-q-trial--counts
        (list :requests 0 :calls 0 :failed 0 :questions 0 :denied 0 :characters 0
              :input 0 :output 0)
        agent-q-chat-history-directory (concat (getenv "AGENT_Q_TRIAL_PROJECT") ".chats/")
        agent-q-echo-evaluations nil)
  (agent-q-trial--start-lisp)
  (let ((default-directory (file-name-as-directory (getenv "AGENT_Q_TRIAL_PROJECT")))
        (task (with-temp-buffer
                (insert-file-contents (getenv "AGENT_Q_TRIAL_TASK"))
                (string-trim (buffer-string))))
        (end nil)
        (began (float-time)))
    (setq agent-q-project-root default-directory)
    (with-current-buffer (agent-q-chat-open-here t)
      (agent-q-events-subscribe t #'agent-q-trial--seen)
      (agent-q-events-subscribe :turn-ended
                                (lambda (event) (setq end (agent-q-trial--end event))))
      (agent-q-events-subscribe :limit-reached (lambda (_) (setq end "limit reached")))
      (agent-q-chat-send-submit task)
      (agent-q-trial--until (lambda () end) agent-q-trial-patience)
      (message "%s" (buffer-string)))
    (princ (string-join
            (append (cl-loop for (_ number) on agent-q-trial--counts by #'cddr
                             collect (number-to-string number))
                    (list (format "%d" (- (float-time) began))
                          (replace-regexp-in-string "[|\n]" " " (or end "no end in time"))))
            "|"))
    (terpri)
    (setq kill-emacs-query-functions nil)
    (kill-emacs 0)))

(provide 'trial)
;;; trial.el ends here
