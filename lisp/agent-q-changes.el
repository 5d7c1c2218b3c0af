;;; agent-q-changes.el --- What a turn changed, and undoing it  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core keeps what each turn of a chat changed in files and buffers, an
;; image what it changed there.  Undoing a turn puts files and buffers back;
;; what it changed in the image is taken back by a button in the chat.

;;; Code:

(require 'agent-q-diff-hunks)
(require 'agent-q-image-query)
(require 'agent-q-json)
(require 'agent-q-operations)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'diff-mode)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defun agent-q-changes--chat ()
  "Return the chat that is meant: this buffer, or the latest chat."
  (cond (agent-q-session-number (current-buffer))
        ((car (agent-q-session-buffers)))
        (t (user-error "No chat; M-x agent-q-chat opens one"))))

;;;###autoload
(defun agent-q-undo-turn ()
  "Undo what the chat's latest turn changed in files and buffers.
What you have changed since is left alone; the chat says so.  What the
turn changed in the image is listed there with a button that undoes
it.  While a turn runs, this waits until it is over."
  (interactive)
  (with-current-buffer (agent-q-changes--chat)
    (agent-q-core-undo-turn agent-q-session-number)))

;;;###autoload
(defun agent-q-changes ()
  "Show as one diff what the chat's latest turn changed in files and buffers."
  (interactive)
  (let ((diff (with-current-buffer (agent-q-changes--chat)
                (agent-q-core-changes agent-q-session-number)))
        (directory default-directory))
    (when (string-empty-p diff)
      (user-error "No turn of this chat has changed a file or a buffer"))
    (with-current-buffer (get-buffer-create "*agent-q changes*")
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert diff))
      (diff-mode)
      ;; Refining runs diff in the foreground, for minutes where a large text was written anew.
      (setq-local diff-refine nil)
      (setq-local bidi-paragraph-direction 'left-to-right)
      (agent-q-diff-hunks-show-invisible)
      (setq default-directory directory)
      (setq buffer-read-only t)
      (set-buffer-modified-p nil)
      (goto-char (point-min)))
    (pop-to-buffer "*agent-q changes*")))

;;;; What a turn changed in the image

(defconst agent-q-changes--emacs (format "%d.%s" (emacs-pid) (format-time-string "%s"))
  "What tells the turns of this Emacs from those of others.")

(defun agent-q-changes-turn (number)
  "Return the name that the turn NUMBER of this chat has in images' journals."
  (format "%s/%d/%d" agent-q-changes--emacs agent-q-session-number number))

(defun agent-q-changes--call (connection operation arguments function)
  "Call OPERATION with ARGUMENTS in the image behind CONNECTION.
FUNCTION gets its value, or nil when there is none."
  (agent-q-image-query connection operation arguments
                       (lambda (reply &rest _)
                         (pcase reply
                           (`(:outcome :returned :value ,value . ,_) (funcall function value))
                           (_ (funcall function nil))))))

(agent-q-operations-define "image-turn" (call)
  "Return the latest turn of the chat whose changes in the image hold, or null."
  (let ((owner (agent-q-operations-call-owner call))
        (connection (agent-q-operations-call-connection call)))
    (if (not (and connection (buffer-live-p owner)
                  (buffer-local-value 'agent-q-session-turn-used owner)))
        "null"
      (let ((prefix (with-current-buffer owner
                      (format "%s/%d/" agent-q-changes--emacs agent-q-session-number))))
        (agent-q-changes--call
         connection "journal-list" '(:limit 1000)
         (lambda (value)
           (agent-q-operations-answer
            call "done" (agent-q-changes--latest prefix (plist-get value :changes))))))
      nil)))

(defun agent-q-changes--latest (prefix entries)
  "Return as JSON what the latest turn with PREFIX among ENTRIES changed."
  (let* ((own (seq-filter (lambda (change)
                            (and (not (plist-get change :restored))
                                 (string-prefix-p prefix (or (plist-get change :turn) ""))))
                          entries))
         ;; The latest change comes first.
         (turn (plist-get (car own) :turn)))
    (if (null turn) "null"
      (agent-q-json-serialize
       `((turn . ,(string-to-number (substring turn (length prefix))))
         (definitions
          . ,(vconcat
              (mapcar (lambda (change)
                         (agent-q-text-clean
                         (format "%s (%s, %s)" (plist-get change :name)
                                 (plist-get change :kind) (plist-get change :what))))
                      (seq-filter (lambda (change) (equal turn (plist-get change :turn)))
                                  own)))))))))

(defun agent-q-changes-offer (number definitions)
  "Offer to undo the DEFINITIONS that the turn NUMBER changed in the image."
  (agent-q-render-notice
   (format "Changed in the image: %s." (string-join definitions ", ")))
  (agent-q-render-button
   "[Undo]"
   (let ((turn (agent-q-changes-turn number))
         (connection agent-q-session-connection))
     (lambda () (agent-q-changes--take-back turn connection)))))

(defun agent-q-changes--take-back (turn connection)
  "Undo what TURN changed in the image behind CONNECTION, and report it here."
  (let ((chat (current-buffer)))
    (agent-q-changes--call
     connection "journal-restore" (list :turn turn)
     (lambda (value)
       (when (buffer-live-p chat)
         (with-current-buffer chat
           (agent-q-changes--taken-back value)))))))

(defun agent-q-changes--taken-back (value)
  "Show VALUE, the image's report of the undo, and tell the model."
  (let ((results (string-join (plist-get value :results) "\n")))
    (cond ((null value)
           (agent-q-render-notice "The image did not undo anything." 'agent-q-failure))
          ((string-empty-p results)
           (message "Already undone"))
          (t
           (agent-q-render-notice results)
           (agent-q-core-image-undone agent-q-session-number (agent-q-text-clean results))))))

(provide 'agent-q-changes)
;;; agent-q-changes.el ends here
