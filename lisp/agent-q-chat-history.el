;;; agent-q-chat-history.el --- A stored chat: where it is, its earlier turns, going back  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Where the core saves a chat, the turns of a chat that is resumed, and rewinding it to before a
;; message.

;;; Code:

(require 'agent-q)
(require 'agent-q-attach)
(require 'agent-q-call)
(require 'agent-q-call-events)
(require 'agent-q-changes)
(require 'agent-q-chat-view)
(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-image)
(require 'agent-q-json)
(require 'agent-q-markdown)
(require 'agent-q-prompt)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Where chats are saved

;; Whether and where the core saves a chat, what it has to know of the chat for that,
;; and questions about stored chats, which it answers by an event.

(defcustom agent-q-save-chats t
  "Whether chats are saved, so that they can be resumed later.
What is said and done in a chat is then in a file of
`agent-q-chat-history-directory': messages, answers, calls with their results,
and what files held that the agent changed.  Keys of providers are never saved.
What counts is the value when a chat is opened."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;###autoload (put 'agent-q-chat-history-directory 'risky-local-variable t)
(defcustom agent-q-chat-history-directory (locate-user-emacs-file "agent-q-chats/")
  "The directory of the stored chats.
Only you can read it and the files in it.  You may move, copy and delete
the files at any time.  What a chat changed in files can be undone only in the
Emacs directory in which it was made."
  :type 'directory
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defcustom agent-q-chat-history-turns 50
  "How many turns of a chat are shown when it is resumed.
A button above them shows as many more."
  :type '(natnum :tag "Turns")
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defvar-local agent-q-chat-history-id nil
  "The id under which this chat is saved, or nil.")

(defvar-local agent-q-chat-history-busy nil
  "Why nothing can be added to this chat, a sentence, or nil.")

(defun agent-q-chat-history-folder ()
  "Return the directory of the stored chats as the core is told it."
  (expand-file-name agent-q-chat-history-directory))

(defun agent-q-chat-history-none-p ()
  "Whether no chat was stored yet."
  (not (and (file-directory-p (agent-q-chat-history-folder))
            (directory-files (agent-q-chat-history-folder) nil "\\`[^.]" t))))

(defun agent-q-chat-history--state ()
  "Return the directory of the key of the chats as the core is told it.
It is not that of the chats, which may be copied as a whole."
  (agent-q-text-clean (file-name-directory (expand-file-name agent-q-log-file))))

(defun agent-q-chat-history-settings (id)
  "Return as JSON the place of a new chat; nil if chats are not saved.
With ID, it is the place of that chat."
  (when (or id agent-q-save-chats)
    (agent-q-json-serialize
     `((directory . ,(agent-q-text-clean (agent-q-chat-history-folder)))
       (state . ,(agent-q-chat-history--state))
       (emacs . ,agent-q-changes-emacs)
       (id . ,(or id :null))
       (turns . ,agent-q-chat-history-turns)))))

(defvar-local agent-q-chat-history--noted nil
  "What the file of this chat was told last of where the chat is.")

(defun agent-q-chat-history-note ()
  "Have the file of this chat say where the chat is, if that has changed."
  (when agent-q-chat-history-id
    (let* ((place `((project . ,(agent-q-chat-history--text agent-q-session-project))
                    (root . ,(agent-q-chat-history--text agent-q-session-root))
                    (image . ,(agent-q-chat-history--text
                               (and (agent-q-connection-live-p agent-q-session-connection)
                                    (agent-q-connection-label agent-q-session-connection))))
                    (model . ,(agent-q-chat-history--text agent-q-chat-view-header-model))))
           (noted (list agent-q-session-number agent-q-chat-history-id place)))
      (unless (equal noted agent-q-chat-history--noted)
        (when (agent-q-core-note-place agent-q-session-number (agent-q-json-serialize place))
          (setq agent-q-chat-history--noted noted))))))

(defun agent-q-chat-history--text (text)
  "Return TEXT as JSON takes it, null if it is nil."
  (if text (agent-q-text-clean text) :null))

;;;;; Questions

(defvar agent-q-chat-history--questions (make-hash-table)
  "The functions that wait for answers, by the number of their question.")

(defun agent-q-chat-history-ask (what function &rest more)
  "Ask the core WHAT, a string, of the stored chats.
MORE is an alist with the rest of the question.  FUNCTION is called in this
buffer, if it is still there, with the answer, an alist, and with what went
wrong, a sentence or nil."
  (agent-q-events-ensure)
  (agent-q-events-subscribe :chats-answered #'agent-q-chat-history--answered)
  (let ((question (agent-q-core-ask-chats
                   (agent-q-json-serialize
                    `((do . ,what)
                      (directory . ,(agent-q-text-clean (agent-q-chat-history-folder)))
                      (state . ,(agent-q-chat-history--state))
                      ,@more))))
        (buffer (current-buffer)))
    (agent-q-chat-history-await question function buffer)))

(defun agent-q-chat-history-await (question function buffer)
  "Have FUNCTION called in BUFFER with the answer to QUESTION, a number."
  (agent-q-events-subscribe :chats-answered #'agent-q-chat-history--answered)
  (puthash question (cons buffer function) agent-q-chat-history--questions))

(defun agent-q-chat-history--answered (event)
  "Pass on the answer in EVENT."
  (pcase (gethash (plist-get event :question) agent-q-chat-history--questions)
    (`(,buffer . ,function)
     (remhash (plist-get event :question) agent-q-chat-history--questions)
     (when (buffer-live-p buffer)
       (with-current-buffer buffer
         (funcall function
                  (when-let ((answer (plist-get event :answer)))
                    (agent-q-json-alist answer t))
                  (plist-get event :problem)))))))

;;;; What a stored chat was

;; Draws the turns of a chat that is resumed.  They come latest first, and each is put
;; above those that are shown.  Its calls can be unfolded; its requests are not asked
;; again.

(defvar-local agent-q-chat-history-past-name nil
  "The name that the user gave this chat, or nil.")

(defvar-local agent-q-chat-history-past-turns nil
  "The names of the turns of this chat in the journals of images, by their numbers.
Those that are shown, in an alist.")

(defvar-local agent-q-chat-history--past-top nil
  "Marker before the first turn that is shown.")

(defvar-local agent-q-chat-history--past-button nil
  "Markers around the button for older turns, a cons, or nil.")

;;;;; What it is called

(defvar-local agent-q-chat-history--title nil
  "What the first message of this chat says, in short, or nil.
It begins with \"/\" while that only calls a tool.")

(defun agent-q-chat-history-called ()
  "Return the name of this chat, or else its title, or nil."
  (or agent-q-chat-history-past-name
      (and agent-q-chat-history--title (string-remove-prefix "/" agent-q-chat-history--title))))

(defun agent-q-chat-history-name-buffer ()
  "Name the buffer of this chat after its project, and what the chat is called."
  (rename-buffer (format "*agent-q: %s*"
                         (agent-q-text-visible-line
                          (or agent-q-chat-history-past-name
                              (let ((project (or agent-q-session-project "chat"))
                                    (title (agent-q-chat-history-called)))
                                (if title (format "%s: %s" project title) project)))
                          60))
                 t))

(defun agent-q-chat-history-titled (text about)
  "Give this chat a title by the message TEXT, with ABOUT attached, if it has none.
ABOUT is a list of texts."
  (when (or (null agent-q-chat-history--title)
            (and (string-prefix-p "/" agent-q-chat-history--title)
                 (not (string-prefix-p "/" text))))
    (let ((title (agent-q-text-title text about)))
      (unless (string-empty-p title)
        (setq agent-q-chat-history--title (concat (if (string-prefix-p "/" text) "/" "") title))
        (agent-q-chat-history-name-buffer)))))

;;;;; Its context

(defvar-local agent-q-chat-history--past-kept nil
  "The ids of what this chat kept in its context when its file was told last.")

(defun agent-q-chat-history--past-keep ()
  "Store in the file of this chat what is kept in its context."
  (let ((ids (mapcar #'agent-q-attach-item-id (agent-q-context-items))))
    (when (and agent-q-chat-history-id
               (not agent-q-chat-history-busy)
               (not (equal ids agent-q-chat-history--past-kept)))
      (setq agent-q-chat-history--past-kept ids)
      (agent-q-core-note-in-chat
       agent-q-session-number
       (agent-q-json-serialize `((context . ,(vconcat (agent-q-attach-plain)))))))))

(add-hook 'agent-q-attach-changed-hook #'agent-q-chat-history--past-keep)

;;;;; The chat as a whole

(defun agent-q-chat-history-past-resumed (about)
  "Show what there is to know of the chat that was read, ABOUT, an alist."
  (if-let ((problem (alist-get 'problem about)))
      (progn (setq agent-q-chat-history-id nil
                   agent-q-chat-history-busy problem)
             (agent-q-render-notice problem 'agent-q-failure))
    (setq agent-q-chat-history-past-name (alist-get 'name about)
          agent-q-chat-view-header-input (alist-get 'input about)
          agent-q-chat-view-header-output (alist-get 'output about)
          agent-q-chat-view-header-cached (alist-get 'cached about)
          agent-q-chat-view-header-written (alist-get 'written about)
          agent-q-chat-view-header-cost (alist-get 'cost about)
          agent-q-chat-view-header-unpriced (alist-get 'unpriced about))
    (setq agent-q-chat-history--past-top (copy-marker agent-q-render-end))
    (agent-q-render-notice (agent-q-chat-history--past-headline about))
    (dolist (sentence (delq nil (agent-q-chat-history--past-changes about)))
      (agent-q-render-notice sentence 'agent-q-attention))
    (setq agent-q-chat-history-busy (alist-get 'busy about))
    (when (alist-get 'kept about)
      (agent-q-attach-restore (alist-get 'kept about))
      (agent-q-render-notice (format "Kept in its context: %s."
                                     (agent-q-chat-history--past-kept-names))))
    (agent-q-chat-history-note)
    (agent-q-chat-view-header-update)))

(defun agent-q-chat-history--past-headline (about)
  "Return a line on the chat that is resumed, by ABOUT, an alist."
  (let ((turns (alist-get 'turns about)))
    (format "Resumed: %s%d %s, the last on %s."
            (if-let ((name (alist-get 'name about)))
                (format "%s, " (agent-q-text-visible-line name 60))
              "")
            turns (if (eql turns 1) "turn" "turns")
            (format-time-string "%F %R" (/ (alist-get 'latest about) 1000)))))

(defun agent-q-chat-history--past-kept-names ()
  "Return what is kept in the context of this chat, as text."
  (let* ((items (agent-q-context-items))
         (more (- (length items) 5)))
    (concat (mapconcat (lambda (item)
                         (agent-q-text-visible-line (agent-q-attach-item-name item) 40))
                       (seq-take items 5) ", ")
            (if (< 0 more) (format " and %d more" more) ""))))

(defun agent-q-chat-history--past-changes (about)
  "Return sentences on what is not as it was, by ABOUT; some are nil."
  (let ((image (alist-get 'image about))
        (root (alist-get 'root about)))
    ;; Looking at one on another machine would log in there.
    (list (and root (not (file-remote-p root)) (not (file-directory-p root))
               (format "The directory of its project, %s, is gone."
                       (agent-q-text-visible-line (abbreviate-file-name root) 200)))
          (and image (not (agent-q-chat-history--past-same-image-p image))
               (format "Its image, %s, is not connected; what the chat says about it \
may be outdated.  %s"
                       (agent-q-text-visible-line image 60)
                       (if (agent-q-connection-live-p agent-q-session-connection)
                           (format "It uses %s now."
                                   (agent-q-text-visible-line
                                    (agent-q-connection-label agent-q-session-connection) 60))
                         "No Lisp is connected.")))
          (alist-get 'remark about)
          (alist-get 'foreign about)
          (alist-get 'busy about))))

(defun agent-q-chat-history--past-same-image-p (label)
  "Whether this chat's image is the one of LABEL, as far as can be known."
  (and (agent-q-connection-live-p agent-q-session-connection)
       (equal label (agent-q-connection-label agent-q-session-connection))))

;;;;; Its turns

(defun agent-q-chat-history-past-show (event)
  "Show the turn of EVENT above those that are shown, or below all."
  (when agent-q-chat-history--past-top
    (let ((past (plist-get event :events))
          (agent-q-markdown-past t))
      (setf (alist-get (plist-get event :turn) agent-q-chat-history-past-turns)
            (plist-get event :name))
      (cl-flet ((draw ()
                  (agent-q-chat-history--past-draw past)
                  (agent-q-changes-line-past
                   (plist-get event :name) (plist-get event :changed)
                   (delq nil (mapcar (lambda (it) (plist-get it :tool)) past)))))
        (if (plist-get event :below)
            (progn (draw)
                   (agent-q-render-finish))
          (agent-q-chat-history--past-show-above #'draw (plist-get event :older))))
      (when (eql 0 (plist-get event :older))
        (agent-q-chat-history-titled (plist-get (car past) :text) (plist-get (car past) :along)))
      (agent-q-chat-history--found (plist-get event :turn)))))

;;;;; Going to one

(defvar-local agent-q-chat-history--sought nil
  "A turn that is to be shown, and the function that is called then, a cons.")

(defun agent-q-chat-history-when-shown (turn function)
  "Call FUNCTION with the position of the message of TURN, a number.
In a chat that is resumed, that is when the turn is shown."
  (if-let ((position (car (rassq turn (agent-q-chat-history--rewind-turns)))))
      (funcall function position)
    (setq agent-q-chat-history--sought (cons turn function))
    (when agent-q-chat-history--past-button
      (agent-q-core-show-older agent-q-session-number most-positive-fixnum))))

(defun agent-q-chat-history--found (turn)
  "Call the function that waits for TURN, a number, if there is one."
  (pcase agent-q-chat-history--sought
    (`(,(pred (eql turn)) . ,function)
     (setq agent-q-chat-history--sought nil)
     (agent-q-chat-history-when-shown turn function))))

(defun agent-q-chat-history--past-show-above (draw older)
  "Show the turn that DRAW draws above those that are shown.
OLDER is how many turns are still to be shown."
  (agent-q-chat-history--past-withdraw)
  (let ((start (marker-position agent-q-chat-history--past-top)))
    (agent-q-render-above
     start (lambda ()
             (funcall draw)
             (agent-q-render-space)))
    (set-marker agent-q-chat-history--past-top start)
    (agent-q-chat-history--past-offer older)))

(defun agent-q-chat-history--past-draw (past)
  "Draw PAST, the events of a turn."
  (let ((ends (make-hash-table)) (starts (make-hash-table)) (ended nil))
    (dolist (event past)
      (pcase (plist-get event :type)
        (:call-started (puthash (plist-get event :call) event starts))
        (:call-finished (puthash (plist-get event :call) event ends))))
    (dolist (event past)
      (pcase (plist-get event :type)
        ((or :turn-started :steered)
         (agent-q-render-user (plist-get event :text) (plist-get event :turn))
         (when-let ((along (plist-get event :along)))
           (agent-q-render-notice (concat "  with " (string-join along "; ")))))
        (:text (agent-q-render-text (plist-get event :text)))
        (:reasoning (agent-q-render-reasoning (plist-get event :text) 'past))
        (:notice (agent-q-render-notice (plist-get event :text)))
        (:call-proposed
         (let* ((key (plist-get event :call))
                (end (gethash key ends)))
           (agent-q-call-events-past event (plist-get (gethash key starts) :arguments)
                                     (plist-get end :outcome) (plist-get end :content)
                                     (plist-get end :milliseconds))))
        (:turn-ended (setq ended t)
                     (agent-q-chat-history--past-draw-end event))))
    (unless ended
      (agent-q-render-notice "Interrupted: Emacs exited during this turn."
                             'agent-q-attention))))

(defun agent-q-chat-history--past-draw-end (event)
  "Draw how a turn ended, by EVENT."
  (pcase (plist-get event :outcome)
    (:cancelled (agent-q-render-notice "Cancelled."))
    ((or :failed :limit :interrupted)
     (agent-q-render-notice (or (plist-get event :message) "The turn failed.")
                            'agent-q-failure))))

;;;;; Older ones

(defun agent-q-chat-history--past-withdraw ()
  "Remove the button for older messages."
  (when agent-q-chat-history--past-button
    (pcase-let ((`(,start . ,end) agent-q-chat-history--past-button))
      (agent-q-render-remove start end)
      (setq agent-q-chat-history--past-button nil))))

(defun agent-q-chat-history--past-offer (count)
  "Offer COUNT older messages, in a button above those in the log."
  (when (> count 0)
    (let ((start (marker-position agent-q-chat-history--past-top)))
      (agent-q-render-above
       start
       (lambda ()
         (agent-q-render-button
          (format "[Show older turns: %d]" count) #'agent-q-chat-history-older)))
      (set-marker agent-q-chat-history--past-top
                  (save-excursion (goto-char start) (line-beginning-position 2)))
      (setq agent-q-chat-history--past-button
            (cons (copy-marker start) (copy-marker agent-q-chat-history--past-top))))))

(defun agent-q-chat-history-older-p ()
  "Whether an older message of this chat isn't shown."
  (and agent-q-chat-history--past-button t))

;;;###autoload
(defun agent-q-chat-history-older ()
  "Show older messages of this chat, which was resumed."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (unless agent-q-chat-history--past-button
    (user-error "All turns of this chat are shown"))
  (agent-q-core-show-older agent-q-session-number agent-q-chat-history-turns))

;;;; Going back to before a message

;; Takes a chat back to before a message of the user's: the conversation, the files and
;; the image, as far as the user ticks them.  What that would do is shown first, and
;; it can be undone until the next message.

(cl-defstruct (agent-q-chat-history-rewind-plan (:constructor agent-q-chat-history--rewind-make-plan) (:copier nil))
  "What going back to before a message would do.
CHAT is the buffer, TURN the number of its turn, and TEXT the message.
MESSAGES is their number, FILES and LOST are texts, DEFINITIONS and KEPT
those of the image that can and can't be undone.  NAMES are those of the
turns in the image's journal that changed it, the latest first.  TICKED are
the parts to undo, of `conversation', `files' and `image'.  CALLED is non-nil
if a tool was called since."
  chat turn text messages files lost definitions kept names ticked called)

(defvar-local agent-q-chat-history--rewind-plan nil
  "What this buffer shows, an `agent-q-chat-history-rewind-plan'.")

(defvar-local agent-q-chat-history--rewind-hidden nil
  "The overlays over what was undone in this chat, by the rewinds' numbers.")

(defvar-local agent-q-chat-history--rewind-latest nil
  "The last rewind of this chat, (NUMBER . IMAGE), if it can be undone.
IMAGE is what it undid in the image: nil, or an alist of `ids', numbers in
the image's journal, and `turns', the names of their turns there.")

;;;;; Which message

(defun agent-q-chat-history--rewind-turns ()
  "Return the messages in sight of this chat, as (POSITION . NUMBER), in order."
  (let ((position (point-min)) (turns nil))
    (while (setq position (text-property-not-all position agent-q-render-end
                                                 'agent-q-turn nil))
      (let ((turn (get-text-property position 'agent-q-turn)))
        (when (and (integerp turn) (not (invisible-p position)))
          (push (cons position turn) turns)))
      (setq position (next-single-property-change position 'agent-q-turn nil
                                                  agent-q-render-end)))
    (nreverse turns)))

(defun agent-q-chat-history--rewind-at-point ()
  "Return the message at point, or the one that it answers, as (POSITION . NUMBER)."
  (let ((turns (agent-q-chat-history--rewind-turns)))
    (or (car (last (seq-take-while (lambda (turn) (<= (car turn) (point))) turns)))
        (user-error "No message of yours is here"))))

(defun agent-q-chat-history--rewind-called-p (position)
  "Whether the log has a call after POSITION."
  (let ((called nil))
    (while (and (not called)
                (setq position (text-property-not-all position agent-q-render-end
                                                      'agent-q-item nil)))
      (setq called (agent-q-call-p (agent-q-render-item-at position))
            position (next-single-char-property-change position 'agent-q-item nil
                                                       agent-q-render-end)))
    called))

(defun agent-q-chat-history--rewind-text (position)
  "Return the text of the message at POSITION."
  (let* ((start (next-single-property-change position 'agent-q-turn nil agent-q-render-end))
         (end (next-single-property-change start 'face nil agent-q-render-end)))
    (string-trim-right (buffer-substring-no-properties start end))))

;;;;; What it would do

;;;###autoload
(defun agent-q-rewind ()
  "Go back to before the message at point; at the prompt, the last one.
What that would do to the conversation, to files and to the image is shown
first, and you choose which of them to undo.  Your message is put at the
prompt again."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (when agent-q-chat-history-busy
    (user-error "%s" agent-q-chat-history-busy))
  (when (agent-q-chat-view-header-busy-p)
    (user-error "A turn is running; C-c C-k ends it"))
  (pcase-let* ((`(,position . ,turn) (agent-q-chat-history--rewind-at-point))
               (plan (agent-q-chat-history--rewind-make-plan
                      :chat (current-buffer) :turn turn
                      :text (agent-q-chat-history--rewind-text position)
                      :called (agent-q-chat-history--rewind-called-p position))))
    (agent-q-chat-history-await
     (agent-q-core-plan-rewind agent-q-session-number turn)
     (lambda (answer problem)
       (if problem (message "%s" problem)
         (setf (agent-q-chat-history-rewind-plan-messages plan) (alist-get 'messages answer)
               (agent-q-chat-history-rewind-plan-files plan) (alist-get 'files answer)
               (agent-q-chat-history-rewind-plan-lost plan) (alist-get 'lost answer))
         (agent-q-chat-history--rewind-ask-image plan)))
     (current-buffer))))

(defun agent-q-chat-history--rewind-names (turn)
  "Return the names that journals of images have for this chat from TURN on."
  (mapcar #'cdr (seq-filter (lambda (known) (>= (car known) turn))
                            agent-q-chat-history-past-turns)))

(defun agent-q-chat-history--rewind-ask-image (plan)
  "Complete PLAN by the journal of this chat's image, and show it."
  (if (not (agent-q-connection-live-p agent-q-session-connection))
      (agent-q-chat-history--rewind-show plan)
    (agent-q-image-query
     agent-q-session-connection "journal-list" '(:limit 1000)
     (lambda (reply &rest _)
       (pcase reply
         (`(:outcome :returned :value ,value . ,_)
          (agent-q-chat-history--rewind-take-image plan (plist-get value :changes))))
       (agent-q-chat-history--rewind-show plan)))))

(defun agent-q-chat-history--rewind-take-image (plan changes)
  "Note in PLAN what an image's journal has about it.
It has the list CHANGES."
  (let ((names (with-current-buffer (agent-q-chat-history-rewind-plan-chat plan)
                 (agent-q-chat-history--rewind-names (agent-q-chat-history-rewind-plan-turn plan)))))
    (dolist (change changes)
      (when (and (member (plist-get change :turn) names)
                 (not (plist-get change :restored)))
        (cl-pushnew (plist-get change :turn) (agent-q-chat-history-rewind-plan-names plan)
                    :test #'equal)
        (let ((text (agent-q-text-visible-line
                     (format "%s (%s)" (plist-get change :name) (plist-get change :kind))
                     100)))
          (if (plist-get change :irreversible)
              (cl-pushnew (format "%s: %s" text (plist-get change :irreversible))
                          (agent-q-chat-history-rewind-plan-kept plan) :test #'equal)
            (cl-pushnew text (agent-q-chat-history-rewind-plan-definitions plan) :test #'equal)))))
    ;; The latest comes first in the journal.
    (setf (agent-q-chat-history-rewind-plan-names plan) (nreverse (agent-q-chat-history-rewind-plan-names plan)))))

;;;;; Showing it

(defvar agent-q-chat-history-rewind-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map "c" #'agent-q-chat-history-rewind-tick-conversation)
    (define-key map "f" #'agent-q-chat-history-rewind-tick-files)
    (define-key map "i" #'agent-q-chat-history-rewind-tick-image)
    (define-key map (kbd "C-c C-c") #'agent-q-chat-history-rewind-do)
    map)
  "Keymap of `agent-q-chat-history-rewind-mode'.")

(define-derived-mode agent-q-chat-history-rewind-mode special-mode "agent-q rewind"
  "Major mode for what going back to before a message would do.

\\<agent-q-chat-history-rewind-mode-map>
\\[agent-q-chat-history-rewind-tick-conversation] ticks the conversation,
\\[agent-q-chat-history-rewind-tick-files] the files,
\\[agent-q-chat-history-rewind-tick-image] the image;
\\[agent-q-chat-history-rewind-do] undoes what is ticked,
\\[agent-q-chats-fork-here] continues in a new chat instead,
\\[quit-window] changes nothing.

\\{agent-q-chat-history-rewind-mode-map}")

(defun agent-q-chat-history--rewind-show (plan)
  "Show PLAN in a buffer of its own."
  (setf (agent-q-chat-history-rewind-plan-ticked plan)
        (delq nil (list 'conversation
                        (and (agent-q-chat-history-rewind-plan-files plan) 'files)
                        (and (agent-q-chat-history-rewind-plan-names plan) 'image))))
  (when (buffer-live-p (agent-q-chat-history-rewind-plan-chat plan))
    (let ((buffer (get-buffer-create "*agent-q rewind*")))
      (with-current-buffer buffer
        (agent-q-chat-history-rewind-mode)
        (setq agent-q-chat-history--rewind-plan plan)
        (agent-q-chat-history--rewind-draw))
      (pop-to-buffer buffer))))

(defun agent-q-chat-history--rewind-count (count thing)
  "Return COUNT with the word THING."
  (format "%d %s%s" count thing (if (eql count 1) "" "s")))

(defun agent-q-chat-history--rewind-summary (plan)
  "Return what PLAN would undo, such as \"3 files, 2 definitions, 7 messages\"."
  (let ((ticked (agent-q-chat-history-rewind-plan-ticked plan)))
    (string-join
     (delq nil
           (list (and (memq 'files ticked)
                      (agent-q-chat-history--rewind-count (length (agent-q-chat-history-rewind-plan-files plan)) "file"))
                 (and (memq 'image ticked)
                      (agent-q-chat-history--rewind-count (length (agent-q-chat-history-rewind-plan-definitions plan))
                                                          "definition"))
                 (and (memq 'conversation ticked)
                      (agent-q-chat-history--rewind-count (agent-q-chat-history-rewind-plan-messages plan) "message"))))
     ", ")))

(defun agent-q-chat-history--rewind-parts (plan)
  "Return the parts of PLAN that may have something to undo.
Each is a list of its symbol, its key, its title and what it would undo."
  (let ((called (agent-q-chat-history-rewind-plan-called plan))
        (files (agent-q-chat-history-rewind-plan-files plan))
        (definitions (agent-q-chat-history-rewind-plan-definitions plan)))
    (delq nil
          (list (list 'conversation "c"
                      (concat "Conversation: "
                              (agent-q-chat-history--rewind-count
                               (agent-q-chat-history-rewind-plan-messages plan) "message"))
                      nil)
                (and (or files called)
                     (list 'files "f" (concat "Files: " (agent-q-chat-history--rewind-count
                                                         (length files) "file"))
                           files))
                (and (or definitions called)
                     (list 'image "i" (concat "Image: " (agent-q-chat-history--rewind-count
                                                         (length definitions) "definition"))
                           definitions))))))

(defun agent-q-chat-history--rewind-draw ()
  "Draw the plan of this buffer."
  (let* ((inhibit-read-only t)
         (plan agent-q-chat-history--rewind-plan)
         (ticked (agent-q-chat-history-rewind-plan-ticked plan))
         (place (point)))
    (erase-buffer)
    (insert "Go back to before: "
            (agent-q-text-visible-line
             (replace-regexp-in-string "[ \t\n]+" " " (agent-q-chat-history-rewind-plan-text plan)) 55)
            "\n"
            ;; Above what may be long, so that it is seen in a small window.
            (substitute-command-keys
             "\\<agent-q-chat-history-rewind-mode-map>\\[agent-q-chat-history-rewind-do] undoes what is ticked, \
\\[agent-q-chats-fork-here] continues in a new chat, \\[quit-window] cancels.\n\n"))
    (pcase-dolist (`(,part ,key ,title ,things) (agent-q-chat-history--rewind-parts plan))
      (insert (format "[%s] %s  %s\n" (if (memq part ticked) "x" " ") key title))
      (dolist (thing things)
        (insert "         " (agent-q-text-visible-line thing 120) "\n")))
    (when-let ((lost (append (agent-q-chat-history-rewind-plan-lost plan) (agent-q-chat-history-rewind-plan-kept plan)
                             (agent-q-chat-history--rewind-never plan))))
      (insert (propertize "\nCan't be undone:\n" 'face 'agent-q-attention))
      (dolist (sentence lost)
        (insert "  - " (agent-q-text-visible-prose sentence) "\n")))
    (goto-char (min place (point-max)))))

(defun agent-q-chat-history--rewind-never (plan)
  "Return sentences on what can't be known, in PLAN's chat."
  (with-current-buffer (agent-q-chat-history-rewind-plan-chat plan)
    (delq nil
          (and (agent-q-chat-history-rewind-plan-called plan)
               (list (unless (agent-q-connection-live-p agent-q-session-connection)
                       "No Lisp is connected, so nothing in an image is undone.")
                     "Side effects of code: output, files of its own, state of objects.")))))

(defun agent-q-chat-history--rewind-tick (part)
  "Tick PART, or don't any more."
  (let ((plan agent-q-chat-history--rewind-plan))
    (unless (assq part (agent-q-chat-history--rewind-parts plan))
      (user-error "Nothing to undo there"))
    (setf (agent-q-chat-history-rewind-plan-ticked plan)
          (if (memq part (agent-q-chat-history-rewind-plan-ticked plan))
              (remq part (agent-q-chat-history-rewind-plan-ticked plan))
            (cons part (agent-q-chat-history-rewind-plan-ticked plan))))
    (agent-q-chat-history--rewind-draw)))

(defun agent-q-chat-history-rewind-tick-conversation ()
  "Choose whether to undo the conversation."
  (interactive nil agent-q-chat-history-rewind-mode)
  (agent-q-chat-history--rewind-tick 'conversation))

(defun agent-q-chat-history-rewind-tick-files ()
  "Choose whether to restore files."
  (interactive nil agent-q-chat-history-rewind-mode)
  (agent-q-chat-history--rewind-tick 'files))

(defun agent-q-chat-history-rewind-tick-image ()
  "Choose whether to restore definitions in the image."
  (interactive nil agent-q-chat-history-rewind-mode)
  (agent-q-chat-history--rewind-tick 'image))

;;;;; Doing it

(defun agent-q-chat-history-rewind-take ()
  "Leave this buffer and return its plan."
  (let ((plan agent-q-chat-history--rewind-plan))
    (quit-window t)
    plan))

(defun agent-q-chat-history-rewind-do ()
  "Undo what is ticked."
  (interactive nil agent-q-chat-history-rewind-mode)
  (let* ((plan agent-q-chat-history--rewind-plan)
         (ticked (agent-q-chat-history-rewind-plan-ticked plan))
         (chat (agent-q-chat-history-rewind-plan-chat plan)))
    (unless ticked
      (user-error "Nothing is ticked"))
    (quit-window t)
    (when (buffer-live-p chat)
      (pop-to-buffer chat)
      (when (agent-q-chat-view-header-busy-p)
        (user-error "A turn is running; nothing was undone"))
      (agent-q-chat-history-await
       (agent-q-core-rewind agent-q-session-number (agent-q-chat-history-rewind-plan-turn plan)
                            (agent-q-json-serialize
                             (vconcat (mapcar #'symbol-name (remq 'image ticked)))))
       (lambda (answer problem)
         (if problem (agent-q-render-notice problem 'agent-q-failure)
           (agent-q-chat-history--rewind-image plan answer)))
       chat))))

(defun agent-q-chat-history--rewind-image (plan answer)
  "Undo what PLAN has of the image, after ANSWER told of the rest."
  (if (not (and (memq 'image (agent-q-chat-history-rewind-plan-ticked plan))
                (agent-q-chat-history-rewind-plan-names plan)))
      (agent-q-chat-history--rewind-done plan answer nil nil)
    (agent-q-chat-history--rewind-restore plan answer (agent-q-chat-history-rewind-plan-names plan) nil nil)))

(defun agent-q-chat-history--rewind-restore (plan answer names results ids)
  "Let the image of PLAN restore what NAMES stand for, one after the other.
RESULTS and IDS are what came of those before; ANSWER is passed on."
  (if (null names)
      (agent-q-chat-history--rewind-done plan answer results ids)
    (let ((chat (agent-q-chat-history-rewind-plan-chat plan)))
      (agent-q-image-query
       agent-q-session-connection "journal-restore" (list :turn (car names))
       (lambda (reply &rest _)
         (when (buffer-live-p chat)
           (with-current-buffer chat
             (let ((value (pcase reply
                            (`(:outcome :returned :value ,value . ,_) value))))
               (agent-q-chat-history--rewind-restore
                plan answer (cdr names)
                (append results (if value (plist-get value :results)
                                  '("The image did not answer.")))
                (append ids (plist-get value :ids)))))))))))

(defun agent-q-chat-history--rewind-done (plan answer results ids)
  "Say what came of PLAN: ANSWER of files, RESULTS and IDS of the image."
  (let ((rewind (alist-get 'rewind answer)))
    (agent-q-render-notice (format "Went back: %s." (agent-q-chat-history--rewind-summary plan)))
    ;; What was attached to the messages that were undone is gone with them.
    (agent-q-attach-forget-sent)
    (dolist (line (append (alist-get 'left answer) results))
      (agent-q-render-notice (concat "  " line)))
    (when-let ((systems (append (alist-get 'systems answer) nil)))
      (agent-q-render-notice
       (format "  The image still has what was loaded from the files; load_system %s loads the \
restored ones." (car systems)))
      (agent-q-changes-offer-load systems))
    (when results
      (agent-q-core-image-undone agent-q-session-number (string-join results "\n")))
    (setq agent-q-chat-history--rewind-latest
          (cons rewind (and ids `((ids . ,ids) (turns . ,(agent-q-chat-history-rewind-plan-names plan))))))
    (when ids
      (agent-q-chat-history--rewind-save-image))
    (agent-q-chat-history--rewind-offer-undo)
    (when (and (memq 'conversation (agent-q-chat-history-rewind-plan-ticked plan))
               (string-blank-p (agent-q-prompt-text)))
      (agent-q-prompt-replace (agent-q-chat-history-rewind-plan-text plan)))
    (agent-q-chat-history--rewind-to-end)))

(defun agent-q-chat-history--rewind-to-end ()
  "Go to the end of this chat in its windows, where what came of a rewind is said."
  (goto-char (point-max))
  (dolist (window (get-buffer-window-list nil nil t))
    (set-window-point window (point-max))))

;;;;; Undoing it

(defun agent-q-chat-history--rewind-offer-undo ()
  "Show a button for undoing the last rewind of this chat."
  (let ((rewind (car agent-q-chat-history--rewind-latest)))
    (agent-q-render-button "[Undo this]"
                           (lambda ()
                             (unless (eql rewind (car agent-q-chat-history--rewind-latest))
                               (user-error "That can no longer be undone"))
                             (agent-q-undo-rewind))
                           'turn)))

(defun agent-q-chat-history--rewind-save-image ()
  "Store in the file of this chat what its last rewind undid in the image."
  (pcase-let ((`(,rewind . ,image) agent-q-chat-history--rewind-latest))
    (agent-q-core-note-in-chat
     agent-q-session-number
     (agent-q-json-serialize
      `((image_rewound . ((rewind . ,rewind)
                          (image . ((ids . ,(vconcat (alist-get 'ids image)))
                                    (turns . ,(vconcat (alist-get 'turns image))))))))))))

(defun agent-q-chat-history-rewind-resumed (latest)
  "Offer to undo LATEST, an alist, the rewind with which this chat ended, if any."
  (when (and latest (not agent-q-chat-history-busy))
    (setq agent-q-chat-history--rewind-latest
          (cons (alist-get 'rewind latest) (alist-get 'image latest)))
    (agent-q-render-notice "This chat was rewound last, which can be undone until you send a message.")
    (agent-q-chat-history--rewind-offer-undo)))

;;;###autoload
(defun agent-q-undo-rewind ()
  "Undo the last rewind of this chat, if nothing was asked since.
That is possible after a restart of Emacs as well; definitions come back if
the chat uses the same image."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (when (agent-q-chat-view-header-busy-p)
    (user-error "A turn is running; C-c C-k ends it"))
  (pcase agent-q-chat-history--rewind-latest
    (`(,rewind . ,image) (agent-q-chat-history--rewind-undo rewind image))
    (_ (user-error "This chat was not rewound"))))

(defun agent-q-chat-history--rewind-undo (rewind image)
  "Undo REWIND, a number, and let the image bring back what is in IMAGE."
  (agent-q-chat-history-await
   (agent-q-core-undo-rewind agent-q-session-number rewind)
   (lambda (answer problem)
     (if problem (message "%s" problem)
       (setq agent-q-chat-history--rewind-latest nil)
       (agent-q-chat-history--rewind-undone (alist-get 'left answer))
       (cond ((null image))
             ((agent-q-connection-live-p agent-q-session-connection)
              (agent-q-chat-history--rewind-redo image))
             (t (agent-q-render-notice "  No Lisp is connected, so what it undid there stays \
undone." 'agent-q-failure)))))
   (current-buffer)))

(defun agent-q-chat-history--rewind-undone (left)
  "Say that a rewind was undone, but for LEFT, sentences."
  (agent-q-render-notice "The rewind was undone.")
  (dolist (line left)
    (agent-q-render-notice (concat "  " line) 'agent-q-failure))
  ;; The button is far above by now: what it had hidden is shown again.
  (agent-q-chat-history--rewind-to-end))

(defun agent-q-chat-history--rewind-redo (image)
  "Let the image bring back what is in IMAGE.
It is as in `agent-q-chat-history--rewind-latest'."
  (let ((chat (current-buffer)))
    (agent-q-image-query
     agent-q-session-connection "journal-redo"
     (list :ids (alist-get 'ids image) :turns (alist-get 'turns image))
     (lambda (reply &rest _)
       (when (buffer-live-p chat)
         (with-current-buffer chat
           (pcase reply
             (`(:outcome :returned :value (:results nil) . ,_)
              (agent-q-render-notice "  This is another image; what the rewind undid there \
is not in it." 'agent-q-failure))
             (`(:outcome :returned :value ,value . ,_)
              (dolist (line (plist-get value :results))
                (agent-q-render-notice (concat "  " line))))
             (_ (agent-q-render-notice "Nothing was restored in the image."
                                       'agent-q-failure)))))))))

;;;;; In the log

(defun agent-q-chat-history-rewind-hide (turn rewind)
  "Hide the log from the message of TURN on, which REWIND undid, numbers."
  (when-let ((start (car (rassq turn (agent-q-chat-history--rewind-turns)))))
    (agent-q-render-finish)
    (let ((overlay (make-overlay start agent-q-render-end nil t nil)))
      (overlay-put overlay 'invisible t)
      (overlay-put overlay 'agent-q-rewind rewind)
      (push (cons rewind overlay) agent-q-chat-history--rewind-hidden))))

(defun agent-q-chat-history-rewind-show (rewind)
  "Show again what REWIND, a number, had hidden."
  (if-let ((overlay (alist-get rewind agent-q-chat-history--rewind-hidden)))
      (progn (delete-overlay overlay)
             (setq agent-q-chat-history--rewind-hidden (assq-delete-all rewind agent-q-chat-history--rewind-hidden)))
    ;; It was taken back before this chat was resumed.
    (agent-q-core-show-unwound agent-q-session-number rewind)))

(provide 'agent-q-chat-history)
;;; agent-q-chat-history.el ends here
