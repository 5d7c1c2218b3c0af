;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Systems loaded through ASDF, with what the compiler said about their files. Operation:
;;; load-system.

(cl:in-package "AGENT-Q-IMAGE")

(defun asdf-function (name)
  "ASDF's function NAME, which is loaded first where it comes with the implementation."
  (unless (find-package "ASDF")
    (guarded (lambda () (require "ASDF")) (constantly nil)))
  (or (optional-function "ASDF" name)
      (missed "ASDF is not loaded in this image, so that it knows no systems.")))

(defun system-name-of-text (text)
  (string-downcase (string-trim ":'\"" (string-left-trim "#" (trimmed text)))))

(defun near-systems (name)
  (nearest name (mapcar (lambda (it) (cons it it))
                        (guarded (lambda () (funcall (asdf-function "REGISTERED-SYSTEMS")))
                                 (constantly '())))))

(defun find-system-named (name)
  (or (funcall (asdf-function "FIND-SYSTEM") name nil)
      (missed "ASDF finds no system ~A.~@[ Near names: ~{~A~^, ~}.~] ~
               Its directory has to be in ASDF's source registry~@[; ~A~]."
              name (near-systems name)
              (and (find-package "QL") "Quicklisp is loaded and can fetch it, by eval_form"))))

(defun note-of-file (condition)
  (let ((text (note-text condition)))
    (if (prefixed-p "Lisp compilation had" text)
        ;; ASDF sums up what was noted already.
        (muffle condition)
        (add-note (list :severity (severity-text condition)
                        :message text
                        :location (location-plist (backend "LOCATION" condition)))))))

(defun load-system-named (name force)
  "Load the system NAME, noting what the compiler says; the system."
  (let ((system (find-system-named name))
        (load (asdf-function "LOAD-SYSTEM")))
    (call-noting (lambda ()
                   (backend "CALL-WITH-COMPILATION-HOOKS"
                            (lambda () (funcall load name :force (and force t)))))
                 #'note-of-file)
    system))

(defun system-facts (system)
  (flet ((fact (name)
           (guarded (lambda () (funcall (asdf-function name) system)) (constantly nil))))
    (list :system (fact "COMPONENT-NAME")
          :version (let ((version (fact "COMPONENT-VERSION")))
                     (and (stringp version) version))
          :file (let ((file (fact "SYSTEM-SOURCE-FILE")))
                  (and file (namestring file))))))

(define-operation "load-system" (system force)
    "Load a system; what the compiler said about its files."
  (let* ((notes (list '()))
         (*notes* notes)
         (name (system-name-of-text system)))
    (setf *progress* (lambda ()
                       (list :current (format nil "loading ~A" name)
                             :notes (limited-notes notes)
                             :output (without-compiler-output (captured-text)))))
    (let ((loaded (load-system-named name force)))
      (multiple-value-bind (notes more) (limited-notes notes)
        (append (system-facts loaded)
                (list :notes notes :more more
                      :output (without-compiler-output (captured-text))))))))
