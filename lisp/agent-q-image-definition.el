;;; agent-q-image-definition.el --- A definition's place in a text  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; An image knows where a definition was when it was loaded; the text may have
;; changed since.  Here the definition is found by what it defines: a form that
;; says so literally, or the class or structure that it comes with.

;;; Code:

(require 'cl-lib)
(require 'lisp-mode)
(require 'seq)
(require 'subr-x)
(require 'agent-q-definitions)
(require 'agent-q-image-feature)

(defconst agent-q-image-definition--kinds
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

(defconst agent-q-image-definition--ways
  '(("defun" . function) ("defgeneric" . function) ("defmethod" . method)
    ("defmacro" . macro) ("define-compiler-macro" . compiler-macro)
    ("defvar" . variable) ("defparameter" . variable) ("defconstant" . variable)
    ("define-symbol-macro" . variable) ("defglobal" . variable)
    ("defclass" . class) ("defstruct" . class) ("define-condition" . class)
    ("deftype" . type) ("defsetf" . setf) ("define-setf-expander" . setf)
    ("defpackage" . package) ("define-method-combination" . combination))
  "The kind of thing that an image says is defined, by its word for it.")

(defconst agent-q-image-definition--no-definers
  '("in-package" "export" "unexport" "import" "shadow" "declaim" "proclaim" "setf" "setq"
    "inline" "notinline" "ftype" "function" "quote" "trace" "untrace" "fmakunbound" "let"
    "let*" "flet" "labels" "macrolet" "lambda" "compile" "print" "ignore" "ignorable")
  "Operators that define nothing by the name that comes second.")

(defconst agent-q-image-definition--candidates 200
  "Most forms of one text that are examined.")

(defun agent-q-image-definition--regexp (name)
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

(defun agent-q-image-definition--operator (text)
  "Return TEXT, an operator, in lower case and without a package."
  (downcase (replace-regexp-in-string "\\`.*:" "" text)))

(defun agent-q-image-definition--rank (operator location)
  "Return how well a form with OPERATOR would define LOCATION's name, or nil.
The lower the better."
  (let* ((definer (plist-get location :definer))
         (kind (cdr (assoc definer agent-q-image-definition--ways)))
         (standard (seq-some (lambda (entry) (member operator (cdr entry)))
                             agent-q-image-definition--kinds)))
    (cond ((equal operator definer) 0)
          ((and kind (member operator (alist-get kind agent-q-image-definition--kinds))) 1)
          (standard (unless kind 1))
          ((string-match-p "\\`\\(?:def\\|cl-def\\|test\\'\\)" operator) 2)
          ;; A macro of the file's own, often a local one.
          ((not (or (eq kind 'variable)
                    (member operator agent-q-image-definition--no-definers)))
           3))))

(defun agent-q-image-definition--end (start)
  "Return the end of the form at START; START where it is unbalanced."
  (or (ignore-errors (scan-sexps start 1)) start))

(defun agent-q-image-definition--method-name (text)
  "Return TEXT, a method's full name, to compare it by."
  (replace-regexp-in-string "#?'" "" (agent-q-definitions-bare text)))

(defun agent-q-image-definition--parts (text)
  "Return the forms in TEXT, as texts."
  (with-temp-buffer
    (set-syntax-table lisp-mode-syntax-table)
    (insert text)
    (goto-char (point-min))
    (mapcar #'agent-q-definitions-text (agent-q-definitions-forms (point-max)))))

(defun agent-q-image-definition--same-specializer-p (written wanted)
  "Whether WRITTEN, a specializer in a source, may be WANTED, one of the image's.
What is written as a constant or made by the reader can't be compared."
  (or (equal (agent-q-image-definition--method-name written)
             (agent-q-image-definition--method-name wanted))
      (string-match-p "#\\." written)
      (and (string-prefix-p "(eql " wanted)
           (string-match-p "\\`([^ ]*eql [^'\":#0-9]" written))))

(defun agent-q-image-definition--same-method-p (full wanted)
  "Whether FULL, a method's name in a source, may be WANTED, one of the image's."
  (let ((written (agent-q-image-definition--parts full))
        (known (agent-q-image-definition--parts wanted)))
    (and (= (length written) (length known))
         (equal (mapcar #'agent-q-image-definition--method-name (butlast (cdr written)))
                (mapcar #'agent-q-image-definition--method-name (butlast (cdr known))))
         (let ((written (agent-q-image-definition--parts
                         (substring (car (last written)) 1 -1)))
               (known (agent-q-image-definition--parts (substring (car (last known)) 1 -1))))
           (and (= (length written) (length known))
                (cl-every #'agent-q-image-definition--same-specializer-p written known))))))

(defun agent-q-image-definition--method-rank (start full location)
  "Return how well FULL, a method's name at START, is LOCATION's, or nil."
  (let ((wanted (plist-get location :method)))
    (cond ((null full) nil)
          ((equal (agent-q-image-definition--method-name full)
                  (agent-q-image-definition--method-name wanted))
           0)
          ((string-suffix-p ")" (string-remove-prefix (plist-get location :name) wanted))
           (and (agent-q-image-definition--same-method-p full wanted) 1))
          ;; The image is brief.
          ((and (plist-get location :mentions)
                (agent-q-image-definition--mentions-p
                 start (plist-get location :mentions)))
           1))))

(defun agent-q-image-definition--mentions-p (start mentions)
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

(defun agent-q-image-definition--defmethod-rank (start location)
  "Return how well the `defmethod' at START is the one that LOCATION means, or nil."
  (agent-q-image-definition--method-rank
   start
   (nth 2 (ignore-errors
            (agent-q-definitions-names
             (agent-q-definitions-subforms start (scan-sexps start 1)))))
   location))

(defun agent-q-image-definition--generic-rank (start location)
  "Return 2 when the generic function at START has LOCATION's method, or nil."
  (seq-some
   (lambda (option)
     (let ((forms (apply #'agent-q-definitions-subforms option)))
       (and (cdr forms)
            (equal (agent-q-definitions-text (car forms)) ":method")
            (agent-q-image-definition--method-rank
             (car option)
             (agent-q-definitions-method (plist-get location :name) (cdr forms))
             location)
            2)))
   (nthcdr 3 (agent-q-definitions-subforms start (agent-q-image-definition--end start)))))

(defun agent-q-image-definition--on-top-p (start)
  "Whether the list at START is a top-level form, or in one that has local macros."
  (save-excursion
    (goto-char start)
    (or (bolp)
        (progn (goto-char (agent-q-image-definition--top start))
               (looking-at-p "([^ \t\n]*\\_<macrolet\\_>")))))

(defun agent-q-image-definition--value (start operator location)
  "Return the rank of the form at START, with OPERATOR, for LOCATION, or nil."
  (let ((rank (agent-q-image-definition--rank operator location)))
    (cond ((null rank) nil)
          ((= rank 3) (and (agent-q-image-definition--on-top-p start) 3))
          ((not (equal "defmethod" (plist-get location :definer))) rank)
          ((equal operator "defmethod")
           (agent-q-image-definition--defmethod-rank start location))
          ((equal operator "defgeneric")
           (agent-q-image-definition--generic-rank start location))
          (t rank))))

(defun agent-q-image-definition--read-p (position)
  "Whether the image's reader takes the form at POSITION for code."
  (save-excursion
    ;; The cache of `syntax-ppss' is for the syntax that the user's buffer has.
    (let ((state (parse-partial-sexp (point-min) position)))
      (not (or (nth 8 state)
               (seq-some #'agent-q-image-feature-skipped-p (cons position (nth 9 state))))))))

(defun agent-q-image-definition--literal (location worst)
  "Return the places that define what LOCATION names: lists of rank and start.
None has a rank above WORST."
  (let ((regexp (agent-q-image-definition--regexp (plist-get location :name)))
        (count 0)
        (found nil))
    (goto-char (point-min))
    (while (and (< count agent-q-image-definition--candidates)
                (re-search-forward regexp nil t))
      (let* ((start (match-beginning 0))
             (operator (agent-q-image-definition--operator (match-string 1)))
             (rank (save-excursion
                     (agent-q-image-definition--value start operator location))))
        (goto-char (1+ start))
        (when (and rank (<= rank worst))
          (cl-incf count)
          (push (list rank start) found))))
    found))

(defun agent-q-image-definition--owned (location)
  "Return the places of the classes or structures that bring what LOCATION names.
Of a method that is where its slot names it."
  (let ((methodp (equal "defmethod" (plist-get location :definer)))
        (name (agent-q-image-definition--place-name location)))
    (seq-mapcat
     (lambda (owner)
       (cl-loop for (rank start) in (agent-q-image-definition--literal
                                     (list :name owner :definer "defclass") 2)
                for place = (if methodp
                                (agent-q-image-definition--within-p start name)
                              start)
                when place collect (list (+ 4 rank) place)))
     (plist-get location :owners))))

(defun agent-q-image-definition--place-name (location)
  "Return the name that LOCATION has in the options of a slot."
  (replace-regexp-in-string "\\`(setf \\|)\\'" "" (plist-get location :name)))

(defun agent-q-image-definition--within-p (start name)
  "Return where the form at START mentions NAME, or nil."
  (save-excursion
    (goto-char start)
    (when (re-search-forward (concat "[ \t\n(':]" (regexp-quote name) "[] \t\n()]")
                             (agent-q-image-definition--end start) t)
      (1+ (match-beginning 0)))))

(defun agent-q-image-definition--best (places position)
  "Return the start of the best of PLACES; of equal ones the nearest to POSITION."
  (let ((ordered (sort places
                       (lambda (one other)
                         (if (= (car one) (car other))
                             (< (abs (- (cadr one) position))
                                (abs (- (cadr other) position)))
                           (< (car one) (car other)))))))
    (cadr (seq-find (lambda (place) (agent-q-image-definition--read-p (cadr place)))
                    ordered))))

(defun agent-q-image-definition--top (position)
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
                         (agent-q-image-feature-pass-over)
                         (and (<= (point) limit) (eq (char-after) ?\())))
        (setq top (point)))
      top)))

(defun agent-q-image-definition-top-here ()
  "Return the start of the top-level form around point, or on its line."
  (agent-q-image-definition--top (point)))

(defun agent-q-image-definition--use (location trust start position)
  "Return where in the form at START that is used which LOCATION is about.
Of several uses it is the one nearest to POSITION.  TRUST is what is
known of the text."
  (let* ((end (agent-q-image-definition--end start))
         (regexp (concat "[ \t\n(',:]" (regexp-quote (plist-get location :uses))
                         "[] \t\n()]"))
         (inside (and (<= start position) (< position end)
                      (or trust (not (plist-get location :loaded)))))
         (uses nil))
    (if (and inside
             (or (not (eq trust 'some))
                 (save-excursion
                   (goto-char (max (1+ start) (1- position)))
                   (re-search-forward regexp (agent-q-image-definition--end position) t))))
        ;; A macro may make the use, so that it need not be in the text.
        position
      (goto-char (1+ start))
      ;; Its own name is no use of it.
      (ignore-errors (forward-sexp 2))
      ;; A slot's option is not a list, and so ends before that.
      (while (and (< (point) end) (re-search-forward regexp end t))
        (push (list 0 (1+ (match-beginning 0))) uses)
        (goto-char (1- (match-end 0))))
      (or (agent-q-image-definition--best uses position)
          (if inside position start)))))

(defun agent-q-image-definition--around (position)
  "Return the places of the lists around POSITION, the innermost first.
That is a list which begins there, if one does."
  (let* ((top (agent-q-image-definition--top position))
         (position (max top position)))
    (append (and (eq (char-after position) ?\() (list position))
            (reverse (nth 9 (save-excursion (parse-partial-sexp top position)))))))

(defun agent-q-image-definition--at (location position)
  "Return the form around POSITION that is the definition of LOCATION, or nil."
  (let ((regexp (agent-q-image-definition--regexp (plist-get location :name)))
        (around (agent-q-image-definition--around position)))
    (or (seq-find (lambda (start)
                    (save-excursion
                      (goto-char start)
                      (and (looking-at regexp)
                           (agent-q-image-definition--value
                            start (agent-q-image-definition--operator (match-string 1))
                            location)
                           (agent-q-image-definition--read-p start))))
                  around)
        (let ((top (car (last around))))
          (and top
               (plist-get location :owners)
               (seq-some (lambda (place)
                           (and (<= top (cadr place))
                                (< (cadr place) (agent-q-image-definition--end top))
                                (agent-q-image-definition--read-p top)
                                (if (equal "defmethod" (plist-get location :definer))
                                    (agent-q-image-definition--nearer place position)
                                  top)))
                         (agent-q-image-definition--owned location)))))))

(defun agent-q-image-definition--nearer (place position)
  "Return POSITION if it is in the slot where PLACE is, else the start of PLACE."
  (let ((line (lambda (position) (save-excursion (goto-char position)
                                                 (line-beginning-position)))))
    (if (and (<= position (cadr place))
             (< (cadr place) (agent-q-image-definition--end position))
             (/= (funcall line position)
                 (funcall line (agent-q-image-definition--top position))))
        position
      (cadr place))))

(defun agent-q-image-definition--other-p (start location)
  "Whether the form at START is a standard definition, but not LOCATION's.
It is none where its name is made by the reader or a macro."
  (save-excursion
    (goto-char start)
    (when (looking-at (concat "(\\([^][ \t\n();\"'`,|]+\\)[ \t\n]+"
                              "\\(?:[^][ \t\n();\"'`,|#\\]+\\|([^ \t\n();\"'`,|#]+[ \t\n]"
                              "[^][();\"'`,|#\\]*)\\)[ \t\n()]"))
      (let ((operator (agent-q-image-definition--operator (match-string 1))))
        (and (seq-some (lambda (entry) (member operator (cdr entry)))
                       agent-q-image-definition--kinds)
             (not (member operator (alist-get 'class agent-q-image-definition--kinds)))
             (or (equal "defmethod" (plist-get location :definer))
                 (not (looking-at (agent-q-image-definition--regexp
                                   (plist-get location :name))))))))))

(defun agent-q-image-definition--made-p (location trust position)
  "Whether a macro or structure around POSITION may have made LOCATION's name.
The text need not have it, but a part of it, unless TRUST is `full'."
  (let* ((around (agent-q-image-definition--around position))
         (top (car (last around))))
    (and top
         (not (seq-some (lambda (start) (agent-q-image-definition--other-p start location))
                        around))
         (agent-q-image-definition--read-p top)
         (or (and (eq trust 'full)
                  (save-excursion
                    (goto-char top)
                    (not (looking-at-p "([^ \t\n]*\\_<def\\(?:class\\|struct\\|ine-condition\\)\\_>"))))
             (save-excursion
               (goto-char top)
               (re-search-forward
                (regexp-opt (or (split-string (plist-get location :name) "[^[:alnum:]]+" t)
                                (list (plist-get location :name))))
                (agent-q-image-definition--end top) t))))))

(defun agent-q-image-definition--start (location trust position)
  "Return the place of the definition of LOCATION, by the text.
TRUST is what is known of the text, and POSITION where it was."
  (or (and trust (agent-q-image-definition--at location position))
      (agent-q-image-definition--best
       (agent-q-image-definition--literal
        location (if (and trust (agent-q-image-definition--here-p location position)) 2 3))
       position)
      (agent-q-image-definition--best (agent-q-image-definition--owned location) position)
      (and (or trust
               ;; Macros can make names that are not in the text, or not so.
               (and (not (plist-get location :loaded))
                    (agent-q-image-definition--here-p location position)))
           (agent-q-image-definition--made-p location trust position)
           position)))

(defun agent-q-image-definition--here-p (location position)
  "Whether the top-level form around POSITION mentions what LOCATION names."
  (agent-q-image-definition--within-p
   (agent-q-image-definition--top position)
   (agent-q-image-definition--place-name location)))

(defun agent-q-image-definition-go (location trust)
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
                 (start (agent-q-image-definition--start location trust position)))
            (goto-char (cond ((null start) position)
                             ((plist-get location :uses)
                              (agent-q-image-definition--use location trust start position))
                             (t start)))
            (and start t))))))

(provide 'agent-q-image-definition)
;;; agent-q-image-definition.el ends here
