;;; agent-q-list.el --- Lists that fit their windows  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Tables of which a narrow window shows the columns that matter most.  They are
;; `tabulated-list-mode' below that, and are drawn again when their window's width changes.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'tabulated-list)

(defvar-local agent-q-list--columns nil
  "All columns of this list, as for `agent-q-list-setup'.")

(defvar-local agent-q-list--shown nil
  "The numbers of the columns that are shown.")

(defvar-local agent-q-list--rows nil
  "The function that returns the rows of this list, with all columns.")

(defvar-local agent-q-list--empty nil
  "What stands in this list when it has no row, or nil.")

(defconst agent-q-list-hint " (? menu)"
  "What the mode line of a list says of its keys.")

(defconst agent-q-list--least 16
  "Least width of the last column unless it says so itself.")

(defun agent-q-list-setup (columns rows &optional empty)
  "Make the current buffer a list of COLUMNS, with the entries of ROWS, a function.
A column is (WORTH NAME WIDTH SORT . PROPERTIES), as in
`tabulated-list-format'.  Where the window is too narrow, the columns worth
least are left out.  The last one takes the rest of the line, if its width is 0,
and that is at least its property `:least'.  EMPTY is what
`agent-q-list-print' says when there is no entry, with keys as for
`substitute-command-keys'."
  (setq agent-q-list--columns columns
        agent-q-list--rows rows
        agent-q-list--empty empty
        agent-q-list--shown nil
        tabulated-list-entries #'agent-q-list--entries)
  (setq-local truncate-lines t)
  ;; Unless the list has more to ask for.
  (when (eq revert-buffer-function #'tabulated-list-revert)
    (setq-local revert-buffer-function #'agent-q-list--revert))
  (unless mode-line-process
    (setq mode-line-process agent-q-list-hint))
  (agent-q-list--fit)
  (add-hook 'window-configuration-change-hook #'agent-q-list--refit nil t))

(defun agent-q-list--width ()
  "Return how many characters a line of this list has."
  (let ((window (get-buffer-window nil t)))
    (if window (window-max-chars-per-line window) (max 80 (frame-width)))))

(defun agent-q-list--needs (columns)
  "Return how many characters COLUMNS need."
  (apply #'+ 1 (mapcar (pcase-lambda (`(,_ ,_ ,width ,_ . ,properties))
                         (1+ (if (zerop width)
                                 (or (plist-get properties :least) agent-q-list--least)
                               width)))
                       columns)))

(defun agent-q-list--fitting (width)
  "Return the numbers of the columns that fit into WIDTH."
  (let ((columns (copy-sequence agent-q-list--columns)))
    (while (and (cdr columns) (> (agent-q-list--needs columns) width))
      (let ((least (apply #'min (mapcar #'car columns))))
        (setq columns (delq (seq-find (lambda (column) (eql (car column) least)) columns)
                            columns))))
    (mapcar (lambda (column) (cl-position column agent-q-list--columns)) columns)))

(defun agent-q-list--fit ()
  "Choose the columns for the window; return non-nil if these are others."
  (let ((shown (agent-q-list--fitting (agent-q-list--width))))
    (unless (equal shown agent-q-list--shown)
      (setq agent-q-list--shown shown
            tabulated-list-format
            (vconcat (mapcar (lambda (number) (cdr (nth number agent-q-list--columns))) shown)))
      (unless (seq-some (lambda (column) (equal (car column) (car tabulated-list-sort-key)))
                        tabulated-list-format)
        (setq tabulated-list-sort-key nil))
      (tabulated-list-init-header)
      t)))

(defun agent-q-list--refit ()
  "Draw the list again if its window has room for other columns now."
  (when (and agent-q-list--columns (agent-q-list--fit))
    (agent-q-list-print)))

(defun agent-q-list--revert (&rest _)
  "Draw this list again.  For `revert-buffer-function'."
  (run-hooks 'tabulated-list-revert-hook)
  (agent-q-list-print))

(defun agent-q-list-print ()
  "Draw this list, with point on the same entry; say so if there is none."
  (tabulated-list-print t)
  (when (and agent-q-list--empty (zerop (buffer-size)))
    (let ((inhibit-read-only t))
      (insert (substitute-command-keys agent-q-list--empty))
      (let ((fill-column (max agent-q-list--least (1- (agent-q-list--width)))))
        (fill-region (point-min) (point-max))))
    (goto-char (point-min))))

(defun agent-q-list--entries ()
  "Return the rows of the list with the columns that are shown."
  (mapcar (pcase-lambda (`(,id ,row))
            (list id (vconcat (mapcar (lambda (number) (aref row number))
                                      agent-q-list--shown))))
          (funcall agent-q-list--rows)))

(provide 'agent-q-list)
;;; agent-q-list.el ends here
