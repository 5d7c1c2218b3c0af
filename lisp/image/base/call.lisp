;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; How Emacs calls: one operation per call, in a thread of its own, and one text as the answer,
;;; whatever happens; and how Emacs stops a call.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *running* '()
  "The running calls: lists of the call's id, thread, client, operation, start time, whether it is
to be stopped, its output, the heap at its start, a list with whether an interrupt is on its way, and
one with what NOTE-STAGE got.")

(defvar *lock* (let ((*client* (if (backend-package :slynk) :slynk :swank)))
                 (backend "MAKE-LOCK" :name "agent-q calls")))

(defvar *call* nil
  "The id of the call in this thread, while it can be stopped.")

(defvar *assessed* nil
  "How many forms of the text that is about to run were assessed and still mean the same; :WATCHED
if none were, as the watch meets what they do; NIL if that doesn't matter.")

(defvar *progress* (constantly nil)
  "A function that returns what the operation has done so far, in case it doesn't finish.")

(defvar *stage* (list nil)
  "A list with what NOTE-STAGE got in this call.")

(defun note-stage (function)
  "From now on, FUNCTION tells how far this call is. It is called in any thread and returns a text, or
NIL."
  (setf (first *stage*) function))

(defvar *on-condition* (constantly nil)
  "Called with an unhandled condition before it is reported; may leave by a restart.")

(defvar *our-clean-up* nil
  "While the program runs: what INNERMOST-CLEAN-UP returned before.")

(defvar *outer-restarts* '()
  "The restarts from before the call: they are the client's, not the program's.")

(defun call-with-lock (function)
  (backend "CALL-WITH-LOCK-HELD" *lock* function))

(defun guard-stack (event)
  "Keep this thread's stack guarded, at EVENT of a call: :ENTERED, :RETURNED or :LEFT (by a
restart)."
  ;; It arrives with the first call that needs more than the base.
  (let ((guard (optional-function "AGENT-Q-IMAGE" "GUARD-STACK-AGAIN")))
    (when guard (funcall guard event))))

(defun stop-requested-p ()
  "Whether this thread's call is to be stopped, so that anything that unwinds it may continue."
  (some (lambda (entry)
          (and (eq (second entry) (backend "CURRENT-THREAD")) (sixth entry)))
        *running*))

(defun call-guarding-stack (function)
  "Call FUNCTION, and leave this thread's stack guarded however FUNCTION exits."
  ;; A list, because SBCL's interpreter can lose assignments to variables.
  (let ((end (list :left)))
    (unwind-protect
         (progn (guard-stack :entered)
                (multiple-value-prog1 (funcall function)
                  (setf (first end) :returned)))
      (guard-stack (first end)))))

(defun call-with-registration (id operation function)
  (let* ((*stage* (list nil))
         (entry (list id (backend "CURRENT-THREAD") *client* operation (get-internal-real-time)
                      ;; Whether it is to be stopped.
                      nil
                      *captured*
                      (let ((begun (optional-function "AGENT-Q-IMAGE" "HEAP-BEGUN")))
                        (and begun (funcall begun)))
                      (list nil)
                      *stage*)))
    (call-guarding-stack
     (lambda ()
       (unwind-protect
            (progn (call-with-lock (lambda () (push entry *running*)))
                   (values (funcall function)))
         (call-with-lock (lambda () (setf *running* (remove entry *running*)))))))))

