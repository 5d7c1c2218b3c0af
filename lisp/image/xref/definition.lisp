;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Definitions with their sources. Emacs reads the files; the image knows where they are, and has
;;; the forms of what was evaluated without a file. Operation: find-definition.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *definers*
  '(("function" "DEFUN" "DEFGENERIC") ("generic-function" "DEFGENERIC") ("method" "DEFMETHOD")
    ("macro" "DEFMACRO") ("compiler-macro" "DEFINE-COMPILER-MACRO")
    ("variable" "DEFVAR" "DEFPARAMETER" "DEFGLOBAL" "DEFINE-SYMBOL-MACRO" "VARIABLE")
    ("constant" "DEFCONSTANT") ("class" "DEFCLASS" "DEFSTRUCT" "DEFINE-CONDITION")
    ("structure" "DEFSTRUCT") ("condition" "DEFINE-CONDITION") ("type" "DEFTYPE" "DEFCLASS")
    ("setf" "DEFSETF" "DEFINE-SETF-EXPANDER" "SETF-EXPANDER"))
  "The kinds of definition that a caller may ask for, and the operators that define them.")

(defun of-kind-p (what kind)
  (let ((definers (rest (assoc kind *definers* :test #'string-equal))))
    (or (member (definer what) definers :test #'string=)
        (and (string-equal kind "setf") (consp what) (consp (rest what))
             (consp (second what)) (eq 'setf (first (second what)))))))

(defun setf-name-p (symbol)
  (fboundp (list 'setf symbol)))

(defun definitions-of (name)
  "What NAME is really defined as, and where."
  (let* ((symbol (name-symbol name)) (found (found-definitions symbol)))
    (real-definitions
     (append (if (eq (name-kind name) :setf)
                 ;; Setf expanders are listed under the name of the place.
                 (remove-if-not (lambda (it) (of-kind-p (first it) "setf")) found)
                 found)
             (when (and (not (eq (name-kind name) :function)) (setf-name-p symbol))
               (found-definitions (list 'setf symbol)))))))

(defun implementation-note-p (form)
  "Whether FORM is a declaration that CLISP adds to the forms it keeps."
  (and (consp form) (eq 'declare (first form)) (consp (rest form)) (consp (second form))
       (symbolp (first (second form)))
       (string= "IN-DEFUN" (symbol-name (first (second form))))))

(defun evaluated-source (name)
  "The form of the function NAME, if the implementation keeps evaluated forms."
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

;;; One method, by its qualifiers and specializers

(defun list-part-p (part)
  (and (prefixed-p "(" part) (not (prefixed-p "setf" (trimmed (subseq part 1))))))

(defun wanted-definition (text)
  "Three values from TEXT: the name, its defining operator if there is one, and the parts that
follow."
  (let* ((text (trimmed text))
         ;; The start of a definition.
         (text (if (and (prefixed-p "(def" (string-downcase text))) (subseq text 1) text))
         (parts (if (scan-token text) (list text) (text-parts text))))
    (if (and (prefixed-p "def" (string-downcase (first parts)))
             (rest parts) (not (list-part-p (second parts))))
        (values (second parts) (first parts) (cddr parts))
        (values (if (rest parts) (first parts) text) nil (rest parts)))))

(defun bare-part (part)
  "PART, the name of a class or an EQL specializer, in the form of BARE-TEXT."
  (cond ((prefixed-p "(" part)
         (format nil "(~{~A~^ ~})" (mapcar #'bare-part (inner-parts part))))
        ((prefixed-p "#\\" part) (bare-character part))
        (t (let ((name (string-downcase (string-left-trim "'#" part))))
             (if (prefixed-p ":" name)
                 name
                 (subseq name (1+ (or (position #\: name :from-end t) -1))))))))

(defun wanted-specializers (part)
  "The specializers in PART, perhaps a lambda list with them."
  (loop for element in (inner-parts part)
        until (prefixed-p "&" element)
        collect (let ((inner (and (prefixed-p "(" element) (inner-parts element))))
                  (bare-part (if (and (= 2 (length inner)) (string-not-equal "eql" (first inner)))
                                 (second inner)
                                 element)))))

(defun method-like-p (what wanted)
  "Whether WHAT is a method with the qualifiers and specializers in WANTED, parts of a text."
  (when (and (consp what) (eq 'defmethod (first what)))
    (let* ((qualifiers (remove-if #'list-part-p wanted))
           (specializers (find-if #'list-part-p wanted))
           (own (mapcar #'bare-text (first (last what)))))
      (and (equal (mapcar #'bare-part qualifiers) (mapcar #'bare-text (butlast (cddr what))))
           (or (null specializers)
               (let ((given (wanted-specializers specializers)))
                 (and (<= (length given) (length own))
                      ;; Specializers left out at the end are T.
                      (loop for one in own
                            for other = (or (pop given) "t")
                            always (string= one other)))))))))

(defun wanted-definitions (all name definer wanted)
  "Those of ALL, the definitions of NAME, that fit the parts WANTED and the operator DEFINER."
  (let ((found (remove-if-not
                (lambda (definition)
                  (let ((what (first definition)))
                    (and (or (null definer) (string-equal (bare-part definer) (definer what)))
                         (or (null wanted)
                             (method-like-p what wanted)
                             ;; The lambda list of a function.
                             (and definer (not (eq 'defmethod (first what))))))))
                all)))
    (when (and all (null found))
      (missed "~A has no definition ~@[~A ~]~{~A~^ ~}; it has ~{~A~^, ~}~@[ and ~D more~]."
              (name-text name) (and definer (string-downcase definer)) wanted
              (loop for (what) in all repeat 30 collect (definition-text what))
              (and (> (length all) 30) (- (length all) 30))))
    found))

;;; The operation

(defun name-or-miss (text package)
  "The NAME that TEXT is; or NIL and why the image has none."
  (let ((found (catch 'missed (name-of-text text package))))
    (if (name-p found)
        found
        (values nil (getf found :message)))))

(defun unknown-definition (text message)
  "The answer about TEXT, a name that the image doesn't have, as MESSAGE says: it may be in files."
  (let ((name (bare-name (string-left-trim "#'" text))))
    (unless (scan-token name)
      (missed "~A" message))
    (list :unknown message
          :search (if (prefixed-p "(" text) (format nil "(setf ~A)" name) name))))

(defun known-definitions (name all wanted offset limit)
  (let* ((placed (remove nil wanted :key #'second))
         (evaluated (and (null placed) (evaluated-source name)))
         (kinds (unless (eq (name-kind name) :setf) (kinds (name-symbol name)))))
    (list :name (name-text name)
          :package (let ((home (symbol-package (name-symbol name))))
                     (and home (package-name home)))
          :kinds kinds
          :total (length placed)
          :offset offset
          :definitions (loop for (what location) in (page placed offset (page-size limit 10 50))
                             collect (list :what (definition-text what)
                                           :location (append location (list :wanted t))))
          :unplaced (loop for (what location) in wanted
                          unless location collect (definition-text what))
          :evaluated evaluated
          :search (unless (or placed evaluated
                              (implementation-package-p (symbol-package (name-symbol name))))
                    (source-text name))
          :nameless (and (null kinds) (null all) t))))

(defun found-by-name (name kind definer parts offset limit)
  "The answer about NAME as a KIND, or about its definition that DEFINER and PARTS specify."
  (let* ((all (definitions-of name))
         (of-kind (if kind
                      (remove-if-not (lambda (it) (of-kind-p (first it) kind)) all)
                      all)))
    (when (and all (null of-kind))
      (missed "~A is not defined as a ~A; it has ~{~A~^, ~}." (name-text name) kind
              (loop for (what) in all repeat 5 collect (definition-text what))))
    (known-definitions name all
                       (if (or definer parts)
                           (wanted-definitions of-kind name definer parts)
                           of-kind)
                       (max 0 (or offset 0)) limit)))

(define-operation "find-definition" (symbol kind package limit offset)
  ;; The definitions of a name: what, where, and the source.
  (when (and kind (not (assoc kind *definers* :test #'string-equal)))
    (missed "Unknown kind of definition ~A: expected one of ~{~A~^, ~}." kind (mapcar #'first *definers*)))
  (multiple-value-bind (text definer parts) (wanted-definition symbol)
    (multiple-value-bind (name message) (name-or-miss text package)
      (if (null name)
          (unknown-definition text message)
          (call-with-loaded-dates
           (lambda () (found-by-name name kind definer parts offset limit)))))))
