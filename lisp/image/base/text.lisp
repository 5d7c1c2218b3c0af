;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Text that can leave the image: objects printed within bounds, whatever their printers do, and
;;; replies without any character that could break the user's connection.

(cl:in-package "AGENT-Q-IMAGE")

(defun guarded (function fallback)
  "Call FUNCTION. If anything in it would enter the debugger, call FALLBACK with the condition
instead."
  (block nil
    (backend "CALL-WITH-DEBUGGER-HOOK"
             (lambda (condition hook)
               (declare (ignore hook))
               (return (funcall fallback condition)))
             (lambda ()
               (handler-case (funcall function)
                 (serious-condition (condition) (funcall fallback condition)))))))

(defun shortened (text limit)
  "TEXT, cut at LIMIT characters with a note of how many are missing."
  (if (<= (length text) (+ limit 24)) ; The note is as long.
      text
      (format nil "~A... [~D more characters]" (subseq text 0 limit) (- (length text) limit))))

(defun first-line (text limit)
  (and text (shortened (subseq text 0 (position #\Newline text)) limit)))

;;; Printing

(defun cut-at (limit text)
  (if (> (length text) limit)
      (concatenate 'string (subseq text 0 limit) "... [cut]")
      text))

(defun write-bounded (writer limit)
  "What WRITER writes to the stream it is given, at most LIMIT characters. WRITER is left as soon as
it has written more: a printer may never end by itself."
  (let ((text (make-string-output-stream))
        (size 0)
        (full (list nil)))
    (catch full
      (let ((stream (backend "MAKE-OUTPUT-STREAM"
                             (lambda (chunk)
                               (write-string chunk text)
                               (when (> (incf size (length chunk)) limit)
                                 (throw full nil))))))
        (funcall writer stream)
        (finish-output stream)))
    (cut-at limit (get-output-stream-string text))))

(defun type-name (object)
  "The name of OBJECT's type, without calling any of the program's printers."
  (let ((type (type-of object)))
    (symbol-text (if (consp type) (first type) type))))

(defun shared-p (object length level)
  "Whether OBJECT needs labels: it contains a structure, or the same object twice. Looks at LENGTH
elements, at most LEVEL deep. For labels SBCL first prints to nowhere, without any limit."
  (let ((seen (make-hash-table :test 'eq)))
    (labels ((see (it level)
               ;; Empty objects read the same, shared or not.
               (unless (typep it '(or number symbol character string (simple-vector 0)))
                 (when (or (gethash it seen) (typep it 'structure-object))
                   (return-from shared-p t))
                 (setf (gethash it seen) t)
                 (when (and (plusp level) (< (hash-table-count seen) 2000))
                   (typecase it
                     (cons (see (car it) (1- level))
                      (loop repeat length
                            for tail = (cdr it) then (cdr tail)
                            while (consp tail)
                            do (when (gethash tail seen) (return-from shared-p t))
                               (setf (gethash tail seen) t)
                               (see (car tail) (1- level))
                            finally (see tail 0)))
                     (simple-vector
                      (loop repeat length
                            for element across it do (see element (1- level)))))))))
      (see object level)
      nil)))

(defun call-with-printer (function &key (length 200) (level 12) (circle t) pretty)
  (let ((*print-length* length) (*print-level* level)
        (*print-circle* circle) (*print-pretty* pretty)
        (*print-right-margin* 100) (*print-lines* nil)
        (*print-readably* nil) (*print-escape* t) (*print-gensym* t) (*print-array* t)
        (*print-base* 10) (*print-radix* nil) (*print-case* :upcase))
    (funcall function)))

(defun printed-parts (list limit)
  "LIST with each element printed separately, because one of them can't be printed."
  (with-output-to-string (stream)
    (loop for mark = "(" then " "
          for tail = list then (cdr tail)
          repeat 20
          while (consp tail)
          do (write-string mark stream)
             (write-string (printed (car tail) :limit (floor limit 8)) stream)
          finally (format stream "~:[~; ...~])" tail))))

(defvar *printers* '()
  "The methods of PRINT-OBJECT when last checked, and whether only SBCL's own ones print plain
objects.")

(defun spares-plain-p (method)
  "Whether METHOD of SBCL's PRINT-OBJECT applies to no plain object, or is SBCL's own."
  (let ((class (first (funcall (optional-function "SB-MOP" "METHOD-SPECIALIZERS") method))))
    (typecase class
      ((or standard-class structure-class) t)
      (class (or (notany (lambda (type) (or (subtypep class type) (subtypep type class)))
                         '(symbol fixnum character string cons))
                 (let ((file (funcall
                              (optional-function "SB-INTROSPECT" "DEFINITION-SOURCE-PATHNAME")
                              (funcall (optional-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCE")
                                       method))))
                   (and file (prefixed-p "SYS:" (namestring file)))))))))

(defun plain-printing-p ()
  "Whether the program can't change how plain objects are printed. On SBCL it can define
PRINT-OBJECT methods for strings and lists."
  (cond ((implementation-p "SBCL")
         (let ((methods (funcall (optional-function "SB-MOP" "GENERIC-FUNCTION-METHODS")
                                 #'print-object)))
           (unless (eq methods (car *printers*))
             (setf *printers* (cons methods (ignore-errors (every #'spares-plain-p methods)))))
           (cdr *printers*)))
        (t (implementation-p "ECL" "CLISP"))))

(defun plain-p (object limit)
  "Whether printing OBJECT ends soon: it is a tree of symbols, fixnums, characters and strings with
at most about LIMIT characters."
  (let ((left limit))
    (labels ((see (it depth)
               (decf left (typecase it
                            (string (1+ (length it)))
                            (symbol (1+ (length (symbol-name it))))
                            ((or fixnum character cons) 1)
                            (t (return-from plain-p nil))))
               (unless (and (plusp left) (< depth 20))
                 (return-from plain-p nil))
               (when (consp it)
                 (loop for tail = it then (cdr tail)
                       while (consp tail)
                       do (see (car tail) (1+ depth))
                       finally (see tail (1+ depth))))))
      (see object 0)
      t)))

(defun printed (object &key (limit 4000) (writer #'prin1) (length 200) (level 12) (circle t) pretty)
  "OBJECT as text of at most LIMIT characters, printed by WRITER; for the rest see
CALL-WITH-PRINTER. If a printer fails, a remark takes the object's place."
  ;; A stream would copy a huge string.
  (when (and (stringp object) (> (length object) limit))
    (setf object (subseq object 0 (1+ limit))))
  (flet ((write-object (stream) (funcall writer object stream)))
    (call-with-printer
     (lambda ()
       (if (and (not pretty) (plain-printing-p) (plain-p object limit))
           (cut-at limit (with-output-to-string (stream) (write-object stream)))
           (guarded (lambda () (write-bounded #'write-object limit))
                    (lambda (condition)
                      (if (and (consp object) (> limit 40))
                          (printed-parts object limit)
                          (format nil "#<~A whose printer failed: ~A>"
                                  (type-name object) (type-name condition)))))))
     :length length :level level :pretty pretty
     :circle (and circle
                  (typep object '(and (or cons array structure-object) (not string)))
                  (shared-p object length level)))))

(defun symbol-text (symbol)
  "SYMBOL as written in CL-USER."
  (let ((*package* (find-package "COMMON-LISP-USER"))
        (*print-case* :upcase) (*print-readably* nil) (*print-pretty* nil)
        (*print-escape* t) (*print-gensym* t) (*print-circle* nil)
        ;; With other values, a name may look like a number and get bars.
        (*print-base* 10) (*print-radix* nil))
    (prin1-to-string symbol)))

;;; The wire

(defun needs-care-p (character)
  "Whether CHARACTER can't be written as is."
  (let ((code (char-code character)))
    (not (or (and (<= 32 code 126) (/= code 34) (/= code 92))
             (= code 10) (= code 9)
             (and (< 159 code) (not (<= #xD800 code #xDFFF)))))))

(defun run-end (string start)
  "The end of the run of equal characters that starts at START in STRING."
  (or (position (char string start) string :start start :test #'char/=) (length string)))

(defun write-with-care (character stream)
  (let ((code (char-code character)))
    (cond ((or (= code 34) (= code 92))
           (write-char #\\ stream)
           (write-char character stream))
          ((< code 32) (write-char (code-char (+ #x2400 code)) stream))
          ((= code 127) (write-char (code-char #x2421) stream))
          (t (write-char #\? stream)))))

(defun write-clean (string stream)
  "Write STRING in quotes so that Emacs can read every character. Control characters become their
Unicode pictures, which can't be mistaken for the program's text as ^X could be; lone surrogates,
which no encoding has, become question marks. A long run of one character is written once, with its
length."
  (write-char #\" stream)
  (loop for start = 0 then (if many end (1+ care))
        for care = (position-if #'needs-care-p string :start start)
        for end = (and care (run-end string care))
        for many = (and care (< (char-code (char string care)) 32) (> (- end care) 3))
        do (write-string string stream :start start :end care)
        while care
        do (write-with-care (char string care) stream)
           (when many (format stream "[~C~D]" (code-char 215) (- end care))))
  (write-char #\" stream))

(defun write-datum (datum stream limit)
  "Write DATUM, with the strings in it cut at LIMIT."
  (typecase datum
    (null (write-string "nil" stream))
    ((eql t) (write-string "t" stream))
    (string (write-clean (shortened datum limit) stream))
    (keyword (write-char #\: stream)
     (write-string (string-downcase (symbol-name datum)) stream))
    (integer (format stream "~D" datum))
    (cons (write-char #\( stream)
     (loop for (element . more) on datum
           do (write-datum element stream limit)
              (when more (write-char #\Space stream)))
     (write-char #\) stream))
    ;; Nothing else may cross: the client closes the connection over an object that it can't read.
    ;; Only operations call the program's printers: here, no watch surrounds them any more.
    ((or symbol number character) (write-clean (printed datum :limit 200) stream))
    (t (write-clean (format nil "#<~A>" (class-name (class-of datum))) stream))))

(defun octets (text)
  (loop for character across text
        sum (let ((code (char-code character)))
              (cond ((< code #x80) 1) ((< code #x800) 2) ((< code #x10000) 3) (t 4)))))

(defun reply-text (reply)
  "REPLY for the wire, at most 64 KB; in a longer one strings are cut until it fits."
  (loop for limit in '(20000 8000 3000 1000 300 100)
        for text = (let ((*print-base* 10) (*print-radix* nil))
                     (with-output-to-string (stream) (write-datum reply stream limit)))
        when (<= (octets text) 65536)
          return (coerce text '(simple-array character (*)))
        finally (return (concatenate 'string "(:outcome :missed :message \"The answer is longer"
                                     " than 64 KB. Ask for less at a time.\")"))))
