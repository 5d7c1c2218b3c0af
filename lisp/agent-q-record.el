;;; agent-q-record.el --- What the user did in SLY and SLIME  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Looks at the events that pass between Emacs and the Lisp and keeps the last
;; ones that tell what the user did: evaluated, compiled, loaded, met an error.
;; agent-q-past.el puts together what belongs together.  Does nothing until a
;; Lisp connects, and never loads the core.

;;; Code:

(require 'agent-q)
(require 'agent-q-log)
(require 'agent-q-past)
(require 'ring)
(require 'seq)

(defvar slime-net-processes)
(defvar slime-dispatching-connection)
(defvar sly-dispatching-connection)
(defvar sly-net-processes)

(defconst agent-q-record--text-limit 2000
  "How many characters of a text one record keeps.")

(defvar agent-q-record--ring nil
  "The records, or nil before the first Lisp connected.")

(defconst agent-q-record--clients
  '((sly-connected-hook sly-event-hooks sly-net-processes)
    (slime-connected-hook slime-event-hooks slime-net-processes))
  "For each client: its hook on connecting, its event hook, its connections.")

;;;; Putting the recorders on the hooks

(defun agent-q-record-start ()
  "Record from the moment a Lisp connects, or now if one is connected."
  (add-hook 'sly-connected-hook #'agent-q-record--sly)
  (add-hook 'slime-connected-hook #'agent-q-record--slime)
  (when (bound-and-true-p sly-net-processes)
    (agent-q-record--sly))
  (when (bound-and-true-p slime-net-processes)
    (agent-q-record--slime)))

(defun agent-q-record-stop ()
  "Take the recorders off the hooks and forget what they recorded.
What agent-q's own calls brought is kept."
  (remove-hook 'sly-connected-hook #'agent-q-record--sly)
  (remove-hook 'slime-connected-hook #'agent-q-record--slime)
  (remove-hook 'sly-event-hooks #'agent-q-record--sly-event)
  (remove-hook 'slime-event-hooks #'agent-q-record--slime-event)
  (agent-q-past-forget 'user)
  (setq agent-q-record--ring nil))

(defun agent-q-record--sly ()
  "Record the events of SLY."
  (agent-q-record--ready)
  (add-hook 'sly-event-hooks #'agent-q-record--sly-event))

(defun agent-q-record--slime ()
  "Record the events of SLIME."
  (agent-q-record--ready)
  (add-hook 'slime-event-hooks #'agent-q-record--slime-event))

(defun agent-q-record--ready ()
  "Have a ring to record into."
  (unless agent-q-record--ring
    (setq agent-q-record--ring (make-ring (max 1 agent-q-record-max)))))

(defun agent-q-record--sly-event (event)
  "Record EVENT of SLY if it is of interest; leave it to SLY."
  (agent-q-record--event 'sly event))

(defun agent-q-record--slime-event (event)
  "Record EVENT of SLIME if it is of interest; leave it to SLIME."
  (agent-q-record--event 'slime event))

;;;; What is recorded

(defun agent-q-record--event (client event)
  "Record EVENT of CLIENT.  Always return nil, so that the client handles it."
  ;; We stand in the way of everything the client does: an error of ours must
  ;; not become one of its own.
  (agent-q-log-call 'agent-q-mode #'agent-q-record--keep client event)
  (agent-q-log-call 'agent-q-mode #'agent-q-past-see client
                    (if (eq client 'sly)
                        (bound-and-true-p sly-dispatching-connection)
                      (bound-and-true-p slime-dispatching-connection))
                    event)
  nil)

(defun agent-q-record--keep (client event)
  "Keep the meaning of EVENT of CLIENT, if it has one."
  (when-let ((record (agent-q-record--describe event)))
    (ring-insert agent-q-record--ring
                 (append (list :time (current-time) :client client) record))))

(defun agent-q-record--describe (event)
  "Return the meaning of EVENT as a property list, or nil."
  (pcase event
    (`(:emacs-rex ,form ,package . ,_)
     (agent-q-record--request form package))
    (`(:emacs-channel-send ,_ (:process ,text))
     (list :kind 'repl :text (agent-q-record--text text)))
    (`(:write-string ,text . ,_)
     (list :kind 'output :text (agent-q-record--text text)))
    (`(:debug ,_ ,level ,condition . ,_)
     (list :kind 'error :level level
           :text (agent-q-record--text
                  (string-join (seq-filter #'stringp condition) "\n"))))
    (`(:return (:ok (:compilation-result ,notes ,success . ,_)) . ,_)
     (list :kind 'compiled :success (and success t)
           :text (agent-q-record--text (agent-q-record--notes notes))))))

(defun agent-q-record--request (form package)
  "Return the record of a request to evaluate FORM in PACKAGE, or nil."
  (when (symbolp (car-safe form))
    (let* ((name (replace-regexp-in-string "\\`[^:]*:+" ""
                                           (symbol-name (car form))))
           (kind (pcase name
                   ((or "interactive-eval" "interactive-eval-region"
                        "eval-and-grab-output" "pprint-eval"
                        "re-evaluate-defvar")
                    'evaluate)
                   ("listener-eval" 'repl)
                   ("compile-string-for-emacs" 'compile)
                   ((or "compile-file-for-emacs" "compile-file-if-needed")
                    'compile-file)
                   ("load-file" 'load-file))))
      (when-let ((text (and kind (seq-find #'stringp (cdr form)))))
        (list :kind kind :package package
              :text (agent-q-record--text text))))))

(defun agent-q-record--notes (notes)
  "Return the messages of the compiler's NOTES as one text."
  (mapconcat (lambda (note)
               (format "%s: %s" (plist-get note :severity)
                       (plist-get note :message)))
             (seq-take (and (listp notes) notes) 10) "\n"))

(defun agent-q-record--text (text)
  "Return TEXT without properties and not longer than a record may keep."
  (substring-no-properties text 0 (min (length text)
                                       agent-q-record--text-limit)))

(defun agent-q-record-recent (&optional count)
  "Return the last COUNT records, latest first; all of them without COUNT.
Each is a property list with :time, :client, :kind and :text, and for some
kinds :package, :success or :level."
  (when agent-q-record--ring
    (let ((records (ring-elements agent-q-record--ring)))
      (if count (seq-take records count) records))))

(provide 'agent-q-record)
;;; agent-q-record.el ends here
