;;; agent-q-table.el --- Tables in answers  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The columns of a table are aligned by display properties on what stands
;; between its cells; the characters stay.  A table that is too wide for the
;; window has its cells shortened, one that is large is shown as it is written;
;; RET on either shows the whole.

;;; Code:

(require 'agent-q-pitch)
(require 'agent-q-render-body)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(defconst agent-q-table--limit 20000
  "Most characters of a table that is aligned; longer ones are shown as written.")

(defconst agent-q-table--growing 3000
  "A table of more characters is aligned only when it is complete.")

(defconst agent-q-table--columns 40
  "Most columns of a table that is aligned; wider ones are shown as written.")

(defconst agent-q-table--whole-limit 200000
  "Most characters of a table that is aligned in a buffer of its own.")

(defconst agent-q-table--narrowest 4
  "Fewest characters to which a column is narrowed to fit the window.")

(defvar agent-q-table-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "RET") #'agent-q-table-show)
    (define-key map [mouse-2] #'agent-q-table-show-mouse)
    map)
  "Keymap on tables that are not shown whole.")

(cl-defstruct (agent-q-table (:constructor agent-q-table--make) (:copier nil))
  "A table: markers of its START and END, its ALIGNMENTS, ROWS and DASHES.
A row is a list of places, start and end of each cell, from START on.
LARGE is non-nil if it is shown as written."
  start end alignments rows dashes large)

