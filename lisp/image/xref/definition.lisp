;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Definitions with their sources. Emacs reads the files; the image knows where, and has the
;;; forms of what was evaluated without a file. Operation: find-definition.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *definers*
  '(("function" "DEFUN" "DEFGENERIC") ("generic-function" "DEFGENERIC") ("method" "DEFMETHOD")
    ("macro" "DEFMACRO") ("compiler-macro" "DEFINE-COMPILER-MACRO")
    ("variable" "DEFVAR" "DEFPARAMETER" "DEFGLOBAL" "DEFINE-SYMBOL-MACRO" "VARIABLE")
    ("constant" "DEFCONSTANT") ("class" "DEFCLASS" "DEFSTRUCT" "DEFINE-CONDITION")
    ("structure" "DEFSTRUCT") ("condition" "DEFINE-CONDITION") ("type" "DEFTYPE" "DEFCLASS")
    ("setf" "DEFSETF" "DEFINE-SETF-EXPANDER" "SETF-EXPANDER"))
  "The kinds of definition that a caller may name, and what defines them.")

(defun of-kind-p (what kind)
  (let ((definers (rest (assoc kind *definers* :test #'string-equal))))
    (or (member (definer what) definers :test #'string=)
        (and (string-equal kind "setf") (consp what) (consp (rest what))
             (consp (second what)) (eq 'setf (first (second what)))))))

(defun setf-name-p (symbol)
  (fboundp (list 'setf symbol)))

(defun definitions-of (name)
  "What NAME is really defined as, and where."
  (let ((symbol (name-symbol name)))
    (real-definitions
     (append (unless (eq (name-kind name) :setf) (found-definitions symbol))
             (when (and (not (eq (name-kind name) :function)) (setf-name-p symbol))
               (found-definitions (list 'setf symbol)))))))

(defun implementation-note-p (form)
  "Whether FORM is a declaration that CLISP adds to what it keeps."
  (and (consp form) (eq 'declare (first form)) (consp (rest form)) (consp (second form))
       (symbolp (first (second form)))
       (string= "IN-DEFUN" (symbol-name (first (second form))))))

(defun evaluated-source (name)
  "The form of the function NAME, where the implementation keeps what was evaluated."
  (let* ((spec (function-name-of name))
         (lambda (and (fboundp spec)
                      (not (and (symbolp spec) (macro-function spec)))
                      (guarded (lambda () (function-lambda-expression (fdefinition spec)))
                               (constantly nil)))))
    (when (and (consp lambda) (eq 'lambda (first lambda)))
      (let* ((body (cddr lambda))
             (last (first (last body)))
             (*package* (or (symbol-package (name-symbol name)) *package*)))
        (printed `(defun ,spec ,(second lambda)
                    ,@(remove-if #'implementation-note-p (butlast body))
                    ,@(if (and (consp last) (eq 'block (first last)))
                          (cddr last)
                          (last body)))
                 :limit 6000 :length 500 :level 40 :circle nil :pretty t)))))

(define-operation "find-definition" (symbol kind package limit offset)
    "The definitions of a name: what, where, and the source."
  (when (and kind (not (assoc kind *definers* :test #'string-equal)))
    (missed "~A is no kind of definition; there are ~{~A~^, ~}." kind (mapcar #'first *definers*)))
  (let* ((name (name-of-text symbol package))
         (all (definitions-of name))
         (wanted (if kind
                     (remove-if-not (lambda (definition) (of-kind-p (first definition) kind)) all)
                     all))
         (placed (remove nil wanted :key #'second))
         (offset (max 0 (or offset 0))))
    (when (and (null wanted) all)
      (missed "~A is not defined as a ~A; it has ~{~A~^, ~}." (name-text name) kind
              (loop for (what) in all repeat 5 collect (definition-text what))))
    (list :name (name-text name)
          :package (let ((home (symbol-package (name-symbol name))))
                     (and home (package-name home)))
          :kinds (unless (eq (name-kind name) :setf) (kinds (name-symbol name)))
          :total (length placed)
          :offset offset
          :definitions (loop for (what location) in (page placed offset (page-size limit 10 50))
                             collect (list :what (definition-text what)
                                           :location (append location (list :wanted t))))
          :unplaced (loop for (what location) in wanted
                          unless location collect (definition-text what))
          :evaluated (and (null placed) (evaluated-source name))
          :search (unless (or placed
                              (evaluated-source name)
                              (implementation-package-p (symbol-package (name-symbol name)))
                              (and (not (eq (name-kind name) :setf))
                                   (null (kinds (name-symbol name)))))
                    (source-text name)))))
