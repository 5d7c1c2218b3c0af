;;; agent-q-markdown.el --- How the text of answers looks  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The core reads the Markdown of an answer while it comes (src/markdown) and says
;; how its characters look.  This file has the faces and the text properties for
;; that.  The characters themselves stay what the model wrote, so an old answer can be
;; bare, without looks, until redisplay or a command comes to it.  The colours of code
;; in blocks are in agent-q-render-body.el.

;;; Code:

(require 'agent-q-code-highlight)
(require 'agent-q-project)
(require 'agent-q-render-body)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(eval-when-compile (require 'agent-q-core-functions))

(agent-q-declare-core)

;;;; Links in answers

;; Links in the text of a model are buttons: an address of the web opens in a
;; browser, a file of the project in Emacs.  Nothing else does anything, and
;; where one leads is shown before it is followed.

(defvar agent-q-markdown-link-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-markdown-link-follow)
    (define-key map [mouse-2] #'agent-q-markdown-link-follow-mouse)
    (define-key map [follow-link] 'mouse-face)
    map)
  "Keymap on links in answers.")

(defun agent-q-markdown-link-put (start end target)
  "Make the text from START to END a link to TARGET."
  (add-text-properties
   start end
   (list 'agent-q-link target 'mouse-face 'highlight 'keymap agent-q-markdown-link-map
         'help-echo (agent-q-text-visible-line target))))

(defun agent-q-markdown--link-address-p (target)
  "Whether TARGET is an address that a browser may open."
  (let ((case-fold-search t))
    (string-match-p "\\`\\(?:https?://\\|mailto:\\)[^[:space:][:cntrl:]]+\\'" target)))

(defun agent-q-markdown--link-file (target)
  "Return the file of the project that TARGET names, and its line or nil, or nil."
  (when (string-match
         "\\`\\(?:file://\\)?\\(.+?\\)\\(?:\\(?::\\|#L\\)\\([0-9]+\\)\\(?::[0-9]+\\)?\\)?\\'"
         target)
    (let* ((line (match-string 2 target))
           (name (match-string 1 target))
           (root (and (not (file-remote-p name))
                      (not (string-prefix-p "~" name))
                      (agent-q-project-directory)))
           (file (and root (expand-file-name name root))))
      (when (and file
                 (not (file-remote-p file))
                 (file-regular-p file)
                 (file-in-directory-p (file-truename file) (file-truename root)))
        (cons file (and line (string-to-number line)))))))

(defun agent-q-markdown-link-go (file line)
  "Go to FILE in another window, to LINE unless that is nil."
  (find-file-other-window file)
  (when line
    (widen)
    (goto-char (point-min))
    (forward-line (1- line))))

(defun agent-q-markdown-link-follow ()
  "Follow the link at point."
  (interactive nil agent-q-chat-mode)
  (let ((target (or (get-text-property (point) 'agent-q-link)
                    (user-error "No link here"))))
    (if (agent-q-markdown--link-address-p target)
        (progn (message "Opening %s" (agent-q-text-visible-line target))
               (browse-url target))
      (pcase (agent-q-markdown--link-file target)
        (`(,file . ,line)
         (agent-q-markdown-link-go file line))
        (_ (user-error "Not followed: %s is neither an address of the web nor a file of the project"
                       (agent-q-text-visible-line target)))))))

(defun agent-q-markdown-link-follow-mouse (event)
  "Follow the link that EVENT clicked on."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-markdown-link-follow))

;;;; Tables in answers

;; The columns of a table are aligned by display properties on what stands
;; between its cells; the characters stay.  A table that is too wide for the
;; window has its cells shortened, one that is large is shown as it is written;
;; RET on either shows the whole.

(defconst agent-q-markdown--table-limit 20000
  "Most characters of a table that is aligned; longer ones are shown as written.")

(defconst agent-q-markdown--table-growing 3000
  "A table of more characters is aligned only when it is complete.")

(defconst agent-q-markdown--table-columns 40
  "Most columns of a table that is aligned; wider ones are shown as written.")

(defconst agent-q-markdown--table-whole-limit 200000
  "Most characters of a table that is aligned in a buffer of its own.")

(defconst agent-q-markdown--table-narrowest 4
  "Fewest characters to which a column is narrowed to fit the window.")

(defvar agent-q-markdown-table-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-markdown-table-show)
    (define-key map [mouse-2] #'agent-q-markdown-table-show-mouse)
    map)
  "Keymap on tables that are not shown whole.")

(cl-defstruct (agent-q-markdown-table (:constructor agent-q-markdown--table-make) (:copier nil))
  "A table: markers of its START and END, its ALIGNMENTS, ROWS and DASHES.
A row is a list of places, start and end of each cell, from START on.
LARGE is non-nil if it is shown as written."
  start end alignments rows dashes large)

(defun agent-q-markdown-table-put (origin table growing)
  "Align TABLE, which the core reported; its places are counted from ORIGIN.
GROWING is where the text ends that still grows, or nil when it is complete."
  (pcase-let ((`(,from ,to ,alignments ,rows ,dashes-from ,dashes-to) table))
    (let ((complete (not (and growing (agent-q-markdown--table-open-p (+ origin to) growing))))
          (large (or (> (length alignments) agent-q-markdown--table-columns)
                     (>= (- to from) agent-q-markdown--table-limit))))
      (when (or complete (and (not large) (< (- to from) agent-q-markdown--table-growing)))
        (let ((table (agent-q-markdown--table-make
                      :start (+ origin from) :end (+ origin to) :alignments alignments
                      :rows (mapcar (lambda (row) (mapcar (lambda (it) (- it from)) row)) rows)
                      :dashes (cons (- dashes-from from) (- dashes-to from))
                      :large large)))
          (if large (agent-q-markdown--table-offer-whole table)
            (agent-q-markdown--table-align table (agent-q-markdown--table-room)))
          (put-text-property (+ origin from) (+ origin to) 'agent-q-markdown-table table))))))

(defun agent-q-markdown--table-open-p (end growing)
  "Whether a table that ends at END may go on: GROWING is where the text ends."
  (save-excursion
    (goto-char end)
    (skip-chars-forward "\n" growing)
    (>= (point) growing)))

(defun agent-q-markdown--table-offer-whole (table)
  "Let RET on TABLE show the whole table."
  (let ((place (agent-q-markdown-table-start table))
        (end (agent-q-markdown-table-end table)))
    (while (< place end)
      (let ((next (next-single-property-change place 'keymap nil end)))
        ;; A link in it is followed.
        (unless (get-text-property place 'keymap)
          (add-text-properties place next
                               (list 'keymap agent-q-markdown-table-map
                                     'help-echo "RET: the whole table")))
        (setq place next)))))

(defun agent-q-markdown--table-room ()
  "Return how many columns a table may have here."
  (max 20 (1- (cl-loop for window in (get-buffer-window-list nil nil t)
                       minimize (window-body-width window) into least
                       finally return (if (and least (> least 0)) least 80)))))

(defun agent-q-markdown--table-shown (start end)
  "Return the text from START to END as it is shown."
  (if (not (agent-q-markdown--hidden-p))
      (buffer-substring-no-properties start end)
    (let ((texts nil) (place start))
      (while (< place end)
        (let ((drawn (get-text-property place 'agent-q-formula))
              (next (min (next-single-char-property-change place 'invisible nil end)
                         (next-single-char-property-change place 'agent-q-formula nil end))))
          (unless (get-text-property place 'invisible)
            (push (or drawn (buffer-substring-no-properties place next)) texts))
          (setq place next)))
      (apply #'concat (nreverse texts)))))

(defun agent-q-markdown--table-cells (table row)
  "Return the cells of ROW of TABLE, each a list (START END WIDTH)."
  (cl-loop for (from to) on row by #'cddr
           for start = (+ from (agent-q-markdown-table-start table))
           for end = (+ to (agent-q-markdown-table-start table))
           collect (list start end (string-width (agent-q-markdown--table-shown start end)))))

(defun agent-q-markdown--table-fit (widths room)
  "Return WIDTHS, made smaller so that the table takes no more than ROOM columns."
  (let* ((around (1+ (* 3 (length widths))))
         (over (- (+ around (apply #'+ widths)) room))
         (widths (copy-sequence widths)))
    (while (and (> over 0)
                (> (apply #'max widths) agent-q-markdown--table-narrowest))
      (let* ((widest (apply #'max widths))
             (place (seq-position widths widest)))
        (setf (nth place widths) (1- widest))
        (cl-decf over)))
    widths))

(defun agent-q-markdown--table-in-room (widths room)
  "Return the first of WIDTHS: of the columns that ROOM has a place for.
At least one is shown."
  ;; Behind them comes a sign that there are more.
  (let ((left (- room 3)) (shown nil))
    (if (<= (+ 1 (apply #'+ widths) (* 3 (length widths))) room)
        widths
      (while (and widths (or (null shown) (<= (+ 3 (car widths)) left)))
        (setq left (- left 3 (car widths)))
        (push (pop widths) shown))
      (nreverse shown))))

(defun agent-q-markdown--table-ellipsis ()
  "Return the sign for what is left out, as this terminal can show it."
  (if (char-displayable-p ?…) "…" "."))

(defun agent-q-markdown--table-drawn-p ()
  "Whether this terminal can draw the lines of tables."
  (and (char-displayable-p ?│) (char-displayable-p ?┼)))

(defun agent-q-markdown--table-align (table room)
  "Align TABLE so that it takes no more than ROOM columns, if that can be."
  (let* ((start (agent-q-markdown-table-start table))
         (rows (mapcar (lambda (row) (agent-q-markdown--table-cells table row))
                       (agent-q-markdown-table-rows table)))
         (columns (length (agent-q-markdown-table-alignments table)))
         (wanted (cl-loop for column below columns
                          collect (cl-loop for row in rows
                                           maximize (or (nth 2 (nth column row)) 0))))
         (widths (agent-q-markdown--table-in-room (agent-q-markdown--table-fit wanted room) room))
         (more (if (nthcdr (length widths) wanted) (concat " " (agent-q-markdown--table-ellipsis)) "")))
    (remove-text-properties start (agent-q-markdown-table-end table) '(display nil))
    (agent-q-markdown--show-formulas start (agent-q-markdown-table-end table))
    (dolist (row rows)
      (agent-q-markdown--table-align-row row widths (agent-q-markdown-table-alignments table) more))
    (let ((dashes (agent-q-markdown-table-dashes table)))
      (agent-q-markdown--table-show
       (+ start (car dashes)) (+ start (cdr dashes))
       (if (agent-q-markdown--table-drawn-p)
           (concat "├" (mapconcat (lambda (width) (make-string (+ 2 width) ?─)) widths "┼") "┤" more)
         (concat "|" (mapconcat (lambda (width) (make-string (+ 2 width) ?-)) widths "+") "|" more))))
    (unless (equal widths wanted)
      (agent-q-markdown--table-offer-whole table))))

(defun agent-q-markdown--table-show (start end text)
  "Show TEXT instead of what is from START to END."
  (when (< start end)
    (put-text-property start end 'display (propertize text 'face '(agent-q-markup agent-q-code)))))

(defvar agent-q-markdown--table-borders (make-hash-table :test #'equal)
  "Cache of the text between cells.
Its keys are the blanks before and after the line, and whether that is drawn.")

(defun agent-q-markdown--table-border (before after)
  "Return a line between cells with BEFORE and AFTER blanks.
Most tables need the same few, so they are kept."
  (let* ((drawn (agent-q-markdown--table-drawn-p))
         (key (list before after drawn)))
    (or (gethash key agent-q-markdown--table-borders)
        (puthash key (propertize (concat (make-string before ?\s) (if drawn "│" "|")
                                         (make-string after ?\s))
                                 'face '(agent-q-markup agent-q-code))
                 agent-q-markdown--table-borders))))

(defun agent-q-markdown--table-align-row (cells widths alignments more)
  "Show CELLS of a row in columns of WIDTHS with ALIGNMENTS.
MORE stands for the cells for which there is no width."
  (let* ((first (nth 0 (car cells)))
         (before (and first (save-excursion (goto-char first) (line-beginning-position))))
         (blanks 0))
    (cl-loop
     for (start end width) in cells
     for room in widths
     for alignment in alignments
     do (let* ((free (max 0 (- room width)))
               (left (pcase alignment ('right free) ('center (/ free 2)) (_ 0))))
          (when (or (< before start) (= before first))
            (agent-q-markdown--table-between before start (agent-q-markdown--table-border blanks (1+ left))))
          (when (> width room)
            (agent-q-markdown--table-shorten start end room))
          (setq before end
                blanks (1+ (- free left)))))
    (when before
      (let ((end (save-excursion (goto-char before) (line-end-position))))
        (agent-q-markdown--table-between before end (agent-q-markdown--table-end blanks more))))))

(defun agent-q-markdown--table-end (blanks more)
  "Return the end of a row whose last cell has BLANKS behind it, and then MORE."
  (let ((border (agent-q-markdown--table-border blanks 0)))
    (if (string-empty-p more) border
      (concat border (propertize more 'face '(agent-q-markup agent-q-code))))))

(defun agent-q-markdown--table-between (start end border)
  "Show BORDER from START to END, if there is something."
  (when (< start end)
    ;; One string on neighbours would be shown once for both.
    (put-text-property start end 'display
                       (if (eq border (get-text-property (max (1- start) (point-min)) 'display))
                           (copy-sequence border)
                         border))))

(defun agent-q-markdown--table-shorten (start end room)
  "Show no more than ROOM columns of the cell from START to END."
  (let ((place start) (width 0)
        (hidden (agent-q-markdown--hidden-p)))
    (while (and (< place end) (< width (1- room)))
      (let* ((drawn (and hidden (get-text-property place 'agent-q-formula)))
             (more (cond (drawn (string-width drawn))
                         ((and hidden (get-text-property place 'invisible)) 0)
                         (t (char-width (char-after place))))))
        (if (and drawn (> (+ width more) (1- room)))
            ;; A formula is shown whole or not at all.
            (setq width room)
          (cl-incf width more)
          (setq place (if drawn (next-single-char-property-change place 'agent-q-formula nil end)
                        (1+ place))))))
    (when (< place end)
      (put-text-property place end 'display (agent-q-markdown--table-ellipsis)))))

(defun agent-q-markdown-table-refresh ()
  "Align the tables of this buffer again."
  (with-silent-modifications
    (save-excursion
      (save-restriction
        (widen)
        (let ((place (point-min)) (room (agent-q-markdown--table-room)))
          (while (setq place (text-property-not-all place (point-max) 'agent-q-markdown-table nil))
            (let ((table (get-text-property place 'agent-q-markdown-table))
                  (end (next-single-char-property-change place 'agent-q-markdown-table)))
              ;; What is above may have grown since.
              (setf (agent-q-markdown-table-end table)
                    (+ place (- (agent-q-markdown-table-end table) (agent-q-markdown-table-start table)))
                    (agent-q-markdown-table-start table) place)
              (unless (agent-q-markdown-table-large table)
                (agent-q-markdown--table-align table room))
              (setq place end))))))))

;;;;; Windows of another width

(defvar-local agent-q-markdown--table-aligned-for nil
  "Width for which the tables of this buffer were aligned, or nil.")

(defvar-local agent-q-markdown--table-timer nil
  "The timer that will align the tables of this buffer again, or nil.")

(defun agent-q-markdown-table-watch ()
  "Align the tables of this buffer again when its windows change their width."
  (add-hook 'window-size-change-functions #'agent-q-markdown--table-resized nil t))

(defun agent-q-markdown--table-resized (window)
  "Align tables soon if WINDOW made that necessary."
  (with-current-buffer (window-buffer window)
    (let ((room (agent-q-markdown--table-room)))
      (unless (or agent-q-markdown--table-timer (eql room agent-q-markdown--table-aligned-for))
        (setq agent-q-markdown--table-aligned-for room
              agent-q-markdown--table-timer
              (run-with-idle-timer 0.2 nil #'agent-q-markdown--table-refresh-in (current-buffer)))))))

(defun agent-q-markdown--table-refresh-in (buffer)
  "Align the tables of BUFFER, if it is still there."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-markdown--table-timer nil
            agent-q-markdown--table-aligned-for (agent-q-markdown--table-room))
      (agent-q-markdown-table-refresh))))

;;;;; Whole tables

(defun agent-q-markdown-table-show ()
  "Show the table at point in a buffer of its own, whole."
  (interactive nil agent-q-chat-mode)
  (let* ((table (or (get-text-property (point) 'agent-q-markdown-table)
                    (user-error "No table here")))
         (start (if (and (> (point) (point-min))
                         (eq table (get-text-property (1- (point)) 'agent-q-markdown-table)))
                    (previous-single-char-property-change (point) 'agent-q-markdown-table)
                  (point)))
         (text (buffer-substring start (next-single-char-property-change
                                        start 'agent-q-markdown-table))))
    (with-current-buffer (get-buffer-create "*agent-q table*")
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert text)
        (remove-text-properties (point-min) (point-max) '(read-only nil invisible nil))
        (agent-q-markdown--table-withdraw-whole)
        (when (< (buffer-size) agent-q-markdown--table-whole-limit)
          (let ((copy (copy-sequence table)))
            (setf (agent-q-markdown-table-start copy) (point-min)
                  (agent-q-markdown-table-end copy) (point-max))
            (agent-q-markdown--table-align copy most-positive-fixnum)))
        (goto-char (point-min)))
      (agent-q-render-body-page-mode)
      (agent-q-render-body-pitch-setup)
      (setq-local truncate-lines t))
    (pop-to-buffer "*agent-q table*")))

(defun agent-q-markdown--table-withdraw-whole ()
  "Leave no place in this buffer where RET is about a whole table."
  (let ((place (point-min)))
    (while (< place (point-max))
      (let ((next (next-single-property-change place 'keymap nil (point-max))))
        (when (eq agent-q-markdown-table-map (get-text-property place 'keymap))
          (remove-text-properties place next '(keymap nil help-echo nil)))
        (setq place next)))))

(defun agent-q-markdown-table-eldoc (callback)
  "Tell CALLBACK how to see all of the table at point, if some is left out.
For `eldoc-documentation-functions'."
  (when (eq agent-q-markdown-table-map (get-text-property (point) 'keymap))
    (funcall callback "RET shows the whole table")))

(defun agent-q-markdown-table-show-mouse (event)
  "Show the table that EVENT clicked on in a buffer of its own."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-markdown-table-show))

;;;; Formulas in answers

;; What a formula looks like as text is shown by a display property, as long as
;; markup is hidden.

(defun agent-q-markdown--hidden-p ()
  "Whether markup is hidden in this buffer."
  (memq 'agent-q-markup (ensure-list buffer-invisibility-spec)))

(defun agent-q-markdown--formula-put (start end drawn)
  "Show DRAWN instead of the formula from START to END.
Where this terminal can't show it, the formula stays as it is written."
  (if (not (seq-every-p #'char-displayable-p drawn))
      (put-text-property start end 'face 'agent-q-inline-code)
    ;; Neighbours that are drawn alike have strings of their own.
    (put-text-property start end 'agent-q-formula (copy-sequence drawn))
    (put-text-property start end 'help-echo
                       (agent-q-text-visible-line (buffer-substring-no-properties start end)))
    (agent-q-markdown--show-formulas start end)))

(defun agent-q-markdown--show-formulas (start end)
  "Show the formulas from START to END as text while markup is hidden."
  (let ((place start))
    (while (setq place (text-property-not-all place end 'agent-q-formula nil))
      (let ((drawn (get-text-property place 'agent-q-formula))
            (next (next-single-char-property-change place 'agent-q-formula nil end)))
        (put-text-property place next 'display
                           `(when (agent-q-markdown--hidden-p) . ,drawn))
        (setq place next)))))

;;;; How the text of answers looks

;;;;; Faces

(dolist (level '(1 2 3 4 5 6))
  (custom-declare-face
   (intern (format "agent-q-heading-%d" level))
   `((t :inherit ,(intern (format "outline-%d" level)) :weight bold))
   (format "Headings of level %d in answers." level)
   :group 'agent-q-faces))

(defface agent-q-strong '((t :inherit bold))
  "Strong emphasis in answers."
  :group 'agent-q-faces)

(defface agent-q-emphasis '((t :inherit italic))
  "Emphasis in answers."
  :group 'agent-q-faces)

(defface agent-q-strike '((t :strike-through t))
  "Face for struck-out text in answers."
  :group 'agent-q-faces)

(defface agent-q-inline-code '((t :inherit (agent-q-code font-lock-constant-face)))
  "Code within the lines of answers."
  :group 'agent-q-faces)

(defface agent-q-markup '((t :inherit shadow))
  "Markdown markup in answers."
  :group 'agent-q-faces)

(defface agent-q-rule '((((supports :underline t)) :inherit agent-q-markup :underline t)
                        (t :inherit agent-q-markup))
  "Lines across the window that part an answer."
  :group 'agent-q-faces)

(defface agent-q-quote '((t :inherit font-lock-doc-face))
  "Quotes in answers."
  :group 'agent-q-faces)

(defface agent-q-list-mark '((t :inherit font-lock-builtin-face))
  "The marks of the items of lists in answers."
  :group 'agent-q-faces)

(defface agent-q-table-head '((t :inherit bold))
  "The heads of tables in answers."
  :group 'agent-q-faces)

;;;;; Hiding markup

(defcustom agent-q-markdown-hide-markup t
  "Whether to hide Markdown markup in answers.
What you copy still has it.  This is for new chats;
\\[agent-q-toggle-markup] changes the current one."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defun agent-q-markdown-setup ()
  "Make the current buffer ready for answers."
  ;; A new list: showing markup takes the element out of it.
  (setq buffer-invisibility-spec
        (if agent-q-markdown-hide-markup (list t 'agent-q-markup) (list t)))
  (add-hook 'fontification-functions #'agent-q-markdown-dress nil t)
  (agent-q-render-body-pitch-setup)
  (agent-q-markdown-table-watch))

;;;###autoload
(defun agent-q-toggle-markup ()
  "Hide Markdown markup in this chat, or show it again."
  (interactive)
  (if (agent-q-markdown--hidden-p)
      (remove-from-invisibility-spec 'agent-q-markup)
    (add-to-invisibility-spec 'agent-q-markup))
  (agent-q-markdown-table-refresh)
  (force-window-update (current-buffer)))

;;;;; Styles

;; A style is a number of the core's; the same bits are in src/markdown/style.rs.

(defconst agent-q-markdown--faces
  '((0 . agent-q-strong) (1 . agent-q-emphasis) (2 . agent-q-strike)
    (3 . agent-q-inline-code) (8 . agent-q-markup) (9 . agent-q-markup)
    (11 . agent-q-list-mark) (14 . agent-q-table-head) (19 . agent-q-inline-code))
  "The faces of the bits of a style.")

(defvar agent-q-markdown--properties (make-hash-table)
  "The text properties of each style that was met.")

(defun agent-q-markdown--bit (style bit)
  "Whether BIT is set in STYLE."
  (/= 0 (logand style (ash 1 bit))))

(defun agent-q-markdown--bar ()
  "Return the sign at the left of quotes, as this terminal can show it."
  (if (char-displayable-p ?▌) "▌" "|"))

(defun agent-q-markdown--face (style)
  "Return the face or the faces of STYLE, or nil."
  (let ((faces (cl-loop for (bit . face) in agent-q-markdown--faces
                        when (agent-q-markdown--bit style bit) collect face))
        (heading (logand 7 (ash style -20)))
        (quoted (/= 0 (logand 15 (ash style -23)))))
    (when (agent-q-markdown--bit style 10)
      (push 'agent-q-markup faces))
    (when (agent-q-markdown--bit style 12)
      (setq faces (list 'agent-q-rule)))
    (when (agent-q-markdown--bit style 8)
      (setq faces (delq 'agent-q-strike faces)))
    (when (and (agent-q-markdown--bit style 7) (not (memq 'agent-q-markup faces)))
      (push 'link faces))
    (when (/= heading 0)
      (setq faces (append faces (list (intern (format "agent-q-heading-%d" heading))))))
    (when (and quoted (not (agent-q-markdown--bit style 4)))
      (setq faces (append faces '(agent-q-quote))))
    (cond ((agent-q-markdown--bit style 4) (setq faces (append faces '(agent-q-code-block))))
          ;; The first line of a fence is its label, and the last one is seen with the markup only.
          ((agent-q-markdown--bit style 6) (setq faces (list 'agent-q-code-label)))
          ((agent-q-markdown--bit style 13) (setq faces (append faces '(agent-q-code)))))
    (if (cdr faces) faces (car faces))))

(defun agent-q-markdown--prefix (style)
  "Return how the lines of STYLE hang when they are wrapped, or nil."
  (let* ((depth (logand 15 (ash style -23)))
         (indent (logand 63 (ash style -27)))
         (bars (apply #'concat (make-list depth (concat (agent-q-markdown--bar) " "))))
         (code (if (agent-q-markdown--bit style 4) 2 0)))
    (when (> (+ indent depth code) 0)
      (concat (propertize bars 'face 'agent-q-markup)
              (let ((blanks (make-string (max 0 (- (+ indent code) (length bars))) ?\s)))
                (if (= code 0) blanks (propertize blanks 'face 'agent-q-code-block)))))))

(defconst agent-q-markdown--code-prefix (propertize "  " 'face 'agent-q-code-block)
  "What stands before the lines of a block of code.")

(defun agent-q-markdown--make-properties (style)
  "Return the text properties of STYLE."
  (let ((face (agent-q-markdown--face style))
        (prefix (agent-q-markdown--prefix style)))
    `(read-only t
      ,@(and face (list 'face face))
      ,@(and prefix (list 'wrap-prefix prefix))
      ,@(and (agent-q-markdown--bit style 8) '(invisible agent-q-markup))
      ,@(and (agent-q-markdown--bit style 16) '(agent-q-soft t))
      ;; The text of code within a line, and what is a name or emphasized.
      ,@(cond ((agent-q-markdown--bit style 8) nil)
              ((agent-q-markdown--bit style 3) '(agent-q-word code))
              ((agent-q-markdown--bit style 17) '(agent-q-word starred)))
      ,@(cond ((agent-q-markdown--bit style 5)
               `(agent-q-code t agent-q-gutter t line-prefix ,agent-q-markdown--code-prefix))
              ((agent-q-markdown--bit style 4)
               `(agent-q-code t line-prefix ,agent-q-markdown--code-prefix))
              ;; The last line may be hidden, and would lend it to what is behind it.
              ((and (agent-q-markdown--bit style 6) (agent-q-markdown--bit style 9))
               `(line-prefix ,agent-q-markdown--code-prefix))
              ;; A model's line that begins like one of ours isn't ours.
              ((agent-q-markdown--bit style 15)
               (list 'line-prefix (propertize "| " 'face 'agent-q-markup)
                     'agent-q-disguise t)))
      ,@(cond ((agent-q-markdown--bit style 10) (list 'display (agent-q-markdown--bar)))
              ;; To the edge of the window, however wide that is.
              ((agent-q-markdown--bit style 12) '(display (space :align-to (- right 1))))))))

(defun agent-q-markdown-fence-end-p (place)
  "Whether PLACE is in the last line of a fence, which may be hidden."
  (and (eq 'agent-q-markup (get-text-property place 'invisible))
       (eq 'agent-q-code-label (get-text-property place 'face))
       (null (get-text-property place 'line-prefix))))

(defun agent-q-markdown--of-style (style)
  "Return the text properties of STYLE."
  (or (gethash style agent-q-markdown--properties)
      (puthash style (agent-q-markdown--make-properties style)
               agent-q-markdown--properties)))

;;;;; Old answers

;; The looks of an answer take far more memory than its text, and most of a long chat is
;; never seen again.

(defconst agent-q-markdown--kept '(30 . 50000)
  "The number of the latest answers that keep their looks, and of their characters.")

(defconst agent-q-markdown--longest-bare 30000
  "The number of characters from which on an answer keeps its looks.
It is read again as a whole, which takes 20 ms for so many.")

(defconst agent-q-markdown--undressed-at-once 8
  "Most answers whose looks are taken at a time.")

(defvar agent-q-markdown-past nil
  "Non-nil while an answer of an earlier time is put into the log, or read again.")

(defvar-local agent-q-markdown--dressed nil
  "The answers that have looks, those that got them latest first.
Each is a list of the markers of its start and end, and the width of its
lines.")

(defun agent-q-markdown--ask-for-bare-only ()
  "Have redisplay ask for text properties only where an answer is bare.
Where jit-lock is used, it has to be asked about all text."
  (if (bound-and-true-p jit-lock-mode)
      (kill-local-variable 'default-text-properties)
    (setq-local default-text-properties '(fontified t))))

(defun agent-q-markdown--undress-old ()
  "Make old answers bare that are out of sight."
  (pcase-let ((`(,count . ,characters) agent-q-markdown--kept)
              (old nil))
    (pcase-dolist ((and answer `(,start ,end ,_)) agent-q-markdown--dressed)
      (when (and (or (<= count 0) (<= characters 0))
                 (< (- end start) agent-q-markdown--longest-bare)
                 (not (agent-q-markdown--in-sight-p start end)))
        (push answer old))
      (cl-decf count)
      (cl-decf characters (- end start)))
    (pcase-dolist ((and answer `(,start ,end ,width))
                   (seq-take old agent-q-markdown--undressed-at-once))
      (setq agent-q-markdown--dressed (delq answer agent-q-markdown--dressed))
      (agent-q-markdown--undress start end width)
      (set-marker start nil)
      (set-marker end nil))))

(defun agent-q-markdown--in-sight-p (start end)
  "Whether some of what is from START to END is in a window."
  (seq-some (lambda (window)
              (and (< start (window-end window)) (> end (window-start window))))
            (get-buffer-window-list nil t t)))

(defun agent-q-markdown--undress (start end width)
  "Make the answer from START to END bare; its lines are broken after WIDTH."
  (let ((soft nil) (place start))
    (while (setq place (text-property-any place end 'agent-q-soft t))
      (push place soft)
      (setq place (1+ place)))
    ;; As one stretch; each of those before would get a list of its own.
    (set-text-properties start end nil)
    ;; Neighbours differ in the list.
    (set-text-properties start end (list 'read-only t 'fontified nil
                                         'agent-q-bare (list width)))
    (dolist (place soft)
      (put-text-property place (1+ place) 'agent-q-soft t))))

(defun agent-q-markdown-dress (place)
  "Dress the answer at PLACE, if it is bare.
For `fontification-functions'."
  (when (and (< place (point-max)) (get-text-property place 'agent-q-bare))
    (save-match-data
      (save-excursion
        (save-restriction
          (widen)
          (with-silent-modifications
            (agent-q-markdown--read-again
             (previous-single-property-change (1+ place) 'agent-q-bare nil (point-min))
             (next-single-property-change place 'agent-q-bare nil (point-max)))))))))

(defun agent-q-markdown--read-again (start end)
  "Dress the bare answer from START to END."
  (let* ((width (car (get-text-property start 'agent-q-bare)))
         (document (agent-q-core-markdown-document width))
         (text (agent-q-markdown-written start end))
         (agent-q-markdown-past t))
    (push (list (copy-marker start) (copy-marker end) width) agent-q-markdown--dressed)
    (agent-q-markdown--apply start (cdr (agent-q-core-markdown-feed document text)) nil)
    (agent-q-markdown--apply start (cdr (agent-q-core-markdown-finish document)) t)))

(defun agent-q-markdown-written (start end)
  "Return the text of the log from START to END as it was received.
It has no properties."
  (let ((parts nil) soft)
    (while (setq soft (text-property-any start end 'agent-q-soft t))
      (push (buffer-substring-no-properties start soft) parts)
      (setq start (1+ soft)))
    (push (buffer-substring-no-properties start end) parts)
    (apply #'concat (nreverse parts))))

(defun agent-q-markdown-seek (property forward &optional limit)
  "Dress bare answers after point until one has the text property PROPERTY.
They are those before point unless FORWARD, and none beyond LIMIT."
  (let ((beyond (if forward #'> #'<))
        (next (if forward #'next-single-property-change #'previous-single-property-change))
        bare found)
    (while (and (setq bare (agent-q-markdown--next-bare forward))
                (not (and limit (funcall beyond bare limit)))
                (not (and (setq found (funcall next (point) property))
                          (funcall beyond bare found))))
      (agent-q-markdown-dress bare))))

(defun agent-q-markdown--next-bare (forward)
  "Return the next bare place after point, or before unless FORWARD, or nil."
  (if forward
      (text-property-not-all (point) (point-max) 'agent-q-bare nil)
    (let ((place (point)))
      (while (and place (> place (point-min))
                  (null (get-text-property (1- place) 'agent-q-bare)))
        (setq place (previous-single-property-change place 'agent-q-bare)))
      (and place (> place (point-min)) (1- place)))))

;;;;; Texts that grow

(cl-defstruct (agent-q-markdown (:constructor agent-q-markdown--make) (:copier nil))
  "A text that grows: the core's DOCUMENT, and the marker START of its beginning.
Its lines are broken after WIDTH characters."
  document start width)

(defun agent-q-markdown-begin (start width)
  "Return a text that begins at START and whose lines are broken after WIDTH."
  (agent-q-markdown--ask-for-bare-only)
  (agent-q-markdown--make :document (agent-q-core-markdown-document width)
                          :start (copy-marker start) :width width))

(defun agent-q-markdown-grow (markdown text)
  "Insert TEXT at point, where MARKDOWN ends, and show it as Markdown.
Point is behind it then."
  (pcase-let ((`(,breaks . ,changes)
               (agent-q-core-markdown-feed (agent-q-markdown-document markdown) text))
              (from 0))
    (if (= (point) (agent-q-markdown-start markdown))
        (insert (propertize (substring text 0 1) 'read-only t)
                (propertize (substring text 1) 'read-only t))
      ;; Inheriting makes the stretch of properties longer instead of adding one.
      (if (null breaks)
          (insert-and-inherit text)
        (dolist (break breaks)
          (insert-and-inherit (substring text from break))
          (agent-q-markdown--break)
          (setq from break))
        (insert-and-inherit (substring text from))
        (setq breaks nil)))
    (when breaks
      ;; The first piece of an answer may be long, too.
      (goto-char (agent-q-markdown-start markdown))
      (cl-loop for break in breaks
               for more from 0
               do (goto-char (+ (agent-q-markdown-start markdown) break more))
               (agent-q-markdown--break))
      (goto-char (+ (agent-q-markdown-start markdown) (length text) (length breaks))))
    (unless agent-q-markdown-past
      (save-excursion
        (agent-q-markdown--apply (marker-position (agent-q-markdown-start markdown))
                                 changes (point))))))

(defun agent-q-markdown--break ()
  "Insert a line end that the model did not write."
  (insert (propertize "\n" 'read-only t 'agent-q-soft t 'rear-nonsticky '(agent-q-soft))))

(defun agent-q-markdown-end (markdown end)
  "Show all of MARKDOWN, which ends at END and doesn't grow any more."
  (let ((start (agent-q-markdown-start markdown))
        (width (agent-q-markdown-width markdown)))
    (if agent-q-markdown-past
        (progn (agent-q-markdown--undress start end width)
               (set-marker start nil))
      (save-excursion
        (agent-q-markdown--apply (marker-position start)
                                 (cdr (agent-q-core-markdown-finish
                                       (agent-q-markdown-document markdown)))
                                 nil))
      (push (list start (copy-marker end) width) agent-q-markdown--dressed)
      (agent-q-markdown--undress-old))))

(defun agent-q-markdown--apply (start news end)
  "Show the text that begins at START with NEWS, what the core said of it.
END is where the text ends that still grows, or nil when it is complete."
  (pcase-let* ((`(,from ,runs ,parts) news)
               (position (+ start from))
               (index 0)
               (count (length runs)))
    (while (< index count)
      (let ((end (+ position (aref runs index)))
            (properties (agent-q-markdown--of-style (aref runs (1+ index)))))
        ;; What was inherited is right most times, and stays one stretch then.
        (unless (and (= index 0)
                     (equal (text-properties-at position) properties)
                     (= (next-property-change position nil end) end))
          (set-text-properties position end properties))
        (setq position end
              index (+ index 2))))
    (dolist (part parts)
      (pcase part
        (`(link ,from ,to ,target)
         (agent-q-markdown-link-put (+ start from) (+ start to) target))
        (`(formula ,from ,to ,drawn)
         (agent-q-markdown--formula-put (+ start from) (+ start to) drawn))
        (`(code ,from ,to ,language)
         (agent-q-code-highlight-closed (+ start from) (+ start to) language))
        (`(table . ,table)
         (agent-q-markdown-table-put start table end))))))

(provide 'agent-q-markdown)
;;; agent-q-markdown.el ends here
