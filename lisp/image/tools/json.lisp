;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; As much JSON as tools need: arguments come in as hash tables; schemas and results go out.

(cl:in-package "AGENT-Q-IMAGE")

;;; Writing

(defun write-json-string (string stream)
  (write-char #\" stream)
  (loop for character across string
        for code = (char-code character)
        do (cond ((find character "\"\\") (write-char #\\ stream) (write-char character stream))
                 ((< code 32) (format stream "\\u~4,'0X" code))
                 (t (write-char character stream))))
  (write-char #\" stream))

(defun json-number-text (number)
  (typecase number
    (integer (format nil "~D" number))
    (t (let ((text (format nil "~F" (coerce number 'double-float))))
         (subseq text 0 (position #\d text :test #'char-equal))))))

(defun write-json (value stream)
  "Write VALUE. A property list with keyword keys is an object; NIL is the empty array."
  (flet ((write-pairs (pairs)
           (write-char #\{ stream)
           (loop for ((key . value) . more) on pairs
                 do (write-json-string (if (symbolp key) (string-downcase (symbol-name key))
                                           (princ-to-string key))
                                       stream)
                    (write-char #\: stream)
                    (write-json value stream)
                    (when more (write-char #\, stream)))
           (write-char #\} stream)))
    (cond ((stringp value) (write-json-string value stream))
          ((realp value) (write-string (json-number-text value) stream))
          ((eq value t) (write-string "true" stream))
          ((eq value :false) (write-string "false" stream))
          ((eq value :null) (write-string "null" stream))
          ((symbolp value)
           (if value
               (write-json-string (string-downcase (symbol-name value)) stream)
               (write-string "[]" stream)))
          ((hash-table-p value)
           (write-pairs (loop for key being the hash-keys of value using (hash-value element)
                              collect (cons key element))))
          ((and (consp value) (keywordp (first value)))
           (write-pairs (loop for (key element) on value by #'cddr collect (cons key element))))
          ((typep value '(or cons vector))
           (write-char #\[ stream)
           (let ((first t))
             (map nil (lambda (element)
                        (unless (shiftf first nil) (write-char #\, stream))
                        (write-json element stream))
                  value))
           (write-char #\] stream))
          (t (write-json-string (printed value) stream)))))

(defun json-text (value)
  (with-output-to-string (stream) (write-json value stream)))

(defun object-of (&rest pairs)
  (let ((table (make-hash-table :test 'equal)))
    (loop for (key value) on pairs by #'cddr do (setf (gethash key table) value))
    table))

(defun parameter-schema (parameter)
  "The JSON Schema of PARAMETER, a property list."
  (let ((schema (object-of)))
    (loop for (key value) on parameter by #'cddr
          do (case key
               ((:name :required))
               (:items (setf (gethash "items" schema) (parameter-schema value)))
               (:properties
                (setf (gethash "properties" schema) (properties-schema value)
                      (gethash "required" schema) (coerce (getf parameter :required) 'vector)))
               (:default (setf (gethash "default" schema)
                               (if (and (null value) (eq (getf parameter :type) :boolean))
                                   :false
                                   value)))
               (t (setf (gethash (string-downcase (symbol-name key)) schema) value))))
    schema))

(defun properties-schema (parameters)
  (let ((properties (object-of)))
    (dolist (parameter parameters properties)
      (setf (gethash (getf parameter :name) properties) (parameter-schema parameter)))))

(defun tool-schema (tool)
  (object-of "type" "object"
             "properties" (properties-schema (tool-parameters tool))
             "required" (coerce (tool-required tool) 'vector)
             "additionalProperties" :false))

(defun result-text (result)
  "RESULT of a handler, as text for the model."
  (cond ((stringp result) result)
        ((hash-table-p result) (guarded (lambda () (json-text result))
                                        (lambda (condition)
                                          (declare (ignore condition))
                                          (printed result))))
        (t (printed result :limit 12000))))

;;; Reading

(defun parse-json (text)
  "The value of TEXT, JSON: hash tables, lists, strings, numbers, T, and NIL for false and null."
  (with-input-from-string (stream text)
    (read-json stream)))

(defun next-json-character (stream)
  (peek-char t stream))

(defun read-json (stream)
  (case (next-json-character stream)
    (#\{ (read-char stream) (read-json-object stream))
    (#\[ (read-char stream) (read-json-array stream))
    (#\" (read-char stream) (read-json-string stream))
    (t (read-json-word stream))))

(defun read-json-separated (stream end reader)
  "Call READER for each element until the character END."
  (if (char= end (next-json-character stream))
      (read-char stream)
      (loop
        (funcall reader)
        (next-json-character stream)
        (when (char= end (read-char stream)) (return)))))

(defun read-json-object (stream)
  (let ((table (make-hash-table :test 'equal)))
    (read-json-separated stream #\}
                         (lambda ()
                           (let ((key (read-json stream)))
                             (next-json-character stream)
                             (read-char stream)
                             (setf (gethash key table) (read-json stream)))))
    table))

(defun read-json-array (stream)
  (let ((elements '()))
    (read-json-separated stream #\] (lambda () (push (read-json stream) elements)))
    (nreverse elements)))

(defun read-json-code (stream)
  (let ((digits (make-string 4)))
    (read-sequence digits stream)
    (parse-integer digits :radix 16)))

(defun read-json-escape (stream)
  (let ((character (read-char stream)))
    (case character
      (#\n #\Newline) (#\t #\Tab) (#\r #\Return) (#\b #\Backspace) (#\f #\Page)
      (#\u (let ((code (read-json-code stream)))
             (when (<= #xD800 code #xDBFF)
               (read-char stream)
               (read-char stream)
               (setf code (+ #x10000 (ash (- code #xD800) 10)
                             (- (read-json-code stream) #xDC00))))
             (or (code-char code) #\?)))
      (t character))))

(defun read-json-string (stream)
  (with-output-to-string (text)
    (loop for character = (read-char stream)
          until (char= character #\")
          do (write-char (if (char= character #\\) (read-json-escape stream) character) text))))

(defun read-json-word (stream)
  (let ((word (with-output-to-string (text)
                (loop for character = (peek-char nil stream nil)
                      while (and character (or (alphanumericp character) (find character "+-.")))
                      do (write-char (read-char stream) text)))))
    (cond ((string= word "true") t)
          ((or (string= word "false") (string= word "null")) nil)
          ((every #'digit-char-p (string-left-trim "-" word)) (parse-integer word))
          (t (let ((*read-default-float-format* 'double-float) (*read-eval* nil)
                   (*readtable* (copy-readtable nil)))
               (read-from-string word))))))
