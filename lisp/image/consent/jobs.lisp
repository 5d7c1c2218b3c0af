;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Jobs: functions that a call gives to threads of the program's, as to the workers of a pool. What they
;;; reach is the call's. Where they are handed over by known means, they take along what is in force; else
;;; they are known by their code, if that was made by the form of a call and is on the stack.

(cl:in-package "AGENT-Q-IMAGE")

;;; Handed over

(defun call-handing-over (watch hold function arguments)
  "Call FUNCTION, by which other threads get ARGUMENTS, with functions that take along what is in force."
  (labels ((given (it depth)
             (cond ((functionp it) (function-under watch (first hold) it))
                   ((and (consp it) (plusp depth))
                    (cons (given (car it) (1- depth)) (given (cdr it) (1- depth))))
                   (t it))))
    (apply function (mapcar (lambda (argument) (given argument 3)) arguments))))

(defun function-under (watch consent function)
  "A function that calls FUNCTION under CONSENT. What is denied is the affair of the thread that calls it."
  (lambda (&rest arguments)
    (funcall (watch-call-in watch) (list consent)
             (lambda () (call-keeping-hooks consent function arguments)))))

;;; Found

(defstruct (job (:type vector) (:copier nil))
  ;; The code, an object of SBCL's; the consent of the call that made it; and when.
  code consent (time (get-internal-real-time)))

(defun note-code (watch consent function)
  "Note that the code of FUNCTION was made by the call of CONSENT."
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
  "Whether what JOB does is still its call's: while that runs, and shortly after its code was made. Later
it is what the program was given to call, as a handler."
  (or (null (consent-mode (job-consent job)))
      (< (- (get-internal-real-time) (job-time job)) (* 10 internal-time-units-per-second))))

(defun hold-of-job (watch)
  "What is in force where this thread, of no call, does a job of one; NIL where it does none."
  (let* ((jobs (remove-if-not (lambda (job) (and (current-job-p job) (elsewhere-p job)))
                              (first (watch-jobs watch))))
         (job (and jobs (find-job jobs))))
    (and job (list (consent-of-job watch job)))))

(defun elsewhere-p (job)
  "Whether this thread is none of the call's of JOB."
  (let ((consent (job-consent job)) (thread (backend "CURRENT-THREAD")))
    (not (or (eq thread (consent-thread consent))
             (member thread (first (consent-threads consent)) :test #'eq)))))

(defun find-job (jobs)
  "The one of JOBS whose code runs in this thread. What has a name is the program's from then on."
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
  "Whether NAME, as SBCL calls a function, is of one that is in no definition."
  (and (consp name)
       (member (first name) '(lambda flet labels))
       (let ((outer (second (member :in name))))
         (or (null outer) (stringp outer) (nameless-p outer)))))

(defun consent-of-job (watch job)
  "The consent that JOB needs: one by which somebody can be asked."
  (let ((consent (job-consent job)))
    (cond ((null (consent-mode consent)) consent)
          ((find nil (first (watch-consents watch)) :key #'consent-mode))
          (t (quiet consent)))))
