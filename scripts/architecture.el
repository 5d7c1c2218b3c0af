;;; architecture.el --- Check that ARCHITECTURE.md names all there is  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Started by scripts/lint.sh in batch mode, in the project's root.  Each section of
;; ARCHITECTURE.md with a table is compared with the code that it is about.  Prints what is missing
;; or too much, one line a finding, and exits with 1 when there was one.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defconst agent-q-architecture--most-lines 230
  "How many lines ARCHITECTURE.md may have: it is to be read in one go.")

(defvar agent-q-architecture--findings 0
  "How many findings were printed.")

(defun agent-q-architecture--finding (text)
  "Report TEXT."
  (setq agent-q-architecture--findings (1+ agent-q-architecture--findings))
  (princ (format "ARCHITECTURE.md: %s\n" text)))

(defun agent-q-architecture--matches (regexp text)
  "Return what the first group of REGEXP matches in TEXT, each once."
  (let ((case-fold-search nil) (start 0) (found nil))
    (while (string-match regexp text start)
      (push (match-string 1 text) found)
      (setq start (match-end 0)))
    (seq-uniq (nreverse found))))

(defun agent-q-architecture--text (&rest files)
  "Return what FILES hold."
  (with-temp-buffer
    (dolist (file files)
      (goto-char (point-max))
      (insert-file-contents file))
    (buffer-string)))

