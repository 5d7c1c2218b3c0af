;;; agent-q-test-program.el --- A program in the images of tests  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A file with a little of everything, which the images of tests have loaded, and
;; how to read what is said about it.

;;; Code:

(require 'cl-lib)
(require 'agent-q-test-image)

(defconst agent-q-test-program-source "(defpackage #:aq-look (:use #:cl) (:export #:callee))
(in-package #:aq-look)

(defvar *level* 1)
(defconstant +many+ 12)
;; A λ before the definitions.
(defun callee (x) (list x *level*))
(defun caller ()
  (callee 1)
  (callee 2))
(defmacro twice (x) `(callee ,x))
(defun user ()
  (twice 1) (setf *level* 3) (let ((*level* 4)) (caller)))
(defun lonely () +many+)
(defclass shape ()
  ((width :initarg :width :initform nil :accessor width :documentation \"How wide.\")
   (count :type integer :allocation :class :reader shape-count))
  (:default-initargs :width 5))
(defclass square (shape) ((side :initform (list 1))))
(defclass unfinished (nowhere-yet) (a))
(defstruct point x (y 2 :type fixnum))
(define-condition trouble (error) ((place :initarg :place :reader trouble-place)))
(defgeneric area (shape))
(defmethod area ((it shape)) (callee it))
(defmethod area :before ((it (eql 3))) (callee it))
(defmethod (setf area) (new (it shape)) (callee new))
"
  "A program, as a file.")

(defvar agent-q-test-program-files nil
  "The files with the program, by connection.")

(defun agent-q-test-program-file (connection)
  "Return the file with the program that the image behind CONNECTION has loaded."
  (or (cdr (assoc connection agent-q-test-program-files))
      (let ((file (make-temp-file "agent-q-" nil ".lisp" agent-q-test-program-source)))
        (agent-q-test-image-eval
         connection
         (format "(let ((*error-output* (make-broadcast-stream))
                        (*standard-output* (make-broadcast-stream)))
                    (load (compile-file %S :external-format #+clisp charset:utf-8
                                                                  #-clisp :utf-8)))"
                 file))
        (push (cons connection file) agent-q-test-program-files)
        (file-truename file))))

(defun agent-q-test-program-users (value)
  "Return the users in VALUE, each as (WHAT COUNT LINE WAY...)."
  (mapcar (lambda (user)
            (append (list (plist-get user :what) (plist-get user :count)
                          (agent-q-test-program-line (plist-get user :where)))
                    (plist-get user :ways)))
          (plist-get value :users)))

(defun agent-q-test-program-line (place)
  "Return the line number of PLACE, \"file:line\", or nil."
  (and place (string-match ":\\([0-9]+\\)\\'" place)
       (string-to-number (match-string 1 place))))

(defun agent-q-test-program-miss (connection operation &rest arguments)
  "Return the sentence with which OPERATION called with ARGUMENTS misses.
CONNECTION is where it is called."
  (let ((reply (apply #'agent-q-test-image-reply connection operation arguments)))
    (should (eq :missed (plist-get reply :outcome)))
    (plist-get reply :message)))

(defun agent-q-test-program-remove-files ()
  "Remove the files with the program, and what was compiled from them."
  (pcase-dolist (`(,_ . ,file) agent-q-test-program-files)
    (delete-file file)
    (ignore-errors (delete-file (concat (file-name-sans-extension file) ".fasl")))))

(add-hook 'kill-emacs-hook #'agent-q-test-program-remove-files)

(provide 'agent-q-test-program)
;;; agent-q-test-program.el ends here
