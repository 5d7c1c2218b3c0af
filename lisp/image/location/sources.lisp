;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Where the sources of libraries and of the implementation are. Operation: source-places.

(cl:in-package "AGENT-Q-IMAGE")

(defun asdf-says (name &rest arguments)
  "The value of ASDF's function NAME, or NIL, also without ASDF."
  (let ((function (optional-function "ASDF" name)))
    (and function
         (guarded (lambda () (apply function arguments)) (constantly nil)))))

(defun file-name-text (pathname)
  "The native name of PATHNAME, or NIL."
  (and pathname
       (guarded (lambda ()
                  (funcall (or (optional-function "UIOP" "NATIVE-NAMESTRING") #'namestring)
                           (translate-logical-pathname pathname)))
                (constantly nil))))

(defun definitions-of-systems ()
  "The names of the files that define the systems known to ASDF. It also registers systems before
they are defined."
  (remove-duplicates
   (loop for name in (asdf-says "REGISTERED-SYSTEMS")
         for system = (asdf-says "REGISTERED-SYSTEM" name)
         for file = (and system
                         (string/= "UNDEFINED-SYSTEM" (symbol-name (type-of system)))
                         (file-name-text (asdf-says "SYSTEM-SOURCE-FILE" system)))
         when file collect file)
   :test #'string=))

(defun implementation-source ()
  "A list of one file in the implementation's sources, if they are here."
  (loop for name in '("SYS:SRC;CODE;COLD-INIT.LISP" "CCL:LEVEL-1;L1-INIT.LISP")
        for file = (guarded (lambda () (probe-file name)) (constantly nil))
        when file return (list (file-name-text file))))

(defun source-trees ()
  "The names of the directories where ASDF looks for systems by the user's own settings, not by what
a program told it."
  (let ((flatten (optional-function "ASDF/SOURCE-REGISTRY" "FLATTEN-SOURCE-REGISTRY")))
    (and flatten
         (loop for (directory) in (guarded (lambda () (funcall flatten nil)) (constantly '()))
               for name = (file-name-text directory)
               when name collect name))))

(defun definition-of-system (name)
  "The name of the file that defines the system NAME, or NIL. Nothing is loaded to find it."
  (let* ((name (string-downcase (string-left-trim "#:'" (string-trim "\" " name))))
         (primary (subseq name 0 (position #\/ name))))
    (file-name-text (or (asdf-says "SYSTEM-SOURCE-FILE" (or (asdf-says "REGISTERED-SYSTEM" name)
                                                            (asdf-says "REGISTERED-SYSTEM" primary)))
                        (guarded (lambda ()
                                   (nth-value 2 (funcall (optional-function "ASDF" "LOCATE-SYSTEM")
                                                         primary)))
                                 (constantly nil))))))

(define-operation "source-places" (system)
  ;; Files that show where sources are, and directories that have more of them; and the file that
  ;; defines SYSTEM.
  (list :files (append (definitions-of-systems) (implementation-source))
        :trees (source-trees)
        :definition (and system (definition-of-system system))))
