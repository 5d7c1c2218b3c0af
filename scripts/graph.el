;;; graph.el --- Check which files of lisp/ use which  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Started by scripts/lint.sh in batch mode, in the project's root.  `require' shows only a part of
;; what a file uses: declarations hide the rest.  So this loads all of lisp/, asks Emacs what each
;; file defined, and looks in each file's text for names that another one defined, too.  It reports
;; files that use each other in a circle and uses of another file's private names.  By the text
;; alone it reports names that don't begin with their file's, functions that nothing uses, too many
;; variables for functions of other files, and files that are too many, too short or too long.  With any, it exits with 1.
;; AGENT_Q_GRAPH=count prints how much there is of it, AGENT_Q_GRAPH=uses all of it.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defconst agent-q-graph--accepted '()
  "Groups of files that may use each other: lists, each with its reason.")

(defconst agent-q-graph--most-files 80
  "How many files lisp/ may have.")

(defconst agent-q-graph--lines '(120 . 1000)
  "How many lines a file of lisp/ has, at least and at most.")

(defconst agent-q-graph--most-seams 10
  "How many variables may hold functions of other files.")

(defconst agent-q-graph--seam "-\\(?:functions?\\|hook\\|handler\\)\\'"
  "How the names of those variables end.")

(defconst agent-q-graph--other-sizes
  '(("agent-q-core-functions" . "generated, as long as the core has functions"))
  "Files of another size, each with its reason.")

(defconst agent-q-graph--interned '("agent-q-attach-kinds-")
  "How names begin that are put together at run time.")

(defconst agent-q-graph--other-names
  '(;; Without `agent-q-': commands and options that users know, and names of CONTRACTS.md.
    agent* approval-handler bind-tool bind-tool-explain build cancel-tool-calls chat-use-agent
    chat-use-provider command-map commit-instructions commit-message compact compose
    context-add-item context-items context-max context-max-size context-remove-item
    context-summary context-to-string context-usage continue copy-answer cost create-tool
    create-tool-specification declare-core define-tool define-tool-from-signature delete-chat
    document effort empty-tool-library explain explain-error export-chat fix-error
    fork-chat format-tool-result get-tool get-tools goto-approval keymap-prefix library-lookup
    library-register list-registered-tools list-tools manual mcp-uninstall mode* model
    parse-type-signature plan* private-files prompts-directory providers
    register-builtin-tools register-tool registry rename-chat report-bug resume retry rewind
    rewrite save-chats send-image-map set-effort set-image set-key set-model show-request
    show-system-prompt sync-instructions toggle-markup tool-execution-hooks tool-levels
    tool-libraries tool-library tool-result tool-servers tool-spec* tool-statistics* tools-to-schema
    type-signature-to-json-schema undo-compact undo-rewind undo-turn unregister-tool
    validate-tool-args verify)
  "Names that may be in any file; there may be 92.
One with a star stands for those that begin with it and a hyphen, too.")

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

(defun agent-q-graph--texts (form)
  "Return what FORM of a file's text defines: a list of (NAME . FUNCTION-P)."
  (pcase form
    (`(,(or 'defun 'cl-defun 'defmacro 'cl-defmacro 'defsubst 'cl-defsubst 'defalias) ,name . ,_)
     (list (cons (if (eq (car-safe name) 'quote) (cadr name) name) t)))
    (`(,(or 'defvar 'defvar-local 'defconst 'defcustom) ,name ,_ . ,_) (list (cons name nil)))
    (`(,(or 'define-minor-mode 'define-derived-mode 'define-globalized-minor-mode) ,name . ,_)
     (list (cons name nil)))
    (`(cl-defstruct ,name . ,_) (list (cons (if (consp name) (car name) name) nil)))
    (`(,(or 'progn 'eval-and-compile 'eval-when-compile) . ,forms)
     (seq-mapcat #'agent-q-graph--texts forms))))

(defun agent-q-graph--owner (name files)
  "Return that of FILES, names, with which NAME begins; the longest."
  (car (seq-sort-by (lambda (file) (- (length file))) #'<
                    (seq-filter (lambda (file)
                                  (string-match-p (format "\\`%s\\(?:-\\|\\'\\)" (regexp-quote file)) name))
                                files))))

(defun agent-q-graph--accepts-p (other name)
  "Say whether OTHER, of `agent-q-graph--other-names', is for NAME."
  (let ((beginning (string-remove-suffix "*" other)))
    (or (equal name beginning)
        (and (string-suffix-p "*" other) (string-prefix-p (concat beginning "-") name)))))

