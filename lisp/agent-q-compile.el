;;; agent-q-compile.el --- Definitions of files to compile  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What has to be sent to an image so that it compiles one definition of a file
;; as if it compiled the file: the top-level form, behind the forms that say in
;; which package and with which readtable it is read.

;;; Code:

(require 'agent-q-definitions)
(require 'agent-q-image-connection)
(require 'agent-q-image-feature)
(require 'agent-q-json)
(require 'agent-q-operations)
(require 'agent-q-source)
(require 'agent-q-text)
(require 'seq)
(require 'subr-x)

(defconst agent-q-compile--readtable
  (concat "\\`(\\(?:"
          "[^ ()]*in-readtable[ )]"
          "\\|[^ ()]*\\_<\\(?:enable\\|disable\\)-[^ ()]*\\(?:syntax\\|readtable\\)[^ ()]*[ )]"
          "\\|\\(?:[^ ()]*:\\)?set[fq] [^ ()]*\\*readtable\\*"
          "\\|\\(?:[^ ()]*:\\)?eval-when ([^()]*) ([^()]*\\(?:readtable\\|-syntax\\)\\)")
  "What the beginning of a form looks like that changes how text is read.")

(defun agent-q-compile--top (forms position)
  "Return the one of FORMS, lists of start and end, around POSITION."
  (seq-find (pcase-lambda (`(,start ,end)) (and (<= start position) (< position end)))
            forms))

(defun agent-q-compile--conditional (start)
  "Return where the feature expressions before START begin, or START."
  (save-excursion
    (goto-char start)
    (while (looking-back "#[-+]\\(?:([^()]*)\\|[^] \t\n()#;\"']+\\)[ \t\n]*"
                         (max (point-min) (- (point) 200)))
      (goto-char (match-beginning 0)))
    (point)))

(defun agent-q-compile--read (forms)
  "Return those of FORMS that the image's reader takes.
Those in `eval-when' and `progn' are in the place of these."
  (seq-mapcat
   (pcase-lambda (`(,start ,end))
     (let* ((text (agent-q-definitions-text (list start end)))
            (subforms (and (string-match-p "\\`(\\(?:[^ ()]*:\\)?\\(?:eval-when\\|progn\\) " text)
                           (not (string-match-p agent-q-compile--readtable text))
                           (string-search "in-package " text)
                           (agent-q-definitions-subforms start end))))
       (cond ((agent-q-image-feature-skipped-p start) nil)
             ((null subforms) (list (list start end)))
             ((not (string-match-p "eval-when" (agent-q-definitions-text (car subforms))))
              (agent-q-compile--read (cdr subforms)))
             ;; What is done when the file is loaded is too late for the reader.
             ((string-match-p "compile" (agent-q-definitions-text (cadr subforms)))
              (agent-q-compile--read (cddr subforms))))))
   forms))

(defun agent-q-compile--prelude (forms end)
  "Return the texts of those of FORMS before END that say how what follows is read."
  (let ((package nil)
        (others nil))
    (pcase-dolist (`(,start ,stop) (agent-q-compile--read forms))
      (when (<= stop end)
        (let ((text (agent-q-definitions-text (list start stop)))
              (source (buffer-substring-no-properties start stop)))
          (cond ((string-match-p "\\`(\\(?:[^ ()]*:\\)?in-package " text)
                 (setq package source)
                 (push nil others))
                ((string-match-p agent-q-compile--readtable text)
                 ;; It is read in the package of its place.
                 (push (if package (concat package "\n" source) source) others))))))
    (append (remq nil (nreverse others))
            (and package (list package)))))

(defun agent-q-compile--called (from start end)
  "Return what to call the form between START and END around FROM, or nil.
That is if it is more than the definition at FROM."
  (unless (= from start)
    (let ((operator (car (agent-q-definitions-subforms start end)))
          (first (line-number-at-pos start))
          (last (line-number-at-pos end)))
      (format "%s (%s: %s)" (agent-q-definitions-text operator)
              (if (= first last) (format "line %d" first)
                (format "lines %d-%d" first last))
              (string-join (agent-q-definitions-in (list start end)) ", ")))))

(defun agent-q-compile-unit (text name file)
  "Return what to compile for the definition of NAME in TEXT, of FILE.
It is a list of the text, where the definition starts in it, its line
and position in TEXT, and what to call it if NAME is only a part of it."
  (pcase-let ((`(,from ,_) (agent-q-definitions-find text name file)))
    (agent-q-source-with-text text file
      (pcase-let* ((forms (agent-q-definitions-top-forms))
                   (`(,start ,end) (agent-q-compile--top forms (1+ from)))
                   (called (agent-q-compile--called (1+ from) start end))
                   (start (agent-q-compile--conditional start))
                   (prelude (mapconcat (lambda (text) (concat text "\n"))
                                       (agent-q-compile--prelude forms start) "")))
        (list (concat prelude (buffer-substring-no-properties start end))
              (length prelude)
              (line-number-at-pos start)
              start
              called)))))

(defun agent-q-compile--file-of-image (call path)
  "Return the name of the file PATH in the image of CALL."
  (let ((connection (agent-q-operations-call-connection call)))
    (if connection
        (agent-q-image-ask connection :to-lisp path)
      (error "No Lisp image is connected"))))

(agent-q-operations-define "definition-to-compile" (call text name file path)
  "Return what to compile for the definition of NAME in TEXT, of FILE at PATH."
  (pcase-let ((`(,form ,start ,line ,position ,called)
               (let ((agent-q-image-feature-list
                      (agent-q-image-features (agent-q-operations-call-connection call))))
                 (agent-q-compile-unit text name file)))
              (buffer (find-buffer-visiting path)))
    (agent-q-json-serialize
     `((form . ,form) (start . ,start) (line . ,line) (position . ,position)
       (called . ,(or called :null))
       (buffer . ,(if buffer (agent-q-text-clean (buffer-name buffer)) :null))
       (file . ,(agent-q-compile--file-of-image call path))))))

(agent-q-operations-define "file-of-image" (call path)
  "Return what the image calls the file PATH."
  (agent-q-json-serialize (agent-q-compile--file-of-image call path)))

(provide 'agent-q-compile)
;;; agent-q-compile.el ends here
