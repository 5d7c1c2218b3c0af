;;; agent-q-image-objects-test.el --- Looking into the Lisp image  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The operations that look into classes, packages, objects and the image as a
;; whole, on a real SBCL, the same tests through SLIME and through SLY.

;;; Code:

(require 'ert)
(require 'agent-q-test)
(require 'agent-q-test-program)

;;;; Classes

(agent-q-test-image-on-each tells-slots ()
  "Slots come with everything, inherited ones with where from; NIL is a value."
  (agent-q-test-program-file connection)
  (cl-flet ((slots (class)
              (plist-get (agent-q-test-image-value connection "class-slots"
                                                   :class class :package "aq-look")
                         :slots)))
    (let* ((slots (slots "square"))
           (width (cl-find "WIDTH" slots :test #'equal
                           :key (lambda (slot) (plist-get slot :name))))
           (count (cl-find "COUNT" slots :test #'equal
                           :key (lambda (slot) (plist-get slot :name)))))
      (should (= 3 (length slots)))
      (cl-loop for (key value) on '(:initargs (":WIDTH") :initform "NIL" :accessors ("WIDTH")
                                    :readers nil :from "AQ-LOOK::SHAPE"
                                    :documentation "How wide.")
               by #'cddr do (should (equal value (plist-get width key))))
      (cl-loop for (key value) on '(:type "INTEGER" :allocation "class"
                                    :readers ("SHAPE-COUNT") :accessors nil :initform nil)
               by #'cddr do (should (equal value (plist-get count key)))))
    (should (equal '(("X" ("POINT-X") "NIL" nil) ("Y" ("POINT-Y") "2" "FIXNUM"))
                   (mapcar (lambda (slot) (mapcar (lambda (key) (plist-get slot key))
                                                  '(:name :accessors :initform :type)))
                           (slots "point"))))
    (should (equal '(("TROUBLE-PLACE"))
                   (mapcar (lambda (slot) (plist-get slot :readers)) (slots "trouble"))))
    (should (cl-find "SB-PCL::NAME" (slots "cl:standard-class") :test #'string-match-p
                     :key (lambda (slot) (concat "SB-PCL::" (plist-get slot :name))))))
  (let ((value (agent-q-test-image-value connection "class-slots"
                                         :class "aq-look::unfinished")))
    (should (equal '("AQ-LOOK::NOWHERE-YET") (plist-get value :undefined)))
    (should (equal '("A") (mapcar (lambda (slot) (plist-get slot :name))
                                  (plist-get value :slots)))))
  (should (string-match-p "AQ-LOOK:CALLEE is not a class; it is a function"
                          (agent-q-test-program-miss
                           connection "class-slots" :class "aq-look:callee")))
  (agent-q-test-image-eval connection "'cl-user::square")
  (should (string-match-p "There is a class AQ-LOOK::SQUARE"
                          (agent-q-test-program-miss
                           connection "class-slots" :class "square"))))

(agent-q-test-image-on-each tells-kinds-by-what-classes-are ()
  "A metaclass of the program's may be called what it likes."
  (agent-q-test-image-define connection)
  (agent-q-test-image-eval
   connection
   "(defpackage :aq-meta (:use :cl)) (in-package :aq-meta)
    (defclass infrastructure-class (standard-class) ())
    (defclass air-conditioned-class (standard-class) ())
    (defmethod sb-mop:validate-superclass ((one infrastructure-class) (two standard-class)) t)
    (defmethod sb-mop:validate-superclass ((one air-conditioned-class) (two standard-class)) t)
    (defclass server () (port) (:metaclass infrastructure-class))
    (defclass air () (port) (:metaclass air-conditioned-class))")
  (dolist (case '(("aq-meta::server" "class" "AQ-META::INFRASTRUCTURE-CLASS" "Instance of")
                  ("aq-meta::air" "class" "AQ-META::AIR-CONDITIONED-CLASS" "Instance of")
                  ("aq-test::point" "structure" nil "Structure")
                  ("aq-test::trouble" "condition" nil "Condition")
                  ("error" "condition" nil "Condition")))
    (pcase-let ((`(,name ,kind ,metaclass ,instance) case))
      (let ((slots (agent-q-test-image-value connection "class-slots" :class name)))
        (should (equal (list name kind metaclass)
                       (list name (plist-get slots :kind) (plist-get slots :metaclass)))))
      (should (member kind (cdr (agent-q-test-image-names connection name))))
      (should (string-prefix-p
               instance
               (car (plist-get (agent-q-test-image-value
                                connection "inspect-value"
                                :handle (agent-q-objects-test--handle
                                         connection
                                         (format "(make-%s '%s)"
                                                 (if (equal kind "condition") "condition" "instance")
                                                 name)))
                               :facts)))))))

(agent-q-test-image-on-each tells-the-first-sentence-of-slots ()
  "Of a slot's documentation comes its first sentence, and all of it when that is wanted."
  (agent-q-test-image-eval
   connection
   "(defclass cl-user::aq-told ()
      ((one :documentation \"The first,
  i.e. the one. More on it.\") (two :documentation \"Only this.\")))")
  (cl-flet ((told (&rest arguments)
              (mapcar (lambda (slot) (list (plist-get slot :documentation) (plist-get slot :more)))
                      (plist-get (apply #'agent-q-test-image-value connection "class-slots"
                                        :class "aq-told" arguments)
                                 :slots))))
    (should (equal '(("The first, i.e. the one." t) ("Only this." nil)) (told)))
    (should (equal '(("The first,\n  i.e. the one. More on it." nil) ("Only this." nil))
                   (told :full t)))))

(agent-q-test-image-on-each tells-hierarchies ()
  "A class has its precedence above it and its subclasses below, in bounds."
  (agent-q-test-program-file connection)
  (let ((value (agent-q-test-image-value connection "class-hierarchy"
                                         :class "aq-look::shape")))
    (should (equal '("AQ-LOOK::SHAPE" "STANDARD-OBJECT")
                   (seq-take (plist-get value :precedence) 2)))
    (should (equal '((1 "AQ-LOOK::SQUARE")) (plist-get value :subclasses)))
    (should (= 1 (plist-get value :subclass-count)))
    (should (> (plist-get value :methods) 2)))
  (let ((value (agent-q-test-image-value connection "class-hierarchy" :class "t" :limit 7)))
    (should (= 7 (length (plist-get value :subclasses))))
    (should (> (plist-get value :subclass-count) 500)))
  (should (equal '("AQ-LOOK::NOWHERE-YET")
                 (plist-get (agent-q-test-image-value connection "class-hierarchy"
                                                      :class "aq-look::unfinished")
                            :undefined))))

(agent-q-test-image-on-each tells-methods ()
  "Methods have qualifiers and specializers, setf functions and objects included."
  (agent-q-test-program-file connection)
  (let ((value (agent-q-test-image-value connection "method-specializers"
                                         :generic-function "aq-look::area")))
    (should (equal "(SHAPE)" (plist-get value :arglist)))
    (should (cl-find '(:qualifiers nil :specializers ("AQ-LOOK::SHAPE"))
                     (plist-get value :methods) :test #'equal))
    (should (cl-find '(:qualifiers (":BEFORE") :specializers ("(EQL 3)"))
                     (plist-get value :methods) :test #'equal)))
  (let ((value (agent-q-test-image-value connection "method-specializers"
                                         :generic-function "(setf aq-look::area)")))
    (should (equal "(SETF AQ-LOOK::AREA)" (plist-get value :name)))
    (should (equal '((:qualifiers nil :specializers ("T" "AQ-LOOK::SHAPE")))
                   (plist-get value :methods))))
  (let ((value (agent-q-test-image-value connection "method-specializers"
                                         :generic-function "print-object" :limit 3)))
    (should (= 3 (length (plist-get value :methods))))
    (should (> (plist-get value :total) 100)))
  (should (string-match-p "CAR is not a generic function; it is a function"
                          (agent-q-test-program-miss
                           connection "method-specializers" :generic-function "car"))))

;;;; Packages

(agent-q-test-image-on-each lists-symbols-of-packages ()
  "Symbols come sorted, external ones first, in pages; any name of the package does."
  (agent-q-test-program-file connection)
  (let ((value (agent-q-test-image-value connection "list-package-symbols"
                                         :package "Aq-Look")))
    (should (equal '((:name "CALLEE" :kinds ("function") :internal nil))
                   (plist-get value :symbols)))
    (should (> (plist-get value :internal) 10)))
  (let* ((value (agent-q-test-image-value connection "list-package-symbols"
                                          :package "#:aq-look" :include-internal t))
         (names (mapcar (lambda (symbol) (plist-get symbol :name))
                        (plist-get value :symbols))))
    (should (equal "CALLEE" (car names)))
    (should (equal (cdr names) (sort (copy-sequence (cdr names)) #'string<)))
    (should (= (length names) (plist-get value :total))))
  ;; A name with nothing but a setf function is more than a name.
  (agent-q-test-image-eval connection "(defpackage :aq-setf (:use :cl) (:export #:part))
                                       (defun (setf aq-setf:part) (new it) (list new it))")
  (should (equal '((:name "PART" :kinds ("setf function") :internal nil))
                 (plist-get (agent-q-test-image-value connection "list-package-symbols"
                                                      :package "aq-setf")
                            :symbols)))
  (let ((value (agent-q-test-image-value connection "list-package-symbols"
                                         :package "cl" :limit 10 :offset 970)))
    (should (= 978 (plist-get value :total)))
    (should (= 8 (length (plist-get value :symbols)))))
  (dolist (name '("no-such-package" "" "  "))
    (should (string-match-p "not found\\|Which package"
                            (agent-q-test-program-miss
                             connection "list-package-symbols" :package name)))))

(agent-q-test-image-on-each tells-about-packages ()
  "A package has names, neighbours and counts."
  (agent-q-test-image-define connection)
  (let ((value (agent-q-test-image-value connection "package-info" :package "aq-nick")))
    (cl-loop for (key expected) on '(:package "AQ-TEST" :nicknames ("AQ-NICK")
                                     :uses ("COMMON-LISP") :external 1 :exports ("SHOWN")
                                     :lock "unlocked")
             by #'cddr do (should (equal expected (plist-get value key)))))
  (should (equal '("AT = AQ-TEST")
                 (plist-get (agent-q-test-image-value connection "package-info"
                                                      :package "aq-user")
                            :local-nicknames)))
  (let ((value (agent-q-test-image-value connection "package-info" :package "cl")))
    (should (equal "locked" (plist-get value :lock)))
    (should (= 978 (plist-get value :external)))
    (should (= 40 (length (plist-get value :exports))))))

;;;; Objects

(defun agent-q-objects-test--handle (connection form)
  "Return the handle of the value of FORM, evaluated over CONNECTION."
  (let* ((reply (agent-q-test-image-eval connection form))
         (forms (plist-get (plist-get reply :value) :forms)))
    (car (plist-get (car (last forms)) :handles))))

(defun agent-q-objects-test--parts (value)
  "Return the parts in VALUE, each as (LABEL . TEXT)."
  (mapcar (lambda (part) (cons (plist-get part :label)
                               (or (plist-get part :text) (plist-get part :remark))))
          (plist-get value :parts)))

(agent-q-test-image-on-each looks-into-objects ()
  "An object that was evaluated can be followed from part to part."
  (agent-q-test-program-file connection)
  (let* ((handle (agent-q-objects-test--handle
                  connection "(make-instance 'aq-look::square :width (aq-look::make-point :x 7))"))
         (value (agent-q-test-image-value connection "inspect-value" :handle handle))
         (parts (agent-q-objects-test--parts value))
         (point (plist-get (cl-find "WIDTH" (plist-get value :parts) :test #'equal
                                    :key (lambda (part) (plist-get part :label)))
                           :handle)))
    (should (equal '("Instance of AQ-LOOK::SQUARE") (plist-get value :facts)))
    (should (equal "unbound" (cdr (assoc "COUNT" parts))))
    (should (equal "(1)" (cdr (assoc "SIDE" parts))))
    (should (equal '(("X" . "7") ("Y" . "2"))
                   (agent-q-objects-test--parts
                    (agent-q-test-image-value connection "inspect-value" :handle point))))
    ;; One that was never initialized has nothing but slots.
    (should (plist-get (agent-q-test-image-value
                        connection "inspect-value"
                        :handle (agent-q-objects-test--handle
                                 connection "(allocate-instance (find-class 'standard-class))"))
                       :parts))
    ;; Deeper at once, and the same object keeps its name.
    (let ((deep (agent-q-test-image-value connection "inspect-value" :handle handle :depth 2)))
      (should (equal handle (plist-get deep :handle)))
      (should (cl-find-if (lambda (part) (equal '(("X" . "7") ("Y" . "2"))
                                                (agent-q-objects-test--parts part)))
                          (plist-get deep :parts))))))

(agent-q-test-image-on-each survives-odd-objects ()
  "Circular, huge and failing objects are looked into without harm."
  (agent-q-test-image-define connection)
  (dolist (case '(("(let ((it (list 1 (make-instance 'aq-test::touchy)))) (setf (cddr it) it))"
                   "Circular list" "1")
                  ("(list* 1 (make-hash-table) 3)" "Dotted list of 2 cons" "1")
                  ("(make-list 2000000 :initial-element 1)" "more than a million" "1")
                  ("(make-array '(3 4) :initial-element 7)" "Array of 3 × 4" nil)
                  ("(make-array 100000 :initial-element 7)" "Vector of 100000" "7")
                  ("(let ((it (make-hash-table :test 'equal))) (setf (gethash \"k\" it) 5) it)"
                   "Hash table of 1 entry, test EQUAL" "5")
                  ("(let ((it (make-hash-table))) (setf (gethash it it) it) it)"
                   "Hash table of 1 entry" "#<HASH-TABLE")
                  ("#'mapcar" "Function MAPCAR" nil)
                  ("#'print-object" "Generic function PRINT-OBJECT" nil)
                  ("(make-condition 'aq-test::trouble)" "Condition AQ-TEST::TROUBLE" nil)
                  ("(find-class 'aq-test::shape)" "\\`Class AQ-TEST::SHAPE\nprecedence: .*\n.*\ndocumentation: A shape.\nslots:" "no options")
                  ("(find-class 'aq-test::point)" "\\`Structure AQ-TEST::POINT" "initform NIL, accessor POINT-X")
                  ("(make-instance 'aq-test::touchy)" "Instance of AQ-TEST::TOUCHY" nil)
                  ("*standard-output*" "STREAM" nil)))
    (ert-info ((car case))
      (let ((handle (agent-q-objects-test--handle connection (car case))))
        ;; A short array prints whole and has no handle.
        (if (null handle)
            (should (string-prefix-p "(make-array '(3 4)" (car case)))
          (let ((value (agent-q-test-image-value connection "inspect-value"
                                                 :handle handle :depth 4)))
            (should (string-match-p (cadr case) (mapconcat #'identity
                                                           (plist-get value :facts) "\n")))
            (should (<= (length (plist-get value :parts)) 20))
            (when (caddr case)
              (should (string-prefix-p (caddr case)
                                       (cdar (agent-q-objects-test--parts value))))))))))
  (dolist (handle '("v999999" "7x" "" "nil"))
    (should (string-match-p "no object\\|not a handle"
                            (agent-q-test-program-miss
                             connection "inspect-value" :handle handle)))))

(agent-q-test-image-on-each keeps-a-bounded-number-of-objects ()
  "Old handles are given up, with a word on which there are."
  (let ((first (agent-q-objects-test--handle connection "(make-hash-table)")))
    (agent-q-test-image-eval
     connection "(dotimes (i 300) (agent-q-image::handle-of (list i)))")
    (should (string-match-p "No object v[0-9]+: only v[0-9]+ to v[0-9]+ are kept"
                            (agent-q-test-program-miss
                             connection "inspect-value" :handle first)))
    (should (equal '("256") (agent-q-test-image-values
                             connection "(length agent-q-image::*handles*)")))))

;;;; The image

(defun agent-q-objects-test--part (connection part)
  "Return all of PART of the status of the image behind CONNECTION."
  (plist-get (agent-q-test-image-value connection "image-status" :part part :limit 500)
             :items))

(agent-q-test-image-on-each tells-the-state-briefly ()
  "The systems of a library are one word, and the user's own work comes before libraries."
  (write-region "" nil (expand-file-name "aq-zoo.asd" agent-q-test-directory) nil 'silent)
  (agent-q-test-image-eval
   connection
   (format "(require :asdf)
    (defpackage :aq-mine (:use :cl))
    (flet ((system (name place)
             (handler-bind ((warning #'muffle-warning))
               (eval (list 'asdf:defsystem name))
               (asdf:load-system name))
             (setf (asdf:system-source-file (asdf:registered-system name)) place)))
      ;; Any file of a library will do that is there.
      (system \"aq-library\" (first (directory #p\"/usr/share/common-lisp/source/**/*.asd\")))
      (dotimes (n 90) (system (format nil \"aq-library/~D\" n) nil))
      (system \"aq-zoo\" #p%S))"
           (expand-file-name "aq-zoo.asd" agent-q-test-directory)))
  (unwind-protect
      (let* ((status (agent-q-test-image-value connection "image-status"))
             (systems (plist-get status :systems)))
        (should (member "aq-library (+90)" systems))
        (should (member "aq-library" (member "aq-zoo" (mapcar (lambda (system)
                                                                (car (split-string system)))
                                                              systems))))
        (should (member "AQ-MINE" (plist-get status :own-packages)))
        (should (< (length (prin1-to-string status)) 2000))
        (should (> (length (agent-q-objects-test--part connection "systems")) 91)))
    (agent-q-test-image-eval
     connection "(dolist (name (asdf:registered-systems))
                   (when (eql 0 (search \"aq-\" name)) (asdf:clear-system name)))")))

(agent-q-test-image-on-each tells-the-state-of-the-image ()
  "The status has the implementation, threads, packages and what else of ours runs."
  (agent-q-test-image-define connection)
  (let* ((other (agent-q-test-image-start connection "(sleep 30)"))
         (status nil))
    (unwind-protect
        (progn
          (agent-q-test-image-await
           (lambda ()
             (setq status (agent-q-test-image-value connection "image-status"))
             (plist-get status :running))
           20)
          (should (string-match-p "\\`eval-form for [0-9]+ s\\'"
                                  (car (plist-get status :running))))
          (should (= 1 (length (plist-get status :running))))
          (should (string-prefix-p "SBCL " (plist-get status :implementation)))
          (should (string-match-p "\\`[0-9]+ MB of [0-9]+ MB\\'" (plist-get status :memory)))
          (should (member "AQ-TEST" (agent-q-objects-test--part connection "packages")))
          (should-not (cl-find-if (lambda (name) (string-match-p "\\`\\(SB-\\|AGENT-Q\\|S[LW]\\)"
                                                                 name))
                                  (agent-q-objects-test--part connection "packages")))
          (should (member "sbcl" (agent-q-objects-test--part connection "features")))
          (should (> (length (plist-get status :threads)) 1)))
      (agent-q-image-cancel (car other))
      (agent-q-test-image-end other))))

(agent-q-test-image-on-each disassembles ()
  "Machine code comes in pages, of macros and setf functions too."
  (agent-q-test-program-file connection)
  (let ((value (agent-q-test-image-value connection "disassemble-function"
                                         :function "aq-look:callee" :limit 4)))
    (should (= 4 (length (plist-get value :lines))))
    (should (> (plist-get value :total) 10)))
  ;; Neither addresses nor bytes, but the labels that jumps name.
  (let* ((lines (plist-get (agent-q-test-image-value connection "disassemble-function"
                                                     :function "aq-look:callee")
                           :lines))
         (text (mapconcat #'identity lines "\n")))
    (should (string-match-p "^Size: [0-9]+ bytes$" text))
    (should-not (string-match-p "^[;0-9A-F]+: \\|\\b[0-9A-F]\\{8,\\}\\b" text))
    (should (string-match "^ +J[A-Z]+ \\(L[0-9]+\\)$" text))
    (should (string-match-p (format "^%s: +[A-Z]" (match-string 1 text)) text)))
  (should (equal "macro function"
                 (plist-get (agent-q-test-image-value connection "disassemble-function"
                                                      :function "aq-look::twice" :limit 1)
                            :kind)))
  ;; A generic function only chooses; its methods have the code.
  (should (equal '("(AQ-LOOK::SHAPE)" ":BEFORE ((EQL 3))")
                 (plist-get (agent-q-test-image-value connection "disassemble-function"
                                                      :function "aq-look::area")
                            :methods)))
  (dolist (case '(("area (shape)" "AQ-LOOK::AREA (AQ-LOOK::SHAPE)")
                  ("area(aq-look::shape)" "AQ-LOOK::AREA (AQ-LOOK::SHAPE)")
                  ("aq-look::area :before ((eql 3))" "AQ-LOOK::AREA :BEFORE ((EQL 3))")
                  ("(defmethod area ((it shape)) (callee it))" "AQ-LOOK::AREA (AQ-LOOK::SHAPE)")
                  ("(method area :before ((eql 3)))" "AQ-LOOK::AREA :BEFORE ((EQL 3))")
                  ("(setf area) (t shape)" "(SETF AQ-LOOK::AREA) (T AQ-LOOK::SHAPE)")
                  ;; There is only one, and no other function of that name.
                  ("(setf area)" "(SETF AQ-LOOK::AREA) (T AQ-LOOK::SHAPE)")))
    (ert-info ((car case))
      (let ((value (agent-q-test-image-value connection "disassemble-function"
                                             :function (car case) :package "aq-look")))
        (should (equal (cadr case) (plist-get value :name)))
        (should (equal "method" (plist-get value :kind)))
        (should (string-match-p "CALLEE" (mapconcat #'identity (plist-get value :lines) "\n"))))))
  (dolist (case '(("area (square)" "no method (square). It has: (AQ-LOOK::SHAPE)")
                  ("area :after (shape)" "no method :after (shape)")
                  ("area (cl-user::shape)" "no method (cl-user::shape)")
                  ("callee (t)" "is not a generic function")))
    (should (string-search (cadr case)
                           (agent-q-test-program-miss
                            connection "disassemble-function" :function (car case)
                            :package "aq-look"))))
  (dolist (case '(("aq-look::*level*" "is not a function") ("if" "special operator")))
    (should (string-match-p (cadr case)
                            (agent-q-test-program-miss
                             connection "disassemble-function" :function (car case))))))

(agent-q-test-image-on-each expands-in-every-mode ()
  "Macro expansion reads nothing in, goes as deep as asked, and says what it can't."
  (agent-q-test-program-file connection)
  (cl-flet ((expansion (form mode)
              (let ((value (agent-q-test-image-value connection "macroexpand-form" :form form
                                                     :mode mode :package "aq-look")))
                (cons (plist-get value :expanded)
                      (replace-regexp-in-string "[ \n]+" " " (plist-get value :expansion))))))
    (should (equal '(t . "(CALLEE (TWICE 1))") (expansion "(twice (twice 1))" "once")))
    (should (equal '(t . "(CALLEE (CALLEE 1))") (expansion "(twice (twice 1))" "all")))
    (should (equal nil (car (expansion "(callee 1)" "full"))))
    (should (equal nil (car (expansion "(callee 1)" "compiler")))))
  (should (string-match-p "Unknown mode"
                          (agent-q-test-program-miss
                           connection "macroexpand-form" :form "(when t 1)" :mode "sideways"))))

(provide 'agent-q-image-objects-test)
;;; agent-q-image-objects-test.el ends here
