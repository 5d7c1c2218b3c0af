;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Stopping a call from outside: where it was, and parking it there.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *stopped-frame-limit* 8
  "How many frames of the program to show of a stopped call.")

(defun interrupted-number (frames)
  "The number of the first of FRAMES that was there before this thread was interrupted."
  (let ((last (position-if (lambda (frame)
                             (let ((text (frame-text frame)))
                               (and text (search "(\"foreign function" text))))
                           (subseq frames 0 (min 40 (length frames)))
                           :from-end t)))
    (if last (1+ last) 0)))

(defvar *with-interrupts* nil
  "A function that calls its argument with interrupts enabled. Compiled beforehand, as it is needed
inside an interrupt.")

(defun prepare-interrupts ()
  (unless *with-interrupts*
    (setf *with-interrupts*
          (call-plainly (lambda ()
                          (compile nil `(lambda (function)
                                          (,(find-symbol "WITH-INTERRUPTS" "SB-SYS")
                                           (funcall function)))))))))

(defun call-interruptibly (function)
  "Call FUNCTION, inside an interrupt, with interrupts enabled: it may hang, or wait in the
debugger."
  (funcall (or *with-interrupts* #'funcall) function))

(defun our-work-p (frame)
  "Whether FRAME, of SHOWN-FRAMES, is our own work before the program runs."
  (search "AGENT-Q-IMAGE:" (second frame)))

(defun interrupted-frames ()
  "The frames where this thread was interrupted, as in CONDITION-FRAMES; none if unknown."
  (and (implementation-p "SBCL")
       (guarded
        (lambda ()
          ;; The program's printers may print, or hang as before.
          (let* ((found '())
                 (nowhere (make-broadcast-stream))
                 (*standard-output* nowhere) (*error-output* nowhere) (*trace-output* nowhere))
            (backend "CALL-WITH-DEBUGGING-ENVIRONMENT"
                     (lambda ()
                       (let ((frames (backend "COMPUTE-BACKTRACE" 0 200)))
                         (setf found
                               (frame-plists
                                (remove-if #'our-work-p
                                           (shown-frames frames (report-end) *stopped-frame-limit*
                                                         (interrupted-number frames))))))))
            found))
        (constantly '()))))

(defun stopped-report (entry)
  "What to report about the call of ENTRY, which runs in this thread and is being stopped."
  (list :outcome :cancelled
        :frames (call-interruptibly #'interrupted-frames)
        :allocated (and (eighth entry) (allocated-since (eighth entry)))))

(defun stop-reporting (entry)
  "Stop the call of ENTRY, as STOP-RUNNING does; the reply says where it was."
  (let ((reading nil) (last nil))
    (flet ((look ()
             (unless reading
               (setf reading t)
               (let ((report (stopped-report entry)))
                 ;; While it allocates, its stack may not be readable at first. But it must not fill
                 ;; the heap until it is: the heap check no longer stops it.
                 (when (or (getf report :frames) last (heap-filling-p entry))
                   (throw 'stopped report)))
               (setf reading nil))))
      ;; If a printer hangs, or no interrupt is taken, Emacs asks again, for a stop without a
      ;; report.
      (loop for tries downfrom 6 to 0
            while (running-p entry)
            do (when (zerop tries) (setf last t))
               (unless reading
                 (interrupt-call entry #'look))
               (sleep 0.05)))))

;;; Clean-up forms that never end, or that leave the stop for a surrounding loop: a second stop
;;; skips them. SBCL keeps them as a chain of blocks on the stack.

(defun clean-up-variable ()
  (and (implementation-p "SBCL")
       (find-symbol "*CURRENT-UNWIND-PROTECT-BLOCK*" "SB-VM")))

(defun innermost-clean-up ()
  "The block that runs first when this thread unwinds; NIL if unknown."
  (let ((variable (clean-up-variable)))
    (and variable (boundp variable) (symbol-value variable))))

(defun clean-up-p (block)
  "Whether BLOCK is among those that run when this thread unwinds."
  (flet ((address (block)
           (internal "SB-KERNEL" "GET-LISP-OBJ-ADDRESS" block)))
    (loop with wanted = (address block)
          for address = (address (innermost-clean-up))
            then (internal "SB-SYS" "SAP-REF-WORD" (internal "SB-SYS" "INT-SAP" address) 0)
          until (zerop address)
            thereis (= address wanted))))

(defun held-p (lock)
  "Whether this thread holds LOCK, which would stay locked."
  (and lock (implementation-p "SBCL") (internal "SB-THREAD" "HOLDING-MUTEX-P" lock)))

(defun stop-without-clean-up (entry)
  "Stop the call of ENTRY and skip the program's clean-up forms, if possible."
  (interrupt-call
   entry
   (lambda ()
     (call-interruptibly
      (lambda ()
        (let ((compiler (find-symbol "**WORLD-LOCK**" "SB-C")))
          (cond ((and *our-clean-up* (clean-up-p *our-clean-up*)
                      (notany #'held-p (list *lock* (and compiler (symbol-value compiler)))))
                 (let ((*stopping* t))
                   (set (clean-up-variable) *our-clean-up*))
                 (throw 'stopped (list :outcome :cancelled :unclean t)))
                (t (throw 'stopped nil)))))))))

;;; Parking calls that take too long

(define-condition took-too-long (serious-condition)
  ((text :initarg :text :reader took-too-long-text))
  (:report (lambda (condition stream) (write-string (took-too-long-text condition) stream))))

(defun park-for-time (entry name seconds)
  "Park the call of ENTRY, which runs in this thread, under NAME: its SECONDS are up."
  (let ((park (optional-function "AGENT-Q-IMAGE" "PARK"))
        (text (format nil "It ran for ~A s~@[; ~A were allocated in that time~]. CONTINUE lets it go on"
                      seconds (and (eighth entry) (allocated-since (eighth entry))))))
    (with-simple-restart (continue "Resume where it was interrupted.")
      (call-interruptibly
       (lambda () (funcall park (make-condition 'took-too-long :text text) name))))))

(defun park-running (client id name seconds)
  "Interrupt the call ID and park it under NAME: its SECONDS are up."
  (let ((*client* client) (taken nil))
    ;; In a new image, the call may still be on its way to the program's code. If it holds our lock,
    ;; no other call could start.
    (loop for entry = (find id *running* :key #'first)
          repeat 60
          until taken
          do (when entry
               (interrupt-call entry
                               (lambda ()
                                 (unless (or taken (held-p *lock*))
                                   (setf taken t)
                                   ;; Emacs may have asked for a stop meanwhile.
                                   (if (sixth entry)
                                       (throw 'stopped nil)
                                       (park-for-time entry name seconds))))))
             (sleep 0.05))
    nil))
