;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Proofreading the code of an answer for what this image couldn't run: unknown operators and
;;; packages, wrong numbers of arguments, parentheses. Operation: proofread-code.

(cl:in-package "AGENT-Q-IMAGE")

;;; Forms

(defun proofread-all (parts scope)
  (dolist (part parts) (proofread part scope)))

(defun proofread-body (parts scope)
  (dolist (part parts)
    (unless (part-named-p (first (list-parts part)) "DECLARE")
      (proofread part scope))))

(defun proofread (part scope)
  "Check PART, which is code. SCOPE has the local functions, by name, with their counts or :MACRO."
  (case (part-kind part)
    (:function (let ((function (part-value part)))
                 (cond ((null function))
                       ((name-part-p function) (check-operator-name function scope nil))
                       ((part-named-p (first (list-parts function)) "LAMBDA")
                        (proofread function scope)))))
    (:list (when (plain-list-p part)
             (proofread-list (part-value part) scope)))))

(defun proofread-list (parts scope)
  (let* ((head (first parts)) (local (and (name-part-p head)
                                          (assoc (part-value head) scope :test #'string=))))
    (cond ((null head))
          ((and (eq (part-kind head) :list) (part-named-p (first (list-parts head)) "LAMBDA"))
           (proofread-all parts scope))
          ((not (name-part-p head)))
          ((looks-like-slot-p parts))
          (local
           (unless (eq (cdr local) :macro)
             (proofread-count head (list (cdr local)) (length (rest parts)))
             (proofread-all (rest parts) scope)))
          (t (when (proof-visitor *proof*)
               (funcall (proof-visitor *proof*) head))
             (unless (gethash (part-value head) (proof-macros *proof*))
               (proofread-call head (rest parts) scope))))))

(defun looks-like-slot-p (parts)
  "Whether PARTS are a slot of a class, shown without the class."
  (part-named-p (second parts) "INITARG" "INITFORM" "ACCESSOR" "READER" "WRITER" "ALLOCATION"))

(defun proofread-call (head parts scope)
  "Check a form whose operator is HEAD, not a local one."
  (let* ((symbol (and (eq (part-status head) :found) (part-symbol head)))
         (proof (and symbol (cdr (assoc symbol *proofreaders* :test #'eq))))
         (known (check-operator-name head scope (length parts))))
    (cond (proof (funcall proof parts scope))
          ((or (not known)
               (and symbol (or (macro-function symbol) (special-operator-p symbol)))))
          (t (proofread-all parts scope)))))

;;; Operators

(defun defined-in-text-p (name)
  (or (nth-value 1 (gethash name (proof-functions *proof*)))
      (gethash name (proof-macros *proof*))))

(defun known-operator-p (part scope)
  "Whether PART, a name, is known to be an operator."
  (let ((symbol (and (eq (part-status part) :found) (part-symbol part))))
    (or (assoc (part-value part) scope :test #'string=)
        (defined-in-text-p (part-value part))
        (and symbol (fboundp symbol)))))

(defun check-operator-name (part scope number)
  "Check the name PART, called with NUMBER arguments unless that is NIL. Returns whether it is
known."
  (cond ((known-operator-p part scope)
         (when number (check-known part number))
         t)
        ((or (excusable-p part)
             ;; No more are reported.
             (>= (length (proof-mistakes *proof*)) *most-mistakes*))
         nil)
        (t (note-unknown part)
           nil)))

(defun excusable-p (part)
  "Whether PART, which names no known function, may name one all the same, or isn't called at all."
  (let ((name (part-value part)))
    (or (eq (part-status part) :unknown)
        ;; Such as OTHERWISE or INTEGER: part of a form, or of a type.
        (standard-part-symbol part)
        (prefixed-p "DEF" name)
        (find #\< name)
        (some (lambda (piece) (search piece name)) (proof-name-parts *proof*)))))

(defun note-unknown (part)
  "Note that PART, the name of an operator, is unknown. If an internal function of a program has
that name, the code is meant for the program's package: people show code as it is in their files."
  (let* ((others (remove-if-not (lambda (symbol)
                                  (and (fboundp symbol) (worth-suggesting-p symbol)
                                       (not (eq symbol (part-symbol part)))))
                                (elsewhere (part-value part) nil)))
         (programs (remove-if #'implementation-package-p others :key #'symbol-package))
         (inner (find-if-not #'exported-p programs)))
    (when (and inner (not (part-qualified part)))
      (dolist (symbol programs)
        (unless (exported-p symbol)
          (pushnew (symbol-package symbol) (proof-meant *proof*)))))
    (note-mistake part :function (unknown-words part others)
                  (and (not (part-qualified part)) (mapcar #'symbol-package programs)))))

(defun exported-p (symbol)
  (eq :external (nth-value 1 (find-symbol (symbol-name symbol) (symbol-package symbol)))))

(defun unknown-words (part others)
  (format nil "There is no function or macro ~A~@[ in ~A~].~@[ There is ~{~A~^, ~}.~]"
          (part-value part)
          (and (packagep (part-home part)) (package-name (part-home part)))
          (mapcar #'symbol-text (subseq others 0 (min 3 (length others))))))

(defun check-known (part number)
  "Check whether the operator PART takes NUMBER arguments."
  (let* ((name (part-value part))
         (symbol (and (eq (part-status part) :found) (part-symbol part)))
         (counts (gethash name (proof-functions *proof*))))
    (cond ((gethash name (proof-macros *proof*)))
          ;; A text that redefines something of the image may show calls of both.
          ((and symbol (fboundp symbol))
           (proofread-count part (cons (or (count-in-image symbol) t) counts) number symbol))
          ;; The package of a definition in the text isn't kept.
          ((not (part-qualified part)) (proofread-count part counts number)))))

(defun proofread-count (part counts number &optional symbol)
  "Check whether one of COUNTS, of the operator PART, allows NUMBER arguments."
  (unless (or (null counts) (some (lambda (count) (count-fits-p count number)) counts))
    (note-mistake part :count
                  (format nil "~A ~A~:[.~;~:*: ~A~]"
                          (part-value part) (count-words (first counts) number)
                          (and symbol (null (rest counts)) (lambda-list-text symbol))))))

;;; Texts

(defun next-line-start (text position)
  "The start of the next line of TEXT after POSITION that begins with a parenthesis, or NIL."
  (let ((found (search (format nil "~%(") text :start2 position)))
    (and found (1+ found))))

(defun read-all-parts (text)
  "The parts of TEXT that could be read, and whether that was all of it."
  (setf (proof-text *proof*) text
        (proof-position *proof*) 0)
  (let ((parts '()) (tries 0))
    (loop
      (setf (proof-depth *proof*) 0
            (proof-unclosed *proof*) nil)
      (skip-blanks)
      (let ((start (proof-position *proof*)) (character (peek)))
        (cond ((null character) (return (values (nreverse parts) t)))
              ((char= character #\))
               (incf (proof-position *proof*))
               (note-mistake (make-part :data start (1+ start)) :unbalanced
                             "This parenthesis closes nothing.")
               (when (> (incf tries) 20) (return (values (nreverse parts) nil))))
              (t (let ((part (catch 'form-read (read-part))))
                   (cond ((proof-unclosed *proof*)
                          (note-unclosed)
                          (let ((next (next-line-start text (min (1+ start) (length text)))))
                            (when part (push (incomplete part) parts))
                            (when (or (null next) (> (incf tries) 20))
                              (return (values (nreverse parts) nil)))
                            (setf (proof-position *proof*) next)))
                         ((null part)
                          (when (peek) (return (values (nreverse parts) nil))))
                         (t (note-package-form part)
                            (push part parts))))))))))

(defun note-unclosed ()
  (destructuring-bind (what start) (proof-unclosed *proof*)
    (note-mistake (make-part :data start (1+ start)) :unbalanced
                  (if (eq what :string)
                      "This string is not closed."
                      "This form is not closed: a parenthesis is missing."))))

(defun incomplete (part)
  "PART, changed so that only its definitions count and nothing else in it is reported."
  (if (eq (part-kind part) :list)
      (make-part :list (part-start part) (part-end part)
                 (append (part-value part)
                         (list (make-part :unclear (part-end part) (part-end part)))))
      part))

(defun sketch-p (parts)
  "Whether PARTS, at top level, aren't source: a session with its answers, or an outline."
  (some (lambda (part) (not (member (part-kind part) '(:list :quote :function :ellipsis :unclear))))
        parts))

(defun elided-p (text)
  "Whether TEXT leaves something out, even in a comment."
  (or (search "..." text) (find (code-char #x2026) text)))

(defun mistakes-in (text)
  "The mistakes in TEXT, which is the last text."
  (setf (proof-mistakes *proof*) '())
  (let ((parts (read-all-parts text)))
    (mapc #'collect-definitions parts)
    (unless (sketch-p parts)
      (proofread-all parts '())
      (drop-meant)
      (when (proof-other-reader *proof*)
        (drop-mistakes :function :package :symbol :count :unbalanced))
      (when (elided-p text)
        (drop-mistakes :unbalanced))
      (when (proof-loads *proof*)
        (drop-mistakes :function :package :symbol))
      (when (proof-exports *proof*)
        (drop-mistakes :symbol))
      (sort (remove-duplicates (proof-mistakes *proof*) :key #'first) #'< :key #'first))))

(defun drop-meant ()
  "Drop mistakes about operators known in a package that the code is meant for."
  (setf (proof-mistakes *proof*)
        (remove-if (lambda (mistake) (intersection (fifth mistake) (proof-meant *proof*)))
                   (proof-mistakes *proof*))))

(defun drop-mistakes (&rest kinds)
  (setf (proof-mistakes *proof*)
        (remove-if (lambda (mistake) (member (third mistake) kinds)) (proof-mistakes *proof*))))

(defun packages-called (names)
  (remove nil (mapcar #'find-package-named names)))

(define-operation "proofread-code" (texts package also partial)
  ;; What this image couldn't run of the last of TEXTS, the code of an answer so far: lists of
  ;; start, end and what is wrong. It is read in PACKAGE, or in the one that earlier texts have
  ;; entered, and may also be meant for the packages named in ALSO. PARTIAL: there were more texts,
  ;; whose definitions are unknown.
  (when (> (reduce #'+ texts :key #'length) 3000)
    (compile-now 'read-part 'read-part-at 'read-list 'read-token 'skip-token 'skip-to-form
                 'strange-character-p 'name-part 'scan-token 'token-name 'split-token
                 'resolve-name 'symbol-in-package 'proofread 'proofread-list 'proofread-call
                 'collect-definitions 'collect-definition 'plain-list-p 'proofread-all))
  (let ((*proof* (make-proof :package (package-of-text package)
                             :meant (packages-called also)
                             :loads partial)))
    (dolist (text (butlast texts))
      (mapc #'collect-definitions (read-all-parts text)))
    (let ((mistakes (and texts (mistakes-in (first (last texts))))))
      (list :mistakes (loop for (start end nil reason) in mistakes
                            repeat *most-mistakes*
                            collect (list start end reason))))))
