;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Looking into an error whose stack is alive. These operations are called in the thread that is
;;; in the client's debugger. Operations: debugger-frames, eval-in-frame, invoke-restart.
;;; Needs: execution, introspection

(cl:in-package "AGENT-Q-IMAGE")

(defun debugger-variable (slynk-name swank-name)
  "The value that the client's debugger has for a variable; NIL outside of the debugger."
  (let* ((package (find-package (if (eq *client* :slynk) "SLYNK" "SWANK")))
         (symbol (and package
                      (find-symbol (if (eq *client* :slynk) slynk-name swank-name) package))))
    (and symbol (boundp symbol) (symbol-value symbol))))

(defun debugged-condition ()
  (or (debugger-variable "*SLYNK-DEBUGGER-CONDITION*" "*SWANK-DEBUGGER-CONDITION*")
      (missed "That debugger is not open any more. list_debuggers tells which are.")))

(defun debugger-restarts ()
  (remove nil (debugger-variable "*SLY-DB-RESTARTS*" "*SLDB-RESTARTS*") :key #'restart-name))

;;; Frames

(defparameter *deepest-frame* 400)

(defun program-frame-list ()
  "The program's frames, innermost first, as pairs of the debugger's number and text."
  (let ((frames '()))
    (loop for frame in (backend "COMPUTE-BACKTRACE" 0 *deepest-frame*)
          for number from 0
          for text = (frame-text frame)
          for operator = (and text (frame-operator text))
          until (and frames (equal operator "(AGENT-Q-IMAGE::PERFORM"))
          do (unless (or (null text)
                         (if frames (internal-frame-p operator) (machinery-frame-p operator)))
               (push (cons number text) frames)))
    (or (nreverse frames)
        (missed "There is no frame of the program on that stack."))))

(defun inner-frame (number)
  "The number of the frame with the variables of frame NUMBER. CLISP has them in the frames of the
forms that the call evaluates."
  (if (implementation-p "CLISP")
      (loop with frames = (backend "COMPUTE-BACKTRACE" 0 number)
            for inner downfrom (1- number) to 0
            for frame = (nth inner frames)
            do (cond ((frame-text frame) (return number))
                     ((search "EVAL frame for form" (printed-frame frame)) (return inner)))
            finally (return number))
      number))

(defun frame-variables (number)
  "The local variables of frame NUMBER, as the client's debugger tells them."
  (loop for local in (guarded (lambda () (backend "FRAME-LOCALS" (inner-frame number)))
                              (constantly '()))
        for name = (getf local :name)
        ;; ECL has the names of what was compiled as texts.
        for symbol = (and (stringp name) (implementation-p "ECL")
                          (ignore-errors (let ((*read-eval* nil)) (read-from-string name))))
        collect (list :name (or symbol name) :value (getf local :value))))

(defun evaluate-in-frame (form number)
  (if (implementation-p "ECL")
      ;; Its own way mixes variables up. So they can be read, but not set.
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
  (let ((locals (frame-variables number)))
    (loop for local in locals
          for count from 0
          when (= count 20)
            collect (list (format nil "[~D more]" (- (length locals) 20)) "")
            and do (loop-finish)
          collect (list (let ((*package* (find-package "COMMON-LISP-USER"))
                              (*print-gensym* nil))
                          (princ-to-string (getf local :name)))
                        (printed (getf local :value) :limit 300 :length 20 :level 4)))))

(defun frame-location (number)
  "Where frame NUMBER stopped, when it is known; what was compiled for the caller has no place."
  (let ((location (guarded (lambda ()
                             (location-plist (backend "FRAME-SOURCE-LOCATION" number)))
                           (constantly nil))))
    (unless (equal (getf location :buffer) "agent-q")
      location)))

(define-operation "debugger-frames" (limit locals)
    "The condition, the restarts and the frames of the debugger that this thread is in."
  (let* ((condition (debugged-condition))
         (frames (program-frame-list))
         (limit (max 1 (min 50 (or limit 10)))))
    (list :type (condition-type-name condition)
          :message (condition-message condition)
          :restarts (loop for restart in (debugger-restarts)
                          collect (list (symbol-name (restart-name restart))
                                        (printed restart :limit 200 :writer #'princ)))
          :total (length frames)
          :frames (loop for (number . text) in frames
                        repeat limit
                        collect (list :number number :text text
                                      :location (frame-location number)
                                      :locals (and locals (local-entries number)))))))

(define-operation "eval-in-frame" (frame form package)
    "The values of forms, evaluated where FRAME stopped, with its variables."
  (debugged-condition)
  (let* ((number (or frame (first (first (program-frame-list)))))
         (home (guarded (lambda () (backend "FRAME-PACKAGE" number)) (constantly nil)))
         (*package* (if package
                        (package-of-text package)
                        (or home *package*)))
         (*recoveries* (list '())))
    (unless (< -1 number (length (backend "COMPUTE-BACKTRACE" 0 (1+ number))))
      (missed "There is no frame ~D; debugger_frames tells their numbers." number))
    (when (null (skip-to-form form 0))
      (missed "There is no form in the text."))
    (unless (implemented-p "EVAL-IN-FRAME")
      (unavailable "eval_in_frame" "it does not keep the variables of frames where code can see them"))
    (append (evaluate-text form (lambda (form) (evaluate-in-frame form number)))
            (list :output (captured-text)))))

;;; Leaving

(defun restart-of-text (text restarts)
  (let ((number (ignore-errors (parse-integer text))))
    (or (and number (<= 0 number) (nth number restarts))
        (restart-named text restarts)
        (missed "There is no restart ~A. There are: ~{~A~^, ~}."
                text (mapcar (lambda (restart) (symbol-name (restart-name restart))) restarts)))))

(define-operation "invoke-restart" (restart values package)
    "Leave the debugger by RESTART, a name or a number, with the values of the forms in VALUES."
  (debugged-condition)
  (let* ((restart (restart-of-text (trimmed restart) (debugger-restarts)))
         (*package* (package-of-text package))
         (arguments (and values (values-of-text values))))
    (when (and (null arguments)
               (member (symbol-name (restart-name restart)) '("USE-VALUE" "STORE-VALUE")
                       :test #'string=))
      (missed "~A needs a value; give it in values." (restart-name restart)))
    (apply #'invoke-restart restart arguments)))
