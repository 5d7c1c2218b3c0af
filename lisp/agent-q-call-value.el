;;; agent-q-call-value.el --- Arguments of tool calls as texts  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A model's arguments are JSON of any length and depth; what is shown of them
;; is made without going through all of it.

;;; Code:

(require 'agent-q-json)
(require 'seq)

(defun agent-q-call-parse (arguments)
  "Return the JSON text ARGUMENTS, an object, as an alist with its order, or nil."
  (when (string-match-p "\\`[ \t\r\n]*{" arguments)
    (condition-case nil
        (agent-q-json-alist arguments)
      (agent-q-error nil))))

(defconst agent-q-call-value--depth 50
  "Depth to which a value is printed.")

(defun agent-q-call-value-string (value &optional limit)
  "Return VALUE, a part of parsed arguments, as a user would write it.
With LIMIT, no more than about as many characters of it."
  (pcase value
    ((pred stringp) (substring value 0 (and limit (min limit (length value)))))
    (:null "null")
    (:false "false")
    ('t "true")
    ((pred numberp) (number-to-string value))
    (_ (with-temp-buffer
         (catch 'agent-q-call-value--full
           (agent-q-call-value--insert value (or limit most-positive-fixnum) 0))
         (buffer-string)))))

(defun agent-q-call-value--insert (value limit depth)
  "Insert VALUE as JSON until the buffer is longer than LIMIT.
DEPTH says how deep it is in what is shown."
  (when (> (buffer-size) limit)
    (throw 'agent-q-call-value--full nil))
  (let ((separator ""))
    (cond ((and (> depth agent-q-call-value--depth) (or (consp value) (vectorp value)))
           (insert "..."))
          ((vectorp value)
           (insert "[")
           (seq-doseq (element value)
             (insert separator)
             (setq separator ",")
             (agent-q-call-value--insert element limit (1+ depth)))
           (insert "]"))
          ((listp value)
           (insert "{")
           (pcase-dolist (`(,name . ,member) value)
             (insert separator (agent-q-json-string (symbol-name name)) ":")
             (setq separator ",")
             (agent-q-call-value--insert member limit (1+ depth)))
           (insert "}"))
          ((stringp value)
           (insert (agent-q-json-string
                    (substring value 0 (min limit (length value))))))
          (t (insert (agent-q-call-value-string value))))))

(provide 'agent-q-call-value)
;;; agent-q-call-value.el ends here
