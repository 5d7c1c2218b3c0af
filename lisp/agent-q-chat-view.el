;;; agent-q-chat-view.el --- Around the log of a chat: header, first lines, ways through it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What a chat shows around its log, and the ways through it: the header line, the first
;; lines with things to try, and the keys from item to item.

;;; Code:

(require 'agent-q-approval-gate)
(require 'agent-q-call)
(require 'agent-q-connection)
(require 'agent-q-image)
(require 'agent-q-markdown)
(require 'agent-q-model-facts)
(require 'agent-q-module)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-provider)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'button)
(require 'cl-lib)
(require 'seq)

;;;; The header line of a chat

;; One line with the state, the project, the image, the model and more.  It is made
;; when it is displayed after one of them changed; a narrow window shows what matters
;; most.

(defvar agent-q-chat-view-header-commands nil
  "An alist from parts of the line to the commands for clicking on them.
The parts are `model', `image', `waiting', `paused', `parked', `window',
`plan', `unguarded' and `drift'.")

(defvar-local agent-q-chat-view-header-state :idle
  "What the session is doing, as the core said last.")

(defvar-local agent-q-chat-view-header-model nil
  "The model that the chat talks to, as text; nil while it is looked for.")

(defvar-local agent-q-chat-view-header-input 0 "Tokens that this chat sent.")
(defvar-local agent-q-chat-view-header-output 0 "Tokens that this chat received.")
(defvar-local agent-q-chat-view-header-cached 0
  "Tokens of those that this chat sent which came out of the provider's cache.")

(defvar-local agent-q-chat-view-header-written 0
  "Tokens of those that this chat sent which went into the provider's cache.")
(defvar-local agent-q-chat-view-header-cost nil
  "US dollars that this chat has cost, as far as that is known, or nil.")
(defvar-local agent-q-chat-view-header-turn-cost nil
  "US dollars that its last turn has cost, as far as that is known, or nil.")
(defvar-local agent-q-chat-view-header-unpriced 0
  "How many requests of this chat had no price that is known.")
(defvar-local agent-q-chat-view-header-turn nil
  "What the last turn of this chat used, four numbers in a list, or nil.
Tokens sent, tokens received, requests of a known price, and other requests.")

(defvar-local agent-q-chat-view-header-cache-lost nil
  "Why the last turn had nothing of the provider's cache, as text, or nil.")

(defvar-local agent-q-chat-view-header-planning nil
  "Whether the agent only plans and changes nothing.")

(defvar-local agent-q-chat-view-header-items nil
  "The items of the plan that this chat follows, each as (TEXT . DONE).")

(defvar-local agent-q-chat-view-header-drift 0
  "How many definitions this chat has left only in the image.")

(defvar-local agent-q-chat-view-header-filled nil
  "How full the model's window is, as (TOKENS . WINDOW), or nil.
WINDOW is nil where its size is unknown.")

(defvar-local agent-q-chat-view--header-draft nil
  "The call that the model writes: number in the reply, tool, line ends.")

(defvar-local agent-q-chat-view-header-queued 0
  "Number of messages that wait for the running turn to end.")

(defvar-local agent-q-chat-view-header-since nil
  "When the running turn began, or nil.")

(defvar-local agent-q-chat-view--header-parts nil
  "The parts of the header line, each as (WORTH . TEXT), in their order.
It is nil when one of them may have changed since.")

(defvar-local agent-q-chat-view--header-fitted nil
  "The line fitted last, as (PARTS WIDTH LINE).")

(defun agent-q-chat-view-header-setup ()
  "Give the current buffer its header line."
  (setq header-line-format '(:eval (agent-q-chat-view-header-shown (window-width))))
  (agent-q-chat-view-header-update))

(defun agent-q-chat-view--header-segment (text help part &optional face)
  "Return TEXT in FACE as a button for the command of PART, with the tooltip HELP."
  (let ((map (make-sparse-keymap)))
    (define-key map [header-line mouse-1] (alist-get part agent-q-chat-view-header-commands))
    (propertize text 'face face 'help-echo help 'mouse-face 'highlight
                'keymap map)))

(defun agent-q-chat-view--header-state ()
  "Return the state of the session as text, with a count of background work."
  (let ((count (if (memq agent-q-chat-view-header-state
                         '(:waiting :streaming :reasoning :drafting :summarizing))
                   (length (seq-remove #'agent-q-call-effect-p (agent-q-call-running)))
                 0)))
    (concat (agent-q-chat-view--header-main-state)
            (if (> count 0)
                (format " (%d call%s running)" count (if (> count 1) "s" ""))
              ""))))

(defun agent-q-chat-view--header-main-state ()
  "Return the state of the session as text."
  (pcase agent-q-chat-view-header-state
    ;; What runs may be asked about, too.
    ((or :approving (guard (agent-q-call-waiting)))
     (agent-q-chat-view--header-segment (agent-q-chat-view--header-asking (length (agent-q-call-all-waiting)))
                                        "mouse-1: go to the pending request"
                                        'waiting
                                        'agent-q-attention))
    (:paused (agent-q-chat-view--header-segment "Continue?" "mouse-1: continue the turn" 'paused
                                                'agent-q-attention))
    (:waiting "Waiting")
    (:streaming "Writing")
    (:reasoning "Thinking")
    (:drafting (agent-q-chat-view--header-drafting))
    (:summarizing "Summarizing")
    (:running (agent-q-chat-view--header-running (agent-q-call-running)))
    (_ (cond ((eq agent-q-session-mcp-state 'paused)
              (propertize "Paused" 'face 'agent-q-attention))
             (agent-q-chat-view-header-since "Working")
             (agent-q-session-mcp-client
              (if (eq agent-q-session-mcp-state 'gone) "Disconnected" "Connected"))
             ((agent-q-chat-view--header-no-model-p)
              (agent-q-chat-view--header-segment "No model" "mouse-1: choose a model" 'model
                                                 'agent-q-attention))
             ((null agent-q-chat-view-header-model) "Looking for a model")
             (t "Ready")))))

(defun agent-q-chat-view--header-no-model-p ()
  "Whether no model was found for this chat."
  (and agent-q-chat-view-header-model (null agent-q-session-provider)))

(defun agent-q-chat-view--header-asking (count)
  "Return as text that COUNT requests wait for an answer."
  (if (> count 1) (format "%d wait" count) "Needs your answer"))

(defun agent-q-chat-view-header-drafted (event)
  "Take in EVENT: more of a call that the model is writing."
  (pcase-let ((tool (plist-get event :tool))
              (number (plist-get event :number))
              (lines (cl-count ?\n (plist-get event :text)))
              (`(,last-number ,_tool ,before) agent-q-chat-view--header-draft))
    (setq agent-q-chat-view--header-draft
          (list number tool (if (eql number last-number) (+ before lines) lines)))))

(defun agent-q-chat-view-header-forget-draft ()
  "Count the lines of the next answer from its beginning."
  (setq agent-q-chat-view--header-draft nil))

(defun agent-q-chat-view--header-drafting ()
  "Return which call the model is writing, and how much there is of it."
  (pcase-let ((`(,_number ,tool ,lines) agent-q-chat-view--header-draft))
    (concat "Writing " (agent-q-text-visible-line tool 40)
            (if (> lines 0) (format ", %d lines" (1+ lines)) ""))))

(defconst agent-q-chat-view--header-most-running 4
  "Most running calls that are named.")

(defun agent-q-chat-view--header-running (list)
  "Return the names of the tools of LIST, which run, as text."
  (let ((more (- (length list) agent-q-chat-view--header-most-running)))
    (concat "Running "
            (mapconcat #'agent-q-call-tool
                       (seq-take list agent-q-chat-view--header-most-running) ", ")
            (if (> more 0) (format " and %d more" more) "")
            (if (or (null list) (cdr list)) ""
              (agent-q-chat-view--header-progress (car list))))))

(defun agent-q-chat-view--header-progress (call)
  "Return for how long CALL has been running, with the last line of its output."
  (let ((line (agent-q-call-text-output call)))
    (concat (string-remove-prefix "running" (agent-q-call-text-running call))
            (if line (concat ": " (agent-q-call-cut line 40)) ""))))

(defun agent-q-chat-view--header-image ()
  "Return the name of the chat's image as text."
  (agent-q-chat-view--header-segment
   (if (and agent-q-session-connection
            (agent-q-connection-live-p agent-q-session-connection))
       (agent-q-text-visible-line (agent-q-connection-label agent-q-session-connection) 60)
     "no Lisp")
   "mouse-1: choose the Lisp image of this chat"
   'image))

(defun agent-q-chat-view--header-parked ()
  "Return a button to take over errors that this chat has parked, else nil."
  (let ((count (length (agent-q-image-park-owned (current-buffer)))))
    (and (> count 0)
         (agent-q-chat-view--header-segment
          (if (= count 1) "Error parked: C-c C-b" (format "%d errors parked: C-c C-b" count))
          "mouse-1: open it in your own debugger"
          'parked 'agent-q-attention))))

(defun agent-q-chat-view--header-unguarded ()
  "Return a warning when dangerous tools run unasked, else nil."
  (when-let ((names (and agent-q-tool-levels (agent-q-registry-unguarded))))
    (agent-q-chat-view--header-segment
     (if (cdr names)
         (format "%d dangerous tools run unasked" (length names))
       (format "%s runs unasked" (car names)))
     (format "By agent-q-tool-levels: %s\nmouse-1: list the tools"
             (mapconcat #'identity names ", "))
     'unguarded
     'agent-q-attention)))

(defun agent-q-chat-view--header-only ()
  "Return how many definitions are only in the image, or nil without any."
  (and (> agent-q-chat-view-header-drift 0)
       (agent-q-chat-view--header-segment
        (format "%d only in image" agent-q-chat-view-header-drift)
        "Definitions of this chat that no file has\nmouse-1: list them"
        'drift)))

(defun agent-q-chat-view-header-tokens (count)
  "Return COUNT tokens as a short text."
  (cond ((< count 10000) (number-to-string count))
        ((< count 1000000) (format "%.1fk" (/ count 1e3)))
        (t (format "%.1fM" (/ count 1e6)))))

(defun agent-q-chat-view-header-busy-p ()
  "Whether a turn of this chat is running or about to."
  (or agent-q-chat-view-header-since (> agent-q-chat-view-header-queued 0)))

(defun agent-q-chat-view-idle-p ()
  "Whether no turn of this chat is running or about to."
  (not (agent-q-chat-view-header-busy-p)))

(defun agent-q-chat-view-asked-p ()
  "Whether this chat has a message of its user, and no turn is running."
  (and (agent-q-chat-view-idle-p)
       (text-property-not-all (point-min) (point-max) 'agent-q-turn nil)
       t))

(defun agent-q-chat-view--header-tokens ()
  "Return what this chat sent and received, or nil before anything."
  (and (> (+ agent-q-chat-view-header-input agent-q-chat-view-header-output) 0)
       (propertize
        (format "%s%s%s %s%s"
                (agent-q-render-sign 'up) (agent-q-chat-view-header-tokens agent-q-chat-view-header-input)
                (if (> agent-q-chat-view-header-cached 0)
                    (format " (%d%% cached)"
                            (/ (* 100 agent-q-chat-view-header-cached) (max 1 agent-q-chat-view-header-input)))
                  "")
                (agent-q-render-sign 'down) (agent-q-chat-view-header-tokens agent-q-chat-view-header-output))
        'help-echo (format "Tokens sent: %d, of these out of the provider's cache: %d, into it: %d
Tokens received: %d"
                           agent-q-chat-view-header-input agent-q-chat-view-header-cached agent-q-chat-view-header-written
                           agent-q-chat-view-header-output))))

(defun agent-q-chat-view-header-usage (event)
  "Take in EVENT: the tokens of a request, and what it cost."
  (let ((cost (plist-get event :cost)))
    (cl-incf agent-q-chat-view-header-input (plist-get event :input-tokens))
    (cl-incf agent-q-chat-view-header-output (plist-get event :output-tokens))
    (cl-incf agent-q-chat-view-header-cached (or (plist-get event :cache-read-tokens) 0))
    (cl-incf agent-q-chat-view-header-written (or (plist-get event :cache-write-tokens) 0))
    (setq agent-q-chat-view-header-turn
          (cl-mapcar #'+ (or agent-q-chat-view-header-turn '(0 0 0 0))
                     (list (plist-get event :input-tokens) (plist-get event :output-tokens)
                           (if cost 1 0) (if cost 0 1))))
    (if cost
        (setq agent-q-chat-view-header-cost (+ cost (or agent-q-chat-view-header-cost 0))
              agent-q-chat-view-header-turn-cost (+ cost (or agent-q-chat-view-header-turn-cost 0)))
      (cl-incf agent-q-chat-view-header-unpriced))))

(defun agent-q-chat-view-header-dollars (dollars)
  "Return DOLLARS as text, to at least two digits that count."
  (cond ((zerop dollars) "nothing")
        ((< dollars 0.1) (format "$%.4f" dollars))
        (t (format "$%.2f" dollars))))

(defun agent-q-chat-view--header-cost ()
  "Return what this chat cost; nil before anything, and where it is nothing."
  (and (> (+ agent-q-chat-view-header-input agent-q-chat-view-header-output) 0)
       (or (< 0 agent-q-chat-view-header-unpriced)
           (not (memql agent-q-chat-view-header-cost '(0 0.0))))
       (propertize
        (cond ((memql agent-q-chat-view-header-cost '(nil 0 0.0)) "$?")
              (t (concat (agent-q-chat-view-header-dollars agent-q-chat-view-header-cost)
                         (if (< 0 agent-q-chat-view-header-unpriced) "+?" ""))))
        'help-echo
        (concat "This chat: "
                (if agent-q-chat-view-header-cost (agent-q-chat-view-header-dollars agent-q-chat-view-header-cost) "unknown")
                (if (and agent-q-chat-view-header-cost (< 0 agent-q-chat-view-header-unpriced))
                    " and requests of unknown price" "")
                "\nIts last turn: "
                (if agent-q-chat-view-header-turn-cost (agent-q-chat-view-header-dollars agent-q-chat-view-header-turn-cost)
                  "unknown")
                (if-let ((date (agent-q-provider-prices-date agent-q-session-provider)))
                    (format "\nPrices as of %s" date)
                  "")))))

(defun agent-q-chat-view--header-share ()
  "Return how much of the model's window is full, in percent, or nil."
  (pcase agent-q-chat-view-header-filled
    (`(,tokens . ,(and (pred natnump) (pred (< 0)) window))
     (min 100 (round (* 100.0 tokens) window)))))

(defun agent-q-chat-view--header-nearly-full-p ()
  "Whether there is little room left in the model's window."
  (when-let ((share (agent-q-chat-view--header-share)))
    (>= share 90)))

(defun agent-q-chat-view--header-window ()
  "Return how full the model's window is, or nil where that is unknown."
  (when-let ((share (agent-q-chat-view--header-share)))
    (pcase-let ((`(,tokens . ,window) agent-q-chat-view-header-filled))
      (agent-q-chat-view--header-segment
       (format "%d%% of %s" share (agent-q-chat-view-header-tokens window))
       (format "About %s tokens are in the model's window\nmouse-1: show what fills it"
               (agent-q-chat-view-header-tokens tokens))
       'window
       (and (agent-q-chat-view--header-nearly-full-p) 'agent-q-attention)))))

(defun agent-q-chat-view--header-items ()
  "Return how many items of the plan are done, or nil without one that is open."
  (let ((done (cl-count-if #'cdr agent-q-chat-view-header-items))
        (all (length agent-q-chat-view-header-items)))
    (and (< done all)
         (propertize (format "%d of %d done" done all)
                     'help-echo (mapconcat (pcase-lambda (`(,text . ,done))
                                             (concat (if done "[x] " "[ ] ") text))
                                           agent-q-chat-view-header-items "\n")))))

(defun agent-q-chat-view--header-all ()
  "Return the parts of the line in their order, each as (WORTH . TEXT).
In a narrow window, those worth least are left out."
  (let ((idle (not (or agent-q-chat-view-header-since (agent-q-call-waiting)))))
    (seq-filter
     #'cdr
     (list
      (cons 9 (agent-q-chat-view--header-state))
      (cons 2 (and agent-q-chat-view-header-since
                   (format "%d s" (float-time (time-since agent-q-chat-view-header-since)))))
      (cons 8 (agent-q-chat-view--header-parked))
      (cons 7 (agent-q-chat-view--header-unguarded))
      (cons 3 (and agent-q-session-project
                   (agent-q-text-visible-line agent-q-session-project 40)))
      (cons 6 (agent-q-chat-view--header-image))
      (cons 5 (agent-q-chat-view--header-only))
      (cons 5 (and agent-q-chat-view-header-model
                   (not (and idle (agent-q-chat-view--header-no-model-p)))
                   (agent-q-chat-view--header-segment (agent-q-text-visible-line agent-q-chat-view-header-model 80)
                                                      "mouse-1: choose the model of this chat"
                                                      'model)))
      (cons 8 (and agent-q-chat-view-header-planning
                   (agent-q-chat-view--header-segment
                    "Plan" "Nothing is changed in plan mode\nmouse-1: switch it off"
                    'plan 'agent-q-attention)))
      (cons 6 (agent-q-chat-view--header-items))
      (cons (if (agent-q-chat-view--header-nearly-full-p) 7 4) (agent-q-chat-view--header-window))
      (cons 5 (and (> agent-q-chat-view-header-queued 0)
                   (format "%d queued" agent-q-chat-view-header-queued)))
      (cons 2 (and agent-q-chat-view-header-cache-lost
                   ;; Where nothing was ever cached, nothing is lost.
                   (> agent-q-chat-view-header-cached 0)
                   (concat "cache lost: " agent-q-chat-view-header-cache-lost)))
      (cons 0 (agent-q-chat-view--header-tokens))
      (cons 1 (agent-q-chat-view--header-cost))))))

(defun agent-q-chat-view--header-parts ()
  "Return the parts of the line as they are now."
  (or agent-q-chat-view--header-parts
      (setq agent-q-chat-view--header-parts (agent-q-chat-view--header-all))))

(defun agent-q-chat-view-header-line ()
  "Return the whole header line, for a window that is wide enough."
  (agent-q-chat-view--header-joined (agent-q-chat-view--header-parts)))

(defun agent-q-chat-view--header-joined (parts)
  "Return the texts of PARTS as a line."
  (concat " " (mapconcat #'cdr parts (format " %s " (agent-q-render-sign 'dot)))))

(defun agent-q-chat-view-header-fitted (width)
  "Return the header line for a window of WIDTH columns."
  (pcase agent-q-chat-view--header-fitted
    (`(,(pred (eq (agent-q-chat-view--header-parts))) ,(pred (eql width)) ,line) line)
    (_ (let* ((parts (agent-q-chat-view--header-parts))
              (line (agent-q-chat-view--header-joined parts)))
         (while (and (cdr parts) (> (string-width line) width))
           (let* ((least (apply #'min (mapcar #'car parts)))
                  (leaving (seq-find (lambda (part) (eql (car part) least)) parts)))
             (setq parts (delq leaving (copy-sequence parts))
                   line (agent-q-chat-view--header-joined parts))))
         (setq agent-q-chat-view--header-fitted (list agent-q-chat-view--header-parts width line))
         line))))

(defun agent-q-chat-view-header-shown (width)
  "Return the header line for a window of WIDTH columns, as Emacs displays it.
A percent sign would begin a construct there."
  (let ((line (agent-q-chat-view-header-fitted width)))
    (if (string-search "%" line) (string-replace "%" "%%" line) line)))

(defun agent-q-chat-view-header-update ()
  "Mark the header line to be made again before it is displayed."
  (setq agent-q-chat-view--header-parts nil)
  (force-mode-line-update))

;;;; The first lines of a chat

;; What a chat begins with: the Lisp image and the model that it has, or how to get them,
;; and a few things to try.  It is drawn again when one of them changes, until the first
;; turn begins.

(cl-defstruct (agent-q-chat-view-welcome (:include agent-q-render-item)
                                         (:constructor agent-q-chat-view--welcome-make) (:copier nil))
  "The first lines of a chat.")

(defvar-local agent-q-chat-view--welcome-item nil
  "The first lines of this chat while they can still change.")

(defvar-local agent-q-chat-view--welcome-hint nil
  "What is said of the model of this chat below its name, or nil.")

(defvar-local agent-q-chat-view-welcome-earlier nil
  "The earlier chat that can be continued instead of this new one, or nil.
It is a list: its title, when it was, what has changed since, and a function
that continues it.")

(defvar agent-q-chat-view-welcome-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "TAB") #'agent-q-chat-view-welcome-next)
    (define-key map (kbd "RET") #'agent-q-chat-view-welcome-to-prompt)
    map)
  "Keymap on the first lines of a chat.")

(defun agent-q-chat-view-welcome-next ()
  "Go to the next button of the first lines, or to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (condition-case nil
      (forward-button 1)
    (error (goto-char (point-max)))))

(defun agent-q-chat-view-welcome-to-prompt ()
  "Go to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (point-max)))

;;;;; Their text

(defun agent-q-chat-view--welcome-button (label help function)
  "Return LABEL as a button for FUNCTION, explained by HELP."
  (make-text-button (copy-sequence label) nil 'follow-link t 'help-echo help
                    'action (lambda (_button) (funcall function))))

(defun agent-q-chat-view--welcome-command (name)
  "Return a button for the command called NAME.
It is loaded by then; some files that have such a command stand on this one."
  (agent-q-chat-view--welcome-button (format "[M-x %s]" name) (format "M-x %s" name)
                                     (lambda () (call-interactively (intern name)))))

(defun agent-q-chat-view-set-key (&optional name)
  "Set the key of the host called NAME, or of one that is chosen.
The command stands on chats, and is named here for those that they show it to."
  (funcall (intern "agent-q-set-key") name))

(defun agent-q-chat-view--welcome-suggestion (text)
  "Return a button that puts TEXT at the prompt."
  (agent-q-chat-view--welcome-button (format "[%s]" text) "put it at the prompt"
                                     (lambda () (agent-q-prompt-replace text))))

(defun agent-q-chat-view--welcome-connected-p ()
  "Whether this chat has an image."
  (agent-q-connection-live-p agent-q-session-connection))

(defun agent-q-chat-view--welcome-image ()
  "Return the words on the image of this chat."
  (if (agent-q-chat-view--welcome-connected-p)
      (agent-q-text-visible-line (agent-q-connection-facts agent-q-session-connection) 60)
    (let ((clients (agent-q-connection-installed)))
      (if clients
          (concat "none; "
                  (mapconcat (lambda (client) (agent-q-chat-view--welcome-command (symbol-name client)))
                             clients " or ")
                  " starts one")
        (concat "none; neither SLY nor SLIME is installed")))))

(defun agent-q-chat-view--welcome-model ()
  "Return the words on the model of this chat."
  (cond (agent-q-session-provider
         (concat (agent-q-text-visible-line (agent-q-provider-label agent-q-session-provider) 60)
                 (if agent-q-chat-view--welcome-hint (concat "\n       " agent-q-chat-view--welcome-hint) "")))
        ((null agent-q-chat-view-header-model) "looking for one")
        ;; A button that is alone on its line is not broken.
        (t (concat "none\n       "
                   (agent-q-chat-view--welcome-button "[Set a key]" "M-x agent-q-set-key" #'agent-q-chat-view-set-key)
                   " of a host, or choose a server on this machine\n       "
                   (agent-q-chat-view--welcome-command "agent-q-doctor") " says what is missing\n       "
                   (agent-q-chat-view--welcome-command "agent-q-set-model") " looks again"))))

(defvar-local agent-q-chat-view-welcome-first nil
  "Whether this is the user's first chat.")

(defun agent-q-chat-view--welcome-tour ()
  "Return the offer of the tour, for the first chat and those without a model."
  (if (or (agent-q-provider-scripted-p agent-q-session-provider)
          (not (or agent-q-chat-view-welcome-first (agent-q-chat-view--header-no-model-p))))
      ""
    (agent-q-chat-view--welcome-entry
     "Tour" (concat (agent-q-chat-view--welcome-button
                     "[Take the tour]" "M-x agent-q-tutorial"
                     (lambda () (call-interactively (intern "agent-q-tutorial"))))
                    " ten minutes in your own Lisp, without a model"))))

(defun agent-q-chat-view--welcome-suggestions ()
  "Return what can be typed now, three things at most."
  (pcase (list (and agent-q-session-provider t)
               (and (agent-q-chat-view--welcome-connected-p) t)
               (and (agent-q-project-directory) t))
    ('(t t nil) '("Which systems are loaded?" "/describe_symbol mapcar" "/apropos_search hash"))
    ('(t nil nil) '("Which buffers do I have?" "/list_buffers"))
    ('(nil nil nil) '("/list_buffers"))
    ('(t t t) '("What does this project do, and is it loaded?"
              "Run the tests of this project." "/describe_symbol mapcar"))
    ('(t nil t) '("What does this project do?" "Where would I begin to read it?"
                "/get_project_root"))
    (`(nil t ,_) '("/describe_symbol mapcar" "/apropos_search hash" "/eval_form (+ 1 2)"))
    (_ '("/get_project_root" "/search_files *.lisp" "/list_buffers"))))

(defun agent-q-chat-view--welcome-earlier ()
  "Return what is said of the earlier chat, with a button to continue it."
  (pcase agent-q-chat-view-welcome-earlier
    (`(,title ,when ,since ,function)
     (agent-q-chat-view--welcome-entry
      "Last" (concat (agent-q-chat-view--welcome-button
                      (format "[Continue \"%s\"]" title) "open this earlier chat again" function)
                     " " when (if since (concat "\n       " since) ""))))
    (_ "")))

(defun agent-q-chat-view--welcome-entry (title text)
  "Return TEXT under TITLE, lines that wrap beside it.
Each line of TEXT begins in the same column, also where letters differ in width."
  (let* ((column '(space :align-to 7))
         (gap (lambda (spaces) (propertize spaces 'display column)))
         (entry (concat title (funcall gap (make-string (max 1 (- 7 (length title))) ?\s))
                        (string-replace "\n       " (concat "\n" (funcall gap "       ")) text)
                        "\n")))
    (add-text-properties 0 (length entry) `(wrap-prefix ,column) entry)
    entry))

(defun agent-q-chat-view--welcome-dim (text)
  "Dim what is not a button of TEXT."
  (let ((from 0))
    (while (< from (length text))
      (let ((to (next-single-property-change from 'button text (length text))))
        (unless (get-text-property from 'button text)
          (add-face-text-property from to 'agent-q-dim t text))
        (setq from to)))))

(defun agent-q-chat-view--welcome-draw (_item)
  "Return the text of the first lines."
  (let ((text (concat
               (propertize (format "agent-q, in %s\n"
                                   (agent-q-text-visible-line
                                    (let ((root (agent-q-project-directory)))
                                      (if root (abbreviate-file-name root) default-directory))))
                           'face 'bold)
               (if (agent-q-project-directory) ""
                 (agent-q-chat-view--welcome-entry
                  "Files" "none: they are on another machine, where tools don't reach"))
               (agent-q-chat-view--welcome-tour)
               (agent-q-chat-view--welcome-entry "Image" (agent-q-chat-view--welcome-image))
               (agent-q-chat-view--welcome-entry "Model" (agent-q-chat-view--welcome-model))
               (agent-q-chat-view--welcome-earlier)
               (if (agent-q-provider-scripted-p agent-q-session-provider) ""
                 (agent-q-chat-view--welcome-entry
                  "Try" (mapconcat #'agent-q-chat-view--welcome-suggestion
                                   (agent-q-chat-view--welcome-suggestions) "\n       ")))
               (substitute-command-keys
                "\\[agent-q-chat-return] sends.  \
\\[agent-q-chat-view-tab] completes commands and tools after /, and what to attach after @.  \
\\[agent-q-menu] is the menu, \\[agent-q-manual] the manual; \\[agent-q-ask] asks from any buffer."))))
    (agent-q-render-fill-keymap text agent-q-chat-view-welcome-map)
    ;; Buttons keep their own look.
    (agent-q-chat-view--welcome-dim text)
    ;; Nothing can be typed before the first character either.
    (put-text-property 0 1 'front-sticky '(read-only) text)
    text))

;;;;; Showing them

(defun agent-q-chat-view-welcome-setup ()
  "Put the first lines into the empty log of this chat."
  (setq agent-q-chat-view--welcome-item (agent-q-chat-view--welcome-make :draw #'agent-q-chat-view--welcome-draw :apart t))
  (agent-q-render-add-item agent-q-chat-view--welcome-item))

(defun agent-q-chat-view-welcome-update ()
  "Draw the first lines of this chat again, unless it has begun."
  (when agent-q-chat-view--welcome-item
    (agent-q-render-update-item agent-q-chat-view--welcome-item)))

(defun agent-q-chat-view-welcome-hint-about (provider)
  "Say what is missing in the facts of the model of PROVIDER, an alist or nil.
That is in the first lines of this chat while they can change."
  (let* ((hint (and provider
                    (not (agent-q-provider-scripted-p provider))
                    (agent-q-model-facts-hint (alist-get 'base_url provider) (alist-get 'model provider)
                                              (alist-get 'context_window
                                                         (alist-get 'facts provider)))))
         (line (and hint (agent-q-text-visible-line hint 120))))
    (if agent-q-chat-view--welcome-item
        (setq agent-q-chat-view--welcome-hint line)
      (when line
        (message "%s" line)))))

(defun agent-q-chat-view-welcome-shown-p ()
  "Whether the first lines of this chat still follow what it has."
  (and agent-q-chat-view--welcome-item t))

(defun agent-q-chat-view-welcome-finish ()
  "Leave the first lines of this chat as they are from now on."
  (setq agent-q-chat-view--welcome-item nil))

;;;; Ways around a chat

;; From item to item and from turn to turn of a chat's log, and what TAB means
;; where it is pressed.

(defun agent-q-chat-view-item-of-line ()
  "Return the item whose text ends with the line of point, or nil."
  (or (agent-q-render-item-at (point))
      (and (eolp) (> (point) (point-min))
           (agent-q-render-item-at (1- (point))))))

(defun agent-q-chat-view-tab ()
  "Complete at the prompt, unfold the item at point, or go to the next item.
Buttons count as items, and so do links."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (let ((item (agent-q-chat-view-item-of-line)))
    (cond ((and (agent-q-prompt-p)
                (not (string-empty-p (agent-q-prompt-text))))
           (completion-at-point))
          ((agent-q-chat-view-welcome-p item) (agent-q-chat-view-welcome-next))
          ((and item (not (eq item (agent-q-call-waiting))))
           (goto-char (agent-q-render-item-start item))
           (agent-q-render-toggle))
          (t (agent-q-chat-view-next-item)))))

(defun agent-q-chat-view--stop (forward)
  "Return the next item, button or link after point, or before unless FORWARD."
  (let ((nearest nil))
    (dolist (property '(agent-q-item button agent-q-link))
      (when (eq property 'agent-q-link)
        (agent-q-markdown-seek property forward nearest))
      (let ((place (agent-q-chat-view--find property forward)))
        (when place
          (setq nearest (cond ((null nearest) place)
                              (forward (min nearest place))
                              (t (max nearest place)))))))
    nearest))

(defun agent-q-chat-view--find (property forward)
  "Return the next start of PROPERTY after point, or before unless FORWARD."
  (let ((position (point)) (found nil))
    (while (and position (not found))
      (setq position
            (if forward
                (next-single-property-change position property)
              (previous-single-property-change position property)))
      (when (and position
                 (< position (point-max))
                 (get-text-property position property)
                 (not (eq t (get-text-property position 'invisible)))
                 (not (agent-q-chat-view-welcome-p (agent-q-render-item-at position)))
                 (not (and (> position (point-min))
                           (eq (get-text-property position property)
                               (get-text-property (1- position) property)))))
        (setq found position)))
    (or found
        ;; The property may begin where the buffer does.
        (and (not forward) (> (point) (point-min))
             (get-text-property (point-min) property)
             (not (agent-q-chat-view-welcome-p (agent-q-render-item-at (point-min))))
             (point-min)))))

(defun agent-q-chat-view-next-item ()
  "Go to the next tool call, button or link; after the last one, to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat-view--stop t) (point-max))))

(defun agent-q-chat-view-previous-item ()
  "Go to the tool call, button or link before point."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat-view--stop nil)
                 (user-error "No tool call before point"))))

(defun agent-q-chat-view-next-turn ()
  "Go to the next message of yours; after the last one, to the prompt."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat-view--find 'agent-q-turn t) (point-max))))

(defun agent-q-chat-view-previous-turn ()
  "Go to the message of yours before point."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (goto-char (or (agent-q-chat-view--find 'agent-q-turn nil)
                 (user-error "No message of yours before point"))))

;;;###autoload
(defun agent-q-goto-approval ()
  "Go to the pending request, in any chat.
The current chat comes first, then the others.  If there is none, go to a turn
that asks whether to continue."
  (interactive)
  (let ((buffer (agent-q-chat-view-waiting)))
    (unless buffer
      (user-error "No pending request"))
    (unless (eq buffer (window-buffer))
      (pop-to-buffer buffer))
    (with-current-buffer buffer
      (push-mark nil t)
      (let ((call (and agent-q-call-table (agent-q-call-waiting))))
        (if (null call)
            (goto-char (agent-q-chat-view--question))
          (goto-char (agent-q-render-item-start call))
          (agent-q-approval-gate-reveal call))))))

(defun agent-q-chat-view--question ()
  "Return where the turn of this chat can be let go on, which met a limit.
That is a button, the last one of its kind in the log."
  (save-excursion
    (goto-char agent-q-render-end)
    (if (search-backward "\n[Continue]\n" nil t) (1+ (point)) (point-max))))

(defun agent-q-chat-view-waiting ()
  "Return the buffer of the chat where something waits for its user, or nil."
  (let ((buffers (cons (current-buffer) (buffer-list))))
    (cl-flet ((first-where (holds)
                (seq-find (lambda (buffer) (with-current-buffer buffer (funcall holds)))
                          buffers)))
      (or (first-where (lambda () (and agent-q-call-table (agent-q-call-waiting))))
          (first-where (lambda () (eq agent-q-chat-view-header-state :paused)))))))

(define-obsolete-function-alias 'agent-q-chat-view-goto-waiting #'agent-q-goto-approval "0.1.0")

;;;;; All at once

(defun agent-q-chat-view-items ()
  "Return the items of this chat's log that fold, first one first."
  (let ((items nil) (place (point-min)))
    (while (setq place (text-property-not-all place agent-q-render-end 'agent-q-item nil))
      (let ((item (agent-q-render-item-at place)))
        (unless (or (agent-q-chat-view-welcome-p item) (agent-q-call-open-p item))
          (push item items)))
      (setq place (next-single-char-property-change place 'agent-q-item nil agent-q-render-end)))
    (nreverse items)))

(defconst agent-q-chat-view--most-fitted 300
  "Most lines of the log, the latest ones, that are fitted to a new width.")

(defvar-local agent-q-chat-view--width nil
  "The width that the lines of calls and changes were fitted to, or nil.")

(defvar-local agent-q-chat-view--timer nil
  "The timer that will fit them to another one, or nil.")

(defun agent-q-chat-view-fit (window)
  "Fit the folded lines of the chat in WINDOW to its width, soon.
For `window-size-change-functions'."
  (with-current-buffer (window-buffer window)
    (let ((width (agent-q-call-width)))
      (unless agent-q-chat-view--width
        (setq agent-q-chat-view--width width))
      (unless (or agent-q-chat-view--timer (eql width agent-q-chat-view--width))
        (setq agent-q-chat-view--timer
              (run-with-idle-timer 0.2 nil #'agent-q-chat-view--fit (current-buffer)))))))

(defun agent-q-chat-view--fit (buffer)
  "Draw the folded lines of the chat BUFFER for the width that it has now."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-chat-view--timer nil
            agent-q-chat-view--width (agent-q-call-width))
      (dolist (item (last (agent-q-chat-view-items) agent-q-chat-view--most-fitted))
        (unless (agent-q-render-item-expanded item)
          (agent-q-render-update-item item))))))

(defun agent-q-chat-view-toggle-all ()
  "Unfold all of this chat's log, so that it can be searched, or fold it again."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (let* ((items (agent-q-chat-view-items))
         (unfold (seq-some (lambda (item) (not (agent-q-render-item-expanded item))) items)))
    (unless items
      (user-error "Nothing to fold here"))
    (dolist (item items)
      (unless (eq unfold (and (agent-q-render-item-expanded item) t))
        (agent-q-render-unfold item (not unfold))))
    (message (if unfold "Everything unfolded" "Everything folded"))))

(defun agent-q-chat-view-index ()
  "Return your messages in this chat and where they are, for Imenu."
  (let ((index nil) (place (point-min)))
    (while (setq place (text-property-not-all place agent-q-render-end 'agent-q-turn nil))
      (let ((text (+ place 2)))
        (push (cons (save-excursion
                      (goto-char text)
                      (truncate-string-to-width
                       (buffer-substring-no-properties text (line-end-position)) 60 nil nil t))
                    (copy-marker place))
              index)
        (setq place text)))
    (nreverse index)))

(provide 'agent-q-chat-view)
;;; agent-q-chat-view.el ends here
