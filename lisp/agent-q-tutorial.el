;;; agent-q-tutorial.el --- The tour: agent-q in ten minutes, without a model  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; M-x agent-q-tutorial writes a small Lisp project into a folder, loads it into the user's image and
;; opens a chat whose model is a script (tutorial/script.json, played by src/provider/script.rs).  All
;; else is as always.  A guide above the chat says what to press.  Each step waits until its work is
;; done, and what was done is noted in a file, so that the tour can be left and continued.

;;; Code:

(require 'agent-q-chat)
(require 'agent-q-connection)
(require 'agent-q-json)
(require 'agent-q-model-facts)
(require 'agent-q-provider)
(require 'agent-q-text)
(require 'cl-lib)
(require 'subr-x)

(defvar inferior-lisp-program)
(defvar sly-connected-hook)
(defvar slime-connected-hook)

(defconst agent-q-tutorial--directory
  (expand-file-name "tutorial/" (file-name-directory (or load-file-name (locate-library "agent-q-tutorial"))))
  "Where the project and the script of the tour are.")

(defvar agent-q-tutorial-file (locate-user-emacs-file "agent-q/tour.eld")
  "The file that says how far the tour is.")

;;;; The steps

;; What is done is a list of facts: the message of a turn that has ended, a string, or a symbol.

(cl-defstruct (agent-q-tutorial-step (:constructor agent-q-tutorial--step) (:copier nil))
  "A step of the tour.
FACT is what its work leaves, TYPED what is put at the prompt for it, or nil."
  title text fact typed)

(defun agent-q-tutorial--asking (title question text)
  "Return a step called TITLE that is done when QUESTION was answered.
TEXT says what happens."
  (agent-q-tutorial--step :title title :text text :fact question :typed question))

(defconst agent-q-tutorial--steps
  (vector
   (agent-q-tutorial--asking
    "Ask" "What does transfer do?"
    "A small bank was loaded into your Lisp, and this is a chat about it.  A question
stands at the prompt below: press \\[agent-q-chat-return] to send it.  The words of the answers are
scripted in this tour.  The calls are real and run in your Lisp.")
   (agent-q-tutorial--step
    :title "Look for yourself" :fact 'looked :typed "/describe_symbol tour-bank:transfer"
    :text "find_definition and eval_form above are calls.  With the cursor on one, TAB shows all of it.
\\[end-of-buffer] returns to the prompt.  With a slash you call tools yourself, without a
model: press \\[agent-q-chat-return] to try one.")
   (agent-q-tutorial--asking
    "Say yes or no" "Write Ann's statement to a file."
    "Code that only looks or computes runs at once.  Before it writes a file, you are
asked.  Press \\[agent-q-chat-return], read the request, then press y for yes or n for no: the tour goes
on either way.")
   (agent-q-tutorial--asking
    "Meet an error" "Move 100 from Ann to Bob."
    "Ann has 5.  Press \\[agent-q-chat-return] and see what happens to the two accounts.")
   (agent-q-tutorial--step
    :title "Look into the error" :fact 'debugged
    :text "The error is parked: it waits with its stack.  \\[agent-q-debugger-hand-over] opens it in your own debugger.
There n goes to the next frame and RET shows its variables.  TOUR-BANK:WITHDRAW was
called by TOUR-BANK:TRANSFER.  q leaves the debugger.")
   (agent-q-tutorial--asking
    "Take half of an edit" "Fix transfer."
    "Press \\[agent-q-chat-return].  The edit has two parts: a message that gets worse, and the fix.  At the
request press i to see them in the file.  There k rejects the part with \"Nope.\" and
y accepts the one in TRANSFER.  Then allow the tests with y.")
   (agent-q-tutorial--step
    :title "Verify" :fact 'verified :typed "/verify"
    :text "Does it work only in your Lisp, or with the files alone?  Press \\[agent-q-chat-return], then y to
allow it: a new Lisp loads the files and runs the tests, which takes some seconds.
[Verify] below the answer does the same.")
   (agent-q-tutorial--step
    :title "Go back" :fact 'rewound
    :text "A message can be undone with all that came of it.  \\[agent-q-chat-view-previous-turn] goes to a message of yours:
go to \"Fix transfer.\" and press \\[agent-q-rewind].  A page shows what is undone in chat, files and
Lisp: C-c C-c there does it, q does not.")
   (agent-q-tutorial--step
    :title "That was the tour"
    :text "RET on [Undo this] brings it all back.  Now with a model: M-x agent-q-set-key sets a key, M-x agent-q-chat opens a chat
in a project of yours, \\[agent-q-menu] is the menu.  [Leave] closes this guide; the folder of
the tour can be deleted then."))
  "The steps of the tour.")

;;;; How far the tour is

(defvar agent-q-tutorial--folder nil "The folder of the tour's project, or nil if no tour runs.")
(defvar agent-q-tutorial--number 0 "The number of the present step.")
(defvar agent-q-tutorial--facts nil "What was done.")
(defvar agent-q-tutorial--chat nil "The buffer of the tour's chat, or nil.")
(defvar agent-q-tutorial--id nil "What that chat is stored as.")
(defvar agent-q-tutorial--asked nil "The message of the turn that runs, or nil.")
(defvar agent-q-tutorial--image nil "The connection into which the project was loaded, or nil.")
(defvar agent-q-tutorial--unloaded nil "Why it isn't loaded there, `pending', or nil.")
(defvar agent-q-tutorial--timer nil "The timer that looks at what can't be subscribed to, or nil.")
(defvar agent-q-tutorial--trouble nil "What hinders the tour, as the guide says it, or nil.")

(defun agent-q-tutorial--save ()
  "Write down how far the tour is."
  (make-directory (file-name-directory agent-q-tutorial-file) t)
  (with-temp-file agent-q-tutorial-file
    (prin1 (list :folder agent-q-tutorial--folder :number agent-q-tutorial--number
                 :facts agent-q-tutorial--facts :chat agent-q-tutorial--id)
           (current-buffer))))

(defun agent-q-tutorial--saved ()
  "Return how far the tour was when it was left, a property list, or nil."
  (let ((saved (ignore-errors
                 (with-temp-buffer
                   (insert-file-contents agent-q-tutorial-file)
                   (read (current-buffer))))))
    (and (stringp (plist-get saved :folder))
         (natnump (plist-get saved :number))
         (< (plist-get saved :number) (length agent-q-tutorial--steps))
         saved)))

(defun agent-q-tutorial--present ()
  "Return the present step."
  (aref agent-q-tutorial--steps agent-q-tutorial--number))

(defun agent-q-tutorial--last-p ()
  "Whether the present step is the last one."
  (= agent-q-tutorial--number (1- (length agent-q-tutorial--steps))))

(defun agent-q-tutorial--fact (fact)
  "Note that FACT is done, and go on when Emacs is done with what it does now."
  (cl-pushnew fact agent-q-tutorial--facts :test #'equal)
  (run-at-time 0 nil #'agent-q-tutorial--look))

(defun agent-q-tutorial--go (number)
  "Make the step of NUMBER the present one."
  (setq agent-q-tutorial--number
        (max 0 (min number (1- (length agent-q-tutorial--steps)))))
  (agent-q-tutorial--save)
  (agent-q-tutorial--draw)
  (agent-q-tutorial--type))

(defun agent-q-tutorial--type ()
  "Put what the present step sends at the prompt, unless something is there."
  (let ((typed (agent-q-tutorial-step-typed (agent-q-tutorial--present))))
    (when (and typed (buffer-live-p agent-q-tutorial--chat) (not agent-q-tutorial--trouble))
      (with-current-buffer agent-q-tutorial--chat
        (when (and (not (agent-q-chat-view-header-busy-p))
                   (or (string-blank-p (agent-q-prompt-text))
                       ;; A step that was skipped.
                       (seq-some (lambda (step)
                                   (equal (agent-q-tutorial-step-typed step) (agent-q-prompt-text)))
                                 agent-q-tutorial--steps)))
          (agent-q-prompt-replace typed)
          (dolist (window (get-buffer-window-list nil nil t))
            (set-window-point window (point-max))))))))

;;;; What happens

(defun agent-q-tutorial--own-p (event)
  "Whether EVENT is of the tour's chat."
  (and (buffer-live-p agent-q-tutorial--chat)
       (eql (plist-get event :session)
            (buffer-local-value 'agent-q-session-number agent-q-tutorial--chat))))

(defun agent-q-tutorial--turn-started (event)
  "Note the message of EVENT."
  (when (agent-q-tutorial--own-p event)
    (setq agent-q-tutorial--asked (agent-q-tutorial--known (plist-get event :text)))))

(defun agent-q-tutorial--known (text)
  "Return the question of the tour that TEXT is, or nil."
  (let ((bare (lambda (text)
                (string-trim (downcase (replace-regexp-in-string "[ \n\t]+" " " text)) nil "[?!. ]+"))))
    (seq-some (lambda (step)
                (let ((typed (agent-q-tutorial-step-typed step)))
                  (and typed (string-suffix-p (funcall bare typed) (funcall bare text)) typed)))
              agent-q-tutorial--steps)))

(defun agent-q-tutorial--turn-ended (event)
  "Note that the turn of EVENT is over."
  (when (agent-q-tutorial--own-p event)
    (if (and agent-q-tutorial--asked (eq (plist-get event :outcome) :finished))
        (agent-q-tutorial--fact agent-q-tutorial--asked)
      ;; What a call of it did may end the step, whose message isn't typed then.
      (run-at-time 0 nil (lambda () (agent-q-tutorial--look) (agent-q-tutorial--type))))))

(defun agent-q-tutorial--call-finished (event)
  "Note what the call of EVENT did."
  (when (and (agent-q-tutorial--own-p event)
             (memq (plist-get event :outcome) '(:succeeded :failed)))
    (let ((call (gethash (plist-get event :call)
                         (buffer-local-value 'agent-q-call-table agent-q-tutorial--chat))))
      (pcase (and call (agent-q-call-tool call))
        ("describe_symbol" (agent-q-tutorial--fact 'looked))
        ("verify_system" (agent-q-tutorial--fact 'verified))
        ;; What comes next is asked in the chat, which takes room.
        ("edit_file"
         ;; Its turn then ends without what the step is about.
         (when (eq (plist-get event :outcome) :failed)
           (setq agent-q-tutorial--asked nil))
         (run-at-time 0 nil #'agent-q-tutorial--to-chat))))))

(defun agent-q-tutorial--to-chat ()
  "Select the window of the chat, with as much room as there is."
  (when-let ((window (and (buffer-live-p agent-q-tutorial--chat)
                          (get-buffer-window agent-q-tutorial--chat))))
    (select-window window)
    (goto-char (point-max))
    (delete-other-windows)))

(defun agent-q-tutorial--rewound (event)
  "Note that the chat of EVENT went back."
  (when (agent-q-tutorial--own-p event)
    (agent-q-tutorial--fact 'rewound)))

(defconst agent-q-tutorial--subscriptions
  '((:turn-started . agent-q-tutorial--turn-started)
    (:turn-ended . agent-q-tutorial--turn-ended)
    (:call-finished . agent-q-tutorial--call-finished)
    (:rewound . agent-q-tutorial--rewound))
  "What the tour hears of.")

(defun agent-q-tutorial--debugger-p ()
  "Whether the user is in a debugger."
  (with-current-buffer (window-buffer)
    (derived-mode-p 'sldb-mode 'sly-db-mode)))

(defun agent-q-tutorial--look ()
  "Go on to what is not done yet, and see what hinders the tour."
  (when agent-q-tutorial--folder
    (cond ((agent-q-tutorial--debugger-p)
           (cl-pushnew 'in-debugger agent-q-tutorial--facts))
          ((memq 'in-debugger agent-q-tutorial--facts)
           (setq agent-q-tutorial--facts (delq 'in-debugger agent-q-tutorial--facts))
           (cl-pushnew 'debugged agent-q-tutorial--facts)))
    (let ((trouble (agent-q-tutorial--find-trouble)))
      (unless (equal trouble agent-q-tutorial--trouble)
        (setq agent-q-tutorial--trouble trouble)
        (agent-q-tutorial--draw)
        (agent-q-tutorial--type))
      ;; A call's end is noted before that of its turn, and the next step's keys are refused until then.
      (unless (or trouble (with-current-buffer agent-q-tutorial--chat (agent-q-chat-view-header-busy-p)))
        (let ((number agent-q-tutorial--number))
          (while (member (agent-q-tutorial-step-fact (aref agent-q-tutorial--steps number))
                         (remq nil agent-q-tutorial--facts))
            (setq number (1+ number)))
          (unless (= number agent-q-tutorial--number)
            (agent-q-tutorial--go number)))))))

(defconst agent-q-tutorial--loading "A small bank is being loaded into your Lisp..."
  "What the guide says until the project is loaded.")

(defun agent-q-tutorial--find-trouble ()
  "Return what hinders the tour, or nil; load the project into a new image."
  (cond ((not (file-directory-p agent-q-tutorial--folder))
         (format "The folder of the tour, %s, is gone.\nM-x agent-q-tutorial RET starts over."
                 (abbreviate-file-name agent-q-tutorial--folder)))
        ((not (buffer-live-p agent-q-tutorial--chat))
         "The chat of the tour is closed.\nM-x agent-q-tutorial RET opens it again and goes on here.")
        (t (with-current-buffer agent-q-tutorial--chat
             (cond ((not (agent-q-connection-live-p agent-q-session-connection))
                    (format "Your Lisp has ended.  %s starts one;\nthe tour goes on there by itself."
                            (mapconcat (lambda (client) (format "M-x %s RET" client))
                                       (agent-q-connection-installed) " or ")))
                   ((not (equal agent-q-session-connection agent-q-tutorial--image))
                    (agent-q-tutorial--load agent-q-session-connection)
                    agent-q-tutorial--loading)
                   ((eq agent-q-tutorial--unloaded 'pending) agent-q-tutorial--loading)
                   (agent-q-tutorial--unloaded
                    (format "Your Lisp can't load the project: %s\n[Again] tries once more."
                            (agent-q-text-visible-line agent-q-tutorial--unloaded 120))))))))

(defun agent-q-tutorial--load (connection)
  "Load the project into the image of CONNECTION, as its user would."
  (setq agent-q-tutorial--image connection
        agent-q-tutorial--unloaded 'pending)
  (let ((folder agent-q-tutorial--folder))
    (agent-q-connection-ask
     connection :rex
     `(cl:eval (cl:read-from-string ,(agent-q-tutorial--load-form folder)))
     t (lambda (result)
         ;; A tour that was started over or left meanwhile has another.
         (when (and (equal folder agent-q-tutorial--folder)
                    (equal connection agent-q-tutorial--image))
           (setq agent-q-tutorial--unloaded
                 (pcase result
                   ('(:ok nil) nil)
                   (`(:ok ,problem) problem)
                   (_ "it gave no answer")))
           (run-at-time 0 nil #'agent-q-tutorial--look))))))

(defun agent-q-tutorial--load-form (folder)
  "Return a form, as text, for loading the project in FOLDER.
Its value is nil, or says what went wrong."
  (format "(handler-case
  (let ((*standard-output* (make-broadcast-stream)) (*package* (find-package :cl-user)))
    (require \"ASDF\")
    ;; The system may be known from another folder, which may be gone.
    (dolist (form '(\"(asdf:clear-system \\\"tour-bank\\\")\" \"(asdf:load-asd %s)\"
                    \"(asdf:load-system \\\"tour-bank\\\")\"))
      (eval (read-from-string form))))
  (error (#1=#:c) (princ-to-string #1#)))"
          (replace-regexp-in-string
           "[\"\\]" "\\\\\\&"
           (prin1-to-string (agent-q-connection-ask
                             agent-q-tutorial--image :to-lisp
                             (expand-file-name "tour-bank.asd" folder))))))

;;;; The guide

(defconst agent-q-tutorial--guide "*agent-q tour*" "The name of the guide's buffer.")

(defvar agent-q-tutorial-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map "n" #'agent-q-tutorial-next)
    (define-key map "b" #'agent-q-tutorial-back)
    (define-key map "r" #'agent-q-tutorial-again)
    (define-key map "q" #'agent-q-tutorial-leave)
    (define-key map "?" #'agent-q-tutorial-show-keys)
    (define-key map (kbd "TAB") #'forward-button)
    map)
  "Keymap of the tour's guide.")

(define-derived-mode agent-q-tutorial-mode special-mode "agent-q tour"
  "Major mode of the guide of the tour.

\\{agent-q-tutorial-mode-map}"
  (setq mode-line-format nil
        truncate-lines nil
        word-wrap t
        cursor-type nil))

(defun agent-q-tutorial--keys (text)
  "Return TEXT with the keys of chats for its commands."
  (with-current-buffer (if (buffer-live-p agent-q-tutorial--chat) agent-q-tutorial--chat
                         (current-buffer))
    (replace-regexp-in-string
     ;; The window wraps it, however long its keys are.
     "\\([^\n]\\)\n\\([^\n]\\)" "\\1 \\2"
     (substitute-command-keys (concat "\\<agent-q-chat-mode-map>" text)))))

(defun agent-q-tutorial--draw ()
  "Show the present step in the guide, and the guide above the chat."
  (let* ((step (agent-q-tutorial--present))
         (text (agent-q-tutorial--keys (or agent-q-tutorial--trouble (agent-q-tutorial-step-text step)))))
    (with-current-buffer (get-buffer-create agent-q-tutorial--guide)
      (unless (derived-mode-p 'agent-q-tutorial-mode)
        (agent-q-tutorial-mode))
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert (propertize (format "Tour %d/%d: %s" (1+ agent-q-tutorial--number)
                                    (length agent-q-tutorial--steps)
                                    (agent-q-tutorial-step-title step))
                            'face 'bold)
                "  ")
        (pcase-dolist (`(,label . ,command)
                       '(("[Next]" . agent-q-tutorial-next) ("[Back]" . agent-q-tutorial-back)
                         ("[Again]" . agent-q-tutorial-again) ("[Leave]" . agent-q-tutorial-leave)))
          (unless (and (eq command 'agent-q-tutorial-next) (agent-q-tutorial--last-p))
            (insert-text-button label 'follow-link t
                                'help-echo (documentation command)
                                'action (lambda (_) (call-interactively command)))
            (insert " ")))
        (insert (format " (%s, %sb r q)\n"
                        (substitute-command-keys "\\[other-window]")
                        (if (agent-q-tutorial--last-p) "" "n "))
                text)
        (goto-char (point-min)))))
  (agent-q-tutorial--show))

(defun agent-q-tutorial--show ()
  "Show the guide in a window above the chat, where that is shown."
  (when-let ((window (and (buffer-live-p agent-q-tutorial--chat)
                          (get-buffer-window agent-q-tutorial--chat))))
    (with-selected-window window
      (let ((guide (display-buffer-in-side-window
                    (get-buffer-create agent-q-tutorial--guide)
                    '((side . top) (slot . 0) (window-height . 6)
                      (window-parameters . ((no-delete-other-windows . t)))))))
        (when guide
          (set-window-dedicated-p guide t)
          (fit-window-to-buffer guide 6 3))))))

;;;###autoload
(defun agent-q-tutorial-next ()
  "Go to the next step of the tour, even if this one isn't done."
  (interactive)
  (agent-q-tutorial--check)
  (when (agent-q-tutorial--last-p)
    (user-error "This is the last step; q leaves the tour"))
  (agent-q-tutorial--go (1+ agent-q-tutorial--number)))

(defun agent-q-tutorial-back ()
  "Go back to the step before, which then waits for you again."
  (interactive)
  (agent-q-tutorial--check)
  (agent-q-tutorial--go (1- agent-q-tutorial--number))
  (agent-q-tutorial-again))

(defun agent-q-tutorial-again ()
  "Begin the present step again, with its message at the prompt."
  (interactive)
  (agent-q-tutorial--check)
  (setq agent-q-tutorial--facts
        (remove (agent-q-tutorial-step-fact (agent-q-tutorial--present)) agent-q-tutorial--facts))
  (when (buffer-live-p agent-q-tutorial--chat)
    (with-current-buffer agent-q-tutorial--chat
      (agent-q-prompt-replace "")))
  (when agent-q-tutorial--unloaded
    (setq agent-q-tutorial--image nil))
  (agent-q-tutorial--go agent-q-tutorial--number)
  (when-let ((window (and (buffer-live-p agent-q-tutorial--chat)
                          (get-buffer-window agent-q-tutorial--chat))))
    (select-window window)))

(defun agent-q-tutorial-show-keys ()
  "Say what the keys of the guide do."
  (interactive)
  (message "n next step, b back, r again, q leave, TAB and RET the buttons"))

(defun agent-q-tutorial-leave ()
  "Leave the tour; \\[agent-q-tutorial] continues it at the same step."
  (interactive)
  (agent-q-tutorial--check)
  (agent-q-tutorial--save)
  (let ((over (agent-q-tutorial--last-p)))
    (agent-q-tutorial--stop)
    (message "M-x agent-q-tutorial %s" (if over "shows the tour again" "continues the tour"))))

(defun agent-q-tutorial--check ()
  "Signal an error unless there is a tour."
  (unless agent-q-tutorial--folder
    (user-error "The tour isn't running; M-x agent-q-tutorial starts it")))

(defun agent-q-tutorial--stop ()
  "Stop following what the user does, and close the guide."
  (pcase-dolist (`(,type . ,function) agent-q-tutorial--subscriptions)
    (agent-q-events-unsubscribe type function))
  (when agent-q-tutorial--timer
    (cancel-timer agent-q-tutorial--timer))
  (when-let ((guide (get-buffer agent-q-tutorial--guide)))
    (delete-windows-on guide)
    (kill-buffer guide))
  (setq agent-q-tutorial--folder nil
        agent-q-tutorial--timer nil
        agent-q-tutorial--trouble nil))

;;;; The project

(defun agent-q-tutorial--files ()
  "Return the files of the project, relative to its folder."
  (let ((source (expand-file-name "project/" agent-q-tutorial--directory)))
    (mapcar (lambda (file) (file-relative-name file source))
            (directory-files-recursively source "\\`[^.].*\\.\\(?:lisp\\|asd\\)\\'"))))

(defun agent-q-tutorial--text (file)
  "Return the bytes of FILE, or nil if it can't be read."
  (ignore-errors
    (with-temp-buffer
      (set-buffer-multibyte nil)
      (insert-file-contents-literally file)
      (buffer-string))))

(defun agent-q-tutorial--changed (folder)
  "Return the files of the project in FOLDER that were changed."
  (seq-filter (lambda (file)
                (let ((text (agent-q-tutorial--text (expand-file-name file folder))))
                  (and text
                       (not (equal text (agent-q-tutorial--text
                                         (expand-file-name (concat "project/" file)
                                                           agent-q-tutorial--directory)))))))
              (agent-q-tutorial--files)))

(defun agent-q-tutorial--write (folder)
  "Write the project into FOLDER, after asking where that would lose something."
  (let ((changed (agent-q-tutorial--changed folder)))
    (when (and (file-directory-p folder)
               (directory-files folder nil directory-files-no-dot-files-regexp)
               (not (file-exists-p (expand-file-name "tour-bank.asd" folder))))
      (user-error "%s has other files; choose a new folder" (abbreviate-file-name folder)))
    (when (and changed
               (not (yes-or-no-p (format "Replace your changes in %s? " (string-join changed ", ")))))
      (user-error "Your files are as they were; the tour wasn't started over"))
    (dolist (file (agent-q-tutorial--files))
      (let ((target (expand-file-name file folder)))
        (make-directory (file-name-directory target) t)
        (copy-file (expand-file-name (concat "project/" file) agent-q-tutorial--directory) target t)
        ;; The package may be read-only.
        (set-file-modes target #o644)
        (when-let ((buffer (find-buffer-visiting target)))
          (with-current-buffer buffer
            (revert-buffer t t t)))))))

;;;; The chat

(defvar agent-q-tutorial-pace nil
  "Milliseconds between two pieces of an answer, or nil for the script's own.")

(defun agent-q-tutorial--provider (folder)
  "Return the provider whose model plays the script in FOLDER."
  (let* ((text (decode-coding-string
                (agent-q-tutorial--text (expand-file-name "script.json" agent-q-tutorial--directory))
                'utf-8))
         ;; A string of Lisp within a string of JSON.
         (quoted (substring (prin1-to-string folder) 1 -1))
         (quoted (substring (agent-q-json-serialize (vector quoted)) 2 -2))
         (script (agent-q-json-alist (string-replace "FOLDER" quoted text))))
    (when agent-q-tutorial-pace
      (setf (alist-get 'pace script) agent-q-tutorial-pace))
    `((name . "scripted")
      (base_url . ,agent-q-provider-scripted-url)
      (model . "tour")
      (key . :null)
      (facts . ,(agent-q-model-facts-json (list :prices agent-q-model-facts-free)))
      (script . ,script))))

(defun agent-q-tutorial--open (folder id)
  "Return the buffer of a chat in FOLDER with the script as its model.
It continues the one that is stored as ID, unless that is nil or gone."
  (let* ((agent-q-provider 'none)
         (default-directory folder)
         (agent-q-project-root nil)
         (chat (or (and id (ignore-errors (agent-q-chat-resume id nil folder)))
                   (agent-q-chat-open t))))
    (setq agent-q-provider-scripted (agent-q-tutorial--provider folder))
    (with-current-buffer chat
      (agent-q-chat-use-provider agent-q-provider-scripted)
      (agent-q-chat-view-welcome-update)
      (setq agent-q-tutorial--id agent-q-chat-history-id))
    chat))

(defun agent-q-tutorial--run (folder number facts id)
  "Run the tour in FOLDER from the step of NUMBER on, with FACTS done.
ID is that of its stored chat, or nil."
  (agent-q-tutorial--image-then
   (lambda ()
     (when agent-q-tutorial--folder
       (agent-q-tutorial--stop))
     (setq agent-q-tutorial--chat (if (buffer-live-p agent-q-tutorial--chat) agent-q-tutorial--chat
                                    (agent-q-tutorial--open folder id))
           agent-q-tutorial--folder folder
           agent-q-tutorial--facts facts
           agent-q-tutorial--asked nil)
     (switch-to-buffer agent-q-tutorial--chat)
     (delete-other-windows)
     (goto-char (point-max))
     (pcase-dolist (`(,type . ,function) agent-q-tutorial--subscriptions)
       (agent-q-events-subscribe type function))
     (setq agent-q-tutorial--timer (run-at-time 0.5 0.5 #'agent-q-tutorial--look))
     (setq agent-q-tutorial--trouble (agent-q-tutorial--find-trouble))
     (agent-q-tutorial--go number))))

(defun agent-q-tutorial--image-then (function)
  "Call FUNCTION once a Lisp is connected; start one if there is none."
  (if (agent-q-connection-default-connection)
      (funcall function)
    (let* ((client (agent-q-tutorial--starter))
           (hook (intern (format "%s-connected-hook" client)))
           (inferior-lisp-program (agent-q-tutorial--lisp)))
      (require client)
      (letrec ((connected (lambda ()
                            (remove-hook hook connected)
                            ;; After what the client itself does when it connects.
                            (run-at-time 0 nil function))))
        (add-hook hook connected t))
      (message "Starting Lisp; the tour begins when it is there...")
      (save-window-excursion
        (call-interactively client)))))

(defun agent-q-tutorial--lisp ()
  "Return the command for a new Lisp: the user's, or SBCL where there is none."
  (let ((own (bound-and-true-p inferior-lisp-program)))
    (if (and own (executable-find (car (split-string own)))) own "sbcl")))

(defun agent-q-tutorial--starter ()
  "Return the client to start a Lisp with, a symbol."
  (pcase (agent-q-connection-installed)
    ('nil (user-error "The tour needs SLY or SLIME; M-x agent-q-doctor says more"))
    (`(,client) client)
    (clients (intern (completing-read "Start Lisp with: " (mapcar #'symbol-name clients) nil t)))))

;;;###autoload
(defun agent-q-tutorial ()
  "Show agent-q in ten minutes, in a small Lisp project and your own Lisp.
The words of the answers are scripted, all else is real.
A tour that was left continues where it was, or starts over."
  (interactive)
  (let ((saved (agent-q-tutorial--saved)))
    (cond ((null saved) (agent-q-tutorial--begin nil))
          ((not (file-directory-p (plist-get saved :folder)))
           (message "The folder of the tour, %s, is gone; it starts over"
                    (abbreviate-file-name (plist-get saved :folder)))
           (agent-q-tutorial--begin (plist-get saved :folder)))
          ((eq ?c (car (read-multiple-choice
                        (format "Tour, step %d of %d:" (1+ (plist-get saved :number))
                                (length agent-q-tutorial--steps))
                        '((?c "continue") (?o "start over")))))
           (agent-q-tutorial--run (plist-get saved :folder) (plist-get saved :number)
                                  (plist-get saved :facts) (plist-get saved :chat)))
          (t (agent-q-tutorial--begin (plist-get saved :folder))))))

(defun agent-q-tutorial--begin (folder)
  "Begin the tour in a folder that the user chooses; FOLDER is proposed, if any."
  (let ((folder (file-name-as-directory
                 (expand-file-name
                  (read-directory-name "Tour: write its small Lisp project into (RET takes this) "
                                       (or folder "~/agent-q-tour/") nil nil)))))
    (when (file-remote-p folder)
      (user-error "The folder has to be on this machine"))
    (agent-q-tutorial--write folder)
    (when (buffer-live-p agent-q-tutorial--chat)
      (let ((chat agent-q-tutorial--chat))
        (setq agent-q-tutorial--chat nil)
        (kill-buffer chat)))
    ;; Its definitions are those of the files again.
    (setq agent-q-tutorial--image nil)
    (agent-q-tutorial--run folder 0 nil nil)))

(provide 'agent-q-tutorial)
;;; agent-q-tutorial.el ends here
