;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; A condition that nobody handled, told while its stack is still there: type, message, restarts
;;; and the frames between the signal and our own code.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *frame-limit* 20
  "How many frames of the program are told.")

(defun condition-type-name (condition)
  "The type of CONDITION; of CLISP's own SYSTEM::SIMPLE-TYPE-ERROR and the like the standard one."
  (let* ((text (type-name condition))
         (name (and (prefixed-p "SYSTEM::SIMPLE-" text) (subseq text 15)))
         (standard (and name (find-symbol name "COMMON-LISP"))))
    (if (and standard (find-class standard nil) (typep condition standard)) name text)))

(defun condition-message (condition)
  (let ((message (printed condition :limit 2000 :writer #'princ)))
    ;; Some implementations have no report for arithmetic errors.
    (if (and (typep condition 'arithmetic-error) (eql 0 (search "#<" message)))
        (guarded (lambda ()
                   (format nil "~A of ~A signalled ~A"
                           (arithmetic-error-operation condition)
                           (printed (arithmetic-error-operands condition) :limit 200)
                           (type-name condition)))
                 (lambda (problem) (declare (ignore problem)) message))
        message)))

(defun restart-list (condition)
  "The restarts of the program, those that a name finds: the innermost ones of each."
  (loop for restart in (compute-restarts condition)
        for name = (restart-name restart)
        unless (or (member restart *outer-restarts*) (null name) (member name names))
          collect name into names
          and collect (list (symbol-name name) (printed restart :limit 200 :writer #'princ))
                into restarts
        finally (return restarts)))

;;; Frames

(defun frame-operator (text)
  "The part of a frame's TEXT that says what was called: \"(FOO\" or \"((LAMBDA (X) :IN FOO)\"."
  (dolist (caller '("(FUNCALL " "(APPLY "))
    (when (and (eql 0 (search caller text)) (< (length caller) (length text)))
      (return-from frame-operator
        (frame-operator (concatenate 'string "(" (subseq text (length caller)))))))
  (if (eql 0 (search "((" text))
      (loop with depth = 0
            for character across text
            for end from 0
            do (case character (#\( (incf depth)) (#\) (decf depth)))
            until (and (char= character #\)) (= depth 1))
            finally (return (subseq text 0 (min (1+ end) (length text)))))
      (subseq text 0 (position-if (lambda (character) (find character " )")) text))))

(defun mentions-package-p (prefix operator)
  "Whether OPERATOR has a symbol of a package whose name starts with PREFIX."
  (loop with start = 0
        for found = (search prefix operator :start2 start)
        while found
        do (when (or (= found 0) (find (char operator (1- found)) "( "))
             (return t))
           (setf start (1+ found))))

(defun own-frame-p (operator)
  (mentions-package-p "AGENT-Q-IMAGE:" operator))

(defun machinery-frame-p (operator)
  "Whether OPERATOR only serves to signal, to debug or to evaluate, or nobody can tell what it is."
  (or (own-frame-p operator)
      (search "(\"foreign" operator)
      (eql 0 (search "(#<" operator))
      (loop for prefix in '("SWANK" "SLYNK" "SB-INT:SIMPLE-EVAL" "SB-IMPL::SIMPLE-EVAL"
                            "SB-DEBUG" "SB-KERNEL:INTERNAL-ERROR"
                            "SB-KERNEL::CONTROL-STACK-EXHAUSTED-ERROR" "SB-EVAL:"
                            "SYSTEM:" "SI:" "JVM:" "org.armedbear")
              thereis (mentions-package-p prefix operator))
      (member operator '("(EVAL" "((LAMBDA ())" "(LAMBDA" "(INVOKE-DEBUGGER" "(SIGNAL" "(ERROR"
                         "(CERROR" "(BREAK" "(FUNCALL" "(APPLY" "(JRUN-EXCEPTION-PROTECTED")
              :test #'string=)))

(defun internal-frame-p (operator)
  "Whether OPERATOR is of the implementation, not of the program."
  (or (machinery-frame-p operator)
      (mentions-package-p "SB-" operator)
      (mentions-package-p "ASDF/" operator)
      (mentions-package-p "UIOP/" operator)))

(defun program-frames ()
  "The frames of the program, innermost first, down to the frame of ours that called it. What the
program called last is told even when it is the implementation's: its arguments are the reason."
  (let ((frames '()) (below-report nil))
    (dolist (frame (backend "COMPUTE-BACKTRACE" 0 (if (implementation-p "CLISP") 1000 200))
                   (nreverse frames))
      (let* ((text (frame-text frame))
             (operator (and text (frame-operator text))))
        (when (or (= (length frames) *frame-limit*)
                  (equal operator "(AGENT-Q-IMAGE::PERFORM")
                  (and below-report operator (own-frame-p operator)))
          (return (nreverse frames)))
        ;; Some show what makes this report, too: frames of ours with others among them.
        (when (and operator (not (own-frame-p operator)))
          (setf below-report (or frames (implementation-p "SBCL"))))
        (unless (or (null text)
                    (if frames (internal-frame-p operator) (machinery-frame-p operator)))
          (push text frames))))))

(defun condition-frames ()
  (guarded (lambda ()
             (let ((frames '()))
               (backend "CALL-WITH-DEBUGGING-ENVIRONMENT"
                        (lambda () (setf frames (program-frames))))
               frames))
           (constantly '())))

(defun condition-report (condition)
  (list :outcome :error
        :type (condition-type-name condition)
        :message (condition-message condition)
        :restarts (guarded (lambda () (restart-list condition)) (constantly '()))
        :frames (condition-frames)))
