;;; agent-q-mcp-json.el --- Small changes in other programs' JSON files  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Puts a value into the JSON text of the current buffer, or takes it out, and leaves every
;; other character as it is: comments, spaces, numbers.  Paths are lists of keys.

;;; Code:

(require 'agent-q-json)
(require 'seq)
(require 'subr-x)

(defvar agent-q-mcp-json--syntax
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?\" "\"" table)
    (modify-syntax-entry ?\\ "\\" table)
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?\[ "(]" table)
    (modify-syntax-entry ?\] ")[" table)
    (modify-syntax-entry ?{ "(}" table)
    (modify-syntax-entry ?} "){" table)
    (dolist (character '(?- ?+ ?.))
      (modify-syntax-entry character "_" table))
    (dolist (character '(?, ?: ?'))
      (modify-syntax-entry character "." table))
    table)
  "Syntax of JSON with comments.")

(defmacro agent-q-mcp-json--in (&rest body)
  "Run BODY with the syntax of JSON."
  (declare (indent 0) (debug t))
  `(with-syntax-table agent-q-mcp-json--syntax
     (let ((parse-sexp-ignore-comments t))
       (save-excursion ,@body))))

(defun agent-q-mcp-json--skip ()
  "Go over spaces and comments."
  (forward-comment (buffer-size)))

(defun agent-q-mcp-json--key ()
  "Return the string at point and go behind it."
  (let ((start (point)))
    (unless (eq (char-after) ?\") (error "No JSON object here"))
    (forward-sexp)
    (agent-q-json-parse (buffer-substring-no-properties start (point)))))

(defun agent-q-mcp-json--members ()
  "Return the elements of the object or array at point, in order.
Each is (KEY START VALUE END): START is where it begins, VALUE where its
value does, and END where that ends.  KEY is nil in an array."
  (let ((object (eq (char-after) ?{)) (members nil))
    (unless (memq (char-after) '(?{ ?\[)) (error "No JSON object or array here"))
    (save-excursion
      (forward-char)
      (agent-q-mcp-json--skip)
      (while (not (memq (char-after) '(?} ?\])))
        (let ((start (point)) (key (and object (agent-q-mcp-json--key))) value)
          (agent-q-mcp-json--skip)
          (when object
            (unless (eq (char-after) ?:) (error "No colon in a JSON object"))
            (forward-char)
            (agent-q-mcp-json--skip))
          (setq value (point))
          (forward-sexp)
          (push (list key start value (point)) members))
        (agent-q-mcp-json--skip)
        (when (eq (char-after) ?,)
          (forward-char)
          (agent-q-mcp-json--skip))))
    (nreverse members)))

(defun agent-q-mcp-json--root ()
  "Go to the object that the text is, which is made in an empty one."
  (goto-char (point-min))
  (agent-q-mcp-json--skip)
  (when (eobp)
    (insert "{\n}\n")
    (goto-char (point-min))
    (agent-q-mcp-json--skip))
  (unless (eq (char-after) ?{) (error "The file holds no JSON object")))

(defun agent-q-mcp-json--find (path)
  "Go to the value at PATH from the root; return non-nil if it is there."
  (agent-q-mcp-json--root)
  (let ((found t))
    (while (and found path)
      (let ((member (and (eq (char-after) ?{)
                         (assoc (pop path) (agent-q-mcp-json--members)))))
        (if member (goto-char (nth 2 member)) (setq found nil))))
    found))

(defun agent-q-mcp-json--indented (text depth)
  "Return TEXT, the value of an element at DEPTH, with its lines indented."
  (replace-regexp-in-string "\n" (concat "\n" (make-string (* 2 depth) ?\s)) text t t))

(defun agent-q-mcp-json--add (text depth)
  "Add TEXT as the last element of the object or array at point, which is at DEPTH."
  (let* ((last (car (last (agent-q-mcp-json--members))))
         (indent (concat "\n" (make-string (* 2 (1+ depth)) ?\s)))
         (text (agent-q-mcp-json--indented text (1+ depth)))
         (first (1+ (point))))
    (if last
        (progn (goto-char (nth 3 last))
               (insert "," indent text))
      (forward-sexp)
      (backward-char)
      ;; Comments may be there, but nothing else.
      (delete-region (point) (progn (skip-chars-backward " \t\r\n" first) (point)))
      (insert indent text "\n" (make-string (* 2 depth) ?\s)))))

(defvar agent-q-mcp-json-replaced nil
  "What was replaced: ((PATH . TEXT) ...), with TEXT as it was in the file.
It is nil where nothing was.")

(defun agent-q-mcp-json--note (path text)
  "Note that TEXT was at PATH, unless something is known of it already."
  (unless (assoc path agent-q-mcp-json-replaced)
    (push (cons path text) agent-q-mcp-json-replaced)))

(defun agent-q-mcp-json--note-empty (path)
  "Note how the object or array at PATH, where point is, is written if it is empty."
  (unless (agent-q-mcp-json--members)
    (agent-q-mcp-json--note path (agent-q-mcp-json--text))))

(defun agent-q-mcp-json--text ()
  "Return the text of the value at point."
  (buffer-substring-no-properties (point) (save-excursion (forward-sexp) (point))))

(defun agent-q-mcp-json--replace (path text depth)
  "Put TEXT in place of the value at point, which is at PATH and DEPTH."
  (let ((old (agent-q-mcp-json--text))
        (new (agent-q-mcp-json--indented text depth)))
    (unless (equal old new)
      (agent-q-mcp-json--note path old)
      (delete-region (point) (+ (point) (length old)))
      (save-excursion (insert new)))))

(defun agent-q-mcp-json--need (bracket path depth)
  "See to it that the value at point begins with BRACKET; it is at PATH and DEPTH.
Null and an empty list stand for nothing and are replaced."
  (unless (eq (char-after) (aref bracket 0))
    (if (string-match-p "\\`\\(?:null\\|\\[[ \t\r\n]*\\]\\)\\'" (agent-q-mcp-json--text))
        (agent-q-mcp-json--replace path bracket depth)
      (error "%s is not an expected %s" (string-join path ".") (if (equal bracket "{\n}") "object" "list")))))

