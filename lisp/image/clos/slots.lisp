;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Needs: introspection
;;; What instances of a class are made of. Operation: class-slots.

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

(defun class-text (class)
  (let ((name (guarded (lambda () (class-name class)) (constantly nil))))
    (if name (symbol-text name) (printed class :limit 80))))

(defun finished-p (class)
  "Whether CLASS knows its slots; classes without instances may have to be told to."
  (or (mop "CLASS-FINALIZED-P" class)
      (progn (mop "FINALIZE-INHERITANCE" class)
             (mop "CLASS-FINALIZED-P" class))))

(defun precedence (class)
  "CLASS and its superclasses in their order, as far as they are known."
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
        when (search "FORWARD-REFERENCED" (symbol-name (class-name (class-of super))))
          collect (class-text super)))

(defun structure-accessor (class name)
  "The function that reads the slot NAME of the structure CLASS."
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
  "The slot's initial form, which can be NIL; without one, NIL for none."
  (let ((initform (mop "SLOT-DEFINITION-INITFORM" slot)))
    (when (or (mop "SLOT-DEFINITION-INITFUNCTION" slot)
              ;; Slots of structures have no function; ECL has a symbol for none.
              (and initform
                   (not (and (symbolp initform)
                             (search "UNSUPPLIED" (symbol-name initform))))))
      (printed initform :limit 200 :circle nil :pretty t))))

(defun function-name-text (name)
  (if (symbolp name) (name-in-package name *package*) (definition-text name)))

(defun slot-accessors (directs)
  "The readers, writers and accessors that the direct slots DIRECTS define; three lists."
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

(defun slot-entry (slot classes)
  "What there is to say on SLOT, whose direct definitions are in CLASSES. Names are written as in
the current package, which is that of the class."
  (let* ((name (mop "SLOT-DEFINITION-NAME" slot))
         (homes (loop for class in classes
                      for direct = (find name (mop "CLASS-DIRECT-SLOTS" class)
                                         :key (lambda (it) (mop "SLOT-DEFINITION-NAME" it)))
                      when direct collect (cons class direct)))
         (type (mop "SLOT-DEFINITION-TYPE" slot))
         (allocation (mop "SLOT-DEFINITION-ALLOCATION" slot)))
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
            :type (and (not (member type '(t nil))) (printed type :limit 120 :circle nil))
            :allocation (and allocation (not (eq allocation :instance))
                             (string-downcase (princ-to-string allocation)))
            :documentation (loop for (nil . direct) in homes
                                 thereis (doc direct t))
            :from (and homes
                       (not (eq (car (first homes)) (first classes)))
                       (class-text (car (first homes))))))))

(defun default-initargs (class)
  (loop for initarg in (mop "CLASS-DEFAULT-INITARGS" class)
        when (and (consp initarg) (consp (rest initarg)))
          collect (format nil "~A ~A" (printed (first initarg) :limit 60)
                          (printed (second initarg) :limit 120 :circle nil))))

(define-operation "class-slots" (class package)
    "The slots of a class, inherited ones too."
  (let* ((class (class-of-text class package))
         (finished (finished-p class))
         (classes (precedence class))
         (slots (if finished
                    (mop "CLASS-SLOTS" class)
                    (remove-duplicates
                     (loop for each in classes append (mop "CLASS-DIRECT-SLOTS" each))
                     :key (lambda (slot) (mop "SLOT-DEFINITION-NAME" slot)) :from-end t))))
    (list :class (class-text class)
          :kind (class-kind class)
          :metaclass (let ((meta (class-name (class-of class))))
                       (unless (member (symbol-name meta)
                                       '("STANDARD-CLASS" "STRUCTURE-CLASS" "BUILT-IN-CLASS"
                                         "CONDITION-CLASS")
                                       :test #'string=)
                         (symbol-text meta)))
          :undefined (unless finished (undefined-superclasses class))
          :default-initargs (and finished (default-initargs class))
          :slots (let ((*package* (or (symbol-package (class-name class)) *package*)))
                   (loop for slot in slots collect (slot-entry slot classes))))))
