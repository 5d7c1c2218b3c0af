;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What consent to building a system, or to compiling a file or a form, covers by itself: files of
;;; the system and of those it depends on, what is compiled from them and where that is kept, and
;;; temporary files. Whatever else their code does is asked about as elsewhere.

(cl:in-package "AGENT-Q-IMAGE")

(defun scope-of (operation arguments)
  "What the operation stands for by itself: a list of names of systems after :BUILD, :COMPILE, or NIL."
  (cond ((member operation '("load-system" "run-tests") :test #'equal)
         (let ((system (getf arguments :system)))
           (cons :build (and system (list (system-name-of-text system))))))
        ((member operation '("compile-file" "compile-form") :test #'equal) (list :compile))))

(defun in-scope-p (scope effect)
  (or (contrib-p effect)
      (case (first scope)
        (:build (or (building-p (rest scope) effect) (temporary-file-effect-p effect)))
        (:compile (compiling-p effect)))))

;;; Names

(defun directory-name (designator)
  "The real name of the directory DESIGNATOR, with a slash; NIL when it has none."
  (let ((native (and designator (native-text designator))))
    (and native
         (format nil "~A/" (string-right-trim "/" (followed native))))))

(defun within-p (name directory)
  (and directory
       (> (length name) (length directory) 1)
       (string= directory name :end2 (length directory))))

(defun all-within-p (effect directory)
  (and (effect-files effect)
       (every (lambda (name) (within-p (format nil "~A/" name) directory)) (effect-files effect))))

(defun file-kind-name-p (kind)
  (member kind
          '("write-file" "delete-file" "rename-file" "make-directory" "change-attributes" "load-file")
          :test #'equal))

(defun file-kind-p (effect)
  (file-kind-name-p (effect-kind effect)))

(defun contrib-p (effect)
  "Whether EFFECT is to load what comes with the implementation."
  (and (equal (effect-kind effect) "load-file")
       (all-within-p effect (directory-name
                             (guarded (lambda () (internal "SB-INT" "SBCL-HOMEDIR-PATHNAME"))
                                      (constantly nil))))))

;;; Systems

(defun asdf-value (name &rest arguments)
  "What ASDF's function NAME says, or NIL, also when there is no ASDF yet."
  (let ((function (optional-function "ASDF" name)))
    (and function
         (guarded (lambda () (apply function arguments)) (constantly nil)))))

(defun cache-directory ()
  "Where ASDF keeps what it compiles, by the user's settings."
  (let ((name (directory-name (asdf-value "APPLY-OUTPUT-TRANSLATIONS" #p"/"))))
    (if (equal name "/") nil name)))

(defun dependencies (names)
  "The systems NAMES, and those that they depend on as far as ASDF knows them by now."
  (let ((found '()) (open names))
    (loop while open
          do (let* ((name (pop open))
                    (system (and (or (stringp name) (symbolp name))
                                 (asdf-value "REGISTERED-SYSTEM" (string-downcase name)))))
               (when (and system (not (member system found)))
                 (push system found)
                 (setf open (append (asdf-value "SYSTEM-DEPENDS-ON" system)
                                    (asdf-value "SYSTEM-DEFSYSTEM-DEPENDS-ON" system)
                                    open)))))
    found))

(defun system-directory-p (effect systems)
  (loop for system in systems
          thereis (all-within-p effect
                                (directory-name (asdf-value "SYSTEM-SOURCE-DIRECTORY" system)))))

(defun building-p (names effect)
  "Whether EFFECT belongs to building the systems NAMES."
  (cond ((equal (effect-kind effect) "foreign-code")
         (or (null (effect-files effect)) (library-of-system-p effect)))
        ;; What is to be done when the process ends or is saved is a library's own affair.
        ((equal (effect-kind effect) "take-over")
         (member (effect-target effect) '("*EXIT-HOOKS*" "*INIT-HOOKS*" "*SAVE-HOOKS*")
                 :test #'equal))
        ((not (file-kind-p effect)) nil)
        ((null (effect-files effect)) (equal (effect-kind effect) "load-file"))
        ((all-within-p effect (cache-directory)))
        ((system-directory-p effect (dependencies names)))
        ;; Code that is loaded is under the watch itself.
        ((equal (effect-kind effect) "load-file")
         (or (equal "asd" (pathname-type (first (effect-files effect))))
             (system-directory-p effect (mapcar (lambda (name)
                                                  (asdf-value "REGISTERED-SYSTEM" name))
                                                (asdf-value "REGISTERED-SYSTEMS")))))))

(defun library-of-system-p (effect)
  "Whether the library of EFFECT is one of the operating system's, not one that somebody left about."
  (let ((given (second (effect-texts effect))))
    (or (not (find #\/ given))
        (loop for directory in '("/lib/" "/lib64/" "/usr/lib/" "/usr/lib64/" "/usr/local/lib/"
                                 "/opt/homebrew/")
                thereis (within-p (first (effect-files effect)) directory)))))

(defun effect-of-operate (arguments)
  "Having ASDF build a system."
  (let ((name (let ((component (second arguments)))
                (if (or (stringp component) (symbolp component))
                    (string-downcase component)
                    (or (asdf-value "COMPONENT-NAME" component) "a system")))))
    (make-effect :kind "load-file" :target name :texts (list name)
                 :words (format nil "build the system ~A" name))))

;;; What is compiled for the call

(defun compiling-p (effect)
  "Whether EFFECT is about the files by which the client and we compile something."
  (let ((directories (list (directory-name "/tmp/")
                           (directory-name (guarded (lambda () (internal "UIOP" "TEMPORARY-DIRECTORY"))
                                                    (constantly nil))))))
    (and (file-kind-p effect)
         (effect-files effect)
         (every (lambda (name)
                  (and (member (directory-part name) directories :test #'equal)
                       (loop for start in '("slime" "sly" "agent-q-")
                               thereis (eql 0 (search start (last-part name))))))
                (effect-files effect)))))
