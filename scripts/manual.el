;;; manual.el --- Export the manual: Texinfo, HTML, a page of keys  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; emacs -Q --batch -l scripts/manual.el FOLDER, in the project's root.  Writes into FOLDER:
;;
;; agent-q.org   docs/manual.org in one file, with reference.org, CONTRACTS.md and IMPLEMENTATIONS.md
;; agent-q.texi  for `makeinfo', which scripts/manual.sh calls
;; agent-q.html  the manual as one page, with its pictures in screens/
;; keys.html     the tables of keys, on one page to print

;;; Code:

(require 'org)
(require 'ox-html)
(require 'ox-texinfo)
(require 'seq)
(require 'subr-x)

(defun agent-q-manual--text (file)
  "Return the text of FILE."
  (with-temp-buffer
    (insert-file-contents file)
    (buffer-string)))

;;;; One file of all

(defconst agent-q-manual--markdown
  '(("\\`<!--.*-->\n" . "")
    ("^<!--.*-->\n" . "")
    ("^# \\(.*\\)$" . "* \\1")
    ("^## \\(.*\\)$" . "** \\1")
    ("^|\\(?: *:?-+:? *|\\)+$" . agent-q-manual--rule)
    ("`\\([^`\n]+\\)`" . "~\\1~")
    ("\\[\\([^]\n]+\\)\\](\\([^)\n]+\\))" . "[[\\2][\\1]]"))
  "What makes Org of our documents in Markdown: (REGEXP . REPLACEMENT).")

(defun agent-q-manual--rule (line)
  "Return the LINE below the head of a table for Org."
  (concat "|" (string-join (make-list (1- (seq-count (lambda (char) (eq char ?|)) line)) "---") "+") "|"))

(defun agent-q-manual--chapter (file id)
  "Return the Markdown FILE as a chapter in Org that links call ID."
  (let ((text (agent-q-manual--text file)))
    (pcase-dolist (`(,regexp . ,replacement) agent-q-manual--markdown)
      (setq text (replace-regexp-in-string regexp replacement text t)))
    (replace-regexp-in-string "\\`\\(\\* .*\n\\)" (format "\\1:PROPERTIES:\n:CUSTOM_ID: %s\n:END:\n" id)
                              (string-trim text) t)))

(defun agent-q-manual--reference ()
  "Return docs/reference.org as the text of a chapter."
  (let ((text (agent-q-manual--text "docs/reference.org")))
    (replace-regexp-in-string "^\\* " "** " (substring text (string-match "^\\* " text)) t)))

(defun agent-q-manual--whole ()
  "Return the manual in Org as one file."
  (let ((text (agent-q-manual--text "docs/manual.org")))
    (pcase-dolist (`(,regexp . ,replacement)
                   `(("^#\\+INCLUDE: \"reference\\.org\".*\n" . ,(agent-q-manual--reference))
                     ("  *The source of this chapter is [^.]*\\[\\[file:reference\\.org\\]\\[.*\\]\\]\\." . "")
                     ("^# \\(?:end of keys\\|keys: .*\\)\n" . "")
                     ("\\[\\[file:\\.\\./CONTRACTS\\.md\\]\\[CONTRACTS\\.md\\]\\]"
                      . "[[#contracts][The chapter on the tool contracts]]")
                     ("\\[\\[file:\\.\\./IMPLEMENTATIONS\\.md\\]\\[IMPLEMENTATIONS\\.md\\]\\]"
                      . "[[#implementations][What works in which Common Lisp]]")
                     ("^\\* Commands and options\n"
                      . ,(concat (agent-q-manual--chapter "IMPLEMENTATIONS.md" "implementations") "\n\n"
                                 (agent-q-manual--chapter "CONTRACTS.md" "contracts")
                                 "\n\n* Commands and options\n"))))
      (unless (string-match-p regexp text)
        (error "docs/manual.org has nothing that scripts/manual.el expects: %s" regexp))
      (setq text (replace-regexp-in-string regexp replacement text t t)))
    text))

;;;; Pages

(defconst agent-q-manual--for-web
  '((org-html-doctype "html5") (org-html-html5-fancy t) (org-html-head-include-default-style nil)
    (org-html-head-include-scripts nil) (org-html-postamble nil) (org-html-htmlize-output-type nil)
    (org-html-self-link-headlines t) (org-html-validation-link nil))
  "Settings for HTML, as `cl-progv' takes them.")

(defun agent-q-manual--page (text file class)
  "Write TEXT, in Org, as HTML into FILE; CLASS says what kind of page it is."
  (cl-progv (mapcar #'car agent-q-manual--for-web) (mapcar #'cadr agent-q-manual--for-web)
    (let ((org-html-head (format "<style>\n%s</style>" (agent-q-manual--text "docs/manual.css"))))
      (with-temp-buffer
        (insert text)
        (org-mode)
        (let ((html (org-export-as 'html)))
          (write-region (string-replace "<body>" (format "<body class=\"%s\">" class) html)
                        nil file nil 'silent))))))

(defun agent-q-manual--for-the-web (text)
  "Return TEXT without indices, which only Info has; link the page of keys."
  (replace-regexp-in-string "^\\* Index of .*\n\\(?:[^*].*\n\\|\n\\)*" ""
                            (string-replace "~keys.html~" "[[file:keys.html][keys.html]]" text) t))

(defun agent-q-manual--keys (text)
  "Return the chapter of keys in TEXT as a document of its own."
  (unless (string-match "^\\* Keys\n\\(?:.*\n\\)*?\\(\\(?:\\*\\* .*\n\\)\\(?:.*\n\\)*?\\)\\* " text)
    (error "docs/manual.org has no chapter of keys"))
  (let ((tables (match-string 1 text)))
    (concat "#+TITLE: agent-q: keys\n#+OPTIONS: ^:nil toc:nil num:nil author:nil date:nil\n"
            (replace-regexp-in-string "^\\*\\* " "* " tables t))))

;;;; Texinfo

(defun agent-q-manual--texinfo (text file)
  "Write TEXT, in Org, as Texinfo into FILE."
  (with-temp-buffer
    (insert text)
    (org-mode)
    (let ((texinfo (org-export-as 'texinfo)))
      (write-region texinfo nil file nil 'silent))))

(defun agent-q-manual ()
  "Write all into the folder that the command line names."
  (let* ((folder (file-name-as-directory (expand-file-name (pop command-line-args-left))))
         (text (agent-q-manual--whole))
         (org-confirm-babel-evaluate nil)
         (org-export-use-babel nil)
         (coding-system-for-write 'utf-8-unix)
         (inhibit-message t))
    (make-directory (expand-file-name "screens" folder) t)
    (dolist (picture (directory-files "docs/screens" t "\\.png\\'"))
      (copy-file picture (expand-file-name "screens/" folder) t))
    (write-region text nil (expand-file-name "agent-q.org" folder) nil 'silent)
    (agent-q-manual--texinfo text (expand-file-name "agent-q.texi" folder))
    (let ((text (agent-q-manual--for-the-web text)))
      (agent-q-manual--page text (expand-file-name "agent-q.html" folder) "manual")
      (agent-q-manual--page (agent-q-manual--keys text) (expand-file-name "keys.html" folder) "keys"))))

(agent-q-manual)
;;; manual.el ends here
