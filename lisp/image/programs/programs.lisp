;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Running programs, in words: what is run, and what it is given besides its arguments where that is
;;; not what a program has without a word: this process's directory and environment, and no input.

(cl:in-package "AGENT-Q-IMAGE")

(defun plain-command-p (text)
  "Whether a shell takes TEXT for one program and its arguments."
  (notany (lambda (character) (find character "|&;<>()$`\\\"'*?[]#~={}!
")) text))

(defun first-word (text)
  (let ((text (string-left-trim " " text)))
    (subseq text 0 (position #\Space text))))

(defun last-part (name)
  (subseq name (1+ (or (position #\/ name :from-end t) -1))))

(defun shell-command (program arguments)
  "The text that PROGRAM, if it is a shell, is given to run."
  (and (member (last-part program) '("sh" "bash" "dash" "zsh" "ksh" "ash" "csh" "fish")
               :test #'string=)
       (equal (first arguments) "-c")
       (null (cddr arguments))
       (second arguments)))

(defun program-line (program arguments)
  "What one types at a shell to run PROGRAM with ARGUMENTS, and whether a shell is given that."
  (let* ((program (text-of-name program))
         (arguments (mapcar #'princ-to-string arguments))
         (command (shell-command program arguments)))
    (values (or command (format nil "~A~{ ~A~}" program arguments))
            (and command t))))

(defun program-effect (program arguments &optional options)
  "The effect of running PROGRAM with ARGUMENTS and OPTIONS, those of RUN-PROGRAM."
  (multiple-value-bind (line shell) (program-line program arguments)
    (let ((more (situation-text options)))
      (make-effect :kind "run-program"
                   :words (format nil "run `~A`~@[ ~A~]" (shortened line 2000) more)
                   :target (if (and shell (plain-command-p line))
                               (last-part (first-word line))
                               (last-part (text-of-name program)))
                   :texts (list (line-with-situation line more))
                   :detail (line-with-situation
                            line (situation-text (list* :input nil options)))))))

(defun line-with-situation (line situation)
  "LINE, which runs a program, as the text of a consent has it."
  (format nil "~A~@[ ~A~]" line situation))

(defun effect-of-command (arguments)
  "Running a program as UIOP takes it: a text for the shell or a list."
  (destructuring-bind (command &rest options) arguments
    (if (consp command)
        (program-effect (first command) (rest command) options)
        (program-effect "/bin/sh" (list "-c" (princ-to-string command)) options))))

(defun input-put-into-file-p (arguments)
  "Whether UIOP puts what a program is to read into a file of its own making."
  (not (typep (getf (rest arguments) :input) '(or string pathname stream symbol))))

(defun effect-of-run-program (arguments)
  (destructuring-bind (program given &rest options) arguments
    (program-effect program given options)))

(defun effect-of-spawn (arguments)
  (program-effect (first arguments) (rest (second arguments))))

;;; Besides its arguments

(defun situation-text (options)
  "What OPTIONS of RUN-PROGRAM give a program besides its arguments, or NIL."
  (let ((texts (remove nil (list (directory-text (getf options :directory))
                                 (environment-text options)
                                 (input-text (getf options :input))))))
    (and texts (format nil "~{~A~^, ~}" texts))))

(defun directory-text (directory)
  (when directory
    (let ((name (string-right-trim
                 "/" (real-native-name (internal "SB-EXT" "NATIVE-NAMESTRING" directory)))))
      (unless (equal name (string-right-trim "/" (unix-name "UNIX-REALPATH" ".")))
        (format nil "in ~A/" name)))))

(defun environment-text (options)
  (let ((given (given-environment options)))
    (unless (eq given :inherited)
      (let* ((usual (usual-environment))
             (new (set-difference given usual :test #'equal))
             (names (mapcar #'variable-name given))
             (missing (remove-if (lambda (name) (member name names :test #'equal))
                                 (mapcar #'variable-name usual)))
             (texts (remove nil (list (and new (listed-text "with" (mapcar #'setting-text
                                                                           (reverse new))))
                                      (and missing (listed-text "without" missing))))))
        (and texts (format nil "~{~A~^ and ~}" texts))))))

(defun given-environment (options)
  "The environment that OPTIONS give to a program, as texts like A=b."
  (let ((given (getf options :environment :inherited)))
    (cond ((listp given) (mapcar #'princ-to-string given))
          ((getf options :env)
           (loop for (name . value) in (getf options :env)
                 collect (format nil "~A=~A" name value)))
          (t :inherited))))

(defun usual-environment ()
  "That of this process, past the guard at the function for it."
  (ignore-errors
   (internal "SB-INT" "C-STRINGS->STRING-LIST" (internal "SB-IMPL" "WRAPPED-ENVIRON"))))

(defun variable-name (setting)
  (subseq setting 0 (position #\= setting)))

(defun setting-text (setting)
  "SETTING of a variable, without what may be a secret."
  (let ((name (variable-name setting)))
    (if (secret-name-p name)
        (format nil "~A=..." name)
        (shortened setting 100))))

(defun listed-text (word texts)
  "WORD and the first of TEXTS, with how many more there are."
  (let ((more (nthcdr 5 texts)))
    (format nil "~A ~{~A~^ ~}~@[ and ~D more~]" word
            (if more (subseq texts 0 5) texts)
            (and more (length more)))))

(defun input-text (input)
  "Where what a program reads comes from, if that isn't nowhere."
  (typecase input
    (null nil)
    ((member t :interactive) "reading what this Lisp reads")
    ((or (member :stream) function) "reading what the code writes")
    ((or string pathname) (format nil "reading ~A" (real-name input)))
    (stream (stream-input-text input))
    (t (format nil "reading ~A" (printed input :limit 200)))))

(defun stream-input-text (stream)
  (let ((text (string-left stream)))
    (cond (text (format nil "reading ~S" (shortened text 500)))
          ((and (typep stream 'file-stream) (ignore-errors (truename stream)))
           (format nil "reading ~A" (real-name (truename stream))))
          (t "reading a stream"))))

(defun string-left (stream)
  "The text that STREAM, if it is one of a string, has not given yet."
  (let ((type (find-symbol "STRING-INPUT-STREAM" "SB-IMPL")))
    (when (and type (typep stream type))
      (ignore-errors
       (let* ((place (file-position stream))
              (text (make-string 1000))
              (end (read-sequence text stream)))
         (file-position stream place)
         (subseq text 0 end))))))

(defun input-copy-p (effect)
  "Whether EFFECT is on a file into which SBCL puts what a program is to read from a stream."
  (and (member (effect-kind effect) '("write-file" "delete-file") :test #'equal)
       (effect-files effect)
       (every (lambda (name)
                (let ((name (last-part name)))
                  (and (prefixed-p ".run-program-" name) (= (length name) 19))))
              (effect-files effect))))
