;;; agent-q-approval.el --- Approving tool calls in the chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A call that needs approval is a block in the log.  It is decided by a key on it or at the
;; empty prompt, by editing its arguments or by reviewing its diff; nothing is asked in the
;; minibuffer.  agent-q-approval-gate.el says which keys count, agent-q-approval-display.el
;; has the text.

;;; Code:

(require 'agent-q-approval-display)
(require 'agent-q-approval-gate)
(require 'agent-q-call)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-registry)
(require 'agent-q-render)
(require 'agent-q-review)
(require 'agent-q-review-place)
(require 'agent-q-text)
(require 'cl-lib)
(require 'quail)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Editing the arguments of a tool call

;; Shows each argument of a call that waits under a heading, to be edited as
;; the text it is and not as JSON.  The decision is then the new arguments.

(defvar-local agent-q-approval--arguments-call nil
  "The call whose arguments are edited here.")

(defvar-local agent-q-approval--arguments-chat nil
  "The chat of that call.")

(defvar agent-q-approval-arguments-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'agent-q-approval-arguments-run)
    (define-key map (kbd "C-c C-k") #'agent-q-approval-arguments-quit)
    map)
  "Keymap of `agent-q-approval-arguments-mode'.")

(define-derived-mode agent-q-approval-arguments-mode text-mode "agent-q arguments"
  "Major mode for editing the arguments of a tool call.
Each heading names an argument; below it is its text, or JSON if it is
not a text.
\\<agent-q-approval-arguments-mode-map>\\[agent-q-approval-arguments-run] runs
the call with these arguments; \\[agent-q-approval-arguments-quit] leaves it as
it was.

\\{agent-q-approval-arguments-mode-map}"
  (agent-q-approval--arguments-setup))

(define-derived-mode agent-q-approval-arguments-lisp-mode lisp-mode "agent-q arguments"
  "Major mode for editing the arguments of a call that has Lisp code.
It is like `agent-q-approval-arguments-mode'; code has to be balanced.

\\{agent-q-approval-arguments-lisp-mode-map}"
  (agent-q-approval--arguments-setup))

(set-keymap-parent agent-q-approval-arguments-lisp-mode-map
                   (make-composed-keymap agent-q-approval-arguments-mode-map lisp-mode-map))

(defun agent-q-approval--arguments-setup ()
  "Set what both modes have in common."
  (setq-local bidi-paragraph-direction 'left-to-right
              require-final-newline nil
              ;; SLY and SLIME come with `lisp-mode', and compile what is here by C-c C-c.
              minor-mode-overriding-map-alist `((t . ,agent-q-approval-arguments-mode-map))
              header-line-format
              (substitute-command-keys
               "\\<agent-q-approval-arguments-mode-map>\\[agent-q-approval-arguments-run] runs the call with these arguments, \\[agent-q-approval-arguments-quit] leaves it as it was")))

(defconst agent-q-approval--arguments-code '("form" "new_source" "source" "values")
  "The arguments that are Lisp code.")

(defun agent-q-approval-arguments-edit (call)
  "Edit the arguments of CALL, which waits in the current chat.
Who has begun with that goes on."
  (pop-to-buffer (or (seq-find (lambda (buffer)
                                 (eq call (buffer-local-value 'agent-q-approval--arguments-call buffer)))
                               (buffer-list))
                     (agent-q-approval--arguments-open call))))

(defun agent-q-approval--arguments-open (call)
  "Return a new buffer with the arguments of CALL of the current chat."
  (let ((chat (current-buffer))
        (arguments (agent-q-json-parse (agent-q-call-arguments call)))
        (buffer (generate-new-buffer
                 (format "*agent-q arguments: %s*" (agent-q-call-tool call)))))
    (with-current-buffer buffer
      (if (seq-some (lambda (name) (stringp (gethash name arguments)))
                    agent-q-approval--arguments-code)
          (agent-q-approval-arguments-lisp-mode)
        (agent-q-approval-arguments-mode))
      (setq agent-q-approval--arguments-call call
            agent-q-approval--arguments-chat chat)
      (maphash #'agent-q-approval--arguments-insert arguments)
      (set-buffer-modified-p nil)
      (goto-char (point-min))
      (forward-line 1))
    buffer))

(defun agent-q-approval--arguments-insert (name value)
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

(defun agent-q-approval--arguments-read ()
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
                   (agent-q-approval--arguments-value (car heading) text))
                 arguments)
        (setq position (if empty start end))))
    arguments))

(defun agent-q-approval--arguments-value (name text)
  "Return the value of the argument NAME that TEXT, JSON, writes."
  (condition-case nil
      ;; As an element, so that numbers and words are understood everywhere.
      (aref (agent-q-json-parse (concat "[" text "]")) 0)
    (error (user-error "%s is not a JSON value: %s" name (string-trim text)))))

(defun agent-q-approval--arguments-check-balance (arguments)
  "Signal an error unless the code in ARGUMENTS is balanced."
  (dolist (name agent-q-approval--arguments-code)
    (let ((code (gethash name arguments)))
      (when (stringp code)
        (with-temp-buffer
          (insert code)
          (delay-mode-hooks (lisp-mode))
          (condition-case nil
              (check-parens)
            (error (user-error "The parentheses or quotes of %s are not balanced" name))))))))

(defun agent-q-approval-arguments-run ()
  "Run the call with the arguments in this buffer."
  (interactive nil agent-q-approval-arguments-mode agent-q-approval-arguments-lisp-mode)
  (let* ((call agent-q-approval--arguments-call)
         (chat agent-q-approval--arguments-chat)
         (arguments (agent-q-approval--arguments-read))
         (json (agent-q-json-encode arguments))
         (tool (agent-q-core-tool (agent-q-call-tool call))))
    (unless (and (buffer-live-p chat) (agent-q-call-open-p call))
      (user-error "This request was already decided"))
    (agent-q-approval--arguments-check-balance arguments)
    (when tool
      (condition-case failure
          (agent-q-core-check-arguments (plist-get tool :schema) json)
        (agent-q-invalid-arguments (user-error "%s" (cadr failure)))))
    (with-current-buffer chat
      (agent-q-approval-gate-decide call "modified" json "approved with changes"))
    (agent-q-approval-arguments-quit)
    (unless (eq (window-buffer) chat)
      (pop-to-buffer chat))
    ;; As after any decision; who types stays at the prompt.
    (with-current-buffer chat
      (if (agent-q-prompt-p) (agent-q-approval-gate-disarm-all)
        (agent-q-approval-gate-go-to-next)))))

(defun agent-q-approval-arguments-quit ()
  "Discard the edits and keep the arguments of the call as they were."
  (interactive nil agent-q-approval-arguments-mode agent-q-approval-arguments-lisp-mode)
  (quit-window t))

(defun agent-q-approval-arguments-leave (chat)
  "Kill the buffers in which arguments are edited for CHAT."
  (dolist (buffer (buffer-list))
    (when (eq chat (buffer-local-value 'agent-q-approval--arguments-chat buffer))
      (kill-buffer buffer))))

;;;; Keys of keyboards that are not Latin

;; Which key of a Latin keyboard a letter stands for, by the input methods that Emacs knows.
;; They are looked at when such a letter is first typed while a request waits.

(defconst agent-q-approval--layout-methods
  '((cyrillic "russian-computer" "ukrainian-computer" "belarusian" "bulgarian-bds"
              "bulgarian-phonetic" "cyrillic-serbian" "cyrillic-macedonian")
    (greek "greek")
    (hebrew "hebrew")
    (arabic "arabic" "farsi-isiri-9147")
    (thai "thai-kesmanee")
    (georgian "georgian-qwerty")
    (devanagari "devanagari-inscript"))
  "The input methods that are like the keyboards of a script.")

(defvar agent-q-approval--layout-tables nil
  "What is known of input methods, each (METHOD . ALIST) from letters to keys.")

(defun agent-q-approval--layout-letter (key)
  "Return the letter that KEY gives at once by the input method, or nil."
  (let* ((map (quail-lookup-key (string key)))
         (definition (and map (null (cdr map)) (quail-map-definition map)))
         (text (and definition (quail-get-current-str 1 definition))))
    (cond ((characterp text) text)
          ((and (stringp text) (= (length text) 1)) (aref text 0)))))

(defun agent-q-approval--layout-table (method)
  "Return the letters of the input method METHOD, an alist to their keys."
  (cdr (or (assoc method agent-q-approval--layout-tables)
           (car (push (cons method (agent-q-approval--layout-read method))
                      agent-q-approval--layout-tables)))))

(defun agent-q-approval--layout-read (method)
  "Read the letters of the input method METHOD, which may be any."
  (pcase (assoc method input-method-alist)
    (`(,_ ,_ quail-use-package ,_ ,_ . ,libraries)
     (with-temp-buffer
       (dolist (library libraries)
         (load library t t))
       (setq quail-current-package (quail-package method))
       (and quail-current-package
            (cl-loop for key from ?! to ?~
                     for letter = (agent-q-approval--layout-letter key)
                     when letter collect (cons letter key)))))))

(defun agent-q-approval-layout-keys (letter)
  "Return the keys that LETTER, which is not ASCII, may stand for.
The user's own input method tells.  Without one there may be several keys, as
keyboards of one script differ."
  (let ((keys (lambda (methods)
                (delete-dups
                 (delq nil (mapcar (lambda (method)
                                     (cdr (assq letter (agent-q-approval--layout-table method))))
                                   methods)))))
        (own (or current-input-method default-input-method)))
    (cond ((<= #xff01 letter #xff5e) (list (- letter #xfee0))) ; full width
          ((and own (funcall keys (list (format "%s" own)))))
          (t (funcall keys (cdr (assq (aref char-script-table letter)
                                      agent-q-approval--layout-methods)))))))

(defun agent-q-approval-layout-composes-p (method key)
  "Whether KEY by METHOD, the function of an input method, gives no letter at once."
  (or (not (eq method #'quail-input-method))
      (and (quail-conversion-keymap) t)
      (and (quail-lookup-key (string key))
           (not (agent-q-approval--layout-letter key)))))

;;;; Approving tool calls in the chat

;; A call that needs approval is a block in the log, decided by a key with point on
;; it or, for the next one, at the empty prompt (agent-q-approval.el).  Nothing is
;; asked in the minibuffer.  A rule is shown before it is taken: the first key shows it, the
;; second takes it.  Which keys count, agent-q-approval-gate.el knows.

;;;;; Drawing

(defvar-local agent-q-approval--width nil
  "The width for which the requests of this chat were drawn last.")

(defvar agent-q-approval-map
  (let ((map (make-sparse-keymap)))
    (define-key map "y" #'agent-q-approval-run)
    (define-key map "!" #'agent-q-approval-for-chat)
    (define-key map "P" #'agent-q-approval-for-project)
    (define-key map "e" #'agent-q-approval-edit)
    (define-key map "v" #'agent-q-approval-view)
    (define-key map "d" #'agent-q-approval-review)
    (define-key map "i" #'agent-q-approval-review-in-place)
    (define-key map "Y" #'agent-q-approval-run-all)
    (define-key map "N" #'agent-q-approval-deny-all)
    (define-key map "n" #'agent-q-approval-deny)
    (define-key map "r" #'agent-q-approval-deny-with-reason)
    (define-key map "w" #'agent-q-approval-widen)
    (define-key map " " #'agent-q-approval-gate-more)
    (define-key map (kbd "TAB") #'agent-q-approval-next-button)
    (define-key map (kbd "RET") #'agent-q-approval-press)
    (define-key map [mouse-2] #'agent-q-approval-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on a tool call that waits for a decision.")

(defvar agent-q-approval-effect-map
  (let ((map (make-sparse-keymap)))
    (set-keymap-parent map agent-q-approval-map)
    (define-key map "s" #'agent-q-approval-stop)
    (define-key map "b" #'agent-q-approval-backtrace)
    map)
  "Keymap on an effect of running code that waits for a decision.")

(defvar agent-q-approval-folded-map
  (let ((map (make-sparse-keymap)))
    (dolist (key '("y" "n" "!" "P" "e" "v" "d" "i" "Y" "N" "r" "s" "b" "w"))
      (define-key map key #'agent-q-approval-unfold))
    (define-key map " " #'agent-q-approval-unfold)
    (define-key map (kbd "TAB") #'agent-q-approval-unfold)
    (define-key map (kbd "RET") #'agent-q-approval-unfold)
    (define-key map [mouse-2] #'agent-q-approval-unfold-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on a request that is folded because another one comes first.")

(defun agent-q-approval-map (call)
  "Return the keymap on CALL while it waits for a decision."
  (if (agent-q-call-effect-p call) agent-q-approval-effect-map agent-q-approval-map))

(defun agent-q-approval-draw (call)
  "Return the block that asks about CALL, or its line after another one."
  (let ((full (agent-q-call-full-p call)))
    (setf (agent-q-call-drawn call) (if full 'full 'folded))
    ;; The note on a cut text keeps its own keys.
    (agent-q-render-fill-keymap
     (if full (agent-q-approval-display-block call (agent-q-approval-map call))
       (agent-q-approval-display-folded call))
     (if full (agent-q-approval-map call) agent-q-approval-folded-map))))

(defun agent-q-approval-unfold ()
  "Show the whole request at point, which comes after another one.
Only what is shown in full can be answered."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-render-item-at (point))))
    (unless (agent-q-call-open-p call)
      (user-error "No tool call is waiting for a decision here"))
    (setf (agent-q-render-item-expanded call) t)
    (agent-q-approval-gate-redraw call)))

(defun agent-q-approval-unfold-mouse (event)
  "Show the whole request that EVENT clicked on."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-approval-unfold))

(defun agent-q-approval-fit ()
  "Redraw the requests of this chat if the width of its window changed.
For `window-size-change-functions'."
  (when (agent-q-call-waiting)
    (let ((width (agent-q-call-width)))
      (unless (eql width agent-q-approval--width)
        (setq agent-q-approval--width width)
        (mapc #'agent-q-render-update-item (agent-q-call-all-waiting))))))

;;;;; Answering

(defvar agent-q-approval-call nil
  "The call that commands decide from elsewhere, or nil for the one at point.
Point stays where it is then.")

(defun agent-q-approval--here ()
  "Return the item that a command is about."
  (if (agent-q-approval--elsewhere-p) agent-q-approval-call
    (agent-q-render-item-at (point))))

(defun agent-q-approval--elsewhere-p ()
  "Whether a call is answered from the prompt of this chat.
While a reason is read, the user may go to another request and answer that."
  (and agent-q-approval-call
       (agent-q-prompt-p)
       (memq agent-q-approval-call agent-q-call-active)
       t))

(defun agent-q-approval--open ()
  "Return the call that a command is about if it waits for a decision; else say so."
  (let ((call (agent-q-approval--here)))
    (unless (agent-q-call-open-p call)
      (user-error "No tool call is waiting for a decision here"))
    call))

(defun agent-q-approval--call ()
  "Return the call that is answered if it can be answered now; else say why not."
  (let ((call (agent-q-approval--open)))
    (unless (agent-q-approval-gate-armed-p call)
      (unless (agent-q-approval--elsewhere-p)
        (agent-q-approval-gate-reveal call))
      (user-error
       "Too fast: read the request, then press the key again"))
    call))

(defun agent-q-approval--go-on ()
  "After a decision, go to what comes next, unless point was elsewhere."
  (if (not (agent-q-prompt-p)) (agent-q-approval-gate-go-to-next)
    (agent-q-approval-gate-disarm-all)
    (agent-q-approval-gate-follow-end)))

(defun agent-q-approval--decide (decision payload label)
  "Decide on the call by DECISION and PAYLOAD, shown as LABEL."
  (agent-q-approval-gate-decide (agent-q-approval--call) decision payload label)
  (agent-q-approval--go-on))

(defun agent-q-approval--allowed (call)
  "Return how it is shown that CALL was let go on."
  (if (agent-q-call-effect-p call) "allowed" "approved"))

(defun agent-q-approval-run ()
  "Run the tool call at point as it is shown, or allow what code is about to do."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approval--call)))
    (agent-q-approval--check-diff call)
    (agent-q-approval-gate-check-end call)
    (agent-q-approval--let-run call (agent-q-approval--allowed call))
    (agent-q-approval--go-on)))

(defun agent-q-approval--check-diff (call)
  "Signal an error if CALL's edit is not shown beside the request any more."
  (when (and (agent-q-call-beside call)
             (not (agent-q-review-hunks-visible-p (agent-q-call-review call))))
    (agent-q-approval-gate-redraw call)
    (user-error "The diff was closed; here it is again: read it, then press the key again")))

(defun agent-q-approval--let-run (call label)
  "Let CALL run, shown as LABEL; an edit that was reviewed as the review left it."
  (if (agent-q-review-hunks-touched (agent-q-call-review call))
      (with-current-buffer (agent-q-call-review call)
        (agent-q-review-apply))
    (agent-q-approval-gate-decide call "approved" nil label)))

(defun agent-q-approval-deny ()
  "Deny the tool call at point, or what code is about to do.
The model is told so, and code gets an error that it may handle."
  (interactive nil agent-q-chat-mode)
  (agent-q-approval--decide "denied" nil "denied"))

(defun agent-q-approval-deny-with-reason (reason)
  "Deny the tool call at point and tell the model the REASON."
  (interactive (progn (agent-q-approval--call)
                      (list (read-string "Reason (optional): ")))
               agent-q-chat-mode)
  (let ((reason (and (not (string-blank-p reason))
                     (agent-q-text-clean reason))))
    (agent-q-approval--decide "denied" reason
                              (if (and reason (agent-q-call-effect-p (agent-q-approval--call)))
                                  (concat "denied: " reason)
                                "denied"))))

(defun agent-q-approval-stop ()
  "Deny what code is about to do at point, and stop the whole call.
The code can't continue, even if it handles errors."
  (interactive nil agent-q-chat-mode)
  (unless (agent-q-call-effect-p (agent-q-approval--call))
    (user-error "This call is not running yet; n denies it"))
  (agent-q-approval--decide "stopped" nil "stopped"))

(defun agent-q-approval-run-all ()
  "Run every waiting call in this chat whose request you have seen to the end."
  (interactive nil agent-q-chat-mode)
  (agent-q-approval--call)
  (dolist (call (agent-q-approval-gate-all-read))
    (agent-q-approval--let-run call (agent-q-approval--allowed call)))
  (agent-q-approval--go-on)
  (let ((left (length (agent-q-call-all-waiting))))
    (unless (zerop left)
      (message "%d more wait%s that you have not seen in full: TAB unfolds one, then Y"
               left (if (= left 1) "s" "")))))

(defun agent-q-approval-deny-all ()
  "Deny every waiting call in this chat."
  (interactive nil agent-q-chat-mode)
  (agent-q-approval--call)
  (dolist (call (agent-q-call-all-waiting))
    (agent-q-approval-gate-decide call "denied" nil "denied"))
  (agent-q-approval--go-on))

(defun agent-q-approval-for-chat ()
  "Run the tool call at point; don't ask about similar ones in this chat.
The first time, only show the rule that would be added."
  (interactive nil agent-q-chat-mode)
  (agent-q-approval--with-rule "chat"))

(defun agent-q-approval-for-project ()
  "Run the tool call at point; don't ask about similar ones in this project.
The first time, only show the rule that would be added."
  (interactive nil agent-q-chat-mode)
  (agent-q-approval--with-rule "project"))

(defun agent-q-approval--with-rule (scope)
  "Show the rules for such a call in SCOPE, or take the one that is shown."
  (let* ((call (agent-q-approval--call))
         (offer (agent-q-call-offer call)))
    (if (not (and offer (equal scope (agent-q-approval-display-offer-scope offer))))
        (agent-q-approval--show-offer call (agent-q-approval--offers call scope))
      (agent-q-approval-gate-check-end call)
      (agent-q-approval--check-diff call)
      (agent-q-core-add-rule (nth 1 (agent-q-approval-display-offer-shown offer)) (agent-q-call-key call))
      (agent-q-approval--let-run call (concat (agent-q-approval--allowed call) ", with a rule"))
      (agent-q-approval--go-on))))

(defun agent-q-approval--offers (call scope)
  "Return the core's rules for a call such as CALL in SCOPE, as an offer."
  (let ((offered (agent-q-json-parse (agent-q-core-offered-rule (agent-q-call-key call) scope)))
        (entry (lambda (offer)
                 (list (gethash "width" offer) (agent-q-json-encode (gethash "rule" offer))
                       (gethash "description" offer)))))
    (agent-q-approval-display-offer-make :scope scope :widths (mapcar entry offered)
                                         :read (or (agent-q-call-ended call)
                                                   (eq (agent-q-call-armed call) 'rule)))))

(defun agent-q-approval--show-offer (call offer)
  "Show OFFER in the request for CALL."
  (setf (agent-q-call-offer call) offer)
  ;; What is new on the screen has to be read before a key takes it.
  (if (agent-q-approval-display-offer-read offer)
      (agent-q-approval-gate-require-rule call)
    (setf (agent-q-call-armed call) nil))
  (agent-q-render-update-item call)
  (unless (agent-q-approval--elsewhere-p)
    (goto-char (agent-q-render-item-start call))
    (when (agent-q-approval-display-offer-read offer)
      (let ((end (marker-position (agent-q-render-item-end call))))
        (goto-char (or (text-property-any (point) end 'agent-q-sight-end t) end))
        (agent-q-render-body-reveal (point) end))))
  (agent-q-approval-gate-arm call))

(defun agent-q-approval-quit ()
  "Discard the rule offered for the next request, and quit as usual."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (dolist (call (agent-q-call-all-waiting))
    (when (agent-q-call-offer call)
      (setf (agent-q-call-offer call) nil)
      (agent-q-approval-gate-redraw call)))
  (keyboard-quit))

(defun agent-q-approval-widen ()
  "Show the next of the rules that are offered for the call.
After the last comes the first again."
  (interactive nil agent-q-chat-mode)
  (let* ((call (agent-q-approval--open))
         ;; This takes no rule, so that it need not wait until the one before was read.
         (offer (or (agent-q-call-offer call)
                    (user-error "Press ! or P first: they offer a rule")))
         (count (length (agent-q-approval-display-offer-widths offer))))
    (when (= count 1)
      (user-error "There is no other rule"))
    (setf (agent-q-approval-display-offer-index offer) (mod (1+ (agent-q-approval-display-offer-index offer)) count))
    (agent-q-approval--show-offer call offer)))

(defun agent-q-approval-edit ()
  "Edit the arguments of the tool call at point, then run it."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approval--call)))
    (when (agent-q-call-effect-p call)
      (user-error "An effect of running code can't be edited; n denies it, s stops the call"))
    (agent-q-approval-arguments-edit call)))

(defun agent-q-approval--visit (text)
  "Show TEXT, all about a call, and how to go back, in a window."
  (let ((page (agent-q-render-body-visit "*agent-q call*" text)))
    (with-current-buffer page
      (setq header-line-format "q goes back to the chat, where the keys answer"))))

(defun agent-q-approval-view ()
  "Show the whole tool call in a separate buffer."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approval--here)))
    (unless (agent-q-call-p call)
      (user-error "No tool call here"))
    (agent-q-approval--visit
     (let ((agent-q-render-body-limit most-positive-fixnum))
       (concat (if (agent-q-call-effect-p call)
                   (agent-q-registry-effect-words (agent-q-call-tool call))
                 (agent-q-call-tool call))
               "\n" (agent-q-approval-display-level call)
               (if-let ((target (agent-q-call-target call))) (concat target "\n") "")
               "\n" (agent-q-approval-display-all-reasons call)
               (if-let ((change (agent-q-call-change call)))
                   (concat (propertize "What it changes\n" 'face 'bold)
                           (agent-q-call-change-body change)
                           (propertize "\n\nIts arguments\n" 'face 'bold))
                 "")
               (agent-q-call-arguments-body call) "\n")))))

(defun agent-q-approval--review ()
  "Return the buffer in which the edit of the tool call is reviewed."
  (let ((call (agent-q-approval--here)))
    (unless (and (agent-q-call-open-p call)
                 (or (buffer-live-p (agent-q-call-review call))
                     (agent-q-review-prepare call)))
      (user-error "No diff to review here"))
    (agent-q-call-review call)))

(defun agent-q-approval-review ()
  "Review the edit of the tool call as a diff."
  (interactive nil agent-q-chat-mode)
  (let ((window (agent-q-review-display (agent-q-approval--review))))
    (if window (select-window window)
      (user-error "No window of this frame can show the diff"))))

(defun agent-q-approval-review-in-place ()
  "Review the edit of the tool call in the buffer of its file."
  (interactive nil agent-q-chat-mode)
  (agent-q-review-place-visit (agent-q-approval--review)))

(defun agent-q-approval-backtrace ()
  "Show the backtrace of the code that the request is about."
  (interactive nil agent-q-chat-mode)
  (let ((call (agent-q-approval--here)))
    (unless (and (agent-q-call-p call) (agent-q-call-effect-p call))
      (user-error "No request about running code here"))
    (agent-q-call-effect-backtrace call)))

(defun agent-q-approval-next-button ()
  "Go to the next button of the request at point; after the last one, to its head."
  (interactive nil agent-q-chat-mode)
  (let* ((call (agent-q-render-item-at (point)))
         (end (and (agent-q-call-p call) (agent-q-render-item-end call)))
         (position (point)) (found nil))
    (unless end
      (user-error "No request here"))
    (while (and (not found)
                (setq position (next-single-property-change position 'agent-q-answer nil end))
                (< position end))
      (setq found (and (get-text-property position 'agent-q-answer) position)))
    (goto-char (or found (agent-q-render-item-start call)))))

(defun agent-q-approval-press ()
  "Press the button at point."
  (interactive nil agent-q-chat-mode)
  (if-let ((command (get-text-property (point) 'agent-q-answer)))
      (call-interactively command)
    (message (if (agent-q-call-effect-p (agent-q-render-item-at (point)))
                 "y allows it, n denies it, r denies it with a reason, s stops the call"
               "y runs it, n denies it, r denies it with a reason, e edits it"))))

(defun agent-q-approval-mouse (event)
  "Press the button that EVENT clicked on."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-approval-press))

;;;;; Decisions at the prompt

(defun agent-q-approval-mistyped (text)
  "Return a hint if TEXT, sent from the prompt, was meant as a decision; else nil.
That is a key that answers requests, or yes or no, while one waits in this
chat; else the value is nil."
  (when-let ((call (agent-q-call-waiting)))
    (let ((keys (seq-filter
                 (lambda (key) (lookup-key (agent-q-approval-map call) key))
                 (pcase (downcase text)
                   ("yes" '("y"))
                   ("no" '("n"))
                   ((pred (string-match-p "\\`[[:nonascii:]]\\'"))
                    (mapcar #'string (agent-q-approval-layout-keys (aref text 0))))
                   (_ (and (= (length text) 1) (list text)))))))
      (and keys
           (format "Not sent.  To answer %s, press %s without RET"
                   (agent-q-call-name call) (string-join keys " or "))))))

;;;;; What rules look at

(defun agent-q-approval-place (connection)
  "Return the settings of a chat that only rules look at.
CONNECTION is the name of its connection, or nil."
  `((connection . ,(if connection (agent-q-text-clean connection) :null))))

(defun agent-q-approval-target (arguments image)
  "Return what a call with ARGUMENTS, parsed, is about, as a line, or nil.
IMAGE is the name of the chat's image, or nil."
  (let ((path (cdr (assq 'path arguments))))
    (cond ((and (stringp path) (agent-q-project-directory))
           (concat "file: "
                   (agent-q-text-visible-line
                    ;; Nothing is above the root.
                    (replace-regexp-in-string
                     "\\`\\(?:/\\.\\.\\)+\\(?:/\\|\\'\\)" "/"
                     (expand-file-name path (agent-q-project-directory)))
                    most-positive-fixnum)))
          (image (concat "image: " (agent-q-text-visible-line image))))))

;;;; Answering requests at the empty prompt

;; While the prompt is empty, the keys of the next request work there, too.  Such a key may
;; as well be the first letter of a message, so that more is asked of it than of one on the
;; request.  It answers only if
;;
;; - the request is in the window and could be read for a moment (agent-q-approval-gate.el), unless the
;;   key only shows more of it;
;; - where it is higher than the window, a first key has gone to its beginning;
;; - nothing was typed in this chat just before;
;; - no other key follows at once.
;;
;; A key that came too early answers nothing and is kept: when another one follows, both
;; are text, so that nobody who types loses a letter.  Point stays at the prompt.
;;
;; An input method is passed by where a key answers: on a request, and at the prompt where it
;; would only begin to compose.  Letters of other keyboards stand for the keys they are on.

(defconst agent-q-approval-prompt-pause 0.7
  "Seconds without typing that must pass before a key counts as a decision.
For as long, too, the key has to have been in force.")

(defconst agent-q-approval-prompt-alone 0.4
  "Seconds without another key that must follow a key for it to count.")

(defconst agent-q-approval-prompt-repeat 0.3
  "Seconds after which the same key counts as a new press, not as auto-repeat.")

(defconst agent-q-approval--prompt-keys
  '("y" "n" "!" "P" "e" "v" "d" "i" "Y" "N" "r" "s" "b" "w")
  "The keys that answer some request.")

(defconst agent-q-approval--prompt-showing '(?v ?d ?i ?b ?w)
  "The keys that only show something, such as a request that is out of sight.")

(defvar-local agent-q-approval--prompt-typed nil
  "When the text at the prompt last changed, or nil.")

(defvar-local agent-q-approval--prompt-held ""
  "Keys typed too early to be a decision, all the same; they may begin a message.")

(defvar-local agent-q-approval--prompt-held-at nil
  "When the last of the held keys was typed.")

(defun agent-q-approval-prompt-setup ()
  "Make the current chat notice what is typed, and how wide it is."
  (add-hook 'pre-command-hook #'agent-q-approval--prompt-give-back nil t)
  (add-hook 'pre-command-hook #'agent-q-approval--prompt-translate -90 t)
  (add-hook 'input-method-activate-hook #'agent-q-approval--prompt-go-between nil t)
  (add-hook 'after-change-functions #'agent-q-approval--prompt-note nil t)
  (add-hook 'window-size-change-functions #'agent-q-approval--prompt-resized nil t))

(defun agent-q-approval-prompt-define-keys (map)
  "Put the keys that answer requests into MAP, in force only when one may."
  (dolist (key agent-q-approval--prompt-keys)
    (define-key map key
      (list 'menu-item "" #'agent-q-approval-prompt-key
            :filter (lambda (command)
                      (and (agent-q-approval--prompt-waiting) command))))))

(defun agent-q-approval--prompt-note (&rest _)
  "Note that the user changed the text at the prompt."
  (setq agent-q-approval--prompt-typed (current-time)))

(defun agent-q-approval--prompt-resized (window)
  "Fit the requests in WINDOW to its width."
  (with-current-buffer (window-buffer window)
    (agent-q-approval-fit)))

(defun agent-q-approval--prompt-waiting ()
  "Return the request that keys at the prompt are about, or nil."
  (and (agent-q-prompt-p)
       (= agent-q-prompt-start (point-max))
       (not buffer-read-only)
       (agent-q-call-waiting)))

(defun agent-q-approval--prompt-call (key)
  "Return the request that KEY at the prompt answers, or nil."
  (when-let ((call (agent-q-approval--prompt-waiting)))
    (and (or (seq-some (lambda (label) (equal key (substring label 1 2)))
                       (agent-q-approval-display-labels call))
             ;; Who sees one rule may ask for another one, also where there is none.
             (and (equal key "w") (agent-q-call-offer call)))
         call)))

(defun agent-q-approval--prompt-command (key)
  "Return the command that KEY has on the request at point, or nil."
  (and (not (agent-q-prompt-p))
       (agent-q-call-open-p (agent-q-render-item-at (point)))
       (let ((map (get-char-property (point) 'keymap)))
         (and (keymapp map)
              (commandp (lookup-key map (string key)))
              (lookup-key map (string key))))))

(defun agent-q-approval--prompt-meant (letter)
  "Return the keys that LETTER may stand for where point is, an answer each."
  (seq-filter (lambda (key)
                (if (agent-q-prompt-p) (agent-q-approval--prompt-call (string key))
                  (agent-q-approval--prompt-command key)))
              (if (< letter 128) (list letter) (agent-q-approval-layout-keys letter))))

(defun agent-q-approval--prompt-translate ()
  "Let a letter of another keyboard answer as the key that it is on.
For `pre-command-hook'."
  (when (and (eq this-command 'self-insert-command)
             (characterp last-command-event)
             (> last-command-event 127)
             (agent-q-call-waiting))
    (pcase (agent-q-approval--prompt-meant last-command-event)
      ('nil)
      (`(,key) (if (agent-q-prompt-p)
                   (setq this-command #'agent-q-approval-prompt-key)
                 (setq last-command-event key
                       this-command (agent-q-approval--prompt-command key))))
      (keys (message "%s is %s: press that key itself, or set `default-input-method'"
                     (string last-command-event)
                     (mapconcat #'string keys " or "))))))

(defun agent-q-approval--prompt-go-between ()
  "Let keys that answer requests pass by the input method of this chat.
For `input-method-activate-hook'."
  (when input-method-function
    (add-function :around (local 'input-method-function) #'agent-q-approval--prompt-pass)))

(defun agent-q-approval--prompt-pass (method key)
  "Return the events for KEY by METHOD, or KEY itself where it answers a request."
  (if (or (agent-q-approval--prompt-command key)
          (and (agent-q-approval--prompt-call (string key))
               (not (agent-q-approval--prompt-typing-p key))
               (agent-q-approval-layout-composes-p method key)
               (agent-q-approval--prompt-alone-p)))
      (list key)
    (funcall method key)))

(defun agent-q-approval--prompt-within (time seconds)
  "Whether TIME is non-nil and less than SECONDS ago."
  (and time (< (float-time (time-since time)) seconds)))

(defun agent-q-approval--prompt-problem (call)
  "Return why CALL can't be answered at the prompt now, or nil."
  (cond ((not (agent-q-approval-gate-in-view-p call))
         "The request is not visible: C-c C-a goes to it")
        ((or (< (agent-q-approval-gate-armed-for call)
                ;; Who has asked for a rule is answering, and types no message.
                (if (agent-q-call-offer call) 0 agent-q-approval-prompt-pause))
             (not (agent-q-approval-gate-armed-p call))
             (agent-q-approval--prompt-within agent-q-approval--prompt-held-at
                                              agent-q-approval-prompt-repeat))
         "Too fast: press the key again to answer")))

(defun agent-q-approval--prompt-typing-p (key)
  "Whether KEY is a part of something that is being typed."
  (or (agent-q-approval--prompt-within agent-q-approval--prompt-typed
                                       agent-q-approval-prompt-pause)
      (and (agent-q-approval--prompt-within agent-q-approval--prompt-held-at
                                            agent-q-approval-prompt-pause)
           (not (eq key (aref agent-q-approval--prompt-held 0))))))

(defun agent-q-approval--prompt-insert ()
  "Insert the key that was typed, after those that were held."
  (when (agent-q-approval--prompt-within agent-q-approval--prompt-held-at
                                         agent-q-approval-prompt-pause)
    (insert agent-q-approval--prompt-held))
  (agent-q-approval--prompt-release)
  (self-insert-command 1))

(defun agent-q-approval--prompt-hold (key)
  "Hold KEY back, as it may begin a message."
  (setq agent-q-approval--prompt-held
        (if (agent-q-approval--prompt-within agent-q-approval--prompt-held-at
                                             agent-q-approval-prompt-pause)
            (concat agent-q-approval--prompt-held (string key))
          (string key))
        agent-q-approval--prompt-held-at (current-time)))

(defun agent-q-approval--prompt-release ()
  "Forget the keys that were held."
  (setq agent-q-approval--prompt-held ""
        agent-q-approval--prompt-held-at nil))

(defun agent-q-approval--prompt-alone-p ()
  "Whether no key follows the one that was typed.
The pending request may change in that time."
  (sit-for agent-q-approval-prompt-alone t))

(defun agent-q-approval--prompt-give-back ()
  "Give back the keys that were held when another one follows them.
For `pre-command-hook'."
  (when (and (eq this-command 'self-insert-command)
             (not (string-empty-p agent-q-approval--prompt-held)))
    (when (and (agent-q-prompt-p)
               (= agent-q-prompt-start (point-max))
               (agent-q-approval--prompt-within agent-q-approval--prompt-held-at
                                                agent-q-approval-prompt-pause))
      (insert agent-q-approval--prompt-held))
    (agent-q-approval--prompt-release)))

(defun agent-q-approval-prompt-key ()
  "Answer the next request by the key that was typed at the empty prompt.
A key that is typed together with others, or before the request could be
read, does nothing."
  (interactive nil agent-q-chat-mode)
  (let* ((typed last-command-event)
         (meant (agent-q-approval--prompt-meant typed))
         (key (and (null (cdr meant)) (car meant)))
         (call (and key (agent-q-approval--prompt-call (string key))))
         (asks (and call (not (memq key agent-q-approval--prompt-showing))))
         (high (and asks
                    (agent-q-approval-gate-too-high-p call)
                    (> (agent-q-approval-gate-end-shown-for call) agent-q-approval-prompt-pause)))
         (problem (and asks
                       (not high)
                       (agent-q-approval--prompt-problem call))))
    (cond ((agent-q-approval--prompt-typing-p typed)
           (agent-q-approval--prompt-insert))
          ((not call)
           ;; It may begin a message all the same.
           (agent-q-approval--prompt-hold typed)
           (message (if (eq typed ?w) "Press ! or P first: they offer a rule"
                      "%c does nothing in this request")
                    typed))
          (problem
           (agent-q-approval--prompt-hold typed)
           (agent-q-approval-gate-arm call)
           (message "%s" problem))
          ((agent-q-approval--prompt-alone-p)
           (agent-q-approval--prompt-release)
           (if (and high (agent-q-call-open-p call))
               (progn (agent-q-approval-gate-go-to-head call)
                      (message "This is the beginning of the request: read it, then press the key again"))
             (agent-q-approval--prompt-decide call key)))
          (t
           ;; The rest comes as keys of its own: the same one again, or text.
           (agent-q-approval--prompt-hold typed)
           (message "Too fast: press the key again to answer")))))

(defun agent-q-approval--prompt-decide (call key)
  "Decide on CALL by KEY, unless it was withdrawn or changed in that time."
  (if (not (and (eq call (agent-q-approval--prompt-call (string key)))
                (or (memq key agent-q-approval--prompt-showing)
                    (agent-q-approval-gate-armed-p call))))
      (message "The request changed: read it, then press the key again")
    (let ((agent-q-approval-call call))
      (call-interactively (lookup-key (agent-q-approval-map call) (string key))))))

(provide 'agent-q-approval)
;;; agent-q-approval.el ends here
