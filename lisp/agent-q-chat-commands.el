;;; agent-q-chat-commands.el --- Commands of a chat: model, image, retry, request, context, cost  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Commands of a chat: choosing its image, model and agent, trying a turn again, and looking
;; at the next request, the use of the context and the cost.

;;; Code:

(require 'agent-q)
(require 'agent-q-attention)
(require 'agent-q-call)
(require 'agent-q-chat-send)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image-tools)
(require 'agent-q-json)
(require 'agent-q-module)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-render)
(require 'agent-q-render-body)
(require 'agent-q-session)
(require 'agent-q-specifications)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Choosing what a chat talks to

;; The commands that choose the image of a chat, its model, and the agent that it
;; follows.

;;;###autoload
(defun agent-q-set-image (connection)
  "Connect the current chat to the image behind CONNECTION."
  (interactive
   (let ((choices (mapcar (lambda (connection)
                            (cons (agent-q-connection-label connection) connection))
                          (agent-q-connection-connections))))
     (unless choices
       (user-error "No Lisp is connected; M-x sly or M-x slime starts one"))
     (list (cdr (assoc (completing-read "Lisp image: " choices nil t)
                       choices)))))
  (agent-q-session-check)
  (setq agent-q-session-connection connection
        agent-q-chat-send-images (agent-q-connection-connections))
  (agent-q-image-tools-ensure connection)
  (agent-q-chat-send-settings-changed)
  (agent-q-chat-view-header-update)
  (agent-q-chat-view-welcome-update))

;; With the autoloads, as an autoload of its own could not be told from this.
;;;###autoload (define-obsolete-function-alias 'agent-q-chat-set-connection #'agent-q-set-image "0.1.0")

;;;###autoload
(defun agent-q-set-model (provider)
  "Use the model of PROVIDER in the current chat, from its next request on.
Interactively, choose among the models that the hosts with a key and the
servers on this machine list; what is known of each, such as its window and its
price, stands beside it.  Another model of a listed host can be typed
after its name."
  (interactive
   (let ((candidates (agent-q-provider-candidates)))
     (unless candidates
       (user-error "%s" (agent-q-provider-advice)))
     (list (agent-q-provider-chosen (agent-q-provider-read candidates) candidates))))
  (unless agent-q-session-chat-p
    (user-error "Not in a chat; `agent-q-provider' and `agent-q-model' are for new ones"))
  (agent-q-chat-use-provider provider)
  ;; From here on, the answers are another model's.
  (unless (agent-q-chat-view-welcome-shown-p)
    (agent-q-render-notice (format "Model: %s" (agent-q-provider-label provider))))
  (message "Model: %s" (agent-q-provider-label provider)))

(defconst agent-q-chat-commands--own-effort "the provider's own"
  "What no effort of the chat itself is called.")

(defun agent-q-chat-commands-effort ()
  "Return the reasoning effort that this chat asks for, as text."
  (format "%s" (or agent-q-session-effort (alist-get 'effort agent-q-session-provider) "default")))

(defun agent-q-chat-commands-effort-p ()
  "Whether this chat's model may be asked to think more or less."
  (and agent-q-session-provider (agent-q-provider-thinks-p agent-q-session-provider)))

(defun agent-q-chat-commands--read-effort ()
  "Ask the user for an effort and return it; the present one is the default."
  (let* ((present (format "%s" (or agent-q-session-effort agent-q-chat-commands--own-effort)))
         (efforts (cons agent-q-chat-commands--own-effort
                        (mapcar #'symbol-name agent-q-provider-form-efforts)))
         (choice (completing-read
                  (format-prompt "Effort" present)
                  (lambda (string predicate action)
                    (if (eq action 'metadata)
                        ;; As they are: from little to much.
                        '(metadata (display-sort-function . identity)
                                   (cycle-sort-function . identity))
                      (complete-with-action action efforts string predicate)))
                  nil t nil nil present)))
    (unless (equal choice agent-q-chat-commands--own-effort)
      (intern choice))))

;;;###autoload
(defun agent-q-set-effort (effort)
  "Make the model of the current chat think with EFFORT from its next request on.
That is a symbol: none, minimal, low, medium, high, xhigh or max.  nil is the
provider's own or `agent-q-effort'."
  (interactive (list (agent-q-chat-commands--read-effort)))
  (agent-q-session-check)
  (unless agent-q-session-provider
    (user-error "This chat has no model; M-x agent-q-set-model chooses one"))
  (when (and effort (not (agent-q-provider-thinks-p agent-q-session-provider)))
    (user-error "%s doesn't think" (agent-q-provider-label agent-q-session-provider)))
  (setq agent-q-session-effort effort)
  (agent-q-chat-use-provider (agent-q-provider-again agent-q-session-provider))
  (message "Effort: %s" (or effort agent-q-chat-commands--own-effort)))

(defvar-local agent-q-chat-commands--model nil
  "What the agent of the current chat did to its model, (BEFORE . SINCE), or nil.
Both are providers without their secrets; nil means no model.")

;;;###autoload
(defun agent-q-chat-use-agent (file &optional libraries)
  "Make the current chat follow the agent in FILE, a gram file.
The agent's instruction, model and tools count from the next message on.
LIBRARIES are the names of the tool libraries that its tools are bound to,
used in turn; with one the chat stays with it.  Interactively, choose them
among those of `agent-q-tool-libraries'.  When FILE is nil or empty, the chat
follows no agent any more, and has the model that it had before."
  (interactive
   (let ((file (read-file-name "Agent (empty for none): " nil "" t)))
     (list file
           (and (not (string-empty-p file))
                (agent-q-chat-commands--read-libraries)))))
  (unless agent-q-session-chat-p
    (user-error "Not in a chat; M-x agent-q-chat opens one"))
  (if (member file '(nil ""))
      (progn (setq agent-q-specifications-agent-current nil)
             (message "This chat follows no agent%s"
                      (if (agent-q-chat-commands--restore-model)
                          (format "; its model is %s again"
                                  (agent-q-provider-label agent-q-session-provider))
                        "")))
    (agent-q-chat-commands--use (agent-q-chat-commands--read file) libraries))
  (agent-q-chat-send-settings-changed))

(defun agent-q-chat-commands--read (file)
  "Return the agent in FILE."
  (agent-q-agent-from-gram
   (with-temp-buffer
     (let ((coding-system-for-read 'utf-8))
       (insert-file-contents file))
     (buffer-string))))

(defun agent-q-chat-commands--read-libraries ()
  "Ask for the names of tool libraries, if there is a choice."
  (let ((names (mapcar #'car agent-q-tool-libraries)))
    (if (cdr names)
        (completing-read-multiple "Libraries, used in turn: " names nil t)
      names)))

(defun agent-q-chat-commands--use (agent libraries)
  "Make the current chat follow AGENT with the LIBRARIES of these names."
  (let ((unknown (seq-remove (lambda (name) (assoc name agent-q-tool-libraries))
                             libraries)))
    (when unknown
      (user-error "No tool library is named %s; `agent-q-tool-libraries' lists them"
                  (car unknown))))
  (when (and (agent-q-agent-tools agent) (null libraries))
    (user-error "The agent %s has tools, but `agent-q-tool-libraries' has no library for them"
                (agent-q-agent-name agent)))
  (dolist (name libraries)
    (agent-q-chat-commands--check agent name))
  (setq agent-q-specifications-agent-current
        (agent-q-specifications-agent-make-choice :agent agent :libraries libraries))
  (let ((problem (agent-q-chat-commands--use-model agent)))
    (message "This chat follows the agent %s%s" (agent-q-agent-name agent)
             (if problem (concat "; " problem) ""))))

(defun agent-q-chat-commands--check (agent name)
  "Signal a `user-error' unless the library NAME has all tools of AGENT."
  (dolist (specification (agent-q-agent-tools agent))
    (let ((problem (agent-q-bind-tool-explain specification
                                              (agent-q-specifications-agent-library name))))
      (when problem
        (user-error "The library %s does not match the agent: %s" name problem)))))

(defun agent-q-chat-commands--use-model (agent)
  "Make the current chat use the model of AGENT.
Return nil, or why it keeps the one that it has."
  (let* ((model (agent-q-agent-model agent))
         (provider (agent-q-provider-named (plist-get model :provider)
                                           (plist-get model :id))))
    (if provider
        (let ((before (if (agent-q-chat-commands--model-p) (car agent-q-chat-commands--model)
                        agent-q-session-provider)))
          (agent-q-chat-use-provider provider)
          (setq agent-q-chat-commands--model (cons before agent-q-session-provider))
          nil)
      (agent-q-chat-commands--restore-model)
      (format "`agent-q-providers' has no key or no host for %s, so it keeps its model"
              (plist-get model :provider)))))

(defun agent-q-chat-commands--model-p ()
  "Whether the current chat talks to the model that its agent brought."
  (and agent-q-chat-commands--model
       (eq (cdr agent-q-chat-commands--model) agent-q-session-provider)))

(defun agent-q-chat-commands--restore-model ()
  "Make the current chat use the model that it had before its agent.
One that the user chose since then stays.  Return non-nil if it does again."
  (let ((brought (agent-q-chat-commands--model-p))
        (before (car agent-q-chat-commands--model)))
    (setq agent-q-chat-commands--model nil)
    (cond ((not brought) nil)
          (before (agent-q-chat-use-provider (agent-q-provider-again before))
                  t)
          ;; It had none, or was still looking for one.
          (t (agent-q-chat-send-provider)
             nil))))

;;;; Requests to a model that are tried again

;; However often a request fails before its answer begins, the log has one line about it,
;; with the latest failure and how long it takes until the request is sent again.

(cl-defstruct (agent-q-chat-commands-backoff (:include agent-q-render-item)
                                             (:constructor agent-q-chat-commands--backoff-make)
                                             (:copier nil))
  "The line about a request that is tried again.
EVENT is the latest of its events, and DUE the time at which the request is
sent again, nil once that happened, or `never' if the turn ended before."
  event due)

(defvar-local agent-q-chat-commands--backoff-last nil
  "The line about the request that runs, or nil if it has not failed.")

(defun agent-q-chat-commands--backoff-reason (text)
  "Return TEXT, the core's sentences on a failure, without markup and advice.
To try again is what happens anyway."
  (string-trim
   (replace-regexp-in-string
    "[ \t\n]+" " "
    (replace-regexp-in-string
     " \\(?:Try again later\\|Wait, then try again\\|Try again\\)\\." ""
     (replace-regexp-in-string "</?[a-zA-Z!][^<>]*>" " " text)))))

(defun agent-q-chat-commands--backoff-left (line)
  "Return in how many seconds the request of LINE is sent again, or nil."
  (let ((due (agent-q-chat-commands-backoff-due line)))
    (and due
         (not (eq due 'never))
         (let ((left (float-time (time-subtract due nil))))
           (and (> left 0) left)))))

(defun agent-q-chat-commands--backoff-next (line)
  "Return as text what comes of the request of LINE."
  (let* ((event (agent-q-chat-commands-backoff-event line))
         (left (agent-q-chat-commands--backoff-left line))
         (count (format "(%d of %d)" (plist-get event :attempt) (plist-get event :attempts))))
    (cond ((eq 'never (agent-q-chat-commands-backoff-due line)) "not sent again")
          ((null left) (format "sent again %s" count))
          ((< left 1) (format "sending again %s" count))
          (t (format (substitute-command-keys
                      "\\<agent-q-chat-mode-map>sending again in %d s %s, \\[agent-q-chat-send-cancel] stops")
                     (ceiling left) count)))))

(defun agent-q-chat-commands--backoff-draw (line)
  "Return the text of LINE: its head, or all of it when it is unfolded."
  (let* ((event (agent-q-chat-commands-backoff-event line))
         (next (concat (agent-q-render-fold-sign line) " " (agent-q-chat-commands--backoff-next line)))
         (reason (agent-q-text-visible-line
                  (agent-q-chat-commands--backoff-reason (or (plist-get event :reason) "")) 1000)))
    (propertize
     (if (agent-q-render-item-expanded line)
         (concat next "\n" (agent-q-render-body (or (plist-get event :reason) "")
                                                #'agent-q-text-visible-prose))
       (concat next ": "
               (agent-q-call-cut reason (max 10 (- (agent-q-call-width) (length next) 2)))))
     'face 'agent-q-dim 'mouse-face 'highlight)))

(defun agent-q-chat-commands--backoff-finish (due)
  "Forget earlier failures; DUE is what becomes of the request that failed last."
  (when agent-q-chat-commands--backoff-last
    (setf (agent-q-chat-commands-backoff-due agent-q-chat-commands--backoff-last) due)
    (agent-q-render-update-item agent-q-chat-commands--backoff-last)
    (setq agent-q-chat-commands--backoff-last nil)))

(defun agent-q-chat-commands-backoff-begin ()
  "Forget earlier failures: another request begins, or this one is being answered."
  (agent-q-chat-commands--backoff-finish nil))

(defun agent-q-chat-commands-backoff-over (outcome)
  "Forget earlier failures: the turn ended with OUTCOME.
Its request may have waited then, if it was cancelled; else it was sent again,
and its answer came before its time as it is counted here."
  (agent-q-chat-commands--backoff-finish
   (and (eq outcome :cancelled)
        agent-q-chat-commands--backoff-last
        (agent-q-chat-commands--backoff-left agent-q-chat-commands--backoff-last)
        'never)))

(defun agent-q-chat-commands-backoff-tick ()
  "Show how long it takes until the request is sent again, as time has passed."
  (let ((line agent-q-chat-commands--backoff-last))
    (when (and line (agent-q-chat-commands-backoff-due line))
      (unless (agent-q-chat-commands--backoff-left line)
        (setf (agent-q-chat-commands-backoff-due line) nil))
      (agent-q-render-update-item line))))

(defun agent-q-chat-commands-backoff-show (event)
  "Show EVENT: a request failed and is tried again."
  (let ((due (time-add nil (plist-get event :seconds))))
    (if agent-q-chat-commands--backoff-last
        (progn (setf (agent-q-chat-commands-backoff-event agent-q-chat-commands--backoff-last) event
                     (agent-q-chat-commands-backoff-due agent-q-chat-commands--backoff-last) due)
               (agent-q-render-update-item agent-q-chat-commands--backoff-last))
      (setq agent-q-chat-commands--backoff-last
            (agent-q-chat-commands--backoff-make :draw #'agent-q-chat-commands--backoff-draw :event event :due due))
      (agent-q-render-add-item agent-q-chat-commands--backoff-last))))

;;;; Going on after a turn that failed

;; Under a turn that failed or stopped there is a button that sends the message
;; again, or asks the model to go on, after making room where the conversation may be
;; too long.  A turn that met a limit waits until its user lets
;; it go on or stops it.

(defun agent-q-retry ()
  "Send your last message again, with all that was attached to it."
  (interactive)
  (agent-q-session-check)
  (agent-q-chat-send-submit-again)
  (agent-q-chat-commands--retry-follow))

(defun agent-q-chat-commands--retry-follow ()
  "Leave a button of this chat, as it is done with, for where the answer comes."
  (unless (agent-q-prompt-p)
    (goto-char (point-max))))

(defun agent-q-continue ()
  "Continue a turn that met a limit, or ask the model to continue where it stopped."
  (interactive)
  (agent-q-session-check)
  (if (eq agent-q-chat-view-header-state :paused)
      (agent-q-core-go-on agent-q-session-number)
    (agent-q-chat-commands--retry-ask-for-more))
  (agent-q-chat-commands--retry-follow))

(defun agent-q-chat-commands--retry-ask-for-more ()
  "Ask the model to continue where it stopped.
Its changes of files are reviewed as before."
  (let ((latest (agent-q-chat-send-queue-latest)))
    (agent-q-chat-send-submit "Continue." nil nil
                              (and latest (agent-q-chat-send-queue-message-review latest)))))

(defun agent-q-chat-commands--retry-go-on ()
  "Let the turn go on that met a limit."
  (agent-q-chat-commands--retry-check-paused)
  (agent-q-core-go-on agent-q-session-number)
  (agent-q-chat-commands--retry-follow))

(defun agent-q-chat-commands--retry-stop ()
  "End the turn that met a limit."
  (agent-q-chat-commands--retry-check-paused)
  (agent-q-core-stop-at-limit agent-q-session-number))

(defun agent-q-chat-commands--retry-check-paused ()
  "Signal an error unless the turn of this chat waits at a limit."
  (unless (eq agent-q-chat-view-header-state :paused)
    (user-error "This question was already answered")))

(defun agent-q-chat-commands-retry-ask (text)
  "Ask the user whether a turn may go on that met a limit, which TEXT names."
  (agent-q-render-notice (concat text " Continue? (y or n, then RET)") 'agent-q-attention)
  (agent-q-render-button "[Continue]" #'agent-q-chat-commands--retry-go-on 'limit)
  (agent-q-render-button "[Stop]" #'agent-q-chat-commands--retry-stop 'limit)
  (agent-q-attention-tell "The turn met a limit; continue?"))

(defun agent-q-chat-commands--retry-choose-model ()
  "Choose another model for this chat; the last message can be sent to it then."
  (call-interactively #'agent-q-set-model))

(defun agent-q-chat-commands--retry-set-key ()
  "Set another key for the host of this chat; the last message can be sent then."
  (agent-q-chat-view-set-key (alist-get 'name agent-q-session-provider)))

(defun agent-q-chat-commands--retry-make-room ()
  "Have the model summarize all but the latest of this chat."
  (agent-q-session-check)
  (agent-q-chat-send-configure)
  (agent-q-core-compact agent-q-session-number))

(defun agent-q-chat-commands--retry-shorter ()
  "Make room in the conversation, then send the last message again."
  (agent-q-chat-commands--retry-make-room)
  (agent-q-retry))

(defun agent-q-chat-commands--retry-continue-shorter ()
  "Make room in the conversation, then ask the model to go on where it stopped."
  (agent-q-chat-commands--retry-make-room)
  (agent-q-continue))

(defun agent-q-chat-commands-retry-offer (outcome why)
  "Show the buttons that fit a turn that ended with OUTCOME, because of WHY."
  (pcase outcome
    (:failed
     (when (agent-q-chat-send-queue-latest)
       (when (eq why :long)
         (agent-q-render-button "[Make room and try again]" #'agent-q-chat-commands--retry-shorter 'turn))
       (agent-q-render-button "[Try again]" #'agent-q-retry 'turn))
     (when (eq why :key)
       (agent-q-render-button "[Set a key]" #'agent-q-chat-commands--retry-set-key 'turn))
     (when (eq why :no-such-model)
       (agent-q-render-button "[Choose another model]" #'agent-q-chat-commands--retry-choose-model 'turn)))
    ((or :limit :interrupted)
     (when (eq why :long)
       (agent-q-render-button "[Make room and continue]"
                              #'agent-q-chat-commands--retry-continue-shorter 'turn))
     (agent-q-render-button "[Continue]" #'agent-q-continue 'turn))))

;;;; What a chat would send

;; Shows the very request that a chat would send now: address, headers and body, as JSON
;; and without secrets.  The core makes it just as if it were sent.

(defvar agent-q-chat-commands--request-questions nil
  "The questions that wait for an answer, an alist from numbers to windows.
The window is the one that the user asked from, or nil where the answer takes
until a turn is over.")

;;;###autoload
(defun agent-q-show-request ()
  "Show what this chat would send to the model now, with the text at its prompt.
Keys are left out, and so are the values of headers of your own.  While a turn
runs, it is shown when the turn is over."
  (interactive)
  (agent-q-session-check)
  (agent-q-events-ensure)
  (agent-q-chat-send-configure)
  (let ((text (string-trim (agent-q-prompt-text))))
    (push (cons (agent-q-core-show-request agent-q-session-number
                                           (and (not (string-empty-p text))
                                                (agent-q-text-clean text))
                                           (agent-q-chat-send-context))
                (and (not (agent-q-chat-view-header-busy-p)) (selected-window)))
          agent-q-chat-commands--request-questions))
  (when (agent-q-chat-view-header-busy-p)
    (message "The request is shown when this turn is over")))

;;;###autoload
(defun agent-q-sync-instructions ()
  "Make this chat's model read `agent-q-instructions' as they are now.
A chat keeps those that its model has read first, because a change of them
costs the provider's cache of the whole conversation."
  (interactive)
  (agent-q-session-check)
  (agent-q-core-sync-instructions agent-q-session-number)
  (message "The next message takes over agent-q-instructions"))

(defun agent-q-chat-commands--request-answered (event)
  "Show the request in EVENT, if the user has asked for it."
  (when-let ((asked (assq (plist-get event :question) agent-q-chat-commands--request-questions)))
    (setq agent-q-chat-commands--request-questions (delq asked agent-q-chat-commands--request-questions))
    (if (plist-get event :problem)
        (message "%s" (plist-get event :problem))
      (agent-q-chat-commands--request-show (plist-get event :request) (cdr asked)))))

(define-derived-mode agent-q-chat-commands-request-mode agent-q-render-body-page-mode "agent-q request"
  "Major mode of what would be sent to a model, as JSON."
  ;; Strings get their face by the syntax.
  (setq-local font-lock-defaults
              '((("^ *\\(\"[^\"\n]+\"\\):" 1 font-lock-keyword-face t)))))

(defun agent-q-chat-commands--request-show (json asked)
  "Show JSON, the text of a request, in a buffer of its own.
Go there if it was asked for in the window ASKED, which is nil if a turn ran."
  (let ((text (concat json "\n")))
    (if asked
        (agent-q-render-body-visit "*agent-q request*" text #'agent-q-chat-commands-request-mode asked)
      (agent-q-render-body-show "*agent-q request*" text #'agent-q-chat-commands-request-mode))))

(agent-q-events-subscribe :request-shown #'agent-q-chat-commands--request-answered)

;;;; What fills the window of a chat's model

;; Shows what a model has to read with each request, and has it write a summary in
;; place of the older part.  The log stays as it is: only the model reads the summary.

;;;;; Summaries

(cl-defstruct (agent-q-chat-commands-usage-summary (:include agent-q-render-item)
                                                   (:constructor agent-q-chat-commands--usage-summary-make)
                                                   (:copier nil))
  "The line of the log about a summary; EVENT is what the core said of it."
  event)

(defun agent-q-chat-commands--usage-draw-summary (item)
  "Return the text of ITEM: its head, or all of it when it is unfolded."
  (let ((event (agent-q-chat-commands-usage-summary-event item)))
    (concat
     (propertize (format "%s Summarized %d message%s: %s tokens in place of %s"
                         (agent-q-render-fold-sign item)
                         (plist-get event :messages)
                         (if (eql 1 (plist-get event :messages)) "" "s")
                         (agent-q-chat-view-header-tokens (plist-get event :after))
                         (agent-q-chat-view-header-tokens (plist-get event :before)))
                 'face 'agent-q-dim 'mouse-face 'highlight)
     (when (agent-q-render-item-expanded item)
       (concat "\n" (agent-q-render-body (plist-get event :summary) #'agent-q-text-visible-prose))))))

(defvar-local agent-q-chat-commands--usage-summaries nil
  "The summaries in the log that were not undone, the latest one first.")

(defun agent-q-chat-commands-usage-summarized (event)
  "Show the summary of EVENT, which took the place of earlier messages."
  (let ((item (agent-q-chat-commands--usage-summary-make :draw #'agent-q-chat-commands--usage-draw-summary :event event)))
    (agent-q-render-add-item item)
    (push item agent-q-chat-commands--usage-summaries)
    (agent-q-render-button "[Undo the summary]" #'agent-q-undo-compact item)))

(defconst agent-q-chat-commands--usage-summarizing "The model summarizes the conversation..."
  "What the echo area says while a summary is written.")

;;;###autoload
(defun agent-q-compact ()
  "Make the model write a summary, and read it in place of all but the latest.
That makes room in its window.  The log of the chat stays as it is, and
\\[agent-q-undo-compact] makes the model read everything again.  While a turn
runs, this waits until it is over."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (agent-q-events-ensure)
  (agent-q-chat-send-configure)
  (agent-q-core-compact agent-q-session-number)
  (message (if (agent-q-chat-view-header-busy-p)
               "The conversation is summarized when this turn is over"
             agent-q-chat-commands--usage-summarizing)))

(defun agent-q-chat-commands--usage-over (_event)
  "Clear the echo area when no summary is being written any more."
  (when (equal (current-message) agent-q-chat-commands--usage-summarizing)
    (message nil)))

;;;###autoload
(defun agent-q-undo-compact ()
  "Make the model read again what its latest summary stands for."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (agent-q-core-undo-compaction agent-q-session-number)
  (agent-q-render-settle (pop agent-q-chat-commands--usage-summaries)))

;;;;; The window

(defvar agent-q-chat-commands--usage-questions nil
  "The numbers of the questions that wait for an answer.")

;;;###autoload
(defun agent-q-context-usage ()
  "Show what fills the window of this chat's model, and where a summary is due.
While a turn runs, it is shown when the turn is over."
  (interactive)
  (agent-q-session-check)
  (agent-q-events-ensure)
  (agent-q-chat-send-configure)
  (push (cons (agent-q-core-show-window agent-q-session-number) (selected-window))
        agent-q-chat-commands--usage-questions)
  (when (agent-q-chat-view-header-busy-p)
    (message "The window is shown when this turn is over")))

(defun agent-q-chat-commands--usage-answered (event)
  "Show the report in EVENT, if the user has asked for it."
  (when-let ((question (assq (plist-get event :question) agent-q-chat-commands--usage-questions)))
    (setq agent-q-chat-commands--usage-questions
          (delq question agent-q-chat-commands--usage-questions))
    (if (plist-get event :problem)
        (message "%s" (plist-get event :problem))
      (let ((report (agent-q-json-parse (plist-get event :report)))
            ;; A user who went on elsewhere stays there.
            (help-window-select (eq (cdr question) (selected-window))))
        (with-help-window "*agent-q window*"
          (princ (agent-q-chat-commands--usage-text report)))
        (agent-q-text-give-menu "*agent-q window*")))))

(defconst agent-q-chat-commands--usage-bar 30
  "How many columns the whole window has as a bar.")

(defun agent-q-chat-commands--usage-number (value)
  "Return VALUE, a number of tokens, with its digits in groups."
  (let ((text (number-to-string value)))
    (while (string-match "\\([0-9]\\)\\([0-9]\\{3\\}\\)\\(,\\|\\'\\)" text)
      (setq text (replace-match "\\1,\\2\\3" nil nil text)))
    text))

(defun agent-q-chat-commands--usage-text (report)
  "Return REPORT, a hash table, as text for the user."
  (let ((tokens (gethash "tokens" report))
        (window (gethash "window" report))
        (limit (gethash "compacts_at" report))
        (summary (gethash "summary" report)))
    (concat
     (if (numberp window)
         (format "The model reads about %s tokens of the %s that it can take (%d%%).\n"
                 (agent-q-chat-commands--usage-number tokens) (agent-q-chat-commands--usage-number window)
                 (round (* 100.0 tokens) (max 1 window)))
       (format "The model reads about %s tokens.  How many it can take is not known; \
set agent-q-context-window to tell.\n"
               (agent-q-chat-commands--usage-number tokens)))
     (cond ((numberp limit)
            (format "Older messages are summarized beyond %s tokens (agent-q-compact-at).\n"
                    (agent-q-chat-commands--usage-number limit)))
           (t "Older messages are summarized when the host refuses more.\n"))
     (format "\n%-14s %5s %12s  %s\n" "" "Count" "Tokens" "Share")
     (mapconcat (lambda (row) (agent-q-chat-commands--usage-row row (if (numberp window) window tokens)))
                (gethash "rows" report) "")
     (agent-q-chat-commands--usage-largest (append (gethash "largest" report) nil))
     (if (stringp summary)
         (concat "\nWhat it reads in place of what came before\n\n"
                 (agent-q-text-visible-prose summary) "\n")
       ""))))

(defun agent-q-chat-commands--usage-row (row whole)
  "Return ROW of a report as a line, in a window of WHOLE tokens."
  (let ((tokens (gethash "tokens" row)))
    (format "%-14s %5d %12s  %s\n"
            (gethash "name" row) (gethash "count" row) (agent-q-chat-commands--usage-number tokens)
            (make-string (max (if (> tokens 0) 1 0)
                              (min agent-q-chat-commands--usage-bar
                                   (round (* (float agent-q-chat-commands--usage-bar) tokens)
                                          (max 1 whole))))
                         ?#))))

(defun agent-q-chat-commands--usage-largest (messages)
  "Return MESSAGES, the largest ones, as lines."
  (if (null messages) ""
    (concat
     (format "\n%-14s %5s %12s  %s\n" "The largest" "Turn" "Tokens" "Begins with")
     (mapconcat (lambda (message)
                  (format "%-14s %5s %12s  %s\n"
                          (gethash "what" message)
                          (format "#%d" (gethash "turn" message))
                          (agent-q-chat-commands--usage-number (gethash "tokens" message))
                          (agent-q-text-visible-line (gethash "text" message) 40)))
                messages ""))))

(agent-q-events-subscribe :turn-ended #'agent-q-chat-commands--usage-over)
(agent-q-events-subscribe :window-shown #'agent-q-chat-commands--usage-answered)

;;;; What a chat cost

;; Says what the last turn of a chat and the whole chat cost, as far as the prices of the
;; models are known, and how that is shown in lists.

(defun agent-q-chat-commands-cost-text (dollars unpriced)
  "Return DOLLARS as a short text; UNPRICED requests had no known price.
DOLLARS is nil if none of them had one."
  (cond ((and dollars (< 0 dollars))
         (concat (agent-q-chat-view-header-dollars dollars)
                 (if (< 0 (or unpriced 0)) "+?" "")))
        ((< 0 (or unpriced 0)) "?")
        (t "")))

(defun agent-q-chat-commands--cost-sentence (dollars unpriced input output more)
  "Say what DOLLARS, UNPRICED requests, INPUT and OUTPUT tokens amount to.
MORE is put behind the number of tokens that were sent."
  (format "%s%s; %s tokens sent%s, %s received"
          (if dollars (agent-q-chat-view-header-dollars dollars) "unknown")
          (cond ((or (null dollars) (eql unpriced 0)) "")
                ((eql unpriced 1) " and a request of unknown price")
                (t (format " and %d requests of unknown price" unpriced)))
          (agent-q-chat-view-header-tokens input) more (agent-q-chat-view-header-tokens output)))

;;;###autoload
(defun agent-q-cost ()
  "Say what the last turn of this chat cost, and what the whole chat did.
Requests of unknown price are listed as such."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (if (zerop (+ agent-q-chat-view-header-input agent-q-chat-view-header-output))
      (agent-q-render-notice "No token counts yet; some servers don't report them.")
    (pcase agent-q-chat-view-header-turn
      (`(,input ,output ,_ ,unpriced)
       (agent-q-render-notice
        (concat "The last turn cost " (agent-q-chat-commands--cost-sentence agent-q-chat-view-header-turn-cost unpriced
                                                         input output "")
                "."))))
    (agent-q-render-notice
     (concat "This chat cost "
             (agent-q-chat-commands--cost-sentence
              agent-q-chat-view-header-cost agent-q-chat-view-header-unpriced
              agent-q-chat-view-header-input agent-q-chat-view-header-output
              (if (< 0 agent-q-chat-view-header-cached)
                  (format " (%s of these from the cache)"
                          (agent-q-chat-view-header-tokens agent-q-chat-view-header-cached))
                ""))
             "."
             (let ((date (agent-q-provider-prices-date agent-q-session-provider)))
               (cond ((null agent-q-chat-view-header-cost)
                      "  :prices in the :models of `agent-q-providers' says what a model costs.")
                     (date (format "  Prices as of %s." date))
                     (t "")))))))

(provide 'agent-q-chat-commands)
;;; agent-q-chat-commands.el ends here
