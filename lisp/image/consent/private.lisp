;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which file names may be private: those with one of the substrings that Emacs gives. Each file
;;; that a call opens is compared with them, so they are looked up by their first character.

(cl:in-package "AGENT-Q-IMAGE")

(defun needle-table (needles)
  "A table of NEEDLES, the substrings that mark names of private files, lower-cased, by first
character. An empty one is in every name."
  (let ((table (make-array 128 :initial-element '())))
    (dolist (needle needles table)
      (let ((needle (coerce (string-downcase needle) '(simple-array character (*)))))
        (if (string= needle "")
            (dotimes (index 128) (push needle (svref table index)))
            (push needle (svref table (needle-index (char needle 0)))))))))

(defun needle-index (character)
  (logand 127 (char-code character)))

(defun has-needle-p (name needles)
  "Whether NAME has one of NEEDLES, of NEEDLE-TABLE, in it, ignoring case. A file without any is
certainly not private."
  (declare (type (simple-vector 128) needles))
  (let ((name (coerce name '(simple-array character (*)))))
    (declare (type (simple-array character (*)) name))
    (loop for start of-type fixnum from 0 below (length name)
            thereis (loop for needle in (svref needles (needle-index (char-downcase (schar name start))))
                            thereis (needle-at-p needle name start)))))

(defun needle-at-p (needle name start)
  (declare (type (simple-array character (*)) needle name) (type fixnum start))
  (and (<= (length needle) (- (length name) start))
       (loop for index of-type fixnum from 0 below (length needle)
             always (char= (schar needle index) (char-downcase (schar name (+ start index)))))))

;;; Other names

(defun private-by-another-name-p (consent descriptor)
  "Whether the file that DESCRIPTOR is open on has several names: only Emacs can tell whether one is
private."
  (and (some #'identity (consent-private consent))
       ;; It may be closed by now.
       (typep descriptor '(integer 0))
       (multiple-value-bind (found device inode mode links) (directly "SB-UNIX" "UNIX-FSTAT" descriptor)
         (declare (ignore device inode))
         (and found (< 1 links) (= #o100000 (logand #o170000 mode))))))

;;; Listing a private directory

(defun call-listing (watch hold function arguments)
  (list-directory watch hold (second arguments) (lambda () (apply function arguments))))

(defun call-opening-directory (watch hold function arguments)
  (list-directory watch hold (first arguments) (lambda () (apply function arguments))))

(defun list-directory (watch hold name work)
  "Call WORK, which reads the names in the directory NAME, if that may be."
  (let* ((real (real-native-name (text-of-name name)))
         (effect (and (has-needle-p real (consent-private (first hold)))
                      (make-effect :kind "read-private" :words (format nil "read the names in ~A" real)
                                   :files (list real) :target real :texts (list real)
                                   :pathname (ignore-errors (native-pathname-of real))))))
    (if (or (null effect) (granted-p (first hold) effect))
        (funcall work)
        (multiple-value-bind (allowed values) (settle-effect watch (first hold) effect)
          (if allowed (funcall work) (values-list values))))))
