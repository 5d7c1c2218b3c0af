;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Leaving an error whose stack is alive: by a restart, or by one of its frames, which is called
;;; again or returns. Operations: invoke-restart, restart-frame, return-from-frame.

(cl:in-package "AGENT-Q-IMAGE")

(defun restart-of-text (text restarts)
  (let ((number (ignore-errors (parse-integer text))))
    (or (and number (<= 0 number) (nth number restarts))
        (restart-named text restarts)
        (missed "No restart ~A. Available: ~{~A~^, ~}."
                text (mapcar (lambda (restart) (symbol-name (restart-name restart))) restarts)))))

(define-operation "invoke-restart" (restart values package)
  ;; Leave the debugger by RESTART, a name or a number, with the values of the forms in VALUES.
  (debugged-condition)
  (let* ((restart (restart-of-text (trimmed restart) (debugger-restarts)))
         (arguments (call-staying
                     (lambda ()
                       (let ((*package* (package-of-text package)))
                         (and values (values-of-text values)))))))
    (when (and (null arguments)
               (member (symbol-name (restart-name restart)) '("USE-VALUE" "STORE-VALUE")
                       :test #'string=))
      (missed "~A needs a value; give it in values." (restart-name restart)))
    (apply #'invoke-restart restart arguments)))

;;; By a frame

(defun lost-argument-p (argument)
  "Whether ARGUMENT stands for one that SBCL has not kept."
  (member (symbol-name (type-of-symbol argument)) '("UNPRINTABLE-OBJECT") :test #'string=))

(defun type-of-symbol (object)
  (let ((type (type-of object)))
    (if (consp type) (first type) type)))

(defun lost-arguments-p (number)
  "Whether SBCL has not kept all arguments of the call that frame NUMBER is."
  (let ((call (and (implementation-p "SBCL") (optional-function "SB-DEBUG" "FRAME-CALL"))))
    (and call
         (some #'lost-argument-p
               (nth-value 1 (funcall call (frame-object number)))))))

(defun leavable-frames ()
  "The numbers of the frames that can be left by, where that is known."
  (loop for (number) in (program-frame-list)
        when (backend "FRAME-RESTARTABLE-P" (frame-object number))
          collect number))

(defun check-leavable (number tool)
  "Make sure that TOOL can leave by frame NUMBER, before anything is evaluated for it."
  (unless (implemented-p (substitute #\- #\_ (string-upcase tool)))
    (unavailable tool "its debugger can't leave a stack by a frame"))
  (when (implementation-p "SBCL")
    (unless (backend "FRAME-RESTARTABLE-P" (frame-object number))
      (missed "Frame ~D can't be left by ~A: it is the implementation's, or was compiled with ~
               (debug 0), where SBCL does not keep what that takes. ~:[No frame of this stack ~
               can~;Frames that can: ~:*~A~]. Use invoke_restart to leave by a restart."
              number tool (let ((others (leavable-frames)))
                            (and others (number-ranges others)))))))

(defun leave-by (number name &rest arguments)
  "Leave by frame NUMBER with the backend's function NAME. Returns only where that can't be done."
  (let ((told (handler-case (apply #'backend name (inner-frame number) arguments)
                (error (condition) (condition-message condition)))))
    (missed "Frame ~D can't be left by: ~A~@[ CLISP leaves only frames of interpreted code.~]"
            number told (implementation-p "CLISP"))))

(define-operation "restart-frame" (frame)
  ;; Unwind to FRAME and call again what it is a call of, as it is defined now.
  (let ((number (call-in-frame frame nil
                               (lambda (number)
                                 (check-leavable number "restart_frame")
                                 (when (lost-arguments-p number)
                                   (missed "Frame ~D can't be called again: SBCL has not kept all of ~
                                            its arguments, as it does for code that is compiled ~
                                            with (debug 2). Restart its caller's frame, or ~
                                            give its values with return_from_frame."
                                           number))
                                 number))))
    (leave-by number "RESTART-FRAME")))

(define-operation "return-from-frame" (frame values package)
  ;; Unwind to FRAME, which returns the values of the forms in VALUES, evaluated in it.
  (destructuring-bind (number . returned)
      (call-in-frame frame package
                     (lambda (number)
                       (check-leavable number "return_from_frame")
                       (cons number
                             (if values
                                 (values-of-text values
                                                 (if (implemented-p "EVAL-IN-FRAME")
                                                     (lambda (form)
                                                       (evaluate-in-frame form number))
                                                     #'eval))
                                 (list nil)))))
    (leave-by number "RETURN-FROM-FRAME" `(values-list ',returned))))
