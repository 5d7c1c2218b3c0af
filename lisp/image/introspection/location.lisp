;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Where definitions are. Emacs turns these places into files and lines: it may be on another
;;; machine, and the text may be in a buffer that nobody saved.

(cl:in-package "AGENT-Q-IMAGE")

(defun place-plist (place)
  (case (first place)
    (:file (list :file (second place)))
    (:buffer (list :buffer (second place)))
    (:buffer-and-file (list :buffer (second place) :file (third place)))
    (:zip (list :file (second place)))
    (:source-form (list :source (second place)))))

(defun position-plist (position)
  (case (first position)
    (:position (list :position (second position)))
    (:offset (list :position (+ (second position) (or (third position) 0))))
    (:line (list :line (second position)))))

(defun location-plist (location &optional what)
  "LOCATION, as the client's backend writes it, as a property list, or NIL when it tells nothing.
WHAT is defined there."
  (guarded (lambda ()
             (when (and (consp location) (eq (first location) :location))
               (destructuring-bind (place position &optional hints) (rest location)
                 (let ((place (place-plist place)))
                   (when place
                     (append place
                             (position-plist position)
                             ;; SBCL alone always knows the position.
                             (if (implementation-p "SBCL")
                                 (list :snippet (and (evenp (length hints))
                                                     (getf hints :snippet)))
                                 (definition-hints what))))))))
           (constantly nil)))

(defun definition-hints (what)
  "By which names the source of WHAT, such as (DEFMETHOD name :AFTER (CLASS)), can be found."
  (when (and (consp what) (consp (rest what)))
    (labels ((atoms (tree)
               (cond ((consp tree) (append (atoms (car tree)) (atoms (cdr tree))))
                     ((member tree '(nil t)) '())
                     ((keywordp tree) (list (format nil ":~(~A~)" tree)))
                     ((symbolp tree) (list (string-downcase (symbol-name tree))))
                     ((numberp tree) (list (princ-to-string tree))))))
      (let ((name (second what)))
        (list :definer (and (eq 'defmethod (first what)) "defmethod")
              :name (format nil "~{~A~^ ~}" (atoms name))
              :mentions (when (eq 'defmethod (first what)) (atoms (cddr what))))))))

;;; What is defined, written as most implementations do: (DEFUN name)

(defun class-definer (name)
  (let* ((class (find-class name nil))
         (kind (if class (class-kind class) "")))
    (cond ((string= kind "structure") 'defstruct)
          ((string= kind "condition") 'define-condition)
          (t 'defclass))))

(defun plain-definition (what)
  "WHAT, as it is on SBCL. CLISP writes the name first, some only the name."
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

(defun abcl-definitions (name)
  "What ABCL notes of NAME itself, in the client's words: lists of what and where."
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
  "Pairs of what NAME, a symbol or (SETF symbol), is defined as and of the location."
  (let ((found (guarded (lambda ()
                          (or (and (implementation-p "ABCL") (abcl-definitions name))
                              (backend "FIND-DEFINITIONS" name)))
                        (constantly '()))))
    (loop for definition in (and (listp found) found)
          when (and (consp definition) (consp (rest definition)))
            collect (let ((what (plain-definition (first definition))))
                      (list what (location-plist (second definition) what))))))

(defun definition-text (what)
  (printed what :limit 160 :circle nil))

(defun definer (what)
  (if (and (consp what) (symbolp (first what)) (not (keywordp (first what))))
      (symbol-name (first what))
      ""))

(defun real-definitions (definitions)
  "DEFINITIONS without notes that only serve the compiler, unless there is nothing else."
  (or (remove-if-not (lambda (definition) (prefixed-p "DEF" (definer (first definition))))
                     definitions)
      definitions))

(defun definition-list (name &key (limit 8))
  "The definitions of NAME whose places are known, at most LIMIT."
  (let ((found (real-definitions (remove nil (found-definitions name) :key #'second))))
    (append (loop for (what location) in found
                  repeat limit
                  collect (list :what (definition-text what) :location location))
            (when (> (length found) limit)
              (list (list :more (- (length found) limit)))))))

;;; Whose a thing is

(defun implementation-package-p (package)
  "Whether PACKAGE is of the implementation, of the client, or ours."
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
  "The first symbol in TREE, a name or (DEFMETHOD name ...), that is of no implementation."
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
