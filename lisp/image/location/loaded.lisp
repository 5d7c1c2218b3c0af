;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which version of a file the image has: the date of the text that a definition was compiled from.
;;; SBCL records it for functions; it holds for the rest of their file, too.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *began* (get-universal-time)
  "When this half arrived. A file older than this can't have been loaded and changed within one
second.")

(defvar *loaded-dates* nil
  "During an operation: from files, and packages, to the dates of the loaded texts.")

(defun call-with-loaded-dates (function)
  "Call FUNCTION, which asks for the dates of many definitions in a few files, with a cache."
  (let ((*loaded-dates* (make-hash-table :test 'equal)))
    (funcall function)))

(defun source-of-function (function)
  "The file that FUNCTION was loaded from and the date of its text then, or NIL."
  (let ((find (optional-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCE")))
    (flet ((part (name source)
             (funcall (optional-function "SB-INTROSPECT" name) source)))
      (when find
        (guarded (lambda ()
                   (let* ((source (funcall find function))
                          (file (part "DEFINITION-SOURCE-PATHNAME" source))
                          (date (part "DEFINITION-SOURCE-FILE-WRITE-DATE" source)))
                     ;; Code compiled from a buffer has the date of the client's temporary file.
                     (when (and file date
                                (null (getf (part "DEFINITION-SOURCE-PLIST" source)
                                            :emacs-buffer)))
                       (list (namestring (translate-logical-pathname file)) date))))
                 (constantly nil))))))

(defun method-of-definition-p (method what)
  "Whether METHOD is the one that WHAT, such as (DEFMETHOD name :AFTER (CLASS)), names."
  (and (equal (method-qualifiers method) (butlast (cddr what)))
       (loop for specializer in (mop "METHOD-SPECIALIZERS" method)
             for name in (first (last what))
             always (if (typep specializer 'class)
                        (eq (class-name specializer) name)
                        (and (consp name)
                             (eql (second name) (mop "EQL-SPECIALIZER-OBJECT" specializer)))))))

(defun functions-of (name &optional method)
  "The functions called NAME, a symbol or (SETF symbol), including those of its methods; or if
METHOD, a definition, is given, only that of this method."
  (when (fboundp name)
    (let ((function (or (and (symbolp name) (macro-function name)) (fdefinition name)))
          (body (optional-function "SB-PCL" "SAFE-METHOD-FAST-FUNCTION")))
      (if (typep function 'generic-function)
          (loop for one in (and body (mop "GENERIC-FUNCTION-METHODS" function))
                for fast = (guarded (lambda ()
                                      (and (or (null method) (method-of-definition-p one method))
                                           (funcall body one)))
                                    (constantly nil))
                when (functionp fast) collect fast)
          (list function)))))

(defun date-among (functions file)
  "The date of FILE's text that one of FUNCTIONS was loaded from, or NIL."
  (loop for function in functions
        for (from date) = (source-of-function function)
        when (and from (string= from file)) return date))

(defun date-in-package (package file)
  "The date of FILE's text that some function named in PACKAGE was loaded from, or NIL."
  (do-symbols (symbol package nil)
    (when (eq (symbol-package symbol) package)
      (let ((date (or (date-among (functions-of symbol) file)
                      (date-among (functions-of (list 'setf symbol)) file))))
        (when date (return date))))))

(defun loaded-date (what file)
  "The date of FILE's text when WHAT, such as (DEFUN name), was loaded from it; NIL if unknown."
  (let* ((name (second what))
         (symbol (if (consp name) (second name) name)))
    (when (and (implementation-p "SBCL") (symbolp symbol))
      (or (date-among (functions-of name (and (eq 'defmethod (first what)) what)) file)
          (let* ((package (symbol-package symbol))
                 (key (list file (and package (package-name package))))
                 (table (or *loaded-dates* (make-hash-table :test 'equal))))
            (multiple-value-bind (date known) (gethash key table)
              (if (or known (null package) (eq package (find-package "KEYWORD")))
                  date
                  (setf (gethash key table) (date-in-package package file)))))))))
