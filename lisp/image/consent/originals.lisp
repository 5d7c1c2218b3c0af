;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Putting guards at functions and taking them off. SBCL keeps what stood there before where code can
;;; read it by a name, so what it keeps is guarded, too.

(cl:in-package "AGENT-Q-IMAGE")

(defun put-guard (watch guard)
  (let ((name (guard-name guard)))
    ;; What is inline is called without its definition; code that is compiled from now on is not.
    (when (eq (internal "SB-INT" "INFO" :function :inlinep name) 'inline)
      (setf (guard-inline guard) t)
      (proclaim (list 'notinline name)))
    (take-guard-off guard)
    (internal "SB-INT" "ENCAPSULATE" name :agent-q-watch (funcall (watch-surrounding watch) guard))
    ;; What is known of the environment is read past the guards there.
    (unless (eq (guard-class guard) :environment) (hide-original watch guard))))

(defun take-guard-off (guard)
  (let ((info (guard-encapsulation guard)))
    (when info
      (set-encapsulated-definition info (bare (encapsulated-definition info))))
    (internal "SB-INT" "UNENCAPSULATE" (guard-name guard) :agent-q-watch)
    ;; It may have been taken off, with which SBCL puts what we gave it in the place of the function.
    (let* ((function (guarded-function guard)) (bare (bare function)))
      (unless (eq function bare)
        (put-back (guard-name guard) bare)))))

(defun put-back (name function)
  "Make FUNCTION that of NAME without a warning, in locked packages, too."
  (let ((setter (list 'setf (find-symbol "FDEFN-FUN" "SB-KERNEL"))))
    (if (fboundp setter)
        (funcall (fdefinition setter) function (internal "SB-INT" "FIND-FDEFN" name))
        ;; Newer SBCLs.
        (eval `(,(find-symbol "WITHOUT-PACKAGE-LOCKS" "SB-EXT") (setf (fdefinition ',name) ,function))))))

(defun bare (function)
  "FUNCTION, or what one of ours stands in for, perhaps one that is left of an earlier text of ours."
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
  "Keep the function at which GUARD stands, and have SBCL keep one that is guarded."
  (let ((info (guard-encapsulation guard)))
    (when info
      (let* ((original (encapsulated-definition info))
             (stand-in (funcall (watch-standing-in watch)
                                (cons (funcall (watch-surrounding watch) guard) original))))
        (setf (guard-kept guard) (cons stand-in original))
        (set-encapsulated-definition info stand-in)))))

(defun guard-encapsulation (guard)
  "What SBCL notes of the function at which GUARD stands, if it has that and is not generic."
  (let ((function (guarded-function guard)))
    (loop for info = (and function (internal "SB-IMPL" "ENCAPSULATION-INFO" function))
          while info
          do (when (eq :agent-q-watch (internal "SB-IMPL" "ENCAPSULATION-INFO-TYPE" info))
               (return info))
             (setf function (encapsulated-definition info)))))

(defun guarded-function (guard)
  "What is called by the name of the function at which GUARD stands: perhaps an encapsulation; or NIL."
  (let ((name (guard-name guard)))
    (and (fboundp name) (internal "SB-KERNEL" "%COERCE-NAME-TO-FUN" name))))

(defun encapsulated-definition (info)
  (internal "SB-IMPL" "ENCAPSULATION-INFO-DEFINITION" info))

(defun set-encapsulated-definition (info function)
  (funcall (fdefinition (list 'setf (find-symbol "ENCAPSULATION-INFO-DEFINITION" "SB-IMPL")))
           function info))
