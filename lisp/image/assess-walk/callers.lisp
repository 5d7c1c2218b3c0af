;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which functions, standard or not, call their arguments, and which only look at them.

(cl:in-package "AGENT-Q-IMAGE")

(define-table +data-functions+
  '(eq eql equal equalp = string= string-equal member assoc rassoc find position count remove delete
    getf get gethash typep subtypep describe documentation fboundp boundp symbol-name symbol-package
    string print prin1 princ write pprint apropos describe-object symbolp keywordp not null list-length
    length disassemble special-operator-p macro-function constantp)
  "Functions that only look at the symbols they are given.")

(defun only-looks-p (operator)
  "Whether OPERATOR only looks at the symbols it is given."
  (or (member operator +data-functions+)
      (and operator (symbolp operator) (symbol-package operator)
           (string= (package-name (symbol-package operator)) "SB-INTROSPECT"))))

(define-table +function-callers+
  '((funcall . 0) (apply . 0) (mapcar . 0) (mapc . 0) (mapcan . 0) (mapl . 0) (maplist . 0)
    (mapcon . 0) (map . 1) (map-into . 1) (reduce . 0) (every . 0) (some . 0) (notany . 0)
    (notevery . 0) (sort . 1) (stable-sort . 1) (remove-if . 0) (remove-if-not . 0) (delete-if . 0)
    (delete-if-not . 0) (find-if . 0) (find-if-not . 0) (position-if . 0) (position-if-not . 0)
    (count-if . 0) (count-if-not . 0) (member-if . 0) (member-if-not . 0) (assoc-if . 0)
    (assoc-if-not . 0) (rassoc-if . 0) (rassoc-if-not . 0) (subst-if . 1) (subst-if-not . 1)
    (nsubst-if . 1) (nsubst-if-not . 1) (substitute-if . 1) (substitute-if-not . 1)
    (nsubstitute-if . 1) (nsubstitute-if-not . 1) (maphash . 0) (merge . 3)
    (multiple-value-call . 0) (complement . 0))
  "Functions that call an argument, and its position.")

(define-table +named-callers+
  '(("MAKE-THREAD" . 0) ("PROCESS-RUN-FUNCTION" . 1) ("MAKE-TIMER" . 0) ("FINALIZE" . 1))
  "The same for functions of other packages, by name.")

(define-table +keyed-functions+
  '((1 remove-duplicates delete-duplicates)
    (2 find member assoc rassoc position count remove delete adjoin pushnew union nunion intersection
     nintersection set-difference nset-difference set-exclusive-or nset-exclusive-or subsetp sort
     stable-sort reduce search mismatch sublis nsublis tree-equal find-if find-if-not position-if
     position-if-not count-if count-if-not remove-if remove-if-not delete-if delete-if-not member-if
     member-if-not assoc-if assoc-if-not rassoc-if rassoc-if-not)
    (3 substitute nsubstitute subst nsubst subst-if subst-if-not nsubst-if nsubst-if-not substitute-if
     substitute-if-not nsubstitute-if nsubstitute-if-not)
    (4 merge))
  "Functions that call their :KEY or :TEST arguments, by the number of arguments before the
keywords.")

(defun keywords-start (operator)
  "How many arguments of OPERATOR come before its keywords, if it calls keyword arguments."
  (loop for (count . operators) in +keyed-functions+
        when (member operator operators) return count))

(define-table +careful-functions+
  '(open eval read-from-string set fmakunbound makunbound)
  "Functions whose harm depends on arguments that can't be seen when the function is passed on.")
