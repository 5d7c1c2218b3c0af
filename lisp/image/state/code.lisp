;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Machine code or byte code. Operation: disassemble-function.

(cl:in-package "AGENT-Q-IMAGE")

;;; Lines

(defun hexadecimal-p (text)
  (and (plusp (length text))
       (every (lambda (it) (digit-char-p it 16)) text)))

(defun next-word (text start)
  "The word of TEXT at or after START, and its end; NIL at the end of TEXT."
  (let* ((from (position-if-not (lambda (it) (member it *blanks*)) text :start start))
         (to (and from (position-if (lambda (it) (member it *blanks*)) text :start from))))
    (and from
         (values (subseq text from to) (or to (length text))))))

(defun instruction (line)
  "The instruction in LINE, as SBCL writes it, without its address and bytes; a label for jumps
stays. NIL for any other line."
  (multiple-value-bind (address start) (next-word line (if (prefixed-p "; " line) 2 0))
    (when (and address
               (char= #\: (char address (1- (length address))))
               (hexadecimal-p (string-right-trim ":" address)))
      (multiple-value-bind (label end) (next-word line start)
        (let ((label (and label (prefixed-p "L" label)
                          (char= #\: (char label (1- (length label))))
                          label)))
          (when label (setf start end))
          (multiple-value-bind (bytes end) (next-word line start)
            (when (and bytes (evenp (length bytes)) (hexadecimal-p bytes))
              (setf start end))
            (format nil "~@[~A~]~5T~A" label (spaced-once (trimmed (subseq line start))))))))))

(defun spaced-once (text)
  "TEXT without the blanks that only align its comment."
  (let ((comment (search "  ; " text)))
    (if comment
        (format nil "~A  ~A" (string-right-trim *blanks* (subseq text 0 comment))
                (trimmed (subseq text comment)))
        text)))

(defun readable-line (line)
  "LINE, from SBCL, in a form worth reading; NIL if it only repeats the name."
  (cond ((prefixed-p "; disassembly for " line) nil)
        ((search " Origin: #x" line)
         (string-right-trim "." (subseq line 2 (search " Origin: #x" line))))
        (t (or (instruction line) line))))

(defun code-lines (function)
  "What DISASSEMBLE prints for FUNCTION, as lines."
  (let* ((text (write-bounded (lambda (stream)
                                (let ((*standard-output* stream)
                                      (*print-pretty* nil) (*print-circle* nil)
                                      (*print-length* 20) (*print-level* 4))
                                  (disassemble function)))
                              200000))
         (lines (loop with start = 0
                      for end = (position #\Newline text :start start)
                      collect (string-right-trim *blanks* (subseq text start end))
                      while end do (setf start (1+ end)))))
    (if (implementation-p "SBCL")
        (remove nil (mapcar #'readable-line (remove "" lines :test #'string=)))
        (remove "" lines :test #'string=))))

;;; Functions

(defun method-code (method)
  "The function with the code of METHOD, not its wrapper that takes a list of arguments."
  (let ((fast (or (optional-function "SB-PCL" "SAFE-METHOD-FAST-FUNCTION")
                  (optional-function "CLOS" "STD-METHOD-FAST-FUNCTION"))))
    (or (and fast (guarded (lambda () (funcall fast method)) (constantly nil)))
        (mop "METHOD-FUNCTION" method))))

(defun code-page (name kind function limit offset)
  "A page of the code of FUNCTION, called NAME, of KIND."
  (let ((lines (code-lines function)) (offset (max 0 (or offset 0))))
    (when (null lines)
      (unavailable (format nil "disassemble_function for ~A" name)
                   "it does not keep the code of functions compiled through C"))
    (list :name name
          :kind kind
          :total (length lines)
          :offset offset
          :lines (page lines offset (page-size limit 120 400)))))

(defun method-page (name method limit offset)
  (code-page (format nil "~A ~A" (name-text name) (method-text method))
             "method" (method-code method) limit offset))

(defun choice-of-methods (name methods limit offset)
  "The choices for NAME, a generic function, which itself only dispatches to METHODS."
  (let ((offset (max 0 (or offset 0))))
    (list :name (name-text name)
          :kind "generic function"
          :total (length methods)
          :offset offset
          :methods (mapcar #'method-text (page methods offset (page-size limit 40 200))))))

(defun function-page (name limit offset)
  "A page of the code of the function NAME; for a generic function, that of its only method, or its
methods to choose from."
  (let* ((spec (function-name-of name))
         (macro (and (symbolp spec) (macro-function spec)))
         (function (or macro (fdefinition spec)))
         (generic (and (not macro) (typep function 'generic-function)))
         (methods (and generic (ordered-methods function))))
    (cond ((null methods)
           (code-page (name-text name) (if macro "macro function" "function") function limit offset))
          ((null (rest methods)) (method-page name (first methods) limit offset))
          (t (choice-of-methods name methods limit offset)))))

(define-operation "disassemble-function" (function package limit offset)
  ;; The machine code, or byte code, of a function or of one method.
  (multiple-value-bind (method name) (method-of-text function package)
    (let* ((name (or name (meant-function (name-of-text function package))))
           (spec (function-name-of name)))
      (cond (method (method-page name method limit offset))
            ((not (fboundp spec))
             (missed "~A is not a function." (name-text name)))
            ((and (symbolp spec) (special-operator-p spec))
             (missed "~A is a special operator and has no code of its own; the compiler generates it at each use."
                     (name-text name)))
            (t (function-page name limit offset))))))
