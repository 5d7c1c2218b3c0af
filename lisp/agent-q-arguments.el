;;; agent-q-arguments.el --- Editing the arguments of a tool call  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Shows each argument of a call that waits under a heading, to be edited as
;; the text it is and not as JSON.  The answer is then the new arguments.

;;; Code:

(require 'agent-q-answer)
(require 'agent-q-call)
(require 'agent-q-json)
(require 'agent-q-prompt)
(require 'agent-q-sight)
(require 'agent-q-text)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

(defvar-local agent-q-arguments--call nil
  "The call whose arguments are edited here.")

(defvar-local agent-q-arguments--chat nil
  "The chat of that call.")

(defvar agent-q-arguments-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'agent-q-arguments-run)
    (define-key map (kbd "C-c C-k") #'agent-q-arguments-quit)
    map)
  "Keymap of `agent-q-arguments-mode'.")

(define-derived-mode agent-q-arguments-mode text-mode "agent-q arguments"
  "Major mode for editing the arguments of a tool call.
Each heading names an argument; below it is its text, or JSON if it is
not a text.
\\<agent-q-arguments-mode-map>\\[agent-q-arguments-run] runs the call with these arguments; \\[agent-q-arguments-quit] leaves
it as it was.

\\{agent-q-arguments-mode-map}"
  (agent-q-arguments--setup))

(define-derived-mode agent-q-arguments-lisp-mode lisp-mode "agent-q arguments"
  "Major mode for editing the arguments of a call that has Lisp code.
It is like `agent-q-arguments-mode'; code has to be balanced.

\\{agent-q-arguments-lisp-mode-map}"
  (agent-q-arguments--setup))

(set-keymap-parent agent-q-arguments-lisp-mode-map
                   (make-composed-keymap agent-q-arguments-mode-map lisp-mode-map))

(defun agent-q-arguments--setup ()
  "Set what both modes have in common."
  (setq-local bidi-paragraph-direction 'left-to-right
              require-final-newline nil
              ;; SLY and SLIME come with `lisp-mode', and compile what is here by C-c C-c.
              minor-mode-overriding-map-alist `((t . ,agent-q-arguments-mode-map))
              header-line-format
              (substitute-command-keys
               "\\<agent-q-arguments-mode-map>\\[agent-q-arguments-run] runs the call with these arguments, \\[agent-q-arguments-quit] leaves it as it was")))

(defconst agent-q-arguments--code '("form" "new_source" "source" "values")
  "The arguments that are Lisp code.")

(defun agent-q-arguments-edit (call)
  "Edit the arguments of CALL, which waits in the current chat.
Who has begun with that goes on."
  (pop-to-buffer (or (seq-find (lambda (buffer)
                                 (eq call (buffer-local-value 'agent-q-arguments--call buffer)))
                               (buffer-list))
                     (agent-q-arguments--open call))))

(defun agent-q-arguments--open (call)
  "Return a new buffer with the arguments of CALL of the current chat."
  (let ((chat (current-buffer))
        (arguments (agent-q-json-parse (agent-q-call-arguments call)))
        (buffer (generate-new-buffer
                 (format "*agent-q arguments: %s*" (agent-q-call-tool call)))))
    (with-current-buffer buffer
      (if (seq-some (lambda (name) (stringp (gethash name arguments)))
                    agent-q-arguments--code)
          (agent-q-arguments-lisp-mode)
        (agent-q-arguments-mode))
      (setq agent-q-arguments--call call
            agent-q-arguments--chat chat)
      (maphash #'agent-q-arguments--insert arguments)
      (set-buffer-modified-p nil)
      (goto-char (point-min))
      (forward-line 1))
    buffer))

(defun agent-q-arguments--insert (name value)
  "Insert the argument NAME with VALUE at the end of the buffer."
  (goto-char (point-max))
  ;; The newline before a heading is the heading's, so that the text above it
  ;; has exactly the newlines that were written there.
  (insert (propertize (concat (if (bobp) "" "\n") name ":\n")
                      'face 'agent-q-dim 'read-only t 'rear-nonsticky t
                      ;; Before the first one there is nothing to write.
                      'front-sticky (and (bobp) '(read-only))
                      'agent-q-argument (cons name (stringp value)))
          (if (stringp value) value (agent-q-json-encode value))))

(defun agent-q-arguments--read ()
  "Return the arguments as they stand in the buffer, a hash table."
  (let ((arguments (agent-q-json-empty-object))
        (position (point-min)))
    (while (< position (point-max))
      (let* ((heading (get-text-property position 'agent-q-argument))
             (start (or (next-single-property-change position 'agent-q-argument)
                        (point-max)))
             (end (or (next-single-property-change start 'agent-q-argument)
                      (point-max)))
             ;; Without a text between them, two headings touch.
             (empty (and (< start (point-max))
                         (get-text-property start 'agent-q-argument)))
             (text (if empty "" (buffer-substring-no-properties start end))))
        (puthash (car heading)
                 (if (cdr heading) (agent-q-text-clean text)
                   (agent-q-arguments--value (car heading) text))
                 arguments)
        (setq position (if empty start end))))
    arguments))

(defun agent-q-arguments--value (name text)
  "Return the value of the argument NAME that TEXT, JSON, writes."
  (condition-case nil
      ;; As an element, so that numbers and words are understood everywhere.
      (aref (agent-q-json-parse (concat "[" text "]")) 0)
    (error (user-error "%s is not a JSON value: %s" name (string-trim text)))))

(defun agent-q-arguments--check-balance (arguments)
  "Signal an error unless the code in ARGUMENTS is balanced."
  (dolist (name agent-q-arguments--code)
    (let ((code (gethash name arguments)))
      (when (stringp code)
        (with-temp-buffer
          (insert code)
          (delay-mode-hooks (lisp-mode))
          (condition-case nil
              (check-parens)
            (error (user-error "The parentheses or quotes of %s are not balanced" name))))))))

(defun agent-q-arguments-run ()
  "Run the call with the arguments in this buffer."
  (interactive nil agent-q-arguments-mode agent-q-arguments-lisp-mode)
  (let* ((call agent-q-arguments--call)
         (chat agent-q-arguments--chat)
         (arguments (agent-q-arguments--read))
         (json (agent-q-json-encode arguments))
         (tool (agent-q-core-tool (agent-q-call-tool call))))
    (unless (and (buffer-live-p chat) (agent-q-call-open-p call))
      (user-error "This request was already answered"))
    (agent-q-arguments--check-balance arguments)
    (when tool
      (condition-case failure
          (agent-q-core-check-arguments (plist-get tool :schema) json)
        (agent-q-invalid-arguments (user-error "%s" (cadr failure)))))
    (with-current-buffer chat
      (agent-q-answer-settle call "modified" json "approved with changes"))
    (agent-q-arguments-quit)
    (unless (eq (window-buffer) chat)
      (pop-to-buffer chat))
    ;; As after any answer; who types stays at the prompt.
    (with-current-buffer chat
      (if (agent-q-prompt-p) (agent-q-sight-again)
        (agent-q-answer-go-on)))))

(defun agent-q-arguments-quit ()
  "Discard the edits and keep the arguments of the call as they were."
  (interactive nil agent-q-arguments-mode agent-q-arguments-lisp-mode)
  (quit-window t))

(defun agent-q-arguments--left (chat)
  "Kill the buffers in which arguments are edited for CHAT."
  (dolist (buffer (buffer-list))
    (when (eq chat (buffer-local-value 'agent-q-arguments--chat buffer))
      (kill-buffer buffer))))

(add-hook 'agent-q-call-left-functions #'agent-q-arguments--left)

(provide 'agent-q-arguments)
;;; agent-q-arguments.el ends here
