;;; words.el --- Check that what people and models read is plain English  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -l scripts/words.el, in the project's root.  Looks for words that read as
;; translated in the strings of the program and in the documents, and exits with 1 when there is
;; one.  Comments are left to their authors, as are docstrings in the Common Lisp half.

;;; Code:

(defconst agent-q-words--listed
  '(("\\_<anew\\_>" . "again")
    ("\\_<who\\(?:so\\)?ever\\_>" . "anyone who, or name them")
    ("\\_<whatever\\_>" . "anything that, regardless of, no matter which")
    ("\\_<nobody\\_>" . "no one, or the passive")
    ("\\_<meanwhile\\_>" . "since, during, until then")
    ("\\_<besides\\_>" . "apart from, also")
    ("\\_<can't be had\\_>" . "is missing, is unavailable")
    ("\\_<c[ao]mes? about\\_>" . "say what failed")
    ("\\_<g[ai]ves? \\(?:it\\|them\\|up\\)? ?up\\_>" . "cancel, stop")
    ("\\_<go\\(?:es\\|ing\\)? along\\_>" . "is attached")
    ("\\_<behind an? \\(?:slash\\|/\\|@\\)" . "after /")
    ("\\_<t\\(?:ake\\|akes\\|ook\\|aken\\) \\(?:it \\|that \\|them \\)?back\\_>" . "undo, restore")
    ("\\_<what waits\\_>" . "pending request")
    ("\\_<is no\\_>" . "is not a"))
  "Regexps of words that aren't written here, each with better ones.")

(defconst agent-q-words--fine
  "\\_<there is no \\|\\_<is no \\(?:longer\\|more\\|less\\)\\_>"
  "What looks like that and is English all the same.")

(defvar agent-q-words--findings 0
  "How many findings were printed.")

(defun agent-q-words--check (file line text)
  "Report the listed words in TEXT, which begins in LINE of FILE."
  (let* ((case-fold-search t)
         (text (replace-regexp-in-string "\\(?:\\\\n\\|\\\\\n\\|[ \t\n]\\)+" " " text))
         (text (replace-regexp-in-string agent-q-words--fine "" text)))
    ;; A word alone is a name or a value.
    (when (string-search " " text)
      (with-temp-buffer
        (set-syntax-table text-mode-syntax-table)
        (insert text)
        (pcase-dolist (`(,regexp . ,better) agent-q-words--listed)
          (goto-char (point-min))
          (while (re-search-forward regexp nil t)
            (setq agent-q-words--findings (1+ agent-q-words--findings))
            (princ (format "%s:%d: \"%s\": %s\n" file line (match-string 0) better))))))))

(defun agent-q-words--string ()
  "Go after the string whose quote is before point, and return its text."
  (let ((start (point)))
    (while (progn (skip-chars-forward "^\"\\\\") (eq (char-after) ?\\))
      (forward-char 2))
    (prog1 (buffer-substring-no-properties start (point))
      (forward-char 1))))

(defun agent-q-words--lisp (file common)
  "Check the strings of FILE, in Lisp.
COMMON means Common Lisp, whose docstrings are left out."
  (while (re-search-forward ";\\|\"\\|\\?\\\\?.\\|#\\\\.\\|#|" nil t)
    (pcase (match-string 0)
      (";" (forward-line 1))
      ("#|" (search-forward "|#" nil t))
      ("\"" (let ((line (line-number-at-pos))
                  ;; One at the beginning of a line of a top-level form.
                  (documents (save-excursion (skip-chars-backward " \"")
                                             (and (bolp) (looking-at-p "  \"")))))
              (let ((text (agent-q-words--string)))
                (unless (and common documents)
                  (agent-q-words--check file line text))))))))

(defun agent-q-words--rust (file)
  "Check the strings of FILE, in Rust, up to its tests."
  (let ((tests (save-excursion (if (re-search-forward "^#\\[cfg(test)\\]\nmod tests {" nil t)
                                   (match-beginning 0)
                                 (point-max)))))
    (while (re-search-forward "//\\|\\_<r\\(#*\\)\"\\|\"\\|'\\(?:\\\\[^']+\\|[^'\\]\\)'" tests t)
      (let ((line (line-number-at-pos)))
        (cond ((string-prefix-p "//" (match-string 0)) (forward-line 1))
              ((match-string 1)
               (let ((start (point)))
                 (search-forward (concat "\"" (match-string 1)))
                 (agent-q-words--check file line (buffer-substring start (match-beginning 0)))))
              ((equal (match-string 0) "\"")
               (agent-q-words--check file line (agent-q-words--string))))))))

(defun agent-q-words--text (file)
  "Check each paragraph of FILE, a document."
  (while (not (eobp))
    (let ((line (line-number-at-pos)) (start (point)))
      (forward-paragraph)
      (agent-q-words--check file line (buffer-substring start (point))))))

(defun agent-q-words ()
  "Check all that people and models read; exit with 1 on findings."
  (let ((checked 0))
    (pcase-dolist (`(,check . ,files)
                   `((,(lambda (file) (agent-q-words--lisp file nil))
                      ,@(directory-files "lisp" t "\\`agent-q[^.]*\\.el\\'"))
                     (,(lambda (file) (agent-q-words--lisp file t))
                      ,@(directory-files-recursively "lisp/image" "\\.lisp\\'"))
                     (agent-q-words--rust ,@(directory-files-recursively "src" "\\.rs\\'")
                                          ,@(directory-files-recursively "stdio" "\\.rs\\'"))
                     (agent-q-words--text ,@(directory-files-recursively "src" "\\.md\\'")
                                          ,@(directory-files "docs" t "\\.org\\'")
                                          ,@(directory-files "." t "\\.md\\'"))))
      (dolist (file files)
        (with-temp-buffer
          (insert-file-contents file)
          (setq checked (1+ checked))
          (funcall check (file-relative-name file)))))
    (when (< checked 100)
      (setq agent-q-words--findings (1+ agent-q-words--findings))
      (princ "scripts/words.el found too few files\n"))
    (kill-emacs (if (zerop agent-q-words--findings) 0 1))))

(agent-q-words)
;;; words.el ends here
