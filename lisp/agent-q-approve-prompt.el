;;; agent-q-approve-prompt.el --- Answering requests at the empty prompt  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; While the prompt is empty, the keys of the next request work there, too.  Such a key may
;; as well be the first letter of a message, so that more is asked of it than of one on the
;; request.  It answers only if
;;
;; - the request is in the window and could be read for a moment (agent-q-sight.el), unless the
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

;;; Code:

(require 'agent-q-approve)
(require 'agent-q-approve-layout)
(require 'agent-q-approve-text)
(require 'agent-q-call)
(require 'agent-q-prompt)
(require 'agent-q-render)
(require 'agent-q-sight)
(require 'seq)

(defconst agent-q-approve-prompt-pause 0.7
  "Seconds without typing that must pass before a key counts as an answer.
For as long, too, the key has to have been in force.")

(defconst agent-q-approve-prompt-alone 0.4
  "Seconds without another key that must follow a key for it to count as an answer.")

(defconst agent-q-approve-prompt-repeat 0.3
  "Seconds after which the same key counts as a new press, not as auto-repeat.")

(defconst agent-q-approve-prompt--keys
  '("y" "n" "!" "P" "e" "v" "d" "Y" "N" "r" "s" "b" "w")
  "The keys that answer some request.")

(defconst agent-q-approve-prompt--showing '(?v ?d ?b ?w)
  "The keys that only show something, such as a request that is out of sight.")

(defvar-local agent-q-approve-prompt--typed nil
  "When the text at the prompt last changed, or nil.")

(defvar-local agent-q-approve-prompt--held ""
  "Keys typed too early to be an answer, all the same; they may begin a message.")

(defvar-local agent-q-approve-prompt--held-at nil
  "When the last of the held keys was typed.")

(defun agent-q-approve-prompt-setup ()
  "Make the current chat notice what is typed, and how wide it is."
  (add-hook 'pre-command-hook #'agent-q-approve-prompt--give-back nil t)
  (add-hook 'pre-command-hook #'agent-q-approve-prompt--translate -90 t)
  (add-hook 'input-method-activate-hook #'agent-q-approve-prompt--go-between nil t)
  (add-hook 'after-change-functions #'agent-q-approve-prompt--note nil t)
  (add-hook 'window-size-change-functions #'agent-q-approve-prompt--resized nil t))

(defun agent-q-approve-prompt-define-keys (map)
  "Put the keys that answer requests into MAP, in force only when one may."
  (dolist (key agent-q-approve-prompt--keys)
    (define-key map key
      (list 'menu-item "" #'agent-q-approve-prompt-key
            :filter (lambda (command)
                      (and (agent-q-approve-prompt--waiting) command))))))

(defun agent-q-approve-prompt--note (&rest _)
  "Note that the user changed the text at the prompt."
  (setq agent-q-approve-prompt--typed (current-time)))

(defun agent-q-approve-prompt--resized (window)
  "Fit the requests in WINDOW to its width."
  (with-current-buffer (window-buffer window)
    (agent-q-approve-fit)))

(defun agent-q-approve-prompt--waiting ()
  "Return the request that keys at the prompt are about, or nil."
  (and (agent-q-prompt-p)
       (= agent-q-prompt-start (point-max))
       (not buffer-read-only)
       (agent-q-call-waiting)))

(defun agent-q-approve-prompt--call (key)
  "Return the request that KEY at the prompt answers, or nil."
  (when-let ((call (agent-q-approve-prompt--waiting)))
    (and (or (seq-some (lambda (label) (equal key (substring label 1 2)))
                       (agent-q-approve-text-labels call))
             ;; Who sees one rule may ask for another one, also where there is none.
             (and (equal key "w") (agent-q-call-offer call)))
         call)))

(defun agent-q-approve-prompt--command (key)
  "Return the command that KEY has on the request at point, or nil."
  (and (not (agent-q-prompt-p))
       (agent-q-call-open-p (agent-q-render-item-at (point)))
       (let ((map (get-char-property (point) 'keymap)))
         (and (keymapp map)
              (commandp (lookup-key map (string key)))
              (lookup-key map (string key))))))

(defun agent-q-approve-prompt--meant (letter)
  "Return the keys that LETTER may stand for where point is, an answer each."
  (seq-filter (lambda (key)
                (if (agent-q-prompt-p) (agent-q-approve-prompt--call (string key))
                  (agent-q-approve-prompt--command key)))
              (if (< letter 128) (list letter) (agent-q-approve-layout-keys letter))))

(defun agent-q-approve-prompt--translate ()
  "Let a letter of another keyboard answer as the key that it is on.
For `pre-command-hook'."
  (when (and (eq this-command 'self-insert-command)
             (characterp last-command-event)
             (> last-command-event 127)
             (agent-q-call-waiting))
    (pcase (agent-q-approve-prompt--meant last-command-event)
      ('nil)
      (`(,key) (if (agent-q-prompt-p)
                   (setq this-command #'agent-q-approve-prompt-key)
                 (setq last-command-event key
                       this-command (agent-q-approve-prompt--command key))))
      (keys (message "%s is %s: press that key itself, or set `default-input-method'"
                     (string last-command-event)
                     (mapconcat #'string keys " or "))))))

(defun agent-q-approve-prompt--go-between ()
  "Let keys that answer requests pass by the input method of this chat.
For `input-method-activate-hook'."
  (when input-method-function
    (add-function :around (local 'input-method-function) #'agent-q-approve-prompt--pass)))

(defun agent-q-approve-prompt--pass (method key)
  "Return the events for KEY by METHOD, or KEY itself where it answers a request."
  (if (or (agent-q-approve-prompt--command key)
          (and (agent-q-approve-prompt--call (string key))
               (not (agent-q-approve-prompt--typing-p key))
               (agent-q-approve-layout-composes-p method key)
               (agent-q-approve-prompt--alone-p)))
      (list key)
    (funcall method key)))

(defun agent-q-approve-prompt--within (time seconds)
  "Whether TIME is non-nil and less than SECONDS ago."
  (and time (< (float-time (time-since time)) seconds)))

(defun agent-q-approve-prompt--problem (call)
  "Return why CALL can't be answered at the prompt now, or nil."
  (cond ((not (agent-q-sight-in-view-p call))
         "The request is not visible: C-c C-a goes to it")
        ((or (< (agent-q-sight-armed-for call)
                ;; Who has asked for a rule is answering, and types no message.
                (if (agent-q-call-offer call) 0 agent-q-approve-prompt-pause))
             (not (agent-q-sight-armed-p call))
             (agent-q-approve-prompt--within agent-q-approve-prompt--held-at
                                             agent-q-approve-prompt-repeat))
         "Too fast: press the key again to answer")))

(defun agent-q-approve-prompt--typing-p (key)
  "Whether KEY is a part of something that is being typed."
  (or (agent-q-approve-prompt--within agent-q-approve-prompt--typed
                                      agent-q-approve-prompt-pause)
      (and (agent-q-approve-prompt--within agent-q-approve-prompt--held-at
                                           agent-q-approve-prompt-pause)
           (not (eq key (aref agent-q-approve-prompt--held 0))))))

(defun agent-q-approve-prompt--insert ()
  "Insert the key that was typed, after those that were held."
  (when (agent-q-approve-prompt--within agent-q-approve-prompt--held-at
                                        agent-q-approve-prompt-pause)
    (insert agent-q-approve-prompt--held))
  (agent-q-approve-prompt--release)
  (self-insert-command 1))

(defun agent-q-approve-prompt--hold (key)
  "Hold KEY back, as it may begin a message."
  (setq agent-q-approve-prompt--held
        (if (agent-q-approve-prompt--within agent-q-approve-prompt--held-at
                                            agent-q-approve-prompt-pause)
            (concat agent-q-approve-prompt--held (string key))
          (string key))
        agent-q-approve-prompt--held-at (current-time)))

(defun agent-q-approve-prompt--release ()
  "Forget the keys that were held."
  (setq agent-q-approve-prompt--held ""
        agent-q-approve-prompt--held-at nil))

(defun agent-q-approve-prompt--alone-p ()
  "Whether no key follows the one that was typed.
The pending request may change in that time."
  (sit-for agent-q-approve-prompt-alone t))

(defun agent-q-approve-prompt--give-back ()
  "Give back the keys that were held when another one follows them.
For `pre-command-hook'."
  (when (and (eq this-command 'self-insert-command)
             (not (string-empty-p agent-q-approve-prompt--held)))
    (when (and (agent-q-prompt-p)
               (= agent-q-prompt-start (point-max))
               (agent-q-approve-prompt--within agent-q-approve-prompt--held-at
                                               agent-q-approve-prompt-pause))
      (insert agent-q-approve-prompt--held))
    (agent-q-approve-prompt--release)))

(defun agent-q-approve-prompt-key ()
  "Answer the next request by the key that was typed at the empty prompt.
A key that is typed together with others, or before the request could be
read, does nothing."
  (interactive nil agent-q-chat-mode)
  (let* ((typed last-command-event)
         (meant (agent-q-approve-prompt--meant typed))
         (key (and (null (cdr meant)) (car meant)))
         (call (and key (agent-q-approve-prompt--call (string key))))
         (asks (and call (not (memq key agent-q-approve-prompt--showing))))
         (high (and asks
                    (agent-q-sight-too-high-p call)
                    (> (agent-q-sight-end-shown-for call) agent-q-approve-prompt-pause)))
         (problem (and asks
                       (not high)
                       (agent-q-approve-prompt--problem call))))
    (cond ((agent-q-approve-prompt--typing-p typed)
           (agent-q-approve-prompt--insert))
          ((not call)
           ;; It may begin a message all the same.
           (agent-q-approve-prompt--hold typed)
           (message (if (eq typed ?w) "Press ! or P first: they offer a rule"
                      "%c does nothing in this request")
                    typed))
          (problem
           (agent-q-approve-prompt--hold typed)
           (agent-q-sight-expect call)
           (message "%s" problem))
          ((agent-q-approve-prompt--alone-p)
           (agent-q-approve-prompt--release)
           (if (and high (agent-q-call-open-p call))
               (progn (agent-q-sight-begin call)
                      (message "This is the beginning of the request: read it, then press the key again"))
             (agent-q-approve-prompt--answer call key)))
          (t
           ;; The rest comes as keys of its own: the same one again, or text.
           (agent-q-approve-prompt--hold typed)
           (message "Too fast: press the key again to answer")))))

(defun agent-q-approve-prompt--answer (call key)
  "Answer CALL by KEY, unless it was withdrawn or changed in that time."
  (if (not (and (eq call (agent-q-approve-prompt--call (string key)))
                (or (memq key agent-q-approve-prompt--showing)
                    (agent-q-sight-armed-p call))))
      (message "The request changed: read it, then press the key again")
    (let ((agent-q-approve-call call))
      (call-interactively (lookup-key (agent-q-approve-map call) (string key))))))

(provide 'agent-q-approve-prompt)
;;; agent-q-approve-prompt.el ends here