(defun call-around (operation function arguments)
  "Call FUNCTION with ARGUMENTS; in the journal, if OPERATION can redefine something."
  (flet ((work ()
           (let* ((innermost (optional-function "AGENT-Q-IMAGE" "INNERMOST-CLEAN-UP"))
                  (*our-clean-up* (and innermost (funcall innermost))))
             (apply function arguments))))
    (let ((journal (optional-function "AGENT-Q-IMAGE" "CALL-IN-JOURNAL")))
      (if journal
          (funcall journal operation #'work arguments)
          (work)))))

(defun with-hint (condition report)
  "REPORT, with a hint where the name that CONDITION misses is defined, if known."
  (let* ((hint (optional-function "AGENT-Q-IMAGE" "ELSEWHERE-HINT"))
         (text (and hint (guarded (lambda () (funcall hint condition)) (constantly nil)))))
    (when text
      (setf (getf report :message) (format nil "~A~%~A" (getf report :message) text)))
    report))

(defun report-of (condition)
  "The reply about CONDITION. This runs in the debugger hook, so there is no other debugger for
errors in it: they are reported as well, or the call would never end."
  (guarded (lambda () (with-hint condition (condition-report condition)))
           (lambda (problem)
             (list :outcome :error
                   :type (type-name condition)
                   :message (format nil "No report could be made of it because of this error: ~A: ~A"
                                    (type-name problem)
                                    (or (ignore-errors (princ-to-string problem)) "not printable"))))))

(defun call-without-redefinitions (function)
  "Call FUNCTION; note what it redefines, once the code for that has arrived."
  (funcall (or (optional-function "AGENT-Q-IMAGE" "CALL-REDEFINING") #'funcall) function))

(defun assessed-of (given)
  "How much of the code was assessed, given GIVEN from Emacs. What was left to the watch is assessed
form by form while it runs, if some functions couldn't be guarded."
  (cond ((not (equal given "watched")) given)
        ((funcall (or (optional-function "AGENT-Q-IMAGE" "WATCH-WHOLE-P") (constantly nil))) :watched)
        (t 0)))

(defun perform (operation arguments)
  "The reply of OPERATION. A condition that would enter the debugger is reported, not debugged."
  (let ((function (optional-function "AGENT-Q-IMAGE" (operation-function-name operation))))
    (block nil
      (catch 'missed
        (unless function
          (throw 'missed
            (list :outcome :missed :unknown t
                  :message (format nil "Unknown operation of the image: ~A." operation))))
        (backend "CALL-WITH-DEBUGGER-HOOK"
                 (lambda (condition hook)
                   (declare (ignore hook))
                   (funcall *on-condition* condition)
                   (return (report-of condition)))
                 (lambda ()
                   (let ((*assessed* (assessed-of (getf arguments :assessed)))
                         ;; A huge one would make names that fill the heap, for all.
                         (*gensym-counter* *gensym-counter*))
                     (return
                       (list :outcome :returned
                             :value (call-without-redefinitions
                                     (lambda ()
                                       (call-around operation function arguments))))))))))))

(defun perform-stoppable (id operation arguments &optional (around #'funcall))
  ;; *CALL* is bound inside the CATCH: code that sees it bound can throw NIL or a reply. Don't SETF
  ;; the reply from within: SBCL's interpreter, which runs this at first, loses assignments to
  ;; variables if an unbound variable was left on the way.
  (or (catch 'stopped
        (let ((*call* id))
          (funcall around (lambda () (perform operation arguments)))))
      (list :outcome :cancelled)))

(defun perform-watched (id operation arguments)
  "Like PERFORM-STOPPABLE, but ask about effects outside the program if there is a watch and Emacs
wants it. The reply says what was denied."
  (let* ((options (getf arguments :watch))
         (ensure (and options (not (getf options :off)) (not (getf options :look))
                      (optional-function "AGENT-Q-IMAGE" "ENSURE-WATCH"))))
    (when ensure
      (funcall (or (optional-function "AGENT-Q-IMAGE" "LEAVE-UNCLEAN") (constantly nil))))
    (cond ((and ensure (funcall ensure))
           (funcall (optional-function "AGENT-Q-IMAGE" "CALL-WATCHED") id operation arguments
                    (lambda (around) (perform-stoppable id operation arguments around))))
          ((getf options :look) (perform-looking id operation arguments))
          (t (perform-stoppable id operation arguments)))))

(defun call-looking (function &optional (note #'identity))
  "Call FUNCTION with no effects allowed, if there is a watch; NOTE is called with what it tries."
  (let ((trying (optional-function "AGENT-Q-IMAGE" "CALL-TRYING")))
    (if trying (funcall trying function note) (funcall function))))

(defun perform-looking (id operation arguments)
  "Like PERFORM-STOPPABLE, for operations that only look. The program's printers, which a call may
have defined, get no effects: nobody expects a look to have any."
  (let* ((ensure (optional-function "AGENT-Q-IMAGE" "ENSURE-WATCH"))
         (denials (progn (when ensure (funcall ensure)) '()))
         (reply (call-looking (lambda () (perform-stoppable id operation arguments))
                              (lambda (words) (push words denials)))))
    (append reply (and denials (list :denials (reverse denials))))))

(defvar *tidy* (constantly nil)
  "A function that removes what reading the code of this call left behind.")

(defun perform-tidily (id operation arguments)
  "Like PERFORM-WATCHED. If running code fails, remove what reading it left behind."
  (let ((tidy (optional-function "AGENT-Q-IMAGE" "CALL-TIDYING-SYMBOLS"))
        (form (getf arguments :form)))
    (flet ((work () (perform-watched id operation arguments)))
      (if (and tidy form)
          (funcall tidy form (getf arguments :package) #'work)
          (work)))))

(defun call-showing-names-plainly (function)
  "Call FUNCTION with the client's debugger, should the user get it, printing names as in CL-USER:
Emacs calls in a package without symbols."
  (let ((variable (client-symbol-named *client* "*BUFFER-PACKAGE*")))
    (progv (and variable (list variable)) (list (find-package "COMMON-LISP-USER"))
      (funcall function))))

(defun call-for-text (id operation arguments)
  "The text of OPERATION's reply, and whether the heap was full."
  (call-with-captured-output
   (lambda ()
     (let ((reply (call-with-registration
                   id operation
                   (lambda ()
                     (call-showing-names-plainly
                      (lambda () (perform-tidily id operation arguments)))))))
       (values
        (reply-text (if (member (getf reply :outcome) '(:error :cancelled))
                        (let ((progress (guarded *progress* (constantly '()))))
                          (append reply
                                  (list :output (getf progress :output (captured-text))
                                        :value progress)))
                        reply))
        (getf reply :heap))))))

(defun call (client id operation arguments)
  "Run OPERATION with the property list ARGUMENTS for CLIENT; returns the reply's text. CANCEL with
the same ID stops it."
  (multiple-value-bind (text full)
      (let ((*client* client)
            (*package* (find-package "COMMON-LISP-USER"))
            (*readtable* *readtable*)
            ;; If code could set these, later calls and the user's REPL would read differently.
            (*read-base* *read-base*) (*read-suppress* nil)
            (*progress* (constantly nil))
            (*on-condition* (constantly nil))
            (*outer-restarts* (compute-restarts)))
        (ensure-undelayed)
        (call-for-text id operation arguments))
    ;; Nothing of the call is held here any more.
    (when full
      (funcall (optional-function "AGENT-Q-IMAGE" "FREE-HEAP")))
    text))

(defun running-p (entry)
  (member entry *running*))

(defvar *stopping* nil
  "True while we interrupt or stop a call ourselves, which the watch lets pass.")

(defun interrupt-call (entry function)
  "Call FUNCTION in the thread of the call of ENTRY, if it still runs there and can be stopped."
  ;; If a thread is interrupted twice, SBCL makes it send itself a signal, which the watch would ask
  ;; about: so a second interrupt waits until the first was taken.
  (let ((id (first entry)) (on-its-way (ninth entry)))
    (unless (and (first on-its-way) (implementation-p "SBCL"))
      (setf (first on-its-way) t)
      (let ((*stopping* t))
        (backend "INTERRUPT-THREAD" (second entry)
                 (lambda ()
                   ;; That may be this thread.
                   (let ((*stopping* nil))
                     (setf (first on-its-way) nil)
                     (when (eql *call* id) (funcall function)))))))))

(defun stop-running (entry)
  "Stop the call of ENTRY by a throw: no handler of the program can catch it, and clean-up forms
run."
  (let ((heard nil))
    (flet ((interrupt ()
             (interrupt-call entry (lambda ()
                                     (unless heard
                                       (setf heard t)
                                       (throw 'stopped nil))))))
      (interrupt)
      ;; On ABCL any other thread may take the interrupt.
      (when (implementation-p "ABCL")
        (loop repeat 100
              do (sleep 0.02)
              until (or heard (not (running-p entry)))
              do (interrupt))))))

(defun cancel (id &optional (way "STOP-RUNNING"))
  "Stop the call ID by the function named WAY, or by STOP-RUNNING if that doesn't exist."
  (let* ((entry (find id *running* :key #'first)) (*client* (third entry)))
    (cond (entry
           (setf (sixth entry) t)
           (funcall (or (optional-function "AGENT-Q-IMAGE" way) #'stop-running) entry)
           "stopping")
          (t "not running"))))
