;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Where a thread of a call comes to a function that is watched. What is in force there is a list of
;;; the consent and of the classes of low functions that an effect covers which may happen just now.

(cl:in-package "AGENT-Q-IMAGE")

(defun meet (watch guard hold function arguments)
  "Call FUNCTION with ARGUMENTS, where GUARD stands and HOLD is in force, if that may be."
  (if (or (null hold) (covered-class-p guard hold arguments))
      (go-on watch guard hold nil function arguments)
      (let* ((arguments (if (guard-describes guard) (own-arguments guard arguments) arguments))
             (effect (effect-at guard arguments)))
        (if (or (null effect)
                (covered-p effect hold)
                (and (eq (guard-class guard) :written) (written-p (first hold) effect))
                (and (eq (guard-class guard) :thread)
                     (member (first arguments) (first (consent-threads (first hold))) :test #'eq))
                (granted-p (first hold) effect))
            (go-on watch guard hold effect function arguments)
            (multiple-value-bind (allowed values) (settle-effect watch (first hold) effect)
              (cond ((not allowed) (values-list values))
                    ((same-effect-p effect (effect-at guard arguments))
                     (go-on watch guard hold effect function arguments))
                    ;; A name means another file than when the user was asked.
                    (t (meet watch guard hold function arguments))))))))

;;; What is covered is a class of low functions; one for files whose names begin in a certain way; or
;;; just the effect that was allowed. Code of the program's may run meanwhile, as a handler.

(defun covered-class-p (guard hold arguments)
  (let ((class (guard-class guard)))
    (and class
         (loop for covered in (rest hold)
                 thereis (if (consp covered)
                             (and (eq class (first covered))
                                  (begins-with-p (rest covered) (first arguments))
                                  (or (not (eq class :rename))
                                      (begins-with-p (rest covered) (second arguments))))
                             (eq class covered))))))

(defun begins-with-p (name given)
  "Whether GIVEN, the native name of a file or its pathname, is really NAME or begins so."
  (flet ((begins (text) (and text (>= (length text) (length name))
                             (string= name text :end2 (length name)))))
    (let ((given (text-of-name given)))
      (or (begins (real-native-name given))
          (begins (real-native-name given :link t))))))

(defun covered-p (effect hold)
  (loop for covered in (rest hold)
          thereis (cond ((stringp covered) (equal covered (effect-identity effect)))
                        ((eq covered :temporary) (own-temporary-p (first hold) effect))
                        ((eq covered :input) (input-copy-p effect))
                        ((consp covered)
                         (case (first covered)
                           (:build (in-scope-p (rest covered) effect))
                           (:detail (and (rest covered)
                                         (equal (rest covered) (effect-detail effect)))))))))

(defun covers-of (guard effect arguments)
  "What EFFECT of ARGUMENTS, which may happen, covers while it does."
  (and effect
       (loop for class in (if (guard-class guard)
                              (cons (guard-class guard) (guard-covers guard))
                              (guard-covers guard))
             collect (cond ((eq class :words) (effect-identity effect))
                           ((eq class :program) (cons :detail (effect-detail effect)))
                           ((eq class :detail)
                            (cons :detail (and (input-put-into-file-p arguments)
                                               (effect-detail effect))))
                           ((eq class :build) (cons :build (new-work :build (effect-target effect))))
                           ((and (effect-files effect)
                                 (member class '(:write :delete :rename :rmdir)))
                            (cons class (first (effect-files effect))))
                           (t class)))))

(defun effect-at (guard arguments)
  "What calling the function of GUARD with ARGUMENTS would do, or NIL. A call that nobody can make
sense of fails by itself, before it does anything."
  (and (guard-describes guard)
       (handler-case (let ((*print-pretty* nil) (*print-base* 10) (*print-radix* nil)
                           (*print-readably* nil) (*print-length* nil) (*print-level* nil))
                       ;; The program's settings could make other words of it.
                       (funcall (guard-describes guard) arguments))
         (effect-denied (condition) (error condition))
         (error () (make-effect :kind "foreign-code" :target (printed (guard-name guard))
                                :words (format nil "call ~A with ~A" (printed (guard-name guard))
                                               (printed arguments :limit 300)))))))

(defun go-on (watch guard hold effect function arguments)
  "Call FUNCTION with ARGUMENTS in the way of GUARD, with what EFFECT covers, if there is one."
  (when (and effect (member (effect-kind effect) '("write-file" "rename-file") :test #'equal))
    (note-written (first hold) effect))
  (let* ((covers (covers-of guard effect arguments))
         (before hold)
         (hold (if covers (cons (first hold) (append covers (rest hold))) hold)))
    (flet ((work ()
             (if (guard-way guard)
                 (funcall (guard-way guard) watch hold function arguments)
                 (apply function arguments))))
      (if covers
          (call-with-handlers-outside
           watch before (lambda () (funcall (watch-call-in watch) hold #'work)))
          (work)))))

(defun call-with-handlers-outside (watch hold work)
  "Call WORK so that the handlers around it run with HOLD in force, not with what WORK may do."
  (let* ((clusters (find-symbol "*HANDLER-CLUSTERS*" "SB-KERNEL"))
         (around (symbol-value clusters)))
    (progv (list clusters) (list nil)
      (handler-bind ((condition
                       (lambda (condition)
                         (progv (list clusters) (list around)
                           (funcall (watch-call-in watch) hold (lambda () (signal condition)))))))
        (funcall work)))))

(defun note-written (consent effect)
  "Note that the call may write the files of EFFECT from now on; of a renamed one, what it is called
then if it had made that."
  (let ((written (consent-written consent)) (files (effect-files effect)))
    (cond ((equal (effect-kind effect) "write-file")
           (dolist (name files) (setf (gethash name written) t)))
          ((gethash (first files) written)
           (setf (gethash (second files) written) t)))))

(defun written-p (consent effect)
  (and (effect-files effect)
       (gethash (first (effect-files effect)) (consent-written consent))))

;;; Ways

(defun call-covering (watch hold classes function arguments)
  (funcall (watch-call-in watch) (cons (first hold) (append classes (rest hold)))
           (lambda () (apply function arguments))))

(defun call-closing (watch hold function arguments)
  "Closing a stream of a file renames and deletes what opening it has made."
  (let* ((stream (first arguments))
         ;; What has written nothing is spared the look at the file's name.
         (file (and (plusp (hash-table-count (consent-written (first hold))))
                    (directly "SB-SYS" "FD-STREAM-P" stream)
                    (directly "SB-IMPL" "FD-STREAM-FILE" stream)))
         (file (and (stringp file) (real-native-name file))))
    ;; Which file it is code may have changed.
    (if (and file (gethash file (consent-written (first hold))))
        (call-covering watch hold (list (cons :delete file) (cons :rename file)) function arguments)
        (apply function arguments))))

(defun call-loading-file (watch hold function arguments)
  (declare (ignore hold))
  (multiple-value-prog1 (apply function arguments)
    ;; It may have brought what is to be watched.
    (add-guards watch)))

(defun call-finding (watch hold function arguments)
  "The definition of a function: a watched one's with the guard, which SBCL leaves out."
  (declare (ignore hold))
  (let ((name (first arguments)))
    (if (find name (first (watch-guards watch)) :key #'guard-name :test #'equal)
        ;; Newer SBCLs have such cells only for lists.
        (if (symbolp name)
            (symbol-function name)
            (internal "SB-KERNEL" "FDEFN-FUN" (internal "SB-INT" "FIND-FDEFN" name)))
        (apply function arguments))))

(defun call-stripping (watch hold function arguments)
  (declare (ignore watch hold))
  (let ((info (internal "SB-IMPL" "ENCAPSULATION-INFO" (first arguments))))
    (if (and info (eq :agent-q-watch (internal "SB-IMPL" "ENCAPSULATION-INFO-TYPE" info)))
        (first arguments)
        (apply function arguments))))

(defun call-linking (watch hold function arguments)
  (declare (ignore hold))
  (multiple-value-prog1 (apply function arguments)
    (when (find (first arguments) (foreign-lists) :key #'first :test #'equal)
      ;; That looks the name up by the function that is watched here.
      (funcall (watch-call-in watch) nil (lambda () (add-foreign-hooks watch))))))

(defun call-looking-up (watch hold function arguments)
  "Look up a host, to which the call may connect then: not to this machine under another's name."
  (declare (ignore watch))
  (let ((found (multiple-value-list (apply function arguments))))
    ;; What nobody was asked about is no reason to connect.
    (dolist (host (and (effect-of-looking-up arguments) found))
      (dolist (address (ignore-errors (internal "SB-BSD-SOCKETS" "HOST-ENT-ADDRESSES" host)))
        (unless (own-address-p address)
          (setf (gethash (address-text (list address)) (consent-hosts (first hold))) t))))
    (values-list found)))

(defun call-making-stream (watch hold function arguments)
  (call-covering watch hold '(:descriptor) function arguments))

(defun call-stopping (watch hold function arguments)
  (declare (ignore watch hold))
  (apply function arguments))

(defun call-interrupting (watch hold function arguments)
  (destructuring-bind (thread interruption) arguments
    (funcall function thread (funcall (watch-inheriting watch) (list (first hold)) interruption))))

(defun call-starting (watch hold function arguments)
  (destructuring-bind (thread work . more) arguments
    (cond ((eq work (optional-function "SB-IMPL" "FINALIZER-THREAD-LOOP"))
           ;; The implementation's own, for whatever is finalized.
           (funcall (watch-call-in watch) nil (lambda () (apply function arguments))))
          (t (note-thread (first hold) thread)
             (apply function thread (funcall (watch-inheriting watch) (list (first hold)) work)
                    more)))))

(defun note-thread (consent thread)
  (let ((*client* (consent-client consent)))
    (call-with-lock
     (lambda ()
       (let ((threads (first (consent-threads consent))))
         (setf (first (consent-threads consent))
               (cons thread
                     (if (nthcdr 100 threads)
                         (remove-if-not (lambda (it) (internal "SB-THREAD" "THREAD-ALIVE-P" it))
                                        threads)
                         threads))))))))

(defun asking-nobody (watch hold work)
  "The function WORK for a thread that serves all of the image: what isn't granted is denied there."
  (funcall (watch-inheriting watch) (list (quiet (first hold))) work))

(defun effect-of-finalizing (arguments)
  "Giving to the garbage collector a socket that has the client's descriptor: it would close that."
  (let ((class (ignore-errors (find-class (find-symbol "SOCKET" "SB-BSD-SOCKETS") nil)))
        (object (first arguments)))
    (and class
         (typep object class)
         (effect-of-closing-socket (list object)))))

(defun call-finalizing (watch hold function arguments)
  "What is finalized runs in a thread that serves all of the image."
  (destructuring-bind (object work . more) arguments
    (apply function object (if (own-buffer-work-p work) work (asking-nobody watch hold work)) more)))

(defun call-handling (watch hold function arguments)
  "What waits for a descriptor is called by any thread that looks."
  (destructuring-bind (descriptor direction work) arguments
    (funcall function descriptor direction (asking-nobody watch hold work))))

(defun call-hooking-process (watch hold function arguments)
  "The hook of a process is called by whatever thread hears of its end: one of a call's can ask."
  (destructuring-bind (hook process) arguments
    (let ((quietly (and hook (asking-nobody watch hold hook))))
      (funcall function
               (and hook
                    (lambda (&rest arguments)
                      (let ((here (funcall (watch-state watch))))
                        (if (and here (eql (consent-id (first here)) (consent-id (first hold))))
                            (funcall (watch-call-in watch) (list (first here))
                                     (lambda () (apply hook arguments)))
                            (apply quietly arguments)))))
               process))))

(defun call-scheduling (watch hold function arguments)
  (let ((timer (first arguments)))
    (unless (inheriting-p watch (slot-value timer 'function))
      ;; Only a thread of its own, or that of the call, can wait for an answer.
      (let ((thread (internal "SB-IMPL" "%TIMER-THREAD" timer)))
        (setf (slot-value timer 'function)
              (funcall (watch-inheriting watch)
                       (list (if (member thread (list t (backend "CURRENT-THREAD")))
                                 (first hold)
                                 (quiet (first hold))))
                       (slot-value timer 'function)))))
    (apply function arguments)))

(defun inheriting-p (watch function)
  "Whether FUNCTION takes along what was in force already, as that of a timer which was scheduled
before."
  (flet ((code (function)
           (ignore-errors (internal "SB-KERNEL" "%CLOSURE-FUN" function))))
    (let ((code (code function)))
      (and code (eq code (code (funcall (watch-inheriting watch) '() #'identity)))))))

(defun call-hooks-of-kind (watch hold function arguments)
  (call-hooks-under watch hold (second arguments) (lambda () (apply function arguments))))

(defun call-hooked (watch hold function arguments)
  (call-hooks-under watch hold (first arguments) (lambda () (apply function arguments))))

(defun call-hooks-under (watch hold hooks work)
  "Call WORK, which calls HOOKS. In a thread of a call they run under its consent; elsewhere those that
a call has changed do, where nobody is asked: it may be the thread that brings answers."
  (let ((consent (and hooks (null hold)
                      (find-if-not (lambda (consent) (hooks-before-p hooks consent))
                                   (first (watch-consents watch))))))
    (cond (consent (funcall (watch-call-in watch) (list (quiet consent)) work))
          ;; A collection may have come while the system opens a file.
          ((member :reading (rest hold) :test #'eq)
           (funcall (watch-call-in watch) (remove :reading hold) work))
          (t (funcall work)))))

(defun defined-name (arguments)
  "The name that a defining function gives a meaning to, by its ARGUMENTS: it stands first, or behind
the new meaning; or what is first is a generic function, or describes a structure."
  (flet ((name-p (it)
           (or (and it (symbolp it))
               (and (consp it) (eq (first it) 'setf) (symbolp (car (last it)))))))
    (let ((first (first arguments)) (second (second arguments)))
      (cond ((typep first 'generic-function)
             (internal "SB-MOP" "GENERIC-FUNCTION-NAME" first))
            ((name-p first) first)
            ((name-p second) second)
            (t (ignore-errors (internal "SB-KERNEL" "DD-NAME" first)))))))

(defun call-defining (watch hold function arguments)
  "Define something, upon which SBCL calls hooks. Threads that are of no call get those of before. The
journal is told for whom it was."
  (let ((note (optional-function "AGENT-Q-IMAGE" "NOTE-DEFINER")))
    (when note
      (funcall note (defined-name arguments) (if hold (consent-id (first hold)) *call*))))
  (unless hold
    (dolist (consent (first (watch-consents watch)))
      (withdraw-hooks consent)))
  (apply function arguments))

(defun hooks-before-p (hooks consent)
  "Whether HOOKS are as some were before the call of CONSENT."
  (loop for (nil value copy) in (consent-hooks consent)
          thereis (and (eq value hooks) (equal copy hooks))))

(defun call-saving (watch hold function arguments)
  "Save the image without the watch, of which it would have no working hooks."
  (declare (ignore hold))
  (unwind-protect
       (progn (funcall (watch-call-in watch) nil (lambda () (remove-watch watch t)))
              (apply function arguments))
    ;; It goes on when there are other threads.
    (add-guards watch)))

(defun quiet (consent)
  "CONSENT where nobody is asked: what was not granted is denied."
  (let ((quiet (copy-seq consent)))
    (setf (consent-mode quiet) :deny)
    quiet))
