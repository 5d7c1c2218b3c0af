;;; agent-q-chats-past.el --- What a stored chat was  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Draws the turns of a chat that is resumed.  They come latest first, and each is put
;; above those that are shown.  Its calls can be unfolded; its requests are not asked
;; again.

;;; Code:

(require 'agent-q-call-events)
(require 'agent-q-chats-store)
(require 'agent-q-context-items)
(require 'agent-q-header)
(require 'agent-q-image-connection)
(require 'agent-q-json)
(require 'agent-q-markdown)
(require 'agent-q-render)
(require 'agent-q-session)
(require 'agent-q-visible)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar-local agent-q-chats-past-name nil
  "The name that the user gave this chat, or nil.")

(defvar-local agent-q-chats-past-turns nil
  "The names of the turns of this chat in the journals of images, by their numbers.
Those that are shown, in an alist.")

(defvar-local agent-q-chats-past--top nil
  "Marker before the first turn that is shown.")

(defvar-local agent-q-chats-past--button nil
  "Markers around the button for older turns, a cons, or nil.")

;;;; Its context

(defvar-local agent-q-chats-past--kept nil
  "The ids of what this chat kept in its context when its file was told last.")

(defun agent-q-chats-past--keep ()
  "Store in the file of this chat what is kept in its context."
  (let ((ids (mapcar #'agent-q-context-item-id (agent-q-context-items))))
    (when (and agent-q-chats-store-id
               (not agent-q-chats-store-busy)
               (not (equal ids agent-q-chats-past--kept)))
      (setq agent-q-chats-past--kept ids)
      (agent-q-core-note-in-chat
       agent-q-session-number
       (agent-q-json-serialize `((context . ,(vconcat (agent-q-context-plain)))))))))

(add-hook 'agent-q-context-changed-hook #'agent-q-chats-past--keep)

;;;; The chat as a whole

(defun agent-q-chats-past-resumed (about)
  "Show what there is to know of the chat that was read, ABOUT, an alist."
  (if-let ((problem (alist-get 'problem about)))
      (progn (setq agent-q-chats-store-id nil
                   agent-q-chats-store-busy problem)
             (agent-q-render-notice problem 'agent-q-failure))
    (setq agent-q-chats-past-name (alist-get 'name about)
          agent-q-header-input (alist-get 'input about)
          agent-q-header-output (alist-get 'output about)
          agent-q-header-cached (alist-get 'cached about)
          agent-q-header-written (alist-get 'written about)
          agent-q-header-cost (alist-get 'cost about)
          agent-q-header-unpriced (alist-get 'unpriced about))
    (setq agent-q-chats-past--top (copy-marker agent-q-render-end))
    (agent-q-render-notice (agent-q-chats-past--headline about))
    (dolist (sentence (delq nil (agent-q-chats-past--changes about)))
      (agent-q-render-notice sentence 'agent-q-attention))
    (setq agent-q-chats-store-busy (alist-get 'busy about))
    (when (alist-get 'kept about)
      (agent-q-context-restore (alist-get 'kept about))
      (agent-q-render-notice (format "Kept in its context: %s."
                                     (agent-q-chats-past--kept-names))))
    (agent-q-chats-store-note)
    (agent-q-header-update)))

(defun agent-q-chats-past--headline (about)
  "Return a line on the chat that is resumed, by ABOUT, an alist."
  (let ((turns (alist-get 'turns about)))
    (format "Resumed: %s%d %s, the last on %s."
            (if-let ((name (alist-get 'name about)))
                (format "%s, " (agent-q-visible-line name 60))
              "")
            turns (if (eql turns 1) "turn" "turns")
            (format-time-string "%F %R" (/ (alist-get 'latest about) 1000)))))

(defun agent-q-chats-past--kept-names ()
  "Return what is kept in the context of this chat, as text."
  (let* ((items (agent-q-context-items))
         (more (- (length items) 5)))
    (concat (mapconcat (lambda (item)
                         (agent-q-visible-line (agent-q-context-item-name item) 40))
                       (seq-take items 5) ", ")
            (if (< 0 more) (format " and %d more" more) ""))))

(defun agent-q-chats-past--changes (about)
  "Return sentences on what is not as it was, by ABOUT; some are nil."
  (let ((image (alist-get 'image about))
        (root (alist-get 'root about)))
    ;; Looking at one on another machine would log in there.
    (list (and root (not (file-remote-p root)) (not (file-directory-p root))
               (format "The directory of its project, %s, is gone."
                       (agent-q-visible-line (abbreviate-file-name root) 200)))
          (and image (not (agent-q-chats-past--same-image-p image))
               (format "Its image, %s, is not connected; what the chat says about it \
may be outdated.  %s"
                       (agent-q-visible-line image 60)
                       (if (agent-q-image-live-p agent-q-session-connection)
                           (format "It uses %s now."
                                   (agent-q-visible-line
                                    (agent-q-image-label agent-q-session-connection) 60))
                         "No Lisp is connected.")))
          (alist-get 'remark about)
          (alist-get 'foreign about)
          (alist-get 'busy about))))

(defun agent-q-chats-past--same-image-p (label)
  "Whether this chat's image is the one of LABEL, as far as can be known."
  (and (agent-q-image-live-p agent-q-session-connection)
       (equal label (agent-q-image-label agent-q-session-connection))))

;;;; Its turns

(defun agent-q-chats-past-show (event)
  "Show the turn of EVENT above those that are shown, or below all."
  (when agent-q-chats-past--top
    (let ((past (plist-get event :events))
          (agent-q-markdown-past t))
      (setf (alist-get (plist-get event :turn) agent-q-chats-past-turns)
            (plist-get event :name))
      (if (plist-get event :below)
          (progn (agent-q-chats-past--draw past)
                 (agent-q-render-finish))
        (agent-q-chats-past--show-above past (plist-get event :older))))))

(defun agent-q-chats-past--show-above (past older)
  "Show the turn of the events PAST above those that are shown.
OLDER is how many turns are still to be shown."
  (agent-q-chats-past--withdraw)
  (let ((start (marker-position agent-q-chats-past--top)))
    (agent-q-render-above
     start (lambda ()
             (agent-q-chats-past--draw past)
             (agent-q-render-space)))
    (set-marker agent-q-chats-past--top start)
    (agent-q-chats-past--offer older)))

(defun agent-q-chats-past--draw (past)
  "Draw PAST, the events of a turn."
  (let ((ends (make-hash-table)) (starts (make-hash-table)) (ended nil))
    (dolist (event past)
      (pcase (plist-get event :type)
        (:call-started (puthash (plist-get event :call) event starts))
        (:call-finished (puthash (plist-get event :call) event ends))))
    (dolist (event past)
      (pcase (plist-get event :type)
        (:turn-started (agent-q-render-user (plist-get event :text)
                                            (plist-get event :turn))
                       (when-let ((along (plist-get event :along)))
                         (agent-q-render-notice (concat "  with " (string-join along "; ")))))
        (:text (agent-q-render-text (plist-get event :text)))
        (:reasoning (agent-q-render-reasoning (plist-get event :text) 'past))
        (:notice (agent-q-render-notice (plist-get event :text)))
        (:call-proposed
         (let* ((key (plist-get event :call))
                (end (gethash key ends)))
           (agent-q-call-past event (plist-get (gethash key starts) :arguments)
                              (plist-get end :outcome) (plist-get end :content)
                              (plist-get end :milliseconds))))
        (:turn-ended (setq ended t)
                     (agent-q-chats-past--draw-end event))))
    (unless ended
      (agent-q-render-notice "Interrupted: Emacs exited during this turn."
                             'agent-q-attention))))

(defun agent-q-chats-past--draw-end (event)
  "Draw how a turn ended, by EVENT."
  (pcase (plist-get event :outcome)
    (:cancelled (agent-q-render-notice "Cancelled."))
    ((or :failed :limit :interrupted)
     (agent-q-render-notice (or (plist-get event :message) "The turn failed.")
                            'agent-q-failure))))

;;;; Older ones

(defun agent-q-chats-past--withdraw ()
  "Remove the button for older messages."
  (when agent-q-chats-past--button
    (pcase-let ((`(,start . ,end) agent-q-chats-past--button))
      (agent-q-render-remove start end)
      (setq agent-q-chats-past--button nil))))

(defun agent-q-chats-past--offer (count)
  "Offer COUNT older messages, in a button above those in the log."
  (when (> count 0)
    (let ((start (marker-position agent-q-chats-past--top)))
      (agent-q-render-above
       start
       (lambda ()
         (agent-q-render-button
          (format "[Show older turns: %d]" count) #'agent-q-chats-older)))
      (set-marker agent-q-chats-past--top
                  (save-excursion (goto-char start) (line-beginning-position 2)))
      (setq agent-q-chats-past--button
            (cons (copy-marker start) (copy-marker agent-q-chats-past--top))))))

;;;###autoload
(defun agent-q-chats-older ()
  "Show older messages of this chat, which was resumed."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-session-check)
  (unless agent-q-chats-past--button
    (user-error "All turns of this chat are shown"))
  (agent-q-core-show-older agent-q-session-number agent-q-chats-turns))

(provide 'agent-q-chats-past)
;;; agent-q-chats-past.el ends here
