;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Which loaded code has in it what a definition was before it was replaced, by the records of the
;;; implementation and by the texts of files: functions by their names, top-level forms by their
;;; files.

(cl:in-package "AGENT-Q-IMAGE")

(defparameter *label-limit* 6
  "How many forms of a file to name.")

(defparameter *reload-limit* 20
  "How many files to reload at once.")

(defun stale-forms (old compiled files)
  "The forms of FILES that have what OLD, of STALE-AFTER, was; none of COMPILED, of DEFINED-BY."
  (let* ((symbol (getf old :symbol))
         (macros (getf old :macros))
         (symbols (or macros
                      (cons symbol (and (string= "structure" (getf old :kind)) (structure-names symbol))))))
    (flet ((compiled-p (form)
             (loop for wanted in compiled
                   for name = (second wanted)
                   thereis (member (if (consp name) (second name) name)
                                   (source-form-names form)))))
      (forms-mentioning symbols files
                        (lambda (form)
                          (not (or (defines-p form (cons symbol macros))
                                   (only-reads-p form old)
                                   (compiled-p form)
                                   (member (source-form-operator form)
                                           '("DECLAIM" "PROCLAIM" "EXPORT" "IMPORT")
                                           :test #'equal)
                                   (and (getf old :readings) (not (source-form-reading form)))
                                   (template-p form old))))))))

(defun only-reads-p (form old)
  "Whether FORM uses the place OLD, if that is one, but sets none."
  (and (equal "setf expander" (getf old :kind))
       (not (source-form-setting form))
       (mentions-p form (list (getf old :symbol)))))

(defun template-p (form old)
  "Whether FORM defines a macro that only has the macro OLD in what it expands to, not in its code."
  (and (implementation-p "SBCL")
       (or (equal "macro" (getf old :kind)) (getf old :macros))
       (macro-form-p form)
       (not (intersection (source-form-names form) (mapcar #'first-symbol (getf old :users))))))

(defun places-of-users (users)
  "The files of USERS, functions and other definitions: lists of the file and its name."
  (loop for user in users repeat 20
        for name = (if (and (consp user) (not (eq 'setf (first user)))) (second user) user)
        for location = (and name (or (symbolp name) (consp name))
                            (loop for (nil location) in (guarded (lambda () (found-definitions name))
                                                                 (constantly '()))
                                  thereis (and (getf location :file) location)))
        collect (list (getf location :file)
                      (if (symbolp user) (symbol-text user) (text-with-package user)))))

(defun reported-stale (old compiled files)
  "OLD, of STALE-AFTER, for the wire, without users among COMPILED, of DEFINED-BY, and the files that
have to be loaded again; NIL if that leaves none but those that can't be told."
  (let* ((forms (stale-forms old compiled files))
         (users (remove-if (lambda (user)
                             (or (find-if (lambda (wanted)
                                            (or (and (not (eq 'defmethod (first wanted)))
                                                     (equal user (second wanted)))
                                                (same-thing-p user wanted)))
                                          compiled)
                                 ;; A top-level form, which some SBCLs name by its file.
                                 (and (consp user) (eq 'lambda (first user)) (stringp (fourth user))
                                      (find (fourth user) forms :test #'equal
                                            :key (lambda (it) (princ-to-string (first it)))))
                                 (loop for (nil . form) in forms
                                       thereis (member (first-symbol user) (source-form-names form)))))
                           (getf old :users)))
         (places (append (loop for (file . form) in forms
                               collect (list file (format nil "~A (line ~D)" (source-form-label form)
                                                          (source-form-line form))))
                         (places-of-users users)))
         (known (remove-duplicates (mapcar #'first places) :test #'equal :from-end t)))
    (when (or places (not (getf old :readings)))
      (list :kind (getf old :kind) :name (getf old :name) :perhaps (getf old :perhaps)
            :uses (loop for file in known
                        for labels = (loop for (its label) in places
                                           when (equal its file) collect label)
                        collect (list :in (and file (shown-file file))
                                      :forms (page labels 0 *label-limit*)
                                      :more (max 0 (- (length labels) *label-limit*))))
            :files (remove nil known)))))

(defun stale-facts (stale defined file)
  "What to report about STALE, lists of what STALE-AFTER says and how many of DEFINED, latest first,
were compiled by then; FILE is where they are, if they are in one."
  (when stale
    (in-search-time
      (let* ((around (or file (loop for (old) in stale thereis (getf old :file))))
             (files (guarded (lambda () (and around (find-package "ASDF") (files-around around)))
                             (constantly '())))
             (told (loop for (old . count) in stale
                         for found = (reported-stale old (butlast defined count) files)
                         when found collect found))
             (known (remove-duplicates (loop for it in told append (getf it :files)) :test #'equal))
             (again (remove-if-not #'component-of-file known)))
        (list :stale told
              :reload (mapcar #'shown-file (page (files-in-order again) 0 *reload-limit*))
              :reload-more (max 0 (- (length again) *reload-limit*))
              :compile (mapcar #'shown-file (set-difference known again :test #'equal)))))))
