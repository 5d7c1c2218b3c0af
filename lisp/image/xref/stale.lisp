;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which compiled code has in it what a definition was: expansions of macros, bodies of inline functions,
;;; constants, structures.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *copied-kinds*
  '((defmacro "macro" "WHO-MACROEXPANDS") (define-compiler-macro "compiler macro" "WHO-CALLS")
    (defun "inline function" "WHO-CALLS") (defconstant "constant" "WHO-REFERENCES")
    (define-symbol-macro "symbol macro" nil) (defstruct "structure" nil) (deftype "type" nil)
    (define-setf-expander "setf expander" nil))
  "The definitions of which compiled code has what they were, in words, and what knows that code.")

(defun users-of (recorder name)
  "The definitions that were compiled with NAME, as RECORDER, a function of the backend's, knows them."
  (let ((sites (if recorder (recorded-sites recorder name) '())))
    (remove-duplicates (loop for (what) in (if (listp sites) sites '())
                             collect (enclosing what))
                       :test #'equal :from-end t)))

(defun macros-calling (name)
  "The macros that call the function NAME when they expand."
  (loop for user in (users-of "WHO-CALLS" name)
        ;; SBCL's expanders are known by the macro's name, others' as (DEFMACRO name).
        for macro = (if (consp user) (second user) user)
        when (and macro (symbolp macro) (macro-function macro))
          collect macro))

(defun stale-users (wanted)
  "In words what may be in compiled code of what WANTED is now, and the definitions that have it; NIL if
no code can have that."
  (let ((kind (assoc (first wanted) *copied-kinds*)) (name (second wanted)))
    (cond ((null kind) nil)
          ((or (not (eq 'defun (first kind))) (inline-p name))
           (list (second kind) (users-of (third kind) name)))
          (t (let ((macros (macros-calling name)))
               (and macros
                    (list "function that macros call"
                          (loop for macro in macros
                                append (users-of "WHO-MACROEXPANDS" macro)))))))))

(defun stale-after (wanted earlier text)
  "What is to be told of code that has what WANTED was before TEXT replaced it; NIL if none can have
that. EARLIER is the definition of a file that there was, if any."
  (let ((known (gethash (compiled-key wanted) *compiled-texts*))
        (name (second wanted)))
    (when (and (or earlier known) (not (equal known (kept-text text))))
      (destructuring-bind (&optional kind users) (stale-users wanted)
        (when kind
          (list :kind kind
                :name (if (symbolp name) (symbol-text name) (text-with-package name))
                :users users))))))
