;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Symbols that reading a call's code leaves in the user's packages if the call fails. They mean
;;; nothing, but a later USE-PACKAGE would run into them as name conflicts.

(cl:in-package "AGENT-Q-IMAGE")

(defun quoting-operator-p (operator)
  (and (symbolp operator)
       (member (symbol-name operator) '("QUOTE" "QUASIQUOTE" "BACKQUOTE") :test #'string=)))

(defun map-evaluated-symbols (function form)
  "Call FUNCTION with the symbols of FORM outside quoted data, which may have been kept."
  (let ((open (list form)) (seen (make-hash-table :test 'eq)))
    (loop while open
          do (let ((part (pop open)))
               (cond ((symbolp part) (funcall function part))
                     ((or (atom part) (gethash part seen) (quoting-operator-p (first part))))
                     (t (setf (gethash part seen) t)
                        (push (rest part) open)
                        (push (first part) open)))))))

(defun nothing-known-p ()
  "A function that quickly recognizes most symbols without a meaning, which most symbols in an image
are."
  (let ((info (optional-function "SB-KERNEL" "SYMBOL-%INFO")))
    (if info
        (lambda (symbol)
          (not (or (boundp symbol) (fboundp symbol) (funcall info symbol))))
        (constantly nil))))

(defvar *forgotten-symbols* '()
  "The symbols of this call that were forgotten, each with the package that it was in.")

(defun forget-symbol (symbol)
  "Unintern SYMBOL if reading made it in a remembered package and it means nothing."
  (let ((before (and symbol (symbol-package symbol)
                     (assoc (symbol-package symbol) *symbols-before*))))
    (when (and before
               (gethash (symbol-name symbol) (rest before))
               (meaningless-p symbol)
               (not (locked-p (first before))))
      (push (cons symbol (first before)) *forgotten-symbols*)
      (unintern symbol (first before)))))

(defun remember-forgotten-symbols ()
  "Put the forgotten symbols back that have no successor: the user may define in the debugger what
the code called, and try again."
  (loop for (symbol . package) in *forgotten-symbols*
        unless (nth-value 1 (find-symbol (symbol-name symbol) package))
          do (import symbol package)))

(defun forget-unread (text start)
  "Forget the symbols of TEXT after START, where it can't be read and so has no forms."
  (let ((names (names-in (subseq text start))))
    (loop for (package . missing) in *symbols-before*
          do (when package
               (dolist (name names)
                 (when (gethash name missing)
                   (multiple-value-bind (symbol status) (find-symbol name package)
                     (when (and status (eq (symbol-package symbol) package))
                       (forget-symbol symbol)))))))))

(defun forget-symbols-of-text (text done)
  "Forget the symbols that reading TEXT made, except those of its first DONE forms, which were run."
  (loop with start = 0
        for count from 1
        for next = (skip-to-form text start)
        while next
        do (multiple-value-bind (form end problem) (read-inert text next)
             (when problem
               (forget-unread text next)
               (return))
             (when (> count done)
               (map-evaluated-symbols #'forget-symbol form))
             (setf start end))))

(defun forms-done (progress)
  "How many forms were run, according to the PROGRESS of an evaluation or a compilation."
  (or (getf progress :compiled) (length (getf progress :forms))))

(defun call-tidying-symbols (text package function)
  "Call FUNCTION, which reads TEXT in PACKAGE, runs it and returns a reply. If that is a failure,
forget the symbols that reading made."
  (let ((*symbols-before* '()) (*forgotten-symbols* '()) (*tidy* *tidy*))
    (flet ((there (function)
             ;; Nothing in here is an answer; in a debugger, the answer is that of the call that
             ;; stopped there.
             (catch 'missed
               (guarded (lambda ()
                          (let ((*package* (or (and package (find-package-named package))
                                               *package*)))
                            (funcall function)))
                        (constantly nil)))))
      (there (lambda ()
               (remember-symbols *package* text)))
      (setf *tidy* (lambda ()
                     ;; This reads as the program does: reader macros may be those of a call, or of a
                     ;; parked error.
                     (call-looking
                      (lambda ()
                        (there (lambda ()
                                 (forget-symbols-of-text text (forms-done (funcall *progress*)))))))))
      (let ((reply (funcall function)))
        (unless (eq (getf reply :outcome) :returned)
          (funcall *tidy*))
        reply))))
