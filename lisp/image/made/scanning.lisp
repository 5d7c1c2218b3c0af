;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Names in code for things that no guard meets at run time: memory and foreign code, internals of
;;; the implementation, of the client and of ours. Checking names is enough: code that hides them
;;; has to make code, which is checked in its turn.

(cl:in-package "AGENT-Q-IMAGE")

(define-table +unmet-reasons+
  '("calls foreign code" "reaches into Emacs" "changes agent-q's own half in the image"
    "uses system calls")
  "The reasons for which code is asked about when evaluated or compiled.")

(defun dangers-of-package (package)
  "Lists of a reason and its names in PACKAGE, or :ALL and the exceptions, or :INTERNAL."
  (let ((name (package-name package)))
    (append
     (loop for (reason . groups) in (if name +danger-table+ '())
           when (member reason +unmet-reasons+ :test #'string=)
             append (loop for (patterns . names) in groups
                          when (some (lambda (pattern)
                                       (let ((star (position #\* pattern)))
                                         (if star
                                             (prefixed-p (subseq pattern 0 star) name)
                                             (string= pattern name))))
                                     patterns)
                            collect (cons reason names)))
     (and name
          (or (member name +internal-packages+ :test #'string=)
              (prefixed-p "SB-ALIEN" name))
          '(("uses what is internal to the implementation" :internal))))))

(defun known-dangers (package)
  "DANGERS-OF-PACKAGE, cached."
  (let ((table (load-time-value
                (if (find-package "SB-EXT")
                    (funcall 'make-hash-table :test 'eq :weakness :key :synchronized t)
                    (make-hash-table :test 'eq)))))
    (multiple-value-bind (dangers known) (gethash package table)
      (if known
          dangers
          (setf (gethash package table)
                ;; Even that looks up names as long as it is interpreted.
                (let ((*looking-up* t)) (dangers-of-package package)))))))

(define-table +met-names+ '("ALIEN-FUNCALL" "EXTERN-ALIEN" "DEFINE-ALIEN-ROUTINE")
  "Operators that call C by name: the name is met when it is linked.")

(defun met-p (symbol)
  "Whether what SYMBOL names is met when it happens: a guarded function, or a hook variable."
  (let ((package (package-name (symbol-package symbol))) (name (symbol-name symbol)))
    (or (loop for (guarded) in (rest (assoc package (guard-lists) :test #'string=))
                thereis (equal name guarded))
        (member name (rest (assoc package (hook-names) :test #'string=)) :test #'string=)
        (member name +met-names+ :test #'string=)
        ;; Our tables, for interpreted code: they return data.
        (and (string= package "AGENT-Q-IMAGE") (prefixed-p "COPY-OF-" name)))))

(defun unmet-reason (symbol)
  "Why code that names SYMBOL is asked about, or NIL."
  (let* ((package (symbol-package symbol))
         (dangers (and package
                       (not (eq package (load-time-value (find-package "COMMON-LISP"))))
                       (not (eq package (load-time-value (find-package "KEYWORD"))))
                       (known-dangers package)))
         (name (symbol-name symbol)))
    (loop for (reason . names) in dangers
          when (and (case (first names)
                      (:all (and (not (member name (rest names) :test #'string=))
                                 (or (not (string= reason "uses system calls")) (fboundp symbol))))
                      (:internal (if (prefixed-p "SB-ALIEN" (package-name package))
                                     (not (eq :external (nth-value 1 (find-symbol name package))))
                                     (internal-symbol-p symbol)))
                      (t (member name names :test #'string=)))
                    (not (met-p symbol)))
            return reason)))

(defun variable-of-c-p (form)
  (and (car form)
       (eq (car form) (load-time-value (and (find-package "SB-ALIEN") (find-symbol "EXTERN-ALIEN" "SB-ALIEN"))))
       (consp (cdr form)) (consp (cddr form))
       (not (and (consp (third form)) (string= "FUNCTION" (first (third form)))))))

(defun map-named (function form known)
  "Call FUNCTION with the symbols and functions in FORM, and with forms that name C variables,
skipping the conses in the table KNOWN. FORM may be circular."
  (let ((steps 0) (seen nil)
        (known (and (plusp (hash-table-count known)) known)))
    (labels ((passed-p (cons)
               (or (and known (gethash cons known))
                   (and (> (incf steps) 2000)
                        (let ((table (or seen (setf seen (make-hash-table :test 'eq)))))
                          (or (gethash cons table)
                              (progn (setf (gethash cons table) t) nil))))))
             (look (it)
               (loop
                 (cond ((consp it)
                        (when (passed-p it) (return))
                        (when (variable-of-c-p it) (funcall function it))
                        (when (car it) (look (car it)))
                        (setf it (cdr it)))
                       ((null it) (return))
                       ((symbolp it)
                        (funcall function it)
                        (return))
                       ((simple-vector-p it) (map nil #'look it) (return))
                       ((functionp it)
                        (funcall function it)
                        (return))
                       ((comma-content it) (setf it (first (comma-content it))))
                       (t (return))))))
      (look form))))

(defun unmet-in (form known)
  "Lists of a reason to ask about FORM and what FORM names for it. Conses and symbols in the table
KNOWN are skipped."
  (let ((found '()))
    (labels ((note (symbol)
               (let ((reason (and (not (gethash symbol known)) (unmet-reason symbol))))
                 (when reason (pushnew symbol (rest (entry reason))))))
             (entry (reason)
               (or (assoc reason found :test #'string=)
                   (first (push (list reason) found)))))
      (map-named (lambda (it)
                   (cond ((symbolp it) (note it))
                         ((consp it)
                          (pushnew (first it) (rest (entry "uses C's variables"))))
                         (t (let ((name (ignore-errors (directly "SB-KERNEL" "%FUN-NAME" it))))
                              (when (and name (symbolp name)) (note name))))))
                 form known))
    (nreverse found)))

(defun effect-of-made (found form)
  "The effect of evaluating or compiling FORM, in which FOUND was found."
  (let ((text (format nil "~:{~A: ~@{~A~^, ~}~:^; ~}"
                      (loop for (reason . symbols) in found
                            collect (cons reason (mapcar #'symbol-text (reverse symbols)))))))
    (make-effect :kind "run-form" :target text
                 :texts (mapcar #'symbol-text (reduce #'append found :key #'rest))
                 :words (format nil "evaluate code that ~A" text)
                 :more (list :form (printed form :limit 1000)))))
