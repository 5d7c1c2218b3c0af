;;; agent-q-image-compiled.el --- What compile_form compiled, as a buffer  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A client that is asked for the definition of what compile_form compiled has
;; to show something.  What is in no file is kept here, in a buffer whose name
;; and positions the image is given.

;;; Code:

(require 'lisp-mode)

(defconst agent-q-image-compiled-name "*agent-q compiled forms*"
  "The name of the buffer with the forms that compile_form compiled.")

(defconst agent-q-image-compiled--largest 500000
  "Most characters kept in the buffer.")

(defun agent-q-image-compiled-place (operation arguments)
  "Return arguments on where the forms of a call are shown.
They are added to ARGUMENTS, those of OPERATION; nil for operations
other than one that compiles forms which are in no file."
  (let ((form (plist-get arguments :form)))
    (when (and (equal operation "compile-form") (stringp form)
               (not (plist-get arguments :file)))
      (list :buffer agent-q-image-compiled-name
            :position (agent-q-image-compiled--add form)))))

(defun agent-q-image-compiled--add (form)
  "Put FORM, a text, at the end of the buffer; return its start."
  (with-current-buffer (get-buffer-create agent-q-image-compiled-name)
    (unless (derived-mode-p 'lisp-mode)
      (delay-mode-hooks (lisp-mode))
      (setq buffer-read-only t
            buffer-undo-list t))
    (let ((inhibit-read-only t))
      (when (> (buffer-size) agent-q-image-compiled--largest)
        ;; The client looks around a position for the text itself.
        (delete-region (point-min) (/ (buffer-size) 2)))
      (save-excursion
        (goto-char (point-max))
        (prog1 (point)
          (insert form "\n\n")
          (set-buffer-modified-p nil))))))

(provide 'agent-q-image-compiled)
;;; agent-q-image-compiled.el ends here
