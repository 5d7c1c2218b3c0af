;;; agent-q-model-facts.el --- What is known of models  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; How much each model takes, what it can do and what it costs.  That comes from a dated copy of the
;; catalogue of models.dev, agent-q-model-facts.eld, or from a newer one that the user fetched; from
;; what a host says of its own models; and from what the user says in `agent-q-providers'.
;;
;; The facts of a model are a property list.  What is not known is not in it:
;; :window   tokens of a request and its reply together
;; :input    tokens of a request, where that is less
;; :output   tokens of a reply
;; :tools, :thinking, :vision   whether it can call tools, thinks, takes images
;; :prices   US dollars for a million tokens: (INPUT OUTPUT CACHE-READ CACHE-WRITE)
;; :tiers    prices of long requests, each (TOKENS INPUT OUTPUT CACHE-READ CACHE-WRITE)
;; :status   `beta' or `deprecated'

;;; Code:

(require 'agent-q-json)
(require 'agent-q-module)
(require 'cl-lib)
(require 'parse-time)
(require 'seq)
(require 'subr-x)
(require 'time-date)
(require 'url)

(defcustom agent-q-model-facts-file (locate-user-emacs-file "agent-q/model-facts.eld")
  "File for the facts of models that \\[agent-q-model-facts-refresh] fetches."
  :type 'file
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-model-facts-address "https://models.dev/api.json"
  "Where the catalogue of models.dev is.")

(defconst agent-q-model-facts-hosts
  '(("openai" "api.openai.com")
    ("anthropic" "api.anthropic.com")
    ("google" "generativelanguage.googleapis.com")
    ("openrouter" "openrouter.ai")
    ("deepseek" "api.deepseek.com")
    ("mistral" "api.mistral.ai")
    ("groq" "api.groq.com")
    ("xai" "api.x.ai")
    ("togetherai" "api.together.xyz" "api.together.ai")
    ("cerebras" "api.cerebras.ai")
    ("moonshotai" "api.moonshot.ai")
    ("zai" "api.z.ai")
    ("alibaba" "dashscope-intl.aliyuncs.com" "dashscope.aliyuncs.com")
    ("fireworks-ai" "api.fireworks.ai")
    ("azure" ".azure.com")
    ("ollama-cloud" "ollama.com"))
  "The providers of the catalogue that are kept, each with its hosts.
A host that begins with a dot stands for all below it.")

(defvar agent-q-model-facts--table nil
  "The facts that were read, as (DATE . TABLE), or nil.
TABLE goes from (PROVIDER . MODEL) to property lists.")

(defvar agent-q-model-facts--listed (make-hash-table :test #'equal)
  "What hosts said of their models, from (BASE-URL . MODEL) to property lists.")

;;;; The table

(defun agent-q-model-facts--read (file)
  "Return the contents of FILE, (:date DATE :providers LIST), or nil."
  (condition-case nil
      (with-temp-buffer
        (let ((coding-system-for-read 'utf-8))
          (insert-file-contents file))
        (let ((form (read (current-buffer))))
          (and (stringp (plist-get form :date))
               (proper-list-p (plist-get form :providers))
               form)))
    (error nil)))

(defun agent-q-model-facts--newest ()
  "Return the newer one of the two files' contents."
  (let ((shipped (agent-q-model-facts--read
                  (expand-file-name "agent-q-model-facts.eld" agent-q-module-directory)))
        (fetched (agent-q-model-facts--read agent-q-model-facts-file)))
    (if (and fetched shipped
             (string-lessp (plist-get fetched :date) (plist-get shipped :date)))
        shipped
      (or fetched shipped))))

(defun agent-q-model-facts--load ()
  "Return the facts, which are read when they are first wanted."
  (or agent-q-model-facts--table
      (let ((form (agent-q-model-facts--newest))
            (table (make-hash-table :test #'equal)))
        (pcase-dolist (`(,provider . ,models) (plist-get form :providers))
          (pcase-dolist (`(,model . ,facts) models)
            (puthash (cons provider model) facts table)))
        (setq agent-q-model-facts--table (cons (plist-get form :date) table)))))

(defun agent-q-model-facts-date ()
  "Return the date of the facts, such as \"2026-08-18\", or nil if there are none."
  (car (agent-q-model-facts--load)))

;;;; What is missing

(defconst agent-q-model-facts--days 61
  "Days after which facts count as old.")

(defvar agent-q-model-facts--told nil
  "The hints that were given in this Emacs, each (HINT . BUFFER).")

(defun agent-q-model-facts-old-p ()
  "Whether the facts are older than two months, or missing."
  (let ((date (agent-q-model-facts-date)))
    (or (null date)
        (time-less-p (time-add (date-to-time (concat date "T00:00:00Z"))
                               (days-to-time agent-q-model-facts--days))
                     nil))))

(defun agent-q-model-facts--hint (url model window)
  "Return what the user of MODEL at URL may want to know of its facts, or nil.
WINDOW is its window, as far as it is known."
  (cond ((not (agent-q-model-facts--provider url))
         (and (null window)
              "window not known: set it in :models of its host in `agent-q-providers'"))
        ((null window)
         (format "%s is not in the facts of %s: M-x agent-q-model-facts-refresh"
                 model (or (agent-q-model-facts-date) "models, which are missing")))
        ((agent-q-model-facts-old-p)
         (format "facts of %s: M-x agent-q-model-facts-refresh fetches newer ones"
                 (agent-q-model-facts-date)))))

(defun agent-q-model-facts-hint (url model window)
  "Return a hint about the facts of MODEL at URL, or nil.
WINDOW is its window, as far as it is known.  Each hint is given in one
buffer."
  (when-let ((hint (agent-q-model-facts--hint url model window)))
    (let ((told (or (assoc hint agent-q-model-facts--told)
                    (car (push (cons hint (current-buffer)) agent-q-model-facts--told)))))
      (and (eq (cdr told) (current-buffer)) hint))))

(defun agent-q-model-facts-missing (form hosts)
  "Return those of HOSTS whose default model FORM does not have, or has as retired.
FORM is as `agent-q-model-facts-trim' makes it, HOSTS as `agent-q-providers';
hosts that the catalogue doesn't have are passed over."
  (seq-filter
   (pcase-lambda (`(,_ . ,properties))
     (when-let ((provider (agent-q-model-facts--provider (plist-get properties :base-url))))
       (let ((facts (cdr (assoc (plist-get properties :model)
                                (cdr (assoc provider (plist-get form :providers)))))))
         (or (null facts) (eq (plist-get facts :status) 'deprecated)))))
   hosts))

;;;; Looking up

(defun agent-q-model-facts--provider (url)
  "Return the provider of the catalogue that is at URL, a base URL, or nil."
  (let ((host (url-host (url-generic-parse-url (downcase url)))))
    (and host
         (car (seq-find
               (lambda (provider)
                 (seq-some (lambda (known)
                             (if (string-prefix-p "." known) (string-suffix-p known host)
                               (equal known host)))
                           (cdr provider)))
               agent-q-model-facts-hosts)))))

(defun agent-q-model-facts--known (url model)
  "Return the facts of MODEL at URL in the catalogue, or nil."
  (let ((provider (agent-q-model-facts--provider url))
        (table (cdr (agent-q-model-facts--load))))
    (and provider
         (or (gethash (cons provider model) table)
             ;; A dated version, which the catalogue has under its plain name.
             (let ((plain (replace-regexp-in-string
                           "\\(?:-latest\\|-[0-9]\\{8\\}\\|-[0-9]\\{4\\}-[0-9][0-9]-[0-9][0-9]\\)\\'"
                           "" model)))
               (gethash (cons provider plain) table))
             ;; A way of serving that may cost something else.
             (let ((facts (gethash (cons provider (car (split-string model ":"))) table)))
               (agent-q-model-facts--without '(:prices :tiers) facts))))))

(defun agent-q-model-facts-models (url)
  "Return the models that the catalogue has at base URL, but no retired ones."
  (let ((provider (agent-q-model-facts--provider url))
        (models nil))
    (when provider
      (maphash (lambda (key facts)
                 (when (and (equal (car key) provider)
                            (not (eq (plist-get facts :status) 'deprecated)))
                   (push (cdr key) models)))
               (cdr (agent-q-model-facts--load))))
    (sort models #'string-lessp)))

(defun agent-q-model-facts--without (properties facts)
  "Return FACTS without PROPERTIES."
  (cl-loop for (name value) on facts by #'cddr
           unless (memq name properties) append (list name value)))

(defconst agent-q-model-facts-free '(0 0)
  "The prices of a model that costs nothing, as one on this machine.")

(defun agent-q-model-facts--merge (facts more)
  "Return FACTS with MORE, which wins."
  (append (agent-q-model-facts--without (cl-loop for (name) on more by #'cddr collect name) facts)
          more))

(defconst agent-q-model-facts-names
  '(:window :input :output :tools :thinking :vision :prices :tiers :status)
  "What can be known of a model.")

(defun agent-q-model-facts-of (url model &optional overrides)
  "Return the facts of MODEL at URL, the base URL of its API.
OVERRIDES is a property list that wins; properties that are no facts do not
matter.  No limit is more than what the host itself said."
  (let* ((listed (gethash (cons (string-remove-suffix "/" url) model) agent-q-model-facts--listed))
         (own (cl-loop for (name value) on overrides by #'cddr
                       when (memq name agent-q-model-facts-names) append (list name value)))
         (facts (agent-q-model-facts--merge
                 (agent-q-model-facts--merge (agent-q-model-facts--known url model) listed) own)))
    (dolist (limit '(:window :input :output) facts)
      (let ((most (plist-get listed limit))
            (wanted (plist-get own limit)))
        (when (and most wanted)
          (setq facts (plist-put facts limit (min most wanted))))))))

(defun agent-q-model-facts-note (url model facts)
  "Note that the host at URL said FACTS of MODEL."
  (puthash (cons (string-remove-suffix "/" url) model) facts agent-q-model-facts--listed))

;;;; For the core

(defun agent-q-model-facts--price-json (prices)
  "Return PRICES, a list as in `:prices', as an alist for JSON."
  (cl-loop for price in prices
           for name in '(input output cache_read cache_write)
           when price collect (cons name price)))

(defun agent-q-model-facts-json (facts)
  "Return FACTS as an alist for JSON, or nil if nothing is known."
  (append
   (cl-loop for (name . key) in '((:window . context_window) (:input . max_input)
                                  (:output . max_output))
            for number = (plist-get facts name)
            when number collect (cons key number))
   (cl-loop for (name . key) in '((:tools . tools) (:thinking . thinking) (:vision . vision))
            when (plist-member facts name)
            collect (cons key (if (plist-get facts name) t :false)))
   (let ((prices (plist-get facts :prices)))
     (and prices `((prices . ,(agent-q-model-facts--price-json prices)))))
   (let ((tiers (plist-get facts :tiers)))
     (and tiers
          `((tiers . ,(vconcat
                       (mapcar (lambda (tier)
                                 `((above . ,(car tier))
                                   (prices . ,(agent-q-model-facts--price-json (cdr tier)))))
                               tiers))))))))

;;;; For people

(defun agent-q-model-facts-tokens (count)
  "Return COUNT tokens as a short text, such as 128k or 1.05M."
  (cond ((< count 1000) (number-to-string count))
        ((< count 1000000) (format "%dk" (round count 1000)))
        (t (concat (string-remove-suffix
                    "." (string-trim-right (format "%.2f" (/ count 1e6)) "0+"))
                   "M"))))

(defun agent-q-model-facts-summary (facts)
  "Return FACTS as a short text for a list of models; empty if nothing is known."
  (let ((prices (plist-get facts :prices)))
    (string-join
     (delq nil
           (list
            (and (plist-get facts :window)
                 (concat (agent-q-model-facts-tokens (plist-get facts :window)) " window"))
            (and prices (format "$%s in, $%s out" (agent-q-model-facts--price (nth 0 prices))
                                (agent-q-model-facts--price (nth 1 prices))))
            (and (plist-get facts :thinking) "thinks")
            (and (plist-member facts :tools) (not (plist-get facts :tools)) "no tools")
            (and (plist-get facts :status) (symbol-name (plist-get facts :status)))))
     ", ")))

(defun agent-q-model-facts--price (number)
  "Return NUMBER, a price, without needless digits."
  (let ((text (format "%.3f" number)))
    (string-remove-suffix "." (string-trim-right text "0+"))))

;;;; Making the table from the catalogue

(defun agent-q-model-facts-trim (catalogue date)
  "Return what the table of DATE has of CATALOGUE, what models.dev serves.
CATALOGUE is of hash tables, as `agent-q-json-parse' makes them."
  (list :date date
        :providers
        (cl-loop for (provider) in agent-q-model-facts-hosts
                 for models = (agent-q-model-facts--get catalogue provider "models")
                 when models collect (cons provider (agent-q-model-facts--trim-models models)))))

(defun agent-q-model-facts--get (object &rest path)
  "Return what is in OBJECT, a hash table, at PATH, or nil."
  (dolist (name path)
    (setq object (and (hash-table-p object) (gethash name object))))
  (if (memq object '(:null :false)) nil object))

(defun agent-q-model-facts--trim-models (models)
  "Return the rows of MODELS, a table from names to models that write text."
  (sort (cl-loop for name being the hash-keys of models using (hash-values model)
                 when (and (seq-contains-p (agent-q-model-facts--get model "modalities" "output") "text")
                           ;; Some that only write texts besides their pictures have none.
                           (> (or (agent-q-model-facts--get model "limit" "context") 0) 0))
                 collect (cons name (agent-q-model-facts--trim-model model)))
        (lambda (one other) (string-lessp (car one) (car other)))))

(defun agent-q-model-facts--trim-model (model)
  "Return the facts of MODEL, one of the catalogue."
  (let ((count (lambda (&rest path)
                 (let ((number (apply #'agent-q-model-facts--get model path)))
                   (and (numberp number) (> number 0) (truncate number)))))
        (cost (agent-q-model-facts--get model "cost"))
        (status (agent-q-model-facts--get model "status")))
    (append
     (cl-loop with window = (funcall count "limit" "context")
              for (property . field) in '((:window . "context") (:input . "input")
                                          (:output . "output"))
              for number = (funcall count "limit" field)
              ;; A limit as large as the window is none: nobody looked it up.
              when (and number (or (eq property :window) (null window) (< number window)))
              append (list property number))
     (list :tools (and (agent-q-model-facts--get model "tool_call") t)
           :thinking (and (agent-q-model-facts--get model "reasoning") t)
           :vision (and (seq-contains-p (agent-q-model-facts--get model "modalities" "input") "image")
                        t))
     (and cost (list :prices (agent-q-model-facts--trim-prices cost)))
     (let ((tiers (agent-q-model-facts--trim-tiers cost)))
       (and tiers (list :tiers tiers)))
     (and (member status '("beta" "deprecated")) (list :status (intern status))))))

(defun agent-q-model-facts--trim-prices (cost)
  "Return the prices in COST, an object of the catalogue."
  (mapcar (lambda (field) (agent-q-model-facts--get cost field))
          '("input" "output" "cache_read" "cache_write")))

(defun agent-q-model-facts--trim-tiers (cost)
  "Return the tiers in COST, an object of the catalogue or nil."
  (let ((tiers (seq-filter (lambda (tier) (agent-q-model-facts--get tier "tier" "size"))
                           (agent-q-model-facts--get cost "tiers")))
        (long (agent-q-model-facts--get cost "context_over_200k")))
    (cond (tiers (mapcar (lambda (tier)
                           (cons (agent-q-model-facts--get tier "tier" "size")
                                 (agent-q-model-facts--trim-prices tier)))
                         tiers))
          (long (list (cons 200000 (agent-q-model-facts--trim-prices long)))))))

(defconst agent-q-model-facts--notice
  "SPDX-License-Identifier: MIT
Copyright (c) 2025 models.dev

Permission is hereby granted, free of charge, to any person obtaining a copy of
this software and associated documentation files (the \"Software\"), to deal in
the Software without restriction, including without limitation the rights to
use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
the Software, and to permit persons to whom the Software is furnished to do so,
subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS
FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."
  "The licence of the catalogue.")

(defun agent-q-model-facts-write (form file)
  "Write FORM, which `agent-q-model-facts-trim' made, to FILE."
  (make-directory (file-name-directory file) t)
  (with-temp-file file
    (let ((coding-system-for-write 'utf-8)
          (print-length nil) (print-level nil))
      (insert ";; What is known of models: a part of the catalogue of models.dev.  -*- lisp-data -*-\n;;\n"
              (replace-regexp-in-string "^" ";; " agent-q-model-facts--notice)
              "\n(:date ")
      (prin1 (plist-get form :date) (current-buffer))
      (insert "\n :providers\n (")
      (pcase-dolist (`(,provider . ,models) (plist-get form :providers))
        (insert "(")
        (prin1 provider (current-buffer))
        (dolist (model models)
          (insert "\n   ")
          (prin1 model (current-buffer)))
        (insert ")\n  "))
      (insert "))\n"))))

;;;; Fetching the catalogue

;;;###autoload
(defun agent-q-model-facts-refresh ()
  "Fetch what is known of models: windows, prices, abilities.
It comes from models.dev; nothing of yours is sent there.  Open chats use it
when you next choose their model."
  (interactive)
  (message "Fetching %s..." agent-q-model-facts-address)
  (let ((url-request-extra-headers nil))
    (url-retrieve agent-q-model-facts-address #'agent-q-model-facts--fetched nil t t)))

(defun agent-q-model-facts--fetched (status)
  "Take in the catalogue in the current buffer; STATUS is as for `url-retrieve'."
  (let ((buffer (current-buffer)))
    (unwind-protect
        (message "%s" (agent-q-model-facts--take status))
      (kill-buffer buffer))))

(defun agent-q-model-facts--take (status)
  "Take in the answer in the current buffer and return a sentence about it.
STATUS is as for `url-retrieve'."
  (condition-case failure
      (progn
        (when (plist-get status :error)
          (error "%s" (error-message-string (plist-get status :error))))
        (goto-char (point-min))
        (unless (re-search-forward "\n\r?\n" nil t)
          (error "The response is empty"))
        (let* ((text (decode-coding-string
                      (buffer-substring-no-properties (point) (point-max)) 'utf-8))
               (form (agent-q-model-facts-trim (agent-q-json-parse text)
                                               (format-time-string "%F")))
               (count (seq-reduce (lambda (sum models) (+ sum (length (cdr models))))
                                  (plist-get form :providers) 0)))
          (when (zerop count)
            (error "The response is not a model catalogue"))
          (agent-q-model-facts-write form agent-q-model-facts-file)
          (setq agent-q-model-facts--table nil)
          (format "agent-q: %d models are known now, in %s" count
                  (abbreviate-file-name agent-q-model-facts-file))))
    (error (format "agent-q: %s could not be used (%s); the facts of models stay as they were"
                   agent-q-model-facts-address (error-message-string failure)))))

(provide 'agent-q-model-facts)
;;; agent-q-model-facts.el ends here
