;;; agent-q-ask.el --- Asking from other buffers, and messages for commits  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Commands for any buffer that ask about what the user looks at or about an error in the
;; debugger, and one that writes the message of a commit.

;;; Code:

(require 'agent-q-activity)
(require 'agent-q-attach)
(require 'agent-q-attach-kinds)
(require 'agent-q-chat)
(require 'agent-q-chat-commands)
(require 'agent-q-chat-send)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-render)
(require 'agent-q-review-place)
(require 'agent-q-session)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Asking about what you look at

;; Commands for any buffer that send what the user looks at to the chat of the project,
;; with a question or with one of the usual wishes.  The chat is shown beside; the user
;; stays where they are.

(defvar agent-q-ask-history nil
  "The questions that were asked, latest first.")

;;;;; Sending

(defun agent-q-ask--connection (look)
  "Return the connection that LOOK is about, or nil."
  (and (agent-q-activity-look-process look)
       (cl-find (agent-q-activity-look-process look) (agent-q-connection-connections)
                :key #'agent-q-connection-process)))

(defun agent-q-ask--chat (look new)
  "Return the chat that is asked about LOOK; NEW non-nil means a new one.
It is one of the same project, and about the same image if LOOK has one."
  (let* ((connection (agent-q-ask--connection look))
         (chat (with-temp-buffer
                 (setq default-directory (agent-q-activity-look-directory look))
                 (agent-q-chat-open-here new))))
    (when connection
      (let ((has (buffer-local-value 'agent-q-session-connection chat)))
        (when (and (agent-q-connection-live-p has) (not (equal has connection)))
          (setq chat (with-temp-buffer
                       (setq default-directory (agent-q-activity-look-directory look))
                       (agent-q-chat-open-here t))))
        (with-current-buffer chat
          (agent-q-set-image connection))))
    chat))

(defun agent-q-ask--show (chat)
  "Show CHAT, if it isn't, and leave the selected window as it is."
  (let ((window (or (get-buffer-window chat 'visible)
                    (display-buffer chat '(nil (inhibit-same-window . t))))))
    (when (and window (not (eq window (selected-window))))
      (set-window-point window (with-current-buffer chat (point-max))))))

(defun agent-q-ask--check-private (look)
  "Ask the user whether LOOK may be sent if it is of a private file."
  (unless (agent-q-attach-kinds-private-allowed-p (agent-q-activity-look-file look))
    (user-error "Nothing was sent")))

(defun agent-q-ask--send (text look new &optional review hidden)
  "Send TEXT about LOOK to the chat of its project, or to a NEW one.
REVIEW is as in `agent-q-chat-send-queue-message'.  The chat is shown, unless
HIDDEN is non-nil.  Return it."
  (agent-q-ask--check-private look)
  (let ((chat (agent-q-ask--chat look new)))
    (unless hidden
      (agent-q-ask--show chat))
    (with-current-buffer chat
      (agent-q-prompt-remember text)
      (agent-q-chat-send-submit (agent-q-ask--as-message text) (agent-q-activity-look-label look)
                                (agent-q-activity-look-excerpts look) review)
      (deactivate-mark)
      (cond ((agent-q-chat-send-queue-waiting 'queued)
             (message "Queued in %s: sent when this turn ends" (buffer-name chat)))
            (agent-q-session-provider (message "Asked in %s" (buffer-name chat)))))
    chat))

(defun agent-q-ask--as-message (text)
  "Return TEXT so that it is a message, and no call of a tool by a slash."
  (if (agent-q-prompt-console-line-p text) (concat " " text) text))

(defun agent-q-ask--read (prompt look)
  "Read what the user wants to know of LOOK; PROMPT has a place for its name."
  (read-string (format prompt (agent-q-activity-look-label look)) nil 'agent-q-ask-history))

(defun agent-q-ask--named (look)
  "Return the name of LOOK in a message: that of a definition, else \"this\"."
  (let ((label (agent-q-activity-look-label look)))
    (if (and (eq 'definition (agent-q-activity-look-kind look))
             (string-match "\\`[^ ]+ \\(.+\\) ([^()]*)\\'" label))
        (match-string 1 label)
      "this")))

(defun agent-q-ask--editable (look)
  "Signal an error unless LOOK is of a file, as it is to be changed."
  (unless (agent-q-activity-look-file look)
    (user-error "There is no file to change here")))

;;;;; Commands

;;;###autoload
(defun agent-q-ask (question look &optional new)
  "Ask QUESTION about LOOK, by default what you look at.
That is the region if it is active, else the definition at point, else the
file.  In other buffers it is what they are for: the form at the prompt of a
REPL or its last lines, the error of a debugger, a compiler's message, a value
in an inspector, references, results of tests.  It is sent with file, lines
and package to the project's chat, or with prefix argument NEW to a new one.
An empty question asks for an explanation."
  (interactive
   (let ((look (agent-q-activity-look-here)))
     (list (agent-q-ask--read "Ask about %s (RET: explain it): " look) look
           current-prefix-arg)))
  (agent-q-ask--send (if (string-blank-p question) (agent-q-ask--explain look) question)
                     look new))

(defun agent-q-ask--explain (look)
  "Return the request to explain LOOK."
  (pcase (agent-q-activity-look-kind look)
    ((or 'error 'message) "Explain this error, and what to do about it.")
    (_ "Explain this.")))

;;;###autoload
(defun agent-q-explain (look &optional new)
  "Ask the project's chat to explain what you look at.
LOOK is as in `agent-q-ask'; with prefix argument NEW, in a new chat."
  (interactive (list (agent-q-activity-look-here) current-prefix-arg))
  (agent-q-ask--send (agent-q-ask--explain look) look new))

;;;###autoload
(defun agent-q-document (look &optional new)
  "Ask the model to document the definition at point, or the region.
The change is shown as a diff for you to accept or reject.  LOOK and NEW are
as in `agent-q-ask'."
  (interactive (list (agent-q-activity-look-here) current-prefix-arg))
  (agent-q-ask--editable look)
  (agent-q-ask--send
   (format "Document %s." (agent-q-ask--named look)) look new
   "Write or improve its documentation string, in the style of the code around it. Look at \
callers if it is unclear. Change nothing else. Make the change in the file with \
edit_definition; the user reviews it as a diff."))

;;;###autoload
(defun agent-q-fix-error (look &optional new wrong)
  "Ask the model to fix the error that you look at.
In a debugger that is its error, in a compiler's log the message at point, in
source what the compiler says of the definition; where it says nothing, you
are asked what is wrong, which is WRONG.  Changes of files are shown as diffs
for you to accept or reject.  LOOK and NEW are as in `agent-q-ask'."
  (interactive
   (let ((look (agent-q-activity-look-here)))
     (list look current-prefix-arg
           (unless (agent-q-activity-look-wrong-p look)
             (agent-q-ask--read "What is wrong with %s? " look)))))
  (when (and wrong (string-blank-p wrong))
    (user-error "Nothing is known to be wrong with %s" (agent-q-activity-look-label look)))
  (agent-q-ask--send
   (if wrong (format "Fix %s: %s" (agent-q-ask--named look) wrong) "Fix this error.")
   look new
   "Find the cause and fix it in its source. Say in a sentence what was wrong. The user reviews \
the change of the file as a diff; then check in the image that it helps."))

;;;###autoload
(defun agent-q-rewrite (wish look &optional new)
  "Ask the model to rewrite the definition at point, or the region, by WISH.
The change is shown here, in place, for you to accept or reject; no chat is
shown.  Until then \\<agent-q-ask-rewriting-map>\\[agent-q-ask-rewrite-cancel] there \
cancels it.  LOOK and NEW are as in `agent-q-ask'."
  (interactive
   (let ((look (agent-q-activity-look-here)))
     (agent-q-ask--editable look)
     (list (agent-q-ask--read "Rewrite %s how? " look) look current-prefix-arg)))
  (agent-q-ask--editable look)
  (let* ((bounds (agent-q-ask--bounds))
         (chat (agent-q-ask--send
                (format "Rewrite %s: %s" (agent-q-ask--named look)
                        (if (string-blank-p wish) "make it simpler, with the same behaviour" wish))
                look new
                "Make the change in the file with edit_definition, or with edit_file where it is \
not a definition; the user reviews it as a diff."
                t)))
    (agent-q-ask--rewriting look chat bounds)
    chat))

;;;; What is being rewritten

;; Until the change is shown in place, what it is about is marked in its buffer, and a key
;; on it cancels the turn.

(defvar-local agent-q-ask--rewrite nil
  "An overlay on what is being rewritten in this buffer, or nil.")

(defvar agent-q-ask-rewriting-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-g")
      `(menu-item "" agent-q-ask-rewrite-cancel
                  :filter ,(lambda (command) (and (not (region-active-p)) command))))
    map)
  "Keymap on what is being rewritten.")

(define-minor-mode agent-q-ask-rewriting-mode
  "Minor mode of a buffer where the model is rewriting something."
  :lighter " Rewriting"
  :interactive nil
  (unless agent-q-ask-rewriting-mode
    (when agent-q-ask--rewrite
      (delete-overlay agent-q-ask--rewrite)
      (setq agent-q-ask--rewrite nil))))

(defun agent-q-ask--bounds ()
  "Return where the region, the definition or the line at point begins and ends."
  (cond ((use-region-p) (cons (region-beginning) (region-end)))
        ((bounds-of-thing-at-point 'defun))
        (t (cons (line-beginning-position) (line-beginning-position 2)))))

(defun agent-q-ask--rewriting (look chat bounds)
  "Show at BOUNDS in the current buffer that CHAT rewrites LOOK."
  ;; A program may ask about the file of another buffer.
  (when (and buffer-file-name
             (equal (file-truename buffer-file-name)
                    (file-truename (agent-q-activity-look-file look))))
    (agent-q-ask-rewriting-mode -1)
    (agent-q-events-subscribe :approval #'agent-q-ask--rewrite-asked)
    (agent-q-events-subscribe :turn-ended #'agent-q-ask--rewrite-ended)
    (setq agent-q-ask--rewrite (make-overlay (car bounds) (cdr bounds)))
    (overlay-put agent-q-ask--rewrite 'face 'agent-q-request)
    (overlay-put agent-q-ask--rewrite 'keymap agent-q-ask-rewriting-map)
    (overlay-put agent-q-ask--rewrite 'agent-q-chat chat)
    (agent-q-ask-rewriting-mode)
    (message "Rewriting %s...  (C-g on it cancels)" (agent-q-activity-look-label look))))

(defun agent-q-ask--rewrite-buffers (event)
  "Return the buffers of which the chat of EVENT rewrites something."
  (seq-filter (lambda (buffer)
                (when-let* ((overlay (buffer-local-value 'agent-q-ask--rewrite buffer))
                            (chat (overlay-get overlay 'agent-q-chat)))
                  (or (not (buffer-live-p chat))
                      (eql (plist-get event :session)
                           (buffer-local-value 'agent-q-session-number chat)))))
              (buffer-list)))

(defun agent-q-ask--rewrite-asked (event)
  "Look whether the edit that EVENT asks about is shown once that is done."
  (dolist (buffer (agent-q-ask--rewrite-buffers event))
    (with-current-buffer buffer
      (agent-q-events-afterwards #'agent-q-ask--rewritten))))

(defun agent-q-ask--rewritten ()
  "Go to the edit that is shown here now, if there is one and the user has waited."
  (let ((overlay agent-q-ask--rewrite))
    (when (and overlay agent-q-review-place-mode)
      (let ((waits (and (eq (current-buffer) (window-buffer))
                        (overlay-buffer overlay)
                        (<= (overlay-start overlay) (point) (overlay-end overlay)))))
        (agent-q-ask-rewriting-mode -1)
        (when waits
          (agent-q-review-place-first))))))

(defun agent-q-ask--rewrite-ended (event)
  "Note that the turn of EVENT is over, and with it what it was to rewrite."
  (dolist (buffer (agent-q-ask--rewrite-buffers event))
    (with-current-buffer buffer
      (let ((chat (overlay-get agent-q-ask--rewrite 'agent-q-chat)))
        (unless (and (buffer-live-p chat)
                     (with-current-buffer chat
                       (agent-q-chat-send-queue-waiting 'queued)))
          (agent-q-ask-rewriting-mode -1))))))

(defun agent-q-ask-rewrite-cancel ()
  "Cancel the turn that rewrites what is at point."
  (interactive nil agent-q-ask-rewriting-mode)
  (let ((chat (and agent-q-ask--rewrite (overlay-get agent-q-ask--rewrite 'agent-q-chat))))
    (unless (buffer-live-p chat)
      (user-error "Nothing is being rewritten here"))
    (with-current-buffer chat
      (when (agent-q-chat-send-queue-waiting 'queued)
        (user-error "It waits for another turn; M-x agent-q-chat shows it"))
      (agent-q-chat-send-cancel))
    (agent-q-ask-rewriting-mode -1)
    (message "The rewrite is cancelled")))

;;;; Asking about an error in the debugger

;; From a debugger buffer of SLY or SLIME to a new chat with a question about its
;; error.

;;;###autoload
(defun agent-q-explain-error ()
  "Ask a new chat about the error in this debugger buffer, and go there."
  (interactive)
  (let ((look (agent-q-activity-look-here)))
    (unless (eq 'error (agent-q-activity-look-kind look))
      (user-error "This is not a debugger with an error; M-x agent-q-explain explains other things"))
    (pop-to-buffer (agent-q-explain look t))
    (goto-char (point-max))))

;;;; Messages for commits

;; Has the model write the message of the commit that is being made, and inserts it at
;; point: in the log buffers of VC, in Magit's, and wherever Git opens COMMIT_EDITMSG.  The
;; model gets the difference without private files, and no tools.  It is a session of its
;; own, which no chat shows.

(declare-function log-edit-files "log-edit")

(defcustom agent-q-commit-instructions ""
  "What commit messages should be like, for example \"In German\".
By default they follow the latest ones of the repository."
  :type 'string
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-ask--commit-task
  "Write the message for the commit whose difference is above. Only the message: no fence, no \
remark about it. A subject in the imperative, at most 72 characters, without a period; if the \
reason isn't plain from it, an empty line and what changes for whom and why, wrapped at 72. \
Follow the style of the latest subjects, if there are any.\n"
  "What the model is asked for.")

(cl-defstruct (agent-q-ask--commit-job (:constructor agent-q-ask--commit-make-job) (:copier nil))
  "A message that is being written.
PLACE is a marker where it goes, END one behind what is there of it, or nil.
ANSWER is what came so far, SHOWN what was put there, LEFT-OUT the private
files, CHANGES a handle of `prepare-change-group', or nil, and SESSION the
core's number."
  place end (answer "") (shown "") left-out changes session)

(defvar-local agent-q-ask--commit-job nil
  "In a session's buffer its job, in the buffer of a commit the session's buffer.")

;;;;; What is committed

(defun agent-q-ask--commit-directory ()
  "Return the directory of the working tree that this buffer's commit is of."
  (let ((git (and buffer-file-name
                  (string-match "\\`\\(.*/\\)\\.git/" buffer-file-name)
                  (match-string 1 buffer-file-name)))
        (link (expand-file-name "gitdir" default-directory)))
    (cond ((and buffer-file-name (file-readable-p link))
           ;; Of another working tree: the file names its .git.
           (with-temp-buffer
             (insert-file-contents link)
             (file-name-directory (string-trim (buffer-string)))))
          (git)
          (t default-directory))))

(defun agent-q-ask--commit-what ()
  "Return what this buffer's commit has: arguments of \"git diff\" and paths."
  (cond ((derived-mode-p 'log-edit-mode)
         (list '("HEAD") (mapcar (lambda (file) (concat ":(literal)" (file-relative-name file)))
                                 (log-edit-files))))
        ((or (bound-and-true-p git-commit-mode)
             (and buffer-file-name
                  (member (file-name-nondirectory buffer-file-name)
                          '("COMMIT_EDITMSG" "MERGE_MSG"))))
         (list '("--cached") nil))
        (t (user-error "This is not the message of a commit"))))

;;;;; Asking

;;;###autoload
(defun agent-q-commit-message ()
  "Insert a message at point for the commit that this buffer is about.
The model gets the diff that is committed, without private files, and the
subjects of the latest commits.  The message appears as it is written, and one
undo removes it.  Nothing else is changed.  While a message is being written,
cancel it and remove what is there."
  (interactive)
  (if (buffer-live-p agent-q-ask--commit-job)
      (progn (agent-q-ask--commit-show (buffer-local-value 'agent-q-ask--commit-job agent-q-ask--commit-job)
                                       "")
             (agent-q-ask--commit-end agent-q-ask--commit-job)
             (message "No message is written"))
    (barf-if-buffer-read-only)
    (pcase-let ((`(,arguments ,paths) (agent-q-ask--commit-what))
                (directory (agent-q-ask--commit-directory))
                (place (copy-marker (point))))
      (agent-q-events-ensure)
      (message "Reading what is committed...")
      (agent-q-attach-kinds-git-diff
       directory arguments paths
       (lambda (text more)
         (cond ((null text) (message "%s" more))
               ((not (string-blank-p text))
                (agent-q-attach-kinds-git-subjects directory
                                                   (lambda (subjects)
                                                     (agent-q-ask--commit-ask place text more subjects))))
               (more (message "Only private files are committed; their text is not sent"))
               (t (message "Nothing is %s" (if (equal arguments '("--cached"))
                                               "staged" "changed")))))))))

(defun agent-q-ask--commit-ask (place text left-out subjects)
  "Ask for a message at PLACE about TEXT, a difference without the files LEFT-OUT.
SUBJECTS are those of the latest commits, a text."
  (agent-q-provider-choose
   (lambda (provider)
     (cond ((not (buffer-live-p (marker-buffer place))))
           (provider (agent-q-ask--commit-start place text left-out subjects provider))
           (t (message "%s" (agent-q-provider-advice)))))))

(defun agent-q-ask--commit-start (place text left-out subjects provider)
  "Have PROVIDER write a message at PLACE.
TEXT, LEFT-OUT and SUBJECTS are as in `agent-q-ask--commit-ask'."
  (let ((buffer (generate-new-buffer " *agent-q commit*"))
        (session (agent-q-core-open-session
                  (agent-q-json-serialize
                   `((provider . ,provider) (tools . "none") (project_root . :null)
                     (project_instructions . "ignore") (max_iterations . 1)))
                  nil))
        (excerpt (agent-q-attach-kinds-excerpt-make "diff" "git diff" text)))
    (with-current-buffer buffer
      (setq agent-q-ask--commit-job (agent-q-ask--commit-make-job :place place :left-out left-out
                                                                  :session session)
            agent-q-events-handler #'agent-q-ask--commit-handle)
      (add-hook 'kill-buffer-hook #'agent-q-ask--commit-close nil t))
    (agent-q-events-register session buffer)
    (with-current-buffer (marker-buffer place)
      (setq agent-q-ask--commit-job buffer))
    (agent-q-core-submit
     session (concat agent-q-ask--commit-task agent-q-commit-instructions)
     (agent-q-attach-context-json nil `(,@(agent-q-attach-kinds-excerpt-pairs (list excerpt))
                                        ,@(and (not (string-blank-p subjects))
                                               (list (cons "git log, the latest subjects" subjects))))))
    (message "Writing a message for the commit...%s"
             (if (< (length (agent-q-attach-kinds-excerpt-text excerpt)) (length text))
                 "  (The diff is long; the model gets its beginning.)" ""))))

;;;;; Its answer

(defun agent-q-ask--commit-handle (event)
  "Apply EVENT of the session that writes a message."
  (pcase (plist-get event :type)
    (:text (let ((job agent-q-ask--commit-job))
             (setf (agent-q-ask--commit-job-answer job)
                   (concat (agent-q-ask--commit-job-answer job) (plist-get event :text)))
             (agent-q-ask--commit-show job (agent-q-ask--commit-begun (agent-q-ask--commit-job-answer job)))))
    (:turn-ended
     (let ((job agent-q-ask--commit-job)
           (outcome (plist-get event :outcome))
           (problem (plist-get event :message)))
       (agent-q-ask--commit-finish job (eq outcome :finished) problem)
       (agent-q-ask--commit-end (current-buffer))))))

(defun agent-q-ask--commit-plain (text)
  "Return TEXT, of a model, without what no message has."
  (replace-regexp-in-string "[^[:print:]\n\t]" "" text))

(defun agent-q-ask--commit-clean (text)
  "Return TEXT, a model's answer, as the message of a commit."
  (let ((text (string-trim (agent-q-ask--commit-plain text))))
    (if (string-match "\\````+[a-z]*\n\\(\\(?:.\\|\n\\)*?\\)\n```+\\'" text)
        (string-trim (match-string 1 text))
      text)))

(defun agent-q-ask--commit-begun (text)
  "Return what is sure of the message of which TEXT is the beginning."
  (let ((text (string-trim-left (agent-q-ask--commit-plain text))))
    (cond ((string-match "\\````+[a-z]*\n[ \t\n]*" text)
           (setq text (substring text (match-end 0))))
          ;; It may become a fence.
          ((string-match-p "\\``+[a-z]*\\'" text) (setq text "")))
    ;; As may the last line, and blanks may be all that still comes.
    (string-trim-right (replace-regexp-in-string "\n`+[ \t]*\\'" "" text))))

(defun agent-q-ask--commit-show (job text)
  "Replace what is there of JOB's message by TEXT."
  (let* ((place (agent-q-ask--commit-job-place job))
         (buffer (marker-buffer place)))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (unless (agent-q-ask--commit-job-end job)
          (setf (agent-q-ask--commit-job-end job) (copy-marker place t)
                (agent-q-ask--commit-job-changes job) (prepare-change-group))
          (undo-boundary))
        (let* ((end (agent-q-ask--commit-job-end job))
               (shown (agent-q-ask--commit-job-shown job))
               (same (length (try-completion "" (list shown text)))))
          (save-excursion
            (cond ((equal shown (buffer-substring-no-properties place end))
                   (delete-region (+ place same) end))
                  ;; The user has begun to edit it.
                  ((< same (length shown)) (setq same (length text))))
            (goto-char end)
            (insert (substring text same)))
          (setf (agent-q-ask--commit-job-shown job) text))))))

(defun agent-q-ask--commit-finish (job finished problem)
  "End JOB.  If FINISHED, all of its message is there.
Otherwise PROBLEM is the reason, or nil."
  (let ((text (if finished (agent-q-ask--commit-clean (agent-q-ask--commit-job-answer job)) ""))
        (buffer (marker-buffer (agent-q-ask--commit-job-place job)))
        (left-out (agent-q-ask--commit-job-left-out job)))
    (agent-q-ask--commit-show job text)
    (cond ((not (buffer-live-p buffer)))
          ((not finished) (message "No message was written: %s" (or problem "the model failed")))
          ((string-empty-p text) (message "The model wrote no message"))
          (t (message "Read the message before you commit%s"
                      (if left-out
                          (format "; the model has not seen %s" (string-join left-out ", "))
                        ""))))))

(defun agent-q-ask--commit-end (buffer)
  "Close the session of BUFFER, and forget it."
  (let* ((job (buffer-local-value 'agent-q-ask--commit-job buffer))
         (commit (marker-buffer (agent-q-ask--commit-job-place job))))
    (when (buffer-live-p commit)
      (with-current-buffer commit
        (kill-local-variable 'agent-q-ask--commit-job)
        (when (agent-q-ask--commit-job-changes job)
          (undo-amalgamate-change-group (agent-q-ask--commit-job-changes job))
          (undo-boundary))))
    (dolist (marker (list (agent-q-ask--commit-job-place job) (agent-q-ask--commit-job-end job)))
      (when marker (set-marker marker nil)))
    (kill-buffer buffer)))

(defun agent-q-ask--commit-close ()
  "Close the session of this buffer, which is killed."
  (let ((session (agent-q-ask--commit-job-session agent-q-ask--commit-job)))
    (agent-q-events-forget session)
    (agent-q-core-close-session session)))

(provide 'agent-q-ask)
;;; agent-q-ask.el ends here
