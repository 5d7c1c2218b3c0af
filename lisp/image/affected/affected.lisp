;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which tests reach definitions that were changed: by what their code calls and uses, and where code
;;; doesn't tell that, as for types, constants and what is expanded, by the texts of loaded files.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *tested* '()
  "What of a chat's changes was tested and passed: lists of a chat and the number of the last one.")

(defvar *changed-elsewhere* '()
  "Files of the project that somebody changed outside of chats since their tests last passed.")

;;; What was changed

(defun files-changed-elsewhere (files)
  "The project's loaded files, other than FILES, that have changed since they were loaded."
  (let ((keys (mapcar #'file-key files)))
    (loop for name in (changed-systems)
          append (loop for component in (source-components (registered-system name))
                       for file = (component-name-of-file component)
                       when (and file (not (member (file-key file) keys :test #'equal))
                                 (equal "changed since it was loaded" (component-state component)))
                         collect file))))

(defun changed-definition (label forms)
  "What LABEL, such as \"defmethod area :around (square) (line 3)\", of FORMS means: its operator, its
symbol, and the symbols of its specializers."
  (let* ((parts (text-parts label))
         (bare (mapcar (lambda (part) (string-upcase (string-left-trim "'#:" part))) parts))
         (name (let ((part (or (second bare) "")))
                 (if (prefixed-p "(SETF " part) (string-trim "()" (subseq part 6)) part))))
    (flet ((symbol (name)
             (let ((name (subseq name (1+ (or (position #\: name :from-end t) -1)))))
               (or (loop for form in forms
                         thereis (find name (source-form-names form) :test #'string=))
                   (loop for form in forms
                         thereis (find name (source-form-symbols form) :test #'string=))))))
      (list (first bare) (symbol name)
            (let ((list (find-if (lambda (part) (and (prefixed-p "(" part) (not (prefixed-p "(LINE " part))))
                                 (cddr bare))))
              (and (equal "DEFMETHOD" (first bare)) list
                   (remove nil (mapcar (lambda (it) (symbol (string-trim "()" it)))
                                       (inner-parts list)))))))))

(defun changed-in-image ()
  "The names that this call's chat has changed in the image since its changes last passed, without the
functions of structures."
  (let ((since (or (second (assoc (first *author*) *tested* :test #'equal)) 0)))
    (loop for change in *journal*
          for name = (change-name change)
          when (and (first *author*) (equal (change-chat change) (first *author*))
                    (not (change-restored change)) (not (change-loaded change))
                    (> (change-id change) since)
                    (not (structure-of-function name)))
            collect (list (cond ((eq :variable (change-kind change)) "DEFVAR")
                                ((and (programs-name-p name) (fboundp name)
                                      (not (and (symbolp name) (macro-function name))))
                                 "DEFUN"))
                          (first-symbol name) '()))))

(defun changed-definitions (changed elsewhere)
  "The definitions of CHANGED, lists of :file and :names, of the files ELSEWHERE, and those in the image
alone: lists of an operator, a symbol, symbols of specializers, and the file."
  (remove-duplicates
   (remove nil
           (append (loop for (nil file nil names) in changed
                         for forms = (forms-of-file file)
                         append (loop for label in names
                                      collect (append (changed-definition label forms) (list file))))
                   (loop for file in elsewhere
                         append (loop for form in (forms-of-file file)
                                      append (loop for name in (source-form-names form)
                                                   collect (list (source-form-operator form) name '() file))))
                   (changed-in-image))
           :key #'second)
   :key #'second :from-end t))

(defun told-by-code-p (definition)
  "Whether code says where it uses DEFINITION, of CHANGED-DEFINITIONS."
  (destructuring-bind (operator symbol &rest more) definition
    (declare (ignore more))
    (and (implementation-p "SBCL") (programs-symbol-p symbol)
         (member operator '("DEFUN" "DEFGENERIC" "DEFMETHOD" "DEFVAR" "DEFPARAMETER") :test #'equal)
         (not (inline-p symbol)))))

(defun targets-of (definition tests files)
  "What reaches DEFINITION by itself: lists of a node and its next step. TESTS are the symbols of tests."
  (destructuring-bind (operator symbol specializers &rest more) definition
    (declare (ignore more))
    (let ((names (cond ((programs-symbol-p symbol)
                        (cons symbol (and (equal "DEFSTRUCT" operator) (structure-names symbol))))
                       ;; A method of Common Lisp's functions is called wherever its class is used.
                       (t specializers)))
          (by-text (not (told-by-code-p definition))))
      (append (list (list symbol nil) (list (list 'setf symbol) symbol) (list (list :test symbol) symbol))
              (loop for (nil . form) in (forms-mentioning names files
                                                          (lambda (form)
                                                            (or by-text (source-form-reading form))))
                    append (loop for name in (source-form-names form)
                                 unless (eq name symbol)
                                   collect (list (if (and (member name tests) (not (standard-form-p form)))
                                                     (list :test name)
                                                     name)
                                                 symbol)))))))

;;; The tests

(defun names-of-test (framework test by-text)
  "The program's names that TEST, of FRAMEWORK, uses; BY-TEXT knows them by symbols."
  (let ((body (body-of-test framework test)))
    (or (cond ((and (functionp body) (implementation-p "SBCL")) (remove test (names-in-code body)))
              ((consp body) (symbols-in-tree body)))
        (gethash test by-text))))

(defun tests-to-judge (system)
  "The tests that there are, those of SYSTEM or of the project if they can be told: lists of a framework
and a test."
  (let* ((all (loop for framework in (loaded-frameworks)
                    append (loop for test in (single-tests framework) collect (list framework test))))
         (systems (if system
                      (cons (find-system-named system) (tested-systems system))
                      (project-systems)))
         (packages (loop for it in systems
                         append (loop for (nil name) in (defined-packages (source-components it))
                                      collect (find-package name))))
         (own (remove-if-not (lambda (it) (member (symbol-package (second it)) packages)) all)))
    (or own all)))

(defun way-text (test next)
  "The way from TEST to what was changed, as texts, by the table NEXT."
  (loop for node = (gethash (list :test test) next) then (gethash node next)
        while node
        collect (if (symbolp node) (symbol-text node) (text-of-node node))))

(defun text-of-node (node)
  (if (eq :test (first node)) (symbol-text (second node)) (printed node :limit 80 :circle nil)))

(defun affected-tests (definitions system)
  "The tests that reach DEFINITIONS, of CHANGED-DEFINITIONS, lists of framework, test and way; and how
many there are."
  (let* ((tests (tests-to-judge system))
         (symbols (mapcar #'second tests))
         (files (remove-duplicates
                 (append (loop for file in (remove-duplicates (remove nil (mapcar #'fourth definitions))
                                                              :test #'equal)
                               append (files-around file))
                         (loop for system in (project-systems)
                               append (remove nil (mapcar #'component-name-of-file
                                                          (lisp-components system)))))
                 :test #'equal))
         (by-text (table-by-text files))
         (next (ways-to (loop for it in definitions append (targets-of it symbols files))
                        (loop for (framework test) in tests
                              collect (list (list :test test) (names-of-test framework test by-text)))
                        by-text)))
    (values (sort (loop for (framework test) in tests
                        when (nth-value 1 (gethash (list :test test) next))
                          collect (list framework test (way-text test next)))
                  #'string< :key (lambda (it) (symbol-text (second it))))
            (length tests))))

(defparameter *way-limit* 10
  "How many ways from tests to what was changed to tell.")

(defun affected-facts (affected total definitions elsewhere)
  "For the wire: which of TOTAL tests are AFFECTED by DEFINITIONS; all of the files ELSEWHERE were."
  (list :affected (length affected)
        :of total
        :changed (loop for (nil symbol) in definitions repeat 12 collect (symbol-text symbol))
        :changed-more (max 0 (- (length definitions) 12))
        :elsewhere (mapcar #'shown-file elsewhere)
        :ways (loop for (nil test way) in affected repeat *way-limit*
                    collect (cons (symbol-text test) way))))

(defun note-all-passed (last)
  "Note that what was changed up to the change with the number LAST has passed its tests."
  (setf *changed-elsewhere* '())
  (when (first *author*)
    (setf *tested* (cons (list (first *author*) last)
                         (remove (first *author*) *tested* :key #'first :test #'equal)))))

(defun run-affected (system changed)
  "Run the tests that reach what was CHANGED; returns their results, what ended them, and facts."
  (let ((definitions (changed-definitions changed *changed-elsewhere*)))
    (multiple-value-bind (affected total) (if definitions (affected-tests definitions system) (values '() 0))
      (let ((runners (loop for (framework test) in affected
                           collect (ask-framework framework #'test-framework-runner test)))
            (facts (affected-facts affected total definitions *changed-elsewhere*)))
        (if runners
            (multiple-value-bind (results problem)
                (run-observed (lambda () (mapc #'funcall (remove nil runners))))
              (values results problem facts))
            (values '() nil facts))))))
