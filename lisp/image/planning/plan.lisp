;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The check of a system before it is loaded: ASDF's plan, the files in it that are the project's, and
;;; what they will stumble over. It reads texts only; just the system's definition is loaded, by ASDF.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *snag-limit* 8
  "How many snags to tell.")

(defun plan-components (name)
  "The components of the user's project that loading the system NAME takes, in order."
  (let ((load (asdf-class "LOAD-OP")) (file (asdf-class "SOURCE-FILE")))
    (remove-if-not (lambda (it) (and file (typep it file) (project-component-p it)))
                   (asdf-call "REQUIRED-COMPONENTS" (asdf-call "FIND-SYSTEM" name)
                              :other-systems t :goal-operation load :keep-operation load))))

(defun plain-file-p (component)
  "Whether COMPONENT is a Lisp file that nothing generates."
  (eq (type-of component) (asdf-class "CL-SOURCE-FILE")))

(defun missing-file-p (component)
  (and (plain-file-p component)
       (null (date-of (asdf-call "COMPONENT-PATHNAME" component)))
       (not (asdf-fact "COMPONENT-LOADED-P" component))))

(defun to-load-p (component force)
  "Whether loading its system loads the file of COMPONENT again."
  (or force
      (failed-p component)
      (not (or (asdf-fact "COMPONENT-LOADED-P" component)
               (whole-system-loaded-p (asdf-call "COMPONENT-SYSTEM" component))))
      (guarded (lambda () (outdated-p component)) (constantly t))))

(defun outline-components (components)
  "The OUTLINEs of the files of COMPONENTS, in order, and the components."
  (let ((number 0) (lisp (asdf-class "CL-SOURCE-FILE")) (seen '()) (outlines '()) (kept '()))
    (dolist (component components)
      (let* ((file (component-name-of-file component))
             (outline (and file (typep component lisp) (not (member file seen :test #'string=))
                          (outline-of-file file))))
        (when outline
          (push file seen)
          (setf (outline-number outline) (incf number))
          (when (asdf-fact "AROUND-COMPILE-HOOK" component)
            ;; Such as a readtable.
            (setf (outline-strange outline) t))
          (dolist (written (outline-packages outline))
            (setf (written-package-rank written) (+ (* 100000000 number) (written-package-start written))))
          (push outline outlines)
          (push component kept))))
    (values (nreverse outlines) (nreverse kept))))

(defun index-packages (outlines)
  (let ((table (make-hash-table :test 'equal)))
    (dolist (outline (reverse outlines) table)
      (dolist (written (reverse (outline-packages outline)))
        (dolist (name (cons (planned-package-name written) (written-package-other-names written)))
          (push written (gethash name table)))))))

(defun plan-exports (outlines components)
  "For *PLAN-EXPORTS*."
  (if (or (notevery #'plain-file-p components)
          (some (lambda (it) (or (outline-open it) (outline-strange it))) outlines))
      t
      (loop for outline in outlines
            append (loop for (start . end) in (outline-exports outline)
                         collect (subseq (plan-text outline) start end)))))

(defun find-in-files (components force)
  "Find what the files of COMPONENTS will stumble over. FORCE says that all of them are loaded again."
  (multiple-value-bind (outlines kept) (outline-components components)
    (let* ((*plan* outlines)
           (*plan-packages* (index-packages outlines))
           (*plan-proof* nil)
           (*plan-exports* (plan-exports outlines components))
           (pairs (make-hash-table :test 'equal)))
      (loop for outline in outlines
            for component in kept
            do (find-late-packages outline)
               (find-unexported outline)
               (tell-inferred-name outline component)
               (dolist (written (outline-packages outline))
                 (when (string= "DEFPACKAGE" (written-package-operator written))
                   (find-clashes written pairs)
                   (find-missing-imports written)
                   (when (to-load-p component force)
                     (find-conflicts written)))))
      (maphash (lambda (name written)
                 (when (and (rest written) (string= name (planned-package-name (first written))))
                   (find-second-definitions name written)))
               *plan-packages*)
      (find-late-macros))))

(defun tell-inferred-name (outline component)
  "Tell that the file of OUTLINE, COMPONENT, defines a package under another name than ASDF infers."
  (let* ((system (asdf-call "COMPONENT-SYSTEM" component)) (name (system-name system))
         (written (first (outline-packages outline)))
         (inferred (asdf-class "PACKAGE-INFERRED-SYSTEM")))
    (when (and inferred written (typep system inferred) (find #\/ name)
               (notany (lambda (it) (string= name (system-of-package it)))
                       (cons (planned-package-name written) (written-package-other-names written))))
      (snag (written-package-rank written)
             "~A: the package ~A is in the file of the system ~A, so ASDF doesn't find it where another file names ~
              it: it looks for ~A. Call the package ~A."
             (place-of-package written) (shown-name (planned-package-name written)) name
             (system-of-package (planned-package-name written)) (string-upcase name)))))

(defun system-of-package (name)
  "The system in which ASDF looks for the package NAME, of a package-inferred system."
  (let ((function (optional-function "ASDF/PACKAGE-INFERRED-SYSTEM" "PACKAGE-NAME-SYSTEM")))
    (if function (funcall function name) (string-downcase name))))

(defun snags-before-loading (name force)
  "What loading the system NAME will stumble over, sentences in the order of the files."
  (let ((*snags* '()) (*plan-texts* (make-hash-table :test 'equal))
        (components (plan-components name)))
    (dolist (component components)
      (when (missing-file-p component)
        (snag 0 "~A is missing, but ~A names it."
               (name-in-project component) (system-file-text (asdf-call "COMPONENT-SYSTEM" component)))))
    (find-in-files components force)
    (mapcar #'cdr (stable-sort (nreverse *snags*) #'< :key #'car))))

(defun system-file-text (system)
  (let ((file (file-of-system-or-primary system)))
    (if file (shown-file file) (system-name system))))

(defun few-snags (snags)
  (if (nthcdr *snag-limit* snags)
      (append (subseq snags 0 *snag-limit*)
              (list (format nil "(~D more like these.)" (- (length snags) *snag-limit*))))
      snags))

(defun note-snags (name force)
  "Note what loading the system NAME will stumble over."
  (setf (build-before *build*)
        (guarded (lambda () (few-snags (snags-before-loading name force)))
                 ;; Such as a system that ASDF misses: loading tells of it.
                 (constantly '()))))
