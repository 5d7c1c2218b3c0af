;;; agent-q-test-forms.el --- Forms out of a grammar  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Makes Common Lisp forms that reach for files, out of fixtures/watch/grammar.eld,
;; and the tree of files that they are about.  The same seed makes the same forms.

;;; Code:

(require 'cl-lib)
(require 'agent-q-test)

(defconst agent-q-test-forms--fixtures
  (expand-file-name "test/fixtures/watch/" agent-q-test-root)
  "Where the grammar is.")

(defun agent-q-test-forms--text (name)
  "Return the text of the fixture NAME."
  (with-temp-buffer
    (insert-file-contents (expand-file-name name agent-q-test-forms--fixtures))
    (buffer-string)))

;;;; Forms

(defvar agent-q-test-forms--state nil
  "What the forms are chosen by.")

(defvar agent-q-test-forms--number 0
  "The latest number that stands for {#} in a text.")

(defun agent-q-test-forms--grammar ()
  "Return the grammar: a hash table from a name to the texts it may stand for.
A text is there as many times as it is likely."
  (let ((grammar (make-hash-table :test #'equal)))
    (with-temp-buffer
      (insert (agent-q-test-forms--text "grammar.eld"))
      (goto-char (point-min))
      (condition-case nil
          (while t
            (pcase-let ((`(,name . ,texts) (read (current-buffer))))
              (puthash (symbol-name name)
                       (vconcat (mapcan (lambda (text)
                                          (if (consp text)
                                              (make-list (car text) (cadr text))
                                            (list text)))
                                        texts))
                       grammar)))
        (end-of-file grammar)))))

(defun agent-q-test-forms--made (grammar name depth)
  "Return a text that NAME may stand for by GRAMMAR.
Around an effect is code that is nested DEPTH deep."
  (let* ((name (if (and (equal name "form") (zerop depth)) "effect" name))
         (depth (if (equal name "form") (1- depth) depth))
         (texts (or (gethash name grammar) (error "The grammar lacks %s" name)))
         (text (aref texts (cl-random (length texts) agent-q-test-forms--state)))
         (number (number-to-string (cl-incf agent-q-test-forms--number))))
    (replace-regexp-in-string
     "{\\([a-z-]+\\|#\\)}"
     (lambda (hole)
       (let ((inner (substring hole 1 -1)))
         (if (equal inner "#")
             number
           (save-match-data (agent-q-test-forms--made grammar inner depth)))))
     text t t)))

(defun agent-q-test-forms-make (seed count)
  "Return COUNT forms, as texts, which SEED, a number, decides on."
  (let ((grammar (agent-q-test-forms--grammar))
        (agent-q-test-forms--state (cl-make-random-state seed))
        (agent-q-test-forms--number 0))
    (cl-loop repeat count
             collect (agent-q-test-forms--made
                      grammar "form" (cl-random 4 agent-q-test-forms--state)))))

;;;; The tree

(defun agent-q-test-forms-plant (tree)
  "Make the directory TREE anew, with the files that the forms are about.
All of them are old, so that whatever writes one shows."
  (delete-directory tree t)
  (pcase-dolist (`(,name ,text . ,modes)
                 '(("f0" "precious\n") ("f1" "one") ("f2.txt" "two\n" . #o600) ("f3.txt" "" . #o444)
                   ("d0/inner" "inner") ("d0/other" "other") ("d1/deep/leaf" "leaf") ("empty/")
                   ("harm.lisp" "(depot:cleanup (made:file \"f1\"))\n(depot:store (made:fresh))")
                   ("made-system.asd" "(depot:cleanup (made:file \"f0\"))\n(asdf:defsystem \"made-system\")")))
    (let ((file (expand-file-name name tree)))
      (make-directory (file-name-directory file) t)
      (when text
        (write-region text nil file nil 'silent)
        (set-file-modes file (or modes #o644)))))
  (make-symbolic-link "f0" (expand-file-name "link" tree))
  (make-symbolic-link "d0" (expand-file-name "directory-link" tree))
  (dolist (file (cons tree (directory-files-recursively tree "" t)))
    (set-file-times file 1000000000 'nofollow)))

(defun agent-q-test-forms-look (tree)
  "Return all that there is to TREE: names, contents, modes, owners and times.
When somebody last read a file is no change of it."
  (mapcar (lambda (file)
            (let ((attributes (file-attributes file)))
              (setf (nth 4 attributes) nil)
              (list file attributes
                    ;; A pipe with a name is a file, too, and reading it never ends.
                    (and (string-prefix-p "-" (file-attribute-modes attributes))
                         (with-temp-buffer
                           (set-buffer-multibyte nil)
                           (insert-file-contents-literally file)
                           (buffer-string))))))
          (cons (directory-file-name tree) (directory-files-recursively tree "" t))))

(defun agent-q-test-forms-differences (before now)
  "Return the names of files that aren't the same in BEFORE and NOW."
  (delete-dups (mapcar #'car (cl-set-exclusive-or before now :test #'equal))))

(provide 'agent-q-test-forms)
;;; agent-q-test-forms.el ends here
