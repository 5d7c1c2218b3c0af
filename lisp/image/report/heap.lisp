;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The heap during a call, on SBCL. Its collector copies live objects, except big vectors, and if
;;; there is no room for the copy, the image dies. So a call that fills the heap is stopped while
;;; there is still room.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *room-reader* nil
  "A function of a generation. Returns the size of the pages in use, and of those that the collector
copies for the generations below it: big vectors and objects of the core stay where they are.")

(defparameter *generations* 6
  "How many generations SBCL collects; higher ones belong to the core.")

(defvar *looking-at-heap* nil
  "True while this thread checks the heap: that collects garbage, and each collection would start a
check.")

(defun heap-size ()
  (internal "SB-EXT" "DYNAMIC-SPACE-SIZE"))

(defun heap-usage ()
  (internal "SB-KERNEL" "DYNAMIC-USAGE"))

(defun room-reader ()
  "A function for *ROOM-READER*. If this SBCL lays out its pages differently, everything counts as
copied."
  (or (ignore-errors
       (let* ((*package* (find-package "AGENT-Q-IMAGE"))
              (reader (handler-bind ((warning #'muffle-warning))
                        (compile nil (read-from-string
                                      "(lambda (generation)
                                         (loop with copied = 0
                                               for index below (sb-alien:extern-alien
                                                                \"next_free_page\" sb-alien:signed)
                                               for page = (sb-alien:deref sb-vm:page-table index)
                                               for flags = (sb-alien:slot page 'sb-vm::flags)
                                               unless (zerop flags)
                                                 count t into used
                                                 and do (unless (or (logtest 16 flags)
                                                                    (>= (sb-alien:slot page 'sb-vm::gen)
                                                                        generation))
                                                          (incf copied))
                                               finally (return (values
                                                                (* used sb-vm:gencgc-page-bytes)
                                                                (* copied sb-vm:gencgc-page-bytes)))))")))))
         (funcall reader *generations*)
         reader))
      (lambda (generation)
        (declare (ignore generation))
        (values (heap-usage) (heap-usage)))))

(defun heap-begun ()
  "Start checking the heap. Returns a list of how much of it is in use and how much was allocated so
far, or NIL if that can't be known."
  (when (implementation-p "SBCL")
    (ignore-errors
     (prepare-interrupts)
     (unless *room-reader*
       (setf *room-reader* (call-plainly #'room-reader))
       (call-plainly #'look-after-collections))
     (list (heap-usage) (internal "SB-EXT" "GET-BYTES-CONSED")))))

(defun look-after-collections ()
  "Check the heap after each collection, in the thread that collected. SBCL calls the hooks in
another thread, which is too late on a busy machine."
  (let ((notify (find-symbol "FINALIZER-THREAD-NOTIFY" "SB-IMPL")))
    (if (and notify (fboundp notify))
        (internal "SB-INT" "ENCAPSULATE" notify :agent-q-heap
                  (lambda (function &rest arguments)
                    (look-at-heap)
                    (apply function arguments)))
        (pushnew 'look-at-heap (symbol-value (find-symbol "*AFTER-GC-HOOKS*" "SB-EXT"))))))

(defun size-text (bytes)
  "BYTES in readable units."
  (let ((megabytes (round bytes (* 1024 1024))))
    (if (< megabytes 1000)
        (format nil "~D MB" megabytes)
        (let ((tenths (round megabytes 102.4)))
          (format nil "~D~[~:;.~:*~D~] GB" (floor tenths 10) (mod tenths 10))))))

(defun allocated-since (begun)
  "How much the image allocated since BEGUN, of HEAP-BEGUN, as text; NIL if it isn't worth
mentioning."
  (let ((bytes (and begun (- (internal "SB-EXT" "GET-BYTES-CONSED") (second begun)))))
    (and bytes (>= bytes (* 32 1024 1024)) (size-text bytes))))

(defun heap-filling-p (entry)
  "Whether the call of ENTRY may fill the heap within moments."
  (and (eighth entry)
       (> (- (heap-usage) (first (eighth entry))) (/ (heap-size) 5))))

;;; The check after each collection

(defun heap-wanted (&optional (generations *generations*))
  "How much of the heap collecting so many GENERATIONS may need."
  (multiple-value-bind (used copied) (funcall *room-reader* generations)
    (+ used copied)))

(defun collect-within (limit)
  "Collect garbage, as many generations at once as could be copied within LIMIT if all were alive.
What is in use may be garbage that has grown old, and more of it the later this check comes."
  (let ((*looking-at-heap* t))
    (loop repeat 4
          for generations = (loop for count downfrom *generations* to 1
                                  when (< (heap-wanted count) limit) return count)
          while generations
          do (if (= generations *generations*)
                 (return (internal "SB-EXT" "GC" :full t))
                 (internal "SB-EXT" "GC" :gen (1- generations))))))

(defun call-to-blame (used)
  "The entry of the running call that has filled the heap, of which USED bytes are in use; or NIL."
  (flet ((grown-p (entry share)
           (and (eighth entry) (not (sixth entry))
                (> (- used (first (eighth entry))) share))))
    (let ((own (find (backend "CURRENT-THREAD") *running* :key #'second)))
      (if (and own (grown-p own (/ (heap-size) 16)))
          own
          ;; Other threads allocate, too.
          (find-if (lambda (entry) (grown-p entry (/ used 2))) *running*)))))

(defun stop-for-heap (entry used)
  "Stop the call of ENTRY, which runs in this thread and has filled the heap."
  (let ((text (format nil "it used ~A of a heap of ~A~:[~;, and collecting garbage needs room for a copy~]; ~
                           continuing would have killed the image"
                      (size-text (- used (first (eighth entry)))) (size-text (heap-size))
                      (< used (* 7/10 (heap-size))))))
    (setf (sixth entry) t)
    (throw 'stopped
      (list :outcome :cancelled :because text :heap t
            :frames (call-interruptibly #'interrupted-frames)))))

(defun make-room (entry)
  "Collect garbage in the thread of the call of ENTRY, or stop the call if that doesn't help."
  (let ((size (heap-size)))
    ;; Leave some room: copying leaves the ends of pages empty.
    (collect-within (* 9/10 size))
    (let ((used (heap-usage)))
      (when (and (> (heap-wanted) (* 7/10 size)) (eq entry (call-to-blame used)))
        (stop-for-heap entry used)))))

(defun look-for-room ()
  "Interrupt the call that has filled the heap, if there is barely room for the next collection."
  ;; Until the next check a tenth more may be needed, and an eighth with the ends of pages.
  (when (> (heap-wanted) (* 3/4 (heap-size)))
    (let ((entry (call-to-blame (heap-usage))))
      (when entry
        ;; In its own thread, because it can't allocate meanwhile.
        (interrupt-call entry (lambda () (make-room entry)))))))

(defun look-at-heap ()
  "Called after each collection, in any thread."
  (when (and *running* *room-reader* (not *looking-at-heap*))
    (let ((*client* (third (first *running*))) (*looking-at-heap* t))
      (ignore-errors (look-for-room)))))

;;; Afterwards

(defun heap-exhausted-p (condition)
  (and (implementation-p "SBCL")
       (typep condition (find-symbol "HEAP-EXHAUSTED-ERROR" "SB-KERNEL"))))

(defun free-heap ()
  "Release the program's objects that we keep, and collect garbage: the heap was full."
  (dolist (name '("*HANDLES*" "*LAST-EVALUATIONS*"))
    (let ((variable (find-symbol name "AGENT-Q-IMAGE")))
      (when (and variable (boundp variable))
        (set variable '()))))
  (ignore-errors (internal "SB-EXT" "GC" :full t)))
