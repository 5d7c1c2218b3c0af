;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Where definitions are. Emacs turns these places into files and lines: it may run on another
;;; machine, and the text may be in an unsaved buffer.

(cl:in-package "AGENT-Q-IMAGE")

;;; What compile_form defined

(defparameter *by-compile-form* "agent-q"
  "The buffer name that the client gets for definitions that exist only in the agent's text.")

(defvar *compiled-texts* (make-hash-table :test 'equal)
  "From definitions to the texts from which they were last compiled.")

(defun kept-text (text)
  (shortened text 6000))

(defun compiled-key (what)
  (let ((*package* (find-package "KEYWORD")) (*print-pretty* nil))
    (prin1-to-string what)))

;;; Places

(defun snippet-of (hints)
  (and (evenp (length hints)) (getf hints :snippet)))

(defun location-plist (location &optional what &key uses)
  "LOCATION, from the client's backend, as a property list, or NIL if it says nothing. WHAT is
defined there; USES is the name that is used there."
  (guarded (lambda ()
             (when (and (consp location) (eq (first location) :location))
               (destructuring-bind (place position &optional hints) (rest location)
                 (let ((place (place-plist place)))
                   (when place
                     (append place
                             (position-plist position)
                             ;; Other implementations derive it from the name, not from the text.
                             (when (implementation-p "SBCL")
                               (list :snippet (snippet-of hints)))
                             (definition-hints what)
                             (compiled-hints what place)
                             ;; Code compiled from a buffer is newer than the rest.
                             (when (and (getf place :file) (null (getf place :buffer)))
                               (date-hints what (getf place :file)))
                             (when uses (list :uses (bare-name uses)))))))))
           (constantly nil)))

(defun compiled-hints (what place)
  "The text of WHAT, if it may be at PLACE because of compile_form."
  (when (and (getf place :buffer) (consp what))
    (list :compiled (gethash (compiled-key what) *compiled-texts*))))

(defun bare-name (text)
  "TEXT, a printed name, without its package and in lower case."
  (let ((text (string-right-trim ")" text)))
    (string-downcase (subseq text (1+ (or (position-if (lambda (it) (find it ": ")) text
                                                       :from-end t)
                                          -1))))))

(defun bare-character (text)
  "TEXT, a printed character, in lower case if it goes by its name."
  (if (= 3 (length text)) text (string-downcase text)))

(defun text-atom (atom)
  (cond ((symbolp atom) (string-downcase (symbol-name atom)))
        ((stringp atom) (format nil "~S" atom))
        ((characterp atom) (bare-character (format nil "~S" atom)))
        (t (princ-to-string atom))))

(defun bare-text (tree)
  "TREE as sources write it, but in lower case and without packages."
  (cond ((keywordp tree) (format nil ":~A" (text-atom tree)))
        ((null tree) "()")
        ((consp tree) (format nil "(~{~A~^ ~})" (mapcar #'bare-text tree)))
        (t (text-atom tree))))

(defun defined-what (what)
  "WHAT, a definition or the name of a function, as a definition; NIL if it is neither."
  (cond ((null what) nil)
        ((symbolp what) (plain-definition what))
        ((not (and (consp what) (consp (rest what)))) nil)
        ((eq 'setf (first what)) (list 'defun what))
        ((prefixed-p "DEF" (definer what)) what)))

(defun definition-hints (what)
  "What helps to find the source of WHAT, such as (DEFMETHOD name :AFTER (CLASS)), in a text."
  (let* ((what (defined-what what))
         (methodp (eq 'defmethod (first what)))
         (name (second what)))
    (when (and name (or (symbolp name) (consp name)))
      (list :definer (string-downcase (definer what))
            :name (bare-text name)
            :method (when methodp
                      (format nil "~A~{ ~A~}" (bare-text name) (mapcar #'bare-text (cddr what))))
            :mentions (when methodp (mentioned (cddr what)))
            :owners (owners what)))))

(defun mentioned (tree)
  "The names in TREE, the qualifiers and specializers of a method, that its source must have."
  (cond ((consp tree) (append (mentioned (car tree)) (mentioned (cdr tree))))
        ((member tree '(nil t)) '())
        ((keywordp tree) (list (bare-text tree)))
        ((or (symbolp tree) (numberp tree)) (list (text-atom tree)))))

(defun owners (what)
  "The names of the classes and structures whose definitions may define WHAT as well."
  (destructuring-bind (definer name &rest more) what
    (cond ((eq definer 'defmethod)
           (loop for specializer in (first (last more))
                 when (and specializer (symbolp specializer) (not (eq specializer t)))
                   collect (text-atom specializer)))
          ((and (eq definer 'defun) (implementation-p "SBCL"))
           (let ((structure (structure-of-function name)))
             (and structure (list (text-atom structure))))))))

(defun structure-of-function (name)
  "The structure of which NAME is an accessor, constructor or the like, if SBCL knows it."
  (let ((info (optional-function "SB-INT" "INFO"))
        (structure-name (optional-function "SB-KERNEL" "DD-NAME")))
    (guarded (lambda ()
               (let ((transform (and info (funcall info :function :source-transform name))))
                 (and (consp transform) (funcall structure-name (car transform)))))
             (constantly nil))))

(defun date-hints (what file)
  "From which version of FILE the image has WHAT."
  (let* ((what (defined-what what))
         (date (and what (loaded-date what file))))
    (when date
      (list :loaded date :before (and (< date *began*) t)))))

;;; Definitions, written as most implementations do: (DEFUN name)

(defun class-definer (name)
  (let* ((class (find-class name nil))
         (kind (if class (class-kind class) "")))
    (cond ((string= kind "structure") 'defstruct)
          ((string= kind "condition") 'define-condition)
          (t 'defclass))))

(defun plain-definition (what)
  "WHAT, as SBCL writes it. CLISP writes the name first; some write only the name."
  (cond ((symbolp what)
         (list (cond ((not (fboundp what)) 'defvar)
                     ((macro-function what) 'defmacro)
                     ((typep (fdefinition what) 'generic-function) 'defgeneric)
                     (t 'defun))
               what))
        ((or (not (implementation-p "CLISP")) (/= 2 (length what))) what)
        (t (destructuring-bind (name kind) what
             (cond ((equal kind '(setf find-class)) (list (class-definer name) name))
                   ((consp kind)
                    (if (eq 'defmethod (first kind))
                        `(defmethod ,name ,@(second kind) ,(cddr kind))
                        (list (first kind) name)))
                   ((string= (symbol-name kind) "DEFUN/DEFMACRO")
                    (list (if (macro-function name) 'defmacro 'defun) name))
                   (t (list kind name)))))))

;; SBCL's names of methods are flat: (DEFMETHOD name :AFTER CLASS T). Those of ECL have the
;; lambda list in this way: (DEFMETHOD name :AFTER (IT CLASS) OTHER &KEY SIZE)
(defun with-specializers (what)
  "WHAT with the specializers in a list, if it is a method as SBCL or ECL names it."
  (let ((function (and (or (implementation-p "SBCL") (implementation-p "ECL"))
                       (eq 'defmethod (first what))
                       (fboundp (second what)) (fdefinition (second what)))))
    (if (typep function 'generic-function)
        (let* ((count (length (mop "GENERIC-FUNCTION-ARGUMENT-PRECEDENCE-ORDER" function)))
               (rest (subseq what 2 (position-if (lambda (it) (member it lambda-list-keywords)) what)))
               (qualifiers (butlast rest count))
               (required (nthcdr (length qualifiers) rest)))
          `(defmethod ,(second what) ,@qualifiers
             ,(if (implementation-p "ECL")
                  (loop for it in required collect (if (consp it) (second it) t))
                  required)))
        what)))

(defun abcl-definitions (name)
  "What ABCL records of NAME, in the client's form: lists of what and where."
  (let ((symbol (if (consp name) (second name) name)))
    (loop for (kind file position) in (get symbol (find-symbol "SOURCE" "SYSTEM"))
          for type = (if (consp kind) (first kind) kind)
          for defined = (if (consp kind) (second kind) symbol)
          for definer = (cdr (assoc type '((:function . defun) (:macro . defmacro)
                                           (:generic-function . defgeneric)
                                           (:method . defmethod) (:variable . defvar)
                                           (:class . defclass) (:structure . defstruct)
                                           (:condition . define-condition)
                                           (:compiler-macro . define-compiler-macro))))
          when (and definer (equal defined name) (or (stringp file) (pathnamep file)))
            collect (list (if (eq type :method)
                              `(defmethod ,defined ,@(third kind) ,(fourth kind))
                              (list (if (eq definer 'defclass) (class-definer defined) definer)
                                    defined))
                          `(:location (:file ,(namestring file)) (:position ,(1+ position)) nil))
              into all
          finally (return (remove-duplicates all :key #'first :test #'equal :from-end t)))))

(defun found-definitions (name)
  "Pairs of what NAME, a symbol or (SETF symbol), is defined as, and the location."
  (let ((found (guarded (lambda ()
                          (or (and (implementation-p "ABCL") (abcl-definitions name))
                              (backend "FIND-DEFINITIONS" name)))
                        (constantly '()))))
    (loop for definition in (and (listp found) found)
          when (and (consp definition) (consp (rest definition)))
            collect (let ((what (with-specializers (plain-definition (first definition)))))
                      (list what (location-plist (second definition) what))))))

(defun definition-text (what)
  (printed what :limit 160 :circle nil))

(defun definer (what)
  (if (and (consp what) (symbolp (first what)) (not (keywordp (first what))))
      (symbol-name (first what))
      ""))

(defun real-definitions (definitions)
  "DEFINITIONS without notes that only serve the compiler, and without a package of the same name,
unless nothing else is left."
  (flet ((without (unwanted definitions)
           (or (remove-if (lambda (definition) (funcall unwanted (definer (first definition))))
                          definitions)
               definitions)))
    (without (lambda (definer) (string= "DEFPACKAGE" definer))
             (without (lambda (definer) (not (prefixed-p "DEF" definer))) definitions))))

(defun definition-list (name &key (limit 8))
  "The definitions of NAME with known places, at most LIMIT."
  (let ((found (real-definitions (remove nil (found-definitions name) :key #'second))))
    (append (loop for (what location) in found
                  repeat limit
                  collect (list :what (definition-text what) :location location))
            (when (> (length found) limit)
              (list (list :more (- (length found) limit)))))))

;;; The implementation's, or the program's

(defun implementation-package-p (package)
  "Whether PACKAGE belongs to the implementation or to the client, or is ours."
  (or (null package)
      (let ((name (package-name package)))
        (or (null name)
            (member name '("COMMON-LISP" "KEYWORD" "SYSTEM" "EXT" "EXTENSIONS" "CLOS" "I18N" "GRAY"
                           "CUSTOM" "CHARSET" "FFI" "POSIX" "SOCKET" "SI" "C" "MP" "CCL" "JAVA"
                           "THREADS" "FORMAT" "LOOP" "PROFILER" "PRETTY-PRINT" "SEQUENCE" "XP"
                           "ASDF" "UIOP" "SWANK" "SLYNK" "WALKER" "FASDEFINE" "CMP" "REGEXP"
                           "CS-COMMON-LISP" "CS-COMMON-LISP-USER" "SCREEN" "EXPORTING" "GSTREAM"
                           "READLINE" "SYSCALLS" "STACK-TRACE" "WILDCARD" "LISP" "JVM" "MOP"
                           "JSS" "PRECOMPILER" "TOP-LEVEL" "GRAY-STREAMS" "SERVE-EVENT" "ECL-CDB")
                    :test #'string=)
            (loop for prefix in '("SB-" "SWANK" "SLYNK" "AGENT-Q-IMAGE" "CLOS-" "ASDF/" "UIOP/"
                                  "EXT-" "SYSTEM/" "XREF" "QL-" "ABCL-" "QUICKLISP" "ORG.ARMEDBEAR")
                  thereis (prefixed-p prefix name))))))

(defun first-symbol (tree)
  "The first symbol in TREE, a name or (DEFMETHOD name ...), that isn't the implementation's; if all
are, the first."
  (if (symbolp tree)
      tree
      (let ((symbols '()))
        (labels ((collect (tree)
                   (cond ((consp tree)
                          (loop for rest = tree then (cdr rest)
                                repeat 20 while (consp rest)
                                do (collect (car rest))))
                         ((and tree (symbolp tree)) (push tree symbols)))))
          (collect tree))
        (or (find-if-not #'implementation-package-p (reverse symbols) :key #'symbol-package)
            (first (last symbols))))))

(defun page (list offset limit)
  "LIMIT elements of LIST from OFFSET on."
  (loop for element in (nthcdr (max 0 (or offset 0)) list)
        repeat limit collect element))

(defun page-size (limit default most)
  (max 1 (min most (or limit default))))