(defun agent-q-graph--report-names (sources)
  "Print what SOURCES define under another file's name; return how much.
A private name is its file's and two hyphens.  The options in agent-q.el are
the package's."
  (let ((files (mapcar #'agent-q-graph--name sources))
        (others (mapcar (lambda (name) (format "agent-q-%s" name)) agent-q-graph--other-names))
        (seen nil)
        (count 0))
    (dolist (source sources)
      (let ((file (agent-q-graph--name source)))
        (pcase-dolist (`(,symbol . ,_) (seq-mapcat #'agent-q-graph--texts (agent-q-graph--forms source)))
          (let* ((name (symbol-name symbol))
                 (other (seq-find (lambda (other) (agent-q-graph--accepts-p other name)) others)))
            (cond (other (push other seen))
                  ((equal file "agent-q"))
                  ((and (equal (agent-q-graph--owner name files) file)
                        (or (not (string-match-p "--" name))
                            (string-prefix-p (concat file "--") name))))
                  (t (cl-incf count)
                     (princ (format "%s defines %s, which begins otherwise\n" file name))))))))
    (dolist (name (seq-difference others seen))
      (cl-incf count)
      (princ (format "scripts/graph.el accepts %s, which isn't defined\n" name)))
    (when (> (length others) 92)
      (cl-incf count)
      (princ (format "scripts/graph.el accepts %d names, at most 92 are wanted\n" (length others))))
    count))

(defun agent-q-graph--words (files)
  "Return a table from each name of ours in FILES to how often it is there.
Comments don't count."
  (let ((table (make-hash-table :test #'equal)))
    (dolist (file files table)
      (with-temp-buffer
        (insert-file-contents file)
        (while (re-search-forward "^ *;\\(?:[^;]\\|;[^;]\\|;;[^#]\\).*\\|\\(agent-q[a-z0-9-]*[a-z0-9]\\)" nil t)
          (when (match-string 1)
            (cl-incf (gethash (match-string 1) table 0))))))))

(defun agent-q-graph--report-unused (sources)
  "Print the functions in SOURCES that nothing uses; return how many there are.
A test is a use, but not of a private one.  Those with a name put together at
run time are known by the text that it begins with."
  (let ((lisp (agent-q-graph--words sources))
        (elsewhere (agent-q-graph--words
                    (cons "CONTRACTS.md"
                          (seq-mapcat (lambda (folder)
                                        (directory-files-recursively folder "\\.\\(?:el\\|rs\\|lisp\\|sh\\)\\'"))
                                      '("src" "test" "scripts" "lisp/image")))))
        (count 0))
    (dolist (source sources)
      (dolist (form (agent-q-graph--forms source))
        (pcase-dolist (`(,symbol . ,function) (agent-q-graph--texts form))
          (let ((name (symbol-name symbol)))
            (unless (or (not function)
                        (> (gethash name lisp 0) 1)
                        (assq 'interactive form)
                        (and (not (string-match-p "--" name)) (gethash name elsewhere))
                        (seq-some (lambda (beginning) (string-prefix-p beginning name))
                                  agent-q-graph--interned))
              (cl-incf count)
              (princ (format "%s: nothing uses %s\n" (agent-q-graph--name source) name)))))))
    count))

(defun agent-q-graph--report-seams (sources)
  "Print the variables of SOURCES for other files' functions, if they are too many.
Return 1 then.  The one that users set doesn't count."
  (let ((seams nil))
    (dolist (source sources)
      (dolist (form (agent-q-graph--forms source))
        (pcase form
          (`(,(or 'defvar 'defvar-local) ,name ,_ . ,_)
           (when (and (string-match-p agent-q-graph--seam (symbol-name name))
                      (not (string-match-p "--" (symbol-name name)))
                      (not (memq name '(agent-q-approval-handler))))
             (push name seams))))))
    (if (<= (length seams) agent-q-graph--most-seams)
        0
      (princ (format "%d variables hold functions of other files, at most %d are wanted: %s\n"
                     (length seams) agent-q-graph--most-seams (agent-q-graph--symbols seams)))
      1)))

(defun agent-q-graph--report-sizes (sources)
  "Print what is wrong with the number and length of SOURCES; return how much."
  (let ((count 0)
        (files (1+ (length sources)))) ; and the autoloads
    (when (> files agent-q-graph--most-files)
      (cl-incf count)
      (princ (format "lisp/ has %d files, at most %d are wanted\n" files agent-q-graph--most-files)))
    (dolist (source sources)
      (let ((name (agent-q-graph--name source))
            (lines (with-temp-buffer
                     (insert-file-contents source)
                     (count-lines (point-min) (point-max)))))
        (unless (or (<= (car agent-q-graph--lines) lines (cdr agent-q-graph--lines))
                    (assoc name agent-q-graph--other-sizes))
          (cl-incf count)
          (princ (format "lisp/%s.el: %d lines, %d to %d are wanted\n" name lines
                         (car agent-q-graph--lines) (cdr agent-q-graph--lines))))))
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
                                (agent-q-graph--report-private uses)
                                (agent-q-graph--report-names sources)
                                (agent-q-graph--report-unused sources)
                                (agent-q-graph--report-seams sources)
                                (agent-q-graph--report-sizes sources)))
                      0 1)))))

(agent-q-graph)
;;; graph.el ends here
