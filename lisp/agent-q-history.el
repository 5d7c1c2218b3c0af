;;; agent-q-history.el --- Tools about what happened in the image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Answers the tools that look back, from what agent-q-past.el put together,
;; and those about the user's place: the form at point, the prompt of the REPL.

;;; Code:

(require 'agent-q-debugger)
(require 'agent-q-frames)
(require 'agent-q-image-connection)
(require 'agent-q-image-query)
(require 'agent-q-operations)
(require 'agent-q-past)
(require 'agent-q-user)

(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)

(declare-function comint-add-to-input-history "comint" (cmd))
(declare-function slime-repl-add-to-input-history "ext:slime-repl")
(declare-function slime-output-buffer "ext:slime-repl")
(declare-function sly-mrepl--find-buffer "ext:sly-mrepl")

(defun agent-q-history--process (call)
  "Return the process whose past CALL is about, or nil for any."
  (let ((connection (agent-q-operations-call-connection call)))
    (and connection (agent-q-image-connection-process connection))))

(defun agent-q-history--ago (time)
  "Return how long ago TIME was, in words."
  (let ((seconds (floor (float-time (time-since time)))))
    (cond ((< seconds 60) (format "%d s ago" seconds))
          ((< seconds 3600) (format "%d min ago" (/ seconds 60)))
          (t (format "%d h ago" (/ seconds 3600))))))

(defun agent-q-history--where (by how owner reader)
  "Return in words who evaluated something, BY, and HOW.
OWNER and READER are as in `agent-q-past-owner-name'."
  (pcase (cons by how)
    ('(user . repl) "the user, at the REPL")
    ('(user . command) "the user, by a command")
    (`(agent . ,operation)
     (format "%s, by %s" (agent-q-past-owner-name owner reader)
             (subst-char-in-string ?- ?_ operation)))))

;;;; The last error

(agent-q-operations-define "get-last-error" (call)
  "Report the latest error, the user's or ours."
  (let ((error (agent-q-past-last-error (agent-q-history--process call))))
    (cond ((null error)
           (agent-q-operations-of-image
            call "No error in this image since agent-q started watching."))
          ((agent-q-history--debugger error)
           (agent-q-history--tell-open call error))
          (t (agent-q-operations-of-image
              call (agent-q-history--error error (agent-q-operations-call-owner call)))))))

(defun agent-q-history--tell-open (call error)
  "Answer CALL with ERROR, whose stack is alive.
The image knows more of its frames than the client has shown."
  (agent-q-image-query
   (agent-q-operations-call-connection call) "debugger-frames" '(:limit 15)
   (lambda (reply _status _payload)
     (let ((frames (plist-get (plist-get reply :value) :frames)))
       (when frames
         (setf (agent-q-past-error-frames error) (mapcar #'agent-q-past-frame frames)))
       (agent-q-operations-answer
        call "done"
        (agent-q-operations-of-image
         call (agent-q-history--error error (agent-q-operations-call-owner call))))))
   5 (agent-q-past-error-thread error))
  nil)

(defun agent-q-history--error (error reader)
  "Return ERROR as text for the chat READER."
  (string-join
   (delq nil
         (list
          (format "Signalled %s, %s:"
                  (if (eq 'thread (agent-q-past-error-how error))
                      (format "in %s"
                              (if (agent-q-past-error-thread-name error)
                                  (concat "the thread " (agent-q-past-error-thread-name error))
                                "a thread of the program's own"))
                    (concat "for "
                            (agent-q-history--where (agent-q-past-error-by error)
                                                    (agent-q-past-error-how error)
                                                    (agent-q-past-error-owner error)
                                                    reader)))
                  (agent-q-history--ago (agent-q-past-error-time error)))
          (format "%s: %s" (agent-q-past-error-type error)
                  (string-trim (agent-q-past-error-message error)))
          (and (agent-q-past-error-form error)
               (concat "Form: " (agent-q-past-error-form error)))
          (agent-q-frames-restarts (agent-q-past-error-restarts error))
          (agent-q-frames-text (agent-q-past-error-frames error))
          (agent-q-history--open error)))
   "\n"))

(defun agent-q-history--debugger (error)
  "Return the name of the user's debugger in which ERROR is open, or nil."
  (and (agent-q-past-error-thread error)
       (agent-q-debugger-name-of-thread
        (agent-q-past-error-process error)
        (agent-q-past-error-thread error))))

(defun agent-q-history--open (error)
  "Say how to get at ERROR while it is open in the user's debugger, or nil."
  (let ((name (agent-q-history--debugger error)))
    (and name
         (format "It is open in the user's debugger: debugger_frames with debugger %s shows more."
                 name))))

;;;; The history

(agent-q-operations-define "get-repl-history" (call limit)
  "List the evaluated forms, oldest first, at most LIMIT of them."
  (let* ((all (agent-q-past-evaluations (agent-q-history--process call)))
         (told (reverse (seq-take all (max 1 (min 100 (or limit 20)))))))
    (agent-q-operations-of-image
     call
     (if (not told)
         "No REPL history available: nothing was evaluated since agent-q started watching."
       (concat
        (mapconcat (lambda (it)
                     (agent-q-history--evaluation it (agent-q-operations-call-owner call)))
                   told "\n")
        (and (> (length all) (length told))
             (format "\n(%d earlier ones; call again with a larger limit.)"
                     (- (length all) (length told)))))))))

(defun agent-q-history--evaluation (evaluation reader)
  "Return EVALUATION as text for the chat READER."
  (let ((output (agent-q-past-evaluation-output evaluation)))
    (string-join
     (append
      (list (format "[%s%s] %s"
                    (agent-q-history--where (agent-q-past-evaluation-by evaluation)
                                            (agent-q-past-evaluation-how evaluation)
                                            (agent-q-past-evaluation-owner evaluation)
                                            reader)
                    (if (agent-q-past-evaluation-package evaluation)
                        (concat ", in " (agent-q-past-evaluation-package evaluation))
                      "")
                    (agent-q-past-evaluation-form evaluation)))
      (and output (not (string-blank-p output))
           (list (concat "printed: " (agent-q-history--short (string-trim output) 300))))
      (pcase (agent-q-past-evaluation-state evaluation)
        ('running (list "(still running, or in the debugger)"))
        ('aborted (list (format "aborted: %s"
                                (or (agent-q-past-evaluation-condition evaluation)
                                    "by the user"))))
        (_ (mapcar (lambda (value) (concat "=> " (agent-q-history--short value 500)))
                   (or (agent-q-past-evaluation-values evaluation)
                       '("no values"))))))
     "\n")))

(defun agent-q-history--short (text limit)
  "Return TEXT, cut at LIMIT."
  (if (> (length text) limit)
      (concat (substring text 0 limit) "...")
    text))

;;;; The compiler's notes

(agent-q-operations-define "get-compilation-notes" (call limit offset)
  "List what the compiler said last: LIMIT notes from OFFSET on."
  (let* ((compilation (agent-q-past-last-compilation (agent-q-history--process call)))
         (limit (max 1 (min 200 (or limit 50))))
         (offset (max 0 (or offset 0))))
    (cond ((null compilation)
           (agent-q-operations-of-image
            call "Nothing was compiled since agent-q started watching."))
          ((eq 'image (agent-q-past-compilation-notes compilation))
           (agent-q-history--ask-notes call compilation limit offset))
          (t (let ((notes (agent-q-past-compilation-notes compilation)))
               (agent-q-operations-of-image
                call (agent-q-history--compilation
                      compilation (seq-take (seq-drop notes offset) limit)
                      offset (length notes))))))))

(defun agent-q-history--ask-notes (call compilation limit offset)
  "Answer CALL with LIMIT notes of COMPILATION from OFFSET on, which the image has."
  (let ((connection (agent-q-operations-call-connection call)))
    (unless connection
      (error "The image that compiled %s and kept the notes is not connected"
             (agent-q-past-compilation-what compilation)))
    (agent-q-image-query
     connection "last-notes" (list :limit limit :offset offset)
     (lambda (reply status &rest _)
       (pcase reply
         (`(:outcome :returned :value ,value . ,_)
          (agent-q-operations-answer
           call "done"
           (agent-q-operations-of-image
            call (agent-q-history--compilation
                  compilation (mapcar #'agent-q-past-own-note (plist-get value :notes))
                  offset (plist-get value :total)))))
         (_ (agent-q-operations-answer
             call "signalled" (format "The image did not return its notes: %s" status))))))
    nil))

(defun agent-q-history--rest (offset count total)
  "Return a line on what is beyond COUNT notes of TOTAL from OFFSET on, or nil."
  (cond ((and (zerop count) (> total 0))
         (format "Offset past the end: only %d results." total))
        ((> total (+ offset count))
         (format "%d more: call again with offset %d." (- total offset count)
                 (+ offset count)))))

(defun agent-q-history--compilation (compilation notes offset total)
  "Return COMPILATION and NOTES, some of the TOTAL from OFFSET on, as text."
  (let ((rest (agent-q-history--rest offset (length notes) total)))
    (concat
     (format "Compiled by %s, %s%s: %s\n"
             (if (eq 'user (agent-q-past-compilation-by compilation))
                 "the user" "you")
             (agent-q-history--ago (agent-q-past-compilation-time compilation))
             (if (eq 'failed (agent-q-past-compilation-state compilation))
                 ", with failures" "")
             (agent-q-history--short
              (string-trim (agent-q-past-compilation-what compilation)) 200))
     (string-join
      (delq nil (list (cond (notes (mapconcat #'agent-q-history--note notes "\n"))
                            ((zerop total) "No warnings or notes."))
                      rest))
      "\n"))))

(defun agent-q-history--note (note)
  "Return NOTE as text."
  (format "%s%s: %s"
          (plist-get note :severity)
          (if (plist-get note :place) (concat " at " (plist-get note :place)) "")
          (agent-q-history--short (string-trim (plist-get note :message)) 600)))

;;;; The form at point

(agent-q-operations-define "form-at-point" (call)
  "Return the top-level form at the user's point, whichever buffer CALL names."
  (ignore call)
  (let ((buffer (agent-q-user-last-buffer)))
    (unless buffer
      (error "The user has no buffers open except chats"))
    (with-current-buffer buffer
      (let ((window (get-buffer-window buffer t)))
        (save-excursion
          (when window (goto-char (window-point window)))
          (agent-q-history--form-here))))))

(defun agent-q-history--form-here ()
  "Return the top-level form around point with its place, as text."
  (let* ((point (point))
         (bounds (bounds-of-thing-at-point 'defun))
         (symbol (thing-at-point 'symbol t))
         (inside (and bounds (<= (car bounds) point (cdr bounds)))))
    (unless (and bounds inside
                 (not (string-blank-p (buffer-substring (car bounds) (cdr bounds)))))
      (error "No form at the cursor in %s, line %d"
             (buffer-name) (line-number-at-pos point t)))
    (let ((text (string-trim (buffer-substring-no-properties (car bounds)
                                                             (cdr bounds)))))
      (format "%s, line %d; cursor in line %d%s; package %s\n%s"
              (or (buffer-file-name) (buffer-name))
              (line-number-at-pos (car bounds) t)
              (line-number-at-pos point t)
              (if symbol (format " at %s" symbol) "")
              (or (agent-q-user-package) "COMMON-LISP-USER")
              (if (> (length text) 8000)
                  (format "%s\n... [%d more characters]" (substring text 0 8000)
                          (- (length text) 8000))
                text)))))

;;;; Staging at the REPL

(define-error 'agent-q-history-typed "The user has typed something at the prompt")

(defvar-local agent-q-history--staged nil
  "In a REPL: the form that was last put at its prompt from here.")

(agent-q-operations-define "stage-at-repl" (call form)
  "Put FORM at the prompt of the user's REPL."
  (agent-q-history-stage (agent-q-operations-call-connection call) form))

(defun agent-q-history-stage (connection form)
  "Put FORM at the prompt of the REPL of CONNECTION; return a sentence on it."
  (let ((buffer (and connection (agent-q-history-repl connection))))
    (unless connection
      (error "No Lisp image is connected; start one with M-x sly or M-x slime"))
    (unless (buffer-live-p buffer)
      (error "The user has no REPL open for this image"))
    (with-current-buffer buffer
      (let ((typed (string-trim (agent-q-history-typed))))
        ;; What was put there before, and nobody has touched, makes way.
        (unless (member typed (list "" agent-q-history--staged))
          (signal 'agent-q-history-typed (list (agent-q-history--short typed 100))))
        (goto-char (point-max))
        (unless (equal typed "")
          (delete-region (agent-q-history-input-start) (point-max)))
        (condition-case nil
            (insert (string-trim form))
          (text-read-only
           (error "The REPL %s has no prompt now: it is starting, or evaluating something"
                  (buffer-name buffer))))
        (setq agent-q-history--staged (string-trim form))
        (agent-q-history--remember (string-trim form))
        (dolist (window (get-buffer-window-list buffer nil t))
          (set-window-point window (point-max)))))
    (message "agent-q put a form at the prompt of %s" (buffer-name buffer))
    (format "Put at the prompt of %s; the user decides whether to run it." (buffer-name buffer))))

(defun agent-q-history--remember (form)
  "Put FORM into the input history of the REPL in the current buffer.
There it is when the user clears the prompt and wants it back."
  (cond ((derived-mode-p 'slime-repl-mode)
         (when (fboundp 'slime-repl-add-to-input-history)
           (slime-repl-add-to-input-history form)))
        ((derived-mode-p 'comint-mode)
         (comint-add-to-input-history form))))

(defun agent-q-history-repl (connection)
  "Return the buffer of the REPL of CONNECTION, or nil."
  (let ((process (agent-q-image-connection-process connection)))
    (pcase (agent-q-image-connection-client connection)
      ('sly (let ((sly-dispatching-connection process))
              (and (fboundp 'sly-mrepl--find-buffer)
                   (sly-mrepl--find-buffer process))))
      ('slime (let ((slime-dispatching-connection process))
                (and (fboundp 'slime-output-buffer)
                     (save-window-excursion (slime-output-buffer))))))))

(defun agent-q-history-input-start ()
  "Return where input begins in the REPL in the current buffer, or nil."
  (if (bound-and-true-p slime-repl-input-start-mark)
      (symbol-value 'slime-repl-input-start-mark)
    (let ((process (get-buffer-process (current-buffer))))
      (and process (process-mark process)))))

(defun agent-q-history-typed ()
  "Return what was typed after the prompt of the REPL in the current buffer."
  (let ((start (agent-q-history-input-start)))
    (if start
        (buffer-substring-no-properties (min start (point-max)) (point-max))
      "")))

(provide 'agent-q-history)
;;; agent-q-history.el ends here
