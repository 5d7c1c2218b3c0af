;;; agent-q-code-lisp.el --- Symbols of Lisp code in a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Lisp in the log has the keys of a source buffer: the definition and the description
;; of the symbol at point, and its arguments in the echo area.  At the prompt symbols
;; are completed.  All of it is the client's, in the package that the code is in.

;;; Code:

(require 'agent-q-code)
(require 'agent-q-image-connection)
(require 'agent-q-markdown)
(require 'agent-q-prompt)
(require 'agent-q-session)
(require 'agent-q-user)
(require 'lisp-mode)
(require 'seq)
(require 'subr-x)

(defconst agent-q-code-lisp--constituents "^][ \t\n()\"';`,|"
  "The characters of symbols, for `skip-chars-forward'.")

(defconst agent-q-code-lisp--reach 10000
  "Most characters before point at which the list around it may begin.")

;;;; The code at point

(defun agent-q-code-lisp-p (place)
  "Whether PLACE is in Lisp code of an answer, or in the form of a call."
  (and (< (point-min) place (point-max))
       (or (get-text-property place 'agent-q-form)
           (let ((language (and (get-text-property place 'agent-q-code)
                                (get-text-property place 'agent-q-language))))
             (and language (eq 'lisp-mode (cdr (assoc language agent-q-code-modes))))))))

(defun agent-q-code-lisp-end (start)
  "Return where the code at START ends."
  (next-single-property-change start 'agent-q-language nil (point-max)))

(defun agent-q-code-lisp--start (place)
  "Return where the code at PLACE begins."
  (previous-single-property-change (min (1+ place) (point-max))
                                   'agent-q-language nil (point-min)))

(defun agent-q-code-lisp--package ()
  "Return the package of the code at point.
It is what this answer has entered before point, else the one of the REPL."
  (let ((turn (or (previous-single-property-change (point) 'agent-q-turn) (point-min)))
        (case-fold-search t)
        (found nil))
    (save-excursion
      (while (and (not found) (re-search-backward agent-q-user-in-package turn t))
        (agent-q-markdown-dress (match-beginning 1))
        (when (agent-q-code-lisp-p (match-beginning 1))
          (setq found (upcase (match-string-no-properties 1))))))
    (or found (agent-q-image-repl-package agent-q-session-connection))))

(defun agent-q-code-lisp--symbol-bounds ()
  "Return the bounds of the symbol at point."
  (save-excursion
    (let ((end (progn (skip-chars-forward agent-q-code-lisp--constituents
                                          (agent-q-code-lisp-end (point)))
                      (point))))
      (skip-chars-backward agent-q-code-lisp--constituents
                           (agent-q-code-lisp--start (1- end)))
      ;; A sharp sign belongs to #' and #:, and to no symbol's beginning.
      (skip-chars-forward "#" end)
      (cons (point) end))))

(defun agent-q-code-lisp-symbol ()
  "Return the symbol at point in Lisp code of the log, or nil."
  (when (agent-q-code-lisp-p (point))
    (pcase-let ((`(,start . ,end) (agent-q-code-lisp--symbol-bounds)))
      (and (< start end) (buffer-substring-no-properties start end)))))

(defun agent-q-code-lisp--operator ()
  "Return the operator of the innermost list around point, or nil.
What begins far above is not looked for."
  (let ((list (with-syntax-table lisp-mode-syntax-table
                (nth 1 (parse-partial-sexp
                        (max (agent-q-code-lisp--start (point))
                             (- (point) agent-q-code-lisp--reach))
                        (point))))))
    (when list
      (save-excursion
        (goto-char (1+ list))
        (and (agent-q-code-lisp-p (point)) (agent-q-code-lisp-symbol))))))

;;;; Commands

(defun agent-q-code-lisp--symbol-or-complain ()
  "Return the symbol at point, or signal that there is none or no image."
  (unless (agent-q-image-live-p agent-q-session-connection)
    (user-error "No Lisp image is connected"))
  (or (agent-q-code-lisp-symbol)
      (user-error "There is no symbol of Lisp code at point")))

(defun agent-q-code-lisp--ask (key)
  "Run the client's KEY on the symbol at point, and show its errors."
  (let ((symbol (agent-q-code-lisp--symbol-or-complain)))
    (condition-case failure
        (agent-q-image-ask agent-q-session-connection key symbol
                           (agent-q-code-lisp--package))
      (error (user-error "%s" (error-message-string failure))))))

(defun agent-q-code-find-definition ()
  "Go to the definition of the symbol at point in Lisp code of the log.
Elsewhere do what the key does in other buffers."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (if (agent-q-code-lisp-p (point))
      (agent-q-code-lisp--ask :edit-definition)
    (call-interactively #'xref-find-definitions)))

(defun agent-q-code-describe ()
  "Describe the symbol at point in Lisp code of the log."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-code-lisp--ask :describe))

(defvar agent-q-code-lisp-describe-map
  (let ((map (make-sparse-keymap)))
    (define-key map "d" #'agent-q-code-describe)
    (define-key map (kbd "C-d") #'agent-q-code-describe)
    map)
  "Keymap of what describes Lisp code of the log.")

(defvar agent-q-code-lisp-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-d") agent-q-code-lisp-describe-map)
    map)
  "Keymap of Lisp code in the log, in addition to that of the chat.")

(defun agent-q-code-lisp-define-key (map key command)
  "Bind KEY in MAP to COMMAND, but in Lisp code of the log to what describes it."
  (define-key map key
    (list 'menu-item "" command
          :filter (lambda (command)
                    (if (agent-q-code-lisp-p (point)) agent-q-code-lisp-describe-map
                      command)))))

(defun agent-q-code-lisp-give-keys (start)
  "Give the code that begins at START its keys, if it is Lisp.
For `agent-q-code-closed-functions'."
  (when (agent-q-code-lisp-p start)
    (put-text-property start (agent-q-code-lisp-end start)
                       'keymap agent-q-code-lisp-map)))

;;;; Asking the client's server

(defun agent-q-code-lisp--request (function arguments continuation)
  "Call FUNCTION, a name, of the client's server with ARGUMENTS, strings.
CONTINUATION gets its value, or nil."
  (agent-q-image-ask
   agent-q-session-connection :rex
   `(cl:ignore-errors
     (cl:funcall (cl:find-symbol ,function
                                 ,(substring (upcase (symbol-name
                                                      (agent-q-image-client
                                                       agent-q-session-connection :wire)))
                                             1))
                 ,@arguments))
   t
   (lambda (result)
     (funcall continuation (pcase result (`(:ok ,value) value))))))

(defun agent-q-code-lisp--free-p ()
  "Whether the image of this chat can be asked beside what it does."
  (let ((connection agent-q-session-connection))
    (and (agent-q-image-live-p connection)
         (or (agent-q-image-ask connection :threads-p)
             (null (agent-q-image-ask connection :requests))))))

(defun agent-q-code-lisp-eldoc (callback)
  "Hand CALLBACK the arguments of the operator at point in Lisp code.
For `eldoc-documentation-functions'."
  (when (and (agent-q-code-lisp-p (point)) (agent-q-code-lisp--free-p))
    (when-let ((operator (agent-q-code-lisp--operator)))
      (agent-q-code-lisp--request
       "OPERATOR-ARGLIST" (list operator (agent-q-code-lisp--package))
       (lambda (arguments)
         (when (stringp arguments)
           (funcall callback (replace-regexp-in-string "[ \t\n]+" " " arguments)))))
      ;; It comes later.
      t)))

;;;; Completion at the prompt

(defconst agent-q-code-lisp--patience 1.0
  "Seconds that completion waits for the image.")

(defun agent-q-code-lisp--word-p (start end)
  "Whether the text from START to END is to be completed as a symbol.
A word that looks like any other is, when the user asks for it."
  (and (< start end)
       (or (memq (char-before start) '(?\( ?' ?`))
           (string-match-p "[-:*+%&]" (buffer-substring-no-properties start end))
           (and (memq this-command '(completion-at-point agent-q-chat-tab complete-symbol))
                (< 1 (- end start))))))

(defun agent-q-code-lisp-complete ()
  "Complete the Lisp symbol at the prompt.
For `completion-at-point-functions'."
  (when (and (agent-q-prompt-p) (agent-q-code-lisp--free-p))
    (let ((end (point))
          (start (save-excursion
                   (skip-chars-backward agent-q-code-lisp--constituents agent-q-prompt-start)
                   (skip-chars-forward "#" (point-max))
                   (point))))
      (when (agent-q-code-lisp--word-p start end)
        (when-let ((names (agent-q-code-lisp--completions
                           (buffer-substring-no-properties start end))))
          (list start end names :exclusive 'no))))))

(defun agent-q-code-lisp--completions (text)
  "Return the names of symbols that begin with TEXT, as the client has them."
  (let ((end (+ (float-time) agent-q-code-lisp--patience))
        (answer nil) (answered nil))
    (agent-q-code-lisp--request
     "SIMPLE-COMPLETIONS"
     (list text (or (agent-q-image-repl-package agent-q-session-connection)
                    "COMMON-LISP-USER"))
     (lambda (value) (setq answer value answered t)))
    (while (not (or answered (input-pending-p) (< end (float-time))))
      (accept-process-output nil 0.02))
    (pcase answer
      (`(,(and names (pred listp)) . ,_) (seq-filter #'stringp names)))))

(provide 'agent-q-code-lisp)
;;; agent-q-code-lisp.el ends here