(defun agent-q-mcp-json--put-text (path text)
  "Make TEXT the value at PATH.
Objects on the way are made where there are none."
  (let ((way nil) (depth 0))
    (agent-q-mcp-json--root)
    (while (cdr path)
      (let ((member (assoc (car path) (agent-q-mcp-json--members)))
            (next (append way (list (car path)))))
        (unless member
          (agent-q-mcp-json--note-empty way)
          (agent-q-mcp-json--note next nil)
          (save-excursion
            (agent-q-mcp-json--add (concat (agent-q-json-string (car path)) ": {\n}") depth))
          (setq member (assoc (car path) (agent-q-mcp-json--members))))
        (goto-char (nth 2 member))
        (setq way next
              path (cdr path)
              depth (1+ depth))
        (agent-q-mcp-json--need "{\n}" way depth)))
    (let ((member (assoc (car path) (agent-q-mcp-json--members))))
      (if member
          (progn (goto-char (nth 2 member))
                 (agent-q-mcp-json--replace (append way path) text (1+ depth)))
        (agent-q-mcp-json--note-empty way)
        (agent-q-mcp-json--note (append way path) nil)
        (agent-q-mcp-json--add (concat (agent-q-json-string (car path)) ": " text) depth)))))

(defun agent-q-mcp-json-put (path value)
  "Make VALUE, as in `agent-q-json-encode', the one at PATH.
Objects on the way are made where there are none."
  (agent-q-mcp-json--in
    (agent-q-mcp-json--put-text path (agent-q-json-pretty value))))

(defun agent-q-mcp-json--vacant-p (text)
  "Whether what is at point is as good as TEXT, which is empty or nil.
One word for all, too, is an object now that only repeats it."
  (let ((now (agent-q-mcp-json--text))
        (bare (lambda (text) (replace-regexp-in-string "[ \t\r\n]+" "" text))))
    (or (member (funcall bare now) (list "{}" "[]" (and text (funcall bare text))))
        (and text (equal (funcall bare now) (format "{\"*\":%s}" (funcall bare text)))))))

