;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What the image and the files of the user's project don't have alike. What isn't known is told as
;;; unknown. Operations: image-drift, drift-rows, drift-text, drift-forget.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (drift-row (:copier nil) (:predicate nil))
  id key object name kind state
  ;; The file and the form in it, where there is one; why it is told; the image's text; our change.
  file written detail text change
  ;; Whether the file is a buffer that isn't saved.
  unsaved)

(defparameter *most-drift-rows* 500 "How many rows to keep.")

(defvar *drift* nil
  "A list of the rows found last, how many there were of each state, how many files were looked at,
and the project's directory.")

(defstruct (ground (:copier nil) (:predicate nil))
  "What is compared: the files, those of which are unsaved buffers; from keys and from digests to
what is written; from files to what is known of them; the rows."
  (files '()) (unsaved '())
  (keys (make-hash-table :test 'equal)) (digests (make-hash-table)) (heads (make-hash-table :test 'equal))
  (writtens (make-hash-table :test 'equal))
  (packages '()) (rows '())
  ;; From texts to what is written in them.
  (texts (make-hash-table :test 'eq))
  ;; From files to :LOADED, :UNKNOWN, :CHANGED or another file that the image has it from.
  (seen (make-hash-table :test 'equal)))

(defvar *ground* nil "The GROUND of this operation.")

;;; The files

(defun table-key (key)
  "KEY for a table: methods by their functions, as their specializers are compared one by one."
  (if (eq :method (first key)) (list :method (second key)) key))

(defun read-files (files unsaved)
  "A GROUND with FILES. UNSAVED has lists of a file and the text of its buffer."
  (let ((ground (make-ground :files (mapcar #'file-key files)
                             :unsaved (loop for (file text) in unsaved
                                            collect (list (file-key file) text)))))
    (dolist (file (ground-files ground) ground)
      (let* ((buffer (assoc file (ground-unsaved ground) :test #'string=))
             (saved (text-on-disk file)))
        (when saved (note-source-text file nil saved))
        (multiple-value-bind (all packages) (written-in (or (second buffer) saved "") :file file)
          (setf (gethash file (ground-writtens ground)) all
                (ground-packages ground) (union packages (ground-packages ground)))
          (dolist (written all)
            (let ((key (written-key written)))
              (when key (push written (gethash (table-key key) (ground-keys ground))))
              (when (written-head written)
                (push written (gethash (written-head written) (ground-heads ground))))
              (push written (gethash (written-digest written) (ground-digests ground))))))))))

(defun forget-seen-texts ()
  "Forget the texts of files that the image has nothing from."
  (dolist (file (ground-files *ground*))
    (unless (or (gethash file (ground-seen *ground*)) (some #'third (gethash file *loaded-texts*)))
      (remhash file *loaded-texts*))))

(defun in-files (key)
  "What is written in the files of the definition KEY."
  (let ((found (gethash (table-key key) (ground-keys *ground*))))
    (if (eq :method (first key))
        (remove-if-not (lambda (it) (same-method-p (cddr (written-key it)) (cddr key))) found)
        found)))

(defun same-in-files (written)
  "What in the files has the same text as WRITTEN."
  (gethash (written-digest written) (ground-digests *ground*)))

(defun project-file-p (file)
  (member file (ground-files *ground*) :test #'string=))

(defun text-of-version (file date)
  "The text of FILE from which the image has what it has, if that is known, and whether that is sure."
  (let* ((versions (gethash file *loaded-texts*))
         (of-date (if date (remove date versions :key #'first :test-not #'eql) versions))
         (loaded (find-if #'third of-date)))
    (cond (loaded (values (second loaded) t))
          ((and date of-date (null (rest of-date)))
           ;; Written after we came, and it has been there for some time.
           (values (second (first of-date))
                   (and (>= date *began*) (< (+ date 2) (get-universal-time))))))))

(defun written-of-text (text package file)
  "What is written in TEXT, and a table of the same by the numbers of the top-level forms."
  (let ((known (gethash text (ground-texts *ground*))))
    (unless known
      (let ((all (written-in text :package package :file file)) (table (make-hash-table)))
        (dolist (it (reverse all))
          (push it (gethash (written-index it) table)))
        (setf known (list all table)
              (gethash text (ground-texts *ground*)) known)))
    (values-list known)))

;;; Rows

(defun key-text (key)
  "The name in KEY, for people."
  (destructuring-bind (kind name &rest more) key
    (let ((text (if (and (consp name) (eq 'setf (first name)))
                    (format nil "(SETF ~A)" (absent-text (second name)))
                    (absent-text name))))
      (if (eq kind :method)
          (format nil "~A~{ ~S~} (~{~A~^ ~})" text (butlast more)
                  (loop for it in (first (last more))
                        collect (if (and (consp it) (eq 'eql (first it)))
                                    (format nil "(EQL ~A)" (printed (second it) :limit 40))
                                    (absent-text it))))
          text))))

(defun absent-text (name)
  (cond ((symbolp name) (symbol-text name))
        ((eq :absent (first name)) (format nil "~@[~A::~]~A" (third name) (second name)))
        (t (printed name :limit 60))))

(defun kind-of-key (key object)
  (ecase (first key)
    (:function (cond ((and (functionp object) (symbolp (second key)) (macro-function (second key)))
                      "macro")
                     ((typep object 'generic-function) "generic function")
                     (t "function")))
    (:method "method")
    (:compiler-macro "compiler macro")
    (:class (if (typep object 'class) (class-kind object) "class"))
    (:type "type")
    (:setf "setf expander")
    (:variable (if (and (symbolp (second key)) (constantp (second key))) "constant" "variable"))
    (:symbol-macro "symbol macro")))

(defun add-row (state key object &key written file detail text)
  (push (make-drift-row :key key :object object :state state
                        :name (key-text key) :kind (kind-of-key key object)
                        :file (or file (and written (written-file written))) :written written
                        :detail detail :text text
                        :unsaved (and written (unsaved-p (written-file written)) t)
                        :change (and object (change-of key object)))
        (ground-rows *ground*)))

(defun note-file (file state)
  "Note STATE of FILE, unless something worse is known."
  (let ((states '(:loaded :unknown :changed)) (known (gethash file (ground-seen *ground*))))
    (when (or (stringp state)
              (null known)
              (and (not (stringp known))
                   (> (position state states) (position known states))))
      (setf (gethash file (ground-seen *ground*)) state))))

;;; One definition of the image

(defun by-us (key object)
  "Who made the definition, in words."
  (if (change-of key object) "made by the agent" "made without a file"))

(defun worth-telling-p (key object)
  "Whether to tell that the definition KEY is in no file: users try things in CL-USER."
  (let ((symbol (if (consp (second key)) (second (second key)) (second key))))
    (or (not (eq (symbol-package symbol) (find-package "COMMON-LISP-USER")))
        (change-of key object))))

(defun judge (key object origin)
  "Compare the definition KEY, which the image has as OBJECT by ORIGIN, with the files."
  (let* ((written (in-files key))
         (file (getf origin :file))
         (change (and (null file) (null (getf origin :text)) (change-of key object)))
         (text (or (getf origin :text)
                   ;; The journal keeps the beginning of long ones.
                   (and change (< (length (change-text change)) 4000) (change-text change)))))
    (cond (text (judge-by-text key object text origin written))
          ((and file (project-file-p file)) (judge-by-file key object file origin written))
          ((and file (prefixed-p *drift-root* file) (not (probe-file file)))
           (unless (or written (comes-along-p key object))
             (add-row :image key object :detail (format nil "its file ~A is gone" file))))
          (file (dolist (it written) (note-file (written-file it) file)))
          ((comes-along-p key object))
          ((not (implementation-p "SBCL"))
           (dolist (it written) (note-file (written-file it) :unknown)))
          (written (note-file (written-file (first written)) :loaded)
                   (add-row :unknown key object :written (first written)
                                                :detail "made without its file"))
          ;; Of short setf forms, SBCL records nothing.
          ((and (not (eq :setf (first key))) (worth-telling-p key object))
           (add-row :image key object :detail (by-us key object))))))

(defun text-package (origin key)
  "The package that the text of ORIGIN was compiled in."
  (let ((name (getf origin :package)) (symbol (if (consp (second key)) (second (second key)) (second key))))
    (or (and (stringp name)
             (find-package-named (string-trim "\":#" (if (prefixed-p "(in-package " name)
                                                         (string-right-trim ")" (subseq name 12))
                                                         name))))
        (symbol-package symbol)
        *package*)))

(defun comes-along-p (key object)
  "Whether the definition KEY is only a part of another one: an accessor, a function of a structure,
a generic function that its methods made, which stays when these are gone."
  (let ((symbol (if (consp (second key)) (second (second key)) (second key))))
    (case (first key)
      (:method (accessor-method-p object))
      (:function (or (typep object 'generic-function)
                     (and (symbolp (second key)) (structure-of-function symbol) t)
                     (structure-function-among-p symbol))))))

(defun accessor-method-p (method)
  (loop for package in '("SB-MOP" "CLOS" "MOP")
        for symbol = (and (find-package package)
                          (find-symbol "STANDARD-ACCESSOR-METHOD" package))
        thereis (and symbol (find-class symbol nil) (typep method symbol))))

(defun structure-function-among-p (symbol)
  "Whether SYMBOL looks like a function of a structure in its package."
  (let* ((name (symbol-name symbol)) (package (symbol-package symbol)))
    (flet ((structure-p (text)
             (let* ((found (and package (find-symbol text package)))
                    (class (and found (find-class found nil))))
               (and (typep class 'structure-class) (structure-function-p symbol class)))))
      (or (and (prefixed-p "MAKE-" name) (structure-p (subseq name 5)))
          (and (prefixed-p "COPY-" name) (structure-p (subseq name 5)))
          (loop for dash = (position #\- name) then (position #\- name :start (1+ dash))
                while dash
                thereis (structure-p (subseq name 0 dash)))))))

(defun judge-by-text (key object text origin written)
  "Judge what was made from TEXT, by ORIGIN. WRITTEN is what the files have of it."
  (let* ((forms (written-of-text text (text-package origin key) nil))
         (own (own-form key forms))
         (file (getf origin :of-file))
         (by (if file "the file has changed since it was loaded" (by-us key object))))
    (dolist (it written) (note-file (written-file it) :loaded))
    (cond ((and own written)
           (unless (find (written-digest own) written :key #'written-digest)
             (add-row :differs key object :written (first written) :text (written-text own)
                                          :detail by)))
          ((and (null own) (some #'same-in-files forms)))
          ;; It has a file, outside of the project.
          ((and file (null written) (not (project-file-p (file-key file))) (probe-file file)))
          ;; A function of a structure, say, for which that has a row.
          ((and (null own) (or (some #'written-key forms) (comes-along-p key object))))
          (written (add-row :differs key object :written (first written) :text text
                                                :detail by))
          ((worth-telling-p key object)
           (add-row :image key object :text (if own (written-text own) text)
                                      :file (and file (file-key file))
                                      :detail (if file
                                                  (format nil "no longer in ~A" (file-namestring file))
                                                  by))))))

(defun own-form (key forms)
  "The one of FORMS that defines KEY."
  (find-if (lambda (it)
             (let ((other (written-key it)))
               (and other
                    (equal (table-key other) (table-key key))
                    (or (not (eq :method (first key)))
                        (same-method-p (cddr other) (cddr key))))))
           forms :from-end t))

(defun judge-by-file (key object file origin written)
  "Judge what was loaded from FILE of the project."
  (let ((date (getf origin :date)) (now (date-of-file file)))
    (multiple-value-bind (text sure) (text-of-version file (or date (file-date-loaded file)))
      (note-file file :loaded)
      (if text
          (multiple-value-bind (forms table)
              (written-of-text text (find-package "COMMON-LISP-USER") file)
            (judge-by-version key object file forms (gethash (getf origin :index) table) sure written))
          (let ((changed (or (and date (not (eql date now))) (unsaved-p file))))
            (note-file file (if changed :changed :unknown))
            (unless (or written (not changed) (comes-along-p key object))
              (add-row :unknown key object
                       :file file
                       :detail "its file has changed since it was loaded, and no form names it now")))))))

(defun judge-by-version (key object file forms origin sure written)
  "Judge what was loaded from the forms ORIGIN of FORMS, which FILE had then."
  (let* ((own (or (own-form key origin) (own-form key forms))))
    (flet ((differs (form text)
             (add-row :differs key object :written form :text text
                                          :detail "the file has changed since it was loaded")))
      (cond ((and own written)
             (cond ((not (find (written-digest own) written :key #'written-digest))
                    (differs (first written) (written-text own)))
                   ((not sure) (note-file file :unknown))))
            (written (differs (first written) (and origin (written-text (first origin)))))
            (own (add-row :image key object :file file :text (written-text own)
                                            :detail (format nil "no longer in ~A" (file-namestring file))))
            ((or (null origin) (some #'same-in-files origin) (some #'written-key origin)
                 (comes-along-p key object))
             (unless sure (note-file file :unknown)))
            (t (let ((form (first (gethash (written-head (first origin)) (ground-heads *ground*)))))
                 (if form
                     (differs form (written-text (first origin)))
                     (add-row :image key object
                              :file file :text (written-text (first origin))
                              :detail (format nil "the form that made it is no longer in ~A"
                                              (file-namestring file))))))))))

(defun date-of-file (file)
  (guarded (lambda () (file-write-date file)) (constantly nil)))

(defun unsaved-p (file)
  (assoc file (ground-unsaved *ground*) :test #'string=))

(defvar *dates-loaded* nil
  "From files to the latest date among the functions that the image has from them.")

(defun file-date-loaded (file)
  (gethash file *dates-loaded*))

;;; All of them

(defun program-symbols ()
  "The symbols of the packages that the files are in, and those that our changes name."
  (let ((symbols (make-hash-table :test 'eq)))
    (dolist (package (ground-packages *ground*))
      (unless (or (null package) (implementation-package-p package))
        (call-with-home-symbols (lambda (symbol) (setf (gethash symbol symbols) t)) package)))
    (dolist (change *journal*)
      (let* ((name (change-name change)) (symbol (if (consp name) (second name) name)))
        (when (and (symbolp symbol) symbol (symbol-package symbol)
                   (not (implementation-package-p (symbol-package symbol)))
                   (not (change-restored change)) (not (change-loaded change)))
          (setf (gethash symbol symbols) t))))
    (maphash (lambda (key writtens)
               (declare (ignore writtens))
               (let ((symbol (if (and (consp (second key)) (eq 'setf (first (second key))))
                                 (second (second key))
                                 (second key))))
                 (when (and symbol (symbolp symbol)
                            (not (implementation-package-p (symbol-package symbol))))
                   (setf (gethash symbol symbols) t))))
             (ground-keys *ground*))
    symbols))

(defun definitions-in-image ()
  "All definitions to compare: lists of key and object."
  (let ((all '()) (seen (make-hash-table :test 'eq)))
    (flet ((take (key object)
             ;; A method belongs to several classes.
             (unless (and (eq :method (first key)) (gethash object seen))
               (when (eq :method (first key)) (setf (gethash object seen) t))
               (push (list key object) all))))
      (maphash (lambda (symbol true)
                 (declare (ignore true))
                 (map-definitions symbol #'take)
                 (map-foreign-methods symbol #'take))
               (program-symbols)))
    all))

(defun note-dates (definitions)
  "Note in *DATES-LOADED* what the origins of DEFINITIONS say."
  (loop for (nil nil origin) in definitions
        for (file date) = (list (getf origin :file) (getf origin :date))
        do (when (and file date)
             (setf (gethash file *dates-loaded*) (max date (gethash file *dates-loaded* 0))))))

(defun with-origin (key object)
  (list key object
        (and (implementation-p "SBCL")
             (known-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCE")
             (ignore-errors (definition-origin key object)))))

(defun judge-files ()
  "Add rows for what the files have and the image doesn't."
  (dolist (file (ground-files *ground*))
    (let* ((named (remove-if-not #'named-first-p (gethash file (ground-writtens *ground*))))
           (lacking (remove-if (lambda (it) (has-definition-p (written-key it))) named))
           (seen (gethash file (ground-seen *ground*))))
      (cond ((null named))
            ((or seen (< (length lacking) (length named)))
             (dolist (it lacking)
               (add-row :file (written-key it) nil :written it)))
            (t (note-file-row :not-loaded file (length named)))))))

(defun named-first-p (written)
  "Whether WRITTEN defines something by name, and is the first in the files that defines it."
  (let ((key (written-key written)))
    (and key (eq written (first (last (in-files key)))))))

;;; Whole files

(defun note-file-row (state file count &optional detail)
  (push (make-drift-row :state state :file file :kind "file" :name (name-below-root file)
                        :detail (or detail (format nil "~D definition~:P" count)))
        (ground-rows *ground*)))

(defvar *drift-root* "" "The project's directory, as text.")

(defun name-below-root (file)
  (if (prefixed-p *drift-root* file) (subseq file (length *drift-root*)) file))

(defun judge-unknown-files ()
  "Add rows for files of which nobody knows which text the image has."
  (dolist (file (ground-files *ground*))
    (let ((seen (gethash file (ground-seen *ground*))))
      (cond ((stringp seen)
             (note-file-row :unknown file 0 (format nil "the image has it from ~A" seen)))
            ((eq seen :changed)
             (note-file-row :unknown file 0 "loaded by others; it has changed since"))
            ((eq seen :unknown)
             (note-file-row :unknown file 0
                            (if (implementation-p "SBCL")
                                "loaded by others, or before agent-q came"
                                (format nil "~A records no texts" (implementation-name)))))))))

(defun system-around (file)
  "The innermost of the project's systems whose directory has FILE."
  (let ((best nil) (most -1))
    (dolist (entry *project-systems* best)
      (let* ((definition (file-key (getf entry :file)))
             (directory (subseq definition 0 (1+ (or (position #\/ definition :from-end t) -1)))))
        (when (and (prefixed-p directory file) (> (length directory) most))
          (setf best entry most (length directory)))))))

(defun joined-by-system ()
  "Make one row of those of whole files, where they say the same of all files of a system."
  (let ((by-system (make-hash-table :test 'equal)))
    (dolist (file (ground-files *ground*))
      (let ((entry (system-around file)))
        (when (and entry (find-if #'written-key (gethash file (ground-writtens *ground*))))
          (push file (gethash (getf entry :file) by-system)))))
    (maphash
     (lambda (definition files)
       (let* ((rows (remove-if-not (lambda (row)
                                     (and (equal "file" (drift-row-kind row))
                                          (member (drift-row-file row) files :test #'string=)))
                                   (ground-rows *ground*)))
              (first (first rows)))
         (when (and (rest rows) (= (length rows) (length files))
                    (every (lambda (row)
                             (and (eq (drift-row-state row) (drift-row-state first))
                                  (or (eq :not-loaded (drift-row-state row))
                                      (equal (drift-row-detail row) (drift-row-detail first)))))
                           rows))
           (setf (ground-rows *ground*)
                 (cons (make-drift-row :state (drift-row-state first) :kind "system"
                                       :file definition
                                       :name (getf (find definition *project-systems*
                                                         :key (lambda (it) (getf it :file)) :test #'equal)
                                                   :name)
                                       :detail (if (eq :not-loaded (drift-row-state first))
                                                   (format nil "~D files" (length rows))
                                                   (format nil "~D files, ~A" (length rows)
                                                           (drift-row-detail first))))
                       (set-difference (ground-rows *ground*) rows :test #'eq))))))
     by-system)))

;;; The operations

(defparameter *states* '(:image :differs :file :unknown :not-loaded)
  "In the order in which they are told.")

(defun find-drift (files unsaved)
  "Sets *DRIFT* to what the image and FILES don't have alike."
  (let* ((*ground* (read-files files unsaved))
         (*dates-loaded* (make-hash-table :test 'equal))
         (*file-keys* (make-hash-table :test 'equal))
         (*known-functions* '())
         (definitions (loop for (key object) in (definitions-in-image)
                            collect (with-origin key object))))
    (note-dates definitions)
    (loop for (key object origin) in definitions
          ;; What a metaobject of the program's signals concerns that alone.
          do (ignore-errors (judge key object origin)))
    (judge-files)
    (judge-unknown-files)
    (forget-seen-texts)
    (joined-by-system)
    (let ((rows (sort (ground-rows *ground*)
                      (lambda (one other)
                        (let ((first (position (drift-row-state one) *states*))
                              (second (position (drift-row-state other) *states*)))
                          (or (< first second)
                              (and (= first second)
                                   (string< (drift-row-name one) (drift-row-name other)))))))))
      (loop for row in rows for id from 1 do (setf (drift-row-id row) id))
      (setf *drift* (list (subseq rows 0 (min *most-drift-rows* (length rows)))
                          (loop for state in *states*
                                collect (count state rows :key #'drift-row-state))
                          (length (ground-files *ground*))
                  *drift-root*)))))

(defun row-plist (row)
  (let* ((written (drift-row-written row)) (change (drift-row-change row)))
    (list :id (drift-row-id row) :name (drift-row-name row) :kind (drift-row-kind row)
          :state (drift-row-state row) :detail (drift-row-detail row)
          :path (and (drift-row-file row) (name-below-root (drift-row-file row)))
          :file (drift-row-file row)
          :line (and written
                     (1+ (count #\Newline (written-source written) :end (written-start written))))
          :unsaved (drift-row-unsaved row)
          :turn (and change (change-turn change)))))

(defparameter *hot-for-drift*
  '(;; Scanning.
    text-on-disk note-source-text written-in scan-inside block-comment-end package-written
    text-on-disk note-source-text written-in scan-inside block-comment-end package-written
    digest-code this-character blank-here-p token-ends-p pass-blanks pass-string pass-token
    pass-prefix pass-dispatch pass-list pass-datum reader-name token-symbol datum-here
    pass-conditionals scan-forms scan-one key-here defined-key operator-written read-files table-key
    ;; What there is.
    map-definitions definitions-in-image program-symbols call-with-home-symbols variable-kind
    symbol-macro expanders setf-definition generic-methods method-as-key map-foreign-methods
    forward-referenced-p mop optional-function prefixed-p implementation-p implementation-package-p
    ;; Where it comes from.
    definition-origin introspect known-function with-origin recorded-source source-object source-of-function
    date-of-code method-functions note-dates change-of file-key known-file-key guarded backend
    backend-function backend-package
    ;; Judging.
    judge judge-by-file judge-by-version written-index written-key written-digest written-start
    make-written digest-so-far in-files same-method-p own-form text-of-version note-file
    written-of-text project-file-p date-of-file file-date-loaded named-first-p has-definition-p
    judge-files find-drift)
  "Functions that are called for each definition or character.")

(define-operation "image-drift" (file files unsaved systems)
  ;; Compare the definitions of the image with those of FILES, of the project below the directory
  ;; FILE. UNSAVED has files and the texts of their buffers.
  (apply #'compile-now *hot-for-drift*)
  ;; CLISP finds no directory by a name that doesn't end like one.
  (let ((*drift-root* (file-key (concatenate 'string (string-right-trim "/" file) "/")))
        (*project-systems* systems))
    (find-drift (mapcar (lambda (it) (getf it :file)) files)
                (mapcar (lambda (it) (list (getf it :file) (getf it :text))) unsaved))
    (destructuring-bind (rows counts files root) *drift*
      (declare (ignore root))
      (list :rows (mapcar #'row-plist (subseq rows 0 (min 40 (length rows))))
            :counts counts :files files))))

(define-operation "drift-rows" ()
  ;; All rows that were found last.
  (destructuring-bind (&optional rows counts files (*drift-root* "")) *drift*
    (declare (special *drift-root*))
    (list :rows (mapcar #'row-plist rows) :counts counts :files (or files 0))))

(defun row-of-id (id)
  (or (find id (first *drift*) :key #'drift-row-id)
      (missed "There is no such row any more; the list has to be made again.")))

(define-operation "drift-text" (id)
  ;; The texts of a row: the image's and the file's, as far as they are known; and the file's package.
  (let* ((row (row-of-id id)) (written (drift-row-written row)) (key (drift-row-key row)))
    (list :name (drift-row-name row)
          :image (drift-row-text row)
          :written (and written (written-text written))
          :package (let ((package (if written
                                      (written-package written)
                                      (let ((name (second key)))
                                        (symbol-package (if (consp name) (second name) name))))))
                     (and package (package-name package))))))

(define-operation "drift-forget" (id chat turn)
  ;; Remove the definition of a row from the image. The journal has it, so that it can be undone.
  (let* ((row (row-of-id id)) (key (drift-row-key row)) (object (drift-row-object row)) (name (second key))
         (*author* (list chat turn nil))
         (kind (cdr (assoc (first key) *kinds-in-journal*))))
    (unless object
      (missed "The image doesn't have ~A." (drift-row-name row)))
    (let* ((old (ecase kind
                  (:function (if (and (symbolp name) (macro-function name)) (list :macro object) object))
                  (:methods (list object))
                  ((:compiler-macro :class :type :place) object)
                  (:variable (variable-value name))
                  (:symbol-macro (symbol-macro name))))
           (*package* (symbol-package (if (consp name) (second name) name))))
      (when (and (eq kind :variable) (constantp name))
        (missed "~A is a constant, which can't be removed." (drift-row-name row)))
      (handler-bind ((warning #'muffle-warning))
        (ecase kind
          (:function (put-function name nil))
          (:methods (put-methods name '() old))
          (:compiler-macro (setf (compiler-macro-function name) nil))
          (:class (setf (find-class name) nil))
          (:variable (put-value name *unbound*))
          (:type (put-type name nil))
          (:place (put-place name nil))
          (:symbol-macro (put-symbol-macro name nil))))
      (call-with-lock
       (lambda ()
         (add-change kind name old (if (eq kind :variable) *unbound* nil)
                     (format nil "Forgotten: ~A" (drift-row-name row)) nil)))
      (list :forgotten (drift-row-name row)))))
