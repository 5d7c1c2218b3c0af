;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Undoing what the agent changed: what a change was, whether it can be undone, and undoing it.
;;; Operations: journal-list, journal-restore, journal-undo.

(cl:in-package "AGENT-Q-IMAGE")

(defun changed-symbol-text (symbol)
  "SYMBOL as text; if it has been uninterned since, as it was written before."
  (let ((removed (and (null (symbol-package symbol))
                      (find-if (lambda (change)
                                 (and (eq (change-kind change) :symbol) (eq (change-name change) symbol)))
                               *journal*))))
    (if (and removed (package-name (change-old removed)))
        (format nil "~A::~A" (package-name (change-old removed)) (symbol-name symbol))
        (symbol-text symbol))))

(defun change-name-text (change)
  (let ((name (change-name change)))
    (cond ((stringp name) (first-line name 80))
          ((consp name) (format nil "(SETF ~A)" (changed-symbol-text (second name))))
          (t (changed-symbol-text name)))))

(defun kind-text (change)
  (let ((thing (or (change-new change) (change-old change))))
    (ecase (change-kind change)
      (:function (cond ((consp thing) "macro")
                       ((typep thing 'generic-function) "generic function")
                       (t "function")))
      (:methods "method")
      (:load "load")
      (:compiler-macro "compiler macro")
      (:class "class")
      (:class-options (options-text (change-old change) (change-new change)))
      (:variable "variable")
      (:type "type")
      (:place "setf expander")
      (:symbol-macro "symbol macro")
      (:symbol "symbol"))))

(defun no-definition-p (change definition)
  (if (eq (change-kind change) :variable)
      (eq definition *unbound*)
      (null definition)))

(defun what-text (change)
  (cond ((eq (change-kind change) :load) (load-text change))
        ((eq (change-kind change) :methods)
         (cond ((null (change-old change)) "added")
               ((null (change-new change)) "removed")
               (t "redefined")))
        ((no-definition-p change (change-old change)) "new")
        ((no-definition-p change (change-new change)) "removed")
        ;; It may also have been set by a function that was called.
        ((eq (change-kind change) :variable) "changed")
        (t "redefined")))

(defun load-text (change)
  "How much the load CHANGE brought."
  (destructuring-bind (&key files new) (change-new change)
    (let* ((all (length (change-old change))) (redefined (- all new)))
      (format nil "~@[~D file~:P, ~]~D definition~:P~[~:;, ~:*~D redefined~]"
              (and (plusp files) files) all redefined))))

(defun irreversible-p (change)
  "Why CHANGE can't be undone, or NIL."
  (let ((kind (change-kind change)) (new-p (no-definition-p change (change-old change))))
    (cond ((eq kind :load)
           "A load can't be undone; restore the files and load them again.")
          ((and (eq kind :class) (not new-p))
           "The slots and superclasses of a class can't be restored; define the class again.")
          ((eq kind :class-options)
           (irreversible-options-p (change-name change) (change-old change) (change-new change)))
          ((and (eq kind :variable) new-p (constantp (change-name change)))
           "The definition of a constant can't be undone.")
          ((and (member kind '(:type :place :symbol-macro))
                (not (find-package "SB-INT")))
           (format nil "~A does not record how that was defined." (lisp-implementation-type))))))

(defun current-definition (change)
  (let ((name (change-name change)))
    (ecase (change-kind change)
      (:function (if (consp name) (setf-definition (second name)) (symbol-definition name)))
      (:methods (change-new change))
      (:compiler-macro (compiler-macro-function name))
      (:class (find-class name nil))
      (:class-options (class-options (find-class name nil)))
      (:variable (variable-value name))
      (:type (nth-value 0 (expanders name)))
      (:place (nth-value 1 (expanders name)))
      (:symbol-macro (symbol-macro name))
      (:symbol (symbol-package name)))))

;;; Undoing

(defun put-function (name definition)
  (cond ((null definition) (when (fboundp name) (fmakunbound name)))
        ((consp definition) (setf (macro-function name) (second definition)))
        (t (when (and (symbolp name) (macro-function name)) (fmakunbound name))
           (setf (fdefinition name) definition))))

(defun put-methods (name wanted unwanted)
  (let ((function (and (fboundp name) (fdefinition name))))
    (when (typep function 'generic-function)
      (dolist (method unwanted)
        (when (member method (generic-methods function))
          (remove-method function method)))
      (dolist (method wanted)
        (unless (member method (generic-methods function))
          (add-method function method))))))

(defun put-type (name expander)
  (let ((info (find-symbol "INFO" "SB-INT")) (forget (find-symbol "DROP-ALL-HASH-CACHES" "SB-KERNEL")))
    (if expander
        (eval `(setf (,info :type :expander ',name) ,expander))
        (eval `(setf (,info :type :expander ',name) nil (,info :type :kind ',name) nil)))
    (when (and forget (fboundp forget)) (funcall forget))))

(defun put-place (name expander)
  (eval (if expander
            `(setf (,(find-symbol "INFO" "SB-INT") :setf :expander ',name) ',expander)
            `(,(find-symbol "CLEAR-INFO" "SB-INT") :setf :expander ',name))))

(defun put-symbol-macro (name expansion)
  (cond (expansion (eval `(define-symbol-macro ,name ,(first expansion))))
        (t (eval `(,(find-symbol "CLEAR-INFO" "SB-INT") :variable :macro-expansion ',name))
           (eval `(setf (,(find-symbol "INFO" "SB-INT") :variable :kind ',name) :unknown)))))

(defun put-value (name value)
  (handler-bind ((error (lambda (condition)
                          ;; SBCL asks before it changes a constant, which the agent did, too.
                          (let ((restart (find-restart 'continue condition)))
                            (when (and restart (constantp name)) (invoke-restart restart))))))
    (if (eq value *unbound*) (makunbound name) (setf (symbol-value name) value))))

(defun change-package (change)
  "The package of what CHANGE changed. While it is the current package, its lock permits changes."
  (let ((name (change-name change)))
    (or (if (eq (change-kind change) :symbol)
            (change-old change)
            (symbol-package (if (consp name) (second name) name)))
        *package*)))

(defun undo-change (change)
  (let ((name (change-name change)) (old (change-old change))
        ;; Undoing doesn't count as a definition by anybody.
        (*compared* '())
        (*package* (change-package change)))
    (handler-bind ((warning #'muffle-warning))
      (ecase (change-kind change)
        (:function (put-function name old))
        (:methods (put-methods name old (change-new change)))
        (:compiler-macro (setf (compiler-macro-function name) old))
        (:class (setf (find-class name) nil))
        (:class-options (put-class-options name old (change-new change)))
        (:variable (put-value name old))
        (:type (put-type name old))
        (:place (put-place name old))
        (:symbol-macro (put-symbol-macro name old))
        (:symbol (import name old))))
    (forget-definer name)
    (setf (change-restored change) t)))

(defun in-chat-p (change chat)
  "Whether CHANGE was made for CHAT; true for all if CHAT is NIL."
  (or (null chat) (equal chat (change-chat change))))

(defun later-changes (change chat)
  "The changes of the same thing in CHAT that came after CHANGE and weren't undone, latest first."
  (let ((later (loop for other in *journal*
                     until (eq other change)
                     when (and (in-chat-p other chat)
                               (eq (change-kind other) (change-kind change))
                               (equal (change-name other) (change-name change))
                               (not (change-restored other)))
                       collect other)))
    (if (eq (change-kind change) :methods)
        (of-the-same-methods (change-new change) later)
        later)))

(defun of-the-same-methods (methods later)
  "Among LATER, changes of a function's methods, latest first, those that replaced or removed
METHODS or their replacements."
  (let ((found '()))
    (dolist (change (reverse later) found)
      (when (intersection methods (change-old change))
        (setf methods (append (change-new change) methods))
        (push change found)))))

(defun try-to-undo (change chat)
  "Undo CHANGE and later changes of the same thing in CHAT. Returns a sentence on the outcome, and
whether it was undone."
  (let* ((all (append (later-changes change chat) (list change)))
         (problem (irreversible-p change)))
    (cond ((change-restored change)
           (format nil "~A was already restored." (change-name-text change)))
          (problem (format nil "~A was not restored: ~A" (change-name-text change) problem))
          ((not (unchanged-since-p (first all)))
           (format nil "~A was left alone: someone else has changed it since."
                   (change-name-text change)))
          (t (handler-case (mapc #'undo-change all)
               (error (condition)
                 (return-from try-to-undo
                   (format nil "~A was not restored: ~A" (change-name-text change)
                           (first-line (condition-message condition) 200)))))
             (values (undone-text change) t)))))

(defun undone-text (change)
  (format nil (cond ((eq (change-kind change) :class-options) "~A: restored its previous ~A.")
                    ((string= (what-text change) "new") "~A: removed the new ~A.")
                    (t "~A: restored the previous ~A."))
          (change-name-text change) (kind-text change)))

(defun same-meaning-p (kind one other)
  (case kind
    (:symbol-macro (eql (first one) (first other)))
    (:class-options (same-options-p one other))
    (t (same-definition-p one other))))

(defun unchanged-since-p (change)
  "Whether what CHANGE made is still in place."
  (same-meaning-p (change-kind change) (current-definition change) (change-new change)))

;;; Operations

(defun first-changes (changes)
  "Those of CHANGES, latest first, that don't continue another one of them: undoing a change also
undoes its continuations. Methods are separate things."
  (flet ((goes-on-p (change earlier)
           (let ((kind (change-kind change)))
             (and (not (eq kind :methods))
                  (eq (change-kind earlier) kind)
                  (equal (change-name earlier) (change-name change))
                  (same-meaning-p kind (change-new earlier) (change-old change))))))
    (loop for (change . earlier) on changes
          unless (find-if (lambda (other) (goes-on-p change other)) earlier)
            collect change)))

(defun change-entry (change)
  (list :id (change-id change)
        :name (change-name-text change)
        :kind (kind-text change)
        :what (what-text change)
        :text (change-text change)
        :chat (change-chat change)
        :seconds-ago (- (get-universal-time) (change-time change))
        :restored (change-restored change)
        :load (eq (change-kind change) :load)
        :turn (change-turn change)
        :in-file (and (change-file change) t)
        :irreversible (irreversible-p change)
        :was (and (member (change-kind change) '(:variable))
                  (not (no-definition-p change (change-old change)))
                  (printed (change-old change) :limit 200))))

(define-operation "journal-list" (limit chat)
  ;; What the agent changed in this image, or only for CHAT, latest first.
  (let ((changes (remove-if-not (lambda (change) (in-chat-p change chat)) *journal*)))
    (list :total (length *journal*)
          :listed (length changes)
          :cut *journal-cut*
          :changes (loop for change in changes repeat (or limit 200)
                         collect (change-entry change)))))

(defun try-to-undo-for-turn (change turn)
  "Undo CHANGE unless that would also undo something that came after TURN."
  (if (find turn (later-changes change nil) :key #'change-turn :test-not #'equal)
      (format nil "~A was left alone: it was changed again after that turn." (change-name-text change))
      (try-to-undo change nil)))

(define-operation "journal-restore" (id chat turn)
  ;; Restore what the change ID replaced; without ID, everything that can be restored, or only what
  ;; is of CHAT or TURN.
  (let ((changes (if id
                     (list (or (find id *journal* :key #'change-id)
                               (missed "The journal has no change ~A." id)))
                     (remove-if-not (lambda (change)
                                      (and (in-chat-p change chat)
                                           (or (null turn) (equal turn (change-turn change)))
                                           (not (eq (change-kind change) :load))
                                           (not (change-restored change))))
                                    *journal*))))
    (list :results (loop for change in (first-changes changes)
                         unless (change-restored change)
                           collect (if turn
                                       (try-to-undo-for-turn change turn)
                                       (try-to-undo change (if id nil chat))))
          ;; With these it can be redone.
          :ids (loop for change in changes
                     when (change-restored change) collect (change-id change)))))

(defun changes-of-name (name)
  "The changes that can be undone of the definition NAME, a name structure, latest first."
  (loop with symbol = (name-symbol name)
        for change in *journal*
        for changed = (change-name change)
        when (and (eq (change-kind change) :load) (eq (name-kind name) :any)
                  (member symbol (change-old change)
                          :key (lambda (it) (if (consp it) (second it) it))))
          collect change
        when (and (not (change-restored change))
                  (eq symbol (if (consp changed) (second changed) changed))
                  (or (not (eq (name-kind name) :setf)) (consp changed))
                  (or (eq (name-kind name) :any) (not (eq (change-kind change) :variable))))
          collect change))

(defun undo-last (changes chat)
  "Undo the last of CHANGES in CHAT, and those that came with it."
  (let ((results '()) (undone t))
    (dolist (change (remove (change-text (first changes)) changes
                            :key #'change-text :test-not #'string=))
      (multiple-value-bind (result done) (try-to-undo change chat)
        (push result results)
        (unless done (setf undone nil))))
    (list :results (nreverse results) :undone undone)))

(defun changes-of-text (text package)
  "The changes that can be undone of the definition that TEXT names, latest first, and its name. A
method may be given with its specializers."
  (multiple-value-bind (function qualifiers specializers) (method-parts text)
    (let ((name (name-of-text (or function text) package)))
      (values (remove-if-not (lambda (change)
                               (or (null function)
                                   (change-loaded change)
                                   (and (eq (change-kind change) :methods)
                                        (find-if (lambda (method)
                                                   (method-named-p method qualifiers specializers))
                                                 (append (change-new change) (change-old change))))))
                             (changes-of-name name))
              name))))

(defun undo-of-name (found all chat)
  "Undo the last of ALL, changes of the name FOUND, that was made for CHAT."
  (let* ((changes (remove-if-not (lambda (change) (in-chat-p change chat)) all))
         (last (first changes)))
    (cond ((and last (change-loaded last))
           (missed "~A was not undone: it came from a file, by ~A. Definitions from a file are not ~
                        undone name by name: edit the file and load it again."
                   (name-text found) (first-line (change-text last) 80)))
          (last (undo-last changes chat))
          (all (missed "You have not changed ~A in this chat; another chat has. The user can ~
                        restore it with M-x agent-q-changes-in-image." (name-text found)))
          (t (missed "The agent has not changed ~A in this image, or it was already restored~@[~A~]."
                     (name-text found)
                     (and *journal-cut* ", or that was so many changes ago that it isn't kept"))))))

(define-operation "journal-undo" (name package chat)
  ;; Undo the last change in CHAT of the definition NAME, in everything that it means.
  (multiple-value-bind (all found) (changes-of-text name package)
    (undo-of-name found all chat)))
