;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The basis of checking a system before it is loaded: what is kept of a file, of a package that it
;;; defines, and of the running check. The module planning fills and reads the last.

(cl:in-package "AGENT-Q-IMAGE")

(defstruct (outline (:copier nil))
  "What the text of a file says of packages and names. Places are positions in the text."
  file
  ;; Its place among the files of the plan.
  (number 0)
  ;; The packages that it enters: conses of a place and a name, in order.
  (entered '())
  ;; Its forms that define packages, WRITTEN-PACKAGEs in order; and conses of start and end of all
  ;; forms whose operator says that they may make a package, and of forms with EXPORT.
  (packages '()) (makers '()) (exports '())
  ;; From names to lists of place, top-level form and operator for what is defined, and whether that is
  ;; certain; from operators to conses of place and top-level form, where no feature is asked for.
  (definitions (make-hash-table :test 'equal))
  (operators (make-hash-table :test 'equal))
  ;; From names with a package to the first place.
  (qualified (make-hash-table :test 'equal))
  ;; Whether it changes the syntax, and whether it exports what can't be told.
  strange open)

(defvar *outline* nil "The OUTLINE of the file that is being scanned.")
(defvar *outermost* 0 "The place of the top-level form that is being scanned.")
(defvar *in-package-form* nil "Whether a form that makes a package is being scanned.")
(defvar *under-feature* nil
  "Whether what is being scanned depends on a feature: T if it is there, :ABSENT if it isn't.")

(defstruct (written-package (:include planned-package) (:copier nil))
  "A package that a file defines. Unlike in a PLANNED-PACKAGE, USES are those of :USE alone."
  file start end operator
  (rank 0)
  (other-names '()) (interned '()) (shadowing '())
  ;; Packages of options such as :REEXPORT, and whether there is more to the package than is known.
  (mixed '()) more)

;;; The running check

(defvar *plan* '() "The OUTLINEs of the files of the plan, in order.")
(defvar *plan-texts* (make-hash-table :test 'equal) "From files to their texts, as far as they were needed.")
(defvar *snags* '() "What was found: conses of a rank and a sentence.")

(defvar *plan-packages* (make-hash-table :test 'equal)
  "From names and nicknames of packages to the WRITTEN-PACKAGEs of the plan, in order.")

(defvar *plan-exports* '()
  "The texts of the forms with EXPORT in the plan; T if it may export anything.")

(defvar *plan-proof* nil "For PROOFREAD: what the files of the plan define; NIL until it is needed.")

(defstruct (late-macro (:copier nil)) name outline place)

(defmacro add-names (place names)
  "Add to PLACE, a list, those of NAMES that aren't NIL."
  `(setf ,place (append ,place (remove nil ,names))))
