;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Reporting an unhandled condition while its stack is still there: type, message, restarts and the
;;; frames between the signal and our own code.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *frame-limit* 20
  "How many frames of the program to show.")

(defun condition-type-name (condition)
  "The type of CONDITION; for CLISP's own SYSTEM::SIMPLE-TYPE-ERROR and the like, the standard type."
  (let* ((text (if (typep condition 'took-too-long) "TOOK-TOO-LONG" (type-name condition)))
         (name (and (prefixed-p "SYSTEM::SIMPLE-" text) (subseq text 15)))
         (standard (and name (find-symbol name "COMMON-LISP"))))
    (if (and standard (find-class standard nil) (typep condition standard)) name text)))

(defun without-references (message)
  "MESSAGE without SBCL's references to manuals at its end."
  (subseq message 0 (search (format nil "~%See also:~%  The ") message)))

(defun condition-message (condition)
  (let ((message (without-references (printed condition :limit 2000 :writer #'princ))))
    ;; Some implementations have no report for arithmetic errors.
    (if (and (typep condition 'arithmetic-error) (eql 0 (search "#<" message)))
        (guarded (lambda ()
                   (format nil "~A of ~A signalled ~A"
                           (arithmetic-error-operation condition)
                           (printed (arithmetic-error-operands condition) :limit 200)
                           (type-name condition)))
                 (lambda (problem) (declare (ignore problem)) message))
        message)))

(defun name-conflict-p (condition)
  "Whether CONDITION says that two symbols can't share a name in a package. Its message says
everything."
  (and (implementation-p "SBCL")
       (typep condition (find-symbol "NAME-CONFLICT" "SB-EXT"))))

(defun useful-restart-p (name text condition)
  "Whether the restart NAME, which TEXT describes, is worth mentioning for CONDITION."
  (cond ((name-conflict-p condition)
         (member name '("SHADOWING-IMPORT-IT" "DONT-IMPORT-IT" "TAKE-NEW" "KEEP-OLD")
                 :test #'string=))
        ;; ASDF's, which would only run into the same error.
        ((string= name "RETRY")
         (notany (lambda (start) (prefixed-p start text))
                 '("Retry compiling #<" "Retry loading FASL for #<" "Retry ASDF ")))
        (t (string/= name "CLEAR-CONFIGURATION-AND-RETRY"))))

(defun restart-list (condition)
  "The program's restarts that can be found by name, the innermost of each name."
  (loop for restart in (compute-restarts condition)
        for name = (restart-name restart)
        for text = (and name (not (member restart *outer-restarts*)) (not (member name names))
                        (printed restart :limit 200 :writer #'princ))
        when (and text (useful-restart-p (symbol-name name) text condition))
          collect name into names
          and collect (list (symbol-name name) text) into restarts
        finally (return restarts)))

;;; Frames

(defun mentions-package-p (prefix operator)
  "Whether OPERATOR mentions a symbol of a package whose name starts with PREFIX."
  (loop with start = 0
        for found = (search prefix operator :start2 start)
        while found
        do (when (or (= found 0) (find (char operator (1- found)) "( "))
             (return t))
           (setf start (1+ found))))

(defun our-frame-p (operator)
  (mentions-package-p "AGENT-Q-IMAGE:" operator))

(defun machinery-frame-p (operator)
  "Whether OPERATOR only serves to signal, debug or evaluate, or is unknown."
  (or (our-frame-p operator)
      (search "(\"foreign" operator)
      (search "(\"bogus" operator)
      ;; What SBCL does to a form of a file that it compiles.
      (search ":IN \"SYS:" operator)
      (eql 0 (search "(#<" operator))
      ;; What SBCL makes of a form to evaluate it in a frame.
      (and (eql 0 (search "((LAMBDA (#:" operator)) (not (search ":IN" operator)))
      (loop for prefix in '("SWANK" "SLYNK" "SB-INT:SIMPLE-EVAL" "SB-IMPL::SIMPLE-EVAL"
                            "SB-DEBUG" "SB-KERNEL:INTERNAL-ERROR"
                            "SB-KERNEL::CONTROL-STACK-EXHAUSTED-ERROR" "SB-EVAL:"
                            "SYSTEM:" "SI:" "JVM:" "org.armedbear")
              thereis (mentions-package-p prefix operator))
      (member operator '("(EVAL" "(EVAL-TLF" "((LAMBDA ())" "(LAMBDA" "(INVOKE-DEBUGGER" "(SIGNAL" "(ERROR"
                         "(CERROR" "(BREAK" "(FUNCALL" "(APPLY" "(JRUN-EXCEPTION-PROTECTED")
              :test #'string=)))

(defun internal-frame-p (operator)
  "Whether OPERATOR belongs to the implementation, not to the program."
  (or (machinery-frame-p operator)
      (string= operator "(COMPILE-FILE")
      (mentions-package-p "SB-" operator)
      (mentions-package-p "ASDF/" operator)
      (mentions-package-p "UIOP/" operator)))

;;; Which frames to show

(defparameter *leading-frames* 8
  "How many frames of the implementation to show before the first of the program.")

(defun library-frame-p (operator)
  "Whether OPERATOR is the implementation's, including functions that programs call."
  (or (internal-frame-p operator)
      (every (lambda (word)
               (or (find (char word 0) ":\"")
                   (find-symbol word "COMMON-LISP")))
             (operator-words operator))))

(defun without-middle (list limit)
  "LIST cut to LIMIT elements, keeping those next to the error and to the program."
  (let ((excess (- (length list) limit)))
    (if (plusp excess)
        (append (subseq list 0 2) (nthcdr (+ 2 excess) list))
        list)))

(defun loading-frame-p (operator)
  "Whether OPERATOR only loads code into the image."
  (or (loop for prefix in '("ASDF/" "UIOP/" "SB-FASL" "SB-C:" "SB-INT:LOAD-AS")
              thereis (mentions-package-p prefix operator))
      (string= operator "(COMPILE-FILE")))

(defun shown-frames (frames end &optional limit (from 0))
  "The frames to show among FRAMES, innermost first: from number FROM down to the first whose
operator satisfies END. Returns lists of number, text and operator; the operator is only given for
frames of the program, of which there are at most LIMIT. Frames of the implementation are left out,
except for the last calls before the error: their arguments are the reason."
  (let ((leading '()) (shown '()) (loading nil))
    (loop for frame in frames
          for number from 0
          for text = (frame-text frame)
          for operator = (and text (frame-operator text))
          until (or (and limit (= (length shown) limit))
                    (and operator (funcall end operator (or shown leading))))
          do (cond ((or (< number from) (null text) (machinery-frame-p operator)))
                   ((and (null shown) (library-frame-p operator))
                    ;; ASDF's frames explain nothing below an error of its own, or of a form in a
                    ;; file.
                    (setf loading (or loading (loading-frame-p operator)))
                    (unless loading
                      (push (list number text nil) leading)))
                   ((not (internal-frame-p operator))
                    (push (list number text operator) shown))))
    (append (without-middle (nreverse leading) *leading-frames*)
            (nreverse shown))))

(defun report-end ()
  "A function that tells whether an operator is the frame of ours that called the reported code."
  (let ((below-report nil))
    (lambda (operator shown)
      (prog1 (or (equal operator "(AGENT-Q-IMAGE::PERFORM")
                 (and below-report (our-frame-p operator)))
        ;; Some implementations also show what makes this report: frames of ours with others among
        ;; them.
        (unless (our-frame-p operator)
          (setf below-report (or shown (implementation-p "SBCL"))))))))

(defun frame-plists (frames)
  "FRAMES, of SHOWN-FRAMES, for the wire: texts, or lists of a text and its place, if known."
  (let ((end (+ (get-internal-real-time) (floor internal-time-units-per-second 2))))
    (loop for (number text operator) in frames
          collect (let ((place (and operator
                                    (< (get-internal-real-time) end)
                                    (frame-place number operator))))
                    (if place (list* :text text place) text)))))

(defun program-frames ()
  "The frames to show of this thread's stack, down to the frame of ours that called the program."
  (frame-plists
   ;; While our half is still interpreted, none of its frames marks the end; SBCL's threads begin
   ;; here.
   (remove-if (lambda (frame) (search "SB-THREAD::RUN" (second frame)))
              (shown-frames (backend "COMPUTE-BACKTRACE" 0 (if (implementation-p "CLISP") 1000 200))
                            (report-end) *frame-limit*))))

(defun condition-frames ()
  (guarded (lambda ()
             (let ((frames '()))
               (backend "CALL-WITH-DEBUGGING-ENVIRONMENT"
                        (lambda () (setf frames (program-frames))))
               frames))
           (constantly '())))

(defun condition-report (condition)
  (call-without-handlers
   (lambda ()
     (list :outcome :error
           :type (condition-type-name condition)
           :message (condition-message condition)
           :restarts (guarded (lambda () (restart-list condition)) (constantly '()))
           :frames (if (name-conflict-p condition) '() (condition-frames))
           :heap (and (heap-exhausted-p condition) t)))))
