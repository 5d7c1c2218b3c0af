;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Redoing what was undone, unless somebody has changed it since. Operation: journal-redo.

(cl:in-package "AGENT-Q-IMAGE")

(defun redo-change (change)
  (let ((name (change-name change)) (old (change-old change)) (new (change-new change))
        (*package* (change-package change)))
    (handler-bind ((warning #'muffle-warning))
      (ecase (change-kind change)
        (:function (put-function name new))
        (:methods (put-methods name new old))
        (:compiler-macro (setf (compiler-macro-function name) new))
        (:class (setf (find-class name) new))
        (:class-options (put-class-options name new old))
        (:variable (put-value name new))
        (:type (put-type name new))
        (:place (put-place name new))
        (:symbol-macro (put-symbol-macro name new))
        (:symbol (unintern name old))))
    (setf (change-restored change) nil)))

(defun still-taken-back-p (change)
  "Whether the definition before CHANGE is in place again."
  ;; Methods are checked one by one.
  (or (eq (change-kind change) :methods)
      (same-meaning-p (change-kind change) (current-definition change) (change-old change))))

(defun try-to-redo (change)
  "Redo CHANGE; returns a sentence on the outcome."
  (let ((name (change-name-text change)) (kind (kind-text change)))
    (cond ((not (change-restored change)) (format nil "~A: its ~A was not undone." name kind))
          ((not (still-taken-back-p change))
           (format nil "~A was left alone: someone has changed it since." name))
          (t (handler-case (progn (redo-change change)
                                  (format nil "~A: brought back the ~A." name kind))
               (error (condition)
                 (format nil "~A was not brought back: ~A" name
                         (first-line (condition-message condition) 200))))))))

(define-operation "journal-redo" (ids turns)
  ;; Redo the changes with IDS, which were undone, if they belong to TURNS: in another image, the
  ;; numbers in a stored chat may be those of other changes.
  (list :results (loop for change in (reverse *journal*)
                       when (and (member (change-id change) ids)
                                  (member (change-turn change) turns :test #'equal))
                         collect (try-to-redo change))))
