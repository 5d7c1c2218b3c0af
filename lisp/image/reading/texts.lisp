;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The texts of files as they were when they were loaded, to compare them with what the files have
;;; now.

(cl:in-package "AGENT-Q-IMAGE")

(defvar *loaded-texts* (make-hash-table :test 'equal)
  "From files to lists of a date, a text and whether we loaded it, latest first. Others may have
loaded what was only seen.")

(defparameter *kept-texts* 4
  "How many texts of a file to keep.")

(defparameter *largest-source* 2000000
  "The size in bytes of the largest file whose text is kept.")

(defun text-on-disk (file)
  "The text of FILE; NIL if it can't be read or is too large."
  (flet ((text (format)
           (with-open-file (stream file :external-format format)
             (when (< (file-length stream) *largest-source*)
               (let* ((room (make-string (file-length stream)))
                      (text (subseq room 0 (read-sequence room stream))))
                 ;; A quarter of the memory.
                 (if (every (lambda (it) (typep it 'base-char)) text)
                     (coerce text 'simple-base-string)
                     text))))))
    (guarded (lambda ()
               (text (or (guarded (lambda () (backend "FIND-EXTERNAL-FORMAT" "utf-8-unix"))
                                  (constantly nil))
                         :default)))
             (lambda (condition)
               (declare (ignore condition))
               (guarded (lambda () (text :latin-1)) (constantly nil))))))

(defun note-source-text (file loaded &optional (text (text-on-disk file)))
  "Note the TEXT of FILE, which is LOADED or was only seen."
  (let* ((key (file-key file))
         (date (guarded (lambda () (file-write-date file)) (constantly nil)))
         (known (gethash key *loaded-texts*))
         (same (find-if (lambda (it) (and (eql date (first it)) (string= text (second it))))
                        (and text known))))
    (when (and date text)
      (cond ((null same)
             (setf known (cons (list date text loaded) known)))
            ;; What was loaded last comes first.
            (loaded (setf known (cons (list date text t) (remove same known :test #'eq)))))
      (setf (gethash key *loaded-texts*)
            (subseq known 0 (min *kept-texts* (length known)))))))
