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

(defun protect-anew (start size)
  "Protect the pages of this thread's stack as those of a new one."
  (let ((protect (compile nil (read-from-string
                               "(lambda (page size protection)
                                  (sb-alien:alien-funcall
                                   (sb-alien:extern-alien \"mprotect\"
                                    (function sb-alien:int sb-alien:unsigned-long
                                              sb-alien:unsigned-long sb-alien:int))
                                   page size protection))"))))
    (funcall protect (+ start size) size 1)
    (funcall protect (+ start (* 2 size)) size 3)))

(defun inherit-stack (start size tries)
  "Protect the stack at START from a new thread that got it, if it is one of the next TRIES."
  (flet ((work ()
           (guarded (lambda ()
                      (cond ((= start (stack-start)) (protect-anew start size) t)
                            ((plusp tries) (inherit-stack start size (1- tries)))))
                    (constantly nil))))
    (internal "SB-THREAD" "JOIN-THREAD"
              (internal "SB-THREAD" "MAKE-THREAD" #'work :name "agent-q stack guard")
              :default nil)))

(defun guard-stack-after (thread start size)
  "Guard the stack at START once THREAD, whose it is, has ended."
  (internal "SB-THREAD" "MAKE-THREAD"
            (lambda ()
              (guarded (lambda ()
                         (internal "SB-THREAD" "JOIN-THREAD" thread :default nil)
                         ;; Another may have it for a moment.
                         (loop repeat 10
                               until (inherit-stack start size 8)
                               do (sleep 0.05)))
                       (constantly nil)))
            :name "agent-q stack guard"))

(defun guard-stack-again (end)
  "See to it that the end of this thread's stack is guarded, for this thread or for the one that gets
the stack next, if the end was reached. For the END of a call, :RETURNED or :LEFT, by a restart."
  (when (implementation-p "SBCL")
    (guarded (lambda ()
               (let ((start (stack-start)) (size (stack-page-size)))
                 (cond ((> (internal "SB-SYS" "SAP-INT" (internal "SB-VM" "CURRENT-SP"))
                           (+ start (* 3 size)))
                        (touch-return-page start size))
                       ;; What is left from the end runs its clean-up there, too, on its way out.
                       ((eq end :left)
                        (guard-stack-after (backend "CURRENT-THREAD") start size)))))
             (constantly nil))))
