;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; A condition that nobody handled, told while its stack is still there: type, message, restarts
;;; and the frames between the signal and our own code.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *frame-limit* 20
  "How many frames of the program are told.")

(defvar *outer-restarts* '()
  "The restarts that were there before the call: the client's own, nothing to do with the program.")

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
  (loop for restart in (compute-restarts condition)
        unless (or (member restart *outer-restarts*) (null (restart-name restart)))
          collect (list (symbol-name (restart-name restart))
                        (printed restart :limit 200 :writer #'princ))))

;;; Frames

(defun frame-operator (text)
  "The part of a frame's TEXT that says what was called."
  (let ((end (if (eql 0 (search "((" text))
                 (position #\) text)
                 (position-if (lambda (character) (find character " )")) text))))
    (subseq text 0 (or end (length text)))))

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

(defun internal-frame-p (operator)
  (or (own-frame-p operator)
      (loop for prefix in '("SB-" "SWANK" "SLYNK" "SYSTEM::" "SI:" "SI::" "foreign function"
                            "org.armedbear")
            thereis (mentions-package-p prefix operator))
      (member operator '("(EVAL" "((LAMBDA (" "((LAMBDA ()" "(INVOKE-DEBUGGER" "(COMMON-LISP:EVAL")
              :test #'string=)))

(defun frame-text (frame)
  (string-trim '(#\Space #\Newline)
               (printed frame :limit 300 :length 6 :level 3
                              :writer (lambda (frame stream)
                                        (backend "PRINT-FRAME" frame stream)))))

(defun program-frames ()
  "The frames of the program, innermost first: without the debugger's own above them, and down to
the frame of ours that called it."
  (loop with frames = '()
        with inside = nil
        for frame in (backend "COMPUTE-BACKTRACE" 0 120)
        for text = (frame-text frame)
        for operator = (frame-operator text)
        until (or (and inside (own-frame-p operator))
                  (= (length frames) *frame-limit*))
        do (unless (internal-frame-p operator)
             (setf inside t)
             (push text frames))
        finally (return (nreverse frames))))

(defun condition-frames ()
  (guarded (lambda ()
             (let ((frames '()))
               (backend "CALL-WITH-DEBUGGING-ENVIRONMENT"
                        (lambda () (setf frames (program-frames))))
               frames))
           (constantly '())))

(defun condition-report (condition)
  (list :outcome :error
        :type (type-name condition)
        :message (condition-message condition)
        :restarts (guarded (lambda () (restart-list condition)) (constantly '()))
        :frames (condition-frames)))
