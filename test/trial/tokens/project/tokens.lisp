;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The tokens of a small language: names, numbers, strings, operators, brackets.

(defpackage :tokens
  (:use :cl)
  (:export #:tokenize #:token-error #:token-error-position))

(in-package :tokens)

(define-condition token-error (error)
  ((position :initarg :position :reader token-error-position)
   (problem :initarg :problem :reader problem))
  (:report (lambda (condition stream)
             (format stream "~A at ~D" (problem condition) (token-error-position condition)))))

(defun tokenize (text)
  "Return the tokens of TEXT, a string, as a list of (KIND VALUE POSITION).
KIND is :name, :number, :string, :operator, :open or :close."
  (let ((tokens '())
        (length (length text))
        (position 0)
        (state :between)
        (start 0)
        (brackets '())
        (collected (make-string-output-stream)))
    (labels ((current ()
               (if (< position length) (char text position) nil))
             (following ()
               (if (< (1+ position) length) (char text (1+ position)) nil))
             (advance (&optional (count 1))
               (incf position count))
             (collect (character)
               (write-char character collected))
             (begin (next-state)
               (setf start position
                     state next-state))
             (finish (kind value)
               (push (list kind value start) tokens)
               (setf state :between))
             (fail (problem at)
               (error 'token-error :problem problem :position at))
             (name-character-p (character)
               (and character
                    (or (alpha-char-p character)
                        (digit-char-p character)
                        (find character "_-?!"))))
             (operator-character-p (character)
               (and character (find character "+*/<>=&|^%")))
             (opening (character)
               (push (cons character position) brackets)
               (setf start position)
               (finish :open (string character))
               (advance))
             (closing (character)
               (let ((open (pop brackets)))
                 (unless open
                   (fail (format nil "~A closes nothing" character) position))
                 (unless (char= character (ecase (car open) (#\( #\)) (#\[ #\]) (#\{ #\})))
                   (fail (format nil "~A closes ~A" character (car open)) position)))
               (setf start position)
               (finish :close (string character))
               (advance)))
      (loop
        (let ((character (current)))
          (ecase state
            (:between
             (cond ((null character)
                    (when brackets
                      (fail (format nil "~A is not closed" (caar brackets))
                            (cdar brackets)))
                    (return (nreverse tokens)))
                   ((find character '(#\Space #\Tab #\Newline #\Return))
                    (advance))
                   ((char= character #\;)
                    (begin :line-comment))
                   ((and (char= character #\#) (eql (following) #\|))
                    (begin :block-comment)
                    (advance 2))
                   ((char= character #\")
                    (begin :string)
                    (advance))
                   ((or (digit-char-p character)
                        (and (char= character #\-)
                             (following)
                             (digit-char-p (following))))
                    (begin :number)
                    (collect character)
                    (advance))
                   ((name-character-p character)
                    (begin :name))
                   ((find character "([{")
                    (opening character))
                   ((find character ")]}")
                    (closing character))
                   ((operator-character-p character)
                    (begin :operator))
                   (t
                    (fail (format nil "~S begins no token" character) position))))
            (:line-comment
             (if (or (null character) (char= character #\Newline))
                 (setf state :between)
                 (advance)))
            (:block-comment
             (cond ((and (eql character #\|) (eql (following) #\#))
                    (advance 2)
                    (setf state :between))
                   (t
                    (advance))))
            (:string
             (cond ((eql character #\")
                    (advance)
                    (finish :string (get-output-stream-string collected)))
                   ((eql character #\\)
                    (advance)
                    (collect (case (current)
                               (#\n #\Newline)
                               (#\t #\Tab)
                               (t (or (current) #\?))))
                    (advance))
                   (t
                    (collect (or character #\?))
                    (advance))))
            (:number
             (cond ((and character (digit-char-p character))
                    (collect character)
                    (advance))
                   ((and (eql character #\.)
                         (following)
                         (digit-char-p (following)))
                    (collect character)
                    (advance))
                   (t
                    (let ((digits (get-output-stream-string collected)))
                      (finish :number
                              (if (find #\. digits)
                                  (let ((*read-default-float-format* 'double-float))
                                    (read-from-string digits))
                                  (parse-integer digits)))))))
            (:name
             (cond ((name-character-p character)
                    (collect character)
                    (advance))
                   ((and (eql character #\#) (eql (following) #\|))
                    ;; A comment inside of a name.
                    (setf position (let ((end (search "|#" text :start2 position)))
                                     (if end (+ end 2) length))))
                   (t
                    (finish :name (get-output-stream-string collected)))))
            (:operator
             (cond ((operator-character-p character)
                    (collect character)
                    (advance))
                   (t
                    (finish :operator (get-output-stream-string collected)))))))))))
