;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which compiled code contains the former version of a definition: expansions of macros, bodies of
;;; inline functions, constants, structures.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *copied-kinds*
  '((defmacro "macro" "WHO-MACROEXPANDS") (define-compiler-macro "compiler macro" "WHO-CALLS")
    (defun "inline function" "WHO-CALLS") (defconstant "constant" "WHO-REFERENCES")
    (define-symbol-macro "symbol macro" nil) (defstruct "structure" nil) (deftype "type" nil)
    (define-setf-expander "setf expander" nil) (defvar "variable" "WHO-REFERENCES"))
  "Definitions that compiled code contains copies of, if only as macros use them: the operator, in words, and
the function that finds that code.")

(defun users-of (recorder name)
  "The definitions that were compiled with NAME, from RECORDER, a function of the backend."
  (let ((sites (if recorder (recorded-sites recorder name) '())))
    (remove-duplicates (loop for (what) in (if (listp sites) sites '())
                             collect (enclosing what))
                       :test #'equal :from-end t)))

(defun macros-among (users)
  "The macros among USERS: they use something while they are expanded."
  (loop for user in users
        ;; SBCL names expanders after the macro, other implementations as (DEFMACRO name).
        for macro = (if (consp user) (second user) user)
        when (and macro (symbolp macro) (macro-function macro))
          collect macro))

(defun stale-users (wanted)
  "What compiled code may contain of WANTED, in words, the definitions that do, and the macros by which they
do, if by such; NIL if none can."
  (let* ((kind (assoc (first wanted) *copied-kinds*)) (name (second wanted))
         (plain (cond ((eq 'defvar (first kind)) "variable that macros use")
                      ((and (eq 'defun (first kind)) (not (inline-p name))) "function that macros call")))
         (users (and kind (users-of (third kind) name))))
    (cond ((null kind) nil)
          ((null plain) (list (second kind) users))
          (t (let ((macros (macros-among users)))
               (and macros
                    (list plain
                          (loop for macro in macros
                                append (users-of "WHO-MACROEXPANDS" macro))
                          macros)))))))

(defun stale-after (wanted earlier text)
  "What to report about code that contains WANTED as it was before TEXT replaced it; NIL if there
can't be any. EARLIER is its previous definition in a file, if any."
  (let* ((known (gethash (compiled-key wanted) *compiled-texts*))
         (name (second wanted))
         (symbol (first-symbol name)))
    (when (and (or earlier known) (not (equal known (kept-text text)))
               symbol (not (eq 'defmethod (first wanted))))
      (destructuring-bind (&optional kind users macros) (stale-users wanted)
        (list :kind (or kind "#. value of")
              :name (if (symbolp name) (symbol-text name) (text-with-package name))
              :symbol symbol
              :users users :macros macros
              :file (getf (second earlier) :file)
              ;; Files may have it in a form after #., whatever it is.
              :readings (null kind))))))
