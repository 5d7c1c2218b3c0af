;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Running our own code inside a stopped program: its handlers surround ours, and its stack must
;;; still be there afterwards, whatever we do.

(cl:in-package "AGENT-Q-IMAGE")

(defun handler-variable ()
  "The variable that holds the established handlers, and its value without any. NIL if there is no
such variable."
  (loop for (package-name variable-name first-name)
          in '(("SB-KERNEL" "*HANDLER-CLUSTERS*" "**INITIAL-HANDLER-CLUSTERS**")
               ("SI" "*HANDLER-CLUSTERS*")
               ("SYSTEM" "*HANDLER-CLUSTERS*"))
        for package = (find-package package-name)
        for variable = (and package (find-symbol variable-name package))
        for first = (and package first-name (find-symbol first-name package))
        when (and variable (boundp variable))
          return (values variable
                         (cond ((and first (boundp first)) (symbol-value first))
                               (first-name (last (symbol-value variable)))
                               (t '())))))

(defun call-without-handlers (function)
  "Call FUNCTION with the program's handlers disabled: they would be called for our conditions, and
most handlers unwind the stack."
  (multiple-value-bind (variable first) (handler-variable)
    (let ((*break-on-signals* nil))
      (if variable
          (progv (list variable) (list first) (funcall function))
          (handler-bind ((warning (lambda (condition)
                                    (format *error-output* "~&WARNING: ~A~%" condition)
                                    (muffle-warning condition)))
                         ;; Not every SERIOUS-CONDITION: CLISP's interrupts, by which Emacs stops a
                         ;; call, are some.
                         ((or error storage-condition) #'invoke-debugger))
            (funcall function))))))

(defun left-outwards ()
  (failed "CONTROL-ERROR"
          (format nil "The form tried to leave the debugger, by THROW, RETURN-FROM, GO or a restart such as ~
                       ABORT, to a place outside the form. This was prevented, and the debugger is still ~
                       open. To leave it use call_tool: invoke_restart, restart_frame or return_from_frame.")))

(defun call-staying (function)
  "Return the values of FUNCTION, and keep the program's stack intact: no handler of the program
runs, unhandled conditions are reported, and only the end of our own call unwinds beyond here."
  ;; A list, because SBCL's interpreter can lose assignments to variables on such exits.
  (let ((end (list :left nil)))
    (block staying
      (unwind-protect
           (progn
             (setf (second end)
                   (catch 'missed
                     (setf (second end)
                           (catch 'stopped
                             (setf (second end)
                                   (let ((*our-clean-up* (innermost-clean-up)))
                                     (multiple-value-list (call-reporting function)))
                                   (first end) :returned)
                             (return-from staying))
                           (first end) :stopped)
                     (return-from staying)))
             (setf (first end) :missed))
        (when (eq (first end) :left)
          (return-from staying))))
    (ecase (first end)
      (:returned (values-list (second end)))
      (:stopped (throw 'stopped (second end)))
      (:missed (throw 'missed (second end)))
      (:left (left-outwards)))))

(defun call-reporting (function)
  "Call FUNCTION without the program's handlers; what would enter the debugger ends the operation."
  (call-without-handlers
   (lambda ()
     (backend "CALL-WITH-DEBUGGER-HOOK"
              (lambda (condition hook)
                (declare (ignore hook))
                (throw 'missed (condition-report condition)))
              function))))