(defun agent-q-architecture--folder (folder regexp)
  "Return the texts of all files in FOLDER whose names match REGEXP."
  (apply #'agent-q-architecture--text (directory-files-recursively folder regexp)))

(defun agent-q-architecture--names (folder)
  "Return the names of what is in FOLDER, without their endings."
  (seq-uniq (mapcar #'file-name-base (directory-files folder nil "\\`[^.#][^#~]*\\'"))))

(defun agent-q-architecture--between (start end text)
  "Return the part of TEXT from what START matches to what END does."
  (unless (string-match start text)
    (error "Nothing matches %s; scripts/architecture.el has to follow the code" start))
  (let ((from (match-beginning 0)))
    (substring text from (string-match end text (1+ from)))))

(defun agent-q-architecture--columns (section column)
  "Return what stands in backquotes in COLUMN of the table in SECTION.
COLUMN is a number, or nil for all that is in SECTION."
  (agent-q-architecture--matches
   "`\\([^`\n]+\\)`"
   (if (null column)
       section
     (mapconcat (lambda (row) (or (nth column (split-string row "|")) ""))
                (seq-filter (lambda (line) (string-prefix-p "| " line))
                            (split-string section "\n"))
                "\n"))))

(defun agent-q-architecture--compare (heading column what there)
  "Compare COLUMN of the table under HEADING with THERE, names of WHAT."
  (let* ((document (agent-q-architecture--text "ARCHITECTURE.md"))
         (section (agent-q-architecture--between (format "^## %s" (regexp-quote heading))
                                                 "^## " document))
         (named (agent-q-architecture--columns section column)))
    (unless there
      (agent-q-architecture--finding (format "no %s was found in the code" what)))
    (dolist (name (seq-difference there named))
      (agent-q-architecture--finding (format "\"%s\" lacks the %s `%s'" heading what name)))
    (when column
      (dolist (name (seq-difference named there))
        (agent-q-architecture--finding
         (format "\"%s\" has the %s `%s', which isn't there" heading what name))))))

(defun agent-q-architecture--lisp-files ()
  "Check that each file of lisp/ is named, by itself or as one of `NAME*'."
  (let ((named (agent-q-architecture--columns
                (agent-q-architecture--between "^## The files of lisp" "^## "
                                               (agent-q-architecture--text "ARCHITECTURE.md"))
                1)))
    (dolist (file (directory-files "lisp" nil "\\`agent-q[^.#]*\\.el\\'"))
      (let ((name (string-remove-prefix "agent-q-" (file-name-base file))))
        (unless (or (member file named)
                    (string-suffix-p "-autoloads" name)
                    (seq-some (lambda (pattern)
                                (if (string-suffix-p "*" pattern)
                                    (string-match-p (format "\\`%s\\(-\\|\\'\\)"
                                                            (substring pattern 0 -1))
                                                    name)
                                  (equal pattern name)))
                              named))
          (agent-q-architecture--finding (format "\"The files of lisp\" lacks %s" file)))))))

(defun agent-q-architecture--definitions ()
  "Return the names that src and lisp/ define, each consed to its room or file."
  (let ((found nil))
    (cl-flet ((take (file place regexp)
                (let ((case-fold-search nil))
                  (with-temp-buffer
                    (insert-file-contents file)
                    (while (re-search-forward regexp nil t)
                      (push (cons (match-string 1) place) found))))))
      (dolist (file (directory-files-recursively "src" "\\.rs\\'"))
        (take file
              (file-name-base (car (split-string (string-remove-prefix "src/" file) "/")))
              (concat "^ *\\(?:pub\\(?:([a-z]+)\\)? \\)?\\(?:async \\)?"
                      "\\(?:fn\\|struct\\|enum\\|trait\\|type\\|const\\|static\\|mod\\) \\([A-Za-z_]+\\)")))
      (dolist (file (directory-files "lisp" t "\\`agent-q[^.#]*\\.el\\'"))
        (unless (string-match-p "loaddefs\\|core-functions" file)
          (take file (string-remove-prefix "agent-q-" (file-name-base file))
                "^(\\(?:cl-\\)?def[a-z]+ (?\\(agent-q-[a-z0-9-]+\\)"))))
    found))

(defun agent-q-architecture--words ()
  "Check that names with a word of the glossary stand where that says.
A place between stars is a part of a name that may stand anywhere."
  (let ((section (agent-q-architecture--between "^## The words" "^## "
                                                (agent-q-architecture--text "ARCHITECTURE.md")))
        (definitions (agent-q-architecture--definitions)))
    (dolist (row (seq-filter (lambda (line) (string-match-p "\\`| [a-z]+ |" line))
                             (split-string section "\n")))
      (let* ((columns (mapcar #'string-trim (split-string row "|")))
             (word (nth 1 columns))
             (places (agent-q-architecture--matches "`\\([^`*]+\\)`" (nth 3 columns)))
             (parts (agent-q-architecture--matches "`\\*\\([^`]+\\)\\*`" (nth 3 columns)))
             (regexp (format "\\(?:\\`\\|[-_a-z]\\)%s\\(?:\\'\\|s?[-_A-Z]\\)\\|\\(?:\\`\\|[-_]\\)%ss?\\(?:\\'\\|[-_]\\)"
                             (capitalize word) word)))
        (pcase-dolist (`(,name . ,place) definitions)
          (let ((case-fold-search nil))
            (when (and places
                       (not (member place places))
                       (not (seq-some (lambda (part) (string-search part (downcase name))) parts))
                       (string-match-p regexp name))
              (agent-q-architecture--finding
               (format "`%s' of %s has the word \"%s\", which belongs to %s"
                       name place word (string-join places ", "))))))))))

(defun agent-q-architecture--variants (enum file)
  "Return the names in Lisp of the variants of ENUM in FILE, as keywords.
Those that are skipped or untagged have none."
  (let ((case-fold-search nil) (names nil))
    (with-temp-buffer
      (insert (agent-q-architecture--between (format "^pub enum %s " enum) "^}"
                                             (agent-q-architecture--text file)))
      (goto-char (point-min))
      (while (re-search-forward "^    \\(?:#\\[serde(\\(.*\\))]\n    \\)?\\([A-Z][A-Za-z]+\\)" nil t)
        (let ((serde (or (match-string 1) "")) (variant (match-string 2)))
          (unless (member serde '("skip" "untagged"))
            (push (concat ":" (if (string-match "\\`rename = \"\\(.+\\)\"\\'" serde)
                                  (match-string 1 serde)
                                (downcase (replace-regexp-in-string "\\B[A-Z]" "-\\&" variant t))))
                  names)))))
    names))

(defun agent-q-architecture ()
  "Check ARCHITECTURE.md; exit with 1 on findings."
  (let ((modules (agent-q-architecture--folder "lisp/image" "\\.lisp\\'"))
        (lines (length (split-string (string-trim-right
                                      (agent-q-architecture--text "ARCHITECTURE.md"))
                                     "\n"))))
    (when (> lines agent-q-architecture--most-lines)
      (agent-q-architecture--finding
       (format "%d lines, at most %d are wanted" lines agent-q-architecture--most-lines)))
    (agent-q-architecture--compare "The rooms of src" 1 "room"
                                   (agent-q-architecture--names "src"))
    (agent-q-architecture--lisp-files)
    (agent-q-architecture--words)
    (agent-q-architecture--compare "The modules of lisp/image" 1 "module"
                                   (remove "modules" (agent-q-architecture--names "lisp/image")))
    (agent-q-architecture--compare
     "The modules of lisp/image" 3 "operation"
     (agent-q-architecture--matches "^(define-operation \"\\([^\"]+\\)\"" modules))
    (agent-q-architecture--compare
     "Lisp to core" 1 "entry point"
     (agent-q-architecture--matches "^#\\[defun[^\n]*\\]\n\\(?:pub \\)?fn \\([a-z_]+\\)"
                                    (agent-q-architecture--folder "src" "\\.rs\\'")))
    (agent-q-architecture--compare
     "Core to Lisp" 1 "event"
     (seq-union (agent-q-architecture--variants "Event" "src/protocol/events.rs")
                (agent-q-architecture--variants "EmacsRequest" "src/protocol/emacs.rs")))
    (agent-q-architecture--compare
     "Emacs and the image" nil "outcome"
     (mapcar (lambda (name) (concat ":outcome :" name))
             (seq-union
              (agent-q-architecture--matches
               "^ +\"\\([a-z-]+\\)\" =>"
               (agent-q-architecture--between
                "^pub fn parse_reply" "^}" (agent-q-architecture--text "src/image/reply.rs")))
              (agent-q-architecture--matches ":outcome :\\([a-z-]+\\)" modules))))
    (kill-emacs (if (zerop agent-q-architecture--findings) 0 1))))

(agent-q-architecture)
;;; architecture.el ends here
