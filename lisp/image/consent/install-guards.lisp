;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Installing guards on functions, and removing them. A guard is an encapsulation (advice). SBCL
;;; keeps the encapsulated function where code can read it by name, so that one is guarded, too.

(cl:in-package "AGENT-Q-IMAGE")

(defun put-guard (watch guard)
  (let ((name (guard-name guard)))
    ;; Inlined calls bypass the definition; at least code compiled from now on won't.
    (when (eq (internal "SB-INT" "INFO" :function :inlinep name) 'inline)
      (setf (guard-inline guard) t)
      (proclaim (list 'notinline name)))
    (take-guard-off guard)
    (internal "SB-INT" "ENCAPSULATE" name :agent-q-watch (funcall (watch-surrounding watch) guard))
    ;; We read the environment past its guards ourselves.
    (unless (eq (guard-class guard) :environment) (hide-original watch guard))))

(defun take-guard-off (guard)
  (let ((info (guard-encapsulation guard)))
    (when info
      (set-encapsulated-definition info (bare (encapsulated-definition info))))
    (internal "SB-INT" "UNENCAPSULATE" (guard-name guard) :agent-q-watch)
    ;; The encapsulation may have been removed; then SBCL installs what we gave it as the function.
    (let* ((function (guarded-function guard)) (bare (bare function)))
      (unless (eq function bare)
        (put-back (guard-name guard) bare)))))

(defun put-back (name function)
  "Make FUNCTION the definition of NAME without a warning, even in a locked package."
  (let ((setter (list 'setf (find-symbol "FDEFN-FUN" "SB-KERNEL"))))
    (if (fboundp setter)
        (funcall (fdefinition setter) function (internal "SB-INT" "FIND-FDEFN" name))
        ;; Newer SBCLs.
        (eval `(,(find-symbol "WITHOUT-PACKAGE-LOCKS" "SB-EXT") (setf (fdefinition ',name) ,function))))))

(defun bare (function)
  "FUNCTION, or the original if it is a stand-in of ours, perhaps left from an earlier version of
this text."
  (let ((pair (and (functionp function)
                   (search "NEW-WATCH" (printed (internal "SB-KERNEL" "%FUN-NAME" function)))
                   (first (ignore-errors (internal "SB-KERNEL" "%CLOSURE-VALUES" function))))))
    (if (and (consp pair) (functionp (first pair)) (functionp (rest pair)))
        (bare (rest pair))
        function)))

(defun remove-guard (guard)
  (take-guard-off guard)
  (when (guard-inline guard)
    (proclaim (list 'inline (guard-name guard)))))

(defun hide-original (watch guard)
  "Keep the original function of GUARD, and have SBCL keep a guarded one."
  (let ((info (guard-encapsulation guard)))
    (when info
      (let* ((original (encapsulated-definition info))
             (stand-in (funcall (watch-standing-in watch)
                                (cons (funcall (watch-surrounding watch) guard) original))))
        (setf (guard-kept guard) (cons stand-in original))
        (set-encapsulated-definition info stand-in)))))

(defun guard-encapsulation (guard)
  "SBCL's record of our encapsulation of GUARD's function, if it has one and isn't generic."
  (let ((function (guarded-function guard)))
    (loop for info = (and function (internal "SB-IMPL" "ENCAPSULATION-INFO" function))
          while info
          do (when (eq :agent-q-watch (internal "SB-IMPL" "ENCAPSULATION-INFO-TYPE" info))
               (return info))
             (setf function (encapsulated-definition info)))))

(defun guarded-function (guard)
  "The function that is called by the name in GUARD, perhaps an encapsulation; or NIL."
  (let ((name (guard-name guard)))
    (and (fboundp name) (internal "SB-KERNEL" "%COERCE-NAME-TO-FUN" name))))

(defun encapsulated-definition (info)
  (internal "SB-IMPL" "ENCAPSULATION-INFO-DEFINITION" info))

(defun set-encapsulated-definition (info function)
  (funcall (fdefinition (list 'setf (find-symbol "ENCAPSULATION-INFO-DEFINITION" "SB-IMPL")))
           function info))
