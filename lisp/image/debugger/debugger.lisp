;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Looking into an error whose stack is alive. These operations run in the thread that is in the
;;; client's debugger. Operations: debugger-frames, eval-in-frame.

(cl:in-package "AGENT-Q-IMAGE")

(defun debugger-variable (slynk-name swank-name)
  "The value of a variable of the client's debugger; NIL outside the debugger."
  (let* ((package (find-package (if (eq *client* :slynk) "SLYNK" "SWANK")))
         (symbol (and package
                      (find-symbol (if (eq *client* :slynk) slynk-name swank-name) package))))
    (and symbol (boundp symbol) (symbol-value symbol))))

(defun debugged-condition ()
  (or (debugger-variable "*SLYNK-DEBUGGER-CONDITION*" "*SWANK-DEBUGGER-CONDITION*")
      (missed "That debugger is no longer open. call_tool list_debuggers lists the open ones.")))

(defun debugger-restarts ()
  (remove nil (debugger-variable "*SLY-DB-RESTARTS*" "*SLDB-RESTARTS*") :key #'restart-name))

;;; Frames

(defparameter *deepest-frame* 400)

(defun frames-on-stack ()
  "The frames to show, innermost first, as from SHOWN-FRAMES; may be empty."
  (shown-frames (backend "COMPUTE-BACKTRACE" 0 *deepest-frame*)
                ;; Nothing below our own call is the program's. The frames that make this answer, in
                ;; a call of their own, are above.
                (let ((calls 0))
                  (lambda (operator shown)
                    (and (equal operator "(AGENT-Q-IMAGE::PERFORM")
                         (or shown (> (incf calls) 1)))))))

(defun program-frame-list ()
  "The same, or a miss if there is none."
  (or (frames-on-stack)
      (missed "That stack has no frame of the program.")))

(defun number-ranges (numbers)
  "NUMBERS, ascending, as text: \"0, 2 to 5\"."
  (let ((ranges '()))
    (dolist (number numbers)
      (if (and ranges (= number (1+ (cdr (first ranges)))))
          (setf (cdr (first ranges)) number)
          (push (cons number number) ranges)))
    (format nil "~{~A~^, ~}"
            (loop for (first . last) in (nreverse ranges)
                  collect (case (- last first)
                            (0 first)
                            (1 (format nil "~D, ~D" first last))
                            (t (format nil "~D to ~D" first last)))))))

(defun chosen-frame (number frames)
  "The one of FRAMES with NUMBER; without a number, the innermost one of the program."
  (cond (number
         (or (assoc number frames)
             (missed "There is no frame ~D. ~:[The only frame is~;The frames are~] ~A; ~
                      debugger_frames shows more."
                     number (rest frames) (number-ranges (mapcar #'first frames)))))
        (t (or (find-if #'third frames) (first frames)))))

(defun frame-package (frame frames)
  "The package in which to read code for FRAME: that of what it calls, or else of its callers."
  (or (loop for (nil text) in (member frame frames :test #'eq)
            thereis (operator-package (frame-operator text)))
      *package*))

(defun inner-frame (number)
  "The number of the frame that has the variables of frame NUMBER. On CLISP, those are in the frames
of the forms that the call evaluates."
  (if (implementation-p "CLISP")
      (loop with frames = (backend "COMPUTE-BACKTRACE" 0 number)
            for inner downfrom (1- number) to 0
            for frame = (nth inner frames)
            do (cond ((frame-text frame) (return number))
                     ((search "EVAL frame for form" (printed-frame frame)) (return inner)))
            finally (return number))
      number))

(defun frame-variables (number)
  "The local variables of frame NUMBER, as the client's debugger lists them."
  (loop for local in (guarded (lambda () (backend "FRAME-LOCALS" (inner-frame number)))
                              (constantly '()))
        for name = (getf local :name)
        ;; ECL has the names of compiled variables as strings.
        for symbol = (and (stringp name) (implementation-p "ECL")
                          (ignore-errors (let ((*read-eval* nil)) (read-from-string name))))
        collect (list :name (or symbol name) :value (getf local :value))))

(defun in-form-p (symbol form)
  "Whether SYMBOL occurs in FORM, which may be circular."
  (let ((seen (make-hash-table :test 'eq)))
    (labels ((walk (form)
               (cond ((eq form symbol) t)
                     ((or (atom form) (gethash form seen)) nil)
                     (t (setf (gethash form seen) t)
                        (or (walk (car form)) (walk (cdr form)))))))
      (walk form))))

(defun check-frame-variable (name form number)
  "Miss if NAME, in FORM, isn't a variable of frame NUMBER."
  (let ((names (remove-duplicates (mapcar (lambda (variable) (princ-to-string (getf variable :name)))
                                          (frame-variables number))
                                  :test #'string= :from-end t)))
    (when (and (in-form-p name form)
               (not (member (symbol-name name) names :test #'string=)))
      (missed "~A has no global value and is not among this frame's variables~@[: ~{~A~^, ~}~]. The compiler may have removed it; (declare (optimize (debug 3))) in the function keeps it."
              (symbol-text name) names))))

(defun evaluate-in-frame (form number)
  (handler-bind ((unbound-variable
                   (lambda (condition)
                     (check-frame-variable (cell-error-name condition) form number))))
    (evaluate-with-variables form number)))

(defun evaluate-with-variables (form number)
  (if (implementation-p "ECL")
      ;; ECL's own way mixes variables up. So they can be read, but not set.
      (let ((variables (remove-duplicates
                        (loop for variable in (frame-variables number)
                              for name = (getf variable :name)
                              when (and (symbolp name) (not (constantp name)))
                                collect (list name `',(getf variable :value)))
                        :key #'first :from-end t)))
        (eval `(let ,variables
                 (declare (ignorable ,@(mapcar #'first variables)))
                 ,form)))
      (backend "EVAL-IN-FRAME" form (inner-frame number))))

(defun local-entries (number)
  "The variables of frame NUMBER as lists of name, value and, if there is more to it, a handle; if
there are many, the last ones are only named. Leaves out uninterned ones: they belong to the
compiler or to a macro."
  (let ((locals (remove-if (lambda (local)
                             (let ((name (getf local :name)))
                               (and (symbolp name) (null (symbol-package name)))))
                           (frame-variables number))))
    (flet ((name (local)
             (let ((*package* (find-package "COMMON-LISP-USER")))
               (princ-to-string (getf local :name)))))
      (loop for (local . others) on locals
            for count from 1
            collect (let* ((value (getf local :value))
                           (text (printed value :limit 300 :length 20 :level 4)))
                      (list (name local) text (handle-beyond value text)))
            when (and others (= count 20))
              collect (list (format nil "~D more" (length others))
                            (shortened (format nil "~{~A~^ ~}" (mapcar #'name others)) 300))
              and do (loop-finish)))))

(defun frame-entry (frame locals)
  (destructuring-bind (number text operator) frame
    (list* :number number :text text
           ;; The text has the arguments of the implementation's own frames.
           :locals (and locals operator (local-entries number))
           (and operator (frame-place number operator)))))

(define-operation "debugger-frames" (debugger limit locals)
  ;; The condition, the restarts and the frames of the debugger that this thread is in, which Emacs
  ;; calls DEBUGGER.
  (let ((condition (debugged-condition)))
    (call-staying
     (lambda ()
       (let ((frames (frames-on-stack))
             (limit (max 1 (min 50 (or limit 10)))))
         (list :debugger debugger
               :type (condition-type-name condition)
               :message (condition-message condition)
               :restarts (loop for restart in (debugger-restarts)
                               collect (list (symbol-name (restart-name restart))
                                             (printed restart :limit 200 :writer #'princ)))
               :leavable (any-leavable-p frames)
               :total (length frames)
               :frames (loop for frame in frames
                             repeat limit
                             collect (frame-entry frame locals))))))))

(defun call-in-frame (number package function)
  "Call FUNCTION with the number of the frame NUMBER, reading text in PACKAGE or the frame's
package, and stay in the debugger."
  (debugged-condition)
  (call-staying
   (lambda ()
     (let* ((frames (program-frame-list))
            (frame (chosen-frame number frames))
            (*package* (if package
                           (package-of-text package)
                           (frame-package frame frames))))
       (funcall function (first frame))))))

(define-operation "eval-in-frame" (frame form package)
  ;; The values of forms, evaluated in FRAME with its variables.
  (let ((*recoveries* (list '())))
    (call-in-frame
     frame package
     (lambda (number)
       (when (null (skip-to-form form 0))
         (missed "The text contains no form."))
       (unless (implemented-p "EVAL-IN-FRAME")
         (unavailable "eval_in_frame"
                      "it does not keep the variables of frames accessible to code"))
       (append (evaluate-text form (lambda (form) (evaluate-in-frame form number)))
               (list :output (captured-text)))))))
