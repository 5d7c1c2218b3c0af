;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Running programs, in words: what is run, and what it gets besides its arguments, unless that is
;;; the default: this process's directory and environment, and no input.

(cl:in-package "AGENT-Q-IMAGE")

;;; The command line

(defun last-part (name)
  (subseq name (1+ (or (position #\/ name :from-end t) -1))))

(defun shell-word (text)
  "TEXT quoted for a shell, so that no two texts look the same and none can be confused with its
surroundings."
  (if (and (plusp (length text))
           (every (lambda (it) (or (and (alphanumericp it) (< (char-code it) 128))
                                   (find it "%+-./:=@_")))
                  text))
      text
      (with-output-to-string (out)
        (write-char #\' out)
        (loop for character across text
              do (write-string (if (char= character #\') "'\\''" (string character)) out))
        (write-char #\' out))))

(defun shell-words (texts)
  (format nil "~{~A~^ ~}" (mapcar #'shell-word texts)))

(defun shell-command (program arguments)
  "The command text given to PROGRAM, if it is a shell."
  (and (member (last-part program) '("sh" "bash" "dash" "zsh" "ksh" "ash" "csh" "fish")
               :test #'string=)
       (equal (first arguments) "-c")
       (null (cddr arguments))
       (second arguments)))

(defparameter *longest-command* 100000
  "How many characters a program may be given so that the user can still look at all of them.")

(defun check-length (texts)
  (when (> (reduce #'+ texts :key #'length) *longest-command*)
    (error 'effect-denied :words "run a program with more text than anybody could read")))

;;; The effect

(defun program-effect (program arguments &optional options)
  "The effect of running PROGRAM with ARGUMENTS (:UNKNOWN if they are) and OPTIONS, those of
RUN-PROGRAM."
  (let* ((program (text-of-name program))
         (known (listp arguments))
         (arguments (and known (mapcar #'princ-to-string arguments)))
         (words (cons program arguments))
         (shell (shell-command program arguments))
         (situation (situation-texts options)))
    (check-length (append words situation))
    (make-effect :kind "run-program"
                 :words (format nil "run `~A`~:[~; in a shell~]~@[ ~{~A~^, ~}~]"
                                (or shell (shell-words words)) shell
                                (if known situation
                                    (cons "with unknown arguments" situation)))
                 :target (and known (comparable-p options) (exact-line words options))
                 :texts (and known (list (exact-line words options)))
                 :detail (if known (exact-line words (list* :input nil options)) (list program))
                 :more (list :program (program-file program options)
                             :directory (directory-of-program options)))))

(defun exact-line (words options)
  "Everything that a program gets, with its name first in WORDS, as a unique text."
  (format nil "~A~{, ~A~}" (shell-words words) (situation-texts options t)))

(defun program-file (name options)
  "The real name of the file that NAME runs, if there is one."
  (let ((directory (directory-of-program options)))
    (flet ((file (name)
             (let ((name (absolute-name name directory)))
               (and (executable-p name) (unix-name "UNIX-REALPATH" name)))))
      (if (or (find #\/ name) (not (getf options :search)))
          (file name)
          (loop with path = (or (setting-of "PATH" options) "")
                for start = 0 then (1+ end)
                for end = (position #\: path :start start)
                for found = (file (format nil "~A/~A" (subseq path start end) name))
                when found return found
                while end)))))

(defun executable-p (name)
  (let ((mode (fourth (multiple-value-list (internal "SB-UNIX" "UNIX-STAT" name)))))
    (and (integerp mode) (logtest #o111 mode) (= #o100000 (logand #o170000 mode)))))

(defun setting-of (name options)
  "The value of the environment variable NAME for the program of OPTIONS."
  (let* ((given (given-environment options))
         (settings (if (eq given :inherited) (usual-environment) given))
         (found (find name settings :key #'variable-name :test #'equal)))
    (and found (subseq found (1+ (length name))))))

(defun directory-of-program (options)
  (let ((directory (getf options :directory)))
    (format nil "~A/" (string-right-trim
                       "/" (if directory
                               (real-native-name (internal "SB-EXT" "NATIVE-NAMESTRING" directory))
                               (unix-name "UNIX-REALPATH" "."))))))

(defun effect-of-command (arguments)
  "The effect of running a program through UIOP: a text for the shell, or a list."
  (destructuring-bind (command &rest options) arguments
    ;; UIOP searches the directories of PATH for each.
    (if (consp command)
        (program-effect (first command) (rest command) (list* :search t options))
        (program-effect "/bin/sh" (list "-c" (princ-to-string command)) (list* :search t options)))))

(defun input-put-into-file-p (arguments)
  "Whether UIOP puts the program's input into a temporary file."
  (not (typep (getf (rest arguments) :input) '(or string pathname stream symbol))))

(defun effect-of-run-program (arguments)
  (destructuring-bind (program given &rest options) arguments
    (program-effect program given options)))

(defun effect-of-spawn (arguments)
  (destructuring-bind (program words stdin stdout stderr search environment pty channel directory
                       &rest more)
      arguments
    (declare (ignore stdin stdout stderr pty channel more))
    (let ((words (native-texts words)) (settings (native-texts environment)))
      (program-effect program
                      (if (listp words) (rest words) words)
                      (append (and directory (list :directory directory))
                              (and settings
                                   (list :environment
                                         (if (listp settings) settings '("what is not known"))))
                              ;; Some programs depend on the name by which they are called.
                              (unless (or (atom words) (equal (first words) (text-of-name program)))
                                (list :called (first words)))
                              (list :search (not (eql search 0))))))))

(defun native-texts (texts)
  "TEXTS, a list, or the address of a C array of strings, as a list."
  (cond ((listp texts) texts)
        ((not (internal "SB-SYS" "SYSTEM-AREA-POINTER-P" texts)) :unknown)
        ((zerop (internal "SB-SYS" "SAP-INT" texts)) '())
        (t (loop for offset from 0 by 8
                 for address = (internal "SB-SYS" "SAP-REF-64" texts offset)
                 until (zerop address) collect (foreign-text address)))))

;;; Besides the arguments

(defun situation-texts (options &optional exactly)
  "What OPTIONS of RUN-PROGRAM give a program besides its arguments. EXACTLY: so that it can be
compared with others."
  (remove nil (append (list (and (getf options :called)
                                 (format nil "called ~A" (shell-word (princ-to-string
                                                                      (getf options :called)))))
                            (directory-text options exactly))
                      (environment-texts options exactly)
                      (list (input-text (getf options :input) exactly)))))

(defun comparable-p (options)
  "Whether a rule can recognize what OPTIONS give a program. Rules must not contain secrets."
  (let ((given (given-environment options)) (input (getf options :input)))
    (and (or (typep input '(or null string pathname))
             (and (streamp input) (string-left input) t))
         (or (eq given :inherited)
             (notany (lambda (it) (secret-setting-p it)) given)))))

(defun directory-text (options exactly)
  (let ((name (directory-of-program options)))
    (unless (equal name (directory-of-program '()))
      (format nil "in ~A" (if exactly (shell-word name) name)))))

(defun environment-texts (options exactly)
  (let ((given (given-environment options)))
    (unless (eq given :inherited)
      (let* ((usual (usual-environment))
             (new (set-difference given usual :test #'equal))
             (names (mapcar #'variable-name given))
             (missing (remove-if (lambda (name) (member name names :test #'equal))
                                 (mapcar #'variable-name usual))))
        (list (and new (format nil "with ~A"
                               (if exactly
                                   (shell-words (sort (copy-list new) #'string<))
                                   (format nil "~{~A~^ ~}" (mapcar #'setting-text (reverse new))))))
              (and missing
                   (if exactly
                       (format nil "without ~A" (shell-words (sort (copy-list missing) #'string<)))
                       (listed-text "without" missing))))))))

(defun given-environment (options)
  "The environment that OPTIONS give a program, as texts like A=b."
  (let ((given (getf options :environment :inherited)))
    (cond ((listp given) (mapcar #'princ-to-string given))
          ((getf options :env)
           (loop for (name . value) in (getf options :env)
                 collect (format nil "~A=~A" name value)))
          (t :inherited))))

(defun usual-environment ()
  "The environment of this process, read past the guard on the function for it."
  (let* ((name (find-symbol "WRAPPED-ENVIRON" "SB-IMPL"))
         (function (and name (fboundp name) (unguarded (fdefinition name)))))
    (and function (internal "SB-INT" "C-STRINGS->STRING-LIST" (funcall function)))))

(defun unguarded (function)
  "FUNCTION without its encapsulations."
  (loop for info = (internal "SB-IMPL" "ENCAPSULATION-INFO" function)
        while info
        do (setf function (internal "SB-IMPL" "ENCAPSULATION-INFO-DEFINITION" info)))
  function)

(defun variable-name (setting)
  (subseq setting 0 (position #\= setting)))

(defun setting-text (setting)
  "SETTING of a variable, without anything that may be secret."
  (if (secret-setting-p setting)
      (format nil "~A=..." (variable-name setting))
      (shell-word setting)))

(defun secret-setting-p (setting)
  (let ((name (variable-name setting)))
    (secret-variable-p name (subseq setting (min (length setting) (1+ (length name)))))))

(defun listed-text (word texts)
  "WORD and the first of TEXTS, with how many more there are."
  (let ((more (nthcdr 5 texts)))
    (format nil "~A ~{~A~^ ~}~@[ and ~D more~]" word
            (if more (subseq texts 0 5) texts)
            (and more (length more)))))

(defun input-text (input exactly)
  "Where a program's input comes from, or NIL for no input."
  (flet ((file (name)
           (format nil "reading ~A" (if exactly (shell-word (real-name name)) (real-name name)))))
    (typecase input
      (null nil)
      ((member t :interactive) "reading what this Lisp reads")
      ((or (member :stream) function) "reading what the code writes")
      ((or string pathname) (file input))
      (stream (let ((text (string-left input)))
                (cond ((and text exactly) (format nil "reading the text ~A" (shell-word text)))
                      (text (format nil "reading ~S" (shortened text 10000)))
                      ((and (typep input 'file-stream) (ignore-errors (truename input)))
                       (file (truename input)))
                      (t "reading a stream"))))
      (t (format nil "reading ~A" (printed input :limit 10000))))))

(defun string-left (stream)
  "The unread text of STREAM, if it is a string stream."
  (let ((type (find-symbol "STRING-INPUT-STREAM" "SB-IMPL")))
    (when (and type (typep stream type))
      (ignore-errors
       (let ((place (file-position stream)))
         (prog1 (with-output-to-string (text)
                  (loop for character = (read-char stream nil)
                        while character do (write-char character text)))
           (file-position stream place)))))))

(defun with-own-input (arguments)
  "ARGUMENTS of RUN-PROGRAM with the input text in a stream of our own: other code can't change it
while the user looks at it."
  (let ((text (ignore-errors (string-left (getf (cddr arguments) :input)))))
    (if text
        (list* (first arguments) (second arguments) :input (make-string-input-stream text)
               (cddr arguments))
        arguments)))

(defun input-copy-p (effect)
  "Whether EFFECT is on a temporary file for input that SBCL copies from a stream."
  (and (member (effect-kind effect) '("write-file" "delete-file") :test #'equal)
       (effect-files effect)
       (every (lambda (name)
                (let ((name (last-part name)))
                  (and (prefixed-p ".run-program-" name) (= (length name) 19))))
              (effect-files effect))))
