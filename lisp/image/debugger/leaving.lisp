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
  "Whether ARGUMENT is SBCL's stand-in for one that it hasn't kept."
  (member (symbol-name (type-of-symbol argument)) '("UNPRINTABLE-OBJECT") :test #'string=))

(defun type-of-symbol (object)
  (let ((type (type-of object)))
    (if (consp type) (first type) type)))

(defun lost-arguments-p (number)
  "Whether SBCL hasn't kept all arguments of the call in frame NUMBER."
  (let ((call (and (implementation-p "SBCL") (optional-function "SB-DEBUG" "FRAME-CALL"))))
    (and call
         (some #'lost-argument-p
               (nth-value 1 (funcall call (frame-object number)))))))

(defun leavable-frames ()
  "The numbers of the frames that can be unwound to, if known."
  (loop for (number) in (program-frame-list)
        when (backend "FRAME-RESTARTABLE-P" (frame-object number))
          collect number))

(defun any-leavable-p (frames)
  "Whether one of FRAMES can be called again or left, as far as is known."
  (and (or (implemented-p "RESTART-FRAME") (implemented-p "RETURN-FROM-FRAME"))
       (or (not (implementation-p "SBCL"))
           (some (lambda (frame) (backend "FRAME-RESTARTABLE-P" (frame-object (first frame)))) frames))
       t))

(defun check-leavable (number tool)
  "Miss if TOOL can't leave by frame NUMBER, before evaluating anything for it."
  (unless (implemented-p (substitute #\- #\_ (string-upcase tool)))
    (unavailable tool "its debugger can't leave a stack by a frame"))
  (when (implementation-p "SBCL")
    (unless (backend "FRAME-RESTARTABLE-P" (frame-object number))
      (missed "Frame ~D can't be left by ~A: it is the implementation's, or was compiled with ~
               (debug 0), where SBCL does not keep enough for that. ~:[No frame of this stack ~
               can~;Frames that can: ~:*~A~]. Leave by a restart: call_tool invoke_restart."
              number tool (let ((others (leavable-frames)))
                            (and others (number-ranges others)))))))

(defun leave-by (number name &rest arguments)
  "Leave by frame NUMBER through the backend's function NAME. Returns only if that fails."
  (let ((told (handler-case (apply #'backend name (inner-frame number) arguments)
                (error (condition) (condition-message condition)))))
    (missed "Frame ~D can't be left by: ~A~@[ CLISP leaves only frames of interpreted code.~]"
            number told (implementation-p "CLISP"))))

;;; Methods: SBCL's frames have the code as it was when it was called.

(defun specializer-name (specializer)
  "SPECIALIZER as it is in the names of SBCL's frames."
  (if (typep specializer 'class)
      (class-name specializer)
      (list 'eql (internal "SB-MOP" "EQL-SPECIALIZER-OBJECT" specializer))))

(defun method-call (number)
  "If frame NUMBER is a call of a method, a function that calls its present definition."
  (let ((call (and (implementation-p "SBCL") (optional-function "SB-DEBUG" "FRAME-CALL"))))
    (multiple-value-bind (name arguments) (and call (funcall call (frame-object number)))
      (when (and (consp name) (symbolp (first name))
                 (member (symbol-name (first name)) '("METHOD" "FAST-METHOD" "SLOW-METHOD") :test #'string=)
                 (fboundp (second name)))
        (let* ((generic (fdefinition (second name)))
               (qualifiers (butlast (cddr name)))
               (specializers (first (last name)))
               (method (find-if (lambda (it)
                                  (and (equal qualifiers (method-qualifiers it))
                                       (equal specializers
                                              (mapcar #'specializer-name
                                                      (internal "SB-MOP" "METHOD-SPECIALIZERS"
                                                                      it)))))
                                (internal "SB-MOP" "GENERIC-FUNCTION-METHODS" generic))))
          (unless method
            (missed "Frame ~D is a call of a method that ~A no longer has. Restart its caller's frame."
                    number (printed (second name) :limit 100)))
          (current-method-call generic method arguments number))))))

(defun current-method-call (generic method arguments number)
  "A function that calls METHOD of GENERIC with ARGUMENTS, as frame NUMBER did."
  (let* ((qualifiers (method-qualifiers method))
         (alike (remove qualifiers (compute-applicable-methods generic arguments)
                        :key #'method-qualifiers :test-not #'equal))
         (combination (internal "SB-MOP" "GENERIC-FUNCTION-METHOD-COMBINATION" generic)))
    (cond ((equal qualifiers '(:around))
           ;; Only the generic function knows which methods come next.
           (unless (eq method (first alike))
             (missed "Frame ~D is a call of an :around method by another, so the old definition ~
                      would run. Restart the frame of the outermost one."
                     number))
           (lambda () (apply generic arguments)))
          ((member (symbol-name (type-of-symbol combination))
                   '("STANDARD-METHOD-COMBINATION" "SHORT-METHOD-COMBINATION")
                   :test #'string=)
           (let ((function (internal "SB-MOP" "METHOD-FUNCTION" method))
                 (rest (if qualifiers '() (rest (member method alike)))))
             (lambda () (funcall function arguments rest))))
          (t (missed "Frame ~D is a call of a method under a long-form method combination, so ~
                      the old definition would run. Restart its caller's frame."
                     number)))))

(define-operation "restart-frame" (frame)
  ;; Unwind to FRAME and repeat its call, with the present definition.
  (let ((number (call-in-frame frame nil
                               (lambda (number)
                                 (check-leavable number "restart_frame")
                                 (when (lost-arguments-p number)
                                   (missed "Frame ~D can't be called again: SBCL has not kept all of ~
                                            its arguments, as it does for code that is compiled ~
                                            with (debug 2). Restart its caller's frame, or ~
                                            give its values: call_tool return_from_frame."
                                           number))
                                 number))))
    (let ((current (call-staying (lambda () (method-call number)))))
      (when current
        (internal "SB-DEBUG" "UNWIND-TO-FRAME-AND-CALL" (frame-object number) current)))
    (leave-by number "RESTART-FRAME")))

(define-operation "return-from-frame" (frame values package)
  ;; Unwind to FRAME and let it return the values of the forms in VALUES, evaluated in it.
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
