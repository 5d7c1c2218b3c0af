;;; agent-q-json.el --- JSON values in Lisp  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What JSON is in agent-q's Emacs Lisp interface: what `json-parse-string'
;; makes of it by default, namely hash tables with strings as keys, vectors,
;; strings, numbers, t, `:false' and `:null'.  So the empty object is an empty
;; hash table and the empty array is [].
;;
;; Where a program hands values in, more is understood.  A property list and
;; an association list are objects; any other list is an array; a symbol is its
;; name; nil is null, which counts as left out for an optional parameter.

;;; Code:

(require 'agent-q)
(require 'json)

(define-error 'agent-q-error "agent-q")
(define-error 'agent-q-invalid-tool "This is no valid tool" 'agent-q-error)
(define-error 'agent-q-invalid-arguments "The arguments do not fit" 'agent-q-error)
(define-error 'agent-q-gram-error "This gram text is not understood" 'agent-q-error)

;;;; Into JSON

(defun agent-q-json-encode (value)
  "Return VALUE as JSON text.
Signal `agent-q-error' when a part of it is nothing that JSON can hold."
  (agent-q-json-serialize (agent-q-json-value value)))

(defun agent-q-json-serialize (value)
  "Return VALUE, which is as `json-serialize' wants it, as JSON text."
  (if (fboundp 'json-serialize)
      ;; Since Emacs 30 it returns bytes.
      (agent-q-json--decoded (json-serialize value))
    (let ((json-null :null) (json-false :false))
      (json-encode value))))

(defun agent-q-json-value (value)
  "Return VALUE with all its parts as `json-parse-string' would give them."
  (cond ((null value) :null)
        ((memq value '(t :null :false)) value)
        ((stringp value) (agent-q-json-text value))
        ((numberp value) value)
        ((symbolp value) (agent-q-json--key value))
        ((hash-table-p value) (agent-q-json--object value))
        ((vectorp value) (apply #'vector (mapcar #'agent-q-json-value value)))
        ((or (agent-q-json-plist-p value) (agent-q-json--alist-p value))
         (agent-q-json--object value))
        ((proper-list-p value)
         (apply #'vector (mapcar #'agent-q-json-value value)))
        (t (signal 'agent-q-error
                   (list (format "JSON can't hold a %s" (type-of value)))))))

(defun agent-q-json-object (value)
  "Return VALUE, which has to be an object, as a hash table.
VALUE is a hash table, a property list, an association list or JSON text;
nil is the empty object.  Signal `agent-q-invalid-arguments' for the rest."
  (let ((object (cond ((null value) (agent-q-json-empty-object))
                      ((stringp value) (agent-q-json-parse value))
                      (t (agent-q-json-value value)))))
    (unless (hash-table-p object)
      (signal 'agent-q-invalid-arguments (list "Arguments must be an object")))
    object))

(defun agent-q-json-empty-object ()
  "Return a new empty object, which is a hash table with strings as keys."
  (make-hash-table :test #'equal))

(defun agent-q-json-text (text)
  "Return TEXT without properties and without what UTF-8 can't hold."
  (let ((text (substring-no-properties text)))
    (if (agent-q-json--ascii-p text)
        text
      (agent-q--clean (agent-q-json--decoded text)))))

(defun agent-q-json--ascii-p (text)
  "Whether TEXT has nothing but ASCII characters, which need no care."
  (not (string-match-p "[^[:ascii:]]" text)))

(defun agent-q-json--decoded (text)
  "Return TEXT, decoded when it is a string of bytes."
  (if (or (multibyte-string-p text) (agent-q-json--ascii-p text))
      text
    (decode-coding-string text 'utf-8-unix)))

(defun agent-q-json-plist-p (value)
  "Whether VALUE is a property list with keywords, and not empty."
  (and (consp value)
       (let ((length (proper-list-p value))
             (rest value)
             (fits t))
         (and length (zerop (% length 2))
              (progn
                (while (and fits rest)
                  (setq fits (keywordp (car rest))
                        rest (cddr rest)))
                fits)))))

(defun agent-q-json--alist-p (value)
  "Whether VALUE is an association list from strings or symbols, and not empty.
Lists that begin with a keyword are property lists, so a list of them isn't."
  (and (consp value)
       (proper-list-p value)
       (not (memq nil (mapcar (lambda (entry)
                                (and (consp entry)
                                     (or (stringp (car entry))
                                         (and (symbolp (car entry))
                                              (car entry)
                                              (not (keywordp (car entry)))))))
                              value)))))

(defun agent-q-json--key (key)
  "Return the name of the JSON member that KEY, a string or symbol, stands for."
  (cond ((stringp key) (agent-q-json-text key))
        ((keywordp key) (substring (symbol-name key) 1))
        ((symbolp key) (symbol-name key))
        (t (signal 'agent-q-error
                   (list (format "%S is no name of a JSON member" key))))))

(defun agent-q-json--object (value)
  "Return VALUE, an object in one of its shapes, as a hash table."
  (let ((object (agent-q-json-empty-object)))
    (agent-q-json--each
     (lambda (key member)
       (let ((key (agent-q-json--key key)))
         ;; As in the lists themselves, the first of two members counts.
         (unless (gethash key object)
           (puthash key (agent-q-json-value member) object))))
     value)
    object))

(defun agent-q-json--each (function object)
  "Call FUNCTION with the key and the value of each member of OBJECT."
  (cond ((hash-table-p object) (maphash function object))
        ((keywordp (car object))
         (while object
           (funcall function (pop object) (pop object))))
        (t (dolist (entry object)
             (funcall function (car entry) (cdr entry))))))

;;;; Out of JSON

(defun agent-q-json-parse (text)
  "Return the value of TEXT, JSON; signal `agent-q-error' when it isn't any."
  (condition-case failure
      (if (fboundp 'json-parse-string)
          (json-parse-string text)
        (let ((json-object-type 'hash-table) (json-array-type 'vector)
              (json-key-type 'string) (json-null :null) (json-false :false))
          (json-read-from-string text)))
    (error
     (signal 'agent-q-error
             (list (format "This is not JSON (%s)" (error-message-string failure)))))))

(defun agent-q-json-plist (value)
  "Return VALUE, a JSON value, with lists in it.
Objects are property lists with keywords, arrays are lists.  An empty
object is an empty hash table, since nil would be the empty array."
  (cond ((hash-table-p value)
         (if (zerop (hash-table-count value))
             (agent-q-json-empty-object)
           (let ((plist nil))
             (maphash (lambda (key member)
                        (push (intern (concat ":" key)) plist)
                        (push (agent-q-json-plist member) plist))
                      value)
             (nreverse plist))))
        ((vectorp value) (mapcar #'agent-q-json-plist value))
        (t value)))

(provide 'agent-q-json)
;;; agent-q-json.el ends here