(defun agent-q-table-put (origin table growing)
  "Align TABLE, which the core reported; its places are counted from ORIGIN.
GROWING is where the text ends that still grows, or nil when it is complete."
  (pcase-let ((`(,from ,to ,alignments ,rows ,dashes-from ,dashes-to) table))
    (let ((complete (not (and growing (agent-q-table--open-p (+ origin to) growing))))
          (large (or (> (length alignments) agent-q-table--columns)
                     (>= (- to from) agent-q-table--limit))))
      (when (or complete (and (not large) (< (- to from) agent-q-table--growing)))
        (let ((table (agent-q-table--make
                      :start (+ origin from) :end (+ origin to) :alignments alignments
                      :rows (mapcar (lambda (row) (mapcar (lambda (it) (- it from)) row)) rows)
                      :dashes (cons (- dashes-from from) (- dashes-to from))
                      :large large)))
          (if large (agent-q-table--offer-whole table)
            (agent-q-table--align table (agent-q-table--room)))
          (put-text-property (+ origin from) (+ origin to) 'agent-q-table table))))))

(defun agent-q-table--open-p (end growing)
  "Whether a table that ends at END may go on: GROWING is where the text ends."
  (save-excursion
    (goto-char end)
    (skip-chars-forward "\n" growing)
    (>= (point) growing)))

(defun agent-q-table--offer-whole (table)
  "Let RET on TABLE show the whole table."
  (let ((place (agent-q-table-start table))
        (end (agent-q-table-end table)))
    (while (< place end)
      (let ((next (next-single-property-change place 'keymap nil end)))
        ;; A link in it is followed.
        (unless (get-text-property place 'keymap)
          (add-text-properties place next
                               (list 'keymap agent-q-table-map
                                     'help-echo "RET: the whole table")))
        (setq place next)))))

(defun agent-q-table--room ()
  "Return how many columns a table may have here."
  (max 20 (1- (cl-loop for window in (get-buffer-window-list nil nil t)
                       minimize (window-body-width window) into least
                       finally return (if (and least (> least 0)) least 80)))))

(defun agent-q-table--shown (start end)
  "Return the text from START to END as it is shown."
  (if (not (memq 'agent-q-markup (ensure-list buffer-invisibility-spec)))
      (buffer-substring-no-properties start end)
    (let ((texts nil) (place start))
      (while (< place end)
        (let ((next (next-single-char-property-change place 'invisible nil end)))
          (unless (get-text-property place 'invisible)
            (push (buffer-substring-no-properties place next) texts))
          (setq place next)))
      (apply #'concat (nreverse texts)))))

(defun agent-q-table--cells (table row)
  "Return the cells of ROW of TABLE, each a list (START END WIDTH)."
  (cl-loop for (from to) on row by #'cddr
           for start = (+ from (agent-q-table-start table))
           for end = (+ to (agent-q-table-start table))
           collect (list start end (string-width (agent-q-table--shown start end)))))

(defun agent-q-table--fit (widths room)
  "Return WIDTHS, made smaller so that the table takes no more than ROOM columns."
  (let* ((around (1+ (* 3 (length widths))))
         (over (- (+ around (apply #'+ widths)) room))
         (widths (copy-sequence widths)))
    (while (and (> over 0)
                (> (apply #'max widths) agent-q-table--narrowest))
      (let* ((widest (apply #'max widths))
             (place (seq-position widths widest)))
        (setf (nth place widths) (1- widest))
        (cl-decf over)))
    widths))

(defun agent-q-table--in-room (widths room)
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

(defun agent-q-table--ellipsis ()
  "Return the sign for what is left out, as this terminal can show it."
  (if (char-displayable-p ?…) "…" "."))

(defun agent-q-table--align (table room)
  "Align TABLE so that it takes no more than ROOM columns, if that can be."
  (let* ((start (agent-q-table-start table))
         (rows (mapcar (lambda (row) (agent-q-table--cells table row))
                       (agent-q-table-rows table)))
         (columns (length (agent-q-table-alignments table)))
         (wanted (cl-loop for column below columns
                          collect (cl-loop for row in rows
                                           maximize (or (nth 2 (nth column row)) 0))))
         (widths (agent-q-table--in-room (agent-q-table--fit wanted room) room))
         (more (if (nthcdr (length widths) wanted) (concat " " (agent-q-table--ellipsis)) "")))
    (remove-text-properties start (agent-q-table-end table) '(display nil))
    (dolist (row rows)
      (agent-q-table--align-row row widths (agent-q-table-alignments table) more))
    (let ((dashes (agent-q-table-dashes table)))
      (agent-q-table--show
       (+ start (car dashes)) (+ start (cdr dashes))
       (concat "|" (mapconcat (lambda (width) (make-string (+ 2 width) ?-)) widths "+") "|"
               more)))
    (unless (equal widths wanted)
      (agent-q-table--offer-whole table))))

(defun agent-q-table--show (start end text)
  "Show TEXT instead of what is from START to END."
  (when (< start end)
    (put-text-property start end 'display (propertize text 'face '(agent-q-markup agent-q-code)))))

(defvar agent-q-table--borders (make-hash-table :test #'equal)
  "Cache of the text between cells, by the blanks before and after the line.")

(defun agent-q-table--border (before after)
  "Return a line between cells with BEFORE and AFTER blanks.
Most tables need the same few, so they are kept."
  (let ((key (cons before after)))
    (or (gethash key agent-q-table--borders)
        (puthash key (propertize (concat (make-string before ?\s) "|" (make-string after ?\s))
                                 'face '(agent-q-markup agent-q-code))
                 agent-q-table--borders))))

(defun agent-q-table--align-row (cells widths alignments more)
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
            (agent-q-table--between before start (agent-q-table--border blanks (1+ left))))
          (when (> width room)
            (agent-q-table--shorten start end room))
          (setq before end
                blanks (1+ (- free left)))))
    (when before
      (let ((end (save-excursion (goto-char before) (line-end-position))))
        (agent-q-table--between before end (agent-q-table--end blanks more))))))

(defun agent-q-table--end (blanks more)
  "Return the end of a row whose last cell has BLANKS behind it, and then MORE."
  (let ((border (agent-q-table--border blanks 0)))
    (if (string-empty-p more) border
      (concat border (propertize more 'face '(agent-q-markup agent-q-code))))))

(defun agent-q-table--between (start end border)
  "Show BORDER from START to END, if there is something."
  (when (< start end)
    ;; One string on neighbours would be shown once for both.
    (put-text-property start end 'display
                       (if (eq border (get-text-property (max (1- start) (point-min)) 'display))
                           (copy-sequence border)
                         border))))

(defun agent-q-table--shorten (start end room)
  "Show no more than ROOM columns of the cell from START to END."
  (let ((place start) (width 0)
        (hidden (memq 'agent-q-markup (ensure-list buffer-invisibility-spec))))
    (while (and (< place end) (< width (1- room)))
      (unless (and hidden (get-text-property place 'invisible))
        (cl-incf width (char-width (char-after place))))
      (cl-incf place))
    (when (< place end)
      (put-text-property place end 'display (agent-q-table--ellipsis)))))

(defun agent-q-table-refresh ()
  "Align the tables of this buffer again."
  (with-silent-modifications
    (save-excursion
      (save-restriction
        (widen)
        (let ((place (point-min)) (room (agent-q-table--room)))
          (while (setq place (text-property-not-all place (point-max) 'agent-q-table nil))
            (let ((table (get-text-property place 'agent-q-table))
                  (end (next-single-char-property-change place 'agent-q-table)))
              ;; What is above may have grown since.
              (setf (agent-q-table-end table)
                    (+ place (- (agent-q-table-end table) (agent-q-table-start table)))
                    (agent-q-table-start table) place)
              (unless (agent-q-table-large table)
                (agent-q-table--align table room))
              (setq place end))))))))

;;;; Windows of another width

(defvar-local agent-q-table--aligned-for nil
  "Width for which the tables of this buffer were aligned, or nil.")

(defvar-local agent-q-table--timer nil
  "The timer that will align the tables of this buffer again, or nil.")

(defun agent-q-table-watch ()
  "Align the tables of this buffer again when its windows change their width."
  (add-hook 'window-size-change-functions #'agent-q-table--resized nil t))

(defun agent-q-table--resized (window)
  "Align tables soon if WINDOW made that necessary."
  (with-current-buffer (window-buffer window)
    (let ((room (agent-q-table--room)))
      (unless (or agent-q-table--timer (eql room agent-q-table--aligned-for))
        (setq agent-q-table--aligned-for room
              agent-q-table--timer
              (run-with-idle-timer 0.2 nil #'agent-q-table--refresh-in (current-buffer)))))))

(defun agent-q-table--refresh-in (buffer)
  "Align the tables of BUFFER, if it is still there."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq agent-q-table--timer nil
            agent-q-table--aligned-for (agent-q-table--room))
      (agent-q-table-refresh))))

;;;; Whole tables

(defun agent-q-table-show ()
  "Show the table at point in a buffer of its own, whole."
  (interactive nil agent-q-chat-mode)
  (let* ((table (or (get-text-property (point) 'agent-q-table)
                    (user-error "No table here")))
         (start (if (and (> (point) (point-min))
                         (eq table (get-text-property (1- (point)) 'agent-q-table)))
                    (previous-single-char-property-change (point) 'agent-q-table)
                  (point)))
         (text (buffer-substring start (next-single-char-property-change
                                        start 'agent-q-table))))
    (with-current-buffer (get-buffer-create "*agent-q table*")
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert text)
        (remove-text-properties (point-min) (point-max) '(read-only nil invisible nil))
        (agent-q-table--withdraw-whole)
        (when (< (buffer-size) agent-q-table--whole-limit)
          (let ((copy (copy-sequence table)))
            (setf (agent-q-table-start copy) (point-min)
                  (agent-q-table-end copy) (point-max))
            (agent-q-table--align copy most-positive-fixnum)))
        (goto-char (point-min)))
      (agent-q-page-mode)
      (agent-q-pitch-setup)
      (setq-local truncate-lines t))
    (pop-to-buffer "*agent-q table*")))

(defun agent-q-table--withdraw-whole ()
  "Leave no place in this buffer where RET is about a whole table."
  (let ((place (point-min)))
    (while (< place (point-max))
      (let ((next (next-single-property-change place 'keymap nil (point-max))))
        (when (eq agent-q-table-map (get-text-property place 'keymap))
          (remove-text-properties place next '(keymap nil help-echo nil)))
        (setq place next)))))

(defun agent-q-table-eldoc (callback)
  "Tell CALLBACK how to see all of the table at point, if some is left out.
For `eldoc-documentation-functions'."
  (when (eq agent-q-table-map (get-text-property (point) 'keymap))
    (funcall callback "RET shows the whole table")))

(defun agent-q-table-show-mouse (event)
  "Show the table that EVENT clicked on in a buffer of its own."
  (interactive "e" agent-q-chat-mode)
  (mouse-set-point event)
  (agent-q-table-show))

(provide 'agent-q-table)
;;; agent-q-table.el ends here
