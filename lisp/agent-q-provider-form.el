;;; agent-q-provider-form.el --- What a provider may look like  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Checks the properties of a provider before the core gets them, so that a mistake is named by its
;; property.

;;; Code:

(require 'agent-q-json)
(require 'cl-lib)
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
       (cl-notany #'null (seq-take value 2))
       (cl-every (lambda (price) (or (null price) (and (numberp price) (<= 0 price)))) value)))

(defun agent-q-provider-form--tokens-p (value)
  "Whether VALUE is a limit in tokens, small enough for the core."
  (and (natnump value) (<= 1 value most-positive-fixnum)))

(defun agent-q-provider-form--models-p (value)
  "Whether VALUE is an alist from names of models to property lists."
  (and (proper-list-p value)
       (cl-loop for model in value
                always (and (consp model)
                            (stringp (car model))
                            (proper-list-p (cdr model))
                            (cl-evenp (length (cdr model)))))))

(defun agent-q-provider-form--file-p (value)
  "Whether VALUE names a file on this machine that can be read."
  (and (stringp value)
       (not (file-remote-p value))
       (file-readable-p value)))

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
  '((:window agent-q-provider-form--tokens-p "a number of tokens")
    (:input agent-q-provider-form--tokens-p "a number of tokens")
    (:output agent-q-provider-form--tokens-p "a number of tokens")
    (:tools booleanp "t or nil")
    (:thinking booleanp "t or nil")
    (:vision booleanp "t or nil")
    (:prices agent-q-provider-form--prices-p
             "a list of prices: (INPUT OUTPUT CACHE-READ CACHE-WRITE)"))
  "What may be said of a model, each with its check and form.")

(defconst agent-q-provider-form--of-hosts
  `((:name stringp "a string")
    (:base-url stringp "a string")
    (:model stringp "a string")
    (:environment stringp "the name of a variable, a string")
    ;; A function is called before; what it returns has to be a string.
    (:key always "")
    (:key-page stringp "the address of a page, a string")
    (:login stringp "a string")
    (:proxy stringp "the URL of a proxy, a string, or nil for none")
    (:ca-file agent-q-provider-form--file-p "the name of a file that is there")
    (:models agent-q-provider-form--models-p
             "a list of models, each (NAME . PROPERTIES)")
    ,@agent-q-provider-form--of-models)
  "What a provider may have, each with its check and form.")

(defun agent-q-provider-form-check (name properties)
  "Signal a `user-error' if PROPERTIES of the provider NAME have a wrong form.
The values are not repeated, as each of them may be a secret."
  (agent-q-provider-form--check name properties agent-q-provider-form--of-hosts)
  (pcase-dolist (`(,model . ,own) (plist-get properties :models))
    (agent-q-provider-form--check
     (format "%s (%s)" name model) own
     (append agent-q-provider-form--of-models agent-q-provider-form--facts))))

(defun agent-q-provider-form--check (name properties forms)
  "Signal a `user-error' if PROPERTIES of NAME don't have the FORMS."
  (let ((wrong (apply-partially #'user-error "The provider %s can't be used: %s" name)))
    (unless (and (proper-list-p properties) (cl-evenp (length properties)))
      (funcall wrong "it is not a property list"))
    (cl-loop for (property) on properties by #'cddr
             unless (assq property forms)
             do (funcall wrong (agent-q-provider-form--unknown property forms)))
    (pcase-dolist (`(,property ,fits ,form) forms)
      (let ((value (plist-get properties property)))
        (unless (or (null value) (funcall fits value))
          (funcall wrong (format "its %s is not %s" property form)))))))

(defun agent-q-provider-form--unknown (property forms)
  "Return what to say of PROPERTY, which is not among FORMS."
  (cond ((assq property agent-q-provider-form--facts)
         (format "%s is of a model, and belongs in its :models" property))
        ((assq property agent-q-provider-form--of-hosts)
         (format "%s is of the provider, not of one of its models" property))
        (t (concat (agent-q-provider-form--name property)
                   " is not one of its properties, which are "
                   (mapconcat (lambda (form) (symbol-name (car form))) forms ", ")))))

(defun agent-q-provider-form--name (property)
  "Return the name of PROPERTY.
Anything but a keyword may be a value in the wrong place, and isn't repeated."
  (if (keywordp property)
      (symbol-name property)
    "something in it"))

(provide 'agent-q-provider-form)
;;; agent-q-provider-form.el ends here
