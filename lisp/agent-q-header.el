;;; agent-q-header.el --- The header line of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; One line with the state, the project, the image, the model and more.  It is made
;; when it is displayed after one of them changed; a narrow window shows what matters
;; most.

;;; Code:

(require 'agent-q-call)
(require 'agent-q-call-text)
(require 'agent-q-facts)
(require 'agent-q-image-connection)
(require 'agent-q-image-park)
(require 'agent-q-module)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'cl-lib)
(require 'seq)

(defvar agent-q-header-commands nil
  "An alist from parts of the line to the commands for clicking on them.
The parts are `model', `image', `waiting', `paused', `parked', `window',
`plan' and `unguarded'.")

(defvar-local agent-q-header-state :idle
  "What the session is doing, as the core said last.")

(defvar-local agent-q-header-model nil
  "The model that the chat talks to, as text; nil while it is looked for.")

(defvar-local agent-q-header-input 0 "Tokens that this chat sent.")
(defvar-local agent-q-header-output 0 "Tokens that this chat received.")
(defvar-local agent-q-header-cached 0
  "Tokens of those that this chat sent which came out of the provider's cache.")

(defvar-local agent-q-header-written 0
  "Tokens of those that this chat sent which went into the provider's cache.")
(defvar-local agent-q-header-cost nil
  "US dollars that this chat has cost, as far as that is known, or nil.")
(defvar-local agent-q-header-turn-cost nil
  "US dollars that its last turn has cost, as far as that is known, or nil.")
(defvar-local agent-q-header-unpriced 0
  "How many requests of this chat had no price that is known.")
(defvar-local agent-q-header-turn nil
  "What the last turn of this chat used, four numbers in a list, or nil.
Tokens sent, tokens received, requests of a known price, and other requests.")

(defvar-local agent-q-header-cache-lost nil
  "Why the last turn had nothing of the provider's cache, as text, or nil.")

(defvar-local agent-q-header-planning nil
  "Whether the agent only plans and changes nothing.")

(defvar-local agent-q-header-filled nil
  "How full the model's window is, as (TOKENS . WINDOW), or nil.
WINDOW is nil where its size is unknown.")

(defvar-local agent-q-header--draft nil
  "The call that the model writes: number in the reply, tool, line ends.")

(defvar-local agent-q-header-queued 0
  "Number of messages that wait for the running turn to end.")

(defvar-local agent-q-header-since nil
  "When the running turn began, or nil.")

(defvar-local agent-q-header--parts nil
  "The parts of the header line, each as (WORTH . TEXT), in their order.
It is nil when one of them may have changed since.")

(defvar-local agent-q-header--fitted nil
  "The line fitted last, as (PARTS WIDTH LINE).")

(defun agent-q-header-setup ()
  "Give the current buffer its header line."
  (setq header-line-format '(:eval (agent-q-header-shown (window-width))))
  (agent-q-header-update))

(defun agent-q-header--segment (text help part &optional face)
  "Return TEXT in FACE as a button for the command of PART, with the tooltip HELP."
  (let ((map (make-sparse-keymap)))
    (define-key map [header-line mouse-1] (alist-get part agent-q-header-commands))
    (propertize text 'face face 'help-echo help 'mouse-face 'highlight
                'keymap map)))

(defun agent-q-header--state ()
  "Return the state of the session as text."
  (pcase agent-q-header-state
    ;; What runs may be asked about, too.
    ((or :approving (guard (agent-q-call-waiting)))
     (agent-q-header--segment (agent-q-header--asking (length (agent-q-call-all-waiting)))
                              "mouse-1: go to the pending request"
                              'waiting
                              'agent-q-attention))
    (:paused (agent-q-header--segment "Go on?" "mouse-1: continue the turn" 'paused
                                      'agent-q-attention))
    (:waiting "Waiting")
    (:streaming "Writing")
    (:reasoning "Thinking")
    (:drafting (agent-q-header--drafting))
    (:summarizing "Summarizing")
    (:running (agent-q-header--running (agent-q-call-running)))
    (_ (cond ((eq agent-q-session-client-state 'paused)
              (propertize "Paused" 'face 'agent-q-attention))
             (agent-q-header-since "Working")
             (agent-q-session-client
              (if (eq agent-q-session-client-state 'gone) "Disconnected" "Connected"))
             ((agent-q-header--no-model-p)
              (agent-q-header--segment "No model" "mouse-1: choose a model" 'model
                                       'agent-q-attention))
             ((null agent-q-header-model) "Looking for a model")
             (t "Ready")))))

(defun agent-q-header--no-model-p ()
  "Whether no model was found for this chat."
  (and agent-q-header-model (null agent-q-session-provider)))

(defun agent-q-header--asking (count)
  "Return as text that COUNT requests wait for an answer."
  (if (> count 1) (format "%d wait" count) "Needs your answer"))

(defun agent-q-header-drafted (event)
  "Take in EVENT: more of a call that the model is writing."
  (pcase-let ((tool (plist-get event :tool))
              (number (plist-get event :number))
              (lines (cl-count ?\n (plist-get event :text)))
              (`(,last-number ,_tool ,before) agent-q-header--draft))
    (setq agent-q-header--draft
          (list number tool (if (eql number last-number) (+ before lines) lines)))))

(defun agent-q-header-forget-draft ()
  "Count the lines of the next answer from its beginning."
  (setq agent-q-header--draft nil))

(defun agent-q-header--drafting ()
  "Return which call the model is writing, and how much there is of it."
  (pcase-let ((`(,_number ,tool ,lines) agent-q-header--draft))
    (concat "Writing " (agent-q-visible-line tool 40)
            (if (> lines 0) (format ", %d lines" (1+ lines)) ""))))

(defconst agent-q-header--most-running 4
  "Most running calls that are named.")

(defun agent-q-header--running (list)
  "Return the names of the tools of LIST, which run, as text."
  (let ((more (- (length list) agent-q-header--most-running)))
    (concat "Running "
            (mapconcat #'agent-q-call-tool
                       (seq-take list agent-q-header--most-running) ", ")
            (if (> more 0) (format " and %d more" more) "")
            (if (or (null list) (cdr list)) ""
              (agent-q-header--progress (car list))))))

(defun agent-q-header--progress (call)
  "Return for how long CALL has been running, with the last line of its output."
  (let ((line (agent-q-call-text-output call)))
    (concat (string-remove-prefix "running" (agent-q-call-text-running call))
            (if line (concat ": " (agent-q-call-cut line 40)) ""))))

(defun agent-q-header--image ()
  "Return the name of the chat's image as text."
  (agent-q-header--segment
   (if (and agent-q-session-connection
            (agent-q-image-live-p agent-q-session-connection))
       (agent-q-visible-line (agent-q-image-label agent-q-session-connection) 60)
     "no Lisp")
   "mouse-1: choose the Lisp image of this chat"
   'image))

(defun agent-q-header--parked ()
  "Return a button to take over errors that this chat has parked, else nil."
  (let ((count (length (agent-q-image-park-owned (current-buffer)))))
    (and (> count 0)
         (agent-q-header--segment
          (if (= count 1) "Error parked: C-c C-d" (format "%d errors parked: C-c C-d" count))
          "mouse-1: open it in your own debugger"
          'parked 'agent-q-attention))))

(defun agent-q-header--unguarded ()
  "Return a warning when dangerous tools run unasked, else nil."
  (when-let ((names (and agent-q-tool-levels (agent-q-registry-unguarded))))
    (agent-q-header--segment
     (if (cdr names)
         (format "%d dangerous tools run unasked" (length names))
       (format "%s runs unasked" (car names)))
     (format "By agent-q-tool-levels: %s\nmouse-1: list the tools"
             (mapconcat #'identity names ", "))
     'unguarded
     'agent-q-attention)))

(defun agent-q-header-tokens (count)
  "Return COUNT tokens as a short text."
  (cond ((< count 10000) (number-to-string count))
        ((< count 1000000) (format "%.1fk" (/ count 1e3)))
        (t (format "%.1fM" (/ count 1e6)))))

(defun agent-q-header-busy-p ()
  "Whether a turn of this chat is running or about to."
  (or agent-q-header-since (> agent-q-header-queued 0)))

(defun agent-q-header--tokens ()
  "Return what this chat sent and received, or nil before anything."
  (and (> (+ agent-q-header-input agent-q-header-output) 0)
       (propertize
        (format "%s%s%s %s%s"
                (agent-q-render-sign 'up) (agent-q-header-tokens agent-q-header-input)
                (if (> agent-q-header-cached 0)
                    (format " (%d%% cached)"
                            (/ (* 100 agent-q-header-cached) (max 1 agent-q-header-input)))
                  "")
                (agent-q-render-sign 'down) (agent-q-header-tokens agent-q-header-output))
        'help-echo (format "Tokens sent: %d, of these out of the provider's cache: %d, into it: %d
Tokens received: %d"
                           agent-q-header-input agent-q-header-cached agent-q-header-written
                           agent-q-header-output))))

(defun agent-q-header-usage (event)
  "Take in EVENT: the tokens of a request, and what it cost."
  (let ((cost (plist-get event :cost)))
    (cl-incf agent-q-header-input (plist-get event :input-tokens))
    (cl-incf agent-q-header-output (plist-get event :output-tokens))
    (cl-incf agent-q-header-cached (or (plist-get event :cache-read-tokens) 0))
    (cl-incf agent-q-header-written (or (plist-get event :cache-write-tokens) 0))
    (setq agent-q-header-turn
          (cl-mapcar #'+ (or agent-q-header-turn '(0 0 0 0))
                     (list (plist-get event :input-tokens) (plist-get event :output-tokens)
                           (if cost 1 0) (if cost 0 1))))
    (if cost
        (setq agent-q-header-cost (+ cost (or agent-q-header-cost 0))
              agent-q-header-turn-cost (+ cost (or agent-q-header-turn-cost 0)))
      (cl-incf agent-q-header-unpriced))))

(defun agent-q-header-dollars (dollars)
  "Return DOLLARS as text, to at least two digits that count."
  (format (if (< dollars 0.1) "$%.4f" "$%.2f") dollars))

(defun agent-q-header--cost ()
  "Return what this chat cost, or nil before anything."
  (and (> (+ agent-q-header-input agent-q-header-output) 0)
       (propertize
        (cond ((null agent-q-header-cost) "$?")
              (t (concat (agent-q-header-dollars agent-q-header-cost)
                         (if (< 0 agent-q-header-unpriced) "+?" ""))))
        'help-echo
        (concat "This chat: "
                (if agent-q-header-cost (agent-q-header-dollars agent-q-header-cost) "unknown")
                (if (and agent-q-header-cost (< 0 agent-q-header-unpriced))
                    " and requests of unknown price" "")
                "\nIts last turn: "
                (if agent-q-header-turn-cost (agent-q-header-dollars agent-q-header-turn-cost)
                  "unknown")
                (format "\nPrices as of %s" (or (agent-q-facts-date) "nowhere"))))))

(defun agent-q-header--share ()
  "Return how much of the model's window is full, in percent, or nil."
  (pcase agent-q-header-filled
    (`(,tokens . ,(and (pred natnump) (pred (< 0)) window))
     (min 100 (round (* 100.0 tokens) window)))))

(defun agent-q-header--nearly-full-p ()
  "Whether there is little room left in the model's window."
  (when-let ((share (agent-q-header--share)))
    (>= share 90)))

(defun agent-q-header--window ()
  "Return how full the model's window is, or nil where that is unknown."
  (when-let ((share (agent-q-header--share)))
    (pcase-let ((`(,tokens . ,window) agent-q-header-filled))
      (agent-q-header--segment
       (format "%d%% of %s" share (agent-q-header-tokens window))
       (format "About %s tokens are in the model's window\nmouse-1: show what fills it"
               (agent-q-header-tokens tokens))
       'window
       (and (agent-q-header--nearly-full-p) 'agent-q-attention)))))

(defun agent-q-header--all ()
  "Return the parts of the line in their order, each as (WORTH . TEXT).
In a narrow window, those worth least are left out."
  (let ((idle (not (or agent-q-header-since (agent-q-call-waiting)))))
    (seq-filter
     #'cdr
     (list
      (cons 9 (agent-q-header--state))
      (cons 2 (and agent-q-header-since
                   (format "%d s" (float-time (time-since agent-q-header-since)))))
      (cons 8 (agent-q-header--parked))
      (cons 7 (agent-q-header--unguarded))
      (cons 3 (and agent-q-session-project
                   (agent-q-visible-line agent-q-session-project 40)))
      (cons 6 (agent-q-header--image))
      (cons 5 (and agent-q-header-model
                   (not (and idle (agent-q-header--no-model-p)))
                   (agent-q-header--segment (agent-q-visible-line agent-q-header-model 80)
                                            "mouse-1: choose the model of this chat"
                                            'model)))
      (cons 8 (and agent-q-header-planning
                   (agent-q-header--segment
                    "Plan" "Nothing is changed in plan mode\nmouse-1: switch it off"
                    'plan 'agent-q-attention)))
      (cons (if (agent-q-header--nearly-full-p) 7 4) (agent-q-header--window))
      (cons 5 (and (> agent-q-header-queued 0)
                   (format "%d queued" agent-q-header-queued)))
      (cons 2 (and agent-q-header-cache-lost
                   ;; Where nothing was ever cached, nothing is lost.
                   (> agent-q-header-cached 0)
                   (concat "cache lost: " agent-q-header-cache-lost)))
      (cons 0 (agent-q-header--tokens))
      (cons 1 (agent-q-header--cost))))))

(defun agent-q-header--parts ()
  "Return the parts of the line as they are now."
  (or agent-q-header--parts
      (setq agent-q-header--parts (agent-q-header--all))))

(defun agent-q-header-line ()
  "Return the whole header line, for a window that is wide enough."
  (agent-q-header--joined (agent-q-header--parts)))

(defun agent-q-header--joined (parts)
  "Return the texts of PARTS as a line."
  (concat " " (mapconcat #'cdr parts (format " %s " (agent-q-render-sign 'dot)))))

(defun agent-q-header-fitted (width)
  "Return the header line for a window of WIDTH columns."
  (pcase agent-q-header--fitted
    (`(,(pred (eq (agent-q-header--parts))) ,(pred (eql width)) ,line) line)
    (_ (let* ((parts (agent-q-header--parts))
              (line (agent-q-header--joined parts)))
         (while (and (cdr parts) (> (string-width line) width))
           (let* ((least (apply #'min (mapcar #'car parts)))
                  (leaving (seq-find (lambda (part) (eql (car part) least)) parts)))
             (setq parts (delq leaving (copy-sequence parts))
                   line (agent-q-header--joined parts))))
         (setq agent-q-header--fitted (list agent-q-header--parts width line))
         line))))

(defun agent-q-header-shown (width)
  "Return the header line for a window of WIDTH columns, as Emacs displays it.
A percent sign would begin a construct there."
  (let ((line (agent-q-header-fitted width)))
    (if (string-search "%" line) (string-replace "%" "%%" line) line)))

(defun agent-q-header-update ()
  "Mark the header line to be made again before it is displayed."
  (setq agent-q-header--parts nil)
  (force-mode-line-update))

(provide 'agent-q-header)
;;; agent-q-header.el ends here
