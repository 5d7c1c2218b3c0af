;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Inspecting objects by their handles, without touching the user's own inspector. Operation:
;;; inspect-value.

(cl:in-package "AGENT-Q-IMAGE")

;; A view of an object: facts (texts), how many parts it has, and a page of its parts. A part is a
;; list of a label and the part, or a remark if the part isn't available.

(defstruct (view (:constructor make-view (&key facts total parts)))
  facts total parts)

(defstruct (remark (:constructor make-remark (text))) text)

(defun list-shape (list)
  "How many conses LIST has, and how it ends: :PROPER, :DOTTED, :CIRCULAR or :LONG."
  (let ((slow list) (count 0))
    (loop for fast = list then (cdr fast)
          do (cond ((null fast) (return (values count :proper)))
                   ((atom fast) (return (values count :dotted)))
                   ((and (> count 0) (eq fast slow)) (return (values count :circular)))
                   ((>= count 1000000) (return (values count :long))))
             (incf count)
             (when (evenp count) (setf slow (cdr slow))))))

(defun list-view (list offset limit)
  (compile-now 'list-shape)
  (multiple-value-bind (count end) (list-shape list)
    (make-view :facts (list (ecase end
                              (:proper (format nil "List of ~D element~:P" count))
                              (:dotted (format nil "Dotted list of ~D cons~:*~[es~;~:;es~]" count))
                              (:circular "Circular list")
                              (:long "List of more than a million elements")))
               :total (if (eq end :circular) (min count 1000) count)
               :parts (loop for tail = (nthcdr offset list) then (cdr tail)
                            for index from offset
                            repeat limit
                            while (and (consp tail) (or (not (eq end :circular)) (< index 1000)))
                            collect (list (format nil "~D" index) (car tail))
                            when (and (cdr tail) (atom (cdr tail)))
                              collect (list "." (cdr tail))))))

(defun array-view (array offset limit)
  (let ((total (array-total-size array)))
    (make-view
     :facts (list (format nil "~:[Array~;Vector~] of ~{~D~^ × ~} elements~@[, type ~A~]~@[, fill pointer ~D~]~@[~A~]"
                          (vectorp array) (array-dimensions array)
                          (let ((type (array-element-type array)))
                            (unless (eq type t) (printed type :limit 80)))
                          (and (array-has-fill-pointer-p array) (fill-pointer array))
                          (and (adjustable-array-p array) ", adjustable")))
     :total total
     :parts (loop for index from offset below (min total (+ offset limit))
                  collect (list (format nil "~D" index) (row-major-aref array index))))))

(defun hash-table-view (table offset limit)
  (let ((parts '()) (index 0))
    (block nil
      (maphash (lambda (key value)
                 (when (>= index (+ offset limit)) (return))
                 (when (>= index offset)
                   (push (list (printed key :limit 100 :length 10 :level 3) value) parts))
                 (incf index))
               table))
    (make-view :facts (list (format nil "Hash table of ~D entr~:@P, test ~A"
                                    (hash-table-count table)
                                    (printed (hash-table-test table) :limit 60)))
               :total (hash-table-count table)
               :parts (nreverse parts))))

(defun slot-part (object slot)
  (let ((name (mop "SLOT-DEFINITION-NAME" slot)))
    (list (symbol-name name)
          (guarded (lambda ()
                     (if (slot-boundp object name)
                         (slot-value object name)
                         (make-remark "unbound")))
                   (lambda (condition)
                     (make-remark (format nil "can't be read: ~A" (type-name condition))))))))

(defun instance-view (object offset limit)
  (let* ((class (class-of object))
         (slots (mop "CLASS-SLOTS" class))
         (name (class-name class)))
    (make-view :facts (list (format nil "~A ~A"
                                    (string-capitalize
                                     (if (string= "class" (class-kind class))
                                         "instance of"
                                         (class-kind class))
                                     :end 1)
                                    (if name (symbol-text name) (printed class :limit 80))))
               :total (length slots)
               :parts (loop for slot in (page slots offset limit)
                            collect (slot-part object slot)))))

(defun function-view (function)
  (make-view
   :facts (remove nil
                  (list (format nil "~A ~@[~A~]"
                                (if (typep function 'generic-function) "Generic function" "Function")
                                (let ((name (guarded (lambda () (backend "FUNCTION-NAME" function))
                                                     (constantly nil))))
                                  (and name (printed name :limit 120))))
                        (let ((arglist (arglist-text function)))
                          (and arglist (format nil "Arguments: ~A" arglist)))
                        (let ((text (doc function 'function)))
                          (and text (format nil "Documentation: ~A" text)))))
   :total 0 :parts '()))

(defun slot-words (slot)
  "SLOT, from SLOT-ENTRY, in words."
  (flet ((some-of (label texts) (and texts (format nil "~A ~{~A~^ ~}" label texts)))
         (fact (label text) (and text (format nil "~A ~A" label text))))
    (format nil "~{~A~^, ~}"
            (remove nil (list (fact "type" (getf slot :type))
                              (some-of "initarg" (getf slot :initargs))
                              (fact "initform" (getf slot :initform))
                              (some-of "accessor" (getf slot :accessors))
                              (some-of "reader" (getf slot :readers))
                              (some-of "writer" (getf slot :writers))
                              (fact "allocation" (getf slot :allocation))
                              (fact "from" (getf slot :from)))))))

(defun class-view (class offset limit)
  "A class in words: its relations to other classes, and its slots."
  (let* ((slots (slots-of class))
         (classes (precedence class))
         (subclasses (mop "CLASS-DIRECT-SUBCLASSES" class))
         (methods (length (mop "SPECIALIZER-DIRECT-METHODS" class)))
         (*package* (or (symbol-package (class-name class)) *package*)))
    (make-view
     :facts (remove nil
                    (list (format nil "~A ~A~@[, metaclass ~A~]"
                                  (string-capitalize (class-kind class) :end 1)
                                  (class-text class) (metaclass-text class))
                          (format nil "precedence: ~{~A~^, ~}" (mapcar #'class-text classes))
                          (and subclasses
                               (format nil "direct subclasses: ~{~A~^, ~}~@[ and ~D more~]"
                                       (mapcar #'class-text (page subclasses 0 limit))
                                       (let ((more (- (length subclasses) limit)))
                                         (and (plusp more) more))))
                          (and (plusp methods)
                               (format nil "~D method~:P specialized on it" methods))
                          (let ((text (doc class t)))
                            (and text (format nil "documentation: ~A" (first-sentence text))))
                          (and slots "slots:")))
     :total (length slots)
     :parts (loop for slot in (page slots offset limit)
                  collect (let ((entry (slot-entry slot classes nil)))
                            (list (getf entry :name)
                                  (make-remark (let ((words (slot-words entry)))
                                                 (if (string= words "") "no options" words)))))))))

(defun described-view (object)
  "The view of any other object: what DESCRIBE prints."
  (make-view
   :facts (list (format nil "~A" (type-name object))
                (trimmed (guarded (lambda ()
                                    (write-bounded (lambda (stream)
                                                     (call-with-printer
                                                      (lambda () (describe object stream))
                                                      :length 20 :level 4))
                                                   1000))
                                  (constantly ""))))
   :total 0 :parts '()))

(defun object-view (object offset limit)
  (guarded (lambda () (view-by-type object offset limit))
           ;; An object that was allocated but never initialized may have nothing but slots.
           (lambda (condition)
             (declare (ignore condition))
             (if (mop "CLASS-SLOTS" (class-of object))
                 (instance-view object offset limit)
                 (described-view object)))))

(defun view-by-type (object offset limit)
  (typecase object
    (null (described-view object))
    (cons (list-view object offset limit))
    (string (described-view object))
    (array (array-view object offset limit))
    (hash-table (hash-table-view object offset limit))
    (function (function-view object))
    (class (class-view object offset limit))
    ((or number character symbol package pathname stream) (described-view object))
    ((or standard-object structure-object condition) (instance-view object offset limit))
    (t (if (mop "CLASS-SLOTS" (class-of object))
           (instance-view object offset limit)
           (described-view object)))))

(defun part-entry (label part depth path)
  (if (remark-p part)
      (list :label label :remark (remark-text part))
      (let* ((text (printed part :limit 300 :length 10 :level 3))
             (handle (handle-beyond part text)))
        (list :label label
              :text text
              :handle handle
              :parts (and handle (> depth 1)
                          (if (member part path)
                              '()
                              (part-entries part 0 8 (1- depth) (cons part path))))))))

(defun part-entries (object offset limit depth path)
  (let ((view (guarded (lambda () (object-view object offset limit)) (constantly nil))))
    (loop for (label part) in (and view (view-parts view))
          collect (part-entry label part depth path))))

(define-operation "inspect-value" (handle depth limit offset)
  ;; The parts of an object that was shown before.
  (let* ((object (handle-object handle))
         (offset (max 0 (or offset 0)))
         (limit (page-size limit 20 100))
         (depth (max 1 (min 4 (or depth 1))))
         (view (object-view object offset limit)))
    (list :handle (handle-of object)
          :text (printed object :limit 500 :length 10 :level 3)
          :facts (view-facts view)
          :total (view-total view)
          :offset offset
          :parts (loop for (label part) in (view-parts view)
                       collect (part-entry label part depth (list object))))))
