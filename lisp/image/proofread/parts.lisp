;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; A reader that makes parts, with their places in the text, instead of objects. It knows the
;;; standard syntax; where the program has changed that, reading ends.

(cl:in-package "AGENT-Q-IMAGE")

(defun peek ()
  "The next character, or NIL at the end."
  (let ((text (proof-text *proof*)) (position (proof-position *proof*)))
    (and (< position (length text)) (char text position))))

(defun stop-reading (&optional unclosed start)
  "Give up the form: what follows can't be read. UNCLOSED says what began at START and isn't closed."
  (when (and unclosed (null (proof-unclosed *proof*)))
    (setf (proof-unclosed *proof*) (list unclosed start)))
  (throw 'form-read nil))

(defun skip-blanks ()
  (let ((next (skip-to-form (proof-text *proof*) (proof-position *proof*))))
    (setf (proof-position *proof*) (or next (length (proof-text *proof*))))))

(defun read-part ()
  "The next part; NIL at the end of the text or before a closing parenthesis."
  (loop
    (skip-blanks)
    (let* ((start (proof-position *proof*)) (character (peek)))
      (when (or (null character) (char= character #\))) (return nil))
      (let ((part (read-part-at start character)))
        ;; A part that a feature expression excludes doesn't count.
        (when part (return part))))))

(defun read-part-at (start character)
  (flet ((next () (incf (proof-position *proof*))))
    (cond ((strange-character-p character) (stop-reading))
          ((char= character #\() (next) (read-list start))
          ((char= character #\") (next) (read-string start))
          ((char= character #\') (next) (read-prefixed :quote start))
          ((char= character #\`) (next) (read-prefixed :quote start))
          ((char= character #\,)
           (next)
           (when (and (peek) (find (peek) "@.")) (next))
           (read-prefixed :unclear start))
          ((char= character #\#) (next) (read-dispatched start))
          (t (read-token start)))))

(defun strange-character-p (character)
  "Whether the program gave CHARACTER a meaning of its own."
  (and (not (find character "()\"'`,;#"))
       (or (get-macro-character character)
           (and (proof-other-reader *proof*) (find character "{}[]")))))

(defun read-deeper (function)
  (when (> (incf (proof-depth *proof*)) *deepest*) (stop-reading))
  (prog1 (funcall function)
    (decf (proof-depth *proof*))))

(defun read-list (start)
  "The list whose parenthesis is at START. If it isn't closed, it has the parts that are there."
  (read-deeper
   (lambda ()
     (let ((parts (loop for part = (read-part)
                        while part collect part)))
       (if (peek)
           (incf (proof-position *proof*))
           ;; The outermost list is the last to notice that its end is missing.
           (setf (proof-unclosed *proof*) (list :list start)))
       (make-part :list start (proof-position *proof*) parts)))))

(defun read-string (start)
  (let ((text (proof-text *proof*)))
    (loop for position from (proof-position *proof*) below (length text)
          do (case (char text position)
               (#\\ (incf position))
               (#\" (setf (proof-position *proof*) (1+ position))
                (return (make-part :data start (1+ position)
                                   (subseq text (1+ start) position)))))
          finally (setf (proof-position *proof*) (length text))
                  (stop-reading :string start))))

(defun read-prefixed (kind start)
  (let ((inner (read-deeper #'read-part)))
    (make-part kind start (proof-position *proof*) inner)))

(defun read-dispatched (start)
  "What follows a sharp sign, which has been read."
  (loop while (and (peek) (digit-char-p (peek))) do (incf (proof-position *proof*)))
  (let ((character (or (peek) (stop-reading))))
    (flet ((next () (incf (proof-position *proof*)))
           (data () (make-part :data start (proof-position *proof*))))
      (case (char-downcase character)
        (#\' (next) (read-prefixed :function start))
        (#\( (next) (read-list start) (data))
        (#\\ (next)
         (unless (peek) (stop-reading))
         (next)
         (skip-token)
         (data))
        ((#\+ #\-) (next) (read-conditional (char= character #\+)))
        (#\: (next)
         (let ((name (token-name (remove :colon (scan-token (skip-token))))))
           (make-part :data start (proof-position *proof*) name)))
        ((#\b #\o #\x #\r #\*) (skip-token) (data))
        ((#\s #\p #\a #\c) (next) (read-prefixed :data start) (data))
        ;; The form after #. is not looked at: it runs while it is read.
        (#\. (next) (read-prefixed :unclear start))
        (#\= (next) (read-part))
        (#\# (next) (make-part :unclear start (proof-position *proof*)))
        (t (stop-reading))))))

(defun read-conditional (wanted)
  "The part after a feature expression, or NIL if this Lisp skips it."
  (let* ((condition (read-deeper #'read-part))
         (mistakes (proof-mistakes *proof*))
         (part (read-deeper #'read-part))
         (holds (and condition (feature-holds-p condition))))
    (if (eq (and holds t) wanted)
        part
        ;; It may well name packages that don't exist here.
        (progn (setf (proof-mistakes *proof*) mistakes)
               nil))))

(defun feature-holds-p (part)
  (case (part-kind part)
    ((:name :keyword) (member (part-value part) *features* :test #'string=))
    (:list (let ((operator (first (part-value part))) (rest (rest (part-value part))))
             (cond ((part-named-p operator "AND") (every #'feature-holds-p rest))
                   ((part-named-p operator "OR") (some #'feature-holds-p rest))
                   ((part-named-p operator "NOT") (notany #'feature-holds-p rest)))))))

;;; Tokens

(defun skip-token ()
  "Move to the end of the token, and return its text."
  (let* ((text (proof-text *proof*)) (start (proof-position *proof*)) (bars nil)
         (end (loop for position from start below (length text)
                    for character = (char text position)
                    do (cond ((char= character #\\) (incf position))
                             ((char= character #\|) (setf bars (not bars)))
                             (bars)
                             ((or (find character "()\"';`,") (member character *blanks*))
                              (return position)))
                    finally (return (length text)))))
    (setf (proof-position *proof*) end)
    (subseq text start end)))

(defun number-text-p (text)
  "Whether TEXT is a number, as far as it matters here."
  (and (some #'digit-char-p text)
       (every (lambda (it) (find it "0123456789+-./eEdDfFsSlL")) text)
       (find (char text 0) "0123456789+-.")
       (not (find (char text (1- (length text))) "+-"))))

(defun read-token (start)
  (let* ((text (skip-token)) (end (proof-position *proof*)))
    (when (= start end) (stop-reading))
    (cond ((string= text ".") (make-part :dot start end))
          ((or (every (lambda (it) (char= it #\.)) text)
               (find (code-char #x2026) text)
               (search "..." text))
           (make-part :ellipsis start end))
          ((number-text-p text) (make-part :data start end))
          (t (let ((characters (scan-token text)))
               (if characters
                   (name-part characters start end)
                   (make-part :unclear start end)))))))

(defun name-part (characters start end)
  "The part for the token CHARACTERS, as SCAN-TOKEN gives them."
  (multiple-value-bind (prefix rest) (split-token characters)
    (let ((internal (and prefix (not (eq prefix :keyword))
                         (eq (nth (1+ (length prefix)) characters) :colon))))
      (cond ((or (member :colon rest) (and prefix (null rest)))
             (make-part :unclear start end))
            ((eq prefix :keyword) (make-part :keyword start end (token-name rest)))
            (t (resolve-name (make-part :name start end (token-name rest))
                             (and prefix (token-name prefix))
                             internal))))))

;;; Symbols

(defun package-for-prefix (name)
  "The package that NAME before a colon means: a package, a PLANNED-PACKAGE, or NIL."
  (let ((package (proof-package *proof*)))
    (or (and (planned-package-p package)
             (let ((nickname (assoc name (planned-package-nicknames package) :test #'string=)))
               (and nickname (known-package (cdr nickname)))))
        (known-package name))))

(defun known-package (name)
  "The package called NAME in the image or in the texts."
  (let ((*package* (if (packagep (proof-package *proof*)) (proof-package *proof*) *package*)))
    (or (find-package name)
        (gethash name (proof-planned *proof*)))))

(defun resolve-name (part prefix internal)
  "PART with the symbol that it means. PREFIX is the package before the colon; INTERNAL is true for
two colons."
  (let ((package (if prefix (package-for-prefix prefix) (proof-package *proof*))))
    (cond ((and prefix (null package))
           (note-mistake part :package (format nil "There is no package ~A in the image." prefix)))
          ((null package))
          (t (multiple-value-bind (symbol status) (symbol-in-package (part-value part) package)
               (setf (part-symbol part) symbol
                     (part-home part) package
                     (part-qualified part) prefix
                     (part-status part) (cond ((eq status :unknown) :unknown)
                                              (status :found)
                                              (t :missing)))
               (when (and prefix (not internal) (packagep package)
                          (not (member status '(:external :unknown)))
                          (not (exported-by-plan-p (part-value part) package)))
                 (note-mistake part :symbol
                         (if status
                             (format nil "~A is not exported from ~A." (part-value part) prefix)
                             (format nil "The package ~A has no symbol ~A."
                                     prefix (part-value part))))))))
    part))

(defun exported-by-plan-p (name package)
  "Whether the texts define PACKAGE again and export NAME from it."
  (let ((plan (gethash (package-name package) (proof-planned *proof*))))
    (and plan (member name (planned-package-exports plan) :test #'string=))))

(defun symbol-in-package (name package)
  "Like FIND-SYMBOL, but also for planned packages. The status is :UNKNOWN if a package is missing."
  (if (packagep package)
      (let ((plan (gethash (package-name package) (proof-planned *proof*))))
        (multiple-value-bind (symbol status) (find-symbol name package)
          (if (or status (null plan))
              (values symbol status)
              (symbol-in-plan name plan))))
      (symbol-in-plan name package)))

(defun symbol-in-plan (name plan)
  (let ((import (assoc name (planned-package-imports plan) :test #'string=))
        (unknown nil))
    (cond (import
           (let ((package (known-package (cdr import))))
             (if (packagep package)
                 (find-symbol name package)
                 (values nil :unknown))))
          ((member name (planned-package-shadowed plan) :test #'string=) (values nil nil))
          (t (dolist (use (planned-package-uses plan) (values nil (and unknown :unknown)))
               (let ((package (known-package use)))
                 (if (packagep package)
                     (multiple-value-bind (symbol status) (find-symbol name package)
                       (when (eq status :external) (return (values symbol :internal))))
                     (unless package (setf unknown t)))))))))
