;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the caller can have done about a condition instead of being told: leave it by a restart,
;;; or park it, with its stack alive, in the client's debugger. Emacs keeps that one to itself.

(cl:in-package "AGENT-Q-IMAGE")

;;; Restarts

(defvar *recoveries* (list '())
  "A list of one element: what the caller's restart was invoked for, latest first.")

(defparameter *recovery-limit* 20
  "How often a call may be recovered: a restart can lead to the same error for ever.")

(defun restart-named (name restarts)
  "The first of RESTARTS called NAME, with or without a package and in any case."
  (let ((name (subseq name (let ((colon (position #\: name :from-end t))) (if colon (1+ colon) 0)))))
    (find-if (lambda (restart)
               (and (restart-name restart)
                    (string-equal name (symbol-name (restart-name restart)))))
             restarts)))

(defun values-of-text (text &optional (evaluator #'eval))
  "The values of the forms in TEXT, each read in the current package and evaluated by EVALUATOR."
  (loop with start = 0
        for count from 1
        for next = (skip-to-form text start)
        while next
        collect (multiple-value-bind (form end) (read-form text next count)
                  (setf start end)
                  (funcall evaluator form))))

(defun note-recovery (condition restart)
  (push (list :type (condition-type-name condition)
              :message (first-line (condition-message condition) 200)
              :restart restart)
        (first *recoveries*)))

(defun recover (condition text)
  "Leave CONDITION by the restart that TEXT, a name and perhaps forms, says; return without it."
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

;;; Restarts of a call

(defvar *restart* nil
  "The name of the restart by which the caller leaves errors, and perhaps forms, or NIL.")

(defun call-recovering (restart function &optional (otherwise (constantly nil)))
  "Call FUNCTION; what nobody handles in it is left by RESTART, if that says one. What is not left so
is given to OTHERWISE."
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

;;; Parking

(defvar *parked* '()
  "The errors that are parked: lists of the debugger's name, the call's id and the reply.")

(lasts-for-the-process '*parked*)

(defun parked-names ()
  "What is parked, but for this very call, each as a name and a condition."
  (loop for (name id reply) in (reverse *parked*)
        unless (eql id *call*)
          collect (list name (first-line (format nil "~A: ~A" (getf reply :type)
                                                 (getf reply :message))
                                         120))))

(defvar *parked-told* '()
  "What PARKED-NAMES gave when the caller was last told.")

(defun parked-news ()
  "What is parked, if that is something else than when the caller was last told."
  (let ((names (parked-names)))
    (unless (equal names (shiftf *parked-told* names))
      names)))

(defun client-debugger ()
  (if (eq *client* :slynk)
      (optional-function "SLYNK" "SLYNK-DEBUGGER-HOOK")
      (optional-function "SWANK" "SWANK-DEBUGGER-HOOK")))

(defun parked-report (condition name)
  ;; Here the restarts of the client are a way out, too.
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
  "Wait in the client's debugger until somebody invokes a restart. Returns only without a debugger."
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
  "The reply to the call ID, which is parked, for the wire; NIL when it isn't any more."
  (let ((entry (find id *parked* :key #'second)))
    (and entry
         (reply-text (third entry)))))

(defun unpark (client id)
  "Forget that the call ID is parked: it is the user's now."
  (let ((*client* client))
    (call-with-lock (lambda () (setf *parked* (remove id *parked* :key #'second))))
    nil))
