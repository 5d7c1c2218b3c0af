;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What is kept of an assessment for the call that runs the text: the macros that were expanded,
;;; and the symbols that reading made, which the expansions use.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (look (:type list) (:copier nil))
  text package
  ;; The forms as read, each after its start.
  forms
  ;; The symbols that were uninterned again, each with its package.
  forgotten
  ;; In order of expansion.
  expansions
  ;; From each operator in the forms to its macro function then; :LATER if that wasn't known.
  operators
  ;; The names of the forms' local functions.
  locals
  ;; Whether the user was asked about the running form and allowed it.
  allowed)

(defvar *looks* '()
  "What was assessed but not yet run, latest first. Useless once anything runs.")

(defparameter *looks-limit* 8)

(defun look-of-p (look text package)
  (and (equal text (look-text look)) (equal package (look-package look))))

(defun take-look (text package &optional forget)
  "What was kept of TEXT in PACKAGE, as the caller named it, or NIL. It can be taken only once. With
FORGET, drop it and return NIL."
  (call-with-lock
   (lambda ()
     (let ((look (find-if (lambda (look) (look-of-p look text package)) *looks*)))
       (setf *looks* (remove look *looks* :test #'eq))
       (and (not forget) look)))))

(defun keep-look (text package)
  "Keep *LOOK*, the assessment of TEXT in PACKAGE, for the call that runs it."
  (setf (look-text *look*) text
        (look-package *look*) package)
  (call-with-lock
   (lambda ()
     (push *look* *looks*)
     (when (> (length *looks*) *looks-limit*)
       (setf *looks* (subseq *looks* 0 *looks-limit*))))))

(defun joined-look (new old)
  (if old
      (make-look :text (look-text old) :package (look-package old)
                 :forms (append (look-forms new) (look-forms old))
                 :forgotten (append (look-forgotten new) (look-forgotten old))
                 :expansions (look-expansions new) :operators (look-operators new)
                 :locals (union (look-locals new) (look-locals old) :test #'equal))
      new))

(defun restore-symbols (text start)
  "Restore the symbols of the form in TEXT at START, which is about to be read."
  (declare (ignore text))
  (let ((form (and *look* (second (assoc start (look-forms *look*))))))
    (when (and form (look-forgotten *look*))
      (let ((*findings* (make-findings)))
        (catch 'assessed
          (call-with-atoms
           (lambda (atom)
             (when (and atom (symbolp atom) (null (symbol-package atom)))
               (let ((package (cdr (assoc atom (look-forgotten *look*) :test #'eq))))
                 (when (and package
                            (package-name package)
                            (not (nth-value 1 (find-symbol (symbol-name atom) package))))
                   (ignore-errors (import atom package))))))
           form))))))

;;; Running what was assessed

(defun call-as-assessed (text package function)
  "Call FUNCTION, which reads and expands TEXT in PACKAGE, with what was kept of its assessment.
Afterwards everything kept is useless: the image has changed."
  (let ((look (and text
                   ;; Nothing was assessed for this call; what was for others may be out of date.
                   (not (eq *assessed* :watched))
                   (take-look text package))))
    (call-with-lock (lambda () (setf *looks* '())))
    (let ((*look* look)
          ;; What was lost has to be assessed again.
          (*assessed* (if (or look (not (integerp *assessed*))) *assessed* 0))
          (*known* (list (and look (look-expansions look))))
          (*before-reading* #'restore-symbols))
      (funcall function))))
