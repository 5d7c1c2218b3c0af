;;; agent-q-provider-list.el --- The models that can be chosen  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Asks hosts and the servers on this machine for their models, and has the user choose one, with what is
;; known of each beside it.

;;; Code:

(require 'agent-q-events)
(require 'agent-q-facts)
(require 'agent-q-json)
(require 'agent-q-provider)
(require 'agent-q-provider-key)
(require 'seq)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; The models of hosts

(defvar agent-q-provider-list--questions (make-hash-table)
  "Callbacks for the models that the core asks hosts for, by question.")

(defvar agent-q-provider-list--listed nil
  "What hosts listed, an alist from their base URLs to lists of models.")

(defun agent-q-provider-models (event)
  "Hand the models in EVENT to whom they are for."
  (let ((function (gethash (plist-get event :question) agent-q-provider-list--questions)))
    (remhash (plist-get event :question) agent-q-provider-list--questions)
    (when function
      (funcall function event))))

(agent-q-events-subscribe :models #'agent-q-provider-models)

(defun agent-q-provider-list-ask (provider callback)
  "Ask the host of PROVIDER, an alist, for its models.
CALLBACK gets the event, with :models and :limits, or with :stage and :problem."
  (agent-q-events-ensure)
  (puthash (agent-q-core-models (agent-q-json-serialize provider)) callback
           agent-q-provider-list--questions))

(defun agent-q-provider-list--ask-for-models (provider)
  "Have the host of PROVIDER asked for its models, for the next choice."
  (let ((url (alist-get 'base_url provider)))
    (agent-q-provider-list-ask
     provider
     (lambda (event)
       (when (plist-get event :models)
         (setf (alist-get url agent-q-provider-list--listed nil nil #'equal)
               (plist-get event :models))
         (agent-q-provider-note-limits url event))))))

(defun agent-q-provider-list--ask-hosts ()
  "Ask the hosts that have a key for their models, and wait for them a moment.
What comes later is there the next time."
  (agent-q-events-ensure)
  (let ((asked 0)
        (deadline (time-add nil 2)))
    (dolist (provider (append (agent-q-provider-list--hosts)
                              (and (consp agent-q-provider)
                                   (list (agent-q-provider-of-setting agent-q-provider)))))
      (unless (assoc (alist-get 'base_url provider) agent-q-provider-list--listed)
        (agent-q-provider-list--ask-for-models provider)
        (setq asked (1+ asked))))
    (unless (zerop asked)
      (while (and (> (hash-table-count agent-q-provider-list--questions) 0)
                  (time-less-p nil deadline))
        (accept-process-output nil 0.05)))))

(defun agent-q-provider-list--usable-p (properties)
  "Whether the host of PROPERTIES needs no key or has one that is found unasked."
  (or (not (plist-get properties :environment))
      (agent-q-provider-key-source properties)))

(defun agent-q-provider-list--hosts ()
  "Return the providers of `agent-q-providers' that need no key or have theirs.
A key counts that is found without asking."
  (delq nil
        (mapcar (pcase-lambda (`(,name . ,properties))
                  (and (agent-q-provider-list--usable-p properties)
                       (agent-q-provider-make (symbol-name name) properties nil
                                               (agent-q-provider-key-find properties))))
                agent-q-providers)))

(defun agent-q-provider-list--models-of (properties)
  "Return the models of the host of PROPERTIES, its default first.
What the host does not list is taken from what is known of it."
  (let ((own (plist-get properties :model))
        (url (plist-get properties :base-url)))
    (delete-dups
     (append (and own (list own))
             (mapcar #'car (plist-get properties :models))
             (or (cdr (assoc url agent-q-provider-list--listed))
                 (agent-q-facts-models url))))))

;;;; Switching

(defun agent-q-provider-list--discover-now ()
  "Return the model servers on this machine, waiting for them a moment."
  (let ((servers 'none-yet)
        (deadline (time-add nil 2)))
    (agent-q-provider-discover (lambda (found) (setq servers found)))
    (while (and (eq servers 'none-yet) (time-less-p nil deadline))
      (accept-process-output nil 0.05))
    (if (eq servers 'none-yet) nil servers)))

(defun agent-q-provider-list--candidate (name model properties)
  "Return the text of the choice of MODEL at the provider NAME of PROPERTIES.
Its property `agent-q-facts' is what is known of the model."
  (propertize (format "%s: %s" name model)
              'agent-q-facts
              (agent-q-facts-of (plist-get properties :base-url) model
                                ;; A server's :models are only names.
                                (and (consp (car (plist-get properties :models)))
                                     (agent-q-provider-of-model properties model)))))

(defun agent-q-provider-read (candidates)
  "Read one of CANDIDATES, from `agent-q-provider-candidates'.
Beside each stands what is known of its model."
  (let ((width (apply #'max (mapcar (lambda (candidate) (length (car candidate))) candidates)))
        ;; A model's name stands behind its host's.
        (completion-styles (append completion-styles '(substring))))
    (completing-read
     (format "Model (%s): " (caar candidates))
     (lambda (text predicate action)
       (if (eq action 'metadata)
           `(metadata
             (category . agent-q-model)
             ;; As they are: a host's default comes first.
             (display-sort-function . identity)
             (annotation-function
              . ,(lambda (choice)
                   (let ((summary (agent-q-facts-summary
                                   (get-text-property 0 'agent-q-facts
                                                      (or (car (assoc choice candidates)) " ")))))
                     (unless (string-empty-p summary)
                       (concat (make-string (max 2 (- (+ 2 width) (length choice))) ?\s)
                               summary))))))
         (complete-with-action action candidates text predicate)))
     ;; Hosts have models that they don't list, but more often it is a slip.
     nil 'confirm nil nil (caar candidates))))

(defun agent-q-provider-candidates ()
  "Return what the user can choose from, as an alist from text to function.
The function makes the provider, of the model that it is given or, for nil,
of the candidate's own."
  (let ((candidates nil))
    (agent-q-provider-list--ask-hosts)
    (pcase-dolist (`(,name . ,properties) agent-q-providers)
      (when (agent-q-provider-list--usable-p properties)
        (dolist (own (agent-q-provider-list--models-of properties))
          (push (cons (agent-q-provider-list--candidate name own properties)
                      (lambda (model)
                        (agent-q-provider-make (symbol-name name) properties (or model own)
                                                (agent-q-provider-key-find properties))))
                candidates))))
    (dolist (server (agent-q-provider-list--discover-now))
      (dolist (own (agent-q-provider-chat-models server))
        (push (cons (agent-q-provider-list--candidate (plist-get server :name) own server)
                    (lambda (model)
                      (agent-q-provider-of-server server (or model own))))
              candidates)))
    (when (consp agent-q-provider)
      (dolist (own (agent-q-provider-list--models-of agent-q-provider))
        (push (cons (agent-q-provider-list--candidate (agent-q-provider-name agent-q-provider) own
                                                 agent-q-provider)
                    (lambda (model)
                      (let ((agent-q-model (or model own)))
                        (agent-q-provider-of-setting agent-q-provider))))
              candidates)))
    (when agent-q-provider-demo
      (push (cons (format "%s: %s" agent-q-provider-demo-name
                          (alist-get 'model agent-q-provider-demo))
                  (lambda (_model) agent-q-provider-demo))
            candidates))
    (nreverse candidates)))

(defun agent-q-provider-chosen (choice candidates)
  "Return the provider for CHOICE, the text PROVIDER: MODEL, from CANDIDATES.
The model may be one that CANDIDATES don't list."
  (let* ((exact (assoc choice candidates))
         (colon (string-match ": *" choice))
         (model (and colon (substring choice (match-end 0))))
         (like (and colon
                    (seq-find (lambda (candidate)
                                (string-prefix-p (concat (substring choice 0 colon) ":")
                                                 (car candidate)))
                              candidates))))
    (cond (exact (funcall (cdr exact) nil))
          ((and like model (not (string-empty-p model))) (funcall (cdr like) model))
          (t (user-error "No provider \"%s\"; type it as PROVIDER: MODEL" choice)))))

(provide 'agent-q-provider-list)
;;; agent-q-provider-list.el ends here
