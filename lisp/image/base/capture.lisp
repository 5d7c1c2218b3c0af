;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a call prints, in one bounded text in the order of printing; and an empty standard input,
;;; so that a program which asks a question gets an end of file and not the user's attention.

(cl:in-package "AGENT-Q-IMAGE")

;; What a program is about stands at the start of its output, how it ended at the end.

(defparameter *output-head* 2000
  "How many characters are kept from the start of a call's output.")

(defparameter *output-tail* 6000
  "How many characters are kept from its end. Those between are counted.")

(defvar *captured* nil
  "The output of the running call, a CAPTURED.")

(defstruct captured
  stream
  ;; What is kept, what came since that was last brought up to date, and how long that is.
  (head "") (tail "") (recent (make-string-output-stream)) (pending 0)
  ;; How many characters between head and tail are gone.
  (dropped 0)
  ;; The end of it and how many characters it has, for who looks at the call while it runs.
  (latest "") (printed 0)
  ;; Whether lines of the compiler's are left out; then: what is known of the line that is being
  ;; written, :START, :KEEP or :DROP, the blanks at its start, and whether the one before was kept.
  omits (line :start) (indent "") kept)

(defparameter *output-latest* 2000
  "How many characters are kept for who looks at a call while it runs.")

(defun note-latest (capture text)
  (let ((all (concatenate 'string (captured-latest capture) text)))
    (setf (captured-latest capture) (subseq all (max 0 (- (length all) *output-latest*))))
    (incf (captured-printed capture) (length text))))

(defun keep-text (capture text)
  (note-latest capture text)
  (write-string text (captured-recent capture))
  (when (> (incf (captured-pending capture) (length text)) *output-tail*)
    (settle-text capture)))

(defun settle-text (capture)
  "Bring the head and the tail of CAPTURE up to date."
  (let* ((text (concatenate 'string (captured-tail capture)
                            (get-output-stream-string (captured-recent capture))))
         (room (min (length text) (- *output-head* (length (captured-head capture)))))
         (excess (max 0 (- (length text) room *output-tail*))))
    (setf (captured-head capture)
          (concatenate 'string (captured-head capture) (subseq text 0 room))
          (captured-tail capture) (subseq text (+ room excess))
          (captured-pending capture) 0)
    (incf (captured-dropped capture) excess)))

;;; Lines of the compiler's, which start with a semicolon

(defun omit-compiler-lines (omits)
  "Whether lines that the compiler writes are left out of the running call's output from now on.
Returns whether they were until now."
  (let ((capture *captured*))
    (guarded (lambda () (finish-output (captured-stream capture))) #'identity)
    (keep-text capture (shiftf (captured-indent capture) ""))
    (setf (captured-line capture) :start)
    (shiftf (captured-omits capture) omits)))

(defun take-piece (capture piece ends)
  "Take PIECE, a part of a line; ENDS is whether the line ends with it."
  (when (eq (captured-line capture) :start)
    (setf piece (concatenate 'string (shiftf (captured-indent capture) "") piece))
    (let ((first (find-if-not (lambda (it) (member it *blanks*)) piece)))
      (cond ((and (null first) (not ends))
             (setf (captured-indent capture) piece))
            ;; The compiler writes blank lines around its own.
            ((null first)
             (when (shiftf (captured-kept capture) nil)
               (keep-text capture piece)))
            (t (setf (captured-line capture) (if (char= first #\;) :drop :keep)
                     (captured-kept capture) (char/= first #\;))))))
  (when (eq (captured-line capture) :keep)
    (keep-text capture piece))
  (when ends
    (setf (captured-line capture) :start)))

(defun capture-chunk (capture chunk)
  (if (captured-omits capture)
      (loop with start = 0
            while (< start (length chunk))
            do (let* ((newline (position #\Newline chunk :start start))
                      (end (if newline (1+ newline) (length chunk))))
                 (take-piece capture (subseq chunk start end) newline)
                 (setf start end)))
      (keep-text capture chunk)))

;;; The text

(defun captured-text ()
  "The output so far. Safe to ask again: what was taken is kept."
  (let ((capture *captured*))
    (guarded (lambda () (finish-output (captured-stream capture))) #'identity)
    (settle-text capture)
    (if (plusp (captured-dropped capture))
        (format nil "~A~&[~D characters of output omitted]~%~A"
                (captured-head capture) (captured-dropped capture) (captured-tail capture))
        (concatenate 'string (captured-head capture) (captured-tail capture)))))

(defun take-captured-text (limit)
  "The output since it was last taken, about LIMIT characters of it; it is not part of CAPTURED-TEXT any more."
  (let ((text (captured-text)) (capture *captured*))
    (setf (captured-head capture) "" (captured-tail capture) "" (captured-dropped capture) 0)
    (if (> (length text) limit)
        (let ((head (floor limit 4)))
          (format nil "~A~&[~D characters of output omitted]~%~A"
                  (subseq text 0 head) (- (length text) limit)
                  (subseq text (- (length text) (- limit head)))))
        text)))

(defun call-with-captured-output (function)
  (let* ((*captured* (make-captured))
         (capture *captured*)
         (output (backend "MAKE-OUTPUT-STREAM" (lambda (chunk) (capture-chunk capture chunk))))
         (input (make-concatenated-stream))
         (both (make-two-way-stream input output)))
    (setf (captured-stream capture) output)
    ;; One stream for all three keeps what was printed in its order.
    (let ((*standard-output* output) (*error-output* output) (*trace-output* output)
          (*standard-input* input)
          (*query-io* both) (*debug-io* both) (*terminal-io* both))
      (funcall function))))
