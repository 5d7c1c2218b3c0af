;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What happens when a thread of a call comes to a guarded function. The hold is a list of the
;;; consent in force there, and of the classes of low-level functions covered by an effect that may
;;; happen just now.

(cl:in-package "AGENT-Q-IMAGE")

(defun meet (watch guard hold function arguments)
  "Call FUNCTION with ARGUMENTS, where GUARD is installed and HOLD is in force, if that is allowed."
  (if (or (null hold) (covered-class-p guard hold arguments))
      (go-on watch guard hold nil function arguments)
      (let* ((arguments (if (guard-describes guard) (own-arguments guard arguments) arguments))
             (effect (effect-at guard arguments)))
        (if (or (null effect)
                (covered-p effect hold)
                (and (eq (guard-class guard) :written) (written-p (first hold) effect))
                (and (eq (guard-class guard) :thread)
                     (own-thread-p guard (first hold) (first arguments)))
                (granted-p (first hold) effect))
            (go-on watch guard hold effect function arguments)
            (multiple-value-bind (allowed values) (settle-effect watch (first hold) effect)
              (cond ((not allowed) (values-list values))
                    ((same-effect-p effect (effect-at guard arguments))
                     (go-on watch guard hold effect function arguments))
                    ;; The name means another file than when the user was asked.
                    (t (meet watch guard hold function arguments))))))))

