;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What opens files to read them. That is no harm, unless the text names a file that the user keeps
;;; private; it is Emacs's half that knows which those are.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *file-readers*
  '("READ-FILE" "SAFE-READ-FILE" "WITH-INPUT-FILE" "WITH-INPUT-FROM-FILE" "CALL-WITH-INPUT-FILE"
    "SLURP" "FILE-STRING" "FROM-FILE" "FILE-CONTENTS" "MAP-FILE-LINES")
  "How the names of functions and macros begin that read a file, whatever library has them.")

(defun note-reader (symbol)
  "Note that the text opens files when SYMBOL is an operator that does so to read them."
  (when (or (member symbol '(open with-open-file))
            (and (fboundp symbol)
                 (some (lambda (name) (prefixed-p name (symbol-name symbol))) *file-readers*)))
    (setf (findings-opens *findings*) t)))
