;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the caller can do about a condition besides reading about it: leave it by a restart, or
;;; park it in the client's debugger, with its stack alive. Emacs doesn't show that debugger.

(cl:in-package "AGENT-Q-IMAGE")

;;; Restarts

(defvar *recoveries* (list '())
  "A list of one element: the conditions for which the caller's restart was invoked, latest first.")

(defparameter *recovery-limit* 20
  "How often a call may recover: a restart can lead to the same error forever.")

(defun restart-named (name restarts)
  "The first of RESTARTS called NAME, with or without a package, ignoring case."
  (let ((name (subseq name (let ((colon (position #\: name :from-end t))) (if colon (1+ colon) 0)))))
    (find-if (lambda (restart)
               (and (restart-name restart)
                    (string-equal name (symbol-name (restart-name restart)))))
             restarts)))

(defun map-forms (function text)
  "What FUNCTION returns for each form in TEXT and the places where that begins and ends. A form is read,
in the current package, once FUNCTION has had the one before."
  (loop with start = 0
        for count from 1
        for next = (skip-to-form text start)
        while next
        collect (multiple-value-bind (form end) (read-form text next count)
                  (setf start end)
                  (funcall function form next end))))

(defun values-of-text (text &optional (evaluator #'eval))
  "The values of the forms in TEXT, each read in the current package and evaluated by EVALUATOR."
  (map-forms (lambda (form start end)
               (declare (ignore start end))
               (funcall evaluator form))
             text))

(defun note-recovery (condition restart)
  (push (list :type (condition-type-name condition)
              :message (first-line (condition-message condition) 200)
              :restart restart)
        (first *recoveries*)))

(defun recover (condition text)
  "Leave CONDITION by the restart in TEXT, a name and perhaps forms; returns if there is no such
restart."
  (let* ((end (position-if (lambda (it) (member it *blanks*)) text))
         (name (subseq text 0 end))
         (restart (restart-named name (compute-restarts condition))))
    (cond ((null restart) (note-recovery condition (format nil "none is called ~A" name)))
          ((< (length (first *recoveries*)) *recovery-limit*)
           (let ((values (guarded (lambda ()
                                    (call-without-handlers
                                     (lambda ()
                                       (values-of-text (subseq text (or end (length text)))))))
                                  (constantly :none))))
             (cond ((eq values :none)
                    (note-recovery condition (format nil "the values for ~A could not be evaluated" name)))
                   (t (note-recovery condition (symbol-name (restart-name restart)))
                      (guarded (lambda () (apply #'invoke-restart restart values))
                               (constantly nil)))))))))

;;; Restarts for a call

(defvar *restart* nil
  "The name, perhaps with forms, of the restart by which the caller leaves errors, or NIL.")

(defun call-recovering (restart function &optional (otherwise (constantly nil)))
  "Call FUNCTION; leave its unhandled conditions by RESTART, if given. OTHERWISE is called with
those that remain."
  (let ((*restart* restart)
        (*recoveries* (list '()))
        (*on-condition* (lambda (condition)
                          (when restart
                            (recover condition restart))
                          (funcall otherwise condition))))
    (funcall function)))

(defun recoveries-of (recoveries)
  "RECOVERIES, a value of *RECOVERIES*, for the wire."
  (list :recoveries (reverse (first recoveries))))

(defun run-to-end (function)
  "Call FUNCTION; returns the report of the condition that ended it, or NIL."
  (block nil
    (let* ((recovering *on-condition*)
           (*on-condition* (lambda (condition)
                             (funcall recovering condition)
                             (return (condition-report condition)))))
      (funcall function))
    nil))

;;; Parking

(defvar *parked* '()
  "The parked errors: lists of the debugger's name, the call's id and the reply.")

(lasts-for-the-process '*parked*)

(defun parked-names ()
  "What is parked, except for this very call, each as a name and a condition."
  (loop for (name id reply) in (reverse *parked*)
        unless (eql id *call*)
          collect (list name (first-line (format nil "~A: ~A" (getf reply :type)
                                                 (getf reply :message))
                                         120))))

(defvar *parked-told* '()
  "The PARKED-NAMES that the caller was last told.")

(defun parked-news ()
  "What is parked, if that has changed since the caller was last told."
  (let ((names (parked-names)))
    (unless (equal names (shiftf *parked-told* names))
      names)))

(defun client-debugger ()
  (if (eq *client* :slynk)
      (optional-function "SLYNK" "SLYNK-DEBUGGER-HOOK")
      (optional-function "SWANK" "SWANK-DEBUGGER-HOOK")))

(defun parked-report (condition name)
  ;; Here, the client's restarts are a way out, too.
  (let ((report (let ((*outer-restarts* '())) (condition-report condition))))
    (append report
            (list :debugger name :output (captured-text) :value (funcall *progress*))
            (denials-so-far))))

(defun denials-so-far ()
  "What was denied to the running call, for its reply."
  (let* ((denials (optional-function "AGENT-Q-IMAGE" "DENIALS-OF"))
         (denied (and denials (funcall denials *call*))))
    (and denied (list :denials denied))))

(defun park (condition name)
  "Wait in the client's debugger until somebody invokes a restart. Returns only if there is no
debugger."
  (let ((debugger (client-debugger))
        (entry (list name *call* (parked-report condition name))))
    (when debugger
      ;; What happens meanwhile is done by others: the user, or calls with journals of their own.
      (ignore-errors (funcall *settle*))
      (unwind-protect
           (progn (call-with-lock (lambda () (push entry *parked*)))
                  ;; It prints frames, with the program's printers.
                  (call-without-handlers (lambda () (funcall debugger condition nil))))
        (call-with-lock (lambda () (setf *parked* (remove entry *parked*))))
        (ignore-errors (funcall *settle* :forget))))))

(defun parked-reply (id)
  "The reply of the parked call ID, for the wire; NIL if it isn't parked any more."
  (let ((entry (find id *parked* :key #'second)))
    (and entry
         (reply-text (third entry)))))

(defun unpark (client id)
  "Forget that the call ID is parked: it is the user's now."
  (let ((*client* client))
    (call-with-lock (lambda () (setf *parked* (remove id *parked* :key #'second))))
    nil))
