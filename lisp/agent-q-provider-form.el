;;; agent-q-provider-form.el --- What a provider may look like  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Checks the properties of a provider before the core gets them, so that a mistake is named by its
;; property.  Stands below `agent-q-provider.el'.

;;; Code:

(require 'cl-lib)
(require 'agent-q-json)

(defconst agent-q-provider-form-dialects
  '((chat-completions . "Chat Completions")
    (messages . "Anthropic's Messages")
    (responses . "OpenAI's Responses")
    (gemini . "Gemini")
    (ollama . "Ollama's own"))
  "The protocols that the core speaks, each with its name for people.")

(defconst agent-q-provider-form-efforts '(none minimal low medium high max)
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

(defun agent-q-provider-form-check (name properties)
  "Signal a `user-error' if PROPERTIES of the provider NAME have a wrong form.
The values are not repeated, as each of them may be a secret."
  (pcase-dolist (`(,property ,fits ,form)
                 '((:base-url stringp "a string")
                   (:model stringp "a string")
                   (:dialect agent-q-provider-form--dialect-p
                             "chat-completions, messages, responses, gemini or ollama")
                   (:effort agent-q-provider-form--effort-p
                            "none, minimal, low, medium, high or max")
                   (:body agent-q-provider-form--fields-p "a property list of JSON values")
                   (:first-body agent-q-provider-form--fields-p "a property list of JSON values")
                   (:headers agent-q-provider-form-strings-p
                             "a property list of strings, such as (:X-Title \"agent-q\")")))
    (let ((value (plist-get properties property)))
      (unless (or (null value) (funcall fits value))
        (user-error "The provider %s can't be used: its %s is not %s" name property form)))))

(provide 'agent-q-provider-form)
;;; agent-q-provider-form.el ends here
