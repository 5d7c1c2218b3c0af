;;; agent-q-echo.el --- What the agent evaluates, in the user's REPL  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; With `agent-q-echo-evaluations', each form that the agent evaluates or compiles
;; is shown with its values as comments above the prompt of the REPL, where the
;; client puts what a program prints.  Input, history and undo stay as they are.

;;; Code:

(require 'agent-q)
(require 'agent-q-image-calls)
(require 'agent-q-image-connection)
(require 'agent-q-image-reply)
(require 'agent-q-session)
(require 'lisp-mode)

(defvar slime-dispatching-connection)
(defvar slime-output-end)
(defvar sly-mrepl--output-mark)
(declare-function slime-connection-output-buffer "ext:slime-repl")
(declare-function slime-repl-emit "ext:slime-repl")
(declare-function sly-mrepl--find-buffer "ext:sly-mrepl")
(declare-function sly-mrepl--insert-output "ext:sly-mrepl")

(defconst agent-q-echo--limit 2000
  "Most characters of a form that are shown.")

(defconst agent-q-echo--value-limit 500
  "Most characters of a value that are shown.")

(defface agent-q-echo '((t :inherit font-lock-comment-face))
  "Face of the agent's evaluations in the user's REPL."
  :group 'agent-q)

;;;; Asking once

(defvar agent-q-echo--offer nil
  "Non-nil when the agent has evaluated something and the user was not asked yet.")

(defun agent-q-echo-offer-p ()
  "Return non-nil, once, if the user is to be asked about the echo now."
  (prog1 (eq agent-q-echo--offer t)
    (when agent-q-echo--offer
      (setq agent-q-echo--offer 'made))))

(defun agent-q-echo-choose (value)
  "Set `agent-q-echo-evaluations' to VALUE from now on."
  (customize-save-variable 'agent-q-echo-evaluations value)
  (message (if value "Your REPL shows what the agent evaluates"
             "Your REPL won't show them; `agent-q-echo-evaluations' changes that")))

;;;; What is shown

(defun agent-q-echo-call (process operation arguments status payload)
  "Show a call of OPERATION with ARGUMENTS over PROCESS in the REPL there.
STATUS and PAYLOAD are how it ended.  Nothing is shown of what only looks."
  (when (and (eq agent-q-echo-evaluations 'ask)
             (member operation '("eval-form" "eval-in-frame" "compile-form")))
    (unless agent-q-echo--offer
      (setq agent-q-echo--offer t)))
  (when (and (eq agent-q-echo-evaluations t)
             (member operation '("eval-form" "eval-in-frame" "compile-form"))
             (process-live-p process))
    (let* ((reply (and (stringp payload) (string-prefix-p "(:outcome " payload)
                       (ignore-errors (agent-q-image-reply-read payload))))
           (entries (if (equal operation "compile-form")
                        (agent-q-echo--compiled arguments reply status)
                      (agent-q-echo--evaluated arguments reply status))))
      (when entries
        (agent-q-echo--insert process (string-join entries))))))

(defun agent-q-echo--evaluated (arguments reply status)
  "Return what a call with ARGUMENTS evaluated, texts, one for each form.
REPLY is the image's, or nil when the call ended otherwise, as STATUS says."
  (let* ((data (plist-get reply :value))
         (done (plist-get data :forms))
         (current (plist-get data :current))
         (texts (agent-q-echo--split (plist-get arguments :form)))
         (ended (agent-q-echo--end reply status)))
    (append
     (cl-loop for form in done
              for text = (agent-q-echo--whole (plist-get form :form) (pop texts))
              collect (agent-q-echo--entry
                       ">" arguments text (or (plist-get form :values) '("no values"))))
     (and (or current ended)
          (not (eq :missed (plist-get reply :outcome)))
          (list (agent-q-echo--entry
                 ">" arguments
                 (if current
                     (agent-q-echo--whole current (car texts))
                   (or (car texts) (plist-get arguments :form)))
                 (list (or ended "stopped"))))))))

(defun agent-q-echo--compiled (arguments reply status)
  "Return what a call with ARGUMENTS compiled, a list of one text.
REPLY and STATUS are as for `agent-q-echo--evaluated'."
  (let* ((data (plist-get reply :value))
         (notes (length (plist-get data :notes))))
    (unless (eq :missed (plist-get reply :outcome))
      (list (agent-q-echo--entry
             " compiles>" arguments (plist-get arguments :form)
             (list (or (agent-q-echo--end reply status)
                       (concat (if (plist-get data :failed) "compiled with failures" "compiled")
                               (and (> notes 0)
                                    (format ", %d note%s" notes (if (= notes 1) "" "s")))))))))))

(defun agent-q-echo--end (reply status)
  "Say how a call ended with REPLY or STATUS, unless it came to its end."
  (pcase (plist-get reply :outcome)
    (:returned nil)
    (:error (format "%s: %s" (plist-get reply :type) (plist-get reply :message)))
    (:cancelled "stopped before its end")
    (_ (format "ended (%s)" status))))

(defun agent-q-echo--split (text)
  "Return the forms in TEXT, as far as they can be told apart."
  (with-temp-buffer
    (set-syntax-table lisp-mode-syntax-table)
    (setq-local parse-sexp-ignore-comments t)
    (insert (or text ""))
    (goto-char (point-min))
    (let ((forms nil))
      (ignore-errors
        (while (progn (forward-comment (buffer-size)) (not (eobp)))
          (let ((start (point)))
            (forward-sexp)
            (push (buffer-substring-no-properties start (point)) forms))))
      (nreverse forms))))

(defun agent-q-echo--whole (form text)
  "Return TEXT if FORM, the beginning of a form, is of it, else FORM."
  (let ((start (car (split-string form "\\.\\.\\. \\[[0-9]+ more "))))
    (if (and text (string-prefix-p start text)) text form)))

(defun agent-q-echo--who ()
  "Return the name of the one who called: the agent, or a client."
  (let ((owner agent-q-image-calls-ended-owner))
    (or (and (buffer-live-p owner) (buffer-local-value 'agent-q-session-client owner))
        "agent-q")))

(defun agent-q-echo--entry (sign arguments form values)
  "Return FORM of a call with ARGUMENTS, and VALUES, as comments.
SIGN stands between the agent's name and the form."
  (let* ((package (plist-get arguments :package))
         (lead (concat "; " (agent-q-echo--who) (and package (concat " " (upcase package))) sign " ")))
    (concat
     (agent-q-echo--lines lead (agent-q-echo--short form agent-q-echo--limit))
     (mapconcat (lambda (value)
                  (agent-q-echo--lines "; agent-q=> "
                                       (agent-q-echo--short value agent-q-echo--value-limit)))
                values ""))))

(defun agent-q-echo--short (text limit)
  "Return TEXT, cut at LIMIT."
  (let ((text (string-trim (substring-no-properties text))))
    (if (> (length text) limit)
        (concat (substring text 0 limit) " ...")
      text)))

(defun agent-q-echo--lines (lead text)
  "Return the lines of TEXT as comments, the first one with LEAD."
  (let ((blank (concat ";" (make-string (1- (length lead)) ?\s))))
    (concat lead (string-join (split-string text "\n") (concat "\n" blank)) "\n")))

;;;; Where it is shown

(defun agent-q-echo--insert (process text)
  "Put TEXT above the prompt of the REPL of PROCESS, if there is one."
  (pcase (agent-q-echo--client process)
    ('sly (agent-q-echo--insert-sly process text))
    ('slime (agent-q-echo--insert-slime process text))))

(defun agent-q-echo--client (process)
  "Return the client whose connection PROCESS is."
  (let ((connection (cl-find process (agent-q-image-connections)
                             :key #'agent-q-image-connection-process)))
    (and connection (agent-q-image-connection-client connection))))

(defmacro agent-q-echo--keeping-undo (mark &rest body)
  "Evaluate BODY, an insertion at MARK, and have undo know nothing of it."
  (declare (indent 1) (debug t))
  (let ((undo (make-symbol "undo")) (start (make-symbol "start")) (size (make-symbol "size")))
    `(let ((,undo buffer-undo-list)
           (,start (marker-position ,mark))
           (,size (buffer-size)))
       (setq buffer-undo-list t)
       (unwind-protect (progn ,@body)
         (setq buffer-undo-list
               (if (listp ,undo)
                   (agent-q-echo--moved ,undo ,start (- (buffer-size) ,size))
                 ,undo))))))

(defun agent-q-echo--insert-sly (process text)
  "Put TEXT above the prompt of SLY's REPL of PROCESS."
  (let ((buffer (and (fboundp 'sly-mrepl--insert-output)
                     (sly-mrepl--find-buffer process))))
    (when buffer
      (with-current-buffer buffer
        (agent-q-echo--keeping-undo sly-mrepl--output-mark
          ;; Its own filters are for what programs print.
          (sly-mrepl--insert-output (agent-q-echo--on-new-line sly-mrepl--output-mark text)
                                    'agent-q-echo t))))))

(defun agent-q-echo--insert-slime (process text)
  "Put TEXT above the prompt of SLIME's REPL of PROCESS."
  (let* ((slime-dispatching-connection process)
         (buffer (and (fboundp 'slime-repl-emit)
                      (slime-connection-output-buffer process))))
    (when (buffer-live-p buffer)
      (with-current-buffer buffer
        (let ((start (marker-position slime-output-end)))
          (agent-q-echo--keeping-undo slime-output-end
            (slime-repl-emit (agent-q-echo--on-new-line slime-output-end text))
            (let ((inhibit-read-only t))
              (put-text-property start slime-output-end 'face 'agent-q-echo))))))))

(defun agent-q-echo--on-new-line (mark text)
  "Return TEXT, with a newline first if MARK is within a line."
  (save-excursion
    (goto-char mark)
    (if (bolp) text (concat "\n" text))))

(defun agent-q-echo--moved (undo start distance)
  "Return the list UNDO after an insertion of DISTANCE characters at START."
  (cl-flet ((moved (place)
              (cond ((>= place start) (+ place distance))
                    ((<= place (- start)) (- place distance))
                    (t place))))
    (mapcar (lambda (entry)
              (pcase entry
                ((pred integerp) (moved entry))
                (`(,(and (pred integerp) begin) . ,(and (pred integerp) end))
                 (cons (moved begin) (moved end)))
                (`(,(and (pred stringp) text) . ,(and (pred integerp) place))
                 (cons text (moved place)))
                (`(nil ,property ,value ,begin . ,end)
                 `(nil ,property ,value ,(moved begin) . ,(moved end)))
                (`(apply ,(and (pred integerp) delta) ,begin ,end . ,more)
                 `(apply ,delta ,(moved begin) ,(moved end) . ,more))
                (_ entry)))
            undo)))

(provide 'agent-q-echo)
;;; agent-q-echo.el ends here
