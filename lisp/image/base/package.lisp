;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The package of agent-q's Common Lisp half, its way to SLY's or SLIME's backend, and the table
;;; of operations. A folder of these files is a module, sent as one text when it is first needed;
;;; of a module, package.lisp is evaluated first, then the rest in the order of their names.

(cl:defpackage "AGENT-Q-IMAGE"
  (:use "COMMON-LISP")
  (:export "ARRIVED" "CALL" "CANCEL" "DEFINE-TOOL" "REMOVE-TOOL"))

(cl:in-package "AGENT-Q-IMAGE")

(defun note-as-seen (package client accessor)
  "Tell CLIENT that it has already seen PACKAGE. Otherwise it would search all symbols and send the
indentation of all macros to Emacs again. ACCESSOR reads which packages a connection has seen."
  (let ((connection (and (find-package client) (find-symbol "*EMACS-CONNECTION*" client)))
        (accessor (and (find-package client) (find-symbol accessor client))))
    (when (and connection (boundp connection) (symbol-value connection)
               accessor (fboundp accessor))
      (ignore-errors
       (let ((seen (funcall accessor (symbol-value connection))))
         (when seen
           (eval `(setf (,accessor (symbol-value ',connection)) ',(adjoin package seen)))))))))

;; Our package has nothing for the user. The client may look for new packages at any moment from now
;; on.
(note-as-seen *package* "SLYNK" "CONNECTION-INDENTATION-CACHE-PACKAGES")
(note-as-seen *package* "SWANK" "CONNECTION.INDENTATION-CACHE-PACKAGES")

;; State lives in DEFVARs: sending this text again must not lose running calls.

(defvar *versions* '()
  "From modules to the versions by which Emacs knows their texts. Noted once the whole text was
evaluated, so a half-sent text has none.")

(defvar *client* nil
  "The client whose backend serves this call: :SLYNK or :SWANK. Both can be in one image.")

;;; The client's backend, looked up at run time so that this text can be read without it.

(defun backend-package (&optional (client *client*))
  (if (eq client :slynk)
      (find-package "SLYNK-BACKEND")
      (or (find-package "SWANK/BACKEND") (find-package "SWANK-BACKEND")
          ;; Outside of calls, as in the client's own threads, either will do.
          (and (null client) (find-package "SLYNK-BACKEND")))))

(defun backend-function (name)
  "The backend's function NAME, or NIL if this client or implementation lacks it."
  (let* ((package (backend-package))
         (symbol (and package (find-symbol name package))))
    (and symbol (fboundp symbol) (symbol-function symbol))))

(defun implementation-name ()
  "The common name of this implementation."
  (let ((type (lisp-implementation-type)))
    (if (string= type "Armed Bear Common Lisp") "ABCL" type)))

(defun implementation-p (&rest names)
  (member (implementation-name) names :test #'string=))

(defun implemented-p (name)
  "Whether the client's backend really implements NAME here, rather than just declaring it."
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
  "The function NAME of the package, or NIL if either doesn't exist."
  (let* ((package (find-package package-name))
         (symbol (and package (find-symbol name package))))
    (and symbol (fboundp symbol) (symbol-function symbol))))

;;; The client itself, beyond its backend.

(defun client-symbol-named (client name)
  (let ((package (find-package (if (eq client :slynk) "SLYNK" "SWANK"))))
    (and package (find-symbol name package))))

(defun client-value (client name)
  (let ((symbol (client-symbol-named client name)))
    (and symbol (boundp symbol) (symbol-value symbol))))

;;; Operations

;; No table maps names to functions: code that found it could replace them, whereas redefining one
;; of our functions needs consent.
(defun operation-function-name (operation)
  (concatenate 'string "OPERATION-" (string-upcase operation)))

(defmacro define-operation (name parameters &body body)
  "Make NAME an operation that Emacs can call, with PARAMETERS as keyword arguments. Its value is a
property list of strings, integers, keywords and lists of these. It calls MISSED for mistakes of the
caller and lets the program's errors pass. Say in a comment what it does: a docstring would be sent,
and nothing in the image shows it."
  `(defun ,(intern (operation-function-name name) "AGENT-Q-IMAGE")
       (&key ,@parameters &allow-other-keys)
     ,@body))

(defun missed (control &rest arguments)
  "End the operation with one sentence for the caller, who can do something about it."
  (throw 'missed (list :outcome :missed
                       :message (let ((*print-pretty* nil))
                                  (apply #'format nil control arguments)))))

(defun unavailable (what reason)
  "End the operation: this implementation has no WHAT, for REASON."
  (missed "~A is not available on ~A because ~A." what (implementation-name) reason))

(defun failed (type message)
  "End the operation with an error whose stack isn't worth showing, such as unreadable text."
  (throw 'missed (list :outcome :error :type type :message message)))
