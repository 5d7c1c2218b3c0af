;;; agent-q-proofread.el --- Code in answers, checked by the image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; When Lisp code in an answer is complete, the image of the chat is asked what it
;; could not run of it (image/proofread), and that is marked.  Nobody waits for the
;; answer: without one there are no marks.

;;; Code:

(require 'agent-q-code)
(require 'agent-q-code-lisp)
(require 'agent-q-image-connection)
(require 'agent-q-image-query)
(require 'agent-q-log)
(require 'agent-q-markdown)
(require 'agent-q-session)
(require 'agent-q-user)
(require 'agent-q-visible)
(require 'seq)
(require 'subr-x)

(defcustom agent-q-check-code t
  "Whether Lisp code in answers is checked by the chat's image.
Functions and packages that the image does not know, wrong numbers of
arguments and parentheses that do not match are marked; the mouse and
ElDoc say what is wrong.  The code is not run for that, nor its macros."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defface agent-q-mistake '((t :inherit shadow :underline t))
  "Code in answers that the image could not run."
  :group 'agent-q-faces)

(defconst agent-q-proofread--limit 50000
  "Longer code is not checked.")

(defconst agent-q-proofread--memory 20000
  "Most characters of earlier code of the answer that are sent along.")

(defconst agent-q-proofread--seconds 10
  "Seconds that the image may take for one piece of code.")

(defvar-local agent-q-proofread--texts nil
  "The code of this answer until now, latest first, each a string.
Before them is the turn that they belong to.")

(defvar-local agent-q-proofread--waiting nil
  "Code of this chat that is to be checked, the next first.
Each is a marker of its start, and the texts of the answer up to it, its
own first.")

(defvar-local agent-q-proofread--asked nil
  "Whether the image is asked now.")

(defun agent-q-proofread-later (start)
  "Check the code that begins at START soon, if it is Lisp.
For `agent-q-code-closed-functions'."
  (when (and agent-q-check-code
             ;; Old code is looked at when somebody asks for it.
             (not agent-q-markdown-past)
             (agent-q-proofread--source-p start)
             (<= (- (agent-q-code-lisp-end start) start) agent-q-proofread--limit)
             (agent-q-image-live-p agent-q-session-connection)
             ;; Where calls queue up, the user's own would wait for this.
             (agent-q-image-ask agent-q-session-connection :threads-p))
    (unless (and agent-q-proofread--texts
                 (equal (car agent-q-proofread--texts) agent-q-session-turn))
      (setq agent-q-proofread--texts (list agent-q-session-turn)))
    (push (agent-q-proofread--text start) (cdr agent-q-proofread--texts))
    (setq agent-q-proofread--waiting
          (append agent-q-proofread--waiting
                  (list (cons (copy-marker start) (cdr agent-q-proofread--texts)))))
    (run-at-time 0.01 nil #'agent-q-proofread--next (current-buffer))))

(defun agent-q-proofread--source-p (start)
  "Whether the code that begins at START is called Lisp.
Code without a name is often what a program printed, and system
definitions are read in a package of their own."
  (and (agent-q-code-lisp-p start)
       (not (member (get-text-property start 'agent-q-language) '("" "asd")))))

(defun agent-q-proofread--text (start)
  "Return the code that begins at START."
  (mapconcat (pcase-lambda (`(,place . ,length))
               (buffer-substring-no-properties place (+ place length)))
             (agent-q-code-stretches start (agent-q-code-lisp-end start)) ""))

(defun agent-q-proofread--latest (texts)
  "Return TEXTS, the latest first, in their order, without those too long ago."
  (let ((left agent-q-proofread--memory)
        (kept (list (pop texts))))
    (while (and texts (<= 0 (setq left (- left (length (car texts))))))
      (push (pop texts) kept))
    kept))

(defun agent-q-proofread--next (buffer)
  "Ask the image about the next code in the chat BUFFER, unless it is asked."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (when (and agent-q-proofread--waiting (not agent-q-proofread--asked))
        (pcase-let* ((`(,start . ,all) (pop agent-q-proofread--waiting))
                     (texts (agent-q-proofread--latest all))
                     (connection agent-q-session-connection))
          (if (not (agent-q-image-live-p connection))
              (setq agent-q-proofread--waiting nil)
            (setq agent-q-proofread--asked t)
            (agent-q-image-query
             connection "proofread-code"
             (list :texts texts :package (agent-q-image-repl-package connection)
                   :also (agent-q-proofread--also)
                   :partial (< (length texts) (length all)))
             (lambda (reply &rest _)
               (agent-q-log-call "Marking code" #'agent-q-proofread--take buffer start reply))
             agent-q-proofread--seconds)))))))

(defun agent-q-proofread--also ()
  "Return the package of the Lisp source that the user last worked in, in a list."
  (when-let* ((buffer (agent-q-user-last-buffer
                       (lambda (buffer)
                         (with-current-buffer buffer (derived-mode-p 'lisp-mode)))))
              (package (with-current-buffer buffer (agent-q-user-package))))
    (list package)))

(defun agent-q-proofread--take (buffer start reply)
  "Mark in the chat BUFFER the mistakes in the code at START that REPLY has."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-proofread--asked nil)
      (pcase reply
        (`(:outcome :returned :value ,value . ,_)
         (when (agent-q-code-lisp-p start)
           (agent-q-proofread--mark start (plist-get value :mistakes)))))
      (set-marker start nil)
      ;; The client is not to be called from within its own.
      (when agent-q-proofread--waiting
        (run-at-time 0 nil #'agent-q-proofread--next buffer)))))

(defun agent-q-proofread--mark (start mistakes)
  "Mark MISTAKES, lists of start, end and reason, in the code at START."
  (let ((stretches (agent-q-code-stretches start (agent-q-code-lisp-end start))))
    (pcase-dolist (`(,from ,to ,reason) mistakes)
      (let ((from (agent-q-proofread--place stretches from))
            (last (agent-q-proofread--place stretches (1- to)))
            (reason (agent-q-visible-line reason 300)))
        (when (and from last)
          (let ((mark (make-overlay from (1+ last))))
            (overlay-put mark 'evaporate t)
            (overlay-put mark 'face 'agent-q-mistake)
            (overlay-put mark 'help-echo reason)
            (overlay-put mark 'agent-q-mistake reason)))))))

(defun agent-q-proofread--place (stretches offset)
  "Return the place of the character OFFSET of the code that STRETCHES are."
  (let ((place nil))
    (while (and stretches (not place))
      (pcase-let ((`(,start . ,length) (pop stretches)))
        (if (< -1 offset length)
            (setq place (+ start offset))
          (setq offset (- offset length)))))
    place))

(defun agent-q-proofread-mistake (place)
  "Return what is wrong with the code at PLACE, or nil."
  (seq-some (lambda (overlay) (overlay-get overlay 'agent-q-mistake))
            (overlays-at place)))

(defun agent-q-proofread-eldoc (_callback)
  "Return what is wrong with the code at point.
For `eldoc-documentation-functions'."
  (agent-q-proofread-mistake (point)))

(provide 'agent-q-proofread)
;;; agent-q-proofread.el ends here
