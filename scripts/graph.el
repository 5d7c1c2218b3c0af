;;; graph.el --- Check which files of lisp/ use which  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Started by scripts/lint.sh in batch mode, in the project's root.  `require' shows only a part of
;; what a file uses: declarations hide the rest.  So this loads all of lisp/, asks Emacs what each
;; file defined, and looks in each file's text for names that another one defined, too.  It reports files
;; that use each other in a circle and uses of another file's private names; with any, it exits
;; with 1.  AGENT_Q_GRAPH=count prints how much there is of
;; it, AGENT_Q_GRAPH=uses all of it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defconst agent-q-graph--accepted '()
  "Groups of files that may use each other: lists, each with its reason.")

(defun agent-q-graph--sources ()
  "Return the files of lisp/, without those that only name what others define."
  (seq-remove (lambda (file) (string-match-p "-\\(?:autoloads\\|loaddefs\\)\\.el\\'" file))
              (directory-files (expand-file-name "lisp") t "\\`agent-q[^.#]*\\.el\\'")))

(defun agent-q-graph--name (file)
  "Return the name of FILE as it is printed: without its folder and ending."
  (file-name-sans-extension (file-name-nondirectory file)))

(defun agent-q-graph--definitions (sources)
  "Return a table from each name that SOURCES define to the name of its file."
  (let ((table (make-hash-table :test #'eq)))
    (dolist (source sources table)
      (let ((file (agent-q-graph--name source)))
        (dolist (entry (cdr (or (assoc source load-history) (error "%s was not loaded" source))))
          (let ((name (pcase entry
                        ((pred symbolp) entry)
                        (`(,(or 'defun 'defface) . ,name) name))))
            (when (and name (symbolp name) (string-prefix-p "agent-q" (symbol-name name)))
              (puthash name file table))))))))

(defun agent-q-graph--forms (source)
  "Return the forms of SOURCE."
  (with-temp-buffer
    (insert-file-contents source)
    (let ((forms nil))
      (condition-case nil
          (while t (push (read (current-buffer)) forms))
        (end-of-file (nreverse forms))))))

(defun agent-q-graph--walk (form found)
  "Call FOUND with each symbol in FORM that could use a definition.
What is required it gets in a list."
  (pcase form
    ((pred symbolp) (funcall found form))
    (`(require ',feature . ,_) (funcall found (list feature)))
    (`(,(or 'declare-function 'provide 'featurep) . ,_) nil)
    (`(defvar ,_) nil)
    ;; The modes that a command is for are names.
    (`(interactive ,specification . ,_) (agent-q-graph--walk specification found))
    ((pred consp)
     (while (consp form)
       (agent-q-graph--walk (pop form) found))
     (when form (agent-q-graph--walk form found)))
    ((pred vectorp) (seq-do (lambda (part) (agent-q-graph--walk part found)) form))))

(defun agent-q-graph--uses (sources definitions)
  "Return an alist from the names of SOURCES to what they use of other files.
That is an alist from a file's name to the symbols that DEFINITIONS has of it."
  (mapcar
   (lambda (source)
     (let ((file (agent-q-graph--name source))
           (files (mapcar #'agent-q-graph--name sources))
           (uses nil))
       (agent-q-graph--walk
        (agent-q-graph--forms source)
        (lambda (found)
          (let* ((symbol (if (consp found) (car found) found))
                 (owner (if (consp found) (car (member (symbol-name symbol) files))
                          (gethash symbol definitions))))
            (when (and owner (not (equal owner file)))
              (cl-pushnew symbol (alist-get owner uses nil nil #'equal))))))
       (cons file uses)))
   sources))

(defun agent-q-graph--circles (uses)
  "Return the groups of files that use each other in USES: lists of names."
  ;; Tarjan's strongly connected components.
  (let ((index 0) (stack nil) (circles nil)
        (indices (make-hash-table :test #'equal))
        (lows (make-hash-table :test #'equal)))
    (cl-labels
        ((visit (file)
           (puthash file index indices)
           (puthash file index lows)
           (cl-incf index)
           (push file stack)
           (dolist (used (mapcar #'car (cdr (assoc file uses))))
             (cond ((not (gethash used indices))
                    (visit used)
                    (puthash file (min (gethash file lows) (gethash used lows)) lows))
                   ((member used stack)
                    (puthash file (min (gethash file lows) (gethash used indices)) lows))))
           (when (= (gethash file lows) (gethash file indices))
             (let ((group nil))
               (while (progn (push (pop stack) group) (not (equal (car group) file))))
               (when (cdr group) (push (sort group #'string<) circles))))))
      (dolist (file (mapcar #'car uses))
        (unless (gethash file indices) (visit file))))
    circles))

(defun agent-q-graph--way-back (file uses)
  "Return the shortest circle in USES that FILE is in; it begins with FILE."
  (let ((ways (list (list file)))
        (seen nil)
        (found nil))
    (while (and ways (not found))
      (let ((way (pop ways)))
        (dolist (used (mapcar #'car (cdr (assoc (car way) uses))))
          (cond ((equal used file) (unless found (setq found (reverse way))))
                ((not (member used seen))
                 (push used seen)
                 (setq ways (append ways (list (cons used way)))))))))
    found))

(defun agent-q-graph--shortest (circle uses)
  "Return the shortest circle in USES among the files of CIRCLE."
  (car (seq-sort-by #'length #'<
                    (mapcar (lambda (file) (agent-q-graph--way-back file uses)) circle))))

(defun agent-q-graph--symbols (symbols)
  "Return SYMBOLS in one line."
  (string-join (sort (mapcar #'symbol-name symbols) #'string<) " "))

(defun agent-q-graph--report-circles (uses)
  "Print the circles in USES that are not accepted; return how many there are."
  (let ((circles (seq-difference (agent-q-graph--circles uses) agent-q-graph--accepted)))
    (dolist (circle circles)
      (princ (format "%d files use each other in a circle: %s\n  The shortest way around:\n"
                     (length circle) (string-join circle " ")))
      (let ((way (agent-q-graph--shortest circle uses)))
        (cl-loop for file in way
                 for owner in (append (cdr way) way)
                 for symbols = (cdr (assoc owner (cdr (assoc file uses))))
                 do (princ (format "  %s uses %s: %s\n" file owner
                                   (agent-q-graph--symbols symbols))))))
    (length circles)))

(defun agent-q-graph--report-private (uses)
  "Print the uses of other files' private names in USES; return how many there are."
  (let ((count 0))
    (pcase-dolist (`(,file . ,of) uses)
      (pcase-dolist (`(,owner . ,symbols) of)
        (let ((private (seq-filter (lambda (symbol) (string-match-p "--" (symbol-name symbol)))
                                   symbols)))
          (when private
            (cl-incf count (length private))
            (princ (format "%s uses private names of %s: %s\n" file owner
                           (agent-q-graph--symbols private)))))))
    count))

(defun agent-q-graph--report-all (uses)
  "Print how much is in USES, or all of it, as AGENT_Q_GRAPH says."
  (when (getenv "AGENT_Q_GRAPH")
    (princ (format "%d files, %d uses of one by another\n" (length uses)
                   (apply #'+ (mapcar (lambda (entry) (length (cdr entry))) uses)))))
  (when (equal (getenv "AGENT_Q_GRAPH") "uses")
    (pcase-dolist (`(,file . ,of) uses)
      (pcase-dolist (`(,owner . ,symbols) of)
        (princ (format "%s > %s: %s\n" file owner (agent-q-graph--symbols symbols)))))))

(defun agent-q-graph ()
  "Print what is wrong in the graph of uses; exit with 1 when anything is."
  (let ((sources (agent-q-graph--sources))
        (load-prefer-newer t))
    (push (expand-file-name "lisp") load-path)
    (dolist (source sources)
      (load source nil t t))
    (let ((uses (agent-q-graph--uses sources (agent-q-graph--definitions sources))))
      (agent-q-graph--report-all uses)
      (kill-emacs (if (zerop (+ (agent-q-graph--report-circles uses)
                                (agent-q-graph--report-private uses)))
                      0 1)))))

(agent-q-graph)
;;; graph.el ends here
