;;; agent-q-chat-send.el --- What a chat sends, and what waits to be sent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a chat sends: the settings of its session, messages with what is attached to them,
;; messages that wait while a turn runs, plans, and messages that are written in a buffer of
;; their own.

;;; Code:

(require 'agent-q)
(require 'agent-q-approval)
(require 'agent-q-attach)
(require 'agent-q-attach-kinds)
(require 'agent-q-chat-history)
(require 'agent-q-chat-view)
(require 'agent-q-completion)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-execute)
(require 'agent-q-image-tools)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-server-texts)
(require 'agent-q-servers)
(require 'agent-q-session)
(require 'agent-q-specifications)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Planning before anything is changed

;; In plan mode the agent looks and thinks, and presents a plan; calls that could change
;; something are refused by the core.  "Do it" switches it off and lets the plan be
;; carried out.

(defcustom agent-q-plan-evaluates nil
  "Whether code may be evaluated in plan mode.
It then runs if nothing dangerous is found in it."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload
(define-minor-mode agent-q-plan-mode
  "Make the agent of this chat look and plan, and change nothing.
It is told so with your next message.  Calls that could change something are
refused; \\[agent-q-plan-do] ends this and makes the agent carry out the plan."
  :init-value nil
  :lighter nil
  (if agent-q-session-chat-p
      (progn (setq agent-q-chat-view-header-planning agent-q-plan-mode)
             (agent-q-chat-view-header-update)
             (agent-q-chat-send-settings-changed)
             (message (if agent-q-plan-mode
                          "Plan mode is on: the agent looks and plans, and changes nothing"
                        "Plan mode is off")))
    (setq agent-q-plan-mode nil)
    (user-error "Not in a chat")))

(defun agent-q-chat-send-plan-setting ()
  "Return what the core has to know of plan mode in this chat."
  (cond ((not agent-q-plan-mode) "off")
        (agent-q-plan-evaluates "evaluate")
        (t "look")))

;;;###autoload
(defun agent-q-plan-do ()
  "Switch plan mode off and make the agent carry out its plan."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (unless agent-q-plan-mode
    (user-error "Plan mode is off"))
  (agent-q-plan-mode -1)
  (agent-q-chat-send-submit "Do it."))

(defun agent-q-chat-send-plan-offer ()
  "Show under a turn in plan mode the button that has the plan carried out."
  (when agent-q-plan-mode
    ;; A plan ends with a list, of which the button is not a part.
    (agent-q-render-finish)
    (agent-q-render-space)
    (agent-q-render-button "[Do it]" #'agent-q-plan-do 'turn)))

;; A plan is a list of items with boxes, which the agent ticks by writing them again.

(defconst agent-q-chat-send--plan-item
  "^[ \t]*\\(?:[-*+]\\|[0-9]+[.)]\\) +\\[\\([ xX]\\)\\] +\\(.+\\)$"
  "An item of a plan: its tick, and its text.")

(defun agent-q-chat-send--plan-items (text)
  "Return the items of plans in TEXT, each as (ITEM . DONE)."
  (let ((items nil) (start 0))
    (while (string-match agent-q-chat-send--plan-item text start)
      (setq start (match-end 0))
      (setf (alist-get (agent-q-text-visible-line (match-string 2 text) 200) items nil nil #'equal)
            (not (equal (match-string 1 text) " "))))
    (nreverse items)))

(defun agent-q-chat-send-plan-note ()
  "Take in the items of a plan that the last answer of this chat has.
Those of another plan take its place; of the same, some may be ticked."
  (let ((items (agent-q-chat-send--plan-items
                (or (agent-q-render-last-answer agent-q-chat-send--plan-item) "")))
        (known agent-q-chat-view-header-items))
    (when (and items (not (equal items known)))
      (setq agent-q-chat-view-header-items
            (if (seq-some (lambda (item) (assoc (car item) items)) known)
                (append (mapcar (lambda (item) (or (assoc (car item) items) item)) known)
                        (seq-remove (lambda (item) (assoc (car item) known)) items))
              items))
      (agent-q-chat-view-header-update))))

;;;; The messages of a chat that wait

;; The core keeps what is sent while a turn runs until the turn is over, or until the running
;; turn takes it in.  Here is what the log has to show of a message once an event says that
;; it is read; until then it is shown above the prompt, where it can be edited or dropped.

(cl-defstruct (agent-q-chat-send-queue-message (:constructor agent-q-chat-send-queue-message) (:copier nil))
  "A message that the user sends.
TEXT is what they typed.  SEND is a function that hands it to the core, whose
error is the user's, and returns ID, the number that the core gives it.  LOOK
is what they send along, or nil, and REVIEW is non-nil if the changes of files
which its turn makes are reviewed as diffs: the sentence that only the model
reads on how to make them.  EXCERPTS are what is attached
because the message mentions it.  WAITS is `next-step' if the running turn is
to take it in, `queued' if it is sent when that turn ends, and else nil."
  text send look review excerpts id waits)

(defvar-local agent-q-chat-send--queue nil
  "The messages that the core has and the log doesn't show, first one first.")

(defvar-local agent-q-chat-send--queue-latest nil
  "The message that was read last, or nil.")

(defvar-local agent-q-chat-send--queue-overlay nil
  "The overlay that shows the waiting messages above the prompt.")

(defun agent-q-chat-send-queue-waiting (&optional how)
  "Return the messages of this chat that wait, or only those that wait as HOW."
  (seq-filter (lambda (message)
                (let ((waits (agent-q-chat-send-queue-message-waits message)))
                  (if how (eq waits how) waits)))
              agent-q-chat-send--queue))

;;;;; Coming and going

(defun agent-q-chat-send-queue-add (message &optional next-step)
  "Send MESSAGE, now or when the running turn is over.
With NEXT-STEP, the running turn takes it in.  Return non-nil if it waits."
  (setf (agent-q-chat-send-queue-message-waits message)
        (cond (next-step 'next-step)
              ((agent-q-chat-view-header-busy-p) 'queued))
        (agent-q-chat-send-queue-message-id message)
        (funcall (agent-q-chat-send-queue-message-send message))
        agent-q-chat-send--queue (append agent-q-chat-send--queue (list message)))
  (agent-q-chat-send--queue-changed)
  (agent-q-chat-send-queue-message-waits message))

(defun agent-q-chat-send-queue-read (id text)
  "Return the message of the number ID, TEXT, which no longer waits."
  (setq agent-q-chat-send--queue-latest
        (or (car (agent-q-chat-send--queue-remove (list id)))
            (agent-q-chat-send-queue-message :text text))))

(defun agent-q-chat-send--queue-remove (ids)
  "Return the messages of the numbers IDS, which don't wait any more."
  (let ((removed (seq-filter (lambda (message)
                               (memql (agent-q-chat-send-queue-message-id message) ids))
                             agent-q-chat-send--queue)))
    (setq agent-q-chat-send--queue (seq-difference agent-q-chat-send--queue removed #'eq))
    (agent-q-chat-send--queue-changed)
    removed))

(defun agent-q-chat-send-queue-texts ()
  "Return the texts of all messages that wait."
  (mapcar #'agent-q-chat-send-queue-message-text
          (append (agent-q-chat-send-queue-waiting 'next-step)
                  (agent-q-chat-send-queue-waiting 'queued))))

(defun agent-q-chat-send-queue-latest ()
  "Return the message that was read last in this chat, or nil.
Of one of a stored chat only the text is known."
  (or agent-q-chat-send--queue-latest
      (and agent-q-render-message
           (agent-q-chat-send-queue-message :text agent-q-render-message))))

(defun agent-q-chat-send--queue-changed ()
  "Show what is queued now."
  (setq agent-q-chat-view-header-queued
        (- (length agent-q-chat-send--queue)
           (length (agent-q-chat-send-queue-waiting 'next-step))))
  (agent-q-chat-send--queue-show)
  (agent-q-events-afterwards #'agent-q-chat-view-header-update))

;;;;; What is seen

(defun agent-q-chat-send--queue-line (message)
  "Return MESSAGE on one line of this chat's window."
  (truncate-string-to-width
   (replace-regexp-in-string "[ \t\n]+" " "
                             (agent-q-text-visible-line (agent-q-chat-send-queue-message-text message) 300))
   (max 10 (- (window-width (or (get-buffer-window nil t) (selected-window))) 12))
   nil nil (agent-q-render-sign 'ellipsis)))

(defconst agent-q-chat-send--queue-most-shown 4
  "Most queued messages that are shown.
More would push the log out of the window, and leave it empty when they go.")

(defun agent-q-chat-send--queue-show ()
  "Show the waiting messages above the prompt."
  (unless (overlayp agent-q-chat-send--queue-overlay)
    ;; The line break between log and prompt; what is added to the log stays before it.
    (setq agent-q-chat-send--queue-overlay
          (make-overlay (marker-position agent-q-render-end)
                        (1+ (marker-position agent-q-render-end)) nil t nil)))
  (let* ((queued (agent-q-chat-send-queue-waiting 'queued))
         (more (- (length queued) agent-q-chat-send--queue-most-shown)))
    (overlay-put
     agent-q-chat-send--queue-overlay 'after-string
     (and (agent-q-chat-send-queue-waiting)
          (propertize
           (concat (mapconcat (lambda (message)
                                (concat "Next step: " (agent-q-chat-send--queue-line message) "\n"))
                              (agent-q-chat-send-queue-waiting 'next-step) "")
                   (mapconcat (lambda (message)
                                (concat "Queued: " (agent-q-chat-send--queue-line message) "\n"))
                              (seq-take queued agent-q-chat-send--queue-most-shown) "")
                   (if (> more 0) (format "and %d more\n" more) "")
                   (substitute-command-keys
                    "\\<agent-q-chat-mode-map>\\[agent-q-chat-send-queue-edit] edits a queued message, \
with \\[universal-argument] drops it\n"))
           'face 'agent-q-dim)))))

;;;;; Taking back

(defun agent-q-chat-send--queue-choose (prompt)
  "Return a waiting message, chosen with PROMPT where there are several.
The one that came last is the default."
  (let ((choices (seq-map-indexed
                  (lambda (message index)
                    (cons (format "%d. %s" (1+ index) (agent-q-chat-send--queue-line message)) message))
                  (append (agent-q-chat-send-queue-waiting 'next-step)
                          (agent-q-chat-send-queue-waiting 'queued)))))
    (cond ((null choices) (user-error "No message is queued"))
          ((null (cdr choices)) (cdar choices))
          (t (let ((last (caar (last choices))))
               (cdr (assoc (completing-read (format-prompt prompt last) choices nil t nil nil last)
                           choices)))))))

(defun agent-q-chat-send-queue-p ()
  "Whether a message of this chat is queued."
  (and agent-q-chat-send--queue t))

(defun agent-q-chat-send-queue-edit (drop-p)
  "Put a queued message back at the prompt, to be changed and sent again.
With prefix argument DROP-P, drop it; it stays in the history.  What stands at
the prompt goes into the history."
  (declare (completion agent-q-session-command-p))
  (interactive "P")
  (let* ((message (agent-q-chat-send--queue-choose (if drop-p "Drop" "Edit")))
         (id (agent-q-chat-send-queue-message-id message)))
    (unless (agent-q-core-take-back agent-q-session-number id)
      (user-error "The model has this message already"))
    (agent-q-chat-send--queue-remove (list id))
    (if drop-p
        (message "Dropped: %s" (agent-q-chat-send--queue-line message))
      (unless (string-blank-p (agent-q-prompt-text))
        (agent-q-prompt-take))
      (agent-q-prompt-replace (agent-q-chat-send-queue-message-text message))
      (when (agent-q-chat-send-queue-message-look message)
        (message "What was attached to it is left out; ask again from its buffer")))))

;;;; What a chat sends

;; The settings of the session of a chat, its image and its model as far as the core
;; has to know them, and sending and cancelling messages.

(defvar-local agent-q-chat-send-settings nil
  "The settings that the session has, an alist.")

(defvar-local agent-q-chat-send--research nil
  "What the model of researches was made of that the session has, or nil.
It is `unsent' where that may have changed.")

(defvar-local agent-q-chat-send--choosing nil
  "Non-nil while a provider is looked for.")

(defvar-local agent-q-chat-send--unsent nil
  "Messages that wait until a provider is found, latest first.")

(defun agent-q-chat-send-make-settings ()
  "Return the settings of this chat as an alist."
  `(,@(agent-q-specifications-agent-settings)
   ,@(agent-q-project-settings)
   (project_instructions . ,(if (default-value 'agent-q-project-read-instructions)
                                "read" "ignore"))
   (instructions . ,(agent-q-text-clean agent-q-instructions))
   (max_iterations . ,agent-q-max-iterations)
   (max_turn_tokens . ,(or agent-q-max-turn-tokens :null))
   (max_turn_seconds . ,(or agent-q-max-turn-seconds :null))
   (max_turn_cost . ,(or agent-q-max-turn-cost :null))
   (plan . ,(agent-q-chat-send-plan-setting))
   (skills_directory . ,(if agent-q-skills-directory
                            (expand-file-name agent-q-skills-directory)
                          :null))
   (context_window . ,(or agent-q-context-window :null))
   (compact_at . ,(or agent-q-compact-at :null))
   (tools . ,(agent-q-registry-selection))
   (tool_choice . ,(if (stringp agent-q-tool-choice)
                       `((tool . ,agent-q-tool-choice))
                     (symbol-name agent-q-tool-choice)))
   ,@(agent-q-approval-place (agent-q-chat-send--image-name))
   (approval . "ask")
   (eval_seconds . ,agent-q-eval-timeout)
   (eval_policy . ,(symbol-name agent-q-eval-policy))
   (compile_after_edit . ,(if agent-q-compile-after-edit t :false))))

(defun agent-q-chat-send-configure ()
  "Send the session the settings that have changed since the last time."
  (agent-q-chat-send-find-image)
  (agent-q-image-tools-ensure agent-q-session-connection)
  (agent-q-registry-apply-levels)
  (agent-q-servers-apply)
  (when-let* ((news (agent-q-servers-news)))
    (agent-q-render-notice news))
  (let ((settings (agent-q-chat-send-make-settings)))
    (unless (equal settings agent-q-chat-send-settings)
      (agent-q-core-configure agent-q-session-number (agent-q-json-serialize settings))
      (setq agent-q-chat-send-settings settings)))
  (agent-q-chat-send--configure-research)
  ;; Not kept: it may hold a proxy's password.
  (when agent-q-session-provider
    (agent-q-core-configure
     agent-q-session-number
     (agent-q-json-serialize
      `((route . ,(agent-q-provider-route-now agent-q-session-provider))))))
  (agent-q-chat-history-note))

(defun agent-q-chat-send--configure-research ()
  "Send the session the model of researches, if that is another one now."
  (let ((of (and agent-q-research-model
                 (list agent-q-research-model agent-q-session-provider))))
    (unless (equal of agent-q-chat-send--research)
      (agent-q-core-configure
       agent-q-session-number
       (agent-q-json-serialize
        `((research_provider . ,(or (agent-q-provider-of-research agent-q-session-provider) :null)))))
      (setq agent-q-chat-send--research of))))

(defun agent-q-chat-send-settings-changed ()
  "Have pending messages sent with the settings as they are now."
  (when (agent-q-chat-send-queue-waiting)
    (agent-q-chat-send-configure)))

(defun agent-q-chat-send-connected-p ()
  "Whether the image of this chat is connected."
  (and agent-q-session-connection
       (agent-q-connection-live-p agent-q-session-connection)))

(defun agent-q-chat-send--image-name ()
  "Return the name of this chat's connection while it is alive, or nil."
  (and (agent-q-chat-send-connected-p)
       (agent-q-connection-name agent-q-session-connection)))

(defvar-local agent-q-chat-send-images nil
  "The connections that were open when this chat last used its own.")

(defun agent-q-chat-send-find-image ()
  "Switch this chat to a new connection if its own is gone.
The images that were there already are other programs, which the user
has to choose."
  (if (agent-q-chat-send-connected-p)
      (setq agent-q-chat-send-images (agent-q-connection-connections))
    (let* ((had agent-q-session-connection)
           (connections (agent-q-connection-connections))
           (new (seq-find (lambda (connection)
                            (not (member connection agent-q-chat-send-images)))
                          connections)))
      (when (or new connections)
        (setq agent-q-session-connection new)
        (when had
          (agent-q-render-notice
           (if new
               (format "The connection of this chat was closed; it uses %s now."
                       (agent-q-connection-label new))
             "The connection of this chat was closed; M-x agent-q-set-image chooses \
another image.")))
        (agent-q-chat-view-header-update)))))

(defun agent-q-chat-send-provider ()
  "Look for a provider, unless that is being done already."
  (unless agent-q-chat-send--choosing
    (setq agent-q-chat-send--choosing t)
    (let ((buffer (current-buffer)))
      (condition-case err
          (agent-q-provider-choose
           (lambda (provider)
             (when (buffer-live-p buffer)
               (with-current-buffer buffer
                 (when agent-q-chat-send--choosing
                   (agent-q-chat-use-provider provider))))))
        (error
         (agent-q-chat-use-provider nil)
         (agent-q-render-notice (error-message-string err)
                                'agent-q-failure))))))

;;;###autoload
(defun agent-q-chat-use-provider (provider)
  "Use PROVIDER in the current chat from now on; nil means no model."
  (agent-q-session-check)
  (setq agent-q-chat-send--choosing nil)
  (agent-q-core-configure
   agent-q-session-number
   (agent-q-json-serialize
    `((provider . ,(or (if agent-q-session-effort
                           (agent-q-provider-with-effort provider agent-q-session-effort)
                         provider)
                       :null)))))
  (setq agent-q-session-provider (agent-q-provider-public provider)
        ;; There may be another key for it, too.
        agent-q-chat-send--research 'unsent
        agent-q-chat-view-header-model (concat (agent-q-provider-label provider)
                                               (if (and provider agent-q-session-effort)
                                                   (format ", %s effort" agent-q-session-effort)
                                                 "")))
  (agent-q-chat-history-note)
  (agent-q-chat-view-welcome-hint-about provider)
  (let ((messages (nreverse agent-q-chat-send--unsent)))
    (setq agent-q-chat-send--unsent nil)
    (if provider
        (mapc #'agent-q-chat-send-queue-add messages)
      (when messages
        (agent-q-chat-send--without-model messages))))
  (agent-q-chat-view-header-update)
  (agent-q-chat-view-welcome-update))

(defun agent-q-chat-send--without-model (messages)
  "Explain why MESSAGES were not sent, and put their texts back at the prompt."
  (agent-q-render-notice
   (concat (agent-q-provider-advice)
           (if (agent-q-chat-send-connected-p)
               "\nTools work without a model: /describe_symbol mapcar"
             "")
           (if (seq-some #'agent-q-chat-send-queue-message-look messages)
               (format "\nNot sent: %s.  Ask from there again when there is a model."
                       (string-join (delq nil (mapcar #'agent-q-chat-send-queue-message-look messages))
                                    ", "))
             ""))
   'agent-q-failure)
  (agent-q-render-button "[Set a key]" #'agent-q-chat-view-set-key)
  (when (string-empty-p (agent-q-prompt-text))
    (save-excursion
      (goto-char (point-max))
      (insert (string-join (mapcar #'agent-q-chat-send-queue-message-text messages) "\n")))
    (when (= (point) agent-q-prompt-start)
      (goto-char (point-max)))))

(defun agent-q-chat-send-context (&optional pairs how)
  "Return as JSON what the model is told with a message that is sent now.
PAIRS, as of `agent-q-activity-look-excerpts', are sent along.  HOW is as in
`agent-q-attach-context-json'."
  (agent-q-attach-context-json (and (agent-q-chat-send-connected-p) agent-q-session-connection)
                               pairs how))

(defun agent-q-chat-send--message (text look pairs review excerpts)
  "Return the message TEXT, with where the user is now.
LOOK names what is sent along, PAIRS are its texts, and REVIEW and EXCERPTS
are as in `agent-q-chat-send-queue-message'."
  (let* ((console (agent-q-prompt-console-line-p text))
         ;; No model reads it then.
         (context (and (not console)
                       (agent-q-chat-send-context
                        (append pairs (agent-q-attach-kinds-excerpt-pairs excerpts)) review))))
    (agent-q-chat-send-queue-message
     :text text :look look :review review :excerpts excerpts
     :send (lambda ()
             (agent-q-chat-send-configure)
             (if console
                 (agent-q-core-console agent-q-session-number (agent-q-text-clean text))
               (agent-q-core-submit agent-q-session-number (agent-q-text-clean text)
                                    context))))))

(defun agent-q-chat-send--message-again (latest)
  "Return LATEST, the latest message of this chat, to be sent again.
What was attached to it is attached again, as it was then."
  (let ((text (agent-q-chat-send-queue-message-text latest)))
    (if (agent-q-prompt-console-line-p text)
        (agent-q-chat-send--message text nil nil nil nil)
      (agent-q-chat-send-queue-message
       :text text
       :look (agent-q-chat-send-queue-message-look latest)
       :review (agent-q-chat-send-queue-message-review latest)
       :excerpts (agent-q-chat-send-queue-message-excerpts latest)
       :send (lambda ()
               (agent-q-chat-send-configure)
               (agent-q-core-submit-again agent-q-session-number (agent-q-text-clean text)
                                          (agent-q-chat-send-context)))))))

(defun agent-q-chat-send-submit (text &optional look pairs review given)
  "Send TEXT from this chat, not what is at its prompt.
LOOK names what is sent along and PAIRS are its texts, each (WHERE . TEXT);
REVIEW is as in `agent-q-chat-send-queue-message', and GIVEN are excerpts that
are sent, too.  What TEXT mentions is fetched first, as is what the chat has in
its context.  While a turn runs, the message waits.  Signal an error if it can't
be sent."
  (agent-q-chat-send--check)
  (if (agent-q-prompt-console-line-p text)
      (agent-q-chat-send--submit (agent-q-chat-send--message text look pairs review nil))
    (agent-q-chat-send--gather
     text
     (lambda (excerpts)
       (agent-q-chat-send--submit
        (agent-q-chat-send--message text look pairs review excerpts)))
     given)))

(defun agent-q-chat-send-submit-again ()
  "Send the latest message of this chat once more.
A model that has not answered it reads it once."
  (agent-q-chat-send--check)
  (agent-q-chat-send--submit
   (agent-q-chat-send--message-again (or (agent-q-chat-send-queue-latest)
                                         (user-error "There is no message to send again")))))

(defun agent-q-chat-send--check ()
  "Signal an error unless messages can be sent from here."
  (agent-q-session-check)
  (when agent-q-chat-history-busy
    (user-error "%s" agent-q-chat-history-busy))
  (unless (agent-q-events-running-p)
    (agent-q-events-ensure)))

(defun agent-q-chat-send--submit (message)
  "Hand MESSAGE to the core when its time has come."
  (cond ((or agent-q-session-provider
             (agent-q-prompt-console-line-p (agent-q-chat-send-queue-message-text message)))
         (when (and (agent-q-chat-send-queue-add message)
                    ;; It ends a turn that asks whether it goes on.
                    (not (eq agent-q-chat-view-header-state :paused)))
           (message "Queued: sent when this turn ends")))
        (t
         (push message agent-q-chat-send--unsent)
         (agent-q-chat-send-provider))))

;;;;; What is attached

(defconst agent-q-chat-send--fetching "Fetching what the message mentions..."
  "What is said while mentions are fetched.")

(defvar-local agent-q-chat-send--gathering nil
  "The message whose mentions are being fetched, or nil.
It is a cons of a function that cancels it and the text.")

;;;###autoload (put 'agent-q-send-image-map 'risky-local-variable t)
(defcustom agent-q-send-image-map nil
  "Whether a map of the project is attached to the first message of a chat.
That is what \"@map\" mentions: the packages of the project that the image has
and what they export with its arguments, in at most about 1,000 tokens."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defvar-local agent-q-chat-send--map-sent nil
  "Whether the map of the project was sent from this chat, or tried to be.")

(defun agent-q-chat-send--fetch-map (function)
  "Call FUNCTION with the map of the project, a list of an excerpt, or nil.
It is sent with the first message if `agent-q-send-image-map' says so."
  (if (or agent-q-chat-send--map-sent (not (default-value 'agent-q-send-image-map))
          (not (agent-q-chat-send-connected-p)))
      (funcall function nil)
    (setq agent-q-chat-send--map-sent t)
    (agent-q-attach-mention-fetch-all (agent-q-attach-mention-find "@map")
                                      (lambda (excerpts _problem) (funcall function excerpts)))))

(defun agent-q-chat-send--gather (text send &optional given)
  "Fetch what TEXT mentions and what is kept in the context and has changed.
Then SEND is called with the excerpts, of which some may be GIVEN.  Signal an
error if something that TEXT mentions is missing; if that turns out later, TEXT
is put back to the prompt, and the log says why."
  (when agent-q-chat-send--gathering
    (user-error "Still fetching what your last message mentions; C-c C-k cancels"))
  (let* ((returned nil) (problem nil) (over nil)
         (finish
          (lambda (trouble items excerpts)
            ;; Who gave it up has the text back.
            (unless over
              (setq over t
                    agent-q-chat-send--gathering nil)
              (when (equal (current-message) agent-q-chat-send--fetching)
                (message nil))
              (cond ((and trouble returned) (agent-q-chat-send--not-sent text trouble))
                    (trouble (setq problem trouble))
                    ((not returned) (agent-q-chat-send--send-along items excerpts send))
                    (t (condition-case failure
                           (agent-q-chat-send--send-along items excerpts send)
                         (error (agent-q-chat-send--not-sent
                                 text (error-message-string failure))))))))))
    (agent-q-attach-fetch
     (lambda (items troubles)
       (dolist (trouble troubles)
         (agent-q-render-notice (format "Kept in the context, but not sent: %s" trouble)))
       (agent-q-chat-send--fetch-map
        (lambda (map)
          (agent-q-attach-mention-fetch-all
           (agent-q-attach-mention-find text)
           (lambda (excerpts trouble) (funcall finish trouble items (append map given excerpts))))))))
    (setq returned t)
    (cond (problem (user-error "Not sent.  %s" problem))
          ((not over)
           (setq agent-q-chat-send--gathering (cons (lambda () (setq over t)) text))
           (message "%s" agent-q-chat-send--fetching)))))

(defun agent-q-chat-send--give-up ()
  "Cancel fetching what a message mentions, and return non-nil if one was.
The message is at the prompt again."
  (when agent-q-chat-send--gathering
    (let ((gathering agent-q-chat-send--gathering))
      (setq agent-q-chat-send--gathering nil)
      (funcall (car gathering))
      (agent-q-prompt-give-back (cdr gathering))
      t)))

(defun agent-q-chat-send--send-along (items excerpts send)
  "Call SEND with EXCERPTS and those of ITEMS, pairs of item and excerpt."
  (let ((all (agent-q-attach-kinds-excerpt-fit (append (mapcar #'cdr items) excerpts))))
    (funcall send all)
    (when all
      (agent-q-attach-note-sent items all))))

(defun agent-q-chat-send--not-sent (text trouble)
  "Put TEXT, which can't be sent because of TROUBLE, back to the prompt."
  (agent-q-render-notice (format "Not sent.  %s" trouble) 'agent-q-failure)
  (agent-q-prompt-give-back text))

(defun agent-q-chat-send ()
  "Send the text at the prompt.
While a turn runs, the text is queued until it ends."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (unless (agent-q-events-running-p)
    (agent-q-events-ensure))
  (let ((text (string-trim (agent-q-prompt-text))))
    (cond ((string-empty-p text) (message "Type a message first"))
          ((agent-q-approval-mistyped text)
           (message "%s" (agent-q-approval-mistyped text))
           (agent-q-prompt-replace ""))
          ((agent-q-chat-send--answer-limit text) (agent-q-prompt-replace ""))
          (t (pcase (agent-q-completion-slash-action text)
               (`(command . ,command)
                (agent-q-prompt-take)
                (call-interactively command))
               (`(place . ,prompt)
                (agent-q-prompt-take)
                (agent-q-prompt-replace prompt)
                (message "A prompt of this project: read it, RET sends it"))
               ;; The space keeps a prompt from being a call of a tool.
               (`(send . ,prompt)
                (agent-q-chat-send--send-typed
                 (if (agent-q-prompt-console-line-p prompt) (concat " " prompt) prompt)))
               (`(use . ,use)
                (apply #'agent-q-chat-send--use text use))
               (_ (agent-q-chat-send--send-typed text)))))))

(defun agent-q-chat-send--answer-limit (text)
  "Answer the turn of this chat that met a limit, if one did and TEXT is an answer.
Return whether that is so."
  (when (eq agent-q-chat-view-header-state :paused)
    (pcase (downcase text)
      ((or "y" "yes") (agent-q-core-go-on agent-q-session-number) t)
      ((or "n" "no") (agent-q-core-stop-at-limit agent-q-session-number) t))))

(defun agent-q-chat-send--at-once (text function)
  "Call FUNCTION, which sends TEXT.
Where that is a call of a tool, what the core does about it is taken at once,
as nothing of it waits for a server."
  (if (agent-q-prompt-console-line-p text)
      (agent-q-events-attend function)
    (funcall function)))

(defun agent-q-chat-send--send-typed (text &optional how given)
  "Send TEXT for what is at the prompt, and keep the latter in the history.
HOW is what only the model is told of it, and GIVEN are excerpts, or both nil."
  (if (or agent-q-session-provider (agent-q-prompt-console-line-p text))
      (agent-q-chat-send--at-once
       text
       (lambda ()
         ;; What can't be sent stays at the prompt.
         (agent-q-chat-send-submit text nil nil how given)
         (agent-q-prompt-take)))
    (let ((typed (string-trim (agent-q-prompt-text))))
      (agent-q-prompt-take)
      (condition-case failure
          (agent-q-chat-send-submit text nil nil how given)
        ((error quit)
         (agent-q-prompt-give-back typed)
         (signal (car failure) (cdr failure)))))))

(defun agent-q-chat-send-steer ()
  "Send the text at the prompt into the running turn.
The model reads it once the tools that run now are done.  If no turn runs, it
is sent as usual."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (let ((text (string-trim (agent-q-prompt-text))))
    (if (or (null agent-q-chat-view-header-since) (string-empty-p text) (agent-q-prompt-console-line-p text)
            (agent-q-server-texts-use text) (agent-q-approval-mistyped text))
        (agent-q-chat-send)
      (agent-q-chat-send--gather
       text
       (lambda (excerpts)
         (agent-q-chat-send-queue-add
          (agent-q-chat-send-queue-message
           :text text :excerpts excerpts
           :send (lambda ()
                   (agent-q-core-steer
                    agent-q-session-number (agent-q-text-clean text)
                    (agent-q-chat-send-context (agent-q-attach-kinds-excerpt-pairs excerpts)))))
          t)))
      (agent-q-prompt-take))))

(defun agent-q-chat-send--kept-words (count)
  "Return where COUNT queued messages went that are not sent."
  (if (zerop count)
      ""
    (concat (if (= count 1)
                "; the queued message is in the history"
              (format "; the %d queued messages are in the history" count))
            (substitute-command-keys
             " (\\<agent-q-chat-mode-map>\\[agent-q-prompt-previous])"))))

(defun agent-q-chat-send-cancel ()
  "End the running turn and drop the messages queued after it.
They stay in the history."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (cond ((agent-q-chat-send--give-up)
         (message "Not sent"))
        ((agent-q-chat-view-header-busy-p)
         (let ((dropped (agent-q-core-cancel agent-q-session-number)))
           (agent-q-chat-send--queue-remove dropped)
           (message "Cancelled%s" (agent-q-chat-send--kept-words (length dropped)))))
        (agent-q-chat-send--unsent
         (setq agent-q-chat-send--unsent nil)
         (message "Not sent"))
        (t (message "Nothing is running"))))

(defun agent-q-chat-send-or-cancel ()
  "Send the text at the prompt; without one, end the running turn.
A message sent while a turn runs is queued until it ends."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (if (and (agent-q-chat-view-header-busy-p) (string-blank-p (agent-q-prompt-text)))
      (agent-q-chat-send-cancel)
    (agent-q-chat-send)))

(defun agent-q-chat-send-emacs-call (event)
  "Carry out the request in EVENT to Emacs or the Lisp image of this chat."
  (agent-q-chat-send-find-image)
  (agent-q-execute-request
   event (and (agent-q-chat-send-connected-p) agent-q-session-connection) (current-buffer)))

;;;; Prompts of servers

;; The first RET fetches what a server's prompt says, and shows it; the second sends it.  What
;; was typed stays at the prompt until then, so nothing is lost when the server fails.

(defvar-local agent-q-chat-send--shown nil
  "What was typed for a server's prompt, and its text: (TYPED . EXCERPTS).
EXCERPTS is nil while it is fetched.")

(defun agent-q-chat-send--use (typed server name rest)
  "Use the prompt NAME of SERVER, as TYPED with REST behind it.
Send what it says if that was shown, or else fetch and show it."
  (let ((excerpts (and (equal typed (car agent-q-chat-send--shown)) (cdr agent-q-chat-send--shown))))
    (if (null excerpts)
        (agent-q-chat-send--look-up typed server name rest)
      (agent-q-chat-send--send-typed typed (agent-q-server-texts-how server) excerpts)
      (setq agent-q-chat-send--shown nil)
      (agent-q-server-texts-hide))))

(defun agent-q-chat-send--look-up (typed server name rest)
  "Find the prompt NAME of SERVER, and fetch its text, as TYPED with REST."
  (let ((chat (current-buffer)) (keys (this-command-keys-vector)) (now t))
    (setq agent-q-chat-send--shown (list typed))
    (message "Asking %s..." (agent-q-text-visible-line (plist-get server :name)))
    (agent-q-server-texts-prompts
     server
     (lambda (prompts problem)
       (cond (now (agent-q-chat-send--fetch-prompt typed server name rest prompts nil))
             ((buffer-live-p chat)
              (with-current-buffer chat
                (when (equal agent-q-chat-send--shown (list typed))
                  (condition-case failure
                      (if problem (user-error "%s" problem)
                        (agent-q-chat-send--fetch-prompt typed server name rest prompts keys))
                    (error (agent-q-chat-send--no-prompt (error-message-string failure))))))))))
    (setq now nil)))

(defun agent-q-chat-send--no-prompt (trouble)
  "Say that a server's prompt is not sent because of TROUBLE."
  (setq agent-q-chat-send--shown nil)
  (agent-q-render-notice (format "Not sent.  %s" trouble) 'agent-q-failure))

(defun agent-q-chat-send--fetch-prompt (typed server name rest offered keys)
  "Fetch the text of NAME, one of OFFERED by SERVER, as TYPED with REST.
The user is asked for arguments that are missing, unless time has passed since
they pressed KEYS."
  (let* ((prompt (or (agent-q-server-texts-prompt name offered)
                     (user-error "%s has no prompt %s; it has: %s" (plist-get server :name) name
                                 (mapconcat (lambda (it) (alist-get 'name it)) offered ", "))))
         (values (agent-q-server-texts-values prompt rest))
         (missing (agent-q-server-texts-missing prompt values)))
    (if (and missing keys)
        (agent-q-chat-send--press-again typed keys)
      (when missing
        (setq values (append values (agent-q-server-texts-read prompt missing))
              typed (agent-q-server-texts-typed server prompt values))
        (agent-q-prompt-replace typed))
      (setq agent-q-chat-send--shown (list typed))
      (agent-q-server-texts-get
       server prompt values
       (lambda (excerpts)
         (when (equal agent-q-chat-send--shown (list typed))
           (agent-q-chat-send--prompt-came typed server prompt excerpts)))))))

(defun agent-q-chat-send--press-again (typed keys)
  "Press KEYS again for the user, who did so for TYPED and is still there.
So what asks them is a command of theirs, and not a timer."
  (setq agent-q-chat-send--shown nil)
  (if (and (< 0 (length keys)) (not (input-pending-p)) (not (active-minibuffer-window))
           (eq (current-buffer) (window-buffer (selected-window)))
           (equal typed (string-trim (agent-q-prompt-text))))
      (setq unread-command-events (append (listify-key-sequence keys) unread-command-events))
    (message "RET asks for what the prompt needs")))

(defun agent-q-chat-send--prompt-came (typed server prompt excerpts)
  "Show EXCERPTS, the text of PROMPT of SERVER, unless TYPED was changed since.
EXCERPTS may be a sentence on what is wrong."
  (let ((trouble (if (stringp excerpts) excerpts
                   (car (agent-q-attach-kinds-pictures-trouble excerpts)))))
    (cond (trouble (agent-q-chat-send--no-prompt trouble))
          ((not (equal typed (string-trim (agent-q-prompt-text))))
           (setq agent-q-chat-send--shown nil))
          (t (setq agent-q-chat-send--shown (cons typed excerpts))
             (agent-q-server-texts-show server prompt excerpts)
             (message "RET sends what %s says" (agent-q-text-visible-line (plist-get server :name)))))))

;;;; Writing a message in a buffer of its own

;; For messages that are too long for the prompt.  Such a buffer begins with what stands at
;; the prompt; what is left of it when it is closed goes back there.

(defvar-local agent-q-chat-send--compose-chat nil
  "The chat that this message is for.")

(defvar agent-q-chat-send-compose-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'agent-q-chat-send-compose-send)
    (define-key map (kbd "C-c C-k") #'agent-q-chat-send-compose-leave)
    map)
  "Keymap of `agent-q-chat-send-compose-mode'.")

(define-derived-mode agent-q-chat-send-compose-mode text-mode "agent-q message"
  "Major mode for writing a message to a chat.

\\{agent-q-chat-send-compose-mode-map}"
  (setq header-line-format
        (substitute-command-keys
         "\\<agent-q-chat-send-compose-mode-map> \\[agent-q-chat-send-compose-send] sends, \
\\[agent-q-chat-send-compose-leave] puts it back at the prompt"))
  ;; TAB completes mentions.
  (setq-local tab-always-indent 'complete)
  (add-hook 'kill-buffer-hook #'agent-q-chat-send--compose-give-back nil t))

;;;###autoload
(defun agent-q-compose ()
  "Write the message at the prompt in a buffer of its own."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (let* ((chat (current-buffer))
         (text (agent-q-prompt-text))
         (buffer (get-buffer-create (format "*agent-q message for %s*" (buffer-name)))))
    (agent-q-prompt-replace "")
    (pop-to-buffer buffer)
    (unless (derived-mode-p 'agent-q-chat-send-compose-mode)
      (agent-q-chat-send-compose-mode))
    ;; What was written for a chat that is closed now goes to the one in its place.
    (unless (eq chat agent-q-chat-send--compose-chat)
      (setq agent-q-chat-send--compose-chat chat)
      (agent-q-completion-setup chat))
    (goto-char (point-max))
    (unless (or (bolp) (string-empty-p text))
      (insert "\n"))
    (insert text)))

(defun agent-q-chat-send--compose-take ()
  "Return the text of this buffer, and erase it."
  (prog1 (string-trim (buffer-string))
    (erase-buffer)))

(defun agent-q-chat-send--compose-give-back ()
  "Put what is written here back to the prompt of its chat.
Where that is closed, it can be yanked."
  (let ((text (agent-q-chat-send--compose-take)))
    (cond ((string-empty-p text))
          ((buffer-live-p agent-q-chat-send--compose-chat)
           (with-current-buffer agent-q-chat-send--compose-chat
             (agent-q-prompt-replace (string-trim (concat (agent-q-prompt-text) "\n" text)))))
          (t (kill-new text)
             (message "The chat is closed; the text is in the kill ring")))))

(defun agent-q-chat-send--compose-close ()
  "Close this buffer and go to its chat."
  (let ((chat agent-q-chat-send--compose-chat))
    (quit-window t)
    (when (buffer-live-p chat)
      (pop-to-buffer chat))))

(defun agent-q-chat-send-compose-send ()
  "Send what is written here."
  (interactive nil agent-q-chat-send-compose-mode)
  (unless (buffer-live-p agent-q-chat-send--compose-chat)
    (user-error "The chat is closed; the text stays here"))
  (when (string-blank-p (buffer-string))
    (user-error "Type a message first"))
  (let ((text (agent-q-chat-send--compose-take))
        (chat agent-q-chat-send--compose-chat))
    (agent-q-chat-send--compose-close)
    (with-current-buffer chat
      (agent-q-chat-send--compose-send text))))

(defun agent-q-chat-send--compose-send (text)
  "Send TEXT as if it was typed at the prompt of this chat.
What is there already stays there."
  (let ((typed (agent-q-prompt-text))
        (chat (current-buffer)))
    (agent-q-prompt-replace text)
    (unwind-protect
        (agent-q-chat-send)
      (when (and (buffer-live-p chat) (not (string-blank-p typed)))
        (with-current-buffer chat
          (save-excursion
            (goto-char (point-max))
            (insert (if (string-blank-p (agent-q-prompt-text)) "" "\n") typed)))))))

(defun agent-q-chat-send-compose-leave ()
  "Put what is written here back at the prompt."
  (interactive nil agent-q-chat-send-compose-mode)
  (agent-q-chat-send--compose-close))

(provide 'agent-q-chat-send)
;;; agent-q-chat-send.el ends here
