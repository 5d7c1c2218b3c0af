;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Where code is evaluated or compiled in a call: whatever makes code of a list ends here, however the
;;; list came about. What macros make of it is looked at while they are expanded.

(cl:in-package "AGENT-Q-IMAGE")

(defun unlooked-p (hold)
  "Whether code that is evaluated with HOLD in force is part of what may happen: of building, or of a file
that is compiled; or ours."
  (or (member :code (rest hold) :test #'eq)
      (find-if (lambda (it) (and (consp it) (eq (first it) :build))) (rest hold))
      (let ((work (consent-scope (first hold)))) (and work (work-whole work)))))

(defun meet-code (watch guard hold function arguments)
  "As MEET, where GUARD is in the way of all that is evaluated: nothing but code needs a question there."
  (funcall (guard-way guard) watch hold function arguments))

(defun call-with-code (watch hold function arguments)
  "Evaluate or compile the form that is the first of ARGUMENTS."
  (let ((form (first arguments)))
    (if (or (and (atom form) (not (symbolp form)))
            (null (unmet-in form (consent-known (first hold))))
            (unlooked-p hold))
        (apply function arguments)
        (multiple-value-bind (allowed values)
            (settle-code watch (first hold) form #'made-by-implementation-p)
          (if allowed (apply function arguments) (values-list values))))))

(defun call-noting-code (watch hold function arguments)
  "Compile the form that is the first of ARGUMENTS, and note the code: threads may be given it."
  (let ((made (multiple-value-list (call-with-code watch hold function arguments))))
    (note-code watch (first hold) (first made))
    (values-list made)))

(defun call-compiling-frame (watch hold function arguments)
  "Compile the form that is the first of ARGUMENTS for a frame: around it comes what is SBCL's."
  (multiple-value-bind (allowed values) (settle-code watch (first hold) (first arguments))
    (if allowed
        (funcall (watch-call-in watch) (list* (first hold) :code (rest hold))
                 (lambda () (apply function arguments)))
        (values-list values))))

(defun call-standing-for (watch hold function arguments)
  "Define a symbol macro: what it stands for is evaluated without a hook for expansions."
  (multiple-value-bind (allowed values)
      (or (null hold)
          (unlooked-p hold)
          (settle-code watch (first hold) (second arguments)))
    (if allowed
        (call-defining watch hold function arguments)
        (values-list values))))

(defun settle-code (watch consent form &optional (known-p (constantly nil)))
  "Ask about FORM, which is about to be evaluated or compiled, when it names what no guard meets, unless
KNOWN-P says that it may. True when that may be; NIL and the values to return in its place otherwise."
  (let* ((known (consent-known consent))
         (found (unmet-in form known)))
    (cond ((or (null found) (funcall known-p)) t)
          (t (multiple-value-bind (allowed values)
                 (let ((effect (effect-of-made found form)))
                   (if (granted-p consent effect) t (settle-effect watch consent effect)))
               (when allowed (know-code consent form))
               (values allowed values))))))

(defun know-code (consent form)
  "Note that the conses of FORM need no question any more."
  (let ((known (consent-known consent)))
    (labels ((know (it)
               (loop while (and (consp it) (not (gethash it known)))
                     do (setf (gethash it known) t)
                        (know (car it))
                        (setf it (cdr it)))))
      (know form))))

;;; Expansions

(defun know-names (consent expansion)
  "Note that what EXPANSION, of a standard macro, names needs no question: neither where it stands nor in
the copies that macros make which walk code."
  (let* ((known (consent-known consent)) (found (unmet-in expansion known)))
    (when found
      (know-code consent expansion)
      (loop for (nil . names) in found
            do (dolist (name names)
                 (setf (gethash name known) t))))))

(defun looking-hook (watch outside)
  "A hook that looks at what the hook OUTSIDE makes of a form."
  (if (looking-hook-p watch outside)
      outside
      (lambda (expander form environment)
        (let ((expansion (let ((*macroexpand-hook* outside))
                           (funcall outside expander form environment))))
          ;; What is interpreted of ours has macros, too.
          (let ((*program-hook* outside) (*macroexpand-hook* #'funcall))
            (look-at-expansion watch form expansion))
          expansion))))

(defun looking-hook-p (watch hook)
  (flet ((code (function)
           (and (functionp function) (ignore-errors (internal "SB-KERNEL" "%CLOSURE-FUN" function)))))
    (let ((code (code hook)))
      (and code (watch-looking watch) (eq code (code (watch-looking watch)))))))

(defun look-at-expansion (watch form expansion)
  "Look at EXPANSION, of FORM. A macro of the implementation's may expand into what is internal to it."
  (let ((hold (funcall (watch-state watch))))
    (when (and hold (not (unlooked-p hold))
               ;; What is interpreted of ours. Code that names a macro of ours was asked about.
               (not (and (consp form) (symbolp (first form))
                         (eq (symbol-package (first form)) (find-package "AGENT-Q-IMAGE")))))
      (if (and (consp form) (symbolp (first form)) (standard-macro-p (first form))
               (not (and (member (first form) +setting-macros+)
                         (some #'program-place-p (places-of form)))))
          (know-names (first hold) expansion)
          (settle-code watch (first hold) expansion)))))

;;; SBCL compiles for itself, too: dispatch functions, accessors, calls of C's.

(defun frame-owner (frame)
  "The package of what runs in FRAME, a frame of SBCL's debugger, and its name there."
  (let* ((name (directly "SB-DI" "DEBUG-FUN-NAME" (directly "SB-DI" "FRAME-DEBUG-FUN" frame)))
         (name (loop while (consp name)
                     ;; (flet x :in y), (lambda (x) :in y), (setf x)
                     do (setf name (or (second (member :in name)) (second name)))
                     finally (return name))))
    (and name (symbolp name) (symbol-package name)
         (values (package-name (symbol-package name)) (symbol-name name)))))

(defun made-by-implementation-p ()
  "Whether it is SBCL's own functions that want code of this thread evaluated or compiled."
  (loop repeat 60
        for frame = (directly "SB-DI" "TOP-FRAME") then (directly "SB-DI" "FRAME-DOWN" frame)
        while frame
        do (multiple-value-bind (package name) (frame-owner frame)
             (cond ((or (null package)
                        (member package '("AGENT-Q-IMAGE" "SB-EVAL") :test #'string=)
                        (member name '("EVAL" "COMPILE" "COERCE" "APPLY" "FUNCALL" "EVAL-IN-LEXENV" "EVAL-TLF"
                                       "SIMPLE-EVAL-IN-LEXENV" "%SIMPLE-EVAL" "COMPILE-IN-LEXENV"
                                       "%COERCE-CALLABLE-TO-FUN")
                                :test #'string=)))
                   (t (return (member package '("SB-PCL" "SB-ALIEN" "SB-KERNEL" "SB-DI" "SB-C") :test #'string=)))))))
