;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The package of agent-q's Common Lisp half, the way to SLY's or SLIME's backend, and the table of
;;; operations. A folder of these files is a module, sent as one text when it is first needed; in a
;;; module, package.lisp is evaluated first, then the other files in the order of their names.

;;; The words of this half. Common Lisp's own words (condition, handler, restart, home package ...)
;;; mean what they mean in CLHS.
;;;
;;; answer   What Emacs sends back to a question of the watch: "allow", "deny" or "stop".
;;; apart    In another thread, where nothing of the program is in effect.
;;; arrive   A module arrives when its text has been evaluated in this image.
;;; assess   To check code before it runs: read, expand and walk it, but run none of it.
;;; brought  Defined by the assessed text itself, such as its macros, so not yet in the image.
;;; call     One operation that Emacs has asked for; it runs in a thread of its own, under an id.
;;; change   One entry of the journal: a definition before and after a call.
;;; check    To compare a form or symbol with what is dangerous; part of an assessment.
;;; client   SLY's or SLIME's server here, SLYNK or SWANK; BACKEND calls its portable layer.
;;; consent  What one call may do: what was granted to it, whom to ask, what was denied.
;;; cover    An effect that may happen covers the lower-level effects by which it happens.
;;; effect   What a function is about to do outside the program: to a file, a process, Emacs ...
;;; entry    One element of *RUNNING*, the running calls; also an element of other tables.
;;; facet    One meaning of a symbol: as a function, variable, class ...
;;; finding  What an assessment notes about a text; a hit is one that needs the user's consent.
;;; guard    An encapsulation (advice) through which the watch intercepts calls of a function.
;;; guarded  Unlike guards: GUARDED handles errors, GUARD-STACK restores the stack's guard page.
;;; handle   A short name such as v7 under which an object is kept for later.
;;; hold     What is in force in a thread under the watch: a consent, and what it covers just now.
;;; hook     A variable through which code is called later; for C functions, our replacement.
;;; job      A function that a call has given to a thread of the program.
;;; journal  What the agent's calls have changed in the image, so that it can be undone.
;;; known    Certain from the text or the image now; known code needs no question any more.
;;; look     What an assessment keeps for the call that runs the text; also a call without effects.
;;; meet     What a guard does when its function is called; unmet names are asked about in code.
;;; miss     To end an operation with a sentence for the caller, by MISSED.
;;; module   One folder of these files, sent as one text when it is first needed.
;;; moot     Of an effect: over before the user has answered.
;;; note     As a verb, to record; as a noun, what the compiler says.
;;; ours     Belonging to this package; the program is the user's, not ours or the implementation's.
;;; outline  What the text of a file enters, defines and uses, by names alone.
;;; park     To leave an error in the client's debugger with its stack alive, and answer the call.
;;; part     A token or list of a text that is proofread, with its position.
;;; place    Where something is, as a property list for Emacs; as in CLHS, what SETF assigns to.
;;; plain    Of forms: certain to define nothing; of printing: without the program's methods.
;;; question What the watch asks Emacs about an effect, while the thread waits.
;;; quiet    Of a consent: nobody is asked, so what wasn't granted is denied.
;;; reading  The form after #. in a file, which runs when the file is read.
;;; reply    What an operation returns to Emacs: one property list, printed.
;;; scope    In an assessment, lexical scope; of a consent, the work that the operation implies.
;;; settle   To decide about an effect, threads or hooks; to bring the journal up to date.
;;; site     Where a name is used: a list of the using definition and a place.
;;; snag     What loading a system will stumble over, found beforehand.
;;; soft     Of a dangerous name: also an everyday word, so it counts only where it may be called.
;;; stand-in A guarded function that SBCL is given to keep in place of an original.
;;; track    To include a package in the journal's snapshots.
;;; walker   A function that checks the forms of one operator.
;;; watch    The guards of an image, and what is in force under them. SBCL only.
;;; way      The function through which a guard calls the original, if arguments aren't enough.
;;; work     What consent to building or compiling implies, such as writing the system's files.

(cl:defpackage "AGENT-Q-IMAGE"
  (:use "COMMON-LISP")
  (:shadow "FIND-SYMBOL")
  (:export "ARRIVED" "CALL" "CANCEL" "DEFINE-TOOL" "REMOVE-TOOL"))

(cl:in-package "AGENT-Q-IMAGE")

(defvar *looking-up* nil
  "True while names are looked up for ourselves, which the watch lets pass.")

(defun find-symbol (name &optional (package *package*))
  "What CL:FIND-SYMBOL returns."
  (let ((*looking-up* t)) (cl:find-symbol name package)))

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
