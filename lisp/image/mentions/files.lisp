;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The files of loaded systems, in the order in which they are loaded, and those of them that may
;;; use what another one defines. Operation: file-known.

(cl:in-package "AGENT-Q-IMAGE")

(defun dependent-systems (system loaded)
  "Those of LOADED, systems, that need SYSTEM, also by way of others, and itself."
  (let ((names (list (system-name system))))
    (loop for more = (loop for other in loaded
                           for name = (system-name other)
                           unless (member name names :test #'equal)
                             when (loop for (needed) in (needed-by other name)
                                        thereis (member needed names :test #'equal))
                               collect name)
          while more do (setf names (append names more)))
    (remove-if-not (lambda (it) (member (system-name it) names :test #'equal)) loaded)))

(defun project-systems (&optional (loaded (systems-in-image)))
  "Those of LOADED, systems, that are the project's."
  (remove-if-not (lambda (it) (entry-named (system-name it))) loaded))

(defun systems-around (file)
  "The loaded systems that may use what FILE defines, in order: its own, those that need it, and the
project's."
  (let* ((loaded (systems-in-image))
         (component (component-of-file file))
         (own (and component (asdf-call "COMPONENT-SYSTEM" component))))
    (in-order-of-needs
     (union (and own (dependent-systems own loaded)) (project-systems loaded)))))

(defun loose-files (file)
  "Files near FILE or in the project that the image was given by hand, as far as our own calls and the
places of packages tell."
  (let ((folders (cons (directory-part file)
                       (remove "" (mapcar #'root-of *project-systems*) :test #'string=))))
    (remove-if-not (lambda (it) (find-if (lambda (folder) (prefixed-p folder it)) folders))
                   (append (loop for key being the hash-keys of *read-dates* collect key)
                           (loop for package in (list-all-packages)
                                 for source = (and (not (implementation-package-p package))
                                                   (package-source package))
                                 when source collect source)))))

(defun files-around (file)
  "The loaded files that may use what FILE defines, in order, itself, and those loaded by hand."
  (let ((files (loop for system in (systems-around file)
                     append (loop for component in (lisp-components system)
                                  for name = (component-name-of-file component)
                                  when name collect name))))
    (remove-duplicates (append files (list file) (loose-files file))
                       :key #'file-key :test #'equal :from-end t)))

(defun shown-file (file)
  "FILE as people write it: relative to the project's directory, if it is in there."
  (let ((root (find-if (lambda (root) (and (string/= root "") (prefixed-p root file)))
                       (mapcar #'root-of *project-systems*))))
    (subseq file (length (or root "")))))

;;; Whether the image has a file

(defun from-file-p (name package key)
  "Whether the image has the definition of NAME in PACKAGE from the file with KEY."
  (let ((symbol (symbol-of-source (coerce name '(simple-array character (*))) 0 (length name) package)))
    (when symbol
      (or (loop for function in (append (functions-of symbol) (functions-of (list 'setf symbol)))
                for (from) = (source-of-function function)
                thereis (and from (equal key (file-key from))))
          (loop for (nil location) in (guarded (lambda () (found-definitions symbol)) (constantly '()))
                thereis (and (getf location :file) (equal key (file-key (getf location :file)))))))))

(define-operation "file-known" (file package names)
  ;; Whether the image has loaded the source FILE, which is in PACKAGE and defines NAMES, or the system
  ;; that it is in.
  (let ((package (find-package (string-upcase (or package "COMMON-LISP-USER"))))
        (key (file-key file)))
    (list :known (and package
                      (or (loop for name in names thereis (and (plusp (length name)) (from-file-p name package key)))
                          (let ((component (component-of-file file)))
                            (and component (not (failed-p component)))))
                      t))))
