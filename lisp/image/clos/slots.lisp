;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The slots of a class. Operation: class-slots.

(cl:in-package "AGENT-Q-IMAGE")

(defun class-of-text (text package)
  "The class that TEXT names."
  (let* ((symbol (name-symbol (name-of-text text package)))
         (class (find-class symbol nil)))
    (cond (class class)
          (t (let ((others (loop for other in (elsewhere (symbol-name symbol)
                                                         (symbol-package symbol))
                                 when (find-class other nil) collect (symbol-text other))))
               (missed "~A is not a class~@[; it is a ~{~A~^ and a ~}~].~:[~; There is a class ~:*~{~A~^, ~}.~]"
                       (symbol-text symbol)
                       (or (kinds symbol)
                           (and (getf (known-facets symbol) :type) '("type")))
                       others))))))

(defun metaclass-text (class)
  "The metaclass of CLASS, unless CLASS-KIND already says it."
  (let ((meta (class-name (class-of class))))
    (unless (or (member meta '(standard-class structure-class built-in-class))
                (and (string= (symbol-name meta) "CONDITION-CLASS")
                     (implementation-package-p (symbol-package meta))))
      (symbol-text meta))))

(defun finished-p (class)
  "Whether CLASS is finalized; a class without instances may have to be told to."
  (or (mop "CLASS-FINALIZED-P" class)
      (progn (mop "FINALIZE-INHERITANCE" class)
             (mop "CLASS-FINALIZED-P" class))))

(defun precedence (class)
  "CLASS and its superclasses in order of precedence, as far as they are known."
  (or (and (finished-p class) (mop "CLASS-PRECEDENCE-LIST" class))
      (let ((found '()))
        (labels ((add (class)
                   (unless (member class found)
                     (push class found)
                     (mapc #'add (mop "CLASS-DIRECT-SUPERCLASSES" class)))))
          (add class))
        (nreverse found))))

(defun undefined-superclasses (class)
  (loop for super in (precedence class)
        when (forward-referenced-p super)
          collect (class-text super)))

(defun structure-accessor (class name)
  "The function that reads slot NAME of the structure CLASS."
  (let* ((description (optional-function "SB-KERNEL" "FIND-DEFSTRUCT-DESCRIPTION"))
         (slots (optional-function "SB-KERNEL" "DD-SLOTS"))
         (slot-name (optional-function "SB-KERNEL" "DSD-NAME"))
         (accessor (optional-function "SB-KERNEL" "DSD-ACCESSOR-NAME")))
    (if (and description slots slot-name accessor)
        (guarded (lambda ()
                   (funcall accessor
                            (find name (funcall slots (funcall description (class-name class)))
                                  :key slot-name)))
                 (constantly nil))
        (let ((guess (find-symbol (format nil "~A-~A" (class-name class) name)
                                  (symbol-package (class-name class)))))
          (and guess (fboundp guess) guess)))))

(defun initform-text (slot)
  "The initform of SLOT as text, which may be \"NIL\"; NIL if it has none."
  (let ((initform (mop "SLOT-DEFINITION-INITFORM" slot)))
    (when (or (mop "SLOT-DEFINITION-INITFUNCTION" slot)
              ;; Slots of structures have no initfunction; ECL has a symbol for no initform.
              (and initform
                   (not (and (symbolp initform)
                             (search "UNSUPPLIED" (symbol-name initform))))))
      (printed initform :limit 200 :circle nil :pretty t))))

(defun function-name-text (name)
  (if (symbolp name) (name-in-package name *package*) (definition-text name)))

(defun slot-accessors (directs)
  "Three lists: the readers, writers and accessors that the direct slots DIRECTS define."
  (let* ((readers (loop for slot in directs append (mop "SLOT-DEFINITION-READERS" slot)))
         (writers (loop for slot in directs append (mop "SLOT-DEFINITION-WRITERS" slot)))
         (both (loop for reader in readers
                     when (member (list 'setf reader) writers :test #'equal) collect reader)))
    (flet ((texts (names) (mapcar #'function-name-text (remove-duplicates names :test #'equal))))
      (values (texts (set-difference readers both))
              (texts (remove-if (lambda (writer)
                                  (and (consp writer) (member (second writer) both)))
                                writers))
              (texts both)))))

(defun first-sentence (text)
  "The first sentence of TEXT on one line, at most 120 characters."
  (let* ((blank (search (format nil "~%~%") text))
         (line (format nil "~{~A~^ ~}" (words (subseq text 0 blank))))
         ;; A stop before a lower-case letter doesn't end it: "i.e. the one".
         (end (loop for stop = (search ". " line) then (search ". " line :start2 (1+ stop))
                    while stop
                    unless (lower-case-p (char line (min (+ stop 2) (1- (length line)))))
                      return stop)))
    (shortened (if end (subseq line 0 (1+ end)) line) 120)))

(defun slot-entry (slot classes full)
  "What to say about SLOT, whose direct definitions are in CLASSES. Names are written as in the
current package, which is the class's. The documentation is cut to its first sentence, unless FULL."
  (let* ((name (mop "SLOT-DEFINITION-NAME" slot))
         (homes (loop for class in classes
                      for direct = (find name (mop "CLASS-DIRECT-SLOTS" class)
                                         :key (lambda (it) (mop "SLOT-DEFINITION-NAME" it)))
                      when direct collect (cons class direct)))
         (type (mop "SLOT-DEFINITION-TYPE" slot))
         (allocation (mop "SLOT-DEFINITION-ALLOCATION" slot))
         (text (loop for (nil . direct) in homes thereis (doc direct t))))
    (multiple-value-bind (readers writers accessors) (slot-accessors (mapcar #'cdr homes))
      (list :name (name-in-package name *package*)
            :initargs (loop for initarg in (mop "SLOT-DEFINITION-INITARGS" slot)
                            collect (name-in-package initarg *package*))
            :initform (initform-text slot)
            :readers readers :writers writers
            :accessors (or accessors
                           (when (string= "structure" (class-kind (first classes)))
                             (let ((accessor (structure-accessor (first classes) name)))
                               (and accessor (list (name-in-package accessor *package*))))))
            ;; CLISP turns no type into (AND T).
            :type (and (not (member type '(t nil (and t)) :test #'equal))
                       (printed type :limit 120 :circle nil))
            :allocation (and allocation (not (eq allocation :instance))
                             (string-downcase (princ-to-string allocation)))
            :documentation (if (and text (not full)) (first-sentence text) text)
            :more (and text (not full)
                       (< (length (first-sentence text)) (length (trimmed text))))
            :from (and homes
                       (not (eq (car (first homes)) (first classes)))
                       (class-text (car (first homes))))))))

(defun default-initargs (class)
  (loop for initarg in (mop "CLASS-DEFAULT-INITARGS" class)
        when (and (consp initarg) (consp (rest initarg)))
          collect (format nil "~A ~A" (printed (first initarg) :limit 60)
                          (printed (second initarg) :limit 120 :circle nil))))

(defun slots-of (class)
  "The slots of CLASS, including inherited ones, as far as they are known."
  (if (finished-p class)
      (mop "CLASS-SLOTS" class)
      (remove-duplicates
       (loop for each in (precedence class) append (mop "CLASS-DIRECT-SLOTS" each))
       :key (lambda (slot) (mop "SLOT-DEFINITION-NAME" slot)) :from-end t)))

(define-operation "class-slots" (class package full)
  ;; The slots of a class, including inherited ones; FULL for their whole documentation.
  (let* ((class (class-of-text class package))
         (classes (precedence class))
         (slots (slots-of class))
         (finished (finished-p class)))
    (list :class (class-text class)
          :kind (class-kind class)
          :metaclass (metaclass-text class)
          :undefined (unless finished (undefined-superclasses class))
          :default-initargs (and finished (default-initargs class))
          :slots (let ((*package* (or (symbol-package (class-name class)) *package*)))
                   (loop for slot in slots collect (slot-entry slot classes full))))))
