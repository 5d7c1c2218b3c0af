;;; agent-q-text.el --- Text for the core, for lists and for the eye  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What everybody needs to show a text or to hand it to the core.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'tabulated-list)

;;;; Text that the core can take

;; Strings of Emacs can hold what Unicode can't.  The core takes only Unicode, so
;; such text is cleaned on its way, here and nowhere else.

(defconst agent-q-text--no-unicode
  ;; A range can't reach from characters to raw bytes.
  "[\x110000-\x3fff7f\x3fff80-\x3fffff\xd800-\xdfff]"
  "Matches what a string of Emacs can hold and Unicode can't.
That are the characters beyond Unicode, raw bytes and surrogates.")

(defun agent-q-text-clean (text)
  "Return TEXT with U+FFFD in place of each character that is not in Unicode.
The core calls this on all text that it could not take."
  ;; Emacs forgets all regexps but those used last, and takes milliseconds to make this one
  ;; ready again, with case even more.  Most texts have nothing but ASCII.
  (let ((case-fold-search nil))
    ;; To look costs a fraction of what to replace nothing costs.
    (if (and (string-match-p "[^\0-\177]" text)
             (string-match-p agent-q-text--no-unicode text))
        (replace-regexp-in-string agent-q-text--no-unicode "\ufffd" text)
      text)))

(defun agent-q-text-shell-word (text)
  "Return TEXT quoted for a shell, where that is needed."
  (if (string-match-p "\\`[-%+./:=@_,^a-zA-Z0-9]+\\'" text) text
    (concat "'" (replace-regexp-in-string "'" "'\\''" text t t) "'")))

;;;; Spelling out what can't be seen

;; Models, servers and images send texts that are shown.  Characters that take
;; no room or change the order of others could make such a text look like
;; another one, so they are spelled out, as \x202e.  Only what is shown is
;; changed, never what is run, saved or sent.

(eval-and-compile
  (defconst agent-q-text-visible-ignorable
    '(#xad #x34f #x61c (#x115f . #x1160) (#x17b4 . #x17b5) (#x180b . #x180f)
      (#x200b . #x200f) (#x2028 . #x202e) (#x2060 . #x206f) #x2800 #x3164
      (#xfe00 . #xfe0f) #xfeff #xffa0 (#xfff0 . #xfffb) (#x1bca0 . #x1bca3)
      (#x1d173 . #x1d17a) (#xe0000 . #xe0fff))
    "Characters that take no room, are blank or reorder others.
Unicode calls most of them ignorable: marks of direction, joiners, selectors
of variants, tags, and fillers.")

  (defconst agent-q-text--visible-ignorable
    (mapconcat (lambda (range)
                 (if (consp range)
                     (string (car range) ?- (cdr range))
                   (string range)))
               agent-q-text-visible-ignorable "")
    "The same as a part of a set of a regexp."))

(defconst agent-q-text--visible-hidden
  (eval-when-compile (concat "[^\n\t[:print:]]\\|[" agent-q-text--visible-ignorable "]"))
  "Characters to spell out in text of several lines that the user decides on.
`[:print:]' lacks control characters, surrogates and what Unicode doesn't
know.")

(defconst agent-q-text--visible-hidden-in-name
  (eval-when-compile (concat "[^[:print:]]\\|[" agent-q-text--visible-ignorable "]"))
  "Characters to spell out in text on one line.")

(defconst agent-q-text--visible-harmful
  "[\0-\10\13\14\16-\37\177\u0080-\u009f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\U000e0000-\U000e007f]"
  "What has no business in prose.
Joiners, selectors and the mild marks of direction do: in emoji, and in
languages that are written with them.")

(defun agent-q-text--visible-spelled (character)
  "Return CHARACTER spelled out."
  (pcase character
    (?\n "\\n")
    (?\t "\\t")
    ;; What follows may be a digit.
    (_ (format "\\x%02x" character))))

(defun agent-q-text--visible-spell (text regexp)
  "Return TEXT with each character that REGEXP matches spelled out.
This takes time in proportion to the length of TEXT, with any content."
  (if (not (string-match-p regexp text))
      text
    ;; In a string, finding a character by its place takes long.  In a buffer
    ;; it does so only after a change.
    (with-temp-buffer
      (insert text)
      (goto-char (point-min))
      (let ((parts nil)
            (from (point)))
        (while (re-search-forward regexp nil t)
          (push (buffer-substring from (1- (point))) parts)
          ;; Without a face: text properties would make this quadratic.
          (push (agent-q-text--visible-spelled (char-before)) parts)
          (setq from (point)))
        (push (buffer-substring from (point-max)) parts)
        (apply #'concat (nreverse parts))))))

(defun agent-q-text-visible (text)
  "Return TEXT with its invisible characters spelled out.
The ends of its lines and tabs stay."
  (agent-q-text--visible-spell text agent-q-text--visible-hidden))

(defconst agent-q-text-visible-line-limit 200
  "Most characters of a name that are shown.")

(defun agent-q-text-visible-line (text &optional limit)
  "Return TEXT, a name, so that it stays within its line.
At most LIMIT characters of it are there, `agent-q-text-visible-line-limit'
unless given."
  (let ((limit (or limit agent-q-text-visible-line-limit)))
    (concat (agent-q-text--visible-spell (substring text 0 (min limit (length text)))
                                         agent-q-text--visible-hidden-in-name)
            (if (> (length text) limit) "..." ""))))

(defun agent-q-text-visible-prose (text)
  "Return TEXT, which is only displayed, without characters that could disguise it.
What some languages and emoji need stays."
  (agent-q-text--visible-spell text agent-q-text--visible-harmful))

;;;; Lists over lines, as programmers write them

;; Emacs's own printer breaks lines differently from version to version, before
;; Emacs 30 behind nearly every opening parenthesis.  This one fills lines, keeps
;; a keyword beside its value, and writes code with the body below its head.

(defconst agent-q-text--pretty-line 70
  "Longest text, in characters, that is kept on one line.")

(defconst agent-q-text--pretty-limit 20000
  "How many characters of a list are printed over lines; more takes too long.")

(defconst agent-q-text--pretty-depth 40
  "How many lists in lists are printed over lines.")

(defun agent-q-text-pretty (value)
  "Return VALUE as text that `read' understands, over lines when it is long."
  (let* ((print-circle t) (print-quoted t)
         (plain (prin1-to-string value)))
    (cond ((> (length plain) agent-q-text--pretty-limit) plain)
          ((not (string-match-p "#[0-9]+=" plain))
           (agent-q-text--pretty-value value 0 agent-q-text--pretty-depth))
          ;; What is in several places has a label, which its parts would lose.
          ((agent-q-text--pretty-tree-p value)
           (condition-case nil
               (let ((print-circle nil))
                 (agent-q-text--pretty-value value 0 agent-q-text--pretty-depth))
             ;; Such as one that is too deep to be printed so.
             (error plain)))
          (t plain))))

(defun agent-q-text--pretty-tree-p (value)
  "Whether VALUE comes to an end, and soon, when what is in it twice counts twice."
  (let ((left agent-q-text--pretty-limit)
        (stack (list value)))
    (while (and stack (< 0 left))
      (let ((part (pop stack)))
        (setq left (1- left))
        (cond ((consp part) (push (cdr part) stack) (push (car part) stack))
              ((vectorp part) (seq-doseq (element part) (push element stack)))
              ;; Whatever may be in there, such as in a record or a hash table.
              ((not (or (symbolp part) (stringp part) (numberp part)))
               (setq left 0)))))
    (null stack)))

(defun agent-q-text--pretty-value (value column depth)
  "Return VALUE, printed from COLUMN on, with lists up to DEPTH over lines."
  (let ((plain (prin1-to-string value)))
    (cond ((or (<= (+ column (length plain)) agent-q-text--pretty-line)
               (zerop depth))
           plain)
          ((and (vectorp value) (< 0 (length value)))
           (concat "[" (agent-q-text--pretty-parts (agent-q-text--pretty-units (append value nil))
                                                   nil (1+ column) (1- depth))
                   "]"))
          ((and (memq (car-safe value) '(quote function \`)) (consp (cdr value)))
           (agent-q-text--pretty-quoted value plain column depth))
          ((consp value)
           (concat "(" (agent-q-text--pretty-parts (agent-q-text--pretty-units value)
                                                   (agent-q-text--pretty-before-body value)
                                                   (1+ column) (1- depth))
                   ")"))
          (t plain))))

(defun agent-q-text--pretty-quoted (value plain column depth)
  "Return VALUE, such as a quoted list, which is PLAIN on one line.
COLUMN and DEPTH are as for `agent-q-text--pretty-value'."
  (let* ((inner (prin1-to-string (cadr value)))
         (mark (and (string-suffix-p inner plain) (string-remove-suffix inner plain))))
    (if mark
        (concat mark (agent-q-text--pretty-value (cadr value) (+ column (length mark)) (1- depth)))
      plain)))

(defun agent-q-text--pretty-units (list)
  "Return the parts of LIST that stay together, each one a list of values.
These are its elements; in a property list a keyword and its value; and of a
dotted list the dot and the end."
  (let ((plist (keywordp (car list)))
        (units nil))
    (while (consp list)
      (push (if (and plist (keywordp (car list)) (consp (cdr list)))
                (list (pop list) (pop list))
              (list (pop list)))
            units))
    (when list
      (push (list '\. list) units))
    (nreverse units)))

(defun agent-q-text--pretty-before-body (list)
  "Return how many elements of LIST stand before its body, or nil if it has none."
  (let ((indent (and (car list) (symbolp (car list))
                     (function-get (car list) 'lisp-indent-function))))
    (cond ((eq indent 'defun) 3)
          ((natnump indent) (1+ indent)))))

(defun agent-q-text--pretty-parts (units before-body column depth)
  "Return UNITS of a list or vector, printed from COLUMN on and with DEPTH.
The first BEFORE-BODY of them stay on the first line, if there is a body."
  (let ((pieces nil)
        (at column)
        (number 0)
        (margin (if before-body (1+ column) column))
        ;; As in a list of entries.
        (lined (consp (car (car units))))
        (lines nil))
    (dolist (unit units)
      (let ((plain (mapconcat #'agent-q-text--pretty-atom unit " ")))
        (cond ((zerop number))
              ((and before-body (< number before-body))
               (push " " pieces)
               (setq at (1+ at)))
              ((or lined before-body lines
                   (> (+ at 1 (length plain)) agent-q-text--pretty-line))
               (push (concat "\n" (make-string margin ?\s)) pieces)
               (setq at margin))
              (t (push " " pieces)
                 (setq at (1+ at))))
        (let ((printed (agent-q-text--pretty-unit unit at depth)))
          (push printed pieces)
          (setq lines (string-search "\n" printed)
                at (if lines
                       (- (length printed) (string-match-p "[^\n]*\\'" printed))
                     (+ at (length printed)))
                number (1+ number)))))
    (apply #'concat (nreverse pieces))))

(defun agent-q-text--pretty-atom (value)
  "Return VALUE printed on one line; the dot of a dotted list is itself."
  (if (eq value '\.) "." (prin1-to-string value)))

(defun agent-q-text--pretty-unit (unit column depth)
  "Return the values of UNIT printed from COLUMN on and with DEPTH."
  (if (cdr unit)
      (let ((first (concat (agent-q-text--pretty-atom (car unit)) " ")))
        (concat first (agent-q-text--pretty-value (cadr unit) (+ column (length first)) depth)))
    (agent-q-text--pretty-value (car unit) column depth)))

;;;; Pages

(defmacro agent-q-text-with-page (name &rest body)
  "Show what BODY prints in the help buffer NAME, and select its window.
So the key that closes a page does so wherever it came from.  BODY runs in the
current buffer, with what is local there."
  (declare (indent 1) (debug t))
  (let ((here (make-symbol "here")))
    `(let ((help-window-select t) (,here (current-buffer)))
       (prog1 (with-help-window ,name
                ;; Since Emacs 29 the page is current there.
                (with-current-buffer ,here ,@body))
         (agent-q-text-give-menu ,name)))))

(defun agent-q-text-give-menu (page)
  "Let ? in the help buffer PAGE show our menu, as it does in our lists."
  (with-current-buffer page
    (let ((map (make-sparse-keymap)))
      (set-keymap-parent map (current-local-map))
      ;; The menu stands on this file, and is known by its name here.
      (define-key map "?" (intern "agent-q-menu"))
      (use-local-map map))))

;;;; Titles

(defconst agent-q-text--title-width 48
  "Most columns of a title.")

(defconst agent-q-text--title-reach 2000
  "Characters of a message that are read for its title.
The patterns below would take hours on a long line without an end.")

(defun agent-q-text-title (text &optional about)
  "Return a short title for the message TEXT, or an empty one.
ABOUT is what was attached to it, a list of texts: the first one completes a
TEXT as short as \"Explain this.\"."
  (let* ((case-fold-search t)
         (text (substring text 0 (min agent-q-text--title-reach (length text))))
         (text (string-trim (replace-regexp-in-string "[ \t\n`]+" " " text)))
         ;; The names in mentions, the words of commands.
         (text (replace-regexp-in-string
                "\\(\\`\\|[ ([]\\)@[a-z]+:\"?\\(?:[^] \"]*/\\)?\\([^] \"]+\\)\"?" "\\1\\2" text))
         (text (replace-regexp-in-string "\\(\\`\\|[ ([]\\)@\\([a-z]+\\_>\\)" "\\1\\2" text))
         (text (if (string-match "\\`/[-_a-z]+" text)
                   (replace-match (string-replace "_" " " (substring (match-string 0 text) 1))
                                  t t text)
                 text))
         (text (replace-regexp-in-string
                "\\`\\(?:[#>*-]+ \\|please,? \\|\\(?:can\\|could\\|would\\) you \\(?:please \\)?\\)+" "" text))
         (text (if (and (string-match ".\\{8\\}.*?[.?!]\\(?: \\|\\'\\)" text)
                        (not (string-match-p "\\(?:e\\.g\\|i\\.e\\)\\. \\'" (match-string 0 text))))
                   (string-remove-suffix "." (string-trim (match-string 0 text)))
                 text))
         (about (car about)))
    (agent-q-text--cut-at-word
     (agent-q-text-visible-line
      (if (and about (< (length (split-string text)) 3))
          (string-remove-prefix ": " (concat text ": " (car (split-string about ","))))
        text)))))

(defun agent-q-text--cut-at-word (text)
  "Return TEXT, or as many of its words as a title may have."
  (if (<= (string-width text) agent-q-text--title-width) text
    (let ((cut (truncate-string-to-width text (1- agent-q-text--title-width))))
      (concat (if (string-match "\\`\\(.\\{16,\\}\\)[ ,;:(]+[^ ]*\\'" cut)
                  (match-string 1 cut)
                cut)
              (if (char-displayable-p ?…) "…" "...")))))

;;;; Lists that fit their windows

(defconst agent-q-text--word-faces
  '((("dangerous" "denied" "failed" "deny" "missing" "interrupted") . error)
    (("cautious" "cancelled" "ask" "modified" "started") . warning)
    (("approved" "succeeded" "allow" "safe") . success))
  "Words of lists, levels, decisions and outcomes, and their faces.")

(defun agent-q-text-coloured (word)
  "Return WORD of a list in the colour of its meaning."
  (if-let ((face (cdr (seq-find (lambda (row) (member (downcase word) (car row)))
                                agent-q-text--word-faces))))
      (propertize word 'face face)
    word))

;; Tables of which a narrow window shows the columns that matter most.  They are
;; `tabulated-list-mode' below that, and are drawn again when their window's width changes.

(defvar-local agent-q-text--list-columns nil
  "All columns of this list, as for `agent-q-text-list-setup'.")

(defvar-local agent-q-text--list-shown nil
  "The numbers of the columns that are shown.")

(defvar-local agent-q-text--list-rows nil
  "The function that returns the rows of this list, with all columns.")

(defvar-local agent-q-text--list-empty nil
  "What stands in this list when it has no row, or nil.")

(defconst agent-q-text-list-hint " (? menu)"
  "What the mode line of a list says of its keys.")

(defconst agent-q-text--list-least 16
  "Least width of the last column unless it says so itself.")

(defconst agent-q-text--list-more 40
  "What the last column gets beyond its least width before others grow.")

(defun agent-q-text-list-setup (columns rows &optional empty)
  "Make the current buffer a list of COLUMNS, with the entries of ROWS, a function.
A column is (WORTH NAME WIDTH SORT . PROPERTIES), as in
`tabulated-list-format'.  Where the window is too narrow, the columns worth
least are left out; where it is wide, those with the property `:most' grow up
to that.  The last one takes the rest of the line, if its width is 0, and that
is at least its property `:least'.  EMPTY is what
`agent-q-text-list-print' says when there is no entry, with keys as for
`substitute-command-keys'."
  (setq agent-q-text--list-columns columns
        agent-q-text--list-rows rows
        agent-q-text--list-empty empty
        agent-q-text--list-shown nil
        tabulated-list-entries #'agent-q-text--list-entries)
  (setq-local truncate-lines t)
  ;; Unless the list has more to ask for.
  (when (eq revert-buffer-function #'tabulated-list-revert)
    (setq-local revert-buffer-function #'agent-q-text--list-revert))
  (unless mode-line-process
    (setq mode-line-process agent-q-text-list-hint))
  (agent-q-text--list-fit)
  (add-hook 'window-configuration-change-hook #'agent-q-text--list-refit nil t))

(defun agent-q-text--list-width ()
  "Return how many characters a line of this list has."
  (let ((window (get-buffer-window nil t)))
    (if window (window-max-chars-per-line window) (max 80 (frame-width)))))

(defun agent-q-text--list-needs (columns)
  "Return how many characters COLUMNS need."
  (apply #'+ 1 (mapcar (pcase-lambda (`(,_ ,_ ,width ,_ . ,properties))
                         (1+ (if (zerop width)
                                 (or (plist-get properties :least) agent-q-text--list-least)
                               width)))
                       columns)))

(defun agent-q-text--list-fitting (width)
  "Return the numbers of the columns that fit into WIDTH."
  (let ((columns (copy-sequence agent-q-text--list-columns)))
    (while (and (cdr columns) (> (agent-q-text--list-needs columns) width))
      (let ((least (apply #'min (mapcar #'car columns))))
        (setq columns (delq (seq-find (lambda (column) (eql (car column) least)) columns)
                            columns))))
    (mapcar (lambda (column) (cl-position column agent-q-text--list-columns)) columns)))

(defun agent-q-text--list-widened (columns spare)
  "Return COLUMNS, less their worths, with at most SPARE more characters."
  (mapcar (pcase-lambda (`(,_ ,name ,width ,sort . ,properties))
            (let ((more (min spare (- (or (plist-get properties :most) width) width))))
              (setq spare (- spare more))
              `(,name ,(+ width more) ,sort ,@properties)))
          columns))

(defun agent-q-text--list-fit ()
  "Choose the columns for the window; return non-nil if these are others."
  (let* ((width (agent-q-text--list-width))
         (shown (agent-q-text--list-fitting width))
         (columns (mapcar (lambda (number) (nth number agent-q-text--list-columns)) shown))
         (spare (max 0 (- width (agent-q-text--list-needs columns) agent-q-text--list-more)))
         (format (vconcat (agent-q-text--list-widened columns spare))))
    (unless (and (equal shown agent-q-text--list-shown)
                 (equal format tabulated-list-format))
      (setq agent-q-text--list-shown shown
            tabulated-list-format format)
      (unless (seq-some (lambda (column) (equal (car column) (car tabulated-list-sort-key)))
                        tabulated-list-format)
        (setq tabulated-list-sort-key nil))
      (tabulated-list-init-header)
      t)))

(defun agent-q-text--list-refit ()
  "Draw the list again if its window has room for other columns now."
  (when (and agent-q-text--list-columns (agent-q-text--list-fit))
    (agent-q-text-list-print)))

(defun agent-q-text--list-revert (&rest _)
  "Draw this list again.  For `revert-buffer-function'."
  (run-hooks 'tabulated-list-revert-hook)
  (agent-q-text-list-print))

(defun agent-q-text-list-print ()
  "Draw this list, with point on the same entry; say so if there is none."
  (tabulated-list-print t)
  (when (and agent-q-text--list-empty (zerop (buffer-size)))
    (let ((inhibit-read-only t))
      (insert (substitute-command-keys agent-q-text--list-empty))
      (let ((fill-column (max agent-q-text--list-least (1- (agent-q-text--list-width)))))
        (fill-region (point-min) (point-max))))
    (goto-char (point-min))))

(defun agent-q-text--list-entries ()
  "Return the rows of the list with the columns that are shown."
  (mapcar (pcase-lambda (`(,id ,row))
            (list id (vconcat (mapcar (lambda (number) (aref row number))
                                      agent-q-text--list-shown))))
          (funcall agent-q-text--list-rows)))

(provide 'agent-q-text)
;;; agent-q-text.el ends here
