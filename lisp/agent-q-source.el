;;; agent-q-source.el --- Lisp source as text, for tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Whether a text can be read as Lisp, where it can't, and which top-level form
;; defines a name.  Emacs's syntax tables know strings, comments, characters
;; and |odd symbols|; nothing here is ever evaluated.

;;; Code:

(require 'agent-q)
(require 'agent-q-edit)
(require 'agent-q-operations)
(require 'cl-lib)
(require 'lisp-mode)
(require 'seq)
(require 'subr-x)

;;;; Syntax

(defmacro agent-q-source--with-text (text name &rest body)
  "Run BODY in a buffer with TEXT, the code of a file called NAME."
  (declare (indent 2) (debug t))
  `(with-temp-buffer
     (insert ,text)
     (agent-q-source--set-syntax ,name)
     (setq-local parse-sexp-ignore-comments t)
     (goto-char (point-min))
     ,@body))

(defun agent-q-source--set-syntax (name)
  "Give the current buffer the syntax of the file NAME."
  (cond ((and name (string-match-p "\\.el\\'" name))
         (set-syntax-table emacs-lisp-mode-syntax-table))
        ((and name (string-match-p "\\.scm\\'" name))
         ;; A comment that starts with #; ends with the form behind it.
         (delay-mode-hooks (scheme-mode))
         (setq-local parse-sexp-lookup-properties t)
         (syntax-propertize (point-max)))
        (t (set-syntax-table lisp-mode-syntax-table))))

;;;; Balance

(defun agent-q-source--place (position)
  "Return POSITION as words."
  (save-excursion
    (goto-char position)
    (format "line %d, column %d" (line-number-at-pos) (1+ (current-column)))))

(defun agent-q-source--line (position)
  "Return the text of the line at POSITION, shortened."
  (save-excursion
    (goto-char position)
    (truncate-string-to-width
     (string-trim (buffer-substring-no-properties (line-beginning-position)
                                                  (line-end-position)))
     60 nil nil "...")))

(defun agent-q-source--open-problem (state)
  "Return what is left open at the end, of which STATE is the parse state."
  (cond ((nth 3 state)
         (format "the string or |symbol| that starts at %s is not closed."
                 (agent-q-source--place (nth 8 state))))
        ((numberp (nth 4 state))
         (format "the comment that starts at %s (%s) is not closed."
                 (agent-q-source--place (nth 8 state))
                 (agent-q-source--line (nth 8 state))))
        ((nth 9 state)
         (agent-q-source--unclosed state))))

(defun agent-q-source--unclosed (state)
  "Return a sentence about the parentheses that STATE has open."
  (let* ((opens (nth 9 state))
         (outer (car opens))
         (suspect (agent-q-source--suspect outer)))
    (format "%d closing %s missing; the form that opens at %s (%s) is never closed%s."
            (length opens)
            (if (cdr opens) "parentheses are" "parenthesis is")
            (agent-q-source--place outer)
            (agent-q-source--line outer)
            (if suspect
                (format "; a new form seems to start at %s (%s)"
                        (agent-q-source--place suspect)
                        (agent-q-source--line suspect))
              ""))))

(defun agent-q-source--suspect (outer)
  "Return the first place inside the form at OUTER with `(' in the first column."
  (save-excursion
    (goto-char outer)
    (forward-line 1)
    (let ((found nil))
      (while (and (not found) (re-search-forward "^(" nil t))
        (unless (nth 8 (save-excursion (syntax-ppss (match-beginning 0))))
          (setq found (match-beginning 0))))
      found)))

(defun agent-q-source--problem ()
  "Return why the current buffer can't be read, as a sentence, or nil."
  (let ((state nil)
        (place (point-min))
        (problem nil))
    (condition-case failure
        (while (not (or problem (>= place (point-max))))
          ;; Stops where the depth falls below nothing.
          (setq state (parse-partial-sexp place (point-max) -1 nil state)
                place (point))
          (when (< (car state) 0)
            (setq problem (agent-q-source--extra (1- place)))))
      (error (setq problem (error-message-string failure))))
    (or problem
        (agent-q-source--mismatch)
        (agent-q-source--open-problem state))))

(defun agent-q-source--extra (place)
  "Return a sentence about the closing parenthesis at PLACE that closes nothing."
  (format "the closing parenthesis at %s (%s) has no opener."
          (agent-q-source--place place) (agent-q-source--line place)))

(defun agent-q-source--mismatch ()
  "Return a sentence about an opener that is closed by another kind, or nil."
  (goto-char (point-min))
  (let ((found nil))
    ;; In Common Lisp there is only one kind.
    (while (and (not found)
                (eq (char-syntax ?\[) ?\()
                (re-search-forward "[])}]" nil t))
      (let* ((close (1- (point)))
             (state (save-excursion (syntax-ppss close)))
             (open (nth 1 state)))
        (when (and open (not (nth 8 state))
                   (eq (syntax-class (syntax-after close)) 5)
                   (not (eq (cdr (syntax-after open))
                            (char-after close))))
          (setq found (format "the `%c' at %s closes the `%c' at %s."
                              (char-after close) (agent-q-source--place close)
                              (char-after open) (agent-q-source--place open))))))
    found))

(defun agent-q-source-problem (text &optional name)
  "Return why TEXT, of the file NAME, can't be read, or nil."
  (agent-q-source--with-text text name
    (agent-q-source--problem)))

(agent-q-operations-define "check-source" (call text name)
  "Tell what keeps TEXT, of the file NAME, from being read as Lisp, or null."
  (let ((problem (agent-q-source-problem text name)))
    (if problem
        (json-encode-string problem)
      "null")))

;;;; Definitions

(defun agent-q-source--forms ()
  "Return the top-level forms of the current buffer: lists of start and end."
  (let ((forms nil)
        (end nil))
    (goto-char (point-min))
    (while (progn
             (forward-comment (point-max))
             (and (not (eobp))
                  (setq end (ignore-errors (scan-sexps (point) 1)))))
      (push (list (point) end) forms)
      (goto-char end))
    (nreverse forms)))

(defun agent-q-source--words (start end)
  "Return the first subforms of the form between START and END, as texts.
Nil if it is no list."
  (save-excursion
    (goto-char start)
    (skip-chars-forward "#'`+-")
    (when (eq (char-after) ?\()
      (down-list)
      (let ((words nil)
            (stop nil))
        (while (and (not stop) (< (length words) 5))
          (forward-comment (point-max))
          (let ((next (and (< (point) end)
                           (ignore-errors (scan-sexps (point) 1)))))
            (if (null next)
                (setq stop t)
              (push (agent-q-source--normal
                     (buffer-substring-no-properties (point) next))
                    words)
              (goto-char next))))
        (nreverse words)))))

(defun agent-q-source--normal (text)
  "Return TEXT with plain white space and in lower case, to compare it."
  (downcase (replace-regexp-in-string "[ \t\r\n]+" " " text)))

(defun agent-q-source--bare (text)
  "Return the symbol name in TEXT without package, quote or `#:'."
  (if (string-match "\\`[#':]*\\(?:[^ ()\":|]+::?\\)?\\([^ ():]+\\)\\'" text)
      (match-string 1 text)
    (if (string-match "\\`(\\([^ ()]+\\)[ )]" text)
        ;; (defstruct (name ...)) is known by its name, (setf name) as it is.
        (if (equal (match-string 1 text) "setf") text (match-string 1 text))
      text)))

(defun agent-q-source--specializers (lambda-list)
  "Return the specializers in LAMBDA-LIST, a text, as a text."
  (let ((names nil)
        (form (ignore-errors (car (read-from-string
                                   (replace-regexp-in-string
                                    "#'\\|#:\\|#" "" lambda-list))))))
    (while (and (consp form)
                (not (and (symbolp (car form))
                          (string-prefix-p "&" (symbol-name (car form))))))
      (let ((parameter (pop form)))
        (push (if (consp parameter) (format "%s" (cadr parameter)) "t") names)))
    (concat "(" (string-join (nreverse names) " ") ")")))

(defun agent-q-source--names (words)
  "Return the texts that name the definition of which WORDS are the first forms."
  (pcase words
    (`(,(and operator (pred (string-match-p "\\`\\(?:[^ ()]+:\\)?\\(?:def\\|cl-def\\|define-\\)")))
       ,name . ,rest)
     (let* ((bare (agent-q-source--bare name))
            (method (and (string-match-p "method\\'" operator)
                         (agent-q-source--method bare rest))))
       (append (list bare (concat operator " " bare))
               (when method
                 (list method (concat operator " " method))))))))

(defun agent-q-source--method (name rest)
  "Return the full name of the method NAME.
REST are its qualifiers and its lambda list."
  (let ((qualifiers nil))
    (while (and rest (not (string-prefix-p "(" (car rest))))
      (push (pop rest) qualifiers))
    (when rest
      (string-join `(,name ,@(nreverse qualifiers)
                           ,(agent-q-source--specializers (car rest)))
                   " "))))

(defun agent-q-source--definitions ()
  "Return the definitions of the current buffer: lists of start, end and names."
  (delq nil
        (mapcar (lambda (form)
                  (let ((names (agent-q-source--names
                                (agent-q-source--words (car form) (cadr form)))))
                    (and names (append form (list names)))))
                (agent-q-source--forms))))

(defun agent-q-source--label (definition)
  "Return the fullest name of DEFINITION with its line."
  (format "%s (line %d)" (car (last (nth 2 definition)))
          (line-number-at-pos (car definition))))

(defun agent-q-source-find (text name)
  "Return start and end, in characters, of the definition of NAME in TEXT."
  (agent-q-source--with-text text nil
    (let* ((problem (agent-q-source--problem))
           (wanted (agent-q-source--normal (string-trim name)))
           (all (agent-q-source--definitions))
           (found (cl-remove-if-not
                   (lambda (definition)
                     (or (member wanted (nth 2 definition))
                         (member (agent-q-source--bare wanted) (nth 2 definition))))
                   all)))
      (when problem
        (error "The file can't be edited by definition, because %s" problem))
      (pcase found
        (`((,start ,end . ,_)) (list (1- start) (1- end)))
        ('nil (error "Nothing in the file defines %s.  It defines: %s" name
                     (agent-q-source--some all)))
        (_ (error "%d forms define %s: %s.  Name the one you mean like that"
                  (length found) name (agent-q-source--some found)))))))

(defun agent-q-source--some (definitions)
  "Return the labels of DEFINITIONS, the first ones."
  (if definitions
      (concat (mapconcat #'agent-q-source--label (seq-take definitions 30) ", ")
              (if (nthcdr 30 definitions) ", ..." ""))
    "nothing"))

(agent-q-operations-define "find-definition" (call text name)
  "Tell where in TEXT the form is that defines NAME."
  (pcase-let ((`(,start ,end) (agent-q-source-find text name)))
    (agent-q-edit-json `((start . ,start) (end . ,end)))))

(provide 'agent-q-source)
;;; agent-q-source.el ends here
