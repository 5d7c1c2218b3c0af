;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; A map of the user's project as it is in the image: its packages, what they export, and how to
;;; call that. The same image gives the same text. Operations: image-map, list-programs.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *map-characters* 3200
  "The most characters of a map, about a thousand tokens.")

(defun packages-of-programs ()
  "The packages that aren't the implementation's, by name."
  (sort (remove-if #'implementation-package-p (list-all-packages)) #'string< :key #'package-name))

(define-operation "list-programs" ()
  ;; The names of packages and systems, for completion.
  (list :packages (mapcar #'package-name (packages-of-programs))
        :systems (loaded-systems)))

(defun source-file (symbol)
  "The file that defines SYMBOL, as text, or NIL."
  (loop for (nil location) in (found-definitions symbol)
          thereis (getf location :file)))

(defun below-p (file root)
  "Whether FILE is below ROOT, both text; the truename of FILE counts, too."
  (or (prefixed-p root file)
      (let ((true (guarded (lambda () (namestring (truename file))) (constantly nil))))
        (and (stringp true) (prefixed-p root true)))))

(defun project-package-p (package root)
  "Whether files below ROOT define the symbols of PACKAGE, judging by a few definitions."
  (let ((left 5))
    (dolist (symbol (package-symbols package t) nil)
      (when (and (eq (symbol-package symbol) package) (facet-p symbol))
        (let ((file (source-file symbol)))
          (when file
            (when (below-p file root) (return t))
            (when (zerop (decf left)) (return nil))))))))

(defun plain-case (text)
  "TEXT in lower case, unless that would change what it names."
  (if (or (some #'lower-case-p text) (find #\| text)) text (string-downcase text)))

(defun map-line (symbol package)
  "The line of the map for SYMBOL, which PACKAGE exports."
  (let* ((name (plain-case (name-in-package symbol package)))
         (kind (function-kind symbol))
         (*package* package)
         (arguments (and kind (arglist-text symbol)))
         (inner (and arguments (prefixed-p "(" arguments)
                     (substitute #\Space #\Newline (subseq arguments 1)))))
    (cond (inner (format nil "  (~A~:[ ~;~]~A~:[~; macro~]" name (string= inner ")")
                         (plain-case inner) (string= kind "macro")))
          (t (format nil "  ~A~@[ ~A~]" name (first (kinds symbol)))))))

(defun map-text (packages most)
  "The map of PACKAGES, with at most MOST symbols of each."
  (with-output-to-string (out)
    (dolist (package packages)
      (multiple-value-bind (symbols total) (package-symbols package nil)
        (format out "~A exports ~D~:[~;:~]~%" (package-name package) total
                (and (plusp most) (plusp total)))
        (loop for symbol in symbols repeat most
              do (write-line (map-line symbol package) out))
        (when (< 0 most total)
          (format out "  and ~D more~%" (- total most)))))))

(define-operation "image-map" (root)
  ;; The packages that files below ROOT define, with what they export.
  (let ((packages (remove-if-not (lambda (package) (project-package-p package root))
                                 (remove (find-package "COMMON-LISP-USER") (packages-of-programs)))))
    (list :packages (length packages)
          :text (loop for most in '(1000 60 40 20 10 5 2 0)
                      for text = (map-text packages most)
                      when (<= (length text) *map-characters*) return text
                      finally (return (shortened text *map-characters*))))))
