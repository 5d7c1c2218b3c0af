;;; agent-q-json.el --- JSON values in Lisp, and as text  -*- lexical-binding: t; -*-

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
;;
;; Here are also the checks of what comes in, with the errors of agent-q-module.el.

;;; Code:

(require 'agent-q-module)
(require 'agent-q-text)
(require 'cl-lib)
(require 'json)
(require 'seq)

;;;; JSON values in Lisp

(defun agent-q-json-invalid-tool (format &rest arguments)
  "Signal `agent-q-invalid-tool' with a sentence made of FORMAT and ARGUMENTS."
  (signal 'agent-q-invalid-tool (list (apply #'format format arguments))))

(defun agent-q-json-expect (predicate value what kind)
  "Return VALUE if PREDICATE is true of it, else signal `agent-q-error'.
WHAT names VALUE in the error, KIND says what it has to be."
  (unless (funcall predicate value)
    (let ((print-length 5) (print-level 3))
      (signal 'agent-q-error (list (format "%s has to be %s, not %S" what kind value)))))
  value)

(defun agent-q-json-expect-text (value what)
  "Return VALUE, which WHAT names and which has to be a string, as clean text."
  (agent-q-json-text (agent-q-json-expect #'stringp value what "a string")))

;;;;; Into JSON

(defmacro agent-q-json--guarded (&rest body)
  "Evaluate BODY, which writes JSON; all its errors are `agent-q-error'."
  (declare (indent 0) (debug t))
  `(condition-case failure
       (progn ,@body)
     (agent-q-error (signal (car failure) (cdr failure)))
     ;; Such as a value that holds itself.
     (error (signal 'agent-q-error
                    (list (format "JSON can't hold this value (%s)"
                                  (error-message-string failure)))))))

;;;###autoload
(defun agent-q-json-encode (value)
  "Return VALUE as JSON text.
Signal `agent-q-error' when a part of it is nothing that JSON can hold."
  (agent-q-json--guarded
    (agent-q-json-serialize (agent-q-json-value value))))

(defun agent-q-json-encode-object (value)
  "Return VALUE, an object as in `agent-q-json-object', as JSON text.
Signal `agent-q-error' when a part of it is nothing that JSON can hold."
  (agent-q-json--guarded
    (agent-q-json-serialize (agent-q-json-object value))))

(defconst agent-q-json--greatest-signed (1- (expt 2 63))
  "The greatest integer that all versions of Emacs write into JSON in C.")

(defun agent-q-json-serialize (value)
  "Return VALUE, which is as `json-serialize' wants it, as JSON text."
  (if (not (fboundp 'json-serialize))
      (agent-q-json--write value)
    (condition-case failure
        ;; Since Emacs 30 it returns bytes.
        (agent-q-json--decoded (json-serialize value))
      (error (if (agent-q-json--wide-p value)
                 (agent-q-json--write value)
               (signal (car failure) (cdr failure)))))))

(defun agent-q-json-string (text)
  "Return TEXT, a string, as JSON text."
  (json-encode-string text))

(defun agent-q-json-pretty (value)
  "Return VALUE, as in `agent-q-json-encode', as JSON text over several lines."
  (with-temp-buffer
    (insert (agent-q-json-encode value))
    (json-pretty-print-buffer)
    (buffer-string)))

(defun agent-q-json--write (value)
  "Return VALUE as JSON text, written by Emacs Lisp, which is slow."
  (let ((json-null :null) (json-false :false) (json-encoding-pretty-print nil))
    (json-encode value)))

(defun agent-q-json--wide-p (value)
  "Whether VALUE has an integer that the writer in C doesn't take before Emacs 30."
  (cond ((integerp value) (> value agent-q-json--greatest-signed))
        ((vectorp value) (cl-some #'agent-q-json--wide-p value))
        ((hash-table-p value)
         (cl-some #'agent-q-json--wide-p (hash-table-values value)))))

(defun agent-q-json-value (value)
  "Return VALUE with all its parts as `json-parse-string' would give them."
  (cond ((null value) :null)
        ((memq value '(t :null :false)) value)
        ((stringp value) (agent-q-json-text value))
        ((numberp value) (agent-q-json--number value))
        ((symbolp value) (agent-q-json--key value))
        ((hash-table-p value) (agent-q-json--object value))
        ((vectorp value) (apply #'vector (mapcar #'agent-q-json-value value)))
        ((functionp value)
         (signal 'agent-q-error (list "JSON can't hold a function")))
        ((or (agent-q-json-plist-p value) (agent-q-json--alist-p value))
         (agent-q-json--object value))
        ((proper-list-p value)
         (apply #'vector (mapcar #'agent-q-json-value value)))
        (t (signal 'agent-q-error
                   (list (format "JSON can't hold a %s" (type-of value)))))))

(defconst agent-q-json--least-integer (- (expt 2 63))
  "The least integer that the core takes.")

(defconst agent-q-json--greatest-integer (1- (expt 2 64))
  "The greatest integer that the core takes.")

(defun agent-q-json--number (number)
  "Return NUMBER if JSON can hold it."
  (if (cond ((fixnump number))
            ((integerp number)
             (<= agent-q-json--least-integer number agent-q-json--greatest-integer))
            (t (and (not (isnan number)) (< (abs number) 1.0e+INF))))
      number
    (signal 'agent-q-error
            (list (format "JSON can't hold the number %s%s" number
                          (if (integerp number) ", which does not fit into 64 bits" ""))))))

(defun agent-q-json-object (value)
  "Return VALUE, which has to be an object, as a hash table.
VALUE is a hash table, a property list, an association list or JSON text;
nil is the empty object.  Signal `agent-q-invalid-arguments' for the rest."
  (let ((object (cond ((null value) (agent-q-json-empty-object))
                      ((stringp value) (agent-q-json-parse value))
                      ;; As only an object will do, ((:a 1)) is one here.
                      ((agent-q-json--alist-p value t) (agent-q-json--object value))
                      (t (agent-q-json-value value)))))
    (unless (hash-table-p object)
      (signal 'agent-q-invalid-arguments (list "Arguments must be an object")))
    object))

(defun agent-q-json-members (value)
  "Return the members of VALUE, an object, in a hash table with strings as keys.
VALUE is as in `agent-q-json-object', but the members stay as they are.  When
VALUE is not an object, return nil."
  (cond ((stringp value)
         (let ((object (agent-q-json-parse value)))
           (and (hash-table-p object) object)))
        ((or (hash-table-p value)
             (agent-q-json-plist-p value)
             (agent-q-json--alist-p value t))
         (agent-q-json--object value #'identity))))

(defun agent-q-json-empty-object ()
  "Return a new empty object, which is a hash table with strings as keys."
  ;; Most have few members, and Emacs makes room for 65.
  (make-hash-table :test #'equal :size 8))

(defun agent-q-json-text (text)
  "Return TEXT without properties and without what UTF-8 can't hold."
  (agent-q-text-clean (agent-q-json--decoded (substring-no-properties text))))

(defun agent-q-json--decoded (text)
  "Return TEXT, decoded when it is a string of bytes."
  (if (or (multibyte-string-p text) (not (string-match-p "[^[:ascii:]]" text)))
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

(defun agent-q-json--alist-p (value &optional certainly)
  "Whether VALUE is an association list from strings or symbols, and not empty.
A list of property lists isn't, unless VALUE is CERTAINLY an object."
  (and (proper-list-p value)
       (let ((fits (consp value))
             (plists nil)
             (others nil)
             (rest value))
         (while (and fits rest)
           (let* ((entry (pop rest))
                  (key (car-safe entry)))
             (setq fits (or (stringp key) (and key (symbolp key))))
             (when (and fits (keywordp key))
               (if (agent-q-json-plist-p entry)
                   (setq plists t)
                 (setq others t)))))
         (and fits (or certainly others (not plists))))))

(defun agent-q-json--key (key)
  "Return the name of the JSON member that KEY, a string or symbol, stands for."
  (cond ((stringp key) (agent-q-json-text key))
        ((keywordp key) (agent-q-json-text (substring (symbol-name key) 1)))
        ((symbolp key) (agent-q-json-text (symbol-name key)))
        (t (signal 'agent-q-error
                   (list (format "%S is not a valid name of a JSON member" key))))))

(defun agent-q-json--member-name (key)
  "Return the name of the JSON member that KEY stands for.
One with a NUL in it is refused, as Emacs before 30 refuses it."
  (let ((name (agent-q-json--key key)))
    (when (string-search "\0" name)
      (signal 'agent-q-error
              (list (format "JSON here can't hold a member whose name has a NUL in it: %S"
                            name))))
    name))

(defun agent-q-json--object (value &optional convert)
  "Return VALUE, an object in one of its shapes, as a hash table.
CONVERT makes the members of it; as a rule they become JSON values too."
  (let ((object (agent-q-json-empty-object)))
    (agent-q-json--each
     (lambda (key member)
       (let ((key (agent-q-json--member-name key)))
         ;; As in the lists themselves, the first of two members counts.
         (unless (gethash key object)
           (puthash key (funcall (or convert #'agent-q-json-value) member) object))))
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

;;;;; Schemas

(defun agent-q-json-schema (value)
  "Return VALUE, a JSON Schema as text or as a Lisp value, as a JSON value.
In a Lisp value, nil is the empty list of what is required, and no properties."
  (if (stringp value)
      ;; Emacs can read more numbers than JSON can be trusted to keep.
      (agent-q-json-value (agent-q-json-parse value))
    (agent-q-json--schema (agent-q-json-value value))))

(defun agent-q-json--schema (json)
  "Return JSON, a new JSON value, with what was nil in it as a schema needs it."
  (cond ((vectorp json) (mapc #'agent-q-json--schema json))
        ((hash-table-p json)
         (maphash (lambda (key member)
                    (cond ((and (eq member :null) (equal key "required"))
                           (puthash key [] json))
                          ((and (eq member :null) (equal key "properties"))
                           (puthash key (agent-q-json-empty-object) json))
                          ((and (hash-table-p member) (equal key "properties"))
                           (maphash (lambda (_ property) (agent-q-json--schema property))
                                    member))
                          ;; These hold values, which mean what they say.
                          ((not (member key '("default" "enum" "const" "examples")))
                           (agent-q-json--schema member))))
                  json)))
  json)

(defun agent-q-json-equal (one other)
  "Whether ONE and OTHER, JSON values, are the same to a JSON Schema."
  (cond ((and (numberp one) (numberp other)) (= one other))
        ((and (vectorp one) (vectorp other))
         (and (= (length one) (length other))
              (cl-every #'agent-q-json-equal one other)))
        ((and (hash-table-p one) (hash-table-p other))
         (and (= (hash-table-count one) (hash-table-count other))
              (cl-every (lambda (key)
                          (agent-q-json-equal (gethash key one)
                                              (gethash key other 'absent)))
                        (hash-table-keys one))))
        (t (equal one other))))

;;;;; Out of JSON

(defconst agent-q-json--refused "\\\\u0000\\|[0-9]\\{19\\}"
  "Regexp for valid JSON that Emacs's parser may refuse before Emacs 30.
That are NUL characters and integers of more than 64 bits.")

;;;###autoload
(defun agent-q-json-parse (text)
  "Return the value of TEXT, JSON; signal `agent-q-error' when it isn't any."
  (agent-q-json--guarded-read
   text
   (lambda () (json-parse-string text))
   (lambda ()
     (let ((json-object-type 'hash-table) (json-array-type 'vector)
           (json-key-type 'string) (json-null :null) (json-false :false))
       (agent-q-json--read text)))))

(defun agent-q-json-alist (text &optional plain)
  "Return the value of TEXT, JSON; objects are alists from symbols, in order.
With PLAIN, arrays are lists, and null and false are nil."
  (let ((array (if plain 'list 'array))
        (null (if plain nil :null))
        (false (if plain nil :false)))
    (agent-q-json--guarded-read
     text
     (lambda ()
       (json-parse-string text :object-type 'alist :array-type array
                          :null-object null :false-object false))
     (lambda ()
       (let ((json-object-type 'alist) (json-array-type (if plain 'list 'vector))
             (json-key-type 'symbol) (json-null null) (json-false false))
         (agent-q-json--read text))))))

(defun agent-q-json--guarded-read (text quickly slowly)
  "Return the value of TEXT, JSON, as QUICKLY gives it, else SLOWLY.
QUICKLY uses the parser in C, which there may not be, and which refuses
some JSON.  All errors are `agent-q-error'."
  (condition-case failure
      (if (fboundp 'json-parse-string)
          (condition-case refused
              (funcall quickly)
            (error (if (string-match-p agent-q-json--refused text)
                       (funcall slowly)
                     (signal (car refused) (cdr refused)))))
        (funcall slowly))
    (error
     (signal 'agent-q-error
             (list (format "Invalid JSON (%s)" (error-message-string failure)))))))

(defun agent-q-json--read (text)
  "Return the value of TEXT, JSON, read by Emacs Lisp, which is slow."
  (with-temp-buffer
    (insert text)
    (goto-char (point-min))
    (prog1 (json-read)
      (json-skip-whitespace)
      (unless (eobp)
        (error "Something follows the value")))))

(defun agent-q-json-plist (value)
  "Return VALUE, a JSON value, with lists in it.
Objects are property lists with keywords, arrays are lists.  An empty object
is an empty hash table.  An array stays a vector where a list of its elements
would be something else: when it is empty, or looks like an object."
  (cond ((hash-table-p value)
         (if (zerop (hash-table-count value))
             (agent-q-json-empty-object)
           (let ((plist nil))
             (maphash (lambda (key member)
                        (push (intern (concat ":" key)) plist)
                        (push (agent-q-json-plist member) plist))
                      value)
             (nreverse plist))))
        ((vectorp value)
         (let ((list (mapcar #'agent-q-json-plist value)))
           (if (or (null list)
                   (agent-q-json-plist-p list)
                   (agent-q-json--alist-p list))
               (vconcat list)
             list)))
        (t value)))

;;;; Arguments of tool calls as texts

;; A model's arguments are JSON of any length and depth; what is shown of them
;; is made without going through all of it.

(defun agent-q-json-value-parse (arguments)
  "Return the JSON text ARGUMENTS, an object, as an alist with its order, or nil."
  (when (string-match-p "\\`[ \t\r\n]*{" arguments)
    (condition-case nil
        (agent-q-json-alist arguments)
      (agent-q-error nil))))

(defconst agent-q-json--value-depth 50
  "Depth to which a value is printed.")

(defun agent-q-json-value-string (value &optional limit)
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
           (agent-q-json--value-insert value (or limit most-positive-fixnum) 0))
         (buffer-string)))))

(defun agent-q-json--value-insert (value limit depth)
  "Insert VALUE as JSON until the buffer is longer than LIMIT.
DEPTH says how deep it is in what is shown."
  (when (> (buffer-size) limit)
    (throw 'agent-q-call-value--full nil))
  (let ((separator ""))
    (cond ((and (> depth agent-q-json--value-depth) (or (consp value) (vectorp value)))
           (insert "..."))
          ((vectorp value)
           (insert "[")
           (seq-doseq (element value)
             (insert separator)
             (setq separator ",")
             (agent-q-json--value-insert element limit (1+ depth)))
           (insert "]"))
          ((listp value)
           (insert "{")
           (pcase-dolist (`(,name . ,member) value)
             (insert separator (agent-q-json-string (symbol-name name)) ":")
             (setq separator ",")
             (agent-q-json--value-insert member limit (1+ depth)))
           (insert "}"))
          ((stringp value)
           (insert (agent-q-json-string
                    (substring value 0 (min limit (length value))))))
          (t (insert (agent-q-json-value-string value))))))

(provide 'agent-q-json)
;;; agent-q-json.el ends here