(defun own-thread-p (guard consent thread)
  "Whether the call of CONSENT may do to THREAD what GUARD is about: it made the thread, or interrupts
its own, as a timer of SBCL's does."
  (or (member thread (first (consent-threads consent)) :test #'eq)
      (and (eq (guard-way guard) 'call-interrupting) (eq thread (consent-thread consent)))))

;;; A cover is a class of low-level functions; or a class with a prefix of file names; or just the
;;; effect that was allowed. Code of the program, such as a handler, may run meanwhile.

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
  "Whether GIVEN, a native name or a pathname, is NAME or begins with it, links followed."
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

(defun covers-of (guard hold effect arguments)
  "What EFFECT of ARGUMENTS, which is allowed under HOLD, covers while it happens."
  (and effect
       (loop for class in (if (guard-class guard)
                              (cons (guard-class guard) (guard-covers guard))
                              (guard-covers guard))
             collect (cond ((eq class :words) (effect-identity effect))
                           ((eq class :program) (cons :detail (effect-detail effect)))
                           ((eq class :detail)
                            (cons :detail (and (input-put-into-file-p arguments)
                                               (effect-detail effect))))
                           ;; What comes with SBCL may be linked to any C function.
                           ((eq class :contrib) (and (contrib-p effect) :foreign))
                           ((eq class :build) (cons :build (work-of-building hold effect)))
                           ((and (effect-files effect)
                                 (member class '(:write :delete :rename :rmdir)))
                            (cons class (first (effect-files effect))))
                           (t class)))))

(defun effect-at (guard arguments)
  "What calling the function of GUARD with ARGUMENTS would do, or NIL. A call that makes no sense
fails by itself before it does anything."
  (and (guard-describes guard)
       (handler-case (let ((*print-pretty* nil) (*print-base* 10) (*print-radix* nil)
                           (*print-readably* nil) (*print-length* nil) (*print-level* nil))
                       ;; The program's settings could change the words.
                       (funcall (guard-describes guard) arguments))
         (effect-denied (condition) (error condition))
         (error () (make-effect :kind "foreign-code" :target (printed (guard-name guard))
                                :words (format nil "call ~A with ~A" (printed (guard-name guard))
                                               (printed arguments :limit 300)))))))

(defun go-on (watch guard hold effect function arguments)
  "Call FUNCTION with ARGUMENTS in the way of GUARD, with what EFFECT covers, if there is one."
  (when (and effect (member (effect-kind effect) '("write-file" "rename-file") :test #'equal))
    (note-written (first hold) effect))
  (let* ((covers (covers-of guard hold effect arguments))
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
  "Call WORK with the handlers around it running under HOLD, not with what WORK may do."
  (let* ((clusters (find-symbol "*HANDLER-CLUSTERS*" "SB-KERNEL"))
         (around (symbol-value clusters)))
    (progv (list clusters) (list nil)
      (handler-bind ((condition
                       (lambda (condition)
                         (progv (list clusters) (list around)
                           (funcall (watch-call-in watch) hold (lambda () (signal condition)))))))
        (funcall work)))))

(defun note-written (consent effect)
  "Note that from now on the call may write the files of EFFECT; for a renamed file, its new name if
the call made it."
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
  "Close a stream. For a file that the call writes, closing renames and deletes what opening it has
made."
  (let* ((stream (first arguments))
         ;; Streams that have written nothing are spared the look at the file's name.
         (file (and (plusp (hash-table-count (consent-written (first hold))))
                    (directly "SB-SYS" "FD-STREAM-P" stream)
                    (directly "SB-IMPL" "FD-STREAM-FILE" stream)))
         (file (and (stringp file) (real-native-name file))))
    ;; Code may have changed which file it is.
    (if (and file (gethash file (consent-written (first hold))))
        (call-covering watch hold (list (cons :delete file) (cons :rename file)) function arguments)
        (apply function arguments))))

(defun effect-of-delete-file (arguments)
  (unless (certainly-missing-p (first arguments))
    (file-effect "delete-file" "delete ~A" (first arguments) :link t)))

(defun certainly-missing-p (designator)
  "Whether there is no file DESIGNATOR, and SBCL's error about that can be signalled here: CALL-DELETING
does so rather than deleting what may be there by then."
  (let ((name (native-text designator)))
    (and name
         (optional-function "SB-IMPL" "FILE-PERROR")
         (find-symbol "DELETE-FILE-ERROR" "SB-EXT")
         (multiple-value-bind (there errno) (internal "SB-UNIX" "UNIX-LSTAT" name)
           ;; ENOENT and ENOTDIR
           (and (null there) (member errno '(2 20)))))))

(defun call-deleting (watch hold function arguments)
  "Delete a file. For one that isn't there nobody is asked, so the original isn't called."
  (declare (ignore watch))
  (cond ((and hold (certainly-missing-p (first arguments)))
         (let ((*macroexpand-hook* *program-hook*) (*looking-up* nil))
           (with-simple-restart (continue "Return T")
             (internal "SB-IMPL" "FILE-PERROR" (first arguments) 2
                       (find-symbol "DELETE-FILE-ERROR" "SB-EXT"))))
         t)
        (t (apply function arguments))))

(defun call-loading-file (watch hold function arguments)
  (declare (ignore hold))
  (multiple-value-prog1 (apply function arguments)
    ;; It may have brought functions to guard.
    (add-guards watch)))

(defun call-finding (watch hold function arguments)
  "The definition of a function; for a guarded one, with the guard, which SBCL would leave out."
  (declare (ignore hold))
  (let ((name (first arguments)))
    (if (find name (first (watch-guards watch)) :key #'guard-name :test #'equal)
        ;; Newer SBCLs have such fdefns only for lists.
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

(defun call-listing-backtrace (watch hold function arguments)
  "List the stack without the arguments of our own functions: consents are among them."
  (declare (ignore watch hold))
  (labels ((ours-p (it)
             (if (consp it)
                 (or (ours-p (car it)) (ours-p (cdr it)))
                 (and it (symbolp it) (symbol-package it)
                      (member (package-name (symbol-package it)) '("AGENT-Q-IMAGE" "SB-EVAL")
                              :test #'string=)))))
    (mapcar (lambda (frame)
              (if (and (consp frame) (ours-p (first frame))) (list (first frame)) frame))
            (apply function arguments))))

(defun call-linking (watch hold function arguments)
  (declare (ignore hold))
  (multiple-value-prog1 (apply function arguments)
    (when (find (first arguments) (foreign-lists) :key #'first :test #'equal)
      ;; That looks the name up through the function that is guarded here.
      (funcall (watch-call-in watch) nil (lambda () (add-foreign-hooks watch))))))

(defun call-looking-up (watch hold function arguments)
  "Look up a host, to which the call may then connect; but not to this machine under another name."
  (declare (ignore watch))
  (let ((found (multiple-value-list (apply function arguments))))
    ;; A lookup that needed no question doesn't permit connecting.
    (dolist (host (and (effect-of-looking-up arguments) found))
      (dolist (address (ignore-errors (internal "SB-BSD-SOCKETS" "HOST-ENT-ADDRESSES" host)))
        (unless (own-address-p address)
          (setf (gethash (address-text (list address)) (consent-hosts (first hold))) t))))
    (values-list found)))

(defun call-listening (watch hold function arguments)
  (declare (ignore watch))
  (multiple-value-prog1 (apply function arguments)
    (setf (gethash (first arguments) (consent-hosts (first hold))) t)))

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
           ;; The implementation's own thread, for everything that is finalized.
           (funcall (watch-call-in watch) nil (lambda () (apply function arguments))))
          (t (note-thread (first hold) thread)
             (apply function thread
                    (funcall (watch-inheriting watch) (list (first hold)) (sharing-output work))
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
  "The function WORK for a thread that serves the whole image: what isn't granted is denied there."
  (funcall (watch-inheriting watch) (list (quiet (first hold))) work))

(defun effect-of-finalizing (arguments)
  "The effect of a finalizer on a socket with the client's descriptor, which would close that."
  (let* ((object (first arguments))
         ;; Every file that is opened comes through here; its stream is a structure.
         (class (and (typep object 'standard-object)
                     (ignore-errors (find-class (find-symbol "SOCKET" "SB-BSD-SOCKETS") nil)))))
    (and class
         (typep object class)
         (effect-of-closing-socket (list object)))))

(defun call-finalizing (watch hold function arguments)
  "Finalizers run in a thread that serves the whole image."
  (destructuring-bind (object work . more) arguments
    (apply function object (if (own-buffer-work-p work) work (asking-nobody watch hold work)) more)))

(defun call-handling (watch hold function arguments)
  "Handlers for descriptors are called by any thread that waits."
  (destructuring-bind (descriptor direction work) arguments
    (funcall function descriptor direction (asking-nobody watch hold work))))

(defun call-hooking-process (watch hold function arguments)
  "The hook of a process is called by any thread that learns of its end; one of a call's threads can
ask."
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
      ;; Only the call's thread, or a new one, can wait for an answer.
      (let ((thread (internal "SB-IMPL" "%TIMER-THREAD" timer)))
        (setf (slot-value timer 'function)
              (funcall (watch-inheriting watch)
                       (list (if (member thread (list t (backend "CURRENT-THREAD")))
                                 (first hold)
                                 (quiet (first hold))))
                       (slot-value timer 'function)))))
    (apply function arguments)))

(defun inheriting-p (watch function)
  "Whether FUNCTION already carries what was in force, as that of a timer scheduled before."
  (flet ((code (function)
           (ignore-errors (internal "SB-KERNEL" "%CLOSURE-FUN" function))))
    (let ((code (code function)))
      (and code (eq code (code (funcall (watch-inheriting watch) '() #'identity)))))))

(defun call-hooks-of-kind (watch hold function arguments)
  (call-hooks-under watch hold (second arguments) (lambda () (apply function arguments))))

(defun call-hooked (watch hold function arguments)
  (call-hooks-under watch hold (first arguments) (lambda () (apply function arguments))))

(defun call-hooks-under (watch hold hooks work)
  "Call WORK, which calls HOOKS. In a call's thread they run under its consent; elsewhere, those
that a call has changed run with nobody asked: it may be the thread that delivers answers."
  (let ((consent (and hooks (null hold)
                      (find-if-not (lambda (consent) (hooks-before-p hooks consent))
                                   (first (watch-consents watch))))))
    (cond (consent (funcall (watch-call-in watch) (list (quiet consent)) work))
          ;; A garbage collection may have happened while the system opens a file.
          ((member :reading (rest hold) :test #'eq)
           (funcall (watch-call-in watch) (remove :reading hold) work))
          (t (funcall work)))))

(defun defined-name (arguments)
  "The name that a defining function defines, by its ARGUMENTS: it comes first, or after the new
definition; or the first one is a generic function, or describes a structure."
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
  "Define something, which makes SBCL call hooks. Threads of no call get the hooks from before the
calls. Tell the journal who defined it."
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
  "Save the image without the watch, whose C hooks wouldn't work in it."
  (declare (ignore hold))
  (unwind-protect
       (progn (funcall (watch-call-in watch) nil (lambda () (remove-watch watch t)))
              (apply function arguments))
    ;; The image continues if other threads kept it from being saved.
    (add-guards watch)))

(defun quiet (consent)
  "CONSENT with nobody to ask: what wasn't granted is denied."
  (let ((quiet (copy-seq consent)))
    (setf (consent-mode quiet) :deny)
    quiet))
