;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which symbols existed before a text was read. Only names that may be in the text are checked, so
;;; that this takes no longer in an image with many symbols.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *symbols-before* nil
  "While a text is read: the packages it is read in, each with a table of the names in the text that
had no symbol there. The entry for NIL has the names themselves.")

(defun name-ends-p (character)
  (or (member character *blanks*) (find character "()'`,\";:|")))

(defun add-name (name table)
  "Enter in TABLE what the reader makes of NAME."
  (case (readtable-case *readtable*)
    (:preserve (setf (gethash name table) t))
    (:downcase (setf (gethash (string-downcase name) table) t))
    (t (setf (gethash (string-upcase name) table) t)
       (when (eq (readtable-case *readtable*) :invert)
         (setf (gethash (string-downcase name) table) t
               (gethash name table) t)))))

(defun add-plain-names (text table)
  (loop with start = 0
        while start
        do (let ((end (position-if #'name-ends-p text :start start)))
             (when (< start (or end (length text)))
               (add-name (subseq text (if (find (char text start) "@.#") (1+ start) start) end) table)
               (add-name (subseq text start end) table))
             (setf start (and end (1+ end))))))

(defun add-barred-names (text table)
  (let ((start (position #\| text)))
    (loop while start
          do (let ((end (position #\| text :start (1+ start))))
               (when end (setf (gethash (subseq text (1+ start) end) table) t))
               (setf start end)))))

(defun names-in (text)
  "The names that symbols in TEXT may have. Names with escapes inside aren't found."
  (let ((table (make-hash-table :test 'equal)))
    (add-plain-names text table)
    (add-barred-names text table)
    (loop for name being the hash-keys of table collect name)))

(defun remember-symbols (package &optional text)
  "Remember which names have no symbol in PACKAGE: those of TEXT, which is about to be read, or of
the text before. With TEXT, also do so for packages that it names before a double colon."
  (when text
    (push (cons nil (names-in text)) *symbols-before*))
  (unless (or (assoc package *symbols-before* :test #'eq)
              (eq package (find-package "KEYWORD")))
    (let ((missing (make-hash-table :test 'equal)))
      (dolist (name (rest (assoc nil *symbols-before* :test #'eq)))
        (unless (nth-value 1 (find-symbol name package))
          (setf (gethash name missing) t)))
      (push (cons package missing) *symbols-before*)))
  (when text (remember-prefixes text)))

(defun remember-prefixes (text)
  "Remember symbols of the packages that TEXT names before a double colon, where reading interns."
  (loop for end = (search "::" text) then (search "::" text :start2 (+ end 2))
        while end
        do (let* ((start (position-if #'name-ends-p text :end end :from-end t))
                  (name (subseq text (if start (1+ start) 0) end))
                  (package (and (plusp (length name))
                                (find-package-named (string-left-trim "#@" name)))))
             (when package (remember-symbols package)))))
