;;; agent-q-definitions.el --- Lisp definitions in files, by name  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The operations that find a definition, read it and hand it over to be compiled.

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-events)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; What an image's reader passes over

;; A form behind #+ or #- is in the text, but the reader of an image may not see it.
;; Here the feature expressions before a form are looked at.

(defvar agent-q-definitions-feature-list nil
  "The features of the image whose sources are looked at, in lower case.
It is nil when they aren't known.")

(defun agent-q-definitions--feature-name (symbol)
  "Return the name of SYMBOL, a feature, without a package."
  (unless (symbolp symbol)
    (throw 'agent-q-image-feature 'unknown))
  (replace-regexp-in-string "\\`.*:" "" (symbol-name symbol)))

(defun agent-q-definitions--feature-holds-p (expression)
  "Whether EXPRESSION, a feature expression, is true in the image."
  (if (nlistp (or expression 'nil))
      (member (agent-q-definitions--feature-name expression) agent-q-definitions-feature-list)
    (pcase (and expression (agent-q-definitions--feature-name (car expression)))
      ('nil nil)
      ("or" (seq-some #'agent-q-definitions--feature-holds-p (cdr expression)))
      ("and" (seq-every-p #'agent-q-definitions--feature-holds-p (cdr expression)))
      ("not" (not (agent-q-definitions--feature-holds-p (cadr expression))))
      (_ (throw 'agent-q-image-feature 'unknown)))))

(defun agent-q-definitions--feature-off-p (sign text)
  "Whether SIGN, ?+ or ?-, and the expression TEXT hide what follows."
  (let ((holds (catch 'agent-q-image-feature
                 (condition-case nil
                     (and (agent-q-definitions--feature-holds-p (car (read-from-string (downcase text))))
                          t)
                   (error 'unknown)))))
    (and agent-q-definitions-feature-list
         (not (eq holds 'unknown))
         (eq holds (eq sign ?-)))))

(defun agent-q-definitions--feature-before ()
  "Go to the feature expression right before point and return its sign and text.
Return nil when there is none."
  (forward-comment (- (point)))
  (let* ((end (point))
         (start (ignore-errors (scan-sexps end -1))))
    (when start
      (goto-char start)
      (skip-chars-backward "#")
      (cond ((looking-at "#\\([-+]\\)[^ \t\n]")
             (list (char-after (1+ (point)))
                   (buffer-substring-no-properties (+ 2 (point)) end)))
            ((progn (skip-chars-backward " \t\n")
                    (memq (char-before) '(?+ ?-)))
             (backward-char)
             (when (eq (char-before) ?#)
               (backward-char)
               (list (char-after (1+ (point)))
                     (buffer-substring-no-properties start end))))))))

(defun agent-q-definitions-feature-skipped-p (start)
  "Whether the image's reader passes over the form at START, by what is before it."
  (save-excursion
    (goto-char start)
    (let ((skipped nil)
          (found nil))
      (while (and (not skipped) (setq found (agent-q-definitions--feature-before)))
        (setq skipped (apply #'agent-q-definitions--feature-off-p found)))
      skipped)))

(defun agent-q-definitions-feature-pass-over ()
  "Move over white space, comments and feature expressions."
  (while (progn (forward-comment (point-max))
                (and (looking-at "#[-+]")
                     (let ((end (ignore-errors (scan-sexps (+ 2 (point)) 1))))
                       (and end (goto-char end)))))))

;;;; Lisp definitions by name, for tools

;; Which form of a text defines a name.  Forms that `progn', `eval-when',
;; `let' and the like keep on top level, or wrap definitions in, count too.

(defconst agent-q-definitions--wrappers
  '("progn" "eval-when" "eval-and-compile" "eval-when-compile" "locally" "macrolet"
    "symbol-macrolet" "let" "let*" "flet" "labels" "cl-flet" "cl-labels" "cl-macrolet"
    "with-eval-after-load" "with-compilation-unit")
  "The operators whose subforms may be definitions that count.")

(defconst agent-q-definitions--operator "\\`\\(?:def\\|cl-def\\|test\\'\\)"
  "Regexp for names of operators that define something.")

(defconst agent-q-definitions--most-words 6
  "Number of subforms of a definition that are searched for its name.")

;;;;; Forms

(defun agent-q-definitions-forms (limit)
  "Return the forms from point to LIMIT: lists of start and end."
  (let ((forms nil)
        (end nil))
    (while (progn
             (forward-comment (point-max))
             (and (< (point) limit)
                  (setq end (ignore-errors (scan-sexps (point) 1)))))
      (push (list (point) end) forms)
      (goto-char end))
    (nreverse forms)))

(defun agent-q-definitions--forms-by-column ()
  "Return the forms that start in the first column: lists of start and end.
This is for a text that can't be read as a whole, perhaps because of reader
macros.  A form that isn't closed, or that seems to hold a definition in the
first column, ends before the next one."
  (let ((forms nil))
    (goto-char (point-min))
    (while (re-search-forward "^(" nil t)
      (let* ((start (match-beginning 0))
             (end (ignore-errors (scan-sexps start 1)))
             (next (save-excursion
                     (and (re-search-forward (if end "^(def" "^(") end t)
                          (match-beginning 0)))))
        (when (or next (null end))
          (goto-char (or next (point-max)))
          (forward-comment (- (point)))
          (setq end (max (point) (1+ start))))
        (push (list start end) forms)
        (goto-char end)))
    (nreverse forms)))

(defun agent-q-definitions-top-forms ()
  "Return the top-level forms of the current buffer: lists of start and end."
  (if (agent-q-project-source-problem-here)
      (agent-q-definitions--forms-by-column)
    (goto-char (point-min))
    (agent-q-definitions-forms (point-max))))

(defun agent-q-definitions-subforms (start end)
  "Return the forms in the list between START and END; nil if it is none."
  (save-excursion
    (goto-char start)
    (skip-chars-forward "#'`")
    (when (eq (char-after) ?\()
      (forward-char)
      (agent-q-definitions-forms (1- end)))))

(defun agent-q-definitions-text (form)
  "Return the text of FORM to compare it by."
  (agent-q-definitions--normal
   (buffer-substring-no-properties (car form) (cadr form))))

;;;;; Names

(defun agent-q-definitions--downcase (text)
  "Return TEXT in lower case, but for |odd symbols| and characters such as #\\A."
  (replace-regexp-in-string
   "|[^|]*|\\|#\\\\.[[:alpha:]]*\\|[^|#]+\\|[|#]"
   (lambda (part)
     (if (or (string-prefix-p "|" part)
             (and (string-prefix-p "#\\" part) (= 3 (length part))))
         part
       (downcase part)))
   text t t))

(defun agent-q-definitions--normal (text)
  "Return TEXT in lower case where case doesn't matter, with plain white space."
  (let ((case-fold-search nil))
    ;; A file may have thousands of names, most of them plain.
    (if (string-match-p "\\`[a-z0-9*+/<>=!?%&$^_~.-]+\\'" text) text
      (let ((plain (agent-q-definitions--downcase
                    (replace-regexp-in-string "[ \t\r\n]+" " " (string-trim text)))))
        (dolist (change '(("( " . "(") (" )" . ")")
                          ;; As in "area(square)".
                          ("\\([^ ('`,#\\\\]\\)(" . "\\1 (")))
          (setq plain (replace-regexp-in-string (car change) (cdr change) plain)))
        plain))))

(defun agent-q-definitions-bare (text)
  "Return TEXT without packages, and without the signs before names."
  (if (not (string-match-p "[#':\"]" text)) text
    (let ((bare text))
      (dolist (change '(("\\(\\`\\|[ (]\\)\\(?:#'\\|#?:\\|'\\)\\([^ ()]+\\)\\'" . "\\1\\2")
                        ("\\`\"\\([^\"]+\\)\"\\'" . "\\1")
                        ("\\(\\`\\|[ (']\\)[^] ()\":|'#\\\\]+::?\\([^ ():]\\)" . "\\1\\2")))
        (setq bare (replace-regexp-in-string (car change) (cdr change) bare)))
      bare)))

(defun agent-q-definitions--name (text)
  "Return the name that TEXT, the second subform of a definition, gives it."
  (cond ((string-match "\\`[#':]+\\([^ ()]+\\)\\'" text)
         (match-string 1 text))
        ;; (defstruct (name ...)) is known by its name, (setf name) as it is.
        ((and (string-match "\\`(\\([^ ()]+\\)[ )]" text)
              (not (equal (match-string 1 text) "setf")))
         (match-string 1 text))
        (t text)))

(defun agent-q-definitions--specializers (start end)
  "Return the specializers in the lambda list between START and END, as a text."
  (let ((names nil)
        (stop nil))
    (dolist (parameter (agent-q-definitions-subforms start end))
      (cond ((or stop (setq stop (eq (char-after (car parameter)) ?&))))
            ((eq (char-after (car parameter)) ?\()
             (let ((specializer (cadr (apply #'agent-q-definitions-subforms parameter))))
               (push (if specializer (agent-q-definitions-text specializer) "t") names)))
            (t (push "t" names))))
    (concat "(" (string-join (nreverse names) " ") ")")))

(defun agent-q-definitions-method (name forms)
  "Return the full name of the method NAME.
FORMS are what follows its name: qualifiers, and the lambda list."
  (let ((qualifiers nil))
    (while (and forms (not (eq (char-after (caar forms)) ?\()))
      (push (agent-q-definitions-text (pop forms)) qualifiers))
    (when forms
      (string-join `(,name ,@(nreverse qualifiers)
                           ,(apply #'agent-q-definitions--specializers (car forms)))
                   " "))))

(defun agent-q-definitions--member (forms)
  "Return the third of FORMS if it names a definition in a group, or nil.
That is as in (deftest :group \"name\" ...)."
  (let ((group (char-after (caadr forms)))
        (text (and (cddr forms) (agent-q-definitions-text (nth 2 forms)))))
    (and text
         (or (memq group '(?: ?' ?\"))
             (string-prefix-p "#:" (agent-q-definitions-text (cadr forms))))
         (string-match-p "\\`\\(?:\"\\|[^][():#'`,?;0-9\\\\]\\)" text)
         text)))

(defun agent-q-definitions-names (forms)
  "Return what names the definition of which FORMS are the subforms, or nil.
The last name is the fullest."
  (when (cdr forms)
    (let ((operator (agent-q-definitions-bare (agent-q-definitions-text (car forms)))))
      (when (string-match-p agent-q-definitions--operator operator)
        (let* ((text (agent-q-definitions-text (cadr forms)))
               (name (agent-q-definitions--name text))
               (member (agent-q-definitions--member forms))
               (method (and (string-suffix-p "method" operator)
                            (agent-q-definitions-method
                             name (seq-take (cddr forms) agent-q-definitions--most-words)))))
          (append (list name (concat operator " " name))
                  (when member
                    (list member (concat text " " member) (concat name " " member)
                          (concat operator " " name " " member)))
                  (when method
                    (list method (concat operator " " method)))))))))

;;;;; Finding

(defun agent-q-definitions--all (forms)
  "Return the definitions among FORMS and in them: lists of start, end and names."
  (seq-mapcat
   (pcase-lambda (`(,start ,end))
     (let* ((subforms (agent-q-definitions-subforms start end))
            (names (agent-q-definitions-names subforms)))
       (cond (names (list (list start end names)))
             ((and subforms
                   (member (agent-q-definitions-bare
                            (agent-q-definitions-text (car subforms)))
                           agent-q-definitions--wrappers))
              (agent-q-definitions--all (cdr subforms))))))
   forms))

(defvar agent-q-definitions--last nil
  "The definitions that were found last: a list of a file, its text and those.
An edit looks at a text before it is asked about, and again when it is made.")

(defun agent-q-definitions--of (text file)
  "Return the definitions of TEXT, of FILE, which is in the current buffer."
  (unless (and (equal file (car agent-q-definitions--last))
               (equal text (cadr agent-q-definitions--last)))
    (setq agent-q-definitions--last
          (list file text (agent-q-definitions--all (agent-q-definitions-top-forms)))))
  (nth 2 agent-q-definitions--last))

(defun agent-q-definitions--label (definition)
  "Return the fullest name of DEFINITION with its line."
  (format "%s (line %d)" (car (last (nth 2 definition)))
          (line-number-at-pos (car definition))))

(defun agent-q-definitions--some (definitions)
  "Return the labels of DEFINITIONS, the first ones."
  (if definitions
      (concat (mapconcat #'agent-q-definitions--label (seq-take definitions 30) ", ")
              (if (nthcdr 30 definitions) ", ..." ""))
    "nothing"))

(defun agent-q-definitions--head (wanted)
  "Return the full name in WANTED, such as \"(defun f (x)\", or nil.
That is the head of a definition."
  (with-temp-buffer
    (set-syntax-table lisp-mode-syntax-table)
    (insert (if (string-prefix-p "(" wanted) wanted (concat "(" wanted)))
    (insert (make-string (max 0 (car (syntax-ppss))) ?\)))
    (when (equal (ignore-errors (scan-sexps (point-min) 1)) (point-max))
      (car (last (agent-q-definitions-names
                  (agent-q-definitions-subforms (point-min) (point-max))))))))

(defun agent-q-definitions--matching (wanted definitions)
  "Return those of DEFINITIONS that WANTED names, as closely as it can be taken."
  (if (string-match "\\`\\(.*[^ ]\\) (line \\([0-9]+\\))\\'" wanted)
      (let ((name (match-string 1 wanted))
            (line (string-to-number (match-string 2 wanted)))
          (found nil))
        (setq found (agent-q-definitions--matching name definitions))
        ;; The line may be that of an earlier text.
        (or (seq-filter (lambda (definition)
                          (= line (line-number-at-pos (car definition))))
                        found)
            found))
    (let ((head (agent-q-definitions--head wanted)))
      (or (seq-some
           (lambda (try)
             (pcase-let ((`(,name . ,change) try))
               (and name
                    (seq-filter (lambda (definition)
                                  (member (funcall change name)
                                          (mapcar change (nth 2 definition))))
                                definitions))))
           `((,wanted . identity) (,wanted . agent-q-definitions-bare)
             (,head . identity) (,head . agent-q-definitions-bare)))
          (agent-q-definitions--described wanted definitions)))))

(defun agent-q-definitions--described (wanted definitions)
  "Return each test of DEFINITIONS whose third part is WANTED, a string."
  (seq-filter
   (pcase-lambda (`(,start ,end (,_ ,full . ,_)))
     (and (string-match-p "\\`[^ ]*test" full)
          (let ((part (nth 2 (agent-q-definitions-subforms start end))))
            (and part
                 (eq ?\" (char-after (car part)))
                 (equal (agent-q-definitions-bare (agent-q-definitions-text part))
                        (agent-q-definitions-bare wanted))))))
   definitions))

(defun agent-q-definitions--starting (wanted definitions)
  "Return those of DEFINITIONS with the text WANTED at their head, or all."
  (let ((start (concat (unless (string-prefix-p "(" wanted) "(") (string-remove-suffix ")" wanted))))
    (or (seq-filter (lambda (definition)
                      (let ((text (agent-q-definitions-text definition)))
                        (and (string-prefix-p start text)
                             (string-match-p "\\`\\(?:\\'\\|[] ()\"]\\)"
                                             (substring text (length start))))))
                    definitions)
        definitions)))

(defun agent-q-definitions--read (definitions)
  "Return those of DEFINITIONS that the image's reader doesn't pass over, or all."
  (or (seq-remove (lambda (definition) (agent-q-definitions-feature-skipped-p (car definition)))
                  definitions)
      definitions))

(defun agent-q-definitions--package (position)
  "Return the package that is in force at POSITION, in lower case, or nil."
  (save-excursion
    (goto-char position)
    (let ((found nil))
      (while (and (not found)
                  (re-search-backward "^(\\(?:[^ ()]*:\\)?in-package[ \t\n]+[#:'\"|]*\\([^] \t\n()\"|]+\\)"
                                      nil t))
        (let ((name (downcase (match-string-no-properties 1))))
          (unless (or (nth 8 (save-excursion (syntax-ppss)))
                      (agent-q-definitions-feature-skipped-p (point)))
            (setq found name))))
      found)))

(defun agent-q-definitions--in-package (name definitions)
  "Return those of DEFINITIONS in the package that NAME has before it, or all."
  (or (and (string-match "\\`(?\\(?:def[^ ]* \\)?(?\\(?:setf \\)?\\(?:#'\\)?\\([^] ()\":|'#]+\\)::?[^ ():]"
                         name)
           (let ((package (match-string 1 name)))
             (seq-filter (lambda (definition)
                           (equal package (agent-q-definitions--package (car definition))))
                         definitions)))
      definitions))

(defun agent-q-definitions--inner-methods (definition)
  "Return the names of the methods that are written inside DEFINITION.
They are (:method ...) in a form that makes a generic function."
  (pcase-let ((`(,start ,end ,names) definition))
    (when (string-prefix-p "defgeneric " (or (cadr names) ""))
      (delq nil
            (mapcar (lambda (subform)
                      (let ((parts (apply #'agent-q-definitions-subforms subform)))
                        (and parts
                             (equal (agent-q-definitions-text (car parts)) ":method")
                             (agent-q-definitions-method (car names) (cdr parts)))))
                    (agent-q-definitions-subforms start end))))))

(defun agent-q-definitions--with-method (wanted all)
  "Return the one of ALL inside which the method WANTED is written, or nil."
  (let ((bare (agent-q-definitions-bare (string-remove-prefix "defmethod " wanted))))
    (seq-find (lambda (definition)
                (member bare (mapcar #'agent-q-definitions-bare
                                     (agent-q-definitions--inner-methods definition))))
              all)))

(defun agent-q-definitions--one (name all)
  "Return the one of ALL, the definitions of the current buffer, that NAME names."
  (let* ((wanted (agent-q-definitions--normal name))
         (found (agent-q-definitions--matching wanted all))
         (found (if (cdr found) (agent-q-definitions--read found) found))
         (found (if (cdr found) (agent-q-definitions--in-package wanted found) found))
         (found (if (cdr found) (agent-q-definitions--starting wanted found) found)))
    (cond ((null found)
           (if-let* ((generic (agent-q-definitions--with-method wanted all)))
               (error "%s is a method inside %s: edit that form" name
                      (agent-q-definitions--label generic))
             (error "Nothing in the file defines %s.  It defines: %s" name
                    (agent-q-definitions--some all))))
          ((cdr found)
           (error "%d forms define %s: %s.  Name the one you mean like that"
                  (length found) name (agent-q-definitions--some found)))
          (t (car found)))))

(defun agent-q-definitions-find (text name &optional file)
  "Return start and end, in characters, of the definition of NAME in TEXT.
FILE is the name of the file that TEXT is of."
  (agent-q-project-source-with-text text file
    (pcase-let ((`(,start ,end . ,_)
                 (agent-q-definitions--one name (agent-q-definitions--of text file))))
      (list (1- start) (1- end)))))

;;;;; New ones

(defun agent-q-definitions--stray-bracket ()
  "Return the place of a bracket that closes nothing, so that it is in a symbol."
  (goto-char (point-min))
  (let ((open nil)
        (found nil))
    (while (and (not found)
                (not (eq (char-syntax ?\[) ?\())
                (re-search-forward "[][{}]" nil t))
      (let ((state (save-excursion (syntax-ppss (1- (point))))))
        (unless (or (nth 8 state) (nth 5 state))
          (pcase (char-before)
            (?\[ (push ?\] open))
            (?{ (push ?} open))
            (closing (if (eq closing (car open))
                         (pop open)
                       (setq found (1- (point)))))))))
    found))

(defun agent-q-definitions--new ()
  "Return the definitions in the current buffer, a text to put into a file.
Signal an error where it isn't made of forms.  Where it isn't balanced,
return t: that is told of the whole file."
  (if (agent-q-project-source-problem-here)
      t
    (goto-char (point-min))
    (let* ((forms (agent-q-definitions-forms (point-max)))
           ;; Reader macros and annotations may stand before a form.
           (stray (seq-find (lambda (form) (not (memq (char-after (car form)) '(?\( ?# ?@))))
                            forms))
           (bracket (agent-q-definitions--stray-bracket)))
      (cond ((null forms)
             (error "The new text has no form in it.  Nothing was changed"))
            (stray
             (error "The new text has code outside of parentheses (%s); send whole definitions.  Nothing was changed"
                    (agent-q-project-source-line (car stray))))
            (bracket
             (error "The %c at %s of the new text closes nothing: Lisp reads it as part of a symbol.  Nothing was changed"
                    (char-after bracket) (agent-q-project-source-place bracket))))
      (agent-q-definitions--all forms))))

(defun agent-q-definitions--shifted (column)
  "Return the text of the current buffer as it stands at COLUMN, or nil.
That is if its lines after the first are written for the first column."
  (let ((lines nil)
        (least most-positive-fixnum))
    (goto-char (point-min))
    (while (and (zerop (forward-line 1)) (not (eobp)))
      (unless (or (looking-at "[ \t]*$")
                  (nth 8 (save-excursion (syntax-ppss (point)))))
        (setq least (min least (current-indentation)))
        (push (point) lines)))
    (when (and lines (< 0 column) (<= least column))
      (dolist (line lines)
        (goto-char line)
        (insert (make-string column ?\s)))
      (string-trim (buffer-string)))))

(defun agent-q-definitions--column (definition)
  "Return the column of DEFINITION, or zero without one."
  (save-excursion
    (goto-char (if definition (car definition) (point-min)))
    (current-column)))

(defun agent-q-definitions--fullest (definition)
  "Return the fullest name of DEFINITION."
  (car (last (nth 2 definition))))

(defun agent-q-definitions--remark (new old others)
  "Return what to say of NEW definitions that replace OLD, if any, or :null.
OTHERS are those of the file, in the current buffer, that stay."
  (let* ((names (and (consp new) (mapcar #'agent-q-definitions--fullest new)))
         (bare (mapcar #'agent-q-definitions-bare names))
         (named (lambda (definition)
                  (member (agent-q-definitions-bare (agent-q-definitions--fullest definition))
                          bare)))
         (twin (seq-find named others)))
    (or (cond ((null new) "It has no definition in it.")
              ((and old names (not (funcall named old)))
               (format "It was %s; now it is %s." (agent-q-definitions--fullest old)
                       (string-join names ", ")))
              (twin
               (format "The file already had a definition of that name, which is still there: %s."
                       (agent-q-definitions--label twin))))
        :null)))

(agent-q-events-operation-define "place-definition" (call text name file source)
  "Return where in TEXT, of FILE, the form that defines NAME, if any, is.
SOURCE, if any, is to take its place, or to be inserted; the answer says
whether it ends in a comment, and what there is to say of either."
  (agent-q-project-source-with-text text file
    (let* ((all (agent-q-definitions--of text file))
           (found (and name (agent-q-definitions--one name all)))
           (column (agent-q-definitions--column found))
           (comment nil)
           (shifted nil)
           (new (agent-q-project-source-with-text (or source "()") file
                  (setq comment (eq t (nth 4 (parse-partial-sexp (point-min) (point-max)))))
                  (prog1 (agent-q-definitions--new)
                    (setq shifted (agent-q-definitions--shifted column))))))
      (agent-q-json-serialize
       `((start . ,(if found (1- (car found)) :null))
         (end . ,(if found (1- (cadr found)) :null))
         (column . ,column)
         (source . ,(or shifted :null))
         (comment . ,(if comment t :false))
         (nothing . ,(if new :false t))
         (replacing . ,(agent-q-definitions--remark new found (remq found all)))
         (inserting . ,(agent-q-definitions--remark new nil all)))))))

(defun agent-q-definitions-in (form)
  "Return the short names of the definitions in FORM, a start and an end."
  (mapcar (lambda (definition) (car (nth 2 definition)))
          (agent-q-definitions--all (list form))))

(defun agent-q-definitions-changed (before after file)
  "Return the labels of the definitions in AFTER, of FILE, that BEFORE has not.
Those in one top-level form are compiled together, so one stands for all."
  (let ((old (make-hash-table :test #'equal))
        (changed nil))
    (agent-q-project-source-with-text before file
      (dolist (form (agent-q-definitions-top-forms))
        (puthash (apply #'buffer-substring-no-properties form) t old)))
    (agent-q-project-source-with-text after file
      (pcase-dolist (`(,top ,top-end) (agent-q-definitions-top-forms))
        (unless (gethash (buffer-substring-no-properties top top-end) old)
          (when-let ((definition (car (agent-q-definitions--all `((,top ,top-end))))))
            (push (agent-q-definitions--label definition) changed))))
      (vconcat (nreverse changed)))))

(agent-q-events-operation-define "changed-definitions" (call before after file)
  "Return the labels of the definitions in AFTER, of FILE, that BEFORE has not."
  (agent-q-json-serialize (agent-q-definitions-changed before after file)))

;;;; Definitions of files to compile

;; What has to be sent to an image so that it compiles one definition of a file
;; as if it compiled the file: the top-level form, behind the forms that say in
;; which package and with which readtable it is read.

(defconst agent-q-definitions--compile-readtable
  (concat "\\`(\\(?:"
          "[^ ()]*in-readtable[ )]"
          "\\|[^ ()]*\\_<\\(?:enable\\|disable\\)-[^ ()]*\\(?:syntax\\|readtable\\)[^ ()]*[ )]"
          "\\|\\(?:[^ ()]*:\\)?set[fq] [^ ()]*\\*readtable\\*"
          "\\|\\(?:[^ ()]*:\\)?eval-when ([^()]*) ([^()]*\\(?:readtable\\|-syntax\\)\\)")
  "What the beginning of a form looks like that changes how text is read.")

(defun agent-q-definitions--compile-top (forms position)
  "Return the one of FORMS, lists of start and end, around POSITION."
  (seq-find (pcase-lambda (`(,start ,end)) (and (<= start position) (< position end)))
            forms))

(defun agent-q-definitions--compile-conditional (start)
  "Return where the feature expressions before START begin, or START."
  (save-excursion
    (goto-char start)
    (while (looking-back "#[-+]\\(?:([^()]*)\\|[^] \t\n()#;\"']+\\)[ \t\n]*"
                         (max (point-min) (- (point) 200)))
      (goto-char (match-beginning 0)))
    (point)))

(defun agent-q-definitions--compile-read (forms)
  "Return those of FORMS that the image's reader takes.
Those in `eval-when' and `progn' are in the place of these."
  (seq-mapcat
   (pcase-lambda (`(,start ,end))
     (let* ((text (agent-q-definitions-text (list start end)))
            (subforms (and (string-match-p "\\`(\\(?:[^ ()]*:\\)?\\(?:eval-when\\|progn\\) " text)
                           (not (string-match-p agent-q-definitions--compile-readtable text))
                           (string-search "in-package " text)
                           (agent-q-definitions-subforms start end))))
       (cond ((agent-q-definitions-feature-skipped-p start) nil)
             ((null subforms) (list (list start end)))
             ((not (string-match-p "eval-when" (agent-q-definitions-text (car subforms))))
              (agent-q-definitions--compile-read (cdr subforms)))
             ;; What is done when the file is loaded is too late for the reader.
             ((string-match-p "compile" (agent-q-definitions-text (cadr subforms)))
              (agent-q-definitions--compile-read (cddr subforms))))))
   forms))

(defun agent-q-definitions--compile-prelude (forms end)
  "Return the texts of those of FORMS before END that say how what follows is read."
  (let ((package nil)
        (others nil))
    (pcase-dolist (`(,start ,stop) (agent-q-definitions--compile-read forms))
      (when (<= stop end)
        (let ((text (agent-q-definitions-text (list start stop)))
              (source (buffer-substring-no-properties start stop)))
          (cond ((string-match-p "\\`(\\(?:[^ ()]*:\\)?in-package " text)
                 (setq package source)
                 (push nil others))
                ((string-match-p agent-q-definitions--compile-readtable text)
                 ;; It is read in the package of its place.
                 (push (if package (concat package "\n" source) source) others))))))
    (append (remq nil (nreverse others))
            (and package (list package)))))

(defun agent-q-definitions--compile-called (from start end)
  "Return what to call the form between START and END around FROM, or nil.
That is if it is more than the definition at FROM."
  (unless (= from start)
    (let ((operator (car (agent-q-definitions-subforms start end)))
          (first (line-number-at-pos start))
          (last (line-number-at-pos end)))
      (format "%s (%s: %s)" (agent-q-definitions-text operator)
              (if (= first last) (format "line %d" first)
                (format "lines %d-%d" first last))
              (string-join (agent-q-definitions-in (list start end)) ", ")))))

(defun agent-q-definitions--compile-unit (name definitions forms)
  "Return what to compile for the one of DEFINITIONS that NAME names.
It is a list of start and end of its form, one of FORMS, of what says how
that is read, and of what to call it."
  (pcase-let* ((`(,from . ,_) (agent-q-definitions--one name definitions))
               (`(,start ,end) (agent-q-definitions--compile-top forms from))
               (called (agent-q-definitions--compile-called from start end))
               (start (agent-q-definitions--compile-conditional start)))
    (list start end
          (mapconcat (lambda (text) (concat text "\n"))
                     (agent-q-definitions--compile-prelude forms start) "")
          (or called name))))

(defun agent-q-definitions-compile-units (text names file)
  "Return what to compile for the definitions of NAMES in TEXT, of FILE.
It is a list of the text, of its pieces with start, end, line and position
in TEXT, in its order, and of what to call them."
  (agent-q-project-source-with-text text file
    (let* ((definitions (agent-q-definitions--of text file))
           (forms (agent-q-definitions-top-forms))
           (units (mapcar (lambda (name)
                            (agent-q-definitions--compile-unit name definitions forms))
                          names))
           (before nil)
           (whole "")
           (pieces nil))
      (setq units (sort (seq-uniq units (lambda (one other) (= (car one) (car other))))
                        (lambda (one other) (< (car one) (car other)))))
      (pcase-dolist (`(,start ,end ,prelude ,_) units)
        (unless (equal prelude before)
          (setq whole (concat whole prelude)))
        (push `((start . ,(length whole)) (end . ,(+ (length whole) (- end start)))
                (line . ,(line-number-at-pos start)) (position . ,start))
              pieces)
        (setq whole (concat whole (buffer-substring-no-properties start end) "\n")
              before prelude))
      (list whole (nreverse pieces)
            (mapconcat (lambda (unit) (nth 3 unit)) units ", ")))))

(defun agent-q-definitions--compile-file-of-image (call path)
  "Return the name of the file PATH in the image of CALL."
  (let ((connection (agent-q-events-operation-call-connection call)))
    (if connection
        (agent-q-connection-ask connection :to-lisp path)
      (error "No Lisp image is connected"))))

(agent-q-events-operation-define "definitions-to-compile" (call text name file path)
  "Return what to compile for the definitions of NAME in TEXT, of FILE at PATH.
NAME has each on a line."
  (pcase-let ((`(,form ,pieces ,called)
               (let ((agent-q-definitions-feature-list
                      (agent-q-connection-features (agent-q-events-operation-call-connection call))))
                 (agent-q-definitions-compile-units text (split-string name "\n" t "[ \t]+") file)))
              (buffer (find-buffer-visiting path)))
    (agent-q-json-serialize
     `((form . ,form) (pieces . ,(vconcat pieces))
       (called . ,(if (equal called name) :null called))
       (buffer . ,(if buffer (agent-q-text-clean (buffer-name buffer)) :null))
       (file . ,(agent-q-definitions--compile-file-of-image call path))))))

(defconst agent-q-definitions--known-names 12
  "How many names of a file tell whether the image has it.")

(agent-q-events-operation-define "file-in-image" (call text file path)
  "Return what to ask the image to know if it has FILE at PATH, which was TEXT.
It is a property list, as text."
  (let ((asked (agent-q-project-source-with-text text file
                 (let ((definitions (seq-take (agent-q-definitions--of text file)
                                              agent-q-definitions--known-names)))
                   (list :package (and definitions
                                       (agent-q-definitions--package (caar (last definitions))))
                         :names (mapcar (lambda (definition)
                                          (agent-q-definitions--bare-symbol (car (nth 2 definition))))
                                        definitions))))))
    (agent-q-json-serialize
     (prin1-to-string
      (append (list :file (agent-q-definitions--compile-file-of-image call path)) asked)))))

(defun agent-q-definitions--bare-symbol (name)
  "Return the symbol in NAME, such as area of (setf area) or area :around (square)."
  (if (string-match "\\`(setf \\([^ ()]+\\)" name) (match-string 1 name)
    (car (split-string name " "))))

(agent-q-events-operation-define "file-of-image" (call path)
  "Return what the image calls the file PATH."
  (agent-q-json-serialize (agent-q-definitions--compile-file-of-image call path)))

(provide 'agent-q-definitions)
;;; agent-q-definitions.el ends here
