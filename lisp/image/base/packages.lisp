;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Packages as a Lisp programmer writes them, and names that resemble others. When something isn't
;;; found, the error says what there is instead.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *blanks* '(#\Space #\Tab #\Newline #\Return #\Page))

(defun trimmed (text)
  (string-trim *blanks* text))

(defun prefixed-p (prefix text)
  (and (>= (length text) (length prefix))
       (string-equal prefix text :end2 (length prefix))))

;;; Near names

(defun distance (one other limit)
  "The edit distance of two strings, or NIL if it exceeds LIMIT."
  (when (<= (abs (- (length one) (length other))) limit)
    (let ((row (make-array (1+ (length other)))))
      (dotimes (i (length row)) (setf (aref row i) i))
      (loop for character across one
            for i from 1
            do (let ((diagonal (aref row 0)))
                 (setf (aref row 0) i)
                 (loop for j from 1 to (length other)
                       do (let ((above (aref row j)))
                            (setf (aref row j)
                                  (min (1+ above) (1+ (aref row (1- j)))
                                       (if (char-equal character (char other (1- j)))
                                           diagonal
                                           (1+ diagonal)))
                                  diagonal above)))))
      (let ((result (aref row (length other))))
        (and (<= result limit) result)))))

(defun nearest (text candidates)
  "At most five of CANDIDATES, pairs of a string and an object, whose string resembles TEXT."
  (let ((limit (if (< (length text) 5) 1 2))
        (found '()))
    (loop for (string . object) in candidates
          for distance = (or (distance text string limit)
                             (and (> (length text) 3) (search text string :test #'char-equal)
                                  (+ 3 (- (length string) (length text)))))
          when distance do (push (cons distance object) found))
    (loop for (nil . object) in (stable-sort (nreverse found) #'< :key #'car)
          repeat 5 collect object)))

;;; Packages

(defun package-candidates ()
  (loop for package in (list-all-packages)
        nconc (loop for name in (cons (package-name package) (package-nicknames package))
                    collect (cons name name))))

(defun find-package-named (text)
  "The package called TEXT, ignoring case; local nicknames of the current package count."
  (or (find-package text)
      (find-package (string-upcase text))
      (find-if (lambda (package)
                 (or (string-equal text (package-name package))
                     (member text (package-nicknames package) :test #'string-equal)))
               (list-all-packages))))

(defun package-of-text (text)
  "The package that TEXT (\"cl-user\", \":CL-USER\", \"#:cl-user\") names; the current one if TEXT
is empty."
  (if (or (null text) (string= (trimmed text) ""))
      *package*
      (let ((name (string-trim ":'\"|" (string-left-trim "#" (trimmed text)))))
        (or (find-package-named name)
            (let ((near (nearest name (package-candidates))))
              (missed "Package ~A not found.~@[ Near names: ~{~A~^, ~}.~] ~
                       If it belongs to a system, that system is not loaded."
                      (string-upcase name) near))))))
