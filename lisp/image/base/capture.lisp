;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What a call prints, in one bounded text in the order of printing; and an empty standard input,
;;; so that a program which asks a question gets an end of file and not the user's attention.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *output-limit* 8000
  "How many characters of a call's output are kept. The rest is counted.")

(defvar *captured* nil
  "Of the running call: its output stream, the text kept, and how many characters came.")

(defstruct capture stream (text (make-string-output-stream)) (size 0) kept)

(defun capture-chunk (capture chunk)
  (let ((room (- *output-limit* (capture-size capture))))
    (incf (capture-size capture) (length chunk))
    (when (plusp room)
      (write-string chunk (capture-text capture) :end (min room (length chunk))))))

(defun captured-text ()
  "The output so far. Safe to ask again: what was taken is kept."
  (let ((capture *captured*))
    (guarded (lambda () (finish-output (capture-stream capture))) #'identity)
    (setf (capture-kept capture)
          (concatenate 'string (capture-kept capture)
                       (get-output-stream-string (capture-text capture))))
    (let ((dropped (- (capture-size capture) *output-limit*)))
      (if (plusp dropped)
          (format nil "~A~&[~D more characters of output were dropped]"
                  (capture-kept capture) dropped)
          (capture-kept capture)))))

(defun call-with-captured-output (function)
  (let* ((*captured* (make-capture :kept ""))
         (capture *captured*)
         (output (backend "MAKE-OUTPUT-STREAM" (lambda (chunk) (capture-chunk capture chunk))))
         (input (make-concatenated-stream))
         (both (make-two-way-stream input output)))
    (setf (capture-stream capture) output)
    ;; One stream for all three keeps what was printed in its order.
    (let ((*standard-output* output) (*error-output* output) (*trace-output* output)
          (*standard-input* input)
          (*query-io* both) (*debug-io* both) (*terminal-io* both))
      (funcall function))))
