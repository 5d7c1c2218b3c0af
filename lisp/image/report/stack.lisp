;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The end of a thread's stack on SBCL, which has to be guarded again after it was reached. A thread
;;; that ends unguarded leaves its stack to another one, whose next exhaustion ends the image.

(cl:in-package "AGENT-Q-IMAGE")

(defun internal (package name &rest arguments)
  "The value of a function of SBCL's own."
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

;;; From its start a stack has a page that ends the process, one that SBCL protects to tell of the
;;; exhaustion, and one that it protects instead from then on, to see the thread return.

(defun touch-return-page (start size)
  "Make SBCL guard the stack of this thread, which is not that deep in it, if it does not."
  (funcall (fdefinition (list 'setf (find-symbol "SAP-REF-8" "SB-SYS")))
           0
           (internal "SB-SYS" "INT-SAP" (+ start (* 2 size) (floor size 2)))
           0))

(defun protect-as-new (start size)
  "Protect the pages of this thread's stack as those of a new one."
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
  "Lists of a thread that left from the end of its stack by a restart, and where the stack starts.")

(defun inherit-stack (start size)
  "Protect the stack at START as a new one, if this thread was given it by one that has left it."
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
  "Guard the stack at START, which is this thread's, for others once this thread has ended."
  (let ((left (list (backend "CURRENT-THREAD") start)))
    (call-with-lock (lambda () (push left *left-stacks*)))
    (start-thread (lambda ()
                    (join-thread (first left))
                    ;; Another may have it for a while.
                    (loop repeat 10
                          while (member left *left-stacks*)
                          do (try-to-inherit start size 8)
                             (sleep 0.05))))))

(defun guard-stack-again (event)
  "See to it that the end of this thread's stack is guarded, for this thread or for the one that gets
the stack next, if the end was reached. EVENT is of a call: :ENTERED, :RETURNED or :LEFT."
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
                       ;; What is left from the end runs its clean-up there, too, on its way out.
                       ((eq event :left)
                        (leave-stack start size)))))
             (constantly nil))))
