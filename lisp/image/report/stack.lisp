;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The guard page at the end of a thread's stack on SBCL, which has to be restored after it was
;;; hit. A thread that ends without it passes its stack on to another thread, whose next exhaustion
;;; kills the image.

(cl:in-package "AGENT-Q-IMAGE")

(defun internal (package name &rest arguments)
  "Call an internal function of SBCL."
  (apply (or (optional-function package name)
             (error "There is no ~A::~A." package name))
         arguments))

(defun stack-start ()
  "The lowest address of this thread's stack, which grows down to it."
  (internal "SB-KERNEL" "GET-LISP-OBJ-ADDRESS"
            (symbol-value (find-symbol "*CONTROL-STACK-START*" "SB-VM"))))

(defun stack-page-size ()
  (internal "SB-SYS" "SAP-REF-32"
            (internal "SB-SYS" "INT-SAP"
                      (internal "SB-SYS" "FIND-FOREIGN-SYMBOL-ADDRESS" "os_vm_page_size"))
            0))

;;; A stack starts with a page that kills the process. The next one SBCL protects, to report
;;; exhaustion; and after that it protects the third one instead, to see the thread return.

(defun touch-return-page (start size)
  "Make SBCL restore the guard page of this thread, which isn't that deep in its stack, if it is
missing."
  (funcall (fdefinition (list 'setf (find-symbol "SAP-REF-8" "SB-SYS")))
           0
           (internal "SB-SYS" "INT-SAP" (+ start (* 2 size) (floor size 2)))
           0))

(defun protect-as-new (start size)
  "Protect the pages of this thread's stack like those of a new one."
  (let* ((*package* (find-package "AGENT-Q-IMAGE"))
         (protect (compile nil (read-from-string
                                "(lambda (page size protection)
                                   (sb-alien:alien-funcall
                                    (sb-alien:extern-alien \"mprotect\"
                                     (function sb-alien:int sb-alien:unsigned-long
                                               sb-alien:unsigned-long sb-alien:int))
                                    page size protection))"))))
    (funcall protect (+ start size) size 1)
    (funcall protect (+ start (* 2 size)) size 3)))

(defvar *left-stacks* '()
  "Lists of a thread that a restart took away from the end of its stack, and the start of that
stack.")

(defun inherit-stack (start size)
  "Protect the stack at START like a new one, if this thread got it from one that left it unguarded."
  (let ((left (find start *left-stacks* :key #'second)))
    (when left
      (if (eq (first left) (backend "CURRENT-THREAD"))
          (touch-return-page start size)
          (protect-as-new start size))
      (call-with-lock (lambda () (setf *left-stacks* (remove left *left-stacks*)))))))

(defun start-thread (function)
  (let ((client *client*))
    (internal "SB-THREAD" "MAKE-THREAD"
              (lambda ()
                (let ((*client* client))
                  (guarded function (constantly nil))))
              :name "agent-q stack guard")))

(defun join-thread (thread)
  (internal "SB-THREAD" "JOIN-THREAD" thread :default nil))

(defun try-to-inherit (start size tries)
  "Let one of the next TRIES threads inherit the stack at START."
  (join-thread (start-thread
                (lambda ()
                  (cond ((= start (stack-start)) (inherit-stack start size))
                        ((plusp tries) (try-to-inherit start size (1- tries))))))))

(defun leave-stack (start size)
  "Have the stack at START, which is this thread's, guarded for others once this thread has ended."
  (let ((left (list (backend "CURRENT-THREAD") start)))
    (call-with-lock (lambda () (push left *left-stacks*)))
    (start-thread (lambda ()
                    (join-thread (first left))
                    ;; Another thread may have it for a while.
                    (loop repeat 10
                          while (member left *left-stacks*)
                          do (try-to-inherit start size 8)
                             (sleep 0.05))))))

(defun guard-stack-again (event)
  "Make sure that the end of this thread's stack is guarded again if it was reached, for this thread
or for the next one that gets the stack. EVENT is that of a call: :ENTERED, :RETURNED or :LEFT."
  (when (and (implementation-p "SBCL")
             (or *left-stacks* (not (eq event :entered))))
    (guarded (lambda ()
               (let* ((start (stack-start))
                      (size (stack-page-size))
                      (deep (<= (internal "SB-SYS" "SAP-INT" (internal "SB-VM" "CURRENT-SP"))
                                (+ start (* 3 size)))))
                 (cond ((not deep)
                        (if (eq event :entered)
                            (inherit-stack start size)
                            (touch-return-page start size)))
                       ;; A call that leaves from the end runs its clean-up there, too.
                       ((eq event :left)
                        (leave-stack start size)))))
             (constantly nil))))
