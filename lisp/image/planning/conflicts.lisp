;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; What of the packages that files define will conflict with those that the image has, if the files are
;;; loaded into it.

(cl:in-package "AGENT-Q-IMAGE")

(defun in-conflict-p (name package home)
  "The symbol called NAME that PACKAGE of the image has, if that isn't the one of the package HOME and
would be in the way of it."
  (multiple-value-bind (symbol status) (find-symbol name package)
    (and status
         (not (member symbol (package-shadowing-symbols package)))
         (symbol-package symbol)
         (string/= home (package-name (symbol-package symbol)))
         symbol)))

(defun tell-conflict (written name symbol control &rest arguments)
  (snag (written-package-rank written)
         "~A: ~? Loading this here ends with a name conflict. ~A is in the way: unintern it, or start from a fresh image."
         (place-of-package written) control arguments (symbol-text symbol)
         (shown-name name)))

(defun find-export-conflicts (written package)
  "Find new exports of WRITTEN that packages of the image which use PACKAGE have symbols for."
  (dolist (name (planned-package-exports written))
    (let ((home (and (not (eq :external (nth-value 1 (find-symbol name package))))
                     (home-of-name name (planned-package-name written)))))
      (when home
        (dolist (user (package-used-by-list package))
          (let ((symbol (in-conflict-p name user home)))
            (when symbol
              (tell-conflict written name symbol "the package ~A exports ~A now, and ~A uses it."
                             (package-name package) (shown-name name) (package-name user))
              (return))))))))

(defun find-use-conflicts (written package)
  "Find names of packages that WRITTEN uses now and PACKAGE, of the image, has symbols for."
  (dolist (use (planned-package-uses written))
    (unless (member (find-package use) (package-use-list package))
      (dolist (name (external-names use))
        (let* ((home (and (not (decided-p name written)) (home-of-name name use)))
               (symbol (and home (in-conflict-p name package home))))
          (when symbol
            (tell-conflict written name symbol "the package ~A uses ~A now, which exports ~A."
                           (package-name package) (shown-name use) (shown-name name))
            (return)))))))

(defun find-import-conflicts (written package)
  "Find symbols that WRITTEN imports now and PACKAGE, of the image, has others for."
  (loop for (name . from) in (planned-package-imports written)
        do (let* ((home (and (not (decided-p name written)) (home-of-name name from)))
                  (symbol (and home (in-conflict-p name package home))))
             (when symbol
               (tell-conflict written name symbol "the package ~A imports ~A from ~A now."
                              (package-name package) (shown-name name) (shown-name from))))))

(defun find-lost-exports (written package)
  "Find what PACKAGE, of the image, exports and WRITTEN doesn't."
  (let ((lost '()))
    (when (implementation-p "SBCL")
      (do-external-symbols (symbol package)
        (unless (member (symbol-name symbol) (planned-package-exports written) :test #'string=)
          (push (symbol-name symbol) lost))))
    (when lost
      (snag (written-package-rank written)
             "~A: the package ~A of the image exports ~A, which its definition doesn't: SBCL warns of that, and ~
              ASDF then refuses the file. Unexport ~:[it~;them~], or load with the restart continue."
             (place-of-package written) (package-name package) (few-names (sort lost #'string<)) (rest lost)))))

(defun find-conflicts (written)
  "Find what the definition WRITTEN will conflict with in the image, where it is loaded."
  (let ((package (find-package (planned-package-name written))))
    (when (and package
               (string= "DEFPACKAGE" (written-package-operator written))
               (eq written (package-written-once (planned-package-name written)))
               (not (written-package-more written)))
      (find-export-conflicts written package)
      (find-use-conflicts written package)
      (find-import-conflicts written package)
      (find-lost-exports written package))))
