;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What calls and uses what, from some functions on: names that a function's code has, as the
;;; implementation keeps them, or that its text mentions; and the ways from there to some names.

(cl:in-package "AGENT-Q-IMAGE")

(defun programs-name-p (name)
  (cond ((symbolp name) (programs-symbol-p name))
        ((and (consp name) (eq 'setf (first name)) (consp (rest name)) (symbolp (second name)))
         (programs-symbol-p (second name)))))

(defun class-of-layout (object)
  "The name of the class or structure whose layout OBJECT is, on SBCL, or NIL."
  (loop for (predicate reader) in '(("WRAPPER-P" "WRAPPER-CLASSOID") ("LAYOUT-P" "LAYOUT-CLASSOID"))
        for layout-p = (optional-function "SB-KERNEL" predicate)
        for classoid = (optional-function "SB-KERNEL" reader)
        when (and layout-p classoid (funcall layout-p object))
          return (guarded (lambda ()
                            (funcall (optional-function "SB-KERNEL" "CLASSOID-NAME")
                                     (funcall classoid object)))
                          (constantly nil))))

(defun names-in-code (function)
  "The program's names in the code of FUNCTION, on SBCL: what it calls, expands, reads, sets, quotes."
  (let* ((code (code-of function))
         (words (optional-function "SB-KERNEL" "CODE-HEADER-WORDS"))
         (word (optional-function "SB-KERNEL" "CODE-HEADER-REF"))
         (offset (find-symbol "CODE-CONSTANTS-OFFSET" "SB-VM"))
         (fdefn-p (optional-function "SB-KERNEL" "FDEFN-P"))
         (fdefn-name (optional-function "SB-KERNEL" "FDEFN-NAME"))
         (names '()))
    (flet ((add (name)
             (when (programs-name-p name) (pushnew name names :test #'equal))))
      (guarded (lambda ()
                 (loop for index from (symbol-value offset) below (funcall words code)
                       for object = (funcall word code index)
                       do (cond ((funcall fdefn-p object) (add (funcall fdefn-name object)))
                                ((symbolp object) (add object))
                                ((functionp object) (add (plain-name (function-name object))))
                                ((class-of-layout object) (add (class-of-layout object))))))
               (constantly nil))
      (guarded (lambda ()
                 (map-recorded-uses (lambda (kind name)
                                      (declare (ignore kind))
                                      (add name))
                                    function))
               (constantly nil)))
    names))

(defun symbols-in-tree (tree)
  "The program's symbols in TREE, a form."
  (let ((symbols '()))
    (labels ((collect (tree)
               (loop while (consp tree)
                     do (collect (pop tree)))
               (when (and tree (symbolp tree) (programs-symbol-p tree)) (pushnew tree symbols))))
      (collect tree))
    symbols))

(defun names-used-by (name by-text)
  "The program's names that the definitions of NAME use. BY-TEXT is a table of symbols in text for
implementations whose code doesn't tell."
  (if (implementation-p "SBCL")
      (remove-duplicates (loop for function in (guarded (lambda () (functions-of-name name))
                                                        (constantly '()))
                               when (functionp function) append (names-in-code function))
                         :test #'equal)
      (gethash (if (consp name) (second name) name) by-text)))

(defun table-by-text (files)
  "From symbols that forms of FILES define to the symbols that these mention."
  (let ((table (make-hash-table :test 'eq)))
    (dolist (file files table)
      (dolist (form (forms-of-file file))
        (dolist (name (source-form-names form))
          (setf (gethash name table) (union (source-form-symbols form) (gethash name table))))))))

(defun ways-to (targets starts by-text)
  "A table of the next step on the way to the nearest of TARGETS, for each node that leads there.
STARTS are lists of a node and the names that it uses; other nodes are names. TARGETS are lists of a
node and its next step, NIL for none. For BY-TEXT see NAMES-USED-BY."
  (let ((users (make-hash-table :test 'equal)) (seen (make-hash-table :test 'equal))
        (next (make-hash-table :test 'equal)) (open '()))
    (flet ((use (node names)
             (dolist (name names)
               (push node (gethash name users))
               (unless (gethash name seen)
                 (setf (gethash name seen) t)
                 (push name open)))))
      (loop for (node names) in starts do (use node names))
      (loop while open
            do (let ((name (pop open))) (use name (names-used-by name by-text)))))
    (let ((front (loop for (node step) in targets
                       unless (nth-value 1 (gethash node next))
                         do (setf (gethash node next) step)
                         and collect node)))
      (loop while front
            do (setf front
                     (loop for node in front
                           append (loop for user in (gethash node users)
                                        unless (nth-value 1 (gethash user next))
                                          do (setf (gethash user next) node)
                                          and collect user)))))
    next))
