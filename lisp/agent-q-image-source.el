;;; agent-q-image-source.el --- Where definitions of an image are, as files and lines  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An image names files and positions.  They become places of this machine that may be shown, and
;; definitions in the text as it is now.

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-definitions)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-text)
(require 'cl-lib)
(require 'lisp-mode)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; What compile_form compiled, as a buffer

;; A client that is asked for the definition of what compile_form compiled has
;; to show something.  What is in no file is kept here, in a buffer whose name
;; and positions the image is given.

(defconst agent-q-image-source-compiled-name "*agent-q compiled forms*"
  "The name of the buffer with the forms that compile_form compiled.")

(defconst agent-q-image-source--compiled-largest 500000
  "Most characters kept in the buffer.")

(defun agent-q-image-source-compiled-place (operation arguments)
  "Return arguments on where the forms of a call are shown.
They are added to ARGUMENTS, those of OPERATION; nil for operations
other than one that compiles forms which are in no file."
  (let ((form (plist-get arguments :form)))
    (when (and (equal operation "compile-form") (stringp form)
               (not (plist-get arguments :file)))
      (list :buffer agent-q-image-source-compiled-name
            :position (agent-q-image-source--compiled-add form)))))

(defun agent-q-image-source--compiled-add (form)
  "Put FORM, a text, at the end of the buffer; return its start."
  (with-current-buffer (get-buffer-create agent-q-image-source-compiled-name)
    (unless (derived-mode-p 'lisp-mode)
      (delay-mode-hooks (lisp-mode))
      (setq buffer-read-only t
            buffer-undo-list t))
    (let ((inhibit-read-only t))
      (when (> (buffer-size) agent-q-image-source--compiled-largest)
        ;; The client looks around a position for the text itself.
        (delete-region (point-min) (/ (buffer-size) 2)))
      (save-excursion
        (goto-char (point-max))
        (prog1 (point)
          (insert form "\n\n")
          (set-buffer-modified-p nil))))))

;;;; Files that an image names

;; An image names files as the places of definitions, and it can name any.  Here
;; a name becomes one of this machine, unless it would have Emacs connect to a
;; host of the image's choice; and the core says which files may be shown
;; unasked, and reads them where it judged them.

(defvar agent-q-image-source-file-owner nil
  "The buffer whose project counts, a chat; nil for the current one.")

(defconst agent-q-image-source--file-remote "\\`/+\\(?:[^/]*:\\|\\[\\)"
  "Regexp for file names that are or may be on another machine.")

(defun agent-q-image-source-file-remote-p (name)
  "Whether NAME would, or might, have Emacs ask another machine."
  (string-match-p agent-q-image-source--file-remote name))

(defun agent-q-image-source-file-local (name)
  "Return NAME, of this machine, as an absolute one; nil if it is on another."
  (let* ((file-name-handler-alist nil)
         (file (and (not (agent-q-image-source-file-remote-p name))
                    (expand-file-name name))))
    (and file (not (agent-q-image-source-file-remote-p file)) file)))

(defun agent-q-image-source-file-here (connection name)
  "Return the name here of NAME, a file of CONNECTION's image, or nil.
One of another machine is what the user's translation of file names made
of it.  Where the image itself names a host, nothing is asked of that."
  (unless (agent-q-image-source-file-remote-p name)
    (let* ((file (ignore-errors (agent-q-connection-ask connection :from-lisp name)))
           (host (and file (file-remote-p file))))
      (cond ((null file) nil)
            ((null host) (agent-q-image-source-file-local file))
            ((equal host (file-remote-p (agent-q-connection-ask connection :from-lisp "/")))
             file)))))

(defun agent-q-image-source--file-ground ()
  "Return as JSON what is said of the project that counts."
  (with-current-buffer (if (buffer-live-p agent-q-image-source-file-owner)
                           agent-q-image-source-file-owner
                         (current-buffer))
    (agent-q-json-serialize (agent-q-project-settings))))

(defvar agent-q-image-source--file-known nil
  "What is known of files while the places of one reply are looked up, or nil.
It is a list of what `agent-q-image-source--file-ground' said, and of files
and objections.")

(defmacro agent-q-image-source-file-with-owner (owner &rest body)
  "Evaluate BODY, where the project of the chat OWNER counts.
What was found out of a file holds until its end."
  (declare (indent 1) (debug t))
  `(let ((agent-q-image-source-file-owner ,owner)
         (agent-q-image-source--file-known (list nil)))
     ,@body))

(defun agent-q-image-source--file-known-ground ()
  "Return the JSON text of the project that counts."
  (or (car agent-q-image-source--file-known)
      (let ((ground (agent-q-image-source--file-ground)))
        (when agent-q-image-source--file-known
          (setcar agent-q-image-source--file-known ground))
        ground)))

(defun agent-q-image-source-file-objection (file)
  "Return why the text of FILE may not be shown unasked, or nil."
  (let ((known (assoc file (cdr agent-q-image-source--file-known))))
    (if known
        (cdr known)
      (let ((objection (agent-q-image-source--file-objection file)))
        (when agent-q-image-source--file-known
          (push (cons file objection) (cdr agent-q-image-source--file-known)))
        objection))))

(defun agent-q-image-source--file-objection (file)
  "Return why the text of FILE may not be shown unasked, or nil; ask the core."
  (cond ((not (fboundp 'agent-q-core-quoting-objection))
         "The core of agent-q is not loaded.")
        ((file-remote-p file)
         (agent-q-core-quoting-objection
          (agent-q-image-source--file-known-ground)
          (agent-q-text-clean (file-remote-p (file-truename file) 'localname)) t))
        (t (agent-q-core-quoting-objection
            (agent-q-image-source--file-known-ground) (agent-q-text-clean file) nil))))

(defun agent-q-image-source-file-insert (file)
  "Insert the text of FILE, which may be shown, in the current empty buffer.
Return nil where it can't be read."
  (if (file-remote-p file)
      (let ((inhibit-message t))
        (insert-file-contents file)
        t)
    (let ((bytes (and (fboundp 'agent-q-core-quoting-text)
                      (agent-q-core-quoting-text (agent-q-image-source--file-known-ground)
                                                 (agent-q-text-clean file)))))
      (when bytes
        (insert (encode-coding-string bytes 'iso-8859-1 t))
        (decode-coding-inserted-region (point-min) (point-max) file)
        t))))

;;;; A definition's place in a text

;; An image knows where a definition was when it was loaded; the text may have
;; changed since.  Here the definition is found by what it defines: a form that
;; says so literally, or the class or structure that it comes with.

(defconst agent-q-image-source--definition-kinds
  '((function "defun" "defgeneric" "defmacro" "define-modify-macro")
    (method "defmethod" "defgeneric")
    (macro "defmacro" "define-modify-macro")
    (compiler-macro "define-compiler-macro")
    (variable "defvar" "defparameter" "defconstant" "defglobal" "define-symbol-macro"
              "define-alien-variable")
    (class "defclass" "defstruct" "define-condition")
    (type "deftype" "defstruct" "defclass")
    (setf "defsetf" "define-setf-expander" "define-modify-macro")
    (package "defpackage" "define-package")
    (combination "define-method-combination"))
  "The standard operators by the kind of thing that they define.")

(defconst agent-q-image-source--definition-ways
  '(("defun" . function) ("defgeneric" . function) ("defmethod" . method)
    ("defmacro" . macro) ("define-compiler-macro" . compiler-macro)
    ("defvar" . variable) ("defparameter" . variable) ("defconstant" . variable)
    ("define-symbol-macro" . variable) ("defglobal" . variable)
    ("defclass" . class) ("defstruct" . class) ("define-condition" . class)
    ("deftype" . type) ("defsetf" . setf) ("define-setf-expander" . setf)
    ("defpackage" . package) ("define-method-combination" . combination))
  "The kind of thing that an image says is defined, by its word for it.")

(defconst agent-q-image-source--definition-no-definers
  '("in-package" "export" "unexport" "import" "shadow" "declaim" "proclaim" "setf" "setq"
    "inline" "notinline" "ftype" "function" "quote" "trace" "untrace" "fmakunbound" "let"
    "let*" "flet" "labels" "macrolet" "lambda" "compile" "print" "ignore" "ignorable")
  "Operators that define nothing by the name that comes second.")

(defconst agent-q-image-source--definition-candidates 200
  "Most forms of one text that are examined.")

(defun agent-q-image-source--definition-regexp (name)
  "Return a regexp of the beginning of a list with NAME as its second element.
Its first group is the operator."
  (concat "(\\([^][ \t\n();\"'`,|]+\\)[ \t\n]+"
          (if (string-match "\\`(\\(.+\\) \\(.+\\))\\'" name)
              ;; A name such as (setf area).
              (let ((setf (match-string 1 name))
                    (place (match-string 2 name)))
                (concat "([ \t\n]*\\(?:[^][ ();\"]*:\\)?" (regexp-quote setf) "[ \t\n]+"
                        "\\(?:[^][ ();\"|]*:\\)?|?" (regexp-quote place) "|?[ \t\n]*)"))
            (concat "(?['\"#:|]*\\(?:[^][ ();\"|]*:|?\\)?" (regexp-quote name)
                    "\\(?:[]\"| \t\n()]\\|\\'\\)"))))

(defun agent-q-image-source--definition-operator (text)
  "Return TEXT, an operator, in lower case and without a package."
  (downcase (replace-regexp-in-string "\\`.*:" "" text)))

(defun agent-q-image-source--definition-rank (operator location)
  "Return how well a form with OPERATOR would define LOCATION's name, or nil.
The lower the better."
  (let* ((definer (plist-get location :definer))
         (kind (cdr (assoc definer agent-q-image-source--definition-ways)))
         (standard (seq-some (lambda (entry) (member operator (cdr entry)))
                             agent-q-image-source--definition-kinds)))
    (cond ((equal operator definer) 0)
          ((and kind (member operator (alist-get kind agent-q-image-source--definition-kinds))) 1)
          (standard (unless kind 1))
          ((string-match-p "\\`\\(?:def\\|cl-def\\|test\\'\\)" operator) 2)
          ;; A macro of the file's own, often a local one.
          ((not (or (eq kind 'variable)
                    (member operator agent-q-image-source--definition-no-definers)))
           3))))

(defun agent-q-image-source--definition-end (start)
  "Return the end of the form at START; START where it is unbalanced."
  (or (ignore-errors (scan-sexps start 1)) start))

(defun agent-q-image-source--definition-method-name (text)
  "Return TEXT, a method's full name, to compare it by."
  (replace-regexp-in-string "#?'" "" (agent-q-definitions-bare text)))

(defun agent-q-image-source--definition-parts (text)
  "Return the forms in TEXT, as texts."
  (with-temp-buffer
    (set-syntax-table lisp-mode-syntax-table)
    (insert text)
    (goto-char (point-min))
    (mapcar #'agent-q-definitions-text (agent-q-definitions-forms (point-max)))))

(defun agent-q-image-source--definition-same-specializer-p (written wanted)
  "Whether WRITTEN, a specializer in a source, may be WANTED, one of the image's.
What is written as a constant or made by the reader can't be compared."
  (or (equal (agent-q-image-source--definition-method-name written)
             (agent-q-image-source--definition-method-name wanted))
      (string-match-p "#\\." written)
      (and (string-prefix-p "(eql " wanted)
           (string-match-p "\\`([^ ]*eql [^'\":#0-9]" written))))

(defun agent-q-image-source--definition-same-method-p (full wanted)
  "Whether FULL, a method's name in a source, may be WANTED, one of the image's."
  (let ((written (agent-q-image-source--definition-parts full))
        (known (agent-q-image-source--definition-parts wanted)))
    (and (= (length written) (length known))
         (equal (mapcar #'agent-q-image-source--definition-method-name (butlast (cdr written)))
                (mapcar #'agent-q-image-source--definition-method-name (butlast (cdr known))))
         (let ((written (agent-q-image-source--definition-parts
                         (substring (car (last written)) 1 -1)))
               (known (agent-q-image-source--definition-parts (substring (car (last known)) 1 -1))))
           (and (= (length written) (length known))
                (cl-every #'agent-q-image-source--definition-same-specializer-p written known))))))

(defun agent-q-image-source--definition-method-rank (start full location)
  "Return how well FULL, a method's name at START, is LOCATION's, or nil."
  (let ((wanted (plist-get location :method)))
    (cond ((null full) nil)
          ((equal (agent-q-image-source--definition-method-name full)
                  (agent-q-image-source--definition-method-name wanted))
           0)
          ((string-suffix-p ")" (string-remove-prefix (plist-get location :name) wanted))
           (and (agent-q-image-source--definition-same-method-p full wanted) 1))
          ;; The image is brief.
          ((and (plist-get location :mentions)
                (agent-q-image-source--definition-mentions-p
                 start (plist-get location :mentions)))
           1))))

(defun agent-q-image-source--definition-mentions-p (start mentions)
  "Whether the head of the form at START has all of MENTIONS in it."
  (save-excursion
    (goto-char start)
    (let ((end (save-excursion
                 (forward-line)
                 (if (re-search-forward "^(" (min (point-max) (+ (point) 400)) 'move)
                     (match-beginning 0)
                   (point)))))
      (cl-every (lambda (mention)
                  (save-excursion
                    (re-search-forward
                     (concat "[ (':]" (regexp-quote mention) "[] \t\n()]") end t)))
                mentions))))

(defun agent-q-image-source--definition-defmethod-rank (start location)
  "Return how well the `defmethod' at START is the one that LOCATION means, or nil."
  (agent-q-image-source--definition-method-rank
   start
   (nth 2 (ignore-errors
            (agent-q-definitions-names
             (agent-q-definitions-subforms start (scan-sexps start 1)))))
   location))

(defun agent-q-image-source--definition-generic-rank (start location)
  "Return 2 when the generic function at START has LOCATION's method, or nil."
  (seq-some
   (lambda (option)
     (let ((forms (apply #'agent-q-definitions-subforms option)))
       (and (cdr forms)
            (equal (agent-q-definitions-text (car forms)) ":method")
            (agent-q-image-source--definition-method-rank
             (car option)
             (agent-q-definitions-method (plist-get location :name) (cdr forms))
             location)
            2)))
   (nthcdr 3 (agent-q-definitions-subforms start (agent-q-image-source--definition-end start)))))

(defun agent-q-image-source--definition-on-top-p (start)
  "Whether the list at START is a top-level form, or in one that has local macros."
  (save-excursion
    (goto-char start)
    (or (bolp)
        (progn (goto-char (agent-q-image-source--definition-top start))
               (looking-at-p "([^ \t\n]*\\_<macrolet\\_>")))))

(defun agent-q-image-source--definition-value (start operator location)
  "Return the rank of the form at START, with OPERATOR, for LOCATION, or nil."
  (let ((rank (agent-q-image-source--definition-rank operator location)))
    (cond ((null rank) nil)
          ((= rank 3) (and (agent-q-image-source--definition-on-top-p start) 3))
          ((not (equal "defmethod" (plist-get location :definer))) rank)
          ((equal operator "defmethod")
           (agent-q-image-source--definition-defmethod-rank start location))
          ((equal operator "defgeneric")
           (agent-q-image-source--definition-generic-rank start location))
          (t rank))))

(defun agent-q-image-source--definition-read-p (position)
  "Whether the image's reader takes the form at POSITION for code."
  (save-excursion
    ;; The cache of `syntax-ppss' is for the syntax that the user's buffer has.
    (let ((state (parse-partial-sexp (point-min) position)))
      (not (or (nth 8 state)
               (seq-some #'agent-q-definitions-feature-skipped-p (cons position (nth 9 state))))))))

(defun agent-q-image-source--definition-literal (location worst)
  "Return the places that define what LOCATION names: lists of rank and start.
None has a rank above WORST."
  (let ((regexp (agent-q-image-source--definition-regexp (plist-get location :name)))
        (count 0)
        (found nil))
    (goto-char (point-min))
    (while (and (< count agent-q-image-source--definition-candidates)
                (re-search-forward regexp nil t))
      (let* ((start (match-beginning 0))
             (operator (agent-q-image-source--definition-operator (match-string 1)))
             (rank (save-excursion
                     (agent-q-image-source--definition-value start operator location))))
        (goto-char (1+ start))
        (when (and rank (<= rank worst))
          (cl-incf count)
          (push (list rank start) found))))
    found))

(defun agent-q-image-source--definition-owned (location)
  "Return the places of the classes or structures that bring what LOCATION names.
Of a method that is where its slot names it."
  (let ((methodp (equal "defmethod" (plist-get location :definer)))
        (name (agent-q-image-source--definition-place-name location)))
    (seq-mapcat
     (lambda (owner)
       (cl-loop for (rank start) in (agent-q-image-source--definition-literal
                                     (list :name owner :definer "defclass") 2)
                for place = (if methodp
                                (agent-q-image-source--definition-within-p start name)
                              start)
                when place collect (list (+ 4 rank) place)))
     (plist-get location :owners))))

(defun agent-q-image-source--definition-place-name (location)
  "Return the name that LOCATION has in the options of a slot."
  (replace-regexp-in-string "\\`(setf \\|)\\'" "" (plist-get location :name)))

(defun agent-q-image-source--definition-within-p (start name)
  "Return where the form at START mentions NAME, or nil."
  (save-excursion
    (goto-char start)
    (when (re-search-forward (concat "[ \t\n(':]" (regexp-quote name) "[] \t\n()]")
                             (agent-q-image-source--definition-end start) t)
      (1+ (match-beginning 0)))))

(defun agent-q-image-source--definition-best (places position)
  "Return the start of the best of PLACES; of equal ones the nearest to POSITION."
  (let ((ordered (sort places
                       (lambda (one other)
                         (if (= (car one) (car other))
                             (< (abs (- (cadr one) position))
                                (abs (- (cadr other) position)))
                           (< (car one) (car other)))))))
    (cadr (seq-find (lambda (place) (agent-q-image-source--definition-read-p (cadr place)))
                    ordered))))

(defun agent-q-image-source--definition-top (position)
  "Return the start of the top-level form around POSITION, or on its line."
  (save-excursion
    (goto-char position)
    (end-of-line)
    (let* ((limit (point))
           (top (if (re-search-backward "^(" nil t) (point) position))
           (end nil))
      ;; Others may follow on a line, or behind feature expressions.
      (while (and (setq end (ignore-errors (scan-sexps top 1)))
                  (<= end position)
                  (progn (goto-char end)
                         (agent-q-definitions-feature-pass-over)
                         (and (<= (point) limit) (eq (char-after) ?\())))
        (setq top (point)))
      top)))

(defun agent-q-image-source-definition-top-here ()
  "Return the start of the top-level form around point, or on its line."
  (agent-q-image-source--definition-top (point)))

(defun agent-q-image-source--definition-use (location trust start position)
  "Return where in the form at START that is used which LOCATION is about.
Of several uses it is the one nearest to POSITION.  TRUST is what is
known of the text."
  (let* ((end (agent-q-image-source--definition-end start))
         (regexp (concat "[ \t\n(',:]" (regexp-quote (plist-get location :uses))
                         "[] \t\n()]"))
         (inside (and (<= start position) (< position end)
                      (or trust (not (plist-get location :loaded)))))
         (uses nil))
    (if (and inside
             (or (not (eq trust 'some))
                 (save-excursion
                   (goto-char (max (1+ start) (1- position)))
                   (re-search-forward regexp (agent-q-image-source--definition-end position) t))))
        ;; A macro may make the use, so that it need not be in the text.
        position
      (goto-char (1+ start))
      ;; Its own name is no use of it.
      (ignore-errors (forward-sexp 2))
      ;; A slot's option is not a list, and so ends before that.
      (while (and (< (point) end) (re-search-forward regexp end t))
        (push (list 0 (1+ (match-beginning 0))) uses)
        (goto-char (1- (match-end 0))))
      (or (agent-q-image-source--definition-best uses position)
          (if inside position start)))))

(defun agent-q-image-source--definition-around (position)
  "Return the places of the lists around POSITION, the innermost first.
That is a list which begins there, if one does."
  (let* ((top (agent-q-image-source--definition-top position))
         (position (max top position)))
    (append (and (eq (char-after position) ?\() (list position))
            (reverse (nth 9 (save-excursion (parse-partial-sexp top position)))))))

(defun agent-q-image-source--definition-at (location position)
  "Return the form around POSITION that is the definition of LOCATION, or nil."
  (let ((regexp (agent-q-image-source--definition-regexp (plist-get location :name)))
        (around (agent-q-image-source--definition-around position)))
    (or (seq-find (lambda (start)
                    (save-excursion
                      (goto-char start)
                      (and (looking-at regexp)
                           (agent-q-image-source--definition-value
                            start (agent-q-image-source--definition-operator (match-string 1))
                            location)
                           (agent-q-image-source--definition-read-p start))))
                  around)
        (let ((top (car (last around))))
          (and top
               (plist-get location :owners)
               (seq-some (lambda (place)
                           (and (<= top (cadr place))
                                (< (cadr place) (agent-q-image-source--definition-end top))
                                (agent-q-image-source--definition-read-p top)
                                (if (equal "defmethod" (plist-get location :definer))
                                    (agent-q-image-source--definition-nearer place position)
                                  top)))
                         (agent-q-image-source--definition-owned location)))))))

(defun agent-q-image-source--definition-nearer (place position)
  "Return POSITION if it is in the slot where PLACE is, else the start of PLACE."
  (let ((line (lambda (position) (save-excursion (goto-char position)
                                                 (line-beginning-position)))))
    (if (and (<= position (cadr place))
             (< (cadr place) (agent-q-image-source--definition-end position))
             (/= (funcall line position)
                 (funcall line (agent-q-image-source--definition-top position))))
        position
      (cadr place))))

(defun agent-q-image-source--definition-other-p (start location)
  "Whether the form at START is a standard definition, but not LOCATION's.
It is none where its name is made by the reader or a macro."
  (save-excursion
    (goto-char start)
    (when (looking-at (concat "(\\([^][ \t\n();\"'`,|]+\\)[ \t\n]+"
                              "\\(?:[^][ \t\n();\"'`,|#\\]+\\|([^ \t\n();\"'`,|#]+[ \t\n]"
                              "[^][();\"'`,|#\\]*)\\)[ \t\n()]"))
      (let ((operator (agent-q-image-source--definition-operator (match-string 1))))
        (and (seq-some (lambda (entry) (member operator (cdr entry)))
                       agent-q-image-source--definition-kinds)
             (not (member operator (alist-get 'class agent-q-image-source--definition-kinds)))
             (or (equal "defmethod" (plist-get location :definer))
                 (not (looking-at (agent-q-image-source--definition-regexp
                                   (plist-get location :name))))))))))

(defun agent-q-image-source--definition-made-p (location trust position)
  "Whether a macro or structure around POSITION may have made LOCATION's name.
The text need not have it, but a part of it, unless TRUST is `full'."
  (let* ((around (agent-q-image-source--definition-around position))
         (top (car (last around))))
    (and top
         (not (seq-some (lambda (start) (agent-q-image-source--definition-other-p start location))
                        around))
         (agent-q-image-source--definition-read-p top)
         (or (and (eq trust 'full)
                  (save-excursion
                    (goto-char top)
                    (not (looking-at-p "([^ \t\n]*\\_<def\\(?:class\\|struct\\|ine-condition\\)\\_>"))))
             (save-excursion
               (goto-char top)
               (re-search-forward
                (regexp-opt (or (split-string (plist-get location :name) "[^[:alnum:]]+" t)
                                (list (plist-get location :name))))
                (agent-q-image-source--definition-end top) t))))))

(defun agent-q-image-source--definition-start (location trust position)
  "Return the place of the definition of LOCATION, by the text.
TRUST is what is known of the text, and POSITION where it was."
  (or (and trust (agent-q-image-source--definition-at location position))
      (agent-q-image-source--definition-best
       (agent-q-image-source--definition-literal
        location (if (and trust (agent-q-image-source--definition-here-p location position)) 2 3))
       position)
      (agent-q-image-source--definition-best (agent-q-image-source--definition-owned location) position)
      (and (or trust
               ;; Macros can make names that are not in the text, or not so.
               (and (not (plist-get location :loaded))
                    (agent-q-image-source--definition-here-p location position)))
           (agent-q-image-source--definition-made-p location trust position)
           position)))

(defun agent-q-image-source--definition-here-p (location position)
  "Whether the top-level form around POSITION mentions what LOCATION names."
  (agent-q-image-source--definition-within-p
   (agent-q-image-source--definition-top position)
   (agent-q-image-source--definition-place-name location)))

(defun agent-q-image-source-definition-go (location trust)
  "Go from point, where LOCATION was, to where its definition is now.
TRUST is `full' when the text has the date of the one that the image
has loaded, `some' when it was loaded within the second of its date,
so that it may differ, and nil when it differs or nothing is known of
that.  In each case the form has to define what LOCATION names.
Return nil when the definition can't be found."
  (let ((case-fold-search t)
        (position (point)))
    (or (null (plist-get location :name))
        (with-syntax-table lisp-mode-syntax-table
          (let* ((parse-sexp-ignore-comments t)
                 (parse-sexp-lookup-properties nil)
                 (start (agent-q-image-source--definition-start location trust position)))
            (goto-char (cond ((null start) position)
                             ((plist-get location :uses)
                              (agent-q-image-source--definition-use location trust start position))
                             (t start)))
            (and start t))))))

;;;; Places of definitions, as files and lines

;; An image says where a definition is by a file name of its own machine and a
;; character position.  Here these become files and lines of this Emacs, with
;; the source text where it is wanted.  What the user has in a buffer is read
;; there, unsaved changes included.

(defconst agent-q-image-source--seconds 0.3
  "How long a reply's files may be read.  Later places come without a line.")

(defconst agent-q-image-source--largest-file 5000000
  "The size in bytes of the largest file that is read.")

(defconst agent-q-image-source--longest-class 1000
  "Most characters of a class that are quoted for one of its accessors.")

(defconst agent-q-image-source--longest-alone 15000
  "Most characters of a definition that is the only one quoted.
That is nearly all that a model is sent of a result.")

(defconst agent-q-image-source--longest-of-several 6000
  "Most characters of each definition that is quoted, where there are several.")

(defvar agent-q-image-source--longest-text agent-q-image-source--longest-alone
  "Most characters of a definition in the reply that is resolved.")

(defconst agent-q-image-source--none (list "agent-q" agent-q-image-source-compiled-name)
  "What images know as the buffers of definitions that compile_form compiled.
The first is for those that replace what a file has.")

(defvar agent-q-image-source--buffers nil
  "Buffers with the text of files, by file name, while a reply is resolved.")

(defvar agent-q-image-source--end nil
  "When to stop reading files for the reply that is resolved.")

(defun agent-q-image-source-resolve (connection reply &optional owner)
  "Return the places in REPLY of CONNECTION's image to the chat OWNER.
That is a property list for `agent-q-connection-call-finish': :places has for
each :location in REPLY the properties :where, \"file:line\", and :text, the
source, for those that want it; :read is REPLY as Lisp data with these.  It is
nil for other replies, and for those that can't be understood."
  (when (and (string-match-p "\\`(:outcome :\\(?:returned\\|error\\|cancelled\\)\\_>" reply)
             (string-match-p ":location (" reply))
    (let ((agent-q-image-source--buffers nil)
          (agent-q-definitions-feature-list (agent-q-connection-features connection))
          (agent-q-image-source--longest-text
           (if (string-match-p ":wanted t\\_>[^z-a]*:wanted t\\_>" reply)
               agent-q-image-source--longest-of-several
             agent-q-image-source--longest-alone))
          (agent-q-image-source--end (+ (float-time) agent-q-image-source--seconds)))
      (unwind-protect
          (condition-case err
              (agent-q-image-source-file-with-owner owner
                (let ((data (agent-q-connection-reply-read reply)))
                  (list :places (agent-q-connection-reply-place
                                 data (lambda (location)
                                        (agent-q-image-source--place connection location)))
                        :read data)))
            (error (message "agent-q: places were not resolved: %s" (error-message-string err))
                   nil))
        (pcase-dolist (`(,_ . ,buffer) agent-q-image-source--buffers)
          (when (and (buffer-live-p buffer)
                     (string-prefix-p " *agent-q-source*" (buffer-name buffer)))
            (kill-buffer buffer)))))))

(defun agent-q-image-source--place (connection location)
  "Return properties :where and :text for LOCATION, in words of CONNECTION's image."
  (if (member (plist-get location :buffer) agent-q-image-source--none)
      (agent-q-image-source--compiled connection location)
    (agent-q-image-source--found connection location)))

(defun agent-q-image-source--compiled (connection location)
  "Return properties for LOCATION of something that compile_form compiled.
That is not what a file has, even if LOCATION, in words of
CONNECTION's image, names the file whose definition it replaced."
  (let* ((file (and (plist-get location :file) (plist-get location :name)
                    (agent-q-image-source--found
                     connection
                     (append '(:buffer nil :snippet nil :loaded nil :wanted t) location))))
         (place (and file (not (plist-get file :lost)) (plist-get file :where)))
         (text (or (plist-get location :compiled)
                   (agent-q-image-source--snippet location))))
    (append
     (if (and place (agent-q-image-source--same-p text (plist-get file :text)))
         (list :where place :written t)
       (list :where "no file, by compile_form" :replaces place))
     (and (plist-get location :wanted) (list :text text)))))

(defun agent-q-image-source--same-p (one other)
  "Whether ONE and OTHER are the same text, but for white space."
  (and one other
       (equal (agent-q-image-source--plain one) (agent-q-image-source--plain other))))

(defun agent-q-image-source--found (connection location)
  "Return properties for LOCATION of something in a file or a buffer.
It is in words of CONNECTION's image.  Files of which nothing may be
shown unasked have a :withheld."
  (let* ((file (agent-q-image-source--file connection location))
         (objection (and file (agent-q-image-source--objection file location)))
         (buffer (unless objection
                   (agent-q-image-source--buffer (plist-get location :buffer) file
                                                 (plist-get location :wanted))))
         (name (or file
                   (plist-get location :file)
                   (and (plist-get location :buffer)
                        (format "buffer %s" (plist-get location :buffer)))))
         (place (and name (format "%s%s" name
                                  (if (plist-get location :line)
                                      (format ":%d" (plist-get location :line))
                                    "")))))
    (cond
     ((or objection
          ;; It may be about another file than the one of this name.
          (setq objection (and buffer (agent-q-image-source--objection-to buffer))))
      (list :where place :withheld (and (plist-get location :wanted) objection)))
     ((null buffer)
      (list :where place
            :missing (and (plist-get location :file)
                          ;; Another machine is only asked for a text that is wanted.
                          (or (plist-get location :wanted)
                              (and file (not (file-remote-p file))))
                          (not (and file (agent-q-image-source--readable-p file))))
            :text (and (plist-get location :wanted)
                       (or (plist-get location :source)
                           (agent-q-image-source--snippet location)))))
     (t
      (with-current-buffer buffer
        (save-excursion
          (save-restriction
            (widen)
            (agent-q-image-source--here location file name))))))))

(defun agent-q-image-source--objection (file location)
  "Return why the text of FILE may not be shown unasked, or nil.
Where LOCATION wants no text, only files that can be read are judged: the
implementation's own sources are often not there.  Another machine isn't
asked."
  (and (or (plist-get location :wanted) (agent-q-image-source--readable-p file))
       (agent-q-image-source-file-objection file)))

(defun agent-q-image-source--objection-to (buffer)
  "Return why the text of BUFFER may not be shown unasked, or nil.
That depends on the file that it visits, as when it is read by name."
  (let ((visited (buffer-local-value 'buffer-file-name
                                     (or (buffer-base-buffer buffer) buffer))))
    (and visited
         (agent-q-image-source-file-objection
          (if (file-remote-p visited) visited (expand-file-name visited))))))

(defun agent-q-image-source--file (connection location)
  "Return the file of LOCATION, which is in words of CONNECTION's image, or nil.
For frames only a buffer is given.  What compile_file compiled has the
name of its file for that of a buffer when the user doesn't visit it."
  (let* ((file (plist-get location :file))
         (name (plist-get location :buffer))
         (buffer (and name (get-buffer name))))
    (cond (file (agent-q-image-source-file-here connection file))
          (buffer (buffer-file-name buffer))
          ((and name (string-prefix-p "/" name))
           (agent-q-image-source-file-here connection name)))))

(defun agent-q-image-source--here (location file name)
  "Return properties for LOCATION in the current buffer.
It has the text of FILE, if any, and NAME for the reader."
  (let ((trust (agent-q-image-source--trust location file)))
    (append
     (if (agent-q-image-source--go location trust)
         (list :where (format "%s:%d" name (line-number-at-pos))
               :text (and (plist-get location :wanted)
                          (agent-q-image-source--definition)))
       (list :where name :lost t))
     (cond ((and buffer-file-name (buffer-modified-p)) (list :unsaved t))
           ((if (plist-get location :loaded) (null trust)
              (agent-q-image-source--stale-p location))
            (list :changed t))))))

(defun agent-q-image-source--stale-p (location)
  "Whether the text from which LOCATION was compiled isn't around point any more.
That is known of what was compiled as a part of a file, as its text
comes with it: the beginning, or all when compile_file did it."
  (let* ((snippet (and (plist-get location :buffer)
                       (agent-q-image-source--bare-form
                        ;; What uses a name is no guess, however short.
                        (if (plist-get location :uses)
                            (plist-get location :snippet)
                          (agent-q-image-source--snippet location)))))
         (compiled (plist-get location :compiled))
         (whole (and snippet compiled
                     (<= (length compiled) agent-q-image-source--longest-text)
                     (agent-q-image-source--bare-form compiled))))
    (and snippet
         (not (string-search (if (and whole (string-search snippet whole)) whole snippet)
                             (agent-q-image-source--plain
                              (apply #'buffer-substring-no-properties
                                     (save-excursion (agent-q-image-source--bounds)))))))))

(defun agent-q-image-source--bare-form (text)
  "Return TEXT, if any, in plain white space, without feature expressions."
  (and text
       (replace-regexp-in-string "\\`\\(?:#[-+]\\(?:([^()]*)\\|[^] ()#;\"']+\\) ?\\)+" ""
                                 (agent-q-image-source--plain text))))

(defun agent-q-image-source--plain (text)
  "Return TEXT, if any, with plain white space."
  (and text (string-join (split-string text "[ \t\n]+" t) " ")))

(defun agent-q-image-source--snippet (location)
  "Return the snippet of LOCATION when the image took it from the source.
A guess of the client's is one line without an end."
  (let ((snippet (plist-get location :snippet)))
    (and snippet (string-match-p "[)\n]" snippet) snippet)))

(defun agent-q-image-source--readable-p (file)
  "Return non-nil when FILE can be read without waiting for another machine."
  (and (not (file-remote-p file)) (file-readable-p file)))

(defun agent-q-image-source--buffer (name file wanted)
  "Return a buffer with the text of the buffer NAME or of FILE, or nil.
Files that the user doesn't visit are read, those of other machines
only when the text is WANTED."
  (or (and name (null file) (get-buffer name))
      (cdr (assoc file agent-q-image-source--buffers))
      (and file
           (let ((found (agent-q-image-source--look-up file wanted)))
             (if (bufferp found)
                 found
               (and found
                    (or (agent-q-image-source--visiting file)
                        (and (< (float-time) agent-q-image-source--end)
                             (file-regular-p file)
                             (< (file-attribute-size (file-attributes file))
                                agent-q-image-source--largest-file)
                             (agent-q-image-source--read file)))))))))

(defun agent-q-image-source--visiting (file)
  "Return the buffer that visits FILE, unless the file on disk is newer than it."
  (let ((buffer (find-buffer-visiting file)))
    (and buffer (agent-q-image-source--current-p buffer) buffer)))

(defun agent-q-image-source--current-p (buffer)
  "Whether BUFFER has the text of its file, or that of the user's edits."
  (or (buffer-modified-p buffer)
      (file-remote-p (buffer-file-name buffer))
      (verify-visited-file-modtime buffer)))

(defun agent-q-image-source--look-up (file wanted)
  "Return the buffer that visits FILE by this name, else whether it can be read.
On another machine it can only when its text is WANTED.  This is quick,
as the implementation's own sources are often not there."
  (let* ((remote (file-remote-p file))
         ;; All that is asked here looks in it, each time twice.
         (file-name-handler-alist (and (or remote (string-prefix-p "/:" file))
                                       file-name-handler-alist)))
    (or (let ((buffer (get-file-buffer file)))
          (and buffer (agent-q-image-source--current-p buffer) buffer))
        (and (or wanted (not remote))
             (file-readable-p file)))))

(defun agent-q-image-source--read (file)
  "Return a new buffer with the text of FILE, kept until the reply is resolved.
Return nil where it can't be read."
  (let ((buffer (generate-new-buffer " *agent-q-source*" t)))
    (push (cons file buffer) agent-q-image-source--buffers)
    (with-current-buffer buffer
      (and (agent-q-image-source-file-insert file) buffer))))

(defun agent-q-image-source--go (location trust)
  "Go to LOCATION in the current buffer; return nil when it isn't found.
TRUST says what is known of the text, as in
`agent-q-image-source-definition-go'.  Its snippet is searched for near the
position: the text may have changed since it was compiled."
  (let ((position (plist-get location :position))
        (line (plist-get location :line))
        (snippet (car (split-string (or (plist-get location :snippet) "") "\n"))))
    (goto-char (point-min))
    (cond (position (forward-char (min (max 0 (1- position)) (- (point-max) (point)))))
          (line (forward-line (1- line))))
    (unless (or (string-blank-p snippet)
                (looking-at-p (regexp-quote snippet)))
      (agent-q-image-source--go-nearest snippet))
    (skip-chars-forward " \t\n")
    (agent-q-image-source-definition-go location trust)))

(defun agent-q-image-source--trust (location file)
  "Return what is known of the text of FILE in the current buffer.
It is `full' when it is the one that the image has LOCATION from,
`some' when it may have changed within the second that it was loaded
in, and nil when it differs or nothing is known."
  (let ((loaded (plist-get location :loaded)))
    (and loaded file
         (not (and buffer-file-name (buffer-modified-p)))
         (eql loaded (agent-q-image-source--date file))
         (if (plist-get location :before) 'full 'some))))

(defconst agent-q-image-source--epoch 2208988800
  "The time from which Emacs counts seconds, as Common Lisp does.")

(defun agent-q-image-source--date (file)
  "Return when FILE was written last, in seconds as Common Lisp counts them."
  (unless (file-remote-p file)
    (let ((time (file-attribute-modification-time (file-attributes file))))
      (and time (+ agent-q-image-source--epoch (floor (float-time time)))))))

(defun agent-q-image-source--go-nearest (text)
  "Go to the start of the occurrence of TEXT that is nearest to point, if any."
  (let* ((case-fold-search t)
         (start (point))
         (after (and (search-forward text nil t) (match-beginning 0)))
         (before (progn (goto-char start) (and (search-backward text nil t) (point)))))
    (goto-char (cond ((and before after)
                      (if (< (- start before) (- after start)) before after))
                     (t (or before after start))))))

(defun agent-q-image-source--definition ()
  "Return the text of the top-level form around point."
  (with-syntax-table lisp-mode-syntax-table
    (let ((parse-sexp-ignore-comments t)
          (here (point)))
      (pcase-let ((`(,start ,end) (agent-q-image-source--bounds)))
        (or (agent-q-image-source--slot start end here)
            (agent-q-image-source--cut start end))))))

(defun agent-q-image-source--bounds ()
  "Return the start and the end of the top-level form around point."
  (with-syntax-table lisp-mode-syntax-table
    (let ((parse-sexp-ignore-comments t)
          (start (agent-q-image-source-definition-top-here)))
      (goto-char start)
      (list start
            (or (ignore-errors (scan-sexps start 1))
                (line-end-position))))))

(defun agent-q-image-source--slot (start end here)
  "Return the slot at HERE of the long class from START to END, or nil.
An accessor is defined there, and the other slots say nothing of it."
  (when (and (< start here end)
             (< agent-q-image-source--longest-class (- end start)))
    (goto-char start)
    (let* ((class (looking-at "(\\S-*\\_<def\\(?:class\\|ine-condition\\)\\_>.*"))
           (head (and class (match-string-no-properties 0)))
           ;; The slot is in the list of slots, which is in the class.
           (slot (nth 2 (nth 9 (parse-partial-sexp start (min end (1+ here))))))
           (slot-end (and class slot (ignore-errors (scan-sexps slot 1)))))
      (when slot-end
        (format "%s\n  ...\n%s%s\n  ..." head
                (make-string (progn (goto-char slot) (current-column)) ?\s)
                (buffer-substring-no-properties slot slot-end))))))

(defun agent-q-image-source--cut (start end)
  "Return the text from START to END, or its beginning and how much is missing."
  (if (<= (- end start) agent-q-image-source--longest-text)
      (buffer-substring-no-properties start end)
    (goto-char (+ start agent-q-image-source--longest-text))
    (beginning-of-line)
    (let ((lines (count-lines (point) end))
          (line (line-number-at-pos)))
      (format "%s[%d more lines; read_file with offset %d, limit %d shows them]"
              (buffer-substring-no-properties start (point)) lines line lines))))

(provide 'agent-q-image-source)
;;; agent-q-image-source.el ends here
