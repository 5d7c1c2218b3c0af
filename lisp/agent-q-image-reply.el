;;; agent-q-image-reply.el --- Reading what an image sent  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A reply comes from a program that anybody may have changed, and `read' knows
;; more than replies have: a list that holds itself, or lists without end.  So a
;; text is looked at before it is read, once from its beginning to its end.

;;; Code:

(defconst agent-q-image-reply--depth 64
  "Deepest nesting of lists in a reply.  Ours are less than ten deep.")

(defun agent-q-image-reply-p (text)
  "Whether TEXT only has the syntax that the Common Lisp half writes.
These are lists, strings, integers, keywords, nil and t."
  (with-temp-buffer
    (insert text)
    (agent-q-image-reply--fine-p)))

(defun agent-q-image-reply--fine-p ()
  "Whether the current buffer only has the syntax of replies."
  (goto-char (point-min))
  (let ((depth 0)
        (fine t))
    (while (and fine
                (progn (skip-chars-forward "a-zA-Z0-9: \n\t-")
                       (not (eobp))))
      (pcase (char-after)
        (?\( (setq depth (1+ depth)
                   fine (<= depth agent-q-image-reply--depth)))
        (?\) (setq depth (1- depth)
                   fine (<= 0 depth)))
        (?\" (setq fine (agent-q-image-reply--skip-string)))
        (_ (setq fine nil)))
      (when fine (forward-char)))
    (and fine (zerop depth))))

(defun agent-q-image-reply--skip-string ()
  "Go from the start of a string to its last quote; return nil without one."
  (forward-char)
  (skip-chars-forward "^\"\\\\")
  (while (and (eq (char-after) ?\\)
              (memq (char-after (1+ (point))) '(?\" ?\\)))
    (forward-char 2)
    (skip-chars-forward "^\"\\\\"))
  (eq (char-after) ?\"))

(defun agent-q-image-reply-read (text)
  "Return the Lisp data that TEXT, a reply of an image, is.
Signal an error when it is none."
  (unless (and (stringp text) (agent-q-image-reply-p text))
    (agent-q-image-reply--refuse))
  (car (read-from-string text)))

(defun agent-q-image-reply--refuse ()
  "Signal that a reply has another syntax than replies have."
  (error "The image sent a reply that can't be understood"))

;;;; Changing a part

(defun agent-q-image-reply-edit (text property function)
  "Return TEXT, a reply, with other properties for each PROPERTY, a keyword.
FUNCTION is called with a value that is a list, and returns the properties that
take the place of PROPERTY and it.  Signal an error when TEXT is not a reply.
Most of a reply is neither read nor written again: it may be long, and its
caller waits for it."
  (with-temp-buffer
    (insert text)
    (unless (agent-q-image-reply--fine-p)
      (agent-q-image-reply--refuse))
    (goto-char (point-min))
    (let ((start nil)
          (head (format "%s (" property)))
      (while (setq start (agent-q-image-reply--find head))
        (let ((value (read (current-buffer))))
          (delete-region start (point))
          (insert (agent-q-image-reply--properties (funcall function value))))))
    (buffer-string)))

(defun agent-q-image-reply--find (head)
  "Go to the list of the next property that begins with HEAD, \":name (\".
Return where the property begins, or nil without one.  Strings have none."
  (let ((start nil)
        (wanted (concat "\"\\|" (regexp-quote head))))
    (while (and (null start) (re-search-forward wanted nil t))
      (goto-char (match-beginning 0))
      (cond ((eq (char-after) ?\")
             (agent-q-image-reply--skip-string)
             (forward-char))
            (t (setq start (point))
               (goto-char (1- (match-end 0))))))
    start))

(defun agent-q-image-reply--properties (properties)
  "Return the list PROPERTIES as a part of a longer one, as a reply has it."
  (let ((print-escape-newlines nil)
        (print-length nil)
        (print-level nil)
        (print-circle nil))
    (mapconcat #'prin1-to-string properties " ")))

(provide 'agent-q-image-reply)
;;; agent-q-image-reply.el ends here
