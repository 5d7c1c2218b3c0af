;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Jobs: functions that a call gives to the program's threads, such as the workers of a pool. Their
;;; effects are the call's. If handed over by known functions, they carry the consent in force;
;;; otherwise they are recognized by their code, if a call's form made it and it is on the stack.

(cl:in-package "AGENT-Q-IMAGE")

;;; Handed over

(defun call-handing-over (watch hold function arguments)
  "Call FUNCTION, which hands ARGUMENTS to other threads, and make functions in them carry the
consent in force."
  (labels ((given (it depth)
             (cond ((functionp it) (function-under watch (first hold) it))
                   ((and (consp it) (plusp depth))
                    (cons (given (car it) (1- depth)) (given (cdr it) (1- depth))))
                   (t it))))
    (apply function (mapcar (lambda (argument) (given argument 3)) arguments))))

(defun function-under (watch consent function)
  "A function that calls FUNCTION under CONSENT. A denial is left to the thread that calls it."
  (lambda (&rest arguments)
    (funcall (watch-call-in watch) (list consent)
             (lambda () (call-keeping-hooks consent function arguments)))))

;;; Recognized by their code

(defstruct (job (:type vector) (:copier nil))
  ;; The code object; the consent of the call that made it; and when.
  code consent (time (get-internal-real-time)))

(defun note-code (watch consent function)
  "Note that the call of CONSENT made the code of FUNCTION."
  (when (and (functionp function) (null (consent-mode consent)))
    (let ((job (make-job :code (internal "SB-KERNEL" "FUN-CODE-HEADER"
                                         (internal "SB-KERNEL" "%FUN-FUN" function))
                         :consent consent))
          (*client* (consent-client consent)))
      (call-with-lock
       (lambda ()
         (setf (first (watch-jobs watch))
               (cons job (remove-if-not #'current-job-p (first (watch-jobs watch))))))))))

(defun current-job-p (job)
  "Whether JOB still counts as its call's: while that runs, and shortly after its code was made.
Later it is something that the program was given to call, such as a handler."
  (or (null (consent-mode (job-consent job)))
      (< (- (get-internal-real-time) (job-time job)) (* 10 internal-time-units-per-second))))

(defun hold-of-job (watch)
  "What is in force if this thread, not of any call, runs a call's job; NIL if it runs none."
  (let* ((jobs (remove-if-not (lambda (job) (and (current-job-p job) (elsewhere-p job)))
                              (first (watch-jobs watch))))
         (job (and jobs (find-job jobs))))
    (and job (list (job-consent job)))))

(defun elsewhere-p (job)
  "Whether this thread isn't one of the call that made JOB."
  (let ((consent (job-consent job)) (thread (backend "CURRENT-THREAD")))
    (not (or (eq thread (consent-thread consent))
             (member thread (first (consent-threads consent)) :test #'eq)))))

(defun find-job (jobs)
  "The one of JOBS whose code is on this thread's stack. Code with a name is the program's once it
is defined."
  (let ((count 0))
    (block nil
      (internal "SB-DEBUG" "MAP-BACKTRACE"
                (lambda (frame)
                  (when (> (incf count) 200) (return nil))
                  (let* ((function (internal "SB-DI" "FRAME-DEBUG-FUN" frame))
                         (code (and (nameless-p (internal "SB-DI" "DEBUG-FUN-NAME" function))
                                    (ignore-errors
                                     (internal "SB-DI" "COMPILED-DEBUG-FUN-COMPONENT" function))))
                         (job (and code (find code jobs :key #'job-code :test #'eq))))
                    (when job (return job)))))
      nil)))

(defun nameless-p (name)
  "Whether NAME, as SBCL names a function, is that of an anonymous one outside any definition."
  (and (consp name)
       (member (first name) '(lambda flet labels))
       (let ((outer (second (member :in name))))
         (or (null outer) (stringp outer) (nameless-p outer)))))
