;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Keeping the stack of a failed evaluation for some minutes, in case the user wants it in the
;;; debugger. The call is answered at once, and its thread waits, outside of any debugger. On SBCL:
;;; elsewhere it can't be known what the stack would hold up.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (kept (:copier nil) (:predicate nil))
  ;; The call's id, its thread, and a semaphore on which the thread waits.
  id thread signal
  ;; Whether clean-up forms of the program are pending.
  unclean
  ;; NIL while it waits, then :LEAVE or :DEBUG.
  way)

(defvar *kept-stacks* '()
  "The stacks that are kept, latest first.")

(lasts-for-the-process '*kept-stacks*)

(defvar *clean-up-before* nil
  "The block of clean-up forms that was innermost before the form that is evaluated.")

(defparameter *locking-functions* '("MUTEX" "RECURSIVE-LOCK" "SPINLOCK" "WITHOUT-GCING" "WORLD-LOCK")
  "Parts of the names of functions that hold a lock.")

(defparameter *signalling-functions*
  '("ERROR" "CERROR" "SIGNAL" "WARN" "BREAK" "INTERNAL-ERROR" "WITH-SIMPLE-CONDITION-RESTARTS")
  "The names of SBCL's functions that signal an error for the program.")

(defun frame-symbols (name)
  "The symbols in NAME, that of a frame's function."
  (cond ((and name (symbolp name)) (list name))
        ((consp name) (loop for part in name repeat 8 append (frame-symbols part)))))

(defun stack-frames ()
  "The frames of this thread, innermost first: lists of an address, above which what it holds ends,
and of the symbols in its name. Those beyond the form that is evaluated are left out."
  (let ((frames '()))
    (block nil
      (internal "SB-DEBUG" "MAP-BACKTRACE"
                (lambda (frame)
                  (push (list (internal "SB-SYS" "SAP-INT" (internal "SB-DI" "FRAME-POINTER" frame))
                              (frame-symbols (internal "SB-DI" "DEBUG-FUN-NAME"
                                                  (internal "SB-DI" "FRAME-DEBUG-FUN" frame))))
                        frames)
                  (when (or (> (first (first frames)) (block-address *clean-up-before*))
                            (nthcdr 2000 frames))
                    (return nil)))))
    (nreverse frames)))

(defun block-address (block)
  (internal "SB-KERNEL" "GET-LISP-OBJ-ADDRESS" block))

(defun ours-p (names)
  "Whether NAMES are those of a frame of ours, or of the interpreter that runs our code."
  (some (lambda (name)
          (let ((package (symbol-package name)))
            (and package (member (package-name package) '("AGENT-Q-IMAGE" "SB-EVAL") :test #'string=))))
        names))

(defun stack-facts ()
  "What this thread's stack holds, of the program's: whether a lock, and whether clean-up forms."
  (let* ((frames (stack-frames))
         (signal (position-if (lambda (frame)
                                (some (lambda (name)
                                        (member (symbol-name name) *signalling-functions* :test #'string=))
                                      (second frame)))
                              frames :from-end t))
         (frames (if signal (nthcdr signal frames) frames)))
    (values (loop for (nil names) in frames
                  thereis (and (not (ours-p names))
                               (some (lambda (name)
                                       (some (lambda (part) (search part (symbol-name name)))
                                             *locking-functions*))
                                     names)))
            (loop for address in (clean-up-addresses)
                  for frame = (find-if (lambda (frame) (> (first frame) address)) frames)
                  thereis (and frame (> address (first (first frames)))
                               (not (ours-p (second frame))))))))

(defun clean-up-addresses ()
  "Where the clean-up forms of this thread stand on its stack, in the form that is evaluated. Stacks
grow towards lower addresses."
  (loop with end = (block-address *clean-up-before*)
        for address = (block-address (innermost-clean-up))
          then (internal "SB-SYS" "SAP-REF-WORD" (internal "SB-SYS" "INT-SAP" address) 0)
        until (or (zerop address) (>= address end))
        collect address))

(defun waited-for-p (thread)
  "Whether another thread waits for a lock that THREAD holds."
  (let ((waits-for (find-symbol "THREAD-WAITING-FOR" "SB-THREAD"))
        (mutex (find-symbol "MUTEX" "SB-THREAD")))
    (and waits-for mutex (fboundp waits-for)
         (some (lambda (other)
                 (let* ((wanted (funcall waits-for other))
                        ;; With a time limit it is the second part.
                        (lock (if (consp wanted) (cdr wanted) wanted)))
                   (and (typep lock mutex)
                        (eq thread (internal "SB-THREAD" "MUTEX-OWNER" lock)))))
               (internal "SB-THREAD" "LIST-ALL-THREADS")))))

(defun heap-tight-p ()
  "Whether the stack might keep alive what the heap has no room for."
  (> (heap-usage) (* 6/10 (heap-size))))

(defun keepable-p (condition)
  "Whether the stack of CONDITION, in this thread, may be kept."
  (and (implementation-p "SBCL")
       (not (typep condition 'storage-condition))
       (not (heap-tight-p))
       (not (held-p *lock*))))

(defun tell-kept (condition)
  "Send the reply of this call to Emacs, before its thread waits. What reading its code left behind
is gone by then, as after other failures, but not before the reply has named it."
  (let ((reply (append (report-of condition)
                       (list :output (captured-text) :value (funcall *progress*))
                       (denials-so-far))))
    (ignore-errors (funcall *tidy*))
    (funcall (client-symbol-named *client* "SEND-TO-EMACS")
             (list :background-message
                   (concatenate '(simple-array character (*))
                                (format nil "agent-q kept: ~D " *call*) (reply-text reply))))))

(defun wait-kept (kept seconds)
  "Wait until KEPT is called for, for SECONDS at most, or until another thread needs what it holds."
  (let ((end (+ (get-internal-real-time) (* seconds internal-time-units-per-second))))
    (progv (list (find-symbol "*DEADLINE*" "SB-IMPL")) (list nil)
      (loop until (or (internal "SB-THREAD" "WAIT-ON-SEMAPHORE" (kept-signal kept) :timeout 1)
                      (kept-way kept)
                      (> (get-internal-real-time) end)
                      (heap-tight-p)
                      (waited-for-p (kept-thread kept)))))))

(defun keep (condition seconds)
  "Keep the stack of CONDITION for SECONDS, if it may be. Returns when it isn't to be kept."
  (when (ignore-errors (keepable-p condition))
    (compile-now 'stack-frames 'stack-facts 'frame-symbols 'ours-p 'clean-up-addresses 'block-address)
    (multiple-value-bind (locks unclean) (stack-facts)
      (if locks
          (let ((progress *progress*))
            (setf *progress* (lambda () (list* :unkept "its thread holds a lock" (funcall progress)))))
          (hold-stack (make-kept :id *call* :thread (backend "CURRENT-THREAD")
                                 :signal (internal "SB-THREAD" "MAKE-SEMAPHORE") :unclean unclean)
                      condition seconds)))))

(defun hold-stack (kept condition seconds)
  "Wait with KEPT, the stack of CONDITION, for SECONDS at most; then debug it, if that is wanted."
  (call-with-lock (lambda () (push kept *kept-stacks*)))
  (unwind-protect
       (progn (ignore-errors (funcall *settle*))
              (call-without-handlers (lambda () (tell-kept condition)))
              (wait-kept kept seconds)
              (drop-kept kept)
              (when (eq :debug (kept-way kept))
                (ignore-errors (remember-forgotten-symbols))
                (call-without-handlers (lambda () (funcall (client-debugger) condition nil)))))
    (drop-kept kept)
    (ignore-errors (funcall *settle* :forget))))

(defun drop-kept (kept)
  (call-with-lock (lambda () (setf *kept-stacks* (remove kept *kept-stacks*)))))

;;; What is called for

(defun call-for-kept (kept way)
  (setf (kept-way kept) way)
  (internal "SB-THREAD" "SIGNAL-SEMAPHORE" (kept-signal kept)))

(defun leave-kept (client id way)
  "Let the kept call ID of CLIENT go on by WAY, \"debug\" or \"leave\". Returns true if it is kept."
  (let* ((*client* client) (kept (find id *kept-stacks* :key #'kept-id)))
    (when kept
      (call-for-kept kept (if (equal way "debug") :debug :leave))
      t)))

(defun leave-unclean ()
  "Let the stacks go that have clean-up forms of the program, and wait until these have run: the
next call may need what they free."
  (let ((unclean (remove-if-not #'kept-unclean *kept-stacks*)))
    (dolist (kept unclean)
      (call-for-kept kept :leave))
    (loop repeat 100
          while (some (lambda (kept) (find (kept-id kept) *running* :key #'first)) unclean)
          do (sleep 0.02))))
