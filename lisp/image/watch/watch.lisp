;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The watch itself: the part that is compiled at once, because all threads of the image go through
;;; it, and installing and removing it. Operation: watch-remove.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (watch (:type vector) (:copier nil))
  ;; Functions that can't be reached by name: returning the hold in force in this thread; calling a
  ;; function under a hold; making the encapsulation of a guarded function, and its stand-in; making
  ;; a function that carries the hold to another thread; making a predicate that says whether a C
  ;; function may be called.
  state call-in surrounding standing-in inheriting permitting
  ;; Lists of one element, changed under the lock: guards, consents in use, open questions, C
  ;; functions with their hooks, the user's forms and texts about to be evaluated, connections, and
  ;; jobs.
  (guards (list '())) (consents (list '())) (questions (list '())) (foreign (list '()))
  (forms (list '())) (connections (list '())) (jobs (list '()))
  ;; Another: conses of a chat and what was refused after a call of it, in words, latest first.
  (late (list '()))
  ;; The function that makes hooks of C functions, once compiled.
  maker
  ;; The function that opens files whose names have no links, if the system can; and whether it was
  ;; looked for.
  opener opener-sought
  ;; A hook that checks expansions; all such hooks have its code.
  looking
  ;; A list of one element: what couldn't be guarded.
  (unguarded (list '()))
  ;; Whether to remove it once it has no calls.
  leaving
  version)

(defvar *watch-version* nil
  "Distinguishes this version of the module from an earlier one that an image may have.")

(setf *watch-version* (list :watch))

(defun encoding-of-names ()
  "A list of the variable that says how SBCL encodes the names that it gives C."
  (let ((symbol (find-symbol "*DEFAULT-C-STRING-EXTERNAL-FORMAT*" "SB-ALIEN")))
    (and symbol (boundp symbol) (symbol-value symbol) (list symbol))))

(defvar *program-hook* 'funcall
  "In our code that runs in place of a guarded function: the macroexpand hook around it.")

(defun new-watch (version)
  "A watch, of which only safe functions can be reached by name: the hold is the value of an
uninterned symbol that code can't get at."
  (let* ((state (make-symbol "STATE")) (watch (make-watch :version version)))
    (proclaim (list 'special state))
    (setf (symbol-value state) :none)
    (labels ((in-force ()
               (let ((value (symbol-value state))) (if (eq value :none) nil value)))
             (call-in (value function)
               (progv (list state) (list value) (funcall function)))
             (surrounding (guard &aux (passes (and (guard-passes guard) (fdefinition (guard-passes guard))))
                                      ;; In another encoding a name is another file than it says.
                                      (encoding (and (guard-class guard) (encoding-of-names)))
                                      (encodings (and encoding (list (symbol-value (first encoding))))))
               (lambda (function &rest arguments)
                 (declare (dynamic-extent arguments))
                 (let ((function (if (eq function (first (guard-kept guard)))
                                     (rest (guard-kept guard))
                                     function)))
                   ;; Our interpreted code binds variables as it runs: through the functions called
                   ;; below it would come here again, endlessly.
                   (if (or (and (eq (symbol-value state) :none)
                                (not (guard-always guard))
                                (not (and (guard-describes guard) (first (watch-jobs watch)))))
                           (and passes (funcall passes arguments)))
                       (apply function arguments)
                       (let ((hold (if (and (eq (symbol-value state) :none)
                                            (guard-describes guard) (first (watch-jobs watch)))
                                       (hold-of-job watch)
                                       (in-force))))
                         (if (if hold
                                 ;; Our compiled code needs no check.
                                 (not (and (guard-expands guard) (member :code (rest hold) :test #'eq)))
                                 (guard-always guard))
                             ;; Our interpreted code expands macros and makes names: with the
                             ;; program's hook it would come here again, endlessly. Code being
                             ;; evaluated has another hook, and looks up names for itself.
                             (let ((*program-hook* (if (and hold (guard-expands guard))
                                                       (looking-hook watch *macroexpand-hook*)
                                                       *macroexpand-hook*))
                                   (*macroexpand-hook* #'funcall)
                                   (outside (and *looking-up* (not (guard-expands guard))))
                                   (*looking-up* t))
                               (progv encoding encodings
                                 (funcall (if (guard-expands guard) #'meet-code #'meet)
                                          watch guard hold (as-program function outside) (copy-list arguments))))
                             (apply function arguments)))))))
             (standing-in (pair)
               (lambda (&rest arguments)
                 (apply (first pair) (rest pair) arguments)))
             (as-program (function looking-up)
               (let ((hook *program-hook*))
                 (lambda (&rest arguments)
                   (declare (dynamic-extent arguments))
                   (let ((*macroexpand-hook* hook) (*looking-up* looking-up))
                     (apply function arguments)))))
             (inheriting (hold function)
               (lambda (&rest arguments)
                 (call-guarding-stack
                  (lambda ()
                    (block nil
                      ;; A thread that doesn't handle a denial ends; the image may have no debugger.
                      (handler-bind ((effect-denied (lambda (condition)
                                                      (declare (ignore condition))
                                                      (return nil))))
                        (progv (list state) (list hold)
                          (call-keeping-hooks (first hold) function arguments)))))))))
      (setf (watch-state watch) #'in-force
            (watch-permitting watch)
            (lambda (guard kinds)
              (lambda (&rest words)
                (declare (dynamic-extent words))
                (let ((hold (in-force)))
                  (or (null hold)
                      (let ((*macroexpand-hook* #'funcall) (*looking-up* t))
                        (foreign-may-p watch guard hold kinds (copy-list words)))))))
            (watch-call-in watch) #'call-in
            (watch-surrounding watch) #'surrounding
            (watch-standing-in watch) #'standing-in
            (watch-inheriting watch) #'inheriting
            (watch-looking watch) (looking-hook watch #'funcall))
      (values watch
              (list 'call-watched (lambda (id operation arguments work)
                                    (call-under watch id operation arguments work))
                    'call-trying (lambda (work note) (call-denying watch work note))
                    'compile-apart (lambda (names) (call-apart watch names))
                    'answer (lambda (id number decision &optional reason)
                              (take-answer watch id number decision reason))
                    'ask-about-form (lambda (start reasons form)
                                      (put-form-question watch start reasons form))
                    'watch-whole-p (lambda ()
                                     (and (in-force) (null (first (watch-unguarded watch)))))
                    'denials-of (lambda (id) (denials-of-call watch id))
                    'unwatch (lambda (&optional at-once) (remove-watch watch at-once))
                    'leave-watch (lambda () (leave-watch-if-alone watch))
                    'current-watch-p (lambda () (and (eq (watch-version watch) *watch-version*)
                                                     (first (watch-guards watch))
                                                     t))
                    'idle-watch-p (lambda () (null (first (watch-consents watch)))))))))

;;; Installing and removing

(defun watchable-p ()
  (and (implementation-p "SBCL")
       (optional-function "SB-INT" "ENCAPSULATE")
       #+sb-thread t
       t))

(defun add-guards (watch)
  "Install guards on the functions that have none, including new ones."
  (labels ((noting (name function)
             (let ((unguarded (watch-unguarded watch)))
               (setf (first unguarded) (remove name (first unguarded) :test #'equal))
               (handler-case (funcall function)
                 (error () (push name (first unguarded))))))
           (add (&aux (there (make-hash-table :test 'equal)))
           (dolist (guard (first (watch-guards watch)))
             (setf (gethash (guard-name guard) there) t))
           (dolist (guard (all-guards))
             (unless (gethash (guard-name guard) there)
               ;; A function that can't be guarded is no reason to leave the others alone.
               (noting (guard-name guard)
                       (lambda ()
                         (put-guard watch guard)
                         (push guard (first (watch-guards watch)))))))
           (noting "C functions" (lambda () (add-foreign-hooks watch)))
           (unless (watch-opener-sought watch)
             (setf (watch-opener-sought watch) t
                   (watch-opener watch) (ignore-errors (straight-opener))))))
    ;; There may be a call of the program around this.
    (funcall (watch-call-in watch) nil
             (lambda ()
               (call-plainly (lambda ()
                               (call-without-handlers (lambda () (call-with-lock #'add)))))))))

(defun install-watch ()
  "Install the watch, unless it is there."
  (compile-now 'new-watch 'guard-name 'call-finding 'hold-of-job 'call-with-code 'unmet-in 'map-named
               'unmet-reason 'looking-hook 'noting-hook 'note-introduced 'internal-names
               'standard-expansion-p 'operator-of 'standard-macro-p
               ;; What the tests of guards' arguments call, and those.
               'foreign-package-p 'ours-or-the-clients-p 'internal-symbol-p 'prefixed-p 'sets-own-p
               'name-found 'known-dangers 'dangers-of-package)
  (apply #'compile-now (guard-tests))
  (multiple-value-bind (watch entries) (new-watch *watch-version*)
    (add-guards watch)
    (hear-of-closed-connections)
    (loop for (name function) on entries by #'cddr
          do (setf (fdefinition name) function))))

(defun ensure-watch ()
  "Whether there is a watch. Installs one if there is none, or in place of one from an earlier
version that has no calls."
  (flet ((says-p (name)
           (let ((function (optional-function "AGENT-Q-IMAGE" name)))
             (and function (funcall function)))))
    (when (watchable-p)
      (call-with-lock
       (lambda ()
         (unless (or (says-p "CURRENT-WATCH-P")
                     (and (optional-function "AGENT-Q-IMAGE" "IDLE-WATCH-P")
                          (not (says-p "IDLE-WATCH-P"))))
           (says-p "UNWATCH")
           (install-watch)
           (remove-before-saving))))
      t)))

(defun remove-before-saving ()
  "Make sure that a saved image has no watch: our C hooks don't exist when it starts."
  (let ((hooks (find-symbol "*SAVE-HOOKS*" "SB-EXT")))
    (when hooks (pushnew 'forget-watch (symbol-value hooks)))))

(defun forget-watch ()
  (let ((remove (optional-function "AGENT-Q-IMAGE" "UNWATCH")))
    (when remove (funcall remove t))))

(defun remove-watch (watch &optional at-once)
  "Restore the functions once WATCH has no calls, or AT-ONCE. Code of a call can't do that."
  (cond ((funcall (watch-state watch)) nil)
        ((and (first (watch-consents watch)) (not at-once))
         (setf (watch-leaving watch) t)
         nil)
        (t (setf (watch-leaving watch) nil)
           (mapc #'remove-guard (shiftf (first (watch-guards watch)) '()))
           (remove-foreign-hooks watch)
           t)))

(define-operation "watch-remove" ()
  ;; Remove the watch, as if agent-q were gone; at the end of the calls under it.
  (let ((remove (optional-function "AGENT-Q-IMAGE" "UNWATCH")))
    (list :removed (and remove (funcall remove) t))))

;;; Calls under the watch

(defun call-under (watch id operation arguments work)
  "Call WORK, which gets a function that calls its argument with the watch in force, for the call ID
of OPERATION with ARGUMENTS. Returns the reply, with what was denied. Code of a call can't get
another consent than its own."
  (if (funcall (watch-state watch))
      (funcall work #'funcall)
      (let ((consent (new-consent id (getf arguments :watch) nil)) (reply (list nil)))
        (setf (consent-scope consent) (scope-of operation arguments)
              (consent-chat consent) (getf arguments :chat)
              (consent-text consent) (text-of-call arguments))
        (when (equal "watched" (getf arguments :assessed))
          (setf (consent-carried consent)
                (funcall 'make-hash-table :test 'eq :weakness :key :synchronized t)))
        (note-connection watch consent)
        (setf (consent-hooks consent) (hooks-before watch))
        (hold-one (watch-consents watch) consent)
        (unwind-protect
             (progn
               (setf (first reply)
                     (funcall work (lambda (function)
                                     (funcall (watch-call-in watch) (list consent) function))))
               (end-call watch consent (first reply))
               (setf (rest reply) (list :ended)))
          ;; A restart of the client, or the end of the thread, leaves it without notice.
          (unless (rest reply) (end-look watch consent nil))
          (setf (consent-mode consent) :ended
                (first (consent-over consent)) t)
          (drop-one (watch-consents watch) consent)
          (leave-watch-if-alone watch))
        (append (first reply)
                (let ((denials (append (take-late-denials watch consent)
                                       (reverse (first (consent-denials consent))))))
                  (and denials (list :denials denials)))
                (let ((words (first (consent-stopped-at consent))))
                  (and words
                       (list :because (format nil "the user stopped it when it was about to ~A"
                                              words))))
                (let ((unguarded (first (watch-unguarded watch))))
                  (and unguarded
                       (list :unguarded (loop for name in unguarded
                                              collect (printed name :limit 100 :writer #'princ)))))))))

(defun text-of-call (arguments)
  "The code in ARGUMENTS of an operation, as shown to the user, or NIL."
  (let ((text (getf arguments :form)))
    (and (stringp text) (shortened (trimmed text) 1000))))

(defun denials-of-call (watch id)
  (let ((consent (find id (first (watch-consents watch)) :key #'consent-id :test #'eql)))
    (and consent (reverse (first (consent-denials consent))))))

(defun call-denying (watch work note)
  "The values of WORK, called with nothing allowed and nobody asked. NOTE is called with what it
tried, however it exits."
  (let* ((consent (new-consent nil '() :deny))
         ;; The surrounding call settles hooks.
         (within (funcall (watch-state watch))))
    (unless within
      (setf (consent-hooks consent) (hooks-before watch))
      (hold-one (watch-consents watch) consent))
    (unwind-protect (funcall (watch-call-in watch) (list consent) work)
      ;; The surrounding hold allows nothing either.
      (funcall (watch-call-in watch) nil (lambda () (end-look watch consent within)))
      (unless within
        (drop-one (watch-consents watch) consent)
        (leave-watch-if-alone watch))
      (mapc note (reverse (first (consent-denials consent)))))))

(defun call-apart (watch names)
  "If the watch is in force in this thread, compile our functions NAMES in a thread without any of
the program around it. Returns whether the watch is in force."
  (when (funcall (watch-state watch))
    (let* ((client *client*)
           (names (remove (find-package "AGENT-Q-IMAGE") names :key #'symbol-package :test-not #'eq))
           ;; Our own macros reach nothing, but something may have been imported into our package.
           (hold (list (quiet (first (funcall (watch-state watch)))) :code))
           ;; Not COMPILE-NOW: the watch is in force there too, which would start another such
           ;; thread.
           (compiling (funcall (watch-inheriting watch) hold
                               (lambda () (compiled-functions names)))))
      (funcall (watch-call-in watch) nil
               (lambda ()
                 (internal "SB-THREAD" "JOIN-THREAD"
                           (internal "SB-THREAD" "MAKE-THREAD"
                                     (lambda ()
                                       (let ((*client* client))
                                         ;; Nothing under the watch may define what is ours.
                                         (use-compiled (funcall compiling))))
                                     :name "agent-q compiles itself")
                           :default nil))))
    t))
