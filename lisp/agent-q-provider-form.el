;;; agent-q-provider-form.el --- What a provider may look like  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Checks the properties of a provider before the core gets them, so that a mistake is named by its
;; property.  Stands below `agent-q-provider.el'.

;;; Code:

(require 'cl-lib)
(require 'agent-q-json)
(require 'seq)

(defconst agent-q-provider-form-dialects
  '((chat-completions . "Chat Completions")
    (messages . "Anthropic's Messages")
    (responses . "OpenAI's Responses")
    (gemini . "Gemini")
    (ollama . "Ollama's own"))
  "The protocols that the core speaks, each with its name for people.")

(defconst agent-q-provider-form-efforts '(none minimal low medium high xhigh max)
  "The levels of effort that can be asked of a model.")

(defun agent-q-provider-form-strings-p (value)
  "Whether VALUE is a property list of strings."
  (and (proper-list-p value)
       (cl-evenp (length value))
       (cl-loop for (name text) on value by #'cddr
                always (and name (symbolp name) (stringp text)))))

(defun agent-q-provider-form--fields-p (value)
  "Whether VALUE is a property list that JSON can hold."
  (and (proper-list-p value)
       (not (consp (car value)))
       (condition-case nil
           (stringp (agent-q-json-serialize (list (cons 'fields value))))
         (error nil))))

(defun agent-q-provider-form--dialect-p (value)
  "Whether VALUE is a dialect."
  (assq value agent-q-provider-form-dialects))

(defun agent-q-provider-form--effort-p (value)
  "Whether VALUE is an effort."
  (memq value agent-q-provider-form-efforts))

(defun agent-q-provider-form--prices-p (value)
  "Whether VALUE is a list of prices, of which those of a cache may be nil."
  (and (proper-list-p value)
       (<= 2 (length value) 4)
       (cl-every #'numberp (seq-take value 2))
       (cl-every (lambda (price) (or (null price) (numberp price))) value)))

(defun agent-q-provider-form--models-p (value)
  "Whether VALUE is an alist from names of models to property lists."
  (and (proper-list-p value)
       (cl-loop for model in value
                always (and (consp model)
                            (stringp (car model))
                            (proper-list-p (cdr model))
                            (cl-evenp (length (cdr model)))))))

(defconst agent-q-provider-form--of-models
  '((:dialect agent-q-provider-form--dialect-p
              "chat-completions, messages, responses, gemini or ollama")
    (:effort agent-q-provider-form--effort-p
             "none, minimal, low, medium, high, xhigh or max")
    (:body agent-q-provider-form--fields-p "a property list of JSON values")
    (:first-body agent-q-provider-form--fields-p "a property list of JSON values")
    (:headers agent-q-provider-form-strings-p
              "a property list of strings, such as (:X-Title \"agent-q\")"))
  "What a provider and one of its models may have, each with its check and form.")

(defconst agent-q-provider-form--facts
  '((:window natnump "a number of tokens")
    (:input natnump "a number of tokens")
    (:output natnump "a number of tokens")
    (:tools booleanp "t or nil")
    (:thinking booleanp "t or nil")
    (:vision booleanp "t or nil")
    (:prices agent-q-provider-form--prices-p
             "a list of prices: (INPUT OUTPUT CACHE-READ CACHE-WRITE)"))
  "What may be said of a model, each with its check and form.")

(defun agent-q-provider-form-check (name properties)
  "Signal a `user-error' if PROPERTIES of the provider NAME have a wrong form.
The values are not repeated, as each of them may be a secret."
  (agent-q-provider-form--check
   name properties
   `((:base-url stringp "a string")
     (:model stringp "a string")
     (:models agent-q-provider-form--models-p
              "a list of models, each (NAME . PROPERTIES)")
     ,@agent-q-provider-form--of-models))
  (pcase-dolist (`(,model . ,own) (plist-get properties :models))
    (agent-q-provider-form--check
     (format "%s (%s)" name model) own
     (append agent-q-provider-form--of-models agent-q-provider-form--facts))))

(defun agent-q-provider-form--check (name properties forms)
  "Signal a `user-error' if PROPERTIES of NAME don't have the FORMS."
  (pcase-dolist (`(,property ,fits ,form) forms)
    (let ((value (plist-get properties property)))
      (unless (or (null value) (funcall fits value))
        (user-error "The provider %s can't be used: its %s is not %s" name property form)))))

(provide 'agent-q-provider-form)
;;; agent-q-provider-form.el ends here
