;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Looking at a running call from another thread, without stopping it: what it has printed, and
;;; where it is. Operations: call-output, call-backtrace.

(cl:in-package "AGENT-Q-IMAGE")

(defun running-call (id)
  "The entry of the call ID, or NIL if it has ended."
  (call-with-lock (lambda () (find id *running* :key #'first))))

(defun stage-text (entry)
  "How far the call of ENTRY is, a text, or NIL."
  (let ((stage (first (tenth entry))))
    (and stage (guarded stage (constantly nil)))))

(define-operation "call-output" (call)
  ;; The end of what CALL has printed so far, how many characters that were, and how far it is.
  (let* ((entry (running-call call)) (capture (seventh entry)))
    (if (null capture)
        (list :gone t)
        (progn
          ;; The stream buffers its output, under a lock of its own.
          (guarded (lambda () (finish-output (captured-stream capture))) #'identity)
          (list :text (captured-latest capture) :printed (captured-printed capture)
                :stage (stage-text entry))))))

;;; Where it is

(defparameter *patience-for-backtrace* 2
  "How many seconds a thread may take to say where it is.")

(defun names-of-frames ()
  "The names of the functions on this thread's stack, innermost first. Don't print objects of the
program: its printers may be what runs."
  (let ((map-backtrace (optional-function "SB-DEBUG" "MAP-BACKTRACE"))
        (function-of (optional-function "SB-DI" "FRAME-DEBUG-FUN"))
        (name-of (optional-function "SB-DI" "DEBUG-FUN-NAME"))
        (names '()))
    (funcall map-backtrace
             (lambda (frame) (push (funcall name-of (funcall function-of frame)) names))
             :count 200)
    (nreverse names)))

(defun our-name-p (name operators)
  (and (consp name) (member (first name) '(flet labels lambda)) (setf name (car (last name))))
  (and (symbolp name)
       (or (member (symbol-name name) operators :test #'string=)
           ;; SBCL's interpreter, which runs our functions until they are compiled.
           (and (symbol-package name) (string= (package-name (symbol-package name)) "SB-EVAL")))))

(defun program-names (names)
  "The NAMES between the interrupt and our own functions."
  (let* ((interrupt (position-if (lambda (name)
                                   (and (stringp name) (search "signal" name :test #'char-equal)))
                                 names :from-end t))
         (from (if interrupt (1+ interrupt) 0))
         (to (position-if (lambda (name)
                            (our-name-p name '("PERFORM" "CALL-AROUND" "SIMPLE-EVAL-IN-LEXENV")))
                          names :start from)))
    (remove "bogus stack frame" (subseq names from to) :test #'equal)))

(defun names-in-threads (threads &optional (wanted (constantly t)))
  "For each of THREADS, what NAMES-OF-FRAMES returns there if WANTED does; NIL if it doesn't answer."
  (let ((answers (loop for nil in threads collect (list nil))))
    (loop for thread in threads
          for answer in answers
          do (let ((answer answer) (*stopping* t))
               (guarded (lambda ()
                          (backend "INTERRUPT-THREAD" thread
                                   (lambda ()
                                     (let ((*stopping* nil))
                                       (when (funcall wanted)
                                         (setf (first answer)
                                               (or (guarded #'names-of-frames (constantly nil))
                                                   (list "nothing is known"))))))))
                        ;; It has just ended.
                        (constantly nil))))
    (loop repeat (* 50 *patience-for-backtrace*)
          until (every #'first answers)
          do (sleep 0.02))
    (mapcar #'first answers)))

(defun check-threads-visible ()
  (unless (implementation-p "SBCL")
    (unavailable "Looking at a running call" "its threads can't be looked into while they run")))

(defun file-under-way ()
  "The name of the file that this thread compiles or loads, or NIL."
  (let ((component (and (boundp '*component*) (symbol-value '*component*)))
        (file (or *compile-file-truename* *load-truename*)))
    (guarded (lambda ()
               (cond (component (funcall 'name-in-project component))
                     (file (file-namestring file))))
             (constantly nil))))

(define-operation "call-backtrace" (call)
  ;; The functions that CALL is in now, innermost first, as texts, and the file that it compiles or loads.
  (check-threads-visible)
  (let* ((thread (or (second (running-call call)) (missed "The call has ended.")))
         (file nil)
         (names (first (names-in-threads (list thread)
                                         (lambda ()
                                           (when (eql *call* call)
                                             (setf file (file-under-way))
                                             t))))))
    (unless names
      (missed "The call's thread did not answer in ~D seconds: it can't be interrupted now."
              *patience-for-backtrace*))
    (list :file file
          :frames (mapcar (lambda (name) (if (stringp name) name (printed name :limit 200)))
                          (program-names names)))))

;;; Threads of the program

(defun called-by-thread (names)
  "Of NAMES, a stack of any thread, what the program may know: the implementation's function that it
is in now, if any, and the program's functions."
  (let ((waits nil) (own '()))
    (dolist (name (program-names names))
      (let* ((symbol (and (not (stringp name)) (first-symbol name)))
             (home (and symbol (symbol-package symbol))))
        (cond ((null home))
              ((not (implementation-package-p home)) (push name own))
              ((and (null waits) (null own) (eq name symbol) (external-symbol-p symbol)
                    (not (eq home (find-package "KEYWORD"))))
               (setf waits symbol)))))
    (values waits (nreverse own))))

(defun external-symbol-p (symbol)
  (eq :external (nth-value 1 (find-symbol (symbol-name symbol) (symbol-package symbol)))))

(defun frame-name-text (name)
  (if (symbolp name) (symbol-text name) (printed name :limit 120 :pretty nil)))

(defun thread-place (names limit)
  "What the stack NAMES of a thread says, as the end of a line."
  (multiple-value-bind (waits own) (called-by-thread names)
    (format nil "~@[ in ~A~]~@[: ~{~A~^ < ~}~]~:[~; < ...~]"
            (and waits (string-downcase (symbol-text waits)))
            (loop for name in own repeat limit collect (frame-name-text name))
            (nthcdr limit own))))
