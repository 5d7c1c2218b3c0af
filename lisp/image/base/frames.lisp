;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Frames of a stack as one line each, "(FOO 1)", whatever the implementation shows of them.

(cl:in-package "AGENT-Q-IMAGE")

(defun printed-frame (frame)
  (let* ((*package* (find-package "COMMON-LISP-USER"))
         (text (string-trim '(#\Space #\Newline)
                            (printed frame :limit 300 :length 6 :level 3
                                           :writer (lambda (frame stream)
                                                     (backend "PRINT-FRAME" frame stream)))))
         (remark (search " [external]" text)))
    (subseq text 0 remark)))

(defun ecl-frame-text (frame)
  "ECL tells the function alone; what has no name of its own is called LAMBDA and a number there."
  (let* ((function (first frame))
         (name (if (functionp function) (backend "FUNCTION-NAME" function) function)))
    (format nil "(~A)"
            (cond ((consp name) (printed name :limit 200))
                  ((or (null name) (null (symbol-package name))
                       (eql 0 (search "LAMBDA" (symbol-name name))))
                   "LAMBDA")
                  (t (symbol-text name))))))

(defun without-quotes (call)
  "CALL, a text, without the quotes that CLISP puts before its arguments."
  (with-output-to-string (stream)
    (loop for last = #\( then character
          for character across call
          unless (and (char= character #\') (char= last #\Space))
            do (write-char character stream))))

(defun clisp-frame-text (frame)
  "CLISP has frames for blocks, tags and each form that is interpreted. Calls are told, with
arguments where the function is interpreted."
  (let* ((text (printed-frame frame))
         (line (subseq text 0 (position #\Newline text)))
         (call (search "APPLY frame for call (" text)))
    (flet ((name-after (mark)
             (let* ((found (search mark line))
                    (start (and found (+ found (length mark))))
                    (end (and start (position #\> line :start start))))
               (and end
                    (not (eql start (search "#:" line :start2 start)))
                    (not (eql start (search "NIL>" line :start2 start)))
                    (format nil "(~A)" (subseq line start end))))))
      (cond ((search "APPLY frame for call (:LAMBDA" text) nil)
            (call (without-quotes (substitute #\Space #\Newline (subseq text (+ call 21)))))
            (t (or (name-after "#<COMPILED-FUNCTION ") (name-after "#<SYSTEM-FUNCTION ")))))))

(defun frame-text (frame)
  "What FRAME calls; NIL when it calls nothing."
  (cond ((implementation-p "ECL") (ecl-frame-text frame))
        ((implementation-p "CLISP") (clisp-frame-text frame))
        (t (printed-frame frame))))
