;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The package of agent-q's Common Lisp half, its way to SLY's or SLIME's backend, and the table
;;; of operations. A folder of these files is a module, sent as one text when it is first needed;
;;; of a module, package.lisp is evaluated first, then the rest in the order of their names.

(cl:defpackage "AGENT-Q-IMAGE"
  (:use "COMMON-LISP")
  (:export "ARRIVED" "CALL" "CANCEL" "DEFINE-TOOL" "REMOVE-TOOL"))

(cl:in-package "AGENT-Q-IMAGE")

(defun note-as-seen (package client accessor)
  "Keep CLIENT from looking through all symbols, and telling Emacs again how all macros are indented,
because there is a PACKAGE that it has not seen. ACCESSOR gets those that it has."
  (let ((connection (and (find-package client) (find-symbol "*EMACS-CONNECTION*" client)))
        (accessor (and (find-package client) (find-symbol accessor client))))
    (when (and connection (boundp connection) (symbol-value connection)
               accessor (fboundp accessor))
      (ignore-errors
       (let ((seen (funcall accessor (symbol-value connection))))
         (when seen
           (eval `(setf (,accessor (symbol-value ',connection)) ',(adjoin package seen)))))))))

;; Ours has nothing for the user. The client looks at any time from now on.
(note-as-seen *package* "SLYNK" "CONNECTION-INDENTATION-CACHE-PACKAGES")
(note-as-seen *package* "SWANK" "CONNECTION.INDENTATION-CACHE-PACKAGES")

;; State is in DEFVARs: sending this text again must not lose the calls that run.

(defvar *versions* '()
  "By module, what Emacs knows its text by. Noted once all of it was evaluated, so a half-sent text
has none.")

(defvar *client* nil
  "The client whose backend serves this call: :SLYNK or :SWANK. Both can be in one image.")

;;; The client's backend. Looked up at run time, so that this text can be read without either.

(defun backend-package (&optional (client *client*))
  (if (eq client :slynk)
      (find-package "SLYNK-BACKEND")
      (or (find-package "SWANK/BACKEND") (find-package "SWANK-BACKEND")
          ;; Outside of calls, as in the client's own threads, either does.
          (and (null client) (find-package "SLYNK-BACKEND")))))

(defun backend-function (name)
  "The backend's function NAME, or NIL when this client or implementation has none."
  (let* ((package (backend-package))
         (symbol (and package (find-symbol name package))))
    (and symbol (fboundp symbol) (symbol-function symbol))))

(defun implementation-name ()
  "What people call this implementation."
  (let ((type (lisp-implementation-type)))
    (if (string= type "Armed Bear Common Lisp") "ABCL" type)))

(defun implementation-p (&rest names)
  (member (implementation-name) names :test #'string=))

(defun implemented-p (name)
  "Whether the client's backend has NAME for this implementation, not only a place for it."
  (let* ((package (backend-package))
         (missing (and package (find-symbol "*UNIMPLEMENTED-INTERFACES*" package))))
    (and (backend-function name)
         (not (and missing (boundp missing)
                   (member name (symbol-value missing) :test #'string=))))))

(defun backend (name &rest arguments)
  (let ((function (backend-function name)))
    (unless function
      (error "~A is not available on ~A because the client does not provide it."
             name (implementation-name)))
    (apply function arguments)))

(defun optional-function (package-name name)
  "The function NAME of a package that may not be there, or NIL."
  (let* ((package (find-package package-name))
         (symbol (and package (find-symbol name package))))
    (and symbol (fboundp symbol) (symbol-function symbol))))

;;; What the client itself has, beside its backend.

(defun client-symbol-named (client name)
  (let ((package (find-package (if (eq client :slynk) "SLYNK" "SWANK"))))
    (and package (find-symbol name package))))

(defun client-value (client name)
  (let ((symbol (client-symbol-named client name)))
    (and symbol (boundp symbol) (symbol-value symbol))))

;;; Operations

;; No table leads from names to functions: whoever came by it could replace them, while nobody
;; redefines a function of ours unasked.
(defun operation-function-name (operation)
  (concatenate 'string "OPERATION-" (string-upcase operation)))

(defmacro define-operation (name parameters &body body)
  "Make NAME an operation that Emacs can call with PARAMETERS as keyword arguments.
Its value is a property list of strings, integers, keywords and lists of these. It calls MISSED
for what the caller got wrong, and lets conditions pass for what went wrong in the program. A comment
says what it does: a docstring would be sent, and nothing in the image shows it."
  `(defun ,(intern (operation-function-name name) "AGENT-Q-IMAGE")
       (&key ,@parameters &allow-other-keys)
     ,@body))

(defun missed (control &rest arguments)
  "Leave the operation with one sentence for the caller, who can do something about it."
  (throw 'missed (list :outcome :missed
                       :message (let ((*print-pretty* nil))
                                  (apply #'format nil control arguments)))))

(defun unavailable (what reason)
  "Leave the operation: WHAT can't be had of this implementation, for REASON."
  (missed "~A is not available on ~A because ~A." what (implementation-name) reason))

(defun failed (type message)
  "Leave the operation with an error that has no stack worth showing, such as unreadable text."
  (throw 'missed (list :outcome :error :type type :message message)))
