;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Calls whose harm depends on their arguments: opening files, evaluating and compiling what is
;;; only known at run time, reading text, and undoing definitions.

(cl:in-package "AGENT-Q-IMAGE")

(defun check-open (form arguments)
  "Opening a file to write to it, or so that nobody can tell, is a hit."
  (let ((options (rest arguments)))
    (if (and (evenp (length options))
             (loop for (option) on options by #'cddr always (keywordp option)))
        (let ((direction (getf options :direction :input)))
          (when (or (not (member direction '(:input :probe)))
                    (not (member (getf options :if-does-not-exist nil) '(nil :error))))
            (hit :reaches "deletes or writes files" 'open form)))
        (hit :reaches "deletes or writes files" 'open form))))

(define-call-check (open) (form arguments) (check-open form arguments))

(defun walk-code (code)
  "Look at CODE, which is expanded at run time, when the image is as nobody knows it."
  (let ((*usable-p* nil))
    (walk code (make-scope))))

(defun check-code (form code)
  "Look at CODE, an argument that is evaluated or compiled by the call FORM."
  (cond ((quoted-p code) (walk-code (second code)))
        ((atom code)
         (when (and (symbolp code) (not (constantp code)))
           (hit-run-time form)))
        ((eq (first code) 'lambda))
        ;; A backquote without a comma in it is a quote.
        ((and (symbolp (first code)) (string= (symbol-name (first code)) "QUASIQUOTE")
              (quoted-p (macroexpand-1 code)))
         (walk-code (second (macroexpand-1 code))))
        (t (hit-run-time form))))

(defun hit-run-time (form)
  (hit :reaches "evaluates code that is only made at run time" nil form)
  (note-caller form))

(define-call-check (eval) (form arguments)
  (check-code form (first arguments)))

(define-call-check (compile) (form arguments)
  (destructuring-bind (&optional name (code nil code-p) &rest more) arguments
    (declare (ignore more))
    (when name (check-redefinition name form))
    (when code-p (check-code form code))))

(define-call-check (coerce) (form arguments)
  (let ((type (second arguments)))
    (when (or (not (or (quoted-p type) (constantp type)))
              (and (quoted-p type)
                   (member (second type) '(function compiled-function))
                   (not (and (consp (first arguments)) (eq (first (first arguments)) 'function)))))
      (if (quoted-p (first arguments))
          (walk-arguments 'funcall (list (first arguments)) (make-scope))
          (note-caller form))
      (when (and (quoted-p (first arguments)) (consp (second (first arguments))))
        (check-code form (first arguments))))))

(define-call-check (symbol-function fdefinition) (form arguments)
  (unless (quoted-p (first arguments)) (note-caller form)))

;;; Reading

(defun check-reading (form text)
  (when (or (not (stringp text)) (search "#" text))
    (hit :reaches "reads text that may run code while it is read" nil form)))

(define-call-check (read-from-string) (form arguments)
  (check-reading form (first arguments)))

;;; Symbols and their definitions

(define-call-check (set) (form arguments)
  (check-symbol-argument (first arguments)))

(defun check-redefinition (name form)
  "Look at NAME, an argument that names what the call FORM defines or undoes."
  (cond ((null name))
        ((not (or (quoted-p name) (stringp name) (keywordp name)))
         (hit :redefines "redefines what is only known at run time" nil form))
        ((and (quoted-p name) (protected-p (second name)))
         (hit :redefines "redefines what is not the program's" (second name) form))))

(define-call-check (fmakunbound makunbound ensure-generic-function) (form arguments)
  (check-redefinition (first arguments) form))

(defun check-output (form)
  "Look at FORM, a call of UIOP's CALL-WITH-OUTPUT: given a pathname it writes to that file."
  (let ((target (second form)))
    (when (or (pathnamep target) (and (consp target) (not (quoted-p target))))
      (hit :reaches "deletes or writes files" (first form)))))

(define-call-check (proclaim) (form arguments)
  (scan-data arguments nil))

(define-call-check (add-method remove-method) (form arguments)
  (let ((function (first arguments)))
    (if (and (consp function) (eq (first function) 'function))
        (when (protected-p (second function))
          (hit :redefines "redefines what is not the program's" (second function) form))
        (hit :redefines "redefines what is only known at run time" nil form))))

(defun check-package (named form)
  "Look at the package that NAMED stands for in the text, whose names FORM changes."
  (let ((package (if (quoted-p named) (second named) named)))
    (when (and (typep package '(and (or symbol string) (not null)))
               (find-package package)
               (or (locked-p (find-package package))
                   (gethash (find-package package) *danger-packages*)))
      (hit :redefines "changes a package that is not the program's" nil form))))

(define-call-check (import shadowing-import shadow use-package unuse-package export unexport)
    (form arguments)
  (note-operator (first form))
  (check-package (second arguments) form))