(defun agent-q-mcp-json-restore (replaced)
  "Put back what was REPLACED, as in `agent-q-mcp-json-replaced'.
Ours is gone by then.  Where there is anything else now, it stays."
  (agent-q-mcp-json--in
    ;; What is inside of something first.
    (pcase-dolist (`(,path . ,text) (sort (copy-sequence replaced)
                                          (lambda (one other)
                                            (> (length (car one)) (length (car other))))))
      (when (and (seq-every-p #'stringp path)
                 (agent-q-mcp-json--find path)
                 (agent-q-mcp-json--vacant-p text))
        (if text
            (agent-q-mcp-json--put-back text)
          (agent-q-mcp-json-remove path))))))

(defun agent-q-mcp-json--put-back (text)
  "Put TEXT, as it was in the file, in place of the value at point."
  (delete-region (point) (save-excursion (forward-sexp) (point)))
  (insert text))

(defun agent-q-mcp-json-put-back (path text)
  "Put TEXT, as it was in the file, in place of the value at PATH, if there is one."
  (agent-q-mcp-json--in
    (when (agent-q-mcp-json--find path)
      (agent-q-mcp-json--put-back text))))

(defun agent-q-mcp-json--remove (members member)
  "Remove MEMBER, one of MEMBERS, with what parts it from the others."
  (let ((after (cadr (member member members)))
        (before (car (last (seq-take-while (lambda (it) (not (equal it member))) members)))))
    (cond (after (delete-region (nth 1 member) (nth 1 after)))
          (before (delete-region (nth 3 before) (nth 3 member)))
          (t (delete-region (save-excursion (goto-char (nth 1 member))
                                            (skip-chars-backward " \t\n")
                                            (point))
                            ;; What follows may be in a line of its own because of a comment.
                            (save-excursion (goto-char (nth 3 member))
                                            (if (looking-at "[ \t\r\n]*,") (match-end 0)
                                              (point))))))))

(defun agent-q-mcp-json-remove (path)
  "Remove what is at PATH."
  (agent-q-mcp-json--in
    (when (and (agent-q-mcp-json--find (butlast path)) (eq (char-after) ?{))
      (let* ((members (agent-q-mcp-json--members))
             (member (assoc (car (last path)) members)))
        (when member
          (agent-q-mcp-json--remove members member))))))

(defun agent-q-mcp-json-add-to-list (path text)
  "Add the string TEXT to the array at PATH, unless it is there."
  (agent-q-mcp-json--in
    (unless (agent-q-mcp-json--find path)
      (agent-q-mcp-json-put path []))
    (agent-q-mcp-json--find path)
    (agent-q-mcp-json--need "[]" path (length path))
    (unless (agent-q-mcp-json--element text)
      (agent-q-mcp-json--note-empty path)
      (agent-q-mcp-json--add (agent-q-json-string text) (length path)))))

(defun agent-q-mcp-json--element (text)
  "Return the element of the array at point that is the string TEXT, or nil."
  (seq-find (lambda (member)
              (equal (agent-q-json-string text)
                     (buffer-substring-no-properties (nth 2 member) (nth 3 member))))
            (agent-q-mcp-json--members)))

(defun agent-q-mcp-json-remove-from-list (path text)
  "Remove the string TEXT from the array at PATH."
  (agent-q-mcp-json--in
    (when (and (agent-q-mcp-json--find path) (eq (char-after) ?\[))
      (let ((member (agent-q-mcp-json--element text)))
        (when member
          (agent-q-mcp-json--remove (agent-q-mcp-json--members) member))))))

(defun agent-q-mcp-json-get (path)
  "Return the text of the value at PATH, or nil."
  (agent-q-mcp-json--in
    (when (agent-q-mcp-json--find path)
      (buffer-substring-no-properties (point) (progn (forward-sexp) (point))))))

(provide 'agent-q-mcp-json)
;;; agent-q-mcp-json.el ends here
