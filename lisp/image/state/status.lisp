;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The image as a whole. Operation: image-status.

(cl:in-package "AGENT-Q-IMAGE")

;;; Status

(defun memory-text ()
  "How much memory the image uses, and of how much, or NIL if unknown."
  (let ((usage (or (optional-function "SB-KERNEL" "DYNAMIC-USAGE")
                   (optional-function "CCL" "%USEDBYTES")))
        (size (optional-function "SB-EXT" "DYNAMIC-SPACE-SIZE")))
    (guarded (lambda ()
               (and usage
                    (format nil "~D MB~@[ of ~D MB~]"
                            (round (funcall usage) 1048576)
                            (and size (round (funcall size) 1048576)))))
             (constantly nil))))

;;; Each thread by its name, its state and, on SBCL, the functions it is in.

(defun serving-thread-p (name)
  "Whether the thread NAME is the implementation's or the client's, which are not to be interrupted."
  (or (string= name "finalizer")
      (loop for part in '("swank" "slynk" "reader-thread" "control-thread" "indentation-cache"
                          "auto-flush" "agent-q")
              thereis (search part name :test #'char-equal))))

(defun threads-by-name ()
  "Lists of each thread, its name, and whether it may be looked into."
  (loop for thread in (backend "ALL-THREADS")
        repeat 100
        for name = (guarded (lambda () (princ-to-string (backend "THREAD-NAME" thread)))
                            (constantly "?"))
        collect (list thread name
                      (and (implementation-p "SBCL")
                           (not (eq thread (backend "CURRENT-THREAD")))
                           (not (serving-thread-p name))))))

(defun thread-lines (threads limit)
  "A line for each of THREADS, with LIMIT functions at most."
  (let* ((seen (mapcar #'first (remove-if-not #'third threads)))
         (stacks (and seen (names-in-threads seen))))
    (loop for (thread name) in threads
          for position = (position thread seen)
          for stack = (and position (nth position stacks))
          collect (format nil "~A~A" name
                          (cond (stack (thread-place stack limit))
                                ((null position) "")
                                ((not (backend "THREAD-ALIVE-P" thread)) " (has just ended)")
                                (t " (does not answer: it can't be interrupted now)"))))))

(defun threads-told (wanted)
  "Lines on all threads, or on those whose names contain WANTED."
  (unless (eq :spawn (backend "PREFERRED-COMMUNICATION-STYLE"))
    (return-from threads-told (thread-texts)))
  (let* ((all (threads-by-name))
         (chosen (if wanted
                     (remove-if-not (lambda (it) (search wanted (second it) :test #'char-equal)) all)
                     all)))
    (when (null chosen)
      (missed "No thread has a name with ~A in it, or it has ended; there are ~{~A~^, ~}."
              wanted (without-duplicates (mapcar #'second all))))
    (if (implementation-p "SBCL")
        (thread-lines chosen (if wanted 40 5))
        (thread-texts))))

(defun thread-texts ()
  "The threads and what they are doing, as far as the client knows."
  (guarded (lambda ()
             (unless (eq :spawn (backend "PREFERRED-COMMUNICATION-STYLE"))
               (return-from thread-texts
                 (list "none: calls run one after the other, and the REPL waits for them")))
             (loop for thread in (backend "ALL-THREADS")
                   repeat 40
                   collect (let ((status (guarded (lambda () (backend "THREAD-STATUS" thread))
                                                  (constantly nil))))
                             (format nil "~A~@[ (~(~A~))~]"
                                     (backend "THREAD-NAME" thread)
                                     (and status (string/= (princ-to-string status) "")
                                          (not (member (princ-to-string status)
                                                       '("running" "thread is alive")
                                                       :test #'string-equal))
                                          status)))))
           (constantly '())))

;;; What belongs to the user

(defparameter *library-places*
  '("/usr/" "/quicklisp/dists/" "/quicklisp/quicklisp/" "/.qlot/dists/" "/ocicl/" "/nix/store/"
    "/gnu/store/" "SYS:")
  "Substrings in names of installed files.")

(defvar *project-root* nil
  "The directory of the user's project, or NIL.")

(defun user-file-p (file)
  "Whether FILE is the user's own: in the project or, without one, not installed."
  (let ((name (namestring (guarded (lambda () (truename file)) (constantly file)))))
    (if *project-root*
        (prefixed-p *project-root* name)
        (notany (lambda (place) (search place name)) *library-places*))))

(defun asdf-system (name)
  (let ((find (or (optional-function "ASDF" "REGISTERED-SYSTEM")
                  (optional-function "ASDF" "FIND-SYSTEM"))))
    (and find (funcall find name))))

(defun lost-system-p (name)
  "Whether the file that defined the system NAME is gone."
  (let ((file (optional-function "ASDF" "SYSTEM-SOURCE-FILE")))
    (guarded (lambda ()
               (let ((pathname (and file (funcall file (asdf-system name)))))
                 (and pathname (null (probe-file pathname)))))
             (constantly nil))))

(defun loaded-systems ()
  "The names of the systems that ASDF has loaded and whose files still exist."
  (let ((systems (optional-function "ASDF" "ALREADY-LOADED-SYSTEMS")))
    (guarded (lambda ()
               (and systems
                    (sort (remove-if (lambda (name)
                                       (or (member name '("asdf" "uiop" "asdf-package-system")
                                                   :test #'string=)
                                           (prefixed-p "sb-" name)
                                           (lost-system-p name)))
                                     (copy-list (funcall systems)))
                          #'string<)))
             (constantly '()))))

(defun primary-system-name (system)
  "The primary system of SYSTEM, by name: \"ironclad\" for \"ironclad/core\"."
  (subseq system 0 (position #\/ system)))

(defun folder-of-system (system)
  "The source directory of SYSTEM, or NIL if unknown."
  (let ((directory (optional-function "ASDF" "SYSTEM-SOURCE-DIRECTORY")))
    (guarded (lambda ()
               (let ((found (asdf-system system)))
                 (and found directory (funcall directory found))))
             (constantly nil))))

(defun user-system-p (system)
  "Whether SYSTEM is known to be the user's own."
  (let ((directory (folder-of-system system)))
    (and directory (user-file-p directory))))

(defun in-a-system-p (file systems)
  "Whether FILE is in the directory of one of SYSTEMS."
  (loop with name = (namestring file)
        for system in systems
        for directory = (folder-of-system system)
          thereis (and directory (prefixed-p (namestring directory) name))))

(defun system-texts (systems)
  "SYSTEMS as one text for each family, the user's own first."
  (let ((families '()) (own '()) (others '()))
    (dolist (system systems)
      (incf (getf (rest (or (assoc (primary-system-name system) families :test #'string=)
                            (first (push (list (primary-system-name system) :parts 0) families))))
                  :parts)))
    (loop for (name nil parts) in (reverse families)
          for text = (format nil "~A~:[~; (+~D)~]" name (> parts 1) (1- parts))
          do (if (user-system-p name) (push text own) (push text others)))
    (append (reverse own) (reverse others))))

(defun package-file (package)
  "The file that defines PACKAGE, NIL if it was evaluated; and whether that is known."
  (let ((source (optional-function "SB-INTROSPECT" "FIND-DEFINITION-SOURCE"))
        (pathname (optional-function "SB-INTROSPECT" "DEFINITION-SOURCE-PATHNAME")))
    (if (and source pathname)
        (guarded (lambda () (values (funcall pathname (funcall source package)) t))
                 (lambda (condition) (declare (ignore condition)) (values nil t)))
        (values nil nil))))

(defun user-package-p (package systems)
  "Whether PACKAGE is the user's own: defined without a file, in the user's own file, or in a file
of none of SYSTEMS."
  (multiple-value-bind (file known) (package-file package)
    (if known
        (or (null file) (user-file-p file) (not (in-a-system-p file systems)))
        (notany (lambda (system)
                  (and (prefixed-p (primary-system-name system) (package-name package))
                       (not (user-system-p system))))
                systems))))

(defun program-packages (systems)
  "Two lists of names: the packages that the user's own code defines, and those of libraries."
  (let ((own '()) (others '()))
    (dolist (package (list-all-packages))
      (unless (or (implementation-package-p package)
                  (eq package (find-package "COMMON-LISP-USER")))
        (if (user-package-p package systems)
            (push (package-name package) own)
            (push (package-name package) others))))
    (values (sort own #'string<) (sort others #'string<))))

(defun feature-texts ()
  (loop for feature in *features*
        when (symbolp feature) collect (string-downcase (symbol-name feature))))

(defun notable-features ()
  "The features that the implementation and the machine don't already imply, latest first."
  (remove-if (lambda (feature)
               (some (lambda (prefix) (prefixed-p prefix feature))
                     '("asdf" "uiop" "sb-" "os-" "swank" "slynk" "ansi-cl" "common-lisp" "ieee-"
                       "elf" "gencgc" "non-base" "package-local" "little-endian")))
             (feature-texts)))

(defun without-duplicates (texts)
  "TEXTS without duplicates; repeated ones say how often they occur."
  (loop for text in (remove-duplicates texts :test #'string= :from-end t)
        for count = (count text texts :test #'string=)
        collect (format nil "~A~:[~; ×~D~]" text (> count 1) count)))

(defun first-few (texts most)
  "At most MOST of TEXTS, and how many more there are."
  (if (> (length texts) (1+ most))
      (append (subseq texts 0 most) (list (format nil "~D more" (- (length texts) most))))
      texts))

(defun running-texts ()
  "Our running calls, except the one that asks."
  (loop for entry in *running*
        for (id nil nil operation start) = entry
        unless (eql id *call*)
          collect (format nil "~A for ~D s~@[ (~A)~]" operation
                          (round (- (get-internal-real-time) start)
                                 internal-time-units-per-second)
                          (stage-text entry))))

(defun status-part (part limit offset thread)
  "A page of PART of the status, of which the summary has only the beginning."
  (let* ((items (cond ((string= part "systems") (loaded-systems))
                      ((string= part "packages")
                       (multiple-value-call #'append (program-packages (loaded-systems))))
                      ((string= part "features") (feature-texts))
                      ((string= part "threads") (threads-told thread))
                      (t (missed "Unknown part of the status ~A: expected systems, packages, features or threads."
                                 part))))
         (offset (max 0 (or offset 0))))
    (list :part part :total (length items) :offset offset
          :items (page items offset (page-size limit 100 500)))))

(defun status-summary ()
  (let ((systems (loaded-systems)))
    (multiple-value-bind (own libraries) (program-packages systems)
      (list :implementation (let ((version (lisp-implementation-version)))
                              (format nil "~A ~A" (implementation-name)
                                      (subseq version 0 (search " (" version))))
            ;; CLISP tells how its C compiler was called.
            :machine (format nil "~@[~A ~]~@[~A~]"
                             (unless (implementation-p "CLISP") (software-type))
                             (machine-type))
            :client (if (eq *client* :slynk) "SLY" "SLIME")
            :directory (printed *default-pathname-defaults* :writer #'princ :limit 300)
            :memory (memory-text)
            :threads (first-few (without-duplicates (thread-texts)) 10)
            :packages (length (list-all-packages))
            :own-packages (first-few own 15)
            :library-packages (length libraries)
            :system-count (length systems)
            :systems (first-few (system-texts systems) 30)
            :features (first-few (notable-features) 8)
            :running (running-texts)))))

(define-operation "image-status" (part limit offset thread file)
  ;; What the image is and what is happening in it, in short; or all of one PART, in pages. FILE is
  ;; the directory of the user's project; THREAD, part of the names of the threads to tell of.
  (let ((*project-root* (and file (concatenate 'string (string-right-trim "/" file) "/"))))
    (if (or part thread)
        (status-part (or part "threads") limit offset thread)
        (status-summary))))
