;;; agent-q-ask.el --- Asking about what you look at  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Commands for any buffer that send what the user looks at to the chat of the project,
;; with a question or with one of the usual wishes.  The chat is shown beside; the user
;; stays where they are.

;;; Code:

(require 'agent-q-chat)
(require 'agent-q-chat-choose)
(require 'agent-q-chat-send)
(require 'agent-q-console)
(require 'agent-q-image-connection)
(require 'agent-q-look)
(require 'agent-q-private)
(require 'agent-q-prompt)
(require 'agent-q-queue)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'cl-lib)
(require 'subr-x)
(defvar agent-q-ask-history nil
  "The questions that were asked, latest first.")

;;;; Sending

(defun agent-q-ask--connection (look)
  "Return the connection that LOOK is about, or nil."
  (and (agent-q-look-process look)
       (cl-find (agent-q-look-process look) (agent-q-image-connections)
                :key #'agent-q-image-connection-process)))

(defun agent-q-ask--chat (look new)
  "Return the chat that is asked about LOOK; NEW non-nil means a new one.
It is one of the same project, and about the same image if LOOK has one."
  (let* ((connection (agent-q-ask--connection look))
         (chat (with-temp-buffer
                 (setq default-directory (agent-q-look-directory look))
                 (agent-q-chat-open-here new))))
    (when connection
      (let ((has (buffer-local-value 'agent-q-session-connection chat)))
        (when (and (agent-q-image-live-p has) (not (equal has connection)))
          (setq chat (with-temp-buffer
                       (setq default-directory (agent-q-look-directory look))
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
  (unless (agent-q-private-allowed-p (agent-q-look-file look))
    (user-error "Nothing was sent")))

(defun agent-q-ask--send (text look new &optional review)
  "Send TEXT about LOOK to the chat of its project, or to a NEW one.
REVIEW is as in `agent-q-queue-message'."
  (agent-q-ask--check-private look)
  (let ((chat (agent-q-ask--chat look new)))
    (agent-q-ask--show chat)
    (with-current-buffer chat
      (agent-q-prompt-remember text)
      (agent-q-chat-submit (agent-q-ask--as-message text) (agent-q-look-label look)
                           (agent-q-look-excerpts look) review)
      (deactivate-mark)
      (cond ((agent-q-queue-held)
             (message "Queued in %s: sent when this turn ends" (buffer-name chat)))
            (agent-q-session-provider (message "Asked in %s" (buffer-name chat)))))
    chat))

(defun agent-q-ask--as-message (text)
  "Return TEXT so that it is a message, and no call of a tool by a slash."
  (if (agent-q-console-line-p text) (concat " " text) text))

(defun agent-q-ask--read (prompt look)
  "Read what the user wants to know of LOOK; PROMPT has a place for its name."
  (read-string (format prompt (agent-q-look-label look)) nil 'agent-q-ask-history))

(defun agent-q-ask--editable (look)
  "Signal an error unless LOOK is of a file, as it is to be changed."
  (unless (agent-q-look-file look)
    (user-error "There is no file to change here")))

;;;; Commands

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
   (let ((look (agent-q-look-here)))
     (list (agent-q-ask--read "Ask about %s (RET: explain it): " look) look
           current-prefix-arg)))
  (agent-q-ask--send (if (string-blank-p question) (agent-q-ask--explain look) question)
                     look new))

(defun agent-q-ask--explain (look)
  "Return the request to explain LOOK."
  (pcase (agent-q-look-kind look)
    ((or 'error 'message) "Explain this error, and what to do about it.")
    (_ "Explain this.")))

;;;###autoload
(defun agent-q-explain (look &optional new)
  "Ask the project's chat to explain what you look at.
LOOK is as in `agent-q-ask'; with prefix argument NEW, in a new chat."
  (interactive (list (agent-q-look-here) current-prefix-arg))
  (agent-q-ask--send (agent-q-ask--explain look) look new))

;;;###autoload
(defun agent-q-document (look &optional new)
  "Ask the model to document the definition at point, or the region.
The change is shown as a diff for you to accept or reject.  LOOK and NEW are
as in `agent-q-ask'."
  (interactive (list (agent-q-look-here) current-prefix-arg))
  (agent-q-ask--editable look)
  (agent-q-ask--send
   "Document this: write or improve its documentation string, in the style of the code \
around it.  Look at callers if it is unclear.  Change nothing else.  Make the change in the \
file with edit_definition; I review it as a diff."
   look new t))

;;;###autoload
(defun agent-q-fix-error (look &optional new wrong)
  "Ask the model to fix the error that you look at.
In a debugger that is its error, in a compiler's log the message at point, in
source what the compiler says of the definition; where it says nothing, you
are asked what is wrong, which is WRONG.  Changes of files are shown as diffs
for you to accept or reject.  LOOK and NEW are as in `agent-q-ask'."
  (interactive
   (let ((look (agent-q-look-here)))
     (list look current-prefix-arg
           (unless (agent-q-look-wrong-p look)
             (agent-q-ask--read "What is wrong with %s? " look)))))
  (when (and wrong (string-blank-p wrong))
    (user-error "Nothing is known to be wrong with %s" (agent-q-look-label look)))
  (agent-q-ask--send
   (concat (if wrong (format "This is wrong: %s\nFind the cause" wrong)
             "Find the cause of this error")
           " and fix it in its source.  Say in a sentence what was wrong. \
I review the change of the file as a diff; then check in the image that it helps.")
   look new t))

;;;###autoload
(defun agent-q-rewrite (wish look &optional new)
  "Ask the model to rewrite the definition at point, or the region, by WISH.
The change is shown as a diff for you to accept or reject.  LOOK and NEW are
as in `agent-q-ask'."
  (interactive
   (let ((look (agent-q-look-here)))
     (agent-q-ask--editable look)
     (list (agent-q-ask--read "Rewrite %s how? " look) look current-prefix-arg)))
  (agent-q-ask--editable look)
  (agent-q-ask--send
   (format "Rewrite this: %s\nMake the change in the file with edit_definition, or with \
edit_file where it is not a definition; I review it as a diff."
           (if (string-blank-p wish) "make it simpler, with the same behaviour" wish))
   look new t))

(provide 'agent-q-ask)
;;; agent-q-ask.el ends here
