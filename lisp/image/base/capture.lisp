;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a call prints, kept as one bounded text in printing order; and an empty standard input, so
;;; that a program that asks a question gets end of file instead of the user's attention.

(cl:in-package "AGENT-Q-IMAGE")

;; The start of a program's output says what it is about, the end how it turned out.

(defparameter *output-head* 2000
  "How many characters to keep from the start of a call's output.")

(defparameter *output-tail* 6000
  "How many characters to keep from its end. Those in between are only counted.")

(defvar *captured* nil
  "The CAPTURED output of the running call.")

(defstruct captured
  stream
  ;; What is kept; what was printed since that was last updated, and how long that is.
  (head "") (tail "") (recent (make-string-output-stream)) (pending 0)
  ;; How many characters between head and tail were dropped.
  (dropped 0)
  ;; The end of the output and its total length, for looking at the call while it runs.
  (latest "") (printed 0)
  ;; Whether compiler lines are left out. If so, about the line being written: its state (:START,
  ;; :KEEP or :DROP), the blanks at its start, and whether the previous line was kept.
  omits (line :start) (indent "") kept
  ;; The streams of the threads that the call started, and whether the call has ended.
  (others '()) ended)

(defparameter *output-latest* 2000
  "How many characters to keep for looking at a call while it runs.")

(defun note-latest (capture text)
  (let ((all (concatenate 'string (captured-latest capture) text)))
    (setf (captured-latest capture) (subseq all (max 0 (- (length all) *output-latest*))))
    (incf (captured-printed capture) (length text))))

(defun keep-text (capture text)
  (note-latest capture text)
  (write-string text (captured-recent capture))
  (when (> (incf (captured-pending capture) (length text)) *output-tail*)
    (merge-recent-text capture)))

(defun merge-recent-text (capture)
  "Update the head and the tail of CAPTURE."
  (let* ((text (concatenate 'string (captured-tail capture)
                            (get-output-stream-string (captured-recent capture))))
         (room (min (length text) (- *output-head* (length (captured-head capture)))))
         (excess (max 0 (- (length text) room *output-tail*))))
    (setf (captured-head capture)
          (concatenate 'string (captured-head capture) (subseq text 0 room))
          (captured-tail capture) (subseq text (+ room excess))
          (captured-pending capture) 0)
    (incf (captured-dropped capture) excess)))

;;; Compiler lines, which start with a semicolon

(defun omit-compiler-lines (omits)
  "Set whether compiler lines are left out of the running call's output from now on. Returns the old
setting."
  (let ((capture *captured*))
    (guarded (lambda () (finish-output (captured-stream capture))) #'identity)
    (keep-text capture (shiftf (captured-indent capture) ""))
    (setf (captured-line capture) :start)
    (shiftf (captured-omits capture) omits)))

(defun take-piece (capture piece ends)
  "Capture PIECE, part of a line. ENDS says whether it ends the line."
  (when (eq (captured-line capture) :start)
    (setf piece (concatenate 'string (shiftf (captured-indent capture) "") piece))
    (let ((first (find-if-not (lambda (it) (member it *blanks*)) piece)))
      (cond ((and (null first) (not ends))
             (setf (captured-indent capture) piece))
            ;; The compiler writes blank lines around its own lines.
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
  (if (captured-others capture)
      (call-with-lock (lambda () (capture-locked capture chunk)))
      (capture-locked capture chunk)))

(defun capture-locked (capture chunk)
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
  "The output so far. Asking doesn't consume it."
  (let ((capture *captured*))
    (dolist (stream (cons (captured-stream capture) (captured-others capture)))
      (guarded (lambda () (finish-output stream)) #'identity))
    (merge-recent-text capture)
    (if (plusp (captured-dropped capture))
        (format nil "~A~&[~D characters of output omitted]~%~A"
                (captured-head capture) (captured-dropped capture) (captured-tail capture))
        (concatenate 'string (captured-head capture) (captured-tail capture)))))

(defun take-captured-text (limit)
  "Take about LIMIT characters of the output since the last time; CAPTURED-TEXT no longer includes
any of it."
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
    ;; One stream for all three keeps the order of printing.
    (let ((*standard-output* output) (*error-output* output) (*trace-output* output)
          (*standard-input* input)
          (*query-io* both) (*debug-io* both) (*terminal-io* both))
      (unwind-protect (funcall function)
        (setf (captured-ended capture) t)))))

;;; Threads that a call starts

(defun call-sharing-output (capture function)
  "Call FUNCTION in a thread of its own: what it prints belongs to the call of CAPTURE, and goes where
it went without us once that has ended."
  (let* ((outside *standard-output*)
         (output (backend "MAKE-OUTPUT-STREAM"
                          (lambda (chunk)
                            (if (captured-ended capture)
                                (write-string chunk outside)
                                (capture-chunk capture chunk))))))
    (call-with-lock (lambda () (push output (captured-others capture))))
    (unwind-protect
         (let ((*standard-output* output) (*error-output* output) (*trace-output* output))
           (funcall function))
      (ignore-errors (finish-output output))
      (call-with-lock (lambda ()
                        (setf (captured-others capture) (remove output (captured-others capture))))))))

(defun sharing-output (function)
  "FUNCTION for a new thread of the running call."
  (let ((capture *captured*) (client *client*))
    (if (null capture)
        function
        (lambda (&rest arguments)
          (let ((*captured* capture) (*client* client))
            (call-sharing-output capture (lambda () (apply function arguments))))))))
